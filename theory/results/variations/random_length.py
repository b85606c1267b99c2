r"""Contexts of random length n, drawn anew for every sequence, and what their sums are divided by (V4).

Attention sees g_n times the average over the n tokens there are. The gain g_n is 1 where it divides by the tokens that are present, n/N
where by the longest context, and n/(n + 1) where by all tokens with the query among them, as the official code does with ``vary_len``.

.. math::
    g_1 = \mathbb E(g_n), \quad g_2 = \mathbb E(g_n^2), \quad g_3 = \mathbb E(g_n^2/n), \qquad
    \mathcal L(B) = (1 - \varrho)\,c + \varrho\,\mathcal L_{N_e}\bigl(\tfrac{g_2}{g_1}B\bigr), \quad
    N_e = \frac{g_2}{g_3}, \quad \varrho = \frac{g_1^2}{g_2}

So a random length is one fixed length with drops that are smaller by a factor: by none for the gain 1, where the length is the harmonic
mean. Gains that differ add an error that no map avoids: with n/N and n uniform a quarter of the loss stays, however long the contexts.
"""

from functools import cache

from sympy import Expr, Identity, Rational, Sum, Symbol, Trace, apart, cancel, harmonic, limit, oo

from ...algebra.polynomial import TracePolynomial
from ...calculus.spectral import along, over_directions
from ...calculus.substitution import collect, substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import B, D, Lambda, Lambda_q, N, T, lambda_, learned, sigma
from ..task.population import PopulationMoments, Sigma_w, any_tokens, general_moments

__all__ = ["averaged", "uniform_gains"]

n = Symbol("n", integer=True, positive=True)
nu = Symbol("nu", positive=True)  # E(1/n)
g_1, g_2, g_3 = (Symbol(name, positive=True) for name in ("g_1", "g_2", "g_3"))  # E(g), E(g^2), E(g^2/n)
g_n = Symbol("g_n", positive=True)
NORMALISATIONS = (
    "present: divided by the $n$ tokens there are, $g_n = 1$; longest: by $N$, $g_n = n/N$; official: by $n + 1$, "
    "the query counted as a token, $g_n = n/(n + 1)$, as in the official code with vary-len"
)
H, H_2 = harmonic(N + 1), harmonic(N + 1, 2)


def of_length(moments: PopulationMoments) -> PopulationMoments:
    """The moments given the length N = n, with the gain of the normalisation: beta is multiplied by it."""
    A, M, Q, c = moments
    return PopulationMoments(A * g_n, M * g_n**2, Q, c)


def averaged(moments: PopulationMoments) -> PopulationMoments:
    """The moments of a fixed length N, averaged over lengths and their gains: in g_1, g_2 and g_3 in place of N."""
    A, M, Q, c = moments
    orders = collect(M, N)
    if not set(orders) <= {-1, 0} or any(set(collect(one, N)) != {0} for one in (A, Q, c)):
        raise ArithmeticError(f"averaged: the second moment must be of orders 0 and -1 in N, got {sorted(orders)}")
    return PopulationMoments(A * g_1, orders[0] * g_2 + orders[-1] * g_3, Q, c)


@cache
def gain_moments() -> PopulationMoments:
    """A, M, Q and c of Gaussian tokens, averaged over the length."""
    return averaged(general_moments())


@cache
def any_gain_moments() -> PopulationMoments:
    """The same for tokens of any law."""
    return averaged(any_tokens())


@register(
    "V4-moments",
    "The moments for contexts of random length",
    kind="exact",
    section="beyond the paper",
    left={"A": r"\boldsymbol{A}", "M": r"\boldsymbol{M}", "present, A": r"\boldsymbol{A}", "present, M": r"\boldsymbol{M}"},
    typed=lambda: {
        "A": g_1 * Lambda * Sigma_w * Lambda_q,
        "M": g_2 * Lambda * Sigma_w * Lambda + g_3 * (Lambda * Sigma_w * Lambda + (Trace(Sigma_w * Lambda) + sigma**2) * Lambda),
        "present, A": Lambda * Sigma_w * Lambda_q,
        "present, M": Lambda * Sigma_w * Lambda + nu * (Lambda * Sigma_w * Lambda + (Trace(Sigma_w * Lambda) + sigma**2) * Lambda),
    },
    conditions=(
        (r"$g_{1} = \mathbb{E}(g_{n})$, $g_{2} = \mathbb{E}(g_{n}^{2})$, $g_{3} = \mathbb{E}(g_{n}^{2}/n)$, for "
        "any law of $n$, independent of the sequence, and any gains $g_{n} > 0$"),
        r"present: the average over the tokens there are, $g_{n} = 1$, with $\nu = \mathbb{E}(1/n)$",
        r"So with $g_{n} = 1$ everything is as for one length, the harmonic mean $1/\nu$",
    ),
)  # fmt: skip
def random_moments() -> Derivation:
    """The moments given the length are linear in g_n, g_n^2 and g_n^2/n."""
    A, M, _, _ = gain_moments()
    plain = {g_1: 1, g_2: 1, g_3: nu}
    return Derivation.by(
        Step(r"Given the length $N = n$, the second moment of $\boldsymbol{\beta}$", of_length(general_moments()).M),
        Step("The correlation of target and feature, averaged over $n$", A, part="A"),
        Step(r"The second moment of $\boldsymbol{\beta}$, averaged over $n$", M, part="M"),
        Step("The same for the average over the tokens there are", substitute(A, plain), part="present, A"),
        Step("Its second moment", substitute(M, plain), part="present, M"),
    )


