"""The prediction of whole curves, against the full flow."""

import numpy as np
import pytest
from iclflow.numerics import QuadraticLoss, RegressionTask, SeparateWeights, gradient_flow
from iclflow.numerics.reductions.curve import predict_curve
from iclflow.numerics.reductions.waiting_head import WaitingHead
from scipy.optimize import brentq

FREQUENCIES = np.array([0.4, 0.3, 0.2, 0.1])


@pytest.fixture
def task():
    return RegressionTask(eigenvalues=FREQUENCIES, context_length=31)


def measured_drops(task, weights, until):
    """When each B_dd reaches half of its final value along the full flow."""
    trajectory = gradient_flow(QuadraticLoss.population(task), weights, t_end=until, rtol=1e-8)
    diagonals = np.diagonal(trajectory.effective_maps, axis1=1, axis2=2)
    halves = task.eigenvalues / task.second_moment_eigenvalues / 2
    drops = []
    for d, half in enumerate(halves):
        after = int(np.argmax(diagonals[:, d] > half))
        bracket = trajectory.times[after - 1 : after + 1]
        drops.append(brentq(lambda t, d=d, half=half: trajectory.effective_map_at(t)[d, d] - half, *bracket, xtol=1e-9))
    return np.array(drops), trajectory


def drop_errors(task, scale, seeds, route="quadrature", shift=0.0):
    errors = []
    for seed in range(seeds):
        weights = SeparateWeights.initialize(task, heads=5, rank=1, scale=scale, rng=np.random.default_rng(seed))
        prediction = predict_curve(task, weights, route=route)
        drops, _ = measured_drops(task, weights, prediction.drops[-1] * 1.1 + 300)
        order = np.argmax(np.abs(prediction.directions), axis=0)
        errors.append(np.abs((prediction.drops + shift)[np.argsort(order)] / drops - 1))
    return np.median(errors, axis=0)


@pytest.mark.slow
def test_every_drop_is_predicted_from_the_initial_weights(task):
    """Below 0.3 % at scale 1e-2 and 0.03 % at 1e-3, falling at least linearly; 20 seeds."""
    coarse, fine = drop_errors(task, 1e-2, 20), drop_errors(task, 1e-3, 20)
    assert (coarse < 3e-3).all(), coarse
    assert (fine < 3e-4).all(), fine
    assert (fine < coarse / 8).all(), "falls linearly with the scale"


def test_both_routes_agree_and_a_missing_term_shows(task):
    weights = SeparateWeights.initialize(task, heads=5, rank=1, scale=1e-3, rng=np.random.default_rng(3))
    quadrature, flow = predict_curve(task, weights), predict_curve(task, weights, route="flow")
    assert quadrature.heads == flow.heads
    np.testing.assert_allclose(quadrature.drops, flow.drops, rtol=1e-6)
    wrong = drop_errors(task, 1e-2, 3, shift=float(quadrature.steps[0].reduction.time_unit))
    assert wrong[0] > 1e-3, "leaving out the constant of (68) is seen in the first drop"


@pytest.mark.parametrize("route", ["quadrature", "flow"])
@pytest.mark.parametrize("eigenvalues", [FREQUENCIES, [0.3, 0.3, 0.1]])
def test_many_starts_are_predicted_as_one_by_one(eigenvalues, route):
    """Of several sizes, with directions to choose among equal eigenvalues, and with heads that turn or never leave."""
    task = RegressionTask(eigenvalues=eigenvalues, context_length=31)
    starts = [
        SeparateWeights.initialize(task, heads=heads, rank=rank, scale=0.01, rng=np.random.default_rng([heads, seed]), allow_deficient=True)
        for seed in range(4)
        for heads, rank in ((5, 1), (2, 1), (2, 2))
    ]
    starts.insert(1, SeparateWeights(0 * starts[0].v, starts[0].k, 0 * starts[0].q))
    for start, found in zip(starts, together := predict_curve(task, starts, route=route), strict=True):
        alone = predict_curve(task, start, route=route)
        assert found.heads == alone.heads
        assert [words for _, words in found.neglected] == [words for _, words in alone.neglected]
        np.testing.assert_allclose(found.drops, alone.drops, rtol=1e-7)
        np.testing.assert_allclose(found.directions, alone.directions, atol=1e-12)
    assert len(together[1].drops) == 0


