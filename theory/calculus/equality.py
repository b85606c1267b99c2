"""Exact equality of formulas: their difference reduces to zero by algebra; no numerical comparison makes two formulas equal.

>>> from sympy import exp, symbols
>>> x = symbols("x", positive=True)
>>> vanishes((x + 1) ** 2 - x**2 - 2 * x - 1), vanishes(exp(2 * x) - exp(x))
(True, False)
"""

from collections.abc import Mapping
from typing import Any

import sympy
from sympy import BlockMatrix, MatrixBase, MatrixExpr, Trace
from sympy.functions.combinatorial.factorials import CombinatorialFunction
from sympy.functions.elementary.hyperbolic import HyperbolicFunction, InverseHyperbolicFunction
from sympy.functions.elementary.trigonometric import TrigonometricFunction

from ..algebra.polynomial import TracePolynomial
from .rational import zero_as_rational


def equal(left: Any, right: Any) -> bool:
    """Is left - right exactly zero? Tuples and mappings are compared part by part; formulas of different shapes are not equal."""
    if isinstance(left, Mapping) or isinstance(right, Mapping):
        both = isinstance(left, Mapping) and isinstance(right, Mapping) and left.keys() == right.keys()
        return both and all(equal(left[part], right[part]) for part in left)
    if isinstance(left, tuple | list) or isinstance(right, tuple | list):
        both = isinstance(left, tuple | list) and isinstance(right, tuple | list) and len(left) == len(right)
        return both and all(equal(one, other) for one, other in zip(left, right, strict=True))
    if isinstance(left, BlockMatrix) and isinstance(right, BlockMatrix):
        return equal(left.blocks.tolist(), right.blocks.tolist())
    if isinstance(left, MatrixBase) and isinstance(right, MatrixBase):
        return left.shape == right.shape and all(vanishes(one - other) for one, other in zip(left, right, strict=True))
    if _is_matrix_formula(left) or _is_matrix_formula(right):
        if isinstance(left, MatrixBase) or isinstance(right, MatrixBase):
            return False
        left, right = TracePolynomial(left), TracePolynomial(right)
        return left == right and left.shape == right.shape  # the zeros of two shapes are equal polynomials
    left, right = sympy.sympify(left), sympy.sympify(right)
    if not isinstance(left, sympy.Expr) or not isinstance(right, sympy.Expr):
        return left == right
    return vanishes(left - right)


def vanishes(expression: Any) -> bool:
    """Is a scalar SymPy expression identically zero? Decided by normal forms: if none of them gives 0, the answer is False."""
    expression = sympy.sympify(expression)
    if expression == 0:
        return True
    if expression.has(sympy.Derivative, sympy.Integral, sympy.Limit):
        expression = expression.doit()
    expression = _sums_apart(expression)
    if (decided := zero_as_rational(_powers_apart(expression))) is not None:
        return decided
    if expression.is_number:
        return bool(sympy.simplify(expression) == 0)
    if _numerator(expression) == 0:
        return True
    if expression.has(HyperbolicFunction, InverseHyperbolicFunction, TrigonometricFunction):
        expression = expression.rewrite(sympy.exp).rewrite(sympy.log)
        if _numerator(expression) == 0:
            return True
    within = [one for one in expression.atoms(sympy.log, sympy.Pow) if isinstance(one, sympy.log) or one.exp.is_integer is False]
    expression = expression.xreplace({one: one.func(sympy.factor(one.args[0]), *one.args[1:]) for one in within})
    if expression.has(sympy.hyper, sympy.meijerg):
        expression = sympy.hyperexpand(expression)
    if expression.has(sympy.gamma, sympy.beta, CombinatorialFunction):
        expression = sympy.gammasimp(expression)
    return sympy.powsimp(_numerator(expression)) == 0


def require_zero(*residuals: sympy.Expr) -> None:
    """For derivations: put a claimed solution into its equation and pass what is left. ArithmeticError unless it is identically zero."""
    for residual in residuals:
        if not vanishes(residual):
            raise ArithmeticError(f"a residual should be exactly 0, and is {residual}")


def _sums_apart(expression):
    """One sum for each range up to a symbol, its summand in lowest terms; terms beyond that, as from m to m + 1, stand apart.

    >>> from sympy import Function, Sum, symbols
    >>> f, d, m = Function("f"), *symbols("d m")
    >>> _sums_apart(Sum(f(d), (d, 1, m + 1)) - Sum(f(d), (d, 1, m)))
    f(m + 1)
    """
    if not expression.has(sympy.Sum):
        return expression
    summands: dict[tuple, Any] = {}
    rest = sympy.S.Zero
    for term in sympy.Add.make_args(sympy.expand_mul(expression, deep=False)):
        factor, one = term.as_independent(sympy.Sum, as_Add=False)
        if not isinstance(one, sympy.Sum) or len(one.limits) > 1 or len(one.limits[0]) != 3 or one.limits[0][0] in factor.free_symbols:
            rest += term
            continue
        index, first, last = one.limits[0]
        beyond, whole = last.as_coeff_Add()
        if not beyond.is_Integer:
            beyond, whole = 0, last
        summand = factor * one.function
        summands[index, first, whole] = summands.get((index, first, whole), 0) + summand
        rest += sum(summand.subs(index, whole + k) for k in range(1, beyond + 1))
        rest -= sum(summand.subs(index, whole + k) for k in range(beyond + 1, 1))
    normal = {limits: _rational_normal(one) for limits, one in summands.items()}
    return rest + sum(sympy.Sum(one, limits) for limits, one in normal.items() if one != 0)


def _rational_normal(expression):
    """The expression in lowest terms, as a rational function of its symbols, roots, exponentials and logarithms."""
    return sympy.cancel(sympy.together(sympy.expand(_powers_apart(expression))))


def _numerator(expression):
    """The numerator of the expression, expanded: 0 if the expression is 0 as such a function, and faster than its lowest terms."""
    return sympy.expand(sympy.fraction(sympy.together(_powers_apart(expression), deep=True))[0])


def _powers_apart(expression):
    if expression.is_rational_function():
        return expression
    if any(one.exp.has(sympy.log) for one in expression.atoms(sympy.exp)):
        expression = sympy.powdenest(expression)  # exp(a log(b)) as b^a
    return sympy.expand_power_base(sympy.expand_power_exp(expression))


def _is_matrix_formula(formula: Any) -> bool:
    return isinstance(formula, TracePolynomial | MatrixExpr) or (isinstance(formula, sympy.Basic) and formula.has(Trace))
