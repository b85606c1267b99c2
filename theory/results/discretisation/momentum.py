r"""Heavy ball as the flow of a body with mass (V8): what momentum does to saddles, minima, drops and conservation laws.

Heavy ball, W_{n+1} = W_n + mu (W_n - W_{n-1}) + 2 eta f(W_n) with f = -1/2 dL/dW, is a sum of central differences. With a step for each
h = 2 eta/(1 - mu) of t/tau it follows m W'' + W' = f, with the mass m = eta (1 + mu)/(1 - mu)^2, to second order. At small mass this is
the first-order flow (V8-modified); at a large one the weights roll.
"""

from functools import cache
from typing import Any

from sympy import (
    Derivative,
    Dummy,
    Function,
    Poly,
    Rational,
    Symbol,
    Trace,
    beta,
    cancel,
    diff,
    discriminant,
    exp,
    expand,
    factor,
    factorial,
    gamma,
    limit,
    oo,
    pi,
    series,
    simplify,
    solve,
    sqrt,
    symbols,
)

from ...algebra.polynomial import TracePolynomial
from ...calculus.derivatives import derivative
from ...calculus.equality import require_zero
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import D, k_i, lambda_, q_i, v_0, v_i, vector
from ..separate.flow import flow_in_force, rank_one_head
from .finite_steps import STEP, eta, h, kappa, modified_velocity, mu

__all__ = ["W_dot", "g", "k_dot", "m", "q_dot", "v_dot"]

m = Symbol("m", positive=True)  # the mass of the weights, a time in units of tau
g = Symbol("g", positive=True)  # the rate at which gradient flow leaves a saddle
_t = Symbol("t", real=True)
_W, _f = Symbol("W", real=True), Function("f")
_path = Function("W")(_t)
MASS = r"$m = \eta (1 + \mu)/(1 - \mu)^{2} = h (1 + \mu)/(2 (1 - \mu))$, in units of $\tau$ like every time here"


@cache
def central_differences() -> tuple[Any, Any]:
    """The weights of W_{n+1} - 2 W_n + W_{n-1} and of W_{n+1} - W_{n-1} whose sum is W_{n+1} - W_n - mu (W_n - W_{n-1})."""
    ahead, now, back, second, first = symbols("W_{n+1} W_n W_{n-1} c_2 c_1")
    ball = ahead - now - mu * (now - back)
    rest = Poly(ball - second * (ahead - 2 * now + back) - first * (ahead - back), ahead, now, back)
    solution = solve(rest.coeffs(), (second, first))
    return factor(solution[second]), factor(solution[first])


@cache
def flow_of_heavy_ball() -> tuple[Any, Any]:
    """The mass, and what the flow leaves out: the next order of the differences. Both for each (1 - mu) h."""
    ahead = sum(h**j / factorial(j) * diff(_path, _t, j) for j in range(5))
    back = ahead.subs(h, -h)
    second, first = (weight / (1 - mu) / h for weight in central_differences())
    slopes = expand(first * (ahead - back))
    curved = expand(second * (ahead - 2 * _path + back))
    mass = factor(curved.coeff(diff(_path, _t, 2)))
    slope, bend = slopes - diff(_path, _t), cancel(curved / mass) - diff(_path, _t, 2)
    return mass, -simplify(slope) - m * expand(bend)


@cache
def first_velocity() -> Any:
    """The W'(0)/f with which the flow comes as late as heavy ball from rest, where the force is still constant."""
    n, late, decaying, start = symbols("n c A r")
    place = n - late + decaying * mu**n  # in units of h f, from W_{-1} = W_0 = 0
    require_zero(place.subs(n, n + 1) - place - mu * (place - place.subs(n, n - 1)) - (1 - mu))
    steps_late = solve([place.subs(n, 0), place.subs(n, -1)], (late, decaying))[late]
    path = _t - m * (1 - start) * (1 - exp(-_t / m))
    require_zero(m * diff(path, _t, 2) + diff(path, _t) - 1, path.subs(_t, 0), diff(path, _t).subs(_t, 0) - start)
    time_late = limit(_t - path, _t, oo).subs(m, flow_of_heavy_ball()[0])
    (value,) = solve(time_late - h * steps_late, start)
    return factor(value)


@cache
def slow_velocity() -> Any:
    """The velocity on solutions of m W'' + W' = f without oscillation, to first order in the mass."""
    correction = Dummy("g")
    velocity = _f(_W) + m * correction
    rest = expand(m * (diff(_f(_W), _W) * _f(_W)) + velocity - _f(_W))
    return _f(_W) + m * solve(rest.coeff(m, 1), correction)[0]


