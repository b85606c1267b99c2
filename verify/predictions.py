"""The theory's side of the claims, as numbers: each function is one formula of the paper, of a task.

Expectations are computed by the symbolic engine and compiled; the scalar formulas are the paper's, whose proofs are in
the theory layer. Mistakes for the claims to catch are made from these functions by :func:`longer_context` and the like.
"""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import numpy as np
from jaxtyping import Float

from ..numerics.compile import compile_expression
from ..numerics.tasks import RegressionTask
from ..theory import notation
from ..theory.moments import expect
from ..theory.notation import Lambda, Lambda_hat, N

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
    lam, n = task.eigenvalues, task.context_length
    return lam**2 * (1 + (1 + lam.sum() / lam) / n)


def plateau_losses(task: RegressionTask) -> Float[np.ndarray, " D+1"]:
    """The loss at the saddles M_0 ... M_D, equation (24)."""
    lam, n = np.sort(task.eigenvalues)[::-1], task.context_length
    drops = lam / (1 + (1 + lam.sum() / lam) / n)
    return lam.sum() - np.concatenate([[0.0], np.cumsum(drops)])


def saddle_map(task: RegressionTask, learned: int) -> Float[np.ndarray, "D D"]:
    """The effective map with the ``learned`` largest components learned, equations (23) and (27)."""
    lam, n, E = task.eigenvalues, task.context_length, task.eigenvectors
    first = np.argsort(-lam)[:learned]
    weights = 1 / (lam * (1 + (1 + lam.sum() / lam) / n))
    return E[:, first] * weights[first] @ E[:, first].T


def learned_value_weights(task: RegressionTask) -> Float[np.ndarray, " D"]:
    """``v_d = (lambda_d / a_d)^(1/3)`` of a head that has learned component d, equation (25)."""
    lam = task.eigenvalues
    return np.cbrt(lam / moment_eigenvalues(task))


def least_squares_map(task: RegressionTask) -> Float[np.ndarray, "D D"]:
    """The converged map ``(Lambda + (Lambda + tr(Lambda) I)/N)^-1``, equation (16)."""
    L, n = task.covariance, task.context_length
    return np.linalg.inv(L + (L + np.trace(L) * np.eye(len(L))) / n)


def white_sigmoid(task: RegressionTask, t: Float[np.ndarray, " T"], squared_scale: float) -> Float[np.ndarray, " T"]:
    """sigma(t) of ``B = sigma I``, equations (15) and (45) to (47), for white covariance lambda I.

    ``t`` in units of tau, ``squared_scale`` is s(0) = |w_2(0)|^2.
    """
    lam, D, n = task.eigenvalues[0], task.dimension, task.context_length
    alpha, gamma = lam**3 * (1 + (1 + D) / n), lam**2 * np.sqrt(D)
    growth = np.exp(2 * gamma * t)
    return gamma * growth / (alpha * (growth - 1) + gamma / squared_scale) / np.sqrt(D)


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
