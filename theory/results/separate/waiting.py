r"""Heads that wait: equations (61)-(63), (69), (70), and what the paper leaves unsaid of them (T5).

Before the first drop a head feels the force Lambda^2, on later plateaus Omega = Lambda^2 - Lambda P Lambda, where P projects onto the
directions already learned. In the time s, the integral of v dt / tau, its components follow in closed form for every v(t), and v follows by
conservation.
"""

from functools import cache

from sympy import BlockMatrix, Derivative, Expr, Function, Integral, Matrix, Rational, ZeroMatrix, exp, oo, sqrt, symbols

from ...algebra.polynomial import TracePolynomial
from ...calculus import multiplied_out, rewrite, substitute
from ...derivations import Condition, Line, Lines, Rate, as_sympy, erratum, given, note, register, states
from ...derivations.draws import DIRECTION, EIGENVECTOR, along_one_eigenvector, one_direction
from ...notation import B, D, G, Lambda, M, P, clock, e, k_i, lambda_, learned, q_i, t, tau, v, v_0, v_i, w_init
from ...typesetting.latex import formula_latex
from ..task.population import PAPER, Task
from ..task.regression import force, loss_and_force
from .aligned import RATES, along_lines, force_on_later_ansatz
from .flow import RANK_ONE

k_0, q_0 = symbols("k_0 q_0", real=True)  # e_d' k and e_d' q at s = 0
A_d, B_d = symbols("A_d B_d", real=True)  # (k_0 + q_0)/2 and (k_0 - q_0)/2
K_D, Q_D = symbols("k_d q_d", real=True)  # the components at s


@cache
def deflated_force(task: Task = PAPER) -> TracePolynomial:
    """Omega, the force (71) on the learned heads alone."""
    return substitute(force_on_later_ansatz(task), {v: 0})


def growth(task: Task = PAPER) -> Expr:
    """What the force at B = 0 makes of an eigenvector: lambda^2 for the paper's task."""
    return task.along(task.moments.A)


def direction(task: Task = PAPER) -> Condition:
    """An eigenvector of the task."""
    return task.condition(EIGENVECTOR, along_one_eigenvector)


def _rates_in(of_force) -> Lines:
    """tau dW/dt of one head in the force that G stands for, equation (19)."""
    for part, weight, name in zip("abc", RANK_ONE, ("value weight", "key", "query"), strict=True):
        yield Line(Rate(weight, RATES), "=", substitute(RATES[weight], {G: of_force}), f"The velocity (19) of the {name}", part=part)


@register("61", "Waiting heads before the first drop", kind="approximation", section="Appendix D.5")
@states("a", lambda: k_i.T * Lambda**2 * q_i)
@states("b", lambda: v_i * Lambda**2 * q_i)
@states("c", lambda: v_i * Lambda**2 * k_i)
def first_waiting_heads(task: Task = PAPER) -> Lines:
    """(19) where B is neglected beside Lambda^2 in the force."""
    first, small = task.moments.A, substitute(force(task), {B: w_init**3 * B})
    yield from task.definitions()
    yield from loss_and_force(task)
    yield Line(small, "~", first, "As the map is of third order in the weights, the force (53) begins", parameter=(w_init, 0), order=3)
    yield Line(G, ":=", first, "This part is kept")
    yield from _rates_in(first)


def _column(upper, lower) -> BlockMatrix:
    return BlockMatrix([[as_sympy(upper)], [as_sympy(lower)]])


@register("62", "Keys and queries of a waiting head, coupled", section="Appendix D.5")
@states("k", lambda: v_i * Lambda**2 * q_i)
@states("q", lambda: v_i * Lambda**2 * k_i)
@states("plus", lambda: _column(lambda_**2 * e, lambda_**2 * e))
@states("minus", lambda: _column(-(lambda_**2) * e, lambda_**2 * e))
@given("The equations (61)", direction)
def coupled_keys_and_queries(task: Task = PAPER) -> Lines:
    """v_i times the block matrix, on (k, q) and on its eigenvectors (e, e) and (e, -e)."""
    zero, rates, rate, A = ZeroMatrix(D, D), first_waiting_heads(task).parts, growth(task), task.moments.A.to_sympy()
    coupling, known = BlockMatrix([[zero, A], [A.T, zero]]), _eigenvector(task)
    uses = tuple(range(len(known)))
    yield from known
    yield from _in_first_force(task)
    yield Line(Rate(k_i, RATES), "=", rates["b"], "The velocity (61b) of the key", task.uses("61"), "k")
    yield Line(Rate(q_i, RATES), "=", rates["c"], "The velocity (61c) of the query", task.uses("61"), "q")
    yield Line(_column(rates["b"], rates["c"]), "=", v_i * coupling * _column(k_i, q_i), "Both together")
    yield Line(coupling * _column(e, e), "=", multiplied_out(rate * _column(e, e)),
               f"The eigenvalue is ${formula_latex(rate)}$", uses, "plus")  # fmt: skip
    yield Line(coupling * _column(e, -e), "=", multiplied_out(-rate * _column(e, -e)), f"It is ${formula_latex(-rate)}$", uses, "minus")


