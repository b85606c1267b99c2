r"""A derivation that is built by verbs. Each adds lines with their reason, and every line is judged as it is added.

>>> from iclflow.theory.notation import B, Lambda, Lambda_hat, M, beta, x_q, y_q
>>> loss = derive(E((y_q - beta.T * B * x_q) ** 2)).expect().fold(M, E(Lambda_hat**2))
>>> force = loss.gradient(B).claim(-2 * (Lambda**2 - M * B * Lambda))
>>> print(force.lines[-1].reason, [verdict.status for verdict in force.check()])
Claimed ['exact', 'assumed', 'exact', 'exact', 'exact']
>>> loss.gradient(B).claim(-2 * (Lambda**2 - B * M * Lambda))  # doctest: +ELLIPSIS
Traceback (most recent call last):
iclflow.theory.proofs.building.FalseLineError: claim: d/dB [E[(y_q - beta' B x_q)^2]] = -2 Lambda^2 + 2 B M Lambda fails at ...
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any

import sympy
from sympy import Expr, Integral, MatrixExpr, Symbol, Trace
from sympy.matrices.expressions import MatrixSymbol
from sympy.tensor.indexed import IndexedBase

from ..algebra import words
from ..algebra.coefficients import coefficient_of
from ..algebra.polynomial import TracePolynomial, polynomial_of_word
from ..calculus import along, over_directions, substitute, summand, vanishes
from ..derivations import Condition, Derivation, E, Gradient, Line, Rate, SecondVariation, as_sympy, carried_out
from ..derivations.derivation import RELATIONS_LATEX, limit_latex, side_latex
from ..derivations.draws import eigenvalues_drawn
from ..derivations.heads import heads_in
from ..derivations.judging.trial import Verdict
from ..expectation import expect as expectation
from ..expectation.laws import ancestors, laws_by_symbol, outermost_first
from ..notation import Lambda, M, P, T, a, e, lambda_, learned
from .counterexamples import refutation
from .forms import collected, factored, folded, in_scalars


def derive(expression: Any) -> "BuiltDerivation":
    """Start a derivation at an expression, such as ``E((y_q - beta.T * B * x_q) ** 2)``. TypeError for what is no formula."""
    start = as_sympy(expression, "derive")
    return BuiltDerivation(start, start, start)


class FalseLineError(ValueError):
    """A line that fails; the message names a point where it does, and by how much."""

    def __init__(self, line: Line, verdict: Verdict) -> None:
        super().__init__(refutation(line, verdict))
        self.line, self.verdict = line, verdict


def _verb(method: Callable[..., "BuiltDerivation"]) -> Callable[..., "BuiltDerivation"]:
    """Remember the call, so that it can be played on another start; errors begin with the verb."""

    @wraps(method)
    def played(self, *arguments, **options):
        try:
            longer = method(self, *arguments, **options)
        except FalseLineError as problem:
            problem.args = (f"{method.__name__}: {problem}",)
            raise
        except (ValueError, ArithmeticError, NotImplementedError) as problem:
            text = str(problem)
            raise ValueError(text if text.startswith(f"{method.__name__}:") else f"{method.__name__}: {text}") from None
        return replace(longer, moves=(*self.moves, (method.__name__, arguments, options)))

    return played


@dataclass(frozen=True)
class BuiltDerivation:
    """``left = right``, with the ``lines`` that led there. Every verb returns a longer one; see :func:`derive`.

    A verb raises ValueError where it does not apply, and where its line fails: with the point at which it does, and by how much.
    """

    start: Any
    left: Any
    right: Any
    lines: tuple[Line, ...] = ()
    conditions: tuple[Condition, ...] = field(default=(), repr=False)
    moves: tuple = field(default=(), repr=False)
    verdicts: tuple[Verdict, ...] = field(default=(), repr=False, compare=False)  # on the lines, as they were added

    def _then(
        self, left: Any, right: Any, reason: str, *, relation: str = "=", before: Iterable = (), conditions: tuple = (), **options
    ) -> "BuiltDerivation":
        """Add definitions ``before`` and one line; every line is judged. Its conditions are those of all later ones too."""
        conditions = (*self.conditions, *conditions)
        line = Line(left, relation, right, reason, conditions=conditions, **options)
        lines, verdicts = Derivation.by(*self.lines, *before, line).lines, self.verdicts
        for line in lines[len(self.lines) :]:
            verdicts += (line.verify(),)
            if not verdicts[-1]:
                raise FalseLineError(line, verdicts[-1])
        if relation != "=":  # what follows is about the right side
            left = right
        return replace(self, left=left, right=right, lines=lines, verdicts=verdicts, conditions=line.conditions)

    def _define(self, letter: Any, value: Any, reason: str) -> tuple[Line, ...]:
        if any(line.relation == ":=" and line.left == letter for line in self.lines):
            return ()
        return (Line(letter, ":=", value, reason),)

    def _matrix(self) -> TracePolynomial:
        if not _shape(self.right):
            raise ValueError(f"needs a matrix, got the number {as_sympy(self.right)}")
        return TracePolynomial(carried_out(self.right))

    # Verbs

    @_verb
    def expect(self, laws: Any = (), *, one_by_one: bool = False) -> "BuiltDerivation":
        """Carry out the expectations on the right; where there is none, take it of both sides, under the paper's laws or ``laws``.

        ``one_by_one``: of both sides, over one random letter after the other, each given those that are left.
        """
        if one_by_one:
            return self._one_by_one(laws_by_symbol(laws))
        if heads_in(self.right):
            return self._then(self.left, carried_out(self.right), "The expectation")
        left = E(self.left, laws)
        return self._then(left, E(self.right, laws).apply(), "The expectation")

    def _one_by_one(self, laws: dict) -> "BuiltDerivation":
        built, body = replace(self, left=E(self.left, tuple(laws.values()))), TracePolynomial(carried_out(self.right))
        for law in outermost_first(laws):
            if law.symbol in body.free_symbols:
                others = [one for one in laws if one != law.symbol and law.symbol not in ancestors(one, laws)]
                body = expectation(body, tuple(laws.values()), given=others)
                rest = body.free_symbols & laws.keys()
                right = E(as_sympy(body), tuple(laws.values())) if rest else body
                built = built._then(built.left, right, f"Over ${side_latex(law.symbol)}$" + ", given the others" * bool(rest))
        return built

    @_verb
    def gradient(self, variable: Any) -> "BuiltDerivation":
        """The gradient of both sides with respect to a matrix, a vector or a scalar."""
        if any(line.relation == ":=" and line.left == variable for line in self.lines):
            raise ValueError(f"{variable} has been given a value: take the gradient before")
        return self._then(Gradient(self.left, variable), carried_out(Gradient(self.right, variable)), "The gradient")

    @_verb
    def derivative(self, along: Any) -> "BuiltDerivation":
        """The derivative of both sides: in a scalar symbol, or in time with rates {W: tau dW/dt}, given for all weights that move."""
        if isinstance(along, Mapping):
            return self._then(Rate(self.left, along), Rate(self.right, along).apply(), "The derivative in time")
        if not isinstance(along, Symbol):
            raise TypeError(f"derivative: along must be a scalar symbol or {{symbol: rate}}, got {along!r}")
        if heads_in(self.left) or self.right.has(Trace, MatrixSymbol) if isinstance(self.right, Expr) else True:
            return self._then(Gradient(self.left, along), carried_out(Gradient(self.right, along)), "The derivative")
        return self._then(sympy.Derivative(self.left, along), sympy.diff(self.right, along), "The derivative")

    @_verb
    def hessian(self, directions: Mapping) -> "BuiltDerivation":
        """The second variation of both sides along {W: dW, ...}."""
        second = SecondVariation(self.right, directions)
        return self._then(SecondVariation(self.left, directions), carried_out(second), "The second variation")

    @_verb
    def substitute(self, values: Mapping) -> "BuiltDerivation":
        """Give letters the values {letter: value}, here and in all later lines."""
        right = substitute(carried_out(self.right), values)
        definitions = (line for letter, value in values.items() for line in self._define(letter, as_sympy(value), "Put in"))
        return self._then(self.left, right, "The values put in", before=definitions)

    @_verb
    def fold(self, letter: Any, part: Any) -> "BuiltDerivation":
        """Name a part of the right side: ``fold(M, E(Lambda_hat**2))``."""
        right = folded(carried_out(self.right), letter, carried_out(part))
        return self._then(
            self.left, right, f"With the letter ${side_latex(letter)}$", before=self._define(letter, part, "The letter for it")
        )

    @_verb
    def expand(self) -> "BuiltDerivation":
        """Multiply the right side out."""
        right = carried_out(self.right)
        return self._then(self.left, right if isinstance(right, TracePolynomial) else sympy.expand(right), "Multiplied out")

    @_verb
    def factor(self) -> "BuiltDerivation":
        """Put common factors of the right side in front."""
        return self._then(self.left, factored(self.right), "Factored")

    @_verb
    def collect(self, by: Any) -> "BuiltDerivation":
        """Gather the right side by the powers of a scalar symbol, or by its traces: ``collect("traces")``."""
        return self._then(self.left, collected(self.right, by), "Collected")

    @_verb
    def transpose(self) -> "BuiltDerivation":
        """Transpose both sides."""
        right = self._matrix().T
        return self._then(sympy.transpose(as_sympy(self.left)), right, "Transposed")

    @_verb
    def trace(self) -> "BuiltDerivation":
        """The trace of both sides."""
        right = self._matrix().trace()
        return self._then(Trace(as_sympy(self.left)), right, "The trace")

    @_verb
    def along_eigenvectors(self, values: Mapping | None = None) -> "BuiltDerivation":
        """Along the unit eigenvectors e of Lambda: e' (right) e of a matrix, the sum over all of them of a scalar.

        ``values`` gives the eigenvalues of further matrices that commute with Lambda, {B: b}; Lambda has lambda, M = E(Lambda_hat^2) has a,
        the projector P has chi, and tr(Lambda) is T.
        """
        values = dict(values or {})
        shared = Condition("All matrices are diagonal in one orthonormal basis", draw=lambda point: eigenvalues_drawn(point, values))
        eigenvalues = {Lambda: lambda_, M: a, P: learned, **values}
        reason = "Along an eigenvector" if _shape(self.right) else "The sum over the eigenvectors"
        if _shape(self.right):
            right = along(self.right, eigenvalues, traces={Trace(Lambda): T})
            defined = any(line.relation == ":=" and line.left == M for line in self.lines)
            before = self._define(a, Trace(e.T * M * e), "The eigenvalue of it") if defined and right.has(a) else ()
            return self._then(e.T * self.left * e, right, reason, before=before, conditions=(shared,))
        families = {letter: IndexedBase(letter.name, real=True) for letter in values.values()}
        return self._then(self.left, over_directions(summand(self.right, eigenvalues), components=families), reason, conditions=(shared,))

    @_verb
    def solve_for(self, letter: Any) -> "BuiltDerivation":
        """Set the right side to zero and solve for a letter in which it is linear, or for a scalar with one root."""
        root = _root(self.right, letter)
        after = self._then(self.right, sympy.S.Zero, "It is a root", before=(Line(letter, ":=", root, "The root"),))
        return replace(after, left=letter, right=root)

    @_verb
    def limit(self, parameter: Symbol, target: Any = sympy.oo) -> "BuiltDerivation":
        """The limit of the right side."""
        right = _by_coefficient(self.right, lambda scalar: _finite(sympy.limit(scalar, parameter, target), f"the limit of {scalar}"))
        return self._then(self.left, right, "The limit", relation="->", parameter=_approach(parameter, target))

    @_verb
    def series(self, parameter: Symbol, order: int, target: Any = sympy.oo) -> "BuiltDerivation":
        """The right side up to, and without, terms of an order in the parameter, which goes to its target, 0 or infinity."""
        if isinstance(order, bool) or not isinstance(order, int) or order < 1:
            raise ValueError(f"order must be a positive integer, got {order!r}")
        small = sympy.Dummy(positive=True)
        there = {parameter: 1 / small if target == sympy.oo else target + small}

        def upto(count: int) -> Any:
            back = {small: 1 / parameter if target == sympy.oo else parameter - target}
            return _by_coefficient(
                self.right, lambda scalar: sympy.series(scalar.subs(there), small, 0, count).removeO().subs(back).expand()
            )

        right = upto(order)
        longer = next((count for count in range(order, order + 6) if upto(count + 1) != right), None)
        if longer is None:
            return self._then(self.left, right, "Its series, which ends")
        return self._then(self.left, right, "Its series", relation="~", parameter=_approach(parameter, target), order=longer)

    @_verb
    def integrate(self, variable: Symbol, low: Any, high: Any) -> "BuiltDerivation":
        """The integral of both sides from ``low`` to ``high``; the antiderivative is differentiated back."""

        def integral(integrand: Expr) -> Expr:
            antiderivative = sympy.integrate(integrand, variable)
            if antiderivative.has(Integral) or not vanishes(sympy.diff(antiderivative, variable) - integrand):
                raise ValueError(f"no antiderivative of {as_sympy(self.right)} was found")
            upper, lower = sympy.limit(antiderivative, variable, high, "-"), sympy.limit(antiderivative, variable, low, "+")
            return _finite(upper - lower, "the integral")

        if _shape(self.right):
            raise ValueError(f"needs a number, got the matrix {as_sympy(self.right)}")
        return self._then(Integral(self.left, (variable, low, high)), in_scalars(carried_out(self.right), integral), "The integral")

    @_verb
    def claim(self, right: Any, relation: str = "=", reason: str = "Claimed", **options) -> "BuiltDerivation":
        """Go on with another right side, or one in another relation (<=, ->, ~, ...); ``options`` are those of a line."""
        if right != 0 and _shape(right) != _shape(self.right):
            raise ValueError(f"the sides have the shapes {_shape(self.right) or 'of a number'} and {_shape(right) or 'of a number'}")
        if relation in ("<", "<=", ">", ">=") and _shape(self.right):
            raise ValueError(f"matrices are not ordered, got {relation}")
        return self._then(self.left, right, reason, relation=relation, **options)

    # The whole

    def check(self, *, seed: int = 0) -> tuple[Verdict, ...]:
        """The verdict on each line."""
        return tuple(line.verify(seed=seed) for line in self.lines)

    def rederive(self, *, start: Any = None, laws: Any = ()) -> "BuiltDerivation":
        """Play the same verbs on another start, or under other laws of the data. ValueError says at which line it no longer holds."""
        laws = tuple(laws.values()) if isinstance(laws, Mapping) else tuple(laws) if isinstance(laws, list | tuple) else (laws,)
        again = derive(_under(self.start if start is None else as_sympy(start, "rederive"), laws))
        for verb, arguments, options in self.moves:
            try:
                again = getattr(again, verb)(*(_under(one, laws) for one in arguments), **options)
            except ValueError as problem:
                raise ValueError(f"rederive: line {len(again.lines) + 1} no longer holds: {problem}") from None
        return again

    def latex(self) -> str:
        """The lines, aligned at their relations."""
        return f"\\begin{{align*}}\n{self._rows()}\n\\end{{align*}}"

    def _rows(self) -> str:
        rows, left = [], None
        for line in self.lines or (Line(self.start, "=", self.start),):
            shown = "" if line.left == left and line.relation == "=" else side_latex(line.left)
            rows.append(f"{shown} &{RELATIONS_LATEX[line.relation]} {side_latex(line.right)}{limit_latex(line)}".lstrip())
            left = line.right if line.relation in ("<", "<=", ">", ">=") else line.left
        return " \\\\\n".join(rows)

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle \\begin{{aligned}}\n{self._rows()}\n\\end{{aligned}}$"

    def __str__(self) -> str:
        return str(Derivation(self.lines))


def _shape(side: Any) -> tuple:
    """The shape of a matrix, () of a number."""
    formula = as_sympy(side)
    return tuple(formula.shape) if isinstance(formula, MatrixExpr) and formula.shape != (1, 1) else ()


def _under(argument: Any, laws: tuple) -> Any:
    """The argument of a verb with these laws in its expectations, in place of those of the same symbols."""
    if not laws or not isinstance(argument, sympy.Basic):
        return argument
    changed = {}
    for head in heads_in(argument):
        inner = _under(head.args[0], laws)
        if hasattr(head, "given"):
            own = [law for law in head.args[1].value if law.symbol not in {one.symbol for one in laws}]
            changed[head] = E(inner, (*own, *laws), given=tuple(head.given))
        else:
            changed[head] = head.func(inner, *head.args[1:])
    return argument.xreplace(changed)


def _root(formula: Any, letter: Any) -> Any:
    if isinstance(letter, Symbol):
        roots = in_scalars(formula, lambda scalar: sympy.Tuple(*sympy.solve(scalar, letter)))
        if len(roots) != 1:
            raise ValueError(f"{as_sympy(formula)} = 0 has {len(roots)} roots {letter}: {', '.join(map(str, roots))}")
        return roots[0]
    polynomial = TracePolynomial(formula)
    rest = substitute(polynomial, {letter: as_sympy(letter) * 0})
    linear = polynomial - rest
    if len(linear.groups()) != 1 or linear.shape is None:
        raise ValueError(f"{polynomial} = 0 can be solved for {letter} only where it stands in one product")
    marked = folded(linear, letter, letter)
    ((coefficient, traces, word),) = marked.groups()
    word = word or ()
    places = [i for i, code in enumerate(word) if words.symbol_of(code) == letter]
    if len(places) != 1 or traces or words.is_inverse(word[places[0]]):
        raise ValueError(f"{polynomial} = 0 is not linear in {letter}")
    before, code, after = word[: places[0]], word[places[0]], word[places[0] + 1 :]
    root = -rest / TracePolynomial(coefficient_of(coefficient))
    if before:
        root = polynomial_of_word(before, (words.rows(before[0]), words.columns(before[-1]))).reciprocal() * root
    if after:
        root = root * polynomial_of_word(after, (words.rows(after[0]), words.columns(after[-1]))).reciprocal()
    return as_sympy(root.T if words.is_transposed(code) else root)


def _finite(value: Expr, what: str) -> Expr:
    if value.has(sympy.oo, sympy.zoo, sympy.nan):
        raise ValueError(f"{what} is not finite")
    return value


def _by_coefficient(formula: Any, change: Callable[[Expr], Expr]) -> Any:
    """A function of each coefficient of a trace polynomial, or of a scalar."""
    try:
        groups = TracePolynomial(formula).groups()
    except ValueError:
        return in_scalars(formula, change)
    polynomial = TracePolynomial(formula)
    parts = [
        TracePolynomial(change(coefficient_of(coefficient))) * TracePolynomial.from_terms({((), traces, word): 1}, polynomial.shape)
        for coefficient, traces, word in groups
    ]
    return sum(parts[1:], parts[0]) if parts else polynomial


def _approach(parameter: Symbol, target: Any) -> Any:
    return parameter if target == sympy.oo else (parameter, target)
