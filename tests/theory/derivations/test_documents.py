"""The printed equations: every string compiles, by KaTeX and by pdflatex; documents are complete; nothing overflows the page."""

import json
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
from iclflow.theory.algebra.letters import letters, printed_name
from iclflow.theory.algebra.polynomial import TracePolynomial
from iclflow.theory.derivations.derivation import displayed
from iclflow.theory.derivations.documents import export, render
from iclflow.theory.equations import equation, equations
from iclflow.theory.notation import B, D, Lambda, N, symmetric_matrix, x_q
from iclflow.theory.typesetting.latex import formula_latex, formula_text
from iclflow.theory.typesetting.line_breaks import LINE, display, split_sum, width
from iclflow.theory.typesetting.sentences import sentence_latex, sentence_markdown, sentence_text
from iclflow.theory.typesetting.symbol_names import name_latex
from sympy import Inverse, Matrix, Symbol, Trace, log, symbols

ROOT = Path(__file__).parents[3]

KATEX = """
const katex = require('katex');
const strings = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const failures = [];
for (const [where, mode, string] of strings) {
  try { katex.renderToString(string, {displayMode: mode === 'display', throwOnError: true, strict: 'error'}); }
  catch (error) { failures.push([where, error.message, string]); }
}
console.log(JSON.stringify(failures));
"""


@cache
def exported(form: str, transpose: str = "top") -> str:
    """Everything, once for all tests."""
    return export(equations(), form, transpose=transpose)


def need(tool: str, available: bool) -> None:
    """Skip where a tool is absent, but not in CI, which installs it."""
    if not available and os.environ.get("CI"):
        pytest.fail(f"{tool} is not installed, and CI has to install it")
    if not available:
        pytest.skip(f"{tool} is not installed")


def katex_failures(strings):
    available = shutil.which("node") is not None and (ROOT / "node_modules" / "katex").is_dir()
    need("KaTeX (npm install --no-save katex)", available)
    done = subprocess.run(
        ["node", "-e", KATEX], input=json.dumps(strings), capture_output=True, text=True, check=True, cwd=ROOT, timeout=120
    )
    return json.loads(done.stdout)


def markdown_strings(document: str):
    """The displays and the inline formulas of a Markdown document."""
    parts = document.split("$$")
    for i, part in enumerate(parts):
        if i % 2:
            yield f"display {i}", "display", part.strip()
        else:
            for formula in re.findall(r"\$([^$]+)\$", part):
                yield f"inline {i}", "inline", formula


@pytest.mark.parametrize("transpose", ["top", "T"])
def test_every_string_compiles_with_katex(transpose):
    strings = list(markdown_strings(exported("markdown", transpose)))
    for record in json.loads(exported("json", transpose)):
        for part in record["statement"] + record["steps"]:
            strings += [(record["number"], "display", part["latex"]), (record["number"], "display", part["left"])]
    assert len(strings) > 4 * len(equations())
    assert katex_failures(strings) == []


def test_katex_refuses_what_is_wrong():
    assert len(katex_failures([("planted", "display", r"\frac{1}{"), ("planted", "display", r"\nonsense")])) == 2


def pdflatex_log(document: str, folder: Path) -> str:
    """What pdflatex says of a document that it can set."""
    need("pdflatex", shutil.which("pdflatex") is not None)
    (folder / "document.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "document.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=200)
    log = (folder / "document.log").read_text(errors="replace")
    assert done.returncode == 0, log[-3000:]
    return log


@pytest.mark.parametrize("transpose", ["top", "T"])
def test_document_compiles_and_nothing_overflows(transpose, tmp_path):
    log = pdflatex_log(exported("tex", transpose), tmp_path)
    assert re.findall(r"Overfull \\hbox \([\d.]+pt too wide\)", log) == []


def test_fragments_compile_in_a_bare_article(tmp_path):
    _, fragments = exported("tex").split("\\maketitle")
    pdflatex_log(rf"\documentclass{{article}}\usepackage{{amsmath,amssymb}}\begin{{document}}{fragments}", tmp_path)
    assert render(equation("31"), "latex") in fragments


def test_documents_hold_every_equation_once_in_order():
    document = exported("tex")
    for entry in equations():
        assert document.count(rf"\subsection*{{({entry.number}) ") == 1
    records = json.loads(exported("json"))
    assert [record["number"] for record in records] == [entry.number for entry in equations()]
    assert all(record["steps"] or record["kind"] == "definition" for record in records)
    assert all(record["text"] for entry in records for record in entry["steps"])


def test_everything_exported_has_letters():
    exported("json")
    for entry in equations():
        stated = entry.letters
        assert {printed_name(symbol) for symbol in stated.symbols} == set(stated)
        if entry.derivation is not None:
            derived = entry.derive()
            assert set(derived.letters) >= set(letters(derived.result))


