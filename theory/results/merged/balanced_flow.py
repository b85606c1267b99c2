r"""Merged attention on balanced weights W_1 = w_2 m', |m| = 1, and its two constants: equations (44), (46), (47), (50).

.. math::
    \tau\dot s = 2s\,m^\top g, \qquad \tau\frac{d}{dt}(s\,m) = s\,(g + m\,m^\top g), \qquad s = w_2^\top w_2

for any loss, whose force on the map s m is g: by (13), tau dw_2/dt = W_1 g and tau dW_1/dt = w_2 g'. White tokens, Lambda = lambda I,
have E(z z') = alpha I. With E(y_q z) = gamma c_hat the flow then closes in s and the cosine p = m' c_hat; the paper's set (44) is p = 1.
"""

from functools import cache
from typing import NamedTuple

from sympy import Expr, Identity, Trace, ZeroMatrix, sqrt

from ...algebra.polynomial import TracePolynomial
from ...calculus import rewrite, substitute
from ...derivations import E, Line, Lines, Rate, erratum, given, register, states
from ...derivations.draws import satisfying, unit_vector
from ...expectation import expect
from ...notation import W_1, D, H, Lambda, Lambda_q, N, alpha, beta, c_hat, gamma, lambda_, matrix, p, s, vector, w_2, x_q, y_q
from ..attention.cubic_features import ANY_QUERY
from ..attention.equivalent_networks import COVARIANCE, CROSS, FEATURES, flow_of_layers
from ..task.population import Task

ON_THE_SET = "White tokens, and weights on the set (44)"


class BalancedFlow(NamedTuple):
    """tau d/dt of s = w_2' w_2 and of the map s m."""

    size: TracePolynomial
    map: TracePolynomial


def balanced_flow(m, g) -> BalancedFlow:
    """The flow of balanced weights with the direction ``m`` under the force ``g``, two vectors of the same size."""
    layer = matrix("W_1", H, m.shape[0])
    of_layer, of_value = w_2 * g.T, layer * g
    rates = (2 * TracePolynomial(w_2.T * of_value), TracePolynomial(of_layer.T * w_2 + layer.T * of_value))
    rules = {w_2.T * w_2: s, m.T * m: 1}
    return BalancedFlow(*(rewrite(substitute(rate, {layer: w_2 * m.T}), rules) for rate in rates))


class AlignmentFlow(NamedTuple):
    """tau d/dt of s = w_2' w_2 and of the cosine p = m' c_hat."""

    size: Expr
    cosine: Expr


@cache
def alignment_flow() -> AlignmentFlow:
    """The balanced flow of white tokens, whose force is g = gamma c_hat - alpha s m."""
    m, g = vector("m", FEATURES), vector("g", FEATURES)
    letters = {m.T * m: 1, c_hat.T * c_hat: 1, c_hat.T * m: p}
    size, map_ = (substitute(rate, {g: gamma * c_hat - alpha * s * m}) for rate in balanced_flow(m, g))
    cosine = c_hat.T * (map_ - size * m) / s
    return AlignmentFlow(*(rewrite(rate, letters).to_sympy().factor() for rate in (size, cosine)))


def _draw_unit(point, length=1) -> None:
    point[c_hat] = length * unit_vector(point.size(FEATURES), point)


UNIT = satisfying(
    r"$\hat{\boldsymbol{c}}$ is a unit vector, the direction of $\mathbb{E}(y_q\boldsymbol{z})$",
    {c_hat.T * c_hat: 1},
    _draw_unit,
    lambda point: _draw_unit(point, 2),
)


def rates() -> dict:
    """The flow (13), {weight: tau d/dt of it}."""
    return dict(zip((W_1, w_2), flow_of_layers(), strict=True))


def white_tokens() -> Lines:
    """The two moments of white tokens."""
    yield Line(CROSS, ":=", gamma * c_hat, "The correlation of the target with the features")
    yield Line(COVARIANCE, ":=", alpha * Identity(FEATURES), "White tokens")


def on_aligned_set() -> tuple[Line, ...]:
    """White tokens, and weights on the set (44)."""
    return (
        *white_tokens(),
        Line(W_1, ":=", w_2 * c_hat.T, "On the set"),
        Line(c_hat.T * c_hat, "=", 1, r"$\hat{\boldsymbol{c}}$ has unit length"),
    )


