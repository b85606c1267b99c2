"""The result of a check as a table for the terminal."""

import os
import shutil
import sys
from collections.abc import Sequence
from typing import TextIO

from ...theory.typesetting.sentences import sentence_text
from ..claims.book import Claim
from .check import ConditionVerdict, Entry, Evidence

TRAINING = ("training", "descent")
_COLOURS = {"holds": "\x1b[32m", "fails": "\x1b[31;1m", "": "\x1b[2m"}


def colours(stream: TextIO) -> bool:
    """True on a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def _verdict(claims: Sequence[Claim]) -> tuple[str, str]:
    """The text of a cell and its colour."""
    if not claims:
        return "-", ""
    failing = sum(claim.status == "fails" for claim in claims)
    if failing:
        return f"{failing} of {len(claims)} fail", "fails"
    return f"{len(claims)} hold" if len(claims) > 1 else "holds", "holds"


def _cells(entry: Entry) -> list[tuple[str, str]]:
    return [
        {"none": ("-", ""), "holds": (entry.kind, "holds"), "fails": ("fails", "fails")}[entry.proof.status],
        _verdict([claim for claim in entry.claims if claim.method not in TRAINING]),
        _verdict([claim for claim in entry.claims if claim.method in TRAINING]),
    ]


def render(evidence: Evidence, *, colour: bool = False, width: int | None = None, details: bool = False) -> str:
    """A row for each equation, then every claim that fails (or, with ``details``, every claim) with its residual."""
    width = width or shutil.get_terminal_size((110, 40)).columns
    label = max([8, *(len(entry.equation) for entry in evidence.entries)])
    columns = (13, 12, 12)
    title_width = max(20, width - label - sum(columns) - 8)

    def row(number: str, title: str, cells: Sequence[tuple[str, str]]) -> str:
        title = title if len(title) <= title_width else title[: title_width - 3] + "..."
        painted = [
            f"{_COLOURS[tone]}{text:<{size}}\x1b[0m" if colour else f"{text:<{size}}"
            for (text, tone), size in zip(cells, columns, strict=True)
        ]
        return f"{number:<{label}}  {title:<{title_width}}  {'  '.join(painted)}".rstrip()

    lines = [row("equation", "statement", [("derivation", ""), ("numbers", ""), ("training", "")])]
    lines += [row(entry.equation, entry.title, _cells(entry)) for entry in evidence.entries]
    for entry in evidence.entries:
        if entry.proof.status == "fails":
            lines.append(f"\n({entry.equation}) {entry.kind}, proof fails: {entry.proof.error or 'the two sides differ'}")
        lines += [condition_lines(entry, one) for one in entry.proof.conditions if details and one.needed is not None]
        lines += [claim_lines(claim) for claim in entry.claims if details or claim.status == "fails"]
    senses = dict.fromkeys(entry.sense for entry in evidence.entries if entry.sense)
    lines += ["", *senses] if senses else []
    total = evidence.summary
    lines.append(f"\n{total['holds']} hold, {total['fails']} fail, in {evidence.seconds:.0f} s, seed {evidence.seed}")
    counts = evidence.lines
    judged = sum(counts.values()) - counts["defined"]
    named = ", ".join(f"{count} {status}" for status, count in counts.items() if count and status != "defined")
    lines.append(f"{judged} lines of derivations: {named or 'none'}; {counts['defined']} definition{'s' * (counts['defined'] != 1)}")
    lines.append("conditions: " + ", ".join(f"{count} {name}" for name, count in evidence.conditions.items()))
    if any(evidence.underived.values()):
        lines.append("notes: " + ", ".join(f"{count} {how}" for how, count in evidence.underived.items()) + ", not derived")
    if not evidence.complete:
        lines.append(f"interrupted after {len(evidence.entries)} of {evidence.planned} equations")
    return "\n".join(lines)


def condition_lines(entry: Entry, condition: ConditionVerdict) -> str:
    """One condition that points can test, and the point where it is needed."""
    verdict = f"needed, at {condition.point}" if condition.needed else "not known to be needed"
    return f"\n({entry.equation}) condition: {sentence_text(condition.text)}\n    {verdict}"


def claim_lines(claim: Claim) -> str:
    """One claim with its evidence, on three lines."""
    measured = "none" if claim.residual is None else f"{claim.residual:.2g}"
    relation = "<=" if claim.status == "holds" else ">"
    return "\n".join(
        [
            f"\n({claim.equation}) {claim.status}: {claim.name}",
            f"    {claim.method}: residual {measured} {relation} {claim.tolerance:.2g}, in {claim.seconds:.2g} s",
            f"    {claim.error or claim.tolerance_reason}",
        ]
    )


def show(evidence: Evidence, *, details: bool = False, stream: TextIO | None = None) -> None:
    """Print the table."""
    target = sys.stdout if stream is None else stream
    print(render(evidence, colour=colours(target), details=details), file=target)
