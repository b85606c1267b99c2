r"""The brief plateaus of heads of rank R (T3): the aligned flow of the slots of a head, its value weight, and how long it pauses."""

from sympy import Symbol, Trace, factor, log, solve, symbols

from ...derivations import Gradient, Line, Lines, erratum, given, register, states
from ...derivations.draws import ALONG
from ...notation import B, D, G, a, clock, e, lambda_, lambda_m, lambda_next, tau, v, vector, w_init
from ..task.regression import force_along, loss_and_force
from .aligned import component, time_to_order_one

x = Symbol("x", real=True)  # k_{i,r} = q_{i,r} = x e_d: the amplitude of one slot


@register("T3-slots", "The slots of an aligned head of rank $R$", kind="ansatz", section="Beside (80)")
@states("slot", lambda: v * (lambda_**2 - lambda_ * a * v * x**2) * x)
@states("value", lambda: (lambda_**2 - lambda_ * a * v * x**2) * x**2)
@states("level", lambda: lambda_ / a)
@given(ALONG, "Each slot is along another eigenvector")
def slots_of_a_head() -> Lines:
    """The force on one slot's eigenvector in (80); where it vanishes."""
    along_e = force_along(v * x**2)
    square, key = Symbol("y", positive=True), vector("k_ir", D, latex=r"\boldsymbol{k}_{i,r}")
    (level,) = solve(along_e.subs(x**2, square), square)
    query = vector("q_ir", D, latex=r"\boldsymbol{q}_{i,r}")
    feels = Trace(G.T * v * key * query.T)
    yield from loss_and_force()
    yield Line(key, ":=", x * e, "The key of one slot is aligned with an eigenvector")
    yield Line(query, ":=", x * e, "and so is its query")
    yield Line(B, ":=", v * key * query.T, "The part of the map along this eigenvector")
    yield Line(e.T * G * e, "=", along_e, "The force along it")
    yield Line(e.T * Gradient(feels, key), "=", v * along_e * x, "The flow (80) of the slot", part="slot")
    yield Line(Gradient(feels, v), "=", along_e * x**2, "Its part of the flow of the value weight", part="value")
    yield Line(square, ":=", level, "The force vanishes if $x^2$ has this value")
    yield Line(along_e.subs(x**2, square), "=", 0, "The force there")
    yield Line(v * square, "=", factor(v * level), "So its part of $v^3$, which is $v$ times the sum of $x^2$, is", part="level")


@register("T3-brief", "Duration of a brief plateau, while a head of rank $R$ fills its slots", kind="approximation", section="Beside (80)")
@states(lambda: tau / v * (1 / lambda_next**2 - 1 / lambda_m**2) * log(1 / w_init))
@given("The head, of value weight $v$, has filled some of its $R$ slots (T3-slots), not all")
@erratum(
    "Leading order of an accounting of amplitudes, confirmed by simulation, not a theorem: brief plateaus last as the logarithm of "
    r"$w_{\rm init}$, the plateaus at which $R$ divides $m$ as its inverse"
)
def duration_of_brief_plateau() -> Lines:
    """Amplitudes grow as w_init exp(lambda_d^2 s) on plateaus and drops alike, until they are of order one."""
    begin, end = symbols("s_m s_{m+1}", real=True)
    reached = {one: time_to_order_one(of) for one, of in ((begin, lambda_m), (end, lambda_next))}
    yield Line(begin, ":=", reached[begin], r"In $s$, the integral of $v\,dt/\tau$, the plateau begins")
    yield Line(component(lambda_m).subs(clock, begin), "=", 1, "when the amplitude before is of order one")
    yield Line(end, ":=", reached[end], "It ends")
    yield Line(component(lambda_next).subs(clock, end), "=", 1, "when the next one is")
    yield Line((end - begin) * tau / v, "=", factor(reached[end] - reached[begin]) * tau / v, "Their distance in $t$")
