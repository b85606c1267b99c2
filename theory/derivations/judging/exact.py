"""What a line may use, and the exact comparison of its sides under it."""

from dataclasses import replace
from functools import cached_property, reduce
from typing import Any

import sympy
from sympy import Basic, BlockMatrix, Identity, Symbol
from sympy.core.function import AppliedUndef
from sympy.matrices.expressions import MatrixSymbol
from sympy.tensor.indexed import Indexed

from ...algebra.polynomial import TracePolynomial
from ...calculus.equality import equal
from ...calculus.rewriting import rewrite
from ...calculus.substitution import substitute
from ...expectation.laws import laws_by_symbol
from ..book import lookup
from ..heads import Head, as_sympy, carried_out, heads_in

Line = Any  # defined above this module: see ``lines``
Rules = list[tuple[Any, Any]]
PASSES = 20


class Case:
    """A line to be judged with what it may use; the points are drawn with ``seed``.

    Raises ValueError or KeyError for an earlier line or an entry that is not there.
    """

    def __init__(self, line: Line, seed: int):
        self.seed = seed
        used = _used_lines(line)
        self.used = [_opened(one, _used_lines(one)) for one in used]
        self.line = _opened(_with_results(line, used), used)

    @cached_property
    def latest(self) -> list[Line]:
        """The used lines; of those that give one letter a value, only the last."""
        last = {one.left: i for i, one in enumerate(self.used) if _is_letter(one.left)}
        return [one for i, one in enumerate(self.used) if not _is_letter(one.left) or last[one.left] == i]

    @cached_property
    def definitions(self) -> tuple[tuple[Any, Any], ...]:
        """(letter, value) of the used lines, each after those that give values to the letters on its right."""
        waiting = [one for one in self.latest if _is_letter(one.left)]
        ordered = []
        while waiting:
            missing = {one.left for one in waiting}
            ready = (i for i, one in enumerate(waiting) if not (_letters(one.right) & missing) - {one.left})
            ordered.append(waiting.pop(next(ready, 0)))
        return tuple((one.left, one.right.as_immutable() if isinstance(one.right, sympy.MatrixBase) else one.right) for one in ordered)

    @cached_property
    def rules(self) -> Rules:
        """(left, right) of the used lines, but for those by which a number would come back in its own value, and grow without end."""
        found, within = [], {}
        for one in self.latest:
            if isinstance(one.left, Symbol):
                letters = _letters(one.right)
                letters = letters.union(*(within[letter] for letter in letters & within.keys()))
                if one.left in letters:
                    continue
                within = {left: inner | letters if one.left in inner else inner for left, inner in within.items()} | {one.left: letters}
            found.append((one.left, one.right))
        return found


def _used_lines(line: Line) -> list[Line]:
    """The equalities that a line may use: of the entries that it names, which come first, earlier definitions, the lines that it names."""
    found = [stated for use in line.uses if not isinstance(use, int) for stated in lookup(use).stated()]
    found += [one for one in line.earlier if one.relation == ":="]
    for use in line.uses:
        if isinstance(use, int):
            if not 0 <= use < len(line.earlier):
                raise ValueError(f"uses: there is no earlier line {use} in {line}")
            found.append(line.earlier[use])
    return [one for one in found if one.relation in ("=", ":=") and one.left is not None]


def _with_results(line: Line, used: list[Line]) -> Line:
    """The line with the results that it uses in place of operations."""
    results = {one.left: as_sympy(one.right) for one in used if isinstance(one.left, Head)}
    sides = {name: getattr(line, name) for name in ("left", "right")}
    changed = {
        name: side.xreplace(results) for name, side in sides.items() if isinstance(side, Basic) and not isinstance(side, sympy.MatrixBase)
    }
    return replace(line, **changed) if results else line


def _opened(line: Line, used: list[Line]) -> Line:
    """The line with each function that a line defines in place of it, and each scalar letter on which an operation acts: F in dF/dW."""
    letters = {one.left: one.right for one in used if _is_scalar(one.left) and not _has_blocks(one.right)}
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
            one: one.func(one.args[0].xreplace({letter: _like(letter, letters[letter]) for letter in found}), *one.args[1:])
            for one in acting
            if (found := one.args[0].free_symbols & set(letters) - one.args[1].free_symbols)
        }
        if not opened:
            return side
        side = side.xreplace(opened)
    return side


def _is_letter(side: Any) -> bool:
    return isinstance(side, Symbol | MatrixSymbol)


def _letters(side: Any) -> set:
    """The letters in a side, with those in the laws of its expectations."""
    found = set(side.free_symbols) if isinstance(side, Basic | sympy.MatrixBase | TracePolynomial) else set()
    for head in heads_in(side):
        if hasattr(head, "given"):
            found |= set().union(*(law.parents for law in laws_by_symbol(head.args[1].value or None).values() if law.symbol in found))
    return found


# The comparison


def exactly_equal(left: Any, right: Any, rules: Rules, refuted: Any = lambda: False) -> bool:
    """Does the algebra show that two sides are equal under the rules?

    Where it would have to compare scalar expressions, which may take long, it first asks ``refuted``.
    """
    try:
        left, right = reduced(left, rules), reduced(right, rules)
        if isinstance(left, TracePolynomial) and isinstance(right, TracePolynomial):
            no_shape = left.shape is None or right.shape is None  # the number 0 may stand for a matrix of zeros
            return left == right and (left.shape == right.shape or (no_shape and not left.terms))
        if isinstance(left, TracePolynomial) or isinstance(right, TracePolynomial):
            left, right = as_sympy(left), as_sympy(right)
        return not refuted() and equal(left, right)
    except (ValueError, TypeError, NotImplementedError):
        return False


def reduced(side: Any, rules: Rules) -> Any:
    """A side with its operations carried out and the rules applied, until nothing changes."""
    for _ in range(PASSES):
        before = side
        for left, right in rules:
            side = _replaced(side, left, right)
        if side is before or (isinstance(side, Basic) and isinstance(before, Basic) and side == before):
            break
    side = carried_out(side)
    if isinstance(side, BlockMatrix):
        return tuple(tuple(reduced(block, rules) for block in row) for row in side.blocks.tolist())
    letters = {left: right for left, right in rules if _is_letter(left)}
    products = [(left, right) for left, right in rules if not isinstance(left, Symbol | MatrixSymbol | Indexed)]
    for _ in range(PASSES):
        if not isinstance(side, TracePolynomial):
            return side
        present = letters.keys() & side.free_symbols
        if any(_has_blocks(letters[left]) for left in present):
            return reduced(side, rules)
        before = side
        values = {left: carried_out(letters[left]) for left in letters if left in present}
        values = {left: value for left, value in values.items() if isinstance(value, TracePolynomial)}
        side = substitute(side, values) if values else side
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
