r"""T2: the Hessian at a fixed point in the weights of one head, idle or active.

F is half the loss, so that the flow (10) is tau dW/dt = -dF/dW. All other heads enter through the first variation of their sum. At a
fixed point the effective map is Gamma, with M Gamma = Lambda P, see :mod:`~iclflow.theory.results.landscape.fixed_points`.
"""

from functools import cache

from sympy import Identity, Matrix, Symbol, Trace, symbols

from ...algebra.polynomial import TracePolynomial
from ...calculus.derivatives import hessian_form
from ...calculus.rewriting import rewrite
from ...calculus.spectral import summand
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import B, D, Lambda, M, P, R, lambda_, matrix, v_i
from ..separate.flow import B_rest, K, Q, effective_map, rank_R_head
from ..task.regression import closed_loss
from .fixed_points import Gamma

__all__ = ["half_loss", "head_form"]

delta_v = Symbol("delta_v", real=True)
delta_K = matrix("delta_K", D, R, latex=r"\delta\boldsymbol{K}_i")
delta_Q = matrix("delta_Q", D, R, latex=r"\delta\boldsymbol{Q}_i")
delta_B = matrix("delta_B", D, latex=r"\delta\boldsymbol{B}_{\neq i}")
I_D = Identity(D)
c = Symbol("c", real=True)
value = Symbol("v", positive=True)  # |v_i|

HALF_LOSS = r"\delta^2F"
AT = ("(C1) and (C2) hold", "the keys and queries of idle heads are in the span of the learned eigenvectors")


def half_loss() -> TracePolynomial:
    return closed_loss().result / 2


@cache
def head_form() -> TracePolynomial:
    """The second variation of F in the weights of one head, jointly with the first variation of the others' effective map."""
    whole = substitute(half_loss(), {B: effective_map(rank_R_head())})
    return hessian_form(whole, {v_i: delta_v, K: delta_K, Q: delta_Q, B_rest: delta_B})


def first_variation():
    return delta_B + delta_v * K * Q.T + v_i * delta_K * Q.T + v_i * K * delta_Q.T


@register(
    "T2a",
    "Stability: the second variation of the loss in the weights of a head",
    kind="exact",
    section="beside (21), (81)",
    left={"anywhere": HALF_LOSS, "fixed point": HALF_LOSS},
    typed=lambda: {
        "anywhere": Trace(first_variation().T * M * first_variation() * Lambda)
        - 2 * delta_v * Trace(force_of_head().T * (delta_K * Q.T + K * delta_Q.T))
        - 2 * v_i * Trace(force_of_head().T * delta_K * delta_Q.T),
        "fixed point": Trace(first_variation().T * M * first_variation() * Lambda)
        - 2 * v_i * Trace(delta_K.T * Lambda * (I_D - P) * Lambda * delta_Q),
    },
    conditions=(*AT, "any number of other heads, through the first variation of their sum"),
)
def second_variation() -> Derivation:
    """Differentiate twice; at a fixed point the force does not see the span of the learned eigenvectors, where K and Q are."""
    there = substitute(head_form(), {B_rest: Gamma - v_i * K * Q.T})
    in_span = {P * Lambda * K: Lambda * K, P * Lambda * Q: Lambda * Q}
    return Derivation.by(
        Step("Half the loss", half_loss(), "F"),
        Step("Differentiate twice", head_form(), HALF_LOSS, "anywhere"),
        Step(
            (
                r"At a fixed point, where $\boldsymbol{M\Gamma}=\boldsymbol{\Lambda P}$ and $P$ keeps the columns of "
                r"$\boldsymbol{\Lambda} \boldsymbol{K}$ and $\boldsymbol{\Lambda} \boldsymbol{Q}$: a square, and a "
                "term that only variations out of the span feel"
            ),
            rewrite(there, {M * Gamma: Lambda * P} | in_span),
            HALF_LOSS,
            "fixed point",
        ),
    )


def force_of_head():
    return Lambda**2 - M * effective_map(rank_R_head()) * Lambda


@register(
    "T2f",
    "Stability: an idle head that is not in the span makes a strict saddle",
    kind="exact",
    section="beside (21), (81)",
    left=HALF_LOSS,
    typed=lambda: (
        delta_v**2 * Trace(Q * K.T * M * K * Q.T * Lambda) - 2 * c * delta_v * Trace(Q.T * omega() * omega() * Q)
    ),
    conditions=(
        (
            r"$v_{i} = 0$ and $\delta\boldsymbol{K}_i=c\,\boldsymbol{GQ}_i$: negative for large $c$ unless "
            r"$\boldsymbol{G} \boldsymbol{Q}_{i} = 0$; likewise with $\boldsymbol{G} \boldsymbol{K}_{i}$"
        ),
    ),
)
def idle_head() -> Derivation:
    """The form (T2a) at v_i = 0 along a variation of the value weight and of the keys, along G Q."""
    unlearned = rewrite(substitute(head_form(), {v_i: 0, B_rest: Gamma}), {M * Gamma: Lambda * P})
    alone = substitute(unlearned, {delta_B: 0 * delta_B, delta_Q: 0 * delta_Q})
    return Derivation.by(
        Step("The form (T2a) at $v_{i} = 0$, when only the value weight and the keys move", alone, HALF_LOSS),
        Step(
            "Move the keys along $c\\,\\boldsymbol{G}\\boldsymbol{Q}_i$",
            substitute(alone, {delta_K: c * omega() * Q}),
            HALF_LOSS,
        ),
    )


def omega():
    """The force (56) at a fixed point."""
    return Lambda * (I_D - P) * Lambda


@register(
    "T2g",
    "Stability: zero maps with a nonzero value weight are strict saddles",
    kind="exact",
    section="beside (21), (81)",
    left={"form": HALF_LOSS, "eigenvalue": r"\mu_d^-", "other eigenvalue": r"\mu_d^+"},
    typed=lambda: {
        "form": -2 * v_i * Trace(delta_K.T * Lambda**2 * delta_Q),
        "eigenvalue": -value * lambda_**2,
        "other eigenvalue": value * lambda_**2,
    },
    conditions=(
        r"$\boldsymbol{K}_{i} = \boldsymbol{Q}_{i} = 0$ in every head",
        "for every direction $d$ and slot $r$, with $|v_{i}| = v$",
    ),
)
def zero_maps() -> Derivation:
    """The form (T2a) where all keys and queries are zero."""
    zero = substitute(head_form(), {K: 0 * K, Q: 0 * Q, B_rest: 0 * B_rest, delta_B: 0 * delta_B})
    k_d, q_d = symbols("k_d q_d", real=True)
    share = summand(zero, {delta_K: k_d, delta_Q: q_d, Lambda: lambda_}).subs(v_i, value)
    block = Matrix(2, 2, lambda row, column: share.diff((k_d, q_d)[row], (k_d, q_d)[column]) / 2)
    low, high = sorted(block.eigenvals(), key=lambda eigenvalue: eigenvalue.is_positive)
    return Derivation.by(
        Step("The form (T2a) with all keys and queries zero", zero, "", "form"),
        Step("Its matrix along one eigenvector, in one slot", block),
        Step("Its negative eigenvalue", low, "", "eigenvalue"),
        Step("Its positive eigenvalue", high, "", "other eigenvalue"),
    )
