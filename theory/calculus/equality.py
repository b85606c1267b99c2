"""Exact equality of formulas: the difference is zero as an algebraic object, never numerically."""

from collections.abc import Mapping
from typing import Any

import sympy
from sympy import MatrixBase, MatrixExpr, Trace

from ..algebra.polynomial import TracePolynomial

__all__ = ["equal", "vanishes"]


def equal(left: Any, right: Any) -> bool:
    """Is left - right exactly zero? Tuples and mappings are equal part by part; formulas of different shapes are not equal."""
    if isinstance(left, Mapping) or isinstance(right, Mapping):
        both = isinstance(left, Mapping) and isinstance(right, Mapping) and left.keys() == right.keys()
        return both and all(equal(left[part], right[part]) for part in left)
    if isinstance(left, tuple | list) or isinstance(right, tuple | list):
        both = isinstance(left, tuple | list) and isinstance(right, tuple | list) and len(left) == len(right)
        return both and all(equal(one, other) for one, other in zip(left, right, strict=True))
    if isinstance(left, MatrixBase) and isinstance(right, MatrixBase):
        return left.shape == right.shape and all(vanishes(one - other) for one, other in zip(left, right, strict=True))
    if _is_matrix_formula(left) or _is_matrix_formula(right):
        if isinstance(left, MatrixBase) or isinstance(right, MatrixBase):
            return False
        left, right = TracePolynomial(left), TracePolynomial(right)
        return left == right and left.shape == right.shape  # the algebra has one zero, statements one for each shape
    left, right = sympy.sympify(left), sympy.sympify(right)
    if not isinstance(left, sympy.Expr) or not isinstance(right, sympy.Expr):
        return left == right
    return vanishes(left - right)


def vanishes(expression: Any) -> bool:
    """Is a scalar SymPy expression identically zero? Decided by normal forms; what they cannot bring to zero counts as not zero."""
    expression = sympy.sympify(expression)
    if expression.is_zero or expression == 0:
        return True
    if expression.is_number and not expression.free_symbols:
        if expression.is_Rational:
            return False
        return bool(sympy.simplify(expression) == 0)
    if _rational_normal(expression) == 0:
        return True
    return not _is_nonzero_somewhere(expression) and sympy.simplify(expression) == 0


def _is_nonzero_somewhere(expression: sympy.Expr) -> bool:
    """Is it certainly not zero at one point, to 30 digits? This spares the slow attempts to simplify what cannot be zero."""
    symbols = sorted(expression.free_symbols, key=str)
    plain = [one for one in symbols if not isinstance(one, sympy.Indexed | sympy.IndexedBase)]
    sizes = {one: sympy.Integer(2 + i % 3) for i, one in enumerate(plain) if one.is_integer}
    explicit = expression.subs(sizes).doit()
    rest = sorted(explicit.atoms(sympy.Indexed) | (explicit.free_symbols & set(plain)), key=str)
    point = {one: sympy.Rational(2 * i + 3, 7 + i) for i, one in enumerate(rest)}
    value = explicit.subs(point).evalf(30)
    return bool(value.is_number and value.is_finite and abs(value) > sympy.Float("1e-15"))


def _rational_normal(expression):
    """Lowest terms over the rational functions of the roots, exponentials and logarithms that occur."""
    expression = sympy.expand_power_base(sympy.powdenest(sympy.expand_power_exp(expression)))
    return sympy.cancel(sympy.together(sympy.expand(expression)))


def _is_matrix_formula(formula: Any) -> bool:
    return isinstance(formula, TracePolynomial | MatrixExpr) or (
        isinstance(formula, sympy.Basic) and formula.has(Trace)
    )
