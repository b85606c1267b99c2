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
from functools import cache, lru_cache, reduce
from itertools import groupby
from typing import Any

import sympy
from sympy import (
    Add,
    BlockMatrix,
    Expr,
    Integer,
    MatAdd,
    MatMul,
    MatPow,
    Mul,
    Pow,
    Rational,
    Symbol,
    Trace,
)
from sympy.core.function import AppliedUndef
from sympy.matrices.expressions import Identity, Inverse, MatrixSymbol, Transpose, ZeroMatrix
from sympy.matrices.expressions.matexpr import MatrixElement
from sympy.tensor.indexed import Indexed

from . import words

Scalars = tuple[tuple[int, int], ...]
Term = tuple[Scalars, tuple[words.Word, ...], Any]  # the last is a word, or None where the polynomial is scalar
Terms = dict[Term, "int | Fraction"]

__all__ = ["TracePolynomial"]

SUPPORTED = (
    "sums, products, integer powers, transposes, inverses of products and traces of matrix symbols, with coefficients that are "
    "rational in scalar symbols"
)

_generators: list[Expr] = []  # symbols, and the irreducible sums that stand in denominators
_generator_index: dict[Expr, int] = {}
_sums: set[int] = set()  # the generators that are sums: they occur with negative exponents only


def _generator(expression: Expr) -> int:
    index = _generator_index.get(expression)
    if index is None:
        index = _generator_index[expression] = len(_generators)
        _generators.append(expression)
        if isinstance(expression, Add):
            _sums.add(index)
    return index


@lru_cache(maxsize=1 << 16)
def multiply_scalars(left: Scalars, right: Scalars) -> Scalars:
    if not left or not right:
        return left or right
    exponents = dict(left)
    for generator, exponent in right:
        exponents[generator] = exponents.get(generator, 0) + exponent
    return tuple(sorted((g, e) for g, e in exponents.items() if e))


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
            for (s2, _, _), n2 in read(size).terms.items()
        }
    return terms


def accumulate(terms: Terms, term: Term, number: "int | Fraction") -> None:
    """Add ``number`` times ``term`` to ``terms``, dropping what cancels."""
    total = terms.get(term, 0) + number
    if total:
        terms[term] = total
    else:
        terms.pop(term, None)


class TracePolynomial:
    """A scalar or matrix-valued polynomial in matrix letters and their traces, in canonical form. Immutable.

    ``TracePolynomial(expression)`` reads a SymPy expression; ``+ - * / **``, ``.T`` and ``.trace()`` work with SymPy expressions on
    either side; ``==`` is exact equality of canonical forms; ``to_sympy()`` goes back. It prints as text and, in Jupyter, as LaTeX.

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
        return expression if isinstance(expression, TracePolynomial) else read(expression)

    @classmethod
    def from_terms(cls, terms: Terms, shape: tuple | None, conditions: frozenset = frozenset()) -> "TracePolynomial":
        """Wrap terms that are canonical already, but for sums in denominators, which are reduced here."""
        self = object.__new__(cls)
        if _sums and any(generator in _sums for scalars, _, _ in terms for generator, _ in scalars):
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
        identity = read(self.shape[0]).terms
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
        return found.union(*(_generators[generator].free_symbols for generator in generators))

    # To SymPy, and to the reader

    def groups(self) -> list[tuple[dict[Scalars, "int | Fraction"], tuple[words.Word, ...], words.Word | None]]:
        """The terms gathered by their traces and word, each with its coefficient {scalars: number}, in the order of print."""
        gathered: dict = {}
        for (scalars, traces, word), number in self.terms.items():
            gathered.setdefault((traces, word), {})[scalars] = number
        order = sorted(gathered, key=lambda key: _print_order(*key))
        return [(gathered[key], *key) for key in order]

    def to_sympy(self) -> Expr:
        """The SymPy expression: a MatrixExpr, or a scalar with Trace factors. ``TracePolynomial(p.to_sympy()) == p``."""
        summands = []
        for coefficient, traces, word in self.groups():
            factors = [Trace(_sympy_word(words.readable_rotation(one))) for one in traces]
            scalar = Mul(_sympy_coefficient(coefficient), *factors)
            summands.append(scalar if word is None else _sympy_word(word, self.shape, scalar))
        if self.shape is None:
            return Add(*summands)
        if not summands:
            return ZeroMatrix(*self.shape)
        return MatAdd(*summands) if len(summands) > 1 else summands[0]

    def __str__(self):
        from .printing import text

        return text(self)

    __repr__ = __str__

    def _latex(self, printer=None):
        from .printing import latex

        return latex(self)

    def _repr_latex_(self):
        return rf"$\displaystyle {self._latex()}$"


def _rebuild(expression, conditions):
    plain = read(expression)
    return TracePolynomial.from_terms(plain.terms, plain.shape, conditions)


def _operand(value):
    if isinstance(value, TracePolynomial):
        return value
    if isinstance(value, int | Fraction | Expr):
        return read(value)
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


# A matrix-valued term l' P r, closed by a constant vector at each end, is a scalar term: what is done to closed words serves open ones.


class _Port(MatrixSymbol):
    """A constant vector that no user's symbol can be equal to, whatever its name."""


