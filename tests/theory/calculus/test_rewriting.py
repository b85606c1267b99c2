"""Rewriting by rules, sums over indices and block products, against explicit matrices; and what they refuse."""

import pytest
from iclflow.theory.algebra.polynomial import TracePolynomial
from iclflow.theory.calculus.entrywise import explicit
from iclflow.theory.calculus.rewriting import block_product, block_transpose, rewrite
from iclflow.theory.calculus.substitution import substitute
from iclflow.theory.expectation.index_sums import sum_over
from iclflow.theory.notation import D, H, Lambda, Lambda_hat, M, N, lambda_, matrix, symmetric_matrix, vector
from sympy import BlockMatrix, Identity, Matrix, Trace, ZeroMatrix, eye

A, X = matrix("A", D), matrix("X", D, N)
e, f = vector("e", D), vector("f", D)
P = symmetric_matrix("P", D)


@pytest.mark.parametrize(
    ("before", "rules", "after"),
    [
        (e.T * Lambda**3 * A * Lambda * e, {Lambda * e: lambda_ * e}, lambda_**4 * e.T * A * e),
        (Lambda * e * f.T * A, {Lambda * e: lambda_ * e}, lambda_ * e * f.T * A),
        (f * e.T * Lambda, {Lambda * e: lambda_ * e}, lambda_ * f * e.T),  # the rule transposed
        (Trace(X.T * A * X), {X * X.T: N * Lambda_hat}, N * Trace(A * Lambda_hat)),  # around the corner of a trace
        (Trace(X * X.T), {X * X.T: N * Lambda_hat}, N * Trace(Lambda_hat)),
        (A * P**5 * A.T, {P * P: P}, A * P * A.T),  # until none applies
        (Trace(P**4), {P * P: P}, Trace(P)),
        ((e.T * e) ** 3 * (e.T * f), {e.T * e: 1}, e.T * f),
        (Trace(Lambda) * A, {TracePolynomial(Trace(Lambda)): lambda_}, lambda_ * A),
        (e.T * A * Lambda * f, {A * Lambda: ZeroMatrix(D, D)}, 0),
        (A * Lambda + A, {A * Lambda: ZeroMatrix(D, D)}, A),
        (e.T * A * M * Lambda.I * f, {M * Lambda.I: Lambda}, e.T * A * Lambda * f),
    ],
)
def test_rules_apply_wherever_the_product_stands(before, rules, after):
    assert rewrite(before, rules) == TracePolynomial(after)


def test_rewriting_undoes_substitution():
    expression = TracePolynomial(Trace(A * Lambda_hat * A.T * Lambda_hat) * Lambda_hat * A + Lambda_hat)
    multiplied_out = substitute(expression, {Lambda_hat: X * X.T / N})
    assert multiplied_out != expression
    assert rewrite(multiplied_out, {X * X.T: N * Lambda_hat}) == expression


def test_what_a_rule_does_not_match_stays():
    assert rewrite(e.T * A * e, {Lambda * e: lambda_ * e}) == TracePolynomial(e.T * A * e)
    assert rewrite(X.T * X, {X * X.T: N * Lambda_hat}) == TracePolynomial(X.T * X)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({Lambda + A: A}, "one product of letters"),
        ({2 * Lambda * A: A}, "one product of letters"),
        ({Trace(A) * Lambda: A}, "one product of letters"),
        ({Lambda * e: Lambda}, "shape"),
        ({e.T * e: A}, "shape"),
        ({M: Lambda * A}, "equals its transpose"),
        ({A * Lambda: A * Lambda * Lambda}, "do not come to an end"),
    ],
)
def test_rules_that_make_no_sense_are_refused(rules, message):
    with pytest.raises(ValueError, match=message):
        rewrite(A * Lambda * e, rules)


def test_sum_over_an_index_is_the_sum_over_the_unit_vectors():
    summand = (e.T * A * f) * (f.T * Lambda * A.T * e) * (e.T * f)
    single = TracePolynomial((e.T * A * f) * (f.T * Lambda * e))
    units = [Matrix(2, 1, list(column)) for column in eye(2).tolist()]
    by_hand = sum((explicit(single, {e: a, f: b}, D=2) for a in units for b in units), start=0)
    assert (explicit(sum_over(single, e, f), D=2) - by_hand).expand() == 0
    assert sum_over(A * e * e.T, e) == A
    with pytest.raises(ValueError, match="twice in every term, not 3 times"):
        sum_over(summand, e)
    with pytest.raises(ValueError, match="not 0 times"):
        sum_over(A, e)


def test_block_products_are_products_of_the_whole_matrices():
    blocks = ((A, e), (f.T, lambda_))
    other = ((Lambda, f), (e.T, 2))
    square = block_product(blocks, other, block_transpose(blocks))

    def whole(rows):
        return Matrix([[Matrix([explicit(block, D=2)]) for block in row] for row in rows])

    product = whole(blocks) * whole(other) * whole(blocks).T
    assert (whole(square) - product).expand() == Matrix.zeros(3, 3)


def test_products_of_block_matrices_that_are_one_block_are_read():
    row, square, column = (BlockMatrix([[A, e]]), BlockMatrix([[A, e], [f.T, ZeroMatrix(1, 1)]]), BlockMatrix([[P], [e.T]]))
    assert TracePolynomial(row * column) == A * P + e * e.T
    assert TracePolynomial(2 * row * square * column * f) == TracePolynomial(2 * (A * A * P + e * f.T * P + A * e * e.T) * f)
    with pytest.raises(ValueError, match="is not a trace polynomial"):
        TracePolynomial(square * square)


def test_blocks_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="2 columns of blocks meet 1 rows"):
        block_product(((A, e),), ((A, e),))
    with pytest.raises(ValueError, match="shape"):
        block_product(((A,),), ((matrix("C", H, D),),))
    assert block_product(((Identity(D),),), ((A,),))[0][0] == A
