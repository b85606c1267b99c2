"""Claims about the transition in the number of tasks (V11-limit), over draws of tasks in many dimensions."""

from collections.abc import Mapping

import numpy as np

from ....numerics.compilation.equations import compiled
from ....theory.results.estimators.task_diversity import kappa, theta, u
from ...experiments.draws import remembered
from ..book import claim, wrong
from ..tolerances import LARGE_DIMENSION
from ..variations.finite_tasks import drawn_tasks, second_moments


@remembered
def _drawn(count: int, number: int, size: int) -> np.ndarray:
    return second_moments(drawn_tasks(count, number, size, 114))


@remembered
def _high_dimensional(ratio: float, small: float, noise: float) -> tuple[float, float]:
    """The risks on tasks seen and on new tasks over draws in 40 and 80 dimensions, extrapolated to 1/D = 0."""
    means = []
    for size, count in ((40, 400), (80, 200)):
        length, number = (1 + noise) * size / small, round(ratio * size)
        second = _drawn(count, number, size)
        P = second.sum(axis=1, keepdims=True)
        map_ = second / ((1 + 1 / length) * second + (P + noise * size) / length)
        seen, new_moment = second * (1 - map_), 1 + (1 + size + noise * size) / length
        new = size + (map_ * (new_moment * map_ - 2)).sum(axis=1)
        means.append(np.array([seen.sum(axis=1).mean(), new.mean()]) / size)
    extrapolated = 2 * means[1] - means[0]
    return float(extrapolated[0]), float(extrapolated[1])


def diversity(ratio: float, small: float, change: Mapping | None = None) -> tuple[float, float]:
    """The two risks of (V11-limit), in units of tr(Lambda)."""
    average = compiled("V11-limit", (kappa, theta), part="u", change=change)(ratio, small)
    seen = compiled("V11-limit", (theta, u), part="seen")(small, average)
    return float(seen), float(compiled("V11-limit", (kappa, theta, u), part="new")(ratio, small, average))


@claim("V11-limit", method="Monte Carlo", tolerance=LARGE_DIMENSION, theory=diversity)
@wrong("K = kappa D + 1, at D = 40", {kappa: kappa + 1 / 40})
@wrong("a context 5 % shorter", {theta: 1.05 * theta})
@wrong("the two risks exchanged", lambda *values: diversity(*values)[::-1])
def diversity_in_high_dimension(limits) -> float:
    """The risks on tasks seen and new, with half, as many and twice as many tasks as dimensions, over draws in 40 and 80 dimensions."""
    cases = [(ratio, small, noise) for ratio in (0.5, 1.0, 2.0) for small, noise in ((0.1, 0.0), (1.0, 0.5))]
    found = np.array([_high_dimensional(*case) for case in cases])
    return float(np.abs(found / np.array([limits(*case[:2]) for case in cases]) - 1).max())
