"""Runs from large initial weights: the time that learning takes grows as their square, and what a run that ends before says."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from iclflow.numerics import QuadraticLoss, RegressionTask, SeparateWeights, gradient_flow
from iclflow.numerics.dynamics.large_weights import LargeWeightsWarning, check_large_weights
from iclflow.numerics.dynamics.solver import FlowError

TASK = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)
LOSS = QuadraticLoss.population(TASK)
LEAST = LOSS.value(np.linalg.solve(TASK.second_moment, TASK.covariance))


def run(scale, t_end, seed=0, heads=5, **options):
    weights = SeparateWeights.initialize(TASK, heads=heads, rank=1, scale=scale, rng=np.random.default_rng(seed))
    return gradient_flow(LOSS, weights, t_end=t_end, **options)


def test_learning_takes_a_time_that_grows_as_the_square_of_the_scale():
    """The loss at t = x scale^2 is one function of x: the run is right, only longer."""
    excess = []
    for scale in (1e2, 3e2, 1e3):
        with pytest.warns(LargeWeightsWarning, match="is not yet a minimum"):
            excess.append(run(scale, 0.1 * scale**2).loss[-1] - LEAST)
        assert run(scale, 10 * scale**2).loss[-1] == pytest.approx(LEAST, abs=1e-9)  # and no warning
    np.testing.assert_allclose(excess, excess[-1], rtol=1e-3)
    assert excess[0] > 0.2


def test_the_reported_run_says_what_happens():
    """Scale 1e6 and t_end = 1e5 end 0.39 above the least loss; the time it names suffices."""
    with pytest.warns(LargeWeightsWarning, match=r"less than 0.0002 of their norm.*learning takes t/tau of about 3e\+12"):
        ended = run(1e6, 1e5)
    assert ended.loss[-1] - LEAST == pytest.approx(0.3939, abs=1e-4)
    assert run(1e6, 3e12).loss[-1] == pytest.approx(LEAST, abs=2e-3)


def test_time_is_counted_in_tau():
    with pytest.warns(LargeWeightsWarning, match=r"until t/tau = 1e\+03"):
        run(1e2, 1e9, tau=1e6)
    run(1e2, 1e11, tau=1e6)


def test_the_bound_holds_along_the_run():
    """From where the loss has fallen to c the weights move by no more than sqrt(t c/2)."""
    with pytest.warns(LargeWeightsWarning):
        path = run(1e2, 1e3)
    start = int((path.loss < LOSS.c).argmax())
    moved = np.linalg.norm(np.diff(path.states[start:], axis=0), axis=1).sum()
    bound = np.sqrt((path.times[-1] - path.times[start]) * LOSS.c / 2)
    assert 0.05 * bound < moved < bound


def test_no_warning_where_none_is_due():
    """Small weights on a plateau; weights of order one, cut short; enough heads to fit at once; a stop that was asked for."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(1e-3, 100.0)
        run(1.0, 0.1)
        run(1e2, 3e3, heads=40)
        run(1e2, 1e3, stop_loss=0.5)
        run(1e2, 1e-9)


@pytest.fixture
def risen():
    """A run from scale 100, then once more the first state whose loss has fallen below c, as by rounding at scale 1e6."""
    with pytest.warns(LargeWeightsWarning):
        path = run(1e2, 1e3)
    early = path.states[(path.loss < LOSS.c).argmax()]
    return replace(path, times=np.append(path.times, 1.1e3), states=np.vstack([path.states, early]))


def test_a_loss_that_rises_is_an_error(risen):
    with pytest.raises(FlowError, match=r"the loss rises by .* which it cannot along the flow") as caught:
        check_large_weights(risen)
    assert 0 < caught.value.time <= 1e3


def test_a_loss_that_is_lost_on_the_way_is_told(risen):
    back = replace(risen, times=np.append(risen.times, 1.2e3), states=np.vstack([risen.states, risen.states[-2]]))
    with pytest.warns(LargeWeightsWarning, match=r"on the way the loss is known only to 0\.\d"):
        check_large_weights(back)


def test_what_float64_cannot_resolve_is_never_returned_in_silence():
    """At scale 1e4 methods agree on 0.0437 above the least loss; at 1e6 rounding decides whether the solver fails or the loss rises."""
    with pytest.warns(LargeWeightsWarning):
        resolved = run(1e4, 1300.0, seed=2)
    assert resolved.loss[-1] - LEAST == pytest.approx(0.0437, abs=1e-4)
    with pytest.raises(FlowError, match=r"the loss rises by|more than max_steps") as caught:
        run(1e6, 1300.0, seed=2)
    assert 0 < caught.value.time < 1300
