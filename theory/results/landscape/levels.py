r"""The loss at the fixed points: equations (24), (59), (60), with their limits for a long context.

As a sum over the eigenvectors of Lambda: a learned one costs lambda - lambda^3 / a, the others lambda.
"""

from functools import cache
from typing import Any

from mpmath import mpf
from sympy import Expr, Trace, cancel

from ...algebra.polynomial import TracePolynomial
from ...calculus import eigenvalue, indicator, on_and_off, over_directions, substitute, summand
from ...derivations import Condition, Derivation, E, Line, Lines, carried_out, erratum, given, register, states, value_at
from ...derivations.draws import POSITIVE_DEFINITE, commuting, eigenbasis, satisfying
from ...expectation import expect
from ...notation import B, D, Lambda, Lambda_hat, M, N, P, T, a, beta, e, lambda_, learned, x_q, y_q
from ...typesetting.latex import formula_latex
from ..task.population import ALONG, COMPONENTS, PAPER, Task
from ..task.regression import closed_loss
from .fixed_points import I_D, TRACE, Gamma, b, direction, fixed_map_along, m, projector, ridge


@cache
def at_fixed_map(task: Task = PAPER) -> Condition:
    """Gamma is the map at the fixed points that have learned S."""
    map_ = task.fixed_map

    def draw(point) -> None:
        if P not in point:
            direction(task).meet(point)
        point[Gamma] = value_at(map_, point)

    return satisfying(
        rf"$\boldsymbol{{\Gamma}} = {formula_latex(map_)}$ is the map (55); $\chi_d = 1$ for $d \in S$, else 0", {Gamma: map_}, draw
    )


FIXED_MAP = at_fixed_map()


def first_learned(task: Task = PAPER) -> Condition:
    """The same for the first m eigenvectors."""

    def draw(point) -> None:
        projector(task).meet(point)
        values, vectors = eigenbasis(point)
        point[m] = count = point.rng.randint(1, len(values))
        chosen = [mpf(d < count) for d in range(len(values))]
        point[P] = commuting(vectors, chosen)
        point.family(indicator, chosen)
        point[Gamma] = value_at(task.fixed_map, point)

    def holds(point) -> bool:
        return all(point[indicator][d] == (d <= point[m]) for d in range(1, point[D] + 1))

    return Condition(r"$S=\{1,\dots,m\}$", holds, draw, lambda point: (draw(point), point.__setitem__(m, point[m] - 1)))


@cache
def loss_along(task: Task = PAPER) -> Expr:
    """The share of one direction in the loss at a fixed point; the noise of the labels has no share."""
    loss = closed_loss(task).result - TracePolynomial(task.noise)
    return on_and_off(summand(loss, {Lambda: lambda_, **ALONG, M: a, B: learned * fixed_map_along(task)}))


@cache
def written_loss_along(task: Task = PAPER) -> Expr:
    """The same with the moment (32) written out."""
    off = loss_along(task).subs(learned, 0)
    return off - learned * cancel((off - loss_along(task).subs(learned, 1)).subs(a, task.eigenvalue))


def summed(formula: Expr, **bounds: Any) -> Any:
    """The sum over directions of a function of lambda, a, chi and the eigenvalues of the task's covariances."""
    return over_directions(formula, components=COMPONENTS, **bounds)


def learned_alone(task: Task, moment: Any = a) -> Derivation:
    """One direction and no other: what drives it from small weights, the map at which it rests, and what it takes from the loss.

    ``moment``: a, or what it is.
    """
    drive, rest = task.along(task.moments.A), cancel(fixed_map_along(task).subs(a, moment))
    correlation = task.E(e.T * beta * y_q * x_q.T * e)
    return Derivation.by(
        *task.definitions(),
        *((Line(a, ":=", e.T * M * e, r"The eigenvalue of $\boldsymbol{M}$"),) if moment == a else ()),
        Line(correlation, "=", drive, "The force at zero weights along a common eigenvector", part="rate"),
        Line(b, ":=", e.T * M.I * task.learned.to_sympy() * e, "The minimum along this direction, and no map in the others"),
        Line(b, "=", rest, "With the eigenvalues", part="map"),
        Line(correlation, "=", b * task.E((e.T * beta) ** 2) * task.E((e.T * x_q) ** 2), "The force vanishes there"),
        Line(task.E(y_q**2 - (y_q - b * beta.T * e * e.T * x_q) ** 2), "=", cancel(drive * rest), "The fall of the loss", part="drop"),
    )


@register("59", "The loss at a fixed point", section="Appendix D.4")
@states("loss", lambda: over_directions(lambda_ - learned * lambda_ * ridge(lambda_)))
@states("limit", lambda: over_directions((1 - learned) * lambda_))
@given(at_fixed_map, TRACE)
def fixed_loss(task: Task = PAPER) -> Lines:
    """The loss (9) as a sum over the eigenvectors, with the effective map (55)."""
    error = task.E((y_q - beta.T * Gamma * x_q) ** 2)
    quadratic = substitute(closed_loss(task).result, {B: Gamma})
    whole = task.noise + summed(written_loss_along(task))
    yield from task.definitions()
    yield from task.commutes()
    yield Line(error, "=", quadratic, "The loss (9-closed) on the map of a fixed point")
    yield Line(quadratic, "=", task.noise + summed(loss_along(task)),
               "Along the eigenvectors, with $\\chi_d^2 = \\chi_d$ and $a_d$ those of $\\boldsymbol{M}$")  # fmt: skip
    yield Line(error, "=", whole, "The moment (32) written out", part="loss")
    yield Line(whole, "->", task.noise + summed(task.long_context(written_loss_along(task))),
               "A long context", part="limit", parameter=task.length, order=1)  # fmt: skip


