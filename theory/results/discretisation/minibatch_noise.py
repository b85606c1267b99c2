r"""The noise of a mini-batch, for any map and any weights, and the spread that it gives to the time of a drop (V8-force, V8-spread).

One sequence pulls at the map with F = (y_q - beta' B x_q) beta x_q', whose mean is the force G. A step of descent moves the weights with
the mean over its batch; what a change of the map by Z makes of the noise is that of tr(Z'F).
"""

from functools import cache
from typing import Any

from sympy import Function, Identity, Symbol, Trace, ZeroMatrix, diff, solve, symbols

from ...algebra.polynomial import TracePolynomial
from ...calculus import substitute
from ...derivations import E, Line, Lines, given, note, register, states
from ...expectation import Gaussian, expect
from ...notation import B, D, Lambda, Lambda_hat, MatrixLetter, N, beta, matrix, x_q, y_q
from .finite_steps import V, batch, h

Z = matrix("Z", D)  # the change of the map
pulled = Symbol("F_Z", real=True)  # tr(Z'F)
_x, _y = symbols("x y", real=True)  # weights; two stand for all
_T, _f, _g = (Function(name)(_x, _y) for name in "Tfg")
_noise = MatrixLetter("xi", 1, 1, r"\xi")  # of a step's mini-batch, along the slope of T


def pull() -> TracePolynomial:
    """tr(Z'F) of one sequence."""
    return TracePolynomial((y_q - beta.T * B * x_q) * (beta.T * Z * x_q))


@cache
def force_variance() -> TracePolynomial:
    """The variance of tr(Z'F) over all sequences, for any Z and any map B."""
    return expect(pull() ** 2) - expect(pull()) ** 2


@register("V8-force", "The noise of one sequence's force")
@states("mean", lambda: _mean_pull())
@states("square", lambda: _square_given_the_context())
@note(r"$\boldsymbol{F}=(y_q-\hat y_q)\boldsymbol{\beta}\boldsymbol{x}_q^\top$ of one sequence")
def noise_of_the_force() -> Lines:
    """Average the pull of one sequence and its square; both are polynomials in Gaussian vectors."""
    yield Line(pulled, ":=", pull(), r"The force of one sequence along a direction, $\operatorname{tr}(\boldsymbol{Z}^\top\boldsymbol{F})$")
    yield Line(E(pulled), "=", expect(pull()), "Its mean", part="mean")
    yield Line(E(pulled**2, given=Lambda_hat), "=", expect(pull() ** 2, given=Lambda_hat),
               "Its square, averaged over the task vector and the query", part="square")  # fmt: skip
    yield Line(B, ":=", ZeroMatrix(D, D), "At the map zero")
    yield Line(E(pulled**2) - E(pulled) ** 2, "=", substitute(force_variance(), {B: ZeroMatrix(D, D)}),
               "the variance over all sequences is")  # fmt: skip


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


@register("V8-spread", "How mini-batches spread the time of any drop", kind="approximation")
@states("x", lambda: -diff(_f, _x) * diff(_T, _x) - diff(_g, _x) * diff(_T, _y))
@states("y", lambda: -diff(_f, _y) * diff(_T, _x) - diff(_g, _y) * diff(_T, _y))
@states("variance", lambda: h * V / batch)
@given("$P$ fresh sequences for each step", r"The spread is small against the time in which the slope of $T$ changes")
@note(
    r"$T(x, y)$: the time that the flow $\dot x=f$, $\dot y=g$ takes to a level, for two weights that stand for all",
    r"$V$ is the variance (V8-force) of the force for the change $\boldsymbol{Z}$ of the map along $(T_x,T_y)$",
    "Variance: what a unit of time adds, to be integrated along the flow up to the level",
)
def spread_of_a_drop() -> Lines:
    """Along the flow T falls at the rate 1; a step's noise moves it by its slope."""
    fall = _f * diff(_T, _x) + _g * diff(_T, _y) + 1
    rates = {weight: _f * diff(_T, weight, _x) + _g * diff(_T, weight, _y) for weight in (_x, _y)}
    law = Gaussian(_noise, covariance=V / batch)
    each = expect((h * _noise) ** 2, law)
    yield Line(_f, ":=", *solve(fall, _f), r"Along the flow the time left falls at the rate 1, $fT_x+gT_y=-1$, so that")
    yield Line(rates[_x], "=", (rates[_x] - diff(fall, _x)).expand(), "The rate of $T_x$ along the flow", part="x")
    yield Line(rates[_y], "=", (rates[_y] - diff(fall, _y)).expand(), "and that of $T_y$", part="y")
    yield Line(E((h * _noise) ** 2, law), "=", each, r"What the noise $\xi$ of a step adds to the time left has the variance")
    yield Line(E((h * _noise) ** 2, law) / h, "=", each / h, "and a step takes the time $h$", part="variance")
