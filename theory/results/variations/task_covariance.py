r"""Task vectors of covariance Sigma_w (V2): which direction is learned first, and which pays most.

In a common eigenbasis with eigenvalues lambda_d of Lambda and s_d of Sigma_w, P = sum_d s_d lambda_d:

.. math::
    A_d = \lambda_d^2 s_d, \qquad a_d = (1 + 1/N)\lambda_d^2 s_d + P\lambda_d/N, \qquad
    B_d = \frac{s_d}{(1 + 1/N)\lambda_ds_d + P/N}, \qquad \frac{A_d^2}{\lambda_da_d} = \frac{p_d^2}{(1 + 1/N)p_d + P/N}

The growth from small weights goes by lambda^2 s, the drop of the loss by p = lambda s: the orders may differ, see (V2-rotation).
Without a common eigenbasis p_d are the eigenvalues of Lambda^(1/2) Sigma_w Lambda^(1/2), see (V2-congruence).
"""

from dataclasses import replace

from mpmath import eigsy, sqrt
from sympy import Derivative, Identity, Symbol, Trace, cancel, diff

from ...algebra.polynomial import TracePolynomial
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation
from ...derivations.draws import EIGENVECTOR, along_one_eigenvector, commuting, satisfying
from ...derivations.heads import E
from ...derivations.lines import Line
from ...derivations.registry import register
from ...notation import B, D, G, Lambda, Lambda_hat, Lambda_q, M, N, beta, e, lambda_, matrix, symmetric_matrix, x_q, y_q
from ..landscape.levels import learned_alone
from ..task.population import P_w, Sigma_w, Task, omega
from ..task.regression import correlation_with_error, force
from ..task.second_moments import second_moment

p = Symbol("p", positive=True)  # lambda omega, the share of one direction in it
root = symmetric_matrix("L", D, latex=r"\boldsymbol{\Lambda}^{1/2}")
S_w = symmetric_matrix("S", D)  # Lambda^(1/2) Sigma_w Lambda^(1/2)
C = matrix("C", D)
TASK = Task(task_covariance=Sigma_w)
SHARED = replace(TASK, commuting=True)
LAWS = r"$\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{\Sigma}_{w})$, Gaussian tokens, no noise"
CORRELATION = TASK.E(beta * y_q * x_q.T)
COMMON = satisfying(
    r"$\boldsymbol{\Lambda}$ and $\boldsymbol{\Sigma}_w$ commute; $\boldsymbol{e}$ is a common unit eigenvector, of eigenvalues $\lambda$ "
    r"and $\omega$; $P = \operatorname{tr}(\boldsymbol{\Sigma}_w\boldsymbol{\Lambda})$ is the variance of a label",
    {Sigma_w * e: omega * e},
    SHARED.condition(EIGENVECTOR, along_one_eigenvector).draw,
)


def square_root(matrix_):
    """The positive root of a positive definite matrix of numbers."""
    values, vectors = eigsy(matrix_)
    return commuting(vectors, [sqrt(value) for value in values])


def _root(point) -> None:
    point[root] = square_root(point[Lambda])


ROOT = satisfying(
    r"$\boldsymbol{\Lambda}$ is positive definite, and $\boldsymbol{\Lambda}^{1/2}$ its positive root", {root**2: Lambda}, _root
)


@register(
    "V2-moments",
    "The moments of a task with a covariance",
    typed=lambda: {
        "A": Lambda * Sigma_w * Lambda,
        "M": (1 + 1 / N) * Lambda * Sigma_w * Lambda + Trace(Sigma_w * Lambda) / N * Lambda,
        "white": Lambda**2 + (Lambda**2 + Trace(Lambda) * Lambda) / N,
        "c": Trace(Sigma_w * Lambda),
    },
    conditions=(LAWS,),
)
def moments() -> Derivation:
    """The general moments without noise, for a query with the tokens' covariance."""
    A, M_, _, c = TASK.moments
    white = substitute(M_, {Sigma_w: Identity(D)})
    return Derivation.by(
        Line(CORRELATION, "=", A, "The correlation of target and feature", part="A"),
        *second_moment(TASK).within({"second": "M"}),
        Line(E(Lambda_hat**2), "=", white, r"With $\boldsymbol{\Sigma}_w = \boldsymbol{I}$ it is (31)", part="white"),
        Line(TASK.E(y_q**2), "=", c, "The variance of a label", part="c"),
    )


