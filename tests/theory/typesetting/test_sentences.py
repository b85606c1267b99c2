"""Sentences with formulas between dollars, for a terminal, Markdown and LaTeX; names of letters."""

import pytest
from iclflow.theory.typesetting.sentences import sentence_latex, sentence_text
from iclflow.theory.typesetting.symbol_names import name_latex


@pytest.mark.parametrize(
    ("sentence", "text"),
    [
        ("Stein's lemma, applied twice (31)", "Stein's lemma, applied twice (31)"),
        (r"$\boldsymbol{k}^{\top} \boldsymbol{\Lambda}^{2} \boldsymbol{q}$ is 0", "k' Lambda^2 q is 0"),
        (r"the reciprocal of $u^{2} (1 - u^{3})$", "the reciprocal of u^2 (1 - u^3)"),
        (r"$\hat{\boldsymbol{\Lambda}}^{2} \ge \tfrac1N \boldsymbol{I}$", "Lambda_hat^2 >= 1/N I"),
        (r"$\sum_{d \le m} \lambda_d / a_{m+1} \to \infty$", "sum_(d <= m) lambda_d/a_(m+1) -> infinity"),
        (r"$\mathbb{E}(y_q\boldsymbol{z}) \ne \sqrt{D}$", "E(y_q z) != sqrt(D)"),
        (r"the official code with $\mathtt{vary\_len}$", "the official code with vary_len"),
    ],
)
def test_sentences(sentence, text):
    """In a terminal a formula is text; in LaTeX it stays as it is."""
    assert sentence_text(sentence) == text
    assert sentence_latex(sentence) == sentence


def test_percent_signs_are_escaped_for_latex():
    assert sentence_latex("10 % of it") == r"10 \% of it"


def test_a_primed_letter_stays_greek():
    assert name_latex("lambda'") == r"\lambda'"
    assert name_latex("x''_q", bold=True) == r"\boldsymbol{x}''_{q}"
