r"""LaTeX of this package as MathML, which browsers set without any script or font from the network.

It covers what the printers write and the catalogue types, no more: letters, scripts, fractions, roots, accents, sized
brackets, operators and matrices. ``ValueError`` names a command that it does not know, so that a caller can show text.

>>> mathml(r"\frac{1}{N} \boldsymbol{\Lambda}^{2}")
'<math><mfrac><mn>1</mn><mi>N</mi></mfrac><msup><mi mathvariant="normal" class="b">Λ</mi><mn>2</mn></msup></math>'
>>> mathml(r"\frac12 x")
'<math><mfrac><mn>1</mn><mn>2</mn></mfrac><mi>x</mi></math>'
"""

import re
from html import escape

_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[0-9]+(?:\.[0-9]+)?|\S")

_GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ϵ", "varepsilon": "ε", "zeta": "ζ", "eta": "η",
    "theta": "θ", "kappa": "κ", "lambda": "λ", "mu": "μ", "nu": "ν", "xi": "ξ", "pi": "π", "rho": "ρ", "sigma": "σ",
    "tau": "τ", "phi": "ϕ", "varphi": "φ", "chi": "χ", "psi": "ψ", "omega": "ω", "Gamma": "Γ", "Delta": "Δ",
    "Theta": "Θ", "Lambda": "Λ", "Xi": "Ξ", "Pi": "Π", "Sigma": "Σ", "Phi": "Φ", "Psi": "Ψ", "Omega": "Ω", "ell": "ℓ",
    "partial": "∂", "infty": "∞", "nabla": "∇", "varnothing": "∅", "emptyset": "∅",
    "angle": "∠", "square": "□", "hbar": "ℏ", "Re": "ℜ", "Im": "ℑ", "imath": "ı", "jmath": "ȷ",
    "Upsilon": "Υ", "vartheta": "ϑ", "varrho": "ϱ", "varsigma": "ς", "iota": "ι", "upsilon": "υ",
}  # fmt: skip
_OPERATORS = {
    "top": "⊤", "cdot": "⋅", "times": "×", "otimes": "⊗", "neq": "≠", "ne": "≠", "leq": "≤", "le": "≤", "geq": "≥",
    "ge": "≥", "approx": "≈", "simeq": "≃", "sim": "∼", "propto": "∝", "in": "∈", "notin": "∉", "subseteq": "⊆",
    "to": "→", "mapsto": "↦", "Rightarrow": "⇒", "Leftrightarrow": "⇔", "iff": "⇔", "pm": "±", "mid": "∣", "cdots": "⋯",
    "ldots": "…", "dots": "…", "vdots": "⋮", "ddots": "⋱", "forall": "∀", "lVert": "‖", "rVert": "‖", "Vert": "‖",
    "|": "‖", "{": "{", "}": "}", "langle": "⟨", "rangle": "⟩", "succ": "≻", "prime": "′", "setminus": "∖", "cup": "∪",
    "odot": "⊙", "circ": "∘", "equiv": "≡", "lfloor": "⌊", "rfloor": "⌋", "colon": ":", "vert": "|", "lvert": "|",
    "rvert": "|", "#": "#", "leftrightarrow": "↔", "leftarrow": "←", "rightarrow": "→", "gg": "≫", "ll": "≪", "%": "%", "&": "&",
    "cap": "∩", "oplus": "⊕", "preceq": "⪯", "succeq": "⪰", "dagger": "†", "perp": "⊥", "star": "⋆", "ast": "∗",
    "backslash": "∖", "_": "_", "supset": "⊃", "subset": "⊂",
}  # fmt: skip
_BIG = {"sum": "∑", "prod": "∏", "int": "∫"}
_FUNCTIONS = {
    "log", "ln", "exp", "sin", "cos", "tan", "tanh", "cosh", "sinh", "arcsin", "arccos", "arctan", "min", "max", "sup",
    "inf", "lim", "det", "dim", "ker", "deg", "arg", "gcd", "Pr",
}  # fmt: skip
_IGNORED = {
    "displaystyle", "textstyle", "scriptstyle", "limits", "nolimits", "big", "Big", "bigg", "Bigg", "bigl", "bigr", "Bigl",
    "Bigr", "biggl", "biggr", "Biggl", "Biggr",
}  # fmt: skip
_SPACES = {",": "0.17em", ";": "0.28em", ":": "0.22em", " ": "0.25em", "quad": "1em", "qquad": "2em", "!": "0em"}
_ACCENTS = {"hat": "^", "dot": "˙", "tilde": "~", "bar": "¯", "ddot": "¨", "widehat": "^", "overline": "¯", "vec": "→"}
_DOUBLE = {"E": "𝔼", "R": "ℝ", "N": "ℕ"}
_SCRIPT = {"L": "ℒ", "M": "ℳ", "N": "𝒩", "F": "ℱ", "G": "𝒢", "O": "𝒪", "H": "ℋ"}


