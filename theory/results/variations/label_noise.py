r"""Label noise, y = w' x + eps with E(eps^2) = sigma^2 (V1): it enters everything as an addition to the trace of Lambda.

.. math::
    a_d = \lambda_d^2\Bigl(1 + \frac{1 + (T + \sigma^2)/\lambda_d}{N}\Bigr), \qquad
    \mathcal L(S) = \sigma^2 + T - \sum_{d\in S}\frac{\lambda_d}{1 + (1 + (T + \sigma^2)/\lambda_d)/N}

T = tr(Lambda) is the variance of a noiseless label: so a token's own sampling error acts like label noise of variance T.
"""

from functools import cache

from sympy import Expr, Identity, Trace, cancel, limit, oo

from ...algebra.polynomial import TracePolynomial
from ...calculus.spectral import along, over_directions
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...expectation.laws import Gaussian
from ...expectation.moments import expect
from ...notation import B, D, Lambda, Lambda_hat, Lambda_q, M, N, T, a, lambda_, learned, sigma, vector, w
from ..landscape.fixed_points import fixed_map_along
from ..landscape.levels import loss_along
from ..task.population import Sigma_w, general_moments, zeta
from ..task.regression import X_c, force, in_context_letters

__all__ = ["noisy_eigenvalue", "noisy_moments"]

PLAIN = {Sigma_w: Identity(D), Lambda_q: Lambda}
CONDITIONS = (
    (
        r"$\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{I})$, Gaussian tokens, $T = "
        r"\operatorname{tr}(\boldsymbol{\Lambda})$"
    ),
)
noise = vector("epsilon", N, latex=r"\boldsymbol{\epsilon}")


@cache
def noisy_moments() -> tuple[TracePolynomial, ...]:
    """A, M, Q, c for the paper's task with noise on its labels."""
    return tuple(substitute(part, PLAIN) for part in general_moments())


@cache
def noisy_eigenvalue() -> Expr:
    """a with label noise."""
    return along(noisy_moments()[1], {Lambda: lambda_}, traces={Trace(Lambda): T})


def noisy_ridge(eigenvalue) -> Expr:
    """1 / (1 + (1 + (T + sigma^2)/lambda)/N), for statements."""
    return 1 / (1 + (1 + (T + sigma**2) / eigenvalue) / N)


@register(
    "V1-beta",
    "The correlation of a context with noisy labels",
    kind="exact",
    section="beyond the paper",
    left={
        "mean": r"\boldsymbol{\beta}",
        "covariance": r"\mathbb{E}(\boldsymbol{\zeta\zeta}^\top\mid\boldsymbol{X}_c)",
        "second": r"\mathbb{E}(\boldsymbol{\beta\beta}^\top)",
        "a": "a_d",
    },
    typed=lambda: {
        "mean": Lambda_hat * w + zeta,
        "covariance": sigma**2 / N * Lambda_hat,
        "second": expect(Lambda_hat**2) + sigma**2 / N * Lambda,
        "a": lambda_**2 * (1 + (1 + (T + sigma**2) / lambda_) / N),
    },
    conditions=(*CONDITIONS, r"$\boldsymbol{\zeta}=\frac1N\boldsymbol{X}_c\boldsymbol{\epsilon}$"),
)  # fmt: skip
def noisy_correlation() -> Derivation:
    """Put y = X_c' w + eps into (8), then average over the noise, the task and the context."""
    labels = TracePolynomial(X_c.T * w + noise)
    correlation = TracePolynomial(X_c) * labels / N
    share = TracePolynomial(X_c * noise) / N
    spread = expect(share * share.T, Gaussian(noise, covariance=sigma**2 * Identity(N)), given=X_c)
    return Derivation.by(
        Step("The labels put into (8)", correlation),
        Step("The sample covariance recognised, the rest named", in_context_letters(correlation - share) + zeta, part="mean"),
        Step("The noise averages with its tokens", in_context_letters(spread), part="covariance"),
        Step("Averaged over task, noise and context", noisy_moments()[1], part="second"),
        Step(r"Along an eigenvector of $\boldsymbol{\Lambda}$", noisy_eigenvalue(), part="a"),
    )  # fmt: skip


