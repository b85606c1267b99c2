r"""What the flow of one head conserves, for any loss: equations (79), (85), (86), stronger T6, and the signs it may change.

The force G = -1/2 dL/dB is an arbitrary matrix here, so nothing is assumed of the loss but that it depends on the weights through the
effective map B. Every quadratic invariant is found, not only those of the paper; D = 1 has more.
"""

from mpmath import mpf
from sympy import Identity, Matrix, Symbol, Trace, symbols

from ...algebra.polynomial import TracePolynomial, total
from ...calculus import collect, derivative, gradient, substitute
from ...derivations import Condition, Gradient, Line, Lines, Rate, erratum, given, note, register, states
from ...notation import B_rest, D, G, K_i, Q_i, R, beta, k_i, matrix, q_i, symmetric_matrix, v_i, vector, x_q
from .flow import RANK_ONE, RANK_R, effective_map, flow_in_force, rank_one_head, rank_R_head

k_r, q_r = vector("k_ir", D, latex=r"\boldsymbol{k}_{i,r}"), vector("q_ir", D, latex=r"\boldsymbol{q}_{i,r}")
K_rest = matrix("K_rest", D, R - 1, latex=r"\boldsymbol{K}_{i,\neq r}")  # the other columns
Q_rest = matrix("Q_rest", D, R - 1, latex=r"\boldsymbol{Q}_{i,\neq r}")
COLUMN_AND_REST = (v_i, k_r, q_r, K_rest, Q_rest)
c, d = symbols("c d", real=True)  # the signs of a head: each 1 or -1
loss_slope = Symbol("g", real=True)  # the derivative of the loss of one sequence in its prediction
first, second = symbols("C_1 C_2", real=True)  # constants of the flow
weight_v, weight_k, weight_q = symbols("s_v s_k s_q", real=True)  # of the squared norms in a combination
ANY_LOSS = "Any loss that depends on the weights through the effective map"


def conserved(quantities: tuple, rates: dict) -> tuple[TracePolynomial, ...]:
    """A basis of the combinations of the quantities that the flow conserves, each with leading coefficient 1, in reduced echelon form."""
    drifts = [derivative(quantity, rates).terms for quantity in quantities]
    terms = list({term for drift in drifts for term in drift})
    basis = []
    for null in Matrix(len(terms), len(drifts), lambda i, j: drifts[j].get(terms[i], 0)).nullspace():
        lead = next(entry for entry in null if entry != 0)
        basis.append(sum(entry / lead * TracePolynomial(one) for entry, one in zip(null, quantities, strict=True)))
    return tuple(basis)


def _split_head():
    """A head of rank R with one column written out."""
    return v_i * (k_r * q_r.T + K_rest * Q_rest.T)


def _chain_rule(head, weights: tuple) -> Lines:
    """The flow (10) in the force G, which does not move in the gradient."""
    rates, loss = flow_in_force(head, weights), Trace(G.T * effective_map(head))
    for weight in weights:
        yield Line(Rate(weight, rates), "=", Gradient(loss, weight), r"The flow (10) by the chain rule, $\boldsymbol{G}$ held fixed")


def _drift(quantity, rates: dict, reason: str, **options) -> Line:
    return Line(Rate(quantity, rates), "=", derivative(quantity, rates), reason, **options)


@register("79", "Conservation laws of a rank-one head, for any loss", section="Appendix D.8")
@states("a", lambda: Trace(k_i.T * k_i) - Trace(q_i.T * q_i))
@states("b", lambda: Trace(k_i.T * k_i) - v_i**2)
@given(ANY_LOSS)
@erratum(r"The norms of a head are nearly equal only once $v_i^2$ is large against $w_{\rm init}^2$: not while it waits")
def rank_one_conservation() -> Lines:
    """All combinations of the three squared norms that an arbitrary force G conserves."""
    rates = flow_in_force(rank_one_head(), RANK_ONE)
    norms = (Trace(k_i.T * k_i), v_i**2, Trace(q_i.T * q_i))
    with_value, with_query = conserved(norms, rates)
    combination = weight_k * norms[0] + weight_v * norms[1] + weight_q * norms[2]
    yield from _chain_rule(rank_one_head(), RANK_ONE)
    yield _drift(norms[0], rates, "The rate of the squared key")
    yield _drift(norms[1], rates, "The rate of the squared value weight")
    yield _drift(norms[2], rates, "The rate of the squared query: the three are equal")
    yield _drift(combination, rates, "So a combination is conserved under every force exactly if its coefficients sum to $0$")
    yield Line(first, ":=", with_query, "One such combination", part="a")
    yield Line(second, ":=", with_value, "The second, which spans the others with the first", part="b")
    yield Line(Rate(first, rates), "=", 0, "The first is constant")
    yield Line(Rate(second, rates), "=", 0, "The second is constant")


