r"""Descent with steps that are not small, momentum and mini-batches (V8): what gradient flow leaves out, to first order.

A step W <- W + h f(W), with f = -1/2 dL/dW and h = 2 eta, follows to second order in h the flow of f - h/2 (f . grad) f, which is
gradient flow of the loss L + eta/4 |dL/dW|^2. Heavy ball, W <- W + mu (W - W_before) + (1 - mu) h f, follows that of another multiple.
"""

from functools import cache
from typing import Any

from sympy import (
    Derivative,
    Expr,
    Function,
    Rational,
    S,
    Symbol,
    Trace,
    cancel,
    diff,
    expand,
    factor,
    integrate,
    log,
    series,
    simplify,
    solve,
    symbols,
)

from ...algebra.polynomial import TracePolynomial
from ...calculus.derivatives import gradient
from ...calculus.equality import require_zero
from ...calculus.rewriting import rewrite
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...expectation.moments import expect
from ...notation import B, D, G, Lambda, M, N, T, a, alpha, beta, gamma, lambda_, v_0, vector, x_q, y_q
from ..task.regression import closed_loss, force

__all__ = ["V", "batch", "eta", "h", "kappa", "mu", "t", "u_0", "v"]

h = Symbol("h", positive=True)  # the time t/tau that a step advances
eta = Symbol("eta", positive=True)  # step on L: h = 2 eta, and with momentum h = 2 eta / (1 - mu)
mu = Symbol("mu", nonnegative=True)  # momentum
kappa = Symbol("kappa", positive=True)  # eigenvalue of the Hessian of L/2
u_0 = Symbol("u_0", positive=True)
v, u = symbols("v u", positive=True)
batch = Symbol("P", integer=True, positive=True)  # sequences in a mini-batch
V = Symbol("V", positive=True)  # variance of one sequence's force
t = Symbol("t", positive=True)
_W = Symbol("W", real=True)
_f = Function("f")
STEP = r"A step advances $t/\tau$ by $h = 2 \eta$, with momentum by $h = 2 \eta / (1 - \mu)$"


@cache
def modified_velocity() -> Any:
    """The velocity whose flow meets every step of heavy ball to second order in h, once the first velocity is forgotten."""
    g, velocity = Function("g"), _f(_W)
    ansatz = velocity + h * g(_W)
    second = diff(ansatz, _W) * ansatz  # W''
    ahead, back = h * ansatz + h**2 * second / 2, h * ansatz - h**2 * second / 2
    defect = expand((ahead - mu * back - (1 - mu) * h * velocity).doit())
    require_zero(defect.coeff(h, 1))
    (correction,) = solve(defect.coeff(h, 2), g(_W))
    return factor(velocity + h * correction)


@register(
    "V8-modified",
    "The flow that descent and heavy ball follow",
    kind="approximation",
    section="beyond the paper",
    left={"descent": r"\tau\dot W", "heavy ball": r"\tau\dot W", "bound": r"\kappa h", "ball bound": r"\kappa h"},
    typed=lambda: {
        "descent": _f(_W) - h / 2 * _f(_W) * Derivative(_f(_W), _W),
        "heavy ball": _f(_W) - h / 2 * (1 + mu) / (1 - mu) * _f(_W) * Derivative(_f(_W), _W),
        "bound": S(2),
        "ball bound": 2 * (1 + mu) / (1 - mu),
    },
    conditions=(
        STEP,
        (
            "Next order: $h^{2}$; for more weights the last factors are the Jacobian of $f$ applied to $f$, minus "
            "the Hessian of $L/2$ on $f$"
        ),
        (
            r"Heavy ball: started at rest it lags by $h$ mu/(1 - $\mu)$ more, since its velocity builds up over 1/(1 "
            r"- $\mu)$ steps"
        ),
        (
            r"Bound: along an eigenvector of the Hessian of $L/2$ with eigenvalue $\kappa$ a fixed point is stable "
            r"for $\kappa h$ below it, so $\eta < 1/\kappa$, and $\eta <$ (1 $+$ mu)/kappa with momentum"
        ),
    ),
)
def modified_equation() -> Derivation:
    """Expand W(t + h) and W(t - h) in the step, and the quadratic of the linear recursion at its edge."""
    velocity = modified_velocity()
    z = Symbol("z")
    # W - W* = z^k: z^2 - z = mu (z - 1) - (1 - mu) h kappa z, stable until z = -1
    recursion = expand(z**2 - z - mu * (z - 1) + (1 - mu) * h * kappa * z)
    (edge,) = solve(recursion.subs(z, -1), h)
    # the product of its roots is mu < 1 and z = 1 is no root, so the only way out of the unit circle is z = -1
    require_zero(recursion.coeff(z, 0) - mu, expand(recursion.subs(z, 1) - (1 - mu) * h * kappa))
    return Derivation.by(
        Step("The velocity of heavy ball", velocity, part="heavy ball"),
        Step("Without momentum", expand(velocity.subs(mu, 0)), part="descent"),
        Step(r"The recursion beside a fixed point, for $\boldsymbol{z} = 1 +$ growth a step", recursion),
        Step(r"It loses stability at $\boldsymbol{z} = -1$", factor(edge * kappa), part="ball bound"),
        Step("Without momentum", (edge * kappa).subs(mu, 0), part="bound"),
    )


