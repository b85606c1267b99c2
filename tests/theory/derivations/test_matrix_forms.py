"""Block matrices, vec, Kronecker products and sums over heads on the sides of lines: true lines hold, changed ones fail."""

from dataclasses import replace

import mpmath
import pytest
from iclflow.theory.calculus.rewriting import multiplied_out
from iclflow.theory.derivations.derivation import Derivation
from iclflow.theory.derivations.lines import Line
from iclflow.theory.derivations.matrix_forms import ColumnSoftmax, SumOverHeads, Vec
from iclflow.theory.derivations.points import Point, value_at
from iclflow.theory.notation import B, D, H, Lambda, M, N, R, beta, matrix, v_i, w, x_q
from iclflow.theory.typesetting.latex import formula_latex, formula_text
from sympy import BlockMatrix, Identity, MatAdd, Symbol, Trace, ZeroMatrix, sqrt
from sympy.matrices.expressions.kronecker import KroneckerProduct

X, A, K = matrix("X", D + 1, D + 1), matrix("A", D), matrix("K", D, R)
BLOCKS = BlockMatrix([[A, beta], [w.T, v_i * Identity(1)]])
LAST = BlockMatrix([[ZeroMatrix(D, 1)], [Identity(1)]])
SQUARE = BlockMatrix([[A**2 + beta * w.T, A * beta + v_i * beta], [w.T * A + v_i * w.T, w.T * beta + v_i**2 * Identity(1)]])


def derived(*lines):
    return Derivation.by(Line(X, ":=", BLOCKS, "Blocks"), *lines).lines[1:]


TRUE = derived(
    Line(X * X, "=", SQUARE, "Every block"),
    Line(LAST.T * X * X * LAST, "=", w.T * beta + v_i**2 * Identity(1), "One entry"),
    Line(Trace(X), "=", Trace(A) + v_i, "The trace"),
    Line((X.T + X) * LAST, "=", BlockMatrix([[w + beta], [2 * v_i * Identity(1)]]), "A sum"),
)  # fmt: skip


@pytest.mark.parametrize("line", TRUE, ids=lambda line: line.reason)
def test_blocks_are_multiplied_out_exactly(line):
    assert line.verify().status == "exact"
    assert replace(line, right=3 * line.right).verify().status == "fails"
    assert replace(line, relation="!=").verify().status == "fails"


def test_one_wrong_block_is_seen():
    wrong = BlockMatrix([[SQUARE.blocks[0, 0], SQUARE.blocks[0, 1]], [w.T * A, SQUARE.blocks[1, 1]]])
    assert replace(TRUE[0], right=wrong).verify().status == "fails"
    assert replace(TRUE[0], right=SQUARE.T).verify().status == "fails"


def test_vec_stacks_columns_and_the_kronecker_product_has_its_order():
    line = Line(Vec(B * M * A), "=", KroneckerProduct(A.T, B) * Vec(M))
    assert line.verify().status == "numeric"
    for wrong in (KroneckerProduct(B, A.T) * Vec(M), KroneckerProduct(A, B) * Vec(M), KroneckerProduct(A.T, B) * Vec(B)):
        assert replace(line, right=wrong).verify().status == "fails"


def test_a_sum_over_heads_has_other_weights_in_each_head():
    prediction = SumOverHeads(v_i * beta.T * A * x_q, v_i, A)
    line = Line(prediction, "=", beta.T * SumOverHeads(v_i * A, v_i, A) * x_q)
    assert line.verify().status == "numeric"
    assert replace(line, right=beta.T * SumOverHeads(v_i * A, v_i) * x_q).verify().status == "fails"
    assert Line(prediction, "!=", H * v_i * beta.T * A * x_q).verify().status == "numeric"
    with pytest.raises(TypeError, match="letters must be the symbols that differ"):
        SumOverHeads(v_i * A)


def test_values_of_blocks_with_no_columns_and_of_single_entries():
    point = Point.random(1, (), sizes={D: 1, R: 1, N: 1})
    assert value_at(BlockMatrix([[matrix("K_0", D, R - 1), beta]]), point) == point[beta][0, 0]
    point[Lambda] = value_at(BlockMatrix([[Lambda]]), point)
    assert point[Lambda].rows == 1
    wide = value_at(BlockMatrix([[K, K]]), Point.random(1, (), sizes={D: 3, R: 2}))
    assert (wide.rows, wide.cols) == (3, 4)


@pytest.mark.parametrize("form", [Vec, ColumnSoftmax, lambda block: KroneckerProduct(A, block), lambda block: block**-2])
def test_entries_may_be_complex(form):
    root = sqrt(Symbol("x", real=True))
    line = Line(form(BlockMatrix([[root * A]])), "=", form(root * A))
    assert line.verify().method.startswith("at 20 random points")
    assert replace(line, right=form(2 * root * A)).verify().status == "fails"


def test_what_is_no_product_of_blocks_is_refused():
    with pytest.raises(ValueError, match="different numbers of blocks"):
        multiplied_out(MatAdd(BLOCKS, BlockMatrix([[X]])))
    with pytest.raises(ValueError, match="not a sum of products"):
        multiplied_out(KroneckerProduct(BLOCKS, A))


def test_they_print():
    assert formula_text(LAST.T * BLOCKS * X) == "[[0, 1]] [[A, beta], [w', v_i]] X"
    assert formula_text(KroneckerProduct(A.T, B) * Vec(M)) == "(A' (x) B) vec(M)"
    assert formula_latex(BlockMatrix([[v_i * Identity(1)]])) == r"\left[\begin{matrix}v_{i}\end{matrix}\right]"
    assert formula_latex(SumOverHeads(v_i * A, v_i, A)).startswith(r"\sum_{i=1}^{H} v_{i}")


def test_a_letter_that_a_rule_brings_in_is_multiplied_out():
    """The left side becomes v_i beta' X beta, and X is a row of blocks."""
    row, column = matrix("Y", D, R + 1), BlockMatrix([[K, beta]])
    lines = Derivation.by(
        Line(x_q, "=", row * row.T * beta, "A rule"),
        Line(row, ":=", column, "Blocks"),
        Line(v_i * w.T * x_q, "=", v_i * w.T * (K * K.T + beta * beta.T) * beta, "Both", (0,)),
    ).lines
    assert lines[-1].verify().status == "exact"


def test_the_last_value_of_a_letter_counts():
    lines = Derivation.by(Line(x_q, ":=", w, "Once"), Line(x_q, "=", beta, "Then"), Line(x_q, "=", beta, "The second", (1,))).lines
    assert lines[-1].verify().status == "exact"
    assert replace(lines[-1], right=w).verify().status == "fails"


def test_softmax_acts_on_columns():
    point = Point.random(1, (), sizes={D: 2})
    value = value_at(ColumnSoftmax(A), point)
    assert all(abs(value[0, j] + value[1, j] - 1) < 1e-14 for j in range(2))
    entries = point[A]
    assert abs(value[0, 1] / value[1, 1] - mpmath.exp(entries[0, 1] - entries[1, 1])) < 1e-14
