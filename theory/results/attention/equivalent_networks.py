r"""The equivalent linear networks: (11)-(13), (17), the convolutional form of Section 4.1, as identities of the output and of its gradient.

Merged attention is w_2' W_1 z with the cubic feature z = vec(beta x_q'): the rows of W_1 are vec(U_i)', the entries of w_2 the v_i. Letters
of width H and of D^2 columns are symbols; a head is split off the stack as its last row.
"""

from functools import cache

from sympy import BlockMatrix, ZeroMatrix

from ...algebra.polynomial import TracePolynomial
from ...calculus.derivatives import gradient
from ...calculus.rewriting import block_product, rewrite
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import define, register
from ...expectation.index_sums import sum_over
from ...expectation.laws import Fixed, Gaussian
from ...expectation.moments import expect
from ...notation import B, D, H, MatrixLetter, beta, matrix, prediction, symmetric_matrix, tau, v_i, vector, x_q, y_q
from .blocks import U_i
from .kronecker import index, vec_entry, vec_times_vec

__all__ = ["COVARIANCE", "CROSS", "FEATURES", "W_1", "feature", "flow_of_layers", "w_2", "z"]

FEATURES = D**2
W_1, w_2 = matrix("W_1", H, FEATURES), vector("w_2", H)
z = vector("z", FEATURES)
CROSS = vector("E(y_q z)", FEATURES, latex=r"\mathbb{E}(y_q\boldsymbol{z})")
COVARIANCE = symmetric_matrix("E(zz')", FEATURES, latex=r"\mathbb{E}(\boldsymbol{z}\boldsymbol{z}^\top)")

AT, OTHER = index("1", D, D), index("2", D, D)
_k_i, _q_i = vector("k_i", D), vector("q_i", D)

# A stack of heads, and the last one of them
_row = vector("vec(U_i)", FEATURES, latex=r"\operatorname{vec}(\boldsymbol{U}_i)")
_W_other = matrix("W_other", H - 1, FEATURES, latex=r"\boldsymbol{W}_{\rm other}")
_w_other = vector("w_other", H - 1, latex=r"\boldsymbol{w}_{\rm other}")


def feature(at) -> TracePolynomial:
    """The entry of z = vec(beta x_q')."""
    return vec_entry(beta * x_q.T)(at)


define(
    "12",
    "The equivalent network and its cubic feature",
    section="Section 3.1",
    left={"w": r"\boldsymbol{w}_2", "W": r"\boldsymbol{W}_1", "z": "z_1"},
    typed=lambda: {
        "w": BlockMatrix([[_w_other], [MatrixLetter("v_i", 1, 1, "v_i")]]),
        "W": BlockMatrix([[_W_other], [_row.T]]),
        "z": (AT[0].T * x_q) * (AT[1].T * beta),
    },
    conditions=(
        (
            r"One entry $v_{i}$ of $\boldsymbol{w}_{2}$ and one row $\operatorname{vec}(\boldsymbol{U}_{i})^{\top}$ "
            r"of $\boldsymbol{W}_{1}$ for each head; the last head is shown beside the others"
        ),
        (
            r"$\boldsymbol{z} = \operatorname{vec}(\boldsymbol{\beta} \boldsymbol{x}_{q}^{\top}) = \boldsymbol{x}_{q} "
            r"\otimes \boldsymbol{\beta}$, columns stacked; its entry at the index 1 $=(\boldsymbol{c}_1, "
            r"\boldsymbol{e}_1)$"
        ),
        "With rows stacked, as flatten does, the factors of every Kronecker product are exchanged",
    ),
)


@register(
    "11",
    "Merged attention is a two-layer linear network on cubic features",
    kind="exact",
    section="Section 3.1",
    left={
        "head": r"v_i\operatorname{vec}(\boldsymbol{U}_i)^\top\operatorname{vec}(\boldsymbol{\beta}\boldsymbol{x}_q^\top)",
        "stack": r"\boldsymbol{w}_2^\top\boldsymbol{W}_1\boldsymbol{z}",
    },
    typed=lambda: {
        "head": v_i * beta.T * U_i * x_q,
        "stack": _w_other.T * _W_other * z + v_i * _row.T * z,
    },
    conditions=("Any number $H$ of heads: the last is split off, then the next",),
)
def equivalent_network() -> Derivation:
    """The scalar product of two vecs, and one row of the stack after another."""
    outer = TracePolynomial(beta * x_q.T)
    stack = block_product(((_w_other.T, v_i),), ((_W_other,), (_row.T,)), ((z,),))[0][0]
    return Derivation.by(
        Step(r"The entry of $\boldsymbol{z}$", feature(AT), r"z_1"),
        Step(
            r"Summed with the entries of $\operatorname{vec}(\boldsymbol{U}_{i})$",
            v_i * vec_times_vec(vec_entry(U_i), vec_entry(outer), AT),
            part="head",
        ),
        Step("The output of the network, with the last head split off", stack, part="stack"),
    )


