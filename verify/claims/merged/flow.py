"""Claims about the flow of merged attention: the sigmoid on white tokens, the single drop, parallel heads."""

from collections.abc import Callable

import numpy as np

from ....numerics import MergedWeights, QuadraticLoss, RegressionTask, Trajectory, gradient_flow
from ...experiments import draws
from ...experiments.staircase import DEFAULT, final_weights, plateaus
from .. import formulas
from ..book import claim, wrong
from ..tolerances import ALIGNMENT, CONVERGED, COUNT, LEADING_ORDER, RISE, ROUNDOFF, SECOND_ORDER


def white_task(eigenvalue: float = 1.0, dimension: int = 4, context_length: int = 31) -> RegressionTask:
    return RegressionTask(eigenvalues=[eigenvalue] * dimension, context_length=context_length)


def balanced_white_weights(task: RegressionTask, w_init: float, heads: int = 8) -> MergedWeights:
    """``W_1 = w_2 vec(I)'/sqrt(D)`` with ``|w_2| = w_init``, for which (15) is exact."""
    rng = draws.generator(15)
    v = rng.standard_normal(heads)
    v *= w_init / np.linalg.norm(v)
    return MergedWeights(v, np.multiply.outer(v, np.eye(task.dimension) / np.sqrt(task.dimension)))


@draws.remembered
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


@claim("15", method="flow", theory=formulas.white_sigmoid)
@wrong("t for 2 t", lambda task, t, s: formulas.white_sigmoid(task, t / 2, s))
@wrong("N + 1 for N", formulas.longer_context)
@wrong("w_init for its square", lambda task, t, s: formulas.white_sigmoid(task, t, np.sqrt(s)))
def white_sigmoid_flow(sigmoid) -> float:
    """The effective map from balanced, aligned weights against the sigmoid times I."""
    return _sigma_error(sigmoid, 1.0)


@claim("47", method="flow", theory=formulas.white_sigmoid)
@wrong("rates of Lambda = I", lambda task, t, s: formulas.white_sigmoid(white_task(), t / 16, s))
def scaled_white_sigmoid_flow(sigmoid) -> float:
    """The effective map for Lambda = I/4, with alpha = lambda^3 (1 + (1 + D)/N) and gamma = lambda^2 sqrt(D)."""
    return _sigma_error(sigmoid, 0.25)


@claim("48", method="flow", tolerance=ROUNDOFF, theory=formulas.white_loss)
@wrong("N + 1 for N", formulas.longer_context)
def white_loss_flow(loss) -> float:
    """The loss along the white flow as a function of sigma."""
    run = _white_flow()
    sigma = run.effective_maps[:, 0, 0]
    return float(np.abs(run.loss - loss(white_task(), sigma)).max())


@draws.remembered
def white_flow_from_gaussian(w_init: float, seed: int = 44) -> Trajectory:
    task = white_task()
    weights = MergedWeights.initialize(task, heads=8, scale=w_init, rng=draws.generator(seed))
    return gradient_flow(QuadraticLoss.population(task), weights, t_end=4 * np.log(1 / w_init) / 2 + 6, rtol=1e-10)


def effective_scale(v: np.ndarray, U: np.ndarray) -> float:
    """``|w_2 + W_1 m|^2/4`` with m the direction of E(y_q z): the part of the start that grows."""
    return float(0.25 * np.sum((v + np.trace(U, axis1=1, axis2=2) / np.sqrt(U.shape[-1])) ** 2))


@claim("15", method="flow", tolerance=SECOND_ORDER, theory=effective_scale)
@wrong("the nominal |w_2|^2", lambda v, U: float(np.sum(v**2)))
def white_sigmoid_gaussian(scale) -> float:
    """The mean diagonal of the map from Gaussian weights against the sigmoid, with the effective scale |w_2 + W_1 m|^2/4 for w_init^2."""
    return _from_effective(scale, 1e-2, 44, least=0.0)


