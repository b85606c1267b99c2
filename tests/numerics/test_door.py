"""What numbers have to be, at the door of the public functions: a clear error that names the argument, never one from inside."""

import warnings

import numpy as np
import pytest
from iclflow.numerics import (
    ConvolutionalNetwork,
    Ensemble,
    FiveWeights,
    FullMergedWeights,
    FullSeparateWeights,
    MergedDrop,
    MergedWeights,
    MixedTask,
    QuadraticLoss,
    RegressionTask,
    SampleMoments,
    ScalarReduction,
    SeparateWeights,
    TwoLayerNetwork,
    WaitingHead,
    WhiteReduction,
    balanced_curve,
    crossover_length,
    effective_start,
    find_plateaus,
    fixed_points,
    gradient_descent,
    gradient_flow,
    heavy_ball,
    heavy_ball_flow,
    largest_stable_step,
    modified_flow,
    noisy_drop,
    predict_curve,
    risk_limits,
    sampled_risks,
    separate_fixed_point,
    spread_of_drops,
)
from iclflow.numerics.reductions.drop_delays import later_merged_drop, later_separate_drop

TASK = RegressionTask(eigenvalues=[0.4, 0.3], context_length=5)
LOSS = QuadraticLoss.population(TASK)
WEIGHTS = SeparateWeights.initialize(TASK, heads=2, scale=0.1, rng=np.random.default_rng(0))
HUGE = 10**400
RNG = np.random.default_rng(0)
HUGE_WEIGHTS = SeparateWeights.initialize(TASK, heads=2, scale=1e300, rng=np.random.default_rng(0))
HUGE_MERGED = MergedWeights.initialize(TASK, heads=2, scale=1e300, rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: RegressionTask(eigenvalues=[HUGE, 1], context_length=5), "eigenvalues must hold numbers below"),
        (lambda: RegressionTask(eigenvalues=[1], context_length=HUGE), "context_length must be at most .* got an integer of 1329 bits"),
        (lambda: RegressionTask(covariance=[0.4, 0.3], context_length=5), r"covariance must have shape \(D, D\), got shape \(2,\)"),
        (lambda: SeparateWeights.initialize(TASK, heads=2, scale=HUGE, rng=RNG), "scale must be .* got an integer of 1329 bits"),
        (lambda: SeparateWeights.initialize(TASK, heads=10**15, scale=1, rng=RNG), "heads must be smaller"),
        (lambda: MergedWeights.initialize(TASK, heads=10**15, scale=1, rng=RNG), "heads must be smaller"),
        (lambda: gradient_descent(LOSS, WEIGHTS, steps=10**12, learning_rate=0.1), "steps must be smaller"),
        (lambda: gradient_descent(LOSS, WEIGHTS, steps=10**12, record_every=10**12, learning_rate=0.1), "steps must be smaller"),
        (lambda: heavy_ball(LOSS, WEIGHTS, steps=10**12, learning_rate=0.1, momentum=0.5), "steps must be smaller"),
        (lambda: LOSS.value([[HUGE, 0], [0, 0]]), "B must hold numbers below"),
        (lambda: QuadraticLoss(A=np.eye(2), C=lambda B: B, c=HUGE), "c must hold numbers below"),
        (lambda: QuadraticLoss(A="x", C=lambda B: B, c=1), "A must be an array of real numbers"),
        (lambda: gradient_flow(LOSS, WEIGHTS, t_end=HUGE), "t_end must be a positive finite number, got an integer of 1329 bits"),
        (lambda: gradient_flow(LOSS, WEIGHTS, t_end=1e-300), "t_end must be between 1e-100 and"),
        (lambda: gradient_flow(LOSS, WEIGHTS, t_end=1, tau=1e300), "t_end must be between .* with tau = 1e.300"),
    ],
)
def test_numbers_that_no_run_can_take(call, words):
    with pytest.raises(ValueError, match=words):
        call()


SAMPLE = SampleMoments.sampled(TASK, 20, RNG)
SCALAR, WHITE, DROP = ScalarReduction.of(TASK, 0), WhiteReduction(2, 5), MergedDrop.of(TASK)
FIVE = FiveWeights(MixedTask(RegressionTask(eigenvalues=[0.3, 0.3], context_length=5), 0.5, np.ones((1, 2))))
HEAD = WaitingHead(0.1, np.full((1, 2), 0.1), np.full((1, 2), 0.1), np.array([0.4, 0.3]))
RUN, BALANCED = gradient_flow(LOSS, WEIGHTS, t_end=10.0), balanced_curve(TASK, np.eye(2) / 100, t_end=10.0)
PREDICTED = predict_curve(TASK, WEIGHTS)
RAGGED = [[1, 2], [3]]


