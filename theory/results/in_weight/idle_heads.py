r"""What a finite training set does to idle heads at the end of training (V6-idle): why zero blocks end at P^(-1/4).

The heads enter through sum_i nu_i W_i, with nu_i = (v_i, v_i), a vector and a scalar, and W_i = (U_i; u_i'), so they may be rotated until
one of them is active, with the map of the population, and the others idle. On P sequences what the active head leaves of the labels
correlates with the prediction of a pair of unit weights by P^(-1/2) g. Along such a pair an idle head, zero at first, grows until its own
curvature stops it. Its map is alpha^2, of the order of that force; its weights are alpha each, of the order of the root of it, if the zero
blocks start so far below the main weights that what the first drop makes of them is small beside that.
"""

from sympy import Derivative, IndexedBase, S, Sum, Symbol, Trace, ZeroMatrix, exp, expand, factor, log, powsimp, solve, sqrt

from ...calculus import substitute
from ...derivations import Condition, Gradient, Line, Lines, given, register, states
from ...notation import D, Lambda_hat, N, beta, prediction, prediction_i, prediction_other, t, tau, v_i, vector, w, w_init, x_q, y_q
from ..attention.blocks import U_i, merged_expansion, u_i, value_row
from ..attention.zero_blocks import ERROR, pull
from .five_weights_error import SIGMA_1, SIGMA_K

FORCE, CURVATURE = Symbol("g", positive=True), Symbol("kappa", positive=True)
SEQUENCES = Symbol("P", integer=True, positive=True)
_alpha, _start = Symbol("alpha", positive=True), Symbol("alpha_0", positive=True)  # both weights of a pair, and after the first drop
_block, _drop = Symbol("epsilon", positive=True), Symbol("t_1", positive=True)  # a zero block at the start, and the time of the first drop
_left, _pair, _mu = IndexedBase("rho", real=True), IndexedBase("phi", real=True), Symbol("mu", integer=True)
_row, _column = vector("b", D), vector("c", D)
_a, _v, _U, _u = (Symbol(name, real=True) for name in ("a", "v", "U", "u"))  # a head in one dimension
_x, _omega = Symbol("x", real=True), Symbol("omega", real=True)  # and query and task there
_tokens, _cross, _label = (Symbol(f"chi_{name}", real=True) for name in ("xx", "xy", "yy"))


def _mean(body):
    """The average over the training sequences."""
    return Sum(body, (_mu, 1, SEQUENCES)) / SEQUENCES


def _head(reason: str, said: str, part: str, *blocks) -> tuple[Line, ...]:
    """A head with these blocks, and what it predicts."""
    head = dict(zip((value_row, v_i, U_i, u_i), blocks, strict=True))
    made = Line(prediction_i, "=", substitute(merged_expansion(), head), said, "C.1", part)
    return (*(Line(block, ":=", value, reason) for block, value in head.items()), made)


