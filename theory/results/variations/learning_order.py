r"""Which direction comes next, and when a head turns (V2): the order of learning for any number of directions.

A waiting head of size w has components :math:`w^{1 - A_j/A_d}` along j when it has learned d. Where j pays more than d it turns, after

.. math:: \frac{1 - A_j/A_d}{\rho_j}\,\tau\ln\frac1w, \qquad
    \rho_j = \frac v2\left(\sqrt{A_d^2\left(\frac{M_j}{M_d} - \frac{Q_j}{Q_d}\right)^2 + 4A_j^2}
    - A_d\left(\frac{M_j}{M_d} + \frac{Q_j}{Q_d}\right)\right),

a logarithm, while the next head takes a time of order 1/w to escape. So every head ends in the largest drop that is left to it.
"""

from functools import cache

from sympy import Expr, Matrix, Symbol, cancel, diag, exp, expand, expand_log, hessian, log, solve, sqrt, symbols, zeros

from ...algebra.polynomial import TracePolynomial
from ...calculus.entrywise import explicit
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import B, B_rest, D, G, M, k_i, q_i, tau, v_i, vector
from ..landscape.any_quadratic_loss import (
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
    r,
    s_i,
    s_j,
    v,
    x,
    y,
)
from ..separate.flow import flow_in_force, rank_one_head

__all__: list[str] = []

A_e, M_e, Q_e = symbols("A_e M_e Q_e", positive=True)  # a direction that another head holds
x_e, y_e = symbols("x_e y_e", positive=True)
w_init = Symbol("w", positive=True)  # the size of the initial weights
rho_i, rho_j = symbols("rho_i rho_j", positive=True)
lag_i, lag_j = symbols("ell_i ell_j", positive=True)
s, t = symbols("s t", positive=True)
alpha, beta_ = symbols("alpha beta", real=True)
b = Symbol("b", positive=True)
u_d, v_d = vector("u_d", D), vector("v_d", D)


def one_head() -> dict:
    """tau dW/dt for k and q of one head, in what it learns and what others hold."""
    rates = flow_in_force(rank_one_head(), (k_i, q_i))
    whole = {B: B_rest + v_i * k_i * q_i.T}
    return {weight: substitute(substitute(rate, {G: any_force()}), whole) for weight, rate in rates.items()}


@cache
def around_a_rest() -> dict[str, Matrix]:
    """The flow of a head that has learned d, while another holds e: linear in its components along e and along j."""
    values = {
        k_i: Matrix([r, x_e, x]), q_i: Matrix([r, y_e, y]), B_rest: diag(0, A_e / (M_e * Q_e), 0),
        A_any: diag(A_d, A_e, A_j), M: diag(M_d, M_e, M_j), Q_any: diag(Q_d, Q_e, Q_j),
    }  # fmt: skip
    components = [x_e, y_e, x, y]
    at_rest = solve(A_d - M_d * Q_d * v * r**2, r)[0]
    rates = [explicit(substitute(rate, {v_i: v}), values, D=3) for rate in one_head().values()]
    moving = [rates[0][1, 0], rates[1][1, 0], rates[0][2, 0], rates[1][2, 0]]
    jacobian = Matrix([[one.expand().diff(other) for other in components] for one in moving])
    jacobian = jacobian.subs(dict.fromkeys(components, 0)).subs(r, at_rest).applyfunc(cancel)
    return {"e": jacobian[:2, :2], "j": jacobian[2:, 2:], "mixed": Matrix([jacobian[:2, 2:], jacobian[2:, :2]])}


def growing(system: Matrix) -> Expr:
    """The larger root of rho^2 - tr rho + det."""
    half = system.trace() / 2
    return half + sqrt((half**2 - system.det()).expand())


def waiting_rate() -> Expr:
    """tau dx/dt over v x along j, for a head so small that the force is that at B = 0, with k_j = q_j = x."""
    values = {
        k_i: Matrix([r, x]),
        q_i: Matrix([r, x]),
        B_rest: zeros(2),
        A_any: diag(A_d, A_j),
        M: diag(M_d, M_j),
        Q_any: diag(Q_d, Q_j),
    }
    along = explicit(substitute(one_head()[k_i], {v_i: v}), values, D=2)[1, 0].expand()
    return cancel(along.coeff(v, 1) / x)  # what is left out has v^2 and the cube of the weights


