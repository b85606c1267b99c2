r"""Displays that fit the page: a long right side is broken at its plus and minus signs, inside long brackets if need be.

>>> print(display(r"\mathcal{L}", "a + b", tag="9"))
\begin{equation*}
\mathcal{L} = a + b \tag{9}
\end{equation*}
>>> split_sum(r"-a + \left(b - c\right) d - \frac{e + f}{g}")
['-a', '+ \\left(b - c\\right) d', '- \\frac{e + f}{g}']
>>> split_sum(r"-a + \left(b - c\right) d", inside=1)
['-a', '+ \\Bigl(b', '- c\\Bigr) d']
"""

from re import compile as pattern

__all__ = ["LINE", "display", "split_sum", "width"]

LINE = 60  # letters that fit in a line

_RELATIONS = ("=", r"\approx", r"\sim", r"\simeq", r"\propto", r"\le", r"\ge", ":", r"\quad")
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
        brackets += opens
        braces += token.startswith(("{", "(", "[", r"\begin"))
        braces -= token.startswith(("}", ")", "]", r"\end"))
        if token in "+-" and braces == 0 and brackets <= inside and pieces[-1].strip()[-1:] not in ("", "^", "_"):
            pieces.append("")
        pieces[-1] += token
    return [piece.strip() for piece in pieces]


def _lines(*sides: str) -> list[str]:
    """The summands of the sides in lines; one that is too long for a line is split inside its brackets, as deep as that helps."""
    lines = [""]
    for summand in [one for side in sides for one in split_sum(side)]:
        depth = min(range(4), key=lambda inside: max(LINE, *map(width, split_sum(summand, inside))))
        for piece in split_sum(summand, depth):
            if lines[-1] and width(lines[-1] + piece) > LINE:
                lines.append("")
            lines[-1] = f"{lines[-1]} {piece}".strip()
    return lines


def display(left: str, right: str, *, tag: str = "", relation: str = "=", environment: bool = True) -> str:
    """One displayed equation with its number, in as many lines as it needs.

    ``relation``: what stands between the sides, unless ``left`` ends in a relation itself. ``environment``: an ``equation*`` or
    ``align*`` environment, which LaTeX wants; otherwise the content alone, with ``aligned`` round several lines, for ``$$``.
    """
    number = rf" \tag{{{tag}}}".replace("_", r"\_") if tag else ""  # a tag is text
    head = left if not left or left.rstrip().endswith(_RELATIONS) else f"{left} {relation}"
    lines = _lines(head, right)
    body = lines[0] if len(lines) == 1 else "& " + " \\\\\n& \\quad ".join(lines)
    if environment:
        name = "equation*" if len(lines) == 1 else "align*"
        return f"\\begin{{{name}}}\n{body}{number}\n\\end{{{name}}}"
    return body + number if len(lines) == 1 else f"\\begin{{aligned}}\n{body}\n\\end{{aligned}}{number}"
