r"""Merged attention on white tokens: the sigmoid (15), (45) with its loss (48), and the exact solution from any balanced start (T6).

While solving, time is :math:`\theta = \gamma t/\tau` and the norm is :math:`x = \alpha s/\gamma`. Every solution is put back into its
equation, and returned only if the residual is exactly zero.
"""

from functools import cache

from sympy import (
    Expr,
    Identity,
    Integral,
    Symbol,
    Trace,
    atanh,
    cosh,
    diff,
    exp,
    expand,
    factor,
    integrate,
    limit,
    log,
    oo,
    solve,
    sqrt,
    symbols,
    tanh,
)

from ...algebra.polynomial import TracePolynomial
from ...calculus.equality import require_zero
from ...calculus.rewriting import rewrite
from ...calculus.substitution import substitute
from ...derivations.conditions import Condition
from ...derivations.derivation import Derivation, Step
from ...derivations.heads import E, Rate
from ...derivations.lines import Line
from ...derivations.registry import register
from ...expectation.moments import expect
from ...notation import (
    B,
    D,
    Lambda,
    Lambda_hat,
    M,
    N,
    alpha,
    beta,
    gamma,
    lambda_,
    p,
    p_0,
    s,
    s_0,
    sigma_level,
    t,
    tau,
    w_2,
    w_init,
    x_q,
    y_q,
)
from ..task.regression import closed_loss
from .balanced_flow import ON_THE_SET, UNIT, aligned_set, alignment_flow, on_aligned_set, rates, white_moments

__all__ = ["balanced_solution", "f", "f_0", "norm_on_aligned_set", "sigmoid", "theta", "theta_0"]


SAME_SIDE = Condition(
    r"$s=\boldsymbol{w}_2^\top\boldsymbol{w}_2$; $s$ and $s_0$ on the same side of $\gamma/\alpha$",
    lambda point: (point[gamma] - point[alpha] * point[s]) * (point[gamma] - point[alpha] * point[s_0]) > 0,
)


@register(
    "45",
    "The norm on the aligned set, and its sigmoid",
    kind="exact",
    section="Appendix C.5",
    typed=lambda: {
        "rate": 2 * s * (gamma - alpha * s),
        "integral": tau / 2 * (1 / gamma) * log(s * (gamma - alpha * s_0) / (s_0 * (gamma - alpha * s))),
        "solution": gamma * exp(2 * gamma * t / tau) / (alpha * (exp(2 * gamma * t / tau) - 1) + gamma / s_0),
    },
    conditions=(*ON_THE_SET, UNIT, SAME_SIDE),
)
def norm_on_aligned_set() -> Derivation:
    """Twice w_2 times its flow (44); then the separated equation. In exp(-2 gamma t/tau) the solution does not overflow."""
    product = 2 * TracePolynomial(w_2.T) * aligned_set().result["w"]
    rate = rewrite(product, {w_2.T * w_2: s}).to_sympy()
    x, x_0 = symbols("x x_0", positive=True)
    scaled = factor(rate.subs(s, gamma * x / alpha) * alpha / gamma**2)
    theta_of_x = log(x / (1 - x)) / 2
    require_zero(diff(theta_of_x, x) * scaled - 1)
    odds = (x * (1 - x_0) / (x_0 * (1 - x))).subs({x: alpha * s / gamma, x_0: alpha * s_0 / gamma})
    time = tau / (2 * gamma) * log(odds)
    inverse, decay = symbols("r E", positive=True)  # 1/s and exp(-2 gamma t/tau)
    (solution,) = solve(odds.subs(s, 1 / inverse) * decay - 1, inverse)
    solved = gamma / expand(gamma * solution).collect(alpha).subs(decay, exp(-2 * gamma * t / tau))
    require_zero(tau * diff(solved, t) - rate.subs(s, solved), solved.subs(t, 0) - s_0)
    return Derivation.by(
        *on_aligned_set(),
        Line(s, ":=", w_2.T * w_2, "The squared norm"),
        Line(Rate(s, rates()), "=", rate, "The product rule with the flow (13)", -2, "rate"),
        Line(t, ":=", Integral(tau / rate.subs(s, x), (x, s_0, s)), "The time from $s_0$ to $s$"),
        Line(t, "=", time, "The integral", part="integral"),
        Line(s, "=", solved, "Solved for $s$", part="solution"),
    )


