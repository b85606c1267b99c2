r"""Trained linear attention beside the predictors that no single map can equal: least squares, ridge and Bayes (V9).

The risk is the error E(w'x_q - y_hat)^2 in the noiseless target, for w ~ N(0, I), Gaussian tokens and label noise of variance sigma^2
in the context. With the letter C = Lambda_hat + rho I, ridge predicts beta' C^-1 x_q; the posterior mean is ridge with rho = sigma^2/N. Its
risk, sigma^2/N E tr(Lambda C^-1), has no elementary closed form for finite N and D > 1: there are two bounds, and the limit of
:mod:`~iclflow.theory.results.estimators.high_dimension`.
"""

from functools import cache

from sympy import Identity, S, Symbol, Trace, cancel, factor, limit, oo, solve, sqrt

from ...algebra.polynomial import TracePolynomial
from ...calculus.derivatives import derivative, gradient, hessian_form
from ...calculus.rewriting import rewrite
from ...calculus.spectral import along
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...expectation.laws import Fixed, Gaussian, SampleCovariance
from ...expectation.moments import expect
from ...notation import D, Lambda, Lambda_hat, N, T, beta, lambda_, sigma, symmetric_matrix, vector, w, x_q
from ..task.population import zeta
from ..task.regression import X_c, y
from ..variations.label_noise import noisy_eigenvalue

__all__ = ["TASK", "C", "c", "nu", "rho", "u", "white_risk"]

C = symmetric_matrix("C", D)  # Lambda_hat + rho I
rho = Symbol("rho", positive=True)  # penalty of ridge
nu = Symbol("nu", positive=True)  # variance of the noise in units of tr(Lambda), that of a noiseless label
c = Symbol("c", positive=True)  # N / D
K_hat = symmetric_matrix("K_hat", N)  # (1/D) X_c' X_c, the Gram matrix of the context
H = symmetric_matrix("H", D)
u = vector("u", D)

NOISY = (Fixed(beta, Lambda_hat * w + zeta), Gaussian(zeta, covariance=sigma**2 / N * Lambda_hat))
TASK = (
    r"$\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{I})$, Gaussian tokens, labels with noise of variance "
    r"$\sigma^{2}$; the risk leaves out the noise of the query"
)
WHITE = r"White tokens, $\boldsymbol{\Lambda} = \lambda \boldsymbol{I}$"


@register(
    "V9-posterior",
    "The Bayes predictor is ridge",
    kind="exact",
    section="beyond the paper",
    left=r"-\frac{\sigma^2}{2N}\frac{\partial}{\partial\boldsymbol{u}}"
    r"\left[\frac{1}{\sigma^2}\sum_n(y_n-\boldsymbol{u}^\top\boldsymbol{x}_n)^2+\boldsymbol{u}^\top\boldsymbol{u}\right]",
    typed=lambda: beta - (Lambda_hat + sigma**2 / N * Identity(D)) * u,
    conditions=(
        TASK,
        "The bracket is minus twice the logarithm of the posterior density of the task vector, up to a constant",
        (
            r"It vanishes at the mean, and $\hat{y} = \boldsymbol{\beta}^{\top} (\hat{\boldsymbol{\Lambda}} + "
            r"\sigma^{2}/N \boldsymbol{I})^{-1} \boldsymbol{x}_{q}$ has the least risk of all predictors"
        ),
    ),
)
def posterior_mean() -> Derivation:
    """Differentiate the logarithm of the Gaussian posterior, which is quadratic, and name what the context enters through."""
    residual = TracePolynomial(y - X_c.T * u)
    density = residual.T * residual / sigma**2 + u.T * u
    slope = -gradient(density, u) * sigma**2 / (2 * N)
    return Derivation.by(
        Step("Minus twice the logarithm of the posterior density", density),
        Step(r"Its gradient, times $-\sigma^{2}/(2N)$", slope),
        Step("In the letters of the context", rewrite(slope, {X_c * X_c.T: N * Lambda_hat, X_c * y: N * beta})),
    )


@cache
def ridge_risk() -> TracePolynomial:
    """The risk of ridge given the context."""
    error = TracePolynomial(w.T * x_q - beta.T * C.I * x_q)
    risk = expect(error**2, NOISY, given=(Lambda_hat, C))
    return substitute(risk, {Lambda_hat: C - rho * Identity(D)})


