r"""The noise of a mini-batch, for any map and any weights, and the spread that it gives to the time of a drop (V8-force, V8-spread).

One sequence pulls at the map with F = (y_q - beta' B x_q) beta x_q', whose mean is the force G. A step of descent moves the weights with
the mean over its batch; what a change of the map by Z makes of the noise is that of tr(Z'F).
"""

from functools import cache
from typing import Any

from sympy import Function, Identity, Symbol, Trace, ZeroMatrix, diff, expand, symbols

from ...algebra.polynomial import TracePolynomial
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...expectation.moments import expect
from ...notation import B, D, Lambda, Lambda_hat, N, beta, matrix, x_q, y_q
from .finite_steps import V, batch, h

__all__ = ["Z", "force_variance"]

Z = matrix("Z", D)  # the change of the map
_x, _y = symbols("x y", real=True)  # weights; two stand for all
_T, _flow = Function("T")(_x, _y), (Function("f")(_x, _y), Function("g")(_x, _y))
_slopes = (diff(_T, _x), diff(_T, _y))


def pull() -> TracePolynomial:
    """tr(Z'F) of one sequence."""
    return TracePolynomial((y_q - beta.T * B * x_q) * (beta.T * Z * x_q))


@cache
def force_variance() -> TracePolynomial:
    """The variance of tr(Z'F) over all sequences, for any Z and any map B."""
    return expect(pull() ** 2) - expect(pull()) ** 2


@register(
    "V8-force",
    "The noise of one sequence's force",
    kind="exact",
    section="beyond the paper",
    left={
        "mean": r"\mathbb{E}\operatorname{tr}(\boldsymbol{Z}^\top\boldsymbol{F})",
        "square": r"\mathbb{E}_{\boldsymbol{w},\boldsymbol{x}_q}\operatorname{tr}(\boldsymbol{Z}^\top\boldsymbol{F})^2",
    },
    typed=lambda: {"mean": _mean_pull(), "square": _square_given_the_context()},
    conditions=(
        r"$\boldsymbol{F}=(y_q-\hat y_q)\boldsymbol{\beta}\boldsymbol{x}_q^\top$ of one sequence with its prediction "
        r"$\hat y_q=\boldsymbol{\beta}^\top\boldsymbol{B}\boldsymbol{x}_q$",
        r"Any map $\boldsymbol{B}$, any direction $\boldsymbol{Z}$",
        "Square: given the context; its average over contexts is exact as well, and makes the variance: 131 terms",
    ),
)
def noise_of_the_force() -> Derivation:
    """Average the pull of one sequence and its square; both are polynomials in Gaussian vectors."""
    return Derivation.by(
        Step("The pull of one sequence", pull()),
        Step("Its mean", expect(pull()), part="mean"),
        Step("Its square, averaged over the task vector and the query", expect(pull() ** 2, given=Lambda_hat), part="square"),
        Step(r"The variance over all sequences, at $\boldsymbol{B} = 0$", substitute(force_variance(), {B: ZeroMatrix(D, D)})),
    )


def _mean_pull() -> Any:
    return Trace(Z.T * (Lambda**2 - ((1 + 1 / N) * Lambda**2 + Trace(Lambda) / N * Lambda) * B * Lambda))


def _square_given_the_context() -> Any:
    """By y_q - yhat_q = w'(I - Lambda_hat B) x_q and beta' Z x_q = w' Lambda_hat Z x_q, and Wick's rule for w and x_q."""
    error, pulled = Identity(D) - Lambda_hat * B, Lambda_hat * Z
    mixed, turned = error.T * pulled * Lambda, pulled.T * error * Lambda
    squares = error.T * error * Lambda, pulled.T * pulled * Lambda
    return (
        Trace(squares[0]) * Trace(squares[1])
        + 2 * Trace(squares[0] * squares[1])
        + 2 * Trace(mixed) ** 2
        + 2 * Trace(mixed * mixed)
        + 2 * Trace(mixed * turned)
    )


@register(
    "V8-spread",
    "How mini-batches spread the time of any drop",
    kind="approximation",
    section="beyond the paper",
    left={"x": r"\dot T_x", "y": r"\dot T_y", "variance": r"\tfrac{d}{dt}\operatorname{Var}t^{\rm SGD}"},
    typed=lambda: {
        "x": -diff(_flow[0], _x) * _slopes[0] - diff(_flow[1], _x) * _slopes[1],
        "y": -diff(_flow[0], _y) * _slopes[0] - diff(_flow[1], _y) * _slopes[1],
        "variance": h * V / batch,
    },
    conditions=(
        r"$T$: the time that the flow $\dot x=f$, $\dot y=g$ takes to a level, of two weights that stand for all",
        "On the way its derivatives $T_{x}$ and $T_{y}$ obey the adjoint of the linearised flow",
        (
            r"$V$ is the variance (V8-force) of the force for the change $\boldsymbol{Z}$ of the map along "
            "$(T_x,T_y)$; $P$ fresh sequences each"
        ),
        (
            "Integrated along the flow up to the level; of first order in $h/P$, where the spread is small against "
            "the time in which $T$ changes"
        ),
    ),
)
def spread_of_a_drop() -> Derivation:
    """Along the flow T falls at the rate 1; a step's noise moves it by its slope."""
    fall = _flow[0] * _slopes[0] + _flow[1] * _slopes[1] + 1
    rates = {}
    for name, weight in (("x", _x), ("y", _y)):
        slope = diff(_T, weight)
        along = _flow[0] * diff(slope, _x) + _flow[1] * diff(slope, _y)
        rates[name] = expand(along - diff(fall, weight))
    pulled = Symbol("p", real=True)  # T_x xi_x + T_y xi_y, the batch's noise along the slope of T, of variance V/P
    moved = h * pulled
    each = (moved**2).coeff(pulled, 2) * V / batch
    return Derivation.by(
        Step("The time left falls at the rate 1 along the flow", fall, "0"),
        Step(r"Its derivative in $\boldsymbol{x}$ gives the change of $T_{x}$ along the flow", rates["x"], part="x"),
        Step("Its derivative in $y$", rates["y"], part="y"),
        Step("What the noise of a step adds to the time left, $p$ along the slope of $T$", moved),
        Step("The variance of that", each),
        Step("In the time $h$ of a step", each / h, part="variance"),
    )
