"""What ``iclflow check`` does: prove every equation, measure every claim, and keep the evidence together by equation."""

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from importlib.metadata import version
from typing import Any, Literal, get_args

from ...theory.derivations.judging.trial import Status
from ...theory.derivations.registry import Equation
from ...theory.equations import equations
from ..claims.book import Check, Claim, load

# Titles of the claims about sections and figures of the paper, which have no number in the registry.
SECTIONS = {"Sec. 3.3": "Training dynamics of merged attention", "Sec. 4.3": "Training dynamics of separate attention"}

# What holds if the lines of an entry of a kind hold.
SENSES: dict[str, str] = {
    "exact": "its lines hold",
    "definition": "the lines that follow from it hold",
    "limit": "its lines hold, those of the limit in the limit",
    "approximation": "its lines hold to the stated order",
    "ansatz": "its lines hold for weights of the assumed form",
}


@dataclass(frozen=True)
class LineVerdict:
    """How one line of a derivation was judged."""

    status: Status
    relation: str
    method: str


@dataclass(frozen=True)
class ConditionVerdict:
    """Whether a condition is needed: True with a point outside it where a line fails, False if none was found, None without a test."""

    text: str
    needed: bool | None
    point: str | None = None


@dataclass(frozen=True)
class Proof:
    """Whether every line holds and the last lines equal the typed sides exactly; "none" without a derivation."""

    status: Literal["holds", "fails", "none"]
    seconds: float
    error: str | None = None
    lines: tuple[LineVerdict, ...] = ()
    conditions: tuple[ConditionVerdict, ...] = ()


@dataclass(frozen=True)
class Entry:
    """An equation with its proof and its claims."""

    equation: str
    title: str
    kind: str
    proof: Proof
    claims: tuple[Claim, ...]
    source: Equation | None = None

    @property
    def sense(self) -> str:
        """What it means that the lines of an entry of this kind hold."""
        return f"{self.kind}: {SENSES[self.kind]}" if self.proof.status == "holds" else ""


@dataclass(frozen=True)
class Evidence:
    """The entries done so far; ``planned`` is the number of all, so that a partial report says how many it lacks."""

    entries: tuple[Entry, ...] = ()
    planned: int = 0
    seconds: float = 0.0
    seed: int = 0
    version: str = version("iclflow")

    @property
    def verdicts(self) -> list[str]:
        """The statuses of all proofs and claims."""
        found = [entry.proof.status for entry in self.entries] + [c.status for e in self.entries for c in e.claims]
        return [verdict for verdict in found if verdict != "none"]

    @property
    def summary(self) -> dict[str, int]:
        return {"holds": self.verdicts.count("holds"), "fails": self.verdicts.count("fails")}

    @property
    def lines(self) -> dict[str, int]:
        """How many lines have each status; definitions are counted apart."""
        found = [line for entry in self.entries for line in entry.proof.lines]
        counts = {status: sum(one.status == status and one.relation != ":=" for one in found) for status in get_args(Status)}
        return {"defined": sum(one.relation == ":=" for one in found), **counts}

    @property
    def conditions(self) -> dict[str, int]:
        """How many conditions are needed, how many not as far as is known, and how many are about the data or the model, not a point."""
        found = [one.needed for entry in self.entries for one in entry.proof.conditions]
        return {"needed": found.count(True), "not known to be needed": found.count(False), "of the data or the model": found.count(None)}

    @property
    def underived(self) -> dict[str, int]:
        """How many notes of the entries argue what no line derives, and how many say what is only measured."""
        notes = [note for entry in self.entries if entry.source for note in entry.source.notes]
        return {how: sum(note.startswith(f"{how.capitalize()}, not derived") for note in notes) for how in ("argued", "measured")}

    @property
    def complete(self) -> bool:
        return len(self.entries) == self.planned

    def to_json(self) -> dict[str, Any]:
        """The document of ``--json``: plain strings, numbers and None."""
        return {
            "iclflow": self.version,
            "complete": self.complete,
            "planned": self.planned,
            "seed": self.seed,
            "entries": [
                {
                    "equation": entry.equation,
                    "title": entry.title,
                    "kind": entry.kind,
                    "proof": {"status": entry.proof.status, "seconds": entry.proof.seconds},
                    "lines": [{"status": line.status, "relation": line.relation} for line in entry.proof.lines],
                    "conditions": [asdict(condition) for condition in entry.proof.conditions],
                    "claims": [
                        {key: value for key, value in asdict(claim).items() if key not in ("equation", "error")} for claim in entry.claims
                    ],
                }
                for entry in self.entries
            ],
            "summary": self.summary,
        }


