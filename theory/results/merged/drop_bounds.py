r"""When merged attention's drop comes, for any covariance (V7-behind, V7-time, V7-half): the flow of D directions between two sigmoids.

Along the flow from the ray of c = Lambda^2 the directions of larger kappa_d fall behind. So the curvature q = n'Kn that the flow meets is
at most k, the mean of kappa_d weighted with c_d^2, and at least k_S, that mean with the weights c_d^2 exp(-2 kappa_d S), S the integral of
s/tau. The size s is then between two solutions of the sigmoid's equation (45): never later than the one with k for alpha as far as its
middle, s = gamma/(2k), never earlier than the one with k_S.
"""

from itertools import pairwise
from typing import Any

from mpmath import eigsy, exp as exp_of, log as log_of, mpf
from sympy import Derivative, Expr, IndexedBase, Integral, Rational, Sum, Symbol, Trace, cancel, diff, factor, radsimp, solve, symbols
from sympy.functions import exp, log, sqrt

from ...calculus import along, rewrite
from ...derivations import Condition, Line, Lines, Rate, given, note, register, states
from ...derivations.draws import satisfying, unit_vector
from ...notation import D, alpha, e, gamma, s, s_0, t, tau, w_2
from .drop import FLOW, LETTERS, MEAN, OF_K, SETTING, K, c_vec, g, k, layer, n, reduced_flow
from .sigmoid import norm_on_aligned_set

C, q, k_S = symbols("C q k_S", positive=True)  # C = c'n/gamma
psi = Symbol("psi", positive=True)  # the square root of 1 - k_S/(2k)
r_d, r_e, kappa_d, kappa_e = symbols("r_d r_e kappa_d kappa_e", positive=True)
v, z, m, y, x = symbols("v z m y x", positive=True)
c_d = Symbol("c_d", real=True)
d, S = Symbol("d", integer=True), Symbol("S", positive=True)
c_of, r_of, kappa_of = (IndexedBase(name, positive=True) for name in ("c", "r", "kappa"))
FROM_THE_RAY = r"From $\boldsymbol{n}=\boldsymbol{c}/\gamma$ at $s_0$"
MEANS = rf"{MEAN}, $k_S$ that weighted with $c_d^2e^{{-2\kappa_dS}}$, $S=\int s\,dt/\tau$"


def _draw_direction(point) -> None:
    values, vectors = eigsy(point[K])
    place = point.rng.randrange(len(values))
    point[e], point[kappa_d], point[n] = vectors[:, place], values[place], unit_vector(point[D], point)


def _draw_behind(point) -> None:
    kappas = sorted(mpf(point.rng.random()) for _ in range(point[D]))
    ratios = [mpf(1)]
    for before, after in pairwise(kappas):
        ratios.append(ratios[-1] * exp_of(-point[S] * (after - before) * mpf(point.rng.random())))
    point.family(kappa_of, kappas)
    point.family(r_of, ratios)


def _falls_behind(point) -> bool:
    ordered = sorted((point[kappa_of][place], point[r_of][place]) for place in range(1, point[D] + 1))
    return all(0 <= log_of(r / other) <= point[S] * (rise - kappa) for (kappa, r), (rise, other) in pairwise(ordered))


def _draw_before_the_middle(point) -> None:
    point[k_S] = point[k] * mpf(point.rng.random())
    point[s] = point[gamma] / point[k] / 2 * mpf(point.rng.random())
    point[s_0] = point[s] * mpf(point.rng.random()) / 2


DIRECTION = satisfying(
    r"$\boldsymbol{e}$ is a unit vector with $\boldsymbol{K}\boldsymbol{e}=\kappa_d\boldsymbol{e}$, and $\boldsymbol{n}$ one too",
    {K * e: kappa_d * e, n.T * n: 1},
    _draw_direction,
)
BEHIND = Condition(r"$r_d$ falls as $\kappa_d$ rises, and $r_de^{\kappa_dS}$ does not", _falls_behind, _draw_behind)
BEFORE_THE_MIDDLE = Condition(
    r"$s_0 < s \le \gamma/(2k)$, and $k_S \le k$",
    lambda point: 0 < point[k_S] <= point[k] and 0 < point[s_0] < point[s] <= point[gamma] / point[k] / 2,
    _draw_before_the_middle,
)
BETWEEN_THE_ENDS = Condition(
    r"$2^{-1/4}\le y\le1$",
    lambda point: 1 <= 2 * point[y] ** 4 <= 2,
    lambda point: point.__setitem__(y, mpf(2) ** mpf(-point.rng.random() / 4)),
)


