r"""The zero blocks stay zero: (39), (40), their form for separate key and query of any rank, and what is enough for it.

With the vectors v_j = 0 and u_j = 0 in every head the prediction is beta' B x_q, with one matrix B = sum_j v_j U_j for all heads together,
and the gradients of all v_i, u_i vanish on average. Only the symmetry w -> -w of the law of the task is used: the prediction is then odd in
w, like the target, and the derivatives by v_i and u_i are even.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from sympy import Trace, ZeroMatrix

from ...algebra.polynomial import TracePolynomial
from ...calculus import gradient, substitute
from ...derivations import E, Gradient, Line, Lines, erratum, given, register, states
from ...expectation import expect
from ...notation import B, D, K_i, Lambda, Lambda_hat, N, Q_i, R, beta, prediction, prediction_i, prediction_other, v_i, w, x_q, y_q
from ..task.regression import average_context
from .blocks import U_i, merged_expansion, u_i, value_row
from .reduced import kappa_i, separate_expansion
from .zero_block_loss import U_j, opposite, row_j, second_head, u_j

JOINT = r"$\boldsymbol{v}_j = 0$ and $\boldsymbol{u}_j = 0$ in every head $j$"
AVERAGE = f"For the average: {JOINT}"
ERROR = (y_q - prediction) ** 2
ONE_SEQUENCE = "Minus half the gradient of the squared error of one sequence"


def pull(head: Any, weight) -> TracePolynomial:
    """Minus half the gradient of one squared error (y_q - y_hat)^2 in a weight of one head, whose output is ``head``."""
    return (TracePolynomial(y_q) - prediction) * gradient(head, weight)


def _zeros(letters: tuple) -> dict:
    return {one: ZeroMatrix(*one.shape) if hasattr(one, "shape") else 0 for one in letters}


@cache
def pull_at_zero(head: TracePolynomial, weight, letters: tuple = (value_row, u_i, kappa_i)) -> TracePolynomial:
    """The same where these letters are zero in all heads, which leave beta' B x_q, in Lambda_hat, w and x_q."""
    here = substitute(pull(head, weight), {**_zeros(letters), prediction: beta.T * B * x_q})
    return substitute(here, {y_q: w.T * x_q, beta: Lambda_hat * w})


def _at_zero(head: TracePolynomial, letters: tuple, source: str) -> Lines:
    """What the prediction is where these letters are zero in all heads; ``source``: the equation of the output ``head``."""
    zeros = _zeros(letters)
    for one, value in zeros.items():
        yield Line(one, ":=", value, "Zero in every head")
    yield Line(prediction_other, ":=", beta.T * B * x_q - substitute(head, zeros), r"$\boldsymbol{B}$ is then the map of all heads")
    yield Line(prediction, "=", beta.T * B * x_q, "So the prediction is", source)


_ONE_HEAD = Line(prediction, ":=", prediction_i + prediction_other, "Head $i$ beside the others")


def flow_where_zero(head: TracePolynomial, source: str, letters: tuple, parts: Mapping[Any, tuple[str, str]]) -> Lines:
    """tau dW/dt where these letters are zero in all heads; ``parts``: for each weight W the parts of one sequence and of the average."""
    there = {weight: pull_at_zero(head, weight, letters) for weight in parts}
    averages = {weight: average_context(expect(one, given=Lambda_hat)) for weight, one in there.items()}
    yield _ONE_HEAD
    for weight, (part, _) in parts.items():
        yield Line(-Gradient(ERROR, weight) / 2, "=", pull(head, weight), ONE_SEQUENCE, source, part)
    yield from _at_zero(head, letters, source)
    for weight, (_, part) in parts.items():
        reason = "There, with the targets (4) and the correlation (30)"
        yield Line(pull(head, weight), "=", there[weight], reason, (source, "4", "30"))
        yield Line(E(there[weight]), "=", averages[weight], "Average over the task vector, the query and the context", part=part)


@register("39", "The vector block of the value matrix stays zero", section="Appendix C.1")
@states("sequence", lambda: ((Lambda_hat + x_q * x_q.T / N) * U_i + beta * u_i.T) * x_q * (y_q - prediction))
@states("average", lambda: ZeroMatrix(D, 1))
@given(AVERAGE)
@erratum(
    r"The paper does not say that the condition is joint: one non-zero $\boldsymbol{u}_{j}$ can move $\boldsymbol{v}_i$ in every head "
    "(39-joint); nor that it holds for the population only: a finite training set moves the blocks (V6-leak)."
)
def value_block_stays() -> Lines:
    """Gradient, zero blocks, average."""
    yield from flow_where_zero(merged_expansion(), "C.1", (value_row, u_i), {value_row: ("sequence", "average")})


