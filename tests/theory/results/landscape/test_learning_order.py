"""The order of learning (V2-sequence, V2-oblique): wrong statements, and the flow of two heads written out entry by entry."""

from dataclasses import replace

import numpy as np
import pytest
from iclflow.theory import substitute
from iclflow.theory.equations import equation
from iclflow.theory.results.landscape.any_quadratic_loss import M_root, alpha, beta_, s_i, s_j
from iclflow.theory.results.landscape.learning_order import (
    A_d,
    A_e,
    A_j,
    M_d,
    M_e,
    M_j,
    Q_d,
    Q_e,
    Q_j,
    lag_i,
    lag_j,
    rho_i,
    rho_j,
    v,
    waiting_rate,
)
from sympy import Matrix, lambdify


@pytest.mark.parametrize("number", ["V2-sequence", "V2-oblique"])
def test_entries_hold(number):
    assert equation(number).holds()


@pytest.mark.parametrize(
    ("number", "part", "fault"),
    [
        ("V2-sequence", "lag", lambda x: 1 - A_d / A_j),
        ("V2-sequence", "lag", lambda x: 2 - A_j / A_d),
        ("V2-sequence", "growing", lambda x: x.subs(Q_j, M_j)),
        ("V2-sequence", "growing", lambda x: x / 2),
        ("V2-sequence", "sign", lambda x: -x),
        ("V2-sequence", "sign", lambda x: x.subs({A_d: A_j, A_j: A_d}, simultaneous=True)),
        ("V2-sequence", "held", lambda x: x - v**2 * A_e**2),
        ("V2-sequence", "apart", lambda x: x + Matrix.ones(4, 2)),
        ("V2-sequence", "rest", lambda x: x.subs(lag_j, 1)),
        ("V2-sequence", "next", lambda x: x.subs({rho_i: rho_j, rho_j: rho_i}, simultaneous=True)),
        ("V2-sequence", "next", lambda x: x - lag_i + lag_j),
        ("V2-oblique", "loss", lambda x: x.subs(alpha, beta_)),
        ("V2-oblique", "second", lambda x: -x),
        ("V2-oblique", "second", lambda x: x.subs({s_i: s_j, s_j: s_i}, simultaneous=True)),
        ("V2-oblique", "keys", lambda x: substitute(x, {M_root: M_root.I})),
    ],
)
def test_wrong_statements_are_refused(number, part, fault):
    entry = equation(number)
    wrong = {**entry.statement, part: fault(entry.statement[part])}
    assert not replace(entry, typed=lambda: wrong).holds()


def velocity(heads, A, M, Q):
    """tau dW/dt of heads of rank one, rows (v, k, q), where A, M and Q are diagonal."""
    D = len(A)
    G = np.diag(A) - M[:, None] * sum(h[0] * np.outer(h[1 : 1 + D], h[1 + D :]) for h in heads) * Q
    return np.array([np.concatenate([[h[1 : 1 + D] @ G @ h[1 + D :]], h[0] * G @ h[1 + D :], h[0] * G.T @ h[1 : 1 + D]]) for h in heads])


def test_rates_of_turning_by_differences_of_the_flow():
    """One head at d, one at e, a third direction free: the flow's derivatives there, and their eigenvalues."""
    rng = np.random.default_rng(2)
    entry = equation("V2-sequence").statement
    arguments = (v, A_d, M_d, Q_d, A_j, M_j, Q_j, A_e, M_e, Q_e)
    rate, held = (lambdify(arguments, entry[part]) for part in ("growing", "held"))
    signs = set()
    for _ in range(20):
        A, M, Q = rng.uniform(0.2, 2.0, (3, 3))
        sizes = np.cbrt(A / (M * Q))
        heads = np.zeros((2, 7))
        for head, d in ((0, 0), (1, 2)):  # directions d, j, e
            heads[head, [0, 1 + d, 4 + d]] = sizes[d]
        assert np.abs(velocity(heads, A, M, Q)).max() < 1e-14
        step, jacobian = 1e-6, np.zeros((14, 14))
        for i in range(14):
            there, back = heads.ravel().copy(), heads.ravel().copy()
            there[i] += step
            back[i] -= step
            jacobian[:, i] = ((velocity(there.reshape(2, 7), A, M, Q) - velocity(back.reshape(2, 7), A, M, Q)) / (2 * step)).ravel()
        numbers = (sizes[0], A[0], M[0], Q[0], A[1], M[1], Q[1], A[2], M[2], Q[2])
        turning = jacobian[np.ix_([2, 5], [2, 5])]  # k_j and q_j of the first head
        assert np.linalg.eigvals(turning).real.max() == pytest.approx(rate(*numbers), abs=1e-8)
        assert np.abs(np.delete(jacobian[[2, 5]], [2, 5], axis=1)).max() < 1e-8, "nothing else moves them, to first order"
        assert np.linalg.det(jacobian[np.ix_([3, 6], [3, 6])]) == pytest.approx(held(*numbers), rel=1e-7)
        larger = A[1] ** 2 / (M[1] * Q[1]) > A[0] ** 2 / (M[0] * Q[0])
        assert (rate(*numbers) > 0) == larger
        signs.add(bool(larger))
    assert signs == {True, False}


def test_waiting_heads_grow_by_A():
    assert waiting_rate() == A_j
