"""The evidence as one self-contained page, without network or script."""

import base64
import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from xml.etree.ElementTree import fromstring

from latex2mathml.converter import convert

from ...theory.derivations.registry import Equation
from ...theory.typesetting.latex import formula_latex
from ..claims.book import Claim
from ..figures.gallery import rendered
from ..figures.style import DARK, LIGHT
from ..files import beside, write_atomically
from .check import ConditionVerdict, Entry, Evidence
from .map import graph, statuses, svg
from .table import TRAINING

# LaTeX that the converter does not know or sets badly, and its replacement.
REWRITTEN = {"{aligned}": "{split}", r"\operatorname": r"\,\mathrm", r"\lim_": r"\lim\limits_", r"\_": "_", ":=": r"\coloneqq "}
FIGURES = {"staircase": "Theory, gradient flow and trained attention from one start"}
PACKAGES = ("numpy", "scipy", "sympy", "mpmath", "torch", "matplotlib")


def write_report(evidence: Evidence, folder: Path) -> Path:
    """Write ``index.html`` into the folder, or ``index.partial.html``; completely or not at all. Returns its path."""
    path = beside(folder / "index.html", evidence.complete)
    write_atomically(path, page(evidence))
    return path


def page(evidence: Evidence, figures: Iterable[str] | None = None) -> str:
    """The HTML of the whole report."""
    names = list(FIGURES) if figures is None else list(figures)
    summary = evidence.summary
    state = "fails" if summary["fails"] else "holds"
    headline = f"{summary['fails']} of {sum(summary.values())} fail" if summary["fails"] else "Every statement holds"
    partial = ""
    if not evidence.complete:
        headline = f"Interrupted: {len(evidence.entries)} of {evidence.planned} equations were checked"
        partial = f'<p class="partial">Of their {sum(summary.values())} proofs and claims {summary["holds"]} hold.</p>'
    proofs = sum(entry.proof.status == "holds" for entry in evidence.entries)
    claims = [claim for entry in evidence.entries for claim in entry.claims]
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>iclflow check: {escape(headline)}</title>
<link rel="icon" href="data:,">
<style>
{files("iclflow.verify.evidence").joinpath("page.css").read_text(encoding="utf-8")}</style>
</head>
<body>
<header>
<p class="eyebrow">iclflow {escape(evidence.version)} &middot; check</p>
<h1 class="{state}">{escape(headline)}</h1>
<p class="lead">Training dynamics of in-context learning in linear attention: {proofs} derivations and
{sum(claim.status == "holds" for claim in claims)} numerical claims hold, {summary["fails"]} fail.</p>
{partial}
</header>
<main>
{"".join(_figure(name) for name in names)}
<section>
<h2>Equations</h2>
<p class="note">A derivation holds if each of its lines does and its result is what the paper prints; its kind says in which sense. Open a
row for that, for its conditions, and for its claims: what was measured, by which independent route, and the reason for the tolerance.</p>
<div class="rows">
<div class="row head" aria-hidden="true"><span>eq.</span><span>statement</span><span>derivation</span><span>numbers</span>
<span>training</span></div>
{"".join(_row(entry) for entry in evidence.entries)}
</div>
</section>
<section>
<h2>Map of the derivations</h2>
<p class="note">An arrow leads from an equation to one that it uses. Colours are verdicts: that of the weakest line. Point at an equation to
see all that it rests on; click on it for its row.</p>
<div class="map">{_map(evidence)}</div>
</section>
<section>
<h2>Environment</h2>
<dl class="environment">
{"".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in _environment(evidence))}
</dl>
</section>
</main>
</body>
</html>
"""


def _environment(evidence: Evidence) -> list[tuple[str, str]]:
    def installed(name: str) -> str:
        try:
            return version(name)
        except PackageNotFoundError:
            return "not installed"

    return [
        ("made", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("duration", f"{evidence.seconds:.0f} s"),
        ("python", platform.python_version()),
        ("system", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"),
        *((name, installed(name)) for name in PACKAGES),
        ("seed", str(evidence.seed)),
    ]


def _map(evidence: Evidence) -> str:
    """What was checked and what it rests on."""
    judged = [entry.equation for entry in evidence.entries]
    return svg(graph(statuses(evidence.to_json()), judged), links=lambda number: f"#eq-{number}" * (number in judged))


def _figure(name: str) -> str:
    """The picture for light and for dark pages, and its caption."""
    light, caption = rendered(name, ".svg", LIGHT)
    dark, _ = rendered(name, ".svg", DARK)

    def data(content: bytes) -> str:
        return "data:image/svg+xml;base64," + base64.b64encode(content).decode()

    return f"""<section>
