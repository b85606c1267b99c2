"""An entry of the registry, and the two verbs that register one.

An equation's ``statement`` is the paper's side, typed once; its derivation computes the other side from definitions and never looks at
the statement. ``holds()`` is exact zero of the difference.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from ..calculus.equality import equal
from .derivation import Derivation
from .documents import render

__all__ = ["KINDS", "Equation", "Kind", "define", "register", "registry"]

Kind = Literal["definition", "exact", "limit", "approximation", "ansatz"]
KINDS = ("definition", "exact", "limit", "approximation", "ansatz")

registry: dict[str, "Equation"] = {}


@dataclass(frozen=True)
class Equation:
    """One statement of the paper, or of this project beside it.

    ``number``: the paper's, or that of a condition, a theorem or an appendix (M, S, C1, T1, C.1, ...).
    ``kind``: definition, exact, limit, approximation or ansatz.
    ``section``: where the paper has it. ``left``: the LaTeX of the left side, or {part: LaTeX}. ``typed``: gives the paper's right side,
    or {part: right side}. ``conditions``: what it assumes. ``erratum``: what is wrong, unclear or weaker than it could be in the paper.
    """

    number: str
    title: str
    kind: Kind
    section: str
    left: str | Mapping[str, str]
    typed: Callable[[], Any]
    conditions: tuple[str, ...] = ()
    erratum: str | None = None
    derivation: Callable[[], Derivation] | None = None

    @property
    def statement(self) -> Any:
        """The paper's right side, or {part: right side}."""
        return self.typed()

    @property
    def parts(self) -> Mapping[str, Any]:
        statement = self.statement
        return statement if isinstance(statement, Mapping) else {"": statement}

    @property
    def lefts(self) -> Mapping[str, str]:
        return self.left if isinstance(self.left, Mapping) else {"": self.left}

    def derive(self) -> Derivation:
        """Compute the equation from the definitions, step by step. ValueError for a definition, which has nothing to derive."""
        if self.derivation is None:
            raise ValueError(f"equation ({self.number}) is a definition: {self.title}; there is nothing to derive")
        return self.derivation().labelled(self.lefts)

    def holds(self) -> bool:
        """Is the computed side minus the typed side exactly zero? True of a definition."""
        return self.derivation is None or equal(dict(self.derive().parts), dict(self.parts))

    def __str__(self) -> str:
        return render(self)

    def _repr_markdown_(self) -> str:
        return render(self, "markdown")


def _add(entry: Equation) -> None:
    if entry.number in registry:
        raise ValueError(f"equation ({entry.number}) is registered twice")
    if entry.kind not in KINDS:
        raise ValueError(f"equation ({entry.number}): kind must be one of {KINDS}, got {entry.kind!r}")
    registry[entry.number] = entry


def define(
    number: str, title: str, *, section: str, left, typed: Callable[[], Any], conditions=(), erratum=None
) -> None:
    """Register a definition."""
    _add(Equation(number, title, "definition", section, left, typed, tuple(conditions), erratum))


def register(
    number: str, title: str, *, kind: Kind, section: str, left, typed: Callable[[], Any], conditions=(), erratum=None
):
    """Register the decorated function as the derivation of an equation; it is called at most once."""

    def decorate(function: Callable[[], Derivation]) -> Callable[[], Derivation]:
        derivation = cache(function)
        _add(Equation(number, title, kind, section, left, typed, tuple(conditions), erratum, derivation))
        return derivation

    return decorate
