"""Exact equality: what is zero is found by normal forms, what is not zero is refused; shapes are told apart."""

import pytest
from iclflow.theory.calculus.equality import equal, vanishes
from iclflow.theory.notation import D, H, Lambda, M, N, lambda_
from sympy import (
    Derivative,
    IndexedBase,
    Rational,
    Sum,
    Symbol,
    ZeroMatrix,
    atanh,
    binomial,
    cos,
    cosh,
    exp,
    gamma,
    hyper,
    log,
    oo,
    sin,
    sinh,
    sqrt,
    symbols,
)

x, y = symbols("x y", positive=True)
z, w = Symbol("z", real=True), Symbol("w")
m, d = symbols("m d", integer=True, positive=True)
level = IndexedBase("lambda", positive=True)

ZEROS = (
    sin(z) ** 2 + cos(z) ** 2 - 1,
    log(x * y) - log(x) - log(y),
    sqrt(x**2) - x,
    cosh(atanh(z) + x) ** 2 * (1 - z**2) - (cosh(x) + z * sinh(x)) ** 2,
    log(1 / (1 / x + 1 / y)) - log(x) - log(y) + log(x + y),
    log((x - y) / (x - 2 * y)) - log((y - x) / (2 * y - x)),
    w * w ** (m - 1) - w**m,
    x * exp(y * log(1 / x)) - x ** (1 - y),
    gamma(x + 1) - x * gamma(x),
    hyper((1, Rational(1, 2) - x), (Rational(3, 2),), 1) - 1 / (2 * x),
    Sum(level[d] / (1 + level[d]), (d, 1, D)) - Sum(1 - 1 / (1 + level[d]), (d, 1, D)),
    sqrt(1 - 1 / (x + 1) ** 2) - sqrt(x * (x + 2)) / (x + 1),
    Derivative(x**2, x) - 2 * x,
)
NOT_ZEROS = (
    sin(z) ** 2 + cos(z) ** 2 - Rational(999999, 1000000),
    log(x * y) - log(x),
    cosh(atanh(z) + x) ** 2 * (1 - z**2) - (cosh(x) - z * sinh(x)) ** 2,
    Sum(binomial(D, m), (m, 1, D)) - 2**D,
    Sum(level[d] / (1 + level[d]), (d, 1, D)) - Sum(level[d], (d, 1, D)),
    x ** Rational(1, 3) - x ** Rational(1, 2),
    w * w ** (m - 1) - w ** (m + 1),
    gamma(x + 1) - gamma(x),
    1 / (x - Rational(3, 7)),
    oo,
    sqrt(1 - 1 / (x + 1) ** 2) - sqrt(x * (x + 1)) / (x + 1),
)


@pytest.mark.parametrize("expression", ZEROS, ids=str)
def test_zero_is_found(expression):
    assert vanishes(expression)


@pytest.mark.parametrize("expression", NOT_ZEROS, ids=str)
def test_what_is_not_zero_is_refused(expression):
    assert not vanishes(expression)


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
