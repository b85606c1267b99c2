r"""T1: the fixed points (21), (81) are all there are, for any number of heads H and any rank R, and how many functions they give.

The steps of its proof are entries: B' G = 0 and G B' = 0 at a fixed point (T1a), so two matrices are symmetric (T1b), so B is diagonal
where the eigenvalues are distinct (T1c), with 0 or lambda_d / a_d by (C1); on an eigenspace a B / lambda is any orthogonal projector
(T1d). The rank of B is at most R H, which gives the count (T1e).
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from flint import arb, arb_mat
from mpmath import eye, mpf, qr
from sympy import Derivative, Expr, IndexedBase, Piecewise, Product, Sum, Symbol, cancel, combsimp, diff, factor, solve, symbols
from sympy.functions import Min, binomial
from sympy.matrices import Determinant, Identity, Matrix, diag

from ...algebra.polynomial import TracePolynomial
from ...calculus import explicit, substitute
from ...derivations import (
    Condition,
    Derivation,
    Gradient,
    Line,
    Lines,
    Point,
    Rate,
    as_sympy,
    erratum,
    given,
    note,
    register,
    states,
    value_at,
)
from ...derivations.draws import POSITIVE_DEFINITE, along_each, commuting, eigenbasis, learned_directions, satisfying, second_moment
from ...derivations.points import as_arb
from ...notation import B, B_rest, D, G, H, K_i as K, Lambda, Lambda_q, M, N, P, Q_i as Q, R, T, a, e, lambda_, matrix, v_i, vector
from ...typesetting.latex import formula_latex
from ..separate.flow import flow, flow_in_force, flow_lines, rank_R_head
from ..task.population import ALONG, PAPER, Sigma_w, Task
from ..task.regression import closed_loss, force, force_along, loss_and_force, population_error
from .fixed_points import KEEPS_DIRECTION, b, direction, m
from .index_theorem import K_a, Q_a, V

Pi = matrix("Pi", D, latex=r"\boldsymbol{\Pi}")  # a B / lambda on an eigenspace
e_i, e_j = vector("e_i", D), vector("e_j", D)
lambda_i, lambda_j, a_i, a_j = symbols("lambda_i lambda_j a_i a_j", positive=True)
SPECTRA = {Lambda: (lambda_i, lambda_j), M: (a_i, a_j)}  # eigenvalues of a pair
SPECTRA |= {letter: symbols(f"{value}i {value}j", positive=True) for letter, value in ((Sigma_w, "omega_"), (Lambda_q, "lambda_q"))}
B_ii, B_ij, B_ji, B_jj = symbols("B_ii B_ij B_ji B_jj", real=True)
g = IndexedBase("g", integer=True, positive=True)  # multiplicities of the eigenvalues
j, J = symbols("j J", integer=True, positive=True)


def _pair(point, moments=second_moment) -> None:
    _, vectors = eigenbasis(point)
    if len(vectors) < 2:
        raise ValueError("a pair needs two directions")
    moments(point)
    for place, (one, direction_) in enumerate(zip((e_i, e_j), point.rng.sample(vectors, 2), strict=True)):
        point[one] = direction_
        for letter, values in SPECTRA.items():
            (point[values[place]],) = along_each([direction_], letter, point)


def map_at_rest(point: Point, cross: Any, second: Any, covariance: Any) -> arb_mat:
    """A root of B' G = 0 and G B' = 0 for the force G = cross - second B covariance, by Newton's method from a random start."""
    A, M_, Q = map(as_arb, (cross, second, covariance))
    size = A.nrows()
    units = [arb_mat(size, size, [place == one for place in range(size**2)]) for one in range(size**2)]

    def residuals(map_: arb_mat) -> arb_mat:
        force_there, transposed = A - M_ * map_ * Q, map_.transpose()
        return arb_mat(2 * size**2, 1, (transposed * force_there).entries() + (force_there * transposed).entries()).mid()

    def largest(column: arb_mat) -> arb:
        return max(map(abs, column.entries()))

    root = arb_mat(size, size, [point.rng.gauss(0, 1) for _ in range(size**2)])
    for _ in range(80):
        left = residuals(root)
        # They are quadratic in the map, so half their difference across it is their derivative.
        slopes = arb_mat([((residuals(root + one) - residuals(root - one)) / 2).entries() for one in units])
        step = arb_mat(size, size, (slopes * slopes.transpose()).solve(slopes * left, algorithm="approx").entries())
        shortened = ((root - step / 2**halvings).mid() for halvings in range(30))
        if (closer := next((one for one in shortened if largest(residuals(one)) < largest(left)), None)) is None:
            break
        root = closer
    if largest(residuals(root)) > 1e-20:
        raise ValueError("Newton's method has found no map at rest")
    return root


