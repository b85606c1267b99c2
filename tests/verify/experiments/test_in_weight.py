"""Runs with fixed task vectors: the three ways to a curve agree where they must, on settings of a second."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from iclflow.verify.claims.in_weight.curves import half_time, reduced_flow, reduced_maps
from iclflow.verify.claims.in_weight.five_weights import (
    ERROR_SETTINGS,
    across_rate,
    five_weights,
    powers,
    symmetric_only,
)
from iclflow.verify.experiments.in_weight import (
    EVERY,
    WINDOW,
    InWeightSetting,
    apart,
    descended,
    expected,
    flowing,
    trained,
)
from iclflow.verify.figures import in_weight
from iclflow.verify.figures.gallery import draw

SMALL = InWeightSetting(
    0.5, dimension=2, context_length=5, heads=3, scale=0.1, duration=12.0, learning_rate=0.02, sequences=20_000, seeds=2
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


def test_heads_that_turn_rule_the_error_where_their_rate_is_high():
    """Powers from the singular values of E(y phi) in all sectors, as numbers."""
    for setting in ERROR_SETTINGS:
        A = setting.problem(0).training_loss.A
        first, *others = np.linalg.svd(A.reshape(len(A), -1), compute_uv=False)
        np.testing.assert_allclose(sorted(others)[-1], across_rate(setting), rtol=1e-12)
        second = symmetric_only(setting)[0]
        in_map, in_losses = powers(setting)
        np.testing.assert_allclose(in_map, 1 - others[0] / first, rtol=1e-12)
        np.testing.assert_allclose(in_losses, min(second, 2 * in_map), rtol=1e-12)
    assert powers(ERROR_SETTINGS[0])[1] == pytest.approx(0.8564, abs=1e-4)
    assert powers(ERROR_SETTINGS[1]) == pytest.approx((0.3032, 0.6064), abs=1e-4)


def test_figure_names_each_curve_and_its_difference(monkeypatch):
    small = partial(InWeightSetting, dimension=2, heads=3, duration=4.0, learning_rate=0.02, sequences=2_000, seeds=2)
    monkeypatch.setattr(in_weight, "InWeightSetting", small)
    drawing = draw("in-weight")
    panels = drawing.figure.axes
    assert [panel.get_title() for panel in panels] == ["80% of tasks fixed", "40% of tasks fixed", "0% of tasks fixed"]
    assert all(len(panel.lines) == 12 for panel in panels)  # four losses: trained, flow and five equations
    assert "2,000 sequences, mean of 2 seeds" in drawing.caption
    curves = five_weights(small(0.2))
    assert drawing.figure.axes[0].lines[2].get_ydata() == pytest.approx(curves["training"].mean(axis=0))
