"""Claims about task vectors of any covariance (V2): moments, whitening and congruence, from tasks and from trained networks."""

import numpy as np
from jaxtyping import Float

from ....numerics import QuadraticLoss, RegressionTask, SeparateWeights
from ....theory.notation import Lambda, M, N, lambda_
from ....theory.results.landscape.any_quadratic_loss import A_w, B_w, c_any
from ....theory.results.task.population import Sigma_w
from ....theory.results.variations.labels import C, P_w, S_w, omega, p, root
from ...experiments import draws
from ...experiments.plateau_maps import effective_map, four_networks, measured, plateau_maps, trained_network
from ...experiments.varied_tasks import OBLIQUE
from ..attention.moments import largest_product_score
from ..book import claim, wrong
from ..formulas import formula, parts_of
from ..tolerances import DIFFERENCES, SAMPLING, TRAINED_END, TRAINED_REST
from .moments import features, pairs

CROSSED = RegressionTask(covariance=[[0.8, 0.3], [0.3, 0.5]], task_covariance=[[0.4, -0.3], [-0.3, 1.2]], context_length=6)


def power(matrix: Float[np.ndarray, "D D"], exponent: float) -> Float[np.ndarray, "D D"]:
    """A power of a covariance matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * values**exponent) @ vectors.T


# Whitening: letters of the statement are M^(-1/2) A Q^(-1/2) and M^(1/2) B Q^(1/2)


def whitened_letters(task: RegressionTask, map_: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    A, M_, Q, c = task.loss_moments
    return power(M_, -0.5) @ A @ power(Q, -0.5), power(M_, 0.5) @ map_ @ power(Q, 0.5), c


WHITENING = parts_of("V2-whitened", (A_w, B_w, c_any), "loss", "left", "right", given=whitened_letters)


@claim("V2-whitened", method="linear algebra", theory=WHITENING)
@wrong("the target twice as large", {A_w: 2 * A_w})
@wrong("B' for B", {B_w: B_w.T})
@wrong("left and right exchanged", {"left": WHITENING["right"], "right": WHITENING["left"]})
def whitened_loss(formulas) -> float:
    """The loss of any map as a distance, and the two conditions at fixed points, for covariances that do not commute."""
    loss, (_, M_, Q, _), errors = QuadraticLoss.population(OBLIQUE), OBLIQUE.loss_moments, []
    for B in draws.generator(21).standard_normal((3, 3, 3)):
        G = loss.force(B)
        errors.append(formulas["loss"](OBLIQUE, B) - loss.value(B))
        errors.append(np.abs(formulas["left"](OBLIQUE, B) - power(Q, 0.5) @ B.T @ G @ power(Q, -0.5)).max())
        errors.append(np.abs(formulas["right"](OBLIQUE, B) - power(M_, -0.5) @ G @ B.T @ power(M_, 0.5)).max())
    return float(np.abs(errors).max())


@claim("V2-whitened", method="training", tolerance=SAMPLING, theory=WHITENING["loss"], slow=True)
@wrong("the target twice as large", {A_w: 2 * A_w})
@wrong("the target squared", {A_w: A_w.T * A_w})
@wrong("c left out", {c_any: 0})
def distances_of_trained_networks(loss) -> float:
    """The error on prompts of a network on each plateau of training, as a distance, for covariances that do not commute."""
    scores = []
    for plateau in range(4):
        network = trained_network("oblique", plateau)
        found = measured(network, OBLIQUE, seed=plateau)
        scores.append(abs(found.mean - float(loss(OBLIQUE, effective_map(network)))) / found.error)
    return max(scores)


@claim("V2-whitened", method="training", tolerance=TRAINED_REST, theory=WHITENING, slow=True)
@wrong("the target twice as large", {A_w: 2 * A_w})
@wrong("the target turned", {A_w: A_w.T})
@wrong("half the map", {B_w: B_w / 2})
def plateaus_rest(formulas) -> float:
    """Both conditions at fixed points, of the maps on the plateaus of training, for covariances that do not commute."""
    scale = np.linalg.norm(whitened_letters(OBLIQUE, np.eye(3))[0]) ** 2
    maps = plateau_maps("oblique")
    return float(max(np.linalg.norm(formulas[part](OBLIQUE, B)) / scale for B in maps for part in ("left", "right")))


# Moments and congruence


MOMENTS = parts_of(
    "V2-moments", (Lambda, Sigma_w, N), "A", "M", "white", "c",
    given=lambda task: (task.covariance, task.task_covariance, task.context_length),
)  # fmt: skip


@claim("V2-moments", method="Monte Carlo", theory=MOMENTS)
@wrong("N + 1 for N", {N: N + 1})
@wrong("w ~ N(0, I)", {Sigma_w: Lambda * Lambda.I})
@wrong("Sigma_w for Lambda", {Lambda: Sigma_w})
def sampled_moments(formulas) -> float:
    """Moments of sequences whose task vectors have a covariance, and of the paper's, on 200,000 sampled sequences each."""
    plain, scores = RegressionTask(covariance=CROSSED.covariance, context_length=CROSSED.context_length), []
    for task, parts in ((CROSSED, {"A": 0, "M": 1, "c": 3}), (plain, {"white": 1})):
        found = pairs(*features(task, 200_000))
        scores += [largest_product_score(*found[place], formulas[part](task)) for part, place in parts.items()]
    return max(scores)


