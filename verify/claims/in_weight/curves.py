"""Claims about whole curves with a portion of the task vectors fixed (V6): descent and SGD against the flow."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from ....numerics import MergedWeights, QuadraticLoss, gradient_flow
from ...experiments.in_weight import Curves, InWeightSetting, apart, descended, each_loss, expected, flowing, trained
from ..book import claim, wrong
from ..tolerances import IN_WEIGHT_CURVES, IN_WEIGHT_SGD


def half_time(setting: InWeightSetting, curves: Callable[[InWeightSetting], Curves] = flowing) -> Curves:
    """A mistake: t/tau = steps times step size."""
    return curves(replace(setting, duration=setting.duration / 2, learning_rate=setting.learning_rate / 2))


def usual_mistakes(curves: Callable[[InWeightSetting], Curves]) -> Callable:
    """Those that each claim of this module catches."""

    def plant(measure):
        measure = wrong("t/tau = steps times step size", partial(half_time, curves=curves))(measure)
        measure = wrong("N + 2 for N", lambda one: curves(replace(one, context_length=one.context_length + 2)))(measure)
        return wrong("the portions exchanged", lambda one: curves(replace(one, portion=1 - one.portion)))(measure)

    return plant


def reduced_maps(setting: InWeightSetting, times: np.ndarray) -> list[np.ndarray]:
    """A mistake: the zero blocks of (M) held at zero."""
    size, maps = setting.dimension, []
    for seed in range(setting.seeds):
        start, full = setting.start(seed), setting.problem(seed).training_loss
        kept = np.ravel_multi_index(np.ix_([size], range(size), range(size)), full.A.shape).ravel()
        loss = QuadraticLoss.from_moments(second=full.matrix[np.ix_(kept, kept)], cross=full.A[size, :size], square=full.c)
        weights = MergedWeights(start.value[:, size], start.key_query[:, :size])
        run = gradient_flow(loss, weights, t_end=times[-1])
        B_full = np.zeros((len(times), *full.A.shape))
        B_full[:, size, :size] = run.effective_map_at(times)
        maps.append(B_full)
    return maps


def reduced_flow(setting: InWeightSetting) -> Curves:
    """The losses along :func:`reduced_maps`."""
    return each_loss(setting, reduced_maps(setting, setting.times))


STATEMENT = (
    "training loss, in-context and both in-weight test losses at every time, of 8 runs of descent on 250,000 sequences "
    "each, against the flow from the same weights: "
)


def descended_apart(curves: Callable[[InWeightSetting], Curves], portion: float) -> float:
    setting = InWeightSetting(portion)
    return apart(descended(setting), curves(setting), np.max)


@claim("V6", f"{STATEMENT}20 % random tasks", method="descent", tolerance=IN_WEIGHT_CURVES, theory=flowing, slow=True)
@usual_mistakes(flowing)
@wrong("the zero blocks of (M) held at zero", reduced_flow)
def curves_at_one_fifth(curves) -> float:
    return descended_apart(curves, 0.2)


@claim("V6", f"{STATEMENT}60 % random tasks", method="descent", tolerance=IN_WEIGHT_CURVES, theory=flowing, slow=True)
@usual_mistakes(flowing)
@wrong("the zero blocks of (M) held at zero", reduced_flow)
def curves_at_three_fifths(curves) -> float:
    return descended_apart(curves, 0.6)


@claim("V6", f"{STATEMENT}all tasks random", method="descent", tolerance=IN_WEIGHT_CURVES, theory=flowing, slow=True)
@usual_mistakes(flowing)
def curves_without_fixed_tasks(curves) -> float:
    return descended_apart(curves, 1.0)


SGD_STATEMENT = (
    "loss on mini-batches, averaged over 64 steps, in-context and both in-weight losses on fresh prompts, at every time, of 8 PyTorch "
    "networks trained by SGD, each with its own weights, fixed vector and batches, against the flow: "
)


def trained_apart(curves: Callable[[InWeightSetting], Curves], portion: float, duration: float) -> float:
    """Tokens are two-dimensional, and steps so short that their error is below the noise of the batches."""
    setting = InWeightSetting(portion, dimension=2, context_length=8, duration=duration)
    return apart(trained(setting), curves(setting), np.max)


@claim("V6", f"{SGD_STATEMENT}20 % random tasks", method="training", tolerance=IN_WEIGHT_SGD, theory=expected, slow=True)
@usual_mistakes(expected)
@wrong("the zero blocks of (M) held at zero", partial(expected, maps_at=reduced_maps))
def curves_trained_by_sgd_at_one_fifth(curves) -> float:
    return trained_apart(curves, 0.2, 40.0)


@claim("V6", f"{SGD_STATEMENT}60 % random tasks", method="training", tolerance=IN_WEIGHT_SGD, theory=expected, slow=True)
@usual_mistakes(expected)
@wrong("the zero blocks of (M) held at zero", partial(expected, maps_at=reduced_maps))
def curves_trained_by_sgd(curves) -> float:
    return trained_apart(curves, 0.6, 30.0)


@claim("V6", f"{SGD_STATEMENT}all tasks random", method="training", tolerance=IN_WEIGHT_SGD, theory=expected, slow=True)
@usual_mistakes(expected)
def curves_trained_by_sgd_without_fixed_tasks(curves) -> float:
    return trained_apart(curves, 1.0, 24.0)
