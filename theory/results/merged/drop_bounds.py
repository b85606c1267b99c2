r"""When merged attention's drop comes, for any covariance (V7-behind, V7-time, V7-half): the flow of D directions between two sigmoids.

Along the flow from the ray of c = Lambda^2 the directions of larger kappa_d fall behind. So the curvature q = n'Kn that the flow meets is
at most k, the mean of kappa_d weighted with c_d^2, and at least k_S, that mean with the weights c_d^2 exp(-2 kappa_d S), S the integral of
s/tau. The size s is then between two solutions of the sigmoid's equation (45): never later than the one with k for alpha as far as its
middle, s = gamma/(2k), never earlier than the one with k_S.
"""

from typing import Any

from sympy import Expr, Rational, Symbol, cancel, diff, exp, factor, integrate, log, radsimp, solve, sqrt, symbols

from ...calculus.equality import require_zero
from ...calculus.rewriting import rewrite
from ...calculus.spectral import along
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import alpha, gamma, s, s_0, tau
from .drop import SETTING, K, c_vec, k, n, reduced_flow
from .sigmoid import norm_on_aligned_set

__all__ = ["C", "directions", "k_S", "psi", "q", "r_d"]

C, q, k_S = symbols("C q k_S", positive=True)  # C = c'n/gamma
psi = Symbol("psi", positive=True)  # the square root of 1 - k_S/(2k)
r_d, r_e, kappa_d, kappa_e = symbols("r_d r_e kappa_d kappa_e", positive=True)
v, z, m, y = symbols("v z m y", positive=True)
FROM_THE_RAY = (
    r"From $\boldsymbol{n}=\boldsymbol{c}/\gamma$ at $s_0$; $k$ is the mean of $\kappa_d$ weighted with $c_d^2$, $k_S$ that weighted with "
    r"$c_d^2e^{-2\kappa_dS}$, $S=\int s\,dt/\tau$"
)


def directions(ratio: Expr, kappa: Expr) -> Expr:
    """The flow of r = gamma n_d/c_d, which starts at 1, with C = c'n/gamma and q = n'Kn."""
    component = Symbol("c_d", positive=True)
    values = {c_vec: component, K: kappa, n: ratio * component / gamma}
    turning = along(reduced_flow().result["direction"], values, traces={n.T * c_vec: gamma * C, n.T * K * n: q})  # tau s dn_d/dt
    return cancel(turning * gamma / (component * s))


@register(
    "V7-behind",
    r"Directions of larger $\kappa$ fall behind, and the mean $\kappa$ bounds the rest from below",
    kind="exact",
    section="beyond the paper",
    left={
        "flow": r"\tau\dot r_d",
        "order": r"\tau\frac{d}{dt}(r_d-r_e)",
        "kept": r"\tau\frac{d}{dt}\ln\frac{r_d}{r_e}",
        "v": r"\tau\dot v",
        "z": r"\tau\dot z",
        "monotone": r"\partial(\tau\dot z)/\partial v\,|_{m=kz}",
    },
    typed=lambda: {
        "flow": gamma - r_d * (s * kappa_d + gamma * C - s * q),
        "order": -(r_d - r_e) * (s * kappa_e + gamma * C - s * q) - s * r_d * (kappa_d - kappa_e),
        "kept": -s * (kappa_d - kappa_e) + gamma * (1 / r_d - 1 / r_e),
        "v": gamma * z - q * v**3,
        "z": gamma * v - m * v**2,
        "monotone": gamma - 2 * k * v * z,
    },
    conditions=(
        *SETTING,
        FROM_THE_RAY,
        r"$r_d=\gamma n_d/c_d$, $C=\boldsymbol{c}^\top\boldsymbol{n}/\gamma$, $q=\boldsymbol{n}^\top\boldsymbol{Kn}$, $v=\sqrt{s}$, "
        r"$z=vC$, $m=v\,\boldsymbol{c}^\top\boldsymbol{Kn}/\gamma$",
        r"Order: $r_d=r_e$ at the start, so $r_d$ stays the smaller if $\kappa_d>\kappa_e$; then $n_d^2=c_d^2r_d^2/\gamma^2$ weighs large "
        r"$\kappa_d$ less than $c_d^2$ does, so that $q\le k$ and $m\le kz$",
        r"Kept: $r_d/r_e\ge e^{-(\kappa_d-\kappa_e)S}$ then, so that $q\ge k_S$",
        r"With $k$ for $q$ and $kz$ for $m$ both flows are (45) on $v=z$; up to $vz=\gamma/(2k)$ each grows with the other, so that "
        "$v$ and $z$ stay above that solution",
    ),
)
def falling_behind() -> Derivation:
    """Component by component from the reduced flow; then the flow of the size and of its part along c."""
    first, second = directions(r_d, kappa_d), directions(r_e, kappa_e)
    apart = factor(first - second)
    growth, turning = (reduced_flow().result[part] for part in ("size", "direction"))
    letters = {c_vec.T * c_vec: gamma**2, n.T * c_vec: gamma * z / v, c_vec.T * K * n: gamma * m / v, n.T * K * n: q}
    size = (rewrite(growth, letters).to_sympy() / (2 * v)).subs(s, v**2)
    turned = (rewrite(c_vec.T * turning, letters).to_sympy() / (gamma * s)).subs(s, v**2)
    part = cancel(size * z / v + v * turned)  # z = v C
    largest = {q: k, m: k * z}
    sigmoid = gamma * v - k * v**3  # (45) for s = v^2
    require_zero(*(rate.subs(largest).subs(z, v) - sigmoid for rate in (size, part)))
    return Derivation.by(
        Step("The component of the flow along an eigendirection", first, part="flow"),
        Step("Two directions apart", apart, part="order"),
        Step("And in proportion", cancel(first / r_d - second / r_e), part="kept"),
        Step("The square root of the size", cancel(size), part="v"),
        Step(r"Its part along $\boldsymbol{c}$", part, part="z"),
        Step(r"Their slopes in each other: $\gamma$, and", diff(part.subs(largest), v), part="monotone"),
    )


