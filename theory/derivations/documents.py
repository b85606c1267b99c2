r"""Equations and their derivations as documents: a LaTeX paper, Markdown, or JSON; one equation alone, in a terminal too.

>>> from iclflow.theory.equations import equation
>>> print(render(equation("31"), "text").splitlines()[0])
(31) Second moment of the sample covariance [exact; Appendix B.1]
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from re import Match, fullmatch, match, sub
from typing import TYPE_CHECKING, Any, NamedTuple

from ..typesetting.latex import formula_latex
from ..typesetting.line_breaks import Row, aligned
from ..typesetting.sentences import sentence_latex, sentence_text
from .derivation import LEFT_TEXT, RELATIONS_LATEX, Derivation, rows, side_latex, side_text, tag, text_lines

if TYPE_CHECKING:
    from .registry import Equation

FORMATS = ("tex", "markdown", "json")
TITLE = "The equations of training dynamics of in-context learning in linear attention, derived"

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
    "beside": "Beside the paper",
}

PREAMBLE = r"""\documentclass[11pt,a4paper]{article}
\usepackage[margin=25mm]{geometry}
\usepackage{amsmath,amssymb}
\usepackage[hidelinks,bookmarksdepth=1]{hyperref}
\allowdisplaybreaks
\setcounter{secnumdepth}{0}
\setlength{\parindent}{0pt}
\setlength{\parskip}{0.5\baselineskip}
\title{%s}
\author{iclflow}
\date{}
\begin{document}
\maketitle
\tableofcontents
"""


def render(equation: "Equation", format: str = "text", *, full: bool = False, judged: bool = False) -> str:
    """One equation with its conditions, erratum and derivation, as ``"text"``, ``"latex"`` or ``"markdown"``.

    ``full``: the derivation begins with those of all entries that it rests on. ``judged``: each line is judged and shows its verdict.

    The LaTeX is a fragment that any document with the packages amsmath and amssymb can hold.
    """
    forms = {"text": _text, "latex": _latex, "markdown": _markdown}
    if format not in forms:
        raise ValueError(f"format must be one of {tuple(forms)}, got {format!r}")
    return forms[format](equation, full, judged)


def export(
    equations: Iterable["Equation"], format: str = "tex", *, title: str = TITLE, sections: Iterable[str] = (),
    progress: Callable[[list], Iterable] = iter,
) -> str:  # fmt: skip
    """The equations with their derivations as one document, in the paper's order, with contents and with links between them.

    ``format``: ``"tex"`` (a standalone document), ``"markdown"`` or ``"json"``. ``sections``: only these, such as 3, C or beside.
    ``progress`` passes the equations on, as ``tqdm`` does. ValueError for another format or section, or without equations.
    """
    entries, chosen = tuple(equations), tuple(sections) or tuple(CHAPTERS)
    if format not in FORMATS:
        raise ValueError(f"format must be one of {FORMATS}, got {format!r}")
    if unknown := set(chosen) - set(CHAPTERS):
        raise ValueError(f"sections must be among {', '.join(CHAPTERS)}, got {', '.join(sorted(unknown))}")
    homes = {entry.number: entry.section for entry in entries}
    chapter = {entry.number: _chapter(entry, homes) for entry in entries}
    entries = [entry for entry in entries if chapter[entry.number] in chosen]
    if not entries:
        raise ValueError("equations: needs at least one equation, got none")
    if format == "json":
        return json.dumps([_record(entry) for entry in progress(entries)], indent=1, ensure_ascii=False) + "\n"
    style = TEX if format == "tex" else MARKDOWN
    pages = {entry.number: _page(entry, homes, style) for entry in progress(entries)}
    pieces, contents = [], []
    for name, members in ((CHAPTERS[key], [entry for entry in entries if chapter[entry.number] == key]) for key in CHAPTERS):
        if members:
            pieces += [style.chapter % name, *(pages[entry.number] for entry in members)]
            contents += [f"- {name}", *(f"  - [({one.number}) {one.title}](#eq-{one.number})" for one in members)]
    return style.whole(title, "\n".join(contents), "\n".join(pieces))


class _Style(NamedTuple):
    """How a document is written: as a whole, the heading of a chapter, what stands before an entry, a link, and an entry."""

    whole: Callable[[str, str, str], str]
    chapter: str
    anchor: Callable[["Equation"], str]
    link: Callable[[str, str], str]
    entry: Callable[["Equation"], str]


def _page(entry: "Equation", homes: Mapping[str, str], style: _Style) -> str:
    """An entry, where (31) or (19a) outside of formulas is a link to an equation of the document."""

    def linked(found: Match[str]) -> str:
        number = found[1] if found[1] in homes else (found[1] or "").rstrip("abcdefgh")
        return style.link(number, found[0]) if number in homes and number != entry.number else found[0]

    return style.anchor(entry) + sub(r"(?s)\$\$.*?\$\$|\$[^$]*\$|(?<![\w{\\^])\(([\w.-]+)\)", linked, style.entry(entry))


def _chapter(entry: "Equation", homes: Mapping[str, str]) -> str:
    """The chapter of an entry: what stands beside a numbered equation goes with it, what stands alone to the end."""
    neighbour = match(r"\d+", entry.number)
    for section in (entry.section, homes.get(neighbour[0], "") if neighbour else ""):
        place = fullmatch(r"(?:Section|Appendix) (\w).*", section)
        if place is not None:
            return place[1] if place[1] in CHAPTERS else "beside"
    return "beside"


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


def _derivation(entry: "Equation", full: bool, judged: bool) -> Derivation:
    derivation = entry.derive(full=full)
    return derivation.judged() if judged else derivation


def _conditions(entry: "Equation") -> list[str]:
    """The conditions of the entry, and those of single lines with their numbers."""
    places = defaultdict(list)
    for number, line in enumerate(entry.lines, 1):
        for one in line.conditions:
            if one not in entry.conditions:
                places[one].append(str(number))
    return [*map(str, entry.conditions), *(f"{one} (line{'s'[: len(at) - 1]} {', '.join(at)})" for one, at in places.items())]


def _said(entry: "Equation", label: str, words: Callable[[str], str]) -> list[str]:
    """The kind with the conditions, the notes and the remark, each behind its label."""
    said = {entry.kind.capitalize(): _conditions(entry), "Note": entry.notes, "Remark": filter(None, [entry.erratum])}
    shown = {name: _sentences(map(words, texts)) for name, texts in said.items()}
    return [f"{label % name} {text}".rstrip() for i, (name, text) in enumerate(shown.items()) if text or i == 0]


def _latex(entry: "Equation", full: bool = False, judged: bool = False) -> str:
    heading = rf"\subsection*{{({entry.number}) {sentence_latex(entry.title)}}}"
    pieces = [f"{heading}\n{aligned(_display(entry))}", *_said(entry, r"\textit{%s.}", sentence_latex)]
    if entry.derivation is not None:
        pieces.append(rf"\textit{{Derivation.}} {_derivation(entry, full, judged).latex()}")
    return "\n\n".join(pieces) + "\n"


def _markdown(entry: "Equation", full: bool = False, judged: bool = False) -> str:
    pieces = [f"### ({entry.number}) {entry.title}", f"$$\n{aligned(_display(entry), 'aligned')}\n$$", *_said(entry, "**%s.**", str)]
    if entry.derivation is not None:
        pieces += ["**Derivation.**", _derivation(entry, full, judged).markdown()]
    return "\n\n".join(pieces) + "\n" * (entry.derivation is None)


TEX = _Style(
    whole=lambda title, contents, body: f"{PREAMBLE % sentence_latex(title)}\n{body}\n\\end{{document}}\n",
    chapter=r"\section{%s}",
    anchor=lambda entry: (
        rf"\phantomsection\label{{{entry.number}}}"
        rf"\addcontentsline{{toc}}{{subsection}}{{({entry.number}) {sentence_latex(entry.title)}}}" + "\n"
    ),
    link=lambda number, text: rf"\hyperref[{number}]{{{text}}}",
    entry=_latex,
)
MARKDOWN = _Style(
    whole=lambda title, contents, body: f"# {title}\n\n{contents}\n\n{body}",
    chapter="## %s\n",
    anchor=lambda entry: f'<a id="eq-{entry.number}"></a>\n\n',
    link=lambda number, text: f"[{text}](#eq-{number})",
    entry=_markdown,
)


def _text(entry: "Equation", full: bool = False, judged: bool = False) -> str:
    lines = [f"({entry.number}) {sentence_text(entry.title)} [{entry.kind}; {entry.section}]"]
    shown = [(f"({part}) " * bool(part) + side_text(left), relation, side_text(right)) for part, left, relation, right in _statement(entry)]
    column = max((len(left) for left, *_ in shown if len(left) <= LEFT_TEXT), default=0)
    lines += [line for formula in shown for line in text_lines(*formula, column)]
    lines += [f"Condition: {sentence_text(one)}" for one in _conditions(entry)]
    lines += [f"Note: {sentence_text(one)}" for one in entry.notes]
    if entry.erratum:
        lines.append(f"Remark: {sentence_text(entry.erratum)}")
    if entry.derivation is not None:
        lines += ["Derivation", str(_derivation(entry, full, judged))]
    return "\n".join(lines)


def _record(entry: "Equation") -> dict:
    derived = entry.derive().lines if entry.derivation is not None else ()
    return {
        "number": entry.number,
        "title": entry.title,
        "kind": entry.kind,
        "section": entry.section,
        "conditions": _conditions(entry),
        "notes": list(entry.notes),
        "erratum": entry.erratum,
        "statement": [
            {"tag": tag(entry.number, part), "left": side_latex(left), "relation": RELATIONS_LATEX[sign], "latex": formula_latex(right)}
            for part, left, sign, right in _statement(entry)
        ],
        "steps": [
            {
                "rule": line.reason,
                "part": line.part,
                "left": side_latex(line.left),
                "relation": RELATIONS_LATEX[line.relation],
                "latex": side_latex(line.right),
                "text": side_text(line.right),
            }
            for line in derived
        ],
    }
