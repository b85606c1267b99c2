r"""Weights of minimal norm that make a given effective map: equations (74)-(78), and the same at rank R.

Minimise sum_i v_i^2 + |k_i|^2 + |q_i|^2 over the heads, subject to sum_i v_i k_i q_i' = A. The stationary points are derived with a
general multiplier, for the constraint has D^2 equations; the paper takes a symmetric one, which is one case. The minimum is
3 sum_j sigma_j(A)^(2/3), for every A: with the weights of all heads side by side, A = K V Q' and

    sum_j sigma_j(A)^(2/3) <= sum_j (sigma_j(K) sigma_j(V) sigma_j(Q))^(2/3) <= (1/3) sum_j (sigma_j(K)^2 + sigma_j(V)^2 + sigma_j(Q)^2),

by Horn's inequality for the singular values of a product, which is quoted, and by the inequality of the means, whose gap is (78-bound).
"""

from sympy import Matrix, Rational, Symbol, Trace, diag, diff, expand, factor, solve, sqrt, symbols

from .calculus import collect, explicit, gradient, substitute
from .derivation import Derivation, Step
from .equations import register
from .landscape import fixed_map_along, ridge
from .notation import D, H, lambda_, matrix, symmetric_matrix, v_i, vector
from .reduction import a
from .rewriting import rewrite
from .separate import B_rest, effective_map, k, q, rank_one_head
from .spectral import second_moment_along
from .trace_algebra import TracePolynomial

__all__ = ["lagrangian", "stationarity"]

A = matrix("A", D)  # the effective map to be made
Mu = matrix("Mu", D, latex=r"\boldsymbol{\mathsf{M}}")  # the multiplier
K_all, Q_all = (
    matrix("K_all", D, H, latex=r"\boldsymbol{K}"),
    matrix("Q_all", D, H, latex=r"\boldsymbol{Q}"),
)  # all heads, side by side
V_all = symmetric_matrix("V_all", H, latex=r"\boldsymbol{V}")  # their value weights, diagonal
u, z = vector("u", D), vector("z", D)  # a pair of singular vectors of A
v, eta, xi, n = (Symbol(name, positive=True) for name in ("v", "eta", "xi", "n"))
xi_J, xi_d = Symbol("xi_J", positive=True), Symbol("xi_d", positive=True)
others = Symbol("c", real=True)  # the cost of the other heads
PARTS = {"a": r"\partial L/\partial v_i", "b": r"\partial L/\partial\boldsymbol{k}_i", "c": r"\partial L/\partial\boldsymbol{q}_i",
         "d": r"\partial L/\partial\boldsymbol{\mathsf{M}}"}  # fmt: skip


def lagrangian() -> TracePolynomial:
    """Half the cost of one head and of the others, plus the multiplier times the constraint."""
    cost = TracePolynomial(k.T * k) + TracePolynomial(q.T * q) + v_i**2 + others
    return cost / 2 + (TracePolynomial(Mu.T) * (A - effective_map(rank_one_head()))).trace()


def stationarity() -> dict:
    """The gradients of the Lagrangian in v_i, k_i, q_i and the multiplier."""
    return {part: gradient(lagrangian(), symbol) for part, symbol in zip("abcd", (v_i, k, q, Mu), strict=True)}


@register(
    "74",
    "Stationary weights for a given effective map",
    kind="exact",
    section="Appendix D.7",
    left=PARTS,
    typed=lambda: {
        "a": v_i - Trace(k.T * Mu * q),
        "b": k - v_i * Mu * q,
        "c": q - v_i * Mu.T * k,
        "d": A - (B_rest + v_i * k * q.T),
    },
    conditions=("zero at a stationary point", "any number of heads: the others enter through B_rest"),
    erratum="The paper takes the multiplier symmetric; the constraint has D^2 equations, so it is a general matrix, and (74c) has its "
    "transpose",
)
def stationary_weights() -> Derivation:
    """The gradient of the Lagrangian."""
    gradients = stationarity()
    rules = ("Its gradient in the value weight", "in the key", "in the query", "in the multiplier")
    return Derivation.by(
        Step("Half the cost, and the multiplier times the constraint", lagrangian(), "L"),
        *(Step(rule, gradients[part], "", part) for rule, part in zip(rules, "abcd", strict=True)),
    )


