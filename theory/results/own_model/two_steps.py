r"""A model beside those of the paper: two steps of gradient descent in context (V10).

Least squares in the context starts from no task vector and takes two steps of gradient descent with a learned preconditioner U,

    u_1 = U' beta,    u_2 = u_1 + U' (beta - Lambda_hat u_1),    y_hat = u_2' x_q = beta' (2 U - U Lambda_hat U) x_q,

where linear attention takes one. The prediction is quadratic in U, the loss a polynomial of degree four, over E(Lambda_hat^4).
"""

from functools import cache

from sympy import Identity, Symbol, Trace, ZeroMatrix

from ...algebra.polynomial import TracePolynomial, zero
from ...calculus import gradient, rewrite, substitute
from ...derivations import E, Gradient, Line, Lines, Rate, register, states
from ...expectation import expect
from ...model import Model
from ...notation import D, Lambda, Lambda_hat, N, beta, lambda_, matrix, prediction, vector, w, x_q, y_q
from ..task.regression import X_c, y

U = matrix("U", D)  # the preconditioner, learned
_u, _u_1, _u_2 = (vector(name, D) for name in ("u", "u_1", "u_2"))  # a task vector, and those that descent in context reaches
_step = Identity(D) - Lambda_hat * U  # what one step does to the error of the task vector, transposed
z = Symbol("z", real=True)  # the one weight for white tokens: U = z I / lambda
_IN_CONTEXT = (w - _u).T * Lambda_hat * (w - _u)  # the squared error of u in the context


@cache
def two_steps() -> Model:
    """The model of (V10-steps), with its one weight U."""
    return Model(prediction=descend(2), weights=(U,))


def descend(steps: int) -> TracePolynomial:
    """The prediction after steps of descent in context, each U' times minus half the gradient of the context's squared error."""
    return through((U,) * steps)


@cache
def through(maps: tuple) -> TracePolynomial:
    """The same, each step with a preconditioner of its own: the transpose of one of the maps."""
    residual = -gradient(_IN_CONTEXT, _u) / 2
    reached = zero((D, 1))
    for one in maps:
        reached = reached + TracePolynomial(one).T * substitute(residual, {_u: reached})
    return rewrite(reached.T * x_q, {Lambda_hat * w: beta})


@register("V10-steps", "Two steps of gradient descent in context")
@states(lambda: beta.T * (2 * U - U * Lambda_hat * U) * x_q)
def two_step_prediction() -> Lines:
    """Descend on the squared error of the context, twice."""
    residual, errors = beta - Lambda_hat * _u, y - X_c.T * _u
    yield Line(errors.T * errors / N, "=", _IN_CONTEXT, r"The squared error of a task vector $\boldsymbol{u}$ in the context", ("4", "28"))
    yield Line(-Gradient(_IN_CONTEXT, _u) / 2, "=", residual, r"Minus half its gradient in $\boldsymbol{u}$", "30")
    yield Line(_u_1, ":=", U.T * beta, "The first step, from zero")
    yield Line(_u_2, ":=", _u_1 + U.T * (beta - Lambda_hat * _u_1), "The second step")
    yield Line(_u_1.T * x_q, "=", descend(1), "The prediction after one step, that of linear attention")
    yield Line(prediction, ":=", _u_2.T * x_q, "The prediction after two")
    yield Line(prediction, "=", descend(2), "Multiplied out")


@register("V10-error", "The error of two steps is a product of two")
@states(lambda: Trace(_step**2 * Lambda * (_step.T) ** 2))
def two_step_error() -> Lines:
    """Average the squared error over the task and the query."""
    error = expect((y_q - descend(2)) ** 2, given=Lambda_hat)
    yield Line(w - _u_2, "=", _step.T**2 * w, "Each step multiplies the error of the task vector by this matrix", ("V10-steps", "30"))
    yield Line(E((y_q - prediction) ** 2, given=Lambda_hat), "=", error, "The squared error, averaged over task and query", "V10-steps")


@register("V10-white", "The loss of two steps for white tokens")
@states(lambda: (
    1 - 4 * z + 6 * z**2 * (1 + (D + 1) / N) - 4 * z**3 * (1 + 3 * (D + 1) / N + (D**2 + 3 * D + 4) / N**2)
    + z**4 * (1 + 6 * (D + 1) / N + (6 * D**2 + 17 * D + 21) / N**2 + (D**3 + 6 * D**2 + 21 * D + 20) / N**3)
))  # fmt: skip
def white_loss() -> Lines:
    """Put the white covariance and the scalar weight into the loss."""
    white = {Lambda: lambda_ * Identity(D), U: z / lambda_ * Identity(D)}
    loss, whole = E((y_q - prediction) ** 2), two_steps().loss()
    yield Line(loss, "=", whole, r"The loss for every covariance and every $\boldsymbol{U}$", "V10-steps")
    for letter, value in white.items():
        yield Line(letter, ":=", value, "White tokens and one number for a weight")
    yield Line(loss / (lambda_ * D), "=", substitute(whole, white) / (lambda_ * D), "For each direction", "V10-steps")


@register("V10-start", "Two steps start twice as fast")
@states("one", lambda: Lambda**2)
@states("two", lambda: 2 * Lambda**2)
def first_velocity() -> Lines:
    """The flow of each model at zero."""
    models = {"one": Model(prediction=descend(1), weights=(U,)), "two": two_steps()}
    for name, one in models.items():
        yield Line(Rate(U, one.flow()), "=", -Gradient(E((y_q - one.prediction) ** 2), U) / 2, f"The flow (10), with {name} of the steps")
    yield Line(U, ":=", ZeroMatrix(D, D), "The start")
    for name, one in models.items():
        yield Line(Rate(U, one.flow()), "=", substitute(one.flow()[U], {U: zero((D, D))}),
                   f"The velocity there, with {name} of the steps", part=name)  # fmt: skip
