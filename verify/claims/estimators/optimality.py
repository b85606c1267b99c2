"""Claims about how far trained linear attention is from optimal (V9): risks on sampled sequences, limits, bounds."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from scipy.optimize import brentq

from ....numerics import MergedWeights, QuadraticLoss, RegressionTask, compiled
from ....numerics.tasks.risks import SampledRisk, crossover_length, linear_attention_risk, risk_limits, sampled_risks
from ....theory.notation import D, Lambda, Lambda_hat, N, T, beta, lambda_, sigma
from ....theory.results.estimators.optimality import C, rho as penalty, u
from ....theory.results.estimators.short_context import lambda_N
from ...experiments import draws
from ...training.descent import fresh_batches, mean_squared_error, one_thread, train
from ...training.modules import ReducedMerged
from ...training.sequences import draw_sequences
from ..book import claim, wrong
from ..formulas import formula, gradient_by_differences, parts_of
from ..tolerances import HIGH_DIMENSION, TRAINED_RISK

LONG = RegressionTask(covariance=[[0.5, 0.2, 0.0], [0.2, 0.6, 0.1], [0.0, 0.1, 0.4]], context_length=12, noise_variance=0.6)
SHORT = RegressionTask(eigenvalues=[0.5] * 8, context_length=3, noise_variance=0.6)
ARGUMENTS = (lambda_, D, N, sigma, T)


def of_task(task: RegressionTask) -> tuple:
    """The values of ARGUMENTS for each eigenvalue of a task."""
    common = task.dimension, task.context_length, np.sqrt(task.noise_variance), task.eigenvalues.sum()
    return np.broadcast_arrays(task.eigenvalues, *common)


@draws.remembered
def _sampled(which: str) -> dict[str, SampledRisk]:
    task = {"long": LONG, "short": SHORT}[which]
    return sampled_risks(task, count=100_000, rng=draws.generator(90), penalties={"double": task.noise_variance / 6})


def _score(which: str, name: str, value: float) -> float:
    sampled = _sampled(which)[name]
    return abs(sampled.mean - value) / sampled.error


LINEAR = formula("V9-linear", *ARGUMENTS, part="each", given=of_task)


@claim("V9-linear", method="Monte Carlo", theory=LINEAR)
@wrong("N + 1 for N", {N: N + 1})
@wrong("noise left out", {sigma: 0})
def risk_of_linear_attention(each) -> float:
    """The risk of linear attention at its global minimum, on 100,000 sampled sequences and as the minimum of the loss."""
    scores = []
    for which, task in (("long", LONG), ("short", SHORT)):
        value, moments = float(each(task).sum()), task.loss_moments
        best = np.linalg.solve(moments.M, moments.A) @ np.linalg.inv(moments.Q)
        least = QuadraticLoss.population(task).value(best) - task.noise_variance
        scores += [_score(which, "linear", value), abs(value - least) / 1e-12]
    return max(scores)


@claim("V9-ols", method="Monte Carlo", theory=parts_of("V9-ols", ARGUMENTS, "long", "short", given=of_task))
@wrong("sigma^2 D/(N - D)", {"long": {N: N + 1}})
@wrong("one token more", {"short": {N: N + 1}})
def risk_of_least_squares(risks) -> float:
    """The risk of least squares in context, N above and below D, on 100,000 sampled sequences."""
    return max(_score(which, "least squares", risks[which](task)[0]) for which, task in (("long", LONG), ("short", SHORT)))


_RIDGE = parts_of("V9-ridge", (Lambda, C, N, sigma, penalty), "any", "Bayes")


@claim("V9-ridge", method="Monte Carlo", theory=_RIDGE)
@wrong("bias left out", {"any": {penalty: 0}})
@wrong("Bayes with twice the noise", {"Bayes": {sigma: 2**0.5 * sigma}})
def risk_of_ridge(risks) -> float:
    """The risk of ridge given the context, averaged over 20,000 contexts, against squared errors on 100,000 other sequences."""
    rng, noise = draws.generator(91), np.sqrt(LONG.noise_variance)
    root = LONG.eigenvectors * np.sqrt(LONG.eigenvalues)
    X = rng.standard_normal((20_000, LONG.context_length, 3)) @ root.T
    second = np.einsum("pnd,pne->pde", X, X) / LONG.context_length
    scores = []
    for part, name, ridge in (("any", "double", LONG.noise_variance / 6), ("Bayes", "Bayes", LONG.noise_variance / 12)):
        given = risks[part](LONG.covariance, second + ridge * np.eye(3), LONG.context_length, noise, ridge)
        sampled, error = _sampled("long")[name], np.std(given) / np.sqrt(len(given))
        scores.append(abs(sampled.mean - np.mean(given)) / np.hypot(sampled.error, error))
    return float(max(scores))


@claim("V9-crossover", method="Monte Carlo", theory=crossover_length)
@wrong("noise halved", lambda D, nu: crossover_length(D, nu / 2))
@wrong("one dimension less", lambda D, nu: crossover_length(D - 1, nu))
def level_risks(length) -> float:
    """The two risks on sequences of the length, drawn from 8 to 20, at which they are equal for D = 3: difference in standard errors."""
    rng, D = draws.generator(97), 3
    at = int(rng.integers(8, 21))
    root: Any = brentq(lambda nu: crossover_length(D, nu) - at, 0, 10)
    nu = float(root)
    task = RegressionTask(eigenvalues=[1.0] * D, context_length=round(length(D, nu)), noise_variance=nu * D)
    risks = sampled_risks(task, count=50_000, rng=rng)
    one, other = risks["linear"], risks["least squares"]
    return abs(one.mean - other.mean) / float(np.hypot(one.error, other.error))


@claim("V9-bounds", method="Monte Carlo", theory=formula("V9-bounds", *ARGUMENTS, part="lower", given=of_task))
@wrong("bound for half the tokens", {N: N / 2})
def bounds_of_bayes(lower) -> float:
    """Bayes is above its bound and below linear attention, least squares and another ridge: violation in standard errors."""
    violations = []
    for which, task in (("long", LONG), ("short", SHORT)):
        bayes = _sampled(which)["Bayes"]
        above = [linear_attention_risk(task), *(_sampled(which)[name].mean for name in ("least squares", "double"))]
        violations += [(float(lower(task).sum()) - bayes.mean) / bayes.error]
        violations += [(bayes.mean - value) / bayes.error for value in above]
    return max(0.0, *violations)


@draws.remembered
def _short_contexts() -> tuple[tuple[RegressionTask, float, float], ...]:
    """Twelve tasks of three to six directions in at most as many tokens, with the risk of Bayes over 2,000 contexts and its error."""
    rng, risk, found = draws.generator(93), _RIDGE["Bayes"], []
    for _ in range(12):
        size = int(rng.integers(3, 7))
        task = RegressionTask(
            eigenvalues=30 ** -rng.uniform(0, 1, size) if rng.random() < 0.7 else np.full(size, 0.5),
            context_length=int(rng.integers(1, size + 1)),
            noise_variance=10 ** rng.uniform(-3, 0),
        )
        found.append((task, *_over_contexts(task, 2000, rng, risk)))
    return tuple(found)


def _over_contexts(task: RegressionTask, count: int, rng: np.random.Generator, risk) -> tuple[float, float]:
    """The risk of Bayes given the context, averaged over sampled contexts, and its standard error."""
    N, ridge = task.context_length, task.noise_variance / task.context_length
    X = rng.standard_normal((count, N, task.dimension)) * np.sqrt(task.eigenvalues)
    shifted = np.einsum("pnd,pne->pde", X, X) / N + ridge * np.eye(task.dimension)
    given = risk(task.covariance, shifted, N, np.sqrt(task.noise_variance), ridge)
    return float(np.mean(given)), float(np.std(given) / np.sqrt(count))


def _unseen(task: RegressionTask, change: Mapping | None = None) -> float:
    """The lower bound of (V9-unseen), a sum over the directions; ``change`` plants a fault in what the context shows."""
    descending = sorted(task.eigenvalues, reverse=True)
    outside, smallest = descending[task.context_length :], descending[task.context_length - 1]
    seen = compiled("V9-unseen", (lambda_N, N, sigma, T), part="seen", change=change)
    return float(sum(outside) + seen(smallest, task.context_length, task.noise_variance**0.5, sum(descending)))


@claim("V9-unseen", method="Monte Carlo", theory=_unseen)
@wrong("as if all that is shown were unknown", lambda task: float(task.eigenvalues.sum()))
@wrong("noise three times as large", {sigma: 3 * sigma})
@wrong("the N smallest", lambda task: float(np.sort(task.eigenvalues)[: task.context_length].sum()))
def unseen_by_short_contexts(bound) -> float:
    """For 12 spectra and N up to D, the risk of Bayes over 2,000 contexts is above its lower bound: violation in standard errors."""
    return max(0.0, *((bound(task) - risk) / error for task, risk, error in _short_contexts()))


@draws.remembered
def _high_dimensional(ratio: float, noise: float) -> float:
    """The risk of Bayes over contexts, D = 40 and 80, extrapolated to 1/D = 0."""
    rng, risk = draws.generator(92), _RIDGE["Bayes"]
    means = []
    for size, count in ((40, 1600), (80, 800)):
        task = RegressionTask(eigenvalues=np.full(size, 1 / size), context_length=round(size * ratio), noise_variance=noise)
        means.append(_over_contexts(task, count, rng, risk)[0])
    return 2 * means[1] - means[0]


def _bayes(ratio: float, noise: float) -> float:
    return float(risk_limits(ratio, noise)["Bayes"])


@claim("V9-limit", method="Monte Carlo", tolerance=HIGH_DIMENSION, theory=_bayes, slow=True)
@wrong("linear attention's", lambda ratio, noise: risk_limits(ratio, noise)["linear"])
@wrong("noise 2 % larger", lambda ratio, noise: _bayes(ratio, 1.02 * noise))
@wrong("N = c D + 1, at D = 80", lambda ratio, noise: _bayes(ratio + 1 / 80, noise))
def bayes_in_high_dimension(limit) -> float:
    """The risk of Bayes, N/D from 1/2 to 2, over contexts in 40 and 80 dimensions and extrapolated in 1/D, against its limit."""
    cases = [(ratio, noise) for ratio in (0.5, 1.0, 2.0) for noise in (0.1, 1.0)]
    return max(abs(_high_dimensional(*case) / float(limit(*case)) - 1) for case in cases)


TRAINED = tuple(RegressionTask(eigenvalues=[0.8, 0.6, 0.4], context_length=12, noise_variance=noise) for noise in (0.0, 0.6))


@draws.remembered
def _trained_risk(task: RegressionTask) -> float:
    """The mean squared error in the noiseless target of attention (M), trained from random weights, on a million other sequences."""
    network = ReducedMerged(MergedWeights.initialize(task, heads=3, scale=0.3, rng=draws.generator(94)))
    with one_thread():
        batches = fresh_batches(task, 1024, draws.torch_generator(95))
        run = train(network, batches, steps=1500, learning_rate=0.05, record_every=100, progress=False)
        trained = {name: torch.tensor(values[-1]) for name, values in run.states.items()}
        test = draws.torch_generator(96)
        errors = []
        for _ in range(20):
            X, y = draw_sequences(task, 50_000, test)
            errors.append(float(mean_squared_error(network, trained, (X, y))))
    return float(np.mean(errors)) - task.noise_variance


@claim("V9-linear", method="training", tolerance=TRAINED_RISK, theory=LINEAR, slow=True)
@wrong("noise left out", {sigma: 0})
@wrong("N + 1 for N", {N: N + 1})
@wrong("the trace of Lambda left out", {T: 0})
def risk_trained(each) -> float:
    """The error in the noiseless target of attention (M), trained without and with label noise, on a million other sequences."""
    return max(abs(_trained_risk(task) / float(each(task).sum()) - 1) for task in TRAINED)


@claim("V9-posterior", method="linear algebra", theory=formula("V9-posterior", beta, Lambda_hat, u, N, sigma))
@wrong("twice the noise", {sigma: 2 * sigma})
@wrong("N + 1 for N", {N: N + 1})
def posterior_by_differences(expected) -> float:
    """The slope of the log posterior on a drawn context, by central differences at a drawn task vector."""
    rng, noise, length = draws.generator(94), 0.7, 6
    X, labels, at = rng.standard_normal((length, 3)), rng.standard_normal(length), rng.standard_normal((3, 1))
    context = (X.T @ labels)[:, None] / length, X.T @ X / length
    derived = expected(*context, at, length, noise)
    slope = gradient_by_differences(lambda v: float(np.sum((labels - X @ v[:, 0]) ** 2) / noise**2 + np.sum(v**2)), at)
    return float(np.abs(derived + noise**2 / (2 * length) * slope).max())
