r"""Merged attention with any covariance (V7): the reduction to D unknowns, when the drop comes, how much it learns, and what is left.

On balanced weights W_1 = w_2 n' the flow closes in s = w_2'w_2 and the unit vector n, and B = s n stays diagonal in the eigenbasis of
Lambda. Along e_d the force is c_d - kappa_d s n_d with c_d = lambda_d^2 and kappa_d = lambda_d a_d; gamma is the norm of c. Growth turns n
towards c; white tokens, where all kappa_d are equal, stop there (15), others turn on.
"""

from functools import cache

from sympy import Expr, Identity, Rational, Symbol, cancel, diff, factor, log, solve, symbols

from .calculus import substitute
from .derivation import Derivation, Step
from .equations import register
from .notation import B, D, H, Lambda, M, lambda_, matrix, symmetric_matrix, tau, vector
from .reduction import a, alpha, gamma, s
from .residual import require_zero
from .rewriting import rewrite
from .sigmoid import s_0, time_to_norm
from .spectral import along
from .task import force
from .trace_algebra import TracePolynomial

__all__ = ["K", "kappa_max", "kappa_min", "reduced_force"]

kappa_min, kappa_max = symbols("kappa_min kappa_max", positive=True)
K = symmetric_matrix("K", D)  # diag(kappa_d)
n, c_vec = vector("n", D), vector("c", D)
_w_2, _W_1 = vector("w_2", H), matrix("W_1", H, D)
_g = vector("g", D)
SETTING = (
    "Balanced weights, B and Lambda with the same eigenvectors",
    r"$c_d=\lambda_d^2$, $\kappa_d=\lambda_da_d$, $\gamma=\|\boldsymbol{c}\|=\|\boldsymbol{\Lambda}^2\|_F$",
)


@cache
def reduced_force() -> Expr:
    """The force along an eigendirection, where B has the component b."""
    return along(force(), {Lambda: lambda_, M: a, B: Symbol("b")})


@register(
    "V7-flow",
    "Merged attention in D + 1 unknowns",
    kind="exact",
    section="beyond the paper",
    left={
        "force": r"g_d",
        "size": r"\tau\dot s",
        "direction": r"\tau s\,\dot{\boldsymbol{n}}",
    },
    typed=lambda: {
        "force": lambda_**2 - lambda_ * a * Symbol("b"),
        "size": 2 * s * n.T * (c_vec - s * K * n),
        "direction": s * (Identity(D) - n * n.T) * (c_vec - s * K * n),
    },
    conditions=(*SETTING, "b = s n_d; a force diagonal in the eigenbasis of Lambda keeps B so"),
)
def reduced_flow() -> Derivation:
    """The flow (13) on W_1 = w_2 n', with the force along the eigendirections."""
    on_balanced = {_W_1: _w_2 * n.T}
    rules = {_w_2.T * _w_2: s, n.T * n: 1}
    # tau dw_2/dt = W_1 g, tau dW_1/dt = w_2 g'
    rate = 2 * TracePolynomial(_w_2.T * _W_1 * _g)
    map_rate = TracePolynomial((_w_2 * _g.T).T * _w_2 + _W_1.T * _W_1 * _g)  # of W_1' w_2 = s n
    size = rewrite(substitute(rate, on_balanced), rules)
    whole = rewrite(substitute(map_rate, on_balanced), rules)
    in_map = {_g: c_vec - s * K * n}
    turned = whole - size * TracePolynomial(n)
    return Derivation.by(
        Step("Along an eigendirection the force (53) is", reduced_force(), part="force"),
        Step("The flow of s = w_2' w_2", size, r"\tau\dot s"),
        Step("And with the force", substitute(size, in_map), part="size"),
        Step("The flow of s n = W_1' w_2", whole, r"\tau\,d(s\boldsymbol{n})/dt"),
        Step("Less that of its length", substitute(turned, in_map), part="direction"),
    )


