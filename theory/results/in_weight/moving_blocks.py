r"""What moves the zero blocks (V6): laws of the task, and finite training sets.

With the zero blocks at zero their velocity is, given the task vector, linear in w and in (w' Lambda w) w: two moments of the task's law
decide. On P sequences those averages are only P^(-1/2) small.
"""

from sympy import Identity, Symbol, Trace, ZeroMatrix

from ...calculus import substitute
from ...derivations import E, Gradient, Line, Lines, erratum, register, states
from ...expectation import expect
from ...notation import B, D, Lambda, N, beta, lambda_, prediction, prediction_i, prediction_other, v_i, w, x_q
from ..attention.blocks import U_i, merged_expansion, u_i, value_row
from ..attention.zero_block_loss import fourth_moment
from ..attention.zero_blocks import ERROR, pull_at_zero

b = Symbol("b", real=True)  # the map of white tokens is b I


def _slopes() -> Lines:
    """The slopes of the squared error of one sequence in the zero blocks, which are zero in every head: lines 4 and 5."""
    yield Line(value_row, ":=", ZeroMatrix(D, 1), "The zero blocks are zero in every head")
    yield Line(u_i, ":=", ZeroMatrix(D, 1), "The zero blocks are zero in every head")
    yield Line(prediction_other, ":=", beta.T * (B - v_i * U_i) * x_q, r"All heads together have the map $\boldsymbol{B}$")
    yield Line(prediction, ":=", prediction_i + prediction_other, "Head $i$ beside the others")
    for weight in (value_row, u_i):
        yield Line(Gradient(ERROR, weight), "=", -2 * pull_at_zero(merged_expansion(), weight),
                   "The slope for one sequence", ("C.1", "4", "30"))  # fmt: skip


def _pair_in(inner):
    return Lambda * inner * Lambda + (Lambda * inner.T * Lambda + Trace(inner * Lambda) * Lambda) / N


@register("V6-zero", "Which laws of the task move the zero blocks")
@states("v", lambda: (Lambda * U_i * Lambda - _pair_in(U_i * Lambda * B.T) + fourth_moment(U_i) * (Identity(D) - B.T * Lambda) / N) * w)
@states("u", lambda: v_i * Trace(w * w.T * Lambda) * Lambda * (Identity(D) - (1 + 2 / N) * B.T * Lambda) * w)
@states("v at the origin", lambda: ((1 + 2 / N) * Lambda**2 + Trace(Lambda) * Lambda / N) * w)
@states("u at the origin", lambda: v_i * Trace(w * w.T * Lambda) * Lambda * w)
@erratum(r"The paper says that (39) and (40) break if task vectors are fixed; two moments of $\boldsymbol{w}$ decide")
def moving_laws() -> Lines:
    """The gradients at zero blocks, averaged over query and context only."""
    v, u = (E(-Gradient(ERROR, weight) / 2, given=w) for weight in (value_row, u_i))
    moved_v, moved_u = (expect(pull_at_zero(merged_expansion(), weight), given=(w,)) for weight in (value_row, u_i))
    origin, identity = {B: ZeroMatrix(D, D)}, {U_i: Identity(D)}
    yield from _slopes()
    yield Line(v, "=", moved_v, "The velocity (10) of the row, averaged over query and context", 4, "v")
    yield Line(u, "=", moved_u, "That of the column", 5, "u")
    yield Line(B, ":=", ZeroMatrix(D, D), "At the origin")
    yield Line(u, "=", substitute(moved_u, origin), "The column there", 5, "u at the origin")
    yield Line(U_i, ":=", Identity(D), "For one direction of the matrix")
    yield Line(v, "=", substitute(moved_v, origin | identity), "The row there", 4, "v at the origin")


@register("V6-leak", "How fast a finite training set moves the zero blocks")
@states(lambda: _leaks(*(Trace(Lambda**k) for k in range(1, 5))) | _white_leaks())
def finite_set() -> Lines:
    """The gradients of different sequences are independent and have mean zero, so the square of their mean is 1/P of that of one."""
    yield from _slopes()
    yield Line(U_i, ":=", Identity(D), r"A direction for $\boldsymbol{v}_i$")
    for suffix, map_, covariance in (("", ZeroMatrix(D, D), Lambda), (" white", b * Identity(D), lambda_ * Identity(D))):
        if suffix:
            yield Line(Lambda, ":=", covariance, "White tokens")
        yield Line(B, ":=", map_, "The map")
        for place, name, weight in ((4, "v", value_row), (5, "u", u_i)):
            slope, one = Gradient(ERROR, weight), substitute(pull_at_zero(merged_expansion(), weight), {B: map_, U_i: Identity(D)})
            square = substitute(expect((one.T * one).trace()), {Lambda: covariance})
            yield Line(E(slope), "=", 0, "The mean of the slope vanishes: the average over $P$ sequences has $1/P$ of its square", place)
            yield Line(E(slope.T * slope) / 4, "=", square, "The mean square of the velocity", place, name + suffix)


def _white_leaks():
    """The same for white tokens and the map b I, polynomials in b, for statements."""
    row = D**2 + 3 * D * N + 10 * D + N**2 + 9 * N + 24
    across = row + 6 * D + 4 * N + 22
    square = (D + N) ** 3 + (17 * D + 18 * N) * (D + N) + D * N * (D + N + 5) + 78 * D + 95 * N + 102
    corner = 1 - 2 * b * lambda_ * (1 + 4 / N) + b**2 * lambda_**2 * (1 + 4 / N) * (1 + (D + 5) / N)
    return {
        "v white": D * (D + 2) * lambda_**4 / N**2 * (row - 2 * b * lambda_ * across + b**2 * lambda_**2 * square / N),
        "u white": v_i**2 * D * (D + 2) ** 2 * (D + 4) * (1 + 2 / N) * lambda_**4 * corner,
    }


def _leaks(T, T2, T3, T4):
    """From E(x'x)^4, E[(x'x)^2 x' Lambda x] and E[x'x x' M x], and E(w' Lambda w)^3, for statements."""
    squares = T**4 + 12 * T**2 * T2 + 32 * T * T3 + 12 * T2**2 + 48 * T4
    with_context = T**2 * T2 + 2 * T2**2 + 4 * T * T3 + 8 * T4
    second = T * ((1 + 1 / N) * T3 + T * T2 / N) + 2 * ((1 + 1 / N) * T4 + T * T3 / N)
    tasks = T * (T**3 + 6 * T * T2 + 8 * T3) + 2 * (T**2 * T2 + 2 * T2**2 + 4 * T * T3 + 8 * T4)
    return {"v": second + 2 * with_context / N + squares / N**2, "u": v_i**2 * (1 + 2 / N) * tasks}
