r"""How fast the zero blocks grow on the plateau, and the mirror sector of the unreduced models (T4).

Near the origin tau v_i' = Lambda^2 u_i for the vectors beside tau U_i' = v_i Lambda^2 for the main weights: rates lambda_1^2 and the norm
of Lambda^2. With v_i = 0, U_i = 0 instead of zero blocks the model is beta' (sum_i v_i u_i') x_q, a separate model of rank one without
value weights: this set is invariant too, and has the fixed functions of the separate model.
"""

from functools import cache

from mpmath import eye, matrix
from sympy import Derivative, Symbol, Trace, ZeroMatrix, exp, log, simplify, solve

from ...algebra.polynomial import TracePolynomial
from ...calculus import collect, eigenvalue, gradient, rewrite, substitute
from ...derivations import Condition, E, Gradient, Line, Lines, Rate, erratum, given, note, register, states
from ...derivations.draws import ALONG, POSITIVE_DEFINITE, satisfying, singular_values
from ...expectation import expect
from ...notation import B, D, G, H, Lambda, M, a, e, gamma, k_i, lambda_, prediction, prediction_i, q_i, t, tau, v_i, vector, w_init, y_q
from ..task.regression import SECOND_MOMENT, force
from .blocks import U_i, merged_expansion, u_i, value_row
from .zero_block_loss import HALF, half_loss, scale
from .zero_blocks import ERROR, flow_where_zero

WEIGHTS = (value_row, u_i, v_i, U_i)
level = Symbol("b", real=True)  # the eigenvalue of B that belongs to e
negative = Symbol("index", integer=True, nonnegative=True)  # how many eigenvalues of the form are negative
size = Symbol("nu", positive=True)
_kappa = Symbol("kappa_i", real=True)
_p, _n = vector("p", D), vector("n", D)


@cache
def _of_order(order: int, head: TracePolynomial, weights: tuple) -> TracePolynomial:
    """The terms of the loss that are of this order in all weights of one head, the others at zero."""
    return collect(expect((y_q - substitute(head, {weight: scale * weight for weight in weights})) ** 2), scale)[order]


SMALL = Line(prediction, ":=", scale**2 * prediction_i, r"One head, all weights multiplied by $\epsilon$")


@register("T4-growth", "Growth of the zero blocks and of the main weights on the plateau", kind="approximation", section="Beside (49)")
@states("row", lambda: Lambda**2 * u_i)
@states("u", lambda: Lambda**2 * value_row)
@states("v", lambda: Trace(Lambda**2 * U_i))
@states("U", lambda: v_i * Lambda**2)
@states("row twice", lambda: Lambda**4 * value_row)
@states("v twice", lambda: Trace(Lambda**4) * v_i)
def growth() -> Lines:
    """The part of second order in all weights of the full loss, and its gradient; then the linear flow applied to itself."""
    loss = _of_order(2, merged_expansion(), WEIGHTS)
    flow = {weight: -gradient(loss, weight) / 2 for weight in WEIGHTS}
    small = {"uses": "C.1", "parameter": (scale, 0), "order": 2}
    yield SMALL
    yield HALF
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
    """How many eigenvalues of (0, -C; -C', 0) are negative: minus the singular values of C that are not zero."""
    return sum(one > 1e-20 for one in singular_values(coupling))


def _index(point) -> int:
    square = point[Lambda] ** 2
    return point[H] * (_negative(square) + _negative(matrix([list(square)])))


@register("T4-index", "Index of the origin of merged attention with all blocks", section="Beside (14a)")
@states("form", lambda: -v_i * Trace(Lambda**2 * U_i) - Trace(Lambda**2 * u_i * value_row.T))
@states("diagonal", lambda: _n.T * _n - _p.T * _p)
@states("index", lambda: H * (1 + D))
@given(
    POSITIVE_DEFINITE,
    Condition(
        r"$\mathrm{index}$ is the number of negative eigenvalues of the first form, over all heads",
        lambda point: point[negative] == _index(point),
        lambda point: point.__setitem__(negative, _index(point)),
    ),
)
def index_of_origin() -> Lines:
    """A difference of squares in the zero blocks of each head, beside the one of its main weights."""
    form = _of_order(2, merged_expansion(), WEIGHTS) / 2
    blocks = substitute(form, {v_i: 0})
    coordinates = {value_row: TracePolynomial(_p + _n), u_i: Lambda.I**2 * TracePolynomial(_p - _n)}
    yield SMALL
    yield Line(scale, ":=", 0, "The derivatives at the origin")
    yield Line(Gradient(Gradient(E(ERROR) / 2, scale), scale) / 2, "=", form, "Half the loss to second order in all weights", "C.1", "form")
    for weight, value in coordinates.items():
        yield Line(weight, ":=", value, "New coordinates of the zero blocks")
    yield Line(blocks, "=", substitute(blocks, coordinates), "Their part of the form is a difference of squares", part="diagonal")
    yield Line(negative, "=", H * (1 + D), "Negative directions of all heads", part="index")


@register("T4-leak", "Size of the zero blocks after the plateau, when they start at the same scale",
          kind="approximation", section="Beside (51)")  # fmt: skip
