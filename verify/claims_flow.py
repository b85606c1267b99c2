"""Claims about gradient flow: closed forms, fixed points, plateaus and drops against integrated trajectories."""

from functools import cache

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from ..numerics.flow import gradient_flow
from ..numerics.losses import QuadraticLoss
from ..numerics.tasks import RegressionTask
from ..numerics.trajectory import Trajectory
from ..numerics.weights import MergedWeights, SeparateWeights
from . import predictions
from .claims import claim
from .experiments import DEFAULT, SMALL, flow, plateaus
from .tolerances import (
    ALIGNMENT,
    CONVERGED,
    COUNT,
    DROP_TIME,
    LEADING_ORDER,
    PLATEAU,
    ROUNDOFF,
    SECOND_ORDER,
    SOLVER,
    SOLVER_TIGHT,
)


def weights_at(run: Trajectory, t: float | np.ndarray) -> dict[str, np.ndarray]:
    """The weights by name at one or several times, time as the first axis."""
    return dict(zip(run.initial.shape_letters, run.initial.split(run.states_at(t)), strict=True))


def final_weights(run: Trajectory) -> dict[str, np.ndarray]:
    return {name: array[-1] for name, array in run.arrays.items()}


# Plateaus of separate attention


@claim(
    "24",
    "the loss on the five plateaus of the flow from weights of scale 0.01",
    method="flow",
    tolerance=PLATEAU,
    theory=predictions.plateau_losses,
    wrong={
        "N + 1 for N": predictions.longer_context(predictions.plateau_losses),
        "drops of exactly lambda_m": predictions.infinite_context(predictions.plateau_losses),
    },
)
def plateau_losses_flow(losses) -> float:
    levels, expected = plateaus(flow(SMALL)).levels, losses(SMALL.task)
    if len(levels) != len(expected):
        raise ArithmeticError(f"the flow has {len(levels)} plateaus, theory has {len(expected)}")
    return float(np.abs(levels / expected - 1).max())


@claim(
    "24",
    "the loss at the end of the flow, all components learned",
    method="flow",
    tolerance=CONVERGED,
    theory=predictions.plateau_losses,
    wrong={"N + 1 for N": predictions.longer_context(predictions.plateau_losses)},
)
def final_loss_flow(losses) -> float:
    return abs(flow().loss[-1] / losses(DEFAULT.task)[-1] - 1)


def _middles(trajectory: Trajectory) -> np.ndarray:
    found = plateaus(trajectory)
    return (found.starts + found.ends) / 2


@claim(
    "23",
    "the effective map in the middle of each plateau against the m leading components",
    method="flow",
    tolerance=PLATEAU,
    theory=predictions.saddle_map,
    wrong={
        "1/lambda without its factor": predictions.infinite_context(predictions.saddle_map),
        "one component too many": lambda task, m: predictions.saddle_map(task, min(m + 1, 4)),
    },
)
def plateau_maps_flow(saddle_map) -> float:
    maps = flow(SMALL).effective_map_at(_middles(flow(SMALL)))
    scale = np.abs(predictions.saddle_map(SMALL.task, 4)).max()
    return float(max(np.abs(B - saddle_map(SMALL.task, m)).max() for m, B in enumerate(maps)) / scale)


def aligned_weights(task: RegressionTask, v: np.ndarray) -> SeparateWeights:
    """Head i at ``v_i (1, e_i, e_i)``: the invariant set (25), with as many heads as components."""
    directions = (v[:, None] * task.eigenvectors.T)[:, None, :]
    return SeparateWeights(v, directions, directions)


@claim(
    "25",
    "value, key and query weights of four aligned heads at the end of the flow",
    method="flow",
    tolerance=SOLVER,
    theory=predictions.learned_value_weights,
    wrong={
        "square root for cube root": lambda task: predictions.learned_value_weights(task) ** 1.5,
        "N + 1 for N": predictions.longer_context(predictions.learned_value_weights),
    },
)
def learned_heads_flow(value_weights) -> float:
    expected = aligned_weights(DEFAULT.task, value_weights(DEFAULT.task))
    return float(np.abs(_aligned_flow().states[-1] - expected.flatten()).max())


