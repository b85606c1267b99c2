r"""Separate attention on the aligned ansatz: equations (25), (26), (64)-(66), (71), (72), and how good the ansatz is.

D is a symbol and the eigenvalues are whatever they are: an eigenvector e enters by its rules Lambda e = lambda e, M e = a e, e' e = 1, and
the directions already learned by the projector P onto them. With the learned heads at their fixed values the
effective map is M^-1 Lambda P + v^3 e e', where k = q = v e is the growing head and P e = 0.
"""

from functools import cache

from sympy import Rational, Symbol, cancel, log, solve, symbols

from ...algebra.polynomial import TracePolynomial, total
from ...calculus.rewriting import rewrite
from ...calculus.substitution import collect, substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import B, G, Lambda, M, N, P, T, a, e, lambda_, v, v_i, w_init
from ..task.regression import force
from .flow import flow_in_force, k, q, rank_one_head
from .reduction import aligned_flow, fixed_value, relaxation_rate, second_moment_eigenvalue

__all__ = ["EIGENVECTOR", "LEARNED", "aligned_force"]

c, d = symbols("c d", real=True)  # the signs of a head: each 1 or -1
EIGENVECTOR = {Lambda * e: lambda_ * e, M * e: a * e, e.T * e: 1}
LEARNED = {P * e: 0 * e}

NAMES = (
    "lambda is the eigenvalue of the growing direction e, a that of E(Lambda_hat^2), equation (32), T = tr(Lambda)",
)
FORCE = r"\boldsymbol{\Lambda}^2-\mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)\sum_iv_i\boldsymbol{k}_i\boldsymbol{q}_i^\top\boldsymbol{\Lambda}"


def aligned_force(learned) -> TracePolynomial:
    """G = Lambda^2 - M B Lambda with the learned part of the map and one aligned head v e e' v v."""
    return rewrite(substitute(force(), {B: TracePolynomial(learned) + v**3 * e * e.T}), EIGENVECTOR | LEARNED)


def _growth(of_force) -> TracePolynomial:
    """tau dv/dt of the head k = q = v e under (19a)."""
    return rewrite(v * e.T * of_force * (v * e), EIGENVECTOR | LEARNED)


@cache
def _from_nothing() -> TracePolynomial:
    return aligned_force(0 * e * e.T)


@cache
def _after_others() -> TracePolynomial:
    return aligned_force(M.inverse() * Lambda * P)


@register(
    "64",
    "The ansatz of the first drop",
    kind="ansatz",
    section="Appendix D.6",
    left={"k": r"\tau\dot{\boldsymbol{k}}_1", "q": r"\tau\dot{\boldsymbol{q}}_1", "v": r"\tau\dot v_1"},
    typed=lambda: {
        "k": (lambda_**2 * v**2 - lambda_ * a * v**5) * e,
        "q": (lambda_**2 * v**2 - lambda_ * a * v**5) * e,
        "v": lambda_**2 * v**2 - lambda_ * a * v**5,
    },
    conditions=(
        "k_1 = q_1 = v_1 e_1 and all other weights are zero: the set is kept, k_1 and q_1 move as v_1 e_1 does",
        *NAMES,
    ),
    erratum="An exact invariant set, and an approximation of training from (36); see (25-direction)",
)
def first_ansatz() -> Derivation:
    """The flow (19) of the head in the force (65); a head at zero stays there, for (19) has two of its weights in each term."""
    G = TracePolynomial(_from_nothing())
    return Derivation.by(
        Step("The force on the ansatz, equation (65)", G, FORCE),
        Step("(19b) on it", rewrite(v * G * (v * e), EIGENVECTOR), r"\tau\dot{\boldsymbol{k}}_1", "k"),
        Step("(19c) on it", rewrite(v * G.T * (v * e), EIGENVECTOR), r"\tau\dot{\boldsymbol{q}}_1", "q"),
        Step("(19a) on it", _growth(G), r"\tau\dot v_1", "v"),
    )


@register(
    "65",
    "The force on the ansatz of the first drop",
    kind="exact",
    section="Appendix D.6",
    left=FORCE,
    typed=lambda: Lambda**2 - lambda_ * a * v**3 * e * e.T,
    conditions=("The set (64)", *NAMES),
)
def force_on_first_ansatz() -> Derivation:
    """The force (53) at B = v^3 e e'."""
    return Derivation.by(
        Step("The force on any effective map, equation (53)", force()),
        Step("At B = v^3 e e'", substitute(force(), {B: v**3 * e * e.T})),
        Step("e is an eigenvector of Lambda and of M", _from_nothing(), FORCE),
    )


