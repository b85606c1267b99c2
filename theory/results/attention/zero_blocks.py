r"""The zero blocks stay zero: (39), (40), their form for separate key and query of any rank, and what exactly they need.

With the vectors v_j = 0 and u_j = 0 in every head the prediction is beta' B x_q, with one matrix B = sum_j v_j U_j for all heads together,
and the gradients of all v_i, u_i vanish on average. Only the symmetry w -> -w of the law of the task is used: the prediction is then odd in
w, like the target, and the derivatives by v_i and u_i are even.
"""

from functools import cache

from sympy import Trace, ZeroMatrix

from ...algebra.polynomial import TracePolynomial
from ...calculus.derivatives import gradient
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...expectation.moments import expect
from ...notation import B, D, K_i, Lambda, Lambda_hat, MatrixLetter, N, Q_i, R, beta, matrix, prediction, v_i, w, x_q, y_q
from .blocks import U_i, merged_expansion, u_i, value_row
from .reduced import kappa_i, separate_expansion

__all__ = ["JOINT", "prediction", "pull", "pull_at_zero", "zero_blocks"]

_others = MatrixLetter("yhat_other", 1, 1, r"\hat y_{\rm other}")  # the output of the other heads
zero_blocks = {value_row: ZeroMatrix(D, 1), u_i: ZeroMatrix(D, 1)}

JOINT = (
    r"The vectors $\boldsymbol{v}_j$ and $\boldsymbol{u}_{j}$ are zero in every head $j$; $\boldsymbol{B}$ is "
    r"then the sum of $v_{j} \boldsymbol{U}_{j}$ over all heads"
)


def pull(head: TracePolynomial, weight) -> TracePolynomial:
    """Minus half the gradient of one squared error (y_q - y_hat)^2 in a weight of one head, whose output is ``head``.

    The other heads do not depend on the weight: they enter through the prediction only.
    """
    slope = -gradient((y_q - head - _others) ** 2, weight) / 2
    return substitute(slope, {_others: prediction - head})


@cache
def pull_at_zero(head: TracePolynomial, weight) -> TracePolynomial:
    """The same where the zero blocks are zero in all heads, in Lambda_hat, w and x_q."""
    here = substitute(pull(head, weight), {**zero_blocks, kappa_i: ZeroMatrix(R, 1), prediction: beta.T * B * x_q})
    return substitute(here, {y_q: w.T * x_q, beta: Lambda_hat * w})


def _derivation(head: TracePolynomial, weight) -> Derivation:
    here = pull_at_zero(head, weight)
    return Derivation.by(
        Step("Minus half the gradient of the squared error of one sequence", pull(head, weight), part="sequence"),
        Step(
            (
                r"The same with zero blocks in every head, so that the prediction is $\boldsymbol{\beta}^{\top} "
                r"\boldsymbol{B} \boldsymbol{x}_{q}$"
            ),
            here,
        ),
        Step("Average over the task vector, the query and the context", expect(here), part="average"),
    )


@register(
    "39",
    "The vector block of the value matrix stays zero",
    kind="exact",
    section="Appendix C.1",
    left={"sequence": r"-\tfrac12\partial_{\boldsymbol{v}_i}(y_q-\hat y_q)^2", "average": r"\tau\dot{\boldsymbol{v}}_i"},
    typed=lambda: {
        "sequence": ((Lambda_hat + x_q * x_q.T / N) * U_i + beta * u_i.T) * x_q * (y_q - prediction),
        "average": ZeroMatrix(D, 1),
    },
    conditions=(f"For the average: t{JOINT[1:]}",),
    erratum=(
        r"The paper does not say that the condition is joint: one non-zero $\boldsymbol{u}_{j}$ moves "
        r"$\boldsymbol{v}_i$ in every head (39-joint); nor that it holds for the population only: a finite "
        "training set moves the blocks (V6-leak)."
    ),
)
def value_block_stays() -> Derivation:
    """Gradient, zero blocks, average."""
    return _derivation(merged_expansion(), value_row)


@register(
    "40",
    "The vector block of the key-query matrix stays zero",
    kind="exact",
    section="Appendix C.1",
    left={"sequence": r"-\tfrac12\partial_{\boldsymbol{u}_i}(y_q-\hat y_q)^2", "average": r"\tau\dot{\boldsymbol{u}}_i"},
    typed=lambda: {"sequence": (value_row.T * beta + v_i * w.T * Lambda_hat * w) * (y_q - prediction) * x_q, "average": ZeroMatrix(D, 1)},
    conditions=(f"For the average: t{JOINT[1:]}",),
    erratum=(
        r"The paper averages $\boldsymbol{w}^{\top} \hat{\boldsymbol{\Lambda}} \boldsymbol{w} "
        r"\boldsymbol{w}^{\top}$ apart from the other $\hat{\boldsymbol{\Lambda}}$; the average over "
        r"$\boldsymbol{w}$ is meant given the context."
    ),
)
def key_query_block_stays() -> Derivation:
    """Gradient, zero blocks, average."""
    return _derivation(merged_expansion(), u_i)


