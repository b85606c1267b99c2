r"""Sentences with formulas in plain text, as LaTeX or Markdown: what reads like mathematics is set as mathematics.

>>> prose_latex("Write M for the second moment (31)")
'Write $\\boldsymbol{M}$ for the second moment (31)'
>>> prose_latex("x_n ~ N(0, Lambda), independent")
'$\\boldsymbol{x}_{n} \\sim \\mathcal{N}(0, \\boldsymbol{\\Lambda})$, independent'
>>> prose_latex("The squared error of the prediction beta' B x_q")
'The squared error of the prediction $\\boldsymbol{\\beta}^{\\top} \\boldsymbol{B} \\boldsymbol{x}_{q}$'

Text between dollars is LaTeX already and stays as it is.
"""

from collections.abc import Callable, Iterator
from re import Match, fullmatch, sub
from re import compile as pattern

from .latex import superscript
from .symbol_names import GREEK, name_latex

__all__ = ["prose_latex", "prose_markdown", "prose_text"]

TOP = superscript("top")
_BOLD = frozenset(["Lambda", "beta", "Omega", "Gamma", *"BCGIKMQUVWXekqwxz"])  # alone
_BOLD_WITH_INDEX = frozenset(["Lambda", "beta", "Omega", "Gamma", *"KQUVWXekquwxz"])
_NOT_BOLD = frozenset(
    ["x_0", "u_0", "x_d", "w_init", "C_rho", "k_0", "q_0", "k_d", "q_d", "e_hat", "x_j", "K_1", "Gamma_d"]
)
_BOLD_TRANSPOSED = frozenset("abcmruy")
_LETTERS = frozenset("BCDGHKMNRSTUVWXQFLPbcdefghijklmnpqrstuvwxyz")  # but A, I and a, which are words as well
_FUNCTIONS = {
    "tr": r"\operatorname{tr}", "vec": r"\operatorname{vec}", "diag": r"\operatorname{diag}", "span": r"\operatorname{span}",
    "E": r"\mathbb{E}", "N": r"\mathcal{N}", "exp": r"\exp", "ln": r"\ln", "log": r"\ln", "cosh": r"\cosh", "sinh": r"\sinh",
    "tanh": r"\tanh", "artanh": r"\operatorname{artanh}", "arctan": r"\arctan",
    "min": r"\min", "max": r"\max", "O": "O", "Phi": r"\Phi", "L": r"\mathcal{L}", "kron": r"\otimes", "rank": r"\operatorname{rank}",
}  # fmt: skip
_WORDS = {"sum": r"\sum", "inf": r"\infty", "infinity": r"\infty", "int": r"\int"}
_OPERATORS = {
    "<=": r"\le", ">=": r"\ge", "!=": r"\ne", "->": r"\to", "|->": r"\mapsto", "+-": r"\pm", "~": r"\sim", "~=": r"\simeq", "||": r"\|",
    "*": r"\,", "(x)": r"\otimes", "x": r"\times", "...": r"\dots", "<": "<", ">": ">", "<<": r"\ll", ">>": r"\gg", "|": "|",
    "=>": r"\Rightarrow",
}  # fmt: skip
_PIECE = pattern(
    r"sqrt\((?P<root>[^()]*)\)"
    r"|(?P<name>[A-Za-z]+\d*(?:_(?:\{[^}]*\}|[A-Za-z0-9]+|\*))*(?:(?<=v)\*)?)(?P<primes>'*)"
    r"|(?P<number>\d+(?:\.\d+)?)|(?P<power>\^(?:\([^()]*\)|-?[A-Za-z0-9]+|\*))(?P<powered>'?)"
    r"|(?P<operator>\|->|\(x\)|\+-|<=|>=|<<|>>|!=|->|=>|~=|\|\||\.\.\.|[*~<>|])|(?P<transposed>')|(?P<other>.)"
)
_MATHEMATICAL = pattern(
    r"[_^=<>+~*|]|->|\|\||^[A-Za-z]\(|^(?:tr|vec|diag|span|exp|ln|log|sqrt|cosh|sinh|tanh|artanh|arctan|min|max|Phi|rank|sigma)\("
)
_ESCAPES = str.maketrans(
    {
        "&": r"\&",
        "%": r"\%",
        "#": r"\#",
        "_": r"\_",
        "^": r"\^{}",
        "~": r"\textasciitilde{}",
        "<": "$<$",
        ">": "$>$",
        "|": "$|$",
    }
)


def prose_latex(sentence: str, *, transpose: str = "top") -> str:
    """The sentence for LaTeX; ``transpose`` as in :func:`~iclflow.theory.typesetting.latex.formula_latex`."""
    return _prose(sentence, superscript(transpose), lambda text: text.translate(_ESCAPES))


