"""Text as trace polynomials: numbers, inverses, and what is refused with the right spelling."""

import pytest
from iclflow.theory.algebra.polynomial import TracePolynomial
from iclflow.theory.notation import Lambda_hat, w
from reading import parse
from sympy import Rational


def test_numbers_and_inverses():
    assert parse("1e5 S") == 100_000 * TracePolynomial(Lambda_hat)
    assert parse("2.5E-3 w") == Rational(1, 400) * TracePolynomial(w)
    assert parse("2e_d") == parse("2 e_d")  # e_d is a letter
    assert parse("inv(S A)") == parse("A^-1 S^-1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1/2S", "character 4: what stands behind the / could be in the denominator or not: write brackets"),
        ("A Tr(S)", r"character 3: Tr\(\.\.\.\) is not read: write tr\(\.\.\.\)"),
        ("Log(N)", r"write ln\(\.\.\.\)"),
        ("det S", r"det\(\.\.\.\) is not read"),
        ("exp(S) N", r"exp of a matrix is not read"),
        ("S == S", "found '==', expected one ="),
        ("N'", "the prime of a number is no transpose"),
    ],
)
def test_what_is_not_read(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)
