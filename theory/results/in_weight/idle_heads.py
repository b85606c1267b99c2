r"""What a finite training set does to idle heads at the end of training (V6-idle): why zero blocks end at P^(-1/4).

The heads enter through sum_i nu_i W_i, with nu_i = (v_i, v_i), a vector and a scalar, and W_i = (U_i; u_i'), so they may be rotated until
one of them is active, with the map of the population, and the others idle. On P sequences what the active head leaves of the labels
correlates with the prediction of a pair of unit weights by P^(-1/2) g. Along such a pair an idle head, zero at first, grows until its own
curvature stops it. Its map is alpha^2, of the order of that force; its weights are alpha each, of the order of the root of it.
"""

from sympy import Expr, Matrix, Poly, S, Symbol, ZeroMatrix, cancel, solve, sqrt

from ...algebra.polynomial import TracePolynomial
from ...calculus.entrywise import explicit
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import D, Lambda_hat, N, beta, v_i, vector, w, x_q, y_q
from ..attention.blocks import U_i, merged_expansion, u_i, value_row
from ..attention.zero_blocks import prediction, pull

__all__ = ["CURVATURE", "FORCE", "SEQUENCES"]

FORCE, CURVATURE, SEQUENCES = (Symbol(name, positive=True) for name in ("g", "kappa", "P"))
_alpha = Symbol("alpha", positive=True)
_left = Symbol("rho", real=True)  # what the active head leaves
_pair = Symbol("phi", real=True)  # the pair's prediction
_row, _column = vector("b", D), vector("c", D)
_a, _v, _U, _u = (Symbol(name, real=True) for name in ("a", "v", "U", "u"))  # a head in one dimension


def _made_by(row, v, U, u) -> TracePolynomial:
    """The prediction of one head."""
    return substitute(merged_expansion(), {value_row: row, v_i: v, U_i: U, u_i: u})


def _form_in_one_dimension() -> tuple[Expr, Expr, Expr]:
    """What one head makes of the entries (x, x), (x, y) and (y, y) of the Gram matrix, where D = 1."""
    s, b, task, x = (Symbol(name, real=True) for name in ("s", "b", "w", "x"))
    numbers = {value_row: _a, U_i: _U, u_i: _u, Lambda_hat: s, beta: b, w: task, x_q: x}
    values = {letter: Matrix([[number]]) for letter, number in numbers.items()}
    head = explicit(substitute(merged_expansion(), {v_i: _v}), values=values, D=1)
    tokens, cross, label = head.subs({b: 0, task: 0}), head.diff(b), head.diff(task, 2) / 2
    return cancel(tokens / (s * x + x**3 / N)), cancel(cross / x), cancel(label / (s * x))


def _flow() -> Expr:
    """tau d alpha/dt of a pair (alpha l, alpha R), two weights in one: minus a quarter of the slope of the mean squared error."""
    error = Poly((_left - _alpha**2 * _pair) ** 2, _left, _pair)
    force, curvature = error.coeff_monomial(_left * _pair), error.coeff_monomial(_pair**2)
    return -(force * FORCE / sqrt(SEQUENCES) + curvature * CURVATURE).diff(_alpha) / 4


