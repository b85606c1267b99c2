"""Text as trace polynomials: numbers, inverses, and what is refused with the right spelling."""

import pytest
from iclflow.theory.algebra.parsing import parse
from iclflow.theory.algebra.polynomial import TracePolynomial
from iclflow.theory.notation import Lambda_hat, w
from sympy import Rational


def test_numbers_and_inverses():
    assert parse("1e5 S") == 100_000 * TracePolynomial(Lambda_hat)
    assert parse("2.5E-3 w") == Rational(1, 400) * TracePolynomial(w)
    assert parse("2e_d") == parse("2 e_d")  # e_d is a letter
    assert parse("inv(S A)") == parse("A^-1 S^-1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("E(S)", r"character 1: E\(\.\.\.\) is not read here: expect takes the expectation of the whole"),
        ("A Tr(S)", r"character 3: Tr\(\.\.\.\) is not read: write tr\(\.\.\.\)"),
        ("Log(N)", r"write ln\(\.\.\.\)"),
        ("det S", r"det\(\.\.\.\) is not read"),
        ("exp(N) S", r"exp\(\.\.\.\) is not read here"),
        ("S == S", "found '==', expected one ="),
        ("N'", "N is a number, and has no transpose"),
    ],
)
def test_what_is_not_read(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)
