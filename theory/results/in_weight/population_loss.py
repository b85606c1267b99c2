r"""The unreduced model (87) where some task vectors repeat (V6): its population loss, for any number of heads.

The prediction is a sum over heads, so two heads say everything. Given the task vector the moments are polynomials in it, so those of any
law follow, several repeated vectors among them.
"""

from functools import cache, partial

from sympy import Symbol, Trace

from ...algebra.polynomial import TracePolynomial
from ...calculus import substitute
from ...derivations import E, Line, Lines, erratum, given, note, register, states
from ...expectation import Fixed, Gaussian, Mixture, expect
from ...notation import D, Lambda, Lambda_hat, MatrixLetter, N, beta, prediction_i, v_i, vector, w, x_q, y_q
from ..attention.blocks import HEADS, U_i, expansion, merged_expansion, u_i, value_row
from ..attention.zero_block_loss import U_j, fourth_moment, overlap_formula, row_j, u_j, v_j
from ..task.regression import X_c, in_context_letters, y

portion = Symbol("p", nonnegative=True)  # of the sequences whose task vector is drawn from N(0, I)
w_0 = vector("w_0", D)  # the task vector of the others

prediction_j = MatrixLetter("yhat_q^(j)", 1, 1, r"\hat y_q^{(j)}")
_OTHER = {U_i: U_j, u_i: u_j, value_row: row_j, v_i: v_j}
_I, _J = (v_i, value_row, U_i, u_i), (v_j, row_j, U_j, u_j)

NOISE = (Gaussian(y), Fixed(beta, X_c * y / N), Fixed(y_q, w_0.T * x_q))  # labels that have nothing to do with the tokens
mixed_tasks = Mixture(((portion, Gaussian(w)), (1 - portion, Fixed(w, w_0))))


def labels_averaged(expression) -> TracePolynomial:
    """The average over noise for labels, given tokens and query; the tokens in Lambda_hat."""
    return in_context_letters(expect(expression, NOISE, given=(Lambda_hat, x_q)))


def noise_average(expression) -> TracePolynomial:
    """The average of a function of ``expansion()`` over labels y ~ N(0, I) that have nothing to do with the tokens, query and context."""
    return expect(labels_averaged(expression))


# How one head is written, and what averages under a law of the tasks, or with noise for the labels
LAWS = {
    "training": (merged_expansion, partial(expect, law=mixed_tasks)),
    "random": (merged_expansion, expect),
    "fixed": (merged_expansion, partial(expect, given=(w,))),
    "noise": (expansion, noise_average),
}


@cache
def other_head(expand) -> TracePolynomial:
    """The prediction of a head j, in the letters of its own."""
    return substitute(expand(), _OTHER)


def _moments(law, *, given=(), expand=merged_expansion, entry: str = "C.1") -> tuple[Line, ...]:
    """One head, as in an entry, times the target and times another head, averaged; over noise for labels first."""
    head, other = expand(), other_head(expand)
    lines = [Line(prediction_i, "=", head, f"One head, equation ({entry})", entry), Line(prediction_j, ":=", other, "Another head")]
    for which, product, written in (("target", y_q * prediction_i, y_q * head), ("overlap", prediction_i * prediction_j, head * other)):
        mean, name = E(product, law, given=given), f"The head times {'another' if which == 'overlap' else 'the target'}, averaged"
        if law is NOISE:
            lines.append(Line(mean, "=", labels_averaged(written), f"{name} over the labels", (entry, "28")))
            lines.append(Line(E(mean), "=", noise_average(written), "Averaged over query and context", (-1,), which))
        else:
            lines.append(Line(mean, "=", expect(written, law, given=given), name, entry, which))
    return tuple(lines)


def _map(v, row, U, u):
    return v * U + row * u.T


def _target_in(task):
    """E(y_q y_hat_i) given the task vector, for statements."""
    inner = Lambda * U_i * Lambda + fourth_moment(U_i) / N
    return (
        TracePolynomial(value_row.T * inner * task)
        + TracePolynomial(task.T * Lambda * _map(*_I) * Lambda * task)
        + v_i * TracePolynomial(task.T * Lambda * task) * TracePolynomial(u_i.T * Lambda * task)
    )


def _odd_even(task, v, row, U, u, v_e, row_e, U_e, u_e):
    """E(o e) given the task vector, with the odd part o of one head and the even part e of another, for statements."""
    B_o, size = _map(v, row, U, u), TracePolynomial(task.T * Lambda * task)
    middle = B_o * Lambda * U_e.T
    pair = Lambda * middle * Lambda + (Lambda * middle.T * Lambda + Trace(middle * Lambda) * Lambda) / N
    return (
        TracePolynomial(task.T * pair * row_e)
        + TracePolynomial(task.T * Lambda * B_o * fourth_moment(U_e) * row_e) / N
        + (1 + 2 / N) * v_e * size * TracePolynomial(task.T * Lambda * B_o * Lambda * u_e)
    )


