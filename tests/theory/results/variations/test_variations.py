"""Variations of the task (V0 to V5) against prompts written out entry by entry, and against other routes to the same numbers."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import sympy
from entries import Entries, isserlis
from iclflow.theory import Fixed, Gaussian, SampleCovariance, TracePolynomial, expect, explicit, substitute
from iclflow.theory.equations import equation, equations
from iclflow.theory.notation import B, D, Lambda, Lambda_hat, Lambda_q, N, lambda_, sigma, vector, w, x_q
from iclflow.theory.results.task.population import Sigma_w, any_tokens, fourth, general_moments, population_moments
from iclflow.theory.results.variations.shift import test_loss as loss_at_test
from iclflow.theory.results.variations.task_covariance import P_w, task_moments
from iclflow.theory.results.variations.token_laws import elliptical_fourth, gaussian_fourth, k_i, k_j, kappa
from sympy import Rational, Symbol, Trace

COVARIANCES = {Lambda: [[2, 1], [1, 3]], Sigma_w: [[1, -1], [-1, 2]], Lambda_q: [[2, -1], [-1, 1]]}
MAP = [[1, -2], [3, 1]]
NOISE = 2  # sigma
VARIATIONS = [e.number for e in equations() if e.number[:2] in ("V0", "V1", "V2", "V3", "V4", "V5")]


def prompt(samples):
    """beta, x_q and y_q of a context written out, and their moments; tokens are scaled by N^(-1/2)."""
    tokens = Entries.variables([[("y", n, i) for n in range(samples)] for i in range(2)])
    noise = Entries.variables([[("e", n, 0)] for n in range(samples)])
    task, query = (Entries.variables([[(name, 0, i)] for i in range(2)]) for name in "wx")
    target = task.T * query + Entries.variables([[("f", 0, 0)]])
    correlation = tokens * (tokens.T * task + noise)

    def covariance(first, second):
        (kind, n, i), (kind2, n2, j) = first, second
        if (kind, n) != (kind2, n2):
            return 0
        return {
            "y": Fraction(COVARIANCES[Lambda][i][j], samples),
            "e": Fraction(NOISE**2, samples),
            "f": Fraction(NOISE**2),
            "w": Fraction(COVARIANCES[Sigma_w][i][j]),
            "x": Fraction(COVARIANCES[Lambda_q][i][j]),
        }[kind]

    return correlation, query, target, isserlis(covariance)


def numbers(formula, samples):
    values = {symbol: sympy.Matrix(rows) for symbol, rows in {**COVARIANCES, B: MAP}.items()}
    value = explicit(substitute(formula, {sigma: NOISE}), values=values, D=2, N=samples)
    rows = value.tolist() if isinstance(value, sympy.MatrixBase) else [[value]]
    return [[Fraction(int(x.p), int(x.q)) for x in row] for row in rows]


@pytest.mark.parametrize("samples", [1, 3])
def test_general_moments_entry_by_entry(samples):
    correlation, query, target, moment = prompt(samples)
    A, M, Q, c = general_moments()
    assert numbers(A, samples) == (correlation * target * query.T).expectation(moment)
    assert numbers(M, samples) == (correlation * correlation.T).expectation(moment)
    assert numbers(Q, samples) == (query * query.T).expectation(moment)
    assert numbers(c, samples) == (target * target).expectation(moment)


def test_the_test_loss_entry_by_entry():
    correlation, query, target, moment = prompt(2)
    error = target + correlation.T * Entries.constant(MAP) * query * -1
    assert numbers(loss_at_test(), 2) == (error * error).expectation(moment)
    assert numbers(equation("V3-test").statement, 2) == (error * error).expectation(moment)


@pytest.mark.parametrize("number", VARIATIONS)
def test_entries_hold(number):
    assert equation(number).holds()


def test_there_are_entries_for_each_variation():
    assert {number[:2] for number in VARIATIONS} == {"V0", "V1", "V2", "V3", "V4", "V5"}


@pytest.mark.parametrize(
    ("number", "part", "fault"),
    [
        ("V1-beta", "second", lambda x: x + sigma**2 / N * Lambda),
        ("V1-beta", "a", lambda x: x.subs(sigma, sympy.sqrt(sigma))),
        ("V1-levels", "loss", lambda x: x - sigma**2),
        ("V2-fixed", "entries", lambda x: -x),
        ("V2-rotation", "determinant", lambda x: -x),
        ("V2-order", "rate", lambda x: x / lambda_),
        ("V3-scale", "break-even", lambda x: sympy.sqrt(x)),
        ("V3-length", "slope", lambda x: x * lambda_),
        ("V5-elliptical", "sphere", lambda x: 1 / x),
        ("V5-independent", "commutator", lambda x: x * -1),
    ],
)
def test_wrong_statements_are_refused(number, part, fault):
    entry = equation(number)
    wrong = {**entry.statement, part: fault(entry.statement[part])}
    assert not replace(entry, typed=lambda: wrong).holds()


def test_a_query_from_the_context_is_refused():
    with pytest.raises(ValueError, match="given the context"):
        population_moments((Fixed(x_q, Lambda_hat * w),))


def test_any_tokens_agree_with_gaussian_ones_and_with_the_map_of_the_engine():
    assert substitute(any_tokens().M, {fourth: gaussian_fourth()}) == general_moments().M
    C = TracePolynomial(Lambda)
    by_map = SampleCovariance(
        Lambda_hat, Lambda, N, fourth_moment=lambda A: kappa * (C * A * C + C * A.T * C + (A * C).trace() * C)
    )
    z = vector("z", D)
    found = expect(Lambda_hat * z * z.T * Lambda_hat, [by_map, Gaussian(z, covariance=Sigma_w)])
    assert found == substitute(any_tokens().M, {fourth: elliptical_fourth(), sigma: 0})


def test_laws_of_the_paper_are_a_special_case():
    plain = population_moments()
    assert (
        tuple(substitute(one, {Sigma_w: sympy.Identity(D), Lambda_q: Lambda, sigma: 0}) for one in general_moments())
        == plain
    )


def test_signs_by_enumeration():
    """(V5-independent) with kurtosis 1 in two dimensions: the mean over four tokens."""
    R, S = sympy.Matrix([[1, 2], [-1, 3]]), sympy.Matrix([[2, 1], [1, 5]])
    tokens = [R * sympy.Matrix(z) for z in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
    mean = sum((x * x.T * S * x * x.T for x in tokens), sympy.zeros(2, 2)) / 4
    values = {
        Symbol(f"{name}_{i}{j}"): M[i - 1, j - 1] for name, M in (("R", R), ("S", S)) for i in (1, 2) for j in (1, 2)
    }
    formula = equation("V5-independent").statement["fourth"]
    assert formula.subs({**values, k_i: 1, k_j: 1}) == mean


def test_student_and_sphere_by_quadrature():
    """kappa = E(r^4) D / ((D + 2) E(r^2)^2), with r the length of a whitened token."""
    from scipy.integrate import quad
    from scipy.stats import t

    parts = equation("V5-elliptical").statement
    nu = Symbol("nu", positive=True)
    fourth_moment = quad(lambda x: x**4 * t.pdf(x, 7), -np.inf, np.inf)[0]
    second_moment = quad(lambda x: x**2 * t.pdf(x, 7), -np.inf, np.inf)[0]
    assert float(parts["student"].subs(nu, 7)) == pytest.approx(fourth_moment / second_moment**2 / 3, rel=1e-8)
    assert parts["sphere"].subs(D, 1) == Rational(1, 3)  # a sign: E(z^4) = 1, a third of the Gaussian's


def test_the_label_variance_of_a_task_is_its_trace():
    assert task_moments()[3] == TracePolynomial(Trace(Sigma_w * Lambda))
    assert P_w.is_positive