@states(lambda: w_init ** (1 - eigenvalue[1] ** 2 / gamma))
def leak() -> Lines:
    r"""Growth at the rate $\lambda_1^2/\tau$ for the length of the plateau."""
    rate = eigenvalue[1] ** 2
    grown, plateau = w_init * exp(rate * t / tau), tau / gamma * log(1 / w_init)
    yield Line(size, ":=", grown, r"The blocks start at $w_{\rm init}$")
    yield Line(tau * Derivative(size, t), "=", rate * size, "They grow as the fastest direction of (T4-growth)")
    later = grown.subs(t, plateau + tau) / grown.subs(t, plateau)
    yield Line(later, "=", exp(rate), r"A time $\tau$ more, as (51) leaves open, is a factor independent of $w_{\rm init}$")
    yield Line(t, ":=", plateau, "The length of the plateau (51)")
    yield Line(size, "=", simplify(grown.subs(t, plateau)), "The size at its end")


@register("T4-mirror", "The mirror sector of merged attention with all blocks", section="Beside (7)")
@states("v", lambda: 0)
@states("U", lambda: ZeroMatrix(D, D))
@states("row", lambda: (Lambda**2 - M * B * Lambda) * u_i)
@states("u", lambda: (Lambda**2 - Lambda * B.T * M) * value_row)
@given(r"$v_{j} = 0$ and $\boldsymbol{U}_{j} = 0$ in every head $j$")
def mirror_flow() -> Lines:
    """The flow of the unreduced model on the mirror sector: its vectors are a key and a query, and the other weights do not move."""
    parts = {weight: ("", part) for weight, part in zip((v_i, U_i, value_row, u_i), ("v", "U", "row", "u"), strict=True)}
    yield SECOND_MOMENT
    yield from flow_where_zero(merged_expansion(), "C.1", (v_i, U_i), parts)


def _mapped(point) -> None:
    along = point[e] * point[e].T
    across = eye(along.rows) - along
    point[B] = across * point[B] * across + point[level] * along


def _at_rest(point) -> None:
    point[level] = point[lambda_] / point[a]
    _mapped(point)


MAPPED = satisfying(
    r"$\boldsymbol{Be} = \boldsymbol{B}^\top\boldsymbol{e} = b\boldsymbol{e}$", {B * e: level * e, B.T * e: level * e}, _mapped
)
AT_REST = satisfying(r"$\boldsymbol{Ge} = 0$", {Lambda**2 * e: M * B * Lambda * e}, _at_rest)


@register("T4-functions", "Fixed functions of the mirror sector", section="Beside (7) and Section 3.2")
@states("force", lambda: (lambda_**2 - a * level * lambda_) * e)
@states("level", lambda: lambda_ / a)
@given(ALONG, MAPPED)
@erratum(r"Two fixed points are a property of $(\mathrm{M})$: with all blocks, (7) has at least the functions of as many rank-one heads.")
def mirror_functions() -> Lines:
    """The force on an eigenvector of Lambda and B, and the level at which it vanishes."""
    acted = rewrite(force() * e, {Lambda * e: lambda_ * e, M * e: a * e, B * e: level * e})
    (rest,) = solve(rewrite(e.T * acted, {e.T * e: 1}).to_sympy(), level)
    yield SECOND_MOMENT
    yield Line(G, "=", force(), "The force", "53")
    yield Line(G * e, "=", acted, "On an eigenvector", -1, "force")
    yield Line(level, "=", rest, "It vanishes at the level", part="level", conditions=(AT_REST,))
    yield Line(value_row, ":=", level * e, "A head with this vector")
    yield Line(u_i, ":=", e, "and this one")
    yield Line(value_row * u_i.T, "=", level * e * e.T, r"makes $\boldsymbol{B}$ on $\boldsymbol{e}$")
    for part in ("row", "u"):
        yield Line(mirror_flow().parts[part], "=", 0 * e, "Its velocity (T4-mirror) vanishes", conditions=(AT_REST,))


@register("T4-separate", "Separate attention of rank one does not tell its two channels apart", section="Beside Appendix E.1")
@states("third", lambda: -2 * (v_i * k_i.T + _kappa * value_row.T) * Lambda**2 * q_i)
@states("exchanged", lambda: -2 * (v_i * k_i.T + _kappa * value_row.T) * Lambda**2 * q_i)
@note(r"$\kappa_i$ is the scalar of the key")
def exchanged_channels() -> Lines:
    """The lowest order of the loss in all weights of a head, and the same with the two channels exchanged."""
    weights, swap = (v_i, k_i, q_i, _kappa, value_row), {v_i: _kappa, _kappa: v_i, k_i: value_row, value_row: k_i}
    head = substitute(merged_expansion(), {U_i: k_i * q_i.T, u_i: _kappa * q_i})
    third, small = _of_order(3, head, weights), {"parameter": (scale, 0), "order": 3}
    lowest = (E((y_q - scale**3 * head) ** 2) - Trace(Lambda)) / scale**3
    yield Line(U_i, ":=", k_i * q_i.T, "Rank one, as in (E.1)")
    yield Line(u_i, ":=", _kappa * q_i, "The block below")
    yield Line(prediction_i, "=", head, "The output of this head, cubic in its weights", "C.1")
    yield Line(prediction_i, "=", substitute(head, swap), "It is the same with the two channels exchanged", "C.1")
    yield Line(lowest, "~", third, r"All weights multiplied by $\epsilon$: the lowest order is the third", part="third", **small)
    yield Line(lowest, "~", substitute(third, swap), "It is the same with the channels exchanged", part="exchanged", **small)
