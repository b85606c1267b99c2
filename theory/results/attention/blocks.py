r"""Attention and its blocks: (5)-(7), (29), and why the corner of the prompt is masked.

One head has the value matrix [[V_i, *], [v_i', v_i]] and the merged key-query matrix [[U_i, *], [u_i', *]]; heads add up, so a statement
about one head with arbitrary blocks is one about all. The products of block matrices are multiplied out, and then

    X_c X_c' = N Lambda_hat,    X_c y = N beta

name what the context enters through. All blocks multiplied out, (87) and C.1, are in ``unreduced_attention``, the reduced models
(M) and (S) in ``reduced_attention``.
"""

from functools import cache
from typing import Any

from sympy import BlockMatrix, MatrixExpr, Symbol, ZeroMatrix

from ...algebra.polynomial import TracePolynomial, zero
from ...calculus.rewriting import block_product, block_transpose, rewrite
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import define, register
from ...notation import D, Lambda_hat, MatrixLetter, N, R, beta, matrix, v_i, vector, w, x_q, y_q
from ..task.regression import PROMPT, X_c, in_context_letters, y

__all__ = [
    "HEADS",
    "KEY_QUERY",
    "VALUE",
    "U_i",
    "expansion",
    "forward_corner",
    "merged_expansion",
    "u_i",
    "value_entry",
    "value_row",
]

U_i = matrix("U_i", D)
u_i = vector("u_i", D)
value_entry = MatrixLetter("v_i", 1, 1, "v_i")  # the scalar v_i, where it stands as a block
value_row = vector("vv_i", D, latex=r"\boldsymbol{v}_i")  # the row of the value matrix that reads the tokens

# Blocks that do not reach the output
_V, _v_column = matrix("V_i", D), vector("s_i", D)
_U_column, _U_corner = vector("r_i", D), Symbol("r_i", real=True)

VALUE = ((_V, _v_column), (value_row.T, v_i))
KEY_QUERY = ((U_i, _U_column), (u_i.T, _U_corner))

HEADS = "The output is the sum of this over the heads $i = 1$, ..., $H$"


class _Formal(MatrixExpr):
    """A matrix of the shape of its argument that stands in definitions only."""

    @property
    def shape(self):
        return self.args[0].shape


class ColumnSoftmax(_Formal):
    """softmax of each column: one column for each query token."""

    def _latex(self, printer):
        return rf"\mathrm{{softmax}}\left({printer.doprint(self.args[0])}\right)"

    def _sympystr(self, printer):
        return f"softmax({printer.doprint(self.args[0])})"


class HeadSum(_Formal):
    """The sum over the heads."""

    def _latex(self, printer):
        return rf"\sum_{{i=1}}^{{H}} {printer.doprint(self.args[0])}"

    def _sympystr(self, printer):
        return f"sum_i {printer.doprint(self.args[0])}"


_X = matrix("X", D + 1, N + 1)
_W_V = matrix("W_i^V", D + 1, latex=r"{\boldsymbol{W}_i^V}")
_W_K = matrix("W_i^K", R, D + 1, latex=r"{\boldsymbol{W}_i^K}")
_W_Q = matrix("W_i^Q", R, D + 1, latex=r"{\boldsymbol{W}_i^Q}")

define(
    "5",
    "Multi-head softmax attention",
    section="Section 2.2",
    left=r"\mathrm{ATTN}(\boldsymbol{X})",
    typed=lambda: _X + HeadSum(_W_V * _X * ColumnSoftmax(_X.T * _W_K.T * _W_Q * _X / Symbol("rho", positive=True))),
    conditions=("Softmax acts on each column, which belongs to one query token",),
)
define(
    "5-linear",
    "Multi-head linear attention",
    section="Section 2.2",
    left=r"\mathrm{ATTN}(\boldsymbol{X})",
    typed=lambda: _X + HeadSum(_W_V * _X * _X.T * _W_K.T * _W_Q * _X / N),
    conditions=(
        (
            r"No softmax, and $\rho = N$: $N + 1$ tokens are summed, but the query contributes nothing to "
            r"$\boldsymbol{\beta}$"
        ),
    ),
)
define(
    "6",
    "Prediction",
    section="Section 2.2",
    left=r"\hat y_q",
    typed=lambda: Symbol(r"\mathrm{ATTN}(\boldsymbol{X})_{D+1,N+1}"),
    conditions=(r"The residual $\boldsymbol{X}$ contributes its masked corner, which is 0",),
)


def forward_corner(value: Any, key_query: Any, prompt: Any = PROMPT) -> TracePolynomial:
    """The corner (D+1, N+1) of W^V X X' W^KQ X / N: what one head adds to the prediction."""
    return block_product(value, prompt, block_transpose(prompt), key_query, prompt)[1][1] / N