@register("44", "The aligned set of merged attention", kind="ansatz", section="Appendix C.5")
@states("w", lambda: gamma * w_2 - alpha * w_2 * w_2.T * w_2)
@states("W", lambda: gamma * w_2 * c_hat.T - alpha * w_2 * w_2.T * w_2 * c_hat.T)
@given(UNIT, "White tokens")
@erratum(
    r"An invariant set for a white covariance, and not a consequence of small initial weights alone: balance gives "
    r"$\boldsymbol{W}_1=\boldsymbol{w}_2\boldsymbol{m}^\top$ with some unit vector $\boldsymbol{m}$, which turns towards "
    r"$\hat{\boldsymbol{c}}$ as in (T6-white): within a time of order $\tau/\gamma$, shorter than the plateau by the factor "
    r"$\ln(1/w_{\rm init})$, unless it begins nearly opposite. An exactly opposite $\boldsymbol{m}$ leads to zero"
)
def aligned_set() -> Lines:
    """The flow (13) on W_1 = w_2 c_hat'."""
    on_set = dict(zip(("W", "w"), flow_of_layers(), strict=True))
    for layer, rate in on_set.items():
        white = substitute(rate, {CROSS: gamma * c_hat, COVARIANCE: alpha * Identity(FEATURES), W_1: w_2 * c_hat.T})
        on_set[layer] = rewrite(white, {c_hat.T * c_hat: 1})
    flow = rates()
    yield Line(Rate(w_2, flow), "=", flow[w_2], r"The flow (13) of $\boldsymbol{w}_2$")
    yield Line(Rate(W_1, flow), "=", flow[W_1], r"The flow (13) of $\boldsymbol{W}_1$")
    yield from on_aligned_set()
    yield Line(Rate(w_2, flow), "=", on_set["w"], r"So $\boldsymbol{w}_2$ moves by", -1, "w")
    yield Line(Rate(W_1, flow), "=", on_set["W"], r"and $\boldsymbol{W}_1$ by", -2, "W")
    yield Line(Rate(W_1 - w_2 * c_hat.T, flow), "=", ZeroMatrix(H, FEATURES), "The set is kept", -3)


@register("46", "The effective map on the aligned set", section="Appendix C.5")
@states(lambda: s * c_hat.T)
def map_on_aligned_set() -> Lines:
    """W_1 = w_2 c_hat' under w_2'."""
    product = TracePolynomial(w_2.T * (w_2 * c_hat.T))
    yield Line(W_1, ":=", w_2 * c_hat.T, "The set (44)")
    yield Line(w_2.T * W_1, "=", product, "put in")
    yield Line(s, ":=", w_2.T * w_2, "The squared norm")
    yield Line(w_2.T * W_1, "=", rewrite(product, {w_2.T * w_2: s}), r"In $s=\boldsymbol{w}_2^\top\boldsymbol{w}_2$")


@register("50", "The rate of the plateau", section="Appendix C.6")
@states("query", lambda: Trace((Lambda * Lambda_q).T * (Lambda * Lambda_q)))
@states("same", lambda: Trace(Lambda**2 * Lambda**2))
def cross_moment_norm(task: Task = ANY_QUERY) -> Lines:
    """The norm of E(y_q z) = vec E(beta y_q x_q')."""
    moment = task.moments.A
    square = (moment.T * moment).trace()
    yield from task.gains()
    yield Line(task.E(y_q * beta * x_q.T), "=", moment, r"$\mathbb{E}(y_q\boldsymbol{z})$ as a matrix")
    yield Line(gamma, ":=", sqrt(square.to_sympy()), "Its Frobenius norm")
    yield Line(gamma**2, "=", square, "squared", part="query")
    if task == ANY_QUERY:
        yield Line(Lambda_q, ":=", Lambda, "Queries like the tokens")
        yield Line(gamma**2, "=", substitute(square, {Lambda_q: Lambda}), "Then", part="same")


@register("47", "The two constants of white tokens", section="Appendix C.5")
@states("alpha", lambda: 1 + (1 + D) / N)
@states("gamma", lambda: sqrt(D))
@states("scaled alpha", lambda: lambda_**3 * (1 + (1 + D) / N))
@states("scaled gamma", lambda: lambda_**2 * sqrt(D))
def white_moments() -> Lines:
    """The norm of E(y_q z), and E(z z') = alpha I as the Kronecker product (42) of E(x_q x_q') and E(beta beta')."""
    white = {Lambda: lambda_ * Identity(D)}
    norm_ = sqrt(substitute(cross_moment_norm().result["same"], white).to_sympy())
    second, query = (E(moment) for moment in (beta * beta.T, x_q * x_q.T))
    values = [substitute(expect(moment), white) for moment in (beta * beta.T, x_q * x_q.T)]
    product = (values[0].trace() * values[1].trace() / D**2).to_sympy().factor()
    yield Line(Lambda, ":=", lambda_ * Identity(D), "White tokens")
    yield Line(gamma, "=", norm_, r"The norm (50) of $\mathbb{E}(y_q\boldsymbol{z})$", "50", "scaled gamma")
    yield Line(second, "=", values[0], r"$\mathbb{E}(\boldsymbol{z}\boldsymbol{z}^\top)$ is the Kronecker product (42) of this")
    yield Line(query, "=", values[1], "and this, two multiples of the identity")
    yield Line(alpha, ":=", Trace(second) * Trace(query) / D**2, "so it is a multiple of the identity")
    yield Line(alpha, "=", product, "by this factor", part="scaled alpha")
    yield Line(lambda_, ":=", 1, "Unit covariance")
    yield Line(gamma, "=", norm_.subs(lambda_, 1), "The norm", "50", "gamma")
    yield Line(alpha, "=", product.subs(lambda_, 1), "and the factor", part="alpha")
