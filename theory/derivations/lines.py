r"""One line of a derivation: ``left relation right``, a reason, what it uses, and the verdict of a machine.

>>> from iclflow.theory.derivations.heads import E
>>> from iclflow.theory.notation import Lambda, Lambda_hat, N
>>> from sympy import Trace
>>> line = Line(E(Lambda_hat**2), "=", Lambda**2 + (Lambda**2 + Trace(Lambda) * Lambda) / N, "Stein's lemma")
>>> line.verify().status
'exact'
>>> from dataclasses import replace
>>> replace(line, right=Lambda**2).verify().status
'fails'
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .conditions import Condition, conditions_of
from .judging.judge import judge
from .judging.trial import Verdict

RELATIONS = ("=", "!=", ":=", "=>", "<=>", "<", "<=", ">", ">=", "->", "~")


@dataclass(frozen=True)
class Line:
    """``left relation right``.

    ``left``, ``right``: trace polynomials, SymPy expressions, explicit matrices, with operations not carried out (``E``, ``Gradient``,
    ``Rate``, ``Integral``, ``Limit``, ``Sum``); for ``=>`` and ``<=>`` lines, conditions, or tuples of them. ``reason``: in words.
    ``uses``: entries by number and earlier lines by index. ``part``: the part of the entry whose result this is.

    ``parameter`` and ``order`` belong to ``->`` and ``~``: as the parameter goes to infinity (or, given as (parameter, value), to the
    value), left - right is of this order, a power or a function of the parameter. ``meets`` belongs to ``=>`` and ``<=>``: functions that
    change a random point so that it meets the premise, and the conclusion. Definitions of earlier lines hold in all later ones.
    """

    left: Any
    relation: str
    right: Any
    reason: str = ""
    uses: Any = ()
    part: str = field(default="", compare=False, repr=False)
    conditions: tuple[Condition, ...] = field(default=(), compare=False, repr=False)
    parameter: Any = field(default=None, compare=False, repr=False)
    order: Any = field(default=None, compare=False, repr=False)
    meets: tuple = field(default=(), compare=False, repr=False)
    earlier: tuple["Line", ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self):
        if self.relation not in RELATIONS:
            raise ValueError(f"relation must be one of {' '.join(RELATIONS)}, got {self.relation!r}")
        if self.relation in ("->", "~") and self.parameter is None:
            raise ValueError(f"parameter: a line with {self.relation} needs the parameter that goes to its limit")
        uses = (self.uses,) if isinstance(self.uses, str | int) else tuple(self.uses)
        object.__setattr__(self, "uses", uses)
        object.__setattr__(self, "conditions", conditions_of(self.conditions))

    def verify(self, *, seed: int = 0) -> Verdict:
        """Judge the line: by the algebra if it decides, else at random points drawn with ``seed`` inside the conditions."""
        return judge(self, seed)


Lines = Iterator[Line]  # what a function that yields the lines of a derivation gives


def chain(left: Any, *links: tuple, **options) -> tuple[Line, ...]:
    """Lines that share a left side: each link is (right, reason[, uses]), and continues the one before.

    The first line is left = first right; each later one has the right side before it on its left.
    """
    lines = []
    for right, reason, *uses in links:
        lines.append(Line(left, "=", right, reason, *uses, **options))
        left = right
    return tuple(lines)
