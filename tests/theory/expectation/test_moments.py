"""Known expectations, inverses, non-Gaussian tokens, and what is refused."""

import re
from fractions import Fraction

import numpy as np
import pytest
import sympy
from iclflow.theory import (
    Fixed,
    Gaussian,
    Mixture,
    SampleCovariance,
    TracePolynomial,
    covariance,
    expect,
    expect_kronecker,
    explicit,
    substitute,
    variance,
)  # fmt: skip
from iclflow.theory.notation import (
    D,
    Lambda,
    Lambda_hat,
    Lambda_q,
    N,
    R,
    X_c,
    beta,
    matrix,
    noise_q,
    prediction,
    sigma,
    symmetric_matrix,
    vector,
    w,
    x_n,
    x_q,
    y,
    y_n,
    y_q,
)  # fmt: skip
from reading import parse
from sympy import Identity, MatrixSymbol, Rational, Symbol, Trace

P = TracePolynomial
A, B, C = (matrix(name, D) for name in "ABC")
K = symmetric_matrix("K", D)
u, m, x, zeta = (vector(name, D) for name in ("u", "m", "x", "zeta"))
L, L_hat = Lambda, Lambda_hat


# Known values


def test_powers_of_the_sample_covariance():
    assert expect(L_hat) == L
    assert expect(L_hat**2) == L**2 + (P(L**2) + Trace(L) * L) / N  # equation (31)
    third = (
        P((1 + 3 / N + 4 / N**2) * L**3)
        + (2 / N + 2 / N**2) * Trace(L) * L**2
        + (1 / N + 1 / N**2) * Trace(L**2) * L
        + Trace(L) ** 2 * L / N**2
    )
    assert expect(L_hat**3) == third
    assert expect(L_hat * A * L_hat) == L * A * L + (P(L * A.T * L) + Trace(A * L) * L) / N


def test_wishart_moments():
    """For W = N S: E[tr(W)^2 W] = 8 N S0^3 + 4 N^2 tr(S0) S0^2 + (N^3 tr(S0)^2 + 2 N^2 tr(S0^2)) S0."""
    known = P(8 * N * L**3) + 4 * N**2 * Trace(L) * L**2 + (N**3 * Trace(L) ** 2 + 2 * N**2 * Trace(L**2)) * P(L)
    assert expect(Trace(N * L_hat) ** 2 * N * L_hat) == known
    assert (
        expect(Trace(L_hat * A) * Trace(L_hat * B)) == Trace(L * A) * Trace(L * B) + (P(Trace(L * A * L * B)) + Trace(L * A * L * B.T)) / N
    )


def test_moments_of_the_white_wishart_in_one_dimension():
    """D = 1: N S / lambda is chi-squared with N degrees, E[(N S)^k] = lambda^k N (N + 2) ... (N + 2k - 2)."""
    for k in range(1, 9):
        chi = sympy.prod(N + 2 * i for i in range(k))
        lam = Symbol("lam")
        value = explicit(expect(L_hat**k), values={L: [[lam]]}, D=1)[0, 0]
        assert sympy.expand(value * N**k - lam**k * chi) == 0


def test_inverse():
    assert expect(L_hat.I) == N * L.I / (N - D - 1)
    assert expect(L_hat.I).conditions == {N > D + 1}
    assert repr(expect(L_hat.I)) == f"{expect(L_hat.I)}, for N > D + 1" == "N/(N - D - 1) Lambda^-1, for N > D + 1"
    assert expect(L_hat.I)._repr_latex_().endswith(r"\boldsymbol{\Lambda}^{-1},\quad N > D + 1$")
    assert expect(Trace(L_hat.I)) == N * Trace(L.I) / (N - D - 1)
    assert expect(L_hat * L_hat.I) == Identity(D)
    assert expect(L_hat * L_hat.I).conditions == frozenset()
    assert expect(L_hat.I * A * L_hat) == (N * P(L.I * A * L) - A.T - Trace(A) * Identity(D)) / (N - D - 1)
    mixed = expect(Trace(L_hat.I * A) * L_hat)
    assert substitute(mixed, {A: Identity(D)}) == expect(Trace(L_hat.I) * L_hat)
    assert expect(L_hat.I * L_hat**3) == expect(L_hat**2)


