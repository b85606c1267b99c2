r"""Merged attention with any covariance (V7): the reduction to D unknowns, how much the ray of Lambda^2 holds, and what is left.

On balanced weights W_1 = w_2 n' the flow closes in s = w_2'w_2 and the unit vector n, and B = s n stays diagonal in the eigenbasis of
Lambda. Along e_d the force is c_d - kappa_d s n_d with c_d = lambda_d^2 and kappa_d = lambda_d a_d; gamma is the norm of c. Growth turns n
towards c; white tokens, where all kappa_d are equal, stop there (15), others turn on: when the drop comes is in
:mod:`~iclflow.theory.results.merged.drop_bounds`, how they turn in :mod:`~iclflow.theory.results.merged.turning`.
"""

from sympy import Identity, Symbol, cancel, diff, factor, solve, symbols

from ...algebra.polynomial import TracePolynomial
from ...calculus.equality import require_zero
from ...calculus.rewriting import rewrite
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import D, a, gamma, lambda_, s, symmetric_matrix, vector
from ..task.regression import force_along
from .balanced_flow import balanced_flow

__all__ = ["SETTING", "K", "c_vec", "k", "k_2", "kappa_max", "kappa_min", "n", "reduced_flow"]

kappa_min, kappa_max = symbols("kappa_min kappa_max", positive=True)
# Means of kappa_d, 1/kappa_d and kappa_d^2, weighted with c_d^2
k, _inverse_mean, k_2 = symbols("k k_- k_2", positive=True)
K = symmetric_matrix("K", D)  # diag(kappa_d)
n, c_vec = vector("n", D), vector("c", D)
_g = vector("g", D)
SETTING = (
    r"Balanced weights, $\boldsymbol{B}$ and $\boldsymbol{\Lambda}$ with the same eigenvectors",
    r"$c_d=\lambda_d^2$, $\kappa_d=\lambda_da_d$, $\gamma=\|\boldsymbol{c}\|=\|\boldsymbol{\Lambda}^2\|_F$",
)


@register(
    "V7-flow",
    "Merged attention in $D + 1$ unknowns",
    kind="exact",
    section="beyond the paper",
    left={"force": r"g_d", "size": r"\tau\dot s", "direction": r"\tau s\,\dot{\boldsymbol{n}}"},
    typed=lambda: {
        "force": lambda_**2 - lambda_ * a * Symbol("b"),
        "size": 2 * s * n.T * (c_vec - s * K * n),
        "direction": s * (Identity(D) - n * n.T) * (c_vec - s * K * n),
    },
    conditions=(
        *SETTING,
        (
            r"$b = s n_{d}$; a force diagonal in the eigenbasis of $\boldsymbol{\Lambda}$ keeps "
            r"$\boldsymbol{B}$ so"
        ),
    ),
)
def reduced_flow() -> Derivation:
    """The flow (13) on W_1 = w_2 n', with the force along the eigendirections."""
    size, map_ = balanced_flow(n, _g)
    in_map = {_g: c_vec - s * K * n}
    turned = map_ - size * TracePolynomial(n)
    return Derivation.by(
        Step("Along an eigendirection the force (53) is", force_along(Symbol("b")), part="force"),
        Step(r"The flow of $s = \boldsymbol{w}_{2}^{\top} \boldsymbol{w}_{2}$", size, r"\tau\dot s"),
        Step("And with the force", substitute(size, in_map), part="size"),
        Step(r"The flow of $s\boldsymbol{n} = \boldsymbol{W}_{1}^{\top} \boldsymbol{w}_{2}$", map_, r"\tau\,d(s\boldsymbol{n})/dt"),
        Step("Less that of its length", substitute(turned, in_map), part="direction"),
    )


