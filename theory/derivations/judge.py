"""The judge of lines: exact algebra first, then numbers at random points inside the conditions.

A ``fails`` always comes with the point where the line fails. What cannot be decided is ``assumed``, and says why.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import cycle, islice
from random import Random
from typing import Any, Literal

import mpmath
import sympy
from mpmath import mp
from sympy import Basic, BlockMatrix, Identity, Symbol
from sympy.core.function import AppliedUndef
from sympy.matrices.expressions import MatrixSymbol
from sympy.tensor.indexed import Indexed

from ..algebra.polynomial import TracePolynomial
from ..calculus.equality import equal
from ..calculus.rewriting import rewrite
from ..calculus.substitution import collect, substitute
from ..notation import D, H, N, R
from .book import lookup
from .conditions import Condition
from .heads import Head, as_sympy, can_be_carried_out, carried_out, heads_in
from .points import DIGITS, Point, value_at

__all__ = ["Status", "Verdict", "judge", "points_of"]

Line = Any  # defined above this module: see ``lines``
Status = Literal["exact", "numeric", "sampled", "assumed", "fails"]

POINTS = 20
DRAWS = 100_000  # of an expectation that is sampled
DEVIATIONS = 4.5  # standard errors
TOLERANCE = 1e-15  # of numbers of 30 digits: what is left is rounding times a condition number far below 1e15
# D = 1, N = 1, D > N and R H < D are among them.
SIZES = ({D: 2, N: 5, H: 2, R: 1}, {D: 3, N: 2, H: 3, R: 2}, {D: 1, N: 1, H: 1, R: 1}, {D: 3, N: 8, H: 2, R: 1}, {D: 2, N: 1, H: 3, R: 2})
PASSES = 20


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


def judge(line: Line, seed: int = 0) -> Verdict:
    """The verdict on a line; see :class:`~iclflow.theory.derivations.lines.Verdict`."""
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"verify: seed must be an integer, got {seed!r}")
    with mp.workdps(DIGITS):
        return _JUDGES[line.relation](_opened(_with_results(line)), seed)


def _with_results(line: Line) -> Line:
    """The line with the results that it uses in place of operations."""
    results = {one.left: as_sympy(one.right) for one in used_lines(line) if isinstance(one.left, Head)}
    sides = {name: getattr(line, name) for name in ("left", "right")}
    changed = {
        name: side.xreplace(results) for name, side in sides.items() if isinstance(side, Basic) and not isinstance(side, sympy.MatrixBase)
    }
    return replace(line, **changed) if results else line


def _opened(line: Line) -> Line:
    """The line with each function that a line defines in place of it, and each scalar letter on which an operation acts: F in dF/dW."""
    used = used_lines(line)
    letters = {one.left: _like(one.left, one.right) for one in used if _is_scalar(one.left) and not _has_blocks(one.right)}
    functions = {one.left: as_sympy(one.right) for one in used if isinstance(one.left, AppliedUndef)}
    sides = {name: _open(_unfolded(getattr(line, name), functions), letters) for name in ("left", "right")}
    return replace(line, **sides) if any(sides[name] is not getattr(line, name) for name in sides) else line


def _unfolded(side: Any, functions: dict) -> Any:
    if not isinstance(side, Basic) or not side.has(*functions):
        return side
    return reduce(lambda formula, left: formula.xreplace({left: functions[left]}), reversed(functions), side)


def _is_scalar(side: Any) -> bool:
    return isinstance(side, Symbol) or (isinstance(side, MatrixSymbol) and side.shape == (1, 1))


def _like(letter: Any, value: Any) -> Any:
    """The value of a letter as SymPy takes it in place of the letter: for a 1 x 1 matrix another one."""
    value = as_sympy(value)
    return value * Identity(1) if isinstance(letter, MatrixSymbol) and not getattr(value, "shape", ()) else value


def _open(side: Any, letters: dict) -> Any:
    if not isinstance(side, Basic) or isinstance(side, sympy.MatrixBase):
        return side
    for _ in range(PASSES if letters else 0):
        acting = heads_in(side) | side.atoms(sympy.Derivative, sympy.Integral, sympy.Limit)
        opened = {
            one: one.func(one.args[0].xreplace({letter: letters[letter] for letter in found}), *one.args[1:])
            for one in acting
            if (found := one.args[0].free_symbols & set(letters) - one.args[1].free_symbols)
        }
        if not opened:
            return side
        side = side.xreplace(opened)
    return side


# What a line may use


def used_lines(line: Line) -> list[Line]:
    """The equalities that a line may use: of the entries that it names, which come first, earlier definitions, the lines that it names."""
    found = [stated for use in line.uses if not isinstance(use, int) for stated in lookup(use).stated()]
    found += [one for one in line.earlier if one.relation == ":="]
    for use in line.uses:
        if isinstance(use, int):
            if not 0 <= use < len(line.earlier):
                raise ValueError(f"uses: there is no earlier line {use} in {line}")
            found.append(line.earlier[use])
    return [one for one in found if one.relation in ("=", ":=") and one.left is not None]


def _latest(line: Line) -> list[Line]:
    """The used lines, opened; of those that give one letter a value, only the last."""
    found = [_opened(one) for one in used_lines(line)]
    last = {one.left: i for i, one in enumerate(found) if _letter(one.left) is not None}
    return [one for i, one in enumerate(found) if last.get(_letter(one.left), i) == i]


def _letter(side: Any) -> Any:
    return side if isinstance(side, Symbol | MatrixSymbol) else None


def _definitions(line: Line) -> list[Line]:
    """The used lines that give a letter its value, each after those that give values to the letters on its right."""
    waiting = [one for one in _latest(line) if _letter(one.left) is not None]
    ordered = []
    while waiting:
        missing = {one.left for one in waiting}
        ready = (i for i, one in enumerate(waiting) if not (_letters(one.right) & missing) - {one.left})
        ordered.append(waiting.pop(next(ready, 0)))
    return ordered


def _letters(side: Any) -> set:
    return side.free_symbols if isinstance(side, Basic | sympy.MatrixBase | TracePolynomial) else set()


def _rules(line: Line) -> list[tuple[Any, Any]]:
    return [(one.left, one.right) for one in _latest(line)]


def reduced(side: Any, rules: list[tuple[Any, Any]]) -> Any:
    """A side with its operations carried out and the rules applied, until nothing changes."""
    for _ in range(PASSES):
        before = side
        for left, right in rules:
            side = _replaced(side, left, right)
        if _same(side, before):
            break
    side = carried_out(side)
    if isinstance(side, BlockMatrix):
        return tuple(tuple(reduced(block, rules) for block in row) for row in side.blocks.tolist())
    letters = {left: right for left, right in rules if isinstance(left, Symbol | MatrixSymbol)}
    products = [(left, right) for left, right in rules if not isinstance(left, Symbol | MatrixSymbol | Indexed)]
    for _ in range(PASSES):
        if not isinstance(side, TracePolynomial):
            return side
        if any(_has_blocks(right) for left, right in letters.items() if left in side.free_symbols):
            return reduced(side, rules)
        before = side
        present = {left: carried_out(right) for left, right in letters.items() if left in side.free_symbols}
        present = {left: right for left, right in present.items() if isinstance(right, TracePolynomial)}
        side = substitute(side, present) if present else side
        for left, right in products:
            side = _rewritten(side, left, right)
        if side == before:
            break
    return side


def _has_blocks(side: Any) -> bool:
    return isinstance(side, Basic) and side.has(BlockMatrix)


def _replaced(side: Any, left: Any, right: Any) -> Any:
    """The side with every copy of ``left`` replaced, as it stands; of a matrix letter only if it has blocks, of no variable of a head."""
    if isinstance(left, MatrixSymbol) and _has_blocks(right) and isinstance(side, Basic | TracePolynomial):
        return as_sympy(side).xreplace({left: right}) if left in side.free_symbols else side
    if not isinstance(side, Basic | sympy.MatrixBase) or not isinstance(left, Basic) or isinstance(left, MatrixSymbol):
        return side
    if isinstance(side, sympy.MatrixBase):
        return side.applyfunc(lambda entry: _replaced(entry, left, right))
    if not side.has(left) or any(left in one.args[1].free_symbols for one in heads_in(side)):
        return side
    try:
        return side.xreplace({left: as_sympy(right)})
    except (TypeError, ValueError):
        return side


def _rewritten(side: TracePolynomial, left: Any, right: Any) -> TracePolynomial:
    try:
        product, value = TracePolynomial(left), carried_out(right)
        return rewrite(side, {product: value}) if isinstance(value, TracePolynomial) else side
    except ValueError:  # not a product of letters: nothing that a polynomial can be rewritten with
        return side


def _same(one: Any, other: Any) -> bool:
    return one is other or (isinstance(one, Basic) and isinstance(other, Basic) and one == other)


# Equality


def _exactly_equal(left: Any, right: Any, rules) -> bool:
    try:
        left, right = reduced(left, rules), reduced(right, rules)
        if isinstance(left, TracePolynomial) != isinstance(right, TracePolynomial):
            left, right = as_sympy(left), as_sympy(right)
        return _both_zero(left, right) or equal(left, right)
    except (ValueError, TypeError, NotImplementedError):
        return False


def _both_zero(left: Any, right: Any) -> bool:
    """Two zeros, of which one may be the number 0 that stands for a matrix of zeros."""
    both = (left, right)
    return all(isinstance(one, TracePolynomial) and not one.terms for one in both) and any(one.shape is None for one in both)


def _judge_equality(line: Line, seed: int) -> Verdict:
    if line.left is None:
        return Verdict("assumed", "it has no left side")
    if _exactly_equal(line.left, line.right, _rules(line)):
        return Verdict("exact", "both sides have one canonical form", 0.0)
    return _sampled(line, seed) if _must_be_sampled(line.left) else _numerically_equal(line, seed)


def _must_be_sampled(side: Any) -> bool:
    return isinstance(side, Head) and hasattr(side, "given") and not can_be_carried_out(side)


def _sampled(line: Line, seed: int) -> Verdict:
    """The verdict on E[...] = right (or >=), by sampling the left side; a large deviation is confirmed on a fresh, larger sample."""
    from .sampling import standard_errors  # which loads NumPy

    worst, count = 0.0, 0
    for point in islice(points_of(line, seed), 3):
        try:
            value = value_at(line.right, point)
            expected = [float(one) for one in _flat(value, value)]
            errors = standard_errors(line.left, expected, point, seed, DRAWS, line.relation)
            if errors > DEVIATIONS:
                errors = standard_errors(line.left, expected, point, seed + 1, 10 * DRAWS, line.relation)
        except (ValueError, ZeroDivisionError):
            continue
        count += 1
        worst = max(worst, errors)
        if errors > DEVIATIONS:
            return Verdict("fails", f"by {10 * DRAWS} samples, in standard errors", errors, point)
    if not count:
        return Verdict("assumed", "not judged: the expectation can neither be integrated nor sampled")
    return Verdict("sampled", f"{DRAWS} samples at {count} points, in standard errors", worst)


def _numerically_equal(line: Line, seed: int) -> Verdict:
    worst, where, count, reason = 0.0, None, 0, ""
    for point in points_of(line, seed):
        try:
            difference = _distance(line.left, line.right, point)
        except (ValueError, ZeroDivisionError, OverflowError) as problem:
            reason = str(problem)
            continue
        count += 1
        if difference >= worst:
            worst, where = difference, point
        if difference > TOLERANCE:
            if unmet := _unmet(line, point):
                return Verdict("assumed", f"no point was found that meets what the line uses: {unmet}")
            return Verdict("fails", "at a random point inside the conditions", difference, point)
    if not count and not reason:
        return Verdict("fails", "no point meets the conditions and the definitions")
    if not count:
        return Verdict("assumed", f"not judged: {reason}")
    return Verdict("numeric", f"at {count} random points inside the conditions", worst, where)


def _distance(left: Any, right: Any, point: Point) -> float:
    """The largest difference of two sides at a point, relative to the larger of them and 1."""
    one, other = value_at(left, point), value_at(right, point)
    return max(map(_relative, _flat(one, other), _flat(other, one)), default=0.0)


def _relative(one, other) -> float:
    return float(abs(one - other) / max(abs(one), abs(other), mpmath.mpf(1)))


def _flat(value: Any, like: Any) -> list:
    """The numbers in a value; 0 stands for a matrix of zeros."""
    if isinstance(value, tuple):
        return [one for part, other in zip(value, like, strict=True) for one in _flat(part, other)]
    if isinstance(value, mpmath.matrix):
        if isinstance(like, mpmath.matrix) and (value.rows, value.cols) != (like.rows, like.cols):
            raise ValueError(f"the sides have the shapes {(value.rows, value.cols)} and {(like.rows, like.cols)}")
        return [value[i, j] for i in range(value.rows) for j in range(value.cols)]
    count = like.rows * like.cols if isinstance(like, mpmath.matrix) else 1
    if count > 1 and value != 0:
        raise ValueError("a number stands beside a matrix")
    return [value] * count


def _unmet(line: Line, point: Point) -> str:
    """An equality that the line uses and that the point does not meet; empty if it meets all."""
    for one in map(_opened, used_lines(line)):
        if one.relation == "=" and not isinstance(one.left, Symbol | MatrixSymbol | Head):
            try:
                if _distance(one.left, one.right, point) > TOLERANCE:
                    return f"{one.left} = {one.right}"
            except (ValueError, ZeroDivisionError):
                return f"{one.left} = {one.right}"
    return ""


def points_of(line: Line, seed: int, count: int = POINTS, meets: Callable | None = None) -> Iterator[Point]:
    """Random points inside the conditions of a line, with values for what its definitions introduce."""
    definitions = _definitions(line)
    rng = Random(f"{seed} {line.relation} {line.reason}")
    for sizes in islice(cycle(SIZES), count):
        for _ in range(40):
            point = Point(sizes, Random(rng.random()))
            try:
                for condition in line.conditions:
                    if condition.draw is not None:
                        condition.draw(point)
                if meets is not None:
                    meets(point)
                for one in definitions:
                    point[one.left] = value_at(one.right, point)
                if all(condition.holds(point) for condition in line.conditions):
                    yield point
                    break
            except (ValueError, ZeroDivisionError, IndexError):
                continue


def _judge_difference(line: Line, seed: int) -> Verdict:
    if _exactly_equal(line.left, line.right, _rules(line)):
        return Verdict("fails", "the two sides are equal", 0.0)
    for point in points_of(line, seed):
        try:
            difference = _distance(line.left, line.right, point)
        except (ValueError, ZeroDivisionError) as problem:
            if "shapes" in str(problem):
                return Verdict("numeric", "the two sides have different shapes")
            continue
        if difference > 1e-6:
            return Verdict("numeric", "the sides differ at a point", difference, point)
    return Verdict("fails", "no point was found where the two sides differ", 0.0)


# Implications


def _statements(side: Any) -> tuple:
    return side if isinstance(side, tuple) else (side,)


def _met(side: Any, point: Point) -> bool:
    """Do all statements of a side hold at a point?"""
    return all(_holds_at(one, point) for one in _statements(side))


def _holds_at(statement: Any, point: Point) -> bool:
    if isinstance(statement, Condition):
        return statement.holds(point)
    if not hasattr(statement, "relation"):
        raise TypeError(f"a side of an implication must be a line or a condition, got {statement!r}")
    if statement.relation in ("=", "!="):
        return (_distance(statement.left, statement.right, point) <= TOLERANCE) == (statement.relation == "=")
    slack = _slack(statement, point)
    return slack > 0 if statement.relation in ("<", ">") else slack >= -TOLERANCE


def _judge_implication(line: Line, seed: int, premise: Any = None, conclusion: Any = None, meets: Any = None) -> Verdict:
    premise, conclusion = (line.left, line.right) if premise is None else (premise, conclusion)
    meets = line.meets[0] if meets is None and line.meets else meets
    count = 0
    for point in points_of(line, seed, meets=meets):
        try:
            if not _met(premise, point):
                continue
            count += 1
            if not _met(conclusion, point):
                return Verdict("fails", "a point meets the premise and not the conclusion", None, point)
        except (ValueError, ZeroDivisionError):
            continue
    if not count:
        return Verdict("assumed", "no point was found that meets the premise")
    return Verdict("numeric", f"at {count} points that meet the premise")


def _judge_equivalence(line: Line, seed: int) -> Verdict:
    there = _judge_implication(line, seed)
    if there.status != "numeric":
        return there
    if len(line.meets) > 1:
        back = _judge_implication(line, seed, line.right, line.left, line.meets[1])
        if back.status == "fails":
            return back
    for point in points_of(line, seed):  # where the premise does not hold, neither does the conclusion
        try:
            if not _met(line.left, point) and _met(line.right, point):
                return Verdict("fails", "a point meets the conclusion and not the premise", None, point)
        except (ValueError, ZeroDivisionError):
            continue
    return there


# Inequalities


def _slack(line: Line, point: Point) -> float:
    one, other = value_at(line.left, point), value_at(line.right, point)
    if isinstance(one, mpmath.mpc) or isinstance(other, mpmath.mpc):
        raise ValueError("complex numbers are not ordered")
    difference = other - one if line.relation in ("<", "<=") else one - other
    return difference / max(abs(one), abs(other), mpmath.mpf(1))


def _judge_inequality(line: Line, seed: int) -> Verdict:
    if line.relation in ("<=", ">=") and _must_be_sampled(line.left):
        return _sampled(line, seed)
    strict = line.relation in ("<", ">")
    found: list[tuple[Any, Point]] = []
    for point in points_of(line, seed, count=100):
        try:
            found.append((_slack(line, point), point))
        except (ValueError, ZeroDivisionError):
            continue
    if not found:
        return Verdict("assumed", "not judged: no point meets the conditions")
    found.sort(key=lambda pair: pair[0])
    rng = Random(seed)
    for start in found[:10]:
        found.append(_descended(line, *start, rng))
    slack, point = min(found, key=lambda pair: pair[0])
    if slack < -TOLERANCE or (strict and slack <= 0):
        return Verdict("fails", "at a point found by search", float(slack), point)
    return Verdict("numeric", "smallest slack of a search from 100 random points", float(slack), point)


def _descended(line: Line, slack: Any, point: Point, rng: Random) -> tuple[Any, Point]:
    """A random local search that drives the slack down inside the conditions."""
    width = 0.5
    for _ in range(60):
        trial = Point(point.sizes, rng)
        trial.values = {letter: _moved(value, width, rng) for letter, value in point.values.items()}
        try:
            for condition in line.conditions:
                if condition.draw is not None and condition.test is None:
                    condition.draw(trial)
            for one in _definitions(line):
                trial[one.left] = value_at(one.right, trial)
            value = _slack(line, trial) if all(one.holds(trial) for one in line.conditions) else slack
        except (ValueError, ZeroDivisionError):
            value = slack
        if value < slack:
            slack, point = value, trial
        else:
            width *= 0.93
    return slack, point


def _moved(value: Any, width: float, rng: Random) -> Any:
    if isinstance(value, mpmath.mpf):
        return value * mpmath.exp(width * rng.gauss(0, 1))
    if isinstance(value, mpmath.matrix):
        factor = mpmath.exp(width * rng.gauss(0, 1) / 2)
        return value * factor
    return value


# Limits and orders


def _limit_of(line: Line) -> tuple[Any, Any]:
    return line.parameter if isinstance(line.parameter, tuple) else (line.parameter, sympy.oo)


def _judge_limit(line: Line, seed: int) -> Verdict:
    parameter, target = _limit_of(line)
    if (exact := _exact_limit(line, parameter, target)) is not None:
        return exact
    return _fitted(line, seed, parameter, target, order=line.order)


def _exact_limit(line: Line, parameter: Symbol, target: Any) -> Verdict | None:
    """The verdict by the powers of the parameter in the difference; None where the algebra does not decide it."""
    try:
        rules = _rules(line)
        left, right = reduced(line.left, rules), reduced(line.right, rules)
        if not (isinstance(left, TracePolynomial) and isinstance(right, TracePolynomial)) or target not in (0, sympy.oo):
            return None
        orders = collect(left - right, parameter)
    except (ValueError, TypeError):
        return None
    powers = [power if target == 0 else -power for power, rest in orders.items() if rest]
    lowest = min(powers, default=None)
    if lowest is None or (lowest > 0 and (line.order is None or lowest == line.order)):
        if lowest is None and line.order is not None:
            return Verdict("fails", "the two sides are equal: there is no next order")
        return Verdict("exact", "by the powers of the parameter", 0.0)
    return None


def _fitted(line: Line, seed: int, parameter: Symbol, target: Any, order: Any) -> Verdict:
    power = isinstance(order, int | float | sympy.Number) and order != 0
    near = max(1.0, float(order) / 2) if power else 1.0  # a high order leaves nothing to see far out
    steps = [10.0 ** (k / near) for k in (3, 4, 5, 6)]
    deviation, count, where = 0.0, 0, None
    for point in islice(points_of(line, seed), 12):
        errors = []
        try:
            _ = value_at(line.left, point), value_at(line.right, point)  # draws every letter once
            for step in steps:
                trial = Point(point.sizes, point.rng)
                trial.values = dict(point.values)
                trial[parameter] = mpmath.mpf(step) if target == sympy.oo else as_number(target) + 1 / mpmath.mpf(step)
                for one in _definitions(line):
                    if one.left != parameter:
                        trial[one.left] = value_at(one.right, trial)
                one, other = value_at(line.left, trial), value_at(line.right, trial)
                errors.append(max((abs(a - b) for a, b in zip(_flat(one, other), _flat(other, one), strict=True)), default=mpmath.mpf(0)))
        except (ValueError, ZeroDivisionError, OverflowError):
            continue
        count += 1
        if all(error < mpmath.mpf("1e-26") for error in errors):
            continue
        if order is None or power:
            slope = near * float(mpmath.log10(errors[-2] / errors[-1])) if errors[-1] else float("inf")
            off = 0.0 if order is None and slope > 0.05 else abs(slope - float(order)) if order is not None else 1.0
        else:
            function = sympy.sympify(order or 1)
            places = [sympy.Float(step if target == sympy.oo else 1 / step, DIGITS) for step in steps]
            scales = [value_at(function.subs(parameter, place), point) for place in places]
            ratios = [error / scale for error, scale in zip(errors, scales, strict=True)]
            off = float(abs(ratios[-1] / ratios[-2] - 1))
        if off > 0.1:
            return Verdict("fails", "the fitted order is another one" if order is not None else "the two sides do not meet", off, point)
        if off >= deviation:
            deviation, where = off, point
    if not count:
        return Verdict("assumed", "not judged: no point meets the conditions")
    return Verdict("numeric", f"order fitted at {count} points over {len(steps)} values of the parameter", deviation, where)


def as_number(value: Any) -> Any:
    return mpmath.mpf(sympy.Rational(value).p) / sympy.Rational(value).q


def _judge_definition(line: Line, seed: int) -> Verdict:
    return Verdict("assumed", "a definition")


_JUDGES: dict[str, Callable[[Line, int], Verdict]] = {
    "=": _judge_equality,
    "!=": _judge_difference,
    ":=": _judge_definition,
    "=>": _judge_implication,
    "<=>": _judge_equivalence,
    **dict.fromkeys(("<", "<=", ">", ">="), _judge_inequality),
    "->": _judge_limit,
    "~": _judge_limit,
}
