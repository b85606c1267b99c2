"""Claims about tests unlike training (V3): statements of the registry against losses of trained networks on fresh prompts."""

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import torch
from sympy import Identity, S

from ..numerics.losses import QuadraticLoss
from ..numerics.tasks import RegressionTask
from ..numerics.weights import MergedWeights, SeparateWeights
from ..theory.notation import B, D, Lambda, Lambda_q, N, lambda_, sigma
from ..theory.population import Sigma_w
from ..theory.reduction import a
from ..theory.shift import E_learned, a_test, b, g, lambda_q, nu
from ..theory.spectral import T
from ..theory.unseen_directions import lambda_test
from ..theory.whitened import c_any
from .claims import claim
from .models import ReducedMerged, ReducedSeparate
from .statements import compiled
from .tolerances import RARE_DIRECTION, ROUNDOFF, SAMPLING, TRAINED_PROMPTS
from .trained_networks import effective_map, measured, settled_network, trained_network
from .training import fresh_batches, train
from .variations import LENGTH, NOISY, OBLIQUE, PLAIN, SPECTRUM

TILTED = [[0.9, 0.3, -0.1], [0.3, 0.6, 0.2], [-0.1, 0.2, 0.4]]
TASKS = [[0.5, -0.2, 0.0], [-0.2, 1.0, 0.3], [0.0, 0.3, 1.5]]
QUERIES = [[0.3, 0.1, 0.0], [0.1, 0.7, -0.2], [0.0, -0.2, 0.8]]

# Other covariances, that do not commute, and another length; three times the variance; one token; much noise
TESTS = (
    RegressionTask(
        covariance=TILTED, context_length=7, task_covariance=TASKS, query_covariance=QUERIES, noise_variance=0.5
    ),
    RegressionTask(eigenvalues=3 * PLAIN.eigenvalues, query_covariance=PLAIN.covariance, context_length=40),
    RegressionTask(eigenvalues=SPECTRUM, context_length=1),
    RegressionTask(eigenvalues=SPECTRUM, context_length=4, query_covariance=QUERIES, noise_variance=4.0),
)


def loss_at_test(change: Mapping | None = None) -> Callable[..., float]:
    """(V3-test) as a function of the test and the map; ``change`` plants a fault."""

    def value(test: RegressionTask, map_: np.ndarray) -> float:
        formula = compiled("V3-test", (Lambda, Lambda_q, Sigma_w, sigma, N, B), change=change)
        laws = test.covariance, test.query_covariance, test.task_covariance, np.sqrt(test.noise_variance)
        return float(formula(*laws, test.context_length, map_))

    return value


@claim(
    "V3-test",
    "the mean squared error of two trained networks on 200,000 prompts of four tests: covariances, lengths and noise unlike training",
    method="training",
    tolerance=SAMPLING,
    theory=loss_at_test(),
    wrong={
        "N + 1 for N": loss_at_test({N: N + 1}),
        "no noise at test": loss_at_test({sigma: 0}),
        "the query like the context": loss_at_test({Lambda_q: Lambda}),
        "w ~ N(0, I) at test": loss_at_test({Sigma_w: Identity(D)}),
        "the map twice as large": loss_at_test({B: 2 * B}),
    },
    slow=True,
)
def trained_networks_under_shift(loss) -> float:
    scores = []
    for network in (trained_network("plain"), trained_network("oblique")):
        for test in TESTS:
            found = measured(network, test)
            scores.append(abs(found.mean - loss(test, effective_map(network))) / found.error)
    return max(scores)


@claim(
    "V3-test",
    "the loss of maps of any entries under two tests, by the statement and as a quadratic form in the moments of the test",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=loss_at_test(),
    wrong={"N + 1 for N": loss_at_test({N: N + 1}), "B' for B": loss_at_test({B: B.T})},
)
def loss_of_any_map(loss) -> float:
    maps = np.random.default_rng(12).standard_normal((4, 3, 3))
    tests = TESTS[0], OBLIQUE
    return max(abs(QuadraticLoss.population(test).value(one) - loss(test, one)) for test in tests for one in maps)