@register(
    "66",
    "The first drop",
    kind="exact",
    section="Appendix D.6",
    left=r"\tau\dot v_1",
    typed=lambda: lambda_**2 * v**2 - lambda_**3 * (1 + (1 + T / lambda_) / N) * v**5,
    conditions=("The set (64)", *NAMES),
)
def first_drop() -> Derivation:
    """v^2 e' G e with the force (65)."""
    return Derivation.by(*_scalar_flow(_from_nothing()))


@register(
    "25",
    "The ansatz of the later drops",
    kind="ansatz",
    section="Section 4.4",
    left={"cube": "v_i", "written out": "v_i", "rest": r"\tau\dot v_i"},
    typed=lambda: {
        "cube": (lambda_ / a) ** (Rational(1, 3)),
        "written out": lambda_ ** Rational(-1, 3) * (1 + (1 + T / lambda_) / N) ** Rational(-1, 3),
        "rest": 0 * lambda_,
    },
    conditions=(
        "k_i = q_i = v_i e_i for i <= m at these values, k_{m+1} = q_{m+1} = v_{m+1}(t) e_{m+1}, all other weights zero",
        "The signs of a head may be changed in pairs, see (25-signs)",
        *NAMES,
    ),
    erratum="An exact invariant set of (19), and an approximation of training from (36); see (25-direction)",
)
def later_ansatz() -> Derivation:
    """Where (26) vanishes; put back, the learned heads rest."""
    flow, cube, value = (step.expression for step in fixed_value().steps)
    moment = second_moment_eigenvalue().result
    return Derivation.by(
        Step("The flow (26) of an aligned head", flow),
        Step("It rests where v^3 is", cube, "v_i^3"),
        Step("The positive root", value, "v_i", "cube"),
        Step("With a written out, equation (32)", cancel(cube.subs(a, moment)) ** Rational(1, 3), "v_i", "written out"),
        Step("The flow there", cancel(flow.subs(v, value)), r"\tau\dot v_i", "rest"),
    )


@register(
    "25-signs",
    "The signs that a head may change",
    kind="exact",
    section="beside (25)",
    left={
        "map": r"v_i\boldsymbol{k}_i\boldsymbol{q}_i^\top",
        "v": r"\tau\dot v_i",
        "k": r"\tau\dot{\boldsymbol{k}}_i",
        "q": r"\tau\dot{\boldsymbol{q}}_i",
    },
    typed=lambda: {
        "map": v_i * k * q.T,
        "v": c * (k.T * G * q),
        "k": d * v_i * G * q,
        "q": c * d * v_i * G.T * k,
    },
    conditions=(
        "(v, k, q) becomes (c v, d k, c d q), c and d each 1 or -1: the velocities change sign with the weights",
    ),
)
def signs_of_a_head() -> Derivation:
    """Put into one head's part of the effective map and into (19)."""
    turned = {v_i: c * v_i, k: d * k, q: c * d * q}
    rates = flow_in_force(rank_one_head(), (v_i, k, q))
    steps = [Step("Put into what the head adds to the effective map", substitute(rank_one_head(), turned))]
    steps.append(Step("The squares of the signs are 1", _signs_squared(steps[0].expression), part="map"))
    for part, weight in (("v", v_i), ("k", k), ("q", q)):
        changed = substitute(rates[weight], turned)
        steps.append(Step("Put into the flow (19) under the force G, which depends on the map alone", changed))
        steps.append(Step("The squares of the signs are 1", _signs_squared(changed), part=part))
    return Derivation.by(*steps)


def _signs_squared(expression) -> TracePolynomial:
    """c^2 = d^2 = 1."""
    result = TracePolynomial(expression)
    for sign in (c, d):
        result = total(rest * sign ** (power % 2) for power, rest in collect(result, sign).items())
    return result


