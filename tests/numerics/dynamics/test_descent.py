"""Gradient descent: step by step from its definition, and against the flow as the step falls."""

import numpy as np
import pytest
from iclflow.numerics import (
    FlowError,
    FullSeparateWeights,
    MergedWeights,
    QuadraticLoss,
    RegressionTask,
    SampleMoments,
    SeparateWeights,
    adam,
    gradient_descent,
    gradient_flow,
    sign_descent,
)
from iclflow.numerics.tasks import sample_moments

TASK = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)
LOSS = QuadraticLoss.population(TASK)


def separate(scale=0.3, heads=5, rank=1):
    return SeparateWeights.initialize(TASK, heads=heads, rank=rank, scale=scale, rng=np.random.default_rng(0))


def test_steps_follow_the_definition():
    weights, sizes = separate(), np.array([0.5, 0.1, 0.3, 0.2])
    trajectory = gradient_descent(LOSS, weights, steps=4, learning_rate=sizes, tau=2.0)
    for step, eta in enumerate(sizes):
        gradient = weights.pull_back(LOSS.gradient(weights.effective_map()))  # dL/dW
        weights = weights.unflatten(weights.flatten() - eta * gradient.flatten())
        np.testing.assert_allclose(trajectory.weights[step + 1].flatten(), weights.flatten(), rtol=1e-13)
    np.testing.assert_allclose(trajectory.times, 2.0 * 2.0 * np.array([0, 0.5, 0.6, 0.9, 1.1]))  # t = 2 eta tau a step


def test_constant_listed_and_computed_steps_agree():
    states = [
        gradient_descent(LOSS, separate(), steps=7, learning_rate=rate).states for rate in (0.25, np.full(7, 0.25), lambda step: 0.25)
    ]
    np.testing.assert_array_equal(states[0], states[1])
    np.testing.assert_array_equal(states[0], states[2])
    cosine = gradient_descent(LOSS, separate(), steps=7, learning_rate=lambda step: 0.3 * np.cos(step / 7))
    np.testing.assert_allclose(np.diff(cosine.times), 0.6 * np.cos(np.arange(7) / 7))


def unreduced_case():
    rng = np.random.default_rng(1)
    weights = FullSeparateWeights.initialize(TASK, heads=5, scale=0.5, rng=rng)
    return SampleMoments.from_batches(sample_moments.sequences(TASK, 200, rng), context="mean").loss(), weights


def merged_case():
    return LOSS, MergedWeights.initialize(TASK, heads=4, scale=0.3, rng=np.random.default_rng(2))


@pytest.mark.parametrize("case", [lambda: (LOSS, separate()), merged_case, unreduced_case])
def test_descent_tends_to_the_flow_at_order_one(case):
    loss, weights = case()
    t_end, rates = 40.0, np.array([0.2, 0.1, 0.05, 0.025])
    flow = gradient_flow(loss, weights, t_end=t_end, rtol=1e-10)
    errors = []
    for rate in rates:
        descent = gradient_descent(loss, weights, steps=round(t_end / (2 * rate)), learning_rate=rate)
        errors.append(np.abs(descent.states - flow.states_at(np.minimum(descent.times, t_end))).max())
    order = np.polyfit(np.log(rates), np.log(errors), 1)[0]
    assert order == pytest.approx(1.0, abs=0.1)
    assert errors[-1] < 0.02


def test_recording_less_often_changes_nothing_kept():
    every = gradient_descent(LOSS, separate(), steps=25, learning_rate=0.2)
    some = gradient_descent(LOSS, separate(), steps=25, learning_rate=0.2, record_every=10)
    np.testing.assert_array_equal(some.states, every.states[[0, 10, 20, 25]])
    np.testing.assert_array_equal(some.times, every.times[[0, 10, 20, 25]])


def test_between_steps_the_weights_lie_on_a_straight_line():
    trajectory = gradient_descent(LOSS, separate(), steps=3, learning_rate=0.5)
    between = trajectory.at(1.25)
    np.testing.assert_allclose(between.flatten(), 0.75 * trajectory.states[1] + 0.25 * trajectory.states[2], rtol=1e-14)


def test_divergence_is_reported_with_the_last_good_time():
    with pytest.raises(FlowError, match="learning_rate is too large") as failure:
        gradient_descent(LOSS, separate(scale=5.0), steps=200, learning_rate=10.0, tau=3.0)
    assert 0 <= failure.value.time < 200 * 60.0
    assert failure.value.time % 60.0 == 0  # a whole number of steps of 2 eta tau


