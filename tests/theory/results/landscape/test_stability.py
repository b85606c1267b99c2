"""The Hessian at the fixed points: the index theorem on random members, against numerical Hessians; saddles, escape times, levels."""

from dataclasses import replace
from itertools import combinations

import mpmath
import numpy as np
import pytest
from iclflow.theory import derivative, substitute
from iclflow.theory.equations import equation
from iclflow.theory.notation import D, H, Lambda, R, a, gamma, lambda_, tau, v as head_value, w_init
from iclflow.theory.results.landscape.index_theorem import (
    Lambda_S,
    V,
    a_d,
    a_j,
    core_form,
    direction_form,
    empty,
    eta,
    eta_0,
    inversions,
    lambda_d,
    lambda_j,
    m,
    n,
    pair_block,
    x,
    xi,
    xi_0,
    y,
)
from iclflow.theory.results.landscape.saddles import end, epsilon
from iclflow.theory.results.landscape.stability import c, delta_v, value
from iclflow.theory.results.separate.rank_plateaus import duration_of_brief_plateau
from sympy import Rational, Trace, factor, ln, log, symbols

NUMBERS = ("T2a", "T2b", "T2c", "T2d", "T2e", "T2f", "T2g", "T2h", "T2i", "T2j", "T3")


@pytest.mark.parametrize("number", NUMBERS)
def test_it_holds(number):
    assert equation(number).holds()


@pytest.mark.parametrize(
    ("number", "part", "wrong"),
    [
        ("T2b", "one direction", direction_form() + xi.T * V * eta),
        ("T2c", "", core_form() - xi_0.T * V * eta_0),
        ("T2c", "", core_form() + x.T * Lambda_S * y),
        ("T2d", "determinant", a_d * a_j**2 * lambda_d / lambda_j**2 * (lambda_j**2 / a_j - lambda_d**2 / a_d)),
        ("T2e", "", (n - m) * (D - m)),
        ("T2g", "eigenvalue", -value * lambda_),
        ("T2h", "merged", Trace(Lambda) / 2),
        ("T2i", "separate", tau / lambda_**2 * ln(end / w_init)),
        ("T2i", "merged", tau / gamma * (1 / w_init - 1 / end)),
        ("T3", "index", empty * (D - R * H)),
        ("T3", "index", empty * (D - H + empty)),
    ],
)
def test_planted_faults_are_refused(number, part, wrong):
    entry = equation(number)
    assert not replace(entry, typed=lambda: dict(entry.parts) | {part: wrong} if part else wrong).holds()


# Random members of M(S), in the eigenbasis, with the Hessian of F from differences of an independent gradient

EIGENVALUES = np.array([0.4, 0.3, 0.2, 0.1])
SECOND = EIGENVALUES**2 + (EIGENVALUES**2 + EIGENVALUES.sum() * EIGENVALUES) / 7


def gradient(weights, heads, rank):
    v, K, Q = np.split(weights, [heads, heads + heads * 4 * rank])
    K, Q = K.reshape(heads, 4, rank), Q.reshape(heads, 4, rank)
    made = np.einsum("h,hir,hjr->ij", v, K, Q)
    G = np.diag(EIGENVALUES**2) - SECOND[:, None] * made * EIGENVALUES
    parts = (np.einsum("hir,ij,hjr->h", K, G, Q), np.einsum("h,ij,hjr->hir", v, G, Q), np.einsum("h,ji,hjr->hir", v, G, K))
    return -np.concatenate([part.ravel() for part in parts])


def hessian(weights, heads, rank, step=1e-5):
    columns = [
        (gradient(weights + step * e, heads, rank) - gradient(weights - step * e, heads, rank)) / (2 * step) for e in np.eye(weights.size)
    ]
    return np.stack(columns, 1)


def member(learned, heads, active, rank, rng):
    """A random member of M(S) with the given number of active heads; idle heads have random keys and queries in the span."""
    slots = active * rank
    levels = np.diag((EIGENVALUES / SECOND)[list(learned)])
    v = rng.choice([-1, 1], active) * rng.uniform(0.5, 1.5, active)
    kappa = rng.standard_normal((len(learned), slots))
    weighted = kappa * np.repeat(v, rank)
    inverse = np.linalg.pinv(weighted)
    theta = (inverse @ levels + (np.eye(slots) - inverse @ weighted) @ rng.standard_normal((slots, len(learned)))).T
    K, Q = np.zeros((heads, 4, rank)), np.zeros((heads, 4, rank))
    for row, d in enumerate(learned):
        K[:active, d], Q[:active, d] = kappa[row].reshape(active, rank), theta[row].reshape(active, rank)
        K[active:, d], Q[active:, d] = rng.standard_normal((2, heads - active, rank))
    return np.concatenate([v, np.zeros(heads - active), K.ravel(), Q.ravel()])


def negative(weights, heads, rank):
    values = np.linalg.eigvalsh(hessian(weights, heads, rank))
    assert not np.any((np.abs(values) > 1e-7) & (np.abs(values) < 1e-5)), "no eigenvalue may be near the tolerance"
    return int(np.sum(values < -1e-6))


