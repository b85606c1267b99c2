r"""How long plateaus of separate attention last inside the ansatz: the time integral (67), the durations (68), (73) and their next order.

In u = v / v_* with v_*^3 = lambda / a the flow (26) is u^2 (1 - u^3) in the unit tau / (lambda^2 v_*) of time. The rational function is
integrated in this form, and every integral is differentiated back. The flow crosses neither u = 0 nor u = 1, so each formula holds for a
start and an end on the same side of both.
"""

from functools import cache
from typing import Any

from sympy import Add, Expr, Integral, Rational, Symbol, apart, cancel, factor, integrate, limit, oo, pi, series, solve, symbols, together
from sympy.functions import atan, log, sqrt

from ...calculus import require_zero, substitute
from ...derivations import Condition, Gradient, Line, Lines, Rate, erratum, given, note, register, states
from ...derivations.draws import at
from ...notation import B, a, e, lambda_, lambda_next, rho, t, tau, v, v_0, v_i, v_star
from ..task.population import PAPER, Task
from ..task.regression import closed_loss, population_error
from .aligned import RATES, alone, along_lines, fixed_value, flow_along, growing, places

u, u_0 = symbols("u u_0", positive=True)  # v / v_*, and at t = 0
delta = Symbol("delta", real=True)  # u - u_0
gap = Symbol("g", real=True, nonzero=True)  # 1 - u
C_rho = Symbol("C_rho", real=True)  # 1/rho - Phi(rho) + Phi(0)
_v = Symbol("v", positive=True)

BETWEEN_RESTS = Condition(
    "$v$ is neither $0$ nor $v_*$", lambda point: point[v] != 0 and abs(point[v] - point[v_star]) > 1e-20, outside=at(v, 0)
)
FRACTION = Condition(r"$0<\rho<1$", lambda point: point[rho] < 1, outside=at(rho, 1))
_CUBE_ROOT = (a / lambda_) ** Rational(1, 3)  # 1 / v_*


def inside(task: Task = PAPER) -> Condition:
    """An aligned head moves alone; for another task than the paper's, along an eigenvector of that task."""
    return Condition("On the set (64) or (25)", None, None if task == PAPER else alone(task).draw)


def _flow_lines(task: Task) -> tuple[Line, ...]:
    """The flow (26); for another task than the paper's what lets a head follow it, with (26) at its moments in the lines after these."""
    papers = (Line(Rate(v_i, RATES), "=", flow_along(), "The flow (26)", "64"),)
    return papers if task == PAPER else along_lines(task, learned=False)


@cache
def _at_rest(task: Task = PAPER) -> Expr:
    """v_*, where the head rests."""
    return fixed_value(task).result["cube"]


@cache
def _scaled(task: Task = PAPER) -> tuple[Any, Any]:
    """The flow (26) of u = v / v_*: its rate u^2 (1 - u^3), and the unit of time tau / (lambda^2 v_*) in which it has this rate."""
    moment = solve(_at_rest(task) ** 3 - v_star**3, a)[0]
    rate = (flow_along(task).subs(v, v_star * u) / v_star).subs(a, moment).expand()
    unit = tau / rate.coeff(u, 2)
    return factor(rate * unit / tau), unit.subs(v_star, _at_rest(task))


def time_unit() -> Expr:
    """The time tau / (lambda^2 v_*)."""
    return _scaled()[1]


@cache
def phi() -> Expr:
    r""":math:`\Phi(u) = \frac16\ln\frac{u^2 + u + 1}{(u - 1)^2} - \frac1{\sqrt3}\arctan\frac{2u + 1}{\sqrt3}`, an antiderivative of
    :math:`u/(1 - u^3)`, real on both sides of u = 1; the time integral is :math:`\Phi(u) - 1/u`."""
    reciprocal = 1 / _scaled()[0]
    integral = integrate(together(apart(reciprocal, u) - u**-2), u)
    real = integral.subs(log(u - 1), log((u - 1) ** 2) / 2).replace(atan, lambda angle: atan(factor(angle)))
    require_zero((real - 1 / u).diff(u) - reciprocal)
    return real


