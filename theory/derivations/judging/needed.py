"""Which conditions are needed: points where all others hold, one does not, and a line fails."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from flint import ctx
from mpmath import mp

from ..conditions import Condition
from ..points import DIGITS, Point, ball_at
from .exact import Case
from .judge import fails_at
from .trial import TOLERANCE, distance, points_inside, points_of

OUTSIDE = 5  # points, one of each size; four times as many if none of them tells
TRIES = 8  # for each of them


def needed(lines: Sequence[Any], seed: int = 0) -> tuple[tuple[Condition, bool | None, Point | None], ...]:
    """(condition, whether it is needed, where) for each condition of the lines.

    True with a point outside the condition alone where a line fails, or has no value, or where two sides that should differ agree at every
    such point; False where none was found; None where the condition has no test, or its lines only define.
    NameError if a function of a condition has a slip.
    """
    conditions = dict.fromkeys(condition for line in lines for condition in line.conditions)
    tested = {one for line in lines if _asserts(line) for one in line.conditions if one.test is not None}
    with mp.workdps(DIGITS), ctx.workdps(DIGITS + 3):
        found = {one: _failure(lines, one, seed, OUTSIDE) or _failure(lines, one, seed, 4 * OUTSIDE) for one in tested}
    return tuple((one, found[one] is not None if one in found else None, found.get(one)) for one in conditions)


def _asserts(line: Any) -> bool:
    return line.relation != ":=" and line.left is not None


def _failure(lines: Sequence[Any], condition: Condition, seed: int, count: int) -> Point | None:
    """One of so many points outside the condition, and inside the others of a line, where this line fails and inside all does not."""
    opposite = Condition("the opposite", lambda point: not condition.holds(point), condition.outside)
    for line in reversed(lines):
        if condition in line.conditions and _asserts(line):
            case, others = Case(line, seed), tuple(opposite if one == condition else one for one in line.conditions)
            points = _outside(case, lines, others, count)
            if line.relation == "!=":
                agreeing = [(point, _said(_agree, case, point)) for point in points]
                if agreeing and all(agree for _, agree in agreeing):
                    return agreeing[0][0]
                continue
            fails = partial(_said, fails_at, case, undefined=True)
            for point in points:
                if fails(point) and not any(map(fails, points_of(case, OUTSIDE))):
                    return point
            if (point := _said(_undefined, case, others, count)) is not None:
                return point
    return None


def _outside(case: Case, lines: Sequence[Any], conditions: tuple[Condition, ...], count: int) -> Iterator[Point]:
    """Points with values for what the whole derivation defines, then with values for what the line itself uses."""
    uses = dict.fromkeys(use for line in lines for use in line.uses if not isinstance(use, int))
    whole = Case(replace(case.line, uses=tuple(uses), earlier=tuple(lines)), case.seed)
    for definitions, meets in product(dict.fromkeys((whole.definitions, case.definitions)), (None, *case.line.meets[:1])):
        try:
            yield from points_inside(conditions, definitions, case.seed, count, meets, TRIES)
        except NameError:
            raise
        except Exception:  # a test or a draw that cannot do without the condition
            continue


def _undefined(case: Case, conditions: tuple[Condition, ...], count: int) -> Point | None:
    """A point where a letter that the line uses has no value, such as the inverse of a singular matrix."""
    for point in points_inside(conditions, (), case.seed, count, tries=TRIES):
        there = point.copy()
        for letter, value in case.definitions:
            try:
                there[letter] = ball_at(value, there)
            except ZeroDivisionError:
                return point
    return None


def _agree(case: Case, point: Point) -> bool:
    return distance(case.line.left, case.line.right, point) <= TOLERANCE


def _said(function: Callable, *given: Any, undefined: Any = None) -> Any:
    """What a function says of a point: ``undefined`` if it divides by zero there, None if it can say nothing."""
    try:
        return function(*given)
    except ZeroDivisionError:
        return undefined
    except NameError:
        raise
    except Exception:
        return None
