"""What a derivation gives: judged lines, the last of them the result, and how they print."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any

from sympy import MatrixBase, oo, sympify

from ..algebra.letters import Letters, letters
from ..typesetting.latex import formula_latex, formula_text
from ..typesetting.line_breaks import LINE, Row, aligned, width
from ..typesetting.sentences import plain, sentence_latex, sentence_text
from .conditions import Condition
from .lines import Line

LEFT_TEXT = 26  # letters of the longest left side that stands beside its relation in text


@dataclass(frozen=True)
class Derivation:
    """The lines of a derivation, each of which can be judged: ``line.verify()``. Text in a terminal, LaTeX in Jupyter.

    ``result`` is the last right side, or {part: right side} where the lines name parts. ``entries``: those whose lines these are, one
    after the other, if the derivation is written in full. ``verdicts``: the status of each line, if it is to be printed; see ``judged``.
    """

    lines: tuple[Line, ...]
    entries: tuple = ()
    verdicts: tuple[str, ...] = ()

    @classmethod
    def by(cls, *lines: Line, conditions=()) -> "Derivation":
        """From lines; each learns which lines stand before it, and uses them by index, from the end if negative."""
        placed: list[Line] = []
        for line in lines:
            place = len(placed)
            uses = tuple(place + use if isinstance(use, int) and use < 0 else use for use in line.uses)
            placed.append(replace(line, uses=uses, earlier=tuple(placed), conditions=(*conditions, *line.conditions)))
        return cls(tuple(placed))

    def under(self, conditions: tuple[Condition, ...]) -> "Derivation":
        """The same derivation, each of its lines under further conditions."""
        return Derivation.by(*self.lines, conditions=conditions) if conditions else self

    def judged(self, *, seed: int = 0) -> "Derivation":
        """The same derivation, which prints the verdict on each line but definitions."""
        return replace(self, verdicts=tuple("" if line.relation == ":=" else line.verify(seed=seed).status for line in self.lines))

    def within(self, parts: Mapping[str, str] | str = "") -> tuple[Line, ...]:
        """The lines, to stand in another derivation, where the part that was called one thing is called another.

        ``parts``: {old name: new name}; a name alone for the last line of a derivation without parts. Other parts lose their name.
        """
        names = {len(self.lines) - 1: parts} if isinstance(parts, str) else {i: parts.get(one.part, "") for i, one in enumerate(self.lines)}
        return tuple(
            replace(line, part=names.get(i, ""), uses=tuple(use - i if isinstance(use, int) else use for use in line.uses))
            for i, line in enumerate(self.lines)
        )

    @property
    def result(self) -> Any:
        parts = {line.part: line.right for line in self.lines if line.part}
        return parts or self.lines[-1].right

    @property
    def parts(self) -> Mapping[str, Any]:
        """{part: expression}; one nameless part where the equation has only one."""
        result = self.result
        return result if any(line.part for line in self.lines) else {"": result}

    @property
    def letters(self) -> Letters:
        """{printed name: symbol} of all lines, left sides excluded."""
        return letters([formula for line in self.lines for formula in formulas(line.right)])

    def __str__(self) -> str:
        pieces = []
        for heading, lines in self._sections():
            lefts = [side_text(_left(before, line)) for _, before, line in lines]
            column = max((len(left) for left in lefts if len(left) <= LEFT_TEXT), default=0)
            pieces += ["", sentence_text(heading)][not pieces :] * bool(heading)
            for (number, _, line), left in zip(lines, lefts, strict=True):
                part = f"({line.part}) " if line.part else ""
                pieces.append(f"{number}. {part}{self._reason(line, number, sentence_text)}")
                pieces += text_lines(left, line.relation, f"{side_text(line.right)}   {plain(limit_latex(line))}".rstrip(), column)
        return "\n".join(pieces)

    def latex(self) -> str:
        r"""One ``align*``, its lines broken to fit the page, with the reasons between them; several, each with its heading, in full."""
        pieces = []
        for heading, lines in self._sections():
            rows, rule = [], ""
            for number, before, line in lines:
                found = line_rows(before, line, tag=str(number) if heading else "")
                rows += [found[0]._replace(reason=f"{self._reason(line, number, sentence_latex)}:" * (line.reason != rule)), *found[1:]]
                rule = line.reason
            words = rf"\textbf{{{sentence_latex(heading)}.}} " * bool(heading) + rows[0].reason
            pieces.append(f"{words}\n{aligned([rows[0]._replace(reason=''), *rows[1:]])}")
        whole = "\n\n".join(pieces)
        return f"{{\\allowdisplaybreaks\n{whole}\n}}"

    def markdown(self) -> str:
        """The lines between double dollars, aligned and numbered, and a list of their reasons; in full, with a heading for each entry."""
        pieces = []
        for heading, lines in self._sections():
            rows = [row for number, before, line in lines for row in line_rows(before, line, tag=str(number))]
            pieces += [f"**{heading}**\n"] * bool(heading) + [f"$$\n{aligned(rows, 'aligned')}\n$$\n"]
            pieces += [f"{number}. {self._reason(line, number, str)}" for number, _, line in lines] + [""]
        return "\n".join(pieces)

    def _sections(self) -> Iterator[tuple[str, list]]:
        """(heading, [(number, the line before, line)]): a section for each entry of a derivation in full, else one without a heading."""
        lines = iter([*zip(count(1), (None, *self.lines), self.lines)])
        for entry in self.entries:
            (number, _, first), *others = islice(lines, len(entry.lines))
            yield f"({entry.number}) {entry.title}", [(number, None, first), *others]
        if not self.entries:
            yield "", list(lines)

    def _reason(self, line: Line, number: int, words: Callable[[str], str]) -> str:
        """The reason as a sentence, with the verdict if the line is judged; in a derivation in full with what the line uses."""
        uses = line.uses if self.entries else ()
        first = number - len(line.earlier)
        by = ", ".join(str(first + use) if isinstance(use, int) else f"({use})" for use in uses)
        notes = [f"by {by}"] * bool(by) + list(filter(None, self.verdicts[number - 1 : number]))
        return _sentence(words(line.reason)) + (f" [{'; '.join(notes)}]" if notes else "")

    def _repr_markdown_(self) -> str:
        return self.markdown()


RELATIONS_LATEX = {
    "=": "=", "!=": r"\ne", ":=": ":=", "=>": r"\Rightarrow", "<=>": r"\Leftrightarrow", "<": "<", "<=": r"\le", ">": ">", ">=": r"\ge",
    "->": r"\to", "~": r"\sim", "~=": r"\approx",
}  # fmt: skip


def formulas(side: Any) -> list:
    """The formulas in a side of a line; those of the statements of an implication."""
    if isinstance(side, tuple):
        return [formula for one in side for formula in formulas(one)]
    if isinstance(side, Line):
        return [*formulas(side.left), *formulas(side.right)]
    return [] if isinstance(side, Condition) or side is None else [side]


def side_latex(side: Any) -> str:
    """A side of a line as LaTeX: a formula, or statements for an implication."""
    if side is None or isinstance(side, str):
        return side or ""
    if isinstance(side, tuple):
        return r",\quad ".join(map(side_latex, side))
    if isinstance(side, Condition):
        return rf"\text{{{sentence_latex(side.text)}}}"
    if isinstance(side, Line):
        return f"{side_latex(side.left)} {RELATIONS_LATEX[side.relation]} {side_latex(side.right)}"
    return formula_latex(side)


def side_text(side: Any) -> str:
    """A side of a line as text."""
    if side is None or isinstance(side, str):
        return plain(side or "")
    if isinstance(side, tuple):
        return ", ".join(map(side_text, side))
    if isinstance(side, Condition):
        return sentence_text(side.text)
    if isinstance(side, Line):
        return f"{side_text(side.left)} {side.relation} {side_text(side.right)}"
    return formula_text(side)


def text_lines(left: str, relation: str, right: str, column: int) -> list[str]:
    """A formula as lines of text, its relation in a column; a longer left side stands above."""
    above = len(left) > column
    first, *others = right.split("\n")
    head = f"     {'' if above else left:>{column}}  {relation:<2} "
    return [f"     {left}"] * above + [head + first, *(" " * len(head) + other for other in others)]


def limit_latex(line: Line) -> str:
    """The limit that a line is about, and the order of what is left out, as LaTeX."""
    if line.parameter is None:
        return ""
    letter, target = line.parameter if isinstance(line.parameter, tuple) else (line.parameter, oo)
    left_out = ""
    if line.order is not None:
        exponent = f"{'-' * (target == oo)}{line.order}"
        power = formula_latex(letter if target == oo else letter - target) + (f"^{{{exponent}}}" if exponent != "1" else "")
        left_out = rf", O({power if line.order and sympify(line.order).is_number else formula_latex(line.order or 1)})"
    return rf"\quad ({formula_latex(letter)} \to {formula_latex(target)}{left_out})"


def _left(before: Line | None, line: Line) -> Any:
    """The left side of a line; empty if it continues the line before."""
    if before is None or before.relation not in ("=", ":=", "->", "~") or isinstance(line.right, MatrixBase):
        return line.left
    return "" if type(before.right) is type(line.left) and before.right == line.left else line.left


def line_rows(before: Line | None, line: Line, tag: str = "") -> list[Row]:
    return rows(_left(before, line), line.relation, line.right, tag, limit_latex(line))


def rows(left: Any, relation: str, right: Any, tag: str = "", more: str = "") -> list[Row]:
    """A formula as rows of a display: one, or one for each entry of explicit matrices that are wider than the page."""
    whole, shown, sign = side_latex(left), f"{side_latex(right)} {more}".rstrip(), RELATIONS_LATEX[relation]
    if whole.rstrip().endswith(("=", r"\approx", r"\sim", r"\simeq", r"\propto", r"\le", r"\ge", ":", r"\quad")):
        sign = ""
    if not isinstance(right, MatrixBase) or max(width(whole), width(shown)) <= LINE:
        return [Row(whole, sign, shown, tag)]
    places = [(i, j) for i in range(right.rows) for j in range(right.cols)]
    entries = isinstance(left, MatrixBase) and left.shape == right.shape
    named = [formula_latex(left[at]) if entries else rf"\left[{whole or '.'}\right]_{{{at[0] + 1}{at[1] + 1}}}" for at in places]
    return [Row(one, sign, formula_latex(right[at]), tag if at == places[-1] else "") for one, at in zip(named, places, strict=True)]


def tag(number: str, part: str) -> str:
    """The number of a part: 19a, or "31, first" where the part has a name."""
    joined = number.isdigit() and len(part) == 1 and part in "abcdefgh"
    return f"{number}{part}" if joined or not part else f"{number}, {part}"


def _sentence(rule: str) -> str:
    """The rule as the beginning of a sentence, ready for a colon."""
    rule = rule.rstrip(" .:")
    return rule[:1].upper() + rule[1:] if rule[:2].isalpha() or rule[:2] in ("a ", "A ") else rule
