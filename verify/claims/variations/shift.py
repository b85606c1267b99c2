"""Claims about tests unlike training (V3): statements of the registry against losses of trained networks on fresh prompts."""

import numpy as np

from ....numerics import MergedWeights, QuadraticLoss, RegressionTask
from ....theory.notation import B, Lambda, Lambda_q, N, T, a, lambda_, sigma
from ....theory.results.task.population import WHITE, Sigma_w
from ....theory.results.variations.shift import a_test
from ...experiments import draws
from ...experiments.plateau_maps import effective_map, measured, settled_network, trained_network
from ...experiments.varied_tasks import OBLIQUE, PLAIN, SPECTRUM
from ...training.modules import ReducedMerged
from ..book import claim, wrong
from ..formulas import formula, parts_of
from ..tolerances import SAMPLING, TRAINED_PROMPTS
from .moments import QUERIES, TASKS, TILTED

# Other covariances that do not commute, and another length; three times the variance; one token; much noise
TESTS = (
    RegressionTask(covariance=TILTED, context_length=7, task_covariance=TASKS, query_covariance=QUERIES, noise_variance=0.5),
    RegressionTask(eigenvalues=3 * PLAIN.eigenvalues, query_covariance=PLAIN.covariance, context_length=40),
    RegressionTask(eigenvalues=SPECTRUM, context_length=1),
    RegressionTask(eigenvalues=SPECTRUM, context_length=4, query_covariance=QUERIES, noise_variance=4.0),
)


def at_test(test: RegressionTask, map_: np.ndarray) -> tuple:
    laws = test.covariance, test.query_covariance, test.task_covariance, np.sqrt(test.noise_variance)
    return *laws, test.context_length, map_


loss_at_test = formula("V3-test", Lambda, Lambda_q, Sigma_w, sigma, N, B, given=at_test)


@claim("V3-test", method="training", tolerance=SAMPLING, theory=loss_at_test, slow=True)
@wrong("N + 1 for N", {N: N + 1})
@wrong("no noise at test", {sigma: 0})
@wrong("the query like the context", {Lambda_q: Lambda})
@wrong("w ~ N(0, I) at test", {Sigma_w: WHITE})
@wrong("the map twice as large", {B: 2 * B})
def trained_networks_under_shift(loss) -> float:
    """The mean squared error of two trained networks on 200,000 prompts of four tests: covariances, lengths and noise unlike training."""
    scores = []
    for network in (trained_network("plain"), trained_network("oblique")):
        for test in TESTS:
            found = measured(network, test)
            scores.append(abs(found.mean - loss(test, effective_map(network))) / found.error)
    return max(scores)


@claim("V3-test", method="linear algebra", theory=loss_at_test)
@wrong("N + 1 for N", {N: N + 1})
@wrong("B' for B", {B: B.T})
def loss_of_any_map(loss) -> float:
    """The loss of maps of any entries under two tests, by the statement and as a quadratic form in the moments of the test."""
    maps = draws.generator(12).standard_normal((4, 3, 3))
    tests = TESTS[0], OBLIQUE
    return max(abs(QuadraticLoss.population(test).value(one) - loss(test, one)) for test in tests for one in maps)


@claim("V3-test", method="forward pass", tolerance=SAMPLING, theory=loss_at_test)
@wrong("N + 1 for N", {N: N + 1})
@wrong("B' for B", {B: B.T})
@wrong("no noise at test", {sigma: 0})
def attention_on_prompts(loss) -> float:
    """The mean squared error of attention with a map of any entries, on 50,000 prompts of two tests."""
    map_ = draws.generator(13).standard_normal((3, 3))
    network = ReducedMerged(MergedWeights(v=np.ones(1), U=map_[None]))
    found = [(measured(network, test, count=50_000), test) for test in (TESTS[0], TESTS[3])]
    return max(abs(one.mean - loss(test, map_)) / one.error for one, test in found)


# Another length


def of_length(length: int) -> RegressionTask:
    return RegressionTask(eigenvalues=SPECTRUM, context_length=length)


LENGTH = parts_of(
    "V3-length", (lambda_, a, T, a_test), "share", "limit", "slope",
    given=lambda test: (PLAIN.eigenvalues, PLAIN.second_moment_eigenvalues, sum(SPECTRUM), test.second_moment_eigenvalues),
)  # fmt: skip


def at_length(formulas, test: RegressionTask) -> tuple[float, float]:
    """The loss at test of the map trained on ``PLAIN``, by the shares of its directions, and by their limits and slopes."""
    share, limit, slope = (np.sum(formulas[part](test)) for part in ("share", "limit", "slope"))
    return share, limit + slope / test.context_length


@claim("V3-length", method="linear algebra", theory=LENGTH)
@wrong("the best map for the test", {"share": {a: a_test}})
@wrong("the loss of training", {"share": {a_test: a}})
@wrong("the slope of a direction alone", {"slope": {T: 0}})
def test_lengths(formulas) -> float:
    """The loss at test lengths 1, 40 and 10^6 of the map trained at 10, by share, and by limit and slope."""
    map_, tests = PLAIN.modes.effective_map(), map(of_length, (1, 40, 10**6))
    return max(abs(QuadraticLoss.population(test).value(map_) - loss) for test in tests for loss in at_length(formulas, test))


@claim("V3-length", method="training", tolerance=TRAINED_PROMPTS, theory=LENGTH, slow=True)
@wrong("the best map for the test", {"share": {a: a_test}})
@wrong("the loss of training", {"share": {a_test: a}})
@wrong("the slope of a direction alone", {"slope": {T: 0}})
def trained_network_at_other_lengths(formulas) -> float:
    """The error of a network trained at length 10, on prompts of length 1, 3 and 50."""
    network, errors = settled_network("plain"), []
    for length in (1, 3, 50):
        found = measured(network, of_length(length), count=400_000, seed=length).mean
        errors += [abs(found / loss - 1) for loss in at_length(formulas, of_length(length))]
    return max(errors)
