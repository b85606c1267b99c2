"""High powers and several inverses: against the recursion, in one dimension, where S cancels, and by sampling."""

from fractions import Fraction
from math import prod

import numpy as np
import pytest
import sympy
from iclflow.theory import SampleCovariance, TracePolynomial, expect, explicit, substitute
from iclflow.theory.algebra.closing import close_ends, open_ends
from iclflow.theory.expectation.powers import over_common_poles, partitions, wishart_power
from iclflow.theory.expectation.stein import moments_under
from iclflow.theory.notation import D, Lambda, Lambda_hat, N, R, matrix, symmetric_matrix, vector
from sympy import Identity, Rational, Symbol, Trace

P = TracePolynomial
S, L = Lambda_hat, Lambda
A, B, C, F, G = (matrix(name, D) for name in "ABCFG")
u, m = vector("u", D), vector("m", D)
LAW = SampleCovariance(S, L, N)


def by_recursion(expression, law=LAW):
    """The expectation by Stein's lemma, one S after another, and for pure inverses by the pairings."""
    polynomial, moments = P(expression), moments_under(law)
    return open_ends(moments.average(close_ends(polynomial)), polynomial.shape, moments.conditions)


@pytest.mark.parametrize(("k", "mu"), [(n - m, mu) for n in range(1, 8) for m in range(n + 1) for mu in partitions(m)], ids=str)
def test_powers_and_traces_equal_the_recursion(k, mu):
    expression = reduce_traces(mu) * S**k if k else reduce_traces(mu)
    assert expect(expression).terms == by_recursion(expression).terms


def reduce_traces(mu):
    return sympy.prod(Trace(S**part) for part in mu)


