r"""T2 and T3: the Hessian of F = L/2 at the fixed points of separate attention, its negative directions, and which plateaus can last.

F is half the loss, so that the flow (10) is tau dW/dt = -dF/dW. The active slots of all heads stand side by side in K_a and Q_a, n
columns, with their value weights in the diagonal matrix V: B = K_a V Q_a'. At a fixed point K_a = W kappa and Q_a = W theta, where the m
columns of W are the learned eigenvectors, W'W = I, Lambda W = W Lambda_S, M W = W M_S, and kappa V theta' = M_S^-1 Lambda_S. The Hessian
is then a sum over the eigenvectors that are not learned, plus a square.
"""

from functools import cache

from sympy import Expr, Identity, IndexedBase, Matrix, Sum, Symbol, Trace, factor, symbols

from .calculus import hessian_form, substitute
from .derivation import Derivation, Step
from .equations import register
from .landscape import Gamma
from .notation import B, D, Lambda, M, R, lambda_, matrix, symmetric_matrix, v_i, vector
from .reduction import a
from .rewriting import rewrite
from .separate import B_rest, K, Q, effective_map, rank_R_head
from .spectral import P, summand
from .task import closed_loss
from .trace_algebra import TracePolynomial

__all__ = ["core_form", "direction_form", "head_form", "learned_rules"]

m, n = symbols("m n", integer=True, positive=True)
delta_v = Symbol("delta_v", real=True)
delta_K = matrix("delta_K", D, R, latex=r"\delta\boldsymbol{K}_i")
delta_Q = matrix("delta_Q", D, R, latex=r"\delta\boldsymbol{Q}_i")
delta_B = matrix("delta_B", D, latex=r"\delta\boldsymbol{B}_{\neq i}")
I_D = Identity(D)

K_a, Q_a = matrix("K_a", D, n), matrix("Q_a", D, n)  # the active slots of all heads
V = symmetric_matrix("V", n)  # their value weights, diagonal
W = matrix("W", D, m)  # the learned eigenvectors
Lambda_S = symmetric_matrix("Lambda_S", m, latex=r"\boldsymbol{\Lambda}_S")
M_S = symmetric_matrix("M_S", m)
kappa = matrix("kappa", m, n, latex=r"\boldsymbol{\kappa}")
theta = matrix("theta", m, n, latex=r"\boldsymbol{\theta}")
e = vector("e_d", D)  # an eigenvector that is not learned
xi, eta = vector("xi", n, latex=r"\boldsymbol{\xi}"), vector("eta", n, latex=r"\boldsymbol{\eta}")
xi_0, eta_0 = vector("xi_0", n, latex=r"\boldsymbol{\xi}_0"), vector("eta_0", n, latex=r"\boldsymbol{\eta}_0")
x, y = vector("x", m), vector("y", m)

HALF_LOSS = r"\delta^2F"
AT = ("(C1) and (C2) hold", "the keys and queries of idle heads are in the span of the learned eigenvectors")


def half_loss() -> TracePolynomial:
    return closed_loss().result / 2


@cache
def learned_rules() -> dict:
    """W'W = I, Lambda W = W Lambda_S, M W = W M_S."""
    return {W.T * W: Identity(m), Lambda * W: W * Lambda_S, M * W: W * M_S}


@cache
def head_form() -> TracePolynomial:
    """The second variation of F in the weights of one head, jointly with the first variation of the others' effective map."""
    whole = substitute(half_loss(), {B: effective_map(rank_R_head())})
    return hessian_form(whole, {v_i: delta_v, K: delta_K, Q: delta_Q, B_rest: delta_B})


def first_variation():
    return delta_B + delta_v * K * Q.T + v_i * delta_K * Q.T + v_i * K * delta_Q.T


@register(
    "T2a",
    "The second variation of the loss in the weights of a head",
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
            "At a fixed point, where $\\boldsymbol{M\\Gamma}=\\boldsymbol{\\Lambda P}$ and P keeps the columns of Lambda K and Lambda Q: a "
            "square, and a term that only variations out of the span feel",
            rewrite(there, {M * Gamma: Lambda * P} | in_span),
            HALF_LOSS,
            "fixed point",
        ),
    )


def force_of_head():
    return Lambda**2 - M * effective_map(rank_R_head()) * Lambda


