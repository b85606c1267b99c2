"""The modified flow f - m (f . grad) f (V8-modified), which descent with finite steps follows to second order in the step."""

import numpy as np

from .._checks import duration, positive_number
from ..parametrizations.base import Parametrization, check_pair, field_jacobian, vector_field
from ..tasks.losses import QuadraticLoss
from .flow import integrate_field
from .momentum import heavy_ball_mass
from .trajectory import Trajectory


def modified_flow(
    loss: QuadraticLoss, weights: Parametrization, *, learning_rate: float, t_end: float, momentum: float = 0.0, rtol: float = 1e-9
) -> Trajectory:
    """The flow (V8-modified) in t/tau, which descent of step ``learning_rate`` follows with an error of second order."""
    check_pair(loss, weights)
    mass, t_end = heavy_ball_mass(learning_rate, momentum), duration("t_end", t_end)
    velocity, jacobian = vector_field(loss, weights), field_jacobian(loss, weights)

    def field(clock: float, state: np.ndarray) -> np.ndarray:
        speed = velocity(clock, state)
        return speed - mass * (jacobian(clock, state) @ speed)

    state = weights.flatten()
    scale = positive_number("rtol", rtol) * (float(np.sqrt(np.mean(state**2))) or 1.0)
    times, states, statistics, interpolant = integrate_field(
        field, state, t_end, method="DOP853", rtol=rtol, atol=lambda vector: np.full(vector.shape, scale)
    )
    return Trajectory(times, states, loss, weights, 1.0, statistics, interpolant)