@register(
    "71",
    "The force on the ansatz of the later drops",
    kind="exact",
    section="Appendix D.6",
    left=FORCE,
    typed=lambda: Lambda**2 - Lambda * P * Lambda - lambda_ * a * v**3 * e * e.T,
    conditions=(
        "The set (25); P is the sum of e_d e_d' over the learned directions, so that Lambda P Lambda is that of lambda_d^2 e_d e_d'",
        *NAMES,
    ),
)
def force_on_later_ansatz() -> Derivation:
    """The force (53) at B = M^-1 Lambda P + v^3 e e'."""
    return Derivation.by(
        Step("The force on any effective map, equation (53)", force()),
        Step("At the map of (25), the sum of (lambda_d / a_d) e_d e_d' and v^3 e e'", _after_others(), FORCE),
    )


@register(
    "26",
    "The growth of one head, in the main text",
    kind="exact",
    section="Section 4.4",
    left={"main": r"\tau\dot v_{m+1}", "short": r"\tau\dot v_{m+1}"},
    typed=lambda: {
        "main": lambda_**2 * v**2 - lambda_**3 * (1 + (1 + T / lambda_) / N) * v**5,
        "short": lambda_**2 * v**2 - lambda_ * a * v**5,
    },
    conditions=("The set (25)", *NAMES),
    erratum="Stronger: with heads aligned to different eigenvectors and any v_d(0) all these equations hold at once",
)
def growth_of_one_head() -> Derivation:
    """(19a) on the set (25), of which the learned, the growing and an idle head are checked to keep it."""
    *steps, short = aligned_flow().steps
    whole = short.expression.subs(a, second_moment_eigenvalue().result)
    return Derivation.by(
        *steps,
        Step("Name the eigenvalue a of E(Lambda_hat^2)", short.expression, r"\tau\dot v_{m+1}", "short"),
        Step("Written out, equation (32)", whole, r"\tau\dot v_{m+1}", "main"),
    )


@register(
    "72",
    "The later drops",
    kind="exact",
    section="Appendix D.6",
    left=r"\tau\dot v_{m+1}",
    typed=lambda: lambda_**2 * v**2 - lambda_**3 * (1 + (1 + T / lambda_) / N) * v**5,
    conditions=("The set (25)", *NAMES),
)
def later_drop() -> Derivation:
    """v^2 e' G e with the force (71)."""
    return Derivation.by(*_scalar_flow(_after_others()))


def _scalar_flow(of_force) -> tuple[Step, ...]:
    named = _growth(of_force)
    return (
        Step("The force on the ansatz", of_force, FORCE),
        Step("(19a) for k = q = v e: e' Lambda^2 e = lambda^2", named),
        Step("With a written out, equation (32)", named.to_sympy().subs(a, second_moment_eigenvalue().result)),
    )


@register(
    "26-relaxation",
    "The end of a drop",
    kind="exact",
    section="beside (26)",
    left="r",
    typed=lambda: 3 * lambda_**2 * Symbol("v_*", positive=True),
    conditions=("v approaches v_* as exp(-r t / tau); v_*^3 = lambda / a",),
)
def end_of_a_drop() -> Derivation:
    """Minus the slope of (26) at its fixed point."""
    return relaxation_rate()


@register(
    "25-direction",
    "The direction error of the ansatz",
    kind="approximation",
    section="beside (25)",
    left=r"\tan\angle(\boldsymbol{k},\boldsymbol{e}_{m+1})",
    typed=lambda: w_init ** (1 - (_SECOND / _FIRST) ** 2),
    conditions=(
        "Heads that start at the scale w_init; up to a factor of order one, in the middle of the drop of direction m + 1",
        "lambda_{m+2} is the largest of the eigenvalues not yet learned but lambda_{m+1}",
    ),
)
def direction_error() -> Derivation:
    """Both components grow as w_init exp(lambda^2 s), equation (63), until the first is of order one."""
    clock = Symbol("s", positive=True)
    (reached,) = solve(log(w_init) + _FIRST**2 * clock, clock)
    exponent = cancel((log(w_init) + _SECOND**2 * reached) / log(w_init))
    return Derivation.by(
        Step("The first component is of order one when w_init exp(lambda_{m+1}^2 s) = 1, by (63)", reached, "s"),
        Step("The logarithm of the second over that of w_init is then", exponent),
        Step("So the second is", w_init**exponent),
    )


_FIRST, _SECOND = symbols("lambda_{m+1} lambda_{m+2}", positive=True)
