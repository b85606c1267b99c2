"""The picture shows the moment, on the page and in a notebook."""

import numpy as np
import pytest
from iclflow.verify.explorer.picture import panels, panels_of
from iclflow.verify.explorer.run import Exploration, explored


def test_the_picture_shows_the_moment():
    run = explored(Exploration(scale=0.05))
    wide, narrow = panels(run, 0.0), panels(run, 1.0, narrow=True)
    assert wide.get_size_inches()[0] > wide.get_size_inches()[1]
    assert narrow.get_size_inches()[0] < narrow.get_size_inches()[1]
    at_start, at_end = (figure.axes[1 if figure is wide else 3].images[0].get_array() for figure in (wide, narrow))
    assert np.abs(at_start).max() < 0.05
    np.testing.assert_allclose(np.diag(at_end), 1, atol=0.02)
    shaded = [[patch.get_x(), patch.get_x() + patch.get_width()] for patch in wide.axes[0].patches]
    np.testing.assert_allclose(shaded, run.prediction.drop_bounds, rtol=1e-12)
    with pytest.raises(ValueError, match="moment"):
        panels(run, 1.5)


def test_sliders_of_a_notebook_draw_or_say_why_not():
    values = {f"l{d}": value for d, value in enumerate((0.4, 0.3, 0.2, 0.1), 1)}
    values |= {"N": 31, "H": 5, "R": 1, "scale": 0.05, "seed": 12, "noise": 0.0, "merged": False, "moment": 1.0}
    drawn = panels_of(**values)
    assert not isinstance(drawn, str)
    np.testing.assert_allclose(np.diag(drawn.axes[1].images[0].get_array()), 1, atol=0.02)
    assert "rank" in panels_of(**values | {"R": 5})
