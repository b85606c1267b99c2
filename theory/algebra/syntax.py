r"""The grammar of formulas in text: characters to tokens, tokens to a tree. LaTeX gives the same tokens, and so the same trees::

    line     :=  sum { relation sum }                         = != := <= >= < > => <=> -> ~
    sum      :=  ['-'] product { ('+' | '-') product }
    product  :=  power { ['*' | '/'] power }                  side by side is a product
    power    :=  atom { "'" | '^' exponent }                  ' is the transpose
    exponent :=  ['-'] (number | name | '(' sum ')')
    atom     :=  number | name | function '(' sum ')' | '(' sum ')' | '[' sum ']' | 'E[' sum { '|' name } ']'
              |  'd/d' name product | 'sum_(' name = sum .. sum ')' product | 'lim_(' name -> sum ')' product

>>> tree("A B' + 2 tr(A)").kind, tree("A B' + 2 tr(A)").parts[1].kind
('sum', 'product')
>>> tree("A (B")
Traceback (most recent call last):
iclflow.theory.algebra.syntax.Unreadable: found the end, expected a closing bracket
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

MAX_DEPTH = 50  # of brackets
FUNCTIONS = frozenset(["tr", "inv", "sqrt", "ln", "log", "exp", "tanh", "norm", "E"])
WORDS = frozenset(["as", "for", "if", "with", "when", "where", "and", "up", "to", "order"])  # between a line and its limit
RELATIONS = (":=", "<=>", "=>", "<=", ">=", "!=", "->", "=", "<", ">", "~")
INTEGER = "an integer exponent of at most 40"
MEANT = {
    wrong: right
    for right, spellings in {
        "tr": "Tr TR trace Trace", "inv": "Inv inverse Inverse", "exp": "Exp", "ln": "Ln Log", "sqrt": "Sqrt", "tanh": "Tanh",
        "norm": "Norm", "E": "Expect expect", "": "det Det rank diag vec Var Cov var cov sin cos max min abs transpose",
    }.items()
    for wrong in spellings.split()
}  # fmt: skip
FOREIGN = {"**": "^ for a power", ".T": "' for the transpose", ".inv": "inv(...) round it", "==": "one ="}

_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.(?!\.)\d+)?(?:[eE][-+]?\d+(?![A-Za-z_]))?)"
    r"|(?P<foreign>\*\*|==|\.(?:T|inv)\b)|(?P<derivative>d/d[A-Za-z]\w*)|(?P<big>(?:sum|lim)_(?=\())|(?P<name>[A-Za-z][A-Za-z0-9_]*)"
    r"|(?P<relation>:=|<=>|=>|<=|>=|!=|->|[=<>~])|(?P<sign>\.\.|[-+*/^()\[\]',|]))"
)


class Unreadable(ValueError):  # noqa: N818
    """What cannot be read, and at which character of the text, from 0; None for the whole of it."""

    def __init__(self, message: str, position: int | None = 0):
        super().__init__(message)
        self.position = position


class Token(NamedTuple):
    """``kind``: number, name, function, derivative, big, relation, sign or end. ``glued``: no blank stands before it."""

    kind: str
    text: str
    position: int
    glued: bool = False
    value: Any = None


@dataclass(frozen=True)
class Node:
    """``kind``: number, name, sum, product, quotient, negative, power, transpose, call, bracket, derivative, big, order."""

    kind: str
    parts: tuple
    position: int = 0

    def walk(self) -> Iterator["Node | Token"]:
        """The node and all nodes and tokens below it; the letter of a derivative stands in its first part if no token does."""
        yield self
        for part in self.parts:
            for one in part if isinstance(part, tuple) and not isinstance(part, Token) else (part,):
                if isinstance(one, Node):
                    yield from one.walk()
                elif isinstance(one, Token):
                    yield one
        if self.kind == "derivative" and self.parts[1] is None:
            yield Token("name", self.parts[0][3:], self.position)


def tokens_of(text: str) -> list[Token]:
    """The tokens of a line of text; the last is the end."""
    found, position = [], 0
    stripped = text.rstrip()
    while position < len(stripped):
        match = _TOKEN.match(stripped, position)
        if match is None:
            position += len(stripped[position:]) - len(stripped[position:].lstrip())
            raise Unreadable(f"found {stripped[position]!r}, expected a name, a number, an operator or a bracket", position)
        kind = match.lastgroup or ""
        if kind == "foreign":
            raise Unreadable(f"found {match[kind]!r}, expected {FOREIGN[match[kind]]}", match.start(kind))
        found.append(Token(kind, match[kind], match.start(kind), match.start(kind) == position and position > 0))
        position = match.end()
    return [*found, Token("end", "", len(stripped))]


def tree(text: str) -> Node:
    """The tree of a formula without relations."""
    return Grammar(tokens_of(text)).whole()


class Grammar:
    """A reader of tokens by recursive descent, which refuses what people read in two ways, such as 1/2c and f(x).

    ``functions``, ``letters``, ``matrices``: names declared as such.
    """

    def __init__(self, tokens: Iterable[Token], functions: Iterable[str] = (), letters: Iterable[str] = (), matrices: Iterable[str] = ()):
        self.tokens, self.at, self.depth = list(tokens), 0, 0
        self.functions, self.letters, self.matrices = set(functions), set(letters), set(matrices)

    @property
    def here(self) -> Token:
        return self.tokens[self.at]

    def fail(self, expected: str) -> NoReturn:
        found = repr(self.here.text) if self.here.kind != "end" else "the end"
        raise Unreadable(f"found {found}, expected {expected}", self.here.position)

    def refuse(self, reason: str, token: Token | None = None) -> NoReturn:
        """What people read in two ways."""
        raise Unreadable(reason, (token or self.here).position)

    def take(self, *texts: str) -> Token | None:
        token = self.here
        if token.kind in ("sign", "relation", "word") and token.text in texts:
            self.at += 1
            return token
        return None

    def whole(self) -> Node:
        result = self.sum()
        if self.here.kind != "end":
            self.fail("an operator or the end")
        return result

    def sides(self) -> tuple[list[Node | None], list[Token]]:
        """The sides of a line and the relations between them; the first side is None where the line begins with a relation."""
        sides: list[Node | None] = [None if self.here.kind == "relation" else self.sum()]
        relations = []
        while self.here.kind == "relation":
            relations.append(self.here)
            self.at += 1
            sides.append(self.sum())
        return sides, relations

    def sum(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"at most {MAX_DEPTH} nested brackets")
        start = self.here.position
        terms = [self._signed() if self.take("-") else self.product()]
        while sign := self.take("+", "-"):
            terms.append(self._signed() if sign.text == "-" else self.product())
        self.depth -= 1
        return terms[0] if len(terms) == 1 else Node("sum", tuple(terms), start)

    def _signed(self) -> Node:
        start = self.here.position
        return Node("negative", (self.product(),), start)

    def _starts_factor(self) -> bool:
        token = self.here
        if token.text in WORDS:
            return False
        if token.kind == "name" or token.text in ("(", "["):
            following = self.tokens[self.at + 1 : self.at + 3]
            limit = token.text == "(" and [one.kind for one in following] == ["name", "relation"] and following[1].text == "->"
            return not limit  # (N -> infinity) behind a line says where its limit is
        return token.kind in ("number", "function", "derivative", "big")

    def product(self) -> Node:
        start = self.here.position
        result = self._factor()
        divided = False
        while True:
            sign = self.here
            if self.take("/"):
                result = Node("quotient", (result, self._factor()), sign.position)
                divided = True
            elif self.take("*") or self._starts_factor():
                beside = sign.text != "*"
                if divided and beside and self.here.glued:
                    self.refuse("what stands behind the / could be in the denominator or not: write brackets")
                if beside and self.here.kind == "number":
                    self.refuse("a number stands behind a factor: write it first, or braces round an exponent")
                other = self._factor()
                parts = result.parts if result.kind == "product" else (result,)
                result = Node("product", (*parts, other), start)
            else:
                return result

    def _factor(self) -> Node:
        token = self.here
        if token.kind in ("derivative", "big"):
            self.at += 1
            return self._operator(token)
        return self._power()

    def _operator(self, token: Token) -> Node:
        """A derivative, a sum or a limit: it reaches to the next sign, a derivative only over square brackets that follow it."""
        range_ = self._range() if token.kind == "big" else token.value
        before = self.at
        if token.kind == "derivative" and self.here.text == "[":
            body = self._power()
        else:
            self.depth += 1
            if self.depth > MAX_DEPTH:
                self.fail(f"at most {MAX_DEPTH} nested brackets")
            body = self.product()
            self.depth -= 1
            factors = body.parts if body.kind in ("product", "quotient") else (body,)
            if token.kind == "derivative" and len(factors) > 1:
                lettered = any(isinstance(one, Token) and one.kind != "number" for one in factors[0].walk())
                if factors[0].kind == "bracket" and lettered:
                    self.refuse("the derivative could be of the bracket or of the product: write square brackets", self.tokens[before])
                if any(one.kind == "derivative" for one in factors):
                    self.refuse("one of two derivatives in a product could act on the other: write square brackets", token)
        return Node(token.kind, (token.text, range_, body), token.position)

    def _range(self) -> Any:
        """(d=1..m) of a sum, (N -> infinity) of a limit."""
        if not self.take("("):
            self.fail("a bracket with the range")
        letter = self.here
        if letter.kind != "name":
            self.fail("a letter")
        self.at += 1
        if self.take("="):
            low = self.sum()
            if not self.take(".."):
                self.fail("'..' and the last value")
            result = letter, low, self.sum()
        elif self.take("->"):
            result = letter, self.sum()
        else:
            self.fail("'=' or '->'")
        if not self.take(")"):
            self.fail("a closing bracket")
        return result

    def _power(self) -> Node:
        result = self._atom()
        raised = False
        while sign := self.take("'", "^"):
            if sign.text == "'":
                result = Node("transpose", (result,), sign.position)
                continue
            if raised:
                self.refuse("two exponents, one behind the other: write brackets", sign)
            raised = True
            if result.kind == "call":
                name, opening = result.parts[0], result.parts[2]
                if name not in ("tr", "E", "inv", "norm") or (name == "E" and opening == "("):
                    self.refuse("the exponent could belong to what stands in the brackets: write brackets round the whole", sign)
            result = Node("power", (result, self._exponent()), sign.position)
        return result

    def _exponent(self) -> Node:
        token = self.here
        if self.take("-"):
            return Node("negative", (self._exponent(),), token.position)
        if token.kind in ("number", "name"):
            self.at += 1
            return Node(token.kind, (token,), token.position)
        if token.text == "(":
            return self._bracket("")
        return self.fail(INTEGER)

    def _atom(self) -> Node:
        token = self.here
        if token.kind == "number":
            self.at += 1
            return Node("number", (token,), token.position)
        following = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        named = token.kind == "name" and token.text in FUNCTIONS - self.letters
        if token.kind == "function" or (named and (following.text in ("(", "[") or token.text == "tr")):
            self.at += 1
            return self._call(token)
        if token.kind == "name":
            if token.text in MEANT.keys() - self.letters - self.functions:
                right = MEANT[token.text]
                raise Unreadable(f"{token.text}(...) is not read" + f": write {right}(...)" * bool(right), token.position)
            self.at += 1
            if following.text == "(" and token.text == "O" and "O" not in self.letters:
                return Node("order", (self._bracket(""),), token.position)
            close = following.text == "(" and (following.glued or token.value is not None)
            if close and (token.text in self.functions or (token.text not in self.matrices and self._looks_like_arguments())):
                return self._applied(token)
            return Node("name", (token,), token.position)
        return self._bracket("a name, a number or a bracket")

    def _looks_like_arguments(self) -> bool:
        """Do the brackets that follow hold one letter, 0 or a list, as those of a function do?"""
        inner = self.tokens[self.at + 1 : self.at + 3]
        short = len(inner) == 2 and inner[1].text == ")" and (inner[0].kind == "name" or inner[0].text == "0")
        depth = 0
        for token in self.tokens[self.at :]:
            depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
            if depth == 0:
                return short
            if depth == 1 and token.text == ",":
                return True
        return short

    def _applied(self, token: Token) -> Node:
        opening = self.take("(")
        arguments = [self.sum()]
        while self.take(","):
            arguments.append(self.sum())
        if not self.take(")") or opening is None:
            self.fail("a closing bracket")
        return Node("applied", (token, tuple(arguments)), token.position)

    def _call(self, token: Token) -> Node:
        opening = self.here.text
        if opening in ("(", "["):
            given = []
            self.at += 1
            body = self.sum()
            if token.text == "E" and self.take("|"):
                given.append(self._name())
                while self.take(","):
                    given.append(self._name())
            self._close(opening)
        elif token.kind == "function":
            body, given = self.product(), []
        else:
            self.fail(f"a bracket after {token.text}")
        return Node("call", (token.text, body, opening, tuple(given), token.value), token.position)

    def _name(self) -> Token:
        token = self.here
        if token.kind != "name":
            self.fail("a letter")
        self.at += 1
        return token

    def _bracket(self, expected: str) -> Node:
        token = self.here
        if token.text not in ("(", "["):
            self.fail(expected)
        self.at += 1
        result = self.sum()
        self._close(token.text)
        return Node("bracket", (result,), token.position)

    def _close(self, opening: str) -> None:
        if not self.take(")" if opening == "(" else "]"):
            self.fail("a closing bracket")
