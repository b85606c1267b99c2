r"""How far the five weights are from all heads (V6-error): what else grows before the first drop, and what it does to map and loss.

Near the origin every head is a sum of pairs that grow at the rates sigma_k/tau: two symmetric ones, at the singular values sigma_1 and
sigma_2 of Gamma, and D - 1 that turn with a direction across w_0, at sigma_x. The five weights keep the first. When it has grown to
order one another pair is w_init^(1 - sigma_k/sigma_1): the map has terms of first order in it, and so has the loss where the pair is
symmetric. Out of the symmetric form the loss has no slope, so there the loss is second order.
"""

from sympy import Expr, Symbol, collect, exp, factor, log, simplify

from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import D, N, lambda_, tau, v_i, w_init
from .five_weights import ACROSS, ALONG, COLUMN, LENGTH, ROW, growth_form, growth_products, slope_across
from .population_loss import portion

__all__ = ["SIGMA_1", "SIGMA_K"]

SIGMA_1, SIGMA_K = Symbol("sigma_1", positive=True), Symbol("sigma_k", positive=True)
_share, _slope, _curvature = (Symbol(name, positive=True) for name in ("s", "ell_1", "ell_2"))


def _grown_twice(form: Expr, weight, sizes: dict) -> Expr:
    """tau^2 d^2/dt^2 of one weight, where tau d/dt of each is the slope of the form over the number of weights that share it."""
    velocity = {one: form.diff(one) / size for one, size in sizes.items()}
    return collect(velocity[weight].subs(velocity, simultaneous=True).expand(), (ROW, v_i), factor)


_POWER = SIGMA_K / SIGMA_1


@register(
    "V6-error",
    "The error of the five weights, in powers of the initial scale",
    kind="approximation",
    section="beyond the paper",
    left={
        "row": r"\tau^2\ddot a",
        "corner": r"\tau^2\ddot v_i",
        "across": r"\tau^2\ddot a_\times",
        "map": r"\frac{\|\boldsymbol{B}-\boldsymbol{B}_5\|}{\|\boldsymbol{B}\|}",
        "loss": r"\left[\frac{\mathcal{L}-\mathcal{L}_5}{\mathcal{L}}\right]_{\rm symmetric}",
        "loss across": r"\left[\frac{\mathcal{L}-\mathcal{L}_5}{\mathcal{L}}\right]_\times",
    },
    typed=lambda: {
        "row": lambda_**4 * (growth_products()[0] * ROW + growth_products()[2] * v_i),
        "corner": lambda_**4 * (growth_products()[2] * ROW + growth_products()[1] * v_i),
        "across": lambda_**4 * (portion**2 + (1 - portion) ** 2 * LENGTH**2 * ((1 + 1 / N) ** 2 + 1 / N**2)) * ROW,
        "map": w_init ** (1 - _POWER),
        "loss": w_init ** (1 - _POWER),
        "loss across": w_init ** (2 * (1 - _POWER)),
    },
    conditions=(
        (
            r"White tokens and one fixed task vector, as in (V6-escape); $H$ heads, all weights of scale $w_{\rm "
            "init}$ at the start; the first three to first order in all weights"
        ),
        (
            r"The symmetric pairs grow at the singular values $\sigma_1>\sigma_2$ of $\boldsymbol{\Gamma}$, the $D - "
            r"1$ that turn with $\boldsymbol{f}$ at $\sigma_\times$, the root of the factor of $a_\times$ in the "
            "third; all other weights rest"
        ),
        (
            r"The last three up to factors that do not depend on $w_{\rm init}$, for a pair that grows at $\sigma_k$, "
            r"when the first is of order one; $\boldsymbol{B}_5$ and $\mathcal{L}_5$: map and loss of the five weights"
        ),
        (
            r"So the map errs by $w_{\rm init}$ to the power $1-\max(\sigma_2,\sigma_\times)/\sigma_1$, the losses to "
            r"the power $\min(1-\sigma_2/\sigma_1,\ 2(1-\sigma_\times/\sigma_1))$; more where a symmetry takes the "
            r"slope along the second pair too, as $\boldsymbol{w}$ to $-\boldsymbol{w}$ does at $p = 1$"
        ),
    ),
)
def error_of_five_weights() -> Derivation:
    """The linear flow in both sectors, the lead of the first pair when it has grown, and what is left of it in map and loss."""
    symmetric, turning = (growth_form(symmetric=one).to_sympy() for one in (True, False))
    alone = dict.fromkeys((ROW, ALONG, ACROSS, COLUMN), 1)  # f e' and e f' are one weight each
    shared = {**alone, v_i: 1, ACROSS: D - 1}  # |U_i|^2 = U_1^2 + (D - 1) U_2^2
    plateau = tau / SIGMA_1 * log(1 / w_init)
    first, other = (w_init * exp(sigma * plateau / tau) for sigma in (SIGMA_1, SIGMA_K))
    lead = simplify(other / first)
    bilinear = (1 + _share) ** 2  # sum_i nu_i W_i over its first pair's part, for pairs in the ratio 1 : share
    in_map = bilinear.diff(_share).subs(_share, 0) / 2  # the product of both, once each way round
    slope = slope_across().to_sympy()
    return Derivation.by(
        Step("The linear flow of a symmetric head, twice: its row", _grown_twice(symmetric, ROW, shared), part="row"),
        Step("Its corner", _grown_twice(symmetric, v_i, shared), part="corner"),
        Step("The row of a head that turns with $f$", _grown_twice(turning, ROW, alone), part="across"),
        Step(r"The first drop comes when the first pair has grown from $w_{\rm init}$ to order one", plateau, "t"),
        Step("Then the other pair, beside the first", lead, "s"),
        Step("The map is bilinear, so it has a term of first order in $s$", in_map * lead, part="map"),
        Step("The loss has a slope along a symmetric pair", _slope * lead / _slope, part="loss"),
        Step("Half its slope out of the symmetric form", slope, r"\ell_1"),
        Step("There the next order is left", (slope * lead + _curvature * lead**2) / _curvature, part="loss across"),
    )
