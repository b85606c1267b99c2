r"""Many gradient flows at once, each with its own step: runs lie along the last axis of every array.

Growth and drops take steps of DOP853. On plateaus its steps end at its limit of stability, since the learned directions pull back at
a rate far above that of the waiting heads; there each run changes to the explicit methods of :mod:`.stabilised`. In an eigenbasis of the
two sides of its loss, C[B] is a product entry by entry, so that one step of any number of runs is a few sums over heads and directions.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.integrate import DOP853

from ..parametrizations.attention import MergedWeights, SeparateWeights
from ..parametrizations.base import Parametrization
from ..tasks.losses import QuadraticLoss, TwoSided
from .solver import FlowError, Linear
from .stabilised import length, tables
from .trajectory import Statistics, Trajectories, Trajectory

STAGES = (5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 22, 25, 28, 32, 36, 41, 46, 52, 60)  # of the stabilised methods
LENGTHS = np.array([length(s) for s in STAGES])
EXPLICIT = 6.1  # DOP853 damps a mode of this rate times step by 0.6, and one of 6.4 no longer
BENT = 0.0015  # the estimated error of a stabilised step, over h^4 times the fourth derivative
BESIDES = 6  # velocities that would take as long as the rest of a step
LOOK = 8  # steps between two looks at the largest rate
MARGIN = 1.05  # between a rate found by power iteration and the stability that a step is given for
SAFETY, SLOWER, FASTER = 0.8, 0.2, 6.0
# DOP853 with its second and third stages first: the later ones do without them, and sum over what follows
_ORDER = [1, 2, 0, *range(3, 13)]
DOP853_ROWS = np.vstack([DOP853.A[1:12, :12], DOP853.B])[:, _ORDER[:12]]
DOP853_ERRORS = np.stack([DOP853.E5, DOP853.E3])[:, _ORDER]
FIRST = (2, 0, 1, 1, *[2] * 8)
WIDTH = 500  # runs that step together when states are looked up


def stackable(loss: QuadraticLoss, weights: Parametrization) -> bool:
    return isinstance(loss.C, TwoSided) and isinstance(weights, SeparateWeights | MergedWeights)


@dataclass(frozen=True, eq=False)
class Stack:
    """n flows of one shape: A and the entries of C in the eigenbases ``keys`` and ``queries`` (n, D, D) of the two sides of each C."""

    like: Parametrization
    A: Float[np.ndarray, "D D n"]
    C: Float[np.ndarray, "D D n"]
    keys: Float[np.ndarray, "n D D"]
    queries: Float[np.ndarray, "n D D"]

    @classmethod
    def of(cls, losses: Sequence[QuadraticLoss], like: Parametrization) -> "Stack":
        parts = {id(loss): _diagonalised(loss) for loss in losses}
        A, C, keys, queries = (np.stack(part) for part in zip(*(parts[id(loss)] for loss in losses), strict=True))
        if len(parts) == 1:
            A, C = A[:1], C[:1]
        return cls(like, np.ascontiguousarray(np.moveaxis(A, 0, -1)), np.ascontiguousarray(np.moveaxis(C, 0, -1)), keys, queries)

    @cached_property
    def heads(self) -> int:
        return len(self.like.arrays[0])

    def arrays(self, states: np.ndarray) -> tuple[np.ndarray, ...]:
        """Views of the weights in states of shape (P, n): v (H, n) with k, q (H R, D, n) by head, or v with U (H, D, D, n)."""
        H, D, n = self.heads, len(self.A), states.shape[1]
        if isinstance(self.like, MergedWeights):
            return states[:H], states[H:].reshape(H, D, D, n)
        pairs = states[H:].reshape(2, H, -1, D, n)
        return states[:H], pairs[0], pairs[1]

    def turned(self, states: Float[np.ndarray, "n P"], runs: np.ndarray, *, back: bool = False) -> Float[np.ndarray, "n P"]:
        """Flat weights in the eigenbases, or back in those of the task."""
        left, right = self.keys[runs], self.queries[runs]
        if (left == np.eye(len(self.A))).all() and (right == np.eye(len(self.A))).all():
            return states
        if back:
            left, right = left.transpose(0, 2, 1), right.transpose(0, 2, 1)
        v, *parts = self.like.split(states)
        if isinstance(self.like, MergedWeights):
            moved = [left.transpose(0, 2, 1)[:, None] @ parts[0] @ right[:, None]]
        else:
            moved = [part @ basis[:, None] for part, basis in zip(parts, (left, right), strict=True)]
        return np.concatenate([v, *(part.reshape(len(v), -1) for part in moved)], axis=1)

    def sides(self, runs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A and C of some runs; of one entry if all runs share a loss."""
        return (self.A, self.C) if self.A.shape[2] == 1 else (self.A.take(runs, 2), self.C.take(runs, 2))

    def velocity(
        self, states: np.ndarray, A: np.ndarray, C: np.ndarray, share: np.ndarray | None = None, out: np.ndarray | None = None
    ) -> np.ndarray:
        """The velocities of states (P, n) under the force A - C B, entry by entry, times ``share``: for A and C times h, steps.

        NumPy's sums are up to twice as fast if the axis summed over is short and lies next to the runs: so lie ``values`` and G here.
        """
        out, (v, *parts), n = np.empty_like(states) if out is None else out, self.arrays(states), states.shape[1]
        (dv, *moved), k, q, column = self.arrays(out), parts[0], parts[-1], v[:, None, None]
        merged, G = k is q, np.empty((*A.shape[:2], n), states.dtype)
        if merged:
            np.einsum("hn,hbcn->bcn", v, k, out=G)
        elif n == 1:  # products of matrices
            keys, values, by_query, by_key = (part.reshape(-1, len(A)) for part in (k, q * column, *moved))
            np.matmul(keys.T, values, out=G[..., 0])
        else:
            values = np.multiply(q, column, out=np.empty((len(A), *q.shape[:2], n), states.dtype).transpose(1, 2, 0, 3))
            np.einsum("hrbn,hrcn->bcn", k, values, out=G)
        G *= C
        np.subtract(A, G, out=G)
        if share is not None:
            G *= share
        if merged:
            np.einsum("hbcn,bcn->hn", k, G, out=dv)
            np.multiply(column, G, out=moved[0])
            return out
        if n == 1:
            np.matmul(values, G[..., 0].T, out=by_query)
            np.matmul(keys, G[..., 0], out=by_key)
        else:
            np.einsum("bcn,hrcn->hrbn", G, values, out=moved[0])
            np.einsum("cbn,hrbn->hrcn", np.ascontiguousarray(G.swapaxes(0, 1)), k, out=moved[1])
        np.einsum("hrcn,hrcn->hn", q, moved[1], out=dv)
        moved[1] *= column
        return out

    def step(self, y: np.ndarray, hf: np.ndarray, A: np.ndarray, C: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, ...]:
        """The end of a step h of the stabilised methods number ``counts`` (n,), which fall from run to run, or of DOP853 if they are -1."""
        return self.stabilised(y, hf, A, C, counts) if counts[0] >= 0 else self.dop853(y, hf, A, C)

    def dop853(self, y: np.ndarray, hf: np.ndarray, A: np.ndarray, C: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The end of a step, its h f there, and the two estimates (2, P, n) of its error, for A and C times h."""
        stages = np.empty((13, *y.shape), y.dtype)
        rows = stages.reshape(13, -1)
        stages[1], stages[2] = 0, hf
        for i, (weights, first) in enumerate(zip(DOP853_ROWS.astype(y.dtype), FIRST, strict=True), start=1):
            last = max(i, 3)
            at = (weights[first:last] @ rows[first:last]).reshape(y.shape)
            at += y
            self.velocity(at, A, C, out=stages[i if i > 2 else i - 1])
        return at, stages[12], (DOP853_ERRORS.astype(y.dtype)[:, 2:] @ rows[2:]).reshape(2, *y.shape)

    def stabilised(self, y: np.ndarray, hf: np.ndarray, A: np.ndarray, C: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The end of a step and its h f there; the recurrence goes on for the first runs alone as those of fewer stages are done."""
        first, recurrence = (table.take(counts, 2) for table in tables(STAGES[: counts[0] + 1]))
        g, stages, left = y, np.empty((4, *y.shape), y.dtype), np.array(STAGES).take(counts) - 4
        stages[0] = hf
        for i, weights in enumerate(first):
            if i:
                self.velocity(g, A, C, out=stages[i])
            g = np.einsum("kn,kpn->pn", weights[: i + 1], stages[: i + 1])
            g += y
        change, moved = stages[:2]
        change[:] = 0
        for (mu, kappa), live in zip(recurrence.swapaxes(0, 1), np.searchsorted(-left, -np.arange(left[0])).tolist(), strict=True):
            d = change[:, :live]
            d *= kappa[:live]
            d += self.velocity(g[:, :live], A[..., :live], C[..., :live], mu[:live], moved[:, :live])
            g[:, :live] += d
        return g, self.velocity(g, A, C)


def _diagonalised(loss: QuadraticLoss) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A and C in eigenbases of M and Q, with the bases; those of diagonal matrices are the axes."""
    assert isinstance(loss.C, TwoSided)
    (m, keys), (q, queries) = (
        (np.diag(part), np.eye(len(part))) if np.array_equal(part, np.diag(np.diag(part))) else np.linalg.eigh(part)
        for part in (loss.C.M, loss.C.Q)
    )
    return keys.T @ loss.A @ queries, np.outer(m, q), keys, queries


class Together:
    """The integration of a stack from states (P, N) at t = 0 to the last of ``stops``, with the tolerances ``rtol`` and ``atol`` (N,).

    Each run has a step that ends at each of ``stops``; ``taken`` holds all steps, or with ``sparse`` these alone.
    """

    def __init__(
        self, stack: Stack, states: np.ndarray, stops: np.ndarray, rtol: float, atol: np.ndarray, max_steps: int, *, sparse: bool = False
    ) -> None:
        self.stack, self.y, self.stops, self.rtol, self.atol, self.most, self.sparse = stack, states, stops, rtol, atol, max_steps, sparse
        self.f, size = stack.velocity(states, stack.A, stack.C), states.shape[1]
        speed, norm = np.sqrt((self.f**2).sum(0)), np.sqrt((states**2).sum(0))
        self.t, self.steps, self.evaluations = np.zeros(size, states.dtype), np.zeros(size, int), np.ones(size, int)
        self.h = np.where(speed > 0, 0.01 * norm / np.where(speed > 0, speed, 1.0), stops[-1])
        self.rate, self.mode, self.stiff = np.zeros(size), self.f / np.where(speed > 0, speed, 1.0), np.zeros(size, bool)
        self.passed, self.floor, self.past, self.gap = np.zeros(size, int), np.tile(atol, (len(states), 1)), self.f.copy(), np.ones(size)
        self.taken = [(np.arange(size), self.t.copy(), np.full(size, -1), states.T.copy())]

    def run(self) -> None:
        """Take steps until every run is at its end."""
        turns = {False: 0, True: 0}
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            while (active := np.flatnonzero(self.passed < len(self.stops))).size:
                self._check(active)
                runs, counts = self._next(active)
                turns[counts[0] < 0] += 1
                self._step(runs, counts, look=turns[counts[0] < 0] % LOOK == 0)

    def _check(self, active: np.ndarray) -> None:
        stuck = active[~(self.h[active] > 4 * np.finfo(float).eps * self.t[active])]
        if stuck.size:
            raise FlowError(f"the steps of run {stuck[0]} shrank to nothing", float(self.t[stuck[0]]))
        slow = active[self.steps[active] >= self.most]
        if slow.size:
            raise FlowError(f"run {slow[0]} took more than max_steps = {self.most} steps", float(self.t[slow[0]]))

    def _next(self, active: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The runs whose step wastes the smallest share on calls, with the numbers of their methods: others wait until they are more."""
        stiff = self.stiff[active]
        explicit, runs = active[~stiff], active[stiff]
        h = np.minimum(self.h[runs], self.stops[self.passed[runs]] - self.t[runs])
        counts = np.searchsorted(LENGTHS, MARGIN * h * self.rate[runs]).astype(np.int8)  # sorted in one pass
        order = np.argsort(counts, kind="stable")
        stages = np.array(STAGES).take(counts[order]) + BESIDES
        width = np.cumsum(stages) / stages
        if explicit.size >= width.max(initial=0):
            return explicit, np.full(explicit.size, -1)
        chosen = order[np.argmax(width) :: -1]
        return runs[chosen], counts[chosen]

    def _step(self, runs: np.ndarray, counts: np.ndarray, *, look: bool) -> None:
        """One step of all ``runs``, all of DOP853 or all of stabilised methods."""
        stiff, left = bool(counts[0] >= 0), self.stops[self.passed[runs]] - self.t[runs]
        h = np.minimum(self.h[runs], left)
        y, f = self.y.take(runs, 1), self.f.take(runs, 1)
        A, C = (side * h for side in self.stack.sides(runs))
        new, moved, *errors = self.stack.step(y, f * h, A, C, counts)
        scale, missed = np.abs(y), np.abs(new)
        np.maximum(scale, missed, out=scale)
        scale *= self.rtol
        scale += self.floor.take(runs, 1)
        error = bend = np.full(len(runs), np.inf)
        if stiff or look:
            error = bend = self._bend(runs, h, np.subtract(new, y, out=missed), f, moved, scale)
        if not stiff:  # the two estimates weighed as in Hairer's code
            errors[0] /= scale
            fifth, third = np.einsum("epn,epn->en", errors[0], errors[0]) / len(y)
            error = fifth / np.sqrt(np.maximum(fifth + 0.01 * third, 1e-300))
        good = error <= 1
        wish, ahead = (
            h * np.where(np.isfinite(one), np.clip(SAFETY * np.maximum(one, 1e-30) ** power, SLOWER, FASTER), SLOWER)
            for one, power in ((error, -1 / 4 if stiff else -1 / 8), (bend, -1 / 4))
        )
        wish = np.where(good, wish, np.minimum(wish, SAFETY * h))
        self.evaluations[runs] += np.array(STAGES).take(counts) if stiff else 12
        if not good.all():
            self.h[runs[~good]], parts = wish[~good], (runs, h, left, wish, ahead, counts, f, new, moved)
            runs, h, left, wish, ahead, counts, f, new, moved = (part.compress(good, -1) for part in parts)
            if not runs.size:
                return
        stops = h >= left
        self.t[runs] = np.where(stops, self.stops[self.passed[runs]], self.t[runs] + h)
        wish = np.where(stops, np.maximum(wish, self.h[runs]), wish)
        self.passed[runs] += stops
        self.steps[runs] += 1
        moved /= h
        self.y[:, runs], self.f[:, runs], self.past[:, runs], self.gap[runs] = new, moved, f, h
        if not self.sparse or stops.any():
            kept = stops if self.sparse else slice(None)
            self.taken.append((runs[kept], self.t[runs[kept]], counts[kept], new.T[kept].copy()))
        if look:
            self._look(runs, new, moved)
        self._choose(runs, wish, ahead, stiff)

    def _bend(self, runs: np.ndarray, h: np.ndarray, missed: np.ndarray, f: np.ndarray, moved: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """``BENT`` h^4 times the fourth derivative: by how far the last three velocities miss what y has moved by."""
        q = self.gap[runs] / h
        missed -= (1 / 3 + q / 2) / (1 + q) * moved
        missed -= (1 / 6 + q / 2) / q * h * f
        missed += h / (6 * q * (1 + q)) * self.past.take(runs, 1)
        missed /= scale
        return 72 * BENT / (1 + 2 * q) * np.sqrt(np.einsum("pn,pn->n", missed, missed) / len(missed))

    def _look(self, runs: np.ndarray, y: np.ndarray, f: np.ndarray) -> None:
        """A step of power iteration on the Jacobian, from the direction of the last one; and the rounding errors of the velocity."""
        A, C = self.stack.sides(runs)
        self.floor[:, runs] = np.maximum(self.atol[runs], self.stack.velocity(np.abs(y), 0 * A + 10 * np.finfo(float).eps, 0 * C))
        apart = 1e-6
        image = (self.stack.velocity(y + apart * self.mode.take(runs, 1), A, C) - f) / apart
        rate = np.sqrt(np.einsum("pn,pn->n", image, image))
        self.evaluations[runs] += 2
        self.rate[runs], self.mode[:, runs] = rate, image / np.where(rate > 0, rate, 1.0)

    def _choose(self, runs: np.ndarray, wish: np.ndarray, ahead: np.ndarray, stiff: bool) -> None:
        """The next step and method of each run: ``wish`` and ``ahead`` are what errors allow."""
        rate = np.maximum(self.rate[runs], 1e-300)
        limit, longest = EXPLICIT / rate, 0.999 * LENGTHS[-1] / (MARGIN * rate)
        near, ahead = limit if stiff else np.minimum(wish, limit), np.minimum(wish if stiff else ahead, longest)
        stages = np.array(STAGES).take(np.searchsorted(LENGTHS, MARGIN * ahead * rate))
        self.stiff[runs] = better = (12 + BESIDES) * ahead > (stages + BESIDES) * near
        self.h[runs] = np.where(better, ahead, near)

    def steps_by_run(self) -> "Steps":
        """All steps, those of a run one after the other."""
        *parts, states = zip(*self.taken, strict=True)
        runs, times, methods = map(np.concatenate, parts)
        order, first = np.argsort(runs, kind="stable"), np.append(0, np.cumsum(np.bincount(runs)))
        return Steps(self.stack, first, times[order], methods[order], order, np.cumsum([0, *map(len, states)]), states)


@dataclass(frozen=True, eq=False)
class Steps:
    """The ends of all steps: those of run i are ``first[i]`` to ``first[i + 1]``, from t = 0, with the method of each step.

    States stay where the integration left them, in ``parts``: to put those of each run together took a fifth of the time of a flow.
    """

    stack: Stack
    first: Float[np.ndarray, " n1"]
    times: Float[np.ndarray, " S"]
    methods: Float[np.ndarray, " S"]
    places: Float[np.ndarray, " S"]
    starts: Float[np.ndarray, " K1"]
    parts: Sequence[np.ndarray]

    def states(self, steps: np.ndarray) -> Float[np.ndarray, "m P"]:
        """The states at the ends of these steps."""
        places = self.places[steps]
        part = np.searchsorted(self.starts, places, side="right") - 1
        return np.array([self.parts[i][j] for i, j in zip(part.tolist(), (places - self.starts[part]).tolist(), strict=True)])

    def only(self, run: int) -> "Steps":
        """The steps of one run, in arrays of its own."""
        (low, high), stack = self.first[run : run + 2], self.stack
        count, states = np.array([0, high - low]), (self.states(np.arange(low, high)),)
        alone = Stack(stack.like, *stack.sides(np.array([run])), stack.keys[[run]], stack.queries[[run]])
        return Steps(alone, count, self.times[low:high].copy(), self.methods[low:high].copy(), np.arange(high - low), count, states)

    def __call__(self, t: Float[np.ndarray, " m"]) -> Float[np.ndarray, "nm P"]:
        """The weights of every run at the times ``t``, run after run."""
        n, m = len(self.first) - 1, len(t)
        return self.at(np.repeat(np.arange(n), m), np.tile(t, n))

    def at(self, runs: np.ndarray, t: np.ndarray) -> Float[np.ndarray, "m P"]:
        """The weights of each of ``runs`` at its time in ``t``: a shorter step of the same method, from the start of the step around it."""
        after = np.empty(len(t), int)
        for chosen in np.split(order := np.argsort(runs, kind="stable"), np.flatnonzero(np.diff(runs[order])) + 1):
            low, high = self.first[runs[chosen[0]]], self.first[runs[chosen[0]] + 1]
            after[chosen] = low + np.clip(np.searchsorted(self.times[low:high], t[chosen]), 1, high - low - 1)
        h, found = t - self.times[after - 1], np.empty((self.parts[0].shape[1], len(t)))
        share, method = h / np.diff(self.times, prepend=0)[after], self.methods[after]
        counts = np.where(method < 0, -1, np.searchsorted(LENGTHS, share * LENGTHS[method]))
        order, stiff = np.argsort(-counts, kind="stable"), int((counts >= 0).sum())
        for part in np.split(order, [*range(WIDTH, stiff, WIDTH), *range(stiff or WIDTH, len(t), WIDTH)]):
            y = np.ascontiguousarray(self.states(after[part] - 1).T)
            A, C = (side * h[part] for side in self.stack.sides(runs[part]))
            found[:, part] = self.stack.step(y, self.stack.velocity(y, A, C), A, C, counts[part])[0]
        return self.stack.turned(found.T, runs, back=True)


@dataclass(frozen=True, eq=False, repr=False)
class Stacked(Trajectory):
    """One run of a stack, whose states are put together when they are first asked for."""

    states: Float[np.ndarray, "T P"] = field(init=False)
    interpolant: Steps = field(init=False)
    steps: Steps
    run: int

    def __getattr__(self, name: str) -> Any:
        if name not in ("states", "interpolant"):
            raise AttributeError(name)
        own = self.steps.only(self.run)
        vars(self).update(interpolant=own, states=own.stack.turned(own.parts[0], np.zeros(len(own.times), int), back=True))
        return vars(self)[name]

    def __reduce__(self) -> tuple[type, tuple]:
        return Trajectory, tuple(getattr(self, entry.name) for entry in fields(Trajectory))


def flow_together(
    losses: Sequence[QuadraticLoss],
    weights: Sequence[Parametrization],
    t_end: float,
    *,
    rtol: float,
    atol: np.ndarray,
    tau: float,
    max_steps: int,
    times: np.ndarray | None = None,
) -> Trajectories:
    """Trajectories from ``weights``, each under its loss, to ``t_end`` in units of tau; if ``times`` are given, their states alone."""
    started, stack, every = time.perf_counter(), Stack.of(losses, weights[0]), np.arange(len(weights))
    states = stack.turned(np.stack([one.flatten() for one in weights]), every).T.copy()
    stops = np.array([t_end]) if times is None else times[1:]
    together = Together(stack, states, stops, rtol, atol, max_steps, sparse=times is not None)
    together.run()
    steps, seconds, runs = together.steps_by_run(), time.perf_counter() - started, []
    for i, (loss, start) in enumerate(zip(losses, weights, strict=True)):
        counted = int(together.steps[i]), int(together.evaluations[i])
        cost = Statistics("DOP853 and stabilised", *counted, 0, 0, seconds / len(weights), "t_end")
        at = steps.times[slice(*steps.first[i : i + 2])]
        run = Stacked(at * tau, loss, start, tau, cost, steps, i)
        runs.append(run if times is None else Trajectory(run.times, run.states, loss, start, tau, cost, Linear(at, run.states)))
    return Trajectories(tuple(runs), steps if times is None else None)
