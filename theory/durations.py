r"""How long plateaus of separate attention last inside the ansatz: the time integral (67), the durations (68), (73) and their next order.

In u = v / v_* with v_*^3 = lambda / a the flow (26) is u^2 (1 - u^3) in the unit tau / (lambda^2 v_*).
"""

from sympy import Rational, Symbol, atan, integrate, log, pi, sqrt, symbols

from .derivation import Derivation, Step
from .equations import register
from .notation import lambda_, tau
from .reduction import a, aligned_flow, drop_loss, v
from .residual import require_zero
from .sigmoid import rho
from .time_integral import (
    phi,
    plateau_constant,
    plateau_duration,
    switch_off_time,
    time_integral,
    truncated_duration,
    v_0,
)

__all__ = []

BRANCHES = "On each of v < 0, 0 < v < v_* and v > v_*, with v_*^3 = lambda / a; the flow crosses neither 0 nor v_*"
LATER = dict(zip((lambda_, v_0), symbols("lambda_{m+1} v_{m+1}", positive=True), strict=True))


def _u(value):
    """u = v / v_*."""
    return (a / lambda_) ** Rational(1, 3) * value


def _paper_bracket():
    u = _u(v)
    bracket = log((u**2 + u + 1) / (u - 1) ** 2) - 2 * sqrt(3) * atan((2 * u + 1) / sqrt(3))
    return 1 / (6 * lambda_**2) * (a / lambda_) ** Rational(1, 3) * bracket - 1 / (lambda_**2 * v)


@register(
    "67",
    "The time integral of a drop",
    kind="exact",
    section="Appendix D.6",
    left="t",
    typed=lambda: tau * _paper_bracket(),
    conditions=("Between v(0) and v(t): t is the difference of the values there", BRANCHES),
    erratum="The factor tau is missing in the paper's display",
)
def time_of_a_drop() -> Derivation:
    """The reciprocal of the flow in u, integrated by partial fractions, in the units of t and v; differentiated back."""
    whole = time_integral().result
    return Derivation.by(
        Step("The flow (26)", aligned_flow().result, r"\tau\dot v"),
        *[Step(step.rule, step.expression) for step in phi().steps],
        Step("In the units of t and v", whole, "t"),
        Step("With the logarithms joined; dt/dv is exactly tau over the flow (26)", _joined(whole), "t"),
    )


@register(
    "67-truncated",
    "The time integral of the quadratic flow",
    kind="approximation",
    section="beside (67)",
    left="t",
    typed=lambda: tau / lambda_**2 * (1 / v_0 - 1 / _END),
    conditions=("While v^3 is small beside lambda / a: the term a lambda v^5 of (26) is left out",),
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
    left={"t": "t_\\rho", "constant": "C_\\rho", "switch": r"\Delta t"},
    typed=lambda: {
        "t": tau / lambda_**2 * (1 / v_0 - _constant() * _u(1) - Rational(1, 2) * a / lambda_ * v_0**2),
        "constant": _constant(),
        "switch": -tau / lambda_**2 * _u(1),
    },
    conditions=(
        "Inside the ansatz: the time from v_0 to rho v_*, up to order v_0^5",
        "The last is how much later than 1/v_0 suggests a drop switches its direction off for the other heads",
    ),
)
def plateau_with_next_orders() -> Derivation:
    """(67) between v_0 and rho v_*, expanded at v_0 = 0."""
    scaled, whole = (step.expression for step in plateau_duration().steps)
    total, shift = (step.expression for step in switch_off_time().steps)
    return Derivation.by(
        Step(
            "The constant of the time (67) between 0 and rho, in the units of u",
            _joined(plateau_constant().result),
            "C_\\rho",
            "constant",
        ),
        Step("In the units of u, expanded at u_0 = 0", scaled),
        Step("In the units of t and v", _joined(whole), "t_\\rho", "t"),
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


def _constant():
    """C_rho = 1/rho - Phi(rho) + Phi(0)."""

    def phi_of(u):
        return Rational(1, 6) * log((u**2 + u + 1) / (u - 1) ** 2) - 1 / sqrt(3) * atan((2 * u + 1) / sqrt(3))

    return 1 / rho - phi_of(rho) - pi / (6 * sqrt(3))


@register(
    "26-loss",
    "The loss along a drop",
    kind="exact",
    section="beside (26)",
    left=r"\mathcal{L}-\mathcal{L}(\mathcal{M}_m)",
    typed=lambda: -(lambda_**3) / a * (2 * _SCALED**3 - _SCALED**6),
    conditions=("The set (25), u = v / v_*; at u = 1 it is the step of (24)",),
)
def loss_along_a_drop() -> Derivation:
    """What the component v^3 of B along an eigenvector adds to the loss."""
    return drop_loss()


_SCALED = Symbol("u", positive=True)
