r"""What the flow of one head conserves, for any loss: equations (79), (85), (86), stronger T6, and the signs it may change.

The force G = -1/2 dL/dB is an arbitrary matrix here, so nothing is assumed of the loss but that it depends on the weights through the
effective map B. Every quadratic invariant is found, not only those of the paper.
"""

from sympy import Identity, Matrix, Symbol, Trace, symbols

from ...algebra.polynomial import TracePolynomial, total
from ...calculus.derivatives import derivative, gradient
from ...calculus.substitution import collect, substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import B_rest, D, G, K_i, Q_i, R, beta, k_i, matrix, q_i, symmetric_matrix, v_i, vector, x_q
from .flow import flow_in_force, rank_one_head, rank_R_head

__all__ = ["conserved"]

k_r, q_r = vector("k_ir", D, latex=r"\boldsymbol{k}_{i,r}"), vector("q_ir", D, latex=r"\boldsymbol{q}_{i,r}")
K_rest = matrix("K_rest", D, R - 1, latex=r"\boldsymbol{K}_{i,\neq r}")  # the other columns
Q_rest = matrix("Q_rest", D, R - 1, latex=r"\boldsymbol{Q}_{i,\neq r}")
c, d = symbols("c d", real=True)  # the signs of a head: each 1 or -1
ANY_LOSS = r"Any loss that depends on the weights through the effective map, with $\boldsymbol{G}=-\frac12\,\partial\mathcal{L}/\partial\boldsymbol{B}$"
loss_slope = Symbol("g", real=True)  # the derivative of the loss of one sequence in its prediction


def conserved(quantities: tuple, rates: dict) -> tuple[TracePolynomial, ...]:
    """A basis of the combinations of the quantities that the flow conserves, each with leading coefficient 1, in reduced echelon form."""
    drifts = [derivative(quantity, rates).terms for quantity in quantities]
    terms = list({term for drift in drifts for term in drift})
    basis = []
    for null in Matrix(len(terms), len(drifts), lambda i, j: drifts[j].get(terms[i], 0)).nullspace():
        lead = next(entry for entry in null if entry != 0)
        basis.append(sum(entry / lead * TracePolynomial(one) for entry, one in zip(null, quantities, strict=True)))
    return tuple(basis)


@register(
    "79",
    "Conservation laws of a rank-one head, for any loss",
    kind="exact",
    section="Appendix D.8",
    left={
        "a": r"\mathrm{const}",
        "b": r"\mathrm{const}",
    },
    typed=lambda: {"a": Trace(k_i.T * k_i) - Trace(q_i.T * q_i), "b": Trace(k_i.T * k_i) - v_i**2},
    conditions=(ANY_LOSS,),
    erratum=(
        "The norms of a head are nearly equal, as the paper concludes, only once $v_{i}^{2}$ is large "
        r"against $w_{\rm init}^{2}$: not during a plateau"
    ),
)
def rank_one_conservation() -> Derivation:
    """All combinations of the three squared norms that an arbitrary force G conserves."""
    rates = flow_in_force(rank_one_head(), (v_i, k_i, q_i))
    norms = (k_i.T * k_i, v_i**2, q_i.T * q_i)
    with_value, with_query = conserved(norms, rates)
    return Derivation.by(
        Step(
            r"Rate of the squared key, where $\boldsymbol{G}$ is minus half the gradient in $\boldsymbol{B}$",
            derivative(norms[0], rates),
        ),
        Step("Rate of the squared value weight", derivative(norms[1], rates)),
        Step("Rate of the squared query", derivative(norms[2], rates)),
        Step("The rates are equal, so the differences are conserved", with_query, "", "a"),
        Step(
            r"The combinations conserved under every $\boldsymbol{G}$ form a plane; the second that spans it",
            with_value,
            "",
            "b",
        ),
    )


