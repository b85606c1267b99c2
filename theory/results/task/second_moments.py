r"""Moments of the sample covariance: (20), (31)-(33) and the further ones the landscape and the zero blocks need.

With T = tr(Lambda), E(Lambda_hat^2) = Lambda^2 + (Lambda + T I) Lambda / N has the eigenvectors of Lambda and the eigenvalues
a_d = lambda_d^2 (1 + (1 + T / lambda_d) / N). D and N stay symbols throughout; the tokens are Gaussian.
"""

from sympy import Identity, Trace

from ...algebra.polynomial import TracePolynomial
from ...calculus import collect, rewrite
from ...derivations import E, Line, Lines, given, register, states
from ...derivations.draws import along_one_eigenvector, satisfying, second_moment as papers_moment
from ...expectation import Gaussian, expect
from ...notation import D, Lambda, Lambda_hat, M, N, a, e, e_d, lambda_, matrix, vector
from .population import ALONG, PAPER, Task, tokens

A = matrix("A", D)  # any constant matrix
SQUARE = E(Lambda_hat**2)


def _draw_eigenvector(point, moments=papers_moment) -> None:
    along_one_eigenvector(point, moments)
    point[e_d] = point[e]


EIGENVECTOR = satisfying(
    r"$\boldsymbol{e}_d$ is a unit eigenvector of $\boldsymbol{\Lambda}$, $\lambda$ its eigenvalue $\lambda_d$",
    {Lambda * e_d: lambda_ * e_d, e_d.T * e_d: Identity(1)},
    _draw_eigenvector,
)


def _eigenvector() -> tuple[Line, Line]:
    return (Line(Lambda * e_d, "=", lambda_ * e_d, "An eigenvector"), Line(e_d.T * e_d, "=", 1, "of unit length"))


@register("31", "Second moment of the sample covariance", section="Appendix B.1")
@states("first", lambda: (N - 1) / N * Lambda**2 + (2 * Lambda**2 + Trace(Lambda) * Lambda) / N)
@states("second", lambda: Lambda**2 + (Lambda**2 + Trace(Lambda) * Lambda) / N)
@given(tokens)
def second_moment(task: Task = PAPER) -> Lines:
    """Pairs of different tokens, and pairs of a token with itself; then the same by Stein's lemma in one step."""
    one, other = vector("x_1", D), vector("x_2", D)
    laws = [Gaussian(one, covariance=Lambda), Gaussian(other, covariance=Lambda)]
    inner, noise = task.task_covariance, TracePolynomial(task.noise * Lambda / N)
    different, same = (TracePolynomial(one * one.T) * inner * last * last.T for last in (other, one))
    pairs = TracePolynomial(N) * (TracePolynomial(N) - 1) / N**2
    square = task.square()
    yield from task.gains()
    if not (task.token_law or task.random_length):
        yield Line(M, ":=", square, "The letter for it")
        yield Line(M, "=", (N * (N - 1) * E(different, laws) + N * E(same, laws)) / N**2 + noise.to_sympy(),
                   "$N(N-1)$ ordered pairs of different tokens, and $N$ of a token with itself")  # fmt: skip
        yield Line(E(different, laws), "=", expect(different, laws), "Different tokens are independent")
        yield Line(E(same, laws), "=", expect(same, laws), "A token with itself has a fourth moment")
        yield Line(square, "=", pairs * expect(different, laws) + expect(same, laws) / N + noise, "The two together", part="first")
    yield Line(square, "=", task.moments.M,
               "The same by Stein's lemma: one sample covariance becomes its mean, and joins the other in two windings of weight $1/N$",
               part="second")  # fmt: skip


@register("20", "Second moment of the sample covariance, as in the main text", section="Section 4.2")
@states(lambda: Lambda**2 + (Lambda**2 + Trace(Lambda) * Lambda) / N)
@given(tokens)
def second_moment_main_text() -> Lines:
    """Equation (31) by Stein's lemma."""
    windings = expect(Lambda_hat**2) - TracePolynomial(Lambda) ** 2
    yield Line(SQUARE, "=", Lambda * E(Lambda_hat) + windings.to_sympy(),
               "One sample covariance becomes its mean; two windings in which it shares a token with the other are added")  # fmt: skip
    yield Line(SQUARE, "=", expect(Lambda_hat**2), "The mean put in")


