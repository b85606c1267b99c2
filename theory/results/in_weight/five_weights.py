r"""Learning in weight, then in context, as five numbers (V6-escape, V6-five): one head symmetric about the fixed task vector, white tokens.

Nothing grows faster from the origin, and the flow keeps it symmetric. So from small initial weights all heads together follow five
ordinary differential equations, until the next rank grows.
"""

from functools import cache

from mpmath import mpf
from sympy import Expr, Identity, Symbol, diff

from ...algebra.polynomial import TracePolynomial
from ...calculus import gradient, rewrite, substitute
from ...derivations import Condition, E, Gradient, Line, Lines, Rate, as_sympy, carried_out, given, note, register, states
from ...derivations.draws import satisfying, unit_vector
from ...expectation import expect
from ...notation import D, Lambda, Lambda_hat, N, beta, e, lambda_, prediction_i, v_i, vector, w, x_q, y_q
from ..attention.blocks import U_i, expansion, merged_expansion, u_i, value_row
from ..attention.zero_block_loss import U_j, row_j, u_j, v_j
from .population_loss import LAWS, NOISE, labels_averaged, mixed_tasks, other_head, portion, prediction_j, w_0

f = vector("f", D)  # a unit vector across the direction e of w_0
LENGTH = Symbol("r", positive=True)  # of w_0
ROW, COLUMN = Symbol("a", real=True), Symbol("m", real=True)
ALONG, ACROSS = Symbol("U_1", real=True), Symbol("U_2", real=True)
FIVE = (ROW, v_i, ALONG, ACROSS, COLUMN)
SHARED = {**dict.fromkeys(FIVE, 1), ACROSS: D - 1}  # |U_i|^2 = U_1^2 + (D - 1) U_2^2

_KEY = ALONG * e * e.T + ACROSS * (Identity(D) - e * e.T)
SYMMETRIC = {value_row: ROW * e, u_i: COLUMN * e, U_i: _KEY}
TURNING = {row_j: ROW * f, u_j: COLUMN * f, v_j: 0, U_j: ALONG * f * e.T + ACROSS * e * f.T}


def _frame(point) -> None:
    point[e], drawn = (unit_vector(point[D], point) for _ in range(2))
    rest = drawn - point[e] * (point[e].T * drawn)[0, 0]
    point[f] = rest / (rest.T * rest)[0, 0] ** mpf("0.5")  # there is none if D = 1


FRAME = satisfying(
    r"$\boldsymbol{e}$ and $\boldsymbol{f}$ are unit vectors across each other, $D\ge2$", {e.T * e: 1, f.T * f: 1, e.T * f: 0}, _frame
)
TASKS = r"A portion $p$ of the task vectors is random, the others are $r\boldsymbol{e}$"


def _in_white(polynomial: TracePolynomial) -> TracePolynomial:
    """The polynomial for white tokens and w_0 = r e, with e and f orthonormal."""
    white = substitute(polynomial, {w: LENGTH * e, w_0: LENGTH * e, Lambda: lambda_ * Identity(D)})
    return rewrite(white, {e.T * e: 1, f.T * f: 1, e.T * f: 0})


@cache
def growth_form(*, symmetric: bool) -> TracePolynomial:
    """E(y_q y_hat) of a symmetric head, or of one that turns with f."""
    head = substitute(merged_expansion(), SYMMETRIC) if symmetric else substitute(other_head(merged_expansion), TURNING)
    return _in_white(expect(y_q * head, mixed_tasks))


@cache
def five_weight_loss(law: str) -> Expr:
    """The loss of the symmetric head, a polynomial in ``FIVE``, r, lambda, D and N, under one of the ``LAWS``."""
    expand, mean = LAWS[law]
    return _in_white(substitute(mean((y_q - expand()) ** 2), SYMMETRIC)).to_sympy()


def flow_in(loss: Expr, slope=gradient) -> dict[Symbol, Expr]:
    """tau d/dt of ``FIVE``; the slope in U_2 is shared by D - 1 weights. SymPy's ``diff`` is slower, and keeps factors."""
    return {weight: -as_sympy(slope(loss, weight)) / (2 * size) for weight, size in SHARED.items()}


