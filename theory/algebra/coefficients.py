"""Coefficients: rational functions of scalar symbols, as sums of products of powers of generators.

A generator is a scalar symbol (or f(t), or v[i]), or a sum that occurs in a denominator, held as an integer. ``Scalars`` is a product of
powers, positive or negative, as sorted pairs (generator, exponent); a coefficient is a dictionary {scalars: rational number}. Denominators
that are sums, as in N / (N - D - 1), are kept as powers of their irreducible factors, and coefficients in lowest terms: equal functions
are equal dictionaries.
"""

from fractions import Fraction
from functools import lru_cache
from math import prod

import sympy
from sympy import QQ, Add, Expr, Mul, Rational
from sympy.polys.rings import PolyRing

Scalars = tuple[tuple[int, int], ...]
Number = int | Fraction
Coefficient = dict[Scalars, Number]

_generators: list[Expr] = []  # symbols, and the irreducible sums in denominators
_generator_index: dict[Expr, int] = {}
_sums: set[int] = set()  # the generators that are sums; their exponents are negative


def generator(expression: Expr) -> int:
    """The integer that represents a scalar symbol, or a sum in a denominator."""
    index = _generator_index.get(expression)
    if index is None:
        index = _generator_index[expression] = len(_generators)
        _generators.append(expression)
        if isinstance(expression, Add):
            _sums.add(index)
    return index


def has_sum(scalars: Scalars) -> bool:
    """Is there a sum in the denominator?"""
    return bool(_sums) and any(index in _sums for index, _ in scalars)


@lru_cache(maxsize=1 << 16)
def multiply_scalars(left: Scalars, right: Scalars) -> Scalars:
    if not left or not right:
        return left or right
    exponents = dict(left)
    for base, exponent in right:
        exponents[base] = exponents.get(base, 0) + exponent
    return tuple(sorted((g, e) for g, e in exponents.items() if e))


def exact(number: Fraction) -> Number:
    """The number as an int if it is an integer: integer arithmetic is several times faster."""
    return number.numerator if number.denominator == 1 else number


def scalar_of(index: int) -> Expr:
    """The SymPy expression of a scalar generator."""
    return _generators[index]


def coefficient_of(coefficient: Coefficient) -> Expr:
    """The SymPy expression of a coefficient."""
    return Add(*(
        Mul(Rational(number.numerator, number.denominator), *(_generators[g] ** e for g, e in scalars))
        for scalars, number in coefficient.items()
    ))  # fmt: skip


@lru_cache(maxsize=1 << 12)
def lowest_terms(coefficient: frozenset) -> Coefficient:
    """A coefficient, given by its items, in lowest terms. Cached, as many terms share one and this takes milliseconds for each.

    Over the common denominator, each sum in that is taken out of the numerator as often as it divides it: sums are irreducible.
    """
    lowest: dict[int, int] = {}
    for scalars, _ in coefficient:
        for base, exponent in scalars:
            lowest[base] = min(lowest.get(base, 0), exponent)
    sums = sorted(_sums & lowest.keys())
    inside = {generator(letter) for one in sums for letter in sympy.Poly(_generators[one]).gens}
    letters = sorted((lowest.keys() - _sums) | inside)
    ring = PolyRing([_generators[one] for one in letters], QQ)
    factors = {one: ring.from_expr(_generators[one]) for one in sums}
    parts: dict[tuple[int, ...], dict] = {}
    for scalars, number in coefficient:
        powers = dict(scalars)
        missing = tuple(powers.get(one, 0) - lowest[one] for one in sums)
        monomial = tuple(powers.get(one, 0) - lowest.get(one, 0) for one in letters)
        parts.setdefault(missing, {})[monomial] = QQ(number.numerator, number.denominator)
    numerator = ring.zero
    for missing, terms in parts.items():
        numerator += prod((factors[one] ** power for one, power in zip(sums, missing, strict=True)), start=ring.from_dict(terms))
    for one in sums if numerator else ():
        while lowest[one]:
            quotient, rest = numerator.div(factors[one])
            if rest:
                break
            numerator, lowest[one] = quotient, lowest[one] + 1
    below = tuple((base, exponent) for base, exponent in sorted(lowest.items()) if exponent)
    return {
        multiply_scalars(tuple((one, power) for one, power in zip(letters, monomial, strict=True) if power), below): exact(
            Fraction(int(QQ.numer(number)), int(QQ.denom(number)))
        )
        for monomial, number in numerator.terms()
    }


def reciprocal(coefficient: Coefficient) -> Coefficient:
    """1 / c for a coefficient that is not zero."""
    if len(coefficient) == 1 and not any(map(has_sum, coefficient)):
        ((scalars, number),) = coefficient.items()
        return {tuple((base, -exponent) for base, exponent in scalars): exact(1 / Fraction(number))}
    return rational(1 / coefficient_of(coefficient))


@lru_cache(maxsize=1 << 12)
def rational(expression: Expr) -> Coefficient:
    """A rational function, its denominator factored into irreducible polynomials. The result is cached: it must not be changed."""
    numerator, denominator = sympy.fraction(sympy.cancel(sympy.together(expression)))
    if numerator == 0:
        return {}
    constant, factors = sympy.factor_list(denominator)[:2]
    scalars: Scalars = ()
    for factor, exponent in factors:
        reversed_gens = sorted(sympy.Poly(factor).gens, key=str, reverse=True)
        if sympy.Poly(factor, *reversed_gens).LC() < 0:  # N - D - 1, not D - N + 1
            factor, constant = -factor, constant * (-1) ** exponent
        scalars = multiply_scalars(scalars, ((generator(factor), -exponent),))
    result: Coefficient = {}
    for summand in Add.make_args(sympy.expand(numerator / constant)):
        number, powers = summand.as_coeff_mul()
        bases = tuple(sorted((generator(base), int(exponent)) for base, exponent in (one.as_base_exp() for one in powers)))
        result[multiply_scalars(bases, scalars)] = exact(Fraction(int(number.p), int(number.q)))
    return result
