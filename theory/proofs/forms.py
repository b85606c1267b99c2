r"""The same formula in another shape: a part of it named, its common factors in front, its powers gathered.

>>> from iclflow.theory import expect
>>> from iclflow.theory.notation import B, Lambda, Lambda_hat, M
>>> print(folded((B * expect(Lambda_hat**2)).trace(), M, expect(Lambda_hat**2)))
tr(B M)
>>> factored(-2 * Lambda**2 + 2 * M * B * Lambda)
-2*(-(M*B) + Lambda)*Lambda
"""

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import sympy
from sympy import Expr, MatAdd, MatMul, MatrixExpr, Mul, Symbol, Trace

from ..algebra import words
from ..algebra.closing import close_ends, open_ends
from ..algebra.coefficients import coefficient_of
from ..algebra.polynomial import TracePolynomial, polynomial_of_word
from ..calculus import collect
from ..derivations import as_sympy


def folded(formula: Any, letter: Any, part: Any) -> TracePolynomial:
    """The formula with ``letter`` for the polynomial ``part``, wherever that makes it shorter. ValueError where it never does."""
    polynomial, part = TracePolynomial(formula), TracePolynomial(part)
    if not part.terms:
        raise ValueError("fold: the part is zero, which has no name")
    closed = TracePolynomial.from_terms(close_ends(polynomial), None)
    while True:
        shorter = min((closed - one for one in _occurrences(closed, part, letter)), key=_length, default=closed)
        if _length(shorter) >= _length(closed):
            break
        closed = shorter
    result = open_ends(closed.terms, polynomial.shape, polynomial.conditions)
    if letter not in result.free_symbols:
        raise ValueError(f"fold: {part} is no part of {polynomial} that could be called {letter}")
    return result


def _length(polynomial: TracePolynomial) -> tuple[int, int]:
    return len(polynomial.terms), sum(len(closed) for _, traces, _ in polynomial.terms for closed in traces)


def _occurrences(closed: TracePolynomial, part: TracePolynomial, letter: Any) -> Iterator[TracePolynomial]:
    """What is to be subtracted so that the letter stands for the part, for each place where its leading term stands."""
    gap = part - letter
    (scalars, traces, word), number = max(part.terms.items(), key=lambda item: (len(item[0][1]), len(item[0][2] or ())))
    leading = TracePolynomial.from_terms({(scalars, (), None): number}, None)
    for (powers, present, _), count in closed.terms.items():
        rest = list(present)
        if any(present.count(one) < traces.count(one) for one in traces):
            continue
        for one in traces:
            rest.remove(one)
        factor = TracePolynomial.from_terms({(powers, (), None): count}, None) / leading
        if not word:
            yield factor * TracePolynomial.from_terms({((), tuple(rest), None): 1}, None) * (gap if word is None else gap.trace())
            continue
        for place, ring in enumerate(rest):
            others = TracePolynomial.from_terms({((), tuple(rest[:place] + rest[place + 1 :]), None): 1}, None)
            for remaining, flipped in _cut_out(ring, word):
                inside = gap.T if flipped else gap
                inside = inside * polynomial_of_word(remaining, (inside.shape[1], inside.shape[0])) if remaining else inside
                yield factor * others * inside.trace()


def _cut_out(ring: words.Word, word: words.Word) -> Iterator[tuple[words.Word, bool]]:
    """What remains of a closed word without ``word``, and is the part its transpose there?"""
    for pattern, flipped in ((word, False), (words.transpose(word), True)):
        for start in range(len(ring)):
            turned = ring[start:] + ring[:start]
            if turned[: len(word)] == pattern:
                yield turned[len(word) :], flipped


def in_scalars(formula: Any, change: Any) -> Expr:
    """A function of a scalar expression, with its traces as symbols meanwhile: ``in_scalars(f, sympy.factor)``."""
    formula = as_sympy(formula)
    traces = {one: sympy.Dummy() for one in formula.atoms(Trace)}
    return change(formula.xreplace(traces)).xreplace({dummy: trace for trace, dummy in traces.items()})


def factored(formula: Any) -> Any:
    """A formula with its common factors in front: numbers, scalars, and matrices that stand first or last in every term."""
    polynomial = TracePolynomial(formula) if isinstance(as_sympy(formula), MatrixExpr) else None
    if polynomial is None or polynomial.shape is None or not polynomial.terms:
        return in_scalars(formula, lambda scalar: sympy.factor(sympy.expand(scalar)))
    groups = polynomial.groups()
    coefficients = [coefficient_of(coefficient) for coefficient, _, _ in groups]
    found = [word or () for _, _, word in groups]
    first = _shared(found)
    last = _shared([word[first:][::-1] for word in found])
    before, after = found[0][:first], found[0][len(found[0]) - last :]
    rows = words.columns(before[-1]) if before else polynomial.shape[0]
    columns = words.rows(after[0]) if after else polynomial.shape[1]
    traces = [Mul(*map(_trace, closed)) for _, closed, _ in groups]
    inside = [word[first : len(word) - last] for word in found]
    if not any(inside):
        scalar = in_scalars(sympy.Add(*map(Mul, coefficients, traces)), sympy.factor)
        return _product(scalar, polynomial_of_word(found[0], polynomial.shape).to_sympy())
    common = sympy.gcd_list(coefficients)
    common = -common if (coefficients[0] / common).could_extract_minus_sign() else common
    terms = [
        _product(sympy.cancel(one / common) * trace, polynomial_of_word(word, (rows, columns)).to_sympy())
        for one, trace, word in zip(coefficients, traces, inside, strict=True)
    ]
    outer = [[polynomial_of_word(one, (words.rows(one[0]), words.columns(one[-1]))).to_sympy()] if one else [] for one in (before, after)]
    return _product(common, *outer[0], terms[0] if len(terms) == 1 else MatAdd(*terms), *outer[1])


def _shared(found: list[words.Word]) -> int:
    """With how many of the same letters do all words begin?"""
    return sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, zip(*found, strict=False)))


def _trace(closed: words.Word) -> Expr:
    return as_sympy(TracePolynomial.from_terms({((), (closed,), None): 1}, None))


def _product(scalar: Expr, *matrices: Any) -> Any:
    factors = [*([] if scalar == 1 else [scalar]), *matrices]
    return factors[0] if len(factors) == 1 else MatMul(*factors)


def collected(formula: Any, by: Any) -> Any:
    """The formula gathered by the powers of a scalar symbol, or by its traces (``by="traces"``)."""
    parts = collect(formula, by).items()
    if isinstance(by, Symbol):
        pairs = [(by**power, as_sympy(rest)) for power, rest in reversed(parts)]
    else:
        pairs = [(as_sympy(traces), as_sympy(rest)) for traces, rest in parts]
    matrix = any(isinstance(rest, MatrixExpr) for _, rest in pairs)
    terms = [rest if factor == 1 else MatMul(factor, rest) if matrix else Mul(factor, rest, evaluate=False) for factor, rest in pairs]
    return MatAdd(*terms) if matrix else sympy.Add(*terms)
