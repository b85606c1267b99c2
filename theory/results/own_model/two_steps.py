r"""A model that is none of the paper's: two steps of gradient descent in context (V10).

Least squares in the context starts from no task vector and takes two steps of gradient descent with a learned preconditioner U,

    u_1 = U' beta,    u_2 = u_1 + U' (beta - Lambda_hat u_1),    y_hat = u_2' x_q = beta' (2 U - U Lambda_hat U) x_q,

where linear attention takes one. The prediction is quadratic in U, the loss a polynomial of degree four, over E(Lambda_hat^4).
"""

from functools import cache

from sympy import Identity, Symbol, Trace

from ...algebra.polynomial import TracePolynomial, zero
from ...calculus.derivatives import gradient
from ...calculus.rewriting import rewrite
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...expectation.moments import expect
from ...model import Model
from ...notation import D, Lambda, Lambda_hat, N, beta, lambda_, matrix, vector, w, x_q, y_q

__all__ = ["U", "two_steps", "z"]

U = matrix("U", D)  # the preconditioner, learned
_u = vector("u", D)  # the task vector that descent in context has reached
_step = Identity(D) - Lambda_hat * U  # what one step does to the error of the task vector, transposed
z = Symbol("z", real=True)  # the one weight for white tokens: U = z I / lambda


@cache
def two_steps() -> Model:
    """The model of (V10-steps), with its one weight U."""
    return Model(prediction=descend(2), weights=(U,))


@cache
def descend(steps: int) -> TracePolynomial:
    """The prediction after steps of descent in context, each U' times minus half the gradient of the context's squared error."""
    residual = -gradient(_context_error(), _u) / 2
    reached = zero((D, 1))
    for _ in range(steps):
        reached = reached + U.T * substitute(residual, {_u: reached})
    return rewrite(reached.T * x_q, {Lambda_hat * w: beta})


def _context_error() -> TracePolynomial:
    """(1/N) sum_n (y_n - u' x_n)^2 with y_n = w' x_n."""
    return TracePolynomial((w - _u).T * Lambda_hat * (w - _u))


@register(
    "V10-steps",
    "Two steps of gradient descent in context",
    kind="exact",
    section="beyond the paper",
    left=r"\hat y_q",
    typed=lambda: beta.T * (2 * U - U * Lambda_hat * U) * x_q,
    conditions=(
        r"From zero, with the same preconditioner $\boldsymbol{U}^{\top}$ in both steps",
        (
            r"One step is linear attention with one head, $\boldsymbol{\beta}^{\top} \boldsymbol{U} "
            r"\boldsymbol{x}_{q}$"
        ),
    ),
)
def two_step_prediction() -> Derivation:
    """Descend on the squared error of the context, twice."""
    residual = -gradient(_context_error(), _u) / 2
    return Derivation.by(
        Step("The squared error of a task vector $u$ in the context", _context_error()),
        Step("Minus half its gradient in $u$", rewrite(residual, {Lambda_hat * w: beta})),
        Step("The prediction after one step", descend(1)),
        Step("After two", descend(2)),
    )


@register(
    "V10-error",
    "The error of two steps is a product of two",
    kind="exact",
    section="beyond the paper",
    left=r"\mathbb{E}_{\boldsymbol{w},\boldsymbol{x}_q}(y_q-\hat y_q)^2",
    typed=lambda: Trace(_step**2 * Lambda * (_step.T) ** 2),
    conditions=(
        (
            r"Given the context; a step multiplies the error of the task vector by $\boldsymbol{I} - "
            r"\hat{\boldsymbol{\Lambda}} \boldsymbol{U}$, transposed"
        ),
    ),
)
def two_step_error() -> Derivation:
    """Average the squared error over the task and the query."""
    error = TracePolynomial(y_q - descend(2)) ** 2
    return Derivation.by(
        Step("The squared error", error, r"(y_q-\hat y_q)^2"),
        Step("Average over the task vector and the query", expect(error, given=Lambda_hat)),
    )


@register(
    "V10-white",
    "The loss of two steps for white tokens",
    kind="exact",
    section="beyond the paper",
    left=r"\mathcal{L}/(\lambda D)",
    typed=lambda: (
        1
        - 4 * z
        + 6 * z**2 * (1 + (D + 1) / N)
        - 4 * z**3 * (1 + 3 * (D + 1) / N + (D**2 + 3 * D + 4) / N**2)
        + z**4 * (1 + 6 * (D + 1) / N + (6 * D**2 + 17 * D + 21) / N**2 + (D**3 + 6 * D**2 + 21 * D + 20) / N**3)
    ),
    conditions=(
        (
            r"$\boldsymbol{\Lambda} = \lambda \boldsymbol{I}$ and $\boldsymbol{U} = \boldsymbol{z} \boldsymbol{I} / "
            r"\lambda$"
        ),
        (
            r"The powers of $\boldsymbol{z}$ carry the moments E "
            r"$\operatorname{tr}(\hat{\boldsymbol{\Lambda}}^{\boldsymbol{k}}) / (\lambda^{\boldsymbol{k}} D)$"
        ),
    ),
)
def white_loss() -> Derivation:
    """Put the white covariance and the scalar weight into the loss."""
    scalar = substitute(two_steps().loss(), {Lambda: lambda_ * Identity(D), U: z / lambda_ * Identity(D)})
    return Derivation.by(
        Step(r"The loss for every covariance and every $\boldsymbol{U}$", two_steps().loss(), r"\mathcal{L}"),
        Step(r"For white tokens and a scalar $\boldsymbol{U}$", scalar, r"\mathcal{L}"),
        Step("For each direction, in units of its variance", scalar / (lambda_ * D)),
    )


@register(
    "V10-start",
    "Two steps start twice as fast",
    kind="exact",
    section="beyond the paper",
    left={"one": r"\tau\dot{\boldsymbol{U}}\,\big|_{\boldsymbol{U}=0}", "two": r"\tau\dot{\boldsymbol{U}}\,\big|_{\boldsymbol{U}=0}"},
    typed=lambda: {"one": Lambda**2, "two": 2 * Lambda**2},
    conditions=("For one step and for two; there is no plateau, since the weight is one matrix rather than a product",),
)
def first_velocity() -> Derivation:
    """The flow of each model at zero."""
    one = Model(prediction=descend(1), weights=(U,)).flow()[U]
    two = two_steps().flow()[U]
    at_zero = {U: zero((D, D))}
    return Derivation.by(
        Step("The flow of one step", one, r"\tau\dot{\boldsymbol{U}}"),
        Step("At zero", substitute(one, at_zero), part="one"),
        Step("The flow of two steps at zero", substitute(two, at_zero), part="two"),
    )
