r"""How the directions of merged attention turn while its drop lasts (V7-turn): each one's share of the ray, to leading order.

.. math::
    n_d = \frac{c_d}{\gamma}\,r_d(x), \qquad
    r_d = {}_2F_1\Bigl(1, \frac{1 - \kappa_d/k}2; \frac32; x\Bigr), \qquad x = \frac{ks}{\gamma}

x is the sigmoid (45) with the mean k of kappa_d for alpha. Directions of kappa_d above k stay behind the ray and smaller ones run ahead,
from r_d = 1 at the start towards k/kappa_d, the global minimum, in the time of the drop if kappa_d is near k, slowly if it is small.
"""

from typing import Any

from sympy import Expr, S, Symbol, atan, cancel, diff, factor, hyper, solve, sqrt, symbols

from ...calculus.equality import require_zero
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import gamma, s
from .drop import SETTING, k
from .drop_bounds import C, directions, q, r_d

__all__ = ["c_d", "kappa", "r", "x"]

kappa = Symbol("kappa", positive=True)  # kappa_d
x = Symbol("x", positive=True)
r = r_d
c_d = Symbol("c_d", positive=True)
_j, _deviation = symbols("j y")


@register(
    "V7-turn",
    "What each direction learns while the drop lasts",
    kind="approximation",
    section="beyond the paper",
    left={
        "leading": r"2x(1-x)\frac{dr_d}{dx}",
        "r": r"r_d",
        "end": r"r_d(1)",
        "narrow": r"\partial r_d/\partial\kappa_d\,|_{\kappa_d=k}",
        "fall": r"\left[\mathcal{L}(0)-\mathcal{L}\right]_d",
    },
    typed=lambda: {
        "leading": 1 - r * (1 - x + x * kappa / k),
        "r": hyper((1, (1 - kappa / k) / 2), (S(3) / 2,), x),
        "end": k / kappa,
        "narrow": (atan(_u) / _u - 1) / k,
        "fall": c_d**2 / k * (2 * x * r - kappa / k * x**2 * r**2),
    },
    conditions=(
        *SETTING,
        r"$r_d=\gamma n_d/c_d$, 1 at the start; $k$: the mean of $\kappa_d$ weighted with $c_d^2$; "
        r"$x=ks/\gamma=1/(1+e^{-2\gamma(t-t_m)/\tau})$, $t_m$ the middle of the drop",
        r"Leading order replaces $\gamma C-sq$ in (V7-behind), the growth of $s$, by that on the ray, $\gamma-ks$: it leaves out the "
        r"square of the angle between $\boldsymbol{n}$ and $\boldsymbol{c}$, and $q-k$, of the order of the variance of $\kappa_d$",
        r"Narrow: $u=\sqrt{x/(1-x)}=e^{\gamma(t-t_m)/\tau}$; the directions have turned by the end of the drop, but for $\arctan(u)/u$",
        r"End: the global minimum; the sum over $d$ of the fall is the fall of the loss, on the ray ($r_d=1$) that of (V7-share)",
    ),
)
def turning() -> Derivation:
    """The exact flow of one direction, in the growth of the ray; its power series; the fall of the loss in one direction."""
    exact = directions(r, kappa)
    # in gamma t/tau, in which x grows by 2 x (1 - x)
    on_ray = exact.subs(q, k).subs(C, 1).subs(s, gamma * x / k) / gamma
    leading = factor(on_ray)
    narrow = _narrow(leading)
    end = solve(leading.subs(x, 1), r)[0]
    size = gamma * x / k
    along = size * c_d / gamma * r
    return Derivation.by(
        Step("Along one direction the flow is", exact, r"\tau\dot r_d"),
        Step(r"With $C=1$ and $q=k$, in the time of $x$, $\dot x=2x(1-x)$", leading, part="leading"),
        Step(r"Its power series in $x$ has the ratio of coefficients", _ratio(leading)),
        Step("Which sums to", _series(leading), part="r"),
        Step(r"At $x=1$ the flow rests at", end, part="end"),
        Step(r"Its slope in $\kappa_d$ at $k$", narrow, part="narrow"),
        Step(r"The fall $2c_db-\kappa_db^2$ at $b=sn_d$", cancel(2 * c_d * along - kappa * along**2), part="fall"),
    )


def _ratio(leading: Any) -> Any:
    """The coefficient of x^j in r over that of x^(j-1), for j above 0, from that of x^j in the equation."""
    before, here = symbols("b h")
    terms = before / x + here  # times x^j
    residual = 2 * (1 - x) * ((_j - 1) * before / x + _j * here) - (leading - 1).subs(r, terms)
    (solution,) = solve(residual.expand().coeff(x, 0), here)
    return factor(cancel(solution / before))


def _series(leading: Any) -> Expr:
    """The hypergeometric function with this ratio of coefficients, (j - 1 + A)(j - 1 + B)/((j - 1 + E) j) with A = 1."""
    top, bottom = _ratio(leading).as_numer_denom()
    (above,), (below,) = solve(top, _j), solve(bottom, _j)
    require_zero(cancel(_ratio(leading) - (_j - above) / (_j - below)), leading.subs(x, 0).subs(r, 1))
    return hyper((1, 1 - above), (1 - below,), x)


def _narrow(leading: Any) -> Expr:
    """The solution that is 0 at the start of the flow of a small deviation, put into its equation."""
    rate = diff(leading, kappa).subs({kappa: k, r: 1}) + diff(leading, r).subs({kappa: k, r: 1}) * _deviation
    solution = (atan(_u) / _u - 1) / k
    require_zero(2 * x * (1 - x) * diff(solution, x) - rate.subs(_deviation, solution))
    return solution


_u = sqrt(x / (1 - x))
