"""The figure of the in-weight curves: every curve is there, with its difference."""

from functools import partial

import numpy as np
import pytest
from iclflow.verify.claims.in_weight.five_weights import five_weights
from iclflow.verify.claims.in_weight.idle_heads import ended, sizes
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


def test_force_of_a_set_foretells_the_matrix_of_an_idle_head():
    """Matrix = m_P / column on a large set, (V6-idle); some heads turn meanwhile: the median over five."""
    ratios = []
    for seed in range(5):
        _, column, matrix = sizes(ended(in_weight.WHITE, seed, 1e8, **in_weight.ORDINARY))
        ratios.append(matrix * column / in_weight.reached(seed, 1e8))
    assert np.median(ratios) == pytest.approx(1, abs=0.2)
    assert in_weight.reached(0, 1e8) == pytest.approx(in_weight.reached(0, 1e6) / 10, rel=1e-9)
