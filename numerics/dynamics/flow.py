r"""Gradient flow, equation (10): :math:`\tau \dot W = -\frac12 \partial L/\partial W`, for any loss and parametrization.

Time is integrated as t/tau, so tau is only a unit. The absolute tolerance scales with the initial weights: under a fixed
one, the growth of initial weights of 1e-12 would go unnoticed. The default solver switches between stiff and non-stiff
methods, for plateaus are long and quiet and drops short.
"""

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.optimize import brentq

from .._checks import duration, nonnegative_number, positive_integer, positive_number
from ..parametrizations.attention import SeparateWeights
from ..parametrizations.base import Parametrization, check_pair, field_jacobian, vector_field
from ..tasks.losses import QuadraticLoss, TwoSided
from .large_weights import check_large_weights
from .solver import IMPLICIT, METHODS, Field, FlowError, Interpolant, Linear, Step, Work, steps
from .trajectory import Statistics, Trajectory

SMALLEST_RTOL = 100 * float(np.finfo(float).eps)
# Above this many weights the factorisations of an implicit method cost more than the short steps of an explicit one.
IMPLICIT_SIZE = 1000
# If rounding of the velocity may move the weights by more than this multiple of rtol, the velocity is computed in long double.
WIDE_DRIFT = 1e3
# A plateau is reached when the loss has fallen by this fraction since the last one ...
PLATEAU_FALL = 0.01
# ... and falls at less than this fraction of its steepest rate since then.
PLATEAU_SLOPE = 1e-3


def gradient_flow(
    loss: QuadraticLoss,
    weights: Parametrization,
    *,
    t_end: float,
    tau: float = 1.0,
    rtol: float = 1e-8,
    atol: float | None = None,
    method: str | None = None,
    stop_loss: float | None = None,
    stop_plateau: int | None = None,
    dense: bool = True,
    max_steps: int = 100_000,
) -> Trajectory:
    r"""Integrate equation (10) from ``weights`` at t = 0 to ``t_end`` (in the units of ``tau``).

    ``atol=None`` is ``rtol`` times the root mean square of the initial weights. ``method`` names a solver of
    ``scipy.integrate``; by default LSODA with the analytic Jacobian, and DOP853 above 1000 weights. ``stop_loss`` ends the
    run when the loss has fallen to that value, ``stop_plateau=m`` when it settles on the plateau after m drops.
    ``dense=False`` keeps only the states at the solver's steps, with straight lines in between: the solver's interpolant
    takes about ten times the memory. A run of more than ``max_steps`` steps fails. Over very long times, as from initial weights
    of 1e-10 and below, the velocity is computed in NumPy's long double, if the platform has a wider one. From weights of size S >> 1
    learning takes a time of order S^2; a shorter run warns (``LargeWeightsWarning``).

    Raises ``ValueError`` or ``TypeError`` for bad arguments, and ``FlowError``, with the cause and the last good time, if
    the solver fails, or if the loss rises because the weights are too large for float64.
    """
    check_pair(loss, weights)
    tau, rtol = positive_number("tau", tau), positive_number("rtol", rtol)
    t_end = duration("t_end", t_end, tau)
    if rtol >= 1:
        raise ValueError(f"rtol must be below 1, got {rtol!r}")
    if rtol < SMALLEST_RTOL:
        raise ValueError(f"rtol must be at least {SMALLEST_RTOL:.2g}, a hundred times the rounding unit, got {rtol!r}")
    if method is None:
        method = "LSODA" if weights.size <= IMPLICIT_SIZE else "DOP853"
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    max_steps = positive_integer("max_steps", max_steps)
    state = weights.flatten()
    scale = float(np.sqrt(np.mean(state**2)))
    atol = rtol * (scale or 1.0) if atol is None else positive_number("atol", atol)
    watch = _Watch(
        loss,
        weights,
        None if stop_loss is None else nonnegative_number("stop_loss", stop_loss),
        None if stop_plateau is None else positive_integer("stop_plateau", stop_plateau),
    )

    jacobian = field_jacobian(loss, weights) if method in IMPLICIT else None
    try:
        times, states, statistics, interpolant = integrate_field(
            _velocity(loss, weights, t_end / tau, rtol),
            state,
            t_end / tau,
            method=method,
            rtol=rtol,
            atol=above_rounding(atol, weights),
            jacobian=jacobian,
            watch=watch,
            dense=dense,
            max_steps=max_steps,
        )
    except FlowError as error:
        raise FlowError(error.cause, error.time * tau) from None
    run = Trajectory(times * tau, states, loss, weights, tau, statistics, interpolant)
    check_large_weights(run)
    return run


def integrate_field(
    field: Field,
    state: np.ndarray,
    t_end: float,
    *,
    method: str,
    rtol: float,
    atol: Callable[[np.ndarray], np.ndarray],
    jacobian: Field | None = None,
    watch: Callable[[Step], tuple[Step, str | None]] = lambda step: (step, None),
    dense: bool = True,
    max_steps: int = 100_000,
) -> tuple[np.ndarray, np.ndarray, Statistics, Interpolant | Linear]:
    """The times, states, statistics and interpolant of one run from 0 to ``t_end``.

    ``watch(step)`` returns the step, perhaps cut short, and the reason to stop after it or None.

    Raises ``FlowError`` if the solver fails or takes more than ``max_steps`` steps.
    """
    started, work = time.perf_counter(), Work()
    taken: list[Step] = []
    times, states, stopped = [0.0], [state], None
    run = steps(field, state, t_end, work, method=method, rtol=rtol, atol=atol, jacobian=jacobian)
    for step in run:
        step, stopped = watch(step)
        times.append(step.clock + step.end)
        states.append(step.state)
        if dense:
            taken.append(step)
        if stopped is not None:
            break
        if len(times) - 1 > max_steps:
            raise FlowError(f"the solver took more than max_steps = {max_steps} steps", times[-1])
    run.close()
    scaled, stacked = np.array(times), np.array(states)
    statistics = Statistics(
        method=method,
        steps=len(times) - 1,
        evaluations=work.evaluations,
        jacobians=work.jacobians,
        restarts=work.restarts,
        seconds=time.perf_counter() - started,
        stopped=stopped or "t_end",
    )
    return scaled, stacked, statistics, Interpolant.of(taken) if dense else Linear(scaled, stacked)