def test_the_predicted_curve_is_the_loss(task):
    weights = SeparateWeights.initialize(task, heads=5, rank=1, scale=1e-3, rng=np.random.default_rng(1))
    prediction = predict_curve(task, weights)
    drops, trajectory = measured_drops(task, weights, prediction.drops[-1] * 1.1 + 300)
    times = np.linspace(0, trajectory.times[-1], 4000)
    times = times[np.min(np.abs(times[:, None] - drops) / drops, axis=1) > 2e-3]  # beside the steep part of a drop
    np.testing.assert_allclose(prediction.loss(times), trajectory.loss_at(times), atol=2e-3)
    start, end = prediction.loss(np.array([0.0, 1e9]))
    assert start == pytest.approx(1.0, abs=1e-6)
    assert end == pytest.approx(trajectory.loss[-1], rel=1e-4), "(24) at m = D"
    np.testing.assert_allclose(prediction.effective_map(np.array([1e9]))[0], trajectory.at(trajectory.times[-1]).effective_map(), atol=2e-3)


def test_tau_and_rotated_covariance_do_not_matter(task):
    rng = np.random.default_rng(4)
    weights = SeparateWeights.initialize(task, heads=5, rank=1, scale=1e-2, rng=rng)
    rotation = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    turned = RegressionTask(covariance=rotation @ np.diag(FREQUENCIES) @ rotation.T, context_length=31)
    other = predict_curve(turned, SeparateWeights(weights.v, weights.k @ rotation.T, weights.q @ rotation.T), tau=1e9)
    np.testing.assert_allclose(other.drops / 1e9, predict_curve(task, weights).drops, rtol=1e-9)


def test_refusals(task):
    rng = np.random.default_rng(0)
    with pytest.raises(TypeError, match="weights"):
        predict_curve(task, np.zeros(3))
    with pytest.raises(ValueError, match="route"):
        predict_curve(task, SeparateWeights.initialize(task, heads=5, scale=0.1, rng=rng), route="guess")
    with pytest.raises(ValueError, match="weights must be small"):
        predict_curve(task, SeparateWeights.initialize(task, heads=5, scale=10.0, rng=rng))
    few = SeparateWeights.initialize(task, heads=2, scale=0.01, rng=rng, allow_deficient=True)
    assert len(predict_curve(task, few).drops) == 2


@pytest.mark.parametrize(("rank", "heads"), [(2, 3), (3, 4), (4, 2)])
def test_higher_ranks_fill_their_slots(task, rank, heads):
    """Brief plateaus inside a head and long ones between heads: every drop within 1 % at scale 1e-2 and 0.1 % at 1e-3."""
    for scale, bound in ((1e-2, 1e-2), (1e-3, 1e-3)):
        for seed in range(3):
            weights = SeparateWeights.initialize(task, heads=heads, rank=rank, scale=scale, rng=np.random.default_rng(seed))
            prediction = predict_curve(task, weights)
            assert [drop.component for drop in prediction.steps] == [0, 1, 2, 3]
            assert prediction.heads[0] == prediction.heads[rank - 1]
            drops, trajectory = measured_drops(task, weights, prediction.drops[-1] * 1.2 + 300)
            np.testing.assert_allclose(prediction.drops, drops, rtol=bound)
            assert prediction.loss(np.array([1e9]))[0] == pytest.approx(trajectory.loss[-1], abs=1e-3)
            times = np.concatenate([[0.0], (drops[1:] + drops[:-1]) / 2, [trajectory.times[-1]]])  # between the drops
            np.testing.assert_allclose(prediction.loss(times), trajectory.loss_at(times), atol=30 * scale**2 + 3e-3)


@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("scale", [1e-14, 1e-6])
def test_tiny_weights(task, rank, scale):
    """Times scale as 1/scale for rank one; the formulas lose no digits at 1e-14."""
    one = np.random.default_rng(5)
    weights = SeparateWeights.initialize(task, heads=5, rank=rank, scale=1.0, rng=one)
    small = SeparateWeights(scale * weights.v, scale * weights.k, scale * weights.q)
    prediction = predict_curve(task, small)
    waits = [WaitingHead(v, k, q, FREQUENCIES).escape_time() for v, k, q in zip(weights.v, weights.k, weights.q, strict=True)]
    assert prediction.drops[0] * scale == pytest.approx(min(waits), rel=30 * scale + 1e-12)
    assert np.all(np.diff(prediction.drops) > 0)


