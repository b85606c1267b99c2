"""Trace polynomials at small sizes, entry by entry.

>>> from iclflow.theory.notation import D, matrix
>>> A = matrix("A", D)
>>> explicit(A * A.T, D=1)
Matrix([[A[0, 0]**2]])
"""

from collections.abc import Mapping
from functools import reduce
from numbers import Integral

import sympy
from sympy import Symbol
from sympy.matrices.expressions import MatrixSymbol

from ..algebra import words
from ..algebra.coefficients import coefficient_of
from ..algebra.polynomial import TracePolynomial
from .substitution import dimensions, substitute_conditions


def explicit(expression, values: Mapping | None = None, **sizes: int):
    """The formula at small sizes, entry by entry: an explicit SymPy matrix, or a SymPy expression for a scalar.

    ``sizes`` gives each symbolic dimension, ``explicit(p, D=2, N=3)``; ``values`` may give explicit matrices for some symbols. A symmetric
    symbol becomes a symmetric matrix of entries. Raises ValueError for a dimension without a size, for a value of the wrong shape or
    symmetry, for a singular value of an inverted symbol, and for sizes at which a condition of the formula fails or a denominator is zero.
    """
    polynomial = TracePolynomial(expression)
    if not isinstance(values, Mapping | None):
        raise TypeError(f"explicit: values must be a mapping {{symbol: matrix}}, got {values!r}")
    values = dict(values or {})
    for symbol in values:
        if not isinstance(symbol, MatrixSymbol):
            raise ValueError(f"explicit: values are for matrix symbols, got {symbol!r}; use substitute for scalars")
    symbols = sorted(polynomial.free_symbols | dimensions(polynomial), key=str)
    by_name: dict = {}
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
            raise ValueError(f"explicit: {name} must be a positive integer, got {size!r}")
        found = [symbol for symbol in symbols if isinstance(symbol, Symbol) and symbol.name == name]
        by_name.update(dict.fromkeys(found, int(size)))
    substitute_conditions(polynomial.conditions, by_name)
    entries: dict = {}

    def entry_matrix(code):
        symbol = words.symbol_of(code)
        if symbol not in entries:
            shape = tuple(int(_sized(dimension, by_name)) for dimension in symbol.shape)
            if symbol in values:
                given = _matrix(symbol, values[symbol])
                if given.shape != shape:
                    raise ValueError(f"explicit: the value of {symbol} must have shape {shape}, got {given.shape}")
                if getattr(symbol, "is_symmetric_letter", False) and given != given.T:
                    raise ValueError(f"explicit: {symbol} is symmetric, its value {given} is not")
                entries[symbol] = given
            else:
                if any(other.name == symbol.name for other in entries if other not in values):
                    raise ValueError(f"explicit: two symbols are called {symbol.name}, and so would be their entries")
                symmetric = getattr(symbol, "is_symmetric_letter", False)
                plain = MatrixSymbol(symbol.name, *shape)
                entries[symbol] = sympy.Matrix(*shape, lambda i, j: plain[min(i, j), max(i, j)] if symmetric else plain[i, j])
        matrix = entries[symbol]
        matrix = matrix.T if words.is_transposed(code) else matrix
        return _inverse(symbol, matrix) if words.is_inverse(code) else matrix

    def multiply(word):
        return reduce(lambda left, right: left * right, map(entry_matrix, word))

    shape = polynomial.shape and tuple(int(_sized(dimension, by_name)) for dimension in polynomial.shape)
    total = sympy.zeros(*shape) if shape else sympy.S.Zero
    for coefficient, traces, word in polynomial.groups():
        scalar = coefficient_of(coefficient).subs(by_name)
        if scalar.has(sympy.zoo, sympy.nan):
            raise ValueError(f"explicit: a denominator of {polynomial} is zero at {sizes}")
        for closed in traces:
            cut = words.cut_position(closed) or 0
            scalar = scalar * multiply(closed[cut:] + closed[:cut]).trace()
        total += scalar * (sympy.S.One if word is None else multiply(word) if word else sympy.eye(shape[0]))
    return total.applyfunc(sympy.expand) if shape else sympy.expand(total)


def _matrix(symbol, value) -> sympy.Matrix:
    try:
        return sympy.Matrix(value)
    except (TypeError, ValueError):
        raise ValueError(f"explicit: the value of {symbol} must be a matrix or its rows, got {value!r}") from None


def _inverse(symbol, matrix) -> sympy.Matrix:
    try:
        return matrix.inv()
    except ValueError:
        raise ValueError(f"explicit: {symbol} is inverted, and its value {matrix} has no inverse") from None


def _sized(dimension, by_name):
    size = dimension.subs(by_name)
    if not size.is_Integer:
        raise ValueError(f"explicit: the dimension {size} is still symbolic; give it a size, e.g. {size}=2")
    return size
