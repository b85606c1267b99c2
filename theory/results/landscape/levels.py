r"""The loss at the fixed points: equations (24), (59), (60), with their limits for a long context.

As a sum over the eigenvectors of Lambda: a learned one costs lambda - lambda^3 / a, the others lambda.
"""

from functools import cache

from mpmath import mpf, norm
from sympy import Expr, Identity, Symbol, Trace, cancel, limit, oo, series

from ...algebra.polynomial import TracePolynomial
from ...calculus.spectral import eigenvalue, indicator, on_and_off, over_directions, summand
from ...derivations.conditions import Condition
from ...derivations.derivation import Derivation
from ...derivations.draws import commuting, eigenbasis, learned_directions, second_moment
from ...derivations.heads import E
from ...derivations.lines import Line
from ...derivations.registry import register
from ...expectation.moments import expect
from ...notation import B, D, Lambda, Lambda_hat, M, N, P, T, a, beta, lambda_, learned, x_q, y_q
from ..task.regression import closed_loss
from ..task.second_moments import second_moment_along
from .fixed_points import SPECTRUM, Gamma, fixed_map_along, m, ridge

__all__ = ["loss_along"]

I_D = Identity(D)


def _fixed_map(point) -> None:
    learned_directions(point)
    point[Gamma] = point[M] ** -1 * point[Lambda] * point[P]


def _first_learned(point) -> None:
    values, vectors = eigenbasis(point)
    second_moment(point)
    point[m] = count = point.rng.randint(1, len(values))
    projector = commuting(vectors, [mpf(d < count) for d in range(len(values))])
    point.family(indicator, [mpf(d < count) for d in range(len(values))])
    point[Gamma] = point[M] ** -1 * point[Lambda] * projector


FIXED_MAP = Condition(
    r"$\boldsymbol{\Gamma} = \boldsymbol{M}^{-1}\boldsymbol{\Lambda}\boldsymbol{P}$ is the map (55); $\chi_d = 1$ for $d \in S$, else 0",
    lambda point: norm(point[M] * point[Gamma] - point[Lambda] * point[P]) < mpf("1e-20"),
    _fixed_map,
)
FIRST_LEARNED = Condition(r"$S=\{1,\dots,m\}$", None, _first_learned)


@cache
def loss_along() -> Expr:
    """The share of one direction in the loss at a fixed point."""
    share = summand(closed_loss().result, {Lambda: lambda_, M: a, B: learned * fixed_map_along()})
    return on_and_off(share)


@cache
def written_loss_along() -> Expr:
    off = loss_along().subs(learned, 0)
    return off - learned * cancel((off - loss_along().subs(learned, 1)).subs(a, second_moment_along()))


@register(
    "59",
    "The loss at a fixed point",
    kind="exact",
    section="Appendix D.4",
    typed=lambda: {
        "loss": over_directions(lambda_ - learned * lambda_ * ridge(lambda_)),
        "limit": over_directions((1 - learned) * lambda_),
    },
    conditions=(SPECTRUM, FIXED_MAP),
)
def fixed_loss() -> Derivation:
    """The loss (9) as a sum over the eigenvectors, with the effective map (55)."""
    error = (y_q - beta.T * Gamma * x_q) ** 2
    quadratic = Trace(Lambda) - 2 * Trace(Lambda * Gamma * Lambda) + Trace(Gamma * M * Gamma * Lambda)
    whole = over_directions(written_loss_along())
    return Derivation.by(
        Line(M, ":=", E(Lambda_hat**2), "The second moment of the sample covariance, equation (31)"),
        Line(E(error), "=", quadratic, "The loss (9-closed) on the map of a fixed point"),
        Line(
            quadratic,
            "=",
            over_directions(loss_along()),
            "Along the eigenvectors, with $\\chi_d^2 = \\chi_d$ and $a_d$ those of $\\boldsymbol{M}$",
        ),
        Line(E(error), "=", whole, "The moment (32) written out", part="loss"),
        Line(whole, "->", over_directions(limit(written_loss_along(), N, oo)), "A long context", part="limit", parameter=N, order=1),
    )


