"""The registry: every numbered equation of the paper, and the claims beside them, each with its derivation.

>>> equation("31").holds()
True
>>> print(equation("31").derive().parts["second"])
(1 + 1/N) Lambda^2 + 1/N tr(Lambda) Lambda

An equation's ``statement`` is the paper's side, typed once; its derivation computes the other side from definitions and never looks at
the statement. ``holds()`` is exact zero of the difference. Equations are registered where they are derived, by :func:`register` and
:func:`define`, in the modules listed in ``SECTIONS``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from re import escape, fullmatch
from typing import Any, Literal

from .derivation import Derivation
from .exact import equal

__all__ = ["Equation", "define", "equation", "equations", "register", "search"]

Kind = Literal["definition", "exact", "limit", "approximation", "ansatz"]
KINDS = ("definition", "exact", "limit", "approximation", "ansatz")

SECTIONS = (
    "task",
    "second_moments",
    "separate",
    "conservation",
    "landscape",
    "conditions",
    "levels",
    "completeness",
    "stability",
    "index_theorem",
    "saddles",
    "minimal_norm",
    "minimal_norm_bound",
    "attention",
    "unreduced_attention",
    "reduced_attention",
    "zero_blocks",
    "transverse",
    "mirror_sector",
    "kronecker",
    "networks",
    "merged",
    "initialization",
    "cubic_features",
    "algorithms",
    "white",
    "aligned",
    "merged_plateau",
    "waiting",
    "durations",
    "unreduced",
    "moving_blocks",
    "idle_heads",
    "five_weights",
    "five_weights_error",
    "optimality",
    "unseen",
    "high_dimension",
    "discrete",
    "force_noise",
    "stable_steps",
    "momentum",
    "merged_drop",
    "drop_bounds",
    "turning",
    "two_steps",
    "rank_plateaus",
    "population",
    "label_noise",
    "whitened",
    "task_covariance",
    "learning_order",
    "shift",
    "unseen_directions",
    "random_length",
    "token_laws",
)

_registry: dict[str, "Equation"] = {}


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
        from .export import render  # which builds on this module

        return render(self)

    def _repr_markdown_(self) -> str:
        from .export import render

        return render(self, "markdown")


def _add(entry: Equation) -> None:
    if entry.number in _registry:
        raise ValueError(f"equation ({entry.number}) is registered twice")
    if entry.kind not in KINDS:
        raise ValueError(f"equation ({entry.number}): kind must be one of {KINDS}, got {entry.kind!r}")
    _registry[entry.number] = entry


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


def _load() -> dict[str, Equation]:
    for section in SECTIONS:
        import_module(f".{section}", __package__)
    return _registry


def _order(number: str) -> tuple:
    letters, digits, rest = fullmatch(r"(\D*)(\d*)(.*)", number).groups()  # type: ignore[union-attr]
    return letters, int(digits or 0), rest


def equations() -> tuple[Equation, ...]:
    """All of them: the numbered ones in the paper's order, then the lettered ones."""
    registry = _load()
    return tuple(registry[number] for number in sorted(registry, key=_order))


def _nearest(key: str, registry: Mapping[str, Equation]) -> list[str]:
    """The numbers closest in value, or in spelling where it is no number."""
    if key.isdigit():
        numbered = [number for number in registry if fullmatch(r"\d+[a-z]?", number)]
        return sorted(numbered, key=lambda number: abs(_order(number)[1] - int(key)))[:3]
    return get_close_matches(key, registry, n=3, cutoff=0.1)


def equation(number: str | int) -> Equation:
    """The equation with this number; KeyError names the parts of one that has parts, or the nearest numbers."""
    if isinstance(number, bool) or not isinstance(number, str | int):
        raise TypeError(f"equation: number must be a string or an integer such as '31', got {number!r}")
    registry = _load()
    key = str(number).strip().strip("()")
    if key not in registry:
        parts = [number for number in registry if fullmatch(rf"{escape(key)}[a-z]", number)]
        if parts:
            raise KeyError(f"equation ({key}) has the parts {', '.join(parts)}; ask for one of them")
        near = _nearest(key, registry)
        raise KeyError(f"no equation ({key}); the nearest are {', '.join(near) or ', '.join(list(registry)[:3])}")
    return registry[key]


def search(words: str) -> tuple[Equation, ...]:
    """The equations whose number, title, section, conditions or erratum contain every word."""
    if not isinstance(words, str):
        raise TypeError(f"search: words must be a string, got {words!r}")
    wanted = words.lower().split()
    if not wanted:
        raise ValueError("search: needs at least one word")

    def text(entry: Equation) -> str:
        return " ".join([entry.number, entry.title, entry.section, entry.erratum or "", *entry.conditions]).lower()

    return tuple(entry for entry in equations() if all(word in text(entry) for word in wanted))
