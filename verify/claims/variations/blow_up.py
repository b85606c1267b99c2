"""Claims about test losses that blow up (V3-scale, V3-unseen): on scaled contexts, and along directions rare in training."""

import numpy as np
import torch

from ....numerics import QuadraticLoss, RegressionTask, fixed_point_sets
from ....theory.notation import N, T, lambda_, sigma
from ....theory.results.landscape.any_quadratic_loss import c_any
from ....theory.results.variations.shift import E_learned, a_test, b, g, lambda_q, lambda_test, nu
from ...experiments.draws import remembered
from ...experiments.plateau_maps import four_networks, measured, settled_network, trained_network
from ...experiments.varied_tasks import LENGTH, NOISY, PLAIN
from ...training.modules import ReducedSeparate
from ..book import claim, wrong
from ..formulas import parts_of
from ..tolerances import RARE_DIRECTION, TRAINED_PROMPTS

# A scaled context

SCALES = (0.4, 1.5, 3.0)
SCALE = parts_of("V3-scale", (c_any, E_learned, nu, sigma, g), "loss", "both", "break-even")
G_SQUARED = {"loss": {g: g**2}, "both": {g: g**2}, "break-even": lambda *values: SCALE["break-even"](*values) ** 0.5}


def scaled(task: RegressionTask, scale: float, query: float = 1.0) -> RegressionTask:
    """The task with the covariances of its context and of its query scaled."""
    return RegressionTask(
        covariance=scale * task.covariance, query_covariance=query * task.covariance,
        context_length=task.context_length, noise_variance=task.noise_variance,
    )  # fmt: skip


def scaled_tests(formulas, task: RegressionTask, map_: np.ndarray, both: tuple[float, ...]) -> list[tuple[RegressionTask, float]]:
    """Tests with their losses at a saddle: with the context scaled, at last to that of no answer, and with the query scaled as well."""
    A, _, Q, c = task.loss_moments
    noise = task.noise_variance / task.context_length * np.trace(map_.T @ task.covariance @ map_ @ Q)
    at_rest = c, float(np.vdot(A, map_)), float(noise), float(np.sqrt(task.noise_variance))
    found = [(scaled(task, one), formulas["loss"](*at_rest, one)) for one in SCALES]
    found.append((scaled(task, formulas["break-even"](*at_rest, 1.0)), c))
    return found + [(scaled(task, one, one), formulas["both"](*at_rest, one)) for one in both]


@claim("V3-scale", method="linear algebra", theory=SCALE)
@wrong("the noise of the labels left out", {nu: 0})
@wrong("twice what was learned", {E_learned: 2 * E_learned})
@wrong("g^2 for g", G_SQUARED)
def scaled_contexts(formulas) -> float:
    """The test loss at every fixed map, with context or context and query scaled, and the scale at which it passes that of no answer."""
    errors = []
    for task in (PLAIN, NOISY, RegressionTask(covariance=[[0.8, 0.3], [0.3, 0.5]], context_length=5, noise_variance=1)):
        for learned in list(fixed_point_sets(task, heads=task.dimension))[1:]:
            map_ = task.modes.effective_map(learned)
            tests = scaled_tests(formulas, task, map_, SCALES)
            errors += [QuadraticLoss.population(test).value(map_) - loss for test, loss in tests]
    return float(np.abs(errors).max())


@claim("V3-scale", method="training", tolerance=TRAINED_PROMPTS, theory=SCALE, slow=True)
@wrong("the noise of the labels left out", {nu: 0})
@wrong("twice what was learned", {E_learned: 2 * E_learned})
@wrong("g^2 for g", G_SQUARED)
def trained_networks_on_scaled_contexts(formulas) -> float:
    """Errors on scaled prompts of networks trained with and without noise, at the end and on a plateau; the scale of no answer's error."""
    worst = 0.0
    ends = [(PLAIN, 3, settled_network("plain")), (NOISY, 3, settled_network("noise"))]
    for task, learned, network in [*ends, (NOISY, 1, trained_network("noise", 1))]:
        expected = scaled_tests(formulas, task, task.modes.effective_map(range(learned)), (1.5,))
        for seed, (test, value) in enumerate(expected):
            worst = max(worst, abs(measured(network, test, count=300_000, seed=seed).mean / value - 1))
    return worst


