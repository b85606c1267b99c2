"""Initial norms (35), (37) and their balance, against the mean and the variance of many draws; planted faults."""

from dataclasses import replace

import numpy as np
import pytest
from iclflow.theory.equations import equation
from iclflow.theory.notation import D, H, R, w_init


def test_initial_norms_of_many_draws():
    """The statistical error of 20,000 draws is below 1 % of the mean and 3 % of the variance."""
    rng = np.random.default_rng(21)
    sizes = {H: 4, R: 2, D: 3, w_init: 0.5}
    variance = {part: float(formula.subs(sizes)) for part, formula in equation("36").statement.items()}
    v = rng.normal(size=(20_000, 4)) * np.sqrt(variance["v"])
    k = rng.normal(size=(20_000, 4, 2 * 3)) * np.sqrt(variance["k"])
    for part, norms in (("v", (v**2).sum(1)), ("k", (k**2).sum((1, 2)))):
        typed = {kind: float(equation("37").statement[f"{part} {kind}"].subs(sizes)) for kind in ("mean", "variance")}
        assert norms.mean() == pytest.approx(typed["mean"], rel=0.02)
        assert norms.var() == pytest.approx(typed["variance"], rel=0.1)
    difference = v[:, 0] ** 2 - (k[:, 0] ** 2).sum(-1)
    assert difference.mean() == pytest.approx(0, abs=0.03 * variance["v"])
    assert difference.var() == pytest.approx(float(equation("37-balance").statement["variance"].subs(sizes)), rel=0.1)


def test_initial_balance_of_many_draws():
    """The mean of 20,000 squared norms, each with a spread about as large as its mean, is known to 1 %."""
    rng = np.random.default_rng(22)
    sizes = {H: 3, D: 2, w_init: 0.5}
    variance = {part: float(formula.subs(sizes)) for part, formula in equation("34").statement.items()}
    w_2 = rng.normal(size=(20_000, 3)) * np.sqrt(variance["v"])
    W_1 = rng.normal(size=(20_000, 3, 4)) * np.sqrt(variance["U"])
    difference = np.einsum("ph,pk->phk", w_2, w_2) - np.einsum("phf,pkf->phk", W_1, W_1)
    assert difference.mean(axis=0) == pytest.approx(np.zeros((3, 3)), abs=0.03 * variance["v"])
    squares = (difference**2).sum((1, 2))
    error = squares.std() / np.sqrt(len(squares))
    assert squares.mean() == pytest.approx(float(equation("35-balance").statement["square"].subs(sizes)), abs=4 * error)


@pytest.mark.parametrize(
    ("number", "part", "planted"),
    [
        ("35", "U variance", lambda typed: typed / D),
        ("37-balance", "mean", lambda _: w_init**2),
        ("35-balance", "square", lambda typed: typed * D**2),
    ],
)
def test_wrong_statements_are_refused(number, part, planted):
    entry = equation(number)
    assert entry.holds()
    wrong = {**entry.parts, part: planted(entry.parts[part])}
    assert not replace(entry, typed=lambda: wrong).holds()
