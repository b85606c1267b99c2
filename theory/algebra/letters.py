"""The symbols of a formula by their printed names.

>>> from sympy import Function, IndexedBase, Symbol
>>> t, lam = Symbol("t"), IndexedBase("lambda")
>>> letters([Function("v")(t) + lam[1], {"speed": 2 * t}])
{'lambda_1': lambda[1], 't': t, 'v(t)': v(t)}
>>> letters(Symbol("x", real=True) + Symbol("x", positive=True))["x"]
Traceback (most recent call last):
ValueError: letters: x names 2 symbols here: Symbol('x', positive=True), Symbol('x', real=True); take one of letters.symbols
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import sympy
from sympy import Basic, Dummy, Indexed, MatrixBase
from sympy.core.function import AppliedUndef
from sympy.matrices.expressions import MatrixSymbol


class Letters(Mapping[str, Any]):
    """{printed name: symbol}, in alphabetical order; ``symbols`` is the set of all symbols.

    Symbols that differ in shape, symmetry or assumptions may print alike. Looking up such a name raises ValueError, which describes them.
    """

    def __init__(self, symbols: Iterable = ()):
        self.symbols = frozenset(symbols)
        self._named: dict[str, list] = {}
        for symbol in sorted(self.symbols, key=lambda symbol: (printed_name(symbol), _described(symbol))):
            self._named.setdefault(printed_name(symbol), []).append(symbol)

    def __getitem__(self, name: str) -> Any:
        found = self._named.get(name)
        if found is None:
            raise KeyError(f"letters: no symbol is called {name!r}; the names are {', '.join(self) or 'none'}")
        if len(found) > 1:
            raise ValueError(
                f"letters: {name} names {len(found)} symbols here: {', '.join(map(_described, found))}; take one of letters.symbols"
            )
        return found[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._named)

    def __len__(self) -> int:
        return len(self._named)

    def __contains__(self, name: object) -> bool:
        return name in self._named

    def __repr__(self) -> str:
        return repr({name: found if len(found) > 1 else found[0] for name, found in self._named.items()})


def letters(formula: Any) -> Letters:
    """The free symbols of a formula as {printed name: symbol}, with its applied functions, v(t), and indexed symbols, lambda_d.

    ``formula``: a SymPy expression or matrix, a trace polynomial, an equation, a derivation, or a tuple, list or mapping of these.
    Raises TypeError for anything else.
    """
    return Letters(_symbols(formula))


def _symbols(formula: Any) -> frozenset:
    own = getattr(formula, "letters", None)
    if isinstance(own, Letters):
        return own.symbols
    if isinstance(formula, Mapping):
        formula = tuple(formula.values())
    if isinstance(formula, tuple | list):
        return frozenset().union(*map(_symbols, formula))
    try:
        return symbols_in(sympy.sympify(formula, strict=True))
    except sympy.SympifyError:
        raise TypeError(f"letters: formula must be a formula or a collection of formulas, got {formula!r}") from None


def symbols_in(expression: Basic | MatrixBase) -> frozenset:
    """The free symbols of a SymPy expression, its applied functions and its indexed symbols (not their bases)."""
    indexed = {one: Dummy() for one in expression.atoms(Indexed)}
    bases = {one.base.label for one in indexed} - expression.xreplace(indexed).free_symbols
    return frozenset(expression.free_symbols - bases | indexed.keys() | expression.atoms(AppliedUndef))


def printed_name(symbol: Any) -> str:
    """The name of a symbol in text: lambda_d for lambda[d], lambda_(m + 1) for lambda[m + 1], lambda_(m+1) for lambda_{m+1}."""
    if not isinstance(symbol, Indexed):
        return str(symbol).replace("{", "(").replace("}", ")")
    index = ",".join(map(str, symbol.indices))
    return f"{symbol.base.label}_{index if index.isalnum() else f'({index})'}"


def _described(symbol: Any) -> str:
    if not isinstance(symbol, MatrixSymbol):
        return sympy.srepr(symbol)
    symmetric = "symmetric " if getattr(symbol, "is_symmetric_letter", False) else ""
    return f"a {symmetric}matrix of shape {tuple(symbol.shape)}"
