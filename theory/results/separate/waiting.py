r"""Heads that wait: equations (61)-(63), (69), (70), and what the paper leaves unsaid of them (T5).

Before the first drop a head feels the force Lambda^2, on later plateaus Omega = Lambda^2 - Lambda P Lambda, where P projects onto the
directions already learned. In the time s, the integral of v dt / tau, its components follow in closed form for every v(t), and v follows by
conservation.
"""

from functools import cache

from sympy import Rational, ZeroMatrix, diff, exp

from ...algebra.polynomial import TracePolynomial
from ...calculus.rewriting import block_product, rewrite
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import B, D, G, Lambda, M, P, clock, e, lambda_, tau, v_0, v_i
from ..task.regression import force
from .flow import flow_in_force, k, q, rank_one_head
from .silent_heads import A_d, B_d, escape_time, k_0, mode_energy, mode_solution, q_0

__all__ = ["deflated_force"]

RATES = {"a": r"\tau\dot v_i", "b": r"\tau\dot{\boldsymbol{k}}_i", "c": r"\tau\dot{\boldsymbol{q}}_i"}
K_D, Q_D = r"\boldsymbol{e}_d^\top\boldsymbol{k}_i", r"\boldsymbol{e}_d^\top\boldsymbol{q}_i"
TIME = "s is the integral of v_i dt / tau; k_0 and q_0 are the components at s = 0"


@cache
def _flow_in_force() -> dict:
    """{part: tau dW/dt} of one head with the force G as a letter."""
    weights = dict(zip("abc", (v_i, k, q), strict=True))
    rates = flow_in_force(rank_one_head(), (v_i, k, q))
    return {part: TracePolynomial(rates[weight]) for part, weight in weights.items()}


def _rates_with(of_force, rule: str) -> list[Step]:
    return [Step(rule, substitute(rate, {G: of_force}), RATES[part], part) for part, rate in _flow_in_force().items()]


@register(
    "61",
    "Small heads before the first drop",
    kind="approximation",
    section="Appendix D.5",
    left=RATES,
    typed=lambda: {"a": k.T * Lambda**2 * q, "b": v_i * Lambda**2 * q, "c": v_i * Lambda**2 * k},
    conditions=("Weights of order w_init; what is left out is of order w_init^5, for B is of third order",),
)
def small_heads() -> Derivation:
    """(19) where B is neglected beside Lambda^2 in the force."""
    first = substitute(force(), {B: ZeroMatrix(D, D)})
    return Derivation.by(
        Step("The flow (19) of v_i in the force G", _flow_in_force()["a"], RATES["a"]),
        Step("The force (53)", force(), r"\boldsymbol{G}"),
        Step("Its part of third order in the weights, left out below", force() - first),
        *_rates_with(first, "What remains of (19)"),
    )


def _coupled(block, upper, lower) -> tuple:
    """The two blocks of [0 block; block 0] [upper; lower]."""
    zero = ZeroMatrix(D, D)
    ((first,), (second,)) = block_product(((zero, block), (block, zero)), ((upper,), (lower,)))
    return first, second


@register(
    "62",
    "Keys and queries of a small head, coupled",
    kind="exact",
    section="Appendix D.5",
    left={
        "k": RATES["b"],
        "q": RATES["c"],
        "plus": r"[\boldsymbol{0}\ \boldsymbol{\Lambda}^2;\boldsymbol{\Lambda}^2\ \boldsymbol{0}][\boldsymbol{e}_d;\boldsymbol{e}_d]",
        "minus": r"[\boldsymbol{0}\ \boldsymbol{\Lambda}^2;\boldsymbol{\Lambda}^2\ \boldsymbol{0}][\boldsymbol{e}_d;-\boldsymbol{e}_d]",
    },
    typed=lambda: {
        "k": v_i * Lambda**2 * q,
        "q": v_i * Lambda**2 * k,
        "plus": (lambda_**2 * e, lambda_**2 * e),
        "minus": (-(lambda_**2) * e, lambda_**2 * e),
    },
    conditions=("The equations (61)", "e is a unit eigenvector of Lambda with eigenvalue lambda"),
)
def coupled_keys_and_queries() -> Derivation:
    """v_i times the block matrix, on (k, q) and on its eigenvectors (e, e) and (e, -e)."""
    top, bottom = _coupled(v_i * Lambda**2, k, q)
    eigen = [
        tuple(rewrite(block, {Lambda * e: lambda_ * e}) for block in _coupled(Lambda**2, e, sign * e))
        for sign in (1, -1)
    ]
    return Derivation.by(
        Step("The first row of blocks", top, RATES["b"], "k"),
        Step("The second row of blocks", bottom, RATES["c"], "q"),
        Step("On [e; e], with eigenvalue lambda^2", eigen[0], "", "plus"),
        Step("On [e; -e], with eigenvalue -lambda^2", eigen[1], "", "minus"),
    )


@register(
    "63",
    "Keys and queries of a small head, solved",
    kind="exact",
    section="Appendix D.5",
    left={"k": K_D, "q": Q_D},
    typed=lambda: {
        "k": Rational(1, 2) * (k_0 + q_0) * exp(lambda_**2 * clock)
        + Rational(1, 2) * (k_0 - q_0) * exp(-(lambda_**2) * clock),
        "q": Rational(1, 2) * (k_0 + q_0) * exp(lambda_**2 * clock)
        - Rational(1, 2) * (k_0 - q_0) * exp(-(lambda_**2) * clock),
    },
    conditions=(
        "The equations (62), for any v_i(t)",
        "Component along each eigenvector e_d, with eigenvalue lambda",
        TIME,
    ),
    erratum="That a head grows if v_i > 0 presumes that v_i keeps its sign, which it need not; after a turning point it grows with "
    "the other sign, see (T5)",
)
def small_head_solved() -> Derivation:
    """The matrix exponential of (62) on one eigenvector; the matrices at different times commute."""
    return Derivation.by(*_mode_steps("k", "q"))


