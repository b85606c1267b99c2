r"""Tokens that are not Gaussian (V5): only E(x x' Sigma_w x x') enters beside the covariance.

.. math::
    \mathbb E(\hat\Lambda^2) = \Bigl(1 - \frac1N\Bigr)\Lambda^2 + \frac1N\,\mathbb E\bigl(|x|^2xx^\top\bigr)

Elliptical tokens, x = Lambda^(1/2) times a vector of random length and uniform direction, multiply the Gaussian fourth moment by one
number kappa: D/(D + 2) on a sphere, (nu - 2)/(nu - 4) for Student's law. Tokens x = R z with independent components z_d of kurtosis k
add (k - 3) R diag(R' Sigma_w R) R'.
"""

from functools import cache

from sympy import (
    Expr,
    Identity,
    Matrix,
    Symbol,
    Trace,
    cancel,
    diag,
    exp,
    factor,
    gamma,
    integrate,
    oo,
    solve,
    symbols,
)

from ...algebra.polynomial import TracePolynomial
from ...calculus.spectral import along
from ...calculus.substitution import collect, substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...expectation.laws import Gaussian
from ...expectation.moments import expect
from ...notation import D, Lambda, N, T, lambda_, matrix, sigma, vector
from ..task.population import Sigma_w, any_tokens, fourth

__all__ = [
    "any_second_moment",
    "elliptical_eigenvalue",
    "elliptical_fourth",
    "gaussian_fourth",
    "independent_eigenvalue",
]

kappa = Symbol(
    "kappa", positive=True
)  # E(rho^4) D / ((D + 2) E(rho^2)^2) of an elliptical law, rho the length of the whitened token
kurtosis = Symbol("k", positive=True)  # E(z^4) of an independent component of unit variance
nu = Symbol("nu", positive=True)  # degrees of freedom
N_d = Symbol("N_d", positive=True)  # the length at which Gaussian tokens have the same a_d
x = vector("x", D)
mixing = matrix("R", D)  # x = R z
D_R = matrix("D_R", D, latex=r"\boldsymbol{D}")  # the diagonal part of R' R
lambda_i, lambda_j, k_i, k_j = symbols("lambda_i lambda_j k_i k_j", positive=True)


@cache
def gaussian_fourth() -> TracePolynomial:
    """E(x x' Sigma_w x x') of a Gaussian token."""
    return expect(x * (x.T * Sigma_w * x) * x.T, Gaussian(x, covariance=Lambda))


@cache
def elliptical_fourth() -> TracePolynomial:
    """The same of an elliptical token: given its scale a token is Gaussian of covariance s Lambda, with E(s) = 1 and E(s^2) = kappa."""
    scale = Symbol("s", positive=True)
    given = expect(x * (x.T * Sigma_w * x) * x.T, Gaussian(x, covariance=scale * Lambda))
    orders = collect(given, scale)
    if sorted(orders) != [2]:
        raise ArithmeticError(f"the fourth moment has the orders {sorted(orders)} in the scale")
    return kappa * orders[2]


@cache
def any_second_moment() -> TracePolynomial:
    """E(Lambda_hat^2) for tokens of any law; the letter F is E(|x|^2 x x')."""
    return substitute(any_tokens().M, {Sigma_w: Identity(D), sigma: 0})


@cache
def _along(fourth_moment: TracePolynomial) -> Expr:
    moment = substitute(any_second_moment(), {fourth: substitute(fourth_moment, {Sigma_w: Identity(D)})})
    return along(moment, {Lambda: lambda_}, traces={Trace(Lambda): T})


@cache
def elliptical_eigenvalue() -> Expr:
    """a for elliptical tokens."""
    return _along(elliptical_fourth())


@cache
def independent_eigenvalue() -> Expr:
    """a for components that are independent in the eigenbasis of Lambda, R = Lambda^(1/2), all of kurtosis k."""
    return _along(gaussian_fourth() + (kurtosis - 3) * Lambda * Sigma_w * Lambda)


