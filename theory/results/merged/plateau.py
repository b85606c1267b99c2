r"""The plateau of merged attention: its duration (49), (51), exact and to leading order, and the effective start of the sigmoid (15)."""

from sympy import Expr, Identity, Rational, Symbol, exp, expand_log, factor, log, sqrt

from ...algebra.polynomial import TracePolynomial
from ...calculus.substitution import collect, substitute
from ...derivations.conditions import Condition
from ...derivations.derivation import Derivation, Step
from ...derivations.lines import Line
from ...derivations.registry import register
from ...expectation.laws import Gaussian
from ...expectation.moments import expect
from ...notation import W_1, D, H, alpha, gamma, rho, s, s_0, t, tau, vector, w_2, w_init
from ..attention.equivalent_networks import CROSS, flow_of_layers
from .balanced_flow import ON_THE_SET, cross_moment_norm, white_moments
from .sigmoid import norm_on_aligned_set

__all__ = ["exact_plateau_of_merged_attention"]

size = Symbol("|Lambda^2|", positive=True)  # the Frobenius norm of Lambda^2
scale = Symbol("epsilon", positive=True)  # counts powers of the weights


BELOW = Condition(r"$s_0<\gamma/\alpha$ and $\rho<1$", lambda point: point[s_0] * point[alpha] < point[gamma] and point[rho] < 1)


@register(
    "15-start",
    "The effective start of the sigmoid for Gaussian weights",
    kind="approximation",
    section="beside (15)",
    left={"mean": r"\mathbb{E}(s_{\rm eff})", "delay": r"\Delta t"},
    typed=lambda: {"mean": Rational(1, 4) * (1 + D**-2) * w_init**2, "delay": tau / (2 * sqrt(D)) * log(4 / (1 + D**-2))},
    conditions=(
        r"Gaussian weights (34), $\boldsymbol{\Lambda}=\boldsymbol{I}$",
        r"$s_{\rm eff}=|\boldsymbol{w}_2(0)+\boldsymbol{W}_1(0)\hat{\boldsymbol{c}}|^2/4$ is the norm of the growing mode; (15) with it "
        r"has an error $O(w_{\rm init}^2)$",
        r"The delay is that of the mean of $s_{\rm eff}$ behind the nominal $w_{\rm init}^2$, to leading order in $w_{\rm init}$",
    ),
)
def effective_start_of_sigmoid() -> Derivation:
    """The growing mode of the linearised flow; the time (49) with both starts."""
    along = vector("u", H)  # W_1 c_hat
    mode = TracePolynomial(w_2 + along) / 2
    norm = mode.T * mode
    laws = [Gaussian(part, covariance=w_init**2 / (H * n) * Identity(H)) for part, n in ((w_2, 1), (along, D**2))]
    mean = factor(expect(norm, laws).to_sympy())
    time = plateau_of_merged_attention().result.subs(gamma, white_moments().result["gamma"])
    starts = (time.subs(s_0, start) for start in ((mean / w_init**2).expand(), 1))
    unit = tau / (2 * sqrt(D))
    late, nominal = (exp(start / unit) for start in starts)
    return Derivation.by(
        Step(
            r"The growing mode of $\tau\dot{\boldsymbol{w}}_2=\gamma\boldsymbol{u}$, $\tau\dot{\boldsymbol{u}}=\gamma\boldsymbol{w}_2$ "
            r"with $\boldsymbol{u}=\boldsymbol{W}_1\hat{\boldsymbol{c}}$ is their mean",
            norm,
            r"s_{\rm eff}",
        ),
        Step("Average over (34)", mean, r"\mathbb{E}(s_{\rm eff})", "mean"),
        Step("The time (49)", time),
        Step("Its change with the start", unit * log(late / nominal), r"\Delta t", "delay"),
    )


