r"""The brief plateaus of heads of rank R (T3): the aligned flow of the slots of a head, its value weight, and how long it pauses."""

from sympy import Matrix, Symbol, factor, log, solve

from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import a, lambda_, lambda_m, lambda_next, tau, v, w_init
from ..task.regression import force_along
from .aligned import time_to_order_one

__all__ = ["duration_of_brief_plateau", "slots_of_a_head", "x"]

x = Symbol("x", real=True)  # k_{i,r} = q_{i,r} = x e_d: the amplitude of one slot


@register(
    "T3-slots",
    "The slots of an aligned head of rank $R$",
    kind="ansatz",
    section="beside (80)",
    left={"slot": r"\tau\dot x_d", "value": r"[\tau\dot v]_d", "level": "[v^3]_d"},
    typed=lambda: {
        "slot": v * (lambda_**2 - lambda_ * a * v * x**2) * x,
        "value": (lambda_**2 - lambda_ * a * v * x**2) * x**2,
        "level": lambda_ / a,
    },
    conditions=(
        r"$\boldsymbol{k}_{i,r}=\boldsymbol{q}_{i,r}=x_d\boldsymbol{e}_d$ in each slot, a different eigenvector in each; $\lambda$ and $a$ "
        r"are those of $\boldsymbol{e}_d$",
        "The rate of $v$ is the sum of the second over the slots, and $v^2$ that of $x_d^2$, by (85)",
        r"A head that rests with the directions $J$ in its slots has $v^3$ equal to the sum over $J$ of $\lambda_d/a_d$",
    ),
)
def slots_of_a_head() -> Derivation:
    """The force on one slot's eigenvector in (80); where it vanishes."""
    force = force_along(v * x**2)
    square = Symbol("y", positive=True)
    (level,) = solve(force.subs(x**2, square), square)
    return Derivation.by(
        Step("The force (53) on the eigenvector of a slot, where the map is $vx^2$", force, "G_d"),
        Step("The flow (80) of the slot", v * force * x, r"\tau\dot x_d", "slot"),
        Step("Its part of the flow of the value weight", force * x**2, r"[\tau\dot v]_d", "value"),
        Step("The force vanishes where the square of $x_d$ is", level, "x_d^2"),
        Step("So its part of $v^3$, which is $v$ times the sum of $x_d^2$, is", factor(v * level), "[v^3]_d", "level"),
    )


@register(
    "T3-brief",
    "Duration of a brief plateau, while a head of rank $R$ fills its slots",
    kind="approximation",
    section="beside (80)",
    left="t_{m+1}-t_m",
    typed=lambda: tau / v * (1 / lambda_next**2 - 1 / lambda_m**2) * log(1 / w_init),
    conditions=(
        r"$w_{\rm init}\to0$, $R$ does not divide $m$; what is left out is bounded in $w_{\rm init}$",
        "$v$ is the value weight of the head, which has filled some of its slots, (T3-slots)",
    ),
    erratum="Leading order of an accounting of amplitudes, confirmed by simulation, not a theorem: brief plateaus last as the logarithm of "
    r"$w_{\rm init}$, the plateaus at which $R$ divides $m$ as its inverse",
)
def duration_of_brief_plateau() -> Derivation:
    """Amplitudes grow as w_init exp(lambda_d^2 s) on plateaus and drops alike, until they are of order one."""
    reached = Matrix([time_to_order_one(eigenvalue) for eigenvalue in (lambda_m, lambda_next)])
    return Derivation.by(
        Step(
            r"In $s$, the integral of $v\,dt/\tau$, an amplitude $w_{\rm init}\exp(\lambda_d^2s)$ is of order one at",
            reached,
            "(s_m, s_{m+1})",
        ),
        Step("Their distance in $t$", factor(reached[1] - reached[0]) * tau / v),
    )
