"""The formulas of (V7) in limits and at the door; the claims hold them against flows and Hessians."""

import numpy as np
import pytest
from iclflow.numerics import RegressionTask
from iclflow.numerics.reductions.merged_drop import MergedDrop
from scipy.integrate import solve_ivp


def test_white_tokens_learn_all_in_one_drop():
    drop = MergedDrop.of(RegressionTask(eigenvalues=[0.5, 0.5, 0.5], context_length=8))
    assert drop.share == pytest.approx(1.0)
    assert drop.least_share == pytest.approx(1.0)
    assert drop.spread == pytest.approx(1.0)
    np.testing.assert_allclose(drop.rates, drop.gamma * np.array([1.0, 1.0, 2.0]))
    assert drop.further == pytest.approx(0.0, abs=1e-12)
    for bounds in (drop.time_bounds(1e-6), drop.half_bounds(1e-6)):
        assert bounds[1] == pytest.approx(bounds[0], abs=1e-12)
    times = np.array([-2.0, 0.0, 4.0])
    level = 1 / (1 + np.exp(-2 * times))
    np.testing.assert_allclose(drop.learned(times), 2 * level - level**2)


def test_share_lies_between_the_bound_and_one():
    rng = np.random.default_rng(1)
    for _ in range(50):
        drop = MergedDrop.of(RegressionTask(eigenvalues=rng.uniform(0.01, 1, 4), context_length=12))
        assert drop.least_share <= drop.share <= 1.0


def test_no_bound_is_violated_by_the_flow():
    """150 random spectra, of eigenvalues or of any kappa and weights, up to a millionfold wide; starts from nothing to near the drop.

    In units gamma = k = 1. The widest gaps come within 2 % of the bounds that the entries state.
    """
    rng, widest = np.random.default_rng(3), np.zeros(2)
    for case in range(150):
        size = int(rng.integers(2, 7))
        if case % 2:
            weights = np.maximum(rng.dirichlet(np.full(size, rng.choice([0.1, 0.5, 3.0]))), 1e-12)
            kappa = 10 ** -rng.uniform(0, rng.choice([0.3, 1.0, 6.0]), size)
        else:
            spectrum = np.exp(-rng.uniform(0, 3, size))
            drop = MergedDrop.of(RegressionTask(eigenvalues=spectrum, context_length=int(rng.integers(1, 40))))
            weights, kappa = drop.weights, drop.kappa
        weights = weights / weights.sum()
        drop = MergedDrop(1.0, kappa / (weights @ kappa), weights)
        start = 0.25 * 10 ** -rng.uniform(0.05, 5)
        measured = _flow_times(drop, start)
        for which, (bounds, time) in enumerate(zip((drop.time_bounds(start), drop.half_bounds(start)), measured, strict=True)):
            assert bounds[0] - 1e-7 <= time <= bounds[1] + 1e-7, (drop, start, which)
            widest[which] = max(widest[which], bounds[1] - bounds[0])
    assert (widest <= np.array([np.log(2), np.log(4 * (np.sqrt(2) - 1))]) / 2).all()
    assert (widest >= 0.98 * np.array([np.log(2), np.log(4 * (np.sqrt(2) - 1))]) / 2).all()


def _flow_times(drop: MergedDrop, start: float) -> list[float]:
    """When s is in the middle and when half of the drop is over, by an integration of its own from the ray, in ln s and n."""
    c = np.sqrt(drop.weights)

    def fall(_t: float, state: np.ndarray) -> float:
        s, n = np.exp(state[0]), state[1:] / np.linalg.norm(state[1:])
        return 2 * s * c @ n - s**2 * drop.kappa @ n**2 - 0.5

    def field(_t: float, state: np.ndarray) -> np.ndarray:
        n = state[1:] / np.linalg.norm(state[1:])
        force = c - np.exp(state[0]) * drop.kappa * n
        return np.append(2 * n @ force, force - (n @ force) * n)

    run = solve_ivp(
        field,
        (0, 4 - np.log(start) / 2),
        np.append(np.log(start), c),
        method="LSODA",
        rtol=1e-9,
        atol=1e-11,
        events=[lambda _t, state: np.exp(state[0]) - 0.5, fall],
    )
    return [float(times[0]) for times in run.t_events]


def test_a_faulty_bound_is_violated():
    """The mean kappa in both bounds, as for white tokens, is no bound: the flow of 3 : 2 : 1 is earlier."""
    drop = MergedDrop.of(RegressionTask(eigenvalues=[0.6, 0.4, 0.2], context_length=31))
    drop = MergedDrop(1.0, drop.kappa / drop.mean, drop.weights)
    white = MergedDrop(1.0, np.ones(3), drop.weights)
    middle, half = _flow_times(drop, 1e-3)
    assert middle < white.time_bounds(1e-3)[0] - 0.005
    assert half < white.half_bounds(1e-3)[0] - 0.002


def test_what_is_learned_goes_from_nothing_to_all():
    drop = MergedDrop.of(RegressionTask(eigenvalues=[0.6, 0.4, 0.2], context_length=31))
    falls = drop.learned(np.array([-30.0, -1.0, 0.0, 1.0, 3.0, 300.0]))
    assert (np.diff(falls) > 0).all()
    assert falls[0] == pytest.approx(0.0, abs=1e-12)
    assert falls[-1] == pytest.approx(1.0)
    assert drop.learned(1.0).shape == ()


def test_units_of_time_and_rotations():
    task = RegressionTask(covariance=[[0.5, 0.2], [0.2, 0.3]], context_length=6)
    drop = MergedDrop.of(task)
    assert drop.gamma == pytest.approx(np.linalg.norm(task.covariance @ task.covariance))
    np.testing.assert_allclose(drop.time_bounds(1e-9, tau=3.0), 3 * np.array(drop.time_bounds(1e-9)))
    np.testing.assert_allclose(drop.half_bounds(1e-9, tau=3.0), 3 * np.array(drop.half_bounds(1e-9)))
    assert drop.time_bounds(1e-9, drop.middle / 2)[1] < drop.time_bounds(1e-9)[0]


def test_refusals():
    drop = MergedDrop.of(RegressionTask(eigenvalues=[0.5, 0.2], context_length=8))
    with pytest.raises(ValueError, match="size must be above start"):
        drop.time_bounds(2 * drop.middle)
    with pytest.raises(ValueError, match="size must be above start"):
        drop.time_bounds(1e-6, 2 * drop.middle)
    with pytest.raises(ValueError, match="start must be below"):
        drop.half_bounds(drop.middle / 2)
    with pytest.raises(ValueError, match="times must be finite"):
        drop.learned(np.inf)
    with pytest.raises(ValueError, match="start must be a positive"):
        drop.time_bounds(0.0)
    with pytest.raises(ValueError, match="query_covariance"):
        MergedDrop.of(RegressionTask(eigenvalues=[0.5], context_length=3, query_covariance=[[2.0]]))
