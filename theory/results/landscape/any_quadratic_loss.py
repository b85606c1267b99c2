r"""The fixed points of separate attention under any quadratic loss: singular directions of one whitened matrix (V2).

For :math:`\mathcal L = c - 2\operatorname{tr}(A^\top B) + \operatorname{tr}(B^\top MBQ)` with positive definite M and Q let

.. math::
    \tilde B = M^{1/2}BQ^{1/2}, \qquad \tilde A = M^{-1/2}AQ^{-1/2} = \sum_d s_d u_d v_d^\top .

Then the loss is :math:`c - |\tilde A|^2 + |\tilde B - \tilde A|^2`, and the fixed functions are
:math:`\tilde B = \sum_{d\in S}s_du_dv_d^\top`, at :math:`\mathcal L = c - \sum_{d\in S}s_d^2`: 2^D of them if the s_d are distinct and
positive and R H >= D. Nothing need commute. For the paper's task :math:`s_d^2 = \lambda_d^3/a_d`, whose distinctness is (T1c).
"""

from functools import cache

from sympy import Expr, Matrix, Symbol, Trace, diag, factor, solve, symbols

from ...algebra.polynomial import TracePolynomial
from ...calculus.derivatives import gradient
from ...calculus.entrywise import explicit
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import B, D, G, M, matrix, symmetric_matrix, v_i
from ..separate.flow import flow_in_force, k, q, rank_one_head

__all__ = ["A_any", "Q_any", "any_force", "any_loss"]

A_any = matrix("A", D)  # E(y_q beta x_q')
Q_any = symmetric_matrix("Q", D)  # E(x_q x_q')
c_any = Symbol("c", real=True)
M_root, Q_root = (symmetric_matrix(f"{name}_h", D, latex=rf"\boldsymbol{{{name}}}^{{1/2}}") for name in "MQ")
A_w = matrix("A_w", D, latex=r"\tilde{\boldsymbol{A}}")
B_w = matrix("B_w", D, latex=r"\tilde{\boldsymbol{B}}")
s_i, s_j = symbols("s_i s_j", positive=True)
B_ii, B_ij, B_ji, B_jj = symbols("B_ii B_ij B_ji B_jj", real=True)
A_d, A_j, M_d, M_j, Q_d, Q_j = symbols("A_d A_j M_d M_j Q_d Q_j", positive=True)
x, y, r, v = symbols("x y r v", positive=True)

WHITENED = {M: M_root**2, Q_any: Q_root**2, A_any: M_root * A_w * Q_root, B: M_root.I * B_w * Q_root.I}
GENERAL = r"$\boldsymbol{M}$ and $\boldsymbol{Q}$ are positive definite, $A$ is any matrix; any $H$ and $R$"


@cache
def any_loss() -> TracePolynomial:
    """c - 2 tr(A' B) + tr(B' M B Q)."""
    return TracePolynomial(c_any) - 2 * Trace(A_any.T * B) + Trace(B.T * M * B * Q_any)


@cache
def any_force() -> TracePolynomial:
    """G = A - M B Q."""
    return -gradient(any_loss(), B) / 2


@cache
def rest() -> tuple[TracePolynomial, TracePolynomial]:
    """B' G and G B', which vanish at every fixed point (T1a), in whitened letters, freed of their outer roots."""
    G = substitute(any_force(), WHITENED)
    map_ = TracePolynomial(WHITENED[B])
    return TracePolynomial(Q_root) * map_.T * G * Q_root.I, TracePolynomial(M_root.I) * G * map_.T * M_root


