r"""Proofs of many kinds: no true line fails, and every false line fails or is unread.

Each is (declarations, lines); LaTeX where a line has a backslash. The false ones are of the kind that people write.
"""

import pytest
from iclflow.theory.proofs.judging import judged

PLAIN = "let A, B, C: d x d; S1: symmetric; u, v: d x 1; c, r: scalar; b, s: positive; X: n x d; Sigma: covariance; Gamma: d x d"
LAWS = "let g: Gaussian(0, Sigma); h: Gaussian(mu, Sigma); W: sample covariance of n with Sigma; A, B: p x p; Sigma: covariance; mu: vector"
TEX = r"\mathbf{A}, \mathbf{B}: d x d; \mathbf{x}, \mathbf{y}: d x 1; \mathbf{X}: n x d; c: scalar; b: positive; \lambda: positive"
TEX_LAWS = r"\mathbf{g}: Gaussian(0, \Sigma); \hat{\Sigma}: sample covariance of n with \Sigma; \mathbf{A}: p x p; \Sigma: covariance"

TRUE = [
    # traces, transposes, inverses
    (PLAIN, "tr(A B C) = tr(B C A)\n= tr(C' B' A')"),
    (PLAIN, "(A B)' = B' A'"),
    (PLAIN, "inv(A B) = inv(B) inv(A)"),
    (PLAIN, "inv(A') = inv(A)'"),
    (PLAIN, "tr(u v') = v' u"),
    (PLAIN, "u' A v = v' A' u"),
    (PLAIN, "(A + B)(A - B) = A^2 - A B + B A - B^2"),
    (PLAIN, "(A + I)^3 = A^3 + 3 A^2 + 3 A + I"),
    (PLAIN, "A - inv(inv(A)) = 0"),
    (PLAIN, "inv(A + B) = inv(A) - inv(A) inv(inv(A) + inv(B)) inv(A)"),
    (PLAIN, "A inv(I + B A) = inv(I + A B) A"),
    (PLAIN, "inv(I + X' X) X' = X' inv(I + X X')"),
    (PLAIN, "tr(X' X) = tr(X X')"),
    (PLAIN, "A inv(A) = I\nI = inv(A) A\ntr(I_d) = d"),
    (PLAIN, "(u u')^2 = (u' u) u u'"),
    (PLAIN, "(I - u u'/(u' u))^2 = I - u u'/(u' u)"),
    (PLAIN, "tr(c A + r B) = c tr(A) + r tr(B)"),
    (PLAIN, "norm(u + v)^2 = norm(u)^2 + 2 u' v + norm(v)^2"),
    (PLAIN, "S1 = S1'\ntr(S1 (A - A')) = 0"),
    (PLAIN, "P1 := X inv(X' X) X'\nassume n > d\nP1 P1 = P1\nP1 X = X\ntr(P1) = d"),
    (PLAIN, "C1 = A B - B A\ntr(C1) = 0\nC1' = B' A' - A' B'"),
    # derivatives
    (PLAIN, "d/dA tr(A B) = B'"),
    (PLAIN, "d/dA tr(A' A) = 2 A"),
    (PLAIN, "d/dA tr(inv(A) B) = -inv(A)' B' inv(A)'"),
    (PLAIN, "d/du u' A u = (A + A') u"),
    (PLAIN, "d/dX tr(X' X X' X) = 4 X X' X"),
    (PLAIN, "F := tr(A B A')\nd/dA F = A (B + B')"),
    (PLAIN, "d/dc (c^3 r - ln(b) c) = 3 c^2 r - ln(b)"),
    (PLAIN, "d/db exp(-b s)/b = -s exp(-b s)/b - exp(-b s)/b^2"),
    (PLAIN, "d/dc [tr((A + c B)^2)] = 2 tr(A B) + 2 c tr(B^2)"),
    # expectations
    (LAWS, "E[g g'] = Sigma\nE[h h'] = Sigma + mu mu'"),
    (LAWS, "E[h' A h] = tr(A Sigma) + mu' A mu"),
    (LAWS, "E[(g' A g) (g' B g)] = tr(A Sigma) tr(B Sigma) + tr(A Sigma B Sigma) + tr(A Sigma B' Sigma)"),
    (LAWS, "E[W A W] = Sigma A Sigma + (Sigma A' Sigma + tr(A Sigma) Sigma)/n"),
    (LAWS, "E[tr(W)^2] - tr(Sigma)^2 = 2 tr(Sigma^2)/n"),
    (LAWS, "assume n > p + 1\nE[inv(W)] = n inv(Sigma)/(n - p - 1)"),
    (LAWS, "E[W^3] = (1 + 3/n + 4/n^2) Sigma^3 + (2/n + 2/n^2) tr(Sigma) Sigma^2"
           " + (1/n + 1/n^2) tr(Sigma^2) Sigma + tr(Sigma)^2 Sigma/n^2"),
    (LAWS, "E[g] = 0\nE[g' g g] = 0"),
    (LAWS, "E[(g - mu)(g - mu)'] = Sigma + mu mu'"),
    ("", "E[(y_q - beta' B x_q)^2] = tr(Lambda) - 2 tr(B Lambda^2) + tr(B Lambda B' E[S^2])"),
    ("", "M := E[S^2]\nB := inv(M) Lambda\ntr(Lambda) - 2 tr(B Lambda^2) + tr(B Lambda B' M) = tr(Lambda) - tr(Lambda^3 inv(M))"),
    ("", "d/dB E[(y_q - beta' B x_q)^2] = -2 Lambda^2 + 2 (Lambda^2 + (Lambda^2 + tr(Lambda) Lambda)/N) B Lambda"),
    ("", "E[beta beta' | S] = S^2\nE[S^2] = Lambda^2 + (Lambda^2 + tr(Lambda) Lambda)/N"),
    # inequalities
    (PLAIN, "2 c r <= c^2 + r^2"),
    (PLAIN, "tr(A)^2 <= d tr(A' A)"),
    (PLAIN, "(u' v)^2 <= u' u v' v"),
    (PLAIN, "tr(A B)^2 <= tr(A' A) tr(B' B)"),
    (PLAIN, "u' Sigma u >= 0\ntr(inv(Sigma)) tr(Sigma) >= d^2"),
    (PLAIN, "ln(b) <= b - 1\nexp(c) >= 1 + c"),
    (PLAIN, "assume b < 1\nb^2 < b\n1/b > 1"),
    (PLAIN, "b/(1 + b/s) < b"),
    (PLAIN, "assume d = 2\n2 tr(A^2) = (tr(A)^2 + tr(A^2)) - (tr(A)^2 - tr(A^2))\nA^2 - tr(A) A + (tr(A)^2 - tr(A^2))/2 I = 0"),
    # limits
    (PLAIN, "b/(1 + s/N) -> b (N -> infinity)"),
    (PLAIN, "b/(1 + s/N) = b - b s/N + O(N^-2)"),
    (PLAIN, "lim_(b -> 0) (exp(b) - 1)/b = 1"),
    (PLAIN, "exp(b) = 1 + b + b^2/2 + O(b^3)"),
    (LAWS, "E[W^2] -> Sigma^2 as n -> infinity"),
    # sums
    ("", "sum_(d=1..D) lambda_d = tr(Lambda)\nsum_(d=1..D) lambda_d^3 = tr(Lambda^3)"),
    ("", "sum_(k=1..m) k = m (m + 1)/2"),
    ("let c_i: scalar", "sum_(i=1..m) (c_i + 1) = m + sum_(i=1..m) c_i"),
    # LaTeX
    (TEX, r"\mathrm{tr}(\mathbf{A}^\top \mathbf{B}) = \mathrm{tr}(\mathbf{B}^T \mathbf A)"),
    (TEX, r"\|\mathbf{x} - \mathbf y\|^2 = \|\mathbf x\|^2 - 2 \mathbf x^\top\mathbf y + \|\mathbf y\|_2^2"),
    (TEX, r"\frac{\partial}{\partial \mathbf{A}} \|\mathbf{XA} - \mathbf{X}\|_F^2 = 2 \mathbf{X}^T (\mathbf{XA} - \mathbf{X})"),
    (TEX, r"\nabla_{\mathbf x} \tfrac12 \|\mathbf{X x}\|^2 = \mathbf{X}^\top \mathbf{X x}"),
    (TEX, r"(\mathbf{AB})^{-1} = \mathbf{B}^{-1} \mathbf{A}^{-1}, \qquad \text{for } d > 1"),
    (TEX, r"\frac{\lambda}{1 + \frac{b}{N}} \longrightarrow \lambda \quad (N \to \infty)"),
    (TEX, r"\sqrt{b^2 + 2b\lambda + \lambda^2} = b + \lambda"),
    (TEX_LAWS, r"\mathbb{E}[\hat\Sigma^2] = \tfrac{n+1}{n} \Sigma^2 + \tfrac1n \Tr(\Sigma) \Sigma"),
    (TEX_LAWS, r"\mathbb{E}_{\mathbf g}\left[\mathbf{g}^\top \mathbf{A} \mathbf{g}\right] = \operatorname{tr} \mathbf{A} \Sigma"),
]  # fmt: skip

