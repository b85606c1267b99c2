"""Claims about the moments of the data: rational arithmetic at small sizes, Monte Carlo with its standard error.

The exact route is Isserlis' theorem entry by entry: a sum over pairings, in fractions, which shares nothing with
theory's integration by parts.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from itertools import product
from math import prod

import mpmath
import numpy as np

from ....numerics.tasks.regression import RegressionTask
from ...experiments import draws
from .. import formulas
from ..book import claim, wrong
from ..tolerances import HIGH_PRECISION

# A covariance without symmetry axes along the coordinates, and a context short enough for 1/N to matter.
TILTED = RegressionTask(covariance=[[0.9, 0.3, -0.1], [0.3, 0.6, 0.2], [-0.1, 0.2, 0.4]], context_length=5)

# Matrices of fractions
SMALL = np.array([[Fraction(2), Fraction(1, 2)], [Fraction(1, 2), Fraction(3, 4)]])
ASYMMETRIC = np.array([[Fraction(1), Fraction(-2)], [Fraction(3), Fraction(1, 5)]])
UNIT = np.array([[Fraction(1), Fraction(0)], [Fraction(0), Fraction(1)]])


@cache
def gaussian_moment(indices: tuple[int, ...]) -> Fraction:
    """``E(x_i x_j ...)`` for x ~ N(0, SMALL): the sum over all pairings of the indices."""
    if not indices:
        return Fraction(1)
    first, rest = indices[0], indices[1:]
    pairs = (SMALL[first, j] * gaussian_moment(rest[:n] + rest[n + 1 :]) for n, j in enumerate(rest))
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


def chain_by_pairings(N: int, *between: np.ndarray) -> np.ndarray:
    """``E(Lhat C_1 Lhat C_2 ... Lhat)`` over contexts of N tokens, for the matrices C ``between``."""
    found = np.full((2, 2), Fraction(0))
    for indices in product(range(2), repeat=2 * len(between) + 2):
        pairs = tuple(zip(indices[::2], indices[1::2], strict=True))
        weight = prod(C[left, right] for C, (_, left), (right, _) in zip(between, pairs[:-1], pairs[1:], strict=True))
        if weight:
            found[indices[0], indices[-1]] += weight * moment_by_pairings(pairs, N)
    return found


def squared_formula(L: np.ndarray, N: Fraction) -> np.ndarray:
    return (1 + 1 / N) * L @ L + L.trace() / N * L


def sandwich_formula(L: np.ndarray, N: Fraction, A: np.ndarray) -> np.ndarray:
    return L @ A @ L + L @ A.T @ L / N + (A @ L).trace() / N * L


def cubed_formula(L: np.ndarray, N: Fraction) -> np.ndarray:
    T, square = L.trace(), (L @ L).trace()
    return (1 + 3 / N + 4 / N**2) * L @ L @ L + (2 / N + 2 / N**2) * T * L @ L + ((1 / N + 1 / N**2) * square + T**2 / N**2) * L


def _difference(formula: Callable[[np.ndarray, Fraction], np.ndarray], *between: np.ndarray) -> float:
    """The largest difference from :func:`chain_by_pairings` over N = 1, 2, 3 and all entries."""
    return float(max(np.abs(chain_by_pairings(N, *between) - formula(SMALL, Fraction(N))).max() for N in (1, 2, 3)))


@claim("31", method="rational", theory=squared_formula)
@wrong("N + 1 for N", lambda L, N: squared_formula(L, N + 1))
@wrong("trace term left out", lambda L, N: (1 + 1 / N) * L @ L)
def squared_sample_covariance_rational(formula) -> float:
    """E(Lhat^2) entry by entry from Gaussian pairings, D = 2 and N = 1, 2, 3."""
    return _difference(formula, UNIT)


@claim("42", method="rational", theory=sandwich_formula)
@wrong("A for its transpose", lambda L, N, A: sandwich_formula(L, N, A.T))
def sandwich_rational(formula) -> float:
    """E(Lhat A Lhat) for an asymmetric A from Gaussian pairings, D = 2 and N = 1, 2, 3."""
    return _difference(lambda L, N: formula(L, N, ASYMMETRIC), ASYMMETRIC)


@claim("31", method="rational", theory=cubed_formula)
@wrong("3/N^2 for 4/N^2", lambda L, N: cubed_formula(L, N) - L @ L @ L / N**2)
def cubed_sample_covariance_rational(formula) -> float:
    """E(Lhat^3) entry by entry from Gaussian pairings, D = 2 and N = 1, 2, 3."""
    return _difference(formula, UNIT, UNIT)


def largest_score(samples: np.ndarray, mean: np.ndarray | float) -> float:
    """The largest deviation of the average over axis 0 from ``mean``, in standard errors of that average."""
    average = samples.mean(axis=0, keepdims=True)
    error = samples.std(axis=0, ddof=1, mean=average) / np.sqrt(len(samples))
    return float(np.max(np.abs(average[0] - mean) / error))


def largest_product_score(left: np.ndarray, right: np.ndarray, mean: np.ndarray | float) -> float:
    """:func:`largest_score` of the products of every column of ``left`` with each of ``right``, without an array of them all."""
    count = len(left)
    average, square = left.T @ right / count, (left**2).T @ right**2 / count
    return float(np.max(np.abs(average - mean) / np.sqrt((square - average**2) / (count - 1))))


@draws.remembered
def _contexts(count: int = 100_000, seed: int = 31) -> np.ndarray:
    """Sample covariances of ``count`` contexts of the tilted task."""
    rng = draws.generator(seed)
    root = np.linalg.cholesky(TILTED.covariance)
    x = (rng.standard_normal((count * TILTED.context_length, 3)) @ root.T).reshape(count, -1, 3)
    return x.transpose(0, 2, 1) @ x / TILTED.context_length


@claim("31", method="Monte Carlo", theory=formulas.second_moment)
@wrong("N + 1 for N", formulas.longer_context)
@wrong("no 1/N", formulas.infinite_context)
def squared_sample_covariance_sampled(second_moment) -> float:
    """E(Lhat^2) over 100,000 contexts with tilted covariance, D = 3 and N = 5."""
    S = _contexts()
    return largest_score(S @ S, second_moment(TILTED))


@claim("31", method="Monte Carlo", theory=formulas.third_moment)
@wrong("N + 1 for N", formulas.longer_context)
def cubed_sample_covariance_sampled(third_moment) -> float:
    """E(Lhat^3) over 100,000 contexts with tilted covariance, D = 3 and N = 5."""
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


@claim("33", method="linear algebra", theory=formulas.moment_eigenvalues)
@wrong("N + 1 for N", formulas.longer_context)
def moment_spectrum(a) -> float:
    """E(Lhat^2) rebuilt from the eigenvectors of Lambda and a_d, tilted covariance."""
    E = TILTED.eigenvectors
    return float(np.abs(E * a(TILTED) @ E.T - formulas.second_moment(TILTED)).max())
