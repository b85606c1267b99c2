"""Claims about finitely many tasks (V11): loss, map and risks of trained networks, and means over the draw of tasks."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ....numerics import QuadraticLoss, RegressionTask, SeparateWeights, compiled
from ....theory.notation import B, D, Lambda, N, T, lambda_, sigma
from ....theory.results.landscape.fixed_points import b
from ....theory.results.task.population import P_w, Sigma_w, omega
from ....theory.results.variations.finite_tasks import K, Z
from ....theory.results.variations.labels import p
from ...experiments import draws
from ...experiments.plateau_maps import effective_map, measured, plateau_losses, settled_network
from ...experiments.varied_tasks import LENGTH, SHARED, SPECTRUM, against, small_levels
from ...training.modules import ReducedSeparate
from ..attention.moments import largest_score
from ..book import claim, wrong
from ..formulas import formula, parts_of
from ..tolerances import DIFFERENCES, PLATEAU, SAMPLING, TRAINED_LEVEL, TRAINED_PROMPTS, TRAINED_REST
from .task_covariance import growth_of

loss = formula(
    "V11-loss", Sigma_w, Lambda, B, N, part="loss",
    given=lambda task, map_: (task.task_covariance, task.covariance, map_, task.context_length),
)  # fmt: skip


@claim("V11-loss", method="Monte Carlo", tolerance=SAMPLING, theory=loss)
@wrong("N + 1 for N", {N: N + 1})
@wrong("tasks with K - 1 for K", lambda task, map_: loss(task, map_) * len(task.task_vectors) / max(len(task.task_vectors) - 1, 0.5))
@wrong("as many tasks as sequences", lambda task, map_: QuadraticLoss.population(plain(task)).value(map_))
def errors_on_shared_tasks(formula) -> float:
    """The error of a random map on prompts of one, two, three and five shared tasks in three dimensions."""
    rng, scores = draws.generator(111), []
    for count in (1, 2, 3, 5):
        task = RegressionTask(eigenvalues=SPECTRUM, context_length=4, task_vectors=rng.standard_normal((count, 3)))
        network = ReducedSeparate(SeparateWeights(np.ones(3), rng.standard_normal((3, 1, 3)), rng.standard_normal((3, 1, 3))))
        found = measured(network, task, seed=110 + count)
        scores.append(abs(found.mean - formula(task, effective_map(network))) / found.error)
    return max(scores)


def plain(task: RegressionTask, variance: float = 1.0) -> RegressionTask:
    """The task with vectors from N(0, I)."""
    return RegressionTask(covariance=task.covariance, context_length=task.context_length, task_covariance=variance * np.eye(task.dimension))


def shared_levels(change: Mapping | None = None) -> np.ndarray:
    """The losses with the first m directions of the tasks learned, by (V11-risk)."""
    root = np.diag(np.sqrt(SHARED.eigenvalues))
    shares = np.linalg.eigvalsh(root @ SHARED.task_covariance @ root)[:0:-1]  # the smallest of three is zero
    taken = compiled("V11-risk", (p, P_w, sigma, N), part="seen", change=change)(shares, shares.sum(), 0.0, LENGTH)
    return shares.sum() - np.append(0, np.cumsum(taken))


@claim("V11-risk", method="training", tolerance=TRAINED_LEVEL, theory=shared_levels, slow=True)
@wrong("N + 1 for N", {N: N + 1})
@wrong("the length alone, without P", {P_w: 0})
@wrong("another share, p^2", {p: p**2})
def trained_plateaus_shared(expected) -> float:
    """The losses of the maps on the plateaus of training on two shared tasks in three dimensions."""
    return against(plateau_losses("shared"), expected())


@claim("V11-risk", method="flow", tolerance=PLATEAU, theory=shared_levels)
@wrong("N + 1 for N", {N: N + 1})
@wrong("the length alone, without P", {P_w: 0})
@wrong("another share, p^2", {p: p**2})
def plateaus_shared(expected) -> float:
    """The plateaus of the flow on two shared tasks, from weights of 1e-4."""
    return against(small_levels("shared"), expected())


def learned_map(task: RegressionTask, change: Mapping | None = None) -> np.ndarray:
    """(V11-map): Sigma_w Z'^-1."""
    inverted = compiled("V11-map", (Sigma_w, Lambda, sigma, N), part="inverted", change=change)
    laws = task.task_covariance, task.covariance, np.sqrt(task.noise_variance), task.context_length
    return compiled("V11-map", (Sigma_w, Z), part="map")(task.task_covariance, inverted(*laws))


