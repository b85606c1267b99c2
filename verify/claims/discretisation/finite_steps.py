"""Claims about finite steps and momentum (V8): stable steps, the order of the modified flow, drop times."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product

import numpy as np

from ....numerics import FlowError, QuadraticLoss, RegressionTask, Trajectory, gradient_descent, gradient_flow, largest_stable_step
from ....numerics.dynamics.momentum import heavy_ball, modified_flow
from ....numerics.landscape.fixed_points import FixedPoint, fixed_point_sets, merged_fixed_points, separate_fixed_point
from ....numerics.parametrizations.attention import MergedWeights, SeparateWeights
from ....numerics.parametrizations.base import Parametrization
from ....numerics.reductions.drop_delays import later_merged_drop, later_separate_drop
from ....theory.notation import G, Lambda, M
from ....theory.results.discretisation.finite_steps import eta as step_size, kappa
from ....theory.results.discretisation.stable_steps import b_d, b_j, lambda_d, lambda_j
from ...experiments import draws
from ...experiments.staircase import reached
from ..book import claim, wrong
from ..formulas import OBLIQUE_MAP, OBLIQUE_TASK, formula, gradient_by_differences, parts_of, power_law, times
from ..tolerances import NEXT_STEP_ORDER, ORDER, STABLE

TASK = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)
LOSS = QuadraticLoss.population(TASK)


def head(start: float, d: int = 0) -> SeparateWeights:
    """One head v, k, q aligned with an eigendirection."""
    direction = start * TASK.eigenvectors[:, d][None, None]
    return SeparateWeights(np.array([start]), direction, direction)


_ARGUMENTS = (lambda_d, b_d, lambda_j, b_j)
_STABLE = parts_of("V8-stable", _ARGUMENTS, "head", "pair", "unlearned", "unlearned, smaller")


@claim("V8-stable", method="linear algebra", theory=_STABLE)
@wrong("a head's doubled for tripled", {"head": times(2 / 3)})
@wrong("unlearned directions left out", {"unlearned": times(0)})
@wrong("the ways out left out", {"unlearned, smaller": times(0)})
@wrong("half of a pair's", {"pair": times(1 / 2)})
def curvature_at_fixed_points(curvature) -> float:
    """The curvatures at all 16 fixed points of minimal norm of separate attention, and zeros, against the spectrum of the Hessian."""
    values, errors = list(zip(TASK.eigenvalues, TASK.eigenvalues / TASK.second_moment_eigenvalues, strict=True)), []
    for learned in fixed_point_sets(TASK, heads=4):
        spectrum = separate_fixed_point(TASK, learned, heads=4).spectrum
        derived = np.zeros(len(spectrum))
        kinds = {True: ("pair",), False: ("unlearned", "unlearned, smaller")}
        pairs = [(d, j, part) for d in learned for j in range(4) for part in (("head",) if d == j else kinds[j in learned])]
        derived[: len(pairs)] = [float(curvature[part](*values[d], *values[j])) for d, j, part in pairs]
        errors.append(np.abs(np.sort(derived) - spectrum).max())
    return float(max(errors))


_MERGED = parts_of("V8-stable-merged", {"zero": _ARGUMENTS, "entry": _ARGUMENTS, "diagonal": (kappa, *_ARGUMENTS)})


@claim("V8-stable-merged", method="linear algebra", theory=_MERGED)
@wrong("lambda for its square", {"zero": lambda one, _b, other, _c: (one**2 + other**2) ** (1 / 2)})
@wrong("white tokens", {lambda_j: lambda_d})
@wrong("half of an entry's", {"entry": times(1 / 2)})
def curvature_of_merged_attention(curvature) -> float:
    """All curvatures of merged attention at zero and at its global minimum, two directions, against the spectrum of the Hessian."""
    task = RegressionTask(eigenvalues=[0.5, 0.2], context_length=10)
    at_zero, at_minimum = (point.spectrum for point in merged_fixed_points(task, heads=1))
    values, levels = task.eigenvalues, task.eigenvalues / task.second_moment_eigenvalues
    given, turned = (*np.stack([values, levels], 1).ravel(),), (*np.stack([values, levels], 1)[::-1].ravel(),)
    points, zero = np.arange(3.0), float(curvature["zero"](*given))
    roots = np.roots(np.polyfit(points, [float(curvature["diagonal"](point, *given)) for point in points], 2))
    derived = np.sort([0.0, curvature["entry"](*given), curvature["entry"](*turned), *roots.real])
    return float(max(np.abs(at_minimum - derived).max(), np.abs(at_zero - [-zero, 0, 0, 0, zero]).max()))


@claim("V8-modified", method="descent", tolerance=STABLE, theory=lambda point, momentum: largest_stable_step(point, momentum=momentum))
@wrong("momentum forgotten", lambda point, momentum: largest_stable_step(point))
@wrong("twice as large", lambda point, momentum: 2 * largest_stable_step(point, momentum=momentum))
def stable_step(bound) -> float:
    """The step above which perturbed weights no longer return, by bisection, at the minimum, a saddle and merged attention's minimum."""
    points = separate_fixed_point(TASK, range(4), heads=4), separate_fixed_point(TASK, (0, 1), heads=2)
    cases = [(points[0], 0.0), (points[0], 0.5), (points[0], 0.9), (points[1], 0.0), (points[1], 0.9)]
    cases += [(merged_fixed_points(TASK, heads=1)[-1], 0.5)]
    return max(abs(bound(point, momentum) / measured_stable_step(point, momentum) - 1) for point, momentum in cases)


