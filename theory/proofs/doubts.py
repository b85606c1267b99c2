"""What speaks for a line that fails: letters that something else settles, and points that are no counterexamples.

A failure that is none is the worst answer; where there is a doubt, a line is unread.
"""

from dataclasses import replace
from random import Random
from typing import Any

import mpmath
import sympy
from sympy import Basic, Expr, Limit, Symbol
from sympy.matrices.expressions import MatrixSymbol

from ..calculus import eigenvalue, moment
from ..derivations import Condition, Line, Point, value_at
from ..derivations.draws import eigenvalues_drawn
from ..derivations.heads import MatrixGradient, ScalarGradient, heads_in
from ..derivations.judging.trial import Verdict
from ..expectation.laws import ancestors
from ..notation import B, D, H, Lambda, Lambda_hat, M, N, R, T, a, e, e_d, lambda_, symmetric_matrix
from .counterexamples import letters_of, sizes_of
from .letters import LAWS_OF_PAPER, PAPER, Letters, is_symmetric
from .meaning import Meaning, letters_of_law

ORDERS = ("<", "<=", ">", ">=")
ROUNDING = 1e-9  # a relative difference below it is no counterexample
SPECTRAL = {lambda_, a, e, e_d, T, eigenvalue, moment}  # the paper's letters that belong to Lambda
SIZES = {D, N, H, R}
# The paper's letters with a meaning beyond their shape, which no line of a proof shows
OTHERS_OF_PAPER = (
    {one for one in PAPER.values() if isinstance(one, Symbol | MatrixSymbol)} - SPECTRAL - SIZES - {B, Lambda, M, *LAWS_OF_PAPER}
)


class Doubts:
    """Why a line that fails may still be right in what its author means.

    ``unknown``: names of letters whose equations cannot be read, or that an equation ties to others; ``assumptions``: those that
    cannot be read, in words.
    """

    def __init__(self, letters: Letters, meaning: Meaning):
        self.letters, self.meaning = letters, meaning
        self.unknown: set[str] = set()
        self.assumptions: list[str] = []

    def about(self, line: Line, verdict: Verdict) -> str:
        """Why a line that fails may still be right in what its author means; empty if nothing speaks for that."""
        if self.assumptions:
            return self.assumptions[0]
        if unknown := sorted(self.unknown & set(map(str, self.meaning.used(line)))):
            return f"what {unknown[0]} is stands in a line that could not be read"
        meant = self.meaning.used(line) & OTHERS_OF_PAPER - set(self.letters.symbols.values()) - self.meaning.values.keys()
        if meant := sorted(map(str, meant)):
            return f"{meant[0]} has a meaning in the paper that nothing says here: let {meant[0]}: ..., or {meant[0]} := ..."
        if "no point meets" in verdict.method:
            return "no point was found that meets the assumptions"
        left, right = self._meant(line.left, line), self._meant(line.right, line)
        heads = [bool(_acting(side)) for side in (line.left, line.right)]
        missing: set = set()
        if line.relation in ("=", "!=") and not all(heads):
            missing = (right - left if heads[0] else left - right) if any(heads) else left ^ right
        if any(heads) and 0 not in (line.left, line.right):
            missing |= (left ^ right) - self.letters.settled - LAWS_OF_PAPER.keys() - self.meaning.laws.keys()
        if missing:
            self.unknown |= set(map(str, missing - {Lambda}))
            names = ", ".join(sorted(map(str, missing)))
            return f"{names} on one side only: say what it is, by a definition {min(map(str, missing))} := ... or in the line"
        if line.relation in ("=", "!=") and any(map(_differentiates, (line.left, line.right))) and 0 in (line.left, line.right):
            return "an equation to be solved, or a claim? A derivative that is 0 everywhere was not meant"
        alone = [isinstance(side, Symbol | sympy.Number | sympy.Indexed) for side in (line.left, line.right)]
        ways = ((line.left, line.right), (line.right, line.left))
        given = line.relation == "=" and any(isinstance(one, Symbol | MatrixSymbol) and not letters_of(other) for one, other in ways)
        if given or (line.relation in ORDERS and all(alone)):
            self.unknown |= set(map(str, letters_of(line)))
            return "a claim about letters alone, or an assumption? Write assume before it"
        if lawless := sorted(map(str, self._lawless(line))):
            return f"{lawless[0]} stands in an expectation and has no law: let {lawless[0]}: Gaussian(0, Sigma), or a constant vector"
        if any(_differentiates(side, symmetric=True) for side in (line.left, line.right)):
            return "the derivative in a symmetric matrix has several conventions, and the line does not hold in ours"
        if guessed := sorted(map(str, self.meaning.used(line) & self.letters.guessed)):
            return f"the size of {guessed[0]} does not follow from its use: let {guessed[0]}: ... can say it"
        if symmetric := self._would_hold(line):
            return symmetric
        if verdict.point is None:
            return ""
        close = verdict.residual is not None and abs(verdict.residual) < ROUNDING
        if close and verdict.residual and line.relation in ("=", "<=", ">="):
            return f"the two sides differ by {verdict.residual:.1g}, too little to tell from rounding"
        if close and line.relation in ("<", ">") and not self.equal_where(line, "one"):
            return "the two sides come closer than rounding can tell"
        if "samples" in verdict.method and any(_singular(side) for side in (line.left, line.right)):
            return "the expectation has an inverse, whose samples say too little"
        for side in (line.left, line.right):
            try:
                value = value_at(side, verdict.point)
                if any(isinstance(one, mpmath.mpc) for one in (value if isinstance(value, mpmath.matrix) else [value])):
                    return "the two sides are complex at some points: declare the letters as positive"
            except (ValueError, ZeroDivisionError, OverflowError):
                continue
        return ""

    def _would_hold(self, line: Line) -> str:
        """What nothing says of matrices that nothing declares, and would make the line true."""
        used = self.meaning.used(line)
        open_ = used - self.letters.settled - LAWS_OF_PAPER.keys() - self.meaning.values.keys() - {Lambda, M}
        free = [one for one in sorted(open_, key=str) if isinstance(one, MatrixSymbol) and one.rows == one.cols and not is_symmetric(one)]
        groups = [*([one] for one in free), free][:4] if free else []
        for group in groups:
            names = ", ".join(map(str, group))
            if _with(line, {one: symmetric_matrix(one.name, one.shape[0]) for one in group}).verify():
                return f"it holds if {names} is symmetric, of which nothing is said: let {names}: symmetric, or D x D"
        if not used & ({lambda_, a} - self.letters.settled):
            return ""
        if not used & {e, e_d}:
            return "lambda is the eigenvalue of an eigenvector e of Lambda in the paper, which the line does not name: let lambda: positive"
        shared = {one: Symbol(f"{one}_d", real=True) for one in free}
        along = Condition("All matrices are diagonal in one basis", draw=lambda point: eigenvalues_drawn(point, shared))
        if free and replace(line, conditions=(*line.conditions, along)).verify():
            return f"it holds where {', '.join(map(str, free))} and Lambda have the same eigenvectors, of which nothing is said"
        return ""

    def _lawless(self, line: Line) -> set:
        """Undeclared vectors in an expectation that have no law: constants, or is their law known from elsewhere?"""
        inside = set().union(*(head.args[0].free_symbols for side in (line.left, line.right) for head in heads_in(side)))
        vectors = {one for one in inside if isinstance(one, MatrixSymbol) and one.shape[1] == 1}
        assumed = {self.letters.symbols.get(one.name) for one in self.letters.declared.values() if one.assumed and not one.law}
        return (vectors & assumed) - LAWS_OF_PAPER.keys() - self.meaning.laws.keys()

    def _meant(self, side: Any, line: Line) -> set:
        """The letters that a side is about: values in place of defined letters, sizes and parameters of laws apart."""
        found = letters_of(self.meaning.expanded(side)) if isinstance(side, Expr) else set()
        for law in [law for one, law in {**LAWS_OF_PAPER, **self.meaning.laws}.items() if one in found]:
            found |= law.parents | letters_of_law(law)
            found |= ancestors(law.symbol, {**LAWS_OF_PAPER, **self.meaning.laws})
        if M in found - set(self.letters.symbols.values()):  # E(Lambda_hat^2)
            found = found - {M} | {Lambda}
        tied = {Lambda, M, *SPECTRAL} if any(found & SPECTRAL for found in map(letters_of, (line.left, line.right))) else set()
        return {one for one in found - tied - sizes_of(found) - SIZES if not getattr(one, "is_integer", False)}

    def equal_where(self, line: Line, kind: str) -> Point | None:
        """A point inside the conditions where the sides are equal, with all letters 1 and all matrices I, or all of them 0."""
        letters = [one for one in letters_of(line) if isinstance(one, Symbol | MatrixSymbol) and not getattr(one, "is_integer", False)]
        point = Point({D: 2, N: 5, H: 2, R: 1}, Random(0))
        try:
            for letter in letters:
                if letter not in self.meaning.values and letter not in SIZES:
                    point[letter] = _special(letter, point, kind)
            for definition in line.earlier:
                point[definition.left] = value_at(definition.right, point)
            inside = all(condition.holds(point) for condition in line.conditions)
            return point if inside and value_at(line.left, point) == value_at(line.right, point) else None
        except (ValueError, ZeroDivisionError, TypeError, OverflowError):
            return None


