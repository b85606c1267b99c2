"""(V7-flow) to (V7-turn): planted faults, and what the bounds rest on, on random spectra."""

from dataclasses import replace

import numpy as np
import pytest
from iclflow.theory.equations import equation
from iclflow.theory.notation import gamma, lambda_, s, s_0
from iclflow.theory.results.merged.drop import K, k, k_2, kappa_max, kappa_min, n
from iclflow.theory.results.merged.drop_bounds import k_S, kappa_d, kappa_e, psi, q, r_d
from iclflow.theory.results.merged.turning import kappa, r, x
from scipy.integrate import solve_ivp
from sympy import hyper, lambdify

ENTRIES = ("V7-flow", "V7-behind", "V7-time", "V7-half", "V7-share", "V7-turn", "V7-tail")


@pytest.mark.parametrize("number", ENTRIES)
def test_entry_holds(number):
    assert equation(number).holds()


@pytest.mark.parametrize(
    ("number", "part", "change"),
    [
        ("V7-flow", "force", {lambda_: 2 * lambda_}),
        ("V7-flow", "size", {K: 2 * K}),
        ("V7-flow", "direction", {n: -n}),
        ("V7-behind", "flow", {q: 2 * q}),
        ("V7-behind", "order", {kappa_e: kappa_d}),
        ("V7-behind", "order", {r_d: 2 * r_d}),
        ("V7-behind", "kept", {s: 2 * s}),
        ("V7-behind", "v", {q: 2 * q}),
        ("V7-behind", "z", {gamma: 2 * gamma}),
        ("V7-behind", "monotone", {k: k / 2}),
        ("V7-time", "earliest", {k_S: k}),
        ("V7-time", "latest", {s_0: 2 * s_0}),
        ("V7-time", "S", {s_0: 0}),
        ("V7-time", "apart", {gamma: 2 * gamma}),
        ("V7-half", "least", {psi: 1}),
        ("V7-half", "earliest", {psi: 2 * psi}),
        ("V7-half", "latest", {k: 2 * k}),
        ("V7-half", "S", {s_0: 2 * s_0}),
        ("V7-half", "apart", {gamma: 2 * gamma}),
        ("V7-half", "bend", {k: -k}),
        ("V7-share", "bound", {kappa_min: 2 * kappa_min}),
        ("V7-share", "fall", {gamma: 2 * gamma}),
        ("V7-share", "gap", {kappa_min: kappa_max}),
        ("V7-share", "on", {k_2: 2 * k_2}),
        ("V7-turn", "leading", {x: 1 - x}),
        ("V7-turn", "r", {kappa: 2 * kappa}),
        ("V7-turn", "narrow", {x: x**2}),
        ("V7-turn", "fall", {r: 2 * r}),
        ("V7-tail", "rate", {K: -K}),
        ("V7-tail", "ratio", {kappa_max: 2 * kappa_max}),
    ],
)
def test_entry_catches_a_fault(number, part, change):
    entry = equation(number)
    assert not replace(entry, typed=lambda: {**entry.typed(), part: entry.typed()[part].subs(change)}).holds()


@pytest.mark.parametrize("part", ["slow", "fast", "arc"])
def test_constants_of_the_half_catch_a_fault(part):
    entry = equation("V7-half")
    assert not replace(entry, typed=lambda: {**entry.typed(), part: entry.typed()[part] * 2}).holds()


def test_another_series_is_caught():
    entry = equation("V7-turn")
    wrong = hyper((1, (1 + kappa / k) / 2), (entry.typed()["r"].bq[0],), x)
    assert not replace(entry, typed=lambda: {**entry.typed(), "r": wrong}).holds()


def test_what_the_bounds_use():
    """Weights that fall with kappa lower its mean, those that fall more slowly than exp(-2 kappa S) lower it less."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        kappa_values, weights, path = np.sort(rng.uniform(0, 1, 5)), rng.dirichlet(np.ones(5)), rng.uniform(0, 3)
        ratios = np.exp(-path * kappa_values * rng.uniform(0, 1))  # between 1 and exp(-kappa S), both in proportion

        def mean(tilt, kappa_values=kappa_values, weights=weights):
            return np.average(kappa_values, weights=weights * tilt**2)

        assert mean(np.exp(-path * kappa_values)) - 1e-12 <= mean(ratios) <= mean(1.0) + 1e-12
        # the force on the size and on its part along c: q <= k and c'Kn/gamma <= k C
        assert np.average(kappa_values * ratios, weights=weights) <= mean(1.0) * np.average(ratios, weights=weights)


@pytest.mark.parametrize("ratio", [0.01, 0.4, 1.0, 3.3])
def test_the_series_solves_the_equation_of_one_direction(ratio):
    """r_d against a numerical integration of its equation, in theta = gamma t/tau, from the far past to three after the middle."""
    parts = equation("V7-turn").statement
    closed = lambdify((kappa, k, x), parts["r"], "mpmath")

    def rate(theta, state):
        share = 1 / (1 + np.exp(-2 * theta))
        return [1 - state[0] * (1 - share + share * ratio)]

    solution = solve_ivp(rate, (-12, 3), [1.0], t_eval=[-1, 0, 1, 3], rtol=1e-10, atol=1e-12)
    shares = 1 / (1 + np.exp(-2 * solution.t))
    np.testing.assert_allclose(solution.y[0], [float(closed(ratio, 1.0, share)) for share in shares], rtol=1e-8)
