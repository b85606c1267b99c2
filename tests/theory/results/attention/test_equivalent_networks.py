"""Kronecker identities against NumPy's kron, and the equivalent networks and cubic moments against whole vectors and quadrature."""

from dataclasses import replace

import numpy as np
import pytest
from iclflow.theory.equations import equation
from iclflow.theory.notation import W_1, B, D, Lambda, Lambda_q, M, beta, matrix, v_i, w_2, x_q
from iclflow.theory.results.attention.blocks import U_i
from iclflow.theory.results.attention.cubic_features import QUERY_LAW
from iclflow.theory.results.attention.equivalent_networks import AT, COVARIANCE, CROSS, OTHER
from iclflow.theory.results.attention.kronecker import index, kron_entry, kron_product, kron_times_vec, vec_entry
from iclflow.theory.results.estimators.algorithms import Sigma_w
from quadrature import Sequences, numbers

TOKENS = np.array([[0.9, 0.3], [0.3, 0.5]])
A, C, X = matrix("A", D), matrix("C", D), matrix("X", D)
MIDDLE = index("3", D, D)
PAIRS = [(c, e) for c in range(2) for e in range(2)]  # column, row: the order of a vec that stacks columns


@pytest.fixture
def known():
    rng = np.random.default_rng(2)
    return {letter: rng.integers(-3, 4, size=(2, 2)).astype(float) for letter in (A, C, X)}


def units(at, pair):
    return {letter: np.eye(2)[position] for letter, position in zip(at, pair, strict=True)}


def whole_vector(entry, known):
    return np.array([numbers(entry(AT), {**known, **units(AT, pair)}, TOKENS, 1) for pair in PAIRS])


def whole_matrix(entry, known):
    return np.array(
        [[numbers(entry(AT, OTHER), {**known, **units(AT, one), **units(OTHER, two)}, TOKENS, 1) for two in PAIRS] for one in PAIRS]
    )


def test_entries_are_those_of_column_stacking_and_of_kron(known):
    assert np.array_equal(whole_vector(vec_entry(X), known), known[X].ravel(order="F"))
    assert np.array_equal(whole_matrix(kron_entry(A, C), known), np.kron(known[A], known[C]))
    feature = vec_entry(beta * x_q.T)
    vectors = {beta: np.array([2.0, -1.0]), x_q: np.array([3.0, 5.0])}
    assert np.array_equal(whole_vector(feature, vectors), np.kron(vectors[x_q], vectors[beta]))
    assert not np.array_equal(whole_vector(feature, vectors), np.kron(vectors[beta], vectors[x_q]))  # rows stacked


def test_products_of_kron_and_vec(known):
    product = kron_entry(A, C)
    twice = kron_product(product, kron_entry(X, A), MIDDLE)
    assert np.array_equal(whole_matrix(twice, known), np.kron(known[A] @ known[X], known[C] @ known[A]))
    on_vec = kron_times_vec(product, vec_entry(X), OTHER)
    assert np.array_equal(whole_vector(on_vec, known), (known[C] @ known[X] @ known[A].T).ravel(order="F"))


def test_moments_of_the_cubic_feature_by_quadrature():
    """A query of another covariance: the nodes of the query are those of Lambda, stretched."""
    query = np.array([[0.4, -0.1], [-0.1, 1.1]])
    grid = Sequences.of(TOKENS, 1, nodes=3)
    stretch = np.linalg.cholesky(query) @ np.linalg.inv(np.linalg.cholesky(TOKENS))
    grid = replace(grid, x_q=grid.x_q @ stretch.T)
    z = np.einsum("pc,pe->pce", grid.x_q, grid.beta).reshape(-1, 4)
    cross, square = grid.mean(grid.y_q[:, None] * z), grid.mean(z[:, :, None] * z[:, None, :])
    known = {Lambda_q: query}
    assert whole_vector(lambda at: equation("41").statement, known) == pytest.approx(cross, rel=1e-12)
    assert whole_matrix(lambda at, other: equation("42").statement, known) == pytest.approx(square, rel=1e-12)
    factor = numbers(equation("16").statement["factor"], known, TOKENS, 1)
    map_ = (cross @ np.linalg.inv(square)).reshape(2, 2).T  # vec(B)' with z = x_q (x) beta
    assert map_ == pytest.approx(np.linalg.inv(factor), rel=1e-10)
    assert QUERY_LAW.symbol == x_q