def _found(task: Task) -> tuple[Callable, Callable]:
    """Draws of the effective map: any at rest, by Newton's method, and one of those in the set (21)."""
    A, _, Q_any, _ = task.moments

    def at_rest(point: Point) -> None:
        point[B] = map_at_rest(point, value_at(A, point), point[M], value_at(Q_any, point))

    def listed(point: Point) -> None:
        if P not in point:
            learned_directions(point, second_moment if task == PAPER else task.draw)
        point[B] = value_at(task.fixed_map, point)

    return at_rest, listed


def _projector(point) -> None:
    """Orthogonal or oblique."""
    size, rank = point.size(D), point.rng.randint(0, point.size(D))
    slanted = arb_mat(size, size, 1) + point.rng.randint(0, 1) * as_arb(point.drawn(Pi)) / 9
    frame = qr(point.drawn(Pi))[0]
    point[Pi] = (slanted * commuting([arb_mat(frame[:, d]) for d in range(size)], [d < rank for d in range(size)]) * slanted.inv()).mid()


def _on_an_eigenspace(point) -> None:
    """All eigenvalues are equal, and the effective map is lambda/a times a projector, orthogonal or oblique."""
    size, N_, value = point.size(D), point[N], point[lambda_]
    point[T], point[a] = size * value, value**2 * (1 + mpf(1 + size) / N_)
    for letter, one, values in ((Lambda, value, (lambda_i, lambda_j)), (M, point[a], (a_i, a_j))):
        point[letter] = one * eye(size)
        point[values[0]] = point[values[1]] = one
    _projector(point)
    point[B] = value / point[a] * point[Pi]


def _multiplicities(point) -> None:
    """Fewer eigenvalues than dimensions."""
    if point[D] == 1:
        raise ValueError("one dimension has no repeated eigenvalue")
    point[J] = point.rng.randint(1, point[D] - 1)
    ends = [0, *sorted(point.rng.sample(range(1, point[D]), point[J] - 1)), point[D]]
    point.family(g, [mpf(end - start) for start, end in pairwise(ends)])


PAIR = satisfying(
    r"$\boldsymbol{e}_i$, $\boldsymbol{e}_j$ are two orthonormal eigenvectors of $\boldsymbol{\Lambda}$, $\lambda_i$, $\lambda_j$ their "
    r"eigenvalues, $a_i$, $a_j$ those of $\boldsymbol{M} = \mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)$, $T = \operatorname{tr}"
    r"(\boldsymbol{\Lambda})$",
    {Lambda * e_i: lambda_i * e_i, Lambda * e_j: lambda_j * e_j, e_i.T * M * e_i: a_i, e_j.T * M * e_j: a_j, e_i.T * e_j: 0},
    _pair,
)


def pair(task: Task = PAPER) -> Condition:
    """A pair of eigenvectors of the task."""
    return task.condition(PAIR, _pair)


def _are_multiplicities(point) -> bool:
    return sum(point[g][one] for one in range(1, point[J] + 1)) == point[D]


def _all_distinct(point) -> None:
    point[J] = point[D]
    point.family(g, [mpf(1)] * point[D])


