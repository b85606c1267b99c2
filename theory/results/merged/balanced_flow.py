r"""Merged attention on balanced weights W_1 = w_2 m', |m| = 1, and its two constants: equations (44), (46), (47), (50).

.. math::
    \tau\dot s = 2s\,m^\top g, \qquad \tau\frac{d}{dt}(s\,m) = s\,(g + m\,m^\top g), \qquad s = w_2^\top w_2

for any loss, whose force on the map s m is g: by (13), tau dw_2/dt = W_1 g and tau dW_1/dt = w_2 g'. White tokens, Lambda = lambda I,
have E(z z') = alpha I. With E(y_q z) = gamma c_hat the flow then closes in s and the cosine p = m' c_hat; the paper's set (44) is p = 1.
"""

from functools import cache
from typing import NamedTuple

from sympy import Expr, Identity, Trace, sqrt

from ...algebra.polynomial import TracePolynomial
from ...calculus.rewriting import rewrite
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...expectation.laws import Gaussian
from ...expectation.moments import expect
from ...notation import (
    W_1,
    D,
    H,
    Lambda,
    Lambda_q,
    N,
    alpha,
    beta,
    c_hat,
    gamma,
    lambda_,
    matrix,
    p,
    s,
    vector,
    w_2,
    x_q,
    y_q,
)
from ..attention.equivalent_networks import COVARIANCE, CROSS, FEATURES, flow_of_layers

__all__ = ["ON_THE_SET", "aligned_set", "alignment_flow", "balanced_flow", "cross_moment_norm", "white_moments"]

ON_THE_SET = (
    "White tokens",
    r"$\boldsymbol{W}_1=\boldsymbol{w}_2\boldsymbol{m}^\top$ with $\boldsymbol{m}=\mathbb{E}(y_q\boldsymbol{z})/\gamma$, equation (44)",
)


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
        r"$\boldsymbol{W}_1=\boldsymbol{w}_2\boldsymbol{m}^\top$ with $\boldsymbol{m}=\hat{\boldsymbol{c}}$, the direction of "
        r"$\mathbb{E}(y_q\boldsymbol{z})$, so that the set is kept: $\boldsymbol{W}_1$ moves as $\boldsymbol{w}_2\boldsymbol{m}^\top$ does",
    ),
    erratum=r"An invariant set for a white covariance, and not a consequence of small initial weights alone: balance gives "
    r"$\boldsymbol{W}_1=\boldsymbol{w}_2\boldsymbol{m}^\top$ with some unit vector $\boldsymbol{m}$, which turns towards "
    r"$\hat{\boldsymbol{c}}$ within a time of order $\tau/\gamma$, shorter than the plateau by the factor $\ln(1/w_{\rm init})$. An "
    r"exactly opposite $\boldsymbol{m}$ leads to zero",
)
def aligned_set() -> Derivation:
    """The flow (13) on W_1 = w_2 c_hat'."""
    white = {CROSS: gamma * c_hat, COVARIANCE: alpha * Identity(FEATURES)}
    of_layer, of_value = (substitute(rate, white) for rate in flow_of_layers())
    on_set = [rewrite(substitute(rate, {W_1: w_2 * c_hat.T}), {c_hat.T * c_hat: 1}) for rate in (of_value, of_layer)]
    return Derivation.by(
        Step(r"The flow (13) of $\boldsymbol{w}_2$ for white tokens", of_value, r"\tau\dot{\boldsymbol{w}}_2"),
        Step("On the set", on_set[0], r"\tau\dot{\boldsymbol{w}}_2", "w"),
        Step(r"The flow (13) of $\boldsymbol{W}_1$ for white tokens", of_layer, r"\tau\dot{\boldsymbol{W}}_1"),
        Step(
            r"On the set; it is the flow of $\boldsymbol{w}_2$ times $\boldsymbol{m}^\top$",
            on_set[1],
            r"\tau\dot{\boldsymbol{W}}_1",
            "W",
        ),
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
        Step(r"In $s=\boldsymbol{w}_2^\top\boldsymbol{w}_2$", rewrite(product, {w_2.T * w_2: s})),
    )


@register(
    "50",
    "The rate of the plateau",
    kind="exact",
    section="Appendix C.6",
    left={"query": r"\gamma^2", "same": r"\gamma^2"},
    typed=lambda: {"query": Trace((Lambda * Lambda_q).T * (Lambda * Lambda_q)), "same": Trace(Lambda**2 * Lambda**2)},
    conditions=(
        r"The squared Frobenius norm of $\boldsymbol{\Lambda}\boldsymbol{\Lambda}_q$; with queries like the tokens, of "
        r"$\boldsymbol{\Lambda}^2$",
    ),
)
def cross_moment_norm() -> Derivation:
    """The norm of E(y_q z) = vec E(beta y_q x_q')."""
    moment = expect(y_q * beta * x_q.T, Gaussian(x_q, covariance=Lambda_q))
    square = (moment.T * moment).trace()
    return Derivation.by(
        Step(
            r"$\mathbb{E}(y_q\boldsymbol{z})$ as a matrix",
            moment,
            r"\mathbb{E}(y_q\boldsymbol{\beta}\boldsymbol{x}_q^\top)",
        ),
        Step("Its squared Frobenius norm", square, r"\gamma^2", "query"),
        Step(
            r"With $\boldsymbol{\Lambda}_q=\boldsymbol{\Lambda}$",
            substitute(square, {Lambda_q: Lambda}),
            r"\gamma^2",
            "same",
        ),
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
    conditions=(
        r"$\boldsymbol{\Lambda}=\boldsymbol{I}$; scaled: $\boldsymbol{\Lambda}=\lambda\boldsymbol{I}$, which the paper's Figures 5 and 10 "
        "need",
    ),
)
def white_moments() -> Derivation:
    """The norm of E(y_q z), and E(z z') = alpha I as the Kronecker product (42) of E(x_q x_q') and E(beta beta')."""
    white = {Lambda: lambda_ * Identity(D)}
    norm = sqrt(substitute(cross_moment_norm().result["same"], white).to_sympy())
    second, query = (substitute(expect(moment), white).trace() / D for moment in (beta * beta.T, x_q * x_q.T))
    product = (second * query).to_sympy().factor()
    return Derivation.by(
        Step(
            r"The norm (50) of $\mathbb{E}(y_q\boldsymbol{z})$ for $\boldsymbol{\Lambda}=\lambda\boldsymbol{I}$",
            norm,
            r"\gamma_\lambda",
            "scaled gamma",
        ),
        Step(
            r"$\mathbb{E}(\boldsymbol{z}\boldsymbol{z}^\top)$ of (42), a multiple of the identity",
            product,
            r"\alpha_\lambda",
            "scaled alpha",
        ),
        Step(r"At $\lambda=1$", norm.subs(lambda_, 1), r"\gamma", "gamma"),
        Step(r"At $\lambda=1$", product.subs(lambda_, 1), r"\alpha", "alpha"),
    )