@dataclass(frozen=True)
class Subject:
    """The work for one equation."""

    number: str
    title: str
    kind: str
    source: Equation | None
    checks: tuple[Check, ...]

    @property
    def expected_seconds(self) -> float:
        """A rough estimate for the time left: slow claims cost about a hundred times as much as others."""
        return 0.04 + sum(15.0 if check.slow else 0.15 for check in self.checks)


def prove(source: Equation | None, seed: int = 0) -> Proof:
    """Judge every line and run the exact comparison; an exception makes it fail."""
    if source is None:
        return Proof("none", 0.0)
    start = time.perf_counter()
    lines: list[LineVerdict] = []
    conditions: tuple[ConditionVerdict, ...] = ()
    try:
        error = None if source.holds() else "the two sides differ"
        for number, line in enumerate(source.lines, 1):
            verdict = line.verify(seed=seed)
            lines.append(LineVerdict(verdict.status, line.relation, verdict.method))
            if verdict.status == "fails" and error is None:
                error = f"line {number} ({line.reason}) fails {verdict.method}: {verdict.residual}, {verdict.point}"
        conditions = tuple(
            ConditionVerdict(str(one), is_needed, point and str(point)) for one, is_needed, point in source.needed(seed=seed)
        )
    except Exception as problem:
        error = f"{type(problem).__name__}: {problem}"
    status = "fails" if error else "holds" if source.derivation is not None else "none"
    return Proof(status, time.perf_counter() - start, error, tuple(lines), conditions)


def plan(
    numbers: Sequence[str] | None = None,
    *,
    full: bool = False,
    registry: Callable[[], Iterable[Equation]] = equations,
    checks: Callable[[], Iterable[Check]] | None = None,
) -> list[Subject]:
    """The work in the paper's order. For an unknown equation ``ValueError`` names the nearest ones."""
    known = {entry.number: entry for entry in registry()}
    available = list(checks()) if checks else load().select(full=True)
    names = sorted({*known, *(c.equation for c in available)}, key=in_the_paper)
    wanted = names if numbers is None else [_checked_number(number, names) for number in dict.fromkeys(numbers)]
    chosen = [c for c in available if full or not c.slow]
    return [
        Subject(
            number,
            known[number].title if number in known else _title(number, available),
            known[number].kind if number in known else "statement",
            known.get(number),
            tuple(c for c in chosen if c.equation == number),
        )
        for number in wanted
    ]


def in_the_paper(number: str) -> tuple[bool, int, str]:
    """A key that sorts numbered equations in the paper's order, then those with a letter."""
    digits = re.match(r"\d+", number)
    return (digits is None, int(digits[0]) if digits else 0, number)


def _title(number: str, checks: Iterable[Check]) -> str:
    """The title of a number outside the registry: the section's, or the statement of its first claim."""
    statements = (check.statement for check in checks if check.equation == number)
    return SECTIONS.get(number) or next(statements)


def _checked_number(number: str, names: list[str]) -> str:
    number = number.strip().strip("()")
    if number in names:
        return number
    near = get_close_matches(number, names, n=3, cutoff=0.3)
    hint = f"; the nearest are {', '.join(near)}" if near else ""
    raise ValueError(f"there is no equation {number!r}{hint}")
