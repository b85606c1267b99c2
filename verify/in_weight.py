"""Runs in which a portion of the task vectors is fixed: what is trained, and the same from theory, for claims and figures.

Each seed has a fixed task vector, initial weights and a training set of its own. Theory gets the vector and the weights, and
nothing of the set: its losses are expectations (V6).
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from jaxtyping import Float

from ..numerics.blocks import FullMergedWeights
from ..numerics.ensemble import Ensemble
from ..numerics.flow import gradient_flow
from ..numerics.inweight import MixedTask
from ..numerics.losses import QuadraticLoss
from ..numerics.moments import SampleMoments
from ..numerics.tasks import RegressionTask
from .models import MergedAttention
from .training import fresh_batches, train

Curves = dict[str, Float[np.ndarray, "S T"]]  # by kind of loss, a row for each seed

EVERY = 16  # steps between two recorded losses


@dataclass(frozen=True)
class InWeightSetting:
    """Merged attention with all its blocks on white tokens Lambda = I/D, the setting of figures 5 and 10.

    ``portion`` of the task vectors is random; the others are one vector of length sqrt(D), another for each seed. All blocks
    start by the laws (34). ``duration`` is in t/tau; a step of training advances time by ``2 learning_rate``.
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

    @property
    def task(self) -> RegressionTask:
        D = self.dimension
        return RegressionTask(eigenvalues=[1 / D] * D, context_length=self.context_length)

    def problem(self, seed: int) -> MixedTask:
        w = np.random.default_rng([seed, 1]).standard_normal(self.dimension)
        return MixedTask(self.task, self.portion, (np.sqrt(self.dimension) * w / np.linalg.norm(w))[None])

    def start(self, seed: int) -> FullMergedWeights:
        rng = np.random.default_rng([seed, 2])
        return FullMergedWeights.initialize(
            self.task, heads=self.heads, scale=self.scale, block_scale=self.scale, rng=rng
        )

    @property
    def times(self) -> Float[np.ndarray, " T"]:
        """The recorded times of training, in t/tau."""
        return 2 * self.learning_rate * np.arange(0, round(self.duration / (2 * self.learning_rate)), EVERY)


def values(loss: QuadraticLoss, maps: Float[np.ndarray, "T *shape"]) -> Float[np.ndarray, " T"]:
    """The loss of each of many effective maps."""
    flat = maps.reshape(len(maps), -1)
    return loss.c - 2 * flat @ loss.A.ravel() + ((flat @ loss.C.matrix) * flat).sum(-1)  # type: ignore[attr-defined]


def each_loss(setting: InWeightSetting, maps: list[np.ndarray]) -> Curves:
    """Every kind of loss along the effective maps of each seed: exact, whatever set they were trained on."""
    curves = [
        {kind: values(loss, B) for kind, loss in setting.problem(seed).losses.items()} for seed, B in enumerate(maps)
    ]
    return {kind: np.stack([curve[kind] for curve in curves]) for kind in curves[0]}


@cache
def descended(setting: InWeightSetting) -> Curves:
    """Full-batch gradient descent, each seed on ``sequences`` sequences drawn once."""
    seeds = range(setting.seeds)
    sets = [setting.problem(seed).sequences(setting.sequences, np.random.default_rng([seed, 3])) for seed in seeds]
    ensemble = Ensemble([SampleMoments.from_batches(batches, context="mean") for batches in sets])
    starts = [setting.start(seed).arrays for seed in seeds]
    weights = tuple(np.stack(arrays)[:, None] for arrays in zip(*starts, strict=True))
    steps = round(setting.duration / (2 * setting.learning_rate))
    run = ensemble.descend(weights, setting.learning_rate, steps, block=EVERY)
    maps = np.stack([block[0] for block, _ in run])  # the map before the first step of each block
    return each_loss(setting, [maps[:, seed, 0] for seed in seeds])


def flowing(setting: InWeightSetting) -> Curves:
    """Gradient flow on the population loss of the theory: no sequence is drawn."""
    runs = [
        gradient_flow(setting.problem(seed).training_loss, setting.start(seed), t_end=setting.duration)
        for seed in range(setting.seeds)
    ]
    return each_loss(setting, [run.effective_map_at(setting.times) for run in runs])


@cache
def trained(setting: InWeightSetting, batch_size: int = 512) -> Curves:
    """PyTorch attention that reads the sequences, by SGD on fresh mini-batches shared by all seeds.

    All seeds have the fixed task vector of seed 0, and initial weights of their own.
    """
    D, problem = setting.dimension, setting.problem(0)
    networks = []
    for seed in range(setting.seeds):
        start = setting.start(seed)
        value, key_query = np.zeros((2, setting.heads, D + 1, D + 1))
        value[:, -1], key_query[:, :, :-1] = start.value, start.key_query
        networks.append(MergedAttention(value, key_query))
    source = fresh_batches(
        setting.task,
        batch_size,
        torch.Generator().manual_seed(6),
        fixed_tasks=torch.tensor(problem.fixed_tasks),
        fixed_fraction=1 - setting.portion,
    )
    steps = round(setting.duration / (2 * setting.learning_rate))
    run = train(
        networks, source, steps=steps - 1, learning_rate=setting.learning_rate, record_every=EVERY, progress=False
    )
    kept = slice(len(setting.times))  # the last state is recorded as well
    value, key_query = run.states["value"][kept, :, :, -1], run.states["key_query"][kept, :, :, :, :-1]
    maps = np.einsum("tsha,tshbc->tsabc", value, key_query)
    curves = [
        {kind: values(loss, maps[:, seed]) for kind, loss in problem.losses.items()} for seed in range(setting.seeds)
    ]
    return {kind: np.stack([curve[kind] for curve in curves]) for kind in curves[0]}
