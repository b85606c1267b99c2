"""The modified flow: heavy ball follows it at second order; for small steps it is the flow."""

import numpy as np
import pytest
from iclflow.numerics import QuadraticLoss, RegressionTask, SeparateWeights, gradient_flow
from iclflow.numerics.dynamics.momentum import heavy_ball, modified_flow

TASK = RegressionTask(eigenvalues=[0.5, 0.3], context_length=10)
LOSS = QuadraticLoss.population(TASK)


def start() -> SeparateWeights:
    return SeparateWeights.initialize(TASK, heads=2, rank=1, scale=0.5, rng=np.random.default_rng(0))


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
    np.testing.assert_allclose(modified_flow(LOSS, start(), learning_rate=1e-9, t_end=30.0).states[-1], flow.states[-1], atol=1e-7)