@register("40", "The vector block of the key-query matrix stays zero", section="Appendix C.1")
@states("sequence", lambda: (value_row.T * beta + v_i * w.T * Lambda_hat * w) * (y_q - prediction) * x_q)
@states("average", lambda: ZeroMatrix(D, 1))
@given(AVERAGE)
@erratum(
    r"The paper averages $\boldsymbol{w}^{\top} \hat{\boldsymbol{\Lambda}} \boldsymbol{w} \boldsymbol{w}^{\top}$ apart from the other "
    r"$\hat{\boldsymbol{\Lambda}}$; the average over $\boldsymbol{w}$ is meant given the context."
)
def key_query_block_stays() -> Lines:
    """Gradient, zero blocks, average."""
    yield from flow_where_zero(merged_expansion(), "C.1", (value_row, u_i), {u_i: ("sequence", "average")})


@register("39-parity", "The symmetry of the task's law is enough", section="Beside (39) and (40)")
@states("v", lambda: -(Lambda_hat + x_q * x_q.T / N) * U_i * x_q * (w.T * x_q - w.T * Lambda_hat * B * x_q))
@states("u", lambda: -v_i * (w.T * Lambda_hat * w) * (w.T * x_q - w.T * Lambda_hat * B * x_q) * x_q)
@given(JOINT, r"Any law of the tokens; the law of $\boldsymbol{w}$ is that of $-\boldsymbol{w}$")
def parity() -> Lines:
    """The gradients of one sequence, at w and at -w."""
    head, weights = merged_expansion(), {"v": value_row, "u": u_i}
    there = {part: pull_at_zero(head, weight) for part, weight in weights.items()}
    yield _ONE_HEAD
    yield from _at_zero(head, (value_row, u_i), "C.1")
    for part, one in there.items():
        yield Line(-Gradient(ERROR, weights[part]) / 2, "=", one, ONE_SEQUENCE, ("C.1", "4", "30"))
    yield Line(opposite, ":=", -w, "The opposite task vector")
    for part, one in there.items():
        yield Line(substitute(one, {w: opposite}), "=", -one, "For it: minus the same", part=part)


@register("E.1-zero", "The zero blocks of separate key and query stay zero", section="Appendix E.1")
@states("v sequence", lambda: ((Lambda_hat + x_q * x_q.T / N) * K_i + beta * kappa_i.T) * Q_i.T * x_q * (y_q - prediction))
@states("v", lambda: ZeroMatrix(D, 1))
@states("kappa sequence", lambda: (value_row.T * beta + v_i * w.T * Lambda_hat * w) * (y_q - prediction) * Q_i.T * x_q)
@states("kappa", lambda: ZeroMatrix(R, 1))
@given(r"For the averages: $\boldsymbol{v}_j = 0$ and $\boldsymbol{\kappa}_j = 0$ in every head $j$")
def separate_blocks_stay() -> Lines:
    r"""The same with $\boldsymbol{u}_i = \boldsymbol{Q}_i\boldsymbol{\kappa}_i$."""
    parts = {value_row: ("v sequence", "v"), kappa_i: ("kappa sequence", "kappa")}
    yield from flow_where_zero(separate_expansion(), "E.1", (value_row, kappa_i), parts)


@register("39-joint", "One head with a non-zero block can move the blocks of all others", section="Beside (39)")
@states(lambda: (
    -v_i * ((Trace(Lambda) * Lambda + 2 * Lambda**2 / N) * U_j * Lambda
            + Trace(Lambda) / N * (Lambda * U_j * Lambda + Lambda * U_j.T * Lambda + Trace(Lambda * U_j) * Lambda)) * u_i
))  # fmt: skip
@given(r"$\boldsymbol{v}_l = 0$ in every head, $\boldsymbol{u}_l = 0$ in every head but $i \ne j$")
def joint_condition() -> Lines:
    """The block u_i of head i makes an even part of the prediction, which correlates with the even derivative by v_j."""
    first, second = merged_expansion(), second_head(merged_expansion())
    own = substitute(second, _zeros((row_j, u_j)))
    here = substitute(first, _zeros((value_row,)))
    slope = substitute(pull(second, row_j), _zeros((row_j, u_j)))
    seen = substitute(substitute(slope, {prediction: here + beta.T * B * x_q}), {y_q: w.T * x_q, beta: Lambda_hat * w})
    yield Line(prediction, ":=", second + prediction_other, "Head $j$, as in (C.1), beside the others")
    for one, value in _zeros((value_row, row_j, u_j)).items():
        yield Line(one, ":=", value, "Zero")
    yield Line(prediction_i, "=", here, "The output of head $i$ with its block", "C.1")
    yield Line(prediction_other, ":=", prediction_i + beta.T * B * x_q - own, "What the others and head $i$ add")
    yield Line(-Gradient(ERROR, row_j) / 2, "=", seen, ONE_SEQUENCE, ("C.1", "4", "30"))
    yield Line(E(seen), "!=", ZeroMatrix(D, 1), "It does not vanish on average, although both blocks of head $j$ are zero")
    yield Line(E(seen), "=", expect(seen), "Average over the task vector, the query and the context")
