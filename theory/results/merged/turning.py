r"""How the directions of merged attention turn while its drop lasts (V7-turn): each one's share of the ray, to leading order.

.. math::
    n_d = \frac{c_d}{\gamma}\,r_d(x), \qquad
    r_d = {}_2F_1\Bigl(1, \frac{1 - \kappa_d/k}2; \frac32; x\Bigr), \qquad x = \frac{ks}{\gamma}

x is the sigmoid (45) with the mean k of kappa_d for alpha. Directions of kappa_d above k stay behind the ray and smaller ones run ahead,
from r_d = 1 at the start towards k/kappa_d, the global minimum, in the time of the drop if kappa_d is near k, slowly if it is small.
"""

from typing import Any

from mpmath import mpf
from sympy import Derivative, Expr, S, Symbol, atan, cancel, factor, hyper, solve, sqrt, symbols

from ...derivations import Condition, Line, Lines, given, note, register, states
from ...notation import alpha, gamma, s
from .drop import LETTERS, MEAN, SETTING, k
from .drop_bounds import C, directions, q, r_d
from .sigmoid import norm_on_aligned_set

kappa = Symbol("kappa", positive=True)  # kappa_d
x = Symbol("x", positive=True)
r = r_d
c_d = Symbol("c_d", positive=True)
b, y, delta = Symbol("b", positive=True), Symbol("y", real=True), Symbol("delta", real=True)
_u = sqrt(x / (1 - x))
DURING = Condition("$0 < x < 1$", lambda point: 0 < point[x] < 1, lambda point: point.__setitem__(x, mpf(point.rng.random())))


@register("V7-turn", "What each direction learns while the drop lasts", kind="approximation")
@states("leading", lambda: 1 - r * (1 - x + x * kappa / k))
@states("r", lambda: hyper((1, (1 - kappa / k) / 2), (S(3) / 2,), x))
@states("end", lambda: k / kappa)
@states("narrow", lambda: (atan(_u) / _u - 1) / k)
@states("fall", lambda: c_d**2 / k * (2 * x * r - kappa / k * x**2 * r**2))
@given(SETTING, DURING)
@note(LETTERS, MEAN, r"$r_d=\gamma n_d/c_d$")
def turning() -> Lines:
    """The exact flow of one direction, in the growth of the ray; its power series; the fall of the loss in one direction."""
    exact, growth = directions(r, kappa) / gamma, norm_on_aligned_set().result["rate"].subs(alpha, k)
    leading = factor(exact.subs({q: k, C: 1}).subs(s, gamma * x / k))
    series, slope = _series(leading), (atan(_u) / _u - 1) / k
    apart = leading.subs({kappa: k + delta, r: 1 + delta * y})
    (end,) = solve(leading.subs(x, 1), r)
    share = cancel(2 * c_d * b - kappa * b**2).subs(b, c_d * x * r / k)
    yield Line(s, ":=", gamma * x / k, "On the ray, the size")
    yield Line(k / gamma * growth / gamma, "=", 2 * x * (1 - x), r"By (45), with $k$ for $\alpha$, the rate of $x$ in $\gamma t/\tau$")
    yield Line(C, ":=", 1, r"With the part along $\boldsymbol{c}$")
    yield Line(q, ":=", k, "and the curvature of the ray, to leading order")
    yield Line(exact, "=", leading, "the flow (V7-behind) of one direction is, in the same time", part="leading")
    yield Line(r, ":=", series, "Its power series sums to")
    yield Line(2 * x * (1 - x) * Derivative(r, x), "=", leading, "It solves that flow")
    yield Line(r, "->", 1, "and starts on the ray", parameter=(x, 0), order=1)
    yield Line(r, "=", series, "So each direction turns as", part="r")
    yield Line(series.subs(x, 1), "=", end, "At the end of the drop, by Gauss's theorem", part="end")
    yield Line(y, ":=", slope, r"If $\kappa_d$ is near $k$, let")
    yield Line(apart, "~", 2 * x * (1 - x) * delta * Derivative(y, x),
               r"$r_d=1+\delta y$ solves the flow for $\kappa_d=k+\delta$", parameter=(delta, 0), order=2)  # fmt: skip
    yield Line((series.subs(kappa, k + delta) - 1) / delta, "->", slope, "So the slope is", (), "narrow", parameter=(delta, 0), order=1)
    yield Line(b, ":=", s * c_d * r / gamma, r"With the component $b=sn_d$ of the map")
    yield Line(2 * c_d * b - kappa * b**2, "=", share, "the loss falls by", part="fall")


def _series(leading: Any) -> Expr:
    """The power series in x that is 1 at 0, by the ratio of its coefficients, (j - 1 + A)(j - 1 + B)/((j - 1 + E) j) with A = 1."""
    before, here, j = symbols("b h j")
    terms = before / x + here  # times x^j
    residual = 2 * (1 - x) * ((j - 1) * before / x + j * here) - (leading - 1).subs(r, terms)
    (solution,) = solve(residual.expand().coeff(x, 0), here)
    (above,), (below,) = (solve(part, j) for part in cancel(solution / before).as_numer_denom())
    return hyper((1, 1 - above), (1 - below,), x)