def prose_markdown(sentence: str, *, transpose: str = "top") -> str:
    """The sentence for Markdown with formulas between dollars."""
    return _prose(sentence, superscript(transpose), lambda text: text)


_FRACTION = pattern(r"\\t?frac\s*(\{[^{}]*\}|\w)\s*(\{[^{}]*\}|\w)")
_SYMBOLS = {
    r"\top": "'", r"\cdots": "...", r"\dots": "...", r"\otimes": "(x)", r"\|": "||", r"\,": " ", r"\{": "{", r"\}": "}",
    r"\partial": "d", r"\perp": "perp",
}  # fmt: skip
_MACRO = pattern(r"\\(?:[A-Za-z]+|.)|\^\\top|[{}]")
_FONTS = frozenset(["boldsymbol", "mathrm", "mathcal", "mathsf", "mathbb", "hat", "rm", "textstyle", "left", "right"])


def prose_text(sentence: str) -> str:
    r"""The sentence for a terminal: what is LaTeX between dollars, as plain text.

    >>> prose_text(r"$\boldsymbol{\Lambda}_N = \frac1N\operatorname{tr}(\boldsymbol{\Lambda})$ for any $\sqrt{b_d}\,\boldsymbol{e}_d$")
    'Lambda_N = 1/N tr(Lambda) for any sqrt(b_d) e_d'
    """
    pieces = sentence.split("$")
    pieces[1::2] = map(_plain, pieces[1::2])
    return "".join(pieces)


def _plain(latex: str) -> str:
    latex = _FRACTION.sub(lambda found: "/".join(part.strip("{}") for part in found.groups()) + " ", latex)
    latex = sub(r"\\sqrt\{([^{}]*)\}", r"sqrt(\1)", sub(r"\\operatorname\{(\w+)\}", r" \1", latex))
    latex = sub(r"(\^|_)\{([^{}]*[-+/,][^{}]*)\}", r"\1(\2)", latex)  # an exponent or index that is not one name

    def name(found: Match) -> str:
        macro = found[0]
        if macro in ("{", "}"):
            return ""
        if macro == r"^\top":
            return "'"
        return _SYMBOLS.get(macro, "" if macro[1:] in _FONTS else f" {macro[1:]} ")

    plain = sub(r"\s+", " ", _MACRO.sub(name, latex))
    return sub(r" (?=[)\],.;'_^])|(?<=[(\[_^/]) ", "", plain).strip()


def _prose(sentence: str, transposed: str, escape: Callable[[str], str]) -> str:
    pieces = sentence.split("$")
    for i in range(0, len(pieces), 2):
        pieces[i] = " ".join(_groups(pieces[i], transposed, escape)) if pieces[i].strip() else pieces[i]
        if i and not pieces[i].startswith((",", ".", ";", ":", ")", "'")) and sentence.split("$")[i][:1] == " ":
            pieces[i] = " " + pieces[i].lstrip()
        if i < len(pieces) - 1 and sentence.split("$")[i][-1:] == " ":
            pieces[i] = pieces[i].rstrip() + " "
    return "".join(f"${piece.replace(TOP, transposed)}$" if i % 2 else piece for i, piece in enumerate(pieces))


def _groups(text: str, transposed: str, escape: Callable[[str], str]) -> Iterator[str]:
    """Words and, in dollars, the runs of mathematical tokens between them."""
    run: list[str] = []
    tokens = _joined(text.split())
    for i, token in enumerate(tokens):
        following = tokens[i + 1] if i + 1 < len(tokens) else ""
        if _is_formula(token) or _is_lone_letter(token, following) or (run and _bridges(token)):
            run.append(token)
            if token[-1] in ",;:." and not (token[-1] == "," and _is_inside(run)):
                yield _set(run, transposed)
                run = []
            continue
        if run:
            yield _set(run, transposed)
            run = []
        yield escape(token)
    if run:
        yield _set(run, transposed)


def _joined(tokens: list[str]) -> list[str]:
    """Tokens with what stands in one bracket of a formula, E(a b) or (1 - u^3), kept together."""
    joined: list[str] = []
    while tokens:
        size = _bracketed(tokens)
        joined.append(" ".join(tokens[:size]))
        tokens = tokens[size:]
    return joined


def _bracketed(tokens: list[str]) -> int:
    """How many of the first tokens belong to one formula in brackets; 1 where there is none."""
    if tokens[0].count("(") <= tokens[0].count(")"):
        return 1
    for size in range(2, len(tokens) + 1):
        text = " ".join(tokens[:size])
        if text.count("(") <= text.count(")"):
            called = tokens[0].split("(", 1)[0]
            inside = text.replace("(", " ").replace(")", " ").replace(",", " ").split()
            all_formula = all(_is_formula(part) or _bridges(part) or part in ("+", "a") for part in inside)
            return size if (called and _is_formula(tokens[0])) or all_formula else 1
    return 1