MULTIPLICITIES = Condition(
    r"$g_j$ are the multiplicities of the $J$ positive eigenvalues, $\sum_j g_j = D$, and some eigenvalue is repeated",
    lambda point: _are_multiplicities(point) and point[J] < point[D],
    _multiplicities,
    _all_distinct,
)
DISTINCT = Condition(
    "Distinct positive eigenvalues", lambda point: _are_multiplicities(point) and point[J] == point[D], _all_distinct, _multiplicities
)
FEW_SLOTS = Condition("$R H < D$", lambda point: point[R] * point[H] < point[D])
ENOUGH_SLOTS = Condition(r"$R H \ge D$", lambda point: not FEW_SLOTS.holds(point), None, lambda point: point.values.update({R: 1, H: 1}))


def annihilated() -> tuple[Line, Line]:
    """What every fixed point satisfies, by (T1a)."""
    return Line(B.T * G, "=", 0), Line(G * B.T, "=", 0)


@register("T1a", "Completeness: at a fixed point the effective map and the force annihilate each other", section="beside (21), (81)")
@states("keys", lambda: (v_i * K * Q.T).T * G)
@states("queries", lambda: G * (v_i * K * Q.T).T)
def annihilation(task: Task = PAPER) -> Lines:
    """The share of one head in B' G and in G B' is a product of its weights and their velocities."""
    head = rank_R_head()
    rates, in_force = flow(head, (K, Q), task), flow_in_force(head, (K, Q))
    slots = K_a * V * Q_a.T
    error, there = population_error(slots, task), substitute(force(task), {B: slots})
    yield from task.definitions()
    yield Line(-Q_a * Gradient(error, Q_a).T / 2, "=", slots.T * there,
               r"All slots side by side: if the queries stand still, $\boldsymbol{B}^{\top} \boldsymbol{G} = 0$")  # fmt: skip
    yield Line(-Gradient(error, K_a) * K_a.T / 2, "=", there * slots.T,
               r"If the keys stand still, $\boldsymbol{G} \boldsymbol{B}^{\top} = 0$")  # fmt: skip
    yield from flow_lines(head, (K, Q), task=task)
    yield Line(B, ":=", B_rest + head, "The effective map")
    yield Line(G, ":=", -Gradient(closed_loss(task).result, B) / 2, "The force on it")
    yield Line(Rate(K, rates), "=", in_force[K], "The velocity of the keys, by the chain rule")
    yield Line(Rate(Q, rates), "=", in_force[Q], "The velocity of the queries")
    yield Line(Q * Rate(Q, rates).T, "=", Q * in_force[Q].T,
               r"The head's share of $\boldsymbol{B}^{\top} \boldsymbol{G}$ is zero if its queries stand still", part="keys")  # fmt: skip
    yield Line(Rate(K, rates) * K.T, "=", in_force[K] * K.T,
               r"The head's share of $\boldsymbol{G} \boldsymbol{B}^{\top}$ is zero if its keys stand still", part="queries")  # fmt: skip


def _freed(task: Task = PAPER) -> tuple[TracePolynomial, TracePolynomial]:
    """B' G Q^-1 and M^-1 G B', where Q is the covariance of the query."""
    return TracePolynomial(B.T) * force(task) * task.moments.Q.reciprocal(), TracePolynomial(M.I) * force(task) * B.T


def symmetry_conditions(task: Task = PAPER) -> tuple[TracePolynomial, TracePolynomial]:
    """The antisymmetric parts of B' G Q^-1 and of M^-1 G B', both zero at a fixed point."""
    first, second = _freed(task)
    return first - first.T, second - second.T


