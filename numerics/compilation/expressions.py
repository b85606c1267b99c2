r"""SymPy expressions compiled to callables, and cached.

>>> from sympy import log, symbols
>>> x, y = symbols("x y")
>>> float(compile_expression(log(1 + x) / y, (x, y))(1e-20, 2.0))  # log(1 + x) keeps the digits of a small x
5e-21
>>> import numpy as np
>>> from sympy import Trace
>>> from iclflow.theory.notation import Lambda, N
>>> compile_expression(Lambda**2 + Trace(Lambda) * Lambda / N, (Lambda, N))(np.diag([0.5, 0.25]), 5).tolist()
[[0.325, 0.0], [0.0, 0.1]]

Four backends: ``numpy`` (float64, arrays in, arrays out), ``torch`` (tensors in, tensors out; gradients flow), ``mpmath`` (as many
digits as ``mpmath.mp`` says) and ``arb`` (balls of python-flint that enclose the exact value). The last two take a float at its exact
binary value; give a ``fractions.Fraction`` for 2/5. All compute common subexpressions once.

Arrays and tensors are stacked in front: a scalar has any shape ``(...)``, a D x R matrix the shape ``(..., D, R)``, and the dots
broadcast against each other, so that 20 values of N and one Lambda give 20 results. Integers become floats before anything is computed.
"""

import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath
import numpy as np
import sympy
from flint import arb
from sympy import Add, Basic, Integer, Max, Min, Piecewise, Pow, Rational, S, exp, lambdify, log
from sympy.codegen.cfunctions import expm1, log1p
from sympy.matrices.expressions import MatrixExpr, MatrixSymbol
from sympy.matrices.matrixbase import MatrixBase
from sympy.printing.pycode import AbstractPythonCodePrinter

from .._checks import instance, one_of
from .matrix_tape import compile_matrix_expression, stacked


class _ArbPrinter(AbstractPythonCodePrinter):
    """Prints Python source in which every number is a ball and every function a method of ``arb``."""

    def _print_Rational(self, expr: Rational) -> str:
        return f"(arb({expr.p})/{expr.q})"

    def _print_Float(self, expr: sympy.Float) -> str:
        raise ValueError(f"expression must be exact to be enclosed by a ball, got the rounded number {expr}")

    def _print_Pi(self, _expr: Basic) -> str:
        return "arb.pi()"

    def _print_Exp1(self, _expr: Basic) -> str:
        return "arb.const_e()"

    def _print_Pow(self, expr: Pow, rational: bool = False, sqrt: str = "") -> str:
        base, exponent = f"(arb(1)*({self._print(expr.base)}))", expr.exp
        if isinstance(exponent, Integer):
            return f"{base}**({exponent.p})"
        if isinstance(exponent, Rational):  # an exact root, then an integer power
            return f"({base}.root({exponent.q}))**({exponent.p})"
        return f"{base}**({self._print(exponent)})"

    def _print_Function(self, expr: sympy.Function) -> str:
        name = type(expr).__name__
        if not hasattr(arb, name):
            raise ValueError(f"expression must use functions that python-flint encloses, got {name}")
        arguments = ", ".join(f"arb(1)*({self._print(argument)})" for argument in expr.args)
        return f"arb.{name}({arguments})"

    _print_log = _print_log1p = _print_expm1 = _print_Function

    def _print_MatrixBase(self, expr: MatrixBase) -> str:
        return self._print(expr.tolist())

    _print_ImmutableDenseMatrix = _print_MatrixBase


def _harmonic(n: Any, order: Any = 1) -> Any:
    """sum_{m <= n} m^-order; mpmath.harmonic has order 1 only."""
    return mpmath.harmonic(n) if order == 1 else mpmath.zeta(order) - mpmath.zeta(order, n + 1)


