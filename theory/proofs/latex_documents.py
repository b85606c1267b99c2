"""The displays of a LaTeX file, line by line, and the declarations in its comments."""

import re
from collections.abc import Iterator

__all__ = ["displays"]

_DISPLAY = re.compile(
    r"\\begin\{(?P<name>(?:equation|align|gather|multline|eqnarray|flalign|alignat|displaymath)\*?)\}(?P<inside>.*?)\\end\{(?P=name)\}"
    r"|\\\[(?P<square>.*?)\\\]|\$\$(?P<dollars>.*?)\$\$",
    re.DOTALL,
)
_VERBATIM = re.compile(r"\\begin\{(verbatim|lstlisting|comment)\}.*?\\end\{\1\}", re.DOTALL)
_COMMENT = re.compile(r"(?<!\\)%.*")
_SPLIT = re.compile(r"\\begin\{(?:aligned|split|gathered|alignedat)\}(?:\[\w\])?(?:\{\d+\})?|\\end\{(?:aligned|split|gathered|alignedat)\}")
_TOKEN = re.compile(r"\\begin\{[^}]*\}|\\end\{[^}]*\}|\\\\(?:\s*\[[^\]]*\])?|\\[A-Za-z]+|\\.|[{}]|.", re.DOTALL)
_RELATION = re.compile(
    r"(?<!\\)(?::=|=|<|>)|\\(?:le|leq|leqslant|ge|geq|geqslant|ne|neq|to|longrightarrow|rightarrow|xrightarrow|sim|approx|propto|equiv|simeq"
    r"|coloneqq|triangleq|Rightarrow|implies|iff|Leftrightarrow|in|lt|gt|overset|stackrel|succeq|preceq)(?![A-Za-z])"
)
_GAP = re.compile(r"(?:\s|&|\\[,;:!>]|\\q?quad(?![A-Za-z])|\\(?:left|right)\.|\{\})*")


def displays(text: str, first: int = 1) -> Iterator[tuple[str, str, int]]:
    """(kind, text, number of the line) of the declarations in comments and of the lines of displays, in order."""
    found = []
    for comment in _COMMENT.finditer(text):
        if declaration := re.fullmatch(r"%+\s*(let|assume)\s+(.*?)\.?\s*", comment[0]):
            parts = declaration[2].split(";") if declaration[1] == "assume" else [declaration[2]]
            found += [(comment.start(), declaration[1], part.strip()) for part in parts if part.strip()]
    bare = _COMMENT.sub(lambda comment: " " * len(comment[0]), text)
    bare = re.sub(
        r"\\begin\{(verbatim|lstlisting|comment)\}.*?\\end\{\1\}", lambda one: re.sub(r"[^\n]", " ", one[0]), bare, flags=re.DOTALL
    )
    for display in _DISPLAY.finditer(bare):
        group = next(name for name in ("inside", "square", "dollars") if display[name] is not None)
        inside, start = display[group], display.start(group)
        if (display["name"] or "").startswith("alignat"):
            inside = re.sub(r"^\{\d+\}", lambda one: " " * len(one[0]), inside)
        found += [(start + place, "line", line) for place, line in _lines(inside)]
    for place, kind, line in sorted(found):
        yield kind, line, first + text.count("\n", 0, place)


def _lines(display: str) -> Iterator[tuple[int, str]]:
    """The lines of a display: its rows, joined where a row goes on with the one before."""
    display = _SPLIT.sub(lambda one: " " * len(one[0]), display)
    pending, start = "", 0
    for place, row in _rows(display):
        inside = _GAP.sub("", row, count=1) if _GAP.match(row) else row
        if not inside.strip() or re.fullmatch(r"(?:\\(?:nonumber|notag)|\\(?:label|tag\*?)\{[^}]*\}|\s|&)*", row):
            continue
        relation = _RELATION.search(inside)
        leads = relation is not None and relation.start() == 0
        signed = inside[0] in "+-" or re.match(r"\\(?:cdot|times|pm)(?![A-Za-z])", inside) is not None
        unfinished = re.search(r"(?:[-+=<>*/]|\\(?:cdot|times|le|ge|leq|geq|to|sim|left[(\[]))\s*(?:&|\s)*$", pending) is not None
        lone = pending and _RELATION.search(pending) is None
        goes_on = signed and (relation is None or row.lstrip().startswith("&"))
        if pending and (goes_on or (leads and lone) or (unfinished and not leads) or _is_open(pending)):
            pending = f"{pending} {row}"
            continue
        if pending:
            yield start, pending.strip()
        pending, start = row, place + len(row) - len(row.lstrip())
    if pending:
        yield start, pending.strip()


def _is_open(row: str) -> bool:
    return len(re.findall(r"\\left(?![A-Za-z])", row)) != len(re.findall(r"\\right(?![A-Za-z])", row)) or (
        sum(row.count(one) for one in "([") != sum(row.count(one) for one in ")]") and not re.search(r"\\(?:left|right)(?![A-Za-z])", row)
    )


def _rows(display: str) -> Iterator[tuple[int, str]]:
    r"""Split at \\ outside of braces and of inner environments."""
    depth, start = 0, 0
    for token in _TOKEN.finditer(display):
        text = token[0]
        depth += text == "{" or text.startswith(r"\begin{")
        depth -= text == "}" or text.startswith(r"\end{")
        if text.startswith("\\\\") and depth <= 0:
            yield start, display[start : token.start()]
            start = token.end()
    yield start, display[start:]
