r"""Where the test loss blows up (V3): directions that training hardly showed are the most amplified, once they are learned.

.. math::
    \ell_d = \lambda_q \Bigl(1 - \frac{\lambda_{\rm test}^2}{a_{\rm test}}\Bigr)
    + \lambda_q a_{\rm test} \Bigl(b - \frac{\lambda_{\rm test}}{a_{\rm test}}\Bigr)^2,
    \qquad b = \frac{\lambda}{a} \to \frac{N}{T + \sigma^2}

lambda_q is of the test too. A map of twice the best one for the test is worth no answer; b rises as its direction gets rarer.
"""

from functools import cache

from mpmath import mpf, norm
from sympy import Derivative, Expr, Symbol, cancel, factor, limit, solve

from ...calculus.spectral import summand
from ...derivations.conditions import Condition
from ...derivations.derivation import Derivation
from ...derivations.draws import along_one_eigenvector, commuting, eigenbasis
from ...derivations.heads import E
from ...derivations.lines import Line
from ...derivations.points import value_at
from ...derivations.registry import register
from ...expectation.laws import Gaussian, SampleCovariance
from ...notation import B, D, Lambda, Lambda_hat, Lambda_q, M, N, T, beta, e, lambda_, sigma, symmetric_matrix, w, x_q, y_q
from ..landscape.any_quadratic_loss import A_any, Q_any, any_loss, c_any
from ..landscape.fixed_points import b, written_map_along
from .label_noise import NOISY
from .shift import N_test, a_test, lambda_q, varied

Lambda_test = symmetric_matrix("Lambda_test", D, latex=r"\boldsymbol{\Lambda}_{\rm test}")  # the covariance of the context at test
lambda_test = Symbol("lambda_test", positive=True)  # its eigenvalue along the direction
TEST_LAWS = varied(Gaussian(w), SampleCovariance(Lambda_hat, Lambda_test, N_test))
MOMENT = E((e.T * beta) ** 2, TEST_LAWS)
SHARE = (
    E((e.T * x_q) ** 2, TEST_LAWS)
    - 2 * b * E(e.T * beta * w.T * x_q * x_q.T * e, TEST_LAWS)
    + b**2 * MOMENT * E((e.T * x_q) ** 2, TEST_LAWS)
)


@cache
def share_at_test() -> Expr:
    """The share of a direction in the test loss, for the map b: of c first, then what b takes or adds."""
    taken = summand(any_loss() - c_any, {A_any: lambda_test * lambda_q, M: a_test, Q_any: lambda_q, B: b})
    return lambda_q + taken


@cache
def learned_map() -> Expr:
    """lambda/a with label noise."""
    return written_map_along(NOISY)


def _common_eigenvector(point) -> None:
    along_one_eigenvector(point)
    values, vectors = eigenbasis(point)
    for matrix, value in ((Lambda_test, lambda_test), (Lambda_q, lambda_q)):
        point[matrix] = commuting(vectors, [mpf(3) ** mpf(point.rng.uniform(-1, 1)) for _ in values])
        point[value] = (point[e].T * point[matrix] * point[e])[0, 0]
    point[a_test] = value_at(MOMENT, point)


def _is_common(point) -> bool:
    pairs = ((Lambda, lambda_), (Lambda_test, lambda_test), (Lambda_q, lambda_q))
    return sum(norm(point[matrix] * point[e] - point[value] * point[e]) for matrix, value in pairs) < mpf("1e-20")


COMMON = Condition(
    r"Test: $\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{I})$, covariances with the eigenvectors $\boldsymbol{e}$ of "
    r"$\boldsymbol{\Lambda}$: $\lambda_{\rm test}$ is the eigenvalue of that of the context, $\lambda_{q}$ of that of the query, "
    r"$a_{\rm test}$ of the second moment of $\boldsymbol{\beta}$ (V1-beta)",
    _is_common,
    _common_eigenvector,
)


def _even(point) -> None:
    point[b] = 2 * point[lambda_test] / point[a_test]


