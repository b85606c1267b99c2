r"""Any formula of this package as LaTeX or as text: trace polynomials, SymPy expressions, explicit matrices, and collections of them.

>>> from iclflow.theory.notation import B, Lambda, N, tau, w_init
>>> print(formula_latex(Lambda * Lambda.T / N))
\frac{1}{N} \boldsymbol{\Lambda}^{2}
>>> print(formula_latex(tau / w_init))
\frac{\tau}{w_{\rm init}}
>>> print(formula_latex(B.T * Lambda))
\boldsymbol{B}^{\top} \boldsymbol{\Lambda}

A SymPy expression keeps the shape in which it was typed; a :class:`~iclflow.theory.TracePolynomial` prints in its canonical order.
"""

from collections.abc import Mapping
from copy import copy
from functools import lru_cache
from re import search
from typing import Any

import sympy
from sympy import MatrixBase, MatrixExpr, Trace
from sympy.core.function import AppliedUndef
from sympy.printing.conventions import requires_partial
from sympy.printing.latex import LatexPrinter
from sympy.printing.precedence import PRECEDENCE

from ..algebra import printing
from ..algebra.polynomial import TracePolynomial
from .line_breaks import LINE, width
from .symbol_names import name_latex
from .text import PaperOrder, is_negative, trace_order, without_units, written

FUNCTIONS = (sympy.log, sympy.atan, sympy.atanh, sympy.Derivative)
SETTINGS = {"ln_notation": True, "inv_trig_style": "full", "mul_symbol": None, "fold_short_frac": False}


class _PaperPrinter(PaperOrder, LatexPrinter):
    """SymPy's printer with this package's names, and with the paper's transposes and traces."""

    def __init__(self, **settings):
        super().__init__(SETTINGS | settings)

    def _print_Symbol(self, expr, style="plain"):
        return name_latex(expr.name)

    def _print_MatrixSymbol(self, expr):
        return name_latex(expr.name, bold=True)

    def _print_Transpose(self, expr):
        return rf"{self._factor(expr.arg)}^{{\top}}"

    def _print_Inverse(self, expr):
        return f"{self._factor(expr.arg)}^{{-1}}"

    def _factor(self, expr) -> str:
        inner = self._print(expr)
        is_letter = isinstance(expr, sympy.MatrixSymbol | sympy.Identity) and not search(r"\^(\S|\{[^{}]*\})$", inner)
        return inner if is_letter else self._brackets(inner)

    def _print_Mul(self, expr):
        top, bottom = sympy.fraction(expr)
        if self._settings["long_frac_ratio"] and width(self._print(bottom)) > LINE:
            sign, top = ("- ", -top) if is_negative(top) else ("", top)
            top = self.parenthesize(top, PRECEDENCE["Mul"], strict=True)
            return f"{sign}{top} {self._brackets(self._print(bottom))}^{{-1}}"
        if isinstance(expr, sympy.Pow):  # a power with a negative exponent comes here too
            return super()._print_Mul(expr)
        functions = [factor for factor in expr.args if isinstance(factor, FUNCTIONS) or hasattr(factor, "apply")]
        others = expr.func(*(factor for factor in expr.args if factor not in functions))
        denominator = sympy.fraction(others)[1]
        if not functions or denominator == 1 or denominator.has(*FUNCTIONS):
            return super()._print_Mul(expr)
        return " ".join(map(self._print, [others, *functions]))  # a small fraction before ln or an operation, not a large one round it

    def _print_Trace(self, expr, exp=None):
        if expr.arg.shape == (1, 1) and exp is None:
            inner = self._print(expr.arg)
            return self._brackets(inner) if isinstance(expr.arg, sympy.MatAdd) else inner
        printed = r"\operatorname{tr}" + self._brackets(self._print(expr.arg))
        return printed if exp is None else f"{self._brackets(printed)}^{{{exp}}}"

    def _print_ExpBase(self, expr, exp=None):
        return self._do_exponent(f"e^{{{_exponent(expr.exp)}}}", exp)

    def _helper_print_standard_power(self, expr, template):
        template = template.replace("{%s}", f"{{{_exponent(expr.exp)}}}%.0s")  # in place of SymPy's own exponent
        return super()._helper_print_standard_power(expr, template)

    def _print_MatAdd(self, expr):
        terms = [self._print(term) for term in sorted(expr.args, key=trace_order)]
        if terms[0].startswith("-"):
            terms.sort(key=lambda term: term.startswith("-"))
        return " ".join([terms[0], *(f"- {term[1:].lstrip()}" if term.startswith("-") else f"+ {term}" for term in terms[1:])])

    def _hprint_Function(self, func):
        return name_latex(func) if "_" in func else super()._hprint_Function(func)

    def _print_Derivative(self, expr):
        (variable, order), *more = expr.variable_count
        if more:
            return super()._print_Derivative(expr)
        sign, power = r"\partial" if requires_partial(expr.expr) else "d", "" if order == 1 else f"^{{{self._print(order)}}}"
        inner, below = self._print(expr.expr), f"{sign} {self._print(variable)}{power}"
        if isinstance(expr.expr, AppliedUndef | sympy.Symbol):
            return rf"\frac{{{sign}{power} {inner}}}{{{below}}}"
        return rf"\frac{{{sign}{power}}}{{{below}}}\left[{inner}\right]"

    def _print_harmonic(self, expr, exp=None):
        number = f"H_{{{self._print(expr.args[0])}}}"
        if len(expr.args) > 1:
            number += f"^{{({self._print(expr.args[1])})}}"
            return rf"\left({number}\right)^{{{exp}}}" if exp else number
        return number + (f"^{{{exp}}}" if exp else "")

    def _print_MatMul(self, expr):
        return super()._print_MatMul(expr) if (plain := without_units(expr)) is expr else self._print(plain)

    def _print_Identity(self, expr):
        return "1" if expr.shape == (1, 1) else r"\boldsymbol{I}"

    def _print_ZeroMatrix(self, expr):
        return r"\boldsymbol{0}"

    def _print_OneMatrix(self, expr):
        return r"\boldsymbol{1} \boldsymbol{1}^{\top}"

    @staticmethod
    def _brackets(inner: str) -> str:
        return rf"\left({inner}\right)"


