r"""Where the test loss blows up (V3): directions that training hardly showed are the most amplified, once they are learned.

.. math::
    \ell_d = \lambda_{q}\Bigl(1 - \frac{\lambda'^2}{a'}\Bigr) + \lambda_qa'\Bigl(b - \frac{\lambda'}{a'}\Bigr)^2, \qquad
    b = \frac{\lambda}{a} \to \frac{N}{T + \sigma^2}

Primes and lambda_q are of the test. A map of twice the test's best is worth no answer; and b rises as its direction gets rarer.
"""

from functools import cache

from sympy import Expr, Symbol, cancel, factor, limit, solve

from ...calculus.spectral import summand
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import B, M, N, T, a, lambda_, sigma
from ..landscape.any_quadratic_loss import A_any, Q_any, any_loss, c_any
from ..landscape.fixed_points import fixed_map_along
from .label_noise import noisy_eigenvalue
from .shift import a_test, b, lambda_q

__all__ = ["learned_map", "share_at_test"]

lambda_test = Symbol("lambda'", positive=True)  # the variance of the context along the direction, at test


@cache
def share_at_test() -> Expr:
    """The share of a direction in the test loss, for the map b: of c first, then what b takes or adds."""
    taken = summand(any_loss() - c_any, {A_any: lambda_test * lambda_q, M: a_test, Q_any: lambda_q, B: b})
    return lambda_q + taken


@cache
def learned_map() -> Expr:
    """lambda/a with label noise."""
    return cancel(fixed_map_along().subs(a, noisy_eigenvalue()))


@register(
    "V3-unseen",
    "Where the test loss blows up: directions that training hardly showed",
    kind="exact",
    section="beyond the paper",
    left={
        "share": r"\ell_d",
        "break-even": "b",
        "slope": r"\tfrac{d}{d\lambda}B_d",
        "worst": r"\lim_{\lambda\to0}B_d",
        "shown": r"\lim_{\lambda\to0}\ell_d",
        "all": r"\lim_{\lambda\to0}\frac{1}{T}(\mathcal{L}_{\mathrm{test}}-\sigma^2)",
    },
    typed=lambda: {
        "share": lambda_q * (1 - lambda_test**2 / a_test) + lambda_q * a_test * (b - lambda_test / a_test) ** 2,
        "break-even": 2 * lambda_test / a_test,
        "slope": -N * (N + 1) / ((N + 1) * lambda_ + T + sigma**2) ** 2,
        "worst": N / (T + sigma**2),
        "shown": lambda_q * (1 - 2 * N * lambda_test / (T + sigma**2) + N**2 * a_test / (T + sigma**2) ** 2),
        "all": 1 + N * T * (N * T - sigma**2) / (T + sigma**2) ** 2,
    },
    conditions=(
        (r"Training: $\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{I})$, Gaussian tokens of covariance "
        r"$\boldsymbol{\Lambda}$, noise $\sigma^{2}$, length $N$; $b = B_{d} = \lambda/a$ is learned"),
        (r"Test: $\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{I})$, covariances with the eigenvectors of "
        r"$\boldsymbol{\Lambda}$; $\lambda^{\top}$ of the context, $\lambda_{q}$ of the query, a' the eigenvalue "
        r"of the test's second moment of $\boldsymbol{\beta}$ (V1-beta)"),
        (r"$c$ is the sum of the $\lambda_{q}$ and the noise: a direction is worse than no answer if and only if "
        "$b$ exceeds twice lambda'/a', the best map for the test; without a common basis, if and only if "
        r"(V2-whitened) at test has $|\boldsymbol{B} - A|$ above $|A|$"),
        ("slope: the rarer a direction, the larger its $B_{d}$, up to worst: the smallest eigenvalue is the worst "
        r"direction of $\boldsymbol{B}$"),
        ("all: noise and length as in training, and all the variance $T$ in a direction that training hardly "
        "showed: without noise $N^{2} + 1$ times the loss of no answer"),
        (r"A direction that is not learned costs $\lambda_{q}$, no more: the loss at test blows up when the last "
        r"drop comes, at a time of order $1/\lambda^{2}$"),
        "A direction that the queries of training hardly show is learned late (V3-query), and not amplified",
    ),
)  # fmt: skip
def unseen_direction() -> Derivation:
    """The loss of one direction at test, as a function of the map, and the map as a function of the variance in training."""
    share = share_at_test()
    best = solve(share.diff(b), b)[0]
    squared = share.subs(b, best) + share.diff(b, 2) / 2 * (b - best) ** 2
    (even,) = (root for root in solve(share - lambda_q, b) if root != 0)
    worst = limit(learned_map(), lambda_, 0)
    shown = share.subs(b, worst)
    alone = noisy_eigenvalue().subs(lambda_, T)  # all the variance in one direction
    whole = shown.subs(a_test, alone).subs({lambda_test: T, lambda_q: T}) / T
    return Derivation.by(
        Step("The share of the direction", share),
        Step("It is least at the map lambda'/a'", squared, part="share"),
        Step(r"It is $\lambda_{q}$ again, that of no answer, at", even, part="break-even"),
        Step("The map of training", learned_map()),
        Step("How it changes with the variance of the direction", factor(learned_map().diff(lambda_)), part="slope"),
        Step("A direction of vanishing variance", worst, part="worst"),
        Step("Its share at test", shown, part="shown"),
        Step("With all the variance of the test, over that of no answer", cancel(whole), part="all"),
    )
