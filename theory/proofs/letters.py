r"""The letters of a proof: what ``let`` declares, what the paper means by a letter, and sizes that follow from use.

>>> from iclflow.theory.algebra.syntax import tree
>>> letters = Letters()
>>> letters.declare("K: D x R; Sigma: covariance; W: sample covariance of n with Sigma; c: positive")
>>> letters.settle([tree("Sigma K K'")])
>>> [str(letters.of(name)) for name in ("K", "Sigma", "n")], letters.of("Sigma").shape
(['K', 'Sigma', 'n'], (D, D))
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import Any

from sympy import Add, Function, Identity, Integer, Mul, Pow, Symbol, ZeroMatrix, oo
from sympy.matrices.expressions import MatrixExpr

from ..algebra.parsing import NAMES, symbol as symbol_of
from ..algebra.syntax import Grammar, Node, Token, Unreadable, tokens_of
from ..derivations import Condition, carried_out
from ..expectation import PAPER_LAWS, Gaussian, SampleCovariance
from ..notation import D, matrix, symmetric_matrix, vector
from ..typesetting.latex import formula_latex
from .assumptions import positive_definite
from .latex_tokens import latex_tokens

PAPER = {**NAMES, "infinity": oo, "oo": oo}
LAWS_OF_PAPER = {law.symbol: law for law in PAPER_LAWS}
NUMBERS: dict[str, dict[str, bool]] = {
    **{one: {"real": True} for one in ("scalar", "real", "number")},
    **{one: {one: True} for one in ("positive", "nonnegative", "integer")},
    **{one: {"integer": True, "positive": True} for one in ("dimension", "samples")},
}
SYMMETRIC, DEFINITE = {"symmetric", "covariance", "definite"}, {"covariance", "definite"}
SIZES_BY: dict[str, Any] = {"sum": Add, "product": Mul, "power": Pow, "bracket": Add, "negative": lambda size: -size}
WORDS = {"matrix", "square", "positive", "symmetric", "covariance", "definite", "vector", "of", "size"}


class Unknown:
    """A size that follows from use."""


def is_matrix(value: Any) -> bool:
    """Is a value a matrix or a vector, and not a number?"""
    return isinstance(value, MatrixExpr) and tuple(value.shape) != (1, 1)


@dataclass
class Declared:
    """A letter before its sizes are known."""

    name: str
    shape: tuple | None  # None: a number
    assumptions: dict = field(default_factory=dict)
    symmetric: bool = False
    definite: bool = False
    law: tuple | None = None
    assumed: bool = False  # by convention or by use, not by a declaration


class Letters:
    """Letters by name, with the laws of random ones. ``declare`` and ``settle`` them, then ask ``of(name)``."""

    def __init__(self) -> None:
        self.declared: dict[Any, Declared] = {}
        self.symbols: dict[Any, Any] = {}
        self.laws: dict[Any, Any] = {}
        self.conditions: dict[Any, Condition] = {}
        self.broken: dict[str, str] = {}  # names whose declaration cannot be read, and why
        self.sizes: dict[Unknown, Any] = {}
        self.bound: dict[tuple[str, bool], Any] = {}  # symbols under the names that their LaTeX has
        self.guessed: set = set()  # letters whose size nothing says, where there are several
        self.compounds: dict[tuple, Token] = {}  # names of several tokens, such as W_i^K
        self.used: set[tuple[str, bool]] = set()

    # Declarations

    def declare(self, text: str, tokens: Any = tokens_of) -> None:
        """``A, B: d x d; c: positive``. What cannot be read makes the lines that use the letter unread."""
        for one in filter(str.strip, text.split(";")):
            names, _, kind = one.partition(":")
            try:
                keys = [self._key(name.strip(), tokens) for name in re.split(r",(?![^{]*\})", names)]
                if not kind.strip():
                    raise Unreadable("a declaration is a name, a colon and a kind")
                for key in keys:
                    self._declare(key, kind.strip(), tokens)
            except ValueError as problem:
                for word in re.findall(r"[A-Za-z]\w*", names):
                    self.broken[word] = f"the declaration {one.strip()!r} cannot be read: {problem}"

    def _key(self, name: str, tokens: Any) -> Any:
        found = tokens(name)[:-1]
        if not any(one.kind == "name" for one in found) or any(one.kind in ("relation", "number", "big") for one in found):
            raise Unreadable(f"{name!r} is no name of a letter")
        if len(found) == 1:
            return key_of(found[0])
        self.compounds[tuple(map(_spelled, found))] = compound = Token("name", name, 0, False, found[0].value)
        return key_of(compound)

    def bind(self, symbol: Any) -> None:
        """Know a symbol by its own LaTeX."""
        found = latex_tokens(formula_latex(symbol))[:-1]
        name = found[0] if len(found) == 1 else Token("name", formula_latex(symbol), 0, False, found[0].value)
        if len(found) > 1:
            self.compounds[tuple(map(_spelled, found))] = name
        self.bound[key_of(name)] = symbol

    def grammar(self, tokens: list[Token]) -> Grammar:
        """A reader of tokens that knows which names are functions, letters and matrices."""
        known = [*self.declared.items(), *self.bound.items()]
        names = {name for (name, _), _ in known}
        functions = {name for (name, _), one in known if "function" in getattr(one, "assumptions", ())}
        matrices = {name for (name, _), one in known if getattr(one, "shape", None)}
        return Grammar(self.merged(tokens), functions, names, matrices)

    def merged(self, tokens: list[Token]) -> list[Token]:
        """Tokens with one for each name of several, the longest first."""
        for spelled in sorted(self.compounds, key=len, reverse=True):
            count, i = len(spelled), 0
            while i + count <= len(tokens):
                if tuple(map(_spelled, tokens[i : i + count])) == spelled:
                    name = self.compounds[spelled]
                    tokens = [*tokens[:i], name._replace(position=tokens[i].position, glued=True), *tokens[i + count :]]
                i += 1
        return tokens

    def name_values(self, formulas: Iterable, tokens: list[Token], text: str) -> bool:
        r"""Make names of values such as \mathcal{L}(\mathcal{M}_m) and \sigma(t) that a formula gives, each on its whole left side."""
        before = len(self.compounds)
        for _, (first, *others), _ in formulas:
            if first is None or first.kind != "applied" or self.is_declared(first.parts[0]):
                continue
            stem, arguments = first.parts
            used = {one.text for other in others for one in other.walk() if isinstance(one, Token)}
            if stem.text not in used and all(one.kind in ("name", "number") for one in arguments):
                place = next(i for i, one in enumerate(tokens) if one.position == stem.position and one.text == stem.text)
                last = next(i for i, one in enumerate(tokens) if i > place and one.text == ")")
                name = text[stem.position : tokens[last].position + 1]
                self.compounds[tuple(map(_spelled, tokens[place : last + 1]))] = Token("name", name, stem.position, False, stem.value)
        return len(self.compounds) > before

    def _declare(self, key: Any, kind: str, tokens: Any) -> None:
        name = key[0] if (key[0], not key[1]) not in self.declared else f"bold_{key[0]}" if key[1] else f"plain_{key[0]}"
        if key in self.declared and not self.declared[key].assumed:
            raise Unreadable(f"{key[0]} is declared twice")
        self.declared[key] = self._read_kind(name, kind, tokens)
        self.symbols.pop(name, None)

    def _read_kind(self, name: str, kind: str, tokens: Any) -> Declared:
        if kind in NUMBERS:
            return Declared(name, None, NUMBERS[kind])
        if kind == "function":
            return Declared(name, None, {"function": True})
        size = Unknown()
        if law := re.fullmatch(r"(?:Gaussian|N|Normal)\s*\((.*)\)", kind):
            mean, covariance = self._formulas(law[1], tokens)
            self._infer(covariance, "covariance")
            self._infer(mean, "vector")
            return Declared(name, (size, 1), law=(Gaussian, mean, covariance))
        if law := re.fullmatch(r"sample covariance of (.+?) with (.+?)(?: and mean (.+))?", kind):
            parts = [self._formulas(part, tokens)[0] for part in law.groups() if part]
            for part, its_kind in zip(parts, ("samples", "covariance", "vector"), strict=False):
                self._infer(part, its_kind)
            samples, covariance, *mean = parts
            return Declared(name, (size, size), symmetric=True, law=(SampleCovariance, covariance, samples, *mean))
        head, *more = re.split(r"\s+(?:x|×|\\times)\s+", f" {kind} ".replace(" x ", "  x  "))
        words = head.split()
        adjectives = {word for word in words if word in WORDS}
        rest = [word for word in words if word not in WORDS]
        if len(more) > 1 or (not more and rest) or (more and len(rest) != 1) or not (adjectives or more):
            raise Unreadable(f"{kind!r} is no kind of letter, such as D x R, vector, symmetric, covariance, scalar, positive, dimension")
        if more:
            shape = self._size(rest[0], tokens), self._size(more[0].strip(), tokens)
        else:
            shape = (size, 1) if "vector" in adjectives else (size, size) if adjectives & {*SYMMETRIC, "square"} else (size, Unknown())
        symmetric = bool(adjectives & SYMMETRIC)
        if symmetric and shape[0] != shape[1]:
            raise Unreadable("a symmetric matrix is square")
        return Declared(name, shape, symmetric=symmetric, definite=bool(adjectives & DEFINITE))

    def _formulas(self, text: str, tokens: Any) -> list[Node]:
        grammar = Grammar(tokens(text))
        found = [grammar.sum()]
        while grammar.take(","):
            found.append(grammar.sum())
        if grammar.here.kind != "end":
            grammar.fail("the end")
        return found

    def _infer(self, node: Node, kind: str) -> None:
        """What a declaration uses and nothing else has declared."""
        for token in names_in(node):
            known = self._known(token)
            number = kind in NUMBERS and not isinstance(known, Declared) and not getattr(known, "is_integer", False)
            if known is None or number:
                self.declared[key_of(token)] = replace(self._read_kind(token.text, kind, tokens_of), assumed=True)

    def _size(self, text: str, tokens: Any) -> Any:
        node = self._formulas(text, tokens)[0]
        self._infer(node, "dimension")
        return self._number(node)

    def _number(self, node: Node) -> Any:
        """A size, as SymPy writes it."""
        if node.kind == "number":
            return Integer(node.parts[0].text)
        if node.kind == "name":
            symbol = self.of(node.parts[0])
            if not getattr(symbol, "is_integer", False):
                raise Unreadable(f"{symbol} is no size")
            return symbol
        if node.kind not in SIZES_BY:
            raise Unreadable("a size is a whole number or a dimension", node.position)
        return SIZES_BY[node.kind](*map(self._number, node.parts))

    # Names

    def _known(self, token: Token) -> Any:
        """What has been declared under this name, with or without bold."""
        plain, bold = key_of(token)
        if (plain, bold) in self.bound:
            return self.bound[plain, bold]
        if (plain, bold) in self.declared:
            return self.declared[plain, bold]
        found = [one for (name, _), one in self.declared.items() if name == plain]
        if len(found) == 1:
            return found[0]
        return self._paper(token)

    def _paper(self, token: Token) -> Any:
        plain, bold = key_of(token)
        symbol = PAPER.get(plain) if token.value is None else _paper_latex().get(plain)
        return None if bold and symbol is not None and not hasattr(symbol, "shape") else symbol

    @property
    def settled(self) -> set:
        """The symbols that a ``let`` declares."""
        return {self.symbols.get(one.name) for one in self.declared.values() if not one.assumed}

    def is_declared(self, token: Token) -> bool:
        """Is there a ``let`` for it?"""
        return self.declaration(token) is not None

    def declaration(self, token: Token) -> "Declared | None":
        """What a ``let`` says of it."""
        known = self._known(token)
        return known if isinstance(known, Declared) and not known.assumed else None

    def of(self, name: Any) -> Any:
        """The symbol of a name or of its token; Unreadable where nothing says what it is."""
        token = Token("name", name, 0) if isinstance(name, str) else name
        if token.text in self.broken:
            raise Unreadable(self.broken[token.text], token.position)
        plain, bold = key_of(token)
        both = {(plain, bold), (plain, not bold)} <= self.used and 1 in getattr(self._paper(token), "shape", (1,))
        if both and not self.is_declared(token) and (plain, bold) not in self.bound:
            raise Unreadable(f"{plain} stands in bold and not in bold: let ... must say what each is", token.position)
        known = self._known(token)
        if known is None:
            known = self._by_convention(token)
        return self._symbol(known) if isinstance(known, Declared) else known

    def named(self, name: str) -> Any:
        """The symbol of a name that a user typed; ValueError for what is no name."""
        symbol_of(name)
        return self.of(name)

    def _by_convention(self, token: Token) -> Declared:
        """An undeclared letter: in text, and in bold, a capital is a square matrix, and a small letter a vector."""
        plain, bold = key_of(token)
        if {"dot", "ddot"} & set(plain.split("_")):
            raise Unreadable(f"{plain}: a derivative in time is not read", token.position)
        if token.value is not None and not bold:
            raise Unreadable(f"{plain} is not declared: let {plain}: scalar, or what it is", token.position)
        size = Unknown()
        shape = (size, size) if plain[0].isupper() else (size, 1)
        self.declared[plain, bold] = declared = Declared(plain, shape, assumed=True)
        return declared

    def _symbol(self, declared: Declared) -> Any:
        name = declared.name
        if name in self.symbols:
            return self.symbols[name]
        if declared.shape is None:
            known = declared.assumptions
            self.symbols[name] = Function(name) if "function" in known else Symbol(name, **known)
            return self.symbols[name]
        rows, columns = (self.sized(size) for size in declared.shape)
        open_sizes = any(isinstance(self._root(size), Unknown) for size in declared.shape) and len(self._declared_sizes()) > 1
        kind = symmetric_matrix(name, rows) if declared.symmetric else None
        symbol = kind or (vector(name, rows) if columns == 1 else matrix(name, rows, columns))
        paper = PAPER.get(name)
        if paper is not None and getattr(paper, "shape", None) == symbol.shape and is_symmetric(paper) == is_symmetric(symbol):
            symbol = paper  # with its LaTeX
        self.symbols[name] = symbol
        if open_sizes:
            self.guessed.add(symbol)
        if declared.definite:
            self.conditions[symbol] = positive_definite(symbol)
        return symbol

    def define(self, token: Token, value: Any) -> Any:
        """The symbol of a letter that ``:=`` gives a value, new or declared."""
        known = self._known(token)
        if isinstance(known, Declared) and not known.assumed:
            return self._symbol(known)
        if known is not None and not isinstance(known, Declared) and getattr(known, "shape", (1, 1)) == getattr(value, "shape", (1, 1)):
            return known
        shape = tuple(value.shape) if is_matrix(value) else None
        symmetric = shape is not None and shape[0] == shape[1] and is_symmetric_formula(value)
        declared = Declared(token.text, shape, {"real": True}, symmetric)
        self.declared[key_of(token)] = declared
        self.symbols.pop(token.text, None)
        return self._symbol(declared)

    # Sizes from use

    def sized(self, size: Any) -> Any:
        """A size; where nothing says what it is, the only one that is declared, or the paper's D."""
        size = self._root(size)
        return self._default_size() if isinstance(size, Unknown) else size

    def _root(self, size: Any) -> Any:
        while isinstance(size, Unknown) and size in self.sizes:
            size = self.sizes[size]
        return size

    def _default_size(self) -> Any:
        sizes = self._declared_sizes()
        return next(iter(sizes)) if len(sizes) == 1 else D

    def _declared_sizes(self) -> set:
        return {size for one in self.declared.values() for size in one.shape or () if not isinstance(size, Unknown) and size != 1}

    def settle(self, formulas: Iterable[Node | tuple[Node, ...]]) -> None:
        """Find sizes from use, in formulas and in tuples of formulas of one shape; then the laws."""
        formulas = [formula if isinstance(formula, tuple) else (formula,) for formula in formulas]
        for part in (part for sides in formulas for side in sides if side for part in side.walk()):
            if part.kind == "big" and isinstance(part, Node) and part.parts[0] == "sum_":
                for end in part.parts[1][1:]:  # what nothing has declared at the ends of a sum is a whole number
                    self._infer(end, "dimension")
        for declared in list(self.declared.values()):
            if declared.law and declared.shape:
                shapes = [shape for node in declared.law[1:] if (shape := self._shape(node))]
                for shape in shapes:
                    self._unify(declared.shape[0], shape[0])
                if (
                    declared.law[0] is Gaussian
                    and not shapes
                    and not any(isinstance(one, Token) and one.text[:1] == "I" for one in declared.law[2].walk())
                ):
                    self._unify(declared.shape[0], Integer(1))  # of a variance, not of a covariance
        self.used = {key_of(token) for sides in formulas for side in sides if side for token in names_in(side) if token.value is not None}
        for sides in formulas:
            shapes = [shape for side in sides if (shape := self._shape(side))]
            for one, other in pairwise(shapes):
                self._unify_shapes(one, other)

    def _unify(self, one: Any, other: Any) -> None:
        one, other = self._root(one), self._root(other)
        if one is other:
            return
        if isinstance(one, Unknown):
            self.sizes[one] = other
        elif isinstance(other, Unknown):
            self.sizes[other] = one

    def _unify_shapes(self, one: tuple, other: tuple) -> None:
        for first, second in zip(one, other, strict=True):
            self._unify(first, second)

    def _shape(self, node: Node | None) -> tuple:
        """(rows, columns), () of a number or of what is not known."""
        if node is None:
            return ()
        kind, parts = node.kind, node.parts
        if kind == "name":
            return self._shape_of_name(parts[0])
        if kind in ("bracket", "negative", "order"):
            return self._shape(parts[0])
        if kind == "sum":
            shapes = [shape for part in parts if (shape := self._shape(part))]
            for one, other in pairwise(shapes):
                self._unify_shapes(one, other)
            return shapes[0] if shapes else ()
        if kind == "product":
            return self._shape_of_product([self._shape(part) for part in parts])
        if kind == "transpose":
            return self._shape(parts[0])[::-1]
        if kind in ("power", "quotient"):
            shape = self._shape(parts[0])
            if kind == "power" and shape:
                self._unify(*shape)
            return shape[::-1] if kind == "power" and is_top(parts[1]) else shape
        if kind == "call":
            shape = self._shape(parts[1])
            if shape and parts[0] in ("tr", "inv"):
                self._unify(*shape)
            return shape if parts[0] in ("E", "inv") else ()
        if kind == "derivative":
            self._shape(parts[2])
            return self._shape_of_name(parts[1] or Token("name", parts[0][3:], 0))
        return self._shape(parts[2]) if kind == "big" else ()

    def _shape_of_name(self, token: Token) -> tuple:
        if token.text == "I":
            return ()
        known = self._known(token)
        try:
            known = self._by_convention(token) if known is None else known
        except Unreadable:
            return ()
        shape = known.shape if isinstance(known, Declared) else getattr(known, "shape", None)
        return tuple(map(self._root, shape or ()))

    def _shape_of_product(self, shapes: list[tuple]) -> tuple:
        """Factors multiply where their inner sizes can be equal; what ends as 1 x 1 is a number."""
        chains: list[tuple] = []
        for shape in filter(None, shapes):
            if chains and chains[-1] != (1, 1) and (chains[-1][1] == 1) == (shape[0] == 1):
                self._unify(chains[-1][1], shape[0])
                chains[-1] = (chains[-1][0], shape[1])
            else:
                chains.append(shape)
        matrices = [chain for chain in chains if chain != (1, 1)]
        for one, other in pairwise(matrices):
            self._unify(one[1], other[0])
        return (matrices[0][0], matrices[-1][1]) if matrices else ()


