r"""Task vectors of covariance Sigma_w (V2): which direction is learned first, and which pays most.

In a common eigenbasis with eigenvalues lambda_d of Lambda and s_d of Sigma_w, P = sum_d s_d lambda_d:

.. math::
    A_d = \lambda_d^2 s_d, \qquad a_d = (1 + 1/N)\lambda_d^2 s_d + P\lambda_d/N, \qquad
    B_d = \frac{s_d}{(1 + 1/N)\lambda_ds_d + P/N}, \qquad \frac{A_d^2}{\lambda_da_d} = \frac{p_d^2}{(1 + 1/N)p_d + P/N}

The growth from small weights goes by lambda^2 s, the drop of the loss by p = lambda s: the orders may differ, see (V2-rotation).
Without a common eigenbasis p_d are the eigenvalues of Lambda^(1/2) Sigma_w Lambda^(1/2), see (V2-congruence).
"""

from functools import cache

from sympy import Expr, Identity, Symbol, Trace, cancel, diff

from ...algebra.polynomial import TracePolynomial
from ...calculus.spectral import along
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import B, D, Lambda, Lambda_q, M, N, lambda_, matrix, sigma, symmetric_matrix
from ..landscape.any_quadratic_loss import A_any, Q_any, any_force
from ..task.population import Sigma_w, general_moments

__all__ = ["commuting_levels", "task_moments"]

omega = Symbol("omega", positive=True)  # the eigenvalue of Sigma_w that belongs to lambda
P_w = Symbol("P", positive=True)  # tr(Sigma_w Lambda), the variance of a label
p = Symbol("p", positive=True)  # lambda omega, the share of one direction in it
root = symmetric_matrix("L", D, latex=r"\boldsymbol{\Lambda}^{1/2}")
S_w = symmetric_matrix("S", D)  # Lambda^(1/2) Sigma_w Lambda^(1/2)
C = matrix("C", D)
CONDITIONS = (
    (
        r"$\boldsymbol{w} \sim \mathcal{N}(0, \Sigma_{w})$, Gaussian tokens, no noise; $\omega$ is the eigenvalue of "
        r"$\Sigma_{w}$ beside $\lambda$"
    ),
    r"$P = \operatorname{tr}(\Sigma_{w} \boldsymbol{\Lambda})$ and $p = \lambda \omega$",
)


@cache
def task_moments() -> tuple[TracePolynomial, ...]:
    """A, M, Q, c for task vectors of covariance Sigma_w."""
    return tuple(substitute(part, {sigma: 0, Lambda_q: Lambda}) for part in general_moments())


@cache
def commuting_levels() -> tuple[Expr, ...]:
    """A, M, Q along a common eigenvector of Lambda and Sigma_w."""
    values = {Lambda: lambda_, Sigma_w: omega}
    traces = {Trace(Sigma_w * Lambda): P_w}
    return tuple(along(part, values, traces=traces) for part in task_moments()[:3])


@register(
    "V2-moments",
    "The moments of a task with a covariance",
    kind="exact",
    section="beyond the paper",
    left={"A": r"\boldsymbol{A}", "M": r"\boldsymbol{M}", "white": r"\boldsymbol{M}\,|_{\boldsymbol{\Sigma}_w=\boldsymbol{I}}", "c": "c"},
    typed=lambda: {
        "A": Lambda * Sigma_w * Lambda,
        "M": (1 + 1 / N) * Lambda * Sigma_w * Lambda + Trace(Sigma_w * Lambda) / N * Lambda,
        "white": Lambda**2 + (Lambda**2 + Trace(Lambda) * Lambda) / N,
        "c": Trace(Sigma_w * Lambda),
    },
    conditions=CONDITIONS[:1],
)  # fmt: skip
def moments() -> Derivation:
    """The general moments without noise, for a query with the tokens' covariance."""
    A, M_, _, c = task_moments()
    return Derivation.by(
        Step("The correlation of target and feature", A, part="A"),
        Step(r"The second moment of $\boldsymbol{\beta}$", M_, part="M"),
        Step("For the paper's task vectors this is (31)", substitute(M_, {Sigma_w: Identity(D)}), part="white"),
        Step("The variance of a label", c, part="c"),
    )


