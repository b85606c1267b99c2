r"""Proofs in LaTeX, as authors write them: displays, commands with and without braces, declarations in comments."""

import pytest
from iclflow.theory.algebra.syntax import Unreadable
from iclflow.theory.proofs.judging import judged
from iclflow.theory.proofs.latex_documents import displays
from iclflow.theory.proofs.latex_tokens import latex_tokens


def verdicts(tmp_path, text, name="proof.tex"):
    path = tmp_path / name
    path.write_text(text)
    return judged(path)


PAPER = r"""
\documentclass{article}
% let \mathbf{K}: D x R; \mathbf{A}: symmetric; \mathbf{W}: sample covariance of n with \boldsymbol{\Sigma}; c: scalar
% let \mathbf{u}: vector; b: positive; \mathbf{W}_i^V: D x D
% an other comment = 3
\begin{document}
Text with $x = 3$ and \begin{verbatim} \[ 1 = 2 \] \end{verbatim}.
\begin{equation}\label{eq:1}
  \mathbb{E}[\hat\Lambda^2] = \Lambda^2 + \tfrac1N \left(\Lambda^2 + \operatorname{tr}(\Lambda)\,\Lambda\right) .
\end{equation}
\begin{align*}
  \mathbf{M} &:= \mathbb E\bigl[\hat{\boldsymbol\Lambda}^2\bigr], \\
  \nabla_{\mathbf B}\, \mathbb{E}\left[(y_q - \boldsymbol\beta^\top \mathbf B \mathbf x_q)^2\right]
   &= -2 \left(\boldsymbol\Lambda^2 - \mathbf M\mathbf B\boldsymbol\Lambda\right) \nonumber\\
   &= -2 \boldsymbol\Lambda^2 \\
   &\quad + 2 \mathbf B\mathbf M\boldsymbol\Lambda \tag{3}
\end{align*}
\[ \frac{\partial}{\partial \mathbf K} \mathrm{tr}(\mathbf K^{\mathsf T}\mathbf A\mathbf K) = 2\mathbf{AK} \]
$$ \frac{1}{N}\mathbb{E}\sum_{n=1}^N x_n x_n^T = \Lambda $$
\[ \mathbb{E}\left[\mathbf W^{-1}\right] = \frac{n}{n-D-1}\boldsymbol\Sigma^{-1}, \quad n > D+1 \]
\begin{gather}
 \|\mathbf u\|^2 = \mathbf u'\mathbf u \\
 \|\mathbf K\|_F^2 = \mathrm{Tr}\, \mathbf K^\top\mathbf K \\
 \frac{b}{1+b/N} \to b \quad (N\to\infty) \\
 \frac{b}{1+b/N} = b - \frac{b^2}{N} + \mathcal{O}(N^{-2}) \\
 x \sim \mathcal{N}(0, I) \\
 \mathbf{W}_i^V \mathbf{A} = \mathbf{A}\mathbf{W}_i^V \\
 \sum_{d=1}^D \lambda_d = \text{tr}(\Lambda) \\
 c^{2} + 1 \ge 2c \\
 e^{2b} = (e^{b})^2 \\
 x^10 = x^{10}
\end{gather}
\end{document}
"""


def test_a_paper(tmp_path):
    found = verdicts(tmp_path, PAPER)
    statuses = ["exact", "assumed", "exact", "fails", "exact", "exact", "exact", "exact", "exact", "numeric", "numeric", "unread", "fails"]
    assert [line.status for line in found] == [*statuses, "numeric", "numeric", "exact", "unread"], found
    assert {"B", "M", "Lambda"} <= set(found[3].point)
    assert found[2].text.startswith(r"\nabla_{\mathbf B}\, \mathbb{E}")
    assert r"\mathbf{W}_i^V" in found[12].point
    assert found[-1].reason.startswith(f"line {PAPER[: PAPER.index('x^10')].count(chr(10)) + 1}, character 4")


