r"""Which direction comes next, and when a head turns (V2): the order of learning for any number of directions.

A head that has learned d turns where j pays more, after a logarithm of its size; the next head takes a time of order 1/w to escape. So
every head ends in the largest drop that is left to it.
"""

from functools import cache
from typing import Any

from sympy import Derivative, Determinant, Expr, Limit, Matrix, Trace, cancel, diag, exp, expand_log, eye, log, solve, sqrt, symbols, zeros

from ...calculus import explicit, substitute
from ...derivations import Gradient, Line, Lines, given, note, register, states
from ...notation import B, B_rest, G, M, clock, k_i, q_i, t, tau, v_i, w_init
from ..separate.flow import flow_in_force, rank_one_head
from .any_quadratic_loss import A_any, Q_any, any_force, any_loss, c_any, epsilon
from .fixed_points import v_positive as v
from .stability import F

A_d, A_j, M_d, M_j, Q_d, Q_j = symbols("A_d A_j M_d M_j Q_d Q_j", positive=True)
A_e, M_e, Q_e = symbols("A_e M_e Q_e", positive=True)  # a direction that another head holds
x_e, y_e, x, y, r = symbols("x_e y_e x y r", positive=True)
rho_i, rho_j = symbols("rho_i rho_j", positive=True)
lag_i, lag_j = symbols("ell_i ell_j", positive=True)
COMMON_BASIS = r"$\boldsymbol{A}$, $\boldsymbol{M}$ and $\boldsymbol{Q}$ are diagonal in one basis"
PLANE = {A_any: diag(A_d, A_j), M: diag(M_d, M_j), Q_any: diag(Q_d, Q_j), B_rest: zeros(2)}
SPACE = dict(zip(PLANE, (diag(A_d, A_e, A_j), diag(M_d, M_e, M_j), diag(Q_d, Q_e, Q_j), diag(0, A_e / (M_e * Q_e), 0)), strict=True))
HEAD = {k_i: Matrix([r, x_e, x]), q_i: Matrix([r, y_e, y])}
COMPONENTS = (x_e, y_e, x, y)
TURNING = {k_i: Matrix([r, x]), q_i: Matrix([r, y]), **PLANE}


@cache
def at_rest() -> Expr:
    """The component of k and q along d of a head that has learned d."""
    return solve(A_d - M_d * Q_d * v * r**2, r)[0]


def half_loss(values: dict, size: int) -> Expr:
    """Half the loss, less its constant, with one head beside what others hold, entry by entry."""
    return explicit(substitute((any_loss() - c_any) / 2, {B: B_rest + v * k_i * q_i.T}), values, D=size)


def velocities(values: dict, size: int) -> list[Any]:
    """tau dk/dt and tau dq/dt of that head."""
    rates = flow_in_force(rank_one_head(), (k_i, q_i)).values()
    in_force = (substitute(substitute(rate, {G: any_force()}), {B: B_rest + v_i * k_i * q_i.T}) for rate in rates)
    return [explicit(substitute(rate, {v_i: v}), values, D=size).expand() for rate in in_force]


def along_d(values: dict, size: int) -> Line:
    """The flow along the direction that the head has learned."""
    moves = sum(rate[0, 0] for rate in velocities(values, size))
    return Line(-Gradient(F, r), "=", moves, r"The velocities along $d$, of $\boldsymbol{k}$ and of $\boldsymbol{q}$ together")


@cache
def moving() -> list[Any]:
    """The velocities of the components along e and along j, of a head beside one that holds e."""
    rates = velocities({**HEAD, **SPACE}, 3)
    return [rates[0][1, 0], rates[1][1, 0], rates[0][2, 0], rates[1][2, 0]]


@cache
def around_a_rest() -> dict[str, Matrix]:
    """The flow of a head that has learned d, while another holds e: linear in its components along e and along j."""
    jacobian = Matrix([[one.diff(other) for other in COMPONENTS] for one in moving()])
    jacobian = jacobian.subs(dict.fromkeys(COMPONENTS, 0)).subs(r, at_rest()).applyfunc(cancel)
    return {"e": jacobian[:2, :2], "j": jacobian[2:, 2:], "mixed": Matrix([jacobian[:2, 2:], jacobian[2:, :2]])}


