"""Lines at points: random points inside the conditions, the distance of two sides there, the slack of an inequality."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from random import Random
from typing import Any, Literal

import mpmath
from flint import arb_mat
from sympy import Symbol
from sympy.matrices.expressions import MatrixSymbol

from ...notation import D, H, N, R
from ..conditions import Condition
from ..heads import Head
from ..points import Point, as_mpmath, ball_at
from .exact import Case

Status = Literal["exact", "numeric", "sampled", "assumed", "fails"]

POINTS = 20
TRIES = 40  # for each of them
TOLERANCE = 1e-15  # of numbers of 30 digits: what is left is rounding times a condition number far below 1e15
# D = 1, N = 1, D > N and R H < D are among them.
SIZES = ({D: 2, N: 5, H: 2, R: 1}, {D: 3, N: 2, H: 3, R: 2}, {D: 1, N: 1, H: 1, R: 1}, {D: 3, N: 8, H: 2, R: 1}, {D: 2, N: 1, H: 3, R: 2})
NO_VALUE = (ValueError, ZeroDivisionError, OverflowError, IndexError)  # what a formula without a value at a point raises


@dataclass(frozen=True)
class Verdict:
    """How a line was judged.

    ``status``: exact (the algebra decides), numeric (at random points inside the conditions), sampled (an expectation by sampling), assumed
    (a definition, a hypothesis, or what no judge can decide), or fails. ``residual``: the largest relative difference, the smallest slack
    of an inequality, the deviation of a fitted order, or the number of standard errors; None where there is none. ``method``: in words.
    ``point``: where a line fails, or is worst.
    """

    status: Status
    method: str
    residual: float | None = None
    point: Any = None

    def __bool__(self) -> bool:
        return self.status != "fails"


def points_of(case: Case, count: int = POINTS, meets: Callable | None = None) -> Iterator[Point]:
    """Random points inside the conditions of a line, with values for what its definitions introduce.

    Lines with the same conditions and definitions share them, and so the values of the formulas there.
    """
    return points_inside(case.line.conditions, case.definitions, case.seed, count, meets)


def points_inside(
    conditions: tuple[Condition, ...], definitions: tuple, seed: int, count: int, meets: Callable | None = None, tries: int = TRIES
) -> Iterator[Point]:
    """The points of :func:`points_of`, for conditions and definitions (letter, value)."""
    for place in range(count):
        if (point := _point(place, seed, conditions, definitions, meets, tries)) is not None:
            yield point


@lru_cache(maxsize=512)
def _point(place: int, seed: int, conditions: tuple, definitions: tuple, meets: Callable | None, tries: int) -> Point | None:
    rng = Random(f"{seed} {place}")
    for _ in range(tries):
        try:
            point = _defined(_candidate(place, rng.random(), conditions, meets), definitions)
            if point is not None and all(condition.holds(point) for condition in conditions):
                return point
        except NO_VALUE:
            continue
    return None


def _defined(shared: dict[tuple, Point], definitions: tuple) -> Point | None:
    """The candidate with values for the letters that are defined; the first of them may have theirs already, for another line."""
    if not shared:
        return None
    begun = max((known for known in shared if known == definitions[: len(known)]), key=len)
    point = shared[begun].copy()
    point.parent = None  # a definition may change a size, and so what is drawn later
    for letter, value in definitions[len(begun) :]:
        point[letter] = ball_at(value, point)
    if definitions:
        shared[definitions] = point
    return point


@lru_cache(maxsize=1 << 9)
def _candidate(place: int, seed: float, conditions: tuple, meets: Callable | None) -> dict[tuple, Point]:
    """A point that the conditions have drawn, by the definitions that hold there, none yet; nothing if one of them cannot."""
    point = Point(SIZES[place % len(SIZES)], Random(seed))
    try:
        for condition in conditions:
            condition.meet(point)
        if meets is not None:
            meets(point)
    except NO_VALUE:
        return {}
    return {(): point}


def distance(left: Any, right: Any, point: Point) -> float:
    """The largest difference of two sides at a point, relative to the larger of them and 1."""
    one, other = ball_at(left, point), ball_at(right, point)
    return max((float(abs(a - b) / max(abs(a), abs(b), 1)) for a, b in zip(flat(one, other), flat(other, one), strict=True)), default=0.0)


def flat(value: Any, like: Any) -> list:
    """The numbers in a value; 0 stands for a matrix of zeros."""
    if isinstance(value, tuple):
        return [one for part, other in zip(value, like, strict=True) for one in flat(part, other)]
    shape, other = _shape(value), _shape(like)
    if shape:
        if other not in (shape, ()):
            raise ValueError(f"the sides have the shapes {shape} and {other}")
        return value.entries() if isinstance(value, arb_mat) else list(value)
    if prod(other) > 1 and value != 0:
        raise ValueError("a number stands beside a matrix")
    return [value] * prod(other)


def _shape(value: Any) -> tuple:
    if isinstance(value, arb_mat):
        return value.nrows(), value.ncols()
    return (value.rows, value.cols) if isinstance(value, mpmath.matrix) else ()


def unmet(case: Case, point: Point) -> str:
    """An equality that the line uses and that the point does not meet; empty if it meets all."""
    for one in case.used:
        if one.relation == "=" and not isinstance(one.left, Symbol | MatrixSymbol | Head):
            try:
                if distance(one.left, one.right, point) <= TOLERANCE:
                    continue
            except NO_VALUE:
                pass
            return f"{one.left} = {one.right}"
    return ""


def slack_of(line: Any, point: Point) -> Any:
    """By how much an inequality holds at a point, relative to the larger side and 1."""
    one, other = ball_at(line.left, point), ball_at(line.right, point)
    if isinstance(one, mpmath.mpc) or isinstance(other, mpmath.mpc):
        raise ValueError("complex numbers are not ordered")
    difference = other - one if line.relation in ("<", "<=") else one - other
    return as_mpmath(difference / max(abs(one), abs(other), 1))
