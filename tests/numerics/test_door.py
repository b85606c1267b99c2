"""What numbers have to be, at the door of the public functions: a clear error that names the argument, never one from inside."""

import numpy as np
import pytest
from iclflow.numerics import MergedWeights, QuadraticLoss, RegressionTask, SeparateWeights, gradient_descent, gradient_flow
from iclflow.numerics.dynamics.momentum import heavy_ball
from iclflow.numerics.reductions.curve import predict_curve

TASK = RegressionTask(eigenvalues=[0.4, 0.3], context_length=5)
LOSS = QuadraticLoss.population(TASK)
WEIGHTS = SeparateWeights.initialize(TASK, heads=2, scale=0.1, rng=np.random.default_rng(0))
HUGE = 10**400
RNG = np.random.default_rng(0)


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
