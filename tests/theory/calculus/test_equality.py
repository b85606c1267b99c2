"""Exact equality: what is not zero is refused at one point, without simplifying; what is zero is not; shapes are told apart."""

import iclflow.theory.calculus.equality as exact
import pytest
import sympy
from iclflow.theory.calculus.equality import equal
from iclflow.theory.notation import D, H, Lambda, M, N, lambda_
from sympy import IndexedBase, Rational, Sum, Symbol, ZeroMatrix, atanh, binomial, cos, cosh, log, oo, sin, sinh, sqrt, symbols

x, y = symbols("x y", positive=True)
z = Symbol("z", real=True)
m, d = symbols("m d", integer=True, positive=True)
level = IndexedBase("lambda", positive=True)

ZEROS = (
    sin(z) ** 2 + cos(z) ** 2 - 1,
    log(x * y) - log(x) - log(y),
    sqrt(x**2) - x,
    cosh(atanh(z) + x) ** 2 * (1 - z**2) - (cosh(x) + z * sinh(x)) ** 2,
    Sum(binomial(D, m), (m, 0, D)) - 2**D,
    Sum(level[d] / (1 + level[d]), (d, 1, D)) - Sum(1 - 1 / (1 + level[d]), (d, 1, D)),
)
NOT_ZEROS = (
    sin(z) ** 2 + cos(z) ** 2 - Rational(999999, 1000000),
    log(x * y) - log(x),
    cosh(atanh(z) + x) ** 2 * (1 - z**2) - (cosh(x) - z * sinh(x)) ** 2,
    Sum(binomial(D, m), (m, 1, D)) - 2**D,
    Sum(level[d] / (1 + level[d]), (d, 1, D)) - Sum(level[d], (d, 1, D)),
    x ** Rational(1, 3) - x ** Rational(1, 2),
)


@pytest.mark.parametrize("expression", ZEROS, ids=str)
def test_zero_is_found_and_not_refused_at_a_point(expression):
    assert not exact._is_nonzero_somewhere(expression)
    assert exact.vanishes(expression)


@pytest.mark.parametrize("expression", NOT_ZEROS, ids=str)
def test_what_is_not_zero_is_refused_without_simplifying(expression, monkeypatch):
    monkeypatch.setattr(sympy, "simplify", lambda _: pytest.fail("it should have been refused at a point"))
    assert not exact.vanishes(expression)


def test_a_point_where_the_expression_is_infinite_decides_nothing():
    assert not exact._is_nonzero_somewhere(1 / (x - Rational(3, 7)))  # the point that is tried first
    assert not exact._is_nonzero_somewhere(oo)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (ZeroMatrix(D, D), Lambda - Lambda, True),
        (ZeroMatrix(D, D), ZeroMatrix(H, H), False),
        (ZeroMatrix(D, 1), 0, False),
        ({"a": Lambda}, {"a": Lambda, "b": Lambda}, False),
        ((Lambda, M), (M, Lambda), False),
        (sqrt(lambda_**2), lambda_, True),
        (sqrt(lambda_**2), -lambda_, False),
        (1 / (1 + 1 / N), N / (N + 1), True),
        (Symbol("x"), Symbol("x", positive=True), False),
    ],
)
def test_equality_is_exact_and_tells_shapes_apart(one, other, same):
    assert equal(one, other) is same
