r"""How fast the zero blocks grow on the plateau, and the mirror sector of the unreduced models (T4).

Near the origin tau v_i' = Lambda^2 u_i for the vectors beside tau U_i' = v_i Lambda^2 for the main weights: rates lambda_1^2 and the norm
of Lambda^2. With v_i = 0, U_i = 0 instead of zero blocks the model is beta' (sum_i v_i u_i') x_q, a separate model of rank one without
value weights: this set is invariant too, and has the fixed functions of the separate model.
"""

from functools import cache

from mpmath import eigsy, matrix, mpf, zeros
from sympy import Derivative, Symbol, Trace, ZeroMatrix, exp, log, simplify, solve

from ...algebra.polynomial import TracePolynomial
from ...calculus import collect, eigenvalue, gradient, rewrite, substitute
from ...derivations import Condition, E, Gradient, Line, Lines, Rate, erratum, given, register, states
from ...derivations.draws import ALONG, POSITIVE_DEFINITE, satisfying
from ...expectation import expect
from ...notation import B, B_rest, D, G, H, Lambda, M, a, e, gamma, k_i, lambda_, prediction, q_i, t, tau, v_i, vector, w_init, y_q
from ..task.regression import SECOND_MOMENT, force
from .blocks import U_i, merged_expansion, u_i, value_row
from .zero_block_loss import HALF, full_loss, half_loss, scale
from .zero_blocks import flow_where_zero

WEIGHTS = (value_row, u_i, v_i, U_i)
level = Symbol("b", real=True)  # the eigenvalue of B that belongs to e
negative = Symbol("index", integer=True, nonnegative=True)  # how many eigenvalues of the form are negative
size = Symbol("nu", positive=True)
_kappa = Symbol("kappa_i", real=True)
_p, _n = vector("p", D), vector("n", D)


def _scaled(formula, weights: tuple):
    return substitute(formula, {weight: scale * weight for weight in weights})


@cache
def _quadratic_part() -> TracePolynomial:
    """The terms of the loss that are of second order in all weights of one head, the others at zero."""
    return collect(_scaled(substitute(full_loss(), {B_rest: ZeroMatrix(D, D)}), WEIGHTS), scale)[2]


def _small_head() -> tuple[Line, Line]:
    return (Line(prediction, ":=", _scaled(merged_expansion(), WEIGHTS), r"One head (C.1), all weights multiplied by $\epsilon$"), HALF)


@register("T4-growth", "Growth of the zero blocks and of the main weights on the plateau", kind="approximation", section="Beside (49)")
@states("row", lambda: Lambda**2 * u_i)
@states("u", lambda: Lambda**2 * value_row)
@states("v", lambda: Trace(Lambda**2 * U_i))
@states("U", lambda: v_i * Lambda**2)
@states("row twice", lambda: Lambda**4 * value_row)
@states("v twice", lambda: Trace(Lambda**4) * v_i)
@given(
    "To first order in all weights; the next terms are of third order",
    r"So the main weights grow at the rate of the Frobenius norm of $\boldsymbol{\Lambda}^{2}$, the zero "
    r"blocks at most at $\lambda_{1}^{2}$, over $\tau$",
)
def growth() -> Lines:
    """The part of second order in all weights of the full loss, and its gradient; then the linear flow applied to itself."""
    flow = {weight: -gradient(_quadratic_part(), weight) / 2 for weight in WEIGHTS}
    small = {"parameter": (scale, 0), "order": 2}
    yield from _small_head()
    for (weight, rate), name, part in zip(
        flow.items(),
        ("vector in the value matrix", "vector in the key-query matrix", "value weight", "key-query matrix"),
        ("row", "u", "v", "U"),
        strict=True,
    ):
        yield Line(-Gradient(half_loss, weight) / scale**2, "~", rate, rf"The flow (10) of the {name}, over $\epsilon$", part=part, **small)
    for weight, name, part in ((value_row, "zero blocks", "row twice"), (v_i, "main weights", "v twice")):
        yield Line(Rate(Rate(weight, flow), flow), "=", substitute(flow[weight], flow), f"The linear flow of the {name} twice", part=part)