CASES = [(rank, size) for rank in (1, 2, 3) for size in (0, 1, 2, 3, 4)]


@pytest.mark.parametrize(("rank", "size"), CASES)
def test_the_index_of_random_members(rank, size):
    rng = np.random.default_rng(10 * rank + size)
    formula = equation("T2e").statement
    for learned in combinations(range(4), size):
        least = -(-size // rank)
        active = least + int(rng.integers(0, 2))
        heads = active + 1
        weights = member(learned, heads, active, rank, rng)
        assert np.abs(gradient(weights, heads, rank)).max() < 1e-12
        expected = formula.subs({n: active * rank, m: size, D: 4}).doit()
        rest = [d for d in range(4) if d not in learned]
        counts = {inversions[i + 1]: sum(EIGENVALUES[j] < EIGENVALUES[d] for j in learned) for i, d in enumerate(rest)}
        assert negative(weights, heads, rank) == expected.subs(counts)


def test_an_idle_head_out_of_the_span_adds_a_negative_direction():
    rng = np.random.default_rng(3)
    weights = member((0, 1), 3, 2, 1, rng)
    assert negative(weights, 3, 1) == 0
    K, Q = weights[3:15].reshape(3, 4), weights[15:].reshape(3, 4)
    K[2], Q[2] = [0.3, 0, 1.7, 0], [0, 0.2, 0, -0.8]  # different directions, so that (84) holds
    assert np.abs(gradient(weights, 3, 1)).max() < 1e-12
    assert negative(weights, 3, 1) >= 1


def test_the_formula_for_an_idle_head_is_negative_for_large_c():
    form = equation("T2f").derive().result
    assert derivative(derivative(form, {c: 1}), {delta_v: 1}) != 0
    assert not substitute(form, {delta_v: 0})


def test_the_origin_has_a_zero_hessian_and_merged_attention_has_not():
    assert np.abs(hessian(np.zeros(2 + 2 * 4 * 2 * 2), 2, 2)).max() < 1e-9
    scaled = equation("T2h").derive().result
    second = {part: substitute(derivative(derivative(form, {epsilon: 1}), {epsilon: 1}), {epsilon: 0}) for part, form in scaled.items()}
    assert not second["separate"]
    assert not second["plateau"]
    assert second["merged"]


def test_zero_maps_with_a_value_weight():
    weights = np.zeros(1 + 2 * 4)
    weights[0] = -1.5
    values = np.linalg.eigvalsh(hessian(weights, 1, 1))
    expected = [float(equation("T2g").statement["eigenvalue"].subs({value: 1.5, lambda_: level})) for level in EIGENVALUES]
    assert np.sort(values)[:4] == pytest.approx(sorted(expected), abs=1e-8)


def test_the_pair_has_one_negative_eigenvalue_exactly_when_the_unlearned_is_larger():
    for j, d in combinations(range(4), 2):
        for learned, other in ((j, d), (d, j)):
            numbers = {lambda_j: EIGENVALUES[learned], a_j: SECOND[learned], lambda_d: EIGENVALUES[other], a_d: SECOND[other]}
            values = np.linalg.eigvalsh(np.array(pair_block().subs(numbers), dtype=float))
            assert int(np.sum(values < 0)) == (EIGENVALUES[other] > EIGENVALUES[learned])


@pytest.mark.parametrize("rank", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_only_levels_that_the_rank_divides_can_be_without_a_negative_direction(rank, size):
    index = equation("T3").statement["index"].subs({R: rank, D: 4})
    least = min(index.subs({H: heads, empty: heads * rank - size}) for heads in range(1, 6) if heads * rank >= size)
    by_enumeration = min((heads * rank - size) * (4 - size) for heads in range(1, 6) if heads * rank >= size)
    assert least == by_enumeration
    assert (least == 0) == (size % rank == 0 or size == 4)


def test_the_rate_within_a_head_is_that_of_the_brief_plateau():
    """The last part of the brief plateau: ln(1/w_init) over the rate, for an amplitude that starts at w_init."""
    rate = equation("T3").derive().result["rate"].subs(value, head_value)
    before, after = symbols("lambda_m lambda_{m+1}", positive=True)
    slope = duration_of_brief_plateau().result / -log(w_init)
    alone = factor(1 / rate.subs(lambda_, after))
    assert (slope - alone * (1 - after**2 / before**2)).simplify() == 0


def test_the_escape_time_with_its_correction_converges_at_the_next_order():
    numbers = {lambda_: Rational(2, 5), a: Rational(1, 4), tau: 1, w_init: Rational(1, 1000)}
    statement = equation("T2i").statement
    total = statement["separate"] + statement["separate, next order"]
    errors = []
    for target in (Rational(1, 5), Rational(1, 10)):
        exact = mpmath.quad(lambda u: 1 / (mpmath.mpf(4) / 25 * u**2 - mpmath.mpf(1) / 10 * u**5), [mpmath.mpf(1) / 1000, 0.01, target])
        errors.append(abs(exact - mpmath.mpf(str(total.subs(numbers | {end: target}).evalf(30)))))
    assert 4.6 < mpmath.log(errors[0] / errors[1], 2) < 5.4
