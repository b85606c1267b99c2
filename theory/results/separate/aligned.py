r"""Separate attention on the aligned ansatz: equations (25), (26), (64)-(66), (71), (72), and how good the ansatz is.

.. math:: \tau\dot v = \lambda^2v^2 - \lambda a v^5, \qquad v_*^3 = \lambda/a

D is a symbol and the eigenvalues are whatever they are: an eigenvector e enters by its rules Lambda e = lambda e, M e = a e, e' e = 1, and
the directions already learned by the projector P onto them. With the learned heads at their fixed values the
effective map is M^-1 Lambda P + v^3 e e', where k = q = v e is the growing head and P e = 0.
"""

from functools import cache

from sympy import Expr, Rational, Symbol, cancel, diff, exp, log, solve

from ...algebra.polynomial import TracePolynomial
from ...calculus import rewrite, substitute
from ...derivations import Condition, Line, Lines, Rate, erratum, given, note, register, states, value_at
from ...derivations.draws import ALONG, EIGEN, PROJECTS, along_one_eigenvector, one_direction, satisfying, second_moment
from ...derivations.points import ball_at
from ...notation import B, G, Lambda, M, N, P, T, a, clock, e, k_i, lambda_, lambda_after, lambda_next, q_i, v, v_i, v_star, w_init
from ...typesetting.latex import formula_latex
from ..task.population import ALONG as COMMON, PAPER, Task
from ..task.regression import force, loss_and_force
from .flow import RANK_ONE, flow_in_force, rank_one_head


def _not_learned(point, moments=second_moment) -> None:
    """As one_direction, with e taken from P."""
    one_direction(point, moments)
    point[P] = ball_at(WITHOUT_E, point)


WITHOUT_E = P - P * e * e.T
GROWING = satisfying(
    r"$\lambda$ is the eigenvalue of the growing direction $\boldsymbol{e}$, $a$ that of $\boldsymbol{M} = "
    r"\mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)$, $T=\operatorname{tr}(\boldsymbol{\Lambda})$; $\boldsymbol{P}$ projects onto the "
    r"directions already learned, to which $\boldsymbol{e}$ does not belong",
    {**PROJECTS, **EIGEN, P * e: 0 * e},
    _not_learned,
)


def growing(task: Task = PAPER) -> Condition:
    """A direction that grows beside the learned ones."""
    return task.condition(GROWING, _not_learned)


def alone(task: Task = PAPER) -> Condition:
    """A direction that grows before all others."""
    return task.condition(ALONG, along_one_eigenvector)


FIRST_SET = "All other weights are zero"
LATER_SET = r"The heads $i\le m$ have learned $\boldsymbol{P}$ and rest at the values (25); all others but head $m+1$ are zero"
RATES = flow_in_force(rank_one_head(), RANK_ONE)


def _force_with(learned, task: Task) -> TracePolynomial:
    """The force (53) at the map ``learned`` of the heads at rest, and v^3 e e' of the growing one."""
    return _on_e(substitute(force(task), {B: TracePolynomial(learned) + v**3 * e * e.T}), task)


def force_on_first_ansatz(task: Task = PAPER) -> TracePolynomial:
    """The force (65), with the growing head alone."""
    return _force_with(0 * e * e.T, task)


def force_on_later_ansatz(task: Task = PAPER) -> TracePolynomial:
    """The force (71), with the learned heads at rest and one more growing."""
    return _force_with(task.fixed_map, task)


@cache
def _flow_of_head(task: Task = PAPER) -> dict:
    """{weight: its rate} of the head k = q = v e in the force (71), equation (19)."""
    head = {v_i: v, k_i: v * e, q_i: v * e, G: force_on_later_ansatz(task)}
    return {weight: _on_e(substitute(rate, head), task) for weight, rate in RATES.items()}


def flow_along(task: Task = PAPER) -> Expr:
    """The flow (26) of the value weight: lambda^2 v^2 - lambda a v^5."""
    return _flow_of_head(task)[v_i].to_sympy()


@cache
def along_lines(task: Task = PAPER, *, learned: bool) -> tuple[Line, ...]:
    """How the covariances and M act on e, and P if directions are ``learned`` already."""
    reason, letters = r"$\boldsymbol{e}$ is an eigenvector", force(task).free_symbols | task.moments.A.free_symbols
    return (
        Line(Lambda * e, "=", lambda_ * e, reason),
        Line(M * e, "=", a * e, reason),
        Line(e.T * e, "=", 1, "It has unit length"),
        *(Line(letter * e, "=", value * e, reason) for letter, value in COMMON.items() if letter in letters),
        *((Line(P * e, "=", 0 * e, "It is not learned"),) if learned else ()),
    )


def _on_e(polynomial, task: Task) -> TracePolynomial:
    """Use these lines."""
    return rewrite(polynomial, {line.left: line.right for line in along_lines(task, learned=True)})


def places(task: Task = PAPER, *, learned: bool) -> tuple[int, ...]:
    """Where these lines stand in a derivation that begins with them."""
    return tuple(range(len(along_lines(task, learned=learned))))


