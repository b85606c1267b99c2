"""Layers of linear attention, (V13-loss), (V13-white), (V13-flow), (V13-limit): planted faults, borders, roots by hand."""

from dataclasses import replace
from fractions import Fraction

import pytest
from iclflow.theory.equations import equation
from iclflow.theory.notation import D, N
from iclflow.theory.results.estimators.optimality import c
from iclflow.theory.results.own_model.depth import LAYERS, Z, hankel, layers, moment, narayana, scalar_layers
from iclflow.theory.results.own_model.two_steps import U, descend, through
from sympy import Rational


@pytest.mark.parametrize(
    ("number", "part", "change"),
    [
        ("V13-loss", "error", lambda one: one.subs(LAYERS[0], LAYERS[1])),
        ("V13-loss", "apart", lambda one: -one),
        ("V13-white", "loss", lambda one: 2 * one),
        ("V13-white", "two at best", lambda one: one.subs(N, N + 1)),
        ("V13-flow", "apart", lambda one: one.subs(Z[0], 2 * Z[1])),
        ("V13-limit", "3 best", lambda one: one.subs(c, 1 / c)),
        ("V13-limit", "4 part", lambda one: 2 * one),
    ],
)
def test_entry_catches_a_fault(number, part, change):
    entry = equation(number)
    assert entry.holds()
    typed = entry.typed()
    assert not replace(entry, typed=lambda: typed | {part: change(typed[part])}).holds()


@pytest.mark.parametrize("length", [1, 4])
def test_one_dimension_has_chi_square_moments(length):
    expected = Fraction(1)
    for k in range(1, 9):
        expected *= Fraction(length + 2 * k - 2, length)
        assert moment(k).subs({D: 1, N: length}) == Rational(expected)


def test_one_token_in_context():
    """N = 1: one eigenvalue is |x|^2, a chi-square variable of D degrees, and the others are zero."""
    assert moment(3).subs({D: 4, N: 1}) == Rational(4 * 6 * 8, 4)


def test_shared_layers_are_steps_of_descent():
    assert through((U, U, U)) == descend(3)
    assert layers(2, shared=True).prediction == descend(2)
    assert scalar_layers(3, shared=True).weights != scalar_layers(3).weights


def test_the_limit_has_the_moments_of_the_semicircle():
    """The tenth moment, beyond those derived: five layers leave 1/(1 + c + ... + c^5)."""
    at = [narayana(k).subs(c, 3) for k in range(1, 11)]
    assert hankel(5, at) == Rational(1, sum(3**k for k in range(6)))


@pytest.mark.parametrize("depth", [0, 5, 2.0, True, "two"])
def test_depth_must_be_one_to_four(depth):
    with pytest.raises(ValueError, match="depth must be an integer from 1 to 4"):
        layers(depth)
