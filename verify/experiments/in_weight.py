"""Runs in which a portion of the task vectors is fixed, trained and from theory, for claims and figures.

Each seed has its own fixed task vector, initial weights and training set. Theory gets the vector and the weights, but not the
set: its losses are expectations (V6).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float

from ...numerics import Ensemble, FullMergedWeights, MixedTask, RegressionTask, gradient_flow
from ...numerics.tasks.sample_moments import Batch, SampleMoments
from ..training.descent import fresh_batches, holding, one_each, one_thread, train
from ..training.modules import MergedAttention
from . import draws

Curves = dict[str, Float[np.ndarray, "S T"]]  # by kind of loss, a row for each seed

EVERY = 16  # steps between two recorded losses


@dataclass(frozen=True)
class InWeightSetting:
    """Merged attention with all its blocks on white tokens Lambda = I/D, the setting of figures 5 and 10.

    A ``portion`` of the task vectors is random; the others equal one vector per seed, of ``length`` (None: sqrt(D)). All blocks start
    by the laws (34). ``duration`` is in t/tau; a step of training advances time by ``2 learning_rate``.
    """

    portion: float
    dimension: int = 4
    context_length: int = 31
    heads: int = 8
    scale: float = 1e-2
    duration: float = 160.0
    learning_rate: float = 5e-3
    sequences: int = 250_000
    seeds: int = 8
    length: float | None = None

    @property
    def task(self) -> RegressionTask:
        D = self.dimension
        return RegressionTask(eigenvalues=[1 / D] * D, context_length=self.context_length)

    @draws.remembered
    def problem(self, seed: int) -> MixedTask:
        w = draws.generator(seed, 1).standard_normal(self.dimension)
        return MixedTask(self.task, self.portion, (self.fixed_length * w / np.linalg.norm(w))[None])

    @property
    def fixed_length(self) -> float:
        """The length of the fixed task vector."""
        return float(np.sqrt(self.dimension)) if self.length is None else self.length

    def start(self, seed: int) -> FullMergedWeights:
        rng = draws.generator(seed, 2)
        return FullMergedWeights.initialize(self.task, heads=self.heads, scale=self.scale, block_scale=self.scale, rng=rng)

    @property
    def times(self) -> Float[np.ndarray, " T"]:
        """The recorded times of training, in t/tau."""
        return 2 * self.learning_rate * np.arange(0, round(self.duration / (2 * self.learning_rate)), EVERY)


def apart(curves: Curves, expected: Curves, over_time: Callable[[np.ndarray], Any]) -> float:
    """The relative difference of the curves averaged over seeds, reduced by ``over_time``, for the worst kind of loss."""
    return max(float(over_time(np.abs(curves[kind].mean(axis=0) / expected[kind].mean(axis=0) - 1))) for kind in expected)


def each_loss(setting: InWeightSetting, maps: list[np.ndarray]) -> Curves:
    """The exact losses of every kind along the effective maps of each seed."""
    curves = [{kind: loss.values(B) for kind, loss in setting.problem(seed).losses.items()} for seed, B in enumerate(maps)]
    return {kind: np.stack([curve[kind] for curve in curves]) for kind in curves[0]}


@draws.remembered
def descended(setting: InWeightSetting) -> Curves:
    """Full-batch gradient descent, each seed on ``sequences`` sequences drawn once."""
    seeds, D = range(setting.seeds), setting.dimension
    sets = [setting.problem(seed).sequences(setting.sequences, draws.generator(seed, 3)) for seed in seeds]
    ensemble = Ensemble([SampleMoments.from_batches(batches, context="mean") for batches in sets])
    starts = [setting.start(seed).arrays for seed in seeds]
    weights = tuple(np.stack(arrays)[:, None] for arrays in zip(*starts, strict=True))
    steps = round(setting.duration / (2 * setting.learning_rate))
    run = ensemble.descend(weights, setting.learning_rate, steps, block=EVERY)
    maps = np.stack([block[0] for block, _ in run])  # the map before the first step of each block
    return each_loss(setting, [maps[:, seed, 0].reshape(-1, D + 1, D + 1, D) for seed in seeds])


def population_maps(setting: InWeightSetting, times: Float[np.ndarray, " T"]) -> list[np.ndarray]:
    """The effective maps of each seed at ``times``, by gradient flow on theory's population loss; no sequence is drawn."""
    runs = [gradient_flow(setting.problem(seed).training_loss, setting.start(seed), t_end=times[-1]) for seed in range(setting.seeds)]
    return [run.effective_map_at(times) for run in runs]


