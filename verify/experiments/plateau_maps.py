"""The effective map that the runs of :mod:`~iclflow.verify.experiments.varied_tasks` have on each plateau, and its errors on fresh prompts.

Mini-batch noise keeps the weights, and so the loss, a few per cent from a plateau's. Weights averaged over the middle half of the
plateau come ten times closer.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from ...numerics.parametrizations.attention import SeparateWeights
from ...numerics.tasks.regression import RegressionTask
from ..training.descent import TrainingRun, fresh_batches, one_thread, train
from ..training.modules import Reduced, ReducedSeparate
from ..training.sequences import draw_sequences
from . import draws
from .varied_tasks import RUNS, over_starts, trained_plateaus, training

CHUNK = 50_000


def _middle(name: str, share: int = 1, start: int = 0) -> list[Float[np.ndarray, " T"]]:
    """For each plateau, a mask of the recorded times in its middle half."""
    found, times = trained_plateaus(name, share, start), training(name, share, start).times
    quarter = (found.ends - found.starts) / 4
    spans = zip(found.starts + quarter, found.ends - quarter, strict=True)
    return [(times >= begin) & (times <= end) for begin, end in spans]


@draws.remembered
def plateau_maps(name: str, start: int = 0) -> Float[np.ndarray, "M D D"]:
    """The effective map on each plateau of a trained run."""
    maps = training(name, start=start).effective_maps()
    return np.array([maps[inside].mean(axis=0) for inside in _middle(name, start=start)])


def plateau_losses(name: str) -> Float[np.ndarray, " M"]:
    """The population loss of these maps, over the starts."""
    return over_starts(lambda start: np.array([RUNS[name].loss.value(B) for B in plateau_maps(name, start)]))


@draws.remembered
def trained_network(name: str, plateau: int = -1, share: int = 1, start: int = 0) -> ReducedSeparate:
    """The network of a run, trained on one in ``share`` sequences, with the weights of one of its plateaus, of the last by default."""
    inside = _middle(name, share, start)[plateau]
    network = ReducedSeparate(RUNS[name].weights)
    network.load_state_dict({key: torch.tensor(v[inside].mean(axis=0)) for key, v in training(name, share, start).states.items()})
    return network


def four_networks(task: RegressionTask, heads: int, scale: float, *, seed: int, **options) -> tuple[TrainingRun, list[SeparateWeights]]:
    """Four networks of rank one trained together on a task, and their initial weights; ``seed`` is that of the batches."""
    sizes = {"heads": heads, "rank": 1, "scale": scale, "allow_deficient": True}
    starts = [SeparateWeights.initialize(task, rng=draws.generator(start), **sizes) for start in range(4)]
    batches, networks = fresh_batches(task, 512, draws.torch_generator(seed)), [ReducedSeparate(one) for one in starts]
    return train(networks, batches, record_every=5, progress=False, **options), starts


@draws.remembered
def settled_network(name: str, steps: int = 2000, share: int = 1) -> ReducedSeparate:
    """The network after ``steps`` more steps of training, with its weights averaged over them.

    On a short last plateau some noise is left in the weights: the training loss, at its minimum, hardly feels it, other losses do.
    """
    run, network = RUNS[name], trained_network(name, share=share)
    batches = fresh_batches(run.task, run.batch_size // share, draws.torch_generator(12))
    more = train(
        network, batches, steps=steps, learning_rate=run.learning_rate, record_every=5, progress=False
    ).states  # fmt: skip
    settled = ReducedSeparate(run.weights)
    settled.load_state_dict({key: torch.tensor(values.mean(axis=0)) for key, values in more.items()})
    return settled


def effective_map(network: Reduced) -> Float[np.ndarray, "D D"]:
    """B of a network, from its weights."""
    with torch.no_grad():
        return network.effective_map().numpy()


@dataclass(frozen=True)
class TestError:
    """The mean squared error of a network on prompts, and that of answering 0 on the same prompts, with their standard errors."""

    mean: float
    error: float
    zero: float
    zero_error: float
    difference_error: float  # standard error of mean - zero, which share some noise

    __test__ = False  # pytest would collect it by its name


@draws.remembered
def measured(network: Reduced, task: RegressionTask, count: int = 200_000, seed: int = 83) -> TestError:
    """The errors of a network's answers on ``count`` fresh prompts of a task."""
    generator, squares = draws.torch_generator(seed), []
    with torch.no_grad(), one_thread():
        for start in range(0, count, CHUNK):
            X, y = draw_sequences(task, min(CHUNK, count - start), generator)
            squares.append(torch.stack([(network(X) - y).square(), y.square()]))
    errors, zeros = torch.cat(squares, dim=1)

    def spread(values: torch.Tensor) -> float:
        return float(values.std()) / count**0.5

    return TestError(float(errors.mean()), spread(errors), float(zeros.mean()), spread(zeros), spread(errors - zeros))
