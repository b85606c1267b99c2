r"""Trace polynomials as text and as LaTeX, with terms and factors in a stable order.

Text is in the grammar that :mod:`iclflow.theory.proofs.meaning` reads, so reading is the inverse of printing:

>>> from iclflow.theory import expect
>>> from iclflow.theory.notation import Lambda_hat
>>> print(expect(Lambda_hat**2))
(1 + 1/N) Lambda^2 + 1/N tr(Lambda) Lambda
>>> print(latex(expect(Lambda_hat**2).terms))
\left(1 + \frac{1}{N}\right) \boldsymbol{\Lambda}^{2} + \frac{1}{N} \operatorname{tr}\left(\boldsymbol{\Lambda}\right) \boldsymbol{\Lambda}
"""

from fractions import Fraction
from functools import cache, lru_cache
from itertools import groupby

import sympy

from . import words
from .coefficients import rational, scalar_of
from .letters import printed_name
from .terms import Terms, groups


class Style:
    """What differs between text and LaTeX."""

    def __init__(self, name, fraction, power, transposed, inverted, trace, brackets, identity, latex):
        self.name, self.fraction, self.power = name, fraction, power
        self.transposed, self.inverted, self.trace, self.brackets = transposed, inverted, trace, brackets
        self.identity, self.latex = identity, latex


def _plain_fraction(top: str, bottom: str, products: bool) -> str:
    top = f"({top})" if " " in top and ("+" in top or "-" in top) else top
    return f"{top}/({bottom})" if products else f"{top}/{bottom}"


TEXT = Style(
    name=printed_name,
    fraction=_plain_fraction,
    power=lambda base, exponent: f"{base}^{exponent}",
    transposed=lambda name: f"{name}'",
    inverted="^-1",
    trace=lambda inner: f"tr({inner})",
    brackets=lambda inner: f"({inner})",
    identity="I",
    latex=False,
)
LATEX = Style(
    name=sympy.latex,
    fraction=lambda top, bottom, products: rf"\frac{{{top}}}{{{bottom}}}",
    power=lambda base, exponent: f"{base}^{{{exponent}}}",
    transposed=lambda name: rf"{name}^\top",
    inverted="^{-1}",
    trace=lambda inner: rf"\operatorname{{tr}}\left({inner}\right)",
    brackets=lambda inner: rf"\left({inner}\right)",
    identity=r"\boldsymbol{I}",
    latex=True,
)


def text(terms: Terms) -> str:
    """A polynomial as a line of text, in the grammar of ``iclflow expect``."""
    return write(terms, TEXT)


def latex(terms: Terms) -> str:
    """A polynomial as LaTeX, without delimiters."""
    return write(terms, LATEX)


def write(terms: Terms, style: Style) -> str:
    """A polynomial in the given style: ``TEXT``, ``LATEX``, or a copy of one of them with some attributes changed."""
    pieces = []
    for coefficient, traces, word in groups(terms):
        runs = [(item, len(list(run))) for item, run in groupby(sorted(traces, key=_trace_order))]
        alone = word is None and len(runs) == 1  # (a' b) needs no brackets
        factors = [_closed(run, style, brackets=not alone) for run in runs]
        if word is not None:
            factors.append(_word(word, style) if word else style.identity)
        pieces.append(_summand(coefficient, factors, style))
    return _join(pieces) if pieces else "0"


def _join(pieces: list[str]) -> str:
    line = pieces[0]
    for piece in pieces[1:]:
        line += f" - {piece[1:]}" if piece.startswith("-") else f" + {piece}"
    return line


def _summand(coefficient, factors: list[str], style: Style) -> str:
    """coefficient x factors, without a coefficient of 1 and with brackets around a sum."""
    monomials = sorted(coefficient.items(), key=_scalar_order)
    positive = next((i for i, (_, number) in enumerate(monomials) if number > 0), 0)
    monomials.insert(0, monomials.pop(positive))  # 1 - p, not -p + 1
    pieces = [_monomial(scalars, number, style) for scalars, number in monomials]
    if not factors:
        return _join(pieces)
    product = " ".join(factors)
    if len(pieces) > 1 and all(number < 0 for number in coefficient.values()):
        return "-" + _summand({scalars: -number for scalars, number in coefficient.items()}, factors, style)
    if len(pieces) > 1:
        return f"{style.brackets(_join(pieces))} {product}"
    if pieces[0] in ("1", "-1"):
        return pieces[0][:-1] + product
    return f"{pieces[0]} {product}"


@cache
def _key(generator: int):
    """A key that orders scalars by name."""
    return sympy.default_sort_key(scalar_of(generator))


def _scalar_order(item):
    """By falling degree (N before 1 before 1/N), positive terms first, then by name."""
    scalars, number = item
    named = sorted((_key(g), e) for g, e in scalars)
    return -sum(e for _, e in scalars), number < 0, [(key, -e) for key, e in named]


def _monomial(scalars, number, style: Style) -> str:
    number = Fraction(number)
    named = sorted(scalars, key=lambda pair: _key(pair[0]))
    top = [_scalar_power(g, e, style) for g, e in named if e > 0]
    bottom = [_scalar_power(g, -e, style) for g, e in named if e < 0]
    if abs(number.numerator) != 1 or not top:
        top.insert(0, str(abs(number.numerator)))
    if number.denominator != 1:
        bottom.insert(0, str(number.denominator))
    sign = "-" if number < 0 else ""
    if not bottom:
        return sign + " ".join(top)
    below = " ".join(bottom)
    if style.latex and len(bottom) == 1 and below.endswith(r"\right)"):  # \frac needs no brackets around a sum
        below = below.removeprefix(r"\left(").removesuffix(r"\right)")
    return sign + style.fraction(" ".join(top), below, len(bottom) > 1)


@lru_cache(maxsize=1 << 12)
def _scalar_power(generator: int, exponent: int, style: Style) -> str:
    base = scalar_of(generator)
    is_sum = isinstance(base, sympy.Add)  # in a denominator
    name = style.brackets(_summand(rational(base), [], style)) if is_sum else style.name(base)
    return name if exponent == 1 else style.power(name, exponent)


def _trace_order(word):
    turned = words.readable_rotation(word)
    return len(turned), words.name_key(turned)


def _closed(run, style: Style, *, brackets: bool) -> str:
    word, count = run
    turned = words.readable_rotation(word)
    inner = _word(turned, style)
    if words.cut_position(turned) is None:
        inner = style.trace(inner)
    elif len(turned) > 1 and (brackets or count > 1):  # not a 1 x 1 symbol
        inner = style.brackets(inner)
    return inner if count == 1 else style.power(inner, count)


def _word(word, style: Style) -> str:
    pieces = []
    for code, run in groupby(word):
        count = len(list(run))
        name = style.name(words.symbol_of(code))
        if words.is_inverse(code):
            name = style.power(name, -count)
            name = style.transposed(style.brackets(name)) if words.is_transposed(code) else name
        elif words.is_transposed(code):
            name = style.transposed(name)
            name = name if count == 1 else style.power(style.brackets(name), count)
        else:
            name = name if count == 1 else style.power(name, count)
        pieces.append(name)
    return " ".join(pieces)
