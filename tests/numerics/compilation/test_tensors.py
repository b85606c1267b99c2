"""Tensors of multilinear polynomials: Wick's theorem; what is refused."""

import numpy as np
import pytest
from iclflow.numerics.compilation.tensors import multilinear_tensor
from iclflow.theory import expect
from iclflow.theory.notation import D, Lambda, vector, x_q
from iclflow.theory.results.in_weight.population_loss import w_0

COVARIANCE = np.array([[0.5, 0.1, 0.0], [0.1, 0.3, -0.1], [0.0, -0.1, 0.4]])


def test_wick_tensor():
    a, b, c, d = letters = tuple(vector(name, D) for name in "abcd")
    polynomial = expect(a.T * x_q * b.T * x_q * c.T * x_q * d.T * x_q)
    L = COVARIANCE
    pairs = [np.einsum(f"{one},{two}->abcd", L, L) for one, two in (("ab", "cd"), ("ac", "bd"), ("ad", "bc"))]
    np.testing.assert_allclose(multilinear_tensor(polynomial, letters, {Lambda: L}), np.sum(pairs, axis=0), rtol=1e-14)


def test_tensor_refuses_what_is_not_multilinear():
    a, b = vector("a", D), vector("b", D)
    with pytest.raises(ValueError, match="must be linear in each"):
        multilinear_tensor(expect(a.T * x_q * a.T * x_q), (a, b), {Lambda: np.eye(2)})
    with pytest.raises(ValueError, match="must contain Lambda"):
        multilinear_tensor(expect(a.T * x_q * b.T * x_q), (a, b), {w_0: np.ones(2)})
    with pytest.raises(ValueError, match="must be a scalar"):
        multilinear_tensor(expect(x_q * x_q.T), (a,), {Lambda: np.eye(2)})
