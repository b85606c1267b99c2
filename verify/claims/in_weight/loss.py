"""Claims about the unreduced model with a portion of the task vectors fixed (V6): its moments, and its escape from the origin."""

from dataclasses import replace

import numpy as np
import torch
from scipy.special import ndtr, ndtri

from ....numerics import FullMergedWeights, MixedTask, QuadraticLoss, RegressionTask, SampleMoments, compiled, gradient_flow
from ....theory.notation import D, N, lambda_
from ....theory.results.in_weight.five_weights import LENGTH
from ....theory.results.in_weight.population_loss import portion
from ...experiments import draws
from ...experiments.in_weight import InWeightSetting
from ...training.modules import MergedAttention
from ..book import claim, wrong
from ..tolerances import SAMPLING

VECTORS = np.array([[1.0, -0.5], [0.5, 2.0]])
SMALL = RegressionTask(covariance=[[0.5, 0.2], [0.2, 0.4]], context_length=3)
LONGER = RegressionTask(covariance=SMALL.covariance, context_length=4)


def problem(task: RegressionTask = SMALL, p: float = 0.4, vectors: np.ndarray = VECTORS) -> MixedTask:
    return MixedTask(task, p, vectors)


# The moments


@draws.remembered
def _sampled(kind: str) -> np.ndarray:
    """The averages of y phi and phi phi' over each of 25 sets of 4,000 sequences."""
    rng = draws.generator(61)
    sets = problem().sequences(100_000, rng, kind=kind)  # type: ignore[arg-type]
    losses = (SampleMoments.from_arrays(*batch, context="mean").loss() for batch in sets)
    return np.array([np.concatenate([loss.A.ravel(), loss.matrix.ravel()]) for loss in losses])


def deviation(kind: str, loss: QuadraticLoss) -> float:
    """The largest difference of a moment from its average over the sets, in standard errors as if among 16 moments."""
    sampled, exact = _sampled(kind), np.concatenate([loss.A.ravel(), loss.matrix.ravel()])
    error = sampled.std(axis=0, ddof=1) / np.sqrt(len(sampled))
    largest = (np.abs(sampled.mean(axis=0) - exact) / np.where(error > 0, error, np.inf)).max()
    return float(abs(ndtri(min(ndtr(-largest) * max(np.count_nonzero(error) / 16, 1), 0.5))))


@claim("V6", method="Monte Carlo", theory=lambda: problem().training_loss)
@wrong("N + 1 for N", lambda: problem(LONGER).training_loss)
@wrong("the portions exchanged", lambda: problem(p=0.6).training_loss)
@wrong("all task vectors random", lambda: problem().in_context_loss)
def mixture_moments(loss) -> float:
    """Moments of the unreduced model with 60 % of the task vectors fixed, against sampled sequences."""
    return deviation("training", loss())


@claim("V6-memory", method="Monte Carlo", theory=lambda: problem().memory_loss)
@wrong("N + 1 for N", lambda: problem(LONGER).memory_loss)
@wrong("the fixed vectors in the context as well", lambda: problem().in_weight_loss)
def memory_moments(loss) -> float:
    """Moments of the unreduced model with noise for the context's labels, against sampled sequences."""
    return deviation("memory", loss())


@claim("V6-task", method="forward pass", tolerance=SAMPLING, theory=lambda: problem().in_weight_loss)
@wrong("N + 1 for N", lambda: problem(LONGER).in_weight_loss)
@wrong("the task vectors negated", lambda: problem(vectors=-VECTORS).in_weight_loss)
@wrong("noise in the context", lambda: problem().memory_loss)
def forward_pass_with_fixed_tasks(loss) -> float:
    """Mean squared error of PyTorch attention with random blocks, on 100,000 prompts with fixed task vectors."""
    rng = draws.generator(62)
    value, key_query = rng.normal(size=(2, 3, 3, 3))
    network = MergedAttention(value, key_query)
    errors = []
    with torch.no_grad():
        for tokens, target in problem().sequences(100_000, rng, kind="in weight"):
            errors.append((network(torch.tensor(tokens).mT).numpy() - target) ** 2)
    error = np.concatenate(errors)
    B_full = FullMergedWeights.combine(value[:, -1], key_query[:, :, :-1])
    return abs(error.mean() - loss().value(B_full)) / (error.std() / np.sqrt(len(error)))


@claim("V6", method="linear algebra", theory=lambda: problem().in_context_loss)
@wrong("N + 1 for N", lambda: problem(LONGER).in_context_loss)
@wrong("a portion of fixed tasks left in", lambda: problem(p=0.9).training_loss)
def main_sector(loss) -> float:
    """The unreduced loss at p = 1 with zero blocks equals the closed loss of the effective map."""
    B = draws.generator(63).normal(size=(2, 2))
    full = np.zeros((3, 3, 2))
    full[2, :2] = B
    return abs(loss().value(full) / QuadraticLoss.population(SMALL).value(B) - 1)


# The escape from the origin


def growth_rates(setting: InWeightSetting, dimension: int | None = None) -> tuple[float, float]:
    """The singular values of Gamma, from the products of its rows (V6-escape)."""
    entries = compiled("V6-escape", (lambda_, portion, LENGTH, N, D), part=("11", "22", "12"))
    size = setting.dimension
    row, corner, both = entries(1 / size, setting.portion, setting.fixed_length, setting.context_length, dimension or size)
    smaller, larger = np.sqrt(np.linalg.eigvalsh([[row, both], [both, corner]]))
    return float(larger), float(smaller)


def growth_rate(setting: InWeightSetting, dimension: int | None = None) -> float:
    """The larger singular value, the rate at which the weights grow."""
    return growth_rates(setting, dimension)[0]


@claim("V6-escape", method="linear algebra", theory=growth_rate)
@wrong("the rate of the reduced model", lambda setting: growth_rate(replace(setting, portion=1.0)))
@wrong("N + 1 for N", lambda setting: growth_rate(replace(setting, context_length=setting.context_length + 1)))
@wrong("D + 1 for D", lambda setting: growth_rate(setting, setting.dimension + 1))
def rate_of_growth(rate) -> float:
    """Rate of growth at the origin for portions 0.2, 0.6 and 1, against the singular values of E(y phi)."""
    settings = [InWeightSetting(p) for p in (0.2, 0.6, 1.0)]
    correlations = [one.problem(0).training_loss.A for one in settings]
    return max(abs(rate(one) / np.linalg.norm(A.reshape(len(A), -1), 2) - 1) for one, A in zip(settings, correlations, strict=True))


@claim("V6-escape", method="flow", theory=growth_rate)
@wrong("the rate of the reduced model", lambda setting: growth_rate(replace(setting, portion=1.0)))
def measured_rate_of_growth(rate) -> float:
    """Rate of growth measured on the flow from initial weights of 1e-40, at p = 0.6."""
    setting = InWeightSetting(0.6, scale=1e-40)
    times = np.array([120.0, 150.0])
    run = gradient_flow(setting.problem(0).training_loss, setting.start(0), t_end=times[-1], rtol=1e-10)
    sizes = np.linalg.norm(run.effective_map_at(times).reshape(2, -1), axis=1)  # grow at twice the rate
    return abs(np.log(sizes[1] / sizes[0]) / (2 * (times[1] - times[0])) / rate(setting) - 1)
