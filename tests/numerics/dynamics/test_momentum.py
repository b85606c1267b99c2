"""Heavy ball and the flow with mass: limits, an independent integration, refusals; the claims fit its order and train with momentum."""

import numpy as np
import pytest
from iclflow.numerics import FlowError, MergedWeights, QuadraticLoss, RegressionTask, SeparateWeights, gradient_descent, gradient_flow
from iclflow.numerics.dynamics.momentum import flow_with_mass, heavy_ball, heavy_ball_flow, heavy_ball_mass
from scipy.integrate import solve_ivp

TASK = RegressionTask(eigenvalues=[0.5, 0.3], context_length=10)
LOSS = QuadraticLoss.population(TASK)


def start() -> SeparateWeights:
    return SeparateWeights.initialize(TASK, heads=2, rank=1, scale=0.5, rng=np.random.default_rng(0))


def one_head(value: float) -> SeparateWeights:
    return SeparateWeights(np.array([value]), np.full((1, 1, 1), value), np.full((1, 1, 1), value))


def test_one_head_by_itself():
    """m v'' + v' = lambda^2 v^2 - lambda a v^5, typed here and integrated by another solver."""
    task = RegressionTask(eigenvalues=[0.7], context_length=9)
    a = task.second_moment_eigenvalues[0]
    times = np.linspace(0, 60, 61)
    flow = flow_with_mass(QuadraticLoss.population(task), one_head(0.3), mass=3.0, t_end=60.0, rtol=1e-10)
    alone = solve_ivp(
        lambda t, s: [s[1], (0.49 * s[0] ** 2 - 0.7 * a * s[0] ** 5 - s[1]) / 3],
        (0, 60),
        [0.3, 0.0],
        "DOP853",
        times,
        rtol=1e-11,
        atol=1e-12,
    )
    np.testing.assert_allclose(flow.states_at(times)[:, 0], alone.y[0], atol=1e-7)
    np.testing.assert_allclose(flow.velocities_at(times)[:, 0], alone.y[1], atol=1e-7)


def test_all_methods_agree():
    ends = [
        flow_with_mass(LOSS, start(), mass=2.0, t_end=50.0, rtol=1e-9, method=method).states[-1] for method in ("LSODA", "DOP853", "Radau")
    ]
    np.testing.assert_allclose(ends[1:], ends[:1] * 2, atol=2e-6)


def test_a_small_mass_is_gradient_flow():
    flow = gradient_flow(LOSS, start(), t_end=30.0, rtol=1e-10)
    times = np.linspace(1, 30, 30)
    errors = [
        np.abs(flow_with_mass(LOSS, start(), mass=mass, t_end=30.0).states_at(times) - flow.states_at(times)).max() for mass in (1e-2, 1e-3)
    ]
    assert errors[0] / errors[1] == pytest.approx(10, rel=0.1)
    assert errors[1] < 1e-3


def test_without_momentum_it_is_the_flow_of_descent():
    """Of second order in the step, where gradient flow is of first."""
    errors, sizes = [], np.array([0.04, 0.02, 0.01])
    for eta in sizes:
        run = gradient_descent(LOSS, start(), steps=round(20 / eta), learning_rate=float(eta))
        flow = heavy_ball_flow(LOSS, start(), learning_rate=float(eta), momentum=0.0, t_end=run.times[-1], rtol=1e-11)
        errors.append(np.abs(flow.states_at(run.times) - run.states).max())
    assert np.polyfit(np.log(sizes), np.log(errors), 1)[0] == pytest.approx(2, abs=0.1)


def test_merged_attention_rolls_as_well():
    weights = MergedWeights.initialize(TASK, heads=3, scale=0.3, rng=np.random.default_rng(4))
    run = heavy_ball(LOSS, weights, steps=4000, learning_rate=5e-4, momentum=0.98)
    flow = heavy_ball_flow(LOSS, weights, learning_rate=5e-4, momentum=0.98, t_end=run.times[-1])
    assert np.abs(flow.loss_at(run.times) - run.loss).max() < 1e-4 * run.loss[0]
    assert flow.mass == heavy_ball_mass(5e-4, 0.98) == pytest.approx(5e-4 * 1.98 / 0.02**2)


