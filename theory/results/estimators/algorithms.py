r"""The algorithms in context: what the converged model computes, its loss, principal components (27), and the limits of long contexts.

At the global minimum the effective map is Lambda_N^-1 with Lambda_N = Lambda + (Lambda + tr(Lambda) I) / N, equation (16); a context of N
tokens costs (1 + D) tr(Lambda) / N of loss, to first order, where least squares in context would cost nothing.
"""

from functools import cache

from sympy import Expr, Identity, Symbol, Trace, factor, limit, oo, solve

from ...algebra.polynomial import TracePolynomial
from ...calculus.rewriting import rewrite
from ...calculus.substitution import collect, substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...expectation.laws import Gaussian
from ...expectation.moments import expect
from ...notation import B, D, Lambda, Lambda_hat, Lambda_q, M, N, T, beta, e_d, lambda_, matrix, w, x_q, y_q
from ..attention.cubic_features import QUERY_LAW, Lambda_N, shrunk_covariance
from ..task.population import Sigma_w
from ..task.regression import closed_loss, force
from ..task.second_moments import on_eigenvector

__all__ = ["least_loss", "level", "long_context", "principal_component"]

_a = Symbol("a_d", positive=True)
_b = Symbol("b", positive=True)
A_w = matrix("A_w", D)


@register(
    "16-tasks",
    "Regression in context when the task vectors are not isotropic",
    kind="exact",
    section="Beside (16)",
    left={
        "factor": r"\boldsymbol{A}_w = \boldsymbol{\Lambda}^{-1}\mathbb{E}(\boldsymbol{\beta}\boldsymbol{\beta}^\top)",
        "map": r"\mathbb{E}(\boldsymbol{\beta}\boldsymbol{\beta}^\top)^{-1}"
        r"\,\mathbb{E}(\boldsymbol{\beta}y_q\boldsymbol{x}_q^\top)\,\boldsymbol{\Lambda}_q^{-1}",
        "isotropic": r"\boldsymbol{A}_w\big|_{\boldsymbol{\Sigma}_w=\boldsymbol{I}}",
    },
    typed=lambda: {
        "factor": (1 + 1 / N) * Sigma_w * Lambda + Trace(Sigma_w * Lambda) / N * Identity(D),
        "map": A_w.I * Sigma_w,
        "isotropic": Lambda + (Lambda + Trace(Lambda) * Identity(D)) / N,
    },
    conditions=(
        (
            r"$\boldsymbol{w}$ has covariance $\boldsymbol{\Sigma}_w$, which need not commute with "
            r"$\boldsymbol{\Lambda}$, and $\boldsymbol{x}_{q}$ any invertible covariance $\boldsymbol{\Lambda}_{q}$"
        ),
        (
            r"The map is the minimum of the loss: the force $\mathbb{E}(\boldsymbol{\beta} y_{q} "
            r"\boldsymbol{x}_{q}^{\top}) - \mathbb{E}(\boldsymbol{\beta} \boldsymbol{\beta}^{\top}) \boldsymbol{B} "
            r"\boldsymbol{\Lambda}_{q}$ vanishes there"
        ),
    ),
)
def other_tasks() -> Derivation:
    """The normal equations for the effective map."""
    laws = [Gaussian(w, covariance=Sigma_w), QUERY_LAW]
    factor_ = Lambda.I * expect(beta * beta.T, laws)
    cross = expect(beta * y_q * x_q.T, laws)
    return Derivation.by(
        Step(r"The covariance of $\boldsymbol{\beta}$, without its first factor $\boldsymbol{\Lambda}$", factor_, part="factor"),
        Step(r"The correlation of $\boldsymbol{\beta}$ with the target and the query", cross),
        Step(
            (
                r"The minimum of the loss, with $\mathbb{E}(\boldsymbol{\beta} \boldsymbol{\beta}^{\top}) = "
                r"\boldsymbol{\Lambda} \boldsymbol{A}_w$"
            ),
            TracePolynomial(Lambda * A_w).reciprocal() * cross * Lambda_q.I,
            part="map",
        ),
        Step(
            r"For isotropic tasks $\boldsymbol{A}_w$ is $\boldsymbol{\Lambda}_{N}$, equation (16)",
            substitute(factor_, {Sigma_w: Identity(D)}),
            part="isotropic",
        ),
    )


@cache
def _excess() -> TracePolynomial:
    """E with Lambda^-1 Lambda_N = I + E / N."""
    return (TracePolynomial(Lambda.I) * shrunk_covariance() - Identity(D)) * N


