"""Claims about statements of the paper that are not true in general, or only to leading order: their error, and what holds instead."""

from dataclasses import replace
from functools import cache

import numpy as np

from ....numerics import CurvePrediction, QuadraticLoss, RegressionTask, Trajectory, find_plateaus, predict_curve
from ...experiments.staircase import SMALL, Setting, flow, random_start, random_starts, reached, softmax_training
from .. import formulas
from ..book import claim, wrong
from ..tolerances import CONVERGED_RATE, COUNT, FEW_PLATEAUS, LEADING_ORDER, OUTSIDE, PLATEAU
from .staircase import flow_plateaus, over_starts, small_starts

# Gaussian starts of scale 0.01. In five of the six the second plateau is shorter than the first.
STARTS = tuple(replace(SMALL, seed=seed, duration=10 * SMALL.duration) for seed in range(6))


def crossing(run: Trajectory, level: float) -> float:
    """The time at which the loss falls below a level."""
    return reached(run, run.objective.value, level)


@cache
def drop_times(setting: Setting, rtol: float = 1e-8) -> np.ndarray:
    """The times at which the flow's loss is midway between two plateaus of (24)."""
    run, levels = flow(setting, rtol), formulas.plateau_losses(setting.task)
    return np.array([crossing(run, level) for level in (levels[1:] + levels[:-1]) / 2])


@cache
def prediction(setting: Setting) -> CurvePrediction:
    """The whole curve from the initial weights: waiting heads by their exact quadrature, drops by the scalar flow."""
    return predict_curve(setting.task, setting.weights)


def longer_than_before(setting: Setting) -> np.ndarray:
    """1 if the second, third, fourth plateau lasts longer than the one before, -1 if not, 0 if the bounds of the drops leave it open."""
    early, late = np.vstack([[0, 0], prediction(setting).drop_bounds]).T
    least, most = early[2:] - 2 * late[1:-1] + early[:-2], late[2:] - 2 * early[1:-1] + late[:-2]
    return np.where(least > 0, 1, np.where(most < 0, -1, 0))


@claim("73", method="flow", tolerance=COUNT, theory=longer_than_before)
@wrong("later plateaus always last longer", lambda setting: np.full(3, 1))
def later_plateaus_need_not_be_longer(longer) -> float:
    """Whether each later plateau lasts longer than the one before, from eight random starts, if the bounds of the drops decide it: it need
    not."""
    measured = {setting: np.sign(np.diff(drop_times(setting), 2, prepend=0.0)) for setting in small_starts()}
    return float(sum(np.sum(signs * longer(setting) < 0) for setting, signs in measured.items()))


@claim("68", method="flow", tolerance=LEADING_ORDER, theory=lambda setting: prediction(setting).drops[0])
@wrong("1/(lambda_1^2 v(0)) with the largest value weight", lambda one: 1 / (max(one.task.eigenvalues) ** 2 * np.abs(one.weights.v).max()))
def first_drop_from_gaussian_weights(drop) -> float:
    """The time of the first drop, in the median of eight random starts, by the exact motion of the waiting heads; 1/(lambda^2 v(0)) is not
    that time."""
    return over_starts(lambda setting: abs(drop(setting) / drop_times(setting)[0] - 1))


def time_by_position(setting: Setting) -> np.ndarray:
    """Equation (73) for all drops: heads in the order of their value weights learn the eigenvectors in order, each in its own time."""
    lam, v = np.sort(setting.task.eigenvalues)[::-1], np.sort(np.abs(setting.weights.v))[::-1]
    return (1 / (lam**2 * v[: len(lam)]))[:, None] * np.array([0.97, 1.03])


@claim("73", method="flow", tolerance=OUTSIDE, theory=lambda setting: prediction(setting).drop_bounds)
@wrong("3 % around 1/(lambda_m^2 v_m(0)), value weights in order", time_by_position)
def all_drops_from_gaussian_weights(bounds) -> float:
    """The share of the drop times of eight random starts outside finite bounds, by the exact motion of the waiting heads; (73) does not
    give them."""

    def outside(setting: Setting) -> float:
        (earliest, latest), times = bounds(setting).T, drop_times(setting)
        return float(np.mean((times < earliest) | (times > latest) | ~np.isfinite(latest)))

    return float(np.mean([outside(setting) for setting in small_starts()]))


def shortfall(task: RegressionTask) -> np.ndarray:
    """By how much each drop of (24) falls short of lambda_m."""
    return np.sort(task.eigenvalues)[::-1] + np.diff(formulas.plateau_losses(task))


