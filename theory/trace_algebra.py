r"""Trace polynomials: sums of (rational coefficient) x (scalars) x (traces of words) x (one open word), in canonical form.

A term is a tuple ``(scalars, traces, word)``:

* ``scalars``: powers of scalar symbols, positive or negative, as sorted pairs (generator, exponent);
* ``traces``: sorted canonical closed words (see ``words``), each a trace or a bilinear form x' A y;
* ``word``: the open word of a matrix-valued term (empty for the identity), None for a scalar.

A :class:`TracePolynomial` maps terms to nonzero rational numbers. The form is unique, so equality is a comparison of dictionaries:

>>> from sympy import Trace
>>> from iclflow.theory.notation import Lambda, Lambda_hat, N, matrix, D
>>> A, C = matrix("A", D), matrix("C", D)
>>> TracePolynomial(Trace(A * C * Lambda)) == TracePolynomial(Trace(C.T * A.T * Lambda))
True
>>> TracePolynomial(Lambda * (A + C) - Lambda * A) == Lambda * C
True
>>> print(TracePolynomial(Trace(C.T * Lambda * A) / N * Lambda.I * Lambda))
1/N tr(A C' Lambda) I

Denominators that are sums, as in N / (N - D - 1), are kept as powers of their irreducible factors and reduced to lowest terms.
"""

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import sympy
from sympy import Expr

from . import words
from .coefficients import (
    Coefficient,
    Number,
    Scalars,
    exact,
    has_sum,
    lowest_terms,
    multiply_scalars,
    rational,
    scalar_of,
)

Term = tuple[Scalars, tuple[words.Word, ...], Any]  # the last is a word, or None where the polynomial is scalar
Terms = dict[Term, Number]

__all__ = ["TracePolynomial"]

SUPPORTED = (
    "sums, products, integer powers, transposes, inverses of products and traces of matrix symbols, with coefficients that are "
    "rational in scalar symbols"
)


def multiply_traces(left: tuple[words.Word, ...], right: Iterable[words.Word]) -> tuple[words.Word, ...]:
    return tuple(sorted([*left, *right]))


@lru_cache(maxsize=1 << 16)
def trace_of(word: words.Word) -> Terms:
    """The trace of a nonempty word, as terms: one closed term, times the dimension where the word cancels to an identity."""
    traces, sizes = words.close(word)
    terms: Terms = {((), tuple(sorted(traces)), None): 1}
    for size in sizes:
        terms = {
            (multiply_scalars(s, s2), t, None): n * n2
            for (s, t, _), n in terms.items()
            for (s2, _, _), n2 in TracePolynomial(size).terms.items()
        }
    return terms


