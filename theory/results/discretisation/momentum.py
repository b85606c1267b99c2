r"""Heavy ball as the flow of a body with mass (V8): what momentum does to saddles, minima, drops and conservation laws.

Heavy ball, W_{n+1} = W_n + mu (W_n - W_{n-1}) + 2 eta f(W_n) with f = -1/2 dL/dW, is a sum of central differences. With a step for each
h = 2 eta/(1 - mu) of t/tau it follows m W'' + W' = f, with the mass m = eta (1 + mu)/(1 - mu)^2, to second order. At small mass this is
the first-order flow (V8-modified); at a large one the weights roll.
"""

from typing import Any

from mpmath import mpf, polyroots
from sympy import Integral, Trace, cancel, discriminant, factor, integrate, limit, series, simplify, solve
from sympy.core import Derivative, Expr, Function, Rational, Symbol, diff, expand, oo, pi, symbols
from sympy.functions import beta, exp, factorial, gamma, sqrt

from ...algebra.polynomial import TracePolynomial
from ...calculus import derivative
from ...derivations import Condition, Line, Lines, Rate, given, note, register, states, value_at
from ...derivations.draws import at
from ...notation import D, k_i, lambda_, q_i, v_0, v_i, vector
from ..separate.flow import flow_in_force, rank_one_head
from .finite_steps import MOMENTUM, STEP, eta, h, kappa, modified_velocity, mu, v

m = Symbol("m", positive=True)  # the mass of the weights, a time in units of tau
g = Symbol("g", positive=True)  # the rate at which gradient flow leaves a saddle
n = Symbol("n", integer=True, positive=True)  # steps
r, x, y, z = symbols("r x y z", positive=True)
_t, _W = symbols("t W", real=True)
_f, _velocity, _path = Function("f")(_W), Function("F")(_W), Function("W")(_t)
MASS = r"$m$ is the mass (V8-ball), in units of $\tau$ like every time here"


def heavy_ball(ahead: Any, now: Any, back: Any) -> Any:
    """What a step does beside the force, over (1 - mu) h."""
    return (ahead - now - mu * (now - back)) / ((1 - mu) * h)


def flow_of_heavy_ball() -> tuple[Any, Any]:
    """The mass, and what the flow leaves out: the next order in h."""
    ahead = sum(h**j / factorial(j) * diff(_path, _t, j) for j in range(5))
    series_ = expand(heavy_ball(ahead, _path, ahead.subs(h, -h)))
    mass, *rest = (factor(series_.coeff(diff(_path, _t, j))) for j in (2, 3, 4))
    left_out = rest[0] * diff(_path, _t, 3) + cancel(rest[1] / mass) * m * diff(_path, _t, 4)
    return mass, -left_out


@register("V8-ball", "The flow of heavy ball has mass", kind="approximation")
@states("flow", lambda: _f - m * Derivative(_path, (_t, 2)))
@states("mass", lambda: eta * (1 + mu) / (1 - mu) ** 2)
@states("start", lambda: (1 - mu) / (1 + mu))
@states("next", lambda: -(h**2) / 6 * Derivative(_path, (_t, 3)) - m * h**2 / 12 * Derivative(_path, (_t, 4)))
@states("slow", lambda: _f - m * _f * Derivative(_f, _W))
@given(MOMENTUM)
@note(STEP, r"$f=-\frac12\partial\mathcal{L}/\partial W$; a dot is a derivative in $t$; start: the first velocity over $f$")
def heavy_ball_flow() -> Lines:
    """The Taylor series of a step on a path; the flow without oscillation; and both from rest, under a constant force."""
    mass, rest = flow_of_heavy_ball()
    (turn,) = solve((m * _f * Derivative(_f, _W) + z).subs(m, 1), z)  # m W'' + W' = f, to first order in m
    slow = _f + m * turn
    place = n - mu * (1 - mu**n) / (1 - mu)  # in units of h f
    path = _t - m * (1 - r) * (1 - exp(-_t / m))  # under a force of 1
    late, later = (limit(expand(n - place).subs(mu**n, x), x, 0) * h, limit(_t - path, _t, oo))
    (start,) = solve(later - late, r)
    yield Line(_velocity, ":=", slow, "A flow with this velocity")
    yield Line(m * _velocity * Derivative(_velocity, _W) + _velocity, "~", _f,
               r"obeys $m\ddot W+\dot W=f$ to first order in the mass", parameter=(m, 0), order=2)  # fmt: skip
    yield Line(_velocity, "=", slow, "These are the slow solutions", part="slow")
    yield Line(m, ":=", mass, "Let the mass be")
    yield Line(_velocity, "=", modified_velocity(), "Then the slow solutions are those of (V8-modified)")
    reason = r"Under a constant force $n$ steps of heavy ball from rest go, in units of $hf$, as far as $n-\mu(1-\mu^n)/(1-\mu)$"
    yield Line(heavy_ball(*(place.subs(n, n + j) for j in (1, 0, -1))) * h, "=", 1, reason)
    yield Line(h * (n - place), "->", late, r"In the end it is late by", parameter=n)
    yield Line(m * Derivative(path, (_t, 2)) + Derivative(path, _t), "=", 1, "The flow that starts with $r$ times the force has this path")
    yield Line(_t - path, "->", later, "In the end it is late by", parameter=_t)
    yield Line(r, ":=", start, "The flow is as late as heavy ball if")
    yield Line(later, "=", late, "These are equal then")
    yield Line(r, "=", factor(start.subs(m, mass)), "With the mass", part="start")
    yield Line(_f, ":=", heavy_ball(_path.subs(_t, _t + h), _path, _path.subs(_t, _t - h)), "The force of heavy ball on a path")
    yield Line(Derivative(_path, _t), "~", _f - m * diff(_path, _t, 2), "The flow follows it", (), "flow", parameter=(h, 0), order=2)
    yield Line(m * diff(_path, _t, 2) + diff(_path, _t) - _f, "~", rest, "What it leaves out", (), "next", parameter=(h, 0), order=4)
    yield Line(h, ":=", 2 * eta / (1 - mu), "In the step on the loss")
    yield Line(m, "=", factor(mass.subs(h, 2 * eta / (1 - mu))), "the mass is", part="mass")