FALSE = [
    # traces, transposes, inverses
    (PLAIN, "tr(A B C) = tr(A C B)"),
    (PLAIN, "(A B)' = A' B'"),
    (PLAIN, "inv(A B) = inv(A) inv(B)"),
    (PLAIN, "tr(A B) = tr(A) tr(B)"),
    (PLAIN, "u' A v = u' A' v"),
    (PLAIN, "(A + B)(A - B) = A^2 - B^2"),
    (PLAIN, "(A + B)^2 = A^2 + 2 A B + B^2"),
    (PLAIN, "(A + I)^3 = A^3 + 3 A^2 + 2 A + I"),
    (PLAIN, "inv(A + B) = inv(A) + inv(B)"),
    (PLAIN, "A inv(I + B A) = inv(I + B A) A"),
    (PLAIN, "inv(I + X' X) X' = X' inv(I + X' X)"),
    (PLAIN, "X' X = X X'"),
    (PLAIN, "(u u')^2 = (u' u)^2 u u'"),
    (PLAIN, "(I - u u')^2 = I - u u'"),
    (PLAIN, "tr(c A) = c^d tr(A)"),
    (PLAIN, "norm(u + v)^2 = norm(u)^2 + norm(v)^2"),
    (PLAIN, "A S1 = S1 A"),
    (PLAIN, "P1 := X inv(X' X) X'\nassume n > d\ntr(P1) = n"),
    (PLAIN, "C1 := A B - B A\nC1' = A' B' - B' A' + C1 - C1'"),
    (PLAIN, "A B A = A^2 B"),
    (PLAIN, "A A' = I"),
    (PLAIN, "tr(I_d) = d + 1"),
    # derivatives
    (PLAIN, "d/dA tr(A B) = B"),
    (PLAIN, "d/dA tr(A' A) = A"),
    (PLAIN, "d/dA tr(inv(A) B) = -inv(A) B inv(A)"),
    (PLAIN, "d/du u' A u = 2 A u"),
    (PLAIN, "d/dX tr(X' X X' X) = 4 X' X X'"),
    (PLAIN, "F := tr(A B A')\nd/dA F = 2 A B"),
    (PLAIN, "d/dc c^3 = 3 c^3"),
    (PLAIN, "d/db exp(-b s)/b = -s exp(-b s)/b"),
    (PLAIN, "d/dc [tr((A + c B)^2)] = 2 tr(A B)"),
    # expectations
    (LAWS, "E[h h'] = Sigma"),
    (LAWS, "E[h' A h] = tr(A Sigma)"),
    (LAWS, "E[(g' A g)^2] = tr(A Sigma)^2 + 2 tr(A Sigma A Sigma)"),
    (LAWS, "E[W A W] = Sigma A Sigma + (Sigma A Sigma + tr(A Sigma) Sigma)/n"),
    (LAWS, "E[W^2] = E[W]^2"),
    (LAWS, "E[tr(W)^2] - tr(Sigma)^2 = tr(Sigma^2)/n"),
    (LAWS, "assume n > p + 1\nE[inv(W)] = inv(Sigma)"),
    (LAWS, "E[inv(W)] = n inv(Sigma)/(n - p)"),
    (LAWS, "E[W^3] = (1 + 3/n + 3/n^2) Sigma^3 + (2/n + 2/n^2) tr(Sigma) Sigma^2"
           " + (1/n + 1/n^2) tr(Sigma^2) Sigma + tr(Sigma)^2 Sigma/n^2"),
    (LAWS, "E[g' g g g'] = tr(Sigma) Sigma + Sigma^2"),
    ("", "E[(y_q - beta' B x_q)^2] = tr(Lambda) - 2 tr(B Lambda^2) + tr(B Lambda B' Lambda^2)"),
    ("", "M := E[S^2]\nd/dB E[(y_q - beta' B x_q)^2] = -2 (Lambda^2 - B M Lambda)"),
    ("", "M := E[S^2]\nB := inv(M) Lambda\ntr(Lambda) - 2 tr(B Lambda^2) + tr(B Lambda B' M) = tr(Lambda) - tr(Lambda^2 inv(M))"),
    ("", "E[S^2] = Lambda^2 + (Lambda^2 + tr(Lambda) Lambda)/N^2"),
    ("", "E[beta beta' | S] = Lambda S"),
    # inequalities
    (PLAIN, "2 c r <= c^2"),
    (PLAIN, "tr(A)^2 <= tr(A' A)"),
    (PLAIN, "tr(A)^2 < d tr(A' A)"),
    (PLAIN, "(u' v)^2 <= u' v"),
    (PLAIN, "u' A u >= 0"),
    (PLAIN, "tr(A A) >= 0"),
    (PLAIN, "ln(b) >= b - 1"),
    (PLAIN, "b^2 < b"),
    (PLAIN, "assume b < 1\nb^2 > b"),
    (PLAIN, "c^2 > 0"),
    (PLAIN, "b^2 + s^2 >= 2.001 b s"),
    # limits
    (PLAIN, "b/(1 + s/N) -> 0 (N -> infinity)"),
    (PLAIN, "b/(1 + s/N) = b + b s/N + O(N^-2)"),
    (PLAIN, "lim_(b -> 0) (exp(b) - 1)/b = 0"),
    (PLAIN, "exp(b) = 1 + b + b^2 + O(b^3)"),
    (LAWS, "E[W^2] -> Sigma^2 + tr(Sigma) Sigma as n -> infinity"),
    # sums
    ("", "sum_(d=1..D) lambda_d^2 = tr(Lambda)^2"),
    ("", "sum_(k=1..m) k = m (m - 1)/2"),
    ("let c_i: scalar", "sum_(i=1..m) c_i^2 = (sum_(i=1..m) c_i)^2"),
    # LaTeX
    (TEX, r"\mathrm{tr}(\mathbf{A}^\top \mathbf{B}) = \mathrm{tr}(\mathbf{B} \mathbf A)"),
    (TEX, r"\|\mathbf{x} - \mathbf y\|^2 = \|\mathbf x\|^2 - \mathbf x^\top\mathbf y + \|\mathbf y\|_2^2"),
    (TEX, r"\frac{\partial}{\partial \mathbf{A}} \|\mathbf{XA} - \mathbf{X}\|_F^2 = \mathbf{X}^T (\mathbf{XA} - \mathbf{X})"),
    (TEX, r"(\mathbf{AB})^{-1} = \mathbf{A}^{-1} \mathbf{B}^{-1}"),
    (TEX, r"\frac{\lambda}{1 + \frac{b}{N}} \longrightarrow b \quad (N \to \infty)"),
    (TEX, r"\sqrt{b^2 + \lambda^2} = b + \lambda"),
    (TEX_LAWS, r"\mathbb{E}[\hat\Sigma^2] = \tfrac{n-1}{n} \Sigma^2 + \tfrac1n \Tr(\Sigma) \Sigma"),
    (TEX_LAWS, r"\mathbb{E}_{\mathbf g}\left[\mathbf{g}^\top \mathbf{A} \mathbf{g}\right] = \operatorname{tr} \mathbf{A}"),
]  # fmt: skip


