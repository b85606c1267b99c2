r"""Any formula of this package as LaTeX, as text or as JSON-ready strings: trace polynomials, SymPy expressions, explicit matrices.

>>> from iclflow.theory.notation import Lambda, N, tau, w_init
>>> formula_latex(Lambda * Lambda.T / N)
'\\frac{1}{N} \\boldsymbol{\\Lambda}^{2}'
>>> print(formula_latex(tau / w_init))
\frac{\tau}{w_{\rm init}}
"""

from collections.abc import Mapping
from typing import Any

import sympy
from sympy import MatrixBase, MatrixExpr, Trace

from .printing import latex as polynomial_latex
from .printing import text as polynomial_text
from .trace_algebra import TracePolynomial

__all__ = ["formula_latex", "formula_text"]

_SYMBOL_NAMES = {"w_init": r"w_{\rm init}"}


def formula_latex(formula: Any, *, transpose: str = r"\top") -> str:
    r"""LaTeX without delimiters; ``transpose`` is the superscript of a transposed matrix, ``\top`` or ``T``."""
    if isinstance(formula, Mapping):
        return r",\quad ".join(formula_latex(part, transpose=transpose) for part in formula.values())
    if isinstance(formula, tuple | list):
        return r",\quad ".join(formula_latex(part, transpose=transpose) for part in formula)
    polynomial = _as_polynomial(formula)
    if polynomial is not None:
        return polynomial_latex(polynomial).replace(
            r"^\top", rf"^{{{transpose}}}" if transpose != r"\top" else r"^\top"
        )
    names = {
        symbol: _SYMBOL_NAMES[str(symbol)]
        for symbol in getattr(formula, "free_symbols", ())
        if str(symbol) in _SYMBOL_NAMES
    }
    return sympy.latex(formula, symbol_names=names)


def formula_text(formula: Any) -> str:
    """A line of text (several, for explicit matrices)."""
    if isinstance(formula, Mapping):
        return "; ".join(f"{name}: {formula_text(part)}" for name, part in formula.items())
    if isinstance(formula, tuple | list):
        return "; ".join(map(formula_text, formula))
    polynomial = _as_polynomial(formula)
    return sympy.sstr(formula) if polynomial is None else polynomial_text(polynomial)


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