@register(
    "11-gradient",
    "The network and merged attention have the same gradient",
    kind="exact",
    section="Section 3.1",
    left={
        "U": r"\operatorname{vec}\left(-\tfrac12\partial_{\boldsymbol{U}_i}(y_q-\hat y_q)^2\right)_1",
        "row": r"\left(-\tfrac12\partial_{\operatorname{vec}(\boldsymbol{U}_i)}(y_q-\hat y_q)^2\right)_1",
        "v attention": r"-\tfrac12\partial_{v_i}(y_q-\hat y_q)^2",
        "v network": r"-\tfrac12\partial_{v_i}(y_q-\hat y_q)^2",
    },
    typed=lambda: {
        "U": v_i * (y_q - prediction) * (AT[0].T * x_q) * (AT[1].T * beta),
        "row": v_i * (y_q - prediction) * (AT[0].T * x_q) * (AT[1].T * beta),
        "v attention": (y_q - prediction) * (beta.T * U_i * x_q),
        "v network": (y_q - prediction) * (beta.T * U_i * x_q),
    },
    conditions=("For each sequence, so for any loss of the error, any initialization and any optimizer",),
)
def equal_gradients() -> Derivation:
    """The gradient of each model in its own weights; the same entries."""
    attention, network = v_i * beta.T * U_i * x_q, v_i * _row.T * z
    unit = vector("f_1", FEATURES)  # reads the entry 1 of a vector of features
    in_row = TracePolynomial(unit.T) * _error_slope(network, _row)
    by_value = _error_slope(network, v_i)
    return Derivation.by(
        Step(
            r"The gradient by $\boldsymbol{U}_{i}$, at one entry", vec_entry(_error_slope(attention, U_i))(AT), part="U"
        ),
        Step(r"The gradient by the row of $\boldsymbol{W}_{1}$", _error_slope(network, _row)),
        Step(
            r"Its entry, with the entry of $\boldsymbol{z}$ put in",
            rewrite(in_row, {unit.T * z: feature(AT)}),
            part="row",
        ),
        Step("The gradient of attention by $v_{i}$", _error_slope(attention, v_i), part="v attention"),
        Step(
            "The gradient of the network by $v_{i}$, with equation (11)",
            rewrite(by_value, {_row.T * z: vec_times_vec(vec_entry(U_i), feature, AT)}),
            part="v network",
        ),
    )


def _error_slope(head, weight) -> TracePolynomial:
    """Minus half the gradient of (y_q - y_hat)^2 in a weight of one head, by the chain rule of (10)."""
    return (TracePolynomial(y_q) - prediction) * gradient(head, weight)


@cache
def flow_of_layers() -> tuple[TracePolynomial, TracePolynomial]:
    """tau dW_1/dt and tau dw_2/dt of w_2' W_1 z, with E(y_q z) and E(zz') as letters: only these two moments enter."""
    laws = (Gaussian(z, covariance=COVARIANCE), Fixed(y_q, CROSS.T * COVARIANCE.I * z))
    error = (y_q - w_2.T * W_1 * z) ** 2
    first, second = (expect(-gradient(error, weight) / 2, laws) for weight in (W_1, w_2))
    return first, second


@register(
    "13",
    "Gradient flow of merged attention",
    kind="exact",
    section="Section 3.2",
    left={"a": r"\tau\dot{\boldsymbol{W}}_1", "b": r"\tau\dot{\boldsymbol{w}}_2"},
    typed=lambda: {
        "a": w_2 * (CROSS.T - w_2.T * W_1 * COVARIANCE),
        "b": W_1 * (CROSS.T - w_2.T * W_1 * COVARIANCE).T,
    },
    conditions=(r"Any number $H$ of heads; any law of the data with these moments of $\boldsymbol{z}$ and $y_{q}$",),
)
def flow_of_merged_attention() -> Derivation:
    """The gradient of one squared error is of second degree in (y_q, z): two moments are all that enters."""
    first, second = flow_of_layers()
    error = (y_q - w_2.T * W_1 * z) ** 2
    return Derivation.by(
        Step(r"Minus half the gradient by $\boldsymbol{W}_{1}$ for one sequence", -gradient(error, W_1) / 2),
        Step("Averaged", first, part="a"),
        Step(r"Minus half the gradient by $\boldsymbol{w}_{2}$ for one sequence", -gradient(error, w_2) / 2),
        Step("Averaged", second, part="b"),
    )


_slope = vector("g", FEATURES)  # the gradient of any loss in the row w_2' W_1


