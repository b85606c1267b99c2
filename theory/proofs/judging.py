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
from ..calculus.spectral import eigenvalue, moment
from ..derivations.conditions import Condition
from ..derivations.draws import along_one_eigenvector
from ..derivations.heads import E, Head, MatrixExpectation, ScalarExpectation, heads_in
from ..derivations.judging.exact import Case
from ..derivations.judging.trial import Verdict, points_of
from ..derivations.lines import Line
from ..derivations.points import Point
from ..expectation.laws import ancestors
from ..notation import D, Lambda, Lambda_hat, M, T, a, beta, e, e_d, lambda_, w, x_q, y_q
from .assumptions import Bound, at_most_D, conditions_of, size_of_matrices
from .counterexamples import counterexample, letters_of, numbers_at, sizes_of
from .documents import MAX_LENGTH, Statement, statements
from .doubts import ORDERS, SIZES, SPECTRAL, Doubts
from .latex_tokens import latex_tokens
from .letters import LAWS_OF_PAPER, Letters, is_matrix, is_symmetric_formula, key_of, names_in
from .meaning import Meaning, letters_of_law

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
    return list(_Proof(statements(Path(path)), seed).lines())


def report(lines: Iterable[JudgedLine]) -> dict[str, Any]:
    """The verdicts as JSON has them, with how many there are of each status."""
    lines = list(lines)
    return {"lines": [asdict(line) for line in lines], "summary": {one: sum(line.status == one for line in lines) for one in STATUSES}}


@dataclass(frozen=True)
class _Sides:
    """A statement as read: sides and relations, the place of a limit, and conditions of its own."""

    statement: Statement
    sides: list
    relations: list
    approach: Any = None
    order: Node | None = None
    conditions: tuple = ()
    problem: str = ""

    def text_of(self, i: int) -> str:
        """The text of one relation, with the sides on both hands of it."""
        text = self.statement.text.replace("&", " ")
        if len(self.relations) <= 1:
            return " ".join(text.split())
        starts = [0, *(one.position for one in self.relations), len(text)]
        return " ".join(text[starts[i] if i else 0 : starts[i + 2]].split())


