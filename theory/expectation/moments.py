r"""Exact Gaussian expectations of trace polynomials, by integration by parts (Stein's lemma) with symbolic D and N.

>>> from iclflow.theory.notation import Lambda_hat
>>> expect(Lambda_hat**2)                                                          # equation (31)
(1 + 1/N) Lambda^2 + 1/N tr(Lambda) Lambda

The laws of the random symbols are integrated one after another, each by the recursion in ``stein``.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

from sympy import GreaterThan, StrictGreaterThan, Symbol
from sympy.matrices.expressions import KroneckerProduct, MatrixSymbol

from ..algebra.closing import close_ends, open_ends
from ..algebra.polynomial import TracePolynomial, zero
from ..calculus.rewriting import rewrite
from ..calculus.substitution import refuse_namesake, refuse_namesakes, substitute
from ..notation import Lambda_hat, N, X_c, matrix
from .bounds import require_feasible
from .laws import DATA_LAWS, PAPER_LAWS, Fixed, Law, Mixture, SampleCovariance, ancestors, laws_by_symbol, looks_random, outermost_first
from .stein import moments_under


def expect(expression, law: "Law | Iterable[Law] | Mapping | None" = None, *, given=()) -> TracePolynomial:
    """The exact expectation of a matrix expression, with symbolic dimensions.

    ``expression``: any polynomial in matrix symbols and traces (a SymPy expression or a TracePolynomial). ``law``: one law or several, or a
    mapping {symbol: law}; all other symbols follow the paper: x_q ~ N(0, Lambda), w ~ N(0, I), beta = Lambda_hat w, y_q = w' x_q,
    Lambda_hat the sample covariance of N tokens; so do a token x_n, all of them, X_c, the targets y_n, y, and the label noise zeta.
    Laws may depend on symbols of other laws; each is integrated before those it depends on.

    ``given``: symbols to condition on, left as they are; ``expect(e, given=(Lambda_hat,))`` averages over the task and the query only.

    Inverses of a sample covariance are integrated too, E[Lambda_hat^-1] = N/(N - D - 1) Lambda^-1, up to five in a term, and any power of
    one alone; with k of them the result carries the condition N > D + 2k - 1.

    Raises ValueError for a symbol that looks random (x_1, y_hat, S_hat) and has no law, for laws that depend on each other in a circle,
    for a sixth inverse, for a symbol to integrate on which a given symbol depends, and for anything that is not a polynomial.
    """
    if getattr(expression, "has", lambda _: False)(KroneckerProduct):
        raise ValueError(f"expect: {expression} holds a Kronecker product; expect_kronecker(left, right) gives its expectation as a map")
    result = polynomial = TracePolynomial(expression)
    refuse_namesakes(polynomial, "expect")
    given, present = _symbols(given), result.free_symbols
    laws = laws_by_symbol(law, present | given)
    for symbol, one in laws.items():
        if one not in (*PAPER_LAWS, *DATA_LAWS):
            refuse_namesake(result, symbol, "expect")
    for one in outermost_first(laws):
        if one.symbol == X_c and Lambda_hat in given:
            result = rewrite(result, {X_c * X_c.T: N * Lambda_hat})
            present = result.free_symbols
        if one.symbol in present - given:
            for symbol in given & laws.keys():
                if one.symbol in ancestors(symbol, laws):
                    raise ValueError(f"expect: {symbol} depends on {one.symbol}, whose law given {symbol} is another one")
            result = _integrate(result, one)
            present = result.free_symbols
    named = polynomial.free_symbols.union(*(one.parents for one in laws.values()))  # what a fourth_moment adds is meant to stay
    for symbol in sorted(filter(looks_random, present & named - given - laws.keys()), key=str):
        example = f"SampleCovariance({symbol}, Lambda, N)" if getattr(symbol, "is_symmetric_letter", False) else f"Gaussian({symbol}, ...)"
        raise ValueError(
            f"expect: {symbol} looks random but has no law; give it one, e.g. law={example}, or declare it constant, given={symbol}. "
            f"In: {result}"
        )
    refuse_namesakes(result, "expect")
    return _least(result)


def _least(result: TracePolynomial) -> TracePolynomial:
    """Without the conditions that others imply."""
    kept = frozenset(one for one in result.conditions if not any(_implies(other, one) for other in result.conditions - {one}))
    return TracePolynomial.from_terms(result.terms, result.shape, kept) if kept != result.conditions else result


def _implies(one, other) -> bool:
    """Does N > a imply N >= b or N > b, by a >= b?"""
    excess = (one.lhs - one.rhs) - (other.lhs - other.rhs)
    return isinstance(one, StrictGreaterThan) and isinstance(other, GreaterThan | StrictGreaterThan) and excess.is_nonpositive is True


def variance(f, law: "Law | Iterable[Law] | Mapping | None" = None, *, given=()) -> TracePolynomial:
    """Var(f) = E(f^2) - E(f)^2 of a scalar; of a vector, its covariance matrix E(f f') - E(f) E(f)'."""
    return covariance(f, f, law, given=given)


def covariance(f, g, law: "Law | Iterable[Law] | Mapping | None" = None, *, given=()) -> TracePolynomial:
    """Cov(f, g) = E(f g') - E(f) E(g)' of scalars or column vectors. ValueError for a matrix: its entries are (A' f).trace()."""
    f, g = TracePolynomial(f), TracePolynomial(g)
    for one in (f, g):
        if one.shape is not None and one.shape[1] != 1:
            raise ValueError(f"covariance: needs scalars or vectors, got shape {one.shape} in {one}; take traces, (A.T * f).trace()")
    return _least(expect(f * g.T, law, given=given) - expect(f, law, given=given) * expect(g, law, given=given).T)


def expect_kronecker(left, right, law: "Law | Iterable[Law] | Mapping | None" = None, *, given=()) -> Callable[[Any], TracePolynomial]:
    """E(left (x) right) as a map: it takes A to E(right A left'), as (left (x) right) vec(A) = vec(right A left')."""
    left, right = TracePolynomial(left), TracePolynomial(right)
    for one in (left, right):
        if one.shape is None:
            raise ValueError(f"expect_kronecker: needs two matrices, got the scalar {one}")
    inner = matrix("<inner>", right.shape[1], left.shape[1])
    moment = expect(right * inner * left.T, law, given=given)
    return lambda argument: substitute(moment, {inner: argument})


def _symbols(given) -> frozenset:
    symbols = (given,) if isinstance(given, MatrixSymbol) else given
    if isinstance(symbols, str) or not isinstance(symbols, Iterable):
        raise TypeError(f"expect: given must be a symbol or several, got {given!r}")
    symbols = frozenset(symbols)
    for symbol in symbols:
        if not isinstance(symbol, MatrixSymbol | Symbol):
            raise TypeError(f"expect: given must be symbols, got {symbol!r}")
    return symbols


def _integrate(polynomial: TracePolynomial, law) -> TracePolynomial:
    if isinstance(law, Fixed):
        return substitute(polynomial, {law.symbol: law.value})
    if isinstance(law, Mixture):
        return sum((weight * _integrate(polynomial, part) for weight, part in law.parts), start=zero(polynomial.shape))
    if isinstance(law, SampleCovariance) and law.mean.terms:
        sums, *laws = law.around_the_average()
        try:
            polynomial = _integrate(polynomial, sums)
        except ValueError:
            raise ValueError(f"expect: {law.symbol} has tokens of mean {law.mean}; its inverse then has no expectation here") from None
        return reduce(_integrate, laws, polynomial)
    moments = moments_under(law)
    closed = close_ends(polynomial, " of E")
    require_feasible(closed, law.symbol)
    terms = moments.expectation(closed)
    return open_ends(terms, polynomial.shape, polynomial.conditions | moments.conditions, " of E")
