r"""Initialization: the laws (34), (36) and the size of the weights they draw, (35), (37).

The squared norms of a layer have mean exactly w_init^2, and fluctuate around it. Balance holds in the mean only: for one head v_i^2 and the
squared norm of its key differ by as much as they are.
"""

from collections.abc import Mapping

from sympy import Identity, Trace, ZeroMatrix

from ...algebra.polynomial import TracePolynomial
from ...derivations import E, Line, Lines, erratum, given, note, register, states
from ...expectation import Gaussian, SampleCovariance, expect
from ...notation import W_1, D, H, MatrixLetter, R, symmetric_matrix, vector, w_2, w_init

# One entry, and all entries of all heads, stacked
_value, _merged = MatrixLetter("v_i", 1, 1, "v_i"), MatrixLetter("u_i", 1, 1, r"(\boldsymbol{U}_i)_{dd'}")
_key, _query = (MatrixLetter("k_i", 1, 1, r"(\boldsymbol{k}_{i,r})_d"), MatrixLetter("q_i", 1, 1, r"(\boldsymbol{q}_{i,r})_d"))
_U, _K = vector("U", H * D**2), vector("k", H * R * D)

INDEPENDENT = "All entries are independent and Gaussian with mean zero"


def _law(stack, size) -> Gaussian:
    """Independent entries, whose variance is w_init^2 shared evenly by ``size`` of them."""
    return Gaussian(stack, covariance=w_init**2 / size * Identity(stack.shape[0]))


def _variances(entries: Mapping) -> Lines:
    """The variance of one entry, {part: (entry, entries in the layer)}."""
    for part, (one, size) in entries.items():
        yield Line(E(one**2, _law(one, size)), "=", expect(one**2, _law(one, size)), "The variance of an entry", part=part)


@register("34", "Initialization of merged attention", kind="definition", section="Appendix B.2")
@states("v", lambda: w_init**2 / H)
@states("U", lambda: w_init**2 / (H * D**2))
@given(INDEPENDENT)
def law_of_merged_weights() -> Lines:
    """All entries of a layer share w_init^2 evenly."""
    return _variances({"v": (_value, H), "U": (_merged, H * D**2)})


@register("36", "Initialization of separate attention", kind="definition", section="Appendix B.2")
@states("v", lambda: w_init**2 / H)
@states("k", lambda: w_init**2 / (H * R * D))
@states("q", lambda: w_init**2 / (H * R * D))
@given(INDEPENDENT)
def law_of_separate_weights() -> Lines:
    """All entries of a layer share w_init^2 evenly."""
    return _variances({"v": (_value, H), "k": (_key, H * R * D), "q": (_query, H * R * D)})


def _norms(law: str, stacks: Mapping) -> Lines:
    """Mean and variance of the squared norms of layers, {part: (entry, stack)}, whose entries have the variances of ``law``."""
    for part, (one, stack) in stacks.items():
        size = stack.shape[0]
        whole, square = _law(stack, size), stack.T * stack
        mean, second = expect(square, whole), expect(square**2, whole)
        yield Line(E(square, whole), "=", size * E(one**2, _law(one, size)), "As many entries, each of the same variance")
        yield Line(E(square, whole), "=", mean, f"Their variance ({law}) put in", (law, -1), f"{part} mean")
        yield Line(E(square**2, whole) - E(square, whole) ** 2, "=", second - mean**2,
                   "The variance of the squared norm, by the fourth moment", part=f"{part} variance")  # fmt: skip


@register("35", "Initial size of merged attention", section="Appendix B.2")
@states("v mean", lambda: w_init**2)
@states("v variance", lambda: 2 * w_init**4 / H)
@states("U mean", lambda: w_init**2)
@states("U variance", lambda: 2 * w_init**4 / (H * D**2))
@given("The law (34)")
@note(r"$\boldsymbol{U}$ holds the entries of all $\boldsymbol{U}_i$")
@erratum(r"The paper gives the order $O(w_{\rm init}^2)$ only; the norms are squared")
def norms_of_merged() -> Lines:
    """All entries of a layer in one vector."""
    return _norms("34", {"v": (_value, w_2), "U": (_merged, _U)})


@register("37", "Initial size of separate attention", section="Appendix B.2")
@states("v mean", lambda: w_init**2)
@states("v variance", lambda: 2 * w_init**4 / H)
@states("k mean", lambda: w_init**2)
@states("k variance", lambda: 2 * w_init**4 / (H * R * D))
@given("The law (36)")
@note(r"$\boldsymbol{k}$ holds the entries of all keys; the queries have the same law")
@erratum(r"The paper gives the order $O(w_{\rm init}^2)$ only; the norms are squared")
def norms_of_separate() -> Lines:
    """All entries of a layer in one vector."""
    return _norms("36", {"v": (_value, w_2), "k": (_key, _K)})


_gram = symmetric_matrix("S", H)  # W_1 W_1' / D^2


@register("35-balance", "Balance of merged attention at initialization", section="Beside (35) and (17)")
@states("mean", lambda: ZeroMatrix(H, H))
@states("square", lambda: w_init**4 * (H + 1) / H * (1 + 1 / D**2))
@given("The law (34)")
def initial_balance() -> Lines:
    """W_1 W_1' is D^2 times a sample covariance: that of the D^2 columns of W_1."""
    laws = (_law(w_2, H), SampleCovariance(_gram, w_init**2 / (H * D**2) * Identity(H), D**2))
    difference = w_2 * w_2.T - D**2 * _gram
    square = Trace(difference * difference)
    yield Line(_gram, ":=", W_1 * W_1.T / D**2, r"The sample covariance of the columns of $\boldsymbol{W}_1$")
    yield Line(difference, "=", w_2 * w_2.T - W_1 * W_1.T, "What (17) conserves")
    yield Line(E(difference, laws), "=", expect(difference, laws), "It vanishes in the mean", part="mean")
    yield Line(E(square, laws), "=", expect(square, laws), "The mean of its squared norm", part="square")


_keys = vector("k_i", R * D)  # of one head


@register("37-balance", "Balance of one head at initialization", section="Beside (37) and (85)")
@states("mean", lambda: 0)
@states("variance", lambda: 2 * w_init**4 / H**2 * (1 + 1 / (R * D)))
@given("The law (36)")
@note(r"$\boldsymbol{k}_i$ holds the keys of one head")
def key_difference() -> Lines:
    """Mean and variance of the conserved quantity of one head."""
    laws = (_law(_value, H), _law(_keys, H * R * D))
    difference = _value.T * _value - _keys.T * _keys
    mean, second = (expect(TracePolynomial(difference) ** power, laws) for power in (1, 2))
    yield Line(E(difference, laws), "=", mean, "The difference that (85) conserves vanishes in the mean", part="mean")
    yield Line(E(difference**2, laws) - E(difference, laws) ** 2, "=", second - mean**2,
               "Its variance, by the fourth moments", part="variance")  # fmt: skip
