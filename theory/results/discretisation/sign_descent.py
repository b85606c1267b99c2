r"""Sign descent and Adam (V8): what is conserved instead of (79), how the origin is left, and how Adam steps.

Sign descent, W <- W - eta sign(dL/dW), moves each weight by eta at each step. In the time s that counts eta for a step its flow is
dW/ds = sign(f) with f = -1/2 dL/dW. While the signs of the force stay, all weights move in straight lines at unit speed: what is conserved
is linear in the weights, and the plateau does not get longer as the initial weights shrink.
"""

from typing import Any

from mpmath import diag, matrix as explicit, mpf
from sympy import Abs, IndexedBase, Integral, Sum, Symbol, Trace, cancel, cbrt, integrate, limit, oo, solve, sqrt, summation

from ...algebra.polynomial import TracePolynomial
from ...calculus import derivative, rewrite
from ...derivations import Condition, Line, Lines, Rate, carried_out, given, note, register, states
from ...notation import B, D, H, Lambda, M, a, clock, e, k_i, lambda_, q_i, v_i, vector, w_init

sign_v = Symbol("s_v", real=True)  # the sign of the force on a value weight; below, on keys and queries
sign_k, sign_q = (vector(f"s_{one}", D, latex=rf"\boldsymbol{{s}}_{one}") for one in "kq")
SPEEDS = {v_i: sign_v, k_i: sign_k, q_i: sign_q}
v_j, k_j, q_j = (IndexedBase(one, real=True) for one in "vkq")  # of head j, along one direction
u = Symbol("u", positive=True)  # the largest size of a weight
j, n = Symbol("j", integer=True, positive=True), Symbol("n", integer=True, positive=True)
x = Symbol("x", real=True)  # an entry of the gradient
y = Symbol("y", positive=True)
beta_1, beta_2 = (Symbol(f"beta_{one}", positive=True) for one in (1, 2))  # of Adam's running means
epsilon = Symbol("epsilon", positive=True)
move = Symbol("delta", real=True)


def _signs(point) -> None:
    """Signs of every force, and a unit vector along one of the coordinates."""
    size = point.size(D)
    draw = lambda: explicit([point.rng.choice([-1, 1]) for _ in range(size)])  # noqa: E731
    point[sign_v], point[sign_k], point[sign_q] = point.rng.choice([-1, 1]), draw(), draw()
    chosen = point.rng.randrange(size)
    point[e] = explicit([mpf(one == chosen) for one in range(size)])


def _are_signs(point) -> bool:
    vectors, unit = [*point[sign_k], *point[sign_q], point[sign_v]], sorted(point[e])
    return all(abs(one) == 1 for one in vectors) and unit[-1] == 1 == sum(map(abs, unit))


SIGNS = Condition(
    r"$s_v$, $\boldsymbol{s}_k$, $\boldsymbol{s}_q$ are the signs of the force on the weights of head $i$, none of it zero, and "
    r"$\boldsymbol{e}$ is a coordinate axis",
    _are_signs,
    _signs,
)


FLOW = r"The flow $d\boldsymbol{W}/ds=\operatorname{sign}(\boldsymbol{f})$, on which a step of sign descent counts as $\eta$; any loss"


