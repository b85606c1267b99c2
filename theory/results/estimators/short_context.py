r"""What a short context cannot show (V9-unseen): a lower bound for the risk of Bayes at N <= D, which Jensen's inequality misses.

The posterior covariance of the task vector is rho C^-1 with C = Lambda_hat + rho I and rho = sigma^2/N: the identity outside the span of
the N tokens, and rho/(mu + rho) along a direction in which Lambda_hat is mu. The risk given the context is tr(Lambda rho C^-1).
"""

from sympy import Identity, Symbol, Trace, diff, factor, symbols

from ...algebra.polynomial import TracePolynomial
from ...calculus.rewriting import rewrite
from ...calculus.spectral import eigenvalue, over_directions
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...expectation.moments import expect
from ...notation import D, Lambda, Lambda_hat, N, T, lambda_, sigma
from .optimality import TASK, C, rho, u

__all__ = ["lambda_N"]

lambda_N = Symbol("lambda_N", positive=True)
_mu = Symbol("mu", positive=True)
_one, _two, _first, _second = symbols("lambda_1 lambda_2 m_1 m_2", positive=True)


@register(
    "V9-unseen",
    "The risk of Bayes that a short context leaves",
    kind="exact",
    section="beyond the paper",
    left={
        "outside": r"\rho\boldsymbol{C}^{-1}\boldsymbol{u}",
        "exchange": r"\lambda_1m_1+\lambda_2m_2-\lambda_1m_2-\lambda_2m_1",
        "convex": r"\frac{d^2}{d\mu^2}\frac{\rho}{\mu+\rho}",
        "mean": r"\mathbb{E}\operatorname{tr}(\hat{\boldsymbol{\Lambda}})/N",
        "seen": r"\lambda_N\sum_{n\le N}\mathbb{E}\,m_n\ge",
        "lower": r"\mathcal{R}_{\mathrm{Bayes}}\ge",
    },
    typed=lambda: {
        "outside": u,
        "exchange": (_one - _two) * (_first - _second),
        "convex": 2 * rho / (_mu + rho) ** 3,
        "mean": Trace(Lambda) / N,
        "seen": lambda_N * N * sigma**2 / (T + sigma**2),
        "lower": over_directions(lambda_, N + 1) + eigenvalue[N] * N * sigma**2 / (T + sigma**2),
    },
    conditions=(
        TASK,
        r"$N\le D$, $\lambda_1\ge\dots\ge\lambda_D$, $\boldsymbol{C}=\hat{\boldsymbol{\Lambda}}+\rho\boldsymbol{I}$, $\rho=\sigma^2/N$",
        (
            r"Outside: for $\hat{\boldsymbol{\Lambda}}\boldsymbol{u}=0$, so $D - N$ eigenvalues of "
            r"$\rho\boldsymbol{C}^{-1}$ are 1; the others are $m_n=\rho/(\mu_n+\rho)$, less than 1, with the "
            r"eigenvalues $\mu_n$ of $\hat{\boldsymbol{\Lambda}}$"
        ),
        r"Exchange: $\operatorname{tr}(\boldsymbol{\Lambda}\rho\boldsymbol{C}^{-1})$ is least where the larger eigenvalues of "
        r"$\rho\boldsymbol{C}^{-1}$ meet the smaller ones of $\boldsymbol{\Lambda}$, for it is an average over the ways to pair them",
        r"So the risk is at least the sum of the $D-N$ smallest $\lambda_d$, and $\lambda_N$ times the sum of the $m_n$",
        r"Convex: so the average of an $m_n$ is at least its value at the average of $\mu$, the mean over $n$ and contexts",
        r"Without noise it is the sum of the $D-N$ smallest $\lambda_d$; for white tokens and $N=D$ it is the bound of (V9-bounds)",
    ),
)
def unseen() -> Derivation:
    """The posterior outside the span of the tokens and inside; the least trace; Jensen's inequality for what is inside."""
    spread = substitute(TracePolynomial(C), {C: Lambda_hat + rho * Identity(D)}) - Lambda_hat  # rho I
    posterior = TracePolynomial(C.I) * (TracePolynomial(C) - Lambda_hat)
    moved = rewrite(posterior * u, {Lambda_hat * u: TracePolynomial(u) - u})
    share = rho / (_mu + rho)
    mean = expect(Trace(Lambda_hat)) / N
    inside = N * share.subs({_mu: T / N}).subs(rho, sigma**2 / N)
    best, worst = _one * _first + _two * _second, _one * _second + _two * _first
    return Derivation.by(
        Step(r"$\boldsymbol{C}$ less $\hat{\boldsymbol{\Lambda}}$", spread, r"\boldsymbol{C}-\hat{\boldsymbol{\Lambda}}"),
        Step(r"So $\rho \boldsymbol{C}^{-1}$ is", posterior, r"\rho\boldsymbol{C}^{-1}"),
        Step(r"Where $\hat{\boldsymbol{\Lambda}}\boldsymbol{u}=0$", moved, part="outside"),
        Step("Two ways to pair the eigenvalues differ by", factor(best - worst), part="exchange"),
        Step("What is inside the span bends upward", factor(diff(share, _mu, 2)), part="convex"),
        Step(r"The mean of $\mu$, of which $N$ are not zero", mean, part="mean"),
        Step(r"$N$ times the value there, and $\lambda_N$", lambda_N * inside, part="seen"),
        Step("With what is outside", over_directions(lambda_, N + 1) + (lambda_N * inside).subs(lambda_N, eigenvalue[N]), part="lower"),
    )