def _corner(task, v, row, U, u, v_j, u_j):
    """E(e_i e_j) given the task vector: the term with the vector row of head i and the corner w' Lambda_hat w of head j, for statements."""
    size = TracePolynomial(task.T * Lambda * task)
    with_size = size * (Lambda * U * Lambda + fourth_moment(U) / N) + 2 * Lambda * task * task.T * Lambda * U * Lambda / N
    return v_j * row.T * with_size * u_j


def _rows_alone():
    """E(e_i e_j) of two heads without v_i and v_j, which no law of the task enters, for statements."""
    return TracePolynomial(overlap_formula(0, value_row, U_i, u_i, 0, row_j, U_j, u_j))


def _overlap_in(task):
    """E(y_hat_i y_hat_j) given the task vector, for statements."""
    size = TracePolynomial(task.T * Lambda * task)
    middle = _map(*_I) * Lambda * _map(*_J).T
    odd = Lambda * middle * Lambda + (Lambda * middle.T * Lambda + Trace(middle * Lambda) * Lambda) / N
    return (
        TracePolynomial(task.T * odd * task)
        + _odd_even(task, *_I, *_J)
        + _odd_even(task, *_J, *_I)
        + _rows_alone()
        + v_i * v_j * (1 + 2 / N) * size**2 * TracePolynomial(u_i.T * Lambda * u_j)
        + _corner(task, *_I, v_j, u_j)
        + _corner(task, *_J, v_i, u_i)
    )


@register("V6-task", "Two moments of the unreduced model, given the task vector")
@states("target", lambda: _target_in(w))
@states("overlap", lambda: _overlap_in(w))
@note(HEADS)
def given_task() -> Lines:
    """Average over the query, up to its sixth moment, and over the context."""
    yield from _moments((), given=(w,))


@register("V6", "The population loss of the unreduced model if a portion of the task vectors is fixed")
@states("square", lambda: portion * Trace(Lambda) + (1 - portion) * TracePolynomial(w_0.T * Lambda * w_0))
@states("target", lambda: portion * Trace(Lambda * _map(*_I) * Lambda) + (1 - portion) * _target_in(w_0))
@states("overlap", lambda: (
    portion * (TracePolynomial(Trace(_map(*_I).T * (Lambda**2 + (Lambda**2 + Trace(Lambda) * Lambda) / N) * _map(*_J) * Lambda))
               + TracePolynomial(overlap_formula(*_I, *_J)))
    + (1 - portion) * _overlap_in(w_0)
))  # fmt: skip
@given(r"A portion $p$ of the task vectors is random, $\mathcal{N}(0, \boldsymbol{I})$, the others are $\boldsymbol{w}_{0}$")
@note(HEADS, "$p = 1$ is the in-context test of the paper, $p = 0$ its in-weight test")
def mixture_loss() -> Lines:
    """Average over the mixture of laws of the task as well."""
    square = Line(E(y_q**2, mixed_tasks), "=", expect(y_q**2, mixed_tasks), "The target squared, averaged", part="square")
    yield square
    yield from _moments(mixed_tasks)


def _memory_corner(row, U, v_j, u_j):
    return v_j * row.T * (Lambda * U * Lambda + fourth_moment(U) / N) * u_j


@register("V6-memory", "The loss if the labels of the context are noise")
@states("target", lambda: (
    TracePolynomial(value_row.T * (Lambda * U_i * Lambda + fourth_moment(U_i) / N) * w_0) + v_i * TracePolynomial(u_i.T * Lambda * w_0)
))  # fmt: skip
@states("overlap", lambda: (
    Trace(Lambda * _map(*_I) * Lambda * _map(*_J).T) / N + _rows_alone() + v_i * v_j * (1 + 2 / N) * TracePolynomial(u_i.T * Lambda * u_j)
    + _memory_corner(value_row, U_i, v_j, u_j) + _memory_corner(row_j, U_j, v_i, u_i)
))  # fmt: skip
@given(
    r"The labels $\boldsymbol{y} \sim \mathcal{N}(0, \boldsymbol{I})$ are independent of the tokens, and the target of the query is "
    r"$\boldsymbol{w}_{0}^{\top} \boldsymbol{x}_{q}$"
)
@note(HEADS)
@erratum("The paper's in-weight test has the fixed task vector in its context too; its official code has noise there, as here.")
def memory_loss() -> Lines:
    """Average over the labels given the tokens, then over query and context."""
    yield from _moments(NOISE, given=(Lambda_hat, x_q), expand=expansion, entry="87")
