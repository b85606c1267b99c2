"""Statements of the registry as functions of numbers, as they are and with a fault in them: what claims hold against measurements."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sympy import Expr, Symbol

from ..numerics.compile import compile_expression
from ..theory.calculus import substitute
from ..theory.equations import equation
from ..theory.notation import D
from ..theory.spectral import eigenvalue, indicator


def statement(number: str, part: str | None = None, change: Mapping | None = None, size: int | None = None) -> Any:
    """The formula of an entry, or of one of its parts, with ``change`` put in; sums over directions written out for ``size`` of them.

    Their eigenvalues and indicators are then the symbols of :func:`directions`.
    """
    formula = equation(number).statement
    formula = formula if part is None else formula[part]
    if size is not None:
        formula = formula.subs(D, size).doit()
        formula = formula.subs({base[d]: letter for base, d, letter in _letters(size)})
    if not change:
        return formula
    return formula.subs(change) if isinstance(formula, Expr) and formula.is_commutative else substitute(formula, change)


def _letters(size: int) -> list[tuple[Any, int, Symbol]]:
    kinds: list[tuple[Any, bool | None]] = [(eigenvalue, True), (indicator, None)]
    return [
        (base, d, Symbol(f"{base.name}_{d}", positive=positive)) for base, positive in kinds for d in range(1, size + 1)
    ]


def directions(size: int) -> tuple[Symbol, ...]:
    """The symbols of lambda_1, ..., lambda_D, s_1, ..., s_D in a statement written out."""
    return tuple(letter for *_, letter in _letters(size))


def compiled(
    number: str, arguments: Sequence, part: str | None = None, change: Mapping | None = None, size: int | None = None
) -> Callable[..., Any]:
    """``statement`` as a function of its letters."""
    return compile_expression(statement(number, part, change, size), arguments)
