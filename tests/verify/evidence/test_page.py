"""The report is one well-formed page without a link to anywhere, and its formulas are MathML."""

import re
import shutil
import subprocess
from html import escape
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from iclflow.theory.equations import equations
from iclflow.theory.typesetting.latex import formula_latex
from iclflow.verify.evidence.check import plan, run
from iclflow.verify.evidence.mathml import mathml
from iclflow.verify.evidence.page import page, write_report

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
        assert tag in EMPTY


@pytest.fixture(scope="module")
def evidence():
    return list(run(plan(["31", "32", "19", "24"])))[-1]


def test_page_is_well_formed_and_self_contained(evidence):
    html = page(evidence, figures=("staircase",))
    reader = Reader()
    reader.feed(html)
    assert reader.open == []
    assert all(link.startswith("data:") for link in reader.links)
    assert len(reader.links) == 3  # the icon, the picture for dark pages, the picture for light ones
    assert "script" not in reader.tags
    assert "math" in reader.tags
    assert not re.search(r"(?:url\(|@import)", html)
    for entry in evidence.entries:
        assert f'<span class="number">{entry.equation}</span>' in html
        for claim in entry.claims:
            assert escape(claim.tolerance_reason) in html


def test_every_statement_of_the_registry_is_mathml():
    """Text is a fallback for formulas to come; today nothing needs it."""
    for entry in equations():
        for part, right in entry.parts.items():
            latex = f"{entry.lefts.get(part, entry.lefts.get('', ''))} = {formula_latex(right)}"
            ElementTree.fromstring(mathml(latex))


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        ("x_q", "<msub><mi>x</mi><mi>q</mi></msub>"),
        ("x_{i,r}^{2}", "<msubsup><mi>x</mi><mrow><mi>i</mi><mo>,</mo><mi>r</mi></mrow><mn>2</mn></msubsup>"),
        (r"\sqrt[3]{a}", "<mroot><mi>a</mi><mn>3</mn></mroot>"),
        (r"\hat{y}", '<mover accent="true"><mi>y</mi><mo stretchy="false">^</mo></mover>'),
        (r"w_{\rm init}", '<msub><mi>w</mi><mrow>' + "".join(f'<mi mathvariant="normal">{c}</mi>' for c in "init") + "</mrow></msub>"),
        (r"\sum_{i=1}^{H}", "<munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>H</mi></munderover>"),
        ("a - 1", "<mi>a</mi><mo>−</mo><mn>1</mn>"),
        ("a < b", "<mi>a</mi><mo>&lt;</mo><mi>b</mi>"),
        (r"\begin{bmatrix}1 & 2\\3 & 4\end{bmatrix}", '<mo fence="true">[</mo><mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>2</mn></mtd></mtr>'
         '<mtr><mtd><mn>3</mn></mtd><mtd><mn>4</mn></mtd></mtr></mtable><mo fence="true">]</mo>'),
    ],
)  # fmt: skip
def test_mathml(latex, expected):
    assert mathml(latex) == f"<math>{expected}</math>"


@pytest.mark.parametrize("latex", [r"\unheardof{x}", r"\frac{1}", "{x", r"\left(x", r"\begin{tikz}x\end{tikz}"])
def test_mathml_refuses_what_it_cannot_set(latex):
    with pytest.raises(ValueError, match=r"MathML|lacks|ends"):
        mathml(latex)


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium, which is no dependency of this package")
def test_a_browser_shows_the_page_without_complaint(evidence, tmp_path):
    path = write_report(evidence, tmp_path)
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
    flags += ["--disable-background-networking", "--disable-component-update", "--enable-logging=stderr", "--v=0"]
    done = subprocess.run(
        [CHROMIUM, *flags, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "CONSOLE" not in done.stderr
    assert "Every statement holds" in done.stdout
    assert done.stdout.count("<math") >= 4
