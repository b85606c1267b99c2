"""Trajectory: evaluation at any time, in any grouping."""

import pickle

import numpy as np
import pytest
from iclflow.numerics import MergedWeights, QuadraticLoss, RegressionTask, SeparateWeights, gradient_descent, gradient_flow

TASK = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)
LOSS = QuadraticLoss.population(TASK)
START = SeparateWeights.initialize(TASK, heads=5, scale=1e-2, rng=np.random.default_rng(0))

RUNS = {
    "flow": lambda: gradient_flow(LOSS, START, t_end=5e4, tau=0.7),
    "flow, sparse": lambda: gradient_flow(LOSS, START, t_end=5e4, tau=0.7, dense=False),
    "flow, long": lambda: gradient_flow(LOSS, START.unflatten(1e-8 * START.flatten()), t_end=3e12, tau=0.7),
    "descent": lambda: gradient_descent(LOSS, START, steps=500, learning_rate=0.3, tau=0.7),
}


@pytest.fixture(scope="module", params=RUNS)
def run(request):
    return RUNS[request.param]()


def test_it_starts_at_the_initial_weights_exactly(run):
    assert run.times[0] == 0.0
    np.testing.assert_array_equal(run.at(0.0).flatten(), run.initial.flatten())
    assert run.loss_at(0.0) == LOSS.value(run.initial.effective_map())


def test_recorded_times_give_the_recorded_states(run):
    np.testing.assert_array_equal(run.states_at(run.times), run.states[np.searchsorted(run.times, run.times)])
    assert run.loss_at(run.times[-1]) == run.loss[-1]
    assert (np.diff(run.times) >= 0).all()


def test_many_times_at_once_equal_one_at_a_time(run):
    times = np.random.default_rng(1).permutation(np.concatenate([np.linspace(0, run.times[-1], 40), run.times[:5]]))
    together, one_by_one = run.at(times), [run.at(float(t)) for t in times]
    for many, one in zip(together, one_by_one, strict=True):
        np.testing.assert_array_equal(many.flatten(), one.flatten())
    np.testing.assert_array_equal(run.loss_at(times), [run.loss_at(float(t)) for t in times])
    np.testing.assert_array_equal(run.effective_map_at(times[:3]), [run.effective_map_at(t) for t in times[:3]])
    assert run.loss_at(times[:40].reshape(8, 5)).shape == (8, 5)


def test_the_interpolant_meets_the_recorded_states_from_both_sides(run):
    picked = slice(1, -1, 7)
    resolution = np.spacing(run.times[-1]) / run.tau  # neighbouring times are this far apart, and the loss falls at 0.1 / tau
    for edge in (0, np.inf):
        side = run.loss_at(np.nextafter(run.times[picked], edge))
        np.testing.assert_allclose(side, run.loss[picked], atol=1e-6 + 0.1 * resolution)


def test_it_survives_a_process_boundary(run):
    assert run.arrays
    assert run.conserved
    copy = pickle.loads(pickle.dumps(run))
    np.testing.assert_array_equal(copy.states, run.states)
    times = np.linspace(0, run.times[-1], 30)
    np.testing.assert_array_equal(copy.loss_at(times), run.loss_at(times))


def test_named_arrays_have_time_in_front(run):
    T = len(run.times)
    assert {name: array.shape for name, array in run.arrays.items()} == {"v": (T, 5), "k": (T, 5, 1, 4), "q": (T, 5, 1, 4)}
    np.testing.assert_array_equal(run.arrays["k"][-1], run.weights[-1].arrays[1])
    np.testing.assert_array_equal(run.effective_maps[-1], run.weights[-1].effective_map())
    np.testing.assert_allclose(run.loss, [LOSS.value(B) for B in run.effective_maps])


@pytest.mark.parametrize("t", [-1.0, 1e30, [0.0, -1e-9]])
def test_times_outside_the_run_are_refused(run, t):
    with pytest.raises(ValueError, match="t must lie between 0 and the end of the run"):
        run.at(t)


def test_the_time_that_is_refused_is_a_plain_number(run):
    """The first that lies outside, and no np.float64(...) around it."""
    for t in (np.float64(1e30), np.array([0.0, 1e30, -1.0]), 1e30):
        with pytest.raises(ValueError, match=r"got 1e\+30$"):
            run.at(t)


@pytest.mark.parametrize("t", ["soon", [[0.0], [0.0, 1.0]], {}, np.nan, True, 1j, ["0.5"], None])
def test_what_is_no_time_is_named(run, t):
    with pytest.raises(ValueError, match=r"t must be (an array of real numbers|finite), got"):
        run.loss_at(t)


def test_at_no_time_there_is_nothing(run):
    assert run.loss_at([]).shape == (0,)
    assert run.effective_map_at(np.empty((2, 0))).shape == (2, 0, *LOSS.A.shape)


def test_flow_solves_its_equation_between_recorded_times():
    """The interpolant's own derivative is the velocity (10): the residual, not the solver's word."""
    start = MergedWeights.initialize(TASK, heads=3, scale=0.3, rng=np.random.default_rng(0))
    run, tau, h = gradient_flow(LOSS, start, t_end=100.0, tau=2.0), 2.0, 1e-3
    for t in np.random.default_rng(1).uniform(1, 99, 50):
        slope = (run.states_at(t + h) - run.states_at(t - h)) / (2 * h)
        weights = run.at(t)
        velocity = weights.pull_back(LOSS.force(weights.effective_map())).flatten()
        np.testing.assert_allclose(tau * slope, velocity, atol=3e-5)
