r"""Exact Gaussian expectations of trace polynomials, by integration by parts (Stein's lemma) with symbolic D and N.

>>> from iclflow.theory.notation import Lambda_hat
>>> expect(Lambda_hat**2)                                                          # equation (31)
(1 + 1/N) Lambda^2 + 1/N tr(Lambda) Lambda

The laws of the random symbols are integrated one after another, each by the recursion in ``stein``.
"""

from collections.abc import Iterable, Mapping

from sympy import Symbol
from sympy.matrices.expressions import MatrixSymbol

from ..algebra.closing import close_ends, open_ends
from ..algebra.polynomial import TracePolynomial, zero
from ..calculus.rewriting import rewrite
from ..calculus.substitution import refuse_namesake, refuse_namesakes, substitute
from ..notation import Lambda_hat, N, X_c
from .bounds import require_feasible
from .laws import DATA_LAWS, PAPER_LAWS, Fixed, Law, Mixture, ancestors, laws_by_symbol, looks_random, outermost_first
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
    result = polynomial = TracePolynomial(expression)
    refuse_namesakes(polynomial, "expect")
    given = _symbols(given)
    laws = laws_by_symbol(law, result.free_symbols | given)
    for symbol, one in laws.items():
        if one not in (*PAPER_LAWS, *DATA_LAWS):
            refuse_namesake(result, symbol, "expect")
    for one in outermost_first(laws):
        if one.symbol == X_c and Lambda_hat in given:
            result = rewrite(result, {X_c * X_c.T: N * Lambda_hat})
        if one.symbol in result.free_symbols - given:
            for symbol in given & laws.keys():
                if one.symbol in ancestors(symbol, laws):
                    raise ValueError(f"expect: {symbol} depends on {one.symbol}, whose law given {symbol} is another one")
            result = _integrate(result, one)
    named = polynomial.free_symbols.union(*(one.parents for one in laws.values()))  # what a fourth_moment adds is meant to stay
    for symbol in sorted(filter(looks_random, result.free_symbols & named - given - laws.keys()), key=str):
        law = f"SampleCovariance({symbol}, Lambda, N)" if getattr(symbol, "is_symmetric_letter", False) else f"Gaussian({symbol}, ...)"
        raise ValueError(
            f"expect: {symbol} looks random but has no law; give it one, e.g. law={law}, or declare it constant, given={symbol}. "
            f"In: {result}"
        )
    refuse_namesakes(result, "expect")
    return result


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
    moments = moments_under(law)
    closed = close_ends(polynomial, " of E")
    require_feasible(closed, law.symbol)
    terms = moments.expectation(closed)
    return open_ends(terms, polynomial.shape, polynomial.conditions | moments.conditions, " of E")