def accumulate(terms: Terms, term: Term, number: Number) -> None:
    """Add ``number`` times ``term`` to ``terms``, dropping what cancels."""
    total = terms.get(term, 0) + number
    if total:
        terms[term] = total
    else:
        terms.pop(term, None)


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
        from .sympy_forms import read  # which builds on this class

        return read(expression)

    @classmethod
    def from_terms(cls, terms: Terms, shape: tuple | None, conditions: frozenset = frozenset()) -> "TracePolynomial":
        """Wrap terms that are canonical already, but for sums in denominators, which are reduced here."""
        self = object.__new__(cls)
        if any(has_sum(scalars) for scalars, _, _ in terms):
            terms = _lowest_terms(terms)
        for name, value in (("terms", terms), ("shape", shape), ("conditions", conditions)):
            object.__setattr__(self, name, value)
        return self

    def __setattr__(self, name, value):
        raise AttributeError(f"a TracePolynomial is immutable: {name} cannot be set")

    def __reduce__(self):
        return _rebuild, (self.to_sympy(), self.conditions)

    # Arithmetic

    def __add__(self, other):
        other = _operand(other)
        if other is NotImplemented:
            return NotImplemented
        shape = _common_shape(self, other)
        terms = dict(self.terms)
        for term, number in other.terms.items():
            accumulate(terms, term, number)
        return TracePolynomial.from_terms(terms, shape, self.conditions | other.conditions)

    __radd__ = __add__

    def __neg__(self):
        return self._scaled(-1)

    def __sub__(self, other):
        other = _operand(other)
        return other if other is NotImplemented else self + (-other)

    def __rsub__(self, other):
        return (-self) + other

    def __mul__(self, other):
        other = _operand(other)
        return other if other is NotImplemented else product(self, other)

    def __rmul__(self, other):
        other = _operand(other)
        return other if other is NotImplemented else product(other, self)

    __matmul__, __rmatmul__ = __mul__, __rmul__

    def __truediv__(self, other):
        other = _operand(other)
        return other if other is NotImplemented else product(self, other.reciprocal())

    def __rtruediv__(self, other):
        other = _operand(other)
        return other if other is NotImplemented else product(other, self.reciprocal())

    def __pow__(self, exponent):
        return power(self, exponent)

    def _with(self, conditions: frozenset) -> "TracePolynomial":
        """The same polynomial, holding under these conditions."""
        return TracePolynomial.from_terms(self.terms, self.shape, conditions)

    def _scaled(self, number):
        return TracePolynomial.from_terms(
            {term: number * n for term, n in self.terms.items()}, self.shape, self.conditions
        )

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
        terms: Terms = {}
        identity = TracePolynomial(self.shape[0]).terms
        for (scalars, traces, word), number in self.terms.items():
            for (inner, closed, _), factor in (trace_of(word) if word else identity).items():
                accumulate(
                    terms, (multiply_scalars(scalars, inner), multiply_traces(traces, closed), None), number * factor
                )
        return TracePolynomial.from_terms(terms, None, self.conditions)

    def reciprocal(self) -> "TracePolynomial":
        """1 / self, for a scalar free of traces, or the inverse of a single product of square letters."""
        return _invert(self)

    # Comparison

    def __eq__(self, other):
        other = _operand(other)
        if other is NotImplemented:
            return NotImplemented
        zero_shape = not self.terms and not other.terms
        return self.terms == other.terms and (zero_shape or self.shape == other.shape)

    def __hash__(self):
        return hash(frozenset(self.terms.items()))

    def __bool__(self):
        return bool(self.terms)

    @property
    def free_symbols(self) -> set:
        """Every matrix and scalar symbol in it."""
        generators: set[int] = set()
        letters: set[int] = set()
        for scalars, traces, word in self.terms:
            generators.update(generator for generator, _ in scalars)
            letters.update(*traces, word or ())
        found: set = {words.symbol_of(code) for code in letters}
        return found.union(*(scalar_of(generator).free_symbols for generator in generators))

    # To SymPy, and to the reader

    def groups(self) -> list[tuple[Coefficient, tuple[words.Word, ...], words.Word | None]]:
        """The terms gathered by their traces and word, each with its coefficient {scalars: number}, in the order of print."""
        gathered: dict = {}
        for (scalars, traces, word), number in self.terms.items():
            gathered.setdefault((traces, word), {})[scalars] = number
        order = sorted(gathered, key=lambda key: _print_order(*key))
        return [(gathered[key], *key) for key in order]

    def to_sympy(self) -> Expr:
        """The SymPy expression: a MatrixExpr, or a scalar with Trace factors. ``TracePolynomial(p.to_sympy()) == p``."""
        from .sympy_forms import write

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


def _operand(value):
    if isinstance(value, TracePolynomial):
        return value
    if isinstance(value, int | Fraction | Expr):
        return TracePolynomial(value)
    return NotImplemented


def _common_shape(left: TracePolynomial, right: TracePolynomial):
    if left.shape != right.shape:
        if not left.terms and left.shape is None:  # 0 + matrix, as sum() starts
            return right.shape
        if not right.terms and right.shape is None:
            return left.shape
        raise ValueError(
            f"shape mismatch in a sum: {left} has shape {left.shape or 'scalar'}, {right} {right.shape or 'scalar'}"
        )
    return left.shape


def total(polynomials: Iterable[TracePolynomial], shape: tuple | None = None) -> TracePolynomial:
    """The sum of polynomials of one shape, in one pass; ``shape`` is that of an empty sum."""
    terms: Terms = {}
    so_far = zero(shape)
    conditions: frozenset = frozenset()
    for one in polynomials:
        so_far = one if one.shape == _common_shape(so_far, one) else so_far
        conditions |= one.conditions
        for term, number in one.terms.items():
            accumulate(terms, term, number)
    return TracePolynomial.from_terms(terms, so_far.shape, conditions)