@register(
    "V7-time",
    "The time of the drop between two bounds",
    kind="exact",
    section="beyond the paper",
    left={"earliest": r"t(s)\ge", "latest": r"t(s)\le", "apart": r"t_{\rm latest}-t_{\rm earliest}\le"},
    typed=lambda: {
        "earliest": tau / (2 * gamma) * log(s * (gamma - kappa_min * s_0) / (s_0 * (gamma - kappa_min * s))),
        "latest": tau
        / (2 * gamma)
        * log(s * (gamma - _slack * kappa_max * s_0) / (s_0 * (gamma - _slack * kappa_max * s))),
        "apart": tau / (2 * gamma) * log(Rational(128, 95)),
    },
    conditions=(
        *SETTING,
        "From n = c/gamma and s_0, to s at most s_1 = gamma/(4 kappa_max), where the drop has begun; apart: at s_1, 0.15 tau/gamma",
        "Earliest: n'g is at most gamma - kappa_min s",
        "Latest: n turns from c by an angle of at most (kappa_max - kappa_min) s/(2 gamma), which costs n'g at most kappa_max s/32",
        "Both are the flow (45) with kappa for alpha: they agree in gamma, which alone sets the plateau (49)",
    ),
)
def time_of_drop() -> Derivation:
    """Compare ds/dt = 2 s n'g with the flow (45) of two white tasks."""
    growth = reduced_flow().result["size"]
    # the angle: dtheta/dt <= s (kappa_max - kappa_min)/2 and ds/dt >= gamma s, from n'g >= gamma/2 up to s_1
    angle = (kappa_max - kappa_min) * s / (2 * gamma)
    cost = gamma * angle**2 / 2  # of gamma cos(theta), which is at least gamma (1 - theta^2/2)
    s_1 = gamma / (4 * kappa_max)
    worst = cancel((cost / (kappa_max * s)).subs({kappa_min: 0, s: s_1}))
    white = time_to_norm().result
    early, late = white.subs(alpha, kappa_min), white.subs(alpha, (1 + worst) * kappa_max)
    # the gap is the largest for kappa_min = 0 and s_0 = 0
    gap = [time.subs(kappa_min, 0).subs(s, s_1) for time in (late, early)]
    ratio = cancel(_odds(gap[0]) / _odds(gap[1])).subs(s_0, 0)
    return Derivation.by(
        Step("The growth rate", growth, r"\tau\dot s"),
        Step("What the turning of n costs at most, in units of kappa_max s, at s_1", worst),
        Step("The time of (45) with the smallest kappa", early, part="earliest"),
        Step("With the largest, and that cost", late, part="latest"),
        Step(
            "The bounds at s_1 for the widest spectrum and the smallest start",
            tau / (2 * gamma) * log(ratio),
            part="apart",
        ),
    )


_slack = Rational(33, 32)


def _odds(time: Expr) -> Expr:
    """The argument of the logarithm."""
    (logarithm,) = time.atoms(log)
    return logarithm.args[0]


