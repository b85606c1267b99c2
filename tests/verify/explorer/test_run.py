"""What a setting gives: levels, words, other settings."""

import matplotlib
import numpy as np
import pytest
from iclflow.numerics.landscape.fixed_points import separate_fixed_point
from iclflow.verify.explorer.run import Exploration, explored

matplotlib.use("agg")


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


def test_eigenvalues_keep_the_order_in_which_they_were_set():
    run = explored(Exploration(eigenvalues=(0.1, 0.9, 0.3), scale=0.05))
    first = (run.plateaus.starts[1] + run.plateaus.ends[1]) / 2
    assert run.summary(first) == "Regression on principal components: e2 (100%)."
    assert list(run.levels) == sorted(run.levels, reverse=True)
    np.testing.assert_allclose(run.plateaus.levels, run.levels, rtol=0.01)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"merged": True}, "separate keys and queries"),
        ({"noise_variance": 0.5}, "without noise"),
        ({"eigenvalues": (0.3, 0.3)}, "equal eigenvalues"),
        ({"eigenvalues": (0.3,)}, ""),
    ],
)
def test_a_missing_prediction_has_a_reason(changes, reason):
    run = explored(Exploration(**{"scale": 0.02} | changes))
    assert reason in run.unpredicted
    assert (run.prediction is None) == bool(reason)
    assert ("predict_curve" in run.code()) == (not reason)


def test_the_code_makes_the_run_that_the_table_shows():
    run, found = explored(Exploration(eigenvalues=(0.2, 0.5), scale=0.05)), {}
    exec(run.code(), found)
    rows = np.loadtxt(run.table().splitlines()[1:], delimiter=",")
    assert run.table().splitlines()[0] == "t/tau,loss,predicted_loss,abs_v_1,abs_v_2,abs_v_3,abs_v_4,abs_v_5,share_e1,share_e2"
    np.testing.assert_allclose(found["run"].loss_at(np.minimum(rows[:, 0], run.end)), rows[:, 1], atol=1e-3)
    np.testing.assert_allclose(rows[-1, -2:], 1, atol=0.02)
