r"""Landscape of merged attention: the fixed points (14), and why those of the zero function are strict saddles of index H.

With e = E(y_q z) - E(zz') W_1' w_2, the flow (13) rests where w_2 e' = 0 and W_1 e = 0: either e = 0, the global minimum, or w_2 = 0 and
then W_1 E(y_q z) = 0, which is more than the paper's w_2 = 0, W_1 = 0.
"""

from functools import cache

from sympy import Symbol, Trace, ZeroMatrix, expand

from ...algebra.polynomial import TracePolynomial
from ...calculus.derivatives import hessian_form
from ...calculus.rewriting import rewrite
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import W_1, D, H, Lambda, Lambda_q, c_hat, gamma, matrix, vector, w_2
from ..attention.blocks import U_i
from ..attention.equivalent_networks import AT, COVARIANCE, CROSS, FEATURES, flow_of_layers
from ..attention.kronecker import vec_entry, vec_times_vec

__all__ = ["half_loss"]

_e = vector("e", FEATURES)  # E[(y_q - y_hat) z]
_m = vector("m", FEATURES)  # W_1' w_2

_dw, _dW = (vector("dw_2", H, latex=r"\delta\boldsymbol{w}_2"), matrix("dW_1", H, FEATURES, latex=r"\delta\boldsymbol{W}_1"))
_unseen = matrix("W_0", H, FEATURES)  # the part of delta W_1 that vanishes on E(y_q z)
_plus, _minus = vector("p", H), vector("n", H)


def _by_error(flow) -> TracePolynomial:
    """The flow (13) in terms of e: E(y_q z) is e + E(zz') W_1' w_2."""
    return substitute(flow, {CROSS: _e + COVARIANCE * W_1.T * w_2})


@register(
    "14a",
    "Fixed points with the zero function",
    kind="exact",
    section="Section 3.2",
    left={
        "a": r"\tau\dot{\boldsymbol{W}}_1",
        "b": r"\tau\dot{\boldsymbol{w}}_2",
        "w": r"\tau\dot{\boldsymbol{W}}_1\boldsymbol{e}",
        "W": r"\tau\dot{\boldsymbol{w}}_2\big|_{\boldsymbol{w}_2=0}",
        "head": r"\tau\dot v_i\big|_{\boldsymbol{w}_2=0}",
    },
    typed=lambda: {"a": w_2 * _e.T, "b": W_1 * _e, "w": (_e.T * _e) * w_2, "W": W_1 * CROSS, "head": Trace(U_i.T * Lambda * Lambda_q)},
    conditions=(
        (
            r"$\boldsymbol{e} = \mathbb{E}(y_{q} \boldsymbol{z}) - \mathbb{E}(\boldsymbol{z} \boldsymbol{z}^{\top}) "
            r"\boldsymbol{W}_{1}^{\top} \boldsymbol{w}_{2}$; the flow of $\boldsymbol{W}_{1}$ vanishes only if "
            r"$\boldsymbol{e} = 0$ or $\boldsymbol{w}_{2} = 0$, as its product with $\boldsymbol{e}$ shows"
        ),
        (
            r"So the zero-function set is $\boldsymbol{w}_{2} = 0$ and $\boldsymbol{W}_{1} \mathbb{E}(y_{q} "
            r"\boldsymbol{z}) = 0$: $v_{i} = 0$ and $\operatorname{tr}(\boldsymbol{U}_{i}^{\top} \boldsymbol{\Lambda} "
            r"\boldsymbol{\Lambda}_{q}) = 0$ in every head"
        ),
    ),
    erratum=(
        r"The paper has $\boldsymbol{w}_{2} = 0$ and $\boldsymbol{W}_{1} = 0$, which is one point of this set "
        "of dimension $H(D^2-1)$"
    ),
)
def zero_function_set() -> Derivation:
    """The flow in terms of the error; the case e != 0."""
    first, second = map(_by_error, flow_of_layers())
    at_zero = substitute(flow_of_layers()[1], {w_2: ZeroMatrix(H, 1)})
    head = vec_times_vec(vec_entry(U_i), vec_entry(Lambda * Lambda_q), AT)
    return Derivation.by(
        Step("The flow (13a)", first, part="a"),
        Step("The flow (13b)", second, part="b"),
        Step(
            (
                r"If the first vanishes, so does its product with $\boldsymbol{e}$: $\boldsymbol{w}_{2} = 0$ unless "
                r"$\boldsymbol{e} = 0$"
            ),
            first * _e,
            part="w",
        ),
        Step(r"The flow of $\boldsymbol{w}_{2}$ where $\boldsymbol{w}_{2} = 0$", at_zero, part="W"),
        Step(
            (
                r"Its entry for one head, with $\mathbb{E}(y_{q} \boldsymbol{z}) = "
                r"\operatorname{vec}(\boldsymbol{\Lambda} \boldsymbol{\Lambda}_{q})$, equation (41)"
            ),
            head,
            part="head",
        ),
    )


