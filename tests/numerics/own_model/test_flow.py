"""The compiled flow of one's own model against the flow of the parametrizations, exact solutions, and its own loss."""

import numpy as np
import pytest
from iclflow.numerics import MergedWeights, QuadraticLoss, RegressionTask, SeparateWeights, gradient_flow
from iclflow.numerics.own_model.flow import integrate
from iclflow.numerics.own_model.loss import model_loss
from iclflow.theory.model import Model
from iclflow.theory.notation import D, Lambda_hat, beta, matrix, symmetric_matrix, x_q
from iclflow.theory.results.own_model.two_steps import U, two_steps
from scipy.linalg import expm
from sympy import Symbol

TASK = RegressionTask(covariance=[[0.6, 0.2, 0.0], [0.2, 0.5, 0.1], [0.0, 0.1, 0.3]], context_length=6)
v, K, Q = Symbol("v", real=True), matrix("K", D, 2), matrix("Q", 2, D)
RANK_TWO = Model(v * beta.T * K * Q * x_q, (v, K, Q))
S = symmetric_matrix("S", D)


def test_separate_attention_of_rank_two():
    """A scalar and two rectangular weights: the same run as that of the head they make."""
    weights = SeparateWeights.initialize(TASK, heads=1, rank=2, scale=0.1, rng=np.random.default_rng(0), allow_deficient=True)
    reference = gradient_flow(QuadraticLoss.population(TASK), weights, t_end=300.0)
    start = {v: float(weights.v[0]), K: weights.k[0].T, Q: weights.q[0]}
    run = integrate(RANK_TWO, TASK, initial=start, t_end=300.0)
    times = np.linspace(0, 300, 31)
    np.testing.assert_allclose(run.loss_at(times), reference.loss_at(times), atol=1e-6)
    assert reference.loss[-1] < 0.7 * reference.loss[0]
    np.testing.assert_allclose(run.arrays[K][-1], reference.arrays["k"][-1, 0].T, atol=1e-5)
    assert run.at(150.0)[Q].shape == (2, 3)
    assert run.at([1.0, 2.0])[v].shape == (2,)


def test_one_step_has_a_linear_flow():
    """dU/dt = Lambda^2 - M U Lambda in closed form, also at times 1e9 long and from U = 0."""
    model, start = Model(beta.T * U * x_q, (U,)), np.array([[1.0, 0.5, 0], [0, 0, 0], [0.2, 0, -1]])
    run = integrate(model, TASK, initial={U: start}, t_end=3e9, tau=1e9)
    generator = np.kron(TASK.second_moment, TASK.covariance)
    end = np.linalg.solve(generator, (TASK.covariance @ TASK.covariance).ravel())
    expected = end + expm(-3.0 * generator) @ (start.ravel() - end)
    np.testing.assert_allclose(run.states[-1], expected, atol=1e-7)
    from_zero = integrate(model, TASK, initial={U: np.zeros((3, 3))}, t_end=3.0)
    np.testing.assert_allclose(from_zero.states[-1], end - expm(-3.0 * generator) @ end, atol=1e-7)


def test_small_weights_are_seen_to_grow():
    """A start of 1e-9 is not lost in the tolerance: merged attention, v beta' U x_q."""
    rng, model = np.random.default_rng(1), Model(v * beta.T * U * x_q, (v, U))
    start = 1e-9 * rng.standard_normal((3, 3))
    run = integrate(model, TASK, initial={v: 1e-9, U: start}, t_end=120.0)
    reference = gradient_flow(QuadraticLoss.population(TASK), MergedWeights(np.array([1e-9]), start[None]), t_end=120.0)
    np.testing.assert_allclose(run.loss_at([20.0, 60.0, 120.0]), reference.loss_at([20.0, 60.0, 120.0]), rtol=1e-4)


