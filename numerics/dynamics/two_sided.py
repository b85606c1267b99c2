"""Flows of (M) and (S) under two-sided losses, in eigenbases of the two sides, where :mod:`.compiled` integrates them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from ..parametrizations.attention import MergedWeights, SeparateWeights
from ..parametrizations.base import Parametrization
from ..tasks.losses import QuadraticLoss, TwoSided
from .solver import FlowError, Linear
from .trajectory import Statistics, Trajectories, Trajectory

if TYPE_CHECKING:  # which loads Numba
    from .compiled import Flow


def two_sided(loss: QuadraticLoss, weights: Parametrization) -> bool:
    return isinstance(loss.C, TwoSided) and isinstance(weights, SeparateWeights | MergedWeights)


@dataclass(frozen=True, eq=False)
class Bases:
    """A and the entries of C in the eigenbases ``keys`` and ``queries`` of the two sides of C, for weights like ``weights``.

    Those of diagonal matrices are the axes.
    """

    weights: Parametrization
    A: Float[np.ndarray, "D D"]
    C: Float[np.ndarray, "D D"]
    keys: Float[np.ndarray, "D D"]
    queries: Float[np.ndarray, "D D"]

    @classmethod
    def of(cls, loss: QuadraticLoss, weights: Parametrization) -> "Bases":
        assert isinstance(loss.C, TwoSided)
        (m, keys), (q, queries) = (
            (np.diag(part), np.eye(len(part))) if np.array_equal(part, np.diag(np.diag(part))) else np.linalg.eigh(part)
            for part in (loss.C.M, loss.C.Q)
        )
        return cls(weights, keys.T @ loss.A @ queries, np.outer(m, q), keys, queries)

    def turned(self, states: Float[np.ndarray, "n P"], *, back: bool = False) -> Float[np.ndarray, "n P"]:
        """Flat states in the eigenbases, or back in those of the task."""
        left, right = (self.keys.T, self.queries.T) if back else (self.keys, self.queries)
        if np.array_equal(left, axes := np.eye(len(left))) and np.array_equal(right, axes):
            return states
        v, *parts = self.weights.split(states)
        moved = [left.T @ parts[0] @ right] if len(parts) == 1 else [part @ basis for part, basis in zip(parts, (left, right), strict=True)]
        return np.concatenate([v, *(part.reshape(len(v), -1) for part in moved)], axis=1)

    @cached_property
    def flow(self) -> "Flow":
        from .compiled import LARGE, LargeSeparate, Merged, Separate

        kind = Merged if isinstance(self.weights, MergedWeights) else Separate if len(self.A) < LARGE else LargeSeparate
        heads, rank = self.weights.arrays[-1].shape[:2]  # a merged head has no rank
        return kind.of(self.A, self.C, heads, rank, self.weights.size)


@dataclass(frozen=True, eq=False)
class Steps:
    """The states of a run at any time: at the ends of its steps, rows of time, method and state in the eigenbases, and between them."""

    bases: Bases
    rows: Float[np.ndarray, "T P2"]

    def __call__(self, t: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n P"]:
        from .compiled import between

        return self.bases.turned(between(self.bases.flow, self.rows, t), back=True)


def compiled_flows(
    losses: Sequence[QuadraticLoss],
    weights: Sequence[Parametrization],
    t_end: float,
    *,
    rtol: float,
    atol: Sequence[float],
    tau: float,
    max_steps: int,
    times: np.ndarray | None = None,
) -> Trajectories:
    """Trajectories from ``weights``, each under its loss, to ``t_end`` in units of tau; if ``times`` are given, their states alone."""
    from .compiled import run

    runs, stops, bases = [], np.array([t_end]) if times is None else times[1:], {id(loss): Bases.of(loss, weights[0]) for loss in losses}
    for i, (loss, start, least) in enumerate(zip(losses, weights, atol, strict=True)):
        begun, own = time.perf_counter(), bases[id(loss)]
        try:
            turned = own.turned(start.flatten()[None])[0]
            rows, steps, velocities = run(own.flow, turned, stops, rtol=rtol, atol=least, most=max_steps, sparse=times is not None)
        except FlowError as error:
            raise FlowError(f"run {i}: {error.cause}" if len(losses) > 1 else error.cause, error.time) from None
        at, states = rows[:, 0].copy(), own.turned(rows[:, 2:], back=True)
        cost = Statistics("DOP853 and stabilised", steps, velocities, 0, 0, time.perf_counter() - begun, "t_end")
        between = Steps(own, rows) if times is None else Linear(at, states)
        runs.append(Trajectory(at * tau, states, loss, start, tau, cost, between))
    return Trajectories(tuple(runs))