@claim(
    "V3-test",
    "the mean squared error of attention with a map of any entries, on 50,000 prompts of two tests",
    method="forward pass",
    tolerance=SAMPLING,
    theory=loss_at_test(),
    wrong={
        "N + 1 for N": loss_at_test({N: N + 1}),
        "B' for B": loss_at_test({B: B.T}),
        "no noise at test": loss_at_test({sigma: 0}),
    },
)
def attention_on_prompts(loss) -> float:
    map_ = np.random.default_rng(13).standard_normal((3, 3))
    network = ReducedMerged(MergedWeights(v=np.ones(1), U=map_[None]))
    found = [(measured(network, test, count=50_000), test) for test in (TESTS[0], TESTS[3])]
    return max(abs(one.mean - loss(test, map_)) / one.error for one, test in found)


# Another length


def length_loss(change: Mapping | None = None, part: str = "share") -> Callable[..., float]:
    """(V3-length) summed over the directions; for "limit" and "slope" the loss is the limit plus the slope over N'."""

    def value(trained: RegressionTask, test: RegressionTask) -> float:
        values = trained.eigenvalues, trained.second_moment_eigenvalues, test.second_moment_eigenvalues
        if part == "share":
            return float(np.sum(compiled("V3-length", (lambda_, a, a_test), "share", change)(*values)))
        limit, slope = (compiled("V3-length", (lambda_, a, T), one, change) for one in ("limit", "slope"))
        values = *values[:2], trained.eigenvalues.sum()
        return float(np.sum(limit(*values) + slope(*values) / test.context_length))

    return value


LENGTH_FORMULAS = length_loss(), length_loss(part="limit and slope")
LENGTH_FAULTS = {
    "the best map for the test": (length_loss({a: a_test}), LENGTH_FORMULAS[1]),
    "the loss of training": (length_loss({a_test: a}), LENGTH_FORMULAS[1]),
    "the slope of a direction alone": (LENGTH_FORMULAS[0], length_loss({T: S.Zero}, "limit and slope")),
}


def _of_length(length: int) -> RegressionTask:
    return RegressionTask(eigenvalues=SPECTRUM, context_length=length)


@claim(
    "V3-length",
    "the loss at test lengths 1, 40 and 10^6 of the map trained at 10, by share, and by limit and slope",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=LENGTH_FORMULAS,
    wrong=LENGTH_FAULTS,
)
def test_lengths(formulas) -> float:
    B_trained, worst = PLAIN.modes.effective_map(), 0.0
    for length in (1, 40, 10**6):
        exact = QuadraticLoss.population(_of_length(length)).value(B_trained)
        worst = max(worst, *(abs(exact - formula(PLAIN, _of_length(length))) for formula in formulas))
    return worst


@claim(
    "V3-length",
    "the error of a network trained at length 10, on prompts of length 1, 3 and 50",
    method="training",
    tolerance=TRAINED_PROMPTS,
    theory=LENGTH_FORMULAS,
    wrong=LENGTH_FAULTS,
    slow=True,
)
def trained_network_at_other_lengths(formulas) -> float:
    network, worst = settled_network("plain"), 0.0
    for length in (1, 3, 50):
        found = measured(network, _of_length(length), count=400_000, seed=length).mean
        worst = max(worst, *(abs(found / formula(PLAIN, _of_length(length)) - 1) for formula in formulas))
    return worst


# A scaled context

SCALES = (0.4, 1.5, 3.0)


def scale_formulas(change: Mapping | None = None) -> dict[str, Callable[..., float]]:
    """(V3-scale) with the context scaled, the query too, and where that is no better than no answer; functions of c, E, nu, sigma, g."""
    letters = (c_any, E_learned, nu, sigma, g)

    def value(part: str) -> Callable[..., float]:
        return lambda *values: float(compiled("V3-scale", letters, part, change)(*values))

    return {part: value(part) for part in ("loss", "both", "break-even")}