def on_ansatz(task: Task, *, learned: bool) -> Lines:
    """The lines that put the flow on an aligned set: the eigenvector, the head, the map, and the force (53) there."""
    map_ = task.fixed_map + rank_one_head() if learned else rank_one_head()
    yield from along_lines(task, learned=learned)
    yield Line(v, ":=", v_i, "The value weight of the growing head")
    yield Line(k_i, ":=", v * e, "Its key is aligned with the eigenvector")
    yield Line(q_i, ":=", v * e, "and so is its query")
    yield Line(B, ":=", map_, "The effective map of the set")
    yield from loss_and_force(task)


def _in_force(weight, right, reason: str, part: str = "", uses: tuple = ()) -> Line:
    return Line(Rate(weight, RATES), "=", right, reason, uses, part)


def _moment(task: Task) -> Line:
    return Line(a, "=", task.eigenvalue, "The moment (32)")


@register("64", "The ansatz of the first drop", kind="ansatz", section="Appendix D.6")
@states("k", lambda: (lambda_**2 * v**2 - lambda_ * a * v**5) * e)
@states("q", lambda: (lambda_**2 * v**2 - lambda_ * a * v**5) * e)
@states("v", lambda: lambda_**2 * v**2 - lambda_ * a * v**5)
@given(alone, FIRST_SET)
@erratum("An exact invariant set, and an approximation of training from (36); see (25-direction)")
def first_ansatz(task: Task = PAPER) -> Lines:
    """The flow (19) of the head in the force (65)."""
    rates, uses = _flow_of_head(task), places(task, learned=False)
    yield from on_ansatz(task, learned=False)
    yield Line(G, "=", force_on_first_ansatz(task), "The force on the set, equation (65)", uses)
    yield _in_force(k_i, rates[k_i], "The velocity (19b) of the key", "k", uses)
    yield _in_force(q_i, rates[q_i], "The velocity (19c) of the query", "q", uses)
    yield _in_force(v_i, rates[v_i], "The velocity (19a) of the value weight", "v", uses)
    yield Line(Rate(k_i, RATES), "=", Rate(v_i, RATES) * e, "The key moves as $v\\boldsymbol{e}$ does", uses)


@register("65", "The force on the ansatz of the first drop", section="Appendix D.6")
@states(lambda: Lambda**2 - lambda_ * a * v**3 * e * e.T)
@given(alone, FIRST_SET)
def first_force(task: Task = PAPER) -> Lines:
    """The force (53) at B = v^3 e e'."""
    return _force_lines(task, learned=False)


def _force_lines(task: Task, *, learned: bool) -> Lines:
    map_, there = (task.fixed_map, force_on_later_ansatz(task)) if learned else (0 * e * e.T, force_on_first_ansatz(task))
    reason = r"The map (21) of the learned heads, the sum of $(\lambda_d/a_d)\,\boldsymbol{e}_d\boldsymbol{e}_d^\top$, and this head's"
    yield from on_ansatz(task, learned=learned)
    yield Line(B, "=", map_ + v**3 * e * e.T, reason if learned else "The head makes this map")
    yield Line(G, "=", there, "The force there", places(task, learned=learned))


def _scalar_flow(task: Task, *, learned: bool) -> Lines:
    growth, uses = flow_along(task), places(task, learned=learned)
    reason = rf"The velocity (19a): along $\boldsymbol{{e}}$ the force at $\boldsymbol{{B}} = 0$ is ${formula_latex(growth.coeff(v, 2))}$"
    yield from on_ansatz(task, learned=learned)
    yield _in_force(v_i, growth, reason, uses=uses)
    yield _moment(task)
    yield _in_force(v_i, growth.subs(a, task.eigenvalue), "The moment written out", uses=(*uses, -1))


@register("66", "The first drop", section="Appendix D.6")
@states(lambda: lambda_**2 * v**2 - lambda_**3 * (1 + (1 + T / lambda_) / N) * v**5)
@given(alone, FIRST_SET)
def first_drop(task: Task = PAPER) -> Lines:
    """(19a) in the force (65)."""
    return _scalar_flow(task, learned=False)


@register("25", "The ansatz of the later drops", kind="ansatz", section="Section 4.4")
@states("cube", lambda: (lambda_ / a) ** Rational(1, 3))
@states("written out", lambda: lambda_ ** Rational(-1, 3) * (1 + (1 + T / lambda_) / N) ** Rational(-1, 3))
@states("rest", lambda: 0 * lambda_)
@given(growing, LATER_SET)
@erratum("An exact invariant set of (19), and an approximation of training from (36); see (25-direction)")
def fixed_value(task: Task = PAPER) -> Lines:
    """Where (26) vanishes; put back, the learned heads rest."""
    flow = flow_along(task)
    (cube,) = solve((flow / v**2).expand().subs(v**3, v_star), v_star)
    value = cube ** Rational(1, 3)
    positive, rests = Line(v, ">", 0), Line(Rate(v_i, RATES), "=", 0)

    def at_rest(point) -> None:
        growing(task).meet(point)
        point[v_i] = value_at(value, point)

    yield from on_ansatz(task, learned=True)
    yield _in_force(v_i, flow, "The flow (26) of an aligned head", uses=places(task, learned=True))
    yield Line(v_star, ":=", value, "It vanishes at this root", part="cube")
    yield Line(v_star, "=", cancel(cube.subs(a, task.eigenvalue)) ** Rational(1, 3), "The moment (32) written out", part="written out")
    yield Line(flow.subs(v, v_star), "=", cancel(flow.subs(v, value)), "The flow there", part="rest")
    yield Line((positive, rests), "=>", Line(v, "=", v_star), "There is no other positive root", meets=(at_rest,))


