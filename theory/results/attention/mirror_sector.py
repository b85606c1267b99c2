r"""How fast the zero blocks grow on the plateau, and the mirror sector of the unreduced models (T4).

Near the origin tau v_i' = Lambda^2 u_i for the vectors beside tau U_i' = v_i Lambda^2 for the main weights: rates lambda_1^2 and the norm
of Lambda^2. With v_i = 0, U_i = 0 instead of zero blocks the model is beta' (sum_i v_i u_i') x_q, a separate model of rank one without
value weights: this set is invariant too, and has the fixed functions of the separate model.
"""

from functools import cache

from sympy import Symbol, Trace, ZeroMatrix, exp, log, simplify, solve

from ...algebra.polynomial import TracePolynomial
from ...calculus.derivatives import gradient
from ...calculus.rewriting import rewrite
from ...calculus.substitution import collect, substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...expectation.moments import expect
from ...notation import B, D, H, Lambda, Lambda_hat, M, beta, e_d, gamma, k_i, lambda_, q_i, tau, v_i, vector, w_init, x_q, y_q
from ..task.regression import average_context, force
from .blocks import U_i, merged_expansion, u_i, value_row
from .zero_block_loss import B_other, full_loss
from .zero_blocks import prediction, pull

__all__ = ["exchanged_channels", "growth", "leak", "mirror_flow", "mirror_functions"]

_scale = Symbol("epsilon", positive=True)
_lambda_1 = Symbol("lambda_1", positive=True)
_b = Symbol("b_d", real=True)  # the eigenvalue of B that belongs to e_d
_a = Symbol("a_d", positive=True)
_kappa = Symbol("kappa_i", real=True)


_WEIGHTS = (value_row, u_i, v_i, U_i)


@cache
def _quadratic_part() -> TracePolynomial:
    """The terms of the loss that are of second order in all weights of one head, the others at zero."""
    scaled = substitute(full_loss(), {B_other: ZeroMatrix(D, D), **{weight: _scale * weight for weight in _WEIGHTS}})
    return collect(scaled, _scale)[2]


def _linear_flow() -> dict:
    """tau d/dt of each weight of one head, to first order in all weights."""
    return {weight: -gradient(_quadratic_part(), weight) / 2 for weight in _WEIGHTS}


@register(
    "T4-growth",
    "Growth of the zero blocks and of the main weights on the plateau",
    kind="approximation",
    section="Beside (49)",
    left={
        "row": r"\tau\dot{\boldsymbol{v}}_i",
        "u": r"\tau\dot{\boldsymbol{u}}_i",
        "v": r"\tau\dot v_i",
        "U": r"\tau\dot{\boldsymbol{U}}_i",
        "row twice": r"\tau^2\ddot{\boldsymbol{v}}_i",
        "v twice": r"\tau^2\ddot v_i",
    },
    typed=lambda: {
        "row": Lambda**2 * u_i,
        "u": Lambda**2 * value_row,
        "v": Trace(Lambda**2 * U_i),
        "U": v_i * Lambda**2,
        "row twice": Lambda**4 * value_row,
        "v twice": Trace(Lambda**4) * v_i,
    },
    conditions=(
        "To first order in all weights; the next terms are of third order",
        (
            r"So the main weights grow at the rate of the Frobenius norm of $\boldsymbol{\Lambda}^{2}$, the zero "
            r"blocks at most at $\lambda_{1}^{2}$, over $\tau$"
        ),
    ),
)
def growth() -> Derivation:
    """The part of second order in all weights of the full loss, and its gradient; then the linear flow applied to itself."""
    flow = _linear_flow()
    twice = {weight: substitute(flow[weight], flow) for weight in (value_row, v_i)}
    return Derivation.by(
        Step("The linear flow of the vector in the value matrix", flow[value_row], part="row"),
        Step("That of the vector in the key-query matrix", flow[u_i], part="u"),
        Step("That of the value weight", flow[v_i], part="v"),
        Step("That of the key-query matrix", flow[U_i], part="U"),
        Step("The flow of the zero blocks applied twice", twice[value_row], part="row twice"),
        Step("The flow of the main weights applied twice", twice[v_i], part="v twice"),
    )


_p, _n = vector("p", D), vector("n", D)