def _negative(coupling) -> int:
    """How many eigenvalues of (0, -C; -C', 0) are negative."""
    rows, columns = coupling.rows, coupling.cols
    whole = zeros(rows + columns)
    whole[:rows, rows:], whole[rows:, :rows] = -coupling, -coupling.T
    return sum(one < -mpf("1e-20") for one in eigsy(whole, eigvals_only=True))


def _count(point) -> None:
    square = point[Lambda] ** 2
    point[negative] = point[H] * (_negative(square) + _negative(matrix([list(square)])))


@register("T4-index", "Index of the origin of merged attention with all blocks", section="Beside (14a)")
@states("form", lambda: -v_i * Trace(Lambda**2 * U_i) - Trace(Lambda**2 * u_i * value_row.T))
@states("diagonal", lambda: _n.T * _n - _p.T * _p)
@states("index", lambda: H * (1 + D))
@given(
    POSITIVE_DEFINITE,
    Condition(
        r"$\mathrm{index}$ is the number of negative eigenvalues of the first form, over all heads: each has one negative direction in "
        "its main weights (14-index) and $D$ in its zero blocks",
        None,
        _count,
    ),
    r"The form is the second order of half the loss in the weights of one head; heads add",
)
def index_of_origin() -> Lines:
    """A difference of squares in the zero blocks of each head, beside the one of its main weights."""
    form = _quadratic_part() / 2
    blocks = substitute(form, {v_i: 0})
    coordinates = {value_row: TracePolynomial(_p + _n), u_i: Lambda.I**2 * TracePolynomial(_p - _n)}
    yield from _small_head()
    yield Line(scale, ":=", 0, "The derivatives at the origin")
    yield Line(Gradient(Gradient(half_loss, scale), scale) / 2, "=", form, "Half the loss to second order in all weights", part="form")
    for weight, value in coordinates.items():
        yield Line(weight, ":=", value, "New coordinates of the zero blocks")
    yield Line(blocks, "=", substitute(blocks, coordinates), "Their part of the form is a difference of squares", part="diagonal")
    yield Line(negative, "=", H * (1 + D), "Negative directions of all heads", part="index")


@register("T4-leak", "Size of the zero blocks after the plateau, when they start at the same scale",
          kind="approximation", section="Beside (51)")  # fmt: skip
@states(lambda: w_init ** (1 - eigenvalue[1] ** 2 / gamma))
@given(
    r"$\nu$ is the size of the zero blocks; $\gamma$ is the Frobenius norm of $\boldsymbol{\Lambda}^{2}$; the plateau (51) ends at "
    r"$\tau/\gamma \ln(1/w_{\rm init})$ up to a time independent of $w_{\rm init}$",
    r"So up to a factor independent of $w_{\rm init}$; for one dominant eigenvalue the blocks hardly shrink with $w_{\rm init}$",
)
def leak() -> Lines:
    r"""Growth at the rate $\lambda_1^2/\tau$ for the length of the plateau."""
    rate = eigenvalue[1] ** 2
    grown, plateau = w_init * exp(rate * t / tau), tau / gamma * log(1 / w_init)
    yield Line(size, ":=", grown, r"The blocks start at $w_{\rm init}$")
    yield Line(tau * Derivative(size, t), "=", rate * size, "They grow as the fastest direction of (T4-growth)")
    yield Line(t, ":=", plateau, "The length of the plateau (51)")
    yield Line(size, "=", simplify(grown.subs(t, plateau)), "The size at its end")


@register("T4-mirror", "The mirror sector of merged attention with all blocks", section="Beside (7)")
@states("v", lambda: 0)
@states("U", lambda: ZeroMatrix(D, D))
@states("row", lambda: (Lambda**2 - M * B * Lambda) * u_i)
@states("u", lambda: (Lambda**2 - Lambda * B.T * M) * value_row)
@given(
    r"$v_{j} = 0$ and $\boldsymbol{U}_{j} = 0$ in every head, so that $\boldsymbol{B}$ is the sum of "
    r"$\boldsymbol{v}_j \boldsymbol{u}_{j}^{\top}$ over all heads"
)
def mirror_flow() -> Lines:
    """The flow of the unreduced model on the mirror sector: its vectors are a key and a query, and the other weights do not move."""
    parts = {weight: ("", part) for weight, part in zip((v_i, U_i, value_row, u_i), ("v", "U", "row", "u"), strict=True)}
    yield SECOND_MOMENT
    yield from flow_where_zero(merged_expansion(), "C.1", (v_i, U_i), parts)


