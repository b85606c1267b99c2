r"""Tokens that are not Gaussian (V5): only E(x x' Sigma_w x x') enters beside the covariance.

.. math::
    \mathbb E(\hat\Lambda^2) = \Bigl(1 - \frac1N\Bigr)\Lambda^2 + \frac1N\,\mathbb E\bigl(|x|^2xx^\top\bigr)

Elliptical tokens, x = Lambda^(1/2) times a vector of random length and uniform direction, multiply the Gaussian fourth moment by one
number kappa: D/(D + 2) on a sphere, (nu - 2)/(nu - 4) for Student's law. Tokens x = R z with independent components z_d of kurtosis k
add (k - 3) R diag(R' Sigma_w R) R'.
"""

from dataclasses import replace
from functools import cache, partial
from typing import Any

from flint import arb
from mpmath import diag as diagonal
from sympy import Expr, Identity, Integral, Matrix, Symbol, Trace, cancel, diag, exp, factor, oo, solve, sqrt, symbols  # fmt: skip

from ...algebra.polynomial import TracePolynomial
from ...calculus import substitute
from ...derivations import Condition, E, Line, Lines, carried_out, given, note, register, states
from ...derivations.draws import EIGENVECTOR, at, eigenbasis, satisfying
from ...derivations.matrix_forms import stacked
from ...expectation import Fixed, Gaussian, Mixture, expect
from ...notation import D, Lambda, Lambda_hat, MatrixLetter, N, T, beta, e, lambda_, matrix, sigma, vector
from ..landscape.completeness import lambda_i, lambda_j, off_diagonal, pair
from ..task.population import GENERAL, PAPER, WHITE, Sigma_w, Task, any_tokens, fourth
from .labels import ROOT, root

kappa = Symbol("kappa", positive=True)  # E(rho^4)/(D (D + 2)) of an elliptical law, rho the length of the whitened token, E(rho^2) = D
rho_4 = Symbol("rho_4", positive=True)  # E(rho^4)
kurtosis = Symbol("k", positive=True)  # E(z^4) of an independent component of unit variance
nu = Symbol("nu", positive=True)  # degrees of freedom
N_d = Symbol("N_d", positive=True)  # the length at which Gaussian tokens have the same a_d
x, g = vector("x", D), vector("g", D)
mixing = matrix("R", D)  # x = R z
D_R = matrix("D_R", D, latex=r"\boldsymbol{D}")  # the diagonal part of R' R
k_i, k_j = symbols("k_i k_j", positive=True)


def tokens(fourth_moment) -> tuple:
    """The general laws, with tokens of this fourth moment E(x x' A x x') as a function of A."""
    return replace(GENERAL, token_law=fourth_moment).laws()


def one_token(inner) -> TracePolynomial:
    """x x' A x x' of one token; the expectation is a sum of such terms."""
    return TracePolynomial(x * x.T) * inner * x * x.T


@cache
def gaussian_fourth() -> TracePolynomial:
    """E(x x' Sigma_w x x') of a Gaussian token."""
    return expect(x * (x.T * Sigma_w * x) * x.T, Gaussian(x, covariance=Lambda))


def elliptical_fourth() -> TracePolynomial:
    """The same of an elliptical token, whose length is independent of its direction."""
    return gaussian_fourth() * kappa


def gaussian_of(inner) -> TracePolynomial:
    """E(x x' A x x') of a Gaussian token; of A it sees the symmetric part."""
    return substitute(gaussian_fourth(), {Sigma_w: (inner + inner.T) / 2})


def elliptical_of(inner) -> Any:
    """The same of an elliptical token."""
    return kappa * gaussian_of(inner)


def independent_of(inner, k: Any = kurtosis) -> TracePolynomial:
    """The same for A = I and a diagonal R'R: eigenvectors of Lambda are the columns of R."""
    if inner != TracePolynomial(Identity(D)):
        raise ValueError(f"independent_of: needs I, got {inner}")
    return gaussian_of(inner) + (k - 3) * TracePolynomial(Lambda**2)