@register("V6-idle", "Idle heads on a finite training set", kind="approximation")
@states("row and column", lambda: _row.T * beta * _column.T * x_q)
@states("corner", lambda: _row.T * beta * _column.T * x_q)
@states("one direction", lambda: (_v * _U - _a * _u) ** 2)
@states("at rest", lambda: (
    (y_q - prediction) * (value_row.T * ((Lambda_hat + x_q * x_q.T / N) * U_i + beta * u_i.T) * x_q
                          + v_i * (beta.T * U_i + w.T * Lambda_hat * w * u_i.T) * x_q)
))  # fmt: skip
@states("start", lambda: _block * w_init ** (-SIGMA_K / SIGMA_1))
@states("flow", lambda: FORCE * SEQUENCES ** (-S.Half) * _alpha - CURVATURE * _alpha**3)
@states("rate", lambda: FORCE * SEQUENCES ** (-S.Half))
@states("size", lambda: sqrt(FORCE / CURVATURE) * SEQUENCES ** (-S(1) / 4))
@given(
    "Merged attention on $P$ sequences, to leading order in $P^{-1/2}$; at least two heads, for one of them is active, and $D\\ge2$",
    Condition(
        r"The zero blocks start far below the main weights: what the first drop makes of them, $\alpha_0$, is small beside $P^{-1/4}$ "
        r"for the rows $\boldsymbol{v}_j$, beside $P^{-1/2}$ for the columns $\boldsymbol{u}_j$. Then the rows of idle heads end at "
        r"$P^{-1/4}$, their columns at $P^{-1/2}$; with one head or $D=1$ all blocks end at $P^{-1/2}$. At the ordinary scale, with "
        r"all weights at 0.03, rows fall as $P^{-0.11}$ and columns stay at 0.33",
        lambda point: point[_start] ** 2 * point[SEQUENCES] ** 0.5 < point[FORCE] / point[CURVATURE],
    ),
    r"The active head has brought the force on its own pairs to zero, by the first two also that on pairs with a column "
    r"$\boldsymbol{u}_j$; pairs of a row $\boldsymbol{v}_j$ and a matrix $\boldsymbol{U}_j$ move the idle heads",
    r"One direction: tokens, task and the blocks $(a,v,U,u)$ of a head along $\boldsymbol{b}$. The head is a form of the Gram matrix "
    r"with $\chi_{xx}$, $\chi_{xy}$, $\chi_{yy}$ for its three entries; so for $D=1$ one head fits any large set as well as all heads "
    "can, and nothing is left to move the others",
    r"At rest: the left side is zero on average. Summed over idle heads, with the prediction $m$ that is $\mathbb{E}(\rho m)="
    r"\mathbb{E}(m^2)$, where $\rho$ is what the active head leaves, so $m$ is at most of order $P^{-1/2}$, as the force is",
    r"Start: a zero block is $\epsilon$, the main weights $w_{\rm init}$; near zero they grow at $\sigma_k$ and $\sigma_1$, (V6-error)",
    r"Flow: an idle head $\nu_j=\alpha\boldsymbol{l}$, $\boldsymbol{W}_j=\alpha\boldsymbol{R}$ with "
    r"$|\boldsymbol{l}|=|\boldsymbol{R}|=1$, balanced as by (17), and the prediction $\phi$ of $\boldsymbol{l}$ and "
    r"$\boldsymbol{R}$, less what the active head can make up for to first order",
    Condition("$g>0$", lambda point: point[FORCE] > 0),
)
def idle_heads() -> Lines:
    """A mean squared error along one pair; Euler's identity; two ways to one map; and the form of a head in one dimension."""
    nothing, square, head = ZeroMatrix(D, 1), ZeroMatrix(D, D), merged_expansion()
    reached = -tau * log(w_init) / SIGMA_1
    error = (_left[_mu] - _alpha**2 * _pair[_mu]) ** 2
    slope = expand(-error.diff(_alpha) / 4)
    flow = slope.subs(_pair[_mu] ** 2, CURVATURE).subs(_left[_mu] * _pair[_mu], FORCE / sqrt(SEQUENCES))
    moving = -Derivative(_mean(error), _alpha) / 4
    (size,) = solve(flow, _alpha)
    solved = size / sqrt(1 + (size**2 / _start**2 - 1) * exp(-2 * FORCE * t / (sqrt(SEQUENCES) * tau)))
    (half,), unit = solve(solved - size / 2, t), sqrt(SEQUENCES) * tau / FORCE * log(1 / _start)
    length, slopes = _row.T * _row, Trace(value_row.T * Gradient(ERROR, value_row)) + v_i * Gradient(ERROR, v_i)
    pulls = value_row.T * pull(head, value_row) + v_i * pull(head, v_i)
    form, discriminant = {_tokens: _a * _U, _cross: _v * _U + _a * _u, _label: _v * _u}, _cross**2 - 4 * _tokens * _label
    weighed = (_tokens + _cross * _omega + _label * _omega**2) * _row.T * Lambda_hat * _row
    yield Line(_drop, ":=", reached, "The time of the first drop")
    yield Line(w_init * exp(SIGMA_1 * _drop / tau), "=", 1, "Then the main weights are of order one")
    yield Line(_start, ":=", _block * exp(SIGMA_K * _drop / tau), "A zero block then")
    yield Line(_start, "=", powsimp(_block * exp(SIGMA_K * reached / tau)), "In the initial scale of the main weights", part="start")
    yield Line(flow.subs(_alpha, _start), ">", 0, "So small a start grows: the force is the larger term")
    yield Line(FORCE, ":=", sqrt(SEQUENCES) * _mean(_left[_mu] * _pair[_mu]), "The force along a pair of unit weights")
    yield Line(CURVATURE, ":=", _mean(_pair[_mu] ** 2), "and its curvature")
    yield Line(moving, "=", flow, "The flow (10) of a pair, two weights in one", part="flow")
    yield Line(moving / _alpha, "->", (flow / _alpha).expand().subs(_alpha, 0), "A small pair", part="rate", parameter=(_alpha, 0), order=2)
    yield Line(_alpha, ":=", solved, r"The solution that starts at $\alpha_0$")
    yield Line(tau * Derivative(solved, t), "=", flow, "It solves the flow")
    yield Line(_alpha, "->", size, "It ends at this size", part="size", parameter=t)
    yield Line(half / unit, "->", 1, "The time to half of it", parameter=(_start, 0), order=1 / log(1 / _start))
    yield Line(prediction, ":=", prediction_i + prediction_other, "Heads add up")
    yield Line(-slopes / 2, "=", pulls, "The value weights times the slopes: a head is linear in them", "C.1", "at rest")
    yield from _head("A head with a row and a column", "Its prediction", "row and column", _row, 0, square, _column)
    yield from _head("A head with a corner and a matrix", "It predicts the same", "corner", nothing, 1, _row * _column.T, nothing)
    for letter, value in form.items():
        yield Line(letter, ":=", value, "An entry of the form of a head in one direction")
    yield from _head(r"A head along $\boldsymbol{b}$", "What it predicts", "", _a * _row, _v, _U * _row * _row.T, _u * _row)
    yield Line(x_q, ":=", _x * _row, "A query along it")
    yield Line(w, ":=", _omega * _row, "A task along it")
    yield Line(prediction_i, "=", _x * length * (weighed + _tokens * (_x * length) ** 2 / N), "Then it predicts its form", ("C.1", "30"))
    yield Line(discriminant, "=", factor(discriminant.subs(form)), "The discriminantriminant of the form", part="one direction")