def congruent_letters(task: RegressionTask, map_: np.ndarray) -> tuple:
    L, W = power(task.covariance, 0.5), task.task_covariance
    return L, L @ W @ L, L @ map_ @ L, task.context_length, task.covariance, W, task.loss_moments.M


def shares(task: RegressionTask) -> tuple:
    """The eigenvalues of S, their sum, and N."""
    values = np.linalg.eigvalsh(congruent_letters(task, task.covariance)[1])[::-1]
    return values, values.sum(), task.context_length


# Functions of a task and a map; the drops are functions of a task alone: (V2-order) at the eigenvalues of S.
CONGRUENCE = {
    **parts_of("V2-congruence", (root, S_w, C, N, Lambda, Sigma_w, M), "A", "M", "force", "minimum", given=congruent_letters),
    "drops": formula("V2-order", p, P_w, N, part="drop", given=shares),
}


def _of_eigenvalues(task: RegressionTask) -> np.ndarray:
    """A mistake: the drops as if Lambda and Sigma_w had the same eigenvectors."""
    covariance = np.diag(np.linalg.eigvalsh(task.task_covariance))
    aligned = RegressionTask(eigenvalues=task.eigenvalues, task_covariance=covariance, context_length=task.context_length)
    return CONGRUENCE["drops"](aligned)


@claim("V2-congruence", method="linear algebra", theory=CONGRUENCE)
@wrong("products of eigenvalues", {"drops": _of_eigenvalues})
@wrong("N + 1 for N", {N: N + 1})
@wrong("S twice as large", {S_w: 2 * S_w, p: 2 * p, P_w: 2 * P_w})
def congruent_task(formulas) -> float:
    """Moments, force, minimum and drops for Lambda and Sigma_w that do not commute, by roots and from the moments of the task."""
    loss, root_ = QuadraticLoss.population(CROSSED), power(CROSSED.covariance, -0.5)
    A, M_, Q, _ = CROSSED.loss_moments
    B = draws.generator(22).standard_normal((2, 2))
    expected = {
        "A": A, "M": M_, "force": root_ @ loss.force(B) @ root_, "minimum": np.linalg.solve(M_, A) @ np.linalg.inv(Q)
    }  # fmt: skip
    residuals = [np.abs(formulas[part](CROSSED, B) - value).max() for part, value in expected.items()]
    return float(max(*residuals, np.abs(formulas["drops"](CROSSED) - CROSSED.modes.drops).max()))


@draws.remembered
def crossed_maps(heads: int) -> Float[np.ndarray, "networks D D"]:
    """The maps of four networks trained together on ``CROSSED``, averaged over the last half of the run."""
    run, _ = four_networks(CROSSED, heads, 0.4, seed=heads, steps=2500, learning_rate=0.1)
    return run.effective_maps()[-250:].mean(axis=0)