@cache
def _ports(rows, columns) -> tuple[words.Word, words.Word]:
    """The letters l' and r that close an open word; none where the dimension is 1 already."""
    left = () if rows == 1 else words.transpose((words.letter(_Port("<left>", rows, 1)),))
    right = () if columns == 1 else (words.letter(_Port("<right>", columns, 1)),)
    return left, right


def close_ports(polynomial: TracePolynomial) -> Terms:
    """The terms of l' P r for a matrix-valued P (its shape says how to open them again); of P itself for a scalar."""
    if polynomial.shape is None:
        return polynomial.terms
    left, right = _ports(*polynomial.shape)
    terms: Terms = {}
    for (scalars, traces, word), number in polynomial.terms.items():
        for (inner, closed, _), factor in trace_of(left + word + right).items():
            accumulate(
                terms, (multiply_scalars(scalars, inner), multiply_traces(traces, closed), None), number * factor
            )
    return terms


def open_ports(terms: Terms, shape: tuple | None, conditions: frozenset = frozenset()) -> TracePolynomial:
    """The polynomial P of the given shape whose closed form l' P r has these terms."""
    if shape is None:
        return TracePolynomial.from_terms(terms, None, conditions)
    left, right = _ports(*shape)
    opened: Terms = {}
    for (scalars, traces, _), number in terms.items():
        head, tail, others = (), (), []
        for closed in traces:
            cut = words.cut_position(closed)
            turned = closed if cut is None else closed[cut:] + closed[:cut]
            if (right and right[0] ^ 1 == turned[0]) or (left and left[0] ^ 1 == turned[-1]):
                turned = words.transpose(turned)
            if left and turned[0] == left[0]:
                head = turned[1:]
            elif right and turned[-1] == right[0]:
                tail = turned[:-1]
            else:
                others.append(closed)
        if right and head[-1:] == right:
            head = head[:-1]
        accumulate(opened, (scalars, tuple(others), head + tail), number)
    return TracePolynomial.from_terms(opened, shape, conditions)


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
            if not any(generator in _sums for generator, _ in scalars):
                flipped = tuple((generator, -exponent) for generator, exponent in scalars)
                return TracePolynomial.from_terms(
                    {(flipped, (), None): _exact(1 / Fraction(number))}, None, value.conditions
                )
        return TracePolynomial.from_terms(_rational(1 / value.to_sympy()), None, value.conditions)
    if len(value.terms) != 1 or value.shape[0] != value.shape[1]:
        raise ValueError(f"cannot invert ({value}): only a product of square matrix symbols has an inverse here")
    (((scalars, traces, word), number),) = value.terms.items()
    if traces or any(words.rows(code) != value.shape[0] or words.columns(code) != value.shape[0] for code in word):
        raise ValueError(f"cannot invert ({value}): only a product of square matrix symbols has an inverse here")
    coefficient = _invert(TracePolynomial.from_terms({(scalars, (), None): number}, None))
    return product(
        coefficient, TracePolynomial.from_terms({((), (), words.inverse(word)): 1}, value.shape, value.conditions)
    )


# Reading SymPy


