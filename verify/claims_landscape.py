"""Claims about the landscape and about small initial weights: fixed points, Hessians, minimal norms, lengths of plateaus."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq, minimize

from ..numerics.flow import gradient_flow
from ..numerics.landscape import fixed_point_sets, index_at_minimal_norm, separate_fixed_point
from ..numerics.losses import QuadraticLoss
from ..numerics.parametrization import Parametrization
from ..numerics.reduced import WhiteReduction
from ..numerics.tasks import RegressionTask
from ..numerics.trajectory import Trajectory
from ..numerics.weights import MergedWeights, SeparateWeights
from . import predictions
from .claims import claim
from .claims_drop import early_solution
from .claims_merged import effective_scale, white_flow_from_gaussian, white_task
from .claims_moments import largest_score
from .experiments import DEFAULT, SMALL, flow, plateaus
from .tolerances import (
    COUNT,
    LEADING_ORDER,
    MINIMISER,
    ROUNDOFF,
    SAMPLING,
    SECOND_ORDER,
    SOLVER,
    SOLVER_TIGHT,
)

TASK = DEFAULT.task
LOSS = QuadraticLoss.population(TASK)


def speed(weights: Parametrization) -> float:
    """The largest entry of the velocity (10) at the weights."""
    return float(np.abs(weights.pull_back(LOSS.force(weights.effective_map())).flatten()).max())


# Fixed points of merged attention


def without_correlation(U: np.ndarray) -> np.ndarray:
    """U_i less their component along Lambda^2: then W_1 E(y_q z) = 0."""
    square = TASK.covariance @ TASK.covariance
    along = np.einsum("hij,ij->h", U, square) / np.sum(square**2)
    return U - np.multiply.outer(along, square)


@claim(
    "14a",
    "weights with w_2 = 0 and W_1 E(y_q z) = 0, but W_1 not zero, are at rest",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=without_correlation,
    wrong={"any W_1": lambda U: U},
)
def zero_function_fixed_points(condition) -> float:
    U = np.random.default_rng(14).standard_normal((3, 4, 4))
    return speed(MergedWeights(np.zeros(3), condition(U)))


@claim(
    "14-index",
    "the number of negative Hessian eigenvalues at five such points with three heads",
    method="linear algebra",
    tolerance=COUNT,
    theory=3,
    wrong={"one for all heads": 1},
)
def zero_function_index(index) -> float:
    rng, worst = np.random.default_rng(15), 0.0
    for _ in range(5):
        weights = MergedWeights(np.zeros(3), without_correlation(rng.standard_normal((3, 4, 4))))
        spectrum = np.linalg.eigvalsh(weights.hessian(LOSS))
        worst = max(worst, abs(int(np.sum(spectrum < -1e-10)) - index))
    return worst


@claim(
    "14b",
    "random weights whose effective map is the regression on z are at rest",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=predictions.least_squares_map,
    wrong={"N + 1 for N": predictions.longer_context(predictions.least_squares_map)},
)
def global_minimum_is_at_rest(best) -> float:
    rng = np.random.default_rng(16)
    v, U = rng.standard_normal(3), rng.standard_normal((3, 4, 4))
    U[-1] = (best(TASK) - np.einsum("h,hij->ij", v[:-1], U[:-1])) / v[-1]
    return speed(MergedWeights(v, U))


# Fixed points of separate attention


def fixed_point(task: RegressionTask, directions: tuple[int, ...], rank: int = 1) -> SeparateWeights:
    weights = separate_fixed_point(task, directions, heads=5, rank=rank).weights
    if not isinstance(weights, SeparateWeights):
        raise TypeError(f"separate attention has separate weights, got {type(weights).__name__}")
    return weights


SETS = tuple(fixed_point_sets(TASK, heads=5))


@claim(
    "21",
    "all 16 sets of learned eigenvectors, ranks one and two, in weights of minimal norm, are at rest",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=fixed_point,
    wrong={"N + 1 for N": predictions.longer_context(fixed_point)},
)
def all_sets_are_at_rest(weights) -> float:
    return max(speed(weights(TASK, S, rank)) for S in SETS for rank in (1, 2))


def saddle_loss(task: RegressionTask, directions: tuple[int, ...]) -> float:
    """``tr(Lambda) - sum_{d in S} lambda_d^3 / a_d``."""
    lam, S = task.eigenvalues, list(directions)
    return float(lam.sum() - (lam**3 / predictions.moment_eigenvalues(task))[S].sum())


@claim(
    "59",
    "the loss at all 16 fixed points, from their weights",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=saddle_loss,
    wrong={"N + 1 for N": predictions.longer_context(saddle_loss)},
)
def losses_of_all_sets(loss) -> float:
    return max(abs(LOSS.value(fixed_point(TASK, S).effective_map()) - loss(TASK, S)) for S in SETS)


@claim(
    "84",
    "an idle head may have key and query outside the learned span: three learned-set examples at rest",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=lambda lam: ((0, 0, 1.7, 0), (0, 0, 0, -0.8)),
    wrong={"key and query along one unlearned eigenvector": lambda lam: ((0, 0, 1.7, 0), (0, 0, -0.8, 0))},
)
def idle_heads_outside_the_span(head) -> float:
    key, query = head(TASK.eigenvalues)
    worst = 0.0
    for S in ((), (0,), (0, 1)):
        w = fixed_point(TASK, S)
        k, q = w.k.copy(), w.q.copy()
        k[-1, 0], q[-1, 0] = key, query
        worst = max(worst, speed(SeparateWeights(w.v, k, q)))
    return worst


def index_without_order(task: RegressionTask, S: tuple[int, ...], rank: int) -> int:
    """The index with the pairs left out: as if any set of eigenvectors were learned in order."""
    slots = rank * -(-len(S) // rank)
    return (slots - len(S)) * (task.dimension - len(S))


@claim(
    "T2e",
    "the number of negative Hessian eigenvalues at all 16 fixed points of minimal norm, ranks one and two",
    method="linear algebra",
    tolerance=COUNT,
    theory=lambda task, S, rank: index_at_minimal_norm(task, S, rank=rank),
    wrong={"pairs out of order not counted": index_without_order},
)
def index_of_all_sets(index) -> float:
    points = ((S, rank, separate_fixed_point(TASK, S, heads=5, rank=rank)) for S in SETS for rank in (1, 2))
    return max(abs(point.index - index(TASK, S, rank)) for S, rank, point in points)


@claim(
    "T2h",
    "the Hessian of separate attention at the origin: its largest entry",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=(0.0, 0.0),
    wrong={"with a value weight of one": (1.0, 0.0)},
)
def origin_is_degenerate(point) -> float:
    v, k = point
    weights = SeparateWeights(np.full(5, v), np.full((5, 1, 4), k), np.full((5, 1, 4), k))
    return float(np.abs(weights.hessian(LOSS)).max())


def least_norm(A: np.ndarray) -> float:
    """``3 sum_d sigma_d^(2/3)``: the least ``sum v^2 + |k|^2 + |q|^2`` with ``sum v k q' = A``."""
    return float(3 * np.sum(np.linalg.svd(A, compute_uv=False) ** (2 / 3)))


