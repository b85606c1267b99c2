r"""Laws that differ between context and query, or between training and test (V3).

The loss of an effective map B is a quadratic form in the moments of the test law, so the test loss of any trained B is closed:

.. math::
    \mathcal L_{\rm test}(B) = \operatorname{tr}(\Sigma\Lambda_q) + \sigma^2 - 2\operatorname{tr}(\Lambda_q\Sigma\Lambda B)
        + \operatorname{tr}(B^\top MB\Lambda_q)

with the test's own Lambda, Lambda_q, Sigma_w, sigma and N. Training on another query law moves neither the minimum nor, where the
covariances commute, any fixed point: it reorders them.
"""

from functools import cache

from sympy import Expr, Identity, Symbol, Trace, cancel, limit, solve

from ...algebra.polynomial import TracePolynomial
from ...calculus.spectral import along, second_moment_along, summand
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...expectation.moments import expect
from ...notation import B, D, Lambda, Lambda_q, M, N, T, a, beta, lambda_, sigma, x_q, y_q
from ..landscape.any_quadratic_loss import A_any, Q_any, any_force, any_loss, c_any
from ..landscape.fixed_points import fixed_map_along
from ..task.population import GENERAL_LAWS, Sigma_w, general_moments

__all__ = ["test_loss"]

lambda_q = Symbol("lambda_q", positive=True)
N_test = Symbol("N'", integer=True, positive=True)
a_test = Symbol("a'", positive=True)  # the eigenvalue of the test's E(Lambda_hat^2)
g = Symbol("g", positive=True)
E_learned = Symbol("E", positive=True)  # tr(A' B) = tr(B' M B Q), what B has taken from the loss
nu = Symbol("nu", nonnegative=True)  # the part of tr(B' M B Q) that label noise makes
b = Symbol("b", real=True)


@cache
def test_loss() -> TracePolynomial:
    """The loss of B under the general laws, which are those of the test."""
    return expect((y_q - beta.T * B * x_q) ** 2, GENERAL_LAWS)


@register(
    "V3-test",
    "The test loss of any trained effective map",
    kind="exact",
    section="beyond the paper",
    left=r"\mathcal{L}_{\mathrm{test}}",
    typed=lambda: (
        Trace(Sigma_w * Lambda_q)
        + sigma**2
        - 2 * Trace(Lambda_q * Sigma_w * Lambda * B)
        + (1 + 1 / N) * Trace(B.T * Lambda * Sigma_w * Lambda * B * Lambda_q)
        + (Trace(Sigma_w * Lambda) + sigma**2) / N * Trace(B.T * Lambda * B * Lambda_q)
    ),
    conditions=(
        (
            r"All letters but $\boldsymbol{B}$ are the test's: $\boldsymbol{\Lambda}$ of the context, "
            r"$\boldsymbol{\Lambda}_{q}$ of the query, $\Sigma_{w}$, $\sigma$ and $N$"
        ),
        "Gaussian tokens in the context; of the query only the covariance matters",
        r"It includes the $\sigma^{2}$ of the query's own label",
    ),
)
def shifted_loss() -> Derivation:
    """The squared error averaged under the test's laws."""
    return Derivation.by(
        Step("The squared error", (y_q - beta.T * B * x_q) ** 2),
        Step("Averaged over query, task, noise and context", test_loss()),
    )


