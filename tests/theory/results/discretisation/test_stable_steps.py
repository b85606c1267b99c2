"""(V8-stable), (V8-stable-merged): planted faults, and the Hessian of three directions in exact numbers."""

from dataclasses import replace

import numpy as np
import pytest
from iclflow.theory.equations import equation
from iclflow.theory.results.discretisation.stable_steps import b_d, b_j, lambda_d, lambda_j
from sympy import Rational


@pytest.mark.parametrize("number", ["V8-stable", "V8-stable-merged"])
def test_entry_holds(number):
    assert equation(number).holds()


@pytest.mark.parametrize(
    ("number", "part", "change"),
    [
        ("V8-stable", "head", lambda x: x * Rational(2, 3)),
        ("V8-stable", "pair", lambda x: x.subs(b_d, 2 * b_d)),
        ("V8-stable", "unlearned", lambda x: x.subs({b_d: b_j, b_j: b_d}, simultaneous=True)),
        ("V8-stable", "unlearned", lambda x: x.subs(lambda_j, lambda_d)),
        ("V8-stable-merged", "zero", lambda x: x.subs(lambda_j, 0)),
        ("V8-stable-merged", "entry", lambda x: x.subs(b_d, b_j)),
        ("V8-stable-merged", "diagonal", lambda x: x.subs(lambda_d, lambda_j)),
    ],
)
def test_entry_catches_a_fault(number, part, change):
    entry = equation(number)
    assert not replace(entry, typed=lambda: {**entry.typed(), part: change(entry.typed()[part])}).holds()


def test_two_directions_stand_for_three():
    """One learned direction of three: the whole Hessian by finite differences of the loss typed out here."""
    values, levels = np.array([0.5, 0.3, 0.2]), np.array([1.1, 1.4, 1.6])
    moment, r = np.diag(values / levels), levels[1] ** (1 / 3)

    def half(w: np.ndarray) -> float:
        B = w[0] * np.outer(w[1:4], w[4:7])
        return (np.trace(B.T @ moment @ B @ np.diag(values)) - 2 * np.sum(values**2 * np.diag(B))) / 2

    rest, units, step = np.array([r, 0, r, 0, 0, r, 0]), np.eye(7), 1e-4
    hessian = np.array(
        [[sum(s * t * half(rest + step * (s * e + t * f)) for s in (1, -1) for t in (1, -1)) / (4 * step**2) for f in units] for e in units]
    )
    parts = equation("V8-stable").parts
    derived = [parts["head"].subs({lambda_d: 0.3, b_d: 1.4})]
    derived += [parts["unlearned"].subs({lambda_d: 0.3, b_d: 1.4, lambda_j: values[j], b_j: levels[j]}) for j in (0, 2)]
    positive = np.linalg.eigvalsh(hessian)
    for value in map(float, derived):
        assert np.abs(positive - value).min() < 1e-6
    assert max(map(float, derived)) == pytest.approx(positive[-1], abs=1e-6)
