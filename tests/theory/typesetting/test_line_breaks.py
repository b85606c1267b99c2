"""Displays: relations are aligned, long formulas are broken at signs and inside brackets, reasons stand between the rows."""

from iclflow.theory.notation import N
from iclflow.theory.typesetting.latex import formula_latex
from iclflow.theory.typesetting.line_breaks import LEFT, LINE, Row, aligned, split_sum, width
from sympy import Symbol, symbols


def shown_lines(left: str, right: str) -> list[str]:
    """The lines of a display without what aligns them."""
    _, *lines, _ = aligned([Row(left, "=" * bool(left), right)]).splitlines()
    return [line.removesuffix(r" \\").removeprefix("{} ").replace("& ", "", 1).removeprefix(r"\quad ") for line in lines]


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
    shown = aligned([Row("x", "=", terms, tag="9")])
    assert shown.startswith("\\begin{align*}\nx & = a")
    assert shown.endswith(" \\tag{9}\n\\end{align*}")
    assert aligned([Row("x", "=", terms, tag="9")], "aligned").endswith(" && \\qquad \\text{(9)}\n\\end{aligned}")


def test_brackets_are_opened_only_as_deep_as_that_makes_lines_fit():
    product = rf"\left({' + '.join('abcdefghijklm')}\right)"
    lines = shown_lines("", rf"\operatorname{{tr}}\left({product} {product} {product}\right) + \left(x + y\right)")
    assert all(width(line) <= LINE for line in lines)
    assert "".join(lines).count(r"\Bigl(") == "".join(lines).count(r"\Bigr)") == 4
    assert r"+ \left(x + y\right)" in lines[-1]
    wide = r"\begin{matrix}" + " & ".join(f"a_{{{i}}} + b_{{{i}}}" for i in range(30)) + r"\end{matrix}"
    assert shown_lines("x", wide) == ["x", f"= {wide}"]


def test_a_sum_is_split_only_at_its_outermost_signs():
    assert split_sum(r"a^{-1} + \left(b + c\right) - \begin{matrix}d + e\end{matrix}") == [
        "a^{-1}",
        r"+ \left(b + c\right)",
        r"- \begin{matrix}d + e\end{matrix}",
    ]


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


def test_a_name_in_a_tag_is_text():
    assert aligned([Row("x", "=", "y", tag="4, g_1")]) == "\\begin{align*}\nx & = y \\tag{4, g\\_1}\n\\end{align*}"


def test_left_sides_stand_beside_their_relation_or_above_it():
    long = " + ".join("abcdefghijkl")
    shown = aligned([Row("x", ":=", "y", reason="Words:"), Row("", "=", "z"), Row(long, r"\le", "w")]).splitlines()
    assert shown[1:3] == [r"\intertext{Words:}", r"x & := y \\"]
    assert shown[3:6] == [r"{} & = z \\", rf"& {long} \\", r"& \le w"]
    assert width(long) > LEFT


def test_a_wide_right_side_takes_the_room_of_the_left_sides():
    row = Row("a b c d e f g h", "=", rf"\frac{{{' '.join(['a'] * (LINE - 5))}}}{{2}}")
    assert aligned([row]).splitlines()[1].startswith("& a b c")
    assert aligned([row._replace(right="a")]).splitlines()[1].startswith("a b c")


def test_a_bar_inside_opened_brackets_grows_by_itself():
    """The halves of a bracket that stand in two lines are no pair that a middle bar could belong to."""
    opened = split_sum(r"\left[a + b\,\middle|\,c\right]", inside=1)
    assert opened == [r"\Bigl[a", r"+ b\,\Big|\,c\Bigr]"]
