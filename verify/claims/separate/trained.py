"""Claims about trained networks: PyTorch attention on sequences drawn afresh, against theory and against the flow."""

from dataclasses import replace

import numpy as np
import torch

from ....numerics.dynamics.plateaus import Plateaus
from ....numerics.parametrizations.attention import MergedWeights
from ....numerics.tasks.losses import QuadraticLoss
from ....numerics.tasks.regression import RegressionTask
from ...experiments import draws
from ...experiments.diagnosis import suspicion
from ...experiments.draws import remembered
from ...experiments.staircase import DEFAULT, flow, plateaus, trained_plateaus, training
from ...training.descent import TrainingRun, fixed_set, fresh_batches, train
from ...training.modules import ConvolutionalNetwork, ReducedMerged, ReducedSeparate, TwoLayerNetwork
from ...training.sequences import draw_sequences
from .. import formulas
from ..book import claim
from ..merged.flow import balanced_white_weights, white_task
from ..tolerances import (
    COUNT,
    SAME_COMPUTATION,
    TRAINED_ALGORITHM,
    TRAINED_EARLY_DROPS,
    TRAINED_END,
    TRAINED_LAST_DROP,
    TRAINED_PLATEAU,
    TRAINED_SIGMOID,
)


def expected_plateaus(task: RegressionTask) -> Plateaus:
    """The plateaus of the flow from the same initial weights."""
    if task.context_length == DEFAULT.context_length:
        return plateaus(flow())
    return plateaus(flow(replace(DEFAULT, context_length=task.context_length)))


@claim(
    "24",
    "the loss on the five plateaus of separate attention trained by SGD on fresh mini-batches",
    method="training",
    tolerance=TRAINED_PLATEAU,
    theory=formulas.plateau_losses,
    wrong={
        "N + 1 for N": formulas.longer_context(formulas.plateau_losses),
        "drops of exactly lambda_m": formulas.infinite_context(formulas.plateau_losses),
    },
    explain=suspicion,
)
def plateau_losses_trained(losses) -> float:
    return float(np.abs(_five_levels() / losses(DEFAULT.task) - 1).max())


def _five_levels() -> np.ndarray:
    levels = trained_plateaus().levels
    if len(levels) != 5:
        raise ArithmeticError(f"training shows {len(levels)} plateaus, theory has 5")
    return levels


@claim(
    "10",
    "the loss on the plateaus of SGD against those of the flow from the same initial weights",
    method="training",
    tolerance=TRAINED_PLATEAU,
    theory=expected_plateaus,
    wrong={"N + 1 for N in the flow's loss": formulas.longer_context(expected_plateaus)},
    explain=suspicion,
)
def plateau_losses_against_flow(expected) -> float:
    return float(np.abs(_five_levels() / expected(DEFAULT.task).levels - 1).max())


@claim(
    "10",
    "the first three drop times of SGD, t/tau = 2 steps times step size, against the flow's",
    method="training",
    tolerance=TRAINED_EARLY_DROPS,
    theory=lambda task: expected_plateaus(task).drops,
    wrong={"t/tau = steps times step size": lambda task: expected_plateaus(task).drops / 2},
    explain=suspicion,
)
def early_drop_times_trained(drops) -> float:
    _five_levels()
    return float(np.abs(trained_plateaus().drops / drops(DEFAULT.task) - 1)[:3].max())


@claim(
    "10",
    "the last drop time of SGD against the flow's",
    method="training",
    tolerance=TRAINED_LAST_DROP,
    theory=lambda task: expected_plateaus(task).drops,
    wrong={"t/tau = steps times step size": lambda task: expected_plateaus(task).drops / 2},
    explain=suspicion,
)
def last_drop_time_trained(drops) -> float:
    _five_levels()
    return float(np.abs(trained_plateaus().drops / drops(DEFAULT.task) - 1)[3])


