r"""Many gradient flows at once, each with its own step: runs lie along the last axis of every array.

Growth and drops take steps of DOP853. On plateaus its steps end at its limit of stability, since the learned directions pull back at
a rate far above that of the waiting heads; there each run changes to the explicit methods of :mod:`.stabilised`. In an eigenbasis of the
two sides of its loss, C[B] is a product entry by entry, so that one step of any number of runs is a few sums over heads and directions.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

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
EXPLICIT = 5.2  # DOP853 damps a mode of this rate times step
BENT = 0.0015  # the estimated error of a stabilised step, over h^4 times the fourth derivative
READY = 0.8  # share of the runs on plateaus that step at once: those of more stages wait for each other, since wide steps cost least
BESIDES = 6  # velocities that would take as long as the rest of a step
LOOK = 5  # steps between two looks at the largest rate
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

    @cached_property
    def on_axes(self) -> bool:
        return bool((self.keys == np.eye(len(self.A))).all() and (self.queries == np.eye(len(self.A))).all())

    def only(self, run: int) -> "Stack":
        """The stack of one run, in arrays of its own."""
        chosen = slice(run, run + 1)
        A, C, keys, queries = (part.copy() for part in (self.A[..., chosen], self.C[..., chosen], self.keys[chosen], self.queries[chosen]))
        return Stack(self.like, A, C, keys, queries)

    def turned(self, states: Float[np.ndarray, "n P"], runs: np.ndarray, *, back: bool = False) -> Float[np.ndarray, "n P"]:
        """Flat weights in the eigenbases, or back in those of the task."""
        if self.on_axes:
            return states
        left, right = self.keys[runs], self.queries[runs]
        if back:
            left, right = left.transpose(0, 2, 1), right.transpose(0, 2, 1)
        v, *parts = self.like.split(states)
        if isinstance(self.like, MergedWeights):
            moved = [left.transpose(0, 2, 1)[:, None] @ parts[0] @ right[:, None]]
        else:
            moved = [part @ basis[:, None] for part, basis in zip(parts, (left, right), strict=True)]
        return np.concatenate([v, *(part.reshape(len(v), -1) for part in moved)], axis=1)

    def velocity(self, states: np.ndarray, A: np.ndarray, C: np.ndarray) -> np.ndarray:
        """The velocities of states (P, n) under the force A - C B, entry by entry: for A and C times h, steps."""
        out = np.empty_like(states)
        v, *parts = self.arrays(states)
        dv, *moved = self.arrays(out)
        if isinstance(self.like, MergedWeights):
            G = A - C * np.einsum("hn,hbcn->bcn", v, parts[0])
            np.einsum("hbcn,bcn->hn", parts[0], G, out=dv)
            np.multiply(v[:, None, None], G, out=moved[0])
            return out
        (k, q), (dk, dq), column = parts, moved, v[:, None, None]
        np.multiply(k, column, out=dk)
        if states.shape[1] == 1:  # products of matrices
            keys, queries, by_query, by_key = (part.reshape(-1, len(A)) for part in (k, q, dk, dq))
            G = A[..., 0] - C[..., 0] * (by_query.T @ queries)
            np.matmul(queries, G.T, out=by_query)
            np.matmul(keys, G, out=by_key)
        else:
            G = np.einsum("hrbn,hrcn->bcn", dk, q)
            G *= C
            np.subtract(A, G, out=G)
            np.einsum("bcn,hrcn->hrbn", G, q, out=dk)
            np.einsum("bcn,hrbn->hrcn", G, k, out=dq)
        np.einsum("hrbn,hrbn->hn", k, dk, out=dv)
        dk *= column
        dq *= column
        return out

    def step(self, y: np.ndarray, hf: np.ndarray, A: np.ndarray, C: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, ...]:
        """The end of a step of the stabilised methods number ``counts`` (n,), which fall from run to run, or of DOP853 if they are -1."""
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
            stages[i if i > 2 else i - 1] = self.velocity(at, A, C)
        return at, stages[12], (DOP853_ERRORS.astype(y.dtype)[:, 2:] @ rows[2:]).reshape(2, *y.shape)

    def stabilised(self, y: np.ndarray, hf: np.ndarray, A: np.ndarray, C: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The end of a step and its h f there; the recurrence goes on for the first runs alone as those of fewer stages are done."""
        first, recurrence = (table.take(counts, 2) for table in tables(STAGES[: counts[0] + 1]))
        g, stages = y, np.empty((4, *y.shape), y.dtype)
        for i, weights in enumerate(first):
            stages[i] = self.velocity(g, A, C) if i else hf
            g = np.einsum("kn,kpn->pn", weights[: i + 1], stages[: i + 1])
            g += y
        change, left = np.zeros_like(g), np.array(STAGES).take(counts) - 4
        for j in range(left[0]):
            live = int(np.searchsorted(-left, -j))
            mu, kappa = recurrence[:, j, :live]
            moved = change[:, :live]
            moved *= kappa
            moved += self.velocity(g[:, :live], mu * A[..., :live], mu * C[..., :live])
            g[:, :live] += moved
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
        self.taken = [(np.arange(size), self.t.copy(), states.T.copy(), np.full(size, -1))]

    def run(self) -> None:
        """Take steps until every run is at its end."""
        turn = 0
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            while (active := np.flatnonzero(self.passed < len(self.stops))).size:
                self._check(active)
                stiff, turn = self.stiff[active], turn + 1
                for runs in (active[~stiff], active[stiff]):
                    if runs.size:
                        self._step(runs, look=turn % LOOK == 0)

    def _check(self, active: np.ndarray) -> None:
        stuck = active[~(self.h[active] > 4 * np.finfo(float).eps * self.t[active])]
        if stuck.size:
            raise FlowError(f"the steps of run {stuck[0]} shrank to nothing", float(self.t[stuck[0]]))
        slow = active[self.steps[active] >= self.most]
        if slow.size:
            raise FlowError(f"run {slow[0]} took more than max_steps = {self.most} steps", float(self.t[slow[0]]))

    def _step(self, runs: np.ndarray, *, look: bool) -> None:
        """One step of all ``runs``, all of DOP853 or all of stabilised methods."""
        stiff, left = bool(self.stiff[runs[0]]), self.stops[self.passed[runs]] - self.t[runs]
        counts, h = np.full(len(runs), -1), np.minimum(self.h[runs], left)
        if stiff:
            counts = np.searchsorted(LENGTHS, MARGIN * h * self.rate[runs])
            order = np.argsort(-counts, kind="stable")
            order = order[counts[order] <= counts[order[int((1 - READY) * len(order))]]]
            runs, left, counts, h = runs[order], left[order], counts[order], h[order]
        y, f, A, C = self.y.take(runs, 1), self.f.take(runs, 1), self.stack.A.take(runs, 2), self.stack.C.take(runs, 2)
        new, moved, *errors = self.stack.step(y, f * h, A * h, C * h, counts)
        scale = np.maximum(np.abs(y), np.abs(new))
        scale *= self.rtol
        scale += self.floor.take(runs, 1)
        error = bend = self._bend(runs, h, new - y, f, moved, scale)
        if not stiff:  # the two estimates weighed as in Hairer's code
            fifth, third = (((estimate / scale) ** 2).mean(0) for estimate in errors[0])
            error = fifth / np.sqrt(np.maximum(fifth + 0.01 * third, 1e-300))
        good = error <= 1
        wish, ahead = (
            h * np.where(np.isfinite(one), np.clip(SAFETY * np.maximum(one, 1e-30) ** power, SLOWER, FASTER), SLOWER)
            for one, power in ((error, -1 / 4 if stiff else -1 / 8), (bend, -1 / 4))
        )
        wish = np.where(good, wish, np.minimum(wish, SAFETY * h))
        self.evaluations[runs] += np.array(STAGES).take(counts) if stiff else 12
        if not good.all():
            self.h[runs[~good]], parts = wish[~good], (runs, h, left, wish, ahead, counts, f, new, moved, A, C)
            runs, h, left, wish, ahead, counts, f, new, moved, A, C = (part.compress(good, -1) for part in parts)
            if not runs.size:
                return
        stops = h >= left
        self.t[runs] = np.where(stops, self.stops[self.passed[runs]], self.t[runs] + h)
        wish = np.where(stops, np.maximum(wish, self.h[runs]), wish)
        self.passed[runs] += stops
        self.steps[runs] += 1
        velocity = moved / h
        self.y[:, runs], self.f[:, runs], self.past[:, runs], self.gap[runs] = new, velocity, f, h
        if not self.sparse or stops.any():
            kept = stops if self.sparse else slice(None)
            self.taken.append((runs[kept], self.t[runs[kept]], new.T[kept].copy(), counts[kept]))
        if look:
            self._look(runs, new, velocity, A, C)
        self._choose(runs, wish, ahead, stiff)

    def _bend(self, runs: np.ndarray, h: np.ndarray, missed: np.ndarray, f: np.ndarray, moved: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """``BENT`` h^4 times the fourth derivative: by how far the last three velocities miss what y has moved by."""
        q = self.gap[runs] / h
        missed -= (1 / 3 + q / 2) / (1 + q) * moved
        missed -= (1 / 6 + q / 2) / q * h * f
        missed += h / (6 * q * (1 + q)) * self.past.take(runs, 1)
        missed /= scale
        return 72 * BENT / (1 + 2 * q) * np.sqrt(np.einsum("pn,pn->n", missed, missed) / len(missed))

    def _look(self, runs: np.ndarray, y: np.ndarray, f: np.ndarray, A: np.ndarray, C: np.ndarray) -> None:
        """A step of power iteration on the Jacobian, from the direction of the last one; and the rounding errors of the velocity."""
        noise = np.full(A.shape, 10 * np.finfo(float).eps)
        self.floor[:, runs] = np.maximum(self.atol[runs], self.stack.velocity(np.abs(y), noise, 0 * C))
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
        runs, times, states, methods = (np.concatenate(part) for part in zip(*self.taken, strict=True))
        order = np.argsort(runs, kind="stable")
        first = np.append(0, np.cumsum(np.bincount(runs)))
        return Steps(self.stack, first, times[order], states.take(order, 0), methods[order])


@dataclass(frozen=True, eq=False)
class Steps:
    """The ends of all steps: those of run i are ``first[i]`` to ``first[i + 1]``, from t = 0, with the method of each step."""

    stack: Stack
    first: Float[np.ndarray, " n1"]
    times: Float[np.ndarray, " S"]
    states: Float[np.ndarray, "S P"]
    methods: Float[np.ndarray, " S"]

    def only(self, run: int) -> "Steps":
        """The steps of one run."""
        own = slice(*self.first[run : run + 2])
        count = np.array([0, own.stop - own.start])
        return Steps(self.stack.only(run), count, self.times[own], self.states[own], self.methods[own])

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
        h, found = t - self.times[after - 1], np.empty((self.states.shape[1], len(t)))
        share, method = h / np.diff(self.times, prepend=0)[after], self.methods[after]
        counts = np.where(method < 0, -1, np.searchsorted(LENGTHS, share * LENGTHS[method]))
        order, stiff = np.argsort(-counts, kind="stable"), int((counts >= 0).sum())
        for part in np.split(order, [*range(WIDTH, stiff, WIDTH), *range(stiff or WIDTH, len(t), WIDTH)]):
            y = np.ascontiguousarray(self.states.take(after[part] - 1, 0).T)
            A, C = (side.take(runs[part], 2) * h[part] for side in (self.stack.A, self.stack.C))
            found[:, part] = self.stack.step(y, self.stack.velocity(y, A, C), A, C, counts[part])[0]
        return self.stack.turned(found.T, runs, back=True)


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
        own = steps.only(i)
        path = stack.turned(own.states, np.full(len(own.times), i), back=True)
        cost = Statistics(
            "DOP853 and stabilised", int(together.steps[i]), int(together.evaluations[i]), 0, 0, seconds / len(weights), "t_end"
        )
        between = own if times is None else Linear(own.times, path)
        runs.append(Trajectory(own.times * tau, path, loss, start, tau, cost, between))
    return Trajectories(tuple(runs), steps if times is None else None)
