"""Claims about trained networks: PyTorch attention on sequences drawn afresh, against theory and against the flow."""

from dataclasses import replace
from functools import partial

import numpy as np
import torch

from ....numerics import MergedWeights, Plateaus, QuadraticLoss, RegressionTask, find_plateaus
from ...experiments import draws
from ...experiments.diagnosis import suspicion
from ...experiments.setting import Setting
from ...experiments.staircase import DEFAULT, STARTS, flow, random_start, random_starts, trained_together as together
from ...training.descent import TrainingRun, fixed_set, fresh_batches, train
from ...training.modules import ConvolutionalNetwork, ReducedMerged, ReducedSeparate, TwoLayerNetwork, cubic_features
from ...training.sequences import draw_sequences
from .. import formulas
from ..book import claim, wrong
from ..merged.flow import balanced_white_weights, white_task
from ..tolerances import (
    PLATEAUS_SHOWN,
    SAME_COMPUTATION,
    TRAINED_ALGORITHM,
    TRAINED_CURVE,
    TRAINED_EARLY_DROPS,
    TRAINED_END,
    TRAINED_PLATEAU,
    TRAINED_SIGMOID,
)
from .staircase import flow_plateaus

# Eight networks from random weights of scale 0.2 on the same mini-batches. What is compared is there in every start: some plateaus of a
# start may be too short to show, and the last component may come after the end. Half the default context makes as little noise for half
# the work, and terms in 1/N count twice.
SETTING = replace(DEFAULT, context_length=15)


def trained_starts() -> tuple[Setting, ...]:
    return random_starts(SETTING)


@draws.remembered
def trained_together() -> tuple[TrainingRun, np.ndarray]:
    """The run of all networks, and their exact losses: a row for each."""
    setting = random_start(SETTING, STARTS)
    run = together(setting, tuple(one.seed for one in trained_starts()))
    return run, run.population_loss(QuadraticLoss.population(setting.task)).T


@draws.remembered
def _plateaus() -> list[Plateaus]:
    run, losses = trained_together()
    return [find_plateaus(run.times, loss) for loss in losses]


def expected_losses(pace: float = 1.0) -> np.ndarray:
    """The losses of the flow from the same initial weights, at the times of training (times ``pace``)."""
    times = pace * trained_together()[0].times
    return np.array([flow(one, 1e-6).loss_at(times) for one in trained_starts()])


def _suspicion() -> object:
    return suspicion(trained_starts()[0])


@claim("24", method="training", tolerance=TRAINED_PLATEAU, theory=formulas.plateau_losses, explain=_suspicion)
@wrong("N + 1 for N", formulas.longer_context)
@wrong("drops of exactly lambda_m", formulas.infinite_context)
def plateau_losses_trained(losses) -> float:
    """The loss on nine in ten of the plateaus, at least 20, of separate attention trained by SGD on fresh mini-batches from eight random
    starts, against the nearest of the five levels."""
    found, expected = np.concatenate([one.levels for one in _plateaus()]), losses(SETTING.task)
    return float(np.quantile(np.abs(found[:, None] / expected - 1).min(axis=1), 0.9)) if len(found) >= 20 else np.inf


@claim("10", method="training", tolerance=TRAINED_CURVE, theory=expected_losses, explain=_suspicion)
@wrong("t/tau = steps times step size", partial(expected_losses, 0.5))
def losses_against_flow(expected) -> float:
    """The loss of SGD at every time, t/tau = 2 steps times step size, against the flow from the same weights: root mean square distance in
    units of the initial loss, in the median of eight random starts."""
    apart = trained_together()[1] - expected()
    return float(np.median(np.sqrt((apart**2).mean(axis=1))) / SETTING.task.eigenvalues.sum())


def passages(losses: np.ndarray) -> np.ndarray:
    """The times of training after which each loss stays below the mean of two levels of (24); nan if it does not come to that."""
    times, levels = trained_together()[0].times, formulas.plateau_losses(SETTING.task)
    above = losses[:, None] > ((levels[1:] + levels[:-1]) / 2)[:, None]
    last = above.shape[-1] - 1 - above[..., ::-1].argmax(axis=-1)
    return np.where(above[..., -1], np.nan, times[np.minimum(last + 1, len(times) - 1)])


@claim("10", method="training", tolerance=TRAINED_EARLY_DROPS, theory=expected_losses, explain=_suspicion)
@wrong("t/tau = steps times step size", partial(expected_losses, 0.5))
def drop_times_trained(expected) -> float:
    """The drop times of SGD against the flow's, in the median of those that come before the end, at least 16, of eight random starts."""
    ratios = passages(trained_together()[1]) / passages(expected())
    return float(np.nanmedian(np.abs(ratios - 1))) if np.isfinite(ratios).sum() >= 16 else np.inf


def regression_on_components(task: RegressionTask, learned: int, X: torch.Tensor) -> torch.Tensor:
    """``beta' sum_{d <= m} (...) e_d e_d' x_q`` of (27), on prompts."""
    return cubic_features(X) @ torch.tensor(formulas.saddle_map(task, learned).flatten(order="F"))


