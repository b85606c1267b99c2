"""Fifty digits and balls: every ball holds the 50-digit value, is narrow, and only proven digits are printed."""

from fractions import Fraction
from itertools import combinations

import mpmath
import numpy as np
import pytest
from flint import arb, ctx
from iclflow.numerics import QuadraticLoss, RegressionTask
from iclflow.numerics.reductions.precision import (
    ExactTask,
    contains,
    fixed_value,
    plateau_loss,
    proven_digits,
    second_moment,
    sigma,
    time_between,
)
from iclflow.numerics.reductions.scalar import ScalarReduction
from iclflow.numerics.reductions.white import WhiteReduction

TASK = ExactTask(["0.4", "0.3", "0.2", "0.1"], 31)
FLOATS = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)


def both(function, *arguments):
    return function(*arguments), function(*arguments, backend="mpmath")


def test_plateau_losses_are_enclosed_within_1e_25():
    for m in range(5):
        for S in combinations(range(4), m):
            ball, value = both(plateau_loss, TASK, S)
            assert contains(ball, value)
            assert 2 * ball.rad() < arb("1e-25")
            exact = 1 - sum((TASK.eigenvalues[d] ** 3 / _second_moment(d) for d in S), Fraction(0))
            with ctx.workprec(400):
                assert ball.contains(arb(exact.numerator) / exact.denominator), "(24)"
            levels = np.zeros(4)
            levels[list(S)] = (FLOATS.eigenvalues / FLOATS.second_moment_eigenvalues)[list(S)]
            assert float(value) == pytest.approx(QuadraticLoss.population(FLOATS).value(np.diag(levels)), abs=1e-15)


def _second_moment(d):
    lam, trace = TASK.eigenvalues[d], sum(TASK.eigenvalues)
    return lam**2 * (1 + (1 + trace / lam) / 31)


def test_fixed_values_and_times():
    for d in range(4):
        for function, name in ((fixed_value, "fixed_point"), (second_moment, "second_moment")):
            ball, value = both(function, TASK, d)
            assert contains(ball, value)
            assert float(value) == pytest.approx(getattr(ScalarReduction.of(FLOATS, d), name), rel=1e-15)


@pytest.mark.parametrize(("v_0", "v"), [("1e-14", "0.5"), ("1e-14", "1.3"), ("0.1", "1.3096669533"), ("3", "2"), ("0.7", "0.2")])
def test_times(v_0, v):
    ball, value = both(time_between, TASK, 0, v_0, v)
    assert contains(ball, value), "(67)"
    assert ball.rad() < 1e-25 * abs(ball)
    with mpmath.workdps(40):
        lam, a = (mpmath.mpf(x.numerator) / x.denominator for x in (TASK.eigenvalues[0], _second_moment(0)))
        quadrature = mpmath.quad(lambda x: 1 / (lam**2 * x**2 - lam * a * x**5), _stages(v_0, v))
        assert abs(quadrature / value - 1) < 1e-20


def _stages(v_0, v):
    start, end = mpmath.mpf(v_0), mpmath.mpf(v)
    return [start * (end / start) ** (mpmath.mpf(i) / 30) for i in range(30)] + [end]


def test_sigmoid():
    ball, value = both(sigma, ExactTask([1] * 4, 31), "2.5", "1e-4")
    assert contains(ball, value)
    assert float(value) == pytest.approx(float(WhiteReduction(4, 31).sigma(2.5, 1e-4)), rel=1e-14), "(15)"


def test_a_wrong_value_is_outside():
    ball, value = both(plateau_loss, TASK, [0, 1])
    with mpmath.workdps(50):
        assert not contains(ball, value * (1 + mpmath.mpf(10) ** -38))
    assert not contains(ball, mpmath.mpf(float(value)))  # the float is 1e-17 away, outside a ball of 1e-42


def test_only_proven_digits_are_printed():
    with ctx.workprec(200):
        assert proven_digits(arb("1.2345", "0.00001")) == "1.234"
        assert proven_digits(arb(1) / 3, most=5) == "0.33333"
        assert proven_digits(-arb(2000) / 3, most=6) == "-666.666"
        assert proven_digits(arb("6.25e-9", "1e-12")) == "6.2e-9"
        assert proven_digits(arb(123456), most=3) == "1.23e5"
        for lost in (arb(0, "0.1"), arb("1.0", "0.01")):
            with pytest.raises(ValueError, match="ball must"):
                proven_digits(lost)
    text = proven_digits(plateau_loss(TASK, [0, 1, 2, 3]))
    with mpmath.workdps(60):
        assert mpmath.nstr(plateau_loss(TASK, [0, 1, 2, 3], backend="mpmath"), 50).startswith(text)
    assert len(text) > 38


def test_refusals():
    for call, says in [
        (lambda: ExactTask([], 31), "eigenvalues"),
        (lambda: ExactTask(["-1"], 31), "eigenvalues must be positive"),
        (lambda: ExactTask(["one"], 31), "decimal strings"),
        (lambda: plateau_loss(TASK, [0, 0]), "directions"),
        (lambda: plateau_loss(TASK, [4]), "component"),
        (lambda: plateau_loss(TASK, [0], backend="numpy"), "backend"),
        (lambda: time_between(TASK, 0, "1", "1.5"), "same side"),
        (lambda: sigma(TASK, 1, 1), "equal eigenvalues"),
    ]:
        with pytest.raises(ValueError, match=says):
            call()