@claim("V11-map", method="training", tolerance=TRAINED_REST, theory=learned_map, slow=True)
@wrong("N + 1 for N", {N: N + 1})
@wrong("of tasks from N(0, I)", lambda task: learned_map(plain(task)))
@wrong("turned", lambda task: task.covariance @ learned_map(task) @ np.linalg.inv(task.covariance))
def trained_map_of_shared_tasks(expected) -> float:
    """The map of a network trained on two shared tasks in three dimensions."""
    found = effective_map(settled_network("shared"))
    return float(np.linalg.norm(found - expected(SHARED)) / np.linalg.norm(found))


# New tasks

WHITE_SHARED = tuple(
    RegressionTask(eigenvalues=[0.5] * 3, context_length=length, number_of_tasks=count, task_seed=seed, noise_variance=noise)
    for length, count, seed, noise in ((1, 1, 0, 0.0), (4, 2, 1, 0.5), (10, 3, 2, 0.0), (6, 5, 3, 0.2))
)


def new_risk(task: RegressionTask, change: Mapping | None = None) -> float:
    """The loss on new tasks of the map that white shared tasks teach, by (V11-risk)."""
    omegas, lam, noise = np.linalg.eigvalsh(task.task_covariance), task.eigenvalues[0], np.sqrt(task.noise_variance)
    level = compiled("V11-risk", (omega, lambda_, P_w, sigma, N), part="map", change=change)
    taken = compiled("V11-risk", (b, lambda_, T, sigma, N), part="new", change=change)
    levels = level(omegas, lam, lam * omegas.sum(), noise, task.context_length)
    return float(3 * lam + noise**2 - np.sum(taken(levels, lam, 3 * lam, noise, task.context_length)))


@claim("V11-risk", method="linear algebra", theory=new_risk)
@wrong("N + 1 for N", {N: N + 1})
@wrong("noise left out", {sigma: 0})
@wrong("the map of two directions", {omega: 2 * omega})
def risks_on_new_tasks(formula) -> float:
    """The loss on new tasks of the maps that one, two, three and five white tasks teach, by the moments of either task."""
    worst = 0.0
    for task in WHITE_SHARED:
        A, M, Q, _ = task.loss_moments
        test = RegressionTask(eigenvalues=task.eigenvalues, context_length=task.context_length, noise_variance=task.noise_variance)
        worst = max(worst, abs(QuadraticLoss.population(test).value(np.linalg.solve(M, A) @ np.linalg.inv(Q)) - formula(task)))
    return worst


one_task = formula("V11-risk", D, N, lambda_, part="one")  # what one task teaches, taken from the risk on new ones


@claim("V11-risk", method="Monte Carlo", tolerance=SAMPLING, theory=one_task)
@wrong("D + 1 for D", {D: D + 1})
@wrong("N + 1 for N", {N: N + 1})
@wrong("a gain", lambda *values: abs(one_task(*values)))
def one_task_on_new_ones(gain) -> float:
    """The error on new tasks of a head at rest on one task, in five dimensions, with contexts below and above N = 2."""
    scores = []
    for length in (1, 6):
        task = RegressionTask(eigenvalues=[0.5] * 5, context_length=length, number_of_tasks=1)
        shared: Any = task.task_vectors
        keys, level = shared[0] / np.linalg.norm(shared[0]), 0.5**-1 * length / (length + 2)
        network = ReducedSeparate(SeparateWeights(np.array([level]), keys[None, None], keys[None, None]))
        found = measured(network, RegressionTask(eigenvalues=[0.5] * 5, context_length=length), seed=120 + length)
        scores.append(abs(found.zero - found.mean - gain(5, length, 0.5)) / found.difference_error)
    return max(scores)


@claim("V11-loss", method="training", tolerance=TRAINED_PROMPTS, theory=loss, slow=True)
@wrong("N + 2 for N", {N: N + 2})
@wrong("tasks half as large", {Sigma_w: Sigma_w / 2})
def trained_network_on_new_tasks(formula) -> float:
    """The error on prompts of new tasks of a network trained on two shared tasks, as the loss of tasks of covariance I."""
    network, new = settled_network("shared"), plain(SHARED)
    return abs(measured(network, new).mean / formula(new, learned_map(SHARED)) - 1)


