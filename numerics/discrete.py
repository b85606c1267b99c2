r"""Descent with finite steps beside the flow (V8): stable steps, the modified flow, how much later a drop comes.

A step of size eta on L advances t/tau by h = 2 eta, with momentum mu by h = 2 eta/(1 - mu) once the velocity has built up. To second order
in h it follows the flow of f - m (f . grad) f, with f = -1/2 dL/dW and the mass m = h/2 (1 + mu)/(1 - mu) of (V8-ball).
"""

from functools import cache
from typing import Any

import numpy as np

from ..theory.discrete import h, u_0, v_0
from ..theory.equations import equation
from ..theory.notation import lambda_
from ..theory.reduction import a, alpha, gamma
from ._checks import positive_number
from .compile import compile_expression
from .flow import integrate_field
from .landscape import FixedPoint
from .losses import QuadraticLoss
from .momentum import check_momentum, heavy_ball_mass
from .parametrization import Parametrization, check_pair, field_jacobian, vector_field
from .trajectory import Trajectory

__all__ = ["largest_stable_step", "later_merged_drop", "later_separate_drop", "modified_flow"]


def largest_stable_step(point: FixedPoint, *, momentum: float = 0.0) -> float:
    """The step on L above which weights near a fixed point oscillate away, (1 + mu)/kappa for the largest curvature kappa of L/2.

    At a saddle it concerns the directions that descent would come back from. Infinite where nothing curves upward.
    """
    if not isinstance(point, FixedPoint):
        raise TypeError(f"point must be a FixedPoint of iclflow.numerics, got {point!r}")
    curvature = float(point.spectrum[-1])
    return (1 + check_momentum(momentum)) / curvature if curvature > 0 else float("inf")


def modified_flow(
    loss: QuadraticLoss,
    weights: Parametrization,
    *,
    learning_rate: float,
    t_end: float,
    momentum: float = 0.0,
    rtol: float = 1e-9,
) -> Trajectory:
    """The flow that descent of step ``learning_rate`` follows with an error of second order (V8-modified), in t/tau."""
    check_pair(loss, weights)
    mass, t_end = heavy_ball_mass(learning_rate, momentum), positive_number("t_end", t_end)
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


def later_separate_drop(
    eigenvalue: float, second_moment: float, start: float, *, learning_rate: float, momentum: float = 0.0
) -> float:
    """The time t/tau by which steps delay a drop of separate attention to half (V8-drop), from v = k = q = ``start``."""
    added = _drop("separate")(eigenvalue, second_moment, start, *_step(learning_rate, momentum))
    return float(added) + _build_up(learning_rate, momentum)


def later_merged_drop(
    norm: float, curvature: float, start: float, *, learning_rate: float, momentum: float = 0.0
) -> float:
    """The same for balanced merged attention, white tokens: ``norm`` is gamma, ``curvature`` alpha, ``start`` the values' norm u_0."""
    added = _drop("merged")(norm, curvature, start, *_step(learning_rate, momentum))
    return float(added) + _build_up(learning_rate, momentum)


def _step(learning_rate: float, momentum: float) -> tuple[float]:
    """The h with which (V8-drop) holds: that of a step, times (1 + mu)/(1 - mu)."""
    mu_ = check_momentum(momentum)
    return (2 * positive_number("learning_rate", learning_rate) * (1 + mu_) / (1 - mu_) ** 2,)


def _build_up(learning_rate: float, momentum: float) -> float:
    """The time lost while the velocity builds up from rest, h mu/(1 - mu)."""
    return 2 * learning_rate * momentum / (1 - momentum) ** 2


@cache
def _drop(part: str) -> Any:
    arguments = {"separate": (lambda_, a, v_0, h), "merged": (gamma, alpha, u_0, h)}[part]
    return compile_expression(equation("V8-drop").statement[part], arguments)