def growth_products():
    """The entries 11, 22 and 12 of Gamma Gamma' over lambda^4, for statements."""
    share, s = 1 - portion, portion + (1 - portion) * LENGTH**2
    rows = share**2 * LENGTH**2 * ((1 + 3 / N) ** 2 + (D - 1) / N**2) + s**2
    corner = s**2 + portion**2 * (D - 1) + share**2 * LENGTH**6
    both = share * LENGTH * ((1 + 3 / N) * s + portion * (D - 1) / N + LENGTH**2 * s)
    return rows, corner, both


def _correlation(p):
    """E(y_q y_hat) of the symmetric head over lambda^2, for statements."""
    random = v_i * (ALONG + (D - 1) * ACROSS) + ROW * COLUMN
    fixed = LENGTH * ROW * (ALONG + _fourth() / N) + LENGTH**2 * (v_i * ALONG + ROW * COLUMN) + LENGTH**3 * v_i * COLUMN
    return p * random + (1 - p) * fixed


def named(blocks, reason: str) -> tuple[Line, ...]:
    """Definitions of the blocks of a head."""
    return tuple(Line(block, ":=", value, reason) for block, value in blocks.items())


ORTHONORMAL = (
    Line(e.T * e, "=", 1, r"$\boldsymbol{e}$ has unit length"),
    Line(f.T * f, "=", 1, r"$\boldsymbol{f}$ has unit length"),
    Line(e.T * f, "=", 0, r"and is across $\boldsymbol{e}$"),
)
WHITE = (Line(Lambda, ":=", lambda_ * Identity(D), "White tokens"), Line(w_0, ":=", LENGTH * e, "The fixed task vector"))
SYMMETRIC_HEAD = (*WHITE, *named(SYMMETRIC, "The blocks of a head that is symmetric about it"))
_F = Symbol("F", real=True)  # the form of head i


def _product(form, one, other):
    """The product of two rows of Gamma, not carried out; sqrt(D - 1) U_2 is the second column."""
    columns = ((column, [Gradient(Gradient(form, row), column) for row in (one, other)]) for column in (ALONG, ACROSS, COLUMN))
    return sum(x * y / SHARED[column] for column, (x, y) in columns)


@register("V6-escape", "How fast the unreduced model leaves the origin")
@states(
    lambda: {
        "form": lambda_**2 * _correlation(portion),
        "across": lambda_**2 * ROW * (portion * COLUMN + (1 - portion) * LENGTH * ((1 + 1 / N) * ALONG + ACROSS / N)),
        **{part: lambda_**4 * square for part, square in zip(("11", "22", "12"), growth_products(), strict=True)},
    }
)
@given(TASKS, Condition(r"$p\le1$", lambda point: point[portion] <= 1), FRAME)
@note(
    r"$\boldsymbol{\Gamma}$ is the form as a matrix, rows $(a,v_i)$, columns $(U_1,\sqrt{D-1}\,U_2,m)$, and its largest singular value the "
    r"rate of growth; 11, 22 and 12 are the entries of $\boldsymbol{\Gamma\Gamma}^\top$"
)
def escape() -> Lines:
    """Near the origin tau dW/dt is the gradient of the form, so the rates of growth are its singular values."""
    form, across = (growth_form(symmetric=one).to_sympy() for one in (True, False))
    rows = {"11": (ROW, ROW), "22": (v_i, v_i), "12": (ROW, v_i)}
    squares = {part: as_sympy(carried_out(_product(form, *pair))) for part, pair in rows.items()}
    shorter = carried_out(sum(Gradient(Gradient(across, ROW), column) ** 2 for column in (ALONG, ACROSS, COLUMN)))
    yield from ORTHONORMAL
    yield from SYMMETRIC_HEAD
    yield Line(E(y_q * prediction_i, mixed_tasks), "=", form, "The correlation of the target with a symmetric head", ("C.1", 0), "form")
    yield from named(TURNING, r"The blocks of a head that turns with $\boldsymbol{f}$")
    yield Line(prediction_j, ":=", other_head(merged_expansion), "It predicts this")
    yield Line(E(y_q * prediction_j, mixed_tasks), "=", across, "Its correlation with the target", (0, 1, 2), "across")
    yield Line(_F, ":=", form, "The form of a symmetric head")
    for part, one in squares.items():
        yield Line(_product(_F, *rows[part]), "=", one, "The product of two rows of its coefficients", part=part)
    yield Line(shorter, "<=", squares["11"], "The coefficients of a head that turns are a shorter row")