def _mode_steps(first: str, second: str) -> list[Step]:
    generator, solution = (step.expression for step in mode_solution().steps[:2])
    rule = "Its exponential on the initial values; put back into the equation, the difference is zero"
    return [
        Step("The matrix on the components of k_i and q_i along e_d, times v_i", generator),
        Step(rule, solution[0], K_D, first),
        Step("The same for the query", solution[1], Q_D, second),
    ]


@cache
def deflated_force() -> TracePolynomial:
    """Omega: the force at B = M^-1 Lambda P, where the directions of P are learned."""
    return substitute(force(), {B: M.inverse() * Lambda * P})


@register(
    "69",
    "Idle heads on a later plateau",
    kind="approximation",
    section="Appendix D.6",
    left=RATES,
    typed=lambda: {
        "a": k.T * (Lambda**2 - Lambda * P * Lambda) * q,
        "b": v_i * (Lambda**2 - Lambda * P * Lambda) * q,
        "c": v_i * (Lambda**2 - Lambda * P * Lambda) * k,
    },
    conditions=(
        "Lambda^2 - Lambda P Lambda = Omega, the sum of lambda_d^2 e_d e_d' over the directions d > m not yet learned",
        "The learned heads rest; what is left out is of order w_init^5",
    ),
)
def idle_heads() -> Derivation:
    """(19) in the force at the fixed point with the directions of P learned."""
    return Derivation.by(
        Step("The flow (19) of v_i in the force G", _flow_in_force()["a"], RATES["a"]),
        Step("The force (53)", force(), r"\boldsymbol{G}"),
        Step("At the map of the plateau, M^-1 Lambda P", deflated_force(), r"\boldsymbol{\Omega}"),
        *_rates_with(deflated_force(), "(19) in this force"),
    )


@register(
    "70",
    "Idle heads on a later plateau, solved",
    kind="exact",
    section="Appendix D.6",
    left={"k": K_D, "q": Q_D, "learned k": K_D, "learned q": Q_D},
    typed=lambda: {
        "k": Rational(1, 2) * (k_0 + q_0) * exp(lambda_**2 * clock)
        + Rational(1, 2) * (k_0 - q_0) * exp(-(lambda_**2) * clock),
        "q": Rational(1, 2) * (k_0 + q_0) * exp(lambda_**2 * clock)
        - Rational(1, 2) * (k_0 - q_0) * exp(-(lambda_**2) * clock),
        "learned k": k_0,
        "learned q": q_0,
    },
    conditions=(
        "The equations (69), for any v_i(t)",
        "The first two for d > m, with eigenvalue lambda; the learned ones for d <= m",
        TIME,
    ),
    erratum="As scanned, the third term is the sum over d <= m of e_d' (k_i + q_i) [e_d; e_d]: it violates the initial condition unless "
    "e_d' k_i = e_d' q_i. The learned components stay what they are, e_d' k_i and e_d' q_i each",
)
def idle_heads_solved() -> Derivation:
    """(63) where Omega acts as lambda^2, and no motion where it acts as zero."""
    eigenvector = {Lambda * e: lambda_ * e}
    solution = mode_solution().steps[1].expression
    at_rest = [component.subs(lambda_, 0) for component in solution]
    return Derivation.by(
        Step(
            "Omega on a direction not yet learned, P e = 0", rewrite(deflated_force() * e, {P * e: 0 * e} | eigenvector)
        ),
        *_mode_steps("k", "q"),
        Step("Omega on a learned direction, P e = e", rewrite(deflated_force() * e, {P * e: e} | eigenvector)),
        Step("There the solution has 0 in place of lambda^2", at_rest[0].expand(), K_D, "learned k"),
        Step("The same for the query", at_rest[1].expand(), Q_D, "learned q"),
    )


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
        "The equations (62), or (69) with the sum over d > m; A_d = (k_0 + q_0) / 2, B_d = (k_0 - q_0) / 2",
        "The mode shown is one direction's part of v^2(s) - v(0)^2; the sum over d gives v(s), and t is the integral of tau ds / v(s)",
        "The escape time is its value at s = infinity; v^2(s) is convex, so v(0) < 0 has one turning point, at negative s",
        "Aligned: one mode with k = q = v, where it is the time of (68)",
    ),
    erratum="The paper stops at (63). For Gaussian weights (36) the time (68) is only an order of magnitude, whatever w_init",
)
def waiting_head() -> Derivation:
    """d(v^2)/ds = 2 sum lambda_d^2 k_d q_d, integrated; the escape time of one mode as a check."""
    rate, energy = (step.expression for step in mode_energy().steps)
    _, _, root, time = (step.expression for step in escape_time().steps)
    return Derivation.by(
        Step("d(v^2)/ds is the sum over d of 2 lambda_d^2 k_d q_d, by (61); one term", rate),
        Step("Integrated from 0 to s", energy, "", "mode"),
        Step("Its second derivative, a sum of squares", diff(energy, clock, 2), "", "curvature"),
        Step("One mode with k = q = v has v(s)", root, "v(s)"),
        Step("The integral of tau ds / v(s) from 0 to infinity", time, "t", "aligned"),
    )
