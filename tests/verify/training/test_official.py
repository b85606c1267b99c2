"""Recorded runs trained again: bad files are named, and a run that differs is told. (cli/test_main.py has whole replays.)"""

import numpy as np
import pytest
from iclflow.verify.training.official import Retrained, retrain

D, H, L, P = 2, 1, 4, 5
SEQUENCES = np.ones((P, L, D + 1), np.float32)
SEQUENCES[:, -1, -1] = 0
GOOD = {
    "data.x": SEQUENCES,
    "data.y": np.ones((P, L, D + 1), np.float32),
    "init.value.weight": np.zeros((H * (D + 1), D + 1), np.float32),
    "init.key.weight": np.zeros((H, D + 1), np.float32),
    "init.query.weight": np.zeros((H, D + 1), np.float32),
    "loss": np.ones(4, np.float32),
    "seconds": np.array(2.0),
    "args": np.array(str({"model": "attnS", "in_dim": D, "head_num": H, "rank": 1, "seq_len": L, "lr": 0.1, "softmax": False})),
}


def written(path, **changes):
    arrays = {key: value for key, value in (GOOD | changes).items() if value is not None}
    np.savez(path, **arrays)
    return path


def test_zero_weights_predict_zero_at_every_step(tmp_path):
    """With keys, queries and values zero, linear attention has no gradient and the loss stays E(y^2) = 1."""
    result = retrain(written(tmp_path / "run.npz"), progress=False)
    assert (result.steps, result.max_relative_error, result.agrees) == (4, 0.0, True)
    assert retrain(tmp_path / "run.npz", steps=2).steps == 2


def test_a_curve_that_differs_is_told(tmp_path):
    result = retrain(written(tmp_path / "run.npz", loss=np.array([1, 1, 1, 1.01])), progress=False)
    assert not result.agrees
    assert result.max_relative_error == pytest.approx(0.01 / 1.01)
    assert "9.90e-03" in result.summary()
    assert result.report()["agrees"] is False


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"args": None}, "run.npz: args: is missing"),
        ({"args": np.array("nothing")}, "run.npz: args: must be the text of a dict"),
        ({"args": np.array("{'model': 'attnS', 'in_dim': 2, 'head_num': 1, 'seq_len': 4}")}, "run.npz: args: lacks lr"),
        ({"args": np.array(str({"model": "mlp", "in_dim": D, "head_num": H, "seq_len": L, "lr": 0.1}))}, "args: cubic_feat must be given"),
        ({"data.x": None}, "run.npz: data.x: is missing"),
        ({"loss": np.array([1, np.nan, 1])}, "run.npz: loss: must be finite"),
        ({"loss": np.ones(1)}, "run.npz: loss: must hold at least two steps"),
        ({"init.key.weight": None}, "run.npz: init.key.weight: is missing"),
        ({"init.value.weight": np.zeros(3)}, "init.value.weight: must have shape"),
    ],
)
def test_bad_files_are_named(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        retrain(written(tmp_path / "run.npz", **changes))


def test_what_is_no_archive_is_named(tmp_path):
    (tmp_path / "a.npz").write_text("no archive")
    with pytest.raises(ValueError, match=r"a.npz: file: cannot be read as npz without pickle \([^.]*\)$"):
        retrain(tmp_path / "a.npz")


def test_agreement_is_a_bound():
    assert Retrained("f", 2, 1.0, 1.0, 1e-4).agrees
    assert not Retrained("f", 2, 1.0, 1.0, 1.1e-4).agrees
