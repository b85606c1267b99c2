"""Claims about the cubic feature z = vec(beta x_q') and the loss over sequences: sampled, against closed forms."""

import numpy as np
import torch

from ....numerics import QuadraticLoss, RegressionTask
from ...experiments import draws
from ...training.modules import cubic_features
from ...training.sequences import draw_sequences
from .. import formulas
from ..book import claim, wrong
from .moments import TILTED, largest_product_score, largest_score


@draws.remembered
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


@claim("41", method="Monte Carlo", theory=feature_target)
@wrong("Lambda for Lambda^2", lambda task: task.covariance.flatten(order="F"))
def feature_target_sampled(target) -> float:
    """E(y_q z) over 200,000 sequences read from X."""
    X, y = sequences()
    return largest_score((y[:, None] * cubic_features(X)).numpy(), target(TILTED))


@claim("42", method="Monte Carlo", theory=feature_covariance)
@wrong("factors swapped", lambda task: np.kron(formulas.second_moment(task), task.covariance))
@wrong("N + 1 for N", formulas.longer_context)
def feature_covariance_sampled(covariance) -> float:
    """E(z z') over 200,000 sequences read from X."""
    z = cubic_features(sequences()[0]).numpy()
    return largest_product_score(z, z, covariance(TILTED))


@claim("43", method="linear algebra", theory=feature_precision)
@wrong("N + 1 for N", formulas.longer_context)
def feature_precision_inverts(precision) -> float:
    """The inverse of E(z z') times E(z z')."""
    return float(np.abs(precision(TILTED) @ feature_covariance(TILTED) - np.eye(9)).max())


def population_loss(task: RegressionTask, B: np.ndarray) -> float:
    return QuadraticLoss.population(task).value(B)


@claim("9", method="Monte Carlo", theory=population_loss)
@wrong("N + 1 for N", formulas.longer_context)
@wrong("half of it", formulas.times(0.5))
def loss_sampled(loss) -> float:
    """The losses of a dozen random maps over 200,000 sequences against their closed form."""
    X, y = sequences()
    maps = draws.generator(9).standard_normal((12, 3, 3))
    errors = (y[:, None] - cubic_features(X) @ torch.tensor(maps.transpose(2, 1, 0).reshape(9, 12))).square()
    return largest_score(errors.numpy(), np.array([loss(TILTED, B) for B in maps]))


@claim("24", method="Monte Carlo", theory=formulas.plateau_losses)
@wrong("N + 1 for N", formulas.longer_context)
@wrong("drops of exactly lambda_m", formulas.infinite_context)
def fixed_point_loss_sampled(losses) -> float:
    """The loss at the fixed points m = 0 ... D over 200,000 sequences."""
    X, y = sequences()
    z = cubic_features(X)
    maps = np.stack([formulas.saddle_map(TILTED, m).flatten(order="F") for m in range(4)])
    errors = (y[:, None] - z @ torch.tensor(maps.T)).square().numpy()
    return largest_score(errors, losses(TILTED))


@claim("60", method="Monte Carlo", theory=lambda L, M, G: np.trace(L @ G @ M @ G))
@wrong("Gamma^2 inside", lambda L, M, G: np.trace(L @ formulas.sandwich(TILTED, G @ G)))
def quadratic_term_sampled(term) -> float:
    """The mean square of the prediction with all components learned: tr(Lambda Gamma M Gamma)."""
    X, _ = sequences()
    G = formulas.saddle_map(TILTED, 3)
    predicted = (cubic_features(X) @ torch.tensor(G.flatten(order="F"))).square().numpy()
    return largest_score(predicted, term(TILTED.covariance, formulas.second_moment(TILTED), G))