def _odds(time: Expr) -> Any:
    """The argument of the logarithm."""
    (logarithm,) = time.atoms(log)
    return logarithm.args[0]


def _travelled(size: Any) -> Any:
    """S by the latest time at which s is ``size``: s is at most s_0 exp(2 gamma t/tau)."""
    t = Symbol("t", positive=True)
    path = integrate(s_0 * exp(2 * gamma * t / tau) / tau, (t, 0, t))
    latest = norm_on_aligned_set().result["integral"].subs({alpha: k, s: size})
    return factor(path.subs(exp(2 * gamma * t / tau), _odds(latest)))


@register(
    "V7-time",
    "The time at which the drop reaches a size, between two bounds",
    kind="exact",
    section="beyond the paper",
    left={"earliest": r"t(s)\ge", "latest": r"t(s)\le", "S": r"S\le", "apart": r"t_{\rm latest}-t_{\rm earliest}\le"},
    typed=lambda: {
        "earliest": tau / (2 * gamma) * log(s * (gamma - k_S * s_0) / (s_0 * (gamma - k_S * s))),
        "latest": tau / (2 * gamma) * log(s * (gamma - k * s_0) / (s_0 * (gamma - k * s))),
        "S": (s - s_0) / (2 * (gamma - k * s)),
        "apart": tau / (2 * gamma) * log(2),
    },
    conditions=(
        *SETTING,
        FROM_THE_RAY,
        r"For $s\le\gamma/(2k)$, the middle of the sigmoid; apart: there, for the widest spectrum, $0.35\,\tau/\gamma$",
        r"Both are times of (45), of white tokens that have $k$ or $k_S$ for $\alpha$, by (V7-behind)",
        r"In both $\gamma$ alone sets the plateau (49)",
        r"$k_S$ is the smaller, the larger $S$ is: with this bound for $S$ it holds until $t(s)$; $k_S=\kappa_{\min}$ holds at all times",
    ),
)
def time_of_drop() -> Derivation:
    """The time of (45) at the two curvatures."""
    white = norm_on_aligned_set().result["integral"]
    early, late = white.subs(alpha, k_S), white.subs(alpha, k)
    ratio = cancel(_odds(late) / _odds(early)).subs(s, gamma / (2 * k)).subs({k_S: 0, s_0: 0})
    return Derivation.by(
        Step("The time of (45) with the smallest curvature", early, part="earliest"),
        Step("With the largest", late, part="latest"),
        Step("$S$ at that time", _travelled(s), part="S"),
        Step(r"The bounds at $\gamma/(2k)$ for $k_S=0$ and the smallest start", tau / (2 * gamma) * log(ratio), part="apart"),
    )


