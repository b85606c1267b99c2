r"""What a finite training set does to idle heads (V6-idle): zero blocks end at P^(-1/4), or as large as the first drop left them.

The heads may be rotated until one of them is active and the others idle. After the first drop an idle head has a row and a column of one
size, (V6-ordinary): they do what the active head can do as well. On P sequences what the active head leaves of the labels correlates with a
row and a matrix: both grow, until their own curvature stops them, to P^(-1/4), unless the row was larger at the start: then it stays.
"""

from sympy import Derivative, IndexedBase, S, Sum, Symbol, Trace, ZeroMatrix, expand, factor, solve, sqrt

from ...calculus import substitute
from ...derivations import Condition, Gradient, Line, Lines, Rate, given, note, register, states
from ...notation import D, Lambda_hat, N, beta, prediction, prediction_i, prediction_other, v_i, vector, w, x_q, y_q
from ..attention.blocks import U_i, merged_expansion, u_i, value_row
from ..attention.zero_blocks import ERROR, pull

FORCE, CURVATURE = Symbol("g", positive=True), Symbol("kappa", positive=True)
SEQUENCES = Symbol("P", integer=True, positive=True)
ROW_SIZE, KEY_SIZE, COLUMN_SIZE = (Symbol(f"alpha_{block}", positive=True) for block in ("v", "U", "u"))  # of the blocks of an idle head
MAP, CROSSING = Symbol("m_P", positive=True), Symbol("P_c", positive=True)  # the product of a row and a matrix at rest
_left, _pair, _mu = IndexedBase("rho", real=True), IndexedBase("phi", real=True), Symbol("mu", integer=True)
_row, _column = vector("b", D), vector("c", D)
_square = Symbol("alpha_v^2", positive=True)
_a, _v, _U, _u = (Symbol(name, real=True) for name in ("a", "v", "U", "u"))  # a head in one dimension
_x, _omega = Symbol("x", real=True), Symbol("omega", real=True)  # and query and task there
_tokens, _cross, _label = (Symbol(f"chi_{name}", real=True) for name in ("xx", "xy", "yy"))


def _pull():
    """What moves a row and a matrix, over the other of both, for statements."""
    return CURVATURE * (MAP - ROW_SIZE * KEY_SIZE)


