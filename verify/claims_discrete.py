"""Claims about finite steps and momentum (V8): stable steps, the order of the modified flow, drop times."""

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.optimize import brentq

from ..numerics.compile import compile_expression
from ..numerics.descent import gradient_descent
from ..numerics.discrete import largest_stable_step, later_separate_drop, modified_flow
from ..numerics.flow import gradient_flow
from ..numerics.integration import FlowError
from ..numerics.landscape import separate_fixed_point
from ..numerics.losses import QuadraticLoss
from ..numerics.momentum import heavy_ball
from ..numerics.tasks import RegressionTask
from ..numerics.trajectory import Trajectory
from ..numerics.weights import SeparateWeights
from ..theory.equations import equation
from .claims import claim
from .tolerances import NEXT_STEP_ORDER, ORDER, ROUNDOFF, STABLE

TASK = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)
LOSS = QuadraticLoss.population(TASK)


def head(start: float, d: int = 0) -> SeparateWeights:
    """One head v, k, q aligned with an eigendirection."""
    direction = start * TASK.eigenvectors[:, d][None, None]
    return SeparateWeights(np.array([start]), direction, direction)


def _largest_curvature(formulas: dict) -> float:
    """The largest of the curvatures (V8-stable) over all directions and pairs."""
    values, levels = TASK.eigenvalues, TASK.eigenvalues / TASK.second_moment_eigenvalues
    names = {str(symbol): symbol for formula in formulas.values() for symbol in formula.free_symbols}
    arguments = [names[name] for name in ("lambda_d", "b_d", "lambda_j", "b_j")]
    single = compile_expression(formulas["head"], arguments)(values, levels, values, levels)
    one, other = np.nonzero(~np.eye(len(values), dtype=bool))
    pairs = compile_expression(formulas["pair"], arguments)(values[one], levels[one], values[other], levels[other])
    return float(max(single.max(), pairs.max()))


_STABLE = equation("V8-stable").statement


@claim(
    "V8-stable",
    "the largest curvature at the global minimum of separate attention against the spectrum of the Hessian",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=_STABLE,
    wrong={"a head's doubled for tripled": _STABLE | {"head": _STABLE["head"] * 2 / 3}},
)
def curvature_at_the_minimum(formulas) -> float:
    spectrum = separate_fixed_point(TASK, range(4), heads=4).spectrum
    return abs(_largest_curvature(formulas) / float(spectrum[-1]) - 1)


@claim(
    "V8-modified",
    "the step at which a perturbed minimum is no longer found again, by bisection, with momentum 0, 0.5 and 0.9",
    method="descent",
    tolerance=STABLE,
    theory=lambda point, momentum: largest_stable_step(point, momentum=momentum),
    wrong={
        "momentum forgotten": lambda point, momentum: largest_stable_step(point),
        "twice as large": lambda point, momentum: 2 * largest_stable_step(point, momentum=momentum),
    },
)
def stable_step(bound) -> float:
    point = separate_fixed_point(TASK, range(4), heads=4)
    kick = 1e-6 * np.linalg.eigh(point.weights.hessian(LOSS))[1][:, -1]
    start = point.weights.unflatten(point.weights.flatten() + kick)

    def grows(step: float, momentum: float) -> bool:
        try:
            run = heavy_ball(LOSS, start, steps=400, learning_rate=step, momentum=momentum, record_every=400)
        except FlowError:
            return True
        return bool(np.linalg.norm(run.states[-1] - point.weights.flatten()) > np.linalg.norm(kick))

    errors = []
    for momentum in (0.0, 0.5, 0.9):
        low, high = 0.2, 10.0
        for _ in range(12):
            middle = (low + high) / 2
            low, high = (low, middle) if grows(middle, momentum) else (middle, high)
        errors.append(abs(bound(point, momentum) / low - 1))
    return max(errors)


@cache
def random_start() -> SeparateWeights:
    return SeparateWeights.initialize(TASK, heads=5, rank=1, scale=0.4, rng=np.random.default_rng(3))


def _order(reference: Callable[[float], Trajectory]) -> float:
    """The fitted order in which descent approaches a flow at t = 120, amid the drops of five heads in four dimensions."""
    sizes, errors = np.array([0.2, 0.1, 0.05]), []
    for eta in sizes:
        steps = round(120 / (2 * eta))
        run = gradient_descent(LOSS, random_start(), steps=steps, learning_rate=float(eta), record_every=steps)
        errors.append(np.linalg.norm(run.states[-1] - reference(float(eta)).states[-1]))
    return float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])


@claim(
    "V8-modified",
    "descent from a random start approaches the modified flow as the square of the step: the fitted order",
    method="descent",
    tolerance=ORDER,
    theory=lambda eta: modified_flow(LOSS, random_start(), learning_rate=eta, t_end=120.0),
    wrong={
        "gradient flow, of first order": lambda eta: gradient_flow(LOSS, random_start(), t_end=120.0, rtol=1e-10),
        "the correction doubled": lambda eta: modified_flow(LOSS, random_start(), learning_rate=2 * eta, t_end=120.0),
    },
)
def order_of_the_modified_flow(reference) -> float:
    return abs(_order(reference) - 2)


def half_time(run: Trajectory) -> float:
    """When B_11 reaches half of its final value."""
    goal = TASK.eigenvalues[0] / TASK.second_moment_eigenvalues[0] / 2
    after = int(np.argmax(run.effective_maps[:, 0, 0] > goal))
    return float(brentq(lambda t: run.effective_map_at(t)[0, 0] - goal, *run.times[after - 1 : after + 1]))  # type: ignore[arg-type]


@claim(
    "V8-drop",
    "the time by which steps and momentum delay a drop, from descent and heavy ball against gradient flow: relative error of the delay",
    method="descent",
    tolerance=NEXT_STEP_ORDER,
    theory=later_separate_drop,
    wrong={
        "half the delay": lambda *scalars, **steps: later_separate_drop(*scalars, **steps) / 2,
        "momentum only as a longer step": lambda *scalars, learning_rate, momentum: later_separate_drop(
            *scalars, learning_rate=learning_rate / (1 - momentum)
        ),
    },
)
def delay_of_a_drop(delay) -> float:
    start, scalars = 0.1, (TASK.eigenvalues[0], TASK.second_moment_eigenvalues[0], 0.1)
    exact = half_time(gradient_flow(LOSS, head(start), t_end=150.0, rtol=1e-11))
    errors = []
    for momentum in (0.0, 0.8):
        for eta in np.array([0.2, 0.1]) * (1 - momentum) ** 2:
            steps = round(90 * (1 - momentum) / (2 * eta))
            run = heavy_ball(LOSS, head(start), steps=steps, learning_rate=eta, momentum=momentum)
            added = delay(*scalars, learning_rate=float(eta), momentum=momentum)
            errors.append(abs((half_time(run) - exact) / added - 1))
    return max(errors)