@register(
    "V5-moment",
    "Second moment of the sample covariance for tokens of any law",
    kind="exact",
    section="beyond the paper",
    left={
        "general": r"\mathbb{E}(\boldsymbol{\beta\beta}^\top)",
        "second": r"\mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)",
        "Gaussian": r"\boldsymbol{F}",
        "check": r"\mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)",
    },
    typed=lambda: {
        "general": (1 - 1 / N) * Lambda * Sigma_w * Lambda + fourth / N + sigma**2 / N * Lambda,
        "second": (1 - 1 / N) * Lambda**2 + fourth / N,
        "Gaussian": 2 * Lambda * Sigma_w * Lambda + Trace(Sigma_w * Lambda) * Lambda,
        "check": Lambda**2 + (Lambda**2 + Trace(Lambda) * Lambda) / N,
    },
    conditions=(
        r"$\boldsymbol{F}=\mathbb{E}(\boldsymbol{xx}^\top\boldsymbol{\Sigma}_w\boldsymbol{xx}^\top)$ of one token",
        (r"In the second line $\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{I})$ without noise, where it is "
        r"$\mathbb{E}(|\boldsymbol{x}|^2\boldsymbol{xx}^\top)$"),
        "Independent tokens of mean zero with four moments",
    ),
)  # fmt: skip
def any_law() -> Derivation:
    """Pairs of different tokens need the covariance only; a token with itself its fourth moment."""
    gaussian = substitute(gaussian_fourth(), {Sigma_w: Identity(D)})
    return Derivation.by(
        Step("Pairs of different tokens, and of a token with itself", any_tokens().M, part="general"),
        Step("The paper's task vectors, no noise", any_second_moment(), part="second"),
        Step("The fourth moment of a Gaussian token", gaussian_fourth(), part="Gaussian"),
        Step("It gives back (31)", substitute(any_second_moment(), {fourth: gaussian}), part="check"),
    )


def _sphere() -> Expr:
    """E|g|^4 of a standard Gaussian g is kappa^-1 times D^2, for g is a point on the sphere times an independent length."""
    g = vector("g", D)
    return cancel(D**2 / expect((g.T * g) ** 2, Gaussian(g)).to_sympy())


def _student() -> Expr:
    """E(s^2)/E(s)^2 for s = 1/chi^2 with nu degrees of freedom: a Student vector is a Gaussian one times s^(1/2)."""
    c, excess = Symbol("c", positive=True), Symbol("m", positive=True)  # nu = excess + 4, where the moments exist
    density = c ** (excess / 2 + 1) * exp(-c / 2)
    norm, first, second = (integrate(density * c**-power, (c, 0, oo)) for power in (0, 1, 2))
    return cancel((second * norm / first**2).rewrite(gamma).gammasimp().subs(excess, nu - 4))