@register("24", "The loss levels of the plateaus", section="Section 4.3")
@states("loss", lambda: T - over_directions(lambda_ * ridge(lambda_), last=m))
@states("limit", lambda: over_directions(lambda_, first=m + 1))
@states("drop", lambda: eigenvalue[m] * ridge(eigenvalue[m]))
@states("drop, first order", lambda: eigenvalue[m] - (eigenvalue[m] + T) / N)
@given(first_learned, TRACE, POSITIVE_DEFINITE)
@erratum(
    r"The drop is $\lambda_{m}$ only as $N$ goes to infinity: its relative deficit is $(1 + T / "
    r"\lambda_{m}) / N$ to first order, 10 to 42 % in the paper's figures"
)
def plateau_loss(task: Task = PAPER) -> Lines:
    """The loss (59) with the first m eigenvectors learned, the drop between two such levels, and its first order in 1/N."""
    off = written_loss_along(task).subs(learned, 0)
    gain = off - written_loss_along(task).subs(learned, 1)
    total = task.moments.c.to_sympy().subs({Trace(Lambda): T})
    level, before = total - summed(gain, last=m), total - summed(gain, last=m - 1)
    drop = gain.subs({lambda_: eigenvalue[m], **{letter: base[m] for letter, base in COMPONENTS.items()}})
    costs = task.long_context(off - gain)
    learned_costs = summed(costs, last=m).doit() if costs == 0 else summed(costs, last=m)
    long = {"parameter": task.length}
    if task != PAPER:  # whose directions (59) has
        yield from (*task.definitions(), *task.commutes())
    yield Line(task.noise + summed(written_loss_along(task)), "=", level,
               "The loss (59): the first $m$ directions are learned, and the eigenvalues sum to $T$",
               uses=task.uses("59"), part="loss")  # fmt: skip
    yield Line(level, "->", task.noise + learned_costs + summed(off, first=m + 1),
               "A long context: learned directions cost nothing, the others their eigenvalue", part="limit", order=1, **long)  # fmt: skip
    yield Line(before - level, "=", drop, "The drop from one level to the next", part="drop")
    yield Line(drop, "~", task.long_context(drop, 2), "The drop to first order in $1/N$", part="drop, first order", order=2, **long)


@register("60", "The loss at a fixed point, before the average over the context", section="Appendix D.4")
@states("sequence", lambda: x_q.T * (I_D - Gamma * Lambda_hat - Lambda_hat * Gamma + Gamma * Lambda_hat**2 * Gamma) * x_q)
@states("square", lambda: (1 + 1 / N) * Gamma * Lambda**2 * Gamma + Trace(Lambda) / N * Gamma * Lambda * Gamma)
@states("other order", lambda: (
    (1 + 1 / N) * (Trace(Lambda**3 * Gamma**2) - Trace(Lambda * Gamma * Lambda**2 * Gamma))
    + (Trace(Gamma**2 * Lambda) * Trace(Lambda**2) - Trace(Lambda) * Trace(Gamma * Lambda * Gamma * Lambda)) / N
))  # fmt: skip
@given(lambda task=PAPER: r"$\boldsymbol{\Gamma}$ is symmetric" if task == PAPER else at_fixed_map(task))
@erratum(
    r"The quadratic term is $(\hat{\boldsymbol{\Lambda}} \boldsymbol{\Gamma})^{\top} (\hat{\boldsymbol{\Lambda}} \boldsymbol{\Gamma})$, "
    r"not the square of $\hat{\boldsymbol{\Lambda}} \boldsymbol{\Gamma}$: the paper evaluates it in two different orders. The orders "
    "differ even in the mean; the final loss (59) is that of the right one"
)
def loss_of_context(task: Task = PAPER) -> Lines:
    """Average over the task with the context given, then the quadratic term over the context, in both orders."""
    error = task.E((y_q - beta.T * Gamma * x_q) ** 2, given=(x_q, Lambda_hat))
    quadratic = task.E(Gamma * beta * beta.T * Gamma, in_context=True)
    if task != PAPER:
        yield from (*task.gains(), *task.commutes())
    yield Line(error, "=", carried_out(error), "Average over the task", part="sequence")
    yield Line(quadratic, "=", Gamma * task.moments.M * Gamma, "The quadratic term, averaged over the context", part="square")
    if task == PAPER:
        square, swapped = Gamma * Lambda_hat**2 * Gamma, Lambda_hat * Gamma**2 * Lambda_hat
        other, added = Trace(E(Lambda * (swapped - square))), TracePolynomial(Lambda * (expect(swapped) - expect(square))).trace()
        yield Line(other, "=", added, "What the other order adds", part="other order")
        yield Line(E(swapped), "!=", E(square), "The paper evaluates the square in both orders, which differ even in the mean")
