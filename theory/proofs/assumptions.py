r"""Inequalities between numbers as conditions, with random points that meet them.

>>> from random import Random
>>> from sympy import symbols
>>> p, q = symbols("p q", real=True)
>>> conditions = conditions_of([Bound(0, "<", p), Bound(p, "<", 1 / sympy.Integer(10)), Bound(q, ">", 100 * p)])
>>> point = Point({}, Random(0))
>>> for condition in conditions:
...     condition.meet(point)
>>> all(condition.holds(point) for condition in conditions)
True
"""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import ge, gt, le, lt, ne
from typing import Any

import mpmath
import sympy
from sympy import Symbol

from ..derivations import Condition, Point, value_at
from ..derivations.draws import definite
from ..notation import D, H, R
from .counterexamples import letters_of

HOLDS = {"<": lt, "<=": le, ">": gt, ">=": ge, "!=": ne, "=": lambda one, other: abs(one - other) <= abs(one) / mpmath.mpf(10) ** 25}


@dataclass(frozen=True)
class Bound:
    """An inequality between two numbers."""

    left: Any
    relation: str
    right: Any

    def holds(self, point: Point) -> bool:
        """Does it hold at a point?"""
        return bool(HOLDS[self.relation](value_at(self.left, point), value_at(self.right, point)))

    @property
    def letters(self) -> set:
        """The letters that it is about."""
        return letters_of(sympy.sympify(self.left)) | letters_of(sympy.sympify(self.right))

    def bounded(self) -> tuple[Symbol, Any, bool] | None:
        """The letter that stands alone on a side, its bound, and is that a lower one? Rather not a size of matrices."""
        lower = self.relation in (">", ">=")
        sides = [(self.left, self.right, lower), (self.right, self.left, not lower)]
        alone = [one for one in sides if isinstance(one[0], Symbol) and one[0] not in getattr(one[1], "free_symbols", ())]
        alone.sort(key=lambda one: one[0] in (D, H, R))
        return alone[0] if alone and self.relation != "!=" else None


def conditions_of(bounds: Iterable[Bound]) -> list[Condition]:
    """Each bound as a test, after one draw for each letter that stands alone on the side of some of them."""
    bounds = list(bounds)
    limits: dict[Symbol, list[tuple[Any, bool]]] = {}
    equal = [_equal(*found[:2]) for one in bounds if one.relation == "=" and (found := one.bounded())]
    for one in bounds:
        if one.relation != "=" and (found := one.bounded()):
            limits.setdefault(found[0], []).append(found[1:])
    draws, waiting = [], dict(limits)
    while waiting:  # a letter after those that its bounds hold
        free = [
            one for one, ends in waiting.items() if not any(letters_of(sympy.sympify(end)) & (waiting.keys() - {one}) for end, _ in ends)
        ]
        letter = next(iter(free or waiting))
        draws.append(_between(letter, waiting.pop(letter)))
    return [*draws, *equal, *(Condition(f"{one.left} {one.relation} {one.right}", one.holds) for one in bounds)]


def _between(letter: Symbol, ends: list[tuple[Any, bool]]) -> Condition:
    def values(point: Point) -> tuple[list, list]:
        found: tuple[list, list] = ([], [])
        for end, lower in ends:
            found[not lower].append(value_at(end, point))
        return found

    def draw(point: Point) -> None:
        lows, highs = values(point)
        low, high = max(lows, default=None), min(highs, default=None)
        inside = letter in point and (low is None or point[letter] > low) and (high is None or point[letter] < high)
        if not inside:
            point[letter] = _whole(point, low, high) if letter.is_integer else _real(point, low, high, bool(letter.is_nonnegative))

    return Condition(f"{letter} is inside its bounds", lambda point: True, draw)


def _equal(letter: Symbol, value: Any) -> Condition:
    def draw(point: Point) -> None:
        number = value_at(value, point)
        if letter.is_integer and number != int(number):
            raise ValueError(f"{letter} is no whole number at this point")
        point[letter] = int(number) if letter.is_integer else number

    return Condition(f"{letter} has its value", lambda point: True, draw)


def _whole(point: Point, low: Any, high: Any) -> int:
    if low is not None and high is not None:
        return point.rng.randint(int(mpmath.floor(low)) + 1, int(mpmath.ceil(high)) - 1)
    step = point.rng.choice([1, 2, 3, 5, 8])
    return int(mpmath.floor(low)) + step if low is not None else int(mpmath.ceil(high)) - step


def _real(point: Point, low: Any, high: Any, nonnegative: bool) -> Any:
    if low is None and nonnegative:
        low = mpmath.mpf(0)
    if low is not None and high is not None:
        return low + (high - low) * mpmath.mpf(point.rng.uniform(0.02, 0.98))
    step = mpmath.mpf(3) ** mpmath.mpf(point.rng.uniform(-1, 1))
    return low + step if low is not None else high - step


def positive_definite(letter: Any) -> Condition:
    """The letter's values are positive definite, and are drawn so."""

    def draw(point: Point) -> None:
        size = point.size(letter.shape[0])
        entries = mpmath.matrix([[mpmath.mpf(point.rng.gauss(0, 1)) for _ in range(size)] for _ in range(size)])
        point[letter] = entries * entries.T / size + mpmath.mpf("0.1") * mpmath.eye(size)

    return Condition(f"{letter} is positive definite", definite(letter), draw)


def size_of_matrices(letter: Symbol) -> Condition:
    """A size of matrices, small so that a counterexample can be read."""

    def draw(point: Point) -> None:
        point[letter] = point.rng.choice([1, 2, 3, 4])

    return Condition(f"{letter} is a size", lambda point: point[letter] > 0, draw)


def at_most_D(letter: Symbol) -> Condition:
    """The number of some of the eigenvalues of Lambda."""

    def draw(point: Point) -> None:
        point[letter] = point.rng.randint(1, point[D])

    return Condition(f"{letter} <= D", lambda point: 0 < point[letter] <= point[D], draw)