@register(
    "V5-elliptical",
    "Elliptical tokens: everything survives, with one number",
    kind="exact",
    section="beyond the paper",
    left={
        "fourth": r"\boldsymbol{F}",
        "a": "a_d",
        "sphere": r"\kappa",
        "student": r"\kappa",
        "gap": r"\frac{\lambda_i^3}{a_i}-\frac{\lambda_j^3}{a_j}",
        "length": "N_d",
    },
    typed=lambda: {
        "fourth": kappa * (2 * Lambda * Sigma_w * Lambda + Trace(Sigma_w * Lambda) * Lambda),
        "a": lambda_**2 * (1 + (2 * kappa - 1 + kappa * T / lambda_) / N),
        "sphere": D / (D + 2),
        "student": (nu - 2) / (nu - 4),
        "gap": N * (lambda_i - lambda_j) * ((N + 2 * kappa - 1) * lambda_i * lambda_j + kappa * T * (lambda_i + lambda_j))
        / (((N + 2 * kappa - 1) * lambda_i + kappa * T) * ((N + 2 * kappa - 1) * lambda_j + kappa * T)),
        "length": N * (lambda_ + T) / ((2 * kappa - 1) * lambda_ + kappa * T),
    },
    conditions=(
        (r"$\boldsymbol{x} = \boldsymbol{\Lambda}^{1/2}$ times a vector of uniform direction and independent "
        r"random length; covariance $\boldsymbol{\Lambda}$"),
        r"sphere: $|\boldsymbol{\Lambda}^{-1/2} \boldsymbol{x}|^{2} = D$; student: $\nu > 4$ degrees of freedom",
        (r"$\boldsymbol{M}$ commutes with $\boldsymbol{\Lambda}$, and $\lambda^{3}/a$ rises for every $N$ and "
        r"$\kappa$"),
        "So directions, their order and the count of fixed points are as for Gaussian tokens",
        (r"$\kappa = 1$ for Gaussian tokens; heavy tails, $\kappa > 1$, act as a shorter context, shorter by "
        "another factor for each direction"),
        (r"length: Gaussian contexts of $N_{d}$ tokens have the same $a_{d}$; $N_{d}/N$ goes from $1/\kappa$ for "
        r"the rarest direction to 2/(3 $\kappa -$ 1) for one that holds all the variance"),
    ),
)  # fmt: skip
def elliptical() -> Derivation:
    """Average the Gaussian fourth moment over the scale of the token."""
    ratio = cancel(lambda_**3 / elliptical_eigenvalue())
    gaussian = elliptical_eigenvalue().subs(kappa, 1).subs(N, N_d)
    return Derivation.by(
        Step("The fourth moment of one token, averaged over its scale", elliptical_fourth(), part="fourth"),
        Step("The eigenvalue of the second moment", elliptical_eigenvalue(), part="a"),
        Step("On the sphere", _sphere(), part="sphere"),
        Step("Student's law", _student(), part="student"),
        Step("The determinant of (T1c)", factor(cancel(ratio.subs(lambda_, lambda_i) - ratio.subs(lambda_, lambda_j))), part="gap"),
        Step("The length at which Gaussian tokens have it", factor(solve(gaussian - elliptical_eigenvalue(), N_d)[0]), part="length"),
    )  # fmt: skip


def independent_entries() -> Matrix:
    """E(x x' S x x') for x = R z in D = 2; the components of z are independent, of variance 1 and kurtosis k_i and k_j."""
    R = Matrix(2, 2, symbols("R_11 R_12 R_21 R_22"))
    S = Matrix([[Symbol("S_11"), Symbol("S_12")], [Symbol("S_12"), Symbol("S_22")]])
    z = Matrix(symbols("z_1 z_2"))
    moments = {0: 1, 1: 0, 2: 1, 3: 0}
    token = R * z
    return (token * token.T * S * token * token.T).applyfunc(
        lambda entry: sum(
            coefficient
            * moments.get(powers[0], k_i if powers[0] == 4 else None)
            * moments.get(powers[1], k_j if powers[1] == 4 else None)
            for powers, coefficient in entry.as_poly(*z).terms()
        )
    )


def _gaussian_entries() -> tuple[Matrix, Matrix]:
    """The Gaussian value of the same, and what the kurtoses add."""
    R = Matrix(2, 2, symbols("R_11 R_12 R_21 R_22"))
    S = Matrix([[Symbol("S_11"), Symbol("S_12")], [Symbol("S_12"), Symbol("S_22")]])
    L = R * R.T
    inner = R.T * S * R
    return 2 * L * S * L + (S * L).trace() * L, R * diag((k_i - 3) * inner[0, 0], (k_j - 3) * inner[1, 1]) * R.T


