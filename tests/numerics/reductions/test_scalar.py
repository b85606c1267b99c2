"""Scalar reductions: against 60-digit mpmath, against solve_ivp, at the ends of their range."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from iclflow.numerics import QuadraticLoss, RegressionTask
from iclflow.numerics.reductions.scalar import ScalarReduction
from iclflow.numerics.reductions.white import WhiteReduction
from scipy.integrate import solve_ivp

ROUNDOFF = 4 * np.finfo(float).eps  # a few operations, each correct to half a unit in the last place


@pytest.fixture
def task():
    return RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)


@pytest.fixture
def scalar(task):
    return ScalarReduction.of(task, 0)


def antiderivative(scalar, v):
    """Equation (67) as the paper prints it, with tau = 1."""
    lam, a = mpmath.mpf(scalar.eigenvalue), mpmath.mpf(scalar.second_moment)
    root = mpmath.cbrt(a / lam)
    u = root * mpmath.mpf(v)
    bracket = mpmath.log((u * u + u + 1) / (u - 1) ** 2) - 2 * mpmath.sqrt(3) * mpmath.atan((2 * u + 1) / mpmath.sqrt(3))
    return root / (6 * lam**2) * bracket - 1 / (lam**2 * mpmath.mpf(v))


def test_time_has_full_precision_over_the_whole_range(scalar):
    ratios = [10.0**-k for k in (1, 2, 5, 9, 14)] + [1 - 10.0**-k for k in (1, 2, 5, 10, 13, 15)] + [0.3, 0.5, 0.69, 0.71]
    worst = 0.0
    with mpmath.workdps(60):
        for start in ratios:
            near = [start * (1 + step) for step in (1e-3, 1e-9, 4e-16)]
            for end in [*ratios, *near]:
                v_0, v = start * scalar.fixed_point, end * scalar.fixed_point
                if v == v_0 or v >= scalar.fixed_point:
                    continue
                exact = antiderivative(scalar, v) - antiderivative(scalar, v_0)
                worst = max(worst, abs(float((mpmath.mpf(float(scalar.time(v, v_0))) - exact) / exact)))
    assert worst < ROUNDOFF, "(67)"


def test_inverse_has_full_precision(scalar):
    worst_u = worst_gap = 0.0
    with mpmath.workdps(150):
        lam, level = (mpmath.mpf(scalar.eigenvalue), mpmath.cbrt(mpmath.mpf(scalar.eigenvalue) / mpmath.mpf(scalar.second_moment)))
        for v_0 in (1e-14, 1e-6, 0.01, 0.5, 1.2):
            start = float(scalar.time(0.9 * scalar.fixed_point, v_0)) if v_0 < 0.9 else 1.0
            for time in (0.0, 1e-3 * start, 0.5 * start, start - 3 if start > 4 else start, start, start + 20, start + 300):
                u, gap = (mpmath.mpf(float(part)) for part in scalar.ratio(time, v_0))
                rate = lam**2 * level * u**2 * (1 - u**3 if gap > 0.3 else 3 * gap)
                if gap > 0.3:
                    reached = antiderivative(scalar, level * u) - antiderivative(scalar, v_0)
                    worst_u = max(worst_u, abs(float((reached - time) * rate / u)))
                else:
                    reached = antiderivative(scalar, level * (1 - gap)) - antiderivative(scalar, v_0)
                    worst_gap = max(worst_gap, abs(float((reached - time) * rate / gap / max(1, -mpmath.log(gap)))))
    assert worst_u < ROUNDOFF
    assert worst_gap < 2 * ROUNDOFF  # relative to the exponent of 1 - u, whose rounding exp() amplifies


@pytest.mark.parametrize("v_0", [1e-3, 0.4, 1.3, 2.5, 10.0])
def test_value_is_the_solution_of_the_flow(scalar, v_0):
    times = np.linspace(0, 1.5 * float(scalar.escape_time(v_0)) + 5, 40)
    solution = solve_ivp(
        lambda t, v: scalar.velocity(v), (0, times[-1]), [v_0], t_eval=times, rtol=1e-11, atol=1e-14, method="LSODA"
    )  # fmt: skip
    np.testing.assert_allclose(scalar.value(times, v_0), solution.y[0], rtol=1e-7)  # solver: 1e-11 a step over 1e4 steps
    gaps = scalar.ratio(np.array([900.0, 1050.0]), 0.1)[1]  # around where the approach becomes exponential to the last digit
    assert np.log(gaps[1] / gaps[0]) == pytest.approx(-3 * 150 / scalar.time_unit, rel=1e-12), "the rate 3 lambda^2 v*"
    later = scalar.value(times[3:] - times[2], float(scalar.value(times[2], v_0)))
    np.testing.assert_allclose(later, scalar.value(times[3:], v_0), rtol=1e-9)  # a restart midway changes nothing
    assert float(scalar.value(0.0, v_0)) == pytest.approx(v_0, rel=ROUNDOFF)


def test_units_of_time_do_not_matter(scalar):
    for tau in (1e-9, 1e9):
        other = ScalarReduction(scalar.eigenvalue, scalar.second_moment, tau)
        assert float(other.time(1.0, 1e-3)) == pytest.approx(tau * float(scalar.time(1.0, 1e-3)), rel=ROUNDOFF)
        assert float(other.value(30 * tau, 0.1)) == pytest.approx(float(scalar.value(30.0, 0.1)), rel=1e-13)


def test_plateau_duration_against_its_estimate(scalar):
    """Equation (68): the relative errors the catalogue gives for lambda = 0.4 at four starts."""
    starts = np.array([0.1, 0.03, 0.01, 0.001])
    errors = scalar.escape_time(starts) / scalar.time(scalar.fixed_point / 2, starts) - 1
    np.testing.assert_allclose(errors, [0.17, 0.045, 0.0145, 0.00143], rtol=0.05)


def test_the_drop_of_the_loss(task):
    for d in range(4):
        reduction = ScalarReduction.of(task, d)
        B = np.zeros((4, 4))
        B[d, d] = (0.7 * reduction.fixed_point) ** 3
        loss = QuadraticLoss.population(task)
        assert float(reduction.loss_drop(0.7)) == pytest.approx(loss.value(B) - loss.value(0 * B), rel=1e-12), "(24)"


def test_refusals(task, scalar):
    for call, says in [
        (lambda: ScalarReduction(-1.0, 1.0), "eigenvalue"),
        (lambda: ScalarReduction.of(task, 4), "component"),
        (lambda: scalar.time(1.0, 2.0), "same side"),
        (lambda: scalar.time(-1.0, 0.1), "v must be positive"),
        (lambda: scalar.ratio(np.nan, 0.1), "t must be finite"),
        (lambda: scalar.ratio(-1.0, 3.0), "t must not be negative"),
        (lambda: WhiteReduction(4, 31).balanced(1.0, 0.1, 1.0), "p_0"),
        (lambda: WhiteReduction(4, 31).time_to(1.0, 0.1), "fraction"),
        (lambda: WhiteReduction(4, 0), "context_length"),
    ]:
        with pytest.raises(ValueError, match=says):
            call()
    assert scalar.gap(np.nextafter(scalar.fixed_point, 0)) > 0
    u = Fraction(scalar.fixed_point) ** 3 * Fraction(scalar.second_moment) / Fraction(scalar.eigenvalue)
    assert float(scalar.gap(scalar.fixed_point)) == pytest.approx(float(1 - u) / 3, rel=1e-12)
