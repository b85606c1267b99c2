r"""T1: the fixed points (21), (81) are all there are, for any number of heads H and any rank R, and how many functions they give.

The proof of (T1), each step of which is an entry: at a fixed point B' G = 0 and G B' = 0 (T1a); hence B' Lambda and M^-1 Lambda^2 B' are
symmetric (T1b); for two eigenvectors with different eigenvalues these are two linear equations for two entries of B, whose determinant
does not vanish (T1c), so that B is diagonal where the eigenvalues are distinct, with B_dd = 0 or lambda_d / a_d by (C1); on an
eigenspace a B / lambda is any orthogonal projector (T1d). The rank of B is at most R H, which gives the count (T1e).
"""

from sympy import (
    Expr,
    Identity,
    IndexedBase,
    Matrix,
    Product,
    Sum,
    Symbol,
    binomial,
    cancel,
    combsimp,
    diag,
    diff,
    factor,
    solve,
    symbols,
)  # fmt: skip

from ...algebra.polynomial import TracePolynomial
from ...calculus.entrywise import explicit
from ...calculus.spectral import second_moment_along
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import B, D, G, H, Lambda, M, N, R, T, a, lambda_, matrix, v_i
from ..separate.flow import K, Q, flow_in_force, rank_R_head
from ..task.regression import force
from .fixed_points import b, force_along, m

__all__ = ["eigenspace_conditions", "entry_equations", "symmetry_conditions"]

Pi = matrix("Pi", D, latex=r"\boldsymbol{\Pi}")  # a B / lambda on an eigenspace
lambda_i, lambda_j, a_i, a_j = symbols("lambda_i lambda_j a_i a_j", positive=True)
B_ii, B_ij, B_ji, B_jj = symbols("B_ii B_ij B_ji B_jj", real=True)


@register(
    "T1a",
    "Completeness: at a fixed point the effective map and the force annihilate each other",
    kind="exact",
    section="beside (21), (81)",
    left={
        "keys": r"\boldsymbol{Q}_i(\tau\dot{\boldsymbol{Q}}_i)^\top",
        "queries": r"(\tau\dot{\boldsymbol{K}}_i)\boldsymbol{K}_i^\top",
    },
    typed=lambda: {"keys": (v_i * K * Q.T).T * G, "queries": G * (v_i * K * Q.T).T},
    conditions=(
        (
            r"summed over the heads: $\boldsymbol{B}^{\top} \boldsymbol{G} = 0$ and $\boldsymbol{G} "
            r"\boldsymbol{B}^{\top} = 0$ where the keys and queries stand still"
        ),
        "any $H$, $R$ and loss",
    ),
)
def annihilation() -> Derivation:
    """The share of one head in B' G and in G B' is a product of its weights and their velocities."""
    rates = flow_in_force(rank_R_head(), (K, Q))
    return Derivation.by(
        Step("Velocity of the keys", rates[K], r"\tau\dot{\boldsymbol{K}}_i"),
        Step("Velocity of the queries", rates[Q], r"\tau\dot{\boldsymbol{Q}}_i"),
        Step(
            r"The head's share of $\boldsymbol{B}^{\top} \boldsymbol{G}$ is zero where its queries stand still",
            Q * rates[Q].T,
            "",
            "keys",
        ),
        Step(
            r"The head's share of $\boldsymbol{G} \boldsymbol{B}^{\top}$ is zero where its keys stand still",
            rates[K] * K.T,
            "",
            "queries",
        ),
    )


def symmetry_conditions() -> tuple[TracePolynomial, TracePolynomial]:
    """The antisymmetric parts of B' G Lambda^-1 and of M^-1 G B', both zero at a fixed point."""
    first = TracePolynomial(B.T) * force() * Lambda.I
    second = TracePolynomial(M.I) * force() * B.T
    return first - first.T, second - second.T


@register(
    "T1b",
    "Completeness: two matrices that are symmetric at every fixed point",
    kind="exact",
    section="beside (21), (81)",
    left={"first": "0", "second": "0"},
    typed=lambda: {
        "first": B.T * Lambda - Lambda * B,
        "second": M.I * Lambda**2 * B.T - B * Lambda**2 * M.I,
    },
    conditions=(
        r"$\boldsymbol{B}^{\top} \boldsymbol{G} = 0$ and $\boldsymbol{G} \boldsymbol{B}^{\top} = 0$",
        r"$\boldsymbol{\Lambda}$ is positive definite",
    ),
)
def symmetries() -> Derivation:
    """B' G Lambda^-1 = B' Lambda - B' M B and M^-1 G B' = M^-1 Lambda^2 B' - B Lambda B', each zero, each less a symmetric matrix."""
    first, second = symmetry_conditions()
    return Derivation.by(
        Step(
            (
                r"$\boldsymbol{B}^{\top} \boldsymbol{G}$, with the force (53), times the inverse of "
                r"$\boldsymbol{\Lambda}$"
            ),
            TracePolynomial(B.T) * force() * Lambda.I,
        ),
        Step(
            (
                r"$\boldsymbol{B}^{\top} \boldsymbol{M} \boldsymbol{B}$ is symmetric, so at a fixed point the other "
                "term is"
            ),
            first,
            "",
            "first",
        ),
        Step(
            r"The inverse of $\boldsymbol{M}$ times $\boldsymbol{G} \boldsymbol{B}^{\top}$",
            TracePolynomial(M.I) * force() * B.T,
        ),
        Step(
            (
                r"$\boldsymbol{B} \boldsymbol{\Lambda} \boldsymbol{B}^{\top}$ is symmetric, so at a fixed point the "
                "other term is"
            ),
            second,
            "",
            "second",
        ),
    )


