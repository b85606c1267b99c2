"""The spectral calculus against explicit diagonal matrices; its input checks."""

import pytest
from iclflow.theory import TracePolynomial, explicit
from iclflow.theory.calculus.spectral import along, eigenvalue, indicator, on_and_off, over_directions, summand
from iclflow.theory.notation import B, D, Lambda, M, N, P, T, lambda_, learned, vector, x_q
from iclflow.theory.results.task.population import PAPER
from sympy import Identity, Matrix, Rational, Trace, cancel, diag, expand, symbols

EIGENVALUES = (Rational(3), Rational(5, 2), Rational(1, 3))
LEARNED = (1, 0, 1)
k, q = vector("k", D), vector("q", D)
k_d, q_d = symbols("k_d q_d")
DIAGONAL = {Lambda: lambda_, M: PAPER.eigenvalue, P: learned}


def explicit_values():
    trace = sum(EIGENVALUES)
    moments = [value**2 + (value**2 + trace * value) / N for value in EIGENVALUES]
    return {Lambda: diag(*EIGENVALUES), M: diag(*moments), P: diag(*LEARNED)}


def at(formula, position, **components):
    names = {lambda_: EIGENVALUES[position], learned: LEARNED[position], T: sum(EIGENVALUES)}
    return formula.subs(names | components)


@pytest.mark.parametrize("formula", [M * Lambda**2 * M.I * P, Lambda - 2 * M * P * Lambda.I / N, Identity(D) - P * Lambda])
def test_along_is_the_diagonal_of_the_explicit_matrix(formula):
    whole = explicit(formula, explicit_values(), D=3)
    read = along(formula, DIAGONAL)
    assert whole.is_diagonal()
    assert all(cancel(whole[i, i] - at(read, i)) == 0 for i in range(3))


def test_a_vector_formula_has_components():
    key = Matrix([2, -3, 7])
    whole = explicit(Lambda * (Identity(D) - P) * k, explicit_values() | {k: key}, D=3)
    read = along(Lambda * (Identity(D) - P) * k, {Lambda: lambda_, P: learned, k: k_d})
    assert [at(read, i).subs(k_d, key[i]) for i in range(3)] == list(whole)


def test_summands_add_up_to_traces_and_bilinear_forms():
    key, query = Matrix([2, -3, 7]), Matrix([1, 5, -2])
    formula = Trace(M * Lambda * P) + TracePolynomial(k.T * Lambda * P * q) / N - 3 * Trace(Lambda.I)
    whole = explicit(formula, explicit_values() | {k: key, q: query}, D=3)
    read = summand(formula, DIAGONAL | {k: k_d, q: q_d})
    total = sum(at(read, i).subs({k_d: key[i], q_d: query[i]}) for i in range(3))
    assert cancel(whole - total) == 0


def test_on_and_off_agrees_on_both_values_of_the_indicator_and_is_linear():
    formula = (1 - learned) ** 3 * lambda_ + learned**2 / (1 + learned)
    linear = on_and_off(formula)
    assert all(expand((formula - linear).subs(learned, value)) == 0 for value in (0, 1))
    assert linear.diff(learned, 2) == 0


def test_sums_over_directions_take_explicit_values():
    total = over_directions(learned * lambda_**2, last=3).doit()
    values = {indicator[i + 1]: LEARNED[i] for i in range(3)} | {eigenvalue[i + 1]: EIGENVALUES[i] for i in range(3)}
    assert total.subs(values) == EIGENVALUES[0] ** 2 + EIGENVALUES[2] ** 2
    assert over_directions(lambda_, first=2, last=1).doit() == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: along(Trace(Lambda), {Lambda: lambda_}), "needs a matrix or a vector"),
        (lambda: along(Lambda * M, {Lambda: lambda_}), "no value along an eigenvector was given for M"),
        (lambda: along(Trace(Lambda) * Lambda, {Lambda: lambda_}), "has no value; give it one in traces"),
        (lambda: summand(Lambda * B, {Lambda: lambda_}), "needs a scalar"),
        (lambda: summand(Trace(Lambda) ** 2, {Lambda: lambda_}), "exactly one trace"),
        (lambda: summand(1 + Trace(Lambda), {Lambda: lambda_}), "exactly one trace"),
        (lambda: summand(Trace(Lambda * B), {Lambda: lambda_}), "was given for B"),
        (lambda: summand(x_q.T * x_q, {Lambda: lambda_}), "was given for x_q"),
    ],
)
def test_what_it_cannot_read_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