def read(expression) -> TracePolynomial:
    """The trace polynomial of a SymPy expression; ValueError names the sub-expression that is not one."""
    if isinstance(expression, str):
        raise ValueError(
            f"{expression!r} is text; read it with iclflow.theory.grammar, or write it in SymPy's matrix symbols"
        )
    expression = sympy.sympify(expression, strict=True) if not isinstance(expression, Expr) else expression
    for kinds, reader in _READERS:
        if isinstance(expression, kinds):
            return reader(expression)
    raise _unsupported(expression)


def _unsupported(expression) -> ValueError:
    hint = "; write one entry of a product as a 1 x 1 product, x.T*A*y" if isinstance(expression, sympy.Sum) else ""
    kind = type(expression).__name__
    return ValueError(f"{expression} ({kind}) is not a trace polynomial{hint}; supported: {SUPPORTED}")


def _read_number(number) -> TracePolynomial:
    if not isinstance(number, Rational) or not number.is_finite:
        raise ValueError(f"the coefficient {number} is not a rational number; write it as one, e.g. Rational('0.1')")
    value = _exact(Fraction(int(number.p), int(number.q)))
    return TracePolynomial.from_terms({((), (), None): value} if value else {}, None)


def _exact(number: Fraction) -> "int | Fraction":
    """An integer where it is one: integer arithmetic is several times faster."""
    return number.numerator if number.denominator == 1 else number


def _read_scalar(symbol) -> TracePolynomial:
    if not symbol.is_commutative:
        raise ValueError(f"the scalar {symbol} is not commutative; use a MatrixSymbol for a matrix")
    return TracePolynomial.from_terms({(((_generator(symbol), 1),), (), None): 1}, None)


def _read_letter(symbol) -> TracePolynomial:
    if symbol.shape == (1, 1):
        return TracePolynomial.from_terms({((), ((words.letter(symbol),),), None): 1}, None)
    return TracePolynomial.from_terms({((), (), (words.letter(symbol),)): 1}, symbol.shape)


def _read_sum(expression) -> TracePolynomial:
    return total([read(argument) for argument in expression.args])


def _read_product(expression) -> TracePolynomial:
    if any(isinstance(argument, BlockMatrix) for argument in expression.args):
        return _read_block_product(expression)
    first, *rest = (read(argument) for argument in expression.args)
    for factor in rest:
        first = product(first, factor)
    return first


def _read_block_product(expression) -> TracePolynomial:
    """A product of block matrices that is one block."""
    grids = [
        [[read(argument.blocks[i, j]) for j in range(argument.blocks.cols)] for i in range(argument.blocks.rows)]
        if isinstance(argument, BlockMatrix)
        else [[read(argument)]]
        for argument in expression.args
    ]
    result = reduce(_multiply_grids, grids)
    if len(result) > 1 or len(result[0]) > 1:
        raise _unsupported(expression)
    return result[0][0]


def _multiply_grids(left: list, right: list) -> list:
    for scalar, grid in ((left, right), (right, left)):
        if len(scalar) == len(scalar[0]) == 1 and scalar[0][0].shape is None:
            return [[product(scalar[0][0], block) for block in row] for row in grid]
    if len(left[0]) != len(right):
        raise ValueError(
            f"shape mismatch in a product: {len(left[0])} columns of blocks meet {len(right)} rows of blocks"
        )
    columns = list(zip(*right, strict=True))
    return [[total(map(product, row, column)) for column in columns] for row in left]


def _read_element(expression) -> TracePolynomial:
    if expression.parent.shape != (1, 1):
        raise ValueError(
            f"{expression} is one entry of a matrix; write a scalar as a trace or as a 1 x 1 product, x.T*A*y"
        )
    return read(expression.parent)


_READERS = (
    ((sympy.Number, sympy.NumberSymbol, sympy.core.numbers.ImaginaryUnit), _read_number),
    (Symbol, _read_scalar),
    ((AppliedUndef, Indexed), _read_scalar),
    (MatrixSymbol, _read_letter),
    (MatrixElement, _read_element),
    (Identity, lambda expression: one(None if expression.shape == (1, 1) else expression.shape)),
    (ZeroMatrix, lambda expression: zero(expression.shape)),
    ((Add, MatAdd), _read_sum),
    ((Mul, MatMul), _read_product),
    (Inverse, lambda expression: _invert(read(expression.arg))),
    ((Pow, MatPow), lambda expression: power(read(expression.base), expression.exp)),
    (Transpose, lambda expression: read(expression.arg).T),
    (Trace, lambda expression: read(expression.arg).trace()),
)


