r"""The loss of a ``Model`` on a task, and its flow, compiled from the model's expression.

A varied task changes the laws of the model (see :mod:`~iclflow.theory.results.own_model.on_task`) and sets their parameters.
For random context lengths, functions of N in the coefficients are averaged.

>>> import numpy as np
>>> from iclflow.numerics.tasks.regression import RegressionTask
>>> from iclflow.theory.model import Model
>>> from iclflow.theory.notation import D, Lambda_hat, beta, matrix, x_q
>>> U = matrix("U", D)
>>> two_steps = Model(prediction=beta.T * (2 * U - U * Lambda_hat * U) * x_q, weights=(U,))
>>> task = RegressionTask(eigenvalues=[0.5, 0.25], context_lengths=[4, 8], noise_variance=0.1)
>>> loss, point = model_loss(two_steps, task, weights={U: np.eye(2)})
>>> round(loss.value(point), 4)
0.3292
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Float

from ...theory.algebra.polynomial import TracePolynomial
from ...theory.calculus.substitution import collect, substitute
from ...theory.model import Model
from ...theory.notation import D, Lambda, Lambda_q, N, sigma
from ...theory.results.own_model.on_task import cumulant, mean_over_lengths, on_task
from ...theory.results.task.population import Sigma_w, g_n
from ...theory.results.variations.token_laws import kappa
from .._checks import finite_array, instance
from ..compilation.expressions import compile_expression
from ..parametrizations.base import views
from ..tasks.regression import RegressionTask, any_task
from ..tasks.token_laws import EllipticalTokens, cumulants


@dataclass(frozen=True, eq=False)
class ModelLoss:
    """The population loss of a model on one task, as functions of flat weights.

    ``shapes`` holds the shape of each weight, () for a scalar; ``constants`` the value of each symbol of ``model.constants``.
    Raises ``ValueError`` for a shape or a constant that does not fit, for a variation of the task that this model cannot take, and
    if the loss does not exist (some losses need N > D + 1).
    """

    model: Model
    task: RegressionTask
    shapes: Mapping[Any, tuple[int, ...]]
    constants: Mapping[Any, Any]

    def __post_init__(self) -> None:
        require_model(self.model, self.task)
        sizes = {D: self.task.dimension, N: self.task.context_length}
        object.__setattr__(self, "constants", MappingProxyType(constant_values(self.model, self.constants, sizes)))
        for symbol, value in self._parameters.items():
            if symbol in self.constants and not np.allclose(self.constants[symbol], value, rtol=1e-12, atol=0):
                raise ValueError(
                    f"constants must give {symbol} the value that it has on the task, {value!r}, got {self.constants[symbol]!r}: "
                    "or give the constant another name"
                )
        for condition in self.stated.conditions:
            for length in self.task.context_lengths:
                if not condition.subs(sizes | {N: length}):
                    raise ValueError(f"task must satisfy {condition} for the loss of this model to exist, got {sizes | {N: length}}")
        _ = self.fixed  # raises if the mean over lengths cannot be taken
        if self.task.task_vectors is not None and max(collect(substitute(self.stated.loss(), {Sigma_w: g_n * Sigma_w}), g_n)) > 1:
            raise ValueError("task must not have task_vectors for a loss with fourth moments of w")

    @cached_property
    def _cumulants(self) -> list | None:
        """The terms of the tokens' fourth moment beyond the Gaussian one; None for elliptical tokens, for which kappa suffices."""
        task = self.task
        if isinstance(task.token_law, EllipticalTokens):
            return None
        return cumulants(task.token_law, task.eigenvectors * np.sqrt(task.eigenvalues))

    @cached_property
    def stated(self) -> Model:
        """The model under the laws of the task, whose parameters are among its constants."""
        terms = None if self._cumulants is None else len(self._cumulants)
        return on_task(self.model, self.task.variations, terms)

    @cached_property
    def _parameters(self) -> Mapping[Any, Any]:
        """The values of the task's parameters."""
        task, values = self.task, {}
        if "noise_variance" in task.variations:
            values[sigma] = np.sqrt(task.noise_variance)
        if "task_covariance" in task.variations:
            values[Sigma_w] = task.task_covariance
        if "query_covariance" in task.variations:
            values[Lambda_q] = task.query_covariance
        if "token_law" in task.variations and isinstance(task.token_law, EllipticalTokens):
            values[kappa] = task.token_law.kappa(task.dimension)
        for m, pair in enumerate(self._cumulants or ()):
            values |= dict(zip(cumulant(m), pair, strict=True))
        return values

    @cached_property
    def _averaged(self) -> tuple[tuple[TracePolynomial, ...], dict[Any, Any]]:
        polynomials = (self.stated.loss(), *(self.stated.flow()[weight] for weight in self.model.weights))
        random = self.task.variations & {"context_lengths", "context_gain"}
        return mean_over_lengths(polynomials) if random else (polynomials, {})

    @property
    def polynomial(self) -> TracePolynomial:
        """The loss (9) on this task: exact in the weights and in the symbols of ``fixed``."""
        return self._averaged[0][0]

    @cached_property
    def fixed(self) -> Mapping[Any, Any]:
        """The value of every symbol of ``polynomial`` that is not a weight."""
        lengths, gains, means = self.task.context_lengths, self.task.context_gains, {}
        for letter, function in self._averaged[1].items():
            of_length = compile_expression(function, (N, D, g_n))
            means[letter] = sum(p * of_length(float(n), float(self.task.dimension), gains[n]) for n, p in lengths.items())
        known = {Lambda: self.task.covariance, N: self.task.context_length}
        return MappingProxyType({**known, **self.constants, **self._parameters, **means})

    @property
    def _arguments(self) -> tuple:
        return *self.model.weights, *self.fixed

    @cached_property
    def _value(self) -> Callable[..., Any]:
        return compile_expression(self.polynomial, self._arguments)

    @cached_property
    def _velocity(self) -> Callable[..., tuple]:
        return compile_expression(self._averaged[0][1:], self._arguments)

    def split(self, vector: Float[np.ndarray, "*batch P"]) -> tuple[np.ndarray, ...]:
        """Views of the arrays inside flat weights, in the order of ``model.weights``; leading axes are kept."""
        return views(vector, [self.shapes[weight] for weight in self.model.weights])

    def value(self, vector: Float[np.ndarray, " P"]) -> float:
        """The loss (9)."""
        return float(self._value(*self.split(vector), *self.fixed.values()))

    def velocity(self, vector: Float[np.ndarray, " P"]) -> Float[np.ndarray, " P"]:
        """tau dW/dt = -1/2 dL/dW, equation (10)."""
        parts = self._velocity(*self.split(vector), *self.fixed.values())
        return np.concatenate([np.ravel(part) for part in parts])