@register(
    "V8-ball",
    "The flow of heavy ball has mass",
    kind="approximation",
    section="beyond the paper",
    left={
        "flow": r"\tau\dot W",
        "mass": r"m",
        "start": r"\tau\dot W(0)/f(W(0))",
        "next": r"m\tau^2\ddot W+\tau\dot W-f",
        "slow": r"\tau\dot W",
    },
    typed=lambda: {
        "flow": _f(_W) - m * Derivative(_path, (_t, 2)),
        "mass": eta * (1 + mu) / (1 - mu) ** 2,
        "start": (1 - mu) / (1 + mu),
        "next": -(h**2) / 6 * Derivative(_path, (_t, 3)) - m * h**2 / 12 * Derivative(_path, (_t, 4)),
        "slow": _f(_W) - m * _f(_W) * Derivative(_f(_W), _W),
    },
    conditions=(
        STEP,
        r"$f=-\frac12\partial\mathcal{L}/\partial W$; a dot is a derivative in $t$",
        (
            r"Of second order in $h$ at fixed momentum, and in the square root of $\eta$ at fixed $m$, where $1 - "
            r"\mu$ shrinks with it"
        ),
        "Start: the velocity that makes the flow as late as heavy ball, which starts from rest",
        "Slow: where the mass is small against the times on which $f$ changes; this is (V8-modified)",
    ),
)
def heavy_ball_flow() -> Derivation:
    """Write heavy ball as central differences, whose Taylor series have only every second order."""
    second, first = central_differences()
    mass, rest = flow_of_heavy_ball()
    slow = slow_velocity()
    require_zero(expand(slow.subs(m, mass) - modified_velocity()).doit())
    return Derivation.by(
        Step(r"The weight of $W_{n+1}-2W_n+W_{n-1}$ in heavy ball", second),
        Step(r"The weight of $W_{n+1}-W_{n-1}$", first),
        Step(r"Divided by $(1 - \mu) h$, the coefficient of the second derivative", mass, "m"),
        Step("In the step on the loss", factor(mass.subs(h, 2 * eta / (1 - mu))), part="mass"),
        Step("With that of the first derivative, which is 1", _f(_W) - m * diff(_path, _t, 2), part="flow"),
        Step("What is left out", rest, part="next"),
        Step("The velocity at the start, over the force", first_velocity(), part="start"),
        Step("The slow solutions", slow, part="slow"),
    )


@cache
def escape_rate() -> Any:
    """The positive z with m z^2 + z = g."""
    z = Symbol("z", positive=True)
    (rate,) = solve(m * z**2 + z - g, z)
    return rate


@cache
def time_by_inertia() -> tuple[Any, Any]:
    """m v'^2/2 on the way of a separate head from rest at v_0 without friction, and its time to grow without bound."""
    x, y, v = symbols("x y v", positive=True)
    energy = factor((lambda_**2 * (v**3 - v_0**3)) / 3)
    require_zero(diff(energy, v) - lambda_**2 * v**2, energy.subs(v, v_0))
    # dt = dv/v' and v = x v_0, x from 1 to infinity; x = y^(-1/3) makes a Beta integral of y from 0 to 1
    scale = simplify(v_0 / sqrt(2 * energy.subs(v, x * v_0) / m) * sqrt(x**3 - 1))
    at = y ** Rational(-1, 3)
    powers = simplify(-diff(at, y) / sqrt(at**3 - 1)) * sqrt(1 - y)
    exponent = simplify(y * diff(powers, y) / powers)
    whole = simplify(powers / y**exponent) * beta(exponent + 1, Rational(1, 2))
    return energy, scale * whole.rewrite(gamma)


@register(
    "V8-mass",
    "What mass does to a saddle, a minimum and a drop",
    kind="exact",
    section="beyond the paper",
    left={
        "escape": r"\tau\,\tfrac{d}{dt}\log|\delta W|",
        "flow rings": r"m\kappa",
        "ball rings": r"\eta\kappa",
        "drop": r"t_{\rm drop}/\tau",
    },
    typed=lambda: {
        "escape": (sqrt(1 + 4 * m * g) - 1) / (2 * m),
        "flow rings": Rational(1, 4),
        "ball rings": (1 - sqrt(mu)) ** 2 / 2,
        "drop": sqrt(3 * m / (2 * v_0)) / lambda_ * sqrt(pi) * gamma(Rational(1, 6)) / (3 * gamma(Rational(2, 3))),
    },
    conditions=(
        MASS,
        (
            r"Escape: from a saddle that gradient flow leaves at the rate $g$, $m\ddot W+\dot W=gW$; a rate of at "
            "most $g$"
        ),
        (
            r"Rings: beside a minimum, along an eigenvector of the Hessian of $L/2$ with eigenvalue $\kappa$, the "
            r"weights swing about it for larger $m$ (the flow) or $\eta$ (heavy ball, up to the bound of "
            "(V8-modified))"
        ),
        (
            r"Drop: the limit of a large mass, $m v_{0} \lambda^{2}$ far above 1, for a head $v = \boldsymbol{k} = "
            r"\boldsymbol{q}$ of separate attention from rest at a small $v_{0}$: it goes as the inverse root of "
            "$v_{0}$, the drop of gradient flow as the inverse"
        ),
    ),
)
def what_mass_does() -> Derivation:
    """Quadratics for what is linear, and conservation of energy for the drop."""
    z, step = symbols("z x")
    rate = escape_rate()
    flow_edge = solve(discriminant(m * z**2 + z + kappa, z), m)[0] * kappa
    recursion = expand(z**2 - z - mu * (z - 1) + 2 * step * z)
    edges = solve(discriminant(recursion, z), step)
    ball_edge = min(edges, key=lambda edge: edge.subs(mu, Rational(1, 4)))
    energy, time = time_by_inertia()
    return Derivation.by(
        Step("The positive root of $mz^2+z=g$", rate, part="escape"),
        Step("At a small mass", series(rate, m, 0, 2).removeO()),
        Step("At a large mass, times the root of $m$", limit(rate * sqrt(m), m, oo)),
        Step(r"The roots of $mz^2+z+\kappa$ are complex from", flow_edge, part="flow rings"),
        Step(r"Heavy ball beside a minimum, for $z = 1 +$ growth a step and $x=\eta\kappa$", recursion),
        Step("Its roots are complex from", factor(ball_edge), part="ball rings"),
        Step(r"Without friction $m\dot v^2/2$ is", energy),
        Step(r"The integral of $dv/\dot v$ from $v_0$ to infinity", time, part="drop"),
    )


