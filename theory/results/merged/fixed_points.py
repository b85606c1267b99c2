r"""Landscape of merged attention: the fixed points (14), and why those of the zero function are strict saddles of index H.

With e = E(y_q z) - E(zz') W_1' w_2, the flow (13) rests where w_2 e' = 0 and W_1 e = 0: either e = 0, the global minimum, or w_2 = 0 and
then W_1 E(y_q z) = 0, which is more than the paper's w_2 = 0, W_1 = 0.
"""

from functools import cache

from mpmath import mpf, norm
from sympy import Trace, ZeroMatrix, factor

from ...algebra.polynomial import TracePolynomial
from ...calculus import hessian_form, rewrite, substitute
from ...derivations import Condition, E, Gradient, Line, Lines, Rate, SecondVariation, erratum, given, register, states, value_at
from ...derivations.draws import definite, made_definite, satisfying
from ...expectation import expect
from ...notation import W_1, D, H, Lambda, Lambda_q, beta, c_hat, gamma, matrix, v_i, vector, w_2, x_q, y_q
from ..attention.blocks import U_i
from ..attention.cubic_features import ANY_QUERY
from ..attention.equivalent_networks import COVARIANCE, CROSS, FEATURES, MOMENTS, NETWORK_ERROR, z
from ..task.population import Task
from .balanced_flow import UNIT, rates

_e = vector("e", FEATURES)  # E[(y_q - y_hat) z]
_m = vector("m", FEATURES)  # W_1' w_2

_dw, _dW = (vector("dw_2", H, latex=r"\delta\boldsymbol{w}_2"), matrix("dW_1", H, FEATURES, latex=r"\delta\boldsymbol{W}_1"))
_unseen = matrix("W_0", H, FEATURES)  # the part of delta W_1 that vanishes on E(y_q z)
_plus, _minus = vector("p", H), vector("n", H)
HALF = E(NETWORK_ERROR, MOMENTS) / 2
NO_OUTPUT = ZeroMatrix(H, 1)
VARIATION = SecondVariation(HALF, {w_2: _dw, W_1: _dW})


def _draw_zero(point) -> None:
    cross = point[CROSS]
    point[w_2] = 0 * point[w_2]
    point[W_1] = point[W_1] - point[W_1] * cross * cross.T / norm(cross) ** 2


def _draw_minimum(point) -> None:
    point[CROSS] = value_at(BEST, point)


def _draw_unseen(point) -> None:
    c = point[c_hat]
    point[_unseen] = point[_unseen] - point[_unseen] * c * c.T / norm(c) ** 2


BEST = COVARIANCE * W_1.T * w_2  # E(y_q z) at e = 0
MISSED = BEST - CROSS
POSITIVE = Condition(r"$\mathbb{E}(\boldsymbol{zz}^\top)$ is positive definite", definite(COVARIANCE), made_definite(COVARIANCE))
MINIMUM = satisfying(r"$\boldsymbol{e}=0$", {BEST: CROSS}, _draw_minimum)
ERROR = Condition(r"$\boldsymbol{e}\ne0$", lambda point: norm(value_at(MISSED, point)) > 1e-20, outside=_draw_minimum)
ERROR_LEFT = Line(_e, ":=", CROSS - COVARIANCE * W_1.T * w_2, "The correlation of the error with the features")


