r"""The plateau of merged attention: its duration (49)-(51), exact and to leading order, and the effective start of the sigmoid (15)."""

from sympy import Rational, Symbol, Trace, exp, log, sqrt

from ...calculus.substitution import collect, substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...expectation.laws import Gaussian
from ...expectation.moments import expect
from ...notation import D, Lambda, Lambda_q, alpha, beta, gamma, rho, s, s_0, tau, w_init, x_q, y_q
from .sigmoid import effective_start, plateau_time, time_to_norm, truncated_plateau_time
from .white import ON_THE_SET, W_1, c, merged_flow, norm_on_aligned_set, w_2

__all__ = []

size = Symbol("|Lambda^2|", positive=True)  # the Frobenius norm of Lambda^2
scale = Symbol("epsilon", positive=True)  # counts powers of the weights


@register(
    "15-start",
    "The effective start of the sigmoid for Gaussian weights",
    kind="approximation",
    section="beside (15)",
    left={"mean": r"\mathbb{E}(s_{\rm eff})", "delay": r"\Delta t"},
    typed=lambda: {
        "mean": Rational(1, 4) * (1 + D**-2) * w_init**2,
        "delay": tau / (2 * sqrt(D)) * log(4 / (1 + D**-2)),
    },
    conditions=(
        "Gaussian weights (34), Lambda = I",
        "s_eff = |w_2(0) + W_1(0) c_hat|^2 / 4 is the norm of the growing mode; (15) with it has an error O(w_init^2)",
        "The delay is that of the mean of s_eff behind the nominal w_init^2, to leading order in w_init",
    ),
)
def effective_start_of_sigmoid() -> Derivation:
    """The growing mode of the linearised flow; the exact time (45) with both starts."""
    amplitude, mean = effective_start().steps
    ratio = (mean.expression / w_init**2).expand()
    white = {gamma: sqrt(D)}
    delay = (truncated_plateau_time().steps[2].expression).subs(white)
    difference = tau / (2 * sqrt(D)) * log(exp((delay.subs(s_0, ratio) - delay.subs(s_0, 1)) * 2 * sqrt(D) / tau))
    return Derivation.by(
        Step(
            "The growing mode of tau dw_2/dt = gamma W_1 c_hat, tau d(W_1 c_hat)/dt = gamma w_2 is their mean",
            amplitude.expression,
        ),
        Step("Average over (34)", mean.expression, r"\mathbb{E}(s_{\rm eff})", "mean"),
        Step("The logarithm of the time (49)", delay),
        Step("Its change with the start", difference, r"\Delta t", "delay"),
    )


@register(
    "49-start",
    "Small weights of merged attention before the drop",
    kind="approximation",
    section="Appendix C.6.1",
    left={"W": r"\tau\dot{\boldsymbol{W}}_1", "w": r"\tau\dot{\boldsymbol{w}}_2", "s": r"\tau\dot s"},
    typed=lambda: {"W": w_2 * c.T, "w": W_1 * c, "s": 2 * gamma * s},
    conditions=(
        "Weights of order w_init; what is left out is of order w_init^3, and of order s^2 in the rate of s",
        "c = E(y_q z), Z = E(z z'); s = w_2' w_2, for which the aligned set (44) is assumed",
    ),
)
def small_merged_weights() -> Derivation:
    """The flow (13), ordered by powers of the weights; the rate (45), by powers of s."""
    steps = []
    for part, weight in (("W", W_1), ("w", w_2)):
        orders = collect(substitute(merged_flow()[weight], {W_1: scale * W_1, w_2: scale * w_2}), scale)
        first, *rest = orders.values()
        steps += [Step("The flow (13): its terms of third order in the weights, left out", sum(rest))]
        steps += [Step("Those of first order", first, part=part)]
    orders = collect(norm_on_aligned_set().result["rate"], s)
    steps += [Step("The rate (45): its term of second order, left out", s**2 * orders[2].to_sympy())]
    return Derivation.by(*steps, Step("That of first order", s * orders[1].to_sympy(), part="s"))


