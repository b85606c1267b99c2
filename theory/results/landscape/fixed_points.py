r"""The fixed points of separate attention: their effective map and the force there, equations (21)-(23), (55), (56), (81)-(83) and (C1).

At every fixed point the effective map is M^-1 Lambda P, where P projects onto the span of the learned eigenvectors, d in S. Along an
eigenvector of Lambda it is chi lambda / a, with chi = 1 for d in S and 0 otherwise. That is necessary by the theorem T1, see
:mod:`~iclflow.theory.results.landscape.completeness`, and sufficient with the conditions on the weights in
:mod:`~iclflow.theory.results.landscape.conditions`.
"""

from functools import cache
from typing import Any

from mpmath import norm
from sympy import Expr, Identity, Symbol, Trace, cancel, factor, solve, sqrt

from ...algebra.polynomial import TracePolynomial
from ...calculus.rewriting import rewrite
from ...calculus.spectral import along
from ...calculus.substitution import substitute
from ...derivations.conditions import Condition
from ...derivations.derivation import Derivation
from ...derivations.draws import DIRECTION, PROJECTOR, eigenbasis
from ...derivations.lines import Line
from ...derivations.registry import define, register
from ...notation import B, D, G, Lambda, M, N, P, T, a, e, lambda_, learned, symmetric_matrix
from ...notation import K_i as K
from ...notation import Q_i as Q
from ...notation import k_i as k
from ...notation import q_i as q
from ..separate.flow import loss_and_force
from ..task.regression import force, force_along
from ..task.second_moments import second_moment_along

__all__ = ["MAP", "Gamma", "fixed_map_along", "force_at_fixed_point", "m"]

m = Symbol("m", integer=True, nonnegative=True)  # how many eigenvectors are learned
b = Symbol("b", real=True)  # the effective map along an eigenvector
v_positive = Symbol("v", positive=True)
Gamma = symmetric_matrix("Gamma", D)  # the effective map at a fixed point
I_D = Identity(D)
MAP = M.I * Lambda * P  # the effective map at a fixed point


def _spectrum(point) -> bool:
    values, _ = eigenbasis(point)
    return values[-1] > 0


def _keep_direction(point) -> None:
    along_e = point[e] * point[e].T
    point[B] = point[B] - (point[B] - (point[e].T * point[B] * point[e])[0, 0] * point[B] ** 0) * along_e


def _keeps_direction(point) -> bool:
    image = point[B] * point[e]
    return norm(image - point[e] * (point[e].T * image)[0, 0]) < 1e-20


SPECTRUM = Condition(
    r"$T = \operatorname{tr}(\boldsymbol{\Lambda})$, and $\boldsymbol{\Lambda}$ is positive definite", _spectrum, eigenbasis
)
KEEPS_DIRECTION = Condition(
    r"$\boldsymbol{B}$ maps $\boldsymbol{e}$ onto a multiple of itself, as it does at every fixed point by T1",
    _keeps_direction,
    _keep_direction,
)
DISTINCT = Condition(r"the eigenvalues are distinct: then the map is also necessary, see T1")


def ridge(eigenvalue_: Expr) -> Expr:
    """The paper's shrinkage 1 / (1 + (1 + T / lambda) / N)."""
    return 1 / (1 + (1 + T / eigenvalue_) / N)


@cache
def fixed_map_along() -> Expr:
    """The nonzero root of b G = 0 along an eigenvector: lambda / a."""
    (root,) = (root for root in solve(b * force_along(b), b) if root != 0)
    return root


@cache
def written_map_along() -> Expr:
    """The same with the moment (32) written out, for d in S; zero for the other directions."""
    return cancel(fixed_map_along().subs(a, second_moment_along()))


@cache
def force_at_fixed_point() -> TracePolynomial:
    """G at Gamma, where M Gamma = Lambda P."""
    return rewrite(substitute(force(), {B: Gamma}), {M * Gamma: Lambda * P})


# The effective map


def _sets(number: str, section: str, key: Any, query: Any) -> None:
    define(
        number,
        "The set of fixed points that have learned the eigenvectors in $S$",
        section=section,
        left={"map": B, "active query": P * query, "active key": P * key, "waiting head": Trace(key.T * Lambda**2 * query)},
        typed=lambda: {"map": MAP, "active query": query, "active key": key, "waiting head": Trace(key.T * Lambda * P * Lambda * query)},
        conditions=(
            PROJECTOR,
            r"The second and third for every head with $v_i \ne 0$, the last for those with $v_i = 0$",
            r"$\lambda_d > 0$ for $d \in S$: at $\lambda = (1, 0)$ and $S = \{2\}$ there is no such map, for $a_2 = 0$",
        ),
        erratum="The paper's (C3) asks more of waiting heads than is needed" if number == "21" else None,
    )


_sets("21", "Section 4.2", k, q)
_sets("81", "Appendix E.3", K, Q)
for _number, _section, _slots in (("22", "Section 4.2", "H"), ("82", "Appendix E.3", "R H")):
    define(
        _number,
        "The learned eigenvectors: a subset of the $D$ indices with $m$ members",
        section=_section,
        left=m,
        typed=lambda: Trace(P),
        conditions=(
            PROJECTOR,
            rf"Argued, not computed: $m \le \min(D, {_slots})$, for a sum of ${_slots}$ maps of rank one has no higher rank",
        ),
    )