def directions(ratio: Expr, kappa: Expr) -> Expr:
    """The flow of r = gamma n_d/c_d, which starts at 1, with C = c'n/gamma and q = n'Kn."""
    component = Symbol("c_d", positive=True)
    values = {c_vec: component, K: kappa, n: ratio * component / gamma}
    turning = along(reduced_flow().result["direction"], values, traces={n.T * c_vec: gamma * C, n.T * K * n: q})  # tau s dn_d/dt
    return cancel(turning * gamma / (component * s))


def mean(weight: Any) -> Any:
    """The mean of kappa_d."""
    return Sum(weight * kappa_of[d], (d, 1, D)) / Sum(weight, (d, 1, D))


@register("V7-behind", r"Directions of larger $\kappa$ fall behind, and the mean $\kappa$ bounds the rest from below")
@states("flow", lambda: gamma - r_d * (s * kappa_d + gamma * C - s * q))
@states("order", lambda: -(r_d - r_e) * (s * kappa_e + gamma * C - s * q) - s * r_d * (kappa_d - kappa_e))
@states("kept", lambda: -s * (kappa_d - kappa_e) + gamma * (1 / r_d - 1 / r_e))
@states("v", lambda: gamma * z - q * v**3)
@states("z", lambda: gamma * v - m * v**2)
@states("monotone", lambda: gamma - 2 * k * v * z)
@given(SETTING, FROM_THE_RAY, DIRECTION)
@note(
    LETTERS,
    MEANS,
    r"Argued, not derived: up to $vz=\gamma/(2k)$, where each of $v$ and $z$ grows with the other, both stay above $v=z$ in (45)",
)
def falling_behind() -> Lines:
    """Component by component from the reduced flow; then the flow of the size and of its part along c."""
    first, second = directions(r_d, kappa_d), directions(r_e, kappa_e)
    growth, turning = (reduced_flow().result[part] for part in ("size", "direction"))
    letters = {c_vec.T * c_vec: gamma**2, n.T * c_vec: gamma * z / v, c_vec.T * K * n: gamma * m / v, n.T * K * n: q}
    size = cancel((rewrite(growth, letters).to_sympy() / (2 * v)).subs(s, v**2))
    turned = (rewrite(c_vec.T * turning, letters).to_sympy() / (gamma * s)).subs(s, v**2)
    part = cancel(size * z / v + v * turned)  # z = v C
    largest = {q: k, m: k * z}
    sigmoid = cancel((norm_on_aligned_set().result["rate"].subs(alpha, k) / (2 * v)).subs(s, v**2))  # (45) for s = v^2
    grown = Rate(w_2.T * w_2, FLOW)
    turns = Rate(layer.T * w_2, FLOW) - n * grown  # tau s dn/dt
    behind = {"conditions": (BEHIND,)}
    yield Line(mean(c_of[d] ** 2 * r_of[d] ** 2), "<=", mean(c_of[d] ** 2),
               r"If $r_d$ falls as $\kappa_d$ rises, the weights $n_d^2=c_d^2r_d^2/\gamma^2$ give it a smaller mean: $q\le k$",
               **behind)  # fmt: skip
    yield Line(mean(c_of[d] ** 2 * r_of[d]), "<=", mean(c_of[d] ** 2), r"so does $c_dn_d$: $m\le kz$", **behind)
    yield Line(mean(c_of[d] ** 2 * r_of[d] ** 2), ">=", mean(c_of[d] ** 2 * exp(-2 * kappa_of[d] * S)),
               r"If $r_de^{\kappa_dS}$ does not fall, $q\ge k_S$", **behind)  # fmt: skip
    yield Line(mean(c_of[d] ** 2 * exp(-2 * kappa_of[d] * (S + x))), "<=", mean(c_of[d] ** 2 * exp(-2 * kappa_of[d] * S)),
               "which falls from $k$ as $S$ grows")  # fmt: skip
    yield Line(layer, ":=", w_2 * n.T, "Balanced weights")
    yield Line(s, ":=", Trace(w_2.T * w_2), "with the size")
    yield Line(g, ":=", OF_K, "under the force (V7-flow)")
    yield Line(gamma, ":=", sqrt(Trace(c_vec.T * c_vec)), r"Let $\gamma$ be the norm of $\boldsymbol{c}$")
    yield Line(C, ":=", Trace(c_vec.T * n) / gamma, r"the part of $\boldsymbol{n}$ along it")
    yield Line(q, ":=", Trace(n.T * K * n), "the curvature that the flow meets")
    yield Line(c_d, ":=", Trace(e.T * c_vec), "and, in one direction, the force at zero")
    yield Line(r_d, ":=", gamma * Trace(e.T * n) / c_d, "and the share of it that is learned, over that of the ray")
    yield Line(gamma / (s * c_d) * Trace(e.T * turns), "=", first, "The share moves as", part="flow")
    yield Line(first - second, "=", factor(first - second),
               r"Two directions apart: from $r_d=r_e$ on, that of the larger $\kappa$ is behind", part="order")  # fmt: skip
    yield Line(cancel(first / r_d - second / r_e), "=", -s * (kappa_d - kappa_e) + gamma * (1 / r_d - 1 / r_e),
               r"In proportion: behind, it gains by the last term, so that $r_de^{\kappa_dS}$ is ahead", part="kept")  # fmt: skip
    yield Line(Derivative(part.subs(largest), v), "=", diff(part.subs(largest), v),
               r"Below, $\dot v=\gamma z-qv^3$ rises with $z$, and $\dot z=\gamma v-mv^2$ with $v$ if $m=kz$, at the slope",
               part="monotone")  # fmt: skip
    yield Line(v, ":=", sqrt(s), "The square root of the size")
    yield Line(z, ":=", v * C, r"its part along $\boldsymbol{c}$")
    yield Line(m, ":=", v * Trace(c_vec.T * K * n) / gamma, "and the curvature that this meets")
    yield Line(grown / (2 * v), "=", size, "The root moves as", part="v")
    yield Line(C * grown / (2 * v) + v / s * Trace(c_vec.T * turns) / gamma, "=", part, r"and $\dot z=\dot vC+v\dot C$ is", part="z")
    yield Line(z, ":=", v, r"On $v=z$, with $k$ for $q$ and $kz$ for $m$")
    for rate in (size, part):
        yield Line(rate.subs(largest), "=", sigmoid, "both flows are the sigmoid's (45)")