@cache
def _multiplied_out() -> TracePolynomial:
    return forward_corner(VALUE, KEY_QUERY)


def name_context(expression) -> TracePolynomial:
    """Write beta for X_c y / N and Lambda_hat for X_c X_c' / N; (1/N) sum_n y_n^2 stays y'y/N."""
    return rewrite(expression, {X_c * y: N * beta, X_c * X_c.T: N * Lambda_hat})


@register(
    "7",
    "Linear attention in blocks",
    kind="exact",
    section="Section 2.2",
    left=r"\hat y_q^{(i)}",
    typed=lambda: (
        BlockMatrix([[value_row.T, value_entry]])
        * BlockMatrix([[x_q * x_q.T / N + X_c * X_c.T / N, X_c * y / N], [y.T * X_c.T / N, y.T * y / N]])
        * BlockMatrix([[U_i], [u_i.T]])
        * x_q
    ),
    conditions=(HEADS, "Any values of the blocks that are not named here"),
)
def attention_in_blocks() -> Derivation:
    """The full product of block matrices; the blocks of both weights that are starred in the paper drop out."""
    attended = block_product(PROMPT, block_transpose(PROMPT), KEY_QUERY, PROMPT)
    return Derivation.by(
        Step(
            (
                r"The last column of $\boldsymbol{X} \boldsymbol{X}^{\top} \boldsymbol{W}^{\text{KQ}} "
                r"\boldsymbol{X}$, its first $D$ entries"
            ),
            attended[0][1],
        ),
        Step("Its last entry", attended[1][1]),
        Step(
            "The last row of the value matrix times this column, over $N$",
            substitute(_multiplied_out(), {v_i: value_entry}),
        ),
    )


@register(
    "29",
    "Gram matrix of the prompt",
    kind="exact",
    section="Appendix B.1",
    left={
        "tokens": r"\left(\tfrac1N\boldsymbol{X}\boldsymbol{X}^\top\right)_{1:D,\,1:D}",
        "cross": r"\left(\tfrac1N\boldsymbol{X}\boldsymbol{X}^\top\right)_{1:D,\,D+1}",
        "targets": r"\left(\tfrac1N\boldsymbol{X}\boldsymbol{X}^\top\right)_{D+1,\,D+1}",
    },
    typed=lambda: {
        "tokens": x_q * x_q.T / N + Lambda_hat,
        "cross": beta,
        "targets": w.T * Lambda_hat * w,
    },
    conditions=(
        (
            r"The targets are $y_{n} = \boldsymbol{w}^{\top} \boldsymbol{x}_{n}$, and the query's target is "
            "masked"
        ),
    ),
)
def gram_matrix() -> Derivation:
    """Multiply the blocks of the prompt; the query meets the targets only through the masked corner."""
    (tokens, cross), (_, targets) = block_product(PROMPT, block_transpose(PROMPT))
    return Derivation.by(
        Step("The tokens with themselves", name_context(tokens / N), part="tokens"),
        Step("The tokens with the targets", name_context(cross / N), part="cross"),
        Step(
            r"The targets with themselves, with $\boldsymbol{y} = \boldsymbol{X}_{c}^{\top} \boldsymbol{w}$",
            in_context_letters(targets / N),
            part="targets",
        ),
    )


@cache
def expansion() -> TracePolynomial:
    """The output of one head with all its blocks, in Lambda_hat, beta and y'y."""
    return name_context(_multiplied_out())


@cache
def merged_expansion() -> TracePolynomial:
    """The same in Lambda_hat, beta and the task vector w."""
    return in_context_letters(expansion())


@register(
    "1-mask",
    "What the masked corner prevents",
    kind="exact",
    section="Beside (1)",
    left=r"\hat y_q^{(i)}",
    typed=lambda: v_i * (beta.T + y_q * x_q.T / N) * U_i * x_q,
    conditions=(
        "The query's target stands in the corner instead of 0",
        r"All blocks but $v_{i}$ and $\boldsymbol{U}_{i}$ are zero",
    ),
)
def unmasked_attention() -> Derivation:
    """The target would leak into beta."""
    prompt = ((X_c, x_q), (y.T, y_q))
    none = zero((D, 1))
    value = ((TracePolynomial(ZeroMatrix(D, D)), none), (none.T, v_i))
    key_query = ((U_i, none), (none.T, zero(None)))
    leaking = forward_corner(value, key_query, prompt)
    return Derivation.by(
        Step("The product of blocks with the target in the corner", leaking, r"\hat y_q^{(i)}"),
        Step(r"$\boldsymbol{\beta}$ recognised, equation (8)", name_context(leaking), r"\hat y_q^{(i)}"),
    )
