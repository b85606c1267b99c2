"""Claims about whole curves where a portion of the task vectors is fixed (V6): flow, descent, SGD, and the five equations."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..numerics.descent import gradient_descent
from ..numerics.five_weights import FiveWeights
from ..numerics.flow import gradient_flow
from ..numerics.losses import QuadraticLoss
from ..numerics.weights import MergedWeights
from .claims import claim
from .claims_in_weight import growth_rates
from .in_weight import EVERY, Curves, InWeightSetting, descended, each_loss, flowing, trained, values
from .tolerances import ERROR_EXPONENT, IN_WEIGHT_CURVES, IN_WEIGHT_SGD, SECOND_ORDER


def apart(curves: Curves, expected: Curves, over_time: Callable[[np.ndarray], Any]) -> float:
    """Of the curves averaged over the seeds: the relative difference, over time, of the worst kind of loss."""
    return max(
        float(over_time(np.abs(curves[kind].mean(axis=0) / expected[kind].mean(axis=0) - 1))) for kind in expected
    )


def half_time(setting: InWeightSetting) -> Curves:
    """A mistake: t/tau = steps times step size."""
    return flowing(replace(setting, duration=setting.duration / 2, learning_rate=setting.learning_rate / 2))


def reduced_flow(setting: InWeightSetting) -> Curves:
    """A mistake: the zero blocks of (M) held at zero."""
    size, maps = setting.dimension, []
    for seed in range(setting.seeds):
        start, full = setting.start(seed), setting.problem(seed).training_loss
        kept = np.ravel_multi_index(np.ix_([size], range(size), range(size)), full.A.shape).ravel()
        loss = QuadraticLoss.from_moments(
            second=full.C.matrix[np.ix_(kept, kept)],  # type: ignore[attr-defined]
            cross=full.A[size, :size],
            square=full.c,
        )
        weights = MergedWeights(start.value[:, size], start.key_query[:, :size])
        run = gradient_flow(loss, weights, t_end=setting.duration)
        B_full = np.zeros((len(setting.times), *full.A.shape))
        B_full[:, size, :size] = run.effective_map_at(setting.times)
        maps.append(B_full)
    return each_loss(setting, maps)


CURVES_WRONG = {
    "the portions exchanged": lambda setting: flowing(replace(setting, portion=1 - setting.portion)),
    "N + 2 for N": lambda setting: flowing(replace(setting, context_length=setting.context_length + 2)),
    "t/tau = steps times step size": half_time,
}
STATEMENT = (
    "training loss, in-context and both in-weight test losses at every time, of 8 runs of descent on 250,000 sequences "
    "each, against the flow from the same weights: "
)


@claim(
    "V6",
    f"{STATEMENT}20 % random tasks",
    method="descent",
    tolerance=IN_WEIGHT_CURVES,
    theory=flowing,
    wrong={**CURVES_WRONG, "the zero blocks of (M) held at zero": reduced_flow},
    slow=True,
)
def curves_at_one_fifth(curves) -> float:
    setting = InWeightSetting(0.2)
    return apart(descended(setting), curves(setting), np.max)


@claim(
    "V6",
    f"{STATEMENT}60 % random tasks",
    method="descent",
    tolerance=IN_WEIGHT_CURVES,
    theory=flowing,
    wrong={**CURVES_WRONG, "the zero blocks of (M) held at zero": reduced_flow},
    slow=True,
)
def curves_at_three_fifths(curves) -> float:
    setting = InWeightSetting(0.6)
    return apart(descended(setting), curves(setting), np.max)


@claim(
    "V6",
    f"{STATEMENT}all tasks random",
    method="descent",
    tolerance=IN_WEIGHT_CURVES,
    theory=flowing,
    wrong=CURVES_WRONG,
    slow=True,
)
def curves_without_fixed_tasks(curves) -> float:
    setting = InWeightSetting(1.0)
    return apart(descended(setting), curves(setting), np.max)


def descending(setting: InWeightSetting, factor: float = 1.0) -> Curves:
    """Descent on the population loss of the theory with the steps of training, each seed with the vector of seed 0."""
    losses = setting.problem(0).losses
    steps = round(setting.duration / (2 * setting.learning_rate))
    curves: dict[str, list] = {kind: [] for kind in losses}
    for seed in range(setting.seeds):
        rate = factor * setting.learning_rate
        run = gradient_descent(
            losses["training"], setting.start(seed), steps=steps, learning_rate=rate, record_every=EVERY
        )
        maps = run.effective_maps[: len(setting.times)]
        for kind, loss in losses.items():
            curves[kind].append(values(loss, maps))
    return {kind: np.stack(rows) for kind, rows in curves.items()}


@claim(
    "V6",
    "four losses, their relative difference averaged over time, of 8 PyTorch networks trained by SGD at 60 % random "
    "tasks, against descent on the theory's loss",
    method="training",
    tolerance=IN_WEIGHT_SGD,
    theory=descending,
    wrong={
        "the portions exchanged": lambda setting: descending(replace(setting, portion=1 - setting.portion)),
        "half the step size": partial(descending, factor=0.5),
    },
    slow=True,
)
def curves_trained_by_sgd(curves) -> float:
    setting = InWeightSetting(0.6, learning_rate=0.05, duration=100.0)
    return apart(trained(setting), curves(setting), np.mean)


def five_weights(setting: InWeightSetting, factor: float = 1.0) -> Curves:
    """Five ordinary differential equations from the projections of the initial weights, times ``factor``."""
    curves: dict[str, list] = {}
    for seed in range(setting.seeds):
        five = FiveWeights(setting.problem(seed))
        states = five.states(setting.times, factor * five.start(setting.start(seed)))
        for kind, curve in five.losses(states).items():
            curves.setdefault(kind, []).append(curve)
    return {kind: np.stack(rows) for kind, rows in curves.items()}


def nominal_start(setting: InWeightSetting) -> Curves:
    """A mistake: w_init itself for the projection of the initial weights."""
    size = np.mean(
        [np.linalg.norm(FiveWeights(setting.problem(s)).start(setting.start(s))) for s in range(setting.seeds)]
    )
    return five_weights(setting, factor=setting.scale / float(size))


@claim(
    "V6-five",
    "five ordinary differential equations against the flow of 8 heads with all blocks, Gaussian of scale 1e-3, four losses at "
    "60 % random tasks",
    method="flow",
    tolerance=SECOND_ORDER,
    theory=five_weights,
    wrong={
        "w_init for the projection of the initial weights": nominal_start,
        "N + 1 for N": lambda setting: five_weights(replace(setting, context_length=setting.context_length + 1)),
    },
)
def five_weights_for_all_heads(curves) -> float:
    setting = InWeightSetting(0.6, scale=1e-3, seeds=2)
    return apart(flowing(setting), curves(setting), np.max)


def error_exponent(setting: InWeightSetting) -> float:
    """1 - sigma_2/sigma_1 of Gamma (V6-escape)."""
    return 1 - growth_rates(setting)[1] / growth_rates(setting)[0]


def _measured_exponent(portion: float) -> float:
    """How the error of the five weights falls between initial scales of 1e-4 and 1e-6, averaged over three seeds."""
    errors = []
    for scale, duration in ((1e-4, 220.0), (1e-6, 280.0)):
        setting = InWeightSetting(portion, scale=scale, duration=duration, learning_rate=0.02)
        one = []
        for seed in range(3):
            problem_, start = setting.problem(seed), setting.start(seed)
            five = FiveWeights(problem_)
            reduced = five.losses(five.states(setting.times, five.start(start), rtol=1e-11))
            run = gradient_flow(problem_.training_loss, start, t_end=duration, rtol=1e-11)
            maps = run.effective_map_at(setting.times)
            one.append(max(np.abs(reduced[k] / values(loss, maps) - 1).max() for k, loss in problem_.losses.items()))
        errors.append(np.log(one).mean())
    return float((errors[0] - errors[1]) / np.log(100))


@claim(
    "V6-five",
    "power of w_init with which the error of the five equations falls, at 60 % random tasks",
    method="flow",
    tolerance=ERROR_EXPONENT,
    theory=error_exponent,
    wrong={
        "2: second order": lambda setting: 2.0,
        "1: first order": lambda setting: 1.0,
    },
    slow=True,
)
def power_of_the_error(exponent) -> float:
    return abs(_measured_exponent(0.6) - exponent(InWeightSetting(0.6)))


@claim(
    "V6-five",
    "five ordinary differential equations against 8 runs of descent on 250,000 sequences each: four losses at every time, 20 % "
    "and 60 % random tasks",
    method="descent",
    tolerance=IN_WEIGHT_CURVES,
    theory=five_weights,
    wrong={"w_init for the projection of the initial weights": nominal_start},
    slow=True,
)
def five_weights_against_training(curves) -> float:
    settings = (InWeightSetting(0.2), InWeightSetting(0.6))
    return max(apart(descended(setting), curves(setting), np.max) for setting in settings)
