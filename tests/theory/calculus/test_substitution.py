"""Substitution and collection by known results; what they refuse."""

import pytest
from iclflow.theory import TracePolynomial, collect, expect, substitute
from iclflow.theory.notation import D, Lambda, Lambda_hat, N, R, matrix, sigma, symmetric_matrix, vector, x_q, y_q
from sympy import Function, Identity, IndexedBase, MatrixSymbol, Symbol, Trace

P = TracePolynomial
A, W, V = (matrix(name, D) for name in "AWV")
K, E = symmetric_matrix("K", D), symmetric_matrix("E", D)
F, Q = MatrixSymbol("F", D, R), MatrixSymbol("Q", D, R)
k, q, c = vector("k", D), vector("q", D), vector("c", D)
v, n = Symbol("v"), Symbol("n")


def test_substitute_replaces_all_at_once():
    assert substitute(A * W, {A: W, W: A}) == W * A
    assert substitute(A * W.T * k, {W: A * K, k: q + c}) == A * K * A.T * (P(q) + c)
    assert substitute(Trace(A * W), {W: 0}) == 0
    assert substitute(A * W, {W: Identity(D)}) == A
    assert substitute(Trace(W), {W: Identity(D)}) == D
    assert substitute(W.I * A, {W: A * V}) == V.I
    assert substitute(W.T.I, {W: A * V}) == A.T.I * V.T.I
    assert substitute(K.I * A, {K: sigma * Lambda}) == Lambda.I * A / sigma
    assert substitute(k.T * W * k, {k: A * q}) == q.T * A.T * W * A * q
    assert substitute(W, {W: F * F.T}) == F * F.T
    assert substitute(k, {k: F * MatrixSymbol("r", R, 1)}).shape == (D, 1)
    assert substitute(A, {W: V}) == A
    assert substitute(W * k, {W: c * k.T}) == P(k.T * k) * c
    assert substitute(P(y_q) * A, {y_q: c.T * k}) == P(c.T * k) * A
    assert substitute(x_q.T * A, {A: W}) == x_q.T * W


def test_substitute_scalars():
    f, t = Function("f"), Symbol("t")
    u = IndexedBase("u")[Symbol("i")]
    assert substitute(v**2 * A, {v: sigma + 1}) == (sigma + 1) ** 2 * P(A)
    assert substitute(A / v, {v: N - 1}) * (N - 1) == A
    assert substitute(A / (N - 1), {N: v + 1}) == A / v
    assert substitute(v * sigma * A, {v: sigma, sigma: v}) == v * sigma * A
    assert substitute(v * A / sigma, {v: sigma, sigma: v}) == sigma * A / v
    assert substitute(A / (v + 2 * sigma), {v: sigma, sigma: v}) == A / (sigma + 2 * v)
    assert substitute(f(t) * A, {f(t): v}) == v * A
    assert substitute(u * A, {u: v}) == v * A
    assert substitute(v * A, {v: Trace(W)}) == Trace(W) * A


def test_substitute_refuses():
    with pytest.raises(ValueError, match=r"substitute: k has shape \(D, 1\), its replacement A has \(D, D\)"):
        substitute(A * k, {k: A})
    with pytest.raises(ValueError, match="substitute: K is symmetric, its replacement A is not"):
        substitute(K, {K: A})
    with pytest.raises(ValueError, match=r"substitute: v is a scalar, its replacement A has shape \(D, D\)"):
        substitute(v * W, {v: A})
    with pytest.raises(ValueError, match="substitute: D is the dimension of a matrix"):
        substitute(D * Trace(A), {D: 2})
    with pytest.raises(ValueError, match=r"substitute: W is inverted, .* cannot invert \(A \+ V\): only a product of square"):
        substitute(W.I, {W: A + V})
    with pytest.raises(ValueError, match=r"A has shape .*, its replacement 3 has none \(a scalar\)"):
        substitute(A, {A: 3})
    with pytest.raises(ZeroDivisionError, match=r"substitute: the denominator v becomes zero at {v: 0}"):
        substitute(A / v, {v: 0})
    with pytest.raises(ZeroDivisionError, match="substitute: the denominator v - 3 becomes zero"):
        substitute(A / (v - 3), {v: 3})
    for wrong in (A * W, v + 1, 3, "W"):
        with pytest.raises(TypeError, match="is not a symbol"):
            substitute(A * W, {wrong: A})


# Collection


def test_collect_by_a_scalar():
    moment = expect(Lambda_hat**3)
    by_size = collect(moment, N)
    assert list(by_size) == [-2, -1, 0]
    assert by_size[0] == Lambda**3
    assert by_size[-2] == 4 * P(Lambda**3) + 2 * Trace(Lambda) * Lambda**2 + Trace(Lambda**2) * Lambda + Trace(Lambda) ** 2 * Lambda
    assert sum((N**power * part for power, part in by_size.items()), start=P(0) * A) == moment
    assert collect(A, N) == {0: P(A)}


def test_collect_by_traces():
    moment = expect(Lambda_hat**3)
    by_trace = collect(moment, "traces")
    assert sum((key * part for key, part in by_trace.items()), start=P(0) * A) == moment
    assert by_trace[P(Trace(Lambda**2))] == (1 / P(N) + 1 / P(N**2)) * Lambda
    assert len(by_trace) == 4


def test_collect_refuses():
    with pytest.raises(ValueError, match="N stands in a denominator that is a sum"):
        collect(expect(Lambda_hat.I), N)
    for wrong in ("trace", A, 3):
        with pytest.raises(ValueError, match="by must be a scalar symbol or 'traces'"):
            collect(A, wrong)
