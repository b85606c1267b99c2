"""K shared tasks: singular moments, what is learnable, and the flow, at the borders K = 1, K = D, K > D and D = 1."""

from itertools import product

import numpy as np
import pytest
from iclflow.numerics import QuadraticLoss, RegressionTask, SeparateWeights, find_plateaus, gradient_flow, predict_curve, sequences
from iclflow.numerics.landscape.fixed_points import index_at_minimal_norm, search_fixed_points, separate_fixed_point, separate_fixed_points
from iclflow.numerics.landscape.learning_order import order_of_learning
from iclflow.numerics.own_model.loss import ModelLoss
from iclflow.numerics.reductions.scalar import ScalarReduction
from iclflow.numerics.tasks.sample_moments import SampleMoments
from iclflow.numerics.tasks.token_laws import RademacherTokens
from iclflow.theory.model import Model
from iclflow.theory.notation import D, beta, matrix, w, x_q

SPECTRA = ([1.0, 1.0, 1.0], [0.8, 0.5, 0.3], [0.5])
TASKS = [
    RegressionTask(eigenvalues=spectrum, context_length=N, number_of_tasks=K, task_seed=2, noise_variance=noise)
    for spectrum, K, (N, noise) in product(SPECTRA, (1, 2, 3, 5), ((1, 0.0), (8, 0.3)))
]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.eigenvalues} {len(task.task_vectors)} {task.context_length}")
def test_the_rank_bounds_what_is_learned(task):
    A, M, Q, c = task.loss_moments
    K, rank = len(task.task_vectors), min(len(task.task_vectors), task.dimension)
    assert (task.rank, len(task.modes.learnable)) == (rank, rank)
    best = np.linalg.solve(M, A) @ np.linalg.inv(Q)
    np.testing.assert_allclose(task.modes.effective_map(), best, atol=1e-10 * np.abs(best).max())
    assert QuadraticLoss.population(task).value(best) == pytest.approx(c - task.modes.drops.sum(), rel=1e-10)
    np.testing.assert_allclose(task.task_vectors.T @ task.task_vectors / K, task.task_covariance)
    points = list(separate_fixed_points(task, heads=task.dimension))
    assert len(points) == 2**rank
    for point in points:
        assert point.residual < 1e-10 * np.abs(A).max()
        assert point.index == index_at_minimal_norm(task, point.directions)


def test_nothing_else_is_at_rest():
    task = RegressionTask(eigenvalues=[0.8, 0.5, 0.3], context_length=8, number_of_tasks=2)
    found = search_fixed_points(task, heads=3, starts=30, rng=np.random.default_rng(1))
    assert found.converged > 10
    assert set().union(*found.found) <= set(task.modes.learnable)
    assert found.distance < 1e-4  # a continuum of weights of no map is approached by a root only


@pytest.mark.parametrize("vectors", [[[1.0, 0.5, 0.2]], [[1.0, 0.0, 0.0], [0.0, 0.6, 0.0]], np.random.default_rng(5).normal(size=(4, 3))])
def test_the_flow_visits_the_sets_of_learnable_directions(vectors):
    task = RegressionTask(eigenvalues=[0.8, 0.5, 0.3], context_length=8, task_vectors=vectors)
    weights = SeparateWeights.initialize(task, heads=max(task.rank, 2), scale=1e-3, rng=np.random.default_rng(0))
    visited = [visit.loss for visit in order_of_learning(task)]
    found = find_plateaus(gradient_flow(QuadraticLoss.population(task), weights, t_end=3e5)).levels
    assert len(visited) == task.rank + 1
    np.testing.assert_allclose(found[:3], visited[: len(found[:3])], rtol=2e-3)


