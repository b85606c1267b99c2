r"""Weights of minimal norm that make a given effective map: equations (74)-(78).

Minimise sum_i v_i^2 + |k_i|^2 + |q_i|^2 over the heads, subject to sum_i v_i k_i q_i' = A. The multiplier is a general matrix here, for the
constraint has D^2 equations; the paper takes a symmetric one, which is one case. That (78) is the minimum is proved in
:mod:`~iclflow.theory.results.landscape.minimal_norm_bound`.
"""

from mpmath import diag, mpf, svd_r
from sympy import Abs, Rational, Symbol, Trace, solve, symbols

from ...algebra.polynomial import TracePolynomial
from ...calculus import collect, gradient, rewrite, substitute
from ...derivations import Gradient, Line, Lines, erratum, given, note, register, states
from ...derivations.draws import satisfying
from ...notation import B_rest, D, H, a, k_i as k, lambda_, matrix, q_i as q, symmetric_matrix, v_i, vector
from ..separate.flow import effective_map, rank_one_head
from ..task.population import PAPER
from .fixed_points import fixed_map_along, ridge, v_positive as v

A = matrix("A", D)  # the effective map to be made
Mu = matrix("Mu", D, latex=r"\boldsymbol{\mathsf{M}}")  # the multiplier
K_all, Q_all = (matrix("K_all", D, H, latex=r"\boldsymbol{K}"), matrix("Q_all", D, H, latex=r"\boldsymbol{Q}"))  # all heads, side by side
V_all = symmetric_matrix("V_all", H, latex=r"\boldsymbol{V}")  # their value weights, diagonal
u, z = vector("u", D), vector("z", D)  # a pair of singular vectors of A
eta, xi = symbols("eta xi", positive=True)
n = Symbol("n", integer=True, positive=True)  # how many heads share a singular value
L = Symbol("L", real=True)  # the Lagrangian
COST = v_i**2 + Trace(k.T * k) + Trace(q.T * q)  # of one head


def _served(point, left, values, right) -> tuple:
    """v, k and q of an active head at a stationary point, and its singular value, from those of the multiplier and their vectors."""
    d = point.rng.randrange(len(values))
    value = point.rng.choice([-1, 1]) / values[d]
    return value, abs(value) * left[:, d], value * right[d, :].T, values[d]


def _active(point) -> None:
    point[v_i], point[k], point[q], point[eta] = _served(point, *svd_r(point[Mu]))


def _stationary(point) -> None:
    _active(point)
    if point.rng.random() < 0.3:
        _idle(point)


def _idle(point) -> None:
    point[v_i], point[k], point[q] = mpf(0), 0 * point[k], 0 * point[q]


def _all_stationary(point) -> None:
    multiplier, values = svd_r(point[Mu]), []
    for head in range(point.size(H)):
        value, point[K_all][:, head], point[Q_all][:, head], _ = _served(point, *multiplier)
        values.append(value)
    point[V_all] = diag(values)
    point[A] = point[K_all] * point[V_all] * point[Q_all].T


def _singular(point) -> None:
    left, values, right = svd_r(point[A])
    d = point.rng.randrange(len(values))
    point[u], point[z], point[xi] = left[:, d], right[d, :].T, values[d]


AT_REST = {k.T * Mu * q: v_i, v_i * Mu * q: k, v_i * Mu.T * k: q}
STATIONARY = satisfying("At a stationary point: the gradients (74) are zero", AT_REST, _stationary)
ACTIVE_HEAD = satisfying(
    r"At a stationary point, for a head that is not zero; $\eta$ is the singular value of the multiplier to which it belongs, "
    r"$\boldsymbol{\mathsf{M}}\boldsymbol{\mathsf{M}}^{\top} \boldsymbol{k}_i = \eta^2 \boldsymbol{k}_i$",
    {**AT_REST, Mu * Mu.T * k: eta**2 * k, v_i**2 * eta**2: 1},
    _active,
)
ALL_STATIONARY = satisfying(
    r"At a stationary point; $\boldsymbol{K}$ and $\boldsymbol{Q}$ have the keys and queries of all heads as columns, $\boldsymbol{V}$ "
    "has their value weights on its diagonal",
    {Q_all: Mu.T * K_all * V_all, K_all * V_all * Q_all.T: A},
    _all_stationary,
)
SINGULAR = satisfying(
    r"$\boldsymbol{u}$ and $\boldsymbol{z}$ are unit singular vectors of $\boldsymbol{A}$ for the singular value $\xi$",
    {A * z: xi * u, A.T * u: xi * z},
    _singular,
)


