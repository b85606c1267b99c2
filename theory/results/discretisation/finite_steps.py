r"""Descent with steps that are not small, momentum and mini-batches (V8): what gradient flow leaves out, to first order.

A step W <- W + h f(W), with f = -1/2 dL/dW and h = 2 eta, follows to second order in h the flow of f - h/2 (f . grad) f, which is
gradient flow of the loss L + eta/4 |dL/dW|^2. Heavy ball, W <- W + mu (W - W_before) + (1 - mu) h f, follows that of another multiple.
"""

from functools import cache
from typing import Any

from mpmath import cbrt, mpf, polyroots, sqrt as root_of
from sympy import Derivative, Expr, Function, Integral, Rational, S, Symbol, Trace, expand, factor, log, series, simplify, solve, symbols

from ...algebra.polynomial import TracePolynomial
from ...calculus import gradient, rewrite
from ...derivations import Condition, E, Gradient, Line, Lines, Rate, given, note, register, states
from ...derivations.draws import EIGENVECTOR, at
from ...expectation import Gaussian, expect
from ...notation import B, G, Lambda, M, MatrixLetter, N, T, a, alpha, beta, e, gamma, lambda_, v_0, x_q, y_q
from ..task.regression import SECOND_MOMENT, force, loss_and_force, population_error

h = Symbol("h", positive=True)  # the time t/tau that a step advances
eta = Symbol("eta", positive=True)  # step on L: h = 2 eta, and with momentum h = 2 eta / (1 - mu)
mu = Symbol("mu", nonnegative=True)  # momentum
kappa = Symbol("kappa", positive=True)  # eigenvalue of the Hessian of L/2
edge = Symbol("c", positive=True)  # the largest stable kappa h
u_0 = Symbol("u_0", positive=True)
v, u, z = *symbols("v u", positive=True), Symbol("z")
batch = Symbol("P", integer=True, positive=True)  # sequences in a mini-batch
V = Symbol("V", positive=True)  # variance of one sequence's force
A = MatrixLetter("A", 1, 1, "A")  # the force of a mini-batch
t = Symbol("t", positive=True)
_W = Symbol("W", real=True)
_f, _g, _velocity = (Function(name)(_W) for name in "fgF")
STEP = r"A step advances $t/\tau$ by $h = 2 \eta$, with momentum by $h = 2 \eta / (1 - \mu)$"


def _draw_momentum(point) -> None:
    point[mu] = mpf(point.rng.uniform(0, 0.95))  # what is expanded is in powers of h/(1 - mu)


MOMENTUM = Condition(r"$0 \le \mu < 1$", lambda point: 0 <= point[mu] < 1, _draw_momentum, at(mu, 1))


def defect(velocity: Any) -> Any:
    """A step of heavy ball less what the flow with this velocity makes of it, to second order in h."""
    second = h**2 * velocity * Derivative(velocity, _W) / 2
    return (h * velocity + second) - mu * (h * velocity - second) - (1 - mu) * h * _f


@cache
def modified_velocity() -> Any:
    """The velocity whose flow meets every step of heavy ball to second order in h, once the first velocity is forgotten."""
    (correction,) = solve(expand(defect(_f + h * _g).doit()).coeff(h, 2), _g)
    return _f + h * factor(correction)


def _stable(point) -> bool:
    step = point[kappa] * point[h] * (1 - point[mu])
    return max(map(abs, polyroots([1, step - 1 - point[mu], point[mu]], maxsteps=200, extraprec=100))) < 1


def _draw_stable(point) -> None:
    point[h] = 2 * (1 + point[mu]) / (1 - point[mu]) * mpf(point.rng.random()) / point[kappa]


