"""Weights of minimal norm: the bound against numerical minimisation and random factorisations, the gaps, planted faults."""

from dataclasses import replace

import numpy as np
import pytest
from iclflow.theory.equations import equation
from iclflow.theory.notation import k_i, lambda_, q_i, v_i
from iclflow.theory.results.landscape.fixed_points import ridge
from iclflow.theory.results.landscape.minimal_norm import A, Mu, eta, n, u, xi, z
from iclflow.theory.results.landscape.minimal_norm_bound import g, p, r_k, r_q, r_v, xi_J
from iclflow.theory.results.separate.aligned import fixed_value
from iclflow.theory.results.separate.rank_plateaus import slots_of_a_head
from iclflow.theory.results.task.population import PAPER
from scipy.optimize import minimize
from sympy import Matrix, Rational, Symbol, Trace, simplify

NUMBERS = ("74", "75", "76", "77", "77-gaps", "78", "78-bound", "78-R")


@pytest.mark.parametrize("number", NUMBERS)
def test_it_holds(number):
    assert equation(number).holds()


@pytest.mark.parametrize(
    ("number", "part", "wrong"),
    [
        ("74", "c", q_i - v_i * Mu * k_i),
        ("74", "a", v_i - Trace(q_i.T * Mu * k_i)),
        ("76", "key", v_i**2 * Mu * Mu * k_i),
        ("76", "value", 1 / Symbol("eta", positive=True) ** 2),
        ("77", "sum", Mu * A),
        ("77-gaps", "shared cost", 3 * xi ** Rational(2, 3)),
        ("77-gaps", "map", Matrix([[1, -1], [-1, 1]]) / 2),
        ("78", "value", xi ** Rational(1, 2)),
        ("78", "map", xi * z * u.T),
        ("78", "landscape", lambda_ ** Rational(1, 3) * ridge(lambda_) ** Rational(1, 3)),
        ("78-R", "cost", 2 * xi_J ** Rational(2, 3)),
    ],
)
def test_planted_faults_are_refused(number, part, wrong):
    entry = equation(number)
    assert not replace(entry, typed=lambda: entry.statement | {part: wrong}).holds()


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ("one head", (r_v + r_k + r_q) / 2 * ((r_v - r_k) ** 2 + (r_k - r_q) ** 2 - (r_q - r_v) ** 2)),
        ("tangent", (g - p) ** 2 * (g + p) / (3 * g)),
        ("group", n / eta**3),
    ],
)
def test_wrong_bounds_are_refused(part, wrong):
    entry = equation("78-bound")
    assert not replace(entry, typed=lambda: entry.statement | {part: wrong}).holds()


def test_stationary_heads_never_cost_less_than_the_bound():
    """Random stationary points: heads that are random unit directions, in groups, of a random multiplier with repeated singular values."""
    rng = np.random.default_rng(6)
    for _ in range(100):
        left, right = (np.linalg.qr(rng.standard_normal((4, 4)))[0] for _ in range(2))
        values = np.array([1.3, 1.3, 0.7, 0.7])
        multiplier = left @ np.diag(values) @ right.T
        made, cost = np.zeros((4, 4)), 0.0
        for group, singular in (([0, 1], 1.3), ([2, 3], 0.7)):
            for _ in range(rng.integers(1, 5)):
                direction = left[:, group] @ rng.standard_normal(2)
                value = rng.choice([-1, 1]) / singular
                key = direction / np.linalg.norm(direction) / singular
                query = value * multiplier.T @ key
                assert key == pytest.approx(value * multiplier @ query)  # (74b)
                assert value == pytest.approx(key @ multiplier @ query)  # (74a)
                made, cost = made + value * np.outer(key, query), cost + value**2 + key @ key + query @ query
        assert cost >= bound(made) * (1 - 1e-9)  # a zero singular value comes out as 1e-17, its power 2/3 as 5e-12


def bound(matrix):
    return 3 * np.sum(np.linalg.svd(matrix, compute_uv=False) ** (2 / 3))


def test_no_random_factorisation_is_cheaper_than_the_bound():
    rng = np.random.default_rng(2)
    for _ in range(200):
        K, Q, weights = rng.standard_normal((3, 5)), rng.standard_normal((3, 5)), rng.standard_normal(5)
        cost = np.sum(weights**2) + np.sum(K**2) + np.sum(Q**2)
        assert cost >= bound(K @ np.diag(weights) @ Q.T)


MATRICES = {
    "positive": np.array([[2.0, 0.3], [0.3, 0.7]]),
    "negative": -np.array([[1.0, 0.2], [0.2, 0.5]]),
    "general": np.array([[0.4, -1.3], [0.9, 0.2]]),
}


@pytest.mark.parametrize("target", MATRICES.values(), ids=MATRICES)
def test_the_minimum_is_the_bound_for_any_matrix(target):
    """Three heads, free weights, the constraint imposed by the optimiser: it finds the bound, and nothing below it."""
    rng = np.random.default_rng(4)

    def constraint(weights):
        values, K, Q = weights[:3], weights[3:9].reshape(2, 3), weights[9:].reshape(2, 3)
        return (K @ np.diag(values) @ Q.T - target).ravel()

    costs = []
    for _ in range(8):
        found = minimize(
            lambda weights: weights @ weights,
            rng.standard_normal(15),
            jac=lambda weights: 2 * weights,
            constraints={"type": "eq", "fun": constraint},
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-12},
        )
        if np.abs(constraint(found.x)).max() < 1e-8:
            costs.append(found.fun)
    assert min(costs) == pytest.approx(bound(target), rel=1e-5)


@pytest.mark.parametrize("target", MATRICES.values(), ids=MATRICES)
def test_the_weights_of_78_make_the_matrix_at_the_cost_of_the_bound(target):
    left, values, right = np.linalg.svd(target)
    typed = equation("78").statement
    made, cost = 0, 0
    for column, value, row in zip(left.T, values, right, strict=True):
        weight = float(typed["value"].subs(xi, value))
        made = made + weight * np.outer(weight * column, weight * row)
        cost += float(typed["cost"].subs(xi, value))
    assert made == pytest.approx(target)
    assert cost == pytest.approx(bound(target))


def test_heads_that_share_an_eigenvector_are_stationary_and_dearer():
    shared = equation("77-gaps").statement
    multiplier = 1 / shared["shared value"]
    value = shared["shared value"]
    assert simplify(value - value * multiplier * value) == 0  # (74a) with k = q = v e and Mu e = eta e
    assert simplify(n * value**3 - xi) == 0
    assert simplify(shared["shared cost"] / equation("78").statement["cost"] - n ** Rational(1, 3)) == 0


def test_the_landscape_value_is_the_fixed_point_of_the_scalar_flow():
    from_flow = fixed_value().result["cube"].subs(Symbol("a", positive=True), PAPER.eigenvalue)
    assert simplify(from_flow**3 - equation("78").statement["landscape"] ** 3) == 0


def test_the_rank_r_value_is_that_of_the_aligned_flow():
    assert simplify(equation("78-R").statement["value"] ** 3 - xi_J) == 0
    assert slots_of_a_head().result["level"] == lambda_ / Symbol("a", positive=True)
