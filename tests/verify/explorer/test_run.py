"""What a setting gives: levels, words, other settings."""

import numpy as np
import pytest
from iclflow.numerics.landscape.fixed_points import separate_fixed_point
from iclflow.verify.explorer.run import Exploration, explored


def test_a_run_reaches_every_level_of_theory():
    run = explored(Exploration(scale=0.05))
    levels = [separate_fixed_point(run.task, range(m), heads=5).loss for m in range(5)]
    np.testing.assert_allclose(run.plateaus.levels, levels, rtol=0.01)
    np.testing.assert_allclose(run.levels, levels, rtol=1e-12)
    assert run.prediction is not None
    np.testing.assert_allclose(run.prediction.drops, run.plateaus.drops, rtol=0.05)


def test_what_is_learned_is_said_in_words():
    run = explored(Exploration(scale=0.05))
    assert run.summary(0.0).startswith("Nothing")
    middle = (run.plateaus.starts[2] + run.plateaus.ends[2]) / 2
    assert run.summary(middle).startswith("Regression on principal components: e1")
    assert "e3" not in run.summary(middle)
    assert run.summary(run.end).startswith("Regression on all principal components")


@pytest.mark.parametrize(
    ("changes", "drops"),
    [({"merged": True}, 1), ({"noise_variance": 0.5}, 4), ({"heads": 2}, 2), ({"heads": 2, "rank": 2}, 4), ({"scale": 0.5}, None)],
)
def test_other_settings_run(changes, drops):
    run = explored(Exploration(**{"scale": 0.02} | changes))
    assert drops is None or len(run.plateaus.drops) == drops
    assert abs(run.trajectory.loss[-1] / run.levels[-1] - 1) < 0.002
