"""Do two formulas agree at random points? Evaluated in NumPy, without the algebra of the theory layer and what it simplifies.

A point has D = 7, H = 3, R = 2, positive scalars, and random matrices, symmetric where the letter is.
"""

import numpy as np
import sympy
from iclflow.theory.notation import D, H, N, R
from sympy import MatrixSymbol, Symbol, Trace
from sympy.matrices.expressions import BlockMatrix, Identity, Inverse, MatAdd, MatMul, MatPow, Transpose, ZeroMatrix
from sympy.matrices.expressions.matexpr import MatrixElement

SIZES = {D: 7, H: 3, R: 2}
POINTS = 2


class CannotEvaluateError(Exception):
    """The formula holds something that has no number here: an undefined function, a limit, a set."""


def same_numbers(one: sympy.Basic, other: sympy.Basic, rng: np.random.Generator) -> bool:
    """Do two formulas agree, to rounding, at random points? Raises CannotEvaluateError where they have no numbers."""
    for point in range(POINTS):
        # A sum over d > N is empty in a long context: the first point has a short one, N below D - 2.
        values: dict = {N: int(rng.integers(3, SIZES[D] - 2))} if point == 0 else {}
        first, second = (_value(formula, values, rng) for formula in (one, other))
        if np.shape(first) != np.shape(second):
            return False
        size = max(1e-12, float(np.max(np.abs(first))), float(np.max(np.abs(second))))
        apart = float(np.max(np.abs(np.asarray(first) - np.asarray(second))))
        # A harmonic number at a negative integer is no number, and equals none.
        if not (np.isfinite(size) and apart <= 1e-9 * size):
            return False
    return True


def _value(node, values: dict, rng: np.random.Generator):
    if node in values:
        return values[node]
    if isinstance(node, MatrixSymbol):
        rows, columns = (_size(dimension) for dimension in node.shape)
        entries = rng.standard_normal((rows, columns))
        symmetric = getattr(node, "is_symmetric_letter", False)
        values[node] = entries @ entries.T / 3 if symmetric else entries
        return values[node] if (rows, columns) != (1, 1) else values[node][0, 0]
    if isinstance(node, Identity):
        return np.eye(_size(node.shape[0]))
    if isinstance(node, ZeroMatrix):
        return np.zeros(tuple(map(_size, node.shape)))
    if isinstance(node, Symbol):
        if node in SIZES:
            return SIZES[node]
        if node.is_integer:
            values[node] = int(rng.integers(3, 12)) if node == N else _further_size(node)
        else:
            values[node] = rng.uniform(0.2, 0.9) * (1 if node.is_nonnegative else rng.choice([-1, 1]))
        return values[node]
    if isinstance(node, sympy.Indexed):
        values[node] = rng.uniform(0.2, 0.9)  # one entry of a sequence of positive numbers
        return values[node]
    if isinstance(node, sympy.Sum):
        index, first, last = node.limits[0]
        steps = range(int(_value(first, values, rng)), int(_value(last, values, rng)) + 1)
        return sum(_value(node.function.subs(index, step), values, rng) for step in steps)
    if isinstance(node, BlockMatrix):
        rows, columns = node.blocks.shape
        return np.block([[np.atleast_2d(_value(node.blocks[i, j], values, rng)) for j in range(columns)] for i in range(rows)])
    if isinstance(node, MatrixElement):
        matrix, row, column = node.args
        return np.atleast_2d(_value(matrix, values, rng))[int(row), int(column)]
    if (node.is_number and not node.args) or isinstance(node, sympy.Number | sympy.NumberSymbol):
        return complex(node) if node.is_real is False else float(node)
    return _operation(node, [_value(argument, values, rng) for argument in node.args])


def _size(dimension) -> int:
    dimension = sympy.sympify(dimension).subs(SIZES)
    return int(dimension.subs({symbol: _further_size(symbol) for symbol in dimension.free_symbols}))


def _further_size(symbol) -> int:
    """A whole number for m, which is below D, and for other integers, different for most."""
    return 2 if symbol.name == "m" else 4 + sum(map(ord, symbol.name)) % 5


def _operation(node, arguments):
    if isinstance(node, sympy.Add | MatAdd):
        return sum(arguments[1:], start=arguments[0])
    if isinstance(node, sympy.Mul | MatMul):
        product = arguments[0]
        for factor in arguments[1:]:
            product = product @ factor if np.ndim(product) == 2 and np.ndim(factor) == 2 else product * factor
            product = product[0, 0] if np.shape(product) == (1, 1) else product
        return product
    if isinstance(node, Inverse):
        return np.linalg.inv(arguments[0]) if np.ndim(arguments[0]) == 2 else 1 / arguments[0]
    if isinstance(node, MatPow) or (isinstance(node, sympy.Pow) and np.ndim(arguments[0]) == 2):
        return np.linalg.matrix_power(arguments[0], int(arguments[1]))
    if isinstance(node, sympy.Pow):
        base, exponent = arguments
        return base**exponent if np.real(base) >= 0 and np.isreal(base) else complex(base) ** exponent
    if isinstance(node, Transpose):
        return np.transpose(arguments[0])
    if isinstance(node, Trace):
        return np.trace(np.atleast_2d(arguments[0]))
    if isinstance(node, sympy.Function) and not isinstance(node, sympy.core.function.AppliedUndef):
        return complex(node.func(*arguments))
    raise CannotEvaluateError(type(node).__name__)