@register(
    "39-parity",
    "Only the symmetry of the task's law is needed",
    kind="exact",
    section="Beside (39) and (40)",
    left={"v": r"\boldsymbol{g}_v(-\boldsymbol{w})", "u": r"\boldsymbol{g}_u(-\boldsymbol{w})"},
    typed=lambda: {
        "v": -(Lambda_hat + x_q * x_q.T / N) * U_i * x_q * (w.T * x_q - w.T * Lambda_hat * B * x_q),
        "u": -v_i * (w.T * Lambda_hat * w) * (w.T * x_q - w.T * Lambda_hat * B * x_q) * x_q,
    },
    conditions=(
        (
            r"$\boldsymbol{g}_v$ and $\boldsymbol{g}_u$: minus half the gradients of one squared error by the two "
            "blocks of head $i$"
        ),
        JOINT,
        (
            r"The law of $\boldsymbol{w}$ is symmetric, not necessarily Gaussian; tokens of any law. An odd function "
            r"of $\boldsymbol{w}$ then averages to zero"
        ),
    ),
)
def parity() -> Derivation:
    """The gradients of one sequence, at w and at -w."""
    steps = []
    for part, weight, rule in (("v", value_row, "value block"), ("u", u_i, "key-query block")):
        here = pull_at_zero(merged_expansion(), weight)
        flipped = substitute(here, {w: -TracePolynomial(w)})
        if flipped != -here:
            raise ArithmeticError(f"the gradient of the {rule} is not odd in w: {here}")
        steps += [
            Step(f"The gradient of the {rule} for one sequence, with zero blocks", here, rf"\boldsymbol{{g}}_{part}(\boldsymbol{{w}})"),
            Step("For the opposite task vector: minus the same", flipped, rf"\boldsymbol{{g}}_{part}(-\boldsymbol{{w}})", part),
        ]
    return Derivation.by(*steps)


@register(
    "E.1-zero",
    "The zero blocks of separate key and query stay zero",
    kind="exact",
    section="Appendix E.1",
    left={
        "v sequence": r"-\tfrac12\partial_{\boldsymbol{v}_i}(y_q-\hat y_q)^2",
        "v": r"\tau\dot{\boldsymbol{v}}_i",
        "kappa sequence": r"-\tfrac12\partial_{\boldsymbol{\kappa}_i}(y_q-\hat y_q)^2",
        "kappa": r"\tau\dot{\boldsymbol{\kappa}}_i",
    },
    typed=lambda: {
        "v sequence": ((Lambda_hat + x_q * x_q.T / N) * K_i + beta * kappa_i.T) * Q_i.T * x_q * (y_q - prediction),
        "v": ZeroMatrix(D, 1),
        "kappa sequence": (value_row.T * beta + v_i * w.T * Lambda_hat * w) * (y_q - prediction) * Q_i.T * x_q,
        "kappa": ZeroMatrix(R, 1),
    },
    conditions=(
        (
            r"For the averages: $\boldsymbol{v}_j$ and $\boldsymbol{\kappa}_j$ are zero in every head $j$; any rank "
            "$R$, any number of heads"
        ),
    ),
)
def separate_blocks_stay() -> Derivation:
    """The same with u_i = Q_i kappa_i."""
    steps = []
    for part, weight in (("v", value_row), ("kappa", kappa_i)):
        sequence, here, average = _derivation(separate_expansion(), weight).steps
        steps += [
            Step(sequence.rule, sequence.expression, part=f"{part} sequence"),
            here,
            Step(average.rule, average.expression, part=part),
        ]
    return Derivation.by(*steps)


_U_other = matrix("U_j", D)


@register(
    "39-joint",
    "One head with a non-zero block moves the block of every other",
    kind="exact",
    section="Beside (39)",
    left=r"\tau\dot{\boldsymbol{v}}_j",
    typed=lambda: (
        -v_i
        * (
            (Trace(Lambda) * Lambda + 2 * Lambda**2 / N) * _U_other * Lambda
            + Trace(Lambda) / N * (Lambda * _U_other * Lambda + Lambda * _U_other.T * Lambda + Trace(Lambda * _U_other) * Lambda)
        )
        * u_i
    ),
    conditions=(
        (
            r"The vectors $\boldsymbol{v}_l$ are zero in every head and the vectors $\boldsymbol{u}_{l}$ in every "
            "head but $i$; $j$ is another head"
        ),
        "So the gradient of the zero block of head $j$ does not vanish, although both its blocks are zero",
    ),
)
def joint_condition() -> Derivation:
    """The block u_i of head i makes an even part of the prediction, which correlates with the even derivative by v_j."""
    here = substitute(merged_expansion(), {value_row: ZeroMatrix(D, 1)})
    other = substitute(merged_expansion(), {U_i: _U_other})
    slope = substitute(pull(other, value_row), zero_blocks)
    seen = substitute(slope, {prediction: here + beta.T * B * x_q})
    return Derivation.by(
        Step("The prediction of head $i$", here, r"\hat y_q^{(i)}"),
        Step(r"Minus half the gradient of one squared error by $\boldsymbol{v}_j$", slope),
        Step("The prediction put in, and averaged", expect(seen)),
    )
