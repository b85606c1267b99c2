"""Full-batch gradient descent, W <- W - eta dL/dW: the discrete counterpart of gradient flow; sign descent; Adam."""

import time
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from .._checks import finite_array, nonnegative_number, positive_integer, positive_number, require_room
from ..parametrizations.base import Parametrization, check_pair, vector_field
from ..tasks.losses import QuadraticLoss
from .solver import FlowError, Linear
from .trajectory import Statistics, Trajectory


@np.errstate(over="ignore", invalid="ignore")
def gradient_descent(
    loss: QuadraticLoss,
    weights: Parametrization,
    *,
    steps: int,
    learning_rate: float | np.ndarray | Callable[[int], float],
    tau: float = 1.0,
    record_every: int = 1,
    weight_decay: float = 0.0,
) -> Trajectory:
    """Take ``steps`` steps on L; a step of size eta advances the time of the flow (10) by 2 eta tau.

    ``learning_rate`` is a constant, one size for each step (an array of shape (steps,)), or a function of the step's number,
    from 0. ``weight_decay`` gamma adds gamma |W|^2 to what the steps lower.

    States are kept every ``record_every`` steps and at the end; between them ``Trajectory.at`` is piecewise linear.

    Raises ``ValueError`` or ``TypeError`` for bad arguments, and ``FlowError``, with the last good time, if the weights
    overflow (a step too large for the curvature).
    """
    steps, every, velocity = checked_steps(loss, weights, steps, record_every)
    tau, advances = positive_number("tau", tau), 2.0 * _step_sizes(learning_rate, steps)
    decay, each = nonnegative_number("weight_decay", weight_decay), advances.tolist()

    def after(step: int, state: np.ndarray) -> np.ndarray:
        return state + each[step] * (velocity(0.0, state) - decay * state)

    times = np.concatenate([[0.0], np.cumsum(advances)])
    return take_steps(loss, weights, after, times, every, method="gradient descent", tau=tau)


def sign_descent(loss: QuadraticLoss, weights: Parametrization, *, steps: int, learning_rate: float, record_every: int = 1) -> Trajectory:
    """W <- W - eta sign(dL/dW), entry by entry; each step counts as eta of time, so that an entry moves at most at unit speed (V8-sign).

    Raises as :func:`gradient_descent` does.
    """
    return _at_most_one(loss, weights, lambda _step, gradient: np.sign(gradient), steps, learning_rate, record_every, "sign descent")


def adam(
    loss: QuadraticLoss,
    weights: Parametrization,
    *,
    steps: int,
    learning_rate: float,
    betas: tuple[float, float] = (0.9, 0.999),
    epsilon: float = 1e-8,
    record_every: int = 1,
) -> Trajectory:
    """W <- W - eta m/(sqrt(v) + epsilon) with the running means m of dL/dW and v of its square, without their bias to 0, as in PyTorch.

    Each step counts as eta of time, as in :func:`sign_descent`, which this is on steady gradients far above epsilon (V8-adam). Raises as
    :func:`gradient_descent` does.
    """
    (first, second), epsilon = finite_array("betas", betas, (2,)).tolist(), nonnegative_number("epsilon", epsilon)
    if not (0 <= first < 1 and 0 <= second < 1):
        raise ValueError(f"betas must be at least 0 and below 1, got {betas!r}")
    mean = square = np.zeros(1)

    def move(step: int, gradient: np.ndarray) -> np.ndarray:
        nonlocal mean, square
        mean, square = first * mean + (1 - first) * gradient, second * square + (1 - second) * gradient**2
        size = np.sqrt(square / (1 - second ** (step + 1))) + epsilon
        return np.divide(mean / (1 - first ** (step + 1)), size, out=np.zeros_like(mean), where=size > 0)

    return _at_most_one(loss, weights, move, steps, learning_rate, record_every, "Adam")


@np.errstate(over="ignore", invalid="ignore")
def _at_most_one(
    loss: QuadraticLoss,
    weights: Parametrization,
    move: Callable[[int, np.ndarray], np.ndarray],
    steps: int,
    learning_rate: float,
    record_every: int,
    method: str,
) -> Trajectory:
    """The run W <- W - eta move(step, dL/dW), with eta for each step on the clock."""
    steps, every, velocity = checked_steps(loss, weights, steps, record_every)
    eta = positive_number("learning_rate", learning_rate)

    def after(step: int, state: np.ndarray) -> np.ndarray:
        return state - eta * move(step, -2 * velocity(0.0, state))

    return take_steps(loss, weights, after, eta * np.arange(steps + 1), every, method=method)


def checked_steps(loss: QuadraticLoss, weights: Parametrization, steps: int, record_every: int) -> tuple[int, int, Callable]:
    """The number of steps and of those between two records, if they are such and their result fits in memory; tau dW/dt."""
    check_pair(loss, weights)
    steps, every = positive_integer("steps", steps), positive_integer("record_every", record_every)
    require_room("steps", steps, 4 * steps + (steps // every + 2) * weights.size)
    return steps, every, vector_field(loss, weights)


@np.errstate(over="ignore", invalid="ignore")
def take_steps(
    loss: QuadraticLoss,
    weights: Parametrization,
    after: Callable[[int, np.ndarray], np.ndarray],
    times: Float[np.ndarray, " steps+1"],
    every: int,
    *,
    method: str,
    tau: float = 1.0,
) -> Trajectory:
    """The run whose step number ``step`` leads from ``state`` to ``after(step, state)``; ``times`` (steps + 1,) are in t/tau.

    Raises ``FlowError`` if the weights or their map overflow.
    """
    started, steps = time.perf_counter(), len(times) - 1
    kept = np.append(np.arange(0, steps, every), steps)
    state = weights.flatten()
    states = np.empty((len(kept), len(state)))
    states[0] = state
    for row in range(1, len(kept)):
        for step in range(kept[row - 1], kept[row]):
            state = after(step, state)
        states[row] = state
    recorded = times[kept]
    statistics = Statistics(
        method=method, steps=steps, evaluations=steps, jacobians=0, restarts=0, seconds=time.perf_counter() - started, stopped="steps"
    )
    run = Trajectory(recorded * tau, states, loss, weights, tau, statistics, Linear(recorded, states))
    finite = np.isfinite(np.hstack([run.times[:, None], states, run.effective_maps.reshape(len(states), -1)])).all(axis=1)
    if not finite.all():
        last_good = float(run.times[max(np.argmin(finite) - 1, 0)])
        raise FlowError("the weights or their map overflowed: learning_rate is too large for the curvature of the loss", last_good)
    return run


def _step_sizes(learning_rate: object, steps: int) -> np.ndarray:
    given = [learning_rate(step) for step in range(steps)] if callable(learning_rate) else learning_rate
    if not isinstance(given, Sequence | np.ndarray):
        return np.full(steps, positive_number("learning_rate", given))
    sizes = finite_array("learning_rate", given, (steps,))
    if not (sizes > 0).all():
        raise ValueError(f"learning_rate must be positive at every step, got {sizes.min()!r}")
    return sizes
