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

from ...theory.notation import clock, lambda_
from ...theory.results.separate.waiting import A_d, B_d, k_0, q_0
from .._checks import finite_array
from ..compilation.equations import compiled

NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)
# Error of a quadrature panel over the whole integral: near rounding, since panels converge geometrically.
TOLERANCE = 1e-13


@dataclass(frozen=True, eq=False)
class WaitingHead:
    r"""One head under the force :math:`\Omega = \mathrm{diag}(\text{frequencies}^2)`, in the eigenbasis of the covariance.

    ``frequencies`` holds lambda_d, and 0 for directions already learned. ``k`` and ``q`` are R x D. Times are in units of tau.
    """

    v: float
    k: Float[np.ndarray, "R D"]
    q: Float[np.ndarray, "R D"]
    frequencies: Float[np.ndarray, " D"]

    def __post_init__(self) -> None:
        k = finite_array("k", self.k, ("R", "D"))
        object.__setattr__(self, "k", k)
        object.__setattr__(self, "q", finite_array("q", self.q, k.shape))
        object.__setattr__(self, "v", float(finite_array("v", self.v, ())))
        object.__setattr__(self, "frequencies", finite_array("frequencies", self.frequencies, k.shape[1:]))
        if (self.frequencies < 0).any():
            raise ValueError(f"frequencies must not be negative, got {self.frequencies}")

    @property
    def acceleration(self) -> float:
        """tau dv/dt = sum_r k_r' Omega q_r."""
        return float(np.sum(self.frequencies**2 * self.k * self.q))

    @cached_property
    def size(self) -> float:
        return float(np.sqrt(self.v**2 + np.sum(self.k**2) + np.sum(self.q**2)))

    @cached_property
    def sign(self) -> float:
        """The sign of ds/dt at first."""
        return float(np.sign(self.v) or np.sign(self.acceleration))

    @cached_property
    def amplitudes(self) -> tuple[np.ndarray, np.ndarray]:
        """|A_d| and |B_d| over the slots r, those of exp(+lambda_d^2 s) and of exp(-lambda_d^2 s)."""
        return tuple(np.sqrt(np.sum(((self.k + sign * self.q) / 2) ** 2, axis=0)) for sign in (1, -1))  # type: ignore[return-value]

    def energy(self, s: Any) -> Any:
        """v^2 at s."""
        A, B = self.amplitudes
        s = np.asarray(s, dtype=float)[..., None]
        modes = compiled("T5", (clock, A_d, B_d, lambda_), part="mode")(s, A, B, self.frequencies)
        return self.v**2 + np.sum(modes, axis=-1)

    def at(self, s: float, v: float) -> "WaitingHead":
        """The head at s, with the value weight ``v``, plus or minus the root of ``energy(s)`` up to rounding."""
        modes = compiled("63", (clock, k_0, q_0, lambda_), part=("k", "q"))
        k, q = modes(s, self.k, self.q, self.frequencies)
        return replace(self, v=v, k=k, q=q)

    @cached_property
    def turning_point(self) -> float | None:
        """The s ahead of the head at which v changes sign, or None."""
        if self.v == 0:
            return 0.0 if self.acceleration else None
        if self.sign * self.acceleration >= 0 or not self.frequencies.any():
            return None
        A, B = self.amplitudes
        squares = self.frequencies**2
        ahead, behind = (A, B) if self.sign > 0 else (B, A)
        limit = self.v**2 - np.sum(behind[squares > 0] ** 2)
        if not (ahead[squares > 0] > 0).any() and limit > -1e-13 * self.size**2:  # v^2 falls towards the limit for ever
            return None

        def slope(x: float) -> float:
            return float(np.sum(squares * (ahead**2 * np.exp(2 * squares * x) - behind**2 * np.exp(-2 * squares * x))))

        longest = 300 / squares.max()
        lowest: Any = longest
        if slope(longest) > 0:
            lowest = brentq(slope, 0, longest, xtol=1e-15 * longest)  # v^2 is convex
        if self.energy(self.sign * lowest) >= 0:
            return None
        root: Any = brentq(lambda x: self.energy(self.sign * x), 0, lowest, xtol=1e-17 * longest)
        return self.sign * root

    @cached_property
    def _path(self) -> tuple[float, "_Leg"]:
        """The time of the turning point and the leg from there; without a turning point, 0 and the leg from here."""
        if self.turning_point is None:
            return 0.0, _Leg(self, self.sign)
        anchor = self.at(self.turning_point, 0.0)
        leg = _Leg(anchor, float(np.sign(anchor.acceleration)))
        return float(leg.time(abs(self.turning_point))), leg

    @property
    def growing(self) -> Float[np.ndarray, "R D"]:
        """The amplitudes of the modes that grow on the way to the escape: A_d if v ends positive, B_d if it ends negative."""
        return (self.k + self._path[1].sign * self.q) / 2

    def rotated(self, rotation: Float[np.ndarray, "D D"]) -> "WaitingHead":
        """The head in the basis of the columns of ``rotation``, which may mix directions of equal frequency only."""
        return replace(self, k=self.k @ rotation, q=self.q @ rotation)

    def escape_time(self) -> float:
        """The time, in units of tau, in which the head would reach infinity; infinite if it never does."""
        if self.sign == 0:
            return np.inf
        before, leg = self._path
        return before + leg.total

    def after(self, time: float) -> "WaitingHead":
        """The head after a time below its escape time, by inverting the quadrature."""
        if not 0 <= time < self.escape_time():
            raise ValueError(f"time must lie between 0 and the escape time {self.escape_time():.6g}, got {time!r}")
        if self.sign == 0:
            return self
        before, leg = self._path
        if not leg.escapes:
            return self.flow(time)
        s = leg.place(abs(time - before))
        anchor = leg.head
        v = np.sqrt(max(float(anchor.energy(leg.sign * s)), 0.0))
        return anchor.at(leg.sign * s, leg.sign * v * (1 if time >= before else -1))

    def before_escape(self, size: float) -> tuple[float, "WaitingHead"]:
        """The time at which \\|v\\| has grown to ``size`` on the way to the escape, and the head there.

        Raises ``ValueError`` if the head never escapes, or if \\|v\\| is never below ``size`` on the way.
        """
        before, leg = self._path
        if not leg.escapes:
            raise ValueError("head must escape, got one that does not")
        anchor = leg.head
        farthest = 0.0
        while anchor.energy(leg.sign * farthest) < size**2:
            farthest += 1 / leg.rate
        if farthest == 0:
            raise ValueError(f"size must be above the head's |v| = {abs(anchor.v):.6g}, got {size!r}")
        place: Any = brentq(lambda x: float(anchor.energy(leg.sign * x)) - size**2, 0, farthest, xtol=1e-14 / leg.rate)
        return before + leg.time(place), anchor.at(leg.sign * place, leg.sign * size)

    def flow(self, time: float, *, rtol: float = 1e-10) -> "WaitingHead":
        """The head after a time below its escape time, by integrating its cubic flow (61), (69)."""
        R, D = self.k.shape
        squares, size = self.frequencies**2, self.size

        def field(_t: float, state: np.ndarray) -> np.ndarray:
            v, k, q = state[0], state[1 : 1 + R * D].reshape(R, D), state[1 + R * D :].reshape(R, D)
            return np.concatenate([[np.sum(squares * k * q)], (v * squares * q).ravel(), (v * squares * k).ravel()])

        start = np.concatenate([[self.v], self.k.ravel(), self.q.ravel()]) / size
        solution = solve_ivp(field, (0, time * size), start, method="DOP853", rtol=rtol, atol=rtol * 1e-3)
        if not solution.success:
            raise ArithmeticError(f"the flow of the waiting head failed at {solution.t[-1] / size:.6g} of {time:.6g}: {solution.message}")
        end = solution.y[:, -1] * size
        return replace(self, v=end[0], k=end[1 : 1 + R * D].reshape(R, D), q=end[1 + R * D :].reshape(R, D))