def _mapped(point) -> None:
    point[B] = point[B] + (point[level] * point[e] - point[B] * point[e]) * point[e].T


def _at_rest(point) -> None:
    point[level] = point[lambda_] / point[a]
    _mapped(point)


MAPPED = satisfying(r"$b$ is the eigenvalue of $\boldsymbol{B}$ that belongs to $\boldsymbol{e}$", {B * e: level * e}, _mapped)
AT_REST = satisfying(r"$\boldsymbol{Ge} = 0$", {Lambda**2 * e: M * B * Lambda * e}, _at_rest)


@register("T4-functions", "Fixed functions of the mirror sector", section="Beside (7) and Section 3.2")
@states("force", lambda: (lambda_**2 - a * level * lambda_) * e)
@states("level", lambda: lambda_ / a)
@given(
    ALONG,
    MAPPED,
    r"A head with both vectors equal to $\sqrt{b}\,\boldsymbol{e}$ rests if $\boldsymbol{Ge} = 0$",
    r"One head for each $d$ in $S$, and the others zero: with $H \ge D$ all $2^{D}$ functions of the separate model are fixed",
)
@erratum(r"Two fixed points are a property of $(\mathrm{M})$: with all blocks, (7) has at least the fixed functions of the separate model.")
def mirror_functions() -> Lines:
    """The force on an eigenvector of Lambda and B, and the level at which it vanishes."""
    acted = rewrite(force() * e, {Lambda * e: lambda_ * e, M * e: a * e, B * e: level * e})
    (rest,) = solve(rewrite(e.T * acted, {e.T * e: 1}).to_sympy(), level)
    yield SECOND_MOMENT
    yield Line(G, "=", force(), "The force", "53")
    yield Line(G * e, "=", acted, "On an eigenvector", -1, "force")
    yield Line(level, "=", rest, "It vanishes at the level", part="level", conditions=(AT_REST,))


@register("T4-separate", "Separate attention of rank one does not tell its two channels apart", section="Beside Appendix E.1")
@states("third", lambda: -2 * (v_i * k_i.T + _kappa * value_row.T) * Lambda**2 * q_i)
@states("exchanged", lambda: -2 * (v_i * k_i.T + _kappa * value_row.T) * Lambda**2 * q_i)
@given(
    r"Rank one, $\kappa_i$ the scalar of the key; lowest order in the weights, the next is the sixth; heads add",
    r"The output of a head is the same with $(v_i, \boldsymbol{k}_i)$ and $(\kappa_i, \boldsymbol{v}_i)$ exchanged, so every order is",
)
def exchanged_channels() -> Lines:
    """The lowest order of the loss in all weights of a head, and the same with the two channels exchanged."""
    weights, swap = (v_i, k_i, q_i, _kappa, value_row), {v_i: _kappa, _kappa: v_i, k_i: value_row, value_row: k_i}
    head = _scaled(substitute(merged_expansion(), {U_i: k_i * q_i.T, u_i: _kappa * q_i}), weights)
    third, small = collect(expect((y_q - head) ** 2), scale)[3], {"parameter": (scale, 0), "order": 3}
    lowest = (E((y_q - prediction) ** 2) - Trace(Lambda)) / scale**3
    yield Line(prediction, ":=", head, r"One head (E.1), all weights multiplied by $\epsilon$")
    yield Line(lowest, "~", third, "The lowest order is the third", part="third", **small)
    yield Line(prediction, ":=", substitute(head, swap), "The channels exchanged: the output is the same")
    yield Line(lowest, "~", substitute(third, swap), "The same", part="exchanged", **small)
