r"""Separate attention on the aligned ansatz: equations (25), (26), (64)-(66), (71), (72), and how good the ansatz is.

.. math:: \tau\dot v = \lambda^2v^2 - \lambda a v^5, \qquad v_*^3 = \lambda/a

D is a symbol and the eigenvalues are whatever they are: an eigenvector e enters by its rules Lambda e = lambda e, M e = a e, e' e = 1, and
the directions already learned by the projector P onto them. With the learned heads at their fixed values the
effective map is M^-1 Lambda P + v^3 e e', where k = q = v e is the growing head and P e = 0.
"""

from functools import cache

from sympy import Expr, Rational, cancel, diff, log, solve, symbols

from ...algebra.polynomial import TracePolynomial
from ...calculus.rewriting import rewrite
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import (
    B,
    D,
    G,
    Lambda,
    M,
    N,
    P,
    T,
    a,
    clock,
    e,
    k_i,
    lambda_,
    lambda_after,
    lambda_next,
    q_i,
    v,
    v_i,
    v_star,
    vector,
    w_init,
)
from ..task.regression import force
from ..task.second_moments import second_moment_along
from .flow import flow_in_force, rank_one_head

__all__ = ["aligned_flow", "fixed_value", "force_on_later_ansatz", "time_to_order_one"]

EIGENVECTOR = {Lambda * e: lambda_ * e, M * e: a * e, e.T * e: 1, P * e: 0 * e}

NAMES = (
    r"$\lambda$ is the eigenvalue of the growing direction $\boldsymbol{e}$, $a$ that of $\mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)$, "
    r"equation (32), $T=\operatorname{tr}(\boldsymbol{\Lambda})$",
)
FORCE = r"\boldsymbol{\Lambda}^2-\mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)\sum_iv_i\boldsymbol{k}_i\boldsymbol{q}_i^\top\boldsymbol{\Lambda}"


def _force_with(learned) -> TracePolynomial:
    """The force (53) at the map ``learned`` of the heads at rest, and v^3 e e' of the growing one."""
    return rewrite(substitute(force(), {B: TracePolynomial(learned) + v**3 * e * e.T}), EIGENVECTOR)


def _flow_of_head(of_force) -> dict:
    """{weight: its rate} of the head k = q = v e, equation (19)."""
    head = {v_i: v, k_i: v * e, q_i: v * e, G: of_force}
    rates = flow_in_force(rank_one_head(), (v_i, k_i, q_i))
    return {weight: rewrite(substitute(rate, head), EIGENVECTOR) for weight, rate in rates.items()}


def _growth(of_force) -> Expr:
    return _flow_of_head(of_force)[v_i].to_sympy()


