r"""A head that waits: its exact motion under a constant force (61), (69), by one quadrature (T5).

With :math:`s = \int v\,dt/\tau` the modes of the head are exponentials of s (63), :math:`v^2(s)` is a sum of exponentials, and
:math:`t = \tau\int ds/v(s)`. The path in s is monotone or has one turning point. The head escapes when s reaches infinity, if that
integral converges.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from scipy.optimize.elementwise import find_root

from ...theory.notation import clock, lambda_
from ...theory.results.separate.waiting import A_d, B_d, k_0, q_0
from .._checks import between, finite_array, tolerance
from ..compilation.equations import compiled

NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)
# Error of a quadrature panel over the whole integral: near rounding, since panels converge geometrically.
TOLERANCE = 1e-13
FADES = 4  # the power of 1 - xi^2 with which the fastest mode fades at the far end
NEWTON = 200  # steps at most: far more than where convergence is slowest, at a turning point that v^2 only touches
MOVING = {"v": 0, "k": 2, "q": 2}  # what moves, and its axes beside those of many heads


@dataclass(frozen=True, eq=False)
class WaitingHead:
    r"""A head under the force :math:`\Omega = \mathrm{diag}(\text{frequencies}^2)`, in the eigenbasis of the covariance, or many heads.

    ``frequencies`` holds lambda_d, and 0 for directions already learned. ``k`` and ``q`` are R x D. Many heads lie along leading axes, the
    same ones in all four. Times are in units of tau.
    """

    v: Float[np.ndarray, "*n"]
    k: Float[np.ndarray, "*n R D"]
    q: Float[np.ndarray, "*n R D"]
    frequencies: Float[np.ndarray, "*n D"]

    def __post_init__(self) -> None:
        lead = finite_array("v", self.v).shape
        k = finite_array("k", self.k, (*lead, "R", "D"))
        object.__setattr__(self, "k", k)
        object.__setattr__(self, "q", finite_array("q", self.q, k.shape))
        object.__setattr__(self, "v", finite_array("v", self.v, lead)[()])
        object.__setattr__(self, "frequencies", finite_array("frequencies", self.frequencies, (*lead, k.shape[-1])))
        if (self.frequencies < 0).any():
            raise ValueError(f"frequencies must not be negative, got {self.frequencies}")

    def __getitem__(self, chosen: Any) -> "WaitingHead":
        """Some of many heads, or one."""
        return WaitingHead(self.v[chosen], self.k[chosen], self.q[chosen], self.frequencies[chosen])

    @property
    def acceleration(self) -> Any:
        """tau dv/dt = sum_r k_r' Omega q_r."""
        return np.sum(self.frequencies[..., None, :] ** 2 * self.k * self.q, axis=(-2, -1))

    @cached_property
    def size(self) -> Any:
        return np.sqrt(self.v**2 + np.sum(self.k**2 + self.q**2, axis=(-2, -1)))

    @cached_property
    def sign(self) -> Any:
        """The sign of ds/dt at first."""
        return np.where(self.v != 0, np.sign(self.v), np.sign(self.acceleration))[()]

    @cached_property
    def amplitudes(self) -> tuple[np.ndarray, np.ndarray]:
        """|A_d| and |B_d| over the slots r, those of exp(+lambda_d^2 s) and of exp(-lambda_d^2 s)."""
        return tuple(np.sqrt(np.sum(((self.k + sign * self.q) / 2) ** 2, axis=-2)) for sign in (1, -1))  # type: ignore[return-value]

    def energy(self, s: Any) -> Any:
        """v^2 at s."""
        A, B = self.amplitudes
        return _energy(s, self.v**2, A, B, self.frequencies)

    def at(self, s: Any, v: Any) -> "WaitingHead":
        """The head at s, with the value weight ``v``, plus or minus the root of ``energy(s)`` up to rounding."""
        modes = compiled("63", (clock, k_0, q_0, lambda_), part=("k", "q"))
        k, q = modes(np.asarray(s)[..., None, None], self.k, self.q, self.frequencies[..., None, :])
        return replace(self, v=v, k=k, q=q)

    @cached_property
    def turning_point(self) -> Any:
        """The s ahead of the head at which v changes sign, or NaN: a root of v^2, which is convex, by Newton's method from its left."""
        squares = self.frequencies**2
        ahead, behind = (np.where((self.sign > 0)[..., None] == up, *self.amplitudes) for up in (True, False))
        grows, limit = ((ahead > 0) & (squares > 0)).any(-1), self.v**2 - np.sum(np.where(squares > 0, behind, 0.0) ** 2, axis=-1)
        # Without growing modes v^2 may fall towards its limit for ever
        slows = (self.v != 0) & (self.sign * self.acceleration < 0) & (grows | (limit <= -1e-13 * self.size**2))
        x, moving = np.zeros(slows.shape), slows
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for _ in range(NEWTON):
                growth = np.exp(2 * squares * x[..., None])
                slope = 2 * np.sum(squares * (ahead**2 * growth - behind**2 / growth), axis=-1)
                left, down = self.energy(self.sign * x), slope < 0
                step = np.where(moving & (left > 0) & down, -left / slope, 0.0)
                moving = step > 1e-16 * x
                if not moving.any():
                    break
                x = x + step
        starts = np.where((self.v == 0) & (self.acceleration != 0), 0.0, np.nan)
        return np.where(slows & (down | (left <= 0)), self.sign * x, starts)[()]

    @cached_property
    def _path(self) -> tuple[Any, "_Leg"]:
        """The time of the turning point and the leg from there; without a turning point, 0 and the leg from here."""
        turns = np.isfinite(self.turning_point)
        if not turns.any():
            return np.zeros(turns.shape), _Leg(self, self.sign)
        s = np.where(turns, self.turning_point, 0.0)
        anchor = self.at(s, np.where(turns, 0.0, self.v))
        leg = _Leg(anchor, np.where(turns, np.sign(anchor.acceleration), self.sign))
        return np.where(turns, leg.time(np.abs(s)), 0.0), leg

    @property
    def growing(self) -> Float[np.ndarray, "*n R D"]:
        """The amplitudes of the modes that grow on the way to the escape: A_d if v ends positive, B_d if it ends negative."""
        return (self.k + self._path[1].sign[..., None, None] * self.q) / 2

    def escape_time(self) -> Any:
        """The time, in units of tau, in which the head would reach infinity; infinite if it never does."""
        before, leg = self._path
        return np.where(leg.escapes, before + leg.total, np.inf)[()]

    def _times(self, time: Any) -> np.ndarray:
        """``time`` for each head."""
        times = finite_array("time", time)
        if (times < 0).any() or times.shape not in ((), np.shape(self.v)):
            raise ValueError(f"time must lie between 0 and the escape time, one for all heads or shaped {np.shape(self.v)}, got {time!r}")
        return np.broadcast_to(times, np.shape(self.v))

    def after(self, time: Any) -> "WaitingHead":
        """The head after a time below its escape time, by inverting the quadrature."""
        time = self._times(time)
        if not (good := time < self.escape_time()).all():
            least = np.min(self.escape_time()[~good])
            raise ValueError(f"time must lie between 0 and the escape time {least:.6g}, got {time[~good][0]!r}")
        moves = (self.sign != 0) & self.frequencies.any(-1) & (time > 0)
        if not moves.any():
            return self
        before, leg = self._path
        timed = moves & leg.escapes
        s = leg.sign * np.where(timed, leg.place(np.abs(time - before)), 0.0)
        v = np.sqrt(np.maximum(leg.head.energy(s), 0.0)) * leg.sign * np.where(time >= before, 1, -1)
        moved = leg.head.at(s, v)
        rest = self.flow(np.where(timed, 0.0, time)) if (moves & ~timed).any() else self
        pairs = {name: (timed[(..., *[None] * axes)], getattr(moved, name), getattr(rest, name)) for name, axes in MOVING.items()}
        return replace(self, **{name: np.where(*pair) for name, pair in pairs.items()})

    def before_escape(self, size: float) -> tuple[float, "WaitingHead"]:
        """The time at which \\|v\\| of one head has grown to ``size`` on the way to the escape, and the head there.

        Raises ``ValueError`` if the head never escapes, or if \\|v\\| is never below ``size`` on the way.
        """
        size, (before, leg) = between("size", size, 0, 1e100), self._path
        if np.ndim(self.v) or not leg.escapes:
            raise ValueError(f"head must be one that escapes, got {self}")
        anchor, rate = leg.head, float(leg.rate)
        farthest = 0.0
        while anchor.energy(leg.sign * farthest) < size**2:
            farthest += 1 / rate
        if farthest == 0:
            raise ValueError(f"size must be above the head's |v| = {abs(anchor.v):.6g}, got {size!r}")
        place: Any = brentq(lambda x: float(anchor.energy(leg.sign * x)) - size**2, 0, farthest, xtol=1e-15 / rate)
        return float(before + leg.time(place)), anchor.at(leg.sign * place, leg.sign * size)

    def flow(self, time: Any, *, rtol: float = 1e-10) -> "WaitingHead":
        """The head after a time below its escape time, by integrating its cubic flow (61), (69)."""
        time, rtol = self._times(time), tolerance("rtol", rtol)
        if np.ndim(self.v):
            ends = [self[i].flow(time[i], rtol=rtol) for i in np.ndindex(self.v.shape)]
            return replace(self, **{n: np.reshape([getattr(end, n) for end in ends], getattr(self, n).shape) for n in MOVING})
        R, D = self.k.shape
        squares, size = self.frequencies**2, self.size
        if not time or not size:
            return self

        def field(_t: float, state: np.ndarray) -> np.ndarray:
            v, k, q = state[0], state[1 : 1 + R * D].reshape(R, D), state[1 + R * D :].reshape(R, D)
            return np.concatenate([[np.sum(squares * k * q)], (v * squares * q).ravel(), (v * squares * k).ravel()])

        start = np.concatenate([[self.v], self.k.ravel(), self.q.ravel()]) / size
        solution = solve_ivp(field, (0, time * size), start, method="DOP853", rtol=rtol, atol=rtol * 1e-3)
        if not solution.success:
            raise ArithmeticError(f"the flow of the waiting head failed at {solution.t[-1] / size:.6g} of {time:.6g}: {solution.message}")
        end = solution.y[:, -1] * size
        return replace(self, v=end[0], k=end[1 : 1 + R * D].reshape(R, D), q=end[1 + R * D :].reshape(R, D))


