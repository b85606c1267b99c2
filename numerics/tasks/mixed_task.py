r"""In-context regression with some task vectors that repeat, which a model can also learn in its weights (Appendix F).

A portion p of the sequences draws :math:`w \sim N(0, I)`, the others take w from a list. The zero blocks of (M) and (S)
then move, and the loss is that of the unreduced model, quadratic in the effective tensor :math:`B_{abc}`:

.. math:: L(B) = E y_q^2 - 2 \langle A, B\rangle + \langle B, C[B]\rangle, \qquad
          A = E(y_q \phi),\ C = E(\phi\phi^\top),\ \phi = \mathcal G \otimes x_q.

The theory derives A and C exactly (V6), so flow and descent need no samples.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal

import numpy as np
from jaxtyping import Float

from ...theory.notation import Lambda, N, w
from ...theory.results.in_weight.features import cross_moments, feature_moments, target_square
from ...theory.results.in_weight.population_loss import w_0
from .._checks import finite_array, generator, one_of, positive_integer
from ..compilation.tensors import multilinear_tensor
from .losses import Dense, QuadraticLoss
from .regression import RegressionTask, paper_task
from .sample_moments import BATCH, Batch, sequences

Kind = Literal["training", "in context", "in weight", "memory"]
KINDS = ("training", "in context", "in weight", "memory")


@dataclass(frozen=True, eq=False)
class MixedTask:
    """Regression with a portion ``random_portion`` of random task vectors; the others are rows of ``fixed_tasks``.

    Raises ``ValueError`` for a portion outside [0, 1] and for ``fixed_tasks`` that are not (K, D) with K at least 1.
    """

    task: RegressionTask
    random_portion: float
    fixed_tasks: Float[np.ndarray, "K D"]

    def __post_init__(self) -> None:
        paper_task(self.task)
        portion = float(finite_array("random_portion", self.random_portion, ()))
        if not 0 <= portion <= 1:
            raise ValueError(f"random_portion must lie in [0, 1], got {self.random_portion!r}")
        fixed = finite_array("fixed_tasks", self.fixed_tasks, ("K", self.task.dimension))
        object.__setattr__(self, "random_portion", portion)
        object.__setattr__(self, "fixed_tasks", fixed)

    @cached_property
    def training_loss(self) -> QuadraticLoss:
        """The population loss of the mixture, on effective tensors (D+1, D+1, D)."""
        return _mix((self.random_portion, 1 - self.random_portion), (self.in_context_loss, self.in_weight_loss))

    @cached_property
    def in_context_loss(self) -> QuadraticLoss:
        """The test loss with random task vectors only: the unreduced loss of the paper's own task."""
        return _loss(self.task, "random", None)

    @cached_property
    def in_weight_loss(self) -> QuadraticLoss:
        """The test loss with fixed task vectors only, in the context and for the query."""
        return self._over_fixed("fixed")

    @cached_property
    def memory_loss(self) -> QuadraticLoss:
        """The test loss with a fixed task vector for the query and N(0, 1) noise for the context's labels.

        This is the in-weight test of the paper's official code: nothing in the context helps.
        """
        return self._over_fixed("noise")

    @property
    def losses(self) -> dict[str, QuadraticLoss]:
        """The four losses by name."""
        return dict(zip(KINDS, (self.training_loss, self.in_context_loss, self.in_weight_loss, self.memory_loss), strict=True))

    def _over_fixed(self, law: str) -> QuadraticLoss:
        K = len(self.fixed_tasks)
        return _mix((1 / K,) * K, tuple(_loss(self.task, law, vector) for vector in self.fixed_tasks))

    def sequences(self, count: int, rng: np.random.Generator, *, kind: Kind = "training") -> Iterator[Batch]:
        """``count`` sequences in batches (tokens, target), as ``SampleMoments.from_batches`` reads them.

        In "training" a share ``random_portion`` of all sequences, rounded, has random task vectors; the others draw theirs
        from the list with equal probability. The other kinds are those of the test losses.
        """
        return self._sequences(positive_integer("count", count), generator("rng", rng), one_of("kind", kind, KINDS))

    def _sequences(self, count: int, rng: np.random.Generator, kind: Kind) -> Iterator[Batch]:
        D = self.task.dimension
        portion = {"training": self.random_portion, "in context": 1.0}.get(kind, 0.0)
        drawn = 0
        for tokens, target in sequences(self.task, count, rng, batch_size=BATCH):
            first, drawn = round(portion * drawn), drawn + len(tokens)
            random = round(portion * drawn) - first  # the shares of all batches add up to that of the whole set
            vectors = self.fixed_tasks[rng.integers(len(self.fixed_tasks), size=len(tokens) - random)]
            labels = np.einsum("pnd,pd->pn", tokens[random:, :, :D], vectors)
            target[random:] = labels[:, -1]
            tokens[random:, :-1, D] = rng.standard_normal(labels[:, :-1].shape) if kind == "memory" else labels[:, :-1]
            yield tokens, target


def _mix(weights: tuple[float, ...], losses: tuple[QuadraticLoss, ...]) -> QuadraticLoss:
    """The average of losses of the same effective map."""
    parts = [(weight * loss.A, weight * loss.matrix, weight * loss.c) for weight, loss in zip(weights, losses, strict=True)]
    A, matrix, c = (np.sum(part, axis=0) for part in zip(*parts, strict=True))
    return QuadraticLoss(A=A, C=Dense(matrix), c=float(c))


def _loss(task: RegressionTask, law: str, vector: np.ndarray | None) -> QuadraticLoss:
    """The loss under one law of the task: each block of its moments from the theory's polynomial."""
    D, vectors = task.dimension, {} if vector is None else {w: vector, w_0: vector}
    values = {Lambda: task.covariance, N: task.context_length, **vectors}
    square, cross, second = _moments(law)
    places = {
        "tokens": [np.s_[:D, :D]],
        "cross": [np.s_[D, :D], np.s_[:D, D]],  # the Gram matrix is symmetric
        "label": [np.s_[D, D]],
    }
    A = np.empty((D + 1, D + 1, D))
    C = np.empty((D + 1, D + 1, D, D + 1, D + 1, D))
    for kind, (polynomial, slots) in cross.items():
        block = multilinear_tensor(polynomial, slots, values)
        for place in places[kind]:
            A[place] = block
    for (one, other), (polynomial, slots) in second.items():
        block = multilinear_tensor(polynomial, slots, values)
        for place in places[one]:
            for place_other in places[other]:
                C[(*place, slice(None), *place_other)] = block
    c = float(multilinear_tensor(square, (), values))
    return QuadraticLoss.from_moments(second=C.reshape(A.size, A.size), cross=A, square=c)


@cache
def _moments(law: str) -> tuple:
    """The theory's polynomials for one law of the task, for every covariance, dimension and context length."""
    return target_square(law), cross_moments(law), feature_moments(law)