def test_displays_of_the_summary_of_the_paper(tmp_path):
    r"""Three displays of a summary of the paper (arXiv 2501.16265), as they stand there: the output in time, the levels, the plateau."""
    text = r"""
\[\hat{y}_q(t) = \sigma(t) \beta^\top x_q, \quad \sigma(t) = \frac{e^{2\sqrt{D}\frac{t}{\tau}}}{\left(1 + \frac{1+D}{N}\right)(e^{2\sqrt{D}\frac{t}{\tau}} - 1) + \frac{\sqrt{D}}{w_{\text{init}}^2}}\]
\[\mathcal{L}(\mathcal{M}_m) = \text{tr}(\Lambda) - \sum_{d=1}^m \lambda_d
  \left(1 + \frac{1 + \text{tr}(\Lambda)/\lambda_d}{N}\right)^{-1}\]
\[\tau \dot{v}_i = \lambda_{m+1}^2 v_i^2 - \lambda_{m+1}^3 \left(1 + \frac{1 + \text{tr}(\Lambda)/\lambda_{m+1}}{N}\right) v_i^5\]
"""  # noqa: E501
    output, rise, levels, plateau = verdicts(tmp_path, text)
    assert [one.status for one in (output, rise, levels, plateau)] == ["unread", "assumed", "assumed", "unread"]
    assert r"\sigma(t) is not declared" in output.reason
    assert r"taken as the definition of \mathcal{L}(\mathcal{M}_m)" in levels.reason
    assert "a derivative in time is not read" in plateau.reason
    further = (
        text
        + r"""
\[ \sigma(t) = \frac{1}{(1 + \frac{1+D}{N})(1 - e^{-2\sqrt{D} t/\tau}) + \sqrt{D} w_{\rm init}^{-2} e^{-2\sqrt{D} t/\tau}} \]
\[ \mathcal{L}(\mathcal{M}_m) \le \operatorname{tr}(\Lambda) \]
\[ \mathcal{L}(\mathcal{M}_m) = \operatorname{tr}(\Lambda)
     - \sum_{d=1}^m \frac{N \lambda_d^2}{(N + 1) \lambda_d + \operatorname{tr} \Lambda} \]
\[ \mathcal{L}(\mathcal{M}_m) = \operatorname{tr} \Lambda - \sum_{d=1}^m \frac{N \lambda_d^2}{N \lambda_d + \operatorname{tr} \Lambda} \]
"""
    )
    statuses = [one.status for one in verdicts(tmp_path, "% let t: positive; \\tau: positive; w_{\\rm init}: positive\n" + further)]
    assert statuses[4:] == ["exact", "numeric", "numeric", "fails"]


def test_several_formulas_in_a_line(tmp_path):
    text = r"""
% let \mathbf{A}: symmetric; t: scalar; c: scalar
\[ \mathbf{B}(t) = t \mathbf{A}, \quad \mathbf{C} = \mathbf{B}(t)^2 \]
\[ \mathbf{C} = t^2 \mathbf{A}^2 \quad \text{and} \quad \mathbf C = t \mathbf A \]
\[ c^3 = 8 \quad \text{if } c = 2 \]
\[ c^2 = 2 c, \qquad c \ge 2 \]
"""
    found = verdicts(tmp_path, text)
    assert [one.status for one in found] == ["assumed", "assumed", "exact", "fails", "numeric", "fails"]
    assert [one.text for one in found[2:4]] == [r"\mathbf{C} = t^2 \mathbf{A}^2 \quad \text{and} \quad", r"\mathbf C = t \mathbf A"]