@register("67", "The time integral of a drop", section="Appendix D.6")
@states(lambda: (
    tau * (1 / (6 * lambda_**2) * _CUBE_ROOT * (log((u**2 + u + 1) / (u - 1) ** 2) - 2 * sqrt(3) * atan((2 * u + 1) / sqrt(3)))
           - 1 / (lambda_**2 * v))
))  # fmt: skip
@given(inside, BETWEEN_RESTS)
@note("A drop takes the difference of the values at its end and its start, on one side of both")
@erratum(r"The factor $\tau$ is missing in the paper's display")
def time_of_a_drop(task: Task = PAPER) -> Lines:
    """The reciprocal of the flow in u, integrated by partial fractions, in the units of t and v; differentiated back."""
    fixed, (rate, unit) = _at_rest(task), _scaled(task)
    partial = apart(1 / rate, u)
    rest = factor(partial - u**-2)
    in_flow = (Line(Rate(v_i, RATES), "=", v_star / unit * tau * rate, "The flow is the one of $u$", "64"),) if task == PAPER else ()
    yield from _flow_lines(task)
    yield Line(1 / rate, "=", partial, r"With $u=v/v_*$, in the unit $\tau/(\lambda^2v_*)$: its reciprocal in partial fractions")
    yield Line(partial - u**-2, "=", rest, "$1/u^2$ integrates to $-1/u$; what remains is")
    yield Line(Gradient(phi(), u), "=", rest, "Its antiderivative is real on both sides of 1")
    yield Line(v_star, ":=", fixed, "The head rests here, (25)")
    yield Line(u, ":=", v / v_star, "Its value weight in proportion to that")
    yield from in_flow
    yield Line(t, ":=", unit * (phi() - 1 / u), "The time, up to a constant")
    yield Line(Gradient(t, v), "=", tau / flow_along(task), r"Its slope is $\tau$ over the flow (26)")
    yield Line(t, "=", unit * _joined(phi()) - (unit / u).subs(u, v / fixed), "With one logarithm, and in $v$")


def _joined(formula):
    """One logarithm for the two of Phi, whose arguments are positive."""
    one, other = sorted(formula.atoms(log), key=lambda logarithm: not logarithm.args[0].is_Pow)  # ln (u - 1)^2 first
    x, y = symbols("x y")
    linear = formula.subs({one: x, other: y})
    require_zero(linear.diff(x) + linear.diff(y))
    return linear.subs({x: 0, y: 0}) + linear.diff(y) * log(other.args[0] / one.args[0])


@cache
def difference_of_phi() -> Expr:
    r""":math:`\Phi(u) - \Phi(u_0)` in :math:`\delta = u - u_0` and :math:`g = 1 - u`, for positive u and :math:`u_0`; no digits cancel in

    .. math:: \tfrac16\ln\Bigl(1 + \delta\frac{1 + u + u_0}{1 + u_0 + u_0^2}\Bigr) + \tfrac13\ln\Bigl(1 + \frac\delta g\Bigr)
        - \tfrac1{\sqrt3}\arctan\frac{\sqrt3\,\delta}{2 + u + u_0 + 2uu_0}.
    """
    pieces = []
    for term in Add.make_args(phi()):
        (function,) = term.atoms(log) or term.atoms(atan)
        weight, argument = term / function, function.args[0]
        if isinstance(function, atan):  # tan(x - y) = (tan x - tan y)/(1 + tan x tan y)
            other = argument.subs(u, u_0)
            sine, cosine = (argument - other).factor(), 1 + argument * other
            tangent = delta * cancel(sine / (u - u_0)) / cosine.expand()
            pieces.append(weight * atan(tangent))
        elif argument == (u - 1) ** 2:  # ln(1 - u) - ln(1 - u_0) = -ln(1 + delta/(1 - u))
            pieces.append(-2 * weight * log(1 + delta / gap))
        else:  # ln A(u) - ln A(u_0) = ln(1 + (A(u) - A(u_0))/A(u_0))
            start = argument.subs(u, u_0)
            pieces.append(weight * log(1 + delta * cancel((argument - start) / (u - u_0)) / start))
    result = Add(*pieces)
    plain = result.subs(gap, 1 - u).subs(delta, u - u_0)
    require_zero((plain - phi()).diff(u), plain.subs(u, u_0))
    return result


@cache
def time_between() -> Expr:
    """The time (67) from u_0 to u in the unit ``time_unit``, without cancellation: delta / (u u_0) + Phi(u) - Phi(u_0)."""
    return cancel((1 / u_0 - 1 / u) / (u - u_0)) * delta + difference_of_phi()


@register("67-truncated", "The time integral of the quadratic flow", kind="approximation", section="beside (67)")
@states(lambda: tau / lambda_**2 * (1 / v_0 - 1 / _v))
@given(inside)
def time_of_quadratic_flow(task: Task = PAPER) -> Lines:
    """The quadratic term of (26), separated and integrated."""
    quadratic = flow_along(task).coeff(v, 2) * v**2
    primitive = integrate(tau / quadratic.subs(v, _v), _v)
    yield from _flow_lines(task)
    yield Line(flow_along(task), "~", quadratic, "Its quadratic term", parameter=(v, 0), order=5)
    yield Line(Integral(tau / quadratic, (v, v_0, _v)), "=", primitive - primitive.subs(_v, v_0), r"The integral of $\tau$ over it")


def _to_fraction(start, task: Task = PAPER) -> Expr:
    """The time (67) from a value to rho v_*."""
    whole, fixed = time_of_a_drop(task).result, _at_rest(task)
    return whole.subs({u: rho, v: rho * fixed}) - whole.subs({u: start / fixed, v: start})


