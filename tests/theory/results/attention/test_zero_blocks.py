"""The zero-block lemmas and T4 against quadrature over all sequences, D = 2, N = 1: exact for these polynomials, without the engine."""

from dataclasses import replace

import numpy as np
import pytest
from iclflow.theory.calculus.entrywise import explicit
from iclflow.theory.equations import equation
from iclflow.theory.notation import B, B_rest, D, H, Lambda, M, N, v_i
from iclflow.theory.results.attention.blocks import U_i, u_i, value_row
from iclflow.theory.results.attention.zero_block_loss import U_j, row_j, u_j, v_j
from quadrature import Sequences, head, numbers
from sympy import MatrixSymbol, hessian
from sympy.matrices.expressions.matexpr import MatrixElement

COVARIANCE = np.array([[0.9, 0.3], [0.3, 0.5]])
ROUNDOFF = {"rel": 1e-11, "abs": 1e-11}


@pytest.fixture(scope="module")
def sequences():
    """One token in context. Degree 6 in the query, 4 in the token and in w: four nodes suffice."""
    return Sequences.of(COVARIANCE, 1, nodes=4)


@pytest.fixture
def heads():
    """Two heads with all blocks: (row, v, U, u) each."""
    rng = np.random.default_rng(8)
    return [(rng.normal(size=2), rng.normal(), rng.normal(size=(2, 2)), rng.normal(size=2)) for _ in range(2)]


def first_head(one):
    return dict(zip((value_row, v_i, U_i, u_i), one, strict=True))


def second_head(one):
    return dict(zip((row_j, v_j, U_j, u_j), one, strict=True))


def second_moment(context):
    return COVARIANCE @ COVARIANCE + (COVARIANCE + np.trace(COVARIANCE) * np.eye(2)) @ COVARIANCE / context


def slopes(sequences, heads, which):
    """Minus half the gradient of the loss in the row and u of one head, by the chain rule on every sequence."""
    error = sequences.y_q - sum(head(sequences, *one) for one in heads)
    row, v, U, u = heads[which]
    context = sequences.tokens.shape[1]
    gram = sequences.Lambda_hat + np.einsum("pi,pj->pij", sequences.x_q, sequences.x_q) / context
    by_row = np.einsum("pij,jk,pk->pi", gram, U, sequences.x_q) + sequences.beta * (sequences.x_q @ u)[:, None]
    square = np.einsum("pi,pi->p", sequences.w, sequences.beta)
    by_u = (sequences.beta @ row + v * square)[:, None] * sequences.x_q
    return sequences.mean(error[:, None] * by_row), sequences.mean(error[:, None] * by_u)


def test_blocks_do_not_move_where_they_are_zero_in_all_heads(sequences, heads):
    reduced = [(np.zeros(2), v, U, np.zeros(2)) for _, v, U, _ in heads]
    for which in (0, 1):
        for slope in slopes(sequences, reduced, which):
            assert slope == pytest.approx(np.zeros(2), abs=1e-12)


def test_one_nonzero_block_moves_the_zero_block_of_the_other_head(sequences, heads):
    first, second = heads
    one_block = [(np.zeros(2), first[1], first[2], first[3]), (np.zeros(2), second[1], second[2], np.zeros(2))]
    moved, _ = slopes(sequences, one_block, 1)
    known = {**first_head(first), **second_head(second)}
    predicted = numbers(equation("39-joint").statement, known, COVARIANCE, 1)
    assert np.abs(predicted).max() > 0.1
    assert moved == pytest.approx(predicted.ravel(), **ROUNDOFF)


def test_loss_splits_into_reduced_and_even_part(sequences, heads):
    output = sum(head(sequences, *one) for one in heads)
    opposite = sum(head(replace(sequences, w=-sequences.w), *one) for one in heads)
    even = (output + opposite) / 2
    full = sequences.mean((sequences.y_q - output) ** 2)
    effective = sum(v * U + np.outer(row, u) for row, v, U, u in heads)
    reduced = numbers(equation("9-closed").statement, {B: effective, M: second_moment(1)}, COVARIANCE, 1)
    assert full - reduced == pytest.approx(sequences.mean(even**2), **ROUNDOFF)
    first, second = heads
    others = second[1] * second[2] + np.outer(second[0], second[3])  # the second head enters (T4) by its odd map
    typed = equation("T4").statement["loss"]
    assert numbers(typed, {**first_head(first), B_rest: others, M: second_moment(1)}, COVARIANCE, 1) == pytest.approx(reduced, **ROUNDOFF)


def test_even_parts_of_two_heads(sequences, heads):
    parts = [(head(sequences, *one) + head(replace(sequences, w=-sequences.w), *one)) / 2 for one in heads]
    predicted = numbers(equation("T4-even").statement, {**first_head(heads[0]), **second_head(heads[1])}, COVARIANCE, 1)
    assert sequences.mean(parts[0] * parts[1]) == pytest.approx(predicted, **ROUNDOFF)


