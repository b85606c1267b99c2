r"""Moments of the sample covariance: (20), (31)-(33) and the further ones the landscape and the zero blocks need.

With T = tr(Lambda), E(Lambda_hat^2) = Lambda^2 + (Lambda + T I) Lambda / N has the eigenvectors of Lambda and the eigenvalues
a_d = lambda_d^2 (1 + (1 + T / lambda_d) / N). D and N stay symbols throughout; the tokens are Gaussian.
"""

from functools import cache

from sympy import Expr, Trace

from ...algebra.polynomial import TracePolynomial
from ...calculus.rewriting import rewrite
from ...calculus.substitution import collect
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...expectation.laws import Gaussian
from ...expectation.moments import expect
from ...notation import D, Lambda, Lambda_hat, M, N, P, T, e_d, lambda_, learned, matrix, vector

__all__ = ["A", "diagonal_values", "on_eigenvector", "second_moment", "second_moment_along"]

A = matrix("A", D)  # any constant matrix

TOKENS = (r"The tokens are Gaussian, independent, with covariance $\boldsymbol{\Lambda}$",)


def on_eigenvector(polynomial) -> TracePolynomial:
    """Use Lambda e_d = lambda e_d and e_d' e_d = 1."""
    return rewrite(polynomial, {Lambda * e_d: lambda_ * e_d, e_d.T * e_d: 1})


@register(
    "31",
    "Second moment of the sample covariance",
    kind="exact",
    section="Appendix B.1",
    left={"first": r"\mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)", "second": r"\mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)"},
    typed=lambda: {
        "first": (N - 1) / N * Lambda**2 + (2 * Lambda**2 + Trace(Lambda) * Lambda) / N,
        "second": Lambda**2 + (Lambda**2 + Trace(Lambda) * Lambda) / N,
    },
    conditions=TOKENS,
)
def second_moment() -> Derivation:
    """Pairs of different tokens, and pairs of a token with itself; then the same by Stein's lemma in one step."""
    different, same = _pair_of_tokens()
    return Derivation.by(
        Step("Two different tokens are independent, and there are $N(N-1)$ ordered pairs of them", different),
        Step("A token with itself, $N$ times", same),
        Step("The two together", different + same, r"\mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)", "first"),
        Step(
            (
                "The same by Stein's lemma: one sample covariance becomes its mean, and joins the other in two "
                "windings of weight $1/N$"
            ),
            expect(Lambda_hat**2),
            r"\mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)",
            "second",
        ),
    )


def _pair_of_tokens() -> tuple[TracePolynomial, TracePolynomial]:
    one, other = vector("x_1", D), vector("x_2", D)
    tokens = [Gaussian(one, covariance=Lambda), Gaussian(other, covariance=Lambda)]
    count = TracePolynomial(N)
    different = count * (count - 1) / count**2 * expect(one * one.T * other * other.T, tokens)
    return different, count / count**2 * expect(one * (one.T * one) * one.T, tokens)


@register(
    "20",
    "Second moment of the sample covariance, as in the main text",
    kind="exact",
    section="Section 4.2",
    left=r"\mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)",
    typed=lambda: Lambda**2 + (Lambda**2 + Trace(Lambda) * Lambda) / N,
    conditions=TOKENS,
)
def second_moment_main_text() -> Derivation:
    """Equation (31) by Stein's lemma."""
    struck = TracePolynomial(Lambda) * expect(Lambda_hat)
    return Derivation.by(
        Step(
            "One sample covariance becomes its mean, independent of the other",
            struck,
            r"\boldsymbol{\Lambda}\,\mathbb{E}(\hat{\boldsymbol{\Lambda}})",
        ),
        Step("Add the two windings in which it shares a token with the other", expect(Lambda_hat**2)),
    )


@register(
    "32",
    "Eigenvalues of the second moment",
    kind="exact",
    section="Appendix B.1",
    left={"sum": "a_d", "product": "a_d"},
    typed=lambda: {
        "sum": (1 + 1 / N) * lambda_**2 + Trace(Lambda) / N * lambda_,
        "product": lambda_**2 * (1 + (1 + Trace(Lambda) / lambda_) / N),
    },
    conditions=(
        (
            r"$\lambda$ is the eigenvalue $\lambda_{d}$ of $\boldsymbol{\Lambda}$ that belongs to "
            r"$\boldsymbol{e}_{d}$"
        ),
    ),
)
def eigenvalue() -> Derivation:
    """The quadratic form of E(Lambda_hat^2) on an eigenvector of Lambda."""
    form = TracePolynomial(e_d.T) * expect(Lambda_hat**2) * e_d
    value = on_eigenvector(form)
    return Derivation.by(
        Step(
            "The second moment (31) between eigenvectors", form, r"\boldsymbol{e}_d^\top\boldsymbol{M}\boldsymbol{e}_d"
        ),
        Step(
            (
                r"$\boldsymbol{\Lambda} \boldsymbol{e}_{d} = \lambda_{d} \boldsymbol{e}_{d}$, and "
                r"$\boldsymbol{e}_{d}$ has unit length"
            ),
            value,
            "a_d",
            "sum",
        ),
        Step("Factored", lambda_**2 * (value / lambda_**2), "a_d", "product"),
    )