<figure>
<picture><source media="(prefers-color-scheme: dark)" srcset="{data(dark)}">
<img src="{data(light)}" alt="{escape(FIGURES.get(name, name))}"></picture>
<figcaption>{"<br>".join(escape(line) for line in caption.splitlines())}</figcaption>
</figure>
</section>
"""


def _row(entry: Entry) -> str:
    numbers = [claim for claim in entry.claims if claim.method not in TRAINING]
    trained = [claim for claim in entry.claims if claim.method in TRAINING]
    failing = entry.proof.status == "fails" or any(claim.status == "fails" for claim in entry.claims)
    cells = [
        _cell("derivation", entry.proof.status, entry.kind if entry.proof.status == "holds" else f"{entry.kind} fails"),
        _verdict("numbers", numbers),
        _verdict("training", trained),
    ]
    return f"""<details class="entry" id="eq-{escape(entry.equation)}"{" open" if failing else ""}>
<summary class="row"><span class="number">{escape(entry.equation)}</span>
<span class="title">{escape(entry.title)}</span>{"".join(cells)}</summary>
<div class="body">
{_statement(entry)}{"".join(_claim(claim) for claim in entry.claims)}
</div>
</details>
"""


def _cell(column: str, status: str, text: str) -> str:
    if status == "none":
        return f'<span class="cell none" data-column="{column}"><span aria-label="none">&ndash;</span></span>'
    mark = "&#10003;" if status == "holds" else "&#10007;"
    return f'<span class="cell {status}" data-column="{column}">{mark}&nbsp;{escape(text)}</span>'


def _verdict(column: str, claims: list[Claim]) -> str:
    if not claims:
        return _cell(column, "none", "")
    failing = sum(claim.status == "fails" for claim in claims)
    if failing:
        return _cell(column, "fails", f"{failing} of {len(claims)} fail")
    return _cell(column, "holds", str(len(claims)))


def _statement(entry: Entry) -> str:
    if entry.source is None:
        return ""
    pieces = [formula(left, right) for left, right in _sides(entry.source)]
    pieces.append(f'<p class="where">{sentence(f"{entry.source.section} · {entry.sense or entry.kind}")}</p>')
    pieces += map(_condition, entry.proof.conditions or [ConditionVerdict(str(one), None) for one in entry.source.conditions])
    pieces += [f'<p class="where">{sentence(one)}</p>' for one in entry.source.notes]
    if entry.source.erratum:
        pieces.append(f'<p class="erratum"><strong>Remark.</strong> {sentence(entry.source.erratum)}</p>')
    if entry.proof.error:
        pieces.append(f'<p class="error">{escape(entry.proof.error)}</p>')
    return "".join(pieces)


def _condition(condition: ConditionVerdict) -> str:
    verdict = {True: f" (needed, at {condition.point})", False: " (not known to be needed)", None: ""}[condition.needed]
    return f'<p class="where">{sentence(condition.text)}{escape(verdict)}</p>'


def _sides(source: Equation) -> Iterable[tuple[str, object]]:
    for part, right in source.parts.items():
        yield source.lefts.get(part, source.lefts.get("", "")), right


def sentence(text: str) -> str:
    """A sentence with its formulas."""
    pieces = text.split("$")
    return "".join(mathml(piece) if i % 2 else escape(piece) for i, piece in enumerate(pieces))


def formula(left: str, right: object) -> str:
    """A displayed formula."""
    latex = " = ".join(filter(None, [left, formula_latex(right)]))
    return f'<div class="formula">{mathml(latex, display=True)}</div>'


def mathml(latex: str, *, display: bool = False) -> str:
    r"""LaTeX without dollar signs as MathML, which browsers set without scripts or fonts from the network.

    ValueError for a command or an environment that has no MathML, and for half a formula.

    >>> mathml(r"\alpha x")
    '<math xmlns="http://www.w3.org/1998/Math/MathML" display="inline"><mrow><mi>&#x003B1;</mi><mi>x</mi></mrow></math>'
    """
    for written, known in REWRITTEN.items():
        latex = latex.replace(written, known)
    converted = convert(latex, display="block" if display else "inline")
    # The converter passes on unknown commands, and drops unknown environments, missing braces and halves of fractions.
    root, braces = fromstring(converted), latex.replace(r"\{", "").replace(r"\}", "")
    if (
        "\\" in converted
        or latex.count(r"\begin") != len(root.findall(".//{*}mtable"))
        or any(len(fraction) != 2 for fraction in root.iterfind(".//{*}mfrac"))
        or braces.count("{") != braces.count("}")
    ):
        raise ValueError(f"no MathML for {latex}")
    return converted


def _claim(claim: Claim) -> str:
    measured = "no number" if claim.residual is None else f"{claim.residual:.2g}"
    relation = "&le;" if claim.status == "holds" else "&gt;"
    error = f'<p class="error">{escape(claim.error)}</p>' if claim.error else ""
    return f"""<article class="claim {claim.status}">
<h3>{escape(claim.name[0].upper() + claim.name[1:])}</h3>
<p class="numbers"><span class="method">{escape(claim.method)}</span>
<span>residual <b>{measured}</b> {relation} {claim.tolerance:.2g}</span><span>{claim.seconds:.2g} s</span></p>
{error}<p class="reason">{escape(claim.tolerance_reason)}</p>
</article>
"""
