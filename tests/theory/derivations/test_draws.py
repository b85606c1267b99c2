"""Spectra of matrices at points: against matrices that are made from the eigenvalues and singular values they should have."""

from random import Random

import pytest
from flint import arb_mat, ctx
from iclflow.theory.derivations.draws import (
    definite,
    eigenbasis,
    eigenvalues,
    is_positive_definite,
    singular_values,
    square_root,
    unit_vector,
)
from iclflow.theory.derivations.points import DIGITS, Point, as_arb
from iclflow.theory.notation import D, Lambda, M
from mpmath import diag, matrix, mp, mpf, qr

FAR_APART = [mpf(10) ** k for k in range(-5, 4)]
SPECTRA = (
    [2],
    [-1],
    [0],
    [3, 3, 3],
    [1, 2, mpf(10) ** -12],
    [1, 2, -(mpf(10) ** -12)],
    [0, 1, 2],
    [5, 0, 0, -1],
    [1, 2, 3, 4, 5, 6],
    FAR_APART,
)


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(DIGITS), ctx.workdps(DIGITS + 3):
        yield


def turned(rows, columns, values, seed):
    """The matrix with these values along random directions, some of which it maps to zero."""
    rng = Random(seed)
    left, right = (qr(matrix([[rng.gauss(0, 1) for _ in range(size)] for _ in range(size)]))[0] for size in (rows, columns))
    return left[:, : len(values)] * diag(values) * (left if rows == columns else right)[:, : len(values)].T


@pytest.mark.parametrize("spectrum", SPECTRA, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_eigenvalues_and_definiteness(spectrum, seed):
    made = turned(len(spectrum), len(spectrum), spectrum, seed)
    for one, value in zip(eigenvalues(made), sorted(spectrum), strict=True):
        assert abs(one - value) < 1e-25
    assert is_positive_definite(made) == is_positive_definite(as_arb(made)) == (min(spectrum) > 0)


@pytest.mark.parametrize(("rows", "columns", "values"), [(3, 3, [2, 1, 0]), (2, 5, [3, 1]), (5, 2, [3, 3]), (1, 1, [2]), (4, 2, [1, 0])])
def test_singular_values(rows, columns, values):
    for one, value in zip(singular_values(turned(rows, columns, values, 7)), values, strict=True):
        assert abs(one - value) < 1e-25
    assert max(map(abs, singular_values(arb_mat(rows, columns)))) == 0


def test_all_matrices_that_are_named_have_to_be_definite():
    point = Point.random(1, (), sizes={D: 3})
    assert definite(Lambda, M)(point)
    point[M] = unit_vector(3, point) * unit_vector(3, point).T
    assert definite(Lambda)(point)
    assert not definite(Lambda, M)(point)
    root = square_root(point)
    assert max(map(abs, (root * root - as_arb(point[Lambda])).entries())) < 1e-25


def test_eigenvectors_have_all_digits_whoever_asks_first():
    """They are kept, and a judge that works with 30 digits may be the second to ask."""
    point = Point.random(11, (), sizes={D: 3})
    with mp.workdps(15), ctx.workdps(15):
        values, vectors = eigenbasis(point)
    with mp.workdps(DIGITS), ctx.workdps(DIGITS + 3):
        matrix = as_arb(point[Lambda])
        left = [matrix * vector - vector * as_arb(value) for value, vector in zip(values, vectors, strict=True)]
        assert max(abs(entry) for column in left for entry in column.entries()) < 1e-25
