"""Polynomials as text, which the grammar reads back, and as LaTeX; the order and the signs of terms."""

import pytest
import sympy
from expressions import evaluate, expressions
from hypothesis import HealthCheck, given, settings
from iclflow.theory import TracePolynomial, expect, substitute
from iclflow.theory.notation import B, D, H, Lambda, Lambda_hat, N, beta, lambda_, matrix, sigma, symmetric_matrix, tau, v_i, vector, x_q
from reading import parse
from sympy import Identity, Rational, Symbol, Trace, latex

P = TracePolynomial
A, W = matrix("A", D), matrix("W", D)
x, u = vector("x", D), vector("u", D)

TEXTS = [
    (P(0), "0"),
    (P(1), "1"),
    (P(-1), "-1"),
    (P(Rational(-2, 3)), "-2/3"),
    (P(A), "A"),
    (-P(A), "-A"),
    (P(A) - W, "A - W"),
    (-P(A) - 2 * P(W), "-A - 2 W"),
    (P(A * A.T * A.T * A), "A (A')^2 A"),
    (P(A.T), "A'"),
    (P(A.I), "A^-1"),
    (P(A.I.T), "(A^-1)'"),
    (P(A**-3), "A^-3"),
    (P(A**2 * W), "A^2 W"),
    (P(Identity(D)), "I"),
    (3 * P(Identity(D)) / N, "3/N I"),
    (P(Trace(A * W)) ** 2, "tr(A W)^2"),
    (P(x.T * A * u), "x' A u"),
    (P(x.T * x) ** 3, "(x' x)^3"),
    (P(x * u.T), "x u'"),
    (P(x.T), "x'"),
    (P(Trace(A)) * W, "tr(A) W"),
    (N * P(A) / (N - D - 1), "N/(N - D - 1) A"),
    (P(A) / (N * (N - 1) ** 2), "1/(N (N - 1)^2) A"),
    ((N + 1) * P(A), "(N + 1) A"),
    (-P((1 - N) * Trace(A)), "(N - 1) tr(A)"),
    (sigma**2 * P(A) / N, "sigma^2/N A"),
    (2 * sigma * N * P(A) / (3 * tau), "2 N sigma/(3 tau) A"),
    (1 / P(N) ** 2, "1/N^2"),
    (P(1 - N), "1 - N"),
    (P(v_i) * lambda_ * H, "H lambda v_i"),
    (expect(Lambda_hat**2), "(1 + 1/N) Lambda^2 + 1/N tr(Lambda) Lambda"),
    (P(Trace(A)) - Trace(W) + 1, "1 + tr(A) - tr(W)"),
]


@pytest.mark.parametrize(("polynomial", "text"), TEXTS, ids=[text for _, text in TEXTS])
def test_text(polynomial, text):
    assert str(polynomial) == repr(polynomial) == text


@pytest.mark.parametrize("polynomial", [polynomial for polynomial, _ in TEXTS if "_i" not in str(polynomial)], ids=str)
def test_the_grammar_reads_what_is_printed(polynomial):
    again = parse(str(polynomial))
    assert again == polynomial
    assert str(again) == str(polynomial)


@settings(derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck), max_examples=60)
@given(expressions(dict.fromkeys(["A", "A'", "W", "W^-1", "L", "L^-1", "S"], 0), {"x": 0, "u": 0, "beta": 0}, degree=9))
def test_reading_is_the_inverse_of_printing(case):
    letters = {"A": A, "W": W, "L": Lambda, "S": Lambda_hat, "x": x, "u": u, "beta": beta}
    polynomial = P(evaluate(case[1], letters, trace=Trace, number=lambda q: Rational(q.numerator, q.denominator)))
    polynomial = polynomial * (1 + sigma / N) / (N - D)
    assert parse(str(polynomial)) == polynomial


LATEX = [
    (P(0), "0"),
    (P(A), r"\boldsymbol{A}"),
    (P(A.T), r"\boldsymbol{A}^\top"),
    (P(A.I), r"\boldsymbol{A}^{-1}"),
    (P(A.I.T), r"\left(\boldsymbol{A}^{-1}\right)^\top"),
    (P(A**3), r"\boldsymbol{A}^{3}"),
    (P(A.T * A.T), r"\left(\boldsymbol{A}^\top\right)^{2}"),
    (P(Trace(A)) ** 2, r"\operatorname{tr}\left(\boldsymbol{A}\right)^{2}"),
    (P(x.T * u) ** 2, r"\left(\boldsymbol{u}^\top \boldsymbol{x}\right)^{2}"),
    (P(Identity(D)) * sigma**2, r"\sigma^{2} \boldsymbol{I}"),
    (P(A) * N / (N - D - 1), r"\frac{N}{N - D - 1} \boldsymbol{A}"),
    (P(A) / (N * (N - 1) ** 2), r"\frac{1}{N \left(N - 1\right)^{2}} \boldsymbol{A}"),
    (P(A) / (N - 1) ** 2, r"\frac{1}{\left(N - 1\right)^{2}} \boldsymbol{A}"),
    (-(N + 1) * P(A), r"-\left(N + 1\right) \boldsymbol{A}"),
    (
        expect(Lambda_hat**2),
        r"\left(1 + \frac{1}{N}\right) \boldsymbol{\Lambda}^{2} + "
        r"\frac{1}{N} \operatorname{tr}\left(\boldsymbol{\Lambda}\right) \boldsymbol{\Lambda}",
    ),
    (P(Lambda_hat * x_q), r"\hat{\boldsymbol{\Lambda}} \boldsymbol{x}_{q}"),
]


@pytest.mark.parametrize(("polynomial", "expected"), LATEX, ids=[str(polynomial) for polynomial, _ in LATEX])
def test_latex(polynomial, expected):
    assert latex(polynomial) == expected
    assert polynomial._repr_latex_() == rf"$\displaystyle {expected}$"
    depth = 0
    for character in expected:
        depth += {"{": 1, "}": -1}.get(character, 0)
        assert depth >= 0
    assert depth == 0
    assert expected.count(r"\left") == expected.count(r"\right")


def test_custom_latex_is_used():
    assert latex(P(symmetric_matrix("Q", D, latex=r"\mathcal{Q}")) ** 2) == r"\mathcal{Q}^{2}"
    assert latex(P(Symbol("alpha_1")) * A) == r"\alpha_{1} \boldsymbol{A}"


def test_terms_come_in_order_of_degree():
    printed = str(P(Trace(A)) * B * A + P(A) + P(A * B * A) + Trace(B) * P(A))
    assert printed == "A + tr(B) A + A B A + tr(A) B A"


def test_printing_of_applied_functions_keeps_their_argument():
    f, s, t = sympy.Function("f"), Symbol("s"), Symbol("t")
    assert str(P(f(t) + f(s))) in ("f(s) + f(t)",)
    assert substitute(P(f(t) * A), {f(t): f(s)}) == f(s) * P(A)
