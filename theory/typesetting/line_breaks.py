r"""Displays that fit the page: formulas aligned at their relations, long sides broken at plus and minus signs, in brackets if need be.

>>> print(aligned([Row(r"\mathcal{L}", "=", "a + b", tag="9"), Row("", r"\to", "b", reason="For small $a$:")]))
\begin{align*}
\mathcal{L} & = a + b \tag{9} \\
\intertext{For small $a$:}
{} & \to b
\end{align*}
>>> split_sum(r"-a + \left(b - c\right) d - \frac{e + f}{g}")
['-a', '+ \\left(b - c\\right) d', '- \\frac{e + f}{g}']
>>> split_sum(r"-a + \left(b - c\right) d", inside=1)
['-a', '+ \\Bigl(b', '- c\\Bigr) d']
"""

from collections.abc import Iterable
from re import compile as pattern
from typing import NamedTuple

LINE = 60  # letters that fit in a line
LEFT = 16  # letters of the longest left side that stands beside its relation; a longer one stands above it

_TOKEN = pattern(r"(?s)\\(?:left|right)\\?[^A-Za-z\s\\]|\\(?:begin|end)\{\w+\}|\\[A-Za-z]+|\\.|.")
_INVISIBLE = pattern(r"[\s&{}^_]|\\(?:(?:begin|end).+|t?frac|boldsymbol|operatorname|math\w+|text|rm|d?dot|hat|tilde|[Bb]igg?[lr]|\W)")


def width(latex: str) -> int:
    """The width in letters, roughly, of the longest row: each letter counts, above, below or in the line."""
    rows = [_TOKEN.findall(row) for row in latex.split(r"\\")]
    return max(sum(1 + (token in "+-=") for token in row if not _INVISIBLE.fullmatch(token)) for row in rows)


def split_sum(latex: str, inside: int = 0) -> list[str]:
    r"""The summands, each but the first with its sign. ``inside``: open so many nested brackets, with \Bigl( for \left(."""
    pieces, braces, brackets = [""], 0, 0
    for token in _TOKEN.findall(latex):
        opens = token.startswith(r"\left") and not token[5:].isalpha()
        closes = token.startswith(r"\right") and not token[6:].isalpha()
        brackets -= closes
        if (opens or closes) and braces == 0 and brackets < inside:
            token = token.replace(r"\left", r"\Bigl").replace(r"\right", r"\Bigr")
        if token == r"\middle" and brackets <= inside:
            token = r"\Big"
        brackets += opens
        braces += token.startswith(("{", "(", "[", r"\begin"))
        braces -= token.startswith(("}", ")", "]", r"\end"))
        if token in "+-" and braces == 0 and brackets <= inside and pieces[-1].strip()[-1:] not in ("", "^", "_"):
            pieces.append("")
        pieces[-1] += token
    return [piece.strip() for piece in pieces]


class Row(NamedTuple):
    """``left relation right``. Without ``left`` it continues the row before. ``reason``: words that stand before it."""

    left: str
    relation: str
    right: str
    tag: str = ""
    reason: str = ""


def _lines(side: str, room: int) -> list[str]:
    """The summands of a side in lines; one that is too long for a line is split inside its brackets, as deep as that helps."""
    lines = [""]
    for summand in split_sum(side):
        depth = min(range(4), key=lambda inside: max(room, *map(width, split_sum(summand, inside))))
        for piece in split_sum(summand, depth):
            if lines[-1] and width(lines[-1] + piece) > room:
                lines.append("")
            lines[-1] = f"{lines[-1]} {piece}".strip()
    return lines


def _broken(rows: list[Row], longest: int = LEFT) -> list[list[str]]:
    """The lines of each row. A left side of at most ``longest`` letters stands beside its relation, a longer one above it."""
    column = max((width(row.left) for row in rows if width(row.left) <= longest), default=0)
    room, broken, fits = LINE - column, [], True
    for row in rows:
        above = _lines(row.left, room) if width(row.left) > longest else []
        right = _lines(row.right, room)
        fits = fits and all(width(line) <= room for line in right)
        left = "" if above else f"{row.left or '{}'} "
        lines = [*above, " ".join(filter(None, [row.relation, right[0]])), *right[1:]]
        broken.append([
            (left if i == len(above) else "") + ("& " if i in (0, len(above)) else r"& \quad ") + line for i, line in enumerate(lines)
        ])  # fmt: skip
    return broken if fits or not longest else _broken(rows, longest // 2)


def aligned(rows: Iterable[Row], environment: str = "align*") -> str:
    """One environment for all rows: ``align*`` with their tags and reasons, or ``aligned`` for Markdown, with tags in a column."""
    rows, whole, pieces = list(rows), environment == "align*", []
    for row, lines in zip(rows, _broken(rows), strict=True):
        tag = row.tag.replace("_", r"\_")  # a tag is text
        lines[-1] += (rf" \tag{{{tag}}}" if whole else rf" && \qquad \text{{({tag})}}") if tag else ""
        pieces += [f"\\intertext{{{row.reason}}}\n" * bool(row.reason) + lines[0], *lines[1:]]
    return f"\\begin{{{environment}}}\n" + " \\\\\n".join(pieces) + f"\n\\end{{{environment}}}"