def flowing(setting: InWeightSetting) -> Curves:
    """The losses along the flow of :func:`population_maps`."""
    return each_loss(setting, population_maps(setting, setting.times))


# Stochastic gradient descent

# Steps over which the mini-batch loss is averaged; test losses are taken before the first of them.
WINDOW = 64
PROMPTS = 50_000  # of each kind and seed, to test trained networks on
TESTS = ("in context", "in weight", "memory")


def _step_times(setting: InWeightSetting) -> Float[np.ndarray, " T"]:
    """The times of the steps that fill whole windows."""
    return 2 * setting.learning_rate * np.arange(round(setting.duration / (2 * setting.learning_rate)) // WINDOW * WINDOW)


@draws.remembered
def trained(setting: InWeightSetting, batch_size: int = 512) -> Curves:
    """PyTorch attention trained by SGD, each seed with its own fixed task vector, initial weights and fresh mini-batches.

    Theory's losses are not used: "training" is the mini-batch loss averaged over windows of 64 steps, the others are mean squared
    errors on fresh prompts.
    """
    D, seeds, steps = setting.dimension, range(setting.seeds), len(_step_times(setting))
    networks, sources = [], []
    for seed in seeds:
        start = setting.start(seed)
        value, key_query = np.zeros((2, setting.heads, D + 1, D + 1))
        value[:, -1], key_query[:, :, :-1] = start.value, start.key_query
        networks.append(MergedAttention(value, key_query))
        vectors = torch.tensor(setting.problem(seed).fixed_tasks)
        generator = draws.torch_generator(600 + seed)
        sources.append(fresh_batches(setting.task, batch_size, generator, fixed_tasks=vectors, fixed_fraction=1 - setting.portion))
    run = train(networks, one_each(sources), steps=steps - 1, learning_rate=setting.learning_rate, record_every=1, progress=False)
    curves = {"training": run.batch_loss.T.reshape(setting.seeds, -1, WINDOW).mean(axis=2)}
    for i, kind in enumerate(TESTS):
        rows = []
        for seed in seeds:
            states = {name: torch.tensor(state[::WINDOW, seed]) for name, state in run.states.items()}
            rng = draws.generator(seed, 4, i)
            prompts = setting.problem(seed).sequences(PROMPTS, rng, kind=kind)  # type: ignore[arg-type]
            rows.append(_test_losses(networks[seed], states, prompts))
        curves[kind] = np.stack(rows)
    return curves


def _test_losses(network: MergedAttention, states: dict[str, torch.Tensor], batches: Iterable[Batch]) -> np.ndarray:
    """The mean squared error of the network on the same prompts at each of its states."""
    sums, count = 0.0, 0
    with one_thread(), torch.no_grad():
        theta = holding(network, states).coefficients()  # pyright: ignore[reportCallIssue]
        for tokens, target in batches:
            errors = network.features(torch.tensor(tokens).mT) @ theta.mT - torch.tensor(target)[:, None]
            sums, count = sums + errors.square().sum(dim=0).numpy(), count + len(target)
    return np.asarray(sums / count)


def expected(setting: InWeightSetting, maps_at: Callable[..., list[np.ndarray]] = population_maps) -> Curves:
    """The same curves from theory: expected losses along a flow, at the times of the steps."""
    maps = maps_at(setting, _step_times(setting))
    curves = each_loss(setting, [B[::WINDOW] for B in maps])
    losses = [setting.problem(seed).training_loss.values(B) for seed, B in enumerate(maps)]
    return curves | {"training": np.stack(losses).reshape(len(maps), -1, WINDOW).mean(axis=2)}
