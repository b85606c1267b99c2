r"""Equations and their derivations as documents: a LaTeX paper, Markdown, or JSON; one equation alone, in a terminal too.

>>> from iclflow.theory.equations import equation
>>> print(render(equation("31"), "text").splitlines()[0])
(31) Second moment of the sample covariance [exact; Appendix B.1]
"""

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from re import fullmatch, match
from typing import TYPE_CHECKING, Any

from ..typesetting.latex import formula_latex, superscript
from ..typesetting.line_breaks import Row, aligned
from ..typesetting.sentences import sentence_latex, sentence_markdown, sentence_text
from .derivation import LEFT_TEXT, RELATIONS_LATEX, rows, side_latex, side_text, tag, text_lines

if TYPE_CHECKING:
    from .registry import Equation

FORMATS = ("tex", "markdown", "json")

CHAPTERS = {
    "2": "Preliminaries",
    "3": "Attention with merged key and query",
    "4": "Attention with separate key and query, rank one",
    "5": "Attention with separate key and query, low rank",
    "B": "Appendix B. Preliminaries",
    "C": "Appendix C. Merged key and query",
    "D": "Appendix D. Separate key and query, rank one",
    "E": "Appendix E. Separate key and query, low rank",
    "F": "Appendix F. In-weight learning",
    "": "Beside the paper",
}

PREAMBLE = r"""\documentclass[11pt,a4paper]{article}
\usepackage[margin=25mm]{geometry}
\usepackage{amsmath,amssymb}
\allowdisplaybreaks
\setlength{\parindent}{0pt}
\setlength{\parskip}{0.5\baselineskip}
\title{The equations of training dynamics of in-context learning\\in linear attention, derived}
\author{iclflow}
\date{}
\begin{document}
\maketitle
"""


def render(equation: "Equation", format: str = "text", *, transpose: str = "top", full: bool = False) -> str:
    """One equation with its conditions, erratum and derivation, as ``"text"``, ``"latex"`` or ``"markdown"``.

    ``full``: the derivation begins with those of all entries that it rests on.

    The LaTeX is a fragment that any document with the packages amsmath and amssymb can hold.
    """
    forms = {"text": _text, "latex": _latex, "markdown": _markdown}
    if format not in forms:
        raise ValueError(f"format must be one of {tuple(forms)}, got {format!r}")
    transposed = superscript(transpose)
    return forms[format](equation, full).replace(r"\top", transposed)


def export(equations: Iterable["Equation"], format: str = "tex", *, transpose: str = "top") -> str:
    """The equations with their derivations as one document, in the paper's order.

    ``format``: ``"tex"`` (a standalone document), ``"markdown"`` or ``"json"``. ``transpose``: ``"top"`` or ``"T"``. ValueError for
    another format or transpose, or without equations.
    """
    entries = tuple(equations)
    if not entries:
        raise ValueError("equations: needs at least one equation, got none")
    if format not in FORMATS:
        raise ValueError(f"format must be one of {FORMATS}, got {format!r}")
    transposed = superscript(transpose)
    if format == "json":
        records = json.dumps([_record(entry) for entry in entries], indent=1, ensure_ascii=False)
        return records.replace(json.dumps(r"\top")[1:-1], json.dumps(transposed)[1:-1]) + "\n"
    pieces = [PREAMBLE if format == "tex" else "# The equations of training dynamics of in-context learning in linear attention\n"]
    for chapter, members in _chapters(entries):
        pieces.append(f"\\section*{{{chapter}}}\n" if format == "tex" else f"## {chapter}\n")
        pieces += [(_latex if format == "tex" else _markdown)(entry) for entry in members]
    if format == "tex":
        pieces.append("\\end{document}\n")
    return "\n".join(pieces).replace(r"\top", transposed)


def _chapters(entries: tuple["Equation", ...]):
    """The entries by chapter: what stands beside a numbered equation goes with it, what stands alone to the end."""
    order = list(CHAPTERS)
    sections = {entry.number: entry.section for entry in entries}

    def key(entry: "Equation") -> int:
        place = fullmatch(r"(?:Section|Appendix) (\w).*", entry.section)
        neighbour = match(r"\d+", entry.number)
        if place is None and neighbour is not None:
            place = fullmatch(r"(?:Section|Appendix) (\w).*", sections.get(neighbour[0], ""))
        return order.index(place[1] if place is not None and place[1] in CHAPTERS else "")

    for position, members in groupby(sorted(entries, key=key), key=key):
        yield CHAPTERS[order[position]], list(members)