@register(
    "16-loss",
    "Least loss of linear attention",
    kind="exact",
    section="Beside (16)",
    left={"map": r"\mathcal{L}(\mathcal{M}_*)", "each": r"\left[\mathcal{L}(\mathcal{M}_*)\right]_d"},
    typed=lambda: {"map": Trace(Lambda) - Trace(Lambda * Lambda_N.I * Lambda), "each": lambda_ * (1 - 1 / (1 + (1 + T / lambda_) / N))},
    conditions=(
        (
            r"$\boldsymbol{\Lambda}_N = \boldsymbol{\Lambda} + "
            r"\frac1N(\boldsymbol{\Lambda}+\operatorname{tr}(\boldsymbol{\Lambda})\boldsymbol{I})$; $T = "
            r"\operatorname{tr}(\boldsymbol{\Lambda})$"
        ),
        (
            r"The loss is the sum of the second form over the eigendirections $d$, with $\lambda$ the eigenvalue "
            r"$\lambda_{d}$"
        ),
    ),
)
def least_loss() -> Derivation:
    """The loss (9-closed) at the map (16), then on an eigenvector of Lambda."""
    at_map = rewrite(substitute(closed_loss().result, {B: Lambda_N.I}), {M * Lambda_N.I: Lambda})
    eigenvalue = rewrite(on_eigenvector(e_d.T * shrunk_covariance() * e_d), {Trace(Lambda): T})
    return Derivation.by(
        Step(
            (
                r"The loss at $\boldsymbol{B} = \boldsymbol{\Lambda}_{N}^{-1}$, with $\boldsymbol{M} "
                r"\boldsymbol{\Lambda}_{N}^{-1} = \boldsymbol{\Lambda}$"
            ),
            at_map,
            part="map",
        ),
        Step(r"The eigenvalue of $\boldsymbol{\Lambda}_{N}$ that belongs to $\lambda_{d}$", eigenvalue),
        Step("The term of one eigendirection", lambda_ - lambda_**2 / eigenvalue, part="each"),
    )


@register(
    "16-limit",
    "Least loss in a long context",
    kind="exact",
    section="Beside (16)",
    left={
        "first": r"\left[\mathcal{L}(\mathcal{M}_*)\right]_{1/N}",
        "second": r"\left[\mathcal{L}(\mathcal{M}_*)\right]_{1/N^2}",
        "remainder": r"\boldsymbol{\Lambda}^{-1}\boldsymbol{\Lambda}_N"
        r"\left(\boldsymbol{I}-\tfrac1N\boldsymbol{E}+\tfrac1{N^2}\boldsymbol{E}^2\right)-\boldsymbol{I}",
    },
    typed=lambda: {
        "first": (1 + D) * Trace(Lambda) / N,
        "second": -((1 + 2 * D) * Trace(Lambda) + Trace(Lambda) ** 2 * Trace(Lambda.I)) / N**2,
        "remainder": (Identity(D) + Trace(Lambda) * Lambda.I) ** 3 / N**3,
    },
    conditions=(
        r"$\boldsymbol{E} = \boldsymbol{I} + \operatorname{tr}(\boldsymbol{\Lambda})\boldsymbol{\Lambda}^{-1}$",
        (
            r"The least loss is $\operatorname{tr}(\boldsymbol{\Lambda}) - "
            r"\operatorname{tr}(\boldsymbol{\Lambda}_{N}^{-1} \boldsymbol{\Lambda}^{2})$, equation (16-loss)"
        ),
    ),
)
def long_context() -> Derivation:
    """The inverse of Lambda^-1 Lambda_N = I + E/N to second order in 1/N, with its exact remainder."""
    identity, excess = TracePolynomial(Identity(D)), _excess()
    inverse = identity - excess / N + excess**2 / N**2
    loss = collect(Trace(Lambda) - (inverse * Lambda).trace(), N)
    return Derivation.by(
        Step(
            (
                r"$\boldsymbol{E}$, from $\boldsymbol{\Lambda}^{-1} \boldsymbol{\Lambda}_{N} = \boldsymbol{I} + "
                r"\boldsymbol{E}/N$"
            ),
            excess,
            r"\boldsymbol{E}",
        ),
        Step(
            r"The truncated inverse times $\boldsymbol{\Lambda}^{-1} \boldsymbol{\Lambda}_{N}$, less the identity",
            (identity + excess / N) * inverse - identity,
            part="remainder",
        ),
        Step("The loss to first order in $1/N$", loss[-1] / N, part="first"),
        Step("The term of second order", loss[-2] / N**2, part="second"),
    )


