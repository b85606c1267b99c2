r"""The fixed points of separate attention: equations (21)-(23), (55)-(58), (81)-(84) and the conditions (C1)-(C3).

At every fixed point the effective map is Gamma = M^-1 Lambda P, where P projects onto the span of the learned eigenvectors, d in S.
Along an eigenvector of Lambda it is s lambda / a, with s = 1 for d in S and 0 otherwise. The conditions here are necessary and
sufficient: (C1) by the theorem T1, (C2) and (C3) by what is left of the flow once (C1) holds. D, N, H and R stay symbols.
"""

from functools import cache

from sympy import (
    Expr,
    Identity,
    IndexedBase,
    Symbol,
    Trace,
    cancel,
    factor,
    solve,
    sqrt,
    symbols,
)

from .calculus import substitute
from .derivation import Derivation, Step
from .equations import define, register
from .notation import B, D, G, Lambda, M, N, lambda_, symmetric_matrix, v_i, vector
from .reduction import a
from .rewriting import rewrite
from .separate import K, Q, flow_in_force, k, q, rank_one_head, rank_R_head
from .spectral import (
    P,
    T,
    along,
    on_and_off,
    over_directions,
    s,
    second_moment_along,
    summand,
)
from .task import force
from .trace_algebra import TracePolynomial

__all__ = ["Gamma", "fixed_map_along", "force_at_fixed_point", "m"]

m = Symbol("m", integer=True, nonnegative=True)  # how many eigenvectors are learned
b = Symbol("b", real=True)  # the effective map along an eigenvector
v_positive = Symbol("v", positive=True)
k_d, q_d = symbols("k_d q_d", real=True)  # components of a key and of a query
Gamma = symmetric_matrix("Gamma", D)  # the effective map at a fixed point
COMPONENTS = {k_d: IndexedBase("k", real=True), q_d: IndexedBase("q", real=True)}
I_D = Identity(D)
SPECTRUM = "T = tr(Lambda), which is positive definite"


def ridge(eigenvalue_: Expr) -> Expr:
    """The paper's shrinkage 1 / (1 + (1 + T / lambda) / N)."""
    return 1 / (1 + (1 + T / eigenvalue_) / N)


@cache
def force_along() -> Expr:
    """The force G along an eigenvector, for an effective map that is b there."""
    return along(force(), {Lambda: lambda_, M: a, B: b})


@cache
def fixed_map_along() -> Expr:
    """The nonzero root of b G = 0 along an eigenvector: lambda / a."""
    (root,) = (root for root in solve(b * force_along(), b) if root != 0)
    return root


@cache
def force_at_fixed_point() -> TracePolynomial:
    """G at Gamma, where M Gamma = Lambda P."""
    return rewrite(substitute(force(), {B: Gamma}), {M * Gamma: Lambda * P})


# The effective map


def _sets(number: str, section: str) -> None:
    define(
        number,
        "The set of fixed points that have learned the eigenvectors in S",
        section=section,
        left=r"\mathcal{M}(S):\quad 0",
        typed=lambda: {
            "map": TracePolynomial(B - Gamma),
            "active heads": TracePolynomial(v_i * (I_D - P) * Q),
            "active heads too": TracePolynomial(v_i * (I_D - P) * K),
            "idle heads": TracePolynomial(Trace(K.T * Lambda * (I_D - P) * Lambda * Q)),
        },
        conditions=(
            "for every head; the last only where v_i = 0",
            "Gamma = M^-1 Lambda P, P projects onto the span of S",
        ),
        erratum="The paper's (C3) asks more of idle heads than is needed" if number == "21" else None,
    )


_sets("21", "Section 4.2")
_sets("81", "Appendix E.3")
for _number, _section, _slots in (("22", "Section 4.2", "H"), ("82", "Appendix E.3", "R H")):
    define(
        _number,
        "The learned eigenvectors: a subset of the D indices with m members",
        section=_section,
        left=r"\operatorname{tr}\boldsymbol{P} = |S|",
        typed=lambda: m,
        conditions=(f"m <= min(D, {_slots}), for the effective map has no higher rank",),
    )


def _map_steps() -> tuple[Step, ...]:
    return (
        Step("The force along an eigenvector of Lambda on which the effective map is b", force_along(), "G_d"),
        Step("B' G = 0 at every fixed point, see T1", factor(b * force_along()), r"b\,G_d"),
        Step("The root other than b = 0, for the learned eigenvectors", fixed_map_along(), "b"),
    )