def test_export_of_some_equations_leaves_out_the_others():
    document = export([equation("31")], "tex")
    assert r"\tag{31" in document
    assert document.count(r"\subsection") == 1


def test_transpose_option_reaches_every_part():
    for form in ("tex", "markdown", "json"):
        assert r"\top" not in exported(form, "T")
    assert formula_latex(B.T * Lambda, transpose="T") == r"\boldsymbol{B}^{T} \boldsymbol{\Lambda}"


@pytest.mark.parametrize("form", ["text", "latex", "markdown"])
def test_render_one_equation(form):
    shown = render(equation("31"), form)
    assert "(31" in shown
    assert equation("31").title in shown


def test_bad_options_are_refused():
    with pytest.raises(ValueError, match="format"):
        export(equations(), "pdf")
    with pytest.raises(ValueError, match="transpose"):
        export(equations(), "tex", transpose="t")
    with pytest.raises(ValueError, match="at least one"):
        export([], "tex")
    with pytest.raises(ValueError, match="format"):
        render(equation("31"), "tex")
    with pytest.raises(ValueError, match="transpose"):
        formula_latex(Lambda, transpose=r"\top")


def shown_lines(left: str, right: str) -> list[str]:
    """The lines of a display without what aligns them."""
    _, *lines, _ = display(left, right).splitlines()
    return [line.removesuffix(r" \\").removeprefix("& ").removeprefix(r"\quad ") for line in lines]


def test_long_formulas_are_broken_at_signs_and_inside_brackets():
    terms = " + ".join(f"a_{{{i}}} b_{{{i}}}" for i in range(60))
    lines = shown_lines("", terms)
    assert len(lines) > 3
    assert all(width(line) <= LINE for line in lines)
    assert " ".join(lines) == terms
    assert " ".join(shown_lines(terms, "x")) == f"{terms} = x"
    inside = shown_lines("x", rf"\frac{{1}}{{N}} \left({terms}\right) c")
    assert all(width(line) <= LINE for line in inside)
    assert inside[0].startswith(r"x = \frac{1}{N} \Bigl(")
    assert inside[-1].endswith(r"\Bigr) c")
    assert r"\left" not in "".join(inside)
    shown = display("x", terms, tag="9")
    assert shown.startswith("\\begin{align*}\n& x = a")
    assert shown.endswith(" \\tag{9}\n\\end{align*}")
    assert display("x", terms, tag="9", environment=False).endswith("\n\\end{aligned} \\tag{9}")


def test_brackets_are_opened_only_as_deep_as_that_makes_lines_fit():
    product = rf"\left({' + '.join('abcdefghijklm')}\right)"
    lines = shown_lines("", rf"\operatorname{{tr}}\left({product} {product} {product}\right) + \left(x + y\right)")
    assert all(width(line) <= LINE for line in lines)
    assert "".join(lines).count(r"\Bigl(") == "".join(lines).count(r"\Bigr)") == 4
    assert r"+ \left(x + y\right)" in lines[-1]
    wide = r"\begin{matrix}" + " & ".join(f"a_{{{i}}} + b_{{{i}}}" for i in range(30)) + r"\end{matrix}"
    assert shown_lines("x", wide) == ["x =", wide]


def test_a_sum_is_split_only_at_its_outermost_signs():
    assert split_sum(r"a^{-1} + \left(b + c\right) - \begin{matrix}d + e\end{matrix}") == [
        "a^{-1}",
        r"+ \left(b + c\right)",
        r"- \begin{matrix}d + e\end{matrix}",
    ]


@pytest.mark.parametrize(
    ("sentence", "text"),
    [
        ("Stein's lemma, applied twice (31)", "Stein's lemma, applied twice (31)"),
        (r"$\boldsymbol{k}^{\top} \boldsymbol{\Lambda}^{2} \boldsymbol{q}$ is 0", "k' Lambda^2 q is 0"),
        (r"the reciprocal of $u^{2} (1 - u^{3})$", "the reciprocal of u^2 (1 - u^3)"),
        (r"$\hat{\boldsymbol{\Lambda}}^{2} \ge \tfrac1N \boldsymbol{I}$", "Lambda_hat^2 >= 1/N I"),
        (r"$\sum_{d \le m} \lambda_d / a_{m+1} \to \infty$", "sum_(d <= m) lambda_d/a_(m+1) -> infinity"),
        (r"$\mathbb{E}(y_q\boldsymbol{z}) \ne \sqrt{D}$", "E(y_qz) != sqrt(D)"),
    ],
)
def test_sentences(sentence, text):
    """In a terminal a formula is text; in LaTeX and Markdown it stays as it is."""
    assert sentence_text(sentence) == text
    assert sentence_latex(sentence) == sentence_markdown(sentence) == sentence


