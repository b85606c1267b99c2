"""Moments of the sample covariance, (20) and (31) to (33), against quadrature over all tokens, D = N = 2; planted faults."""

from dataclasses import replace

import numpy as np
import pytest
from iclflow.theory.equations import equation
from iclflow.theory.notation import Lambda, N, e_d, lambda_
from iclflow.theory.results.task.second_moments import A
from quadrature import Sequences, numbers
from sympy import Trace

COVARIANCE, CONTEXT = np.array([[0.9, 0.3], [0.3, 0.5]]), 2
CONSTANT = np.array([[1.0, -2.0], [0.5, 3.0]])


@pytest.fixture(scope="module")
def sequences():
    return Sequences.of(COVARIANCE, CONTEXT, nodes=4)  # exact up to degree seven in each coordinate of a token


def test_moments_by_quadrature(sequences):
    hat = sequences.Lambda_hat
    trace, trace_A = (np.einsum("pij,ji->p", hat, matrix)[:, None, None] for matrix in (np.eye(2), CONSTANT))
    square = hat @ hat
    averaged = {
        ("20", ""): square,
        ("31", "first"): square,
        ("31", "second"): square,
        ("31-limit", "next"): CONTEXT * (square - COVARIANCE @ COVARIANCE),
        ("31-moments", "A"): hat @ CONSTANT @ hat,
        ("31-moments", "cube"): square @ hat,
        ("31-moments", "trace"): trace * hat,
        ("31-moments", "trace-A"): trace_A * hat,
    }
    for (number, part), values in averaged.items():
        typed = numbers(equation(number).parts[part], {A: CONSTANT}, COVARIANCE, CONTEXT)
        np.testing.assert_allclose(typed, sequences.mean(values), rtol=1e-12, err_msg=f"({number}) {part}")


def test_eigenvectors_by_quadrature(sequences):
    second = sequences.mean(sequences.Lambda_hat @ sequences.Lambda_hat)
    for eigenvalue, vector in zip(*np.linalg.eigh(COVARIANCE), strict=True):
        known = {lambda_: eigenvalue, e_d: vector[:, None]}
        acted = numbers(equation("33").statement, known, COVARIANCE, CONTEXT)
        np.testing.assert_allclose(acted, second @ vector[:, None], rtol=1e-12)
        for part in ("sum", "product"):
            value = numbers(equation("32").parts[part], known, COVARIANCE, CONTEXT)
            assert value == pytest.approx(vector @ second @ vector, rel=1e-12)


@pytest.mark.parametrize(
    ("number", "part", "planted"),
    [
        ("20", "", lambda typed: typed - Trace(Lambda) * Lambda / N),
        ("31", "first", lambda typed: typed + Lambda**2 / N),
        ("31", "second", lambda typed: typed - Lambda**2 / N),
        ("31-limit", "next", lambda typed: typed - Lambda**2),
        ("31-moments", "A", lambda typed: typed.subs(A, A.T)),
        ("31-moments", "cube", lambda typed: typed + Lambda**3 / N**2),
        ("31-moments", "trace", lambda typed: typed - Lambda**2 / N),
        ("32", "product", lambda typed: typed.subs(N, N + 1)),
        ("33", "", lambda typed: typed * lambda_),
    ],
)
def test_wrong_statements_are_refused(number, part, planted):
    entry = equation(number)
    assert entry.holds()
    wrong = {**entry.parts, part: planted(entry.parts[part])}
    assert not replace(entry, typed=lambda: wrong if part else wrong[""]).holds()
