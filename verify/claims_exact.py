"""Claims that put numbers into statements proved by algebra alone: (V7-flow), (V8-loss), (V9-posterior), (V10-error), (V10-white)."""

from collections.abc import Callable

import numpy as np

from ..numerics.compile import compile_expression
from ..numerics.losses import QuadraticLoss
from ..numerics.tasks import RegressionTask
from ..numerics.weights import MergedWeights, SeparateWeights
from ..theory.discrete import eta
from ..theory.drop_bounds import C, kappa_d, kappa_e, q, r_d, r_e
from ..theory.drop_bounds import m as mean
from ..theory.drop_bounds import v as size_root
from ..theory.drop_bounds import z as along
from ..theory.equations import equation
from ..theory.merged_drop import K, c_vec, n
from ..theory.notation import D, G, Lambda, Lambda_hat, M, N, beta, lambda_, sigma
from ..theory.optimality import u
from ..theory.reduction import gamma, s
from ..theory.task_covariance import P_w, omega, p
from ..theory.two_steps import U, z
from .claims import claim
from .statements import compiled
from .tolerances import DIFFERENCES, ROUNDOFF, SAMPLING

TASK = RegressionTask(covariance=[[0.5, 0.2], [0.2, 0.4]], context_length=5)
POINT = np.array([[0.9, 0.3], [-0.2, 0.7]])


def _slope(function: Callable[[np.ndarray], float], point: np.ndarray) -> np.ndarray:
    """The gradient of a quadratic, for which central differences have no error but rounding."""
    units = np.eye(point.size).reshape(-1, *point.shape)
    return np.array([(function(point + e) - function(point - e)) / 2 for e in units]).reshape(point.shape)


_LOSS = equation("V8-loss").statement


@claim(
    "V8-loss",
    "minus half the gradient of the loss with eta/4 of its squared gradient, by central differences at one map",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=_LOSS,
    wrong={"eta doubled": _LOSS.subs(eta, 2 * eta), "sign of M": _LOSS.subs(M, -M)},
)
def modified_loss_by_differences(formula) -> float:
    loss, step, moment = QuadraticLoss.population(TASK), 0.3, TASK.second_moment
    force = TASK.covariance @ TASK.covariance - moment @ POINT @ TASK.covariance
    derived = compile_expression(formula, (G, M, Lambda, eta))(force, moment, TASK.covariance, step)
    slope = _slope(lambda map_: loss.value(map_) + step / 4 * float(np.sum(loss.gradient(map_) ** 2)), POINT)
    return float(np.abs(derived + slope / 2).max())


_POSTERIOR = equation("V9-posterior").statement


@claim(
    "V9-posterior",
    "the slope of the log posterior on a drawn context, by central differences at a drawn task vector",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=_POSTERIOR,
    wrong={"twice the noise": _POSTERIOR.subs(sigma, 2 * sigma), "N + 1 for N": _POSTERIOR.subs(N, N + 1)},
)
def posterior_by_differences(formula) -> float:
    rng, noise, length = np.random.default_rng(94), 0.7, 6
    X, labels, at = rng.standard_normal((length, 3)), rng.standard_normal(length), rng.standard_normal((3, 1))
    context = (X.T @ labels)[:, None] / length, X.T @ X / length
    derived = compile_expression(formula, (beta, Lambda_hat, u, N, sigma))(*context, at, length, noise)
    slope = _slope(lambda v: float(np.sum((labels - X @ v[:, 0]) ** 2) / noise**2 + np.sum(v**2)), at)
    return float(np.abs(derived + noise**2 / (2 * length) * slope).max())


_ERROR = equation("V10-error").statement


@claim(
    "V10-error",
    "the error of two steps of descent, taken one after the other for each unit task vector in a drawn context",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=_ERROR,
    wrong={"Lambda for Lambda_hat": _ERROR.subs(Lambda_hat, Lambda), "weight doubled": _ERROR.subs(U, 2 * U)},
)
def error_of_two_steps(formula) -> float:
    X = np.random.default_rng(95).standard_normal((5, 2))
    error = 0.0
    for task in np.eye(2):
        reached = np.zeros(2)
        for _ in range(2):
            reached = reached + POINT.T @ (X.T @ (X @ (task - reached)) / 5)
        error += (task - reached) @ TASK.covariance @ (task - reached)
    derived = compile_expression(formula, (Lambda, Lambda_hat, U))(TASK.covariance, X.T @ X / 5, POINT)
    return abs(float(derived) / float(error) - 1)


_WHITE = equation("V10-white").statement


@claim(
    "V10-white",
    "the loss of two steps for white tokens, averaged over 50,000 contexts of five tokens in three dimensions",
    method="Monte Carlo",
    tolerance=SAMPLING,
    theory=_WHITE,
    wrong={"N + 1 for N": _WHITE.subs(N, N + 1), "D + 1 for D": _WHITE.subs(D, D + 1)},
)
def white_loss_on_contexts(formula) -> float:
    X, scale = np.random.default_rng(96).standard_normal((50_000, 5, 3)), 0.4
    left = np.eye(3) - scale * np.einsum("pnd,pne->pde", X, X) / 5
    twice = left @ left
    each = np.einsum("pde,pde->p", twice, twice) / 3
    derived = float(compile_expression(formula, (z, D, N))(scale, 3, 5))
    return float(abs(each.mean() - derived) / (each.std() / len(each) ** 0.5))


_FLOW = equation("V7-flow").statement