@register("14a", "Fixed points with the zero function", section="Section 3.2")
@states("a", lambda: w_2 * _e.T)
@states("b", lambda: W_1 * _e)
@states("w", lambda: (_e.T * _e) * w_2)
@states("W", lambda: W_1 * CROSS)
@states("head", lambda: Trace(U_i.T * Lambda * Lambda_q))
@erratum(r"The paper has $\boldsymbol{w}_{2} = 0$ and $\boldsymbol{W}_{1} = 0$, which is one point of this set of dimension $H(D^2-1)$")
def zero_function_set(task: Task = ANY_QUERY) -> Lines:
    """The flow in terms of the error; the case e != 0."""
    flow = rates()
    first, second = Rate(W_1, flow), Rate(w_2, flow)
    by_error = [substitute(rate, {CROSS: _e + COVARIANCE * W_1.T * w_2}) for rate in (flow[W_1], flow[w_2])]
    rests, zero = (Line(first, "=", 0), Line(second, "=", 0)), (Line(w_2, "=", 0), Line(W_1 * CROSS, "=", 0))
    head, slope = task.E((y_q - v_i * beta.T * U_i * x_q) ** 2), (TracePolynomial(U_i.T) * task.moments.A).trace()
    in_set = W_1 * Trace(CROSS.T * CROSS) - W_1 * CROSS * CROSS.T
    yield ERROR_LEFT
    yield Line(first, "=", by_error[0], "The flow (13a)", (), "a")
    yield Line(second, "=", by_error[1], "The flow (13b)", (), "b")
    yield Line(first * _e, "=", by_error[0] * _e, r"So $\boldsymbol{W}_1$ moves unless $\boldsymbol{w}_2=0$ or $\boldsymbol{e}=0$", (), "w")
    yield Line(rests, "<=>", zero, "The fixed points are", conditions=(ERROR,), meets=(_draw_zero, _draw_zero))
    yield Line(w_2, ":=", NO_OUTPUT, "There")
    yield Line(second, "=", substitute(flow[w_2], {w_2: NO_OUTPUT}), r"$\boldsymbol{w}_2$ moves by", (), "W")
    yield Line(v_i, ":=", 0, "One head of the set")
    yield from task.gains()
    yield Line(-Gradient(head, v_i) / 2, "=", slope, "Its value weight moves by", (), "head")
    yield Line(in_set, "!=", ZeroMatrix(H, FEATURES),
               r"As printed in the paper $\boldsymbol{W}_1=0$; but any $\boldsymbol{W}_1$ makes this one of the set")  # fmt: skip


@register("14b", "Global minimum", section="Section 3.2")
@states("row", lambda: CROSS.T * COVARIANCE.I)
@states("a", lambda: ZeroMatrix(H, FEATURES))
@states("b", lambda: NO_OUTPUT)
@states("loss", lambda: (_m - COVARIANCE.I * CROSS).T * COVARIANCE * (_m - COVARIANCE.I * CROSS))
@states("stable", lambda: (W_1.T * _dw + _dW.T * w_2).T * COVARIANCE * (W_1.T * _dw + _dW.T * w_2))
@given(POSITIVE, MINIMUM)
def global_minimum() -> Lines:
    """Solve e = 0 for the row of the network; the loss is a square around it."""
    row, flow = CROSS.T * COVARIANCE.I, rates()
    loss = -2 * (CROSS.T * _m) + TracePolynomial(_m.T * COVARIANCE * _m)  # E(y_q - m' z)^2 less E(y_q^2)
    form = substitute(hessian_form(half_loss(), {w_2: _dw, W_1: _dW}), {CROSS: COVARIANCE * W_1.T * w_2})
    yield ERROR_LEFT
    yield Line(_e, "=", ZeroMatrix(FEATURES, 1), "It vanishes")
    yield Line(w_2.T * W_1, "=", row, "So this is the row of the network", (), "row")
    for part, weight in (("a", W_1), ("b", w_2)):
        yield Line(Rate(weight, flow), "=", rewrite(flow[weight], {w_2.T * W_1: row}), "There the flow (13) vanishes", (2,), part)
    yield Line(E((y_q - _m.T * z) ** 2, MOMENTS) - E((y_q - row * z) ** 2, MOMENTS), "=", loss - substitute(loss, {_m: row.T}),
               r"The loss of any row $\boldsymbol{m}^\top$, less that of this one, is a square", (), "loss")  # fmt: skip
    yield Line(CROSS, "=", COVARIANCE * W_1.T * w_2, r"By $\boldsymbol{e}=0$")
    yield Line(VARIATION, "=", form, "the second variation of half the loss is a square, too", -1, "stable")
    yield Line(form, ">=", 0 * gamma, "which is never negative")


