r"""How far the five weights are from all heads (V6-error): what else grows before the first drop, and what it does to map and loss.

Near the origin every head is a sum of pairs that grow at different rates; the five weights keep the first. What another pair has grown to
then is the error of the map, and of the loss where the pair is symmetric. Out of the symmetric form the loss has no slope.
"""

from sympy import Symbol, exp, log, powsimp

from ...calculus import collect, gradient, substitute
from ...derivations import E, Gradient, Line, Lines, Rate, given, note, register, states
from ...notation import N, e, lambda_, prediction_i, t, tau, v_i, w_init, y_q
from ..attention.blocks import U_i, u_i, value_row
from ..attention.zero_block_loss import U_j, row_j, u_j
from . import five_weights as five
from .population_loss import mixed_tasks, portion

SIGMA_1, SIGMA_K = Symbol("sigma_1", positive=True), Symbol("sigma_k", positive=True)
_F, _F_j = Symbol("F", real=True), Symbol("F_j", real=True)  # the forms of a symmetric head and of one that turns
_share = Symbol("eta", positive=True)  # of another pair, beside the first
_small = Symbol("epsilon", positive=True)
_POWER = SIGMA_K / SIGMA_1


@register("V6-error", "The error of the five weights, in powers of the initial scale", kind="approximation")
@states("row", lambda: lambda_**4 * (five.growth_products()[0] * five.ROW + five.growth_products()[2] * v_i))
@states("corner", lambda: lambda_**4 * (five.growth_products()[2] * five.ROW + five.growth_products()[1] * v_i))
@states("across", lambda: lambda_**4 * (portion**2 + (1 - portion) ** 2 * five.LENGTH**2 * ((1 + 1 / N) ** 2 + 1 / N**2)) * five.ROW)
@states("map", lambda: w_init ** (1 - _POWER))
@states("loss", lambda: w_init ** (1 - _POWER))
@states("loss across", lambda: w_init ** (2 * (1 - _POWER)))
@given(five.TASKS, five.FRAME, r"All weights start at the scale $w_{\rm init}$")
@note(
    r"$\sigma_1$ is the larger singular value of $\boldsymbol{\Gamma}$, $\sigma_k$ the smaller one, or for a pair that turns the root of "
    "the factor in (across)",
    r"The last three are relative errors, up to factors that do not depend on $w_{\rm init}$",
)
def error_of_five_weights() -> Lines:
    """The linear flow in both sectors, the lead of the first pair when it has grown, and what is left of it in map and loss."""
    symmetric, turning = (five.growth_form(symmetric=one).to_sympy() for one in (True, False))
    rates = {weight: gradient(symmetric, weight) / size for weight, size in five.SHARED.items()}
    turned = {weight: gradient(turning, weight) for weight in five.FIVE if weight != v_i}  # f e' and e f' are one weight each
    alone = five.five_weight_loss("training")
    loss, map_ = E((y_q - prediction_i) ** 2, mixed_tasks), v_i * U_i + value_row * u_i.T
    near, at_zero = (alone.xreplace({weight: scale * weight for weight in five.FIVE}) for scale in (_small, 0))
    across = {block: five.SYMMETRIC[block] + _share * five.TURNING[other] for block, other in ((value_row, row_j), (u_i, u_j), (U_i, U_j))}
    before, first, *_ = collect(substitute(map_, across), _share).values()
    twice = {
        part: Rate(Rate(weight, of), of)
        for part, weight, of in (("row", five.ROW, rates), ("corner", v_i, rates), ("across", five.ROW, turned))
    }
    reached = -tau * log(w_init) / SIGMA_1
    lead = powsimp(w_init * exp(SIGMA_K * reached / tau))
    yield from five.ORTHONORMAL
    yield from five.WHITE
    yield Line(_F, ":=", symmetric, "The form of a symmetric head, (V6-escape)")
    yield Line(near, "~", at_zero - 2 * _small**2 * _F, "The loss near zero", parameter=(_small, 0), order=4)
    for one, size in five.SHARED.items():
        yield Line(Rate(one, rates), "=", Gradient(_F, one) / size, "The flow (10) near zero")
    yield Line(_F_j, ":=", turning, "The form of a head that turns, (V6-escape)")
    for one in turned:
        yield Line(Rate(one, turned), "=", Gradient(_F_j, one), "The flow near zero of a head that turns")
    for part, two in twice.items():
        yield Line(two, "=", two.apply(), "The linear flow twice, of a row or a corner", part=part)
    yield from five.named(five.SYMMETRIC | {value_row: (five.ROW + _share) * e}, "A symmetric pair beside the first")
    yield Line(loss, "->", alone, "It changes the loss in first order", ("C.1", 0), parameter=(_share, 0), order=1)
    yield Line(map_, "->", substitute(map_, five.SYMMETRIC), "and the map in first order", parameter=(_share, 0), order=1)
    yield from five.named(across, "A pair that turns beside the first")
    yield Line(loss, "->", alone, "It changes the loss in second order", ("C.1", 0, 1, 2), parameter=(_share, 0), order=2)
    yield Line(map_, "~", before + _share * first, "and the map in first order", parameter=(_share, 0), order=2)
    yield Line(t, ":=", reached, "The time of the first drop")
    yield Line(w_init * exp(SIGMA_1 * t / tau), "=", 1, "Then the first pair is of order one")
    yield Line(_share, ":=", w_init * exp(SIGMA_K * t / tau), "The other pair then")
    yield Line(_share, "=", lead, "The error of the map", part="map")
    yield Line(_share, "=", lead, "That of the loss along a symmetric pair", part="loss")
    yield Line(_share**2, "=", lead**2, "That of the loss along a pair that turns", part="loss across")
