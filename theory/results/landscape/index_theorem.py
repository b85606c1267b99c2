r"""T2 and T3: how many negative eigenvalues the Hessian has at a fixed point, and so which plateaus can last.

The active slots of all heads stand side by side in K_a and Q_a, n columns, with their value weights in the diagonal matrix V. The Hessian
is a sum over the eigenvectors that are not learned, plus a square; along each it splits into pairs of two dimensions.
"""

from functools import cache, partial
from typing import Any

from flint import arb_mat
from mpmath import diag, mpf, zeros
from sympy import Determinant, Expr, Identity, IndexedBase, Integral, Matrix, Sum, Symbol, Trace, factor, ln, symbols

from ...algebra.polynomial import TracePolynomial
from ...calculus import along, hessian_form, rewrite, substitute, summand
from ...derivations import Condition, Line, Lines, Point, Rate, SecondVariation, erratum, given, note, register, states
from ...derivations.draws import along_each, eigenbasis, eigenvalues, satisfying, second_moment
from ...derivations.matrix_forms import stacked
from ...derivations.points import ball_at
from ...notation import (
    B,
    D,
    G,
    H,
    Lambda,
    M,
    P,
    R,
    a,
    e_d as e,
    k_i as k,
    lambda_,
    matrix,
    q_i as q,
    symmetric_matrix,
    tau,
    v_i,
    vector,
    w_init,
)
from ..separate.flow import flow, flow_in_force, flow_lines, rank_one_head
from ..task.regression import population_error
from .conditions import at_fixed_map, q_d
from .fixed_points import m
from .stability import F, end, half_loss, value

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
xi, eta = vector("xi", n, latex=r"\boldsymbol{\xi}"), vector("eta", n, latex=r"\boldsymbol{\eta}")
xi_0, eta_0 = vector("xi_0", n, latex=r"\boldsymbol{\xi}_0"), vector("eta_0", n, latex=r"\boldsymbol{\eta}_0")
x, y = vector("x", m), vector("y", m)
unit = vector("u", m)  # the components of a learned eigenvector
H_jd, pair_move = matrix("H_jd", 2), vector("z", 2)
lambda_j, lambda_d, a_j, a_d = symbols("lambda_j lambda_d a_j a_d", positive=True)
x_j, y_j = symbols("x_j y_j", real=True)
empty = Symbol("r", integer=True, nonnegative=True)  # slots of the active heads that serve no eigenvector
inversions = IndexedBase("I", integer=True, nonnegative=True)
negative = Symbol("index", integer=True, nonnegative=True)  # how many eigenvalues of the Hessian are negative
coupling = Symbol("c", positive=True)
index_d = Symbol("d", integer=True, positive=True)


def _at_fixed_point(point: Point, learned: list[int], slots: int) -> None:
    """The letters of a fixed point with these learned eigenvectors and this number of active slots, and one pair of eigenvectors."""
    values, vectors = eigenbasis(point)
    second_moment(point)
    levels = along_each(vectors, M, point)
    others = [d for d in range(len(values)) if d not in learned]
    if not learned or not others:
        raise ValueError("a learned eigenvector and another one are needed")
    point[m], point[n] = len(learned), slots
    for frame, spectrum, moments, chosen in ((W, Lambda_S, M_S, learned), (W_perp, Lambda_perp, M_perp, others)):
        point[frame] = stacked([[vectors[d] for d in chosen]])
        point[spectrum], point[moments] = (diag([one[d] for d in chosen]) for one in (values, levels))
    point[P] = point[W] * point[W].T
    point[V] = diag([point.rng.choice([-1, 1]) * mpf(point.rng.uniform(0.5, 2)) for _ in range(slots)])
    weighted = ball_at(kappa * V, point)
    point[theta] = (_inverse(weighted) * ball_at(M_S.I * Lambda_S, point) + _null(weighted) * ball_at(theta.T, point)).transpose().mid()
    place, d = point.rng.randrange(len(learned)), point.rng.choice(others)
    point[unit] = zeros(len(learned), 1)
    point[unit][place] = mpf(1)
    point[e], point[lambda_], point[a] = vectors[d], values[d], levels[d]
    point[lambda_d], point[a_d], point[lambda_j], point[a_j] = (values[d], levels[d], values[learned[place]], levels[learned[place]])
    point.family(inversions, [sum(values[j] < values[one] for j in learned) for one in others])
    point[negative] = _counted(point)


