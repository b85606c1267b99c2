r"""How steeply the loss curves at the fixed points of minimal norm, so that a step is stable there (V8-stable).

The curvatures are the eigenvalues of the Hessian of F = L/2. Descent on L is stable along one of them for eta kappa < 1, heavy ball for
eta kappa < 1 + mu (V8-modified). At a saddle the negative ones are the ways out; the largest still bounds the step.
"""

from typing import Any

from mpmath import cbrt, mpf, norm, sqrt as root_of, zeros
from sympy import Determinant, ImmutableMatrix, Rational, Symbol, Trace, ZeroMatrix, cancel, eye, factor, sqrt, symbols

from ...calculus import rewrite, substitute
from ...derivations import Condition, Gradient, Line, Lines, Rate, SecondVariation, carried_out, given, note, register, states
from ...derivations.draws import along_each, commuting, eigenbasis, satisfying, second_moment
from ...derivations.points import as_arb
from ...notation import B, B_rest, D, Lambda, M, e, gamma, k_i, matrix, q_i, s, v, v_i, vector
from ..landscape.stability import F, half_loss
from ..task.regression import SECOND_MOMENT, population_error
from .finite_steps import kappa

lambda_d, lambda_j, b_d, b_j, r_d, r_j = symbols("lambda_d lambda_j b_d b_j r_d r_j", positive=True)
kappa_less = Symbol("kappa_-", real=True)
e_j, v_j, k_j, q_j = vector("e_j", D), Symbol("v_j", real=True), vector("k_j", D), vector("q_j", D)
U, X, x = matrix("U", D), matrix("X", D), Symbol("x", real=True)
HEADS, MERGED = v_i * k_i * q_i.T + v_j * k_j * q_j.T + B_rest, v * U
SIZE = sqrt(b_d**2 + b_j**2)  # of the map at the global minimum of merged attention
AS_EIGENVECTORS = {
    Lambda * e: lambda_d * e, M * e: lambda_d / b_d * e, e.T * e: 1,
    Lambda * e_j: lambda_j * e_j, M * e_j: lambda_j / b_j * e_j, e_j.T * e_j: 1, e.T * e_j: 0,
}  # fmt: skip


def _draw_heads(point, second) -> None:
    """Directions d and j, the head of d, that of j if it is ``second``, and the map of some of the other directions."""
    values, vectors = eigenbasis(point)
    second_moment(point)
    levels = [value / moment for value, moment in zip(values, along_each(vectors, M, point), strict=True)]
    pair = point.rng.sample(range(len(values)), 2)
    heads = ((1, e, lambda_d, b_d, v_i, k_i, q_i), (second, e_j, lambda_j, b_j, v_j, k_j, q_j))
    for i, (learned, direction, eigenvalue, level, value, key, query) in zip(pair, heads, strict=True):
        point[direction], point[eigenvalue], point[level] = vectors[i], values[i], levels[i]
        point[value] = learned * cbrt(levels[i])
        point[key] = point[query] = vectors[i] * as_arb(point[value])
    point[B_rest] = commuting(vectors, [0 if i in pair else level * point.rng.randrange(2) for i, level in enumerate(levels)])


def _condition(text: str, second: int) -> dict:
    learned = AS_EIGENVECTORS | {v_i**3: b_d, v_j**3: second * b_j, k_i: v_i * e, B_rest * e_j: 0 * e_j}
    return {"conditions": (satisfying(text, learned, lambda point: _draw_heads(point, second)),)}


TWO = _condition(r"Directions $d$ and $j$ are learned, of unit eigenvectors $\boldsymbol{e}$, $\boldsymbol{e}_j$; $b_d=\lambda_d/a_d$", 1)
ONE = _condition(r"Direction $d$ is learned, $j$ is not: its head is zero", 0)


def change(weight: Any, moves: dict) -> Any:
    return Rate(Gradient(F, weight), moves)