def product(left: TracePolynomial, right: TracePolynomial) -> TracePolynomial:
    """The product of two polynomials; scalars commute, matrices must fit."""
    matrices = None not in (left.shape, right.shape)
    if matrices and left.shape[1] != right.shape[0]:
        raise ValueError(
            f"shape mismatch in a product: ({left}) has shape {left.shape}, ({right}) has shape {right.shape}"
        )
    shape = (left.shape[0], right.shape[1]) if matrices else left.shape or right.shape
    if shape == (1, 1):
        shape = None
    terms: Terms = {}
    for (scalars_l, traces_l, word_l), number_l in left.terms.items():
        for (scalars_r, traces_r, word_r), number_r in right.terms.items():
            scalars = multiply_scalars(scalars_l, scalars_r)
            if word_l is None or word_r is None:
                word, cut = (word_r if word_l is None else word_l), ()
            else:
                word, cut = words.open_(word_l + word_r)
            accumulate(terms, (scalars, multiply_traces(traces_l, (*traces_r, *cut)), word), number_l * number_r)
    return TracePolynomial.from_terms(terms, shape, left.conditions | right.conditions)


def power(base: TracePolynomial, exponent) -> TracePolynomial:
    if isinstance(exponent, bool) or not (isinstance(exponent, int) or getattr(exponent, "is_Integer", False)):
        raise ValueError(f"power: ({base})^({exponent}) has an exponent that is not an integer; supported: {SUPPORTED}")
    exponent = int(exponent)
    if base.shape is not None and base.shape[0] != base.shape[1]:
        raise ValueError(f"power: ({base}) has shape {base.shape}; a power needs a square matrix")
    if exponent < 0:
        base, exponent = base.reciprocal(), -exponent
    result = one(base.shape)
    while exponent:
        if exponent & 1:
            result = product(result, base)
        exponent >>= 1
        base = product(base, base) if exponent else base
    return result


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


def _invert(value: TracePolynomial) -> TracePolynomial:
    if value.shape is None:
        if not value.terms:
            raise ZeroDivisionError("division by a trace polynomial that is zero")
        if any(traces for _, traces, _ in value.terms):
            raise ValueError(
                f"cannot divide by {value}: a denominator may hold scalar symbols only, no traces; supported: {SUPPORTED}"
            )
        if len(value.terms) == 1:
            (((scalars, _, _), number),) = value.terms.items()
            if not has_sum(scalars):
                flipped = tuple((generator, -exponent) for generator, exponent in scalars)
                return TracePolynomial.from_terms(
                    {(flipped, (), None): exact(1 / Fraction(number))}, None, value.conditions
                )
        return TracePolynomial.from_terms(
            {(scalars, (), None): n for scalars, n in rational(1 / value.to_sympy()).items()}, None, value.conditions
        )
    if len(value.terms) != 1 or value.shape[0] != value.shape[1]:
        raise ValueError(f"cannot invert ({value}): only a product of square matrix symbols has an inverse here")
    (((scalars, traces, word), number),) = value.terms.items()
    if traces or any(words.rows(code) != value.shape[0] or words.columns(code) != value.shape[0] for code in word):
        raise ValueError(f"cannot invert ({value}): only a product of square matrix symbols has an inverse here")
    coefficient = _invert(TracePolynomial.from_terms({(scalars, (), None): number}, None))
    return product(
        coefficient, TracePolynomial.from_terms({((), (), words.inverse(word)): 1}, value.shape, value.conditions)
    )


def _lowest_terms(terms: Terms) -> Terms:
    """Reduce each coefficient to lowest terms, so that equal rational functions are equal dictionaries."""
    gathered: dict = {}
    for (scalars, traces, word), number in terms.items():
        gathered.setdefault((traces, word), {})[scalars] = number
    reduced: Terms = {}
    for (traces, word), coefficient in gathered.items():
        if any(map(has_sum, coefficient)):
            coefficient = lowest_terms(frozenset(coefficient.items()))
        reduced.update({(scalars, traces, word): number for scalars, number in coefficient.items()})
    return reduced


def _print_order(traces, word):
    """Low degree first, then long words, then few traces, then by name: the order of every printed and exported formula."""
    inner = word or ()
    names = sorted(words.name_key(words.readable_rotation(one)) for one in traces)
    degree = len(inner) + sum(map(len, traces))
    return degree, -len(inner), len(traces), words.name_key(inner), names