@register(
    "V3-query",
    "A query law of its own changes the order of learning, not what is learned",
    kind="exact",
    section="beyond the paper",
    left={
        "minimum": r"\boldsymbol{M}^{-1}\boldsymbol{A}\boldsymbol{Q}^{-1}",
        "map": "B_d",
        "rate": "A_d",
        "drop": "s_d^2",
    },
    typed=lambda: {
        "minimum": M.I * Lambda * Sigma_w,
        "map": lambda_ / a,
        "rate": lambda_ * lambda_q,
        "drop": lambda_**2 * lambda_q / a,
    },
    conditions=(
        r"minimum: any covariances, noise and length, if $\boldsymbol{\Lambda}_{q}$ is positive definite",
        (
            r"The rest: $\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{I})$, $\boldsymbol{\Lambda}$ and "
            r"$\boldsymbol{\Lambda}_{q}$ commute, $\lambda_{q}$ is the eigenvalue of $\boldsymbol{\Lambda}_{q}$ "
            r"beside $\lambda$"
        ),
        (
            r"Largest rate first: $\lambda \lambda_{q}$; and a drop of $\lambda_{q} /$ ((1 $+ 1/N) +$ T/(N "
            r"$\lambda))$, which may order otherwise"
        ),
    ),
)
def query_law() -> Derivation:
    """M^-1 A Q^-1 and its parts along a common eigenvector."""
    A, _, Q, _ = general_moments()
    plain = substitute(A, {Sigma_w: Identity(D)})
    rate = along(plain, {Lambda: lambda_, Lambda_q: lambda_q})
    force = along(substitute(any_force(), {A_any: plain, Q_any: Q}), {Lambda: lambda_, Lambda_q: lambda_q, M: a, B: b})
    (map_,) = solve(force, b)
    return Derivation.by(
        Step("The minimum: the query's covariance cancels", TracePolynomial(M.I) * A * Q.reciprocal(), part="minimum"),
        Step("Along a common eigenvector", map_, part="map"),
        Step("The force at zero weights", rate, part="rate"),
        Step("What the direction takes from the loss", cancel(rate * map_), part="drop"),
    )


@cache
def length_share() -> Expr:
    """The share of one direction in the loss at test length N', for the map lambda/a learned at length N."""
    share = summand(any_loss() - c_any, {A_any: lambda_**2, M: a_test, Q_any: lambda_, B: fixed_map_along()})
    return lambda_ + share


@register(
    "V3-length",
    "A test context of another length",
    kind="exact",
    section="beyond the paper",
    left={"share": r"\ell_d", "slope": r"\tfrac{d\ell_d}{d(1/N')}", "limit": r"\lim_{N'\to\infty}\ell_d", "excess": r"\ell_d-\ell_d^*"},
    typed=lambda: {
        "share": lambda_ - 2 * lambda_**3 / a + lambda_**3 * a_test / a**2,
        "slope": lambda_**4 * (lambda_ + T) / a**2,
        "limit": lambda_ * (1 - lambda_**2 / a) ** 2,
        "excess": lambda_**3 * (a_test - a) ** 2 / (a**2 * a_test),
    },
    conditions=(
        (r"The share of a direction learned at length $N$ in the loss at length $N^{\top}$; a' is the eigenvalue "
        r"(32) for $N^{\top}$"),
        (r"The loss falls linearly in $1/N^{\top}$: longer test contexts always help, and more than $N^{\top} = N$ "
        "promised"),
        r"excess: over the share of the best map for $N^{\top}$, which no map learned at another length reaches",
        r"At $N^{\top} = \infty$ a bias is left, of the second order in $1/N$",
    ),
)  # fmt: skip
def test_length() -> Derivation:
    """The loss (V3-test) along an eigenvector with the map of training and the moments of the test."""
    y = Symbol("y", positive=True)
    longer = second_moment_along().subs(N, 1 / y)
    best = lambda_ + summand(any_loss() - c_any, {A_any: lambda_**2, M: a_test, Q_any: lambda_, B: lambda_ / a_test})
    return Derivation.by(
        Step("The share of a learned direction", length_share(), part="share"),
        Step(r"With the moment (32), its slope in $1/N^{\top}$", cancel(length_share().subs(a_test, longer).diff(y)), part="slope"),
        Step("A long test context", limit(length_share().subs(a_test, longer), y, 0), part="limit"),
        Step("Over the best map for the test's length", cancel(length_share() - best), part="excess"),
    )  # fmt: skip


