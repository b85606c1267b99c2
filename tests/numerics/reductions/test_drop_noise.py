"""The spread of drop times by mini-batches: aligned heads, invariances, refusals; a claim holds it against SGD."""

import numpy as np
import pytest
from iclflow.numerics import MergedWeights, RegressionTask, SeparateWeights
from iclflow.numerics.reductions.drop_delays import noisy_drop
from iclflow.numerics.reductions.drop_noise import spread_of_drops

TASK = RegressionTask(eigenvalues=[1.0, 0.5], context_length=8)
GIVEN = {"batch_size": 32, "learning_rate": 0.02}


def start(scale: float = 0.15) -> SeparateWeights:
    return SeparateWeights.initialize(TASK, heads=2, rank=1, scale=scale, rng=np.random.default_rng(2))


def test_aligned_heads_follow_their_closed_law():
    """Where a v^3 is far below lambda, so that (V8-noise) holds."""
    task, small = RegressionTask(eigenvalues=[0.7], context_length=5), np.full((1, 1, 1), 0.01)
    level = task.eigenvalues[0] / task.second_moment_eigenvalues[0]
    (drop,) = spread_of_drops(task, SeparateWeights(np.array([0.01]), small, small), t_end=400.0, share=1e-3, **GIVEN)
    closed = noisy_drop(task, 0, start=0.01, level=float((1e-3 * level) ** (1 / 3)), **GIVEN)
    assert drop.time == pytest.approx(closed.time, rel=1e-5)
    assert drop.spread == pytest.approx(closed.spread, rel=1e-3)


def test_one_dimension_of_merged_attention_by_hand():
    """v = u: du/dt = l^2 u - l a u^3, so the slope of the time left is minus one over it, and the map is moved by twice u."""
    task, u = RegressionTask(eigenvalues=[0.7], context_length=5), 0.05
    a, lam, length = float(task.second_moment_eigenvalues[0]), 0.7, 5
    (drop,) = spread_of_drops(task, MergedWeights(np.array([u]), np.array([[[u]]])), t_end=60.0, **GIVEN)
    b = np.linspace(u**2, lam / a / 2, 200_001)  # db/dt = 2 u du/dt = 2 b (l^2 - l a b), and one sequence pulls u by u F
    powers = [np.prod([lam * (length + 2 * j) / length for j in range(k)]) for k in range(5)]
    variance = 9 * lam**2 * (powers[2] - 2 * b * powers[3] + b**2 * powers[4]) - lam**2 * (powers[1] - b * powers[2]) ** 2
    rate = lam**2 - lam * a * b
    integral = np.trapezoid(variance / rate**2 / (2 * b * rate), b)
    assert drop.spread == pytest.approx(float(np.sqrt(0.04 / 32 * integral)), rel=1e-3)


def test_times_do_not_depend_on_the_batch_and_spreads_go_as_its_inverse_root():
    few = spread_of_drops(TASK, start(), t_end=100.0, batch_size=10, learning_rate=0.02)
    many = spread_of_drops(TASK, start(), t_end=100.0, batch_size=1000, learning_rate=0.02)
    assert [drop.direction for drop in few] == [0, 1]
    for one, other in zip(few, many, strict=True):
        assert one.time == other.time
        assert one.spread / other.spread == pytest.approx(10)


def test_refusals():
    with pytest.raises(ValueError, match="t_end must be after a drop"):
        spread_of_drops(TASK, start(), t_end=0.1, **GIVEN)
    with pytest.raises(ValueError, match="noise_variance"):
        spread_of_drops(RegressionTask(eigenvalues=[1.0, 0.5], context_length=8, noise_variance=0.1), start(), t_end=9.0, **GIVEN)
    with pytest.raises(ValueError, match="share must lie between 0 and 1"):
        spread_of_drops(TASK, start(), t_end=9.0, share=1.5, **GIVEN)
    with pytest.raises(ValueError, match="batch_size"):
        spread_of_drops(TASK, start(), t_end=9.0, batch_size=0, learning_rate=0.1)
    with pytest.raises(TypeError, match="task"):
        spread_of_drops("task", start(), t_end=9.0, **GIVEN)  # type: ignore[arg-type]
