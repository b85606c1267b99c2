"""Limits and orders: by the powers of the parameter, or fitted over several values of it."""

from itertools import islice
from typing import Any

import mpmath
import sympy
from sympy import Symbol

from ...algebra.polynomial import TracePolynomial
from ...calculus.substitution import collect
from ..points import DIGITS, Point, ball_at, value_at
from .exact import Case, reduced
from .trial import NO_VALUE, Verdict, flat, points_of

PLACES = 8  # of the parameter, to 10^8, or to where a term of the stated order is 10^-24
FITTED = 12  # points
FARTHEST = 0.1  # a fitted order from the stated one
VISIBLE = 1e-22  # more than rounding
EQUAL = "the two sides are equal: there is no next order"


def judge_limit(case: Case) -> Verdict:
    """The verdict on left -> right or left ~ right: the difference vanishes in the limit, with the stated order."""
    return _exact(case) or _fitted(case)


def _limit(line: Any) -> tuple[Symbol, Any]:
    return line.parameter if isinstance(line.parameter, tuple) else (line.parameter, sympy.oo)


def _exact(case: Case) -> Verdict | None:
    """The verdict by the powers of the parameter in the difference; None where the algebra does not decide it."""
    line, (parameter, target) = case.line, _limit(case.line)
    try:
        left, right = reduced(line.left, case.rules), reduced(line.right, case.rules)
        if not (isinstance(left, TracePolynomial) and isinstance(right, TracePolynomial)) or target not in (0, sympy.oo):
            return None
        orders = collect(left - right, parameter)
    except (ValueError, TypeError):
        return None
    lowest = min((power if target == 0 else -power for power, rest in orders.items() if rest), default=None)
    if lowest is None and line.order is not None:
        return Verdict("fails", EQUAL)
    if lowest is None or (lowest > 0 and line.order in (None, lowest)):
        return Verdict("exact", "by the powers of the parameter", 0.0)
    return None


def _fitted(case: Case) -> Verdict:
    line, worst, where, count, points = case.line, 0.0, None, 0, list(islice(points_of(case), FITTED))
    for point in points:
        try:
            deviation = deviation_at(case, point)
        except NO_VALUE:
            continue
        count += 1
        if deviation is not None and deviation > FARTHEST:
            reason = "the fitted order is another one" if line.order is not None else "the two sides do not meet"
            return Verdict("fails", reason, deviation, point)
        if deviation is not None and deviation >= worst:
            worst, where = deviation, point
    if not points:
        return Verdict("fails", "no point meets the conditions and the definitions")
    if not count:
        return Verdict("assumed", "not judged: the sides have no numbers at points that meet the conditions")
    if where is None and line.order is not None:
        return Verdict("fails", EQUAL)
    return Verdict("numeric", f"order fitted at {count} points", worst, where)


def deviation_at(case: Case, point: Point) -> float | None:
    """How far left - right is from the stated order at a point, a power or a function of the parameter; without one, 0 if it falls.

    It is by how much their ratio changes between the two farthest places where left - right is more than rounding; None if there are none.
    """
    order, (parameter, target) = case.line.order, _limit(case.line)
    power = float(order or 0) if order is None or isinstance(order, int | float | sympy.Number) else None

    def scale(place: Any) -> Any:
        if power is not None:
            return place**-power
        there = sympy.Float(place if target == sympy.oo else 1 / place, DIGITS)
        return abs(value_at(sympy.sympify(order).subs(parameter, there), point))

    last, far, near = min(PLACES, 24 / abs(power or 1)), (0, 1), (0, 1)
    for place in (mpmath.mpf(10) ** (last * k / PLACES) for k in range(PLACES, 0, -1)):
        error = _error(case, point, parameter, place if target == sympy.oo else _number(target) + 1 / place)
        far, near = near, (error, scale(place))
        if far[0] > VISIBLE:
            break
    if max(far[0], near[0]) <= VISIBLE:
        return None
    if order is None:
        return float(far[0] > (1 - FARTHEST) * near[0])
    expected = near[0] * far[1] / near[1]
    if max(far[0], expected) <= VISIBLE:
        return 0.0
    return float(abs(far[0] / expected - 1)) if expected else float("inf")


def _error(case: Case, point: Point, parameter: Symbol, value: Any) -> Any:
    """|left - right| at this value of the parameter."""
    trial = point.copy()
    trial[parameter] = value
    for letter, defined in case.definitions:
        if letter != parameter:
            trial[letter] = ball_at(defined, trial)
    one, other = value_at(case.line.left, trial), value_at(case.line.right, trial)
    return max((abs(a - b) for a, b in zip(flat(one, other), flat(other, one), strict=True)), default=mpmath.mpf(0))


def _number(value: Any) -> Any:
    return mpmath.mpf(sympy.Rational(value).p) / sympy.Rational(value).q
