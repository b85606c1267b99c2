r"""Substitution into trace polynomials, and their collection by powers of a scalar.

>>> from iclflow.theory.notation import D, Lambda, N, matrix
>>> A, W = matrix("A", D), matrix("W", D)
>>> substitute(A * W * A.T, {W: Lambda / N})
1/N A Lambda A'
"""

from collections.abc import Mapping
from functools import reduce
from operator import mul

from sympy import Dummy, Symbol
from sympy.core.function import AppliedUndef
from sympy.matrices.expressions import MatrixSymbol
from sympy.tensor.indexed import Indexed

from ..algebra import words
from ..algebra.closing import close_ends, open_ends
from ..algebra.coefficients import scalar_of
from ..algebra.polynomial import TracePolynomial, polynomial_of_word, zero
from ..algebra.terms import Terms, accumulate, matrix_symbols


def require_mapping(verb: str, value, what: str) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"{verb}: needs a mapping {{symbol: {what}, ...}}, got {value!r}")


def refuse_namesake(polynomial: TracePolynomial, symbol, verb: str) -> None:
    """Raise ValueError if the polynomial contains, in place of the symbol, another one of its name: surely a mistake."""
    present = polynomial.free_symbols
    if symbol not in present and any(getattr(other, "name", None) == symbol.name for other in present):
        raise ValueError(f"{verb}: the {symbol} in {polynomial} is another symbol of that name (its shape, symmetry or assumptions differ)")


def refuse_namesakes(polynomial: TracePolynomial, verb: str) -> None:
    """Raise ValueError if two symbols of the polynomial print alike: surely a mistake."""
    seen: dict[str, object] = {}
    for symbol in polynomial.free_symbols:
        other = seen.setdefault(name := str(symbol), symbol)
        if other != symbol and not isinstance(symbol, Dummy):
            raise ValueError(f"{verb}: {polynomial} holds two symbols {name}, whose shape, symmetry or assumptions differ")


def substitute(expression, replacements: Mapping) -> TracePolynomial:
    """Replace symbols by expressions of the same shape, all at once: an ansatz, a definition, a fixed point.

    A symmetric symbol takes a symmetric expression; an inverted one takes an expression with an inverse (a product of square symbols).
    Otherwise raises ValueError, naming the symbol.
    """
    polynomial = TracePolynomial(expression)
    require_mapping("substitute", replacements, "expression")
    matrices, scalars = {}, {}
    for symbol, value in replacements.items():
        value = TracePolynomial(value)
        if isinstance(symbol, Symbol | MatrixSymbol):
            refuse_namesake(polynomial, symbol, "substitute")
        if isinstance(symbol, MatrixSymbol):
            shape = None if symbol.shape == (1, 1) else tuple(symbol.shape)
            if value.shape != shape and value.terms:
                raise ValueError(
                    f"substitute: {symbol} has shape {tuple(symbol.shape)}, its replacement {value} has {value.shape or 'none (a scalar)'}"
                )
            value = value if value.terms else zero(shape)
            if getattr(symbol, "is_symmetric_letter", False) and value != value.T:
                raise ValueError(f"substitute: {symbol} is symmetric, its replacement {value} is not")
            matrices[words.letter(symbol) >> 2] = value
        elif isinstance(symbol, Symbol | AppliedUndef | Indexed):
            if symbol in dimensions(polynomial):
                raise ValueError(f"substitute: {symbol} is the dimension of a matrix; explicit(..., {symbol}=2) sets sizes")
            if value.shape is not None:
                raise ValueError(f"substitute: {symbol} is a scalar, its replacement {value} has shape {value.shape}")
            scalars[symbol] = value
        else:
            raise TypeError(f"substitute: {symbol!r} is not a symbol; replace matrix, vector or scalar symbols")
    conditions = substitute_conditions(polynomial.conditions, scalars)
    terms: Terms = {}
    for (powers, traces, _), number in close_ends(polynomial).items():
        result = _substitute_scalars(powers, number, scalars)
        for closed in traces:
            result = result * _substitute_word(closed, matrices)
        for term, value in result.terms.items():
            accumulate(terms, term, value)
    conditions = conditions.union(*(value.conditions for value in (*matrices.values(), *scalars.values())))
    return open_ends(terms, polynomial.shape, conditions)


