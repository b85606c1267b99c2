"""What a file says: declarations, assumptions and lines, each with its place. Prose and comments are left out."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..algebra.syntax import RELATIONS
from .latex_documents import declarations, displays

FORMATS = (".txt", ".md", ".tex")
MAX_SIZE = 1_000_000  # characters of a file
MAX_LINES = 2_000
MAX_LENGTH = 10_000  # characters of a line
_RELATION = re.compile("|".join(map(re.escape, RELATIONS)))


@dataclass(frozen=True)
class Statement:
    """``kind``: let, assume or line. ``place``: the number of its first line in the file. ``latex``: is it LaTeX, or text?"""

    kind: str
    text: str
    place: int
    latex: bool = False


def statements(path: Path, text: str | None = None) -> list[Statement]:
    """Everything that a file says, or ``text`` as one, in order. ValueError for another kind of file, and for one that is too long."""
    if path.suffix not in FORMATS:
        raise ValueError(f"{path}: the file must end in {', '.join(FORMATS)}, got {path.suffix or 'no ending'!r}")
    if (path.stat().st_size if text is None else len(text)) > MAX_SIZE:
        raise ValueError(f"{path}: a proof has at most {MAX_SIZE} characters")
    try:
        text = path.read_text(encoding="utf-8") if text is None else text
    except UnicodeDecodeError:
        raise ValueError(f"{path}: the file is no text in UTF-8") from None
    found = list(read_text(text) if path.suffix == ".txt" else read_markdown(text) if path.suffix == ".md" else read_latex(text))
    if sum(one.kind == "line" for one in found) > MAX_LINES:
        raise ValueError(f"{path}: a proof has at most {MAX_LINES} lines")
    return found


def read_text(text: str, first: int = 1) -> Iterator[Statement]:
    """Lines of text: a line that begins with a sign, or stands in open brackets, continues the one before; # begins a comment."""
    pending, start, depth = "", first, 0
    for place, raw in enumerate(text.splitlines(), first):
        line = raw.partition("#")[0].strip()
        if not line:
            if pending:
                yield from _statement(pending, start)
            pending, depth = "", 0
            continue
        related = _RELATION.match(line) and not _RELATION.search(pending)
        signed = line[0] in "+-" and not _RELATION.search(line)
        continues = depth > 0 or (pending and (signed or related)) or pending.endswith(("+", "-", "*", "/", "=", ";"))
        if not continues:
            if pending:
                yield from _statement(pending, start)
            pending, start, depth = "", place, 0
        pending = f"{pending} {line}".strip()
        depth += sum(line.count(one) for one in "([") - sum(line.count(one) for one in ")]")
    if pending:
        yield from _statement(pending, start)


def _statement(text: str, place: int) -> Iterator[Statement]:
    for kind, part in declarations(text) or [("line", text)]:
        yield Statement(kind, part, place)


def read_markdown(text: str) -> Iterator[Statement]:
    """Fenced blocks without a language, or of text, indented blocks, and displayed mathematics; prose and other code are left out."""
    lines = text.splitlines()
    i = 0
    while i < len(lines):
        stripped = lines[i].strip()
        if fence := re.match(r"(```+|~~~+)\s*(\S*)", stripped):
            last = next((j for j in range(i + 1, len(lines)) if lines[j].strip().startswith(fence[1])), len(lines))
            block = "\n".join(lines[i + 1 : last])
            if fence[2] == "math":
                yield from read_latex(f"\\[\n{block}\n\\]", i + 1)
            elif fence[2].lower() in ("", "text", "txt", "proof", "iclflow"):
                yield from read_text(block, i + 2)
            i = last + 1
        elif stripped.startswith(("$$", r"\[", r"\begin{", "<!--", "%")):
            ends = {"$$": "$$", r"\[": r"\]", "<!--": "-->"}
            end = next((ends[one] for one in ends if stripped.startswith(one)), None)
            if end is None and (name := re.match(r"\\begin\{([^}]*)\}", stripped)):
                end = rf"\end{{{name[1]}}}"
            rest = stripped[2:] if end in ("$$", r"\]") else stripped
            last = i
            while end and end not in rest and last + 1 < len(lines):
                last += 1
                rest += "\n" + lines[last]
            block = "\n".join(lines[i : last + 1])
            if end == "-->":
                block = re.sub(r"(?m)^\s*(?:<!--)?\s*", "% ", block.replace("-->", ""))
            yield from read_latex(block, i + 1)
            i = last + 1
        elif lines[i].startswith(("    ", "\t")) and stripped and (i == 0 or not lines[i - 1].strip()):
            last = i
            while last + 1 < len(lines) and (lines[last + 1].startswith(("    ", "\t")) or not lines[last + 1].strip()):
                last += 1
            yield from read_text("\n".join(lines[i : last + 1]), i + 1)
            i = last + 1
        else:
            i += 1


def read_latex(text: str, first: int = 1) -> Iterator[Statement]:
    """Display environments, one statement for each of their lines; declarations stand in comments."""
    for kind, body, place in displays(text, first):
        yield Statement(kind, body, place, True)
