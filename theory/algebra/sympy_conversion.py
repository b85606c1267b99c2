"""Terms and shape from a SymPy expression, and back.

``write(*read(expression))`` equals the expression; ``read(write(*form)) == form``. A sub-expression that is not a trace polynomial is
refused by name.
"""

from fractions import Fraction
from functools import cache, reduce
from itertools import groupby
from typing import Any

import sympy
from sympy import Add, BlockMatrix, Expr, MatAdd, MatMul, MatPow, Mul, Pow, Rational, Symbol, Trace
from sympy.core.function import AppliedUndef
from sympy.matrices.expressions import Identity, Inverse, MatrixSymbol, Transpose, ZeroMatrix
from sympy.matrices.expressions.matexpr import MatrixElement
from sympy.tensor.indexed import Indexed

from . import words
from .arithmetic import SUPPORTED, Form, Shape, add, multiply, one, power, reciprocal, trace, transpose, zero
from .coefficients import coefficient_of, exact, generator
from .terms import Terms, groups


def read(expression) -> Form:
    """The terms and the shape of a SymPy expression; ValueError names the sub-expression that is not one."""
    if isinstance(expression, str):
        raise ValueError(f"{expression!r} is text; read it with read_text of iclflow.theory.proofs.meaning, or write it in SymPy's symbols")
    if not isinstance(expression, Expr):
        try:
            expression = sympy.sympify(expression, strict=True)
        except sympy.SympifyError:
            raise ValueError(f"{expression!r} ({type(expression).__name__}) is not a SymPy expression; supported: {SUPPORTED}") from None
    for kinds, reader in _READERS:
        if isinstance(expression, kinds):
            return reader(expression)
    raise _UnsupportedError(expression)


class _UnsupportedError(ValueError):
    """What is not a trace polynomial. Printing it takes longer than reading it, so that its message is written when it is asked for."""

    def __str__(self):
        (expression,) = self.args
        hint = "; write one entry of a product as a 1 x 1 product, x.T*A*y" if isinstance(expression, sympy.Sum) else ""
        return f"{expression} ({type(expression).__name__}) is not a trace polynomial{hint}; supported: {SUPPORTED}"


def _read_number(number) -> Form:
    if not isinstance(number, Rational) or not number.is_finite:
        raise ValueError(f"the coefficient {number} is not a rational number; write it as one, e.g. Rational('0.1')")
    value = exact(Fraction(int(number.p), int(number.q)))
    return {((), (), None): value} if value else {}, None


def _read_scalar(symbol) -> Form:
    if not symbol.is_commutative:
        raise ValueError(f"the scalar {symbol} is not commutative; use a MatrixSymbol for a matrix")
    return {(((generator(symbol), 1),), (), None): 1}, None


def _read_letter(symbol) -> Form:
    if symbol.shape == (1, 1):
        return {((), ((words.letter(symbol),),), None): 1}, None
    return {((), (), (words.letter(symbol),)): 1}, symbol.shape


def _read_product(expression) -> Form:
    if not any(isinstance(argument, BlockMatrix) for argument in expression.args):
        return reduce(multiply, map(read, expression.args))
    blocks = grid(expression)
    if len(blocks) > 1 or len(blocks[0]) > 1:
        raise _UnsupportedError(expression)
    return blocks[0][0]


def grid(expression) -> list[list[Form]]:
    """The rows of blocks of a formula with block matrices, its products, sums and transposes carried out; one block for any other formula.

    Raises ValueError for blocks whose shapes do not fit.
    """
    if isinstance(expression, BlockMatrix):
        return [list(map(read, row)) for row in expression.blocks.tolist()]
    if not isinstance(expression, sympy.Basic) or not expression.has(BlockMatrix):
        return [[read(expression)]]
    if isinstance(expression, Transpose):
        return [list(map(transpose, column)) for column in zip(*grid(expression.arg), strict=True)]
    if isinstance(expression, MatAdd | Add):
        return reduce(_add_grids, map(grid, expression.args))
    if isinstance(expression, MatMul | Mul):
        return reduce(_multiply_grids, map(grid, expression.args))
    if isinstance(expression, MatPow) and expression.exp.is_Integer and expression.exp > 0:
        return reduce(_multiply_grids, [grid(expression.base)] * int(expression.exp))
    if isinstance(expression, Trace):
        return [[add(trace(row[i]) for i, row in enumerate(grid(expression.arg)))]]
    raise ValueError(f"{expression} is not a sum of products of block matrices")


