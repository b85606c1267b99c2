"""The fixed points of merged attention (14), by explicit gradients and Hessians of w_2' W_1 z at H = 3, D = 2."""

from dataclasses import replace

import numpy as np
import pytest
from iclflow.theory.calculus.entrywise import explicit
from iclflow.theory.equations import equation
from iclflow.theory.notation import W_1, D, H, N, w_2
from iclflow.theory.results.attention.equivalent_networks import COVARIANCE, CROSS
from iclflow.theory.results.merged.fixed_points import half_loss
from sympy import Matrix, ZeroMatrix, hessian, lambdify, symbols

HEADS, FEATURES = 3, 4


@pytest.fixture(scope="module")
def loss():
    """Half the loss and its derivatives as functions of (w_2, W_1) in one vector, and E(y_q z)."""
    rng = np.random.default_rng(5)
    root = rng.integers(-2, 3, size=(FEATURES, FEATURES))
    square, cross = root @ root.T + 2 * np.eye(FEATURES, dtype=int), rng.integers(-3, 4, size=FEATURES)
    second = Matrix(HEADS, 1, symbols(f"w:{HEADS}"))
    first = Matrix(HEADS, FEATURES, symbols(f"W:{HEADS * FEATURES}"))
    value = explicit(half_loss(), {COVARIANCE: square, CROSS: Matrix(cross), w_2: second, W_1: first}, H=HEADS, D=2)
    weights = [*second, *first]
    gradient = lambdify([weights], [value.diff(weight) for weight in weights])
    second_derivatives = lambdify([weights], hessian(value, weights))
    return gradient, second_derivatives, square, cross


def zero_function_member(cross, rng):
    """w_2 = 0 and rows of W_1 perpendicular to E(y_q z), not zero."""
    rows = rng.normal(size=(HEADS, FEATURES))
    rows -= np.outer(rows @ cross, cross) / (cross @ cross)
    return np.concatenate([np.zeros(HEADS), rows.ravel()])


def test_zero_function_set_is_larger_than_the_origin(loss):
    gradient, _, _, cross = loss
    rng = np.random.default_rng(0)
    for _ in range(5):
        assert np.abs(gradient(zero_function_member(cross, rng))).max() < 1e-12
    generic = np.concatenate([np.zeros(HEADS), rng.normal(size=HEADS * FEATURES)])
    assert np.abs(gradient(generic)).max() > 0.1


def test_index_is_the_number_of_heads_everywhere_on_it(loss):
    _, second_derivatives, _, cross = loss
    rng = np.random.default_rng(1)
    for member in (*(zero_function_member(cross, rng) for _ in range(5)), np.zeros(HEADS * (FEATURES + 1))):
        spectrum = np.linalg.eigvalsh(np.array(second_derivatives(member), dtype=float))
        assert (spectrum < -1e-9).sum() == HEADS
        assert (spectrum > 1e-9).sum() == HEADS
        flat = equation("14-index").statement["dimension"].subs({H: HEADS, D: 2})
        assert (np.abs(spectrum) <= 1e-9).sum() == flat
    assert spectrum[0] == pytest.approx(-np.linalg.norm(cross))  # the origin came last


def test_global_minimum(loss):
    gradient, second_derivatives, square, cross = loss
    row = np.linalg.solve(square, cross)
    second = np.random.default_rng(2).normal(size=HEADS)
    there = np.concatenate([second, np.outer(second, row).ravel() / (second @ second)])
    assert np.abs(gradient(there)).max() < 1e-12
    assert np.linalg.eigvalsh(np.array(second_derivatives(there), dtype=float))[0] > -1e-9


@pytest.mark.parametrize(
    ("number", "part", "planted"),
    [
        ("14a", "W", lambda _: ZeroMatrix(H, 1)),  # w_2 = 0 alone would do
        ("14b", "row", lambda typed: typed * COVARIANCE),
        ("14b", "stable", lambda typed: -typed),
        ("14-index", "dimension", lambda _: H * D**2 - 1),
        ("14-index", "origin", lambda typed: -typed),
        ("17", "difference", lambda _: ZeroMatrix(N, N)),
        ("13", "b", lambda typed: typed + w_2),
    ],
)
def test_wrong_statements_are_refused(number, part, planted):
    entry = equation(number)
    assert entry.holds()
    wrong = {**entry.parts, part: planted(entry.parts[part])}
    assert not replace(entry, typed=lambda: wrong).holds()
