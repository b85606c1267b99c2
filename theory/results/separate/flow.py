r"""The flow of separate attention: equations (18), (19), (52), (54), (80).

One head is written out: its weights v_i, k_i, q_i or, at rank R, v_i and the matrices K_i = [k_{i,1} ... k_{i,R}] and Q_i. All the
other heads enter through their sum B_rest, so that B = B_rest + v_i K_i Q_i' holds for any H, and nothing depends on how the others are
made. M stands for E(Lambda_hat^2), equation (31).
"""

from typing import Any

from sympy import Symbol, Trace

from ...algebra.polynomial import TracePolynomial
from ...calculus.derivatives import gradient
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...expectation.moments import expect
from ...notation import B, B_rest, D, G, K_i, Lambda, Lambda_hat, M, N, Q_i, beta, k_i, q_i, v_i, vector, w, x_q, y_q
from ..task.regression import closed_loss

__all__ = [
    "effective_map", "flow_in_force", "head_flow", "rank_R_flow", "rank_R_head", "rank_one_flow", "rank_one_head",
]  # fmt: skip

RATES = {"v": r"\tau\dot v_i", "k": r"\tau\dot{\boldsymbol{k}}_i", "q": r"\tau\dot{\boldsymbol{q}}_i"}
RANK_R_RATES = {"v": r"\tau\dot v_i", "k": r"\tau\dot{\boldsymbol{K}}_i", "q": r"\tau\dot{\boldsymbol{Q}}_i"}
MOMENT = r"$\boldsymbol{M} = \mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)$, equation (31)"
ABC = {"a": "v", "b": "k", "c": "q"}
TRANSPOSE = (
    r"As scanned, (c) has the sum of $v \boldsymbol{k} \boldsymbol{q}^{\top}$; the gradient needs its transpose, that of $v "
    r"\boldsymbol{q} \boldsymbol{k}^{\top}$. The two agree where the effective map is symmetric: at the fixed "
    "points and on the ansatz (25), but not along a generic trajectory"
)


def rank_one_head() -> Any:
    """What a head of rank one adds to the effective map."""
    return v_i * k_i * q_i.T


def rank_R_head() -> Any:
    """What a head of rank R adds to the effective map."""
    return v_i * K_i * Q_i.T


def head_flow(loss, head: Any, weights: tuple) -> tuple[TracePolynomial, ...]:
    """tau dW/dt = -1/2 dL/dW, equation (10), for the weights of one head, the loss being a function of the effective map B."""
    whole = substitute(loss, {B: B_rest + head})
    return tuple(-gradient(whole, weight) / 2 for weight in weights)


def flow_in_force(head: Any, weights: tuple) -> dict:
    """{W: tau dW/dt} for any loss: by the chain rule the gradient of tr(G' B) with G = -1/2 dL/dB held fixed."""
    return {weight: gradient(Trace(G.T * head), weight) for weight in weights}


def effective_map(head: Any) -> Any:
    """B, with one head written out."""
    return B_rest + head


def paper_force(head: Any) -> Any:
    """The bracket in (19), as the paper writes it."""
    return Lambda**2 - M * effective_map(head) * Lambda


def _three(rules, expressions, lefts) -> tuple[Step, ...]:
    return tuple(
        Step(rule, expression, lefts[ABC[part]], part)
        for part, rule, expression in zip("abc", rules, expressions, strict=True)
    )


def _lefts(lefts) -> dict:
    return {part: lefts[name] for part, name in ABC.items()}


# The model


@register(
    "18",
    "Separate rank-one attention",
    kind="exact",
    section="Section 4.1",
    left=r"\hat y_q",
    typed=lambda: v_i * beta.T * k_i * q_i.T * x_q + beta.T * B_rest * x_q,
    conditions=("The vectors in the value blocks and the last components of the keys are zero", "$R = 1$"),
)
def output() -> Derivation:
    """The last row of the value block times the Gram matrix (29) times the key and query columns, at R = 1."""
    value, kappa = vector("u_i", D, latex=r"\boldsymbol{v}_i"), Symbol("kappa_i", real=True)
    gram = TracePolynomial(Lambda_hat + x_q * x_q.T / N)
    upper, lower = value.T * gram + v_i * beta.T, value.T * beta + v_i * w.T * Lambda_hat * w
    head = (upper * k_i + kappa * lower) * q_i.T * x_q
    kept = substitute(head, {value: 0 * value, kappa: 0})
    return Derivation.by(
        Step("One head, with all blocks that reach the prediction", head),
        Step("Leave out the blocks that stay zero, equations (39) and (40) at rank $R$", kept),
        Step("Add the other heads, which are of the same form", kept + beta.T * B_rest * x_q, r"\hat y_q"),
    )


# The flow


