"""The point where a line fails, by the letters that stand in the line: as numbers, and in words."""

from collections.abc import Iterable
from typing import Any

import mpmath
from sympy import Basic, MatrixBase
from sympy.tensor.indexed import Indexed, IndexedBase

from ..algebra.polynomial import TracePolynomial
from ..derivations import Line, Point, as_sympy, carried_out
from ..derivations.derivation import side_text
from ..derivations.judging.trial import Verdict


def letters_of(side: Any) -> set:
    """The symbols of a side of a line, those of its sizes included; bases in place of indexed letters."""
    if isinstance(side, tuple):
        return set().union(*map(letters_of, side))
    if isinstance(side, Line):
        return letters_of(side.left) | letters_of(side.right)
    if not isinstance(side, Basic | MatrixBase | TracePolynomial):
        return set()
    formula = as_sympy(side) if isinstance(side, TracePolynomial) else side
    bases = {one.base for one in formula.atoms(Indexed)}
    found = {one for one in formula.free_symbols if not isinstance(one, Indexed | IndexedBase)} - {base.label for base in bases}
    return found | bases | sizes_of(found)


def sizes_of(letters: Iterable) -> set:
    """The symbols in the sizes of letters."""
    return {symbol for one in letters for size in getattr(one, "shape", None) or () for symbol in size.free_symbols}


def numbers_at(line: Line, point: Point | None) -> dict[str, Any]:
    """{letter: number or rows} at a point, of the letters in a line and in what its letters are defined by."""
    if point is None:
        return {}
    found: set = set()
    for side in (line.left, line.right):
        found |= letters_of(_carried_out(side))
    for definition in reversed(line.earlier):
        if definition.left in found:
            found |= letters_of(_carried_out(definition.right))
    present = sorted((one for one in found if one in point), key=lambda one: (hasattr(one, "shape"), str(one)))
    return {str(one): _plain(point[one]) for one in present}


def _carried_out(side: Any) -> Any:
    try:
        return carried_out(side)
    except (ValueError, TypeError, NotImplementedError):
        return side


def _plain(value: Any) -> Any:
    if isinstance(value, mpmath.matrix):
        rows = [[float(value[i, j]) for j in range(value.cols)] for i in range(value.rows)]
        return rows if value.cols > 1 else [row[0] for row in rows]
    if hasattr(value, "members"):
        return {str(index): float(one) for index, one in value.members.items()}
    return value if isinstance(value, int) else float(value)


def refutation(line: Line, verdict: Verdict) -> str:
    """In words: which line fails, at which point, and by how much."""
    return f"{side_text(line)} fails {counterexample(line, verdict)}"


def counterexample(line: Line, verdict: Verdict) -> str:
    """The point where a line fails, by how much, and how it was found."""
    point = ", ".join(f"{name} = {_short(value)}" for name, value in numbers_at(line, verdict.point).items())
    amount = "" if verdict.residual is None else f"by {abs(verdict.residual):.3g}"
    return f"{', '.join(filter(None, (point and f'at {point}', amount)))}: {verdict.method}".lstrip(": ")


def _short(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_short, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{index}: {_short(one)}' for index, one in value.items())}}}"
    return str(value) if isinstance(value, int) else f"{value:.4g}"
