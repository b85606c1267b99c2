r"""Heads that wait: equations (61)-(63), (69), (70), and what the paper leaves unsaid of them (T5).

Before the first drop a head feels the force Lambda^2, on later plateaus Omega = Lambda^2 - Lambda P Lambda, where P projects onto the
directions already learned. In the time s, the integral of v dt / tau, its components follow in closed form for every v(t), and v follows by
conservation.
"""

from functools import cache

from sympy import Expr, Function, Matrix, Rational, ZeroMatrix, diff, exp, expand, integrate, oo, sqrt, symbols

from ...algebra.polynomial import TracePolynomial
from ...calculus.equality import require_zero
from ...calculus.rewriting import block_product, rewrite
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.draws import PROJECTOR
from ...derivations.heads import Rate
from ...derivations.lines import Line
from ...derivations.registry import register
from ...notation import B, D, G, Lambda, M, P, clock, e, k_i, lambda_, matrix, q_i, t, tau, v, v_0, v_i, w_init
from ..task.regression import force
from .aligned import force_on_later_ansatz
from .flow import RANK_ONE, SECOND_MOMENT, flow_in_force, loss_and_force, rank_one_head

__all__ = ["A_d", "B_d", "deflated_force", "k_0", "mode_solution", "q_0", "waiting_head"]

k_0, q_0 = symbols("k_0 q_0", real=True)  # e_d' k and e_d' q at s = 0
A_d, B_d = symbols("A_d B_d", real=True)  # (k_0 + q_0)/2 and (k_0 - q_0)/2

RATES = {"a": r"\tau\dot v_i", "b": r"\tau\dot{\boldsymbol{k}}_i", "c": r"\tau\dot{\boldsymbol{q}}_i"}
K_D, Q_D = r"\boldsymbol{e}_d^\top\boldsymbol{k}_i", r"\boldsymbol{e}_d^\top\boldsymbol{q}_i"
TIME = r"$s$ is the integral of $v_i\,dt/\tau$; $k_0$ and $q_0$ are the components at $s=0$"


@cache
def deflated_force() -> TracePolynomial:
    """Omega, the force (71) on the learned heads alone."""
    return substitute(force_on_later_ansatz(), {v: 0})


def _rates_in(of_force) -> tuple[Line, ...]:
    """tau dW/dt of one head in the force that G stands for, equation (19)."""
    rates = flow_in_force(rank_one_head(), RANK_ONE)
    return tuple(
        Line(Rate(weight, rates), "=", substitute(rates[weight], {G: of_force}), f"The velocity (19) of the {name}", part=part)
        for part, weight, name in zip("abc", RANK_ONE, ("value weight", "key", "query"), strict=True)
    )


@register(
    "61",
    "Waiting heads before the first drop",
    kind="approximation",
    section="Appendix D.5",
    typed=lambda: {"a": k_i.T * Lambda**2 * q_i, "b": v_i * Lambda**2 * q_i, "c": v_i * Lambda**2 * k_i},
    conditions=(r"Weights of order $w_{\rm init}$; what is left out is of order $w_{\rm init}^5$, for $\boldsymbol{B}$ is of third order",),
)
def first_waiting_heads() -> Derivation:
    """(19) where B is neglected beside Lambda^2 in the force."""
    first, map_ = substitute(force(), {B: ZeroMatrix(D, D)}), matrix("B_1", D)
    return Derivation.by(
        SECOND_MOMENT,
        *loss_and_force(),
        Line(G, "=", force(), "The force (53)"),
        Line(B, ":=", w_init**3 * map_, "The map is of third order in the weights"),
        Line(G, "~", first, "Without the map, the force is", parameter=(w_init, 0), order=3),
        Line(G, ":=", first, "This part is kept"),
        *_rates_in(first),
    )


def _coupled(block, upper, lower) -> tuple:
    """The two blocks of [0 block; block 0] [upper; lower]."""
    zero = ZeroMatrix(D, D)
    ((first,), (second,)) = block_product(((zero, block), (block, zero)), ((upper,), (lower,)))
    return first, second


