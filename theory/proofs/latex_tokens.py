r"""LaTeX to the tokens of text: fractions become brackets and a /, sums and derivatives the words that text has for them.

>>> print(*(token.text for token in latex_tokens(r"\tfrac12 \sum_{n=1}^{N} \mathbf x_n \mathbf x_n^\top = \hat{\boldsymbol\Lambda}")[:-1]))
( ( 1 ) / ( 2 ) ) sum_ ( n = 1 .. N ) x_n x_n ' = Lambda_hat
>>> print(*(token.text for token in latex_tokens(r"\frac{\partial L}{\partial B} = \mathbb{E}\left[\operatorname{tr} B^{-1}\right]")[:-1]))
[ d/dB [ L ] ] = E [ tr B ^ - 1 ]
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

from ..algebra.syntax import WORDS, Token, Unreadable
from ..typesetting.symbol_names import GREEK


class Item(NamedTuple):
    """A command, a character, or what stands in braces; ``source`` is the text between them."""

    text: str
    position: int
    inside: Any = None
    source: str = ""


_RAW = re.compile(r"\\[A-Za-z]+\*?|\\.|[^\s]", re.DOTALL)
MAX_DEPTH = 40


def _by_command(meanings: dict[str, str]) -> dict[str, str]:
    """{command: meaning} from {meaning: commands}."""
    return {command: meaning for meaning, commands in meanings.items() for command in commands.split()}


SPACE = {"\\ ", "\\\n", "~", "&"} | _by_command({
    "space": r"\, \; \! \: \> \displaystyle \textstyle \scriptstyle \limits \nolimits \nonumber \notag \relax \mathstrut \hfill \mathop",
    "size": r"\left \right \middle \big \Big \bigg \Bigg \bigl \Bigl \biggl \Biggl \bigr \Bigr \biggr \Biggr \bigm \Bigm",
}).keys()  # fmt: skip
GAPS = frozenset([r"\quad", r"\qquad"])
WITH_ARGUMENT = _by_command({"": r"\label \tag \tag* \hspace \vspace \phantom \vphantom \hphantom \color \eqref"})
BOLD = _by_command({"": r"\mathbf \boldsymbol \bm \pmb \bf \textbf"})
FONTS = _by_command({
    "": r"\mathrm \mathit \mathnormal \textrm \rm \operatorname \operatorname* \text", "sf": r"\mathsf \sf", "cal": r"\mathcal \cal",
    "scr": r"\mathscr", "frak": r"\mathfrak", "bb": r"\mathbb", "tt": r"\mathtt",
})  # fmt: skip
OLD_FONTS = frozenset([r"\bf", r"\rm", r"\sf", r"\cal"])
ACCENTS = _by_command({
    "hat": r"\hat \widehat", "tilde": r"\tilde \widetilde", "bar": r"\bar \overline", "check": r"\check", "dot": r"\dot", "ddot": r"\ddot",
})  # fmt: skip
FRACTIONS = frozenset([r"\frac", r"\tfrac", r"\dfrac", r"\cfrac"])
NORMS = frozenset([r"\|", r"\Vert", r"\lVert", r"\rVert"])
BARS = frozenset(["|", r"\mid", r"\vert", r"\lvert"])
RELATIONS = _by_command({
    "=": "=", "!=": r"\ne \neq", "<=": r"\le \leq \leqslant", ">=": r"\ge \geq \geqslant", "<": r"< \lt", ">": r"> \gt", "~": r"\sim",
    "->": r"\to \rightarrow \longrightarrow", ":=": r"\coloneqq \triangleq", "=>": r"\Rightarrow \implies", "<=>": r"\Leftrightarrow \iff",
})  # fmt: skip
SIGNS = _by_command({
    "+": "+", "-": "-", "*": r"* \cdot \times", "/": "/", "(": r"( \{ \lbrace", ")": r") \} \rbrace", "[": r"[ \lbrack", "]": r"] \rbrack",
    ",": ", ;", ".": ".", "'": "'",
})  # fmt: skip
FUNCTIONS = _by_command({"tr": "tr Tr trace Trace", "ln": "ln log", "exp": "exp", "tanh": "tanh", "E": "E", "inv": "inv"})
TOP = re.compile(r"\\top|\\intercal|\\prime|\\(?:mathsf|mathrm|text|rm|sf) (?:T|\\top)")
MINUS_TOP = re.compile(rf"- (?:T|{TOP.pattern})")
LABEL = re.compile(r"\*|\\star|\\ast|\\dagger|\+|-|\\circ|\( \\?\w+ \)")
DIFFERENTIAL = re.compile(r"\\partial|(?:\\(?:mathrm|text|rm) )?d")
OTHER_GREEK = frozenset(["ell", "varphi", "vartheta", "pi", "varepsilon", "Upsilon"])
REFUSED = _by_command({
    "an approximation": r"\approx \simeq", "a proportionality": r"\propto", "an identity or a definition": r"\equiv", "membership": r"\in",
    "an order of matrices": r"\succeq \preceq \succ \prec", "a Kronecker product": r"\otimes", "an entrywise product": r"\odot",
    "a composition": r"\circ", "an integral": r"\int", "a product over an index": r"\prod", "an extremum": r"\max \min \sup \inf \arg",
    "a determinant": r"\det", "a matrix or cases": r"\begin \end", "a row of dots": r"\dots \cdots \ldots \ddots \vdots",
    "a binomial": r"\binom", "two signs at once": r"\pm \mp", "an inner product": r"\langle \rangle",
    "a quantifier": r"\forall \exists", "a factorial": "!", "much less or more": r"\ll \gg", "orthogonality": r"\perp",
    "a direct sum": r"\oplus", "a map": r"\mapsto \leftarrow", "a new line inside brackets": r"\\", "an arrow over a letter": r"\vec",
    "a sign": "# : ; ?",
})  # fmt: skip


def latex_tokens(text: str, letters: Iterable[str] = ()) -> list[Token]:
    """The tokens of a line of LaTeX; the ``value`` of a name says if it is bold.

    ``letters``: names that are declared, so that d/dx or E is none of them.
    """
    reader = _Reader(_nested(text), frozenset(letters), len(text))
    return [*_separated([*reader.read(), *reader.limit]), Token("end", "", len(text))]


def _nested(text: str) -> list[Item]:
    """Commands and characters, without space, what stands in braces as one item."""
    levels: list[tuple[int, list[Item]]] = [(0, [])]
    for raw in _RAW.finditer(text):
        if raw[0] == "{":
            levels.append((raw.start(), []))
            if len(levels) > MAX_DEPTH:
                raise Unreadable(f"at most {MAX_DEPTH} nested arguments are read", raw.start())
        elif raw[0] == "}":
            start, inside = levels.pop()
            if not levels:
                raise Unreadable("'}' is not read", raw.start())
            levels[-1][1].append(Item("{}", start, inside, text[start + 1 : raw.start()]))
        elif raw[0] not in SPACE:
            levels[-1][1].append(Item(raw[0], raw.start(), None, raw[0]))
    if len(levels) > 1:
        raise Unreadable("found '{', which is not closed", levels[-1][0])
    return levels[0][1]


def _flat(items: Iterable[Item]) -> Iterator[str]:
    for item in items:
        yield from [item.text] if item.inside is None else _flat(item.inside)


def _text(items: Iterable[Item]) -> str:
    return " ".join(_flat(items))


def _separated(tokens: list[Token]) -> list[Token]:
    """Gaps separate a formula from its conditions, unless a sign follows; full stops at the end are none of it."""
    kept: list[Token] = []
    for i, token in enumerate(tokens):
        following = tokens[i + 1] if i + 1 < len(tokens) else Token("end", "", 0)
        if token.text in (",", ".") and token.kind in ("gap", "sign"):
            starts = not kept or (kept[-1].kind in ("sign", "relation") and kept[-1].text not in (")", "]", "'"))
            continues = following.text in ("+", "-", "*", ")", "]") or following.kind in ("relation", "end")
            if token.kind == "gap" and (starts or continues):
                continue
            if following.kind == "end" or (following.kind == "gap" and i + 2 == len(tokens)):
                continue
        kept.append(token._replace(kind="sign", text=",") if token.kind == "gap" else token)
    return kept


def _sign(text: str, position: int) -> Token:
    return Token("sign", text, position, True)


def _in_brackets(tokens: Sequence[Token], position: int, brackets: str = "()") -> list[Token]:
    return [_sign(brackets[0], position), *tokens, _sign(brackets[1], position)]


class _Reader:
    """Reads items from left to right; ``read`` gives their tokens."""

    def __init__(self, items: list[Item], letters: frozenset[str], end: int, nested: bool = False):
        self.items, self.letters, self.end, self.nested = items, letters, end, nested
        self.at = 0
        self.tokens: list[Token] = []
        self.open: list[bool] = []  # the brackets that are open: do they belong to an expectation?
        self.expects = False  # is an expectation waiting for its bracket?
        self.limit: list[Token] = []  # stands over an arrow, and is read as if it stood at the end

    @property
    def here(self) -> str:
        return self.items[self.at].text if self.at < len(self.items) else ""

    @property
    def position(self) -> int:
        return self.items[self.at].position if self.at < len(self.items) else self.end

    def refuse(self, reason: str, position: int | None = None) -> NoReturn:
        raise Unreadable(reason, self.position if position is None else position)

    def take(self, *texts: str) -> bool:
        found = self.here != "" and self.here in texts
        self.at += found
        return found

    def argument(self) -> list[Item]:
        """An argument: what stands in braces, or a single item, with the argument of a font or an accent."""
        if not self.here:
            self.refuse("found the end, expected an argument")
        start, item = self.at, self.items[self.at]
        self.at += 1
        if item.inside is not None:
            return item.inside
        if item.text in {**BOLD, **FONTS, **ACCENTS}:
            self.argument()
        return self.items[start : self.at]

    def below(self, items: list[Item]) -> "_Reader":
        return _Reader(items, self.letters, self.position, nested=True)

    def read_argument(self) -> list[Token]:
        return self.below(self.argument()).read()

    def emit(self, kind: str, text: str, position: int, value: Any = None) -> None:
        self.tokens.append(Token(kind, text, position, True, value))

    def read(self) -> list[Token]:
        while self.here:
            self._one()
        return self.tokens

    def _one(self) -> None:
        text, position = self.here, self.position
        special = self.SPECIAL.get(text)
        if text in GAPS:
            self.at += 1
            if not self.open and not self.nested:
                self.emit("gap", ",", position)
        elif text in WITH_ARGUMENT:
            self.at += 1
            self.argument()
        elif text.isdigit():
            self._number(position)
        elif text == "{}":
            self._braces(position)
        elif text == ":" and self.at + 1 < len(self.items) and self.items[self.at + 1].text == "=":
            self.at += 2
            self.emit("relation", ":=", position)
        elif text in RELATIONS:
            self.at += 1
            self.emit("relation", RELATIONS[text], position)
        elif text in SIGNS:
            self._sign(SIGNS[text], position)
        elif text in REFUSED:
            self.refuse(f"{REFUSED[text]} ({text}) is not read")
        elif special is not None:
            self.at += 1
            special(self, text, position)
        else:
            self._letter(position)

    def _braces(self, position: int) -> None:
        r"""Braces are not seen; but {\bf W}, and {W}_i, are one letter."""
        inside = self.items[self.at].inside
        indexed = self.at + 1 < len(self.items) and self.items[self.at + 1].text == "_"
        if inside and (inside[0].text in OLD_FONTS or indexed):
            self._letter(position)
        else:
            self.tokens += self.read_argument()

    def _sign(self, sign: str, position: int) -> None:
        self.at += 1
        if sign in ("(", "["):
            self.open.append(self.expects)
            self.expects = False
        elif sign in (")", "]") and self.open:
            self.open.pop()
        self.emit("sign", sign, position)

    def _number(self, position: int) -> None:
        digits = ""
        while self.here.isdigit() or (self.here == "." and self.at + 1 < len(self.items) and self.items[self.at + 1].text.isdigit()):
            if self.position != position + len(digits):
                break
            digits += self.here
            self.at += 1
        self.emit("number", digits, position)

    def _fraction(self, _: str, position: int) -> None:
        above, below = self.argument(), self.argument()
        if self._is_derivative(above, below, position):
            return
        parts = [_in_brackets(self.below(one).read(), position) for one in (above, below)]
        self.tokens += _in_brackets([*parts[0], _sign("/", position), *parts[1]], position)

    def _is_derivative(self, above: list[Item], below: list[Item], position: int) -> bool:
        r"""Read \frac{\partial L}{\partial B}, or \frac{\partial}{\partial B}, whose operand follows."""
        signs = [next((n for n in (1, 2) if DIFFERENTIAL.fullmatch(_text(one[:n]))), 0) for one in (above, below)]
        kinds = [r"\partial" in _text(one[:n]) for one, n in zip((above, below), signs, strict=True)]
        operand, variable = above[signs[0] :], below[signs[1] :]
        if not all(signs) or kinds[0] != kinds[1] or not variable:
            if any(kinds) or (signs[0] and operand and operand[0].text == "^"):
                self.refuse("a derivative of this form is not read", position)
            return False
        if operand and operand[0].text == "^":
            self.refuse("a second derivative is not read", position)
        if not kinds[0] and _text(below[: signs[1]]) == "d" and "d" in self.letters:
            self.refuse(r"d is a letter here, so that d/dx could be a quotient: write \partial", position)
        derivative = self._derivative_in(variable, position)
        if operand:
            derivative = _in_brackets([derivative, *_in_brackets(self.below(operand).read(), position, "[]")], position, "[]")
        self.tokens += [derivative] if isinstance(derivative, Token) else derivative
        return True

    def _derivative_in(self, variable: list[Item], position: int) -> Token:
        found = self.below(variable).read()
        if len(found) != 1 or found[0].kind != "name":
            self.refuse("a derivative is in one letter", position)
        return Token("derivative", f"d/d{found[0].text}", position, True, found[0])

    def _nabla(self, text: str, position: int) -> None:
        if not self.take("_"):
            self.refuse(f"{text} needs the letter of the derivative as its index", position)
        self.tokens.append(self._derivative_in(self.argument(), position))

    def _raised(self, exponent: list[Item], position: int) -> None:
        text = _text(exponent)
        if TOP.fullmatch(text):
            self.emit("sign", "'", position)
            return
        self.emit("sign", "^", position)
        if MINUS_TOP.fullmatch(text):
            self.emit("sign", "-", position)
            self.emit("name", "top", position, False)
        elif LABEL.fullmatch(text):  # of a letter, not an exponent
            self.emit("label", text, position)
        else:
            inner = self.below(exponent).read()
            plain = [one.kind if one.kind != "sign" else one.text for one in inner] in (["number"], ["name"], ["-", "number"])
            self.tokens += inner if plain else _in_brackets(inner, position)

    def _norm(self, _: str, position: int) -> None:
        start = self.at
        while self.here not in NORMS:
            if not self.here:
                self.refuse("a norm that is not closed", position)
            self.at += 1
        inside = self.items[start : self.at]
        self.at += 1
        kind = "".join(one for one in _flat(self.argument()) if one not in FONTS) if self.take("_") else ""
        self.emit("function", "norm", position, kind)
        self.tokens += _in_brackets(self.below(inside).read(), position)

    def _bar(self, _: str, position: int) -> None:
        if not (self.open and self.open[-1]):
            self.refuse("bars are not read: an absolute value, a determinant or a condition?", position)
        self.emit("sign", "|", position)

    def _over_relation(self, text: str, position: int) -> None:
        r"""\overset{\text{def}}{=}, \xrightarrow{N \to \infty}."""
        label = self.argument()
        found = [Token("relation", "->", position, True)] if text == r"\xrightarrow" else self.read_argument()
        if len(found) != 1 or found[0].kind != "relation":
            self.refuse(f"{text} is read over a relation only", position)
        words = _text(label).replace(" ", "")
        if {r"\to", r"\rightarrow"} & set(_flat(label)):
            self.limit = _in_brackets(self.below(label).read(), position)
        defined = "def" in words or r"\triangle" in words
        self.tokens.append(found[0]._replace(text=":=") if defined else found[0])

    def _under_brace(self, text: str, position: int) -> None:
        self.tokens += _in_brackets(self.read_argument(), position)
        if text != r"\boxed" and self.take("_", "^"):
            self.argument()

    def _root(self, _: str, position: int) -> None:
        degree: list[Token] = []
        if self.here == "[":
            start = self.at + 1
            while self.here != "]":
                self.at += 1
                if not self.here:
                    self.refuse("found '[', which is not closed", position)
            degree = self.below(self.items[start : self.at]).read()
            self.at += 1
        inner = _in_brackets(self.read_argument(), position)
        if not degree:
            self.emit("function", "sqrt", position)
            self.tokens += inner
        else:
            power = [Token("number", "1", position, True), _sign("/", position), *degree]
            self.tokens += _in_brackets([*inner, _sign("^", position), *_in_brackets(power, position)], position)

    def _big(self, text: str, position: int) -> None:
        """A sum with its range, a limit."""
        ends: dict[str, list[Token]] = {}
        while self.here in ("_", "^"):
            where = self.here
            self.at += 1
            ends[where] = self.read_argument()
        low, high = ends.get("_", []), ends.get("^", [])
        relation = low[1].text if len(low) > 1 else ""
        if text == r"\lim" and relation != "->":
            self.refuse("a limit needs its letter and where it goes", position)
        if text == r"\sum" and (relation != "=" or not high):
            self.refuse("a sum without a range is not read", position)
        self.emit("big", "lim_" if text == r"\lim" else "sum_", position)
        self.tokens += _in_brackets(low if text == r"\lim" else [*low, _sign("..", position), *high], position)

    # Letters

    def _letter(self, position: int) -> None:
        start = self.at
        for stem, bold in self._stems(bold=False):
            self._named(stem, bold, position)
        if self.at == start:
            self.refuse(f"{self.here} is not read")

    def _named(self, stem: str, bold: bool, position: int) -> None:
        """A letter with its indices, a function, or words of a text."""
        if stem.startswith("text:"):
            return self._words(stem.removeprefix("text:"), position)
        if stem in ("roman:E", "bbE"):
            return self._function("E", position)
        if stem in FUNCTIONS and len(stem) > 1:
            return self._function(FUNCTIONS[stem], position)
        stem = {"calO": "O", "bbI": "I"}.get(stem, stem)
        if stem.isdigit():
            return self.emit("number", stem, position)
        index, exponent = self._indices()
        if stem == "e" and not bold and not index and "e" not in self.letters and self._is_exponential(exponent):
            self.emit("function", "exp", position)
            self.at += 1
            self.tokens += _in_brackets(self.read_argument(), position)
            return None
        self.emit("name", stem + "".join(f"_{one}" if one.isalnum() else f"_{{{one}}}" for one in index), position, bold)
        if exponent is not None:  # x^\top_q: the index stood behind the exponent
            self._raised(exponent, position)
        return None

    def _is_exponential(self, exponent: list[Item] | None) -> bool:
        before = self.at
        if exponent is not None or not self.take("^"):
            return False
        text = _text(self.argument())
        self.at = before
        return not TOP.fullmatch(text) and text != "T"

    def _function(self, name: str, position: int) -> None:
        below = None
        if self.take("_"):
            index = self.argument()
            if name != "E":
                self.refuse(f"the index of {name} ({_text(index)}) is not read")
            cut = next((i for i, one in enumerate(index) if one.text in (r"\sim", "|")), len(index))
            try:
                below = tuple(one for one in self.below(index[:cut]).read() if one.kind == "name")
            except Unreadable:
                below = None
        self.emit("function", name, position, below)
        self.expects = name == "E"

    def _words(self, text: str, position: int) -> None:
        found = text.strip().strip(".,;:")
        for word in found.split():
            if word not in WORDS:
                self.refuse(f"the words {found!r} in a formula are not read", position)
            self.emit("name", word, position)

    def _stems(self, bold: bool) -> list[tuple[str, bool]]:
        """The letters that stand here in one font, with their accents; the place goes behind them."""
        item = self.items[self.at]
        text, name = item.text, item.text.removeprefix("\\")
        self.at += 1
        if text in BOLD or text in FONTS:
            source = self.items[self.at].source if self.here else ""
            return self._in_font(text, self.argument(), source, bold)
        if item.inside:
            old = item.inside[0].text
            return self._in_font(old, item.inside[1:], "", bold) if old in OLD_FONTS else self._all_stems(item.inside, bold)
        if text in ACCENTS:
            inner = self._all_stems(self.argument(), bold)
            if len(inner) != 1:
                self.refuse("an accent over several letters is not read", item.position)
            return [(f"{inner[0][0].removeprefix('roman:')}_{ACCENTS[text]}", inner[0][1])]
        if name != text and (name in GREEK or name in OTHER_GREEK):
            return [(name, bold)]
        if name != text and name in FUNCTIONS:
            return [("roman:E" if name == "E" else name, False)]
        if len(text) == 1 and text.isalpha() and text.isascii():
            return [(text, bold)]
        self.at -= 1
        return []

    def _in_font(self, font: str, items: list[Item], source: str, bold: bool) -> list[tuple[str, bool]]:
        inside = "".join(_flat(items))
        if font == r"\text" and source.strip() not in FUNCTIONS and not (len(source) == 1 and source.isalpha()):
            return [(f"text:{source.replace('~', ' ')}", False)]
        if font in BOLD and inside.isdigit():
            return [(inside if inside == "0" else f"bold{inside}", True)]
        if font in BOLD or not inside.isalpha():
            return self._all_stems(items, font in BOLD or bold)
        if FONTS[font] or len(inside) > 1:
            return [(FONTS[font] + inside, bold)]
        return [("roman:E" if inside == "E" else inside, bold)]

    def _all_stems(self, items: list[Item], bold: bool) -> list[tuple[str, bool]]:
        """The letters of an argument, each with its indices inside."""
        reader, found = self.below(items), []
        while reader.here:
            stems = reader._stems(bold)
            if not stems:
                reader.refuse(f"{reader.here} inside a font or an accent is not read")
            if reader.here == "_":
                index, _ = reader._indices()
                stems[-1] = (stems[-1][0] + "".join(f"_{one}" for one in index), stems[-1][1])
            found += stems
        return found

    def _indices(self) -> tuple[list[str], list[Item] | None]:
        r"""The index that follows, and an exponent that stands before it: x_q, x_{i,r}, x^\top_q."""
        before, exponent = self.at, self.argument() if self.take("^") else None
        if exponent is not None and self.here != "_":
            self.at, exponent = before, None
        return ([_index(self.argument())] if self.take("_") else []), exponent

    SPECIAL = (
        dict.fromkeys(FRACTIONS, _fraction)
        | dict.fromkeys(NORMS, _norm)
        | dict.fromkeys(BARS, _bar)
        | dict.fromkeys([r"\nabla", r"\partial"], _nabla)
        | dict.fromkeys([r"\overset", r"\stackrel", r"\underset", r"\xrightarrow"], _over_relation)
        | dict.fromkeys([r"\underbrace", r"\overbrace", r"\boxed"], _under_brace)
        | dict.fromkeys([r"\sum", r"\lim"], _big)
        | {r"\sqrt": _root, r"\infty": lambda self, _, position: self.emit("name", "infinity", position, False)}
        | {"^": lambda self, _, position: self._raised(self.argument(), position)}
    )


def _index(items: list[Item]) -> str:
    """An index as a name has it: q, init, m+1, i,r."""
    words = (one for one in _flat(items) if one not in FONTS and one not in BOLD)
    return "".join(one.removeprefix("\\") if one[1:] in GREEK else one for one in words)
