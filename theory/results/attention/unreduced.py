r"""Linear attention with all its blocks, multiplied out: (87), its cubic features, and C.1 in the task vector."""

from ...algebra.polynomial import TracePolynomial, total
from ...derivations import Line, Lines, SumOver, erratum, register, states
from ...notation import D, Lambda_hat, N, beta, prediction_i, v_i, vector, w, x_q
from ..task.regression import y
from .blocks import U_i, expansion, merged_expansion, multiplied_head, u_i, value_row


def _row(square):
    """The row that the paper multiplies the query token with, with the average of the squared targets in its letters."""
    return value_row.T * (Lambda_hat + x_q * x_q.T / N) * U_i + v_i * beta.T * U_i + value_row.T * beta * u_i.T + v_i * square * u_i.T


@register("87", "Linear attention without the zero blocks", section="Appendix F")
@states(lambda: _row(y.T * y / N) * x_q)
@erratum(r"The paper leaves out the trailing $\boldsymbol{x}_{q}$, without which the right side is a row vector.")
def unreduced_attention() -> Lines:
    """Equation (7) in the letters of the context."""
    yield Line(prediction_i, "=", multiplied_head(), "The blocks (7) multiplied out", ("7",))
    yield Line(prediction_i, "!=", _row(y.T * y / N),
               r"As printed in the paper, without the trailing $\boldsymbol{x}_q$: a row vector", ("7", "28", "8"))  # fmt: skip
    yield Line(prediction_i, "=", expansion(),
               r"$\hat{\boldsymbol{\Lambda}}$ and $\boldsymbol{\beta}$ recognised, equations (28) and (8)", ("7", "28", "8"))  # fmt: skip


@register("87-features", "The cubic features of linear attention without the zero blocks", section="Appendix F")
@states(lambda: _row(y.T * y / N) * x_q)
def features_of_unreduced_attention() -> Lines:
    """Coefficients that depend on the weights times features that depend on the sequence, summed over their indices."""
    a, b, c = (vector(name, D) for name in ("c_1", "c_2", "c_3"))
    gram = (a.T * TracePolynomial(Lambda_hat + x_q * x_q.T / N) * b) * (c.T * x_q)
    cubic = (a.T * beta) * (c.T * x_q)
    square = (y.T * y / N) * (c.T * x_q)
    weights = ((value_row.T * a) * (b.T * U_i * c), a.T * (v_i * TracePolynomial(U_i) + value_row * u_i.T) * c, v_i * u_i.T * c)
    sums = (SumOver(weights[0] * gram, a, b, c), SumOver(weights[1] * cubic, a, c), SumOver(TracePolynomial(weights[2]) * square, c))
    parts = [one.apply() for one in sums]
    reasons = ("The coefficient of the first feature, summed with its entries", "That of the second", "That of the third")
    for one, part, reason in zip(sums, parts, reasons, strict=True):
        yield Line(one, "=", part, reason)
    yield Line(prediction_i, "=", total(parts), "The three together are the prediction of the head (87)", ("87",))


@register("C.1", "Linear attention in the task vector", section="Appendix C.1")
@states(lambda: _row(w.T * Lambda_hat * w) * x_q)
def attention_in_the_task() -> Lines:
    """Equation (87) with the targets put in."""
    yield Line(prediction_i, "=", expansion(), "The expansion (87)", ("87",))
    yield Line(prediction_i, "=", merged_expansion(),
               r"The targets $\boldsymbol{y} = \boldsymbol{X}_{c}^{\top} \boldsymbol{w}$ put in", ("87", "4", "28", "8"))  # fmt: skip