@register(
    "V9-ridge",
    "The risk of ridge given the context",
    kind="exact",
    section="beyond the paper",
    left={"any": r"r(\rho)", "slope": r"r'(\sigma^2/N)", "Bayes": r"r(\sigma^2/N)"},
    typed=lambda: {
        "any": rho**2 * Trace(Lambda * C.I**2) + sigma**2 / N * (Trace(Lambda * C.I) - rho * Trace(Lambda * C.I**2)),
        "slope": S.Zero,
        "Bayes": sigma**2 / N * Trace(Lambda * C.I),
    },
    conditions=(TASK, r"$\boldsymbol{C}=\hat{\boldsymbol{\Lambda}}+\rho\boldsymbol{I}$; the slope is zero for each context"),
)
def risk_of_ridge() -> Derivation:
    """Average over the task, the noise and the query; then rho = sigma^2 / N."""
    risk = ridge_risk()
    slope = derivative(risk, {C: Identity(D), rho: S.One})
    at_bayes = {rho: sigma**2 / N}
    return Derivation.by(
        Step(
            (
                r"Averaged over task, noise and query, with $\hat{\boldsymbol{\Lambda}} = \boldsymbol{C} - \rho "
                r"\boldsymbol{I}$"
            ),
            risk,
            part="any",
        ),
        Step(r"Its derivative in $\rho$, through $\boldsymbol{C}$ as well", slope, r"r'(\rho)"),
        Step(r"At $\rho = \sigma^{2}/N$", substitute(slope, at_bayes), part="slope"),
        Step("The risk there", substitute(risk, at_bayes), part="Bayes"),
    )


@register(
    "V9-ols",
    "The risk of least squares in context",
    kind="exact",
    section="beyond the paper",
    left={"long": r"\mathcal{R}_{\mathrm{OLS}}", "short": r"\mathcal{R}_{\mathrm{OLS}}"},
    typed=lambda: {"long": sigma**2 * D / (N - D - 1), "short": lambda_ * (D - N) + sigma**2 * N / (D - N - 1)},
    conditions=(
        TASK,
        "Long: $N > D + 1$, any covariance, which drops out",
        f"Short: $N < D - 1$, the least-norm solution; {WHITE[0].lower()}{WHITE[1:]}",
        (
            "For $N = D - 1$, $D$ and $D + 1$ the risk is infinite for any covariance, unless there is no noise; "
            r"without, it is 0 for $N \ge D$"
        ),
    ),
)
def risk_of_least_squares() -> Derivation:
    """An inverse Wishart moment: of Lambda_hat where the context is long, of its Gram matrix where it is short."""
    error = TracePolynomial(w.T * x_q - beta.T * Lambda_hat.I * x_q)
    given = expect(error**2, NOISY, given=Lambda_hat)
    # y_hat = y' (X_c' X_c)^-1 X_c' x_q with X_c' X_c = D K_hat
    gram = {X_c.T * X_c: D * K_hat}
    task_error = TracePolynomial(Identity(D) - X_c * K_hat.I * X_c.T / D)
    noise_share = TracePolynomial(X_c * K_hat.I / D)
    lost = rewrite((task_error * task_error.T).trace(), gram)
    spread = sigma**2 * rewrite((noise_share.T * noise_share).trace(), gram)
    law = SampleCovariance(K_hat, lambda_ * Identity(N), D)
    short = lambda_ * (expect(lost, law) + expect(spread, law))
    return Derivation.by(
        Step("Long contexts: averaged over task, noise and query", given),
        Step("Averaged over the context", _bare(expect(given)), part="long"),
        Step("Short ones: the share of the task vector outside the span of the tokens", lost),
        Step("And the noise inside it", spread),
        Step("Averaged over the Gram matrix, a sample covariance of $D$ tokens in $N$ dimensions", _bare(short), part="short"),
    )


def _bare(polynomial: TracePolynomial):
    """A scalar without its conditions, which the entry lists."""
    return factor(polynomial.to_sympy())


@cache
def linear_risk():
    """The risk of trained linear attention along one eigendirection: (V1-levels) with all of them learned, less the noise of the query."""
    return factor(cancel(lambda_ - lambda_**3 / noisy_eigenvalue()))


@cache
def white_risk() -> dict:
    """The risks for white tokens in units of tr(Lambda), with sigma^2 = nu tr(Lambda)."""
    in_units = {T: D * lambda_, sigma: sqrt(nu * D * lambda_)}
    long = risk_of_least_squares().parts["long"]
    return {
        "linear": factor(cancel(linear_risk().subs(in_units) / lambda_)),
        "least squares": factor(cancel(long.subs(in_units) / (lambda_ * D))),
    }


