r"""The two reduced models: merged key and query (M), separate key and query of any rank R (S), and the expansion E.1 between them.

A head of separate key and query has U_i = K_i Q_i', u_i = Q_i kappa_i, where the R columns of K_i and Q_i are k_{i,r} and q_{i,r}, and
kappa_i holds the scalars k_{i,r} of the key matrix.
"""

from functools import cache

from sympy import BlockMatrix, ZeroMatrix

from ...algebra.polynomial import TracePolynomial
from ...calculus import as_block_matrix, block_product, block_transpose, substitute
from ...derivations import Line, Lines, erratum, given, register, states
from ...notation import D, K_i, Lambda_hat, N, Q_i, R, beta, matrix, prediction_i, v_i, vector, w, x_q
from .blocks import FIRST, LAST, W_K, W_Q, U_i, merged_expansion, u_i, value_row

kappa_i = vector("kappa_i", R)
KEY = ((K_i.T, kappa_i),)  # the R rows [k_ir' kappa_ir]
QUERY = ((Q_i.T, vector("g_i", R)),)  # the last column meets the masked corner only

# One column, and the others
_K_rest = matrix("K_other", D, R - 1, latex=r"\boldsymbol{K}_{\rm other}")
_Q_rest = matrix("Q_other", D, R - 1, latex=r"\boldsymbol{Q}_{\rm other}")
_k, _q = vector("k_{i,r}", D, latex=r"\boldsymbol{k}_{i,r}"), vector("q_{i,r}", D, latex=r"\boldsymbol{q}_{i,r}")


@cache
def separate_expansion() -> TracePolynomial:
    """The same for a head with separate key and query of rank R."""
    merged = block_product(block_transpose(KEY), QUERY)
    return substitute(merged_expansion(), {U_i: merged[0][0], u_i: merged[1][0].T})


@register("M", "Linear attention with merged key and query", section="Section 2.2")
@states(lambda: v_i * beta.T * U_i * x_q)
@given(r"$\boldsymbol{v}_i = 0$ and $\boldsymbol{u}_i = 0$")
@erratum(
    r"Both blocks must vanish: with $\boldsymbol{v}_i=0$ alone, $v_{i} (\boldsymbol{w}^{\top} \hat{\boldsymbol{\Lambda}} \boldsymbol{w}) "
    r"\boldsymbol{u}_{i}^{\top} \boldsymbol{x}_{q}$ remains, equation (C.1)"
)
def merged_attention() -> Lines:
    """Zero blocks in the expansion; it holds for every finite N, for the query token is in no remaining term."""
    half = substitute(merged_expansion(), {value_row: ZeroMatrix(D, 1)})
    merged = substitute(half, {u_i: ZeroMatrix(D, 1)})
    yield Line(value_row, ":=", ZeroMatrix(D, 1), "The vector block of the value set to zero")
    yield Line(prediction_i, "=", half, "What is left of the expansion (C.1)", ("C.1",))
    yield Line(prediction_i, "!=", merged, r"As printed in the paper: $\boldsymbol{v}_i = 0$ alone is not enough", ("C.1",))
    yield Line(u_i, ":=", ZeroMatrix(D, 1), "The vector block of the key-query matrix set to zero, too")
    yield Line(prediction_i, "=", merged, "One term is left", (1,))


@register("E.1", "Linear attention with separate key and query, all blocks", section="Appendix E.1")
@states("U", lambda: K_i * Q_i.T)
@states("u", lambda: Q_i * kappa_i)
@states("y", lambda: (
    (value_row.T * (Lambda_hat + x_q * x_q.T / N) * K_i + v_i * beta.T * K_i
     + value_row.T * beta * kappa_i.T + v_i * (w.T * Lambda_hat * w) * kappa_i.T) * Q_i.T * x_q
))  # fmt: skip
def separate_attention_in_blocks() -> Lines:
    """The merged key-query matrix is the product of the key and the query matrix."""
    merged = block_product(block_transpose(KEY), QUERY)
    yield Line(W_K, ":=", as_block_matrix(KEY), r"The key matrix: its rows are $[\boldsymbol{k}_{i,r}^{\top}\ k_{i,r}]$")
    yield Line(W_Q, ":=", as_block_matrix(QUERY), "The query matrix; its last column meets only the masked corner")
    yield Line(W_K.T * W_Q, "=", as_block_matrix(merged), "The merged matrix")
    yield Line(U_i, ":=", FIRST * W_K.T * W_Q * FIRST.T, r"Its blocks, as in (7)")
    yield Line(u_i, ":=", FIRST * W_Q.T * W_K * LAST.T, r"The same for the last row")
    yield Line(U_i, "=", merged[0][0], "The first block", part="U")
    yield Line(u_i, "=", merged[1][0].T, "The block below it", part="u")
    yield Line(prediction_i, "=", separate_expansion(), "Both put into the expansion (C.1)", (-1, -2, "C.1"), "y")


@register("S", "Linear attention with separate key and query", section="Section 2.2")
@states("matrix", lambda: v_i * beta.T * K_i * Q_i.T * x_q)
@states("sum", lambda: v_i * beta.T * _K_rest * _Q_rest.T * x_q + v_i * (beta.T * _k) * (_q.T * x_q))
@given(r"$\boldsymbol{v}_i = 0$ and $\boldsymbol{\kappa}_i = 0$")
def separate_attention() -> Lines:
    """Zero blocks, then one column split off after another."""
    half = substitute(separate_expansion(), {value_row: ZeroMatrix(D, 1)})
    reduced = substitute(half, {kappa_i: ZeroMatrix(R, 1)})
    split = block_product(((_K_rest, _k),), block_transpose(((_Q_rest, _q),)))[0][0]
    yield Line(kappa_i, ":=", ZeroMatrix(R, 1), "The scalars of the key set to zero")
    yield Line(prediction_i, "!=", reduced, "This alone is not enough", ("E.1",))
    yield Line(value_row, ":=", ZeroMatrix(D, 1), "The vector block of the value set to zero, too")
    yield Line(prediction_i, "=", reduced, "One term is left of the expansion (E.1)", ("E.1",), "matrix")
    yield Line(K_i, ":=", BlockMatrix([[_K_rest, _k]]), "One column of the key matrix split off")
    yield Line(Q_i, ":=", BlockMatrix([[_Q_rest, _q]]), "One column of the query matrix split off")
    yield Line(K_i * Q_i.T, "=", split, "Each column adds a matrix of rank one")
    yield Line(prediction_i, "=", v_i * beta.T * split * x_q, "Each column adds a rank-one head with the same value weight", (3,), "sum")
