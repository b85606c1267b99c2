"""Claims about one drop: aligned heads, their scalar equation with its time integral, and the early dynamics before it."""

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from ....numerics import QuadraticLoss, RegressionTask, SeparateWeights, Trajectory, compiled, gradient_flow
from ....theory.notation import lambda_after, lambda_next, rho, w_init
from ...experiments import draws
from ...experiments.staircase import DEFAULT, final_weights, random_start, weights_at
from .. import formulas
from ..book import claim, wrong
from ..tolerances import LEADING_ORDER, SOLVER_TIGHT


def aligned_weights(task: RegressionTask, v: np.ndarray) -> SeparateWeights:
    """Head i at ``v_i (1, e_i, e_i)``: the invariant set (25), with as many heads as components."""
    directions = (v[:, None] * task.eigenvectors.T)[:, None, :]
    return SeparateWeights(v, directions, directions)


@draws.remembered
def _aligned_flow() -> Trajectory:
    v = np.array([0.10, 0.12, 0.15, 0.2])
    loss = QuadraticLoss.population(DEFAULT.task)
    return gradient_flow(loss, aligned_weights(DEFAULT.task, v), t_end=2000.0, rtol=1e-10)


@claim("25", method="flow", theory=formulas.learned_value_weights)
@wrong("square root for cube root", lambda task: formulas.learned_value_weights(task) ** 1.5)
@wrong("N + 1 for N", formulas.longer_context)
def learned_heads_flow(value_weights) -> float:
    """Value, key and query weights of four aligned heads at the end of the flow."""
    expected = aligned_weights(DEFAULT.task, value_weights(DEFAULT.task))
    return float(np.abs(_aligned_flow().states[-1] - expected.flatten()).max())


@claim("26", method="flow", theory=formulas.scalar_field)
@wrong("N + 1 for N", formulas.longer_context)
@wrong("v^4 for v^5", lambda task, v: task.eigenvalues**2 * v**2 - task.eigenvalues * formulas.moment_eigenvalues(task) * v**4)
def scalar_equations(field) -> float:
    """The value weights of four aligned heads against four separate scalar equations."""
    whole = _aligned_flow()
    times = np.linspace(0, whole.times[-1], 400)
    scalar = solve_ivp(lambda _, v: field(DEFAULT.task, v), (0, times[-1]), whole.arrays["v"][0], t_eval=times, rtol=1e-10, atol=1e-12)
    return float(np.abs(weights_at(whole, times)["v"] - scalar.y.T).max())


@claim("67", method="flow", theory=formulas.time_integral)
@wrong(
    "u - 1 for its square",
    lambda lam, a, v: formulas.time_integral(lam, a, v) + np.cbrt(a / lam) / (6 * lam**2) * np.log(np.abs(np.cbrt(a / lam) * v - 1)),
)
@wrong("1/v term left out", lambda lam, a, v: formulas.time_integral(lam, a, v) + 1 / (lam**2 * v))
def time_integral_flow(antiderivative) -> float:
    """The time at which each aligned head reaches 20, 50, 90 and 99 % of its weight."""
    lam, a = DEFAULT.task.eigenvalues, formulas.moment_eigenvalues(DEFAULT.task)
    whole, worst = _aligned_flow(), 0.0
    for d, goal in ((d, part * formulas.learned_value_weights(DEFAULT.task)[d]) for d in range(4) for part in (0.2, 0.5, 0.9, 0.99)):
        start = whole.arrays["v"][0, d]
        if goal <= start:
            continue
        t = antiderivative(lam[d], a[d], goal) - antiderivative(lam[d], a[d], start)
        if not 0 <= t <= whole.times[-1]:
            return float("inf")
        worst = max(worst, abs(weights_at(whole, t)["v"][d] / goal - 1))
    return worst


def plateau_correction(task: RegressionTask) -> np.ndarray:
    """``lambda^2 t/tau - 1/v(0)`` at half the final weight as v(0) goes to zero, from the finite part of (67)."""
    return -compiled("68-next", (rho,), part="constant")(0.5) / formulas.learned_value_weights(task)


@claim("68", method="flow", tolerance=LEADING_ORDER, theory=plateau_correction)
@wrong("equation (68) without correction", lambda task: 0 * task.eigenvalues)
def plateau_length_correction(correction) -> float:
    """lambda^2 t/tau - 1/v(0) for half the final weight: by how much 1/(lambda^2 v(0)) overstates a plateau."""
    v0, lam = 1e-3, DEFAULT.task.eigenvalues
    loss = QuadraticLoss.population(DEFAULT.task)
    run = gradient_flow(loss, aligned_weights(DEFAULT.task, np.full(4, v0)), t_end=1.2 / (v0 * lam[-1] ** 2), rtol=1e-10)
    half = 0.5 * formulas.learned_value_weights(DEFAULT.task)
    reached = [brentq(lambda t, d=d: weights_at(run, t)["v"][d] - half[d], 0, run.times[-1]) for d in range(4)]
    measured = lam**2 * np.array(reached) - 1 / v0
    return float(np.abs(correction(DEFAULT.task) / measured - 1).max())