@claim(
    "78",
    "the least norm of weights for a given random map, found by a constrained minimiser from eight starts, D = H = 2",
    method="linear algebra",
    tolerance=MINIMISER,
    theory=least_norm,
    wrong={
        "power 1/2": lambda A: float(3 * np.sum(np.linalg.svd(A, compute_uv=False) ** 0.5)),
        "two heads sharing an eigenvector": lambda A: 2 ** (1 / 3) * least_norm(A),
    },
)
def minimal_norm(bound) -> float:
    rng = np.random.default_rng(78)
    A = np.array([[1.2, 0.4], [-0.3, 0.5]])

    def product(x: np.ndarray) -> np.ndarray:
        v, k, q = x[:2], x[2:6].reshape(2, 2), x[6:].reshape(2, 2)
        return (np.einsum("h,hi,hj->ij", v, k, q) - A).ravel()

    runs = [
        minimize(
            lambda x: x @ x, rng.standard_normal(10), jac=lambda x: 2 * x, method="SLSQP", options={"maxiter": 300},
            constraints={"type": "eq", "fun": product},
        )
        for _ in range(8)
    ]  # fmt: skip
    return abs(min(run.fun for run in runs if np.abs(product(run.x)).max() < 1e-8) - bound(A))


# Initial weights


def _norms(draw: Callable[[np.random.Generator], Parametrization], count: int, seed: int) -> np.ndarray:
    """The squared norms of each array of weights, draw by draw."""
    rng = np.random.default_rng(seed)
    return np.array([[np.sum(array**2) for array in draw(rng).arrays] for _ in range(count)])


