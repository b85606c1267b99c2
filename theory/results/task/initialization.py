r"""Initialization: the laws (34), (36) and the size of the weights they draw, (35), (37).

The squared norms of a layer have mean exactly w_init^2, and fluctuate around it. Balance holds in the mean only: for one head v_i^2 and the
squared norm of its key differ by as much as they are.
"""

from sympy import Identity, ZeroMatrix

from ...algebra.polynomial import TracePolynomial
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import define, register
from ...expectation.laws import Gaussian, SampleCovariance
from ...expectation.moments import expect
from ...notation import D, H, MatrixLetter, R, symmetric_matrix, vector, w_init

__all__ = ["initial_balance", "key_difference", "norms_of_merged", "norms_of_separate"]


def _variance_of(size):
    """w_init^2 shared evenly by so many entries."""
    return w_init**2 / size


_VALUE_VARIANCE = _variance_of(H)
_MERGED_VARIANCE = _variance_of(H * D**2)
_SEPARATE_VARIANCE = _variance_of(H * R * D)

INDEPENDENT = "All entries are independent and Gaussian with mean zero"

define(
    "34",
    "Initialization of merged attention",
    section="Appendix B.2",
    left={"v": r"\operatorname{Var}(v_i)", "U": r"\operatorname{Var}\left((\boldsymbol{U}_i)_{dd'}\right)"},
    typed=lambda: {"v": _VALUE_VARIANCE, "U": _MERGED_VARIANCE},
    conditions=(INDEPENDENT,),
)
define(
    "36",
    "Initialization of separate attention",
    section="Appendix B.2",
    left={
        "v": r"\operatorname{Var}(v_i)",
        "k": r"\operatorname{Var}\left((\boldsymbol{k}_{i,r})_d\right)",
        "q": r"\operatorname{Var}\left((\boldsymbol{q}_{i,r})_d\right)",
    },
    typed=lambda: {"v": _VALUE_VARIANCE, "k": _SEPARATE_VARIANCE, "q": _SEPARATE_VARIANCE},
    conditions=(INDEPENDENT,),
)

_v, _U, _K = vector("v", H), vector("U", H * D**2), vector("k", H * R * D)  # all entries of all heads, stacked


def _norm(stack, variance) -> tuple[TracePolynomial, TracePolynomial]:
    """Mean and variance of the squared norm of independent Gaussian entries."""
    law = Gaussian(stack, covariance=variance * Identity(stack.shape[0]))
    square = TracePolynomial(stack.T * stack)
    mean = expect(square, law)
    return mean, expect(square**2, law) - mean**2


def _norms(*stacks) -> Derivation:
    steps = []
    for part, stack, variance in stacks:
        mean, spread = _norm(stack, variance)
        steps += [
            Step("Mean of the squared norm", mean, part=f"{part} mean"),
            Step("Its variance, by the fourth moment", spread, part=f"{part} variance"),
        ]
    return Derivation.by(*steps)


def _lefts(**norms: str) -> dict[str, str]:
    return {
        f"{part} {kind}": rf"{symbol}\left({norm}\right)"
        for part, norm in norms.items()
        for kind, symbol in (("mean", r"\mathbb{E}"), ("variance", r"\operatorname{Var}"))
    }


@register(
    "35",
    "Initial size of merged attention",
    kind="exact",
    section="Appendix B.2",
    left=_lefts(v=r"\textstyle\sum_iv_i^2", U=r"\textstyle\sum_i\|\boldsymbol{U}_i\|^2"),
    typed=lambda: {
        "v mean": w_init**2,
        "v variance": 2 * w_init**4 / H,
        "U mean": w_init**2,
        "U variance": 2 * w_init**4 / (H * D**2),
    },
    conditions=("The law (34); any number $H$ of heads",),
    erratum=r"The paper gives the order $O(w_{\rm init}^2)$ only; the norms are squared",
)
def norms_of_merged() -> Derivation:
    """All entries of a layer in one vector."""
    return _norms(("v", _v, _VALUE_VARIANCE), ("U", _U, _MERGED_VARIANCE))


