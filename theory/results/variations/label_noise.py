r"""Label noise, y = w' x + eps with E(eps^2) = sigma^2 (V1): it enters everything as an addition to the trace of Lambda.

.. math::
    a_d = \lambda_d^2\Bigl(1 + \frac{1 + (T + \sigma^2)/\lambda_d}{N}\Bigr), \qquad
    \mathcal L(S) = \sigma^2 + T - \sum_{d\in S}\frac{\lambda_d}{1 + (1 + (T + \sigma^2)/\lambda_d)/N}

T = tr(Lambda) is the variance of a noiseless label: so the sampling error of a context acts like label noise of variance T.
"""

from sympy import Identity, Trace, ZeroMatrix, cancel

from ...algebra.polynomial import TracePolynomial
from ...calculus.spectral import over_directions
from ...derivations.derivation import Derivation
from ...derivations.heads import E
from ...derivations.lines import Line
from ...derivations.registry import register
from ...expectation.laws import Fixed, Gaussian
from ...notation import B, D, G, Lambda, Lambda_hat, M, N, T, beta, e, lambda_, learned, sigma, v_star, vector, w, x_q, y_q
from ..landscape.completeness import off_diagonal
from ..landscape.fixed_points import direction, map_at_fixed_point, written_map_along
from ..landscape.levels import at_fixed_map, fixed_loss
from ..separate.aligned import fixed_value, growing
from ..task.population import Task, zeta
from ..task.regression import X_c, correlation_with_error
from ..task.second_moments import EIGENVECTOR as ALONG_EIGENVECTOR
from ..task.second_moments import eigenvalue, second_moment

NOISY = Task(noise=sigma**2)
noise = vector("epsilon", N, latex=r"\boldsymbol{\epsilon}")
LAWS = (
    r"$\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{I})$, Gaussian tokens, independent label noise of variance $\sigma^2$, on the "
    r"query too"
)
ALONG_e = NOISY.E((e.T * beta) ** 2)


def noisy_ridge(eigenvalue_):
    """1 / (1 + (1 + (T + sigma^2)/lambda)/N), for statements."""
    return 1 / (1 + (1 + (T + sigma**2) / eigenvalue_) / N)


@register(
    "V1-beta",
    "The correlation of a context with noisy labels",
    typed=lambda: {
        "mean": Lambda_hat * w + zeta,
        "covariance": sigma**2 / N * Lambda_hat,
        "second": (1 + 1 / N) * Lambda**2 + (Trace(Lambda) + sigma**2) / N * Lambda,
        "a": lambda_**2 * (1 + (1 + (Trace(Lambda) + sigma**2) / lambda_) / N),
    },
    conditions=(LAWS, ALONG_EIGENVECTOR),
)
def noisy_correlation() -> Derivation:
    """The noise in (8); then averages over the noise, the task and the context."""
    of_context = (Fixed(zeta, X_c * noise / N), Gaussian(noise, covariance=sigma**2 * Identity(N)))
    return Derivation.by(
        Line(Lambda_hat, ":=", X_c * X_c.T / N, "The sample covariance"),
        Line(zeta, ":=", X_c * noise / N, r"What the noise adds to $\boldsymbol{\beta}$"),
        Line(beta, ":=", X_c * (X_c.T * w + noise) / N, "The labels $y_n = \\boldsymbol{w}^\\top\\boldsymbol{x}_n + \\epsilon_n$ in (8)"),
        Line(beta, "=", Lambda_hat * w + zeta, "The sample covariance and the noise", part="mean"),
        Line(E(zeta * zeta.T, of_context, given=X_c), "=", sigma**2 / N * Lambda_hat, "Given the tokens, averaged", part="covariance"),
        *second_moment(NOISY).within({"second": "second"}),
        *eigenvalue(NOISY).within({"product": "a"}),
    )