@register(
    "23",
    "The effective map at a fixed point",
    kind="exact",
    section="Section 4.2",
    left=r"\boldsymbol{e}_d^\top\Bigl(\sum_i v_i\boldsymbol{k}_i\boldsymbol{q}_i^\top\Bigr)\boldsymbol{e}_d",
    typed=lambda: s / lambda_ * ridge(lambda_),
    conditions=(
        SPECTRUM,
        "s = 1 for d in S, 0 otherwise",
        "the eigenvalues are distinct: then it is necessary too, see T1",
    ),
    erratum="The paper proves that it suffices; with distinct eigenvalues it is also necessary",
)
def fixed_map() -> Derivation:
    """The roots of b G(b) = 0 along each eigenvector."""
    return Derivation.by(
        *_map_steps(),
        Step("The moment (32) written out", s * cancel(fixed_map_along().subs(a, second_moment_along()))),
    )


@register(
    "55",
    "The effective map at a fixed point, by the moment (32)",
    kind="exact",
    section="Appendix D.3",
    left=r"\boldsymbol{e}_d^\top\Bigl(\sum_i v_i\boldsymbol{k}_i\boldsymbol{q}_i^\top\Bigr)\boldsymbol{e}_d",
    typed=lambda: s * lambda_ / a,
    conditions=("s = 1 for d in S, 0 otherwise", "a is the eigenvalue (32) of M"),
)
def fixed_map_by_moment() -> Derivation:
    """As (23), before the moment is written out."""
    return Derivation.by(*_map_steps(), Step("Zero on the other eigenvectors", s * fixed_map_along()))


@register(
    "C1-map",
    "Condition (C1), as the equation that the effective map satisfies along every eigenvector",
    kind="exact",
    section="Section 4.2",
    left="0",
    typed=lambda: b * (b - lambda_ / a),
    conditions=("the eigenvalues are distinct", "necessary at every fixed point, see T1"),
    erratum="The paper states (C1) as sufficient",
)
def first_condition() -> Derivation:
    """b G(b), divided by its leading coefficient."""
    return Derivation.by(
        *_map_steps()[:2], Step("Divide by -lambda a, which is not zero", cancel(b * force_along() / (-lambda_ * a)))
    )


@register(
    "83",
    "The effective map at a fixed point, rank R",
    kind="exact",
    section="Appendix E.3",
    left={
        "map": r"\boldsymbol{e}_d^\top\Bigl(\sum_{i,r} v_i\boldsymbol{k}_{i,r}\boldsymbol{q}_{i,r}^\top\Bigr)\boldsymbol{e}_d",
        "slot": r"\boldsymbol{e}_d^\top\boldsymbol{k}_{i,r} = \boldsymbol{e}_d^\top\boldsymbol{q}_{i,r}",
    },
    typed=lambda: {"map": s / lambda_ * ridge(lambda_), "slot": sqrt(ridge(lambda_) / (lambda_ * v_positive))},
    conditions=(SPECTRUM, "the slot (i, r) serves one learned eigenvector, in a head with v_i > 0", "m <= R H"),
    erratum="With all weights but r = 1 set to zero, as in the paper, it takes m heads; filling the slots of a head one after the other, "
    "m <= R H is enough",
)
def rank_R_map() -> Derivation:
    """As (23); any head with v_i > 0 can serve R eigenvectors, one in each slot."""
    written = cancel(fixed_map_along().subs(a, second_moment_along()))
    amplitude = Symbol("x", positive=True)
    (slot,) = solve(v_positive * amplitude**2 - written, amplitude)
    return Derivation.by(
        *_map_steps(),
        Step("The moment (32) written out", s * written, "", "map"),
        Step("A slot $k_{i,r} = q_{i,r} = x e_d$ gives $v_i x^2$ to it", v_positive * amplitude**2),
        Step("So this amplitude serves the eigenvector", slot, "", "slot"),
    )


# The flow at the fixed points


@register(
    "56",
    "The force at a fixed point",
    kind="exact",
    section="Appendix D.3",
    left={"matrix": r"\boldsymbol{\Lambda}^2-\boldsymbol{M}\boldsymbol{\Gamma}\boldsymbol{\Lambda}", "along": "G_d"},
    typed=lambda: {"matrix": Lambda * (I_D - P) * Lambda, "along": (1 - s) * lambda_**2},
    conditions=("Gamma = M^-1 Lambda P, P projects onto the span of the learned eigenvectors",),
)
def fixed_force() -> Derivation:
    """Put the effective map into the force (53): only the directions not learned are left."""
    return Derivation.by(
        Step("The force at Gamma, equation (53)", substitute(force(), {B: Gamma})),
        Step("M Gamma = Lambda P", force_at_fixed_point(), "", "matrix"),
        Step("Along an eigenvector", along(force_at_fixed_point(), {Lambda: lambda_, P: s}), "", "along"),
    )


def _flow_at_fixed_point(head, weights) -> list[TracePolynomial]:
    return [substitute(rate, {G: force_at_fixed_point()}) for rate in flow_in_force(head, weights).values()]


