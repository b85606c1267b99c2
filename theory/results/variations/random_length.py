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

from dataclasses import replace
from functools import cache
from typing import Any

from mpmath import mpf
from sympy import Expr, Rational, Sum, Symbol, Trace, ZeroMatrix, apart, cancel, harmonic, limit, oo

from ...algebra.polynomial import TracePolynomial
from ...calculus import over_directions, substitute
from ...derivations import Condition, E, Line, Lines, carried_out, given, note, register, states
from ...derivations.draws import at
from ...expectation import expect
from ...notation import B, D, Lambda, Lambda_q, N, T, beta, e, lambda_, learned, sigma, x_q, y_q
from ..landscape.any_quadratic_loss import c_any
from ..landscape.levels import at_fixed_map, fixed_loss, written_loss_along
from ..task.population import GENERAL, Sigma_w, Task, g_1, g_2, g_3, g_n, general_loss, m, n, p_n
from ..task.regression import closed_loss

nu = Symbol("nu", positive=True)  # E(1/n)
N_e, share_e = Symbol("N_e", positive=True), Symbol("varrho", positive=True)
NORMALISATIONS = (
    r"Sums over the context are divided by its $n$ tokens (present), by $N$ (longest), or by $n + 1$ (official), as in the official code "
    r"with $\mathtt{vary\_len}$"
)
UNIFORM = r"$n$ is uniform on $1, \dots, N$"
H, H_2 = harmonic(N + 1), harmonic(N + 1, 2)


ANY_LENGTH = r"Contexts of random length, independent of the sequence"
TWO_LENGTHS = r"Two lengths, $n$ with probability $p_n$ and $m$ with $1 - p_n$, stand for any law: only means over it enter"
PROBABILITY = Condition(
    "$0 < p_n < 1$", lambda point: 0 < point[p_n] < 1, lambda point: point.__setitem__(p_n, mpf(point.rng.uniform(0.05, 0.95))), at(p_n, 2)
)
LENGTHS = replace(GENERAL, random_length=True)
PLAIN = Task(random_length=True)


@register("V4-moments", "The moments for contexts of random length")
@states("A", lambda: g_1 * Lambda * Sigma_w * Lambda_q)
@states("M", lambda: g_2 * Lambda * Sigma_w * Lambda + g_3 * (Lambda * Sigma_w * Lambda + (Trace(Sigma_w * Lambda) + sigma**2) * Lambda))
@states("present, A", lambda: Lambda * Sigma_w * Lambda_q)
@states("present, M", lambda: Lambda * Sigma_w * Lambda + nu * (Lambda * Sigma_w * Lambda + (Trace(Sigma_w * Lambda) + sigma**2) * Lambda))
@given(ANY_LENGTH)
@note(TWO_LENGTHS)
def random_moments() -> Lines:
    """The moments given the length are linear in g_n, g_n^2 and g_n^2/n."""
    A, M_, _, _ = LENGTHS.moments
    plain, given, square = {g_1: 1, g_2: 1, g_3: nu}, LENGTHS.laws(n, g_n), beta * beta.T

    def present(body):
        return sum((p * E(body, LENGTHS.laws(length), given=length) for p, length, _ in LENGTHS.cases), start=ZeroMatrix(D, D))

    yield Line(E(square, given, given=n), "=", expect(square, given), r"Given the length, the second moment of $\boldsymbol{\beta}$")
    yield from general_loss(LENGTHS).within({"A": "A", "M": "M"})
    yield Line(nu, ":=", p_n / n + (1 - p_n) / m, r"The mean of $1/n$")
    yield Line(present(beta * y_q * x_q.T), "=", substitute(A, plain),
               "The correlation for the average over the tokens there are", part="present, A")  # fmt: skip
    yield Line(present(square), "=", substitute(M_, plain), "Its second moment", part="present, M")
    yield Line(N, ":=", 1 / nu, "At the harmonic mean of the lengths")
    yield Line(present(square), "=", GENERAL.moments.M, "it is that of one length")


GAIN_TERMS = {name: (gain, gain**2, gain**2 / n) for name, gain in (("present", n / n), ("longest", n / N), ("official", n / (n + 1)))}


def counted(term: Expr) -> Any:
    """The term for n tokens, the query among them."""
    return apart(term.subs(n, n - 1), n)


@cache
def uniform_sums(name: str) -> tuple[Any, ...]:
    """g_1, g_2, g_3 for n uniform on 1, ..., N, as sums; the official ones count the query, from n = 1, at which they vanish."""
    if name == "official":
        return tuple(Sum(counted(term), (n, 1, N + 1)) / N for term in GAIN_TERMS[name])
    return tuple(Sum(term, (n, 1, N)) / N for term in GAIN_TERMS[name])


@cache
def uniform_gains() -> dict[str, tuple[Expr, Expr, Expr]]:
    """The same, carried out, by normalisation."""
    return {name: tuple(cancel(carried_out(one)) for one in uniform_sums(name)) for name in GAIN_TERMS}