def test_loss_of_degree_four_falls_by_the_square_of_the_velocity():
    """tau dL/dt = -2 |velocity|^2, for a loss that is no quadratic form of an effective map."""
    rng = np.random.default_rng(2)
    loss, point = model_loss(two_steps(), TASK, weights={U: rng.standard_normal((3, 3))})
    velocity, h = loss.velocity(point), 1e-5
    slope = (loss.value(point + h * velocity) - loss.value(point - h * velocity)) / (2 * h)
    assert slope == pytest.approx(-2 * velocity @ velocity, rel=1e-6)
    # two steps do better than one, whose optimum is (24)
    run = integrate(two_steps(), TASK, initial={U: np.zeros((3, 3))}, t_end=100.0)
    one = QuadraticLoss.population(TASK)
    assert (np.diff(run.loss) < 1e-10).all()
    best = np.linalg.solve(TASK.second_moment, TASK.covariance)
    assert run.loss[-1] < 0.9 * one.value(best)


def test_constants_and_symmetric_weights():
    A = matrix("A", D)
    model = Model(beta.T * A * S * x_q, (S,), constants=(A,))
    run = integrate(model, TASK, initial={S: np.eye(3)}, constants={A: np.diag([1.0, 2.0, 3.0])}, t_end=1.0)
    end = run.at(1.0)[S]
    np.testing.assert_allclose(end, end.T, atol=1e-14)
    with pytest.raises(ValueError, match="constants must give a value"):
        integrate(model, TASK, initial={S: np.eye(3)}, t_end=1.0)
    with pytest.raises(TypeError, match="constants must map each symbol to its value"):
        integrate(model, TASK, initial={S: np.eye(3)}, constants=[np.eye(3)], t_end=1.0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="S must be symmetric"):
        integrate(model, TASK, initial={S: np.triu(np.ones((3, 3)))}, constants={A: np.eye(3)}, t_end=1.0)


@pytest.mark.parametrize(
    ("initial", "words"),
    [
        ({v: 1.0, K: np.ones((3, 2))}, "initial must give a value to each"),
        ({v: 1.0, K: np.ones((3, 2)), Q: np.ones((3, 2))}, r"Q must have shape \(2, 3\)"),
        ({v: np.ones(1), K: np.ones((3, 2)), Q: np.ones((2, 3))}, r"v must have shape \(\)"),
        ({v: 1.0, K: np.ones((3, 2)), Q: np.full((2, 3), np.nan)}, "Q must be finite"),
        ({v: 1.0, K: np.ones((3, 2)), Q: np.ones((2, 3)), U: np.eye(3)}, "got U besides"),
        ({Symbol("v"): 1.0, K: np.ones((3, 2)), Q: np.ones((2, 3))}, "own symbols for keys, got another v"),
        ({v: 1.0, "K": np.ones((3, 2)), Q: np.ones((2, 3))}, "own symbols for keys, got another 'K'"),
    ],
)
def test_initial_weights_that_do_not_fit(initial, words):
    with pytest.raises(ValueError, match=words):
        integrate(RANK_TWO, TASK, initial=initial, t_end=1.0)


@pytest.mark.parametrize(
    ("prediction", "start", "words"),
    [
        (beta.T * U * x_q, {U: 1e200 * np.eye(3)}, "initial must be small enough for a finite loss, got the loss inf"),
        (beta.T * U.inv() * x_q, {U: np.zeros((3, 3))}, "initial must have a finite loss, got an error in it: Singular"),
        (beta.T * x_q / (1 + v), {v: -1.0}, "initial must .*finite loss"),
    ],
)
def test_initial_weights_without_a_finite_loss(prediction, start, words):
    with pytest.raises(ValueError, match=words):
        integrate(Model(prediction, tuple(start)), TASK, initial=start, t_end=1.0)


def test_weights_whose_square_overflows():
    """A vanishing inverse: nothing moves, and nothing warns."""
    run = integrate(Model(beta.T * U.inv() * x_q, (U,)), TASK, initial={U: 1e200 * np.eye(3)}, t_end=1.0)
    np.testing.assert_allclose(run.loss, TASK.eigenvalues.sum())


def test_loss_that_does_not_exist():
    """A context shorter than D has no inverse."""
    short = RegressionTask(eigenvalues=[1.0, 0.5, 0.2], context_length=2)
    with pytest.raises(ValueError, match="task must satisfy"):
        integrate(Model(beta.T * Lambda_hat.inv() * U * x_q, (U,)), short, initial={U: np.eye(3)}, t_end=1.0)
