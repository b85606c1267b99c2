"""Claims about task vectors of any covariance (V2): moments, whitening and congruence, from tasks and from trained networks."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from jaxtyping import Float

from ....numerics.parametrizations.attention import SeparateWeights
from ....numerics.tasks.losses import QuadraticLoss
from ....numerics.tasks.regression import RegressionTask
from ....theory.notation import Lambda, M, N, lambda_
from ....theory.results.landscape.any_quadratic_loss import A_w, B_w, c_any
from ....theory.results.task.population import Sigma_w
from ....theory.results.variations.labels import C, P_w, S_w, omega, p, root
from ...experiments import draws
from ...experiments.draws import remembered
from ...experiments.plateau_maps import effective_map, four_networks, measured, plateau_maps, trained_network
from ...experiments.varied_tasks import OBLIQUE
from ..attention.moments import largest_score
from ..book import claim
from ..formulas import parts_of
from ..tolerances import DIFFERENCES, SAMPLING, TRAINED_END, TRAINED_REST
from .moments import features, products

CROSSED = RegressionTask(covariance=[[0.8, 0.3], [0.3, 0.5]], task_covariance=[[0.4, -0.3], [-0.3, 1.2]], context_length=6)


def power(matrix: Float[np.ndarray, "D D"], exponent: float) -> Float[np.ndarray, "D D"]:
    """A power of a covariance matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * values**exponent) @ vectors.T


# Whitening: letters of the statement are M^(-1/2) A Q^(-1/2) and M^(1/2) B Q^(1/2)