def _with(line: Line, letters: dict) -> Line:
    """The line with other letters, in its definitions too."""
    left, right = (side.xreplace(letters) if isinstance(side, Basic) else side for side in (line.left, line.right))
    return replace(line, left=left, right=right, earlier=tuple(_with(one, letters) for one in line.earlier))


def _special(letter: Any, point: Point, kind: str) -> Any:
    """0, or 1 where the letter is positive; a matrix of zeros or the identity."""
    positive = getattr(letter, "is_positive", False)
    if not isinstance(letter, MatrixSymbol):
        return mpmath.mpf(1 if kind == "one" or positive else 0)
    rows, columns = (point.size(size) for size in letter.shape)
    if letter in (Lambda, Lambda_hat, M) or kind == "one":
        return mpmath.matrix([[mpmath.mpf(i == j) for j in range(columns)] for i in range(rows)])
    return mpmath.zeros(rows, columns)


def _acting(side: Any) -> set:
    """Operations that are not carried out."""
    if not isinstance(side, Basic):
        return set()
    return heads_in(side) | side.atoms(sympy.Derivative, sympy.Integral, Limit)


def _differentiates(side: Any, symmetric: bool = False) -> bool:
    if not isinstance(side, Basic):
        return False
    found = [one for one in sympy.preorder_traversal(side) if isinstance(one, MatrixGradient | ScalarGradient | sympy.Derivative)]
    return any(getattr(one.args[1], "is_symmetric_letter", False) for one in found) if symmetric else bool(found)


def _singular(side: Any) -> bool:
    """Is there an inverse inside an expectation?"""
    return any(
        (isinstance(one, sympy.Pow | sympy.MatPow) and one.exp.is_negative) or isinstance(one, sympy.Inverse)
        for head in heads_in(side)
        for one in sympy.preorder_traversal(head.args[0])
    )