def _change(form: Any, weight: Any, moves: dict, at: dict, *along: Any) -> Any:
    """How the gradient of F in a weight changes, along a row and a column, as the weights move from a fixed point."""
    change = carried_out(Rate(Gradient(substitute(half_loss(), {B: form}), weight), moves))
    row, column = (*along, 1, 1)[:2]
    return factor(rewrite(row * substitute(change, at) * column, AS_EIGENVECTORS).to_sympy())


def _loss_lines(form: Any) -> tuple[Line, ...]:
    closed = substitute(half_loss(), {B: form})
    return SECOND_MOMENT, Line(F, ":=", population_error(form) / 2, "Half the loss"), Line(F, "=", closed, "(9-closed)")


@register("V8-stable", "The curvatures of separate attention at its fixed points of minimal norm")
@states("head", lambda: 3 * lambda_d**2 * b_d ** Rational(1, 3))
@states("pair", lambda: lambda_d * lambda_j / b_d * (b_d ** Rational(4, 3) + b_j ** Rational(4, 3)))
@states("unlearned", lambda: (
    lambda_j * b_d ** Rational(1, 3) * (lambda_d * (1 + b_d / b_j) / 2 + sqrt(lambda_d**2 * (1 - b_d / b_j) ** 2 / 4 + lambda_j**2))
))  # fmt: skip
@states("unlearned, smaller", lambda: (
    lambda_j * b_d ** Rational(1, 3) * (lambda_d * (1 + b_d / b_j) / 2 - sqrt(lambda_d**2 * (1 - b_d / b_j) ** 2 / 4 + lambda_j**2))
))  # fmt: skip
@given(r"Rank one, each learned direction in one head of minimal norm, $v = \boldsymbol{k} = \boldsymbol{q}$, the other heads zero")
@note("Head: $d$ is learned; pair: $d$ and $j$ are; unlearned: $d$ is and $j$ is not")
def separate_curvatures() -> Lines:
    """The weights move along an eigenvector of the Hessian: the gradient of F changes by the eigenvalue times that vector."""
    both = {B_rest: ZeroMatrix(D, D), v_i: r_d, k_i: r_d * e, q_i: r_d * e, v_j: r_j, k_j: r_j * e_j, q_j: r_j * e_j}
    alone = both | {v_j: 0, k_j: ZeroMatrix(D, 1), q_j: ZeroMatrix(D, 1)}
    grow, across = {v_i: 1, k_i: e, q_i: e}, {q_i: v_i**2 * e_j, k_j: v_j**2 * e}
    cubes, roots = {b_d: r_d**3, b_j: r_j**3}, {r_d: b_d ** Rational(1, 3), r_j: b_j ** Rational(1, 3)}
    head = _change(HEADS, v_i, grow, both).subs(cubes)
    pair = _change(HEADS, k_j, {q_i: r_d**2 * e_j, k_j: r_j**2 * e}, both, e.T / r_j**2).subs(b_d, r_d**3)
    of_key, of_query, coupled = (
        _change(HEADS, weight, {moved: e_j}, alone, e_j.T).subs(cubes) for weight, moved in ((k_i, k_i), (q_i, q_i), (k_i, q_i))
    )
    larger = (of_key + of_query) / 2 + sqrt((of_key - of_query) ** 2 / 4 + coupled**2)
    rest = factor(of_key * of_query - coupled**2)
    turn = {k_i: coupled * e_j, q_i: (kappa - of_key) * e_j}
    yield from _loss_lines(HEADS)
    yield Line(r_d, ":=", roots[r_d], "The value of head $d$")
    yield Line(r_j, ":=", roots[r_j], "and that of head $j$ if it has learned")
    yield Line(Gradient(F, k_i), "=", 0, "If both are learned the gradient vanishes", **TWO)
    yield Line(Gradient(F, k_i), "=", 0, "and if only $d$ is", **ONE)
    yield Line(change(v_i, grow), "=", head.subs(roots),
               r"If head $d$ moves at the rates $(1, \boldsymbol{e}, \boldsymbol{e})$, that in its value moves at",
               (), "head", **TWO)  # fmt: skip
    for weight in (k_i, q_i):
        yield Line(change(weight, grow), "=", head * e, "and that in its key and its query alike", **TWO)
    yield Line(e.T * change(k_j, across) / v_j**2, "=", pair.subs(roots),
               r"If the query of $d$ moves at the rate $v_i^2\boldsymbol{e}_j$ and the key of $j$ at $v_j^2\boldsymbol{e}$, along the "
               "gradient of entry $(d, j)$ of the map, then", (), "pair", **TWO)  # fmt: skip
    yield Line(change(k_j, across), "=", pair * v_j**2 * e, "So the gradient in the key of $j$ moves along that rate", **TWO)
    yield Line(change(q_i, across), "=", pair * v_i**2 * e_j, "as does the one in the query of $d$, by the same factor", **TWO)
    yield Line(change(v_i, across), "=", 0, "The value is not coupled", **TWO)
    yield Line(change(k_i, {k_i: e_j}), "=", of_key * e_j,
               r"If $j$ is not learned and the key of $d$ moves at the rate $\boldsymbol{e}_j$, the gradient in it moves at",
               **ONE)  # fmt: skip
    yield Line(change(q_i, {k_i: e_j}), "=", coupled * e_j, "and that in the query at", **ONE)
    yield Line(change(q_i, {q_i: e_j}), "=", of_query * e_j, "If the query moves instead, the gradient in it moves at", **ONE)
    yield Line(kappa, ":=", larger, "The larger eigenvalue of the matrix of these numbers")
    yield Line(change(k_i, turn), "=", kappa * coupled * e_j, "If both move along its eigenvector, that in the key moves at", **ONE)
    yield Line(change(q_i, turn), "=", kappa * (kappa - of_key) * e_j, "and that in the query at", **ONE)
    yield Line(change(v_i, turn), "=", 0, "The value is not coupled", **ONE)
    yield Line(kappa, "=", factor(larger).subs(roots), "That is", part="unlearned")
    yield Line(kappa_less, ":=", of_key + of_query - kappa, "The smaller one")
    yield Line(kappa_less, "=", factor(of_key + of_query - larger).subs(roots), "That is", part="unlearned, smaller")
    yield Line(kappa * kappa_less, "=", rest, "The product of the two has the sign of the last factor")
    yield Line(Line(kappa_less, "<", 0), "<=>", Line(b_d * lambda_d**2 / b_j, "<", lambda_j**2),
               "So the smaller one is negative, and $j$ a way out, if and only if", meets=(_way_out, _way_out))  # fmt: skip


