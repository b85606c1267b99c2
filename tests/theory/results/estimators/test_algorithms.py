"""The converged algorithm: its least loss, long contexts, components, and the initial weights, against numbers."""

from dataclasses import replace

import numpy as np
import pytest
from iclflow.theory.equations import equation
from iclflow.theory.notation import B, D, H, Lambda_hat, M, N, R, beta, lambda_, w, w_init, x_q
from iclflow.theory.results.estimators.algorithms import T, least_loss, level
from quadrature import numbers

EIGENVALUES = np.array([0.4, 0.3, 0.2, 0.1])
COVARIANCE = np.diag(EIGENVALUES)


def second_moment(context):
    return COVARIANCE @ COVARIANCE + (COVARIANCE + np.eye(4)) @ COVARIANCE / context  # tr(Lambda) = 1


def loss(map_, context):
    return numbers(equation("9-closed").statement, {B: map_, M: second_moment(context)}, COVARIANCE, context)


def test_least_loss_is_the_minimum_over_all_maps():
    minimum = np.linalg.inv(second_moment(31)) @ COVARIANCE
    each = equation("16-loss").statement["each"]
    total = sum(float(each.subs({lambda_: value, T: 1, N: 31})) for value in EIGENVALUES)
    assert total == pytest.approx(0.1360, abs=5e-5)  # 0.1360 at N = 31, as in the catalogue of the paper's equations
    assert loss(minimum, 31) == pytest.approx(total, rel=1e-12)
    rng = np.random.default_rng(3)
    for _ in range(10):
        assert loss(minimum + 0.1 * rng.normal(size=(4, 4)), 31) > total
    assert least_loss().parts.keys() == {"map", "each"}


def test_long_context_expansion_has_the_stated_orders():
    """The error of two orders in 1/N falls as N^-3: the measured slope is -3."""
    orders = equation("16-limit").statement
    each = equation("16-loss").statement["each"]

    def error(context):
        exact = sum(float(each.subs({lambda_: value, T: 1, N: context})) for value in EIGENVALUES)
        return exact - sum(numbers(orders[part], {}, COVARIANCE, context) for part in ("first", "second"))

    slope = np.log(error(40_000) / error(10_000)) / np.log(4)
    assert slope == pytest.approx(-3, abs=0.05)


def test_components_and_their_limit():
    context = 7
    force = (
        COVARIANCE @ COVARIANCE
        - second_moment(context)
        @ np.diag([float(level().subs({lambda_: value, T: 1, N: context})) for value in EIGENVALUES])
        @ COVARIANCE
    )
    assert force == pytest.approx(np.zeros((4, 4)), abs=1e-15)
    far = float(level().subs({lambda_: 0.3, T: 1, N: 10**6}))
    assert 10**6 * (far - 1 / 0.3) == pytest.approx(
        float(equation("27").statement["next"].subs({lambda_: 0.3, T: 1})), rel=1e-4
    )


def test_least_squares_in_context_is_exact_with_enough_tokens():
    rng = np.random.default_rng(9)
    tokens, task, query = rng.normal(size=(2, 5)), rng.normal(size=2), rng.normal(size=2)
    context = tokens @ tokens.T / 5
    known = {Lambda_hat: context, beta: context @ task, x_q: query, w: task}
    first = equation("16-ols").derive().steps[0].expression
    assert numbers(first, known, np.eye(2), 5) == pytest.approx(task @ query, rel=1e-12)
    assert numbers(equation("16-ols").statement, known, np.eye(2), 5) == pytest.approx(task @ query, rel=1e-12)


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
        (
            "16-limit",
            "first",
            lambda _: D * equation("16-limit").statement["first"] / (D + 1),
        ),  # D / N, not (1 + D) / N
        ("16-loss", "each", lambda typed: typed.subs(N, N + 1)),
        ("16-large", "next", lambda typed: -typed),
        ("27", "next", lambda typed: typed * lambda_),
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