def mathml(latex: str, *, display: bool = False) -> str:
    """The ``<math>`` element of a formula given without dollar signs."""
    attribute = ' display="block"' if display else ""
    return f"<math{attribute}>{_Reader(_TOKEN.findall(latex)).row(())}</math>"


class _Reader:
    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.place, self.bold, self.upright, self.sans = tokens, 0, False, False, False

    def peek(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def next(self) -> str:
        if self.place == len(self.tokens):
            raise ValueError("the formula ends where something was expected")
        self.place += 1
        return self.tokens[self.place - 1]

    def row(self, ends: tuple[str, ...]) -> str:
        """Elements up to one of ``ends``, which stays unread, or up to the end of the formula."""
        pieces = []
        while self.place < len(self.tokens) and self.peek() not in ends:
            pieces.append(self.scripted())
        if ends and not self.peek():
            raise ValueError(f"the formula lacks one of {' '.join(ends)}")
        return "".join(pieces)

    def scripted(self) -> str:
        """An element with what stands below and above it."""
        limits = self.peek() in (r"\sum", r"\prod", r"\lim")
        base = self.element()
        scripts: dict[str, list[str]] = {}
        while self.peek() in ("_", "^", "'"):
            mark = self.next()
            script = "<mo>′</mo>" if mark == "'" else self.element()
            scripts.setdefault("^" if mark == "'" else mark, []).append(script)
        if not scripts:
            return base
        parts = {mark: s[0] if len(s) == 1 else f"<mrow>{''.join(s)}</mrow>" for mark, s in scripts.items()}
        name = {"_": "sub", "^": "sup", "_^": "subsup"}["".join(sorted(parts, key="_^".index))]
        if limits:
            name = {"sub": "under", "sup": "over", "subsup": "underover"}[name]
        inside = "".join(parts[mark] for mark in "_^" if mark in parts)
        return f"<m{name}>{base}{inside}</m{name}>"

    def group(self) -> str:
        """What the braces after a command hold, as one element."""
        if self.peek() != "{":
            self.split_digits()
            return self.element()
        self.next()
        upright = self.upright  # \rm reaches as far as the group that it stands in
        inside = self.row(("}",))
        self.upright = upright
        self.next()
        return f"<mrow>{inside}</mrow>" if len(re.findall(r"<m\w+", inside)) != 1 else inside

    def split_digits(self) -> None:
        """Leave one digit of a number to be read next: without braces an argument is one token."""
        number = self.peek()
        if len(number) > 1 and number[0].isdigit():
            self.tokens[self.place : self.place + 1] = [number[0], number[1:]]

    def raw(self) -> str:
        """The text in the braces after a command."""
        if self.peek() != "{":
            return self.next()
        self.next()
        words = []
        while self.peek() != "}":
            words.append(self.next())
        self.next()
        return "".join(words)

    def styled(self, style: str) -> str:
        before = getattr(self, style)
        setattr(self, style, True)
        inside = self.group()
        setattr(self, style, before)
        return inside

    def letter(self, text: str) -> str:
        if self.bold or self.sans:
            kind = " ".join(name for name, on in (("b", self.bold), ("s", self.sans)) if on)
            return f'<mi mathvariant="normal" class="{kind}">{text}</mi>'
        return f'<mi mathvariant="normal">{text}</mi>' if self.upright else f"<mi>{text}</mi>"

    def element(self) -> str:
        token = self.next()
        if token == "{":
            self.place -= 1
            return self.group()
        if token[0] == "\\":
            return self.command(token[1:])
        if token[0].isdigit():
            return f"<mn>{token}</mn>"
        if token.isalpha():
            return self.letter(token)
        if token in "([":
            return f'<mo form="prefix" stretchy="false">{token}</mo>'
        if token in ")]":
            return f'<mo form="postfix" stretchy="false">{token}</mo>'
        return "<mo>−</mo>" if token == "-" else f"<mo>{escape(token)}</mo>"

    def command(self, name: str) -> str:
        if name in _GREEK:
            return self.letter(_GREEK[name])
        if name in _OPERATORS:
            return f"<mo>{escape(_OPERATORS[name])}</mo>"
        if name in _BIG:
            return f"<mo>{_BIG[name]}</mo>"
        if name in _SPACES:
            return f'<mspace width="{_SPACES[name]}"/>'
        if name in _ACCENTS:
            return f'<mover accent="true">{self.group()}<mo stretchy="false">{_ACCENTS[name]}</mo></mover>'
        if name in ("boldsymbol", "mathbf", "bm"):
            return self.styled("bold")
        if name == "mathsf":
            return self.styled("sans")
        if name == "rm":
            self.upright = True
            return ""
        if name in ("mathrm", "text", "textrm", "operatorname"):
            return f'<mi mathvariant="normal">{escape(self.raw())}</mi>'
        if name in ("mathbb", "mathcal"):
            letter, table = self.raw(), _DOUBLE if name == "mathbb" else _SCRIPT
            return f"<mi>{table.get(letter, letter)}</mi>"
        if name in _FUNCTIONS:
            return f'<mi mathvariant="normal">{name}</mi>'
        if name in ("frac", "tfrac", "dfrac"):
            return f"<mfrac>{self.group()}{self.group()}</mfrac>"
        if name == "sqrt":
            return self.root()
        if name == "left":
            return self.bracketed()
        if name == "middle":
            return self.fence()
        if name == "begin":
            return self.matrix()
        if name in ("binom", "tbinom"):
            over, under = self.group(), self.group()
            return f'<mrow><mo>(</mo><mfrac linethickness="0">{over}{under}</mfrac><mo>)</mo></mrow>'
        if name in _IGNORED:
            return ""
        raise ValueError(f"no MathML for the command \\{name}")

    def root(self) -> str:
        if self.peek() != "[":
            return f"<msqrt>{self.group()}</msqrt>"
        self.next()
        degree = self.row(("]",))
        self.next()
        return f"<mroot>{self.group()}{degree}</mroot>"

    def fence(self) -> str:
        token = self.next()
        symbol = _OPERATORS.get(token[1:], token[1:]) if token[0] == "\\" else token
        return "" if symbol == "." else f'<mo fence="true">{escape(symbol)}</mo>'

    def bracketed(self) -> str:
        left, inside = self.fence(), self.row((r"\right",))
        self.next()
        return f"<mrow>{left}{inside}{self.fence()}</mrow>"

    def matrix(self) -> str:
        kind = self.raw()
        if kind not in ("bmatrix", "matrix", "pmatrix", "cases", "array", "aligned"):
            raise ValueError(f"no MathML for the environment {kind}")
        if kind == "array":
            self.raw()
        rows, cells = [], []
        while True:
            cells.append(f"<mtd>{self.row(('&', chr(92) * 2, chr(92) + 'end'))}</mtd>")
            end = self.next()
            if end == "&":
                continue
            rows.append(f"<mtr>{''.join(cells)}</mtr>")
            cells = []
            if end == r"\end":
                self.raw()
                break
        left, right = {"bmatrix": "[]", "pmatrix": "()", "cases": ("{", "")}.get(kind, ("", ""))
        table = f"<mtable>{''.join(rows)}</mtable>"
        return "".join(
            [f'<mo fence="true">{left}</mo>' if left else "", table, f'<mo fence="true">{right}</mo>' if right else ""]
        )