def lagrangian() -> TracePolynomial:
    """Half the cost of one head, plus the multiplier times the constraint."""
    return TracePolynomial(COST) / 2 + (TracePolynomial(Mu.T) * (A - effective_map(rank_one_head()))).trace()


def stationarity() -> dict:
    """The gradients of the Lagrangian in v_i, k_i, q_i and the multiplier."""
    return {part: gradient(lagrangian(), symbol) for part, symbol in zip("abcd", (v_i, k, q, Mu), strict=True)}


@register("74", "The gradient that vanishes for stationary weights with a given effective map", section="Appendix D.7")
@states("a", lambda: v_i - Trace(k.T * Mu * q))
@states("b", lambda: k - v_i * Mu * q)
@states("c", lambda: q - v_i * Mu.T * k)
@states("d", lambda: A - (B_rest + v_i * k * q.T))
@note(r"The other heads make the map $\boldsymbol{B}_{\neq i}$; their cost, a constant, is left out")
@erratum(
    "The paper takes the multiplier symmetric; the constraint has $D^{2}$ equations, so it is a general matrix, and (74c) has its transpose"
)
def stationary_weights() -> Lines:
    """The gradient of the Lagrangian."""
    gradients = stationarity()
    reasons = ("Its gradient in the value weight", "in the key", "in the query", "in the multiplier")
    yield Line(L, ":=", lagrangian(), "Half the cost of the head, and the multiplier times the constraint")
    for symbol, reason, part in zip((v_i, k, q, Mu), reasons, "abcd", strict=True):
        yield Line(Gradient(L, symbol), "=", gradients[part], reason, part=part)
    yield Line(Gradient(L, q), "!=", q - v_i * Mu * k, "As printed in the paper, (74c) is without the transpose")


@register("75", "A head without a value weight is zero", section="Appendix D.7")
@states("key", lambda: v_i * Mu * q)
@states("query", lambda: v_i * Mu.T * k)
@given(STATIONARY)
def zero_head() -> Lines:
    """(74b) and (74c) solved for the key and the query."""
    gradients = stationarity()
    yield Line(k - Gradient(L, k), "=", k - gradients["b"], "The key less the gradient (74b)", uses="74")
    yield Line(q - Gradient(L, q), "=", q - gradients["c"], "The query less the gradient (74c)", uses="74")
    yield Line(k, "=", k - gradients["b"], "The gradient is zero, so the key is", part="key")
    yield Line(q, "=", q - gradients["c"], "and the query", part="query")
    yield Line(Line(v_i, "=", 0), "=>", (Line(k, "=", 0), Line(q, "=", 0)), "Both are zero if the value weight is", meets=(_idle,))


@register("76", "A head that is not zero", section="Appendix D.7")
@states("key norm", lambda: v_i**2)
@states("query norm", lambda: v_i**2)
@states("key", lambda: v_i**2 * Mu * Mu.T * k)
@states("value", lambda: 1 / eta)
@given(ACTIVE_HEAD)
@erratum(
    r"The paper concludes from $\boldsymbol{k}_i=v_i^2\boldsymbol{\mathsf{M}}^2\boldsymbol{k}_i$ that $\boldsymbol{k}_{i}$ is an "
    r"eigenvector of the multiplier. It is one of its square: if the multiplier has the eigenvalues $\eta$ and $-\eta$, "
    r"$\boldsymbol{k}_{i}$ need not be one, see (77-gaps), unless $\boldsymbol{A}$ is positive semi-definite, as in the paper"
)
def nonzero_head() -> Lines:
    """Combine (74a) to (74c)."""
    gradients = stationarity()
    key, query = k - gradients["b"], q - gradients["c"]
    to_value = {k.T * Mu * q: v_i}
    again = substitute(key, {q: query})
    (root,) = solve(1 - v**2 * eta**2, v)
    key_norm, query_norm = rewrite(k.T * key, to_value), rewrite(query.T * q, to_value)
    yield Line(k.T * Mu * q, "=", v_i, "By (74a)")
    yield Line(k, "=", key, "By (74b) the key is")
    yield Line(q, "=", query, "By (74c) the query is")
    yield Line(k.T * k, "=", k.T * key, r"$\boldsymbol{k}_i^{\top}$ times (74b)")
    yield Line(k.T * k, "=", key_norm, "With (74a) it is", part="key norm")
    yield Line(q.T * q, "=", query.T * q, r"(74c) times $\boldsymbol{q}_i$")
    yield Line(q.T * q, "=", query_norm, "With (74a) it is the same", part="query norm")
    yield Line(key, "=", again, "(74c) in (74b)", uses=2)
    yield Line(k, "=", again, r"So the key is an eigenvector of $\boldsymbol{\mathsf{M}}\boldsymbol{\mathsf{M}}^{\top}$", part="key")
    yield Line(v_i**2 * eta**2 * k, "=", k, r"Its eigenvalue is $\eta^2$")
    yield Line(Abs(v_i), "=", root, "This gives the value weight, up to its sign", part="value")


