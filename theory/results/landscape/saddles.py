r"""T2, continued: strict and degenerate saddles, the time to leave them, and the global minimum."""

from typing import Any

from mpmath import eye, norm
from sympy import Derivative, Expr, Identity, Integral, Min, Symbol, Trace, diff, factor, ln, series

from ...calculus import along, gradient, over_directions, rewrite, substitute
from ...derivations import Condition, Gradient, Line, Lines, Rate, given, register, states
from ...derivations.draws import ALONG, satisfying, square_root
from ...notation import B, D, K_i, Lambda, M, P, Q_i, R, T, a, e, gamma, k_i, lambda_, matrix, q_i, symmetric_matrix, t, tau, v_i, w_init
from ..attention.blocks import U_i as U
from ..separate.flow import effective_map, rank_R_head
from ..task.population import PAPER
from ..task.regression import SECOND_MOMENT, closed_loss, population_error
from .any_quadratic_loss import M_root
from .fixed_points import Gamma
from .levels import FIXED_MAP
from .stability import end, half_loss

epsilon = Symbol("epsilon", positive=True)
u = Symbol("u", positive=True)
deviation = matrix("E", D)  # of the effective map from the best one
Lambda_root = symmetric_matrix("Lambda_h", D, latex=r"{\boldsymbol{\Lambda}^{1/2}}")


def _roots(point) -> None:
    for root, whole in ((M_root, M), (Lambda_root, Lambda)):
        point[root] = square_root(point, whole)


NORM = satisfying(
    r"$\gamma = \|\boldsymbol{\Lambda}^2\|$", {gamma**2: Trace(Lambda**4)}, lambda point: point.__setitem__(gamma, norm(point[Lambda] ** 2))
)
ROOTS = satisfying(
    r"$\boldsymbol{M}^{1/2}$ and $\boldsymbol{\Lambda}^{1/2}$ are positive roots", {M_root**2: M, Lambda_root**2: Lambda}, _roots
)
NOT_ALL = Condition("Not all is learned", lambda point: norm(point[P] - eye(point[P].rows)) > 1e-3)


@register("T2h", "Stability: the origin: a degenerate saddle for separate attention, a strict one for merged", section="beside (14a), (21)")
@states("separate", lambda: (
    Trace(Lambda) / 2 - epsilon**3 * Trace(Lambda * effective_map(rank_R_head()) * Lambda)
    + epsilon**6 / 2 * Trace(effective_map(rank_R_head()).T * M * effective_map(rank_R_head()) * Lambda)
))  # fmt: skip
@states("plateau", lambda: (
    Trace(Lambda) / 2 - Trace(Lambda * Gamma * Lambda) + Trace(Gamma * Lambda * P * Lambda) / 2
    - epsilon**3 * v_i * Trace(K_i.T * Lambda * (Identity(D) - P) * Lambda * Q_i)
    + epsilon**6 / 2 * v_i**2 * Trace(Q_i * K_i.T * M * K_i * Q_i.T * Lambda)
))  # fmt: skip
@states("merged", lambda: (
    Trace(Lambda) / 2 - epsilon**2 * Trace(Lambda * effective_map(v_i * U) * Lambda)
    + epsilon**4 / 2 * Trace(effective_map(v_i * U).T * M * effective_map(v_i * U) * Lambda)
))  # fmt: skip
@given(FIXED_MAP)
def origin() -> Lines:
    """All weights times epsilon: without a term in epsilon^2 the Hessian at the origin is zero."""
    separate, merged = rank_R_head(), v_i * U
    maps = (epsilon**3 * effective_map(separate), Gamma + epsilon**3 * separate, epsilon**2 * effective_map(merged))
    whole, waiting, strict = (substitute(half_loss(), {B: map_}) for map_ in maps)
    waiting = rewrite(waiting, {M * Gamma: Lambda * P})
    at_zero = Trace(Lambda) / 2
    at_plateau = substitute(waiting, {v_i: 0})
    errors = [population_error(map_) / 2 for map_ in maps]
    yield SECOND_MOMENT
    yield Line(errors[0], "=", whole,
               r"Half the loss, if all weights of separate attention, three in each product, are multiplied by $\epsilon$",
               part="separate")  # fmt: skip
    yield Line(errors[0], "~", at_zero,
               r"It begins to change at the third order: the Hessian at the origin is zero", parameter=(epsilon, 0), order=3)  # fmt: skip
    yield Line(M * Gamma, "=", Lambda * P, "At a later plateau, with the map (55)")
    yield Line(errors[1], "=", waiting,
               r"Half the loss, if the weights of one waiting head are multiplied by $\epsilon$", uses=-1, part="plateau")  # fmt: skip
    yield Line(errors[1], "~", at_plateau,
               r"The third order again; it changes its sign with $v_i$",
               uses=-2, parameter=(epsilon, 0), order=3, conditions=(NOT_ALL,))  # fmt: skip
    yield Line(errors[2], "=", strict, "Merged attention has two weights in a product", part="merged")
    yield Line(errors[2], "~", at_zero,
               r"It changes at the second order, which changes its sign with $v_i$: the Hessian has both signs",
               parameter=(epsilon, 0), order=2)  # fmt: skip


def escape_time(slowness: Expr) -> Integral:
    """The time to grow from w_init to delta, not carried out, for dt/du = slowness(u)."""
    return Integral(slowness, (u, w_init, end))


