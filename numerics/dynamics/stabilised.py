r"""Explicit methods of order four with long stability intervals, after ROCK4 (Abdulle, SIAM J. Sci. Comput. 23, 2041, 2002).

A step takes s stages: s - 4 of a three-term recurrence, whose stability polynomial is P, and four that complete P to order four with
the quartic w. P is orthogonal to lower degrees under the weight :math:`w(x)^2/\sqrt{1-x^2}`, which makes :math:`|wP|` nearly constant
between its zeros, and the zeros of w are those for which :math:`wP` agrees with the exponential function to order four. The interval of
stability is then about :math:`0.34\,s^2` long. All coefficients are computed here, on first use: the conditions of order four are those
of the Butcher group, for P followed by the four stages.
"""

from dataclasses import dataclass
from functools import cache
from math import factorial

import numpy as np
from jaxtyping import Float
from scipy.optimize import root

SHIFT = 1.0  # of the point z = 0 beyond x = 1, times s^2: it damps P
SPAN, LOST = 0.17, 8.0  # z = SPAN (s^2 - LOST) (x - 1 - SHIFT/s^2): |w P| stays below 0.84
# Real and squared imaginary parts of the zeros of w, as (1 - x) s^2 and y^2 s^4: where the search starts, close to their limit in s
ZEROS = (0.7, 435.0, 13.6, 59.5)
NODES = (1 / 3, 2 / 3)  # of the second and third of the last four stages, over their total


@dataclass(frozen=True, eq=False)
class Stabilised:
    r"""Coefficients of a step of s stages, stable for h times the spectral radius up to ``length``.

    :math:`g_j = \mu_j h f(g_{j-1}) + \nu_j g_{j-1} - \kappa_j g_{j-2}` from :math:`g_0 = y, g_{-1} = 0`, for the columns of
    ``recurrence``; then stages with the strictly lower rows of ``last`` from the end of the recurrence, whose last row gives the
    result, and ``error`` (over their velocities and that of the result) its estimated error.
    """

    recurrence: Float[np.ndarray, "3 m"]
    last: Float[np.ndarray, "4 4"]
    error: Float[np.ndarray, " 5"]
    length: float


@cache
def stabilised(s: int) -> Stabilised:
    """The method of ``s`` stages, at least 7."""
    if s < 7:
        raise ValueError(f"s must be an integer of at least 7, got {s!r}")
    a, c = 1 + SHIFT / s**2, SPAN * (s**2 - LOST)
    scale = np.array([s**2, s**4, s**2, s**4], dtype=float)
    exponential = np.array([1 / factorial(k) for k in range(1, 5)])

    def excess(zeros: np.ndarray) -> np.ndarray:
        mu, nu, kappa = _recurrence(s, zeros / scale, a, c)
        series, before = np.eye(5)[0], np.zeros(5)
        for j in range(s - 4):
            series, before = mu[j] * np.append(0.0, series[:-1]) + nu[j] * series - kappa[j] * before, series
        for x, y in (zeros / scale).reshape(2, 2):
            distance = a - 1 + x
            series = np.convolve(series, np.array([distance**2 + y, 2 * distance / c, 1 / c**2]) / (distance**2 + y))[:5]
        return series[1:] / exponential - 1

    found = root(excess, ZEROS, tol=1e-13)
    if np.abs(excess(found.x)).max() > 1e-10:
        raise ArithmeticError(f"there is no stabilised method of {s} stages: {found.message}")
    recurrence = _recurrence(s, found.x / scale, a, c)
    return Stabilised(recurrence, *_last_stages(recurrence), length=c * (1 + a))


