"""Trace polynomials: sums of (rational coefficient) x (scalars) x (traces of words) x (one open word), in canonical form.

A :class:`TracePolynomial` is a dictionary of terms (see ``terms``) with a shape, and with the conditions under which it holds. The form
is unique, so equality is a comparison of dictionaries:

>>> from sympy import Trace
>>> from iclflow.theory.notation import Lambda, Lambda_hat, N, matrix, D
>>> A, C = matrix("A", D), matrix("C", D)
>>> TracePolynomial(Trace(A * C * Lambda)) == TracePolynomial(Trace(C.T * A.T * Lambda))
True
>>> TracePolynomial(Lambda * (A + C) - Lambda * A) == Lambda * C
True
>>> print(TracePolynomial(Trace(C.T * Lambda * A) / N * Lambda.I * Lambda))
1/N tr(A C' Lambda) I
"""

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import sympy
from sympy import Expr, SympifyError

from ..notation import D, Lambda_hat, N
from . import arithmetic, printing, sympy_conversion, words
from .arithmetic import Form, Shape
from .coefficients import Coefficient, scalar_of
from .letters import Letters, symbols_in
from .terms import Terms, groups, in_lowest_terms, matrix_symbols

__all__ = ["TracePolynomial", "polynomial_of_word", "total", "zero"]


