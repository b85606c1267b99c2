"""Merged attention: the balanced reduction is exact on balanced weights, and its error from Gaussian ones falls with their scale."""

import numpy as np
import pytest
from iclflow.numerics import MergedWeights, QuadraticLoss, RegressionTask, gradient_flow
from iclflow.numerics.compilation.expressions import compile_expression
from iclflow.numerics.reductions.merged_curve import balanced_curve, effective_start, predict_merged_curve
from iclflow.numerics.reductions.white import WhiteReduction
from iclflow.theory.notation import D, s, vector
from iclflow.theory.results.merged.balanced_flow import balanced_flow

TASK = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)


def balanced_weights(m, s_0, heads=2):
    w_2 = np.array([0.6, -0.8, *[0.0] * (heads - 2)]) * np.sqrt(s_0)
    return MergedWeights(w_2, np.multiply.outer(w_2, m / np.linalg.norm(m)))


@pytest.mark.parametrize("diagonal", [True, False])
def test_exact_on_balanced_weights(diagonal):
    rng = np.random.default_rng(3)
    m = np.diag([0.2, 0.5, 0.1, 0.9]) if diagonal else rng.normal(size=(4, 4))
    weights = balanced_weights(m, 1e-3)
    trajectory = gradient_flow(QuadraticLoss.population(TASK), weights, t_end=150.0, rtol=1e-10)
    curve = balanced_curve(TASK, weights.effective_map(), t_end=150.0, rtol=1e-10)
    assert len(curve.basis) == (4 if diagonal else 16)
    np.testing.assert_allclose(curve.loss(trajectory.times), trajectory.loss, atol=1e-8)  # solver
    np.testing.assert_allclose(curve.effective_map(trajectory.times), trajectory.effective_maps, atol=1e-7)


def test_the_rate_is_the_derived_one():
    """The symbolic flow on balanced weights, compiled, against a difference quotient of the curve."""
    rng = np.random.default_rng(4)
    weights = balanced_weights(rng.normal(size=(4, 4)), 0.3)
    start, step = weights.effective_map(), 1e-4
    curve = balanced_curve(TASK, start, t_end=1.0, rtol=1e-12)
    m, g = vector("m", D), vector("g", D)  # vectorized maps: their size is one letter
    force = QuadraticLoss.population(TASK).force(start).reshape(-1, 1)
    rate = compile_expression(balanced_flow(m, g).map, (s, g, m))(
        weights.v @ weights.v, force, start.reshape(-1, 1) / np.linalg.norm(start)
    )
    forward, ahead = curve.effective_map(np.array([step, 2 * step]))
    np.testing.assert_allclose(rate.reshape(4, 4), (4 * forward - ahead - 3 * start) / (2 * step), atol=1e-6)


def test_white_tokens_give_the_sigmoid():
    task, s_0 = RegressionTask(eigenvalues=[1.0] * 4, context_length=31), 1e-28
    times = np.linspace(0, 25, 50)
    curve = balanced_curve(task, s_0 * np.eye(4) / 2, t_end=25.0)
    np.testing.assert_allclose(curve.loss(times), WhiteReduction(4, 31).loss(times, s_0), atol=1e-7)


def test_error_falls_linearly_with_the_initial_scale():
    errors, scales = [], np.array([1e-1, 1e-2, 1e-3])
    times = np.linspace(0, 150, 600)
    for scale in scales:
        worst = []
        for seed in range(4):
            weights = MergedWeights.initialize(TASK, heads=8, scale=scale, rng=np.random.default_rng(seed))
            flow = gradient_flow(QuadraticLoss.population(TASK), weights, t_end=150.0, rtol=1e-9)
            worst.append(np.abs(predict_merged_curve(TASK, weights, t_end=150.0).loss(times) - flow.loss_at(times)).max())
        errors.append(np.median(worst))
    order = np.polyfit(np.log(scales), np.log(errors), 1)[0]
    assert 0.85 < order < 1.3
    assert errors[-1] < 5e-5


def test_refusals():
    for call, kind, says in [
        (lambda: balanced_curve(TASK, np.zeros((4, 4)), t_end=1.0), ValueError, "start must not be zero"),
        (lambda: balanced_curve(TASK, np.eye(3), t_end=1.0), ValueError, "start must have shape"),
        (lambda: balanced_curve(TASK, np.eye(4), t_end=1.0).loss(2.0), ValueError, "times must lie"),
        (lambda: effective_start(TASK, np.eye(4)), TypeError, "weights"),
    ]:
        with pytest.raises(kind, match=says):
            call()