@register("32", "Eigenvalues of the second moment", section="Appendix B.1")
@states("sum", lambda: (1 + 1 / N) * lambda_**2 + Trace(Lambda) / N * lambda_)
@states("product", lambda: lambda_**2 * (1 + (1 + Trace(Lambda) / lambda_) / N))
@given(lambda task=PAPER: task.condition(EIGENVECTOR, _draw_eigenvector))
def eigenvalue(task: Task = PAPER) -> Lines:
    """The quadratic form of E(Lambda_hat^2) on an eigenvector of Lambda."""
    form = TracePolynomial(e_d.T) * task.moments.M * e_d
    others = tuple(
        Line(letter * e_d, "=", value * e_d, "A common eigenvector") for letter, value in ALONG.items() if letter in form.free_symbols
    )
    value = rewrite(form, {one.left: one.right for one in (*_eigenvector(), *others)})
    yield from _eigenvector()
    yield from others
    if task != PAPER:
        yield from task.definitions()
    yield Line(a, ":=", e_d.T * M * e_d, "The second moment between eigenvectors")
    yield Line(a, "=", form, "The second moment (31)", uses=task.uses("31"))
    yield Line(a, "=", value, "The eigenvalue put in", (*range(2 + len(others)), -1), "sum")
    yield Line(a, "=", lambda_**2 * (value / lambda_**2), "Factored", -1, "product")


@register("33", "Eigenvectors of the second moment", section="Appendix B.1")
@states(lambda: lambda_**2 * (1 + (1 + Trace(Lambda) / lambda_) / N) * e_d)
@given(EIGENVECTOR)
def eigenvectors() -> Lines:
    """E(Lambda_hat^2) is a polynomial in Lambda."""
    acted = expect(Lambda_hat**2) * e_d
    yield from _eigenvector()
    yield Line(SQUARE * e_d, "=", acted, "The second moment (31) on an eigenvector", "31")
    yield Line(SQUARE * e_d, "=", rewrite(acted, {Lambda * e_d: lambda_ * e_d}), "The eigenvalue put in", ("31", 0))


@register("31-limit", "Second moment of the sample covariance of a long context", kind="limit", section="Beside (31)")
@states("limit", lambda: Lambda**2)
@states("next", lambda: Lambda**2 + Trace(Lambda) * Lambda)
@given(tokens)
def long_context_moment() -> Lines:
    """The powers of 1/N in the second moment."""
    orders = collect(expect(Lambda_hat**2), N)
    yield Line(SQUARE, "->", orders[0], "The part without $1/N$", "31", "limit", parameter=N, order=1)
    yield Line(N * (SQUARE - Lambda**2), "=", orders[-1], "What is multiplied by $1/N$", "31", "next")
    yield Line(N * E((Lambda_hat - Lambda) ** 2), "=", orders[-1], r"It is the mean squared deviation of $\hat{\boldsymbol{\Lambda}}$")


@register("31-moments", "Further moments of the sample covariance", section="Beside (31)")
@states("A", lambda: Lambda * A * Lambda + (Lambda * A.T * Lambda + Trace(A * Lambda) * Lambda) / N)
@states("cube", lambda: (
    ((N**2 + 3 * N + 4) * Lambda**3 + 2 * (N + 1) * Trace(Lambda) * Lambda**2
     + (N + 1) * Trace(Lambda**2) * Lambda + Trace(Lambda) ** 2 * Lambda) / N**2
))  # fmt: skip
@states("trace", lambda: Trace(Lambda) * Lambda + 2 / N * Lambda**2)
@states("trace-A", lambda: Trace(A * Lambda) * Lambda + (Lambda * A * Lambda + Lambda * A.T * Lambda) / N)
@given(tokens, r"$\boldsymbol{A}$ is constant")
def further_moments() -> Lines:
    """Stein's lemma, one sample covariance at a time."""
    formulas = {
        "A": (Lambda_hat * A * Lambda_hat, "A constant between the two"),
        "cube": (Lambda_hat**3, "The third power"),
        "trace": (Trace(Lambda_hat) * Lambda_hat, "One of the two in a trace"),
        "trace-A": (Trace(A * Lambda_hat) * Lambda_hat, "The same beside a constant"),
    }
    for part, (body, reason) in formulas.items():
        yield Line(E(body), "=", expect(body), reason, part=part)
