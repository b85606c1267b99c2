"""Step-by-step integration of an autonomous system over times of any size, on SciPy's solvers.

Two things are added to them. The clock restarts at 0 when steps come near the resolution of the time elapsed (a drop of
length 10 after a plateau of length 1e15 still resolves), and when a solver fails, for a few times without progress.
"""

import warnings
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.integrate import BDF, DOP853, LSODA, RK45, OdeSolver, Radau

from ..parametrizations.base import Field

METHODS: dict[str, Callable[..., OdeSolver]] = {"LSODA": LSODA, "DOP853": DOP853, "RK45": RK45, "Radau": Radau, "BDF": BDF}
IMPLICIT = ("LSODA", "Radau", "BDF")

# A step below this fraction of the elapsed time would lose its leading digits in t + h.
CLOCK_RESOLUTION = 1e-8
# A solver that failed restarts with this fraction of its last good step, at most this many times without progress.
RETRY_STEP, RETRIES = 1e-6, 2
BATCH = 128  # steps of LSODA between two looks at them
FEW, BESIDE = 8, 8  # so few steps are read one by one; at so many times a step is read at once


class FlowError(RuntimeError):
    """The solver failed for the reason ``cause``; ``time`` is the last time at which the weights can be trusted."""

    def __init__(self, cause: str, time: float) -> None:
        super().__init__(f"the integration failed after t = {time:.6g}: {cause}")
        self.cause, self.time = cause, time


@dataclass(eq=False, slots=True)
class Step:
    """One accepted step from ``clock + start`` to ``clock + end``; ``state`` is the state at its end."""

    clock: float
    start: float
    end: float
    state: np.ndarray
    segment: Callable[..., np.ndarray]

    @property
    def lost(self) -> bool:
        return not np.isfinite(self.state).all()


@dataclass
class Work:
    """The cost of an integration so far."""

    evaluations: int = 0
    jacobians: int = 0
    restarts: int = 0


def steps(
    field: Field,
    state: np.ndarray,
    t_end: float,
    work: Work,
    *,
    method: str,
    rtol: float,
    atol: Callable[[np.ndarray], np.ndarray],
    jacobian: Field | None,
) -> Generator[list[Step], None, None]:
    """The accepted steps, in batches, from time 0 to ``t_end``, with the absolute tolerance ``atol(state)`` at each start of the clock.

    Raises ``FlowError`` if the solver fails.
    """
    clock, first_step, failures = 0.0, None, 0
    options: dict[str, Any] = {"jac": jacobian} if method in IMPLICIT else {}
    while True:
        options |= {"rtol": rtol, "atol": atol(state), "first_step": first_step}
        solver = METHODS[method](field, 0.0, state, t_end - clock, **options)
        start, cause = 0.0, None
        batch = _lsoda_batch if isinstance(solver, LSODA) else _step
        try:
            while solver.status == "running" and cause is None:
                made, cause = batch(solver, clock, field, jacobian)
                good = [step for step in made if not step.lost] if made and made[-1].lost else made
                if good:
                    state, start, first_step = good[-1].state, good[-1].end, good[-1].end - good[-1].start
                    yield good
                    if first_step <= 0:
                        raise FlowError("the steps shrank to nothing: the state grows without bound", clock + start)
                if len(good) < len(made):
                    raise FlowError("the state overflowed", clock + start)
                if good and good[-1].end - good[-1].start < CLOCK_RESOLUTION * start:
                    break
        finally:
            work.evaluations += int(solver.nfev)
            work.jacobians += int(solver.njev)
        if start == t_end - clock:
            return
        failures = 0 if start > 0 else failures
        if cause is not None:
            failures += 1
            if failures > RETRIES or first_step is None:
                raise FlowError(cause, clock + start)
            first_step *= RETRY_STEP
        clock, work.restarts = clock + start, work.restarts + 1


def _step(solver: Any, clock: float, _field: Field, _jacobian: Field | None) -> tuple[list[Step], str | None]:
    """One step of the solver, and the reason if it fails, otherwise None."""
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            message = solver.step()
        except ValueError as error:  # SciPy's factorisations refuse an overflowed Jacobian this way
            return [], str(error)
    if solver.status == "failed":
        return [], str(message)
    return [Step(clock, float(solver.t_old), solver.t, solver.y.copy(), solver.dense_output())], None


