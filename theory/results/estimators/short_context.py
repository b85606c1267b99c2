r"""What a short context cannot show (V9-unseen): a lower bound for the risk of Bayes at N <= D, which Jensen's inequality misses.

The posterior covariance of the task vector is rho C^-1 with C = Lambda_hat + rho I and rho = sigma^2/N: the identity outside the span of
the N tokens, and rho/(mu + rho) along a direction in which Lambda_hat is mu. The risk given the context is tr(Lambda rho C^-1).
"""

from sympy import Derivative, Identity, Symbol, Trace, cancel, diff, factor, symbols

from ...calculus import eigenvalue, over_directions
from ...derivations import Condition, E, Line, Lines, given, register, states
from ...derivations.draws import eigenbasis, satisfying
from ...expectation import Fixed, expect
from ...notation import D, Lambda, Lambda_hat, N, T, lambda_, sigma
from ..task.regression import X_c
from .optimality import TASK, C, rho, u

lambda_N = Symbol("lambda_N", positive=True)
_mu = Symbol("mu", positive=True)
_one, _two, _first, _second = symbols("lambda_1 lambda_2 m_1 m_2", positive=True)


def _short(point) -> None:
    point[N] = min(point[N], point[D])
    point[lambda_N] = eigenbasis(point)[0][point[N] - 1]


def _of_tokens(point) -> None:
    tokens = point.drawn(X_c)
    point[Lambda_hat] = tokens * tokens.T / point[N]
    point[u] = point[u] - tokens * (tokens.T * tokens) ** -1 * tokens.T * point[u]


@register("V9-unseen", "The risk of Bayes that a short context leaves")
@states("outside", lambda: u)
@states("exchange", lambda: (_one - _two) * (_first - _second))
@states("convex", lambda: 2 * rho / (_mu + rho) ** 3)
@states("mean", lambda: Trace(Lambda) / N)
@states("seen", lambda: lambda_N * N * sigma**2 / (T + sigma**2))
@states("lower", lambda: over_directions(lambda_, N + 1) + eigenvalue[N] * N * sigma**2 / (T + sigma**2))
@given(
    TASK,
    Condition(
        r"$N \le D$, and $\lambda_N$ is the $N$th of the eigenvalues of $\boldsymbol{\Lambda}$, the largest first",
        lambda point: point[N] <= point[D] and point[lambda_N] == eigenbasis(point)[0][point[N] - 1],
        _short,
        lambda point: (_short(point), point.__setitem__(lambda_N, 2 * point[T])),
    ),
    satisfying(r"$\boldsymbol{u}$ is orthogonal to the tokens", {Lambda_hat * u: 0 * u}, _of_tokens),
)
def unseen() -> Lines:
    """The posterior covariance outside the span of the tokens and inside; the least trace; Jensen's inequality inside."""
    share, mean = rho / (_mu + rho), E(Trace(Lambda_hat)) / N
    posterior, total = rho * Trace(Lambda * C.I), rho * Trace(C.I) - (D - N)
    inside = cancel(N * share.subs({_mu: T / N, rho: sigma**2 / N}))
    paired = (_one - _two) * (_first - _second)
    outside, law = over_directions(lambda_, N + 1), Fixed(C, Lambda_hat + rho * Identity(D))
    yield Line(rho, ":=", sigma**2 / N, "The penalty for which ridge is Bayes")
    yield Line(C, ":=", Lambda_hat + rho * Identity(D), r"The posterior covariance of the task vector is $\rho\boldsymbol{C}^{-1}$, with")
    yield Line(rho * C.I * u, "=", u, r"It is the identity outside the span of the tokens, on $D-N$ dimensions", (), "outside")
    yield Line(paired.expand(), "=", paired, r"Pairing eigenvalues $m$ of it with $\lambda$ in two ways, traces differ by", (), "exchange")
    yield Line(posterior, ">=", outside + lambda_N * total, r"So it is least if the $m$ that are 1 meet the smallest $\lambda$")
    yield Line(Derivative(share, (_mu, 2)), "=", factor(diff(share, _mu, 2)),
               r"The other $m$ are convex in eigenvalues of $\hat{\boldsymbol{\Lambda}}$", (), "convex")  # fmt: skip
    yield Line(total, ">=", N * share.subs(_mu, Trace(Lambda_hat) / N), "So their sum is at least $N$ times the value at the mean")
    yield Line(mean, "=", expect(Trace(Lambda_hat)) / N, "The mean over all contexts", (), "mean")
    yield Line(lambda_N * N * share.subs(_mu, mean), "=", lambda_N * inside, r"At this mean, times $\lambda_N$", (), "seen")
    yield Line(E(posterior, law), ">=", outside + eigenvalue[N] * inside, "The risk of Bayes, averaged over contexts", (), "lower")
