"""What a derivation gives: ordered steps, each a rule in words and the expression it gave, the last of them the result."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sympy import MatrixBase

from ..algebra.letters import Letters, letters
from ..typesetting.latex import formula_latex, formula_text, superscript
from ..typesetting.line_breaks import LINE, display, width
from ..typesetting.sentences import sentence_latex, sentence_markdown, sentence_text
from .conditions import Condition
from .lines import Line

__all__ = ["RELATIONS_LATEX", "Derivation", "Step", "displayed", "left_latex", "side_latex", "side_text", "tag"]


@dataclass(frozen=True)
class Step:
    """One step: ``rule`` in words, the computed ``expression``, and ``left``, the LaTeX of what it equals (may be empty).

    An equation of several parts has one step with ``part`` for each of them, whose expressions together are the result.
    """

    rule: str
    expression: Any
    left: str = ""
    part: str = ""


@dataclass(frozen=True)
class Derivation:
    """The steps of a derivation. Prints itself as text in a terminal and as LaTeX in Jupyter.

    ``result`` is the last expression, or {part: expression} where the steps name parts.
    """

    steps: "tuple[Step | Line, ...]"

    @classmethod
    def by(cls, *steps: "Step | Line | tuple", conditions=()) -> "Derivation":
        """From lines; each learns which lines stand before it, and uses them by index, from the end if negative.

        Steps, or tuples (rule, expression[, left[, part]]), are lines without a left side that a machine could judge.
        """
        placed: list[Step | Line] = []
        for step in steps:
            if isinstance(step, Line):
                place = len(placed)
                uses = tuple(place + use if isinstance(use, int) and use < 0 else use for use in step.uses)
                earlier = tuple(_line(one) for one in placed)
                step = replace(step, uses=uses, earlier=earlier, conditions=(*conditions, *step.conditions))
            elif not isinstance(step, Step):
                step = Step(*step)
            placed.append(step)
        return cls(tuple(placed))

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines, each of which can be judged: ``line.verify()``."""
        return tuple(map(_line, self.steps))

    def under(self, conditions: tuple[Condition, ...]) -> "Derivation":
        """The same derivation, each of its lines under further conditions."""
        return Derivation.by(*self.steps, conditions=conditions) if conditions else self

    def within(self, parts: Mapping[str, str] | str = "") -> tuple[Line, ...]:
        """The lines, to stand in another derivation, where the part that was called one thing is called another.

        ``parts``: {old name: new name}; a name alone for the last line of a derivation without parts. Other parts lose their name.
        """
        names = {len(self.steps) - 1: parts} if isinstance(parts, str) else {i: parts.get(one.part, "") for i, one in enumerate(self.steps)}
        return tuple(
            replace(line, part=names.get(i, ""), uses=tuple(use - i if isinstance(use, int) else use for use in line.uses))
            for i, line in enumerate(self.lines)
        )

    @property
    def result(self) -> Any:
        parts = {step.part: step.expression for step in self.steps if step.part}
        return parts or self.steps[-1].expression

    @property
    def parts(self) -> Mapping[str, Any]:
        """{part: expression}; one nameless part where the equation has only one."""
        result = self.result
        return result if any(step.part for step in self.steps) else {"": result}

    @property
    def letters(self) -> Letters:
        """{printed name: symbol} of all lines, left sides excluded."""
        return letters([formula for step in self.steps for formula in _formulas(step.expression)])

    def labelled(self, lefts: Mapping[str, str]) -> "Derivation":
        """The same, with the left side of the equation, {part: LaTeX}, on each result that has none of its own."""
        last = {step.part: i for i, step in enumerate(self.steps)}
        named = any(step.part for step in self.steps)
        results = {i for part, i in last.items() if bool(part) == named}
        return Derivation(
            tuple(
                replace(step, left=lefts.get(step.part, "")) if isinstance(step, Step) and i in results and not step.left else step
                for i, step in enumerate(self.steps)
            )
        )

    def __str__(self) -> str:
        lines = []
        for number, step in enumerate(self.steps, 1):
            name = f"({step.part}) " if step.part else ""
            text = step_text(step).replace("\n", "\n     ")
            lines += [f"{number}. {_sentence(sentence_text(step.rule))}", f"     {name}{text}"]
        return "\n".join(lines)

    def latex(self, *, transpose: str = "top", number: str = "") -> str:
        """LaTeX paragraphs: each rule as a sentence, followed by what it gave as a display broken to fit the page.

        ``transpose``: ``"top"`` or ``"T"``. ``number``: tag the last step of each part with it.
        """
        pieces, rule = [], ""
        for step, name in self._tagged(number):
            if step.rule != rule:
                rule = step.rule
                pieces.append(f"{_sentence(sentence_latex(rule))}:")
            pieces += displayed(step.left, step.expression, tag=name, **_relation(step))
        return "\n".join(pieces).replace(r"\top", superscript(transpose))

    def markdown(self, *, transpose: str = "top", number: str = "") -> str:
        """A numbered list of the rules, each with its display between double dollars."""
        lines = []
        for position, (step, name) in enumerate(self._tagged(number), 1):
            displays = displayed(step.left, step.expression, tag=name, environment=False, **_relation(step))
            shown = "\n$$\n\n$$\n".join(displays).replace("\n", "\n   ")
            lines.append(f"{position}. {_sentence(sentence_markdown(step.rule))}:\n\n   $$\n   {shown}\n   $$\n")
        return "\n".join(lines).replace(r"\top", superscript(transpose))

    def _tagged(self, number: str):
        """Each step with its tag, which is empty unless it is a part's result."""
        last = {step.part: i for i, step in enumerate(self.steps)} if number else {}
        for i, step in enumerate(self.steps):
            is_result = last.get(step.part) == i and (bool(step.part) or i == len(self.steps) - 1)
            yield step, tag(number, step.part) if is_result else ""

    def _repr_markdown_(self) -> str:
        return self.markdown()