# what papers hold beside claims: definitions, laws, updates, conventions; none of it is refuted
ODD = [
    r"\sigma'(t) = \sigma(t)(1 - \sigma(t))",
    r"|c|^2 = c^2",
    r"\mathbf{x}\mathbf{x}^\top \succeq 0",
    r"\det(\mathbf{A}\mathbf{B}) = \det\mathbf{A}\det\mathbf{B}",
    r"a_1 + a_2 = a_2 + a_1",
    r"\mathbf{A}_{ij} = \mathbf{A}_{ij}",
    r"\mathbf{x}_i^\top \mathbf{x}_j = \mathbf{x}_j^\top \mathbf{x}_i",
    r"\Lambda = U \Sigma U^T",
    r"\mathbf{A} \mathbf{u} = \lambda \mathbf{u}",
    r"f(\mathbf{x}) = \mathbf{x}^\top \mathbf{A} \mathbf{x}",
    r"\mathbf{K} = \mathbf{Q}",
    r"\mathbf{x} \sim \mathcal{N}(\mathbf{0}, \boldsymbol{\Sigma})",
    r"\dot{\mathbf{W}} = -\nabla_{\mathbf W} L",
    r"\mathbf{W}(0) = \epsilon \mathbf{I}",
    r"\mathcal{L} = \frac12 \mathbb{E}[(y - \hat y)^2]",
    r"p(y \mid x) = \frac{p(x, y)}{p(x)}",
    r"x_{t+1} = x_t - \eta \nabla f(x_t)",
    r"\int_0^1 t\, dt = \tfrac12",
    r"\mathbf{\Sigma} = \boldsymbol\Sigma",
    r"\mathbf{A}^{1/2}\mathbf{A}^{1/2} = \mathbf{A}",
    r"10^{-3} = \frac{1}{1000}",
    r"1,000 = 1000",
    r"\alpha \propto \beta",
    r"\{ c + t \} = [ t + c ]",
    r"\left. c \right|_{c=1} = 1",
    r"\mathrm{d}c = \mathrm{d}c",
    r"c = \begin{cases} 1 & t > 0 \\ 0 & t \le 0 \end{cases}",
    r"\mathbf{A} = \begin{pmatrix} 1 & 0 \\ 0 & 1 \end{pmatrix}",
    r"\text{Loss} = c",
    r"\min_{\mathbf{u}} \|\mathbf{u}\|^2 = 0",
    r"\arg\min_c c^2 = 0",
    r"c^{\star} = c^{\star}",
    r"\mathbf{B}^* = \mathbf{B}^*",
    r"3! = 6",
    r"\frac{c}{t} / \frac{c}{t} = 1",
    r"c / t t = c",
    r"c_{\text{max}} = c_{\max}",
    r"\hat{\mathbf{y}} = \mathbf{X}\hat{\boldsymbol\theta}",
    r"\nabla \cdot \mathbf{x} = d",
    r"\partial_t c = 0",
    r"\mathbf{x} \odot \mathbf{y} = \mathbf{y} \odot \mathbf{x}",
    r"\cos^2 t + \sin^2 t = 1",
    r"e^{i\pi} = -1",
    r"i^2 = -1",
]


