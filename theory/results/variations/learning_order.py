r"""Which direction comes next, and when a head turns (V2): the order of learning for any number of directions.

A waiting head of size w has components :math:`w^{1 - A_j/A_d}` along j when it has learned d. Where j pays more than d it turns, after

.. math:: \frac{1 - A_j/A_d}{\rho_j}\,\tau\ln\frac1w, \qquad
    \rho_j = \frac v2\left(\sqrt{A_d^2\left(\frac{M_j}{M_d} - \frac{Q_j}{Q_d}\right)^2 + 4A_j^2}
    - A_d\left(\frac{M_j}{M_d} + \frac{Q_j}{Q_d}\right)\right),

a logarithm, while the next head takes a time of order 1/w to escape. So every head ends in the largest drop that is left to it.
"""

from functools import cache
from typing import Any

from sympy import (
    Derivative,
    Determinant,
    Expr,
    Limit,
    Matrix,
    cancel,
    diag,
    exp,
    expand,
    expand_log,
    eye,
    hessian,
    log,
    solve,
    sqrt,
    symbols,
    zeros,
)  # fmt: skip

from ...algebra.polynomial import TracePolynomial
from ...calculus.entrywise import explicit
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation
from ...derivations.heads import Gradient
from ...derivations.lines import Line
from ...derivations.registry import register
from ...notation import B, B_rest, G, M, clock, k_i, q_i, t, tau, v_i, w_init
from ..landscape.any_quadratic_loss import (
    POSITIVE,
    SINGULAR,
    WHITENED,
    A_any,
    A_d,
    A_j,
    A_w,
    B_w,
    M_d,
    M_j,
    M_root,
    Q_any,
    Q_d,
    Q_j,
    Q_root,
    any_force,
    any_loss,
    c_any,
    epsilon,
    r,
    r_i,
    r_j,
    s_i,
    s_j,
    u_i,
    u_j,
    v,
    x,
    y,
)  # fmt: skip
from ..landscape.fixed_points import b
from ..landscape.stability import F
from ..separate.flow import flow_in_force, rank_one_head

__all__: list[str] = []

A_e, M_e, Q_e = symbols("A_e M_e Q_e", positive=True)  # a direction that another head holds
x_e, y_e = symbols("x_e y_e", positive=True)
rho_i, rho_j = symbols("rho_i rho_j", positive=True)
lag_i, lag_j = symbols("ell_i ell_j", positive=True)
alpha, beta_ = symbols("alpha beta", real=True)
PLANE = {A_any: diag(A_d, A_j), M: diag(M_d, M_j), Q_any: diag(Q_d, Q_j), B_rest: zeros(2)}
SPACE = {
    A_any: diag(A_d, A_e, A_j), M: diag(M_d, M_e, M_j), Q_any: diag(Q_d, Q_e, Q_j), B_rest: diag(0, A_e / (M_e * Q_e), 0),
}  # fmt: skip
HEAD = {k_i: Matrix([r, x_e, x]), q_i: Matrix([r, y_e, y])}
COMPONENTS = (x_e, y_e, x, y)


def one_head() -> dict:
    """tau dW/dt for k and q of one head, in what it learns and what others hold."""
    rates = flow_in_force(rank_one_head(), (k_i, q_i))
    whole = {B: B_rest + v_i * k_i * q_i.T}
    return {weight: substitute(substitute(rate, {G: any_force()}), whole) for weight, rate in rates.items()}


def half_loss(values: dict, size: int) -> Expr:
    """Half the loss, less its constant, with one head beside what others hold, entry by entry."""
    return explicit(substitute((any_loss() - c_any) / 2, {B: B_rest + v * k_i * q_i.T}), values, D=size)


def velocities(values: dict, size: int) -> list[Matrix]:
    """tau dk/dt and tau dq/dt of that head."""
    return [explicit(substitute(rate, {v_i: v}), values, D=size).applyfunc(expand) for rate in one_head().values()]


