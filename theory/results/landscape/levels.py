r"""The loss at the fixed points: equations (24), (59), (60), with their limits for a long context.

As a sum over the eigenvectors of Lambda: a learned one costs lambda - lambda^3 / a, the others lambda.
"""

from functools import cache

from sympy import Expr, Identity, Symbol, Trace, cancel, limit, oo, series

from ...algebra.polynomial import TracePolynomial
from ...calculus.spectral import eigenvalue, on_and_off, over_directions, second_moment_along, summand
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...expectation.moments import expect
from ...notation import B, D, Lambda, Lambda_hat, M, N, T, a, beta, lambda_, learned, x_q, y_q
from ..task.regression import closed_loss
from .fixed_points import SPECTRUM, Gamma, fixed_map_along, m, ridge

__all__ = ["loss_along"]

I_D = Identity(D)


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
    left={"loss": r"\mathcal{L}(\mathcal{M}(S))", "limit": r"\lim_{N\to\infty}\mathcal{L}(\mathcal{M}(S))"},
    typed=lambda: {
        "loss": over_directions(lambda_ - learned * lambda_ * ridge(lambda_)),
        "limit": over_directions((1 - learned) * lambda_),
    },
    conditions=(SPECTRUM, r"$\chi_{d} = 1$ for $d$ in $S$, 0 otherwise"),
)
def fixed_loss() -> Derivation:
    """The loss (9) as a sum over the eigenvectors, with the effective map (55)."""
    return Derivation.by(
        Step("The loss as a function of the effective map", closed_loss().result, r"\mathcal{L}"),
        Step(r"The share of one eigenvector at a fixed point, with $\chi^{2} = \chi$", loss_along(), r"\ell_d"),
        Step("The moment (32) written out, and summed", over_directions(written_loss_along()), "", "loss"),
        Step("A long context", over_directions(limit(written_loss_along(), N, oo)), "", "limit"),
    )


@register(
    "24",
    "The loss levels of the plateaus",
    kind="exact",
    section="Section 4.3",
    left={
        "loss": r"\mathcal{L}(\mathcal{M}_m)",
        "limit": r"\lim_{N\to\infty}\mathcal{L}(\mathcal{M}_m)",
        "drop": r"\mathcal{L}(\mathcal{M}_{m-1})-\mathcal{L}(\mathcal{M}_m)",
        "drop, first order": r"\mathcal{L}(\mathcal{M}_{m-1})-\mathcal{L}(\mathcal{M}_m)+O(N^{-2})",
    },
    typed=lambda: {
        "loss": T - over_directions(lambda_ * ridge(lambda_), last=m),
        "limit": over_directions(lambda_, first=m + 1),
        "drop": eigenvalue[m] * ridge(eigenvalue[m]),
        "drop, first order": eigenvalue[m] - (eigenvalue[m] + T) / N,
    },
    conditions=(SPECTRUM, "$S=\\{1,\\dots,m\\}$"),
    erratum=(
        r"The drop is $\lambda_{m}$ only as $N$ goes to infinity: its relative deficit is $(1 + T / "
        r"\lambda_{m}) / N$ to first order, 10 to 42 % in the paper's figures"
    ),
)
def plateau_loss() -> Derivation:
    """The loss (59) with the first m eigenvectors learned, the drop between two such levels, and its first order in 1/N."""
    off = written_loss_along().subs(learned, 0)
    gain = off - written_loss_along().subs(learned, 1)
    drop = gain.subs(lambda_, eigenvalue[m])
    inverse = Symbol("y", positive=True)
    first = series(cancel(drop.subs(N, 1 / inverse)), inverse, 0, 2).removeO().subs(inverse, 1 / N).expand()
    long = [limit(part, N, oo) for part in (off - gain, off)]
    return Derivation.by(
        Step("The share of an eigenvector not learned, which sums to $T$", off),
        Step("What one learned eigenvector takes from the loss", gain),
        Step("The first $m$ are learned", T - over_directions(gain, last=m), "", "loss"),
        Step(
            "A long context: learned directions cost nothing, the others their eigenvalue",
            over_directions(long[0], last=m).doit() + over_directions(long[1], first=m + 1),
            "",
            "limit",
        ),
        Step("The drop", drop, "", "drop"),
        Step("The drop to first order in $1/N$", first, "", "drop, first order"),
    )


@register(
    "60",
    "The loss at a fixed point, before the average over the context",
    kind="exact",
    section="Appendix D.4",
    left={
        "sequence": r"\mathbb{E}_{\boldsymbol{w}}(y_q-\hat y_q)^2",
        "square": r"\mathbb{E}(\boldsymbol{\Gamma}\hat{\boldsymbol{\Lambda}}^2\boldsymbol{\Gamma})",
        "other order": r"\mathbb{E}\operatorname{tr}\boldsymbol{\Lambda}(\hat{\boldsymbol{\Lambda}}\boldsymbol{\Gamma}^2"
        r"\hat{\boldsymbol{\Lambda}}-\boldsymbol{\Gamma}\hat{\boldsymbol{\Lambda}}^2\boldsymbol{\Gamma})",
    },
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
    error = TracePolynomial(y_q - beta.T * Gamma * x_q) ** 2
    square = expect(Gamma * Lambda_hat**2 * Gamma)
    swapped = expect(Lambda_hat * Gamma**2 * Lambda_hat)
    return Derivation.by(
        Step("The squared error", error),
        Step("Average over the task", expect(error, given=(x_q, Lambda_hat)), "", "sequence"),
        Step("The quadratic term, averaged over the context", square, "", "square"),
        Step("What the other order would add to the loss", (Lambda * (swapped - square)).trace(), "", "other order"),
    )
