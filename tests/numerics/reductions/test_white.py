"""White tokens: the sigmoid and any balanced start, against gradient flow."""

import numpy as np
import pytest
from iclflow.numerics import MergedWeights, QuadraticLoss, RegressionTask, gradient_flow
from iclflow.numerics.reductions.white import WhiteReduction


@pytest.fixture
def task():
    return RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)


def test_sigmoid_is_the_flow_of_balanced_aligned_weights():
    task, s_0 = RegressionTask(eigenvalues=[1.0] * 4, context_length=31), 1e-3
    v = np.array([np.sqrt(s_0), 0.0])
    U = np.stack([v[0] * np.eye(4) / 2, np.zeros((4, 4))])
    trajectory = gradient_flow(QuadraticLoss.population(task), MergedWeights(v, U), t_end=6.0, rtol=1e-10)
    white = WhiteReduction(4, 31)
    np.testing.assert_allclose(trajectory.loss, white.loss(trajectory.times, s_0), rtol=1e-7)  # solver
    sigma = np.array([trajectory.at(t).effective_map()[0, 0] for t in trajectory.times])
    np.testing.assert_allclose(sigma, white.sigma(trajectory.times, s_0), rtol=1e-6)
    half = white.time_to(0.5, s_0)
    assert float(white.sigma(half, s_0)) == pytest.approx(0.5 * float(white.sigma(1e6, s_0)), rel=1e-13)
    assert float(white.loss(1e6, s_0)) == pytest.approx(4 * 5 / 36, rel=1e-13), "(48), t -> inf"


def test_any_balanced_white_start_is_exact():
    white, task = WhiteReduction(3, 7, eigenvalue=0.6), RegressionTask(eigenvalues=[0.6] * 3, context_length=7)
    rng = np.random.default_rng(2)
    m = rng.normal(size=(3, 3))
    m /= np.linalg.norm(m)
    s_0, p_0 = 1e-3, np.trace(m) / np.sqrt(3)
    w_2 = np.array([0.6, -0.8]) * np.sqrt(s_0)
    weights = MergedWeights(w_2, np.multiply.outer(w_2, m))
    trajectory = gradient_flow(QuadraticLoss.population(task), weights, t_end=25.0, rtol=1e-10)
    s = np.array([np.sum(trajectory.at(t).v ** 2) for t in trajectory.times])
    expected, cosine = white.balanced(trajectory.times, s_0, p_0)
    np.testing.assert_allclose(s, expected, rtol=1e-6)
    final = trajectory.at(trajectory.times[-1]).effective_map()
    assert cosine[-1] == pytest.approx(np.trace(final) / np.sqrt(3) / np.linalg.norm(final), rel=1e-8)