def _roots() -> tuple[Line, ...]:
    """The force along an eigenvector, and where the map times the force vanishes there."""
    return (
        *loss_and_force(),
        Line(b, ":=", e.T * B * e, "Along an eigenvector the effective map is"),
        Line(e.T * G * e, "=", force_along(b), "and the force"),
        Line(
            e.T * B.T * G * e,
            "=",
            factor(b * force_along(b)),
            r"$\boldsymbol{B}^{\top} \boldsymbol{G} = 0$ at every fixed point, see T1: along the eigenvector it has two roots",
            conditions=(KEEPS_DIRECTION,),
        ),
    )


@register(
    "23",
    "The effective map at a fixed point",
    kind="exact",
    section="Section 4.2",
    typed=lambda: learned / lambda_ * ridge(lambda_),
    conditions=(SPECTRUM, DIRECTION, DISTINCT),
    erratum="The paper proves that it suffices; with distinct eigenvalues it is also necessary",
)
def fixed_map() -> Derivation:
    """The roots of b G(b) = 0 along each eigenvector."""
    return Derivation.by(
        *_roots(),
        Line(e.T * B * e, "=", learned * fixed_map_along(), "The root that is not zero, for the learned eigenvectors", uses="21"),
        Line(e.T * B * e, "=", learned * written_map_along(), "The moment (32) written out", uses="21"),
    )


@register(
    "55",
    "The effective map at a fixed point, by the moment (32)",
    kind="exact",
    section="Appendix D.3",
    typed=lambda: learned * lambda_ / a,
    conditions=(DIRECTION,),
)
def fixed_map_by_moment() -> Derivation:
    """As (23), before the moment is written out."""
    return Derivation.by(
        Line(M * B, "=", Lambda * P, r"The moment times the map (21)", uses="21"),
        Line(Trace(M * B * Lambda.I), "=", m, "Its rank is the number of learned eigenvectors", uses=("21", "22")),
        Line(e.T * B * e, "=", learned * fixed_map_along(), "The map along an eigenvector", uses="21"),
    )


@register(
    "C1",
    "Condition (C1), as the equation that the effective map satisfies along every eigenvector",
    kind="exact",
    section="Section 4.2",
    typed=lambda: b * (b - lambda_ / a),
    conditions=(DIRECTION, "It is zero at every fixed point if the eigenvalues are distinct, see T1"),
    erratum="The paper states (C1) as sufficient",
)
def first_condition() -> Derivation:
    """b G(b), divided by its leading coefficient."""
    product = e.T * B.T * G * e
    return Derivation.by(
        *_roots(),
        Line(product, "=", 0, "It is zero for the maps (21)", uses="21"),
        Line(
            product / (-lambda_ * a),
            "=",
            cancel(b * force_along(b) / (-lambda_ * a)),
            r"Divide by $-\lambda a$, which is not zero",
            conditions=(KEEPS_DIRECTION,),
        ),
    )


@register(
    "83",
    "The effective map at a fixed point, rank $R$",
    kind="exact",
    section="Appendix E.3",
    typed=lambda: {"map": learned / lambda_ * ridge(lambda_), "slot": sqrt(ridge(lambda_) / (lambda_ * v_positive))},
    conditions=(
        SPECTRUM,
        DIRECTION,
        r"The slot $(i, r)$ serves one learned eigenvector, in a head with $v_i = v > 0$; $\boldsymbol{k}_i$, $\boldsymbol{q}_i$ stand "
        r"for its columns $\boldsymbol{k}_{i,r}$, $\boldsymbol{q}_{i,r}$",
        r"$m \le R H$, one slot for each learned eigenvector",
    ),
    erratum=(
        "With all weights but $r = 1$ set to zero, as in the paper, it takes $m$ heads; filling the slots of "
        r"a head one after the other, $m \le R H$ is enough"
    ),
)  # fmt: skip
def rank_R_map() -> Derivation:
    """As (23); any head with v_i > 0 can serve R eigenvectors, one in each slot."""
    amplitude = Symbol("x", positive=True)
    (slot,) = solve(v_positive * amplitude**2 - written_map_along(), amplitude)
    return Derivation.by(
        *_roots(),
        Line(Trace(M * B * Lambda.I), "=", m, "The map (81) has this rank", uses=("81", "82")),
        Line(
            e.T * B * e,
            "=",
            learned * written_map_along(),
            "The root that is not zero, with the moment (32), for the learned eigenvectors",
            part="map",
            uses="81",
        ),
        Line(amplitude, ":=", slot, "The amplitude that solves $v x^2 = \\lambda / a$"),
        Line(k, ":=", amplitude * e, "Let the key of one slot be this multiple of the eigenvector"),
        Line(q, ":=", k, "and the query the same"),
        Line(v_positive * (e.T * k) * (q.T * e), "=", written_map_along(), "Then the slot serves it"),
        Line(e.T * k, "=", slot, "Its component along the eigenvector", part="slot"),
    )


# The flow at the fixed points


@register(
    "56",
    "The force at a fixed point",
    kind="exact",
    section="Appendix D.3",
    typed=lambda: {"matrix": Lambda * (I_D - P) * Lambda, "along": (1 - learned) * lambda_**2},
    conditions=(DIRECTION,),
)
def fixed_force() -> Derivation:
    """Put the effective map into the force (53): only the directions not learned are left."""
    return Derivation.by(
        *loss_and_force(),
        Line(G, "=", force(), "Carry out the gradient"),
        Line(G, "=", force_at_fixed_point(), r"With the map (21), $\boldsymbol{M}\boldsymbol{B} = \boldsymbol{\Lambda}\boldsymbol{P}$",
             uses="21", part="matrix"),
        Line(
            e.T * G * e,
            "=",
            along(force_at_fixed_point(), {Lambda: lambda_, P: learned}),
            "Along an eigenvector",
            part="along",
            uses="21",
        ),
    )  # fmt: skip
