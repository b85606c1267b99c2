"""Gradients and Hessians against finite differences and PyTorch autograd; what they refuse."""

from functools import reduce

import numpy as np
import pytest
import sympy
import torch
from expressions import evaluate, expressions, letter
from hypothesis import HealthCheck, given, settings, strategies as st
from iclflow.theory import Fixed, TracePolynomial, collect, derivative, expect, gradient, hessian_form, substitute
from iclflow.theory.notation import B, D, H, Lambda, Lambda_hat, N, R, matrix, sigma, symmetric_matrix, v_i, vector, w, x_q, y_q
from sympy import Identity, MatrixSymbol, Rational, Symbol, Trace, ZeroMatrix

P = TracePolynomial
A, W, V = (matrix(name, D) for name in "AWV")
K, E = symmetric_matrix("K", D), symmetric_matrix("E", D)
F, Q = MatrixSymbol("F", D, R), MatrixSymbol("Q", D, R)
k, q, c = vector("k", D), vector("q", D), vector("c", D)
v, n = Symbol("v"), Symbol("n")

SIZES = {D: 3, R: 2}
LETTERS = {"A": A, "W": W, "K": K, "F": F, "k": k, "c": c, "v": v, "n": n}
DERANDOMIZED = settings(derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck), max_examples=260)


def random_values(rng) -> dict:
    """Well-conditioned matrices (W, K are inverted), vectors and scalars."""
    values = {}
    for name, symbol in LETTERS.items():
        shape = tuple(SIZES[size] if size in SIZES else int(size) for size in getattr(symbol, "shape", ()))
        values[name] = rng.standard_normal(shape)
    for name in ("W", "K"):
        values[name] = 3 * np.eye(3) + 0.4 * values[name]
    values["K"] = (values["K"] + values["K"].T) / 2
    values["n"] = np.array(5.0)
    return values


def numeric(expression, values: dict):
    """A SymPy matrix expression in NumPy, node by node."""
    if isinstance(expression, sympy.Number):
        return float(expression)
    if expression in SIZES:
        return SIZES[expression]
    if isinstance(expression, sympy.Symbol | MatrixSymbol):
        return values[expression.name]
    if isinstance(expression, Identity):
        return np.eye(SIZES[expression.shape[0]])
    if isinstance(expression, ZeroMatrix):
        return np.zeros([SIZES.get(size, size) for size in expression.shape])
    if isinstance(expression, sympy.MatPow | sympy.Inverse):
        return np.linalg.matrix_power(numeric(expression.args[0], values), int(expression.exp))
    parts = [numeric(argument, values) for argument in expression.args]
    if isinstance(expression, Trace):
        return np.trace(parts[0])
    if isinstance(expression, sympy.Transpose):
        return parts[0].T
    if isinstance(expression, sympy.Add | sympy.MatAdd):
        return reduce(np.add, parts)
    if isinstance(expression, sympy.Pow):
        return parts[0] ** parts[1]
    assert isinstance(expression, sympy.Mul | sympy.MatMul)
    return reduce(lambda a, b: a @ b if np.ndim(a) == np.ndim(b) == 2 else a * b, parts)


def value_in_torch(tree, values):
    return evaluate(tree, values, trace=torch.trace, product=lambda a, b: a @ b, inverse=torch.linalg.inv, number=float)


@st.composite
def scalars(draw):
    """A scalar in W, K, F F', k and v, rational in v and n; a term has at least one trace or bilinear form."""
    matrices = dict.fromkeys(["W", "W'", "W^-1", "K", "K^-1", "A", "A'"], 0)
    _, tree = draw(expressions(matrices, {"k": 0, "c": 0}, degree=9, kinds=("scalar",), size=3))
    terms = []
    for coefficient, term in tree[1]:
        if draw(st.booleans()):
            rectangular = ("trace", ("product", (letter("F'"), letter(draw(st.sampled_from(["W", "K", "A'"]))), letter("F"))))
            term = ("scale", (rectangular,), term)
        powers = tuple(letter("v") for _ in range(draw(st.integers(0, 2))))
        terms.append((coefficient, ("scale", powers, term)))
    return ("sum", tuple(terms))


