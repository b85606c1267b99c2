"""Claims about the unreduced model as five weights (V6-five): whole curves, and the powers with which its error falls (V6-error)."""

from dataclasses import replace

import numpy as np

from ....numerics import FiveWeights, compiled, gradient_flow
from ....theory.notation import N, lambda_, w_init
from ....theory.results.in_weight.five_weights import LENGTH, ROW
from ....theory.results.in_weight.five_weights_error import SIGMA_1, SIGMA_K
from ....theory.results.in_weight.population_loss import portion
from ...experiments.in_weight import Curves, InWeightSetting, apart, descended, flowing
from ..book import claim, wrong
from ..tolerances import ERROR_EXPONENT, FIVE_WEIGHTS, IN_WEIGHT_CURVES
from .loss import growth_rates


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
    size = np.mean([np.linalg.norm(FiveWeights(setting.problem(s)).start(setting.start(s))) for s in range(setting.seeds)])
    return five_weights(setting, factor=setting.scale / float(size))


@claim("V6-five", method="flow", tolerance=FIVE_WEIGHTS, theory=five_weights)
@wrong("w_init for the projection of the initial weights", nominal_start)
@wrong("N + 1 for N", lambda setting: five_weights(replace(setting, context_length=setting.context_length + 1)))
def five_weights_for_all_heads(curves) -> float:
    """Five ordinary differential equations against the flow of 8 heads with all blocks, Gaussian of scale 1e-3, four losses at 60 % random
    tasks."""
    setting = InWeightSetting(0.6, scale=1e-3, seeds=2)
    return apart(flowing(setting), curves(setting), np.max)


@claim("V6-five", method="descent", tolerance=IN_WEIGHT_CURVES, theory=five_weights, slow=True)
@wrong("w_init for the projection of the initial weights", nominal_start)
def five_weights_against_training(curves) -> float:
    """Five ordinary differential equations against 8 runs of descent on 250,000 sequences each: four losses at every time, 20 % and 60 %
    random tasks."""
    settings = (InWeightSetting(0.2), InWeightSetting(0.6))
    return max(apart(descended(setting), curves(setting), np.max) for setting in settings)


# The error

# Heads that turn set the power of the map's error in both settings, and that of the losses in the second only.
ERROR_SETTINGS = (InWeightSetting(0.6, seeds=3), InWeightSetting(0.1, dimension=2, context_length=32, heads=4, length=0.5, seeds=3))


def across_rate(setting: InWeightSetting) -> float:
    """The rate sigma_x of heads that turn (V6-error): tau^2 d^2a/dt^2 = sigma_x^2 a."""
    square = compiled("V6-error", (lambda_, portion, LENGTH, N, ROW), part="across")
    size = setting.dimension
    return float(np.sqrt(square(1 / size, setting.portion, setting.fixed_length, setting.context_length, 1.0)))


def powers(setting: InWeightSetting) -> tuple[float, float]:
    """The powers of w_init with which the errors of the map and of the losses fall (V6-error)."""
    first, second = growth_rates(setting)
    across = across_rate(setting)

    def of(part: str, rate: float) -> float:
        power = compiled("V6-error", (w_init, SIGMA_1, SIGMA_K), part=part)
        return -float(np.log(power(np.exp(-1.0), first, rate)))

    return min(of("map", second), of("map", across)), min(of("loss", second), of("loss across", across))


def symmetric_only(setting: InWeightSetting) -> tuple[float, float]:
    """A mistake: symmetric heads only, so that sigma_2 of Gamma sets both powers."""
    first, second = growth_rates(setting)
    return 1 - second / first, 1 - second / first


def measured_powers(setting: InWeightSetting) -> np.ndarray:
    """The powers with which the errors of the map, over its norm, and of the losses fall from scales of 1e-5 to 1e-7, for each seed."""
    errors = []
    for scale in (1e-5, 1e-7):
        small, one = replace(setting, scale=scale), []
        end = (np.log(1 / scale) + 4) / growth_rates(setting)[0]  # 4: the first drop is over, the next rank still small
        times = np.linspace(0, end, 301)
        for seed in range(setting.seeds):
            problem, start = small.problem(seed), small.start(seed)
            five = FiveWeights(problem)
            states = five.states(times, five.start(start), rtol=1e-11)
            maps = gradient_flow(problem.training_loss, start, t_end=end, rtol=1e-11).effective_map_at(times)
            sizes, apart_by = (np.linalg.norm(B.reshape(len(times), -1), axis=1) for B in (maps, five.effective_maps(states) - maps))
            reduced = five.losses(states)
            one.append(
                [apart_by.max() / sizes.max(), max(np.abs(reduced[k] / loss.values(maps) - 1).max() for k, loss in problem.losses.items())]
            )
        errors.append(np.log(one).mean(axis=0))
    return (errors[0] - errors[1]) / np.log(100)


@claim("V6-error", method="flow", tolerance=ERROR_EXPONENT, theory=powers)
@wrong("1 - sigma_2/sigma_1, from symmetric heads only", symmetric_only)
@wrong("first order in heads that turn, in the losses as well", lambda setting: (powers(setting)[0],) * 2)
@wrong("second order in heads that turn, in the map as well", lambda setting: (powers(setting)[1],) * 2)
@wrong("1: first order", lambda setting: (1.0, 1.0))
def power_of_the_error(expected) -> float:
    """Powers of w_init with which the five equations' errors of the map and of four losses fall: 60 % random tasks at D = 4, and 10 % at D
    = 2 with a shorter fixed vector."""
    return max(float(np.abs(measured_powers(one) - expected(one)).max()) for one in ERROR_SETTINGS)