@register("V5-moment", "Second moment of the sample covariance for tokens of any law")
@states("general", lambda: (1 - 1 / N) * Lambda * Sigma_w * Lambda + fourth / N + sigma**2 / N * Lambda)
@states("second", lambda: (1 - 1 / N) * Lambda**2 + fourth / N)
@states("Gaussian", lambda: 2 * Lambda * Sigma_w * Lambda + Trace(Sigma_w * Lambda) * Lambda)
@states("check", lambda: Lambda**2 + (Lambda**2 + Trace(Lambda) * Lambda) / N)
@given(
    "Independent tokens of mean zero with four moments", r"Second and check: $\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{I})$, no noise"
)
@note(r"$\boldsymbol{F}=\mathbb{E}(\boldsymbol{xx}^\top\boldsymbol{\Sigma}_w\boldsymbol{xx}^\top)$ of a token, which one token stands for")
def any_law() -> Lines:
    """Pairs of different tokens need the covariance only; a token with itself its fourth moment."""
    gaussian = substitute(gaussian_fourth(), {Sigma_w: Identity(D)})
    second = substitute(any_tokens().M, {Sigma_w: WHITE, sigma: 0})
    yield Line(fourth, ":=", x * x.T * Sigma_w * x * x.T, "The fourth moment")
    yield Line(E(beta * beta.T, tokens(one_token)), "=", any_tokens().M,
               "Pairs of different tokens, and of a token with itself", part="general")  # fmt: skip
    yield Line(fourth, ":=", x * x.T * x * x.T, r"The same for $\boldsymbol{\Sigma}_w = \boldsymbol{I}$")
    yield Line(E(Lambda_hat**2, tokens(one_token)), "=", second, "Then without noise", part="second")
    yield Line(E(x * x.T * Sigma_w * x * x.T, Gaussian(x, covariance=Lambda)), "=", gaussian_fourth(),
               "The fourth moment of a Gaussian token", part="Gaussian")  # fmt: skip
    yield Line(E(Lambda_hat**2), "=", substitute(second, {fourth: gaussian}),
               r"With $\boldsymbol{\Sigma}_w = \boldsymbol{I}$ in (second) it gives (31)", part="check")  # fmt: skip


EXCESS = Symbol("m", positive=True)  # nu - 4
CHI = Symbol("c", positive=True)


def _student_moment(power: int) -> Integral:
    """The integral of c^-power over the density of chi^2 with nu = m + 4 degrees of freedom, but for its norm."""
    return Integral(CHI ** (EXCESS / 2 + 1 - power) * exp(-CHI / 2), (CHI, 0, oo))


def _student() -> Expr:
    """E(s^2)/E(s)^2 for s = 1/chi^2 with nu degrees of freedom: a Student vector is a Gaussian one times s^(1/2)."""
    density, first, second = (carried_out(_student_moment(power)) for power in range(3))
    return cancel((second * density / first**2).gammasimp().subs(EXCESS, nu - 4))


ELLIPTICAL = Task(token_law=elliptical_of)


