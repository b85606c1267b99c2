r"""The equivalent linear networks: (11)-(13), (17), the convolutional form of Section 4.1, as identities of the output and of its gradient.

Merged attention is w_2' W_1 z with the cubic feature z = vec(beta x_q'): the rows of W_1 are vec(U_i)', the entries of w_2 the v_i. Letters
of width H and of D^2 columns are symbols; a head is split off the stack as its last row.
"""

from functools import cache

from sympy import BlockMatrix, Identity, Trace, ZeroMatrix, latex
from sympy.matrices.expressions.kronecker import KroneckerProduct

from ...algebra.polynomial import TracePolynomial
from ...calculus import block_product, gradient
from ...derivations import E, Gradient, Line, Lines, Rate, SumOver, define, erratum, given, register, states
from ...derivations.matrix_forms import Vec
from ...expectation import Fixed, Gaussian, expect, sum_over
from ...notation import W_1, B, D, H, beta, k_i, matrix, prediction, prediction_other, q_i, symmetric_matrix, v_i, vector, w_2, x_q, y_q
from .blocks import U_i
from .kronecker import index, unit, vec_entry, vec_times_vec
from .zero_blocks import ERROR, pull

FEATURES = D**2
z = vector("z", FEATURES)
CROSS = vector("E(y_q z)", FEATURES, latex=r"\mathbb{E}(y_q\boldsymbol{z})")
COVARIANCE = symmetric_matrix("E(zz')", FEATURES, latex=r"\mathbb{E}(\boldsymbol{z}\boldsymbol{z}^\top)")

AT, OTHER = index("1", D, D), index("2", D, D)

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
    left={"w": w_2, "W": W_1, "row": _row, "z": z},
    typed=lambda: {
        "w": BlockMatrix([[_w_other], [v_i * Identity(1)]]),
        "W": BlockMatrix([[_W_other], [_row.T]]),
        "row": Vec(U_i),
        "z": Vec(beta * x_q.T),
    },
    notes=("The last head is shown beside the others",),
)


@register("11", "Merged attention is a two-layer linear network on cubic features", section="Section 3.1")
@states("head", lambda: v_i * beta.T * U_i * x_q)
@states("stack", lambda: _w_other.T * _W_other * z + v_i * _row.T * z)
def equivalent_network() -> Lines:
    """The scalar product of two vecs, and one row of the stack after another."""
    outer = TracePolynomial(beta * x_q.T)
    head = v_i * vec_times_vec(vec_entry(U_i), vec_entry(outer), AT)
    stack = block_product(((_w_other.T, v_i),), ((_W_other,), (_row.T,)), ((z,),))[0][0]
    yield Line(unit(AT).T * z, "=", feature(AT), r"The entry of $\boldsymbol{z}$", ("12",))
    yield Line(z, "=", KroneckerProduct(x_q, beta), "So it is a Kronecker product", ("12",))
    yield Line(v_i * Vec(U_i).T * Vec(beta * x_q.T), "=", head, r"Summed with $\operatorname{vec}(\boldsymbol{U}_{i})$", part="head")
    yield Line(v_i * _row.T * z, "=", head, "In the letters of the network", ("12",))
    yield Line(w_2.T * W_1 * z, "=", stack, "The output of the network, with the last head split off", ("12",), part="stack")


@register("11-gradient", "The network and merged attention have the same gradient", section="Section 3.1")
@states("U", lambda: v_i * (y_q - prediction) * (AT[0].T * x_q) * (AT[1].T * beta))
@states("row", lambda: v_i * (y_q - prediction) * (AT[0].T * x_q) * (AT[1].T * beta))
@states("v attention", lambda: (y_q - prediction) * (beta.T * U_i * x_q))
@states("v network", lambda: (y_q - prediction) * (beta.T * U_i * x_q))
def equal_gradients() -> Lines:
    """The gradient of each model in its own weights; the same entries."""
    attention, network = v_i * beta.T * U_i * x_q, v_i * _row.T * z
    entry, slope = vec_entry(pull(attention, U_i))(AT), pull(attention, v_i)
    vec = Vec(-Gradient(ERROR, U_i) / 2)
    yield Line(prediction, ":=", attention + prediction_other, "One head of attention beside the others")
    yield Line(unit(AT).T * vec, "=", entry, r"The gradient by $\boldsymbol{U}_{i}$, at one entry of its vec", part="U")
    yield Line(-Gradient(ERROR, v_i) / 2, "=", slope, "The gradient by $v_{i}$", part="v attention")
    yield Line(prediction, ":=", network + prediction_other, "One head of the network beside the same")
    yield Line(-unit(AT).T * Gradient(ERROR, _row) / 2, "=", entry, r"By the row of $\boldsymbol{W}_{1}$, the same entry", ("12",), "row")
    yield Line(-Gradient(ERROR, v_i) / 2, "=", slope, "By $v_{i}$, the same", ("12",), "v network")


NETWORK_ERROR = (y_q - w_2.T * W_1 * z) ** 2
MOMENTS = (Gaussian(z, covariance=COVARIANCE), Fixed(y_q, CROSS.T * COVARIANCE.I * z))  # a law with these two moments


@cache
def flow_of_layers() -> tuple[TracePolynomial, TracePolynomial]:
    """tau dW_1/dt and tau dw_2/dt of w_2' W_1 z, with E(y_q z) and E(zz') as letters: only these two moments enter."""
    first, second = (expect(-gradient(NETWORK_ERROR, weight) / 2, MOMENTS) for weight in (W_1, w_2))
    return first, second


