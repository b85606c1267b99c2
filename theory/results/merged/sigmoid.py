r"""Merged attention on white tokens: the sigmoid (15), (45) with its loss (48), and the exact solution from any balanced start (T6).

Every solution is put back into its equation.
"""

from mpmath import mpf, norm
from sympy import Derivative, Identity, Integral, Symbol, Trace, expand, factor, integrate, limit, numer, oo, solve, symbols, together
from sympy.functions import atanh, cosh, exp, log, sqrt, tanh

from ...algebra.polynomial import TracePolynomial
from ...calculus import rewrite, substitute
from ...derivations import Condition, E, Line, Lines, Rate, erratum, given, note, register, states
from ...derivations.draws import unit_vector
from ...expectation import expect
from ...notation import (
    W_1,
    B,
    D,
    Lambda,
    Lambda_hat,
    M,
    N,
    alpha,
    beta,
    c_hat,
    gamma,
    lambda_,
    p,
    p_0,
    s,
    s_0,
    sigma_level,
    t,
    tau,
    vector,
    w_2,
    w_init,
    x_q,
    y_q,
)
from ..attention.equivalent_networks import FEATURES
from ..task.regression import closed_loss
from .balanced_flow import ON_THE_SET, UNIT, aligned_set, alignment_flow, on_aligned_set, rates, white_moments, white_tokens


def _falling_across(point) -> None:
    size = norm(point[w_2]) ** 2
    point[gamma], point[s_0] = 2 * size * point[alpha], 3 * size


SAME_SIDE = Condition(
    r"$s$ and $s_0$ are on the same side of $\gamma/\alpha$",
    lambda point: (point[gamma] - point[alpha] * point[s]) * (point[gamma] - point[alpha] * point[s_0]) > 0,
    outside=_falling_across,  # rising across it takes a complex time too, but the same on both sides of the line
)


@register("45", "The norm on the aligned set, and its sigmoid", section="Appendix C.5")
@states("rate", lambda: 2 * s * (gamma - alpha * s))
@states("integral", lambda: tau / 2 * (1 / gamma) * log(s * (gamma - alpha * s_0) / (s_0 * (gamma - alpha * s))))
@states("solution", lambda: gamma * exp(2 * gamma * t / tau) / (alpha * (exp(2 * gamma * t / tau) - 1) + gamma / s_0))
@given(ON_THE_SET, UNIT, SAME_SIDE)
def norm_on_aligned_set() -> Lines:
    """Twice w_2 times its flow (44); then the separated equation. In exp(-2 gamma t/tau) the solution does not overflow."""
    product = 2 * TracePolynomial(w_2.T) * aligned_set().result["w"]
    rate = rewrite(product, {w_2.T * w_2: s}).to_sympy()
    odds = s / (gamma - alpha * s) / (s / (gamma - alpha * s)).subs(s, s_0)  # exp(2 gamma t/tau)
    x, inverse, decay = symbols("x r E", positive=True)  # s, 1/s and exp(-2 gamma t/tau)
    (solution,) = solve(numer(together(odds.subs(s, 1 / inverse) * decay - 1)), inverse)
    solved = gamma / expand(gamma * solution).collect(alpha).subs(decay, exp(-2 * gamma * t / tau))
    yield from on_aligned_set()
    yield Line(s, ":=", w_2.T * w_2, "The squared norm")
    yield Line(Rate(s, rates()), "=", rate, "The product rule with the flow (13)", -2, "rate")
    yield Line(t, ":=", Integral(tau / rate.subs(s, x), (x, s_0, s)), "The time from $s_0$ to $s$")
    yield Line(t, "=", tau / (2 * gamma) * log(odds), "The integral", part="integral")
    yield Line(s, "=", solved, "Solved for $s$", part="solution")


