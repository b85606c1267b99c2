"""The displays of a LaTeX file, line by line, and the declarations in its comments."""

import re
from collections.abc import Iterator

_DISPLAY = re.compile(
    r"\\begin\{(?P<name>(?:equation|align|gather|multline|eqnarray|flalign|alignat|displaymath)\*?)\}(?P<inside>.*?)\\end\{(?P=name)\}"
    r"|\\\[(?P<square>.*?)\\\]|\$\$(?P<dollars>.*?)\$\$",
    re.DOTALL,
)
_VERBATIM = re.compile(r"\\begin\{(verbatim|lstlisting|comment)\}.*?\\end\{\1\}", re.DOTALL)
_BETWEEN = re.compile(r"\\(?:short)?intertext\s*(?=\{)")
_COMMENT = re.compile(r"(?<!\\)%.*")
_SPLIT = re.compile(r"\\begin\{(?:aligned|split|gathered|alignedat)\}(?:\[\w\])?(?:\{\d+\})?|\\end\{(?:aligned|split|gathered|alignedat)\}")
_TOKEN = re.compile(r"\\begin\{[^}]*\}|\\end\{[^}]*\}|\\\\(?:\s*\[[^\]]*\])?|\\[A-Za-z]+|\\.|[{}]|.", re.DOTALL)
_RELATION = re.compile(
    r"(?<!\\)(?::=|=|<|>)|\\(?:le|leq|leqslant|ge|geq|geqslant|ne|neq|to|longrightarrow|rightarrow|xrightarrow|sim|approx|propto|equiv|simeq"
    r"|coloneqq|triangleq|Rightarrow|implies|iff|Leftrightarrow|in|lt|gt|overset|stackrel|succeq|preceq)(?![A-Za-z])"
)
_MACRO = re.compile(
    r"\\(?:(?:re)?newcommand|providecommand)\*?\s*\{?\\(?P<name>[A-Za-z]+)\}?\s*(?:\[(?P<count>\d)\])?\s*(?=\{)"
    r"|\\def\s*\\(?P<def>[A-Za-z]+)\s*(?=\{)|\\DeclareMathOperator\*?\s*\{?\\(?P<operator>[A-Za-z]+)\}?\s*(?=\{)"
)
MAX_EXPANSION = 20_000  # characters of a line after its macros
_GAP = re.compile(r"(?:\s|&|\\[,;:!>]|\\q?quad(?![A-Za-z])|\\(?:left|right)\.|\{\})*")


def displays(text: str, first: int = 1) -> Iterator[tuple[str, str, int]]:
    """(kind, text, number of the line) of the declarations in comments and of the lines of displays, in order."""
    found = []
    for comment in _COMMENT.finditer(text):
        found += [(comment.start(), *one) for one in declarations(comment[0].lstrip("% "))]
    bare = _VERBATIM.sub(_blank, _COMMENT.sub(_blank, text))
    for words in list(_BETWEEN.finditer(bare)):
        stop = _braced(bare, words.end())[1]
        bare = bare[: words.start()] + re.sub(r"[^\n]", " ", bare[words.start() : stop]) + bare[stop:]
    for display in _DISPLAY.finditer(bare):
        group = next(name for name in ("inside", "square", "dollars") if display[name] is not None)
        inside, start = display[group], display.start(group)
        if (display["name"] or "").startswith("alignat"):
            inside = re.sub(r"^\{\d+\}", _blank, inside)
        found += [(start + place, "line", line) for place, line in _lines(inside)]
    macros = _macros(bare)
    for place, kind, line in sorted(found):
        yield kind, _expanded(line, macros), first + text.count("\n", 0, place)


def declarations(text: str) -> list[tuple[str, str]]:
    """(let or assume, what) of a text that declares; several assumptions stand between semicolons."""
    declaration = re.fullmatch(r"(let|assume)\s+(.*?)\.?\s*", text, re.DOTALL)
    if declaration is None:
        return []
    parts = declaration[2].split(";") if declaration[1] == "assume" else [declaration[2]]
    return [(declaration[1], part.strip()) for part in parts if part.strip()]


def _blank(match: re.Match) -> str:
    """As many blanks, and the same line ends."""
    return re.sub(r"[^\n]", " ", match[0])


def _macros(text: str) -> dict[str, tuple[int, str]]:
    r"""The number of arguments and the body of each \newcommand, \def and \DeclareMathOperator."""
    found = {}
    for macro in _MACRO.finditer(text):
        body, _ = _braced(text, macro.end())
        name = macro["name"] or macro["def"] or macro["operator"]
        found[name] = (int(macro["count"] or 0), rf"\operatorname{{{body}}}" if macro["operator"] else body)
    return found


def _braced(text: str, start: int) -> tuple[str, int]:
    """What stands in the braces that open here, or the one token, and where it ends."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        depth += (token[0] == "{") - (token[0] == "}")
        if depth == 0:
            return (text[start + 1 : token.start()] if token[0] == "}" else token[0]), token.end()
    return text[start:], len(text)


def _expanded(line: str, macros: dict[str, tuple[int, str]]) -> str:
    """A line with its macros replaced; one that does not come to an end stays as it is, and is unread."""
    if not macros:
        return line
    pattern = re.compile(rf"\\({'|'.join(macros)})(?![A-Za-z])\s*")
    for _ in range(100):
        if len(line) > MAX_EXPANSION or (match := pattern.search(line)) is None:
            break
        count, body = macros[match[1]]
        end = match.end()
        for number in range(1, count + 1):
            argument, end = _braced(line, end + len(line[end:]) - len(line[end:].lstrip()))
            body = body.replace(f"#{number}", argument)
        letters = " " if body[-1:].isalpha() and line[end : end + 1].isalpha() else ""
        line = line[: match.start()] + body + letters + line[end:]
    return line


def _lines(display: str) -> Iterator[tuple[int, str]]:
    """The lines of a display: its rows, joined where a row goes on with the one before."""
    display = _SPLIT.sub(_blank, display)
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
