r"""The regression task: definitions (1)-(4), (8)-(10), (28), (30), the force (53), and the loss as a function of the effective map.

The prompt matrix (1) is kept in blocks: the context tokens ``X_c`` (D, N), their targets ``y`` (N, 1), the query ``x_q`` and the masked
corner 0. Everything below is computed from the laws of the data; only the paper's sides are typed.
"""

from functools import cache
from typing import Any

from sympy import BlockMatrix, Derivative, Expr, Function, Identity, IndexedBase, Limit, Sum, Symbol, Trace, ZeroMatrix, diff, oo

from ...algebra.polynomial import TracePolynomial, zero
from ...calculus import gradient, rewrite, substitute
from ...derivations import E, Gradient, Line, Lines, define, given, note, register, states
from ...expectation import expect
from ...notation import B, D, G, Lambda, Lambda_hat, M, N, X_c, a, beta, matrix, prediction, w, x_q, y, y_q
from .population import PAPER, Task

X = matrix("X", D + 1, N + 1)  # the prompt

(SECOND_MOMENT,) = PAPER.definitions()
PROMPT = ((X_c, x_q), (y.T, zero(None)))  # equation (1), in blocks

define("1", "Prompt matrix", section="Section 2.1",
       left=X, typed=lambda: BlockMatrix([[X_c, x_q], [y.T, ZeroMatrix(1, 1)]]),
       notes=(r"$\boldsymbol{X}_c=[\boldsymbol{x}_1\cdots\boldsymbol{x}_N]$; the 0 masks the target of the query",))  # fmt: skip


@register("2", "Law of the tokens", kind="definition", section="Section 2.1")
@states("mean", lambda: ZeroMatrix(D, 1))
@states("covariance", lambda: Lambda)
@given(r"$\boldsymbol{x}_{n}$ and $\boldsymbol{x}_{q}$ are Gaussian and independent")
def law_of_tokens() -> Lines:
    """The moments of the laws that every expectation here uses."""
    second = x_q * x_q.T
    yield Line(E(Lambda_hat), "=", expect(Lambda_hat), "The mean square of the context tokens")
    yield Line(E(x_q), "=", expect(x_q), "The query, as every token, has mean zero", part="mean")
    yield Line(E(second), "=", expect(second), "and the covariance of the context tokens", part="covariance")


@register("3", "Law of the task vector", kind="definition", section="Section 2.1")
@states("mean", lambda: ZeroMatrix(D, 1))
@states("covariance", lambda: Identity(D))
@given(r"$\boldsymbol{w}$ is Gaussian, independent of the tokens, and drawn anew for every sequence")
def law_of_task() -> Lines:
    """The moments of the law that every expectation here uses."""
    yield Line(E(w), "=", expect(w), "The mean", part="mean")
    yield Line(E(w * w.T), "=", expect(w * w.T), "The covariance", part="covariance")
    yield Line(E(w.T * Lambda_hat * x_q), "=", 0, "Task and tokens are independent")


NOISELESS = "No label noise"
define("4", "Targets", section="Section 2.1",
       left={"context": y, "query": y_q}, typed=lambda: {"context": X_c.T * w, "query": w.T * x_q},
       conditions=(NOISELESS,))  # fmt: skip
define("8", "Input-output correlation of the context", section="Section 2.2", left=beta, typed=lambda: X_c * y / N)
define("28", "Sample covariance of the context", section="Appendix B.1", left=Lambda_hat, typed=lambda: X_c * X_c.T / N)


def _average_of_errors():
    mu, count = Symbol("mu", integer=True), Symbol("P", integer=True, positive=True)
    target, prediction = IndexedBase("y"), IndexedBase("y_hat")
    return Limit(Sum((target[mu] - prediction[mu]) ** 2, (mu, 1, count)) / count, count, oo)


define("9", "Population loss", section="Section 2.3",
       left=E((y_q - prediction) ** 2), typed=_average_of_errors,
       notes=("$P$ training sequences, each with its own task vector and tokens",))  # fmt: skip

_weight = Symbol("W", real=True)
_target = Symbol("y_q", real=True)
_prediction = Function("y_hat_q", real=True)(_weight)


@register("10", "Gradient flow", kind="definition", section="Section 2.3")
@states(lambda: (_target - _prediction) * diff(_prediction, _weight))
@note(r"$\tau\,dW/dt = -\frac12\,d\mathcal{L}/dW$ is the average of this over the sequences, for each weight $W$")
def flow_of_one_weight() -> Lines:
    """The chain rule for one sequence; the average over sequences is linear."""
    error = (_target - _prediction) ** 2
    slope = -Derivative(error, _weight) / 2
    yield Line(slope, "=", slope.doit(), "The chain rule")