def _last_map(run: TrainingRun) -> np.ndarray:
    """The effective map averaged over the last tenth of a run."""
    maps = run.effective_maps()
    return maps[-len(maps) // 10 :].mean(axis=0)


@claim(
    "16",
    "the loss of the trained map, averaged over the last tenth of the run, against the least possible",
    method="training",
    tolerance=TRAINED_END,
    theory=formulas.plateau_losses,
    wrong={"N + 1 for N": formulas.longer_context(formulas.plateau_losses)},
    explain=suspicion,
)
def final_loss_trained(losses) -> float:
    return abs(QuadraticLoss.population(DEFAULT.task).value(_last_map(training())) / losses(DEFAULT.task)[-1] - 1)


def regression_on_components(task: RegressionTask, learned: int, X: torch.Tensor) -> torch.Tensor:
    """``beta' sum_{d <= m} (...) e_d e_d' x_q`` of (27), on prompts."""
    B = torch.tensor(formulas.saddle_map(task, learned))
    beta = torch.einsum("pdn,pn->pd", X[:, :-1, :-1], X[:, -1, :-1]) / (X.shape[-1] - 1)
    return torch.einsum("pi,ij,pj->p", beta, B, X[:, :-1, -1])


@claim(
    "27",
    "predictions on fresh prompts of networks stopped in the middle of plateaus 2 to 5, against regression on m components",
    method="training",
    tolerance=TRAINED_ALGORITHM,
    theory=regression_on_components,
    wrong={
        "one component too few": lambda task, m, X: regression_on_components(task, m - 1, X),
        "1/lambda without its factor": formulas.infinite_context(regression_on_components),
    },
)
def stopped_networks_do_component_regression(algorithm) -> float:
    run, found = training(), trained_plateaus()
    X, _ = draw_sequences(DEFAULT.task, 5000, draws.torch_generator(27))
    worst = 0.0
    for m in range(1, len(_five_levels())):
        index = int(np.searchsorted(run.times, (found.starts[m] + found.ends[m]) / 2))
        network = ReducedSeparate(DEFAULT.weights)
        state = {name: torch.tensor(values[index]) for name, values in run.states.items()}
        network.load_state_dict(state)
        with torch.no_grad():
            prediction, expected = network(X), algorithm(DEFAULT.task, m, X)
        worst = max(worst, float((prediction - expected).square().mean() / prediction.square().mean()))
    return worst


# Merged attention, and the equivalent networks


@remembered
def white_training(steps: int = 500, learning_rate: float = 0.01, batch_size: int = 512) -> TrainingRun:
    """Merged attention from balanced weights on white tokens."""
    task = white_task()
    source = fresh_batches(task, batch_size, draws.torch_generator(15))
    network = ReducedMerged(balanced_white_weights(task, 0.1))
    return train(network, source, steps=steps, learning_rate=learning_rate, progress=False)


@claim(
    "15",
    "the mean diagonal of the effective map of merged attention trained by SGD against the sigmoid",
    method="training",
    tolerance=TRAINED_SIGMOID,
    theory=formulas.white_sigmoid,
    wrong={"t for 2 t": lambda task, t, s: formulas.white_sigmoid(task, t / 2, s)},
)
def white_sigmoid_trained(sigmoid) -> float:
    run = white_training()
    sigma = np.trace(run.effective_maps(), axis1=-2, axis2=-1) / 4
    return float(np.abs(sigma - sigmoid(white_task(), run.times, 0.1**2)).max())


def _trained_together(networks: list, steps: int = 150, learning_rate: float = 0.05) -> list[TrainingRun]:
    batch = draw_sequences(DEFAULT.task, 200, draws.torch_generator(1))
    return [train(n, fixed_set(batch), steps=steps, learning_rate=learning_rate, progress=False) for n in networks]


def _merged_start() -> MergedWeights:
    return MergedWeights.initialize(DEFAULT.task, heads=8, scale=1.0, rng=draws.generator(11))


@claim(
    "11",
    "merged attention and the two-layer network on z, trained on one set from one start: the loss at every step",
    method="training",
    tolerance=SAME_COMPUTATION,
    theory=TwoLayerNetwork.equivalent_to,
    wrong={"rows of U stacked, not columns": lambda w: TwoLayerNetwork(w.v, w.U.reshape(len(w.v), -1))},
)
def two_layer_network_trains_alike(equivalent) -> float:
    attention, network = _trained_together([ReducedMerged(_merged_start()), equivalent(_merged_start())])
    return float(np.abs(attention.batch_loss / network.batch_loss - 1).max())


@claim(
    "18",
    "separate attention and the convolutional network on z, trained on one set from one start: the loss at every step",
    method="training",
    tolerance=SAME_COMPUTATION,
    theory=ConvolutionalNetwork,
    wrong={"kernel and readout exchanged": lambda w: ConvolutionalNetwork(type(w)(w.v, w.q, w.k))},
)
def convolutional_network_trains_alike(equivalent) -> float:
    start = DEFAULT.weights.unflatten(5 * DEFAULT.weights.flatten())
    attention, network = _trained_together([ReducedSeparate(start), equivalent(start)])
    return float(np.abs(attention.batch_loss / network.batch_loss - 1).max())


@claim(
    "Sec. 4.3",
    "the number of drops of separate attention trained by SGD: one for each component",
    method="training",
    tolerance=COUNT,
    theory=lambda task: task.dimension,
    wrong={"a single one": lambda task: 1},
    explain=suspicion,
)
def separate_drops_once_a_component(drops) -> float:
    return abs(len(trained_plateaus().drops) - drops(DEFAULT.task))