def _way_out(point) -> None:
    point[lambda_j] = point[lambda_d] * root_of(point[b_d] / point[b_j]) * (1 + mpf(point.rng.random()))


def _draw_minimum(point) -> None:
    if point[D] != 2:
        raise ValueError("two directions")
    _draw_heads(point, 1)
    point[v] = root_of(norm([point[b_d], point[b_j]]))
    point[U] = (point[b_d] * point[e] * point[e].T + point[b_j] * point[e_j] * point[e_j].T) / point[v]


def _draw_zero(point) -> None:
    point[v], point[U] = mpf(0), zeros(point[D])


ZERO = {"conditions": (Condition("All weights are zero", lambda point: point[v] == 0, _draw_zero),)}
AT_MINIMUM = Condition(
    r"Balanced weights at the global minimum, with unit eigenvectors $\boldsymbol{e}$ and $\boldsymbol{e}_j$; $D = 2$",
    lambda point: point[D] == 2 and norm(point[M] * point[v] * point[U] - point[Lambda]) < mpf("1e-20"),
    _draw_minimum,
)
MINIMUM = {"conditions": (AT_MINIMUM,)}


@register("V8-stable-merged", "The curvatures of merged attention at zero and at its balanced minimum")
@states("zero", lambda: sqrt(lambda_d**4 + lambda_j**4))
@states("entry", lambda: SIZE * lambda_d * lambda_j / b_d)
@states("diagonal", lambda: (
    kappa**2 - kappa * (SIZE * (lambda_d**2 / b_d + lambda_j**2 / b_j) + (lambda_d**2 * b_d + lambda_j**2 * b_j) / SIZE)
    + 2 * lambda_d**2 * lambda_j**2 * SIZE**2 / (b_d * b_j)
))  # fmt: skip
@given("All weights in one head, as a rotation of the heads makes of balanced ones")
@note("Entry: an entry $(d, j)$ off the diagonal of the map; diagonal: the two along diagonal maps")
def merged_curvatures() -> Lines:
    """The weights of one head move; at the minimum along an entry of the map, and along the diagonal maps."""
    minimum = {U: (b_d * e * e.T + b_j * e_j * e_j.T) / v}
    axes = ((v, {v: 1}, 1, 1), (U, {U: e * e.T}, e.T, e), (U, {U: e_j * e_j.T}, e_j.T, e_j))
    entry = _change(MERGED, U, {U: e * e_j.T}, minimum, e.T, e_j).subs(v, sqrt(s))
    block = ImmutableMatrix(3, 3, lambda i, j: _change(MERGED, axes[i][0], axes[j][1], minimum, *axes[i][2:]).subs(v, sqrt(s)))
    polynomial = cancel((kappa * eye(3) - block).det() / kappa)
    flat = carried_out(SecondVariation(substitute(half_loss(), {B: MERGED}), {v: x, U: X}))
    flat = substitute(flat, {v: 0, U: ZeroMatrix(D, D)})
    out = {v: 1, U: -(Lambda**2) / gamma}
    yield from _loss_lines(MERGED)
    yield Line(gamma, ":=", sqrt(Trace(Lambda**4)), r"The norm of $\boldsymbol{\Lambda}^2$")
    yield Line(SecondVariation(F, {v: x, U: X}), "=", flat, "At zero, the second variation", **ZERO)
    yield Line(flat, "<=", gamma * (x**2 + Trace(X.T * X)), "It is at most this multiple of the squares")
    yield Line(change(v, out), "=", gamma,
               r"If the weights move at the rates $(1, -\boldsymbol{\Lambda}^2/\gamma)$, the gradient in the value moves at",
               **ZERO)  # fmt: skip
    yield Line(change(U, out), "=", gamma * out[U], "and the other one as the weights, by the same factor", **ZERO)
    yield Line(gamma, "=", sqrt(lambda_d**4 + lambda_j**4), "So the largest eigenvalue is, for two directions", (), "zero", **MINIMUM)
    yield Line(s, ":=", SIZE, r"The norm of the map at the minimum, where $\boldsymbol{U}$ is the map over $\sqrt s$")
    yield Line(Gradient(F, v), "=", 0, "The gradient vanishes there", **MINIMUM)
    yield Line(Gradient(F, U), "=", ZeroMatrix(D, D), "in all weights", **MINIMUM)
    yield Line(e.T * change(U, {U: e * e_j.T}) * e_j, "=", entry.subs(s, SIZE),
               "If an entry off the diagonal moves at the rate 1, its gradient moves at", (), "entry", **MINIMUM)  # fmt: skip
    yield Line(change(U, {U: e * e_j.T}), "=", entry * e * e_j.T, "and that in no other entry moves", **MINIMUM)
    yield Line(change(v, {U: e * e_j.T}), "=", 0, "nor that in the value", **MINIMUM)
    yield Line(change(v, {v: 1}), "=", block[0, 0], "If the value moves at the rate 1, the gradient in it moves at", **MINIMUM)
    yield Line(change(U, {v: 1}), "=", block[1, 0] * e * e.T + block[2, 0] * e_j * e_j.T, "and that in the diagonal at", **MINIMUM)
    yield Line(change(U, {U: e * e.T}), "=", block[1, 1] * e * e.T,
               "If a diagonal entry moves, the gradient in the map moves at", **MINIMUM)  # fmt: skip
    yield Line(change(U, {U: e_j * e_j.T}), "=", block[2, 2] * e_j * e_j.T, "If the other one moves", **MINIMUM)
    yield Line(Determinant(kappa * eye(3) - block) / kappa, "=", polynomial.subs(s, SIZE),
               r"The characteristic polynomial of these numbers over $\kappa$, zero at the other two eigenvalues",
               part="diagonal")  # fmt: skip