def model_loss(
    model: Model,
    task: RegressionTask,
    *,
    weights: Mapping[Any, object],
    constants: Mapping[Any, object] | None = None,
    name: str = "weights",
) -> tuple[ModelLoss, Float[np.ndarray, " P"]]:
    """The loss of ``model`` on ``task``, and the given ``weights`` as a flat vector. Raises ``ValueError`` if their loss is not finite."""
    arrays = weight_arrays(model, task, weights, name)
    shapes = {weight: array.shape for weight, array in arrays.items()}
    loss = ModelLoss(model, task, shapes, {} if constants is None else constants)
    flat = np.concatenate([array.ravel() for array in arrays.values()])
    try:
        with np.errstate(all="ignore"):
            value = loss.value(flat)
    except (ArithmeticError, np.linalg.LinAlgError) as error:
        raise ValueError(f"{name} must have a finite loss, got an error in it: {error}") from None
    if not np.isfinite(value):
        raise ValueError(f"{name} must be small enough for a finite loss, got the loss {value}")
    return loss, flat


def weight_arrays(model: Model, task: RegressionTask, weights: Mapping[Any, object], name: str = "weights") -> dict[Any, np.ndarray]:
    """The value of each weight as an array of its shape on this task."""
    require_model(model, task)
    _require_keys(name, weights, model.weights)
    sizes = {D: task.dimension, N: task.context_length}
    return {weight: array_for(weight, weights[weight], sizes) for weight in model.weights}


def constant_values(model: Model, constants: Mapping[Any, object], sizes: Mapping[Any, int]) -> dict[Any, np.ndarray]:
    """The value of each constant as an array of its shape."""
    _require_keys("constants", constants, model.constants)
    return {name: array_for(name, value, dict(sizes)) for name, value in constants.items()}


def require_model(model: object, task: object) -> None:
    instance("model", model, Model, "a Model of iclflow.theory.model")
    any_task(task)


def array_for(symbol: Any, value: object, sizes: dict[Any, int]) -> np.ndarray:
    """The value of a matrix or scalar symbol as an array of its shape. Adds new sizes to ``sizes``."""
    shape = getattr(symbol, "shape", ())
    wanted = [sizes.get(size, int(size) if size.is_Integer else str(size)) for size in shape]
    array = finite_array(str(symbol), value, wanted)
    sizes.update({size: have for size, have in zip(shape, array.shape, strict=True) if not size.is_Integer})
    if getattr(symbol, "is_symmetric_letter", False) and not np.array_equal(array, array.T):
        raise ValueError(f"{symbol} must be symmetric, as its symbol is, got {value!r}")
    return array


def _require_keys(name: str, given: object, wanted: tuple) -> None:
    if not isinstance(given, Mapping):
        raise TypeError(f"{name} must map each symbol to its value, such as {{U: array}}, got {given!r}")
    missing, unknown = [s for s in wanted if s not in given], [s for s in given if s not in wanted]
    for key in unknown:
        if str(key) in map(str, missing):
            raise ValueError(f"{name} must have the model's own symbols for keys, got another {key!r}: the same name is not enough")
    if missing:
        raise ValueError(f"{name} must give a value to each of {wanted}, got none for {missing[0]}")
    if unknown:
        raise ValueError(f"{name} must be for the symbols {wanted} of the model, got {unknown[0]!r} besides")