@pytest.mark.parametrize(
    "expression",
    [
        A * S**4 * B, Trace(A * S**3) * Trace(S), u.T * S**4 * m, S * A * S * B * S * C * S, Trace(S * A) * Trace(S * B) * S,
        S * A * S * u * m.T * S * B, Trace(A * S) ** 2 * Trace(B * S), S * u * u.T * S * m * m.T * S, S * L.I * S * A * S,
        A * S**3 * L.I, S * A * S * A * S * A * S, Trace(S) * S * A * S, Trace(L.I * S) ** 3 * S,
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("law", [LAW, SampleCovariance(S, L, 3 * R + 1), SampleCovariance(S, L, 7)], ids=["N", "3R+1", "7"])
def test_constants_between_equal_the_recursion(expression, law):
    assert expect(expression, law).terms == by_recursion(expression, law).terms


@pytest.mark.parametrize(("k", "mu"), [(20, ()), (8, (5, 4, 3)), (0, (9, 7, 4)), (14, (1, 1, 1, 1, 1, 1))], ids=str)
@pytest.mark.parametrize("samples", [1, 4])
def test_high_degrees_in_one_dimension(k, mu, samples):
    """D = 1: W / lambda is chi-squared, E[W^20] = N (N + 2) ... (N + 38)."""
    value = sum(count * samples**power for _, _, numbers in wishart_power(k, mu) for power, count in numbers.items())
    assert value == prod(samples + 2 * i for i in range(k + sum(mu)))


def test_a_high_degree_in_two_dimensions():
    """N = 1, W = x x': E[tr(W)^j W] for x ~ N(0, diag(l)) has the entries E[x_i^2 (x'x)^j], from the moments of each component."""
    values, j = (2, 3), 11

    def moment(i, power):
        return values[i] ** power * prod(range(1, 2 * power, 2))

    expected = sum(sympy.binomial(j, a) * moment(0, a + 1) * moment(1, j - a) for a in range(j + 1))
    found = 0
    for power, nu, numbers in wishart_power(j + 1, ()):
        found += values[0] ** power * prod(sum(one**part for one in values) for part in nu) * sum(numbers.values())
    assert found == expected


def test_the_result_is_in_lowest_terms():
    numerator, poles = over_common_poles(2, (Fraction(1), Fraction(-1)))  # 1/(m (m - 2)) - 1/(m (m + 1)) = 3/(m (m - 2) (m + 1))
    assert (numerator[0], any(numerator[1:]), poles) == (3, False, {0: 1, 2: 1, -1: 1})


@pytest.mark.parametrize("expression", [S.I**2, S.I**3, S.I**4, Trace(S.I**3), A * S.I**2 * B], ids=str)
@pytest.mark.parametrize("samples", [N, 2 * N, 20, Symbol("C", integer=True, positive=True)], ids=str)
def test_powers_of_the_inverse_equal_the_pairings(expression, samples):
    law = SampleCovariance(S, L, samples)
    direct, paired = expect(expression, law), by_recursion(expression, law)
    assert direct.terms == paired.terms
    assert direct.conditions == paired.conditions


@pytest.mark.parametrize("k", range(1, 9))
def test_inverse_powers_in_one_dimension(k):
    """E[s^-k] = N^k / ((N - 2) (N - 4) ... (N - 2k)) for N > 2k; at N = 2k there is none."""
    result = expect(S.I**k)
    assert result.conditions == {sympy.Gt(N, D + 2 * k - 1)}
    for samples in (2 * k + 1, 2 * k + 2, 30):
        value = explicit(result, values={L: [[Rational(1, 3)]]}, D=1, N=samples)[0, 0]
        assert value == Rational((3 * samples) ** k, prod(samples - 2 * i for i in range(1, k + 1)))
    with pytest.raises(ValueError, match=f"holds for N > D \\+ {2 * k - 1} only"):
        explicit(result, D=1, N=2 * k)
    small, covariance = symmetric_matrix("small", 2), symmetric_matrix("covariance", 2)
    with pytest.raises(ValueError, match=rf"has an expectation for samples > size \+ {2 * k - 1} only, got {2 * k + 1} samples of size 2"):
        expect(small.I**k, SampleCovariance(small, covariance, 2 * k + 1))


def test_two_inverses():
    """Known: with m = N - D - 1, W = N S, E[W^-1 A W^-1] = ((m - 1) C A C + C A' C + tr(A C) C) / (m (m - 2) (m + 1)), C = Lambda^-1."""
    m = P(N) - D - 1
    known = ((m - 1) * P(L.I * A * L.I) + L.I * A.T * L.I + Trace(A * L.I) * P(L.I)) * N**2 / (m * (m - 2) * (m + 1))
    assert expect(S.I * A * S.I) == known
    assert expect(S.I * A * S.I).conditions == {N > D + 3}
    assert expect(Trace(S.I) ** 2) == substitute(expect(Trace(S.I * A) * Trace(S.I)), {A: Identity(D)})


@pytest.mark.parametrize(
    ("longer", "shorter"),
    [
        (S.I * A * S.I * B * S, S.I * A), (S.I * A * S * B * S.I, S.I * A), (Trace(S.I * A) * Trace(S.I * B * S), D * Trace(S.I * A)),
        (S.I * A * S.I * C * S.I * B * S, S.I * A * S.I * C), (S * S * B * S.I * A * S.I, S * A * S.I),
        (S.I * A * S.I * C * S.I * F * S.I * B * S, S.I * A * S.I * C * S.I * F),
    ],
    ids=str,
)  # fmt: skip
def test_where_s_cancels(longer, shorter):
    """With B = I one S cancels an inverse."""
    assert substitute(expect(longer), {B: Identity(D)}) == expect(shorter)


def test_five_inverses_in_one_dimension():
    expression = S.I * A * S.I * B * S.I * C * S.I * F * S.I
    value = explicit(expect(expression), values={L: [[1]], A: [[2]], B: [[3]], C: [[1]], F: [[1]]}, D=1, N=12)[0, 0]
    assert value == Rational(6 * 12**5, 10 * 8 * 6 * 4 * 2)
    with pytest.raises(ValueError, match="a term has 6 inverses of Lambda_hat beside constants; at most 5 are integrated"):
        expect(expression * G * S.I)


def test_several_inverses_by_sampling():
    rng = np.random.default_rng(20250117)
    size, samples, draws = 2, 16, 60_000
    a, lam = np.array([[1.0, -2.0], [0.5, 3.0]]), np.array([[2.0, 1.0], [1.0, 3.0]])
    tokens = rng.standard_normal((draws, samples, size)) @ np.linalg.cholesky(lam).T
    s = np.einsum("pni,pnj->pij", tokens, tokens) / samples
    v = np.linalg.inv(s)
    values = {L: sympy.Matrix([[2, 1], [1, 3]]), A: sympy.Matrix([[1, -2], [Rational(1, 2), 3]])}
    sampled = {
        S.I**2: v @ v,
        S.I * A * S.I: v @ a @ v,
        S.I * A * S * S.I.T * A.T * S.I: v @ a @ a.T @ v,
        S.I * A * S.I * A * S: v @ a @ v @ a @ s,
        S.I**3: v @ v @ v,
    }
    for expression, draw in sampled.items():
        exact = np.array(explicit(expect(expression), values=values, D=size, N=samples).tolist(), dtype=float)
        standard_error = draw.std(axis=0) / np.sqrt(draws)
        assert np.all(np.abs(draw.mean(axis=0) - exact) < 4.5 * standard_error), expression
        assert np.all(standard_error < 0.05 * np.abs(exact).max())
