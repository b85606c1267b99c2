"""Claims about the landscape: fixed points, Hessians, minimal norms."""

from typing import Any

import numpy as np
from scipy.optimize import minimize

from ....numerics import MergedWeights, Parametrization, QuadraticLoss, RegressionTask, SeparateWeights
from ....numerics.landscape.fixed_points import fixed_point_sets, index_at_minimal_norm, separate_fixed_point
from ...experiments import draws
from ...experiments.staircase import DEFAULT
from .. import formulas
from ..book import claim, wrong
from ..tolerances import COUNT, MINIMISER

TASK = DEFAULT.task
LOSS = QuadraticLoss.population(TASK)


def speed(weights: Parametrization) -> float:
    """The largest entry of the velocity (10) at the weights."""
    return float(np.abs(weights.pull_back(LOSS.force(weights.effective_map())).flatten()).max())


# Fixed points of merged attention


def without_correlation(U: np.ndarray) -> np.ndarray:
    """U_i minus their component along Lambda^2, so that W_1 E(y_q z) = 0."""
    square = TASK.covariance @ TASK.covariance
    along = np.einsum("hij,ij->h", U, square) / np.sum(square**2)
    return U - np.multiply.outer(along, square)


@claim("14a", method="linear algebra", theory=without_correlation)
@wrong("any W_1", lambda U: U)
def zero_function_fixed_points(condition) -> float:
    """Weights with w_2 = 0 and W_1 E(y_q z) = 0, but W_1 not zero, are at rest."""
    U = draws.generator(14).standard_normal((3, 4, 4))
    return speed(MergedWeights(np.zeros(3), condition(U)))


@claim("14-index", method="linear algebra", tolerance=COUNT, theory=3)
@wrong("one for all heads", 1)
def zero_function_index(index) -> float:
    """The number of negative Hessian eigenvalues at five points with w_2 = 0 and W_1 E(y_q z) = 0, three heads."""
    rng = draws.generator(15)
    points = (MergedWeights(np.zeros(3), without_correlation(rng.standard_normal((3, 4, 4)))) for _ in range(5))
    return max(abs(int(np.sum(np.linalg.eigvalsh(one.hessian(LOSS)) < -1e-10)) - index) for one in points)


@claim("14b", method="linear algebra", theory=formulas.least_squares_map)
@wrong("N + 1 for N", formulas.longer_context)
def global_minimum_is_at_rest(best) -> float:
    """Random weights whose effective map is the regression on z are at rest."""
    rng = draws.generator(16)
    v, U = rng.standard_normal(3), rng.standard_normal((3, 4, 4))
    U[-1] = (best(TASK) - np.einsum("h,hij->ij", v[:-1], U[:-1])) / v[-1]
    return speed(MergedWeights(v, U))


# Fixed points of separate attention


def fixed_point(task: RegressionTask, directions: tuple[int, ...], rank: int = 1) -> SeparateWeights:
    weights: Any = separate_fixed_point(task, directions, heads=5, rank=rank).weights
    return weights


SETS = tuple(fixed_point_sets(TASK, heads=5))


@claim("21", method="linear algebra", theory=fixed_point)
@wrong("N + 1 for N", formulas.longer_context)
def all_sets_are_at_rest(weights) -> float:
    """All 16 sets of learned eigenvectors, ranks one and two, in weights of minimal norm, are at rest."""
    return max(speed(weights(TASK, S, rank)) for S in SETS for rank in (1, 2))


def saddle_loss(task: RegressionTask, directions: tuple[int, ...]) -> float:
    """``tr(Lambda) - sum_{d in S} lambda_d^3 / a_d``."""
    lam, S = task.eigenvalues, list(directions)
    return float(lam.sum() - (lam**3 / formulas.moment_eigenvalues(task))[S].sum())


