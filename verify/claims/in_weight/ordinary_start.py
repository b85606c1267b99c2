"""Claims about zero blocks that start as large as the main weights (V6-ordinary): their sizes after the first drop, without a fit."""

from functools import partial
from itertools import product

import numpy as np
from scipy.optimize import newton

from ....numerics.compilation.equations import compiled
from ....numerics.parametrizations.full_attention import FullMergedWeights
from ....numerics.tasks.regression import RegressionTask
from ....theory.calculus.spectral import eigenvalue
from ....theory.notation import D, N, gamma, lambda_, s_0, w_init
from ....theory.results.in_weight.idle_heads import CURVATURE, FORCE
from ....theory.results.in_weight.ordinary_start import BLOCK_START
from ...experiments import draws
from ..book import claim, wrong
from ..formulas import power_law
from ..tolerances import CROSSING_POWER, ORDINARY_SIZE, SIZE_POWER
from .idle_heads import SEEDS, SET, ended, sizes
from .zero_blocks import UNEQUAL


def white(dimension: int) -> RegressionTask:
    return RegressionTask(eigenvalues=[0.5] * dimension, context_length=6)


def grown(task: RegressionTask, weights: FullMergedWeights, *, N_: int | None = None, across: bool = True) -> float:
    """The size of the rows, and of the columns, that a start makes on white tokens (V6-ordinary)."""
    dim = task.dimension
    active = (weights.value[:, -1] + np.trace(weights.key_query[:, :-1], axis1=1, axis2=2) / np.sqrt(dim)) / 2
    blocks = (weights.value[:, :-1] + weights.key_query[:, -1]) / 2
    if across:
        blocks = blocks - np.outer(active, active @ blocks) / (active @ active)
    size = compiled("V6-ordinary", (BLOCK_START, s_0, lambda_, D, N), part="white")
    return float(size(np.linalg.norm(blocks), active @ active, task.eigenvalues[0], dim, N_ or task.context_length))


@claim("V6-ordinary", method="flow", tolerance=ORDINARY_SIZE, theory=grown)
@wrong("ten tokens more", lambda task, weights: grown(task, weights, N_=task.context_length + 10))
@wrong("the active head's share as well", partial(grown, across=False))
@wrong("twice as large", lambda task, weights: 2 * grown(task, weights))
def sizes_after_the_drop(expected) -> float:
    """Rows and columns of idle heads after the first drop, all weights initially at the scale of 1e-5: white tokens, two and three
    dimensions, two and four heads."""
    worst, scale = 0.0, 1e-5
    for task, heads, seed in product((white(2), white(3)), (2, 4), range(SEEDS)):
        start = FullMergedWeights.initialize(task, heads=heads, scale=scale, block_scale=scale, rng=draws.generator(seed, 1))
        found = sizes(ended(task, seed, np.inf, heads, scale, scale, 3e4))[:2]
        worst = max(worst, float(np.abs(found / expected(task, start) - 1).max()))
    return worst


POWERS = compiled("V6-ordinary", (w_init, lambda_, gamma, FORCE, CURVATURE), part=("power", "crossing"), change={eigenvalue[1]: lambda_})


def powers(task: RegressionTask) -> np.ndarray:
    """The powers of w_init of the size of the zero blocks and of the crossing."""
    return np.log(POWERS(np.e, task.eigenvalues[0], np.linalg.norm(task.eigenvalues**2), 0.5, 1.0))


@claim("V6-ordinary", method="flow", tolerance=SIZE_POWER, theory=lambda task: powers(task)[0])
@wrong("they keep their share", lambda task: 0.0)
@wrong("they shrink with the scale", lambda task: 1.0)
def power_of_the_scale(expected) -> float:
    """Power of the scale of all weights with which columns of idle heads shrink, from 1e-4 to 1e-8, unequal eigenvalues."""

    def columns(scale: float) -> float:
        return float(np.median([sizes(ended(UNEQUAL, seed, np.inf, 4, scale, scale, 1e4))[1] for seed in range(SEEDS)]))

    return abs(power_law([1e-4, 1e-6, 1e-8], columns) - expected(UNEQUAL))


def crossing(task: RegressionTask, seed: int, scale: float) -> float:
    """The logarithm of the number of sequences at which the row of the idle one of two heads is sqrt((1 + sqrt(2))/2) times its column."""

    def beyond(log_P: float) -> float:
        """The logarithm of (2 (row/column)^2 - 1)^2 - 1, which falls nearly as 1/P."""
        row, column, _ = sizes(ended(task, seed, np.exp(log_P), 2, scale, scale, 1e9))
        return float(np.log((2 * (row / column) ** 2 - 1) ** 2 - 1))

    first = float(np.log(SET))
    return float(newton(beyond, first, x1=first + beyond(first), tol=1e-2))


@claim("V6-ordinary", method="flow", tolerance=CROSSING_POWER, theory=lambda task: powers(task)[1])
@wrong("where the rows alone are", lambda task: -powers(task)[0])
@wrong("no dependence", lambda task: 0.0)
def power_of_the_crossing(expected) -> float:
    """Power of the scale of all weights with which the crossing grows, 1e-3 to 1e-5, white tokens in three dimensions: above it the rows of
    the idle one of two heads do not depend on P."""

    def crossings(scale: float) -> float:
        return float(np.exp(np.median([crossing(white(3), seed, scale) for seed in range(SEEDS)])))

    return abs(power_law([1e-3, 1e-5], crossings) - expected(white(3)))
