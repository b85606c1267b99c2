r"""A small, safe grammar for trace polynomials, the one in which they print. Input is never evaluated as code.

    sum      :=  ['-'] product { ('+' | '-') product }
    product  :=  power { ['*' | '/'] power }                 side by side is a product
    power    :=  atom { "'" | '^' integer | '^-' integer }   ' is the transpose
    atom     :=  number | name | 'tr' '(' sum ')' | '(' sum ')'

Names are the paper's: ``S`` or ``Lambda_hat`` is the sample covariance of N tokens, ``Lambda`` their covariance; ``w``, ``x_q``, ``beta``,
``y_q`` are vectors and the target; ``M`` is E(S^2), symmetric; ``N``, ``D``, ``H``, ``R``, ``sigma``, ``tau``, ``lambda`` are scalars;
``I`` is the identity. Any other name is a constant: a D x D matrix if it starts with a capital, a column vector if it does not.

>>> parse("S A S + 1/2 tr(A' A) I")
1/2 tr(A A') I + Lambda_hat A Lambda_hat
>>> from iclflow.theory import expect
>>> expect(parse("S A S"))
Lambda A Lambda + 1/N Lambda A' Lambda + 1/N tr(A Lambda) Lambda
"""

import re
from fractions import Fraction
from operator import add, mul, truediv
from typing import NamedTuple, NoReturn

from sympy import Expr, Identity, Rational

from .. import notation
from .polynomial import TracePolynomial

# Limits on the work that a line of text can ask for, far beyond what anyone reads.
MAX_LENGTH = 2_000  # characters
MAX_EXPONENT = 40
MAX_TERMS = 20_000
MAX_DEPTH = 50  # of brackets

_TOKEN = re.compile(r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<name>[A-Za-z][A-Za-z0-9_]*)|(?P<sign>[-+*/^()']))")
_NAMES = {"S": notation.Lambda_hat, "I": Identity(notation.D)} | {
    symbol.name: symbol for symbol in (getattr(notation, name) for name in notation.__all__) if isinstance(symbol, Expr)
}


class Token(NamedTuple):
    kind: str
    text: str
    position: int


def parse(text: str) -> TracePolynomial:
    """Read a trace polynomial. ValueError says at which character reading failed and what was expected there."""
    if not isinstance(text, str):
        raise TypeError(f"parse: needs a string, got {text!r}")
    if len(text) > MAX_LENGTH:
        raise ValueError(f"parse: the expression has {len(text)} characters; at most {MAX_LENGTH} are read")
    return _Parser(text).parse()


def symbol(name: str) -> Expr:
    """The symbol that a name stands for in :func:`parse`; a D x D matrix or a vector for a name that is not the paper's."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or name in ("tr", "I"):
        raise ValueError(f"{name!r} is not the name of a symbol; a name is a letter followed by letters, digits or _")
    if name in _NAMES:
        return _NAMES[name]
    return notation.matrix(name, notation.D) if name[0].isupper() else notation.vector(name, notation.D)


class _Parser:
    def __init__(self, text: str):
        self.text, self.depth = text, 0
        self.tokens = self._tokenize()
        self.at = 0

    def _tokenize(self) -> list[Token]:
        tokens, position = [], 0
        text = self.text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                position += len(text[position:]) - len(text[position:].lstrip())
                self._fail(position, "a name, a number, an operator or a bracket")
            kind = match.lastgroup or ""
            tokens.append(Token(kind, match[kind], match.start(kind)))
            position = match.end()
        return [*tokens, Token("end", "", len(text))]

    def _fail(self, position: int, expected: str) -> NoReturn:
        found = repr(self.text[position]) if position < len(self.text.rstrip()) else "the end"
        raise ValueError(f"cannot read {self.text!r} at character {position + 1}: found {found}, expected {expected}")

    def _take(self, *texts: str) -> Token | None:
        token = self.tokens[self.at]
        if token.kind == "sign" and token.text in texts:
            self.at += 1
            return token
        return None

    def _here(self) -> Token:
        return self.tokens[self.at]

    def _combine(self, position: int, operation, *operands) -> TracePolynomial:
        """Apply an operation; the message of its error (a shape, an inverse) gains the position in the text."""
        try:
            result = operation(*operands)
        except (ValueError, ZeroDivisionError) as error:
            raise ValueError(f"cannot read {self.text!r} at character {position + 1}: {error}") from None
        if len(result.terms) > MAX_TERMS:
            raise ValueError(f"parse: {self.text!r} expands to more than {MAX_TERMS} terms")
        return result

    def parse(self) -> TracePolynomial:
        result = self._sum()
        if self._here().kind != "end":
            self._fail(self._here().position, "an operator or the end")
        return result

    def _sum(self) -> TracePolynomial:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self._fail(self._here().position, f"at most {MAX_DEPTH} nested brackets")
        result = -self._product() if self._take("-") else self._product()
        while sign := self._take("+", "-"):
            other = self._product()
            result = self._combine(sign.position, add, result, -other if sign.text == "-" else other)
        self.depth -= 1
        return result

    def _product(self) -> TracePolynomial:
        result = self._power()
        while True:
            start = self._here()
            if self._take("/"):
                result = self._combine(start.position, truediv, result, self._power())
            elif self._take("*") or start.kind in ("number", "name") or start.text == "(":
                result = self._combine(start.position, mul, result, self._power())
            else:
                return result

    def _power(self) -> TracePolynomial:
        result = self._atom()
        while sign := self._take("'", "^"):
            if sign.text == "'":
                result = result.T
                continue
            negative = self._take("-") is not None
            token = self._here()
            if token.kind != "number" or not token.text.isdigit() or int(token.text) > MAX_EXPONENT:
                self._fail(token.position, f"an integer exponent of at most {MAX_EXPONENT}")
            self.at += 1
            base = self._combine(sign.position, TracePolynomial.reciprocal, result) if negative else result
            result = self._combine(sign.position, lambda a: a**0, base)
            for _ in range(int(token.text)):
                result = self._combine(sign.position, mul, result, base)
        return result

    def _atom(self) -> TracePolynomial:
        token = self._here()
        if token.kind == "number":
            self.at += 1
            number = Fraction(token.text)
            return TracePolynomial(Rational(number.numerator, number.denominator))
        if token.kind == "name":
            self.at += 1
            if token.text != "tr":
                return TracePolynomial(Identity(notation.D) if token.text == "I" else symbol(token.text))
            opening = self._here().position
            return self._combine(opening, TracePolynomial.trace, self._bracket("a bracket after tr"))
        return self._bracket("a name, a number or a bracket")

    def _bracket(self, expected: str) -> TracePolynomial:
        if not self._take("("):
            self._fail(self._here().position, expected)
        result = self._sum()
        if not self._take(")"):
            self._fail(self._here().position, "a closing bracket")
        return result