# A direction rare in training

RARE = RegressionTask(eigenvalues=[0.9, 0.1], context_length=LENGTH)
COMMON = (lambda_, lambda_test, lambda_q, a_test, b, N, T, sigma)
UNSEEN = parts_of(
    "V3-unseen", COMMON, "share", "break-even", "slope", "worst", "shown", "all",
    given=lambda **values: [values.get(str(letter), np.nan) for letter in COMMON],
)  # fmt: skip


@claim("V3-unseen", method="linear algebra", tolerance=RARE_DIRECTION, theory=UNSEEN)
@wrong("N + 1 for N", {N: N + 1})
@wrong("half the variance of a label", {T: T / 2})
@wrong("twice the context", {lambda_test: 2 * lambda_test})
def rare_direction(formulas) -> float:
    """Maps and test losses of a direction with a share of 10^-7 in training, and break-even, from the moments of the tasks."""
    noise, tiny = 0.7, 1e-7
    tasks = [RegressionTask(eigenvalues=[1 - t, t], context_length=6, noise_variance=noise) for t in (tiny, 2 * tiny)]
    common = {"N": 6, "T": 1.0, "sigma": noise**0.5, "lambda": tiny}
    rare, next_ = (float(task.modes.levels[1]) for task in tasks)
    B_rare = np.diag([0.0, rare])
    shift = RegressionTask(eigenvalues=[0.2, 0.5], query_covariance=np.diag([0.4, 0.3]), context_length=9, noise_variance=0.2)
    whole = RegressionTask(eigenvalues=[tiny, 1.0], context_length=6, noise_variance=noise)
    test = {"lambda_test": 0.5, "lambda_q": 0.3, "a_test": shift.second_moment_eigenvalues[1]}

    def of_direction(task: RegressionTask, map_: float) -> float:
        """The share of the second direction: the loss less the variance of the first and the noise."""
        rest = task.query_covariance[0, 0] + task.noise_variance
        return QuadraticLoss.population(task).value(np.diag([0.0, map_])) - rest

    even = formulas["break-even"](**test)
    pairs = [
        (formulas["worst"](**common), rare),
        (formulas["slope"](**common) * tiny, next_ - rare),
        (formulas["share"](**test, b=1.3), of_direction(shift, 1.3)),
        (0.3, of_direction(shift, even)),
        (formulas["shown"](**common, **test), of_direction(shift, rare)),
        (formulas["all"](**common), QuadraticLoss.population(whole).value(B_rare) - noise),
    ]
    return max(abs(found / expected - 1) for found, expected in pairs)


@remembered
def rare_networks() -> list[ReducedSeparate]:
    """Four networks trained together on ``RARE``, from weights large enough to learn the rare direction soon, averaged at the end."""
    run, starts = four_networks(RARE, 3, 0.5, seed=33, steps=12_000, learning_rate=0.2)
    networks = [ReducedSeparate(start) for start in starts]
    for index, network in enumerate(networks):
        network.load_state_dict({k: torch.tensor(v[-200:, index].mean(axis=0)) for k, v in run.states.items()})
    return networks


@claim("V3-unseen", method="training", tolerance=TRAINED_PROMPTS, theory=UNSEEN, slow=True)
@wrong("twice the context", {lambda_test: 2 * lambda_test})
@wrong("twice the second moment", {a_test: 2 * a_test})
@wrong("b for -b", {b: -b})
def networks_on_a_rare_direction(formulas) -> float:
    """Errors of four networks, trained with a tenth of the variance in one direction, on prompts with half or all of it there."""
    worst = 0.0
    for moved in (0.5, 1 - 1e-9):
        test = RegressionTask(eigenvalues=[1 - moved, moved], context_length=LENGTH)
        expected = sum(
            formulas["share"](lambda_test=one, lambda_q=one, a_test=moment, b=level)
            for one, moment, level in zip(test.eigenvalues, test.second_moment_eigenvalues, RARE.modes.levels, strict=True)
        )
        found = np.mean([measured(network, test, count=200_000, seed=90 + i).mean for i, network in enumerate(rare_networks())])
        worst = max(worst, abs(found / expected - 1))
    return float(worst)
