r"""Formulas as text: powers by ``^``, products by blanks, ``'`` for a transpose, indices by ``_``, matrices drawn.

>>> from sympy import Abs, IndexedBase, Matrix, Min, Product, Sum, Symbol, gamma, hyper, log, sqrt
>>> x, N, d = Symbol("x", positive=True), Symbol("N"), Symbol("d", integer=True)
>>> print(written(x**2 * sqrt(x + 1) / (2 * N) - log(x) / N))
x^2 sqrt(x + 1)/(2 N) - ln(x)/N
>>> total = Sum(IndexedBase("lambda")[d] ** 2, (d, 1, N))
>>> print(written(1 - 2 * total), "or", written(total**2 / N))
1 - 2 (sum_(d=1..N) lambda_d^2) or (sum_(d=1..N) lambda_d^2)^2/N
>>> print(written(Product(x + d, (d, 1, Min(3, N))) / 2), "and", written(gamma(x) - hyper((1, x), (2,), 1 / N) * Abs(N)))
prod_(d=1..min(3, N)) (d + x)/2 and Gamma(x) - |N| 2F1(1, x; 2; 1/N)
>>> print(written(Matrix([[1, x + 1], [0, x**2]])))
[ 1  x + 1 ]
[ 0  x^2   ]
"""

from re import sub
from typing import Any

import sympy
from sympy import Add, Integral, Limit, MatMul, MatrixBase, Mul, Pow, Product, Rational, Sum, Trace
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter

from ..algebra.letters import printed_name


class PaperOrder:
    """The order of the terms of a sum, for printers of SymPy: 1 + T/N, and no minus at the beginning if it can be avoided."""

    def _as_ordered_terms(self, expr, order=None):
        if expr.has(Trace):
            terms = sorted(expr.args, key=trace_order)
        else:
            terms = list(super()._as_ordered_terms(expr, order))  # type: ignore[misc]
            if any(sympy.fraction(term)[1] != 1 for term in terms if not term.is_number):
                terms.sort(key=lambda term: not term.is_number)
        if is_negative(terms[0]):
            terms.sort(key=is_negative)
        return terms


def is_negative(term: Any) -> bool:
    if isinstance(term, MatMul):
        return term.as_coeff_matrices()[0].could_extract_minus_sign()
    return bool(term.as_coeff_Mul()[0].is_negative)


def trace_order(term: Any) -> tuple[int, int]:
    """Sums of traces in the order of a paper: by the number of traces, then by the number of letters."""
    powers = {power.base: power.exp for power in term.atoms(sympy.MatPow, sympy.Pow) if power.exp.is_Integer}
    traces = sum(powers.get(trace, 1) for trace in term.atoms(Trace))
    return int(traces), sum(isinstance(node, sympy.MatrixSymbol) for node in sympy.preorder_traversal(term))


