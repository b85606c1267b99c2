r"""Unevaluated operations: an expectation, a gradient, a velocity, a second variation.

They stand on the sides of a line, and know how to be carried out:

>>> from iclflow.theory.notation import B, Lambda_hat
>>> print(E(Lambda_hat**2))
E[Lambda_hat^2]
>>> print(carried_out(E(Lambda_hat**2)))
(1 + 1/N) Lambda^2 + 1/N tr(Lambda) Lambda

Integrals, limits, sums and derivatives of scalars are SymPy's own ``Integral``, ``Limit``, ``Sum`` and ``Derivative``.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import sympy
from sympy import Add, Atom, Basic, BlockMatrix, Expr, MatAdd, MatrixBase, Symbol, Tuple
from sympy.matrices.expressions import MatrixExpr, MatrixSymbol
from sympy.tensor.indexed import Indexed

from ..algebra.polynomial import TracePolynomial
from ..calculus.derivatives import derivative, gradient, hessian_form
from ..calculus.rewriting import multiplied_out
from ..expectation.index_sums import sum_over
from ..expectation.moments import expect
from ..notation import matrix
from ..typesetting.text import written


class Held(Atom):
    """Any hashable object as an argument of a SymPy node: the laws of an expectation, the flow of a velocity."""

    __slots__ = ("value",)

    def __new__(cls, value):
        held = Atom.__new__(cls)
        held.value = value
        return held

    def _hashable_content(self):
        return (self.value,)

    @property
    def free_symbols(self):
        return set()


class Head:
    """An operation that has not been carried out. ``apply()`` carries it out."""

    def apply(self) -> Any:
        raise NotImplementedError

    def _plain_text(self, printer=None):
        return self._plain_text()

    def __str__(self):
        return self._plain_text()

    __repr__ = __str__


class _ScalarHead(Head, Expr):
    is_commutative = True


class _MatrixHead(Head, MatrixExpr):
    @property
    def shape(self):
        return tuple(self.args[-1])


class Expectation:
    @property
    def given(self) -> Tuple:
        return self.args[2]

    @property
    def lawless(self) -> set:
        """The letters of the body and of its laws that follow none of these laws and are not given."""
        body, laws, given = self.args[:3]
        parents = set().union(*(law.parents for law in laws.value))
        return (body.free_symbols | parents) - {law.symbol for law in laws.value} - set(given)

    def apply(self):
        body, laws, given = self.args[:3]
        return expect(carried_out(body), laws.value or None, given=tuple(given))

    def _given(self, write) -> str:
        return " | " + ", ".join(map(write, self.args[2])) if self.args[2] else ""

    def _plain_text(self, printer=None):
        return f"E[{written(self.args[0])}{self._given(written)}]"

    def _latex(self, printer, exp=None):
        inner = printer._print(self.args[0]) + self._given(printer._print).replace("|", r"\,\middle|\,")
        return rf"\mathbb{{E}}\left[{inner}\right]" + (f"^{{{exp}}}" if exp else "")


class ScalarExpectation(Expectation, _ScalarHead):
    """The expectation of a scalar."""


class MatrixExpectation(Expectation, _MatrixHead):
    """The expectation of a matrix."""


def E(expression, laws=(), *, given=()) -> Any:
    """The expectation E[expression], not carried out, under the paper's laws or the given ones (as ``expect`` takes them).

    ``given``: symbols to condition on. Raises TypeError for what is not a formula.
    """
    body = as_sympy(expression, "E")
    given = Tuple(*((given,) if isinstance(given, Basic) else given))
    if isinstance(laws, Mapping):
        laws = tuple(laws.values())
    held = Held(tuple(laws) if isinstance(laws, tuple | list) else (laws,))
    shape = _shape(body)
    return ScalarExpectation(body, held, given) if shape is None else MatrixExpectation(body, held, given, Tuple(*shape))


class _Gradient:
    def apply(self):
        return gradient(carried_out(self.args[0]), self.args[1])

    def _plain_text(self, printer=None):
        return f"d/d{written(self.args[1])} [{written(self.args[0])}]"

    def _latex(self, printer, exp=None):
        variable, inner = printer._print(self.args[1]), printer._print(self.args[0])
        if isinstance(self.args[0], Symbol):
            return rf"\frac{{\partial {inner}}}{{\partial {variable}}}"
        return rf"\frac{{\partial}}{{\partial {variable}}}\left[{inner}\right]"


class ScalarGradient(_Gradient, _ScalarHead):
    """The derivative of a scalar with respect to a scalar; by SymPy where the scalar is not a trace polynomial."""

    def apply(self):
        body = carried_out(self.args[0])
        return gradient(body, self.args[1]) if isinstance(body, TracePolynomial) else body.diff(self.args[1])


class MatrixGradient(_Gradient, _MatrixHead):
    """The gradient of a scalar with respect to a matrix or a vector; it has the matrix's shape."""


