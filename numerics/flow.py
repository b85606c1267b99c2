r"""Gradient flow, equation (10): :math:`\tau \dot W = -\frac12 \partial L / \partial W`, for any loss and parametrization.

Time is integrated as t/tau, so tau is only a unit. Three things make the integration hold from initial scales of 1e-14 to 10:
the absolute tolerance scales with the initial weights; the default solver switches between a stiff and a non-stiff method
(plateaus are long and quiet, drops short); and the solver's clock starts afresh when its steps come near the resolution of its time.
"""

import time
import warnings
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.integrate import BDF, DOP853, LSODA, RK45, DenseOutput, OdeSolution, OdeSolver, Radau
from scipy.optimize import brentq

from ._checks import nonnegative_number, positive_integer, positive_number
from .losses import QuadraticLoss
from .parametrization import Parametrization, vector_field
from .trajectory import Statistics, Trajectory

METHODS: dict[str, type[OdeSolver]] = {"LSODA": LSODA, "DOP853": DOP853, "RK45": RK45, "Radau": Radau, "BDF": BDF}

# A step below this fraction of the elapsed time would lose its leading digits in t + h: the clock then starts afresh.
CLOCK_RESOLUTION = 1e-8
# A plateau is reached when the loss has fallen by this fraction since the last one ...
PLATEAU_FALL = 0.01
# ... and falls at less than this fraction of its steepest rate since then.
PLATEAU_SLOPE = 1e-3


class FlowError(RuntimeError):
    """The solver failed: ``cause`` says why, ``time`` is the last time at which the weights can be trusted."""

    def __init__(self, cause: str, time: float) -> None:
        super().__init__(f"gradient flow failed after t = {time:.6g}: {cause}")
        self.cause, self.time = cause, time


