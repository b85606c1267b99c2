r"""The time integral (67) of the aligned flow (26), and the plateau durations (68), (73) with what they leave out.

With :math:`u = v/v_*`, :math:`v_* = (\lambda/a)^{1/3}`, the flow (26) is :math:`du/d\theta = u^2(1 - u^3)` in the time
:math:`\theta = \lambda^2 v_*\, t/\tau`. The rational function is integrated in this form, and every integral is differentiated
back. Branches: the flow does not cross u = 0 or u = 1, so each formula holds for start and end on the same side of both.
"""

from functools import cache
from typing import Any

from sympy import (
    Add,
    Symbol,
    apart,
    atan,
    cancel,
    diff,
    factor,
    integrate,
    log,
    oo,
    series,
    together,
)  # fmt: skip

from ...calculus.equality import require_zero
from ...derivations.derivation import Derivation
from ...notation import a, lambda_, rho, tau, v, v_0
from .reduction import aligned_flow, fixed_value

__all__ = [
    "delta", "difference_of_phi", "gap", "phi", "plateau_constant", "plateau_duration", "switch_off_time", "time_between",
    "time_integral", "time_scale", "truncated_duration", "u", "u_0",
]  # fmt: skip

u = Symbol("u", positive=True)  # v / v*
u_0 = Symbol("u_0", positive=True)  # u at t = 0
delta = Symbol("delta", real=True)  # u - u_0
gap = Symbol("g", real=True, nonzero=True)  # 1 - u


@cache
def _scaled() -> tuple[Any, Any]:
    """tau du/dt for u = v/v*, and the unit of time tau/(lambda^2 v*) that makes it u^2 (1 - u^3)."""
    fixed = Symbol("v_*", positive=True)
    rate = (aligned_flow().result.subs(v, fixed * u) / fixed).subs(a, lambda_ / fixed**3).expand()
    unit = tau / rate.coeff(u, 2)
    return factor(rate * unit / tau), unit.subs(fixed, fixed_value().result)


@cache
def time_scale() -> Derivation:
    r"""The unit of time in which (26) is :math:`\dot u = u^2(1 - u^3)`:
    :math:`\frac\tau{\lambda^2 v_*} = \frac\tau{\lambda^2}\sqrt[3]{a/\lambda}`."""
    return Derivation.by(("the flow (26) of u = v/v*, in this unit", _scaled()[0]), ("the unit", _scaled()[1]))


@cache
def phi() -> Derivation:
    r""":math:`\Phi(u) = \frac16\ln\frac{u^2 + u + 1}{(u - 1)^2} - \frac1{\sqrt3}\arctan\frac{2u + 1}{\sqrt3}`, an antiderivative of
    :math:`u/(1 - u^3)`, real on both sides of u = 1; the time integral is :math:`\Phi(u) - 1/u`."""
    reciprocal = apart(1 / _scaled()[0], u)
    pole = u**-2
    rest = together(reciprocal - pole)
    integral = integrate(rest, u)
    real = integral.subs(log(u - 1), log((u - 1) ** 2) / 2).replace(atan, lambda angle: atan(factor(angle)))
    require_zero(diff(real - 1 / u, u) - reciprocal)
    return Derivation.by(
        ("the reciprocal of u^2 (1 - u^3), in partial fractions", reciprocal),
        ("1/u^2 integrates to -1/u; what remains is", factor(rest)),
        ("its antiderivative, made real on both sides of 1 and differentiated back", real),
    )


@cache
def time_integral() -> Derivation:
    r"""Equation (67): with :math:`u = \sqrt[3]{a/\lambda}\,v`,

    .. math:: t = \tau\Bigl[\frac1{6\lambda^2}\sqrt[3]{\frac a\lambda}\Bigl(\ln\frac{u^2 + u + 1}{(u - 1)^2}
        - 2\sqrt3\arctan\frac{2u + 1}{\sqrt3}\Bigr) - \frac1{\lambda^2 v}\Bigr]_{v(0)}^{v(t)} .

    The result is the bracket as a function of v. It holds on each of v < 0, 0 < v < v*, v > v*.
    """
    dimensionless = phi().result - 1 / u
    positive = Symbol("v", positive=True)
    in_v = (_scaled()[1] * dimensionless).subs(u, positive / fixed_value().result)
    require_zero(diff(in_v, positive) * aligned_flow().result.subs(v, positive) / tau - 1)
    return Derivation.by(
        *phi().steps, ("in the units of t and v; dt/dv is exactly tau over the flow (26)", in_v.subs(positive, v))
    )