@register(
    "75",
    "A head without a value weight is zero",
    kind="exact",
    section="Appendix D.7",
    left={"key": r"\boldsymbol{k}_i", "query": r"\boldsymbol{q}_i"},
    typed=lambda: {"key": v_i * Mu * q, "query": v_i * Mu.T * k},
    conditions=("so both are zero at v_i = 0",),
)
def zero_head() -> Derivation:
    """(74b) and (74c) solved for the key and the query."""
    gradients = stationarity()
    return Derivation.by(
        Step("The key, from (74b)", k - gradients["b"], "", "key"),
        Step("The query, from (74c)", q - gradients["c"], "", "query"),
        Step("At v_i = 0 the key is", substitute(k - gradients["b"], {v_i: 0})),
    )


@register(
    "76",
    "A head that is not zero",
    kind="exact",
    section="Appendix D.7",
    left={
        "key norm": r"\boldsymbol{k}_i^\top\boldsymbol{k}_i",
        "query norm": r"\boldsymbol{q}_i^\top\boldsymbol{q}_i",
        "key": r"\boldsymbol{k}_i",
        "value": "v_i",
    },
    typed=lambda: {"key norm": v_i**2, "query norm": v_i**2, "key": v_i**2 * Mu * Mu.T * k, "value": 1 / eta},
    conditions=("eta is the singular value of the multiplier to which k_i and q_i belong; up to signs",),
    erratum="The paper concludes from $\\boldsymbol{k}_i=v_i^2\\boldsymbol{\\mathsf{M}}^2\\boldsymbol{k}_i$ that k_i is an "
    "eigenvector of the multiplier. "
    "It is one of its square: where the multiplier has the eigenvalues eta and -eta, k_i need not be an eigenvector, see (77-gaps)",
)
def nonzero_head() -> Derivation:
    """Combine (74a) to (74c)."""
    gradients = stationarity()
    value = TracePolynomial(v_i) - gradients["a"]  # k' Mu q
    key, query = k - gradients["b"], q - gradients["c"]
    to_value = {k.T * Mu * q: v_i}  # (74a)
    again = substitute(key, {q: query})
    (root,) = solve(1 - v**2 * eta**2, v)
    return Derivation.by(
        Step("The value weight, by (74a)", value, "v_i"),
        Step("k' times (74b), with (74a)", rewrite(k.T * key, to_value), "", "key norm"),
        Step("q' times (74c), with (74a)", rewrite(query.T * q, to_value), "", "query norm"),
        Step(
            "(74c) in (74b): the key is an eigenvector of $\\boldsymbol{\\mathsf{MM}}^\\top$, with eigenvalue $1/v_i^2 = \\eta^2$",
            again,
            "",
            "key",
        ),
        Step("So the value weight, up to its sign", root, "", "value"),
    )


@register(
    "77",
    "The queries and the multiplier",
    kind="exact",
    section="Appendix D.7",
    left={"all": r"\boldsymbol{Q}", "sum": r"\textstyle\sum_i\boldsymbol{q}_i\boldsymbol{q}_i^\top"},
    typed=lambda: {"all": Mu.T * K_all * V_all, "sum": Mu.T * A},
    conditions=("at a stationary point",),
    erratum="With a general multiplier it is the transpose",
)
def sum_of_queries() -> Derivation:
    """All heads side by side: the gradient of the Lagrangian in the queries, times Q', with the constraint."""
    whole = Trace(V_all * V_all) + Trace(K_all.T * K_all) + Trace(Q_all.T * Q_all)
    constraint = A - K_all * V_all * Q_all.T
    slope = gradient(TracePolynomial(whole) / 2 + (TracePolynomial(Mu.T) * constraint).trace(), Q_all)
    queries = Q_all - slope
    return Derivation.by(
        Step("The queries of all heads at a stationary point, (74c)", queries, "", "all"),
        Step("Times Q'", queries * Q_all.T),
        Step("With the constraint (74d)", rewrite(queries * Q_all.T, {K_all * V_all * Q_all.T: A}), "", "sum"),
    )