@register(
    "V9-linear",
    "The risk of trained linear attention",
    kind="exact",
    section="beyond the paper",
    left={
        "each": r"\left[\mathcal{R}_{\mathrm{lin}}\right]_d",
        "white": r"\mathcal{R}_{\mathrm{lin}}/\operatorname{tr}(\boldsymbol{\Lambda})",
    },
    typed=lambda: {"each": lambda_ * (1 - 1 / (1 + (1 + (T + sigma**2) / lambda_) / N)), "white": (1 + D + nu * D) / (N + 1 + D + nu * D)},
    conditions=(TASK, "The risk is the sum over the eigendirections $d$", r"White: $\sigma^2=\nu\operatorname{tr}(\boldsymbol{\Lambda})$"),
)
def risk_of_linear_attention() -> Derivation:
    """What is left of the loss once all directions are learned."""
    return Derivation.by(
        Step("The noisy moment (V1)", noisy_eigenvalue(), "a_d"),
        Step(r"The loss left in one direction, $\lambda - \lambda^{3}/a$", linear_risk(), part="each"),
        Step(r"White tokens, in units of $\operatorname{tr}(\boldsymbol{\Lambda})$", white_risk()["linear"], part="white"),
    )


@register(
    "V9-crossover",
    "Below this context length linear attention beats least squares",
    kind="exact",
    section="beyond the paper",
    left={"N": "N_*", "limit": r"\lim_{D\to\infty} N_*/D"},
    typed=lambda: {"N": (D + 1 + nu * D) ** 2 / (D + 1), "limit": (1 + nu) ** 2},
    conditions=(TASK, WHITE, "$N > D + 1$; without noise least squares is exact, and $N_{*} = D + 1$"),
)
def crossover() -> Derivation:
    """Set the two risks equal; the equation is linear in N."""
    linear, squares = white_risk().values()
    (length,) = solve(cancel((linear - squares).as_numer_denom()[0]), N)
    return Derivation.by(
        Step("Linear attention less least squares", factor(linear - squares)),
        Step("It vanishes at", factor(length), part="N"),
        Step("In high dimension", limit(length / D, D, oo), part="limit"),
    )


@register(
    "V9-bounds",
    "Bounds for the risk of Bayes",
    kind="exact",
    section="beyond the paper",
    left={
        "curvature": r"\frac{d^2}{d\epsilon^2}\operatorname{tr}(\boldsymbol{\Lambda}(\boldsymbol{C}+\epsilon\boldsymbol{H})^{-1})",
        "lower": r"\left[\mathcal{R}_{\mathrm{Bayes}}\right]_d\ge",
        "long": r"\lim_{N\to\infty}N\left[\mathcal{R}_{\mathrm{Bayes}}\right]_d\ge",
    },
    typed=lambda: {
        "curvature": 2 * Trace(Lambda * C.I * H * C.I * H * C.I),
        "lower": sigma**2 / N * lambda_ / (lambda_ + sigma**2 / N),
        "long": sigma**2,
    },
    conditions=(
        TASK,
        (
            r"The curvature is positive where $\boldsymbol{C}$ is, so $\operatorname{tr}(\boldsymbol{\Lambda} "
            r"\boldsymbol{C}^{-1})$ is convex in $\hat{\boldsymbol{\Lambda}}$: its average is at least its value at "
            "the mean"
        ),
        "Where $N$ is less than $D$, (V9-unseen) says more",
        (
            "Bayes is best: the risks of linear attention and of least squares are upper bounds, and the second also "
            r"tends to $\sigma^{2} D/N$"
        ),
        (
            r"Linear attention keeps $(1 + D) \operatorname{tr}(\boldsymbol{\Lambda})/N$ more, (16-limit), which no "
            "noise explains"
        ),
    ),
)
def bounds() -> Derivation:
    """Jensen's inequality for the risk given the context."""
    risk = risk_of_ridge().parts["Bayes"]
    bend = hessian_form(Trace(Lambda * C.I), {C: H})
    lower = cancel(along(sigma**2 / N * Lambda * C.I, {Lambda: lambda_, C: lambda_ + sigma**2 / N}))
    return Derivation.by(
        Step("The risk given the context", risk),
        Step(r"The second derivative of its trace in $\boldsymbol{C}$", bend, part="curvature"),
        Step(
            (
                r"The risk at the mean of the context, $\hat{\boldsymbol{\Lambda}} = \boldsymbol{\Lambda}$, along an "
                "eigendirection"
            ),
            lower,
            part="lower",
        ),
        Step("In a long context", limit(N * lower, N, oo), part="long"),
    )