@register("V8-sign", "What sign descent conserves")
@states("value", lambda: sign_v * v_i - Trace(e.T * sign_k) * Trace(e.T * k_i))
@states("query", lambda: Trace(e.T * sign_k) * Trace(e.T * k_i) - Trace(e.T * sign_q) * Trace(e.T * q_i))
@states("old value", lambda: 2 * (sign_v * v_i - Trace(sign_k.T * k_i)))
@states("old query", lambda: 2 * (Trace(sign_k.T * k_i) - Trace(sign_q.T * q_i)))
@states("drift", lambda: 2 * (1 - D))
@given(FLOW, SIGNS, "No sign changes")
def sign_conservation() -> Lines:
    """The chain rule with the signs as speeds; a sign squares to 1."""
    along = {one: Trace(e.T * TracePolynomial(SPEEDS[one]).to_sympy()) * Trace(e.T * one) for one in (k_i, q_i)}
    old = {"value": v_i**2 - Trace(k_i.T * k_i), "query": Trace(k_i.T * k_i) - Trace(q_i.T * q_i)}
    new = {"value": sign_v * v_i - along[k_i], "query": along[k_i] - along[q_i]}
    rates = {name: derivative(TracePolynomial(one), SPEEDS) for name, one in old.items()}
    second = rewrite(derivative(rates["value"], SPEEDS), {sign_k.T * sign_k: D}).to_sympy().subs(sign_v, 1)
    yield Line(sign_v**2, "=", 1, "A sign squares to one")
    yield Line(Trace(sign_k.T * sign_k), "=", D, "Over all entries")
    yield Line(Trace(sign_q.T * sign_q), "=", D, "Over all entries")
    for name, letter in (("value", "C_v"), ("query", "C_q")):
        kept = Symbol(letter, real=True)
        yield Line(kept, ":=", new[name], "Let", part=name)
        yield Line(Rate(kept, SPEEDS), "=", 0, "It is conserved")
        yield Line(Rate(old[name], SPEEDS), "=", rates[name], "What gradient flow conserves is not", part=f"old {name}")
    yield Line(Rate(rates["value"], SPEEDS), "=", second, "The rate of the first falls, for $D>1$", (0, 1), "drift")
    yield Line(Rate(rates["query"], SPEEDS), "=", 0, "that of the second is constant", (1, 2))


def _room(point) -> Any:
    """The largest entry of the map at which the signs of an aligned head stay."""
    levels = [(point[Lambda][d, d], point[M][d, d]) for d in range(point.size(D))]
    trace, trace_M = (sum(column) for column in zip(*levels, strict=True))
    return min(min(l_d**2 / m_d / trace, l_d / trace_M) for l_d, m_d in levels)


def _head_near_origin(point) -> None:
    """An aligned head, in a map with entries as bad as they may be, or any."""
    rng, size = point.rng, point.size(D)
    for letter in (Lambda, M):
        point[letter] = diag([mpf(rng.uniform(0.2, 1)) for _ in range(size)])
    point[u] = (_room(point) / point[H] * mpf(rng.uniform(0.9, 0.999))) ** (mpf(1) / 3)
    v, *signs = (rng.choice([-1, 1]) for _ in range(size + 1))
    point[v_i], point[k_i], point[q_i] = v * point[u], point[u] * explicit(signs), v * point[u] * explicit(signs)
    point[B] = point[H] * point[v_i] * point[k_i] * point[q_i].T
    if rng.random() < 0.3:
        point[B] = point[B].apply(lambda entry: entry * mpf(rng.uniform(-1, 1)))


def _aligned(point) -> bool:
    weights = [point[v_i], *point[k_i], *point[q_i]]
    return {abs(one) for one in weights} == {point[u]} and all(point[v_i] * k * q > 0 for k, q in zip(point[k_i], point[q_i], strict=True))


def _near_origin(point) -> bool:
    diagonals = [point[letter] == diag([point[letter][d, d] for d in range(point.size(D))]) for letter in (Lambda, M)]
    return all(diagonals) and max(map(abs, point[B])) <= point[H] * point[u] ** 3 * (1 + mpf("1e-25")) < _room(point)


def _signs_agree(point) -> bool:
    force, k, q, v = point[Lambda] * point[Lambda] - point[M] * point[B] * point[Lambda], point[k_i], point[q_i], point[v_i]
    pulls = [*(k.T * force * q), *(v * force * q), *(v * force.T * k)]
    return all(pull * weight > 0 for pull, weight in zip(pulls, [v, *k, *q], strict=True))


def _inside(point) -> None:
    for letter in (v_j, k_j, q_j):
        point.family(letter, [point[u] * mpf(point.rng.uniform(-1, 1)) for _ in range(int(point[H]))])


SIZES = Condition(
    "no weight is larger than $u$",
    lambda point: all(abs(point[letter][i]) <= point[u] for letter in (v_j, k_j, q_j) for i in range(1, int(point[H]) + 1)),
    _inside,
)


