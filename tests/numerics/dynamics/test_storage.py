"""Results as datasets: what goes in comes out, from disk too, and a broken write leaves nothing behind."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from iclflow.numerics.dynamics.descent import gradient_descent
from iclflow.numerics.dynamics.storage import load_results, save_results
from iclflow.numerics.dynamics.trajectory import Trajectory
from iclflow.numerics.parametrizations.attention import SeparateWeights
from iclflow.numerics.parametrizations.full_attention import FullSeparateWeights
from iclflow.numerics.tasks.losses import QuadraticLoss
from iclflow.numerics.tasks.regression import RegressionTask
from iclflow.numerics.tasks.sample_moments import SampleMoments

TASK = RegressionTask(eigenvalues=[0.5, 0.3, 0.2], context_length=8)
LOSS = QuadraticLoss.population(TASK)


def run(seed: int = 0) -> Trajectory:
    start = SeparateWeights.initialize(TASK, heads=4, rank=2, scale=0.5, rng=np.random.default_rng(seed))
    return gradient_descent(LOSS, start, steps=12, learning_rate=0.1)


def test_dimensions_and_values_are_those_of_the_run() -> None:
    trajectory = run()
    dataset = trajectory.to_xarray()
    assert {name: dataset.sizes[name] for name in ("time", "head", "rank", "component")} == {
        "time": 13,
        "head": 4,
        "rank": 2,
        "component": 3,
    }
    assert dataset["k"].dims == ("time", "head", "rank", "component")
    np.testing.assert_array_equal(dataset["time"], trajectory.times)
    np.testing.assert_allclose(dataset["loss"], trajectory.loss, rtol=1e-14)
    for name in ("v", "k", "q"):
        np.testing.assert_array_equal(dataset[name], trajectory.arrays[name])
    assert dataset.attrs["parametrization"] == "SeparateWeights"


def test_unreduced_blocks_name_the_label_as_a_component() -> None:
    start = FullSeparateWeights.initialize(TASK, heads=4, scale=0.5, rng=np.random.default_rng(0))
    loss = SampleMoments.sampled(TASK, 50, np.random.default_rng(1)).loss()
    dataset = gradient_descent(loss, start, steps=3, learning_rate=0.01).to_xarray()
    assert dict(dataset["key"].sizes) == {"time": 4, "head": 4, "rank": 1, "token_component": 4}


def test_saved_and_loaded_is_identical(tmp_path: Path) -> None:
    dataset, path = run().to_xarray().assign_attrs(note="one seed", steps=12), tmp_path / "runs.nc"
    save_results(dataset, path)
    xr.testing.assert_identical(load_results(path), dataset)
    assert [entry.name for entry in tmp_path.iterdir()] == ["runs.nc"]


class Interrupted(BaseException):
    """As a keyboard interrupt: not an Exception."""


@pytest.mark.parametrize("stage", ["writing", "renaming"])
@pytest.mark.parametrize("existing", [False, True])
def test_an_interrupted_write_leaves_nothing_and_keeps_the_old(
    stage: str, existing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, old = tmp_path / "runs.nc", run().to_xarray()
    if existing:
        save_results(old, path)

    def half_written(self: xr.Dataset, target: Path, **_options: object) -> None:
        Path(target).write_bytes(b"half a file")
        raise Interrupted

    def refused(*_names: object) -> None:
        raise Interrupted

    if stage == "writing":
        monkeypatch.setattr(xr.Dataset, "to_netcdf", half_written)
    else:
        monkeypatch.setattr("os.replace", refused)
    with pytest.raises(Interrupted):
        save_results(run(1).to_xarray(), path)
    monkeypatch.undo()
    assert [entry.name for entry in tmp_path.iterdir()] == (["runs.nc"] if existing else [])
    if existing:
        xr.testing.assert_identical(load_results(path), old)


def test_nothing_that_needs_pickle_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'x' holds Python objects"):
        save_results(xr.Dataset({"x": ("n", np.array([{}, None], dtype=object))}), tmp_path / "x.nc")
    assert not list(tmp_path.iterdir())


def test_files_that_are_not_results(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.nc"):
        load_results(tmp_path / "absent.nc")
    path = tmp_path / "broken.nc"
    path.write_bytes(b"not a dataset")
    with pytest.raises(ValueError, match=r"broken\.nc: cannot be read"):
        load_results(path)
    save_results(run().to_xarray(), path)
    whole = path.read_bytes()
    for kept in (0, 3, 50, 700, len(whole) - 40):
        path.write_bytes(whole[:kept])
        with pytest.raises(ValueError, match=r"broken\.nc: cannot be read"):
            load_results(path)


def test_what_is_not_a_dataset_is_refused() -> None:
    with pytest.raises(TypeError, match=r"xarray\.Dataset"):
        save_results({"loss": 1}, "x.nc")


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"folder that exists, got .*missing/run\.nc"):
        save_results(xr.Dataset({"loss": ("time", [1.0])}), tmp_path / "missing" / "run.nc")
