r"""Training as the paper's official code does it with ``vary_len``: every prefix of a sequence is a context, the token after it the query.

.. math::
    \frac1N\sum_{n=1}^N\mathbb E\Bigl(y_{n+1} - \frac1{n+1}\sum_{m\le n} y_m x_m^\top B x_{n+1}\Bigr)^2

The sum over a context is divided by n + 1: the query counts. The official code sums the N losses and this takes their mean, so a
step there is N times as large as here. The random lengths of :mod:`~iclflow.numerics.tasks.regression` are not used.
"""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ...numerics import Plateaus, RegressionTask, find_plateaus
from ..training.descent import TrainingRun, train
from ..training.modules import ReducedSeparate
from ..training.sequences import Batch, draw_sequences
from .draws import remembered, torch_generator
from .varied_tasks import PLAIN, RUNS


class PrefixAttention(ReducedSeparate):
    """Attention (S) that predicts at every token but the first, from the labels of the tokens before it."""

    def _weigh(self, scores: Tensor, context_length: int, dim: int) -> Tensor:
        return scores / (context_length + 1)

    def forward(self, X: Float[Tensor, "P D+1 N+1"]) -> Float[Tensor, " N*P"]:
        """The predictions of all P sequences from one token, then from two, up to N."""
        return torch.cat([super(PrefixAttention, self).forward(prefix(X, n)) for n in range(1, X.shape[-1])])


def prefix(X: Float[Tensor, "P D+1 N+1"], n: int) -> Float[Tensor, "P D+1 n+1"]:
    """The prompts of the first n tokens with the next as the query, its label hidden."""
    shown = X[:, :, : n + 1].clone()
    shown[:, -1, -1] = 0
    return shown


def labelled_batches(task: RegressionTask, batch_size: int, generator: torch.Generator) -> Callable[[], Batch]:
    """A source of fresh sequences with every label in its place, and the targets of :class:`PrefixAttention`.

    Raises ``ValueError`` for a task with its own query law or random lengths: here every token but the first is a query.
    """
    refused = task.variations & {"query_covariance", "context_lengths", "context_gain"}
    if refused:
        raise ValueError(f"task must not vary in {', '.join(sorted(refused))} if prefixes are contexts, got {task!r}")

    def draw() -> Batch:
        X, y = draw_sequences(task, batch_size, generator)
        X[:, -1, -1] = y
        return X, X[:, -1, 1:].T.flatten()

    return draw


@remembered
def prefix_training(share: int = 1) -> TrainingRun:
    """The run "official" of :mod:`~iclflow.verify.experiments.varied_tasks`, trained on all prefixes; of one in ``share`` sequences."""
    run = RUNS["official"]
    source = labelled_batches(PLAIN, run.batch_size // share, torch_generator(13))
    steps = round(run.duration / (2 * run.learning_rate))
    network = PrefixAttention(run.weights)
    return train(network, source, steps=steps, learning_rate=run.learning_rate, record_every=5, progress=False)


def prefix_loss(share: int = 1) -> Float[np.ndarray, " T"]:
    """The population loss of the trained network at its recorded times."""
    return prefix_training(share).population_loss(RUNS["official"].loss)


def prefix_plateaus(share: int = 1) -> Plateaus:
    return find_plateaus(prefix_training(share).times, prefix_loss(share))