@register(
    "T4-index",
    "Index of the origin of merged attention with all blocks",
    kind="exact",
    section="Beside (14a)",
    left={
        "form": r"\left[\tfrac12\mathcal{L}_{\rm full}\right]_2",
        "diagonal": r"-\boldsymbol{v}_i^\top\boldsymbol{\Lambda}^2\boldsymbol{u}_i",
        "index": r"\operatorname{index}",
    },
    typed=lambda: {
        "form": -v_i * Trace(Lambda**2 * U_i) - Trace(Lambda**2 * u_i * value_row.T),
        "diagonal": _n.T * _n - _p.T * _p,
        "index": H * (1 + D),
    },
    conditions=(
        (
            r"The second order of half the loss in the weights of one head; heads add. $\boldsymbol{\Lambda}$ is "
            "positive definite"
        ),
        r"In the coordinates $\boldsymbol{v}_i=\boldsymbol{p}+\boldsymbol{n}$, "
        r"$\boldsymbol{u}_i=\boldsymbol{\Lambda}^{-2}(\boldsymbol{p}-\boldsymbol{n})$",
        "Each head has one negative direction in its main weights (14-index) and $D$ in its zero blocks",
    ),
)
def index_of_origin() -> Derivation:
    """A difference of squares in the zero blocks of each head, beside the one of its main weights."""
    form = _quadratic_part() / 2
    blocks = substitute(form, {v_i: 0})
    coordinates = {value_row: _p + _n, u_i: Lambda.I**2 * TracePolynomial(_p - _n)}
    negative_main, negative_blocks = 1, D
    return Derivation.by(
        Step("Half the loss to second order in all weights of one head", form, part="form"),
        Step("Its zero blocks in the new coordinates", substitute(blocks, coordinates), part="diagonal"),
        Step("Negative directions of all heads", H * (negative_main + negative_blocks), part="index"),
    )


@register(
    "T4-leak",
    "Size of the zero blocks after the plateau, when they start at the same scale",
    kind="approximation",
    section="Beside (51)",
    left=r"\|\boldsymbol{v}_i\|",
    typed=lambda: w_init ** (1 - _lambda_1**2 / gamma),
    conditions=(
        (
            r"$\gamma$ is the Frobenius norm of $\boldsymbol{\Lambda}^{2}$; the plateau (51) ends at $\tau/\gamma "
            r"\ln(1/w_{\rm init})$ up to a time independent of $w_{\rm init}$"
        ),
        (
            r"So up to a factor that does not depend on $w_{\rm init}$; for one dominant eigenvalue the blocks hardly "
            r"shrink with $w_{\rm init}$"
        ),
    ),
)
def leak() -> Derivation:
    """Growth at the rate lambda_1^2/tau for the length of the plateau."""
    plateau = tau / gamma * log(1 / w_init)
    size = w_init * exp(_lambda_1**2 * plateau / tau)
    return Derivation.by(
        Step("Length of the plateau, equation (51)", plateau),
        Step(r"The blocks grow from $w_{\rm init}$ at the rate $\lambda_{1}^{2}/\tau$", size),
        Step(r"As a power of $w_{\rm init}$", simplify(size)),
    )


_MIRROR = {v_i: 0, U_i: ZeroMatrix(D, D), prediction: beta.T * B * x_q}


def _mirror_flow(weight) -> TracePolynomial:
    there = substitute(pull(merged_expansion(), weight), _MIRROR)
    return average_context(expect(there, given=Lambda_hat))


@register(
    "T4-mirror",
    "The mirror sector of merged attention with all blocks",
    kind="exact",
    section="Beside (7)",
    left={
        "v": r"\tau\dot v_i",
        "U": r"\tau\dot{\boldsymbol{U}}_i",
        "row": r"\tau\dot{\boldsymbol{v}}_i",
        "u": r"\tau\dot{\boldsymbol{u}}_i",
    },
    typed=lambda: {
        "v": 0,
        "U": ZeroMatrix(D, D),
        "row": (Lambda**2 - M * B * Lambda) * u_i,
        "u": (Lambda**2 - Lambda * B.T * M) * value_row,
    },
    conditions=(
        (
            r"$v_{j} = 0$ and $\boldsymbol{U}_{j} = 0$ in every head, so that $\boldsymbol{B}$ is the sum of "
            r"$\boldsymbol{v}_j \boldsymbol{u}_{j}^{\top}$ over all heads"
        ),
    ),
)
def mirror_flow() -> Derivation:
    """The flow of the unreduced model on the mirror sector, for all heads at once."""
    return Derivation.by(
        Step("The prediction of one head there", substitute(merged_expansion(), {v_i: 0, U_i: ZeroMatrix(D, D)})),
        Step("The value weight does not move", _mirror_flow(v_i), part="v"),
        Step("Nor does the key-query matrix", _mirror_flow(U_i), part="U"),
        Step("The vector in the value matrix is a key", _mirror_flow(value_row), part="row"),
        Step("The vector in the key-query matrix is a query", _mirror_flow(u_i), part="u"),
    )