def _lsoda_batch(solver: Any, clock: float, field: Field, jacobian: Field | None) -> tuple[list[Step], str | None]:
    """Up to ``BATCH`` steps of LSODA's compiled loop: ``LSODA.step`` spends more on itself than on a velocity of 45 weights."""
    outer = solver._lsoda_solver
    loop, made = outer._integrator, []
    loop.call_args[2] = 5  # one step, not beyond t_bound
    words, counts, size, start, last = loop.rwork, loop.iwork, solver.n, float(solver.t), solver.t_bound
    state, slope = outer._y, jacobian or (lambda: None)
    with warnings.catch_warnings(record=True) as caught, np.errstate(over="ignore", invalid="ignore"):
        warnings.simplefilter("always")
        for _ in range(BATCH):
            state, end = loop.run(field, slope, state, start, last, (), ())
            if not loop.success:
                solver.status = "failed"
                break
            order, width = counts.item(13), words.item(11)
            table = words[20 : 20 + (order + 1) * size].copy()
            if counts.item(14) < order:  # a column that the next step will not use is still scaled for the last one
                table[-size:] *= (width / words.item(10)) ** order
            made.append(Step(clock, start, end, table[:size], Nordsieck(end, width, table, size)))
            before, start = start, end
            if start == last or start - before < CLOCK_RESOLUTION * start:
                break
    if start == last:
        solver.status = "finished"
    outer._y, solver.t, solver.nfev, solver.njev = state, start, int(counts[11]), int(counts[12])
    return made, "; ".join(str(warning.message) for warning in caught) if solver.status == "failed" else None


@dataclass(eq=False, slots=True)
class Nordsieck:
    """LSODA's polynomial on one step: row j of ``table`` holds the j-th derivative at its end times width^j / j!."""

    end: float
    width: float
    table: Float[np.ndarray, " qP"]
    size: int

    def __call__(self, t: Any) -> np.ndarray:
        """The state at a time, or states as columns at several."""
        t = np.asarray(t)
        shares = np.zeros((-(-t.size // BESIDE), BESIDE))
        shares.flat[: t.size] = (t - self.end) / self.width
        states = _polynomials(shares, self.table.reshape(-1, self.size)).reshape(-1, self.size)
        return states[: t.size].T if t.ndim else states[0]


def _polynomials(shares: Float[np.ndarray, "n times"], tables: Float[np.ndarray, "*n q P"]) -> Float[np.ndarray, "n times P"]:
    """The polynomials of one order at ``BESIDE`` shares of the width each: so many at once, for one by one would round otherwise."""
    powers = np.ones((*shares.shape, tables.shape[-2]))
    np.multiply.accumulate(np.broadcast_to(shares[..., None], powers[..., 1:].shape), axis=-1, out=powers[..., 1:])
    return powers @ tables


@dataclass(frozen=True, eq=False)
class Interpolant:
    """The solver's own dense output over all steps, each timed by its clock."""

    ends: Float[np.ndarray, " S"]
    taken: list[Step]

    def __call__(self, t: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n P"]:
        owner = np.minimum(np.searchsorted(self.ends, t), len(self.taken) - 1)
        order = np.argsort(owner, kind="stable")
        numbers, counts = np.unique(owner, return_counts=True)
        taken = [self.taken[i] for i in numbers.tolist()]
        clocks, starts, ends = np.repeat(np.array([(step.clock, step.start, step.end) for step in taken]).reshape(-1, 3), counts, axis=0).T
        values, local = np.empty((len(t), *np.shape(self.taken[0].state))), np.clip(t[order] - clocks, starts, ends)
        segments: list[Any] = [step.segment for step in taken]
        if len(taken) > FEW and all(type(one) is Nordsieck for one in segments):
            values[order] = _together(segments, counts, local)
            return values
        after = np.cumsum(counts)
        for segment, end, count in zip(segments, after.tolist(), counts.tolist(), strict=True):
            values[order[end - count : end]] = segment(local[end - count : end]).T
        return values


def _together(segments: list[Nordsieck], counts: Int[np.ndarray, " S"], t: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n P"]:
    """The states of LSODA's polynomials, each at so many of the times: at ``BESIDE`` at once, and polynomials of one order together."""
    ends, widths, lengths = np.array([(one.end, one.width, len(one.table)) for one in segments]).T
    pieces = -(-counts // BESIDE)  # of the times of a segment
    first, place = np.cumsum(pieces) - pieces, np.arange(len(t)) - np.repeat(np.cumsum(counts) - counts, counts)
    piece, place = np.repeat(first, counts) + place // BESIDE, place % BESIDE
    shares, states = np.zeros((pieces.sum(), BESIDE)), np.empty((pieces.sum(), BESIDE, segments[0].size))
    shares[piece, place] = (t - np.repeat(ends, counts)) / np.repeat(widths, counts)
    for length in np.unique(lengths):
        own = np.flatnonzero(lengths == length)
        tables = np.concatenate([segments[i].table for i in own.tolist()]).reshape(len(own), -1, segments[0].size)
        chosen = np.repeat(lengths == length, pieces)
        states[chosen] = _polynomials(shares[chosen], np.repeat(tables, pieces[own], axis=0))
    return states[piece, place]


@dataclass(frozen=True, eq=False)
class Linear:
    """A straight line between recorded states."""

    times: Float[np.ndarray, " T"]
    states: Float[np.ndarray, "T P"]

    def __call__(self, t: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n P"]:
        right = np.clip(np.searchsorted(self.times, t), 1, max(len(self.times) - 1, 1))
        left = right - 1
        right = np.minimum(right, len(self.times) - 1)
        span = self.times[right] - self.times[left]
        share = np.divide(t - self.times[left], span, out=np.zeros_like(t), where=span > 0)[:, None]
        return (1 - share) * self.states[left] + share * self.states[right]
