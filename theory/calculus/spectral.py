r"""Spectral calculus: formulas in matrices that are functions of Lambda, evaluated along one eigenvector of Lambda.

Lambda, M = E(Lambda_hat^2), the projector P onto the span of {e_d : d in S} and the effective map at a fixed point are all diagonal in
the eigenbasis of Lambda. So a product of them acts along e_d as the product of scalars, a vector is its component, and a trace or a
bilinear form is a sum over d, with D a symbol:

>>> from sympy import Trace
>>> from iclflow.theory import expect
>>> from iclflow.theory.notation import Lambda, Lambda_hat, T, lambda_
>>> along(expect(Lambda_hat**2), {Lambda: lambda_}, traces={Trace(Lambda): T})          # equation (32)
lambda**2*(1 + 1/N) + T*lambda/N
>>> summand(Trace(Lambda**3) - 2 * Trace(Lambda), {Lambda: lambda_})
lambda**3 - 2*lambda

The projector becomes the scalar chi, 1 for d in S and 0 otherwise; ``on_and_off`` uses chi^2 = chi.
Sums over d are written out for a given D:

>>> written_out(over_directions(lambda_ * learned), 2)
chi_1*lambda_1 + chi_2*lambda_2
"""

from collections.abc import Mapping
from typing import Any

from sympy import Add, Expr, IndexedBase, Mul, S, Sum, Symbol

from ..algebra import words
from ..algebra.coefficients import coefficient_of
from ..algebra.polynomial import TracePolynomial
from ..notation import D, a, lambda_, learned

d = Symbol("d", integer=True, positive=True)
eigenvalue: Any = IndexedBase("lambda", positive=True)
indicator: Any = IndexedBase("chi", nonnegative=True)
moment: Any = IndexedBase("a", positive=True)  # the eigenvalues of M = E(Lambda_hat^2)


def along(polynomial, values: Mapping, *, traces: Mapping | None = None) -> Expr:
    """The scalar by which a matrix formula acts along an eigenvector of Lambda, or the component of a vector formula.

    ``values`` gives each matrix its eigenvalue and each vector its component; ``traces`` names the traces in the coefficients.
    Raises ValueError for a symbol or a trace without a value, and for a scalar formula (see :func:`summand`).
    """
    polynomial = TracePolynomial(polynomial)
    if polynomial.shape is None and polynomial.terms:
        raise ValueError(f"along: needs a matrix or a vector, got the scalar {polynomial}; use summand")
    named = {TracePolynomial(trace): value for trace, value in (traces or {}).items()}
    total: list[Expr] = []
    for coefficient, closed, word in polynomial.groups():
        factors = [coefficient_of(coefficient), _product(word or (), values)]
        for one in closed:
            trace = TracePolynomial.from_terms({((), (one,), None): 1}, None)
            if trace not in named:
                raise ValueError(f"along: {trace} has no value; give it one in traces")
            factors.append(named[trace])
        total.append(Mul(*factors))
    return Add(*total)


def summand(polynomial, values: Mapping) -> Expr:
    """The function f_d with: the scalar formula is the sum over d of f_d. Each term must hold exactly one trace or bilinear form."""
    polynomial = TracePolynomial(polynomial)
    if polynomial.shape is not None:
        raise ValueError(f"summand: needs a scalar, got shape {polynomial.shape} in {polynomial}; use along")
    total: list[Expr] = []
    for coefficient, closed, _ in polynomial.groups():
        if len(closed) != 1:
            raise ValueError(f"summand: each term must hold exactly one trace, got {polynomial}")
        total.append(Mul(coefficient_of(coefficient), _product(closed[0], values)))
    return Add(*total)


def _product(word: words.Word, values: Mapping) -> Expr:
    result: Expr = S.One
    for code in word:
        symbol = words.symbol_of(code)
        if symbol not in values:
            raise ValueError(f"no value along an eigenvector was given for {symbol}")
        result = result / values[symbol] if words.is_inverse(code) else result * values[symbol]
    return result


def on_and_off(formula: Expr) -> Expr:
    """The same function of the indicator chi in {0, 1}, written f(0) + chi (f(1) - f(0))."""
    off, on = formula.subs(learned, 0), formula.subs(learned, 1)
    return off.expand() + learned * (on - off).expand()


def over_directions(formula: Expr, first: Any = 1, last: Any = D, components: Mapping | None = None) -> Any:
    """The sum of a function of lambda, chi and of components {symbol: IndexedBase} over the directions d = first, ..., last."""
    bases = {lambda_: eigenvalue, a: moment, learned: indicator, **(components or {})}
    return Sum(formula.subs({symbol: base[d] for symbol, base in bases.items()}), (d, first, last))


def written_out(formula: Any, size: int) -> Any:
    """The formula with its sums over directions written out for D = ``size``, in the symbols of :func:`directions`."""
    return formula.subs(D, size).doit().subs(_named(size))


def directions(size: int) -> tuple[Symbol, ...]:
    """The symbols of lambda_1, ..., lambda_D, chi_1, ..., chi_D in a formula written out for D = ``size``."""
    return tuple(_named(size).values())


def _named(size: int) -> dict[Any, Symbol]:
    kinds = ((eigenvalue, {"positive": True}), (indicator, {}))
    return {base[d]: Symbol(f"{base.name}_{d}", **known) for base, known in kinds for d in range(1, size + 1)}