@register("85", "Conservation laws of a rank-$R$ head, for any loss", section="Appendix E.5")
@states("a", lambda: Trace(k_r.T * k_r) - Trace(q_r.T * q_r))
@states("b", lambda: Trace(k_r.T * k_r) + Trace(K_rest.T * K_rest) - v_i**2)
@given(ANY_LOSS)
def rank_R_conservation() -> Lines:
    """One column r and all the others together; the value weight is shared, so it balances their sum, not one of them."""
    head = _split_head()
    rates = flow_in_force(head, COLUMN_AND_REST)
    norms = (Trace(k_r * k_r.T), Trace(K_rest * K_rest.T), v_i**2, Trace(q_r * q_r.T), Trace(Q_rest * Q_rest.T))
    with_value, with_query, _ = conserved(norms, rates)
    yield from _chain_rule(head, COLUMN_AND_REST)
    yield _drift(norms[0], rates, "The rate of the squared key $r$")
    yield _drift(norms[3], rates, "That of its query is the same")
    yield _drift(norms[1], rates, "The other keys together")
    yield _drift(norms[2], rates, "The squared value weight moves as all keys together")
    yield Line(first, ":=", with_query, "One key and its query", part="a")
    yield Line(second, ":=", with_value, "All keys and the value weight", part="b")
    yield Line(Rate(first, rates), "=", 0, "The first is constant under every force")
    yield Line(Rate(second, rates), "=", 0, "The second is constant under every force")


@register("86", "Rates of the squared norms under any loss, for one sequence", section="Appendix E.5")
@states("a", lambda: -loss_slope * v_i * k_r.T * beta * q_r.T * x_q)
@states("b", lambda: -loss_slope * v_i * k_r.T * beta * q_r.T * x_q)
@states("c", lambda: -loss_slope * v_i * beta.T * (k_r * q_r.T + K_rest * Q_rest.T) * x_q)
@note("$g$ is the derivative of the loss of the sequence in its prediction")
@erratum(
    r"The printed prefactor 2, without $\tau$, belongs to a flow along minus the whole gradient; the rule (10) has half of it. The "
    "conservation laws do not depend on it"
)
def norm_rates() -> Lines:
    """The chain rule through the prediction."""
    output = beta.T * (B_rest + _split_head()) * x_q
    rates = {weight: -loss_slope * gradient(output, weight) / 2 for weight in COLUMN_AND_REST}
    squared_key = derivative(k_r.T * k_r, rates)
    for weight in COLUMN_AND_REST:
        yield Line(Rate(weight, rates), "=", -loss_slope * Gradient(output, weight) / 2, "The flow (10) by the chain rule")
    yield _drift(k_r.T * k_r, rates, "The squared key", part="a")
    yield _drift(q_r.T * q_r, rates, "The squared query", part="b")
    yield _drift(v_i**2, rates, "The squared value weight, which sums over the $R$ columns", part="c")
    yield Line(Rate(k_r.T * k_r, rates), "!=", 2 * squared_key, "With the prefactor as printed in the paper")