@register(
    "V2-order",
    r"Task and token spectra that disagree: growth by $\lambda^{2} \omega$, drops by $\lambda \omega$",
    kind="exact",
    section="beyond the paper",
    left={
        "rate": r"A_d",
        "map": r"B_d",
        "drop": r"s_d^2",
        "slope": r"\tfrac{d}{dp}\,s_d^2",
    },
    typed=lambda: {
        "rate": lambda_**2 * omega,
        "map": omega / ((1 + 1 / N) * lambda_ * omega + P_w / N),
        "drop": p**2 / ((1 + 1 / N) * p + P_w / N),
        "slope": p * ((1 + 1 / N) * p + 2 * P_w / N) / ((1 + 1 / N) * p + P_w / N) ** 2,
    },
    conditions=(
        *CONDITIONS,
        r"$\boldsymbol{\Lambda}$ and $\Sigma_{w}$ commute",
        (
            r"Small heads grow as $\tau\dot v=A_dv^2$: the first drop is in the direction of the largest $\lambda^{2} "
            r"\omega$"
        ),
        r"The slope is positive at given $P$: the largest drop is in the direction of the largest $\lambda \omega$",
    ),
)
def order() -> Derivation:
    """A, A/(M Q) and A^2/(M Q) along a common eigenvector."""
    A, M_, Q = commuting_levels()
    drop = cancel((A**2 / (M_ * Q)).subs(omega, p / lambda_))
    return Derivation.by(
        Step("The force at zero weights along a common eigenvector", A, part="rate"),
        Step("Where the force vanishes", cancel(A / (M_ * Q)), part="map"),
        Step("The drop of the loss (V2-fixed)", drop, part="drop"),
        Step("How it changes with $p$", cancel(diff(drop, p)), part="slope"),
    )


def in_roots(formula) -> TracePolynomial:
    """Lambda = L^2 and Sigma_w = L^-1 S L^-1, with L = Lambda^(1/2) and S = L Sigma_w L."""
    return substitute(formula, {Lambda: root**2, Sigma_w: root.I * S_w * root.I, Lambda_q: root**2})


@register(
    "V2-congruence",
    "When nothing commutes: the levels are those of commuting covariances, the directions are not orthogonal",
    kind="exact",
    section="beyond the paper",
    left={
        "A": r"\boldsymbol{A}",
        "M": r"\boldsymbol{M}",
        "force": r"\boldsymbol{\Lambda}^{-1/2}\boldsymbol{G}\boldsymbol{\Lambda}^{-1/2}",
        "minimum": r"\boldsymbol{M}^{-1}\boldsymbol{A}\boldsymbol{Q}^{-1}",
    },
    typed=lambda: {
        "A": root * S_w * root,
        "M": root * ((1 + 1 / N) * S_w + Trace(S_w) / N * Identity(D)) * root,
        "force": S_w - ((1 + 1 / N) * S_w + Trace(S_w) / N * Identity(D)) * C,
        "minimum": M.I * Lambda * Sigma_w,
    },
    conditions=(
        *CONDITIONS[:1],
        r"$\boldsymbol{S}=\boldsymbol{\Lambda}^{1/2}\boldsymbol{\Sigma}_w\boldsymbol{\Lambda}^{1/2}$, "
        r"$\boldsymbol{B}=\boldsymbol{\Lambda}^{-1/2}\boldsymbol{C}\boldsymbol{\Lambda}^{-1/2}$",
        (
            r"So $\boldsymbol{C}$ is diagonal in the eigenbasis of $S$, and the levels are those of (V2-order) with "
            "$p$ the eigenvalues of $S$"
        ),
        r"There are $2^{D}$ fixed functions if and only if the eigenvalues of $S$ are distinct (and $R H \ge D)$",
        (
            r"The learned $\boldsymbol{k}$ and $\boldsymbol{q}$ are $\boldsymbol{\Lambda}^{-1/2} \boldsymbol{e}$, "
            r"with $\boldsymbol{e}$ an eigenvector of $S$"
        ),
        (
            "Small heads grow along the leading eigenvector of $A$, in general none of those: the head turns while "
            "it drops"
        ),
    ),
)
def congruence() -> Derivation:
    """Put the root of Lambda and the whitened task covariance into the moments and the force."""
    A, M_, Q, _ = task_moments()
    force = substitute(any_force(), {A_any: A, M: M_, Q_any: Q, B: root.I * C * root.I})
    inside = TracePolynomial(root.I) * in_roots(force) * root.I
    return Derivation.by(
        Step("The correlation of target and feature", in_roots(A), part="A"),
        Step(r"The second moment of $\boldsymbol{\beta}$", in_roots(M_), part="M"),
        Step("The force", substitute(any_force(), {A_any: A, M: M_, Q_any: Q})),
        Step("Freed of its outer roots", inside, part="force"),
        Step("The global minimum", TracePolynomial(M.I) * A * Lambda.I, part="minimum"),
    )
