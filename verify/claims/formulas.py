"""The theory's side of the claims, as numbers: each function is one formula of the paper, of a task.

No formula is typed here. Each is what the theory layer derives, compiled: moments by the symbolic engine, the others
from the derivations of the registry. Mistakes for the claims to catch are made by :func:`longer_context` and the like.
"""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import numpy as np
from jaxtyping import Float

from ...numerics.compilation.expressions import compile_expression
from ...numerics.reductions.scalar import formula
from ...numerics.reductions.white import WhiteReduction
from ...numerics.tasks.regression import RegressionTask
from ...theory import notation
from ...theory.equations import equation
from ...theory.expectation.moments import expect
from ...theory.notation import Lambda, Lambda_hat, N, T, a, lambda_, v
from ...theory.results.estimators.algorithms import level
from ...theory.results.separate.reduction import second_moment_eigenvalue
from ...theory.results.separate.time_integral import u as scaled_weight

Formula = Callable[..., Any]


@cache
def _moment(word: str) -> Callable[..., np.ndarray]:
    A = notation.matrix("A", notation.D)
    words = {
        "S": Lambda_hat,
        "S S": Lambda_hat**2,
        "S A S": Lambda_hat * A * Lambda_hat,
        "S S S": Lambda_hat**3,
    }
    return compile_expression(expect(words[word]), (Lambda, N, A))


@cache
def _scalar(name: str) -> Callable[..., Any]:
    """A formula of one eigenvalue, of lambda, T = tr(Lambda) and N."""
    expression = {
        "a_d": lambda: second_moment_eigenvalue().result,
        "lambda_d/a_d": level,
        "drop": lambda: _named(equation("24").derive().parts["drop"]),
    }[name]()
    return compile_expression(expression, (lambda_, T, N))


def _named(formula: Any) -> Any:
    """The formula of lambda_m as one of lambda."""
    (indexed,) = (symbol for symbol in formula.free_symbols if str(symbol).startswith("lambda["))
    return formula.subs(indexed, lambda_)


def _of_eigenvalues(name: str, task: RegressionTask) -> Float[np.ndarray, " D"]:
    lam = task.eigenvalues
    return _scalar(name)(lam, lam.sum(), task.context_length)


def second_moment(task: RegressionTask) -> Float[np.ndarray, "D D"]:
    """E(Lambda_hat^2), equation (31)."""
    return _moment("S S")(task.covariance, task.context_length, task.covariance)


def sandwich(task: RegressionTask, A: Float[np.ndarray, "D D"]) -> Float[np.ndarray, "D D"]:
    """E(Lambda_hat A Lambda_hat)."""
    return _moment("S A S")(task.covariance, task.context_length, A)


def third_moment(task: RegressionTask) -> Float[np.ndarray, "D D"]:
    """E(Lambda_hat^3)."""
    return _moment("S S S")(task.covariance, task.context_length, task.covariance)


def moment_eigenvalues(task: RegressionTask) -> Float[np.ndarray, " D"]:
    """``a_d = lambda_d^2 (1 + (1 + tr(Lambda)/lambda_d)/N)``, equation (32)."""
    return _of_eigenvalues("a_d", task)


def plateau_losses(task: RegressionTask) -> Float[np.ndarray, " D+1"]:
    """The loss at the saddles M_0 ... M_D, equation (24)."""
    largest_first = np.argsort(-task.eigenvalues)
    drops = _of_eigenvalues("drop", task)[largest_first]
    return task.eigenvalues.sum() - np.concatenate([[0.0], np.cumsum(drops)])


def saddle_map(task: RegressionTask, learned: int) -> Float[np.ndarray, "D D"]:
    """The effective map with the ``learned`` largest components learned, equations (23) and (27)."""
    first = np.argsort(-task.eigenvalues)[:learned]
    E = task.eigenvectors[:, first]
    return E * _of_eigenvalues("lambda_d/a_d", task)[first] @ E.T


def learned_value_weights(task: RegressionTask) -> Float[np.ndarray, " D"]:
    """``v_d = (lambda_d / a_d)^(1/3)`` of a head that has learned component d, equation (25)."""
    return formula("fixed_value")(task.eigenvalues, moment_eigenvalues(task))


def scalar_field(task: RegressionTask, v: Float[np.ndarray, " D"]) -> Float[np.ndarray, " D"]:
    """``tau dv/dt = lambda^2 v^2 - lambda a v^5``, equation (26)."""
    return formula("flow")(v, task.eigenvalues, moment_eigenvalues(task))


@cache
def _bracket() -> Callable[..., Any]:
    expression = equation("67").derive().result.subs(notation.tau, 1)
    return compile_expression(expression, (lambda_, a, v, scaled_weight))


def time_integral(lam: Any, a: Any, v: Any) -> Any:
    """The antiderivative of equation (67) at ``v``, up to a constant: ``t/tau`` is its change."""
    return _bracket()(lam, a, v, v / formula("fixed_value")(lam, a))


@cache
def _least_squares() -> Callable[..., np.ndarray]:
    return compile_expression(equation("16").derive().parts["factor"], (Lambda, N))


def least_squares_map(task: RegressionTask) -> Float[np.ndarray, "D D"]:
    """The converged map ``(Lambda + (Lambda + tr(Lambda) I)/N)^-1``, equation (16)."""
    return np.linalg.inv(_least_squares()(task.covariance, task.context_length))


def white_sigmoid(task: RegressionTask, t: Float[np.ndarray, " T"], squared_scale: float) -> Float[np.ndarray, " T"]:
    """sigma(t) of ``B = sigma I``, equations (15) and (45) to (47), for white covariance lambda I.

    ``t`` in units of tau, ``squared_scale`` is s(0) = |w_2(0)|^2.
    """
    return np.asarray(_white(task).sigma(t, squared_scale))


def white_loss(task: RegressionTask, sigma: Float[np.ndarray, " T"]) -> Float[np.ndarray, " T"]:
    """``(1 - 2 sigma + (1 + (1 + D)/N) sigma^2) D``, equation (48), with its powers of lambda."""
    return formula("white_loss")(sigma, task.eigenvalues[0], task.dimension, task.context_length)


def _white(task: RegressionTask) -> WhiteReduction:
    return WhiteReduction(task.dimension, int(task.context_length), float(task.eigenvalues[0]))


def with_context_length(task: RegressionTask, context_length: int) -> RegressionTask:
    """The same tokens in contexts of another length, the eigenvalues in the same order."""
    if np.array_equal(task.eigenvectors, np.eye(task.dimension)):
        return RegressionTask(eigenvalues=task.eigenvalues, context_length=context_length)
    return RegressionTask(covariance=task.covariance, context_length=context_length)


def longer_context(formula: Formula) -> Formula:
    """The same formula with N + 1 for N: the query counted as a token of the context."""

    @wraps(formula)
    def mistaken(task: RegressionTask, *arguments: Any) -> Any:
        return formula(with_context_length(task, task.context_length + 1), *arguments)

    return mistaken


def infinite_context(formula: Formula) -> Formula:
    """The same formula without its terms in 1/N."""

    @wraps(formula)
    def mistaken(task: RegressionTask, *arguments: Any) -> Any:
        return formula(with_context_length(task, 10**12), *arguments)

    return mistaken


def times(factor: float, formula: Formula) -> Formula:
    """A mistake in a prefactor: the formula multiplied by ``factor``."""

    @wraps(formula)
    def mistaken(*arguments: Any) -> Any:
        return factor * formula(*arguments)

    return mistaken