def in_context_letters(expression) -> TracePolynomial:
    """Name what the context enters through: Lambda_hat for X_c X_c'/N, with y = X_c' w put in."""
    tokens = substitute(expression, {y: X_c.T * w}) if y in TracePolynomial(expression).free_symbols else expression
    return rewrite(tokens, {X_c * X_c.T: N * Lambda_hat})


@register("30", "The correlation is the sample covariance times the task vector", section="Appendix B.1")
@states(lambda: Lambda_hat * w)
@given(NOISELESS)
def correlation_from_task() -> Lines:
    """Put the targets (4) into (8) and recognise (28)."""
    correlation = TracePolynomial(X_c * y / N)
    yield Line(beta, "=", correlation, "The correlation (8)", "8")
    yield Line(beta, "=", substitute(correlation, {y: X_c.T * w}), "The targets (4) put in", ("4", "8"))
    yield Line(beta, "=", in_context_letters(correlation), "The sample covariance (28) recognised", ("4", "8", "28"))


def average_context(polynomial: TracePolynomial) -> TracePolynomial:
    """Average over the context what holds Lambda_hat once, or twice side by side: Lambda, or the letter M for E(Lambda_hat^2).

    Raises ArithmeticError where that is not the expectation.
    """
    averaged = substitute(rewrite(polynomial, {Lambda_hat * Lambda_hat: M}), {Lambda_hat: Lambda})
    if substitute(averaged, {M: expect(Lambda_hat**2)}) != expect(polynomial):
        raise ArithmeticError(f"E over the context of {polynomial} is not {averaged}")
    return averaged


@register("9-closed", "The population loss as a function of the effective map", section="Beside (9)")
@states(lambda: Trace(Lambda) - 2 * Trace(Lambda * B * Lambda) + Trace(B.T * M * B * Lambda))
def closed_loss(task: Task = PAPER) -> Lines:
    """Average over the task and the query, then over the context, where Lambda_hat stands at most twice."""
    error = (y_q - beta.T * B * x_q) ** 2
    yield from task.definitions()
    yield Line(task.E(error), "=", task.E(error, in_context=True), "Average over the task vector and the query, then over the context")
    yield Line(task.E(error), "=", task.moments.loss(M), r"$\hat{\boldsymbol{\Lambda}}$ stands at most twice, side by side")


@cache
def force(task: Task = PAPER) -> TracePolynomial:
    """G = -1/2 dL/dB, with a letter for the second moment, E(Lambda_hat^2) for the paper's task."""
    return -gradient(closed_loss(task).result, B) / 2


def force_along(component: Any, task: Task = PAPER) -> Expr:
    """The force along an eigenvector of Lambda on which the effective map is ``component``."""
    return task.along(force(task), {M: a, B: component})


@register("53", "The force on the effective map", section="Appendix D.2")
@states(lambda: Lambda**2 - M * B * Lambda)
def correlation_with_error(task: Task = PAPER) -> Lines:
    """The correlation of the error with beta and x_q, averaged; it is minus half the gradient of the loss in B."""
    correlation = beta * (y_q - x_q.T * B.T * beta) * x_q.T
    whole = task.E(correlation)
    yield Line(G, ":=", -Gradient(task.E((y_q - beta.T * B * x_q) ** 2), B) / 2, "Minus half the gradient of the loss (9)")
    yield Line(G, "=", whole, r"is the correlation of the error with $\boldsymbol{\beta}$ and the query")
    yield from task.definitions()
    yield Line(whole, "=", task.E(correlation, in_context=True), "Average over the task vector and the query, then over the context")
    yield Line(whole, "=", force(task), r"$\hat{\boldsymbol{\Lambda}}$ stands at most twice, side by side")


def squared_error(map_: Any) -> Any:
    """(y_q - beta' map x_q)^2, of one sequence."""
    return (y_q - beta.T * map_ * x_q) ** 2


def population_error(map_: Any, task: Task = PAPER) -> Any:
    """E(y_q - beta' map x_q)^2, not carried out."""
    return task.E(squared_error(map_))


def loss_and_force(task: Task = PAPER) -> Lines:
    """The lines that begin a derivation about the flow: the loss (9-closed) and, from it, the force (53)."""
    loss = closed_loss(task).result
    yield from task.gains()
    yield Line(population_error(B, task), "=", loss, f"The loss (9-closed); $\\boldsymbol{{M}}$ is {task.second_moment()}")
    yield Line(G, ":=", -Gradient(loss, B) / 2, "The force (53) is minus half its gradient")
    yield Line(G, "=", force(task), "Carry out the gradient")
