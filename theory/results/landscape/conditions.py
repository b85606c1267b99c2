r"""What the weights satisfy at a fixed point, given its effective map: equations (57), (58), (84) and the conditions (C2), (C3).

They are what is left of the flow once the effective map is that of a fixed point (23): the force (56) sees the directions not learned.
"""

from functools import partial
from typing import Any

from mpmath import mpf
from sympy import IndexedBase, Trace, cancel, symbols

from ...algebra.polynomial import TracePolynomial
from ...calculus import over_directions, substitute, summand
from ...derivations import Condition, Line, Lines, Rate, define, erratum, given, note, register, states, value_at
from ...derivations.draws import at, commuting, eigenbasis, satisfying
from ...derivations.points import as_mpmath, ball_at
from ...notation import B, B_rest, D, G, K_i as K, Lambda, P, Q_i as Q, e, k_i as k, lambda_, learned, q_i as q, v_i, vector
from ..separate.flow import flow, flow_in_force, flow_lines, rank_one_head, rank_R_head
from ..task.population import ALONG, COMPONENTS as EIGENVALUES, PAPER, Task
from .fixed_points import I_D, direction, force_at_fixed_point, moment_is, projector

k_d, q_d = symbols("k_d q_d", real=True)  # components of a key and of a query
coefficients = vector("b", D), vector("c", D)  # of a key and of a query, (58)
COMPONENTS = {k_d: IndexedBase("k", real=True), q_d: IndexedBase("q", real=True)}


def _components(point) -> None:
    _, vectors = eigenbasis(point)
    for weight, component in ((k, k_d), (q, q_d)):
        point.family(COMPONENTS[component], [as_mpmath((one.transpose() * ball_at(weight, point))[0, 0]) for one in vectors])


def _are_components(point) -> bool:
    there, letters = point.copy(), [COMPONENTS[one][d] for one in COMPONENTS for d in range(1, point[D] + 1)]
    _components(there)
    return all(abs(value_at(one, point) - value_at(one, there)) < 1e-20 for one in letters)


def _into_span(weight, point) -> None:
    point[weight] = point[P] * point[weight]


def _apart(point) -> None:
    """The last two directions are not learned; the key has one of them, the query the other."""
    values, vectors = eigenbasis(point)
    if len(values) < 2:
        raise ValueError("the key and the query need two directions that are not learned")
    point[P] = commuting(vectors, [mpf(d < len(values) - 2) for d in range(len(values))])
    point[k], point[q] = vectors[-2:]


def _one_left(point) -> None:
    """All directions but one are learned, and the value weight stands still, so the key or the query has nothing of it."""
    values, vectors = eigenbasis(point)
    point[P] = commuting(vectors, [mpf(d > 0) for d in range(len(values))])
    _into_span(point.rng.choice((k, q)), point)


STILL = satisfying("The value weight stands still", {k.T * Lambda * (I_D - P) * Lambda * q: 0})
WAITING = Condition("$v_i = 0$", lambda point: point[v_i] == 0, at(v_i, 0))
ACTIVE = Condition(r"$v_i \ne 0$", lambda point: point[v_i] != 0, outside=at(v_i, 0))
IN_COMPONENTS = Condition(
    r"$k_d$ and $q_d$ are the components of $\boldsymbol{k}_i$ and $\boldsymbol{q}_i$ along the eigenvectors", _are_components, _components
)
APART = Condition(
    "Two directions or more are not learned, and the value weight stands still",
    lambda point: sum(value_at(I_D - P, point)[d, d] for d in range(point[D])) > 3 / 2 and STILL.holds(point),
    _apart,
    _one_left,
)


def at_fixed_map(head: Any, task: Task = PAPER) -> tuple[Line, Line]:
    """The two lines that put the flow where (C1) holds."""
    return (
        Line(B, ":=", task.fixed_map, "The effective map of a fixed point (21)"),
        Line(B_rest, ":=", B - head, "The other heads make up the rest of it"),
    )


def flow_at_fixed_point(head: Any, weights: tuple, task: Task = PAPER) -> list[TracePolynomial]:
    """tau dW/dt for the weights of a head, where the effective map is that of a fixed point."""
    return [substitute(rate, {G: force_at_fixed_point(task)}) for rate in flow_in_force(head, weights).values()]


@register("57", "The flow where the effective map is that of a fixed point", section="Appendix D.3")
@states("a", lambda: k.T * Lambda * (I_D - P) * Lambda * q)
@states("b", lambda: v_i * Lambda * (I_D - P) * Lambda * q)
@states("c", lambda: v_i * Lambda * (I_D - P) * Lambda * k)
@given(moment_is)
def flow_at_fixed_map(task: Task = PAPER) -> Lines:
    """The flow (19) with the force (56), which is symmetric."""
    head, weights = rank_one_head(), (v_i, k, q)
    reasons = ("The value weight sees what is not learned", "so does the key", "and the query")
    yield from flow_lines(head, weights, task=task)
    yield from at_fixed_map(head, task)
    for weight, right, reason, part in zip(weights, flow_at_fixed_point(head, weights, task), reasons, "abc", strict=True):
        yield Line(Rate(weight, flow(head, weights, task)), "=", right, reason, part=part)


define("58", "Key and query in the span of the learned eigenvectors", section="Appendix D.3",
       left={"a": k, "b": q}, typed=lambda _=PAPER: {"a": P * coefficients[0], "b": P * coefficients[1]},
       conditions=(projector,))  # fmt: skip


