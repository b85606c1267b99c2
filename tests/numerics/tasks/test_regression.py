"""RegressionTask: the moments it carries, and the input it refuses."""

import numpy as np
import pytest
from iclflow.numerics import RegressionTask


def rotated(eigenvalues, rng):
    basis = np.linalg.qr(rng.normal(size=(len(eigenvalues), len(eigenvalues))))[0]
    return (basis * eigenvalues) @ basis.T


@pytest.mark.parametrize("N", [1, 2, 31])
def test_second_moment_against_sampled_contexts(N):
    rng = np.random.default_rng(N)
    task = RegressionTask(covariance=rotated([1.0, 0.6, 0.3], rng), context_length=N)
    x = rng.standard_normal((400_000 // N, N, 3)) @ np.linalg.cholesky(task.covariance).T
    sampled = x.transpose(0, 2, 1) @ x / N
    squares = sampled @ sampled
    error = squares.std(axis=0) / np.sqrt(len(squares))
    assert (np.abs(squares.mean(axis=0) - task.second_moment) < 5 * error).all()  # equation (31)


def test_second_moment_eigenvalues_are_equation_32():
    task = RegressionTask(eigenvalues=[0.1, 0.4, 0.2], context_length=7)
    lam = task.eigenvalues
    np.testing.assert_allclose(task.second_moment_eigenvalues, lam**2 * (1 + (1 + lam.sum() / lam) / 7), rtol=1e-14)
    assert lam.tolist() == [0.1, 0.4, 0.2]  # in the order given


def test_a_rotation_turns_the_task_and_leaves_its_spectra():
    lam = np.array([0.4, 0.3, 0.2, 0.1])
    plain = RegressionTask(eigenvalues=lam, context_length=31)
    turned = RegressionTask(covariance=rotated(lam, np.random.default_rng(0)), context_length=31)
    np.testing.assert_allclose(turned.eigenvalues, lam, rtol=1e-13)  # descending
    np.testing.assert_allclose(turned.second_moment_eigenvalues, plain.second_moment_eigenvalues, rtol=1e-13)
    basis = turned.eigenvectors
    np.testing.assert_allclose((basis * turned.eigenvalues) @ basis.T, turned.covariance, atol=1e-15)


def test_a_task_cannot_be_changed():
    task = RegressionTask(eigenvalues=[0.4, 0.3], context_length=31)
    with pytest.raises(ValueError, match="read-only"):
        task.covariance[0, 0] = 1.0
    with pytest.raises(AttributeError):
        task.context_length = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"covariance": [[1.0, 0.5], [0.4, 1.0]]}, r"covariance must be symmetric, got .*0\.1"),
        ({"covariance": [[1.0, 2.0], [2.0, 1.0]]}, "covariance must be positive definite, got .*-1"),
        ({"covariance": [[1.0, 1.0], [1.0, 1.0]]}, "covariance must be positive definite"),
        ({"covariance": [[1.0, np.nan], [np.nan, 1.0]]}, "covariance must be finite, got .*nan"),
        ({"covariance": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]}, r"covariance must have shape \(D, D\), got shape \(2, 3\)"),
        ({"covariance": [1.0, 2.0]}, r"covariance must have shape \(D, D\), got shape \(2,\)"),
        ({"covariance": "white"}, "covariance must be an array of real numbers, got 'white'"),
        ({"eigenvalues": [0.4, 0.0]}, r"eigenvalues must be positive, got \[0\.4, 0\.0\]"),
        ({"eigenvalues": [0.4, -0.1]}, r"eigenvalues must be positive, got \[0\.4, -0\.1\]"),
        ({"eigenvalues": [0.4, np.inf]}, "eigenvalues must be finite, got .*inf"),
        ({"eigenvalues": ["0.4", "0.1"]}, "eigenvalues must be an array of real numbers, got .*'0.4'"),
        ({"eigenvalues": [True, True]}, "eigenvalues must be an array of real numbers, got .*True"),
        ({"eigenvalues": [1.0, 1e-200]}, r"eigenvalues must lie between 1e-100 and 1e\+100"),
        ({"eigenvalues": [1e200]}, "eigenvalues must lie between"),
        ({"covariance": [[1e200]]}, "covariance must have eigenvalues between"),
        ({"covariance": [[1.0, 1.0j], [-1.0j, 1.0]]}, "covariance must be an array of real numbers"),
        ({"covariance": np.eye(2, dtype=complex)}, "covariance must be an array of real numbers"),
        ({"eigenvalues": [1.0], "context_length": 10**400}, "context_length must be at most 9007199254740992"),
        ({"eigenvalues": [1.0], "context_length": np.nan}, "context_length must be an integer of at least 1, got nan"),
        ({"eigenvalues": []}, r"eigenvalues must have shape \(D,\), got shape \(0,\)"),
        ({"eigenvalues": [[0.4]]}, r"eigenvalues must have shape \(D,\), got shape \(1, 1\)"),
        ({}, "exactly one of eigenvalues and covariance must be given, got neither"),
        ({"eigenvalues": [1.0], "covariance": [[1.0]]}, "exactly one of eigenvalues and covariance must be given, got both"),
        ({"eigenvalues": [1.0], "context_length": 0}, "context_length must be an integer of at least 1, got 0"),
        ({"eigenvalues": [1.0], "context_length": -3}, "context_length must be .*, got -3"),
        ({"eigenvalues": [1.0], "context_length": 31.0}, r"context_length must be an integer .*, got 31\.0"),
        ({"eigenvalues": [1.0], "context_length": True}, "context_length must be an integer .*, got True"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        RegressionTask(**{"context_length": 31, **arguments})