# sizes that do not fit, an equation that could be one for X, and c that is perhaps meant not to be 0
UNSETTLED = {
    "c^2 > 0",
    "inv(I + X' X) X' = X' inv(I + X' X)",
    "X' X = X X'",
    "A A' = I",
    "d/dX tr(X' X X' X) = 4 X' X X'",
    "P1 := X inv(X' X) X'\nassume n > d\ntr(P1) = n",
}


def verdicts(tmp_path, declarations, lines):
    latex = "\\" in lines
    path = tmp_path / ("proof.tex" if latex else "proof.txt")
    declared = f"let {declarations.removeprefix('let ')}" if declarations else ""
    path.write_text(f"% {declared}\n\\[ {lines} \\]" if latex else f"{declared}\n\n{lines}")
    return judged(path)


@pytest.mark.parametrize(("declarations", "lines"), TRUE, ids=[lines for _, lines in TRUE])
def test_no_true_line_fails_and_nearly_all_are_proved(tmp_path, declarations, lines):
    found = verdicts(tmp_path, declarations, lines)
    assert all(line.status in ("exact", "numeric", "sampled", "assumed") for line in found), found


@pytest.mark.parametrize(("declarations", "lines"), FALSE, ids=[lines for _, lines in FALSE])
def test_every_false_line_fails_or_is_not_settled(tmp_path, declarations, lines):
    *before, last = verdicts(tmp_path, declarations, lines)
    assert all(line.status in ("exact", "numeric", "assumed") for line in before), before
    assert last.status == ("unread" if lines in UNSETTLED else "fails"), last
    assert last.point or lines in UNSETTLED or "equal" in last.reason


@pytest.mark.parametrize("line", ODD)
def test_nothing_else_in_a_paper_fails(tmp_path, line):
    declarations = TEX + r"; \mathbf{S}: symmetric; \boldsymbol\Sigma: covariance; \boldsymbol\theta: d x 1; t: scalar"
    assert all(one.status != "fails" for one in verdicts(tmp_path, declarations, f"{line}\\,"))


def test_they_are_many():
    assert len(TRUE) >= 60
    assert len(FALSE) - len(UNSETTLED) >= 60
