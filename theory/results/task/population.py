r"""The population loss under laws other than the paper's: label noise, task and query covariance, tokens of any law.

.. math::
    \mathcal L(B) = c - 2\operatorname{tr}(A^\top B) + \operatorname{tr}(B^\top M B Q), \quad
    A = \mathbb E(\beta y_q x_q^\top),\; M = \mathbb E(\beta\beta^\top),\; Q = \mathbb E(x_q x_q^\top),\; c = \mathbb E(y_q^2)

The query is independent of the context, whatever else the laws are: so the quadratic part stays two-sided, and A, M, Q, c say everything.
"""

from functools import cache
from typing import NamedTuple

from sympy import Trace

from ...algebra.polynomial import TracePolynomial
from ...calculus.rewriting import rewrite
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation
from ...derivations.heads import E
from ...derivations.lines import Line
from ...derivations.registry import register
from ...expectation.laws import Fixed, Gaussian, SampleCovariance
from ...expectation.moments import expect
from ...notation import B, D, Lambda, Lambda_hat, Lambda_q, MatrixLetter, N, beta, sigma, symmetric_matrix, vector, w, x_q, y_q

__all__ = ["GENERAL_LAWS", "PopulationMoments", "Sigma_w", "any_tokens", "fourth", "general_moments", "population_moments", "zeta"]

Sigma_w = symmetric_matrix("Sigma_w", D, latex=r"\boldsymbol{\Sigma}_w")  # covariance of the task vector
zeta = vector("zeta", D)  # (1/N) sum_n eps_n x_n, what label noise adds to beta
noise_q = MatrixLetter("epsilon_q", 1, 1, r"\epsilon_q")  # the noise on the label of the query
fourth = symmetric_matrix("F", D, latex=r"\boldsymbol{F}")  # E(x x' Sigma_w x x') of one token

GENERAL_LAWS = (
    Fixed(y_q, w.T * x_q + noise_q),
    Fixed(beta, Lambda_hat * w + zeta),
    Gaussian(w, covariance=Sigma_w),
    Gaussian(x_q, covariance=Lambda_q),
    Gaussian(zeta, covariance=sigma**2 / N * Lambda_hat),
    Gaussian(noise_q, covariance=sigma**2),
    SampleCovariance(Lambda_hat, Lambda, N),
)


class PopulationMoments(NamedTuple):
    """A, M, Q and c of the loss above."""

    A: TracePolynomial
    M: TracePolynomial
    Q: TracePolynomial
    c: TracePolynomial

    def loss(self) -> TracePolynomial:
        """The loss as a function of the effective map."""
        A, M, Q, c = self
        B_ = TracePolynomial(B)
        return c - 2 * (A.T * B_).trace() + (B_.T * M * B_ * Q).trace()


def population_moments(laws=(), *, given=()) -> PopulationMoments:
    """The moments under ``laws`` (see :func:`~iclflow.theory.expectation.moments.expect`; what they do not name follows the paper's laws).

    Raises ValueError where the loss is not of the form above, as it is not if the query depends on the context.
    """
    moments = PopulationMoments(*(expect(part, laws, given=given) for part in (beta * y_q * x_q.T, beta * beta.T, x_q * x_q.T, y_q**2)))
    known = (*given, Lambda_hat)
    conditional = PopulationMoments(*(expect(part, laws, given=known) for part in (beta * y_q * x_q.T, beta * beta.T, x_q * x_q.T, y_q**2)))
    loss = expect((y_q - beta.T * B * x_q) ** 2, laws, given=known)
    if loss != conditional.loss():
        raise ValueError(f"population_moments: given the context, the loss {loss} is not c - 2<A, B> + <B, M B Q>")
    return moments


@cache
def general_moments() -> PopulationMoments:
    """A, M, Q, c for label noise, any task and query covariance, and Gaussian tokens."""
    return population_moments(GENERAL_LAWS)


@cache
def any_tokens() -> PopulationMoments:
    """The same for tokens of any law with covariance Lambda: E(x x' Sigma_w x x') of one token is the letter ``fourth``.

    The other moments hold Lambda_hat once, and pairs of different tokens are independent.
    """
    given = population_moments(GENERAL_LAWS, given=(Lambda_hat,))
    different, same = pair_of_tokens()
    M = rewrite(given.M, {Lambda_hat * Sigma_w * Lambda_hat: different + same})
    return PopulationMoments(*(substitute(part, {Lambda_hat: Lambda}) for part in (given.A, M, given.Q, given.c)))


def pair_of_tokens() -> tuple[TracePolynomial, TracePolynomial]:
    """E(Lambda_hat Sigma_w Lambda_hat): N(N - 1) pairs of different tokens, for which the covariance is enough, and N of equal ones."""
    one, other = vector("x_1", D), vector("x_2", D)
    tokens = [Gaussian(one, covariance=Lambda), Gaussian(other, covariance=Lambda)]
    count = TracePolynomial(N)
    different = count * (count - 1) / count**2 * expect(one * one.T * Sigma_w * other * other.T, tokens)
    return different, count / count**2 * TracePolynomial(fourth)


@register(
    "V0",
    "The population loss under general laws",
    kind="exact",
    section="beyond the paper",
    typed=lambda: {
        "A": Lambda * Sigma_w * Lambda_q,
        "M": (1 + 1 / N) * Lambda * Sigma_w * Lambda + (Trace(Sigma_w * Lambda) + sigma**2) / N * Lambda,
        "Q": Lambda_q,
        "c": Trace(Sigma_w * Lambda_q) + sigma**2,
    },
    conditions=(
        r"$\mathcal{L}=c-2\operatorname{tr}(\boldsymbol{A}^\top\boldsymbol{B})+\operatorname{tr}(\boldsymbol{B}^\top\boldsymbol{MBQ})$ "
        "for every law under which the query is independent of the context",
        (
            r"Gaussian tokens of covariance $\boldsymbol{\Lambda}$ in the context, a query of covariance "
            r"$\boldsymbol{\Lambda}_{q}$, task vectors of covariance $\boldsymbol{\Sigma}_w$"
        ),
        (
            r"Labels $\boldsymbol{w}^{\top} \boldsymbol{x}$ plus noise of variance $\sigma^{2}$, on the query as well: "
            r"the loss includes that $\sigma^{2}$, which no model can avoid"
        ),
    ),
)
def general_loss() -> Derivation:
    """The four moments by the engine, which checks that the loss given the context has this form."""
    A, M, Q, c = moments = general_moments()
    formulas = {
        "A": (beta * y_q * x_q.T, A, r"The correlation of the target with $\boldsymbol{\beta}$ and the query, $\boldsymbol{A}$"),
        "M": (beta * beta.T, M, r"The second moment of $\boldsymbol{\beta}$, $\boldsymbol{M}$"),
        "Q": (x_q * x_q.T, Q, r"The second moment of the query, $\boldsymbol{Q}$"),
        "c": (y_q**2, c, "The mean square of the target, $c$"),
    }
    return Derivation.by(
        Line(
            E((y_q - beta.T * B * x_q) ** 2, GENERAL_LAWS),
            "=",
            moments.loss(),
            r"The loss $c-2\operatorname{tr}(\boldsymbol{A}^\top\boldsymbol{B})+\operatorname{tr}(\boldsymbol{B}^\top\boldsymbol{MBQ})$",
        ),
        *(Line(E(body, GENERAL_LAWS), "=", value, reason, part=part) for part, (body, value, reason) in formulas.items()),
    )