@cache
def moving() -> list[Any]:
    """The velocities of the components along e and along j, of a head beside one that holds e."""
    rates = velocities({**HEAD, **SPACE}, 3)
    return [rates[0][1, 0], rates[1][1, 0], rates[0][2, 0], rates[1][2, 0]]


@cache
def at_rest() -> Expr:
    """The component of k and q along d of a head that has learned d."""
    return solve(A_d - M_d * Q_d * v * r**2, r)[0]


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


def growing(system: Matrix) -> Expr:
    """The larger root of rho^2 - tr rho + det."""
    half = system.trace() / 2
    return half + sqrt((half**2 - system.det()).expand())


def waiting_velocity() -> Expr:
    """tau dx/dt along j for a head with k_j = q_j = x and nothing learned."""
    return velocities({k_i: Matrix([r, x]), q_i: Matrix([r, x]), **PLANE}, 2)[0][1, 0]


def waiting_rate() -> Expr:
    """tau dx/dt over v x along j, for a head so small that the force is that at B = 0."""
    return cancel(waiting_velocity().coeff(v, 1) / x)  # what is left out has v^2 and the cube of the weights


@register(
    "V2-sequence",
    "The order of learning: the fastest to grow comes next, and its head turns until it has the largest drop that is left",
    kind="limit",
    typed=lambda: {
        "lag": 1 - A_j / A_d,
        "growing": v / 2 * (sqrt(A_d**2 * (M_j / M_d - Q_j / Q_d) ** 2 + 4 * A_j**2) - A_d * (M_j / M_d + Q_j / Q_d)),
        "sign": v**2 * M_j * Q_j * (A_d**2 / (M_d * Q_d) - A_j**2 / (M_j * Q_j)),
        "held": v**2 * M_e * Q_e * A_d**2 / (M_d * Q_d),
        "apart": zeros(4, 2),
        "rest": tau * lag_j / rho_j * log(1 / w_init),
        "next": lag_i - lag_j * rho_i / rho_j,
    },
    conditions=(
        r"$\boldsymbol{A}$, $\boldsymbol{M}$ and $\boldsymbol{Q}$ are diagonal in one basis, any $D$; heads of rank one; "
        r"initial weights of size $w_{\rm init}$, to leading order in $w_{\rm init}$",
        r"lag: of the component along $j$ when the head has learned $d$, the largest $A_d$ among what no head holds; $s$ is the integral "
        r"of $v\,dt/\tau$",
        r"At the rest the components along $j$ grow at the rate $\rho_j/\tau$, positive if and only if $s_{j}^{2} "
        r"> s_{d}^{2}$ (sign); along a direction $e$ that another head holds they decay (held); neither moves the other (apart)",
        r"rest: when $x_j = w_{\rm init}^{\ell_j}e^{\rho_jt/\tau}$ is of order one: the head turns to the $j$ with the least "
        r"$\ell_j/\rho_j$, others having come to (next), and so on; the loss falls, and in the plane of $d$ and $j$ only $j$ is left to "
        r"fall to",
        r"The next head escapes after a time of order $1/w_{\rm init}$ only: each head ends in the largest drop "
        r"that is left to it, and after $m$ heads the $m$ largest are learned",
        "Growths that are equal have no lag: the head goes to the largest drop among them at once",
    ),
)
def sequence() -> Derivation:
    """A head that waits, then rests at one direction among others that are held or free."""
    around = around_a_rest()
    J_e, J_j = around["e"], around["j"]
    arrival = log(1 / w_init) / A_d
    grown = w_init * exp(waiting_rate() * clock)
    lag = cancel(expand_log(log(grown.subs(clock, arrival)), force=True) / log(w_init))
    rest = solve(lag_j * log(w_init) + rho_j * clock / tau, clock)[0]
    later = expand((lag_i * log(w_init) + rho_i * rest / tau) / log(w_init))
    small = waiting_velocity().subs({one: w_init * one for one in (v, r, x)}, simultaneous=True)
    half_trace = J_j.trace() / 2
    return Derivation.by(
        Line(F, ":=", half_loss({k_i: Matrix([r, x]), q_i: Matrix([r, y]), **PLANE}, 2),
             "Half the loss, less its constant, of a head that waits, in one plane"),
        Line(-Gradient(F, x), "=", velocities({k_i: Matrix([r, x]), q_i: Matrix([r, y]), **PLANE}, 2)[0][1, 0],
             r"The velocity of its component along $j$"),
        Line((small / (w_init**2 * v * x)).expand(), "->", waiting_rate(),
             r"Over $v x$, with $y = x$ and weights of size $w_{\rm init}$: exponential growth in $s$", parameter=(w_init, 0), order=3),
        Line(clock, ":=", arrival, "When the component along $d$ is of order one"),
        Line(grown.subs(A_j, A_d), "=", 1, "For it has grown to"),
        Line(log(grown) / log(w_init), "=", lag, "The exponent of the component along $j$ then", part="lag"),
        Line(F, ":=", half_loss({**HEAD, **SPACE}, 3), "The same for a head along $d$ beside one that holds $e$"),
        *(Line(-Gradient(F, one), "=", velocity, f"The velocity of its component ${one}$")
          for one, velocity in zip(COMPONENTS, moving(), strict=True)),
        Line(r, ":=", at_rest(), "It rests"),
        Line(at_zero((0, 1, 2, 3), (2, 3))[:2, :].col_join(at_zero((2, 3), (0, 1))), "=", around["mixed"],
             "What each pair of components does to the other", part="apart"),
        Line(at_zero((2, 3), (2, 3)), "=", J_j, "The flow of the components along $j$"),
        Line(Determinant(J_j), "=", J_j.det().expand(), "Its determinant", part="sign"),
        Line(at_zero((0, 1), (0, 1)), "=", J_e, "The flow of those along a direction that another head holds"),
        Line(Determinant(J_e), "=", J_e.det().expand(), "Its determinant, positive", part="held"),
        Line(J_e.trace(), "<", 0, "Its trace is negative: they decay"),
        Line(lag_i * log(w_init) + rho_i * rest / tau, "=", log(w_init) * later,
             r"With $\ln x_j = \ell_j\ln w_{\rm init} + \rho_jt/\tau$, another component when that along $j$ is of order one"),
        Line((lag_i * log(w_init) + rho_i * rest / tau) / log(w_init), "=", later, "Its exponent", part="next"),
        Line(t, ":=", rest, "This time"),
        Line(w_init**lag_j * exp(rho_j * t / tau), "=", 1, "The component along $j$ is of order one"),
        Line(t, "=", expand_log(rest, force=True), "So the rest takes", part="rest"),
        Line(rho_j, ":=", half_trace + sqrt(half_trace**2 - J_j.det()), "The larger root of the characteristic polynomial along $j$"),
        Line(Determinant(J_j - rho_j * eye(2)), "=", 0, "It is a root"),
        Line(rho_j, "=", growing(J_j), "The growing mode", part="growing"),
        Line(Line(A_j**2 / (M_j * Q_j), ">", A_d**2 / (M_d * Q_d)), "<=>", Line(rho_j, ">", 0), "It grows exactly if $s_j > s_d$"),
    )  # fmt: skip