@register(
    "V2-whitened",
    "Whitening turns every population loss into a distance, and the conditions at fixed points into those of a linear network",
    kind="exact",
    section="beyond the paper",
    left={
        "loss": r"\mathcal{L}",
        "left": r"\boldsymbol{Q}^{1/2}\boldsymbol{B}^\top\boldsymbol{G}\boldsymbol{Q}^{-1/2}",
        "right": r"\boldsymbol{M}^{-1/2}\boldsymbol{G}\boldsymbol{B}^\top\boldsymbol{M}^{1/2}",
    },
    typed=lambda: {
        "loss": c_any - Trace(A_w.T * A_w) + Trace((B_w - A_w).T * (B_w - A_w)),
        "left": B_w.T * (A_w - B_w),
        "right": (A_w - B_w) * B_w.T,
    },
    conditions=(
        GENERAL,
        r"$\tilde{\boldsymbol{A}}=\boldsymbol{M}^{-1/2}\boldsymbol{AQ}^{-1/2}$ and "
        r"$\tilde{\boldsymbol{B}}=\boldsymbol{M}^{1/2}\boldsymbol{BQ}^{1/2}$",
        (r"$\boldsymbol{B}^{\top} \boldsymbol{G}$ and $\boldsymbol{G} \boldsymbol{B}^{\top}$ vanish at every fixed "
        "point of separate attention (T1a)"),
    ),
)  # fmt: skip
def whitening() -> Derivation:
    """Put the whitened letters into the loss and into B' G and G B'."""
    left, right = rest()
    return Derivation.by(
        Step("The loss", any_loss()),
        Step("In whitened letters", substitute(any_loss(), WHITENED), part="loss"),
        Step("The force", any_force()),
        Step(r"$\boldsymbol{B}^{\top} \boldsymbol{G}$ in whitened letters", left, part="left"),
        Step(r"$\boldsymbol{G} \boldsymbol{B}^{\top}$ in whitened letters", right, part="right"),
    )


def entry_equations() -> tuple[Expr, Expr, Expr]:
    """In the singular bases of A_w: the entries (i, j) of the antisymmetric parts of (left) and (right), and the diagonal of (left)."""
    left, right = rest()
    values = {A_w: diag(s_i, s_j), B_w: Matrix([[B_ii, B_ij], [B_ji, B_jj]])}
    pair = tuple(explicit(one - one.T, values, D=2)[0, 1] for one in (left, right))
    alone = explicit(left, values, D=2)[0, 0].subs({B_ij: 0, B_ji: 0})
    return *pair, alone


@register(
    "V2-fixed",
    "The fixed functions of separate attention under any task: subsets of the whitened singular directions",
    kind="exact",
    section="beyond the paper",
    left={"first": "0", "second": "0", "entries": "0", "diagonal": "0", "loss": r"\mathcal{L}"},
    typed=lambda: {
        "first": s_j * B_ji - s_i * B_ij,
        "second": s_i * B_ji - s_j * B_ij,
        "entries": (s_i**2 - s_j**2) * B_ij,
        "diagonal": B_ii * (s_i - B_ii),
        "loss": c_any - B_ii * (2 * s_i - B_ii),
    },
    conditions=(
        GENERAL,
        r"In the singular bases of $\tilde{\boldsymbol{A}}$, for every pair of indices",
        r"Distinct $s_{d}$ leave $\tilde{\boldsymbol{B}}$ diagonal, with entries 0 or $s_{d}$",
        (r"So there are $2^{D}$ fixed functions if $R H \ge D$ and the $s_{d}$ are distinct and positive, whether "
        "or not covariances commute"),
        (r"Each is a fixed point: one slot per learned $d$ with $\boldsymbol{k}$ along $\boldsymbol{M}^{-1/2} "
        r"\boldsymbol{u}_{d}$ and $\boldsymbol{q}$ along $\boldsymbol{Q}^{-1/2} v_{d}$"),
        "The loss there is $c$ minus the sum over $S$ of $s_{d}^{2}$: the last line is the share of one direction",
    ),
    erratum=(r"The paper has $2^{D}$ for $\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{I})$ and Gaussian tokens "
            "of one covariance; none of this is needed"),
)  # fmt: skip
def fixed_functions() -> Derivation:
    """B_w' (A_w - B_w) = 0 and (A_w - B_w) B_w' = 0, less their symmetric parts; two equations for two entries."""
    first, second, alone = entry_equations()
    determinant = first.coeff(B_ji) * second - second.coeff(B_ji) * first
    share = explicit(substitute(any_loss(), WHITENED), {A_w: diag(s_i, s_j), B_w: diag(B_ii, 0)}, D=2)
    return Derivation.by(
        Step("Entry ($i, j$) of the antisymmetric part of the first condition", first, part="first"),
        Step("Entry ($i, j$) of the antisymmetric part of the second", second, part="second"),
        Step("Eliminate $B_{ji}$", determinant.expand().coeff(B_ij) * B_ij, part="entries"),
        Step("On the diagonal", factor(alone), part="diagonal"),
        Step("The loss with one direction on", factor(share - c_any) + c_any, part="loss"),
    )


