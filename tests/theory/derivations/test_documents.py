"""The printed equations: every string compiles, by KaTeX and by pdflatex; documents are complete; nothing overflows the page."""

import json
import re
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from iclflow.theory.algebra.letters import letters, printed_name
from iclflow.theory.algebra.polynomial import TracePolynomial
from iclflow.theory.derivations.derivation import Derivation, rows
from iclflow.theory.derivations.documents import export, render
from iclflow.theory.derivations.lines import Line
from iclflow.theory.equations import equation, equations
from iclflow.theory.notation import B, D, Lambda, N, matrix, vector
from iclflow.theory.typesetting.latex import formula_latex
from iclflow.theory.typesetting.sentences import sentence_latex
from sympy import Matrix, Symbol, Trace, sqrt, symbols

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
def exported(form: str) -> str:
    """Everything, once for all tests."""
    return export(equations(), form)


def katex_failures(strings):
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


@pytest.mark.slow
@pytest.mark.needs("KaTeX")
def test_every_string_compiles_with_katex():
    strings = list(markdown_strings(exported("markdown")))
    for record in json.loads(exported("json")):
        for part in record["statement"] + record["steps"]:
            strings += [(record["number"], "display", part["latex"]), (record["number"], "display", part["left"])]
    assert len(strings) > 4 * len(equations())
    assert katex_failures(strings) == []


@pytest.mark.needs("KaTeX")
def test_katex_refuses_what_is_wrong():
    assert len(katex_failures([("planted", "display", r"\frac{1}{"), ("planted", "display", r"\nonsense")])) == 2


