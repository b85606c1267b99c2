r"""Displays that fit the page: a long right side is broken at its outermost plus and minus signs, and inside a long bracket if need be.

>>> print(display(r"\mathcal{L}", "a + b", tag="9"))
\begin{equation*}
\mathcal{L} = a + b \tag{9}
\end{equation*}
>>> split_sum(r"-a + \left(b - c\right) d - \frac{e + f}{g}")
['-a', '+ \\left(b - c\\right) d', '- \\frac{e + f}{g}']

Widths are estimates, in letters; they need only be right to a fifth.
"""

from re import compile as pattern

__all__ = ["LINE", "display", "lines_of", "split_sum", "width"]

LINE = 58.0  # letters of display mathematics that fit in a line of the document

RELATIONS = ("=", r"\approx", r"\sim", r"\simeq", r"\propto", r"\le", r"\ge", ":", r"\quad")

_TOKEN = pattern(r"\\[A-Za-z]+|\\.|[{}]|[\^_&]|\s+|.")
_BRACKET = pattern(r"\\left(?![a-z])|\\right(?![a-z])|[{}]")
_WIDE = {
    r"\quad": 2.0,
    r"\qquad": 4.0,
    r"\sum": 2.0,
    r"\int": 1.5,
    r"\operatorname": 0.0,
    r"\cdot": 1.0,
    r"\ln": 1.7,
    r"\tau": 0.8,
}
_EMPTY = frozenset(
    [r"\left", r"\right", r"\boldsymbol", r"\mathbf", r"\mathbb", r"\mathcal", r"\hat", r"\dot", r"\bar", r"\rm", r"\displaystyle",
     r"\begin", r"\end", r"\mathrm", r"\text", r"\,", r"\!", r"\bigl", r"\bigr", r"\Bigl", r"\Bigr", r"\biggl", r"\biggr", r"\top"]
)  # fmt: skip


def width(latex: str) -> float:
    """The width of a formula in letters: fractions as wide as their wider half, sub- and superscripts at two thirds."""
    total, _ = _measure(_TOKEN.findall(latex), 0, 1.0)
    return total


def _measure(tokens: list[str], start: int, scale: float) -> tuple[float, int]:
    """The width up to the brace that closes this group, and the position after it."""
    total, row, i = 0.0, 0.0, start
    while i < len(tokens):
        token = tokens[i]
        i += 1
        if token == "}":
            break
        if token == "{":
            inner, i = _measure(tokens, i, scale)
            total += inner
        elif token == r"\frac":
            top, i = _argument(tokens, i, scale)
            bottom, i = _argument(tokens, i, scale)
            total += max(top, bottom) + 0.5
        elif token in "^_":
            inner, i = _argument(tokens, i, 0.7 * scale)
            total += inner
        elif token == r"\\":
            row, total = max(row, total), 0.0
        elif token in ("\\begin", "\\end"):
            _, i = _argument(tokens, i, scale)
        elif token in "+-=":
            total += 1.9 * scale
        elif token == "&":
            total += 2.0 * scale
        elif token in "([)]|,.":
            total += 0.6 * scale
        elif not token.isspace() and token not in _EMPTY:
            total += _WIDE.get(token, 1.1) * scale
    return max(row, total), i


def _argument(tokens: list[str], i: int, scale: float) -> tuple[float, int]:
    while i < len(tokens) and tokens[i].isspace():
        i += 1
    if i < len(tokens) and tokens[i] == "{":
        return _measure(tokens, i + 1, scale)
    return scale, i + 1


def split_sum(latex: str, joints: str = "+-") -> list[str]:
    """The summands of a formula, each but the first with its sign: split at the signs outside every brace, bracket and matrix."""
    pieces, depth, piece, previous = [], 0, "", ""
    for token in _TOKEN.findall(latex):
        if token in ("{", r"\left", r"\begin", "(", "[") and previous not in (r"\left", r"\right"):
            depth += 1
        elif token in ("}", r"\right", r"\end", ")", "]") and previous not in (r"\left", r"\right"):
            depth -= 1
        if token in joints and depth == 0 and piece.strip() and previous not in ("^", "_"):
            pieces.append(piece.strip())
            piece = ""
        piece += token
        previous = token if not token.isspace() else previous
    return [*pieces, piece.strip()]


def lines_of(latex: str, room: float, first: float | None = None) -> list[str]:
    """The formula in lines no wider than ``room`` (``first`` for the first), as far as its signs and brackets allow."""
    lines, line, limit = [], "", room if first is None else first
    for piece in split_sum(latex):
        candidate = f"{line} {piece}" if line else piece
        if width(candidate) <= limit:
            line = candidate
            continue
        if line:
            lines.append(line)
            line, limit = "", room
        if width(piece) > limit and _open_bracket(piece) is None:
            piece = _flat_fraction(piece)
        if width(piece) <= limit or (opened := _open_bracket(piece)) is None:
            line = piece
            continue
        if (factors := _split_product(piece)) is not None:
            first_lines = lines_of(factors[0], room, limit)
            lines += [*first_lines, *lines_of(factors[1], room)[:-1]]
            line = lines_of(factors[1], room)[-1]
            continue
        before, inner, after = opened
        *most, last = lines_of(inner, limit - 4, limit - 4 - width(before))
        most.append(last + after)
        most[0] = before + most[0]
        most[1:] = [rf"\quad {part}" for part in most[1:]]
        lines += most[:-1]
        line = most[-1]
    return [*lines, line] if line else lines


