r"""Gradient flow of a ``Model``, with any number of weights of any shape.

>>> import numpy as np
>>> from iclflow.numerics.tasks.regression import RegressionTask
>>> from iclflow.theory.model import Model
>>> from iclflow.theory.notation import D, Lambda_hat, beta, matrix, x_q
>>> U = matrix("U", D)
>>> two_steps = Model(prediction=beta.T * (2 * U - U * Lambda_hat * U) * x_q, weights=(U,))
>>> task = RegressionTask(eigenvalues=[0.5, 0.25], context_length=8)
>>> run = integrate(two_steps, task, initial={U: np.zeros((2, 2))}, t_end=200.0)
>>> run.loss[[0, -1]].round(3).tolist()
[0.75, 0.107]
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from jaxtyping import Float

from ...theory.model import Model
from .._checks import duration, positive_number, tolerance
from ..dynamics.flow import IMPLICIT_SIZE, integrate_field
from ..dynamics.solver import FlowError, Interpolant, Linear
from ..dynamics.trajectory import Path, Statistics
from ..tasks.regression import RegressionTask
from .loss import ModelLoss, model_loss


@dataclass(frozen=True, eq=False, repr=False)
class ModelTrajectory(Path):
    """The weights of one model over time, from ``times[0]`` = 0 to ``times[-1]``, in the time units of ``tau``.

    ``states`` holds the flat weights at ``times``, the solver's own steps; ``interpolant`` gives them in between.
    """

    times: Float[np.ndarray, " T"]
    states: Float[np.ndarray, "T P"]
    objective: ModelLoss
    tau: float
    statistics: Statistics
    interpolant: Interpolant | Linear

    @cached_property
    def arrays(self) -> Mapping[Any, np.ndarray]:
        """Each weight over time, by its symbol, with time as its first axis."""
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
) -> ModelTrajectory:
    r"""Integrate the flow (10) of ``model`` on ``task`` from the weights ``initial`` = {symbol: array} to ``t_end``.

    The absolute tolerance is ``rtol`` times the root mean square of the initial weights (of 1 if they are all zero). The solver is LSODA,
    DOP853 above 1000 weights.

    Raises ``ValueError`` or ``TypeError`` for bad arguments (an initial array that is missing or has another shape than its symbol, a
    constant without a value, weights whose loss is not finite) and ``FlowError`` if the solver fails.
    """
    tau, rtol = positive_number("tau", tau), tolerance("rtol", rtol)
    t_end = duration("t_end", t_end, tau)
    loss, state = model_loss(model, task, weights=initial, constants=constants, name="initial")
    largest = float(np.abs(state).max()) or 1.0
    scale = largest * float(np.sqrt(np.mean((state / largest) ** 2)))  # state**2 may overflow
    smallest = rtol * (scale or 1.0)
    rounding = 10 * float(np.finfo(float).eps)  # the velocity is known to about this fraction of its terms

    try:
        times, states, statistics, interpolant = integrate_field(
            lambda _t, vector: loss.velocity(vector),
            state,
            t_end / tau,
            method="LSODA" if state.size <= IMPLICIT_SIZE else "DOP853",
            rtol=rtol,
            atol=lambda vector: np.full(vector.shape, max(smallest, rounding * float(np.abs(vector).max()))),
        )
    except FlowError as error:
        raise FlowError(error.cause, error.time * tau) from None
    return ModelTrajectory(times * tau, states, loss, tau, statistics, interpolant)