@register("C2", "Condition (C2): the keys and queries of an active head are in the span of the learned eigenvectors", section="Section 4.2")
@states("query", lambda: (1 - learned) * q_d)
@states("key", lambda: (1 - learned) * k_d)
@given(direction, ACTIVE)
@erratum("The paper proves that it suffices; given (C1), it is also necessary")
def second_condition(task: Task = PAPER) -> Lines:
    """What the flow (57b), (57c) says along each eigenvector, and in the span of the learned ones."""
    head, weights, A = rank_one_head(), (v_i, k, q), task.moments.A.to_sympy()
    rates, scale = flow(head, weights, task), v_i * task.along(A)
    of_query, of_key = (task.along(rate, {P: learned, k: k_d, q: q_d}) for rate in flow_at_fixed_point(head, weights, task)[1:])
    yield from flow_lines(head, weights, (k, q), task)
    yield from task.commutes()
    yield from at_fixed_map(head, task)
    yield Line(k_d, ":=", e.T * k, "The component of the key along an eigenvector")
    yield Line(q_d, ":=", e.T * q, "and that of the query")
    yield Line(e.T * Rate(k, rates), "=", of_query, "The velocity of the key along the eigenvector, equation (57b)")
    yield Line(e.T * Rate(k, rates) / scale, "=", cancel(of_query / scale), "Divided by what is not zero", part="query")
    yield Line(e.T * Rate(q, rates) / scale, "=", cancel(of_key / scale), "The velocity of the query, equation (57c)", part="key")
    equivalent = "So the key stands still exactly if the query is in the span", "and the query if the key is"
    for weight, other, reason in zip((k, q), (q, k), equivalent, strict=True):
        in_span = Line(P * other, "=", other)
        yield Line(Line(Rate(weight, rates), "=", 0), "<=>", in_span, reason, meets=(partial(_into_span, other),) * 2)
    if task == PAPER:
        yield Line(P * Lambda * q, "=", Lambda * P * q, r"$\boldsymbol{P}$ commutes with $\boldsymbol{\Lambda}$")
        yield Line(P * Lambda * k, "=", Lambda * P * k, "For the key too")
        yield Line(Rate(k, rates), "=", 0, "On the set (21) the key stands still", uses=("21", -2))
        yield Line(Rate(q, rates), "=", 0, "and the query", uses=("21", -2))
        for weight, coefficient in zip((k, q), coefficients, strict=True):
            yield Line(Rate(weight, rates), "=", 0, "With the coefficients (58), as in the paper", uses="58")
            yield Line(e.T * weight, "=", learned * e.T * coefficient, "Its component along a learned eigenvector", uses="58")


@register("C3", "Condition (C3), necessary and sufficient: what a waiting head must satisfy", section="Section 4.2")
@states(lambda: over_directions((1 - learned) * lambda_**2 * k_d * q_d, components=COMPONENTS))
@given(projector, WAITING)
@note(IN_COMPONENTS.text)
@erratum(
    "The paper asks that the key or the query be in the span of the learned eigenvectors. That suffices "
    r"and is not necessary where two or more directions are not learned: $\boldsymbol{k} = "
    r"\boldsymbol{e}_{3}$, $\boldsymbol{q} = \boldsymbol{e}_{4}$ with $S=\{1,2\}$ is a fixed point"
)
def third_condition(task: Task = PAPER) -> Lines:
    """The velocity of the value weight; those of the key and the query vanish with v_i."""
    head, weights = rank_one_head(), (v_i, k, q)
    rates, (value_rate, *_) = flow(head, weights, task), flow_at_fixed_point(head, weights, task)
    share = summand(value_rate, {Lambda: lambda_, **ALONG, P: learned, k: k_d, q: q_d})
    components = {**COMPONENTS, **EIGENVALUES}
    yield from flow_lines(head, weights, (v_i,), task)
    yield from task.commutes()
    yield from at_fixed_map(head, task)
    yield Line(Rate(k, rates), "=", 0, "With $v_{i} = 0$ the key stands still")
    yield Line(Rate(q, rates), "=", 0, "and the query")
    yield Line(Rate(v_i, rates), "=", value_rate, "The velocity of the value weight, equation (57a)")
    if task == PAPER:
        yield Line(Rate(v_i, rates), "=", 0, "It is zero on the set (21)", uses="21")
        yield Line(Rate(v_i, rates), "=", 0, "in particular for a key and a query in the span (58), as in the paper", uses="58")
        yield Line((k.T * (I_D - P) * k) * (q.T * (I_D - P) * q), "!=", 0,
                   "As printed in the paper, (C3) asks that this be zero: it need not be", conditions=(APART,))  # fmt: skip
    yield Line(Rate(v_i, rates), "=", over_directions(share, components=components), "In general it is a sum over the directions",
               conditions=(IN_COMPONENTS,))  # fmt: skip


@register("84", "Condition (C3) at rank $R$: what a waiting head must satisfy", section="Appendix E.3")
@states(lambda: Trace(K.T * Lambda * (I_D - P) * Lambda * Q))
@given(moment_is, WAITING)
def third_condition_rank_R(task: Task = PAPER) -> Lines:
    """The velocity of the value weight, with the columns of K_i and Q_i summed in the trace."""
    head, weights = rank_R_head(), (v_i, K, Q)
    rates, (value_rate, *_) = flow(head, weights, task), flow_at_fixed_point(head, weights, task)
    yield from flow_lines(head, weights, (v_i,), task)
    yield from at_fixed_map(head, task)
    yield Line(Rate(K, rates), "=", 0, "With $v_{i} = 0$ the keys stand still")
    yield Line(Rate(Q, rates), "=", 0, "and the queries")
    if task == PAPER:
        yield Line(Rate(v_i, rates), "=", 0, "The value weight stands still on the set (81)", uses="81")
    yield Line(Rate(v_i, rates), "=", value_rate, "In general this is its velocity")