@pytest.mark.parametrize("given", ["x", None, RAGGED, 1j, [True], object(), np.nan, HUGE])
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("A", lambda x: QuadraticLoss(A=x, C=lambda B: B, c=1)),
        ("cross", lambda x: QuadraticLoss.from_moments(np.eye(4), x, 1.0)),
        ("B", LOSS.force),
        ("maps", LOSS.values),
        ("B", SAMPLE.value),
        ("B", TASK.modes.coordinates),
        ("tokens", lambda x: SampleMoments.from_arrays(x, np.ones(2), context="mean")),
        ("t", RUN.effective_map_at),
        ("level", lambda x: RUN.first_time(np.trace, x)),
        ("times", BALANCED.loss),
        ("times", PREDICTED.loss),
        ("times", DROP.learned),
        ("states", FIVE.losses),
        ("v", SCALAR.velocity),
        ("v", SCALAR.gap),
        ("u", SCALAR.loss_drop),
        ("t", lambda x: SCALAR.value(x, 0.1)),
        ("v_0", SCALAR.escape_time),
        ("t", lambda x: WHITE.loss(x, 0.1)),
        ("p_0", lambda x: WHITE.balanced(1.0, 0.1, x)),
        ("fraction", lambda x: WHITE.time_to(x, 0.1)),
        ("time", HEAD.after),
        ("time", HEAD.flow),
        ("size", HEAD.before_escape),
        ("ratio", lambda x: risk_limits(x, 0.1)),
        ("rtol", lambda x: balanced_curve(TASK, np.eye(2), t_end=1.0, rtol=x)),
        ("rtol", lambda x: heavy_ball_flow(LOSS, WEIGHTS, learning_rate=0.1, momentum=0.5, t_end=1.0, rtol=x)),
        ("rtol", lambda x: modified_flow(LOSS, WEIGHTS, learning_rate=0.1, t_end=1.0, rtol=x)),
        ("direction", lambda x: noisy_drop(TASK, x, start=0.1, level=0.3, batch_size=16, learning_rate=0.1)),
        ("directions", lambda x: separate_fixed_point(TASK, x, heads=2)),
        ("share", lambda x: spread_of_drops(TASK, WEIGHTS, batch_size=8, learning_rate=0.1, t_end=9.0, share=x)),
        ("min_drop", lambda x: find_plateaus(RUN, min_drop=x)),
        ("contrast", lambda x: find_plateaus(RUN, contrast=x)),
    ],
)
def test_what_is_no_number_is_named(name, call, given):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=rf"^{name} must "):
            call(given)


@pytest.mark.parametrize("given", [None, 3, "x", {}, np.eye(2), object()])
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("reduced", FullMergedWeights.embed),
        ("reduced", FullSeparateWeights.embed),
        ("weights", TwoLayerNetwork.from_attention),
        ("weights", ConvolutionalNetwork.from_attention),
        ("weights", FIVE.start),
        ("weights", lambda x: predict_curve(TASK, x)),
        ("weights", lambda x: gradient_flow([LOSS], x, t_end=1.0)),
        ("loss", WEIGHTS.hessian),
        ("loss", lambda x: gradient_flow(x, [WEIGHTS], t_end=1.0)),
        ("problem", FiveWeights),
        ("other", SAMPLE.union),
        ("population", lambda x: SAMPLE.resized(x, 100)),
        ("moments", lambda x: Ensemble([x])),
        ("model", lambda x: fixed_points(x, TASK)),
        ("point", largest_stable_step),
        ("kind", lambda x: FIVE.problem.sequences(3, RNG, kind=x)),
        ("context", lambda x: SampleMoments.sampled(TASK, 3, RNG, context=x)),
        ("route", lambda x: predict_curve(TASK, WEIGHTS, route=x)),
        ("method", lambda x: gradient_flow(LOSS, WEIGHTS, t_end=1.0, method=x if x is not None else "None")),
        ("what", RUN.plot),
        ("batches", lambda x: SampleMoments.from_batches([x], context="mean")),
        ("vector", WEIGHTS.split),
    ],
)
def test_what_is_of_another_kind_is_named(name, call, given):
    with pytest.raises((TypeError, ValueError), match=rf"^{name} must "):
        call(given)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: WHITE.time_to(0.5, 7.0), r"s_0 must be below its final value 0\.883883, got 7"),
        (lambda: later_separate_drop(0.3, 0.1, 2.0, learning_rate=0.1), "start must be below where the weights rest, 1.44225, got 2"),
        (lambda: HEAD.flow(-1.0), "time must lie between 0"),
        (lambda: HEAD.after([1.0, 2.0]), "time must lie .* one for all heads or shaped"),
        (lambda: FIVE.states([2.0, 1.0], np.ones(5)), "times must increase"),
        (lambda: FIVE.states([0.0], np.ones(5)), "times must increase"),
        (lambda: sampled_risks(TASK, count=1, rng=RNG), "count must be at least 2, for a standard error, got 1"),
        (lambda: sampled_risks(TASK, count=9, rng=RNG, penalties={"linear": 1.0}), "penalties must have names other than 'linear'"),
        (lambda: sampled_risks(TASK, count=9, rng=RNG, penalties={"a": -1.0}), r"penalties\['a'\] must be a finite number of at least 0"),
        (lambda: Ensemble([SAMPLE]).losses(np.zeros((1, 1, 1, 2, 2))), "maps must have shape"),
        (lambda: separate_fixed_point(TASK, [0.7], heads=2), r"directions must be different integers from 0 to 1, got \[0\.7\]"),
        (lambda: separate_fixed_point(TASK, [True], heads=2), "directions must be different integers"),
        (lambda: RUN.plot(""), "what must be one of"),
        (lambda: QuadraticLoss.population(TASK).values(np.zeros((3, 2))), r"maps must have shape \(2, 2\) along the last axes, got shape"),
    ],
)
def test_values_that_were_taken_for_others(call, words):
    """Each once gave a wrong number, nan, or an error from inside."""
    with pytest.raises(ValueError, match=words):
        call()