@claim(
    "35",
    "the mean squared norms of w_2 and W_1 over 2,000 draws, in units of w_init^2",
    method="Monte Carlo",
    tolerance=SAMPLING,
    theory=(1.0, 1.0),
    wrong={"W_1 of norm D^2": (1.0, 16.0), "norms for squares": (0.9, 0.9)},
)
def merged_initial_norms(means) -> float:
    samples = _norms(lambda rng: MergedWeights.initialize(TASK, heads=8, scale=1.0, rng=rng), 2000, 35)
    return largest_score(samples, np.array(means))


@claim(
    "37",
    "the mean squared norms of v, k and q of rank two over 2,000 draws, in units of w_init^2",
    method="Monte Carlo",
    tolerance=SAMPLING,
    theory=(1.0, 1.0, 1.0),
    wrong={"k and q of norm R": (1.0, 2.0, 2.0)},
)
def separate_initial_norms(means) -> float:
    samples = _norms(lambda rng: SeparateWeights.initialize(TASK, heads=5, rank=2, scale=1.0, rng=rng), 2000, 37)
    return largest_score(samples, np.array(means))


# White tokens


def balanced_white(task: RegressionTask, t: np.ndarray, s: float, p: float) -> tuple[np.ndarray, np.ndarray]:
    """s(t) and the alignment of m with E(y_q z), for a balanced start of any direction."""
    white = WhiteReduction(task.dimension, task.context_length, float(task.eigenvalues[0]))
    size, alignment = white.balanced(t, s, p)
    return np.asarray(size), np.asarray(alignment)


@claim(
    "44",
    "size and alignment of a balanced start whose direction is not E(y_q z): tanh of a shifted time",
    method="flow",
    tolerance=SOLVER,
    theory=balanced_white,
    wrong={"aligned from the start": lambda task, t, s, p: balanced_white(task, t, s, 0.999)},
)
def balanced_start_aligns(solution) -> float:
    task, rng = white_task(), np.random.default_rng(44)
    m = np.eye(4) / 2 + 0.6 * rng.standard_normal((4, 4))
    m /= np.linalg.norm(m)
    w2 = rng.standard_normal(6)
    w2 *= 0.1 / np.linalg.norm(w2)
    start = MergedWeights(w2, np.multiply.outer(w2, m))
    run = gradient_flow(QuadraticLoss.population(task), start, t_end=8.0, rtol=1e-10)
    t = np.linspace(0, 8.0, 100)
    maps = run.effective_map_at(t)
    s = np.linalg.norm(maps, axis=(1, 2))
    p = np.trace(maps, axis1=1, axis2=2) / 2 / s
    expected = solution(task, t, 0.01, float(np.trace(m) / 2))
    return float(max(np.abs(s - expected[0]).max(), np.abs(p - expected[1]).max()))


def half_time(task: RegressionTask, s: float) -> float:
    """When sigma is half its final value: ``ln(gamma/(alpha s) - 1)/(2 gamma)``."""
    lam, D, N = task.eigenvalues[0], task.dimension, task.context_length
    alpha, gamma = lam**3 * (1 + (1 + D) / N), lam**2 * np.sqrt(D)
    return float(np.log(gamma / (alpha * s) - 1) / (2 * gamma))


@claim(
    "49",
    "the time of half the rise from Gaussian weights of scale 0.01, white tokens, with the effective scale",
    method="flow",
    tolerance=SECOND_ORDER,
    theory=half_time,
    wrong={"ln(1/s)/(2 gamma) alone": lambda task, s: np.log(1 / s) / (2 * np.sqrt(task.dimension))},
)
def white_half_time(formula) -> float:
    run = white_flow_from_gaussian(1e-2)
    final = 1 / (1 + 5 / 31)
    measured = brentq(lambda t: np.trace(run.effective_map_at(t)) / 4 - final / 2, 0, run.times[-1])
    return abs(measured - formula(white_task(), effective_scale(*run.initial.arrays)))


# Plateaus of separate attention


@claim(
    "71",
    "the force on the map along the invariant set with two components learned and the third growing",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=lambda task, v: np.diag([0, 0, task.eigenvalues[2] ** 2 - task.eigenvalues[2] * predictions.moment_eigenvalues(task)[2]
                                    * v**3, task.eigenvalues[3] ** 2]),
    wrong={"v^2 for v^3": lambda task, v: np.diag([0, 0, task.eigenvalues[2] ** 2 - task.eigenvalues[2]
                                                   * predictions.moment_eigenvalues(task)[2] * v**2, task.eigenvalues[3] ** 2])},
)  # fmt: skip
def force_while_growing(force) -> float:
    v = predictions.learned_value_weights(TASK) * np.array([1, 1, 0.4, 0])
    B = np.diag(v**3)
    return float(np.abs(LOSS.force(B) - force(TASK, v[2])).max())


