r"""Gradient flow, equation (10): :math:`\tau \dot W = -\frac12 \partial L/\partial W`, for any loss and parametrization.

Time is integrated as t/tau, so tau is only a unit. The absolute tolerance scales with the initial weights: under a fixed
one, the growth of initial weights of 1e-12 would go unnoticed. The default solver switches between stiff and non-stiff
methods, for plateaus are long and quiet and drops short.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, TypedDict, Unpack, overload

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from .._checks import duration, finite_array, nonnegative_number, one_of, positive_integer, positive_number, tolerance
from ..parametrizations.base import Parametrization, check_pair, field_jacobian, vector_field
from ..tasks.losses import QuadraticLoss
from .large_weights import check_large_weights
from .solver import IMPLICIT, METHODS, Field, FlowError, Interpolant, Linear, Step, Work, steps
from .trajectory import Statistics, Trajectories, Trajectory
from .two_sided import compiled_flows, two_sided

# Above this many weights the factorisations of an implicit method cost more than the short steps of an explicit one.
IMPLICIT_SIZE = 1000
# If rounding of the velocity may move the weights by more than this multiple of rtol, the velocity is computed in long double.
WIDE_DRIFT = 1e3
COMPILED = "compiled"  # the method of :mod:`.compiled`
# Fewer runs than this are over before the compiled loop is loaded, or the first time compiled.
MANY = 50
# Tolerances at which LSODA no longer reaches its own: rounding enters each of its many steps.
TIGHT = 2e-12
# A plateau is reached when the loss has fallen by this fraction since the last one ...
PLATEAU_FALL = 0.01
# ... and falls at less than this fraction of its steepest rate since then.
PLATEAU_SLOPE = 1e-3


class _Options(TypedDict, total=False):
    tau: float
    rtol: float
    atol: float | None
    method: str | None
    stop_loss: float | None
    stop_plateau: int | None
    dense: bool
    times: Sequence[float] | None
    max_steps: int
    weight_decay: float


@overload
def gradient_flow(loss: QuadraticLoss, weights: Parametrization, *, t_end: float, **options: Unpack[_Options]) -> Trajectory: ...
@overload
def gradient_flow(
    loss: QuadraticLoss | Sequence[QuadraticLoss],
    weights: Parametrization | Sequence[Parametrization],
    *,
    t_end: float,
    **options: Unpack[_Options],
) -> Trajectories: ...
def gradient_flow(
    loss: Any,
    weights: Any,
    *,
    t_end: float,
    tau: float = 1.0,
    rtol: float = 1e-8,
    atol: float | None = None,
    method: str | None = None,
    stop_loss: float | None = None,
    stop_plateau: int | None = None,
    dense: bool = True,
    times: Sequence[float] | None = None,
    max_steps: int = 100_000,
    weight_decay: float = 0.0,
) -> Trajectory | Trajectories:
    r"""Integrate equation (10) from ``weights`` at t = 0 to ``t_end`` (in the units of ``tau``).

    ``atol=None`` is ``rtol`` times the root mean square of the initial weights. ``method`` names a solver of
    ``scipy.integrate``; by default LSODA with the analytic Jacobian, and DOP853 above 1000 weights. ``method="compiled"`` makes
    steps of DOP853 and of stabilised methods in Numba's machine code, for (M) and (S) under two-sided losses without a stop or decay. It
    takes a sixth of the time in the median of 45 random settings, a twelfth through the four drops of the default task, but half a second
    to load, and some six the first time on a machine, to be compiled. ``stop_loss`` ends
    the run when the loss has fallen to that value, ``stop_plateau=m`` when it settles on the plateau after m drops.
    ``dense=False`` keeps only the states at the solver's steps, with straight lines in between: the solver's interpolant
    takes about ten times the memory. ``times`` keeps the states at these, at 0 and at ``t_end`` alone, with straight lines in between: for
    weights so many that a state at each step is too much. Above 1000 weights the default is then ``"compiled"``, if that fits.

    A run of more than ``max_steps`` steps fails. Over very long times, as from initial weights of 1e-10 and below, the velocity is computed
    in NumPy's long double, if the platform has a wider one. From weights of size S >> 1 learning takes a time of order S^2; a shorter run
    warns (``LargeWeightsWarning``). ``weight_decay`` is gamma in the penalty gamma |W|^2 of the loss, which adds -gamma W to the velocity
    (V12); the losses of a run are without it.

    A list of weights, of losses, or of both in pairs, makes a run of each, with results as ``Trajectories``. From 50 runs on the default
    is ``"compiled"``, if that fits.

    The error of a trajectory is that of its start, times how strongly the run depends on it. An error of size e in the weights shifts a
    drop at t by about e t / w for weights of size w, more if two heads nearly tie, in inverse proportion to the difference of their
    escape times; B then errs by the shift times its rate in the drop. So ``rtol`` is a thousandth of the error of B or less. Below
    ``rtol`` of 2e-12, where LSODA does not keep what it promises, the default is ``"compiled"``.

    Raises ``ValueError`` or ``TypeError`` for bad arguments, and ``FlowError``, with the cause and the last good time, if
    the solver fails, or if the loss rises because the weights are too large for float64.
    """
    tau, rtol = positive_number("tau", tau), tolerance("rtol", rtol)
    t_end = duration("t_end", t_end, tau)
    max_steps, atol = positive_integer("max_steps", max_steps), None if atol is None else positive_number("atol", atol)
    method = None if method is None else one_of("method", method, (*METHODS, COMPILED))
    kept, decay = None if times is None else _kept(times, t_end) / tau, nonnegative_number("weight_decay", weight_decay)
    if _several(loss) or _several(weights):
        stops = {"stop_loss": stop_loss, "stop_plateau": stop_plateau, "dense": dense, "times": times, "weight_decay": decay}
        return _flows(loss, weights, kept, t_end=t_end, tau=tau, rtol=rtol, atol=atol, method=method, max_steps=max_steps, **stops)
    check_pair(loss, weights)
    fits = not decay and stop_loss is stop_plateau is None and _compilable(loss, weights, t_end / tau, rtol)
    large = kept is not None and weights.size > IMPLICIT_SIZE
    if method == COMPILED and not fits:
        raise ValueError(f"method {COMPILED!r} is for (M) and (S) under a two-sided loss, without stops, decay and times beyond float64")
    if method == COMPILED or (method is None and fits and (large or rtol <= TIGHT)):
        tight = rtol if large or method else rtol / 4
        return _compiled([loss], [weights], t_end=t_end, tau=tau, rtol=tight, atol=atol, max_steps=max_steps, times=kept)[0]
    if method is None:
        method = "LSODA" if weights.size <= IMPLICIT_SIZE else "DOP853"
    state = weights.flatten()
    atol = _atol(weights, rtol) if atol is None else atol
    level = None if stop_loss is None else nonnegative_number("stop_loss", stop_loss)
    plateau = None if stop_plateau is None else positive_integer("stop_plateau", stop_plateau)
    watch = None if level is plateau is None else _Watch(loss, weights, level, plateau, decay)
    jacobian = _decaying(field_jacobian(loss, weights), decay, lambda _: np.eye(weights.size)) if method in IMPLICIT else None
    try:
        at, states, statistics, interpolant = integrate_field(
            _decaying(velocity(loss, weights, t_end / tau, rtol), decay),
            state,
            t_end / tau,
            method=method,
            rtol=rtol,
            atol=above_rounding(atol, weights),
            jacobian=jacobian,
            watch=watch,
            dense=dense,
            kept=kept,
            max_steps=max_steps,
        )
    except FlowError as error:
        raise FlowError(error.cause, error.time * tau) from None
    run = Trajectory(at * tau, states, loss, weights, tau, statistics, interpolant)
    if not decay:  # with it the loss may rise
        check_large_weights(run)
    return run


def _several(given: Any) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, QuadraticLoss | Parametrization)


def _flows(loss: Any, weights: Any, kept: np.ndarray | None, **options: Any) -> Trajectories:
    """A run for each pair of a loss and weights; one of either is shared by all."""
    losses = list(loss) if _several(loss) else [loss] * len(weights)
    starts = list(weights) if _several(weights) else [weights] * len(losses)
    if not starts or len(starts) != len(losses):
        raise ValueError(f"loss and weights must be as many, at least one, got {len(losses)} losses and {len(starts)} weights")
    for one, start in zip(losses, starts, strict=True):
        check_pair(one, start)
        if type(start) is not type(starts[0]) or start.shapes != starts[0].shapes:
            raise ValueError(f"weights must share one parametrization and its sizes, got {starts[0].shapes} and {start.shapes}")
    plain = not options["weight_decay"] and options["stop_loss"] is options["stop_plateau"] is None
    compiled = options["method"] == COMPILED or (options["method"] is None and len(starts) >= MANY)
    span = options["t_end"] / options["tau"], options["rtol"]
    if not compiled or not plain or not all(_compilable(*pair, *span) for pair in zip(losses, starts, strict=True)):
        return Trajectories(tuple(gradient_flow(one, start, **options) for one, start in zip(losses, starts, strict=True)))
    return _compiled(losses, starts, times=kept, **{name: options[name] for name in ("t_end", "tau", "rtol", "atol", "max_steps")})


def _compiled(
    losses: list[QuadraticLoss], starts: list[Parametrization], *, tau: float, rtol: float, atol: float | None, t_end: float, **options: Any
) -> Trajectories:
    tolerances = [_atol(start, rtol) if atol is None else atol for start in starts]
    try:
        runs = compiled_flows(losses, starts, t_end / tau, rtol=rtol, atol=tolerances, tau=tau, **options)
    except FlowError as error:
        raise FlowError(error.cause, error.time * tau) from None
    for run in runs:
        check_large_weights(run)
    return runs


def _kept(times: Any, t_end: float) -> Float[np.ndarray, " n"]:
    """``times`` with 0 and ``t_end``."""
    kept = finite_array("times", times, ("n",))
    if not ((kept >= 0) & (kept <= t_end)).all() or not (np.diff(kept) > 0).all():
        raise ValueError(f"times must increase from 0 or later to t_end = {t_end!r} or earlier, got {times!r}")
    return np.unique([0.0, *kept, t_end])


def _atol(weights: Parametrization, rtol: float) -> float:
    return rtol * (float(np.sqrt(np.mean(weights.flatten() ** 2))) or 1.0)


def integrate_field(
    field: Field,
    state: np.ndarray,
    t_end: float,
    *,
    method: str,
    rtol: float,
    atol: Callable[[np.ndarray], np.ndarray],
    jacobian: Field | None = None,
    watch: Callable[[Step], tuple[Step, str | None]] | None = None,
    dense: bool = True,
    kept: np.ndarray | None = None,
    max_steps: int = 100_000,
) -> tuple[np.ndarray, np.ndarray, Statistics, Interpolant | Linear]:
    """The times, states, statistics and interpolant of one run from 0 to ``t_end``.

    ``watch(step)`` returns the step, perhaps cut short, and the reason to stop after it or None. States are recorded
    at ``kept`` times and the end alone, if these are given.

    Raises ``FlowError`` if the solver fails or takes more than ``max_steps`` steps.
    """
    started, work = time.perf_counter(), Work()
    times, states, taken, stopped, count = [np.zeros(1)], [state[None]], [], None, 0
    kept = kept if kept is None else kept[1:]
    run = steps(field, state, t_end, work, method=method, rtol=rtol, atol=atol, jacobian=jacobian)
    for made in run:
        if watch is not None:
            for i, step in enumerate(made):
                made[i], stopped = watch(step)
                if stopped is not None:
                    del made[i + 1 :]
                    break
        ends, count = np.array([step.clock + step.end for step in made]), count + len(made)
        if kept is None:
            times.append(ends)
            states.append(np.concatenate([step.state for step in made]).reshape(len(made), -1))
            taken += made if dense else []
        else:
            inside, kept = kept[kept < ends[-1]], kept[kept >= ends[-1]]
            times.append(inside)
            states.append(Interpolant(ends, made)(inside))
        if stopped is not None:
            break
        if count > max_steps:
            raise FlowError(f"the solver took more than max_steps = {max_steps} steps", ends[max_steps - count])
    run.close()
    if kept is not None:
        times.append(ends[-1:])
        states.append(made[-1].state[None])
    scaled, stacked = np.concatenate(times), np.concatenate(states)
    seconds = time.perf_counter() - started
    statistics = Statistics(method, count, work.evaluations, work.jacobians, work.restarts, seconds, stopped or "t_end")
    return scaled, stacked, statistics, Interpolant(scaled[1:], taken) if dense and kept is None else Linear(scaled, stacked)


def _compilable(loss: QuadraticLoss, weights: Parametrization, t_end: float, rtol: float) -> bool:
    return two_sided(loss, weights) and not _drifts(loss, t_end, rtol)


def _drifts(loss: QuadraticLoss, t_end: float, rtol: float) -> bool:
    """Whether rounding in float64 could move the weights by more than ``WIDE_DRIFT`` rtol."""
    return float(np.finfo(float).eps) * float(np.abs(loss.A).max()) * t_end > WIDE_DRIFT * rtol


def velocity(loss: QuadraticLoss, weights: Parametrization, t_end: float, rtol: float) -> Field:
    """The velocity, in long double if rounding in float64 could move the weights by more than ``WIDE_DRIFT`` rtol.

    Equal eigenvalues leave the learned direction free: nothing pulls the weights back along it, so the velocity there is
    pure rounding, which the solver would follow in steps of at most rtol over it.
    """
    if _drifts(loss, t_end, rtol):
        field = Parametrization.field(weights, loss)
        return lambda t, vector: field(t, vector.astype(np.longdouble)).astype(float)
    return vector_field(loss, weights)


def _decaying(field: Field, decay: float, of: Callable[[np.ndarray], np.ndarray] = lambda state: state) -> Field:
    """The field less the decay times the weights, or times what else ``of`` gives."""
    return (lambda t, state: field(t, state) - decay * of(state)) if decay else field


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

    def __init__(self, loss: QuadraticLoss, weights: Parametrization, level: float | None, plateau: int | None, decay: float) -> None:
        self.loss, self.weights, self.level, self.plateau = loss, weights, level, plateau
        self.reached, self.steepest, self.before = 0, 0.0, loss.value(weights.effective_map())
        self.field = _decaying(vector_field(loss, weights), decay)

    def value(self, state: np.ndarray) -> float:
        return self.loss.value(type(self.weights).combine(*self.weights.split(state)))

    def __call__(self, step: Step) -> tuple[Step, str | None]:
        """The step, cut short when the loss passes the level, and the reason to stop or None."""
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