@register(
    "V8-loss",
    "The loss that descent descends",
    kind="exact",
    section="beyond the paper",
    left=r"-\frac12\frac{\partial}{\partial\boldsymbol{B}}\left[\mathcal{L}+\frac{\eta}{4}\Bigl|\frac{\partial\mathcal{L}}"
    r"{\partial\boldsymbol{B}}\Bigr|^2\right]",
    typed=lambda: G + eta * M * G * Lambda,
    conditions=(
        (
            r"$\boldsymbol{G} = \boldsymbol{\Lambda}^{2} - \boldsymbol{M} \boldsymbol{B} \boldsymbol{\Lambda}$, the "
            r"force (53); the map $\boldsymbol{B}$ itself descends"
        ),
        r"To first order in $\eta$: (V8-modified) with $h = 2 \eta$",
    ),
)
def modified_loss() -> Derivation:
    """Differentiate the loss with the square of its gradient added."""
    loss = closed_loss().result
    slope = gradient(loss, B)
    whole = loss + eta / 4 * (slope.T * slope).trace()
    pulled = -gradient(whole, B) / 2
    # name the force: what is left once G + eta M G Lambda is taken away must vanish
    named = TracePolynomial(G + eta * M * G * Lambda)
    if substitute(named, {G: force()}) != pulled:
        raise ArithmeticError(f"{pulled} is not {named} in the force")
    return Derivation.by(
        Step("The loss and its gradient", slope, r"\partial\mathcal{L}/\partial\boldsymbol{B}"),
        Step("Minus half the gradient of the modified loss", pulled),
        Step("With the force named", named),
    )


def _delay(velocity: Expr, variable: Symbol, start: Symbol) -> Expr:
    """What a step adds to the time from ``start`` to ``variable``, to first order: h/2 log(f/f_0)."""
    modified = velocity - h / 2 * velocity * diff(velocity, variable)
    rate = series(1 / modified, h, 0, 2).removeO() - 1 / velocity  # the added time for each unit of the variable
    added = h / 2 * log(velocity / velocity.subs(variable, start))
    require_zero(cancel(diff(added, variable) - rate), simplify(added.subs(variable, start)))
    return added


@register(
    "V8-drop",
    "How much later steps make a drop",
    kind="approximation",
    section="beyond the paper",
    left={"separate": r"t_{1/2}^{\rm descent}-t_{1/2}", "merged": r"t_{1/2}^{\rm descent}-t_{1/2}"},
    typed=lambda: {
        "separate": h / 2 * log(_half**2 * lambda_**2 / 2 / (lambda_**2 * v_0**2 - lambda_ * a * v_0**5)),
        "merged": h / 2 * log(gamma / (2 * alpha) * gamma / 2 / (sqrt_half() * u_0 * (gamma - alpha * u_0**2))),
    },
    conditions=(
        STEP,
        (
            r"In units of $\tau$, from $v_{0}$ to half of B's final component (separate, the flow (26)) or of $s = "
            "u^{2}$ (merged, (44), white tokens)"
        ),
        r"Next order: $h^{2}$; with momentum $(1 + \mu)/(1 - \mu)$ times as much and $h$ mu/(1 - $\mu)$ more",
    ),
)
def later_drop() -> Derivation:
    """The added time is half a step times the logarithm of how much faster the weight grows at the end."""
    separate = lambda_**2 * v**2 - lambda_ * a * v**5
    merged = u * (gamma - alpha * u**2)
    added = _delay(separate, v, v_0)
    added_merged = _delay(merged, u, u_0)
    return Derivation.by(
        Step("A growing head of separate attention", separate, r"f(v)"),
        Step("The time that steps add", added),
        Step("At $v^{3} =$ lambda/(2a)", _simplified(added.subs(v, _half)), part="separate"),
        Step("Balanced merged attention, $u$ the norm of the values", merged, r"f(u)"),
        Step(r"At $u^{2} =$ gamma/(2 $\alpha)$", _simplified(added_merged.subs(u, sqrt_half())), part="merged"),
    )


