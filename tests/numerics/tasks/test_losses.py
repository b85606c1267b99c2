"""QuadraticLoss: against the definition of the loss on sampled sequences, and its own derivatives."""

import re

import numpy as np
import pytest
from iclflow.numerics import QuadraticLoss, RegressionTask, SampleMoments
from iclflow.numerics.tasks import sample_moments

COVARIANCE = [[0.5, 0.1, 0.0], [0.1, 0.4, -0.1], [0.0, -0.1, 0.2]]


def sequences(task, count, rng):
    return next(iter(sample_moments.sequences(task, count, rng, batch_size=count)))


def squared_errors(B, tokens, target):
    """(y_q - beta' B x_q)^2 from the definitions (8), (9), one for each sequence."""
    x, y, x_q = tokens[:, :-1, :-1], tokens[:, :-1, -1], tokens[:, -1, :-1]
    beta = np.einsum("pn,pnd->pd", y, x) / y.shape[1]
    return (target - np.einsum("pd,de,pe->p", beta, B, x_q)) ** 2


@pytest.mark.parametrize("N", [1, 4])
def test_population_loss_is_the_mean_of_its_definition(N):
    rng = np.random.default_rng(N)
    task = RegressionTask(covariance=COVARIANCE, context_length=N)
    errors = squared_errors(B := rng.normal(size=(3, 3)), *sequences(task, 200_000, rng))
    deviation = abs(errors.mean() - QuadraticLoss.population(task).value(B))
    assert deviation < 5 * errors.std() / np.sqrt(len(errors))
    assert deviation < 0.1 * errors.mean()  # the standard error is small enough for the line above to mean something


def test_empirical_loss_is_its_definition_exactly_and_in_any_batches():
    rng = np.random.default_rng(0)
    task = RegressionTask(covariance=COVARIANCE, context_length=5)
    tokens, target = sequences(task, 300, rng)
    loss = SampleMoments.from_batches([(tokens, target)], context="mean").reduced().loss()
    B = rng.normal(size=(3, 3))
    assert loss.value(B) == pytest.approx(squared_errors(B, tokens, target).mean(), rel=1e-12)
    batches = ((tokens[a : a + 70], target[a : a + 70]) for a in range(0, 300, 70))
    parts = SampleMoments.from_batches(batches, context="mean").reduced().loss()
    assert parts.value(B) == pytest.approx(loss.value(B), rel=1e-12)


def test_unreduced_loss_is_equation_7_on_the_prompt_matrix():
    rng = np.random.default_rng(0)
    task = RegressionTask(covariance=COVARIANCE, context_length=5)
    tokens, target = sequences(task, 200, rng)
    B = rng.normal(size=(4, 4, 3))
    gram = tokens.transpose(0, 2, 1) @ tokens / 5
    outputs = np.einsum("abc,pab,pc->p", B, gram, tokens[:, -1, :-1])
    loss = SampleMoments.from_batches([(tokens, target)], context="mean").loss()
    assert loss.value(B) == pytest.approx(((target - outputs) ** 2).mean(), rel=1e-12)


def test_empirical_tends_to_population_at_order_one_half():
    task = RegressionTask(covariance=COVARIANCE, context_length=5)
    population = QuadraticLoss.population(task)
    B = np.linalg.inv(task.covariance)
    counts, rng = [100, 1000, 10_000, 100_000], np.random.default_rng(1)

    def error(count):
        def one():
            return SampleMoments.from_batches([sequences(task, count, rng)], context="mean").reduced().loss().gradient(
                B
            ) - population.gradient(B)

        return np.sqrt(np.mean([np.sum(one() ** 2) for _ in range(12)]))

    order = -np.polyfit(np.log(counts), np.log([error(count) for count in counts]), 1)[0]
    assert order == pytest.approx(0.5, abs=0.08)


@pytest.mark.parametrize("kind", ["population", "moments"])
def test_gradient_force_and_value_agree(kind):
    rng = np.random.default_rng(2)
    if kind == "population":
        loss = QuadraticLoss.population(RegressionTask(covariance=COVARIANCE, context_length=5))
        shape = (3, 3)
    else:
        shape = (3, 3, 2)
        root = rng.normal(size=(18, 18))
        loss = QuadraticLoss.from_moments(second=root @ root.T, cross=rng.normal(size=shape), square=3.0)
    B, dB = rng.normal(size=(2, *shape))
    # the loss is quadratic: a central difference of any width is exact
    slope = (loss.value(B + dB) - loss.value(B - dB)) / 2
    assert np.vdot(loss.gradient(B), dB) == pytest.approx(slope, rel=1e-10)
    np.testing.assert_array_equal(loss.force(B), -0.5 * loss.gradient(B))
    np.testing.assert_allclose(loss.apply(B), (loss.gradient(B) - loss.gradient(0 * B)) / 2, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: QuadraticLoss.population(3), TypeError, "task must be a RegressionTask, got 3"),
        (lambda: SampleMoments.from_batches([], context="mean").reduced().loss(), ValueError, "at least one sequence, got none"),
        (
            lambda: QuadraticLoss.from_moments(second=np.eye(3), cross=np.ones((2, 2)), square=1.0),
            ValueError,
            r"second must have shape \(4, 4\), got shape \(3, 3\)",
        ),
        (
            lambda: QuadraticLoss.from_moments(second=np.triu(np.ones((2, 2))), cross=np.ones(2), square=1.0),
            ValueError,
            "second must be symmetric",
        ),
        (lambda: QuadraticLoss.from_moments(second=np.eye(2), cross=[1.0, np.nan], square=1.0), ValueError, "cross must be finite"),
    ],
)
def test_bad_input_to_losses_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("verb", ["value", "gradient", "force", "apply"])
@pytest.mark.parametrize("shape", [(2,), (3, 3), (1, 2), ()])
def test_a_map_of_another_shape_is_refused_not_broadcast(verb, shape):
    loss = QuadraticLoss.population(RegressionTask(eigenvalues=[0.4, 0.3], context_length=3))
    with pytest.raises(ValueError, match=rf"B must have shape \(2, 2\), got shape {re.escape(str(shape))}"):
        getattr(loss, verb)(np.ones(shape))


def test_the_value_of_a_map_with_nan_is_refused():
    loss = QuadraticLoss.population(RegressionTask(eigenvalues=[0.4, 0.3], context_length=3))
    with pytest.raises(ValueError, match="B must not hold nan, got array"):
        loss.value(np.array([[1.0, np.nan], [0.0, 1.0]]))
