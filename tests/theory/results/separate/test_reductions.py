"""The reductions: residuals that are exactly zero, limits, and independent routes to the same formula."""

import pytest
import sympy
from iclflow.theory.calculus.equality import equal, require_zero, vanishes
from iclflow.theory.notation import (
    D,
    N,
    T,
    a,
    alpha,
    clock,
    gamma,
    lambda_,
    p,
    p_0,
    rho,
    s,
    s_0,
    sigma_level,
    t,
    tau,
    v,
    v_0,
    w_init,
)
from iclflow.theory.results.merged import sigmoid
from iclflow.theory.results.separate import rank, reduction, silent_heads, time_integral
from iclflow.theory.results.separate.silent_heads import A_d, B_d, k_0, q_0
from iclflow.theory.results.separate.time_integral import delta, gap, u, u_0
from sympy import Matrix, Rational, Symbol, atan, cosh, exp, integrate, limit, log, oo, simplify, sqrt, symbols, tanh


def test_the_ansatz_gives_the_scalar_flow():
    a_d = lambda_**2 * (1 + (1 + T / lambda_) / N)
    assert vanishes(reduction.second_moment_eigenvalue().result - a_d), "(32)"
    assert vanishes(reduction.aligned_flow().result - (lambda_**2 * v**2 - lambda_ * a * v**5)), "(26), (66), (72)"
    assert vanishes(reduction.fixed_value().result - (lambda_ / a) ** Rational(1, 3)), "(25)"
    at_rest = reduction.aligned_flow().result.subs(v, reduction.fixed_value().result)
    assert vanishes(at_rest), "(26) at its fixed point"
    slope = sympy.diff(reduction.aligned_flow().result, v).subs(v, reduction.fixed_value().result)
    fixed = Symbol("v_*", positive=True)
    assert vanishes(slope + reduction.relaxation_rate().result.subs(fixed, reduction.fixed_value().result))


def test_the_loss_of_a_drop_is_the_step_of_equation_24():
    drop = reduction.drop_loss().result
    assert vanishes(drop.subs(u, 1) + lambda_**3 / a), "(24)"
    step = drop.subs(u, 1).subs(a, reduction.second_moment_eigenvalue().result)
    assert limit(step, N, oo) == -lambda_, "(24), N -> inf"
    assert drop.subs(u, 0) == 0
    # the flow is the gradient flow of this loss: tau dv/dt = -(1/6) dL/dv, since v, k and q share the ansatz
    in_v = drop.subs(u, v / reduction.fixed_value().result)
    assert vanishes(reduction.aligned_flow().result + sympy.diff(in_v, v) / 6), "(26) from the loss"


def test_white_moments_and_the_balanced_flow():
    gamma_white, alpha_white = reduction.white_moments().result
    assert vanishes(gamma_white.subs(lambda_, 1) - sqrt(D)), "(47)"
    assert vanishes(alpha_white.subs(lambda_, 1) - (1 + (1 + D) / N)), "(47)"
    s_rate, p_rate = reduction.alignment_flow().result
    assert vanishes(s_rate - 2 * s * (gamma * p - alpha * s))
    assert vanishes(p_rate - gamma * (1 - p**2)), "alignment, beyond (44)"
    # the balanced flow in two explicit dimensions, against |w|(g + (n.g) n)
    w_1, w_2, c_1, c_2 = symbols("w_1 w_2 c_1 c_2", positive=True)
    w, c = Matrix([w_1, w_2]), Matrix([c_1, c_2])
    norm = sqrt(w_1**2 + w_2**2)
    g = c - alpha * w
    rate = norm * (g + (w.T * g)[0] * w / norm**2)
    values = {gamma: sqrt(c_1**2 + c_2**2), p: (w.T * c)[0] / norm / sqrt(c_1**2 + c_2**2), s: norm}
    assert simplify((w.T * rate)[0] / norm - s_rate.subs(values)) == 0


def test_the_sigmoid():
    result = sigmoid.sigmoid_solution().result
    growth = exp(2 * gamma * t / tau)
    assert simplify(result - gamma * growth / (alpha * (growth - 1) + gamma / s_0)) == 0, "(45)"
    paper = exp(2 * sqrt(D) * t / tau) / ((1 + (1 + D) / N) * (exp(2 * sqrt(D) * t / tau) - 1) + sqrt(D) / w_init**2)
    assert simplify(sigmoid.sigmoid().result.subs({lambda_: 1, s_0: w_init**2}) - paper) == 0, "(15)"
    integral = log(s * (gamma - alpha * s_0) / (s_0 * (gamma - alpha * s))) / gamma
    numbers = {s: Rational(1, 3), s_0: Rational(1, 7), alpha: 2, gamma: 1, tau: 3}
    assert simplify((2 * sigmoid.time_to_norm().result / tau - integral).subs(numbers)) == 0, "the integral of (45)"
    assert vanishes(sympy.diff(sigmoid.time_to_norm().result, s) * 2 * s * (gamma - alpha * s) / tau - 1)
    assert result.subs(t, 0).simplify() == s_0
    assert limit(result.subs({gamma: 2, alpha: 3, s_0: 1, tau: 1}), t, oo) == Rational(2, 3)