def pdflatex_log(document: str, folder: Path) -> str:
    """What pdflatex says of a document that it can set."""
    (folder / "document.tex").write_text(document, encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "document.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=200)
    log = (folder / "document.log").read_text(errors="replace")
    assert done.returncode == 0, log[-3000:]
    return log


@pytest.mark.needs("pdflatex")
def test_document_compiles_and_nothing_overflows(tmp_path):
    log = pdflatex_log(exported("tex"), tmp_path)
    assert re.findall(r"Overfull \\hbox \([\d.]+pt too wide\)", log) == []


@pytest.mark.slow
@pytest.mark.needs("pdflatex")
def test_fragments_compile_in_a_bare_article(tmp_path):
    full = "".join(equation(number).derive(full=True).latex() for number in ("24", "15", "V3-unseen"))
    fragments = "".join(render(entry, "latex") for entry in equations())
    whole = rf"\documentclass{{article}}\usepackage{{amsmath,amssymb}}\begin{{document}}{full}{fragments}\end{{document}}"
    pdflatex_log(whole, tmp_path)
    unlinked = re.sub(r"\\hyperref\[[^]]*\]\{(\([^)]*\))\}", r"\1", exported("tex"))
    assert all(render(entry, "latex") in unlinked for entry in equations()[::20])


@pytest.mark.needs("pdflatex")
def test_letters_of_any_legal_name_compile(tmp_path):
    names = "WK Wq W1 W_ A__ W__2 Q_K_ W_i_j a_b_c lambda1 lambdaq Lambdahat Lambda_hat_2 x_hat_hat hbar ss omicron Aprime Wbm alpha_beta"
    formulas = []
    for name in [*names.split(), "W^V", "W_i^V", "W_{ij}", "W'", "v_*"]:
        A, u, c = matrix(name, D), vector(name, D), Symbol(name, positive=True)
        plain = [A**2, A.T, A.I, A.T * A, (A.T) ** 2, u.T * A * u, Trace(A) ** 2]
        formulas += [*plain, *map(TracePolynomial, plain), c**2, 1 / c, sqrt(c), c**2 * A]
    raised = matrix("W", D, latex=r"\boldsymbol{W}^V")
    formulas += [TracePolynomial(raised.T * raised**2 * raised.T), TracePolynomial(raised.I.T), raised.T * raised]
    shown = "\n".join(rf"\[ {formula_latex(formula)} \]" for formula in formulas)
    pdflatex_log(rf"\documentclass{{article}}\usepackage{{amsmath,amssymb}}\begin{{document}}{shown}\end{{document}}", tmp_path)


def test_every_link_leads_to_an_equation_of_the_document():
    tex, markdown = exported("tex"), exported("markdown")
    for links, places in (
        (re.findall(r"\\hyperref\[([^]]*)\]", tex), re.findall(r"\\label\{([^}]*)\}", tex)),
        (re.findall(r"\]\(#eq-([^)]*)\)", markdown), re.findall(r'<a id="eq-([^"]*)">', markdown)),
    ):
        assert len(places) == len(set(places)) == len(equations())
        assert set(links) <= set(places)
        assert len(links) > 400


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


@pytest.mark.parametrize("form", ["text", "latex", "markdown"])
def test_render_one_equation(form):
    shown = render(equation("31"), form)
    assert "(31" in shown
    assert equation("31").title in shown


def test_bad_options_are_refused():
    with pytest.raises(ValueError, match="format"):
        export(equations(), "pdf")
    with pytest.raises(ValueError, match="at least one"):
        export([], "tex")
    with pytest.raises(ValueError, match="format"):
        render(equation("31"), "tex")


def test_mathematics_stands_between_dollars():
    for entry in equations():
        rules = [line.reason for line in entry.derive().lines] if entry.derivation else []
        for sentence in (entry.title, entry.erratum or "", *(condition.text for condition in entry.conditions), *entry.notes, *rules):
            outside = "".join(sentence.split("$")[::2])
            assert sentence.count("$") % 2 == 0, (entry.number, sentence)
            assert not re.search(r"[_^<>|~\\]|(?<![-a-z(])=", outside), (entry.number, sentence)


def test_a_wide_matrix_is_given_entry_by_entry():
    entries = symbols("a:30")
    wide = Matrix([[sum(entries), 0], [1, 2]])
    shown = rows("F", "=", wide, tag="9")
    assert [row.tag for row in shown] == ["", "", "", "9"]
    assert (shown[2].left, shown[2].right) == (r"\left[F\right]_{21}", "1")
    assert [row.left for row in rows(wide, "=", wide)] == [row.right for row in rows(wide, "=", wide)]
    assert len(rows("F", "=", Matrix([[1, 0], [1, 2]]))) == 1


def test_text_has_one_style_and_a_derivation_is_one_display():
    for entry in equations():
        for line in str(entry).splitlines():
            assert not line.startswith("     ") or not re.search(r"\*\*|[a-z]\*[a-z]|Matrix\(|[\\{}]", line), (entry.number, line)
        if entry.derivation is not None:
            latex = entry.derive().latex()
            assert latex.count(r"\begin{align*}") == 1, entry.number
            assert all(sentence_latex(line.reason.rstrip(" .:"))[1:] in latex for line in entry.derive().lines), entry.number


def test_a_line_that_continues_the_one_before_leaves_its_left_side_out():
    lines = Derivation.by(
        Line(B, ":=", Lambda, "Named"), Line(Lambda, "=", Lambda.T, "Symmetric"), Line(Lambda, "!=", B * N, "Other")
    ).under(())
    assert str(lines).splitlines()[1::2] == ["     B  := Lambda", "        =  Lambda", "        != N B"]
    assert lines.latex().splitlines()[3:-2] == [
        r"\boldsymbol{B} & := \boldsymbol{\Lambda} \\",
        r"\intertext{Symmetric:}",
        r"{} & = \boldsymbol{\Lambda} \\",
        r"\intertext{Other:}",
        r"{} & \ne N \boldsymbol{B}",
    ]
    apart = Derivation.by(Line(B, "!=", Lambda, "Unlike"), Line(Lambda, "=", Lambda.T, "Symmetric"))
    assert str(apart).splitlines()[3] == "     Lambda  =  Lambda"  # after an inequality nothing is left out


def test_limits_say_what_they_leave_out():
    limit = Derivation.by(Line(1 + 1 / N, "->", 1, "A long context", parameter=N, order=1))
    assert str(limit).endswith("1 + 1/N  -> 1   (N -> infinity, O(N^-1))")
    assert r"\to 1 \quad (N \to \infty, O(N^{-1}))" in limit.latex()
    small = Derivation.by(Line(1 + D, "~", 1, "A small size", parameter=(D, 0), order=1))
    assert "(D -> 0, O(D))" in str(small)
    bounded = Derivation.by(Line(1 + 1 / D, "~", 1 / D, "A small size", parameter=(D, 0), order=0))
    assert "(D -> 0, O(1))" in str(bounded)


@pytest.mark.parametrize("form", ["text", "latex", "markdown"])
def test_a_judged_derivation_shows_the_verdict_on_each_line_but_definitions(form):
    lines = equation("24").derive().lines
    plain, judged = (render(equation("24"), form, judged=judged) for judged in (False, True))
    verdicts = [line.verify().status for line in lines if line.relation != ":="]
    assert re.findall(r"\[(exact|numeric|sampled|fails)\]", judged) == verdicts
    assert re.sub(r" \[(exact|numeric|sampled)\]", "", judged) == plain


def test_a_judged_derivation_shows_a_line_that_fails():
    derivation = equation("31").derive()
    wrong = Derivation(tuple(replace(line, right=line.left * 2) if line.part == "first" else line for line in derivation.lines))
    assert str(wrong.judged()).count("[fails]") == 1


def test_conditions_of_single_lines_are_shown():
    shown = [line for line in str(equation("T1e")).splitlines() if line.startswith("Condition")]
    assert shown[-2:] == ["Condition: R H >= D (line 5)", "Condition: R H < D (line 7)"]
