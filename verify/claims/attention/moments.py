"""Claims about the moments of the data: rational arithmetic at small sizes, Monte Carlo with its standard error.

The exact route is Isserlis' theorem entry by entry: a sum over pairings, in fractions, which shares nothing with
theory's integration by parts.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import product

import mpmath
import numpy as np

from ....numerics.tasks.regression import RegressionTask
from ...experiments import draws
from ...experiments.draws import remembered
from .. import formulas
from ..book import claim, wrong
from ..tolerances import HIGH_PRECISION

# A covariance without symmetry axes along the coordinates, and a context short enough for 1/N to matter.
TILTED = RegressionTask(covariance=[[0.9, 0.3, -0.1], [0.3, 0.6, 0.2], [-0.1, 0.2, 0.4]], context_length=5)

Matrix = tuple[tuple[Fraction, ...], ...]
SMALL: Matrix = ((Fraction(2), Fraction(1, 2)), (Fraction(1, 2), Fraction(3, 4)))
ASYMMETRIC: Matrix = ((Fraction(1), Fraction(-2)), (Fraction(3), Fraction(1, 5)))


@cache
def gaussian_moment(indices: tuple[int, ...]) -> Fraction:
    """``E(x_i x_j ...)`` for x ~ N(0, SMALL): the sum over all pairings of the indices."""
    if not indices:
        return Fraction(1)
    first, rest = indices[0], indices[1:]
    pairs = (SMALL[first][j] * gaussian_moment(rest[:n] + rest[n + 1 :]) for n, j in enumerate(rest))
    return sum(pairs, Fraction(0))


def moment_by_pairings(pairs: tuple[tuple[int, int], ...], N: int) -> Fraction:
    """``E(Lhat_ab Lhat_cd ...)`` over contexts of N tokens: factors of one token are paired among themselves."""
    total = Fraction(0)
    for tokens in product(range(N), repeat=len(pairs)):
        term = Fraction(1)
        for token in set(tokens):
            term *= gaussian_moment(tuple(i for t, pair in zip(tokens, pairs, strict=True) if t == token for i in pair))
        total += term
    return total / N ** len(pairs)


def _times(A: Matrix, B: Matrix) -> Matrix:
    return tuple(tuple(sum((A[i][j] * B[j][k] for j in range(2)), Fraction(0)) for k in range(2)) for i in range(2))


def _plus(*terms: tuple[Fraction, Matrix]) -> Matrix:
    return tuple(tuple(sum((c * A[i][k] for c, A in terms), Fraction(0)) for k in range(2)) for i in range(2))


def _trace(A: Matrix) -> Fraction:
    return A[0][0] + A[1][1]


def squared_formula(L: Matrix, N: Fraction) -> Matrix:
    return _plus((1 + 1 / N, _times(L, L)), (_trace(L) / N, L))


def sandwich_formula(L: Matrix, N: Fraction, A: Matrix) -> Matrix:
    transposed = tuple(zip(*A, strict=True))
    return _plus((Fraction(1), _times(_times(L, A), L)), (1 / N, _times(_times(L, transposed), L)), (_trace(_times(A, L)) / N, L))


def _cube(L: Matrix) -> Matrix:
    return _times(_times(L, L), L)


def cubed_formula(L: Matrix, N: Fraction) -> Matrix:
    L2 = _times(L, L)
    return _plus(
        (1 + 3 / N + 4 / N**2, _cube(L)), ((2 / N + 2 / N**2) * _trace(L), L2), ((1 / N + 1 / N**2) * _trace(L2) + _trace(L) ** 2 / N**2, L)
    )


def _largest_difference(exact: Callable[[int, int, int], Fraction], formula: Callable[[Fraction], Matrix]) -> Fraction:
    """The largest difference over N = 1, 2, 3 and all entries."""
    return max(abs(exact(N, a, d) - formula(Fraction(N))[a][d]) for N in (1, 2, 3) for a in range(2) for d in range(2))


@claim("31", method="rational", theory=squared_formula)
@wrong("N + 1 for N", lambda L, N: squared_formula(L, N + 1))
@wrong("trace term left out", lambda L, N: _plus((1 + 1 / N, _times(L, L))))
def squared_sample_covariance_rational(formula) -> float:
    """E(Lhat^2) entry by entry from Gaussian pairings, D = 2 and N = 1, 2, 3."""

    def exact(N: int, a: int, d: int) -> Fraction:
        return sum((moment_by_pairings(((a, b), (b, d)), N) for b in range(2)), Fraction(0))

    return float(_largest_difference(exact, lambda N: formula(SMALL, N)))


@claim("42", method="rational", theory=sandwich_formula)
@wrong("A for its transpose", lambda L, N, A: sandwich_formula(L, N, tuple(zip(*A, strict=True))))
def sandwich_rational(formula) -> float:
    """E(Lhat A Lhat) for an asymmetric A from Gaussian pairings, D = 2 and N = 1, 2, 3."""

    def exact(N: int, a: int, d: int) -> Fraction:
        inner = product(range(2), repeat=2)
        return sum((ASYMMETRIC[b][c] * moment_by_pairings(((a, b), (c, d)), N) for b, c in inner), Fraction(0))

    return float(_largest_difference(exact, lambda N: formula(SMALL, N, ASYMMETRIC)))


@claim("31", method="rational", theory=cubed_formula)
@wrong("3/N^2 for 4/N^2", lambda L, N: _plus((Fraction(1), cubed_formula(L, N)), (-1 / N**2, _cube(L))))
def cubed_sample_covariance_rational(formula) -> float:
    """E(Lhat^3) entry by entry from Gaussian pairings, D = 2 and N = 1, 2, 3."""

    def exact(N: int, a: int, d: int) -> Fraction:
        inner = product(range(2), repeat=2)
        return sum((moment_by_pairings(((a, b), (b, c), (c, d)), N) for b, c in inner), Fraction(0))

    return float(_largest_difference(exact, lambda N: formula(SMALL, N)))


def largest_score(samples: np.ndarray, mean: np.ndarray | float) -> float:
    """The largest deviation of the average over axis 0 from ``mean``, in standard errors of that average."""
    error = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    return float(np.max(np.abs(samples.mean(axis=0) - mean) / error))


@remembered
def _contexts(count: int = 200_000, seed: int = 31) -> np.ndarray:
    """Sample covariances of ``count`` contexts of the tilted task."""
    rng = draws.generator(seed)
    root = np.linalg.cholesky(TILTED.covariance)
    x = rng.standard_normal((count, TILTED.context_length, 3)) @ root.T
    return x.transpose(0, 2, 1) @ x / TILTED.context_length


@claim("31", method="Monte Carlo", theory=formulas.second_moment)
@wrong("N + 1 for N", formulas.longer_context)
@wrong("no 1/N", formulas.infinite_context)
def squared_sample_covariance_sampled(second_moment) -> float:
    """E(Lhat^2) over 200,000 contexts with tilted covariance, D = 3 and N = 5."""
    S = _contexts()
    return largest_score(S @ S, second_moment(TILTED))


@claim("31", method="Monte Carlo", theory=formulas.third_moment, wrong={"N + 1 for N": formulas.longer_context})
def cubed_sample_covariance_sampled(third_moment) -> float:
    """E(Lhat^3) over 200,000 contexts with tilted covariance, D = 3 and N = 5."""
    S = _contexts()
    return largest_score(S @ S @ S, third_moment(TILTED))


@claim("32", method="50 digits", tolerance=HIGH_PRECISION, theory=lambda lam, T, N: lam**2 * (1 + (1 + T / lam) / N))
@wrong("T for T/lambda", lambda lam, T, N: lam**2 * (1 + (1 + T) / N))
@wrong("N + 1 for N", lambda lam, T, N: lam**2 * (1 + (1 + T / lam) / (N + 1)))
def moment_eigenvalues_precise(a) -> float:
    """a_d against the eigenvalues of E(Lhat^2), D = 4."""
    with mpmath.workdps(50):
        lam, N = [mpmath.mpf(n) / 10 for n in (1, 2, 3, 4)], mpmath.mpf(31)
        T = mpmath.fsum(lam)
        # A basis other than the coordinate axes: a Householder reflection.
        u = mpmath.matrix([1, 2, -1, 3])
        E = mpmath.eye(4) - 2 * u * u.T / (u.T * u)[0]
        L = E * mpmath.diag(lam) * E.T
        values = mpmath.eigsy(L * L + (L * L + T * L) / N, eigvals_only=True)
        return float(max(abs(value - a(x, T, N)) for value, x in zip(sorted(values), lam, strict=True)))


@claim("33", method="linear algebra", theory=formulas.moment_eigenvalues, wrong={"N + 1 for N": formulas.longer_context})
def moment_spectrum(a) -> float:
    """E(Lhat^2) rebuilt from the eigenvectors of Lambda and a_d, tilted covariance."""
    E = TILTED.eigenvectors
    return float(np.abs(E * a(TILTED) @ E.T - formulas.second_moment(TILTED)).max())