@cache
def direction_form() -> TracePolynomial:
    """The second variation of F at a fixed point, all active slots moving along one eigenvector that is not learned."""
    whole = substitute(half_loss(), {B: K_a * V * Q_a.T})
    form = hessian_form(whole, {K_a: e * xi.T, Q_a: e * eta.T})
    there = substitute(form, {K_a: W * kappa, Q_a: W * theta})
    orthogonal = {W.T * e: 0 * x, Lambda * e: lambda_ * e, M * e: a * e, e.T * e: 1}
    return rewrite(there, learned_rules() | orthogonal | {kappa * V * theta.T: M_S.I * Lambda_S})


@register(
    "T2b",
    "The Hessian along an eigenvector that is not learned",
    kind="exact",
    section="beside (21), (81)",
    left=HALF_LOSS,
    typed=lambda: (
        a * xi.T * V * theta.T * Lambda_S * theta * V * xi
        + lambda_ * eta.T * V * kappa.T * M_S * kappa * V * eta
        - 2 * lambda_**2 * xi.T * V * eta
    ),
    conditions=(*AT, "$\\delta K_a = e_d \\xi^\\top$, $\\delta Q_a = e_d \\eta^\\top$; different d do not mix"),
)
def along_unlearned() -> Derivation:
    """All active slots, of all heads, move along e_d."""
    whole = substitute(half_loss(), {B: K_a * V * Q_a.T})
    return Derivation.by(
        Step("Half the loss in the active slots", whole, "F"),
        Step("Differentiate twice", hessian_form(whole, {K_a: e * xi.T, Q_a: e * eta.T}), HALF_LOSS),
        Step("At the fixed point, with $\\kappa V\\theta^\\top = M_S^{-1}\\Lambda_S$", direction_form(), HALF_LOSS),
    )


@cache
def core_form() -> TracePolynomial:
    """The same, split into the m directions that move the effective map and the n - m that do not."""
    moving = {xi: kappa.T * M_S * Lambda_S.I * x + xi_0, eta: theta.T * Lambda_S.I * M_S * y + eta_0}
    redundant = {theta * V * xi_0: 0 * x, kappa * V * eta_0: 0 * x}
    return rewrite(substitute(direction_form(), moving), redundant | {kappa * V * theta.T: M_S.I * Lambda_S})


@register(
    "T2c",
    "The Hessian along an eigenvector that is not learned, split into learned directions and redundant slots",
    kind="exact",
    section="beside (21), (81)",
    left=HALF_LOSS,
    typed=lambda: (
        a * x.T * Lambda_S * x
        + lambda_ * y.T * M_S * y
        - 2 * lambda_**2 * x.T * Lambda_S.I * M_S * y
        - 2 * lambda_**2 * xi_0.T * V * eta_0
    ),
    conditions=(
        *AT,
        "$\\theta V\\xi_0 = 0$ and $\\kappa V\\eta_0 = 0$: n - m dimensions each, which V pairs without degeneracy, "
        "since $\\kappa V\\theta^\\top$ has rank m",
    ),
)
def split() -> Derivation:
    """Write the variation of the slots as one that moves the effective map, by x and y, and one that does not."""
    return Derivation.by(
        Step("The form (T2b)", direction_form(), HALF_LOSS),
        Step(
            "With $\\xi = \\kappa^\\top M_S\\Lambda_S^{-1}x + \\xi_0$ and $\\eta = \\theta^\\top\\Lambda_S^{-1}M_S\\,y + \\eta_0$: "
            "the mixed terms vanish",
            core_form(),
            HALF_LOSS,
        ),
    )


lambda_j, lambda_d, a_j, a_d = symbols("lambda_j lambda_d a_j a_d", positive=True)
x_j, y_j = symbols("x_j y_j", real=True)


@cache
def pair_block() -> Matrix:
    """The 2 x 2 block of a learned j and an unlearned d."""
    core = substitute(core_form(), {xi_0: 0 * xi_0, eta_0: 0 * eta_0, lambda_: lambda_d, a: a_d})
    share = summand(core, {Lambda_S: lambda_j, M_S: a_j, x: x_j, y: y_j})
    return Matrix(2, 2, lambda row, column: share.diff((x_j, y_j)[row], (x_j, y_j)[column]) / 2)