@register(
    "V6-idle",
    "Idle heads on a finite training set",
    kind="approximation",
    section="beyond the paper",
    left={
        "row and column": r"\hat y_q\,[\boldsymbol{v}_j=\boldsymbol{b},\boldsymbol{u}_j=\boldsymbol{c}]",
        "corner": r"\hat y_q\,[v_j=1,\boldsymbol{U}_j=\boldsymbol{bc}^\top]",
        "one direction": r"\chi_{xy}^2-4\chi_{xx}\chi_{yy}",
        "at rest": r"-\tfrac12\left(\boldsymbol{v}_i^\top\partial_{\boldsymbol{v}_i}+v_i\partial_{v_i}\right)(y_q-\hat y_q)^2",
        "flow": r"\tau\dot\alpha",
        "rate": r"\tau\dot\alpha/\alpha\,|_{\alpha\to0}",
        "size": r"\alpha",
    },
    typed=lambda: {
        "row and column": _row.T * beta * _column.T * x_q,
        "corner": _row.T * beta * _column.T * x_q,
        "one direction": (_v * _U - _a * _u) ** 2,
        "at rest": (y_q - prediction)
        * (
            value_row.T * ((Lambda_hat + x_q * x_q.T / N) * U_i + beta * u_i.T) * x_q
            + v_i * (beta.T * U_i + w.T * Lambda_hat * w * u_i.T) * x_q
        ),
        "flow": FORCE * SEQUENCES ** (-S.Half) * _alpha - CURVATURE * _alpha**3,
        "rate": FORCE * SEQUENCES ** (-S.Half),
        "size": sqrt(FORCE / CURVATURE) * SEQUENCES ** (-S(1) / 4),
    },
    conditions=(
        (
            "Merged attention on $P$ sequences, to leading order in $P^{-1/2}$; at least two heads, for one of them "
            "is active, and $D$ at least 2"
        ),
        (
            "The active head has brought the force on its own pairs to zero: by the first two that on pairs with a "
            r"column $\boldsymbol{u}_{j}$ too, to that order; what moves idle heads is the force on pairs of a row "
            r"$\boldsymbol{v}_j$ and a matrix $\boldsymbol{U}_j$"
        ),
        (
            r"One direction: a head $(a,v,U,u)$ makes $\chi_{xx}$, $\chi_{xy}$, $\chi_{yy}$ of the three entries of "
            "the Gram matrix; so for $D = 1$ one head fits any large set as well as all heads can, and nothing is "
            "left to move the others"
        ),
        (
            "At rest: the left side is zero on average over the set. Summed over idle heads with the prediction $m$ "
            r"that is $\mathbb{E}(\rho m) = \mathbb{E}(m^{2})$, where $\rho$ is what the active head leaves, so $m$ "
            "is at most of the order of the force, $P^{-1/2}$"
        ),
        r"Flow: an idle head $\nu_j=\alpha\boldsymbol{l}$, $\boldsymbol{W}_j=\alpha\boldsymbol{R}$ with "
        r"$|\boldsymbol{l}|=|\boldsymbol{R}|=1$, balanced as by (17); $g P^{-1/2}=\mathbb{E}(\rho\phi)$, "
        r"$\kappa=\mathbb{E}(\phi^2)$ for the prediction $\phi$ of $\boldsymbol{l}$ and $\boldsymbol{R}$, less what the active head "
        "can make up for to first order",
        (
            r"So the rows $\boldsymbol{v}_j$ of idle heads end at $P^{-1/4}$, after a time of $P^{1/2} \tau/g "
            r"\ln(1/\alpha(0))$, if they start well below that; the columns $\boldsymbol{u}_{j}$ stay at $P^{-1/2}$, "
            "and with one head or $D = 1$ so do all blocks"
        ),
    ),
)
def idle_heads() -> Derivation:
    """Two ways to one map; the form of a head in one dimension; Euler's identity; and a mean squared error along one pair."""
    nothing, square = ZeroMatrix(D, 1), ZeroMatrix(D, D)
    tokens, cross, label = _form_in_one_dimension()
    head = merged_expansion()
    along = (value_row.T * pull(head, value_row)) + v_i * pull(head, v_i)
    flow = _flow()
    (size,) = solve(flow, _alpha)
    return Derivation.by(
        Step("A head with a row and a column", _made_by(_row, 0, square, _column), part="row and column"),
        Step("A head with a corner and a matrix", _made_by(nothing, 1, _row * _column.T, nothing), part="corner"),
        *(
            Step("A head's form in one dimension", one, name)
            for one, name in ((tokens, r"\chi_{xx}"), (cross, r"\chi_{xy}"), (label, r"\chi_{yy}"))
        ),
        Step("Its discriminant", cross**2 - 4 * tokens * label, part="one direction"),
        Step("The value weights times the slopes: a head is linear in them", along, part="at rest"),
        Step(r"Minus a quarter of the slope of the mean of $(\rho - \alpha^{2} \phi)^{2}$", flow, part="flow"),
        Step(r"Its rate while $\alpha$ is small", (flow / _alpha).expand().subs(_alpha, 0), part="rate"),
        Step("Where it rests", size, part="size"),
    )
