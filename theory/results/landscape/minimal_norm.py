r"""Weights of minimal norm that make a given effective map: equations (74)-(78).

Minimise sum_i v_i^2 + |k_i|^2 + |q_i|^2 over the heads, subject to sum_i v_i k_i q_i' = A. The multiplier is a general matrix here, for the
constraint has D^2 equations; the paper takes a symmetric one, which is one case. That (78) is the minimum is proved in
:mod:`~iclflow.theory.results.landscape.minimal_norm_bound`.
"""

from sympy import Rational, Symbol, Trace, solve

from ...algebra.polynomial import TracePolynomial
from ...calculus.derivatives import gradient
from ...calculus.rewriting import rewrite
from ...calculus.substitution import collect, substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import B_rest, D, H, a, lambda_, matrix, symmetric_matrix, v_i, vector
from ...notation import k_i as k
from ...notation import q_i as q
from ..separate.flow import effective_map, rank_one_head
from ..task.second_moments import second_moment_along
from .fixed_points import fixed_map_along, ridge

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
    conditions=("zero at a stationary point", r"any number of heads: the others enter through $B_{\rm rest}$"),
    erratum=(
        "The paper takes the multiplier symmetric; the constraint has $D^{2}$ equations, so it is a general "
        "matrix, and (74c) has its transpose"
    ),
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
    conditions=("so both are zero at $v_{i} = 0$",),
)
def zero_head() -> Derivation:
    """(74b) and (74c) solved for the key and the query."""
    gradients = stationarity()
    return Derivation.by(
        Step("The key, from (74b)", k - gradients["b"], "", "key"),
        Step("The query, from (74c)", q - gradients["c"], "", "query"),
        Step("At $v_{i} = 0$ the key is", substitute(k - gradients["b"], {v_i: 0})),
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
    conditions=(
        (
            r"$\eta$ is the singular value of the multiplier to which $\boldsymbol{k}_{i}$ and "
            r"$\boldsymbol{q}_{i}$ belong; up to signs"
        ),
    ),
    erratum=(
        r"The paper concludes from $\boldsymbol{k}_i=v_i^2\boldsymbol{\mathsf{M}}^2\boldsymbol{k}_i$ that "
        r"$\boldsymbol{k}_{i}$ is an eigenvector of the multiplier. It is one of its square: where the "
        r"multiplier has the eigenvalues $\eta$ and $-\eta$, $\boldsymbol{k}_{i}$ need not be an eigenvector, "
        "see (77-gaps)"
    ),
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
        Step(r"$\boldsymbol{k}^{\top}$ times (74b), with (74a)", rewrite(k.T * key, to_value), "", "key norm"),
        Step(r"$\boldsymbol{q}^{\top}$ times (74c), with (74a)", rewrite(query.T * q, to_value), "", "query norm"),
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
        Step(r"Times $\boldsymbol{Q}^{\top}$", queries * Q_all.T),
        Step("With the constraint (74d)", rewrite(queries * Q_all.T, {K_all * V_all * Q_all.T: A}), "", "sum"),
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
        (
            r"$\boldsymbol{k}_i=v_i\boldsymbol{u}$ and $\boldsymbol{q}_i=v_i\boldsymbol{z}$ with the unit singular "
            r"vectors $u$ and $\boldsymbol{z}$ of the matrix A for the singular value $\xi$; where $A$ is positive "
            r"semi-definite, $u = \boldsymbol{z}$ is its eigenvector"
        ),
        "landscape: $A$ is the effective map (23) of a fixed point",
    ),
    erratum=(
        "True for every matrix $A$, with its singular values; the paper's argument does not prove it, see (77-gaps)"
    ),
)
def minimal_weights() -> Derivation:
    """A head with |k| = |q| = v, as (76) asks, that serves one singular value."""
    made = substitute(v_i * k * q.T, {k: v_i * u, q: v_i * z})
    ((degree, direction),) = collect(made, v_i).items()
    (value,) = solve(v**degree - xi, v)
    learned = fixed_map_along().subs(a, second_moment_along())
    return Derivation.by(
        Step(r"The map of a head with key $v u$ and query $v \boldsymbol{z}$", made),
        Step("It is the singular value for", value, "", "value"),
        Step("Then the map is", value**degree * direction, "", "map"),
        Step("The cost of the head", 3 * value**2, "", "cost"),
        Step("For the effective map (23), with the moment (32)", value.subs(xi, learned), "", "landscape"),
    )