@register(
    "T2d",
    "A learned and an unlearned eigenvector: the sign of the Hessian on the pair",
    kind="exact",
    section="beside (21), (81)",
    left={"block": r"\boldsymbol{H}_{jd}", "determinant": r"\det\boldsymbol{H}_{jd}"},
    typed=lambda: {
        "block": Matrix(
            [
                [a_d * lambda_j, -(lambda_d**2) * a_j / lambda_j],
                [-(lambda_d**2) * a_j / lambda_j, lambda_d * a_j],
            ]
        ),
        "determinant": a_d * a_j**2 * lambda_d / lambda_j**2 * (lambda_j**3 / a_j - lambda_d**3 / a_d),
    },
    conditions=("j in S, d not in S",),
)
def pair() -> Derivation:
    """The form (T2c) along e_j: its diagonal is positive, so one eigenvalue is negative exactly if the determinant is."""
    return Derivation.by(
        Step("The block of the form (T2c) on (x_j, y_j)", pair_block(), "", "block"),
        Step(
            "Its determinant: by (T1c), negative exactly if lambda_d > lambda_j",
            factor(pair_block().det()),
            "",
            "determinant",
        ),
    )


inversions = IndexedBase("I", integer=True, nonnegative=True)
index_d = Symbol("d", integer=True, positive=True)


def redundant_index(slots: Expr) -> Expr:
    """Negative eigenvalues from the redundant slots, slots - m of them in each of the D - m directions not learned."""
    coupling = Symbol("c", positive=True)
    hyperbolic = Matrix([[0, -coupling], [-coupling, 0]])  # the last term of (T2c), on one pair
    negative = sum(count for eigenvalue, count in hyperbolic.eigenvals().items() if eigenvalue.is_negative)
    return Sum((slots - m) * negative, (index_d, 1, D - m)).doit()


@register(
    "T2e",
    "The number of negative Hessian eigenvalues at a fixed point",
    kind="exact",
    section="beside (21), (81)",
    left=r"\mathrm{index}",
    typed=lambda: (n - m) * (D - m) + Sum(inversions[index_d], (index_d, 1, D - m)),
    conditions=(
        *AT,
        "n = R times the number of heads with v_i not 0; I_d is the number of learned j with lambda_j < lambda_d; distinct eigenvalues",
    ),
)
def index() -> Derivation:
    """From (T2c): for each d, every redundant slot is a pair (0, -c; -c, 0), and a learned j counts where its block is indefinite."""
    return Derivation.by(
        Step("Redundant slots: one negative eigenvalue for each pair, in each of D - m directions", redundant_index(n)),
        Step(
            "Add the inverted pairs (T2d); variations within the span only add a square",
            redundant_index(n) + Sum(inversions[index_d], (index_d, 1, D - m)),
            r"\mathrm{index}",
        ),
    )


@register(
    "T2f",
    "An idle head that is not in the span makes a strict saddle",
    kind="exact",
    section="beside (21), (81)",
    left=HALF_LOSS,
    typed=lambda: (
        delta_v**2 * Trace(Q * K.T * M * K * Q.T * Lambda) - 2 * c * delta_v * Trace(Q.T * omega() * omega() * Q)
    ),
    conditions=("v_i = 0, $\\delta K_i = c\\,G Q_i$: negative for large c unless G Q_i = 0; likewise for $G K_i$",),
)
def idle_head() -> Derivation:
    """The form (T2a) at v_i = 0 along a variation of the value weight and of the keys, along G Q."""
    unlearned = rewrite(substitute(head_form(), {v_i: 0, B_rest: Gamma}), {M * Gamma: Lambda * P})
    alone = substitute(unlearned, {delta_B: 0 * delta_B, delta_Q: 0 * delta_Q})
    return Derivation.by(
        Step("The form (T2a) at v_i = 0, when only the value weight and the keys move", alone, HALF_LOSS),
        Step("Move the keys along c G Q", substitute(alone, {delta_K: c * omega() * Q}), HALF_LOSS),
    )


c = Symbol("c", real=True)


def omega():
    """The force (56) at a fixed point."""
    return Lambda * (I_D - P) * Lambda


@register(
    "T2g",
    "Zero maps with a nonzero value weight are strict saddles",
    kind="exact",
    section="beside (21), (81)",
    left={"form": HALF_LOSS, "eigenvalue": r"\mu_d^-", "other eigenvalue": r"\mu_d^+"},
    typed=lambda: {
        "form": -2 * v_i * Trace(delta_K.T * Lambda**2 * delta_Q),
        "eigenvalue": -value * lambda_**2,
        "other eigenvalue": value * lambda_**2,
    },
    conditions=("K_i = Q_i = 0 in every head", "for every direction d and slot r, with |v_i| = v"),
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


value = Symbol("v", positive=True)