@register(
    "V2-sequence",
    "The order of learning: the fastest to grow comes next, and its head turns until it has the largest drop that is left",
    kind="limit",
    section="beyond the paper",
    left={
        "lag": r"\lim_{w\to0}\,\ln x_j/\ln w",
        "growing": r"\rho_j",
        "sign": r"\det_j",
        "held": r"\det_e",
        "apart": "0",
        "rest": "t",
        "next": r"\ell_i(t)",
    },
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
        (
            r"$A$, $\boldsymbol{M}$ and $\boldsymbol{Q}$ are diagonal in one basis, any $D$; heads of rank one; "
            r"initial weights of size $\boldsymbol{w}$, to leading order in $\boldsymbol{w}$"
        ),
        "lag: of the component along $j$ when the head has learned $d$, the largest A among what no head holds",
        (
            r"At the rest the components along $j$ grow at the rate $\rho_j/\tau$, positive if and only if $s_{j}^{2} "
            r"> s_{d}^{2}$ (sign); along a direction $\boldsymbol{e}$ that another head holds they decay (held); "
            "neither moves the other (apart)"
        ),
        (
            r"rest: when $x_j = w^{\ell_j}e^{\rho_jt/\tau}$ is of order one: the head turns to the $j$ with the least "
            r"$\ell_j/\rho_j$, others having come to (next), and so on; the loss falls, and in the plane of $d$ and "
            "$j$ only $j$ is left to fall to"
        ),
        (
            r"The next head escapes after a time of order $1/\boldsymbol{w}$ only: each head ends in the largest drop "
            "that is left to it, and after $m$ heads the $m$ largest are learned"
        ),
        "Growths that are equal have no lag: the head goes to the largest drop among them at once",
    ),
)
def sequence() -> Derivation:
    """A head that waits, then rests at one direction among others that are held or free."""
    around = around_a_rest()
    grown = w_init * exp(waiting_rate() * s)  # s = int v dt/tau
    learned = solve(log(grown.subs(A_j, A_d)).expand(force=True), s)[0]  # when the component along d is of order one
    lag = cancel(expand_log(log(grown.subs(s, learned)), force=True) / log(w_init))
    rest = solve(lag_j * log(w_init) + rho_j * t / tau, t)[0]
    later = expand((lag_i * log(w_init) + rho_i * rest / tau) / log(w_init))
    return Derivation.by(
        Step("The rate of a small component along $j$, over $v$", waiting_rate()),
        Step("Its exponent when the component along $d$ is of order one", lag, part="lag"),
        Step("At the rest, the components along $j$", around["j"]),
        Step("Their growing mode", growing(around["j"]), part="growing"),
        Step("The determinant: negative for a growing mode", around["j"].det().expand(), part="sign"),
        Step("The determinant along a direction that another head holds", around["e"].det().expand(), part="held"),
        Step("What each pair of components does to the other", around["mixed"], part="apart"),
        Step("When the component along $j$ is of order one", expand_log(rest, force=True), part="rest"),
        Step("The exponent of another component then", later, part="next"),
    )


def turned_loss() -> Expr:
    """The loss of a head with k along k_d + alpha k_j and q along q_d + beta q_j, in the modes of any task."""
    map_ = Matrix([[b, b * beta_], [b * alpha, b * alpha * beta_]])
    return explicit(substitute(any_loss(), WHITENED), {A_w: diag(s_i, s_j), B_w: map_}, D=2).expand()


@register(
    "V2-oblique",
    "When nothing commutes: only the largest drop is a stable rest of a head, and no direction grows alone",
    kind="exact",
    section="beyond the paper",
    left={
        "loss": r"\mathcal{L}",
        "second": r"\det\nabla^2_{\alpha\beta}\mathcal{L}",
        "keys": r"\boldsymbol{A}\boldsymbol{Q}^{-1/2}\boldsymbol{v}_d",
        "queries": r"\boldsymbol{A}^\top\boldsymbol{M}^{-1/2}\boldsymbol{u}_d",
    },
    typed=lambda: {
        "loss": c_any - 2 * b * (s_i + s_j * alpha * beta_) + b**2 * (1 + alpha**2) * (1 + beta_**2),
        "second": 4 * s_i**2 * (s_i**2 - s_j**2),
        "keys": TracePolynomial(M_root**2) * M_root.I * A_w * v_d,
        "queries": TracePolynomial(Q_root**2) * Q_root.I * A_w.T * u_d,
    },
    conditions=(
        (
            r"Positive definite $\boldsymbol{M}$ and $\boldsymbol{Q}$, any $A$; $\boldsymbol{k}$ along $k_d + \alpha "
            r"k_j$ and $\boldsymbol{q}$ along $q_d + \beta q_j$, with the modes of (V2-fixed), $k_d = "
            r"\boldsymbol{M}^{-1/2}\boldsymbol{u}_d$ and $q_d = \boldsymbol{Q}^{-1/2}\boldsymbol{v}_d$; $b$ is what "
            "is learned"
        ),
        (
            "second: at the rest $b = s_{d}$ with $s_{i} = s_{d}$; negative, and the rest unstable, if and only if "
            "$s_{j}^{2} > s_{d}^{2}$, in any metric"
        ),
        (
            r"keys: $\tilde{\boldsymbol{A}}\boldsymbol{v}_d = s_d\boldsymbol{u}_d$, so $\boldsymbol{A}q_d = "
            r"s_d\boldsymbol{M}k_d$: a waiting head grows along ($k_{d}, q_{d}$) alone if and only if $k_{d}$ is an "
            r"eigenvector of $\boldsymbol{M}$ and $q_{d}$ of $\boldsymbol{Q}$"
        ),
        "If not, its components along the others are of order one when it drops: it has no lag (V2-sequence), turns while it drops, and "
        "learns the largest drop that is left, without a rest",
        r"Covariances that commute up to an angle $\theta$ leave components of order $\theta$: a rest of $\tau\ln(1/\theta)/\rho_j$",
    ),
)
def oblique() -> Derivation:
    """The loss in the plane of two modes, and what A makes of them."""
    loss = turned_loss()
    corner = hessian(loss, (alpha, beta_)).subs({alpha: 0, beta_: 0, b: s_i})
    along = substitute(A_any, WHITENED)
    return Derivation.by(
        Step("The loss in the plane of two modes", loss, part="loss"),
        Step("Its second derivatives at the rest", corner),
        Step("Their determinant", corner.det().expand(), part="second"),
        Step("What A makes of a query", along * Q_root.I * v_d, part="keys"),
        Step("What it makes of a key", along.T * M_root.I * u_d, part="queries"),
    )
