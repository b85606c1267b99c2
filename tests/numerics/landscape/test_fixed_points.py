"""Fixed points: enumerated, at rest, with the loss and the index that the theory gives; and none beyond the list."""

from itertools import combinations, islice
from math import comb

import numpy as np
import pytest
from iclflow.numerics import QuadraticLoss, RegressionTask, SeparateWeights
from iclflow.numerics.landscape.fixed_points import (
    fixed_point_sets,
    has_equal_eigenvalues,
    index_at_minimal_norm,
    merged_fixed_points,
    search_fixed_points,
    separate_fixed_point,
    separate_fixed_points,
)
from iclflow.numerics.parametrizations.base import vector_field


@pytest.fixture
def task():
    rotation = np.linalg.qr(np.random.default_rng(8).normal(size=(4, 4)))[0]
    return RegressionTask(covariance=rotation @ np.diag([0.4, 0.3, 0.2, 0.1]) @ rotation.T, context_length=31)


@pytest.mark.parametrize(("heads", "rank"), [(5, 1), (2, 1), (2, 2), (3, 2), (2, 3), (1, 4)])
def test_every_fixed_point(task, heads, rank):
    points = list(separate_fixed_points(task, heads=heads, rank=rank))
    assert len(points) == sum(comb(4, m) for m in range(min(4, heads * rank) + 1)), "T1"
    for point in points:
        S = list(point.directions)
        assert point.residual < 1e-15
        steps = task.eigenvalues[S] ** 3 / task.second_moment_eigenvalues[S]
        assert point.loss == pytest.approx(1 - steps.sum(), abs=1e-14), "(24), (59)"
        if S:
            assert point.index == index_at_minimal_norm(task, S, rank=rank), "T2"
        else:
            assert np.abs(point.spectrum).max() == 0, "T2: the Hessian at the origin vanishes"
            assert point.nullity == point.weights.size
    positive = [p.directions for p in points if p.index == 0]
    assert all(tuple(range(len(S))) == S and (len(S) % rank == 0 or len(S) == 4) for S in positive), "T3"


def test_weights_have_minimal_norm(task):
    """No rescaling of a head, and no other filling of the slots, gives the same map with smaller weights (D.7)."""
    point = separate_fixed_point(task, [0, 1, 2], heads=2, rank=2)
    levels = task.eigenvalues / task.second_moment_eigenvalues
    norm = float(np.sum(point.weights.flatten() ** 2))
    fillings = [((0, 1), (2,)), ((0, 2), (1,)), ((1, 2), (0,))]
    costs = [sum(3 * sum(levels[d] for d in J) ** (2 / 3) for J in filling) for filling in fillings]
    assert norm == pytest.approx(min(costs), rel=1e-12)
    assert max(costs) > 1.001 * min(costs)


def test_hessian_against_differences(task):
    point = separate_fixed_point(task, [0, 2], heads=3, rank=1)
    loss, flat, step = QuadraticLoss.population(task), point.weights.flatten(), 1e-6
    field = vector_field(loss, point.weights)
    numeric = [(field(0, flat - step * e) - field(0, flat + step * e)) / (2 * step) for e in np.eye(len(flat))]
    np.testing.assert_allclose(np.linalg.eigvalsh(np.array(numeric)), point.spectrum, atol=1e-8)


def test_merged_attention_has_two(task):
    zero, minimum = merged_fixed_points(task, heads=3)
    assert zero.residual == 0
    assert zero.index == 3, "(14a): one negative eigenvalue for each head"
    assert zero.spectrum[0] == pytest.approx(-np.linalg.norm(task.covariance @ task.covariance), rel=1e-12)
    assert minimum.residual < 1e-15
    assert minimum.index == 0
    assert minimum.loss == pytest.approx(list(separate_fixed_points(task, heads=4))[-1].loss, rel=1e-13), "(16)"


@pytest.mark.parametrize(("heads", "rank", "count"), [(1, 1, 4), (2, 1, 7), (1, 2, 7)])
def test_a_search_finds_none_beyond_the_list(heads, rank, count):
    task = RegressionTask(eigenvalues=[0.5, 0.3, 0.2], context_length=7)
    search = search_fixed_points(task, heads=heads, rank=rank, starts=120, rng=np.random.default_rng(0))
    assert search.converged >= 110
    assert search.distance < 1e-9, "T1"
    assert set(search.found) == set(fixed_point_sets(task, heads=heads, rank=rank))
    assert len(search.found) == count


def test_a_search_would_see_another_root():
    """Equal eigenvalues make a continuum of fixed points; the distance from the list then shows them."""
    task = RegressionTask(eigenvalues=[0.4, 0.4, 0.2], context_length=7)
    assert has_equal_eigenvalues(task)
    search = search_fixed_points(task, heads=1, rank=1, starts=20, rng=np.random.default_rng(0))
    assert search.distance > 0.05
    with pytest.raises(ValueError, match="distinct eigenvalues"):
        index_at_minimal_norm(task, [0])


def test_refusals(task):
    for wrong in ([0, 0], [4], [0, 1, 2]):
        with pytest.raises(ValueError, match="directions"):
            separate_fixed_point(task, wrong, heads=2, rank=1)
    with pytest.raises(TypeError, match="task"):
        merged_fixed_points(SeparateWeights, heads=1)


@pytest.mark.parametrize(("heads", "rank"), [(6, 1), (2, 2), (1, 1)])
def test_the_sets_come_in_order_of_loss_each_once(heads, rank):
    task = RegressionTask(eigenvalues=[0.3, 0.7, 0.2, 0.5, 0.9], context_length=8)
    sets, drops = list(fixed_point_sets(task, heads=heads, rank=rank)), task.modes.drops
    most = min(heads * rank, 5)
    assert sorted(sets) == sorted(S for m in range(most + 1) for S in combinations(range(5), m))
    fallen = [drops[list(S)].sum() for S in sets]
    assert np.diff(fallen).min() > -1e-14


def test_a_high_dimension_is_not_enumerated():
    """Of the 2^512 fixed points the ten of highest loss: zero weights, then the smallest drops one by one and together."""
    task = RegressionTask(eigenvalues=1.0 / np.arange(1, 513), context_length=600)
    first = list(islice(separate_fixed_points(task, heads=512), 10))
    losses = [point.loss for point in first]
    assert first[0].directions == ()
    assert first[1].directions == (511,)
    assert (np.diff(losses) < 1e-12).all()
