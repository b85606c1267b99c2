"""The file that describes a sweep: the grid, varied tasks, and what is refused."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from iclflow.numerics import QuadraticLoss, RegressionTask, SphereTokens, gradient_flow
from iclflow.numerics.dynamics.storage import save_results
from iclflow.verify.cli.main import main
from iclflow.verify.sweep.description import read_sweep
from iclflow.verify.sweep.execution import gather, run_sweep

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
        ('[setting]\ncontext_gain = "mean"', "setting.context_gain: must be one of present, longest, official, got 'mean'"),
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
        ("[vary]\nseed = { first = 0, count = 1_000_000_000 }", "vary.seed.count: must be a whole number from 1 to 1,000,000"),
        (
            "[vary]\nseed = { first = 0, count = 9_999 }\nrank = [1, 2, 3]\nheads = [4, 5, 6, 7]\nscale = [1, 2, 3, 4, 5, 6, 7, 8, 9]",
            "vary: the number of runs: must be a whole number from 1 to 1,000,000, got 1079892",
        ),
        ("method = 'descent'\n[setting]\nlearning_rate = 1e-9", "setting or vary: learning_rate must be from 6.5e-06"),
        ("method = 'training'\n[setting]\nbatch_size = 9_999_999", "setting or vary: batch_size must be small enough"),
        (
            "method = 'descent'\n[setting]\nduration = 0.1",
            "setting or vary: learning_rate must be from 5e-10 to below 0.0333, for 2 to 100,000,000 steps",
        ),
        ("[setting]\noptimizer = 'adam'", "setting or vary: optimizer must be sgd with the method flow, got adam"),
        (
            "[vary]\n'method, optimizer' = [['training', 'adam'], ['flow', 'sign']]",
            "setting or vary: optimizer must be sgd with the method flow",
        ),
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