def _written_out(formula: Expr) -> Expr:
    return formula.subs(a, second_moment_along())


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
        r"$\boldsymbol{k}_1=\boldsymbol{q}_1=v_1\boldsymbol{e}_1$ and all other weights are zero: the set is kept, $\boldsymbol{k}_1$ and "
        r"$\boldsymbol{q}_1$ move as $v_1\boldsymbol{e}_1$ does",
        *NAMES,
    ),
    erratum="An exact invariant set, and an approximation of training from (36); see (25-direction)",
)
def first_ansatz() -> Derivation:
    """The flow (19) of the head in the force (65); a head at zero stays there, for (19) has two of its weights in each term."""
    of_force = force_on_first_ansatz().result
    rates = _flow_of_head(of_force)
    return Derivation.by(
        Step("The force on the ansatz, equation (65)", of_force, FORCE),
        Step("(19b) on it", rates[k_i], r"\tau\dot{\boldsymbol{k}}_1", "k"),
        Step("(19c) on it", rates[q_i], r"\tau\dot{\boldsymbol{q}}_1", "q"),
        Step("(19a) on it", rates[v_i], r"\tau\dot v_1", "v"),
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
        Step(r"At $\boldsymbol{B}=v^3\boldsymbol{e}\boldsymbol{e}^\top$", substitute(force(), {B: v**3 * e * e.T})),
        Step(
            r"$\boldsymbol{e}$ is an eigenvector of $\boldsymbol{\Lambda}$ and of $\boldsymbol{M}$",
            _force_with(0 * e * e.T),
            FORCE,
        ),
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
    """(19a) in the force (65)."""
    return _scalar_flow(force_on_first_ansatz().result)


@register(
    "25",
    "The ansatz of the later drops",
    kind="ansatz",
    section="Section 4.4",
    left={"cube": "v_i", "written out": "v_i", "rest": r"\tau\dot v_i"},
    typed=lambda: {
        "cube": (lambda_ / a) ** Rational(1, 3),
        "written out": lambda_ ** Rational(-1, 3) * (1 + (1 + T / lambda_) / N) ** Rational(-1, 3),
        "rest": 0 * lambda_,
    },
    conditions=(
        r"$\boldsymbol{k}_i=\boldsymbol{q}_i=v_i\boldsymbol{e}_i$ for $i\le m$ at these values, "
        r"$\boldsymbol{k}_{m+1}=\boldsymbol{q}_{m+1}=v_{m+1}(t)\boldsymbol{e}_{m+1}$, all other weights zero",
        "The signs of a head may be changed in pairs, see (25-signs)",
        *NAMES,
    ),
    erratum="An exact invariant set of (19), and an approximation of training from (36); see (25-direction)",
)
def fixed_value() -> Derivation:
    """Where (26) vanishes; put back, the learned heads rest."""
    flow = aligned_flow().result["short"]
    (cube,) = solve((flow / v**2).expand().subs(v**3, v_star), v_star)
    value = cube ** Rational(1, 3)
    return Derivation.by(
        Step("The flow (26) of an aligned head", flow, r"\tau\dot v_i"),
        Step("It rests where the cube is", cube, "v_i^3"),
        Step("The positive root", value, "v_i", "cube"),
        Step("With $a$ written out, equation (32)", cancel(_written_out(cube)) ** Rational(1, 3), "v_i", "written out"),
        Step("The flow there", cancel(flow.subs(v, value)), r"\tau\dot v_i", "rest"),
    )


@register(
    "71",
    "The force on the ansatz of the later drops",
    kind="exact",
    section="Appendix D.6",
    left=FORCE,
    typed=lambda: Lambda**2 - Lambda * P * Lambda - lambda_ * a * v**3 * e * e.T,
    conditions=(
        r"The set (25); $\boldsymbol{P}$ is the sum of $\boldsymbol{e}_d\boldsymbol{e}_d^\top$ over the learned directions, so that "
        r"$\boldsymbol{\Lambda}\boldsymbol{P}\boldsymbol{\Lambda}$ is that of $\lambda_d^2\boldsymbol{e}_d\boldsymbol{e}_d^\top$",
        *NAMES,
    ),
)
def force_on_later_ansatz() -> Derivation:
    """The force (53) at B = M^-1 Lambda P + v^3 e e'."""
    return Derivation.by(
        Step("The force on any effective map, equation (53)", force()),
        Step(
            r"At the map of (25), the sum of $(\lambda_d/a_d)\boldsymbol{e}_d\boldsymbol{e}_d^\top$ and "
            r"$v^3\boldsymbol{e}\boldsymbol{e}^\top$",
            _force_with(M.inverse() * Lambda * P),
            FORCE,
        ),
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
    erratum="Stronger: with heads aligned to different eigenvectors and any $v_d(0)$ all these equations hold at once",
)
def aligned_flow() -> Derivation:
    """(19) on the set (25), which the growing, the learned and the waiting heads keep."""
    of_force = force_on_later_ansatz().result
    rates = _flow_of_head(of_force)
    short = rates[v_i].to_sympy()
    u, of_u = vector("u", D), symbols("lambda_d", positive=True)  # a learned eigenvector
    on_learned = rewrite(of_force * u, {Lambda * u: of_u * u, P * u: u, e.T * u: 0})
    if on_learned.terms or any(rates[weight] != short * TracePolynomial(e) for weight in (k_i, q_i)):
        raise ArithmeticError(f"the set (25) is not kept: {rates}, {on_learned}")
    return Derivation.by(
        Step("The force on the set, equation (71)", of_force, FORCE),
        Step(
            r"A learned direction $\boldsymbol{u}$ feels none of it: the heads with $\boldsymbol{k}=\boldsymbol{q}=v\boldsymbol{u}$ rest; "
            "those that wait at zero stay there, for (19) has two of their weights in each term",
            on_learned,
            r"\boldsymbol{G}\boldsymbol{u}",
        ),
        Step("(19b) for the growing head, whose key and query stay along $\\boldsymbol{e}$", rates[k_i]),
        Step("(19a) for the growing head", short, r"\tau\dot v_{m+1}", "short"),
        Step("With $a$ written out, equation (32)", _written_out(short), r"\tau\dot v_{m+1}", "main"),
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
    """(19a) in the force (71)."""
    return _scalar_flow(force_on_later_ansatz().result)


def _scalar_flow(of_force) -> Derivation:
    growth = _growth(of_force)
    return Derivation.by(
        Step("The force on the ansatz", of_force, FORCE),
        Step(
            r"(19a) for $\boldsymbol{k}=\boldsymbol{q}=v\boldsymbol{e}$: "
            r"$\boldsymbol{e}^\top\boldsymbol{\Lambda}^2\boldsymbol{e}=\lambda^2$",
            growth,
        ),
        Step("With $a$ written out, equation (32)", _written_out(growth)),
    )


@register(
    "26-relaxation",
    "The end of a drop",
    kind="exact",
    section="beside (26)",
    left="r",
    typed=lambda: 3 * lambda_**2 * v_star,
    conditions=(r"$v$ approaches $v_*$ as $\exp(-rt/\tau)$; $v_*^3=\lambda/a$",),
)
def relaxation_rate() -> Derivation:
    """Minus the slope of (26) at its fixed point."""
    slope = -diff(aligned_flow().result["short"], v).subs(v, v_star)
    return Derivation.by(
        Step("Minus the slope of (26) at its fixed point", slope),
        Step(r"With $a=\lambda/v_*^3$", cancel(slope.subs(a, lambda_ / v_star**3))),
    )


@cache
def time_to_order_one(eigenvalue) -> Expr:
    """The s at which a component that grows as w_init exp(eigenvalue^2 s), equation (63), is of order one."""
    (reached,) = solve(log(w_init) + eigenvalue**2 * clock, clock)
    return reached


@register(
    "25-direction",
    "The direction error of the ansatz",
    kind="approximation",
    section="beside (25)",
    left=r"\tan\angle(\boldsymbol{k},\boldsymbol{e}_{m+1})",
    typed=lambda: w_init ** (1 - (lambda_after / lambda_next) ** 2),
    conditions=(
        r"Heads that start at the scale $w_{\rm init}$; up to a factor of order one, in the middle of the drop of direction $m+1$",
        r"$\lambda_{m+2}$ is the largest of the eigenvalues not yet learned but $\lambda_{m+1}$",
    ),
)
def direction_error() -> Derivation:
    """Both components grow as w_init exp(lambda^2 s), equation (63), until the first is of order one."""
    reached = time_to_order_one(lambda_next)
    exponent = cancel((log(w_init) + lambda_after**2 * reached) / log(w_init))
    return Derivation.by(
        Step(r"The first component is of order one when $w_{\rm init}\exp(\lambda_{m+1}^2s)=1$, by (63)", reached, "s"),
        Step(r"The logarithm of the second over that of $w_{\rm init}$ is then", exponent),
        Step("So the second is", w_init**exponent),
    )