@register(
    "T6",
    r"The whole matrix $\boldsymbol{K}^\top\boldsymbol{K}-\boldsymbol{Q}^\top\boldsymbol{Q}$ of a head is conserved, for any loss",
    section="Beside (85)",
)
@states("matrix", lambda: K_i.T * K_i - Q_i.T * Q_i)
@states("scalar", lambda: Trace(Q_i.T * Q_i) - v_i**2)
@states("keys", lambda: v_i * (K_i.T * G * Q_i + Q_i.T * G.T * K_i))
@states("one key", lambda: -2 * v_i * Trace(K_rest.T * G * Q_rest))
@given(ANY_LOSS)
@erratum(
    "The paper has the $R$ diagonal entries of this matrix only. For $R > 1$ the difference of one key and the value weight is not "
    "conserved"
)
def matrix_conservation() -> Lines:
    """Every quadratic invariant of the form tr(S_k K' K) + tr(S_q Q' Q) + s_v v^2 with constant symmetric S_k, S_q."""
    S_k, S_q = symmetric_matrix("S_k", R), symmetric_matrix("S_q", R)
    rates = flow_in_force(rank_R_head(), RANK_R)
    quadratic = TracePolynomial(Trace(S_k * K_i.T * K_i) + Trace(S_q * Q_i.T * Q_i) + weight_v * v_i**2)
    balanced = -S_k - weight_v * Identity(R)
    invariant = substitute(quadratic, {S_q: balanced})
    split = flow_in_force(_split_head(), COLUMN_AND_REST)
    drive = TracePolynomial(rates[K_i])
    keys = drive.T * K_i + K_i.T * drive
    yield from _chain_rule(rank_R_head(), RANK_R)
    yield _drift(quadratic, rates, "The drift of a general quadratic invariant")
    yield Line(S_q, ":=", balanced, "It vanishes under every force exactly if the coefficients of the three norms cancel")
    yield Line(first, ":=", quadratic, "Then the invariant")
    yield Line(first, "=", invariant, "has two free coefficients")
    yield Line(Rate(first, rates), "=", 0, "It is conserved for all of them", -1)
    yield Line(Gradient(first, S_k), "=", gradient(invariant, S_k), r"So is the coefficient of $\boldsymbol{S}_k$", -2, "matrix")
    yield Line(-Gradient(first, weight_v), "=", -gradient(invariant, weight_v), "and that of $-s_v$", -3, "scalar")
    yield Line(Rate(K_i.T * K_i, rates), "=", keys, "The rate of the keys", part="keys")
    yield Line(Rate(Q_i.T * Q_i, rates), "=", keys, "is that of the queries")
    yield Line(Rate(Trace(k_r.T * k_r) - v_i**2, split), "=", derivative(k_r.T * k_r, split) - derivative(v_i**2, split),
               "One key against the value weight is not conserved", part="one key")  # fmt: skip


def _signs(point) -> None:
    point[c], point[d] = (mpf(point.rng.choice([-1, 1])) for _ in range(2))


SIGNS = Condition("$c$ and $d$ are each $1$ or $-1$", lambda point: point[c] ** 2 == 1 and point[d] ** 2 == 1, _signs)


@register("25-signs", "The signs that a head may change", section="Beside (25)")
@states("map", lambda: v_i * k_i * q_i.T)
@states("v", lambda: c * (k_i.T * G * q_i))
@states("k", lambda: d * v_i * G * q_i)
@states("q", lambda: c * d * v_i * G.T * k_i)
@given(SIGNS, ANY_LOSS)
def signs_of_a_head() -> Lines:
    """Put into one head's part of the effective map and into (19): the velocities change sign with the weights."""
    turned = (Symbol("v_new", real=True), *(vector(f"{one}_new", D, latex=rf"\boldsymbol{{{one}}}_{{\rm new}}") for one in "kq"))
    signs = (c, d, c * d)
    value, key, query = turned
    head = value * key * query.T
    rates, of_turned = flow_in_force(rank_one_head(), RANK_ONE), flow_in_force(head, turned)
    changed = {one: sign * weight for one, sign, weight in zip(turned, signs, RANK_ONE, strict=True)}
    for one, of in changed.items():
        yield Line(one, ":=", of, "The head with changed signs")
    yield Line(head, "=", _signs_squared(substitute(head, changed)), "It adds the same to the effective map", part="map")
    for letter, one, sign, weight in zip("vkq", turned, signs, RANK_ONE, strict=True):
        velocity = _signs_squared(substitute(of_turned[one], changed))
        yield Line(Gradient(Trace(G.T * head), one), "=", velocity, "Its flow (19), in the same force", part=letter)
        yield Line(velocity, "=", Rate(sign * weight, rates), "is the velocity of the weight with its sign")


def _signs_squared(expression) -> TracePolynomial:
    """c^2 = d^2 = 1."""
    result = TracePolynomial(expression)
    for sign in (c, d):
        result = total(rest * sign ** (power % 2) for power, rest in collect(result, sign).items())
    return result