k_dot, q_dot = vector("k_dot", D, latex=r"\dot{\boldsymbol{k}}_i"), vector("q_dot", D, latex=r"\dot{\boldsymbol{q}}_i")
v_dot = Symbol("v_dot", real=True)
W_dot, _force = vector("W_dot", D, latex=r"\dot{\boldsymbol{W}}"), vector("f", D)  # of all weights, however many


def acceleration(force: Any, velocity: Any) -> Any:
    """Of the flow m W'' + W' = f."""
    return (TracePolynomial(force) - velocity) / m


def energy_loss() -> Any:
    """d/dt (L + m |W'|^2)/2 along the flow, where dL = -2 f'dW."""
    return m * W_dot.T * acceleration(_force, W_dot) - _force.T * W_dot


@cache
def change_of_balance() -> dict[str, tuple[Any, Any]]:
    """C' and m C'' + C' for the two quantities (79) that gradient flow conserves, under any force G."""
    forces = flow_in_force(rank_one_head(), (v_i, k_i, q_i))
    rates: dict[Any, Any] = {}
    for weight, velocity in ((v_i, v_dot), (k_i, k_dot), (q_i, q_dot)):
        rates |= {weight: velocity, velocity: acceleration(forces[weight], velocity)}
    squared_key = TracePolynomial(k_i.T * k_i)
    rate = {part: derivative(squared_key - other, rates) for part, other in (("query", q_i.T * q_i), ("value", v_i**2))}
    return {part: (first, m * derivative(first, rates) + first) for part, first in rate.items()}


@register(
    "V8-energy",
    "Energy and balance of heavy ball",
    kind="exact",
    section="beyond the paper",
    left={
        "energy": r"\tfrac{d}{dt}\tfrac12\left(\mathcal{L}+m\dot{\boldsymbol{W}}^\top\dot{\boldsymbol{W}}\right)",
        "query": r"m\ddot C_q+\dot C_q",
        "value": r"m\ddot C_v+\dot C_v",
    },
    typed=lambda: {
        "energy": -Trace(W_dot.T * W_dot),
        "query": 2 * m * (Trace(k_dot.T * k_dot) - Trace(q_dot.T * q_dot)),
        "value": 2 * m * (Trace(k_dot.T * k_dot) - v_dot**2),
    },
    conditions=(
        MASS,
        (
            r"On the flow (V8-ball), $t$ in units of $\tau$; any loss, for balance one that depends on the weights "
            "through the effective map"
        ),
        "Balance: $C_q=\\boldsymbol{k}_i^\\top\\boldsymbol{k}_i-\\boldsymbol{q}_i^\\top\\boldsymbol{q}_i$ and "
        "$C_v=\\boldsymbol{k}_i^\\top\\boldsymbol{k}_i-v_i^2$, conserved by gradient flow (79), with momentum only at equal speeds",
    ),
)
def energy_and_balance() -> Derivation:
    """The chain rule along the flow, with the accelerations put in."""
    (query, query_law), (value, value_law) = change_of_balance()["query"], change_of_balance()["value"]
    return Derivation.by(
        Step("Half the loss and the kinetic energy, with the accelerations put in", energy_loss(), part="energy"),
        Step("The rate of $C_q$, with velocities for letters", query, r"\dot C_q"),
        Step("With the accelerations, the force drops out", query_law, part="query"),
        Step("The rate of $C_v$", value, r"\dot C_v"),
        Step("With the accelerations", value_law, part="value"),
    )
