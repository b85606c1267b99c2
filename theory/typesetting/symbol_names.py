r"""How a name is typeset: Greek stems, subscripts, hats and stars, for symbols of SymPy and for names that stand in sentences.

>>> name_latex("lambda_{m+1}"), name_latex("w_init"), name_latex("v_*"), name_latex("lambda'")
('\\lambda_{m+1}', 'w_{\\rm init}', 'v_{*}', "\\lambda'")
"""

from re import fullmatch

GREEK = frozenset(
    ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "kappa", "lambda", "mu",
     "nu", "xi", "pi", "rho", "varrho", "sigma", "tau", "phi", "chi", "psi", "omega",
     "Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi", "Sigma", "Phi", "Psi", "Omega"]
)  # fmt: skip
_UPRIGHT = frozenset(["init", "eff", "plateau", "full", "even", "rest", "min", "max", "white", "in", "out", "other", "test", "new"])
_ACCENTS = frozenset(["hat", "bar", "tilde", "dot"])


def name_latex(name: str, *, bold: bool = False) -> str:
    """LaTeX of a name ``stem_sub_...``; a subscript in braces is kept as it is. ``bold`` sets the stem bold."""
    if name.startswith("|") and name.endswith("|"):
        return rf"\|{name_latex(name[1:-1].removesuffix('^2'), bold=True)}^{{2}}\|"
    stem, _, rest = name.partition("_")
    stem, primes = stem.rstrip("'"), "'" * stem.count("'")
    if not rest and (numbered := fullmatch(r"([A-Za-z]+)(\d+)", stem)):
        stem, rest = numbered.groups()
    subscripts = [rest] if rest.startswith("{") else [part for part in rest.split("_") if part]
    accent = subscripts.pop(0) if subscripts and subscripts[0] in _ACCENTS else ""
    letter = rf"\{stem}" if stem in GREEK or stem == "ell" else stem if len(stem) <= 1 or not stem.isalpha() else rf"\mathrm{{{stem}}}"
    letter = rf"\boldsymbol{{{letter}}}" if bold else letter
    letter = rf"\{accent}{{{letter}}}" if accent else letter
    return letter + primes + (f"_{{{','.join(map(_subscript, subscripts))}}}" if subscripts else "")


def _subscript(part: str) -> str:
    if part.startswith("{") and part.endswith("}"):
        return part[1:-1]
    if part in _UPRIGHT:
        return rf"\rm {part}"
    return rf"\{part}" if part in GREEK else part