def _operator(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A binary operator whose other side may also be a number or a SymPy expression."""

    def operator(self, other):
        if isinstance(other, int | Fraction | Expr):
            other = TracePolynomial(other)
        elif isinstance(other, float) and method.__name__ != "__eq__":
            raise TypeError(f"a number must be rational, got the float {other}; write it as one, e.g. Rational('0.1')")
        return method(self, other) if isinstance(other, TracePolynomial) else NotImplemented

    return operator


class TracePolynomial:
    """A scalar or matrix-valued polynomial in matrix letters and their traces, in canonical form. Immutable.

    ``TracePolynomial(expression)`` reads a SymPy expression. ``+ - * / **`` take SymPy expressions on either side; ``.T`` and ``.trace()``
    are the transpose and the trace; ``==`` is exact equality of canonical forms. It prints as text and, in Jupyter, as LaTeX, with its
    conditions; ``str`` is the formula alone, in the grammar of ``iclflow expect``.

    It is not a SymPy object: SymPy's operators would convert it and lose the conditions, and its ``diff`` is 0 for a sum of traces.
    ``to_sympy()`` gives the SymPy expression; SymPy's own functions and methods say so, or name the verb that does the same here.

    ``shape`` is None for a scalar (a 1 x 1 matrix is its scalar). ``conditions`` are the inequalities under which it holds.
    Raises ValueError, naming the sub-expression, if the expression is not a trace polynomial.
    """

    __slots__ = ("conditions", "shape", "terms")
    _op_priority = 20.0  # above SymPy's matrices: mixed products come here

    terms: Terms
    shape: Any  # (rows, columns), or None
    conditions: frozenset

    def __new__(cls, expression) -> "TracePolynomial":
        if isinstance(expression, TracePolynomial):
            return expression
        return cls._of(sympy_conversion.read(expression))

    @classmethod
    def from_terms(cls, terms: Terms, shape: Shape, conditions: frozenset = frozenset()) -> "TracePolynomial":
        """Wrap canonical terms; coefficients with sums in denominators are brought to lowest terms here."""
        return cls._of((in_lowest_terms(terms), shape), conditions)

    @classmethod
    def _of(cls, form: Form, conditions: frozenset = frozenset()) -> "TracePolynomial":
        """Wrap a canonical form."""
        self = object.__new__(cls)
        for name, value in (("terms", form[0]), ("shape", form[1]), ("conditions", conditions)):
            object.__setattr__(self, name, value)
        return self

    @property
    def _form(self) -> Form:
        return self.terms, self.shape

    def __setattr__(self, name, value):
        raise AttributeError(f"a TracePolynomial is immutable: {name} cannot be set")

    def __reduce__(self):
        return _rebuild, (self.to_sympy(), self.conditions)

    # Arithmetic

    @_operator
    def __add__(self, other):
        return total([self, other])

    __radd__ = __add__

    def __neg__(self):
        return self._of(arithmetic.negate(self._form), self.conditions)

    @_operator
    def __sub__(self, other):
        return self + (-other)

    @_operator
    def __rsub__(self, other):
        return (-self) + other

    @_operator
    def __mul__(self, other):
        return self._of(arithmetic.multiply(self._form, other._form), self.conditions | other.conditions)

    @_operator
    def __rmul__(self, other):
        return other * self

    __matmul__, __rmatmul__ = __mul__, __rmul__

    @_operator
    def __truediv__(self, other):
        return self * other.reciprocal()

    @_operator
    def __rtruediv__(self, other):
        return other * self.reciprocal()

    def __pow__(self, exponent):
        return self._of(arithmetic.power(self._form, exponent), self.conditions if exponent else frozenset())

    def reciprocal(self) -> "TracePolynomial":
        """1 / self for a scalar without traces, or the inverse of a single product of square letters; that of Lambda_hat needs N >= D."""
        sampled = self.shape is not None and Lambda_hat in matrix_symbols(self.terms)
        return self._of(arithmetic.reciprocal(self._form), self.conditions | ({N >= D} if sampled else frozenset()))

    @property
    def T(self) -> "TracePolynomial":
        """The transpose."""
        return self._of(arithmetic.transpose(self._form), self.conditions)

    def trace(self) -> "TracePolynomial":
        """The trace; a scalar is its own trace."""
        return self._of(arithmetic.trace(self._form), self.conditions)

    # Comparison

    @_operator
    def __eq__(self, other):
        zero_shape = not self.terms and not other.terms
        return self.terms == other.terms and (zero_shape or self.shape == other.shape)

    def __hash__(self):
        return hash(frozenset(self.terms.items()))

    def __bool__(self):
        return bool(self.terms)

    @property
    def free_symbols(self) -> set:
        """The matrix and scalar symbols in it."""
        return matrix_symbols(self.terms).union(*(scalar.free_symbols for scalar in self._scalars()))

    @property
    def letters(self) -> Letters:
        """The symbols in it by their printed names: ``expect(Lambda_hat**2).letters["Lambda"]``. See :func:`.letters.letters`."""
        return Letters(matrix_symbols(self.terms).union(*map(symbols_in, self._scalars())))

    def _scalars(self) -> list[Expr]:
        """The scalars of the coefficients, and the sums in their denominators."""
        return [scalar_of(g) for g in {g for scalars, _, _ in self.terms for g, _ in scalars}]

    def __float__(self):
        """What ``sympify``, and with it every function of SymPy, asks for."""
        raise SympifyError(
            "a trace polynomial p is no SymPy expression: take p.to_sympy(), which has no conditions, for factor, simplify, collect and "
            "limit; substitute(p, {symbol: value}) for subs; gradient(p, symbol) for diff; compile_expression(p) of iclflow.numerics for "
            f"lambdify. Here p = {self}"
        )

    def diff(self, *_, **__):
        self.__float__()

    subs = xreplace = replace = evalf = doit = diff

    # Conversion and printing

    def groups(self) -> list[tuple[Coefficient, tuple[words.Word, ...], words.Word | None]]:
        """The terms gathered by their traces and word, each with its coefficient {scalars: number}, in printing order."""
        return groups(self.terms)

    def to_sympy(self) -> Expr:
        """The SymPy expression: a MatrixExpr, or a scalar with Trace factors. ``TracePolynomial(p.to_sympy()) == p``."""
        return sympy_conversion.write(self.terms, self.shape)

    def __str__(self):
        return printing.text(self.terms)

    def __repr__(self):
        return f"{self}, for {self.stated_conditions()}" if self.conditions else str(self)

    def _latex(self, printer=None):
        return printing.latex(self.terms)

    def _repr_latex_(self):
        where = rf",\quad {self.stated_conditions(latex=True)}" if self.conditions else ""
        return rf"$\displaystyle {self._latex()}{where}$"

    def stated_conditions(self, *, latex: bool = False) -> str:
        """The conditions as text or as LaTeX, sorted; empty if there are none."""
        return ", ".join(sorted(map(sympy.latex if latex else sympy.sstr, self.conditions)))


def _rebuild(expression, conditions):
    plain = TracePolynomial(expression)
    return TracePolynomial.from_terms(plain.terms, plain.shape, conditions)


def total(polynomials: Iterable[TracePolynomial], shape: Shape = None) -> TracePolynomial:
    """The sum of polynomials of one shape, in one pass; ``shape`` is that of an empty sum."""
    polynomials = list(polynomials)
    conditions = frozenset().union(*(one.conditions for one in polynomials))
    return TracePolynomial._of(arithmetic.add((one._form for one in polynomials), shape), conditions)


def zero(shape: Shape) -> TracePolynomial:
    """The number 0, or the zero matrix of a shape."""
    return TracePolynomial._of(arithmetic.zero(shape))


def polynomial_of_word(word: words.Word, shape: Shape) -> TracePolynomial:
    """A product of letters as a polynomial; its shape tells the size of an empty product."""
    return TracePolynomial._of(arithmetic.product_of_letters(word, shape))
