"""Claims about the cubic feature z = vec(beta x_q') and the loss over sequences: sampled, against closed forms."""

import numpy as np
import torch

from ....numerics.tasks.losses import QuadraticLoss
from ....numerics.tasks.regression import RegressionTask
from ...experiments import draws
from ...experiments.draws import remembered
from ...training.modules import cubic_features
from ...training.sequences import draw_sequences
from .. import formulas
from ..book import claim
from .moments import TILTED, largest_score


@remembered
def sequences(count: int = 200_000, seed: int = 41) -> tuple[torch.Tensor, torch.Tensor]:
    return draw_sequences(TILTED, count, draws.torch_generator(seed))


def feature_target(task: RegressionTask) -> np.ndarray:
    """``E(y_q z) = vec(Lambda Lambda_q)``, columns stacked."""
    return (task.covariance @ task.covariance).flatten(order="F")


def feature_covariance(task: RegressionTask) -> np.ndarray:
    """``E(z z') = Lambda_q (x) E(Lhat^2)``."""
    return np.kron(task.covariance, formulas.second_moment(task))


def feature_precision(task: RegressionTask) -> np.ndarray:
    """``E(z z')^-1 = Lambda_q^-1 (x) (Lambda + (Lambda + tr(Lambda) I)/N)^-1 Lambda^-1``."""
    inverse = np.linalg.inv(task.covariance)
    return np.kron(inverse, formulas.least_squares_map(task) @ inverse)


@claim(
    "41",
    "E(y_q z) over 200,000 sequences read from X",
    method="Monte Carlo",
    theory=feature_target,
    wrong={"Lambda for Lambda^2": lambda task: task.covariance.flatten(order="F")},
)
def feature_target_sampled(target) -> float:
    X, y = sequences()
    return largest_score((y[:, None] * cubic_features(X)).numpy(), target(TILTED))


@claim(
    "42",
    "E(z z') over 200,000 sequences read from X",
    method="Monte Carlo",
    theory=feature_covariance,
    wrong={
        "factors swapped": lambda task: np.kron(formulas.second_moment(task), task.covariance),
        "N + 1 for N": formulas.longer_context(feature_covariance),
    },
)
def feature_covariance_sampled(covariance) -> float:
    z = cubic_features(sequences()[0]).numpy()
    return largest_score((z[:, :, None] * z[:, None, :]).reshape(len(z), -1), covariance(TILTED).ravel())


@claim(
    "43",
    "the inverse of E(z z') times E(z z')",
    method="linear algebra",
    theory=feature_precision,
    wrong={"N + 1 for N": formulas.longer_context(feature_precision)},
)
def feature_precision_inverts(precision) -> float:
    return float(np.abs(precision(TILTED) @ feature_covariance(TILTED) - np.eye(9)).max())


def population_loss(task: RegressionTask, B: np.ndarray) -> float:
    return QuadraticLoss.population(task).value(B)


@claim(
    "9",
    "the loss of a random map over 200,000 sequences against its closed form",
    method="Monte Carlo",
    theory=population_loss,
    wrong={"N + 1 for N": formulas.longer_context(population_loss), "half of it": formulas.times(0.5, population_loss)},
)
def loss_sampled(loss) -> float:
    X, y = sequences()
    B = draws.generator(9).standard_normal((3, 3))
    errors = (y - cubic_features(X) @ torch.tensor(B.flatten(order="F"))).square()
    return largest_score(errors.numpy(), loss(TILTED, B))


def _fixed_point_loss(task: RegressionTask) -> np.ndarray:
    return formulas.plateau_losses(task)


@claim(
    "24",
    "the loss at the fixed points m = 0 ... D over 200,000 sequences",
    method="Monte Carlo",
    theory=_fixed_point_loss,
    wrong={
        "N + 1 for N": formulas.longer_context(_fixed_point_loss),
        "drops of exactly lambda_m": formulas.infinite_context(_fixed_point_loss),
    },
)
def fixed_point_loss_sampled(losses) -> float:
    X, y = sequences()
    z = cubic_features(X)
    maps = np.stack([formulas.saddle_map(TILTED, m).flatten(order="F") for m in range(4)])
    errors = (y[:, None] - z @ torch.tensor(maps.T)).square().numpy()
    return largest_score(errors, losses(TILTED))


@claim(
    "60",
    "the mean square of the prediction with all components learned: tr(Lambda Gamma M Gamma)",
    method="Monte Carlo",
    theory=lambda L, M, G: np.trace(L @ G @ M @ G),
    wrong={"Gamma^2 inside": lambda L, M, G: np.trace(L @ formulas.sandwich(TILTED, G @ G))},
)
def quadratic_term_sampled(term) -> float:
    X, _ = sequences()
    G = formulas.saddle_map(TILTED, 3)
    predicted = (cubic_features(X) @ torch.tensor(G.flatten(order="F"))).square().numpy()
    return largest_score(predicted, term(TILTED.covariance, formulas.second_moment(TILTED), G))