@register(
    "V1-levels",
    "The loss at the fixed points with label noise",
    kind="exact",
    section="beyond the paper",
    left={
        "loss": r"\mathcal{L}(\mathcal{M}(S))",
        "limit": r"\lim_{N\to\infty}\mathcal{L}(\mathcal{M}(S))",
        "map": r"\boldsymbol{e}_d^\top\boldsymbol{B}\boldsymbol{e}_d",
    },
    typed=lambda: {
        "loss": sigma**2 + over_directions(lambda_ - learned * lambda_ * noisy_ridge(lambda_)),
        "limit": sigma**2 + over_directions((1 - learned) * lambda_),
        "map": learned / lambda_ * noisy_ridge(lambda_),
    },
    conditions=(
        *CONDITIONS,
        (
            r"The loss includes the $\sigma^{2}$ of the query's own label; with a noiseless query drop the first "
            r"$\sigma^{2}$"
        ),
        (
            r"$\boldsymbol{M}$ still commutes with $\boldsymbol{\Lambda}$ and $\lambda^{3}/a$ still rises with "
            r"$\lambda$: the fixed points are the same sets $S$"
        ),
    ),
)
def noisy_levels() -> Derivation:
    """The fixed points of (23) and (59) with the noisy moment."""
    share = loss_along().subs(a, noisy_eigenvalue())
    off, on = (cancel(share.subs(learned, value)) for value in (0, 1))
    written = off + learned * (on - off)
    constant = (noisy_moments()[3] - Trace(Lambda)).to_sympy()
    return Derivation.by(
        Step("The share of an eigenvector in the loss, with the noisy moment", written),
        Step("Summed, and the noise of the target added", constant + over_directions(written), part="loss"),
        Step(
            "A long context averages the noise of its labels away",
            constant + over_directions(limit(written, N, oo)),
            part="limit",
        ),
        Step("The effective map", learned * cancel(fixed_map_along().subs(a, noisy_eigenvalue())), part="map"),
    )


@register(
    "V1-order",
    "Label noise changes no rate near the origin, only how far a direction is learned",
    kind="exact",
    section="beyond the paper",
    left={
        "growth": r"\boldsymbol{G}\,|_{\boldsymbol{B}=0}",
        "fixed": r"\bigl(v^*\bigr)^{-3}",
        "slope": r"\tfrac{d}{d\lambda}\,\lambda^3/a",
    },
    typed=lambda: {
        "growth": Lambda**2,
        "fixed": lambda_ * (1 + (1 + (T + sigma**2) / lambda_) / N),
        "slope": N * lambda_ * ((N + 1) * lambda_ + 2 * (T + sigma**2)) / ((N + 1) * lambda_ + T + sigma**2) ** 2,
    },
    conditions=(
        *CONDITIONS,
        (
            r"The escape times of idle heads depend on $\boldsymbol{\Lambda}^{2}$ alone: to leading order the drops "
            "come when they come without noise"
        ),
        "The slope is positive: the largest eigenvalue is still learned first, and brings the largest drop",
    ),
)
def noisy_order() -> Derivation:
    """The force at B = 0 is A, which holds no noise; the fixed value follows from the noisy moment."""
    A = noisy_moments()[0]
    ratio = cancel(lambda_**3 / noisy_eigenvalue())
    inverse = (1 / fixed_map_along()).subs(a, noisy_eigenvalue())
    return Derivation.by(
        Step("The force at zero weights is the correlation of target and feature", A, part="growth"),
        Step(r"The cube of a learned value weight is $\lambda/a$; its inverse", cancel(inverse), part="fixed"),
        Step(r"How the drop of the loss rises with $\lambda$", cancel(ratio.diff(lambda_)), part="slope"),
    )  # fmt: skip


@register(
    "V1-ridge",
    "The algorithm learned under label noise is a ridge regression with the tokens' covariance known",
    kind="exact",
    section="beyond the paper",
    left={
        "map": r"\boldsymbol{\Lambda}\boldsymbol{B}^{-1}",
        "excess": r"N\,(\boldsymbol{B}^{-1}-\boldsymbol{\Lambda})",
    },
    typed=lambda: {
        "map": (1 + 1 / N) * Lambda**2 + (Trace(Lambda) + sigma**2) / N * Lambda,
        "excess": Lambda + (Trace(Lambda) + sigma**2) * Identity(D),
    },
    conditions=(
        *CONDITIONS,
        (
            r"$\boldsymbol{B}$ is the global minimum: $\hat{y} = \boldsymbol{\beta}^{\top} (\boldsymbol{\Lambda} + "
            r"(\boldsymbol{\Lambda} + (T + \sigma^{2}) \boldsymbol{I})/N)^{-1} \boldsymbol{x}_{q}$"
        ),
        (
            r"Bayes' ridge for this prior is $\sigma^{2}/N$, with $\hat{\boldsymbol{\Lambda}}$ for "
            r"$\boldsymbol{\Lambda}$"
        ),
        r"$T$ is added to $\sigma^{2}$ because $\hat{\boldsymbol{\Lambda}}$ is not inverted",
    ),
)
def noisy_ridge_regression() -> Derivation:
    """G = 0 is M B = Lambda; so Lambda B^-1 = M, and the penalty is what is left of it beside Lambda."""
    M_noisy = noisy_moments()[1]
    at_rest = substitute(force(), {B: M.I * Lambda})
    if at_rest != 0 * at_rest:
        raise ArithmeticError(f"the force at M^-1 Lambda should vanish, not be {at_rest}")
    return Derivation.by(
        Step("The force (53) vanishes at $\\boldsymbol{B}=\\boldsymbol{M}^{-1}\\boldsymbol{\\Lambda}$, so this is", M_noisy, part="map"),
        Step(r"The inverse less $\boldsymbol{\Lambda}$, times $N$", N * (TracePolynomial(Lambda.I) * M_noisy - Lambda), part="excess"),
    )  # fmt: skip