def law_of(letters: Letters, declared: Declared, value: Any) -> Any:
    """The law of a random letter; ``value`` gives the meaning of a formula."""
    kind, first, second, *mean = declared.law or (None, None, None)
    symbol = letters._symbol(declared)
    if kind is Gaussian:
        mean, covariance = value(first), value(second)
        size = symbol.shape[0]
        mean = ZeroMatrix(size, 1) if mean == 0 and size != 1 else mean
        covariance = covariance * Identity(size) if not is_matrix(covariance) and size != 1 else covariance
        return Gaussian(symbol, mean, covariance)
    return SampleCovariance(symbol, value(first), value(second), mean=value(mean[0]) if mean else None)


@cache
def _paper_latex() -> dict[str, Any]:
    """The paper's letters by the names that their LaTeX is read as."""
    found: dict[str, Any] = {"infinity": oo}
    for symbol in NAMES.values():
        tokens = latex_tokens(formula_latex(symbol))
        if len(tokens) == 2 and tokens[0].kind == "name":
            found[tokens[0].text] = symbol
    return found


def _spelled(token: Token) -> tuple:
    return token.kind, token.text, token.value if isinstance(token.value, bool) else None


def key_of(token: Token) -> tuple[str, bool]:
    """The name of a letter, and is it bold?"""
    return token.text, token.value is True


def names_in(node: Node) -> Iterator[Token]:
    """The tokens of the letters in a tree."""
    return (one for one in node.walk() if isinstance(one, Token) and one.kind == "name" and one.text not in ("I", "infinity", "oo"))


def is_top(exponent: Node) -> bool:
    """Is an exponent the sign of a transpose?"""
    return exponent.kind == "name" and exponent.parts[0].text in ("T", "top")


def is_symmetric(letter: Any) -> bool:
    return bool(getattr(letter, "is_symmetric_letter", False))


def is_symmetric_formula(value: Any) -> bool:
    try:
        return carried_out(value) == carried_out(value.T)
    except (ValueError, TypeError):
        return False