@cache
def second_moment_along() -> Expr:
    """a as a function of lambda, N and T = tr(Lambda), equation (32)."""
    return eigenvalue().result["sum"].to_sympy().subs(Trace(Lambda), T)


def diagonal_values() -> dict:
    """The eigenvalues of Lambda, M = E(Lambda_hat^2) and P."""
    return {Lambda: lambda_, M: second_moment_along(), P: learned}


@register(
    "33",
    "Eigenvectors of the second moment",
    kind="exact",
    section="Appendix B.1",
    left=r"\mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)\,\boldsymbol{e}_d",
    typed=lambda: lambda_**2 * (1 + (1 + Trace(Lambda) / lambda_) / N) * e_d,
    conditions=(
        (
            r"For every $d$: the $\boldsymbol{e}_{d}$ are a basis, so that "
            r"$\mathbb{E}(\hat{\boldsymbol{\Lambda}}^{2})$ is the sum of $a_{d} \boldsymbol{e}_{d} "
            r"\boldsymbol{e}_{d}^{\top}$"
        ),
    ),
)
def eigenvectors() -> Derivation:
    """E(Lambda_hat^2) is a polynomial in Lambda."""
    acted = expect(Lambda_hat**2) * e_d
    return Derivation.by(
        Step(r"The second moment (31) on an eigenvector of $\boldsymbol{\Lambda}$", acted),
        Step(r"$\boldsymbol{\Lambda} \boldsymbol{e}_{d} = \lambda_{d} \boldsymbol{e}_{d}$", on_eigenvector(acted)),
    )


@register(
    "31-limit",
    "Second moment of the sample covariance of a long context",
    kind="limit",
    section="Beside (31)",
    left={
        "limit": r"\lim_{N\to\infty}\mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)",
        "next": r"N\left(\mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)-\boldsymbol{\Lambda}^2\right)",
    },
    typed=lambda: {"limit": Lambda**2, "next": Lambda**2 + Trace(Lambda) * Lambda},
    conditions=(
        *TOKENS,
        (
            r"The second is exact for every $N$: $\mathbb{E}(\hat{\boldsymbol{\Lambda}}^{2}) - "
            r"\boldsymbol{\Lambda}^{2}$ is the mean squared deviation of $\hat{\boldsymbol{\Lambda}}$"
        ),
    ),
)
def long_context_moment() -> Derivation:
    """The powers of 1/N in the second moment."""
    orders = collect(expect(Lambda_hat**2), N)
    deviation = (TracePolynomial(Lambda_hat) - Lambda) ** 2
    if sorted(orders) != [-1, 0] or expect(deviation) != orders[-1] / N:
        raise ArithmeticError(f"the second moment has the orders {sorted(orders)} in N")
    return Derivation.by(
        Step("The second moment (31)", expect(Lambda_hat**2)),
        Step("Its part without $1/N$", orders[0], part="limit"),
        Step("What is multiplied by $1/N$", orders[-1], part="next"),
    )


@register(
    "31-moments",
    "Further moments of the sample covariance",
    kind="exact",
    section="Beside (31)",
    left={
        "A": r"\mathbb{E}(\hat{\boldsymbol{\Lambda}}\boldsymbol{A}\hat{\boldsymbol{\Lambda}})",
        "cube": r"\mathbb{E}(\hat{\boldsymbol{\Lambda}}^3)",
        "trace": r"\mathbb{E}(\operatorname{tr}(\hat{\boldsymbol{\Lambda}})\hat{\boldsymbol{\Lambda}})",
        "trace-A": r"\mathbb{E}(\operatorname{tr}(\boldsymbol{A}\hat{\boldsymbol{\Lambda}})\hat{\boldsymbol{\Lambda}})",
    },
    typed=lambda: {
        "A": Lambda * A * Lambda + (Lambda * A.T * Lambda + Trace(A * Lambda) * Lambda) / N,
        "cube": (
            (N**2 + 3 * N + 4) * Lambda**3
            + 2 * (N + 1) * Trace(Lambda) * Lambda**2
            + (N + 1) * Trace(Lambda**2) * Lambda
            + Trace(Lambda) ** 2 * Lambda
        )
        / N**2,
        "trace": Trace(Lambda) * Lambda + 2 / N * Lambda**2,
        "trace-A": Trace(A * Lambda) * Lambda + (Lambda * A * Lambda + Lambda * A.T * Lambda) / N,
    },
    conditions=(*TOKENS, r"$\boldsymbol{A}$ is any constant matrix"),
)
def further_moments() -> Derivation:
    """Stein's lemma, one sample covariance at a time."""
    return Derivation.by(
        Step("A constant between the two", expect(Lambda_hat * A * Lambda_hat), part="A"),
        Step("The third power", expect(Lambda_hat**3), part="cube"),
        Step("One of the two in a trace", expect(Trace(Lambda_hat) * Lambda_hat), part="trace"),
        Step("The same beside a constant", expect(Trace(A * Lambda_hat) * Lambda_hat), part="trace-A"),
    )