def entry_equations() -> tuple[Expr, Expr]:
    """The entries (i, j) of the two conditions (T1b) in the eigenbasis. Lambda and M are diagonal there, so no other index enters."""
    values = {Lambda: diag(lambda_i, lambda_j), M: diag(a_i, a_j), B: Matrix([[B_ii, B_ij], [B_ji, B_jj]])}
    first, second = (explicit(condition, values, D=2)[0, 1] for condition in symmetry_conditions())
    return first, second


@register(
    "T1c",
    "Completeness: off the diagonal the effective map is zero between different eigenvalues",
    kind="exact",
    section="beside (21), (81)",
    left={
        "first": "0",
        "second": "0",
        "determinant": r"\det",
        "gap": r"\det",
        "slope": r"\tfrac{d}{d\lambda}\,\lambda c(\lambda)",
    },
    typed=lambda: {
        "first": lambda_j * B_ji - lambda_i * B_ij,
        "second": lambda_i**2 / a_i * B_ji - lambda_j**2 / a_j * B_ij,
        "determinant": lambda_i**3 / a_i - lambda_j**3 / a_j,
        "gap": N * (lambda_i - lambda_j) * ((N + 1) * lambda_i * lambda_j + T * (lambda_i + lambda_j))
        / (((N + 1) * lambda_i + T) * ((N + 1) * lambda_j + T)),
        "slope": lambda_ * N * (2 * T + lambda_ * N + lambda_) / (T + lambda_ * N + lambda_) ** 2,
    },
    conditions=(r"any two eigenvectors of $\boldsymbol{\Lambda}$", r"$c = \lambda^{2} / a$"),
)  # fmt: skip
def off_diagonal() -> Derivation:
    """Two homogeneous equations for B_ij and B_ji, whose determinant has the sign of lambda_i - lambda_j."""
    first, second = entry_equations()
    system = Matrix([[equation.coeff(entry) for entry in (B_ji, B_ij)] for equation in (first, second)])
    determinant = system.det()
    written = second_moment_along()
    moments = {a_i: written.subs(lambda_, lambda_i), a_j: written.subs(lambda_, lambda_j)}
    return Derivation.by(
        Step("Entry ($i, j$) of the first condition", first, "", "first"),
        Step("Entry ($i, j$) of the second condition", second, "", "second"),
        Step("The determinant of the two equations", determinant.expand(), "", "determinant"),
        Step(
            "With the moments (32): zero for equal eigenvalues only, all other factors being positive",
            factor(cancel(determinant.subs(moments))),
            "",
            "gap",
        ),
        Step(
            r"Or: $\lambda c(\lambda)$ rises strictly, for its derivative has positive coefficients",
            factor(diff(lambda_**3 / written, lambda_)),
            "",
            "slope",
        ),
    )


@register(
    "T1",
    "Completeness: what the effective map of every fixed point satisfies",
    kind="exact",
    section="beside (21), (81)",
    left={"entries": "0", "diagonal": "0"},
    typed=lambda: {
        "entries": (lambda_i**3 / a_i - lambda_j**3 / a_j) * B_ij,
        "diagonal": b * (b - lambda_ / a),
    },
    conditions=(
        r"in the eigenbasis of $\boldsymbol{\Lambda}$, for every pair of indices; any $H$ and $R$",
        (
            r"for tokens of another law, as long as $\boldsymbol{M}$ commutes with $\boldsymbol{\Lambda}$ and "
            r"$\lambda^{3} /$ a rises with $\lambda$"
        ),
        (
            r"so with distinct eigenvalues $B_{ij} = 0$, by (T1c), and $B_{dd}$ is 0 or $\lambda_{d} / a_{d}$: no "
            "fixed function is missing in (21), (81)"
        ),
    ),
    erratum="The paper proves that these are fixed points, not that there are no others",
)
def completeness() -> Derivation:
    """Eliminate B_ji from the two equations of a pair; the diagonal is (C1)."""
    first, second = entry_equations()
    eliminated = (first.coeff(B_ji) * second - second.coeff(B_ji) * first).expand()
    return Derivation.by(
        Step("Entry ($i, j$) of the first condition (T1b)", first),
        Step("Entry ($i, j$) of the second condition (T1b)", second),
        Step("Eliminate $B_{ji}$", eliminated.coeff(B_ij) * B_ij, "", "entries"),
        Step(
            r"On the diagonal, $\boldsymbol{B}^{\top} \boldsymbol{G} = 0$",
            cancel(b * force_along() / (-lambda_ * a)),
            "",
            "diagonal",
        ),
    )


