"""The loss of the unreduced model under mixed tasks, against heads, samples and (9)."""

import numpy as np
import pytest
from iclflow.numerics import FullMergedWeights, MergedWeights, QuadraticLoss, RegressionTask, SampleMoments, gradient_flow
from iclflow.numerics.compilation.equations import compiled
from iclflow.numerics.tasks.mixed_task import KINDS, MixedTask
from iclflow.theory.notation import Lambda, N, v_i
from iclflow.theory.results.attention.blocks import U_i, u_i, value_row
from iclflow.theory.results.in_weight.population_loss import _J, portion, w_0

COVARIANCE = np.array([[0.5, 0.1, 0.0], [0.1, 0.3, -0.1], [0.0, -0.1, 0.4]])
TASK = RegressionTask(covariance=COVARIANCE, context_length=5)
VECTOR = np.array([1.0, -0.5, 2.0])


def mixed(p=0.3, vectors=VECTOR[None], task=TASK):
    return MixedTask(task, p, vectors)


def weights(rng, D=3, heads=2):
    return FullMergedWeights(rng.normal(size=(heads, D + 1)), rng.normal(size=(heads, D + 1, D)))


@pytest.mark.parametrize(("number", "loss"), [("V6", "training_loss"), ("V6-memory", "memory_loss")])
def test_value_is_that_of_the_formula_in_the_weights(number, loss):
    heads = weights(np.random.default_rng(1))
    letters = (value_row, v_i, U_i, u_i)
    others = (_J[1], _J[0], _J[2], _J[3])
    constants = (w_0, Lambda, N, portion)
    target = compiled(number, (*letters, *constants), part="target")
    overlap = compiled(number, (*letters, *others, *constants), part="overlap")
    given = (VECTOR[:, None], COVARIANCE, 5, 0.3)

    def split(i):
        row, W = heads.value[i], heads.key_query[i]
        return row[:3, None], row[3], W[:3], W[3][:, None]

    square = 0.3 * np.trace(COVARIANCE) + 0.7 * VECTOR @ COVARIANCE @ VECTOR
    square = VECTOR @ COVARIANCE @ VECTOR if number == "V6-memory" else square
    expected = (
        square
        + sum(np.squeeze(overlap(*split(i), *split(j), *given)) for i in range(2) for j in range(2))
        - 2 * sum(np.squeeze(target(*split(i), *given)) for i in range(2))
    )
    assert getattr(mixed(), loss).value(heads.effective_map()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_moments_are_those_of_samples(kind):
    """100,000 sequences in 25 batches; the largest deviation in standard errors, of 12 + 78 moments."""
    task = RegressionTask(covariance=COVARIANCE[:2, :2], context_length=3)
    problem, rng = mixed(task=task, vectors=np.array([[1.0, -0.5], [0.5, 2.0]])), np.random.default_rng(5)
    parts = [SampleMoments.from_arrays(*batch, context="mean") for batch in problem.sequences(100_000, rng, kind=kind)]

    def deviation(loss):
        exact = np.concatenate([loss.A.ravel(), loss.matrix.ravel()])
        sampled = np.array([np.concatenate([m.linear[m.index].ravel(), m.loss().matrix.ravel()]) for m in parts])
        error = sampled.std(axis=0, ddof=1) / np.sqrt(len(sampled))
        return np.abs((sampled.mean(axis=0) - exact) / np.where(error > 0, error, np.inf)).max()

    assert len(parts) == 25
    assert deviation(problem.losses[kind]) < 5
    longer = RegressionTask(covariance=COVARIANCE[:2, :2], context_length=4)
    assert deviation(mixed(task=longer, vectors=problem.fixed_tasks).losses[kind]) > 8


def test_main_sector_is_the_reduced_population_loss():
    B = np.random.default_rng(2).normal(size=(3, 3))
    full = np.zeros((4, 4, 3))
    full[3, :3] = B
    population, unreduced = QuadraticLoss.population(TASK), mixed().in_context_loss
    assert unreduced.value(full) == pytest.approx(population.value(B), rel=1e-13)
    force = unreduced.force(full)
    np.testing.assert_allclose(force[3, :3], population.force(B), atol=1e-14)
    np.testing.assert_allclose(force[:3, 3], population.force(B), atol=1e-14)  # the Gram matrix is symmetric
    assert not force[:3, :3].any()
    assert not force[3, 3].any()


def test_several_fixed_vectors_are_averaged():
    pair = np.array([VECTOR, -VECTOR])
    B = np.random.default_rng(3).normal(size=(4, 4, 3))
    singles = [mixed(vectors=vector[None]).in_weight_loss.value(B) for vector in pair]
    assert mixed(vectors=pair).in_weight_loss.value(B) == pytest.approx(np.mean(singles), rel=1e-13)
    assert not mixed(vectors=pair).training_loss.A[:3, :3].any()  # opposite vectors: nothing to learn in weight


def test_flow_with_all_tasks_random_is_the_flow_of_the_reduced_model():
    rng = np.random.default_rng(4)
    start = MergedWeights.initialize(TASK, heads=3, scale=0.3, rng=rng)
    reduced = gradient_flow(QuadraticLoss.population(TASK), start, t_end=40.0)
    full = gradient_flow(mixed(p=1.0).training_loss, FullMergedWeights.embed(start), t_end=40.0)
    times = np.linspace(0, 40, 9)
    np.testing.assert_allclose(full.loss_at(times), reduced.loss_at(times), rtol=1e-6)


def test_first_in_weight_then_in_context():
    task = RegressionTask(eigenvalues=[0.25] * 4, context_length=31)
    problem = MixedTask(task, 0.4, np.array([[2.0, 0, 0, 0]]))
    start = FullMergedWeights.initialize(task, heads=8, scale=1e-3, block_scale=1e-3, rng=np.random.default_rng(6))
    run = gradient_flow(problem.training_loss, start, t_end=200.0)
    times = np.linspace(0, 200, 401)
    curves = {kind: np.array([loss.value(B) for B in run.effective_map_at(times)]) for kind, loss in problem.losses.items()}
    memory, in_context = curves["memory"], curves["in context"]
    learned = times[np.argmax(memory < 0.5)], times[np.argmax(in_context < 0.5)]
    assert 0 < learned[0] < learned[1]
    assert memory.argmin() < 0.5 * len(times)
    assert memory[-1] > 0.9  # in the end the context overrules what was stored
    assert (np.diff(curves["training"]) < 1e-9).all()


def test_portion_of_random_tasks_is_exact():
    problem = MixedTask(TASK, 0.37, VECTOR[None])
    fixed = total = 0
    for tokens, target in problem.sequences(10_000, np.random.default_rng(7)):
        assert (tokens[:, -1, -1] == 0).all()
        fixed += np.isclose(target, tokens[:, -1, :3] @ VECTOR).sum()
        total += len(target)
    assert (fixed, total) == (6300, 10_000)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((TASK, 1.2, VECTOR[None]), "random_portion must lie in"),
        ((TASK, np.nan, VECTOR[None]), "random_portion must be finite"),
        ((TASK, 0.5, VECTOR), "fixed_tasks must"),
        ((TASK, 0.5, np.empty((0, 3))), "fixed_tasks must"),
        ((TASK, 0.5, np.ones((1, 2))), "fixed_tasks must"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        MixedTask(*arguments)


def test_bad_kind_and_task():
    with pytest.raises(ValueError, match="kind must be one of training"):
        mixed().sequences(10, np.random.default_rng(0), kind="test")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="task must be a RegressionTask"):
        MixedTask(0.5, 0.5, VECTOR[None])  # type: ignore[arg-type]
