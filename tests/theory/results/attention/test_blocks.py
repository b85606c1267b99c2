"""From the blocks to (7), (29), (M), (S), (87), against the product of whole matrices at random integers."""

from dataclasses import replace

import numpy as np
import pytest
from iclflow.theory.derivations.book import entries
from iclflow.theory.derivations.matrix_forms import Vec
from iclflow.theory.equations import equation
from iclflow.theory.notation import K_i, Lambda_hat, N as CONTEXT_LENGTH, Q_i, beta, v_i, w, x_q, y_q
from iclflow.theory.results.attention.blocks import U_i, expansion, merged_expansion, u_i, value_row
from iclflow.theory.results.attention.reduced import kappa_i, separate_expansion
from iclflow.theory.results.task.regression import X, X_c, y
from quadrature import numbers

SIZE, CONTEXT, RANK = 3, 4, 2


@pytest.fixture
def draw():
    rng = np.random.default_rng(4)
    return lambda *shape: rng.integers(-4, 5, size=shape).astype(float)


def whole_attention(prompt, value, key_query, context):
    """The corner of X + W^V X X' W^KQ X / N, on whole matrices."""
    return (prompt + value @ prompt @ prompt.T @ key_query @ prompt / context)[-1, -1]


def sequence(draw, corner=0.0):
    tokens, query, task = draw(SIZE, CONTEXT), draw(SIZE), draw(SIZE)
    targets = tokens.T @ task
    prompt = np.block([[tokens, query[:, None]], [targets[None], np.array([[corner]])]])
    known = {
        X_c: tokens,
        y: targets,
        x_q: query,
        w: task,
        Lambda_hat: tokens @ tokens.T / CONTEXT,
        beta: tokens @ targets / CONTEXT,
        y_q: [[corner]],
    }
    return prompt, known


def test_merged_head_with_all_blocks_is_the_product_of_whole_matrices(draw):
    prompt, known = sequence(draw)
    value, key_query = draw(SIZE + 1, SIZE + 1), draw(SIZE + 1, SIZE + 1)
    known |= {value_row: value[-1, :-1], v_i: value[-1, -1], U_i: key_query[:-1, :-1], u_i: key_query[-1, :-1]}
    full = whole_attention(prompt, value, key_query, CONTEXT)
    assert abs(full) > 1
    for formula in (equation("7").statement, expansion(), merged_expansion(), equation("87").statement, equation("C.1").statement):
        assert numbers(formula, known, np.eye(SIZE), CONTEXT) == pytest.approx(full, rel=1e-12)


def test_query_token_enters_through_the_vector_block_only(draw):
    prompt, known = sequence(draw)
    value, key_query = draw(SIZE + 1, SIZE + 1), draw(SIZE + 1, SIZE + 1)
    without = prompt.copy()
    without[:, -1] = 0

    def attended(row):
        value[-1, :-1] = row
        return (value @ (prompt @ prompt.T - without @ without.T) @ key_query @ prompt)[-1, -1]

    assert attended(np.zeros(SIZE)) == 0
    assert attended(draw(SIZE)) != 0
    assert known[x_q].any()


def test_separate_head_of_rank_two_with_all_blocks(draw):
    prompt, known = sequence(draw)
    value, key, query = draw(SIZE + 1, SIZE + 1), draw(RANK, SIZE + 1), draw(RANK, SIZE + 1)
    known |= {value_row: value[-1, :-1], v_i: value[-1, -1], K_i: key[:, :-1].T, Q_i: query[:, :-1].T, kappa_i: key[:, -1]}
    full = whole_attention(prompt, value, key.T @ query, CONTEXT)
    for formula in (separate_expansion(), equation("E.1").statement["y"]):
        assert numbers(formula, known, np.eye(SIZE), CONTEXT) == pytest.approx(full, rel=1e-12)
    value[-1, :-1], key[:, -1] = 0, 0
    reduced = whole_attention(prompt, value, key.T @ query, CONTEXT)
    assert numbers(equation("S").statement["matrix"], known, np.eye(SIZE), CONTEXT) == pytest.approx(reduced, rel=1e-12)
    by_slots = sum(value[-1, -1] * (known[beta] @ key[r, :-1]) * (query[r, :-1] @ known[x_q]) for r in range(RANK))
    assert by_slots == pytest.approx(reduced, rel=1e-12)


def test_gram_matrix_of_the_prompt(draw):
    prompt, known = sequence(draw)
    whole = prompt @ prompt.T / CONTEXT
    parts = {part: numbers(value, known, np.eye(SIZE), CONTEXT) for part, value in equation("29").statement.items()}
    assert np.allclose(whole[:-1, :-1], parts["tokens"], rtol=1e-12)
    assert np.allclose(whole[:-1, -1:], parts["cross"], rtol=1e-12)
    assert whole[-1, -1] == pytest.approx(parts["targets"], rel=1e-12)


def test_unmasked_target_leaks(draw):
    prompt, known = sequence(draw, corner=2.5)
    value, key_query = np.zeros((SIZE + 1, SIZE + 1)), np.zeros((SIZE + 1, SIZE + 1))
    value[-1, -1], key_query[:-1, :-1] = 1.5, draw(SIZE, SIZE)
    known |= {v_i: 1.5, U_i: key_query[:-1, :-1]}
    added = whole_attention(prompt, value, key_query, CONTEXT) - prompt[-1, -1]
    assert numbers(equation("1-mask").statement, known, np.eye(SIZE), CONTEXT) == pytest.approx(added, rel=1e-12)
    assert numbers(equation("M").statement, known, np.eye(SIZE), CONTEXT) != pytest.approx(added, rel=1e-3)


@pytest.mark.parametrize(
    ("number", "change", "held_by"),
    [
        ("1", lambda typed: 2 * typed, "7"),
        ("4", lambda typed: {**typed, "context": 2 * typed["context"]}, "29"),
        ("5", lambda typed: X + (typed - X) * CONTEXT_LENGTH / (CONTEXT_LENGTH + 1), "5-softmax"),
        ("5-linear", lambda typed: X + (typed - X) * CONTEXT_LENGTH / (CONTEXT_LENGTH + 1), "7"),
        ("6", lambda typed: -typed, "7"),
        ("8", lambda typed: typed * CONTEXT_LENGTH / (CONTEXT_LENGTH + 1), "87"),
        ("28", lambda typed: typed * CONTEXT_LENGTH / (CONTEXT_LENGTH + 1), "29"),
        ("12", lambda typed: {**typed, "z": Vec(x_q * beta.T)}, "11"),
        ("12", lambda typed: {**typed, "W": -typed["W"]}, "11"),
    ],
)
def test_a_changed_definition_breaks_a_line(number, change, held_by, monkeypatch):
    assert all(line.verify() for line in equation(held_by).lines)
    entry = equation(number)
    monkeypatch.setitem(entries, number, replace(entry, typed=lambda: change(entry.statement)))
    assert not all(line.verify() for line in equation(held_by).lines)
