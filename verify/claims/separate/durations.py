"""Claims about statements of the paper that are not true in general, or only to leading order: their error, and what holds instead."""

from dataclasses import replace

import numpy as np

from ....numerics.dynamics.plateaus import find_plateaus
from ....numerics.reductions.curve import predict_curve
from ....numerics.tasks.losses import QuadraticLoss
from ....numerics.tasks.regression import RegressionTask
from ...experiments.draws import remembered
from ...experiments.staircase import SMALL, Setting, flow, plateaus, reached, softmax_training
from .. import formulas
from ..book import claim
from ..tolerances import CONVERGED_RATE, COUNT, LEADING_ORDER, PLATEAU

# Gaussian starts of scale 0.01. In five of the six the second plateau is shorter than the first.
STARTS = tuple(replace(SMALL, seed=seed, duration=10 * SMALL.duration) for seed in range(6))


@remembered
def drop_times(setting: Setting) -> np.ndarray:
    """The times at which the flow's loss is midway between two plateaus of (24)."""
    run, levels = flow(setting), formulas.plateau_losses(setting.task)
    return np.array([reached(run, run.objective.value, level) for level in (levels[1:] + levels[:-1]) / 2])


def predicted_drops(setting: Setting) -> np.ndarray:
    """Drop times from the initial weights: waiting heads by their exact quadrature, drops by the scalar flow."""
    return predict_curve(setting.task, setting.weights).drops


def longer_than_before(setting: Setting) -> np.ndarray:
    """Whether the second, third and fourth plateau each last longer than the one before."""
    return np.diff(np.diff(predicted_drops(setting), prepend=0.0)) > 0


@claim(
    "73",
    "whether each later plateau lasts longer than the one before, from six Gaussian starts: it need not",
    method="flow",
    tolerance=COUNT,
    theory=longer_than_before,
    wrong={"later plateaus always last longer": lambda setting: np.full(3, True)},
)
def later_plateaus_need_not_be_longer(longer) -> float:
    measured = [np.diff(np.diff(drop_times(setting), prepend=0.0)) > 0 for setting in STARTS]
    return float(sum(np.sum(m != longer(setting)) for m, setting in zip(measured, STARTS, strict=True)))


def time_of_largest_value(setting: Setting) -> np.ndarray:
    """Equation (68) taken as the time from Gaussian weights: v(0) is the largest initial value weight."""
    return 1 / (setting.task.eigenvalues.max() ** 2 * np.abs(setting.weights.v).max()) * np.ones(1)


@claim(
    "68",
    "the time of the first drop from six Gaussian starts, by the exact motion of the waiting heads; 1/(lambda^2 v(0)) is not that time",
    method="flow",
    tolerance=LEADING_ORDER,
    theory=predicted_drops,
    wrong={"1/(lambda_1^2 v(0)) with the largest value weight": time_of_largest_value},
)
def first_drop_from_gaussian_weights(drops) -> float:
    return float(max(abs(drops(setting)[0] / drop_times(setting)[0] - 1) for setting in STARTS))


def time_by_position(setting: Setting) -> np.ndarray:
    """Equation (73) for all drops: heads in the order of their value weights learn the eigenvectors in order, each in its own time."""
    lam, v = np.sort(setting.task.eigenvalues)[::-1], np.sort(np.abs(setting.weights.v))[::-1]
    return 1 / (lam**2 * v[: len(lam)])


@claim(
    "73",
    "the times of all four drops from six Gaussian starts, by the exact motion of the waiting heads; (73) does not give them",
    method="flow",
    tolerance=LEADING_ORDER,
    theory=predicted_drops,
    wrong={"1/(lambda_m^2 v_m(0)), value weights in order": time_by_position},
)
def all_drops_from_gaussian_weights(drops) -> float:
    return float(max(np.abs(drops(setting) / drop_times(setting) - 1).max() for setting in STARTS))


def shortfall(task: RegressionTask) -> np.ndarray:
    """By how much each drop of (24) falls short of lambda_m."""
    return np.sort(task.eigenvalues)[::-1] + np.diff(formulas.plateau_losses(task))


