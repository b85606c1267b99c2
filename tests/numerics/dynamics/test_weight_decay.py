"""Weight decay in the flow and in descent: balance, rests, thresholds, and plateaus that stretch (V12)."""

import numpy as np
import pytest
from iclflow.numerics import QuadraticLoss, RegressionTask, SeparateWeights, gradient_descent, gradient_flow
from iclflow.numerics.parametrizations.attention import MergedWeights
from iclflow.numerics.parametrizations.base import vector_field

TASK = RegressionTask(eigenvalues=[0.6, 0.3], context_length=10)
LOSS = QuadraticLoss.population(TASK)


def weights(seed: int = 0, scale: float = 0.3, heads: int = 3, rank: int = 1) -> SeparateWeights:
    return SeparateWeights.initialize(TASK, heads=heads, rank=rank, scale=scale, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("rank", [1, 2])
def test_what_the_flow_conserves_decays(rank):
    start, decay = weights(rank=rank), 0.01
    run = gradient_flow(LOSS, start, t_end=100.0, weight_decay=decay, rtol=1e-10)
    for name, value in start.conserved().items():
        np.testing.assert_allclose(run.at(100.0).conserved()[name], value * np.exp(-2 * decay * 100), atol=1e-9)


def test_descent_of_small_steps_follows_the_flow():
    start, decay = weights(), 0.02
    flow = gradient_flow(LOSS, start, t_end=40.0, weight_decay=decay)
    steps = gradient_descent(LOSS, start, steps=20_000, learning_rate=1e-3, weight_decay=decay)
    np.testing.assert_allclose(steps.states[-1], flow.states[-1], atol=2e-4)


@pytest.mark.parametrize("method", ["LSODA", "DOP853", "Radau"])
def test_solvers_agree(method):
    runs = [gradient_flow(LOSS, weights(), t_end=60.0, weight_decay=0.02, method=one) for one in (method, "RK45")]
    np.testing.assert_allclose(runs[0].states[-1], runs[1].states[-1], atol=1e-6)


def test_many_runs_decay_one_by_one():
    starts = [weights(seed) for seed in range(60)]
    runs = gradient_flow(LOSS, starts, t_end=30.0, weight_decay=0.02)
    alone = gradient_flow(LOSS, starts[7], t_end=30.0, weight_decay=0.02)
    np.testing.assert_allclose(runs[7].states[-1], alone.states[-1], atol=1e-7)


def test_a_rest_is_balanced_and_carries_the_penalty():
    decay = 0.01
    run = gradient_flow(LOSS, weights(3, 0.8), t_end=4e4, weight_decay=decay, rtol=1e-10)
    end = run.at(4e4)
    v2, k2, q2 = end.v**2, (end.k**2).sum((1, 2)), (end.q**2).sum((1, 2))
    np.testing.assert_allclose(v2, k2, atol=1e-9)
    np.testing.assert_allclose(v2, q2, atol=1e-9)
    velocity = vector_field(LOSS, end)(0.0, end.flatten())
    np.testing.assert_allclose(velocity, decay * end.flatten(), atol=1e-9)


def test_small_weights_vanish_and_larger_ones_learn():
    decay, least = 1e-3, 1e-3 / 0.6**2
    for size, learns in ((0.95 * least, False), (1.05 * least, True)):
        e = np.eye(2)[:1]
        head = SeparateWeights(np.array([size]), size * e[None], size * e[None])
        end = gradient_flow(LOSS, head, t_end=3e4, weight_decay=decay).at(3e4)
        assert (abs(end.v[0]) > 0.5) == learns


def test_merged_attention_has_one_threshold():
    start = MergedWeights.initialize(TASK, heads=3, scale=1e-3, rng=np.random.default_rng(0))
    growth = np.linalg.norm(TASK.loss_moments.A)
    for factor, learns in ((0.9, True), (1.1, False)):
        end = gradient_flow(LOSS, start, t_end=2000.0, weight_decay=factor * growth).at(2000.0)
        assert (np.linalg.norm(end.effective_map()) > 1e-3) == learns


@pytest.mark.parametrize("decay", [-1.0, np.nan, "1"])
def test_bad_strengths_are_named(decay):
    for run in (
        lambda: gradient_flow(LOSS, weights(), t_end=1.0, weight_decay=decay),
        lambda: gradient_descent(LOSS, weights(), steps=2, learning_rate=0.1, weight_decay=decay),
    ):
        with pytest.raises(ValueError, match="weight_decay must be a finite number of at least 0"):
            run()


def test_a_loss_that_rises_under_decay_is_no_error():
    task = RegressionTask(eigenvalues=[0.6, 0.3], context_length=10)
    start = SeparateWeights(np.full(2, 12.0), *np.full((2, 2, 1, 2), 12.0))
    loss = QuadraticLoss.population(task)
    run = gradient_flow(loss, start, t_end=200.0, weight_decay=0.3)
    assert run.loss.min() < 0.9 * loss.c
    assert run.loss[-1] == pytest.approx(loss.c)