def _energy(s: Any, start: Any, A: np.ndarray, B: np.ndarray, frequencies: np.ndarray) -> Any:
    return start + np.sum(compiled("T5", (clock, A_d, B_d, lambda_), part="mode")(np.asarray(s)[..., None], A, B, frequencies), axis=-1)


class _Leg:
    r"""The time along a path on which v does not change sign, from a head that may be at its turning point; or of many heads.

    In the variable :math:`\xi`, :math:`|s| = -4\ln(1 - \xi^2)/\lambda^2` with lambda of the fastest growing mode, the integrand of
    :math:`\int ds/v` is smooth at both ends: v vanishes as the root of s, and grows as :math:`e^{\lambda^2 s}` beside modes of other rates,
    whose broken powers of :math:`1 - \xi` are high. Gauss-Legendre panels are halved until two halves agree with the whole.
    """

    def __init__(self, head: WaitingHead, sign: Any) -> None:
        self.head, self.sign = head, np.asarray(sign)
        rates, (A, B) = head.frequencies**2, head.amplitudes
        growing = np.where(np.where((self.sign > 0)[..., None], A, B) > 0, rates, 0.0).max(-1)
        self.escapes = (growing > 0) & (self.sign != 0)
        self.rate = np.where(self.escapes, growing, 1.0) / FADES
        D = rates.shape[-1]
        self._heads = (
            self.sign.ravel(),
            self.rate.ravel(),
            head.v.ravel() ** 2,
            *(part.reshape(-1, 1, D) for part in (A, B, head.frequencies)),
        )

    @np.errstate(invalid="ignore", divide="ignore")  # where a head rests
    def _integrand(self, xi: Float[np.ndarray, "m n"], of: np.ndarray) -> np.ndarray:
        """At the points ``xi`` of the heads ``of``."""
        sign, rate, start, *modes = (part[of] for part in self._heads)
        s = self._s(xi, rate[:, None])
        return 2 * xi / (rate[:, None] * (1 - xi) * (1 + xi) * np.sqrt(_energy(sign[:, None] * s, start[:, None], *modes)))

    @staticmethod
    def _s(xi: Any, rate: Any) -> Any:
        return -(np.log1p(-xi) + np.log1p(xi)) / rate

    def _across(self, left: np.ndarray, right: np.ndarray, of: np.ndarray) -> Float[np.ndarray, " m"]:
        """The times from ``left`` to ``right`` in xi, by one Gauss-Legendre panel each."""
        width = (right - left)[:, None]
        parts = self._integrand(left[:, None] + width * (NODES + 1) / 2, of) * (WEIGHTS * width / 2)
        return np.where(right > left, parts.sum(axis=-1), 0.0)

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Panel edges in xi and the time at each, a row for each head that escapes, filled up with the last; and the number of panels."""
        n = self.escapes.size
        of, left, right = (np.ravel(part) for part in np.broadcast_arrays(np.flatnonzero(self.escapes)[:, None], [0, 0.5], [0.5, 1]))
        whole, total = self._across(left, right, of), np.zeros(n)
        done = [(of[:0], left[:0], whole[:0])]  # panels that are good enough: their head, left edge and time, and each head's total
        while len(of):
            middle = (left + right) / 2
            halves = self._across(np.append(left, middle), np.append(middle, right), np.append(of, of)).reshape(2, -1)
            both = halves.sum(axis=0)
            bound = TOLERANCE * (total + np.bincount(of, both, n))[of]
            good = (np.abs(whole - both) <= bound) | (right - left < 1e-14)
            total += np.bincount(of[good], both[good], n)
            done.append((of[good], left[good], both[good]))
            bad = ~good
            of, whole = np.append(of[bad], of[bad]), halves[:, bad].ravel()
            left, right = np.append(left[bad], middle[bad]), np.append(middle[bad], right[bad])
        of, left, across = (np.concatenate(part) for part in zip(*done, strict=True))
        order, counts = np.lexsort((left, of)), np.bincount(of, minlength=n)
        column = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
        edges, times = np.ones((n, counts.max(initial=0) + 1)), np.zeros((n, counts.max(initial=0) + 1))
        edges[of[order], column], times[of[order], column + 1] = left[order], across[order]
        return edges, np.cumsum(times, axis=1), counts

    @property
    def total(self) -> Any:
        return self._table[1][:, -1].reshape(self.escapes.shape)

    def _panel(self, rows: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The left and right edge of the panel of each head whose entries of ``rows`` are beside ``value``, and the time at the left."""
        edges, times, counts = self._table
        every = np.arange(len(counts))
        panel = np.clip((rows <= value[:, None]).sum(axis=1) - 1, 0, np.maximum(counts - 1, 0))
        return edges[every, panel], edges[every, np.minimum(panel + 1, edges.shape[1] - 1)], times[every, panel]

    def time(self, s: Any) -> Any:
        """The time from the start of the leg to the distance s."""
        xi = np.sqrt(-np.expm1(-self.rate * s)).ravel()
        left, _, times = self._panel(self._table[0], xi)
        return (times + self._across(left, xi, np.arange(xi.size))).reshape(self.escapes.shape)

    def place(self, time: Any) -> Any:
        """The distance s reached after a time."""
        time, every = np.ravel(time), np.arange(self.escapes.size)
        left, right, begun = self._panel(self._table[1], time)
        found = find_root(lambda xi, i: begun[i] + self._across(left[i], xi, i) - time[i], (left, right), args=(every,))
        # Rounding may leave no change of sign at the end of a panel, and the last one ends at infinity
        xi = np.minimum(np.where(found.success, found.x, np.where(time > begun, right, left)), np.nextafter(1, 0))
        return self._s(xi, self.rate.ravel()).reshape(self.escapes.shape)
