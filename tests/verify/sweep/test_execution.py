"""Sweeps: the file that describes them, what they compute, and that they go on where they were killed."""

import json
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
from iclflow.numerics import QuadraticLoss, RegressionTask, SphereTokens, gradient_flow
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


def test_the_grid_is_every_combination(tmp_path):
    sweep = read_sweep(written(tmp_path))
    runs = dict(sweep.runs())
    assert (len(sweep), sweep.shape) == (4, (2, 2))
    assert [(run.setting.seed, run.setting.scale, run.setting.duration) for run in runs.values()] == [
        (3, 0.2, 200.0), (3, 0.1, 400.0), (4, 0.2, 200.0), (4, 0.1, 400.0)
    ]  # fmt: skip
    assert all(run.setting.heads == 4 for run in runs.values())


def test_the_example_of_the_documentation_is_read():
    sweep = read_sweep(Path(__file__).parents[3] / "docs" / "sweep.toml")
    assert len(sweep) == 200
    assert [axis.names for axis in sweep.axes] == [("seed",), ("scale", "duration"), ("rank",)]


VARIED = """
points = 20
[setting]
eigenvalues = [0.6, 0.3]
heads = 2
scale = 0.3
duration = 30
task_covariance = [[1.0, 0.4], [0.4, 2.0]]
query_covariance = [1, 2]
context_gain = "official"
[vary]
noise_variance = [0, 0.5]
"context_lengths, token_law" = [[[4, 8], "student:9"], [{ 4 = 0.25, 8 = 0.75 }, "sphere"]]
"""


def test_tasks_are_varied_by_name(tmp_path):
    """Every variation of the task in one file, made and labelled."""
    sweep = read_sweep(written(tmp_path, VARIED))
    assert run_sweep(sweep, tmp_path, one_at_a_time, progress=False).made == 4
    results = gather(sweep, tmp_path)
    assert results.token_law.values.tolist() == ["student:9", "sphere"]
    assert results.context_lengths.values.tolist() == ["4, 0.5; 8, 0.5", "4, 0.25; 8, 0.75"]
    assert json.loads(results.attrs["setting"])["query_covariance"] == [1.0, 2.0]
    task = RegressionTask(
        eigenvalues=[0.6, 0.3],
        task_covariance=[[1.0, 0.4], [0.4, 2.0]],
        query_covariance=np.diag([1.0, 2.0]),
        noise_variance=0.5,
        context_lengths={4: 0.25, 8: 0.75},
        context_gain="official",
        token_law=SphereTokens(),
    )
    setting = dict(sweep.runs())[1, 1].setting
    run = gradient_flow(QuadraticLoss.population(task), setting.weights, t_end=30.0)
    last = results.loss.sel(noise_variance=0.5).values[1, -1]
    assert last == pytest.approx(run.loss[-1], rel=1e-6)
    save_results(results, tmp_path / "results.nc")