@cache
def sigmoid() -> Expr:
    """sigma(t) for Lambda = lambda I from the norm s_0: the map s vec(I)' / sqrt(D) of (46), with the constants (47)."""
    constants = white_moments().result
    white = {gamma: constants["scaled gamma"], alpha: constants["scaled alpha"]}
    return norm_on_aligned_set().result["solution"].subs(white) / sqrt(Trace(Identity(D)).doit())


@register(
    "15",
    "The sigmoid of merged attention on white tokens",
    kind="exact",
    section="Section 3.3",
    typed=lambda: exp(2 * sqrt(D) * t / tau) / ((1 + (1 + D) / N) * (exp(2 * sqrt(D) * t / tau) - 1) + sqrt(D) / w_init**2),
    conditions=(
        r"$\boldsymbol{\Lambda}=\boldsymbol{I}$",
        r"$\boldsymbol{W}_1(0)=\boldsymbol{w}_2(0)\operatorname{vec}(\boldsymbol{I})^\top/\sqrt D$, and "
        r"$w_{\rm init}^2=\boldsymbol{w}_2(0)^\top\boldsymbol{w}_2(0)$",
    ),
    erratum=r"Exact for balanced and aligned weights only. From Gaussian weights (34) it is right up to $O(w_{\rm init}^2)$ with the "
    r"effective start $s_{\rm eff}$ in place of $w_{\rm init}^2$, see (15-start); with the nominal $w_{\rm init}$ it is early by a time "
    r"that does not vanish with $w_{\rm init}$",
)
def sigmoid_of_white_tokens() -> Derivation:
    """s(t) / sqrt(D) with the constants (47)."""
    solution, constants = norm_on_aligned_set().result["solution"], white_moments().result
    return Derivation.by(
        Line(s, ":=", solution, "The norm on the aligned set, equation (45)"),
        Line(sigma_level, ":=", s / sqrt(D), r"The map (46) is $s\operatorname{vec}(\boldsymbol{I})^\top/\sqrt D$, so that"),
        Line(gamma, ":=", constants["scaled gamma"], r"The constants (47) of $\boldsymbol{\Lambda}=\lambda\boldsymbol{I}$"),
        Line(alpha, ":=", constants["scaled alpha"], "and"),
        Line(sigma_level, "=", sigmoid(), "With them"),
        Line(lambda_, ":=", 1, "Unit covariance"),
        Line(s_0, ":=", w_init**2, "The initial norm"),
        Line(sigma_level, "=", sigmoid().subs({lambda_: 1, s_0: w_init**2}), "The sigmoid"),
    )


@register(
    "48",
    "The loss along the sigmoid",
    kind="exact",
    section="Appendix C.5",
    typed=lambda: {
        "loss": (1 - 2 * sigma_level + (1 + (1 + D) / N) * sigma_level**2) * D,
        "end": D * (1 + D) / (N + 1 + D),
        "scaled": D * lambda_ * (1 - 2 * lambda_ * sigma_level + lambda_**2 * (1 + (1 + D) / N) * sigma_level**2),
    },
    conditions=(
        r"$\hat y_q=\sigma(t)\,\boldsymbol{\beta}^\top\boldsymbol{x}_q$; $\boldsymbol{\Lambda}=\boldsymbol{I}$, scaled: "
        r"$\boldsymbol{\Lambda}=\lambda\boldsymbol{I}$",
    ),
)
def loss_along_sigmoid() -> Derivation:
    """The loss (9) on the map sigma I, and its value for t -> infinity."""
    loss = substitute(closed_loss().result, {M: expect(Lambda_hat**2)})
    scaled = substitute(loss, {B: sigma_level * Identity(D), Lambda: lambda_ * Identity(D)}).to_sympy().factor()
    white, time = scaled.subs(lambda_, 1), Symbol("theta", positive=True)
    unit_sigmoid = sigmoid().subs(lambda_, 1)
    last = limit(unit_sigmoid.subs(t, tau * time / sqrt(D)), time, oo)
    error = E((y_q - beta.T * B * x_q) ** 2)
    return Derivation.by(
        Line(error, "=", loss, "The loss as a function of the effective map"),
        Line(B, ":=", sigma_level * Identity(D), r"The map $\sigma\boldsymbol{I}$"),
        Line(Lambda, ":=", lambda_ * Identity(D), "White tokens"),
        Line(error, "=", scaled, "The loss of this map", -3, "scaled"),
        Line(lambda_, ":=", 1, "Unit covariance"),
        Line(error, "=", white, "The loss", -5, "loss"),
        Line(unit_sigmoid, "->", last, "The end of the sigmoid (15)", parameter=t),
        Line(sigma_level, ":=", last, "There"),
        Line(error, "=", white.subs(sigma_level, last).factor(), "The loss is", -8, "end"),
    )


