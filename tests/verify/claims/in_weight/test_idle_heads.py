"""(V6-idle) and (V6-ordinary): the ends of flows that their claims measure, and what one head can fit."""

import numpy as np
import pytest
from iclflow.numerics import FullMergedWeights, FullSeparateWeights, QuadraticLoss, RegressionTask, SampleMoments, gradient_flow
from iclflow.verify.claims.in_weight import ordinary_start
from iclflow.verify.claims.in_weight.idle_heads import (
    END,
    LEAK_TASK,
    at_rest,
    ended,
    on_set,
    powers,
    powers_on_many_sequences,
    sizes,
    time_powers,
)


def excess(eigenvalues, heads):
    """How far the loss of a flow on 2,000 sequences ends above the least one of any weights, relative to it."""
    task = RegressionTask(eigenvalues=eigenvalues, context_length=6)
    loss = SampleMoments.sampled(task, 2_000, np.random.default_rng(1)).loss()
    start = FullMergedWeights.initialize(task, heads=heads, scale=0.03, rng=np.random.default_rng(2))
    end = gradient_flow(loss, start, t_end=1e5).effective_map_at([1e5])[0]
    best = np.linalg.lstsq(loss.matrix, loss.A.ravel(), rcond=1e-12)[0]
    least = loss.value(best.reshape(loss.A.shape))
    return loss.value(end) / least - 1


def test_one_head_fits_a_set_only_where_there_is_one_direction():
    assert excess([0.8], heads=1) < 1e-9
    one, more = excess([0.6, 0.4], heads=1), excess([0.6, 0.4], heads=4)
    assert one > 10 * more > -1e-9
    assert one > 1e-4


def test_rotated_heads_are_one_active_head_and_idle_ones_at_rest():
    end, loss = ended(LEAK_TASK, 0, 1.6e8, 3, 1e-3, 0.0, END), on_set(LEAK_TASK, 0, 1.6e8)
    np.testing.assert_allclose(end.value[1:, -1], 0, atol=1e-12)
    assert abs(end.value[0, -1]) > 1
    assert np.linalg.norm(end.value[1:, :-1]) > 3e-3
    pulled = end.pull_back(loss.force(end.effective_map()))
    assert np.abs(pulled.flatten()).max() < 1e-7
    np.testing.assert_allclose(np.linalg.norm(end.value[1:]), np.linalg.norm(end.key_query[1:]), rtol=1e-2)


def test_sizes_keep_what_the_start_keeps():
    """Of idle heads row^2 is column^2 + matrix^2 on every set, up to the square of the initial scale."""
    for P in (1_000, 16_000, 1e6, np.inf):
        row, column, matrix = sizes(ended(LEAK_TASK, 1, P, 2, 1e-3, 1e-3, 1e5))
        assert row == pytest.approx(np.hypot(column, matrix), abs=1e-3)


def test_powers():
    assert powers() == pytest.approx((-1 / 4, -1 / 2), abs=1e-14)
    assert powers_on_many_sequences() == pytest.approx((0, 0, -1 / 2), abs=1e-14)
    assert time_powers() == pytest.approx((1 / 2, 0), abs=1e-14)


def test_at_rest_has_both_limits():
    force, left, C = 0.1, np.array([2.0]), np.array([[0.25]])
    np.testing.assert_allclose(at_rest(force, left, left, C, 1e-9), np.sqrt(0.1), rtol=1e-8)
    np.testing.assert_allclose(at_rest(force, left, left, C, 10.0), (10.0, 0.01), rtol=1e-5)


def test_white_powers_of_the_scale():
    size, crossing = ordinary_start.powers(ordinary_start.white(4))
    assert (size, crossing) == pytest.approx((1 / 2, -2), abs=1e-14)


@pytest.mark.parametrize(("heads", "stuck"), [(1, True), (2, False)])
def test_only_one_head_may_rest_with_one_direction_learned_by_its_zero_blocks(heads, stuck):
    learned, levels = QuadraticLoss.population(LEAK_TASK), LEAK_TASK.modes.levels
    ends = [ended(LEAK_TASK, seed, np.inf, heads, 0.03, 0.03, 1e5) for seed in range(12)]
    losses = np.array([on_set(LEAK_TASK, seed, np.inf).value(end.effective_map()) for seed, end in enumerate(ends)])
    early = np.abs(losses / learned.value(np.diag([levels[0], 0])) - 1) < 1e-2
    np.testing.assert_allclose(losses[~early], learned.value(np.diag(levels)), rtol=1e-6)
    assert (2 < early.sum() < 10) if stuck else not early.any()
    assert all(end.value[0, 0] ** 2 > 50 * end.value[0, -1] ** 2 for end, one in zip(ends, early, strict=True) if one)


@pytest.mark.parametrize("scale", [0.03, 0.003])
def test_zero_blocks_of_separate_attention_of_rank_one_end_as_large_as_the_main_weights(scale):
    shares = []
    for seed in range(7):
        rng = np.random.default_rng([seed, 1])
        start = FullSeparateWeights.initialize(LEAK_TASK, heads=4, scale=scale, block_scale=scale, rng=rng)
        loss = on_set(LEAK_TASK, seed, np.inf)
        value, key, _ = (array[0] for array in start.split(gradient_flow(loss, start, t_end=1e5).states_at([1e5])))
        shares.append([np.linalg.norm(part) / np.linalg.norm(value[:, 2]) for part in (value[:, :2], key[:, :, 2])])
    assert (np.abs(np.log(np.median(shares, axis=0))) < np.log(1.5)).all()