SCALE_FAULTS = {
    "the noise of the labels left out": scale_formulas({nu: S.Zero}),
    "twice what was learned": scale_formulas({E_learned: 2 * E_learned}),
    "g^2 for g": scale_formulas({g: g**2})
    | {"break-even": lambda *values: scale_formulas()["break-even"](*values) ** 0.5},
}


def scaled(task: RegressionTask, scale: float, query: float = 1.0) -> RegressionTask:
    """The task with its context's covariance scaled, and its query's."""
    return RegressionTask(
        covariance=scale * task.covariance, query_covariance=query * task.covariance,
        context_length=task.context_length, noise_variance=task.noise_variance,
    )  # fmt: skip


def _at_rest(task: RegressionTask, map_: np.ndarray) -> tuple[float, float, float, float]:
    """c, E, nu and sigma of a fixed point."""
    A, _, Q, c = task.loss_moments
    noise = task.noise_variance / task.context_length * np.trace(map_.T @ task.covariance @ map_ @ Q)
    return c, float(np.vdot(A, map_)), float(noise), float(np.sqrt(task.noise_variance))


@claim(
    "V3-scale",
    "the test loss at every saddle when context, or context and query, are scaled, and where it passes that of no answer",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=scale_formulas(),
    wrong=SCALE_FAULTS,
)
def scaled_contexts(formulas) -> float:
    worst = 0.0
    for task in (PLAIN, NOISY, RegressionTask(covariance=[[0.8, 0.3], [0.3, 0.5]], context_length=5, noise_variance=1)):
        for learned in range(1, task.dimension + 1):
            map_ = task.modes.effective_map(range(learned))
            at_rest = _at_rest(task, map_)
            even = formulas["break-even"](*at_rest, 1.0)
            losses = [(scaled(task, even), at_rest[0])]
            losses += [(scaled(task, one), formulas["loss"](*at_rest, one)) for one in SCALES]
            losses += [(scaled(task, one, one), formulas["both"](*at_rest, one)) for one in SCALES]
            found = (abs(QuadraticLoss.population(test).value(map_) - expected) for test, expected in losses)
            worst = max(worst, *found)
    return worst


@claim(
    "V3-scale",
    "errors of networks trained with and without noise, at their end and on a plateau, on scaled prompts; where they match no answer",
    method="training",
    tolerance=TRAINED_PROMPTS,
    theory=scale_formulas(),
    wrong=SCALE_FAULTS,
    slow=True,
)
def trained_networks_on_scaled_contexts(formulas) -> float:
    worst = 0.0
    ends = [(PLAIN, 3, settled_network("plain")), (NOISY, 3, settled_network("noise"))]
    for task, learned, network in [*ends, (NOISY, 1, trained_network("noise", 1))]:
        at_rest = _at_rest(task, task.modes.effective_map(range(learned)))
        even = formulas["break-even"](*at_rest, 1.0)
        expected = [(scaled(task, one), formulas["loss"](*at_rest, one)) for one in SCALES]
        expected += [(scaled(task, even), at_rest[0]), (scaled(task, 1.5, 1.5), formulas["both"](*at_rest, 1.5))]
        for seed, (test, value) in enumerate(expected):
            worst = max(worst, abs(measured(network, test, count=300_000, seed=seed).mean / value - 1))
    return worst


# A direction that training hardly showed

RARE = RegressionTask(eigenvalues=[0.9, 0.1], context_length=LENGTH)
COMMON = (lambda_, lambda_test, lambda_q, a_test, b, N, T, sigma)