BACKENDS: dict[str, dict[str, Any]] = {
    "numpy": {"modules": ["numpy"]},
    "torch": {"modules": "torch"},
    "mpmath": {"modules": [{"harmonic": _harmonic}, "mpmath"]},
    "arb": {"modules": [{"arb": arb}], "printer": _ArbPrinter({"fully_qualified_modules": False})},
}


def compile_expression(expr: object, arguments: Sequence[Basic], backend: str = "numpy") -> Callable[..., Any]:
    """A function that computes ``expr`` from values of ``arguments``, in that order.

    ``expr`` is a SymPy scalar, an explicit matrix, a matrix expression, an object whose method ``to_sympy`` returns one
    of these (a trace polynomial), or a tuple of them (the function then returns a tuple). ``arguments`` are the symbols
    and matrix symbols of ``expr``; sizes such as D are read off the matrices. A matrix is given as a 2-d array, a vector
    as a column.

    Raises ``ValueError`` for an unknown backend, for a symbol of ``expr`` that isn't an argument, and for a function
    without an implementation. The compiled function raises ``ValueError`` for arrays whose shapes don't agree and for values outside
    the conditions of a trace polynomial, such as N > D + 1, and ``TypeError`` for values that are not numbers.
    """
    one_of("backend", backend, BACKENDS)
    if backend == "torch" and "torch" not in sys.modules:
        raise ValueError("backend torch computes with tensors, and torch has not been imported")
    names = tuple(instance("arguments", arguments, Sequence, "a sequence of symbols"))
    for argument in names:
        if not isinstance(argument, (sympy.Symbol, MatrixSymbol)):
            raise TypeError(f"arguments must be symbols and matrix symbols, got {argument!r}")
    if len(set(names)) < len(names):
        raise ValueError(f"arguments must differ from each other, got {names}")
    return _checked(as_sympy(expr), names, backend, _conditions(expr))


def _conditions(expr: object) -> frozenset:
    """The inequalities under which a trace polynomial, or a tuple of them, holds."""
    parts = expr if isinstance(expr, tuple | list) else (expr,)
    return frozenset().union(*(getattr(part, "conditions", ()) for part in parts))


@cache
def _checked(expr: Basic | tuple, arguments: tuple[Basic, ...], backend: str, conditions: frozenset) -> Callable[..., Any]:
    """The compiled expression, which refuses values outside the conditions."""
    function = _compiled(expr, arguments, backend)
    if not conditions:
        return function
    ordered = sorted(conditions, key=str)
    gaps = _compiled(tuple(one.gts - one.lts for one in ordered), arguments, backend)

    def checked(*values: Any) -> Any:
        for condition, gap in zip(ordered, gaps(*values), strict=True):
            inside = gap > 0 if isinstance(condition, sympy.StrictGreaterThan | sympy.StrictLessThan) else gap >= 0
            if not (inside if isinstance(inside, bool) else inside.all()):
                raise ValueError(f"the formula holds for {condition}: {arguments} got {', '.join(map(str, values))}")
        return function(*values)

    return checked


def as_sympy(expr: object) -> Basic | tuple:
    """``expr`` as an immutable SymPy expression, a tuple item by item. Raises ``TypeError`` for anything else."""
    if isinstance(expr, (tuple, list)):
        return tuple(as_sympy(part) for part in expr)
    convert = getattr(expr, "to_sympy", None)
    try:
        symbolic = sympy.sympify(expr, strict=True) if convert is None else convert()
    except sympy.SympifyError as error:
        raise TypeError(f"expr must be a SymPy expression, got {expr!r}") from error
    return sympy.ImmutableMatrix(symbolic) if isinstance(symbolic, MatrixBase) else symbolic