def _exponent(expr) -> str:
    """An exponent holds T / N in a line."""
    return _PaperPrinter(fold_short_frac=True).doprint(expr)


def formula_latex(formula: Any) -> str:
    r"""LaTeX without delimiters."""
    if isinstance(formula, Mapping):
        formula = tuple(formula.values())
    if isinstance(formula, tuple | list | set | frozenset):
        return r",\quad ".join(map(formula_latex, formula))
    if isinstance(formula, TracePolynomial):
        return printing.write(formula.terms, _POLYNOMIAL_STYLE)
    expression = sympy.sympify(formula)
    return _printed(expression.as_immutable() if isinstance(expression, MatrixBase) else expression)


@lru_cache(maxsize=1 << 14)
def _printed(expression: sympy.Basic) -> str:
    """Kept: SymPy takes milliseconds for a formula, and a page, a document and its data show the same ones."""
    printed = _PaperPrinter().doprint(expression)
    if width(printed) > LINE:  # a long numerator is set beside its fraction, where it can be broken
        return _PaperPrinter(long_frac_ratio=2).doprint(expression)
    return printed


def _power(base: str, exponent) -> str:
    """A power; a letter that has a superscript already goes into brackets."""
    grouped = base.startswith((r"\left(", r"\operatorname"))
    return rf"\left({base}\right)^{{{exponent}}}" if "^" in base and not grouped else f"{base}^{{{exponent}}}"


_POLYNOMIAL_STYLE = copy(printing.LATEX)
_POLYNOMIAL_STYLE.name, _POLYNOMIAL_STYLE.power = _PaperPrinter().doprint, _power
_POLYNOMIAL_STYLE.transposed = lambda name: _power(name, r"\top") if name[0] != "{" else rf"{name}^{{\top}}"


def formula_text(formula: Any) -> str:
    """A line of text (several, for explicit matrices)."""
    if isinstance(formula, Mapping):
        return "; ".join(f"{name}: {formula_text(part)}" if name else formula_text(part) for name, part in formula.items())
    if isinstance(formula, tuple | list | set | frozenset):
        return "; ".join(map(formula_text, formula))
    polynomial = _as_polynomial(formula)
    return written(formula) if polynomial is None else printing.text(polynomial.terms)


def _as_polynomial(formula: Any) -> TracePolynomial | None:
    """The trace polynomial of a formula in matrix symbols; None for scalar and explicit formulas, which SymPy prints itself."""
    if isinstance(formula, TracePolynomial):
        return formula
    if isinstance(formula, MatrixBase) or not isinstance(formula, sympy.Basic):
        return None
    if not isinstance(formula, MatrixExpr) and not formula.has(Trace):
        return None
    try:
        return TracePolynomial(formula)
    except ValueError:
        return None
