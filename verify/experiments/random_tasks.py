"""Random tasks that compare the order of learning with gradient flow, and the sets of directions that the flow visits."""

from collections.abc import Iterator

import numpy as np

from ...numerics import QuadraticLoss, RegressionTask, SeparateWeights, find_plateaus, gradient_flow
from ...numerics.landscape.fixed_points import losses_of_sets
from . import draws
from .varied_tasks import turning_levels

Sets = list[tuple[int, ...]]


def commuting_tasks(seed: int) -> Iterator[RegressionTask]:
    """Random tasks of two to four directions in which heads turn. Each growth is below 0.6 times the next larger and each drop below
    0.85 times, so that every rest is long at a scale of 1e-4. Each step is at least a fiftieth of what can be learned, so that it shows."""
    rng = draws.generator(seed)
    while True:
        D = int(rng.integers(2, 5))
        values, omega, queries = (np.exp(rng.uniform(*ends, D)) for ends in ((-1.2, 0.5), (-1.5, 1.0), (-1.0, 0.5)))
        if _ratio(values * omega * queries) >= 0.6:
            continue
        task = RegressionTask(eigenvalues=values, task_covariance=np.diag(omega), query_covariance=np.diag(queries), context_length=10)
        modes, least = task.modes, 0.02 * task.modes.drops.sum()
        growth, drops = np.asarray(modes.growth), modes.drops
        if _ratio(drops) < 0.85 and drops.min() > least and (growth.argsort() != drops.argsort()).any():  # otherwise no head turns
            steps = -np.diff(turning_levels(task))
            if len(steps) > D and steps.min() > least:
                yield task


def _ratio(values: np.ndarray) -> float:
    """The largest ratio of a value to the next larger one."""
    ordered = np.sort(values)
    return float((ordered[:-1] / ordered[1:]).max())


def oblique_tasks(seed: int) -> Iterator[RegressionTask]:
    """Random tasks of two or three directions with covariances that do not commute; growths and drops as far apart as above."""
    rng = draws.generator(seed)
    while True:
        D = int(rng.integers(2, 4))
        laws = [X @ X.T / D + 0.1 * np.eye(D) for X in rng.normal(size=(3, D, D))]
        task = RegressionTask(covariance=laws[0], task_covariance=laws[1], query_covariance=laws[2], context_length=10)
        growth, drops = np.linalg.svd(task.loss_moments.A)[1], task.modes.drops
        if drops.min() > 0.02 * drops.sum() and _ratio(growth) < 0.6 and _ratio(drops) < 0.85:
            yield task


@draws.remembered
def visited(task: RegressionTask, seed: int) -> list[tuple[int, ...] | None]:
    """The sets at whose losses the flow rests, from weights of size 1e-4 and with one head more than directions.

    A rest whose loss is further than a fiftieth of the smallest drop from that of every set is None.
    """
    weights = SeparateWeights.initialize(task, heads=task.dimension + 1, rank=1, scale=1e-4, rng=draws.generator(seed))
    slowest = np.linalg.svd(task.loss_moments.A)[1].min()
    found = find_plateaus(gradient_flow(QuadraticLoss.population(task), weights, t_end=4e5 / slowest))
    losses, close = losses_of_sets(task), 0.02 * task.modes.drops.min()
    nearest = [min(losses, key=lambda S: abs(losses[S] - level)) for level in found.levels]
    return [S if abs(losses[S] - level) < close else None for S, level in zip(nearest, found.levels, strict=True)]
