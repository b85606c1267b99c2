"""Claims about tests unlike training (V3): statements of the registry against losses of trained networks on fresh prompts."""

from collections.abc import Mapping

import numpy as np

from ....numerics import MergedWeights, QuadraticLoss, RegressionTask, compiled
from ....theory.notation import B, Lambda, Lambda_q, N, T, a, lambda_, sigma
from ....theory.results.task.population import WHITE, Sigma_w
from ....theory.results.variations.shift import a_test
from ...experiments import draws
from ...experiments.plateau_maps import effective_map, measured, settled_network, trained_network
from ...experiments.varied_tasks import OBLIQUE, PLAIN, SPECTRUM
from ...training.modules import ReducedMerged
from ..book import claim, wrong
from ..formulas import formula
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


@claim("V3-test", method="linear algebra", theory=loss_at_test, wrong={"N + 1 for N": {N: N + 1}, "B' for B": {B: B.T}})
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


def by_share(trained: RegressionTask, test: RegressionTask, change: Mapping | None = None) -> float:
    """(V3-length), the shares of all directions."""
    share = compiled("V3-length", (lambda_, a, a_test), part="share", change=change)
    return float(np.sum(share(trained.eigenvalues, trained.second_moment_eigenvalues, test.second_moment_eigenvalues)))


def by_slope(trained: RegressionTask, test: RegressionTask, change: Mapping | None = None) -> float:
    """(V3-length), the limit plus the slope over N', of all directions."""
    both = compiled("V3-length", (lambda_, a, T), part=("limit", "slope"), change=change)
    limit, slope = both(trained.eigenvalues, trained.second_moment_eigenvalues, trained.eigenvalues.sum())
    return float(np.sum(limit + slope / test.context_length))


LENGTH_FORMULAS = {"share": by_share, "slope": by_slope}
LENGTH_FAULTS = {
    "the best map for the test": {"share": {a: a_test}},
    "the loss of training": {"share": {a_test: a}},
    "the slope of a direction alone": {"slope": {T: 0}},
}


def _of_length(length: int) -> RegressionTask:
    return RegressionTask(eigenvalues=SPECTRUM, context_length=length)


@claim("V3-length", method="linear algebra", theory=LENGTH_FORMULAS, wrong=LENGTH_FAULTS)
def test_lengths(formulas) -> float:
    """The loss at test lengths 1, 40 and 10^6 of the map trained at 10, by share, and by limit and slope."""
    B_trained, worst = PLAIN.modes.effective_map(), 0.0
    for length in (1, 40, 10**6):
        exact = QuadraticLoss.population(_of_length(length)).value(B_trained)
        worst = max(worst, *(abs(exact - formula(PLAIN, _of_length(length))) for formula in formulas.values()))
    return worst


@claim("V3-length", method="training", tolerance=TRAINED_PROMPTS, theory=LENGTH_FORMULAS, slow=True, wrong=LENGTH_FAULTS)
def trained_network_at_other_lengths(formulas) -> float:
    """The error of a network trained at length 10, on prompts of length 1, 3 and 50."""
    network, worst = settled_network("plain"), 0.0
    for length in (1, 3, 50):
        found = measured(network, _of_length(length), count=400_000, seed=length).mean
        worst = max(worst, *(abs(found / formula(PLAIN, _of_length(length)) - 1) for formula in formulas.values()))
    return worst