@register("68", "Duration of the first plateau", kind="approximation", section="Appendix D.6")
@states(lambda: tau / (lambda_**2 * v_0))
@given(inside, FRACTION)
@erratum(
    "The relative error is of order $v_0$ inside the ansatz. For Gaussian weights (36) it is an order of magnitude only, which "
    r"does not improve as $w_{\rm init}\to0$; the escape time (T5) does"
)
def first_plateau(task: Task = PAPER) -> Lines:
    """The time in which the quadratic flow reaches infinity, and the exact time to a fraction of the final value."""
    quadratic = time_of_quadratic_flow(task).result
    duration = limit(quadratic, _v, oo)
    yield from _flow_lines(task)
    yield Line(quadratic, "->", duration, "The time (67-truncated) of the flow without its term of fifth order", parameter=_v, order=1)
    yield Line(_to_fraction(v_0, task), "~", duration, r"The exact time (67) to $\rho v_*$ begins alike", parameter=(v_0, 0), order=0)


@register("73", "Duration of the later plateaus", kind="approximation", section="Appendix D.6")
@states(lambda: tau / (lambda_next**2 * _v_next))
@given(inside, FRACTION)
@note("$v_{m+1}$ stands for its value when the plateau begins")
@erratum(
    "That later plateaus last longer is not a general law: waiting heads already move on earlier plateaus, and $v_{m+1}(t_m)$ may be "
    r"larger than $v_m(t_{m-1})$. The duration falls as the inverse square of the eigenvalue if $\boldsymbol{\Lambda}$ is scaled as a "
    "whole, not from one direction to the next"
)
def later_plateau(task: Task = PAPER) -> Lines:
    """(68) for the flow (72); for another task than the paper's its letters are those of the next eigenvector."""
    next_ = (Line(lambda_, ":=", lambda_next, "The next eigenvector"),) if task == PAPER else ()
    later = {v_0: _v_next, **{line.left: line.right for line in next_}}
    yield from next_
    yield from _flow_lines(task)
    yield Line(_to_fraction(_v_next, task), "~", first_plateau(task).result.subs(later), "As in (68)", parameter=(_v_next, 0), order=0)


_v_next = Symbol("v_{m+1}", positive=True)


@register("68-next", "Duration of a plateau with its next orders", kind="approximation", section="beside (68)")
@states("constant", lambda: (
    1 / rho - (Rational(1, 6) * log((rho**2 + rho + 1) / (rho - 1) ** 2) - 1 / sqrt(3) * atan((2 * rho + 1) / sqrt(3))) - pi / (6 * sqrt(3))
))  # fmt: skip
@states("t", lambda: tau / lambda_**2 * (1 / v_0 - C_rho * _CUBE_ROOT - Rational(1, 2) * a / lambda_ * v_0**2))
@states("switch", lambda: -tau / lambda_**2 * _CUBE_ROOT)
@given(inside, FRACTION)
def plateau_with_next_orders() -> Lines:
    """(67) between v_0 and rho v_*, expanded at v_0 = 0."""
    rate, unit = _scaled()
    zero = phi().subs(u, 0)
    constant = 1 / rho - phi().subs(u, rho) + zero
    scaled = 1 / u_0 - C_rho - series(phi() - zero, u, 0, 5).removeO().subs(u, u_0)
    time = (unit * scaled).subs(u_0, v_0 / _at_rest())
    integral = Integral((1 - u**3) / rate, (u, u_0, 1))
    yield Line(C_rho, ":=", constant, r"The constant of the time (67) between 0 and $\rho$, in the units of $u$")
    yield Line(C_rho, "=", _joined(constant), "With one logarithm", part="constant")
    yield Line(_to_fraction(v_0), "~", time, r"The time (67) from $v_0$ to $\rho v_*$", (), "t", parameter=(v_0, 0), order=5)
    yield Line(unit * (integral - 1 / u_0), "=", unit * (cancel(integral.doit()) - 1 / u_0),
               "Beyond $1/u_0$, the integral of the force $1-u^3$ that other heads feel", part="switch")  # fmt: skip


@register("26-loss", "The loss along a drop", section="beside (26)")
@states(lambda: -(lambda_**3) / a * (2 * u**3 - u**6))
@given(growing)
def drop_loss(task: Task = PAPER) -> Lines:
    """What the component v^3 of B along an eigenvector adds to the loss."""
    loss, uses = closed_loss(task).result, places(task, learned=True)
    added = substitute(loss, {B: task.fixed_map + v**3 * e * e.T}) - substitute(loss, {B: task.fixed_map})
    fixed = fixed_value(task).result["cube"]
    share = a * task.along(task.moments.Q) * v**6 - 2 * task.along(task.moments.A) * v**3
    yield from along_lines(task, learned=True)
    yield from task.gains()
    yield Line(population_error(B, task), "=", loss, f"The loss (9-closed); $\\boldsymbol{{M}}$ is {task.second_moment()}")
    yield Line(added, "=", share, r"What the growing head adds to it, with the map $v^3\boldsymbol{ee}^\top$", uses)
    yield Line(v_star, ":=", fixed, "The head rests here, (25)")
    yield Line(v, ":=", u * v_star, "In proportion to that")
    yield Line(added, "=", factor(share.subs(v, u * fixed)), "In $u$", uses)