def _add_grids(left: list, right: list) -> list:
    if (len(left), len(left[0])) != (len(right), len(right[0])):
        raise ValueError("a sum of block matrices with different numbers of blocks")
    return [list(map(add, zip(*rows, strict=True))) for rows in zip(left, right, strict=True)]


def _multiply_grids(left: list, right: list) -> list:
    for scalar, grid in ((left, right), (right, left)):
        if len(scalar) == len(scalar[0]) == 1 and scalar[0][0][1] is None:
            return [[multiply(scalar[0][0], block) for block in row] for row in grid]
    if len(left[0]) != len(right):
        raise ValueError(f"shape mismatch in a product: {len(left[0])} columns of blocks meet {len(right)} rows of blocks")
    columns = list(zip(*right, strict=True))
    return [[add(map(multiply, row, column)) for column in columns] for row in left]


def _read_element(expression) -> Form:
    if expression.parent.shape != (1, 1):
        raise ValueError(f"{expression} is one entry of a matrix; write a scalar as a trace or as a 1 x 1 product, x.T*A*y")
    return read(expression.parent)


_READERS = (
    ((sympy.Number, sympy.NumberSymbol, sympy.core.numbers.ImaginaryUnit), _read_number),
    ((Symbol, AppliedUndef, Indexed), _read_scalar),
    (MatrixSymbol, _read_letter),
    (MatrixElement, _read_element),
    (Identity, lambda expression: one(expression.shape)),
    (ZeroMatrix, lambda expression: zero(expression.shape)),
    ((Add, MatAdd), lambda expression: add(map(read, expression.args))),
    ((Mul, MatMul), _read_product),
    (Inverse, lambda expression: reciprocal(read(expression.arg))),
    ((Pow, MatPow), lambda expression: power(read(expression.base), expression.exp)),
    (Transpose, lambda expression: transpose(read(expression.arg))),
    (Trace, lambda expression: trace(read(expression.arg))),
)


def write(terms: Terms, shape: Shape) -> Expr:
    """The SymPy expression: a MatrixExpr, or a scalar with Trace factors."""
    summands = []
    for coefficient, traces, word in groups(terms):
        factors = [Trace(_word(words.readable_rotation(closed))) for closed in traces]
        scalar = Mul(coefficient_of(coefficient), *factors)
        summands.append(scalar if word is None else _word(word, shape, scalar))
    if shape is None:
        return Add(*summands)
    if not summands:
        return ZeroMatrix(*shape)
    return MatAdd(*summands) if len(summands) > 1 else summands[0]


def _word(word: words.Word, shape: Any = None, scalar: Expr = sympy.S.One) -> Any:
    """The product as SymPy's own canonical MatMul, built directly: a chain of ``*`` would canonicalise at every factor."""
    factors = [_power(_letter(code), len(list(run))) for code, run in groupby(word)] or [Identity(shape[0])]
    return factors[0] if scalar == 1 and len(factors) == 1 else MatMul(*([] if scalar == 1 else [scalar]), *factors)


def _power(letter: Any, count: int) -> Any:
    return letter if count == 1 else letter**count  # SymPy refuses the first power of a 3 x 1 matrix


@cache
def _letter(code: int) -> Any:
    symbol = words.symbol_of(code)
    symbol = symbol.T if words.is_transposed(code) else symbol
    return symbol.I if words.is_inverse(code) else symbol