def test_a_matrix_is_not_an_operator():
    with pytest.raises(TypeError, match=r"C must be an operator, .* Dense\(matrix\)"):
        QuadraticLoss(A=np.eye(2), C=np.eye(4), c=1.0)


def test_tensors_that_need_gradients_are_named():
    torch = pytest.importorskip("torch")
    needing = torch.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match=r"eigenvalues must be .*detach"):
        RegressionTask(eigenvalues=needing, context_length=5)
    with pytest.raises(ValueError, match=r"v must be .*detach"):
        SeparateWeights(v=needing, k=np.ones((2, 1, 2)), q=np.ones((2, 1, 2)))
    with pytest.raises(ValueError, match=r"B must be .*detach"):
        LOSS.value(torch.eye(2, requires_grad=True))


def test_a_prediction_from_weights_of_zero_never_leaves():
    zero = SeparateWeights(v=np.zeros(2), k=np.zeros((2, 1, 2)), q=np.zeros((2, 1, 2)))
    predicted = predict_curve(TASK, zero)
    for times in (0.0, [0.0, 1e9], []):
        np.testing.assert_array_equal(predicted.loss(times), np.full(np.shape(times), LOSS.c))
    assert "no head ever leaves" in predicted.doubts[0]


SCALAR, EQUAL = ScalarReduction(0.4, 0.2), WhiteReduction(4, 31, 0.4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: crossover_length(4, 1e300),
            "^dimension, noise must be of sizes that keep crossover_length within float64, got dimension = 4, noise = 1e[+]300$",
        ),
        (lambda: crossover_length(10**15, 1e300), "^dimension, noise must be"),
        (lambda: risk_limits(1e300, 0.1), "^ratio, noise must be"),
        (
            lambda: ScalarReduction(1e300, 0.2).time_unit,
            "^eigenvalue, second_moment, tau must be .* got eigenvalue = 1e[+]300, second_moment",
        ),
        (lambda: SCALAR.velocity([1e300, 0.1]), "^eigenvalue, second_moment, tau, v must be"),
        (lambda: SCALAR.value(1.0, 5e-324), "t, v_0 must be of sizes that keep ratio within float64, got .* v_0 = 5e-324"),
        (lambda: SCALAR.escape_time(5e-324), "v_0 must be"),
        (lambda: SCALAR.loss_drop(1e300), "u must be"),
        (lambda: WhiteReduction(4, 31, 1e300).moments, "^dimension, context_length, eigenvalue, tau must be"),
        (lambda: EQUAL.sigma(1.0, 5e-324), "t, s_0 must be"),
        (lambda: EQUAL.time_to(0.5, 5e-324), "fraction, s_0 must be"),
        (lambda: WhiteReduction(4, 31, 1e-300).balanced(1.0, 0.1, 0.4), "t, s_0, p_0 must be"),
        (lambda: later_separate_drop(1e300, 0.2, 0.01, learning_rate=0.1), "^eigenvalue, second_moment, start, learning_rate must be"),
        (lambda: later_separate_drop(0.4, 0.2, 1e-300, learning_rate=0.1), "got eigenvalue = 0.4, second_moment = 0.2, start = 1e-300"),
        (lambda: later_merged_drop(1e300, 0.2, 0.01, learning_rate=0.1), "^gamma, alpha, start, learning_rate must be"),
        (
            lambda: noisy_drop(TASK, 0, start=5e-324, level=0.1, batch_size=3, learning_rate=0.1),
            "^direction, start, level, batch_size, learning_rate must be",
        ),
        (lambda: gradient_flow(LOSS, HUGE_WEIGHTS, t_end=1.0), "^weights must be small enough for a finite loss, got the loss inf"),
        (lambda: predict_curve(TASK, HUGE_WEIGHTS), "^weights must be small: .* got inf"),
        (lambda: effective_start(TASK, HUGE_MERGED), "^weights must be small enough for a finite map, got weights up to 4.61e[+]299"),
        (lambda: balanced_curve(TASK, 1e300 * np.eye(2), t_end=1.0), "^start must have a norm within float64"),
    ],
)
def test_numbers_beyond_float64_are_named(call, words):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=words):
            call()


def test_far_from_the_fixed_point_the_gap_is_all_that_float64_can_hold():
    np.testing.assert_allclose(SCALAR.gap([1e300, 1e-300]), [-1e300 / SCALAR.fixed_point, 1.0], rtol=1e-15)
    below = noisy_drop(TASK, 0, start=1e-150, level=0.1, batch_size=3, learning_rate=1e-9)
    assert below.time == pytest.approx(1e150 / TASK.eigenvalues[0] ** 2)