@register(
    "V7-half",
    "The time to half of the drop, between two bounds",
    kind="exact",
    section="beyond the paper",
    left={
        "least": r"s(t_{1/2})\ge",
        "earliest": r"t_{1/2}\ge",
        "latest": r"t_{1/2}\le",
        "S": r"S\le",
        "apart": r"t_{\rm latest}-t_{\rm earliest}\le",
        "bend": r"\partial^2 f/\partial v^2",
        "slow": r"f(v,z)k/\gamma^2",
        "fast": r"f(v,z)k/\gamma^2",
        "arc": r"\frac{d^2}{dy^2}\,f(v,z)k/\gamma^2",
    },
    typed=lambda: {
        "least": gamma / (2 * k * (1 + psi)),
        "earliest": tau / (2 * gamma) * log((gamma - 2 * k * (1 - psi**2) * s_0) / (2 * k * psi * (1 + psi) * s_0)),
        "latest": tau / (2 * gamma) * log((sqrt(2) - 1) * (gamma - k * s_0) / (k * s_0)),
        "S": ((sqrt(2) - 1) * gamma / k - sqrt(2) * s_0) / (2 * gamma),
        "apart": tau / (2 * gamma) * log(4 * (sqrt(2) - 1)),
        "bend": -12 * k * v**2,
        "slow": Rational(1, 2),
        "fast": 2 ** Rational(3, 4) * (sqrt(2) - 1) - (sqrt(2) - 1) ** 2,
        "arc": -12 * (sqrt(2) - 1) ** 2 * y**2,
    },
    conditions=(
        *SETTING,
        FROM_THE_RAY,
        (
            r"$t_{1/2}$: when the loss has fallen by half of $\gamma^2/k$, what the ray of $\boldsymbol{c}$ holds (V7-share); "
            r"$\psi=\sqrt{1-k_S/(2k)}$"
        ),
        r"Earliest: with $q\ge k_S$ the fall $2s\,\boldsymbol{c}^\top\boldsymbol{n}-qs^2$ needs the size least, which (V7-time) dates",
        r"Latest: when the sigmoid (45) with $k$ for $\alpha$ has fallen by half; the flow's fall is at least $f(v,z)=2\gamma vz-kv^4$, "
        r"where $z$ is at least the sigmoid's and $v$ lies between that and the growth with $k_S$, $v^2<\gamma/(2k)$; $f$ bends down in "
        r"$v$, so that its ends decide",
        (
            r"Slow: the lower end, $1/2$; at the upper one $f$ bends down in $y=(1+(\sqrt2-1)k_S/k)^{-1/2}$, from "
            "$1/2$ at $k_S=k$ to fast, 0.525, at $k_S=0$: nowhere less than $1/2$; a larger $s_0$ brings the upper "
            "end down"
        ),
        r"Apart: for the widest spectrum, $0.25\,\tau/\gamma$; equal for white tokens",
    ),
)
def half_of_the_drop() -> Derivation:
    """The sizes that half of the fall needs and that the sigmoid has by then; the fall of the flow at that time."""
    white = norm_on_aligned_set().result["integral"]
    half = gamma**2 / (2 * k)
    floor = 2 * k * (1 - psi**2)  # k_S
    roots = solve((2 * gamma * s - floor * s**2 - half) / gamma**2, s)
    least = cancel(min(roots, key=lambda root: root.subs({gamma: 1, k: 1, psi: Rational(3, 4)})))
    last = radsimp(least.subs(psi, 1 / sqrt(2)))  # k_S = k
    early = factor(_odds(white.subs({alpha: floor, s: least})))
    late = factor(_odds(white).subs({alpha: k, s: last}).expand())
    ratio = cancel(late / early).subs(s_0, 0).subs(psi, 1)
    # with k and for a small start: k s_0 exp(2 gamma t/tau)/gamma by then
    e = factor(radsimp(last / (gamma / k - last)))
    fall = 2 * gamma * v * z - k * v**4
    # in units gamma = k = 1
    slowest, fastest = sqrt(e / (1 + e)), sqrt(e) * y  # v of the sigmoid, and v with k_S, 1 + e k_S = 1/y^2
    at = {gamma: 1, k: 1, z: slowest}
    upper = fall.subs(at).subs(v, fastest)
    return Derivation.by(
        Step(r"With $q=k_S$ the fall is half of $\gamma^2/k$ at", least, part="least"),
        Step("The time of (45) there", tau / (2 * gamma) * log(early), part="earliest"),
        Step(r"And with $k$", tau / (2 * gamma) * log(late), part="latest"),
        Step("$S$ at that time", _travelled(last), part="S"),
        Step(r"The bounds for $k_S=0$ and the smallest start", tau / (2 * gamma) * log(ratio), part="apart"),
        Step(r"The fall is at least, since $q\le k$", fall),
        Step(r"It bends down in $v$", diff(fall, v, 2), part="bend"),
        Step(r"The lower end, $v=z$, of what the ray holds", fall.subs(at).subs(v, slowest), part="slow"),
        Step("The upper end", upper),
        Step(r"Which at $k_S=0$ is", upper.subs(y, 1), part="fast"),
        Step(r"And bends down in $y$", diff(upper, y, 2), part="arc"),
    )