@register(
    "V2-rotation",
    "A head that has learned one direction turns to another that pays more",
    kind="exact",
    section="beyond the paper",
    left={
        "x": r"\tau\dot x",
        "y": r"\tau\dot y",
        "determinant": r"\det",
        "trace": r"\operatorname{tr}",
    },
    typed=lambda: {
        "x": v * (A_j * y - A_d * M_j / M_d * x),
        "y": v * (A_j * x - A_d * Q_j / Q_d * y),
        "determinant": v**2 * M_j * Q_j * (A_d**2 / (M_d * Q_d) - A_j**2 / (M_j * Q_j)),
        "trace": -v * A_d * (M_j / M_d + Q_j / Q_d),
    },
    conditions=(
        (
            r"$A$, $\boldsymbol{M}$ and $\boldsymbol{Q}$ are diagonal in one basis; the head rests at the saddle $S "
            r"=$ {d}, with small components $\boldsymbol{x}$ and $y$ of $\boldsymbol{k}$ and $\boldsymbol{q}$ along "
            "$j$"
        ),
        r"$v$ is its value weight there, $v r^{2} = A_{d}/(M_{d} \boldsymbol{Q}_{d})$",
        (
            "Unstable if and only if $s_{j}^{2} > s_{d}^{2}$: the head leaves $d$ for $j$ exponentially, before any "
            "idle head escapes"
        ),
        (
            "Where the largest A (first to grow) and the largest $s$ (largest drop) name different directions, "
            "training shows the extra plateau {d}"
        ),
    ),
)
def rotation() -> Derivation:
    """The flow of one head, linear in its components along another direction."""
    rates = flow_in_force(rank_one_head(), (k, q))
    one_head = {B: v_i * k * q.T}
    values = {
        k: Matrix([r, x]), q: Matrix([r, y]), A_any: diag(A_d, A_j), M: diag(M_d, M_j), Q_any: diag(Q_d, Q_j),
    }  # fmt: skip
    moving = []
    for weight in (k, q):
        rate = substitute(substitute(rates[weight], {G: any_force()}), one_head)
        along_j = explicit(substitute(rate, {v_i: v}), values, D=2)[1, 0].expand()
        linear = sum(along_j.diff(one).subs({x: 0, y: 0}) * one for one in (x, y))
        moving.append(linear)
    at_rest = solve(A_d - M_d * Q_d * v * r**2, r)[0]
    moving = [one.subs(r, at_rest).expand() for one in moving]
    system = Matrix([[one.coeff(weight) for weight in (x, y)] for one in moving])
    return Derivation.by(
        Step(r"The component of $\boldsymbol{k}$ along $j$, to first order", moving[0], part="x"),
        Step(r"The component of $\boldsymbol{q}$ along $j$, to first order", moving[1], part="y"),
        Step("The determinant of the two equations: negative for a growing mode", system.det().expand(), part="determinant"),
        Step("Their trace", system.trace(), part="trace"),
    )  # fmt: skip
