"""Runs of (M) and (S), compiled by Numba: their steps, each of DOP853 or of a stabilised method, and the states between them.

Growth and drops take steps of DOP853. On plateaus its steps end at its limit of stability, since the learned directions pull back at a rate
far above that of the waiting heads; there a run changes to the explicit methods of :mod:`.stabilised`. In eigenbases of the two sides of
its loss C[B] is a product entry by entry, and a velocity a few sums over heads and directions.

The first run on a machine compiles this module, for some six seconds, and keeps the result on the disk.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from jaxtyping import Float, Int
from numba import njit
from numba.extending import overload
from scipy.integrate import DOP853

from .solver import FlowError
from .stabilised import length, tables

STAGES = (5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 18, 20, 22, 25, 28, 32, 36, 41, 46, 52, 60)  # of the stabilised methods
EXPLICIT = 6.1  # DOP853 damps a mode of this rate times step by 0.6, and one of 6.4 no longer
BENT = 0.0015  # the estimated error of a stabilised step, over h^4 times the fourth derivative
BESIDES = 6  # velocities that would take as long as the rest of a step
LOOK = 8  # steps between two looks at the largest rate
MARGIN = 1.05  # between a rate found by power iteration and the stability that a step is given for
SAFETY, SLOWER, FASTER = 0.8, 0.2, 6.0
LARGE = 16  # from this D on products of matrices are left to BLAS
EPS = 2.0**-52
CHUNK = 100_000  # weights at the ends of steps that are taken at once
# fastmath without the assumptions that nothing is infinite and nothing nan, on which a step is refused
OPTIONS: Any = {"error_model": "numpy", "fastmath": {"contract", "reassoc", "nsz", "arcp"}}


def compiled(function: Any) -> Any:
    try:
        return njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # there is no folder to keep it in
        return njit(**OPTIONS)(function)


class Flow(NamedTuple):
    """A and the entries of C in the eigenbases, the numbers of heads and ranks, the coefficients of all methods, and room for a step."""

    A: Float[np.ndarray, "D D"]
    C: Float[np.ndarray, "D D"]
    heads: int
    rank: int
    rows: Float[np.ndarray, "12 12"]
    errors: Float[np.ndarray, "2 13"]
    counts: Int[np.ndarray, " K"]
    lengths: Float[np.ndarray, " K"]
    first: Float[np.ndarray, "K 4 4"]
    recurrences: Float[np.ndarray, "K 2 m"]
    force: Float[np.ndarray, "D D"]
    values: Float[np.ndarray, "HR D"]
    stages: Float[np.ndarray, "13 P"]

    @classmethod
    def of(cls, A: Float[np.ndarray, "D D"], C: Float[np.ndarray, "D D"], heads: int, rank: int, size: int) -> Self:
        """The flow of ``size`` weights under the force A - C B, entry by entry."""
        first, recurrences = (np.ascontiguousarray(np.moveaxis(table, -1, 0)) for table in tables(STAGES))
        rows, lengths = np.vstack([DOP853.A[1:12, :12], DOP853.B]), np.array([length(s) for s in STAGES])
        room = np.empty_like(A), np.empty((heads * rank, len(A))), np.empty((13, size))
        parts = np.ascontiguousarray(A), np.ascontiguousarray(C), heads, rank, rows, np.stack([DOP853.E5, DOP853.E3])
        return cls(*parts, np.array(STAGES), lengths, first, recurrences, *room)


class Merged(Flow):
    """Of v (H) and U (H, D, D)."""


class Separate(Flow):
    """Of v (H), k and q (H, R, D)."""


class LargeSeparate(Flow):
    """The same if D is so large that products of matrices are left to BLAS."""


def _merged(flow: Flow, y: np.ndarray, A: np.ndarray, C: np.ndarray, share: float, out: np.ndarray) -> None:
    D, H, G = len(A), flow.heads, flow.force
    for b in range(D):
        for c in range(D):
            G[b, c] = 0.0
    for h in range(H):
        for b in range(D):
            for c in range(D):
                G[b, c] += y[h] * y[H + (h * D + b) * D + c]
    for b in range(D):
        for c in range(D):
            G[b, c] = share * (A[b, c] - C[b, c] * G[b, c])
    for h in range(H):
        growth = 0.0
        for b in range(D):
            for c in range(D):
                growth += y[H + (h * D + b) * D + c] * G[b, c]
                out[H + (h * D + b) * D + c] = y[h] * G[b, c]
        out[h] = growth


def _separate(flow: Flow, y: np.ndarray, A: np.ndarray, C: np.ndarray, share: float, out: np.ndarray) -> None:
    D, H, R, G = len(A), flow.heads, flow.rank, flow.force
    K, Q = H, H + H * R * D
    for b in range(D):
        for c in range(D):
            G[b, c] = 0.0
    for h in range(H):
        v = y[h]
        for r in range(R):
            for b in range(D):
                weight = v * y[K + (h * R + r) * D + b]
                for c in range(D):
                    G[b, c] += weight * y[Q + (h * R + r) * D + c]
    for b in range(D):
        for c in range(D):
            G[b, c] = share * (A[b, c] - C[b, c] * G[b, c])
    for h in range(H):
        v, growth = y[h], 0.0
        for r in range(R):
            for b in range(D):
                total = 0.0
                for c in range(D):
                    total += G[b, c] * y[Q + (h * R + r) * D + c]
                out[K + (h * R + r) * D + b] = v * total
                growth += total * y[K + (h * R + r) * D + b]
            for c in range(D):
                total = 0.0
                for b in range(D):
                    total += G[b, c] * y[K + (h * R + r) * D + b]
                out[Q + (h * R + r) * D + c] = v * total
        out[h] = growth


def _large(flow: Flow, y: np.ndarray, A: np.ndarray, C: np.ndarray, share: float, out: np.ndarray) -> None:
    D, H, R, G, values = len(A), flow.heads, flow.rank, flow.force, flow.values
    pairs, moves = y[H:].reshape(2, H * R, D), out[H:].reshape(2, H * R, D)
    for i in range(H * R):
        values[i] = y[i // R] * pairs[1, i]
    np.dot(pairs[0].T, values, G)
    for b in range(D):
        for c in range(D):
            G[b, c] = share * (A[b, c] - C[b, c] * G[b, c])
    np.dot(values, G.T, moves[0])
    np.dot(pairs[0], G, moves[1])
    out[:H] = 0
    for i in range(H * R):
        out[i // R] += (pairs[1, i] * moves[1, i]).sum()
        moves[1, i] *= y[i // R]


KINDS = {Merged: _merged, Separate: _separate, LargeSeparate: _large}


def velocity(flow: Flow, y: np.ndarray, A: np.ndarray, C: np.ndarray, share: float, out: np.ndarray) -> None:
    """``share`` times the velocity at y under the force A - C B, into ``out``, by the function of the kind of flow."""
    KINDS[type(flow)](flow, y, A, C, share, out)


@overload(velocity, jit_options=OPTIONS, strict=False)
def _velocity(flow: Any, y: Any, A: Any, C: Any, share: Any, out: Any) -> Any:
    return KINDS[flow.instance_class]


@compiled
def mixed(out: np.ndarray, start: np.ndarray, weights: np.ndarray, stages: np.ndarray, count: int) -> None:
    """``start`` and the first ``count`` stages, each times its weight."""
    for p in range(len(out)):
        out[p] = start[p]
    for j in range(count):
        weight = weights[j]
        if weight != 0:
            for p in range(len(out)):
                out[p] += weight * stages[j, p]


@compiled
def squares(y: np.ndarray, scale: np.ndarray) -> float:
    """The sum of (y scale)^2."""
    total = 0.0
    for p in range(len(y)):
        total += (y[p] * scale[p]) ** 2
    return total


@compiled
def step(flow: Flow, y: np.ndarray, f: np.ndarray, h: float, method: int, new: np.ndarray, moved: np.ndarray) -> None:
    """The end of a step h and the velocity there times h: by the stabilised method of this number, or by DOP853 if it is -1."""
    stages, A, C = flow.stages, flow.A, flow.C
    for p in range(len(y)):
        stages[0, p] = h * f[p]
    if method < 0:
        for i in range(12):
            mixed(new, y, flow.rows[i], stages, i + 1)
            velocity(flow, new, A, C, h, stages[i + 1])
        for p in range(len(y)):
            moved[p] = stages[12, p]
        return
    for i in range(4):
        if i:
            velocity(flow, new, A, C, h, stages[i])
        mixed(new, y, flow.first[method, i], stages, i + 1)
    change = stages[0]
    for p in range(len(y)):
        change[p] = 0.0
    for j in range(flow.counts[method] - 4):
        mu, kappa = flow.recurrences[method, 0, j], flow.recurrences[method, 1, j]
        velocity(flow, new, A, C, mu * h, moved)
        for p in range(len(y)):
            change[p] = kappa * change[p] + moved[p]
            new[p] += change[p]
    velocity(flow, new, A, C, h, moved)


@compiled
def stretched(error: float, power: float) -> float:
    """By what the next step may be longer than one of this error, over the allowed one."""
    return min(max(SAFETY * max(error, 1e-30) ** power, SLOWER), FASTER) if error < np.inf else SLOWER


@compiled
def number_of(flow: Flow, reach: float) -> int:
    """The first method that is stable up to ``reach``, or the last one."""
    return min(int(np.searchsorted(flow.lengths, reach)), len(flow.lengths) - 1)


@compiled
def look(flow: Flow, y: np.ndarray, f: np.ndarray, mode: np.ndarray, at: np.ndarray, floor: np.ndarray, atol: float) -> float:
    """The largest rate of the Jacobian, by a step of power iteration from ``mode``; and as ``floor`` what rounding errs in velocities."""
    noise, none, apart = np.full(flow.A.shape, 10 * EPS), np.zeros(flow.A.shape), 1e-6
    for p in range(len(y)):
        at[p] = abs(y[p])
    velocity(flow, at, noise, none, 1.0, floor)
    for p in range(len(y)):
        floor[p] = max(atol, floor[p])
        at[p] = y[p] + apart * mode[p]
    velocity(flow, at, flow.A, flow.C, 1.0, mode)
    rate = 0.0
    for p in range(len(y)):
        mode[p] = (mode[p] - f[p]) / apart
        rate += mode[p] ** 2
    rate = np.sqrt(rate)
    for p in range(len(y)):
        mode[p] /= rate if rate > 0 else 1.0
    return rate


@compiled
def integrate(
    flow: Flow, weights: np.ndarray, clock: np.ndarray, rtol: float, atol: float, stops: np.ndarray, rows: np.ndarray, sparse: bool
) -> tuple[int, bool]:
    """Steps on to the last of ``stops``, as many as there are ``rows`` at most; each of ``stops`` ends a step.

    ``rows`` get the time, the method and the state at the end of each step, or with ``sparse`` of each step that ends at a stop. Returns
    how many of them, and whether steps shrank to nothing. ``weights`` and ``clock`` keep what the next call needs: see ``run``.
    """
    y, f, past, mode, floor, P, A, C = weights[0], weights[1], weights[2], weights[3], weights[4], weights.shape[1], flow.A, flow.C
    new, moved, scale, at, nothing = np.empty(P), np.empty(P), np.ones(P), np.empty(P), np.zeros(P)
    t, longer, rate, gap, stiff = clock[0], clock[1], clock[2], clock[3], clock[4] > 0
    passed, steps, used, made, kept = int(clock[5]), int(clock[6]), int(clock[7]), 0, 0
    if used == 0:
        velocity(flow, y, A, C, 1.0, f)
        speed, norm = np.sqrt(squares(f, scale)), np.sqrt(squares(y, scale))
        longer, gap, used = 0.01 * norm / speed if speed > 0 else stops[-1], 1.0, 1
        for p in range(P):
            past[p], mode[p], floor[p] = f[p], f[p] / (speed if speed > 0 else 1.0), atol
    while passed < len(stops) and made < len(rows) and longer > 4 * EPS * t:
        left = stops[passed] - t
        h = min(longer, left)
        method = number_of(flow, MARGIN * h * rate) if stiff else -1
        step(flow, y, f, h, method, new, moved)
        used += flow.counts[method] if stiff else 12
        # BENT h^4 times the fourth derivative: by how far the last three velocities miss what y has moved by
        g, bend = gap / h, 0.0
        now, before, earlier = (1 / 3 + g / 2) / (1 + g), (1 / 6 + g / 2) / g * h, h / (6 * g * (1 + g))
        for p in range(P):
            scale[p] = 1 / (max(abs(y[p]), abs(new[p])) * rtol + floor[p])
            bend += ((new[p] - y[p] - now * moved[p] - before * f[p] + earlier * past[p]) * scale[p]) ** 2
        error = bend = 72 * BENT / (1 + 2 * g) * np.sqrt(bend / P)
        if not stiff:  # the two estimates weighed as in Hairer's code
            mixed(at, nothing, flow.errors[0], flow.stages, 12)
            fifth = squares(at, scale) / P
            mixed(at, nothing, flow.errors[1], flow.stages, 12)
            error = fifth / np.sqrt(max(fifth + 0.01 * squares(at, scale) / P, 1e-300))
        wish, ahead = h * stretched(error, -1 / 4 if stiff else -1 / 8), h * stretched(bend, -1 / 4)
        if not error <= 1:
            longer = min(wish, SAFETY * h)
            continue
        ends = h >= left
        t, made, steps, gap = stops[passed] if ends else t + h, made + 1, steps + 1, h
        if ends:
            wish, passed = max(wish, longer), passed + 1
        for p in range(P):
            past[p], f[p], y[p] = f[p], moved[p] / h, new[p]
        if ends or not sparse:
            rows[kept, 0], rows[kept, 1] = t, method
            for p in range(P):
                rows[kept, p + 2] = y[p]
            kept += 1
        if steps % LOOK == 0:
            rate, used = look(flow, y, f, mode, at, floor, atol), used + 2
        fastest = max(rate, 1e-300)
        limit, farthest = EXPLICIT / fastest, 0.999 * flow.lengths[-1] / (MARGIN * fastest)
        near, ahead = limit if stiff else min(wish, limit), min(wish if stiff else ahead, farthest)
        stiff = (12 + BESIDES) * ahead > (flow.counts[number_of(flow, MARGIN * ahead * fastest)] + BESIDES) * near
        longer = ahead if stiff else near
    clock[0], clock[1], clock[2], clock[3], clock[4] = t, longer, rate, gap, stiff
    clock[5], clock[6], clock[7] = passed, steps, used
    return kept, not longer > 4 * EPS * t


def run(
    flow: Flow, start: Float[np.ndarray, " P"], stops: Float[np.ndarray, " n"], *, rtol: float, atol: float, most: int, sparse: bool
) -> tuple[Float[np.ndarray, "T P2"], int, int]:
    """Rows of time, method and state at 0 and the ends of steps, or with ``sparse`` at ``stops``; the numbers of steps and velocities.

    Python sees to interruptions after every ``CHUNK`` weights, at least a step. ``FlowError`` if steps shrink to nothing, or pass ``most``.
    """
    weights, clock = np.zeros((5, len(start))), np.zeros(8)  # state, velocity, that before, mode, floor; see ``integrate``
    weights[0] = start
    found = [np.concatenate([[0.0, -1.0], start])[None]]
    while clock[5] < len(stops):
        left = most - int(clock[6])
        if not left:
            raise FlowError(f"the solver took more than max_steps = {most} steps", float(clock[0]))
        rows = np.empty((min(max(CHUNK // len(start), 1), left), len(start) + 2))
        kept, shrank = integrate(flow, weights, clock, rtol, atol, stops, rows, sparse)
        found.append(rows[:kept].copy())
        if shrank and clock[5] < len(stops):
            raise FlowError("the steps shrank to nothing", float(clock[0]))
    return np.concatenate(found), int(clock[6]), int(clock[7])


@compiled
def between(flow: Flow, rows: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The states at the times ``at``: by a shorter step of DOP853, or by a cubic across a stabilised one, with the velocities at its ends.

    The cubic errs by up to h^4/384 times the fourth derivative, 1.7 times the error that such a step is allowed.
    """
    times, P = rows[:, 0].copy(), rows.shape[1] - 2
    found, y, new, f, moved = np.empty((len(at), P)), np.empty(P), np.empty(P), np.empty(P), np.empty(P)
    for i in range(len(at)):
        after = min(max(np.searchsorted(times, at[i]), 1), len(times) - 1)
        h, part = times[after] - times[after - 1], at[i] - times[after - 1]
        for p in range(P):
            y[p], new[p] = rows[after - 1, p + 2], rows[after, p + 2]
        if rows[after, 1] < 0:
            velocity(flow, y, flow.A, flow.C, 1.0, f)
            step(flow, y, f, part, -1, found[i], moved)
            continue
        velocity(flow, y, flow.A, flow.C, h, f)
        velocity(flow, new, flow.A, flow.C, h, moved)
        x = part / h
        for p in range(P):
            change = new[p] - y[p]
            found[i, p] = y[p] + x * (change + (1 - x) * ((1 - x) * (f[p] - change) - x * (moved[p] - change)))
    return found