def _time(curvature: Any, size: Any) -> tuple[Any, str, Any]:
    """The time of (45) from s_0 to a size, as an integral and as a logarithm."""
    rate, time = (norm_on_aligned_set().result[part].subs(alpha, curvature) for part in ("rate", "integral"))
    (logarithm,) = time.atoms(log)
    odds = factor(logarithm.args[0].subs(s, size).expand())
    return Integral(tau / rate.subs(s, x), (x, s_0, size)), "=", tau / (2 * gamma) * log(odds)


def _travelled(size: Any) -> tuple[Any, str, Any]:
    """S by the latest time at which s is ``size``: s is at most s_0 exp(2 gamma t/tau)."""
    latest = _time(k, size)[2]
    path = Integral(s_0 * exp(2 * gamma * x / tau) / tau, (x, 0, t))
    return path, "=", factor(path.doit().subs(exp(2 * gamma * t / tau), latest.args[-1].args[0]))


@register("V7-time", "The time at which the drop reaches a size, between two bounds")
@states("earliest", lambda: tau / (2 * gamma) * log(s * (gamma - k_S * s_0) / (s_0 * (gamma - k_S * s))))
@states("latest", lambda: tau / (2 * gamma) * log(s * (gamma - k * s_0) / (s_0 * (gamma - k * s))))
@states("S", lambda: (s - s_0) / (2 * (gamma - k * s)))
@states("apart", lambda: tau / (2 * gamma) * log(2))
@given(SETTING, FROM_THE_RAY, BEFORE_THE_MIDDLE)
@note(LETTERS, MEANS)
def time_of_drop() -> Lines:
    """The time of (45) at the two curvatures."""
    early, late = _time(k_S, s), _time(k, s)
    yield Line(*early, r"The drop comes no earlier than (45) with the smallest curvature, as $C\le1$ and $q\ge k_S$", part="earliest")
    yield Line(*late, "and no later than with the largest", part="latest")
    yield Line(t, ":=", late[2], "Until that time")
    yield Line(*_travelled(s), r"$s$ is at most $s_0e^{2\gamma t/\tau}$, so that $S$ is at most", part="S")
    yield Line(s, ":=", gamma / (2 * k), "In the middle of the sigmoid")
    yield Line(late[2] - early[2], "<=", tau / (2 * gamma) * log(_widest(late, early, gamma / (2 * k))), "they are apart by", part="apart")


def _widest(late: tuple, early: tuple, size: Any) -> Any:
    """exp(2 gamma/tau) of the difference of two times, for k_S = 0 and the smallest start."""
    ratio = cancel(late[2].args[-1].args[0] / early[2].args[-1].args[0])
    return radsimp(cancel(ratio.subs(s, size)).subs({k_S: 0, psi: 1}).subs(s_0, 0))