def _open_bracket(piece: str) -> tuple[str, str, str] | None:
    r"""(before, inside, after) of a bracket that holds a sum, with \Bigl( and \Bigr) for \left( and \right); None without one.

    It is the widest outermost bracket of the product or, where that holds a product again, the widest within.
    """
    brackets = [(start, end) for start, end in _outer_brackets(piece) if piece[start + 5] == "("]
    if not brackets:
        return None
    start, end = max(brackets, key=lambda bracket: width(piece[slice(*bracket)]))
    before, inner, after = piece[:start] + r"\Bigl(", piece[start + 6 : end], r"\Bigr)" + piece[end + 7 :]
    if len(split_sum(inner)) > 1 or _split_product(inner) is not None:
        return before, inner, after
    within = _open_bracket(inner)
    return None if within is None else (before + within[0], within[1], within[2] + after)


def _split_product(piece: str) -> tuple[str, str] | None:
    """A product of two long brackets, cut after the first of them; None for anything else."""
    long = [(start, end) for start, end in _outer_brackets(piece) if width(piece[start:end]) > LINE / 4]
    if len(long) < 2 or len(split_sum(piece)) > 1:
        return None
    cut = long[0][1] + len(r"\right)")
    rest = piece[cut:].lstrip()
    return piece[:cut], rest if rest.startswith(r"\Big/") else rf"\cdot {rest}"


def _flat_fraction(piece: str) -> str:
    r"""The product with its first \frac{a}{b}, where both are sums, as (a) / (b), which can be broken."""
    start = piece.find(r"\frac{")
    if start < 0 or piece[:start].strip(" +-0123456789"):
        return piece
    middle = _closing_brace(piece, start + 5)
    end = _closing_brace(piece, middle + 1)
    top, bottom = piece[start + 6 : middle], piece[middle + 2 : end]
    return rf"{piece[:start]}\left({top}\right) \Big/ \left({bottom}\right){piece[end + 1 :]}"


def _closing_brace(text: str, start: int) -> int:
    """The place of the brace that closes the one at ``start``."""
    depth = 0
    for i in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i
    return len(text)


def _outer_brackets(piece: str) -> list[tuple[int, int]]:
    r"""The places of the outermost \left and their \right, outside braces."""
    places, depth, braces, start = [], 0, 0, 0
    for match in _BRACKET.finditer(piece):
        token = match[0]
        if token in "{}":
            braces += 1 if token == "{" else -1
        elif braces == 0 and token == r"\left":
            start = match.start() if depth == 0 else start
            depth += 1
        elif braces == 0:
            depth -= 1
            if depth == 0:
                places.append((start, match.start()))
    return places


def display(
    left: str, right: str, *, tag: str = "", relation: str = "=", fit: bool = False, environment: bool = True
) -> str:
    r"""One displayed equation with its number, broken into as many lines as it needs.

    ``relation``: what stands between the sides, unless ``left`` ends in a relation itself. ``environment``: an ``equation*`` or
    ``align*`` environment, which LaTeX wants; otherwise the content alone, with ``aligned`` round several lines, for ``$$``. ``fit``: wrap
    a line that is still too wide in the document's ``\fit``.
    """
    number = rf" \tag{{{tag}}}".replace("_", r"\_") if tag else ""  # a tag is text
    for_tag = width(tag) + 4 if tag else 0.0
    relation = "" if left.rstrip().endswith(RELATIONS) else relation
    head = f"{left} {relation} " if left else ""
    if width(head + right) + for_tag <= LINE:
        body = f"{head}{right}"
        return f"\\begin{{equation*}}\n{body}{number}\n\\end{{equation*}}" if environment else body + number
    hanging = bool(left) and (width(head) > LINE / 3 or width(right) > 4 * LINE)  # a long formula needs the whole line
    indent = 4.0 if hanging or not left else width(head)
    lines = lines_of(right, LINE - indent, LINE - (4.0 if hanging else width(head)))
    *earlier, last = split_sum(lines[-1])
    if earlier and width(lines[-1]) + indent + for_tag > LINE:  # the number stands beside the last line
        lines[-1:] = [" ".join(earlier), last]
    if fit:
        lines = [rf"\fit{{{part}}}" if width(part) > LINE - indent + 6 else part for part in lines]
    if hanging:
        rows = [f"& {head.strip()}", *[rf"& \quad {part}" for part in lines]]
    elif left:
        rows = [f"{head}{{}}& {lines[0]}", *[f"& {part}" for part in lines[1:]]]
    else:
        rows = [f"& {lines[0]}", *[rf"& \quad {part}" for part in lines[1:]]]
    joined = " \\\\\n".join(rows)
    if environment:
        return f"\\begin{{align*}}\n{joined}{number}\n\\end{{align*}}"
    return f"\\begin{{aligned}}\n{joined}\n\\end{{aligned}}{number}"
