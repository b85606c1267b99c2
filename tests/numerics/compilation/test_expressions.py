"""The crossing from symbols to numbers: against NumPy, at 50 digits, in balls; and what it refuses."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
import sympy
from flint import arb, ctx
from iclflow.numerics.compilation.expressions import compile_expression
from iclflow.theory import expect
from iclflow.theory.algebra.polynomial import TracePolynomial
from iclflow.theory.notation import B, D, Lambda, Lambda_hat, M, N, w, x_q
from sympy import (
    Determinant,
    HadamardProduct,
    Identity,
    Integer,
    KroneckerProduct,
    LambertW,
    Matrix,
    Max,
    Rational,
    Symbol,
    Trace,
    ZeroMatrix,
    atan2,
    exp,
    harmonic,
    log,
    pi,
    sqrt,
)

x, y = Symbol("x"), Symbol("y")


@pytest.fixture
def arrays():
    rng = np.random.default_rng(5)
    square = rng.normal(size=(4, 4))
    return square @ square.T, rng.normal(size=(4, 4)), rng.normal(size=(4, 4)), rng.normal(size=(4, 1))


def test_matrix_expressions_equal_hand_written_numpy(arrays):
    L, b, m, column = arrays
    m = m + m.T
    cases = [
        (Lambda**2 + (Lambda**2 + Trace(Lambda) * Lambda) / N, L @ L + (L @ L + np.trace(L) * L) / 31),
        (Lambda.inverse() * B.T - 2 * Identity(D), np.linalg.solve(L, b.T) - 2 * np.eye(4)),
        (Trace(B.T * M * B * Lambda) + D * Trace(Lambda**3), np.trace(b.T @ m @ b @ L) + 4 * np.trace(L @ L @ L)),
        (w * w.T * B, column @ column.T @ b),
        (Trace(w.T * B * w) ** 2 / (N + 1), (column.T @ b @ column).item() ** 2 / 32),
    ]
    for expression, expected in cases:
        for form in (expression, TracePolynomial(expression)):
            got = compile_expression(form, (Lambda, B, M, w, N))(L, b, m, column, 31)
            scale = np.abs(expected).max()
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12 * scale, err_msg=str(expression))


def test_every_kind_of_node_in_both_matrix_backends(arrays):
    L, b = arrays[0], arrays[1]
    cases = [
        (KroneckerProduct(Lambda, B), np.kron(L, b)),
        (Determinant(Lambda) * B, np.linalg.det(L) * b),
        (Lambda**-2 * B, np.linalg.inv(L) @ np.linalg.inv(L) @ b),
        (Trace(2 * Lambda * B + B.T) + Trace(Lambda**2), 2 * np.trace(L @ b) + np.trace(b) + np.trace(L @ L)),
        (B[0, 1] * Lambda[2, 3] + x, b[0, 1] * L[2, 3] + 0.5),
        (ZeroMatrix(D, D) + x * Identity(D), 0.5 * np.eye(4)),
        (B - B.T * x, b - 0.5 * b.T),
    ]
    for expression, expected in cases:
        numeric = compile_expression(expression, (Lambda, B, x))(L, b, 0.5)
        np.testing.assert_allclose(numeric, expected, rtol=1e-10, atol=1e-12, err_msg=str(expression))
        exact = compile_expression(expression, (Lambda, B, x), "mpmath")(L, b, 0.5)
        exact = np.array(exact.tolist() if isinstance(exact, mpmath.matrix) else exact, dtype=float)
        np.testing.assert_allclose(exact, expected, rtol=1e-10, atol=1e-12, err_msg=str(expression))
    with pytest.raises(ValueError, match="must be made of"):
        compile_expression(HadamardProduct(Lambda, B), (Lambda, B))


def test_mpmath_carries_the_digits_asked_for(arrays):
    L = arrays[0]
    with mpmath.workdps(50):
        value = compile_expression(Trace(Lambda**2) / N, (Lambda, N), "mpmath")(L, 3)
        exact = sum(Fraction(a) * Fraction(b) for a, b in zip(L.ravel(), L.T.ravel(), strict=True)) / 3
        assert abs(value - mpmath.mpf(exact.numerator) / exact.denominator) < 1e-48
        third = compile_expression(1 / N + x, (N, x), "mpmath")(3, Fraction(2, 5))
        assert abs(third - mpmath.mpf(11) / 15) < 1e-49  # not the float 1/3, nor the float 2/5


def test_balls_contain_the_exact_value():
    expression = log(1 + x) + exp(x) - 1 + x ** Rational(2, 3) / sqrt(1 + x) + atan2(x, 3) + pi * x**-2
    ball = compile_expression(expression, (x,), "arb")(Fraction(1, 7))
    exact = expression.subs(x, Rational(1, 7)).evalf(40)
    with ctx.workprec(200):
        assert ball.contains(arb(str(exact)))
        assert ball.rad() < arb("1e-12")
        assert not ball.contains(arb(str(exact + Rational(1, 10**11))))
    assert compile_expression(x / 3, (x,), "arb")(1).contains(arb(1) / 3)


def test_balls_never_pass_through_floats():
    names = ("exp", "log", "sqrt", "atan", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asinh", "atanh", "erf", "acos", "gamma")
    with ctx.workprec(300):
        for function in (getattr(sympy, name) for name in names):
            ball = compile_expression(function(x / 3) + function(x), (x,), "arb")(Fraction(2, 7))
            assert ball.rad() < arb("1e-80"), function
            exact = (function(x / 3) + function(x)).subs(x, Rational(2, 7)).evalf(100)
            assert abs(ball - arb(str(exact))) < arb("1e-80"), function


def test_small_arguments_keep_their_digits():
    f = compile_expression((log(1 + x), exp(x) - 1 + y), (x, y))
    assert f(1e-30, 0.0) == (1e-30, 1e-30)


def test_explicit_matrices_and_caching():
    explicit = Matrix([[x, x**2], [1, y]])
    f = compile_expression(explicit, (x, y))
    np.testing.assert_array_equal(f(2.0, 3.0), [[2.0, 4.0], [1.0, 3.0]])
    assert compile_expression(Matrix([[x, x**2], [1, y]]), (x, y)) is f
    assert compile_expression(Lambda * B, (Lambda, B)) is compile_expression(Lambda * B, (Lambda, B))


@pytest.mark.parametrize(
    ("expression", "arguments", "backend", "says"),
    [
        (x, (x,), "jax", "backend must be one of"),
        (x, (y,), "numpy", "arguments must contain"),
        (Lambda * B, (B,), "numpy", "arguments must contain Lambda"),
        (x * B, (B,), "numpy", "arguments must contain"),
        (x, (x, x), "numpy", "arguments must differ"),
        (x + 0.5, (x,), "arb", "must be exact"),
        (Max(x, 1), (x,), "arb", "must not choose between branches"),
        (LambertW(x), (x,), "arb", "functions that python-flint encloses"),
        (Lambda, (Lambda,), "arb", "backend must be numpy, torch or mpmath"),
    ],
)
def test_refusals_name_the_argument(expression, arguments, backend, says):
    with pytest.raises(ValueError, match=says):
        compile_expression(expression, arguments, backend)


def test_shapes_must_agree(arrays):
    f = compile_expression(Lambda * B, (Lambda, B))
    with pytest.raises(ValueError, match="B must have shape"):
        f(arrays[0], np.eye(3))
    with pytest.raises(ValueError, match="x_q must have shape"):
        compile_expression(Lambda * x_q, (Lambda, x_q))(arrays[0], np.ones(4))
    with pytest.raises(TypeError, match="arguments must be symbols"):
        compile_expression(x, (2 * x,))
    with pytest.raises(TypeError, match="expr must be"):
        compile_expression(lambda z: z, (x,))
    assert compile_expression(Integer(3), (x,))(1.0) == 3


def test_stacks_broadcast_in_front(arrays):
    """20 values of N and three of Lambda: each entry of the result is that of one N and one Lambda."""
    stack = np.stack([arrays[0], arrays[0] @ arrays[0], np.eye(4)])
    lengths = np.arange(1, 21)
    formula = Lambda**2 + (Lambda.inverse() * Trace(B * Lambda) + B[0, 1] * Lambda.T) / N + Determinant(B) * B
    whole = compile_expression(formula, (Lambda, B, N))
    found = whole(stack[:, None], arrays[1], lengths)
    assert found.shape == (3, 20, 4, 4)
    for i, j in ((0, 0), (1, 7), (2, 19)):
        np.testing.assert_allclose(found[i, j], whole(stack[i], arrays[1], int(lengths[j])), rtol=1e-12)
    both = compile_expression(KroneckerProduct(Lambda, B), (Lambda, B))(stack, arrays[1])
    np.testing.assert_allclose(both[1], np.kron(stack[1], arrays[1]))
    explicit = compile_expression(Matrix([[x, 1], [x * y, 3]]), (x, y))(np.array([1.0, 2.0, 3.0]), 2.0)
    np.testing.assert_array_equal(explicit, [[[1, 1], [2, 3]], [[2, 1], [4, 3]], [[3, 1], [6, 3]]])


def test_integers_of_any_width_become_floats():
    square = compile_expression(1 / x + x**2 / (x**2 + 1), (x,))
    expected = 1 / 31 + 961 / 962
    for kind in (np.uint8, np.int32, np.int64, int, np.float32):
        assert square(kind(31)) == pytest.approx(expected, rel=1e-15), kind
    assert square(np.array([31, 31], dtype=np.uint8)).tolist() == pytest.approx([expected] * 2)
    assert compile_expression(Trace(Lambda) / N, (Lambda, N))(np.array([[200, 0], [0, 200]], dtype=np.uint8), np.uint8(8)) == 50.0
    with pytest.raises(TypeError, match="must be numbers"):
        square("31")


def test_conditions_of_a_formula_are_enforced():
    inverse = compile_expression(expect(Lambda_hat**-1), (Lambda, N))  # holds for N > D + 1
    np.testing.assert_allclose(inverse(np.eye(2), [4, 5, 9]), np.array([4.0, 2.5, 1.5])[:, None, None] * np.eye(2))
    for outside in (3, [4, 3, 9]):
        with pytest.raises(ValueError, match="the formula holds for "):
            inverse(np.eye(2), outside)


def test_tensors_keep_their_precision_and_gradients_flow(arrays):
    torch = pytest.importorskip("torch")
    formula = Lambda**2 + Trace(Lambda) * Lambda.inverse() / N + Determinant(Lambda) * Identity(D) + exp(1 / N) * Lambda[0, 1] * Lambda
    L = torch.tensor(np.stack([arrays[0], np.eye(4)]), requires_grad=True)
    found = compile_expression(formula, (Lambda, N), "torch")(L, 7)
    np.testing.assert_allclose(found.detach(), compile_expression(formula, (Lambda, N))(L.detach().numpy(), 7), rtol=1e-12)
    assert found.dtype == torch.float64
    compile_expression(Trace(Lambda**2), (Lambda,), "torch")(L).sum().backward()
    np.testing.assert_allclose(L.grad, 2 * L.detach().mT)
    single = torch.eye(3, dtype=torch.float32)
    for scaled in (2 * Lambda, D * Lambda, x * Lambda + Lambda.T / 3):
        found = compile_expression(scaled, (Lambda, x), "torch")(single, torch.tensor(0.5))
        np.testing.assert_allclose(found, compile_expression(scaled, (Lambda, x))(np.eye(3), 0.5), rtol=1e-6)
        assert found.dtype == torch.float32
    assert compile_expression(x**2, (x,), "torch")(torch.tensor(3.0)).dtype == torch.float32
    assert compile_expression(Matrix([[x, 1]]), (x,), "torch")(torch.ones(5)).shape == (5, 1, 2)


def test_harmonic_numbers_of_both_orders():
    n = Symbol("n", integer=True, positive=True)
    both = compile_expression((harmonic(n), harmonic(n, 2)), (n,), "mpmath")(4)
    assert [float(one) for one in both] == pytest.approx([25 / 12, 205 / 144], rel=1e-15)