@claim(
    "V7-flow",
    "the velocities of s and n beside those of all weights of three balanced heads in three directions",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=_FLOW,
    wrong={
        "s half as fast": _FLOW | {"size": _FLOW["size"] / 2},
        "curvature doubled": _FLOW | {"direction": _FLOW["direction"].subs(K, 2 * K)},
    },
)
def reduced_merged_flow(formulas) -> float:
    task, speed, map_speed = _moving_heads()
    given = (
        SIZE,
        UNIT[:, None],
        task.eigenvalues[:, None] ** 2,
        np.diag(task.eigenvalues * task.second_moment_eigenvalues),
    )
    derived = {part: compile_expression(formulas[part], (s, n, c_vec, K))(*given) for part in ("size", "direction")}
    turned = (map_speed - speed * UNIT)[:, None]
    return max(abs(float(np.squeeze(derived["size"])) - speed), float(np.abs(derived["direction"] - turned).max()))


VALUES, UNIT = np.array([0.5, -0.3, 0.4]), np.array([2.0, 1.0, 2.0]) / 3
SIZE = float(VALUES @ VALUES)


def _moving_heads() -> tuple[RegressionTask, float, np.ndarray]:
    """Three balanced heads on B = SIZE diag(UNIT): the task, and the velocities of the size and of the eigenvalues of B by all weights."""
    task = RegressionTask(eigenvalues=[0.5, 0.3, 0.1], context_length=10)
    weights = MergedWeights(VALUES, VALUES[:, None, None] * np.diag(UNIT))
    moved = weights.pull_back(-QuadraticLoss.population(task).gradient(weights.effective_map()) / 2)
    moving = np.einsum("h,hdd->d", moved.v, weights.U) + np.einsum("h,hdd->d", VALUES, moved.U)
    return task, 2 * float(VALUES @ moved.v), moving


def _behind(change: dict | None = None) -> dict[str, Callable[..., float]]:
    """The flows of (V7-behind) in the letters of the registry."""
    letters = {
        "flow": (r_d, kappa_d, s, gamma, C, q),
        "kept": (r_d, r_e, kappa_d, kappa_e, s, gamma),
        "v": (size_root, along, q, gamma),
        "z": (size_root, mean, gamma),
    }
    return {part: compiled("V7-behind", of, part, change) for part, of in letters.items()}


@claim(
    "V7-behind",
    "how each direction falls behind and how the size and its part along c grow, beside the velocities of all weights of three heads",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=_behind(),
    wrong={
        "curvature doubled": _behind({q: 2 * q}),
        "kappa halved": _behind({kappa_d: kappa_d / 2}),
        "m doubled": _behind({mean: 2 * mean}),
    },
)
def directions_fall_behind(flows) -> float:
    task, speed, map_speed = _moving_heads()
    c, kappa = task.eigenvalues**2, task.eigenvalues * task.second_moment_eigenvalues
    norm, root = float(np.linalg.norm(c)), SIZE**0.5
    turned = (map_speed - speed * UNIT) / SIZE
    r, moved = norm * UNIT / c, norm * turned / c
    part, curvature, mixed = float(c @ UNIT) / norm, float(UNIT @ (kappa * UNIT)), float(c @ (kappa * UNIT)) / norm
    z, speed_of_root = root * part, speed / (2 * root)
    errors = [np.abs(flows["flow"](r, kappa, SIZE, norm, part, curvature) - moved).max()]
    errors.append(flows["kept"](r[0], r[1], kappa[0], kappa[1], SIZE, norm) - (moved[0] / r[0] - moved[1] / r[1]))
    errors.append(flows["v"](root, z, curvature, norm) - speed_of_root)
    errors.append(flows["z"](root, root * mixed, norm) - (speed_of_root * part + root * float(c @ turned) / norm))
    return float(np.abs(errors).max())


def _order(change: dict | None = None) -> dict[str, Callable[..., float]]:
    """The parts of (V2-order)."""
    letters = {"rate": (lambda_, omega), "map": (lambda_, omega, P_w, N), "drop": (p, P_w, N), "slope": (p, P_w, N)}
    return {part: compiled("V2-order", of, part, change) for part, of in letters.items()}


@claim(
    "V2-order",
    "growth of small heads, what is learned and what it pays for three directions: velocities and losses of weights; slopes by differences",
    method="linear algebra",
    tolerance=DIFFERENCES,
    theory=_order(),
    wrong={
        "growth by lambda omega": _order() | {"rate": lambda value, size: value * size},
        "N + 1 for N": _order({N: N + 1}),
        "omega left out of the map": _order()
        | {"map": lambda value, size, *given: _order()["map"](value, 1.0, *given)},
    },
)
def growth_and_drops(parts) -> float:
    omegas = np.array([0.4, 1.1, 2.1])
    task = RegressionTask(eigenvalues=[0.9, 0.6, 0.3], task_covariance=np.diag(omegas), context_length=7)
    loss, values = QuadraticLoss.population(task), task.eigenvalues
    total, errors = float(values @ omegas), []
    for e, value, size in zip(np.eye(3), values, omegas, strict=True):
        small = SeparateWeights(np.array([1e-4]), 1e-4 * e[None, None], 1e-4 * e[None, None])
        moved = small.pull_back(-loss.gradient(small.effective_map()) / 2)
        level, product = parts["map"](value, size, total, 7), value * size
        errors.append(moved.v[0] / 1e-8 - parts["rate"](value, size))
        errors.append(float(e @ loss.force(level * np.outer(e, e)) @ e))
        errors.append(
            loss.value(np.zeros((3, 3))) - loss.value(level * np.outer(e, e)) - parts["drop"](product, total, 7)
        )
        ahead, back = (parts["drop"](product + step, total, 7) for step in (1e-5, -1e-5))
        errors.append((ahead - back) / 2e-5 - parts["slope"](product, total, 7))
    return float(np.abs(errors).max())