def at_zero(rows, columns) -> Matrix:
    """The derivatives of velocities with respect to components, where all components vanish, not carried out."""
    small = [scaled(one, COMPONENTS) / epsilon for one in moving()]
    return Matrix([[Limit(Derivative(small[i].expand(), COMPONENTS[j]), epsilon, 0) for j in columns] for i in rows])


def scaled(formula: Expr, letters: tuple) -> Expr:
    """The formula with small letters."""
    return formula.subs({one: epsilon * one for one in letters}, simultaneous=True)


def waiting_velocity() -> Expr:
    """tau dx/dt along j for a head with k_j = q_j = x and nothing learned."""
    return velocities({k_i: Matrix([r, x]), q_i: Matrix([r, x]), **PLANE}, 2)[0][1, 0]


def waiting_rate() -> Expr:
    """tau dx/dt over v x along j, for a head so small that the force is that at B = 0."""
    return cancel(waiting_velocity().coeff(v, 1) / x)  # what is left out has v^2 and the cube of the weights


@register("V2-rotation", "A head that has learned one direction turns to another that pays more")
@states("x", lambda: v * (A_j * y - A_d * M_j / M_d * x))
@states("y", lambda: v * (A_j * x - A_d * Q_j / Q_d * y))
@states("determinant", lambda: v**2 * M_j * Q_j * (A_d**2 / (M_d * Q_d) - A_j**2 / (M_j * Q_j)))
@states("trace", lambda: -v * A_d * (M_j / M_d + Q_j / Q_d))
@given(COMMON_BASIS)
def rotation() -> Lines:
    """The flow of one head, linear in its components along another direction."""
    velocity, system = [rate[1, 0] for rate in velocities(TURNING, 2)], around_a_rest()["j"]
    moving, determinant = (system * Matrix([x, y])).expand(), system.det().expand()
    small = [(scaled(one, (x, y)) / epsilon).expand() for one in velocity]
    yield Line(F, ":=", half_loss(TURNING, 2),
               "Half the loss of a head with value weight $v$ and components $r$ along $d$, $x$ and $y$ along $j$")  # fmt: skip
    yield along_d(TURNING, 2)
    yield Line(r, ":=", at_rest(), "At rest along $d$")
    yield Line(-Gradient(F, x), "=", velocity[0], r"The velocity of the component of $\boldsymbol{k}$ along $j$")
    yield Line(-Gradient(F, y), "=", velocity[1], r"and of $\boldsymbol{q}$")
    yield Line(small[0], "->", moving[0], r"For small components, of $\boldsymbol{k}$", part="x", parameter=(epsilon, 0), order=2)
    yield Line(small[1], "->", moving[1], r"and of $\boldsymbol{q}$", part="y", parameter=(epsilon, 0), order=2)
    yield Line(Determinant(system), "=", determinant, "The determinant of the two equations", part="determinant")
    yield Line(Line(A_j**2 / (M_j * Q_j), ">", A_d**2 / (M_d * Q_d)), "<=>", Line(determinant, "<", 0),
               "It is negative, one mode grows, exactly if $s_j > s_d$")  # fmt: skip
    yield Line(Trace(system), "=", system.trace(), "Their trace", part="trace")