def test_drops_of_a_singular_task_are_predicted():
    task = RegressionTask(eigenvalues=[0.8, 0.5, 0.3], context_length=8, task_covariance=np.diag([1.0, 1.0, 0.0]))
    weights = SeparateWeights.initialize(task, heads=3, scale=1e-2, rng=np.random.default_rng(3))
    predicted = predict_curve(task, weights)
    found = find_plateaus(gradient_flow(QuadraticLoss.population(task), weights, t_end=3 * predicted.drops[-1]))
    np.testing.assert_allclose(found.drops, predicted.drops, rtol=1e-2)
    with pytest.raises(ValueError, match=r"component must be one of \[0, 1\], which the task vectors span, got 2"):
        ScalarReduction.of(task, 2)
    with pytest.raises(ValueError, match=r"directions must be at most 3 different integers of \[0, 1\]"):
        separate_fixed_point(task, [2], heads=3)


def test_sequences_share_the_tasks():
    task = RegressionTask(eigenvalues=[0.8, 0.5, 0.3], context_length=3, number_of_tasks=2, task_seed=4)
    tokens, target = next(sequences(task, 200, np.random.default_rng(0)))
    answers = tokens[:, -1, :3] @ task.task_vectors.T
    assert np.isclose(answers, target[:, None]).any(axis=1).all()
    assert np.isclose(answers, target[:, None]).mean(axis=0) == pytest.approx([0.5, 0.5], abs=0.15)
    sampled = SampleMoments.sampled(task, 200_000, np.random.default_rng(1)).reduced().loss()
    exact, B = QuadraticLoss.population(task), np.random.default_rng(2).normal(size=(3, 3))
    assert sampled.value(B) == pytest.approx(exact.value(B), rel=2e-2)


def test_tasks_are_drawn_from_their_covariance():
    covariance = [[1.0, 0.5], [0.5, 0.25]]  # of rank one
    task = RegressionTask(eigenvalues=[0.8, 0.5], context_length=3, task_covariance=covariance, number_of_tasks=5)
    assert task.rank == 1
    same = RegressionTask(eigenvalues=[0.8, 0.5], context_length=3, task_vectors=task.task_vectors)
    np.testing.assert_array_equal(same.task_covariance, task.task_covariance)
    assert "task_vectors=" in repr(task)
    assert "task_covariance=" not in repr(task)


def test_a_singular_second_moment_is_refused():
    task = RegressionTask(eigenvalues=[1.0, 1.0], context_length=1, task_vectors=[[1.0, 1.0]], token_law=RademacherTokens())
    with pytest.raises(ValueError, match="M must be positive definite"):
        _ = task.modes


def test_own_models_take_shared_tasks_by_their_second_moment():
    task = RegressionTask(eigenvalues=[0.8, 0.5], context_length=3, number_of_tasks=3)
    U = matrix("U", D)
    B = np.random.default_rng(0).normal(size=(2, 2))
    loss = ModelLoss(Model(prediction=beta.T * U * x_q, weights=(U,)), task, {U: (2, 2)}, {})
    assert loss.value(B.ravel()) == pytest.approx(QuadraticLoss.population(task).value(B), rel=1e-12)
    with pytest.raises(ValueError, match="task must not have task_vectors for a loss with fourth moments of w"):
        ModelLoss(Model(prediction=beta.T * U * x_q * (w.T * w), weights=(U,)), task, {U: (2, 2)}, {})


@pytest.mark.parametrize("seed", [-1, 1.5, True, None, "a", [1, 2]])
def test_the_seed_of_tasks_is_checked(seed):
    with pytest.raises(ValueError, match="task_seed must be an integer of at least 0"):
        RegressionTask(eigenvalues=[0.5, 0.3], context_length=5, number_of_tasks=2, task_seed=seed)


@pytest.mark.parametrize("given", [{}, {"task_vectors": [[1.0, 0.0]]}])
def test_a_seed_without_draws_is_refused(given):
    with pytest.raises(ValueError, match="task_seed must be left out unless tasks are drawn, got 3"):
        RegressionTask(eigenvalues=[0.5, 0.3], context_length=5, task_seed=3, **given)


@pytest.mark.parametrize("size", [1e200, 1e100, 1e-160, 1e-200])
def test_task_vectors_whose_squares_overflow_are_refused(size):
    with pytest.raises(ValueError, match="task_vectors must have a largest entry between 1e-50 and 1e\\+50"):
        RegressionTask(eigenvalues=[0.5, 0.3], context_length=5, task_vectors=[[size, 1e-200]])