def test_a_name_depends_on_every_parameter(tmp_path):
    _, run = next(read_sweep(written(tmp_path)).runs())
    others = [replace(run, method="descent"), replace(run, points=41)]
    for name in ("scale", "duration", "learning_rate", "momentum", "noise_variance"):
        others.append(replace(run, setting=replace(run.setting, **{name: 0.123})))
    for name in ("heads", "rank", "seed", "context_length", "batch_size", "tilt_seed"):
        others.append(replace(run, setting=replace(run.setting, **{name: 7})))
    others.append(replace(run, setting=replace(run.setting, eigenvalues=(0.4, 0.3))))
    for name, value in (
        ("task_covariance", (1.0,)),
        ("context_lengths", ((8, 1.0),)),
        ("token_law", "sphere"),
        ("context_gain", "longest"),
    ):
        others.append(replace(run, setting=replace(run.setting, **{name: value})))
    assert len({other.name for other in [run, *others]}) == len(others) + 1
    assert replace(run).name == run.name


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("method = ", "is not TOML"),
        ("metod = 'flow'", "metod: there is no such key; did you mean method"),
        ("method = 'sgd'", "method: must be one of flow, descent, training, got 'sgd'"),
        ("setting = 3", "setting: must be a table"),
        ("[setting]\nnoise_variance = -1", "setting.noise_variance: must be a number from 0 to 1e+100, got -1"),
        ('[setting]\ntoken_law = "student:3"', "setting.token_law: must be gaussian, sphere, rademacher or student:NU"),
        (
            '[setting]\ncontext_gain = "mean"',
            "setting.context_gain: must be one of present, longest, official, got 'mean'",
        ),
        ("[setting]\ncontext_lengths = { a = 1 }", "setting.context_lengths: must be a list of lengths, or a table"),
        (
            "[setting]\ntask_covariance = [[1, 2], 3]",
            "setting.task_covariance: must be 1 to 1,000 positive numbers, each from 1e-100 to 1e+100, or the rows of a matrix",
        ),
        ("[setting]\ntask_covariance = [1, 2]", "setting or vary: task_covariance must have one eigenvalue for each"),
        (
            "[setting]\ncontext_length = 4\n[vary]\ncontext_lengths = [[1, 2]]",
            "setting or vary: context_length or context_lengths must be given",
        ),
        ("[setting]\nrnk = 2", "setting.rnk: there is no such key; did you mean rank"),
        ("[setting]\nrank = 1.5", "setting.rank: must be a whole number from 1 to 1,000, got 1.5"),
        ("[setting]\nscale = -0.1", "setting.scale: must be a positive number of at most 1e+20, got -0.1"),
        ("[setting]\nscale = nan", "setting.scale: must be a positive number of at most 1e+20, got nan"),
        ("[setting]\nmomentum = 1", "setting.momentum: must be a number of at least 0 and below 1, got 1"),
        ("[vary]\nmomentum = [0.5, -0.1]", "vary.momentum: must be a number of at least 0 and below 1, got -0.1"),
        ("[setting]\nheads = true", "setting.heads: must be a whole number"),
        ("[setting]\neigenvalues = [0.4, 'x']", "setting.eigenvalues: must be 1 to 1,000 positive numbers"),
        (
            "[vary]\nseed = { first = 0, count = 1_000_000_000 }",
            "vary.seed.count: must be a whole number from 1 to 1,000,000",
        ),
        (
            "[vary]\nseed = { first = 0, count = 9_999 }\nrank = [1, 2, 3]\nheads = [4, 5, 6, 7]\nscale = [1, 2, 3, 4, 5, 6, 7, 8, 9]",
            "vary: the number of runs: must be a whole number from 1 to 1,000,000, got 1079892",
        ),
        ("method = 'descent'\n[setting]\nlearning_rate = 1e-9", "setting or vary: learning_rate must be from 6.5e-06"),
        ("method = 'training'\n[setting]\nbatch_size = 9_999_999", "setting or vary: batch_size must be small enough"),
        ("[vary]\nscale = 0.1", "vary.scale: must be a list"),
        ("[vary]\nscale = [0.1, 0.1]", "vary.scale: must have different values"),
        ("[vary]\nscales = [0.1]", "vary.scales: there is no such key"),
        ("[vary]\nseed = { first = 0, cuont = 4 }", "vary.seed.cuont: there is no such key; did you mean count"),
        ("[vary]\nseed = { first = 0 }", "vary.seed: must be a list, or for seed alone"),
        ("[vary]\n'rank, heads' = [[1, 2], [2]]", "vary.rank, heads: must list a value for each"),
        ("[vary]\nrank = [1]\n'rank, heads' = [[1, 2]]", "vary: rank must be varied once"),
        ("[setting]\nrank = 9", "setting or vary: rank must be"),
    ],
)
def test_a_bad_file_is_told_in_one_line(tmp_path, capsys, text, complaint):
    path = written(tmp_path, text)
    assert main(["sweep", str(path), "--output", str(tmp_path / "runs")]) == 2
    message = capsys.readouterr().err
    assert f"{path}: {complaint}" in message
    assert message.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_bad_directories_schedulers_and_workers_are_told_in_one_line(tmp_path, capsys):
    path, taken = written(tmp_path), tmp_path / "taken"
    taken.write_text("")
    for arguments, complaint in [
        ([str(path), "--output", str(taken)], f"{taken}: the directory cannot be made"),
        ([str(tmp_path / "none.toml"), "--output", str(tmp_path)], "none.toml: No such file"),
        ([str(path), "--output", str(tmp_path / "o"), "--workers", "0"], "--workers must be at least 1, got 0"),
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