@register("V4-uniform", "The uniform law on $1, \\dots, N$")
@states("present, g_3", lambda: harmonic(N) / N)
@states("longest, g_1", lambda: (N + 1) / (2 * N))
@states("longest, g_2", lambda: (N + 1) * (2 * N + 1) / (6 * N**2))
@states("longest, g_3", lambda: (N + 1) / (2 * N**2))
@states("official, g_1", lambda: (N + 1 - H) / N)
@states("official, g_2", lambda: (N + 1 - 2 * H + H_2) / N)
@states("official, g_3", lambda: (H - H_2) / N)
@note(NORMALISATIONS)
def uniform_law() -> Lines:
    """Sums over n."""
    names = {"longest": "The sum divided by the longest context", "official": "The sum divided by all tokens, the query counted"}
    mean_of = ("the gain", "its square", "its square over the length")
    yield Line(uniform_sums("present")[2], "=", uniform_gains()["present"][2], "The average over the tokens there are", part="present, g_3")
    for term, words in zip(GAIN_TERMS["official"], mean_of, strict=True):
        yield Line(term.subs(n, n - 1), "=", counted(term),
                   f"Of $n$ tokens, the query counted, {words}: 0 at $n = 1$, so that the sum may begin there")  # fmt: skip
    for name, words in names.items():
        for i in range(3):
            yield Line(uniform_sums(name)[i], "=", uniform_gains()[name][i],
                       f"{words}: the mean of {mean_of[i]}", part=f"{name}, g_{i + 1}")  # fmt: skip


@register("V4-effective", "The fixed length that a random one acts like")
@states("loss", lambda: (
    Trace(Sigma_w * Lambda_q) + sigma**2
    - g_1**2 / g_2 * (2 * Trace(Lambda_q * Sigma_w * Lambda * B) - (1 + g_3 / g_2) * Trace(B.T * Lambda * Sigma_w * Lambda * B * Lambda_q)
                     - (Trace(Sigma_w * Lambda) + sigma**2) * (g_3 / g_2) * Trace(B.T * Lambda * B * Lambda_q))
))  # fmt: skip
@states("present, length", lambda: N / harmonic(N))
@states("longest, length", lambda: (2 * N + 1) / 3)
@states("official, length", lambda: (N + 1 - 2 * H + H_2) / (H - H_2))
@states("longest, share", lambda: 3 * (N + 1) / (2 * (2 * N + 1)))
@states("official, share", lambda: (N + 1 - H) ** 2 / (N * (N + 1 - 2 * H + H_2)))
@states("longest, limit", lambda: Rational(3, 4))
@given(ANY_LENGTH, rf"Length, share and limit: {UNIFORM}")
@note(TWO_LENGTHS, NORMALISATIONS)
def effective_length() -> Lines:
    """Measure the map in units of g_1/g_2."""
    scaled, gains = substitute(LENGTHS.moments.loss(), {B: g_1 / g_2 * TracePolynomial(B)}), uniform_gains()
    left = LENGTHS.E((y_q - (g_1 / g_2) * beta.T * B * x_q) ** 2)
    fixed = E((y_q - beta.T * B * x_q) ** 2, GENERAL.laws(N_e))
    length, share = lambda gains: gains[1] / gains[2], lambda gains: gains[0] ** 2 / gains[1]
    longest = cancel(share(gains["longest"]))
    yield from closed_loss(LENGTHS).within()
    yield Line(left, "=", scaled, "The map measured in units of $g_{1}/g_{2}$", part="loss")
    yield Line(N_e, ":=", g_2 / g_3, "The fixed length")
    yield Line(share_e, ":=", g_1**2 / g_2, "What is left of a drop")
    yield Line(c_any, ":=", E(y_q**2, GENERAL.laws(N_e)), "The loss of no answer")
    yield Line(left, "=", (1 - share_e) * c_any + share_e * fixed, "The loss at the fixed length, with drops smaller by a factor")
    yield Line(share_e, "<=", 1, "The variance of the gain is not negative", conditions=(PROBABILITY,))
    for part, of, words in (("length", length, "The length"), ("share", share, "What is left of a drop")):
        for name in gains:
            if (name, part) != ("present", "share"):
                yield Line(of(uniform_sums(name)), "=", cancel(of(gains[name])), f"{words} for {name}", part=f"{name}, {part}")
    yield Line(longest, "->", limit(longest, N, oo), "Long contexts", part="longest, limit", parameter=N, order=1)


@register("V4-levels", "The loss at the fixed points for contexts of random length")
@states("rate", lambda: g_1 * lambda_**2)
@states("loss", lambda: over_directions(lambda_ - learned * lambda_ * g_1**2 / (g_2 + g_3 * (1 + T / lambda_))))
@states("present", lambda: over_directions(lambda_ - learned * lambda_ / (1 + harmonic(N) / N * (1 + T / lambda_))))
@states("longest", lambda: over_directions(lambda_ - learned * lambda_ * 3 * (N + 1) / (2 * (2 * N + 1 + 3 * (1 + T / lambda_)))))
@states("official", lambda: (
    over_directions(lambda_ - learned * lambda_ * (N + 1 - H) ** 2 / (N * (N + 1 - 2 * H + H_2 + (H - H_2) * (1 + T / lambda_))))
))  # fmt: skip
@given(
    r"$\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{I})$, Gaussian tokens, no noise",
    ANY_LENGTH,
    rf"Present, longest and official: {UNIFORM}",
    at_fixed_map(PLAIN),
)
@note(TWO_LENGTHS, NORMALISATIONS)
def random_levels() -> Lines:
    """The fixed points of (59) at the moments of a random length; then the uniform law."""
    share, gains = written_loss_along(PLAIN), uniform_gains()
    growth = PLAIN.E(e.T * beta * y_q * x_q.T * e)

    def levels(values) -> Any:
        return over_directions(share.subs(dict(zip((g_1, g_2, g_3), values, strict=True))))

    yield from fixed_loss(PLAIN).within({"loss": "loss"})
    yield Line(growth, "=", PLAIN.along(PLAIN.moments.A), r"The force along $\boldsymbol{e}$ at small weights", part="rate")
    for name in gains:
        yield Line(levels(uniform_sums(name)), "=", levels(gains[name]), f"The uniform law, {name}", part=name)