@claim(
    "24",
    "by how much each drop of the flow falls short of lambda_m",
    method="flow",
    tolerance=PLATEAU,
    theory=shortfall,
    wrong={
        "a drop is lambda_m": lambda task: 0 * shortfall(task),
        "tr(Lambda)/N": lambda task: np.full(task.dimension, task.eigenvalues.sum() / task.context_length),
        "(tr(Lambda) + lambda)/N, the first order": lambda task: (
            (task.eigenvalues.sum() + np.sort(task.eigenvalues)[::-1]) / task.context_length
        ),
    },
)
def drops_fall_short(expected) -> float:
    measured = np.sort(SMALL.task.eigenvalues)[::-1] - plateaus(flow(SMALL)).sizes
    return float(np.abs(measured - expected(SMALL.task)).max())


@claim(
    "73",
    "the power of the eigenvalues with which the four drop times fall, for a fixed shape of Lambda and fixed initial weights",
    method="flow",
    tolerance=LEADING_ORDER,
    theory=-2.0,
    wrong={"1/lambda": -1.0, "1/lambda^3": -3.0},
)
def drop_times_fall_with_the_square(power) -> float:
    factors = np.array([1.0, 0.5, 0.25])
    times = []
    for factor in factors:
        eigenvalues = tuple(float(factor * lam) for lam in SMALL.eigenvalues)
        times.append(drop_times(replace(SMALL, eigenvalues=eigenvalues, duration=SMALL.duration / factor**2)))
    return float(np.abs(np.polyfit(np.log(factors), np.log(times), 1)[0] - power).max())


# Large initial weights

LARGE = replace(SMALL, scale=3.0, duration=400.0)


@claim(
    "Sec. 4.3",
    "the number of plateaus before the last, from initial weights of scale 3",
    method="flow",
    tolerance=COUNT,
    theory=0,
    wrong={"one for each component": 4},
)
def large_weights_have_no_plateau(number) -> float:
    return abs(max(len(plateaus(flow(LARGE))) - 1, 0) - number)


def slowest_rate(setting: Setting) -> float:
    """Twice the smallest nonzero eigenvalue of the Hessian of L/2 at the end of the flow: the excess loss is quadratic.

    D^2 eigenvalues are nonzero: weights at a global minimum can move B in every direction.
    """
    run = flow(setting)
    end = run.initial.unflatten(run.states[-1])
    spectrum = np.linalg.eigvalsh(end.hessian(QuadraticLoss.population(setting.task)))
    return float(2 * spectrum[-(setting.task.dimension**2)])


@claim(
    "Sec. 4.3",
    "from initial weights of scale 3 the excess loss decays exponentially: measured rate over that of the Hessian at the end",
    method="flow",
    tolerance=CONVERGED_RATE,
    theory=slowest_rate,
    wrong={
        "the rate of the weights, not of their square": lambda setting: slowest_rate(setting) / 2,
        "the slowest rate from small weights": lambda setting: slowest_rate(SMALL),
    },
)
def large_weights_decay_exponentially(rate) -> float:
    run, least = flow(LARGE), formulas.plateau_losses(LARGE.task)[-1]
    times = np.linspace(0, LARGE.duration, 4000)
    excess = np.asarray(run.loss_at(times)) - least
    last = (excess < 1e-5 * excess[0]) & (excess > 1e-8 * excess[0])  # the slowest mode alone, above the solver's errors
    slope = np.polyfit(times[last], np.log(excess[last]), 1)[0]
    return float(abs(-slope / rate(LARGE) - 1))


@claim(
    "Sec. 4.3",
    "softmax attention with all its blocks, trained by SGD: one drop with merged key and query, at least three with separate ones",
    method="training",
    tolerance=COUNT,
    theory={"merged": (1, 1), "separate": (3, 8)},
    wrong={"one drop whichever": {"merged": (1, 1), "separate": (1, 1)}, "several whichever": {"merged": (3, 8), "separate": (3, 8)}},
    slow=True,
)
def softmax_drops_alike(allowed) -> float:
    worst = 0
    for kind, (least, most) in allowed.items():
        drops = len(find_plateaus(*softmax_training(kind), contrast=2.0).drops)
        worst = max(worst, least - drops, drops - most)
    return float(worst)
