r"""Moments of W = X X' for N standard Gaussian columns X = Lambda^(1/2) Z, by recursion on partitions; of W^-1 too.

With p_mu a product of traces tr W^(mu_i), R(k, mu) = E[W^k p_mu] is Lambda times

    (N + k - 1) R(k-1, mu) + sum_{0<j<k} R(k-1-j, mu and j) + 2 sum_{m in mu} m R(k-1+m, mu without m),   R(0, mu) = tr R(m, mu without m).

A value is one integer: digits for each partition nu and each power of N, the coefficients of Lambda^j tr Lambda^(nu_1) ... in it.

The moments of V = W^-1 invert those of W: with E p_mu(W) = sum_nu A_mu,nu(N) p_nu(Lambda), E p_mu(V) is given by the inverse of A at
-(N - D - 1), up to sign. All A commute; the eigenvalue of a partition is the product of N + 2 column - row over its boxes.
"""

from collections import Counter
from fractions import Fraction
from functools import cache, reduce
from itertools import accumulate, zip_longest
from math import prod
from operator import mul, or_

Partition = tuple[int, ...]


@cache
def partitions(n: int, largest: int | None = None) -> tuple[Partition, ...]:
    """The partitions of n, parts falling."""
    if n == 0:
        return ((),)
    return tuple((first, *rest) for first in range(min(n, largest or n), 0, -1) for rest in partitions(n - first, min(first, n - first)))


def _with(mu: Partition, part: int) -> Partition:
    return tuple(sorted((*mu, part), reverse=True))


def _without(mu: Partition, part: int) -> Partition:
    at = mu.index(part)
    return mu[:at] + mu[at + 1 :]


