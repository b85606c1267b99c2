r"""Attention and its blocks: (5)-(7), (29), and why the corner of the prompt is masked.

One head has the value matrix [[V_i, *], [v_i', v_i]] and the merged key-query matrix [[U_i, *], [u_i', *]]; heads add up, so a statement
about one head with arbitrary blocks is one about all. The products of block matrices are multiplied out, and then

    X_c X_c' = N Lambda_hat,    X_c y = N beta

name what the context enters through. All blocks multiplied out, (87) and C.1, are in ``unreduced``, the reduced models (M) and (S) in
``reduced``.
"""

from functools import cache
from typing import Any

from sympy import BlockMatrix, Identity, IndexedBase, OneMatrix, Sum, Symbol, ZeroMatrix, diff, exp

from ...algebra.polynomial import TracePolynomial, zero
from ...calculus import as_block_matrix, block_product, block_transpose, rewrite
from ...derivations import Condition, Line, Lines, define, given, note, register, states
from ...derivations.matrix_forms import ColumnSoftmax, SumOverHeads
from ...notation import D, Lambda_hat, N, R, beta, matrix, prediction, prediction_i, v_i, vector, w, x_q, y_q
from ..task.regression import PROMPT, X, X_c, in_context_letters, y

U_i = matrix("U_i", D)
u_i = vector("u_i", D)
value_row = vector("vv_i", D, latex=r"\boldsymbol{v}_i")  # the row of the value matrix that reads the tokens

# Blocks that do not reach the output
_V, _v_column = matrix("V_i", D), vector("s_i", D)
_U_column, _U_corner = vector("r_i", D), Symbol("t_i", real=True)

VALUE = ((_V, _v_column), (value_row.T, v_i))
KEY_QUERY = ((U_i, _U_column), (u_i.T, _U_corner))

HEADS = "The output is the sum of this over the heads $i = 1$, ..., $H$"

ATTN = matrix("ATTN", D + 1, N + 1, latex=r"\mathrm{ATTN}(\boldsymbol{X})")
W_V = matrix("W_i^V", D + 1, latex=r"{\boldsymbol{W}_i^V}")
W_K = matrix("W_i^K", R, D + 1, latex=r"{\boldsymbol{W}_i^K}")
W_Q = matrix("W_i^Q", R, D + 1, latex=r"{\boldsymbol{W}_i^Q}")
W_KQ = matrix("W_i^KQ", D + 1, latex=r"{\boldsymbol{W}_i^{KQ}}")

# The first D rows, the last row, and the last column
FIRST, LAST = BlockMatrix([[Identity(D), ZeroMatrix(D, 1)]]), BlockMatrix([[ZeroMatrix(1, D), Identity(1)]])
LAST_TOKEN = BlockMatrix([[ZeroMatrix(N, 1)], [Identity(1)]])

HEAD_OUTPUT = LAST * W_V * X * X.T * W_KQ * X * LAST_TOKEN / N


_SCORES, rho = X.T * W_K.T * W_Q * X, Symbol("rho", positive=True)

define("5", "Multi-head softmax attention", section="Section 2.2",
       left=ATTN, typed=lambda: X + SumOverHeads(W_V * X * ColumnSoftmax(_SCORES / rho), W_V, W_K, W_Q),
       notes=("Softmax acts on each column, which belongs to one query token",))  # fmt: skip
define("5-linear", "Multi-head linear attention", section="Section 2.2",
       left=ATTN, typed=lambda: X + SumOverHeads(W_V * X * X.T * W_K.T * W_Q * X / N, W_V, W_K, W_Q))  # fmt: skip
_score, _token = IndexedBase("s", real=True), Symbol("n", integer=True, positive=True)


@register("5-softmax", r"Softmax attention for a large $\rho$", kind="approximation", section="Beside (5)")
@states(lambda: 1 / (N + 1) + (_score[1] - Sum(_score[_token], (_token, 1, N + 1)) / (N + 1)) / ((N + 1) * rho))
@given(Condition(r"$N \ge 2$", lambda point: point[N] > 1))
@note("$s_n$ are the scores of one column; the weight is that of its first token")
def softmax_for_large_scale() -> Lines:
    r"""Expand the weight of one token in $1/\rho$; then the same for all tokens at once."""
    inverse = Symbol("x", positive=True)
    exponential = exp(_score[_token] * inverse)
    weight = exponential.subs(_token, 1) / Sum(exponential, (_token, 1, N + 1))
    constant, slope = (diff(weight, inverse, order).subs(inverse, 0).doit() for order in (0, 1))
    tokens = Identity(N + 1)
    average = OneMatrix(N + 1, N + 1) / (N + 1)
    weights = average + (tokens - average) * _SCORES / ((N + 1) * rho)
    yield Line(ATTN, "~", X + SumOverHeads(W_V * X * weights, W_V, W_K, W_Q),
               r"Each column of scores loses its average, beside equal weights for all $N + 1$ tokens",
               ("5",), parameter=rho, order=2)  # fmt: skip
    yield Line(weight.subs(inverse, 1 / rho), "~", constant + slope / rho, "The weight of one token", parameter=rho, order=2)


define("6", "Prediction", section="Section 2.2",
       left=prediction, typed=lambda: LAST * ATTN * LAST_TOKEN)  # fmt: skip


def forward_corner(value: Any, key_query: Any, prompt: Any = PROMPT) -> TracePolynomial:
    """The corner (D+1, N+1) of W^V X X' W^KQ X / N: what one head adds to the prediction."""
    return block_product(value, prompt, block_transpose(prompt), key_query, prompt)[1][1] / N


