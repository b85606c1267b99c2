r"""Weight decay (V12): the penalty gamma_w |W|^2, with :math:`\tau\dot W = -\tfrac12\,\partial\mathcal L/\partial W - \gamma_w W`.

.. math::
    \tau\dot v = \lambda^2v^2 - \lambda av^5 - \gamma_wv, \qquad
    \gamma_* = \tfrac34\lambda^2\Bigl(\frac{\lambda}{4a}\Bigr)^{1/3}, \qquad
    T \to \frac{\tau}{\gamma_w}\ln\frac1{1 - \gamma_wT/\tau}

Zero weights become stable: a head of rank one learns a direction only below gamma_*, and if it would escape within tau/gamma_w without
decay. Quadratic penalties of keys and of queries have its fixed points in other coordinates. As gamma_w vanishes its minima are those of
minimal norm, (74)-(78).
"""

from collections.abc import Callable

from sympy import Derivative, Identity, Integral, Rational, Symbol, Trace, cbrt, exp, expand, integrate, limit, log, oo, powsimp, solve

from ...algebra.polynomial import TracePolynomial
from ...calculus import derivative, rewrite, substitute
from ...derivations import Condition, Gradient, Line, Lines, Rate, carried_out, given, register, states, value_at
from ...derivations.draws import definite, made_definite
from ...notation import W_1, D, G, a, alpha, c_hat, gamma, k_i, lambda_, q_i, s, symmetric_matrix, t, tau, v, v_i, vector, w_2
from ..attention.equivalent_networks import COVARIANCE, CROSS, FEATURES, flow_of_layers
from ..landscape.fixed_points import v_positive as size
from ..landscape.minimal_norm import COST, n
from ..merged.balanced_flow import UNIT, on_aligned_set
from ..separate.aligned import FIRST_SET, RATES as FREE, alone, flow_along, on_ansatz, places
from ..separate.conservation import ANY_LOSS
from ..separate.flow import NAMES, RANK_ONE, effective_map, rank_one_head
from ..task.population import PAPER, Task

decay = Symbol("gamma_w", positive=True)
decay_most, decay_worth = Symbol("gamma_*", positive=True), Symbol("gamma_0", positive=True)
root_k, root_q = (symmetric_matrix(f"Gamma_{x}h", D, latex=rf"\boldsymbol{{\Gamma}}_{x}^{{1/2}}") for x in "kq")
ROOTS = (root_k, root_q)
key, query = (vector(f"{x}_w", D, latex=rf"\tilde{{\boldsymbol{{{x}}}}}") for x in "kq")
share = Symbol("x", real=True)  # of the direction that stays unlearned
scale = Symbol("r", positive=True)  # by which a decay shrinks the weights
wait = Symbol("T_0", positive=True)  # the length of a plateau without decay
delta = Symbol("delta", real=True)
moment = Symbol("t_1", nonnegative=True)  # a time before t
DECAYED = {weight: rate - decay * TracePolynomial(weight) for weight, rate in FREE.items()}


def decayed_product(weight) -> TracePolynomial:
    """The velocity with decay, at r times the weights."""
    return substitute(DECAYED[weight], {one: scale * one for one in RANK_ONE})


def decaying(lines_of: tuple = RANK_ONE) -> Lines:
    """The flow (10) of the loss with the penalty, in the force G, which does not move in the gradient."""
    along = Trace(G.T * effective_map(rank_one_head())) - decay * COST / 2
    for weight, name in zip(lines_of, NAMES, strict=True):
        yield Line(Rate(weight, DECAYED), "=", Gradient(along, weight), f"The flow of the {name}: half the penalty joins half the loss")


@register("V12-balance", "Weight decay balances every head")
@states("query", lambda: -2 * decay * (Trace(k_i.T * k_i) - Trace(q_i.T * q_i)))
@states("value", lambda: -2 * decay * (Trace(k_i.T * k_i) - v_i**2))
@given(ANY_LOSS)
def balance() -> Lines:
    """The rates of the differences of squared norms, to which the force adds the same."""
    of_query, of_value = Trace(k_i.T * k_i) - Trace(q_i.T * q_i), Trace(k_i.T * k_i) - v_i**2
    yield from decaying()
    yield Line(Rate(of_query, DECAYED), "=", derivative(of_query, DECAYED), "The force adds the same to both", part="query")
    yield Line(Rate(of_value, DECAYED), "=", derivative(of_value, DECAYED), "and to the value weight", part="value")


POSITIVE = Condition(
    r"$\boldsymbol{\Gamma}_k$ and $\boldsymbol{\Gamma}_q$ are positive definite, with the roots $\boldsymbol{\Gamma}_k^{1/2}$ and "
    r"$\boldsymbol{\Gamma}_q^{1/2}$",
    definite(*ROOTS),
    made_definite(*ROOTS),
    lambda point: [point.__setitem__(root, 0 * point[root]) for root in ROOTS],
)