@register(
    "17",
    "Conservation law of merged attention",
    kind="exact",
    section="Section 3.5",
    left={
        "second": r"\tfrac{d}{dt}\,\boldsymbol{w}_2\boldsymbol{w}_2^\top",
        "first": r"\tfrac{d}{dt}\,\boldsymbol{W}_1\boldsymbol{W}_1^\top",
        "difference": r"\tfrac{d}{dt}\left(\boldsymbol{w}_2\boldsymbol{w}_2^\top-\boldsymbol{W}_1\boldsymbol{W}_1^\top\right)",
    },
    typed=lambda: {
        "second": -(W_1 * _slope * w_2.T + w_2 * _slope.T * W_1.T) / (2 * tau),
        "first": -(W_1 * _slope * w_2.T + w_2 * _slope.T * W_1.T) / (2 * tau),
        "difference": ZeroMatrix(H, H),
    },
    conditions=(
        (
            r"Any differentiable loss of the network's row $\boldsymbol{w}_{2}^{\top} \boldsymbol{W}_{1}$, with "
            r"gradient $\boldsymbol{g}$ there: not only the squared error"
        ),
        "Any number $H$ of heads",
    ),
)
def conserved_balance() -> Derivation:
    """The chain rule through w_2' W_1, whatever the loss."""
    change = TracePolynomial(w_2.T * W_1 * _slope)  # dL = d(w_2' W_1) g
    first, second = (-gradient(change, weight) / (2 * TracePolynomial(tau)) for weight in (W_1, w_2))
    of_second = second * w_2.T + w_2 * second.T
    of_first = first * W_1.T + W_1 * first.T
    return Derivation.by(
        Step(r"The flow of $\boldsymbol{W}_{1}$", first, r"\dot{\boldsymbol{W}}_1"),
        Step(r"The flow of $\boldsymbol{w}_{2}$", second, r"\dot{\boldsymbol{w}}_2"),
        Step(r"The change of $\boldsymbol{w}_{2} \boldsymbol{w}_{2}^{\top}$", of_second, part="second"),
        Step(r"The change of $\boldsymbol{W}_{1} \boldsymbol{W}_{1}^{\top}$", of_first, part="first"),
        Step("Their difference", of_second - of_first, part="difference"),
    )


def _convolution(direction) -> TracePolynomial:
    """direction' (I_D (x) k_i') z: the filter k_i on each block of z, summed over the index of z."""
    filtered = (TracePolynomial(direction).T * OTHER[0]) * (_k_i.T * OTHER[1]) * feature(OTHER)
    return sum_over(filtered, *OTHER)


@register(
    "18-conv",
    "Separate attention is a convolutional linear network",
    kind="exact",
    section="Section 4.1",
    left={
        "filter": r"\boldsymbol{c}_1^\top\boldsymbol{K}_i\boldsymbol{z}",
        "output": r"v_i\boldsymbol{q}_i^\top\boldsymbol{K}_i\boldsymbol{z}",
        "k": r"-\tfrac12\partial_{\boldsymbol{k}_i}(y_q-\hat y_q)^2",
        "q": r"-\tfrac12\partial_{\boldsymbol{q}_i}(y_q-\hat y_q)^2",
    },
    typed=lambda: {
        "filter": (AT[0].T * x_q) * (_k_i.T * beta),
        "output": v_i * (beta.T * _k_i) * (_q_i.T * x_q),
        "k": v_i * (y_q - prediction) * (_q_i.T * x_q) * beta,
        "q": v_i * (y_q - prediction) * (beta.T * _k_i) * x_q,
    },
    conditions=(
        (
            r"$\boldsymbol{K}_{i} = I_{D} \otimes \boldsymbol{k}_{i}^{\top}$ applies the filter $\boldsymbol{k}_{i}$ "
            r"to each of the $D$ blocks of $\boldsymbol{z}$; a head of rank $R$ adds $R$ of them with one $v_{i}$"
        ),
        r"$\boldsymbol{c}_1$ is any unit vector",
    ),
    erratum=r"$\boldsymbol{K}_{i}$ has $D$ rows and $D^{2}$ columns.",
)
def convolutional_network() -> Derivation:
    """Sum over the index of z; then the gradients of the output."""
    output = v_i * _convolution(_q_i)
    return Derivation.by(
        Step(r"One entry of $\boldsymbol{K}_{i} \boldsymbol{z}$", _convolution(AT[0]), part="filter"),
        Step("The output of the head", output, part="output"),
        Step("The gradient of one squared error by the filter", _error_slope(output, _k_i), part="k"),
        Step("The gradient by the second layer", _error_slope(output, _q_i), part="q"),
    )


_e_1 = AT[0]


@register(
    "18-any",
    "Enough heads make any linear map of the feature",
    kind="exact",
    section="Section 4.1",
    left=r"\sum_{d=1}^{D}(\boldsymbol{B}\boldsymbol{c}_d)\,\boldsymbol{c}_d^\top",
    typed=lambda: B,
    conditions=(
        (
            r"$D$ key-query pairs, $\boldsymbol{k} = \boldsymbol{B} \boldsymbol{c}_d$ and $\boldsymbol{q} = "
            r"\boldsymbol{c}_d$ with $v = 1$, for an orthonormal basis $\boldsymbol{c}_d$; it takes $H R \ge D$"
        ),
    ),
)
def any_map() -> Derivation:
    """The sum over an orthonormal basis."""
    pair = TracePolynomial(B * _e_1 * _e_1.T)
    return Derivation.by(
        Step("One key-query pair", pair, r"(\boldsymbol{B}\boldsymbol{c}_1)\,\boldsymbol{c}_1^\top"),
        Step("Summed over the basis", sum_over(pair, _e_1)),
    )