def test_regression_for_other_tasks_by_quadrature():
    """Task vectors with a covariance that does not commute with that of the tokens."""
    tasks = np.array([[1.5, 0.4], [0.4, 0.3]])
    grid = Sequences.of(TOKENS, 1, nodes=3)
    grid = replace(grid, w=grid.w @ np.linalg.cholesky(tasks).T)
    z = np.einsum("pc,pe->pce", grid.x_q, grid.beta).reshape(-1, 4)
    cross, square = grid.mean(grid.y_q[:, None] * z), grid.mean(z[:, :, None] * z[:, None, :])
    map_ = (cross @ np.linalg.inv(square)).reshape(2, 2).T
    factor = numbers(equation("16-tasks").statement["factor"], {Sigma_w: tasks}, TOKENS, 1)
    assert map_ == pytest.approx(np.linalg.solve(factor, tasks), rel=1e-10)


def test_network_of_stacked_heads_is_attention_and_has_its_flow():
    rng = np.random.default_rng(6)
    heads, v = rng.normal(size=(3, 2, 2)), rng.normal(size=3)
    grid = Sequences.of(TOKENS, 1, nodes=3)
    z = np.einsum("pc,pe->pce", grid.x_q, grid.beta).reshape(-1, 4)
    first_layer = np.array([U.ravel(order="F") for U in heads])
    output = np.einsum("h,pi,hij,pj->p", v, grid.beta, heads, grid.x_q)
    assert z @ first_layer.T @ v == pytest.approx(output, rel=1e-12, abs=1e-12)
    error = grid.y_q - output
    by_U = grid.mean(error[:, None, None, None] * np.einsum("h,pi,pj->phij", v, grid.beta, grid.x_q))
    by_v = grid.mean(error[:, None] * np.einsum("pi,hij,pj->ph", grid.beta, heads, grid.x_q))
    known = {W_1: first_layer, w_2: v, CROSS: grid.mean(grid.y_q[:, None] * z), COVARIANCE: grid.mean(z[:, :, None] * z[:, None, :])}
    parts = {part: numbers(flow, known, TOKENS, 1) for part, flow in equation("13").statement.items()}
    assert parts["a"] == pytest.approx(np.array([U.ravel(order="F") for U in by_U]), rel=1e-10)
    assert parts["b"].ravel() == pytest.approx(by_v, rel=1e-10)
    effective = np.einsum("h,hij->ij", v, heads)
    moment = grid.mean(np.einsum("pij,pjk->pik", grid.Lambda_hat, grid.Lambda_hat))
    for h in range(3):
        known = {v_i: v[h], U_i: heads[h], B: effective, M: moment}
        by_head = {part: numbers(equation("13-heads").statement[part], known, TOKENS, 1) for part in ("U", "v")}
        assert by_head["U"] == pytest.approx(by_U[h], rel=1e-10)
        assert by_head["v"] == pytest.approx(by_v[h], rel=1e-10)


@pytest.mark.parametrize(
    ("number", "part", "planted"),
    [
        ("38", "e", lambda _: OTHER[1].T * A * OTHER[0]),
        ("41", "", lambda _: AT[1].T * Lambda_q * Lambda * AT[0]),
        ("42", "", lambda typed: typed.xreplace({AT[0]: AT[1], AT[1]: AT[0], OTHER[0]: OTHER[1], OTHER[1]: OTHER[0]})),  # M (x) Lambda_q
        ("11", "head", lambda _: beta.T * matrix("U_i", D).T * x_q),
        ("18-conv", "filter", lambda typed: typed.xreplace({beta: x_q, x_q: beta})),
    ],
)
def test_wrong_statements_are_refused(number, part, planted):
    entry = equation(number)
    assert entry.holds()
    wrong = {**entry.parts, part: planted(entry.parts[part])}
    assert not replace(entry, typed=lambda: wrong if part else wrong[""]).holds()