@register("T1b", "Completeness: two matrices that are symmetric at every fixed point", section="beside (21), (81)")
@states("first", lambda: B.T * Lambda - Lambda * B)
@states("second", lambda: M.I * Lambda**2 * B.T - B * Lambda**2 * M.I)
@given(POSITIVE_DEFINITE)
def symmetries(task: Task = PAPER) -> Lines:
    """B' G Lambda^-1 = B' Lambda - B' M B and M^-1 G B' = M^-1 Lambda^2 B' - B Lambda B', each zero, each less a symmetric matrix."""
    (first, second), freed, Q_any = symmetry_conditions(task), _freed(task), as_sympy(task.query_covariance)
    left, right = B.T * G * Q_any.I, M.I * G * B.T
    yield from task.definitions()
    yield from loss_and_force(task)
    reason = rf"$\boldsymbol{{B}}^{{\top}} \boldsymbol{{G}}$, with the force (53), times the inverse of ${formula_latex(Q_any)}$"
    yield Line(left, "=", freed[0], reason)
    so = " is symmetric, so its antisymmetric part is that of the other term"
    yield Line(left - left.T, "=", first, r"$\boldsymbol{B}^{\top} \boldsymbol{M} \boldsymbol{B}$" + so, part="first")
    yield Line(right, "=", freed[1], r"The inverse of $\boldsymbol{M}$ times $\boldsymbol{G} \boldsymbol{B}^{\top}$")
    yield Line(right - right.T, "=", second, r"$\boldsymbol{B} \boldsymbol{\Lambda} \boldsymbol{B}^{\top}$" + so, part="second")
    yield Line(annihilated(), "=>", (Line(first, "=", 0), Line(second, "=", 0)),
               "So both are zero at a fixed point", meets=(_found(task)[task == PAPER],))  # fmt: skip


def entry_equations(task: Task = PAPER) -> tuple[Expr, Expr]:
    """The entries (i, j) of the two conditions (T1b) in the eigenbasis. Lambda and M are diagonal there, so no other index enters."""
    values = {letter: diag(*pair_) for letter, pair_ in SPECTRA.items()} | {B: Matrix([[B_ii, B_ij], [B_ji, B_jj]])}
    first, second = (explicit(condition, values, D=2)[0, 1] for condition in symmetry_conditions(task))
    return first, second


def _entries(task: Task) -> Lines:
    """The definitions of the two entries of B, and the entries (i, j) of (T1b), bilinear forms, in them."""
    first, second = (TracePolynomial(e_i.T) * condition * e_j for condition in symmetry_conditions(task))
    in_first, in_second = entry_equations(task)
    if task != PAPER:
        yield from (*task.gains(), *task.commutes())
    yield Line(B_ij, ":=", e_i.T * B * e_j, "Off the diagonal the effective map has the entries")
    yield Line(B_ji, ":=", e_j.T * B * e_i, "and")
    yield Line(first, "=", in_first, "Entry ($i, j$) of the first matrix (T1b)", part="first")
    yield Line(second, "=", in_second, "Entry ($i, j$) of the second matrix (T1b)", part="second")


@register("T1c", "Completeness: off the diagonal the effective map is zero between different eigenvalues", section="beside (21), (81)")
@states("first", lambda: lambda_j * B_ji - lambda_i * B_ij)
@states("second", lambda: lambda_i**2 / a_i * B_ji - lambda_j**2 / a_j * B_ij)
@states("determinant", lambda: lambda_i**3 / a_i - lambda_j**3 / a_j)
@states("gap", lambda: (
    N * (lambda_i - lambda_j) * ((N + 1) * lambda_i * lambda_j + T * (lambda_i + lambda_j))
    / (((N + 1) * lambda_i + T) * ((N + 1) * lambda_j + T))
))  # fmt: skip
@states("slope", lambda: lambda_ * N * (2 * T + lambda_ * N + lambda_) / (T + lambda_ * N + lambda_) ** 2)
@given(pair)
def off_diagonal(task: Task = PAPER) -> Lines:
    """Two homogeneous equations for B_ij and B_ji, whose determinant has the sign of lambda_i - lambda_j."""
    system = Matrix([[equation.coeff(entry) for entry in (B_ji, B_ij)] for equation in entry_equations(task)])
    determinant = system.det().expand()
    of_pair = [{value: SPECTRA[one][place] for one, value in {Lambda: lambda_, **ALONG}.items()} for place in (0, 1)]
    gap = factor(cancel(determinant.subs({one: task.eigenvalue.subs(at) for one, at in zip((a_i, a_j), of_pair, strict=True)})))
    drop = cancel(task.along(task.moments.A) ** 2 / (task.eigenvalue * task.along(task.moments.Q)))
    slope = factor(diff(drop, lambda_))
    yield from _entries(task)
    yield Line(Determinant(system), "=", determinant, "The determinant of the two equations", part="determinant")
    yield Line(determinant, "=", gap, "With the moments (32)", part="gap")
    yield Line(cancel(gap / (lambda_i - lambda_j)), ">", 0, "It is zero for equal eigenvalues only")
    yield Line(Derivative(drop, lambda_), "=", slope, r"The same from the slope of $\lambda^3 / a$, the drop of the loss", part="slope")
    yield Line(slope, ">", 0, "It rises strictly")