@cache
def uniform_gains() -> dict[str, tuple[Expr, Expr, Expr]]:
    """g_1, g_2, g_3 for n uniform on 1, ..., N, by normalisation."""
    gains = {"present": n / n, "longest": n / N, "official": n / (n + 1)}
    return {name: (_uniform_mean(g), _uniform_mean(g**2), _uniform_mean(g**2 / n)) for name, g in gains.items()}


def _uniform_mean(term: Expr) -> Expr:
    """The mean over n = 1, ..., N; terms in 1/(n + 1) are counted from m = n + 1, which begins at m = 1 where they vanish at n = 0."""
    counted = apart(term.subs(n, n - 1), n) if term.has(n + 1) else term
    last = N + 1 if term.has(n + 1) else N
    if term.has(n + 1) and term.subs(n, 0) != 0:
        raise ArithmeticError(f"_uniform_mean: {term} should vanish at n = 0")
    return cancel(Sum(counted, (n, 1, last)).doit() / N)


@register(
    "V4-uniform",
    "The uniform law on 1, ..., $N$",
    kind="exact",
    section="beyond the paper",
    left={
        "present, g_3": r"\mathbb{E}(1/n)",
        "longest, g_1": r"\mathbb{E}(g_n)",
        "longest, g_2": r"\mathbb{E}(g_n^2)",
        "longest, g_3": r"\mathbb{E}(g_n^2/n)",
        "official, g_1": r"\mathbb{E}(g_n)",
        "official, g_2": r"\mathbb{E}(g_n^2)",
        "official, g_3": r"\mathbb{E}(g_n^2/n)",
    },
    typed=lambda: {
        "present, g_3": harmonic(N) / N,
        "longest, g_1": (N + 1) / (2 * N),
        "longest, g_2": (N + 1) * (2 * N + 1) / (6 * N**2),
        "longest, g_3": (N + 1) / (2 * N**2),
        "official, g_1": (N + 1 - H) / N,
        "official, g_2": (N + 1 - 2 * H + H_2) / N,
        "official, g_3": (H - H_2) / N,
    },
    conditions=(
        NORMALISATIONS,
        r"$H_N=\sum_{n\le N}1/n$, $H_N^{(2)}=\sum_{n\le N}1/n^2$",
        (
            r"The official code with $\mathrm{vary}_{len}$ adds up the losses of the prefixes of 1 to $N$ tokens, "
            "each followed by its query: $N$ times the loss with the gains n/(n $+$ 1), so that a step of lr is one "
            r"of $N$ lr on it and advances $t/\tau$ by 2 $N$ lr"
        ),
    ),
)
def uniform_law() -> Derivation:
    """Sums over n."""
    names = {
        "longest": "The sum divided by the longest context",
        "official": "The sum divided by all tokens, the query counted",
    }
    return Derivation.by(
        Step("The average over the tokens there are", uniform_gains()["present"][2], part="present, g_3"),
        *(
            Step(f"{words}, moment {i}", uniform_gains()[name][i - 1], part=f"{name}, g_{i}")
            for name, words in names.items()
            for i in (1, 2, 3)
        ),
    )


def _length(gains: tuple[Expr, Expr, Expr]) -> Expr:
    """N_e."""
    return cancel(gains[1] / gains[2])


def _share(gains: tuple[Expr, Expr, Expr]) -> Expr:
    """rho."""
    return cancel(gains[0] ** 2 / gains[1])