SAME = {
    r"\tfrac1N \mathbf A": r"\frac{1}{N} \mathbf{A}",
    r"\frac12 + \tfrac 34 + \frac1{23}": r"\frac{1}{2} + \frac{3}{4} + \frac{1}{23}",
    r"\sqrt2 x + x^23": r"\sqrt{2} x + x^{2} 3",
    r"\mathbf A^T": r"\mathbf{A}^\top",
    r"\bm A^{\intercal}": r"\mathbf{A}^{\mathsf T}",
    r"\boldsymbol{A}'": r"\mathbf A^{\mathrm{T}}",
    r"\operatorname{tr}(A)": r"\mathrm{Tr}\left(A\right)",
    r"\text{tr}\bigl[A\bigr]": r"\Tr[A]",
    r"{\bf A}_1": r"\mathbf{A}_{1}",
    r"\widehat{\mathbf{\Lambda}}": r"\hat{\boldsymbol\Lambda}",
    r"\mathbf{AB}": r"\mathbf{A}\mathbf{B}",
    r"\mathrm{E}[x]": r"\mathbb{E}\left[x\right]",
    r"\mathbb E x": r"\mathbb{E} x",
    r"w_{\rm init}": r"w_{\text{init}}",
    r"x^\top_q A": r"x_q^\top A",
    r"\frac{\partial L}{\partial B}": r"\left[\nabla_B [L]\right]",
    r"\frac{d}{dt} f": r"\frac{\mathrm{d}}{\mathrm{d}t} f",
    r"a \leqslant b": r"a \le b",
    r"a \overset{(a)}{=} b": "a = b",
    r"a \stackrel{\text{def}}{=} b": r"a \coloneqq b",
    r"\underbrace{a + b}_{\text{c}}": "(a + b)",
    r"a \cdot b \times c": "a * b * c",
    r"A^{-\top}": "A^{-T}",
    r"\sqrt x": r"\sqrt{x}",
    r"x \quad = y": "x = y",
    r"\| x \|^2": r"\left\Vert x \right\Vert^2",
    r"{\lambda}_{d}": r"\lambda_d",
    r"a\ , b~.": "a, b",
    r"\exp(x)": r"e^{x}",
}


@pytest.mark.parametrize("text", SAME)
def test_what_is_written_in_two_ways_is_read_alike(text):
    one, other = ([token.text for token in latex_tokens(latex) if token.kind != "end"] for latex in (text, SAME[text]))
    if "-" not in text and one != other:
        one, other = (["'" if token == "T" and i else token for i, token in enumerate(tokens) if token != "^"] for tokens in (one, other))
    assert [token.replace("top", "T") for token in one] == [token.replace("top", "T") for token in other]


