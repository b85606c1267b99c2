"""A model of one's own on varied tasks: its loss against sampled sequences (Monte Carlo by NumPy), against QuadraticLoss, its flow."""

from functools import cache

import numpy as np
import pytest
from iclflow.numerics import QuadraticLoss, RademacherTokens, RegressionTask, SeparateWeights, SphereTokens, StudentTokens, gradient_flow
from iclflow.numerics.own_model.flow import integrate
from iclflow.numerics.own_model.loss import model_loss
from iclflow.numerics.tasks.sample_moments import sequences
from iclflow.numerics.tasks.token_laws import GaussianTokens, cumulants
from iclflow.theory import Gaussian
from iclflow.theory.model import Model
from iclflow.theory.notation import D, Lambda_hat, N, beta, matrix, sigma, vector, w, x_q
from iclflow.theory.results.own_model.two_steps import U, two_steps
from sympy import Symbol

LAMBDA = [[0.8, 0.2, 0.0], [0.2, 0.5, 0.1], [0.0, 0.1, 0.3]]
SIGMA_W = [[0.4, -0.3, 0.1], [-0.3, 1.2, 0.2], [0.1, 0.2, 2.0]]
LAMBDA_Q = [[0.5, 0.0, 0.2], [0.0, 0.6, -0.1], [0.2, -0.1, 0.9]]
POINT = np.array([[0.7, 0.3, 0.0], [-0.2, 0.6, 0.1], [0.1, 0.4, 0.5]])
LENGTHS = {2: 0.3, 4: 0.2, 9: 0.5}
LINEAR = Model(beta.T * U * x_q, (U,))

TASKS = {
    "noise": {"noise_variance": 0.5, "context_length": 6},
    "task covariance": {"task_covariance": SIGMA_W, "context_length": 6},
    "query covariance": {"query_covariance": LAMBDA_Q, "context_length": 6},
    "random length": {"context_lengths": LENGTHS},
    "official": {"context_lengths": LENGTHS, "context_gain": "official", "noise_variance": 0.2},
    "gains": {"context_lengths": LENGTHS, "context_gain": {2: 1.5, 4: 0.4, 9: 1.1}, "task_covariance": SIGMA_W},
    "all of these": {
        "noise_variance": 0.3, "task_covariance": SIGMA_W, "query_covariance": LAMBDA_Q, "context_lengths": LENGTHS
    },
    "sphere": {"token_law": SphereTokens(), "context_length": 4, "task_covariance": SIGMA_W, "noise_variance": 0.3},
    "Student": {"token_law": StudentTokens(12), "context_lengths": LENGTHS},
    "signs": {"token_law": RademacherTokens(), "context_lengths": LENGTHS, "task_covariance": SIGMA_W},
    "one length": {"context_length": 4, "context_gain": "official", "token_law": SphereTokens()},
}  # fmt: skip


def task_of(name: str) -> RegressionTask:
    return RegressionTask(covariance=LAMBDA, **TASKS[name])


@cache
def sampled(name: str, steps: int) -> tuple[float, float]:
    """The mean squared error on 60,000 sequences of one or two steps of descent, and its standard error."""
    squares = []
    for tokens, target in sequences(task_of(name), 60_000, np.random.default_rng(3)):
        X, y, query = tokens[:, :-1, :3], tokens[:, :-1, 3], tokens[:, -1, :3]
        ahead = np.einsum("pn,pni->pi", y, X) / X.shape[1] @ POINT
        if steps == 2:
            seen = np.einsum("pi,pni->pn", ahead, X)
            ahead = 2 * ahead - np.einsum("pn,pni->pi", seen, X) / X.shape[1] @ POINT
        squares.append((np.einsum("pi,pi->p", ahead, query) - target) ** 2)
    values = np.concatenate(squares)
    return values.mean(), values.std() / np.sqrt(len(values))


def score(loss: float, name: str, steps: int) -> float:
    mean, error = sampled(name, steps)
    return abs(loss - mean) / error