def escape_rate() -> Any:
    """The positive z with m z^2 + z = g."""
    (rate,) = solve(m * z**2 + z - g, z)
    return rate


def _complex(*coefficients: Expr) -> Condition:
    """Are the solutions z of a quadratic equation complex?"""

    def holds(point) -> bool:
        roots = polyroots([value_at(one, point) for one in coefficients], maxsteps=500, extraprec=200)
        return max(abs(root.imag) for root in roots) > mpf("1e-20")

    return Condition("the solutions $z$ are complex", holds)


def _inside(point) -> None:
    point[y] = mpf(point.rng.random())


BETWEEN = Condition("$0 < y < 1$", lambda point: 0 < point[y] < 1, _inside, at(y, 1))


@register("V8-mass", "What mass does to a saddle, a minimum and a drop")
@states("escape", lambda: (sqrt(1 + 4 * m * g) - 1) / (2 * m))
@states("flow rings", lambda: Rational(1, 4))
@states("ball rings", lambda: (1 - sqrt(mu)) ** 2 / 2)
@states("drop", lambda: sqrt(3 * m / (2 * v_0)) / lambda_ * sqrt(pi) * gamma(Rational(1, 6)) / (3 * gamma(Rational(2, 3))))
@given(
    MOMENTUM,
    r"Drop: a head $v = \boldsymbol{k} = \boldsymbol{q}$ of separate attention from rest at a small $v_{0}$, with $m v_{0} \lambda^{2}$ "
    "far above 1",
)
@note(
    MASS,
    r"Rings: at larger $m\kappa$ (the flow) or $\eta\kappa$ (heavy ball) weights swing about a minimum, for each eigenvalue $\kappa$ "
    r"of the Hessian of $\mathcal{L}/2$",
)
def what_mass_does() -> Lines:
    """Quadratics for what is linear, and conservation of energy for the drop."""
    rate = escape_rate()
    swinging, recursion = m * z**2 + z + kappa, expand(z**2 - z - mu * (z - 1) + 2 * x * z)
    (flow_edge,) = solve(discriminant(swinging, z), m)
    edges = sorted(solve(discriminant(recursion, z), x), key=lambda edge: edge.subs(mu, Rational(1, 4)))
    energy = integrate(lambda_**2 * x**2, (x, v_0, v))
    at, speed, each = v_0 / y**2, sqrt(2 * energy / m), 1 / sqrt(1 - y**6)
    scale = simplify(-diff(at, y) / speed.subs(v, at) / each)
    whole = scale * (beta(Rational(1, 6), Rational(1, 2)) / 6).rewrite(gamma)
    yield Line(r, ":=", rate, "Let")
    yield Line(m * r**2 + r, "=", g, r"$e^{rt}$ leaves a saddle along the flow with mass if this is the rate of gradient flow")
    yield Line(r, "=", rate, "So the rate is", part="escape")
    yield Line(rate, "<", g, "slower than that of gradient flow")
    yield Line(rate, "~", series(rate, m, 0, 2).removeO(), "At a small mass", parameter=(m, 0), order=2)
    yield Line(rate * sqrt(m), "->", limit(rate * sqrt(m), m, oo), "At a large mass", parameter=m, order=Rational(1, 2))
    yield Line(Integral(lambda_**2 * x**2, (x, v_0, v)), "=", energy,
               r"Without friction, $m\ddot v=\lambda^2v^2$, the kinetic energy $m\dot v^2/2$ of a head from rest at $v_0$ is")  # fmt: skip
    yield Line(-Derivative(at, y) / speed.subs(v, at), "=", scale * each,
               r"With $v=v_0/y^2$, the time $dv/\dot v$ for each unit of $-y$ is", conditions=(BETWEEN,))  # fmt: skip
    yield Line(scale * Integral(each, (y, 0, 1)), "=", whole, "The time to grow without bound, a Beta integral", part="drop")
    yield Line(_complex(m, 0 * m + 1, kappa), "<=>", Line(m * kappa, ">", flow_edge * kappa),
               r"Beside a minimum, $e^{zt}$ with $mz^2+z+\kappa=0$ is a solution of the flow with mass",
               meets=(_heavy, _heavy))  # fmt: skip
    yield Line(_complex(0 * m + 1, 2 * eta * kappa - 1 - mu, mu), "<=>",
               tuple(Line(eta * kappa, relation, edge) for relation, edge in zip((">", "<"), edges, strict=True)),
               r"$z^n$ with $z^2-z=\mu(z-1)-2\eta\kappa z$ is one of heavy ball", meets=(_swings, _swings))  # fmt: skip
    yield Line(m, ":=", flow_edge, "Where the flow begins to swing")
    yield Line(m * kappa, "=", flow_edge * kappa, "this product is", part="flow rings")
    yield Line(eta, ":=", factor(edges[0]) / kappa, "Where heavy ball begins to swing")
    yield Line(eta * kappa, "=", factor(edges[0]), "this product is", part="ball rings")


