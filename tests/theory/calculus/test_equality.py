"""What cannot be zero is refused at one point, without an attempt to simplify it; what is zero is not refused there."""

import iclflow.theory.calculus.equality as exact
import pytest
import sympy
from sympy import IndexedBase, Rational, Sum, Symbol, binomial, cos, log, oo, sin, sqrt, symbols

x, y = symbols("x y", positive=True)
z = Symbol("z", real=True)
D, m, d = symbols("D m d", integer=True, positive=True)
level = IndexedBase("lambda", positive=True)

ZEROS = (
    sin(z) ** 2 + cos(z) ** 2 - 1,
    log(x * y) - log(x) - log(y),
    sqrt(x**2) - x,
    Sum(binomial(D, m), (m, 0, D)) - 2**D,
    Sum(level[d] / (1 + level[d]), (d, 1, D)) - Sum(1 - 1 / (1 + level[d]), (d, 1, D)),
)
NOT_ZEROS = (
    sin(z) ** 2 + cos(z) ** 2 - Rational(999999, 1000000),
    log(x * y) - log(x),
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
