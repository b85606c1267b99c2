r"""The plateau of merged attention: its duration (49), (51), exact and to leading order, and the effective start of the sigmoid (15)."""

from sympy import Expr, Identity, Rational, Symbol, Trace, exp, expand_log, factor, log, sqrt

from ...calculus import collect, substitute
from ...derivations import Condition, E, Line, Lines, Rate, erratum, given, note, register, states
from ...derivations.draws import at
from ...expectation import Gaussian, expect
from ...notation import W_1, D, H, Lambda, alpha, c_hat, gamma, rho, s, s_0, t, tau, vector, w_2, w_init
from ..attention.equivalent_networks import CROSS, flow_of_layers
from .balanced_flow import ON_THE_SET, UNIT, on_aligned_set, rates, white_moments
from .sigmoid import norm_on_aligned_set

size = Symbol("|Lambda^2|", positive=True)  # the Frobenius norm of Lambda^2
scale = Symbol("epsilon", positive=True)  # counts powers of the weights
along = vector("u", H)  # W_1 c_hat
start = Symbol("s_eff", positive=True)

BELOW = Condition(
    r"$s_0<\gamma/\alpha$ and $\rho<1$", lambda point: point[s_0] * point[alpha] < point[gamma] and point[rho] < 1, outside=at(rho, 1)
)


@register("15-start", "The effective start of the sigmoid for Gaussian weights", kind="approximation", section="beside (15)")
@states("mean", lambda: Rational(1, 4) * (1 + D**-2) * w_init**2)
@states("delay", lambda: tau / (2 * sqrt(D)) * log(4 / (1 + D**-2)))
@given(UNIT, "Gaussian weights (34), and white tokens of unit variance")
def effective_start_of_sigmoid() -> Lines:
    """The growing mode of the linearised flow; the time (49) with both starts."""
    laws = [Gaussian(part, covariance=w_init**2 / (H * n) * Identity(H)) for part, n in ((w_2, 1), (along, D**2))]
    norm = (w_2 + along).T * (w_2 + along) / 4
    mean, rate = factor(expect(norm, laws).to_sympy()), white_moments().result["gamma"]
    mode, linear = (w_2 + W_1 * c_hat) / 2, {W_1: w_2 * CROSS.T, w_2: W_1 * CROSS}
    time = plateau_of_merged_attention().result
    yield from on_aligned_set()[::3]
    yield Line(Rate(mode, linear), "=", gamma * mode, r"Small weights (49-start): the mean of $\boldsymbol{w}_2$ and this grows", -1)
    yield Line(start, ":=", E(norm, laws), r"The mean of its squared norm, with $\boldsymbol{u}=\boldsymbol{W}_1\hat{\boldsymbol{c}}$")
    yield Line(start, "=", mean, "Averaged over (34)", (), "mean")
    yield Line(gamma, ":=", rate, "The rate (47)")
    yield Line(time.subs(s_0, start) - time.subs(s_0, w_init**2), "=", tau / (2 * rate) * log((w_init**2 / mean).expand()),
               r"The time (49) from it is longer than from $w_{\rm init}^2$ by", (), "delay")  # fmt: skip


@register("49-start", "Small weights of merged attention before the drop", kind="approximation", section="Appendix C.6.1")
@states("W", lambda: w_2 * CROSS.T)
@states("w", lambda: W_1 * CROSS)
@states("s", lambda: 2 * gamma * s)
@given(UNIT)
@note("The rate of $s$ is that on the set (44), for white tokens")
def small_merged_weights() -> Lines:
    """The flow (13), ordered by powers of the weights; the rate (45), by powers of s."""
    small = [substitute(rate, {W_1: scale * W_1, w_2: scale * w_2}) / scale for rate in flow_of_layers()]
    rate = norm_on_aligned_set().result["rate"]
    reasons = {"W": r"The flow (13) of weights times $\epsilon$, over $\epsilon$", "w": "The same for the second layer"}
    for part, flow in zip(reasons, small, strict=True):
        yield Line(flow, "->", collect(flow, scale)[0], reasons[part], (), part, parameter=(scale, 0), order=2)
    yield from on_aligned_set()
    yield Line(s, ":=", w_2.T * w_2, "The squared norm")
    yield Line(Rate(s, rates()), "=", rate, "Its rate (45)", -2)
    yield Line(rate, "~", rate.expand().coeff(s, 1) * s, "while it is small", (), "s", parameter=(s, 0), order=2)


