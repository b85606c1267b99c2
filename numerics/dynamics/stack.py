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
from .stabilised import stabilised
from .trajectory import Statistics, Trajectories, Trajectory

STAGES = (8, 10, 13, 17, 22, 28, 36, 46, 60, 80, 110)  # of the stabilised methods; runs with equal counts step together
EXPLICIT = 5.2  # DOP853 damps a mode of this rate times step
SWITCH, RETURN = 3.0, 1.6  # plateaus begin when errors would allow this multiple of EXPLICIT, and end below that one
REST = 12  # steps of DOP853 after which a run may go back to the other methods
LOOK = 3  # steps between two looks at the largest rate
MARGIN = 1.1  # between a rate found by power iteration and the stability that a step is given for
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

    def dop853(self, y: np.ndarray, hf: np.ndarray, A: np.ndarray, C: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The end of a step of DOP853, its h f there, and the two estimates (2, P, n) of its error, for A and C times h."""
        stages = np.empty((13, *y.shape), y.dtype)
        rows = stages.reshape(13, -1)
        stages[1], stages[2] = 0, hf
        for i, (weights, first) in enumerate(zip(DOP853_ROWS.astype(y.dtype), FIRST, strict=True), start=1):
            last = max(i, 3)
            at = (weights[first:last] @ rows[first:last]).reshape(y.shape)
            at += y
            stages[i if i > 2 else i - 1] = self.velocity(at, A, C)
        return at, stages[12], (DOP853_ERRORS.astype(y.dtype)[:, 2:] @ rows[2:]).reshape(2, *y.shape)

    def stabilised(
        self, y: np.ndarray, hf: np.ndarray, A: np.ndarray, C: np.ndarray, count: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same of a step of the stabilised method number ``count``, with one estimate (1, P, n) of its error."""
        method = stabilised(STAGES[count])
        g, before = y, np.zeros_like(y)
        for j, (mu, nu, kappa) in enumerate(method.recurrence.T):
            step = self.velocity(g, mu * A, mu * C) if j else mu * hf
            before *= -kappa
            before += step
            before += nu * g
            g, before = before, g if j else y.copy()
        stages = np.empty((5, *y.shape), y.dtype)
        rows = stages.reshape(5, -1)
        stages[0] = self.velocity(g, A, C)
        for i, weights in enumerate(method.last, start=1):
            at = (weights[:i] @ rows[:i]).reshape(y.shape)
            at += g
            stages[i] = self.velocity(at, A, C)
        return at, stages[4], (method.error @ rows).reshape(1, *y.shape)


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
        size = states.shape[1]
        self.f = stack.velocity(states, stack.A, stack.C)
        speed, length = np.sqrt((self.f**2).sum(0)), np.sqrt((states**2).sum(0))
        self.t, self.steps, self.evaluations = np.zeros(size, states.dtype), np.zeros(size, int), np.ones(size, int)
        self.h = np.where(speed > 0, 0.01 * length / np.where(speed > 0, speed, 1.0), stops[-1])
        self.rate, self.mode, self.stiff = np.zeros(size), self.f / np.where(speed > 0, speed, 1.0), np.zeros(size, bool)
        self.rest, self.passed, self.rounding = np.zeros(size, int), np.zeros(size, int), np.zeros_like(states)
        self.taken = [(np.arange(size), self.t.copy(), states.T.copy(), np.full(size, -1))]
        self.lengths = np.array([stabilised(s).length for s in STAGES])

    def run(self) -> None:
        """Take steps until every run is at its end."""
        turn = 0
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            while (active := np.flatnonzero(self.passed < len(self.stops))).size:
                turn += 1
                self._check(active)
                # -1 is DOP853. The others wait for the method that most runs need: wide steps cost least.
                needed = np.where(self.stiff, np.searchsorted(self.lengths, MARGIN * self.h * self.rate), -1)[active]
                method = int(np.bincount(needed + 1).argmax()) - 1
                self._step(active[needed == method], method, look=turn % LOOK == 0)

    def _check(self, active: np.ndarray) -> None:
        stuck = active[~(self.h[active] > 4 * np.finfo(float).eps * self.t[active])]
        if stuck.size:
            raise FlowError(f"the steps of run {stuck[0]} shrank to nothing", float(self.t[stuck[0]]))
        slow = active[self.steps[active] >= self.most]
        if slow.size:
            raise FlowError(f"run {slow[0]} took more than max_steps = {self.most} steps", float(self.t[slow[0]]))

    def _step(self, runs: np.ndarray, count: int, *, look: bool) -> None:
        """One step of all ``runs``, of DOP853 or of the stabilised method number ``count``."""
        whole = len(runs) == len(self.t)
        y, f = (self.y, self.f) if whole else (self.y.take(runs, 1), self.f.take(runs, 1))
        left = self.stops[self.passed[runs]] - self.t[runs]
        h = np.minimum(self.h[runs], left)
        A, C = self.stack.A.take(runs, 2), self.stack.C.take(runs, 2)
        sized = (y, f * h, A * h, C * h)
        new, moved, errors = self.stack.dop853(*sized) if count < 0 else self.stack.stabilised(*sized, count)
        scale = np.maximum(np.abs(y), np.abs(new))
        scale *= self.rtol
        scale += np.maximum(self.atol[runs], self.rounding.take(runs, 1))
        errors /= scale
        squares = np.einsum("epn,epn->en", errors, errors) / len(y)
        # DOP853 weighs its two estimates as Hairer's code does
        error = squares[0] / np.sqrt(np.maximum(squares[0] + 0.01 * squares[1], 1e-300)) if count < 0 else np.sqrt(squares[0])
        factor = np.clip(SAFETY * np.where(error > 0, error, 1e-30) ** (-1 / 8 if count < 0 else -1 / 4), SLOWER, FASTER)
        factor[~np.isfinite(error)] = SLOWER
        good = error <= 1
        wish = h * np.where(good, factor, np.minimum(factor, SAFETY))
        self.evaluations[runs] += 12 if count < 0 else STAGES[count] + 1
        if not good.all():
            self.h[runs[~good]] = wish[~good]
            runs, h, left, wish, new, moved, A, C = (part.compress(good, -1) for part in (runs, h, left, wish, new, moved, A, C))
            if not runs.size:
                return
        stops = h >= left
        self.t[runs] = np.where(stops, self.stops[self.passed[runs]], self.t[runs] + h)
        wish = np.where(stops, np.maximum(wish, self.h[runs]), wish)
        self.passed[runs] += stops
        self.steps[runs] += 1
        velocity = moved / h
        self.y[:, runs], self.f[:, runs] = new, velocity
        if not self.sparse or stops.any():
            kept = stops if self.sparse else slice(None)
            self.taken.append((runs[kept], self.t[runs[kept]], new.T[kept].copy(), np.full(len(runs), count)[kept]))
        if look:
            self._look(runs, new, velocity, A, C)
        self._choose(runs, wish, count >= 0)

    def _look(self, runs: np.ndarray, y: np.ndarray, f: np.ndarray, A: np.ndarray, C: np.ndarray) -> None:
        """A step of power iteration on the Jacobian, from the direction of the last one; and the rounding errors of the velocity."""
        self.rounding[:, runs] = self.stack.velocity(np.abs(y), np.full(A.shape, 10 * np.finfo(float).eps), np.zeros(C.shape))
        apart = 1e-6
        image = (self.stack.velocity(y + apart * self.mode.take(runs, 1), A, C) - f) / apart
        rate = np.sqrt(np.einsum("pn,pn->n", image, image))
        self.evaluations[runs] += 1
        self.rate[runs] = rate
        self.mode[:, runs] = image / np.where(rate > 0, rate, 1.0)

    def _choose(self, runs: np.ndarray, wish: np.ndarray, stiff: bool) -> None:
        """The next step and method of each run: ``wish`` is what the error allows."""
        limit = np.where(self.rate[runs] > 0, EXPLICIT / np.maximum(self.rate[runs], 1e-300), np.inf)
        if stiff:
            self.stiff[runs] = stays = wish > RETURN * limit
            self.rest[runs[~stays]] = REST
            longest = self.lengths[-1] / (MARGIN * EXPLICIT) * limit
            self.h[runs] = np.where(self.stiff[runs], np.minimum(wish, 0.999 * longest), np.minimum(wish, limit))
        else:
            self.rest[runs] -= 1
            self.stiff[runs] = (wish > SWITCH * limit) & (self.rest[runs] < 0)
            self.h[runs] = np.where(self.stiff[runs], SWITCH * limit, np.minimum(wish, limit))

    def steps_by_run(self) -> "Steps":
        """All steps, those of a run one after the other."""
        runs, times, blocks, methods = zip(*self.taken, strict=True)
        order = np.argsort(np.concatenate(runs), kind="stable")
        counts, places = np.bincount(np.concatenate(runs)), np.empty_like(order)
        states, places[order] = np.empty((len(order), len(self.y))), np.arange(len(order))
        for place, block in zip(np.split(places, np.cumsum([len(block) for block in blocks])), blocks, strict=False):
            states[place] = block
        return Steps(self.stack, np.append(0, np.cumsum(counts)), np.concatenate(times)[order], states, np.concatenate(methods)[order])


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
        for method in np.unique(self.methods[after]):
            chosen = np.flatnonzero(self.methods[after] == method)
            for part in np.array_split(chosen, -(-len(chosen) // WIDTH)):
                y, (A, C) = (
                    np.ascontiguousarray(self.states.take(after[part] - 1, 0).T),
                    (side.take(runs[part], 2) * h[part] for side in (self.stack.A, self.stack.C)),
                )
                sized = (y, self.stack.velocity(y, A, C), A, C)
                found[:, part] = (self.stack.dop853(*sized) if method < 0 else self.stack.stabilised(*sized, int(method)))[0]
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
