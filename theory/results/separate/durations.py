r"""How long plateaus of separate attention last inside the ansatz: the time integral (67), the durations (68), (73) and their next order.

In u = v / v_* with v_*^3 = lambda / a the flow (26) is u^2 (1 - u^3) in the unit tau / (lambda^2 v_*).
"""

from sympy import Rational, Symbol, atan, expand, integrate, log, pi, sqrt, symbols

from ...calculus.equality import require_zero
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import a, lambda_, rho, tau, v, v_0
from .reduction import aligned_flow, drop_loss, fixed_value
from .time_integral import (
    phi,
    plateau_constant,
    plateau_duration,
    switch_off_time,
    time_integral,
    time_scale,
    truncated_duration,
    u,
    u_0,
)

__all__ = []

BRANCHES = "On each of v < 0, 0 < v < v_* and v > v_*, with v_*^3 = lambda / a; the flow crosses neither 0 nor v_*"
C_rho = Symbol("C_rho", real=True)  # 1/rho - Phi(rho) + Phi(0)
LATER = dict(zip((lambda_, v_0), symbols("lambda_{m+1} v_{m+1}", positive=True), strict=True))


_CUBE_ROOT = (a / lambda_) ** Rational(1, 3)  # 1 / v_*


@register(
    "67",
    "The time integral of a drop",
    kind="exact",
    section="Appendix D.6",
    left="t",
    typed=lambda: (
        tau
        * (
            1
            / (6 * lambda_**2)
            * _CUBE_ROOT
            * (log((u**2 + u + 1) / (u - 1) ** 2) - 2 * sqrt(3) * atan((2 * u + 1) / sqrt(3)))
            - 1 / (lambda_**2 * v)
        )
    ),
    conditions=("Between v(0) and v(t): t is the difference of the values there; u^3 = a v^3 / lambda", BRANCHES),
    erratum="The factor tau is missing in the paper's display",
)
def time_of_a_drop() -> Derivation:
    """The reciprocal of the flow in u, integrated by partial fractions, in the units of t and v; differentiated back."""
    time_integral()  # differentiates the whole back, and fails if dt/dv is not tau over (26)
    scaled, unit = (step.expression for step in time_scale().steps)
    pole = (unit / u).subs(u, v / fixed_value().result)
    return Derivation.by(
        Step("The flow (26)", aligned_flow().result, r"\tau\dot v"),
        Step("With u = v / v_*, in the unit tau / (lambda^2 v_*)", scaled, r"\dot u"),
        *[Step(step.rule, step.expression) for step in phi().steps],
        Step(
            "Less 1/u, in the units of t and v; dt/dv is exactly tau over the flow (26)",
            unit * _joined(phi().result) - pole,
            "t",
        ),
    )


@register(
    "67-truncated",
    "The time integral of the quadratic flow",
    kind="approximation",
    section="beside (67)",
    left="t",
    typed=lambda: tau / lambda_**2 * (1 / v_0 - 1 / _END),
    conditions=("While v^3 is small beside lambda / a: the term of fifth order in (26) is left out",),
)
def time_of_quadratic_flow() -> Derivation:
    """The quadratic term of (26), separated and integrated."""
    quadratic, _ = (step.expression for step in truncated_duration().steps)
    inverse = tau / quadratic.subs(v, _END)
    primitive = integrate(inverse, _END)
    return Derivation.by(
        Step("The flow (26)", aligned_flow().result, r"\tau\dot v"),
        Step("Its quadratic term", quadratic, r"\tau\dot v"),
        Step("The integral of tau over it, from v_0 to v", primitive - primitive.subs(_END, v_0), "t"),
    )


_END = Symbol("v", positive=True)


@register(
    "68",
    "Duration of the first plateau",
    kind="approximation",
    section="Appendix D.6",
    left="t_1",
    typed=lambda: tau / (lambda_**2 * v_0),
    conditions=(
        "Inside the ansatz (64), v_0 -> 0; lambda is the largest eigenvalue",
        "The second step is the exact time with its next orders",
    ),
    erratum="The relative error is of order v_0 inside the ansatz. For Gaussian weights (36) it is an order of magnitude only, which does "
    "not improve as w_init -> 0; the escape time (T5) does",
)
def first_plateau() -> Derivation:
    """The time in which the quadratic flow reaches infinity."""
    quadratic, duration = (step.expression for step in truncated_duration().steps)
    return Derivation.by(
        Step("The flow (26)", aligned_flow().result, r"\tau\dot v_1"),
        Step("The exact time to rho v_*, up to order v_0^5", plateau_duration().result, "t"),
        Step("The flow without its term of fifth order", quadratic, r"\tau\dot v_1"),
        Step("The time from v_0 to infinity, which is the first term of the exact time", duration, "t_1"),
    )


