"""Values at points: by Arb, and by mpmath where Arb has no finite number."""

from copy import deepcopy
from random import Random

import mpmath
import pytest
import sympy
from iclflow.theory.derivations.points import Point, value_at
from iclflow.theory.notation import D, Lambda, N, P
from sympy import Abs, Min, Rational, Symbol, Trace, atan, cosh, exp, gamma, log, sqrt, tanh

x, y = sympy.symbols("x y")


@pytest.fixture(autouse=True)
def thirty_digits():
    with mpmath.workdps(30):
        yield


def point_with(**values) -> Point:
    point = Point({D: 3, N: 5}, Random(0))
    for name, value in values.items():
        point[Symbol(name)] = mpmath.mpmathify(value)
    return point


@pytest.mark.parametrize(
    "formula",
    [x**2 - y / 3, exp(-x) * log(y) + sqrt(x), cosh(x) + tanh(y) * atan(x), Abs(x - y), Min(x, y) ** Rational(1, 3), gamma(x) / y, x**y],
)
def test_arb_and_sympy_agree(formula):
    value = value_at(formula, point_with(x=0.75, y=1.875))
    assert abs(value - mpmath.mpmathify(formula.subs({x: Rational("0.75"), y: Rational("1.875")}).evalf(30))) < 1e-28


def test_a_trace_needs_no_trace_polynomial():
    """Of the inverse of a sum, from its entries; of the identity, the dimension."""
    point, unit = Point({D: 3, N: 5}, Random(0)), sympy.Identity(D)
    inverse = (point[Lambda] + mpmath.eye(3) / 5) ** -1
    expected = sum(inverse[i, i] for i in range(3))
    assert abs(value_at(log(Trace((Lambda + unit / N).I)), point) - mpmath.log(expected)) < 1e-27
    assert value_at(Trace(unit), point) == 3


def test_what_is_complex_is_mpmath_s():
    point = point_with(x=-2, y=1 + 2j)
    assert abs(value_at(sqrt(x), point) - mpmath.sqrt(-2)) < 1e-28
    assert value_at(y**2 + x, point) == mpmath.mpc(-5, 4)


def test_a_division_by_zero_is_one():
    point = point_with(x=0, y=2)
    for formula in (1 / x, (y + 1) / x, Trace(Lambda) / x):
        with pytest.raises(ZeroDivisionError):
            value_at(formula, point)


def test_a_matrix_that_a_draw_changes_in_place_has_its_new_value():
    point = point_with()
    point[P] = mpmath.zeros(3)
    point[P][1, 2] = 4
    point[Lambda][0, 0] += 7
    assert value_at(P, point)[1, 2] == 4
    assert abs(value_at(Trace(Lambda), point) - sum(point[Lambda][i, i] for i in range(3))) < 1e-28


def test_a_copy_has_the_same_values():
    point = point_with(x=2)
    value = value_at(x * Lambda, point)
    assert value_at(x * Lambda, deepcopy(point)) == value_at(x * Lambda, point.copy()) == value
