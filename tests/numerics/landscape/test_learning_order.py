"""The order of learning against gradient flow from small weights, for tasks whose growth and drops order their directions otherwise."""

from itertools import combinations

import numpy as np
import pytest
from iclflow.numerics import QuadraticLoss, RegressionTask, SeparateWeights, gradient_flow
from iclflow.numerics.dynamics.plateaus import find_plateaus
from iclflow.numerics.landscape.fixed_points import separate_fixed_point
from iclflow.numerics.landscape.learning_order import order_of_learning


def commuting(values, omega, queries=None, length=10):
    query = {} if queries is None else {"query_covariance": np.diag(queries)}
    return RegressionTask(eigenvalues=values, task_covariance=np.diag(omega), context_length=length, **query)


def sets(task, **options):
    return [visit.directions for visit in order_of_learning(task, **options)]


def visited(task, scale, seed=0, heads=None):
    """The sets at whose losses the flow rests."""
    D, c, drops = task.dimension, task.loss_moments.c, task.modes.drops
    weights = SeparateWeights.initialize(task, heads=heads or D + 1, rank=1, scale=scale, rng=np.random.default_rng(seed))
    slowest = np.linalg.svd(task.loss_moments.A)[1].min()
    run = gradient_flow(QuadraticLoss.population(task), weights, t_end=40 / scale / slowest)
    losses = {S: c - drops[list(S)].sum() for m in range(D + 1) for S in combinations(range(D), m)}
    return [min(losses, key=lambda S: abs(losses[S] - level)) for level in find_plateaus(run).levels]


def turning_tasks(rng):
    """Commuting tasks in which heads turn: growths and drops apart, no rest short, no drop too small to be seen."""
    while True:
        D = int(rng.integers(2, 5))
        values, omega, queries = (np.exp(rng.uniform(*ends, D)) for ends in ((-1.2, 0.5), (-1.5, 1.0), (-1.0, 0.5)))
        task = commuting(values, omega, queries)
        growth, drops = (np.sort(one)[::-1] for one in (task.modes.growth, task.modes.drops))
        if (growth[1:] / growth[:-1]).max() < 0.6 and (drops[1:] / drops[:-1]).max() < 0.85:
            visits = order_of_learning(task)
            falls = -np.diff([visit.loss for visit in visits])
            if any(visit.turned for visit in visits) and falls.min() > 0.02 * drops.sum():
                yield task


def test_the_flow_visits_the_sets_in_this_order():
    tasks, seen = turning_tasks(np.random.default_rng(7)), []
    for seed in range(10):
        task = next(tasks)
        assert visited(task, 1e-4, seed) == sets(task)
        seen.append(task.dimension)
    assert set(seen) == {2, 3, 4}


def test_heads_turn_more_than_once():
    task = commuting([1.2, 0.6, 0.3], [0.4, 1.1, 2.1], length=20)
    expected = [(), (0,), (1,), (0, 1), (1, 2), (0, 1, 2)]
    assert sets(task) == expected
    assert visited(task, 0.03, seed=1, heads=4) == expected
    assert [visit.turned for visit in order_of_learning(task)] == [False, False, True, False, True, False]
    twice = commuting([1.0, 0.6, 0.4], [0.3, 0.7, 1.4], length=20)
    assert sets(twice) == [(), (0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)]


def test_rests_are_as_long_as_they_are_said_to_be():
    """For two scales the times between two drops differ by rest times the logarithm of their ratio."""
    task = commuting([1.0, 0.5], [0.3, 0.8], length=20)
    turning = order_of_learning(task)[1]
    durations = []
    for scale in (1e-3, 1e-6):
        weights = SeparateWeights(np.array([scale]), scale * np.ones((1, 1, 2)), scale * np.ones((1, 1, 2)))
        run = gradient_flow(QuadraticLoss.population(task), weights, t_end=8 / scale, rtol=1e-10)
        durations.append(float(np.diff(find_plateaus(run).drops)[0]))
    assert np.diff(durations)[0] == pytest.approx(turning.rest * np.log(1e3), rel=1e-2)
    saddle = separate_fixed_point(task, [0], heads=1)
    assert turning.rate == pytest.approx(-saddle.spectrum[0], rel=1e-12)
    assert turning.lag == pytest.approx(1 - 0.2 / 0.3)


@pytest.mark.parametrize("heads", [1, 2, 5])
def test_in_order_nothing_turns(heads):
    task = RegressionTask(eigenvalues=[0.2, 0.5, 0.3], context_length=8)
    visits = order_of_learning(task, heads=heads)
    assert [visit.directions for visit in visits] == [(), (1,), (1, 2), (0, 1, 2)][: heads + 1]
    assert not any(visit.turned or visit.rate for visit in visits)
    assert [visit.rest for visit in visits] == [np.inf] * len(visits)
    steps = task.eigenvalues**3 / task.second_moment_eigenvalues
    assert visits[1].loss == pytest.approx(1.0 - steps[1])


def test_equal_eigenvalues_do_not_turn():
    assert len(order_of_learning(RegressionTask(eigenvalues=[0.4, 0.4, 0.2], context_length=5))) == 4


def test_where_growth_ties_the_larger_drop_is_learned_at_once():
    task = commuting([0.5, 1.0], [1.0, 0.25], length=8)
    assert task.modes.growth[0] == pytest.approx(task.modes.growth[1])
    assert sets(task) == [(), (0,), (0, 1)] == visited(task, 1e-3, heads=4)


def in_plane(angle):
    R = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    covariance = R @ np.diag([0.3, 0.8]) @ R.T
    return (covariance + covariance.T) / 2


def test_where_nothing_commutes_a_head_ends_in_the_largest_drop_without_a_rest():
    task = RegressionTask(eigenvalues=[1.0, 0.5], task_covariance=in_plane(0.5), context_length=20)
    assert task.modes.growth is None
    assert sets(task) == [(), (0,), (0, 1)] == visited(task, 1e-3)


@pytest.mark.parametrize(("omega", "expected"), [(0.1, [(), (1,), (0,), (0, 1), (0, 1, 2)]), (0.05, [(), (0,), (0, 2), (0, 1), (0, 1, 2)])])
def test_between_blocks_that_do_not_commute_inside_a_head_rests(omega, expected):
    """The plane does not commute, the third direction is its own: it pays second (0.1) or least (0.05), and grows first of what it may."""
    covariance = np.zeros((3, 3))
    covariance[:2, :2], covariance[2, 2] = in_plane(0.5), omega
    task = RegressionTask(eigenvalues=[1.0, 0.5, 3.0], task_covariance=covariance, context_length=20)
    assert sets(task) == visited(task, 1e-4) == expected


def test_bad_input_is_named():
    with pytest.raises(TypeError, match="task must be a RegressionTask"):
        order_of_learning(np.eye(2))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="heads must be an integer of at least 1, got 0"):
        order_of_learning(RegressionTask(eigenvalues=[0.6], context_length=3), heads=0)
