r"""That (78) is the minimum, for every matrix A; what the paper's proof leaves out; and the weights of minimal norm at rank R.

Keys and queries may be projected on the ranges of A, so let A be invertible. A minimum exists, for the cost grows with the weights, and the
constraint is regular there, for the queries of the active heads span the space; so (74) holds with some multiplier. By (76) the heads fall
into groups, one for each singular value eta of the multiplier; keys of different groups are orthogonal, and so are queries. (78-bound)
bounds what a group makes by a third of its cost. So no stationary point is cheaper than (78).
"""

from typing import Any

from mpmath import diag, mpf, svd_r
from sympy import (
    Derivative,
    Expr,
    IndexedBase,
    Rational,
    Sum,
    Symbol,
    diag as diagonal,
    diff,
    expand,
    factor,
    powdenest,
    simplify,
    solve,
    symbols,
)
from sympy.functions import Abs, sqrt
from sympy.matrices import Identity, Matrix, Trace

from ...derivations import Condition, Gradient, Line, Lines, erratum, note, register, states
from ...derivations.draws import satisfying, singular_values, unit_vector
from ...derivations.points import as_mpmath, ball_at
from ...notation import D, H, R, e, k_i, q_i, v_i
from .fixed_points import v_positive as v
from .minimal_norm import COST, K_all, L, Mu, Q_all, V_all, eta, n, stationarity, xi

xi_J, xi_d = Symbol("xi_J", positive=True), Symbol("xi_d", positive=True)
served = IndexedBase("xi", positive=True)  # the singular values that a head serves
sigma = IndexedBase("sigma", nonnegative=True)  # the singular values that a group of heads makes, or those of A
r_v, r_k, r_q = symbols("r_v r_k r_q", nonnegative=True)
p, g, c, sigma_j, x = symbols("p g c sigma_j x", positive=True)
j, r = symbols("j r", integer=True, positive=True)


def _singular_values(point) -> list:
    """Those of the map of all heads, and zeros: as many as there are heads or dimensions."""
    return [*map(as_mpmath, singular_values(ball_at(MADE, point))), *[mpf(0)] * point[H]]


def _are_singular_values(point) -> bool:
    found = _singular_values(point)
    return all(abs(point[sigma][d] - found[d - 1]) < 1e-20 for d in range(1, len(found) + 1))


def _not_singular_values(draw):
    return lambda point: (draw(point), point.family(sigma, [100 * one for one in _singular_values(point)]))


def _group(point) -> None:
    """The multiplier is here a multiple of an isometry."""
    count = point[n] = point[H]
    point[Mu] = point[eta] * svd_r(point[Mu])[0]
    point[V_all] = diag([point.rng.choice([-1, 1]) / point[eta] for _ in range(count)])
    for head in range(count):
        point[K_all][:, head] = unit_vector(point.size(D), point) / point[eta]
    point[Q_all] = point[Mu].T * point[K_all] * point[V_all]
    point.family(sigma, _singular_values(point))


def _factors(point) -> None:
    values = point[V_all]
    point[V_all] = diag([values[i, i] for i in range(values.rows)])
    point.family(sigma, _singular_values(point))


UNIT = satisfying(r"$\boldsymbol{e}$ is a unit vector", {e.T * e: 1}, lambda point: point.__setitem__(e, unit_vector(point.size(D), point)))
TWO = Condition("$D = 2$", lambda point: point[D] == 2)
MADE = K_all * V_all * Q_all.T
ONE_VALUE = satisfying(
    r"$n$ heads at a stationary point have one singular value $\eta$ of the multiplier, $\boldsymbol{\mathsf{M}}"
    r"\boldsymbol{\mathsf{M}}^{\top}\boldsymbol{K} = \eta^2 \boldsymbol{K}$, and so by (76) one norm $1 / \eta$",
    {Q_all: Mu.T * K_all * V_all, Mu * Mu.T * K_all: eta**2 * K_all, V_all**2: Identity(H) / eta**2, Trace(K_all.T * K_all): H / eta**2},
)
GROUP = Condition(
    rf"{ONE_VALUE.text}; $\sigma_j$ are the singular values of their map",
    lambda point: point[n] == point[H] and ONE_VALUE.holds(point) and _are_singular_values(point),
    _group,
    _not_singular_values(_group),
)
FACTORS = Condition(
    r"$\boldsymbol{V}$ is diagonal, and $\sigma_j$ are the singular values of $\boldsymbol{K}\boldsymbol{V}\boldsymbol{Q}^{\top}$, the map "
    "of all heads",
    _are_singular_values,
    _factors,
    _not_singular_values(_factors),
)


