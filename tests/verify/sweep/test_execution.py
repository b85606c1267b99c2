"""Sweeps: what they compute, and that they go on where they were killed."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from iclflow.numerics.dynamics.storage import load_results, save_results
from iclflow.verify.cli.main import main
from iclflow.verify.experiments.staircase import flow, plateaus, sgd_noise, theory
from iclflow.verify.figures.style import LIGHT
from iclflow.verify.sweep import execution as sweeps
from iclflow.verify.sweep.description import read_sweep
from iclflow.verify.sweep.execution import gather, make, processes, run_sweep
from iclflow.verify.sweep.figure import drop_times

SMALL = """
method = "flow"
points = 40
[setting]
heads = 4
[vary]
seed = { first = 3, count = 2 }
"scale, duration" = [[0.2, 200], [0.1, 400]]
"""


def written(folder: Path, text: str = SMALL) -> Path:
    path = folder / "sweep.toml"
    path.write_text(text)
    return path


def one_at_a_time():
    return ThreadPoolExecutor(1)


def run_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "runs").iterdir()}


def test_bad_directories_schedulers_and_workers_are_told_in_one_line(tmp_path, capsys):
    path, taken = written(tmp_path), tmp_path / "taken"
    taken.write_text("")
    for arguments, complaint in [
        ([str(path), "--output", str(taken)], f"{taken}: the directory cannot be made"),
        ([str(tmp_path / "none.toml"), "--output", str(tmp_path)], "none.toml: No such file"),
        ([str(path), "--output", str(tmp_path / "o"), "--workers", "2", "--scheduler", "tcp://a:1"], "--workers must be left"),
    ]:  # fmt: skip
        assert main(["sweep", *arguments]) == 2
        message = capsys.readouterr().err
        assert complaint in message
        assert message.count("\n") == 1


def test_a_run_keeps_what_the_flow_gives(tmp_path):
    _, run = next(read_sweep(written(tmp_path)).runs())
    made, expected = make(run), flow(run.setting)
    np.testing.assert_array_equal(made.loss, expected.loss_at(made.time.values))
    np.testing.assert_array_equal(made.drop_time, plateaus(expected).drops)


def test_descent_and_training_follow_the_flow(tmp_path):
    _, run = next(read_sweep(written(tmp_path)).runs())
    setting = replace(run.setting, learning_rate=0.2, duration=60.0, batch_size=256)
    curves = {m: make(replace(run, method=m, setting=setting)).loss.values for m in ("flow", "descent", "training")}
    assert np.abs(curves["descent"] / curves["flow"] - 1).max() < 1e-2
    assert np.abs(curves["training"] / curves["flow"] - 1).max() < 1e-1
    assert len({curve.tobytes() for curve in curves.values()}) == 3


@pytest.mark.parametrize("optimizer", ["adam", "sign"])
def test_descent_and_training_use_the_optimizer(tmp_path, optimizer):
    """For 2 units of time, in which gradient flow stays on its first plateau; a step counts its learning rate."""
    described = SMALL.replace("heads = 4", f'heads = 4\noptimizer = "{optimizer}"').replace('method = "flow"', 'method = "descent"')
    _, run = next(read_sweep(written(tmp_path, described)).runs())
    setting = replace(run.setting, duration=2.0, learning_rate=0.01, batch_size=256)
    assert (setting.optimizer, setting.steps) == (optimizer, 200)
    curves = {m: make(replace(run, method=m, setting=setting)).loss.values for m in ("flow", "descent", "training")}
    np.testing.assert_allclose(curves["descent"], theory(setting).loss_at(np.linspace(0.0, 2.0, run.points)), rtol=1e-2)
    assert np.sqrt(np.mean((curves["training"] - curves["descent"]) ** 2)) < 0.1 * curves["flow"][0]
    assert curves["descent"][-1] < 0.6 * curves["flow"][-1]
    with pytest.raises(ValueError, match=f"momentum must be 0 with the optimizer {optimizer}, got 0.5"):
        replace(setting, momentum=0.5).check("training")


def test_descent_and_training_use_the_momentum(tmp_path):
    """At momentum 0.8 they follow the flow with mass, from which gradient flow is far."""
    _, run = next(read_sweep(written(tmp_path, SMALL.replace("heads = 4", "heads = 4\nmomentum = 0.8"))).runs())
    setting = replace(run.setting, duration=200.0, learning_rate=0.2, batch_size=2048)
    assert setting.momentum == 0.8
    curves = {m: make(replace(run, method=m, setting=setting)).loss.values for m in ("flow", "descent", "training")}
    expected = theory(setting).loss_at(np.linspace(0.0, 200.0, run.points))
    apart = {method: float(np.sqrt(np.mean((curve - expected) ** 2))) for method, curve in curves.items()}
    assert apart["descent"] < 2e-3
    assert apart["training"] < sgd_noise(setting)
    assert apart["flow"] > 2 * sgd_noise(setting)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    sweep = read_sweep(written(folder))
    assert run_sweep(sweep, folder, one_at_a_time).made == 4
    return sweep, folder


def test_the_results_are_one_labelled_dataset(finished, tmp_path):
    sweep, folder = finished
    results = gather(sweep, folder)
    assert results.loss.dims == ("seed", "scale", "point")
    assert results.time.sel(scale=0.1)[-1] == 400.0
    run = dict(sweep.runs())[1, 0]
    np.testing.assert_array_equal(results.loss.sel(seed=4, scale=0.2), make(run).loss)
    save_results(results, tmp_path / "results.nc")
    assert load_results(tmp_path / "results.nc").identical(results)


def test_the_figure_shows_every_run(finished):
    results = gather(*finished)
    picture, caption = drop_times(results, LIGHT)
    drawn = np.concatenate([line.get_ydata() for line in picture.axes[0].lines if line.get_marker() == "o"])
    np.testing.assert_array_equal(np.sort(drawn), np.sort(results.drop_time.values.ravel()))
    assert "4 runs against scale: 0.1, 0.2" in caption


def test_what_has_finished_is_not_made_again(finished, tmp_path, monkeypatch):
    sweep, folder = finished
    before, made = run_files(folder), []
    monkeypatch.setattr(sweeps, "make", lambda run: made.append(run) or make(run))
    assert run_sweep(sweep, folder, one_at_a_time).found == 4
    victim = sorted(before)[0]
    (folder / "runs" / victim).unlink()
    outcome = run_sweep(sweep, folder, one_at_a_time)
    assert (outcome.found, outcome.made) == (3, 1)
    assert [f"{run.name}.nc" for run in made] == [victim]
    assert run_files(folder) == before


def test_processes_give_the_same_bits(finished, tmp_path):
    sweep, folder = finished
    assert run_sweep(sweep, tmp_path, lambda: processes(2)).made == 4
    assert run_files(tmp_path) == run_files(folder)


def test_a_failed_run_is_told_and_leaves_no_file(finished, tmp_path, monkeypatch):
    sweep, _ = finished
    bad = dict(sweep.runs())[0, 1]

    def fails_once(run):
        if run == bad:
            raise ArithmeticError("it diverged")
        return make(run)

    monkeypatch.setattr(sweeps, "make", fails_once)
    outcome = run_sweep(sweep, tmp_path, one_at_a_time)
    assert dict(outcome.failures) == {bad.name: "ArithmeticError: it diverged"}
    assert len(run_files(tmp_path)) == 3
    assert np.isnan(gather(sweep, tmp_path).loss.sel(seed=3, scale=0.1)).all()


@pytest.mark.slow  # four processes import PyTorch
def test_a_pool_that_loses_a_process_is_opened_again(finished, tmp_path):
    """``kill -9`` of one process of the pool: another pool makes what is missing."""
    sweep, folder = finished
    opened = []

    def pool():
        opened.append(processes(2))
        if len(opened) == 1:
            victim = opened[0].submit(os.getpid).result(timeout=120)
            os.kill(victim, signal.SIGKILL)
        return opened[-1]

    assert run_sweep(sweep, tmp_path, pool).made == 4
    assert run_files(tmp_path) == run_files(folder)


def test_a_sweep_that_is_killed_goes_on(tmp_path):
    """``kill -9`` after the first file: the restart makes the others only, and the result is the same."""
    plan = written(tmp_path, SMALL.replace("count = 2", "count = 8"))
    program = "import sys; from iclflow.verify.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "sweep", str(plan), "--output", str(tmp_path), "--workers", "1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    folder, deadline = tmp_path / "runs", time.monotonic() + 120
    while not list(folder.glob("*.nc")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.kill()
    process.wait()
    first = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.nc")}
    assert 0 < len(first) < 16
    outcome = run_sweep(read_sweep(plan), tmp_path, one_at_a_time)
    assert outcome.found == len(first)
    assert {name: (folder / name).stat().st_mtime_ns for name in first} == first
    assert len(list(folder.glob("*.nc"))) == 16


MANY = """
points = 30
[setting]
heads = 2
eigenvalues = [0.5, 0.2]
scale = 0.2
duration = 150
[vary]
seed = { first = 0, count = 60 }
heads = [2, 3]
"""


def test_flows_that_differ_in_their_seed_go_side_by_side_in_chunks(tmp_path, monkeypatch):
    """Each task is a chunk with one file; a killed sweep makes the others only; results are those one by one, to within tolerance."""
    monkeypatch.setattr(sweeps, "CHUNK", 55)
    plan, directory = read_sweep(written(tmp_path, MANY.replace("heads = 2\n", ""))), tmp_path / "out"
    outcome = run_sweep(plan, directory, one_at_a_time)
    files = run_files(directory)
    assert (outcome.found, outcome.made, len(outcome.failures)) == (0, 120, 0)
    assert len(files) == 4
    (directory / "runs" / max(files)).unlink()
    again = run_sweep(plan, directory, one_at_a_time)
    assert again.found + again.made == 120
    assert again.made in (5, 55)
    results = gather(plan, directory)
    assert results.loss.shape == (60, 2, 30)
    assert not np.isnan(results.loss).any()
    for place, run in list(plan.runs())[::37]:
        alone = make(run)
        row = results.isel(seed=place[0], heads=place[1])
        np.testing.assert_allclose(row.loss, alone.loss, atol=1e-5)
        for name in ("drop_time", "predicted_drop_time", "plateau_loss"):
            np.testing.assert_allclose(row[name].values[: alone[name].size], alone[name], rtol=1e-4)
            assert np.isnan(row[name].values[alone[name].size :]).all()


def test_a_run_that_fails_in_a_chunk_leaves_the_others(tmp_path, monkeypatch):
    plan, broken = read_sweep(written(tmp_path, MANY.replace("heads = [2, 3]\n", ""))), 7

    def fails(run):
        if run.setting.seed == broken:
            raise ArithmeticError("cannot be made")
        return make(run)

    monkeypatch.setattr(sweeps, "_side_by_side", lambda runs: fails(replace(runs[0], setting=replace(runs[0].setting, seed=broken))))
    monkeypatch.setattr(sweeps, "make", fails)
    outcome = run_sweep(plan, tmp_path / "out", one_at_a_time)
    assert (outcome.made, list(outcome.failures.values())) == (59, ["ArithmeticError: cannot be made"])
    results = gather(plan, tmp_path / "out")
    assert np.isnan(results.loss.isel(seed=broken)).all()
    assert np.isnan(results.loss).any("point").sum() == 1


def test_a_grid_of_runs_without_drops_is_drawn():
    results = xr.Dataset(
        {name: (("heads", "rank", "drop"), np.empty((3, 2, 0))) for name in ("drop_time", "predicted_drop_time")},
        {"heads": [3, 4, 5], "rank": [1, 2]},
    )
    _, caption = drop_times(results, LIGHT)
    assert caption == "Drop times of 6 runs against heads: 3, 4, 5."