def test_mathematics_stands_between_dollars():
    for entry in equations():
        rules = [step.rule for step in entry.derive().steps] if entry.derivation else []
        for sentence in (entry.title, entry.erratum or "", *(condition.text for condition in entry.conditions), *rules):
            outside = "".join(sentence.split("$")[::2])
            assert sentence.count("$") % 2 == 0, (entry.number, sentence)
            assert not re.search(r"[_^<>|~\\]|(?<![-a-z(])=", outside), (entry.number, sentence)


def test_a_transpose_may_be_written_with_a_letter():
    assert sentence_latex(r"$\boldsymbol{k}^{\top}$", transpose="T") == r"$\boldsymbol{k}^{T}$"


def test_percent_signs_are_escaped_for_latex_only():
    assert sentence_latex("10 % of it") == r"10 \% of it"
    assert sentence_markdown("10 % of it") == "10 % of it"


def test_a_wide_matrix_is_given_entry_by_entry():
    entries = symbols("a:30")
    wide = Matrix([[sum(entries), 0], [1, 2]])
    shown = displayed("F", wide, tag="9")
    assert [one.count(r"\tag{9}") for one in shown] == [0, 0, 0, 1]
    assert r"\left[F\right]_{21} = 1" in shown[2]
    assert len(displayed("F", Matrix([[1, 0], [1, 2]]))) == 1


def test_a_fraction_wider_than_the_page_is_a_product():
    a, b = (sum(symbols(f"{letter}:40")) for letter in "ab")
    lines = shown_lines("x", formula_latex(-N * a / b))
    assert all(width(line) <= LINE for line in lines)
    assert lines[0].startswith(r"x = - N \Bigl(a_{0} + ")
    assert lines[-1].endswith(r"b_{9}\Bigr)^{-1}")
    assert formula_latex(a / Symbol("N")).startswith(r"\frac{1}{N} \left(a_{0} + ")
    assert formula_latex(Symbol("x") / Symbol("N")) == r"\frac{x}{N}"


def test_width_counts_letters():
    assert width(r"\boldsymbol{\Lambda}^{2} + \left(a - b\right)") == 10
    assert width(r"\frac{a b c d}{\frac{e}{f g}} h") == 8
    assert width(r"\left[\begin{matrix}a & b & c\\d & e & f\end{matrix}\right]") == 4


def test_a_primed_letter_stays_greek():
    assert name_latex("lambda'") == r"\lambda'"
    assert name_latex("x''_q", bold=True) == r"\boldsymbol{x}''_{q}"


def test_a_name_in_a_tag_is_text():
    assert display("x", "y", tag="4, g_1") == "\\begin{equation*}\nx = y \\tag{4, g\\_1}\n\\end{equation*}"


def test_a_letter_with_a_superscript_is_squared_in_brackets():
    root = symmetric_matrix("root", D, latex=r"\boldsymbol{\Lambda}^{1/2}")
    expected = r"\left(\boldsymbol{\Lambda}^{1/2}\right)^{2}"
    assert formula_latex(TracePolynomial(root**2)) == formula_latex(root**2) == expected
    assert formula_latex(TracePolynomial(Trace(root) ** 2)).endswith(r"\right)^{2}")
    assert formula_latex(Inverse(root)) == r"\left(\boldsymbol{\Lambda}^{1/2}\right)^{-1}"
    assert formula_latex(Inverse(Lambda)) == r"\boldsymbol{\Lambda}^{-1}"


def test_a_fraction_stands_before_a_logarithm_and_a_scalar_has_no_trace():
    x, gamma = Symbol("x", positive=True), Symbol("gamma", positive=True)
    assert formula_latex(N * log(x) / (2 * gamma)).startswith(r"\frac{N}{2 \gamma} \ln")
    assert formula_latex(N * log(x)).startswith(r"N \ln")
    assert formula_latex(Trace(x_q.T * Lambda * x_q)) == r"\boldsymbol{x}_{q}^{\top} \boldsymbol{\Lambda} \boldsymbol{x}_{q}"
    both = formula_latex(Trace(x_q.T * x_q + x_q.T * Lambda * x_q) * N)
    assert r"\left(" in both
    assert "operatorname" not in both


def test_text_of_collections():
    assert formula_text({"a": N, "b": Lambda**2}) == "a: N; b: Lambda^2"
    assert formula_latex((N, Lambda**2)) == r"N,\quad \boldsymbol{\Lambda}^{2}"
