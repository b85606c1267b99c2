r"""T2 and T3: how many negative eigenvalues the Hessian has at a fixed point, and so which plateaus can last.

The active slots of all heads stand side by side in K_a and Q_a, n columns, with their value weights in the diagonal matrix V:
B = K_a V Q_a'. At a fixed point K_a = W kappa and Q_a = W theta, where the m columns of W are the learned eigenvectors, W' W = I,
Lambda W = W Lambda_S, M W = W M_S, and kappa V theta' = M_S^-1 Lambda_S. The Hessian is then a sum over the eigenvectors that are not
learned, plus a square; along each it splits into pairs of two dimensions.
"""

from functools import cache
from typing import Any

from sympy import Expr, Identity, IndexedBase, Matrix, Sum, Symbol, Trace, factor, symbols

from ...algebra.polynomial import TracePolynomial
from ...calculus.derivatives import hessian_form
from ...calculus.rewriting import rewrite
from ...calculus.spectral import along, summand
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import B, D, G, H, Lambda, M, R, a, lambda_, matrix, symmetric_matrix, tau, v_i, vector
from ...notation import k_i as k
from ...notation import q_i as q
from ..separate.flow import flow_in_force, rank_one_head
from .fixed_points import m
from .stability import AT, HALF_LOSS, half_loss, value

__all__ = ["core_form", "direction_form", "learned_rules", "pair_block", "redundant_index"]

n = Symbol("n", integer=True, positive=True)  # slots of the active heads
K_a, Q_a = matrix("K_a", D, n), matrix("Q_a", D, n)  # the active slots of all heads
V = symmetric_matrix("V", n)  # their value weights, diagonal
W = matrix("W", D, m)  # the learned eigenvectors
Lambda_S = symmetric_matrix("Lambda_S", m, latex=r"\boldsymbol{\Lambda}_S")
M_S = symmetric_matrix("M_S", m)
kappa = matrix("kappa", m, n, latex=r"\boldsymbol{\kappa}")
theta = matrix("theta", m, n, latex=r"\boldsymbol{\theta}")
W_perp = matrix("W_perp", D, D - m, latex=r"\boldsymbol{W}_\perp")  # the others
Lambda_perp = symmetric_matrix("Lambda_perp", D - m, latex=r"\boldsymbol{\Lambda}_\perp")
M_perp = symmetric_matrix("M_perp", D - m, latex=r"\boldsymbol{M}_\perp")
mu, nu = matrix("mu", m, n, latex=r"\boldsymbol{\mu}"), matrix("nu", m, n, latex=r"\boldsymbol{\nu}")
Xi, Psi = matrix("Xi", D - m, n), matrix("Psi", D - m, n)
delta_V = symmetric_matrix("delta_V", n, latex=r"\delta\boldsymbol{V}")
e = vector("e_d", D)  # an eigenvector that is not learned
xi, eta = vector("xi", n, latex=r"\boldsymbol{\xi}"), vector("eta", n, latex=r"\boldsymbol{\eta}")
xi_0, eta_0 = vector("xi_0", n, latex=r"\boldsymbol{\xi}_0"), vector("eta_0", n, latex=r"\boldsymbol{\eta}_0")
x, y = vector("x", m), vector("y", m)