def _sentences(texts: Iterable[str]) -> str:
    """Each text as a sentence."""
    return " ".join(f"{text[:1].upper()}{text[1:]}" + ("" if text.endswith((".", "$$")) else ".") for text in texts if text)


def _statement(entry: "Equation") -> Iterator[tuple[str, Any, str, Any]]:
    """(part, left, relation, formula) of each part of the paper's statement; left is a formula, or LaTeX."""
    lefts = {line.part: line.left for line in entry.stated()}
    limits = {line.part: line.relation for line in entry.stated() if line.relation in ("->", "~")}
    equal = "~=" if entry.kind == "approximation" else "="
    for part, right in entry.parts.items():
        yield part, lefts.get(part, lefts.get("", "")), limits.get(part, equal), right


def _display(entry: "Equation") -> list[Row]:
    return [row for part, *formula in _statement(entry) for row in rows(*formula, tag(entry.number, part))]


def _latex(entry: "Equation", full: bool = False) -> str:
    heading = rf"\subsection*{{({entry.number}) {sentence_latex(entry.title)}}}"
    conditions = _sentences(sentence_latex(condition.text) for condition in entry.conditions)
    pieces = [f"{heading}\n{aligned(_display(entry))}", rf"\textit{{{entry.kind.capitalize()}.}} {conditions}".rstrip()]
    if entry.erratum:
        pieces.append(rf"\textit{{Remark.}} {_sentences([sentence_latex(entry.erratum)])}")
    if entry.derivation is not None:
        pieces.append(rf"\textit{{Derivation.}} {entry.derive(full=full).latex()}")
    return "\n\n".join(pieces) + "\n"


def _markdown(entry: "Equation", full: bool = False) -> str:
    pieces = [f"### ({entry.number}) {sentence_markdown(entry.title)}\n", f"$$\n{aligned(_display(entry), 'aligned')}\n$$\n"]
    conditions = _sentences(sentence_markdown(condition.text) for condition in entry.conditions)
    pieces.append(f"**{entry.kind.capitalize()}.** {conditions}".rstrip() + "\n")
    if entry.erratum:
        pieces.append(f"**Remark.** {_sentences([sentence_markdown(entry.erratum)])}\n")
    if entry.derivation is not None:
        pieces.append("**Derivation.**\n\n" + entry.derive(full=full).markdown())
    return "\n".join(pieces)


def _text(entry: "Equation", full: bool = False) -> str:
    lines = [f"({entry.number}) {sentence_text(entry.title)} [{entry.kind}; {entry.section}]"]
    shown = [(f"({part}) " * bool(part) + side_text(left), relation, side_text(right)) for part, left, relation, right in _statement(entry)]
    column = max((len(left) for left, *_ in shown if len(left) <= LEFT_TEXT), default=0)
    lines += [line for formula in shown for line in text_lines(*formula, column)]
    lines += [f"Condition: {sentence_text(condition.text)}" for condition in entry.conditions]
    if entry.erratum:
        lines.append(f"Remark: {sentence_text(entry.erratum)}")
    if entry.derivation is not None:
        lines += ["Derivation", str(entry.derive(full=full))]
    return "\n".join(lines)


def _record(entry: "Equation") -> dict:
    derived = entry.derive().lines if entry.derivation is not None else ()
    return {
        "number": entry.number,
        "title": sentence_markdown(entry.title),
        "kind": entry.kind,
        "section": entry.section,
        "conditions": [sentence_markdown(condition.text) for condition in entry.conditions],
        "erratum": sentence_markdown(entry.erratum or "") or None,
        "statement": [
            {"tag": tag(entry.number, part), "left": side_latex(left), "relation": RELATIONS_LATEX[sign], "latex": formula_latex(right)}
            for part, left, sign, right in _statement(entry)
        ],
        "steps": [
            {
                "rule": sentence_markdown(line.reason),
                "part": line.part,
                "left": side_latex(line.left),
                "relation": RELATIONS_LATEX[line.relation],
                "latex": side_latex(line.right),
                "text": side_text(line.right),
            }
            for line in derived
        ],
    }