def crossing(column):
    """The number of sequences at which (2 m_P)^2 = column^4."""
    return 4 * FORCE**2 / (CURVATURE * column**2) ** 2


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
@states("map", lambda: FORCE / (CURVATURE * sqrt(SEQUENCES)))
@states("row", lambda: KEY_SIZE * _pull())
@states("matrix", lambda: ROW_SIZE * _pull())
@states("kept", lambda: 0)
@states("pace", lambda: (ROW_SIZE**2 + KEY_SIZE**2) * _pull())
@states("row at rest", lambda: sqrt((COLUMN_SIZE**2 + sqrt(COLUMN_SIZE**4 + 4 * MAP**2)) / 2))
@states("matrix at rest", lambda: sqrt((sqrt(COLUMN_SIZE**4 + 4 * MAP**2) - COLUMN_SIZE**2) / 2))
@states("pace at rest", lambda: CURVATURE * sqrt(COLUMN_SIZE**4 + 4 * MAP**2))
@states("small column", lambda: sqrt(FORCE / CURVATURE) * SEQUENCES ** (-S(1) / 4))
@states("many sequences", lambda: COLUMN_SIZE)
@states("matrix, many sequences", lambda: 1 / COLUMN_SIZE)
@states("crossing", lambda: 4 * FORCE**2 / (CURVATURE**2 * COLUMN_SIZE**4))
@given(Condition("$g>0$", lambda point: point[FORCE] > 0))
@note(
    r"An idle head has $|\boldsymbol{v}_j|=\alpha_v$, $|\boldsymbol{U}_j|=\alpha_U$, $|\boldsymbol{u}_j|=\alpha_u$; $\rho$ is what the "
    r"active head leaves of the labels, $\phi$ the prediction of a row and a matrix of unit size, less what the active one can make up for",
    "Measured, not derived: above the crossing the force that is left turns row and matrix at a pace of order $1/P$",
)
def idle_heads() -> Lines:
    """A mean squared error along one pair; Euler's identity; two ways to one map; and the form of a head in one dimension."""
    nothing, square, head = ZeroMatrix(D, 1), ZeroMatrix(D, D), merged_expansion()
    error = (_left[_mu] - ROW_SIZE * KEY_SIZE * _pair[_mu]) ** 2
    steps = {one: expand(-error.diff(one) / 2) for one in (ROW_SIZE, KEY_SIZE)}
    rates = {one: factor(step.subs({_pair[_mu] ** 2: CURVATURE, _left[_mu] * _pair[_mu]: CURVATURE * MAP})) for one, step in steps.items()}
    reached, root = FORCE / (CURVATURE * sqrt(SEQUENCES)), sqrt(COLUMN_SIZE**4 + 4 * MAP**2)
    squared = solve(_square**2 - COLUMN_SIZE**2 * _square - MAP**2, _square)[-1]
    apart, both = ROW_SIZE**2 - KEY_SIZE**2, Rate(ROW_SIZE * KEY_SIZE, rates)
    length, slopes = _row.T * _row, Trace(value_row.T * Gradient(ERROR, value_row)) + v_i * Gradient(ERROR, v_i)
    pulls = value_row.T * pull(head, value_row) + v_i * pull(head, v_i)
    form, discriminant = {_tokens: _a * _U, _cross: _v * _U + _a * _u, _label: _v * _u}, _cross**2 - 4 * _tokens * _label
    weighed = (_tokens + _cross * _omega + _label * _omega**2) * _row.T * Lambda_hat * _row
    yield Line(FORCE, ":=", sqrt(SEQUENCES) * _mean(_left[_mu] * _pair[_mu]), "The force along a row and a matrix of unit size")
    yield Line(CURVATURE, ":=", _mean(_pair[_mu] ** 2), "and its curvature")
    yield Line(MAP, ":=", reached, r"The map that undoes the force, of order $P^{-1/2}$", part="map")
    for one, name in ((ROW_SIZE, "row"), (KEY_SIZE, "matrix")):
        yield Line(-Derivative(_mean(error), one) / 2, "=", rates[one], f"The flow (10) of the {name}", part=name)
    yield Line(Rate(apart, rates), "=", 0, r"It keeps their distance, $\alpha_u^2$ at the start", part="kept")
    yield Line(both, "=", both.apply(), "Their map goes to rest at this pace", part="pace")
    yield Line(ROW_SIZE, ":=", sqrt(squared), "The row")
    yield Line(KEY_SIZE, ":=", MAP / sqrt(squared), "and the matrix")
    yield Line(rates[ROW_SIZE], "=", 0, "They rest")
    yield Line(apart, "=", COLUMN_SIZE**2, "with what was kept")
    yield Line(ROW_SIZE, "=", sqrt((root + COLUMN_SIZE**2) / 2), "The row", part="row at rest")
    yield Line(KEY_SIZE, "=", sqrt((root - COLUMN_SIZE**2) / 2), "The matrix", part="matrix at rest")
    yield Line(CURVATURE * (ROW_SIZE**2 + KEY_SIZE**2), "=", CURVATURE * root, "The pace there", part="pace at rest")
    yield Line(ROW_SIZE, "->", sqrt(reached), "The row beside a small column", part="small column", parameter=(COLUMN_SIZE, 0), order=2)
    yield Line(ROW_SIZE, "->", COLUMN_SIZE, "The row on many sequences", part="many sequences", parameter=(MAP, 0), order=2)
    yield Line(KEY_SIZE / MAP, "->", 1 / COLUMN_SIZE, "The matrix", part="matrix, many sequences", parameter=(MAP, 0), order=2)
    yield Line(CROSSING, ":=", crossing(COLUMN_SIZE), "On a set of this size both terms of the root are as large", part="crossing")
    yield Line(COLUMN_SIZE**4, "=", 4 * (reached**2).subs(SEQUENCES, CROSSING), "There")
    yield Line(prediction, ":=", prediction_i + prediction_other, "Heads add up")
    yield Line(-Gradient(ERROR, prediction_other) / 2, "=", y_q - prediction, "All see one residual")
    yield Line(-slopes / 2, "=", pulls, "The value weights times the slopes: a head is linear in them", "C.1", "at rest")
    yield from _head("A head with a row and a column", "Its prediction", "row and column", _row, 0, square, _column)
    yield from _head(
        "A head with a corner and a matrix",
        "It predicts the same, so an active head with both leaves no force on pairs with a column",
        "corner",
        nothing,
        1,
        _row * _column.T,
        nothing,
    )
    for letter, value in form.items():
        yield Line(letter, ":=", value, "An entry of the form of a head in one direction")
    yield from _head(r"A head along $\boldsymbol{b}$", "What it predicts", "", _a * _row, _v, _U * _row * _row.T, _u * _row)
    yield Line(x_q, ":=", _x * _row, "A query along it")
    yield Line(w, ":=", _omega * _row, "A task along it")
    yield Line(prediction_i, "=", _x * length * (weighed + _tokens * (_x * length) ** 2 / N), "Then it predicts its form", ("C.1", "30"))
    yield Line(discriminant, "=", factor(discriminant.subs(form)), "The discriminant of the form", part="one direction")
