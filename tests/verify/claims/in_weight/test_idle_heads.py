"""(V6-idle) on sampled sets: the ends of flows that its claims measure, and what one head can fit."""

import numpy as np
import pytest
from iclflow.numerics import FullMergedWeights, RegressionTask, SampleMoments, gradient_flow
from iclflow.verify.claims.in_weight.idle_heads import LEAK_TASK, SET, ended, near_population, powers
from iclflow.verify.experiments import draws


def excess(eigenvalues, heads):
    """How far the loss of a flow on 2,000 sequences ends above the least one of any weights, relative to it."""
    task = RegressionTask(eigenvalues=eigenvalues, context_length=6)
    loss = SampleMoments.sampled(task, 2_000, np.random.default_rng(1)).loss()
    start = FullMergedWeights.initialize(task, heads=heads, scale=0.03, rng=np.random.default_rng(2))
    end = gradient_flow(loss, start, t_end=1e5).effective_map_at([1e5])[0]
    best = np.linalg.lstsq(loss.C.matrix, loss.A.ravel(), rcond=1e-12)[0]
    least = loss.value(best.reshape(loss.A.shape))
    return loss.value(end) / least - 1


def test_one_head_fits_a_set_only_where_there_is_one_direction():
    assert excess([0.8], heads=1) < 1e-9
    one, more = excess([0.6, 0.4], heads=1), excess([0.6, 0.4], heads=4)
    assert one > 10 * more > -1e-9
    assert one > 1e-4


def test_sets_in_part_lie_between_the_population_and_a_set():
    found = SampleMoments.sampled(LEAK_TASK, SET, draws.generator(0, SET)).loss()
    np.testing.assert_allclose(near_population(0, 1.0).A, found.A, atol=1e-14)
    exact, near = near_population(0, 0.0), near_population(0, 0.1)
    np.testing.assert_allclose(near.C.matrix - exact.C.matrix, 0.1 * (found.C.matrix - exact.C.matrix), atol=1e-13)
    assert np.abs(found.C.matrix - exact.C.matrix).max() > 1e-3


def test_rotated_heads_are_one_active_head_and_idle_ones_at_rest():
    end, loss = ended(0, 1e-2, 3), near_population(0, 1e-2)
    np.testing.assert_allclose(end.value[1:, -1], 0, atol=1e-12)
    assert abs(end.value[0, -1]) > 1
    assert np.linalg.norm(end.value[1:, :-1]) > 3e-3
    pulled = end.pull_back(loss.force(end.effective_map()))
    assert np.abs(pulled.flatten()).max() < 1e-7
    np.testing.assert_allclose(np.linalg.norm(end.value[1:]), np.linalg.norm(end.key_query[1:]), rtol=1e-2)


def test_powers():
    assert powers() == pytest.approx((-1 / 4, -1 / 2), abs=1e-14)
