r"""Your own model in PyTorch: its prediction on sampled sequences and prompts, against the loss and flow derived from it.

>>> import numpy as np, torch
>>> from iclflow.numerics.tasks.regression import RegressionTask
>>> from iclflow.theory.model import Model
>>> from iclflow.theory.notation import D, Lambda_hat, beta, matrix, x_q
>>> U = matrix("U", D)
>>> two_steps = Model(prediction=beta.T * (2 * U - U * Lambda_hat * U) * x_q, weights=(U,))
>>> task = RegressionTask(eigenvalues=[0.5, 0.25], context_length=8)
>>> check = check_model(two_steps, task, weights={U: np.ones((2, 2))}, count=20_000, generator=torch.Generator().manual_seed(1))
>>> check.loss_score < 4.5, check.velocity_score < 4.5, check.autograd_residual < 1e-12
(True, True, True)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ...numerics._checks import instance
from ...numerics.own_model.loss import constant_values, model_loss, weight_arrays
from ...numerics.tasks.regression import RegressionTask
from ...theory.model import Model
from ...theory.notation import D, Lambda, Lambda_hat, N, beta, x_q
from ..training.sequences import GENERATOR
from .sampling import Values, as_tensors, draw, evaluate

BATCHES = 64  # independent averages, for the standard error of each entry of the gradient
# What a network can read off its prompt, unlike the task vector and the target.
VISIBLE = (beta, Lambda_hat, x_q)


@dataclass(frozen=True)
class ModelCheck:
    """The derived loss and flow of a model at one point, against sampled sequences and against PyTorch's derivatives.

    ``loss_score`` and ``velocity_score`` are differences from the sampled mean in standard errors (the largest over all weights);
    ``autograd_residual`` is the largest relative difference of the derived velocity from -1/2 of the gradient of the exact loss.
    """

    loss_exact: float
    loss_sampled: float
    loss_score: float
    velocity_exact: Mapping[Any, Tensor]
    velocity_sampled: Mapping[Any, Tensor]
    velocity_score: float
    autograd_residual: float


def check_model(
    model: Model,
    task: RegressionTask,
    *,
    weights: Mapping[Any, object],
    count: int,
    generator: torch.Generator,
    constants: Mapping[Any, object] | None = None,
) -> ModelCheck:
    """Compare the loss and the flow of ``model`` on ``task`` at ``weights`` with ``count`` sampled sequences and with autograd.

    Raises ``ValueError`` or ``TypeError`` for bad arguments, as ``integrate`` does.
    """
    if isinstance(count, bool) or not isinstance(count, Integral) or count < 2 * BATCHES:
        raise ValueError(f"count must be an integer of at least {2 * BATCHES}, got {count!r}")
    instance("generator", generator, torch.Generator, GENERATOR)
    loss, flat = model_loss(model, task, weights=weights, constants=constants)
    parameters = {
        weight: torch.tensor(part, dtype=torch.float64, requires_grad=True)
        for weight, part in zip(model.weights, loss.split(flat), strict=True)
    }
    exact = dict(zip(model.weights, map(torch.tensor, loss.split(loss.velocity(flat))), strict=True))
    by_autograd = _velocity(evaluate(loss.polynomial, as_tensors(loss.fixed, task) | parameters), parameters)
    largest = max(float(value.abs().max()) for value in exact.values()) or 1.0
    residual = max(float((by_autograd[weight] - exact[weight]).abs().max()) for weight in exact) / largest

    losses, velocities = [], {weight: [] for weight in exact}
    for _ in range(BATCHES):
        values = draw(loss, parameters, count // BATCHES, generator)
        mean = evaluate(loss.stated.target - loss.stated.prediction, values).square().mean()
        losses.append(mean.detach())
        for weight, value in _velocity(mean, parameters).items():
            velocities[weight].append(value)
    sampled = {weight: torch.stack(values) for weight, values in velocities.items()}
    return ModelCheck(
        loss_exact=loss.value(flat),
        loss_sampled=float(torch.stack(losses).mean()),
        loss_score=_score(torch.stack(losses), torch.tensor(loss.value(flat))),
        velocity_exact=exact,
        velocity_sampled={weight: values.mean(0) for weight, values in sampled.items()},
        velocity_score=max(_score(sampled[weight], exact[weight]) for weight in exact),
        autograd_residual=residual,
    )


def _velocity(value: Tensor, parameters: Values) -> Values:
    gradients = torch.autograd.grad(value, list(parameters.values()))
    velocities = dict(zip(parameters, (-gradient / 2 for gradient in gradients), strict=True))
    symmetric = [weight for weight in velocities if getattr(weight, "is_symmetric_letter", False)]
    return velocities | {weight: (velocities[weight] + velocities[weight].mT) / 2 for weight in symmetric}


def _score(batches: Tensor, exact: Tensor) -> float:
    """The largest difference of the mean over batches from the exact value, in standard errors."""
    errors = batches.std(0) / len(batches) ** 0.5
    difference = (batches.mean(0) - exact).abs()
    return float(torch.where(difference > 0, difference / errors, difference).max())


class ModelNetwork(nn.Module):
    """The model as a network that reads the prompt matrix X of equation (1), ready for ``verify.training.train``.

    Its parameters have the names of the weights' symbols. It reads prompts of any task and token law. Raises ``ValueError`` for a
    prediction that needs more than X shows.
    """

    def __init__(self, model: Model, task: RegressionTask, weights: Mapping[Any, object], constants: Mapping[Any, object] | None = None):
        super().__init__()
        arrays = weight_arrays(model, task, weights)
        sizes = {D: task.dimension, N: task.context_length}
        known = {Lambda: task.covariance, **constant_values(model, {} if constants is None else constants, sizes)}
        hidden = (model.prediction.free_symbols & model.random.keys()) - set(VISIBLE)
        if hidden:
            raise ValueError(
                f"model must predict from beta, Lambda_hat and x_q, which a prompt shows, got {min(hidden, key=str)} in its prediction"
            )
        self._model, self._fixed, self._any_length = model, as_tensors(known, task), len(task.context_lengths) > 1
        for weight, array in arrays.items():
            self.register_parameter(str(weight), nn.Parameter(torch.tensor(array, dtype=torch.float64)))

    def forward(self, X: Float[Tensor, "P D+1 N+1"]) -> Float[Tensor, " P"]:
        x, y, query = X[:, :-1, :-1], X[:, -1:, :-1], X[:, :-1, -1:]
        length = x.shape[-1]
        values = {**self._fixed, beta: x @ y.mT / length, Lambda_hat: x @ x.mT / length, x_q: query}
        if self._any_length:  # shorter contexts are padded with zeros
            values[N] = (x != 0).any(1).sum(-1).to(x)
        values |= {weight: getattr(self, str(weight)) for weight in self._model.weights}
        return evaluate(self._model.prediction, values)