@register(
    "V4-effective",
    "The fixed length that a random one acts like",
    kind="exact",
    section="beyond the paper",
    left={
        "loss": r"\mathcal{L}\bigl(\tfrac{g_1}{g_2}\boldsymbol{B}\bigr)",
        "present, length": "N_e",
        "longest, length": "N_e",
        "official, length": "N_e",
        "longest, share": r"\varrho",
        "official, share": r"\varrho",
        "longest, limit": r"\lim_{N\to\infty}\varrho",
    },
    typed=lambda: {
        "loss": Trace(Sigma_w * Lambda_q)
        + sigma**2
        - g_1**2
        / g_2
        * (
            2 * Trace(Lambda_q * Sigma_w * Lambda * B)
            - (1 + g_3 / g_2) * Trace(B.T * Lambda * Sigma_w * Lambda * B * Lambda_q)
            - (Trace(Sigma_w * Lambda) + sigma**2) * (g_3 / g_2) * Trace(B.T * Lambda * B * Lambda_q)
        ),
        "present, length": N / harmonic(N),
        "longest, length": (2 * N + 1) / 3,
        "official, length": (N + 1 - 2 * H + H_2) / (H - H_2),
        "longest, share": 3 * (N + 1) / (2 * (2 * N + 1)),
        "official, share": (N + 1 - H) ** 2 / (N * (N + 1 - 2 * H + H_2)),
        "longest, limit": Rational(3, 4),
    },
    conditions=(
        (r"$N_e=g_2/g_3$, $\varrho=g_1^2/g_2\le1$: with $\mathcal{L}_{N_e}$ of (V0) at $N = N_{e}$, the loss is "
        r"$(1-\varrho)c+\varrho\mathcal{L}_{N_e}(\boldsymbol{B})$, at every effective map"),
        NORMALISATIONS + "; n uniform on 1, ..., N",
        (r"$(1-\varrho)c$ is the price of gains that differ, which no map avoids: none for $g_{n} = 1$, a quarter "
        "of $c$ for long contexts divided by the longest"),
    ),
)  # fmt: skip
def effective_length() -> Derivation:
    """Measure the map in units of g_1/g_2."""
    scaled = substitute(gain_moments().loss(), {B: g_1 / g_2 * TracePolynomial(B)})
    gains = uniform_gains()
    return Derivation.by(
        Step("The loss as a function of the effective map", gain_moments().loss(), r"\mathcal{L}(\boldsymbol{B})"),
        Step("The map measured in units of $g_{1}/g_{2}$", scaled, part="loss"),
        *(Step(f"The length for {name}", _length(gains[name]), part=f"{name}, length") for name in gains),
        *(
            Step(f"What is left of a drop for {name}", _share(gains[name]), part=f"{name}, share")
            for name in ("longest", "official")
        ),
        Step("Long contexts", limit(_share(gains["longest"]), N, oo), part="longest, limit"),
    )


def written_drop(gains) -> Expr:
    """lambda g_1^2/(g_2 + g_3 (1 + T/lambda)), for statements."""
    return lambda_ * gains[0] ** 2 / (gains[1] + gains[2] * (1 + T / lambda_))


@register(
    "V4-levels",
    "The loss at the fixed points for contexts of random length",
    kind="exact",
    section="beyond the paper",
    left={
        "rate": r"\tau\dot v_d/v_d^2",
        "loss": r"\mathcal{L}(\mathcal{M}(S))",
        "present": r"\mathcal{L}(\mathcal{M}(S))",
        "longest": r"\mathcal{L}(\mathcal{M}(S))",
        "official": r"\mathcal{L}(\mathcal{M}(S))",
    },
    typed=lambda: {
        "rate": g_1 * lambda_**2,
        "loss": over_directions(lambda_ - learned * written_drop((g_1, g_2, g_3))),
        "present": over_directions(lambda_ - learned * lambda_ / (1 + harmonic(N) / N * (1 + T / lambda_))),
        "longest": over_directions(
            lambda_ - learned * lambda_ * 3 * (N + 1) / (2 * (2 * N + 1 + 3 * (1 + T / lambda_)))
        ),
        "official": over_directions(
            lambda_ - learned * lambda_ * (N + 1 - H) ** 2 / (N * (N + 1 - 2 * H + H_2 + (H - H_2) * (1 + T / lambda_)))
        ),
    },
    conditions=(
        r"$\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{I})$, Gaussian tokens, no noise",
        NORMALISATIONS + "; n uniform on 1, ..., N",
        (
            r"rate: of a head along $\boldsymbol{e}_{d}$ with small weights, so that drops are later by a factor "
            "$1/g_{1}$"
        ),
    ),
)
def random_levels() -> Derivation:
    """The loss along one direction is least where its force vanishes."""
    plain = {Sigma_w: Identity(D), Lambda_q: Lambda, sigma: 0}
    A, M = (
        along(substitute(one, plain), {Lambda: lambda_}, traces={Trace(Lambda): T}) for one in gain_moments()[:2]
    )  # the loss along e_d is lambda - 2 A b + M lambda b^2
    b = cancel(A / (M * lambda_))
    share = lambda_ + learned * cancel(M * lambda_ * b**2 - 2 * A * b)
    gains = uniform_gains()
    return Derivation.by(
        Step(r"The correlation along $\boldsymbol{e}_{d}$, and the rate at small weights", A, part="rate"),
        Step(r"The second moment of $\boldsymbol{\beta}$ along $\boldsymbol{e}_{d}$", M),
        Step(r"The level at which the force $A - \boldsymbol{M} b \lambda$ vanishes", b),
        Step("The share of one direction", share),
        Step("Summed", over_directions(share), part="loss"),
        *(
            Step(
                f"The uniform law, {name}",
                over_directions(share.subs(dict(zip((g_1, g_2, g_3), gains[name], strict=True)))),
                part=name,
            )
            for name in gains
        ),
    )
