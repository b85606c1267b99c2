"""Streamed sample moments: the same numbers however the sequences come, and the mean squared error itself."""

import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from iclflow.numerics.tasks.losses import QuadraticLoss
from iclflow.numerics.tasks.mixed_task import MixedTask
from iclflow.numerics.tasks.regression import RegressionTask
from iclflow.numerics.tasks.sample_moments import BATCH, SampleMoments, context_weights, gram_index, sequences

TASK = RegressionTask(covariance=[[0.6, 0.2, 0.0], [0.2, 0.5, 0.1], [0.0, 0.1, 0.3]], context_length=5)


def draw(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    batches = list(sequences(TASK, count, np.random.default_rng(seed)))
    return np.concatenate([tokens for tokens, _ in batches]), np.concatenate([target for _, target in batches])


@pytest.mark.parametrize(("context", "divisor"), [("sum", 1), ("mean", 5)])
def test_value_is_the_mean_squared_error_of_attention_on_each_sequence(context: str, divisor: int) -> None:
    """Equation (7), sequence by sequence, for a map with no symmetry and a batch longer than one block."""
    tokens, target = draw(BATCH + 7)
    moments = SampleMoments.from_arrays(tokens, target, context=context)
    B = np.random.default_rng(1).normal(size=(4, 4, 3))
    gram = np.einsum("pma,pmb->pab", tokens, tokens) / divisor
    prediction = np.einsum("abc,pab,pc->p", B, gram, tokens[:, -1, :3])
    expected = np.mean((target - prediction) ** 2)
    assert moments.value(B) == pytest.approx(expected, rel=1e-12)
    loss = moments.loss()
    assert loss.value(B) == pytest.approx(expected, rel=1e-12)
    residual = target - prediction
    gradient = -2 * np.einsum("p,pab,pc->abc", residual, gram, tokens[:, -1, :3]) / len(target)
    np.testing.assert_allclose(loss.gradient(B), gradient, rtol=1e-10, atol=1e-12)


def test_reduced_moments_are_those_of_beta_times_query() -> None:
    """z = beta x_q' of (11), with beta = (1/N) sum y_n x_n of (8)."""
    tokens, target = draw(200)
    x, y = tokens[:, :-1, :3], tokens[:, :-1, 3]
    z = np.einsum("pn,pni,pj->pij", y, x, tokens[:, -1, :3]) / 5
    B = np.random.default_rng(2).normal(size=(3, 3))
    expected = np.mean((target - np.einsum("pij,ij->p", z, B)) ** 2)
    assert SampleMoments.from_arrays(tokens, target, context="mean").reduced().value(B) == pytest.approx(expected, rel=1e-12)


@given(cuts=st.lists(st.integers(1, 59), unique=True, max_size=5), split=st.integers(1, 59))
@settings(max_examples=25, deadline=None)
def test_batches_and_unions_do_not_change_the_moments(cuts: list[int], split: int) -> None:
    tokens, target = draw(60)
    whole = SampleMoments.from_arrays(tokens, target, context="mean")
    pieces = zip(np.split(tokens, sorted(cuts)), np.split(target, sorted(cuts)), strict=True)
    streamed = SampleMoments.from_batches(pieces, context="mean")
    halves = [SampleMoments.from_arrays(tokens[part], target[part], context="mean") for part in (slice(None, split), slice(split, None))]
    for other in (streamed, halves[0].union(halves[1])):
        np.testing.assert_allclose(other.quadratic, whole.quadratic, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(other.linear, whole.linear, rtol=1e-12, atol=1e-13)
        assert other.constant == pytest.approx(whole.constant, rel=1e-12)
        assert other.count == 60


def test_memory_does_not_grow_with_the_number_of_sequences() -> None:
    def peak(count: int) -> int:
        tracemalloc.start()
        SampleMoments.sampled(TASK, count, np.random.default_rng(0))
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    few, many = peak(3 * BATCH), peak(30 * BATCH)
    assert many < 1.05 * few


def test_empirical_loss_tends_to_the_population_loss_at_order_one_half() -> None:
    """The root mean square difference falls as P^(-1/2): slope fitted over P = 100 .. 25,600, 40 samples each."""
    B = np.array([[1.0, 0.2, 0.0], [-0.1, 0.8, 0.3], [0.0, 0.1, 1.2]])
    population = QuadraticLoss.population(TASK).value(B)
    sizes = 100 * 4 ** np.arange(5)
    rng = np.random.default_rng(3)
    errors = []
    for size in sizes:
        values = [SampleMoments.sampled(TASK, int(size), rng).reduced().value(B) for _ in range(40)]
        errors.append(np.sqrt(np.mean((np.array(values) - population) ** 2)))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert -0.6 < slope < -0.4
    assert errors[-1] < 0.02 * population


@pytest.mark.parametrize("reduced", [True, False])
def test_a_resized_sample_lies_between_the_population_and_itself(reduced: bool) -> None:
    sample = SampleMoments.sampled(TASK, 500, np.random.default_rng(5))
    if reduced:
        sample, population = sample.reduced(), QuadraticLoss.population(TASK)
    else:
        population = MixedTask(TASK, 1.0, np.ones((1, 3))).in_context_loss
    whole, found = sample.resized(population, 500), sample.loss()
    map_ = np.random.default_rng(6).normal(size=found.A.shape)
    for of in (lambda loss: loss.A, lambda loss: loss.C(map_), lambda loss: loss.c):
        np.testing.assert_allclose(of(whole), of(found), atol=1e-13)
        quarter = of(sample.resized(population, 8_000)) - of(population)
        np.testing.assert_allclose(quarter, (of(found) - of(population)) / 4, atol=1e-13)


def test_resized_moments_scatter_as_those_of_samples_do() -> None:
    population = QuadraticLoss.population(TASK)
    drawn = [SampleMoments.sampled(TASK, count, np.random.default_rng([7, i, count])).reduced() for i in range(200) for count in (100, 400)]
    spread = [np.std([sample.resized(population, 400).A for sample in drawn[i::2]], axis=0) for i in (0, 1)]
    np.testing.assert_allclose(spread[0], spread[1], rtol=0.3)


def test_gram_index_is_symmetric_and_numbers_each_feature_once() -> None:
    index = gram_index(3)
    assert np.array_equal(index, index.swapaxes(0, 1))
    assert np.array_equal(np.unique(index), np.arange(4 * 5 // 2 * 3))


def test_bad_input_is_refused_with_its_name() -> None:
    sample, population = SampleMoments.sampled(TASK, 20, np.random.default_rng(0)), QuadraticLoss.population(TASK)
    with pytest.raises(ValueError, match=re.escape("count must be at least that of the sample, 20, got 10")):
        sample.resized(population, 10)
    with pytest.raises(ValueError, match=re.escape("population must be of maps of shape (4, 4, 3), got (3, 3)")):
        sample.resized(population, 40)
    tokens, target = draw(10)
    with pytest.raises(ValueError, match="context must be"):
        SampleMoments.from_arrays(tokens, target, context="average")
    with pytest.raises(ValueError, match="at least one sequence"):
        SampleMoments.from_batches([], context="mean")
    with pytest.raises(ValueError, match="target must have shape"):
        SampleMoments.from_arrays(tokens, target[:5], context="mean")
    with pytest.raises(ValueError, match=r"tokens must have shape \(P, .*\), got shape"):
        SampleMoments.from_batches([(tokens, target), (tokens[:, :4], target)], context="mean")
    with pytest.raises(ValueError, match="finite"):
        SampleMoments.from_arrays(np.where(tokens == tokens[0, 0, 0], np.nan, tokens), target, context="mean")
    leaked = tokens.copy()
    leaked[:, -1, -1] = target
    with pytest.raises(ValueError, match="label 0"):
        SampleMoments.from_arrays(leaked, target, context="mean")
    with pytest.raises(ValueError, match="count"):
        SampleMoments.sampled(TASK, 0, np.random.default_rng(0))
    with pytest.raises(TypeError, match="rng"):
        SampleMoments.sampled(TASK, 5, np.random)
    with pytest.raises(ValueError, match="unreduced"):
        SampleMoments.from_arrays(tokens, target, context="mean").reduced().reduced()


def test_weights_make_an_average_over_fewer_tokens():
    pairs = np.random.default_rng(0).standard_normal((2, 6))
    weights = context_weights(np.array([2, 6]), 6)
    doubled = context_weights(np.array([2, 6]), 6, {2: 2.0, 6: 0.5})
    assert (doubled**2 * pairs).mean(axis=1) == pytest.approx([2 * pairs[0, :2].mean(), pairs[1].mean() / 2])
    assert (weights**2 * pairs).mean(axis=1) == pytest.approx([pairs[0, :2].mean(), pairs[1].mean()])