def test_gradients_equal_autograd_and_central_differences():
    """At least 200 different scalars, each with respect to every symbol: a matrix, a symmetric matrix, vectors, a scalar."""
    rng = np.random.default_rng(0)
    values = random_values(rng)
    seen: set[str] = set()

    @DERANDOMIZED
    @given(scalars())
    def check(tree):
        if str(tree) in seen:
            return
        scalar = P(evaluate(tree, LETTERS, trace=Trace, number=lambda x: Rational(x.numerator, x.denominator)))
        tensors = {name: torch.tensor(value, requires_grad=True) for name, value in values.items()}
        total = value_in_torch(tree, tensors)
        total.backward()
        scale = 1 + abs(total.item())
        ours_in_sympy = scalar.to_sympy()
        assert abs(numeric(ours_in_sympy, values) - total.item()) < 1e-9 * scale
        directions = {name: rng.standard_normal(np.shape(value)) for name, value in values.items()}
        directions["K"] = directions["K"] + directions["K"].T
        for name in ("W", "K", "F", "k", "v"):
            symbol = LETTERS[name]
            slope = gradient(scalar, symbol)
            assert slope.shape == (None if name == "v" else symbol.shape) or not slope.terms
            by_autograd = tensors[name].grad
            by_autograd = np.zeros_like(values[name]) if by_autograd is None else by_autograd.numpy()
            if name == "K":  # among symmetric matrices
                by_autograd = (by_autograd + by_autograd.T) / 2
            ours = numeric(slope.to_sympy(), values) * np.ones(np.shape(values[name]))
            error = np.abs(ours - by_autograd).max()
            assert error < 1e-9 * (scale + np.abs(by_autograd).max()), (name, str(scalar))
            assert bool(slope) == (symbol in scalar.free_symbols), (name, str(scalar))  # never 0 by mistake
            step = 1e-5
            moved = [numeric(ours_in_sympy, values | {name: values[name] + sign * step * directions[name]}) for sign in (1, -1)]
            difference = (moved[0] - moved[1]) / (2 * step)
            along = np.sum(ours * directions[name])
            assert abs(difference - along) < 1e-6 * (scale + np.abs(by_autograd).max()) * 30, (name, str(scalar))
        seen.add(str(tree))

    check()
    assert len(seen) >= 200, len(seen)


@settings(DERANDOMIZED, max_examples=60)
@given(scalars())
def test_hessians_equal_second_differences_and_autograd(tree):
    rng = np.random.default_rng(1)
    values = random_values(rng)
    scalar = P(evaluate(tree, LETTERS, trace=Trace, number=lambda x: Rational(x.numerator, x.denominator)))
    directions = {W: V, K: E, F: Q, k: q, v: sigma}
    form = hessian_form(scalar, directions)
    named = {name: rng.standard_normal(np.shape(values[at])) for at, name in zip("WKFkv", ["V", "E", "Q", "q", "sigma"], strict=True)}
    named["E"] = named["E"] + named["E"].T

    def along(step):
        moved = {symbol.name: torch.tensor(values[symbol.name]) + step * torch.tensor(named[to.name]) for symbol, to in directions.items()}
        return value_in_torch(tree, {name: torch.tensor(value) for name, value in values.items()} | moved)

    step = torch.zeros((), dtype=torch.float64, requires_grad=True)
    value = along(step)
    first = torch.autograd.grad(value, step, create_graph=True, allow_unused=True)[0] if value.requires_grad else None
    second = torch.autograd.grad(first, step, allow_unused=True)[0] if first is not None and first.requires_grad else None
    expected = 0.0 if second is None else second.item()
    ours = numeric(form.to_sympy(), values | named)
    assert abs(ours - expected) < 1e-9 * (1 + abs(expected) + abs(value.item()))
    h = 1e-3
    difference = (along(h) - 2 * along(0.0) + along(-h)).item() / h**2
    assert abs(difference - expected) < 1e-4 * (1 + abs(expected) + abs(value.item()))


@settings(DERANDOMIZED, max_examples=60)
@given(expressions(dict.fromkeys(["W", "W'", "A", "K"], 0), {"k": 0, "c": 0}, degree=9, kinds=("scalar",), size=3))
def test_derivatives_equal_the_expansion_of_a_substitution(case):
    """f(W + e V, k + e q, K + e E) to second order in e, exactly."""
    scalar = P(evaluate(case[1], LETTERS, trace=Trace, number=lambda x: Rational(x.numerator, x.denominator)))
    e = Symbol("e")
    directions = {W: V, k: q, K: E}
    moved = substitute(scalar, {symbol: P(symbol) + e * P(direction) for symbol, direction in directions.items()})
    orders = collect(moved, e)
    assert orders.get(0, P(0)) == scalar
    assert orders.get(1, P(0)) == derivative(scalar, directions)
    assert orders.get(2, P(0)) * 2 == hessian_form(scalar, directions)
    assert sum((e**power * part for power, part in orders.items()), start=P(0)) == moved


# Gradients, case by case


def test_known_gradients():
    assert gradient(Trace(A * W), W) == A.T
    assert gradient(Trace(W), W) == Identity(D)
    assert gradient(Trace(W.T * W), W) == 2 * W
    assert gradient(Trace(W) ** 2, W) == 2 * P(Trace(W)) * Identity(D)
    assert gradient(Trace(A * W.I), W) == -P(W.I.T * A.T * W.I.T)
    assert gradient(Trace(A * W.T.I), W) == -P(W.I.T * A * W.I.T)
    assert gradient(k.T * A * k, k) == P(A * k) + A.T * k
    assert gradient(c.T * k, k) == c
    assert gradient(Trace(K * A), K) == (P(A) + A.T) / 2
    assert gradient(Trace(K * K), K) == 2 * K
    assert gradient(Trace(A * K.I), K) == -(P(K.I * A * K.I) + K.I * A.T * K.I) / 2
    assert gradient(Trace(F.T * A * F), F) == P(A * F) + A.T * F
    assert gradient(Trace(A), W) == 0
    assert gradient(Trace(A), W).shape == (D, D)