@cache
def difference_of_phi() -> Derivation:
    r""":math:`\Phi(u) - \Phi(u_0)` in :math:`\delta = u - u_0` and :math:`g = 1 - u`, for positive u and :math:`u_0`; no digits cancel in


    .. math:: \tfrac16\ln\Bigl(1 + \delta\frac{1 + u + u_0}{1 + u_0 + u_0^2}\Bigr) + \tfrac13\ln\Bigl(1 + \frac\delta g\Bigr)
        - \tfrac1{\sqrt3}\arctan\frac{\sqrt3\,\delta}{2 + u + u_0 + 2uu_0}.
    """
    pieces = []
    for term in Add.make_args(phi().result):
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
    require_zero(diff(plain - phi().result, u), plain.subs(u, u_0))
    return Derivation.by(
        ("Phi", phi().result),
        ("its difference, term by term; its derivative in u and its value at u_0 are right", result),
    )


@cache
def time_between() -> Derivation:
    r"""The time from :math:`u_0` to :math:`u`, in the unit ``time_scale``: (67) without cancellation,
    :math:`\frac\delta{u u_0} + \Phi(u) - \Phi(u_0)` with :math:`\delta = u - u_0`."""
    pole = cancel((1 / u_0 - 1 / u) / (u - u_0)) * delta
    return Derivation.by(("1/u_0 - 1/u", pole), ("with the difference of Phi", pole + difference_of_phi().result))


@cache
def plateau_constant() -> Derivation:
    r""":math:`C_\rho = \frac1\rho - \Phi(\rho) + \Phi(0)`, the next-order term of (68): 1.8682 at :math:`\rho = \frac12`, and 0.8503 at
    :math:`\rho^3 = \frac12`, where the effective map is at half of its final value."""
    constant = 1 / rho - (phi().result.subs(u, rho) - phi().result.subs(u, 0))
    return Derivation.by(("Phi", phi().result), ("C_rho", constant))


@cache
def plateau_duration() -> Derivation:
    r"""Equations (68), (73) with the next orders: the time from :math:`v_0` to :math:`\rho v_*` is

    .. math:: \frac{\tau}{\lambda^2}\Bigl[\frac1{v_0} - C_\rho\sqrt[3]{a/\lambda} - \tfrac12\frac{a}{\lambda}v_0^2 + O(v_0^5)\Bigr].
    """
    scaled = (
        1 / u_0
        - plateau_constant().result
        - series(phi().result - phi().result.subs(u, 0), u, 0, 5).removeO().subs(u, u_0)
    )
    result = (_scaled()[1] * scaled).subs(u_0, v_0 / fixed_value().result)
    return Derivation.by(
        ("Phi(rho) - 1/rho - (Phi(u_0) - 1/u_0), with Phi(u_0) expanded at 0", scaled),
        ("in the units of t and v", result),
    )


@cache
def truncated_duration() -> Derivation:
    r"""Equations (68), (73): :math:`t_1 \approx \tau/(\lambda^2 v_0)`; in this time :math:`\tau\dot v = \lambda^2v^2` reaches infinity."""
    leading = aligned_flow().result.coeff(v, 2) * v**2
    positive = Symbol("v", positive=True)
    duration = integrate(tau / leading.subs(v, positive), (positive, v_0, oo))
    return Derivation.by(("the quadratic term of (26)", leading), ("time from v_0 to infinity", duration))


@cache
def switch_off_time() -> Derivation:
    r"""When a drop switches its direction off for the other heads, after the escape time :math:`\tau/(\lambda^2v_0)` of (68): they feel
    :math:`\lambda^2(1 - u^3)`, whose integral over the whole drop is that of :math:`\lambda^2` up to

    .. math:: \int_0^\infty (1 - u^3)\,dt = \frac\tau{\lambda^2}\Bigl[\frac1{v_0} - \sqrt[3]{a/\lambda}\Bigr] .

    The result is the shift :math:`-\frac\tau{\lambda^2}\sqrt[3]{a/\lambda}`.
    """
    rate = _scaled()[0]
    total = integrate(cancel((1 - u**3) / rate), (u, u_0, 1))
    shift = _scaled()[1] * cancel(total - 1 / u_0)
    return Derivation.by(
        ("the integral of (1 - u^3) du/(u^2 (1 - u^3)) from u_0 to 1", total),
        ("beyond the escape time, in units of t", shift),
    )
