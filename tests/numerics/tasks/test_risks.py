"""Risks of (V9) at the door and at their edges; the claims compare them with sampled sequences."""

import numpy as np
import pytest
from iclflow.numerics import RegressionTask
from iclflow.numerics.tasks.risks import (
    bayes_bounds,
    crossover_length,
    least_squares_risk,
    linear_attention_risk,
    risk_limits,
    sampled_risks,
)


def white(length: int, noise: float, size: int = 4) -> RegressionTask:
    return RegressionTask(eigenvalues=np.full(size, 0.5), context_length=length, noise_variance=noise)


def test_least_squares_near_the_dimension():
    assert least_squares_risk(white(6, 1.0)) == pytest.approx(4.0)
    assert all(least_squares_risk(white(length, 1.0)) == np.inf for length in (3, 4, 5))
    assert least_squares_risk(white(2, 1.0)) == pytest.approx(0.5 * 2 + 2.0)
    assert least_squares_risk(white(2, 0.0)) == pytest.approx(1.0)
    assert least_squares_risk(white(4, 0.0)) == 0.0


def test_least_squares_is_infinite_near_the_dimension_for_any_covariance():
    for length in (1, 2, 3):
        task = RegressionTask(eigenvalues=[0.5, 0.3], context_length=length, noise_variance=0.6)
        assert least_squares_risk(task) == np.inf
        assert bayes_bounds(task)[1] == linear_attention_risk(task)
    assert least_squares_risk(RegressionTask(eigenvalues=[0.5, 0.3], context_length=4, noise_variance=0.6)) == pytest.approx(1.2)
    assert least_squares_risk(RegressionTask(eigenvalues=[0.5, 0.3], context_length=2)) == 0.0


def test_short_contexts_leave_what_they_do_not_show():
    """The bound of white tokens near the risk, where Jensen's inequality has less than half of it; ratios on random spectra."""
    task = RegressionTask(eigenvalues=[0.5] * 8, context_length=3, noise_variance=0.6)
    lower, upper = bayes_bounds(task)
    assert lower == pytest.approx(2.5 + 3 * 0.5 * 0.6 / 4.6)
    rng = np.random.default_rng(6)
    mean, error = bayes_over_contexts(task, rng)
    assert lower < mean < upper
    assert mean - lower < 0.12
    for _ in range(40):
        size = int(rng.integers(2, 7))
        task = RegressionTask(
            eigenvalues=rng.uniform(0.02, 1, size), context_length=int(rng.integers(1, size + 3)), noise_variance=10 ** rng.uniform(-4, 1)
        )
        lower, upper = bayes_bounds(task)
        mean, error = bayes_over_contexts(task, rng)
        assert lower - 4.5 * error < mean < upper + 4.5 * error


def bayes_over_contexts(task: RegressionTask, rng: np.random.Generator, count: int = 2000) -> tuple[float, float]:
    """The mean of tr(Lambda rho C^-1), the posterior variance at the query, and its standard error."""
    N, ridge = task.context_length, task.noise_variance / task.context_length
    X = rng.standard_normal((count, N, task.dimension)) * np.sqrt(task.eigenvalues)
    posterior = ridge * np.linalg.inv(np.einsum("pnd,pne->pde", X, X) / N + ridge * np.eye(task.dimension))
    risks = np.einsum("d,pdd->p", task.eigenvalues, posterior)
    return float(risks.mean()), float(risks.std() / np.sqrt(count))


def test_without_noise_bayes_is_least_squares():
    assert bayes_bounds(white(2, 0.0)) == pytest.approx((1.0, 1.0))
    assert bayes_bounds(white(9, 0.0)) == (0.0, 0.0)
    task = RegressionTask(eigenvalues=[0.6, 0.2], context_length=1)
    assert bayes_bounds(task) == (0.2, linear_attention_risk(task))
    risks = sampled_risks(task, count=50, rng=np.random.default_rng(0))
    assert risks["Bayes"] == risks["least squares"]


def test_crossover_separates_the_risks():
    """One token to either side of N_*."""
    for noise in (0.3, 2.0):
        length = crossover_length(4, noise)
        below, above = white(int(length), 2 * noise), white(int(length) + 1, 2 * noise)
        assert linear_attention_risk(below) <= least_squares_risk(below)
        assert linear_attention_risk(above) > least_squares_risk(above)


def test_one_direction_against_quadrature():
    """D = 1: Bayes is an integral over a chi-square variable, between its bounds."""
    task = RegressionTask(eigenvalues=[0.5], context_length=3, noise_variance=0.4)
    s = np.random.default_rng(1).chisquare(3, 200_000) * 0.5 / 3
    values = 0.4 / 3 * 0.5 / (s + 0.4 / 3)
    low, high = bayes_bounds(task)
    assert low < values.mean() < high
    bayes = sampled_risks(task, count=40_000, rng=np.random.default_rng(2))["Bayes"]
    assert abs(bayes.mean - values.mean()) < 4.5 * np.hypot(bayes.error, values.std() / 200_000**0.5)


def test_limits_at_large_dimension():
    """The exact risks approach theirs as 1/D."""
    errors = []
    for size in (50, 100):
        task = white(2 * size, 0.5 * size * 0.3, size)
        limits = risk_limits(2.0, 0.3)
        trace = 0.5 * size
        errors.append(
            [
                abs(linear_attention_risk(task) / trace / limits["linear"] - 1),
                abs(least_squares_risk(task) / trace / limits["least squares"] - 1),
            ]
        )
    np.testing.assert_allclose(np.log2(np.array(errors[0]) / errors[1]), 1.0, atol=0.05)


def test_refusals():
    with pytest.raises(ValueError, match=r"white tokens for a closed form .* N = 1 .* D = 3 .* sampled_risks"):
        least_squares_risk(RegressionTask(eigenvalues=[0.5, 0.3, 0.2], context_length=1, noise_variance=0.1))
    with pytest.raises(ValueError, match="white tokens for a closed form"):
        least_squares_risk(RegressionTask(eigenvalues=[0.5, 0.3], context_length=1))
    with pytest.raises(ValueError, match="must not vary query_covariance"):
        linear_attention_risk(RegressionTask(eigenvalues=[0.5], context_length=3, query_covariance=[[2.0]]))
    with pytest.raises(TypeError, match="task"):
        bayes_bounds(3)
    with pytest.raises(ValueError, match="ratio must be positive"):
        risk_limits([1.0, 0.0], 0.5)
    with pytest.raises(TypeError, match="rng"):
        sampled_risks(white(3, 0.1), count=3, rng=0)