@register("T1", "Completeness: what the effective map of every fixed point satisfies", section="beside (21), (81)")
@states("entries", lambda: (lambda_i**3 / a_i - lambda_j**3 / a_j) * B_ij)
@states("diagonal", lambda: b * (b - lambda_ / a))
@given(pair, direction)
@erratum("The paper proves that these are fixed points, not that there are no others")
def completeness(task: Task = PAPER) -> Lines:
    """Eliminate B_ji from the two equations of a pair; the diagonal is (C1)."""
    *entries, in_first, in_second = _entries(task)
    by_first, by_second = (line.right.coeff(B_ji) for line in (in_first, in_second))
    eliminated = (by_first * in_second.right - by_second * in_first.right).expand()
    along_b, known = force_along(b, task), task.learned.to_sympy()
    projects = Line(known * B, "=", B * known), Line(M * B * M * B, "=", known * M * B), Line(B.T, "=", B)
    at_rest, listed = _found(task)

    def any_listed(point: Point) -> None:
        (_on_an_eigenspace if task == PAPER and point.rng.random() < 1 / 2 else listed)(point)

    yield from loss_and_force(task)
    yield from Derivation.by(*entries, in_first, in_second).within({})
    yield Line(by_first * in_second.left - by_second * in_first.left, "=", eliminated.coeff(B_ij) * B_ij,
               "Eliminate $B_{ji}$", part="entries")  # fmt: skip
    yield Line(b, ":=", e.T * B * e, "On the diagonal the map has the entries")
    yield Line(e.T * B.T * G * e / along_b.coeff(b), "=", cancel(b * along_b / along_b.coeff(b)),
               r"There $\boldsymbol{B}^{\top} \boldsymbol{G}$ is", part="diagonal", conditions=(KEEPS_DIRECTION,))  # fmt: skip
    yield Line(Line(B, "=", task.fixed_map), "=>", annihilated(), "The maps (21), (81) satisfy both conditions (T1a)", meets=(listed,))
    reason = r"No others do: $\boldsymbol{M}\boldsymbol{B}\boldsymbol{\Lambda}^{-1}$ is an orthogonal projector, and keeps eigenspaces"
    yield Line(annihilated(), "<=>", projects, reason, meets=(at_rest, any_listed))


def eigenspace_conditions() -> tuple[TracePolynomial, TracePolynomial]:
    """B' G and G B' on an eigenspace, where Lambda = lambda I, M = a I and B = (lambda / a) Pi, times a / lambda^3."""
    white = {Lambda: lambda_ * Identity(D), M: a * Identity(D), B: lambda_ / a * Pi}
    force_there = substitute(force(), white)
    map_there = substitute(B, white)
    scale = TracePolynomial(a / lambda_**3)
    return scale * map_there.T * force_there, scale * force_there * map_there.T


@register("T1d", r"Completeness, equal eigenvalues: on an eigenspace the effective map is $\lambda/a$ times any orthogonal projector",
          section="beside (21), (81)")  # fmt: skip