@register(
    "14b",
    "Global minimum",
    kind="exact",
    section="Section 3.2",
    left={
        "row": r"\boldsymbol{w}_2^\top\boldsymbol{W}_1",
        "a": r"\tau\dot{\boldsymbol{W}}_1",
        "b": r"\tau\dot{\boldsymbol{w}}_2",
        "loss": r"\mathcal{L}-\mathcal{L}(\mathcal{M}_*)",
        "stable": r"\delta^2\left(\tfrac12\mathcal{L}\right)",
    },
    typed=lambda: {
        "row": CROSS.T * COVARIANCE.I,
        "a": ZeroMatrix(H, FEATURES),
        "b": ZeroMatrix(H, 1),
        "loss": (_m - COVARIANCE.I * CROSS).T * COVARIANCE * (_m - COVARIANCE.I * CROSS),
        "stable": (W_1.T * _dw + _dW.T * w_2).T * COVARIANCE * (W_1.T * _dw + _dW.T * w_2),
    },
    conditions=(
        (
            r"$\mathbb{E}(\boldsymbol{z} \boldsymbol{z}^{\top})$ is invertible: $\boldsymbol{\Lambda}$ and "
            r"$\boldsymbol{\Lambda}_{q}$ positive definite"
        ),
        (
            r"The loss with $\boldsymbol{m} = \boldsymbol{W}_{1}^{\top} \boldsymbol{w}_{2}$: "
            r"$\mathbb{E}(\boldsymbol{z} \boldsymbol{z}^{\top})$ is positive definite, so this is the global minimum, "
            "also of (7) by the split (T4)"
        ),
    ),
)
def global_minimum() -> Derivation:
    """Solve e = 0 for the row of the network; the loss is a square around it."""
    solution = COVARIANCE.I * TracePolynomial(CROSS - _e)  # of e = E(y_q z) - E(zz') m
    row = substitute(solution.T, {_e: ZeroMatrix(FEATURES, 1)})
    at_row = [rewrite(flow, {w_2.T * W_1: row}) for flow in flow_of_layers()]
    loss = -2 * (CROSS.T * _m) + _m.T * COVARIANCE * _m  # E(y_q - m' z)^2 less E(y_q^2)
    minimum = substitute(loss, {_m: row.T})
    form = substitute(hessian_form(half_loss(), {w_2: _dw, W_1: _dW}), {CROSS: COVARIANCE * W_1.T * w_2})
    return Derivation.by(
        Step(
            (
                r"The row $\boldsymbol{m}$ of the network, from $\boldsymbol{e} = \mathbb{E}(y_{q} \boldsymbol{z}) - "
                r"\mathbb{E}(\boldsymbol{z} \boldsymbol{z}^{\top}) \boldsymbol{m}$"
            ),
            solution,
            r"\boldsymbol{m}",
        ),
        Step(r"With $\boldsymbol{e} = 0$", row, part="row"),
        Step("There the flow (13a) vanishes", at_row[0], part="a"),
        Step("And the flow (13b)", at_row[1], part="b"),
        Step(r"The loss less $\mathbb{E}(y_{q}^{2})$", loss),
        Step("Less its value at the solution", loss - minimum, part="loss"),
        Step(
            (
                r"The second variation there, where $\mathbb{E}(y_{q} \boldsymbol{z}) = \mathbb{E}(\boldsymbol{z} "
                r"\boldsymbol{z}^{\top}) \boldsymbol{W}_{1}^{\top} \boldsymbol{w}_{2}$: it is never negative"
            ),
            form,
            part="stable",
        ),
    )


@cache
def half_loss() -> TracePolynomial:
    """F = L/2 of w_2' W_1 z, less the constant E(y_q^2)/2."""
    square = TracePolynomial(w_2.T * W_1 * COVARIANCE * W_1.T * w_2)
    return square / 2 - TracePolynomial(w_2.T * W_1 * CROSS)


def _length() -> TracePolynomial:
    """The squared length of a displacement of all weights."""
    return TracePolynomial(_dw.T * _dw) + TracePolynomial(Trace(_dW * _dW.T))


