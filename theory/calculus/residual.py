"""A check inside derivations: a claimed solution is put into its equation, and what is left has to be exactly zero."""

from sympy import Expr

from .equality import vanishes

__all__ = ["require_zero"]


def require_zero(*residuals: Expr) -> None:
    """Raise ``ArithmeticError`` unless every residual is identically zero."""
    for residual in residuals:
        if not vanishes(residual):
            raise ArithmeticError(f"a residual should be exactly 0, and is {residual}")