class _TextPrinter(PaperOrder, StrPrinter):
    """SymPy's printer of strings in this project's style. Nodes of our own print themselves by ``_plain_text``.

    A sum, an integral or a limit reaches to the end of its term, so it stands in brackets before another factor or term.
    """

    printmethod = "_plain_text"

    def parenthesize(self, item, level, strict=False):
        text = self._print(item)
        if level >= PRECEDENCE["Pow"]:
            brackets = _has_parts(text) or text.startswith("-") or "^((" in text
        elif isinstance(item, Trace):
            brackets = item.arg.shape == (1, 1) and _has_parts(text)
        else:
            brackets = level >= PRECEDENCE["Mul"] and _is_open(text)
        return f"({text})" if brackets else super().parenthesize(item, level, strict)

    def _print_Add(self, expr, order=None):
        return self._sum(self._as_ordered_terms(expr, order))

    def _sum(self, terms) -> str:
        pieces = sorted(map(self._print, terms), key=_is_open)
        pieces[:-1] = [sub("^(-?)(.*)", r"\1(\2)", piece) if _is_open(piece) else piece for piece in pieces[:-1]]
        return pieces[0] + "".join(f" - {piece[1:]}" if piece.startswith("-") else f" + {piece}" for piece in pieces[1:])

    def _print_Mul(self, expr):
        negative = expr.as_coeff_Mul()[0].is_negative
        sign = "-" if negative else ""
        top, bottom = sympy.fraction(-expr if negative else expr)
        above = self._factors(top)
        if bottom == 1:
            return sign + above
        below = self._factors(bottom)
        below = f"({below})" if _has_parts(below) else below
        return f"{sign}({above})/{below}" if isinstance(top, Add) else f"{sign}{above}/{below}"

    def _factors(self, product) -> str:
        if not isinstance(product, Mul):
            return self._print(product)
        factors = product.as_ordered_factors()
        factors.sort(
            key=lambda one: (one.has(Sum, Product, Integral, Limit), not one.is_number, isinstance(one, Add), one.has(sympy.Function))
        )
        return " ".join(self.parenthesize(one, PRECEDENCE["Mul"]) for one in factors)

    def _print_Rational(self, expr):
        return f"{expr.p}/{expr.q}" if expr.q != 1 else str(expr.p)

    def _print_Pow(self, expr, rational=False):
        base, exponent = expr.base, expr.exp
        if exponent == Rational(1, 2):
            return f"sqrt({self._print(base)})"
        if exponent.is_Rational and exponent.is_negative:
            below = self._print(Pow(base, -exponent))
            return f"1/({below})" if _has_parts(below) else f"1/{below}"
        power = self._print(exponent)
        power = power if exponent.is_Integer or exponent.is_Symbol else f"({power})"
        return f"{self.parenthesize(base, PRECEDENCE['Pow'])}^{power}"

    def _print_log(self, expr):
        return f"ln({self._print(expr.args[0])})"

    def _print_Symbol(self, expr):
        return printed_name(expr)

    _print_Indexed = _print_MatrixSymbol = _print_Symbol

    def _print_Abs(self, expr):
        return f"|{self._print(expr.args[0])}|"

    def _print_Determinant(self, expr):
        return f"det({self._print(expr.arg)})"

    def _print_gamma(self, expr):
        return f"Gamma({self._print(expr.args[0])})"

    def _print_harmonic(self, expr):
        index, *order = map(self._print, expr.args)
        return (f"H_({index})" if _has_parts(index) else f"H_{index}") + "".join(f"^(({one}))" for one in order)

    def _print_hyper(self, expr):
        above, below = (", ".join(map(self._print, numbers)) for numbers in expr.args[:2])
        return f"{len(expr.ap)}F{len(expr.bq)}({above}; {below}; {self._print(expr.argument)})"

    def _print_LatticeOp(self, expr):
        return f"{expr.func.__name__.lower()}({', '.join(map(self._print, sorted(expr.args, key=str)))})"

    def _print_Sum(self, expr, name="sum"):
        limits = ", ".join(f"{self._print(d)}={self._print(low)}..{self._print(high)}" for d, low, high in expr.limits)
        return f"{name}_({limits}) {self.parenthesize(expr.function, PRECEDENCE['Mul'], strict=True)}"

    def _print_Product(self, expr):
        return self._print_Sum(expr, "prod")

    def _print_Integral(self, expr):
        spans = [f"_({self._print(one[1])}..{self._print(one[2])})" if len(one) == 3 else "" for one in expr.limits]
        variables = "".join(f" d{self._print(one[0])}" for one in expr.limits)
        return f"int{''.join(spans)} {self.parenthesize(expr.function, PRECEDENCE['Mul'], strict=True)}{variables}"

    def _print_Derivative(self, expr):
        variable, order = expr.variable_count[0]
        power = "" if order == 1 else f"^{self._print(order)}"
        return f"d{power}/d{self._print(variable)}{power} [{self._print(expr.expr)}]"

    def _print_Limit(self, expr):
        body, letter, target, _ = expr.args
        return f"lim_({self._print(letter)} -> {self._print(target)}) {self.parenthesize(body, PRECEDENCE['Mul'], strict=True)}"

    def _print_Infinity(self, expr):
        return "infinity"

    # Matrices

    def _print_MatMul(self, expr):
        expr = without_units(expr)
        if not isinstance(expr, sympy.MatMul):
            return self._print(expr)
        coefficient, matrices = expr.as_coeff_matrices()
        product = " ".join(self.parenthesize(one, PRECEDENCE["Mul"]) for one in matrices)
        sign = "-" if coefficient.could_extract_minus_sign() else ""
        coefficient = -coefficient if sign else coefficient
        if coefficient == 1:
            return f"{sign}{product}"
        return f"{sign}{self.parenthesize(coefficient, PRECEDENCE['Mul'], strict=True)} {product}"

    def _print_MatAdd(self, expr):
        return self._sum(sorted(expr.args, key=is_negative))

    def _print_MatPow(self, expr):
        return f"{self.parenthesize(expr.base, PRECEDENCE['Pow'])}^{self._print(expr.exp)}"

    def _print_Inverse(self, expr):
        return f"{self.parenthesize(expr.arg, PRECEDENCE['Pow'])}^-1"

    def _print_Transpose(self, expr):
        return f"{self.parenthesize(expr.arg, PRECEDENCE['Pow'])}'"

    def _print_Trace(self, expr):
        inner = self._print(expr.arg)
        return inner if expr.arg.shape == (1, 1) else f"tr({inner})"

    def _print_Identity(self, expr):
        return "1" if expr.shape == (1, 1) else "I"

    def _print_OneMatrix(self, expr):
        return "1 1'"

    def _print_BlockMatrix(self, expr):
        return "[" + ", ".join(f"[{', '.join(map(self._print, row))}]" for row in expr.blocks.tolist()) + "]"

    def _print_KroneckerProduct(self, expr):
        return " (x) ".join(self.parenthesize(one, PRECEDENCE["Mul"]) for one in expr.args)

    def _print_MatrixBase(self, expr: MatrixBase) -> str:
        alone = self._print_level == 1
        cells = [[self._print(entry) for entry in expr.row(i)] for i in range(expr.rows)]
        if not alone:
            return "[" + ", ".join(f"[{', '.join(row)}]" for row in cells) + "]"
        widths = [max(len(row[j]) for row in cells) for j in range(expr.cols)]
        rows = ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in cells]
        return "\n".join(f"[ {row} ]" for row in rows)

    _print_ImmutableDenseMatrix = _print_MutableDenseMatrix = _print_ImmutableMatrix = _print_MatrixBase


def written(formula: Any) -> str:
    """A SymPy expression as text, in one line unless it is an explicit matrix."""
    return _TextPrinter({"order": None}).doprint(sympy.sympify(formula))


def _has_parts(text: str) -> bool:
    """Does a text hold a blank or a fraction outside its brackets?"""
    depth = 0
    for sign in text:
        depth += (sign in "([") - (sign in ")]")
        if sign in " /" and depth == 0:
            return True
    return False


def _is_open(text: str) -> bool:
    """Does it begin with an operation that reaches to its end?"""
    return text.lstrip("-").startswith(("sum_", "prod_", "int_", "int ", "lim_"))


def without_units(product: Any) -> Any:
    """A product without its factors 1, the 1 x 1 identity."""
    rest = [factor for factor in product.args if not (isinstance(factor, sympy.Identity) and factor.shape == (1, 1))]
    if len(rest) == len(product.args):
        return product
    return rest[0] if len(rest) == 1 else type(product)(*rest) if rest else sympy.Identity(1)