# Coefficients with sums in the denominator


def _sympy_coefficient(coefficient: dict[Scalars, "int | Fraction"]) -> Expr:
    return Add(*(
        Mul(_sympy_number(number), *(_generators[g] ** e for g, e in scalars)) for scalars, number in coefficient.items()
    ))  # fmt: skip


def _sympy_number(number) -> Expr:
    return Integer(number) if isinstance(number, int) else Rational(number.numerator, number.denominator)


def _sympy_word(word: words.Word, shape: Any = None, scalar: Expr = sympy.S.One) -> Any:
    """The product as SymPy's own canonical MatMul, built directly: a chain of ``*`` would canonicalise at every factor."""
    factors = [_sympy_letter(code) ** len(list(run)) for code, run in groupby(word)] or [Identity(shape[0])]
    return factors[0] if scalar == 1 and len(factors) == 1 else MatMul(*([] if scalar == 1 else [scalar]), *factors)


@cache
def _sympy_letter(code: int) -> Any:
    symbol = words.symbol_of(code)
    symbol = symbol.T if words.is_transposed(code) else symbol
    return symbol.I if words.is_inverse(code) else symbol


def _lowest_terms(terms: Terms) -> Terms:
    """Reduce each coefficient to lowest terms, so that equal rational functions are equal dictionaries."""
    gathered: dict = {}
    for (scalars, traces, word), number in terms.items():
        gathered.setdefault((traces, word), {})[scalars] = number
    reduced: Terms = {}
    for (traces, word), coefficient in gathered.items():
        if any(generator in _sums for scalars in coefficient for generator, _ in scalars):
            coefficient = _reduced(frozenset(coefficient.items()))
        reduced.update({(scalars, traces, word): number for scalars, number in coefficient.items()})
    return reduced


@lru_cache(maxsize=1 << 12)
def _reduced(coefficient: frozenset) -> dict[Scalars, "int | Fraction"]:
    """One coefficient in lowest terms; many terms share theirs, and SymPy takes milliseconds for each."""
    return {scalars: n for (scalars, _, _), n in _rational(_sympy_coefficient(dict(coefficient))).items()}


def _rational(expression: Expr) -> Terms:
    """A rational function as {(scalars, (), None): number}, its denominator factored into irreducible polynomials."""
    numerator, denominator = sympy.fraction(sympy.cancel(sympy.together(expression)))
    if numerator == 0:
        return {}
    constant, factors = sympy.factor_list(denominator)[:2]
    scalars: Scalars = ()
    for factor, exponent in factors:
        if (
            sympy.Poly(factor, *sorted(sympy.Poly(factor).gens, key=str, reverse=True)).LC() < 0
        ):  # N - D - 1, not D - N + 1
            factor, constant = -factor, constant * (-1) ** exponent
        scalars = multiply_scalars(scalars, ((_generator(factor), -exponent),))
    scale = _read_number(1 / constant).terms[((), (), None)]
    expanded = read(sympy.expand(numerator)).terms
    return {(multiply_scalars(inner, scalars), (), None): number * scale for (inner, _, _), number in expanded.items()}


def _print_order(traces, word):
    """Low degree first, then long words, then few traces, then by name: the order of every printed and exported formula."""
    inner = word or ()
    names = sorted(words.name_key(words.readable_rotation(one)) for one in traces)
    degree = len(inner) + sum(map(len, traces))
    return degree, -len(inner), len(traces), words.name_key(inner), names


def scalar_of(generator: int) -> Expr:
    """The SymPy expression of a scalar generator."""
    return _generators[generator]


def coefficient_of(coefficient: dict[Scalars, "int | Fraction"]) -> Expr:
    """The SymPy expression of a coefficient {scalars: number}, as :meth:`TracePolynomial.groups` gives it."""
    return _sympy_coefficient(coefficient)
