"""The converged algorithm: its least loss, long contexts and components, against numbers."""

from dataclasses import replace

import numpy as np
import pytest
from iclflow.theory.equations import equation
from iclflow.theory.notation import B, D, Lambda_hat, M, N, beta, lambda_, w, x_q
from iclflow.theory.results.estimators.algorithms import T, least_loss, level
from quadrature import numbers

EIGENVALUES = np.array([0.4, 0.3, 0.2, 0.1])
COVARIANCE = np.diag(EIGENVALUES)


def second_moment(context):
    return COVARIANCE @ COVARIANCE + (COVARIANCE + np.eye(4)) @ COVARIANCE / context  # tr(Lambda) = 1


def loss(map_, context):
    return numbers(equation("9-closed").statement, {B: map_, M: second_moment(context)}, COVARIANCE, context)


def test_least_loss_is_the_minimum_over_all_maps():
    minimum = np.linalg.inv(second_moment(31)) @ COVARIANCE
    each = equation("16-loss").statement["each"]
    total = sum(float(each.subs({lambda_: value, T: 1, N: 31})) for value in EIGENVALUES)
    assert total == pytest.approx(0.1360, abs=5e-5)  # 0.1360 at N = 31, as in the catalogue of the paper's equations
    assert loss(minimum, 31) == pytest.approx(total, rel=1e-12)
    rng = np.random.default_rng(3)
    for _ in range(10):
        assert loss(minimum + 0.1 * rng.normal(size=(4, 4)), 31) > total
    assert least_loss().parts.keys() == {"map", "each"}


def test_long_context_expansion_has_the_stated_orders():
    """The error of two orders in 1/N falls as N^-3: the measured slope is -3."""
    orders = equation("16-limit").statement
    each = equation("16-loss").statement["each"]

    def error(context):
        exact = sum(float(each.subs({lambda_: value, T: 1, N: context})) for value in EIGENVALUES)
        return exact - sum(numbers(orders[part], {}, COVARIANCE, context) for part in ("first", "second"))

    slope = np.log(error(40_000) / error(10_000)) / np.log(4)
    assert slope == pytest.approx(-3, abs=0.05)


def test_components_and_their_limit():
    context = 7
    force = (
        COVARIANCE @ COVARIANCE
        - second_moment(context) @ np.diag([float(level().subs({lambda_: value, T: 1, N: context})) for value in EIGENVALUES]) @ COVARIANCE
    )
    assert force == pytest.approx(np.zeros((4, 4)), abs=1e-15)
    far = float(level().subs({lambda_: 0.3, T: 1, N: 10**6}))
    assert 10**6 * (far - 1 / 0.3) == pytest.approx(float(equation("27").statement["next"].subs({lambda_: 0.3, T: 1})), rel=1e-4)


def test_least_squares_in_context_is_exact_with_enough_tokens():
    rng = np.random.default_rng(9)
    tokens, task, query = rng.normal(size=(2, 5)), rng.normal(size=2), rng.normal(size=2)
    context = tokens @ tokens.T / 5
    known = {Lambda_hat: context, beta: context @ task, x_q: query, w: task}
    first = equation("16-ols").lines[1].left
    assert numbers(first, known, np.eye(2), 5) == pytest.approx(task @ query, rel=1e-12)
    assert numbers(equation("16-ols").statement, known, np.eye(2), 5) == pytest.approx(task @ query, rel=1e-12)


@pytest.mark.parametrize(
    ("number", "part", "planted"),
    [
        ("16-limit", "first", lambda typed: D * typed / (D + 1)),  # D / N, not (1 + D) / N
        ("16-loss", "each", lambda typed: typed.subs(N, N + 1)),
        ("16-large", "next", lambda typed: -typed),
        ("27", "next", lambda typed: typed * lambda_),
    ],
)
def test_wrong_statements_are_refused(number, part, planted):
    entry = equation(number)
    assert entry.holds()
    wrong = {**entry.parts, part: planted(entry.parts[part])}
    assert not replace(entry, typed=lambda: wrong).holds()