class _Proof:
    def __init__(self, found: list[Statement], seed: int):
        self.statements, self.seed = found, seed
        self.letters = Letters()
        self.meaning = Meaning(self.letters)
        self.assumptions: list[Bound] = []
        self.doubts = Doubts(self.letters, self.meaning)
        self.definitions: list[Line] = []
        self.seen: set = set()  # letters of the lines so far
        self.number = 0

    def lines(self) -> Iterator[JudgedLine]:
        """The declarations of the whole file first; then its lines in order."""
        for one in self.statements:
            if one.kind == "let":
                self.letters.declare(one.text, latex_tokens if one.latex else tokens_of)
        read = [self._read(one) for one in self.statements if one.kind != "let"]
        self.letters.settle(tuple(one.sides) for one in read)
        self.meaning.settle()
        previous: Any = None
        for one in read:
            if one.statement.kind == "assume":
                self._assume(one)
                continue
            if not one.relations:
                self.number += 1
                previous = None
                yield JudgedLine(
                    self.number,
                    " ".join(one.statement.text.split()),
                    "unread",
                    reason=one.problem or _at(one.statement, "it has no relation"),
                )
                continue
            for i in range(len(one.relations)):
                self.number += 1
                left = one.sides[i]
                if left is None and previous is None:
                    problem = _at(one.statement, "it begins with a relation, and no line stands before it")
                    yield JudgedLine(self.number, one.text_of(i), "unread", reason=problem)
                    continue
                first = previous if left is None else left
                yield self._judged(one, i, first)
            previous = one.sides[-1]

    def _tokens(self, statement: Statement) -> list[Token]:
        if not statement.latex:
            return tokens_of(statement.text)
        return latex_tokens(statement.text, {name for name, _ in self.letters.declared})

    def _read(self, statement: Statement) -> _Sides:
        try:
            if len(statement.text) > MAX_LENGTH:
                raise Unreadable(f"it has {len(statement.text)} characters; at most {MAX_LENGTH} are read")
            grammar = self.letters.grammar(self._tokens(statement))
            sides, relations = grammar.sides()
            approach, order, conditions = _annotations(grammar)
            return _Sides(statement, sides, relations, approach, order, conditions)
        except Unreadable as problem:
            return _Sides(statement, [], [], problem=_at(statement, str(problem), problem.position))

    # Assumptions

    def _assume(self, one: _Sides) -> None:
        try:
            if one.problem:
                raise Unreadable(one.problem)
            self.assumptions += self._bounds_in(one)
        except (ValueError, TypeError) as problem:
            self.doubts.assumptions.append(f"the assumption {one.statement.text!r} cannot be read: {problem}")

    def _bounds_in(self, one: _Sides) -> list[Bound]:
        if not one.relations:
            raise Unreadable("an assumption is an inequality such as N > D + 1")
        found = []
        for i, relation in enumerate(one.relations):
            if relation.text not in (*ORDERS, "!=", "=") or one.sides[i] is None:
                raise Unreadable("an assumption is an inequality such as N > D + 1")
            left, right = (self.meaning.expanded(self.meaning.of(one.sides[i + k])) for k in (0, 1))
            if is_matrix(left) or is_matrix(right):
                raise Unreadable("an assumption is about numbers")
            bound = Bound(left, relation.text, right)
            if relation.text == "=" and bound.bounded() is None:
                raise Unreadable("an assumed equation gives one letter its value, such as N = 2 D")
            found.append(bound)
        return found

    # Lines

    def _judged(self, one: _Sides, i: int, first: Node) -> JudgedLine:
        relation, text, number = one.relations[i].text, one.text_of(i), self.number
        try:
            line = self._line(one, i, first, relation)
        except Unreadable as problem:
            if relation in ("=", ":="):
                self._forget(first)
            position = problem.position if one.sides[i] is not None or problem.position else one.relations[i].position
            return JudgedLine(number, text, "unread", reason=_at(one.statement, str(problem), position))
        except Exception as problem:  # whatever SymPy raises, the other lines are still judged
            return JudgedLine(number, text, "unread", reason=_at(one.statement, str(problem), one.relations[i].position))
        if line.relation == ":=":
            return JudgedLine(number, text, "assumed", reason=line.reason)
        try:
            if line.relation not in ("=", "!=") and next(points_of(Case(line, self.seed), count=5), None) is None:
                return JudgedLine(number, text, "unread", reason=_at(one.statement, "no point was found that meets the assumptions"))
            verdict = line.verify(seed=self.seed)
        except Exception as problem:  # whatever SymPy raises, the other lines are still judged
            return JudgedLine(number, text, "unread", reason=_at(one.statement, f"it could not be judged: {problem}"))
        self.seen |= letters_of(line)
        if verdict.status == "fails":
            try:
                doubt = self.doubts.about(line, verdict)
            except Exception as problem:  # whatever SymPy raises, a failure that is not understood is none
                doubt = f"it could not be judged: {problem}"
            if doubt:
                return JudgedLine(number, text, "unread", reason=_at(one.statement, doubt))
            reason, point = counterexample(line, verdict), numbers_at(line, verdict.point)
            return JudgedLine(number, text, "fails", _finite(verdict.residual), reason, point)
        if verdict.status == "assumed":
            return JudgedLine(number, text, "unread", reason=_at(one.statement, verdict.method))
        if verdict.status != "exact" and line.relation in ("<", ">"):
            if point := self.doubts.equal_where(line, "one"):
                reason = counterexample(line, Verdict("fails", "the two sides are equal there", 0.0, point))
                return JudgedLine(number, text, "fails", 0.0, reason, numbers_at(line, point))
            if self.doubts.equal_where(line, "zero"):
                reason = "the two sides are equal where letters are 0: write <= or >=, or assume that they are not"
                return JudgedLine(number, text, "unread", reason=_at(one.statement, reason))
        return JudgedLine(number, text, verdict.status, _finite(verdict.residual), verdict.method)

    def _forget(self, first: Node) -> None:
        """A letter whose definition, or equation, cannot be read: what it is is not known in later lines."""
        if first.kind == "name":
            known = self.letters._known(first.parts[0])
            self.doubts.unknown |= {first.parts[0].text, *([str(known)] if isinstance(known, Basic) else [])}

    def _line(self, one: _Sides, i: int, first: Node, relation: str) -> Line:
        second = one.sides[i + 1]
        if relation == ":=":
            return self._definition(first, second)
        if any(other.text in ("=>", "<=>") for other in one.relations):
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
        left, right = self.meaning.of(first), self.meaning.of(second)
        if is_matrix(left) != is_matrix(right) and 0 not in (left, right):
            raise Unreadable("a number on one side, a matrix on the other", one.relations[i].position)
        if is_matrix(left) and is_matrix(right) and tuple(left.shape) != tuple(right.shape):
            raise Unreadable(f"the sides have the shapes {tuple(left.shape)} and {tuple(right.shape)}", one.relations[i].position)
        if relation in ORDERS and (is_matrix(left) or is_matrix(right)):
            raise Unreadable("matrices are not ordered", one.relations[i].position)
        options: dict[str, Any] = {}
        if remainder is not None:
            left, right, relation = _times_power(left, right, approach[0], remainder), S.Zero, "->"
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
        conditions = self._conditions_of(plain, self._own(one))
        return Line(left, relation, right, conditions=tuple(conditions), earlier=tuple(self._earlier(plain)), **options)

    def _own(self, one: _Sides) -> list[Bound]:
        """The conditions that stand behind the line itself."""
        return [bound for sides, relations in one.conditions for bound in self._bounds_in(_Sides(one.statement, sides, relations))]

    def _definition(self, first: Node, second: Node) -> Line:
        while first.kind == "bracket":
            first = first.parts[0]
        if first.kind != "name":
            raise Unreadable("a definition gives a value to one letter", first.position)
        value = self.meaning.expanded(self.meaning.of(second))
        letter = self.letters.define(first.parts[0], value)
        if letter in self.meaning.values:
            if self.meaning.values[letter] == value:
                return Line(letter, ":=", value, "a definition, for the second time")
            raise Unreadable(f"{letter} has a value already", first.position)
        parents = set().union(*map(letters_of_law, self.meaning.laws.values()))
        if letter in self.meaning.laws or letter in parents or letter in SIZES or (letter in LAWS_OF_PAPER and letter in self.seen):
            raise Unreadable(f"{letter} has a meaning already", first.position)
        if letter in getattr(value, "free_symbols", ()):
            raise Unreadable(f"the value of {letter} holds {letter} itself", first.position)
        if letter in self.seen:
            raise Unreadable(f"{letter} was used before it is given a value", first.position)
        if is_matrix(letter) != is_matrix(value) and value != 0:
            raise Unreadable(f"{letter} and its value have different shapes", first.position)
        if getattr(letter, "is_symmetric_letter", False) and value != 0 and not is_symmetric_formula(value):
            raise Unreadable(f"{letter} is symmetric, its value is not", first.position)
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
        if symbol in LAWS_OF_PAPER or symbol in SIZES or symbol in self.meaning.values or symbol in self.seen or symbol == Lambda:
            return False
        if symbol in SPECTRAL:
            return False
        return symbol not in letters_of(self.meaning.of(second))

    def _approach(self, one: _Sides, first: Node, second: Node, relation: str) -> Any:
        """(letter, target) of a limit; (letter, target, order) of a remainder O(N^-2) on the right side."""
        behind = one.order.parts[0] if one.order is not None and one.order.kind == "order" else None  # (N -> infinity, O(N^-2))
        if (order := _order_in(second) or behind) is not None:
            inner = self.meaning.of(order)
            letters = sorted(inner.free_symbols, key=str) if isinstance(inner, Expr) else []
            if len(letters) != 1 or relation not in ("=", "~", "->"):
                raise Unreadable("O(...) holds a power of one letter, such as O(N^-2)", order.position)
            letter = letters[0]
            exponent = _exponent_of(inner, letter)
            if exponent is None or not exponent.is_Integer or exponent == 0:
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
        ends = {high for one in _sums(line) if one.has(eigenvalue, moment) for _, _, high in one.limits if isinstance(high, Symbol)}
        found += map(at_most_D, ends - {D})
        for side in (line.left, line.right):
            for head in heads_in(side):
                try:
                    conditions = getattr(head.apply(), "conditions", frozenset())
                except (ValueError, TypeError, NotImplementedError):
                    continue
                bounds += [Bound(one.lhs, one.rel_op, one.rhs) for one in conditions]
        reached, before = used.union(*(one.letters for one in bounds)), set()
        while reached != before:
            before = set(reached)
            reached |= set().union(*(one.letters for one in self.assumptions if one.letters & reached))
        bounds += [one for one in self.assumptions if one.letters & reached or not one.letters]
        return found + conditions_of(bounds)