@cache
def multiplied_head() -> TracePolynomial:
    """What one head with all its blocks adds to the prediction, in the tokens and targets."""
    return forward_corner(VALUE, KEY_QUERY)


def name_context(expression) -> TracePolynomial:
    """Write beta for X_c y / N and Lambda_hat for X_c X_c' / N; (1/N) sum_n y_n^2 stays y'y/N."""
    return rewrite(expression, {X_c * y: N * beta, X_c * X_c.T: N * Lambda_hat})


@register("7", "Linear attention in blocks", section="Section 2.2")
@states(lambda: (
    BlockMatrix([[value_row.T, v_i * Identity(1)]])
    * BlockMatrix([[x_q * x_q.T / N + X_c * X_c.T / N, X_c * y / N], [y.T * X_c.T / N, y.T * y / N]]) * BlockMatrix([[U_i], [u_i.T]]) * x_q
))  # fmt: skip
@note(HEADS)
def attention_in_blocks() -> Lines:
    """The full product of block matrices; the blocks of both weights that are starred in the paper drop out."""
    attended = block_product(PROMPT, block_transpose(PROMPT), KEY_QUERY, PROMPT)
    yield Line(prediction, "=", SumOverHeads(LAST * W_V * X * X.T * W_K.T * W_Q * X * LAST_TOKEN / N, W_V, W_K, W_Q),
               r"The residual $\boldsymbol{X}$ contributes its masked corner, which is 0", ("1", "5-linear", "6"))  # fmt: skip
    yield Line(W_V, ":=", as_block_matrix(VALUE), "The blocks of the value matrix")
    yield Line(W_KQ, ":=", as_block_matrix(KEY_QUERY),
               r"The blocks of the merged matrix, $\boldsymbol{W}_i^{K\top} \boldsymbol{W}_i^Q$ in one")  # fmt: skip
    yield Line(prediction_i, ":=", HEAD_OUTPUT, "What head $i$ adds")
    yield Line(X * X.T * W_KQ * X * LAST_TOKEN, "=", as_block_matrix((attended[0][1:], attended[1][1:])),
               r"The last column of $\boldsymbol{X} \boldsymbol{X}^{\top} \boldsymbol{W}_i^{KQ} \boldsymbol{X}$", ("1",))  # fmt: skip
    yield Line(prediction_i, "=", multiplied_head(), "The last row of the value matrix times this column, over $N$", ("1",))


@register("29", "Gram matrix of the prompt", section="Appendix B.1")
@states("tokens", lambda: x_q * x_q.T / N + Lambda_hat)
@states("cross", lambda: beta)
@states("targets", lambda: w.T * Lambda_hat * w)
def gram_matrix() -> Lines:
    """Multiply the blocks of the prompt; the query meets the targets only through the masked corner."""
    blocks = block_product(PROMPT, block_transpose(PROMPT))
    (tokens, cross), (_, targets) = [[block / N for block in row] for row in blocks]
    gram = X * X.T / N
    yield Line(X * X.T, "=", as_block_matrix(blocks), "The blocks multiplied out", ("1",))
    yield Line(FIRST * gram * FIRST.T, "=", name_context(tokens),
               r"The tokens with themselves, $\hat{\boldsymbol{\Lambda}}$ recognised", ("1", "28"), "tokens")  # fmt: skip
    yield Line(FIRST * gram * LAST.T, "=", name_context(cross),
               r"The tokens with the targets, $\boldsymbol{\beta}$ recognised", ("1", "8"), "cross")  # fmt: skip
    yield Line(LAST * gram * LAST.T, "=", in_context_letters(targets),
               r"The targets with themselves, with $\boldsymbol{y} = \boldsymbol{X}_{c}^{\top} \boldsymbol{w}$",
               ("1", "4", "28"), "targets")  # fmt: skip


@cache
def expansion() -> TracePolynomial:
    """The output of one head with all its blocks, in Lambda_hat, beta and y'y."""
    return name_context(multiplied_head())


@cache
def merged_expansion() -> TracePolynomial:
    """The same in Lambda_hat, beta and the task vector w."""
    return in_context_letters(expansion())


@register("1-mask", "What the masked corner prevents", section="Beside (1)")
@states(lambda: v_i * (beta.T + y_q * x_q.T / N) * U_i * x_q)
def unmasked_attention() -> Lines:
    r"""The target would leak into $\boldsymbol{\beta}$."""
    prompt = ((X_c, x_q), (y.T, y_q))
    none = zero((D, 1))
    value = ((TracePolynomial(ZeroMatrix(D, D)), none), (none.T, v_i))
    key_query = ((U_i, none), (none.T, zero(None)))
    leaking = forward_corner(value, key_query, prompt)
    yield Line(X, ":=", as_block_matrix(prompt), "The prompt with the target in its corner")
    yield Line(W_V, ":=", as_block_matrix(value), "Only $v_i$ reads")
    yield Line(W_KQ, ":=", as_block_matrix(key_query), r"Only $\boldsymbol{U}_i$ compares")
    yield Line(prediction_i, ":=", HEAD_OUTPUT, "What head $i$ adds")
    yield Line(prediction_i, "=", leaking, "The product of the blocks")
    yield Line(prediction_i, "!=", v_i * beta.T * U_i * x_q, "With the masked corner, (M), the target is not there", ("8",))
    yield Line(prediction_i, "=", name_context(leaking), r"$\boldsymbol{\beta}$ recognised, equation (8)", ("8",))