class _Leg:
    r"""The time along a path on which v does not change sign, from a head that may be at its turning point.

    In the variable :math:`\xi`, :math:`|s| = -\ln(1 - \xi^2)/\lambda^2` with lambda of the fastest growing mode, the integrand of
    :math:`\int ds/v` is bounded at both ends, where v vanishes as the root of s and where it grows as :math:`e^{\lambda^2 s}`.
    Gauss-Legendre panels are halved until two halves agree with the whole.
    """

    def __init__(self, head: WaitingHead, sign: float) -> None:
        self.head, self.sign = head, sign
        growing = head.amplitudes[0 if sign > 0 else 1] > 0
        rates = head.frequencies**2
        self.escapes = bool((growing & (rates > 0)).any())
        self.rate = float(rates[growing].max()) if self.escapes else float(rates.max()) or 1.0

    def _integrand(self, xi: np.ndarray) -> np.ndarray:
        y = (1 - xi) * (1 + xi)
        s = self._s(xi)
        return 2 * xi / (self.rate * y * np.sqrt(self.head.energy(self.sign * s)))

    def _s(self, xi: Any) -> Any:
        return -(np.log1p(-xi) + np.log1p(xi)) / self.rate

    def _across(self, left: Any, right: Any) -> Any:
        """The time from ``left`` to ``right`` in xi, by one Gauss-Legendre panel."""
        left, width = np.asarray(left)[..., None], np.asarray(right - left)[..., None]
        return np.sum(self._integrand(left + width * (NODES + 1) / 2) * WEIGHTS * width / 2, axis=-1)

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray]:
        """Panel edges in xi, and the time at each."""
        left, right = np.arange(8) / 8, np.arange(1, 9) / 8
        whole, done = self._across(left, right), np.empty((0, 2))  # left edge and time across, panel by panel
        while len(left):
            middle = (left + right) / 2
            ends = np.array([[left, middle], [middle, right]])
            halves = self._across(*ends)
            both = halves.sum(axis=0)
            good = (np.abs(whole - both) <= TOLERANCE * (done[:, 1].sum() + both.sum())) | (right - left < 1e-14)
            done = np.concatenate([done, np.stack([left[good], both[good]], axis=1)])
            left, right, whole = (part[:, ~good].ravel() for part in (*ends, halves))
        done = done[np.argsort(done[:, 0])]
        return np.append(done[:, 0], 1.0), np.concatenate([[0.0], np.cumsum(done[:, 1])])

    @property
    def total(self) -> float:
        return float(self._table[1][-1]) if self.escapes else np.inf

    def time(self, s: float) -> float:
        """The time from the start of the leg to the distance s."""
        edges, times = self._table
        xi = np.sqrt(-np.expm1(-self.rate * s))
        panel = min(int(np.searchsorted(edges, xi, side="right")) - 1, len(edges) - 2)
        return float(times[panel] + (self._across(edges[panel], xi) if xi > edges[panel] else 0.0))

    def place(self, time: float) -> float:
        """The distance s reached after a time."""
        edges, times = self._table
        panel = min(int(np.searchsorted(times, time, side="right")) - 1, len(edges) - 2)
        left, right = edges[panel], edges[panel + 1]
        rest = time - times[panel]
        if rest <= 0:
            return float(self._s(left))

        def excess(xi: float) -> float:
            return float(self._across(left, xi)) - rest if xi > left else -rest

        return float(self._s(brentq(excess, left, right, xtol=1e-16, rtol=1e-15)))  # type: ignore[arg-type]
