"""(V9-posterior) to (V9-limit): planted faults, special cases."""

from dataclasses import replace

import numpy as np
import pytest
from iclflow.theory.equations import equation
from iclflow.theory.notation import D, Lambda, N, T, lambda_, sigma
from iclflow.theory.results.estimators.optimality import C, c, nu, rho, u
from iclflow.theory.results.estimators.short_context import lambda_N
from sympy import Rational, simplify, sqrt

ENTRIES = ("V9-posterior", "V9-ridge", "V9-ols", "V9-linear", "V9-crossover", "V9-bounds", "V9-unseen", "V9-limit")


@pytest.mark.parametrize("number", ENTRIES)
def test_entry_holds(number):
    assert equation(number).holds()


@pytest.mark.parametrize(
    ("number", "part", "change"),
    [
        ("V9-ridge", "any", {rho: 2 * rho}),
        ("V9-ridge", "Bayes", {C: Lambda}),
        ("V9-ols", "long", {N: N + 1}),
        ("V9-ols", "short", {D: D + 1}),
        ("V9-linear", "each", {sigma: 2 * sigma}),
        ("V9-crossover", "N", {D: D + 1}),
        ("V9-bounds", "lower", {N: 2 * N}),
        ("V9-bounds", "curvature", {Lambda: 2 * Lambda}),
        ("V9-unseen", "outside", {u: 2 * u}),
        ("V9-unseen", "convex", {rho: 2 * rho}),
        ("V9-unseen", "mean", {N: N + 1}),
        ("V9-unseen", "seen", {sigma: 2 * sigma}),
        ("V9-unseen", "lower", {D: D - 1}),
        ("V9-limit", "moments", {c: 1 / c}),
        ("V9-limit", "Bayes", {nu: 2 * nu}),
    ],
)
def test_entry_catches_a_fault(number, part, change):
    entry = equation(number)
    assert not replace(entry, typed=lambda: {**entry.typed(), part: entry.typed()[part].subs(change)}).holds()


def test_limits_of_the_bayes_risk():
    """Without noise it is what least squares of a short context leaves, max(0, 1 - c); always below the other two."""
    bayes = equation("V9-limit").statement["Bayes"]
    assert simplify(bayes.subs(c, Rational(1, 3)).subs(nu, 0)) == Rational(2, 3)
    assert simplify(bayes.subs(c, 3).subs(nu, 0)) == 0
    for ratio in (Rational(1, 2), 2, 5):
        for noise in (Rational(1, 10), 3):
            at = {c: ratio, nu: noise}
            value = bayes.subs(at)
            assert 0 < value < equation("V9-limit").statement["linear"].subs(at)
            squares = equation("V9-limit").statement["least squares"].subs(at)
            assert squares < 0 or value < squares
    assert simplify(bayes.subs({c: 1, nu: 1}) - (sqrt(5) - 1) / 2) == 0


def test_what_the_unseen_bound_uses():
    """The posterior covariance is 1 outside the span, and tr(Lambda P) of any such P at least the sorted pairing; random contexts."""
    rng = np.random.default_rng(5)
    for _ in range(100):
        size = int(rng.integers(2, 7))
        length = int(rng.integers(1, size + 1))
        spectrum = np.sort(rng.uniform(0.01, 1, size))[::-1]
        tokens, ridge = rng.standard_normal((size, length)) * np.sqrt(spectrum)[:, None], rng.uniform(0.01, 1)
        posterior = ridge * np.linalg.inv(tokens @ tokens.T / length + ridge * np.eye(size))
        values = np.linalg.eigvalsh(posterior)  # ascending, beside descending eigenvalues of Lambda
        np.testing.assert_allclose(values[length:], 1.0)
        assert np.trace(np.diag(spectrum) @ posterior) >= spectrum @ values - 1e-12
        assert spectrum @ values >= spectrum[length:].sum() + spectrum[length - 1] * values[:length].sum() - 1e-12


def test_unseen_and_jensen_meet_for_white_tokens_and_as_many_as_dimensions():
    unseen, jensen = equation("V9-unseen").statement["seen"], equation("V9-bounds").statement["lower"]
    at = {lambda_N: lambda_, N: D, T: D * lambda_}
    assert simplify(unseen.subs(at) - D * jensen.subs(N, D)) == 0


def test_bayes_limit_is_the_resolvent_of_a_random_matrix():
    """D = 300, N = 150: rho tr (Lambda_hat + rho I)^-1 / D of one context, which fluctuates by less than 1 / D."""
    rng, size, length, noise = np.random.default_rng(4), 300, 150, 0.7
    tokens = rng.standard_normal((size, length))
    ridge = noise * size / length
    eigenvalues = np.linalg.eigvalsh(tokens @ tokens.T / length)
    expected = float(equation("V9-limit").statement["Bayes"].subs({c: length / size, nu: noise}))
    assert np.mean(ridge / (eigenvalues + ridge)) == pytest.approx(expected, abs=5e-3)
