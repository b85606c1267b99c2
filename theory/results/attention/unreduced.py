r"""Linear attention with all its blocks, multiplied out: (87), its cubic features, and C.1 in the task vector."""

from ...algebra.polynomial import TracePolynomial
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...expectation.index_sums import sum_over
from ...notation import D, Lambda_hat, N, beta, v_i, vector, w, x_q
from ..task.regression import y
from .blocks import HEADS, KEY_QUERY, VALUE, U_i, expansion, forward_corner, merged_expansion, u_i, value_row


def _prediction(square):
    """The paper's side, with the average of the squared targets in its letters."""
    return (
        value_row.T * (Lambda_hat + x_q * x_q.T / N) * U_i
        + v_i * beta.T * U_i
        + value_row.T * beta * u_i.T
        + v_i * square * u_i.T
    ) * x_q


@register(
    "87",
    "Linear attention without the zero blocks",
    kind="exact",
    section="Appendix F",
    left=r"\hat y_q^{(i)}",
    typed=lambda: _prediction(y.T * y / N),
    conditions=(HEADS,),
    erratum=(
        r"The paper leaves out the trailing $\boldsymbol{x}_{q}$, without which the right side is a row "
        "vector."
    ),
)
def unreduced_attention() -> Derivation:
    """Equation (7) multiplied out."""
    return Derivation.by(
        Step("The product of blocks (7)", forward_corner(VALUE, KEY_QUERY), r"\hat y_q^{(i)}"),
        Step(
            r"$\hat{\boldsymbol{\Lambda}}$ and $\boldsymbol{\beta}$ recognised, equations (28) and (8)",
            expansion(),
            r"\hat y_q^{(i)}",
        ),
    )


@register(
    "87-features",
    "The cubic features of linear attention without the zero blocks",
    kind="exact",
    section="Appendix F",
    left=r"\hat y_q^{(i)}",
    typed=lambda: _prediction(y.T * y / N),
    conditions=(
        HEADS,
        (
            r"A linear map of three features: $(\hat{\boldsymbol{\Lambda}} + \boldsymbol{x}_{q} "
            r"\boldsymbol{x}_{q}^{\top}/N) \otimes \boldsymbol{x}_{q}$, $\boldsymbol{\beta} \otimes "
            r"\boldsymbol{x}_{q}$ and $\frac1N\sum_n y_n^2\,\boldsymbol{x}_q$"
        ),
    ),
)
def features_of_unreduced_attention() -> Derivation:
    """Coefficients that depend on the weights times features that depend on the sequence, summed over their indices."""
    a, b, c = (vector(name, D) for name in ("c_1", "c_2", "c_3"))
    gram = (a.T * TracePolynomial(Lambda_hat + x_q * x_q.T / N) * b) * (c.T * x_q)
    cubic = (a.T * beta) * (c.T * x_q)
    square = (y.T * y / N) * (c.T * x_q)
    weights = (
        (value_row.T * a) * (b.T * U_i * c),
        a.T * (v_i * TracePolynomial(U_i) + value_row * u_i.T) * c,
        v_i * u_i.T * c,
    )
    parts = (
        sum_over(weights[0] * gram, a, b, c),
        sum_over(weights[1] * cubic, a, c),
        sum_over(TracePolynomial(weights[2]) * square, c),
    )
    return Derivation.by(
        Step("The coefficient of the first feature, summed with its entries", parts[0]),
        Step("That of the second", parts[1]),
        Step("That of the third", parts[2]),
        Step("Together: the prediction of the head (87)", parts[0] + parts[1] + parts[2]),
    )


@register(
    "C.1",
    "Linear attention in the task vector",
    kind="exact",
    section="Appendix C.1",
    left=r"\hat y_q^{(i)}",
    typed=lambda: _prediction(w.T * Lambda_hat * w),
    conditions=(HEADS,),
)
def attention_in_the_task() -> Derivation:
    """Equation (87) with the targets put in."""
    return Derivation.by(
        Step("The expansion (87)", expansion(), r"\hat y_q^{(i)}"),
        Step(
            r"The targets $\boldsymbol{y} = \boldsymbol{X}_{c}^{\top} \boldsymbol{w}$ put in",
            merged_expansion(),
            r"\hat y_q^{(i)}",
        ),
    )
