"""What a derivation gives: the last expression, and the steps that led to it."""

from typing import Any, NamedTuple

from sympy import Expr, simplify

__all__ = ["Derived", "require_zero"]


class Derived(NamedTuple):
    """A computed result with its steps, each a rule in words and the expression it gave; the last expression is the result."""

    result: Any
    steps: tuple[tuple[str, Any], ...]

    @classmethod
    def by(cls, *steps: tuple[str, Any]) -> "Derived":
        return cls(steps[-1][1], steps)


def require_zero(*residuals: Expr) -> None:
    """Raise ``ArithmeticError`` unless every residual simplifies to exactly 0."""
    for residual in residuals:
        rest = simplify(residual)
        if rest != 0:
            raise ArithmeticError(f"a residual should be exactly 0, and is {rest}")
