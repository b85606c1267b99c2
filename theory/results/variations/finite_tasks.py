r"""K tasks, drawn once and shared by all sequences (V11): what is learned, and what it is worth on new tasks.

.. math::
    \Sigma_w = \frac1K\sum_{k=1}^K w_kw_k^\top, \qquad
    B = \Bigl(\bigl(1 + \tfrac1N\bigr)\Sigma_w\Lambda + \frac{\operatorname{tr}(\Sigma_w\Lambda) + \sigma^2}{N}I\Bigr)^{-1}\Sigma_w

The loss holds the tasks by their second moment alone: it is that of task vectors of covariance Sigma_w (V0), of rank min(K, D). Only M and
Q are inverted, and M has full rank: what one context adds does. Averages over the draw, w_k ~ N(0, I), are those of a sample covariance.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sympy import Identity, Symbol, Trace, ZeroMatrix, cancel, factor

from ...algebra.polynomial import TracePolynomial
from ...calculus import substitute
from ...derivations import Condition, E, Line, Lines, SumOver, given, note, register, states
from ...expectation import Fixed, Gaussian, SampleCovariance, expect
from ...notation import B, D, G, Lambda, M, N, T, beta, e, lambda_, matrix, sigma, symmetric_matrix, vector, w, x_q, y_q
from ..landscape.fixed_points import b
from ..task.population import P_w, Sigma_w, Task, omega
from ..task.regression import correlation_with_error, squared_error
from .labels import COMMON, NOISY, TASK, p

K = Symbol("K", integer=True, positive=True)  # tasks
W = matrix("W", D, K)  # their vectors, as columns
Gram = symmetric_matrix("Gram", K, latex=r"\boldsymbol{\Gamma}")  # W' Lambda W/K
Z = matrix("Z", D)  # what the learned map inverts
TASKS_WITH_NOISE = Task(noise=sigma**2, task_covariance=Sigma_w)
NOISY_SHARED = replace(TASKS_WITH_NOISE, commuting=True)
DRAW = SampleCovariance(Sigma_w, Identity(D), K)
DRAW_OF_GRAM = SampleCovariance(Gram, D / K * Identity(K), D)  # of W' W/K
GIVEN = r"$K$ task vectors, equally likely; Gaussian tokens of covariance $\boldsymbol{\Lambda}$, in queries too"
DRAWN = r"The $K$ task vectors are drawn from $\mathcal{N}(\boldsymbol{0}, \boldsymbol{I})$, and averages are over this draw"


@register("V11-loss", "The loss of finitely many tasks is that of their second moment")
@states("loss", lambda: (
    Trace(Sigma_w * Lambda) - 2 * Trace(Lambda * Sigma_w * Lambda * B) + (1 + 1 / N) * Trace(B * Lambda * B.T * Lambda * Sigma_w * Lambda)
    + Trace(Sigma_w * Lambda) / N * Trace(B * Lambda * B.T * Lambda)
))  # fmt: skip
@given(GIVEN, "The zero blocks are held at zero")
def loss_of_tasks() -> Lines:
    """The loss of one task is quadratic in its vector; so its mean over the tasks, which are the columns of a matrix, holds W W'."""
    index = vector("e_k", K)
    one = E(squared_error(B), (Fixed(w, W * index),))
    of_covariance = TASK.moments.loss()
    yield Line(SumOver(one, index) / K, "=", substitute(of_covariance, {Sigma_w: W * W.T / K}), "The mean over the tasks")
    yield Line(Sigma_w, ":=", W * W.T / K, "Their second moment")
    yield Line(SumOver(one, index) / K, "=", of_covariance, "The mean holds nothing else", part="loss")
    yield Line(E(squared_error(B), TASK.laws()), "=", of_covariance, "and is the loss of task vectors of this covariance")


