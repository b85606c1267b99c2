"""(V8-force), (V8-spread): planted faults, aligned heads as a special case, and one dimension in moments of chi-squares."""

from dataclasses import replace

import pytest
from iclflow.theory.calculus.entrywise import explicit
from iclflow.theory.calculus.rewriting import rewrite
from iclflow.theory.calculus.substitution import substitute
from iclflow.theory.equations import equation
from iclflow.theory.notation import B, D, Lambda, Lambda_hat, N, T, lambda_, vector
from iclflow.theory.results.discretisation.finite_steps import batch, force_variance as aligned_variance
from iclflow.theory.results.discretisation.minibatch_noise import Z, force_variance
from sympy import Integer, Rational, S, Trace, ZeroMatrix, simplify


@pytest.mark.parametrize("number", ["V8-force", "V8-spread"])
def test_entry_holds(number):
    assert equation(number).holds()


@pytest.mark.parametrize(
    ("number", "part", "change"),
    [
        ("V8-force", "mean", lambda x: x.subs(N, N + 1)),
        ("V8-force", "mean", lambda x: x.subs(B, B.T)),
        ("V8-force", "square", lambda x: x.subs(Z, Z.T)),
        ("V8-force", "square", lambda x: x + Trace(Lambda_hat * Z) ** 2),
        ("V8-spread", "x", lambda x: -x),
        ("V8-spread", "variance", lambda x: x * batch),
    ],
)
def test_entry_catches_a_fault(number, part, change):
    entry = equation(number)
    assert not replace(entry, typed=lambda: {**entry.typed(), part: change(entry.typed()[part])}).holds()


def test_along_an_eigenvector_at_zero_it_is_that_of_aligned_heads():
    e = vector("e", D)
    there = substitute(force_variance(), {Z: e * e.T, B: ZeroMatrix(D, D)})
    rules = {Lambda * e: lambda_ * e, e.T * e: S.One, Trace(Lambda): T}
    assert simplify(rewrite(there, rules).to_sympy() - aligned_variance()) == 0


def test_one_dimension_by_moments_of_chi_squares():
    """(w x - b s w x) s w x = w^2 x^2 (s - b s^2), with E w^4 = 3, E x^4 = 3 l^2 and E s^k = l^k (N)(N + 2).../N^k."""
    length, scale, b = 5, Rational(2, 3), Rational(1, 4)

    def power(k: int):
        value = Integer(1)
        for j in range(k):
            value *= scale * (length + 2 * j) / length
        return value

    square = 9 * scale**2 * (power(2) - 2 * b * power(3) + b**2 * power(4))
    mean = scale * (power(1) - b * power(2))
    values = {Lambda: [[scale]], B: [[b]], Z: [[1]]}
    assert simplify(explicit(force_variance(), values, D=1, N=length) - (square - mean**2)) == 0