@claim("59", method="linear algebra", theory=saddle_loss)
@wrong("N + 1 for N", formulas.longer_context)
def losses_of_all_sets(loss) -> float:
    """The loss of all 16 sets of learned eigenvectors, from weights of minimal norm."""
    return max(abs(LOSS.value(fixed_point(TASK, S).effective_map()) - loss(TASK, S)) for S in SETS)


@claim("84", method="linear algebra", theory=lambda lam: ((0, 0, 1.7, 0), (0, 0, 0, -0.8)))
@wrong("key and query along one unlearned eigenvector", lambda lam: ((0, 0, 1.7, 0), (0, 0, -0.8, 0)))
def idle_heads_outside_the_span(head) -> float:
    """An idle head may have key and query outside the learned span: three learned-set examples at rest."""
    key, query = head(TASK.eigenvalues)
    worst = 0.0
    for S in ((), (0,), (0, 1)):
        w = fixed_point(TASK, S)
        k, q = w.k.copy(), w.q.copy()
        k[-1, 0], q[-1, 0] = key, query
        worst = max(worst, speed(SeparateWeights(w.v, k, q)))
    return worst


def index_without_order(task: RegressionTask, S: tuple[int, ...], rank: int) -> int:
    """A mistake: the index without the pairs, as if any set of eigenvectors were learned in order."""
    slots = rank * -(-len(S) // rank)
    return (slots - len(S)) * (task.dimension - len(S))


@claim("T2e", method="linear algebra", tolerance=COUNT, theory=lambda task, S, rank: index_at_minimal_norm(task, S, rank=rank))
@wrong("pairs out of order not counted", index_without_order)
def index_of_all_sets(index) -> float:
    """The number of negative Hessian eigenvalues at all 16 fixed points of minimal norm, ranks one and two."""
    points = ((S, rank, separate_fixed_point(TASK, S, heads=5, rank=rank)) for S in SETS for rank in (1, 2))
    return max(abs(point.index - index(TASK, S, rank)) for S, rank, point in points)


@claim("T2h", method="linear algebra", theory=(0.0, 0.0))
@wrong("with a value weight of one", (1.0, 0.0))
def origin_is_degenerate(point) -> float:
    """The Hessian of separate attention at the origin: its largest entry."""
    v, k = point
    weights = SeparateWeights(np.full(5, v), np.full((5, 1, 4), k), np.full((5, 1, 4), k))
    return float(np.abs(weights.hessian(LOSS)).max())


def least_norm(A: np.ndarray) -> float:
    """``3 sum_d sigma_d^(2/3)``: the least ``sum v^2 + |k|^2 + |q|^2`` with ``sum v k q' = A``."""
    return float(3 * np.sum(np.linalg.svd(A, compute_uv=False) ** (2 / 3)))


@claim("78", method="linear algebra", tolerance=MINIMISER, theory=least_norm)
@wrong("power 1/2", lambda A: float(3 * np.sum(np.linalg.svd(A, compute_uv=False) ** 0.5)))
@wrong("two heads sharing an eigenvector", lambda A: 2 ** (1 / 3) * least_norm(A))
def minimal_norm(bound) -> float:
    """The least norm of weights for a given asymmetric map, found by a constrained minimiser from eight starts, D = H = 2."""
    rng = draws.generator(78)
    A = np.array([[1.2, 0.4], [-0.3, 0.5]])

    def product(x: np.ndarray) -> np.ndarray:
        v, k, q = x[:2], x[2:6].reshape(2, 2), x[6:].reshape(2, 2)
        return (np.einsum("h,hi,hj->ij", v, k, q) - A).ravel()

    runs = [
        minimize(
            lambda x: x @ x, rng.standard_normal(10), jac=lambda x: 2 * x, method="SLSQP", options={"maxiter": 500, "ftol": 1e-12},
            constraints={"type": "eq", "fun": product},
        )
        for _ in range(8)
    ]  # fmt: skip
    return abs(min(run.fun for run in runs if np.abs(product(run.x)).max() < 1e-8) - bound(A))