@register("13", "Gradient flow of merged attention", section="Section 3.2")
@states("a", lambda: w_2 * (CROSS.T - w_2.T * W_1 * COVARIANCE))
@states("b", lambda: W_1 * (CROSS.T - w_2.T * W_1 * COVARIANCE).T)
@given(r"Any law of the data with these moments of $\boldsymbol{z}$ and $y_{q}$")
def flow_of_merged_attention() -> Lines:
    """The gradient of one squared error is of second degree in (y_q, z): two moments are all that enters."""
    yield Line(E(y_q * z, MOMENTS), "=", CROSS, "One law with the two moments that enter")
    yield Line(E(z * z.T, MOMENTS), "=", COVARIANCE, "The other moment")
    for letter, weight, average in zip("ab", (W_1, w_2), flow_of_layers(), strict=True):
        slope, name = -Gradient(NETWORK_ERROR, weight) / 2, f"${latex(weight)}$"
        yield Line(slope, "=", -gradient(NETWORK_ERROR, weight) / 2, f"Minus half the gradient by {name} for one sequence")
        yield Line(E(slope, MOMENTS), "=", average, f"Its average, the flow (10) of {name}", part=letter)


_slope = vector("g", FEATURES)  # the gradient of any loss in the row w_2' W_1


@register("17", "Conservation law of merged attention", section="Section 3.5")
@states("second", lambda: -(W_1 * _slope * w_2.T + w_2 * _slope.T * W_1.T) / 2)
@states("first", lambda: -(W_1 * _slope * w_2.T + w_2 * _slope.T * W_1.T) / 2)
@states("difference", lambda: ZeroMatrix(H, H))
@given(r"Any differentiable loss of $\boldsymbol{w}_{2}^{\top} \boldsymbol{W}_{1}$, with gradient $\boldsymbol{g}$")
def conserved_balance() -> Lines:
    """The chain rule through w_2' W_1, whatever the loss."""
    change = w_2.T * W_1 * _slope  # dL = d(w_2' W_1) g
    first, second = (-gradient(change, weight) / 2 for weight in (W_1, w_2))
    flow = {W_1: first, w_2: second}
    of_second, of_first = second * w_2.T + w_2 * second.T, first * W_1.T + W_1 * first.T
    yield Line(-Gradient(Trace(change), W_1) / 2, "=", first, r"The flow of $\boldsymbol{W}_{1}$, by the chain rule")
    yield Line(-Gradient(Trace(change), w_2) / 2, "=", second, r"The flow of $\boldsymbol{w}_{2}$")
    yield Line(Rate(w_2 * w_2.T, flow), "=", of_second, r"The change of $\boldsymbol{w}_{2} \boldsymbol{w}_{2}^{\top}$", part="second")
    yield Line(Rate(W_1 * W_1.T, flow), "=", of_first, r"The change of $\boldsymbol{W}_{1} \boldsymbol{W}_{1}^{\top}$", part="first")
    yield Line(Rate(w_2 * w_2.T - W_1 * W_1.T, flow), "=", of_second - of_first, "Their difference", part="difference")
    yield Line(_slope, ":=", 2 * (COVARIANCE * W_1.T * w_2 - CROSS), "For the squared error")
    yield Line(first, "=", flow_of_layers()[0], r"It is then the flow (13) of $\boldsymbol{W}_{1}$")
    yield Line(second, "=", flow_of_layers()[1], r"It is then the flow (13) of $\boldsymbol{w}_{2}$")


def _convolution(direction) -> TracePolynomial:
    """direction' (I_D (x) k_i') z: the filter k_i on each block of z, summed over the index of z."""
    filtered = (TracePolynomial(direction).T * OTHER[0]) * (k_i.T * OTHER[1]) * feature(OTHER)
    return sum_over(filtered, *OTHER)


@register("18-conv", "Separate attention is a convolutional linear network", section="Section 4.1")
@states("filter", lambda: (AT[0].T * x_q) * (k_i.T * beta))
@states("output", lambda: v_i * (beta.T * k_i) * (q_i.T * x_q))
@states("k", lambda: v_i * (y_q - prediction) * (q_i.T * x_q) * beta)
@states("q", lambda: v_i * (y_q - prediction) * (beta.T * k_i) * x_q)
@erratum(r"$\boldsymbol{K}_{i} = \boldsymbol{I} \otimes \boldsymbol{k}_{i}^{\top}$ has $D$ rows and $D^{2}$ columns")
def convolutional_network() -> Lines:
    """Sum over the index of z; then the gradients of the output."""
    output = v_i * _convolution(q_i)
    layer = KroneckerProduct(Identity(D), k_i.T)
    yield Line(AT[0].T * layer * z, "=", _convolution(AT[0]), r"One entry of the filtered $\boldsymbol{z}$", ("12",), "filter")
    yield Line(v_i * q_i.T * layer * z, "=", output, "The output of the head", ("12",), "output")
    yield Line(prediction, ":=", output + prediction_other, "One head beside the others")
    yield Line(-Gradient(ERROR, k_i) / 2, "=", pull(output, k_i), "The gradient of one squared error by the filter", part="k")
    yield Line(-Gradient(ERROR, q_i) / 2, "=", pull(output, q_i), "The gradient by the second layer", part="q")


@register("18-any", "$D$ key-query pairs make any linear map of the feature", section="Section 4.1")
@states(lambda: B)
def any_map() -> Lines:
    """The sum over an orthonormal basis."""
    pair = TracePolynomial(B * AT[0] * AT[0].T)
    output = beta.T * pair * x_q
    pairs = r"The output of the pairs $\boldsymbol{k} = \boldsymbol{B} \boldsymbol{c}_1$, $\boldsymbol{q} = \boldsymbol{c}_1$, $v = 1$"
    yield Line(SumOver(output, AT[0]), "=", sum_over(output, AT[0]), pairs)
    yield Line(SumOver(pair, AT[0]), "=", sum_over(pair, AT[0]), "The map of all pairs")