class _Packed:
    """The recursion for degrees up to ``top``, with two degrees in memory."""

    def __init__(self, top: int):
        self.top = top
        self.width = prod(range(1, 2 * top, 2)).bit_length() // 8 + 1  # bytes of a coefficient, all of which sum to (2 top - 1)!!
        self.chunk = self.width * (top + 1)  # of a partition
        self.order = [nu for n in range(top + 1) for nu in partitions(n)]
        self.place = {nu: i for i, nu in enumerate(self.order)}

    def values(self, wanted: set) -> dict:
        """{(k, mu): R(k, mu)} for states of degree ``top``."""
        levels = [self._closed(wanted)]
        for _ in range(self.top):
            levels.append(self._closed({state for above in levels[-1] if above[0] for _, _, state in self._below(*above)}))
        found: dict = {(0, ()): 1}
        for n, level in enumerate(reversed(levels)):
            if n:
                found = self._next(found, level, n)
        return found

    @staticmethod
    def _closed(states: set) -> set:
        """The states, and those that the ones with k = 0 are traces of."""
        return states | {(mu[0], mu[1:]) for k, mu in states if not k and mu}

    @staticmethod
    def _below(k: int, mu: Partition):
        """(coefficient of N, number, state) of the states of one degree less."""
        yield 1, k - 1, (k - 1, mu)  # this one first
        for j in range(1, k):
            yield 0, 1, (k - 1 - j, _with(mu, j))
        for m, times in Counter(mu).items():
            yield 0, 2 * m * times, (k - 1 + m, _without(mu, m))

    def _next(self, found: dict, level: set, n: int) -> dict:
        values, shift = {}, 8 * self.width
        for k, mu in level:
            if k:
                pieces = [(found[state], samples, number) for samples, number, state in self._below(k, mu)]
                plain = sum(one for one, _, number in pieces if number == 1)
                values[k, mu] = plain + sum(number * one for one, _, number in pieces if number > 1) + (pieces[0][0] << shift)
        return values | {(0, mu): self._traced(values[mu[0], mu[1:]], n) for k, mu in level if not k}

    def chunks(self, value: int):
        """(nu, digits) of a value."""
        digits, zero = value.to_bytes(self.chunk * len(self.order), "little"), bytes(self.chunk)
        for i in range(-(-value.bit_length() // (8 * self.chunk))):
            piece = digits[i * self.chunk : (i + 1) * self.chunk]
            if piece != zero:
                yield self.order[i], piece

    def _traced(self, value: int, n: int) -> int:
        sums: Counter = Counter()
        for nu, piece in self.chunks(value):
            sums[_with(nu, n - sum(nu))] += int.from_bytes(piece, "little")
        first = self.place[partitions(n)[0]]
        digits = b"".join(sums[nu].to_bytes(self.chunk, "little") for nu in partitions(n))
        return int.from_bytes(digits, "little") << 8 * self.chunk * first

    def coefficients(self, value: int):
        """(nu, {power of N: coefficient}) of a value."""
        for nu, piece in self.chunks(value):
            numbers = (int.from_bytes(piece[i : i + self.width], "little") for i in range(0, self.chunk, self.width))
            yield nu, {power: number for power, number in enumerate(numbers) if number}


def wishart_power(k: int, mu: Partition) -> list[tuple[int, Partition, dict[int, int]]]:
    """E[W^k p_mu] as pieces (j, nu, {power of N: coefficient}), of Lambda^j p_nu(Lambda)."""
    degree = k + sum(mu)
    packed = _Packed(degree)
    value = packed.values({(k, mu)})[k, mu]
    return [(degree - sum(nu), nu, numbers) for nu, numbers in packed.coefficients(value)]


def boxes(shape: Partition) -> list[int]:
    """2 column - row of each box, rows and columns from 0."""
    return [2 * column - row for row, length in enumerate(shape) for column in range(length)]


@cache
def _transition(k: int) -> tuple[int, list[list[int]], list[int]]:
    """A(z) for the partitions of k at a z at which the eigenvalues differ, and these."""
    z = 4 * k**2
    shapes = partitions(k)
    values = _Packed(k).values({(0, mu) for mu in shapes})
    rows = []
    for mu in shapes:
        entries = {nu: sum(number * z**power for power, number in one.items()) for nu, one in _Packed(k).coefficients(values[0, mu])}
        rows.append([entries.get(nu, 0) for nu in shapes])
    return z, rows, [prod(z + box for box in boxes(shape)) for shape in shapes]


@cache
def inverse_row(k: int) -> list[list[Fraction]]:
    """For each shape, the numbers v_nu with E tr V^k = sum over shapes of v_nu p_nu(Lambda^-1) / prod(N - D - 1 - box)."""
    _, rows, eigenvalues = _transition(k)
    return _projections([int(shape == (k,)) for shape in partitions(k)], list(zip(*rows, strict=True)), eigenvalues)


@cache
def weingarten(k: int) -> list[list[Fraction]]:
    """For each shape, the weight of a pairing by its cycle type: its sum over shapes, each over prod(N - D - 1 - box)."""
    _, rows, eigenvalues = _transition(k)
    return _projections([int(shape == (1,) * k) for shape in partitions(k)], rows, eigenvalues)


def _projections(vector: list[int], rows: list, eigenvalues: list[int]) -> list[list[Fraction]]:
    """The projections of a vector onto the eigenspaces of a matrix."""
    found = []
    for i, own in enumerate(eigenvalues):
        one, others = vector, eigenvalues[:i] + eigenvalues[i + 1 :]
        for other in others:
            one = [sum(map(mul, row, one)) - other * x for row, x in zip(rows, one, strict=True)]
        found.append([Fraction(x, prod(own - other for other in others)) for x in one])
    return found


def over_common_poles(k: int, numbers) -> tuple[list, dict[int, int]]:
    """The sum over shapes of number / prod(m - box), in lowest terms: coefficients of the numerator, from m^0 on, and {pole: order}."""
    used = [(number, Counter(boxes(shape))) for shape, number in zip(partitions(k), numbers, strict=True) if number]
    poles: Counter = reduce(or_, (own for _, own in used), Counter())
    numerator: list = []
    for number, own in used:
        one = [number]
        for pole in (poles - own).elements():
            one = [below - pole * here for below, here in zip([0, *one], [*one, 0], strict=True)]
        numerator = [a + b for a, b in zip_longest(numerator, one, fillvalue=0)]
    for pole in poles:
        while poles[pole] and sum(number * pole**i for i, number in enumerate(numerator)) == 0:
            quotient = list(accumulate(reversed(numerator), lambda above, here, pole=pole: above * pole + here))[:-1]
            numerator, poles[pole] = quotient[::-1], poles[pole] - 1
    return numerator, {pole: order for pole, order in poles.items() if order}
