"""Which conditions are needed: points where all others hold, one does not, and a line fails."""

from collections.abc import Iterator, Sequence
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
    """A point outside the condition, and inside the others of a line, where this line fails and inside all of them does not."""
    opposite = Condition("the opposite", lambda point: not condition.holds(point), condition.outside)
    for line in reversed(lines):
        if condition in line.conditions and line.relation != ":=" and line.left is not None:
            case = Case(line, seed)
            for point in _outside(case, lines, tuple(opposite if one == condition else one for one in line.conditions)):
                if _fails(case, point) and not any(_fails(case, inside) for inside in points_of(case, OUTSIDE)):
                    return point
    return None


def _outside(case: Case, lines: Sequence[Any], conditions: tuple[Condition, ...]) -> Iterator[Point]:
    """Points with values for what the whole derivation defines, then with values for what the line itself uses."""
    uses = dict.fromkeys(use for line in lines for use in line.uses if not isinstance(use, int))
    whole = Case(replace(case.line, uses=tuple(uses), earlier=tuple(lines)), case.seed)
    for definitions in dict.fromkeys((whole.definitions, case.definitions)):
        try:
            yield from points_inside(conditions, definitions, case.seed, OUTSIDE, tries=TRIES)
        except Exception:  # a test or a draw that cannot do without the condition
            continue


def _fails(case: Case, point: Point) -> bool:
    try:
        return fails_at(case, point)
    except ZeroDivisionError:
        return True
    except Exception:  # nothing can be said there
        return False
