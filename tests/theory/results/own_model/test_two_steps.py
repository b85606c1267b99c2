"""Two steps of descent in context, (V10-steps), (V10-error), (V10-white), (V10-start): planted faults, one direction by hand."""

from dataclasses import replace
from fractions import Fraction

import pytest
from iclflow.theory import explicit
from iclflow.theory.equations import equation
from iclflow.theory.notation import D, Lambda, Lambda_hat, N, beta, x_q
from iclflow.theory.results.own_model.two_steps import U, two_steps

ENTRIES = ("V10-steps", "V10-error", "V10-white", "V10-start")


@pytest.mark.parametrize("number", ENTRIES)
def test_entry_holds(number):
    assert equation(number).holds()


@pytest.mark.parametrize(
    ("number", "change"),
    [
        ("V10-steps", lambda typed: typed + beta.T * U * x_q),
        ("V10-error", lambda typed: typed.subs(Lambda_hat, Lambda)),
        ("V10-white", lambda typed: typed.subs(N, N + 1)),
        ("V10-white", lambda typed: typed.subs(D, D + 1)),
        ("V10-start", lambda typed: typed | {"two": Lambda**2}),
    ],
)
def test_entry_catches_a_fault(number, change):
    entry = equation(number)
    assert not replace(entry, typed=lambda: change(entry.typed())).holds()


def test_one_direction_against_chi_square_moments():
    """D = 1: E (1 - u s)^4 with N s / lambda a chi-square variable of N degrees, whose moments are products."""
    length, lam, weight = 3, Fraction(1, 2), Fraction(3, 4)
    moments = [Fraction(1)]
    for k in range(4):
        moments.append(moments[-1] * lam * Fraction(length + 2 * k, length))
    binomial = (1, 4, 6, 4, 1)
    expected = lam * sum(b * (-weight) ** k * m for k, (b, m) in enumerate(zip(binomial, moments, strict=True)))
    loss = explicit(two_steps().loss(), {U: [[weight]], Lambda: [[lam]]}, D=1).subs(N, length)
    assert Fraction(int(loss.p), int(loss.q)) == expected