@states("left", lambda: Pi.T - Pi.T * Pi)
@states("right", lambda: Pi.T - Pi * Pi.T)
@states("components", lambda: Product(g[j] + 1, (j, 1, J)))
@given(MULTIPLICITIES)
@note(
    "In the first two parts $D$ is the dimension of an eigenspace, which (T1c) separates from the others",
    "Argued, not derived: orthogonal projectors of one rank form a connected set",
)
@erratum("$2^{D}$ needs distinct eigenvalues: otherwise the fixed functions are a continuum, whose components are counted here")
def equal_eigenvalues() -> Lines:
    """Pi' = Pi' Pi makes Pi symmetric, and then idempotent; its rank, 0 to g, tells the components apart."""
    left, right = eigenspace_conditions()
    loss = substitute(closed_loss().result, {Lambda: lambda_ * Identity(D), M: a * Identity(D)})
    rank = Symbol("r", integer=True)
    ranks, components = Sum(1, (rank, 0, Min(g[j], R * H))), Product(g[j] + 1, (j, 1, J))
    yield Line(B, ":=", lambda_ / a * Pi, "Let the effective map on the eigenspace be")
    yield Line(G, ":=", -Gradient(loss, B) / 2, "and the force, minus half the gradient of the loss there")
    yield Line(a / lambda_**3 * B.T * G, "=", left, r"$\boldsymbol{B}^{\top} \boldsymbol{G}$, times $a / \lambda^{3}$", part="left")
    yield Line(a / lambda_**3 * G * B.T, "=", right, r"$\boldsymbol{G} \boldsymbol{B}^{\top}$, times the same", part="right")
    yield Line((Line(left, "=", 0), Line(right, "=", 0)), "<=>", (Line(Pi.T, "=", Pi), Line(Pi * Pi, "=", Pi)),
               r"Both are zero for orthogonal projectors only", meets=(_projector, _projector))  # fmt: skip
    yield Line(Product(ranks, (j, 1, J)), "=", components, "If there are slots for all, each eigenspace can have any rank up to its own",
               part="components", conditions=(ENOUGH_SLOTS,))  # fmt: skip
    yield Line(components, "!=", 2**D, "As printed in the paper there are $2^D$ fixed functions")


@register("T1e", "Completeness: the number of fixed functions", section="Section 4.2")
@states("few slots", lambda: Sum(binomial(D, m), (m, 0, R * H)))
@states("enough slots", lambda: 2**D)
@given(DISTINCT)
@erratum(r"The paper's $2^{D}$ needs $R H \ge D$, and at rank one $H \ge D$")
def count() -> Lines:
    """Sets of m eigenvectors, by the generating function (1 + x)^D: each eigenvector is learned (x) or not (1)."""
    x, step = Symbol("x", positive=True), Symbol("j", integer=True)
    generating = (1 + x) ** D
    now, following = symbols("c_m c_{m+1}")
    recursion = (m + 1) * following + m * now - D * now  # the coefficient of x^m in (1 + x) f' - D f
    (ratio,) = (solution / now for solution in solve(recursion, following))
    steps = Product(ratio.subs(m, step), (step, 0, m - 1))
    sets = combsimp(steps.doit())
    slots = Sum(sets, (m, 0, R * H))
    yield Line((1 + x) * Derivative(generating, x), "=", D * generating, "Each eigenvector is learned or not: a generating function")
    yield Line(steps, "=", sets, "The product of the ratios of its neighbouring coefficients: the number of sets of $m$ eigenvectors")
    yield Line(generating, "=", Sum(sets * x**m, (m, 0, D)), "These are its coefficients")
    yield Line(Sum(Piecewise((sets, m <= R * H), (0, True)), (m, 0, D)), "=", slots,
               "The rank of the effective map is at most $R H$, the number of slots", part="few slots")  # fmt: skip
    yield Line(slots, "=", generating.subs(x, 1),
               r"With enough slots all sets occur: the generating function at $x = 1$",
               part="enough slots", conditions=(ENOUGH_SLOTS,))  # fmt: skip
    yield Line(Product(g[j] + 1, (j, 1, J)), "=", 2**D, "As many as there are choices of ranks, for distinct eigenvalues")
    yield Line(slots, "!=", 2**D,
               "As printed in the paper, $2^D$ for any number of heads: with fewer slots there are fewer",
               conditions=(FEW_SLOTS,))  # fmt: skip
