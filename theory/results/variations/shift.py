r"""Laws that differ between context and query, or between training and test (V3).

The loss of an effective map B is a quadratic form in the moments of the test law, so the test loss of any trained B is closed:

.. math::
    \mathcal L_{\rm test}(B) = \operatorname{tr}(\Sigma\Lambda_q) + \sigma^2 - 2\operatorname{tr}(\Lambda_q\Sigma\Lambda B)
        + \operatorname{tr}(B^\top MB\Lambda_q)

with the Lambda, Lambda_q, Sigma_w, sigma and N of the test. Training on another query law moves neither the minimum nor, where the
covariances commute, any fixed point: it reorders them. The share of a direction in it,

.. math::
    \ell_d = \lambda_q \Bigl(1 - \frac{\lambda_{\rm test}^2}{a_{\rm test}}\Bigr)
    + \lambda_q a_{\rm test} \Bigl(b - \frac{\lambda_{\rm test}}{a_{\rm test}}\Bigr)^2,

blows up where training hardly showed the direction: its map b = lambda/a rises to N/(T + sigma^2) as the direction gets rarer.
"""

from dataclasses import replace
from functools import cache
from typing import Any

from sympy import Abs, Derivative, Expr, Symbol, Trace, ZeroMatrix, cancel, factor, limit, solve, symbols

from ...algebra.polynomial import TracePolynomial
from ...calculus import over_directions, substitute, summand
from ...derivations import E, Line, Lines, given, note, register, states, value_at
from ...derivations.draws import ALONG, EIGEN, EIGENVECTOR, along_one_eigenvector, eigenvalues_drawn, satisfying
from ...expectation import Gaussian, SampleCovariance
from ...notation import B, D, Lambda, Lambda_hat, Lambda_q, M, N, T, a, beta, e, lambda_, sigma, symmetric_matrix, w, x_q, y_q
from ..landscape.any_quadratic_loss import A_any, Q_any, any_loss, c_any
from ..landscape.fixed_points import b, fixed_map_along, written_map_along
from ..landscape.levels import learned_alone
from ..task.population import GENERAL, PAPER, Sigma_w, Task, lambda_q
from ..task.regression import closed_loss
from .labels import NOISY

N_test = Symbol("N_test", integer=True, positive=True)
a_test, lambda_test = symbols("a_test lambda_test", positive=True)  # the eigenvalues of the test's second moment and context covariance
Lambda_test = symmetric_matrix("Lambda_test", D, latex=r"\boldsymbol{\Lambda}_{\rm test}")  # the covariance of the context at test
g = Symbol("g", positive=True)
E_learned = Symbol("E", positive=True)  # tr(A' B) = tr(B' M B Q), what B has taken from the loss
nu = Symbol("nu", nonnegative=True)  # the part of tr(B' M B Q) that label noise makes
ERROR = (y_q - beta.T * B * x_q) ** 2
QUERY = Task(query_covariance=Lambda_q)
LONGER = (SampleCovariance(Lambda_hat, Lambda, N_test),)


def varied(*changed) -> tuple:
    """The general laws with some of them changed."""
    symbols = {law.symbol for law in changed}
    return (*(law for law in GENERAL.laws() if law.symbol not in symbols), *changed)


SCALED = varied(SampleCovariance(Lambda_hat, g * Lambda, N))
SCALED_TOO = varied(SampleCovariance(Lambda_hat, g * Lambda, N), Gaussian(x_q, covariance=g * Lambda_q))
TEST_LAWS = varied(Gaussian(w), SampleCovariance(Lambda_hat, Lambda_test, N_test))


def share(laws: tuple, map_: Any) -> Any:
    """What a direction with this map adds to the squared error, not averaged yet."""
    square, signal = E((e.T * x_q) ** 2, laws), E(e.T * beta * w.T * x_q * x_q.T * e, laws)
    return square - 2 * map_ * signal + map_**2 * E((e.T * beta) ** 2, laws) * square


@cache
def share_at_test() -> Expr:
    """The same, averaged, for the map b: of c first, then what b takes or adds."""
    return lambda_q + summand(any_loss() - c_any, {A_any: lambda_test * lambda_q, M: a_test, Q_any: lambda_q, B: b})