REFUSED = {
    r"a \approx b": "an approximation",
    r"A \otimes B": "a Kronecker product",
    r"\sum_i v_i": "a sum without a range",
    r"|a|": "bars are not read",
    r"\det A": "a determinant",
    r"\int_0^1 x dx": "an integral",
    r"a + \dots + b": "dots",
    r"\begin{pmatrix} a \end{pmatrix}": "a matrix or cases",
    r"\frac{d^2}{dx^2} f": "a derivative of this form|a second derivative",
    r"\frac{\partial^2}{\partial x^2} f": "a second derivative",
    r"\frac{\partial}{\partial (x + y)} f": "a derivative is in one letter",
    r"\nabla f": "needs the letter of the derivative",
    r"a \text{ for all large } N": "the words",
    r"\unknown": "is not read",
    r"\frac{a}": "found the end",
    "{a": "not closed",
    r"\| x": "a norm that is not closed",
    "n!": "a factorial",
    "{" * 60 + "a" + "}" * 60: "nested",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_read_is_refused_by_name(text):
    with pytest.raises(Unreadable, match=REFUSED[text]):
        latex_tokens(text)


UNREAD = {
    r"\sigma(t) = \sigma(t)": "could be a product or a function",
    r"c' = c": "the prime of a number",
    r"c^T = c": "a transpose, or a power",
    r"\mathbb{E}(\mathbf u)^2 = 0": "the exponent could belong",
    r"1/2c = c/2": "could be in the denominator",
    r"\mathbf{k} = k + k": "stands in bold and not in bold",
    r"q = 2 q": "q is not declared",
    r"c \sim c": "needs its limit",
    r"\frac{d}{dc} c = 1": r"d is a letter here",
    r"\frac{\partial}{\partial c} c \frac{\partial}{\partial c} c = 1": "one of two derivatives in a product",
    r"\frac{\partial}{\partial c} (c) c = 1": "the derivative could be of the bracket",
    r"\mathbf{A}^{1/2} = \mathbf{A}": "a whole number as exponent",
    r"c = 1 \qquad 2 c": "expected one statement in a line",
    r"\|\mathbf{A}\|^2 = 1": "which norm of a matrix",
    r"\mathbf{A} \succeq 0": "an order of matrices",
    r"a^{(1)} = a^{(1)}": "expected an integer exponent",
    r"\ln^2 c = 0": "expected",
    r"\mathbf A^* = \mathbf A": "expected an integer exponent",
}


@pytest.mark.parametrize("text", UNREAD)
def test_what_is_not_settled_is_unread(tmp_path, text):
    declarations = "% let c: scalar; d: dimension; \\mathbf{A}: symmetric; \\mathbf{u}: vector\n"
    (line,) = verdicts(tmp_path, f"{declarations}\\[ {text} \\]")
    assert line.status == "unread", line
    assert UNREAD[text] in line.reason


def test_the_rows_of_displays():
    text = r"""\begin{align}
a &= b \\
  &= c + \left( d \right. \\
  &\quad \left. + e \right) \label{x}\\[2pt]
  &- f = g, \\
\nonumber \\
\intertext{and, with $a = b$,}
h &\le
   i
\end{align}"""
    rows = [(" ".join(row.split()), place) for _, row, place in displays(text)]
    assert [place for _, place in rows] == [2, 3, 8]
    assert rows[1][0].endswith("- f = g,")


def test_declared_letters_are_no_functions(tmp_path):
    text = r"""
% let E: D x D; \mathbf{W}: D x D; f: function; t: scalar; O: scalar; \delta\mathbf{w}: vector; \mathbf{w}: vector
\[ E(\mathbf{W} + E) = E\mathbf{W} + E^2 \]
\[ f(t) + f(t + 1) = f(t + 1) + f(t) \]
\[ O (t + 1) = O t + O \]
\[ \delta\mathbf{w}^\top \mathbf{w} = \mathbf{w}^\top \delta\mathbf{w} \]
\[ \mathbf{W}(\mathbf{W}) = \mathbf{W}^2 \]
"""
    assert [line.status for line in verdicts(tmp_path, text)] == ["exact"] * 5


def test_markdown_with_displays(tmp_path):
    text = r"""# A proof

<!-- let \mathbf{A}: D x D; c: scalar -->
The claim $1 = 2$ is prose, and

$$
\operatorname{tr}(\mathbf{A}) = \operatorname{tr}(\mathbf{A}^\top)
$$

is not; neither is

\begin{equation}
c = 2 c
\end{equation}

```math
c + c = 2 c
```
"""
    assert [line.status for line in verdicts(tmp_path, text, "proof.md")] == ["exact", "fails", "exact"]


def test_what_a_built_derivation_prints_is_judged(tmp_path):
    from iclflow.theory import E, derive
    from iclflow.theory.notation import B, Lambda_hat, M, N, beta, x_q, y_q

    built = derive(E((y_q - beta.T * B * x_q) ** 2)).expect().fold(M, E(Lambda_hat**2)).gradient(B).factor()
    assert [line.status for line in verdicts(tmp_path, built.latex())] == ["exact", "assumed", "exact", "exact", "exact"]
    limit = derive(E(Lambda_hat**2)).expect().limit(N)
    assert [line.status for line in verdicts(tmp_path, limit.latex())] == ["exact", "exact"]


def test_macros_of_the_author(tmp_path):
    text = r"""
\newcommand{\bA}{\mathbf{A}} \newcommand\bu{\mathbf u} \def\T{^\top}
\newcommand{\E}[1]{\mathbb{E}\left[#1\right]} \DeclareMathOperator{\Trace}{tr}
\newcommand{\loop}{\loop x} \newcommand{\big}{\big\big}
% let \bA: symmetric; \bu: Gaussian(0, \Sigma)
\[ \E{\bu \bu\T} = \Sigma \]
\[ \E{\bu\T\bA\bu} = \Trace(\bA\Sigma) \]
\[ \bA\T = 2 \bA \]
\[ \loop = \loop \]
"""
    assert [line.status for line in verdicts(tmp_path, text)] == ["exact", "exact", "fails", "unread"]
