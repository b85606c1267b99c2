"""Theory's side of the claims as numbers: each function evaluates one formula of the paper for a task.

No formula is typed here: each is an equation of the registry, compiled. :func:`longer_context`, :func:`infinite_context`
and :func:`times` make mistakes for the claims to catch.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from typing import Any

import numpy as np
from jaxtyping import Float

from ...numerics import RegressionTask, WhiteReduction, compiled
from ...theory import notation
from ...theory.calculus.spectral import eigenvalue
from ...theory.notation import D, Lambda, N, T, a, lambda_, sigma_level, tau, v
from ...theory.results.landscape.fixed_points import m
from ...theory.results.separate.durations import u
from ...theory.results.task.second_moments import A as A_
from .book import Mistake

Formula = Callable[..., Any]

# A task whose covariance is not diagonal, and an effective map that is not symmetric: a transpose or a factor in the wrong place shows.
OBLIQUE_TASK = RegressionTask(covariance=[[0.5, 0.2], [0.2, 0.4]], context_length=5)
OBLIQUE_MAP = np.array([[0.9, 0.3], [-0.2, 0.7]])


def formula(number: str, *letters: Any, part: str | None = None, given: Formula | None = None) -> Formula:
    """An equation, or a part of it, as a function of its letters; its argument ``change`` plants a mistake.

    ``given`` makes the letters' values of other arguments.
    """

    def value(*arguments: Any, change: Mapping | None = None, **named: Any) -> Any:
        return compiled(number, letters, part=part, change=change)(*(given(*arguments, **named) if given else arguments))

    return value


def parts_of(number: str, letters: Sequence | Mapping[str, Sequence], *names: str, given: Formula | None = None) -> dict[str, Formula]:
    """Parts of an equation by :func:`formula`, of the same letters for each of ``names``, or of those in a mapping {part: its letters}."""
    of_part = letters if isinstance(letters, Mapping) else dict.fromkeys(names, letters)
    return {part: formula(number, *of, part=part, given=given) for part, of in of_part.items()}


def second_moment(task: RegressionTask) -> Float[np.ndarray, "D D"]:
    """E(Lambda_hat^2), equation (31)."""
    return compiled("31", (Lambda, N), part="second")(task.covariance, task.context_length)


def sandwich(task: RegressionTask, A: Float[np.ndarray, "D D"]) -> Float[np.ndarray, "D D"]:
    """E(Lambda_hat A Lambda_hat), (31-moments)."""
    return compiled("31-moments", (Lambda, A_, N), part="A")(task.covariance, A, task.context_length)


def third_moment(task: RegressionTask) -> Float[np.ndarray, "D D"]:
    """E(Lambda_hat^3), (31-moments)."""
    return compiled("31-moments", (Lambda, N), part="cube")(task.covariance, task.context_length)


@cache
def moment_eigenvalues(task: RegressionTask) -> Float[np.ndarray, " D"]:
    """``a_d = lambda_d^2 (1 + (1 + tr(Lambda)/lambda_d)/N)``, equation (32)."""
    eigenvalues = compiled("32", (lambda_, Lambda, N), part="product")
    return eigenvalues(task.eigenvalues, task.covariance, task.context_length)


def plateau_losses(task: RegressionTask) -> Float[np.ndarray, " D+1"]:
    """The loss at the saddles M_0 ... M_D, equation (24)."""
    largest_first, total = np.sort(task.eigenvalues)[::-1], task.eigenvalues.sum()
    drops = compiled("24", (lambda_, T, N), part="drop", change={eigenvalue[m]: lambda_})
    return total - np.concatenate([[0.0], np.cumsum(drops(largest_first, total, task.context_length))])


def saddle_map(task: RegressionTask, learned: int) -> Float[np.ndarray, "D D"]:
    """The effective map with the ``learned`` largest components learned, equations (23) and (27)."""
    first = np.argsort(-task.eigenvalues)[:learned]
    E, learned_level = task.eigenvectors[:, first], compiled("23", (notation.learned, lambda_, T, N))
    return E * learned_level(1, task.eigenvalues[first], task.eigenvalues.sum(), task.context_length) @ E.T


def learned_value_weights(task: RegressionTask) -> Float[np.ndarray, " D"]:
    """``v_d = (lambda_d / a_d)^(1/3)`` of a head that has learned component d, equation (25)."""
    return compiled("25", (lambda_, a), part="cube")(task.eigenvalues, moment_eigenvalues(task))


def scalar_field(task: RegressionTask, values: Float[np.ndarray, " D"]) -> Float[np.ndarray, " D"]:
    """``tau dv/dt = lambda^2 v^2 - lambda a v^5``, equation (26)."""
    return compiled("26", (v, lambda_, a), part="short")(values, task.eigenvalues, moment_eigenvalues(task))


def time_integral(lam: Any, moment: Any, value: Any) -> Any:
    """The antiderivative of equation (67) at ``value``, up to a constant: ``t/tau`` is its change."""
    fixed = compiled("25", (lambda_, a), part="cube")(lam, moment)
    return compiled("67", (lambda_, a, v, u, tau))(lam, moment, value, value / fixed, 1.0)


def least_squares_map(task: RegressionTask) -> Float[np.ndarray, "D D"]:
    """The converged map ``(Lambda + (Lambda + tr(Lambda) I)/N)^-1``, equation (16)."""
    return np.linalg.inv(compiled("16", (Lambda, N), part="factor")(task.covariance, task.context_length))


def white_sigmoid(task: RegressionTask, t: Float[np.ndarray, " T"], squared_scale: float) -> Float[np.ndarray, " T"]:
    """sigma(t) of ``B = sigma I``, equations (15) and (45) to (47), for white covariance lambda I.

    ``t`` in units of tau, ``squared_scale`` is s(0) = |w_2(0)|^2.
    """
    return np.asarray(white(task).sigma(t, squared_scale))


def white_loss(task: RegressionTask, sigma: Float[np.ndarray, " T"]) -> Float[np.ndarray, " T"]:
    """``(1 - 2 sigma + (1 + (1 + D)/N) sigma^2) D``, equation (48), with its powers of lambda."""
    loss = compiled("48", (sigma_level, lambda_, D, N), part="scaled")
    return loss(sigma, task.eigenvalues[0], task.dimension, task.context_length)


def white(task: RegressionTask) -> WhiteReduction:
    return WhiteReduction(task.dimension, int(task.context_length), float(task.eigenvalues[0]))


def with_context_length(task: RegressionTask, context_length: int) -> RegressionTask:
    """The same tokens in contexts of another length, the eigenvalues in the same order."""
    if np.array_equal(task.eigenvectors, np.eye(task.dimension)):
        return RegressionTask(eigenvalues=task.eigenvalues, context_length=context_length)
    return RegressionTask(covariance=task.covariance, context_length=context_length)


@Mistake
def longer_context(formula: Formula) -> Formula:
    """The same formula with N + 1 for N: the query counted as a token of the context."""

    @wraps(formula)
    def mistaken(task: RegressionTask, *arguments: Any) -> Any:
        return formula(with_context_length(task, task.context_length + 1), *arguments)

    return mistaken


@Mistake
def infinite_context(formula: Formula) -> Formula:
    """The same formula without its terms in 1/N."""

    @wraps(formula)
    def mistaken(task: RegressionTask, *arguments: Any) -> Any:
        return formula(with_context_length(task, 10**12), *arguments)

    return mistaken


def times(factor: float) -> Mistake:
    """A mistake in a prefactor: the formula multiplied by ``factor``."""

    def mistaken(formula: Formula) -> Formula:
        return lambda *arguments, **named: factor * formula(*arguments, **named)

    return Mistake(mistaken)


def gradient_by_differences(function: Callable[[np.ndarray], float], point: np.ndarray) -> np.ndarray:
    """The gradient of a quadratic function by central differences, exact up to rounding."""
    units = np.eye(point.size).reshape(-1, *point.shape)
    return np.array([(function(point + e) - function(point - e)) / 2 for e in units]).reshape(point.shape)


def power_law(sizes: Sequence[float] | np.ndarray, value: Callable[[float], float]) -> float:
    """The exponent of a power law fitted to a value at several sizes."""
    return float(np.polyfit(np.log(sizes), np.log([value(size) for size in sizes]), 1)[0])
