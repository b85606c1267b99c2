"""The report is one well-formed page without a link to anywhere, and its formulas are MathML."""

import re
import subprocess
from collections import Counter
from html import escape
from html.parser import HTMLParser
from unicodedata import normalize
from xml.etree import ElementTree

import pytest
from iclflow.theory.derivations.derivation import side_latex
from iclflow.theory.equations import equations
from iclflow.theory.typesetting.symbol_names import GREEK
from iclflow.verify.evidence.check import plan
from iclflow.verify.evidence.page import mathml, page, sentence, write_report
from iclflow.verify.evidence.run import run
from latex2mathml.exceptions import ExtraLeftOrMissingRightError

EMPTY = {"meta", "link", "img", "source", "br", "mspace"}


class Reader(HTMLParser):
    """Checks that elements nest, and collects what they refer to."""

    def __init__(self):
        super().__init__()
        self.open, self.links, self.tags = [], [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("href", "src", "srcset")]
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attributes):
        assert tag in EMPTY | {"path", "rect"}


@pytest.fixture(scope="module")
def evidence():
    return list(run(plan(["31", "32", "19", "24"])))[-1]


def test_page_is_well_formed_and_self_contained(evidence):
    html = page(evidence, figures=("staircase",))
    reader = Reader()
    reader.feed(html)
    assert reader.open == []
    rows = {f"#eq-{entry.equation}" for entry in evidence.entries}
    assert {link for link in reader.links if not link.startswith("data:")} == rows  # those of the map
    assert len(reader.links) == 3 + len(rows)  # the icon, the picture for dark pages, the picture for light ones
    assert all(f'id="{link[1:]}"' in html for link in rows)
    assert html.count('<g id="n') > len(rows)  # and what they rest on
    assert "script" not in reader.tags
    assert "math" in reader.tags
    assert not re.search(r"(?:url\((?!#)|@import)", html)
    for entry in evidence.entries:
        assert f'<span class="number">{entry.equation}</span>' in html
        for claim in entry.claims:
            assert escape(claim.tolerance_reason) in html


def characters(text: str) -> Counter:
    """The Latin letters and digits of a text, and a lambda for each Greek letter, however they are set."""
    shown = [c if c.isascii() else "λ" for c in normalize("NFKC", text) if c.isalnum()]
    return Counter(shown)


def plain(latex: str) -> str:
    """What a formula shows: words stay, each Greek letter is a lambda, other commands show none."""
    latex = re.sub(r"\\\\|\\(?:begin|end)\{\w+\}", " ", latex).replace(r"\ell", "l")
    latex = re.sub(r"\\(ln|log|lim|det|dim|min|max|tan|tanh|cosh|arctan)(?![a-z])", r"\1", latex)
    latex = re.sub(rf"\\(?:var)?(?:{'|'.join(GREEK)})(?![a-z])", "λ", latex)
    return re.sub(r"\\[A-Za-z]+", " ", latex)


CHILDREN = {"mfrac": 2, "mroot": 2, "msub": 2, "msup": 2, "munder": 2, "mover": 2, "msubsup": 3, "munderover": 3}


@pytest.mark.slow
def test_every_formula_of_the_registry_is_mathml_and_loses_no_letter():
    count = 0
    for entry in equations():
        sides = [(entry.lefts.get(part, entry.lefts.get("", "")), right) for part, right in entry.parts.items()]
        sides += [(side_latex(line.left), line.right) for line in entry.derive().lines] if entry.derivation else []
        for left, right in sides:
            latex = f"{left} = {side_latex(right)}"
            root = ElementTree.fromstring(mathml(latex, display=True))
            assert characters("".join(root.itertext())) == characters(plain(latex)), latex
            for element in root.iter():
                kind = element.tag.rpartition("}")[2]
                assert len(element) == CHILDREN.get(kind, len(element)), latex
            count += 1
    assert count > 1000


def test_every_formula_in_a_sentence_of_the_registry_is_mathml():
    sentences = [text for entry in equations() for text in (*map(str, entry.conditions), *entry.notes, entry.erratum or "")]
    assert sum("<math" in sentence(text) for text in sentences) > 100
    assert not any("$" in sentence(text) for text in sentences)
    assert sentence(r"small & $\alpha < 1$").startswith("small &amp; <math")


def test_the_comparison_of_letters_finds_what_is_lost():
    assert characters(plain(r"\mathbb{E}\operatorname{tr}\boldsymbol{\Lambda}_1")) == characters("E tr λ1")
    assert characters(plain(r"\lambda x")) != characters("x")


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        (r"\operatorname{tr}", '<mspace width="0.167em" /><mrow><mi mathvariant="normal">t</mi>'),
        (r"\lim_{N \to \infty} x", "<munder><mo>lim</mo>"),
        (r"\begin{aligned}a &= b \\ c &= d\end{aligned}", "<mtable "),
        (r"\boldsymbol{B}", '<mi mathvariant="bold-italic">B</mi>'),
        ("a < b", "<mo>&#x0003C;</mo>"),
    ],
)
def test_mathml(latex, expected):
    assert expected in mathml(latex)
    ElementTree.fromstring(mathml(latex))


@pytest.mark.parametrize("latex", [r"\unheardof{x}", r"\frac{1}", "{x", r"\left(x", r"\begin{tikz}x\end{tikz}"])
def test_mathml_refuses_what_it_cannot_set(latex):
    with pytest.raises((ValueError, ExtraLeftOrMissingRightError)):
        mathml(latex)


@pytest.mark.needs("Chromium")
def test_a_browser_shows_the_page_without_complaint(evidence, tmp_path, chromium):
    path = write_report(evidence, tmp_path)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
    flags += ["--disable-background-networking", "--disable-component-update", "--enable-logging=stderr", "--v=0"]
    done = subprocess.run(
        [chromium, *flags, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "CONSOLE" not in done.stderr
    assert "Every statement holds" in done.stdout
    assert done.stdout.count("<math") >= 4