@register(
    "16-large",
    "Regression in a long context",
    kind="limit",
    section="Section 3.4",
    left={
        "limit": r"\lim_{N\to\infty}\boldsymbol{\beta}^\top\boldsymbol{\Lambda}_N^{-1}\boldsymbol{x}_q",
        "next": r"\lim_{N\to\infty}N\,\boldsymbol{\beta}^\top(\boldsymbol{\Lambda}_N^{-1}-\boldsymbol{\Lambda}^{-1})\,\boldsymbol{x}_q",
    },
    typed=lambda: {"limit": beta.T * Lambda.I * x_q, "next": -beta.T * (Lambda.I + Trace(Lambda) * Lambda.I**2) * x_q},
    conditions=(r"At a given $\boldsymbol{\beta}$",),
)
def regression_in_long_context() -> Derivation:
    """The first two orders of Lambda_N^-1."""
    inverse = (TracePolynomial(Identity(D)) - _excess() / N) * Lambda.I
    orders = collect(TracePolynomial(beta).T * inverse * x_q, N)
    return Derivation.by(
        Step(r"The inverse of $\boldsymbol{\Lambda}_{N}$ to first order in $1/N$, with the remainder of (16-limit)", inverse),
        Step("The limit", orders[0], part="limit"),
        Step("$N$ times the next order", orders[-1], part="next"),
    )


@register(
    "16-ols",
    "Least squares in context has no loss",
    kind="exact",
    section="Beside (16)",
    left=r"\boldsymbol{\beta}^\top\hat{\boldsymbol{\Lambda}}^{-1}\boldsymbol{x}_q",
    typed=lambda: w.T * x_q,
    conditions=(
        (
            r"$N \ge D$, so that $\hat{\boldsymbol{\Lambda}}$ is invertible; no label noise. The right side "
            "is the target $y_{q}$"
        ),
    ),
    erratum=("The paper calls (16) approximately least squares: its loss is of order $1/N$ (16-limit), that of least squares is zero."),
)
def least_squares() -> Derivation:
    """Put in beta = Lambda_hat w."""
    output = TracePolynomial(beta.T * Lambda_hat.I * x_q)
    return Derivation.by(
        Step("Least squares in the context", output), Step("With the correlation (30)", substitute(output, {beta: Lambda_hat * w}))
    )


@cache
def level() -> Expr:
    """The eigenvalue of B in a learned eigendirection, lambda_d / a_d, in lambda_d, N and T = tr(Lambda)."""
    rules = {Lambda * e_d: lambda_ * e_d, M * e_d: _a * e_d, B * e_d: _b * e_d, e_d.T * e_d: 1}
    (value,) = solve(rewrite(e_d.T * force() * e_d, rules).to_sympy(), _b)
    a_d = rewrite(on_eigenvector(e_d.T * expect(Lambda_hat**2) * e_d), {Trace(Lambda): T})
    return value.subs(_a, a_d.to_sympy()).cancel()


@register(
    "27",
    "Principal component regression at a fixed point",
    kind="limit",
    section="Section 4.3",
    left={
        "finite": r"\left[\hat y_q\right]_d",
        "limit": r"\lim_{N\to\infty}\left[\hat y_q\right]_d",
        "next": r"\lim_{N\to\infty}N\left(\tfrac{\lambda_d}{a_d}-\tfrac1{\lambda_d}\right)",
    },
    typed=lambda: {
        "finite": 1 / (lambda_ * (1 + (1 + T / lambda_) / N)) * (beta.T * e_d) * (e_d.T * x_q),
        "limit": (w.T * e_d) * (e_d.T * x_q),
        "next": -(1 + T / lambda_) / lambda_,
    },
    conditions=(
        (
            r"The prediction is the sum of this over the learned directions $d = 1$, ..., $m$; $\lambda$ is "
            r"$\lambda_{d}$, $T = \operatorname{tr}(\boldsymbol{\Lambda})$"
        ),
        (
            r"In the limit $\boldsymbol{\beta} = \hat{\boldsymbol{\Lambda}} \boldsymbol{w}$ becomes "
            r"$\boldsymbol{\Lambda} \boldsymbol{w}$, for $\hat{\boldsymbol{\Lambda}}$ has mean $\boldsymbol{\Lambda}$ "
            "and a variance of order $1/N$ (31)"
        ),
    ),
    erratum=("The components are those of the population covariance; they are those of the context only as $N$ grows."),
)
def principal_component() -> Derivation:
    """The level at which the force vanishes on an eigenvector; then its limit."""
    finite = TracePolynomial(level()) * (beta.T * e_d) * (e_d.T * x_q)
    infinite = limit(level(), N, oo) * TracePolynomial(w.T * Lambda * e_d) * (e_d.T * x_q)
    return Derivation.by(
        Step(r"The eigenvalue of $\boldsymbol{B}$ at which the force (53) vanishes, with $a_{d}$ from (32)", level(), r"\lambda_d/a_d"),
        Step("The prediction from this direction", finite, part="finite"),
        Step(r"Its limit, with $\boldsymbol{\Lambda} \boldsymbol{w}$ for $\boldsymbol{\beta}$", infinite),
        Step(r"$\boldsymbol{\Lambda} \boldsymbol{e}_{d} = \lambda_{d} \boldsymbol{e}_{d}$", on_eigenvector(infinite), part="limit"),
        Step("$N$ times the next order of the level", factor(limit(N * (level() - 1 / lambda_), N, oo)), part="next"),
    )