def _is_inside(run: list[str]) -> bool:
    joined = " ".join(run)
    return joined.count("(") > joined.count(")")


def _is_formula(token: str) -> bool:
    core = token.rstrip(",.;:")
    if core.startswith("("):
        core = core.strip("()")
    if not core or fullmatch(r"\(?\d+[a-e]?\)?(-\(?\d+[a-e]?\)?)?", core) or fullmatch(r"\([a-e]\)[,.;:]?", token):
        return False  # an equation's number or part, or a plain number
    if core.endswith("'s") or fullmatch(r"[A-Za-z]{2,}(-[A-Za-z]+)+", core):
        return False  # a possessive, a hyphenated word
    if _MATHEMATICAL.search(core):
        return True
    if " " in core:
        return True  # joined in one bracket
    return all(
        part.isdigit()
        or part in GREEK
        or part in _LETTERS
        or (part in ("a", "A") and "/" in core)
        or _is_differential(part)
        for part in core.strip("'()-").split("/")
    )


def _is_differential(part: str) -> bool:
    return part.startswith("d") and (part[1:] in GREEK or part[1:] in _LETTERS) and len(part) > 1 and part != "do"


def _is_lone_letter(token: str, following: str) -> bool:
    """Is this ``a``, ``A``, ``I`` or number part of a formula? It is where no noun follows."""
    if token.isdigit() and following in ("-", "+", "<", ">", "<=", ">=", "="):
        return True  # 1 - u^3
    return token.strip("(),.;:") in ("a", "A", "I") and (
        not token[-1].isalpha()
        or not following
        or following[0] in "=<>~/+-*"
        or following in ("of", "is", "and", "in", "with")
    )


def _bridges(token: str) -> bool:
    """Does a token that is no formula by itself continue one: a number, a sign, I or A between formulas?"""
    core = token.rstrip(",.;:")
    return fullmatch(r"-?\d+(\.\d+)?", core) is not None or core in (
        "-",
        "/",
        "|",
        "||",
        "I",
        "A",
        "sum",
        "x",
        "infinity",
        "inf",
    )


def _set(run: list[str], transposed: str) -> str:
    text = " ".join(run)
    body = text.rstrip(",.;:")
    tail = text[len(body) :]
    opened = ""
    if body.startswith("(") and body.endswith(")") and body.count("(") == 1:
        body, opened, tail = body[1:-1], "(", ")" + tail
    formula = " ".join(_PIECE.sub(lambda piece: _piece(piece, body, transposed), body).split())
    return f"{opened}${formula}${tail}"


def _piece(piece: Match, body: str, transposed: str) -> str:
    if (root := piece["root"]) is not None:
        return rf"\sqrt{{{_PIECE.sub(lambda inside: _piece(inside, root, transposed), root)}}}"
    if (name := piece["name"]) is not None:
        called = body[piece.end() : piece.end() + 1] == "("
        primes = f"^{{{transposed}}}" * len(piece["primes"])
        return _name(name, called, bool(primes), body[: piece.start()].rstrip().endswith("~")) + primes
    if (power := piece["power"]) is not None:
        inner = power[1:].strip("()")
        inner = _PIECE.sub(lambda inside: _piece(inside, inner, transposed), inner)
        return f"^{{{inner}{' ' + transposed if piece['powered'] else ''}}}"
    if (operator := piece["operator"]) is not None:
        return _OPERATORS[operator] + (" " if _OPERATORS[operator].startswith("\\") else "")
    if piece["transposed"]:
        return f"^{{{transposed}}}"
    other = piece["number"] or piece["other"] or ""
    return {"%": r"\%", "&": r"\&", "#": r"\#", "{": r"\{", "}": r"\}", "_": r"\_", "^": r"\hat{}"}.get(other, other)


def _name(name: str, called: bool, transposed: bool, follows_law: bool) -> str:
    if called and name in _FUNCTIONS and (name != "N" or follows_law):
        return _FUNCTIONS[name]
    stem, _, index = name.replace("*", "_*").replace("__", "_").partition("_")
    if stem in _WORDS:
        return _WORDS[stem] + (f"_{{{index.strip('{}')}}} " if index else " ")
    if _is_differential(name) or (index and _is_differential(stem)):
        return rf"d{_name(name[1:], called, transposed, follows_law)}"
    if len(stem) > 1 and stem not in GREEK and not index and not stem[-1].isdigit():
        return rf"\text{{{name}}}" if stem not in _FUNCTIONS else _FUNCTIONS[stem] + " "
    bold = stem in (_BOLD_WITH_INDEX if index and index != "hat" else _BOLD) or (
        transposed and stem in _BOLD_TRANSPOSED
    )
    return name_latex(f"{stem}_{index}" if index else stem, bold=bold and name not in _NOT_BOLD)
