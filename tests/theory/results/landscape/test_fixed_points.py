"""Fixed points of separate attention: members of M(S) in exact arithmetic, conditions that are needed, completeness, counts, losses."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from flint import ctx
from iclflow.theory import explicit, substitute
from iclflow.theory.calculus.spectral import eigenvalue, indicator, over_directions
from iclflow.theory.derivations.book import entries
from iclflow.theory.derivations.points import DIGITS, Point, as_mpmath, value_at
from iclflow.theory.equations import equation
from iclflow.theory.notation import B, D, G, H, Lambda, M, N, P, R, T, a, lambda_, learned
from iclflow.theory.results.landscape.completeness import (
    B_ij,
    B_ji,
    Pi,
    a_i,
    a_j,
    eigenspace_conditions,
    lambda_i,
    lambda_j,
    m,
    map_at_rest,
)
from iclflow.theory.results.landscape.fixed_points import Gamma, b, fixed_map_along, ridge
from iclflow.theory.results.landscape.levels import loss_along
from iclflow.theory.results.task.population import PAPER
from iclflow.theory.results.task.regression import closed_loss, force
from mpmath import mp, norm
from sympy import Identity, Matrix, Rational, Sum, Trace, binomial, cancel, diag, eye, groebner, limit, oo, symbols, zeros

NUMBERS = ("23", "24", "55", "56", "57", "59", "60", "83", "84", "C1", "C2", "C3", "T1", "T1a", "T1b", "T1c", "T1d", "T1e")
EIGENVALUES = (Rational(4, 10), Rational(3, 10), Rational(2, 10), Rational(1, 10))
CONTEXT = 31


def moments(eigenvalues, context):
    written = PAPER.eigenvalue.subs({T: sum(eigenvalues), N: context})
    return [written.subs(lambda_, value) for value in eigenvalues]


@pytest.mark.parametrize("number", NUMBERS)
def test_it_holds(number):
    assert equation(number).holds()


@pytest.mark.parametrize(
    ("number", "wrong"),
    [
        ("23", learned / lambda_ / (1 + (1 + T / lambda_) / (N + 1))),
        ("23", learned / lambda_ / (1 + (1 - T / lambda_) / N)),
        ("55", learned * lambda_**2 / a),
        ("C1", b * (b - lambda_**2 / a)),
        ("C3", over_directions(learned * lambda_**2)),
        ("T1b", {"first": B.T * Lambda - B * Lambda, "second": M.I * Lambda**2 * B.T - B * Lambda**2 * M.I}),
        ("84", Trace(Lambda * P * Lambda)),
        ("T1e", {"few slots": Sum(binomial(D, m), (m, 0, H)), "enough slots": 2**D}),
        ("T1e", {"few slots": Sum(binomial(D, m), (m, 1, R * H)), "enough slots": 2**D}),
    ],
)
def test_planted_faults_are_refused(number, wrong):
    assert not replace(equation(number), typed=lambda: wrong).holds()


@pytest.mark.parametrize(
    ("number", "part", "wrong"),
    [
        ("24", "drop", eigenvalue[m]),
        ("24", "limit", over_directions(lambda_, first=m)),
        ("59", "loss", over_directions(lambda_ - learned * lambda_**2 * ridge(lambda_))),
        ("56", "matrix", Lambda * P * Lambda),
        ("60", "square", Gamma * Lambda**2 * Gamma),
        ("60", "other order", 0 * Trace(Lambda)),
        ("T1c", "determinant", lambda_i**3 / a_i + lambda_j**3 / a_j),
        ("T1c", "first", lambda_j * B_ij - lambda_i * B_ji),
        ("T1d", "left", Pi.T - Pi.T * Pi.T),
        ("T1a", "keys", G * B),
        ("T1", "entries", (lambda_i**2 / a_i - lambda_j**2 / a_j) * B_ij),
        ("T1", "diagonal", b * (b - lambda_)),
    ],
)
def test_planted_faults_in_parts_are_refused(number, part, wrong):
    entry = equation(number)
    assert not replace(entry, typed=lambda: entry.statement | {part: wrong}).holds()


# The definitions (21), (22), (58), (81), (82) are what the lines that use them need

HELD = {
    ("21", "map", "unlearned"): ("23", "56"),
    ("21", "active query", "threefold"): ("C2",),
    ("21", "active key", "threefold"): ("C2",),
    ("21", "waiting head", "unlearned"): ("C3",),
    ("22", "", "one more"): ("55",),
    ("58", "a", "unlearned"): ("C2",),
    ("58", "b", "unlearned"): ("C2",),
    ("81", "map", "threefold"): ("83", "T1"),
    ("81", "active query", "threefold"): ("T2a",),
    ("81", "active key", "threefold"): ("T2a",),
    ("81", "waiting head", "unlearned"): ("84",),
    ("82", "", "one more"): ("83",),
}
FAULTS = {
    "unlearned": lambda side: side.xreplace({P: Identity(D) - P}),
    "threefold": lambda side: 3 * side,
    "one more": lambda side: side + 1,
}


@pytest.mark.parametrize("fault", HELD, ids=" ".join)
def test_a_fault_in_a_definition_fails_the_lines_that_use_it(fault, monkeypatch):
    number, part, name = fault
    entry = equation(number)
    changed = dict(entry.parts) | {part: FAULTS[name](entry.parts[part])}
    lines = [line for user in HELD[fault] for line in equation(user).lines if number in line.uses]
    assert all(line.verify() for line in lines)
    monkeypatch.setitem(entries, number, replace(entry, typed=lambda: changed if part else changed[""]))
    failing = [line for line in lines if not line.verify()]
    assert failing
    assert len({line.reason for line in failing}) >= len(HELD[fault])


# Members of M(S), entry by entry in exact arithmetic: D = 4, S = {1, 2}


def velocities(heads):
    """(19), (80) in the eigenbasis, for heads (v, K, Q) with explicit matrices."""
    covariance, second = diag(*EIGENVALUES), diag(*moments(EIGENVALUES, CONTEXT))
    made = sum((v * K * Q.T for v, K, Q in heads), zeros(4, 4))
    G = covariance**2 - second * made * covariance
    return [((K.T * G * Q).trace(), v * G * Q, v * G.T * K) for v, K, Q in heads]


def still(heads):
    return all(rate == 0 for velocity in velocities(heads) for part in velocity for rate in Matrix([part]))


def active(*slots):
    """Rank-R heads of value 2; each slot is (direction, weight of the key), the query completing lambda / a."""
    levels = [value / second for value, second in zip(EIGENVALUES, moments(EIGENVALUES, CONTEXT), strict=True)]
    K = Matrix.hstack(*(weight * eye(4)[:, d] for d, weight in slots))
    Q = Matrix.hstack(*(levels[d] / (2 * weight) * eye(4)[:, d] for d, weight in slots))
    return (2, K, Q)


def column(*numbers):
    return Matrix(numbers)


IDLE = {
    "zero": (0, zeros(4, 1), zeros(4, 1)),
    "key in the span": (0, column(1, 2, 0, 0), column(3, 1, 4, 1)),
    "neither in the span, apart": (0, column(0, 0, Rational(17, 10), 0), column(0, 0, 0, -Rational(8, 10))),
    "neither in the span, cancelling": (0, column(0, 0, 1, 2), column(0, 0, 2 * EIGENVALUES[3] ** 2, -(EIGENVALUES[2] ** 2))),
}


@pytest.mark.parametrize("idle", IDLE.values(), ids=IDLE)
def test_members_stand_still(idle):
    assert still([active((0, 3)), active((1, -2)), idle])
    two_slots = (0, Matrix.hstack(idle[1], zeros(4, 1)), Matrix.hstack(idle[2], zeros(4, 1)))
    assert still([active((0, 3), (1, -2)), two_slots])


def test_rank_two_members_may_cancel_across_slots():
    K, Q = zeros(4, 2), zeros(4, 2)
    K[2, 0] = Q[2, 0] = K[2, 1] = 1
    Q[2, 1] = -1
    assert still([active((0, 3), (1, -2)), (0, K, Q)])
    assert not still([active((0, 3), (1, -2)), (0, K[:, :1], Q[:, :1])])


@pytest.mark.parametrize("outside", [(0, 1), (1, 0), (1, 1)])
def test_an_active_head_must_lie_in_the_span(outside):
    """Two heads whose parts outside the span cancel in the effective map: (C1) holds, (C2) does not."""
    k, q = (column(0, 0, 5, 0) * outside[0], column(0, 0, 0, 1) * outside[1])
    extra = [(1, k + eye(4)[:, 0], q + eye(4)[:, 1]), (-1, k + eye(4)[:, 0], q + eye(4)[:, 1])]
    heads = [active((0, 3)), active((1, -2))]
    assert still(heads)
    assert not still(heads + extra)


def test_an_idle_head_must_satisfy_condition_c3():
    assert not still([active((0, 3)), active((1, -2)), (0, column(0, 0, 1, 0), column(1, 0, 1, 0))])


def test_the_wrong_level_is_not_a_fixed_point():
    v, K, Q = active((0, 3))
    assert not still([(v, K, 2 * Q)])


# Completeness


def equations_of_the_map(eigenvalues, context):
    """B' G = 0 and G B' = 0 for an explicit D = 2, with an unknown map."""
    unknowns = symbols("b_11 b_12 b_21 b_22")
    B_explicit = Matrix(2, 2, unknowns)
    second = diag(*moments(eigenvalues, context))
    G = explicit(force(), {Lambda: diag(*eigenvalues), M: second, B: B_explicit}, D=2)
    return unknowns, [entry.expand() for entry in [*(B_explicit.T * G), *(G * B_explicit.T)]]


def test_groebner_finds_the_four_maps_and_no_others():
    eigenvalues = (Rational(1, 2), Rational(1, 3))
    unknowns, conditions = equations_of_the_map(eigenvalues, 3)
    basis = groebner(conditions, *unknowns, order="lex")
    assert basis.is_zero_dimensional
    b_11, b_12, b_21, b_22 = unknowns
    levels = [value / second for value, second in zip(eigenvalues, moments(eigenvalues, 3), strict=True)]
    for member in (b_12, b_21, b_11 * (b_11 - levels[0]), b_22 * (b_22 - levels[1])):
        assert basis.contains(member)  # so every solution is one of four
    for choice in product(*[(0, level) for level in levels]):
        point = {b_11: choice[0], b_12: 0, b_21: 0, b_22: choice[1]}
        assert all(condition.subs(point) == 0 for condition in conditions)


def test_equal_eigenvalues_leave_a_continuum_of_projectors():
    eigenvalues = (Rational(1, 2), Rational(1, 2))
    unknowns, conditions = equations_of_the_map(eigenvalues, 3)
    assert not groebner(conditions, *unknowns, order="grevlex").is_zero_dimensional
    level = eigenvalues[0] / moments(eigenvalues, 3)[0]
    direction = Matrix([3, 4]) / 5
    projector = level * direction * direction.T
    assert all(condition.subs(dict(zip(unknowns, projector, strict=True))) == 0 for condition in conditions)
    oblique = level * Matrix([1, 0]) * Matrix([[1, 1]])
    assert not all(condition.subs(dict(zip(unknowns, oblique, strict=True))) == 0 for condition in conditions)


def test_a_symmetric_matrix_that_is_its_own_square_satisfies_both_conditions_and_nothing_less_does():
    left, right = eigenspace_conditions()
    for projector in (Identity(D), 0 * Identity(D)):
        assert not substitute(left, {Pi: projector})
        assert not substitute(right, {Pi: projector})
    assert substitute(left, {Pi: 2 * Identity(D)})


def test_the_determinant_has_the_sign_of_the_difference_of_the_eigenvalues():
    gap, slope = (equation("T1c").derive().result[part] for part in ("gap", "slope"))
    assert gap.subs(lambda_i, lambda_j) == 0
    quotient = cancel(gap / (lambda_i - lambda_j))
    for ratio in (quotient, slope):
        numerator, denominator = ratio.as_numer_denom()
        for polynomial in (numerator.expand(), denominator.expand()):
            assert all(term.as_coeff_Mul()[0] > 0 for term in polynomial.as_ordered_terms())


@pytest.mark.parametrize(("slots", "expected"), [(1, 5), (2, 11), (3, 15)])
def test_the_count_with_few_slots(slots, expected):
    few = equation("T1e").derive().result["few slots"]
    assert few.subs({D: 4, H: slots, R: 1}).doit() == expected


# Losses


def test_the_levels_of_the_papers_figure():
    drops = [float(equation("24").derive().result["drop"].subs({eigenvalue[m]: value, T: 1, N: CONTEXT})) for value in EIGENVALUES]
    assert drops == pytest.approx([0.359, 0.263, 0.168, 0.074], abs=5e-4)
    assert 1 - sum(drops) == pytest.approx(0.1360, abs=5e-5)


def test_the_loss_of_every_set_entry_by_entry():
    second = moments(EIGENVALUES, CONTEXT)
    typed = equation("59").statement["loss"].subs({D: 4, N: CONTEXT, T: 1}).doit()
    for subset in product((0, 1), repeat=4):
        made = diag(*(on * value / level for on, value, level in zip(subset, EIGENVALUES, second, strict=True)))
        whole = explicit(closed_loss().result, {Lambda: diag(*EIGENVALUES), M: diag(*second), B: made}, D=4)
        values = {eigenvalue[i + 1]: EIGENVALUES[i] for i in range(4)} | {indicator[i + 1]: subset[i] for i in range(4)}
        assert typed.subs(values) - whole == 0


def test_a_learned_direction_costs_nothing_in_a_long_context():
    share = loss_along().subs(learned, 1).subs(a, PAPER.eigenvalue)
    assert limit(share, N, oo) == 0
    assert fixed_map_along().subs(a, limit(PAPER.eigenvalue, N, oo)) == 1 / lambda_


def test_the_two_orders_of_the_square_differ_as_computed_by_hand():
    """At D = N = 2, Gamma = diag(A_1, A_2): by -1/2 lambda_1 lambda_2 (A_1^2 - A_2^2) (lambda_1 - lambda_2)."""
    A_1, A_2, l_1, l_2 = symbols("A_1 A_2 l_1 l_2")
    gap = explicit(equation("60").derive().result["other order"], {Gamma: diag(A_1, A_2), Lambda: diag(l_1, l_2)}, D=2)
    by_hand = -l_1 * l_2 * (A_1**2 - A_2**2) * (l_1 - l_2) / 2
    assert (gap.subs(N, 2) - by_hand).expand() == 0


def test_random_roots_have_one_of_the_listed_maps():
    """Newton's method on the gradient of a rank-two model, from random weights: what it converges to has a map of the list (T1)."""
    rng = np.random.default_rng(5)
    eigenvalues = np.array([0.6, 0.3, 0.1])
    second = eigenvalues**2 + (eigenvalues**2 + eigenvalues.sum() * eigenvalues) / 3

    def gradient(weights):
        v, K, Q = weights[0], weights[1:7].reshape(3, 2), weights[7:].reshape(3, 2)
        G = np.diag(eigenvalues**2) - np.diag(second) @ (v * K @ Q.T) @ np.diag(eigenvalues)
        return np.concatenate([[np.sum(K * (G @ Q))], (v * G @ Q).ravel(), (v * G.T @ K).ravel()])

    found = set()
    for _ in range(30):
        weights = 2 * rng.standard_normal(13)
        for _ in range(200):
            step = 1e-6
            jacobian = np.stack([(gradient(weights + step * e) - gradient(weights - step * e)) / (2 * step) for e in np.eye(13)], 1)
            change = np.linalg.lstsq(jacobian, -gradient(weights), rcond=1e-9)[0]
            weights = weights + change * min(1, 1 / np.linalg.norm(change))
            if np.abs(gradient(weights)).max() < 1e-12:
                break
        else:
            continue
        made = weights[0] * weights[1:7].reshape(3, 2) @ weights[7:].reshape(3, 2).T
        scaled = (second / eigenvalues)[:, None] * made
        assert np.abs(scaled - np.diag(np.round(np.diag(scaled)))).max() < 1e-5
        subset = np.round(np.diag(scaled))
        assert set(subset) <= {0.0, 1.0}
        assert subset.sum() <= 2
        found.add(tuple(subset))
    assert len(found) >= 4


@pytest.mark.parametrize("size", [1, 2, 3])
def test_maps_at_rest_make_both_products_zero(size):
    """Whatever the moments are; the roots of one loss have different ranks."""
    with mp.workdps(DIGITS), ctx.workdps(DIGITS + 3):
        point, ranks = Point.random(size, (), sizes={D: size}), set()
        A, M_, Q = value_at((P, M, Lambda), point)
        for _ in range(20):
            map_ = as_mpmath(map_at_rest(point, A, M_, Q))
            force_ = A - M_ * map_ * Q
            assert norm(map_.T * force_) < 1e-20
            assert norm(force_ * map_.T) < 1e-20
            ranks.add(int(np.linalg.matrix_rank(np.array(map_.tolist(), dtype=float), tol=1e-9)))
        assert len(ranks) > 1