def test_gradients_in_scalars():
    assert gradient(v_i**2 * Trace(A), v_i) == 2 * v_i * Trace(A)
    assert gradient(N / (N - 1) * Trace(A), N) == -1 / P((N - 1) ** 2) * Trace(A)
    assert gradient(Trace(A) / v, v) == -Trace(A) / v**2
    assert gradient(sigma, sigma) == 1
    assert gradient(H * Trace(A), H) == Trace(A)
    assert gradient(P(D), D) == 1  # no matrix of that size is there


def test_gradients_in_one_by_one_matrices():
    loss = (P(y_q) - c.T * k) ** 2 * Trace(A)
    assert gradient(loss, y_q) == 2 * (P(y_q) - c.T * k) * Trace(A)
    assert gradient(loss, k) == -2 * (P(y_q) - c.T * k) * Trace(A) * c
    assert hessian_form(loss, {y_q: 3}) == 18 * P(Trace(A))


def test_the_gradient_of_the_population_loss():
    """-1/2 dL/dB = Lambda^2 - E(S^2) B Lambda: equation (9) in the effective map."""
    loss = expect((y_q - x_q.T * B.T * Lambda_hat * w) ** 2)
    assert gradient(loss, B) / -2 == Lambda**2 - expect(Lambda_hat**2) * (B * Lambda)
    by_hand = Trace(V.T * expect(Lambda_hat**2).to_sympy() * V * Lambda)
    assert hessian_form(loss, {B: V}) == 2 * P(by_hand)


def test_conditions_survive_derivatives():
    inverse = expect(Trace(W * Lambda_hat.I * W.T) * v)
    for result in (gradient(inverse, W), gradient(inverse, v), derivative(inverse, {W: V}), hessian_form(inverse, {W: V})):
        assert result.conditions == {N > D + 1}
    assert collect(inverse, v)[1].conditions == {N > D + 1}
    assert substitute(inverse, {W: A}).conditions == {N > D + 1}
    assert substitute(Trace(W), {W: expect(Lambda_hat.I)}).conditions == {N > D + 1}


def test_gradient_refuses():
    with pytest.raises(ValueError, match=r"gradient: needs a scalar, got shape \(D, D\) in W; take a trace first"):
        gradient(W, W)
    with pytest.raises(ValueError, match="D is the dimension of a matrix; there is no derivative"):
        gradient(D * Trace(A), D)
    for wrong in (3, "W", W * W, Trace(W)):
        with pytest.raises(TypeError, match="gradient: symbol must be a matrix, vector or scalar symbol, got"):
            gradient(Trace(W), wrong)
    with pytest.raises(ValueError, match=r"derivative: the direction of W must have shape \(D, D\), got \(D, 1\) in k"):
        derivative(Trace(W), {W: k})
    with pytest.raises(ValueError, match="derivative: the direction of v must have shape scalar"):
        derivative(v * Trace(W), {v: W})
    with pytest.raises(ValueError, match="derivative: K is symmetric, its direction A is not"):
        derivative(Trace(K * A), {K: A})
    with pytest.raises(ValueError, match="hessian_form: the direction of W contains W; use a fresh symbol"):
        hessian_form(Trace(W * W), {W: W})
    assert derivative(Trace(W), {W: 0}) == 0


def test_namesakes_are_not_taken_for_each_other():
    """A derivative of 0 with respect to a symbol that only looks like the one in the formula is an error, not an answer."""
    plain, count = MatrixSymbol("W", D, D), Symbol("N")
    for verb, call in (
        ("gradient", lambda: gradient(Trace(A * plain), W)),
        ("gradient", lambda: gradient(N * Trace(A), count)),
        ("substitute", lambda: substitute(A * plain, {W: V})),
        ("substitute", lambda: substitute(N * A, {count: 3})),
        ("expect", lambda: expect(plain * x_q, law=Fixed(W, A))),
    ):
        with pytest.raises(ValueError, match=f"{verb}: the [WN] in .* is another symbol of that name"):
            call()


@pytest.mark.parametrize("wrong", [A, [A], None, "A"], ids=str)
def test_symbols_come_in_a_mapping(wrong):
    for verb in (substitute, derivative, hessian_form):
        with pytest.raises(TypeError, match=rf"{verb.__name__}: needs a mapping {{symbol: "):
            verb(Trace(A), wrong)