def later_solution(
    task: RegressionTask, k: np.ndarray, q: np.ndarray, s: float, learned: int, *, constant: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Equation (70): exponentials in the unlearned directions, and the learned components as they were."""
    still = task.eigenvectors[:, :learned] @ task.eigenvectors[:, :learned].T
    moved = early_solution(task, k - still @ k, q - still @ q, s)
    return moved[0] + constant * still @ k, moved[1] + constant * still @ q


@claim(
    "70",
    "keys and queries of an idle head with two components learned, under an oscillating value weight",
    method="flow",
    tolerance=SOLVER_TIGHT,
    theory=later_solution,
    wrong={"learned components left out": lambda *a: later_solution(*a, constant=0.0),
           "half of them": lambda *a: later_solution(*a, constant=0.5)},
)  # fmt: skip
def later_keys_and_queries(solution) -> float:
    k, q = np.random.default_rng(70).standard_normal((2, 4))
    omega = LOSS.force(predictions.saddle_map(TASK, 2))

    def field(t: float, y: np.ndarray) -> np.ndarray:
        return (0.3 + np.cos(3 * t)) * np.concatenate([omega @ y[4:], omega.T @ y[:4]])

    end = 12.0
    final = solve_ivp(field, (0, end), np.concatenate([k, q]), rtol=1e-10, atol=1e-12).y[:, -1]
    expected = np.concatenate(solution(TASK, k, q, 0.3 * end + np.sin(3 * end) / 3, 2))
    return float(np.abs(final - expected).max())


@claim(
    "73",
    "all four drop times grow as 1/w_init: from scale 0.01 to 0.001, in units of theory's factor",
    method="flow",
    tolerance=LEADING_ORDER,
    theory=lambda ratio: ratio,
    wrong={"ln(1/w_init), as for merged attention": lambda ratio: np.log(1e3) / np.log(1e2)},
)
def plateaus_grow_inversely(growth) -> float:
    smaller = flow(replace(SMALL, scale=SMALL.scale / 10, duration=10 * SMALL.duration))
    return float(np.abs(plateaus(smaller).drops / plateaus(flow(SMALL)).drops / growth(10.0) - 1).max())


def brief_plateau(task: RegressionTask) -> float:
    """d(t_2 - t_1)/d ln(1/w_init) = (1 - (lambda_2/lambda_1)^2)/(v lambda_2^2), v = (lambda_1/a_1)^(1/3), at full rank."""
    lam = task.eigenvalues
    return (1 - (lam[1] / lam[0]) ** 2) / (predictions.learned_value_weights(task)[0] * lam[1] ** 2)


@claim(
    "T3",
    "at rank four the second drop follows the first after a time that grows as ln(1/w_init), at theory's rate",
    method="flow",
    tolerance=LEADING_ORDER,
    theory=brief_plateau,
    wrong={
        "without the growth before the first drop": lambda task: brief_plateau(task) / (1 - (0.3 / 0.4) ** 2),
        "lambda_1 for lambda_2": lambda task: brief_plateau(task) * (0.3 / 0.4) ** 2,
    },
)
def brief_plateaus_at_full_rank(rate) -> float:
    levels, gaps, scales = predictions.plateau_losses(TASK), [], np.array([1e-4, 1e-5, 1e-6])
    for scale in scales:
        setting = replace(DEFAULT, rank=4, scale=float(scale), duration=10 / scale)
        run = gradient_flow(
            LOSS, setting.weights, t_end=40 * setting.duration, stop_loss=(levels[2] + levels[1]) / 2 - 0.02
        )
        first, second = (crossing(run, (levels[m] + levels[m + 1]) / 2) for m in (0, 1))
        gaps.append(second - first)
    slope = np.polyfit(np.log(1 / scales), gaps, 1)[0]
    return float(abs(slope / rate(TASK) - 1))


def crossing(run: Trajectory, level: float) -> float:
    """When the loss falls below a level."""
    after = int(np.argmax(run.loss < level))
    time = brentq(lambda t: float(run.loss_at(t)) - level, run.times[after - 1], run.times[after])
    return float(np.asarray(time))
