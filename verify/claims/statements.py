"""Statements of the registry as functions of numbers, as they are and with a fault in them: what claims hold against measurements."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...numerics.compilation.expressions import compile_expression
from ...theory.statements import statement


def compiled(
    number: str, arguments: Sequence, part: str | None = None, change: Mapping | None = None, size: int | None = None
) -> Callable[..., Any]:
    """:func:`~iclflow.theory.statements.statement` as a function of its letters."""
    return compile_expression(statement(number, part, change, size), arguments)