@register("15", "The sigmoid of merged attention on white tokens", section="Section 3.3")
@states("sigmoid", lambda: exp(2 * sqrt(D) * t / tau) / ((1 + (1 + D) / N) * (exp(2 * sqrt(D) * t / tau) - 1) + sqrt(D) / w_init**2))
@states("scaled", lambda: (
    1 / (lambda_ * (1 + (1 + D) / N) * (1 - exp(-2 * sqrt(D) * lambda_**2 * t / tau))
         + sqrt(D) / s_0 * exp(-2 * sqrt(D) * lambda_**2 * t / tau))
))  # fmt: skip
@given(ON_THE_SET)
@erratum(
    r"Exact for balanced and aligned weights only. From Gaussian weights (34), with $|\boldsymbol{w}_2+\boldsymbol{W}_1\hat{\boldsymbol{c}}"
    r"|^2/4$ for $w_{\rm init}^2$ (15-start), the mean diagonal of the map has errors of order $w_{\rm init}^2\ln(1/w_{\rm init})$, "
    r"the rest of $w_{\rm init}$; with $w_{\rm init}$ itself it is early on average, by a time that does not vanish with $w_{\rm init}$"
)
def sigmoid_of_white_tokens() -> Lines:
    """s(t) / sqrt(D) with the constants (47)."""
    second, query = (E(moment) for moment in (beta * beta.T, x_q * x_q.T))
    solution, constants = norm_on_aligned_set().result["solution"], white_moments().result
    scaled = solution.subs({gamma: constants["scaled gamma"], alpha: constants["scaled alpha"]}) / sqrt(D)
    yield Line(s, ":=", solution, "The norm on the aligned set, equation (45)")
    yield Line(sigma_level, ":=", s / sqrt(D), r"The map (46) is $s\operatorname{vec}(\boldsymbol{I})^\top/\sqrt D$, so that")
    yield Line(Lambda, ":=", lambda_ * Identity(D), "White tokens")
    yield Line(gamma, ":=", sqrt(Trace(Lambda**4)), r"The rate is the norm (50) of $\mathbb{E}(y_q\boldsymbol{z})$")
    yield Line(alpha, ":=", Trace(second) * Trace(query) / D**2, r"$\mathbb{E}(\boldsymbol{zz}^\top)$ is $\alpha\boldsymbol{I}$")
    yield Line(sigma_level, "=", scaled, "With them", part="scaled")
    yield Line(lambda_, ":=", 1, "Unit covariance")
    yield Line(s_0, ":=", w_init**2, "The initial norm")
    yield Line(sigma_level, "=", scaled.subs({lambda_: 1, s_0: w_init**2}), "The sigmoid", part="sigmoid")


@register("48", "The loss along the sigmoid", section="Appendix C.5")
@states("loss", lambda: (1 - 2 * sigma_level + (1 + (1 + D) / N) * sigma_level**2) * D)
@states("end", lambda: D * (1 + D) / (N + 1 + D))
@states("scaled", lambda: D * lambda_ * (1 - 2 * lambda_ * sigma_level + lambda_**2 * (1 + (1 + D) / N) * sigma_level**2))
@given("White tokens")
def loss_along_sigmoid() -> Lines:
    """The loss (9) on the map sigma I, and its value for t -> infinity."""
    loss = substitute(closed_loss().result, {M: expect(Lambda_hat**2)})
    scaled = substitute(loss, {B: sigma_level * Identity(D), Lambda: lambda_ * Identity(D)}).to_sympy().factor()
    white, time = scaled.subs(lambda_, 1), Symbol("theta", positive=True)
    unit_sigmoid = sigmoid_of_white_tokens().result["scaled"].subs(lambda_, 1)
    last = limit(unit_sigmoid.subs(t, tau * time / sqrt(D)), time, oo)
    error = E((y_q - beta.T * B * x_q) ** 2)
    yield Line(error, "=", loss, "The loss as a function of the effective map")
    yield Line(B, ":=", sigma_level * Identity(D), r"The map $\sigma\boldsymbol{I}$")
    yield Line(Lambda, ":=", lambda_ * Identity(D), "White tokens")
    yield Line(error, "=", scaled, "The loss of this map", -3, "scaled")
    yield Line(lambda_, ":=", 1, "Unit covariance")
    yield Line(error, "=", white, "The loss", -5, "loss")
    yield Line(unit_sigmoid, "->", last, "The end of the sigmoid (15)", parameter=t)
    yield Line(sigma_level, ":=", last, "There")
    yield Line(error, "=", white.subs(sigma_level, last).factor(), "The loss is", -8, "end")


theta, theta_0 = symbols("theta theta_0", real=True)  # gamma t/tau + artanh(p_0), and its start
f, f_0 = symbols("f f_0", real=True)  # the integral of cosh^2 to theta, and to theta_0
m = vector("m", FEATURES)
IN_TIME = gamma * t / tau + atanh(p_0)


def _draw_direction(point) -> None:
    UNIT.meet(point)
    point[m], point[p_0] = unit_vector(point.size(FEATURES), point), mpf(point.rng.uniform(-1, 1))


def _at_start(point) -> None:
    point[theta_0] = point[theta]


BALANCED = Condition(
    r"$\boldsymbol{m}$ and $\hat{\boldsymbol{c}}$ are unit vectors, and $-1<p_0<1$",
    lambda point: abs(norm(point[m]) - 1) + abs(norm(point[c_hat]) - 1) < mpf("1e-20") and abs(point[p_0]) < 1,
    _draw_direction,
)