def _line(step: "Step | Line") -> Line:
    """A step as a line; what it equals is a string, and so nothing that could be judged."""
    return step if isinstance(step, Line) else Line(None, "=", step.expression, step.rule, part=step.part)


RELATIONS_LATEX = {
    "=": "=", "!=": r"\ne", ":=": ":=", "=>": r"\Rightarrow", "<=>": r"\Leftrightarrow", "<": "<", "<=": r"\le", ">": ">", ">=": r"\ge",
    "->": r"\to", "~": r"\sim",
}  # fmt: skip


def _formulas(side: Any) -> list:
    """The formulas in a side of a line; those of the statements of an implication."""
    if isinstance(side, tuple):
        return [formula for one in side for formula in _formulas(one)]
    if isinstance(side, Line):
        return [*_formulas(side.left), *_formulas(side.right)]
    return [] if isinstance(side, Condition) or side is None else [side]


def _relation(step: "Step | Line") -> dict[str, str]:
    return {} if isinstance(step, Step) else {"relation": RELATIONS_LATEX[step.relation]}


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
    if isinstance(side, tuple):
        return ", ".join(map(side_text, side))
    if isinstance(side, Condition):
        return sentence_text(side.text)
    if isinstance(side, Line):
        return f"{side_text(side.left)} {side.relation} {side_text(side.right)}"
    return formula_text(side)


def step_text(step: "Step | Line") -> str:
    """A line as text: left, relation, right, and the limit that an asymptotic one is about."""
    if isinstance(step, Step) or step.left is None:
        return formula_text(step.expression)
    return side_text(step) + (f"   ({_limit_text(step)})" if step.parameter is not None else "")


def _limit_text(line: Line) -> str:
    letter, target = line.parameter if isinstance(line.parameter, tuple) else (line.parameter, "infinity")
    order = "" if line.order is None else f", up to order {line.order}"
    return f"{letter} -> {target}{order}"


def left_latex(step: "Step | Line") -> str:
    """The left side as LaTeX, with its relation unless that is an equality."""
    if isinstance(step, Step):
        return step.left
    return "" if step.left is None else side_latex(step.left)


def displayed(left: Any, formula: Any, *, tag: str = "", **options) -> list[str]:
    """The displays of one formula: one, or one for each entry of explicit matrices that are wider than the page."""
    whole, right = side_latex(left), side_latex(formula)
    if not isinstance(formula, MatrixBase) or max(width(whole), width(right)) <= LINE:
        return [display(whole, right, tag=tag, **options)]
    places = [(i, j) for i in range(formula.rows) for j in range(formula.cols)]
    entries = isinstance(left, MatrixBase) and left.shape == formula.shape
    return [
        display(
            formula_latex(left[i, j]) if entries else rf"\left[{whole or '.'}\right]_{{{i + 1}{j + 1}}}",
            formula_latex(formula[i, j]),
            tag=tag if (i, j) == places[-1] else "",
            **options,
        )
        for i, j in places
    ]


def tag(number: str, part: str) -> str:
    """The number of a part: 19a, or "31, first" where the part has a name."""
    joined = number.isdigit() and len(part) == 1 and part in "abcdefgh"
    return f"{number}{part}" if joined or not part else f"{number}, {part}"


def _sentence(rule: str) -> str:
    """The rule as the beginning of a sentence, ready for a colon."""
    rule = rule.rstrip(" .:")
    return rule[:1].upper() + rule[1:] if rule[:2].isalpha() or rule[:2] in ("a ", "A ") else rule