def substitute_conditions(conditions: frozenset, scalars: Mapping) -> frozenset:
    """The conditions after the substitution, without those that became true. ValueError if one became false."""
    values = {symbol: getattr(value, "to_sympy", lambda value=value: value)() for symbol, value in scalars.items()}
    kept = set()
    for condition in conditions:
        after = condition.subs(values, simultaneous=True)
        if after == False:  # noqa: E712  (SymPy's own false)
            raise ValueError(f"the formula holds for {condition} only, which {values} contradicts")
        if after != True:  # noqa: E712
            kept.add(after)
    return frozenset(kept)


def _substitute_word(closed: words.Word, matrices: Mapping) -> TracePolynomial:
    cut = words.cut_position(closed) or 0
    closed = closed[cut:] + closed[:cut]
    if not any(code >> 2 in matrices for code in closed):
        return TracePolynomial.from_terms({((), (words.least_rotation(closed),), None): 1}, None)
    factors = []
    for code in closed:
        value = matrices.get(code >> 2)
        if value is None:
            value = polynomial_of_word((code,), (words.rows(code), words.columns(code)))
        else:
            if words.is_inverse(code):
                value = _reciprocal(value, words.symbol_of(code))
            value = value.T if words.is_transposed(code) else value
        factors.append(value)
    return reduce(mul, factors).trace()


def _reciprocal(value: TracePolynomial, symbol) -> TracePolynomial:
    try:
        return value.reciprocal()
    except (ValueError, ZeroDivisionError) as error:
        raise ValueError(f"substitute: {symbol} is inverted, and its replacement is not invertible here: {error}") from None


def _substitute_scalars(powers, number, scalars: Mapping) -> TracePolynomial:
    result = TracePolynomial.from_terms({((), (), None): number}, None)
    for generator, exponent in powers:
        base = scalar_of(generator)
        if base in scalars:
            base = scalars[base]
        elif base.free_symbols & scalars.keys():
            base = TracePolynomial(base.subs({symbol: value.to_sympy() for symbol, value in scalars.items()}, simultaneous=True))
        try:
            result = result * TracePolynomial(base) ** exponent
        except ZeroDivisionError:
            raise ZeroDivisionError(f"substitute: the denominator {scalar_of(generator)} becomes zero at {scalars}") from None
    return result


def collect(expression, by) -> dict:
    """Gather a polynomial by the powers of a scalar symbol, ``collect(p, N)``, or by its traces, ``collect(p, "traces")``.

    Returns {exponent: polynomial}, rising, or {product of traces: polynomial}; the sum of key times value (N**key, for powers) is ``p``.
    """
    polynomial = TracePolynomial(expression)
    gathered: dict = {}
    if isinstance(by, Symbol):
        for (scalars, traces, word), number in polynomial.terms.items():
            if any(by in scalar_of(g).free_symbols and scalar_of(g) != by for g, _ in scalars):
                raise ValueError(f"collect: {by} stands in a denominator that is a sum, in {polynomial}; multiply it out first")
            exponent = next((e for g, e in scalars if scalar_of(g) == by), 0)
            rest = tuple((g, e) for g, e in scalars if scalar_of(g) != by)
            gathered.setdefault(exponent, {})[rest, traces, word] = number
        return {e: TracePolynomial.from_terms(gathered[e], polynomial.shape, polynomial.conditions) for e in sorted(gathered)}
    if by != "traces":
        raise ValueError(f"collect: by must be a scalar symbol or 'traces', got {by!r}")
    for coefficient, traces, word in polynomial.groups():
        key = TracePolynomial.from_terms({((), traces, None): 1}, None)
        inner = gathered.setdefault(key, {})
        inner.update({(scalars, (), word): number for scalars, number in coefficient.items()})
    return {key: TracePolynomial.from_terms(terms, polynomial.shape, polynomial.conditions) for key, terms in gathered.items()}


def dimensions(polynomial: TracePolynomial) -> set:
    """The symbols in the shapes of the polynomial and of its matrix symbols."""
    shapes = [size for letter in matrix_symbols(polynomial.terms) for size in letter.shape] + list(polynomial.shape or ())
    return set().union(*(dimension.free_symbols for dimension in shapes))