def test_the_sigmoid_loss():
    loss = sigmoid.sigmoid_loss().result
    assert vanishes(loss.subs(lambda_, 1) - D * (1 - 2 * sigma_level + (1 + (1 + D) / N) * sigma_level**2)), "(48)"
    final = limit(sigmoid.sigmoid().result.subs({lambda_: 1, D: 4, N: 31, s_0: 1, tau: 1}), t, oo)
    assert loss.subs({lambda_: 1, D: 4, N: 31, sigma_level: final}) == Rational(4 * 5, 31 + 5), "(48), t -> inf"


def test_any_balanced_start():
    norm, cosine = sigmoid.balanced_solution().result
    theta, theta_0 = gamma * t / tau + sympy.atanh(p_0), sympy.atanh(p_0)
    f = lambda x: x / 2 + sympy.sinh(2 * x) / 4  # noqa: E731
    catalogue = cosh(theta) ** 2 / (cosh(theta_0) ** 2 / s_0 + 2 * alpha / gamma * (f(theta) - f(theta_0)))
    numbers = {
        gamma: Rational(7, 5),
        alpha: Rational(2, 3),
        s_0: Rational(1, 9),
        tau: 2,
        p_0: Rational(-1, 3),
        t: Rational(5, 4),
    }
    assert abs((norm - catalogue).subs(numbers).evalf(40)) < 1e-38, "the exact white solution beside (44)"
    assert vanishes(cosine - tanh(theta))
    aligned = limit(norm.subs({gamma: 1, alpha: 1, s_0: Rational(1, 9), tau: 1, t: 1}), p_0, 1, "-")
    expected = sigmoid.sigmoid_solution().result.subs({gamma: 1, alpha: 1, s_0: Rational(1, 9), tau: 1, t: 1})
    assert abs((aligned - expected).evalf(30)) < 1e-28, "(45) is the aligned limit"


def test_effective_start_and_plateau_times():
    assert vanishes(sigmoid.effective_start().result - w_init**2 * (1 + D**-2) / 4), "mean of s_eff"
    exact = sigmoid.plateau_time().result
    numbers = {gamma: 2, alpha: 3, s_0: Rational(1, 100), tau: 1, rho: Rational(1, 2)}
    half = (log(Rational(2, 3) / s_0 - 1) / 4).subs(numbers)
    assert simplify(exact.subs(numbers) - half) == 0, "half height, beside (49)"
    rest = (exact - tau / (2 * gamma) * log(1 / s_0)).subs({gamma: 2, alpha: 3, tau: 1, rho: Rational(1, 2)})
    assert simplify(limit(rest, s_0, 0, "+") - log(Rational(2, 3)) / 4) == 0, "(49) leaves a constant"
    in_weights = sigmoid.truncated_plateau_time().result
    assert in_weights.subs(w_init, 1) == 0
    assert sympy.diff(in_weights, w_init).has(sympy.Trace), "(51) with gamma of (50)"


def test_the_time_integral():
    result = time_integral.time_integral().result
    in_u = (a / lambda_) ** Rational(1, 3) * v
    paper = tau * (
        (a / lambda_) ** Rational(1, 3)
        / (6 * lambda_**2)
        * (log((in_u**2 + in_u + 1) / (in_u - 1) ** 2) - 2 * sqrt(3) * atan((2 * in_u + 1) / sqrt(3)))
        - 1 / (lambda_**2 * v)
    )
    assert vanishes(sympy.diff(result - paper, v)), "(67): the same derivative"
    for value in (Rational(-3, 2), Rational(1, 2), Rational(5, 2)):  # the three branches, where the flow is tau / t'
        numbers = {a: 2, lambda_: 3, tau: 5, v: value}
        assert abs((result - paper).subs(numbers).evalf(40)) < 1e-38, "(67)"
        velocity = reduction.aligned_flow().result.subs(numbers) / 5
        assert abs((sympy.diff(result, v).subs(numbers) * velocity).evalf(40) - 1) < 1e-38


def test_the_well_conditioned_time_is_the_integral():
    between = time_integral.time_between().result.subs(gap, 1 - u).subs(delta, u - u_0)
    assert sympy.cancel(sympy.diff(between, u) - 1 / (u**2 * (1 - u**3))) == 0
    assert between.subs(u, u_0).simplify() == 0


