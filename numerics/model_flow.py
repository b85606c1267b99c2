r"""Gradient flow of your own model: the loss and the vector field are compiled from the expression, for any number of weights of any shape.

>>> import numpy as np
>>> from iclflow.numerics.tasks import RegressionTask
>>> from iclflow.theory.model import Model
>>> from iclflow.theory.notation import D, Lambda_hat, beta, matrix, x_q
>>> U = matrix("U", D)
>>> two_steps = Model(prediction=beta.T * (2 * U - U * Lambda_hat * U) * x_q, weights=(U,))
>>> task = RegressionTask(eigenvalues=[0.5, 0.25], context_length=8)
>>> run = integrate(two_steps, task, initial={U: np.zeros((2, 2))}, t_end=200.0)
>>> run.loss[[0, -1]].round(3).tolist()
[0.75, 0.107]
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Float

from ..theory.model import Model
from ..theory.notation import D, Lambda, N
from ._checks import finite_array, positive_integer, positive_number
from .compile import compile_expression
from .flow import IMPLICIT_SIZE, SMALLEST_RTOL, integrate_field
from .integration import METHODS, FlowError, Interpolant, Linear
from .tasks import RegressionTask
from .trajectory import Path, Statistics

__all__ = ["ModelLoss", "ModelTrajectory", "integrate"]


@dataclass(frozen=True, eq=False)
class ModelLoss:
    """The population loss of a model on one task, as functions of flat weights.

    ``shapes`` gives the shape of each weight, () for a scalar one; ``constants`` the value of each symbol of ``model.constants``.
    Raises ``ValueError`` for a shape or a constant that does not fit, and where the loss does not exist (N > D + 1, say).
    """

    model: Model
    task: RegressionTask
    shapes: Mapping[Any, tuple[int, ...]]
    constants: Mapping[Any, Any]

    def __post_init__(self) -> None:
        if not isinstance(self.model, Model):
            raise TypeError(f"model must be a Model of iclflow.theory.model, got {self.model!r}")
        if not isinstance(self.task, RegressionTask):
            raise TypeError(f"task must be a RegressionTask, got {self.task!r}")
        if getattr(self.task, "variations", None):
            raise ValueError(
                f"task must be the paper's, got one with {', '.join(sorted(self.task.variations))}: "  # type: ignore[attr-defined]
                "say what varies by laws of the model, Model(..., laws=(...))"
            )
        _require_keys("constants", self.constants, self.model.constants)
        sizes = {D: self.task.dimension, N: self.task.context_length}
        values = {name: array_for(name, value, sizes) for name, value in self.constants.items()}
        object.__setattr__(self, "constants", MappingProxyType(values))
        for condition in self.model.conditions:
            if not condition.subs(sizes):
                raise ValueError(f"task must satisfy {condition} for the loss of this model to exist, got {sizes}")

    @cached_property
    def _fixed(self) -> tuple:
        return self.task.covariance, self.task.context_length, *(self.constants[s] for s in self.model.constants)

    @cached_property
    def _arguments(self) -> tuple:
        return *self.model.weights, Lambda, N, *self.model.constants

    @cached_property
    def _value(self) -> Callable[..., Any]:
        return compile_expression(self.model.loss(), self._arguments)

    @cached_property
    def _velocity(self) -> Callable[..., tuple]:
        flow = self.model.flow()
        return compile_expression(tuple(flow[weight] for weight in self.model.weights), self._arguments)

    def split(self, vector: Float[np.ndarray, "*batch P"]) -> tuple[np.ndarray, ...]:
        """Views of the weights inside flat ones, in the order of ``model.weights``, with any leading axes kept."""
        parts, start = [], 0
        for weight in self.model.weights:
            shape = self.shapes[weight]
            stop = start + int(np.prod(shape))
            parts.append(vector[..., start:stop].reshape((*vector.shape[:-1], *shape)))
            start = stop
        return tuple(parts)

    def value(self, vector: Float[np.ndarray, " P"]) -> float:
        """The loss (9)."""
        return float(self._value(*self.split(vector), *self._fixed))

    def velocity(self, vector: Float[np.ndarray, " P"]) -> Float[np.ndarray, " P"]:
        """tau dW/dt = -1/2 dL/dW, equation (10)."""
        parts = self._velocity(*self.split(vector), *self._fixed)
        return np.concatenate([np.ravel(part) for part in parts])


@dataclass(frozen=True, eq=False)
class ModelTrajectory(Path):
    """The weights of one model over time, from ``times[0]`` = 0 to ``times[-1]``, in the time units of ``tau``.

    ``states`` holds the flat weights at ``times``, the solver's own steps; in between is the solver's interpolant.
    """

    times: Float[np.ndarray, " T"]
    states: Float[np.ndarray, "T P"]
    objective: ModelLoss
    tau: float
    statistics: Statistics
    interpolant: Interpolant | Linear

    @cached_property
    def arrays(self) -> Mapping[Any, np.ndarray]:
        """Each weight over time, by its symbol: time is the first axis."""
        return MappingProxyType(dict(zip(self.objective.model.weights, self.objective.split(self.states), strict=True)))

    @cached_property
    def loss(self) -> Float[np.ndarray, " T"]:
        return np.array([self.objective.value(state) for state in self.states])

    def at(self, t: object) -> Mapping[Any, np.ndarray]:
        """Each weight at the time or times ``t``, by its symbol."""
        return dict(zip(self.objective.model.weights, self.objective.split(self.states_at(t)), strict=True))

    def loss_at(self, t: object) -> float | Float[np.ndarray, " *n"]:
        """The loss at time ``t``: a float for a number, an array for an array of times."""
        states = self.states_at(t)
        losses = [self.objective.value(state) for state in states.reshape(-1, states.shape[-1])]
        return losses[0] if states.ndim == 1 else np.reshape(losses, states.shape[:-1])


def integrate(
    model: Model,
    task: RegressionTask,
    *,
    initial: Mapping[Any, object],
    t_end: float,
    tau: float = 1.0,
    constants: Mapping[Any, object] | None = None,
    rtol: float = 1e-8,
    atol: float | None = None,
    method: str | None = None,
    max_steps: int = 100_000,
) -> ModelTrajectory:
    r"""Integrate the flow (10) of ``model`` on ``task`` from the weights ``initial`` = {symbol: array} to ``t_end``.

    ``atol=None`` is ``rtol`` times the root mean square of the initial weights (of 1 if they are all zero). ``method`` names a solver of
    ``scipy.integrate``, LSODA by default (DOP853 above 1000 weights).

    Raises ``ValueError`` or ``TypeError`` for bad arguments (an initial array that is missing or of another shape than its symbol says, a
    constant without a value) and ``FlowError`` if the solver fails.
    """
    t_end, tau, rtol = positive_number("t_end", t_end), positive_number("tau", tau), positive_number("rtol", rtol)
    if rtol < SMALLEST_RTOL:
        raise ValueError(f"rtol must be at least {SMALLEST_RTOL:.2g}, a hundred times the rounding unit, got {rtol!r}")
    loss, state = model_loss(model, task, weights=initial, constants=constants, name="initial")
    method = method or ("LSODA" if state.size <= IMPLICIT_SIZE else "DOP853")
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    scale = float(np.sqrt(np.mean(state**2)))
    smallest = rtol * (scale or 1.0) if atol is None else positive_number("atol", atol)
    rounding = 10 * float(np.finfo(float).eps)  # the velocity is known to about this fraction of its terms

    try:
        times, states, statistics, interpolant = integrate_field(
            lambda _t, vector: loss.velocity(vector),
            state,
            t_end / tau,
            method=method,
            rtol=rtol,
            atol=lambda vector: np.full(vector.shape, max(smallest, rounding * float(np.abs(vector).max()))),
            max_steps=positive_integer("max_steps", max_steps),
        )
    except FlowError as error:
        raise FlowError(error.cause, error.time * tau) from None
    return ModelTrajectory(times * tau, states, loss, tau, statistics, interpolant)


def model_loss(
    model: Model,
    task: RegressionTask,
    *,
    weights: Mapping[Any, object],
    constants: Mapping[Any, object] | None = None,
    name: str = "weights",
) -> tuple[ModelLoss, Float[np.ndarray, " P"]]:
    """The loss of ``model`` on ``task`` for weights shaped like these, and these weights flat."""
    if not isinstance(model, Model):
        raise TypeError(f"model must be a Model of iclflow.theory.model, got {model!r}")
    if not isinstance(task, RegressionTask):
        raise TypeError(f"task must be a RegressionTask, got {task!r}")
    _require_keys(name, weights, model.weights)
    sizes = {D: task.dimension, N: task.context_length}
    arrays = {weight: array_for(weight, weights[weight], sizes) for weight in model.weights}
    shapes = {weight: array.shape for weight, array in arrays.items()}
    loss = ModelLoss(model, task, shapes, dict(constants or {}))
    return loss, np.concatenate([array.ravel() for array in arrays.values()])


def array_for(symbol: Any, value: object, sizes: dict[Any, int]) -> np.ndarray:
    """The value of a matrix or scalar symbol as an array of its shape; a size met for the first time is noted in ``sizes``."""
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
    if missing:
        raise ValueError(f"{name} must give a value to each of {wanted}, got none for {missing[0]}")
    if unknown:
        raise ValueError(f"{name} must be for the symbols {wanted} of the model, got {unknown[0]!r} besides")
