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

STEPS = tuple(mpmath.mpf(10) ** k for k in (3, 4, 5, 6))
FITTED = 12  # points
FARTHEST = 0.1  # of a fitted order from the stated one
ROUNDING = mpmath.mpf("1e-26")


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
        return Verdict("fails", "the two sides are equal: there is no next order")
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
        if deviation > FARTHEST:
            reason = "the fitted order is another one" if line.order is not None else "the two sides do not meet"
            return Verdict("fails", reason, deviation, point)
        if deviation >= worst:
            worst, where = deviation, point
    if not points:
        return Verdict("fails", "no point meets the conditions and the definitions")
    if not count:
        return Verdict("assumed", "not judged: the sides have no numbers at points that meet the conditions")
    return Verdict("numeric", f"order fitted at {count} points over {len(STEPS)} values of the parameter", worst, where)


def deviation_at(case: Case, point: Point) -> float:
    """How far left - right is from the stated order at a point, a power or a function of the parameter; without one, 0 if it falls."""
    order, (parameter, target) = case.line.order, _limit(case.line)
    power = float(order) if isinstance(order, int | float | sympy.Number) and order != 0 else None
    for near in (1.0, max(1.0, (power or 0) / 2)):  # far out a high order leaves nothing to see but rounding
        places = [step ** (1 / mpmath.mpf(near)) for step in STEPS]
        errors = [_error(case, point, parameter, place if target == sympy.oo else _number(target) + 1 / place) for place in places]
        if errors[-1] > ROUNDING * 10**4:
            break
    if all(error < ROUNDING for error in errors):
        return 0.0
    if order is None or power is not None:
        slope = near * float(mpmath.log10(errors[-2] / errors[-1])) if errors[-1] else float("inf")
        if power is not None and abs(slope - power) > FARTHEST and ROUNDING * 10**7 < errors[-1] < errors[-2]:
            farther = places[-1] * 10 ** (1 / mpmath.mpf(near))  # the next order may still be the larger one
            error = _error(case, point, parameter, farther if target == sympy.oo else _number(target) + 1 / farther)
            slope = near * float(mpmath.log10(errors[-1] / error)) if error else slope
        return float(slope <= 0.05) if power is None else abs(slope - power)
    function, steps = sympy.sympify(order or 1), [sympy.Float(place if target == sympy.oo else 1 / place, DIGITS) for place in places]
    ratios = [error / value_at(function.subs(parameter, step), point) for error, step in zip(errors, steps, strict=True)]
    return float(abs(ratios[-1] / ratios[-2] - 1))


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
