r"""A proof in, a verdict on each of its lines out.

>>> from pathlib import Path
>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     file = Path(folder, "proof.txt")
...     _ = file.write_text("let A: symmetric\nE[S A S] = Lambda A Lambda + (Lambda A Lambda + tr(A Lambda) Lambda)/N\n  = Lambda A")
...     [line.status for line in judged(file)]
['exact', 'fails']
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import mpmath
import sympy
from sympy import Basic, Expr, S, Symbol
from sympy.matrices.expressions import MatrixSymbol

from ..algebra.syntax import WORDS, Grammar, Node, Token, Unreadable, tokens_of
from ..calculus import eigenvalue, moment
from ..derivations import Condition, E, Line, Point
from ..derivations.draws import along_one_eigenvector
from ..derivations.heads import Head, MatrixExpectation, ScalarExpectation, heads_in
from ..derivations.judging.exact import Case
from ..derivations.judging.trial import Verdict, points_of
from ..expectation.laws import ancestors
from ..notation import D, Lambda, Lambda_hat, M, T, a, beta, e, e_d, lambda_, w, x_q, y_q
from .assumptions import Bound, at_most_D, conditions_of, size_of_matrices
from .counterexamples import counterexample, letters_of, numbers_at, sizes_of
from .documents import MAX_LENGTH, Statement, statements
from .doubts import ORDERS, SIZES, SPECTRAL, Doubts
from .latex_tokens import latex_tokens
from .letters import LAWS_OF_PAPER, Letters, is_matrix, is_symmetric_formula, key_of, names_in
from .meaning import Meaning, is_polynomial, letters_of_law

STATUSES = ("exact", "numeric", "sampled", "assumed", "fails", "unread")
PAPER_DEFINITIONS = {beta: Lambda_hat * w, y_q: w.T * x_q, M: E(Lambda_hat**2)}


@dataclass(frozen=True)
class JudgedLine:
    """One line of a proof: its number, its text, its status, and why; ``point`` gives the letters of a counterexample their values."""

    number: int
    text: str
    status: str
    residual: float | None = None
    reason: str = ""
    point: dict[str, Any] | None = None


def judged(path: Path, *, seed: int = 0) -> list[JudgedLine]:
    """The verdict on each line of a proof in a file that ends in .txt, .md or .tex."""
    return list(judgements(statements(Path(path)), seed=seed))


def judgements(said: list[Statement], *, seed: int = 0) -> Iterator[JudgedLine]:
    """The verdict on each line of what a proof says, one after the other."""
    return _Proof(said, seed).lines()


def report(lines: Iterable[JudgedLine]) -> dict[str, Any]:
    """The verdicts as JSON has them, with how many there are of each status."""
    lines = list(lines)
    return {"lines": [asdict(line) for line in lines], "summary": {one: sum(line.status == one for line in lines) for one in STATUSES}}


@dataclass(frozen=True)
class _Sides:
    """One of the formulas of a statement as read, from ``start`` to ``stop`` of its text, the place of a limit, and its conditions."""

    statement: Statement
    sides: list
    relations: list
    start: int = 0
    stop: int | None = None
    approach: Any = None
    order: Node | None = None
    conditions: tuple = ()
    implies: bool = False
    problem: Unreadable | None = None

    def text_of(self, i: int) -> str:
        """The text of one relation, with the sides on both hands of it."""
        ends = [self.start, *(one.position for one in self.relations), self.stop]
        return " ".join(self.statement.text[ends[i] : ends[min(i + 2, len(ends) - 1)]].replace("&", " ").split())


class _Proof:
    def __init__(self, found: list[Statement], seed: int):
        self.statements, self.seed = found, seed
        self.letters = Letters()
        self.meaning = Meaning(self.letters)
        self.assumptions: list[Bound] = []
        self.doubts = Doubts(self.letters, self.meaning)
        self.definitions: list[Line] = []
        self.seen: set = set()  # letters of the lines so far

    def lines(self) -> Iterator[JudgedLine]:
        """The declarations of the whole file first; then its lines in order."""
        for one in self.statements:
            if one.kind == "let":
                self.letters.declare(one.text, latex_tokens if one.latex else tokens_of)
        read = [formula for one in self.statements if one.kind != "let" for formula in self._read(one)]
        self.letters.settle(tuple(one.sides) for one in read)
        self.meaning.settle()
        previous: Node | None = None
        number = 0
        for one in read:
            if one.statement.kind == "assume":
                self._assume(one)
                continue
            for i in range(max(1, len(one.relations))):
                number += 1
                try:
                    status, *verdict = self._judged(one, i, previous)
                except Unreadable as problem:
                    status, verdict = "unread", [None, _at(one.statement, str(problem), problem.position)]
                yield JudgedLine(number, one.text_of(i), status, *verdict)
            previous = one.sides[-1] if one.sides else None

    def _tokens(self, statement: Statement) -> list[Token]:
        if not statement.latex:
            return tokens_of(statement.text)
        return latex_tokens(statement.text, {name for name, _ in self.letters.declared})

    def _read(self, statement: Statement) -> list[_Sides]:
        """The formulas of a statement; what stands behind one of them is said of all."""
        try:
            if len(statement.text) > MAX_LENGTH:
                raise Unreadable(f"it has {len(statement.text)} characters; at most {MAX_LENGTH} are read", None)
            tokens = self._tokens(statement)
            formulas, *annotations = formulas_of(self.letters.grammar(tokens))
            if self.letters.name_values(formulas, tokens, statement.text):
                formulas, *annotations = formulas_of(self.letters.grammar(tokens))
        except Unreadable as problem:
            return [_Sides(statement, [], [], problem=problem)]
        stops = [*(start for start, *_ in formulas[1:]), len(statement.text)]
        implies = any(one.text in ("=>", "<=>") for *_, relations in formulas for one in relations)
        return [
            _Sides(statement, *formula[1:], formula[0], stop, *annotations, implies) for formula, stop in zip(formulas, stops, strict=True)
        ]

    # Assumptions

    def _assume(self, one: _Sides) -> None:
        try:
            self.assumptions += self._bounds_in(one)
        except (ValueError, TypeError) as problem:
            self.doubts.assumptions.append(f"the assumption {one.statement.text!r} cannot be read: {problem}")

    def _bounds_in(self, one: _Sides) -> list[Bound]:
        if one.problem:
            raise one.problem
        if not one.relations or None in one.sides or any(relation.text not in (*ORDERS, "!=", "=") for relation in one.relations):
            raise Unreadable("an assumption is an inequality such as N > D + 1")
        values = [self.meaning.expanded(self.meaning.of(side)) for side in one.sides]
        if any(map(is_matrix, values)):
            raise Unreadable("an assumption is about numbers")
        found = [Bound(left, relation.text, right) for left, relation, right in zip(values, one.relations, values[1:], strict=False)]
        if any(bound.relation == "=" and bound.bounded() is None for bound in found):
            raise Unreadable("an assumed equation gives one letter its value, such as N = 2 D")
        return found

    # Lines

    def _judged(self, one: _Sides, i: int, previous: Node | None) -> tuple:
        """(status, residual, reason, point) of the relation with index i; Unreadable where it has none."""
        if not one.relations:
            raise one.problem or Unreadable("it has no relation", None)
        first = one.sides[i] or previous
        if first is None:
            raise Unreadable("it begins with a relation, and no line stands before it", None)
        relation = one.relations[i]
        try:
            line = self._line(one, i, first, relation.text)
        except Exception as problem:  # whatever SymPy raises, the other lines are still judged
            if relation.text in ("=", ":="):
                self._forget(first)
            place = getattr(problem, "position", relation.position)
            raise Unreadable(str(problem), place if one.sides[i] or place else relation.position) from None
        if line.relation == ":=":
            return "assumed", None, line.reason, None
        try:
            return self._verdict(line)
        except Unreadable:
            raise
        except Exception as problem:  # whatever SymPy raises, the other lines are still judged
            raise Unreadable(f"it could not be judged: {problem}", None) from None

    def _verdict(self, line: Line) -> tuple:
        if line.relation not in ("=", "!=") and next(points_of(Case(line, self.seed), count=5), None) is None:
            raise Unreadable("no point was found that meets the assumptions", None)
        verdict = line.verify(seed=self.seed)
        self.seen |= letters_of(line)
        if verdict.status == "assumed" or (verdict.status == "fails" and (doubt := self.doubts.about(line, verdict))):
            raise Unreadable(verdict.method if verdict.status == "assumed" else doubt, None)
        if verdict.status in ("numeric", "sampled") and line.relation in ("<", ">"):
            if point := self.doubts.equal_where(line, "one"):
                verdict = Verdict("fails", "the two sides are equal there", 0.0, point)
            elif self.doubts.equal_where(line, "zero"):
                raise Unreadable("the two sides are equal where letters are 0: write <= or >=, or assume that they are not", None)
        residual = float(verdict.residual) if verdict.residual is not None and mpmath.isfinite(verdict.residual) else None
        if verdict.status == "fails":
            meant = sorted(map(str, (self.meaning.used(line) & LAWS_OF_PAPER.keys()) - self.letters.settled))
            reason = counterexample(line, verdict) + f"; {', '.join(meant)} as in the paper" * bool(meant)
            return "fails", residual, reason, numbers_at(line, verdict.point)
        return verdict.status, residual, verdict.method, None

    def _forget(self, first: Node) -> None:
        """A letter whose definition, or equation, cannot be read: what it is is not known in later lines."""
        if first.kind == "name":
            known = self.letters._known(first.parts[0])
            self.doubts.unknown |= {first.parts[0].text, *([str(known)] if isinstance(known, Basic) else [])}

    def _line(self, one: _Sides, i: int, first: Node, relation: str) -> Line:
        second = one.sides[i + 1]
        if relation == ":=":
            return self._definition(first, second)
        if one.implies:
            raise Unreadable("implications are not read: write what follows as a line, with assume before it", one.relations[i].position)
        if self._introduces(first, second, relation):
            line = self._definition(first, second)
            return Line(line.left, ":=", line.right, f"taken as the definition of {line.left}, which no line before it uses")
        approach = self._approach(one, first, second, relation)
        remainder = None
        if isinstance(approach, tuple) and len(approach) == 3:
            *approach, remainder = approach
            second = second if _order_in(second) is None else _without_order(second)
        if first.kind == "big" and first.parts[0] == "lim_" and relation == "=":
            token, target = first.parts[1]
            approach, relation, first = self._target((token, target)), "->", first.parts[2]
        left, right = self.meaning.both(first, second)
        if is_matrix(left) != is_matrix(right) and 0 not in (left, right):
            raise Unreadable("a number on one side, a matrix on the other", one.relations[i].position)
        if is_matrix(left) and is_matrix(right) and tuple(left.shape) != tuple(right.shape):
            raise Unreadable(f"the sides have the shapes {tuple(left.shape)} and {tuple(right.shape)}", one.relations[i].position)
        if relation in ORDERS and (is_matrix(left) or is_matrix(right)):
            raise Unreadable("matrices are not ordered", one.relations[i].position)
        options: dict[str, Any] = {}
        if remainder is not None:
            difference = sympy.MatAdd(left, -right) if is_matrix(left) else left - right  # of O(N^-k): it goes to 0 with N^(k-1)
            left, right, relation = difference * approach[0] ** (sympy.sign(remainder) - remainder), S.Zero, "->"
        elif relation == "~":
            if one.order is not None:
                options["order"] = self.meaning.of(one.order)
            elif is_matrix(left):
                raise Unreadable("~ between matrices needs an order: write (N -> infinity, up to order 2)", one.relations[i].position)
            else:
                left, right, relation = left / right, S.One, "->"
        elif relation == "->" and one.order is not None:
            options["order"] = self.meaning.of(one.order)
        if relation in ("->", "~"):
            if approach is None:
                raise Unreadable(f"{relation} needs its limit: write (N -> infinity) behind it", one.relations[i].position)
            letter, target = approach
            if letter in sizes_of(letters_of(left) | letters_of(right)):
                raise Unreadable(f"{letter} is the size of a matrix, and has no limit here", one.relations[i].position)
            laws = {**LAWS_OF_PAPER, **self.meaning.laws}
            used = self.meaning.used(Line(left, "=", right))
            random = (_outside(left) | _outside(right)) & laws.keys()
            random |= set().union(*(ancestors(one, laws) for one in random)) & laws.keys()
            if any(letter in letters_of_law(laws[one]) for one in random):
                raise Unreadable(f"a limit in {letter} of what is random, outside of an expectation", one.relations[i].position)
            if letter not in used.union(*(letters_of_law(laws[one]) for one in used & laws.keys())):
                raise Unreadable(f"{letter} goes to its limit, and stands on neither side", one.relations[i].position)
            options["parameter"] = letter if target == sympy.oo else (letter, target)
        if isinstance(right, Head) and not isinstance(left, Head) and relation in ("=", "!="):
            left, right = right, left
        plain = Line(left, relation, right, **options)
        own = [bound for condition in one.conditions for bound in self._bounds_in(_Sides(one.statement, *condition))]
        conditions = self._conditions_of(plain, own)
        return Line(left, relation, right, conditions=tuple(conditions), earlier=tuple(self._earlier(plain)), **options)

    def _definition(self, first: Node, second: Node) -> Line:
        while first.kind == "bracket":
            first = first.parts[0]
        if first.kind != "name":
            raise Unreadable("a definition gives a value to one letter", first.position)
        value = self.meaning.expanded(self.meaning.of(second))
        letter = self.letters.define(first.parts[0], value)
        if self.meaning.values.get(letter) == value:
            return Line(letter, ":=", value, "a definition, for the second time")
        given = {*self.meaning.laws, *SIZES, *(LAWS_OF_PAPER.keys() & self.seen)}.union(*map(letters_of_law, self.meaning.laws.values()))
        symmetric = getattr(letter, "is_symmetric_letter", False)
        faults = {
            f"{letter} has a value already": letter in self.meaning.values,
            f"{letter} has a meaning already": letter in given,
            f"the value of {letter} holds {letter} itself": letter in getattr(value, "free_symbols", ()),
            f"{letter} was used before it is given a value": letter in self.seen,
            f"{letter} and its value have different shapes": value != 0 and is_matrix(letter) != is_matrix(value),
            f"{letter} is symmetric, its value is not": value != 0 and symmetric and not is_symmetric_formula(value),
        }
        if fault := next((reason for reason, found in faults.items() if found), ""):
            raise Unreadable(fault, first.position)
        self.meaning.values[letter] = value
        line = Line(letter, ":=", value, "a definition")
        self.definitions.append(line)
        return line

    def _introduces(self, first: Node, second: Node, relation: str) -> bool:
        """Does a line such as C = A B give a letter its value, one that nothing has declared or used?"""
        if relation != "=" or first.kind != "name" or first.parts[0].text in ("I", "S"):
            return False
        token = first.parts[0]
        if self.letters.is_declared(token):
            return False
        if self.letters._known(token) is None:
            return not any(one[0] == token.text for one in map(key_of, names_in(second)))
        symbol = self.letters.of(token)
        known = {Lambda, *LAWS_OF_PAPER, *SIZES, *SPECTRAL, *self.meaning.values, *self.seen}
        return symbol not in known and symbol not in letters_of(self.meaning.of(second))

    def _approach(self, one: _Sides, first: Node, second: Node, relation: str) -> Any:
        """(letter, target) of a limit; (letter, target, order) of a remainder O(N^-2) on the right side."""
        behind = one.order.parts[0] if one.order is not None and one.order.kind == "order" else None  # (N -> infinity, O(N^-2))
        if (order := _order_in(second) or behind) is not None:
            inner = self.meaning.of(order)
            letters = sorted(inner.free_symbols, key=str) if isinstance(inner, Expr) else []
            if len(letters) != 1 or relation not in ("=", "~", "->"):
                raise Unreadable("O(...) holds a power of one letter, such as O(N^-2)", order.position)
            letter = letters[0]
            exponent = sympy.cancel(letter * sympy.diff(inner, letter) / inner)
            if not exponent.is_Integer or exponent == 0:
                raise Unreadable("O(...) holds a whole power of one letter, such as O(N^-2)", order.position)
            target = S.Zero if exponent > 0 else sympy.oo
            if one.approach is not None and self._target(one.approach) != (letter, target):
                raise Unreadable("O(...) and the limit of the line are about different letters", order.position)
            return letter, target, exponent
        if one.approach is not None:
            return self._target(one.approach)
        value = one.relations[0].value
        return self._target(value) if relation in ("->", "~") and isinstance(value, tuple) else None

    def _target(self, approach: Any) -> tuple[Any, Any]:
        token, target = approach
        value = self.meaning.of(target)
        if not (value == sympy.oo or getattr(value, "is_number", False)):
            raise Unreadable("a limit goes to a number, or to infinity", target.position)
        return self.meaning.letter(token), value

    # What a line is judged with

    def _earlier(self, line: Line) -> list[Line]:
        """The definitions of the letters in a line, and of the letters in those."""
        used = self.meaning.used(line)
        paper = [Line(letter, ":=", value, "the paper's") for letter, value in PAPER_DEFINITIONS.items() if letter in self._plain(line)]
        return [*paper, *(one for one in self.definitions if one.left in used)]

    def _plain(self, line: Line) -> set:
        """The undeclared letters outside of expectations."""
        declared = set(self.letters.symbols.values()) | self.meaning.values.keys()
        return (_outside(line.left) | _outside(line.right)) - declared

    def _conditions_of(self, line: Line, bounds: list[Bound]) -> list[Condition]:
        """What the letters and the expectations of a line demand, and the assumptions about its letters."""
        used = self.meaning.used(line)
        found = [size_of_matrices(size) for size in sorted(sizes_of(used) - SIZES, key=str)]
        found += [condition for letter, condition in self.letters.conditions.items() if letter in used]
        declared = set(self.letters.symbols.values())
        if (used - declared) & SPECTRAL:
            found.append(Condition("lambda_d are the eigenvalues of Lambda", draw=lambda point: _draw_spectrum(point, declared)))
        sums = set().union(*(side.atoms(sympy.Sum) for side in (line.left, line.right) if isinstance(side, Basic)))
        ends = {high for one in sums if one.has(eigenvalue, moment) for _, _, high in one.limits if isinstance(high, Symbol)}
        found += map(at_most_D, ends - {D})
        for side in (line.left, line.right):
            for head in heads_in(side):
                try:
                    conditions = getattr(head.apply(), "conditions", frozenset())
                except (ValueError, TypeError, NotImplementedError) as problem:
                    if isinstance(head, ScalarExpectation | MatrixExpectation) and is_polynomial(head.args[0]):
                        raise Unreadable(str(problem), None) from None  # samples of a high degree, or of inverses, say too little
                    continue
                bounds += [Bound(one.lhs, one.rel_op, one.rhs) for one in conditions]
        reached, before = used.union(*(one.letters for one in bounds)), set()
        while reached != before:
            before = set(reached)
            reached |= set().union(*(one.letters for one in self.assumptions if one.letters & reached))
        bounds += [one for one in self.assumptions if one.letters & reached or not one.letters]
        return found + conditions_of(bounds)


def _at(statement: Statement, reason: str, position: int | None) -> str:
    """The reason with its place in the file."""
    line = statement.place + (0 if position is None else statement.text[:position].count("\n"))
    column = "" if position is None else f", character {position - statement.text.rfind(chr(10), 0, position)}"
    return f"line {line}{column}: {reason}"


def formulas_of(grammar: Grammar) -> tuple[list, Any, Node | None, tuple]:
    """(start, sides, relations) of each formula, and what is said behind: as N -> infinity, (N -> infinity, up to order 2), for N > D."""
    formulas: list = [(0, *grammar.sides())]
    approach, order, conditions, opened, word = None, None, [], False, ""
    while (token := grammar.here).kind != "end":
        following, behind = (*grammar.tokens[grammar.at + 1 : grammar.at + 3], token)[:2]
        if token.text == "order":
            grammar.at += 1
            order = grammar.sum()
        elif token.text == "O" and following.text == "(":
            order = grammar.product()
        elif token.text in WORDS or token.text == "," or (opened and token.text == ")"):
            word = token.text
            grammar.at += 1
        elif token.text == "(" and behind.text == "->":
            grammar.at, opened = grammar.at + 1, True
        elif token.kind == "name" and following.text == "->":
            grammar.at += 2
            approach = token, grammar.sum()
        else:
            before = grammar.at
            sides, relations = grammar.sides()
            signs = {one.text for one in relations}
            if word in (",", "where", "and", "with") and signs & {"=", ":="} and formulas[0][2]:
                formulas.append((token.position, sides, relations))
                continue
            if not signs or not signs <= {*ORDERS, "="}:
                grammar.at = before
                grammar.fail("one statement in a line, or a condition such as N > D + 1")
            conditions.append((sides, relations))
    return formulas, approach, order, tuple(conditions)


def _draw_spectrum(point: Point, declared: set) -> None:
    along_one_eigenvector(point)
    point[e_d] = point[e]
    for letter in declared & {lambda_, a, e, e_d, T, M} & set(point.values):
        del point.values[letter]  # its declaration says something else


def _outside(side: Any) -> set:
    """The matrix letters of a formula that stand in no expectation."""
    if isinstance(side, MatrixSymbol):
        return {side}
    if isinstance(side, ScalarExpectation | MatrixExpectation) or not isinstance(side, Basic):
        return set()
    return set().union(*map(_outside, side.args))


def _order_in(node: Node) -> Node | None:
    """The argument of O(...) that ends a sum."""
    last = node.parts[-1] if node.kind == "sum" else node
    return last.parts[0] if isinstance(last, Node) and last.kind == "order" else None


def _without_order(node: Node) -> Node:
    if node.kind != "sum":
        return Node("number", (Token("number", "0", node.position),), node.position)
    return node.parts[0] if len(node.parts) == 2 else Node("sum", node.parts[:-1], node.position)
