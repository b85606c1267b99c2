"""Delays and noise of drops, against descent on the population loss and on fresh sequences; refusals."""

import numpy as np
import pytest
from iclflow.numerics import MergedWeights, QuadraticLoss, RegressionTask, gradient_descent, gradient_flow
from iclflow.numerics.reductions.drop_delays import later_merged_drop, later_separate_drop, noisy_drop

TASK = RegressionTask(eigenvalues=[0.5, 0.3], context_length=10)


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
    assert times.mean() - derived.time == pytest.approx(derived.delay, abs=4.5 * derived.spread / runs**0.5 + 0.1 * derived.delay)


def test_noise_shrinks_with_the_batch():
    small, large = (noisy_drop(TASK, 1, start=0.01, level=0.3, batch_size=size, learning_rate=0.05) for size in (10, 1000))
    assert small.spread / large.spread == pytest.approx(10)
    assert small.delay > large.delay > 0
    assert small.time == large.time


def test_refusals():
    given = {"start": 0.1, "level": 0.3, "batch_size": 16, "learning_rate": 0.1}
    with pytest.raises(ValueError, match="level must lie between"):
        noisy_drop(TASK, 0, **{**given, "level": 2.0})
    with pytest.raises(ValueError, match="direction must be an integer from 0 to 1"):
        noisy_drop(TASK, 2, **given)
    with pytest.raises(ValueError, match="noise_variance"):
        noisy_drop(RegressionTask(eigenvalues=[0.5], context_length=4, noise_variance=0.1), 0, **given)
    with pytest.raises(ValueError, match="eigenvalue must be a positive finite number"):
        later_separate_drop(-0.5, 0.3, 0.1, learning_rate=0.1)
    with pytest.raises(ValueError, match="learning_rate"):
        later_separate_drop(0.5, 0.3, 0.1, learning_rate=0.0)