@register(
    "24",
    "The loss levels of the plateaus",
    kind="exact",
    section="Section 4.3",
    typed=lambda: {
        "loss": T - over_directions(lambda_ * ridge(lambda_), last=m),
        "limit": over_directions(lambda_, first=m + 1),
        "drop": eigenvalue[m] * ridge(eigenvalue[m]),
        "drop, first order": eigenvalue[m] - (eigenvalue[m] + T) / N,
    },
    conditions=(SPECTRUM, FIRST_LEARNED),
    erratum=(
        r"The drop is $\lambda_{m}$ only as $N$ goes to infinity: its relative deficit is $(1 + T / "
        r"\lambda_{m}) / N$ to first order, 10 to 42 % in the paper's figures"
    ),
)
def plateau_loss() -> Derivation:
    """The loss (59) with the first m eigenvectors learned, the drop between two such levels, and its first order in 1/N."""
    off = written_loss_along().subs(learned, 0)
    gain = off - written_loss_along().subs(learned, 1)
    level, before = T - over_directions(gain, last=m), T - over_directions(gain, last=m - 1)
    drop = gain.subs(lambda_, eigenvalue[m])
    inverse = Symbol("y", positive=True)
    first = series(cancel(drop.subs(N, 1 / inverse)), inverse, 0, 2).removeO().subs(inverse, 1 / N).expand()
    long = [limit(part, N, oo) for part in (off - gain, off)]
    costs = over_directions(long[0], last=m).doit() + over_directions(long[1], first=m + 1)
    return Derivation.by(
        Line(
            over_directions(written_loss_along()),
            "=",
            level,
            "The loss (59): the first $m$ directions are learned, and the eigenvalues sum to $T$",
            uses=("59",),
            part="loss",
        ),
        Line(
            level,
            "->",
            costs,
            "A long context: learned directions cost nothing, the others their eigenvalue",
            part="limit",
            parameter=N,
            order=1,
        ),
        Line(before - level, "=", drop, "The drop from one level to the next", part="drop"),
        Line(drop, "~", first, "The drop to first order in $1/N$", part="drop, first order", parameter=N, order=2),
    )


@register(
    "60",
    "The loss at a fixed point, before the average over the context",
    kind="exact",
    section="Appendix D.4",
    typed=lambda: {
        "sequence": x_q.T * (I_D - Gamma * Lambda_hat - Lambda_hat * Gamma + Gamma * Lambda_hat**2 * Gamma) * x_q,
        "square": (1 + 1 / N) * Gamma * Lambda**2 * Gamma + Trace(Lambda) / N * Gamma * Lambda * Gamma,
        "other order": (1 + 1 / N) * (Trace(Lambda**3 * Gamma**2) - Trace(Lambda * Gamma * Lambda**2 * Gamma))
        + (Trace(Gamma**2 * Lambda) * Trace(Lambda**2) - Trace(Lambda) * Trace(Gamma * Lambda * Gamma * Lambda)) / N,
    },
    conditions=(r"$\boldsymbol{\Gamma}$ is symmetric",),
    erratum=(
        r"The quadratic term is $(\hat{\boldsymbol{\Lambda}} \boldsymbol{\Gamma})^{\top} "
        r"(\hat{\boldsymbol{\Lambda}} \boldsymbol{\Gamma})$, not the square of $\hat{\boldsymbol{\Lambda}} "
        r"\boldsymbol{\Gamma}$: the paper evaluates it in two different orders. The orders differ even in the "
        "mean; the final loss (59) is that of the right one"
    ),
)
def loss_of_context() -> Derivation:
    """Average over the task with the context given, then the quadratic term over the context, in both orders."""
    error = (y_q - beta.T * Gamma * x_q) ** 2
    square, swapped = Gamma * Lambda_hat**2 * Gamma, Lambda_hat * Gamma**2 * Lambda_hat
    other = Trace(E(Lambda * (swapped - square)))
    return Derivation.by(
        Line(E(error, given=(x_q, Lambda_hat)), "=", expect(error, given=(x_q, Lambda_hat)), "Average over the task", part="sequence"),
        Line(E(square), "=", expect(square), "The quadratic term, averaged over the context", part="square"),
        Line(
            other,
            "=",
            TracePolynomial(Lambda * (expect(swapped) - expect(square))).trace(),
            "What the other order adds",
            part="other order",
        ),
        Line(E(swapped), "!=", E(square), "The paper evaluates the square in both orders, which differ even in the mean"),
    )