@register("T6-white", "The white flow from any balanced start", section="beside (44)")
@states("p", lambda: tanh(theta))
@states("f", lambda: theta / 2 + (exp(2 * theta) - exp(-2 * theta)) / 8)
@states("s", lambda: cosh(theta) ** 2 / (cosh(theta_0) ** 2 / s_0 + 2 * alpha / gamma * (f - f_0)))
@states("p in time", lambda: tanh(IN_TIME))
@states("s in time", lambda: (
    (1 + exp(-2 * IN_TIME)) ** 2
    / (exp(-2 * IN_TIME) * (4 / (1 - p_0**2) / s_0 + 4 * alpha / gamma * (gamma * t / tau - p_0 / (1 - p_0**2)))
       + alpha / gamma * (1 - exp(-4 * IN_TIME)))
))  # fmt: skip
@given("White tokens", BALANCED)
@note(r"$\theta=\gamma t/\tau+\operatorname{artanh}(p_0)$, from $\theta_0$ at $t=0$")
def white_solution() -> Lines:
    """The closed flow of (s, p): p is a hyperbolic tangent, and 1/s solves a linear equation."""
    size, cosine = alignment_flow()
    square = cosh(theta) ** 2  # the integrating factor of 1/s
    integral = integrate(square.rewrite(exp).expand(), theta)
    start = square.subs(theta, theta_0)
    of_start = {exp(2 * theta_0): (1 + p_0) / (1 - p_0), exp(-2 * theta_0): (1 - p_0) / (1 + p_0), theta_0: theta - gamma * t / tau}
    solved = square / (start / s_0 + 2 * alpha / gamma * (f - f_0))
    parts = square, (square / solved).subs({f: integral, f_0: integral.subs(theta, theta_0)})
    top, bottom = ((exp(-2 * theta) * part.rewrite(exp)).expand().subs(of_start) for part in parts)
    bottom = expand(4 * bottom).collect(exp(-2 * theta), factor)
    turning = w_2.T * W_1 * c_hat
    flow = rates()
    yield from white_tokens()
    yield Line(W_1, ":=", w_2 * m.T, "Balanced weights")
    yield Line(m.T * m, "=", 1, r"$\boldsymbol{m}$ has unit length")
    yield Line(c_hat.T * c_hat, "=", 1, r"and $\hat{\boldsymbol{c}}$")
    yield Line(s, ":=", w_2.T * w_2, "The squared norm")
    yield Line(p, ":=", m.T * c_hat, "and the cosine")
    yield Line(Rate(w_2.T * w_2, flow), "=", size, "The norm moves by the flow (13)", (3, 4))
    yield Line(Rate(turning, flow) - p * Rate(w_2.T * w_2, flow), "=", s * cosine,
               r"As $\boldsymbol{w}_2^\top\boldsymbol{W}_1\hat{\boldsymbol{c}}=sp$, the cosine moves, times $s$, by", (3, 4))  # fmt: skip
    yield Line(size.subs(p, -1), "<", 0, "Exactly opposite weights, $p=-1$, stay so and vanish")
    yield Line(p, ":=", tanh(theta), r"The direction turns towards $\hat{\boldsymbol{c}}$, in the time $\theta$, as")
    yield Line(Derivative(p, theta), "=", cosine / gamma, "It solves the flow of the cosine")
    yield Line(p, "=", tanh(theta), "So the cosine is", part="p")
    yield Line(Derivative(square, theta) / s - square * size / gamma / s**2, "=", 2 * alpha / gamma * square,
               r"So $\cosh^2(\theta)/s$ grows at the rate")  # fmt: skip
    yield Line(f, ":=", integral, "Let")
    yield Line(Derivative(f, theta), "=", square, r"an integral of $\cosh^2\theta$")
    yield Line(f, "=", integral, "So the integral is", part="f")
    yield Line(f_0, ":=", integral.subs(theta, theta_0), "At the start")
    yield Line(s, ":=", solved, "The norm")
    yield Line(Line(theta, "=", theta_0), "=>", Line(s, "=", s_0), "starts at $s_0$", meets=(_at_start,))
    yield Line(Derivative(square / s, theta), "=", 2 * alpha / gamma * square, r"and $\cosh^2(\theta)/s$ grows at that rate")
    yield Line(s, "=", solved, "So the norm is", part="s")
    yield Line(theta, ":=", IN_TIME, "In time")
    yield Line(theta_0, ":=", atanh(p_0), "from")
    yield Line(p, "=", tanh(IN_TIME), "the cosine is", part="p in time")
    yield Line(s, "=", (factor(4 * top) / bottom).subs(theta, IN_TIME), "and the norm", part="s in time")