def test_transverse_form_is_the_second_difference_of_half_the_loss(sequences, heads):
    row, v, U, u = heads[0]

    def half_loss(scale):
        return sequences.mean((sequences.y_q - head(sequences, scale * row, v, U, scale * u)) ** 2) / 2

    # a polynomial of degree four in the scale: three symmetric points give its even coefficients
    even_1, even_2 = (half_loss(h) + half_loss(-h) - 2 * half_loss(0) for h in (1.0, 2.0))
    second = (16 * even_1 - even_2) / 24
    opposite = replace(sequences, w=-sequences.w)
    even = (head(sequences, row, v, U, u) + head(opposite, row, v, U, u)) / 2
    known = {**first_head(heads[0]), B_rest: np.zeros((2, 2)), M: second_moment(1)}
    predicted = numbers(equation("T4-form").statement["second"], known, COVARIANCE, 1) + sequences.mean(even**2) / 2
    assert second == pytest.approx(predicted, rel=1e-9)


def test_mirror_sector_is_invariant_and_moves_as_stated(sequences, heads):
    mirror = [(row, 0.0, np.zeros((2, 2)), u) for row, _, _, u in heads]
    error = sequences.y_q - sum(head(sequences, *one) for one in mirror)
    row, _, _, u = mirror[0]
    square = np.einsum("pi,pi->p", sequences.w, sequences.beta)
    by_v = sequences.mean(error * square * (sequences.x_q @ u))
    gram = sequences.Lambda_hat + np.einsum("pi,pj->pij", sequences.x_q, sequences.x_q)
    by_U = sequences.mean(error[:, None, None] * np.einsum("pij,i,pk->pjk", gram, row, sequences.x_q))
    assert by_v == pytest.approx(0, abs=1e-12)
    assert by_U == pytest.approx(np.zeros((2, 2)), abs=1e-12)
    effective = sum(np.outer(row, u) for row, _, _, u in mirror)
    by_row, by_u = slopes(sequences, mirror, 0)
    known = {**first_head(mirror[0]), B: effective, M: second_moment(1)}
    assert by_row == pytest.approx(numbers(equation("T4-mirror").statement["row"], known, COVARIANCE, 1).ravel(), **ROUNDOFF)
    assert by_u == pytest.approx(numbers(equation("T4-mirror").statement["u"], known, COVARIANCE, 1).ravel(), **ROUNDOFF)


def test_index_of_the_origin_with_all_blocks(sequences):
    """The Hessian of half the loss of one head by exact second differences of its quadratic order, D = 2."""
    form = explicit(equation("T4-index").statement["form"], {Lambda: COVARIANCE}, D=2)
    weights = sorted(form.free_symbols | form.atoms(MatrixElement), key=str)
    weights = [weight for weight in weights if not isinstance(weight, MatrixSymbol)]
    spectrum = np.linalg.eigvalsh(np.array(hessian(form, weights), dtype=float))
    assert len(weights) == 1 + 4 + 2 + 2
    assert (spectrum < -1e-9).sum() == equation("T4-index").statement["index"].subs({H: 1, D: 2}) == 3
    rng = np.random.default_rng(1)
    row, v, U, u = rng.normal(size=2), rng.normal(), rng.normal(size=(2, 2)), rng.normal(size=2)

    def half_loss(scale):
        return sequences.mean((sequences.y_q - head(sequences, scale * row, scale * v, scale * U, scale * u)) ** 2) / 2

    small = (half_loss(1e-3) - half_loss(0)) / 1e-6  # the next order is 1e-6 of it
    typed = numbers(equation("T4-index").statement["form"], first_head((row, v, U, u)), COVARIANCE, 1)
    assert small == pytest.approx(typed, rel=1e-4)


@pytest.mark.parametrize(
    ("number", "part", "planted"),
    [
        ("39", "sequence", lambda typed: typed.subs(N, N + 1)),  # the query token over N + 1
        ("39-joint", "", lambda typed: 0 * typed),  # head j at rest, as reading (39) head by head would have it
        ("T4-form", "second", lambda typed: 2 * typed),
        ("T4-growth", "row twice", lambda typed: Lambda**2 * value_row),
        ("T4-mirror", "u", lambda typed: (Lambda**2 - Lambda * B * M) * value_row),  # without the transpose
        ("T4-leak", "", lambda typed: typed**2),
    ],
)
def test_wrong_statements_are_refused(number, part, planted):
    entry = equation(number)
    assert entry.holds()
    wrong = {**entry.parts, part: planted(entry.parts[part])}
    assert not replace(entry, typed=lambda: wrong if part else wrong[""]).holds()
