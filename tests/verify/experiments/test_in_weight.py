"""Runs with fixed task vectors: the three ways to a curve agree where they must, on settings of a second."""

from dataclasses import replace

import numpy as np
import pytest
from iclflow.verify.claims.in_weight.curves import half_time, reduced_flow, reduced_maps
from iclflow.verify.experiments.in_weight import EVERY, WINDOW, InWeightSetting, apart, descended, expected, flowing, trained

SMALL = InWeightSetting(
    0.5, dimension=2, context_length=5, heads=3, scale=0.1, duration=12.0, learning_rate=0.02, sequences=80_000, seeds=2
)


def test_times_are_those_of_the_recorded_steps():
    assert SMALL.times[1] == pytest.approx(2 * SMALL.learning_rate * EVERY)
    assert SMALL.times[-1] < SMALL.duration
    assert descended(SMALL)["training"].shape == (2, len(SMALL.times))


def test_all_routes_start_from_the_same_weights():
    starts = [curves["memory"][:, 0] for curves in (descended(SMALL), flowing(SMALL))]
    np.testing.assert_allclose(*starts, rtol=1e-9)
    np.testing.assert_allclose(expected(SMALL)["memory"][:, 0], starts[1], rtol=1e-9)
    np.testing.assert_allclose(trained(SMALL)["memory"][:, 0], starts[1], rtol=0.03)  # on 50,000 prompts


def test_training_follows_theory_and_not_its_mistakes():
    expected, runs = flowing(SMALL), descended(SMALL)
    assert apart(runs, expected, np.max) < 0.05
    assert apart(runs, half_time(SMALL), np.max) > 0.2
    assert apart(runs, reduced_flow(SMALL), np.max) > 0.1
    assert apart(runs, flowing(replace(SMALL, portion=0.2)), np.max) > 0.2


def test_sgd_follows_the_flow_and_not_its_mistakes():
    runs = trained(SMALL)
    assert {kind: len(curve[0]) for kind, curve in runs.items()} == dict.fromkeys(expected(SMALL), 300 // WINDOW)
    assert apart(runs, expected(SMALL), np.max) < 0.08
    assert apart(runs, half_time(SMALL, expected), np.max) > 0.2
    assert apart(runs, expected(SMALL, reduced_maps), np.max) > 0.1


def test_each_network_has_vector_weights_and_batches_of_its_own():
    runs = trained(SMALL)
    for curve in runs.values():
        assert not np.allclose(*curve, rtol=1e-3)
    vectors = [SMALL.problem(seed).fixed_tasks[0] for seed in (0, 1)]
    assert not np.allclose(*vectors)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), np.sqrt(2))
    np.testing.assert_allclose(np.linalg.norm(replace(SMALL, length=0.3).problem(0).fixed_tasks), 0.3)