@pytest.mark.parametrize(
    "unit",
    [Trace(L_hat.I) * Trace(L_hat), Trace(L_hat.I * K) * Trace(L_hat * K), L_hat.I * A * L_hat, Trace(L_hat.I) * L_hat],
    ids=str,
)  # fmt: skip
def test_inverses_cancel_in_one_dimension(unit):
    """D = 1: every constant is 1, so that the expectation of S^-1 times S is 1, and times S^2 is the covariance."""
    lam, one = Symbol("lam", positive=True), {K: [[1]], A: [[1]]}
    for factor, expected in ((1, 1), (Trace(L_hat), lam), (Trace(L_hat) ** 2, lam**2 * (1 + 2 / N))):
        value = explicit(expect(P(unit) * factor), values=one | {L: [[lam]]}, D=1)
        assert sympy.simplify((value[0, 0] if isinstance(value, sympy.MatrixBase) else value) - expected) == 0


def test_inverse_with_given_sizes():
    small, covariance = symmetric_matrix("small", 3), symmetric_matrix("covariance", 3)
    plenty = expect(small.I, law=SampleCovariance(small, covariance, 9))
    assert plenty == Rational(9, 5) * covariance.I
    assert plenty.conditions == frozenset()
    assert expect(Trace(covariance * small.I), law=SampleCovariance(small, covariance, 9)) == Rational(27, 5)
    assert expect(Trace(L * L_hat.I)) == N * D / (N - D - 1)
    for samples in (2, 3, 4):
        with pytest.raises(ValueError, match=rf"small\^-1 has an expectation for samples > size \+ 1 only, got {samples}"):
            expect(small.I, law=SampleCovariance(small, covariance, samples))
    assert expect(L_hat.I, law=SampleCovariance(L_hat, L, 5)).conditions == {sympy.Gt(5, D + 1)}


def test_explicit_and_substitute_obey_the_condition():
    inverse = expect(L_hat.I)
    with pytest.raises(ValueError, match=r"holds for N > D \+ 1 only"):
        explicit(inverse, D=2, N=3)
    assert explicit(inverse, values={L: [[2, 0], [0, 4]]}, D=2, N=5) == sympy.Matrix([[5, 0], [0, Rational(5, 2)]]) / 4
    assert substitute(inverse, {N: 7}).conditions == {sympy.Gt(7, D + 1)}
    assert substitute(substitute(inverse, {N: D + 3}), {sigma: 1}).conditions == frozenset()
    with pytest.raises(ValueError, match="only"):
        substitute(inverse, {N: D + 1})


def test_vectors():
    assert expect(w * w.T) == Identity(D)
    assert expect(x_q.T * A * x_q) == Trace(A * L)
    assert expect(w.T * A * w) == Trace(A)
    assert expect(w) == 0
    assert expect(w).shape == (D, 1)
    assert expect((x_q.T * A * x_q) * P(x_q.T * B * x_q)) == Trace(A * L) * Trace(B * L) + P(Trace(A * L * B * L)) + Trace(A * L * B.T * L)
    assert expect((w.T * w) ** 2) == D**2 + 2 * D
    assert expect((w.T * w) ** 3) == D * (D + 2) * (D + 4)
    assert expect(x, law=Gaussian(x, mean=m)) == m
    assert expect(x * x.T, law=Gaussian(x, mean=m, covariance=K)) == K + m * m.T


def test_label_noise():
    """zeta = (1/N) sum eps_n x_n given the tokens is N(0, sigma^2 S / N); the target's noise averages out."""
    noise = Gaussian(zeta, covariance=sigma**2 / N * L_hat)
    assert expect(zeta * zeta.T, law=noise) == sigma**2 / N * L
    noisy = P(beta) + zeta
    assert expect(noisy * noisy.T, law=noise) == expect(L_hat**2) + sigma**2 / N * P(L)


