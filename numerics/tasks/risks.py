r"""The risk E(w'x_q - y_hat)^2 of trained linear attention, of least squares and of the Bayes predictor (V9).

The risk is the loss less the noise of the query's label. ``*_risk`` are exact, ``bayes_bounds`` hold for every N and D,
``risk_limits`` are for N = c D in high dimension, ``sampled_risks`` draws sequences.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...theory.notation import D, N, T, lambda_, sigma
from ...theory.results.estimators.optimality import c, nu
from ...theory.results.estimators.short_context import lambda_N
from .._checks import finite_array, generator, instance, nonnegative_number, positive_integer, positive_number, within_float64
from ..compilation.equations import compiled
from .regression import RegressionTask, paper_task

BATCH = 2000  # contexts held at once while sampling


@dataclass(frozen=True)
class SampledRisk:
    """A mean squared error over sampled sequences, and its standard error."""

    mean: float
    error: float


def linear_attention_risk(task: RegressionTask) -> float:
    """The risk of linear attention at its global minimum (V9-linear), exact for any covariance."""
    return float(_formula("V9-linear", "each")(_checked(task).eigenvalues, *_common(task)).sum())


def least_squares_risk(task: RegressionTask) -> float:
    """The risk of least squares in context (V9-ols): infinite for D - 1 <= N <= D + 1 with noise, whatever the covariance.

    Raises ``ValueError`` without a closed form: for tokens that are not white and N < D - 1, or N < D without noise.
    """
    dimension, length, variance = _checked(task).dimension, task.context_length, task.noise_variance
    if not _has_closed_form(task):
        raise ValueError(
            f"task must have white tokens for a closed form of least squares on N = {length} tokens in D = {dimension} dimensions, "
            f"got eigenvalues {task.eigenvalues}; sampled_risks measures it"
        )
    if variance == 0:
        return float(task.eigenvalues[0] * max(dimension - length, 0))
    if dimension - 1 <= length <= dimension + 1:
        return float("inf")
    part = "long" if length > dimension else "short"
    return float(_formula("V9-ols", part)(task.eigenvalues[0], dimension, length, np.sqrt(variance), 0.0))


def _has_closed_form(task: RegressionTask) -> bool:
    """Whether the risk of least squares is known. It does not depend on the covariance in a long context, or if it is infinite."""
    known = task.context_length >= task.dimension - (task.noise_variance > 0)
    return bool(known or np.ptp(task.eigenvalues) <= 1e-12 * task.eigenvalues.max())


def bayes_bounds(task: RegressionTask) -> tuple[float, float]:
    """A lower and an upper bound for the risk of the Bayes predictor (V9-bounds, V9-unseen).

    The lower bound comes from Jensen's inequality and, for N <= D, from directions that the context does not span. The upper one is
    the risk of linear attention or, if known and smaller, of least squares. Without noise Bayes is least squares, and both bounds
    are its risk if that is known.
    """
    squares = [least_squares_risk(task)] if _has_closed_form(_checked(task)) else []
    if task.noise_variance == 0 and squares:  # then least squares is the posterior mean
        return squares[0], squares[0]
    lower = float(_formula("V9-bounds", "lower")(task.eigenvalues, *_common(task)).sum())
    if task.context_length <= task.dimension:
        lower = max(lower, _unseen(task))
    return lower, min([linear_attention_risk(task), *squares])


def _unseen(task: RegressionTask) -> float:
    """The bound (V9-unseen): the sum of the D - N smallest eigenvalues, and the least risk along the others."""
    descending, length = np.sort(task.eigenvalues)[::-1], task.context_length
    seen = compiled("V9-unseen", (lambda_N, N, sigma, T), part="seen")
    inside = seen(descending[length - 1], length, np.sqrt(task.noise_variance), descending.sum())
    return float(descending[length:].sum() + inside)


@within_float64
def crossover_length(dimension: int, noise: float) -> float:
    """Up to this N, from D + 2 on, linear attention beats least squares on white tokens (V9-crossover); ``noise`` is sigma^2/tr(Lambda)."""
    function = compiled("V9-crossover", (D, nu), part="N")
    return float(function(positive_integer("dimension", dimension), np.float64(nonnegative_number("noise", noise))))


@within_float64
def risk_limits(ratio: object, noise: float) -> dict[str, np.ndarray]:
    """The risks of (V9-limit) in units of tr(Lambda), at N = ratio D; least squares is NaN for ratio <= 1."""
    ratios, noise = finite_array("ratio", ratio), positive_number("noise", noise)
    if not (ratios > 0).all():
        raise ValueError(f"ratio must be positive, got {ratio!r}")
    limits = {name: compiled("V9-limit", (c, nu), part=name) for name in ("Bayes", "linear", "least squares")}
    with np.errstate(divide="ignore"):
        values = {name: np.asarray(function(ratios, noise)) for name, function in limits.items()}
    return values | {"least squares": np.where(ratios > 1, values["least squares"], np.nan)}


@within_float64
def sampled_risks(
    task: RegressionTask, *, count: int, rng: np.random.Generator, penalties: Mapping[str, float] | None = None
) -> dict[str, SampledRisk]:
    """The risks of several predictors, measured on the same ``count`` sampled sequences.

    ``linear`` is linear attention at its global minimum, ``least squares`` the least-norm solution, ``Bayes`` ridge with the penalty
    sigma^2/N (least squares without noise); ``penalties`` adds ridge with other penalties, by other names.
    """
    count, rng, task = positive_integer("count", count), generator("rng", rng), _checked(task)
    if count < 2:
        raise ValueError(f"count must be at least 2, for a standard error, got {count}")
    moments = task.loss_moments
    best = np.linalg.solve(moments.M, moments.A) @ np.linalg.inv(moments.Q)  # where the force A - M B Q is zero
    given = instance("penalties", {} if penalties is None else penalties, Mapping, "a mapping {name: penalty}")
    others = {name: nonnegative_number(f"penalties[{name!r}]", penalty) for name, penalty in given.items()}
    if taken := {"linear", "least squares", "Bayes"} & others.keys():
        raise ValueError(f"penalties must have names other than {', '.join(map(repr, taken))}, got {penalties!r}")
    ridges = {"Bayes": task.noise_variance / task.context_length, **others}
    errors: dict[str, list[np.ndarray]] = {name: [] for name in ("linear", "least squares", *ridges)}
    root = task.eigenvectors * np.sqrt(task.eigenvalues)
    for start in range(0, count, BATCH):
        size = min(BATCH, count - start)
        X = (rng.standard_normal((size * task.context_length, task.dimension)) @ root.T).reshape(size, -1, task.dimension)
        w, x_q = rng.standard_normal((size, task.dimension)), rng.standard_normal((size, task.dimension)) @ root.T
        noise = np.sqrt(task.noise_variance) * rng.standard_normal((size, task.context_length))
        y = np.einsum("pnd,pd->pn", X, w) + noise
        beta, second = np.einsum("pnd,pn->pd", X, y) / task.context_length, X.swapaxes(1, 2) @ X / task.context_length
        long = task.context_length >= task.dimension
        Q, R = np.linalg.qr(X if long else X.swapaxes(1, 2))
        fitted = np.linalg.solve(R, Q.swapaxes(1, 2) @ y[..., None]) if long else Q @ np.linalg.solve(R.swapaxes(1, 2), y[..., None])
        estimates = {"linear": beta @ best, "least squares": fitted[..., 0]}
        for name, penalty in ridges.items():
            shifted = second + penalty * np.eye(task.dimension)
            estimates[name] = np.linalg.solve(shifted, beta[..., None])[..., 0] if penalty else estimates["least squares"]
        for name, estimate in estimates.items():
            errors[name].append(np.einsum("pd,pd->p", w - estimate, x_q) ** 2)
    gathered = {name: np.concatenate(parts) for name, parts in errors.items()}
    return {name: SampledRisk(float(values.mean()), float(values.std(ddof=1) / np.sqrt(count))) for name, values in gathered.items()}


def _formula(number: str, part: str) -> Any:
    return compiled(number, (lambda_, D, N, sigma, T), part=part)


def _common(task: RegressionTask) -> tuple:
    return task.dimension, task.context_length, np.sqrt(task.noise_variance), task.eigenvalues.sum()


def _checked(task: RegressionTask) -> RegressionTask:
    return paper_task(task, allow=("noise_variance",))
