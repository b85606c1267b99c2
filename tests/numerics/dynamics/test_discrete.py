"""Stable steps, the modified flow and heavy ball: limits, orders, refusals; the claims measure drops and noise."""

import numpy as np
import pytest
from iclflow.numerics import (
    FlowError,
    MergedWeights,
    QuadraticLoss,
    RegressionTask,
    SeparateWeights,
    gradient_descent,
    gradient_flow,
    merged_fixed_points,
    separate_fixed_point,
)
from iclflow.numerics.dynamics.modified_flow import modified_flow
from iclflow.numerics.dynamics.momentum import heavy_ball
from iclflow.numerics.landscape.stable_steps import largest_stable_step
from iclflow.numerics.reductions.drop_delays import later_merged_drop, later_separate_drop, noisy_drop

TASK = RegressionTask(eigenvalues=[0.5, 0.3], context_length=10)
LOSS = QuadraticLoss.population(TASK)


def start() -> SeparateWeights:
    return SeparateWeights.initialize(TASK, heads=2, rank=1, scale=0.5, rng=np.random.default_rng(0))


def test_without_momentum_heavy_ball_is_descent():
    ball = heavy_ball(LOSS, start(), steps=50, learning_rate=0.1, momentum=0.0)
    descent = gradient_descent(LOSS, start(), steps=50, learning_rate=0.1)
    np.testing.assert_array_equal(ball.states, descent.states)
    np.testing.assert_allclose(ball.times, descent.times, rtol=1e-14)


def test_heavy_ball_follows_its_modified_flow_late_by_the_build_up():
    """Order two in the step, once the time lost at the start is taken off."""
    errors, sizes, momentum = [], np.array([0.02, 0.01, 0.005]), 0.6
    for eta in sizes:
        step = 2 * eta / (1 - momentum)
        run = heavy_ball(LOSS, start(), steps=round(40 / step), learning_rate=float(eta), momentum=momentum)
        flow = modified_flow(LOSS, start(), learning_rate=float(eta), momentum=momentum, t_end=40.0)
        late = step * momentum / (1 - momentum)
        errors.append(np.linalg.norm(run.states[-1] - flow.states_at(run.times[-1] - late)))
    assert np.polyfit(np.log(sizes), np.log(errors), 1)[0] == pytest.approx(2, abs=0.2)


def test_small_steps_are_the_flow():
    flow = gradient_flow(LOSS, start(), t_end=30.0, rtol=1e-10)
    np.testing.assert_allclose(
        modified_flow(LOSS, start(), learning_rate=1e-9, t_end=30.0).states[-1], flow.states[-1], atol=1e-7
    )


def test_merged_drop_comes_later_by_the_formula():
    """White tokens, balanced and aligned: v = u, U = u I / sqrt(D)."""
    task, u = RegressionTask(eigenvalues=[0.5, 0.5], context_length=10), 0.02
    loss, weights = QuadraticLoss.population(task), MergedWeights(np.array([u]), u * np.eye(2)[None] / np.sqrt(2))
    gamma, alpha = 0.25 * np.sqrt(2), 0.5 * task.second_moment_eigenvalues[0]

    def half(run):
        goal, s = gamma / alpha / 2, run.arrays["v"][:, 0] ** 2
        after = int(np.argmax(s > goal))
        return float(np.interp(goal, s[after - 1 : after + 1], run.times[after - 1 : after + 1]))

    dense = gradient_flow(loss, weights, t_end=40.0, rtol=1e-11)
    times = np.linspace(0, 40, 400_001)
    exact = times[np.argmax(dense.states_at(times)[:, 0] ** 2 > gamma / alpha / 2)]
    for eta, tolerance in ((0.02, 0.02), (0.005, 0.006)):
        delay = half(gradient_descent(loss, weights, steps=round(20 / eta), learning_rate=eta)) - exact
        assert delay == pytest.approx(later_merged_drop(gamma, alpha, u, learning_rate=eta), rel=tolerance, abs=2e-4)


def test_stable_step_at_saddles_and_minimum():
    """White merged attention has the largest curvature 2 gamma; the origin of separate attention curves nowhere."""
    white = RegressionTask(eigenvalues=[0.5, 0.5], context_length=10)
    _, minimum = merged_fixed_points(white, heads=2)
    assert largest_stable_step(minimum) == pytest.approx(1 / (2 * 0.25 * np.sqrt(2)))
    assert largest_stable_step(minimum, momentum=0.5) == pytest.approx(1.5 * largest_stable_step(minimum))
    assert largest_stable_step(separate_fixed_point(TASK, (), heads=2)) == np.inf
    assert largest_stable_step(separate_fixed_point(TASK, (0,), heads=2)) > 0


def test_too_large_steps_say_so():
    with pytest.raises(FlowError, match="learning_rate is too large"):
        heavy_ball(LOSS, start(), steps=2000, learning_rate=50.0, momentum=0.5)


def test_refusals():
    with pytest.raises(ValueError, match="momentum must be below 1"):
        heavy_ball(LOSS, start(), steps=3, learning_rate=0.1, momentum=1.0)
    with pytest.raises(ValueError, match="learning_rate"):
        later_separate_drop(0.5, 0.3, 0.1, learning_rate=0.0)
    with pytest.raises(TypeError, match="point"):
        largest_stable_step(start())


def test_noise_of_a_drop_on_sampled_descent():
    """2,000 runs of SGD in one dimension, each step of each run on fresh sequences."""
    task, start, level, batch, step = RegressionTask(eigenvalues=[1.0], context_length=8), 0.1, 0.3, 32, 0.025
    derived = noisy_drop(task, 0, start=start, level=level, batch_size=batch, learning_rate=step)
    rng, runs = np.random.default_rng(5), 2000
    v, times = np.full(runs, start), np.full(runs, np.nan)
    for count in range(1, 500):
        w, x = rng.standard_normal((2, runs, batch))
        S = rng.chisquare(8, (runs, batch)) / 8
        before = v
        v = v + 2 * step * ((w**2 * S * x**2).mean(1) * v**2 - (w**2 * S**2 * x**2).mean(1) * v**5)
        passed = np.isnan(times) & (v >= level)
        times[passed] = 2 * step * (count - 1 + (level - before[passed]) / (v - before)[passed])
    assert times.std() == pytest.approx(derived.spread, rel=0.06)
    assert times.mean() - derived.time == pytest.approx(
        derived.delay, abs=4.5 * derived.spread / runs**0.5 + 0.1 * derived.delay
    )


def test_noise_shrinks_with_the_batch():
    small, large = (
        noisy_drop(TASK, 1, start=0.01, level=0.3, batch_size=size, learning_rate=0.05) for size in (10, 1000)
    )
    assert small.spread / large.spread == pytest.approx(10)
    assert small.delay > large.delay > 0
    assert small.time == large.time


def test_refusals_of_a_noisy_drop():
    given = {"start": 0.1, "level": 0.3, "batch_size": 16, "learning_rate": 0.1}
    with pytest.raises(ValueError, match="level must lie between"):
        noisy_drop(TASK, 0, **{**given, "level": 2.0})
    with pytest.raises(ValueError, match="direction must be an integer from 0 to 1"):
        noisy_drop(TASK, 2, **given)
    with pytest.raises(ValueError, match="noise_variance"):
        noisy_drop(RegressionTask(eigenvalues=[0.5], context_length=4, noise_variance=0.1), 0, **given)
    with pytest.raises(ValueError, match="eigenvalue must be a positive finite number"):
        later_separate_drop(-0.5, 0.3, 0.1, learning_rate=0.1)