def _square(gain, along, across_):
    """E of (g (s U_1 x_1 + U_2 t'x) + (a/N) x_1 x'Ux)^2, with s = e' Lambda_hat e and t the rest of Lambda_hat e, for statements."""
    second = 15 * ALONG**2 + 6 * (D - 1) * ALONG * ACROSS + (D - 1) * (D + 1) * ACROSS**2
    context = (1 + 2 / N) * along**2 + (D - 1) * across_**2 / N
    return lambda_**3 * (gain**2 * context + 2 * gain * ROW * along * _fourth() / N + ROW**2 * second / N**2)


def _fourth():
    """E[x_1^2 x'Ux] over lambda^2, for statements."""
    return 3 * ALONG + (D - 1) * ACROSS


def _odd():
    return (v_i * ALONG + ROW * COLUMN) ** 2 + (D - 1) * v_i**2 * ACROSS**2


def _losses() -> dict[str, Expr]:
    """The losses of the symmetric head, for statements."""
    random, fixed = (-2 * lambda_**2 * _correlation(p) for p in (1, 0))
    corner = v_i * COLUMN
    return {
        "random": lambda_ * D
        + random
        + _square(ROW, ALONG, ACROSS)
        + lambda_**3 * ((1 + (1 + D) / N) * _odd() + corner**2 * (1 + 2 / N) * D * (D + 2))
        + 2 * lambda_**3 * ROW * corner * (ALONG * (D + 2 / N) + D * _fourth() / N),
        "fixed": lambda_ * LENGTH**2 + fixed + _square(ROW + LENGTH * v_i, ALONG + COLUMN * LENGTH, ACROSS),
        "noise": lambda_ * LENGTH**2
        - 2 * LENGTH * (lambda_**2 * ROW * (ALONG + _fourth() / N) + lambda_ * corner)
        + _square(ROW, ALONG, ACROSS)
        + lambda_**2 * _odd() / N
        + lambda_ * corner**2 * (1 + 2 / N)
        + 2 * lambda_**2 * ROW * corner * (ALONG + _fourth() / N),
    }


@register("V6-five", "The unreduced model as five weights")
@states(
    lambda: {
        "prediction": (ROW + LENGTH * v_i) * (e.T * Lambda_hat * (_KEY + COLUMN * LENGTH * e * e.T) * x_q)
        + ROW * e.T * x_q * x_q.T * _KEY * x_q / N,
        **_losses(),
        **{weight.name: rate for weight, rate in flow_in(portion * _losses()["random"] + (1 - portion) * _losses()["fixed"], diff).items()},
    }
)
@given(TASKS, FRAME)
def five_weights() -> Lines:
    """Put the symmetric head into the moments of the unreduced model, and into its flow."""
    fixed = _in_white(substitute(merged_expansion(), {beta: Lambda_hat * w, **SYMMETRIC}))
    labels = _in_white(substitute(labels_averaged((y_q - expansion()) ** 2), SYMMETRIC))
    error, rates = (y_q - prediction_i) ** 2, flow_in(five_weight_loss("training"))
    noise = E(error, NOISE, given=(Lambda_hat, x_q))
    row, corner, along, across, column = (Rate(weight, rates) for weight in FIVE)
    moves = {value_row: row * e, v_i: corner, U_i: along * e * e.T + across * (Identity(D) - e * e.T), u_i: column * e}
    yield ORTHONORMAL[0]
    yield from SYMMETRIC_HEAD
    yield Line(E(error), "=", five_weight_loss("random"), "The loss for random tasks", ("C.1", 0), "random")
    yield Line(noise, "=", labels, "The squared error averaged over noise for labels", ("87", "28", 0))
    yield Line(E(noise), "=", five_weight_loss("noise"), "and over query and context", (0, -1), "noise")
    yield Line(w, ":=", LENGTH * e, "The fixed task")
    yield Line(prediction_i, "=", fixed, "The prediction for it", ("C.1", "30", 0), "prediction")
    yield Line(E(error, given=w), "=", five_weight_loss("fixed"), "The loss for it", ("C.1", 0), "fixed")
    for block, move in moves.items():
        yield Line(-Gradient(E(error, mixed_tasks), block) / 2, "=", move, "The flow (10) keeps the head symmetric", ("C.1", 0))
    for weight, rate in rates.items():
        yield Line(Rate(weight, rates), "=", rate, "The flow of the five weights", part=weight.name)