@pytest.mark.parametrize("rule", [gradient_descent, sign_descent, adam])
@pytest.mark.parametrize(("steps", "learning_rate"), [(1, 1e308), (3, 1e308), (1, 1e200)])
def test_a_step_so_large_that_the_map_overflows_is_to_blame(rule, steps, learning_rate):
    """Also if the weights themselves stay finite."""
    with pytest.raises(FlowError, match="overflowed: learning_rate is too large"):
        rule(LOSS, separate(), steps=steps, learning_rate=learning_rate)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"steps": 0}, ValueError, "steps must be an integer of at least 1, got 0"),
        ({"steps": 2.5}, ValueError, "steps must be an integer of at least 1, got 2.5"),
        ({"learning_rate": 0.0}, ValueError, "learning_rate must be a positive finite number, got 0.0"),
        ({"learning_rate": [0.1, 0.2]}, ValueError, r"learning_rate must have shape \(3,\), got shape \(2,\)"),
        ({"learning_rate": [0.1, -0.2, 0.1]}, ValueError, "learning_rate must be positive at every step, got .*-0.2"),
        ({"learning_rate": lambda step: np.nan}, ValueError, "learning_rate must be finite"),
        ({"tau": 0.0}, ValueError, "tau must be a positive finite number, got 0.0"),
        ({"record_every": 0}, ValueError, "record_every must be an integer of at least 1, got 0"),
        ({"loss": None}, TypeError, "loss must be a QuadraticLoss, got None"),
        ({"weights": None}, TypeError, "weights must be a parametrization"),
    ],
)
def test_bad_arguments_to_descent_are_named(change, error, message):
    arguments = {"loss": LOSS, "weights": separate(), "steps": 3, "learning_rate": 0.1, **change}
    loss, weights = arguments.pop("loss"), arguments.pop("weights")
    with pytest.raises(error, match=message):
        gradient_descent(loss, weights, **arguments)


def gradients(run):
    """dL/dW at each recorded step, from the definition."""
    return [weights.pull_back(LOSS.gradient(weights.effective_map())).flatten() for weights in map(run.initial.unflatten, run.states)]


def test_signs_and_adam_follow_the_definition():
    signs = sign_descent(LOSS, separate(), steps=5, learning_rate=0.1)
    np.testing.assert_allclose(np.diff(signs.states, axis=0), [-0.1 * np.sign(one) for one in gradients(signs)[:-1]], rtol=1e-12)
    run, mean, square = adam(LOSS, separate(), steps=5, learning_rate=0.1, betas=(0.8, 0.7), epsilon=1e-3), 0.0, 0.0
    for step, gradient in enumerate(gradients(run)[:-1]):
        mean, square = 0.8 * mean + 0.2 * gradient, 0.7 * square + 0.3 * gradient**2
        move = mean / (1 - 0.8 ** (step + 1)) / (np.sqrt(square / (1 - 0.7 ** (step + 1))) + 1e-3)
        np.testing.assert_allclose(run.states[step + 1] - run.states[step], -0.1 * move, rtol=1e-9)
    np.testing.assert_allclose(run.times, 0.1 * np.arange(6))
    some = adam(LOSS, separate(), steps=5, learning_rate=0.1, betas=(0.8, 0.7), epsilon=1e-3, record_every=2)
    np.testing.assert_array_equal(some.states, run.states[[0, 2, 4, 5]])


def test_weights_without_gradient_rest():
    """Not 0/0, without an epsilon."""
    zero = MergedWeights(np.zeros(1), np.zeros((1, 4, 4)))
    for run in (sign_descent(LOSS, zero, steps=2, learning_rate=0.1), adam(LOSS, zero, steps=2, learning_rate=0.1, epsilon=0.0)):
        assert (run.states == 0).all()


@pytest.mark.parametrize(
    ("rule", "change", "message"),
    [
        (sign_descent, {"steps": 0}, "steps must be an integer of at least 1"),
        (sign_descent, {"steps": 10**12}, "steps must be smaller"),
        (sign_descent, {"learning_rate": -1.0}, "learning_rate must be a positive finite number"),
        (adam, {"learning_rate": np.nan}, "learning_rate must be a positive finite number"),
        (adam, {"betas": (0.9, 1.0)}, r"betas must be at least 0 and below 1, got \(0.9, 1.0\)"),
        (adam, {"betas": (0.9,)}, r"betas must have shape \(2,\)"),
        (adam, {"epsilon": -1e-8}, "epsilon must be"),
        (adam, {"record_every": 0}, "record_every must be an integer of at least 1"),
    ],
)
def test_bad_arguments_to_signs_and_adam_are_named(rule, change, message):
    with pytest.raises(ValueError, match=message):
        rule(LOSS, separate(), **{"steps": 3, "learning_rate": 0.1, **change})