EVEN = Condition(
    r"$\ell_d = \lambda_q$ at $b \ne 0$",
    lambda point: point[b] != 0 and abs(value_at(SHARE, point) - point[lambda_q]) < mpf("1e-20"),
    _even,
)


@register(
    "V3-unseen",
    "Where the test loss blows up: directions that training hardly showed",
    typed=lambda: {
        "share": lambda_q * (1 - lambda_test**2 / a_test) + lambda_q * a_test * (b - lambda_test / a_test) ** 2,
        "break-even": 2 * lambda_test / a_test,
        "slope": -N * (N + 1) / ((N + 1) * lambda_ + T + sigma**2) ** 2,
        "worst": N / (T + sigma**2),
        "shown": lambda_q * (1 - 2 * N * lambda_test / (T + sigma**2) + N**2 * a_test / (T + sigma**2) ** 2),
        "all": 1 + N * T * (N * T - sigma**2) / (T + sigma**2) ** 2,
    },
    conditions=(
        r"Training: $\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{I})$, Gaussian tokens of covariance "
        r"$\boldsymbol{\Lambda}$, noise $\sigma^{2}$, length $N$; $b = \lambda/a$ is learned",
        COMMON,
        r"$c$ is the sum of the $\lambda_{q}$ and the noise: a direction is worse than no answer if and only if "
        r"$b$ exceeds $2\lambda_{\rm test}/a_{\rm test}$, twice the best map for the test; without a common basis, if and only if "
        r"(V2-whitened) at test has $|\tilde{\boldsymbol{B}} - \tilde{\boldsymbol{A}}|$ above $|\tilde{\boldsymbol{A}}|$",
        r"slope: the rarer a direction, the larger its map, up to worst: the rarest one is the worst",
        r"all: noise and length as in training, and all the variance $T$ in a direction that training hardly "
        r"showed: without noise $N^{2} + 1$ times the loss of no answer",
        r"A direction that is not learned costs $\lambda_{q}$, no more: the loss at test blows up when the last "
        r"drop comes, at a time of order $1/\lambda^{2}$",
        "A direction that the queries of training hardly show is learned late (V3-query), and not amplified",
    ),
)
def unseen_direction() -> Derivation:
    """The loss of one direction at test, as a function of the map, and the map as a function of the variance in training."""
    share = share_at_test()
    best = solve(share.diff(b), b)[0]
    squared = share.subs(b, best) + share.diff(b, 2) / 2 * (b - best) ** 2
    (even,) = (root for root in solve(share - lambda_q, b) if root != 0)
    map_, slope = learned_map(), factor(learned_map().diff(lambda_))
    worst = limit(map_, lambda_, 0)
    alone = NOISY.eigenvalue.subs(lambda_, T)  # all the variance in one direction
    whole = {a_test: alone, lambda_test: T, lambda_q: T}
    vanishing = {"parameter": (lambda_, 0), "order": 1}
    return Derivation.by(
        Line(SHARE, "=", share, "The share of the direction in the loss"),
        Line(share, "=", squared, r"It is least at the map $\lambda_{\rm test}/a_{\rm test}$"),
        Line(SHARE, "=", squared, "Together", part="share"),
        Line(b, "=", even, r"It is $\lambda_{q}$ again, that of no answer, at", part="break-even", conditions=(EVEN,)),
        Line(
            E(e.T * beta * y_q * x_q.T * e) / (NOISY.E((e.T * beta) ** 2) * E((e.T * x_q) ** 2)),
            "=",
            map_,
            "The map of training, (23) with label noise",
        ),
        Line(Derivative(map_, lambda_), "=", slope, "How it changes with the variance of the direction", part="slope"),
        Line(slope, "<", 0, "It falls"),
        Line(map_, "->", worst, "A direction of vanishing variance", part="worst", **vanishing),
        Line(share.subs(b, map_), "->", share.subs(b, worst), "Its share at test", part="shown", **vanishing),
        Line(
            (share.subs(b, map_) / lambda_q).subs(whole),
            "->",
            cancel((share.subs(b, worst) / lambda_q).subs(whole)),
            "With all the variance of the test in it, over that of no answer",
            part="all",
            **vanishing,
        ),
    )
