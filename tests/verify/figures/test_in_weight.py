"""The figure of the in-weight curves: every curve is there, with its difference."""

from functools import partial

import pytest
from iclflow.verify.claims.in_weight.five_weights import five_weights
from iclflow.verify.experiments.in_weight import InWeightSetting
from iclflow.verify.figures import in_weight
from iclflow.verify.figures.gallery import draw


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
