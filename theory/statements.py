"""Statements of entries ready for numbers: one part, changed if a fault is to be planted, with sums over directions written out.

>>> from iclflow.theory.notation import N
>>> print(statement("V3-unseen", "worst", {N: N + 1}))
(N + 1)/(T + sigma**2)
"""

from collections.abc import Mapping
from typing import Any

from sympy import Expr, Symbol

from .calculus.spectral import eigenvalue, indicator
from .calculus.substitution import substitute
from .equations import equation
from .notation import D

__all__ = ["directions", "statement"]


def statement(number: str, part: str | None = None, change: Mapping | None = None, size: int | None = None) -> Any:
    """The formula of an entry, or of one of its parts, with ``change`` put in; sums over directions written out for ``size`` of them.

    Their eigenvalues and indicators are then the symbols of :func:`directions`. Raises KeyError for an unknown entry or part.
    """
    formula = equation(number).statement
    formula = formula if part is None else formula[part]
    if size is not None:
        formula = formula.subs(D, size).doit().subs({base[d]: letter for base, d, letter in _letters(size)})
    if not change:
        return formula
    return formula.subs(change) if isinstance(formula, Expr) and formula.is_commutative else substitute(formula, change)


def _letters(size: int) -> list[tuple[Any, int, Symbol]]:
    kinds: list[tuple[Any, bool | None]] = [(eigenvalue, True), (indicator, None)]
    return [
        (base, d, Symbol(f"{base.name}_{d}", positive=positive)) for base, positive in kinds for d in range(1, size + 1)
    ]


def directions(size: int) -> tuple[Symbol, ...]:
    """The symbols of lambda_1, ..., lambda_D, chi_1, ..., chi_D in a statement written out."""
    return tuple(letter for *_, letter in _letters(size))