@register(
    "49-start",
    "Small weights of merged attention before the drop",
    kind="approximation",
    section="Appendix C.6.1",
    left={"W": r"\tau\dot{\boldsymbol{W}}_1", "w": r"\tau\dot{\boldsymbol{w}}_2", "s": r"\tau\dot s"},
    typed=lambda: {"W": w_2 * CROSS.T, "w": W_1 * CROSS, "s": 2 * gamma * s},
    conditions=(
        r"Weights of order $w_{\rm init}$; what is left out is of order $w_{\rm init}^3$, and of order $s^2$ in the rate of $s$",
        r"$s=\boldsymbol{w}_2^\top\boldsymbol{w}_2$, for which the aligned set (44) is assumed",
    ),
)
def small_merged_weights() -> Derivation:
    """The flow (13), ordered by powers of the weights; the rate (45), by powers of s."""
    steps = []
    for part, rate in zip(("W", "w"), flow_of_layers(), strict=True):
        orders = collect(substitute(rate, {W_1: scale * W_1, w_2: scale * w_2}), scale)
        first, *rest = orders.values()
        steps += [Step("The flow (13): its terms of third order in the weights, left out", sum(rest))]
        steps += [Step("Those of first order", first, part=part)]
    rate = norm_on_aligned_set().result["rate"].expand()
    first = rate.coeff(s, 1) * s
    steps += [Step("The rate (45): its term of second order, left out", rate - first)]
    return Derivation.by(*steps, Step("That of first order", first, part="s"))


def _inside(time: Expr) -> Expr:
    """The argument of the logarithm in a time tau/(2 gamma) ln(...)."""
    return exp(2 * gamma * time / tau)


@register(
    "49",
    "Duration of the plateau of merged attention",
    kind="approximation",
    section="Appendix C.6",
    left=r"t_{\rm plateau}",
    typed=lambda: tau / (2 * gamma) * log(1 / s_0),
    conditions=("$s_0\\to0$; what is left out is a constant, the second step, and $O(s_0)$",),
    erratum="The leading logarithm only. The exact time to a fraction of the final value adds a constant that does not vanish with $s_0$",
)
def plateau_of_merged_attention() -> Derivation:
    """The exact time (49-exact), split into what grows as s_0 -> 0 and what does not."""
    exact = exact_plateau_of_merged_attention().result["fraction"]
    constant, power = _inside(exact).as_leading_term(s_0).as_coeff_exponent(s_0)
    unit = tau / (2 * gamma)
    return Derivation.by(
        Step(r"The exact time to the fraction $\rho$ of the final value, by (45)", exact, r"t_\rho"),
        Step(r"Its part that stays as $s_0\to0$", unit * log(constant)),
        Step("Its part that grows", unit * log(s_0**power)),
    )


@register(
    "49-exact",
    "The exact time to a fraction of the final value",
    kind="exact",
    section="beside (49)",
    typed=lambda: {
        "fraction": tau / (2 * gamma) * log(rho / (1 - rho) * (gamma / (alpha * s_0) - 1)),
        "half": tau / (2 * gamma) * log(gamma / (alpha * s_0) - 1),
    },
    conditions=(*ON_THE_SET, BELOW),
)
def exact_plateau_of_merged_attention() -> Derivation:
    """The integral of (45) at s = rho gamma / alpha."""
    time = norm_on_aligned_set().result["integral"]
    exact = tau / (2 * gamma) * log(_inside(time.subs(s, rho * gamma / alpha)))
    return Derivation.by(
        Line(t, ":=", time, "The time (45) between $s_0$ and $s$"),
        Line(s, ":=", rho * gamma / alpha, r"A fraction $\rho$ of the final value"),
        Line(t, "=", exact, "The time to it", part="fraction"),
        Line(rho, ":=", Rational(1, 2), "Half of it"),
        Line(t, "=", exact.subs(rho, Rational(1, 2)), "The time to half", part="half"),
    )


@register(
    "51",
    "Duration of the plateau of merged attention, in the initial scale",
    kind="approximation",
    section="Appendix C.6",
    left={"norm": r"t_{\rm plateau}", "scale": r"t_{\rm plateau}"},
    typed=lambda: {"norm": tau / (2 * size) * log(1 / s_0), "scale": tau / size * log(1 / w_init)},
    conditions=(
        r"$s_0=w_{\rm init}^2\to0$; the Frobenius norm of $\boldsymbol{\Lambda}^2$ is the root of "
        r"$\operatorname{tr}(\boldsymbol{\Lambda}^4)$; exact up to a constant, see (49)",
    ),
)
def plateau_in_initial_scale() -> Derivation:
    """(49) with (50)."""
    leading = plateau_of_merged_attention().result
    norm = sqrt(cross_moment_norm().result["same"].to_sympy())
    named = leading.subs(gamma, norm).subs(norm, size)
    return Derivation.by(
        Step("The leading time (49)", leading),
        Step("With the rate (50)", named, r"t_{\rm plateau}", "norm"),
        Step(r"With $s_0=w_{\rm init}^2$", expand_log(named.subs(s_0, w_init**2)), r"t_{\rm plateau}", "scale"),
    )