def _finite(residual: Any) -> float | None:
    return float(residual) if residual is not None and mpmath.isfinite(residual) else None


def _at(statement: Statement, reason: str, position: int | None = None) -> str:
    """The reason with its place in the file."""
    line = statement.place + (0 if position is None else statement.text[:position].count("\n"))
    column = "" if position is None else f", character {position - (statement.text.rfind(chr(10), 0, position) + 1) + 1}"
    return reason if reason.startswith("line ") else f"line {line}{column}: {reason}"


def _annotations(grammar: Grammar) -> tuple[Any, Node | None, tuple]:
    """What stands behind the sides: (N -> infinity, up to order 2), as N -> infinity, for N > D + 1."""
    approach, order, conditions = None, None, []
    while grammar.here.kind != "end":
        token, following = grammar.here, grammar.tokens[min(grammar.at + 1, len(grammar.tokens) - 1)]
        if token.text == "order":
            grammar.at += 1
            order = grammar.sum()
        elif token.text == "O" and following.text == "(":
            order = grammar.product()
            grammar.take(")")
        elif token.text in WORDS or grammar.take(","):
            grammar.at += token.text in WORDS
        elif token.text == "(" and grammar.tokens[grammar.at + 2].text == "->":
            grammar.at += 1
        elif token.kind == "name" and following.text == "->":
            grammar.at += 2
            approach = token, grammar.sum()
            while grammar.take(",") or grammar.here.text in WORDS - {"order"}:
                grammar.at += grammar.here.text in WORDS - {"order"}
            if grammar.here.text in ("order", "O"):
                grammar.at += grammar.here.text == "order"
                order = grammar.sum()
            grammar.take(")")
        else:
            before = grammar.at
            sides, relations = grammar.sides()
            if not relations or any(one.text not in ORDERS for one in relations):
                grammar.at = before
                grammar.fail("one statement in a line, or a condition such as N > D + 1")
            conditions.append((sides, relations))
    return approach, order, tuple(conditions)


def _draw_spectrum(point: Point, declared: set) -> None:
    along_one_eigenvector(point)
    point[e_d] = point[e]
    for letter in declared & {lambda_, a, e, e_d, T, M} & set(point.values):
        del point.values[letter]  # its declaration says something else


def _sums(line: Line) -> set:
    return set().union(*(side.atoms(sympy.Sum) for side in (line.left, line.right) if isinstance(side, Basic)))


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


def _exponent_of(power: Any, letter: Symbol) -> Any:
    exponent = sympy.simplify(letter * sympy.diff(power, letter) / power)
    return exponent if exponent.is_number else None


def _times_power(left: Any, right: Any, letter: Symbol, order: Any) -> Any:
    """left - right times what it must beat: a difference of O(N^-k) goes to 0 with N^(k-1)."""
    difference = sympy.MatAdd(left, -right) if is_matrix(left) else left - right
    return difference * letter ** (sympy.sign(order) - order)