@register(
    "85",
    "Conservation laws of a rank-R head, for any loss",
    kind="exact",
    section="Appendix E.5",
    left={
        "a": r"\mathrm{const}",
        "b": r"\mathrm{const}",
    },
    typed=lambda: {
        "a": Trace(k_r.T * k_r) - Trace(q_r.T * q_r),
        "b": Trace(k_r.T * k_r) + Trace(K_rest.T * K_rest) - v_i**2,
    },
    conditions=(ANY_LOSS, "$r$ is any of the $R$ columns"),
)
def rank_R_conservation() -> Derivation:
    """One column r and all the others together; the value weight is shared, so it balances their sum, not one of them."""
    head = v_i * (k_r * q_r.T + K_rest * Q_rest.T)
    rates = flow_in_force(head, (v_i, k_r, q_r, K_rest, Q_rest))
    norms = (Trace(k_r * k_r.T), Trace(K_rest * K_rest.T), v_i**2, Trace(q_r * q_r.T), Trace(Q_rest * Q_rest.T))
    with_value, with_query, _ = conserved(norms, rates)
    return Derivation.by(
        Step("Rate of the squared value weight", derivative(v_i**2, rates)),
        Step("Rate of the squared key $r$", derivative(norms[0], rates)),
        Step(
            r"Of the combinations conserved under every $\boldsymbol{G}$, that of one key and its query",
            with_query,
            "",
            "a",
        ),
        Step("And that of all keys with the value weight", with_value, "", "b"),
    )


@register(
    "86",
    "Rates of the squared norms under any loss, for one sequence",
    kind="exact",
    section="Appendix E.5",
    left={
        "a": r"\tau\tfrac{d}{dt}\boldsymbol{k}_{i,r}^\top\boldsymbol{k}_{i,r}",
        "b": r"\tau\tfrac{d}{dt}\boldsymbol{q}_{i,r}^\top\boldsymbol{q}_{i,r}",
        "c": r"\tau\tfrac{d}{dt}v_i^2",
    },
    typed=lambda: {
        "a": -loss_slope * v_i * k_r.T * beta * q_r.T * x_q,
        "b": -loss_slope * v_i * k_r.T * beta * q_r.T * x_q,
        "c": -loss_slope * v_i * beta.T * (k_r * q_r.T + K_rest * Q_rest.T) * x_q,
    },
    conditions=("$g$ is the derivative of the loss of the sequence in its prediction; average over the sequences",),
    erratum=(
        r"The printed prefactor 2, without $\tau$, belongs to a flow along minus the whole gradient; the rule "
        "(10) has half of it. The conservation laws do not depend on it"
    ),
)
def norm_rates() -> Derivation:
    """The chain rule through the prediction."""
    head = v_i * (k_r * q_r.T + K_rest * Q_rest.T)
    prediction = TracePolynomial(beta.T * (B_rest + head) * x_q)
    weights = (v_i, k_r, q_r, K_rest, Q_rest)
    rates = {weight: -loss_slope * gradient(prediction, weight) / 2 for weight in weights}
    return Derivation.by(
        Step("The prediction", prediction, r"\hat y_q"),
        Step("Rate of the squared key", derivative(k_r.T * k_r, rates), "", "a"),
        Step("Rate of the squared query", derivative(q_r.T * q_r, rates), "", "b"),
        Step("Rate of the squared value weight, which sums over the $R$ columns", derivative(v_i**2, rates), "", "c"),
    )