@claim("V2-congruence", method="training", tolerance=TRAINED_END, theory=CONGRUENCE, slow=True)
@wrong("products of eigenvalues", {"drops": _of_eigenvalues})
@wrong("N + 1 for N", {N: N + 1})
@wrong("S twice as large", {S_w: 2 * S_w, p: 2 * p, P_w: 2 * P_w})
def networks_on_a_congruence(formulas) -> float:
    """The losses at which four networks of one head and four of two come to rest, for Lambda and Sigma_w that do not commute."""
    loss, drops = QuadraticLoss.population(CROSSED), formulas["drops"](CROSSED)
    return float(max(abs(loss.value(B) / (loss.c - drops[:heads].sum()) - 1) for heads in (1, 2) for B in crossed_maps(heads)))


@claim("V2-congruence", method="training", tolerance=TRAINED_REST, theory=CONGRUENCE, slow=True)
@wrong("N + 1 for N", {N: N + 1})
@wrong("C turned", {C: C.T * S_w})
def networks_rest_on_a_congruence(formulas) -> float:
    """The whitened map at which eight trained networks rest: along an eigenvector of S with one head, the minimum with two."""
    root_ = power(CROSSED.covariance, 0.5)
    scale = np.linalg.norm(root_ @ CROSSED.task_covariance @ root_)
    errors = []
    for heads in (1, 2):
        for B in crossed_maps(heads):
            whole, force, minimum = root_ @ B @ root_, formulas["force"](CROSSED, B), formulas["minimum"](CROSSED, B)
            errors.append(np.linalg.norm(force if heads == 2 else whole.T @ force / np.linalg.norm(whole)) / scale)
            errors += [np.linalg.norm(B - minimum) / np.linalg.norm(minimum)] * (heads == 2)
    return float(max(errors))


def growth_of(loss: QuadraticLoss, key: np.ndarray, query: np.ndarray) -> float:
    """The velocity of the value weight of a small head along these vectors, over its square."""
    small = SeparateWeights(np.array([1e-4]), 1e-4 * key[None, None], 1e-4 * query[None, None])
    return float(small.pull_back(-loss.gradient(small.effective_map()) / 2).v[0] / 1e-8)


_OF_ORDER = {"rate": (lambda_, omega), "map": (lambda_, omega, P_w, N), "drop": (p, P_w, N), "slope": (p, P_w, N)}
_ORDER = parts_of("V2-order", _OF_ORDER)


@claim("V2-order", method="linear algebra", tolerance=DIFFERENCES, theory=_ORDER)
@wrong("growth by lambda omega", {"rate": lambda value, size: value * size})
@wrong("N + 1 for N", {N: N + 1})
@wrong("omega left out of the map", {"map": lambda value, size, *given: _ORDER["map"](value, 1.0, *given)})
def growth_and_drops(parts) -> float:
    """Growth of small heads, their final map and its drop, for three directions: velocities and losses of weights, slopes by
    differences."""
    omegas = np.array([0.4, 1.1, 2.1])
    task = RegressionTask(eigenvalues=[0.9, 0.6, 0.3], task_covariance=np.diag(omegas), context_length=7)
    loss, values = QuadraticLoss.population(task), task.eigenvalues
    total, errors = float(values @ omegas), []
    for e, value, size in zip(np.eye(3), values, omegas, strict=True):
        level, product = parts["map"](value, size, total, 7), value * size
        errors.append(growth_of(loss, e, e) - parts["rate"](value, size))
        errors.append(float(e @ loss.force(level * np.outer(e, e)) @ e))
        errors.append(loss.value(np.zeros((3, 3))) - loss.value(level * np.outer(e, e)) - parts["drop"](product, total, 7))
        ahead, back = (parts["drop"](product + step, total, 7) for step in (1e-5, -1e-5))
        errors.append((ahead - back) / 2e-5 - parts["slope"](product, total, 7))
    return float(np.abs(errors).max())
