r"""Matrices that are no trace polynomials: block matrices, vec, Kronecker products, sums over heads; and their values at a point.

>>> from iclflow.theory.derivations.points import Point, value_at
>>> from iclflow.theory.notation import B, D, H, Lambda, v_i
>>> from sympy import BlockMatrix, Identity
>>> point = Point.random(1, (), sizes={D: 2, H: 3})
>>> value_at(BlockMatrix([[Lambda, Identity(D)]]), point).cols
4
>>> value_at(Vec(B), point).rows
4
>>> print(SumOverHeads(v_i * B, v_i, B))
sum_i v_i B
"""

from collections.abc import Callable
from functools import reduce
from itertools import chain
from operator import add
from typing import Any

import mpmath
from flint import acb, acb_mat, arb, arb_mat
from sympy import Add, Basic, BlockMatrix, Expr, MatAdd, MatMul, MatPow, MatrixExpr, Mul, Symbol, Trace, Transpose, Tuple
from sympy.matrices.expressions import MatrixSymbol, OneMatrix
from sympy.matrices.expressions.kronecker import KroneckerProduct

from ..notation import H
from ..typesetting.text import written
from .heads import as_sympy, summand

Evaluate = Callable[[Any, Any], Any]  # a formula, a point -> its value there


class Form(Basic):
    """A function of matrices that a point gives a value: ``at(point, evaluate)``."""

    def at(self, point: Any, evaluate: Evaluate) -> Any:
        raise NotImplementedError

    def __str__(self):
        return self._plain_text()

    __repr__ = __str__


class Vec(Form, MatrixExpr):
    """vec(A): the columns of A, stacked."""

    @property
    def shape(self):
        rows, columns = self.args[0].shape
        return rows * columns, 1

    def at(self, point, evaluate):
        value = _matrix(evaluate(self.args[0], point))
        return _of_entries([[entry] for entry in value.transpose().entries()])

    def _plain_text(self, printer=None):
        return f"vec({written(self.args[0])})"

    def _latex(self, printer, exp=None):
        return rf"\operatorname{{vec}}\left({printer._print(self.args[0])}\right)"


class ColumnSoftmax(Form, MatrixExpr):
    """softmax of each column of a matrix."""

    @property
    def shape(self):
        return self.args[0].shape

    def at(self, point, evaluate):
        columns = [[entry.exp() for entry in column] for column in _matrix(evaluate(self.args[0], point)).transpose().tolist()]
        return _of_entries([[entry / sum(column) for entry in column] for column in columns]).transpose()

    def _plain_text(self, printer=None):
        return f"softmax({written(self.args[0])})"

    def _latex(self, printer, exp=None):
        return rf"\mathrm{{softmax}}\left({printer._print(self.args[0])}\right)"


class _SumOverHeads(Form):
    def at(self, point, evaluate):
        body, letters = self.args[:2]
        return reduce(add, (evaluate(body, point.of_head(head, letters)) for head in range(point[H])))

    def _plain_text(self, printer=None):
        return f"sum_i {summand(self.args[0], written)}"

    def _latex(self, printer, exp=None):
        return rf"\sum_{{i=1}}^{{H}} {summand(self.args[0], printer._print)}"


class ScalarSumOverHeads(_SumOverHeads, Expr):
    """The sum of a scalar over the heads."""

    is_commutative = True


class MatrixSumOverHeads(_SumOverHeads, MatrixExpr):
    """The sum of a matrix over the heads."""

    @property
    def shape(self):
        return self.args[0].shape


def SumOverHeads(body: Any, *letters: Any) -> Any:
    """The sum of a formula over the heads i = 1, ..., H: each head has its own values of the letters that are named."""
    if not letters or not all(isinstance(one, Symbol | MatrixSymbol) for one in letters):
        raise TypeError(f"SumOverHeads: letters must be the symbols that differ from head to head, got {letters!r}")
    body = as_sympy(body, "SumOverHeads")
    kind = ScalarSumOverHeads if getattr(body, "shape", (1, 1)) == (1, 1) else MatrixSumOverHeads
    return kind(body, Tuple(*letters))


def has_forms(formula: Any) -> bool:
    """Does a formula hold a matrix that is not a trace polynomial?"""
    return isinstance(formula, Basic) and formula.has(BlockMatrix, KroneckerProduct, OneMatrix, Form)


def assembled(formula: Any, point: Any, evaluate: Evaluate) -> Any:
    """The value of a formula from those of its parts, a number for a 1 x 1 matrix; of Arb, or of mpmath if it is complex."""
    value = _number(_assembled(formula, point, evaluate))
    if isinstance(value, acb | acb_mat):
        return mpmath.matrix(value) if isinstance(value, acb_mat) else mpmath.mpmathify(value)
    return value.mid()


def _assembled(formula: Any, point: Any, evaluate: Evaluate) -> Any:
    def value(part):
        return _number(evaluate(part, point))

    if isinstance(formula, BlockMatrix):
        return stacked([[_matrix(value(block)) for block in row] for row in formula.blocks.tolist()])
    if isinstance(formula, Form):
        return formula.at(point, evaluate)
    if isinstance(formula, OneMatrix):
        rows, columns = map(point.size, formula.shape)
        return arb_mat(rows, columns, [1] * (rows * columns))
    if isinstance(formula, KroneckerProduct):
        return reduce(_kronecker, map(value, formula.args))
    if isinstance(formula, Add | MatAdd):
        return reduce(add, map(value, formula.args))
    if isinstance(formula, Mul | MatMul):
        return reduce(lambda one, other: _number(one * other), map(value, formula.args))
    if isinstance(formula, MatPow) and formula.exp.is_Integer:
        base = _matrix(value(formula.base))
        return (base if formula.exp > 0 else base.inv()) ** abs(int(formula.exp))
    if isinstance(formula, Transpose):
        return _matrix(value(formula.arg)).transpose()
    if isinstance(formula, Trace):
        return _matrix(value(formula.arg)).trace()
    raise ValueError(f"{formula} has no value at a point")


def stacked(blocks: list) -> Any:
    """The matrix with these blocks."""
    return _of_entries([list(chain(*parts)) for row in blocks for parts in zip(*(block.tolist() for block in row), strict=True)])


def _of_entries(rows: Any) -> Any:
    try:
        return arb_mat(rows)
    except TypeError:  # an entry is complex
        return acb_mat(rows)


def _number(value: Any) -> Any:
    """A value of Arb or mpmath as one of Arb, a number for a 1 x 1 matrix."""
    if isinstance(value, arb_mat | acb_mat):
        return value[0, 0] if (value.nrows(), value.ncols()) == (1, 1) else value
    if isinstance(value, mpmath.matrix):
        return _number(_of_entries(value))
    return (acb if isinstance(value, mpmath.mpc) else arb)(value) if isinstance(value, mpmath.mpc | mpmath.mpf) else value


def _matrix(value: Any) -> Any:
    return value if isinstance(value := _number(value), arb_mat | acb_mat) else _of_entries([[value]])


def _kronecker(left: Any, right: Any) -> Any:
    return stacked([[_matrix(right) * entry for entry in row] for row in _matrix(left).tolist()])
