r"""Sentences with LaTeX between dollars, as Markdown has them, for a LaTeX document and for a terminal.

>>> sentence = r"Write $\boldsymbol{M}$ for $\mathbb{E}[\hat{\boldsymbol{\Lambda}}^{2}]$, 10 % of $\frac{1}{N}$"
>>> print(sentence_latex(sentence))
Write $\boldsymbol{M}$ for $\mathbb{E}[\hat{\boldsymbol{\Lambda}}^{2}]$, 10 \% of $\frac{1}{N}$
>>> print(sentence_text(sentence))
Write M for E[Lambda_hat^2], 10 % of 1/N
"""

from collections.abc import Iterator
from re import compile as pattern, fullmatch, sub

_ESCAPES = str.maketrans({"&": r"\&", "%": r"\%", "#": r"\#"})
_TOKEN = pattern(r"\\[A-Za-z]+|\\.|[{}^_]|\s+|.")
_FONTS = frozenset([
    "boldsymbol", "mathbf", "mathrm", "mathcal", "mathsf", "mathtt", "mathbb", "text", "operatorname", "rm", "displaystyle", "textstyle",
    "left", "right", "bigl", "bigr", "Bigl", "Bigr", "!",
])  # fmt: skip
_SPACED = {
    "le": "<=", "ge": ">=", "ne": "!=", "to": "->", "mapsto": "|->", "sim": "~", "simeq": "~=", "approx": "~=", "in": "in", "pm": "+-",
    "ll": "<<", "gg": ">>", "Rightarrow": "=>", "Leftrightarrow": "<=>", "times": "x", "otimes": "(x)", "propto": "~", "notin": "not in",
    "quad": "", "qquad": "", ",": "", ";": "", " ": "", "cdot": "", "subset": "in", "cup": "or", "mid": "|",
}  # fmt: skip
_CLOSE = {"|": "||", "dots": "...", "cdots": "...", "ldots": "...", "infty": "infinity", "partial": "d", "top": "'"}
_FACTORS = {"^", "_", "'", r"\boldsymbol", r"\mathbf", r"\mathbb", r"\mathcal", r"\hat", r"\tilde", r"\bar"}  # they end a factor
_ACCENTS = {"hat": "_hat", "tilde": "_tilde", "bar": "_bar", "dot": "'"}


def sentence_latex(sentence: str) -> str:
    """The sentence for LaTeX."""
    pieces = sentence.split("$")
    pieces[0::2] = [words.translate(_ESCAPES) for words in pieces[0::2]]
    return "$".join(pieces)


def sentence_text(sentence: str) -> str:
    """The sentence for a terminal, its formulas as :func:`plain` gives them."""
    pieces = sentence.split("$")
    pieces[1::2] = map(plain, pieces[1::2])
    return "".join(pieces)


def plain(latex: str) -> str:
    r"""A formula in LaTeX as a line of text: names for letters, ``^``, ``_`` and ``/``.

    >>> plain(r"\mathcal{L} \to \sum_{d>m}\lambda_d, \quad \frac{\sqrt{x}}{1 + N}\,\boldsymbol{e}_d^\top")
    "L -> sum_(d > m) lambda_d, sqrt(x)/(1 + N) e_d'"
    """
    text = sub(r"\s+", " ", "".join(_pieces(iter(_TOKEN.findall(latex)))))
    text = sub(r"(?<=[\w)|'])(?: ([-+])(?=\w)|([-+]) )", r" \1\2 ", text)
    return sub(r" (?=[)\],;:'^_/]|\.(?!\.))|(?<=[(\[^_/]) ", "", text).strip()


def _pieces(tokens: Iterator[str]) -> Iterator[str]:
    """The text of each token or group, up to the brace that closes this group; a blank parts a factor from the letter after it."""
    ended = False
    for token in tokens:
        if token == "}":
            return
        piece = _piece(token, tokens)
        yield " " if ended and piece[:1].isalpha() else ""
        yield piece
        ended = token in _FACTORS if piece else ended


def _piece(token: str, tokens: Iterator[str]) -> str:
    name = token[1:] if token.startswith("\\") else ""
    if token == "{":
        return "".join(_pieces(tokens))
    if token in ("=", "<", ">"):
        return f" {token} "
    if token in "^_":
        inner = _argument(tokens)
        if token == "^" and inner in ("'", "T"):
            return "'"
        return token + (inner if fullmatch(r"-?\w+|\*|'", inner) else f"({inner})")
    if name == "frac" or name == "tfrac":
        over, under = (_grouped(_argument(tokens)) for _ in range(2))
        return f"{over}/{under} "
    if name == "sqrt":
        return f"sqrt({_argument(tokens)})"
    if name in _ACCENTS:
        return _argument(tokens) + _ACCENTS[name]
    if token in _FACTORS and name in _FONTS:
        letter = _argument(tokens)
        return letter if len(letter) == 1 else f" {letter} "
    if name in _FONTS:
        return ""
    if name in _SPACED:
        return f" {_SPACED[name]} "
    return _CLOSE.get(name, f" {name} " if name.isalpha() else name) if name else token


def _argument(tokens: Iterator[str]) -> str:
    """The next group, or the next token that is not a blank."""
    token = next(tokens, "")
    while token.isspace():
        token = next(tokens, "")
    text = _piece(token, tokens).strip()
    if not text and token:  # a font before the letter
        return _argument(tokens)
    return sub(r"\s+", " ", text)


def _grouped(text: str) -> str:
    return f"({text})" if " " in text else text