def unseen_formulas(change: Mapping | None = None) -> dict[str, Callable[..., float]]:
    """The parts of (V3-unseen), functions of ``COMMON`` by name."""

    def value(part: str) -> Callable[..., float]:
        def of(**values: float) -> float:
            given = [values.get(str(letter), np.nan) for letter in COMMON]
            return float(compiled("V3-unseen", COMMON, part, change)(*given))

        return of

    return {part: value(part) for part in ("share", "break-even", "slope", "worst", "shown", "all")}


UNSEEN_FAULTS = {
    "N + 1 for N": unseen_formulas({N: N + 1}),
    "half the variance of a label": unseen_formulas({T: T / 2}),
    "twice the context": unseen_formulas({lambda_test: 2 * lambda_test}),
}


@claim(
    "V3-unseen",
    "maps and test losses of a direction with a share of 10^-7 in training, and break-even, from the moments of the tasks",
    method="linear algebra",
    tolerance=RARE_DIRECTION,
    theory=unseen_formulas(),
    wrong=UNSEEN_FAULTS,
)
def rare_direction(formulas) -> float:
    noise, tiny = 0.7, 1e-7
    tasks = [RegressionTask(eigenvalues=[1 - t, t], context_length=6, noise_variance=noise) for t in (tiny, 2 * tiny)]
    common = {"N": 6, "T": 1.0, "sigma": noise**0.5, "lambda": tiny}
    rare, next_ = (float(task.modes.levels[1]) for task in tasks)
    B_rare = np.diag([0.0, rare])
    shift = RegressionTask(
        eigenvalues=[0.2, 0.5], query_covariance=np.diag([0.4, 0.3]), context_length=9, noise_variance=0.2
    )
    whole = RegressionTask(eigenvalues=[tiny, 1.0], context_length=6, noise_variance=noise)
    test = {"lambda'": 0.5, "lambda_q": 0.3, "a'": shift.second_moment_eigenvalues[1]}

    def of_direction(task: RegressionTask, map_: float) -> float:
        """Its share: the rest, with no map, costs its variance and the noise."""
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


@cache
def rare_networks() -> list[ReducedSeparate]:
    """Four networks trained together on ``RARE``, from weights so large that they soon learn the rare direction, averaged at the end."""
    starts = [
        SeparateWeights.initialize(RARE, heads=3, rank=1, scale=0.5, rng=np.random.default_rng(seed))
        for seed in range(4)
    ]
    batches = fresh_batches(RARE, 512, torch.Generator().manual_seed(33))
    run = train(
        [ReducedSeparate(one) for one in starts], batches, steps=4000, learning_rate=0.2, record_every=5, progress=False
    )
    networks = []
    for index, start in enumerate(starts):
        network = ReducedSeparate(start)
        network.load_state_dict({k: torch.tensor(v[-200:, index].mean(axis=0)) for k, v in run.states.items()})
        networks.append(network)
    return networks


@claim(
    "V3-unseen",
    "errors of four networks, trained with a tenth of the variance in one direction, on prompts with half or all of it there",
    method="training",
    tolerance=TRAINED_PROMPTS,
    theory=unseen_formulas(),
    wrong={
        "twice the context": UNSEEN_FAULTS["twice the context"],
        "twice the second moment": unseen_formulas({a_test: 2 * a_test}),
        "b for -b": unseen_formulas({b: -b}),
    },
    slow=True,
)
def networks_on_a_rare_direction(formulas) -> float:
    worst = 0.0
    for moved in (0.5, 1 - 1e-9):
        test = RegressionTask(eigenvalues=[1 - moved, moved], context_length=LENGTH)
        expected = sum(
            formulas["share"](**{"lambda'": one, "lambda_q": one, "a'": moment, "b": level})
            for one, moment, level in zip(
                test.eigenvalues, test.second_moment_eigenvalues, RARE.modes.levels, strict=True
            )
        )
        found = np.mean(
            [measured(network, test, count=200_000, seed=90 + i).mean for i, network in enumerate(rare_networks())]
        )
        worst = max(worst, abs(found / expected - 1))
    return float(worst)
