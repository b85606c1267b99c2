r"""Contexts of random length n, drawn anew for every sequence (V4).

Attention that averages over the context it has sees 1/n, and the loss is linear in it: so for the population a random length is the
fixed length 1/E(1/n), its harmonic mean, which is N/H_N for the uniform law on 1, ..., N. Other normalisations multiply beta by a gain
g_n: g_n = n/N where the sum is divided by the longest context, g_n = n/(n + 1) where the average counts the query as a token.
"""

from functools import cache

from sympy import Expr, Sum, Symbol, Trace, cancel, harmonic

from .calculus import collect, substitute
from .derivation import Derivation, Step
from .equations import register
from .levels import written_loss_along
from .notation import Lambda, Lambda_q, N, lambda_, sigma
from .population import Sigma_w, general_moments
from .spectral import T, over_directions, s
from .trace_algebra import TracePolynomial

__all__ = ["gain_moments", "uniform_gains"]

n = Symbol("n", integer=True, positive=True)
nu = Symbol("nu", positive=True)  # E(1/n)
g_1, g_2, g_3 = (Symbol(name, positive=True) for name in ("g_1", "g_2", "g_3"))  # E(g), E(g^2), E(g^2/n)
g_n = Symbol("g_n", positive=True)


@cache
def of_length() -> tuple[TracePolynomial, TracePolynomial]:
    """A and M given the length, with the gain of the normalisation."""
    A, M, _, _ = general_moments()
    return A * g_n, M * g_n**2


@cache
def gain_moments() -> tuple[TracePolynomial, TracePolynomial]:
    """A and M averaged over the length."""
    A, M = of_length()
    orders = collect(M, N)
    if sorted(orders) != [-1, 0] or sorted(collect(A, N)) != [0]:
        raise ArithmeticError(f"the second moment has the orders {sorted(orders)} in N")
    square = TracePolynomial(g_n**2)
    if orders[0] != square * substitute(orders[0], {g_n: 1}) or orders[-1] != square * substitute(orders[-1], {g_n: 1}):
        raise ArithmeticError("the second moment should be quadratic in the gain")
    return substitute(A, {g_n: 1}) * g_1, substitute(orders[0], {g_n: 1}) * g_2 + substitute(orders[-1], {g_n: 1}) * g_3


@register(
    "V4-moments",
    "The moments for contexts of random length",
    kind="exact",
    section="beyond the paper",
    left={"A": r"\boldsymbol{A}", "M": r"\boldsymbol{M}", "mean A": r"\boldsymbol{A}", "mean M": r"\boldsymbol{M}"},
    typed=lambda: {
        "A": g_1 * Lambda * Sigma_w * Lambda_q,
        "M": g_2 * Lambda * Sigma_w * Lambda + g_3 * (Lambda * Sigma_w * Lambda + (Trace(Sigma_w * Lambda) + sigma**2) * Lambda),
        "mean A": Lambda * Sigma_w * Lambda_q,
        "mean M": Lambda * Sigma_w * Lambda + nu * (Lambda * Sigma_w * Lambda + (Trace(Sigma_w * Lambda) + sigma**2) * Lambda),
    },
    conditions=(
        "g_1 = E(g_n), g_2 = E(g_n^2), g_3 = E(g_n^2/n), for any law of n, independent of the sequence",
        "mean: the average over the context there is, g_n = 1, with nu = E(1/n)",
        "So with g_n = 1 everything is as for one length, the harmonic mean 1/nu",
    ),
)  # fmt: skip
def random_moments() -> Derivation:
    """The moments given the length are linear in g_n, g_n^2 and g_n^2/n."""
    A, M = gain_moments()
    plain = {g_1: 1, g_2: 1, g_3: nu}
    return Derivation.by(
        Step("Given the length N = n, the second moment of beta", of_length()[1]),
        Step("The correlation of target and feature, averaged over n", A, part="A"),
        Step("The second moment of beta, averaged over n", M, part="M"),
        Step("The same for the average over the context", substitute(A, plain), part="mean A"),
        Step("Its second moment", substitute(M, plain), part="mean M"),
    )


@cache
def uniform_gains() -> dict[str, tuple[Expr, ...]]:
    """E(g), E(g^2), E(g^2/n) for n uniform on 1, ..., N, by normalisation."""
    gains = {"context": n / n, "longest": n / N}
    return {
        name: tuple(Sum(power, (n, 1, N)).doit() / N for power in (gain, gain**2, gain**2 / n))
        for name, gain in gains.items()
    }


@register(
    "V4-uniform",
    "The uniform law on 1, ..., N",
    kind="exact",
    section="beyond the paper",
    left={
        "mean": r"\mathbb{E}(1/n)",
        "longest, g_1": r"\mathbb{E}(g_n)",
        "longest, g_2": r"\mathbb{E}(g_n^2)",
        "longest, g_3": r"\mathbb{E}(g_n^2/n)",
    },
    typed=lambda: {
        "mean": harmonic(N) / N,
        "longest, g_1": (N + 1) / (2 * N),
        "longest, g_2": (N + 1) * (2 * N + 1) / (6 * N**2),
        "longest, g_3": (N + 1) / (2 * N**2),
    },
    conditions=(
        "mean: average over the context, g_n = 1; longest: sum divided by the longest context, g_n = n/N",
        r"$H_N=\sum_{n\le N}1/n$",
        "The official code with vary_len adds up the losses of all prefixes: N times the loss under this law, so N times its step",
    ),
)
def uniform_law() -> Derivation:
    """Sums over n."""
    gains = uniform_gains()
    return Derivation.by(
        Step("The average over the context", gains["context"][2], part="mean"),
        *(
            Step(f"The sum divided by the longest context, moment {i}", gains["longest"][i - 1], part=f"longest, g_{i}")
            for i in (1, 2, 3)
        ),
    )  # fmt: skip


@register(
    "V4-levels",
    "The loss at the fixed points for contexts of random length",
    kind="exact",
    section="beyond the paper",
    left={"loss": r"\mathcal{L}(\mathcal{M}(S))", "uniform": r"\mathcal{L}(\mathcal{M}(S))"},
    typed=lambda: {
        "loss": over_directions(lambda_ - s * lambda_ / (1 + nu * (1 + T / lambda_))),
        "uniform": over_directions(lambda_ - s * lambda_ / (1 + harmonic(N) / N * (1 + T / lambda_))),
    },
    conditions=("w ~ N(0, I), Gaussian tokens, no noise; the average over the context", "nu = E(1/n); uniform: n uniform on 1, ..., N"),
)  # fmt: skip
def random_levels() -> Derivation:
    """The loss (59) with 1/nu for N."""
    off, on = (cancel(written_loss_along().subs(s, value).subs(N, 1 / nu)) for value in (0, 1))
    share = off + s * (on - off)
    return Derivation.by(
        Step("The share of one direction at the harmonic mean of the lengths", share),
        Step("Summed", over_directions(share), part="loss"),
        Step("The uniform law", over_directions(share.subs(nu, uniform_gains()["context"][2])), part="uniform"),
    )