def _from_effective(scale: Callable[[np.ndarray, np.ndarray], float], w_init: float, seed: int, least: float = 0.1) -> float:
    run = white_flow_from_gaussian(w_init, seed)
    t = np.linspace(0, run.times[-1], 300)
    sigma = np.trace(run.effective_map_at(t), axis1=1, axis2=2) / 4
    return float(np.abs(sigma - formulas.white_sigmoid(white_task(), t, scale(*run.initial.arrays)))[sigma >= least].max())


@claim("15-start", method="flow", tolerance=RISE, theory=(effective_scale, lambda w_init: w_init**2 * np.log(1 / w_init)))
@wrong("the nominal |w_2|^2", (lambda v, U: float(np.sum(v**2)), np.square))
@wrong("its mean", (lambda v, U: float(np.sum(v**2)) * (1 + 1 / 16) / 4, np.square))
@wrong("w_init^2 alone", (effective_scale, np.square))
def order_of_the_effective_start(theory) -> float:
    """The error of the mean diagonal of the map as it rises, over its order: fitted power, of 16 starts of scales from 0.01 to 0.001."""
    scale, order = theory

    def in_its_order(w_init: float) -> float:
        return float(np.linalg.norm([_from_effective(scale, w_init, seed) for seed in range(44, 60)]) / order(w_init))

    return abs(formulas.power_law([1e-2, 3e-3, 1e-3], in_its_order))


@draws.remembered
def merged_flow(w_init: float = 1e-3, seed: int = 16, duration: float = 400.0) -> Trajectory:
    """Merged attention on the anisotropic default task."""
    weights = MergedWeights.initialize(DEFAULT.task, heads=8, scale=w_init, rng=draws.generator(seed))
    return gradient_flow(QuadraticLoss.population(DEFAULT.task), weights, t_end=duration)


@claim("16", method="flow", tolerance=CONVERGED, theory=formulas.least_squares_map)
@wrong("N + 1 for N", formulas.longer_context)
@wrong("the inverse of Lambda", formulas.infinite_context)
def merged_converges_to_least_squares(least_squares) -> float:
    """The effective map of merged attention at the end of the flow."""
    run = merged_flow(duration=4000.0)
    return float(np.abs(run.effective_maps[-1] - least_squares(DEFAULT.task)).max())


@claim("Sec. 3.3", method="flow", tolerance=COUNT, theory=1)
@wrong("as many as components", 4)
def merged_drops_once(drops) -> float:
    """The number of drops of merged attention, after one plateau."""
    return abs(len(plateaus(merged_flow()).drops) - drops)


@claim("51", method="flow", tolerance=LEADING_ORDER, theory=lambda task: np.linalg.norm(task.covariance @ task.covariance))
@wrong("the largest eigenvalue", lambda task: task.eigenvalues.max() ** 2)
@wrong("the norm of Lambda", lambda task: np.linalg.norm(task.covariance))
def merged_escape_rate(rate) -> float:
    """How much later the drop comes for each tenfold smaller start, times the norm of Lambda^2, over ln 10."""
    times = [plateaus(merged_flow(w)).drops[0] for w in (1e-3, 1e-4, 1e-5)]
    return float(np.abs(np.diff(times) * rate(DEFAULT.task) / np.log(10) - 1).max())


@claim("17", method="flow", tolerance=ALIGNMENT, theory=lambda w_2: np.outer(w_2, w_2))
@wrong("only the norms", lambda w_2: np.diag(w_2**2))
def merged_heads_become_parallel(gram) -> float:
    """Heads become parallel: W_1 W_1' against w_2 w_2' at the end of the flow, relative."""
    w = final_weights(merged_flow())
    W_1 = w["U"].reshape(len(w["v"]), -1)
    return float(np.linalg.norm(W_1 @ W_1.T - gram(w["v"])) / np.linalg.norm(gram(w["v"])))