@register(
    "77-gaps",
    "Stationary weights that the paper's argument excludes",
    kind="exact",
    section="beside (76), (77)",
    left={
        "map": r"v\boldsymbol{k}\boldsymbol{q}^\top",
        "image": r"\boldsymbol{\mathsf{M}}\boldsymbol{k}",
        "shared value": "v_i",
        "shared cost": r"\textstyle\sum_i v_i^2+\|\boldsymbol{k}_i\|^2+\|\boldsymbol{q}_i\|^2",
    },
    typed=lambda: {
        "map": Matrix([[1, -1], [1, -1]]) / 2,
        "image": Matrix([1, -1]) / sqrt(2),
        "shared value": (xi / n) ** Rational(1, 3),
        "shared cost": 3 * n ** Rational(1, 3) * xi ** Rational(2, 3),
    },
    conditions=(
        "map, image: one head with the multiplier diag(1, -1), v = 1, $\\boldsymbol{k}=(1,1)/\\sqrt2$, $\\boldsymbol{q}=(1,-1)/\\sqrt2$",
        "shared: n heads with equal weights serve one eigenvector with eigenvalue xi",
    ),
    erratum="k is an eigenvector of the square of the multiplier, but not of the multiplier; heads may share an eigenvector, "
    "so that v^3 need not be an eigenvalue of A; "
    "and such stationary weights are not minimal, for their cost exceeds 3 xi^(2/3) by the factor n^(1/3)",
)
def gaps() -> Derivation:
    """Exact counterexamples, checked in (74)."""
    key, query, multiplier = Matrix([1, 1]) / sqrt(2), Matrix([1, -1]) / sqrt(2), diag(1, -1)
    values = {k: key, q: query, Mu: multiplier}
    residuals = [explicit(substitute(stationarity()[part], {v_i: 1}), values, D=2) for part in "abc"]
    if any(entry != 0 for residual in residuals for entry in Matrix([residual])):
        raise ArithmeticError(f"the head should be stationary, its residuals are {residuals}")
    (shared,) = solve(n * v**3 - xi, v)
    return Derivation.by(
        Step("The residuals of (74a) to (74c) for the first head", tuple(residuals)),
        Step("The map it makes", key * query.T, "", "map"),
        Step("The image of its key is no multiple of it", multiplier * key, "", "image"),
        Step("n heads with v e as key and query make n v^3 e e'", shared, "", "shared value"),
        Step("Their cost", n * 3 * shared**2, "", "shared cost"),
    )


@register(
    "78",
    "Weights of minimal norm",
    kind="exact",
    section="Appendix D.7",
    left={
        "value": "v_i",
        "map": r"v_i\boldsymbol{k}_i\boldsymbol{q}_i^\top",
        "cost": r"v_i^2+\|\boldsymbol{k}_i\|^2+\|\boldsymbol{q}_i\|^2",
        "landscape": "v_i",
    },
    typed=lambda: {
        "value": xi ** Rational(1, 3),
        "map": xi * u * z.T,
        "cost": 3 * xi ** Rational(2, 3),
        "landscape": lambda_ ** Rational(-1, 3) * ridge(lambda_) ** Rational(1, 3),
    },
    conditions=(
        "$\\boldsymbol{k}_i=v_i\\boldsymbol{u}$ and $\\boldsymbol{q}_i=v_i\\boldsymbol{z}$ with the unit singular vectors u "
        "and z of the matrix A for "
        "the singular value xi; where A is positive "
        "semi-definite, u = z is its eigenvector",
        "landscape: A is the effective map (23) of a fixed point",
    ),
    erratum="True for every matrix A, with its singular values; the paper's argument does not prove it, see (77-gaps)",
)
def minimal_weights() -> Derivation:
    """A head with |k| = |q| = v, as (76) asks, that serves one singular value."""
    made = substitute(v_i * k * q.T, {k: v_i * u, q: v_i * z})
    ((degree, direction),) = collect(made, v_i).items()
    (value,) = solve(v**degree - xi, v)
    learned = fixed_map_along().subs(a, second_moment_along())
    return Derivation.by(
        Step("The map of a head with key v u and query v z", made),
        Step("It is the singular value for", value, "", "value"),
        Step("Then the map is", value**degree * direction, "", "map"),
        Step("The cost of the head", 3 * value**2, "", "cost"),
        Step("For the effective map (23), with the moment (32)", value.subs(xi, learned), "", "landscape"),
    )


