"""The stabilised methods: order four, on nonlinear problems too, and damping along the whole interval that they claim."""

import numpy as np
import pytest
from iclflow.numerics.dynamics.stabilised import stabilised
from iclflow.numerics.dynamics.stack import STAGES


def step(method, field, y, h):
    """The end of a step of size h, and the estimate of its error."""
    g, before = y, 0 * y
    for mu, nu, kappa in method.recurrence.T:
        g, before = mu * h * field(g) + nu * g - kappa * before, g
    velocities, end = [], g
    for weights in method.last:
        velocities.append(h * field(end))
        end = g + sum(a * b for a, b in zip(weights, velocities, strict=False))
    velocities.append(h * field(end))
    return end, sum(a * b for a, b in zip(method.error, velocities, strict=True))


@pytest.mark.parametrize("s", STAGES)
def test_modes_are_damped_along_the_whole_interval(s):
    method = stabilised(s)
    assert method.length > 0.29 * s**2
    z = -np.linspace(0.0, method.length, 100 * s)
    factor, _ = step(method, lambda y: z * y, np.ones_like(z), 1.0)
    assert np.abs(factor).max() <= 1 + 1e-12
    assert np.abs(factor[z < -8]).max() < 0.85


@pytest.mark.parametrize("s", [8, 17, 46])
def test_a_step_has_order_four_and_its_error_order_three(s):
    """A pendulum with friction in two components, against a step of half the size: local errors fall by 2^5, estimates by 2^4."""

    def field(y):
        return np.array([y[1] + y[0] * y[1], -np.sin(y[0]) - 0.3 * y[1] ** 2 * y[0]])

    def exact(h):
        y = np.array([1.0, 0.4])
        for _ in range(64):
            y, _ = step(stabilised(s), field, y, h / 64)
        return y

    errors, estimates = [], []
    for h in (0.2, 0.1):
        end, estimate = step(stabilised(s), field, np.array([1.0, 0.4]), h)
        errors.append(np.linalg.norm(end - exact(h)))
        estimates.append(np.linalg.norm(estimate))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(5, abs=0.3)
    assert np.log2(estimates[0] / estimates[1]) == pytest.approx(4, abs=0.3)


def test_too_few_stages_are_refused():
    with pytest.raises(ValueError, match="s must be an integer of at least 7, got 6"):
        stabilised(6)
