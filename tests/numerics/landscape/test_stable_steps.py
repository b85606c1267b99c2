"""The largest stable step, at saddles and at the minimum."""

import numpy as np
import pytest
from iclflow.numerics import RegressionTask, merged_fixed_points, separate_fixed_point
from iclflow.numerics.landscape.stable_steps import largest_stable_step

TASK = RegressionTask(eigenvalues=[0.5, 0.3], context_length=10)


def test_stable_step_at_saddles_and_minimum():
    """White merged attention has the largest curvature 2 gamma; the origin of separate attention curves nowhere."""
    white = RegressionTask(eigenvalues=[0.5, 0.5], context_length=10)
    _, minimum = merged_fixed_points(white, heads=2)
    assert largest_stable_step(minimum) == pytest.approx(1 / (2 * 0.25 * np.sqrt(2)))
    assert largest_stable_step(minimum, momentum=0.5) == pytest.approx(1.5 * largest_stable_step(minimum))
    assert largest_stable_step(separate_fixed_point(TASK, (), heads=2)) == np.inf
    assert largest_stable_step(separate_fixed_point(TASK, (0,), heads=2)) > 0


def test_a_point_is_a_fixed_point():
    with pytest.raises(TypeError, match="point"):
        largest_stable_step(separate_fixed_point(TASK, (0,), heads=2).weights)
