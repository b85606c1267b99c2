r"""Your own model in PyTorch: its prediction on sampled sequences, and on prompts, against the loss and the flow derived from it.

>>> import numpy as np, torch
>>> from iclflow.numerics.tasks import RegressionTask
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
from math import prod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..numerics.compile import compile_expression
from ..numerics.model_flow import ModelLoss, model_loss
from ..numerics.tasks import RegressionTask
from ..theory import Fixed, Gaussian, Mixture, TracePolynomial, words
from ..theory.coefficients import scalar_of
from ..theory.model import Model
from ..theory.notation import D, Lambda, Lambda_hat, N, beta, x_q

__all__ = ["ModelCheck", "ModelNetwork", "check_model", "draw", "evaluate"]

BATCHES = 64  # as many independent averages give the standard error of each entry of the gradient
# What a network can read off its prompt; the task vector and the target it cannot.
VISIBLE = (beta, Lambda_hat, x_q)

Values = dict[Any, Tensor]


def evaluate(polynomial: TracePolynomial, values: Mapping[Any, Tensor]) -> Tensor:
    """The polynomial with tensors for its symbols, matrices as (..., rows, columns): leading axes broadcast, gradients pass through."""

    def factor(code: int) -> Tensor:
        value = values[words.symbol_of(code)]
        value = value.mT if words.is_transposed(code) else value
        return torch.linalg.inv(value) if words.is_inverse(code) else value

    def multiply(word: tuple[int, ...]) -> Tensor:
        result = factor(word[0])
        for code in word[1:]:
            result = result @ factor(code)
        return result

    def trace(closed: tuple[int, ...]) -> Tensor:
        cut = words.cut_position(closed) or 0  # start at a row vector, if there is one: the products stay small
        return multiply(closed[cut:] + closed[:cut]).diagonal(dim1=-2, dim2=-1).sum(-1)

    def scalar(generator: int) -> Any:
        expression = scalar_of(generator)
        symbols = sorted(expression.free_symbols, key=str)
        return compile_expression(expression, symbols)(*(values[symbol] for symbol in symbols))

    total: Any = torch.zeros((), dtype=torch.float64)
    traces: dict[tuple[int, ...], Tensor] = {}
    for coefficient, closed_words, word in polynomial.groups():
        term = sum(float(number) * prod(scalar(g) ** e for g, e in powers) for powers, number in coefficient.items())
        for closed in closed_words:
            if closed not in traces:
                traces[closed] = trace(closed)
            term = term * traces[closed]
        if word is not None:
            size = polynomial.shape[0]
            open_word = multiply(word) if word else torch.eye(int(values.get(size, size)), dtype=torch.float64)
            term = term[..., None, None] * open_word if isinstance(term, Tensor) else term * open_word
        total = total + term
    return total


def _fixed_values(loss: ModelLoss) -> Values:
    values = {symbol: torch.tensor(array, dtype=torch.float64) for symbol, array in loss.constants.items()}
    sizes = {N: loss.task.context_length, D: loss.task.dimension}
    return {
        **values,
        Lambda: torch.tensor(loss.task.covariance),
        **{size: torch.tensor(float(number), dtype=torch.float64) for size, number in sizes.items()},
    }


def draw(model: Model, fixed: Mapping[Any, Tensor], count: int, generator: torch.Generator) -> Values:
    """``count`` sequences: a value for each random symbol that the error of the model depends on, drawn from the laws."""
    values = dict(fixed)

    def white(*shape: int) -> Tensor:
        return torch.randn((count, *shape), generator=generator, dtype=torch.float64)

    def coloured(noise: Tensor, covariance: Tensor) -> Tensor:
        eigenvalues, E = torch.linalg.eigh(covariance)  # it may be singular, so no Cholesky factor
        return (E * eigenvalues.clamp(min=0).sqrt()[..., None, :]) @ noise

    def sample(law: Any) -> Tensor:
        for parent in sorted(law.parents & model.random.keys(), key=str):
            know(parent)
        if isinstance(law, Fixed):
            value = evaluate(law.value, values)
            return value if law.value.shape else value[..., None, None]
        if isinstance(law, Mixture):
            shares = torch.stack([evaluate(share, values) for share, _ in law.parts])
            chosen = torch.multinomial(shares, count, replacement=True, generator=generator)
            drawn = torch.stack(torch.broadcast_tensors(*(sample(part) for _, part in law.parts), white(1, 1))[:-1])
            return drawn[chosen, torch.arange(count)]
        if isinstance(law, Gaussian):
            covariance = evaluate(law.covariance, values)
            noise = coloured(white(covariance.shape[-1], 1), covariance)
            return evaluate(law.mean, values) + noise
        if law.fourth_moment is not None:
            raise ValueError(f"laws must be Gaussian to be sampled, got a fourth moment of its own for {law.symbol}")
        covariance, samples = evaluate(law.covariance, values), int(evaluate(law.samples, values))
        tokens = coloured(white(covariance.shape[-1], samples), covariance)
        return tokens @ tokens.mT / samples

    def know(symbol: Any) -> None:
        if symbol not in values:
            values[symbol] = sample(model.random[symbol])

    used = model.prediction.free_symbols | model.target.free_symbols
    for symbol in sorted(used & model.random.keys(), key=str):
        know(symbol)
    return values


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
    """Compare ``model.loss()`` and ``model.flow()`` at ``weights`` with ``count`` sampled sequences and with autograd.

    Raises ``ValueError`` or ``TypeError`` for bad arguments, as ``integrate`` does.
    """
    if count < 2 * BATCHES:
        raise ValueError(f"count must be at least {2 * BATCHES}, got {count!r}")
    loss, flat = model_loss(model, task, weights=weights, constants=constants)
    parameters = {
        weight: torch.tensor(part, dtype=torch.float64, requires_grad=True)
        for weight, part in zip(model.weights, loss.split(flat), strict=True)
    }
    exact = dict(zip(model.weights, map(torch.tensor, loss.split(loss.velocity(flat))), strict=True))
    fixed = _fixed_values(loss)

    by_autograd = _velocity(evaluate(model.loss(), {**fixed, **parameters}), parameters)
    largest = max(float(value.abs().max()) for value in exact.values()) or 1.0
    residual = max(float((by_autograd[weight] - exact[weight]).abs().max()) for weight in exact) / largest

    losses, velocities = [], {weight: [] for weight in exact}
    for _ in range(BATCHES):
        values = {**draw(model, {**fixed, **parameters}, count // BATCHES, generator), **parameters}
        mean = evaluate(model.target - model.prediction, values).square().mean()
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

    Its parameters are called as the weights' symbols are. Raises ``ValueError`` for a prediction that needs more than X shows.
    """

    def __init__(
        self,
        model: Model,
        task: RegressionTask,
        weights: Mapping[Any, object],
        constants: Mapping[Any, object] | None = None,
    ):
        super().__init__()
        loss, flat = model_loss(model, task, weights=weights, constants=constants)
        hidden = (model.prediction.free_symbols & model.random.keys()) - set(VISIBLE)
        if hidden:
            raise ValueError(
                f"model must predict from beta, Lambda_hat and x_q, which a prompt shows, got {min(hidden, key=str)} in its prediction"
            )
        self._model, self._fixed = model, _fixed_values(loss)
        for weight, part in zip(model.weights, loss.split(flat), strict=True):
            self.register_parameter(str(weight), nn.Parameter(torch.tensor(part, dtype=torch.float64)))

    def forward(self, X: Float[Tensor, "P D+1 N+1"]) -> Float[Tensor, " P"]:
        x, y, query = X[:, :-1, :-1], X[:, -1:, :-1], X[:, :-1, -1:]
        length = x.shape[-1]
        values = {**self._fixed, beta: x @ y.mT / length, Lambda_hat: x @ x.mT / length, x_q: query}
        values |= {weight: getattr(self, str(weight)) for weight in self._model.weights}
        return evaluate(self._model.prediction, values)
