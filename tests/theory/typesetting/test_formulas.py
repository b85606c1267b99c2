"""Formulas as LaTeX and as text: brackets where they are needed, in the paper's order."""

from iclflow.theory.algebra.polynomial import TracePolynomial
from iclflow.theory.derivations.heads import E, Gradient, SumOver
from iclflow.theory.notation import B, D, Lambda, M, N, T, e, lambda_, symmetric_matrix, v_i, x_q
from iclflow.theory.typesetting.latex import formula_latex, formula_text
from reading import parse
from sympy import Derivative, Determinant, Function, IndexedBase, Integral, Inverse, Limit, Matrix, Sum, Symbol, Trace, log, oo, symbols


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


x, y, d = symbols("x y d")


def test_a_sum_in_text_stands_in_brackets_before_another_factor_or_term():
    total = Sum(IndexedBase("lambda")[d], (d, 1, D))
    shown = "sum_(d=1..D) lambda_d"
    assert formula_text(total) == shown
    assert formula_text(x * total) == f"x ({shown})"
    assert formula_text(1 / total) == f"1/({shown})"
    assert formula_text(total**2) == f"({shown})^2"
    assert formula_text(total / N + x - total) == f"x - ({shown}) + {shown}/N"
    assert formula_text(Sum(x + d, (d, 1, D)) + Sum(d, (d, 1, 2))) == "(sum_(d=1..D) (d + x)) + sum_(d=1..2) d"
    assert formula_text(B * SumOver(e * e.T, e) * Lambda) == "B (sum_(e) e e') Lambda"


def test_derivatives_and_limits_have_brackets():
    f, g = Function("f")(x, y), Function("y_hat")(x)
    assert formula_text(Derivative(f, x) * Derivative(g, x)) == "d/dx [f(x, y)] d/dx [y_hat(x)]"
    product = formula_latex(Derivative(f, x) * Derivative(g, x))
    assert product == r"\frac{\partial f{\left(x,y \right)}}{\partial x} \frac{d \hat{y}{\left(x \right)}}{d x}"
    assert formula_latex(Derivative(x + x**2, x, 2)) == r"\frac{d^{2}}{d x^{2}}\left[x^{2} + x\right]"
    assert formula_text(x * Limit(1 / y, y, oo)) == "x (lim_(y -> infinity) 1/y)"
    assert formula_text(x * Integral(y, (y, 0, 1))) == "x (int_(0..1) y dy)"


def test_a_fraction_stands_before_an_operation():
    square = E((x_q.T * B * x_q) ** 2)
    assert formula_latex(-Gradient(square, v_i) / 2).startswith(r"- \frac{1}{2} \frac{\partial}{\partial v_{i}}\left[")


def test_numbers_come_first_and_a_minus_does_not():
    assert formula_text(lambda_ / (1 + (T / lambda_ + 1) / N)) == "lambda/(1 + (1 + T/lambda)/N)"
    assert formula_text(x**2 * T - lambda_ * x**5) == "T x^2 - lambda x^5"
    assert formula_text(1 / (x / y)) == "y/x"
    assert formula_text(1 / (1 - 1 / x) ** Symbol("n")) == "(1 - 1/x)^(-n)"


def test_a_scalar_product_has_brackets_beside_a_matrix_only():
    assert formula_text(Trace(x_q.T * B * x_q) * B * x_q) == "(x_q' B x_q) B x_q"
    assert formula_text(N * Trace(x_q.T * x_q) + log(x)) == "ln(x) + N (x_q' x_q)"
    assert formula_text(Trace(Lambda) / N * Lambda + Inverse(Lambda)) == formula_text(Inverse(Lambda) + Lambda * Trace(Lambda) / N)


def test_an_explicit_matrix_is_drawn_alone_and_written_in_a_line_within_a_formula():
    matrix = Matrix([[x, 1], [0, y]])
    assert formula_text(matrix) == "[ x  1 ]\n[ 0  y ]"
    assert formula_text(Determinant(matrix)) == "det([[x, 1], [0, y]])"


def test_indices_in_braces_are_written_in_brackets():
    assert formula_text(Symbol("lambda_{m+1}") ** 2) == "lambda_(m+1)^2"
    assert formula_latex(Symbol("lambda_{m+1}") ** 2) == r"\lambda_{m+1}^{2}"


def test_the_letters_of_the_project_mean_what_they_print_as():
    for letter in (B, M):
        assert parse(formula_text(letter * Lambda * letter.T)) == TracePolynomial(letter * Lambda * letter.T)
