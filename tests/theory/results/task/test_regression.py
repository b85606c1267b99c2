"""The loss (9-closed), the force (53) and the correlation (30), against quadrature over all sequences, D = N = 2; planted faults."""

from dataclasses import replace

import numpy as np
import pytest
from iclflow.theory import expect, substitute
from iclflow.theory.equations import equation
from iclflow.theory.notation import B, Lambda, Lambda_hat, M, w
from iclflow.theory.results.task.regression import closed_loss, force
from quadrature import Sequences, numbers
from sympy import Trace

COVARIANCE, CONTEXT = np.array([[0.9, 0.3], [0.3, 0.5]]), 2
MAP = np.array([[1.0, -0.4], [0.2, 0.7]])


@pytest.fixture(scope="module")
def sequences():
    return Sequences.of(COVARIANCE, CONTEXT, nodes=3)  # exact up to degree five in each coordinate


@pytest.fixture(scope="module")
def known():
    second = numbers(equation("31").statement["second"], {}, COVARIANCE, CONTEXT)
    return {B: MAP, M: second}


def test_loss_and_force_by_quadrature(sequences, known):
    error = sequences.y_q - np.einsum("pi,ij,pj->p", sequences.beta, MAP, sequences.x_q)
    loss = sequences.mean(error**2)
    assert numbers(equation("9-closed").statement, known, COVARIANCE, CONTEXT) == pytest.approx(loss, rel=1e-12)
    averaged = substitute(closed_loss().result, {M: expect(Lambda_hat**2)})
    assert numbers(averaged, known, COVARIANCE, CONTEXT) == pytest.approx(loss, rel=1e-12)
    pull = sequences.mean(np.einsum("p,pi,pj->pij", error, sequences.beta, sequences.x_q))
    np.testing.assert_allclose(numbers(equation("53").statement, known, COVARIANCE, CONTEXT), pull, rtol=1e-12)


def test_force_is_minus_half_the_slope_of_the_loss(known):
    """Central differences of a quadratic function are exact."""
    slope = np.zeros((2, 2))
    for place in np.ndindex(2, 2):
        step = np.zeros((2, 2))
        step[place] = 0.5
        above, below = (numbers(closed_loss().result, {**known, B: MAP + sign * step}, COVARIANCE, CONTEXT) for sign in (1, -1))
        slope[place] = above - below
    np.testing.assert_allclose(numbers(force(), known, COVARIANCE, CONTEXT), -slope / 2, rtol=1e-12)


def test_correlation_is_the_sample_covariance_times_the_task():
    tokens, task = np.random.default_rng(0).normal(size=(2, 5)), np.array([1.5, -0.5])
    labels = tokens.T @ task
    known = {Lambda_hat: tokens @ tokens.T / 5, w: task}
    typed = numbers(equation("30").statement, known, COVARIANCE, 5)
    np.testing.assert_allclose(typed, (tokens @ labels / 5)[:, None], rtol=1e-12)


@pytest.mark.parametrize(
    ("number", "planted"),
    [
        ("9-closed", lambda typed: typed + Trace(Lambda)),
        ("9-closed", lambda typed: typed.subs(B, 2 * B)),
        ("30", lambda typed: 2 * typed),
        ("53", lambda typed: Lambda**2 - B * M * Lambda),
        ("53", lambda typed: -typed),
    ],
)
def test_wrong_statements_are_refused(number, planted):
    entry = equation(number)
    assert entry.holds()
    assert not replace(entry, typed=lambda: planted(entry.statement)).holds()
