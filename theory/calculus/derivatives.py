r"""Derivatives of trace polynomials.

The gradient of a scalar f with respect to W has the shape of W and satisfies df = tr(grad' dW). It is the cyclic derivative: each
occurrence of W in a trace, turned to the front, tr(W P), contributes P'; each W' contributes P; each W^-1 contributes -(W^-1 P W^-1)'.

>>> from sympy import Trace
>>> from iclflow.theory.notation import D, Lambda, matrix
>>> A, W = matrix("A", D), matrix("W", D)
>>> gradient(Trace(A * W * Lambda * W.T), W)
A W Lambda + A' W Lambda
"""

from collections.abc import Mapping

import sympy
from sympy import Symbol
from sympy.matrices.expressions import MatrixSymbol

from ..algebra import words
from ..algebra.coefficients import Coefficient, coefficient_of, generator, multiply_scalars, scalar_of
from ..algebra.polynomial import TracePolynomial, polynomial_of_word, total
from .substitution import dimensions, refuse_namesake, refuse_namesakes, require_mapping


def gradient(scalar, symbol) -> TracePolynomial:
    """The gradient of a scalar with respect to a matrix, a vector or a scalar symbol; it has the symbol's shape.

    With respect to a symmetric matrix it is the symmetric gradient, the one with df = tr(grad dW) for symmetric dW. Second derivatives:
    the gradient of ``(gradient(f, W).T * direction).trace()``, or :func:`hessian_form`.

    Raises ValueError if ``scalar`` is matrix-valued or ``symbol`` is a dimension, TypeError if ``symbol`` is not a symbol.
    """
    polynomial = TracePolynomial(scalar)
    if polynomial.shape is not None:
        raise ValueError(f"gradient: needs a scalar, got shape {polynomial.shape} in {polynomial}; take a trace first")
    if not isinstance(symbol, Symbol | MatrixSymbol):
        raise TypeError(f"gradient: symbol must be a matrix, vector or scalar symbol, got {symbol!r}")
    refuse_namesake(polynomial, symbol, "gradient")
    refuse_namesakes(polynomial, "gradient")
    if isinstance(symbol, Symbol):
        return _scalar_gradient(polynomial, symbol)
    index = words.letter(symbol) >> 2
    shape = None if symbol.shape == (1, 1) else tuple(symbol.shape)
    slopes = []
    for (scalars, traces, _), number in polynomial.terms.items():
        for i, closed in enumerate(traces):
            rest = TracePolynomial.from_terms({(scalars, traces[:i] + traces[i + 1 :], None): number}, None)
            for j, code in enumerate(closed):
                if code >> 2 == index:
                    slope = _cyclic_derivative(code, closed[j + 1 :] + closed[:j], symbol.shape)
                    slopes.append(rest * slope)
    result = total([TracePolynomial.from_terms({}, shape, polynomial.conditions), *slopes])
    if shape is not None and getattr(symbol, "is_symmetric_letter", False):
        return (result + result.T) / 2
    return result


def _cyclic_derivative(code: int, rest: words.Word, shape) -> TracePolynomial:
    """The gradient of tr(letter rest) with respect to the symbol of the letter, for this one occurrence."""
    if words.is_inverse(code):
        rest = (code, *rest, code)  # d tr(W^-1 P) = -tr(W^-1 P W^-1 dW)
    matrix = polynomial_of_word(rest, (shape[1], shape[0]) if not words.is_transposed(code) else tuple(shape))
    if not words.is_transposed(code):
        matrix = matrix.T
    return -matrix if words.is_inverse(code) else matrix


def _scalar_gradient(polynomial: TracePolynomial, symbol: Symbol) -> TracePolynomial:
    if symbol in dimensions(polynomial):
        raise ValueError(f"gradient: {symbol} is the dimension of a matrix; there is no derivative with respect to it")
    slopes = [TracePolynomial.from_terms({}, None, polynomial.conditions)]
    for coefficient, traces, _ in polynomial.groups():
        slopes.append(_slope(coefficient, symbol) * TracePolynomial.from_terms({((), traces, None): 1}, None))
    return total(slopes)


def _slope(coefficient: Coefficient, symbol: Symbol) -> TracePolynomial:
    """The derivative of a coefficient: power by power, or by SymPy if the symbol stands in a denominator that is a sum."""
    base = generator(symbol)
    if any(one != base and symbol in scalar_of(one).free_symbols for scalars in coefficient for one, _ in scalars):
        return TracePolynomial(sympy.diff(coefficient_of(coefficient), symbol))
    powers = {scalars: dict(scalars).get(base, 0) for scalars in coefficient}
    terms = {(multiply_scalars(one, ((base, -1),)), (), None): number * powers[one] for one, number in coefficient.items() if powers[one]}
    return TracePolynomial.from_terms(terms, None)


def derivative(scalar, directions: Mapping) -> TracePolynomial:
    """The derivative of a scalar along {symbol: direction, ...}, all at once: sum of tr(gradient' direction).

    Raises ValueError if a direction differs in shape from its symbol, or is not symmetric although the symbol is.
    """
    require_mapping("derivative", directions, "direction")
    slopes = []
    for symbol, direction in directions.items():
        slope, direction = gradient(scalar, symbol), TracePolynomial(direction)
        shape = None if isinstance(symbol, Symbol) or symbol.shape == (1, 1) else tuple(symbol.shape)
        if direction.shape != shape and direction.terms:
            raise ValueError(
                f"derivative: the direction of {symbol} must have shape {shape or 'scalar'}, got {direction.shape} in {direction}"
            )
        if getattr(symbol, "is_symmetric_letter", False) and direction != direction.T:
            raise ValueError(f"derivative: {symbol} is symmetric, its direction {direction} is not")
        slopes.append((slope.T * direction).trace())
    return total(slopes)


def hessian_form(scalar, directions: Mapping) -> TracePolynomial:
    """The quadratic form d^2/de^2 scalar(W + e dW) at e = 0, for {W: dW, ...} jointly.

    Raises ValueError if a direction contains one of the symbols it displaces.
    """
    require_mapping("hessian_form", directions, "direction")
    for symbol, direction in directions.items():
        inside = TracePolynomial(direction).free_symbols & set(directions)
        if inside:
            raise ValueError(f"hessian_form: the direction of {symbol} contains {inside.pop()}; use a fresh symbol")
    return derivative(derivative(scalar, directions), directions)