def _inside(time: Expr) -> Expr:
    """The argument of the logarithm in a time tau/(2 gamma) ln(...)."""
    return exp(2 * gamma * time / tau)


@register("49", "Duration of the plateau of merged attention", kind="approximation", section="Appendix C.6")
@states(lambda: tau / (2 * gamma) * log(1 / s_0))
@given(ON_THE_SET, BELOW)
@erratum("The leading logarithm only. The exact time to a fraction of the final value adds a constant that does not vanish with $s_0$")
def plateau_of_merged_attention() -> Lines:
    """The exact time (49-exact), split into what grows as s_0 -> 0 and what does not."""
    exact = exact_plateau_of_merged_attention().result["fraction"]
    constant, power = _inside(exact).as_leading_term(s_0).as_coeff_exponent(s_0)
    unit = tau / (2 * gamma)
    leading = unit * log(s_0**power)
    yield Line(t, ":=", exact, r"The exact time to the fraction $\rho$ of the final value, by (45)")
    yield Line(t - leading, "->", unit * log(constant), "What the logarithm leaves out stays, as $s_0\\to0$", parameter=(s_0, 0), order=1)
    yield Line(t, "~", leading, "Up to that constant", parameter=(s_0, 0), order=0)


@register("49-exact", "The exact time to a fraction of the final value", section="beside (49)")
@states("fraction", lambda: tau / (2 * gamma) * log(rho / (1 - rho) * (gamma / (alpha * s_0) - 1)))
@states("half", lambda: tau / (2 * gamma) * log(gamma / (alpha * s_0) - 1))
@given(ON_THE_SET, BELOW)
def exact_plateau_of_merged_attention() -> Lines:
    """The integral of (45) at s = rho gamma / alpha."""
    time = norm_on_aligned_set().result["integral"]
    exact = tau / (2 * gamma) * log(_inside(time.subs(s, rho * gamma / alpha)))
    yield Line(t, ":=", time, "The time (45) between $s_0$ and $s$")
    yield Line(s, ":=", rho * gamma / alpha, r"A fraction $\rho$ of the final value")
    yield Line(t, "=", exact, "The time to it", part="fraction")
    yield Line(rho, ":=", Rational(1, 2), "Half of it")
    yield Line(t, "=", exact.subs(rho, Rational(1, 2)), "The time to half", part="half")


@register("51", "Duration of the plateau of merged attention, in the initial scale", kind="approximation", section="Appendix C.6")
@states("norm", lambda: tau / (2 * size) * log(1 / s_0))
@states("scale", lambda: tau / size * log(1 / w_init))
@given(ON_THE_SET)
def plateau_in_initial_scale() -> Lines:
    """(49) with (50)."""
    leading = plateau_of_merged_attention().result
    named = leading.subs(gamma, size)
    yield Line(size, ":=", sqrt(Trace(Lambda**4)), r"The Frobenius norm of $\boldsymbol{\Lambda}^2$")
    yield Line(gamma**2, "=", size**2, "The rate (50)", "50")
    yield Line(t, ":=", leading, "The leading time (49)")
    yield Line(gamma, ":=", size, "At that rate")
    yield Line(t, "=", named, "the time is", (), "norm")
    yield Line(s_0, ":=", w_init**2, "In the initial scale")
    yield Line(t, "=", expand_log(named.subs(s_0, w_init**2)), "it is", (), "scale")