@cache
def _compiled(expr: Basic | tuple, arguments: tuple[Basic, ...], backend: str) -> Callable[..., Any]:
    parts = expr if isinstance(expr, tuple) else (expr,)
    missing = set().union(*(part.free_symbols for part in parts)) - set(arguments)
    sizes = {size for argument in arguments if isinstance(argument, MatrixSymbol) for size in argument.shape}
    if any(part.has(MatrixExpr) for part in parts) or missing & sizes:
        if backend == "arb":
            raise ValueError("backend must be numpy, torch or mpmath for matrix expressions, got 'arb'")
        functions = [compile_matrix_expression(part, arguments, backend, _CONVERSIONS[backend], _scalar) for part in parts]
        if not isinstance(expr, tuple):
            return functions[0]
        return lambda *values: tuple(function(*values) for function in functions)
    if missing:
        raise ValueError(f"arguments must contain {sorted(map(str, missing))}, which are in the expression: got {arguments}")
    if backend == "arb" and any(part.has(Max, Min, Piecewise) for part in parts):
        raise ValueError(f"expression must not choose between branches, which a ball may not decide, got {expr}")
    function, convert = _scalar(expr, arguments, backend), _CONVERSIONS[backend]
    return lambda *values: function(*map(convert, values))


def _scalar(expr: Basic | tuple, arguments: tuple[Basic, ...], backend: str) -> Callable[..., Any]:
    """A function of numbers, or of arrays of numbers; the entries of an explicit matrix are computed apart and then stacked."""
    if backend in ("numpy", "torch") and isinstance(expr, MatrixBase):
        entries = _scalar(tuple(expr.flat()), arguments, backend)
        return lambda *values: stacked(backend, entries(*values), expr.shape)
    if isinstance(expr, tuple) and any(isinstance(part, MatrixBase) for part in expr):
        functions = [_scalar(part, arguments, backend) for part in expr]
        return lambda *values: tuple(function(*values) for function in functions)
    return lambdify(arguments, _keep_digits(expr), cse=True, docstring_limit=0, **BACKENDS[backend])


def _to_arb(value: Any) -> arb:
    if isinstance(value, Fraction):
        return arb(value.numerator) / value.denominator
    return value if isinstance(value, arb) else arb(value)


def _to_mpmath(value: Any) -> Any:
    if isinstance(value, Fraction):
        return mpmath.mpf(value.numerator) / value.denominator
    return mpmath.mpmathify(value.item() if isinstance(value, np.generic) else value)


def _to_float64(value: Any) -> Any:
    """Integers of any width, floats and arrays of them as float64: an 8-bit 31 squared is 961, not 193."""
    if isinstance(value, int | float):
        return float(value)
    array = np.asarray(value)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"values must be numbers or arrays of numbers, got {value!r}")
    return array[()] if array.dtype.kind == "c" else array.astype(np.float64, copy=False)[()]


def _to_tensor(value: Any) -> Any:
    """A tensor as it is if it has a floating type, anything else in float64."""
    torch = sys.modules["torch"]
    tensor = value if isinstance(value, torch.Tensor) else torch.as_tensor(value, dtype=torch.float64)
    return tensor if tensor.is_floating_point() else tensor.to(torch.float64)


# Without these an integer would reach the formula as a Python int, and 1/N would be a float.
_CONVERSIONS: dict[str, Callable[[Any], Any]] = {"numpy": _to_float64, "torch": _to_tensor, "mpmath": _to_mpmath, "arb": _to_arb}


def _keep_digits(expr: Basic | tuple) -> Basic | tuple:
    """log(1 + x) -> log1p(x) and exp(x) - 1 -> expm1(x), which are exact near x = 0."""
    if isinstance(expr, tuple):
        return tuple(_keep_digits(part) for part in expr)
    expr = expr.replace(
        lambda node: isinstance(node, log) and node.args[0].is_Add and S.One in node.args[0].args, lambda node: log1p(node.args[0] - 1)
    )

    def is_exp_minus_one(node: Basic) -> bool:
        return isinstance(node, Add) and S.NegativeOne in node.args and any(isinstance(x, exp) for x in node.args)

    def to_expm1(node: Add) -> Basic:
        power = next(term for term in node.args if isinstance(term, exp))
        return node - power + 1 + expm1(power.args[0])

    return expr.replace(is_exp_minus_one, to_expm1)