@register("V3-test", "The test loss of any trained effective map")
@states(lambda: (
    Trace(Sigma_w * Lambda_q) + sigma**2 - 2 * Trace(Lambda_q * Sigma_w * Lambda * B)
    + (1 + 1 / N) * Trace(B.T * Lambda * Sigma_w * Lambda * B * Lambda_q)
    + (Trace(Sigma_w * Lambda) + sigma**2) / N * Trace(B.T * Lambda * B * Lambda_q)
))  # fmt: skip
@given("Gaussian tokens in the context")
@note(r"All letters but $\boldsymbol{B}$ are those of the test")
def shifted_loss() -> Lines:
    """The squared error averaged under the laws of the test."""
    yield from closed_loss(GENERAL).within()
    yield Line(GENERAL.E(ERROR), "=", GENERAL.moments.loss(), r"The second moment of $\boldsymbol{\beta}$ written out")


COMMON = satisfying(
    r"$\boldsymbol{\Lambda}$ and $\boldsymbol{\Lambda}_{q}$ commute; $\boldsymbol{e}$ is a common unit eigenvector, of eigenvalues "
    r"$\lambda$ and $\lambda_{q}$",
    {Lambda_q * e: lambda_q * e},
    replace(QUERY, commuting=True).condition(EIGENVECTOR, along_one_eigenvector).draw,
)


@register("V3-query", "Another covariance of the query changes the order of learning, not the minimum")
@states("minimum", lambda: M.I * Lambda * Sigma_w)
@states("map", lambda: lambda_ / a)
@states("rate", lambda: lambda_ * lambda_q)
@states("drop", lambda: lambda_**2 * lambda_q / a)
@given(r"Map, rate and drop: $\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{I})$, no noise", COMMON)
def query_law() -> Lines:
    """M^-1 A Q^-1 and its parts along a common eigenvector."""
    A, _, Q, _ = GENERAL.moments
    yield Line(M, ":=", E(beta * beta.T, GENERAL.laws()), r"The second moment of $\boldsymbol{\beta}$")
    yield Line(B, ":=", TracePolynomial(M.I) * A * Q.reciprocal(), "The minimum: the covariance of the query cancels", part="minimum")
    yield Line(E(beta * (y_q - beta.T * B * x_q) * x_q.T, GENERAL.laws()), "=", ZeroMatrix(D, D), "The force vanishes there")
    yield from learned_alone(QUERY).within({part: part for part in ("rate", "map", "drop")})


@register("V3-length", r"The share of a direction learned at length $N$ in the loss at length $N_{\rm test}$")
@states("share", lambda: lambda_ - 2 * lambda_**3 / a + lambda_**3 * a_test / a**2)
@states("slope", lambda: lambda_**4 * (lambda_ + T) / a**2)
@states("limit", lambda: lambda_ * (1 - lambda_**2 / a) ** 2)
@states("excess", lambda: lambda_**3 * (a_test - a) ** 2 / (a**2 * a_test))
@given(ALONG)
def test_length() -> Lines:
    """The loss (V3-test) along an eigenvector with the map of training and the moments of the test."""
    y, moment = Symbol("y", positive=True), PAPER.eigenvalue
    learned, best = (share_at_test().subs({lambda_test: lambda_, lambda_q: lambda_, b: lambda_ / one}) for one in (a, a_test))
    inverse = learned.subs(a_test, moment.subs(N, 1 / y))
    longer, slope = learned.subs(a_test, moment.subs(N, N_test)), cancel(inverse.diff(y))
    at_infinity, excess = limit(inverse, y, 0), cancel(learned - best)
    yield Line(M, ":=", E(beta * beta.T), "The second moment (31) in training")
    yield Line(B, ":=", M.I * Lambda, "The map that has learned all directions, (23)")
    yield Line(E(ERROR, LONGER), "=", over_directions(longer.subs(a, moment)), "The loss at the test is the sum of the shares")
    yield Line(Derivative(inverse, y), "=", slope, r"With the moment (32), its slope in $y = 1/N_{\rm test}$", part="slope")
    yield Line(longer, "->", at_infinity, "A long test context", part="limit", parameter=N_test, order=1)
    yield Line(at_infinity.subs(a, moment), "->", 0, "The bias is of second order", parameter=N, order=2)
    yield Line(learned - best, "=", excess, "Over the share of the best map for the length of the test", part="excess")
    yield Line(excess, ">=", 0, "No map does better")
    yield Line(a_test, ":=", E((e.T * beta) ** 2, LONGER), r"The eigenvalue of the second moment at length $N_{\rm test}$")
    yield Line(share(LONGER, fixed_map_along()), "=", learned, "With it this is the share of a learned direction", part="share")