@claim(
    "25",
    "the value weights that Gaussian initial weights learn, one head a component",
    method="flow",
    tolerance=PLATEAU,
    theory=predictions.learned_value_weights,
    wrong={"no 1/N": predictions.infinite_context(predictions.learned_value_weights)},
)
def learned_value_weights_flow(value_weights) -> float:
    v = np.sort(np.abs(flow(SMALL).arrays["v"][-1]))[::-1]
    expected = np.sort(value_weights(SMALL.task))[::-1]
    return float(np.abs(v[:4] / expected - 1).max())


@claim(
    "Sec. 4.3",
    "the largest cosine between a learned key and its eigenvector falls short of one",
    method="flow",
    tolerance=ALIGNMENT,
    theory=lambda task: task.eigenvectors,
    wrong={"axes turned by 20 degrees": lambda task: _turn(20) @ task.eigenvectors},
)
def learned_keys_align(eigenvectors) -> float:
    w = final_weights(flow(SMALL))
    learned = np.argsort(-np.abs(w["v"]))[:4]
    k = w["k"][learned, 0] / np.linalg.norm(w["k"][learned, 0], axis=1, keepdims=True)
    cosines = np.abs(k @ eigenvectors(SMALL.task)).max(axis=1)
    return float(1 - cosines.min())


def _turn(degrees: float) -> np.ndarray:
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    turn = np.eye(4)
    turn[:2, :2] = [[c, -s], [s, c]]
    return turn


@claim(
    "Sec. 4.3",
    "the components are learned in the order of their eigenvalues: position of each drop",
    method="flow",
    tolerance=COUNT,
    theory=lambda task: np.argsort(-task.eigenvalues),
    wrong={"smallest first": lambda task: np.argsort(task.eigenvalues)},
)
def order_of_learning(order) -> float:
    maps = flow(SMALL).effective_map_at(_middles(flow(SMALL)))
    diagonal = np.diagonal(maps, axis1=1, axis2=2) / np.diag(predictions.saddle_map(SMALL.task, 4))
    gained = np.argmax(np.diff(diagonal, axis=0), axis=1)
    return float(np.abs(gained - order(SMALL.task)).max())


# The scalar equations


@cache
def _aligned_flow() -> Trajectory:
    v = np.array([0.10, 0.12, 0.15, 0.2])
    loss = QuadraticLoss.population(DEFAULT.task)
    return gradient_flow(loss, aligned_weights(DEFAULT.task, v), t_end=2000.0, rtol=1e-10)


def scalar_field(task: RegressionTask, v: np.ndarray) -> np.ndarray:
    """``tau dv/dt = lambda^2 v^2 - lambda a v^5``, equation (26)."""
    lam = task.eigenvalues
    return lam**2 * v**2 - lam * predictions.moment_eigenvalues(task) * v**5


@claim(
    "26",
    "the value weights of four aligned heads against four separate scalar equations",
    method="flow",
    tolerance=SOLVER,
    theory=scalar_field,
    wrong={
        "N + 1 for N": predictions.longer_context(scalar_field),
        "v^4 for v^5": lambda task, v: (
            task.eigenvalues**2 * v**2 - task.eigenvalues * predictions.moment_eigenvalues(task) * v**4
        ),
    },
)
def scalar_equations(field) -> float:
    whole = _aligned_flow()
    times = np.linspace(0, whole.times[-1], 400)
    scalar = solve_ivp(
        lambda _, v: field(DEFAULT.task, v), (0, times[-1]), whole.arrays["v"][0], t_eval=times, rtol=1e-10, atol=1e-12
    )
    return float(np.abs(weights_at(whole, times)["v"] - scalar.y.T).max())


