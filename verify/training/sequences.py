r"""Sequences of the in-context regression task, drawn afresh from an explicit generator.

.. math::
    X = \begin{bmatrix} x_1 & \cdots & x_N & x_q \\ y_1 & \cdots & y_N & 0 \end{bmatrix}, \qquad
    x \sim \mathcal N(0, \Lambda), \quad w \sim \mathcal N(0, I), \quad y = w^\top x

Equations (1) to (4). The zero marks the place of ``y_q``, which the network predicts. Variations of the task are drawn too. A context
of n < N tokens is padded with zeros, and its tokens and labels are multiplied by (g_n N/n)^(1/2): attention's average over N, bilinear
in tokens and labels, then becomes the average over n times the gain g_n of the task's normalisation.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Self

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from ...numerics._checks import instance, positive_integer, symmetric_root
from ...numerics.tasks.regression import RegressionTask, any_task
from ...numerics.tasks.sample_moments import context_weights
from ...numerics.tasks.token_laws import GaussianTokens, TokenLaw

GENERATOR = "a torch.Generator, such as torch.Generator().manual_seed(0)"
Batch = tuple[Tensor, Tensor]  # prompt matrices and targets


@dataclass(frozen=True)
class Tokens:
    """The square root of Lambda, ready to colour white noise on one device.

    ``root`` is symmetric, so that the tokens do not depend on the order in which the eigenvalues are listed.
    """

    root: Float[Tensor, "D D"]
    context_length: int
    query_root: Float[Tensor, "D D"] | None = None  # if the query has its own covariance
    law: TokenLaw = field(default_factory=GaussianTokens)
    spread: Float[Tensor, "D 1"] | None = None  # the diagonal, if the root has nothing beside it

    @classmethod
    @lru_cache(maxsize=8)  # every mini-batch needs them
    def of(cls, task: RegressionTask, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float64) -> Self:
        """The tokens of a task, on a device and in a precision."""
        E, spread = torch.tensor(task.eigenvectors), torch.tensor(task.eigenvalues).sqrt()
        gaussian = isinstance(task.token_law, GaussianTokens)
        root = E * spread @ E.T if gaussian else spread[:, None] * E.T  # other laws may be laws of the components along E
        root = root.to(device=device, dtype=dtype)
        query = torch.tensor(symmetric_root(task.query_covariance)).to(root) if "query_covariance" in task.variations else None
        alone = query is None and torch.equal(root, root.diagonal().diag())
        return cls(root, int(task.context_length), query, task.token_law, root.diagonal()[:, None] if alone else None)

    def draw(self, count: int, generator: torch.Generator, out: Tensor | None = None) -> Float[Tensor, "P D N+1"]:
        """Context and query tokens of ``count`` sequences, equation (2), in ``out`` if given.

        The white noise is drawn in single precision, which is six times faster. Only the random numbers lose digits:
        everything computed from the tokens has full precision.
        """
        shape = (count, self.context_length + 1, self.root.shape[0])

        def normal(size: tuple[int, ...]) -> Tensor:
            return torch.randn(size, generator=generator, device=self.root.device)

        white = self.law.white(normal, shape)
        if self.spread is not None:
            return torch.mul(white.mT, self.spread, out=out)
        white = white.to(self.root.dtype)
        x = white @ self.root
        if self.query_root is not None:
            x[:, -1] = white[:, -1] @ self.query_root
        return x.mT if out is None else out.copy_(x.mT)


def assemble(x: Float[Tensor, "P D N+1"], w: Float[Tensor, "P D"]) -> tuple[Float[Tensor, "P D+1 N+1"], Float[Tensor, " P"]]:
    """The prompt matrices (1) and the targets ``y_q`` of tokens ``x`` and task vectors ``w``, equation (4)."""
    X = torch.cat([x, torch.empty_like(x[:, :1])], dim=1)
    return X, label(X, w)


def label(X: Float[Tensor, "P D+1 N+1"], w: Float[Tensor, "P D"], noise: Float[Tensor, "P N+1"] | None = None) -> Float[Tensor, " P"]:
    """The targets ``y_q`` of the tokens in ``X``, whose last row becomes their labels, with noise if given, and a zero."""
    y = (X[:, :-1] * w[..., None]).sum(dim=1)
    y = y if noise is None else y + noise
    X[:, -1] = y
    X[:, -1, -1] = 0
    return y[:, -1]


def draw_sequences(
    task: RegressionTask,
    count: int,
    generator: torch.Generator,
    *,
    dtype: torch.dtype = torch.float64,
    fixed_tasks: Float[Tensor, "K D"] | None = None,
    fixed_fraction: float = 0.0,
) -> tuple[Float[Tensor, "P D+1 N+1"], Float[Tensor, " P"]]:
    """Draw ``count`` sequences: the prompt matrices X of equation (1) and the targets ``y_q``.

    With ``fixed_tasks``, that ``fixed_fraction`` of the sequences takes its task vector from the list instead of
    from N(0, I), so that the network can also learn in its weights (appendix F of the paper).

    Raises ``ValueError`` for a count below one, a fraction outside [0, 1], or a fraction without a list.
    """
    any_task(task), instance("generator", generator, torch.Generator, GENERATOR)
    count = positive_integer("count", count)
    if not 0 <= fixed_fraction <= 1:
        raise ValueError(f"fixed_fraction must lie in [0, 1], got {fixed_fraction!r}")
    if fixed_fraction > 0 and fixed_tasks is None:
        raise ValueError(f"fixed_tasks must be given when fixed_fraction is {fixed_fraction!r}, got None")
    tokens = Tokens.of(task, generator.device, dtype)
    X = tokens.root.new_empty((count, task.dimension + 1, tokens.context_length + 1))
    x = tokens.draw(count, generator, out=X[:, :-1])
    if task.task_vectors is not None:
        chosen = torch.randint(len(task.task_vectors), (count,), generator=generator, device=x.device)
        w = torch.tensor(task.task_vectors, dtype=dtype, device=x.device)[chosen]
    else:
        w = torch.randn((count, x.shape[1]), generator=generator, device=x.device, dtype=dtype)
        w = w @ torch.tensor(symmetric_root(task.task_covariance)).to(w) if "task_covariance" in task.variations else w
    fixed = round(count * fixed_fraction)
    if fixed_tasks is not None and fixed:
        chosen = torch.randint(len(fixed_tasks), (fixed,), generator=generator, device=x.device)
        w[:fixed] = fixed_tasks.to(device=x.device, dtype=dtype)[chosen]
    noise = None
    if task.noise_variance:
        noise = task.noise_variance**0.5 * torch.randn(x[:, 0].shape, generator=generator, device=x.device, dtype=dtype)
    y = label(X, w, noise)
    if task.variations & {"context_lengths", "context_gain"}:
        X[:, :, :-1] *= _context_weights(task, count, generator).to(X)[:, None, :]
    return X, y


def _context_weights(task: RegressionTask, count: int, generator: torch.Generator) -> Float[Tensor, "P N"]:
    """The factors of :func:`~iclflow.numerics.tasks.sample_moments.context_weights` for lengths drawn from the task's law."""
    probabilities = torch.tensor(list(task.context_lengths.values()), device=generator.device)
    chosen = torch.multinomial(probabilities, count, replacement=True, generator=generator)
    lengths = np.array(list(task.context_lengths))[chosen.cpu().numpy()]
    return torch.tensor(context_weights(lengths, task.context_length, task.context_gains))
