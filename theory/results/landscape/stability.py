r"""T2: the Hessian at a fixed point in the weights of one head, waiting or active.

F is half the loss, so that the flow (10) is tau dW/dt = -dF/dW. All other heads enter through the first variation of their sum. At a
fixed point the effective map is Gamma, with M Gamma = Lambda P, see :mod:`~iclflow.theory.results.landscape.fixed_points`.
"""

from functools import cache

from mpmath import zeros
from sympy import Determinant, Matrix, Symbol, Trace, symbols

from ...algebra.polynomial import TracePolynomial
from ...calculus import hessian_form, rewrite, substitute, summand
from ...derivations import Gradient, Line, Lines, SecondVariation, given, register, states
from ...derivations.draws import ALONG, PROJECTOR, at, satisfying, unit_vector
from ...notation import B, B_rest, D, G, K_i, Lambda, M, P, Q_i, R, e, lambda_, matrix, v_i, vector
from ..separate.flow import effective_map, rank_R_head
from ..task.regression import closed_loss, population_error
from .conditions import WAITING, at_fixed_map
from .fixed_points import I_D, Gamma, moment_is, v_positive as value

F = Symbol("F", real=True)  # half the loss
delta_v = Symbol("delta_v", real=True)
delta_K = matrix("delta_K", D, R, latex=r"\delta\boldsymbol{K}_i")
delta_Q = matrix("delta_Q", D, R, latex=r"\delta\boldsymbol{Q}_i")
delta_B = matrix("delta_B", D, latex=r"\delta\boldsymbol{B}_{\neq i}")
end = Symbol("delta", positive=True)  # a small size
slot = vector("u", R)  # a unit vector of slots
c, x = symbols("c x", real=True)

EVERY_WEIGHT = {v_i: delta_v, K_i: delta_K, Q_i: delta_Q, B_rest: delta_B}


def _zero_maps(point) -> None:
    size, rank = point.size(D), point.size(R)
    point[K_i], point[Q_i], point[B_rest] = zeros(size, rank), zeros(size, rank), zeros(size)
    point[v_i], point[slot] = point[value], unit_vector(rank, point)


def _unseen(point) -> None:
    if point.rng.random() < 1 / 2:
        point[Q_i] = 0 * point[Q_i]


ZERO_MAPS = satisfying(
    r"$\boldsymbol{K}_{i} = \boldsymbol{Q}_{i} = 0$ in every head, $v_i = v > 0$ in one of them, and $\boldsymbol{u}$ is a unit vector of "
    "its slots",
    {K_i: 0 * K_i, Q_i: 0 * Q_i, B_rest: 0 * B_rest, v_i: value, slot.T * slot: 1},
    _zero_maps,
)


def half_loss() -> TracePolynomial:
    return closed_loss().result / 2


@cache
def head_form() -> TracePolynomial:
    """The second variation of F in the weights of one head, jointly with the first variation of the others' effective map."""
    whole = substitute(half_loss(), {B: effective_map(rank_R_head())})
    return hessian_form(whole, EVERY_WEIGHT)


def half_loss_lines() -> Lines:
    """F is half the population loss; with the moment M it is a polynomial in the weights of a head and the map of the others."""
    whole = effective_map(rank_R_head())
    closed = Trace(Lambda) / 2 - Trace(Lambda * whole * Lambda) + Trace(whole.T * M * whole * Lambda) / 2
    yield Line(population_error(whole) / 2, "=", closed, "Half the loss (9-closed), one head written out")
    yield Line(F, ":=", closed, "Call it")


def first_variation():
    return delta_B + delta_v * K_i * Q_i.T + v_i * delta_K * Q_i.T + v_i * K_i * delta_Q.T


@register("T2a", "Stability: the second variation of the loss in the weights of a head", section="beside (21), (81)")
@states("anywhere", lambda: (
    Trace(first_variation().T * M * first_variation() * Lambda)
    - 2 * delta_v * Trace(force_of_head().T * (delta_K * Q_i.T + K_i * delta_Q.T))
    - 2 * v_i * Trace(force_of_head().T * delta_K * delta_Q.T)
))  # fmt: skip
@states("fixed point", lambda: (
    Trace(first_variation().T * M * first_variation() * Lambda) - 2 * v_i * Trace(delta_K.T * Lambda * (I_D - P) * Lambda * delta_Q)
))  # fmt: skip
@given(PROJECTOR)
def second_variation() -> Lines:
    """Differentiate twice; at a fixed point the force does not see the span of the learned eigenvectors, where K and Q are."""
    there = substitute(head_form(), {B_rest: Gamma - v_i * K_i * Q_i.T})
    in_span = {P * Lambda * K_i: Lambda * K_i, P * Lambda * Q_i: Lambda * Q_i}
    form = SecondVariation(F, EVERY_WEIGHT)
    yield from half_loss_lines()
    yield Line(form, "=", head_form(), "Differentiate twice", part="anywhere")
    yield from at_fixed_map(rank_R_head())
    yield Line(P * Lambda * K_i, "=", Lambda * P * K_i, r"$\boldsymbol{P}$ commutes with $\boldsymbol{\Lambda}$")
    yield Line(P * Lambda * Q_i, "=", Lambda * P * Q_i, "For the queries too")
    at_rest = rewrite(there, {M * Gamma: Lambda * P} | in_span)
    yield Line(form, "=", at_rest,
               r"At a fixed point (81) where $\boldsymbol{P}$ keeps the keys and queries of every head: a square, and a "
               "term that only variations out of the span feel", ("81", -2, -1), "fixed point")  # fmt: skip
    yield Line(Line(v_i, "=", 0), "=>", Line(at_rest, ">=", 0), "So such a waiting head makes nothing negative", meets=(at(v_i, 0),))