def _inverse(wide):
    return wide.transpose() * (wide * wide.transpose()).inv()


def _null(wide):
    """The projector onto the vectors that a wide matrix maps to zero."""
    return arb_mat(wide.ncols(), wide.ncols(), 1) - _inverse(wide) * wide


def _counted(point: Point) -> int:
    """How many eigenvalues of the form (T2b) are negative, over all eigenvectors that are not learned."""
    slots, keys, queries, levels, moments = (ball_at(one, point) for one in (V, *SERVED, Lambda_perp, M_perp))
    count = 0
    for d in range(levels.nrows()):
        level, across = levels[d, d], slots * -(levels[d, d] ** 2)
        count += sum(one < -1e-20 for one in eigenvalues(stacked([[keys * moments[d, d], across], [across, queries * level]])))
    return count


def _fixed_point(point: Point) -> None:
    size = point.size(D)
    learned = sorted(point.rng.sample(range(size), point.rng.randint(1, max(size - 1, 1))))
    _at_fixed_point(point, learned, len(learned) + point.rng.randint(0, 2))


def _spoilt(draw, point: Point) -> None:
    """Queries so large that no pair is inverted, or, where none has been, so small that all are."""
    draw(point)
    inverted = any(point[inversions][d] for d in range(1, point[D] - point[m] + 1))
    point[theta] = point[theta] * (mpf(100) if inverted else mpf("0.01"))
    point[negative] = _counted(point)


def _first_learned(point: Point) -> None:
    size, slots = point.size(D), point.size(R) * point.size(H)
    count = point.rng.randint(1, min(size, slots))
    _at_fixed_point(point, list(range(count)), slots)
    point[empty] = slots - count


def _redundant(point: Point) -> None:
    for move, served in ((xi_0, theta), (eta_0, kappa)):
        point[move] = (_null(ball_at(served * V, point)) * ball_at(move, point)).mid()


SERVED = (V * theta.T * Lambda_S * theta * V, V * kappa.T * M_S * kappa * V)
AT_REST = {kappa * V * theta.T: M_S.I * Lambda_S, Lambda * W: W * Lambda_S, Lambda * W_perp: W_perp * Lambda_perp}
FIXED_POINT = satisfying(
    r"At a fixed point: the columns of $\boldsymbol{W}$ are the learned eigenvectors, those of $\boldsymbol{W}_\perp$ the others, with the "
    r"positive eigenvalues $\boldsymbol{\Lambda}_S$ and $\boldsymbol{\Lambda}_\perp$ of $\boldsymbol{\Lambda}$, $\boldsymbol{M}_S$ and "
    r"$\boldsymbol{M}_\perp$ of $\boldsymbol{M} = \mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)$; the active slots have "
    r"$\boldsymbol{\kappa V\theta}^\top=\boldsymbol{M}_S^{-1}\boldsymbol{\Lambda}_S$; $\boldsymbol{e}_d$ is not learned",
    AT_REST,
    _fixed_point,
    partial(_spoilt, _fixed_point),
)
PAIR = satisfying(
    r"$\boldsymbol{u}$ has the component of one learned eigenvector alone, with the eigenvalues $\lambda_j$ and $a_j$; "
    r"$\lambda_d$ and $a_d$ are those of $\boldsymbol{e}_d$",
    {Lambda_S * unit: lambda_j * unit, M_S * unit: a_j * unit, unit.T * unit: 1, Lambda * e: lambda_d * e, M * e: a_d * e},
    outside=lambda point: point.__setitem__(point.rng.choice((lambda_j, a_j, lambda_d, a_d)), mpf(5)),
)
REDUNDANT = satisfying(
    r"$\boldsymbol{\theta V\xi}_0=0$ and $\boldsymbol{\kappa V\eta}_0=0$", {theta * V * xi_0: 0 * x, kappa * V * eta_0: 0 * x}, _redundant
)
COUNTED = Condition(
    r"$\mathrm{index}$ is the number of negative eigenvalues of the form (T2b), over all eigenvectors that are not learned",
    lambda point: point[negative] == _counted(point),
    outside=lambda point: point.__setitem__(negative, _counted(point) + 1),
)
INVERTED = Condition(
    r"$I_{d}$ is the number of learned $j$ with $\lambda_{j} < \lambda_{d}$",
    lambda point: all(
        point[inversions][d + 1] == sum(point[Lambda_S][j, j] < point[Lambda_perp][d, d] for j in range(point[m]))
        for d in range(point[D] - point[m])
    ),
    outside=lambda point: point.family(inversions, [point[m] + 1] * (point[D] - point[m])),
)
FIRST_LEARNED = satisfying(
    r"At a fixed point as in (T2b), $S=\{1,\dots,m\}$, in $H$ active heads with $r$ empty slots, $m = R H - r$; $\boldsymbol{e}_d$ is an "
    "eigenvector that is not learned",
    AT_REST,
    _first_learned,
    partial(_spoilt, _first_learned),
)


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


