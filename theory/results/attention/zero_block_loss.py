r"""What the zero blocks do when they are not zero (T4): the loss splits into the reduced loss and an even part.

The prediction of a head is an odd part in the task vector, beta' (v_i U_i + v_i u_i') x_q, and an even part e_i. The target is odd, so that

    L_full = L(B_eff) + E[(sum_i e_i)^2],    B_eff = sum_i v_i U_i + v_i u_i',

for any number of heads: the reduced models reach the minimum of the unreduced ones. Around zero blocks, L/2 has the quadratic form
E[e^2]/2 - sum_i v_i' G u_i, with the force G of the reduced model: neutral at the minimum (G = 0), unstable on the plateau (G = Lambda^2).
"""

from functools import cache
from typing import Any

from sympy import MatAdd, Symbol, Trace

from ...algebra.polynomial import TracePolynomial
from ...calculus import collect, substitute
from ...derivations import E, Gradient, Line, Lines, register, states
from ...expectation import expect
from ...notation import B, B_rest, D, K_i, Lambda, Lambda_hat, M, N, Q_i, beta, matrix, prediction, prediction_i, v_i, vector, w, x_q, y_q
from ..task.regression import SECOND_MOMENT, average_context, force
from .blocks import U_i, merged_expansion, u_i, value_row
from .reduced import kappa_i

# A second head
U_j, u_j, v_j = matrix("U_j", D), vector("u_j", D), Symbol("v_j", real=True)
row_j = vector("vv_j", D, latex=r"\boldsymbol{v}_j")
opposite = vector("w_-", D, latex=r"\boldsymbol{w}_{-}")  # the task vector -w
_output = vector("yhat_-^(i)", 1, latex=r"\hat y_-^{(i)}")  # the output of head i for it
_odd, _even = (vector(f"yhat_{name}^(i)", 1, latex=rf"\hat y_{{\rm {name}}}^{{(i)}}") for name in ("odd", "even"))
_even_j = vector("yhat_even^(j)", 1, latex=r"\hat y_{\rm even}^{(j)}")
half_loss, scale = Symbol("F", real=True), Symbol("epsilon", positive=True)
HALF = Line(half_loss, ":=", E((y_q - prediction) ** 2) / 2, "Half the loss (9)")


def second_head(formula) -> TracePolynomial:
    """A formula for head i, written for head j."""
    return substitute(formula, {U_i: U_j, u_i: u_j, value_row: row_j, v_i: v_j})


@cache
def _for_task(task: Any) -> TracePolynomial:
    return substitute(substitute(merged_expansion(), {beta: Lambda_hat * w}), {w: task})


@cache
def odd_and_even() -> tuple[TracePolynomial, TracePolynomial]:
    """The parts of the output of one head that change sign with the task vector, and that do not."""
    return (_for_task(w) - _for_task(-w)) / 2, (_for_task(w) + _for_task(-w)) / 2


@cache
def full_loss() -> TracePolynomial:
    """E (y_q - y_hat)^2 for one head with all its blocks, beside heads that add the odd map ``B_rest``."""
    return expect((y_q - beta.T * B_rest * x_q - merged_expansion()) ** 2)


@cache
def _without_even_part() -> TracePolynomial:
    """The full loss less E(y_even^2), with M for E(Lambda_hat^2)."""
    error = y_q - beta.T * B_rest * x_q - merged_expansion()
    return average_context(expect(error**2, given=Lambda_hat) - expect(odd_and_even()[1] ** 2, given=Lambda_hat))


def _reduced_loss(map_):
    """L(B) as in (9-closed), for statements."""
    return Trace(Lambda) - 2 * Trace(Lambda * map_ * Lambda) + Trace(map_.T * M * map_ * Lambda)


@register("T4", "The loss of the unreduced model splits into the reduced loss and an even part", section="Beside (7) and Section 2.3")
@states("odd", lambda: w.T * Lambda_hat * (v_i * U_i + value_row * u_i.T) * x_q)
@states("odd, separate", lambda: w.T * Lambda_hat * (v_i * K_i + value_row * kappa_i.T) * Q_i.T * x_q)
@states("even", lambda: (value_row.T * (Lambda_hat + x_q * x_q.T / N) * U_i + v_i * (w.T * Lambda_hat * w) * u_i.T) * x_q)
@states("cross", lambda: 0)
@states("loss", lambda: _reduced_loss(B_rest + v_i * U_i + value_row * u_i.T))
def split_loss() -> Lines:
    """Odd times even averages to zero over a symmetric law of w."""
    (odd, even), error = odd_and_even(), y_q - beta.T * B * x_q
    separate = substitute(odd, {U_i: K_i * Q_i.T, u_i: Q_i * kappa_i})
    yield SECOND_MOMENT
    yield Line(opposite, ":=", -w, "The opposite task vector")
    yield Line(_output, ":=", _for_task(opposite), "The output of head $i$ for it, equation (C.1)")
    yield Line(_odd, ":=", (prediction_i - _output) / 2, r"The part of the output that is odd in $\boldsymbol{w}$")
    yield Line(_even, ":=", (prediction_i + _output) / 2, "and the part that is even")
    yield Line(_odd, "=", odd, "The odd part, with (30)", ("C.1", "30"), "odd")
    yield Line(_odd, "=", separate, "The same for separate key and query of any rank, by (E.1)", ("C.1", "30", "E.1"), "odd, separate")
    yield Line(_even, "=", even, "The even part", ("C.1", "30"), "even")
    yield Line(E(error * _even), "=", expect(error * even), "The error of any reduced model does not correlate with it", (-1,), "cross")
    yield Line(prediction, ":=", prediction_i + beta.T * B_rest * x_q, "Head $i$ beside the others")
    yield Line(E((y_q - prediction) ** 2) - E(_even**2), "=", _without_even_part(), "The full loss less the even part", ("C.1", -3), "loss")