@register(
    "T6",
    (
        r"The whole matrix $\boldsymbol{K}^{\top} \boldsymbol{K} - \boldsymbol{Q}^{\top} \boldsymbol{Q}$ of a head is "
        "conserved, for any loss"
    ),
    kind="exact",
    section="beside (85)",
    left={
        "matrix": r"\mathrm{const}",
        "scalar": r"\mathrm{const}",
        "keys": r"\tau\tfrac{d}{dt}\boldsymbol{K}_i^\top\boldsymbol{K}_i",
        "one key": r"\tau\tfrac{d}{dt}(\boldsymbol{k}_{i,r}^\top\boldsymbol{k}_{i,r}-v_i^2)",
    },
    typed=lambda: {
        "matrix": K_i.T * K_i - Q_i.T * Q_i,
        "scalar": Trace(Q_i.T * Q_i) - v_i**2,
        "keys": v_i * (K_i.T * G * Q_i + Q_i.T * G.T * K_i),
        "one key": -2 * v_i * Trace(K_rest.T * G * Q_rest),
    },
    conditions=(ANY_LOSS,),
    erratum=(
        "The paper has the $R$ diagonal entries of this matrix only. For $R > 1$ the difference of one key "
        "and the value weight is not conserved"
    ),
)
def matrix_conservation() -> Derivation:
    """Every quadratic invariant of the form tr(S_k K' K) + tr(S_q Q' Q) + c v^2 with constant symmetric S_k, S_q."""
    S_k, S_q = symmetric_matrix("S_k", R), symmetric_matrix("S_q", R)
    weight = Symbol("c", real=True)
    rates = flow_in_force(rank_R_head(), (v_i, K_i, Q_i))
    quadratic = TracePolynomial(Trace(S_k * K_i.T * K_i) + Trace(S_q * Q_i.T * Q_i) + weight * v_i**2)
    drift = derivative(quadratic, rates)  # 2 v tr((S_k + S_q + c I) K' G Q)
    left = substitute(drift, {S_q: -S_k - weight * Identity(R)})
    if left:
        raise ArithmeticError(f"S_k + S_q + c I = 0 should stop the drift, which is {left}")
    invariant = substitute(quadratic, {S_q: -S_k - weight * Identity(R)})
    column = v_i * (k_r * q_r.T + K_rest * Q_rest.T)
    split = flow_in_force(column, (v_i, k_r, q_r, K_rest, Q_rest))
    drive = TracePolynomial(rates[K_i])
    return Derivation.by(
        Step(r"Drift of a general quadratic invariant under an arbitrary force $\boldsymbol{G}$", drift),
        Step(
            (
                r"It vanishes for every $\boldsymbol{G}$ exactly if $\boldsymbol{S}_{k} + \boldsymbol{S}_{q} + c \boldsymbol{I} = 0$; what is "
                r"left is conserved for every $\boldsymbol{S}_{k}$"
            ),
            invariant,
        ),
        Step(
            r"The coefficient of $\boldsymbol{S}_{k}$", gradient(substitute(invariant, {weight: 0}), S_k), "", "matrix"
        ),
        Step("The coefficient of $-c$", -gradient(invariant, weight), "", "scalar"),
        Step(
            (
                r"The common rate of $\boldsymbol{K}^{\top} \boldsymbol{K}$ and $\boldsymbol{Q}^{\top} "
                r"\boldsymbol{Q}$"
            ),
            drive.T * K_i + K_i.T * drive,
            "",
            "keys",
        ),
        Step(
            "One key against the value weight",
            derivative(k_r.T * k_r, split) - derivative(v_i**2, split),
            "",
            "one key",
        ),
    )


@register(
    "25-signs",
    "The signs that a head may change",
    kind="exact",
    section="beside (25)",
    left={
        "map": r"v_i\boldsymbol{k}_i\boldsymbol{q}_i^\top",
        "v": r"\tau\dot v_i",
        "k": r"\tau\dot{\boldsymbol{k}}_i",
        "q": r"\tau\dot{\boldsymbol{q}}_i",
    },
    typed=lambda: {
        "map": v_i * k_i * q_i.T,
        "v": c * (k_i.T * G * q_i),
        "k": d * v_i * G * q_i,
        "q": c * d * v_i * G.T * k_i,
    },
    conditions=(
        r"$(v,\boldsymbol{k},\boldsymbol{q})$ becomes $(cv,d\boldsymbol{k},cd\boldsymbol{q})$, $c$ and $d$ each $1$ or $-1$: the velocities "
        "change sign with the weights",
    ),
)
def signs_of_a_head() -> Derivation:
    """Put into one head's part of the effective map and into (19)."""
    turned = {v_i: c * v_i, k_i: d * k_i, q_i: c * d * q_i}
    rates = flow_in_force(rank_one_head(), (v_i, k_i, q_i))
    steps = []
    for part, formula, rule in (
        ("map", rank_one_head(), "Put into what the head adds to the effective map"),
        *(
            (
                part,
                rates[weight],
                r"Put into the flow (19) under the force $\boldsymbol{G}$, which depends on the map alone",
            )
            for part, weight in (("v", v_i), ("k", k_i), ("q", q_i))
        ),
    ):
        changed = substitute(formula, turned)
        steps += [Step(rule, changed), Step("The squares of the signs are 1", _signs_squared(changed), part=part)]
    return Derivation.by(*steps)


def _signs_squared(expression) -> TracePolynomial:
    """c^2 = d^2 = 1."""
    result = TracePolynomial(expression)
    for sign in (c, d):
        result = total(rest * sign ** (power % 2) for power, rest in collect(result, sign).items())
    return result
