r"""What the weights satisfy at a fixed point, given its effective map: equations (57), (58), (84) and the conditions (C2), (C3).

The conditions here are necessary and sufficient: they are what is left of the flow once the effective map is that of a fixed point (23).
The force is then Lambda (I - P) Lambda, equation (56), which sees the directions that are not learned. D, N, H and R stay symbols.
"""

from sympy import Identity, IndexedBase, Symbol, Trace, cancel, symbols

from ...algebra.polynomial import TracePolynomial
from ...calculus.spectral import along, on_and_off, over_directions, summand
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import define, register
from ...notation import D, G, Lambda, P, lambda_, learned, v_i, vector
from ..separate.flow import K, Q, flow_in_force, k, q, rank_one_head, rank_R_head
from .fixed_points import force_at_fixed_point

__all__ = ["flow_at_fixed_point"]

k_d, q_d = symbols("k_d q_d", real=True)  # components of a key and of a query
COMPONENTS = {k_d: IndexedBase("k", real=True), q_d: IndexedBase("q", real=True)}
I_D = Identity(D)


def flow_at_fixed_point(head, weights) -> list[TracePolynomial]:
    """tau dW/dt for the weights of a head, where the effective map is that of a fixed point."""
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
    conditions=("where (C1) holds",),
)
def flow_at_fixed_map() -> Derivation:
    """The flow (19) with the force (56), which is symmetric."""
    rates = flow_at_fixed_point(rank_one_head(), (v_i, k, q))
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
    conditions=(
        (
            r"$P$ projects onto the span of $\boldsymbol{e}_{d}$, $d$ in $S$; the coefficients are those of "
            "the vectors $b$ and $c$"
        ),
    ),
)


@register(
    "C2",
    "Condition (C2): the keys and queries of an active head are in the span of the learned eigenvectors",
    kind="exact",
    section="Section 4.2",
    left={"query": "0", "key": "0"},
    typed=lambda: {"query": (1 - learned) * q_d, "key": (1 - learned) * k_d},
    conditions=(
        "$v_{i}$ is not zero",
        "(C1)",
        (
            r"for every $d$; at rank $R$ for every column of $\boldsymbol{K}_{i}$ "
            r"and $\boldsymbol{Q}_{i}$"
        ),
    ),
    erratum="The paper proves that it suffices; given (C1), it is also necessary",
)
def second_condition() -> Derivation:
    """What the flow (57b), (57c) says along each eigenvector."""
    _, key_rate, query_rate = flow_at_fixed_point(rank_one_head(), (v_i, k, q))
    values = {Lambda: lambda_, P: learned, k: k_d, q: q_d}
    of_query, of_key = along(key_rate, values), along(query_rate, values)
    scale = v_i * lambda_**2
    return Derivation.by(
        Step("The rate of the key along an eigenvector, equation (57b)", of_query),
        Step(
            r"It is zero exactly if this is, for $v_{i}$ and $\lambda$ are not", cancel(of_query / scale), "", "query"
        ),
        Step("Likewise the rate of the query, equation (57c)", cancel(of_key / scale), "", "key"),
        Step(
            r"In the span, with $q_d = \chi\,c_d$, it vanishes since $\chi^{2} = \chi$",
            on_and_off(of_query.subs(q_d, learned * Symbol("c_d"))),
        ),
    )


@register(
    "C3",
    "Condition (C3), necessary and sufficient: what an idle head must satisfy",
    kind="exact",
    section="Section 4.2",
    left="0",
    typed=lambda: over_directions((1 - learned) * lambda_**2 * k_d * q_d, components=COMPONENTS),
    conditions=("$v_{i} = 0$", "(C1)"),
    erratum=(
        "The paper asks that the key or the query be in the span of the learned eigenvectors. That suffices "
        r"and is not necessary where two or more directions are not learned: $\boldsymbol{k} = "
        r"\boldsymbol{e}_{3}$, $\boldsymbol{q} = \boldsymbol{e}_{4}$ with $S=\{1,2\}$ is a fixed point"
    ),
)
def third_condition() -> Derivation:
    """The rate of the value weight; those of the key and the query vanish with v_i."""
    value_rate, key_rate, _ = flow_at_fixed_point(rank_one_head(), (v_i, k, q))
    part = summand(value_rate, {Lambda: lambda_, P: learned, k: k_d, q: q_d})
    return Derivation.by(
        Step("With $v_{i} = 0$ the key and the query stand still", substitute(key_rate, {v_i: 0})),
        Step("The rate of the value weight, equation (57a)", value_rate),
        Step(
            r"A query in the span, $q_d = \chi\,c_d$, gives zero, as in the paper",
            on_and_off(part.subs(q_d, learned * Symbol("c_d"))),
        ),
        Step(
            "In general it is a sum over the directions, zero at a fixed point",
            over_directions(part, components=COMPONENTS),
        ),
    )


@register(
    "84",
    "Condition (C3) at rank $R$: what an idle head must satisfy",
    kind="exact",
    section="Appendix E.3",
    left="0",
    typed=lambda: Trace(K.T * Lambda * (I_D - P) * Lambda * Q),
    conditions=("$v_{i} = 0$", "(C1)", "necessary and sufficient"),
)
def third_condition_rank_R() -> Derivation:
    """The rate of the value weight, with the columns of K_i and Q_i summed in the trace."""
    value_rate, key_rate, _ = flow_at_fixed_point(rank_R_head(), (v_i, K, Q))
    return Derivation.by(
        Step("With $v_{i} = 0$ the keys and the queries stand still", substitute(key_rate, {v_i: 0})),
        Step("The rate of the value weight, zero at a fixed point", value_rate),
    )