@register("V11-map", "The map that K tasks teach: a ridge in the space that they span")
@states("map", lambda: Sigma_w * Z.T.I)
@states("inverted", lambda: (1 + 1 / N) * Sigma_w * Lambda + (Trace(Sigma_w * Lambda) + sigma**2) / N * Identity(D))
@given(GIVEN)
def learned_map() -> Lines:
    """The force vanishes at a map with Sigma_w on either side of the same inverse."""
    M_ = TASKS_WITH_NOISE.moments.M
    inverted = TracePolynomial(Lambda.I) * M_
    yield from correlation_with_error(TASKS_WITH_NOISE).within()
    yield Line(Z, ":=", inverted, r"The second moment without one $\boldsymbol{\Lambda}$")
    yield Line(Lambda.I * TASKS_WITH_NOISE.E(beta * beta.T), "=", inverted, "Written out", part="inverted")
    yield Line(B, ":=", Z.I * Sigma_w, "The global minimum")
    yield Line(G, "=", ZeroMatrix(D, D), "The force vanishes there")
    yield Line(B, "=", Sigma_w * Z.T.I, r"Either side of $\boldsymbol{\Sigma}_w$ will do", part="map")


@register("V11-risk", "Tasks seen and new tasks: what a direction takes from either risk")
@states("map", lambda: N * omega / ((N + 1) * lambda_ * omega + P_w + sigma**2))
@states("seen", lambda: N * p**2 / ((N + 1) * p + P_w + sigma**2))
@states("new", lambda: b * lambda_**2 * (2 - b * ((N + 1) * lambda_ + T + sigma**2) / N))
@states("one", lambda: N * (N + 3 - D) / (N + 2) ** 2 * lambda_)
@given(
    GIVEN, COMMON, r"New tasks: $\boldsymbol{w} \sim \mathcal{N}(\boldsymbol{0}, \boldsymbol{I})$", "One: white tokens, $K = 1$, no noise"
)
def risks() -> Lines:
    """The map along a common eigenvector, and what it takes from the loss under either law of the task."""
    A, M_, Q = (NOISY_SHARED.along(part) for part in NOISY_SHARED.moments[:3])
    learned, taken = cancel(A / (M_ * Q)), y_q**2 - (y_q - b * beta.T * e * e.T * x_q) ** 2
    of_map, seen = 2 * b * A - b**2 * M_ * Q, cancel((A**2 / (M_ * Q)).subs(omega, p / lambda_))
    new = factor(2 * b * lambda_**2 - b**2 * lambda_ * NOISY.eigenvalue)
    one = {P_w: lambda_ * omega, sigma: 0, T: D * lambda_}
    alone = new.subs(one).subs(b, factor(learned.subs(one)))
    found = TASKS_WITH_NOISE.E(e.T * beta * y_q * x_q.T * e) / (TASKS_WITH_NOISE.E((e.T * beta) ** 2) * E((e.T * x_q) ** 2))
    yield Line(P_w, ":=", Trace(Sigma_w * Lambda), "The variance of a label")
    yield Line(p, ":=", lambda_ * omega, "The share of the direction in it")
    yield Line(NOISY.E(taken), "=", new, "What a map $b$ along one direction takes from the risk on new tasks", part="new")
    yield Line(found, "=", learned, "The map that is learned, the force being zero", part="map")
    yield Line(alone, "=", factor(alone), r"With one task $P = p$, and the map is $N/((N + 2)\lambda)$", part="one")
    yield Line(TASKS_WITH_NOISE.E(taken), "=", of_map, "and from that on tasks seen")
    yield Line(b, ":=", learned, "With the map that is learned")
    yield Line(new, "->", lambda_, "In long contexts the first is", parameter=N, order=1)
    yield Line(of_map, "=", seen, "and the other is", part="seen")


def _at_least(text: str, more: Symbol, less: Symbol, gap: int) -> Condition:
    def draw(point) -> None:
        point[more] = point[less] + gap + point.rng.randrange(2)
        for i in range(min(point[D], point[K])):
            point[W][i, i] += 4  # tasks that are far from dependent

    def at_the_pole(point) -> None:
        point[more] = point[less] + 1

    return Condition(text, lambda point: point[more] >= point[less] + gap, draw, at_the_pole if gap == 2 else None)


MANY, FEW = _at_least("Many tasks: $K > D + 1$", K, D, 2), _at_least("Few tasks: $K < D - 1$", D, K, 2)
FULL_RANK, NO_FULLER = _at_least(r"$K \ge D$", K, D, 0), _at_least(r"$K \le D$", D, K, 0)