@register(
    "V2-sequence",
    "The order of learning: the fastest to grow comes next, and its head turns until it has the largest drop that is left",
    kind="limit",
)
@states("lag", lambda: 1 - A_j / A_d)
@states("growing", lambda: v / 2 * (sqrt(A_d**2 * (M_j / M_d - Q_j / Q_d) ** 2 + 4 * A_j**2) - A_d * (M_j / M_d + Q_j / Q_d)))
@states("sign", lambda: v**2 * M_j * Q_j * (A_d**2 / (M_d * Q_d) - A_j**2 / (M_j * Q_j)))
@states("held", lambda: v**2 * M_e * Q_e * A_d**2 / (M_d * Q_d))
@states("apart", lambda: zeros(4, 2))
@states("rest", lambda: tau * lag_j / rho_j * log(1 / w_init))
@states("next", lambda: lag_i - lag_j * rho_i / rho_j)
@given(COMMON_BASIS, r"Heads of rank one, all weights start at the size $w_{\rm init}$, to leading order in it")
@note(r"$s$ is the integral of $v\,dt/\tau$")
def sequence() -> Lines:
    """A head that waits, then rests at one direction among others that are held or free."""
    J_e, J_j, mixed = around_a_rest().values()
    arrival = log(1 / w_init) / A_d
    grown = w_init * exp(waiting_rate() * clock)
    lag = cancel(expand_log(log(grown.subs(clock, arrival)), force=True) / log(w_init))
    rest = solve(lag_j * log(w_init) + rho_j * clock / tau, clock)[0]
    later = ((lag_i * log(w_init) + rho_i * rest / tau) / log(w_init)).expand()
    small = waiting_velocity().subs({one: w_init * one for one in (v, r, x)}, simultaneous=True)
    half_trace, discriminant = J_j.trace() / 2, J_j.trace() ** 2 / 4 - J_j.det()
    yield Line(F, ":=", half_loss(TURNING, 2), "Half the loss, less its constant, of a head that waits, in one plane")
    yield along_d(TURNING, 2)
    yield Line(-Gradient(F, x), "=", velocities(TURNING, 2)[0][1, 0], r"The velocity of its component along $j$")
    yield Line((small / (w_init**2 * v * x)).expand(), "->", waiting_rate(),
               r"Over $v x$, with $y = x$ and weights of size $w_{\rm init}$: exponential growth in $s$",
               parameter=(w_init, 0), order=3)  # fmt: skip
    yield Line(clock, ":=", arrival, "When the component along $d$ is of order one")
    yield Line(grown.subs(A_j, A_d), "=", 1, "For it has grown to")
    yield Line(log(grown) / log(w_init), "=", lag, "The exponent of the component along $j$ then", part="lag")
    yield Line(F, ":=", half_loss({**HEAD, **SPACE}, 3), "The same for a head along $d$ beside one that holds $e$")
    yield along_d({**HEAD, **SPACE}, 3)
    for one, velocity in zip(COMPONENTS, moving(), strict=True):
        yield Line(-Gradient(F, one), "=", velocity, f"The velocity of its component ${one}$")
    yield Line(r, ":=", at_rest(), "It rests")
    yield Line(at_zero((0, 1, 2, 3), (2, 3))[:2, :].col_join(at_zero((2, 3), (0, 1))), "=", mixed,
               "What each pair of components does to the other", part="apart")  # fmt: skip
    yield Line(at_zero((2, 3), (2, 3)), "=", J_j, "The flow of the components along $j$")
    yield Line(Determinant(J_j), "=", J_j.det().expand(), "Its determinant", part="sign")
    yield Line(at_zero((0, 1), (0, 1)), "=", J_e, "The flow of those along a direction that another head holds")
    yield Line(Determinant(J_e), "=", J_e.det().expand(), "Its determinant, positive", part="held")
    yield Line(J_e.trace(), "<", 0, "Its trace is negative: they decay")
    reason = r"With $\ln x_j = \ell_j\ln w_{\rm init} + \rho_jt/\tau$, another component when that along $j$ is of order one"
    yield Line(lag_i * log(w_init) + rho_i * rest / tau, "=", log(w_init) * later, reason)
    yield Line((lag_i * log(w_init) + rho_i * rest / tau) / log(w_init), "=", later, "Its exponent", part="next")
    yield Line(t, ":=", rest, "This time")
    yield Line(w_init**lag_j * exp(rho_j * t / tau), "=", 1, "The component along $j$ is of order one")
    yield Line(t, "=", expand_log(rest, force=True), "So the rest takes", part="rest")
    yield Line(rho_j, ":=", half_trace + sqrt(discriminant), "The larger root of the characteristic polynomial along $j$")
    yield Line(Determinant(J_j - rho_j * eye(2)), "=", 0, "It is a root")
    yield Line(rho_j, "=", half_trace + sqrt(discriminant.expand()), "The growing mode", part="growing")
    yield Line(Line(A_j**2 / (M_j * Q_j), ">", A_d**2 / (M_d * Q_d)), "<=>", Line(rho_j, ">", 0), "It grows exactly if $s_j > s_d$")
