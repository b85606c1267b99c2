r"""Explicit methods of order four with long stability intervals, after ROCK4 (Abdulle, SIAM J. Sci. Comput. 23, 2041, 2002).

A step takes s stages: four, whose stability polynomial is the quartic w, and a recurrence of s - 4 velocities, whose polynomial P completes
w. P is orthogonal to lower degrees under the weight :math:`w(x)^2/\sqrt{1-x^2}`, which makes :math:`|wP|` nearly constant between its
zeros, and the zeros of w are those for which :math:`wP` agrees with the exponential function to order four. The interval of stability is
then about :math:`0.34\,s^2` long. At its end w is of order :math:`10^{-4} s^8`. ROCK4 takes the four stages last, where they multiply all
that the recurrence rounds or errs in stiff modes; here they come first, where modes are quiet, and the recurrence damps what they raise.
All coefficients are computed here, on first use: the conditions of order four are those of the Butcher group, for both parts together.
"""

from functools import cache
from math import factorial

import numpy as np
from jaxtyping import Float
from scipy.optimize import root

SHIFT = 1.0  # of the point z = 0 beyond x = 1, times s^2: it damps P
SPAN, LOST = 0.17, 8.0  # z = SPAN (s^2 - LOST) (x - 1 - SHIFT/s^2): |w P| stays below 0.84
# Real and squared imaginary parts of the zeros of w, as (1 - x) s^2 and y^2 s^4: where the search starts, close to their limit in s
ZEROS = (0.7, 435.0, 13.6, 59.5)
NODES = (1 / 3, 2 / 3)  # of the second and third of the four stages, over their total


def length(s: int) -> float:
    """The methods are stable for h times the spectral radius up to this."""
    return SPAN * (s**2 - LOST) * (2 + SHIFT / s**2)


@cache
def stabilised(s: int) -> tuple[Float[np.ndarray, "4 4"], Float[np.ndarray, "2 m"]]:
    r"""The coefficients of a step of ``s`` stages, at least 5.

    Four stages with the lower rows of the first array, whose last row gives g, then for the columns of the second one the recurrence
    :math:`d \leftarrow \kappa d + \mu h f(g), g \leftarrow g + d` from :math:`d = 0`, gradient descent with momentum.
    """
    if s < 5:
        raise ValueError(f"s must be an integer of at least 5, got {s!r}")
    a, c = 1 + SHIFT / s**2, SPAN * (s**2 - LOST)
    scale = np.array([s**2, s**4, s**2, s**4], dtype=float)
    exponential = np.array([1 / factorial(k) for k in range(1, 5)])

    def excess(zeros: np.ndarray) -> np.ndarray:
        series, change = np.eye(5)[0], np.zeros(5)
        for mu, kappa in _recurrence(s, zeros / scale, a, c).T:
            change = kappa * change + mu * np.append(0.0, series[:-1])
            series = series + change
        for x, y in (zeros / scale).reshape(2, 2):
            distance = a - 1 + x
            series = np.convolve(series, np.array([distance**2 + y, 2 * distance / c, 1 / c**2]) / (distance**2 + y))[:5]
        return series[1:] / exponential - 1

    found = root(excess, ZEROS, tol=1e-13)
    if np.abs(excess(found.x)).max() > 1e-10:
        raise ArithmeticError(f"there is no stabilised method of {s} stages: {found.message}")
    recurrence = _recurrence(s, found.x / scale, a, c)
    return _first_stages(recurrence), recurrence


@cache
def tables(stages: tuple[int, ...]) -> tuple[Float[np.ndarray, "4 4 K"], Float[np.ndarray, "2 m K"]]:
    """The coefficients of the methods of these numbers of stages, in increasing order."""
    first, recurrences = zip(*map(stabilised, stages), strict=True)
    longest = stages[-1] - 4
    return np.stack(first, -1), np.stack([np.pad(part, ((0, 0), (0, longest - part.shape[1]))) for part in recurrences], -1)


def _recurrence(s: int, zeros: np.ndarray, a: float, c: float) -> Float[np.ndarray, "2 m"]:
    """mu and kappa of P, with P(0) = 1, by Stieltjes' procedure on the nodes of Gauss and Chebyshev, which is exact here."""
    x = np.cos((np.arange(s + 4) + 0.5) * np.pi / (s + 4))
    weight = np.prod([(x - 1 + at) ** 2 + y for at, y in zeros.reshape(2, 2)], axis=0) ** 2
    p, before, norm, at, at_before, rows = np.ones_like(x), np.zeros_like(x), 0.0, 1.0, 0.0, []
    for _ in range(s - 4):
        square = weight * p * p
        total = square.sum()
        centre, fall = (x * square).sum() / total, total / norm if norm else 0.0
        p, before, norm = (x - centre) * p - fall * before, p, total
        at_next = (a - centre) * at - fall * at_before
        rows.append((at / (c * at_next), fall * at_before / at_next))
        p, before, norm, at, at_before = p / at_next, before / at_next, norm / at_next**2, 1.0, at / at_next
    return np.array(rows).T


def _first_stages(recurrence: Float[np.ndarray, "2 m"]) -> Float[np.ndarray, "4 4"]:
    """The four stages before the recurrence, from the eight conditions of order four.

    Weights belong to the trees 1, 2 = [1], [1, 1], [2], [1, 1, 1], [1, 2], [[1, 1]], [[2]].
    """
    g, change = np.zeros(8), np.zeros(8)
    for mu, kappa in recurrence.T:
        change = kappa * change + mu * np.array([1, g[0], g[0] ** 2, g[1], g[0] ** 3, g[0] * g[1], g[2], g[3]])
        g = g + change
    p1, p2, p3, p21, p4, p5, p6, p7 = g
    t1 = 1 - p1  # what is left for the first stages, tree by tree: sum of b, b c, b c^2, b A c, b c^3, b c A c, b A c^2, b A A c
    t2 = 1 / 2 - p2 - t1 * p1
    t3 = 1 / 3 - p3 - 2 * t1 * p2 - t1**2 * p1
    t21 = 1 / 6 - p21 - t1 * p2 - t2 * p1
    t4 = 1 / 4 - p4 - 3 * t1 * p3 - 3 * t1**2 * p2 - t1**3 * p1
    t5 = 1 / 8 - p5 - t1 * (p3 + p21) - (t1**2 + t2) * p2 - t1 * t2 * p1
    t6 = 1 / 12 - p6 - 2 * t1 * p21 - t1**2 * p2 - t3 * p1
    t7 = 1 / 24 - p7 - t1 * p21 - t2 * p2 - t21 * p1
    c2, c3 = np.array(NODES) * t1

    rest = t6 - c2 * t21  # b4 a43 c3 (c3 - c2)
    c4 = (rest * t5 - t7 * (t4 - c2 * t3)) / (rest * t21 + t7 * (c2 * t2 - t3))  # so that b4 a43 a32 c2 = t7
    third = (c4 * t21 - t5) / (c4 - c3)  # b3 a32 c2
    c = np.array([c2, c3, c4])
    b2, b3, b4 = np.linalg.solve(np.stack([c, c**2, c**3]), [t2, t3, t4])
    a32, a43 = third / (b3 * c2), rest / (c3 * (c3 - c2) * b4)
    a42 = ((t21 - third) / b4 - a43 * c3) / c2
    return np.array([[c2, 0, 0, 0], [c3 - a32, a32, 0, 0], [c4 - a42 - a43, a42, a43, 0], [t1 - b2 - b3 - b4, b2, b3, b4]])
