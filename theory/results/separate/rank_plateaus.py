r"""The brief plateaus of heads of rank R (T3): the aligned flow of the slots of a head, its value weight, and how long it pauses."""

from sympy import log, symbols

from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import a, lambda_, tau, v, w_init
from .rank import aligned_mode_flow, brief_plateau, head_value, x

__all__ = []

_BEFORE, _AFTER = symbols("lambda_m lambda_{m+1}", positive=True)


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
        "k_{i,r} = q_{i,r} = x_d e_d in each slot, a different eigenvector in each; lambda and a are those of e_d",
        "The rate of v is the sum of the second over the slots, and v^2 that of x_d^2",
        "A head that rests with the directions J in its slots has v^3 equal to the sum over J of lambda_d / a_d",
    ),
)
def slots_of_a_head() -> Derivation:
    """The force on one slot's eigenvector in (80); where it vanishes."""
    force, rates = (step.expression for step in aligned_mode_flow().steps)
    level, cube = (step.expression for step in head_value().steps)
    return Derivation.by(
        Step("The force (53) on the eigenvector of a slot, where the map is v x^2", force, "G_d"),
        Step("The flow (80) of the slot", rates[0], r"\tau\dot x_d", "slot"),
        Step("Its part of the flow of the value weight", rates[1], r"[\tau\dot v]_d", "value"),
        Step("The force vanishes where the square of x_d is", level, "x_d^2"),
        Step("So the part of v^3 = v sum x_d^2 is", cube, "[v^3]_d", "level"),
    )


@register(
    "T3-brief",
    "Duration of a brief plateau, while a head of rank $R$ fills its slots",
    kind="approximation",
    section="beside (80)",
    left="t_{m+1}-t_m",
    typed=lambda: tau / v * (1 / _AFTER**2 - 1 / _BEFORE**2) * log(1 / w_init),
    conditions=(
        "w_init -> 0, R does not divide m; what is left out is bounded in w_init",
        "v is the value weight of the head, which has filled some of its slots, (T3-slots)",
    ),
    erratum="Leading order of an accounting of amplitudes, confirmed by simulation, not a theorem: brief plateaus last as the logarithm of "
    "w_init, the plateaus at which R divides m as its inverse",
)
def duration_of_brief_plateau() -> Derivation:
    """Amplitudes grow as w_init exp(lambda_d^2 s) on plateaus and drops alike, until they are of order one."""
    reached, slope = (step.expression for step in brief_plateau().steps)
    return Derivation.by(
        Step(
            "In s, the integral of v dt / tau, an amplitude w_init exp(lambda_d^2 s) is of order one at",
            reached,
            "(s_m, s_{m+1})",
        ),
        Step("Their distance in t", slope * log(1 / w_init)),
    )