theta, theta_0 = symbols("theta theta_0", real=True)  # gamma t/tau + artanh(p_0), and its start
f, f_0 = symbols("f f_0", real=True)  # the integral of cosh^2 to theta, and to theta_0


@register(
    "T6-white",
    "The white flow from any balanced start",
    kind="exact",
    section="beside (44)",
    left={"p": "p", "f": "f", "s": "s"},
    typed=lambda: {
        "p": tanh(theta),
        "f": theta / 2 + (exp(2 * theta) - exp(-2 * theta)) / 8,
        "s": cosh(theta) ** 2 / (cosh(theta_0) ** 2 / s_0 + 2 * alpha / gamma * (f - f_0)),
    },
    conditions=(
        r"White tokens, $\boldsymbol{W}_1=\boldsymbol{w}_2\boldsymbol{m}^\top$ with a unit vector $\boldsymbol{m}$, "
        r"$p=\boldsymbol{m}^\top\hat{\boldsymbol{c}}$, $-1<p_0<1$",
        r"$\theta=\gamma t/\tau+\operatorname{artanh}(p_0)$, $\theta_0=\operatorname{artanh}(p_0)$, and $f_0$ is $f$ at $\theta_0$",
        "At $p_0=1$ it is (45), and at $p_0=-1$ the norm decays to zero",
    ),
)
def white_solution() -> Derivation:
    """The closed flow of (s, p): p is a hyperbolic tangent, and 1/s solves a linear equation."""
    size, cosine = alignment_flow()
    inverse = Symbol("r", positive=True)  # 1/s
    turned = tanh(theta)
    require_zero(diff(turned, theta) - cosine.subs(p, turned) / gamma)
    linear = (-size / s**2 / gamma).subs(p, turned).subs(s, 1 / inverse).expand()  # dr/dtheta
    factor_ = cosh(theta) ** 2
    require_zero(diff(factor_, theta) + linear.coeff(inverse, 1) * factor_)
    integral = integrate(factor_.rewrite(exp).expand(), theta)
    norm = factor_ / (factor_.subs(theta, theta_0) / s_0 + linear.coeff(inverse, 0) * (f - f_0))
    along = diff(norm, theta) + diff(norm, f) * factor_
    residual = along - (size / gamma).subs({s: norm, p: turned})
    require_zero(residual.rewrite(exp), norm.subs({theta: theta_0, f: f_0}) - s_0)
    return Derivation.by(
        Step("The closed flow of the norm", size, r"\tau\dot s"),
        Step("And of the direction", cosine, r"\tau\dot p"),
        Step(r"The direction turns towards $\hat{\boldsymbol{c}}$", turned, "p", "p"),
        Step(r"The inverse of $s$ obeys a linear equation in $\theta$", linear, r"\frac{d}{d\theta}\frac1s"),
        Step("Its integrating factor", factor_),
        Step("The integral of the factor, with a constant of no account", integral, "f", "f"),
        Step("The norm; put back into its flow, the difference is zero", norm, "s", "s"),
    )


@cache
def balanced_solution() -> tuple[Expr, Expr]:
    """(s, p) of (T6-white) as functions of t, in exp(-2 theta), which does not overflow."""
    solution = white_solution().result
    decay = Symbol("E", positive=True)  # exp(-2 theta)
    integral = {f: solution["f"], f_0: solution["f"].subs(theta, theta_0)}
    top = cosh(theta) ** 2
    bottom = (top / solution["s"]).subs(integral)
    top, bottom = ((exp(-2 * theta) * part.rewrite(exp)).expand().subs(exp(-2 * theta), decay) for part in (top, bottom))
    norm = (factor(top) / bottom.collect(decay)).subs(decay, exp(-2 * theta))
    in_time = {theta: gamma * t / tau + atanh(p_0), theta_0: atanh(p_0)}
    return norm.subs(in_time, simultaneous=True), solution["p"].subs(in_time)
