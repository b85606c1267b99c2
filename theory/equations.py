"""The registry: every numbered equation of the paper, and the claims beside them, each with its derivation.

>>> equation("31").holds()
True
>>> print(equation("31").derive().parts["second"])
(1 + 1/N) Lambda^2 + 1/N tr(Lambda) Lambda

Equations are registered where they are derived, by :func:`~iclflow.theory.derivations.registry.register` and
:func:`~iclflow.theory.derivations.registry.define`, in the folders of ``results``.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from re import escape, fullmatch

from .derivations.book import entries as loaded, load
from .derivations.registry import Equation

__all__ = ["equation", "equations", "search"]


def _order(number: str) -> tuple:
    letters, digits, rest = fullmatch(r"(\D*)(\d*)(.*)", number).groups()  # type: ignore[union-attr]
    return letters, int(digits or 0), rest


def equations() -> tuple[Equation, ...]:
    """All of them: the numbered ones in the paper's order, then the lettered ones."""
    entries = load()
    return tuple(entries[number] for number in sorted(entries, key=_order))


def _nearest(key: str, entries: Mapping[str, Equation]) -> list[str]:
    """The numbers closest in value, or in spelling if it is not a number."""
    if key.isdigit():
        numbered = [number for number in entries if fullmatch(r"\d+[a-z]?", number)]
        return sorted(numbered, key=lambda number: abs(_order(number)[1] - int(key)))[:3]
    return get_close_matches(key, entries, n=3, cutoff=0.1)


def equation(number: str | int) -> Equation:
    """The equation with this number; KeyError names the parts of one that has parts, or the nearest numbers."""
    if isinstance(number, bool) or not isinstance(number, str | int):
        raise TypeError(f"equation: number must be a string or an integer such as '31', got {number!r}")
    key = str(number).strip().strip("()")
    entries = loaded if key in loaded else load()
    if key not in entries:
        parts = [number for number in entries if fullmatch(rf"{escape(key)}[a-z]", number)]
        if parts:
            raise KeyError(f"equation ({key}) has the parts {', '.join(parts)}; ask for one of them")
        near = _nearest(key, entries)
        raise KeyError(f"no equation ({key}); the nearest are {', '.join(near) or ', '.join(list(entries)[:3])}")
    return entries[key]


def search(words: str) -> tuple[Equation, ...]:
    """The equations whose number, title, section, conditions or erratum contain every word."""
    if not isinstance(words, str):
        raise TypeError(f"search: words must be a string, got {words!r}")
    wanted = words.lower().split()
    if not wanted:
        raise ValueError("search: needs at least one word")

    def text(entry: Equation) -> str:
        return " ".join([entry.number, entry.title, entry.section, entry.erratum or "", *map(str, entry.conditions)]).lower()

    return tuple(entry for entry in equations() if all(word in text(entry) for word in wanted))
