r"""The fixed points of separate attention: their effective map and the force there, equations (21)-(23), (55), (56), (81)-(83) and (C1).

At every fixed point the effective map is Gamma = M^-1 Lambda P, where P projects onto the span of the learned eigenvectors, d in S.
Along an eigenvector of Lambda it is chi lambda / a, with chi = 1 for d in S and 0 otherwise. That is necessary by the theorem T1, see
:mod:`~iclflow.theory.results.landscape.completeness`, and sufficient with the conditions on the weights in
:mod:`~iclflow.theory.results.landscape.conditions`.
"""

from functools import cache

from sympy import (
    Expr,
    Identity,
    Symbol,
    Trace,
    cancel,
    factor,
    solve,
    sqrt,
)

from ...algebra.polynomial import TracePolynomial
from ...calculus.rewriting import rewrite
from ...calculus.spectral import along, second_moment_along
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import define, register
from ...notation import B, D, Lambda, M, N, P, T, a, lambda_, learned, symmetric_matrix, v_i
from ..separate.flow import K, Q
from ..task.regression import force

__all__ = ["Gamma", "fixed_map_along", "force_at_fixed_point", "m"]

m = Symbol("m", integer=True, nonnegative=True)  # how many eigenvectors are learned
b = Symbol("b", real=True)  # the effective map along an eigenvector
v_positive = Symbol("v", positive=True)
Gamma = symmetric_matrix("Gamma", D)  # the effective map at a fixed point
I_D = Identity(D)
SPECTRUM = r"$T = \operatorname{tr}(\boldsymbol{\Lambda})$, and $\boldsymbol{\Lambda}$ is positive definite"


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
        "The set of fixed points that have learned the eigenvectors in $S$",
        section=section,
        left=r"\mathcal{M}(S):\quad 0",
        typed=lambda: {
            "map": TracePolynomial(B - Gamma),
            "active heads": TracePolynomial(v_i * (I_D - P) * Q),
            "active heads too": TracePolynomial(v_i * (I_D - P) * K),
            "idle heads": TracePolynomial(Trace(K.T * Lambda * (I_D - P) * Lambda * Q)),
        },
        conditions=(
            "for every head; the last only where $v_{i} = 0$",
            (
                r"$\boldsymbol{\Gamma} = \boldsymbol{M}^{-1} \boldsymbol{\Lambda} P$, $P$ projects onto the span of "
                "$S$"
            ),
        ),
        erratum="The paper's (C3) asks more of idle heads than is needed" if number == "21" else None,
    )


_sets("21", "Section 4.2")
_sets("81", "Appendix E.3")
for _number, _section, _slots in (("22", "Section 4.2", "H"), ("82", "Appendix E.3", "R H")):
    define(
        _number,
        "The learned eigenvectors: a subset of the $D$ indices with $m$ members",
        section=_section,
        left=r"\operatorname{tr}\boldsymbol{P} = |S|",
        typed=lambda: m,
        conditions=(rf"$m \le \min(D, {_slots})$, for the effective map has no higher rank",),
    )


def _map_steps() -> tuple[Step, ...]:
    return (
        Step(
            r"The force along an eigenvector of $\boldsymbol{\Lambda}$ on which the effective map is $b$",
            force_along(),
            "G_d",
        ),
        Step(
            r"$\boldsymbol{B}^{\top} \boldsymbol{G} = 0$ at every fixed point, see T1",
            factor(b * force_along()),
            r"b\,G_d",
        ),
        Step("The root other than $b = 0$, for the learned eigenvectors", fixed_map_along(), "b"),
    )


@register(
    "23",
    "The effective map at a fixed point",
    kind="exact",
    section="Section 4.2",
    left=r"\boldsymbol{e}_d^\top\Bigl(\sum_i v_i\boldsymbol{k}_i\boldsymbol{q}_i^\top\Bigr)\boldsymbol{e}_d",
    typed=lambda: learned / lambda_ * ridge(lambda_),
    conditions=(
        SPECTRUM,
        r"$\chi = 1$ for $d$ in $S$, 0 otherwise",
        "the eigenvalues are distinct: then it is necessary too, see T1",
    ),
    erratum="The paper proves that it suffices; with distinct eigenvalues it is also necessary",
)
def fixed_map() -> Derivation:
    """The roots of b G(b) = 0 along each eigenvector."""
    return Derivation.by(
        *_map_steps(),
        Step("The moment (32) written out", learned * cancel(fixed_map_along().subs(a, second_moment_along()))),
    )