def fixed_point_lines() -> Lines:
    """Half the loss as a function of the active slots, and their values at a fixed point."""
    whole = substitute(half_loss(), {B: K_a * V * Q_a.T})
    yield Line(population_error(K_a * V * Q_a.T) / 2, "=", whole, "Half the loss (9-closed) in the active slots")
    yield Line(F, ":=", whole, "Call it")
    yield Line(K_a, ":=", W * kappa, "At a fixed point the keys are combinations of the learned eigenvectors")
    yield Line(Q_a, ":=", W * theta, "and so are the queries")


VARIED = SecondVariation(F, {K_a: e * xi.T, Q_a: e * eta.T})  # the active slots move along one eigenvector


@register("T2b", "Stability: the Hessian at a fixed point, in the active slots of all heads", section="beside (21), (81)")
@states("all", lambda: (
    Trace(M_perp * Xi * V * theta.T * Lambda_S * theta * V * Xi.T) + Trace(Lambda_perp * Psi * V * kappa.T * M_S * kappa * V * Psi.T)
    - 2 * Trace(Lambda_perp**2 * Xi * V * Psi.T) + Trace(within().T * M_S * within() * Lambda_S)
))  # fmt: skip
@states("one direction", lambda: (
    a * xi.T * V * theta.T * Lambda_S * theta * V * xi + lambda_ * eta.T * V * kappa.T * M_S * kappa * V * eta
    - 2 * lambda_**2 * xi.T * V * eta
))  # fmt: skip
@given(FIXED_POINT)
def active_slots() -> Lines:
    """Every variation of the active weights, within the span of the learned eigenvectors and out of it."""
    whole = substitute(half_loss(), {B: K_a * V * Q_a.T})
    varied = {K_a: W * mu + W_perp * Xi, Q_a: W * nu + W_perp * Psi, V: delta_V}
    there = substitute(hessian_form(whole, varied), {K_a: W * kappa, Q_a: W * theta})
    outside = {W.T * W_perp: 0 * W.T * W_perp, W_perp.T * W_perp: Identity(D - m)}
    outside |= {Lambda * W_perp: W_perp * Lambda_perp, M * W_perp: W_perp * M_perp}
    form = rewrite(there, learned_rules() | outside | {kappa * V * theta.T: M_S.I * Lambda_S})
    yield from fixed_point_lines()
    yield Line(SecondVariation(F, varied), "=", form,
               "Differentiate twice; what stays within the span of the learned eigenvectors only adds a square", part="all")  # fmt: skip
    yield Line(VARIED, "=", direction_form(), "The same for one eigenvector that is not learned", part="one direction")


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


