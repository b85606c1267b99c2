r"""Merged attention on the aligned set: equations (15), (44)-(48), and the exact white solution.

White tokens, Lambda = lambda I, have E(z z') = alpha I. With c = E(y_q z), gamma its norm and c_hat = c / gamma, the flow (13) on the
balanced weights W_1 = w_2 m' closes in s = w_2' w_2 and p = m' c_hat; the paper's set (44) is p = 1.
"""

from functools import cache

from sympy import Identity, Symbol, cosh, exp, limit, log, oo, sqrt, symbols, tanh

from ...algebra.polynomial import TracePolynomial
from ...calculus.derivatives import gradient
from ...calculus.rewriting import rewrite
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import (
    D,
    H,
    N,
    alpha,
    gamma,
    lambda_,
    matrix,
    p,
    s,
    s_0,
    sigma_level,
    symmetric_matrix,
    t,
    tau,
    vector,
    w_init,
)
from ..separate.reduction import white_moments
from .sigmoid import balanced_solution, sigmoid, sigmoid_loss, sigmoid_solution, time_to_norm

__all__ = ["aligned_set", "merged_flow", "norm_on_aligned_set", "white_flow"]

size = Symbol("|Lambda^2|", positive=True)  # the Frobenius norm of Lambda^2
w_2, W_1 = vector("w_2", H), matrix("W_1", H, D**2)
c_hat = vector("c_hat", D**2)  # E(y_q z) / gamma, a unit vector
c, Z = vector("c", D**2), symmetric_matrix("Z", D**2)  # E(y_q z) and E(z z')

ON_THE_SET = ("White tokens", "W_1 = w_2 m' with m' = E(y_q z') / gamma, equation (44)")
SIGMA = r"\sigma(t)"


@cache
def merged_flow() -> dict:
    """{W: tau dW/dt}, equation (13), with c = E(y_q z) and Z = E(z z')."""
    half_loss = (
        -(w_2.T * W_1 * c) + w_2.T * W_1 * Z * W_1.T * w_2 / 2
    )  # the part of half the loss that depends on the weights
    return {weight: -gradient(half_loss, weight) for weight in (w_2, W_1)}


@cache
def white_flow() -> dict:
    """{W: tau dW/dt}, equation (13), where E(z z') = alpha I and E(y_q z) = gamma c_hat."""
    moments = {c: gamma * c_hat, Z: alpha * Identity(D**2)}
    return {weight: substitute(rate, moments) for weight, rate in merged_flow().items()}


@register(
    "44",
    "The aligned set of merged attention",
    kind="ansatz",
    section="Appendix C.5",
    left={"w": r"\tau\dot{\boldsymbol{w}}_2", "W": r"\tau\dot{\boldsymbol{W}}_1"},
    typed=lambda: {
        "w": gamma * w_2 - alpha * w_2 * w_2.T * w_2,
        "W": gamma * w_2 * c_hat.T - alpha * w_2 * w_2.T * w_2 * c_hat.T,
    },
    conditions=(
        "White tokens",
        "W_1 = w_2 m' with m = c_hat, the direction of E(y_q z), so that the set is kept: W_1 moves as w_2 m' does",
    ),
    erratum="An invariant set for a white covariance, and not a consequence of small initial weights alone: balance gives W_1 = w_2 m' "
    "with some unit vector m, which turns towards c_hat within a time of order tau / gamma, shorter than the plateau by the factor "
    "ln(1/w_init). An exactly opposite m leads to zero",
)
def aligned_set() -> Derivation:
    """The flow (13) on W_1 = w_2 c_hat'."""
    unit = {c_hat.T * c_hat: 1}
    on_set = {weight: rewrite(substitute(rate, {W_1: w_2 * c_hat.T}), unit) for weight, rate in white_flow().items()}
    return Derivation.by(
        Step("The flow (13) of w_2 for white tokens", white_flow()[w_2], r"\tau\dot{\boldsymbol{w}}_2"),
        Step("On the set", on_set[w_2], r"\tau\dot{\boldsymbol{w}}_2", "w"),
        Step("The flow (13) of W_1 for white tokens", white_flow()[W_1], r"\tau\dot{\boldsymbol{W}}_1"),
        Step("On the set; it is the flow of w_2 times m'", on_set[W_1], r"\tau\dot{\boldsymbol{W}}_1", "W"),
    )


