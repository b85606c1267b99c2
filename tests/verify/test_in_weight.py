"""Runs with fixed task vectors: the three ways to a curve agree where they must, on settings of a second."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from iclflow.verify import figures_in_weight_theory
from iclflow.verify.claims_in_weight_curves import apart, descending, five_weights, flowing, half_time, reduced_flow
from iclflow.verify.figures import draw
from iclflow.verify.in_weight import EVERY, InWeightSetting, descended, trained

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
    np.testing.assert_allclose(trained(SMALL)["training"][0, 0], flowing(SMALL)["training"][0, 0], rtol=1e-12)


def test_training_follows_theory_and_not_its_mistakes():
    expected, runs = flowing(SMALL), descended(SMALL)
    assert apart(runs, expected, np.max) < 0.05
    assert apart(runs, half_time(SMALL), np.max) > 0.2
    assert apart(runs, reduced_flow(SMALL), np.max) > 0.1
    assert apart(runs, flowing(replace(SMALL, portion=0.2)), np.max) > 0.2


def test_sgd_follows_descent_with_the_same_steps():
    assert apart(trained(SMALL), descending(SMALL), np.mean) < 0.05


def test_figure_names_each_curve_and_its_difference(monkeypatch):
    small = partial(InWeightSetting, dimension=2, heads=3, duration=4.0, learning_rate=0.02, sequences=2_000, seeds=2)
    monkeypatch.setattr(figures_in_weight_theory, "InWeightSetting", small)
    drawing = draw("in-weight")
    panels = drawing.figure.axes
    assert [panel.get_title() for panel in panels] == ["80% of tasks fixed", "40% of tasks fixed", "0% of tasks fixed"]
    assert all(len(panel.lines) == 12 for panel in panels)  # four losses: trained, flow and five equations
    assert "2,000 sequences, mean of 2 seeds" in drawing.caption
    curves = five_weights(small(0.2))
    assert drawing.figure.axes[0].lines[2].get_ydata() == pytest.approx(curves["training"].mean(axis=0))