@register("V12-penalty", "Quadratic penalties of keys and of queries: the fixed points are those of weight decay in other coordinates")
@states("penalty", lambda: decay * (v_i**2 + Trace(key.T * key) + Trace(query.T * query)))
@states("force", lambda: v_i * Trace(key.T * root_k.I * G * root_q.I * query))
@given(
    r"The penalty $\gamma_w(v^2 + \boldsymbol{k}^\top\boldsymbol{\Gamma}_k\boldsymbol{k} + \boldsymbol{q}^\top\boldsymbol{\Gamma}_q"
    r"\boldsymbol{q})$ of each head",
    POSITIVE,
)
def any_penalty() -> Lines:
    """Put the new coordinates into the penalty and into tr(G' B)."""
    old = decay * (v_i**2 + Trace(k_i.T * root_k**2 * k_i) + Trace(q_i.T * root_q**2 * q_i))
    along = Trace(G.T * rank_one_head())
    new = {k_i: root_k.I * key, q_i: root_q.I * query}
    for letter, value in new.items():
        yield Line(letter, ":=", value, "The coordinates")
    yield Line(old, "=", substitute(old, new), "The penalty in them", part="penalty")
    yield Line(along, "=", substitute(along, new),
               r"What the force does, whose gradient it is: $\boldsymbol{G}$ has become a matrix of the same place",
               part="force")  # fmt: skip


@register("V12-flow", "The flow of one direction with weight decay")
@states(lambda: lambda_**2 * v**2 - lambda_ * a * v**5 - decay * v)
@given(alone, FIRST_SET)
def decaying_flow(task: Task = PAPER) -> Lines:
    """The flow (26) of the head k = q = v e, less the decay."""
    rate, uses = flow_along(task) - decay * v, places(task, learned=False)
    yield from on_ansatz(task, learned=False)
    yield Line(Rate(v_i, DECAYED), "=", rate, "The velocity (26) of the value weight, less the decay", uses)


def _at(value) -> Callable:
    """Points with this value weight, which the definition of the decay follows."""
    return lambda point: point.__setitem__(size, value_at(value, point))


@register("V12-rest", "The strengths of weight decay at which a direction is learned")
@states("rest", lambda: lambda_**2 * size - lambda_ * a * size**4)
@states("most", lambda: Rational(3, 4) * lambda_**2 * cbrt(lambda_ / (4 * a)))
@states("slope", lambda: lambda_**2 * size - 4 * lambda_ * a * size**4)
@states("excess", lambda: lambda_**2 * size**3 - 2 * lambda_ * a * size**6)
@states("worth", lambda: lambda_**2 / 2 * cbrt(lambda_ / (2 * a)))
@states("left", lambda: decay / (lambda_**2 * size))
@states("least", lambda: lambda_**2)
@given(r"A head $\boldsymbol{k} = \boldsymbol{q} = v\boldsymbol{e}$ with $v > 0$ in the flow (V12-flow)")
def rests() -> Lines:
    """The strength of the decay as a function of the value weight at rest; where it is largest, and where the loss is that of zero."""
    velocity = flow_along().subs(v, size)
    strength = expand(velocity / size)
    slope = expand((velocity.diff(size) - decay).subs(decay, strength))
    excess = expand(integrate(-6 * (velocity - decay * size), size))
    at_rest = expand(excess.subs(decay, strength))
    top, even = (next(one for one in solve(zero, size) if one.is_positive) for zero in (strength.diff(size), at_rest))
    most, worth = (powsimp(strength.subs(size, one)) for one in (top, even))
    yield Line(Derivative(excess, size), "=", expand(-6 * (velocity - decay * size)), "The flow lowers this: three weights move by $v$")
    yield Line(Derivative(velocity - decay * size, size), "=", velocity.diff(size) - decay, "How the velocity changes with $v$")
    yield Line(velocity.diff(size) - decay, "->", -decay, "Zero weights are a stable rest", parameter=(size, 0), order=1)
    yield Line(decay, ":=", strength, "At rest", part="rest")
    yield Line(decay_most, ":=", most, r"The strength at $v^3 = \lambda/(4a)$", part="most")
    yield Line(decay, "<=", decay_most, "is the largest")
    yield Line(Line(size**3, "=", lambda_ / (4 * a)), "=>", Line(decay, "=", decay_most), "and reached", meets=(_at(top),))
    yield Line(velocity.diff(size) - decay, "=", slope, "The change of the velocity there", part="slope")
    yield Line(Line(size**3, ">", lambda_ / (4 * a)), "<=>", Line(slope, "<", 0), "The rest is stable above that value")
    yield Line(excess, "=", at_rest, "What the loss with the penalty is above that of zero weights", part="excess")
    yield Line(Line(size**3, ">", lambda_ / (2 * a)), "<=>", Line(at_rest, "<", 0), "It is less if and only if")
    yield Line(decay_worth, ":=", worth, "The strength there", part="worth")
    yield Line(Line(size**3, "=", lambda_ / (2 * a)), "=>", Line(decay, "=", decay_worth), "is this", meets=(_at(even),))
    yield Line(decay_worth / decay_most, "=", powsimp(worth / most), "A fixed share of the largest strength")
    yield Line(decay / size, "->", limit(strength / size, size, 0), "Small rests", (), "least", parameter=(size, 0), order=3)
    yield Line(share, ":=", 1 - a * size**3 / lambda_, r"The share of the direction that is not learned, with $v^3$ of $\lambda/a$")
    yield Line(share, "=", decay / (lambda_**2 * size), "is in proportion to the decay", part="left")


