"""The stabilised methods: order four, on nonlinear problems too, and damping along the whole interval that they claim."""

import numpy as np
import pytest
from iclflow.numerics.dynamics.compiled import STAGES
from iclflow.numerics.dynamics.stabilised import length, stabilised


def step(s, field, y, h):
    """The end of a step of size h of the method of s stages."""
    first, recurrence = stabilised(s)
    velocities, g = [], y
    for weights in first:
        velocities.append(h * field(g))
        g = y + sum(a * b for a, b in zip(weights, velocities, strict=False))
    change = 0 * y
    for mu, kappa in recurrence.T:
        change = kappa * change + mu * h * field(g)
        g = g + change
    return g


@pytest.mark.parametrize("s", STAGES)
def test_modes_are_damped_along_the_whole_interval(s):
    assert length(s) > 0.335 * (s**2 - 8)
    z = -np.linspace(0.0, length(s), 100 * s)
    factor = step(s, lambda y: z * y, np.ones_like(z), 1.0)
    assert np.abs(factor).max() <= 1 + 1e-12
    assert np.abs(factor[z < -8]).max(initial=0.0) < 0.85


@pytest.mark.parametrize("s", [5, 8, 17, 46])
def test_a_step_has_order_four(s):
    """A pendulum with friction in two components, against 64 steps in its place: local errors fall by 2^5."""

    def field(y):
        return np.array([y[1] + y[0] * y[1], -np.sin(y[0]) - 0.3 * y[1] ** 2 * y[0]])

    def exact(h):
        y = np.array([1.0, 0.4])
        for _ in range(64):
            y = step(s, field, y, h / 64)
        return y

    errors = [np.linalg.norm(step(s, field, np.array([1.0, 0.4]), h) - exact(h)) for h in (0.05, 0.025)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(5, abs=0.3)


def test_a_stiff_mode_that_follows_a_slow_one_errs_little():
    """u at rate 1 follows the cube of a slow v, though the first four stages leave it for a while."""
    s, slow = 20, 1e-4

    def field(y):
        return np.array([-(y[0] - y[1] ** 3), slow * y[1]])

    h, v = 0.9 * length(s), 0.1
    u = v**3 / (1 + 3 * slow)
    found = step(s, field, np.array([u, v]), h)
    np.testing.assert_allclose(found, [u * np.exp(3 * slow * h), v * np.exp(slow * h)], rtol=1e-6)


def test_too_few_stages_are_refused():
    with pytest.raises(ValueError, match="s must be an integer of at least 5, got 4"):
        stabilised(4)