@register(
    "45",
    "The norm on the aligned set, and its sigmoid",
    kind="exact",
    section="Appendix C.5",
    left={"rate": r"\tau\dot s", "integral": "t", "solution": "s(t)"},
    typed=lambda: {
        "rate": 2 * s * (gamma - alpha * s),
        "integral": tau / 2 * (1 / gamma) * log(s * (gamma - alpha * s_0) / (s_0 * (gamma - alpha * s))),
        "solution": gamma * exp(2 * gamma * t / tau) / (alpha * (exp(2 * gamma * t / tau) - 1) + gamma / s_0),
    },
    conditions=(*ON_THE_SET, "s = w_2' w_2; s and s_0 on the same side of gamma / alpha"),
)
def norm_on_aligned_set() -> Derivation:
    """Twice w_2 times its flow (44); then the separated equation, whose solution is put back into it."""
    rate = 2 * TracePolynomial(w_2.T) * aligned_set().result["w"]
    (_, _, integral, time), solution = time_to_norm().steps, sigmoid_solution().result
    return Derivation.by(
        Step("The product rule with (44)", rate, r"\tau\frac{d}{dt}\boldsymbol{w}_2^\top\boldsymbol{w}_2"),
        Step("In s = w_2' w_2", rewrite(rate, {w_2.T * w_2: s}), r"\tau\dot s", "rate"),
        Step("In $x$ = alpha s / gamma and theta = gamma t / tau the integral is", integral.expression, r"\theta"),
        Step("In the units of t and s", time.expression, "t", "integral"),
        Step("Solved for s; put back into the rate, the difference is zero", solution, "s(t)", "solution"),
    )


@register(
    "46",
    "The effective map on the aligned set",
    kind="exact",
    section="Appendix C.5",
    left=r"\boldsymbol{w}_2^\top\boldsymbol{W}_1",
    typed=lambda: s * c_hat.T,
    conditions=ON_THE_SET,
)
def map_on_aligned_set() -> Derivation:
    """W_1 = w_2 c_hat' under w_2'."""
    product = TracePolynomial(w_2.T * (w_2 * c_hat.T))
    return Derivation.by(
        Step("The set (44) put in", product),
        Step("In s = w_2' w_2", rewrite(product, {w_2.T * w_2: s})),
    )


@register(
    "47",
    "The two constants of white tokens",
    kind="exact",
    section="Appendix C.5",
    left={"alpha": r"\alpha", "gamma": r"\gamma", "scaled alpha": r"\alpha_\lambda", "scaled gamma": r"\gamma_\lambda"},
    typed=lambda: {
        "alpha": 1 + (1 + D) / N,
        "gamma": sqrt(D),
        "scaled alpha": lambda_**3 * (1 + (1 + D) / N),
        "scaled gamma": lambda_**2 * sqrt(D),
    },
    conditions=("Lambda = I; scaled: Lambda = lambda I, which the paper's Figures 5 and 10 need",),
)
def white_constants() -> Derivation:
    """The norm of E(y_q z), and E(z z') = alpha I."""
    scaled_gamma, scaled_alpha = white_moments().result
    return Derivation.by(
        Step(
            "The norm of E(y_q z) = vec(Lambda^2), equation (41), for Lambda = lambda I",
            scaled_gamma,
            r"\gamma_\lambda",
            "scaled gamma",
        ),
        Step("E(z z') of (42), a multiple of the identity", scaled_alpha, r"\alpha_\lambda", "scaled alpha"),
        Step("At lambda = 1", scaled_gamma.subs(lambda_, 1), r"\gamma", "gamma"),
        Step("At lambda = 1", scaled_alpha.subs(lambda_, 1), r"\alpha", "alpha"),
    )


@register(
    "15",
    "The sigmoid of merged attention on white tokens",
    kind="exact",
    section="Section 3.3",
    left=SIGMA,
    typed=lambda: (
        exp(2 * sqrt(D) * t / tau) / ((1 + (1 + D) / N) * (exp(2 * sqrt(D) * t / tau) - 1) + sqrt(D) / w_init**2)
    ),
    conditions=("Lambda = I", "W_1(0) = w_2(0) vec(I)' / sqrt(D), and w_init^2 = w_2(0)' w_2(0)"),
    erratum="Exact for balanced and aligned weights only. From Gaussian weights (34) it is right up to O(w_init^2) with the effective "
    "start s_eff in place of w_init^2, see (15-start); with the nominal w_init it is early by a time that does not vanish with w_init",
)
def sigmoid_of_white_tokens() -> Derivation:
    """s(t) / sqrt(D) with the constants (47)."""
    whole = sigmoid().result
    return Derivation.by(
        Step("The norm on the aligned set, equation (45)", sigmoid_solution().result, "s(t)"),
        Step(
            "The map is s vec(I)' / sqrt(D), equation (46), with the constants (47) of Lambda = lambda I", whole, SIGMA
        ),
        Step("Lambda = I and s_0 = w_init^2", whole.subs({lambda_: 1, s_0: w_init**2}), SIGMA),
    )