def _eigenvector(task: Task) -> tuple[Line, ...]:
    """How the covariances act on e."""
    lines = along_lines(task, learned=False)
    return tuple(line for line in lines if line.left not in (M * e, e.T * e))


def _in_first_force(task: Task) -> tuple[Line, ...]:
    """For another task than the paper's, the force of (61)."""
    return () if task == PAPER else (*task.gains(), Line(G, ":=", task.moments.A, "The force (61) before the first drop"))


@cache
def _solution(rate) -> tuple[Expr, Expr]:
    """Key and query along one eigenvector, where the force acts as ``rate``: the exponential of the matrix on the initial values."""
    turned = (Matrix([[0, lambda_**2], [lambda_**2, 0]]) * clock).exp() * Matrix([k_0, q_0])
    return tuple(entry.rewrite(exp).expand().subs(lambda_**2, rate) for entry in turned)


def _solved(rate, uses: tuple, parts: tuple = ("", "")) -> tuple[Line, ...]:
    """The components of (61) or (69) along e, and their solution."""
    (key, query), other = _solution(rate), {k_i: q_i, q_i: k_i}
    return (
        *(Line(e.T * Rate(x, RATES), "=", v_i * rate * e.T * other[x], r"The component along $\boldsymbol{e}$", uses) for x in other),
        Line(K_D, ":=", key, "The exponential of the matrix (62) on the initial values", (), parts[0]),
        Line(Q_D, ":=", query, "The same for the query", (), parts[1]),
        Line(Derivative(key, clock), "=", rate * Q_D, "In $s$ it solves the equation of the key"),
        Line(Derivative(query, clock), "=", rate * K_D, "and that of the query"),
    )


def _components() -> dict:
    """The paper's solution along one eigenvector."""
    grows = Rational(1, 2) * (k_0 + q_0) * exp(lambda_**2 * clock)
    decays = Rational(1, 2) * (k_0 - q_0) * exp(-(lambda_**2) * clock)
    return {"k": grows + decays, "q": grows - decays}


@register("63", "Keys and queries of a waiting head, solved", section="Appendix D.5")
@states(_components)
@given("The equations (62)", direction)
@erratum(
    "That a head grows if $v_i>0$ presumes that $v_i$ keeps its sign, which it need not; after a turning point it grows with "
    "the other sign, see (T5)"
)
def keys_and_queries_solved(task: Task = PAPER) -> Lines:
    """The matrix exponential of (62) on one eigenvector; the matrices at different times commute."""
    value, passed = Function("v", real=True), symbols("t_0", real=True)
    moving = Integral(value(passed) / tau, (passed, 0, t))
    rate, known = growth(task), _eigenvector(task)
    key, query = (component.subs(clock, moving) for component in _solution(rate))
    yield from known
    yield from _in_first_force(task)
    yield from _solved(rate, (*task.uses("61"), *range(len(known))), ("k", "q"))
    yield Line(tau * Derivative(key, t), "=", value(t) * rate * query, "It solves (62) in $t$, for any $v_i(t)$")
    for x, start in ((K_D, k_0), (Q_D, q_0)):
        yield Line(x, "->", start, "It starts there", parameter=(clock, 0), order=1)


@register("69", "Waiting heads on a later plateau", kind="approximation", section="Appendix D.6")
@states("a", lambda: k_i.T * (Lambda**2 - Lambda * P * Lambda) * q_i)
@states("b", lambda: v_i * (Lambda**2 - Lambda * P * Lambda) * q_i)
@states("c", lambda: v_i * (Lambda**2 - Lambda * P * Lambda) * k_i)
@given(lambda task=PAPER: Condition("The learned heads rest, at the map (21)", None, task.draw))
def later_waiting_heads(task: Task = PAPER) -> Lines:
    """(19) in the force at the fixed point with the directions of P learned."""
    yield from loss_and_force(task)
    if task != PAPER:
        yield from task.commutes()
    yield Line(B, ":=", task.fixed_map, "The map (21) of the learned heads")
    yield Line(G, "=", deflated_force(task), "The force before one more head grows")
    yield from _rates_in(deflated_force(task))