@register("T2c", "Stability: the Hessian along an eigenvector that is not learned, split into learned directions and redundant slots",
          section="beside (21), (81)")  # fmt: skip
@states(lambda: (
    a * x.T * Lambda_S * x + lambda_ * y.T * M_S * y - 2 * lambda_**2 * x.T * Lambda_S.I * M_S * y - 2 * lambda_**2 * xi_0.T * V * eta_0
))  # fmt: skip
@given(FIXED_POINT, REDUNDANT)
def split() -> Lines:
    """Write the variation of the slots as one that moves the effective map, by x and y, and one that does not."""
    yield from fixed_point_lines()
    yield Line(VARIED, "=", direction_form(), "The form (T2b)")
    yield Line(xi, ":=", moves()[xi], "Write the move of the keys as a move of the effective map and a redundant move")
    yield Line(eta, ":=", moves()[eta], "and that of the queries")
    yield Line(theta * V * kappa.T * x, "=", rewrite(theta * V * kappa.T * x, {kappa * V * theta.T: M_S.I * Lambda_S}),
               r"$\boldsymbol{V}$ pairs all redundant moves: one left out would be $\boldsymbol{\xi}_{0} = \boldsymbol{\kappa}^{\top} "
               r"\boldsymbol{x}$, for which this is zero; so $\boldsymbol{x} = 0$")  # fmt: skip
    yield Line(VARIED, "=", core_form(), "The mixed terms vanish")


@cache
def pair_block() -> Matrix:
    """The 2 x 2 block of a learned j and an unlearned d."""
    core = substitute(core_form(), {xi_0: 0 * xi_0, eta_0: 0 * eta_0, lambda_: lambda_d, a: a_d})
    share = summand(core, {Lambda_S: lambda_j, M_S: a_j, x: x_j, y: y_j})
    return Matrix(2, 2, lambda row, column: share.diff((x_j, y_j)[row], (x_j, y_j)[column]) / 2)


@register("T2d", "Stability: a learned and an unlearned eigenvector: the sign of the Hessian on the pair", section="beside (21), (81)")
@states("block", lambda: Matrix([[a_d * lambda_j, -(lambda_d**2) * a_j / lambda_j], [-(lambda_d**2) * a_j / lambda_j, lambda_d * a_j]]))
@states("determinant", lambda: a_d * a_j**2 * lambda_d / lambda_j**2 * (lambda_j**3 / a_j - lambda_d**3 / a_d))
@given(FIXED_POINT, PAIR)
def pair() -> Lines:
    """The form (T2c) along e_j: its diagonal is positive, so one eigenvalue is negative exactly if the determinant is."""
    alone = {x: x_j * unit, y: y_j * unit, xi_0: 0 * xi_0, eta_0: 0 * eta_0}
    determinant = factor(pair_block().det())
    yield from fixed_point_lines()
    for one, reason in ((xi, "Let the keys move the effective map along one learned eigenvector"), (eta, "and the queries")):
        yield Line(one, ":=", substitute(moves()[one], alone), reason)
    yield Line(pair_move, ":=", Matrix([x_j, y_j]), "by these amounts")
    yield Line(H_jd, ":=", pair_block(), "The matrix of the form on ($x_j, y_j$)", part="block")
    yield Line(VARIED, "=", pair_move.T * H_jd * pair_move, "The form (T2c) on this pair")
    yield Line(Determinant(pair_block()), "=", determinant, "Its determinant", part="determinant")
    yield Line(Line(lambda_d, ">", lambda_j), "<=>", Line(determinant, "<", 0),
               "One eigenvalue is negative exactly if the eigenvector that is not learned has the larger eigenvalue, by (T1c)")  # fmt: skip


def redundant_index(slots: Expr) -> Any:
    """Negative eigenvalues from the redundant slots, slots - m of them in each of the D - m directions not learned."""
    count = sum(times for eigenvalue, times in hyperbolic().eigenvals().items() if eigenvalue.is_negative)
    return Sum((slots - m) * count, (index_d, 1, D - m)).doit()


