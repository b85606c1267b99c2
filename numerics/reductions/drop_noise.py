r"""How mini-batches spread the time of any drop, from any initial weights (V8-force, V8-spread).

The gradient of the time left until a drop, T(W), obeys the adjoint of the linearised flow. The noise of a mini-batch has a known variance
along that gradient for every map; integrated along the flow it is the variance of the drop's time:

.. math::
    \operatorname{Var} t = \frac{h}{P} \int_0^t \operatorname{Var}\operatorname{tr}(Z' F)\, ds, \qquad
    Z = \frac{\partial B}{\partial W} \frac{\partial T}{\partial W}
"""

from dataclasses import dataclass

import numpy as np
from scipy.integrate import solve_ivp

from ...theory.notation import B, Lambda, N
from ...theory.results.discretisation.minibatch_noise import Z, force_variance
from .._checks import between, positive_integer, positive_number
from ..compilation.expressions import compile_expression
from ..dynamics.flow import gradient_flow
from ..dynamics.trajectory import Trajectory
from ..parametrizations.base import Parametrization, check_pair, field_jacobian, vector_field
from ..tasks.losses import QuadraticLoss
from ..tasks.regression import RegressionTask, paper_task


@dataclass(frozen=True)
class DropSpread:
    """One drop of SGD, along ``task.eigenvalues[direction]``: gradient flow's ``time`` and the standard deviation ``spread``, in t/tau."""

    direction: int
    time: float
    spread: float


def spread_of_drops(
    task: RegressionTask, weights: Parametrization, *, batch_size: int, learning_rate: float, t_end: float, share: float = 0.5
) -> tuple[DropSpread, ...]:
    """The drops before ``t_end`` in order of time: when a component of the map reaches ``share`` of lambda/a, and its spread under SGD.

    Each step of SGD takes ``learning_rate`` on L with ``batch_size`` fresh sequences. The law is of first order in the noise: it holds
    for a spread that is small against the drop's time.

    Raises ``ValueError`` or ``TypeError`` for bad arguments, for a varied task (whose noise (V8-force) does not describe), and if no
    component reaches its level before ``t_end``; ``FlowError`` if the flow fails.
    """
    paper_task(task)
    loss = QuadraticLoss.population(task)
    check_pair(loss, weights)
    size = 2 * positive_number("learning_rate", learning_rate) / positive_integer("batch_size", batch_size)
    share = between("share", share, 0, 1)
    flow = gradient_flow(loss, weights, t_end=t_end, rtol=1e-9)
    drops = [
        DropSpread(d, time, float(np.sqrt(size * _variance(task, flow, d, time))))
        for d in range(task.dimension)
        if (time := _crossing(task, flow, d, share)) is not None
    ]
    if not drops:
        raise ValueError(f"t_end must be after a drop: no component reaches {share} of its level before {t_end}")
    return tuple(sorted(drops, key=lambda drop: drop.time))


def _crossing(task: RegressionTask, flow: Trajectory, d: int, share: float) -> float | None:
    """When the component of the map along eigendirection d first reaches its level; None if it never does, or starts above."""
    e = task.eigenvectors[:, d]
    goal = share * task.eigenvalues[d] / task.second_moment_eigenvalues[d]
    return flow.first_time(lambda B: float(e @ B @ e), goal) if e @ flow.effective_maps[0] @ e <= goal else None


def _variance(task: RegressionTask, flow: Trajectory, d: int, time: float) -> float:
    """The integral of Var tr(Z' F) over the time until the drop, for one sequence (V8-spread)."""
    weights, loss, kind = flow.initial, flow.objective, type(flow.initial)
    slopes, e = field_jacobian(loss, weights), task.eigenvectors[:, d]
    there = flow.states_at(time)
    gradient = np.concatenate([part.ravel() for part in kind.spread(np.outer(e, e), *weights.split(there))])
    speed = float(gradient @ vector_field(loss, weights)(0.0, there))
    slope = -gradient / speed  # near the drop T is the distance to the level over its speed
    shape, covariance, length = loss.A.shape, task.covariance, task.context_length
    variance = compile_expression(force_variance(), (Z, B, Lambda, N))

    def backwards(s: float, state: np.ndarray) -> np.ndarray:
        here = flow.states_at(max(time - s, 0.0))
        arrays = weights.split(here)
        pulled = (kind.jacobian(*arrays).T @ state[:-1]).reshape(shape)
        return np.append(slopes(0.0, here) @ state[:-1], variance(pulled, kind.combine(*arrays), covariance, length))

    run = solve_ivp(backwards, (0.0, time), np.append(slope, 0.0), "LSODA", rtol=1e-6, atol=1e-12)
    return float(run.y[-1, -1])