_half = (lambda_ / (2 * a)) ** Rational(1, 3)


def sqrt_half() -> Any:
    return (gamma / (2 * alpha)) ** Rational(1, 2)


def _simplified(formula: Expr) -> Any:
    return formula.replace(lambda node: isinstance(node, log), lambda node: log(simplify(node.args[0])))


_e = vector("e", D)


@cache
def force_variance() -> Any:
    """The variance of e'(y_q beta x_q')e over sequences, for an eigenvector e of Lambda."""
    rules = {Lambda * _e: lambda_ * _e, _e.T * _e: S.One, Trace(Lambda): T}
    force_of_one = TracePolynomial(y_q * _e.T * beta * x_q.T * _e)
    second = rewrite(expect(force_of_one**2), rules) - rewrite(expect(force_of_one), rules) ** 2
    return factor(second.to_sympy())


@register(
    "V8-noise",
    "How mini-batches move and spread the time of a drop",
    kind="approximation",
    section="beyond the paper",
    left={
        "variance": r"\operatorname{Var}(\boldsymbol{e}^\top y_q\boldsymbol{\beta}\boldsymbol{x}_q^\top\boldsymbol{e})",
        "delay": r"\mathbb{E}\,t^{\rm SGD}(v)-t(v)",
        "spread": r"\operatorname{Var}\,t^{\rm SGD}(v)",
    },
    typed=lambda: {
        "variance": lambda_**2 * (lambda_ * (7 * lambda_ + T) + (12 * lambda_**2 + 3 * lambda_ * T + T**2 + 2 * Trace(Lambda**2)) / N),
        "delay": h * (1 + V / (batch * lambda_**4)) * log(v / v_0),
        "spread": h * t * V / (batch * lambda_**4),
    },
    conditions=(
        STEP,
        (
            r"$\boldsymbol{V}$ is the variance of one sequence's force along the eigendirection, $P$ sequences in a "
            "fresh mini-batch for each step"
        ),
        (
            r"A head that grows along that direction, $v = k = q$, before $a v^{3}$ nears "
            r"$\lambda$; noise in other directions is left out"
        ),
        (
            r"Next order: $h^{3/2}$ in the spread's standard deviation; batches of all sequences have "
            r"$\boldsymbol{V}/P = 0$, (V8-drop)"
        ),
    ),
)
def mini_batches() -> Derivation:
    """In 1/v a step is additive but for the second order, which noise enlarges."""
    force_, start = symbols("A v", positive=True)
    step = expand(series(1 / (start + h * force_ * start**2), h, 0, 3).removeO())
    mean = step.coeff(h, 2).coeff(force_, 2)
    average = 1 / start + h * step.coeff(h, 1).coeff(force_, 1) * lambda_**2 + h**2 * mean * (lambda_**4 + V / batch)
    # dv/dt = -v^2 d(1/v)/dt; the time that the second order adds for each unit of v
    velocity = expand(-(start**2) * (average - 1 / start) / h)
    added = series(1 / velocity, h, 0, 2).removeO().coeff(h, 1)
    delay = h * integrate(cancel(added).subs(start, v), (v, v_0, v))
    count, noise = t / h, h**2 * V / batch
    return Derivation.by(
        Step("The variance of one sequence's force along an eigenvector", force_variance(), part="variance"),
        Step(r"A step of $1/v$ with the force $A$ of its mini-batch, of mean $\lambda^{2}$", step, "1/v"),
        Step("Its mean", average),
        Step("The time added on the way from $v_{0}$ to $v$", delay, part="delay"),
        Step(r"The variance of $1/v$ after $t/h$ steps, at the speed $\lambda^{2}$", count * noise / lambda_**4, part="spread"),
    )
