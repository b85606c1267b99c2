"""Compiled flows: against those of LSODA, and in closed form."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from iclflow.numerics import MergedWeights, QuadraticLoss, RegressionTask, SeparateWeights, find_plateaus, gradient_flow
from iclflow.numerics.dynamics import compiled, flow
from iclflow.numerics.dynamics.solver import FlowError
from iclflow.numerics.dynamics.two_sided import Bases
from iclflow.numerics.parametrizations.base import vector_field
from iclflow.numerics.tasks.losses import Dense
from numba import njit

TASK = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)
LOSS = QuadraticLoss.population(TASK)
TILTED = RegressionTask(covariance=[[0.5, 0.1], [0.1, 0.3]], task_covariance=[[1.0, 0.4], [0.4, 0.7]], context_length=9)
LARGE = RegressionTask(eigenvalues=np.linspace(1.0, 0.1, compiled.LARGE), context_length=31)
velocity = compiled.velocity


def starts(family, count, *, task=TASK, scale=0.1, heads=5, **options):
    if family is MergedWeights:
        options.pop("allow_deficient", None)
    return [family.initialize(task, heads=heads, scale=scale, rng=np.random.default_rng(seed), **options) for seed in range(count)]


@njit
def velocity_of(kind, y, out):
    velocity(kind, y, kind.A, kind.C, 1.0, out)


@pytest.mark.parametrize(("family", "options"), [(MergedWeights, {}), (SeparateWeights, {"rank": 1}), (SeparateWeights, {"rank": 2})])
@pytest.mark.parametrize("task", [TASK, TILTED, LARGE])
def test_the_velocity_is_that_of_the_model(family, options, task):
    loss, start = QuadraticLoss.population(task), starts(family, 1, task=task, scale=1.0, allow_deficient=True, **options)[0]
    bases, found = Bases.of(loss, start), np.empty(start.size)
    for compute in (velocity_of, velocity_of.py_func):  # compiled, and in Python
        compute(bases.flow, bases.turned(start.flatten()[None])[0], found)
        expected = vector_field(loss, start)(0.0, start.flatten())
        np.testing.assert_allclose(bases.turned(found[None], back=True)[0], expected, atol=1e-14)
        found[:] = np.nan


@pytest.mark.parametrize(("family", "t_end"), [(MergedWeights, 300.0), (SeparateWeights, 3000.0)])
def test_compiled_runs_are_those_of_lsoda(family, t_end):
    weights, times = starts(family, 4), np.linspace(0.0, 2 * t_end, 60)
    runs = gradient_flow(LOSS, weights, t_end=2 * t_end, tau=2.0, rtol=1e-10, method="compiled")
    assert runs[0].statistics.method == "DOP853 and stabilised"
    maps, losses = runs.effective_map_at(times), runs.loss_at(times)
    for i, one in enumerate(weights):
        alone = gradient_flow(LOSS, one, t_end=2 * t_end, tau=2.0, rtol=1e-11)
        assert alone.statistics.method == "LSODA"
        np.testing.assert_allclose(maps[i], alone.effective_map_at(times), atol=1e-6)
        np.testing.assert_allclose(runs[i].effective_map_at(times), maps[i], atol=1e-12)
        np.testing.assert_allclose(losses[i], alone.loss_at(times), atol=1e-6)
        np.testing.assert_allclose(find_plateaus(runs)[i].drops, find_plateaus(alone).drops, rtol=1e-5)
        for drift in runs[i].conservation_drift.values():
            assert drift < 1e-8


def test_tasks_differ_from_run_to_run_and_may_have_any_two_sided_loss():
    tasks = [TILTED, RegressionTask(eigenvalues=[0.6, 0.2], context_length=5)]
    losses, start = [QuadraticLoss.population(task) for task in tasks], starts(SeparateWeights, 1, task=TILTED, heads=3)[0]
    runs = gradient_flow(losses, start, t_end=500.0, rtol=1e-10, method="compiled")
    for run, loss in zip(runs, losses, strict=True):
        alone = gradient_flow(loss, start, t_end=500.0, rtol=1e-11)
        np.testing.assert_allclose(run.effective_maps[-1], alone.effective_maps[-1], atol=1e-7)
        np.testing.assert_allclose(run.loss_at([1.0, 250.0]), alone.loss_at([1.0, 250.0]), atol=1e-7)


def test_the_white_merged_flow_is_the_sigmoid_15():
    D, N, t = 3, 7, np.linspace(0.0, 12.0, 80)
    task = RegressionTask(eigenvalues=np.ones(D), context_length=N)
    sizes = (1e-2, 3e-3, 1e-4)
    weights = [MergedWeights([w], w * np.eye(D)[None] / np.sqrt(D)) for w in sizes]
    runs = gradient_flow(QuadraticLoss.population(task), weights, t_end=12.0, rtol=1e-10, method="compiled")
    growth, alpha = np.exp(2 * np.sqrt(D) * t), 1 + (1 + D) / N
    for size, maps in zip(sizes, runs.effective_map_at(t), strict=True):
        sigma = growth / (alpha * (growth - 1) + np.sqrt(D) / size**2)
        np.testing.assert_allclose(maps, sigma[:, None, None] * np.eye(D), atol=1e-8)


def test_long_plateaus_take_stabilised_steps():
    runs = gradient_flow(LOSS, starts(SeparateWeights, 2, scale=1e-2), t_end=35_000.0, method="compiled")
    for run in runs:
        assert run.interpolant.rows[:, 1].max() > 0
        assert run.statistics.steps < 0.2 * 35_000 / compiled.EXPLICIT  # at a rate of 1, DOP853 alone would need several times as many


def test_runs_are_a_sequence_of_trajectories_that_can_be_pickled():
    runs = gradient_flow(LOSS, starts(SeparateWeights, 3), t_end=50.0, method="compiled")
    assert len(runs) == 3
    assert len(runs[1:]) == 2
    again = pickle.loads(pickle.dumps(runs))
    np.testing.assert_array_equal(again.states_at([0.0, 20.0]), runs.states_at([0.0, 20.0]))
    assert runs[1:].loss_at(20.0).shape == (2,)
    np.testing.assert_array_equal(runs[1].states_at(0.0), starts(SeparateWeights, 3)[1].flatten())


def test_the_default_is_compiled_from_many_runs_on():
    weights = starts(SeparateWeights, flow.MANY, heads=4)
    compiled_runs = gradient_flow(LOSS, weights, t_end=50.0)
    assert {run.statistics.method for run in compiled_runs} == {"DOP853 and stabilised"}
    assert gradient_flow(LOSS, weights[:2], t_end=50.0)[0].statistics.method == "LSODA"
    stopped = gradient_flow(LOSS, weights, t_end=5000.0, stop_loss=0.7)
    assert {run.statistics.stopped for run in stopped} == {"stop_loss"}


@pytest.mark.parametrize("options", [{"stop_loss": 0.7}, {"stop_plateau": 1}, {"weight_decay": 0.1}, {"t_end": 1e30}])
def test_what_cannot_be_compiled_is_refused(options):
    for weights in (starts(SeparateWeights, 1)[0], starts(SeparateWeights, 2)):
        with pytest.raises(ValueError, match="method 'compiled' is for"):
            gradient_flow(LOSS, weights, method="compiled", **{"t_end": 10.0} | options)
    dense = QuadraticLoss(LOSS.A, Dense(LOSS.matrix), LOSS.c)
    with pytest.raises(ValueError, match="method 'compiled' is for"):
        gradient_flow(dense, starts(SeparateWeights, 1)[0], t_end=10.0, method="compiled")


@pytest.mark.parametrize("heads", [3, 130])
@pytest.mark.parametrize("count", [1, 2])
def test_states_at_chosen_times_alone(count, heads):
    """Of runs with few weights and with more than 1,000, one and two."""
    weights, times = (
        starts(SeparateWeights, count, heads=heads, scale=0.1 if heads < 10 else 0.5, allow_deficient=True),
        [50.0, 300.0, 1999.0],
    )
    kept = gradient_flow(LOSS, weights if count > 1 else weights[0], t_end=4000.0, tau=2.0, rtol=1e-9, times=times, method="compiled")
    for run, start in zip(kept if count > 1 else [kept], weights, strict=True):
        alone = gradient_flow(LOSS, start, t_end=4000.0, tau=2.0, rtol=1e-9)
        assert run.times.tolist() == [0.0, *times, 4000.0]
        assert run.statistics.steps > 20
        np.testing.assert_allclose(run.effective_maps, alone.effective_map_at(run.times), atol=2e-6)
        np.testing.assert_allclose(run.states_at(25.0), (run.states[0] + run.states[1]) / 2)
    stopped = gradient_flow(LOSS, weights[0], t_end=4000.0, times=times, stop_loss=0.7)
    assert stopped.loss[-1] == pytest.approx(0.7)
    with pytest.raises(ValueError, match="times must increase from 0 or later"):
        gradient_flow(LOSS, weights, t_end=10.0, times=[1.0, 11.0])


def test_zero_weights_stay():
    zero = SeparateWeights(np.zeros(2), np.zeros((2, 1, 4)), np.zeros((2, 1, 4)))
    runs = gradient_flow(LOSS, [zero, *starts(SeparateWeights, 1, heads=2, allow_deficient=True)], t_end=100.0, method="compiled")
    assert not runs[0].states.any()


@pytest.mark.parametrize("seed", [12, 23, 26])  # those whose heads nearly tie, of the first 40
def test_tight_tolerances_are_kept(seed):
    """Against a tolerance of 1e-14: at most 1e-8 off at any time, where LSODA is up to 2e-6 off."""
    start = SeparateWeights.initialize(TASK, heads=5, scale=1e-1, rng=np.random.default_rng(seed))
    times = np.linspace(0.0, 3500.0, 200)
    tight, tighter = (gradient_flow(LOSS, start, t_end=3500.0, rtol=rtol).effective_map_at(times) for rtol in (1e-12, 3e-14))
    assert np.abs(tight - tighter).max() < 1e-8


@pytest.mark.parametrize(
    ("loss", "weights", "message"),
    [
        (LOSS, [], "loss and weights must be as many, at least one, got 0 losses and 0 weights"),
        ([LOSS], starts(SeparateWeights, 2), "loss and weights must be as many, at least one, got 1 losses and 2 weights"),
        (LOSS, [*starts(SeparateWeights, 1), *starts(MergedWeights, 1)], "weights must share one parametrization and its sizes"),
        (LOSS, [*starts(SeparateWeights, 1), *starts(SeparateWeights, 1, heads=4)], "weights must share one parametrization and its sizes"),
    ],
)
def test_bad_lists_are_named(loss, weights, message):
    with pytest.raises(ValueError, match=message):
        gradient_flow(loss, weights, t_end=1.0)


def test_too_many_steps_are_a_failure_that_names_the_run():
    with pytest.raises(FlowError, match="run 0: the solver took more than max_steps = 5 steps"):
        gradient_flow(LOSS, starts(SeparateWeights, 2), t_end=1000.0, max_steps=5, method="compiled")


def test_without_a_folder_to_write_to_nothing_is_kept():
    script = (
        "from numba.core import caching\ncaching.CompileResultCacheImpl._locator_classes = []\n"
        "from iclflow.numerics.dynamics import compiled\nassert compiled.stretched(1e-30, -0.25) == compiled.FASTER"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