@cache
def learned_rules() -> dict:
    """W'W = I, Lambda W = W Lambda_S, M W = W M_S."""
    return {W.T * W: Identity(m), Lambda * W: W * Lambda_S, M * W: W * M_S}


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
    "Stability: the Hessian at a fixed point, in the active slots of all heads",
    kind="exact",
    section="beside (21), (81)",
    left={"all": HALF_LOSS, "one direction": HALF_LOSS},
    typed=lambda: {
        "all": Trace(M_perp * Xi * V * theta.T * Lambda_S * theta * V * Xi.T)
        + Trace(Lambda_perp * Psi * V * kappa.T * M_S * kappa * V * Psi.T)
        - 2 * Trace(Lambda_perp**2 * Xi * V * Psi.T)
        + Trace(within().T * M_S * within() * Lambda_S),
        "one direction": a * xi.T * V * theta.T * Lambda_S * theta * V * xi
        + lambda_ * eta.T * V * kappa.T * M_S * kappa * V * eta
        - 2 * lambda_**2 * xi.T * V * eta,
    },
    conditions=(
        *AT,
        "$\\delta\\boldsymbol{K}_a=\\boldsymbol{W\\mu}+\\boldsymbol{W}_\\perp\\boldsymbol{\\Xi}$ and "
        "$\\delta\\boldsymbol{Q}_a=\\boldsymbol{W\\nu}+\\boldsymbol{W}_\\perp\\boldsymbol{\\Psi}$: the columns of "
        "$\\boldsymbol{W}_\\perp$ are the "
        "eigenvectors not learned",
        (
            r"one direction: a row of $\Xi$ and of $\Psi$, along $\boldsymbol{e}_{d}$; since the matrices of "
            "eigenvalues are diagonal, rows do not mix"
        ),
    ),
)
def active_slots() -> Derivation:
    """Every variation of the active weights, within the span of the learned eigenvectors and out of it."""
    whole = substitute(half_loss(), {B: K_a * V * Q_a.T})
    moves = {K_a: W * mu + W_perp * Xi, Q_a: W * nu + W_perp * Psi, V: delta_V}
    there = substitute(hessian_form(whole, moves), {K_a: W * kappa, Q_a: W * theta})
    outside = {W.T * W_perp: 0 * W.T * W_perp, W_perp.T * W_perp: Identity(D - m)}
    outside |= {Lambda * W_perp: W_perp * Lambda_perp, M * W_perp: W_perp * M_perp}
    return Derivation.by(
        Step("Half the loss in the active slots", whole, "F"),
        Step(
            "Differentiate twice and put the fixed point in, with $\\boldsymbol{\\kappa "
            "V\\theta}^\\top=\\boldsymbol{M}_S^{-1}\\boldsymbol{\\Lambda}_S$; what stays within the "
            "span only adds a square",
            rewrite(there, learned_rules() | outside | {kappa * V * theta.T: M_S.I * Lambda_S}),
            HALF_LOSS,
            "all",
        ),
        Step("The same for one eigenvector that is not learned", direction_form(), HALF_LOSS, "one direction"),
    )


def within():
    """The first variation of the effective map within the span of the learned eigenvectors."""
    return mu * V * theta.T + kappa * delta_V * theta.T + kappa * V * nu.T


@cache
def moves() -> dict:
    """A variation of the slots along one unlearned eigenvector: by x and y it moves the effective map, by xi_0 and eta_0 it does not."""
    return {xi: kappa.T * M_S * Lambda_S.I * x + xi_0, eta: theta.T * Lambda_S.I * M_S * y + eta_0}


@cache
def core_form() -> TracePolynomial:
    """The form (T2b) in x, y and the redundant moves."""
    redundant = {theta * V * xi_0: 0 * x, kappa * V * eta_0: 0 * x}
    return rewrite(substitute(direction_form(), moves()), redundant | {kappa * V * theta.T: M_S.I * Lambda_S})


@register(
    "T2c",
    "Stability: the Hessian along an eigenvector that is not learned, split into learned directions and redundant slots",
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
        r"$\boldsymbol{\theta V\xi}_0=0$ and $\boldsymbol{\kappa V\eta}_0=0$: $n - m$ dimensions each",
    ),
)
def split() -> Derivation:
    """Write the variation of the slots as one that moves the effective map, by x and y, and one that does not."""
    return Derivation.by(
        Step("The form (T2b)", direction_form(), HALF_LOSS),
        Step(r"Write $\xi$ as a move of the effective map and a redundant move", moves()[xi], r"\boldsymbol{\xi}"),
        Step(r"And $\eta$", moves()[eta], r"\boldsymbol{\eta}"),
        Step("The mixed terms vanish", core_form(), HALF_LOSS),
        Step(
            (
                r"$\boldsymbol{V}$ pairs all redundant moves: one left out would be $\xi_{0} = \kappa^{\top} "
                r"\boldsymbol{x}$, and $\theta \boldsymbol{V} \xi_{0}$, which must be zero, would be"
            ),
            rewrite(theta * V * kappa.T * x, {kappa * V * theta.T: M_S.I * Lambda_S}),
        ),
        Step("So the form", core_form(), HALF_LOSS),
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
    "Stability: a learned and an unlearned eigenvector: the sign of the Hessian on the pair",
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
    conditions=("$j$ in $S$, $d$ not in $S$",),
)
def pair() -> Derivation:
    """The form (T2c) along e_j: its diagonal is positive, so one eigenvalue is negative exactly if the determinant is."""
    return Derivation.by(
        Step("The block of the form (T2c) on ($x_{j}, y_{j}$)", pair_block(), "", "block"),
        Step(
            r"Its determinant: by (T1c), negative exactly if $\lambda_{d} > \lambda_{j}$",
            factor(pair_block().det()),
            "",
            "determinant",
        ),
    )