def test_plateau_durations():
    assert time_integral.truncated_duration().result == tau / (lambda_**2 * v_0), "(68), (73)"
    constant = time_integral.plateau_constant().result
    assert abs(constant.subs(rho, Rational(1, 2)).evalf() - 1.86821246759) < 1e-11, "C_rho of (68)"
    assert abs(constant.subs(rho, (1 - sqrt(2) / 2) ** Rational(1, 3)).evalf() - 1.25339119267) < 1e-11
    exact = time_integral.time_integral().result
    numbers = {a: 2, lambda_: 3, tau: 1, rho: Rational(1, 2)}
    fixed = reduction.fixed_value().result
    errors = []
    for start in (Rational(1, 10), Rational(1, 20)):
        duration = exact.subs(v, rho * fixed) - exact.subs(v, start)
        errors.append(((duration - time_integral.plateau_duration().result.subs(v_0, start)).subs(numbers)).evalf(40))
    assert abs(sympy.log(errors[0] / errors[1], 2).evalf() - 5) < 0.1, (
        "what (68) with three terms leaves out is O(v_0^5)"
    )
    shift = integrate(1 / u**2, (u, u_0, 1)) - 1 / u_0
    assert vanishes(time_integral.switch_off_time().result - shift * time_integral.time_scale().result)


def test_silent_heads():
    k, q = silent_heads.mode_solution().result
    assert vanishes(k + q - 2 * A_d * exp(lambda_**2 * clock)), "(63)"
    assert vanishes(k - q - 2 * B_d * exp(-(lambda_**2) * clock)), "(63)"
    energy = silent_heads.mode_energy().result
    assert energy.subs(clock, 0) == 0
    expected = A_d**2 * (exp(2 * lambda_**2 * clock) - 1) + B_d**2 * (exp(-2 * lambda_**2 * clock) - 1)
    assert vanishes(energy - expected), "T5"
    assert silent_heads.escape_time().result == tau / (lambda_**2 * v_0), "T5 holds (68)"
    assert equal(silent_heads.deflated_force().result, sympy.diag(0, lambda_**2)), "(56), (69)"
    frozen = silent_heads.mode_solution().result.subs(lambda_, 0)
    assert equal(frozen, Matrix([A_d + B_d, A_d - B_d])), "(70), third term"
    assert {k_0, q_0} <= silent_heads.mode_solution().steps[1].expression.free_symbols


def test_the_direction_error_of_the_ansatz():
    growing, following = symbols("lambda_{m+1} lambda_{m+2}", positive=True)
    exponent = silent_heads.direction_error().result
    assert vanishes(exponent - (1 - (following / growing) ** 2))
    assert exponent.subs({growing: Rational(4, 10), following: Rational(3, 10)}) == Rational(7, 16), "0.4375"


def test_rank_R_heads():
    x_rate, v_part = rank.aligned_mode_flow().result
    assert vanishes(x_rate.subs(rank.x, v) - reduction.aligned_flow().result), "(80) with one slot is (26)"
    assert vanishes(v_part.subs(rank.x, v) - reduction.aligned_flow().result)
    assert vanishes(rank.head_value().result - lambda_ / a)
    before, after = symbols("lambda_m lambda_{m+1}", positive=True)
    slope = rank.brief_plateau().result
    assert vanishes(slope - tau / v * (1 / after**2 - 1 / before**2)), "T3"
    numbers = {before: Rational(2, 5), after: Rational(3, 10), tau: 1}
    a_1 = reduction.second_moment_eigenvalue().result.subs({lambda_: Rational(2, 5), N: 31, T: 1})
    assert abs(slope.subs(numbers).subs(v, (Rational(2, 5) / a_1) ** Rational(1, 3)).evalf() - 3.712) < 5e-4, (
        "T3, R = 4"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda_**2 * v**2 + lambda_ * a * v**5,
        lambda_**2 * v**2 - lambda_ * a * v**4,
        lambda_ * v**2 - lambda_ * a * v**5,
        lambda_**2 * v**2 - lambda_ * v**5,
    ],
)
def test_a_wrong_flow_fails_every_residual(wrong):
    with pytest.raises(ArithmeticError, match="should be exactly 0"):
        require_zero(reduction.aligned_flow().result - wrong)
    positive = Symbol("v", positive=True)
    integral = time_integral.time_integral().result.subs(v, positive)
    with pytest.raises(ArithmeticError, match="should be exactly 0"):
        require_zero(sympy.diff(integral, positive) * wrong.subs(v, positive) / tau - 1)


def test_sympy_alone_gets_the_time_integral_wrong():
    """Why the integral is nondimensionalised first: with symbols left in, SymPy loses a logarithm, and differentiating back says so."""
    y, c = symbols("y c", positive=True)
    naive = integrate(1 / (lambda_**2 * y**2 - c * y**5), y)
    assert not vanishes(sympy.diff(naive, y) - 1 / (lambda_**2 * y**2 - c * y**5))