@register("77", "The queries and the multiplier", section="Appendix D.7")
@states("all", lambda: Mu.T * K_all * V_all)
@states("sum", lambda: Mu.T * A)
@given(ALL_STATIONARY)
@erratum("With a general multiplier it is the transpose")
def sum_of_queries() -> Lines:
    """All heads side by side: the gradient of the Lagrangian in the queries, times Q', with the constraint."""
    whole = Trace(V_all * V_all) + Trace(K_all.T * K_all) + Trace(Q_all.T * Q_all)
    made = K_all * V_all * Q_all.T
    of_all = TracePolynomial(whole) / 2 + (TracePolynomial(Mu.T) * (A - made)).trace()
    queries = Q_all - gradient(of_all, Q_all)
    times = queries * Q_all.T
    yield Line(L, ":=", of_all, "Half the cost of all heads, and the multiplier times the constraint")
    yield Line(L, "=", whole / 2, "The constraint holds, so it is half the cost")
    yield Line(Q_all - Gradient(L, Q_all), "=", queries, "The queries less the gradient in them, (74c) for all heads")
    yield Line(Q_all, "=", queries, "The gradient is zero, so the queries are", part="all")
    yield Line(made, "=", A, "The constraint (74d)")
    yield Line(Q_all * Q_all.T, "=", times, r"The sum of $\boldsymbol{q}_i\boldsymbol{q}_i^{\top}$")
    yield Line(times, "=", rewrite(times, {made: A}), "With the constraint", uses=-2)
    yield Line(Q_all * Q_all.T, "=", rewrite(times, {made: A}), "So the sum is", part="sum")
    yield Line(Q_all * Q_all.T, "!=", Mu * A, "As printed in the paper, it is without the transpose")


@register("78", "Weights of minimal norm", section="Appendix D.7")
@states("value", lambda: xi ** Rational(1, 3))
@states("map", lambda: xi * u * z.T)
@states("cost", lambda: 3 * xi ** Rational(2, 3))
@states("landscape", lambda: lambda_ ** Rational(-1, 3) * ridge(lambda_) ** Rational(1, 3))
@given(SINGULAR)
@erratum(r"True for every matrix $\boldsymbol{A}$, with its singular values; the paper's argument does not prove it, see (77-gaps)")
def minimal_weights() -> Lines:
    """A head with |k| = |q| = |v|, as (76) asks, that serves one singular value."""
    made = substitute(v_i * k * q.T, {k: v_i * u, q: v_i * z})
    ((degree, direction),) = collect(made, v_i).items()
    (value,) = solve(v**degree - xi, v)
    learned = fixed_map_along().subs(a, PAPER.eigenvalue)
    yield Line(k, ":=", v_i * u, "Let the key be a multiple of the left singular vector")
    yield Line(q, ":=", v_i * z, "and the query of the right one")
    yield Line(v_i * k * q.T, "=", made, "The map of the head")
    yield Line(v_i, ":=", value, "It has the singular value for", part="value")
    yield Line(v_i * k * q.T, "=", value**degree * direction, "Then the map is", part="map")
    yield Line(v_i * k * q.T * z, "=", A * z, r"It does to $\boldsymbol{z}$ what $\boldsymbol{A}$ does")
    yield Line(COST, "=", 3 * value**2, "The cost of the head", part="cost")
    yield Line(xi, ":=", learned, "For the effective map (23), with the moment (32)")
    yield Line(v_i, "=", value.subs(xi, learned), "the value weight is", part="landscape")
