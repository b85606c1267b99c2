r"""What names and numbers in a text mean, and how much a text may ask for. Input is never evaluated as code.

Names are the paper's: ``S`` or ``Lambda_hat`` is the sample covariance of N tokens, ``Lambda`` their covariance; ``w``, ``x_q``, ``beta``,
``y_q`` are vectors and the target; ``x_n``, ``y_n`` one token and its target, ``X_c``, ``y`` all of them, ``zeta`` label noise; ``M`` is
E(S^2), symmetric; ``N``, ``D``, ``H``, ``R``, ``sigma``, ``tau``, ``lambda`` are scalars; ``I`` is the identity. Any other name is a
constant: a D x D matrix if it starts with a capital, a column vector if it does not.

>>> symbol("S"), symbol("A").shape, symbol("u").shape
(Lambda_hat, (D, D), (D, 1))
"""

import re
from fractions import Fraction

from sympy import Expr, Identity, Rational

from .. import notation
from .syntax import Node

# Limits on the work that a line of text can ask for, far beyond what anyone reads.
MAX_LENGTH = 2_000  # characters
MAX_EXPONENT = 40
MAX_TERMS = 20_000
MAX_DIVISOR = 300  # terms of a sum that something is divided by

NAMES = {symbol.name: symbol for symbol in vars(notation).values() if isinstance(symbol, Expr) and hasattr(symbol, "name")} | {
    "S": notation.Lambda_hat,
    "I": Identity(notation.D),
}


def symbol(name: str) -> Expr:
    """The symbol that a name stands for; a D x D matrix or a vector for a name that is not the paper's."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name in ("tr", "I"):
        raise ValueError(f"{name!r} is not the name of a symbol; a name is a letter followed by letters, digits or _")
    if name in NAMES:
        return NAMES[name]
    return notation.matrix(name, notation.D) if name[0].isupper() else notation.vector(name, notation.D)


def number_of(node: Node) -> Expr:
    """The rational number that a token shows."""
    number = Fraction(node.parts[0].text)
    return Rational(number.numerator, number.denominator)