empty = Symbol("r", integer=True, nonnegative=True)  # slots of the active heads that serve no eigenvector
inversions = IndexedBase("I", integer=True, nonnegative=True)
index_d = Symbol("d", integer=True, positive=True)


def redundant_index(slots: Expr) -> Any:
    """Negative eigenvalues from the redundant slots, slots - m of them in each of the D - m directions not learned."""
    coupling = Symbol("c", positive=True)
    hyperbolic = Matrix([[0, -coupling], [-coupling, 0]])  # the last term of (T2c), on one pair
    negative = sum(count for eigenvalue, count in hyperbolic.eigenvals().items() if eigenvalue.is_negative)
    return Sum((slots - m) * negative, (index_d, 1, D - m)).doit()


@register(
    "T2e",
    "Stability: the number of negative Hessian eigenvalues at a fixed point",
    kind="exact",
    section="beside (21), (81)",
    left=r"\mathrm{index}",
    typed=lambda: (n - m) * (D - m) + Sum(inversions[index_d], (index_d, 1, D - m)),
    conditions=(
        *AT,
        (
            "$n = R$ times the number of heads with $v_{i}$ not 0; $I_{d}$ is the number of learned $j$ with "
            r"$\lambda_{j} < \lambda_{d}$; distinct eigenvalues"
        ),
        "zero exactly if $n = m$ and the largest eigenvalues are learned, or $m = D$",
    ),
)
def index() -> Derivation:
    """From (T2c): for each d, every redundant slot is a pair (0, -c; -c, 0), and a learned j counts where its block is indefinite."""
    return Derivation.by(
        Step(
            "Redundant slots: one negative eigenvalue for each pair, in each of $D - m$ directions", redundant_index(n)
        ),
        Step(
            "Add the inverted pairs (T2d); variations within the span only add a square",
            redundant_index(n) + Sum(inversions[index_d], (index_d, 1, D - m)),
            r"\mathrm{index}",
        ),
    )


@register(
    "T3",
    "Rank $R$: only levels $m$ that $R$ divides can be long plateaus",
    kind="exact",
    section="Section 5",
    left={"index": r"\mathrm{index}(\mathcal{M}_m)", "rate": r"\text{rate}"},
    typed=lambda: {"index": empty * (D - R * H + empty), "rate": value * lambda_**2 / tau},
    conditions=(
        r"$S=\{1,\dots,m\}$ in $H$ active heads with $r$ empty slots, $m = R H - r$",
        "zero exactly if $r = 0$, which takes an $m$ that $R$ divides, or $m = D$",
        (
            "rate: at which an empty slot of a head with value weight $v$ takes up an eigenvector, so that the "
            r"plateau lasts for a time that grows as $\ln(1/w_{\rm init})$"
        ),
    ),
    erratum=(
        "The paper says that plateaus are at $m$ that divides $R$; it is the other way round, as in its own "
        "list $m = 0$, 2, 4, 6 for $R = 2$"
    ),
)
def levels() -> Derivation:
    """The index (T2e) without inversions, with m written by the number of empty slots."""
    rate = flow_in_force(rank_one_head(), (v_i, k, q))[k]
    q_d = Symbol("q_d", positive=True)
    unlearned = along(substitute(rate, {G: Lambda**2}), {Lambda: lambda_, q: q_d}).subs(v_i, value) / (tau * q_d)
    return Derivation.by(
        Step("The index (T2e) for $n$ active slots, nothing inverted", redundant_index(n), r"\mathrm{index}"),
        Step(
            "With $m = R H - r$ learned eigenvectors in $n = R H$ slots",
            redundant_index(R * H).subs(m, R * H - empty),
            "",
            "index",
        ),
        Step("An empty slot grows, with key and query equal, at the rate", unlearned, "", "rate"),
    )
