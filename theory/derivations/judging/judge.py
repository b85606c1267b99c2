"""The judge of lines: exact algebra first, then numbers at random points inside the conditions.

A ``fails`` always comes with the point where the line fails. What cannot be decided is ``assumed``, and says why.
"""

from collections.abc import Callable, Iterator
from copy import copy
from itertools import islice
from math import exp
from random import Random
from typing import Any

import mpmath
from flint import arb, arb_mat, ctx
from mpmath import mp

from ..conditions import Condition
from ..heads import can_be_carried_out, heads_in
from ..points import DIGITS, Point, as_arb, ball_at
from .exact import Case, exactly_equal
from .limits import FARTHEST, deviation_at, judge_limit
from .trial import NO_VALUE, POINTS, TOLERANCE, Verdict, distance, points_of, slack_of, unmet

Line = Any  # defined above this module: see ``lines``

DRAWS = 100_000  # of an expectation that is sampled
SAMPLED = 3  # points
SEARCHED, FEW = 100, 3  # points for those that meet the premise of an implication, until there are so many
DEVIATIONS = 4.5  # standard errors


def judge(line: Line, seed: int = 0) -> Verdict:
    """The verdict on a line.

    ValueError or KeyError where it uses what is not there, NameError if a condition's function has a slip; any other exception on the
    way leaves the line ``assumed``.
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"verify: seed must be an integer, got {seed!r}")
    if line.relation in ("=>", "<=>"):
        _ = [_statements(side) for side in (line.left, line.right)]
    with mp.workdps(DIGITS), ctx.workdps(DIGITS + 3):
        case = Case(line, seed)
        try:
            return _JUDGES[line.relation](case)
        except NameError:
            raise
        except Exception as problem:
            return Verdict("assumed", f"not judged: {type(problem).__name__}: {problem}")


# Equality


def _judge_equality(case: Case) -> Verdict:
    line = case.line
    if line.left is None:
        return Verdict("assumed", "it has no left side")
    if exactly_equal(line.left, line.right, case.rules, lambda: _refuted(case)):
        return Verdict("exact", "both sides have one canonical form", 0.0)
    return _sampled(case) if _must_be_sampled(line) else _numerically_equal(case)


def _must_be_sampled(line: Line) -> bool:
    expectations = (one for one in heads_in(line.left) | heads_in(line.right) if hasattr(one, "given"))
    return not all(map(can_be_carried_out, expectations))


def _refuted(case: Case) -> bool:
    """Do the sides differ at the first point that gives them values?"""
    for point in points_of(case, 3):
        try:
            return distance(case.line.left, case.line.right, point) > TOLERANCE and not unmet(case, point)
        except NO_VALUE:
            continue
    return False


def _sampled(case: Case) -> Verdict:
    """The verdict by sampling the expectations in both sides; a large deviation is confirmed on a fresh, larger sample."""
    from ..sampling import standard_errors  # which loads NumPy

    line, worst, count, reason = case.line, 0.0, 0, "no point meets the conditions"
    for point in islice(points_of(case), SAMPLED):
        try:
            errors = standard_errors(line, point, case.seed, DRAWS)
            if errors > DEVIATIONS:
                errors = standard_errors(line, point, case.seed + 1, 10 * DRAWS)
        except NO_VALUE as problem:
            reason = str(problem)
            continue
        count += 1
        worst = max(worst, errors)
        if errors > DEVIATIONS:
            return Verdict("fails", f"by {10 * DRAWS} samples, in standard errors", errors, point)
    if not count:
        return Verdict("assumed", f"not judged: the expectation can neither be integrated nor sampled: {reason}")
    return Verdict("sampled", f"{DRAWS} samples at {count} points, in standard errors", worst)


def _numerically_equal(case: Case) -> Verdict:
    worst, where, count, reason = 0.0, None, 0, ""
    for point in points_of(case):
        try:
            difference = distance(case.line.left, case.line.right, point)
        except NO_VALUE as problem:
            reason = str(problem)
            continue
        count += 1
        if difference >= worst:
            worst, where = difference, point
        if difference > TOLERANCE:
            if missing := unmet(case, point):
                return Verdict("assumed", f"no point was found that meets what the line uses: {missing}")
            return Verdict("fails", "at a random point inside the conditions", difference, point)
    if not count and not reason:
        return Verdict("fails", "no point meets the conditions and the definitions")
    if not count:
        return Verdict("assumed", f"not judged: {reason}")
    return Verdict("numeric", f"at {count} random points inside the conditions", worst, where)


def _judge_difference(case: Case) -> Verdict:
    if exactly_equal(case.line.left, case.line.right, case.rules):
        return Verdict("fails", "the two sides are equal", 0.0)
    for point in points_of(case):
        try:
            difference = distance(case.line.left, case.line.right, point)
        except NO_VALUE as problem:
            if "shapes" in str(problem):
                return Verdict("numeric", "the two sides have different shapes")
            continue
        if difference > 1e-6 and not unmet(case, point):
            return Verdict("numeric", "the sides differ at a point", difference, point)
    return Verdict("fails", "no point was found where the two sides differ", 0.0)


def fails_at(case: Case, point: Point) -> bool:
    """Does the line fail at this point? It may raise what the formulas raise that have no value there."""
    line = case.line
    if line.relation in ("->", "~"):
        return (deviation_at(case, point) or 0) > FARTHEST
    if line.relation in ("=>", "<=>"):
        premise, conclusion = _met(line.left, point), _met(line.right, point)
        return premise != conclusion if line.relation == "<=>" else premise and not conclusion
    return line.relation not in (":=", "!=") and not _holds_at(line, point)


# Implications


def _statements(side: Any) -> tuple:
    """The lines and conditions of a side of an implication."""
    statements = side if isinstance(side, tuple) else (side,)
    for one in statements:
        if not isinstance(one, Condition) and not hasattr(one, "relation"):
            raise TypeError(f"a side of an implication must be a line or a condition, got {one!r}")
    return statements


def _met(side: Any, point: Point) -> bool:
    """Do all statements of a side hold at a point?"""
    return all(_holds_at(one, point) for one in _statements(side))


def _holds_at(statement: Any, point: Point) -> bool:
    if isinstance(statement, Condition):
        return statement.holds(point)
    if statement.relation in ("=", "!="):
        return (distance(statement.left, statement.right, point) <= TOLERANCE) == (statement.relation == "=")
    slack = slack_of(statement, point)
    return slack > 0 if statement.relation in ("<", ">") else slack >= -TOLERANCE


def _implied(case: Case, meets: Callable | None = None, back: bool = False) -> Verdict:
    """The verdict on premise => conclusion or, ``back``, on the converse."""
    line, names, count = case.line, ("premise", "conclusion"), 0
    sides = (line.left, line.right)
    if back:
        names, sides = names[::-1], sides[::-1]
    for point, met in _where(case, *sides, meets):
        count += 1
        if not met:
            return Verdict("fails", f"a point meets the {names[0]} and not the {names[1]}", None, point)
    if not count:
        return Verdict("assumed", f"no point was found that meets the {names[0]}")
    return Verdict("numeric", f"at {count} points that meet the {names[0]}")


def _where(case: Case, premise: Any, conclusion: Any, meets: Callable | None = None) -> Iterator[tuple[Point, bool]]:
    """Points that meet the premise, and whether they meet the conclusion; more are searched where few are and nothing ``meets`` it."""
    count = 0
    for place, point in enumerate(points_of(case, POINTS if case.line.meets else SEARCHED, meets)):
        if place >= POINTS and count >= FEW:
            return
        try:
            if not _met(premise, point):
                continue
            met = _met(conclusion, point)
        except NO_VALUE:
            continue
        count += 1
        yield point, met


def _judge_equivalence(case: Case) -> Verdict:
    there = _implied(case, *case.line.meets[:1])
    if there.status != "numeric":
        return there
    back = [_implied(case, meets, back=True) for meets in (None, *case.line.meets[1:2])]
    failing = [one for one in back if one.status == "fails"]
    return failing[0] if failing else there if any(one.status == "numeric" for one in back) else back[0]


# Inequalities


def _judge_inequality(case: Case) -> Verdict:
    if case.line.relation in ("<=", ">=") and _must_be_sampled(case.line):
        return _sampled(case)
    strict = case.line.relation in ("<", ">")
    points, found = list(points_of(case, count=100)), []
    for point in points:
        try:
            found.append((slack_of(case.line, point), point))
        except NO_VALUE:
            continue
    if not points:
        return Verdict("fails", "no point meets the conditions and the definitions")
    if not found:
        return Verdict("assumed", "not judged: the sides have no numbers at points that meet the conditions")
    found.sort(key=lambda pair: pair[0])
    rng = Random(case.seed)
    found += [_descended(case, *start, rng) for start in found[:10]]
    slack, point = min(found, key=lambda pair: pair[0])
    if slack < -TOLERANCE or (strict and slack <= 0):
        return Verdict("fails", "at a point found by search", float(slack), point)
    return Verdict("numeric", "smallest slack of a search from 100 random points", float(slack), point)


def _descended(case: Case, slack: Any, point: Point, rng: Random) -> tuple[Any, Point]:
    """A random local search that drives the slack down inside the conditions."""
    width, draws = 0.5, copy(point.rng)
    for _ in range(30):
        trial = Point(point.sizes, draws, point)
        trial.values = {letter: _moved(value, width, rng) for letter, value in point.values.items()}
        try:
            for condition in case.line.conditions:
                if condition.test is None:
                    condition.meet(trial)
            for letter, value in case.definitions:
                trial[letter] = ball_at(value, trial)
            value = slack_of(case.line, trial)
            lower = value < slack and all(one.holds(trial) for one in case.line.conditions)
        except NO_VALUE:
            lower = False
        if lower:
            slack, point = value, trial
        else:
            width *= 0.87
    return slack, point


def _moved(value: Any, width: float, rng: Random) -> Any:
    if isinstance(value, mpmath.mpf | arb):
        return as_arb(value) * exp(width * rng.gauss(0, 1))
    return as_arb(value) * exp(width * rng.gauss(0, 1) / 2) if isinstance(value, mpmath.matrix | arb_mat) else value


_JUDGES: dict[str, Callable[[Case], Verdict]] = {
    "=": _judge_equality,
    "!=": _judge_difference,
    ":=": lambda case: Verdict("assumed", "a definition"),
    "=>": lambda case: _implied(case, *case.line.meets[:1]),
    "<=>": _judge_equivalence,
    **dict.fromkeys(("<", "<=", ">", ">="), _judge_inequality),
    "->": judge_limit,
    "~": judge_limit,
}