def test_energy_falls_and_balance_drifts():
    flow = flow_with_mass(LOSS, start(), mass=5.0, t_end=60.0)
    assert (np.diff(flow.energy) < 1e-9).all()
    assert np.diff(flow.loss).max() > 1e-3  # while the loss swings
    assert max(flow.conservation_drift.values()) > 1e-2
    aligned = flow_with_mass(
        QuadraticLoss.population(RegressionTask(eigenvalues=[0.7], context_length=9)), one_head(0.3), mass=5.0, t_end=20.0
    )
    assert max(aligned.conservation_drift.values()) < 1e-8


def test_a_start_in_motion_and_a_start_at_rest():
    rest = start().unflatten(np.zeros(start().size))
    np.testing.assert_array_equal(
        flow_with_mass(LOSS, start(), rest, mass=1.0, t_end=5.0).states, flow_with_mass(LOSS, start(), mass=1.0, t_end=5.0).states
    )
    moving = flow_with_mass(LOSS, start(), start(), mass=1.0, t_end=5.0)
    np.testing.assert_array_equal(moving.velocities[0], start().flatten())


def test_a_drop_is_over_long_before_a_long_run_is():
    """At the minimum the tolerance of velocities must not fall below their rounding."""
    small = SeparateWeights.initialize(TASK, heads=2, rank=1, scale=1e-3, rng=np.random.default_rng(1))
    for mass in (1e-2, 1.0, 100.0):
        flow = flow_with_mass(LOSS, small, mass=mass, t_end=1e5)
        assert flow.statistics.steps < 20_000
        assert flow.loss[-1] < 0.8 * flow.loss[0]


def test_refusals():
    with pytest.raises(ValueError, match="mass must be a positive finite number, got 0"):
        flow_with_mass(LOSS, start(), mass=0, t_end=1.0)
    with pytest.raises(ValueError, match="momentum must be below 1"):
        heavy_ball_flow(LOSS, start(), learning_rate=0.1, momentum=1.0, t_end=1.0)
    with pytest.raises(ValueError, match="learning_rate"):
        heavy_ball_flow(LOSS, start(), learning_rate=-0.1, momentum=0.5, t_end=1.0)
    with pytest.raises(ValueError, match="method must be one of"):
        flow_with_mass(LOSS, start(), mass=1.0, t_end=1.0, method="Euler")
    with pytest.raises(TypeError, match="velocity must be a SeparateWeights"):
        flow_with_mass(LOSS, start(), np.zeros(10), mass=1.0, t_end=1.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="velocity must be shaped like the weights"):
        flow_with_mass(LOSS, start(), one_head(0.1), mass=1.0, t_end=1.0)
    with pytest.raises(ValueError, match="t must lie between 0"):
        flow_with_mass(LOSS, start(), mass=1.0, t_end=1.0).velocities_at(2.0)
    with pytest.raises(ValueError, match="momentum must be below 1"):
        heavy_ball(LOSS, start(), steps=3, learning_rate=0.1, momentum=1.0)


def test_without_momentum_heavy_ball_is_descent():
    ball = heavy_ball(LOSS, start(), steps=50, learning_rate=0.1, momentum=0.0)
    descent = gradient_descent(LOSS, start(), steps=50, learning_rate=0.1)
    np.testing.assert_array_equal(ball.states, descent.states)
    np.testing.assert_allclose(ball.times, descent.times, rtol=1e-14)


def test_too_large_steps_say_so():
    with pytest.raises(FlowError, match="learning_rate is too large"):
        heavy_ball(LOSS, start(), steps=2000, learning_rate=50.0, momentum=0.5)