@register("70", "Waiting heads on a later plateau, solved", section="Appendix D.6")
@states(lambda: {**_components(), "learned k": k_0, "learned q": q_0})
@given("The equations (69)", lambda task=PAPER: task.condition(DIRECTION, one_direction))
@erratum(
    r"As scanned, the third term is the sum over $d\le m$ of "
    r"$\boldsymbol{e}_d^\top(\boldsymbol{k}_i+\boldsymbol{q}_i)[\boldsymbol{e}_d;\boldsymbol{e}_d]$: it violates the initial condition "
    r"unless $\boldsymbol{e}_d^\top\boldsymbol{k}_i=\boldsymbol{e}_d^\top\boldsymbol{q}_i$. The learned components stay what they are, "
    r"$\boldsymbol{e}_d^\top\boldsymbol{k}_i$ and $\boldsymbol{e}_d^\top\boldsymbol{q}_i$ each"
)
def later_waiting_heads_solved(task: Task = PAPER) -> Lines:
    """(63) where Omega acts as lambda^2, and no motion where it acts as zero."""
    known = (Line(P * e, "=", learned * e, r"$\boldsymbol{e}$ is an eigenvector, learned or not"), *_eigenvector(task))
    waiting, at_rest, uses, acted = _solution(growth(task)), _solution(0), tuple(range(len(known))), deflated_force(task) * e
    yield from known
    yield Line(acted, "=", rewrite(acted, {line.left: line.right for line in known}), r"How $\boldsymbol{\Omega}$ acts on it", uses)
    if task != PAPER:
        yield from task.gains()
        yield Line(G, ":=", deflated_force(task), "The force (69) on the plateau")
    yield from _solved((1 - learned) * growth(task), (*task.uses("69"), *uses))
    yield Line(learned, ":=", 0, "A direction not yet learned")
    yield Line(K_D, "=", waiting[0], "The solution (63)", part="k")
    yield Line(Q_D, "=", waiting[1], "The same for the query", part="q")
    yield Line(learned, ":=", 1, "A learned direction")
    yield Line(K_D, "=", at_rest[0], "The key stays", part="learned k")
    yield Line(Q_D, "=", at_rest[1], "So does the query", part="learned q")
    yield Line(K_D, "!=", k_0 + q_0, "As scanned, the initial value is another one")


@cache
def mode_solution(task: Task = PAPER) -> tuple[Expr, ...]:
    """The components (63) of key and query, in A_d = (k_0 + q_0)/2 and B_d = (k_0 - q_0)/2."""
    return tuple(component.subs({k_0: A_d + B_d, q_0: A_d - B_d}).expand() for component in _solution(growth(task)))


@register("T5", "A waiting head, solved: its value weight and its escape time", section="beside (63)")
@states("mode", lambda: A_d**2 * (exp(2 * lambda_**2 * clock) - 1) + B_d**2 * (exp(-2 * lambda_**2 * clock) - 1))
@states("curvature", lambda: 4 * lambda_**4 * (A_d**2 * exp(2 * lambda_**2 * clock) + B_d**2 * exp(-2 * lambda_**2 * clock)))
@states("aligned", lambda: tau / (lambda_**2 * v_0))
@given("The equations (61)", direction)
@note(
    r"The mode is the part of one direction in $v^2(s)-v^2(0)$; $t$ is the integral of $\tau\,ds/v(s)$, at $s=\pm\infty$ the escape time",
    r"On a later plateau, with (69), only the directions $d>m$ have one",
)
@erratum(r"The paper stops at (63). For Gaussian weights (36) the time (68) is only an order of magnitude, whatever $w_{\rm init}$")
def waiting_head(task: Task = PAPER) -> Lines:
    """d(v^2)/ds = 2 sum lambda_d^2 k_d q_d, integrated; the escape time of one mode as a check."""
    (key, query), rate, A, known = mode_solution(task), growth(task), task.moments.A.to_sympy(), _eigenvector(task)
    energy = Integral((2 * rate * key * query).expand(), (clock, 0, clock)).doit().expand().collect([A_d**2, B_d**2])
    curvature, root = energy.diff(clock, 2), sqrt((v_0**2 + energy.subs({A_d: v_0, B_d: 0})).expand())
    escape = Integral(tau / root, (clock, 0, oo)).doit()
    solved = () if task == PAPER else _solved(rate, ())[2:4]
    yield from known
    yield from _in_first_force(task)
    yield Line(Rate(v_i**2, RATES), "=", 2 * v_i * k_i.T * A * q_i, "Over $v_i$ it is the rate in $s$, by (61)", task.uses("61"))
    yield Line(k_i.T * A * e * e.T * q_i, "=", rate * k_i.T * e * e.T * q_i, "One term of it", tuple(range(len(known))))
    yield Line(k_0, ":=", A_d + B_d, "In the growing and the decaying part")
    yield Line(q_0, ":=", A_d - B_d, "In the growing and the decaying part")
    yield from solved
    yield Line(Integral(2 * rate * K_D * Q_D, (clock, 0, clock)), "=", energy, "This term from 0 to $s$, by (63)", task.uses("63"), "mode")
    yield Line(energy, "=", K_D**2 - k_0**2, "It is what the square of the component of the key gains, by (79)", task.uses("63"))
    yield Line(Derivative(energy, (clock, 2)), "=", curvature, "Its second derivative", part="curvature")
    yield Line(curvature, ">=", 0, "is a sum of squares")
    yield Line(A_d, ":=", v_0, r"One mode with $\boldsymbol{k}=\boldsymbol{q}=v\boldsymbol{e}$")
    yield Line(B_d, ":=", 0, "which has no decaying part")
    yield Line(v, ":=", root, "Its value weight")
    yield Line(v**2 - v_0**2, "=", energy, "It gains the energy of the mode")
    yield Line(Integral(tau / v, (clock, 0, oo)), "=", escape, "The escape time", part="aligned")
