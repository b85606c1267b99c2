"""Which conditions are needed: points where all others hold, one does not, and a line fails."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mpmath import mp

from ..conditions import Condition
from ..points import DIGITS, Point
from .exact import Case
from .judge import fails_at
from .trial import points_inside, points_of

OUTSIDE = 5  # points, one of each size
TRIES = 8  # for each of them


def needed(lines: Sequence[Any], seed: int = 0) -> tuple[tuple[Condition, bool | None, Point | None], ...]:
    """(condition, whether it is needed, where) for each condition of the lines.

    True with a point outside the condition alone where a line fails, or has no value; False where none was found; None where the
    condition has no test.
    """
    conditions = dict.fromkeys(condition for line in lines for condition in line.conditions)
    with mp.workdps(DIGITS):
        found = {condition: _failure(lines, condition, seed) for condition in conditions if condition.test is not None}
    return tuple((one, None if one.test is None else found[one] is not None, found.get(one)) for one in conditions)


def _failure(lines: Sequence[Any], condition: Condition, seed: int) -> Point | None:
    """A point outside the condition, and inside the others, where a line that holds inside fails."""
    concerned = [line for line in lines if condition in line.conditions and line.relation != ":=" and line.left is not None]
    points = _outside(lines, concerned, condition, seed) if concerned else ()
    for line in reversed(concerned):
        case = Case(line, seed)
        for point in points:
            if _fails(case, point) and not any(_fails(case, inside) for inside in points_of(case, OUTSIDE)):
                return point
    return None


def _outside(lines: Sequence[Any], concerned: Sequence[Any], condition: Condition, seed: int) -> list[Point]:
    inside = dict.fromkeys(one for line in concerned for one in line.conditions)
    opposite = Condition("the opposite", lambda point: not condition.holds(point), condition.outside)
    conditions = tuple(opposite if one == condition else one for one in inside)
    uses = dict.fromkeys(use for line in lines for use in line.uses if not isinstance(use, int))
    definitions = Case(replace(concerned[-1], uses=tuple(uses), earlier=tuple(lines)), seed).definitions
    try:
        return list(points_inside(conditions, definitions, seed, OUTSIDE, tries=TRIES))
    except Exception:  # a test or a draw that cannot do without the condition
        return []


def _fails(case: Case, point: Point) -> bool:
    try:
        return fails_at(case, point)
    except ZeroDivisionError:
        return True
    except Exception:  # nothing can be said there
        return False