@register("V12-plateau", "Weight decay stretches plateaus, and makes those that are too long endless")
@states("key", lambda: decayed_product(k_i))
@states("clock", lambda: tau / decay * (1 - exp(-decay * t / tau)))
@states("wait", lambda: tau / decay * log(1 / (1 - decay * wait / tau)))
@given(r"$\boldsymbol{G}$ is constant, as it is nearly on a plateau")
def plateau() -> Lines:
    """Weights r W, with W on the undecayed flow in a slower time."""
    moving = {**{weight: scale * rate for weight, rate in FREE.items()}, scale: -decay * scale}
    decayed = exp(-decay * t / tau)
    passed = integrate(decayed.subs(t, moment), (moment, 0, t))
    (escape,) = solve(decayed - solve(passed - wait, decayed)[0], t)
    stretched = tau / decay * log(1 / (1 - decay * wait / tau))
    for weight, name in zip(RANK_ONE, NAMES, strict=True):
        yield Line(Rate(scale * weight, moving), "=", decayed_product(weight),
                   f"The {name}, as with decay", part="key" if weight == k_i else "")  # fmt: skip
    yield Line(stretched, "->", wait, "Weak decay leaves a wait as it was", parameter=(decay, 0), order=1)
    yield Line(tau * Derivative(decayed, t), "=", -decay * decayed, "So does $r$, which begins at 1")
    yield Line(Integral(decayed.subs(t, moment), (moment, 0, t)), "=", passed, "The time that passes for $\\boldsymbol{W}$", part="clock")
    yield Line(passed, "->", limit(passed, t, oo), "It stops there: a head that would wait longer never escapes", parameter=t)
    yield Line(wait, ":=", passed, "When it is that of the escape")
    yield Line(t, "=", escape, "the time is", part="wait")


@register("V12-shared", "Heads that share a direction compete under weight decay")
@states("rest", lambda: lambda_**2 * size - n * lambda_ * a * size**4)
@states("rate", lambda: decay)
@given(r"$n$ heads $\boldsymbol{k}_i = \boldsymbol{q}_i = v\boldsymbol{e}$ of one direction, in the flow (V12-flow) with the map of all")
def shared_direction() -> Lines:
    """Two of n heads apart by delta, the map of all unchanged to first order."""
    total = (n - 2) * size**3 + (size + delta) ** 3 + (size - delta) ** 3
    rates = [lambda_**2 * one**2 - lambda_ * a * total * one**2 - decay * one for one in (size + delta, size - delta)]
    apart = expand((rates[0] - rates[1]) / (2 * delta))
    yield Line(decay, ":=", expand(solve(rates[0].subs(delta, 0), decay)[0]), "At rest with equal heads", part="rest")
    yield Line(apart, "->", expand(apart.subs(delta, 0)), "The velocity of half the difference, over it", parameter=(delta, 0), order=2)
    yield Line(expand(apart.subs(delta, 0)), "=", decay, "At rest this is the strength of the decay", part="rate")


@register("V12-merged", "Weight decay in merged attention: one threshold for all directions")
@states("w", lambda: (gamma - decay) * w_2 - alpha * w_2 * w_2.T * w_2)
@states("balance", lambda: -2 * decay * (w_2 * w_2.T - W_1 * W_1.T))
@states("size", lambda: (gamma - decay) / alpha)
@given(UNIT, "w and size: white tokens, on the set (44)")
def merged() -> Lines:
    """The flow (13) less the decay; on the set (44) it is that of one number."""
    free = dict(zip((W_1, w_2), flow_of_layers(), strict=True))
    rates = {weight: rate - decay * TracePolynomial(weight) for weight, rate in free.items()}
    difference = w_2 * w_2.T - W_1 * W_1.T
    drift = Rate(difference, rates)
    white = {CROSS: gamma * c_hat, COVARIANCE: alpha * Identity(FEATURES), W_1: w_2 * c_hat.T}
    on_set = rewrite(substitute(rates[w_2], white), {c_hat.T * c_hat: 1})
    rate = gamma - decay - alpha * s
    yield Line(drift, "=", carried_out(drift), "What (17) conserves, for any tokens", part="balance")
    yield from on_aligned_set()
    yield Line(Rate(w_2, rates), "=", on_set, "The flow (13b) less the decay", (-1,), "w")
    yield Line(Rate(W_1, rates), "=", on_set * c_hat.T, "and (13a): the set is kept", (-2,))
    yield Line(s, ":=", w_2.T * w_2, "The size of the map")
    yield Line(on_set, "=", rate * w_2, "So it changes at the rate", (-1,))
    yield Line(decay, ":=", solve(rate, decay)[0], "which is zero at rest")
    yield Line(s, "=", solve(rate, s)[0], "There the size is", part="size")