@register(
    "V7-share",
    r"How much of the learning the ray of $\boldsymbol{\Lambda}^2$ holds",
    kind="exact",
    section="beyond the paper",
    left={
        "size": "s_r",
        "fall": r"\mathcal{L}(0)-\mathcal{L}(s_r\boldsymbol{c}/\gamma)",
        "share": r"\phi",
        "bound": r"\phi\ge",
        "gap": r"\kappa_{\min}+\kappa_{\max}-\kappa-\kappa_{\min}\kappa_{\max}/\kappa",
        "on": r"-\tau\dot{\mathcal{L}}(s_r\boldsymbol{c}/\gamma)",
    },
    typed=lambda: {
        "size": gamma / k,
        "fall": gamma**2 / k,
        "share": 1 / (k * _inverse_mean),
        "bound": 4 * kappa_min * kappa_max / (kappa_min + kappa_max) ** 2,
        "gap": (_kappa - kappa_min) * (kappa_max - _kappa) / _kappa,
        "on": 2 * gamma * (k_2 / k**2 - 1) * gamma**2 / k,
    },
    conditions=(
        *SETTING,
        r"$k$, $k_-$, $k_2$: the means of $\kappa_d$, $1/\kappa_d$, $\kappa_d^2$, weighted with $c_d^2/\gamma^2=\lambda_d^4/\gamma^2$",
        r"The share is that of the least loss on the ray of $\boldsymbol{c}$, at $s_r$ where $\boldsymbol{n}^\top\boldsymbol{g}=0$, in the "
        "whole fall to the global minimum",
        r"It is 1 only where all $\kappa_d$ are equal, for white tokens; other flows leave the ray while they run along it, and learn more",
        r"How much more: at $s_r$ the loss falls on, in a time $\tau/\gamma$ by $2(k_2/k^2-1)$ of what the ray holds: by 0.0002 for "
        "eigenvalues 10 : 1, whose drop ends at the share, but by 0.2 for 3 : 2 : 1, whose drop learns much more",
        "(V7-turn) is the next order, for both",
        (
            r"The bound (Kantorovich's) is met by two values of $\kappa$ of equal weight; the gap, nowhere negative, "
            "proves it for all"
        ),
    ),
)
def share_of_one_drop() -> Derivation:
    """The loss along the ray of c against the global minimum; the least share for a given range of kappa; the fall that goes on."""
    half = -s * gamma + s**2 * k / 2  # half the loss at B = s c/gamma, less its start
    require_zero(diff(half, s) + gamma - s * k)
    (best,) = solve(diff(half, s), s)
    fall = -2 * half.subs(s, best)
    whole = gamma**2 * _inverse_mean  # sum of c_d^2 / kappa_d
    weight = Symbol("x", positive=True)
    two_values = {k: weight * kappa_max + (1 - weight) * kappa_min, _inverse_mean: weight / kappa_max + (1 - weight) / kappa_min}
    pair = cancel((fall / whole).subs(two_values))
    (even,) = solve(cancel(diff(1 / pair, weight)), weight)
    gap = kappa_min + kappa_max - _kappa - kappa_min * kappa_max / _kappa
    # averaged, the gap gives k + kappa_min kappa_max k_- <= kappa_min + kappa_max; a sum is at least twice the root of the product
    proved = 4 * kappa_min * kappa_max / (kappa_min + kappa_max) ** 2
    require_zero(cancel(pair.subs(weight, even) - proved))
    # dL = -2 g' d(s n)
    falling = substitute(2 * _g.T * balanced_flow(n, _g).map, {_g: c_vec - s * K * n})
    on_ray = substitute(falling, {n: c_vec / gamma, s: best})
    means = {c_vec.T * c_vec: gamma**2, c_vec.T * K * c_vec: gamma**2 * k, c_vec.T * K**2 * c_vec: gamma**2 * k_2}
    return Derivation.by(
        Step("Half the loss along the ray, less its start", half),
        Step("It is least at", best, part="size"),
        Step("The fall of the loss there", fall, part="fall"),
        Step(r"Over the whole fall, the sum of $c_{d}^{2}/\kappa_{d}$", cancel(fall / whole), part="share"),
        Step(r"For two values of $\kappa$, the larger of weight $x$", pair),
        Step(r"It is least for $x=1/2$", factor(pair.subs(weight, even)), part="bound"),
        Step("What proves the bound for more values", factor(gap), part="gap"),
        Step("The fall of the loss along the flow", falling),
        Step("At the end of the ray", factor(rewrite(on_ray, means).to_sympy()), part="on"),
    )


_kappa = Symbol("kappa", positive=True)
_delta = vector("delta", D)


@register(
    "V7-tail",
    "What is left after the drop decays exponentially",
    kind="exact",
    section="beyond the paper",
    left={"rate": r"\tau\frac{d\boldsymbol{\delta}}{dt}", "ratio": r"\frac{2\gamma}{s_*\kappa_{\min}}\le"},
    typed=lambda: {"rate": -s * (Identity(D) + n * n.T) * K * _delta, "ratio": 2 * kappa_max / kappa_min},
    conditions=(
        *SETTING,
        r"$\boldsymbol{\delta}$: the distance from the global minimum $s\boldsymbol{n}=\boldsymbol{K}^{-1}\boldsymbol{c}$, to first order",
        (
            r"The rates are the eigenvalues of $s \boldsymbol{K}^{1/2} (\boldsymbol{I} + \boldsymbol{n} \boldsymbol{n}^{\top}) "
            r"\boldsymbol{K}^{1/2}$: between $s \kappa_{\min}$ and $2 s \kappa_{\max}$; white tokens decay at "
            "once"
        ),
        (
            r"Ratio: how many times longer the slowest rate $s_{*} \kappa_{\min}$ takes than the drop at "
            r"$2\gamma$; $s_{*}$ is at least $\gamma/\kappa_{\max}$"
        ),
    ),
)
def tail() -> Derivation:
    """Linearise the flow at the global minimum, where the force vanishes."""
    moving = balanced_flow(n, _g).map  # the flow of s n, in the force g
    rate = substitute(moving, {_g: -K * _delta})  # only the force varies where it is zero
    least = gamma / kappa_max  # |K^-1 c| >= |c| / kappa_max
    return Derivation.by(
        Step(
            (
                r"The flow of $\boldsymbol{\omega} = s\boldsymbol{n}$ is $|\boldsymbol{\omega}| (\boldsymbol{I} + \boldsymbol{n} "
                r"\boldsymbol{n}^{\top}) \boldsymbol{g}$, and $\boldsymbol{g}$ vanishes at the minimum"
            ),
            rate,
            part="rate",
        ),
        Step("The slowest rate at least", least * kappa_min),
        Step("The rate of the drop over it", cancel(2 * gamma / (least * kappa_min)), part="ratio"),
    )