@register(
    "14-index",
    "Every zero-function fixed point is a strict saddle of index $H$",
    kind="exact",
    section="Beside (14a)",
    left={
        "form": r"\delta^2\left(\tfrac12\mathcal{L}\right)",
        "diagonal": r"\delta^2\left(\tfrac12\mathcal{L}\right)",
        "origin": r"\frac{\delta^2(\frac12\mathcal{L})}{\|\delta\boldsymbol{w}_2\|^2+\|\delta\boldsymbol{W}_1\|^2}",
        "bound": r"\delta^2\left(\tfrac12\mathcal{L}\right)+\gamma\left(\|\delta\boldsymbol{w}_2\|^2+\|\delta\boldsymbol{W}_1\|^2\right)",
        "dimension": r"\dim\mathcal{M}_0",
    },
    typed=lambda: {
        "form": _dw.T * W_1 * COVARIANCE * W_1.T * _dw - 2 * (_dw.T * _dW * CROSS),
        "diagonal": (_plus.T * _plus - _minus.T * _minus) / 2,
        "origin": -gamma,
        "bound": gamma * (Trace((_dw - _dW * c_hat) * (_dw - _dW * c_hat).T) + Trace(_dW * _dW.T) - Trace(_dW * c_hat * c_hat.T * _dW.T)),
        "dimension": H * (D**2 - 1),
    },
    conditions=(
        (
            r"At $\boldsymbol{w}_{2} = 0$, $\boldsymbol{W}_{1} \mathbb{E}(y_{q} \boldsymbol{z}) = 0$, any number $H$ "
            r"of heads; $\mathbb{E}(y_{q} \boldsymbol{z}) = \gamma\hat{\boldsymbol{c}}$ with a unit vector "
            r"$\hat{\boldsymbol{c}}$"
        ),
        (
            r"Diagonal in the coordinates $\boldsymbol{p}$, $\boldsymbol{n}$ of size $H$ and $\boldsymbol{W}_0$ with "
            r"$\boldsymbol{W}_0\hat{\boldsymbol{c}}=0$: exactly $H$ negative and $H$ positive directions"
        ),
        r"Steepest at the origin: $\delta\boldsymbol{w}_2=\boldsymbol{n}$, "
        r"$\delta\boldsymbol{W}_1=\boldsymbol{n}$ times the row of $\hat{\boldsymbol{c}}$, in units of the length",
    ),
)
def index_of_saddle() -> Derivation:
    """The second variation; a linear change of coordinates makes it a difference of squares."""
    form = substitute(hessian_form(half_loss(), {w_2: _dw, W_1: _dW}), {w_2: ZeroMatrix(H, 1)})
    along = substitute(form, {CROSS: gamma * c_hat})
    rules = {c_hat.T * c_hat: 1, _unseen * c_hat: ZeroMatrix(H, 1)}
    a = TracePolynomial(_plus + _minus) / 2
    coupling = (W_1 * COVARIANCE * W_1.T * a + TracePolynomial(_minus - _plus)) / (2 * TracePolynomial(gamma))
    diagonal = rewrite(substitute(along, {_dw: a, _dW: _unseen + coupling * c_hat.T}), rules)
    origin = substitute(along, {W_1: ZeroMatrix(H, FEATURES), _dw: _minus, _dW: _minus * c_hat.T})
    square = Symbol("s", positive=True)  # n'n
    length = substitute(_length(), {_dw: _minus, _dW: _minus * c_hat.T})
    ratio = rewrite(origin, {**rules, _minus.T * _minus: square}) / rewrite(length, {**rules, _minus.T * _minus: square})
    above = substitute(along, {W_1: ZeroMatrix(H, FEATURES)}) + gamma * _length()
    negative = positive = H
    free = H * FEATURES + H - positive - negative
    return Derivation.by(
        Step(r"The second variation at $\boldsymbol{w}_{2} = 0$", form, part="form"),
        Step(r"$\delta \boldsymbol{w}_{2}$ in the new coordinates", a),
        Step(r"$\delta \boldsymbol{W}_{1}$ in the new coordinates", _unseen + coupling * c_hat.T),
        Step("The form in the new coordinates", diagonal, part="diagonal"),
        Step("At the origin along the steepest descent, over the squared length", ratio, part="origin"),
        Step(
            (
                r"No direction is worse: the form at the origin plus $\gamma$ times the squared length, a sum of "
                "squares"
            ),
            above,
            part="bound",
        ),
        Step("Directions in which it is flat: all but $2H$, the dimension of the set itself", expand(free), part="dimension"),
    )