def test_the_population_loss():
    """E(y_q - beta' B x_q)^2 = tr(Lambda) - 2 tr(Lambda^2 B') + tr(E(S^2) B Lambda B'), equation (8) in the effective map."""
    loss = expect((y_q - beta.T * B * x_q) ** 2)
    second = expect(L_hat**2)
    assert loss == P(Trace(L)) - 2 * P(Trace(L**2 * B.T)) + (second * (B * L * B.T)).trace()


def test_the_law_of_the_query_may_differ():
    law = Gaussian(x_q, covariance=Lambda_q)
    assert expect(x_q * x_q.T, law=law) == Lambda_q
    assert expect(x_q * x_q.T, law={x_q: law}) == Lambda_q
    assert expect(x_q * x_q.T, law=[law]) == Lambda_q
    assert expect(y_q * x_q, law=law) == 0
    assert expect(P(y_q) ** 2, law=law) == Trace(Lambda_q)


def test_conditional_expectations():
    assert expect(beta * beta.T, given=Lambda_hat) == L_hat**2
    assert expect(beta * beta.T, given=(Lambda_hat,)) == L_hat**2
    assert expect(P(y_q) * beta, given=(Lambda_hat, x_q)) == P(L_hat * x_q)
    assert expect(P(y_q) * beta, given=(Lambda_hat, x_q, w)) == P(L_hat * w) * (w.T * x_q)
    assert expect(OTHER_HAT * A, given=OTHER_HAT) == OTHER_HAT * A
    assert expect(expect((P(y_q) - beta.T * B * x_q) ** 2, given=Lambda_hat)) == expect((P(y_q) - beta.T * B * x_q) ** 2)
    for hidden in (beta, y_q):  # the law of w given beta is not N(0, I)
        with pytest.raises(ValueError, match=f"{hidden} depends on w, whose law given {hidden} is another one"):
            expect(w * beta.T * x, given=hidden)


def test_independent_samples_factorise():
    other = symmetric_matrix("other", D)
    law = SampleCovariance(other, K, R)
    assert expect(L_hat * other * L_hat, law=law) == substitute(expect(L_hat * A * L_hat), {A: K})
    assert expect(other * L_hat * other, law=law) == K * L * K + (P(K * L * K) + Trace(K * L) * K) / R


def test_nested_samples():
    """A sample covariance of a sample covariance: the tower rule."""
    other = symmetric_matrix("other", D)
    laws = (SampleCovariance(other, L_hat, R),)
    assert expect(other, law=laws) == L
    assert expect(other**2, law=laws) == (1 + 1 / P(R)) * expect(L_hat**2) + expect(Trace(L_hat) * L_hat) / R


def test_mixtures():
    p = Symbol("p")
    law = Mixture(((p, Fixed(w, u)), (1 - p, Gaussian(w))))
    assert expect(w * w.T, law=law) == p * P(u * u.T) + (1 - p) * P(Identity(D))
    assert expect(w, law=law) == p * P(u)
    nested = Mixture(((Rational(1, 4), law), (Rational(3, 4), Fixed(w, 2 * u))))
    assert expect(w, law=nested) == (p / 4 + Rational(3, 2)) * P(u)
    assert expect(L_hat, law=Mixture(((p, SampleCovariance(L_hat, K, N)), (1 - p, Fixed(L_hat, L))))) == p * P(K) + (1 - p) * P(L)


def test_fixed_symbols_are_replaced():
    assert expect(beta * w.T) == L
    assert expect(x, law=Fixed(x, A * u)) == A * u
    assert expect(P(y_q) ** 2) == Trace(L)
    assert expect(L_hat**2, law=Fixed(L_hat, L)) == L**2


def test_covariances_of_any_form():
    assert expect(L_hat**2, law=SampleCovariance(L_hat, Identity(D), N)) == (1 + (D + 1) / P(N)) * Identity(D)
    general = SampleCovariance(L_hat, (1 + 1 / N) * L + Trace(K) * K, N)
    replaced = substitute(expect(L_hat * A * L_hat), {L: (1 + 1 / N) * L + Trace(K) * K})
    assert expect(L_hat * A * L_hat, law=general) == replaced
    low_rank = expect(L_hat**2, law=SampleCovariance(L_hat, u * u.T, N))
    assert low_rank == (1 + 2 / P(N)) * P(u.T * u) * u * u.T