@register(
    "V2-order",
    r"Task and token spectra that disagree: growth by $\lambda^{2} \omega$, drops by $\lambda \omega$",
    typed=lambda: {
        "rate": lambda_**2 * omega,
        "map": omega / ((1 + 1 / N) * lambda_ * omega + P_w / N),
        "drop": p**2 / ((1 + 1 / N) * p + P_w / N),
        "slope": p * ((1 + 1 / N) * p + 2 * P_w / N) / ((1 + 1 / N) * p + P_w / N) ** 2,
    },
    conditions=(
        LAWS,
        COMMON,
        r"Waiting heads grow as $\tau\dot v=A_dv^2$ with $A_d = \lambda^2\omega$: the first drop is in the direction of the largest "
        r"$\lambda^{2} \omega$",
        r"The slope, at given $P$, is positive: the largest drop is in the direction of the largest $p = \lambda \omega$",
    ),
)
def order() -> Derivation:
    """A, A/(M Q) and A^2/(M Q) along a common eigenvector."""
    alone = learned_alone(SHARED, SHARED.eigenvalue)
    drop = cancel(alone.parts["drop"].subs(omega, p / lambda_))
    slope = cancel(diff(drop, p))
    return Derivation.by(
        Line(Derivative(drop, p), "=", slope, "How the drop of the loss, computed below, changes with $p$ at given $P$", part="slope"),
        Line(slope, ">", 0, "It rises"),
        *alone.within({"rate": "rate", "map": "map"}),
        Line(p, ":=", lambda_ * omega, "The share of the direction in it"),
        Line(alone.lines[-1].left, "=", drop, "In terms of this, what it takes from the loss", part="drop"),
    )


def in_roots(formula) -> TracePolynomial:
    """Lambda = L^2 and Sigma_w = L^-1 S L^-1, with L = Lambda^(1/2) and S = L Sigma_w L."""
    return substitute(formula, {Lambda: root**2, Sigma_w: root.I * S_w * root.I, Lambda_q: root**2})


@register(
    "V2-congruence",
    "When nothing commutes: the levels are those of commuting covariances, the directions are not orthogonal",
    typed=lambda: {
        "A": root * S_w * root,
        "M": root * ((1 + 1 / N) * S_w + Trace(S_w) / N * Identity(D)) * root,
        "force": S_w - ((1 + 1 / N) * S_w + Trace(S_w) / N * Identity(D)) * C,
        "minimum": M.I * Lambda * Sigma_w,
    },
    conditions=(
        LAWS,
        ROOT,
        r"So $\boldsymbol{C}$ is diagonal in the eigenbasis of $\boldsymbol{S}$ at every fixed point (V2-fixed), and the levels are those "
        r"of (V2-order) with $p$ the eigenvalues of $\boldsymbol{S}$",
        r"There are $2^{D}$ fixed functions if the eigenvalues of $\boldsymbol{S}$ are distinct and positive and $R H \ge D$",
        r"The learned $\boldsymbol{k}$ and $\boldsymbol{q}$ are along $\boldsymbol{\Lambda}^{-1/2} \boldsymbol{u}$, with "
        r"$\boldsymbol{u}$ an eigenvector of $\boldsymbol{S}$",
        r"Waiting heads grow along the leading eigenvector of $\boldsymbol{A}$, in general none of those: the head turns while it drops",
    ),
)
def congruence() -> Derivation:
    """Put the root of Lambda and the whitened task covariance into the moments and the force."""
    A, M_, *_ = TASK.moments
    inside = TracePolynomial(root.I) * in_roots(substitute(force(TASK), {M: M_, B: root.I * C * root.I})) * root.I
    return Derivation.by(
        *correlation_with_error(TASK).within(),
        Line(Lambda, ":=", root**2, r"The root of $\boldsymbol{\Lambda}$"),
        Line(S_w, ":=", root * Sigma_w * root, "The task covariance in whitened tokens"),
        Line(C, ":=", root * B * root, "The effective map in whitened tokens"),
        Line(CORRELATION, "=", in_roots(A), "The correlation of target and feature", part="A"),
        Line(TASK.square(), "=", in_roots(M_), r"The second moment of $\boldsymbol{\beta}$", part="M"),
        Line(root.I * G * root.I, "=", inside, "The force in whitened tokens", part="force"),
        Line(M.I * CORRELATION * E(x_q * x_q.T).I, "=", TracePolynomial(M.I) * A * Lambda.I,
             r"The global minimum, with the letter $\boldsymbol{M}$ for the second moment", part="minimum"),
        Line(CORRELATION, "=", M * (M.I * Lambda * Sigma_w) * Lambda, "The force vanishes there"),
    )  # fmt: skip
