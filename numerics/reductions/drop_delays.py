r"""How much finite steps delay a drop (V8-drop), and how mini-batches delay and spread it (V8-noise).

A step of size eta on L advances t/tau by h = 2 eta, with momentum mu by h = 2 eta/(1 - mu) once the velocity has built up. To second order
in h it follows the flow of f - m (f . grad) f, with f = -1/2 dL/dW and the mass m = h/2 (1 + mu)/(1 - mu) of (V8-ball).
"""

from dataclasses import dataclass

import numpy as np

from ...theory.notation import Lambda, N, T, a, alpha as alpha_, gamma as gamma_, lambda_, v_0
from ...theory.results.discretisation.finite_steps import V, batch as sequences, h, t, u_0, v
from .._checks import index, positive_integer, positive_number, within_float64
from ..compilation.equations import compiled
from ..dynamics.momentum import heavy_ball_mass
from ..tasks.regression import RegressionTask, paper_task
from .scalar import ScalarReduction


@within_float64
def later_separate_drop(eigenvalue: float, second_moment: float, start: float, *, learning_rate: float, momentum: float = 0.0) -> float:
    """The delay in t/tau, by finite steps, of half a drop of separate attention from v = k = q = ``start`` (V8-drop)."""
    given = {"eigenvalue": eigenvalue, "second_moment": second_moment, "start": start}
    return _later("separate", (lambda_, a, v_0, h), given, learning_rate, momentum)


@within_float64
def later_merged_drop(gamma: float, alpha: float, start: float, *, learning_rate: float, momentum: float = 0.0) -> float:
    """The same for balanced merged attention on white tokens, with gamma and alpha of (44) and values of norm u_0 = ``start``."""
    return _later("merged", (gamma_, alpha_, u_0, h), {"gamma": gamma, "alpha": alpha, "start": start}, learning_rate, momentum)


def _later(part: str, letters: tuple, given: dict[str, float], learning_rate: float, momentum: float) -> float:
    """(V8-drop) with the h for which it holds, that of a step times (1 + mu)/(1 - mu), and the time that building up velocity takes."""
    step, values = 2 * heavy_ball_mass(learning_rate, momentum), [np.float64(positive_number(name, value)) for name, value in given.items()]
    rest = (values[0] / values[1]) ** (1 / 3 if part == "separate" else 1 / 2)
    if values[2] >= rest:
        raise ValueError(f"start must be below where the weights rest, {rest:.6g}, got {given['start']!r}")
    return float(compiled("V8-drop", letters, part=part)(*values, step)) + 2 * learning_rate * momentum / (1 - momentum) ** 2


@dataclass(frozen=True)
class NoisyDrop:
    """The time in t/tau that a head takes to grow under SGD: ``time`` of gradient flow, mean ``delay``, standard deviation ``spread``."""

    time: float
    delay: float
    spread: float


@within_float64
def noisy_drop(task: RegressionTask, direction: int, *, start: float, level: float, batch_size: int, learning_rate: float) -> NoisyDrop:
    """How mini-batches delay and spread the time in which a separate head v = k = q grows from ``start`` to ``level`` (V8-noise).

    The head is aligned with the eigendirection of ``task.eigenvalues[direction]``; every step draws ``batch_size`` fresh sequences. The
    laws hold during growth, while the cube of ``level`` is well below lambda/a.

    Raises ``ValueError`` for bad arguments and for a varied task, whose noise these laws do not describe.
    """
    paper_task(task)
    direction = index("direction", direction, task.dimension)
    size, batch = 2 * positive_number("learning_rate", learning_rate), positive_integer("batch_size", batch_size)
    start, level = positive_number("start", start), positive_number("level", level)
    value, second = float(task.eigenvalues[direction]), float(task.second_moment_eigenvalues[direction])
    if not start < level < (value / second) ** (1 / 3):
        raise ValueError(f"level must lie between start = {start} and (lambda/a)^(1/3) = {(value / second) ** (1 / 3):.6g}, got {level}")
    time = float(ScalarReduction(value, second).time(level, start))
    variance = compiled("V8-noise", (lambda_, T, Lambda, N), part="variance")
    delay = compiled("V8-noise", (h, sequences, lambda_, v_0, v, V), part="delay")
    spread = compiled("V8-noise", (h, sequences, lambda_, V, t), part="spread")
    force = variance(value, task.eigenvalues.sum(), task.covariance, task.context_length)
    later = delay(size, batch, value, start, level, force)
    return NoisyDrop(time, float(later), float(np.sqrt(spread(size, batch, value, force, time))))