def _velocity(loss: QuadraticLoss, weights: Parametrization, t_end: float, rtol: float) -> Field:
    """The velocity, in long double if rounding in float64 could move the weights by more than ``WIDE_DRIFT`` rtol.

    Equal eigenvalues leave the learned direction free: nothing pulls the weights back along it, so the velocity there is
    pure rounding, which the solver would follow in steps of at most rtol over it.
    """
    drift = float(np.finfo(float).eps) * float(np.abs(loss.A).max()) * t_end
    if drift > WIDE_DRIFT * rtol:
        field = vector_field(loss, weights)
        return lambda t, vector: field(t, vector.astype(np.longdouble)).astype(float)
    return _separate_velocity(loss, weights) if isinstance(weights, SeparateWeights) else vector_field(loss, weights)


def _separate_velocity(loss: QuadraticLoss, weights: SeparateWeights) -> Field:
    """``vector_field`` for separate attention in a third of its time: keys and queries lie beside each other, and arrays are reused."""
    H, R, D = weights.k.shape
    A, C = loss.A, loss.C
    copy, multiply, subtract, matmul, vecdot = np.copyto, np.multiply, np.subtract, np.matmul, np.vecdot
    if isinstance(C, TwoSided) and all(np.array_equal(part, np.diag(np.diag(part))) for part in (C.M, C.Q)):
        C = partial(multiply, np.outer(np.diag(C.M), np.diag(C.Q)))
    state, out, weighted, force, products = (
        np.empty(weights.size),
        np.empty(weights.size),
        *map(np.empty, ((H, R * D), (D, D), (2, H, R * D))),
    )
    column, (keys, _) = state[:H, None], state[H:].reshape(2, H, R * D)
    k, q = state[H:].reshape(2, H * R, D)
    by_query, by_key = products.reshape(2, H * R, D)
    flat, moved, velocities, growths = weighted.reshape(H * R, D).T, products[0], out[H:].reshape(2, H, R * D), out[:H]
    turned = force.T

    def field(_t: float, vector: np.ndarray) -> np.ndarray:
        copy(state, vector)
        multiply(keys, column, weighted)
        subtract(A, C(matmul(flat, q)), force)
        matmul(q, turned, by_query)
        matmul(k, force, by_key)
        vecdot(keys, moved, growths)
        multiply(products, column, velocities)
        return out.copy()

    return field


def above_rounding(atol: float, weights: Parametrization) -> Callable[[np.ndarray], np.ndarray]:
    """The absolute tolerance, or the rounding error of the velocity if that is larger.

    At a fixed point the force G is a difference of equal terms, known to about machine precision: a smaller tolerance on
    the components that it drives would cut the steps to nothing.
    """
    noise = np.full(weights.effective_map().shape, 10 * np.finfo(float).eps)

    def tolerance(state: np.ndarray) -> np.ndarray:
        parts = type(weights).spread(noise, *(np.abs(array) for array in weights.split(state)))
        return np.maximum(atol, np.concatenate([part.ravel() for part in parts]))

    return tolerance


class _Watch:
    """Stops a run when the loss has fallen to ``level``, or has settled on the plateau after ``plateau`` drops."""

    def __init__(self, loss: QuadraticLoss, weights: Parametrization, level: float | None, plateau: int | None) -> None:
        self.loss, self.weights, self.level, self.plateau = loss, weights, level, plateau
        self.reached, self.steepest, self.before = 0, 0.0, loss.value(weights.effective_map())
        self.field = vector_field(loss, weights)

    def value(self, state: np.ndarray) -> float:
        return self.loss.value(type(self.weights).combine(*self.weights.split(state)))

    def __call__(self, step: Step) -> tuple[Step, str | None]:
        """The step, cut short when the loss passes the level, and the reason to stop or None."""
        if self.level is None and self.plateau is None:
            return step, None
        value = self.value(step.state)
        if self.level is not None and value <= self.level:
            end = self._time_of_level(step, self.level)
            return Step(step.clock, step.start, end, step.segment(end), step.segment), "stop_loss"
        velocity = self.field(0.0, step.state)
        slope = 2 * float(velocity @ velocity)  # -tau dL/dt along the flow (10)
        self.steepest = max(self.steepest, slope)
        if value < (1 - PLATEAU_FALL) * self.before and slope < PLATEAU_SLOPE * self.steepest:
            self.reached, self.before, self.steepest = self.reached + 1, value, 0.0
        return step, "stop_plateau" if self.reached == self.plateau else None

    def _time_of_level(self, step: Step, level: float) -> float:
        def excess(t: float) -> float:
            return self.value(step.segment(t)) - level

        if excess(step.start) <= 0 or excess(step.end) > 0:  # at an end of the step, to within the interpolant's error
            return step.end
        return float(brentq(excess, step.start, step.end, xtol=1e-14 * step.end))  # type: ignore[arg-type]