@register("77-gaps", "Stationary weights that the paper's argument excludes", section="beside (76), (77)")
@states("map", lambda: Matrix([[1, -1], [1, -1]]) / 2)
@states("image", lambda: Matrix([1, -1]) / sqrt(2))
@states("shared value", lambda: (xi / n) ** Rational(1, 3))
@states("shared cost", lambda: 3 * n ** Rational(1, 3) * xi ** Rational(2, 3))
@erratum(
    r"For an $\boldsymbol{A}$ that is not semi-definite $\boldsymbol{k}_i$ may be an eigenvector of the square of the multiplier, but not "
    r"of the multiplier; for any $\boldsymbol{A}$ heads may share an eigenvector, so that $v_i^{3}$ need not be an eigenvalue of "
    r"$\boldsymbol{A}$, and these are not minimal, for their cost exceeds $3 \xi^{2/3}$ by the factor $n^{1/3}$"
)
def gaps() -> Lines:
    """Exact counterexamples, checked in (74)."""
    key, query, multiplier = Matrix([1, 1]) / sqrt(2), Matrix([1, -1]) / sqrt(2), diagonal(1, -1)
    (shared,) = solve(n * v**3 - xi, v)
    two = {"conditions": (TWO,)}
    unit = {"conditions": (UNIT,)}
    reasons = ("The gradient (74a) is zero", "and so is (74b)", "and (74c): the head is stationary")
    again = ("These heads are stationary: (74a) is zero", "(74b) is zero", "(74c) is zero")
    yield Line(v_i, ":=", 1, "One head with this value weight")
    yield Line(Mu, ":=", multiplier, "and this multiplier")
    yield Line(k_i, ":=", key, "with this key")
    yield Line(q_i, ":=", query, "and this query")
    for one, reason in zip((v_i, k_i, q_i), reasons, strict=True):
        yield Line(Gradient(L, one), "=", 0, reason, uses="74", **two)
    yield Line(v_i * k_i * q_i.T, "=", key * query.T, "The map it makes", part="map", **two)
    yield Line(Mu * Mu * k_i, "=", k_i, "The key is an eigenvector of the square of the multiplier", **two)
    yield Line(Mu * k_i, "=", multiplier * key, "Its image under the multiplier", part="image", **two)
    yield Line(k_i.T * Mu * k_i, "=", 0, "The image is perpendicular to it: it is not an eigenvector of the multiplier", **two)
    yield Line(v, ":=", shared, r"$n$ heads with this value weight, and $v \boldsymbol{e}$ as key and query", part="shared value")
    yield Line(n * v * (v * e) * (v * e).T, "=", xi * e * e.T, "Together they make this map", **unit)
    yield Line(v_i, ":=", v, "With the weights of one of them")
    yield Line(k_i, ":=", v * e, "its key")
    yield Line(q_i, ":=", v * e, "its query")
    yield Line(Mu, ":=", Identity(D) / v, "and this multiplier")
    for part, reason in zip("abc", again, strict=True):
        yield Line(stationarity()[part], "=", 0, reason, **unit)
    yield Line(n * COST, "=", n * 3 * shared**2, "Their cost", part="shared cost", **unit)
    yield Line(n * 3 * shared**2, ">=", 3 * xi ** Rational(2, 3), "It is more than that of one head if $n > 1$")