def _recurrence(s: int, zeros: np.ndarray, a: float, c: float) -> Float[np.ndarray, "3 m"]:
    """mu, nu, kappa of P, with P(0) = 1, by Stieltjes' procedure on the nodes of Gauss and Chebyshev, which is exact here."""
    x = np.cos((np.arange(s + 4) + 0.5) * np.pi / (s + 4))
    weight = np.prod([(x - 1 + at) ** 2 + y for at, y in zeros.reshape(2, 2)], axis=0) ** 2
    p, before, norm, at, at_before, rows = np.ones_like(x), np.zeros_like(x), 0.0, 1.0, 0.0, []
    for _ in range(s - 4):
        square = weight * p * p
        total = square.sum()
        centre, fall = (x * square).sum() / total, total / norm if norm else 0.0
        p, before, norm = (x - centre) * p - fall * before, p, total
        at_next = (a - centre) * at - fall * at_before
        rows.append((at / (c * at_next), (a - centre) * at / at_next, fall * at_before / at_next))
        p, before, norm, at, at_before = p / at_next, before / at_next, norm / at_next**2, 1.0, at / at_next
    return np.array(rows).T


def _last_stages(recurrence: Float[np.ndarray, "3 m"]) -> tuple[Float[np.ndarray, "4 4"], Float[np.ndarray, " 5"]]:
    """The last four stages and the weights of the error, from the eight conditions of order four.

    Weights belong to the trees 1, 2 = [1], [1, 1], [2], [1, 1, 1], [1, 2], [[1, 1]], [[2]].
    """
    g, before = np.zeros(8), np.zeros(8)
    for mu, nu, kappa in recurrence.T:
        velocity = np.array([1, g[0], g[0] ** 2, g[1], g[0] ** 3, g[0] * g[1], g[2], g[3]])
        g, before = mu * velocity + nu * g - kappa * before, g
    p1, p2, p3, p21, p4, p5, p6, p7 = g
    t1 = 1 - p1  # what is left for the last stages, tree by tree: sum of b, b c, b c^2, b A c, b c^3, b c A c, b A c^2, b A A c
    t2 = 1 / 2 - p2 - t1 * p1
    t3 = 1 / 3 - p3 - t1 * p1**2 - 2 * t2 * p1
    t21 = 1 / 6 - p21 - t1 * p2 - t2 * p1
    t4 = 1 / 4 - p4 - t1 * p1**3 - 3 * t2 * p1**2 - 3 * t3 * p1
    t5 = 1 / 8 - p5 - t1 * p1 * p2 - t2 * (p2 + p1**2) - (t3 + t21) * p1
    t6 = 1 / 12 - p6 - t1 * p3 - t2 * p1**2 - 2 * t21 * p1
    t7 = 1 / 24 - p7 - t1 * p21 - t2 * p2 - t21 * p1
    c2, c3 = np.array(NODES) * t1

    rest = t6 - c2 * t21  # b4 a43 c3 (c3 - c2)
    c4 = (rest * t5 - t7 * (t4 - c2 * t3)) / (rest * t21 + t7 * (c2 * t2 - t3))  # so that b4 a43 a32 c2 = t7
    third = (c4 * t21 - t5) / (c4 - c3)  # b3 a32 c2
    c = np.array([c2, c3, c4])
    b2, b3, b4 = np.linalg.solve(np.stack([c, c**2, c**3]), [t2, t3, t4])
    a32, a43 = third / (b3 * c2), rest / (c3 * (c3 - c2) * b4)
    a42 = ((t21 - third) / b4 - a43 * c3) / c2
    b = np.array([t1 - b2 - b3 - b4, b2, b3, b4])
    last = np.array([[c2, 0, 0, 0], [c3 - a32, a32, 0, 0], [c4 - a42 - a43, a42, a43, 0], b])
    c = np.array([0.0, c2, c3, c4, t1])
    # A solution of order three differs by a multiple of the one vector that these four conditions leave
    conditions = np.stack([np.ones(5), c, c**2, np.append(0.0, last @ c[:4])])
    error = np.linalg.svd(conditions)[2][-1]
    return last, error * (t1 / 10 / error[-1])
