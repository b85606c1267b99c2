"""Results as datasets: what goes in comes out, from disk too, and a broken write leaves nothing behind."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from iclflow.numerics.dynamics.datasets import to_dataset
from iclflow.numerics.dynamics.descent import gradient_descent
from iclflow.numerics.dynamics.flow import gradient_flow
from iclflow.numerics.dynamics.storage import load_results, save_results
from iclflow.numerics.parametrizations.attention import MergedWeights, SeparateWeights
from iclflow.numerics.parametrizations.full_attention import FullSeparateWeights
from iclflow.numerics.tasks.losses import QuadraticLoss
from iclflow.numerics.tasks.regression import RegressionTask
from iclflow.numerics.tasks.sample_moments import SampleMoments

TASK = RegressionTask(eigenvalues=[0.5, 0.3, 0.2], context_length=8)
LOSS = QuadraticLoss.population(TASK)


def runs(count: int = 2) -> list:
    starts = [SeparateWeights.initialize(TASK, heads=4, rank=2, scale=0.5, rng=np.random.default_rng(seed)) for seed in range(count)]
    return [gradient_descent(LOSS, start, steps=12, learning_rate=0.1) for start in starts]


def test_dimensions_and_values_are_those_of_the_runs() -> None:
    trajectories = runs()
    dataset = to_dataset(trajectories, seeds=[7, 3], attributes={"steps": 12, "eigenvalues": [0.5, 0.3, 0.2]})
    assert dict(dataset.sizes) == {"seed": 2, "time": 13, "head": 4, "rank": 2, "component": 3}
    assert dataset["k"].dims == ("seed", "time", "head", "rank", "component")
    run = trajectories[1]
    chosen = dataset.sel(seed=3)
    np.testing.assert_array_equal(chosen["time"], run.times)
    np.testing.assert_allclose(chosen["loss"], run.loss, rtol=1e-14)
    for name in ("v", "k", "q"):
        np.testing.assert_array_equal(chosen[name], run.arrays[name])
    assert dataset.attrs["parametrization"] == "SeparateWeights"
    assert dataset.attrs["eigenvalues"] == "[0.5, 0.3, 0.2]"


def test_flows_are_brought_to_common_times() -> None:
    flows = [
        gradient_flow(LOSS, MergedWeights.initialize(TASK, heads=2, scale=0.1, rng=np.random.default_rng(seed)), t_end=30.0)
        for seed in range(2)
    ]
    with pytest.raises(ValueError, match="times must be given"):
        to_dataset(flows)
    times = np.linspace(0.0, 30.0, 7)
    dataset = to_dataset(flows, times=times)
    assert dataset["U"].dims == ("seed", "time", "head", "component", "component_2")
    for seed, flow in enumerate(flows):
        np.testing.assert_allclose(dataset["loss"].sel(seed=seed), flow.loss_at(times), rtol=1e-14)
        np.testing.assert_allclose(dataset["U"].sel(seed=seed, time=30.0), flow.weights[-1].U, rtol=1e-14)


def test_unreduced_blocks_name_the_label_as_a_component() -> None:
    start = FullSeparateWeights.initialize(TASK, heads=4, scale=0.5, rng=np.random.default_rng(0))
    loss = SampleMoments.sampled(TASK, 50, np.random.default_rng(1)).loss()
    dataset = to_dataset(gradient_descent(loss, start, steps=3, learning_rate=0.01))
    assert dict(dataset["key"].sizes) == {"seed": 1, "time": 4, "head": 4, "rank": 1, "token_component": 4}


def test_saved_and_loaded_is_identical(tmp_path: Path) -> None:
    dataset, path = to_dataset(runs(), attributes={"note": "two seeds", "steps": 12}), tmp_path / "runs.nc"
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
    path, old = tmp_path / "runs.nc", to_dataset(runs(1))
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
        save_results(to_dataset(runs(2)), path)
    monkeypatch.undo()
    assert [entry.name for entry in tmp_path.iterdir()] == (["runs.nc"] if existing else [])
    if existing:
        xr.testing.assert_identical(load_results(path), old)


def test_nothing_that_needs_pickle_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'x' holds Python objects"):
        save_results(xr.Dataset({"x": ("n", np.array([{}, None], dtype=object))}), tmp_path / "x.nc")
    with pytest.raises(ValueError, match="attributes must hold"):
        to_dataset(runs(1), attributes={"rng": np.random.default_rng(0)})
    assert not list(tmp_path.iterdir())


def test_files_that_are_not_results(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.nc"):
        load_results(tmp_path / "absent.nc")
    path = tmp_path / "broken.nc"
    path.write_bytes(b"not a dataset")
    with pytest.raises(ValueError, match=r"broken\.nc: cannot be read"):
        load_results(path)
    save_results(to_dataset(runs(1)), path)
    whole = path.read_bytes()
    for kept in (0, 3, 50, 700, len(whole) - 40):
        path.write_bytes(whole[:kept])
        with pytest.raises(ValueError, match=r"broken\.nc: cannot be read"):
            load_results(path)


def test_bad_input_is_refused_with_its_name() -> None:
    two = runs()
    with pytest.raises(ValueError, match="seeds must be 2 different numbers"):
        to_dataset(two, seeds=[1, 1])
    with pytest.raises(ValueError, match="increasing"):
        to_dataset(two, times=[1.0, 0.0])
    other = gradient_descent(
        LOSS, MergedWeights.initialize(TASK, heads=4, scale=0.5, rng=np.random.default_rng(0)), steps=12, learning_rate=0.1
    )
    with pytest.raises(ValueError, match="one parametrization"):
        to_dataset([two[0], other])
    with pytest.raises(TypeError, match="trajectories must be"):
        to_dataset([two[0], "run"])
    with pytest.raises(TypeError, match=r"xarray\.Dataset"):
        save_results({"loss": 1}, "x.nc")


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"folder that exists, got .*missing/run\.nc"):
        save_results(xr.Dataset({"loss": ("time", [1.0])}), tmp_path / "missing" / "run.nc")
