r"""The fixed points of separate attention: their effective map and the force there, equations (21)-(23), (55), (56), (81)-(83) and (C1).

The map is M^-1 Lambda P: necessary by T1, see :mod:`~iclflow.theory.results.landscape.completeness`, and sufficient with the conditions
on the weights in :mod:`~iclflow.theory.results.landscape.conditions`.
"""

from functools import cache
from typing import Any

from sympy import Expr, Identity, Symbol, Trace, cancel, factor, solve, sqrt

from ...algebra.polynomial import TracePolynomial
from ...calculus import rewrite, substitute
from ...derivations import Condition, Line, Lines, define, erratum, given, note, register, states, value_at
from ...derivations.draws import DIRECTION, POSITIVE_DEFINITE, PROJECTOR, eigenbasis, learned_directions, one_direction, satisfying
from ...derivations.points import ball_at
from ...notation import B, D, G, K_i as K, Lambda, M, N, P, Q_i as Q, T, a, e, k_i as k, lambda_, learned, q_i as q, symmetric_matrix
from ...typesetting.latex import formula_latex
from ..task.population import PAPER, Task
from ..task.regression import force, force_along, loss_and_force

m = Symbol("m", integer=True, nonnegative=True)  # how many eigenvectors are learned
b = Symbol("b", real=True)  # the effective map along an eigenvector
v_positive = Symbol("v", positive=True)
Gamma = symmetric_matrix("Gamma", D)  # the effective map at a fixed point
I_D = Identity(D)


def _keep_direction(point) -> None:
    point[B] = ball_at(KEPT, point)


KEPT = B - B * e * e.T + e * e.T * B * e * e.T
TRACE = satisfying(
    r"$T = \operatorname{tr}(\boldsymbol{\Lambda})$", {T: Trace(Lambda)}, eigenbasis, lambda point: point.__setitem__(T, 2 * point[T])
)
KEEPS_DIRECTION = satisfying(
    r"$\boldsymbol{B}$ maps $\boldsymbol{e}$ onto a multiple of itself, as it does at every fixed point by T1",
    {B * e: e * e.T * B * e},
    _keep_direction,
)


def ridge(eigenvalue_: Expr, total: Expr = T) -> Expr:
    """The paper's shrinkage 1 / (1 + (1 + T / lambda) / N)."""
    return 1 / (1 + (1 + total / eigenvalue_) / N)


def direction(task: Task = PAPER) -> Condition:
    """One direction of the task."""
    return task.condition(DIRECTION, one_direction)


def projector(task: Task = PAPER) -> Condition:
    """All directions of the task."""
    return task.condition(PROJECTOR, learned_directions)


@cache
def moment_is(task: Task = PAPER) -> Condition:
    """What M is."""
    return satisfying(rf"$\boldsymbol{{M}}$ is {task.second_moment()}", {M: task.moments.M}, task.draw)


@cache
def fixed_map_along(task: Task = PAPER) -> Expr:
    """The nonzero root of b G = 0 along an eigenvector: lambda / a for the paper's task."""
    (root,) = (root for root in solve(b * force_along(b, task), b) if root != 0)
    return root


@cache
def written_map_along(task: Task = PAPER) -> Expr:
    """The same with the moment (32) written out, for d in S; zero for the other directions."""
    return cancel(fixed_map_along(task).subs(a, task.eigenvalue))


@cache
def force_at_fixed_point(task: Task = PAPER) -> TracePolynomial:
    """G at Gamma, where M Gamma = Lambda P for the paper's task."""
    return rewrite(substitute(force(task), {B: Gamma}), {M * Gamma: task.learned * P})


# The effective map


def _sets(number: str, section: str, key: Any, query: Any) -> None:
    def sets(task: Task = PAPER) -> dict[str, Any]:
        waiting = key.T * task.learned.to_sympy() * P * task.query_covariance.to_sympy() * query
        return {"map": task.fixed_map, "active query": query, "active key": key, "waiting head": Trace(waiting)}

    def lefts(task: Task = PAPER) -> dict[str, Any]:
        waiting = Trace(key.T * task.moments.A.to_sympy() * query)
        return {"map": B, "active query": P * query, "active key": P * key, "waiting head": waiting}

    define(number, "The set of fixed points that have learned the eigenvectors in $S$", section=section,
           left=lefts, typed=sets,
           conditions=(projector,), notes=(r"An active head has $v_i \ne 0$, a waiting head $v_i = 0$",),
           erratum="The paper's (C3) asks more of waiting heads than is needed" if number == "21" else None)  # fmt: skip


_sets("21", "Section 4.2", k, q)
_sets("81", "Appendix E.3", K, Q)
for _number, _section, _slots in (("22", "Section 4.2", "H"), ("82", "Appendix E.3", "R H")):
    define(_number, "The learned eigenvectors: a subset of the $D$ indices with $m$ members", section=_section,
           left=m, typed=lambda _=PAPER: Trace(P),
           conditions=(projector,),
           notes=(rf"Argued, not derived: $m \le \min(D, {_slots})$, as ${_slots}$ maps of rank one sum to no higher rank",))  # fmt: skip


def _roots(task: Task = PAPER) -> Lines:
    """The force along an eigenvector, where the map times the force vanishes there, and the map of the fixed points."""
    along_b = force_along(b, task)
    yield from loss_and_force(task)
    yield from task.commutes()
    yield Line(b, ":=", e.T * B * e, "Along an eigenvector the effective map is")
    yield Line(e.T * G * e, "=", along_b, "and the force")
    yield Line(e.T * B.T * G * e, "=", factor(b * along_b),
               r"$\boldsymbol{B}^{\top} \boldsymbol{G} = 0$ at every fixed point, see T1: along the eigenvector it has two roots",
               conditions=(KEEPS_DIRECTION,))  # fmt: skip