@register(
    "48",
    "The loss along the sigmoid",
    kind="exact",
    section="Appendix C.5",
    left={"loss": r"\mathcal{L}(t)", "end": r"\mathcal{L}(\infty)", "scaled": r"\mathcal{L}_\lambda(t)"},
    typed=lambda: {
        "loss": (1 - 2 * sigma_level + (1 + (1 + D) / N) * sigma_level**2) * D,
        "end": D * (1 + D) / (N + 1 + D),
        "scaled": D * lambda_ * (1 - 2 * lambda_ * sigma_level + lambda_**2 * (1 + (1 + D) / N) * sigma_level**2),
    },
    conditions=("y_hat = sigma(t) beta' x_q; Lambda = I, scaled: Lambda = lambda I",),
)
def loss_along_sigmoid() -> Derivation:
    """The loss (9) on the map sigma I, and its value for t -> infinity."""
    loss, scaled = sigmoid_loss().steps
    white = scaled.expression.subs(lambda_, 1)
    last = limit(sigmoid().result.subs({lambda_: 1, t: tau * _TIME / sqrt(D)}), _TIME, oo)
    return Derivation.by(
        Step("The loss as a function of the effective map", loss.expression, r"\mathcal{L}(\boldsymbol{B})"),
        Step("At B = sigma I and Lambda = lambda I", scaled.expression, r"\mathcal{L}_\lambda(t)", "scaled"),
        Step("At lambda = 1", white, r"\mathcal{L}(t)", "loss"),
        Step("The end of the sigmoid (15)", last, r"\sigma(\infty)"),
        Step("Its loss", white.subs(sigma_level, last).factor(), r"\mathcal{L}(\infty)", "end"),
    )


_TIME = symbols("theta", positive=True)


theta, theta_0, _f, _f_0 = symbols("theta theta_0 f f_0", real=True)


@register(
    "T6-white",
    "The white flow from any balanced start",
    kind="exact",
    section="beside (44)",
    left={"p": "p", "f": "f", "s": "s"},
    typed=lambda: {
        "p": tanh(theta),
        "f": theta / 2 + (exp(2 * theta) - exp(-2 * theta)) / 8,
        "s": cosh(theta) ** 2 / (cosh(theta_0) ** 2 / s_0 + 2 * alpha / gamma * (_f - _f_0)),
    },
    conditions=(
        "White tokens, W_1 = w_2 m' with a unit vector m, p = m' c_hat, -1 < p_0 < 1",
        "theta = gamma t / tau + artanh(p_0), theta_0 = artanh(p_0), and f_0 is f at theta_0",
    ),
)
def white_solution() -> Derivation:
    """The closed flow of (s, p): p is a hyperbolic tangent, and 1/s solves a linear equation."""
    flow, direction, integrating, f = (step.expression for step in balanced_solution().steps[:4])
    inverse = symbols("r", positive=True)
    linear = (-flow[0] / s**2 / gamma).subs(p, direction).subs(s, 1 / inverse).expand()
    angle = next(iter(direction.free_symbols))
    norm = integrating.subs(angle, theta) / (
        integrating.subs(angle, theta_0) / s_0 + linear.coeff(inverse, 0) * (_f - _f_0)
    )
    return Derivation.by(
        Step("The closed flow of (s, p)", flow, r"\tau\frac{d}{dt}(s,p)"),
        Step("The direction turns towards c_hat", direction.subs(angle, theta), "p", "p"),
        Step("The inverse of s obeys a linear equation in theta", linear, r"\frac{d}{d\theta}\frac1s"),
        Step("Its integrating factor", integrating.subs(angle, theta)),
        Step("The integral of the factor, with a constant of no account", f.subs(angle, theta), "f", "f"),
        Step("The norm", norm, "s", "s"),
    )
