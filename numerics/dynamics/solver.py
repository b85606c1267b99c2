"""Step-by-step integration of an autonomous system over times of any size, on SciPy's solvers.

Two things are added to them. The clock restarts at 0 when steps come near the resolution of the time elapsed (a drop of
length 10 after a plateau of length 1e15 still resolves), and when a solver fails, for a few times without progress.
"""

import warnings
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.integrate import BDF, DOP853, LSODA, RK45, DenseOutput, OdeSolution, OdeSolver, Radau

Field = Callable[[float, np.ndarray], np.ndarray]

METHODS: dict[str, Callable[..., OdeSolver]] = {"LSODA": LSODA, "DOP853": DOP853, "RK45": RK45, "Radau": Radau, "BDF": BDF}
IMPLICIT = ("LSODA", "Radau", "BDF")

# A step below this fraction of the elapsed time would lose its leading digits in t + h.
CLOCK_RESOLUTION = 1e-8
# A solver that failed restarts with this fraction of its last good step, at most this many times without progress.
RETRY_STEP, RETRIES = 1e-6, 2


class FlowError(RuntimeError):
    """The solver failed for the reason ``cause``; ``time`` is the last time at which the weights can be trusted."""

    def __init__(self, cause: str, time: float) -> None:
        super().__init__(f"the integration failed after t = {time:.6g}: {cause}")
        self.cause, self.time = cause, time


@dataclass(frozen=True, eq=False)
class Step:
    """One accepted step from ``clock + start`` to ``clock + end``; ``state`` is the state at its end."""

    clock: float
    start: float
    end: float
    state: np.ndarray
    segment: DenseOutput


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
) -> Generator[Step, None, None]:
    """The accepted steps from time 0 to ``t_end``, with the absolute tolerance ``atol(state)`` at each start of the clock.

    Raises ``FlowError`` if the solver fails.
    """
    clock, first_step, failures = 0.0, None, 0
    options: dict[str, Any] = {"jac": jacobian} if method in IMPLICIT else {}
    while True:
        options |= {"rtol": rtol, "atol": atol(state), "first_step": first_step}
        solver = METHODS[method](field, 0.0, state, t_end - clock, **options)
        start, cause = 0.0, None
        try:
            while solver.status == "running":
                cause = _advance(solver)
                if cause is not None:
                    break
                state = solver.y.copy()
                if not np.isfinite(state).all():
                    raise FlowError("the state overflowed", clock + start)
                first_step = solver.t - start
                if first_step <= 0:
                    raise FlowError("the steps shrank to nothing: the state grows without bound", clock + start)
                yield Step(clock, start, solver.t, state, solver.dense_output())
                start = solver.t
                if first_step < CLOCK_RESOLUTION * start:
                    break
        finally:
            work.evaluations += int(solver.nfev)
            work.jacobians += int(solver.njev)
        if solver.status == "finished":
            return
        failures = 0 if start > 0 else failures
        if cause is not None:
            failures += 1
            if failures > RETRIES or first_step is None:
                raise FlowError(cause, clock + start)
            first_step *= RETRY_STEP
        clock, work.restarts = clock + start, work.restarts + 1


def _advance(solver: OdeSolver) -> str | None:
    """Take one step of the solver; return the reason if it fails (LSODA gives it only in a warning), otherwise None."""
    with warnings.catch_warnings(record=True) as caught, np.errstate(over="ignore", invalid="ignore"):
        warnings.simplefilter("always")
        try:
            message = solver.step()
        except ValueError as error:  # SciPy's factorisations refuse an overflowed Jacobian this way
            return str(error)
    if solver.status == "failed":
        return "; ".join([str(message), *(str(warning.message) for warning in caught)])
    return None


@dataclass(frozen=True, eq=False)
class Interpolant:
    """The solver's own dense output over all steps, one piece for each start of the clock."""

    clocks: Float[np.ndarray, " S"]
    pieces: tuple[OdeSolution, ...]

    @classmethod
    def of(cls, taken: list[Step]) -> "Interpolant":
        clocks = sorted({step.clock for step in taken})
        by_clock = [[step for step in taken if step.clock == clock] for clock in clocks]
        pieces = (OdeSolution([0.0, *(s.end for s in own)], [s.segment for s in own]) for own in by_clock)
        return cls(np.array(clocks), tuple(pieces))

    def __call__(self, t: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n P"]:
        owner = np.maximum(np.searchsorted(self.clocks, t, side="left") - 1, 0)
        values = np.empty((len(t), *np.shape(self.pieces[0](0.0))))
        for index in np.unique(owner):
            piece, chosen = self.pieces[index], owner == index
            values[chosen] = piece(np.clip(t[chosen] - self.clocks[index], 0.0, piece.t_max)).T
        return values


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
