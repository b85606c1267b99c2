"""Claims about small initial weights: their laws, alignment, and how long plateaus last."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import brentq

from ....numerics import MergedWeights, QuadraticLoss, RegressionTask, SeparateWeights, gradient_flow
from ...experiments import draws
from ...experiments.setting import Setting
from ...experiments.staircase import DEFAULT, random_start
from .. import formulas
from ..attention.moments import largest_score
from ..book import claim, wrong
from ..landscape.fixed_points import LOSS, TASK
from ..merged.flow import effective_scale, white_flow_from_gaussian, white_task
from ..tolerances import LEADING_ORDER, SECOND_ORDER, SOLVER_TIGHT
from .drop import driven, early_solution
from .durations import crossing, drop_times
from .staircase import over_starts, small_starts

# Initial weights


def _norms(kind: Any, seed: int, **sizes: int) -> np.ndarray:
    """The squared norms of each array of weights in 2,000 draws."""
    rng = draws.generator(seed)
    starts = (kind.initialize(TASK, scale=1.0, rng=rng, **sizes).arrays for _ in range(2000))
    return np.array([[np.sum(array**2) for array in start] for start in starts])


@claim("35", method="Monte Carlo", theory=(1.0, 1.0))
@wrong("W_1 of norm D^2", (1.0, 16.0))
@wrong("norms for squares", (0.9, 0.9))
def merged_initial_norms(means) -> float:
    """The mean squared norms of w_2 and W_1 over 2,000 draws, in units of w_init^2."""
    return largest_score(_norms(MergedWeights, 35, heads=8), np.array(means))


@claim("37", method="Monte Carlo", theory=(1.0, 1.0, 1.0))
@wrong("k and q of norm R", (1.0, 2.0, 2.0))
def separate_initial_norms(means) -> float:
    """The mean squared norms of v, k and q of rank two over 2,000 draws, in units of w_init^2."""
    return largest_score(_norms(SeparateWeights, 37, heads=5, rank=2), np.array(means))


# White tokens


@claim("44", method="flow", theory=lambda task, t, s, p: formulas.white(task).balanced(t, s, p))
@wrong("aligned from the start", lambda task, t, s, p: formulas.white(task).balanced(t, s, 0.999))
def balanced_start_aligns(solution) -> float:
    """Size and alignment of a balanced start whose direction is not E(y_q z): tanh of a shifted time."""
    task, rng = white_task(), draws.generator(44)
    m = np.eye(4) / 2 + 0.6 * rng.standard_normal((4, 4))
    m /= np.linalg.norm(m)
    w2 = rng.standard_normal(6)
    w2 *= 0.1 / np.linalg.norm(w2)
    start = MergedWeights(w2, np.multiply.outer(w2, m))
    run = gradient_flow(QuadraticLoss.population(task), start, t_end=8.0, rtol=1e-10)
    t = np.linspace(0, 8.0, 100)
    maps = run.effective_map_at(t)
    s = np.linalg.norm(maps, axis=(1, 2))
    p = np.trace(maps, axis1=1, axis2=2) / 2 / s
    expected = solution(task, t, 0.01, float(np.trace(m) / 2))
    return float(max(np.abs(s - expected[0]).max(), np.abs(p - expected[1]).max()))


@claim("49", method="flow", tolerance=SECOND_ORDER, theory=lambda task, s: formulas.white(task).time_to(0.5, s))
@wrong("ln(1/s)/(2 gamma) alone", lambda task, s: np.log(1 / s) / (2 * np.sqrt(task.dimension)))
def white_half_time(formula) -> float:
    """The time of half the rise from Gaussian weights of scale 0.01, white tokens, with the effective scale."""
    run = white_flow_from_gaussian(1e-2)
    final = 1 / (1 + 5 / 31)
    measured = brentq(lambda t: np.trace(run.effective_map_at(t)) / 4 - final / 2, 0, run.times[-1])
    return abs(measured - formula(white_task(), effective_scale(*run.initial.arrays)))


# Plateaus of separate attention


def growing_force(task: RegressionTask, v: float, power: int = 3) -> np.ndarray:
    lam, a = task.eigenvalues, formulas.moment_eigenvalues(task)
    return np.diag([0, 0, lam[2] ** 2 - lam[2] * a[2] * v**power, lam[3] ** 2])


@claim("71", method="linear algebra", theory=growing_force)
@wrong("v^2 for v^3", partial(growing_force, power=2))
def force_while_growing(force) -> float:
    """The force on the map along the invariant set with two components learned and the third growing."""
    v = formulas.learned_value_weights(TASK) * np.array([1, 1, 0.4, 0])
    B = np.diag(v**3)
    return float(np.abs(LOSS.force(B) - force(TASK, v[2])).max())


def later_solution(
    task: RegressionTask, k: np.ndarray, q: np.ndarray, s: float, learned: int, *, constant: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Equation (70): exponentials in the unlearned directions, constants in the learned ones."""
    still = task.eigenvectors[:, :learned] @ task.eigenvectors[:, :learned].T
    moved = early_solution(task, k - still @ k, q - still @ q, s)
    return moved[0] + constant * still @ k, moved[1] + constant * still @ q