@register(
    "V7-share",
    "How much of the learning is one drop",
    kind="exact",
    section="beyond the paper",
    left={
        "size": "s_r",
        "fall": r"\mathcal{L}(0)-\mathcal{L}(s_r\boldsymbol{c}/\gamma)",
        "share": r"\phi",
        "bound": r"\phi\ge",
        "gap": r"\kappa_{\min}+\kappa_{\max}-\kappa-\kappa_{\min}\kappa_{\max}/\kappa",
    },
    typed=lambda: {
        "size": gamma / _mean,
        "fall": gamma**2 / _mean,
        "share": 1 / (_mean * _inverse_mean),
        "bound": 4 * kappa_min * kappa_max / (kappa_min + kappa_max) ** 2,
        "gap": (_kappa - kappa_min) * (kappa_max - _kappa) / _kappa,
    },
    conditions=(
        *SETTING,
        r"$k$ is the mean of $\kappa_d$ and $k_-$ that of $1/\kappa_d$, both weighted with $c_d^2/\gamma^2=\lambda_d^4/\gamma^2$",
        "The drop along c ends at s_r, where n'g = 0; the share is of the whole fall of the loss, to the global minimum",
        "One drop learns all only where all kappa_d are equal: for white tokens",
        "The bound (Kantorovich's) is met by two values of kappa of equal weight; the gap, nowhere negative, proves it for all",
    ),
)
def share_of_one_drop() -> Derivation:
    """The loss along the ray of c against the global minimum; then the least share for a given range of kappa."""
    half = -s * gamma + s**2 * _mean / 2  # half the loss at B = s c/gamma, less its start
    require_zero(diff(half, s) + gamma - s * _mean)
    (best,) = solve(diff(half, s), s)
    fall = -2 * half.subs(s, best)
    whole = gamma**2 * _inverse_mean  # sum of c_d^2 / kappa_d
    weight = Symbol("x", positive=True)
    two_values = {
        _mean: weight * kappa_max + (1 - weight) * kappa_min,
        _inverse_mean: weight / kappa_max + (1 - weight) / kappa_min,
    }
    pair = cancel((fall / whole).subs(two_values))
    (even,) = solve(cancel(diff(1 / pair, weight)), weight)
    gap = kappa_min + kappa_max - _kappa - kappa_min * kappa_max / _kappa
    # averaged, the gap gives k + kappa_min kappa_max k_- <= kappa_min + kappa_max; a sum is at least twice the root of the product
    proved = 4 * kappa_min * kappa_max / (kappa_min + kappa_max) ** 2
    require_zero(cancel(pair.subs(weight, even) - proved))
    return Derivation.by(
        Step("Half the loss along the ray, less its start", half),
        Step("It is least at", best, part="size"),
        Step("The fall of the loss there", fall, part="fall"),
        Step("Over the whole fall, the sum of c_d^2/kappa_d", cancel(fall / whole), part="share"),
        Step("For two values of kappa, the larger of weight x", pair),
        Step("It is least for x = 1/2", factor(pair.subs(weight, even)), part="bound"),
        Step("What proves the bound for more values", factor(gap), part="gap"),
    )


_mean, _inverse_mean = Symbol("k", positive=True), Symbol("k_-", positive=True)
_kappa = Symbol("kappa", positive=True)
_delta = vector("delta", D)


@register(
    "V7-tail",
    "What is left after the drop decays exponentially",
    kind="exact",
    section="beyond the paper",
    left={"rate": r"\tau\frac{d\boldsymbol{\delta}}{dt}", "ratio": r"\frac{2\gamma}{s_*\kappa_{\min}}\le"},
    typed=lambda: {
        "rate": -s * (Identity(D) + n * n.T) * K * _delta,
        "ratio": 2 * kappa_max / kappa_min,
    },
    conditions=(
        *SETTING,
        r"$\boldsymbol{\delta}$: the distance from the global minimum $s\boldsymbol{n}=\boldsymbol{K}^{-1}\boldsymbol{c}$, to first order",
        "The rates are the eigenvalues of s K^(1/2) (I + n n') K^(1/2): between s kappa_min and 2 s kappa_max; white tokens decay at once",
        "Ratio: how many times longer the slowest rate s_* kappa_min takes than the drop at 2 gamma; s_* is at least gamma/kappa_max",
    ),
)
def tail() -> Derivation:
    """Linearise the flow at the global minimum, where the force vanishes."""
    moving = reduced_flow().steps[3].expression  # the flow of s n, in the force g
    rate = substitute(moving, {_g: -K * _delta})  # only the force varies where it is zero
    least = gamma / kappa_max  # |K^-1 c| >= |c| / kappa_max
    return Derivation.by(
        Step("The flow of omega = s n is |omega| (I + n n') g, and g vanishes at the minimum", rate, part="rate"),
        Step("The slowest rate at least", least * kappa_min),
        Step("The rate of the drop over it", cancel(2 * gamma / (least * kappa_min)), part="ratio"),
    )