def turned_loss() -> Expr:
    """The loss of a head with k along k_d + alpha k_j and q along q_d + beta q_j, in the modes of any task."""
    map_ = Matrix([[b, b * beta_], [b * alpha, b * alpha * beta_]])
    return explicit(substitute(any_loss(), WHITENED), {A_w: diag(s_i, s_j), B_w: map_}, D=2).expand()


@register(
    "V2-oblique",
    "When nothing commutes: only the largest drop is a stable rest of a head, and no direction need grow alone",
    typed=lambda: {
        "loss": c_any - 2 * b * (s_i + s_j * alpha * beta_) + b**2 * (1 + alpha**2) * (1 + beta_**2),
        "second": 4 * s_i**2 * (s_i**2 - s_j**2),
        "keys": TracePolynomial(M_root**2) * M_root.I * A_w * r_i,
        "queries": TracePolynomial(Q_root**2) * Q_root.I * A_w.T * u_i,
    },
    conditions=(
        POSITIVE,
        SINGULAR,
        r"$\boldsymbol{k}$ is along $\boldsymbol{k}_i + \alpha \boldsymbol{k}_j$ and $\boldsymbol{q}$ along $\boldsymbol{q}_i + \beta "
        r"\boldsymbol{q}_j$, with the modes of (V2-fixed), $\boldsymbol{k}_i = \boldsymbol{M}^{-1/2}\boldsymbol{u}_i$ and "
        r"$\boldsymbol{q}_i = \boldsymbol{Q}^{-1/2}\boldsymbol{r}_i$; $b$ is what is learned",
        r"second: at the rest $b = s_{i}$; negative, and the rest unstable, if and only if $s_{j} > s_{i}$, in any metric",
        r"keys: $\boldsymbol{A}\boldsymbol{q}_i = s_i\boldsymbol{M}\boldsymbol{k}_i$: a waiting head grows along "
        r"($\boldsymbol{k}_{i}, \boldsymbol{q}_{i}$) alone if and only if $\boldsymbol{k}_{i}$ is an eigenvector of $\boldsymbol{M}$ "
        r"and $\boldsymbol{q}_{i}$ of $\boldsymbol{Q}$, with the largest growth",
        r"It grows along the leading singular vectors $\boldsymbol{f}$ and $\boldsymbol{g}$ of $\boldsymbol{A}$; its components along the "
        r"modes are $\boldsymbol{u}_j^\top\boldsymbol{M}^{1/2}\boldsymbol{f}$, $\boldsymbol{r}_j^\top\boldsymbol{Q}^{1/2}\boldsymbol{g}$. "
        r"Where these are not zero they are of order one when it drops: there is no lag (V2-sequence), and the head turns while it drops, "
        r"to the largest drop among such modes, without a rest; if those drops are close, it turns slowly and lingers between their losses",
        r"Where they are zero, as between blocks that each of $\boldsymbol{A}$, $\boldsymbol{M}$ and $\boldsymbol{Q}$ leaves invariant, "
        r"they lag, and the head rests before it turns to a larger drop in another block",
        r"Covariances that commute up to an angle $\theta$ leave components of order $\theta$: a rest of $\tau\ln(1/\theta)/\rho_j$",
    ),
)
def oblique() -> Derivation:
    """The loss in the plane of two modes, and what A makes of them."""
    loss = turned_loss()
    corner = hessian(loss, (alpha, beta_)).subs({alpha: 0, beta_: 0, b: s_i})
    small = (scaled(loss, (alpha, beta_)) / epsilon**2).expand()
    derivatives = Matrix(2, 2, lambda i, j: Limit(Derivative(small, (alpha, beta_)[i], (alpha, beta_)[j]), epsilon, 0))
    A = substitute(A_any, WHITENED)
    determinant = corner.det().expand()
    return Derivation.by(
        *(Line(letter, ":=", value, "In whitened letters") for letter, value in WHITENED.items()),
        Line(A_any * Q_root.I * r_i, "=", A * Q_root.I * r_i, r"What $\boldsymbol{A}$ makes of a query", part="keys"),
        Line(A_any * Q_root.I * r_i, "=", s_i * M * M_root.I * u_i, "By the singular vectors"),
        Line(A_any.T * M_root.I * u_i, "=", A.T * M_root.I * u_i, "What it makes of a key", part="queries"),
        Line(A_any.T * M_root.I * u_i, "=", s_i * Q_any * Q_root.I * r_i, "By the singular vectors"),
        Line(B_w, ":=", b * (u_i + alpha * u_j) * (r_i + beta_ * r_j).T, "A head in the plane of two modes"),
        Line(any_loss(), "=", loss, "The loss in this plane", part="loss"),
        Line(b, ":=", s_i, "The rest"),
        Line(derivatives, "=", corner, "Its second derivatives there"),
        Line(Determinant(corner), "=", determinant, "Their determinant", part="second"),
        Line(Line(s_j, ">", s_i), "<=>", Line(determinant, "<", 0), "The rest is a saddle exactly if another mode has the larger drop"),
    )  # fmt: skip
