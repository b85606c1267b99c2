r"""LaTeX to the tokens of text: fractions become brackets and a /, sums and derivatives the words that text has for them.

>>> print(*(token.text for token in latex_tokens(r"\tfrac12 \sum_{n=1}^{N} \mathbf x_n \mathbf x_n^\top = \hat{\boldsymbol\Lambda}")[:-1]))
( ( 1 ) / ( 2 ) ) sum_ ( n = 1 .. N ) x_n x_n ' = Lambda_hat
>>> print(*(token.text for token in latex_tokens(r"\frac{\partial L}{\partial B} = \mathbb{E}\left[\operatorname{tr} B^{-1}\right]")[:-1]))
[ d/dB [ L ] ] = E [ tr B ^ - 1 ]
"""

import re
from collections.abc import Iterable
from typing import NamedTuple, NoReturn

from ..algebra.syntax import WORDS, Token, Unreadable
from ..typesetting.symbol_names import GREEK


class Spelling(NamedTuple):
    """How a letter is set, beyond its name."""

    bold: bool


class Raw(NamedTuple):
    text: str
    position: int


_RAW = re.compile(r"\\[A-Za-z]+\*?|\\.|[^\s]", re.DOTALL)


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
ACCENTS = _by_command({
    "hat": r"\hat \widehat", "tilde": r"\tilde \widetilde", "bar": r"\bar \overline", "check": r"\check", "dot": r"\dot", "ddot": r"\ddot",
})  # fmt: skip
FRACTIONS = frozenset([r"\frac", r"\tfrac", r"\dfrac", r"\cfrac"])
RELATIONS = _by_command({
    "=": "=", "!=": r"\ne \neq", "<=": r"\le \leq \leqslant", ">=": r"\ge \geq \geqslant", "<": r"< \lt", ">": r"> \gt", "~": r"\sim",
    "->": r"\to \rightarrow \longrightarrow", ":=": r"\coloneqq \triangleq", "=>": r"\Rightarrow \implies", "<=>": r"\Leftrightarrow \iff",
})  # fmt: skip
SIGNS = _by_command({
    "+": "+", "-": "-", "*": r"* \cdot \times", "/": "/", "(": r"( \{ \lbrace", ")": r") \} \rbrace", "[": r"[ \lbrack", "]": r"] \rbrack",
    ",": ", ;",
})  # fmt: skip
FUNCTIONS = _by_command({"tr": "tr Tr trace Trace", "ln": "ln log", "exp": "exp", "tanh": "tanh", "E": "E", "inv": "inv"})
TOP = re.compile(
    r"(?:\\!\s*|\\mathstrut\s*|\{\s*)*(?:\\top|\\intercal|\\prime|\\(?:mathsf|mathrm|text|rm|sf)\s*\{?\s*(?:T|\\top)\s*\}?)(?:\s*\})*"
)
MINUS_TOP = re.compile(rf"-\s*(?:T|{TOP.pattern})")
LABEL = re.compile(r"\*|\\star|\\ast|\\dagger|\+|-|\\circ|\( \\?\w+ \)")
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
    """The tokens of a line of LaTeX; ``letters``: names that are declared, so that d/dx or E is none of them."""
    reader = _Reader(text, frozenset(letters))
    reader.read()
    return [*_separated(reader.tokens), Token("end", "", len(text))]


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


