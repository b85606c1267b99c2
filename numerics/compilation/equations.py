r"""Equations of the registry as numeric functions of their letters.

``compiled`` evaluates the statement of an equation, which its proof shows equal to the derivation.

>>> from iclflow.theory.notation import lambda_, tau, v_0
>>> duration = compiled("68", (v_0, lambda_, tau))  # tau/(lambda^2 v_0), the duration of the first plateau
>>> duration(0.01, 0.5, 1.0)
400.0
>>> compiled("68", (v_0, lambda_, tau), change={v_0: 2 * v_0})(0.01, 0.5, 1.0)  # with a fault in it
200.0

Other formulas, such as a user's moment or loss, go through
:func:`~iclflow.numerics.compilation.expressions.compile_expression`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from sympy import Basic, Expr, Symbol
from sympy.matrices.expressions import MatrixSymbol

from ...theory.algebra.letters import letters as letters_of
from ...theory.calculus.spectral import written_out
from ...theory.calculus.substitution import substitute
from ...theory.equations import equation
from .._checks import instance, one_of, positive_integer
from .expressions import BACKENDS, as_sympy, compile_expression


def compiled(
    number: str | int,
    letters: Sequence[Basic],
    *,
    part: str | Sequence[str] | None = None,
    change: Mapping[Any, Any] | None = None,
    size: int | None = None,
    backend: str = "numpy",
) -> Callable[..., Any]:
    """The statement of equation ``number`` as a function of ``letters``, in that order. The first call compiles it, once.

    ``equation(number).letters`` holds the letters by name; sizes such as D are read off the matrices. ``part`` names one part of the
    equation, or several, for which the function returns a tuple. ``change`` replaces letters by expressions, for example to plant a
    fault. ``size`` writes sums over directions out for D = ``size``, in the letters of
    :func:`~iclflow.theory.calculus.spectral.directions`. ``backend`` is numpy, mpmath or arb, as in ``compile_expression``.

    ``letters`` may hold letters that the statement lacks. Raises ``KeyError`` for an unknown number or part, and ``ValueError`` for
    letters of the statement that ``letters`` lacks, a letter given twice, a size that is not a positive integer, or an unknown backend.
    """
    if isinstance(letters, str) or not isinstance(letters, Sequence):
        raise TypeError(f"letters must be a sequence of symbols, got {letters!r}")
    if change is not None and not isinstance(change, Mapping):
        raise TypeError(f"change must be a mapping {{letter: expression}}, got {change!r}")
    parts = part if part is None or isinstance(part, str) else tuple(instance("part", part, Sequence, "a name or a list of names"))
    entry = equation(number)
    source = entry.typed, entry.derivation  # another entry in its place is another formula
    return _compiled(entry.number, source, tuple(letters), parts, tuple(change.items()) if change else None, size, backend)


@cache
def _compiled(
    number: str,
    source: tuple[Callable[..., Any], ...],
    letters: tuple[Basic, ...],
    parts: str | tuple[str, ...] | None,
    change: tuple[tuple[Any, Any], ...] | None,
    size: int | None,
    backend: str,
) -> Callable[..., Any]:
    one_of("backend", backend, BACKENDS)
    for letter in letters:
        if not isinstance(letter, Symbol | MatrixSymbol):
            raise TypeError(f"letters must be symbols and matrix symbols, got {letter!r}")
    if len(set(letters)) < len(letters):
        raise ValueError(f"letters must differ from each other, got {letters}")
    entry = equation(number)

    def formula(part: str | None) -> Any:
        statement = entry.part(part)
        if size is not None:
            statement = written_out(statement, positive_integer("size", size))
        if change is None:
            return statement
        scalar = isinstance(statement, Expr) and statement.is_commutative
        return statement.subs(dict(change)) if scalar else substitute(statement, dict(change))

    whole = as_sympy(tuple(map(formula, parts)) if isinstance(parts, tuple) else formula(parts))
    missing = letters_of(whole).symbols - _given(letters)
    if missing:
        names = sorted(map(str, missing))
        hint = "; one of that name has other assumptions or another shape" if {*names} & {*map(str, letters)} else ""
        raise ValueError(f"equation ({entry.number}): letters must contain {names}, got {letters}{hint}")

    @cache
    def function() -> Callable[..., Any]:
        return compile_expression(whole, letters, backend)

    return lambda *values: function()(*values)


def _given(letters: tuple[Basic, ...]) -> set[Basic]:
    """The letters, and the sizes that are read off the matrices among them."""
    sizes = {size for letter in letters if isinstance(letter, MatrixSymbol) for size in letter.shape}
    return {*letters, *(size for size in sizes if isinstance(size, Symbol))}