def Gradient(scalar, variable) -> Any:
    """The derivative of a scalar with respect to a symbol, or its gradient with respect to a matrix symbol, not carried out."""
    if not isinstance(variable, Symbol | MatrixSymbol):
        raise TypeError(f"Gradient: variable must be a symbol or a matrix symbol, got {variable!r}")
    body = as_sympy(scalar, "Gradient")
    if isinstance(variable, Symbol) or tuple(variable.shape) == (1, 1):
        return ScalarGradient(body, variable)
    return MatrixGradient(body, variable, Tuple(*variable.shape))


class _Rate:
    def apply(self):
        body, rates = TracePolynomial(carried_out(self.args[0])), dict(self.args[1].value)
        if body.shape is None:
            return derivative(body, rates)
        probe = matrix("any", *body.shape)  # the derivative of tr(probe' body) is linear in the probe
        return gradient(derivative((TracePolynomial(probe).T * body).trace(), rates), probe)

    def _plain_text(self, printer=None):
        return f"tau d/dt [{written(self.args[0])}]"

    def _latex(self, printer, exp=None):
        inner = printer._print(self.args[0])
        if isinstance(self.args[0], Symbol | MatrixSymbol):
            return rf"\tau\frac{{d {inner}}}{{dt}}"
        return rf"\tau\frac{{d}}{{dt}}\left[{inner}\right]"


class ScalarRate(_Rate, _ScalarHead):
    """tau d/dt of a scalar."""


class MatrixRate(_Rate, _MatrixHead):
    """tau d/dt of a matrix."""


def Rate(expression, rates: Mapping) -> Any:
    """tau d/dt of an expression in the weights, not carried out; ``rates`` gives tau dW/dt for each weight W, equation (10)."""
    if not isinstance(rates, Mapping):
        raise TypeError(f"Rate: rates must map each weight to tau dW/dt, got {rates!r}")
    body = as_sympy(expression, "Rate")
    held = Held(tuple((weight, TracePolynomial(carried_out(rate))) for weight, rate in rates.items()))
    shape = _shape(body)
    return ScalarRate(body, held) if shape is None else MatrixRate(body, held, Tuple(*shape))


class _SecondVariation(_ScalarHead):
    """The quadratic form d^2/dx^2 F(W + x dW) at x = 0."""

    def apply(self):
        return hessian_form(carried_out(self.args[0]), dict(self.args[1].value))

    def _named(self) -> list[tuple]:
        """The directions that are products, with the weights that move along them."""
        return [(weight, one.to_sympy()) for weight, one in self.args[1].value if not isinstance(one.to_sympy(), Symbol | MatrixSymbol)]

    def _plain_text(self, printer=None):
        along = ", ".join(f"delta {written(weight)} = {written(one)}" for weight, one in self._named())
        return f"delta^2 [{written(self.args[0])}{' | ' if along else ''}{along}]"

    def _latex(self, printer, exp=None):
        inner = printer._print(self.args[0])
        along = r",\ ".join(rf"\delta {printer._print(weight)} = {printer._print(one)}" for weight, one in self._named())
        if along:
            return rf"\delta^2\left[{inner}\,\middle|\,{along}\right]"
        return rf"\delta^2 {inner}" if isinstance(self.args[0], Symbol) else rf"\delta^2\left[{inner}\right]"


def SecondVariation(scalar, directions: Mapping) -> Any:
    """The second variation of a scalar in the weights W that move by dW, not carried out; ``directions`` gives {W: dW}."""
    if not isinstance(directions, Mapping):
        raise TypeError(f"SecondVariation: directions must map each weight to its variation, got {directions!r}")
    held = Held(tuple((weight, TracePolynomial(carried_out(one))) for weight, one in directions.items()))
    return _SecondVariation(as_sympy(scalar, "SecondVariation"), held)


def summand(body: Any, write: Callable[[Any], str]) -> str:
    """What stands behind a sign for a sum: a sum in brackets."""
    brackets = r"\left({}\right)" if write is not written else "({})"
    return brackets.format(write(body)) if isinstance(body, Add | MatAdd) else write(body)


class _SumOver:
    def apply(self):
        return sum_over(carried_out(self.args[0]), *self.args[1])

    def _plain_text(self, printer=None):
        return f"sum_({', '.join(map(written, self.args[1]))}) {summand(self.args[0], written)}"

    def _latex(self, printer, exp=None):
        return rf"\sum_{{{', '.join(map(printer._print, self.args[1]))}}} {summand(self.args[0], printer._print)}"


class ScalarSumOver(_SumOver, _ScalarHead):
    """The sum of a scalar over bases."""


class MatrixSumOver(_SumOver, _MatrixHead):
    """The sum of a matrix over bases."""