@register(
    "78-bound",
    "No head does it for less: the gap in the inequality of the means",
    kind="exact",
    section="beside (78)",
    left=r"v^2+\|\boldsymbol{k}\|^2+\|\boldsymbol{q}\|^2-3\,(|v|\,\|\boldsymbol{k}\|\,\|\boldsymbol{q}\|)^{2/3}",
    typed=lambda: (r_v + r_k + r_q) / 2 * ((r_v - r_k) ** 2 + (r_k - r_q) ** 2 + (r_q - r_v) ** 2),
    conditions=(
        "r_v, r_k, r_q are $|v|^{2/3}$, $\\|\\boldsymbol{k}\\|^{2/3}$, $\\|\\boldsymbol{q}\\|^{2/3}$: not negative, and zero "
        "only where they are equal",
    ),
)
def means() -> Derivation:
    """Factor the difference; with Horn's inequality, see the module, it bounds the cost of all heads together."""
    gap = r_v**3 + r_k**3 + r_q**3 - 3 * r_v * r_k * r_q
    return Derivation.by(Step("The gap", gap), Step("Factored", factor(gap)))


r_v, r_k, r_q = symbols("r_v r_k r_q", nonnegative=True)


@register(
    "78-R",
    "Weights of minimal norm at rank R",
    kind="exact",
    section="beside (78)",
    left={
        "value": "v_i",
        "key": r"\|\boldsymbol{k}_{i,r}\|=\|\boldsymbol{q}_{i,r}\|",
        "cost": r"v_i^2+\|\boldsymbol{K}_i\|^2+\|\boldsymbol{Q}_i\|^2",
        "convex": r"\tfrac{d^2}{dv^2}\,\mathrm{cost}",
    },
    typed=lambda: {
        "value": xi_J ** Rational(1, 3),
        "key": sqrt(xi_d) / xi_J ** Rational(1, 6),
        "cost": 3 * xi_J ** Rational(2, 3),
        "convex": 2 + 4 * xi_J / v**3,
    },
    conditions=(
        "the head serves a set J of at most R singular values xi_d, whose sum is xi_J; for a fixed point xi_d = lambda_d / a_d",
        "one slot each; the best value weight for a given set",
    ),
)
def minimal_weights_rank_R() -> Derivation:
    """Each slot costs at least 2 xi_d / v; then the best v, the cost being convex in it."""
    length = Symbol("x", positive=True)
    slot = length**2 + (xi_d / (v * length)) ** 2  # |k|^2 + |q|^2 with v |k| |q| = xi_d
    (best,) = solve(diff(slot, length), length)
    least = slot.subs(length, best)
    cost = v**2 + least.subs(xi_d, xi_J)  # the slots add up, and each is linear in its xi_d
    (value,) = solve(diff(cost, v), v)
    return Derivation.by(
        Step("The cost of one slot with |k| = x", slot),
        Step("Its least value, where |q| = |k|", least),
        Step("The cost of the head, with the slots summed", cost),
        Step("Its second derivative is positive", expand(diff(cost, v, 2)), "", "convex"),
        Step("So its minimum is at", value, "", "value"),
        Step("There the keys and queries are", best.subs(v, value), "", "key"),
        Step("And the cost is", cost.subs(v, value), "", "cost"),
    )