@pytest.mark.parametrize("name", TASKS)
def test_loss_is_that_of_sampled_sequences(name):
    value = model_loss(LINEAR, task_of(name), weights={U: POINT})
    assert score(value[0].value(value[1]), name, 1) < 4


@pytest.mark.parametrize("name", [name for name in TASKS if "token_law" not in TASKS[name]])
def test_loss_of_degree_four_is_that_of_sampled_sequences(name):
    value = model_loss(two_steps(), task_of(name), weights={U: POINT})
    assert score(value[0].value(value[1]), name, 2) < 4


@pytest.mark.parametrize("name", TASKS)
def test_the_paper_s_law_would_be_caught(name):
    """The planted fault of every variation: the loss of the paper's task with the same tokens and the longest context."""
    plain = RegressionTask(covariance=LAMBDA, context_length=task_of(name).context_length)
    loss, point = model_loss(LINEAR, plain, weights={U: POINT})
    assert score(loss.value(point), name, 1) > 5


def at_length(n: int) -> float:
    task = RegressionTask(covariance=LAMBDA, context_length=n)
    loss, point = model_loss(two_steps(), task, weights={U: POINT})
    return loss.value(point)


def test_random_lengths_average_the_loss_and_not_the_length():
    """At degree four a random length is no fixed one, not even the harmonic mean that serves the second order."""
    task = task_of("random length")
    loss, point = model_loss(two_steps(), task, weights={U: POINT})
    assert loss.value(point) == pytest.approx(sum(p * at_length(n) for n, p in LENGTHS.items()), rel=1e-12)
    nearest = round(task.effective_context_length)
    assert abs(loss.value(point) - at_length(nearest)) > 0.05 * loss.value(point)
    assert N not in loss.polynomial.free_symbols


@pytest.mark.parametrize("name", TASKS)
def test_loss_and_flow_are_those_of_the_quadratic_loss(name):
    """The two routes to a varied task: laws of the expression, and the moments A, M, Q, c."""
    task = task_of(name)
    loss, point = model_loss(LINEAR, task, weights={U: POINT})
    quadratic = QuadraticLoss.population(task)
    assert loss.value(point) == pytest.approx(quadratic.value(POINT), rel=1e-12)
    np.testing.assert_allclose(loss.velocity(point).reshape(3, 3), -quadratic.gradient(POINT) / 2, rtol=1e-11, atol=1e-13)


def test_integration_on_a_varied_task():
    """A head of rank two by its own expression, against separate attention, on everything at once."""
    task = task_of("all of these")
    v, K, Q = Symbol("v", real=True), matrix("K", D, 2), matrix("Q", 2, D)
    weights = SeparateWeights.initialize(task, heads=1, rank=2, scale=0.3, rng=np.random.default_rng(0), allow_deficient=True)
    reference = gradient_flow(QuadraticLoss.population(task), weights, t_end=100.0)
    start = {v: float(weights.v[0]), K: weights.k[0].T, Q: weights.q[0]}
    run = integrate(Model(v * beta.T * K * Q * x_q, (v, K, Q)), task, initial=start, t_end=100.0)
    times = np.linspace(0, 100, 11)
    np.testing.assert_allclose(run.loss_at(times), reference.loss_at(times), atol=1e-6)
    assert reference.loss[-1] < 0.8 * reference.loss[0]


def test_flow_of_degree_four_falls_by_the_square_of_the_velocity():
    loss, point = model_loss(two_steps(), task_of("all of these"), weights={U: POINT})
    velocity, h = loss.velocity(point), 1e-6
    slope = (loss.value(point + h * velocity) - loss.value(point - h * velocity)) / (2 * h)
    assert slope == pytest.approx(-2 * velocity @ velocity, rel=1e-6)