def measured_stable_step(point: FixedPoint, momentum: float, *, steps: int = 100) -> float:
    """The step, bisected, above which a kick along the steepest direction no longer dies away; at a saddle take few ``steps``."""
    steepest = point.weights.hessian(LOSS)
    kick = 1e-8 * np.linalg.eigh(steepest)[1][:, -1]
    rest = point.weights.flatten()

    def grows(step: float) -> bool:
        try:
            start = point.weights.unflatten(rest + kick)
            run = heavy_ball(LOSS, start, steps=steps, learning_rate=step, momentum=momentum, record_every=steps)
        except FlowError:
            return True
        return bool(abs((run.states[-1] - rest) @ kick) > kick @ kick)

    low, high = 0.2, 40.0
    for _ in range(14):
        middle = (low + high) / 2
        low, high = (low, middle) if grows(middle) else (middle, high)
    return low


@draws.remembered
def random_start() -> SeparateWeights:
    return SeparateWeights.initialize(TASK, heads=5, rank=1, scale=0.4, rng=draws.generator(3))


@claim(
    "V8-modified", method="descent", tolerance=ORDER, theory=lambda eta: modified_flow(LOSS, random_start(), learning_rate=eta, t_end=120.0)
)
@wrong("gradient flow, of first order", lambda eta: gradient_flow(LOSS, random_start(), t_end=120.0, rtol=1e-10))
@wrong("the correction doubled", lambda eta: modified_flow(LOSS, random_start(), learning_rate=2 * eta, t_end=120.0))
def order_of_the_modified_flow(reference) -> float:
    """Descent from a random start approaches the modified flow as the square of the step: the fitted order.

    At t = 120, amid the drops of five heads in four dimensions.
    """

    def error(eta: float) -> float:
        steps = round(120 / (2 * eta))
        run = gradient_descent(LOSS, random_start(), steps=steps, learning_rate=eta, record_every=steps)
        return float(np.linalg.norm(run.states[-1] - reference(eta).states[-1]))

    return abs(power_law([0.2, 0.1, 0.05], error) - 2)


def half_time(run: Trajectory) -> float:
    """The time at which B_11 reaches half of its final value."""
    return reached(run, lambda B: B[0, 0], TASK.eigenvalues[0] / TASK.second_moment_eigenvalues[0] / 2)


def error_of_delay(loss: QuadraticLoss, start: Parametrization, half: Callable, end: float, steps: Sequence, delay: Callable) -> float:
    """The relative error of the time by which steps and momentum delay a drop, from descent and heavy ball against gradient flow."""
    exact, errors = half(gradient_flow(loss, start, t_end=end, rtol=1e-11)), []
    for momentum, step in product((0.0, 0.8), steps):
        eta = step * (1 - momentum) ** 2
        run = heavy_ball(loss, start, steps=round(end * (1 - momentum) / (2 * eta)), learning_rate=eta, momentum=momentum)
        errors.append((half(run) - exact) / delay(learning_rate=eta, momentum=momentum) - 1)
    return float(np.abs(errors).max())


@claim("V8-drop", method="descent", tolerance=NEXT_STEP_ORDER, theory=later_separate_drop)
@wrong("half the delay", lambda *scalars, **steps: later_separate_drop(*scalars, **steps) / 2)
@wrong(
    "momentum only as a longer step",
    lambda *scalars, learning_rate, momentum: later_separate_drop(*scalars, learning_rate=learning_rate / (1 - momentum)),
)
def delay_of_a_drop(delay) -> float:
    """The time by which steps and momentum delay a drop, from descent and heavy ball against gradient flow: relative error of the delay."""
    scalars = TASK.eigenvalues[0], TASK.second_moment_eigenvalues[0], 0.1
    return error_of_delay(LOSS, head(0.1), half_time, 90.0, (0.1, 0.05), partial(delay, *scalars))


@claim("V8-drop", method="descent", tolerance=NEXT_STEP_ORDER, theory=later_merged_drop)
@wrong("half the delay", lambda *scalars, **steps: later_merged_drop(*scalars, **steps) / 2)
@wrong("of separate attention", later_separate_drop)
def delay_of_a_merged_drop(delay) -> float:
    """The time by which steps and momentum delay the drop of balanced merged attention on white tokens: relative error of the delay."""
    task, u = RegressionTask(eigenvalues=[0.5, 0.5], context_length=10), 0.02
    gamma = 0.25 * 2**0.5  # |Lambda^2|
    alpha = 0.5 * float(task.second_moment_eigenvalues[0])  # a lambda on each direction
    loss, weights = QuadraticLoss.population(task), MergedWeights(np.array([u]), u * np.eye(2)[None] / 2**0.5)

    def half(run: Trajectory) -> float:
        return reached(run, lambda B: float(np.linalg.norm(B)), gamma / alpha / 2)

    return error_of_delay(loss, weights, half, 40.0, (0.04, 0.02), partial(delay, gamma, alpha, u))


@claim("V8-loss", method="linear algebra", theory=formula("V8-loss", G, M, Lambda, step_size))
@wrong("eta doubled", {step_size: 2 * step_size})
@wrong("sign of M", {M: -M})
def modified_loss_by_differences(expected) -> float:
    """Minus half the gradient of the loss with eta/4 of its squared gradient, by central differences at one map."""
    loss, step, moment = QuadraticLoss.population(OBLIQUE_TASK), 0.3, OBLIQUE_TASK.second_moment
    force = OBLIQUE_TASK.covariance @ OBLIQUE_TASK.covariance - moment @ OBLIQUE_MAP @ OBLIQUE_TASK.covariance
    derived = expected(force, moment, OBLIQUE_TASK.covariance, step)
    slope = gradient_by_differences(lambda map_: loss.value(map_) + step / 4 * float(np.sum(loss.gradient(map_) ** 2)), OBLIQUE_MAP)
    return float(np.abs(derived + slope / 2).max())