def _rest(point) -> None:
    for letter in (Sigma_w, Lambda, Lambda_q):
        root = point.drawn(letter)
        point[letter] = root * root.T
    taken, square = (value_at(one, point) for one in TAKEN)
    point[B] = point[B] * taken / square


TAKEN = (E(y_q * beta.T * B * x_q, GENERAL.laws()), E((beta.T * B * x_q) ** 2, GENERAL.laws()))
REST = satisfying(
    r"$\boldsymbol{B}$ is any fixed point of training, of separate or merged attention: $\operatorname{tr}(\boldsymbol{A}^{\top} "
    r"\boldsymbol{B}) = \operatorname{tr}(\boldsymbol{B}^{\top} \boldsymbol{M} \boldsymbol{B} \boldsymbol{Q}) = E$, and $c - E$ is the "
    r"training loss",
    {TAKEN[0]: TAKEN[1]},
    _rest,
)


@register("V3-scale", "Covariance shift: context tokens scaled at test")
@states("moments", lambda: g * Lambda * Sigma_w * Lambda_q)
@states(
    "second", lambda: g**2 * ((1 + 1 / N) * Lambda * Sigma_w * Lambda + Trace(Sigma_w * Lambda) / N * Lambda) + g * sigma**2 / N * Lambda
)
@states("loss", lambda: c_any - g * (2 - g) * E_learned - g * (g - 1) * nu)
@states("both", lambda: sigma**2 + g * (c_any - sigma**2 - g * (2 - g) * E_learned - g * (g - 1) * nu))
@states("break-even", lambda: (2 * E_learned - nu) / (E_learned - nu))
@given(r"At test the covariance of the context is $g \boldsymbol{\Lambda}$, and all else as in training", REST)
def scaled_context() -> Lines:
    """Scale Lambda in the moments, and use that tr(A' B) = tr(B' M B Q) at a fixed point."""
    A, M_ = (substitute(part, {Lambda: g * Lambda}) for part in GENERAL.moments[:2])
    loss = c_any - 2 * g * E_learned + g**2 * E_learned + g * (1 - g) * nu
    both = g * (loss - sigma**2) + sigma**2
    (even,) = (root for root in solve(loss - c_any, g) if root != 0)
    yield Line(E(beta * y_q * x_q.T, SCALED), "=", A, "The correlation of target and feature", part="moments")
    yield Line(E(beta * beta.T, SCALED), "=", M_, r"The second moment of $\boldsymbol{\beta}$", part="second")
    yield Line(c_any, ":=", E(y_q**2, GENERAL.laws()), "The loss of no answer")
    yield Line(E_learned, ":=", TAKEN[0], "What the map has taken from the loss in training")
    yield Line(nu, ":=", sigma**2 / N * Trace(B.T * Lambda * B * Lambda_q), "What the noise of the labels adds to it")
    yield Line(E(ERROR, GENERAL.laws()), "=", c_any - E_learned, "The training loss")
    yield Line(E(ERROR, SCALED), "=", loss, "The loss at test", part="loss")
    yield Line(E(ERROR, SCALED_TOO), "=", both, "A query scaled as well multiplies all but the noise on its label by $g$", part="both")
    yield Line(even, ">=", 2, "Without noise it is twice as large, with it more, at which")
    yield Line(g, ":=", even, "At this scale", part="break-even")
    yield Line(E(ERROR, SCALED), "=", c_any, "the loss at test is $c$ again, that of no answer")