@register(
    "62",
    "Keys and queries of a waiting head, coupled",
    kind="exact",
    section="Appendix D.5",
    left={
        "k": RATES["b"],
        "q": RATES["c"],
        "plus": r"[\boldsymbol{0}\ \boldsymbol{\Lambda}^2;\boldsymbol{\Lambda}^2\ \boldsymbol{0}][\boldsymbol{e}_d;\boldsymbol{e}_d]",
        "minus": r"[\boldsymbol{0}\ \boldsymbol{\Lambda}^2;\boldsymbol{\Lambda}^2\ \boldsymbol{0}][\boldsymbol{e}_d;-\boldsymbol{e}_d]",
    },
    typed=lambda: {
        "k": v_i * Lambda**2 * q_i,
        "q": v_i * Lambda**2 * k_i,
        "plus": (lambda_**2 * e, lambda_**2 * e),
        "minus": (-(lambda_**2) * e, lambda_**2 * e),
    },
    conditions=("The equations (61)", r"$\boldsymbol{e}$ is a unit eigenvector of $\boldsymbol{\Lambda}$ with eigenvalue $\lambda$"),
)
def coupled_keys_and_queries() -> Derivation:
    """v_i times the block matrix, on (k, q) and on its eigenvectors (e, e) and (e, -e)."""
    top, bottom = _coupled(v_i * Lambda**2, k_i, q_i)
    eigen = [tuple(rewrite(block, {Lambda * e: lambda_ * e}) for block in _coupled(Lambda**2, e, sign * e)) for sign in (1, -1)]
    return Derivation.by(
        Step("The first row of blocks", top, RATES["b"], "k"),
        Step("The second row of blocks", bottom, RATES["c"], "q"),
        Step(r"On $[\boldsymbol{e};\boldsymbol{e}]$, with eigenvalue $\lambda^2$", eigen[0], "", "plus"),
        Step(r"On $[\boldsymbol{e};-\boldsymbol{e}]$, with eigenvalue $-\lambda^2$", eigen[1], "", "minus"),
    )


def _components() -> dict:
    """The paper's solution along one eigenvector."""
    grows = Rational(1, 2) * (k_0 + q_0) * exp(lambda_**2 * clock)
    decays = Rational(1, 2) * (k_0 - q_0) * exp(-(lambda_**2) * clock)
    return {"k": grows + decays, "q": grows - decays}


@register(
    "63",
    "Keys and queries of a waiting head, solved",
    kind="exact",
    section="Appendix D.5",
    left={"k": K_D, "q": Q_D},
    typed=_components,
    conditions=(
        "The equations (62), for any $v_i(t)$",
        r"Component along each eigenvector $\boldsymbol{e}_d$, with eigenvalue $\lambda$",
        TIME,
    ),
    erratum="That a head grows if $v_i>0$ presumes that $v_i$ keeps its sign, which it need not; after a turning point it grows with "
    "the other sign, see (T5)",
)
def keys_and_queries_solved() -> Derivation:
    """The matrix exponential of (62) on one eigenvector; the matrices at different times commute."""
    generator, start = Matrix([[0, lambda_**2], [lambda_**2, 0]]), Matrix([k_0, q_0])
    solution = ((generator * clock).exp() * start).applyfunc(lambda entry: entry.rewrite(exp).expand())
    value, moving = Function("v")(t), Function("s")(t)
    along = solution.subs(clock, moving)
    residual = tau * diff(along, t).subs(diff(moving, t), value / tau) - value * generator * along
    require_zero(*residual, *(solution.subs(clock, 0) - start))
    rule = "Its exponential on the initial values; put back into the equation for any $v_i(t)$, the difference is zero"
    return Derivation.by(
        Step(r"The matrix on the components of $\boldsymbol{k}_i$ and $\boldsymbol{q}_i$ along $\boldsymbol{e}_d$, times $v_i$", generator),
        Step(rule, solution[0], K_D, "k"),
        Step("The same for the query", solution[1], Q_D, "q"),
    )


@register(
    "69",
    "Waiting heads on a later plateau",
    kind="approximation",
    section="Appendix D.6",
    typed=lambda: {
        "a": k_i.T * (Lambda**2 - Lambda * P * Lambda) * q_i,
        "b": v_i * (Lambda**2 - Lambda * P * Lambda) * q_i,
        "c": v_i * (Lambda**2 - Lambda * P * Lambda) * k_i,
    },
    conditions=(
        PROJECTOR,
        r"$\boldsymbol{\Lambda}^2-\boldsymbol{\Lambda}\boldsymbol{P}\boldsymbol{\Lambda}=\boldsymbol{\Omega}$, the sum of "
        r"$\lambda_d^2\boldsymbol{e}_d\boldsymbol{e}_d^\top$ over the directions $d>m$ not yet learned",
        r"The learned heads rest; what is left out is of order $w_{\rm init}^5$",
    ),
)
def later_waiting_heads() -> Derivation:
    """(19) in the force at the fixed point with the directions of P learned."""
    return Derivation.by(
        *loss_and_force(),
        Line(B, ":=", M.I * Lambda * P, "The map (21) of the learned heads"),
        Line(G, "=", deflated_force(), "The force before one more head grows"),
        *_rates_in(deflated_force()),
    )