@register(
    "V5-independent",
    "Tokens with independent components: what survives depends on the mixing and on the kurtoses",
    kind="exact",
    section="beyond the paper",
    left={
        "fourth": r"\boldsymbol{F}",
        "a": "a_d",
        "Rademacher": "a_d",
        "commutator": r"\boldsymbol{R}^{-1}[\boldsymbol{F},\boldsymbol{\Lambda}]\boldsymbol{R}^{-\top}",
        "gap": r"\frac{\lambda_i^3}{a_i}-\frac{\lambda_j^3}{a_j}",
    },
    typed=lambda: {
        "fourth": sum(_gaussian_entries(), Matrix.zeros(2, 2)).applyfunc(lambda entry: entry.expand()),
        "a": lambda_**2 * (1 + (kurtosis - 2 + T / lambda_) / N),
        "Rademacher": lambda_**2 * (1 + (T / lambda_ - 1) / N),
        "commutator": (kurtosis - 3) * (D_R * mixing.T * mixing - mixing.T * mixing * D_R),
        "gap": N
        * (
            lambda_i * lambda_j * ((N - 2 + k_j) * lambda_i - (N - 2 + k_i) * lambda_j)
            + T * (lambda_i**2 - lambda_j**2)
        )
        / (((N + k_i - 2) * lambda_i + T) * ((N + k_j - 2) * lambda_j + T)),
    },
    conditions=(
        (r"$\boldsymbol{x} = R \boldsymbol{z}$, $R R^{\top} = \boldsymbol{\Lambda}$, with independent "
        r"$\boldsymbol{z}_{d}$ of variance 1, odd moments 0 and kurtosis $\boldsymbol{k}$"),
        r"The first line is for a generic pair, with kurtoses $\boldsymbol{k}_{i}$ and $\boldsymbol{k}_{j}$",
        (r"$F = 2 \boldsymbol{\Lambda} \Sigma_{w} \boldsymbol{\Lambda} + \operatorname{tr}(\Sigma_{w} "
        r"\boldsymbol{\Lambda}) \boldsymbol{\Lambda} + (\boldsymbol{k} - 3) R \operatorname{diag}(R^{\top} "
        r"\Sigma_{w} R) R^{\top}$"),
        (r"$a$ and Rademacher $(\boldsymbol{k} =$ 1): $R = \boldsymbol{\Lambda}^{1/2}$; there $\boldsymbol{M}$ "
        r"commutes with $\boldsymbol{\Lambda}$, and for equal kurtoses $\lambda^{3}/a$ rises"),
        (r"commutator: for $\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{I})$, with $\boldsymbol{D} = "
        r"\operatorname{diag}(R^{\top} R)$: $\boldsymbol{M}$ commutes with $\boldsymbol{\Lambda}$ if and only if "
        r"$R^{\top} R$ commutes with its diagonal"),
        ("So columns of $R$ of different lengths must be orthogonal; otherwise what is learned are not "
        r"eigenvectors of $\boldsymbol{\Lambda}$, but (V2-fixed) still counts $2^{D}$"),
        "gap: unequal kurtoses can bring the directions into another order, or make the gap vanish",
    ),
)  # fmt: skip
def independent() -> Derivation:
    """The fourth moment entry by entry; then along an eigenvector."""
    computed = independent_entries()
    a = independent_eigenvalue()
    ratios = [
        cancel((lambda_**3 / a).subs({lambda_: one, kurtosis: k})) for one, k in ((lambda_i, k_i), (lambda_j, k_j))
    ]
    L = mixing * mixing.T
    F = 2 * L * L + Trace(L) * L + (kurtosis - 3) * mixing * D_R * mixing.T
    commutator = TracePolynomial(mixing.I) * (TracePolynomial(F) * L - TracePolynomial(L) * F) * mixing.T.I
    return Derivation.by(
        Step("The fourth moment for two components", computed.applyfunc(lambda entry: entry.expand()), part="fourth"),
        Step("Along an eigenvector, where $R$ is diagonal", a, part="a"),
        Step("Signs", cancel(a.subs(kurtosis, 1)), part="Rademacher"),
        Step(r"What keeps the fourth moment from commuting with $\boldsymbol{\Lambda}$", commutator, part="commutator"),
        Step("The determinant of (T1c)", cancel(ratios[0] - ratios[1]), part="gap"),
    )