def _long_context(traces: Mapping[int, Any]) -> tuple[TracePolynomial, ...]:
    """The orders 1/N and 1/N^2 of the risk on tasks seen; ``traces`` holds the sums of 1/p, 1 and p over the directions of the tasks."""
    orders: Any = TASKS_WITH_NOISE.long_context(p - risks().parts["seen"], 3)
    by_power = (sum(orders.coeff(N, -k).coeff(p, j).subs(P_w, traces[1]) * one for j, one in traces.items()) for k in (1, 2))
    return tuple(map(TracePolynomial, by_power))


@register("V11-mean", "The mean risk on tasks seen in long contexts, exactly in K and D")
@states("many", lambda: (D + 1) * Trace(Lambda) + D * sigma**2)
@states("few", lambda: (K + 1) * Trace(Lambda) + K * sigma**2)
@states("many, next", lambda: -D * (2 * D + 1 + 2 * sigma**2) - D * ((D + 2 * sigma**2) * (K * D - 2) + K * sigma**4) / (K - D - 1))
@states("few, next", lambda: -D * (2 * K + 1) - 2 * K * sigma**2 - K * ((D + 2 * sigma**2) * (K * D - 2) + K * sigma**4) / (D - K - 1))
@given(GIVEN, DRAWN, "Next: white tokens of variance 1")
@note("Many and few: the coefficients of $1/N$; next: those of $1/N^2$")
def mean_risk() -> Lines:
    """Expand the risk in 1/N, for a second moment of full rank and, by the Gram matrix, for fewer tasks; then average over the draw."""
    A, _, Q, c_ = (part.to_sympy() for part in TASKS_WITH_NOISE.moments)
    risk = c_ - sigma**2 - Trace(A * M.I * A * Q.I)
    gram = W.T * Lambda * W / K
    many = _long_context({-1: Trace(Lambda.I * Sigma_w.I), 0: D, 1: Trace(Sigma_w * Lambda)})
    few = _long_context({-1: Trace(Gram.I), 0: K, 1: Trace(Gram)})
    white, first = substitute(many[1], {Lambda: Identity(D)}), substitute(few[0], {Gram: gram})
    yield Line(E(many[0], DRAW), "=", expect(many[0], DRAW), "The first order below, averaged over the draw", part="many")
    yield Line(E(first, Gaussian(W)), "=", expect(first, Gaussian(W)), "with fewer tasks", part="few")
    yield Line(E(white, DRAW), "=", expect(white, DRAW), "The second order", part="many, next", conditions=(MANY,))
    yield Line(E(few[1], DRAW_OF_GRAM), "=", expect(few[1], DRAW_OF_GRAM), "with fewer tasks", part="few, next", conditions=(FEW,))
    yield Line(Sigma_w, ":=", W * W.T / K, "The second moment of the tasks")
    yield Line(Gram, ":=", gram, "Its eigenvalues other than zero are those of their Gram matrix")
    yield from TASKS_WITH_NOISE.definitions()
    yield Line(risk, "~", many[0] / N + many[1] / N**2, "The risk at the minimum", conditions=(FULL_RANK,), parameter=N, order=3)
    yield Line(risk, "~", few[0] / N + few[1] / N**2, "with fewer tasks", conditions=(NO_FULLER,), parameter=N, order=3)


@register("V11-growth", "How long the plateaus of K tasks last")
@states("growth", lambda: Lambda * Sigma_w * Lambda)
@states("many", lambda: K / (K - D - 1) * Trace(Lambda**-2))
@states("few", lambda: K**2 / (D - K - 1))
@given(GIVEN, DRAWN, "Few: white tokens of variance 1")
def growth() -> Lines:
    """The force at zero weights; the trace of its inverse, and of that of the Gram matrix."""
    A = TASK.moments.A
    inverse, of_gram = Trace(A.to_sympy().I), Trace(Gram.I)
    yield Line(TASK.E(beta * y_q * x_q.T), "=", A, "The correlation of target and feature", part="growth")
    yield Line(E(inverse, DRAW), "=", expect(inverse, DRAW), "An inverse moment of the tasks", part="many", conditions=(MANY,))
    yield Line(E(of_gram, DRAW_OF_GRAM), "=", expect(of_gram, DRAW_OF_GRAM), "and of their Gram matrix", part="few", conditions=(FEW,))