@register(
    "V1-levels",
    "The loss at the fixed points with label noise",
    typed=lambda: {
        "loss": sigma**2 + over_directions(lambda_ - learned * lambda_ * noisy_ridge(lambda_)),
        "limit": sigma**2 + over_directions((1 - learned) * lambda_),
        "map": learned / lambda_ * noisy_ridge(lambda_),
    },
    conditions=(
        LAWS,
        direction(NOISY),
        at_fixed_map(NOISY),
        r"map: $\boldsymbol{e}$ is the unit eigenvector with eigenvalue $\lambda$, and $\chi$ its $\chi_d$",
        r"With a noiseless query the loss has no term $\sigma^2$",
        r"The fixed points are those of the paper, for $\boldsymbol{M}$ commutes with $\boldsymbol{\Lambda}$ and $\lambda^3/a$ rises "
        r"with $\lambda$ (V1-order)",
    ),
)
def noisy_levels() -> Derivation:
    """The fixed points of (23) and (59) with the noisy moment."""
    return Derivation.by(*fixed_loss(NOISY).within({"loss": "loss", "limit": "limit"}), *map_at_fixed_point(NOISY).within("map"))


@register(
    "V1-order",
    "Label noise changes no rate near the origin, only how far a direction is learned",
    typed=lambda: {
        "growth": Lambda**2,
        "fixed": lambda_ * (1 + (1 + (T + sigma**2) / lambda_) / N),
        "slope": N * lambda_ * ((N + 1) * lambda_ + 2 * (T + sigma**2)) / ((N + 1) * lambda_ + T + sigma**2) ** 2,
    },
    conditions=(
        LAWS,
        growing(NOISY),
        r"The heads of small weights grow by $\boldsymbol{\Lambda}^2$ alone: to leading order the drops come when they come without noise",
        r"The slope is positive: the largest eigenvalue is still learned first, and brings the largest drop",
    ),
)
def noisy_order() -> Derivation:
    """The force at B = 0 holds no noise; what a head rests at, (25), and how drops rise, (T1c), at the noisy moment."""
    return Derivation.by(
        Line(NOISY.E(beta * y_q * x_q.T), "=", NOISY.moments.A, "The force at zero weights: the noise adds nothing to it", part="growth"),
        *fixed_value(NOISY).within(),
        Line(v_star**-3, "=", cancel(1 / written_map_along(NOISY)), "One over its cube", part="fixed"),
        *off_diagonal(NOISY).within({"slope": "slope"})[-2:],
    )


@register(
    "V1-ridge",
    "The algorithm learned under label noise is a ridge regression with the tokens' covariance known",
    typed=lambda: {
        "map": (1 + 1 / N) * Lambda**2 + (Trace(Lambda) + sigma**2) / N * Lambda,
        "excess": Lambda + (Trace(Lambda) + sigma**2) * Identity(D),
    },
    conditions=(
        LAWS,
        r"So $\hat{y} = \boldsymbol{\beta}^{\top} (\boldsymbol{\Lambda} + "
        r"(\boldsymbol{\Lambda} + (T + \sigma^{2}) \boldsymbol{I})/N)^{-1} \boldsymbol{x}_{q}$ with $T = \operatorname{tr}"
        r"(\boldsymbol{\Lambda})$",
        r"The posterior mean is the ridge regression with $\sigma^{2}/N$, and $\hat{\boldsymbol{\Lambda}}$ for $\boldsymbol{\Lambda}$; "
        r"here $T$ is added to $\sigma^{2}$ because $\hat{\boldsymbol{\Lambda}}$ is not inverted",
    ),
)
def noisy_ridge_regression() -> Derivation:
    """The gradient vanishes at M B = Lambda; so Lambda B^-1 = M, and the penalty is the rest of it beside Lambda."""
    M_noisy = NOISY.moments.M
    return Derivation.by(
        *correlation_with_error(NOISY).within(),
        Line(B, ":=", M.I * Lambda, "The global minimum"),
        Line(G, "=", ZeroMatrix(D, D), "The force vanishes there"),
        Line(Lambda * B.I, "=", M_noisy, r"The inverse map is $\boldsymbol{\Lambda}^{-1}\boldsymbol{M}$", part="map"),
        Line(N * (B.I - Lambda), "=", N * (TracePolynomial(Lambda.I) * M_noisy - Lambda),
             r"The inverse less $\boldsymbol{\Lambda}$, times $N$", part="excess"),
    )  # fmt: skip
