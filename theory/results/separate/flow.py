r"""The flow of separate attention: equations (18), (19), (52), (54), (80).

One head is written out: its weights v_i, k_i, q_i or, at rank R, v_i and the matrices K_i = [k_{i,1} ... k_{i,R}] and Q_i. All the
other heads enter through their sum B_rest, so that B = B_rest + v_i K_i Q_i' holds for any H, and nothing depends on how the others are
made. M stands for E(Lambda_hat^2), equation (31).
"""

from typing import Any

from sympy import Symbol, Trace, ZeroMatrix

from ...algebra.polynomial import TracePolynomial
from ...calculus import gradient, substitute
from ...derivations import Gradient, Line, Lines, Rate, erratum, given, register, states
from ...notation import B, B_rest, D, G, K_i, Lambda, M, Q_i, beta, k_i, prediction, prediction_i, prediction_other, q_i, v_i, x_q, y_q
from ..attention.blocks import U_i, merged_expansion, u_i, value_row
from ..task.population import PAPER, Task
from ..task.regression import SECOND_MOMENT, closed_loss, force, population_error, squared_error

RANK_ONE, RANK_R = (v_i, k_i, q_i), (v_i, K_i, Q_i)  # the weights of one head
NAMES = ("value weight", "keys", "queries")
TRANSPOSE = (
    r"As scanned, (c) has the sum of $v \boldsymbol{k} \boldsymbol{q}^{\top}$; the gradient needs its transpose, that of "
    r"$v \boldsymbol{q} \boldsymbol{k}^{\top}$. The two agree where the effective map is symmetric: at the fixed points and on the "
    "ansatz (25), but not along a generic trajectory"
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


def flow(head: Any, weights: tuple, task: Task = PAPER) -> dict:
    """tau dW/dt for the weights W of one head, equation (10), as functions of the head and of the sum of the others."""
    return dict(zip(weights, head_flow(closed_loss(task).result, head, weights), strict=True))


def flow_in_force(head: Any, weights: tuple) -> dict:
    """{W: tau dW/dt} for any loss: by the chain rule the gradient of tr(G' B) with G = -1/2 dL/dB held fixed."""
    return {weight: gradient(Trace(G.T * head), weight) for weight in weights}


def effective_map(head: Any) -> Any:
    """B, with one head written out."""
    return B_rest + head


def paper_force(head: Any) -> Any:
    """The bracket in (19), as the paper writes it."""
    return Lambda**2 - M * effective_map(head) * Lambda


def flow_lines(head: Any, weights: tuple, moving: tuple | None = None, task: Task = PAPER) -> tuple[Line, ...]:
    """The lines that give Rate its meaning: the flow (10), for the weights in ``moving`` (all by default)."""
    rates, error = flow(head, weights, task), population_error(effective_map(head), task)
    reason = "The flow (10), with all other heads in one sum"
    lines = tuple(Line(Rate(weight, rates), "=", -Gradient(error, weight) / 2, reason) for weight in moving or weights)
    return lines if task == PAPER else (*task.definitions(), *lines)


@register("18", "Separate rank-one attention", section="Section 4.1")
@states(lambda: v_i * beta.T * k_i * q_i.T * x_q + beta.T * B_rest * x_q)
@given("The vectors in the value blocks and the last components of the keys are zero")
def output() -> Lines:
    """The head (C.1) with a key-query matrix of rank one, without the blocks that stay zero; then all the others."""
    kappa = Symbol("kappa_i", real=True)
    head = substitute(merged_expansion(), {U_i: k_i * q_i.T, u_i: kappa * q_i})
    kept = substitute(head, {value_row: ZeroMatrix(D, 1), kappa: 0})
    yield Line(kappa, ":=", 0, "The last component of the key stays zero, equation (40)")
    yield Line(value_row, ":=", ZeroMatrix(D, 1), "So does the vector in the value block, equation (39)")
    yield Line(U_i, ":=", k_i * q_i.T, "One key and one query: the merged matrix has rank one")
    yield Line(u_i, ":=", kappa * q_i, "and this is its last row")
    yield Line(prediction_i, "=", kept, "What is left of the head (C.1)", "C.1")
    yield Line(prediction_other, ":=", beta.T * B_rest * x_q, "The other heads are of the same form")
    yield Line(prediction, ":=", prediction_i + prediction_other, "Heads add up")
    yield Line(prediction, "=", kept + beta.T * B_rest * x_q, "The prediction", "C.1")


def _symmetric(point) -> None:
    head = point[v_i] * point[k_i] * point[q_i].T
    point[B_rest] = point[B_rest] + point[B_rest].T - head


def _zero(point) -> None:
    for weight in RANK_ONE:
        point[weight] = 0 * point[weight]


def _untransposed(head: Any, weight: Any, task: Task) -> Any:
    """(c) as scanned."""
    return v_i * substitute(substitute(force(task), {B: B.T}).T, {B: effective_map(head)}) * weight


def _flow(head: Any, weights: tuple, task: Task) -> Lines:
    rates = flow(head, weights, task)
    if task == PAPER:  # for others flow_lines defines M
        yield SECOND_MOMENT
    yield from flow_lines(head, weights, task=task)
    for part, weight, name in zip("abc", weights, NAMES, strict=True):
        yield Line(Rate(weight, rates), "=", rates[weight], f"Average, and carry out the gradient in the {name}", part=part)
    yield Line(Rate(weights[2], rates), "!=", _untransposed(head, weights[1], task), "As scanned, (c) lacks a transpose")


@register("19", "Gradient flow of separate rank-one attention", section="Section 4.2")
@states("a", lambda: k_i.T * paper_force(rank_one_head()) * q_i)
@states("b", lambda: v_i * paper_force(rank_one_head()) * q_i)
@states("c", lambda: v_i * (Lambda**2 - Lambda * (B_rest.T + v_i * q_i * k_i.T) * M) * k_i)
@erratum(TRANSPOSE)
def rank_one_flow(task: Task = PAPER) -> Lines:
    """The gradient of the averaged loss."""
    head = rank_one_head()
    symmetric = Line(effective_map(head), "=", effective_map(head).T, "The effective map is symmetric")
    rates = {weight: Rate(weight, flow(head, RANK_ONE, task)) for weight in RANK_ONE}
    printed = Line(rates[q_i], "=", _untransposed(head, k_i, task))
    at_zero, rests = (tuple(Line(one, "=", 0) for one in weights) for weights in (rates, rates.values()))
    yield from _flow(head, RANK_ONE, task)
    yield Line(symmetric, "=>", printed, "It may be left out where the effective map is symmetric", meets=(_symmetric,))
    yield Line(at_zero, "=>", rests, "A head at zero stays there", meets=(_zero,))


@register("80", "Gradient flow of separate rank-$R$ attention", section="Appendix E.2")
@states("a", lambda: Trace(K_i.T * paper_force(rank_R_head()) * Q_i))
@states("b", lambda: v_i * paper_force(rank_R_head()) * Q_i)
@states("c", lambda: v_i * (Lambda**2 - Lambda * (B_rest.T + v_i * Q_i * K_i.T) * M) * K_i)
@erratum(TRANSPOSE)
def rank_R_flow(task: Task = PAPER) -> Lines:
    """As (19); the columns of K_i and Q_i are the keys and queries of the head."""
    yield from _flow(rank_R_head(), RANK_R, task)


def _error():
    return y_q - beta.T * effective_map(rank_one_head()) * x_q


def _sequence_rates() -> tuple:
    """Minus half the gradient of the squared error of one sequence in each weight, not carried out."""
    return tuple(-Gradient(squared_error(effective_map(rank_one_head())), weight) / 2 for weight in RANK_ONE)


@register("52", "Gradient flow of one sequence, before the average", section="Appendix D.2")
@states("a", lambda: k_i.T * (beta * _error() * x_q.T) * q_i)
@states("b", lambda: v_i * (beta * _error() * x_q.T) * q_i)
@states("c", lambda: v_i * (x_q * _error() * beta.T) * k_i)
@erratum(r"In (c) $\boldsymbol{\beta}$ and $\boldsymbol{x}_q$ must change places: the matrix is the transpose of that in (a) and (b)")
def sequence_flow() -> Lines:
    """Minus half the gradient of the squared error, for every single sequence, hence for their average over any law."""
    output_ = beta.T * effective_map(rank_one_head()) * x_q
    rates = _sequence_rates()
    carried = head_flow(squared_error(B), rank_one_head(), RANK_ONE)
    for rate, weight, name in zip(rates, RANK_ONE, NAMES, strict=True):
        yield Line(rate, "=", Gradient(output_, weight) * (y_q - output_), f"The chain rule for the {name}")
    for rate, result, name, part in zip(rates, carried, NAMES, "abc", strict=True):
        yield Line(rate, "=", result, f"Its gradient in the {name}", part=part)
    yield Line(rates[2], "!=", v_i * beta * _error() * x_q.T * k_i, "As printed in the paper, (c) lacks a transpose")


@register("54", "Gradient flow of separate rank-one attention, averaged", section="Appendix D.2")
@states("a", lambda: k_i.T * paper_force(rank_one_head()) * q_i)
@states("b", lambda: v_i * paper_force(rank_one_head()) * q_i)
@states("c", lambda: v_i * (Lambda**2 - Lambda * (B_rest.T + v_i * q_i * k_i.T) * M) * k_i)
@erratum(TRANSPOSE)
def averaged_flow(task: Task = PAPER) -> Lines:
    """The other way round from (19): first the gradient for one sequence, equation (52), then the average."""
    rates = flow(rank_one_head(), RANK_ONE, task)
    moving = [Rate(weight, rates) for weight in RANK_ONE]
    yield from task.definitions()
    for rate, sequence, name in zip(moving, _sequence_rates(), NAMES, strict=True):
        yield Line(rate, "=", task.E(sequence), f"The average of (52) for the {name}")
    for rate, weight, name, part in zip(moving, RANK_ONE, NAMES, "abc", strict=True):
        yield Line(rate, "=", rates[weight], f"The rate of the {name}, in $\\boldsymbol{{M}}$", part=part)
