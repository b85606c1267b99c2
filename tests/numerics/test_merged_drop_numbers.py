"""The formulas of (V7) in limits and at the door; the claims hold them against flows and Hessians."""

import numpy as np
import pytest
from iclflow.numerics import RegressionTask
from iclflow.numerics.merged_drop import MergedDrop


def test_white_tokens_learn_all_in_one_drop():
    drop = MergedDrop.of(RegressionTask(eigenvalues=[0.5, 0.5, 0.5], context_length=8))
    assert drop.share == pytest.approx(1.0)
    assert drop.least_share == pytest.approx(1.0)
    assert drop.spread == pytest.approx(1.0)
    np.testing.assert_allclose(drop.rates, drop.gamma * np.array([1.0, 1.0, 2.0]))
    earliest, latest = drop.time_bounds(1e-6)
    assert latest - earliest < 0.006 / drop.gamma


def test_share_lies_between_the_bound_and_one():
    rng = np.random.default_rng(1)
    for _ in range(50):
        drop = MergedDrop.of(RegressionTask(eigenvalues=rng.uniform(0.01, 1, 4), context_length=12))
        assert drop.least_share <= drop.share <= 1.0


def test_units_of_time_and_rotations():
    task = RegressionTask(covariance=[[0.5, 0.2], [0.2, 0.3]], context_length=6)
    drop = MergedDrop.of(task)
    assert drop.gamma == pytest.approx(np.linalg.norm(task.covariance @ task.covariance))
    np.testing.assert_allclose(drop.time_bounds(1e-9, tau=3.0), 3 * np.array(drop.time_bounds(1e-9)))


def test_refusals():
    drop = MergedDrop.of(RegressionTask(eigenvalues=[0.5, 0.2], context_length=8))
    with pytest.raises(ValueError, match="start must be below"):
        drop.time_bounds(2 * drop.begun)
    with pytest.raises(ValueError, match="start must be a positive"):
        drop.time_bounds(0.0)
    with pytest.raises(ValueError, match="query_covariance"):
        MergedDrop.of(RegressionTask(eigenvalues=[0.5], context_length=3, query_covariance=[[2.0]]))