@register(
    "T4-functions",
    "Fixed functions of the mirror sector",
    kind="exact",
    section="Beside (7) and Section 3.2",
    left={"force": r"\boldsymbol{G}\boldsymbol{e}_d", "level": "b_d"},
    typed=lambda: {"force": (lambda_**2 - _a * _b * lambda_) * e_d, "level": lambda_ / _a},
    conditions=(
        r"$\boldsymbol{B} \boldsymbol{e}_{d} = b_{d} \boldsymbol{e}_{d}$; $a_{d}$ is the eigenvalue (32)",
        (
            r"A head with both vectors equal to $\sqrt{b_d}\,\boldsymbol{e}_d$ rests where $\boldsymbol{G} "
            r"\boldsymbol{e}_{d} = 0$"
        ),
        (
            r"One head for each $d$ in $S$, and the others zero: with $H \ge D$ all $2^{D}$ functions of the separate "
            "model are fixed"
        ),
    ),
    erratum=r"Two fixed points are a property of $(\mathrm{M})$: with all blocks, (7) has at least the fixed "
    r"functions of the separate model.",
)
def mirror_functions() -> Derivation:
    """The force on an eigenvector of Lambda and B, and the level at which it vanishes."""
    rules = {Lambda * e_d: lambda_ * e_d, M * e_d: _a * e_d, B * e_d: _b * e_d}
    acted = rewrite(force() * e_d, rules)
    value = rewrite(e_d.T * acted, {e_d.T * e_d: 1}).to_sympy()
    (level,) = solve(value, _b)
    return Derivation.by(
        Step("The force (53)", force(), r"\boldsymbol{G}"),
        Step("On an eigenvector", acted, part="force"),
        Step("It vanishes at the level", level, part="level"),
    )


@register(
    "T4-separate",
    "The early flow of separate attention does not tell the two channels apart",
    kind="exact",
    section="Beside Appendix E.1",
    left={
        "third": r"\left[\mathcal{L}_{\rm full}\right]_3",
        "exchanged": r"\left[\mathcal{L}_{\rm full}\right]_3\big|_{(v_i,\boldsymbol{k}_i)\leftrightarrow(\kappa_i,\boldsymbol{v}_i)}",
    },
    typed=lambda: {
        "third": -2 * (v_i * k_i.T + _kappa * value_row.T) * Lambda**2 * q_i,
        "exchanged": -2 * (v_i * k_i.T + _kappa * value_row.T) * Lambda**2 * q_i,
    },
    conditions=(r"Rank one, $\kappa_i$ the scalar of the key; lowest order in the weights, the next is the sixth; heads add",),
)
def exchanged_channels() -> Derivation:
    """The lowest order of the loss in all weights of a head, and the same with the two channels exchanged."""
    head = substitute(merged_expansion(), {U_i: k_i * q_i.T, u_i: _kappa * q_i})
    weights = (v_i, k_i, q_i, _kappa, value_row)
    loss = substitute(expect((y_q - head) ** 2), {weight: _scale * weight for weight in weights})
    orders = collect(loss, _scale)
    if list(orders) != [0, 3, 6]:
        raise ArithmeticError(f"the loss has the orders {list(orders)} in the weights")
    exchanged = substitute(orders[3], {v_i: _kappa, _kappa: v_i, k_i: value_row, value_row: k_i})
    return Derivation.by(
        Step("The terms of third order in the weights of one head", orders[3], part="third"),
        Step(r"The same with ($v_i$, $\boldsymbol{k}_i$) and ($\kappa_i$, $\boldsymbol{v}_i$) exchanged", exchanged, part="exchanged"),
    )