def fourth_moment(inner):
    """E[x x' A x x'] of a Gaussian token, for statements."""
    return Lambda * inner * Lambda + Lambda * inner.T * Lambda + Trace(inner * Lambda) * Lambda


def _sextuple(first, second):
    """E[x x' A x x' C x x'] of a Gaussian token, for statements."""
    A, C = first + first.T, second + second.T
    return (
        (Trace(first * Lambda) * Trace(second * Lambda) + Trace(A * Lambda * C * Lambda) / 2) * Lambda
        + Trace(first * Lambda) * (Lambda * C * Lambda)
        + Trace(second * Lambda) * (Lambda * A * Lambda)
        + Lambda * A * Lambda * C * Lambda
        + Lambda * C * Lambda * A * Lambda
    )


def overlap_formula(v_i, value_row, U_i, u_i, v_j, row_j, U_j, u_j):
    """E(e_i e_j), for statements: the terms without and with the query in the Gram matrix."""
    T = Trace(Lambda)
    middle = U_i * Lambda * U_j.T
    context = Lambda * middle * Lambda + (Lambda * middle.T * Lambda + Trace(middle * Lambda) * Lambda) / N
    with_trace = T * Lambda + 2 * Lambda**2 / N
    return MatAdd(  # at once: adding one by one simplifies the whole sum each time
        value_row.T * context * row_j,
        v_i * v_j * (1 + 2 / N) * (T**2 + 2 * Trace(Lambda**2)) * u_i.T * Lambda * u_j,
        v_j * value_row.T * with_trace * U_i * Lambda * u_j,
        v_i * row_j.T * with_trace * U_j * Lambda * u_i,
        v_j * T / N * value_row.T * fourth_moment(U_i) * u_j,
        v_i * T / N * row_j.T * fourth_moment(U_j) * u_i,
        value_row.T * Lambda * U_i * fourth_moment(U_j) * row_j / N,
        row_j.T * Lambda * U_j * fourth_moment(U_i) * value_row / N,
        value_row.T * _sextuple(U_i, U_j) * row_j / N**2,
    )


@register("T4-even", "The even part of two heads", section="Beside (7) and Section 2.3")
@states(lambda: overlap_formula(v_i, value_row, U_i, u_i, v_j, row_j, U_j, u_j))
def even_overlap() -> Lines:
    """Average over the task, the query (up to its sixth moment) and the context."""
    _, even = odd_and_even()
    other = second_head(even)
    yield Line(_even, "=", even, "The even part of head $i$", "T4")
    yield Line(_even_j, ":=", other, "That of head $j$")
    yield Line(E(_even * _even_j), "=", expect(even * other), "Their product, averaged", (0,))


@register("T4-form", "Quadratic form of half the loss across the zero blocks", section="Beside (39) and (40)")
@states("first", lambda: 0)
@states("second", lambda: -value_row.T * (Lambda**2 - M * (B_rest + v_i * U_i) * Lambda) * u_i)
def transverse_form() -> Lines:
    r"""Scale both blocks of one head by $\epsilon$ and gather."""
    blocks = {value_row: scale * value_row, u_i: scale * u_i}
    scaled = substitute(merged_expansion(), blocks) + beta.T * B_rest * x_q
    first = collect(substitute(full_loss() / 2, blocks), scale).get(1, TracePolynomial(0))
    second = collect(substitute(_without_even_part() / 2, blocks), scale)[2]
    slope = Gradient(half_loss, scale)
    yield SECOND_MOMENT
    yield Line(prediction, ":=", scaled, r"Both vectors of head $i$ multiplied by $\epsilon$ in (C.1), beside the others")
    yield HALF
    yield Line(_even, "=", odd_and_even()[1], "The even part", "T4")
    yield Line(scale, ":=", 0, "The derivatives at zero blocks")
    yield Line(slope, "=", first, "First order in the blocks", part="first")
    yield Line(Gradient(slope, scale) / 2 - E(_even**2) / 2, "=", second, "Second order, less the even part", (3,), "second")
    yield Line(B, ":=", B_rest + v_i * U_i, "The map of the reduced model")
    yield Line(second, "=", -value_row.T * force() * u_i, "The bracket is its force (53)")