def test_one_by_one_laws():
    """In one dimension, written with 1 x 1 matrices."""
    z, lam, s = MatrixSymbol("z", 1, 1), symmetric_matrix("lam", 1), symmetric_matrix("s", 1)
    assert expect(P(z) ** 4, law=Gaussian(z, covariance=sigma**2)) == 3 * sigma**4
    assert expect(P(z) ** 2 * A, law=Gaussian(z, mean=2)) == 5 * P(A)
    assert expect(P(s) ** 3, law=SampleCovariance(s, lam, N)) == (1 + 2 / P(N)) * (1 + 4 / P(N)) * P(lam) ** 3
    kurtosis = Symbol("kappa")
    tokens = SampleCovariance(s, lam, N, fourth_moment=lambda inner: kurtosis * inner)
    assert expect(P(s) ** 2, law=tokens) == (1 - 1 / P(N)) * P(lam) ** 2 + kurtosis / P(N)


# Tokens of another law


def gaussian_map(inner, covariance=L):
    c = P(covariance)
    return c * inner * c + c * inner.T * c + (inner * c).trace() * c


@pytest.mark.parametrize(
    "expression",
    [L_hat**2, L_hat * A * L_hat, Trace(L_hat * A) * L_hat, Trace(L_hat) ** 2, A * L_hat * B, Trace(L_hat * A * L_hat * B),
     x_q.T * L_hat**2 * u],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("covariance", [L, L + K + L**2, (1 + 1 / N) * L + Trace(K) * K], ids=str)
def test_the_gaussian_fourth_moment_map_gives_gaussian_moments(expression, covariance):
    by_map = SampleCovariance(L_hat, covariance, N, fourth_moment=lambda inner: gaussian_map(inner, covariance))
    assert expect(expression, law=by_map) == expect(expression, law=SampleCovariance(L_hat, covariance, N))


def test_a_fourth_moment_map_may_substitute():
    """What averages a matrix closes it with vectors at its ends; so does a substitution inside the map."""
    tokens = SampleCovariance(Lambda_hat, Lambda, N, lambda A: substitute(gaussian_map(P(K), Lambda), {K: (A + A.T) / 2}))
    assert expect(Lambda_hat * u * u.T * Lambda_hat, tokens) == expect(Lambda_hat * u * u.T * Lambda_hat)


def test_rademacher_tokens():
    """Independent signs: E[x x' A x x'] = A + A' + tr(A) I - 2 diag(A); with A = I and D = 2, x'x = 2 always."""
    tokens = SampleCovariance(L_hat, Identity(D), N, fourth_moment=lambda inner: D * inner)  # of A = I: x'x = D
    assert expect(L_hat**2, law=tokens) == (1 + (D - 1) / P(N)) * Identity(D)
    with pytest.raises(ValueError, match="at most twice in a term"):
        expect(L_hat**3, law=tokens)
    with pytest.raises(ValueError, match="not inverted"):
        expect(L_hat.I, law=tokens)
    with pytest.raises(ValueError, match="fourth_moment of Lambda_hat must return shape"):
        expect(L_hat**2, law=SampleCovariance(L_hat, L, N, fourth_moment=lambda inner: inner.trace()))


# Monte Carlo, with its standard error


def test_inverse_moments_by_sampling():
    rng = np.random.default_rng(20250116)
    size, samples, draws = 2, 7, 40_000
    a = np.array([[1.0, -2.0], [0.5, 3.0]])
    lam = np.array([[2.0, 1.0], [1.0, 3.0]])
    tokens = rng.standard_normal((draws, samples, size)) @ np.linalg.cholesky(lam).T
    s = np.einsum("pni,pnj->pij", tokens, tokens) / samples
    s_inverse = np.linalg.inv(s)
    values = {L: sympy.Matrix([[2, 1], [1, 3]]), A: sympy.Matrix([[1, -2], [Rational(1, 2), 3]])}
    sampled = {
        L_hat.I: s_inverse,
        L_hat.I * A * L_hat: s_inverse @ a @ s,
        Trace(L_hat.I * A) * L_hat: np.trace(s_inverse @ a, axis1=1, axis2=2)[:, None, None] * s,
    }
    for expression, draw in sampled.items():
        exact = np.array(explicit(expect(expression), values=values, D=size, N=samples).tolist(), dtype=float)
        standard_error = draw.std(axis=0) / np.sqrt(draws)
        assert np.all(np.abs(draw.mean(axis=0) - exact) < 4.5 * standard_error)  # 12 entries, p < 1e-4
        assert np.all(standard_error < 0.05 * np.abs(exact).max())  # a band that can fail


def test_gaussian_matrices_by_sampling():
    """X of shape (2, 3), with a mean and covariances of rows and columns."""
    rng = np.random.default_rng(20250118)
    X, mean = matrix("X", D, R), matrix("m", D, R)
    U, V, J = symmetric_matrix("U", D), symmetric_matrix("V", R), matrix("J", R, D)
    law = Gaussian(X, mean=mean, covariance=U, columns=V)
    u, v = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([[1.0, 0.5, 0.0], [0.5, 2.0, -1.0], [0.0, -1.0, 3.0]])
    centre, a, j = np.array([[1.0, 0.0, 2.0], [-1.0, 1.0, 0.0]]), np.array([[1.0, -2.0], [0.5, 3.0]]), np.array([[1.0, 2], [0, 1], [-1, 1]])
    x = centre + np.linalg.cholesky(u) @ rng.standard_normal((60_000, 2, 3)) @ np.linalg.cholesky(v).T
    values = {mean: centre, U: u, V: v, A: a, J: j}
    values = {symbol: sympy.Matrix(value.tolist()).applyfunc(sympy.nsimplify) for symbol, value in values.items()}
    t = np.swapaxes(x, 1, 2)
    sampled = {X: x, X * X.T: x @ t, X.T * A * X: t @ a @ x, X * J * X: x @ j @ x, X * J * X * X.T: x @ j @ x @ t}
    for expression, draw in sampled.items():
        exact = np.array(explicit(expect(expression, law), values=values, D=2, R=3).tolist(), dtype=float)
        standard_error = draw.std(axis=0) / np.sqrt(len(draw))
        assert np.all(np.abs(draw.mean(axis=0) - exact) < 4.5 * standard_error), expression
        assert np.all(standard_error < 0.05 * np.abs(exact).max())
    assert expect(X * X.T, Gaussian(X, covariance=U)) == R * U


def test_variances():
    assert variance(Trace(L_hat)) == 2 * Trace(L**2) / N
    assert variance(beta, given=Lambda_hat) == L_hat**2
    assert variance(P(x_q.T * A * x_q)) == P(Trace(A * L * A * L)) + Trace(A * L * A.T * L)
    assert covariance(Trace(L_hat * A), Trace(L_hat)) == 2 * Trace(A * L**2) / N
    assert covariance(beta, w) == L
    assert variance(Trace(L_hat.I)).conditions == {N > D + 3}
    one = explicit(variance(Trace(L_hat.I)), values={L: [[1]]}, D=1, N=7)  # of 7 / chi^2_7
    assert one == Rational(49, 5 * 3) - Rational(49, 25)
    with pytest.raises(ValueError, match=r"needs scalars or vectors, got shape \(D, D\) in Lambda_hat; take traces"):
        variance(L_hat)


def test_kronecker_products_are_maps():
    """(S (x) S) vec(A) = vec(S A S), (P (x) I) vec(A) = vec(A P')."""
    assert expect_kronecker(L_hat, L_hat)(A) == expect(L_hat * A * L_hat)
    assert expect_kronecker(L_hat * B, Identity(D))(A) == A * B.T * L
    assert expect_kronecker(w.T, L_hat)(A) == 0
    assert expect_kronecker(w.T, L_hat)(A).shape == (D, 1)
    assert expect_kronecker(w.T, w.T)(A) == Trace(A)
    with pytest.raises(ValueError, match=r"expect_kronecker\(left, right\) gives its expectation as a map"):
        expect(sympy.KroneckerProduct(L_hat, L_hat))
    with pytest.raises(ValueError, match="needs two matrices, got the scalar"):
        expect_kronecker(Trace(L_hat), L_hat)


def test_a_cancelled_inverse_needs_full_rank():
    assert expect(P(L_hat) * P(L_hat).reciprocal()).conditions == {N >= D}
    assert expect(P(L_hat) * P(L_hat).reciprocal() * A).conditions == {N >= D}
    assert expect(parse("S^-1")).conditions == {N > D + 1}
    assert expect(parse("S^-1 + S^-2")).conditions == {N > D + 3}


# What is refused

OTHER_HAT = symmetric_matrix("Q_hat", D)


@pytest.mark.parametrize(
    ("expression", "law", "message"),
    [
        (OTHER_HAT * A, None, r"Q_hat looks random but has no law; give it one, e\.g\. law=SampleCovariance\(Q_hat"),
        (symmetric_matrix("Q_hat_1", D), None, "Q_hat_1 looks random"),
        ((L_hat + sigma * Identity(D)).I, None, r"cannot invert \(sigma I \+ Lambda_hat\)"),
        (sympy.Determinant(L_hat), None, "not a trace polynomial"),
        (x.T * u, (Gaussian(x, mean=u), Gaussian(u, mean=x)), r"the law of [ux] depends on itself"),
        (x, (Fixed(x, A * x),), "the law of x depends on itself"),
        (x, (Gaussian(x), Gaussian(x, mean=u)), "x has two laws; combine them in a Mixture"),
        (x, {u: Gaussian(x)}, "each key of law must be the symbol of its law"),
        (x, {x: 1}, "each key of law must be the symbol of its law"),
        (L_hat.I, SampleCovariance(L_hat, L + K, N), r"cannot invert \(K \+ Lambda\)|cannot invert \(Lambda \+ K\)"),
    ],
    ids=str,
)  # fmt: skip
def test_expect_refuses(expression, law, message):
    with pytest.raises(ValueError, match=message):
        expect(expression, law=law)


@pytest.mark.parametrize(
    ("symbol", "law"),
    [(vector("x", D), "Gaussian(x, ...)"), (vector("x_1", D), "Gaussian(x_1, ...)"), (matrix("X", D), "Gaussian(X, ...)"),
     (vector("epsilon_n", 1), "Gaussian(epsilon_n, ...)"), (prediction, "Gaussian(yhat_q, ...)")],
    ids=str,
)  # fmt: skip
def test_data_without_a_law_are_refused_unless_declared_constant(symbol, law):
    message = f"expect: {symbol} looks random but has no law; give it one, e.g. law={law}, or declare it constant, given={symbol}. "
    with pytest.raises(ValueError, match=re.escape(message)):
        expect(symbol)
    assert expect(symbol, given=symbol) == expect(symbol, Fixed(symbol, symbol)) == symbol


def test_tokens_have_laws():
    assert expect(x_n * x_n.T) == expect(X_c * X_c.T / N) == L  # equations (2), (28)
    assert expect(X_c * y * w.T / N) == expect(x_n * P(y_n) * w.T) == L  # equations (4), (8)
    assert expect(X_c * y / N).shape == (D, 1)
    assert expect(X_c * y * beta.T) == expect(N * L_hat**2)
    assert expect(X_c.T * A * X_c) == Trace(A * L) * Identity(N)
    assert expect(L_hat * x_n * x_n.T) == expect(L_hat**2)  # by exchange of tokens
    assert expect(L_hat * A * x_n * x_n.T * L_hat) == expect(L_hat * A * L_hat**2)
    assert expect(beta * w.T, given=X_c) == X_c * X_c.T / N
    assert expect(X_c * y * w.T, given=L_hat) == N * L_hat
    assert expect(zeta * zeta.T) == sigma**2 / N * L
    assert expect(P(noise_q) ** 2) == sigma**2
    assert expect(zeta * (zeta.T * x_n) * x_n.T) == sigma**2 / N * expect(L_hat**2)
    for expression in (x_n.T * X_c, X_c * X_c.T * x_n):
        with pytest.raises(ValueError, match="x_n is a column of X_c"):
            expect(expression)
    with pytest.raises(ValueError, match="Lambda_hat depends on x_n"):
        expect(x_n * x_n.T, given=L_hat)
    with pytest.raises(ValueError, match="x_n stands beside a Lambda_hat of another law"):
        expect(L_hat * x_n * x_n.T, SampleCovariance(L_hat, K, N))


def test_hats_inside_a_word_do_not_look_random():
    assert expect(matrix("W_hatch", D)) == matrix("W_hatch", D)


@pytest.mark.parametrize("law", [3, [3], "w", A])
def test_a_law_must_be_one(law):
    with pytest.raises(TypeError, match=r"law must be a law or several of them \(Gaussian, SampleCovariance, Fixed, Mixture\)"):
        expect(A, law=law)


@pytest.mark.parametrize("given", ["S", 3, None, (P(L_hat),), (A.T,), ("Lambda_hat",)], ids=str)
def test_what_is_given_are_symbols(given):
    with pytest.raises(TypeError, match="expect: given must be "):
        expect(L_hat, given=given)
    with pytest.raises(TypeError, match="got 'Lambda_hat'"):  # the text, not its first letter
        expect(L_hat, given="Lambda_hat")


def test_expect_is_linear_and_respects_constants():
    p = expect(L_hat * A * L_hat * B)
    assert expect(3 * L_hat * A * L_hat * B / N) == 3 * p / N
    assert expect(C * L_hat * A * L_hat * B) == C * p
    assert expect(Trace(C) * L_hat * A * L_hat * B) == Trace(C) * p
    assert expect(P(L_hat * A * L_hat * B).T) == p.T
    assert expect(P(L_hat * A * L_hat * B).trace()) == p.trace()
    assert expect(A * B) == A * B
    assert expect(P(Fraction(1, 2)) * L_hat) == P(L) / 2
    assert expect(expect(L_hat**2)) == expect(L_hat**2)


# Tokens with a mean


@pytest.mark.parametrize("text", ["S", "S A S", "tr(S B) S", "S S B S", "m' S A S m", "tr(S)^2 tr(S A)"])
@pytest.mark.parametrize("samples", [1, 2])
def test_tokens_with_a_mean_are_those_of_gaussian_vectors(text, samples):
    tokens = [vector(f"z_{i}", D) for i in range(samples)]
    total = sum((P(one * one.T) for one in tokens[1:]), start=P(tokens[0] * tokens[0].T))
    formula = parse(text)
    by_tokens = expect(substitute(formula, {L_hat: total / samples}), [Gaussian(one, m, L) for one in tokens])
    assert expect(formula, SampleCovariance(L_hat, L, samples, mean=m)) == by_tokens


@pytest.mark.parametrize("samples", [1, 3, N])
def test_one_dimension_with_a_mean_has_the_cumulants_of_noncentral_chi_square(samples):
    law = SampleCovariance(L_hat, L, samples, mean=m)
    given = {L: sympy.Matrix([[2]]), m: sympy.Matrix([[3]])}
    raw = [explicit(expect(Trace(L_hat) ** k, law), given, D=1) for k in (1, 2, 3)]
    share = sympy.Integer(9) / 2  # m^2 / lambda, the noncentrality of one token
    cumulants = [2 ** (n - 1) * sympy.factorial(n - 1) * (1 + n * share) * samples * (sympy.Integer(2) / samples) ** n for n in (1, 2, 3)]
    first, second, third = cumulants
    expected = [first, second + first**2, third + 3 * second * first + first**3]
    assert [sympy.simplify(one - other) for one, other in zip(raw, expected, strict=True)] == [0, 0, 0]


def test_tokens_with_a_mean_have_no_inverse():
    with pytest.raises(ValueError, match="has tokens of mean m; its inverse"):
        expect(L_hat.inv(), SampleCovariance(L_hat, L, N, mean=m))