def flow_alone(head: Any, weights: tuple) -> tuple[dict, tuple[Line, ...]]:
    """tau dW/dt for the weights W of a head, all others being zero; and the lines that say so."""
    half = substitute(half_loss(), {B: head})
    rates = {weight: -gradient(half, weight) for weight in weights}
    reason = "The flow (10) of one head, the others being zero"
    return rates, tuple(Line(Rate(weight, rates), "=", -Gradient(population_error(head), weight) / 2, reason) for weight in weights)


@register("T2i", r"Stability: the time to leave the origin: $\ln(1/w_{\rm init})$ for merged attention, $1/w_{\rm init}$ for separate",
          kind="approximation", section="beside (51), (68)")  # fmt: skip
@states("merged", lambda: tau / gamma * ln(end / w_init))
@states("separate", lambda: tau / lambda_**2 * (1 / w_init - 1 / end))
@states("separate, next order", lambda: tau * a / (2 * lambda_**3) * (end**2 - w_init**2))
@given(ALONG, NORM)
def escape() -> Lines:
    """The flow of one head along the direction that grows first, for small weights, and the first term that this leaves out."""
    growing = u / gamma * Lambda**2
    merged, merged_lines = flow_alone(u * U, (u, U))
    separate, separate_lines = flow_alone(u * k_i * q_i.T, (u, k_i, q_i))
    along_e = {Lambda * e: lambda_ * e, M * e: a * e, e.T * e: 1}
    exact = rewrite(substitute(separate[u], {k_i: u * e, q_i: u * e}), along_e).to_sympy()
    leading = lambda_**2 * u**2
    slowness = series(1 / (exact / leading).expand(), u, 0, 4).removeO().expand()
    correction = tau * (slowness - 1) / leading
    rest = factor(tau / exact - tau / leading - correction)
    merged_time, separate_time = escape_time(tau / (gamma * u)), escape_time(tau / leading)
    yield from merged_lines
    yield Line(U, ":=", growing, "Merged attention along the direction that grows first, with value weight $u$")
    yield Line(Trace(Lambda**4), "=", gamma**2, "The square of the norm")
    yield Line(Rate(u, merged), "~", gamma * u, "For small weights the value weight grows at this rate", uses=-1, parameter=(u, 0), order=3)
    yield Line(Rate(U, merged), "~", gamma * U, "and so do the other weights, which keep their direction", parameter=(u, 0), order=3)
    yield Line(t, ":=", merged_time, r"The time that this takes from $w_{\rm init}$ to $\delta$")
    yield Line(t, "=", merged_time.doit().expand(force=True), "Carried out", part="merged")
    yield from separate_lines
    yield Line(k_i, ":=", u * e, "Separate attention on the aligned set (25): the key")
    yield Line(q_i, ":=", u * e, "and the query")
    yield Line(Rate(u, separate), "=", exact, "The rate of the value weight, equation (26)")
    yield Line(Rate(k_i, separate), "=", exact * e, "The key keeps its direction")
    yield Line(Rate(q_i, separate), "=", exact * e, "and the query")
    yield Line(exact, "~", leading, "For small weights", parameter=(u, 0), order=5)
    yield Line(t, ":=", separate_time, r"The time that this takes from $w_{\rm init}$ to $\delta$")
    yield Line(t, "=", separate_time.doit(), "Carried out", part="separate")
    yield Line(tau / exact, "=", tau / leading + correction + rest, "The slowness at the whole rate has one more term and a rest")
    yield Line(rest, "~", 0, "The rest is of a higher order", parameter=(u, 0), order=4)
    yield Line(t, ":=", escape_time(tau / leading + correction), "The time with both")
    yield Line(t - separate_time.doit(), "=", escape_time(correction).doit(), "What the second adds", part="separate, next order")


@register("T2j", "Stability: the loss is a square around its minimum: the best map of rank $R$ learns the first $R$ eigenvectors",
          section="beside (24)")  # fmt: skip
@states("square", lambda: Trace(Lambda) - Trace(Lambda**3 * M.I) + Trace(deviation.T * M * deviation * Lambda))
@states("singular value", lambda: lambda_**3 / a)
@given(ALONG, ROOTS)
def global_minimum() -> Lines:
    """Complete the square; the distance that is left is that of a map of low rank."""
    shifted = substitute(closed_loss().result, {B: M.I * Lambda + deviation})
    whitened, scaled = M_root * deviation * Lambda_root, M_root * M.I * Lambda * Lambda_root
    squared = along(M * (M.I * Lambda) * (M.I * Lambda) * Lambda, {M: a, Lambda: lambda_})
    written = lambda_**3 / PAPER.eigenvalue
    slope = factor(diff(written, lambda_))
    best = T - over_directions(squared, last=Min(D, R))
    yield Line(population_error(M.I * Lambda + deviation), "=", shifted, "The loss around its minimum over all maps", part="square")
    yield Line(Trace(deviation.T * M * deviation * Lambda), "=", Trace(whitened.T * whitened), "Its last term is a squared norm")
    yield Line(scaled.T * scaled * e, "=", squared * e,
               r"In that norm the best map has the eigenvectors of $\boldsymbol{\Lambda}$ as its right singular vectors")  # fmt: skip
    yield Line(e.T * scaled.T * scaled * e, "=", squared, "The squared singular value that belongs to it", part="singular value")
    yield Line(Derivative(written, lambda_), "=", slope, "It rises with the eigenvalue, for its slope is, as in (T1c)")
    yield Line(slope, ">", 0, "This is positive: the largest singular values are those of the first eigenvectors")
    yield Line(population_error(K_i * Q_i.T), ">=", best,
               r"So a map of rank $R$ has at least the loss (24) at $m = \min(D, R)$, by Eckart and Young")  # fmt: skip