@register("V8-sign-origin", "How sign descent leaves the origin")
@states("bound", lambda: H * u**3)
@states("time", lambda: cbrt(lambda_ / (a * H)) - w_init)
@states("flow", lambda: 1 / (lambda_**2 * w_init))
@given(FLOW, r"Diagonal $\boldsymbol{\Lambda}$; weights of at most $w_{\rm init}$ at the start, and so at most $u=w_{\rm init}+s$ at $s$")
@note(
    r"Time: at least this passes before a direction is learned; flow: what one aligned head needs under gradient flow, in $t/\tau$",
    "Measured, not derived: from random signs most heads come to agree with their force in a time of the order of their weights, a few "
    "rest at zero for long; and after the signs first change the loss falls in one drop or two, not in a staircase",
)
def leaving_the_origin() -> Lines:
    """Products of bounds, and the force with every entry of the map at its worst."""
    (size,) = solve(H * u**3 - lambda_ / a, u)
    time = size - w_init
    of_flow = integrate(1 / (lambda_**2 * y**2), (y, w_init, oo))
    yield Line(Abs(Sum(v_j[j] * k_j[j] * q_j[j], (j, 1, H))), "<=", H * u**3,
               "An entry of the map sums a product for each head", part="bound", conditions=(SIZES,))  # fmt: skip
    aligned = Condition("$|v_i|=|k_{id}|=|q_{id}|=u$, $v_ik_{id}q_{id}>0$", _aligned)
    near_origin = Condition("diagonal covariances, no $|B_{dj}|$ above a small $Hu^3$", _near_origin)
    agree = Condition("the force (53) on each weight of head $i$ has the sign of the weight", _signs_agree)
    yield Line((aligned, near_origin), "=>", agree,
               "The map changes the force by less than the force at the origin", meets=(_head_near_origin,))  # fmt: skip
    yield Line(clock, ":=", time, "Let")
    yield Line(H * (w_init + clock) ** 3, "=", lambda_ / a, "Then the bound is the value of the map along a learned direction (25)")
    yield Line(clock, "=", time, "So at least this time is needed", part="time")
    yield Line(clock, "->", limit(time, w_init, 0), "From ever smaller weights it tends to", parameter=(w_init, 0), order=1)
    yield Line(Integral(1 / (lambda_**2 * y**2), (y, w_init, oo)), "=", of_flow,
               r"Under gradient flow (26) an aligned head grows at the rate $\lambda^2v^2$ at first", part="flow")  # fmt: skip


@register("V8-adam", "Adam between gradient flow and sign descent")
@states("step", lambda: x / (Abs(x) + epsilon))
@states("below", lambda: x / epsilon)
@states("above", lambda: x / Abs(x))
@states("growing", lambda: sqrt(5))
@given("$x$ is an entry of the gradient: steady, or growing as the square of the step, as near the origin under (V8-sign)")
@note(r"Moves over $\eta$; $\beta_1$, $\beta_2$ are the decays of the running means, $\epsilon$ stands beside the root")
def adam_between() -> Lines:
    """Running means of a constant and, if the longer memory holds all steps, of a power."""
    mean, square = (Sum((1 - decay) * decay ** (n - j) * of, (j, 1, n)) / (1 - decay**n) for decay, of in ((beta_1, x), (beta_2, x**2)))
    step = cancel(carried_out(mean)) / (sqrt(cancel(carried_out(square))) + epsilon)
    weight, powers = (1 - beta_2) * beta_2 ** (n - j) / (1 - beta_2**n), summation(j**4, (j, 1, n)) / n
    below, above = x * limit(step / x, x, 0), limit(step, epsilon, 0)
    yield Line(move, ":=", mean / (sqrt(square) + epsilon),
               "The move: the running mean of the gradient over the root of that of its square")  # fmt: skip
    yield Line(move, "=", step, "A running mean of what is steady is, without its bias, its value", part="step")
    yield Line(step, "~", below, r"If the gradient is far below $\epsilon$", (), "below", parameter=(x, 0), order=2)
    yield Line(step, "->", above, r"If it is far above", (), "above", parameter=(epsilon, 0), order=1)
    yield Line(weight, "->", 1 / n, r"If no step is forgotten, the running mean is the plain one", parameter=(beta_2, 1))
    yield Line(Sum(j**4, (j, 1, n)) / n, "=", powers, "The mean of the square of $j^2$")
    yield Line(n**2 / sqrt(powers), "->", limit(n**2 / sqrt(powers), n, oo),
               "A gradient $n^2$ moves by itself over that mean's root", (), "growing", parameter=n, order=1)  # fmt: skip