@claim("27", method="training", tolerance=TRAINED_ALGORITHM, theory=regression_on_components)
@wrong("one component too few", lambda task, m, X: regression_on_components(task, m - 1, X))
@wrong("1/lambda without its factor", formulas.infinite_context)
def stopped_networks_do_component_regression(algorithm) -> float:
    """Predictions on fresh prompts of networks stopped in the middle of every plateau but the first, against regression on the m components
    of the nearest level, in the median over all of them from eight random starts."""
    run, levels = trained_together()[0], formulas.plateau_losses(SETTING.task)
    X, _ = draw_sequences(SETTING.task, 5000, draws.torch_generator(27))
    errors = []
    for start, found in enumerate(_plateaus()):
        network = ReducedSeparate(SETTING.weights)
        for level, begins, ends in zip(found.levels, found.starts, found.ends, strict=True):
            m, index = int(np.abs(levels - level).argmin()), int(np.searchsorted(run.times, (begins + ends) / 2))
            if m == 0:
                continue
            network.load_state_dict({name: torch.tensor(values[index, start]) for name, values in run.states.items()})
            with torch.no_grad():
                prediction, expected = network(X), algorithm(SETTING.task, m, X)
            errors.append(float((prediction - expected).square().mean() / prediction.square().mean()))
    return float(np.median(errors))


# Merged attention, and the equivalent networks


WHITE = white_task(context_length=7)  # in short contexts terms in 1/N count more


@draws.remembered
def white_training(steps: int = 400, learning_rate: float = 1 / 80, batch_size: int = 2048) -> TrainingRun:
    """Merged attention from balanced weights on white tokens."""
    task = WHITE
    source = fresh_batches(task, batch_size, draws.torch_generator(15), dtype=torch.float32)
    networks = [ReducedMerged(balanced_white_weights(task, 0.1)).float()]  # one of several, which share the features of a batch
    return train(networks, source, steps=steps, learning_rate=learning_rate, progress=False)


@claim("15", method="training", tolerance=TRAINED_SIGMOID, theory=formulas.white_sigmoid)
@wrong("t for 2 t", lambda task, t, s: formulas.white_sigmoid(task, t / 2, s))
def white_sigmoid_trained(sigmoid) -> float:
    """The mean diagonal of the effective map of merged attention trained by SGD against the sigmoid."""
    run = white_training()
    sigma = np.trace(run.effective_maps()[:, 0], axis1=-2, axis2=-1) / 4
    return float(np.abs(sigma - sigmoid(WHITE, run.times, 0.1**2)).max())


@claim("16", method="training", tolerance=TRAINED_END, theory=formulas.plateau_losses)
@wrong("N + 1 for N", formulas.longer_context)
def final_loss_trained(losses) -> float:
    """The loss of the map of trained merged attention, averaged over the last tenth of the run, against the least possible."""
    maps, task = white_training().effective_maps()[:, 0], WHITE
    return abs(QuadraticLoss.population(task).value(maps[-len(maps) // 10 :].mean(axis=0)) / losses(task)[-1] - 1)


def _trained_together(networks: list, steps: int = 60, learning_rate: float = 0.125) -> list[TrainingRun]:
    batch = draw_sequences(DEFAULT.task, 200, draws.torch_generator(1))
    return [train(n, fixed_set(batch), steps=steps, learning_rate=learning_rate, progress=False) for n in networks]


def _merged_start() -> MergedWeights:
    return MergedWeights.initialize(DEFAULT.task, heads=8, scale=1.0, rng=draws.generator(11))


@claim("11", method="training", tolerance=SAME_COMPUTATION, theory=TwoLayerNetwork.equivalent_to)
@wrong("rows of U stacked, not columns", lambda w: TwoLayerNetwork(w.v, w.U.reshape(len(w.v), -1)))
def two_layer_network_trains_alike(equivalent) -> float:
    """Merged attention and the two-layer network on z, trained on one set from one start: the loss at every step."""
    attention, network = _trained_together([ReducedMerged(_merged_start()), equivalent(_merged_start())])
    return float(np.abs(attention.batch_loss / network.batch_loss - 1).max())


@claim("18", method="training", tolerance=SAME_COMPUTATION, theory=ConvolutionalNetwork)
@wrong("kernel and readout exchanged", lambda w: ConvolutionalNetwork(type(w)(w.v, w.q, w.k)))
def convolutional_network_trains_alike(equivalent) -> float:
    """Separate attention and the convolutional network on z, trained on one set from one start: the loss at every step."""
    start = random_start(replace(DEFAULT, scale=1.0)).weights
    attention, network = _trained_together([ReducedSeparate(start), equivalent(start)])
    return float(np.abs(attention.batch_loss / network.batch_loss - 1).max())


@claim(
    "Sec. 4.3",
    method="training",
    tolerance=PLATEAUS_SHOWN,
    theory=lambda: np.mean([len(flow_plateaus(one, 1e-6)) for one in trained_starts()]),
    explain=_suspicion,
)
@wrong("two, beside a single drop", lambda: 2.0)
def separate_drops_once_a_component(expected) -> float:
    """The mean number of plateaus of separate attention trained by SGD, over that of the flow from the same eight random starts."""
    return abs(np.mean([len(found) for found in _plateaus()]) / expected() - 1)