@dataclass(frozen=True, eq=False)
class _Interpolant:
    """The solver's dense output, one piece for each start of its clock."""

    clocks: Float[np.ndarray, " S"]
    pieces: tuple[OdeSolution, ...]

    def __call__(self, t: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n P"]:
        owner = np.maximum(np.searchsorted(self.clocks, t, side="left") - 1, 0)
        values = np.empty((len(t), *np.shape(self.pieces[0](0.0))))
        for index in np.unique(owner):
            piece, chosen = self.pieces[index], owner == index
            values[chosen] = piece(np.clip(t[chosen] - self.clocks[index], 0.0, piece.t_max)).T
        return values


class _PlateauWatch:
    """Counts the plateaus on which a falling loss settles, from its value and its rate of fall at each step."""

    def __init__(self, loss: float) -> None:
        self.reached, self.last, self.steepest = 0, loss, 0.0

    def update(self, loss: float, slope: float) -> None:
        self.steepest = max(self.steepest, slope)
        if loss < (1 - PLATEAU_FALL) * self.last and slope < PLATEAU_SLOPE * self.steepest:
            self.reached, self.last, self.steepest = self.reached + 1, loss, 0.0


def gradient_flow(
    loss: QuadraticLoss,
    weights: Parametrization,
    *,
    t_end: float,
    tau: float = 1.0,
    rtol: float = 1e-8,
    atol: float | None = None,
    method: str = "LSODA",
    stop_loss: float | None = None,
    stop_plateau: int | None = None,
) -> Trajectory:
    r"""Integrate equation (10) from ``weights`` at t = 0 to ``t_end`` (in the units of ``tau``).

    ``atol=None`` is ``rtol`` times the root mean square of the initial weights. ``stop_loss`` ends the run when the loss has
    fallen to that value, ``stop_plateau=m`` when it settles on the plateau after m drops. Raises ``ValueError`` for bad
    arguments and ``FlowError``, with the cause and the last good time, if the solver fails.
    """
    if not isinstance(loss, QuadraticLoss):
        raise TypeError(f"loss must be a QuadraticLoss, got {loss!r}")
    if not isinstance(weights, Parametrization):
        raise TypeError(f"weights must be a parametrization such as SeparateWeights, got {weights!r}")
    t_end, tau, rtol = positive_number("t_end", t_end), positive_number("tau", tau), positive_number("rtol", rtol)
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    B = weights.effective_map()
    if B.shape != loss.A.shape:
        raise ValueError(f"weights must make an effective map of the loss's shape {loss.A.shape}, got {B.shape}")
    y = weights.flatten()
    scale = float(np.sqrt(np.mean(y**2)))
    atol = rtol * (scale or 1.0) if atol is None else positive_number("atol", atol)
    stop_loss = None if stop_loss is None else nonnegative_number("stop_loss", stop_loss)
    stop_plateau = None if stop_plateau is None else positive_integer("stop_plateau", stop_plateau)

    started = time.perf_counter()
    field = vector_field(loss, weights)
    watch = _PlateauWatch(loss.value(B))
    t, t_final = 0.0, t_end / tau
    times, states, clocks, pieces = [0.0], [y], [], []
    evaluations = jacobians = 0
    stopped, first_step = "t_end", None
    while t < t_final and stopped == "t_end":
        clock, knots, segments = t, [0.0], []
        solver = METHODS[method](field, 0.0, y, t_final - clock, rtol=rtol, atol=atol, first_step=first_step)
        while solver.status == "running":
            _step(solver, (clock + knots[-1]) * tau)
            segment, local, y = solver.dense_output(), solver.t, solver.y.copy()
            if stop_loss is not None and _loss(loss, weights, y) <= stop_loss:
                local = _time_of_loss(loss, weights, segment, knots[-1], local, stop_loss)
                y, stopped = segment(local), "stop_loss"
            elif stop_plateau is not None:
                velocity = field(local, y)
                watch.update(_loss(loss, weights, y), 2 * float(velocity @ velocity))  # dL/dt = -2 |dW/dt|^2
                stopped = "stop_plateau" if watch.reached == stop_plateau else stopped
            knots.append(local)
            segments.append(segment)
            t = clock + local
            times.append(t)
            states.append(y)
            if stopped != "t_end":
                break
            if solver.status == "running" and solver.step_size < CLOCK_RESOLUTION * local:
                first_step = solver.step_size
                break
        evaluations, jacobians = evaluations + solver.nfev, jacobians + solver.njev
        clocks.append(clock)
        pieces.append(OdeSolution(knots, segments))
    statistics = Statistics(
        method=method,
        steps=len(times) - 1,
        evaluations=evaluations,
        jacobians=jacobians,
        restarts=len(pieces) - 1,
        seconds=time.perf_counter() - started,
        stopped=stopped,
    )
    interpolant = _Interpolant(np.array(clocks), tuple(pieces))
    return Trajectory(np.array(times) * tau, np.array(states), loss, weights, tau, statistics, interpolant)


def _step(solver: OdeSolver, last_good: float) -> None:
    """One step of the solver; LSODA gives its cause of failure only as a warning, which becomes the error's text."""
    with warnings.catch_warnings(record=True) as caught, np.errstate(over="ignore", invalid="ignore"):
        warnings.simplefilter("always")
        message = solver.step()
    if solver.status == "failed":
        raise FlowError("; ".join([str(message), *(str(warning.message) for warning in caught)]), last_good)
    if not np.isfinite(solver.y).all():
        raise FlowError("the weights overflowed", last_good)


def _loss(loss: QuadraticLoss, weights: Parametrization, y: np.ndarray) -> float:
    return loss.value(type(weights).combine(*weights.split(y)))


def _time_of_loss(
    loss: QuadraticLoss, weights: Parametrization, segment: DenseOutput, start: float, end: float, level: float
) -> float:
    """When the loss passes ``level`` inside one step, at whose end it is already at or below it."""
    if _loss(loss, weights, segment(start)) <= level:
        return end
    return float(brentq(lambda t: _loss(loss, weights, segment(t)) - level, start, end, xtol=1e-14 * end))