@pytest.mark.parametrize("seed", [3, 11])
def test_slots_after_long_plateaus(task, seed):
    """No trial step of the integration overflows, at the smallest scales too."""
    weights = SeparateWeights.initialize(task, heads=2, rank=2, scale=1e-12, rng=np.random.default_rng(seed))
    prediction = predict_curve(task, weights)
    assert prediction.heads[0] == prediction.heads[1] != prediction.heads[2]
    assert (prediction.drop_bounds[:, 1] < 1.01 * prediction.drop_bounds[:, 0]).all()


@pytest.mark.parametrize(("rank", "seed"), [(2, 3), (2, 7), (3, 8)])
def test_heads_of_higher_rank_that_learn_together_are_refused(task, rank, seed):
    weights = SeparateWeights.initialize(task, heads=2, rank=rank, scale=0.3, rng=np.random.default_rng(seed))
    with pytest.raises(ValueError, match=r"smaller: head \d learns before .* are done, and no bound holds for heads that learn together"):
        predict_curve(task, weights)


def test_equal_eigenvalues_and_one_dimension():
    for eigenvalues in ([0.3, 0.3, 0.1], [0.5]):
        task = RegressionTask(eigenvalues=eigenvalues, context_length=1)
        weights = SeparateWeights.initialize(task, heads=4, scale=1e-3, rng=np.random.default_rng(2))
        prediction = predict_curve(task, weights)
        flow = gradient_flow(QuadraticLoss.population(task), weights, t_end=prediction.drops[-1] * 1.1 + 500)
        assert prediction.loss(np.array([1e12]))[0] == pytest.approx(flow.loss[-1], abs=1e-4)
        steps = np.cumsum([0.0, *(drop.reduction.loss_drop(1.0) for drop in prediction.steps)])
        for level in task.eigenvalues.sum() + (steps[1:] + steps[:-1]) / 2:  # halfway down each drop
            predicted = crossing(lambda t: float(prediction.loss(np.array(t))), level, flow.times[-1])  # noqa: B023
            assert predicted == pytest.approx(crossing(flow.loss_at, level, flow.times[-1]), rel=2e-3)
        between = np.append((prediction.drops[1:] + prediction.drops[:-1]) / 2, flow.times[-1])
        np.testing.assert_allclose(prediction.effective_map(between), flow.effective_map_at(between), atol=0.02)


def crossing(loss, level, end):
    return brentq(lambda t: loss(t) - level, 0, end)


def test_brief_plateaus_last_as_the_logarithm_of_the_scale(task):
    """T3: slopes 3.712, 8.032 and 35.588 for the three plateaus inside a head of rank 4."""
    weights = SeparateWeights.initialize(task, heads=2, rank=4, scale=1.0, rng=np.random.default_rng(0))
    gaps = []
    for scale in (1e-4, 1e-10):
        small = SeparateWeights(scale * weights.v, scale * weights.k, scale * weights.q)
        gaps.append(np.diff([drop.time for drop in predict_curve(task, small).steps]))
    np.testing.assert_allclose((gaps[1] - gaps[0]) / np.log(1e6), [3.712, 8.032, 35.588], rtol=2e-3)


def test_the_direction_error_falls_with_its_exponent():
    """The head's angle to e_1 when |v| = 1/2: the exponent 1 - (0.3/0.4)^2 = 0.4375."""
    k, q = np.random.default_rng(6).normal(size=(2, 1, 4))
    angles, scales = [], np.array([1e-6, 1e-8, 1e-10])
    for scale in scales:
        _, grown = WaitingHead(0.3 * scale, scale * k, scale * q, FREQUENCIES).before_escape(0.5)
        angles.append(np.linalg.norm(grown.k[0, 1:]) / abs(grown.k[0, 0]))
    assert np.polyfit(np.log(scales), np.log(angles), 1)[0] == pytest.approx(0.4375, abs=0.005)


def test_drops_and_what_they_neglect_scale_down_to_any_weights(task):
    """From 1e-30 the waits are 1e30 times a drop's width, which is not lost beside them."""
    small, tiny = (
        predict_curve(task, SeparateWeights.initialize(task, heads=5, scale=scale, rng=np.random.default_rng(0)))
        for scale in (1e-15, 1e-30)
    )
    np.testing.assert_allclose(tiny.drops, 1e15 * small.drops, rtol=1e-12)
    assert all(0 <= share < 1e-6 for share, _ in tiny.neglected)
    np.testing.assert_array_equal([at.fractions([0.0, 1e40]).shape for at in (small, tiny)], [(2, 4)] * 2)
    assert tiny.effective_map(0.0).shape == (4, 4)