class _Reader:
    def __init__(self, text: str, letters: frozenset[str]):
        self.raws = [Raw(match[0], match.start()) for match in _RAW.finditer(text)]
        self.letters, self.at, self.stop, self.tokens = letters, 0, len(self.raws), []
        self.open: list[bool] = []  # the brackets that are open: do they belong to an expectation?
        self.expects = False  # is an expectation waiting for its bracket?
        self.depth = 0

    # Raw tokens

    def here(self) -> str:
        return self.raws[self.at].text if self.at < self.stop else ""

    def position(self) -> int:
        return self.raws[min(self.at, len(self.raws) - 1)].position if self.raws else 0

    def refuse(self, reason: str) -> NoReturn:
        raise Unreadable(reason, self.position())

    def skip(self) -> None:
        while self.here() in SPACE:
            self.at += 1

    def argument(self) -> tuple[int, int]:
        """The raw tokens of an argument, from and to: in braces, or a single one, with the argument of a font or an accent."""
        self.skip()
        if self.at >= self.stop:
            self.refuse("found the end, expected an argument")
        if self.here() == "{":
            return self.group()
        start = self.at
        self.at += 1
        if self.raws[start].text in BOLD or self.raws[start].text in FONTS or self.raws[start].text in ACCENTS:
            self.argument()
        return start, self.at

    def group(self, closing: str = "}") -> tuple[int, int]:
        """The inside of braces, which open here; the place goes behind them."""
        opening, depth = self.here(), 0
        for i in range(self.at, self.stop):
            depth += (self.raws[i].text == opening) - (self.raws[i].text == closing)
            if depth == 0:
                inside = self.at + 1, i
                self.at = i + 1
                return inside
        return self.refuse(f"found {opening!r}, which is not closed")

    def text(self, span: tuple[int, int]) -> str:
        return " ".join(raw.text for raw in self.raws[span[0] : span[1]] if raw.text not in SPACE)

    def inside(self, span: tuple[int, int]) -> list[Token]:
        """The tokens of an argument."""
        self.depth += 1
        if self.depth > 40:
            self.refuse("at most 40 nested arguments are read")
        before = self.at, self.stop, self.tokens, self.open, self.expects
        (self.at, self.stop), self.tokens, self.open, self.expects = span, [], [], False
        self.read()
        found = self.tokens
        self.at, self.stop, self.tokens, self.open, self.expects = before
        self.depth -= 1
        return found

    # Tokens

    def emit(self, kind: str, text: str, position: int | None = None, value=None) -> None:
        self.tokens.append(Token(kind, text, self.position() if position is None else position, True, value))

    def bracketed(self, tokens: list[Token], brackets: str = "()") -> None:
        self.emit("sign", brackets[0])
        self.tokens += tokens
        self.emit("sign", brackets[1])

    def read(self) -> None:
        while self.at < self.stop:
            self.one()

    def one(self) -> None:
        """Read one thing."""
        text, position = self.here(), self.position()
        if text in SPACE:
            self.at += 1
        elif text in GAPS:
            self.at += 1
            if not self.open and not self.depth:
                self.emit("gap", ",", position)
        elif text in WITH_ARGUMENT:
            self.at += 1
            self.argument()
        elif text.isdigit():
            self.number()
        elif text in FRACTIONS:
            self.fraction()
        elif text == "{":
            self.braces(position)
        elif text == "^":
            self.exponent()
        elif text == "'":
            self.at += 1
            self.emit("sign", "'", position)
        elif text in (r"\|", r"\Vert", r"\lVert"):
            self.norm()
        elif text in ("|", r"\mid", r"\vert", r"\lvert"):
            self.bar()
        elif text == ":" and self.raws[self.at + 1 : self.at + 2] and self.raws[self.at + 1].text == "=":
            self.at += 2
            self.emit("relation", ":=", position)
        elif text in RELATIONS:
            self.at += 1
            self.emit("relation", RELATIONS[text], position)
        elif text in SIGNS or text == ".":
            self.sign(text)
        elif text in REFUSED:
            self.refuse(f"{REFUSED[text]} ({text}) is not read")
        else:
            self.word(text, position)

    def braces(self, position: int) -> None:
        r"""Braces are not seen; but {\bf W}, and {W}_i, are one letter."""
        before = self.at
        first, last = self.group()
        if last > first and (self.raws[first].text in (r"\bf", r"\rm", r"\sf", r"\cal") or self.here() == "_"):
            self.at = before
            self.letter(position)
        else:
            self.tokens += self.inside((first, last))

    def sign(self, text: str) -> None:
        sign = SIGNS.get(text, text)
        if sign in ("(", "["):
            self.open.append(self.expects)
            self.expects = False
        elif sign in (")", "]") and self.open:
            self.open.pop()
        self.emit("sign", sign)
        self.at += 1

    def number(self) -> None:
        start, position, digits = self.at, self.position(), ""
        while self.here().isdigit() or (self.here() == "." and self.at + 1 < self.stop and self.raws[self.at + 1].text.isdigit()):
            if self.at > start and self.raws[self.at].position != self.raws[self.at - 1].position + 1:
                break
            digits += self.here()
            self.at += 1
        self.emit("number", digits, position)

    def fraction(self) -> None:
        self.at += 1
        above, below = self.argument(), self.argument()
        top, bottom = self.text(above).split(), self.text(below).split()
        if derivative := self.differential(top, bottom, above, below):
            variable, operand = derivative
            if operand:
                self.emit("sign", "[")
                self.derivative(variable)
                self.bracketed(operand, "[]")
                self.emit("sign", "]")
            else:
                self.derivative(variable)
            return
        self.emit("sign", "(")
        self.bracketed(self.inside(above))
        self.emit("sign", "/")
        self.bracketed(self.inside(below))
        self.emit("sign", ")")

    def differential(self, top: list[str], bottom: list[str], above: tuple, below: tuple) -> tuple | None:
        r"""The letter and the operand of \frac{\partial L}{\partial B}; the operand is empty where it follows."""
        signs = ([r"\partial"], ["d"], [r"\mathrm", "{", "d", "}"], [r"\mathrm", "d"], [r"\text", "{", "d", "}"], [r"\rm", "d"])
        sign = next((one for one in signs if top[: len(one)] == one and bottom[: len(one)] == one and len(bottom) > len(one)), None)
        if sign is None:
            if top[:1] == [r"\partial"] or bottom[:1] == [r"\partial"] or top[:2] == ["d", "^"]:
                self.refuse("a derivative of this form is not read")
            return None
        if top[len(sign) : len(sign) + 1] == ["^"]:
            self.refuse("a second derivative is not read")
        if sign == ["d"] and "d" in self.letters:
            self.refuse(r"d is a letter here, so that d/dx could be a quotient: write \partial")
        spans = []
        for span, count in ((above, len(sign)), (below, len(sign))):
            start, left = span[0], count
            while left:
                left -= self.raws[start].text not in SPACE
                start += 1
            spans.append((start, span[1]))
        variable = self.inside(spans[1])
        if len(variable) != 1 or variable[0].kind != "name":
            self.refuse("a derivative is in one letter")
        return variable[0], self.inside(spans[0])

    def derivative(self, variable: Token) -> None:
        self.emit("derivative", f"d/d{variable.text}", variable.position, variable)

    def exponent(self) -> None:
        position = self.position()
        self.at += 1
        span = self.argument()
        text = self.text(span)
        if TOP.fullmatch(text):
            self.emit("sign", "'", position)
        elif MINUS_TOP.fullmatch(text):
            self.emit("sign", "^", position)
            self.emit("sign", "-", position)
            self.emit("name", "top", position, Spelling(False))
        elif LABEL.fullmatch(text):  # of a letter, not an exponent
            self.emit("sign", "^", position)
            self.emit("label", text, position)
        else:
            inner = self.inside(span)
            self.emit("sign", "^", position)
            kinds = [one.kind if one.kind != "sign" else one.text for one in inner]
            if kinds in (["number"], ["name"], ["-", "number"]):
                self.tokens += inner
            else:
                self.bracketed(inner)

    def norm(self) -> None:
        position = self.position()
        self.at += 1
        start = self.at
        while self.here() not in (r"\|", r"\Vert", r"\rVert"):
            if self.at >= self.stop:
                raise Unreadable("a norm that is not closed", position)
            self.at += 1
        stop = self.at
        while self.raws[stop - 1].text in SPACE and stop > start:  # \right of \right\|
            stop -= 1
        self.at += 1
        kind = ""
        self.skip()
        if self.here() == "_":
            self.at += 1
            kind = self.text(self.argument()).replace(r"\mathrm ", "").replace(r"\text ", "").strip("{} ")
        self.emit("function", "norm", position, kind)
        self.bracketed(self.inside((start, stop)))

    def bar(self) -> None:
        if not (self.open and self.open[-1]):
            self.refuse("bars are not read: an absolute value, a determinant or a condition?")
        self.emit("sign", "|")
        self.at += 1

    def word(self, text: str, position: int) -> None:
        """A command with a meaning of its own, or a letter."""
        if text in (r"\sum", r"\lim"):
            self.big(text, position)
        elif text == r"\sqrt":
            self.root()
        elif text in (r"\nabla", r"\partial"):
            self.at += 1
            self.skip()
            if self.here() != "_":
                raise Unreadable(f"{text} needs the letter of the derivative as its index", position)
            self.at += 1
            variable = self.inside(self.argument())
            if len(variable) != 1 or variable[0].kind != "name":
                raise Unreadable("a derivative is in one letter", position)
            self.derivative(variable[0])
        elif text in (r"\overset", r"\stackrel", r"\underset"):
            self.at += 1
            label, relation = self.text(self.argument()), self.inside(self.argument())
            if len(relation) != 1 or relation[0].kind != "relation":
                raise Unreadable(f"{text} is read over a relation only", position)
            self.tokens.append(relation[0]._replace(text=":=") if "def" in label.replace(" ", "") or r"\triangle" in label else relation[0])
        elif text == r"\xrightarrow":
            self.at += 1
            limit = self.inside(self.argument())
            self.emit("relation", "->", position)
            self.tokens[-1] = self.tokens[-1]._replace(value=tuple(limit))
        elif text in (r"\underbrace", r"\overbrace", r"\boxed"):
            self.at += 1
            self.bracketed(self.inside(self.argument()))
            self.skip()
            if self.here() in ("_", "^") and text != r"\boxed":
                self.at += 1
                self.argument()
        elif text == r"\infty":
            self.at += 1
            self.emit("name", "infinity", position, Spelling(False))
        else:
            self.letter(position)

    def root(self) -> None:
        position = self.position()
        self.at += 1
        self.skip()
        degree = self.inside(self.group("]")) if self.here() == "[" else None
        inner = self.inside(self.argument())
        if degree is None:
            self.emit("function", "sqrt", position)
            self.bracketed(inner)
            return
        self.emit("sign", "(")
        self.bracketed(inner)
        self.emit("sign", "^")
        self.bracketed([Token("number", "1", position, True), Token("sign", "/", position, True), *degree])
        self.emit("sign", ")")

    def big(self, text: str, position: int) -> None:
        """A sum with its range, a limit."""
        self.at += 1
        ends: dict[str, list[Token]] = {}
        self.skip()
        while self.here() in ("_", "^"):
            where = self.here()
            self.at += 1
            ends[where] = self.inside(self.argument())
            self.skip()
        low, high = ends.get("_", []), ends.get("^", [])
        if text == r"\lim":
            if [one.text for one in low[1:2]] != ["->"]:
                raise Unreadable("a limit needs its letter and where it goes", position)
            self.emit("big", "lim_", position)
            self.bracketed(low)
            return
        if [one.text for one in low[1:2]] != ["="] or not high:
            raise Unreadable("a sum without a range is not read", position)
        self.emit("big", "sum_", position)
        self.bracketed([*low, Token("sign", "..", position, True), *high])

    # Letters

    def letter(self, position: int) -> None:
        start = self.at
        for stem, bold in self.stems(self.at, bold=False):
            self.named(stem, bold, position)
        if self.at == start:
            self.refuse(f"{self.here()} is not read")

    def named(self, stem: str, bold: bool, position: int) -> None:
        """A letter with its indices, a function, or words of a text."""
        if stem.startswith("text:"):
            self.words(stem.removeprefix("text:"), position)
            return
        plain = stem.removeprefix("bb") if stem == "bbE" else stem
        if plain in FUNCTIONS and (len(plain) > 1 or stem == "bbE" or (plain == "E" and stem in ("roman:E",))):
            self.function(FUNCTIONS[plain], position)
            return
        if stem == "roman:E":
            self.function("E", position)
            return
        stem = {"calO": "O", "bbI": "I"}.get(stem, stem)
        index, exponent = self.indices()
        if stem.isdigit():
            self.emit("number", stem, position)
            return
        if stem == "e" and not bold and not index and "e" not in self.letters and self.exponential(exponent, position):
            return
        self.emit("name", stem + "".join(f"_{one}" if one.isalnum() else f"_{{{one}}}" for one in index), position, Spelling(bold))
        if exponent is not None:  # x^\top_q: the index stood behind the exponent
            behind, self.at = self.at, exponent
            self.exponent()
            self.at = behind

    def exponential(self, exponent: int | None, position: int) -> bool:
        """Is it e^x, the exponential?"""
        self.skip()
        if exponent is not None or self.here() != "^":
            return False
        before = self.at
        self.at += 1
        span = self.argument()
        if TOP.fullmatch(self.text(span)) or self.text(span) == "T":
            self.at = before
            return False
        self.emit("function", "exp", position)
        self.bracketed(self.inside(span))
        return True

    def function(self, name: str, position: int) -> None:
        below = None
        self.skip()
        if self.here() == "_":
            self.at += 1
            span = self.argument()
            raws = self.text(span).split()
            cut = next((i for i in range(*span) if self.raws[i].text in (r"\sim", "|")), span[1])
            if name != "E":
                self.refuse(f"the index of {name} ({' '.join(raws)}) is not read")
            try:
                below = tuple(one for one in self.inside((span[0], cut)) if one.kind == "name")
            except Unreadable:
                below = None
        self.emit("function", name, position, below)
        self.expects = name == "E"

    def words(self, text: str, position: int) -> None:
        found = text.strip().strip(".,;:")
        for word in found.split():
            if word not in WORDS:
                raise Unreadable(f"the words {found!r} in a formula are not read", position)
            self.emit("name", word, position)

    def stems(self, start: int, bold: bool) -> list[tuple[str, bool]]:
        """The letters that stand here in one font, with their accents; the place goes behind them."""
        self.at = start
        text = self.here()
        if text in BOLD or text in FONTS:
            self.at += 1
            return self.in_font(text, self.argument(), bold)
        if text == "{":
            first, last = self.group()
            old = self.raws[first].text in (r"\bf", r"\rm", r"\sf", r"\cal")
            return self.in_font(self.raws[first].text, (first + 1, last), bold) if old else self.all_stems((first, last), bold)
        if text in ACCENTS:
            self.at += 1
            inner = self.all_stems(self.argument(), bold)
            if len(inner) != 1:
                self.refuse("an accent over several letters is not read")
            return [(f"{inner[0][0].removeprefix('roman:')}_{ACCENTS[text]}", inner[0][1])]
        if text[:1] == "\\" and (text[1:] in GREEK or text[1:] in OTHER_GREEK):
            self.at += 1
            return [(text[1:], bold)]
        if text[:1] == "\\" and text[1:] in FUNCTIONS:
            self.at += 1
            return [("roman:E" if text == r"\E" else text[1:], False)]
        if len(text) == 1 and text.isalpha() and text.isascii():
            self.at += 1
            return [(text, bold)]
        return []

    def in_font(self, font: str, span: tuple[int, int], bold: bool) -> list[tuple[str, bool]]:
        inside = "".join(raw.text for raw in self.raws[span[0] : span[1]])
        if font == r"\text":
            begin, end = self.raws[span[0]].position, self.raws[span[1] - 1].position + 1
            inside = self.source(begin, end)
            if inside.strip() not in FUNCTIONS and not (len(inside) == 1 and inside.isalpha()):
                return [(f"text:{inside}", False)]
        if font in BOLD:
            if inside.isdigit():
                return [(inside if inside == "0" else f"bold{inside}", True)]
            return self.all_stems(span, True)
        if not inside.isalpha():
            return self.all_stems(span, bold)
        prefix = FONTS[font]
        if prefix or len(inside) > 1:
            return [(prefix + inside, bold)]
        return [("roman:E" if inside == "E" else inside, bold)]

    def source(self, begin: int, end: int) -> str:
        """The characters of a text; blanks between raw tokens are blanks of it."""
        found, last = "", begin
        for raw in self.raws:
            if begin <= raw.position < end:
                found += " " * (raw.position > last) + (" " if raw.text in SPACE else raw.text)
                last = raw.position + len(raw.text)
        return found

    def all_stems(self, span: tuple[int, int], bold: bool) -> list[tuple[str, bool]]:
        """The letters of an argument, each with its indices inside."""
        behind, found = (self.at, self.stop), []
        self.at, self.stop = span
        while self.at < self.stop:
            if self.here() in SPACE or self.here() in ("{", "}"):
                self.at += 1
                continue
            start = self.at
            stems = self.stems(start, bold)
            if not stems:
                self.refuse(f"{self.here()} inside a font or an accent is not read")
            if self.here() == "_":
                index, _ = self.indices()
                stems[-1] = (stems[-1][0] + "".join(f"_{one}" for one in index), stems[-1][1])
            found += stems
        self.at, self.stop = behind
        return found

    def indices(self) -> tuple[list[str], int | None]:
        r"""The indices that follow, and where an exponent stands between: x_q, x_{i,r}, x^\top_q."""
        index: list[str] = []
        self.skip()
        exponent = None
        if self.here() == "^":
            before = self.at
            self.at += 1
            self.argument()
            self.skip()
            if self.here() == "_":
                exponent = before
            else:
                self.at = before
        if self.here() == "_":
            self.at += 1
            index.append(self.index(self.argument()))
        return index, exponent

    def index(self, span: tuple[int, int]) -> str:
        """An index as a name has it: q, init, m+1, i,r."""
        words = []
        for raw in self.raws[span[0] : span[1]]:
            if raw.text in SPACE or raw.text in ("{", "}", r"\rm") or raw.text in FONTS:
                continue
            words.append("" if raw.text in BOLD else raw.text.removeprefix("\\") if raw.text[1:] in GREEK else raw.text)
        return "".join(words)