@register(
    "73",
    "Duration of the later plateaus",
    kind="approximation",
    section="Appendix D.6",
    left="t_{m+1}-t_m",
    typed=lambda: tau / (LATER[lambda_] ** 2 * LATER[v_0]),
    conditions=("Inside the ansatz (25); v_{m+1} stands for its value at t_m, when the plateau begins",),
    erratum="That later plateaus last longer is no general law: idle heads already grow on earlier plateaus, so v_{m+1}(t_m) grows with m. "
    "The duration falls as the inverse square of the eigenvalue where Lambda is scaled as a whole, not from one direction to the next",
)
def later_plateau() -> Derivation:
    """(68) for the flow (72)."""
    return Derivation.by(
        Step("The flow (72)", aligned_flow().result.subs(LATER), r"\tau\dot v_{m+1}"),
        Step("The exact time to rho v_*, up to order v_0^5", plateau_duration().result.subs(LATER), "t"),
        Step(
            "Its leading term, the time in which the quadratic flow reaches infinity",
            truncated_duration().result.subs(LATER),
        ),
    )


@register(
    "68-next",
    "Duration of a plateau with its next orders",
    kind="approximation",
    section="beside (68)",
    left={"constant": r"C_\rho", "t": r"t_\rho", "switch": r"\Delta t"},
    typed=lambda: {
        "constant": (
            1 / rho
            - (Rational(1, 6) * log((rho**2 + rho + 1) / (rho - 1) ** 2) - 1 / sqrt(3) * atan((2 * rho + 1) / sqrt(3)))
            - pi / (6 * sqrt(3))
        ),
        "t": tau / lambda_**2 * (1 / v_0 - C_rho * _CUBE_ROOT - Rational(1, 2) * a / lambda_ * v_0**2),
        "switch": -tau / lambda_**2 * _CUBE_ROOT,
    },
    conditions=(
        "Inside the ansatz: the time from v_0 to rho v_*, up to order v_0^5; the constant is exact",
        "The last is how much later than 1/v_0 suggests a drop switches its direction off for the other heads",
    ),
)
def plateau_with_next_orders() -> Derivation:
    """(67) between v_0 and rho v_*, expanded at v_0 = 0."""
    scaled = plateau_duration().steps[0].expression
    total, shift = (step.expression for step in switch_off_time().steps)
    unit, constant = time_scale().result, plateau_constant().result
    in_units = (unit * (expand(scaled + constant) - C_rho)).subs(u_0, v_0 / fixed_value().result)
    return Derivation.by(
        Step(
            "The constant of the time (67) between 0 and rho, in the units of u",
            _joined(constant),
            r"C_\rho",
            "constant",
        ),
        Step("The time from u_0 to rho in the units of u, expanded at u_0 = 0", expand(scaled + constant) - C_rho),
        Step("In the units of t and v", in_units, r"t_\rho", "t"),
        Step("The integral of 1 - u^3 over the whole drop, in the units of u", total),
        Step("Beyond the escape time", shift, r"\Delta t", "switch"),
    )


def _joined(formula):
    """One logarithm for the two of Phi, whose arguments are positive."""
    one, other = sorted(formula.atoms(log), key=lambda logarithm: not logarithm.args[0].is_Pow)  # ln (u - 1)^2 first
    x, y = symbols("x y")
    linear = formula.subs({one: x, other: y})
    require_zero(linear.diff(x) + linear.diff(y))
    return linear.subs({x: 0, y: 0}) + linear.diff(y) * log(other.args[0] / one.args[0])


@register(
    "26-loss",
    "The loss along a drop",
    kind="exact",
    section="beside (26)",
    left=r"\mathcal{L}-\mathcal{L}(\mathcal{M}_m)",
    typed=lambda: -(lambda_**3) / a * (2 * u**3 - u**6),
    conditions=("The set (25), u = v / v_*; at u = 1 it is the step of (24)",),
)
def loss_along_a_drop() -> Derivation:
    """What the component v^3 of B along an eigenvector adds to the loss."""
    return drop_loss()