@claim("24", method="flow", tolerance=PLATEAU, theory=shortfall)
@wrong("a drop is lambda_m", lambda task: 0 * shortfall(task))
@wrong("tr(Lambda)/N", lambda task: np.full(task.dimension, task.eigenvalues.sum() / task.context_length))
@wrong(
    "(tr(Lambda) + lambda)/N, the first order",
    lambda task: (task.eigenvalues.sum() + np.sort(task.eigenvalues)[::-1]) / task.context_length,
)
def drops_fall_short(expected) -> float:
    """By how much each drop of the flow falls short of lambda_m, in the median of eight random starts."""

    def worst(setting: Setting) -> float:
        measured = np.sort(setting.task.eigenvalues)[::-1] - flow_plateaus(setting).sizes
        return float(np.abs(measured - expected(setting.task)).max())

    return over_starts(worst)


@claim("73", method="flow", tolerance=LEADING_ORDER, theory=-2.0)
@wrong("1/lambda", -1.0)
@wrong("1/lambda^3", -3.0)
def drop_times_fall_with_the_square(power) -> float:
    """The power of the eigenvalues with which the four drop times fall, for a fixed shape of Lambda and fixed initial weights."""
    factors, times, start = np.array([1.0, 0.5, 0.25]), [], replace(small_starts()[0], scale=1e-3)
    for factor in factors:
        eigenvalues = tuple(float(factor * lam) for lam in start.eigenvalues)
        times.append(drop_times(replace(start, eigenvalues=eigenvalues, duration=10 * start.duration / factor**2), rtol=1e-6))
    return float(np.abs(np.polyfit(np.log(factors), np.log(times), 1)[0] - power).max())


# Large initial weights

LARGE = replace(SMALL, scale=3.0, duration=4000.0)


def large_starts() -> tuple[Setting, ...]:
    return random_starts(LARGE)[:3]


@claim("Sec. 4.3", method="flow", tolerance=FEW_PLATEAUS, theory=0)
@wrong("one for each component", 4)
def large_weights_have_no_plateau(number) -> float:
    """The number of plateaus before the last, from three random starts of scale 3, on average."""
    return float(abs(np.mean([max(len(flow_plateaus(start)) - 1, 0) for start in large_starts()]) - number))


def slowest_rate(setting: Setting) -> float:
    """Twice the smallest nonzero eigenvalue of the Hessian of L/2 at the end of the flow: the excess loss is quadratic.

    D^2 eigenvalues are nonzero: weights at a global minimum can move B in every direction.
    """
    run = flow(setting)
    end = run.initial.unflatten(run.states[-1])
    spectrum = np.linalg.eigvalsh(end.hessian(QuadraticLoss.population(setting.task)))
    return float(2 * spectrum[-(setting.task.dimension**2)])


@claim("Sec. 4.3", method="flow", tolerance=CONVERGED_RATE, theory=slowest_rate)
@wrong("the rate of the weights, not of their square", lambda setting: slowest_rate(setting) / 2)
@wrong("the slowest rate from small weights", lambda setting: slowest_rate(random_start(SMALL)))
def large_weights_decay_exponentially(rate) -> float:
    """From weights of scale 3 the excess loss decays exponentially: measured rate over that of the Hessian at the end, in the median of
    three random starts."""

    def error(start: Setting) -> float:
        run, least = flow(start), formulas.plateau_losses(start.task)[-1]
        excess = run.loss[0] - least
        first, last = (crossing(run, least + part * excess) for part in (1e-5, 1e-8))  # the slowest mode alone, above the solver's errors
        times = np.linspace(first, last, 200)
        return float(abs(-np.polyfit(times, np.log(run.loss_at(times) - least), 1)[0] / rate(start) - 1))

    return over_starts(error, large_starts())


@claim("Sec. 4.3", method="training", tolerance=COUNT, theory={"merged": (1, 1), "separate": (3, 8)}, slow=True)
@wrong("one drop whichever", {"merged": (1, 1), "separate": (1, 1)})
@wrong("several whichever", {"merged": (3, 8), "separate": (3, 8)})
def softmax_drops_alike(allowed) -> float:
    """Softmax attention with all its blocks, trained by SGD: one drop with merged key and query, at least three with separate ones."""
    worst = 0
    for kind, (least, most) in allowed.items():
        drops = len(find_plateaus(*softmax_training(kind), contrast=2.0).drops)
        worst = max(worst, least - drops, drops - most)
    return float(worst)