# Directions that training hardly showed

SHARE = share(TEST_LAWS, b)


IN_COMMON = satisfying(
    r"Test: $\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{I})$, covariances with the eigenvectors $\boldsymbol{e}$ of "
    r"$\boldsymbol{\Lambda}$: $\lambda_{\rm test}$ is the eigenvalue of that of the context, $\lambda_{q}$ of that of the query, "
    r"$a_{\rm test}$ of the second moment of $\boldsymbol{\beta}$ (V1-beta)",
    {**EIGEN, Lambda_test * e: lambda_test * e, Lambda_q * e: lambda_q * e},
    lambda point: eigenvalues_drawn(point, {Lambda_test: lambda_test, Lambda_q: lambda_q}),
)


@register("V3-unseen", "Where the test loss blows up: directions that training hardly showed")
@states("share", lambda: lambda_q * (1 - lambda_test**2 / a_test) + lambda_q * a_test * (b - lambda_test / a_test) ** 2)
@states("break-even", lambda: 2 * lambda_test / a_test)
@states("slope", lambda: -N * (N + 1) / ((N + 1) * lambda_ + T + sigma**2) ** 2)
@states("worst", lambda: N / (T + sigma**2))
@states("shown", lambda: lambda_q * (1 - 2 * N * lambda_test / (T + sigma**2) + N**2 * a_test / (T + sigma**2) ** 2))
@states("all", lambda: 1 + N * T * (N * T - sigma**2) / (T + sigma**2) ** 2)
@given(
    r"Training: $\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{I})$, Gaussian tokens of covariance $\boldsymbol{\Lambda}$, "
    r"noise $\sigma^{2}$, length $N$",
    IN_COMMON,
)
def unseen_direction() -> Lines:
    """The loss of one direction at test, as a function of the map, and the map as a function of the variance in training."""
    at_test, map_ = share_at_test(), written_map_along(NOISY)
    best, slope, worst = solve(at_test.diff(b), b)[0], factor(map_.diff(lambda_)), limit(map_, lambda_, 0)
    squared = at_test.subs(b, best) + at_test.diff(b, 2) / 2 * (b - best) ** 2
    (even,) = (root for root in solve(at_test - lambda_q, b) if root != 0)
    whole = {a_test: NOISY.eigenvalue.subs(lambda_, T), lambda_test: T, lambda_q: T}  # all the variance in one direction
    vanishing = {"parameter": (lambda_, 0), "order": 1}
    yield Line(at_test, "=", squared, r"The share of the direction in the loss is least at the map $\lambda_{\rm test}/a_{\rm test}$")
    yield Line(a_test, ":=", E((e.T * beta) ** 2, TEST_LAWS), "The eigenvalue of the second moment at the test")
    yield Line(SHARE, "=", squared, "For this is the share", part="share")
    yield Line(E(e.T * beta * y_q * x_q.T * e) / (NOISY.E((e.T * beta) ** 2) * E((e.T * x_q) ** 2)), "=", map_,
               "The map of training, (23) with label noise")  # fmt: skip
    yield Line(Derivative(map_, lambda_), "=", slope, "How it changes with the variance of the direction", part="slope")
    yield Line(slope, "<", 0, "It falls")
    yield Line(map_, "->", worst, "A direction of vanishing variance", part="worst", **vanishing)
    yield Line(at_test.subs(b, map_), "->", at_test.subs(b, worst), "Its share at test", part="shown", **vanishing)
    yield Line((at_test.subs(b, map_) / lambda_q).subs(whole), "->", cancel((at_test.subs(b, worst) / lambda_q).subs(whole)),
               "With all the variance of the test in it, over that of no answer", part="all", **vanishing)  # fmt: skip
    yield Line(Line(at_test, ">", lambda_q), "<=>", Line(Abs(b - best), ">", best),
               "The share is above that of no answer if and only if the map is farther from the best one than zero is")  # fmt: skip
    yield Line(b, ":=", even, "At this map", part="break-even")
    yield Line(SHARE, "=", lambda_q, "it is equal")