@register(
    "70",
    "Waiting heads on a later plateau, solved",
    kind="exact",
    section="Appendix D.6",
    left={"k": K_D, "q": Q_D, "learned k": K_D, "learned q": Q_D},
    typed=lambda: {**_components(), "learned k": k_0, "learned q": q_0},
    conditions=(
        "The equations (69), for any $v_i(t)$",
        r"The first two for $d>m$, with eigenvalue $\lambda$; the learned ones for $d\le m$",
        TIME,
    ),
    erratum=r"As scanned, the third term is the sum over $d\le m$ of "
    r"$\boldsymbol{e}_d^\top(\boldsymbol{k}_i+\boldsymbol{q}_i)[\boldsymbol{e}_d;\boldsymbol{e}_d]$: it violates the initial condition "
    r"unless $\boldsymbol{e}_d^\top\boldsymbol{k}_i=\boldsymbol{e}_d^\top\boldsymbol{q}_i$. The learned components stay what they are, "
    r"$\boldsymbol{e}_d^\top\boldsymbol{k}_i$ and $\boldsymbol{e}_d^\top\boldsymbol{q}_i$ each",
)
def later_waiting_heads_solved() -> Derivation:
    """(63) where Omega acts as lambda^2, and no motion where it acts as zero."""
    eigenvector = {Lambda * e: lambda_ * e}
    solution = keys_and_queries_solved().result
    at_rest = {part: component.subs(lambda_, 0).expand() for part, component in solution.items()}
    return Derivation.by(
        Step(
            r"$\boldsymbol{\Omega}$ on a direction not yet learned, $\boldsymbol{P}\boldsymbol{e}=0$",
            rewrite(deflated_force() * e, {P * e: 0 * e} | eigenvector),
        ),
        Step("There it acts as $\\boldsymbol{\\Lambda}^2$, so that (63) solves it", solution["k"], K_D, "k"),
        Step("The same for the query", solution["q"], Q_D, "q"),
        Step(
            r"$\boldsymbol{\Omega}$ on a learned direction, $\boldsymbol{P}\boldsymbol{e}=\boldsymbol{e}$",
            rewrite(deflated_force() * e, {P * e: e} | eigenvector),
        ),
        Step(r"There the solution has 0 in place of $\lambda^2$", at_rest["k"], K_D, "learned k"),
        Step("The same for the query", at_rest["q"], Q_D, "learned q"),
    )


@cache
def mode_solution() -> tuple[Expr, Expr]:
    """The components (63) of key and query, in A_d = (k_0 + q_0)/2 and B_d = (k_0 - q_0)/2."""
    solution, start = keys_and_queries_solved().result, {k_0: A_d + B_d, q_0: A_d - B_d}
    return solution["k"].subs(start).expand(), solution["q"].subs(start).expand()


@register(
    "T5",
    "A waiting head, solved: its value weight and its escape time",
    kind="exact",
    section="beside (63)",
    left={"mode": r"v^2-v(0)^2", "curvature": r"\frac{d^2}{ds^2}v^2", "aligned": "t"},
    typed=lambda: {
        "mode": A_d**2 * (exp(2 * lambda_**2 * clock) - 1) + B_d**2 * (exp(-2 * lambda_**2 * clock) - 1),
        "curvature": 4 * lambda_**4 * (A_d**2 * exp(2 * lambda_**2 * clock) + B_d**2 * exp(-2 * lambda_**2 * clock)),
        "aligned": tau / (lambda_**2 * v_0),
    },
    conditions=(
        "The equations (62), or (69) with the sum over $d>m$; $A_d=(k_0+q_0)/2$, $B_d=(k_0-q_0)/2$; at rank $R$ the sum runs over $r$ too",
        r"The mode shown is one direction's part of $v^2(s)-v(0)^2$; the sum over $d$ gives $v(s)$, and $t$ is the integral of "
        r"$\tau\,ds/v(s)$",
        r"The escape time is its value at $s=\infty$; $v^2(s)$ is convex, so a head with $v(0)<0$ turns at most once, at negative $s$. It "
        r"need not turn: from $v(0)=-1$ with $\boldsymbol{k}=\boldsymbol{q}=(0.1,0.05)$ and $\lambda=(1,0.5)$ it tends to "
        r"$-(1-0.0125)^{1/2}$",
        r"Aligned: one mode with $\boldsymbol{k}=\boldsymbol{q}=v\boldsymbol{e}$, which has the time of (68)",
    ),
    erratum=r"The paper stops at (63). For Gaussian weights (36) the time (68) is only an order of magnitude, whatever $w_{\rm init}$",
)
def waiting_head() -> Derivation:
    """d(v^2)/ds = 2 sum lambda_d^2 k_d q_d, integrated; the escape time of one mode as a check."""
    key, query = mode_solution()
    rate = expand(2 * lambda_**2 * key * query)
    energy = integrate(rate, (clock, 0, clock)).expand().collect([A_d**2, B_d**2])
    require_zero(energy - (key**2 - key.subs(clock, 0) ** 2))  # v^2 - k' k is conserved (79)
    root = sqrt((v_0**2 + energy.subs({A_d: v_0, B_d: 0})).expand())
    return Derivation.by(
        Step(r"$d(v^2)/ds$ is the sum over $d$ of $2\lambda_d^2k_dq_d$, by (61); one term", rate),
        Step("Integrated from 0 to $s$; it is what the square of the component of the key gains", energy, "", "mode"),
        Step("Its second derivative, a sum of squares", diff(energy, clock, 2), "", "curvature"),
        Step(r"One mode with $\boldsymbol{k}=\boldsymbol{q}=v\boldsymbol{e}$ has $v(s)$", root, "v(s)"),
        Step(r"The integral of $\tau\,ds/v(s)$ from 0 to $\infty$", integrate(tau / root, (clock, 0, oo)), "t", "aligned"),
    )