def early_solution(task: RegressionTask, k: np.ndarray, q: np.ndarray, s: float) -> tuple[np.ndarray, np.ndarray]:
    """Keys and queries of equation (63) with ``s`` the integral of v/tau: sums grow, differences decay."""
    E, rate = task.eigenvectors, task.eigenvalues**2
    plus, minus = 0.5 * np.exp(rate * s) * (E.T @ (k + q)), 0.5 * np.exp(-rate * s) * (E.T @ (k - q))
    return E @ (plus + minus), E @ (plus - minus)


@claim("63", method="flow", tolerance=SOLVER_TIGHT, theory=early_solution)
@wrong(
    "lambda for lambda^2",
    lambda task, k, q, s: early_solution(
        RegressionTask(eigenvalues=np.sqrt(task.eigenvalues), context_length=task.context_length), k, q, s
    ),
)
@wrong("sum and difference exchanged", lambda task, k, q, s: early_solution(task, k, -q, s))
def early_keys_and_queries(solution) -> float:
    """Keys and queries under an oscillating value weight against the exponentials of its integral."""
    task, (k, q) = DEFAULT.task, draws.generator(63).standard_normal((2, 4))
    final, s = driven(task.covariance @ task.covariance, k, q)
    return float(np.abs(final - np.concatenate(solution(task, k, q, s))).max())


def driven(force: np.ndarray, k: np.ndarray, q: np.ndarray) -> tuple[np.ndarray, float]:
    """The key and the query of a head with an oscillating value weight, after the flow in a fixed force; and the integral of v/tau."""

    def field(t: float, y: np.ndarray) -> np.ndarray:
        return (0.3 + np.cos(3 * t)) * np.concatenate([force @ y[4:], force.T @ y[:4]])

    end = 12.0
    final = solve_ivp(field, (0, end), np.concatenate([k, q]), rtol=1e-10, atol=1e-12).y[:, -1]
    return final, 0.3 * end + np.sin(3 * end) / 3


def _power_left_out(learned: int) -> float:
    """The power of their scale with which falls what the velocities of small heads have beyond those in the force on the plateau."""
    task, start = DEFAULT.task, random_start(DEFAULT).weights
    loss, rest = QuadraticLoss.population(task), formulas.saddle_map(task, learned)
    omega = loss.force(rest)

    def remainder(scale: float) -> float:
        w = start.unflatten(scale * start.flatten())
        return float(np.linalg.norm(w.pull_back(loss.force(rest + w.effective_map())).flatten() - w.pull_back(omega).flatten()))

    return formulas.power_law([1e-1, 3e-2, 1e-2], remainder)


@claim("61", method="linear algebra", tolerance=LEADING_ORDER, theory=5.0)
@wrong("fourth power", 4.0)
@wrong("third power", 3.0)
def early_remainder(power) -> float:
    """The remainder of the early dynamics falls as the fifth power of the scale: fitted power minus theory's."""
    return abs(_power_left_out(0) - power)


@claim("69", method="linear algebra", tolerance=LEADING_ORDER, theory=5.0)
@wrong("third power", 3.0)
@wrong("fourth power", 4.0)
def waiting_remainder(power) -> float:
    """The remainder of the velocities of waiting heads on later plateaus falls as the fifth power of their scale: fitted less theory's."""
    return max(abs(_power_left_out(learned) - power) for learned in range(1, DEFAULT.task.dimension))


def _two_largest(task: RegressionTask) -> np.ndarray:
    return np.sort(task.eigenvalues)[:-3:-1]


@claim(
    "25-direction",
    method="flow",
    tolerance=LEADING_ORDER,
    theory=lambda task: -np.log(compiled("25-direction", (w_init, lambda_next, lambda_after))(np.exp(-1), *_two_largest(task))),
)
@wrong("first order", lambda task: 1.0)
@wrong("a ratio of eigenvalues without its square", lambda task: 1 - np.divide(*_two_largest(task)[::-1]))
def direction_in_mid_drop(power) -> float:
    """The power of the scale with which the tangent between a random head's key and the direction that it learns falls, in mid-drop."""
    task = DEFAULT.task
    loss, order = QuadraticLoss.population(task), np.argsort(-task.eigenvalues)
    k, q = draws.generator(25).standard_normal((2, 1, 1, 4))

    def tangent(scale: float) -> float:
        start = SeparateWeights(np.array([5 * scale]), scale * k, scale * q)
        run = gradient_flow(loss, start, t_end=400 / scale, stop_loss=loss.c - task.modes.drops.max() / 2)
        first, second = final_weights(run)["k"][0, 0, order[:2]]
        return abs(second / first)

    return abs(formulas.power_law([1e-3, 1e-4, 1e-5], tangent) - power(task))