@register(
    "55",
    "The effective map at a fixed point, by the moment (32)",
    kind="exact",
    section="Appendix D.3",
    left=r"\boldsymbol{e}_d^\top\Bigl(\sum_i v_i\boldsymbol{k}_i\boldsymbol{q}_i^\top\Bigr)\boldsymbol{e}_d",
    typed=lambda: learned * lambda_ / a,
    conditions=(r"$\chi = 1$ for $d$ in $S$, 0 otherwise", r"$a$ is the eigenvalue (32) of $\boldsymbol{M}$"),
)
def fixed_map_by_moment() -> Derivation:
    """As (23), before the moment is written out."""
    return Derivation.by(*_map_steps(), Step("Zero on the other eigenvectors", learned * fixed_map_along()))


@register(
    "C1",
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
        *_map_steps()[:2],
        Step(r"Divide by $-\lambda a$, which is not zero", cancel(b * force_along() / (-lambda_ * a))),
    )


@register(
    "83",
    "The effective map at a fixed point, rank $R$",
    kind="exact",
    section="Appendix E.3",
    left={
        "map": r"\boldsymbol{e}_d^\top\Bigl(\sum_{i,r} v_i\boldsymbol{k}_{i,r}\boldsymbol{q}_{i,r}^\top\Bigr)\boldsymbol{e}_d",
        "slot": r"\boldsymbol{e}_d^\top\boldsymbol{k}_{i,r} = \boldsymbol{e}_d^\top\boldsymbol{q}_{i,r}",
    },
    typed=lambda: {"map": learned / lambda_ * ridge(lambda_), "slot": sqrt(ridge(lambda_) / (lambda_ * v_positive))},
    conditions=(
        SPECTRUM,
        "the slot ($i, r$) serves one learned eigenvector, in a head with $v_{i} > 0$",
        r"$m \le R H$",
    ),
    erratum=(
        "With all weights but $r = 1$ set to zero, as in the paper, it takes $m$ heads; filling the slots of "
        r"a head one after the other, $m \le R H$ is enough"
    ),
)
def rank_R_map() -> Derivation:
    """As (23); any head with v_i > 0 can serve R eigenvectors, one in each slot."""
    written = cancel(fixed_map_along().subs(a, second_moment_along()))
    amplitude = Symbol("x", positive=True)
    (slot,) = solve(v_positive * amplitude**2 - written, amplitude)
    return Derivation.by(
        *_map_steps(),
        Step("The moment (32) written out", learned * written, "", "map"),
        Step(
            "A slot $\\boldsymbol{k}_{i,r}=\\boldsymbol{q}_{i,r}=x\\boldsymbol{e}_d$ gives $v_i x^2$ to it",
            v_positive * amplitude**2,
        ),
        Step("So this amplitude serves the eigenvector", slot, "", "slot"),
    )


# The flow at the fixed points


@register(
    "56",
    "The force at a fixed point",
    kind="exact",
    section="Appendix D.3",
    left={"matrix": r"\boldsymbol{\Lambda}^2-\boldsymbol{M}\boldsymbol{\Gamma}\boldsymbol{\Lambda}", "along": "G_d"},
    typed=lambda: {"matrix": Lambda * (I_D - P) * Lambda, "along": (1 - learned) * lambda_**2},
    conditions=(
        (
            r"$\boldsymbol{\Gamma} = \boldsymbol{M}^{-1} \boldsymbol{\Lambda} P$, $P$ projects onto the span "
            "of the learned eigenvectors"
        ),
    ),
)
def fixed_force() -> Derivation:
    """Put the effective map into the force (53): only the directions not learned are left."""
    return Derivation.by(
        Step(r"The force at $\boldsymbol{\Gamma}$, equation (53)", substitute(force(), {B: Gamma})),
        Step(r"$\boldsymbol{M} \boldsymbol{\Gamma} = \boldsymbol{\Lambda} P$", force_at_fixed_point(), "", "matrix"),
        Step("Along an eigenvector", along(force_at_fixed_point(), {Lambda: lambda_, P: learned}), "", "along"),
    )