@register("V7-half", "The time to half of the drop, between two bounds")
@states("least", lambda: gamma / (2 * k * (1 + psi)))
@states("earliest", lambda: tau / (2 * gamma) * log((gamma - 2 * k * (1 - psi**2) * s_0) / (2 * k * psi * (1 + psi) * s_0)))
@states("latest", lambda: tau / (2 * gamma) * log((sqrt(2) - 1) * (gamma - k * s_0) / (k * s_0)))
@states("S", lambda: ((sqrt(2) - 1) * gamma / k - sqrt(2) * s_0) / (2 * gamma))
@states("apart", lambda: tau / (2 * gamma) * log(4 * (sqrt(2) - 1)))
@states("bend", lambda: -12 * k * v**2)
@states("slow", lambda: Rational(1, 2))
@states("fast", lambda: 2 ** Rational(3, 4) * (sqrt(2) - 1) - (sqrt(2) - 1) ** 2)
@states("arc", lambda: -12 * (sqrt(2) - 1) ** 2 * y**2)
@given(SETTING, FROM_THE_RAY, BEFORE_THE_MIDDLE)
@note(
    LETTERS,
    MEANS,
    r"Half of the drop: a loss lower by $\gamma^2/(2k)$, half of what the ray holds (V7-share)",
    r"Argued, not derived: by the latest time the loss has fallen by at least $2\gamma vz-kv^4$, with $z$ no less than the sigmoid's and "
    "$v$ between that and the growth with $k_S$. This bends down in $v$, so that the two ends decide; a larger $s_0$ lowers the upper one",
)
def half_of_the_drop() -> Lines:
    """The sizes that half of the fall needs and that the sigmoid has by then; the fall of the flow at that time."""
    floor = 2 * k * (1 - psi**2)  # k_S
    ray = 2 * gamma * s - k_S * s**2
    roots = solve((ray.subs(k_S, floor) - gamma**2 / (2 * k)) / gamma**2, s)
    least = factor(cancel(min(roots, key=lambda root: root.subs({gamma: 1, k: 1, psi: Rational(3, 4)}))))
    last = radsimp(least.subs(psi, 1 / sqrt(2)))  # k_S = k
    early, late = _time(floor, least), _time(k, last)
    apart = tau / (2 * gamma) * log(_widest(late, early, s))
    # with k and for a small start: k s_0 exp(2 gamma t/tau)/gamma by then
    odds = factor(radsimp(last / (gamma / k - last)))
    fall = 2 * gamma * v * z - k * v**4
    slowest, fastest = sqrt(odds / (1 + odds)), sqrt(odds) * y  # v of the sigmoid, and v with k_S, 1 + odds k_S = 1/y^2
    lower, upper = (fall.subs({gamma: 1, k: 1, z: slowest, v: one}) for one in (slowest, fastest))
    yield Line(psi, ":=", sqrt(1 - k_S / (2 * k)), "With the root")
    yield Line(s, ":=", least, r"the fall with $q=k_S$ along the ray, $2\gamma s-k_Ss^2$, reaches at the size")
    yield Line(ray, "=", gamma**2 / (2 * k), r"half of $\gamma^2/k$")
    yield Line(s, "=", least, "So the least size is", part="least")
    yield Line(*early, "The time of (45) there", part="earliest")
    yield Line(*late, r"And with $k$", part="latest")
    yield Line(late[2] - early[2], "<=", apart, "They are apart by", part="apart")
    yield Line(t, ":=", late[2], "Until the latest time")
    yield Line(*_travelled(last), "$S$ is at most", part="S")
    yield Line(Derivative(fall, (v, 2)), "=", diff(fall, v, 2), r"The fall $2\gamma vz-kv^4$ bends down in $v$", part="bend")
    yield Line(z, ":=", slowest * sqrt(gamma / k), "The root of the sigmoid's size")
    yield Line(fall.subs(v, z) * k / gamma**2, "=", lower, "At the lower end, $v=z$, the share of what the ray holds", part="slow")
    yield Line(v, ":=", fastest * sqrt(gamma / k), r"At the upper end, with $y=(1+(\sqrt2-1)k_S/k)^{-1/2}$")
    yield Line(fall * k / gamma**2, "=", upper, "the share is")
    yield Line(Derivative(upper, (y, 2)), "=", diff(upper, y, 2), "It bends down in $y$", part="arc")
    yield Line(upper.subs(y, 2 ** Rational(-1, 4)), "=", Rational(1, 2), "and is for $k_S=k$")
    yield Line(upper.subs(y, 1), "=", upper.subs(y, 1).expand(), "for $k_S=0$", part="fast")
    yield Line(upper, ">=", Rational(1, 2), "So it is at least half", conditions=(BETWEEN_THE_ENDS,))
