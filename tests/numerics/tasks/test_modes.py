"""The directions of varied tasks where eigenvalues repeat or a law of one's own reorders them, and what is refused, by its cause."""

import numpy as np
import pytest
from iclflow.numerics import MergedDrop, QuadraticLoss, RegressionTask, SeparateWeights, balanced_curve, gradient_flow
from iclflow.numerics.landscape.fixed_points import index_at_minimal_norm, separate_fixed_points
from iclflow.numerics.reductions.curve import predict_curve
from iclflow.numerics.reductions.scalar import ScalarReduction


class Independent:
    """Independent components of given kurtoses, in a basis of their own."""

    def __init__(self, kurtoses, basis=None):
        self.kurtoses, self.basis = np.array(kurtoses, float), np.eye(len(kurtoses)) if basis is None else basis

    def white(self, normal, shape):
        raise NotImplementedError

    def fourth_moment(self, root, S):
        R = root @ self.basis
        L = R @ R.T
        return 2 * L @ S @ L + np.trace(S @ L) * L + (R * ((self.kurtoses - 3) * np.diag(R.T @ S @ R))) @ R.T


def rotation(D, seed=1):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(D, D)))[0]


def turned(X, values):
    matrix = X @ np.diag(values) @ X.T
    return (matrix + matrix.T) / 2


def weights_for(task, scale=1e-3):
    return SeparateWeights.initialize(task, heads=4, rank=1, scale=scale, rng=np.random.default_rng(0))


TURN = np.array([[np.cos(0.5), -np.sin(0.5)], [np.sin(0.5), np.cos(0.5)]])
MIXED = RegressionTask(eigenvalues=[1.0, 0.5], context_length=2, token_law=Independent([1, 1], TURN))


@pytest.mark.parametrize("D", [2, 3, 6])
@pytest.mark.parametrize("gap", [0.0, 1e-13, 1e-6])
def test_a_common_basis_is_found_where_eigenvalues_repeat(D, gap):
    X, rng = rotation(D), np.random.default_rng(D)
    values, omega, queries = np.exp(rng.normal(size=(3, D)))
    values[:2] = values[0], values[0] * (1 + gap)
    task = RegressionTask(
        covariance=turned(X, values), task_covariance=turned(X, omega), query_covariance=turned(X, queries),
        context_length=8,
    )  # fmt: skip
    assert task.modes.growth is not None
    order = np.argsort(task.modes.growth)
    np.testing.assert_allclose(task.modes.growth[order], np.sort(values * omega * queries), rtol=1e-11)
    np.testing.assert_allclose(np.abs(task.modes.keys[:, order].T @ X[:, np.argsort(values * omega * queries)]), np.eye(D), atol=1e-9)
    np.testing.assert_allclose(np.sort(task.second_moment_eigenvalues), np.linalg.eigvalsh(task.second_moment), rtol=1e-11)
    assert all(point.residual < 1e-12 for point in separate_fixed_points(task, heads=D))


def test_the_paper_keeps_its_eigenvectors():
    repeated = RegressionTask(covariance=turned(rotation(3), [0.5, 0.5, 0.2]), context_length=4)
    np.testing.assert_array_equal(repeated.modes.keys, repeated.eigenvectors)


def test_curves_are_predicted_where_white_tokens_meet_any_task_covariance():
    """Lambda = I commutes with everything."""
    task = RegressionTask(eigenvalues=[1.0] * 3, task_covariance=turned(rotation(3), [0.3, 1.0, 2.0]), context_length=8)
    weights = weights_for(task)
    prediction = predict_curve(task, weights)
    run = gradient_flow(QuadraticLoss.population(task), weights, t_end=1.2 * float(prediction.drops.max()))
    for d, (time, before) in enumerate(zip(prediction.drops, prediction.drops * 0.98, strict=True)):
        direction = prediction.directions[:, d]
        level = direction @ prediction.effective_map([1e9])[0] @ direction
        assert direction @ run.effective_map_at(1.02 * time) @ direction > 0.9 * level
        assert direction @ run.effective_map_at(before) @ direction < 0.2 * level


