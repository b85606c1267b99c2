"""The symbols of every printed result, by the names that it prints."""

from typing import Any

import pytest
from iclflow.theory import Equation, TracePolynomial, collect, expect, explicit, gradient, letters, substitute
from iclflow.theory.algebra.letters import printed_name
from iclflow.theory.derivations.derivation import Derivation
from iclflow.theory.derivations.lines import Line
from iclflow.theory.equations import equation
from iclflow.theory.notation import B, D, Lambda, Lambda_hat, N, beta, lambda_, matrix, symmetric_matrix, t, tau, vector, x_q, y_q
from iclflow.theory.typesetting.latex import formula_text
from reading import parse
from sympy import Function, IndexedBase, Integer, Matrix, MatrixSymbol, Sum, Symbol, Trace, log

LOSS = expect((y_q - beta.T * B * x_q) ** 2)
rates: Any = IndexedBase("lambda", positive=True)
d = Symbol("d", integer=True)
v = Function("v")


def test_the_symbols_of_a_polynomial_are_the_very_symbols():
    moment = expect(Lambda_hat**2)
    assert moment.letters == {"Lambda": Lambda, "N": N}
    assert moment.letters["Lambda"] is Lambda
    assert moment.letters.symbols == moment.free_symbols
    assert substitute(moment, {moment.letters["Lambda"]: 0 * Lambda}) == 0 * Lambda
    assert gradient(LOSS, LOSS.letters["B"]).letters == LOSS.letters == {"B": B, "Lambda": Lambda, "N": N}
    assert (LOSS / (N - D)).letters.keys() == {"B", "D", "Lambda", "N"}  # of the denominator too
    assert parse("S A S + 1/tau tr(A) I").letters == {"A": matrix("A", D), "Lambda_hat": Lambda_hat, "tau": tau}
    assert expect(Integer(1)).letters == {}


@pytest.mark.parametrize(
    ("formula", "names"),
    [
        (lambda_**2 / tau + log(N), "N lambda tau"),
        (Trace(Lambda) * B, "B Lambda"),
        (v(t) * B.T, "B t v(t)"),
        (Sum(rates[d], (d, 1, D)) + lambda_, "D lambda lambda_d"),  # d is bound
        (rates[1] + rates[d], "d lambda_1 lambda_d"),
        (rates[1, 2] * rates[d], "d lambda_(1,2) lambda_d"),
        (Matrix([[lambda_, v(t)], [0, rates[2]]]), "lambda lambda_2 t v(t)"),
        (explicit(B * Lambda, D=2), "B Lambda"),
        ((lambda_, [N, {"part": tau}], LOSS), "B Lambda N lambda tau"),
        (collect(LOSS, N), "B Lambda"),
        (2, ""),
    ],
    ids=str,
)
def test_the_symbols_of_a_formula(formula, names):
    found = letters(formula)
    assert list(found) == sorted(found) == names.split()
    assert all(printed_name(found[name]) == name for name in found)
    assert repr(found) == repr(dict(found))


def test_a_polynomial_and_its_sympy_form_have_the_same_letters():
    for polynomial in (LOSS, v(t) * LOSS / (rates[1] - tau), expect(Lambda_hat.I)):
        assert letters(polynomial) == polynomial.letters == letters(polynomial.to_sympy())


def test_each_name_is_the_one_that_is_printed():
    for formula in (LOSS, TracePolynomial(rates[d] * rates[d + 1] * v(t)), lambda_ * rates[1] + tau**2, equation("24").parts):
        text = formula_text(formula)
        assert all(name in text for name in letters(formula))


def test_symbols_that_print_alike_are_refused_by_that_name_only():
    real, positive, plain = Symbol("v", real=True), Symbol("v", positive=True), MatrixSymbol("v", 3, 1)
    found = letters((real * N, positive, plain))
    assert found.symbols == {real, positive, plain, N}
    assert found["N"] is N
    assert len(found) == 2
    assert "v" in found
    with pytest.raises(ValueError, match=r"v names 3 symbols here: Symbol\('v', positive=True\).*real=True.*shape \(3, 1\)"):
        found["v"]
    assert repr(found) == "{'N': N, 'v': [v, v, v]}"


def test_what_is_refused():
    with pytest.raises(KeyError, match="no symbol is called 'Lamda'; the names are B, Lambda, N"):
        LOSS.letters["Lamda"]
    assert "Lamda" not in LOSS.letters
    assert LOSS.letters.get("Lamda") is None
    for formula in ("Lambda", object(), None, {"part": "Lambda"}):
        with pytest.raises(TypeError, match="formula must be a formula or a collection"):
            letters(formula)


def test_letters_of_an_equation_leave_out_its_left_sides():
    entry = Equation("test", "test", "definition", "", B, lambda: {"one": Lambda * N, "two": tau})
    assert entry.letters == letters(entry) == letters(entry.parts) == {"Lambda": Lambda, "N": N, "tau": tau}
    assert Derivation.by(Line(B, "=", lambda_), Line(B, "=", tau)).letters == {"lambda": lambda_, "tau": tau}
    assert equation("24").letters["lambda_m"].base.name == "lambda"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: matrix(3, D), "name must be a text such as 'U' or 'k_i', got 3"),
        (lambda: vector("", D), "name must be a text such as 'U' or 'k_i', got ''"),
        (lambda: vector("u", "D"), "the sizes of u must be letters such as D, or positive integers, got 'D' and 1"),
        (lambda: matrix("U", -1), "the sizes of U must be letters such as D, or positive integers, got -1 and -1"),
        (lambda: matrix("U", D, 2.5), "the sizes of U must be .*, got D and 2.5"),
        (lambda: symmetric_matrix("S", None), "the sizes of S must be .*, got None and None"),
    ],
)
def test_a_letter_needs_a_name_and_sizes(make, message):
    with pytest.raises(ValueError, match=message):
        make()
