r"""Heads that wait: the exact solution of a small head (61)-(63), (69)-(70), and the quadrature that gives its escape time.

While its weights are small, a head of separate attention sees the force :math:`G = \Omega`: :math:`\Lambda^2` before the first drop
and its part on the directions not yet learned afterwards (69). The heads are then independent of each other, up to terms of fifth
order in the weights. In the time :math:`s = \int v\,dt/\tau` each mode d of a head is a hyperbolic rotation, and v follows by the
conservation law (79): the paper stops at (63), before this last step.
"""

from functools import cache

from sympy import (
    Function,
    Matrix,
    Symbol,
    ZeroMatrix,
    diff,
    exp,
    expand,
    factor,
    integrate,
    log,
    oo,
    solve,
    sqrt,
    symbols,
)

from ...calculus.equality import require_zero
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation
from ...notation import B, D, clock, lambda_, t, tau, v_0, w_init
from .reduction import on_eigenvectors, second_moment_eigenvalue, separate_force

__all__ = [
    "A_d", "B_d", "deflated_force", "direction_error", "escape_time", "k_0", "mode_energy", "mode_solution", "q_0", "silent_force",
]  # fmt: skip

k_0, q_0 = symbols("k_0 q_0", real=True)  # e_d' k and e_d' q at s = 0
A_d, B_d = symbols("A_d B_d", real=True)  # (k_0 + q_0)/2 and (k_0 - q_0)/2


@cache
def silent_force() -> Derivation:
    r"""Equation (61): :math:`G = \Lambda^2` at B = 0, so that :math:`\tau\dot v = k^\top\Lambda^2q`, :math:`\tau\dot k = v\Lambda^2q`,
    :math:`\tau\dot q = v\Lambda^2k`, up to fifth order in the weights, for B is of third order."""
    force = separate_force().result
    return Derivation.by(("the force, equation (53)", force), ("at B = 0", substitute(force, {B: ZeroMatrix(D, D)})))


@cache
def deflated_force() -> Derivation:
    r"""Equations (56), (69): at the fixed point with the set S learned, :math:`G = \Omega = \sum_{d\notin S}\lambda_d^2e_de_d^\top`.

    The result is diag(0, lambda^2), on one learned and one other eigenvector.
    """
    learned = Symbol("lambda_d", positive=True)
    level = learned / second_moment_eigenvalue().result.subs(lambda_, learned)
    force = on_eigenvectors(separate_force().result, learned, lambda_, map_=Matrix([[level, 0], [0, 0]]))
    return Derivation.by(
        ("the force, equation (53)", separate_force().result),
        ("at B = (lambda_d/a_d) e_d e_d', equation (23)", force.applyfunc(factor)),
    )


@cache
def mode_solution() -> Derivation:
    r"""Equations (62), (63) in one eigendirection: with :math:`s = \int_0^t v\,dt'/\tau`,
    :math:`k_d \pm q_d = (k_d(0) \pm q_d(0))\,e^{\pm\lambda_d^2 s}`.

    The result is the column (k_d, q_d). Exact for any v(t), for the matrices of (62) at different times commute; a learned direction has
    :math:`\lambda_d^2` replaced by 0 and stays, which is the last term of (70).
    """
    generator = Matrix([[0, lambda_**2], [lambda_**2, 0]])
    start = Matrix([k_0, q_0])
    propagated = ((generator * clock).exp() * start).applyfunc(lambda entry: entry.rewrite(exp).expand())
    value, moving = Function("v")(t), Function("s")(t)
    along = propagated.subs(clock, moving)
    residual = tau * diff(along, t).subs(diff(moving, t), value / tau) - value * generator * along
    require_zero(*residual, *(propagated.subs(clock, 0) - start))
    modes = Matrix([factor(part) for part in (propagated[0] + propagated[1], propagated[0] - propagated[1])])
    return Derivation.by(
        ("the matrix of (62) on (k_d, q_d), times v", generator),
        ("its exponential on the initial value; it solves (62) for every v(t)", propagated),
        ("k_d + q_d and k_d - q_d", modes.expand().applyfunc(factor)),
        (
            "in terms of A_d = (k_0 + q_0)/2, B_d = (k_0 - q_0)/2",
            propagated.subs({k_0: A_d + B_d, q_0: A_d - B_d}).expand(),
        ),
    )


@cache
def mode_energy() -> Derivation:
    r"""What one mode adds to :math:`v^2` (T5): with :math:`A_d, B_d = \frac12 e_d^\top(k \pm q)(0)`,

    .. math:: v^2(s) = v(0)^2 + \sum_d\bigl[A_d^2(e^{2\lambda_d^2s} - 1) + B_d^2(e^{-2\lambda_d^2s} - 1)\bigr] .

    The result is the bracket, and equals :math:`k_d(s)^2 - k_d(0)^2`, by (79). For heads of rank R the sum runs over r as well.
    """
    k, q = mode_solution().result
    rate = expand(2 * lambda_**2 * k * q)  # d(v^2)/ds = 2 v dv/ds, and v dv/ds = tau dv/dt = sum_d lambda_d^2 k_d q_d
    energy = integrate(rate, (clock, 0, clock)).expand()
    require_zero(energy - (k**2 - k.subs(clock, 0) ** 2))
    grouped = energy.collect([A_d**2, B_d**2])
    return Derivation.by(
        ("d(v^2)/ds, from tau dv/dt = sum lambda_d^2 k_d q_d and ds = v dt/tau", rate),
        ("its integral from 0 to s", grouped),
    )


@cache
def escape_time() -> Derivation:
    r"""The escape time of a silent head (T5): :math:`t = \tau\int ds/v(s)`, along v > 0 to :math:`s = \infty`.

    With v(0) < 0 the path first runs to the turning point :math:`v(s_1) = 0` at negative s and then back; v^2(s) is convex, so there is one
    turning point at most. For a head that is one mode with k = q = v it is :math:`\tau/(\lambda^2 v_0)`, equation (68).
    """
    one_mode = v_0**2 + mode_energy().result.subs({A_d: v_0, B_d: 0})
    root = sqrt(one_mode.expand())
    aligned = integrate(tau / root, (clock, 0, oo))
    return Derivation.by(
        ("v^2(s), one term for each mode", v_0**2 + mode_energy().result),
        ("its second derivative is positive", factor(diff(mode_energy().result, clock, 2))),
        ("for one mode with k = q = v: v(s)", root),
        ("whose escape time is", aligned),
    )


@cache
def direction_error() -> Derivation:
    r"""How far the growing head is from its direction when it drops (beside (25)): the next mode is of the order of
    :math:`w_{\rm init}^{\,1 - (\lambda_{m+2}/\lambda_{m+1})^2}` then, relative to the growing one.

    Modes grow as :math:`w_{\rm init}\,e^{\lambda_d^2s}`, and the drop is where the growing one is of order one. The result is the exponent.
    """
    growing, following = symbols("lambda_{m+1} lambda_{m+2}", positive=True)
    reached = solve(log(w_init) + growing**2 * clock, clock)[0]
    amplitude = log(w_init) + following**2 * reached
    return Derivation.by(
        ("s at which the growing mode is of order one", reached),
        ("the logarithm of the next mode's amplitude then", amplitude),
        ("over ln(w_init)", (amplitude / log(w_init)).expand()),
    )