def _flow(loss, head, weights, lefts) -> Derivation:
    whole = substitute(loss, {B: effective_map(head)})
    rules = [f"Minus half its gradient in the {name}" for name in ("value weight", "key weights", "query weights")]
    return Derivation.by(
        Step(
            "The population loss, as a function of the weights of one head and of the sum of the others",
            whole,
            r"\mathcal{L}",
        ),
        *_three(rules, head_flow(loss, head, weights), lefts),
    )


@register(
    "19",
    "Gradient flow of separate rank-one attention",
    kind="exact",
    section="Section 4.2",
    left=_lefts(RATES),
    typed=lambda: {
        "a": k_i.T * paper_force(v_i * k_i * q_i.T) * q_i,
        "b": v_i * paper_force(v_i * k_i * q_i.T) * q_i,
        "c": v_i * (Lambda**2 - Lambda * (B_rest.T + v_i * q_i * k_i.T) * M) * k_i,
    },
    conditions=("Any number of heads: the others enter through their sum", MOMENT),
    erratum=TRANSPOSE,
)
def rank_one_flow() -> Derivation:
    """The gradient of the averaged loss."""
    return _flow(closed_loss().result, rank_one_head(), (v_i, k_i, q_i), RATES)


@register(
    "80",
    "Gradient flow of separate rank-R attention",
    kind="exact",
    section="Appendix E.2",
    left=_lefts(RANK_R_RATES),
    typed=lambda: {
        "a": Trace(K_i.T * paper_force(v_i * K_i * Q_i.T) * Q_i),
        "b": v_i * paper_force(v_i * K_i * Q_i.T) * Q_i,
        "c": v_i * (Lambda**2 - Lambda * (B_rest.T + v_i * Q_i * K_i.T) * M) * K_i,
    },
    conditions=("Any number of heads, any rank", MOMENT),
    erratum=TRANSPOSE,
)
def rank_R_flow() -> Derivation:
    """As (19); the columns of K_i and Q_i are the keys and queries of the head."""
    return _flow(closed_loss().result, rank_R_head(), (v_i, K_i, Q_i), RANK_R_RATES)


def _error():
    return y_q - beta.T * effective_map(rank_one_head()) * x_q


@register(
    "52",
    "Gradient flow of one sequence, before the average",
    kind="exact",
    section="Appendix D.2",
    left={
        part: rf"(y_q-\hat y_q)\,\partial\hat y_q/\partial {letter}"
        for part, letter in (("a", "v_i"), ("b", r"\boldsymbol{k}_i"), ("c", r"\boldsymbol{q}_i"))
    },
    typed=lambda: {
        "a": k_i.T * (beta * _error() * x_q.T) * q_i,
        "b": v_i * (beta * _error() * x_q.T) * q_i,
        "c": v_i * (x_q * _error() * beta.T) * k_i,
    },
    conditions=("The flow is the average of these over the sequences, equation (10)",),
    erratum=(
        r"In (c) $\boldsymbol{\beta}$ and $\boldsymbol{x}_{q}$ must change places: the matrix is the "
        "transpose of that in (a) and (b)"
    ),
)
def sequence_flow() -> Derivation:
    """Minus half the gradient of the squared error, for every single sequence, hence for their average over any law."""
    error = TracePolynomial(y_q - beta.T * B * x_q) ** 2
    rules = [f"Minus half its gradient in the {name}" for name in ("value weight", "key", "query")]
    return Derivation.by(
        Step("The squared error of one sequence", error, r"(y_q-\hat y_q)^2"),
        *_three(rules, head_flow(error, rank_one_head(), (v_i, k_i, q_i)), dict.fromkeys("vkq", "")),
    )


@register(
    "54",
    "Gradient flow of separate rank-one attention, averaged",
    kind="exact",
    section="Appendix D.2",
    left=_lefts(RATES),
    typed=lambda: {
        "a": k_i.T * paper_force(v_i * k_i * q_i.T) * q_i,
        "b": v_i * paper_force(v_i * k_i * q_i.T) * q_i,
        "c": v_i * (Lambda**2 - Lambda * (B_rest.T + v_i * q_i * k_i.T) * M) * k_i,
    },
    conditions=(MOMENT,),
    erratum=TRANSPOSE,
)
def averaged_flow() -> Derivation:
    """The other way round from (19): first the gradient for one sequence, equation (52), then the average; M is written last."""
    head = rank_one_head()
    sequence = sequence_flow().result
    averaged = [expect(sequence[part]) for part in "abc"]
    in_moment = TracePolynomial(-M * effective_map(head) * Lambda)
    excess = in_moment - substitute(in_moment, {M: expect(Lambda_hat**2)})  # M for what it abbreviates
    named = (
        averaged[0] + k_i.T * excess * q_i,
        averaged[1] + v_i * excess * q_i,
        averaged[2] + v_i * excess.T * k_i,
    )
    rules = [f"Average the rate of the {name}, and write M for (31)" for name in ("value weight", "key", "query")]
    return Derivation.by(
        Step("The rate of the value weight from one sequence, equation (52a)", sequence["a"]),
        *_three(rules, named, RATES),
    )