@register(
    "57",
    "The flow where the effective map is that of a fixed point",
    kind="exact",
    section="Appendix D.3",
    left={"a": r"\tau\dot v_i", "b": r"\tau\dot{\boldsymbol{k}}_i", "c": r"\tau\dot{\boldsymbol{q}}_i"},
    typed=lambda: {
        "a": k.T * Lambda * (I_D - P) * Lambda * q,
        "b": v_i * Lambda * (I_D - P) * Lambda * q,
        "c": v_i * Lambda * (I_D - P) * Lambda * k,
    },
    conditions=("(C1)",),
)
def flow_at_fixed_map() -> Derivation:
    """The flow (19) with the force (56), which is symmetric."""
    rates = _flow_at_fixed_point(rank_one_head(), (v_i, k, q))
    rules = ("The value weight sees what is not learned", "so does the key", "and the query")
    return Derivation.by(
        Step("The force at a fixed point, equation (56)", force_at_fixed_point(), r"\boldsymbol{G}"),
        *(Step(rule, rate, "", part) for rule, rate, part in zip(rules, rates, "abc", strict=True)),
    )


define(
    "58",
    "Key and query in the span of the learned eigenvectors",
    section="Appendix D.3",
    left={"a": r"\boldsymbol{k}_i", "b": r"\boldsymbol{q}_i"},
    typed=lambda: {"a": P * vector("b", D), "b": P * vector("c", D)},
    conditions=("P projects onto the span of e_d, d in S; the coefficients are those of the vectors b and c",),
)


@register(
    "C2",
    "Condition (C2): the keys and queries of an active head are in the span of the learned eigenvectors",
    kind="exact",
    section="Section 4.2",
    left={"query": "0", "key": "0"},
    typed=lambda: {"query": (1 - s) * q_d, "key": (1 - s) * k_d},
    conditions=("v_i is not zero", "(C1)", "for every d; at rank R for every column of K_i and Q_i"),
    erratum="The paper proves that it suffices; given (C1), it is also necessary",
)
def second_condition() -> Derivation:
    """What the flow (57b), (57c) says along each eigenvector."""
    _, key_rate, query_rate = _flow_at_fixed_point(rank_one_head(), (v_i, k, q))
    values = {Lambda: lambda_, P: s, k: k_d, q: q_d}
    of_query, of_key = along(key_rate, values), along(query_rate, values)
    scale = v_i * lambda_**2
    return Derivation.by(
        Step("The rate of the key along an eigenvector, equation (57b)", of_query),
        Step("It is zero exactly if this is, for v_i and lambda are not", cancel(of_query / scale), "", "query"),
        Step("Likewise the rate of the query, equation (57c)", cancel(of_key / scale), "", "key"),
        Step("In the span, q_d = s c_d, it vanishes since s^2 = s", on_and_off(of_query.subs(q_d, s * Symbol("c_d")))),
    )


@register(
    "C3",
    "Condition (C3), necessary and sufficient: what an idle head must satisfy",
    kind="exact",
    section="Section 4.2",
    left="0",
    typed=lambda: over_directions((1 - s) * lambda_**2 * k_d * q_d, components=COMPONENTS),
    conditions=("v_i = 0", "(C1)"),
    erratum="The paper asks that the key or the query be in the span of the learned eigenvectors. That suffices and is not necessary where "
    "two or more directions are not learned: k = e_3, q = e_4 with S = {1, 2} is a fixed point",
)
def third_condition() -> Derivation:
    """The rate of the value weight; those of the key and the query vanish with v_i."""
    value_rate, key_rate, _ = _flow_at_fixed_point(rank_one_head(), (v_i, k, q))
    part = summand(value_rate, {Lambda: lambda_, P: s, k: k_d, q: q_d})
    return Derivation.by(
        Step("With v_i = 0 the key and the query stand still", substitute(key_rate, {v_i: 0})),
        Step("The rate of the value weight, equation (57a)", value_rate),
        Step(
            "A query in the span, q_d = s c_d, gives zero, as in the paper",
            on_and_off(part.subs(q_d, s * Symbol("c_d"))),
        ),
        Step(
            "In general it is a sum over the directions, zero at a fixed point",
            over_directions(part, components=COMPONENTS),
        ),
    )


@register(
    "84",
    "Condition (C3) at rank R: what an idle head must satisfy",
    kind="exact",
    section="Appendix E.3",
    left="0",
    typed=lambda: Trace(K.T * Lambda * (I_D - P) * Lambda * Q),
    conditions=("v_i = 0", "(C1)", "necessary and sufficient"),
)
def third_condition_rank_R() -> Derivation:
    """The rate of the value weight, with the columns of K_i and Q_i summed in the trace."""
    value_rate, key_rate, _ = _flow_at_fixed_point(rank_R_head(), (v_i, K, Q))
    return Derivation.by(
        Step("With v_i = 0 the keys and the queries stand still", substitute(key_rate, {v_i: 0})),
        Step("The rate of the value weight, zero at a fixed point", value_rate),
    )