@register("78-bound", "No weights do it for less", section="beside (78)")
@states("one head", lambda: (r_v + r_k + r_q) / 2 * ((r_v - r_k) ** 2 + (r_k - r_q) ** 2 + (r_q - r_v) ** 2))
@states("tangent", lambda: (g - p) ** 2 * (g + 2 * p) / (3 * g))
@states("group", lambda: n / eta**2)
@states("cost", lambda: n / eta**2)
@note(
    f"In a group {GROUP.text}",
    r"Argued, not derived: a minimum exists, it is a stationary point (74), and its heads fall into such groups, whose keys are "
    "orthogonal to one another, and whose queries are",
)
def lower_bound() -> Lines:
    """The inequality of the means for one head; for a group of stationary heads, the tangent at the cube of their norm."""
    third, power = Rational(1, 3), Rational(2, 3)
    means = factor(r_v**3 + r_k**3 + r_q**3 - 3 * r_v * r_k * r_q)
    slope, offset = diff(c**power, c), c**power - c * diff(c**power, c)
    tangent = slope * sigma_j + offset
    gap = factor(powdenest((tangent - sigma_j**power).subs({sigma_j: p**3, c: g**3}), force=True))
    (norm,) = solve(1 - v**2 * eta**2, v)  # (76)
    total = Sum(sigma[j] ** power, (j, 1, n))
    tangents = Sum(tangent.subs(sigma_j, sigma[j]).subs(c, norm**3), (j, 1, n))
    cost_of_all = Trace(V_all**2) + Trace(K_all.T * K_all) + Trace(Q_all.T * Q_all)
    grouped = {"conditions": (GROUP,)}
    group = simplify((slope * n * norm**3 + offset * n).subs(c, norm**3))
    yield Line(r_v, ":=", Abs(v_i) ** power, "Take this power of the value weight")
    yield Line(r_k, ":=", Trace(k_i.T * k_i) ** third, "The same power of the norm of the key")
    yield Line(r_q, ":=", Trace(q_i.T * q_i) ** third, "and of the query")
    yield Line(COST - 3 * r_v * r_k * r_q, "=", means, "The gap in the inequality of the means", part="one head")
    yield Line(means, ">=", 0, "It is not negative")
    yield Line(p, ":=", sigma_j**third, "For the tangent of this power at $c$, write")
    yield Line(g, ":=", c**third, "and at the point of contact")
    yield Line(tangent - sigma_j**power, "=", gap, "It lies above the function by", part="tangent")
    yield Line(sigma_j**power, "<=", tangent, "so that it is a bound")
    yield Line(MADE * MADE.T, "=", (K_all * K_all.T / eta) ** 2,
               r"The map of a group has the eigenvalues of $\boldsymbol{K}\boldsymbol{K}^\top / \eta$ as singular values",
               **grouped)  # fmt: skip
    yield Line(Trace(K_all * K_all.T) / eta, "=", n * norm**3, "Their sum", **grouped)
    yield Line(Sum(sigma[j], (j, 1, n)), "=", n * norm**3, r"So that of the $\sigma_j$", **grouped)
    yield Line(total, "<=", tangents,
               r"In a group all norms are equal, by (76): take the tangent at their cube, $c = 1 / \eta^3$", **grouped)  # fmt: skip
    yield Line(tangents, "=", group, r"With the sum of the $\sigma_j$", **grouped)
    yield Line(total, "<=", group, "So the sum of the powers is at most", part="group", **grouped)
    yield Line(cost_of_all / 3, "=", n * norm**2, "A third of the cost of the group is as large", part="cost", **grouped)
    yield Line(cost_of_all, ">=", 3 * Sum(sigma[j] ** power, (j, 1, D)),
               r"So no weights make $\boldsymbol{A}$ for less", conditions=(FACTORS,))  # fmt: skip


def _least(cost: Expr, variable: Symbol) -> tuple[Any, Any]:
    """Where the cost is least, and its value there."""
    (best,) = solve(diff(cost, variable), variable)
    return best, cost.subs(variable, best)


@register("78-R", "Weights of minimal norm at rank $R$", section="beside (78)")
@states("value", lambda: xi_J ** Rational(1, 3))
@states("key", lambda: sqrt(xi_d) / xi_J ** Rational(1, 6))
@states("cost", lambda: 3 * xi_J ** Rational(2, 3))
@states("convex", lambda: 2 + 4 * xi_J / v**3)
@note(r"The head serves the singular values $\xi_{d}$, $d \in J$, with one slot each")
def minimal_weights_rank_R() -> Lines:
    """Each slot costs at least 2 xi_d / v; then the best v, the cost being convex in it."""
    slot = x**2 + (xi_d / (v * x)) ** 2  # |k|^2 + |q|^2 with v |k| |q| = xi_d
    best, least = _least(slot, x)
    of_all = v**2 + Sum(least.subs(xi_d, served[r]), (r, 1, R))
    cost = v**2 + least.subs(xi_d, xi_J)  # each slot is linear in its xi_d
    value, lowest = _least(cost, v)
    convex = expand(diff(cost, v, 2))
    yield Line(slot, ">=", least, r"The cost of one slot, if its key has the norm $x$ and its query $\xi_d / (v x)$")
    yield Line(x, ":=", best, "It is least if both have the norm")
    yield Line(slot, "=", least, "There it is")
    yield Line(xi_J, ":=", Sum(served[r], (r, 1, R)), "The singular values of the head have the sum")
    yield Line(of_all, "=", cost, "The cost of the head with all its slots")
    yield Line(Derivative(cost, (v, 2)), "=", convex, "Its second derivative", part="convex")
    yield Line(convex, ">", 0, "It is positive: the cost is convex")
    yield Line(cost, ">=", lowest, "So the cost has one minimum")
    yield Line(v, ":=", value, "The minimum is at", part="value")
    yield Line(x, "=", best.subs(v, value), "There the keys and queries have the norm", part="key")
    yield Line(cost, "=", lowest, "and the cost is", part="cost")