@register("V8-modified", "The flow that descent and heavy ball follow", kind="approximation")
@states("descent", lambda: _f - h / 2 * _f * Derivative(_f, _W))
@states("heavy ball", lambda: _f - h / 2 * (1 + mu) / (1 - mu) * _f * Derivative(_f, _W))
@states("bound", lambda: S(2))
@states("ball bound", lambda: 2 * (1 + mu) / (1 - mu))
@given(MOMENTUM)
@note(
    STEP,
    r"$W$ stands for all weights: the last factors are then the Jacobian of $f$ applied to $f$",
    r"Bounds: what $\kappa h$ must stay below beside a fixed point, for each eigenvalue $\kappa$ of the Hessian of $\mathcal{L}/2$",
)
def modified_equation() -> Lines:
    """Expand W(t + h) and W(t - h) in the step, and the quadratic of the linear recursion at its edge."""
    recursion = z**2 - z - mu * (z - 1) + (1 - mu) * kappa * h * z  # W - W* = z^k
    (bound,) = solve(recursion.subs(kappa, edge / h).subs(z, -1), edge)
    stable = Condition(r"both solutions $z$ lie inside the unit circle", _stable)
    yield Line(_velocity, ":=", modified_velocity(), "The flow with this velocity")
    yield Line(defect(_velocity), "~", 0,
               "meets a step of heavy ball to second order: the Taylor series of the flow leaves", parameter=(h, 0), order=3)  # fmt: skip
    yield Line(_velocity, "=", modified_velocity(), "So heavy ball follows the velocity", part="heavy ball")
    yield Line(edge, ":=", factor(bound), r"Write")
    reason = r"Beside a fixed point $z^k$ solves heavy ball if $z^2-z=\mu(z-1)-(1-\mu)\kappa hz$; for $\kappa h=c$ one solution is $z=-1$"
    yield Line(recursion.subs(kappa * h, edge).subs(z, -1), "=", 0, reason)
    yield Line(stable, "<=>", Line(kappa * h, "<", edge), r"Both solutions decay only for smaller $\kappa h$", meets=(_draw_stable,) * 2)
    yield Line(edge, "=", factor(bound), "The bound with momentum", part="ball bound")
    yield Line(mu, ":=", 0, "Without momentum")
    yield Line(_velocity, "=", expand(modified_velocity().subs(mu, 0)), "The velocity", part="descent")
    yield Line(edge, "=", bound.subs(mu, 0), "The bound", part="bound")


@register("V8-loss", "The loss that descent descends")
@states(lambda: G + eta * M * G * Lambda)
@given(r"The map $\boldsymbol{B}$ itself descends")
def modified_loss() -> Lines:
    """Differentiate the loss with the square of its gradient added."""
    loss = population_error(B)
    whole = loss + eta / 4 * Trace(Gradient(loss, B).T * Gradient(loss, B))
    named = TracePolynomial(G) - eta * gradient((TracePolynomial(G).T * force()).trace(), B)
    yield SECOND_MOMENT
    yield from loss_and_force()
    yield Line(G - eta * Rate(force().to_sympy(), {B: G}), "=", named, "The velocity (V8-modified) with $h = 2 \\eta$")
    yield Line(-Gradient(whole, B) / 2, "=", named, "Minus half the gradient of the loss that descent descends is the same")


HALF, MERGED_HALF = (lambda_ / (2 * a)) ** Rational(1, 3), (gamma / (2 * alpha)) ** Rational(1, 2)


def _starts_below(point) -> None:
    point[v_0] = cbrt(point[lambda_] / point[a]) * mpf(point.rng.random())
    point[u_0] = root_of(point[gamma] / point[alpha]) * mpf(point.rng.random())


def _starts_at_rest(point) -> None:
    point[lambda_], point[gamma] = point[a], point[alpha]
    point[v_0] = point[u_0] = mpf(1)


BELOW = Condition(
    "The weights start below where they come to rest",
    lambda point: point[a] * point[v_0] ** 3 < point[lambda_] and point[alpha] * point[u_0] ** 2 < point[gamma],
    _starts_below,
    _starts_at_rest,
)