def test_least_squares_under_noise():
    """u beta' Lambda_hat^-1 x_q is u w' x_q and noise of variance u^2 sigma^2 D/(N - D - 1), averaged over N."""
    u = Symbol("u", real=True)
    model = Model(u * beta.T * Lambda_hat.inv() * x_q, (u,))
    task = RegressionTask(covariance=LAMBDA, context_lengths=[6, 9], noise_variance=0.5)
    loss, point = model_loss(model, task, weights={u: 0.8})
    variance = np.mean([0.5 * 3 / (n - 4) for n in (6, 9)])
    assert loss.value(point) == pytest.approx(0.5 + 0.04 * np.trace(LAMBDA) + 0.64 * variance, rel=1e-12)
    short = RegressionTask(covariance=LAMBDA, context_lengths=[4, 9], noise_variance=0.5)
    with pytest.raises(ValueError, match=r"task must satisfy N > D \+ 1"):
        model_loss(model, short, weights={u: 0.8})


def test_laws_of_the_model_and_of_the_task_together():
    """A task vector with a mean of the model's own, noise from the task."""
    m = vector("m", D)
    model = Model(LINEAR.prediction, (U,), laws=(Gaussian(w, mean=m),), constants=(m,))
    mean = np.array([[0.5], [-0.2], [0.3]])
    task = RegressionTask(covariance=LAMBDA, context_length=5, noise_variance=0.4)
    loss, point = model_loss(model, task, weights={U: POINT}, constants={m: mean})
    # the same second moment of w without a mean
    shifted = RegressionTask(covariance=LAMBDA, context_length=5, noise_variance=0.4, task_covariance=np.eye(3) + mean @ mean.T)
    assert loss.value(point) == pytest.approx(QuadraticLoss.population(shifted).value(POINT), rel=1e-12)


def test_a_constant_of_the_task_has_the_task_s_value():
    """A prediction that divides by what the noise adds; another value than the task's is refused."""
    model = Model(beta.T * U * x_q / (1 + sigma**2), (U,), constants=(sigma,))
    task = RegressionTask(covariance=LAMBDA, context_length=5, noise_variance=0.25)
    loss, point = model_loss(model, task, weights={U: POINT}, constants={sigma: 0.5})
    assert loss.value(point) == pytest.approx(QuadraticLoss.population(task).value(POINT / 1.25), rel=1e-12)
    with pytest.raises(ValueError, match="constants must give sigma the value that it has on the task"):
        model_loss(model, task, weights={U: POINT}, constants={sigma: 0.25})


class UniformTokens:
    """A law of one's own: independent components, uniform on [-sqrt(3), sqrt(3)], kurtosis 9/5."""

    def white(self, normal, shape):
        raise NotImplementedError

    def fourth_moment(self, root, S):
        L = root @ root.T
        inner = root.T @ S @ root
        return L @ (S + S.T) @ L + np.trace(S @ L) * L - 1.2 * (root * np.diag(inner)) @ root.T


def test_a_token_law_of_ones_own():
    task = RegressionTask(covariance=LAMBDA, context_length=4, token_law=UniformTokens())
    loss, point = model_loss(LINEAR, task, weights={U: POINT})
    assert loss.value(point) == pytest.approx(QuadraticLoss.population(task).value(POINT), rel=1e-12)
    assert abs(loss.value(point) - QuadraticLoss.population(RegressionTask(covariance=LAMBDA, context_length=4)).value(POINT)) > 1e-2


def test_cumulants_of_independent_components_are_as_many_as_there_are():
    root = np.linalg.cholesky(np.array(LAMBDA))
    found = cumulants(UniformTokens(), root)
    assert len(found) == 3
    S = np.random.default_rng(1).standard_normal((3, 3))
    S = S + S.T
    rest = UniformTokens().fourth_moment(root, S) - GaussianTokens().fourth_moment(root, S)
    np.testing.assert_allclose(sum(c * np.trace(V @ S) * V for c, V in found), rest, atol=1e-13)
    assert cumulants(GaussianTokens(), root) == []
    assert len(cumulants(SphereTokens(), root)) == 6


def test_what_cannot_be_stated_is_refused_at_the_door():
    with pytest.raises(ValueError, match="token_law of the task must be Gaussian for this prediction"):
        integrate(two_steps(), task_of("sphere"), initial={U: POINT}, t_end=1.0)