@cache
def half_loss() -> TracePolynomial:
    """F = L/2 of w_2' W_1 z."""
    return TracePolynomial(expect(NETWORK_ERROR, MOMENTS) / 2)


@register("14-index", "Every zero-function fixed point is a strict saddle of index $H$", section="Beside (14a)")
@states("form", lambda: _dw.T * W_1 * COVARIANCE * W_1.T * _dw - 2 * (_dw.T * _dW * CROSS))
@states("diagonal", lambda: (_plus.T * _plus - _minus.T * _minus) / 2)
@states("origin", lambda: -gamma)
@states("bound", lambda: (
    gamma * (Trace((_dw - _dW * c_hat) * (_dw - _dW * c_hat).T) + Trace(_dW * _dW.T) - Trace(_dW * c_hat * c_hat.T * _dW.T))
))  # fmt: skip
@states("dimension", lambda: H * (D**2 - 1))
@given(
    UNIT,
    Condition(r"$\boldsymbol{W}_0\hat{\boldsymbol{c}}=0$", lambda point: norm(point[_unseen] * point[c_hat]) < mpf("1e-20"), _draw_unseen),
)
def index_of_saddle() -> Lines:
    """The second variation; a linear change of coordinates makes it a difference of squares."""
    form = substitute(hessian_form(half_loss(), {w_2: _dw, W_1: _dW}), {w_2: NO_OUTPUT})
    along = substitute(form, {CROSS: gamma * c_hat})
    a = TracePolynomial(_plus + _minus) / 2
    layer = _unseen + (W_1 * COVARIANCE * W_1.T * a + TracePolynomial(_minus - _plus)) * c_hat.T / (2 * TracePolynomial(gamma))
    diagonal = rewrite(substitute(along, {_dw: a, _dW: layer}), {c_hat.T * c_hat: 1, _unseen * c_hat: NO_OUTPUT})
    apart = W_1 * COVARIANCE * W_1.T * _dw - 2 * gamma * _dW * c_hat
    inverse = {_plus + _minus: 2 * _dw, _plus - _minus: apart, _unseen: _dW - _dW * c_hat * c_hat.T}
    length, flat = Trace(_dw * _dw.T) + Trace(_dW * _dW.T), H * FEATURES + H - 2 * H
    above = substitute(along, {W_1: ZeroMatrix(H, FEATURES)}) + gamma * length
    steepest = SecondVariation(HALF, {w_2: _minus, W_1: _minus * c_hat.T})
    yield Line(w_2, ":=", NO_OUTPUT, "The zero function")
    yield Line(VARIATION, "=", form, "The second variation of half the loss", (), "form")
    yield Line(CROSS, ":=", gamma * c_hat, "Length and direction of its vector")
    yield Line(c_hat.T * c_hat, "=", 1, r"$\hat{\boldsymbol{c}}$ has unit length")
    yield Line(_unseen * c_hat, "=", 0 * w_2, r"Rows perpendicular to $\hat{\boldsymbol{c}}$")
    yield Line(_dw, ":=", a, "New coordinates")
    yield Line(_dW, ":=", layer, "and")
    yield Line(VARIATION, "=", diagonal, "In them the form is a difference of squares: $H$ directions curve down", (3, 4), "diagonal")
    for new, of in inverse.items():
        yield Line(new, "=", of, "They are coordinates, as they follow from the variations", (3, 4))
    yield Line(flat, "=", factor(flat), "All directions but $2H$ are flat, those of the set itself", (), "dimension")
    yield Line(W_1, ":=", ZeroMatrix(H, FEATURES), "At the origin")
    yield Line(VARIATION + gamma * length, "=", above, r"no direction curves down by more than $\gamma$, for", (3,), "bound")
    yield Line(VARIATION + gamma * length, ">=", 0 * gamma, "this is a sum of squares")
    yield Line(steepest / (2 * Trace(_minus * _minus.T)), "=", -gamma,
               r"and $\delta\boldsymbol{w}_2=\boldsymbol{n}$ with this $\delta\boldsymbol{W}_1$ reaches it", (3,), "origin")  # fmt: skip