def eigenspace_conditions() -> tuple[TracePolynomial, TracePolynomial]:
    """B' G and G B' on an eigenspace, where Lambda = lambda I, M = a I and B = (lambda / a) Pi, times a / lambda^3."""
    white = {Lambda: lambda_ * Identity(D), M: a * Identity(D), B: lambda_ / a * Pi}
    force_there = substitute(force(), white)
    map_there = substitute(B, white)
    scale = TracePolynomial(a / lambda_**3)
    return scale * map_there.T * force_there, scale * force_there * map_there.T


@register(
    "T1d",
    (
        r"Completeness, equal eigenvalues: on an eigenspace the effective map is $\lambda/a$ times any orthogonal "
        "projector"
    ),
    kind="exact",
    section="beside (21), (81)",
    left={"left": "0", "right": "0", "components": r"\text{components}"},
    typed=lambda: {
        "left": Pi.T - Pi.T * Pi,
        "right": Pi.T - Pi * Pi.T,
        "components": Product(g[j] + 1, (j, 1, J)),
    },
    conditions=(
        r"$\boldsymbol{\Pi} = a \boldsymbol{B} / \lambda$ on an eigenspace, which (T1c) separates from the others",
        r"$g_{j}$ are the multiplicities of the J eigenvalues; $R H \ge D$ for the count",
    ),
    erratum=(
        "$2^{D}$ needs distinct eigenvalues: otherwise the fixed functions are a continuum, whose components "
        "are counted here"
    ),
)
def equal_eigenvalues() -> Derivation:
    """Pi' = Pi' Pi makes Pi symmetric, and then idempotent; its rank, 0 to g, tells the components apart."""
    left, right = eigenspace_conditions()
    rank = Symbol("r", integer=True)
    return Derivation.by(
        Step(
            r"$\boldsymbol{B}^{\top} \boldsymbol{G} = 0$ on the eigenspace, times $a / \lambda^{3}$", left, "", "left"
        ),
        Step(
            r"$\boldsymbol{G} \boldsymbol{B}^{\top} = 0$ likewise: so $\Pi$ is symmetric and equal to its square",
            right,
            "",
            "right",
        ),
        Step(
            ("Projectors of one rank form a connected set; the ranks 0 to $g_{j}$ can be chosen for each eigenspace"),
            Product(Sum(1, (rank, 0, g[j])).doit(), (j, 1, J)),
            "",
            "components",
        ),
    )


g = IndexedBase("g", integer=True, positive=True)
j, J = symbols("j J", integer=True, positive=True)


@register(
    "T1e",
    "Completeness: the number of fixed functions",
    kind="exact",
    section="Section 4.2",
    left={"few slots": r"\#\,(RH<D)", "enough slots": r"\#\,(RH\ge D)"},
    typed=lambda: {"few slots": Sum(binomial(D, m), (m, 0, R * H)), "enough slots": 2**D},
    conditions=(
        "the eigenvalues are distinct",
        r"a fixed function for every set of at most $\min(D, R H)$ eigenvectors, one slot each",
    ),
    erratum=r"The paper's $2^{D}$ needs $R H \ge D$, and at rank one $H \ge D$",
)
def count() -> Derivation:
    """Sets of m eigenvectors, by the generating function (1 + x)^D: each eigenvector is learned (x) or not (1)."""
    x, step = Symbol("x", positive=True), Symbol("j", integer=True)
    generating = (1 + x) ** D
    if cancel((1 + x) * diff(generating, x) / generating) != D:
        raise ArithmeticError("(1 + x) f' = D f should hold for f = (1 + x)^D")
    now, following = symbols("c_m c_{m+1}")
    recursion = (m + 1) * following + m * now - D * now  # the coefficient of x^m in (1 + x) f' - D f
    (ratio,) = (solution / now for solution in solve(recursion, following))
    sets = combsimp(Product(ratio.subs(m, step), (step, 0, m - 1)).doit())
    return Derivation.by(
        Step("Each eigenvector is learned or not", generating),
        Step("From $(1+x)f'(x)=D f(x)$, the ratio of one coefficient to the one before", ratio),
        Step("So the number of sets of $m$ eigenvectors", sets),
        Step(
            "The rank of the effective map is at most $R H$, the number of slots",
            Sum(sets, (m, 0, R * H)),
            "",
            "few slots",
        ),
        Step(
            r"With $R H \ge D$ all sets occur: the generating function at $\boldsymbol{x} = 1$",
            generating.subs(x, 1),
            "",
            "enough slots",
        ),
    )