@claim("70", method="flow", tolerance=SOLVER_TIGHT, theory=later_solution)
@wrong("learned components left out", lambda *a: later_solution(*a, constant=0.0))
@wrong("half of them", lambda *a: later_solution(*a, constant=0.5))
def later_keys_and_queries(solution) -> float:
    """Keys and queries of a waiting head with two components learned, under an oscillating value weight."""
    k, q = draws.generator(70).standard_normal((2, 4))
    final, s = driven(LOSS.force(formulas.saddle_map(TASK, 2)), k, q)
    return float(np.abs(final - np.concatenate(solution(TASK, k, q, s, 2))).max())


@claim("73", method="flow", tolerance=LEADING_ORDER, theory=lambda ratio: ratio)
@wrong("ln(1/w_init), as for merged attention", lambda ratio: np.log(1e4) / np.log(1e3))
def plateaus_grow_inversely(growth) -> float:
    """All four drop times grow as 1/w_init: from scale 0.001 to 0.0001, in units of theory's factor, in the median of three random
    starts."""

    def error(start: Setting) -> float:
        small, smaller = (replace(start, scale=start.scale / f, duration=f * start.duration) for f in (10, 100))
        return float(np.abs(drop_times(smaller, 1e-6) / drop_times(small, 1e-6) / growth(10.0) - 1).max())

    return over_starts(error, small_starts()[:3])


def brief_plateau(task: RegressionTask) -> float:
    """d(t_2 - t_1)/d ln(1/w_init) = (1 - (lambda_2/lambda_1)^2)/(v lambda_2^2), v = (lambda_1/a_1)^(1/3), at full rank."""
    lam = task.eigenvalues
    return (1 - (lam[1] / lam[0]) ** 2) / (formulas.learned_value_weights(task)[0] * lam[1] ** 2)


@claim("T3-brief", method="flow", tolerance=LEADING_ORDER, theory=brief_plateau)
@wrong("without the growth before the first drop", lambda task: brief_plateau(task) / (1 - (0.3 / 0.4) ** 2))
@wrong("lambda_1 for lambda_2", lambda task: brief_plateau(task) * (0.3 / 0.4) ** 2)
def brief_plateaus_at_full_rank(rate) -> float:
    """At rank four the second drop follows the first after a time that grows as ln(1/w_init), at theory's rate."""
    levels, gaps, scales = formulas.plateau_losses(TASK), [], np.array([1e-4, 1e-5, 1e-6])
    for scale in scales:
        setting = replace(random_start(DEFAULT), rank=4, scale=float(scale), duration=10 / scale)
        run = gradient_flow(LOSS, setting.weights, t_end=40 * setting.duration, stop_loss=(levels[2] + levels[1]) / 2 - 0.02)
        first, second = (crossing(run, (levels[m] + levels[m + 1]) / 2) for m in (0, 1))
        gaps.append(second - first)
    slope = np.polyfit(np.log(1 / scales), gaps, 1)[0]
    return float(abs(slope / rate(TASK) - 1))