def _at_fixed_point(task: Task = PAPER) -> tuple[Line, ...]:
    """For another task than the paper's, what its set (21) says of the map."""
    reason = "The effective map (21) of the fixed points that have learned the eigenvectors in $S$"
    return () if task == PAPER else (Line(B, ":=", task.fixed_map, reason),)


def _eigenvector(task: Task, number: str) -> Line:
    reason = "Each learned eigenvector is one of the map, with the root that is not zero; the map takes the others to zero"
    return Line(B * e, "=", learned * fixed_map_along(task) * e, reason, task.uses(number))


@register("23", "The effective map at a fixed point", section="Section 4.2")
@states(lambda: learned / lambda_ * ridge(lambda_))
@given(POSITIVE_DEFINITE, direction, TRACE)
@erratum("The paper proves that it suffices; with distinct eigenvalues it is also necessary")
def map_at_fixed_point(task: Task = PAPER) -> Lines:
    """The roots of b G(b) = 0 along each eigenvector."""
    yield from _roots(task)
    yield from _at_fixed_point(task)
    yield _eigenvector(task, "21")
    yield Line(e.T * B * e, "=", learned * written_map_along(task), "The moment (32) written out", task.uses("21"))


@register("55", "The effective map at a fixed point, by the moment (32)", section="Appendix D.3")
@states(lambda: learned * lambda_ / a)
@given(direction)
def fixed_map_by_moment(task: Task = PAPER) -> Lines:
    """As (23), before the moment is written out."""
    known = task.learned.to_sympy()
    yield from task.commutes()
    yield from _at_fixed_point(task)
    yield Line(M * B, "=", known * P, "The moment times the map (21)", task.uses("21"))
    yield Line(Trace(M * B * known.I), "=", m, "Its rank is the number of learned eigenvectors", (*task.uses("21"), "22"))
    yield _eigenvector(task, "21")
    yield Line(e.T * B * e, "=", learned * fixed_map_along(task), "The map along an eigenvector", task.uses("21"))


@register("C1", "Condition (C1), as the equation that the effective map satisfies along every eigenvector", section="Section 4.2")
@states(lambda: b * (b - lambda_ / a))
@given(direction)
@erratum("The paper states (C1) as sufficient")
def first_condition(task: Task = PAPER) -> Lines:
    """b G(b), divided by its leading coefficient."""
    product, leading = e.T * B.T * G * e, force_along(b, task).coeff(b)

    def at_fixed_point(point) -> None:
        point[B] = value_at(task.fixed_map, point)

    yield from _roots(task)
    yield Line(Line(B, "=", task.fixed_map), "=>", Line(product, "=", 0),
               "It is zero for the maps (21)", task.uses("21"), meets=(at_fixed_point,))  # fmt: skip
    yield Line(product / leading, "=", cancel(b * force_along(b, task) / leading),
               rf"Divide by ${formula_latex(leading)}$, which is not zero", conditions=(KEEPS_DIRECTION,))  # fmt: skip


@register("83", "The effective map at a fixed point, rank $R$", section="Appendix E.3")
@states("map", lambda: learned / lambda_ * ridge(lambda_))
@states("slot", lambda: sqrt(ridge(lambda_) / (lambda_ * v_positive)))
@given(POSITIVE_DEFINITE, direction, TRACE)
@note(r"$\boldsymbol{k}_i$ and $\boldsymbol{q}_i$ are the columns of one slot, $v>0$ is the value weight of its head")
@erratum(
    "With all weights but $r = 1$ set to zero, as in the paper, it takes $m$ heads; filling the slots of "
    r"a head one after the other, $m \le R H$ is enough"
)
def rank_R_map(task: Task = PAPER) -> Lines:
    """As (23); any head with v_i > 0 can serve R eigenvectors, one in each slot."""
    amplitude, known = Symbol("x", positive=True), written_map_along(task)
    slot = sqrt(cancel(known / v_positive))
    yield from _roots(task)
    yield from _at_fixed_point(task)
    yield Line(Trace(M * B * task.learned.to_sympy().I), "=", m, "The map (81) has this rank", (*task.uses("81"), "82"))
    yield _eigenvector(task, "81")
    yield Line(e.T * B * e, "=", learned * known, "With the moment (32)", task.uses("81"), "map")
    yield Line(amplitude, ":=", slot, rf"The amplitude that solves $v x^2 = {formula_latex(fixed_map_along(task))}$")
    yield Line(k, ":=", amplitude * e, "Let the key of one slot be this multiple of the eigenvector")
    yield Line(q, ":=", k, "and the query the same")
    yield Line(v_positive * (e.T * k) * (q.T * e), "=", known, "Then the slot serves it")
    yield Line(e.T * k, "=", slot, "Its component along the eigenvector", part="slot")


# The flow at the fixed points


@register("56", "The force at a fixed point", section="Appendix D.3")
@states("matrix", lambda: Lambda * (I_D - P) * Lambda)
@states("along", lambda: (1 - learned) * lambda_**2)
@given(direction)
def fixed_force(task: Task = PAPER) -> Lines:
    """Put the effective map into the force (53): only the directions not learned are left."""
    yield from loss_and_force(task)
    yield from task.commutes()
    yield from _at_fixed_point(task)
    yield Line(G, "=", force_at_fixed_point(task), "With the map (21)", task.uses("21"), "matrix")
    yield Line(e.T * G * e, "=", task.along(force_at_fixed_point(task), {P: learned}), "Along an eigenvector", task.uses("21"), "along")