@register("V8-drop", "How much later steps make a drop", kind="approximation")
@states("separate", lambda: h / 2 * log(HALF**2 * lambda_**2 / 2 / (lambda_**2 * v_0**2 - lambda_ * a * v_0**5)))
@states("merged", lambda: h / 2 * log(gamma / (2 * alpha) * gamma / 2 / (MERGED_HALF * u_0 * (gamma - alpha * u_0**2))))
@given(BELOW, r"Merged: white tokens, on the set (44), $s = u^2$")
@note(r"In units of $\tau$", STEP)
def later_drop() -> Lines:
    """The added time is half a step times the logarithm of how much faster the weight grows at the end."""
    slower = _f - h / 2 * _f * Derivative(_f, _W)
    added = series(1 / (1 - h * z / 2), h, 0, 2).coeff(h, 1).subs(z, Derivative(_f, _W)) / _f

    def delay(velocity: Expr, variable: Symbol, start: Symbol, end: Expr) -> tuple[Integral, str, Expr]:
        ratio = simplify(velocity.subs(variable, end) / velocity.subs(variable, start))
        return Integral(h * added.subs(_f, velocity.subs(variable, _W)), (_W, start, end)), "=", h / 2 * log(ratio)

    yield Line(1 / slower - 1 / _f, "~", h * added,
               "The time that steps add for each unit of a weight, by (V8-modified)", parameter=(h, 0), order=2)  # fmt: skip
    yield Line(*delay(lambda_**2 * v**2 - lambda_ * a * v**5, v, v_0, HALF),
               r"A growing head of separate attention, $f=\lambda^2v^2-\lambda av^5$, up to $v^{3} = \lambda/(2a)$",
               part="separate")  # fmt: skip
    yield Line(*delay(u * (gamma - alpha * u**2), u, u_0, MERGED_HALF),
               r"Balanced merged attention, $f=u(\gamma-\alpha u^2)$ for the norm $u$ of the values, up to $u^{2} = \gamma/(2 \alpha)$",
               part="merged")  # fmt: skip


@cache
def force_variance() -> Any:
    """The variance of e'(y_q beta x_q')e over sequences, for an eigenvector e of Lambda."""
    rules = {Lambda * e: lambda_ * e, e.T * e: S.One, Trace(Lambda): T}
    force_of_one = TracePolynomial(y_q * e.T * beta * x_q.T * e)
    second = rewrite(expect(force_of_one**2), rules) - rewrite(expect(force_of_one), rules) ** 2
    return factor(second.to_sympy())


@register("V8-noise", "How mini-batches move and spread the time of a drop", kind="approximation")
@states(
    "variance", lambda: lambda_**2 * (lambda_ * (7 * lambda_ + T) + (12 * lambda_**2 + 3 * lambda_ * T + T**2 + 2 * Trace(Lambda**2)) / N)
)
@states("delay", lambda: h * (1 + V / (batch * lambda_**4)) * log(v / v_0))
@states("spread", lambda: h * t * V / (batch * lambda_**4))
@given(
    EIGENVECTOR,
    r"$P$ fresh sequences for each step",
    r"A head $v = k = q$ along $\boldsymbol{e}$, before $a v^{3}$ nears $\lambda$; noise in other directions is left out",
)
@note(STEP)
def mini_batches() -> Lines:
    """In 1/v a step is additive but for the second order, which noise enlarges."""
    one = y_q * e.T * beta * x_q.T * e
    law = Gaussian(A, mean=lambda_**2, covariance=V / batch)
    drawn = Symbol("A", real=True)
    step = expand(series(1 / (v + h * drawn * v**2), h, 0, 3).removeO())
    averaged = step.subs(drawn**2, E(A**2, law)).subs(drawn, E(A, law))
    mean = step.subs(drawn**2, expect(A**2, law).to_sympy()).subs(drawn, lambda_**2)
    velocity = expand(-(v**2) * (mean - 1 / v) / h)
    added = expand(series(1 / velocity, h, 0, 2).removeO().coeff(h, 1) * v)
    spread = t / h * h**2 * (E(A**2, law) - E(A, law) ** 2) / lambda_**4
    yield Line(V, ":=", E(one**2) - E(one) ** 2, "The variance of one sequence's force along an eigenvector")
    yield Line(V, "=", force_variance(), "averaged", part="variance")
    yield Line(1 / (v + h * drawn * v**2), "~", step, "A step of $1/v$ with the force $A$ of its mini-batch", parameter=(h, 0), order=3)
    yield Line(averaged, "=", mean, r"Its mean over mini-batches, whose force has the mean $\lambda^{2}$ and the variance $V/P$")
    yield Line(1 / velocity - 1 / (lambda_**2 * v**2), "~", h * added / v,
               "As $dv/dt=-v^2\\,d(1/v)/dt$, steps and noise add to the time for each unit of $v$", parameter=(h, 0), order=2)  # fmt: skip
    yield Line(h * added * Integral(1 / u, (u, v_0, v)), "=", h * added * log(v / v_0), "From $v_{0}$ to $v$", part="delay")
    yield Line(spread, "=", t * h * V / batch / lambda_**4,
               r"The variance of $1/v$ after $t/h$ steps, over the square of its speed $\lambda^{2}$", part="spread")  # fmt: skip