def test_equal_growth_with_unequal_drops_is_refused():
    for options in (
        {"task_covariance": np.diag([1.0, 0.25])}, {"query_covariance": np.diag([1.0, 0.5])},
    ):  # fmt: skip
        task = RegressionTask(eigenvalues=[0.5, 1.0], context_length=8, **options)
        assert task.modes.growth == pytest.approx(task.modes.growth[::-1])
        with pytest.raises(ValueError, match="growth rates and drops in one order"):
            predict_curve(task, weights_for(task))


def test_a_law_that_reorders_the_drops_is_refused():
    task = RegressionTask(eigenvalues=[1.0, 0.8], context_length=2, token_law=Independent([20, 1]))
    with pytest.raises(ValueError, match="growth rates and drops in one order"):
        predict_curve(task, weights_for(task))
    assert predict_curve(RegressionTask(eigenvalues=[1.0, 0.8], context_length=2, token_law=Independent([2, 1])), weights_for(task))
    with pytest.raises(ValueError, match="token law whose fourth moment commutes"):
        predict_curve(MIXED, weights_for(MIXED))


@pytest.mark.parametrize("gap", [0.0, 3e-10, 1e-9, 2e-9, 1e-8])
def test_eigenvalues_that_nearly_agree_are_predicted(gap):
    task = RegressionTask(eigenvalues=[0.4, 0.4 * (1 + gap), 0.2], context_length=5, noise_variance=3.0)
    assert len(predict_curve(task, weights_for(task)).drops) == 3


def test_a_law_is_blamed_for_what_it_does():
    for what in (lambda: MIXED.second_moment_eigenvalues, lambda: MergedDrop.of(MIXED)):
        with pytest.raises(ValueError, match="token_law must have a fourth moment that commutes with covariance"):
            what()
    with pytest.raises(ValueError, match="token_law must have a fourth moment"):
        ScalarReduction.of(MIXED, 0)


def test_merged_curves_of_repeated_eigenvalues_under_a_law_of_ones_own():
    """a_d belong to the directions in which M is diagonal, not to any basis of the eigenspace."""
    task = RegressionTask(eigenvalues=[0.5, 0.5], context_length=2, token_law=Independent([1, 9], TURN))
    start = turned(TURN, [0.2, 0.1])
    curve = balanced_curve(task, start, t_end=30.0)
    tilted = balanced_curve(task, start + np.array([[0.0, 1e-9], [0.0, 0.0]]), t_end=30.0)  # by all D^2 entries
    np.testing.assert_allclose(curve.effective_map(np.array([3.0, 30.0])), tilted.effective_map(np.array([3.0, 30.0])), atol=1e-7)


def test_merged_curves_under_a_law_that_turns_the_second_moment():
    """A start along the eigenvectors of Lambda does not stay there, and ends at the global minimum."""
    curve = balanced_curve(MIXED, np.diag([0.2, 0.1]), t_end=300.0)
    end = curve.effective_map(np.array([300.0]))[0]
    np.testing.assert_allclose(end, np.linalg.solve(MIXED.second_moment, MIXED.covariance), atol=1e-6)
    assert abs(end[0, 1]) > 0.01


def test_equal_drops_are_named():
    task = RegressionTask(eigenvalues=[1.0, 0.5], task_covariance=np.diag([0.5, 1.0]), context_length=9)
    with pytest.raises(ValueError, match=r"task must have distinct drops, got \[0\.[0-9]+ 0\.[0-9]+\]"):
        index_at_minimal_norm(task, [0])
    with pytest.raises(ValueError, match=r"task must have distinct eigenvalues, got \[0\.5 0\.5\]"):
        index_at_minimal_norm(RegressionTask(eigenvalues=[0.5, 0.5], context_length=9), [0])


@pytest.mark.parametrize("directions", [[0, 0], [-1], [2], [0.5], "a", 1, [True], [None]])
def test_bad_directions_are_named(directions):
    modes = RegressionTask(eigenvalues=[0.6, 0.4], context_length=5).modes
    with pytest.raises(ValueError, match="directions must be different integers from 0 to 1, got"):
        modes.effective_map(directions)


def test_good_directions_are_taken():
    modes = RegressionTask(eigenvalues=[0.6, 0.4], context_length=5).modes
    np.testing.assert_array_equal(modes.effective_map(np.array([1, 0])), modes.effective_map())
    np.testing.assert_array_equal(modes.effective_map(()), np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"B must have shape \(2, 2\), got shape \(3, 3\)"):
        modes.coordinates(np.eye(3))