def force_of_head():
    return Lambda**2 - M * effective_map(rank_R_head()) * Lambda


@register("T2f", "Stability: a waiting head that is not in the span makes a strict saddle", section="beside (21), (81)")
@states(lambda: delta_v**2 * Trace(Q_i * K_i.T * M * K_i * Q_i.T * Lambda) - 2 * c * delta_v * Trace(Q_i.T * omega() * omega() * Q_i))
@given(moment_is, WAITING)
def waiting_head() -> Lines:
    """The form (T2a) at v_i = 0 along a variation of the value weight and of the keys, along G Q."""
    unlearned = rewrite(substitute(head_form(), {v_i: 0, B_rest: Gamma}), {M * Gamma: Lambda * P})
    alone = substitute(unlearned, {delta_B: 0 * delta_B, delta_Q: 0 * delta_Q})
    along_force = substitute(alone, {delta_K: c * omega() * Q_i})
    moved = SecondVariation(F, {v_i: delta_v, K_i: c * G * Q_i})
    yield from half_loss_lines()
    yield from at_fixed_map(rank_R_head())
    yield Line(G, ":=", -Gradient(closed_loss().result, B) / 2, "The force, minus half the gradient of the loss")
    yield Line(SecondVariation(F, {v_i: delta_v, K_i: delta_K}), "=", alone,
               "The second variation at $v_{i} = 0$, if only the value weight and the keys move")  # fmt: skip
    yield Line(Gradient(moved, c), "=", -2 * delta_v * Trace(Q_i.T * G**2 * Q_i),
               r"If the keys move along $c\,\boldsymbol{G}\boldsymbol{Q}_i$ it has this slope in $c$")  # fmt: skip
    yield Line(Line(Trace(Q_i.T * G**2 * Q_i), ">", 0), "<=>", Line(G * Q_i, "!=", 0),
               r"So it is negative for large $c \, \delta v$ unless the force does not see the queries", meets=(_unseen,) * 2)  # fmt: skip
    yield Line(Gradient(SecondVariation(F, {v_i: delta_v, Q_i: c * G * K_i}), c), "=", -2 * delta_v * Trace(K_i.T * G**2 * K_i),
               "The same for queries that move with the keys")  # fmt: skip
    yield Line(moved, "=", along_force, "In the weights, if the keys move")


def omega():
    """The force (56) at a fixed point."""
    return Lambda * (I_D - P) * Lambda


@register("T2g", "Stability: zero maps with a nonzero value weight are strict saddles", section="beside (21), (81)")
@states("form", lambda: -2 * v_i * Trace(delta_K.T * Lambda**2 * delta_Q))
@states("eigenvalue", lambda: -value * lambda_**2)
@states("other eigenvalue", lambda: value * lambda_**2)
@given(ALONG, ZERO_MAPS)
def zero_maps() -> Lines:
    """The form (T2a) where all keys and queries are zero."""
    zero = substitute(head_form(), {K_i: 0 * K_i, Q_i: 0 * Q_i, B_rest: 0 * B_rest, delta_B: 0 * delta_B})
    k_d, q_d = symbols("k_d q_d", real=True)
    share = summand(zero, {delta_K: k_d, delta_Q: q_d, Lambda: lambda_}).subs(v_i, value)
    block = Matrix(2, 2, lambda row, column: share.diff((k_d, q_d)[row], (k_d, q_d)[column]) / 2)
    low, high = sorted(block.eigenvals(), key=lambda eigenvalue: eigenvalue.is_positive)
    moved = e * slot.T
    yield from half_loss_lines()
    yield Line(SecondVariation(F, {v_i: delta_v, K_i: delta_K, Q_i: delta_Q}), "=", zero,
               "The second variation with all keys and queries zero", part="form")  # fmt: skip
    yield Line(Determinant(block - x * Matrix.eye(2)), "=", (low - x) * (high - x),
               "The characteristic polynomial of its matrix for the key and the query of one slot along one eigenvector")  # fmt: skip
    yield Line(SecondVariation(F, {K_i: moved, Q_i: moved}) / 2, "=", low, "They move alike: the negative eigenvalue", part="eigenvalue")
    yield Line(SecondVariation(F, {K_i: moved, Q_i: -moved}) / 2, "=", high,
               "They move against each other: the positive one", part="other eigenvalue")  # fmt: skip
