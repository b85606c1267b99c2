r"""Sample moments of a training set: full-batch training depends on nothing else.

One sequence is a matrix of tokens, rows :math:`\tilde x_m = (x_m, y_m)` and last the query :math:`(x_q, 0)`, equation
(1). At the query position linear attention is linear in the feature :math:`\phi = \mathcal G \otimes x_q`, with the
Gram matrix :math:`\mathcal G = \sum_m \tilde x_m \tilde x_m^\top` of the sequence, equation (7):

.. math:: \hat y_q = \sum_{abc} B_{abc} \mathcal G_{ab} x_{q,c}, \qquad
          B_{abc} = \sum_i \nu_{i,a} W_{i,bc}, \quad \nu_i = (\mathbf v_i, v_i), \ W_i = (U_i; u_i^\top).

So the mean squared error is :math:`E y^2 - 2\langle E y\phi, B\rangle + \langle B, E\phi\phi^\top B\rangle`. The Gram
matrix is symmetric: :math:`(D+1)(D+2)/2 \cdot D` features are enough, and the entries :math:`\mathcal G_{dn}x_{q,c}`
with :math:`n = D+1` are the reduced feature :math:`z = \beta x_q^\top` of (M), (S) and (11).

With ``context="mean"`` the Gram matrix is divided by N as in the paper (29), with ``"sum"`` it is not, as in the
paper's official code.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from .._checks import finite_array, generator, instance, one_of, positive_integer, positive_number, symmetric_root
from .losses import QuadraticLoss
from .regression import RegressionTask, any_task

Context = Literal["mean", "sum"]
Batch = tuple[np.ndarray, np.ndarray]

BATCH = 4096  # sequences in a batch: at D = 8 its features take 12 MB


@dataclass(frozen=True, eq=False)
class SampleMoments:
    r"""Moments of F distinct features and the target over ``count`` sequences.

    ``index`` has the shape of the effective map B and holds the number of the feature that multiplies each of its entries:
    B_abc and B_bac multiply the same feature and share it.
    """

    quadratic: Float[np.ndarray, "F F"]  # E(phi phi')
    linear: Float[np.ndarray, " F"]  # E(y phi)
    constant: float  # E(y^2)
    count: int
    index: Int[np.ndarray, "*shape"]

    @classmethod
    def from_batches(cls, batches: Iterable[Batch], *, context: Context) -> "SampleMoments":
        """Moments of all sequences of ``batches``, which are read once and not kept.

        A batch is ``(tokens, target)``, of shapes (P, N+1, D+1) and (P,). Sums are accumulated in float64.

        Raises ``ValueError`` without any sequence, for a batch that is not finite or differs in shape from the first, for a
        query token whose label is not 0, and for an unknown ``context``.
        """
        one_of("context", context, ("mean", "sum"))
        shape: tuple[int, ...] | None = None
        count, constant, linear, quadratic = 0, 0.0, np.zeros(0), np.zeros((0, 0))
        for batch in instance("batches", batches, Iterable, "pairs (tokens, target)"):
            tokens, target = _checked(batch, shape)
            if shape is None:
                shape = tokens.shape[1:]
                F = shape[1] * (shape[1] + 1) // 2 * (shape[1] - 1)
                linear, quadratic = np.zeros(F), np.zeros((F, F))
            for start in range(0, len(target), BATCH):
                phi = _features(tokens[start : start + BATCH], context)
                y = target[start : start + BATCH]
                quadratic += phi.T @ phi
                linear += y @ phi
                constant += float(y @ y)
                count += len(y)
        if shape is None or count == 0:
            raise ValueError("batches must hold at least one sequence, got none")
        return cls(quadratic / count, linear / count, constant / count, count, gram_index(shape[1] - 1))

    @classmethod
    def from_arrays(cls, tokens: np.ndarray, target: np.ndarray, *, context: Context) -> "SampleMoments":
        """Moments of the sequences ``tokens`` (P, N+1, D+1) with targets (P,); see ``from_batches``."""
        return cls.from_batches([(tokens, target)], context=context)

    @classmethod
    def sampled(cls, task: RegressionTask, count: int, rng: np.random.Generator, *, context: Context = "mean") -> "SampleMoments":
        """Moments of ``count`` sequences drawn from ``task`` in batches."""
        return cls.from_batches(sequences(task, count, rng), context=context)

    def union(self, other: "SampleMoments") -> "SampleMoments":
        """Moments of both samples taken together."""
        if not np.array_equal(self.index, instance("other", other, SampleMoments, "SampleMoments").index):
            raise ValueError(f"other must have features of shape {self.index.shape}, got {other.index.shape}")
        n = self.count + other.count
        a, b = self.count / n, other.count / n
        quadratic, linear, constant = (a * getattr(self, name) + b * getattr(other, name) for name in ("quadratic", "linear", "constant"))
        return SampleMoments(quadratic, linear, constant, n, self.index)

    def reduced(self) -> "SampleMoments":
        r"""Moments of the reduced feature :math:`z = \beta x_q^\top` (D, D) alone: the loss with the zero blocks held at zero."""
        if self.index.ndim != 3:
            raise ValueError(f"moments must be of the unreduced feature, got features of shape {self.index.shape}")
        keep = self.index[:-1, -1]
        rows = keep.ravel()
        index = np.arange(rows.size).reshape(keep.shape)
        return SampleMoments(self.quadratic[np.ix_(rows, rows)], self.linear[rows], self.constant, self.count, index)

    def fold(self, B: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, " F"]:
        """The weight of each feature: the sum of the entries of B that multiply it."""
        return np.bincount(self.index.ravel(), weights=finite_array("B", B, self.index.shape).ravel(), minlength=len(self.linear))

    def value(self, B: Float[np.ndarray, "*shape"]) -> float:
        r"""The mean squared error of :math:`\hat y = \langle B, \phi\rangle` on the sample."""
        b = self.fold(B)
        return float(self.constant - 2 * (self.linear @ b) + b @ self.quadratic @ b)

    def loss(self) -> QuadraticLoss:
        """This loss as a ``QuadraticLoss`` of the whole effective map."""
        entries = self.index.ravel()
        return QuadraticLoss.from_moments(
            second=self.quadratic[np.ix_(entries, entries)], cross=self.linear[self.index], square=self.constant
        )

    def resized(self, population: QuadraticLoss, count: float) -> QuadraticLoss:
        """The loss on a set of ``count`` sequences: the population's plus (self.count/count)^(1/2) times this sample's deviation from it.

        Deviations of large sets are Gaussian, of covariance 1/count; so one sample makes sets of every larger size, at no cost. For all
        blocks the population is ``MixedTask(task, 1.0, ...).in_context_loss``.
        """
        count, found = positive_number("count", count), self.loss()
        if count < self.count:
            raise ValueError(f"count must be at least that of the sample, {self.count}, got {count:g}")
        if instance("population", population, QuadraticLoss).A.shape != found.A.shape:
            raise ValueError(f"population must be of maps of shape {found.A.shape}, got {population.A.shape}")
        part = np.sqrt(self.count / count)
        return QuadraticLoss.from_moments(
            second=(1 - part) * population.matrix + part * found.matrix,
            cross=(1 - part) * population.A + part * found.A,
            square=(1 - part) * population.c + part * found.c,
        )


def gram_index(D: int) -> Int[np.ndarray, "m m D"]:
    """The number of the feature Gram_ab x_c, the same for ab and ba; features run over a <= b, then c."""
    upper = np.triu_indices(D + 1)
    pair = np.empty((D + 1, D + 1), dtype=np.intp)
    pair[upper] = pair.T[upper] = np.arange(len(upper[0]))
    return pair[:, :, None] * D + np.arange(D)


def sequences(
    task: RegressionTask, count: int, rng: np.random.Generator, *, batch_size: int = BATCH
) -> Iterator[tuple[Float[np.ndarray, "P L m"], Float[np.ndarray, " P"]]]:
    """``count`` sequences of ``task`` in batches ``(tokens, target)``, equations (1)-(4), each with its own task."""
    any_task(task)
    count, batch_size = positive_integer("count", count), positive_integer("batch_size", batch_size)
    return _sequences(task, count, generator("rng", rng), batch_size)


def _sequences(task: RegressionTask, count: int, rng: np.random.Generator, batch_size: int) -> Iterator[Batch]:
    D, N = task.dimension, task.context_length
    root = (task.eigenvectors * np.sqrt(task.eigenvalues)).T
    query_root, task_root = symmetric_root(task.query_covariance), symmetric_root(task.task_covariance)
    for start in range(0, count, batch_size):
        P = min(batch_size, count - start)
        tokens = np.empty((P, N + 1, D + 1))
        if task.task_vectors is not None:
            w = rng.choice(task.task_vectors, P)[:, :, None]
        else:
            w = rng.standard_normal((P, D, 1))
            w = task_root @ w if "task_covariance" in task.variations else w
        white = task.token_law.white(rng.standard_normal, (P, N + 1, D))
        tokens[:, :, :D] = white @ root
        if "query_covariance" in task.variations:
            tokens[:, -1, :D] = white[:, -1] @ query_root
        tokens[:, :, D:] = tokens[:, :, :D] @ w
        if task.noise_variance:
            tokens[:, :, D] += np.sqrt(task.noise_variance) * rng.standard_normal((P, N + 1))
        target = tokens[:, -1, D].copy()
        tokens[:, -1, D] = 0.0
        if task.variations & {"context_lengths", "context_gain"}:
            lengths, probabilities = zip(*task.context_lengths.items(), strict=True)
            drawn = rng.choice(lengths, size=P, p=probabilities)
            tokens[:, :-1] *= context_weights(drawn, N, task.context_gains)[:, :, None]
        yield tokens, target


def context_weights(lengths: Int[np.ndarray, " P"], N: int, gains: Mapping[int, float] | None = None) -> Float[np.ndarray, "P N"]:
    """Factors on the tokens and labels of a context of length N that shorten it to n: (g_n N/n)^(1/2) for the first n, 0 for the rest.

    An average over N of products of a token and a label is then the average over n times the gain g_n (1 without ``gains``).
    """
    gain = np.array([1.0 if gains is None else gains[int(n)] for n in lengths])
    return np.where(np.arange(N) < lengths[:, None], np.sqrt(gain * N / lengths)[:, None], 0.0)


def _features(tokens: Float[np.ndarray, "P L m"], context: Context) -> Float[np.ndarray, "P F"]:
    """The distinct entries of Gram (x) x_q, in the order of ``gram_index``."""
    P, length, width = tokens.shape
    gram = tokens.transpose(0, 2, 1) @ tokens
    if context == "mean":
        gram /= length - 1
    a, b = np.triu_indices(width)
    return (gram[:, a, b, None] * tokens[:, -1, None, :-1]).reshape(P, -1)


def _checked(batch: Batch, shape: tuple[int, ...] | None) -> Batch:
    if not isinstance(batch, Sequence) or len(batch) != 2:
        raise ValueError(f"batches must hold pairs (tokens, target), got {batch!r}")
    tokens = finite_array("tokens", batch[0], ("P", *(shape or ("N+1", "D+1"))))
    target = finite_array("target", batch[1], tokens.shape[:1])
    if min(tokens.shape[1:]) < 2:
        raise ValueError(f"tokens must have shape (P, N+1, D+1) with N, D >= 1, got {tokens.shape}")
    if tokens[:, -1, -1].any():
        raise ValueError(f"tokens must have label 0 in the last row, the query, got {tokens[:, -1, -1]!r}")
    return tokens, target