# Means over the draw


def drawn_tasks(count: int, number: int, size: int, key: int) -> np.ndarray:
    """W of each of ``count`` draws of ``number`` tasks in ``size`` dimensions."""
    return draws.generator(key).standard_normal((count, number, size))


def second_moments(W: np.ndarray) -> np.ndarray:
    """The eigenvalues of Sigma_w, but for those that are zero, of each draw of tasks: everything about it is diagonal with it."""
    number, size = W.shape[1:]
    return np.linalg.eigvalsh((np.swapaxes(W, 1, 2) @ W if number > size else W @ np.swapaxes(W, 1, 2)) / number)


@draws.remembered
def _orders(number: int, size: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """N times the risk at N = 1e8, and N^2 times what it differs from the first order at N = 2e4, of draws of tasks."""
    second, rank, found = second_moments(drawn_tasks(10_000, number, size, 112)), min(number, size), []
    P = second.sum(axis=1, keepdims=True)
    for length in (1e8, 2e4):
        map_ = second / ((1 + 1 / length) * second + (P + noise) / length)
        # the loss at the minimum: that of the learned map on noise and on a context of few tokens
        risk = ((1 - map_) ** 2 * second + map_**2 * (second + P + noise) / length).sum(axis=1)
        found.append(length * risk if length > 1e6 else length**2 * (risk - ((1 + rank) * P[:, 0] + rank * noise) / length))
    return found[0], found[1]


def mean_orders(number: int, size: int, noise: float, change: Mapping | None = None) -> tuple[float, float]:
    kind, deviation = "many" if number > size else "few", np.sqrt(noise)
    first = compiled("V11-mean", (Lambda, D, K, sigma), part=kind, change=change)(np.eye(size), size, number, deviation)
    after = compiled("V11-mean", (D, K, sigma), part=f"{kind}, next", change=change)(size, number, deviation)
    return float(first), float(after)


@claim("V11-mean", method="Monte Carlo", tolerance=SAMPLING, theory=mean_orders)
@wrong("K + 1 for K", {K: K + 1})
@wrong("Lambda twice as large", {Lambda: 2 * Lambda})
@wrong("noise left out", {sigma: 0})
def mean_over_draws(formula) -> float:
    """The first two orders in 1/N of the mean risk over 10,000 draws: one task in five dimensions, two in nine, eight and twelve in
    three."""
    scores = []
    for case in ((1, 5, 0.0), (2, 9, 0.5), (8, 3, 0.0), (12, 3, 0.5)):
        for found, expected in zip(_orders(*case), formula(*case), strict=True):
            scores.append(largest_score(found, expected))
    return max(scores)


@claim("V11-growth", method="linear algebra", tolerance=DIFFERENCES, theory=formula("V11-growth", Lambda, Sigma_w, part="growth"))
@wrong("Lambda once", lambda one, tasks: one @ tasks)
@wrong("of tasks from N(0, I)", lambda one, tasks: one @ one)
@wrong("turned", lambda one, tasks: tasks @ one @ tasks)
def small_heads_on_shared_tasks(growth) -> float:
    """The velocity of small heads on two shared tasks, as their growth along the singular vectors."""
    population, A = QuadraticLoss.population(SHARED), growth(SHARED.covariance, SHARED.task_covariance)
    left, rates, right = np.linalg.svd(A)
    moved = [growth_of(population, key, query) for key, query in zip(left.T, right, strict=True)]
    return float(np.abs(np.array(moved) - rates).max() + rates[2])


@claim("V11-growth", method="Monte Carlo", tolerance=SAMPLING, theory=parts_of("V11-growth", {"many": (Lambda, D, K), "few": (D, K)}))
@wrong("K + 1 for K", {K: K + 1})
@wrong("K - 1 for K", {K: K - 1})
def waiting_over_draws(parts) -> float:
    """The mean of the sum of 1/growth over 10,000 draws: eight tasks in three dimensions, three in eight."""
    root = np.diag(np.sqrt(SPECTRUM))
    scores = []
    for number, size in ((8, 3), (3, 8)):
        one = root**2 if size == 3 else np.eye(size)
        squares = second_moments(drawn_tasks(10_000, number, size, 113) @ one)
        expected = parts["many"](one, size, number) if number > size else parts["few"](size, number)
        scores.append(largest_score((1 / squares).sum(axis=1), float(expected)))
    return max(scores)