@register(
    "37",
    "Initial size of separate attention",
    kind="exact",
    section="Appendix B.2",
    left=_lefts(v=r"\textstyle\sum_iv_i^2", k=r"\textstyle\sum_{i,r}\|\boldsymbol{k}_{i,r}\|^2"),
    typed=lambda: {
        "v mean": w_init**2,
        "v variance": 2 * w_init**4 / H,
        "k mean": w_init**2,
        "k variance": 2 * w_init**4 / (H * R * D),
    },
    conditions=("The law (36); the queries have the law of the keys",),
    erratum=r"The paper gives the order $O(w_{\rm init}^2)$ only; the norms are squared",
)
def norms_of_separate() -> Derivation:
    """All entries of a layer in one vector."""
    return _norms(("v", _v, _VALUE_VARIANCE), ("k", _K, _SEPARATE_VARIANCE))


_gram = symmetric_matrix("S", H)  # W_1 W_1' / D^2


@register(
    "35-balance",
    "Balance of merged attention at initialization",
    kind="exact",
    section="Beside (35) and (17)",
    left={
        "mean": r"\mathbb{E}(\boldsymbol{w}_2\boldsymbol{w}_2^\top-\boldsymbol{W}_1\boldsymbol{W}_1^\top)",
        "square": r"\mathbb{E}\,\|\boldsymbol{w}_2\boldsymbol{w}_2^\top-\boldsymbol{W}_1\boldsymbol{W}_1^\top\|^2",
    },
    typed=lambda: {
        "mean": ZeroMatrix(H, H),
        "square": w_init**4 * (H + 1) / H * (1 + 1 / D**2),
    },
    conditions=(
        "The law (34), the Frobenius norm, any number $H$ of heads",
        (
            "The difference is conserved (17): throughout, all heads are parallel up to a matrix of the order of "
            r"$w_{\rm init}^2$"
        ),
    ),
)
def initial_balance() -> Derivation:
    """W_1 W_1' is D^2 times a sample covariance: that of the D^2 columns of W_1."""
    laws = [
        Gaussian(_v, covariance=_VALUE_VARIANCE * Identity(H)),
        SampleCovariance(_gram, _MERGED_VARIANCE * Identity(H), D**2),
    ]
    difference = TracePolynomial(_v * _v.T) - D**2 * TracePolynomial(_gram)
    return Derivation.by(
        Step(r"The conserved difference, with the columns of $\boldsymbol{W}_{1}$ as $D^{2}$ samples", difference),
        Step("Its mean", expect(difference, laws), part="mean"),
        Step("The mean of its squared norm", expect((difference * difference).trace(), laws), part="square"),
    )


_value, _keys = MatrixLetter("v_i", 1, 1, "v_i"), vector("k_i", R * D)  # one head


@register(
    "37-balance",
    "Balance of one head at initialization",
    kind="exact",
    section="Beside (37) and (85)",
    left={
        "mean": r"\mathbb{E}\left(v_i^2-\textstyle\sum_r\|\boldsymbol{k}_{i,r}\|^2\right)",
        "variance": r"\operatorname{Var}\left(v_i^2-\textstyle\sum_r\|\boldsymbol{k}_{i,r}\|^2\right)",
    },
    typed=lambda: {"mean": 0, "variance": 2 * w_init**4 / H**2 * (1 + 1 / (R * D))},
    conditions=(
        (
            r"The law (36). The conserved difference (85) is of the size of $v_{i}^{2}$ itself, $w_{\rm init}^2/H$: "
            "balance holds in the mean"
        ),
    ),
)
def key_difference() -> Derivation:
    """Mean and variance of the conserved quantity of one head."""
    laws = [
        Gaussian(_value, covariance=_VALUE_VARIANCE),
        Gaussian(_keys, covariance=_SEPARATE_VARIANCE * Identity(R * D)),
    ]
    difference = TracePolynomial(_value.T * _value) - TracePolynomial(_keys.T * _keys)
    mean = expect(difference, laws)
    return Derivation.by(
        Step("The conserved difference", difference),
        Step("Its mean", mean, part="mean"),
        Step("Its variance", expect(difference**2, laws) - mean**2, part="variance"),
    )
