"""(V8-modified), (V8-loss), (V8-drop), (V8-noise): planted faults, and the noise of the force on sampled sequences."""

from dataclasses import replace

import numpy as np
import pytest
from iclflow.theory.equations import equation
from iclflow.theory.notation import Lambda, M, N, T, a, lambda_, v_0
from iclflow.theory.results.discretisation.finite_steps import batch, force_variance, h, mu, u_0
from sympy import Rational, Trace

ENTRIES = ("V8-modified", "V8-loss", "V8-drop", "V8-noise")


@pytest.mark.parametrize("number", ENTRIES)
def test_entry_holds(number):
    assert equation(number).holds()


@pytest.mark.parametrize(
    ("number", "part", "change"),
    [
        ("V8-modified", "descent", lambda x: x.subs(h, 2 * h)),
        ("V8-modified", "heavy ball", lambda x: x.subs(mu, mu / 2)),
        ("V8-modified", "ball bound", lambda x: x.subs(mu, -mu)),
        ("V8-loss", None, lambda x: x.subs(M, -M)),
        ("V8-drop", "separate", lambda x: x.subs(v_0, 2 * v_0)),
        ("V8-drop", "separate", lambda x: x.subs(a, 2 * a)),
        ("V8-drop", "merged", lambda x: x.subs(u_0, 2 * u_0)),
        ("V8-noise", "variance", lambda x: x.subs(N, N + 1)),
        ("V8-noise", "delay", lambda x: x.subs(batch, 2 * batch)),
        ("V8-noise", "spread", lambda x: x.subs(lambda_, 2 * lambda_)),
    ],
)
def test_entry_catches_a_fault(number, part, change):
    entry = equation(number)

    def typed():
        return change(entry.typed()) if part is None else {**entry.typed(), part: change(entry.typed()[part])}

    assert not replace(entry, typed=typed).holds()


def test_variance_of_the_force_on_samples():
    """The mean square of y_q beta_1 x_q1 over 400,000 sequences."""
    rng, eigenvalues, length = np.random.default_rng(7), np.array([0.5, 0.3]), 3
    shape = (400_000, length, 2)
    X = rng.standard_normal(shape) * np.sqrt(eigenvalues)
    w, x_q = rng.standard_normal((len(X), 2)), rng.standard_normal((len(X), 2)) * np.sqrt(eigenvalues)
    beta = np.einsum("pnd,pne,pe->pd", X, X, w) / length
    values = np.einsum("pd,pd->p", w, x_q) * beta[:, 0] * x_q[:, 0]
    exact = force_variance().subs({Trace(Lambda**2): Rational(34, 100), T: Rational(8, 10), N: length, lambda_: Rational(1, 2)})
    squares = (values - 0.25) ** 2
    assert abs(squares.mean() - float(exact)) < 4.5 * squares.std() / len(X) ** 0.5
