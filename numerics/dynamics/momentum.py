r"""Descent with momentum (heavy ball), the flow with mass that it follows (V8-ball), and the modified flow
f - m (f . grad) f (V8-modified), which descent with finite steps follows to second order in the step.

.. math::
    W_{n+1} = W_n + \mu (W_n - W_{n-1}) - \eta \frac{\partial L}{\partial W}, \qquad
    m \tau^2 \ddot W + \tau \dot W = -\frac12 \frac{\partial L}{\partial W}, \qquad m = \frac{\eta (1 + \mu)}{(1 - \mu)^2}

A step counts as 2 eta/(1 - mu) of t/tau, so that small steps approach gradient flow (10) at every momentum. The mass is a time in units
of tau: longer drops follow gradient flow, shorter ones are slowed down. If m times a curvature of L/2 exceeds 1/4, the weights oscillate
about their minimum.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float

from ...theory.results.discretisation.finite_steps import eta, mu
from .._checks import duration, instance, nonnegative_number, one_of, positive_number, tolerance
from ..compilation.equations import compiled
from ..parametrizations.base import Parametrization, check_pair, field_jacobian, vector_field
from ..tasks.losses import QuadraticLoss
from .descent import checked_steps, take_steps
from .flow import IMPLICIT_SIZE, above_rounding, integrate_field
from .solver import IMPLICIT, METHODS, Interpolant, Linear
from .trajectory import Trajectory

# Above this mass, in units of the inverse of the largest entry of -1/2 dL/dB at B = 0, weights oscillate many times before they rest.
SWINGING = 10.0


def heavy_ball(
    loss: QuadraticLoss, weights: Parametrization, *, steps: int, learning_rate: float, momentum: float, record_every: int = 1
) -> Trajectory:
    """W <- W + mu (W - W_before) - eta dL/dW from rest; each step counts as 2 eta/(1 - mu) of t/tau.

    Raises ``ValueError`` or ``TypeError`` for bad arguments, and ``FlowError``, with the last good time, if the weights overflow (a step
    too large for the curvature).
    """
    steps, every, velocity = checked_steps(loss, weights, steps, record_every)
    eta_, mu_, moved = positive_number("learning_rate", learning_rate), check_momentum(momentum), np.zeros(weights.size)

    def after(_step: int, state: np.ndarray) -> np.ndarray:
        nonlocal moved
        moved = mu_ * moved + 2 * eta_ * velocity(0.0, state)
        return state + moved

    times = np.arange(steps + 1) * (2 * eta_ / (1 - mu_))
    return take_steps(loss, weights, after, times, every, method="heavy ball")


@dataclass(frozen=True, eq=False, repr=False)
class MassiveTrajectory(Trajectory):
    """Weights and velocities of one run of the flow with mass; everything else is as in :class:`Trajectory`.

    ``velocities`` holds dW/dt at ``times``, flat like ``states``, for t in units of tau. ``conserved`` holds the quantities that
    gradient flow conserves; with mass they drift (V8-energy).
    """

    velocities: Float[np.ndarray, "T P"]
    speeds: Callable[[Float[np.ndarray, " n"]], Float[np.ndarray, "n P"]]
    mass: float

    @cached_property
    def energy(self) -> Float[np.ndarray, " T"]:
        """(L + m |dW/dt|^2)/2, which falls at the rate |dW/dt|^2 (V8-energy)."""
        return (self.loss + self.mass * np.sum(self.velocities**2, axis=1)) / 2

    def velocities_at(self, t: object) -> Float[np.ndarray, "*n P"]:
        """Flat dW/dt at the time or times ``t``; ``ValueError`` for a time outside the run."""
        return replace(self, states=self.velocities, interpolant=self.speeds).states_at(t)


@dataclass(frozen=True, eq=False)
class _Columns:
    """The weights, or the velocities, in an interpolated state of both."""

    whole: Interpolant | Linear
    columns: slice

    def __call__(self, t: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n P"]:
        return self.whole(t)[:, self.columns]


def flow_with_mass(
    loss: QuadraticLoss,
    weights: Parametrization,
    velocity: Parametrization | None = None,
    *,
    mass: float,
    t_end: float,
    rtol: float = 1e-8,
    method: str | None = None,
) -> MassiveTrajectory:
    """Integrate m W'' + W' = -1/2 dL/dW, t and m in units of tau, from ``weights`` and dW/dt = ``velocity``, by default at rest.

    ``method`` names a solver of ``scipy.integrate``: by default LSODA with the analytic Jacobian, and DOP853 above 500 weights or for
    a mass large enough for many oscillations, on which implicit methods waste steps.

    Raises ``ValueError`` or ``TypeError`` for bad arguments, and ``FlowError`` if the solver fails.
    """
    check_pair(loss, weights)
    mass, t_end, rtol = positive_number("mass", mass), duration("t_end", t_end), tolerance("rtol", rtol)
    force, count = vector_field(loss, weights), weights.size
    place = weights.flatten()
    speed = np.zeros(count) if velocity is None else _like(weights, velocity)

    def field(clock: float, state: np.ndarray) -> np.ndarray:
        return np.concatenate([state[count:], (force(clock, state[:count]) - state[count:]) / mass])

    slow = rtol * (float(np.sqrt(np.mean(place**2))) or 1.0)
    # Near a minimum the force is a difference of equal terms; a mass above 1 averages it over an oscillation of a time of mass^(1/2).
    rounding = 10 * float(np.finfo(float).eps) * float(np.abs(loss.A).max()) / max(1.0, mass**0.5)
    fast = max(rtol * float(np.sqrt(np.mean(np.maximum(np.abs(force(0.0, place)), np.abs(speed)) ** 2))), rounding)
    of_places = above_rounding(slow, weights)
    if method is None:
        method = "LSODA" if 2 * count <= IMPLICIT_SIZE and mass * np.abs(loss.A).max() < SWINGING else "DOP853"
    method = one_of("method", method, METHODS)
    times, states, statistics, interpolant = integrate_field(
        field,
        np.concatenate([place, speed]),
        t_end,
        method=method,
        rtol=rtol,
        atol=lambda state: np.concatenate([of_places(state[:count]), np.full(count, fast)]),
        jacobian=_jacobian(loss, weights, mass) if method in IMPLICIT else None,
    )
    first, second = slice(count), slice(count, None)
    places, speeds = (_Columns(interpolant, columns) for columns in (first, second))
    return MassiveTrajectory(times, states[:, first], loss, weights, 1.0, statistics, places, states[:, second], speeds, mass)


def heavy_ball_flow(
    loss: QuadraticLoss, weights: Parametrization, *, learning_rate: float, momentum: float, t_end: float, rtol: float = 1e-8
) -> MassiveTrajectory:
    """The flow (V8-ball) in t/tau, which heavy ball of step ``learning_rate`` on L follows with an error of second order.

    It starts with the velocity (1 - mu)/(1 + mu) f, which delays it as much as heavy ball from rest. ``momentum=0`` gives the flow of
    descent without momentum, of the same order. Everything else is as in :func:`flow_with_mass`.
    """
    check_pair(loss, weights)
    mass = heavy_ball_mass(learning_rate, momentum)
    share = float(compiled("V8-ball", (mu,), part="start")(check_momentum(momentum)))
    velocity = weights.unflatten(share * vector_field(loss, weights)(0.0, weights.flatten()))
    return flow_with_mass(loss, weights, velocity, mass=mass, t_end=t_end, rtol=rtol)


def modified_flow(
    loss: QuadraticLoss, weights: Parametrization, *, learning_rate: float, t_end: float, momentum: float = 0.0, rtol: float = 1e-9
) -> Trajectory:
    """The flow (V8-modified) in t/tau, which descent of step ``learning_rate`` follows with an error of second order."""
    check_pair(loss, weights)
    mass, t_end, rtol = heavy_ball_mass(learning_rate, momentum), duration("t_end", t_end), tolerance("rtol", rtol)
    velocity, jacobian = vector_field(loss, weights), field_jacobian(loss, weights)

    def field(clock: float, state: np.ndarray) -> np.ndarray:
        speed = velocity(clock, state)
        return speed - mass * (jacobian(clock, state) @ speed)

    state = weights.flatten()
    scale = rtol * (float(np.sqrt(np.mean(state**2))) or 1.0)
    times, states, statistics, interpolant = integrate_field(
        field, state, t_end, method="DOP853", rtol=rtol, atol=lambda vector: np.full(vector.shape, scale)
    )
    return Trajectory(times, states, loss, weights, 1.0, statistics, interpolant)


def heavy_ball_mass(learning_rate: float, momentum: float) -> float:
    """m = eta (1 + mu)/(1 - mu)^2 of (V8-ball), in units of tau, for the step eta on L."""
    mass = compiled("V8-ball", (eta, mu), part="mass")
    return float(mass(positive_number("learning_rate", learning_rate), check_momentum(momentum)))


def check_momentum(value: float) -> float:
    """``value`` as a float. Raises ``ValueError`` unless it is at least 0 and below 1."""
    momentum = nonnegative_number("momentum", value)
    if momentum >= 1:
        raise ValueError(f"momentum must be below 1, got {momentum!r}")
    return momentum


def _like(weights: Parametrization, velocity: Parametrization) -> Float[np.ndarray, " P"]:
    if instance("velocity", velocity, type(weights), f"a {type(weights).__name__} like the weights").shapes != weights.shapes:
        raise ValueError(f"velocity must be shaped like the weights, got {velocity!r}")
    return velocity.flatten()


def _jacobian(loss: QuadraticLoss, weights: Parametrization, mass: float) -> Callable[[float, np.ndarray], Float[np.ndarray, "2*P 2*P"]]:
    slopes, count = field_jacobian(loss, weights), weights.size
    unit = np.eye(count)

    def jacobian(clock: float, state: np.ndarray) -> np.ndarray:
        return np.block([[np.zeros_like(unit), unit], [slopes(clock, state[:count]) / mass, -unit / mass]])

    return jacobian