def SumOver(expression, *indices) -> Any:
    """The sum over indices, not carried out: vectors that run through orthonormal bases, as ``sum_over`` takes them."""
    if not indices or not all(isinstance(one, MatrixSymbol) for one in indices):
        raise TypeError(f"SumOver: indices must be vectors, got {indices!r}")
    body = as_sympy(expression, "SumOver")
    shape, indices = _shape(body), Tuple(*indices)
    return ScalarSumOver(body, indices) if shape is None else MatrixSumOver(body, indices, Tuple(*shape))


def as_sympy(formula: Any, verb: str = "formula") -> Any:
    """A formula as a SymPy object; a trace polynomial gives its SymPy form. TypeError names the verb for anything else."""
    if isinstance(formula, TracePolynomial):
        return formula.to_sympy()
    try:
        return sympy.sympify(formula, strict=True)
    except sympy.SympifyError:
        raise TypeError(f"{verb}: needs a formula, got {formula!r}") from None


def _shape(body) -> tuple | None:
    shape = getattr(body, "shape", None)
    return None if shape in (None, (1, 1)) else tuple(shape)


def heads_in(formula: Any) -> set:
    """The outermost operations in a formula that have not been carried out."""
    if isinstance(formula, Head):
        return {formula}
    if not isinstance(formula, Basic):
        return set()
    return set().union(*(heads_in(part) for part in formula.args)) if formula.args else set()


def carried_out(formula: Any) -> Any:
    """The formula with every operation carried out: a trace polynomial where it is one, else a SymPy expression.

    Raises ValueError where an operation cannot be carried out exactly.
    """
    if isinstance(formula, MatrixBase):
        return formula.applyfunc(lambda entry: as_sympy(carried_out(entry)))
    if isinstance(formula, TracePolynomial):
        return formula
    return _carried_out(as_sympy(formula, "carried_out"))


@lru_cache(maxsize=1 << 14)
def _carried_out(formula: Any) -> Any:
    if isinstance(formula, Head):
        return formula.apply()
    done = {head: as_sympy(head.apply()) for head in heads_in(formula)}
    if done:
        formula = formula.xreplace(done)
    try:
        return TracePolynomial(formula)
    except ValueError:
        pass
    if isinstance(formula, MatrixExpr | Expr) and formula.has(BlockMatrix):
        try:
            return multiplied_out(formula)
        except ValueError:
            return formula
    return evaluated(formula) if isinstance(formula, Expr) else formula


@lru_cache(maxsize=1 << 12)
def evaluated(formula: Expr) -> Any:
    """The formula with its integrals, limits, derivatives, determinants and sums evaluated; SymPy's ``doit`` takes long for some alone."""
    done: Any = formula
    while sums := {one: terms for one in done.atoms(sympy.Sum) if (terms := _written_out(one)) is not None}:
        done = done.xreplace(sums)
    explicit = (one for one in done.atoms(sympy.Determinant) if isinstance(one.arg, MatrixBase))
    left = {total: sympy.Dummy() for total in done.atoms(sympy.Sum) if _over_a_family(total)}
    done = done.xreplace({one: one.arg.det(method="domain-ge") for one in explicit}).xreplace(left)
    done = done.xreplace({one: _done(one) for one in done.atoms(sympy.Sum, sympy.Integral, sympy.Limit)}).doit()
    return done.xreplace({name: _term_by_term(total) for total, name in left.items() if done.has(name)})


_done = lru_cache(maxsize=1 << 12)(lambda operation: operation.doit())  # for the several lines that hold one operation


def _written_out(total: sympy.Sum) -> Expr | None:
    """The terms of a sum over at most a hundred known numbers, added; None for any other sum."""
    (index, first, last), *further = total.limits
    short = not further and first.is_Integer and last.is_Integer and -1 <= last - first < 100
    return Add(*(total.function.xreplace({index: sympy.Integer(k)}) for k in range(first, last + 1))) if short else None


def _over_a_family(total: sympy.Sum) -> bool:
    """A sum of indexed letters up to a symbolic bound, which SymPy spends seconds on and leaves as it is."""
    (index, low, high), *further = total.limits
    return not further and not (high - low).is_number and any(index in one.free_symbols for one in total.function.atoms(Indexed))


def _term_by_term(total: sympy.Sum) -> Expr:
    """The sums of the terms of the summand, with the factors that are the same in all of them before the sum."""
    limits = index, low, high = total.limits[0]
    parts = (term.as_independent(index, as_Add=False) for term in Add.make_args(sympy.expand(evaluated(total.function))))
    return Add(*(same * (sympy.Sum(term, limits) if term.has(index) else term * (high - low + 1)) for same, term in parts))


def can_be_carried_out(head: Head) -> bool:
    """Does the engine know how? Not the expectation of anything but a polynomial."""
    try:
        head.apply()
    except ValueError:
        return False
    return True
