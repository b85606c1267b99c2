"""What a derivation gives: ordered steps, each a rule in words and the expression it gave, the last of them the result."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .latex import formula_latex, formula_text

__all__ = ["Derivation", "Step"]


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

    steps: tuple[Step, ...]

    @classmethod
    def by(cls, *steps: "Step | tuple") -> "Derivation":
        """From steps, or tuples (rule, expression[, left[, part]])."""
        return cls(tuple(step if isinstance(step, Step) else Step(*step) for step in steps))

    @property
    def result(self) -> Any:
        parts = {step.part: step.expression for step in self.steps if step.part}
        return parts or self.steps[-1].expression

    @property
    def parts(self) -> Mapping[str, Any]:
        """{part: expression}; one nameless part where the equation has only one."""
        result = self.result
        return result if any(step.part for step in self.steps) else {"": result}

    def __str__(self) -> str:
        lines = []
        for number, step in enumerate(self.steps, 1):
            name = f"({step.part}) " if step.part else ""
            lines += [f"{number}. {step.rule}", f"     {name}{formula_text(step.expression)}"]
        return "\n".join(lines)

    def latex(self, **options) -> str:
        """The steps as LaTeX paragraphs, each rule followed by its display; options as in :func:`~iclflow.theory.latex.formula_latex`."""
        pieces = []
        for step in self.steps:
            left = f"{step.left} = " if step.left else ""
            pieces.append(f"{step.rule}:\n\\[ {left}{formula_latex(step.expression, **options)} \\]")
        return "\n".join(pieces)

    def markdown(self, **options) -> str:
        lines = []
        for number, step in enumerate(self.steps, 1):
            left = f"{step.left} = " if step.left else ""
            lines.append(f"{number}. {step.rule}:\n\n   $$ {left}{formula_latex(step.expression, **options)} $$\n")
        return "\n".join(lines)

    def _repr_markdown_(self) -> str:
        return self.markdown()