@cache
def scaled_loss() -> tuple[Expr, Expr]:
    """The loss with the context scaled by g, and with the query scaled too, at a map with tr(A' B) = tr(B' M B Q) = E."""
    A, M_, _, _ = general_moments()
    scaled_A, scaled_M = (substitute(part, {Lambda: g * Lambda}) for part in (A, M_))
    noise = scaled_M - g**2 * M_  # the noise of the context grows as g, the rest of M as g^2
    if scaled_A != g * A or noise != g * (1 - g) * sigma**2 / N * Lambda:
        raise ArithmeticError(f"{scaled_A} and {scaled_M} do not scale as expected")
    noisy = g * (1 - g) * Trace(B.T * Lambda * B * Q_any) * sigma**2 / N
    scaled = substitute(any_loss(), {A_any: g * A_any, M: g**2 * M}) + noisy
    cross, square = TracePolynomial(Trace(A_any.T * B)), TracePolynomial(Trace(B.T * M * B * Q_any))
    if scaled != c_any - 2 * g * cross + g**2 * square + noisy:
        raise ArithmeticError(f"the scaled loss {scaled} is not of the form expected")
    gain = -2 * g * E_learned + g**2 * E_learned + g * (1 - g) * nu
    return c_any + gain, g * (c_any - sigma**2 + gain) + sigma**2


@register(
    "V3-scale",
    "Covariance shift: context tokens scaled at test",
    kind="exact",
    section="beyond the paper",
    left={
        "moments": r"\boldsymbol{A}",
        "second": r"\boldsymbol{M}",
        "loss": r"\mathcal{L}_{\mathrm{test}}",
        "both": r"\mathcal{L}_{\mathrm{test}}",
        "break-even": "g",
    },
    typed=lambda: {
        "moments": g * Lambda * Sigma_w * Lambda_q,
        "second": g**2 * ((1 + 1 / N) * Lambda * Sigma_w * Lambda + Trace(Sigma_w * Lambda) / N * Lambda)
        + g * sigma**2 / N * Lambda,
        "loss": c_any - g * (2 - g) * E_learned - g * (g - 1) * nu,
        "both": sigma**2 + g * (c_any - sigma**2 - g * (2 - g) * E_learned - g * (g - 1) * nu),
        "break-even": (2 * E_learned - nu) / (E_learned - nu),
    },
    conditions=(
        (
            r"The context's covariance is $g \boldsymbol{\Lambda}$ at test; task vectors, label noise and length as "
            "in training"
        ),
        (
            r"$\boldsymbol{B}$ is any fixed point of training, of separate or merged attention: E $= "
            r"\operatorname{tr}(A^{\top} \boldsymbol{B}) = \operatorname{tr}(\boldsymbol{B}^{\top} \boldsymbol{M} "
            r"\boldsymbol{B} \boldsymbol{Q})$, $c -$ E is its training loss"
        ),
        (
            r"$\nu = \sigma^{2}/N \operatorname{tr}(\boldsymbol{B}^{\top} \boldsymbol{\Lambda} \boldsymbol{B} "
            r"\boldsymbol{Q})$, what the noise of the context's labels adds to the training loss"
        ),
        r"both: the query's covariance is $g \boldsymbol{\Lambda}_{q}$ too",
        (
            "Beyond break-even, $g = 2$ without noise and more with it, the network is worse than answering 0; its "
            "loss grows as $g^{2}$, or $g^{3}$ with the query"
        ),
    ),
)
def scaled_context() -> Derivation:
    """Scale Lambda in the moments, and use that B' G = 0 at a fixed point."""
    scaled = [substitute(part, {Lambda: g * Lambda}) for part in general_moments()[:2]]
    loss, both = scaled_loss()
    even = [root for root in solve(loss - c_any, g) if root != 0]
    return Derivation.by(
        Step("The correlation of target and feature", scaled[0], part="moments"),
        Step(r"The second moment of $\boldsymbol{\beta}$", scaled[1], part="second"),
        Step(
            (
                r"So the loss, with E for $\operatorname{tr}(A^{\top} \boldsymbol{B})$ and for "
                r"$\operatorname{tr}(\boldsymbol{B}^{\top} \boldsymbol{M} \boldsymbol{B} \boldsymbol{Q})$"
            ),
            loss,
            part="loss",
        ),
        Step("A query scaled as well multiplies all but its own noise by $g$", both, part="both"),
        Step("It is $c$ again, the loss of no answer, at", even[0], part="break-even"),
    )