def whitened_letters(task: RegressionTask, map_: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    A, M_, Q, c = task.loss_moments
    return power(M_, -0.5) @ A @ power(Q, -0.5), power(M_, 0.5) @ map_ @ power(Q, 0.5), c


whitening = partial(parts_of, "V2-whitened", (A_w, B_w, c_any), ("loss", "left", "right"), given=whitened_letters)
WHITENING_FAULTS = {
    "the target twice as large": whitening(change={A_w: 2 * A_w}),
    "B' for B": whitening(change={B_w: B_w.T}),
    "left and right exchanged": {**whitening(), "left": whitening()["right"], "right": whitening()["left"]},
}


@claim(
    "V2-whitened", "the loss of any map as a distance, and the two conditions at fixed points, for covariances that do not commute",
    method="linear algebra", theory=whitening(), wrong=WHITENING_FAULTS,
)  # fmt: skip
def whitened_loss(formulas) -> float:
    loss, (_, M_, Q, _) = QuadraticLoss.population(OBLIQUE), OBLIQUE.loss_moments
    residuals = []
    for B in draws.generator(21).standard_normal((3, 3, 3)):
        G = loss.force(B)
        expected = {
            "loss": loss.value(B),
            "left": power(Q, 0.5) @ B.T @ G @ power(Q, -0.5),
            "right": power(M_, -0.5) @ G @ B.T @ power(M_, 0.5),
        }
        residuals += [np.abs(formulas[part](OBLIQUE, B) - value).max() for part, value in expected.items()]
    return float(max(residuals))


@claim(
    "V2-whitened", "the error on prompts of a network on each plateau of training, as a distance, for covariances that do not commute",
    method="training", tolerance=SAMPLING, theory=whitening()["loss"], slow=True,
    wrong={
        "the target twice as large": WHITENING_FAULTS["the target twice as large"]["loss"],
        "the target squared": whitening(change={A_w: A_w.T * A_w})["loss"],
        "c left out": whitening(change={c_any: 0})["loss"],
    },
)  # fmt: skip
def distances_of_trained_networks(loss) -> float:
    scores = []
    for plateau in range(4):
        network = trained_network("oblique", plateau)
        found = measured(network, OBLIQUE, seed=plateau)
        scores.append(abs(found.mean - float(loss(OBLIQUE, effective_map(network)))) / found.error)
    return max(scores)


@claim(
    "V2-whitened", "both conditions at fixed points, of the maps on the plateaus of training, for covariances that do not commute",
    method="training", tolerance=TRAINED_REST, theory=whitening(), slow=True,
    wrong={
        "the target twice as large": WHITENING_FAULTS["the target twice as large"],
        "the target turned": whitening(change={A_w: A_w.T}),
        "half the map": whitening(change={B_w: B_w / 2}),
    },
)  # fmt: skip
def plateaus_rest(formulas) -> float:
    scale = np.linalg.norm(whitened_letters(OBLIQUE, np.eye(3))[0]) ** 2
    maps = plateau_maps("oblique")
    return float(max(np.linalg.norm(formulas[part](OBLIQUE, B)) / scale for B in maps for part in ("left", "right")))


# Moments and congruence


def laws(task: RegressionTask) -> tuple:
    return task.covariance, task.task_covariance, task.context_length


moments = partial(parts_of, "V2-moments", (Lambda, Sigma_w, N), ("A", "M", "white", "c"), given=laws)


@claim(
    "V2-moments", "moments of sequences whose task vectors have a covariance, and of the paper's, on 200,000 sampled sequences each",
    method="Monte Carlo", theory=moments(),
    wrong={
        "N + 1 for N": moments(change={N: N + 1}),
        "w ~ N(0, I)": moments(change={Sigma_w: Lambda * Lambda.I}),
        "Sigma_w for Lambda": moments(change={Lambda: Sigma_w}),
    },
)  # fmt: skip
def sampled_moments(formulas) -> float:
    plain, scores = RegressionTask(covariance=CROSSED.covariance, context_length=CROSSED.context_length), []
    for task, parts in ((CROSSED, {"A": 0, "M": 1, "c": 3}), (plain, {"white": 1})):
        found = products(*features(task, 200_000))
        scores += [largest_score(found[place], formulas[part](task)) for part, place in parts.items()]
    return max(scores)


def congruent_letters(task: RegressionTask, map_: np.ndarray) -> tuple:
    L, W = power(task.covariance, 0.5), task.task_covariance
    return L, L @ W @ L, L @ map_ @ L, task.context_length, task.covariance, W, task.loss_moments.M


def shares(task: RegressionTask) -> tuple:
    """The eigenvalues of S, their sum, and N."""
    values = np.linalg.eigvalsh(congruent_letters(task, task.covariance)[1])[::-1]
    return values, values.sum(), task.context_length


def congruence(change: Mapping | None = None) -> dict[str, Callable]:
    """The parts of (V2-congruence) as functions of a task and a map, and the drops, of a task alone: (V2-order) at the eigenvalues of S."""
    letters, names = (root, S_w, C, N, Lambda, Sigma_w, M), ("A", "M", "force", "minimum")
    drops = parts_of("V2-order", (p, P_w, N), ("drop",), change, shares)["drop"]
    return {**parts_of("V2-congruence", letters, names, change, congruent_letters), "drops": drops}


def _of_eigenvalues(task: RegressionTask) -> np.ndarray:
    """A mistake: the drops as if Lambda and Sigma_w had the same eigenvectors."""
    covariance = np.diag(np.linalg.eigvalsh(task.task_covariance))
    aligned = RegressionTask(eigenvalues=task.eigenvalues, task_covariance=covariance, context_length=task.context_length)
    return congruence()["drops"](aligned)


CONGRUENCE_FAULTS = {
    "products of eigenvalues": {**congruence(), "drops": _of_eigenvalues},
    "N + 1 for N": congruence({N: N + 1}),
    "S twice as large": congruence({S_w: 2 * S_w, p: 2 * p, P_w: 2 * P_w}),
}


@claim(
    "V2-congruence",
    "moments, force, minimum and drops for Lambda and Sigma_w that do not commute, by roots and from the moments of the task",
    method="linear algebra", theory=congruence(), wrong=CONGRUENCE_FAULTS,
)  # fmt: skip
def congruent_task(formulas) -> float:
    loss, root_ = QuadraticLoss.population(CROSSED), power(CROSSED.covariance, -0.5)
    A, M_, Q, _ = CROSSED.loss_moments
    B = draws.generator(22).standard_normal((2, 2))
    expected = {
        "A": A, "M": M_, "force": root_ @ loss.force(B) @ root_, "minimum": np.linalg.solve(M_, A) @ np.linalg.inv(Q)
    }  # fmt: skip
    residuals = [np.abs(formulas[part](CROSSED, B) - value).max() for part, value in expected.items()]
    return float(max(*residuals, np.abs(formulas["drops"](CROSSED) - CROSSED.modes.drops).max()))


@remembered
def crossed_maps(heads: int) -> Float[np.ndarray, "networks D D"]:
    """The maps of four networks trained together on ``CROSSED``, averaged over the last half of the run."""
    run, _ = four_networks(CROSSED, heads, 0.4, seed=heads, steps=2500, learning_rate=0.1)
    return run.effective_maps()[-250:].mean(axis=0)


@claim(
    "V2-congruence",
    "the losses at which four networks of one head and four of two come to rest, for Lambda and Sigma_w that do not commute",
    method="training", tolerance=TRAINED_END, theory=congruence(), slow=True, wrong=CONGRUENCE_FAULTS,
)  # fmt: skip
def networks_on_a_congruence(formulas) -> float:
    loss, drops = QuadraticLoss.population(CROSSED), formulas["drops"](CROSSED)
    return float(max(abs(loss.value(B) / (loss.c - drops[:heads].sum()) - 1) for heads in (1, 2) for B in crossed_maps(heads)))


@claim(
    "V2-congruence",
    "the whitened map at which eight trained networks rest: along an eigenvector of S with one head, the minimum with two",
    method="training", tolerance=TRAINED_REST, theory=congruence(), slow=True,
    wrong={"N + 1 for N": CONGRUENCE_FAULTS["N + 1 for N"], "C turned": congruence({C: C.T * S_w})},
)  # fmt: skip
def networks_rest_on_a_congruence(formulas) -> float:
    root_ = power(CROSSED.covariance, 0.5)
    scale = np.linalg.norm(root_ @ CROSSED.task_covariance @ root_)
    worst = 0.0
    for heads in (1, 2):
        for B in crossed_maps(heads):
            whole = root_ @ B @ root_
            force = formulas["force"](CROSSED, B)
            rest = force if heads == 2 else whole.T @ force / np.linalg.norm(whole)
            worst = max(worst, np.linalg.norm(rest) / scale)
            if heads == 2:
                minimum = formulas["minimum"](CROSSED, B)
                worst = max(worst, np.linalg.norm(B - minimum) / np.linalg.norm(minimum))
    return float(worst)


def _order(change: Mapping | None = None) -> dict[str, Callable[..., float]]:
    """The parts of (V2-order)."""
    letters = {"rate": (lambda_, omega), "map": (lambda_, omega, P_w, N), "drop": (p, P_w, N), "slope": (p, P_w, N)}
    return {part: parts_of("V2-order", of, (part,), change)[part] for part, of in letters.items()}


@claim(
    "V2-order",
    "growth of small heads, their final map and its drop, for three directions: velocities and losses of weights, slopes by differences",
    method="linear algebra", tolerance=DIFFERENCES, theory=_order(),
    wrong={
        "growth by lambda omega": _order() | {"rate": lambda value, size: value * size},
        "N + 1 for N": _order({N: N + 1}),
        "omega left out of the map": _order() | {"map": lambda value, size, *given: _order()["map"](value, 1.0, *given)},
    },
)  # fmt: skip
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
        errors.append(loss.value(np.zeros((3, 3))) - loss.value(level * np.outer(e, e)) - parts["drop"](product, total, 7))
        ahead, back = (parts["drop"](product + step, total, 7) for step in (1e-5, -1e-5))
        errors.append((ahead - back) / 2e-5 - parts["slope"](product, total, 7))
    return float(np.abs(errors).max())