def hyperbolic() -> Matrix:
    """The last term of (T2c), on one pair of redundant moves."""
    return Matrix([[0, -coupling], [-coupling, 0]])


@register("T2e", "Stability: the number of negative Hessian eigenvalues at a fixed point", section="beside (21), (81)")
@states(lambda: (n - m) * (D - m) + Sum(inversions[index_d], (index_d, 1, D - m)))
@given(FIXED_POINT, COUNTED, INVERTED)
@note("$n$ is $R$ times the number of heads with $v_{i} \\ne 0$; waiting heads with keys and queries in the span add nothing, by (T2a)")
def index() -> Lines:
    """From (T2c): for each d, every redundant slot is a pair (0, -c; -c, 0), and a learned j counts where its block is indefinite."""
    determinant = hyperbolic().det()
    redundant = redundant_index(n)
    yield Line(Determinant(hyperbolic()), "=", determinant, "The determinant of (T2c) on a pair of redundant moves, with its coupling $c$")
    yield Line(determinant, "<", 0, "One eigenvalue of the two is negative")
    yield Line(Sum(n - m, (index_d, 1, D - m)), "=", redundant, "There are $n - m$ pairs in each of $D - m$ directions")
    inverted = Sum(inversions[index_d], (index_d, 1, D - m))
    yield Line(Line(negative, "=", 0), "<=>", (Line(n, "=", m), Line(inverted, "=", 0)),
               "Where not all is learned none is negative exactly if no slot is redundant and no pair inverted")  # fmt: skip
    yield Line(negative, "=", redundant + inverted, "Add the inverted pairs (T2d)")


@register("T3", "Rank $R$: only levels $m$ that $R$ divides can be long plateaus", section="Section 5")
@states("index", lambda: empty * (D - R * H + empty))
@states("rate", lambda: value * lambda_**2 / tau)
@given(FIRST_LEARNED, COUNTED)
@erratum(
    "The paper says that plateaus are at $m$ that divides $R$; it is the other way round, as in its own list $m = 0$, 2, 4, 6 for $R = 2$"
)
def levels() -> Lines:
    """The index (T2e) without inversions, with m written by the number of empty slots."""
    head, weights = rank_one_head(), (v_i, k, q)
    rates = flow(head, weights)
    component = Symbol("q_d", positive=True)
    rate = along(substitute(flow_in_force(head, weights)[k], {G: Lambda**2}), {Lambda: lambda_, q: component})
    yield Line(negative, "=", redundant_index(n), "The index (T2e), with nothing inverted")
    yield Line(n, "=", R * H, "All slots are active")
    yield Line(m, "=", R * H - empty, "and all but $r$ serve an eigenvector")
    yield Line(negative, "=", redundant_index(R * H).subs(m, R * H - empty), "So the index is", part="index")
    yield Line(Line(negative, "=", 0), "<=>", Line(empty, "=", 0), "Where not all is learned it is zero exactly if no slot is empty")
    yield from flow_lines(head, weights, (k, q))
    yield from at_fixed_map(head)
    yield Line(Rate(k, rates), "=", v_i * Lambda * (Identity(D) - P) * Lambda * q, "The velocity of a key, equation (57b)")
    yield Line(q, ":=", q_d * e, "An empty slot has a small query along an eigenvector that is not learned")
    yield Line(k, ":=", q, "and the same key")
    yield Line(v_i, ":=", value, "in a head with this value weight")
    rate = rate.subs(v_i, value) / (tau * component)
    yield Line(e.T * Rate(q, rates), "=", e.T * Rate(k, rates), "Both keep pace")
    yield Line(e.T * Rate(k, rates) / (tau * q_d), "=", rate, "It grows at the rate", part="rate")
    yield Line(Integral(1 / (rate * component), (component, w_init, end)), "=", ln(end / w_init) / rate,
               r"So the plateau lasts for a time that grows as $\ln(1/w_{\rm init})$")  # fmt: skip