@register("V5-elliptical", "Elliptical tokens: the fixed points survive, with one number")
@states("fourth", lambda: kappa * (2 * Lambda * Sigma_w * Lambda + Trace(Sigma_w * Lambda) * Lambda))
@states("a", lambda: lambda_**2 * (1 + (2 * kappa - 1 + kappa * T / lambda_) / N))
@states("sphere", lambda: D / (D + 2))
@states("student", lambda: (nu - 2) / (nu - 4))
@states("gap", lambda: (
    N * (lambda_i - lambda_j) * ((N + 2 * kappa - 1) * lambda_i * lambda_j + kappa * T * (lambda_i + lambda_j))
    / (((N + 2 * kappa - 1) * lambda_i + kappa * T) * ((N + 2 * kappa - 1) * lambda_j + kappa * T))
))  # fmt: skip
@states("length", lambda: N * (lambda_ + T) / ((2 * kappa - 1) * lambda_ + kappa * T))
@given(
    r"$\boldsymbol{x} = \rho\boldsymbol{\Lambda}^{1/2}\boldsymbol{u}$ with $\boldsymbol{u}$ uniform on the unit sphere, an independent "
    r"length $\rho$ and $\mathbb{E}(\rho^2) = D$; $\rho_4 = \mathbb{E}(\rho^4)$",
    ROOT,
    EIGENVECTOR,
    pair(ELLIPTICAL),
    r"Sphere: $\rho^{2} = D$; student: $\nu > 4$ degrees of freedom; length: $\kappa > 1/3$, so not the sphere in $D = 1$",
)
def elliptical() -> Lines:
    """Average the Gaussian fourth moment over the length of the token."""
    a = ELLIPTICAL.eigenvalue
    gaussian = a.subs(kappa, 1).subs(N, N_d)
    length = solve(gaussian - a, N_d)[0]
    direction = root * g * (g.T * root * Sigma_w * root * g) * g.T * root / (g.T * g) ** 2
    square = _student_moment(2) * _student_moment(0) / _student_moment(1) ** 2
    student = _student()
    yield Line(square, "=", student.subs(nu, EXCESS + 4),
               r"Student's law with $m + 4$ degrees of freedom, $1/\chi^2$ times a Gaussian token squared")  # fmt: skip
    yield Line(nu, ":=", EXCESS + 4, "The degrees of freedom")
    yield Line(square, "=", student, "So for $\\nu$ of them", part="student")
    yield Line(D**2 / E((g.T * g) ** 2, Gaussian(g)), "=", cancel(D**2 / expect((g.T * g) ** 2, Gaussian(g)).to_sympy()),
               r"On the sphere $\rho^4 = D^2$; a Gaussian token has $\kappa = 1$", part="sphere")  # fmt: skip
    yield from off_diagonal(ELLIPTICAL).within({"gap": "gap"})[-4:-2]
    yield Line(gaussian.subs(N_d, length), "=", a, "Gaussian tokens have it at another length")
    yield Line(N_d, ":=", length, "This length")
    yield Line(N_d, "=", factor(length), "In factors", part="length")
    yield Line(length / N, "->", 1 / kappa, "The rarest direction", parameter=(lambda_, 0), order=1)
    yield Line((length / N).subs(T, lambda_), "=", cancel((length / N).subs(T, lambda_)), "A direction that holds all the variance")
    yield Line(kappa, ":=", rho_4 / (D * (D + 2)), "The number")
    yield Line(E(rho_4 * direction, Gaussian(g)), "=", elliptical_fourth(),
               r"The fourth moment of one token, in a direction $\boldsymbol{g}/|\boldsymbol{g}|$ independent of its length",
               part="fourth")  # fmt: skip
    yield Line(E(e.T * Lambda_hat**2 * e, tokens(elliptical_of)), "=", a, "The eigenvalue of the second moment", part="a")


R_entries = Matrix(2, 2, symbols("R_11 R_12 R_21 R_22"))
S_entries = Matrix([[Symbol("S_11"), Symbol("S_12")], [Symbol("S_12"), Symbol("S_22")]])
h_1, h_2 = symbols("h_1 h_2", positive=True)  # the roots of the kurtoses
COMPONENTS = tuple(MatrixLetter(f"z_{i}", 1, 1, f"z_{i}") for i in (1, 2))


def expected_entries() -> Matrix:
    """E(x x' S x x') entry by entry, not carried out, for x = R z in D = 2 with independent components z.

    They are 0 and +- h, of variance 1 and so of kurtosis h^2; of another law no more than these enters.
    """
    chance, roots = [1 / (2 * h**2) for h in (h_1, h_2)], zip(COMPONENTS, (h_1, h_2), strict=True)
    values = [((p, Fixed(z, h)), (p, Fixed(z, -h)), (1 - 2 * p, Fixed(z, 0))) for p, (z, h) in zip(chance, roots, strict=True)]
    token = [sum((R_entries[i, j] * TracePolynomial(COMPONENTS[j]) for j in (0, 1)), start=0) for i in (0, 1)]
    inner = sum((S_entries[i, j] * token[i] * token[j] for i in (0, 1) for j in (0, 1)), start=0)
    return Matrix(2, 2, lambda i, j: E(token[i] * inner * token[j], tuple(map(Mixture, values))))


def fourth_of_two() -> Matrix:
    """For the statement: the Gaussian value of the same, and what the kurtoses add."""
    L, inner = R_entries * R_entries.T, R_entries.T * S_entries * R_entries
    added = R_entries * diag((k_i - 3) * inner[0, 0], (k_j - 3) * inner[1, 1]) * R_entries.T
    return (2 * L * S_entries * L + (S_entries * L).trace() * L + added).expand()


def _mixed(point) -> None:
    square = point[mixing].T * point[mixing]
    point[Lambda] = point[mixing] * point[mixing].T
    point[D_R] = diagonal([square[d, d] for d in range(square.rows)])


MIXING = satisfying(
    r"$\boldsymbol{R}\boldsymbol{R}^\top = \boldsymbol{\Lambda}$, and $\boldsymbol{D}$ the diagonal of $\boldsymbol{R}^\top\boldsymbol{R}$",
    {mixing * mixing.T: Lambda},
    _mixed,
)
NOT_GAUSSIAN = Condition("$k \\ne 3$", lambda point: abs(point[kurtosis] - 3) > 0.01, outside=at(kurtosis, 3))


