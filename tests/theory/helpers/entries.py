"""An oracle for expectations that knows nothing of the engine: matrices written out entry by entry, over exact rationals.

An entry is a polynomial in scalar random variables, {monomial: number}, a monomial being a sorted tuple of (variable, exponent).
Two ways of integrating monomials are given: Isserlis' theorem for jointly Gaussian variables, and, where a sample covariance is inverted,
Bartlett's decomposition, in which S and S^-1 are both Laurent polynomials in independent normal and chi variables.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import cache

CONSTANT = ()  # the monomial 1


class Entries:
    """A matrix of polynomials, with ``+``, ``*`` (a 1 x 1 matrix is a scalar), ``.T`` and ``trace()``."""

    def __init__(self, rows: list[list[dict]]):
        self.rows = rows

    @classmethod
    def constant(cls, numbers) -> "Entries":
        return cls([[{CONSTANT: number} if number else {} for number in row] for row in numbers])

    @classmethod
    def variables(cls, names) -> "Entries":
        return cls([[{((name, 1),): 1} for name in row] for row in names])

    @property
    def shape(self):
        return len(self.rows), len(self.rows[0])

    @property
    def T(self):
        return Entries([list(column) for column in zip(*self.rows, strict=True)])

    def __add__(self, other):
        assert self.shape == other.shape
        return Entries([[_add(a, b) for a, b in zip(*rows, strict=True)] for rows in zip(self.rows, other.rows, strict=True)])

    def __mul__(self, other):
        if not isinstance(other, Entries):
            return Entries([[{m: other * n for m, n in entry.items() if other} for entry in row] for row in self.rows])
        for scalar, matrix in ((self, other), (other, self)):
            if scalar.shape == (1, 1):
                return Entries([[_multiply(scalar.rows[0][0], entry) for entry in row] for row in matrix.rows])
        columns = other.T.rows
        assert self.shape[1] == other.shape[0]
        return Entries([[_dot(row, column) for column in columns] for row in self.rows])

    __rmul__ = __mul__

    def trace(self):
        assert self.shape[0] == self.shape[1]
        total: dict = {}
        for i, row in enumerate(self.rows):
            total = _add(total, row[i])
        return Entries([[total]])

    def expectation(self, moment: Callable) -> list[list[Fraction]]:
        return [[sum((n * moment(m) for m, n in entry.items()), start=Fraction(0)) for entry in row] for row in self.rows]


def _add(a: dict, b: dict) -> dict:
    total = dict(a)
    for monomial, number in b.items():
        total[monomial] = total.get(monomial, 0) + number
    return {monomial: number for monomial, number in total.items() if number}


def _multiply(a: dict, b: dict) -> dict:
    total: dict = {}
    for m1, n1 in a.items():
        for m2, n2 in b.items():
            exponents = dict(m1)
            for variable, exponent in m2:
                exponents[variable] = exponents.get(variable, 0) + exponent
            monomial = tuple(sorted((v, e) for v, e in exponents.items() if e))
            total[monomial] = total.get(monomial, 0) + n1 * n2
    return total


def _dot(row, column) -> dict:
    total: dict = {}
    for a, b in zip(row, column, strict=True):
        total = _add(total, _multiply(a, b))
    return total


def isserlis(covariance: Callable, mean: Callable = lambda variable: 0) -> Callable:
    """The moments of jointly Gaussian variables: pair the first variable with its mean and with every other one."""

    @cache
    def pairings(variables: tuple) -> Fraction:
        if not variables:
            return Fraction(1)
        first, rest = variables[0], variables[1:]
        total = mean(first) * pairings(rest) if mean(first) else Fraction(0)
        for i, other in enumerate(rest):
            weight = covariance(first, other)
            if weight:
                total += weight * pairings(rest[:i] + rest[i + 1 :])
        return total

    return lambda monomial: pairings(tuple(v for v, exponent in monomial for _ in range(exponent)))


def bartlett(factor, samples: int) -> tuple[Entries, Entries, Callable]:
    """S, S^-1 and the moments, for N S = L T T' L': T is lower triangular, T_ii^2 ~ chi^2(N - i), T_ij ~ N(0, 1), L = ``factor``."""
    size = len(factor)
    one = [[Fraction(int(i == j)) for j in range(size)] for i in range(size)]
    triangle = [[{((("T", i, j), 1),): 1} if j <= i else {} for j in range(size)] for i in range(size)]
    inverse: list = [[{} for _ in range(size)] for _ in range(size)]  # forward substitution, column by column
    for j in range(size):
        for i in range(j, size):
            known: dict = {CONSTANT: one[i][j]} if i == j else {}
            for k in range(j, i):
                known = _add(known, {m: -n for m, n in _multiply(triangle[i][k], inverse[k][j]).items()})
            inverse[i][j] = _multiply(known, {((("T", i, i), -1),): 1})
    left = Entries.constant(factor) * Entries(triangle)
    right = Entries(inverse) * Entries.constant(_lower_inverse(factor))

    @cache
    def power(variable, exponent: int) -> Fraction:
        _, i, j = variable
        if exponent % 2:
            assert i != j, "an odd power of a chi variable comes with an odd power of a normal one"
            return Fraction(0)
        result, half = Fraction(1), exponent // 2
        if i != j:  # (2h - 1)!!
            for k in range(half):
                result *= 2 * k + 1
            return result
        degrees = samples - i  # E[chi^2^h] = n (n + 2) ... upwards, 1 / ((n - 2) (n - 4) ...) downwards
        assert degrees + exponent > 0, "the moment does not exist"
        for k in range(half):
            result *= degrees + 2 * k
        for k in range(1, -half + 1):
            result /= degrees - 2 * k
        return result

    def moment(monomial) -> Fraction:
        result = Fraction(1)
        for variable, exponent in sorted(monomial, key=lambda pair: pair[0][1] == pair[0][2]):  # normal ones first
            result *= power(variable, exponent)
            if not result:
                return result
        return result

    return left * left.T * Fraction(1, samples), right.T * right * samples, moment


def _lower_inverse(factor):
    size = len(factor)
    inverse = [[Fraction(0)] * size for _ in range(size)]
    for j in range(size):
        for i in range(j, size):
            known = Fraction(int(i == j)) - sum(factor[i][k] * inverse[k][j] for k in range(j, i))
            inverse[i][j] = known / factor[i][i]
    return inverse