def time_integral(lam: np.ndarray, a: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The antiderivative of equation (67) at ``v``, up to a constant: ``t/tau`` is its change."""
    u = np.cbrt(a / lam) * v
    inner = np.log((u**2 + u + 1) / (u - 1) ** 2) - 2 * np.sqrt(3) * np.arctan((2 * u + 1) / np.sqrt(3))
    return np.cbrt(a / lam) / (6 * lam**2) * inner - 1 / (lam**2 * v)


def _without_square(lam: np.ndarray, a: np.ndarray, v: np.ndarray) -> np.ndarray:
    u = np.cbrt(a / lam) * v
    return time_integral(lam, a, v) + np.cbrt(a / lam) / (6 * lam**2) * np.log(np.abs(u - 1))


@claim(
    "67",
    "the time at which each aligned head reaches 1, 10, 50, 90 and 99 % of its weight",
    method="flow",
    tolerance=SOLVER,
    theory=time_integral,
    wrong={
        "u - 1 for its square": _without_square,
        "1/v term left out": lambda lam, a, v: time_integral(lam, a, v) + 1 / (lam**2 * v),
    },
)
def time_integral_flow(antiderivative) -> float:
    lam, a = DEFAULT.task.eigenvalues, predictions.moment_eigenvalues(DEFAULT.task)
    whole, worst = _aligned_flow(), 0.0
    for d, goal in (
        (d, part * predictions.learned_value_weights(DEFAULT.task)[d]) for d in range(4) for part in _PARTS
    ):
        start = whole.arrays["v"][0, d]
        if goal <= start:
            continue
        t = antiderivative(lam[d], a[d], goal) - antiderivative(lam[d], a[d], start)
        if not 0 <= t <= whole.times[-1]:
            return float("inf")
        worst = max(worst, abs(weights_at(whole, t)["v"][d] / goal - 1))
    return worst


_PARTS = (0.2, 0.5, 0.9, 0.99)


def plateau_correction(task: RegressionTask) -> np.ndarray:
    """``lambda^2 t/tau - 1/v(0)`` at half the final weight as v(0) goes to zero, from the finite part of (67)."""
    lam, a = task.eigenvalues, predictions.moment_eigenvalues(task)
    half = 0.5 * predictions.learned_value_weights(task)
    start = -2 * np.sqrt(3) * np.arctan(1 / np.sqrt(3)) * np.cbrt(a / lam) / (6 * lam**2)
    return lam**2 * (time_integral(lam, a, half) - start)


@claim(
    "68",
    "lambda^2 t/tau - 1/v(0) for half the final weight: by how much 1/(lambda^2 v(0)) overstates a plateau",
    method="flow",
    tolerance=LEADING_ORDER,
    theory=plateau_correction,
    wrong={"equation (68) without correction": lambda task: 0 * task.eigenvalues},
)
def plateau_length_correction(correction) -> float:
    v0, lam = 1e-3, DEFAULT.task.eigenvalues
    loss = QuadraticLoss.population(DEFAULT.task)
    run = gradient_flow(
        loss, aligned_weights(DEFAULT.task, np.full(4, v0)), t_end=1.2 / (v0 * lam[-1] ** 2), rtol=1e-10
    )
    half = 0.5 * predictions.learned_value_weights(DEFAULT.task)
    reached = [brentq(lambda t, d=d: weights_at(run, t)["v"][d] - half[d], 0, run.times[-1]) for d in range(4)]
    measured = lam**2 * np.array(reached) - 1 / v0
    return float(np.abs(correction(DEFAULT.task) / measured - 1).max())


def early_solution(task: RegressionTask, k: np.ndarray, q: np.ndarray, s: float) -> tuple[np.ndarray, np.ndarray]:
    """Keys and queries of equation (63) with ``s`` the integral of v/tau: sums grow, differences decay."""
    E, rate = task.eigenvectors, task.eigenvalues**2
    plus, minus = 0.5 * np.exp(rate * s) * (E.T @ (k + q)), 0.5 * np.exp(-rate * s) * (E.T @ (k - q))
    return E @ (plus + minus), E @ (plus - minus)


@claim(
    "63",
    "keys and queries under an oscillating value weight against the exponentials of its integral",
    method="flow",
    tolerance=SOLVER_TIGHT,
    theory=early_solution,
    wrong={
        "lambda for lambda^2": lambda task, k, q, s: early_solution(
            RegressionTask(eigenvalues=np.sqrt(task.eigenvalues), context_length=task.context_length), k, q, s
        ),
        "sum and difference exchanged": lambda task, k, q, s: early_solution(task, k, -q, s),
    },
)
def early_keys_and_queries(solution) -> float:
    task, rng = DEFAULT.task, np.random.default_rng(63)
    k, q = rng.standard_normal((2, 4))
    square = task.covariance @ task.covariance

    def field(t: float, y: np.ndarray) -> np.ndarray:
        v = 0.3 + np.cos(3 * t)
        return v * np.concatenate([square @ y[4:], square @ y[:4]])

    end = 12.0
    final = solve_ivp(field, (0, end), np.concatenate([k, q]), rtol=1e-10, atol=1e-12).y[:, -1]
    return float(np.abs(final - np.concatenate(solution(task, k, q, 0.3 * end + np.sin(3 * end) / 3))).max())


@claim(
    "61",
    "the remainder of the early dynamics falls as the fifth power of the scale: fitted power minus theory's",
    method="linear algebra",
    tolerance=LEADING_ORDER,
    theory=5.0,
    wrong={"fourth power": 4.0, "third power": 3.0},
)
def early_remainder(power) -> float:
    task, loss = DEFAULT.task, QuadraticLoss.population(DEFAULT.task)
    unit = DEFAULT.weights.flatten()
    scales = np.array([1e-1, 3e-2, 1e-2])
    remainders = []
    for scale in scales:
        w = DEFAULT.weights.unflatten(scale * unit)
        early = w.pull_back(task.covariance @ task.covariance)
        remainders.append(np.linalg.norm(w.pull_back(loss.force(w.effective_map())).flatten() - early.flatten()))
    return abs(np.polyfit(np.log(scales), np.log(remainders), 1)[0] - power)


# Units of time and conservation


@claim(
    "10",
    "the four drop times scale with tau: tau of 1e-9 and 1e9",
    method="flow",
    tolerance=DROP_TIME,
    theory=lambda tau: tau,
    wrong={"square root of tau": lambda tau: np.sqrt(tau)},
)
def drop_times_scale_with_tau(unit) -> float:
    reference = plateaus(flow()).drops
    worst = 0.0
    for tau in (1e-9, 1e9):
        run = gradient_flow(flow().objective, DEFAULT.weights, t_end=DEFAULT.duration * tau, tau=tau)
        worst = max(worst, np.abs(plateaus(run).drops / (unit(tau) * reference) - 1).max())
    return float(worst)


@claim(
    "10",
    "the four drop times when the solver's tolerance is tightened a hundredfold",
    method="flow",
    tolerance=DROP_TIME,
    theory=1e-10,
    wrong={"a tolerance of 0.05": 5e-2},
)
def drop_times_converge(rtol) -> float:
    return float(np.abs(plateaus(flow(DEFAULT, rtol)).drops / plateaus(flow()).drops - 1).max())


@claim(
    "79",
    "k'k - q'q and k'k - v^2 along the whole staircase",
    method="flow",
    tolerance=SOLVER,
    theory=lambda v, k, q: np.concatenate([_squares(k) - _squares(q), _squares(k) - v**2], axis=-1),
    wrong={"2 v^2 for v^2": lambda v, k, q: _squares(k) - 2 * v**2},
)
def conservation_along_the_flow(conserved) -> float:
    values = conserved(*(flow().arrays[name] for name in ("v", "k", "q")))
    return float(np.abs(values - values[0]).max())


def _squares(k: np.ndarray) -> np.ndarray:
    return np.einsum("...hrd,...hrd->...h", k, k)


# Merged attention


def white_task(eigenvalue: float = 1.0, dimension: int = 4, context_length: int = 31) -> RegressionTask:
    return RegressionTask(eigenvalues=[eigenvalue] * dimension, context_length=context_length)


def balanced_white_weights(task: RegressionTask, w_init: float, heads: int = 8) -> MergedWeights:
    """``W_1 = w_2 vec(I)'/sqrt(D)`` with ``|w_2| = w_init``: where (15) is exact."""
    rng = np.random.default_rng(15)
    v = rng.standard_normal(heads)
    v *= w_init / np.linalg.norm(v)
    return MergedWeights(v, np.multiply.outer(v, np.eye(task.dimension) / np.sqrt(task.dimension)))


@cache
def _white_flow(eigenvalue: float = 1.0, w_init: float = 1e-2) -> Trajectory:
    task = white_task(eigenvalue)
    loss = QuadraticLoss.population(task)
    end = 12.0 / eigenvalue**2
    return gradient_flow(loss, balanced_white_weights(task, w_init), t_end=end, rtol=1e-10)


def _sigma_error(sigmoid, eigenvalue: float) -> float:
    run, w_init = _white_flow(eigenvalue), 1e-2
    t = np.linspace(0, run.times[-1], 200)
    maps = run.effective_map_at(t)
    expected = sigmoid(white_task(eigenvalue), t, w_init**2)
    return float(np.abs(maps - expected[:, None, None] * np.eye(4)).max() * eigenvalue)


def _half_time(task: RegressionTask, t: np.ndarray, s: float) -> np.ndarray:
    return predictions.white_sigmoid(task, t / 2, s)


@claim(
    "15",
    "the effective map from balanced, aligned weights against the sigmoid times I",
    method="flow",
    tolerance=SOLVER,
    theory=predictions.white_sigmoid,
    wrong={
        "t for 2 t": _half_time,
        "N + 1 for N": predictions.longer_context(predictions.white_sigmoid),
        "w_init for its square": lambda task, t, s: predictions.white_sigmoid(task, t, np.sqrt(s)),
    },
)
def white_sigmoid_flow(sigmoid) -> float:
    return _sigma_error(sigmoid, 1.0)


@claim(
    "47",
    "the same for Lambda = I/4: alpha = lambda^3 (1 + (1 + D)/N), gamma = lambda^2 sqrt(D)",
    method="flow",
    tolerance=SOLVER,
    theory=predictions.white_sigmoid,
    wrong={"rates of Lambda = I": lambda task, t, s: predictions.white_sigmoid(white_task(), t / 16, s)},
)
def scaled_white_sigmoid_flow(sigmoid) -> float:
    return _sigma_error(sigmoid, 0.25)


def white_loss(task: RegressionTask, sigma: np.ndarray) -> np.ndarray:
    """``(1 - 2 sigma + (1 + (1 + D)/N) sigma^2) D``, equation (48), for Lambda = I."""
    D, N = task.dimension, task.context_length
    return (1 - 2 * sigma + (1 + (1 + D) / N) * sigma**2) * D


@claim(
    "48",
    "the loss along the white flow as a function of sigma",
    method="flow",
    tolerance=ROUNDOFF,
    theory=white_loss,
    wrong={"N + 1 for N": predictions.longer_context(white_loss)},
)
def white_loss_flow(loss) -> float:
    run = _white_flow()
    sigma = run.effective_maps[:, 0, 0]
    return float(np.abs(run.loss - loss(white_task(), sigma)).max())


@cache
def white_flow_from_gaussian(w_init: float, seed: int = 44) -> Trajectory:
    task = white_task()
    weights = MergedWeights.initialize(task, heads=8, scale=w_init, rng=np.random.default_rng(seed))
    return gradient_flow(QuadraticLoss.population(task), weights, t_end=4 * np.log(1 / w_init) / 2 + 6, rtol=1e-10)


def effective_scale(v: np.ndarray, U: np.ndarray) -> float:
    """``|w_2 + W_1 m|^2/4`` with m the direction of E(y_q z): the part of the start that grows."""
    return float(0.25 * np.sum((v + np.trace(U, axis1=1, axis2=2) / np.sqrt(U.shape[-1])) ** 2))


@claim(
    "15",
    "from Gaussian weights, with the effective scale |w_2 + W_1 m|^2/4 in place of w_init^2",
    method="flow",
    tolerance=SECOND_ORDER,
    theory=effective_scale,
    wrong={"the nominal |w_2|^2": lambda v, U: float(np.sum(v**2))},
)
def white_sigmoid_gaussian(scale) -> float:
    run = white_flow_from_gaussian(1e-2)
    t = np.linspace(0, run.times[-1], 200)
    sigma = np.trace(run.effective_map_at(t), axis1=1, axis2=2) / 4
    return float(np.abs(sigma - predictions.white_sigmoid(white_task(), t, scale(*run.initial.arrays))).max())


@cache
def merged_flow(w_init: float = 1e-3, seed: int = 16, duration: float = 400.0) -> Trajectory:
    """Merged attention on the anisotropic default task."""
    weights = MergedWeights.initialize(DEFAULT.task, heads=8, scale=w_init, rng=np.random.default_rng(seed))
    return gradient_flow(QuadraticLoss.population(DEFAULT.task), weights, t_end=duration)


@claim(
    "16",
    "the effective map of merged attention at the end of the flow",
    method="flow",
    tolerance=CONVERGED,
    theory=predictions.least_squares_map,
    wrong={
        "N + 1 for N": predictions.longer_context(predictions.least_squares_map),
        "the inverse of Lambda": predictions.infinite_context(predictions.least_squares_map),
    },
)
def merged_converges_to_least_squares(least_squares) -> float:
    run = merged_flow(duration=4000.0)
    return float(np.abs(run.effective_maps[-1] - least_squares(DEFAULT.task)).max())


@claim(
    "Sec. 3.3",
    "the number of drops of merged attention, after one plateau",
    method="flow",
    tolerance=COUNT,
    theory=1,
    wrong={"as many as components": 4},
)
def merged_drops_once(drops) -> float:
    return abs(len(plateaus(merged_flow()).drops) - drops)


@claim(
    "51",
    "how much later the drop comes for each tenfold smaller start, times the norm of Lambda^2, over ln 10",
    method="flow",
    tolerance=LEADING_ORDER,
    theory=lambda task: np.linalg.norm(task.covariance @ task.covariance),
    wrong={
        "the largest eigenvalue": lambda task: task.eigenvalues.max() ** 2,
        "the norm of Lambda": lambda task: np.linalg.norm(task.covariance),
    },
)
def merged_escape_rate(rate) -> float:
    times = [plateaus(merged_flow(w)).drops[0] for w in (1e-3, 1e-4, 1e-5)]
    return float(np.abs(np.diff(times) * rate(DEFAULT.task) / np.log(10) - 1).max())


@claim(
    "17",
    "heads become parallel: W_1 W_1' against w_2 w_2' at the end of the flow, relative",
    method="flow",
    tolerance=ALIGNMENT,
    theory=lambda w_2: np.outer(w_2, w_2),
    wrong={"only the norms": lambda w_2: np.diag(w_2**2)},
)
def merged_heads_become_parallel(gram) -> float:
    w = final_weights(merged_flow())
    W_1 = w["U"].reshape(len(w["v"]), -1)
    return float(np.linalg.norm(W_1 @ W_1.T - gram(w["v"])) / np.linalg.norm(gram(w["v"])))
