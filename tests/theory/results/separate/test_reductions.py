"""The reductions: residuals that are exactly zero, limits, and independent routes to the same formula."""

import pytest
import sympy
from iclflow.theory.calculus.entrywise import explicit
from iclflow.theory.calculus.equality import equal, require_zero, vanishes
from iclflow.theory.notation import (
    B,
    D,
    Lambda,
    M,
    N,
    P,
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
from iclflow.theory.results.merged.balanced_flow import alignment_flow, white_moments
from iclflow.theory.results.merged.plateau import effective_start_of_sigmoid, exact_plateau_of_merged_attention, plateau_in_initial_scale
from iclflow.theory.results.merged.sigmoid import loss_along_sigmoid, norm_on_aligned_set, sigmoid_of_white_tokens, white_solution
from iclflow.theory.results.separate.aligned import aligned_flow, direction_error, fixed_value, relaxation_rate
from iclflow.theory.results.separate.durations import (
    C_rho,
    delta,
    drop_loss,
    first_plateau,
    gap,
    phi,
    plateau_with_next_orders,
    time_between,
    time_of_a_drop,
    time_unit,
    u,
    u_0,
)
from iclflow.theory.results.separate.rank_plateaus import duration_of_brief_plateau, slots_of_a_head, x
from iclflow.theory.results.separate.waiting import A_d, B_d, deflated_force, mode_solution, waiting_head
from iclflow.theory.results.task.population import PAPER
from iclflow.theory.results.task.regression import force
from sympy import Matrix, Rational, Symbol, atan, cosh, exp, integrate, limit, log, oo, simplify, sqrt, symbols, tanh

FLOW = aligned_flow().result["short"]  # (26)
REST = fixed_value().result["cube"]  # (25)
TIME = time_of_a_drop().result  # (67), in u and v


def test_the_ansatz_gives_the_scalar_flow():
    a_d = lambda_**2 * (1 + (1 + T / lambda_) / N)
    assert vanishes(PAPER.eigenvalue - a_d), "(32)"
    assert vanishes(FLOW - (lambda_**2 * v**2 - lambda_ * a * v**5)), "(26), (66), (72)"
    assert vanishes(REST - (lambda_ / a) ** Rational(1, 3)), "(25)"
    at_rest = FLOW.subs(v, REST)
    assert vanishes(at_rest), "(26) at its fixed point"
    slope = sympy.diff(FLOW, v).subs(v, REST)
    fixed = Symbol("v_*", positive=True)
    assert vanishes(slope + relaxation_rate().result.subs(fixed, REST))


def test_three_heads_written_out_keep_the_set():
    """(25), (26): a learned, the growing and a waiting head in three dimensions, under (19) and the force (53) entry by entry."""
    values, a_1, a_2, a_3 = (symbols("lambda_1 lambda_2 lambda_3", positive=True), *symbols("a_1 a_2 a_3", positive=True))
    weights = (values[0] / a_1) ** Rational(1, 3), v, sympy.S.Zero
    heads = [(weight, weight * sympy.eye(3)[:, i]) for i, weight in enumerate(weights)]
    map_ = sum((weight * vector * vector.T for weight, vector in heads), sympy.zeros(3))
    G = explicit(force(), {Lambda: sympy.diag(*values), M: sympy.diag(a_1, a_2, a_3), B: map_}, D=3)
    rates = [((vector.T * G * vector)[0], weight * G * vector, weight * G.T * vector) for weight, vector in heads]
    growth = FLOW.subs({lambda_: values[1], a: a_2})
    for rate, expected, i in zip(rates, (0, growth, 0), range(3), strict=True):
        assert vanishes(rate[0] - expected)
        assert equal(rate[1], expected * sympy.eye(3)[:, i])
        assert equal(rate[2], expected * sympy.eye(3)[:, i])


def test_the_loss_of_a_drop_is_the_step_of_equation_24():
    drop = drop_loss().result
    assert vanishes(drop.subs(u, 1) + lambda_**3 / a), "(24)"
    step = drop.subs(u, 1).subs(a, PAPER.eigenvalue)
    assert limit(step, N, oo) == -lambda_, "(24), N -> inf"
    assert drop.subs(u, 0) == 0
    # the flow is the gradient flow of this loss: tau dv/dt = -(1/6) dL/dv, since v, k and q share the ansatz
    in_v = drop.subs(u, v / REST)
    assert vanishes(FLOW + sympy.diff(in_v, v) / 6), "(26) from the loss"


def test_white_moments_and_the_balanced_flow():
    white = white_moments().result
    assert vanishes(white["gamma"] - sqrt(D)), "(47)"
    assert vanishes(white["alpha"] - (1 + (1 + D) / N)), "(47)"
    s_rate, p_rate = alignment_flow()
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
    result = norm_on_aligned_set().result["solution"]
    growth = exp(2 * gamma * t / tau)
    assert simplify(result - gamma * growth / (alpha * (growth - 1) + gamma / s_0)) == 0, "(45)"
    paper = exp(2 * sqrt(D) * t / tau) / ((1 + (1 + D) / N) * (exp(2 * sqrt(D) * t / tau) - 1) + sqrt(D) / w_init**2)
    assert simplify(sigmoid_of_white_tokens().result["scaled"].subs({lambda_: 1, s_0: w_init**2}) - paper) == 0, "(15)"
    time = norm_on_aligned_set().result["integral"]
    integral = log(s * (gamma - alpha * s_0) / (s_0 * (gamma - alpha * s))) / gamma
    numbers = {s: Rational(1, 3), s_0: Rational(1, 7), alpha: 2, gamma: 1, tau: 3}
    assert simplify((2 * time / tau - integral).subs(numbers)) == 0, "the integral of (45)"
    assert vanishes(sympy.diff(time, s) * 2 * s * (gamma - alpha * s) / tau - 1)
    assert result.subs(t, 0).simplify() == s_0
    assert limit(result.subs({gamma: 2, alpha: 3, s_0: 1, tau: 1}), t, oo) == Rational(2, 3)


def test_the_sigmoid_loss():
    loss = loss_along_sigmoid().result["scaled"]
    assert vanishes(loss.subs(lambda_, 1) - D * (1 - 2 * sigma_level + (1 + (1 + D) / N) * sigma_level**2)), "(48)"
    final = limit(sigmoid_of_white_tokens().result["scaled"].subs({lambda_: 1, D: 4, N: 31, s_0: 1, tau: 1}), t, oo)
    assert loss.subs({lambda_: 1, D: 4, N: 31, sigma_level: final}) == Rational(4 * 5, 31 + 5), "(48), t -> inf"


def test_any_balanced_start():
    norm, cosine = (white_solution().result[part] for part in ("s in time", "p in time"))
    theta, theta_0 = gamma * t / tau + sympy.atanh(p_0), sympy.atanh(p_0)
    f = lambda x: x / 2 + sympy.sinh(2 * x) / 4  # noqa: E731
    catalogue = cosh(theta) ** 2 / (cosh(theta_0) ** 2 / s_0 + 2 * alpha / gamma * (f(theta) - f(theta_0)))
    numbers = {gamma: Rational(7, 5), alpha: Rational(2, 3), s_0: Rational(1, 9), tau: 2, p_0: Rational(-1, 3), t: Rational(5, 4)}
    assert abs((norm - catalogue).subs(numbers).evalf(40)) < 1e-38, "the exact white solution beside (44)"
    assert vanishes(cosine - tanh(theta))
    aligned = limit(norm.subs({gamma: 1, alpha: 1, s_0: Rational(1, 9), tau: 1, t: 1}), p_0, 1, "-")
    expected = norm_on_aligned_set().result["solution"].subs({gamma: 1, alpha: 1, s_0: Rational(1, 9), tau: 1, t: 1})
    assert abs((aligned - expected).evalf(30)) < 1e-28, "(45) is the aligned limit"


def test_effective_start_and_plateau_times():
    assert vanishes(effective_start_of_sigmoid().result["mean"] - w_init**2 * (1 + D**-2) / 4), "mean of s_eff"
    exact = exact_plateau_of_merged_attention().result["fraction"]
    numbers = {gamma: 2, alpha: 3, s_0: Rational(1, 100), tau: 1, rho: Rational(1, 2)}
    half = (log(Rational(2, 3) / s_0 - 1) / 4).subs(numbers)
    assert simplify(exact.subs(numbers) - half) == 0, "half height, beside (49)"
    rest = (exact - tau / (2 * gamma) * log(1 / s_0)).subs({gamma: 2, alpha: 3, tau: 1, rho: Rational(1, 2)})
    assert simplify(limit(rest, s_0, 0, "+") - log(Rational(2, 3)) / 4) == 0, "(49) leaves a constant"
    in_weights = plateau_in_initial_scale().result["scale"]
    assert in_weights.subs(w_init, 1) == 0
    assert vanishes(sympy.diff(in_weights, w_init) + tau / (w_init * Symbol("|Lambda^2|", positive=True))), "(51)"


def test_the_time_integral():
    result = TIME.subs(u, v / REST)
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
        velocity = FLOW.subs(numbers) / 5
        assert abs((sympy.diff(result, v).subs(numbers) * velocity).evalf(40) - 1) < 1e-38


def test_the_well_conditioned_time_is_the_integral():
    between = time_between().subs(gap, 1 - u).subs(delta, u - u_0)
    assert sympy.cancel(sympy.diff(between, u) - 1 / (u**2 * (1 - u**3))) == 0
    assert between.subs(u, u_0).simplify() == 0


def test_plateau_durations():
    assert first_plateau().result == tau / (lambda_**2 * v_0), "(68), (73)"
    next_orders = plateau_with_next_orders().result
    constant = next_orders["constant"]
    assert abs(constant.subs(rho, Rational(1, 2)).evalf() - 1.86821246759) < 1e-11, "C_rho of (68)"
    assert abs(constant.subs(rho, (1 - sqrt(2) / 2) ** Rational(1, 3)).evalf() - 1.25339119267) < 1e-11
    exact = TIME.subs(u, v / REST)
    three_terms = next_orders["t"].subs(C_rho, constant)
    numbers = {a: 2, lambda_: 3, tau: 1, rho: Rational(1, 2)}
    fixed = REST
    errors = []
    for start in (Rational(1, 10), Rational(1, 20)):
        duration = exact.subs(v, rho * fixed) - exact.subs(v, start)
        errors.append(((duration - three_terms.subs(v_0, start)).subs(numbers)).evalf(40))
    assert abs(sympy.log(errors[0] / errors[1], 2).evalf() - 5) < 0.1, "what (68) with three terms leaves out is O(v_0^5)"
    shift = integrate(1 / u**2, (u, u_0, 1)) - 1 / u_0
    assert vanishes(next_orders["switch"] - shift * time_unit())


def test_waiting_heads():
    k, q = mode_solution()
    assert vanishes(k + q - 2 * A_d * exp(lambda_**2 * clock)), "(63)"
    assert vanishes(k - q - 2 * B_d * exp(-(lambda_**2) * clock)), "(63)"
    energy = waiting_head().result["mode"]
    assert energy.subs(clock, 0) == 0
    expected = A_d**2 * (exp(2 * lambda_**2 * clock) - 1) + B_d**2 * (exp(-2 * lambda_**2 * clock) - 1)
    assert vanishes(energy - expected), "T5"
    assert waiting_head().result["aligned"] == tau / (lambda_**2 * v_0), "T5 holds (68)"
    on_two = explicit(deflated_force(), {Lambda: sympy.diag(Symbol("lambda_1"), lambda_), P: sympy.diag(1, 0)}, D=2)
    assert equal(on_two, sympy.diag(0, lambda_**2)), "(56), (69)"
    assert (k.subs(lambda_, 0), q.subs(lambda_, 0)) == (A_d + B_d, A_d - B_d), "(70), third term"


def test_the_direction_error_of_the_ansatz():
    growing, following = symbols("lambda_{m+1} lambda_{m+2}", positive=True)
    exponent = direction_error().result.as_base_exp()[1]
    assert vanishes(exponent - (1 - (following / growing) ** 2))
    assert exponent.subs({growing: Rational(4, 10), following: Rational(3, 10)}) == Rational(7, 16), "0.4375"


def test_rank_R_heads():
    slot = slots_of_a_head().result
    x_rate, v_part = slot["slot"], slot["value"]
    assert vanishes(x_rate.subs(x, v) - FLOW), "(80) with one slot is (26)"
    assert vanishes(v_part.subs(x, v) - FLOW)
    assert vanishes(slot["level"] - lambda_ / a)
    before, after = symbols("lambda_m lambda_{m+1}", positive=True)
    slope = duration_of_brief_plateau().result / -log(w_init)
    assert vanishes(slope - tau / v * (1 / after**2 - 1 / before**2)), "T3"
    numbers = {before: Rational(2, 5), after: Rational(3, 10), tau: 1}
    a_1 = PAPER.eigenvalue.subs({lambda_: Rational(2, 5), N: 31, T: 1})
    assert abs(slope.subs(numbers).subs(v, (Rational(2, 5) / a_1) ** Rational(1, 3)).evalf() - 3.712) < 5e-4, "T3, R = 4"


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
        require_zero(FLOW - wrong)
    positive = Symbol("v", positive=True)
    integral = (time_unit() * (phi() - 1 / u)).subs(u, positive / REST)
    with pytest.raises(ArithmeticError, match="should be exactly 0"):
        require_zero(sympy.diff(integral, positive) * wrong.subs(v, positive) / tau - 1)


def test_sympy_alone_gets_the_time_integral_wrong():
    """Why the integral is nondimensionalised first: with symbols left in, SymPy loses a logarithm, and differentiating back says so."""
    y, c = symbols("y c", positive=True)
    naive = integrate(1 / (lambda_**2 * y**2 - c * y**5), y)
    assert not vanishes(sympy.diff(naive, y) - 1 / (lambda_**2 * y**2 - c * y**5))
