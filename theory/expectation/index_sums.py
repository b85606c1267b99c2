"""Sums over an orthonormal basis, computed as the average over a standard Gaussian vector."""

from ..algebra import words
from ..algebra.polynomial import TracePolynomial
from .laws import Gaussian
from .moments import expect


def sum_over(expression, *indices) -> TracePolynomial:
    """Sum over indices: vectors e that run through an orthonormal basis and occur exactly twice in every term.

    Computed as the average over a standard Gaussian vector, which has the same second moment, sum_k e_k e_k' = I = E(e e').
    Raises ValueError if an index does not occur exactly twice in a term.
    """
    polynomial = TracePolynomial(expression)
    for index in indices:
        code = words.letter(index) >> 2
        for _, traces, word in polynomial.terms:
            count = sum(letter >> 2 == code for one in (*traces, word or ()) for letter in one)
            if count != 2:
                raise ValueError(f"sum_over: {index} must stand twice in every term, not {count} times, in {polynomial}")
    return expect(polynomial, [Gaussian(index) for index in indices], given=polynomial.free_symbols - set(indices))