@register("71", "The force on the ansatz of the later drops", section="Appendix D.6")
@states(lambda: Lambda**2 - Lambda * P * Lambda - lambda_ * a * v**3 * e * e.T)
@given(growing, LATER_SET)
def later_force(task: Task = PAPER) -> Lines:
    """The force (53) at B = M^-1 Lambda P + v^3 e e'."""
    return _force_lines(task, learned=True)


@register("26", "The growth of one head, in the main text", section="Section 4.4")
@states("main", lambda: lambda_**2 * v**2 - lambda_**3 * (1 + (1 + T / lambda_) / N) * v**5)
@states("short", lambda: lambda_**2 * v**2 - lambda_ * a * v**5)
@given(growing, LATER_SET)
@erratum("Stronger: with heads aligned to different eigenvectors and any $v_d(0)$ all these equations hold at once")
def aligned_flow(task: Task = PAPER) -> Lines:
    """(19) on the set (25), which the growing, the learned and the waiting heads keep."""
    rates, short, uses = _flow_of_head(task), flow_along(task), places(task, learned=True)
    yield from on_ansatz(task, learned=True)
    yield Line(G, "=", force_on_later_ansatz(task), "The force on the set, equation (71)", uses)
    yield Line(G * P, "=", 0, "No learned direction feels it, so that the learned heads rest")
    yield _in_force(k_i, rates[k_i], r"The growing key stays along $\boldsymbol{e}$", uses=uses)
    yield _in_force(q_i, rates[q_i], "So does the query", uses=uses)
    yield _in_force(v_i, short, "The velocity (19a) of the value weight", "short", uses)
    yield _moment(task)
    yield _in_force(v_i, short.subs(a, task.eigenvalue), "The moment written out", "main", (*uses, -1))


@register("72", "The later drops", section="Appendix D.6")
@states(lambda: lambda_**2 * v**2 - lambda_**3 * (1 + (1 + T / lambda_) / N) * v**5)
@given(growing, LATER_SET)
def later_drop(task: Task = PAPER) -> Lines:
    """(19a) in the force (71)."""
    return _scalar_flow(task, learned=True)


distance = Symbol("epsilon", positive=True)  # from rest


@register("26-relaxation", "The end of a drop", section="Beside (26)")
@states(lambda: 3 * lambda_**2 * v_star)
def relaxation_rate() -> Lines:
    """Minus the slope of (26) at its fixed point."""
    flow, rate = flow_along(), Symbol("r", positive=True)
    slope = -diff(flow, v).subs(v, v_star)
    short = cancel(slope.subs(a, lambda_ / v_star**3))
    yield Line(v_star, ":=", (lambda_ / a) ** Rational(1, 3), "The head rests here, (25)")
    yield Line(rate, ":=", slope, "Minus the slope of (26) there")
    yield Line(flow.subs(v, v_star + distance), "~", -rate * distance,
               "A small distance shrinks at this rate", parameter=(distance, 0), order=2)  # fmt: skip
    yield Line(rate, "=", short, r"With $a=\lambda/v_*^3$")


@cache
def time_to_order_one(eigenvalue) -> Expr:
    """The s at which a component that grows as w_init exp(eigenvalue^2 s), equation (63), is of order one."""
    (reached,) = solve(log(w_init) + eigenvalue**2 * clock, clock)
    return reached


def component(eigenvalue) -> Expr:
    """A component that starts at w_init and grows by (63)."""
    return w_init * exp(eigenvalue**2 * clock)


@register("25-direction", "The direction error of the ansatz", kind="approximation", section="Beside (25)")
@states(lambda: w_init ** (1 - (lambda_after / lambda_next) ** 2))
@given(r"Both components start at $w_{\rm init}$, up to a factor of order one")
@note(r"The ratio is the tangent of the angle between $\boldsymbol{k}$ and $\boldsymbol{e}_{m+1}$")
def direction_error() -> Lines:
    """Both components grow as w_init exp(lambda^2 s), equation (63), until the first is of order one."""
    reached = time_to_order_one(lambda_next)
    exponent = cancel((log(w_init) + lambda_after**2 * reached) / log(w_init))
    yield Line(clock, ":=", reached, "The middle of the drop")
    yield Line(component(lambda_next), "=", 1, "There the growing component (63) is of order one")
    yield Line(component(lambda_after) / component(lambda_next), "=", w_init**exponent, "The next one, in proportion to it")