@register(
    "49",
    "Duration of the plateau of merged attention",
    kind="approximation",
    section="Appendix C.6",
    left=r"t_{\rm plateau}",
    typed=lambda: tau / (2 * gamma) * log(1 / s_0),
    conditions=("s_0 -> 0; what is left out is a constant, the second step, and O(s_0)",),
    erratum="The leading logarithm only. The exact time to a fraction of the final value adds a constant that does not vanish with s_0",
)
def plateau_of_merged_attention() -> Derivation:
    """The exact time (45) to the fraction rho of the final value, split into what grows and what does not."""
    exact, constant, leading = (step.expression for step in truncated_plateau_time().steps[:3])
    return Derivation.by(
        Step("The exact time to the fraction rho of the final value, by (45)", exact, r"t_\rho"),
        Step("Its part that stays as s_0 -> 0", constant),
        Step("Its part that grows", leading),
    )


@register(
    "49-exact",
    "The exact time to a fraction of the final value",
    kind="exact",
    section="beside (49)",
    left={"fraction": r"t_\rho", "half": r"t_{1/2}"},
    typed=lambda: {
        "fraction": tau / (2 * gamma) * log(rho / (1 - rho) * (gamma / (alpha * s_0) - 1)),
        "half": tau / (2 * gamma) * log(gamma / (alpha * s_0) - 1),
    },
    conditions=ON_THE_SET,
)
def exact_plateau_of_merged_attention() -> Derivation:
    """The integral of (45) at s = rho gamma / alpha."""
    exact = plateau_time().result
    return Derivation.by(
        Step("The time (45) between s_0 and s", time_to_norm().result, "t"),
        Step("At s = rho gamma / alpha", exact, r"t_\rho", "fraction"),
        Step("At rho = 1/2", exact.subs(rho, Rational(1, 2)), r"t_{1/2}", "half"),
    )


@register(
    "50",
    "The rate of the plateau",
    kind="exact",
    section="Appendix C.6",
    left={"query": r"\gamma^2", "same": r"\gamma^2"},
    typed=lambda: {"query": Trace((Lambda * Lambda_q).T * (Lambda * Lambda_q)), "same": Trace(Lambda**2 * Lambda**2)},
    conditions=("The squared Frobenius norm of Lambda Lambda_q; with queries like the tokens, of Lambda^2",),
)
def rate_of_plateau() -> Derivation:
    """The norm of E(y_q z) = vec E(beta y_q x_q')."""
    moment = expect(y_q * beta * x_q.T, Gaussian(x_q, covariance=Lambda_q))
    square = (moment.T * moment).trace()
    return Derivation.by(
        Step("E(y_q z) as a matrix", moment, r"\mathbb{E}(y_q\boldsymbol{\beta}\boldsymbol{x}_q^\top)"),
        Step("Its squared Frobenius norm", square, r"\gamma^2", "query"),
        Step("With Lambda_q = Lambda", substitute(square, {Lambda_q: Lambda}), r"\gamma^2", "same"),
    )


@register(
    "51",
    "Duration of the plateau of merged attention, in the initial scale",
    kind="approximation",
    section="Appendix C.6",
    left={"norm": r"t_{\rm plateau}", "scale": r"t_{\rm plateau}"},
    typed=lambda: {
        "norm": tau / (2 * size) * log(1 / s_0),
        "scale": tau / size * log(1 / w_init),
    },
    conditions=(
        "s_0 = w_init^2 -> 0; the Frobenius norm of Lambda^2 is the root of tr(Lambda^4); exact up to a constant, see (49)",
    ),
)
def plateau_in_initial_scale() -> Derivation:
    """(49) with (50)."""
    leading = plateau_of_merged_attention().result
    norm = sqrt(rate_of_plateau().result["same"].to_sympy())
    return Derivation.by(
        Step("The leading time (49)", leading),
        Step("With the rate (50)", leading.subs(gamma, norm).subs(norm, size), r"t_{\rm plateau}", "norm"),
        Step("With s_0 = w_init^2", truncated_plateau_time().result.subs(norm, size), r"t_{\rm plateau}", "scale"),
    )
