"""The point where a line fails, by the letters that stand in the line: as numbers, and in words."""

from typing import Any

import mpmath
from sympy import Basic, MatrixBase
from sympy.tensor.indexed import Indexed, IndexedBase

from ..algebra.polynomial import TracePolynomial
from ..derivations.derivation import step_text
from ..derivations.heads import as_sympy
from ..derivations.judge import Verdict
from ..derivations.lines import Line
from ..derivations.points import Point

__all__ = ["letters_of", "numbers_at", "refutation"]


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
    sizes = (getattr(one, "shape", ()) for one in found)
    return found | bases | {symbol for shape in sizes for size in shape for symbol in size.free_symbols}


def numbers_at(line: Line, point: Point | None) -> dict[str, Any]:
    """{letter: number or rows} at a point, of the letters in a line to which the point gives a value."""
    if point is None:
        return {}
    present = sorted((one for one in letters_of(line) if one in point), key=lambda one: (hasattr(one, "shape"), str(one)))
    return {str(one): _plain(point[one]) for one in present}


def _plain(value: Any) -> Any:
    if isinstance(value, mpmath.matrix):
        rows = [[float(value[i, j]) for j in range(value.cols)] for i in range(value.rows)]
        return rows if value.cols > 1 else [row[0] for row in rows]
    if hasattr(value, "members"):
        return {str(index): float(one) for index, one in value.members.items()}
    return value if isinstance(value, int) else float(value)


def refutation(line: Line, verdict: Verdict) -> str:
    """In words: which line fails, at which point, and by how much."""
    point = ", ".join(f"{name} = {_short(value)}" for name, value in numbers_at(line, verdict.point).items())
    amount = "" if verdict.residual is None else f", by {verdict.residual:.3g}"
    where = f" at {point}" if point else ""
    return f"{step_text(line)} fails{where}{amount}: {verdict.method}"


def _short(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_short, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{index}: {_short(one)}' for index, one in value.items())}}}"
    return str(value) if isinstance(value, int) else f"{value:.4g}"
