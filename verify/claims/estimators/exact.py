"""Claims that put numbers into statements proved by algebra alone: (V7-flow), (V8-loss), (V9-posterior), (V10-error), (V10-white)."""

from collections.abc import Callable, Mapping

import numpy as np

from ....numerics.compilation.equations import compiled
from ....numerics.tasks.losses import QuadraticLoss
from ....numerics.tasks.regression import RegressionTask
from ....theory.notation import D, G, Lambda, Lambda_hat, M, N, beta, sigma
from ....theory.results.discretisation.finite_steps import eta
from ....theory.results.estimators.optimality import u
from ....theory.results.own_model.two_steps import U, z
from ..book import claim
from ..tolerances import ROUNDOFF, SAMPLING

TASK = RegressionTask(covariance=[[0.5, 0.2], [0.2, 0.4]], context_length=5)
POINT = np.array([[0.9, 0.3], [-0.2, 0.7]])


def _slope(function: Callable[[np.ndarray], float], point: np.ndarray) -> np.ndarray:
    """The gradient of a quadratic, for which central differences have no error but rounding."""
    units = np.eye(point.size).reshape(-1, *point.shape)
    return np.array([(function(point + e) - function(point - e)) / 2 for e in units]).reshape(point.shape)


def modified_force(change: Mapping | None = None) -> Callable:
    """The force (V8-loss) of the loss that descent follows, of G, M, Lambda and eta."""
    return compiled("V8-loss", (G, M, Lambda, eta), change=change)


@claim(
    "V8-loss",
    "minus half the gradient of the loss with eta/4 of its squared gradient, by central differences at one map",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=modified_force(),
    wrong={"eta doubled": modified_force({eta: 2 * eta}), "sign of M": modified_force({M: -M})},
)
def modified_loss_by_differences(expected) -> float:
    loss, step, moment = QuadraticLoss.population(TASK), 0.3, TASK.second_moment
    force = TASK.covariance @ TASK.covariance - moment @ POINT @ TASK.covariance
    derived = expected(force, moment, TASK.covariance, step)
    slope = _slope(lambda map_: loss.value(map_) + step / 4 * float(np.sum(loss.gradient(map_) ** 2)), POINT)
    return float(np.abs(derived + slope / 2).max())


def posterior_slope(change: Mapping | None = None) -> Callable:
    """The slope of the log posterior (V9-posterior), of beta, Lambda_hat, u, N and sigma."""
    return compiled("V9-posterior", (beta, Lambda_hat, u, N, sigma), change=change)


@claim(
    "V9-posterior",
    "the slope of the log posterior on a drawn context, by central differences at a drawn task vector",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=posterior_slope(),
    wrong={"twice the noise": posterior_slope({sigma: 2 * sigma}), "N + 1 for N": posterior_slope({N: N + 1})},
)
def posterior_by_differences(expected) -> float:
    rng, noise, length = np.random.default_rng(94), 0.7, 6
    X, labels, at = rng.standard_normal((length, 3)), rng.standard_normal(length), rng.standard_normal((3, 1))
    context = (X.T @ labels)[:, None] / length, X.T @ X / length
    derived = expected(*context, at, length, noise)
    slope = _slope(lambda v: float(np.sum((labels - X @ v[:, 0]) ** 2) / noise**2 + np.sum(v**2)), at)
    return float(np.abs(derived + noise**2 / (2 * length) * slope).max())


def two_step_error(change: Mapping | None = None) -> Callable:
    """The error of two steps in a context (V10-error), of Lambda, Lambda_hat and U."""
    return compiled("V10-error", (Lambda, Lambda_hat, U), change=change)


@claim(
    "V10-error",
    "the error of two steps of descent, taken one after the other for each unit task vector in a drawn context",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=two_step_error(),
    wrong={"Lambda for Lambda_hat": two_step_error({Lambda_hat: Lambda}), "weight doubled": two_step_error({U: 2 * U})},
)
def error_of_two_steps(expected) -> float:
    X = np.random.default_rng(95).standard_normal((5, 2))
    error = 0.0
    for task in np.eye(2):
        reached = np.zeros(2)
        for _ in range(2):
            reached = reached + POINT.T @ (X.T @ (X @ (task - reached)) / 5)
        error += (task - reached) @ TASK.covariance @ (task - reached)
    derived = expected(TASK.covariance, X.T @ X / 5, POINT)
    return abs(float(derived) / float(error) - 1)


def white_loss(change: Mapping | None = None) -> Callable:
    """The loss of two steps for white tokens (V10-white), of z, D and N."""
    return compiled("V10-white", (z, D, N), change=change)


@claim(
    "V10-white",
    "the loss of two steps for white tokens, averaged over 50,000 contexts of five tokens in three dimensions",
    method="Monte Carlo",
    tolerance=SAMPLING,
    theory=white_loss(),
    wrong={"N + 1 for N": white_loss({N: N + 1}), "D + 1 for D": white_loss({D: D + 1})},
)
def white_loss_on_contexts(expected) -> float:
    X, scale = np.random.default_rng(96).standard_normal((50_000, 5, 3)), 0.4
    left = np.eye(3) - scale * np.einsum("pnd,pne->pde", X, X) / 5
    twice = left @ left
    each = np.einsum("pde,pde->p", twice, twice) / 3
    return float(abs(each.mean() - expected(scale, 3, 5)) / (each.std() / len(each) ** 0.5))
