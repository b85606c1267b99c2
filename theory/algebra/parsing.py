r"""A small, safe grammar for trace polynomials, the one in which they print. Input is never evaluated as code.

    sum      :=  ['-'] product { ('+' | '-') product }
    product  :=  power { ['*' | '/'] power }                 side by side is a product
    power    :=  atom { "'" | '^' integer | '^-' integer }   ' is the transpose
    atom     :=  number | name | 'tr' '(' sum ')' | '(' sum ')'

Names are the paper's: ``S`` or ``Lambda_hat`` is the sample covariance of N tokens, ``Lambda`` their covariance; ``w``, ``x_q``, ``beta``,
``y_q`` are vectors and the target; ``x_n``, ``y_n`` one token and its target, ``X_c``, ``y`` all of them, ``zeta`` label noise; ``M`` is
E(S^2), symmetric; ``N``, ``D``, ``H``, ``R``, ``sigma``, ``tau``, ``lambda`` are scalars; ``I`` is the identity. Any other name is a
constant: a D x D matrix if it starts with a capital, a column vector if it does not.

>>> parse("S A S + 1/2 tr(A' A) I")
1/2 tr(A A') I + Lambda_hat A Lambda_hat
>>> from iclflow.theory import expect
>>> expect(parse("S A S"))
Lambda A Lambda + 1/N Lambda A' Lambda + 1/N tr(A Lambda) Lambda
"""

import re
from fractions import Fraction
from functools import reduce
from operator import add, mul, truediv

from sympy import Expr, Identity, Rational

from .. import notation
from .coefficients import common_denominator_size
from .polynomial import TracePolynomial
from .syntax import INTEGER, Node, Unreadable, tree

# Limits on the work that a line of text can ask for, far beyond what anyone reads.
MAX_LENGTH = 2_000  # characters
MAX_EXPONENT = 40
MAX_TERMS = 20_000
MAX_PRODUCTS = 200_000  # of terms, in one multiplication
MAX_FACTORS = 2_000  # in one term
MAX_DIVISOR = 300  # terms of a sum that something is divided by
MAX_MONOMIALS = 2_000  # of a common denominator, for each of the sums that it is made of

NAMES = {symbol.name: symbol for symbol in vars(notation).values() if isinstance(symbol, Expr) and hasattr(symbol, "name")} | {
    "S": notation.Lambda_hat,
    "I": Identity(notation.D),
}


def parse(text: str) -> TracePolynomial:
    """Read a trace polynomial. ValueError says at which character reading failed and what was expected there."""
    if not isinstance(text, str):
        raise TypeError(f"parse: needs a string, got {text!r}")
    if len(text) > MAX_LENGTH:
        raise ValueError(f"parse: the expression has {len(text)} characters; at most {MAX_LENGTH} are read")
    try:
        return _polynomial(tree(text))
    except Unreadable as problem:
        raise ValueError(f"cannot read {text!r} at character {(problem.position or 0) + 1}: {problem}") from None


def symbol(name: str) -> Expr:
    """The symbol that a name stands for in :func:`parse`; a D x D matrix or a vector for a name that is not the paper's."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name in ("tr", "I"):
        raise ValueError(f"{name!r} is not the name of a symbol; a name is a letter followed by letters, digits or _")
    if name in NAMES:
        return NAMES[name]
    return notation.matrix(name, notation.D) if name[0].isupper() else notation.vector(name, notation.D)


def number_of(node: Node) -> Expr:
    """The rational number that a token shows."""
    number = Fraction(node.parts[0].text)
    return Rational(number.numerator, number.denominator)


def _combined(position: int, operation, *operands) -> TracePolynomial:
    """Apply an operation; its error (a shape, an inverse) gains the position in the text."""
    try:
        _require_feasible(operation, *operands)
        result = operation(*operands)
    except (ValueError, ZeroDivisionError) as problem:
        raise Unreadable(str(problem), position) from None
    if len(result.terms) > MAX_TERMS:
        raise Unreadable(f"it expands to more than {MAX_TERMS} terms", position)
    return result


def _require_feasible(operation, left: TracePolynomial, right: TracePolynomial | None = None) -> None:
    """Raise ``ValueError`` with the estimate if an operation on polynomials is much work."""
    divisor = {truediv: right, TracePolynomial.reciprocal: left}.get(operation)
    if divisor is not None and len(divisor.terms) > MAX_DIVISOR:
        raise ValueError(f"it divides by a sum of {len(divisor.terms)} terms; at most {MAX_DIVISOR} are factored")
    if right is None or operation not in (mul, add):
        return
    products = len(left.terms) * len(right.terms)
    if operation is mul and products > MAX_PRODUCTS:
        raise ValueError(f"it multiplies {products:,} pairs of terms; at most {MAX_PRODUCTS:,} are feasible")
    factors = sum(max((len(word or ()) + sum(map(len, traces)) for _, traces, word in one.terms), default=0) for one in (left, right))
    if operation is mul and factors > MAX_FACTORS:
        raise ValueError(f"a term has {factors:,} factors; at most {MAX_FACTORS:,} are feasible")
    if operation is mul and products == 1:
        return
    monomials = common_denominator_size([scalars for one in (left, right) for scalars in {key[0] for key in one.terms}])
    if monomials > MAX_MONOMIALS:
        raise ValueError(f"its common denominator has about {monomials:,} monomials; at most {MAX_MONOMIALS:,} are feasible")


def _polynomial(node: Node) -> TracePolynomial:
    kind, parts, position = node.kind, node.parts, node.position
    if kind == "number":
        return TracePolynomial(number_of(node))
    if kind == "name":
        return TracePolynomial(symbol(parts[0].text) if parts[0].text != "I" else NAMES["I"])
    if kind == "call" and parts[0] in ("tr", "inv"):
        return _combined(position, TracePolynomial.trace if parts[0] == "tr" else TracePolynomial.reciprocal, _polynomial(parts[1]))
    if kind == "call":
        raise Unreadable(f"{parts[0]}(...) is not read here" + ": expect takes the expectation of the whole" * (parts[0] == "E"), position)
    if kind == "transpose" and parts[0].kind == "name" and not hasattr(symbol(parts[0].parts[0].text), "shape"):
        raise Unreadable(f"{parts[0].parts[0].text} is a number, and has no transpose", position)
    if kind == "power":
        return _power(_polynomial(parts[0]), parts[1], position)
    if kind not in ("sum", "product", "quotient", "negative", "transpose", "bracket"):
        raise Unreadable("expected sums, products, powers, transposes and traces", position)
    operands = [_polynomial(part) for part in parts]
    if kind in ("sum", "product", "quotient"):
        operation = {"sum": add, "product": mul, "quotient": truediv}[kind]
        return reduce(lambda one, other: _combined(position, operation, one, other), operands)
    return operands[0] if kind == "bracket" else operands[0].T if kind == "transpose" else -operands[0]


def _power(base: TracePolynomial, exponent: Node, position: int) -> TracePolynomial:
    negative = exponent.kind == "negative"
    exponent = exponent.parts[0] if negative else exponent
    if exponent.kind != "number" or not exponent.parts[0].text.isdigit() or int(exponent.parts[0].text) > MAX_EXPONENT:
        raise Unreadable(f"expected {INTEGER}", exponent.position)
    base = _combined(position, TracePolynomial.reciprocal, base) if negative else base
    result = _combined(position, lambda one: one**0, base)
    for _ in range(int(exponent.parts[0].text)):
        result = _combined(position, mul, result, base)
    return result
