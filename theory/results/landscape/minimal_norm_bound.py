r"""That (78) is the minimum, for every matrix A; what the paper's proof leaves out; and the weights of minimal norm at rank R.

The minimum of sum_i v_i^2 + |k_i|^2 + |q_i|^2 subject to sum_i v_i k_i q_i' = A is 3 sum_j sigma_j^(2/3) over the singular values of A, if
there are as many heads as A has rank. Proof: keys and queries may be projected on the ranges of A, so let A be invertible. A minimum
exists, for the cost grows with the weights, and the constraint is regular there, for the queries of the active heads span the space; so
(74) holds with some multiplier. By (76) the heads fall into groups, one for each singular value eta of the multiplier, whose norms are
all 1 / eta; keys of different groups are orthogonal, and so are queries. The map of a group of n heads is (1 / eta) sum_i k_i k_i' times
an isometry: at most n singular values, with the sum n / eta^3. (78-bound) bounds the sum of their powers 2/3 by a third of the cost of
the group. So no stationary point is cheaper, and (78) is as cheap.
"""

from sympy import Matrix, Rational, Symbol, diag, diff, expand, factor, powdenest, simplify, solve, sqrt, symbols

from ...calculus.entrywise import explicit
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import k_i as k
from ...notation import q_i as q
from ...notation import v_i
from .minimal_norm import Mu, eta, n, stationarity, v, xi

__all__: list[str] = []

xi_J, xi_d = Symbol("xi_J", positive=True), Symbol("xi_d", positive=True)
r_v, r_k, r_q = symbols("r_v r_k r_q", nonnegative=True)
p, g, c, sigma_j = symbols("p g c sigma_j", positive=True)


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
        (
            r"map, image: one head with the multiplier $\operatorname{diag}(1, -1)$, $v = 1$, "
            r"$\boldsymbol{k}=(1,1)/\sqrt2$, $\boldsymbol{q}=(1,-1)/\sqrt2$"
        ),
        r"shared: $n$ heads with equal weights serve one eigenvector with eigenvalue $\xi$",
    ),
    erratum=(
        r"$\boldsymbol{k}$ is an eigenvector of the square of the multiplier, but not of the multiplier; "
        "heads may share an eigenvector, so that $v^{3}$ need not be an eigenvalue of $A$; and such "
        r"stationary weights are not minimal, for their cost exceeds 3 $\xi^{2/3}$ by the factor $n^{1/3}$"
    ),
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
        Step(
            (
                r"$n$ heads with $v \boldsymbol{e}$ as key and query make $n v^{3} \boldsymbol{e} "
                r"\boldsymbol{e}^{\top}$"
            ),
            shared,
            "",
            "shared value",
        ),
        Step("Their cost", n * 3 * shared**2, "", "shared cost"),
    )


@register(
    "78-bound",
    "No weights do it for less",
    kind="exact",
    section="beside (78)",
    left={
        "one head": r"v^2+\|\boldsymbol{k}\|^2+\|\boldsymbol{q}\|^2-3\,(|v|\,\|\boldsymbol{k}\|\,\|\boldsymbol{q}\|)^{2/3}",
        "tangent": r"\tfrac23c^{-1/3}\sigma+\tfrac13c^{2/3}-\sigma^{2/3}",
        "group": r"\textstyle\sum_j\sigma_j^{2/3}\;\le",
        "cost": r"\textstyle\tfrac13\sum_i v_i^2+\|\boldsymbol{k}_i\|^2+\|\boldsymbol{q}_i\|^2",
    },
    typed=lambda: {
        "one head": (r_v + r_k + r_q) / 2 * ((r_v - r_k) ** 2 + (r_k - r_q) ** 2 + (r_q - r_v) ** 2),
        "tangent": (g - p) ** 2 * (g + 2 * p) / (3 * g),
        "group": n / eta**2,
        "cost": n / eta**2,
    },
    conditions=(
        (
            r"one head: $r_{v}$, $r_{k}$, $r_{q}$ are $|v|^{2/3}$, $\|\boldsymbol{k}\|^{2/3}$, "
            r"$\|\boldsymbol{q}\|^{2/3}$, not negative"
        ),
        r"tangent: of the concave function $\sigma^{2/3}$ at $c$, with $p^3=\sigma$, $g^3=c$; not negative",
        (
            r"group: of $n$ heads with the singular value $\eta$ of the multiplier; at most $n$ singular values, with "
            r"the sum $n/\eta^3$"
        ),
    ),
)
def lower_bound() -> Derivation:
    """The inequality of the means for one head; for a group of stationary heads, the tangent at the cube of their norm."""
    means = r_v**3 + r_k**3 + r_q**3 - 3 * r_v * r_k * r_q
    slope, offset = diff(c ** Rational(2, 3), c), c ** Rational(2, 3) - c * diff(c ** Rational(2, 3), c)
    gap = (slope * sigma_j + offset - sigma_j ** Rational(2, 3)).subs({sigma_j: p**3, c: g**3})
    (norm,) = solve(1 - v**2 * eta**2, v)  # (76)
    group = (slope * n * norm**3 + offset * n).subs(c, norm**3)
    return Derivation.by(
        Step("The gap in the inequality of the means", means),
        Step("Factored", factor(means), "", "one head"),
        Step("How far the tangent lies above the function", factor(powdenest(gap, force=True)), "", "tangent"),
        Step("In a group all norms are equal, by (76)", norm),
        Step("The tangent at their cube, summed over the singular values", simplify(group), "", "group"),
        Step("A third of the cost of the group", n * norm**2, "", "cost"),
    )


@register(
    "78-R",
    "Weights of minimal norm at rank $R$",
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
        (
            r"the head serves a set J of at most $R$ singular values $\xi_{d}$, whose sum is $\xi_{J}$; for a fixed "
            r"point $\xi_{d} = \lambda_{d} / a_{d}$"
        ),
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
        Step(r"The cost of one slot with $|\boldsymbol{k}| = \boldsymbol{x}$", slot),
        Step(r"Its least value, where $|\boldsymbol{q}| = |\boldsymbol{k}|$", least),
        Step("The cost of the head, with the slots summed", cost),
        Step("Its second derivative is positive", expand(diff(cost, v, 2)), "", "convex"),
        Step("So its minimum is at", value, "", "value"),
        Step("There the keys and queries are", best.subs(v, value), "", "key"),
        Step("And the cost is", cost.subs(v, value), "", "cost"),
    )
