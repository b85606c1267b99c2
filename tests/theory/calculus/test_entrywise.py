"""Explicit entries against SymPy's matrices; what is refused."""

import numpy as np
import pytest
import sympy
from iclflow.theory import TracePolynomial, explicit
from iclflow.theory.notation import D, N, R, matrix, sigma, symmetric_matrix, vector
from sympy import Identity, MatrixSymbol, Trace

P = TracePolynomial
A, W, V = (matrix(name, D) for name in "AWV")
K, E = symmetric_matrix("K", D), symmetric_matrix("E", D)
F, Q = MatrixSymbol("F", D, R), MatrixSymbol("Q", D, R)
k, q, c = vector("k", D), vector("q", D), vector("c", D)


def test_explicit():
    a = MatrixSymbol("A", 2, 2)
    assert explicit(A, D=2) == sympy.Matrix(2, 2, lambda i, j: a[i, j])
    assert explicit(A.T, D=2) == explicit(A, D=2).T
    assert explicit(K, D=3).is_symmetric()
    assert explicit(Trace(A * W), D=2) == sympy.expand((explicit(A, D=2) * explicit(W, D=2)).trace())
    assert explicit(Trace(Identity(D)) * A / N, D=2, N=4) == explicit(A, D=2) / 2
    assert explicit(Identity(D), D=2) == sympy.eye(2)
    assert explicit(F * F.T, D=3, R=1).rank() == 1
    assert explicit(P(A) - A, D=2) == sympy.zeros(2, 2)
    assert explicit(k.T * W * c, D=1) == MatrixSymbol("k", 1, 1)[0, 0] * MatrixSymbol("W", 1, 1)[0, 0] * MatrixSymbol("c", 1, 1)[0, 0]
    assert explicit(W.I * A, values={W: [[2, 1], [1, 1]], A: [[1, 0], [0, 1]]}, D=2) == sympy.Matrix([[1, -1], [-1, 2]])
    assert explicit(W.T.I, values={W: [[1, 2], [0, 1]]}, D=2) == sympy.Matrix([[1, 0], [-2, 1]])
    assert explicit(matrix("three", 3)).shape == (3, 3)


def test_explicit_takes_any_integer():
    assert explicit(A, D=np.int64(2)) == explicit(A, D=sympy.Integer(2)) == explicit(A, D=2)


def test_explicit_refuses():
    with pytest.raises(ValueError, match=r"a denominator of 1/\(N - 3\) A is zero at {'D': 2, 'N': 3}"):
        explicit(A / (N - 3), D=2, N=3)
    with pytest.raises(ValueError, match=r"explicit: A is inverted, and its value .* has no inverse"):
        explicit(A.I, values={A: [[1, 2], [2, 4]]}, D=2)
    with pytest.raises(ValueError, match="the value of A must be a matrix or its rows, got 'abc'"):
        explicit(A, values={A: "abc"}, D=2)
    with pytest.raises(TypeError, match="explicit: values must be a mapping"):
        explicit(A, A, D=2)
    with pytest.raises(ValueError, match=r"explicit: the dimension D is still symbolic; give it a size, e\.g\. D=2"):
        explicit(A, N=2)
    for size in (0, -1, 2.0, True, "2"):
        with pytest.raises(ValueError, match="explicit: D must be a positive integer"):
            explicit(A, D=size)
    with pytest.raises(ValueError, match=r"the value of A must have shape \(2, 2\), got \(1, 2\)"):
        explicit(A, values={A: [[1, 2]]}, D=2)
    with pytest.raises(ValueError, match="K is symmetric, its value"):
        explicit(K, values={K: [[1, 2], [3, 4]]}, D=2)
    with pytest.raises(ValueError, match="values are for matrix symbols, got sigma; use substitute"):
        explicit(sigma * A, values={sigma: 2}, D=2)