def _heavy(point) -> None:
    point[m] = (1 + mpf(point.rng.random())) / 4 / point[kappa]


def _swings(point) -> None:
    root = mpf(point[mu]) ** mpf(0.5)
    point[eta] = ((1 + root) ** 2 - 4 * root * mpf(point.rng.random())) / 2 / point[kappa]


k_dot, q_dot = vector("k_dot", D, latex=r"\dot{\boldsymbol{k}}_i"), vector("q_dot", D, latex=r"\dot{\boldsymbol{q}}_i")
v_dot = Symbol("v_dot", real=True)
W, W_dot, _force = vector("W", D), vector("W_dot", D, latex=r"\dot{\boldsymbol{W}}"), vector("f", D)  # of all weights, however many


def acceleration(force: Any, velocity: Any) -> Any:
    """Of the flow m W'' + W' = f."""
    return (TracePolynomial(force) - velocity) / m


@register("V8-energy", "Energy and balance of heavy ball")
@states("energy", lambda: -Trace(W_dot.T * W_dot))
@states("query", lambda: 2 * m * (Trace(k_dot.T * k_dot) - Trace(q_dot.T * q_dot)))
@states("value", lambda: 2 * m * (Trace(k_dot.T * k_dot) - v_dot**2))
@given("On the flow (V8-ball); any loss, for the balance one that depends on the weights through the effective map")
@note(MASS, r"The loss changes as $-2\boldsymbol{f}^\top\boldsymbol{W}$ does with $\boldsymbol{f}$ held fixed")
def energy_and_balance() -> Lines:
    """The chain rule along the flow, with the accelerations put in."""
    forces = flow_in_force(rank_one_head(), (v_i, k_i, q_i))
    pairs = ((v_i, v_dot), (k_i, k_dot), (q_i, q_dot))
    rates = dict(pairs) | {velocity: acceleration(forces[weight], velocity) for weight, velocity in pairs}
    moving = {W: W_dot, W_dot: acceleration(_force, W_dot)}
    energy = m * Trace(W_dot.T * W_dot) / 2 - Trace(_force.T * W)
    yield Line(Rate(energy, moving), "=", derivative(TracePolynomial(energy), moving),
               "Half the loss and the kinetic energy", part="energy")  # fmt: skip
    for which, other in (("query", Trace(q_i.T * q_i)), ("value", v_i**2)):
        conserved = Trace(k_i.T * k_i) - other
        first = derivative(TracePolynomial(conserved), rates)
        law = m * derivative(first, rates) + first
        once = Rate(conserved, rates)
        yield Line(once, "=", first, f"The rate of what balances key and {which}")
        yield Line(m * Rate(once, rates) + once, "=", law, "In this combination with its second derivative the force drops out", part=which)
