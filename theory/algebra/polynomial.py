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
from sympy import Expr

from . import words
from .coefficients import Coefficient, reciprocal, scalar_of
from .terms import Terms, accumulate, groups, in_lowest_terms, letters, multiply, trace

__all__ = ["TracePolynomial"]

SUPPORTED = (
    "sums, products, integer powers, transposes, inverses of products and traces of matrix symbols, with coefficients that are "
    "rational in scalar symbols"
)


def _operator(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A binary operator that takes on its other side whatever is a number or a SymPy expression."""

    def operator(self, other):
        if isinstance(other, int | Fraction | Expr):
            other = TracePolynomial(other)
        elif isinstance(other, float) and method.__name__ != "__eq__":
            raise TypeError(f"a number must be rational, got the float {other}; write it as one, e.g. Rational('0.1')")
        return method(self, other) if isinstance(other, TracePolynomial) else NotImplemented

    return operator


class TracePolynomial:
    """A scalar or matrix-valued polynomial in matrix letters and their traces, in canonical form. Immutable.

    ``TracePolynomial(expression)`` reads a SymPy expression; ``+ - * / **``, ``.T`` and ``.trace()`` work with SymPy expressions on
    either side; ``==`` is exact equality of canonical forms; ``to_sympy()`` goes back. It shows itself as text and, in Jupyter, as LaTeX,
    with its conditions; ``str`` is the formula alone, in the grammar of ``iclflow expect``.

    It is no SymPy object itself (SymPy would convert it before its own operators, and lose the conditions): convert with ``to_sympy()``.

    ``shape`` is None for a scalar (a 1 x 1 matrix is its scalar). ``conditions`` are the inequalities under which it holds.
    Raises ValueError, naming the sub-expression, where an expression is not a trace polynomial.
    """

    __slots__ = ("conditions", "shape", "terms")
    _op_priority = 20.0  # above SymPy's matrices: mixed products come here

    terms: Terms
    shape: Any  # (rows, columns), or None
    conditions: frozenset

    def __new__(cls, expression) -> "TracePolynomial":
        if isinstance(expression, TracePolynomial):
            return expression
        from .sympy_conversion import read  # which builds on this class

        return read(expression)

    @classmethod
    def from_terms(cls, terms: Terms, shape: tuple | None, conditions: frozenset = frozenset()) -> "TracePolynomial":
        """Wrap terms that are canonical already, but for sums in denominators, which are reduced here."""
        self = object.__new__(cls)
        for name, value in (("terms", in_lowest_terms(terms)), ("shape", shape), ("conditions", conditions)):
            object.__setattr__(self, name, value)
        return self

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
        return TracePolynomial.from_terms({term: -n for term, n in self.terms.items()}, self.shape, self.conditions)

    @_operator
    def __sub__(self, other):
        return self + (-other)

    @_operator
    def __rsub__(self, other):
        return (-self) + other

    @_operator
    def __mul__(self, other):
        matrices = None not in (self.shape, other.shape)
        if matrices and self.shape[1] != other.shape[0]:
            raise ValueError(
                f"shape mismatch in a product: ({self}) has shape {self.shape}, ({other}) has shape {other.shape}"
            )
        shape = (self.shape[0], other.shape[1]) if matrices else self.shape or other.shape
        if shape == (1, 1):
            shape = None
        terms = multiply(self.terms, other.terms)
        return TracePolynomial.from_terms(terms, shape, self.conditions | other.conditions)

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
        if isinstance(exponent, bool) or not (isinstance(exponent, int) or getattr(exponent, "is_Integer", False)):
            raise ValueError(
                f"power: ({self})^({exponent}) has an exponent that is not an integer; supported: {SUPPORTED}"
            )
        if self.shape is not None and self.shape[0] != self.shape[1]:
            raise ValueError(f"power: ({self}) has shape {self.shape}; a power needs a square matrix")
        base, exponent = self, int(exponent)
        if exponent < 0:
            base, exponent = base.reciprocal(), -exponent
        result = one(base.shape)
        while exponent:
            if exponent & 1:
                result = result * base
            exponent >>= 1
            base = base * base if exponent else base
        return result

    def reciprocal(self) -> "TracePolynomial":
        """1 / self, for a scalar free of traces, or the inverse of a single product of square letters."""
        if self.shape is None:
            if not self.terms:
                raise ZeroDivisionError("division by a trace polynomial that is zero")
            if any(traces for _, traces, _ in self.terms):
                raise ValueError(
                    f"cannot divide by {self}: a denominator may hold scalar symbols only, no traces; supported: {SUPPORTED}"
                )
            inverse = None
            coefficient = {scalars: number for (scalars, _, _), number in self.terms.items()}
        else:
            codes = [code for _, _, word in self.terms for code in word]
            sizes = {*self.shape, *map(words.rows, codes), *map(words.columns, codes)}
            if len(self.terms) != 1 or len(sizes) != 1 or any(traces for _, traces, _ in self.terms):
                raise ValueError(
                    f"cannot invert ({self}): only a product of square matrix symbols has an inverse here; supported: {SUPPORTED}"
                )
            (((scalars, _, word), number),) = self.terms.items()
            inverse, coefficient = words.inverse(word), {scalars: number}
        terms: Terms = {(scalars, (), inverse): number for scalars, number in reciprocal(coefficient).items()}
        return TracePolynomial.from_terms(terms, self.shape, self.conditions)

    @property
    def T(self) -> "TracePolynomial":
        """The transpose."""
        if self.shape is None:
            return self
        terms = {(scalars, traces, words.transpose(word)): n for (scalars, traces, word), n in self.terms.items()}
        return TracePolynomial.from_terms(terms, self.shape[::-1], self.conditions)

    def trace(self) -> "TracePolynomial":
        """The trace; a scalar is its own."""
        if self.shape is None:
            return self
        if self.shape[0] != self.shape[1]:
            raise ValueError(f"trace: needs a square matrix, got shape {self.shape} in {self}")
        return TracePolynomial.from_terms(trace(self.terms, self.shape[0]), None, self.conditions)

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
        """Every matrix and scalar symbol in it."""
        generators = {generator for scalars, _, _ in self.terms for generator, _ in scalars}
        return letters(self.terms).union(*(scalar_of(generator).free_symbols for generator in generators))

    # To SymPy, and to the reader

    def groups(self) -> list[tuple[Coefficient, tuple[words.Word, ...], words.Word | None]]:
        """The terms gathered by their traces and word, each with its coefficient {scalars: number}, in the order of print."""
        return groups(self.terms)

    def to_sympy(self) -> Expr:
        """The SymPy expression: a MatrixExpr, or a scalar with Trace factors. ``TracePolynomial(p.to_sympy()) == p``."""
        from .sympy_conversion import write

        return write(self)

    def __str__(self):
        from .printing import text

        return text(self)

    def __repr__(self):
        return f"{self}, for {self.stated_conditions()}" if self.conditions else str(self)

    def _latex(self, printer=None):
        from .printing import latex

        return latex(self)

    def _repr_latex_(self):
        where = rf",\quad {self.stated_conditions(latex=True)}" if self.conditions else ""
        return rf"$\displaystyle {self._latex()}{where}$"

    def stated_conditions(self, *, latex: bool = False) -> str:
        """The conditions as text or as LaTeX, in one order; empty where there are none."""
        return ", ".join(sorted(map(sympy.latex if latex else sympy.sstr, self.conditions)))


def _rebuild(expression, conditions):
    plain = TracePolynomial(expression)
    return TracePolynomial.from_terms(plain.terms, plain.shape, conditions)


def total(polynomials: Iterable[TracePolynomial], shape: tuple | None = None) -> TracePolynomial:
    """The sum of polynomials of one shape, in one pass; ``shape`` is that of an empty sum."""
    terms: Terms = {}
    first, conditions = zero(shape), frozenset()
    for one in polynomials:
        if not first.terms and first.shape is None:  # 0 + matrix, as sum() starts
            first = one
        elif one.shape != first.shape and (one.terms or one.shape is not None):
            raise ValueError(
                f"shape mismatch in a sum: {first} has shape {first.shape or 'scalar'}, {one} {one.shape or 'scalar'}"
            )
        conditions |= one.conditions
        for term, number in one.terms.items():
            accumulate(terms, term, number)
    return TracePolynomial.from_terms(terms, first.shape, conditions)


def one(shape: tuple | None) -> TracePolynomial:
    """The number 1, or the identity of a square shape."""
    return TracePolynomial.from_terms({((), (), None if shape is None else ()): 1}, shape)


def zero(shape: tuple | None) -> TracePolynomial:
    return TracePolynomial.from_terms({}, None if shape in (None, (1, 1)) else shape)


def polynomial_of_word(word: words.Word, shape: tuple | None) -> TracePolynomial:
    """An open word as a polynomial."""
    if not word and shape == (1, 1):
        return one(None)
    kept, cut = words.open_(word) if word else (word, [])
    return TracePolynomial.from_terms({((), tuple(sorted(cut)), kept): 1}, None if kept is None else shape)