def _orthogonal_columns(point) -> None:
    _, vectors = eigenbasis(point)
    point[mixing] = stacked([[one * (1 + arb(point.rng.random())) for one in vectors]]).mid()
    _mixed(point)
    EIGENVECTOR.meet(point)


@register("V5-independent", "Tokens with independent components: what survives depends on the mixing and on the kurtoses")
@states("fourth", lambda: fourth_of_two())
@states("a", lambda: lambda_**2 * (1 + (kurtosis - 2 + T / lambda_) / N))
@states("Rademacher", lambda: lambda_**2 * (1 + (T / lambda_ - 1) / N))
@states("commutator", lambda: (kurtosis - 3) * (D_R * mixing.T * mixing - mixing.T * mixing * D_R))
@states("gap", lambda: (
    N * (lambda_i * lambda_j * ((N - 2 + k_j) * lambda_i - (N - 2 + k_i) * lambda_j) + T * (lambda_i**2 - lambda_j**2))
    / (((N + k_i - 2) * lambda_i + T) * ((N + k_j - 2) * lambda_j + T))
))  # fmt: skip
@given(
    r"$\boldsymbol{x} = \boldsymbol{R} \boldsymbol{z}$ with independent $z_{d}$ of mean 0, variance 1 and kurtosis $k$",
    MIXING,
    EIGENVECTOR,
    "Fourth: $D = 2$",
    r"a, gap and Rademacher ($k = 1$): $\boldsymbol{R}^\top\boldsymbol{R}$ is diagonal",
    r"Commutator: $\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{I})$ and equal kurtoses",
)
def independent() -> Lines:
    """The fourth moment entry by entry; then along an eigenvector."""
    a, L, square = PAPER.along(expect(Lambda_hat**2, tokens(independent_of))), mixing * mixing.T, mixing.T * mixing
    ratios = [(lambda_**3 / a).subs({lambda_: one, kurtosis: k}) for one, k in ((lambda_i, k_i), (lambda_j, k_j))]
    moment = 2 * Lambda**2 + Trace(Lambda) * Lambda + (kurtosis - 3) * mixing * D_R * mixing.T
    F, entries = substitute(moment, {Lambda: L}), expected_entries()
    found = entries.applyfunc(lambda one: carried_out(one).to_sympy()).subs({h_1: sqrt(k_i), h_2: sqrt(k_j)}).expand()
    yield Line(k_i, ":=", h_1**2, r"The components are $\pm h$ or 0; of their law only variance and kurtosis enter")
    yield Line(k_j, ":=", h_2**2, "The same for the other")
    yield Line(entries, "=", found, "The fourth moment for two components", part="fourth")
    yield Line(E(e.T * Lambda_hat**2 * e, tokens(independent_of)), "=", a,
               r"Along an eigenvector, a column of $\boldsymbol{R}$", part="a")  # fmt: skip
    yield Line(E(e.T * Lambda_hat**2 * e, tokens(partial(independent_of, k=1))), "=", cancel(a.subs(kurtosis, 1)),
               "Signs", part="Rademacher")  # fmt: skip
    yield Line(ratios[0] - ratios[1], "=", cancel(ratios[0] - ratios[1]), "The determinant of (T1c)", part="gap")
    yield Line(Lambda, "=", L, "The covariance of the tokens")
    yield Line(fourth, ":=", moment, r"The fourth moment for any $D$ and equal kurtoses, with $\boldsymbol{\Sigma}_w = \boldsymbol{I}$")
    yield Line(mixing.I * (fourth * Lambda - Lambda * fourth) * mixing.T.I, "=", TracePolynomial(mixing.I) * (F * L - L * F) * mixing.T.I,
               r"What keeps it from commuting with $\boldsymbol{\Lambda}$", uses=(-2,), part="commutator")  # fmt: skip
    yield Line(Line(fourth * Lambda, "=", Lambda * fourth), "<=>", Line(square * D_R, "=", D_R * square),
               r"So $\boldsymbol{M}$ commutes with $\boldsymbol{\Lambda}$ only for such mixings",
               meets=(_orthogonal_columns, _orthogonal_columns), conditions=(NOT_GAUSSIAN,))  # fmt: skip
