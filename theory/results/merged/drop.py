r"""Merged attention with any covariance (V7): the reduction to D unknowns, how much the ray of Lambda^2 holds, and what is left.

On balanced weights W_1 = w_2 n' the flow closes in s = w_2'w_2 and the unit vector n, and B = s n stays diagonal in the eigenbasis of
Lambda. Along e_d the force is c_d - kappa_d s n_d with c_d = lambda_d^2 and kappa_d = lambda_d a_d; gamma is the norm of c. Growth turns n
towards c; white tokens, where all kappa_d are equal, stop there (15), others turn on: when the drop comes is in
:mod:`~iclflow.theory.results.merged.drop_bounds`, how they turn in :mod:`~iclflow.theory.results.merged.turning`.
"""

from mpmath import eye, mpf, norm
from sympy import Identity, Symbol, Trace, cancel, diff, factor, solve, sqrt, symbols

from ...algebra.polynomial import TracePolynomial
from ...calculus import rewrite, substitute
from ...derivations import Condition, Line, Lines, Rate, given, note, register, states
from ...derivations.draws import ALONG, eigenvalues, made_definite, satisfying, unit_vector
from ...notation import B, D, G, H, a, e, gamma, lambda_, matrix, s, symmetric_matrix, vector, w_2
from ..task.regression import SECOND_MOMENT, force_along, loss_and_force
from .balanced_flow import balanced_flow

kappa_min, kappa_max = symbols("kappa_min kappa_max", positive=True)
# Means of kappa_d, 1/kappa_d and kappa_d^2, weighted with c_d^2
k, _inverse_mean, k_2 = symbols("k k_- k_2", positive=True)
K = symmetric_matrix("K", D)  # diag(kappa_d)
n, c_vec, g, omega, _delta = vector("n", D), vector("c", D), vector("g", D), vector("omega", D), vector("delta", D)
layer = matrix("W_1", H, D)  # on maps that are diagonal in the eigenbasis of Lambda
b, epsilon, size = Symbol("b", real=True), Symbol("epsilon", positive=True), Symbol("|omega|", positive=True)
_kappa = Symbol("kappa", positive=True)
SETTING = r"Balanced weights, $\boldsymbol{B}$ and $\boldsymbol{\Lambda}$ with the same eigenvectors"
LETTERS = r"$c_d=\lambda_d^2$ and $\kappa_d=\lambda_da_d$"
MEAN = r"$k$ is the mean of $\kappa_d$ weighted with $c_d^2$"


def _draw_component(point) -> None:
    if e not in point:
        ALONG.meet(point)
    rest = eye(point[D]) - point[e] * point[e].T
    point[B] = point[b] * point[e] * point[e].T + rest * point[B] * rest


def _draw_kappa(point) -> None:
    made_definite(K)(point)
    values = eigenvalues(point[K])
    point[kappa_min], point[kappa_max] = values[0], values[-1]
    point[_kappa] = point[kappa_min] + (point[kappa_max] - point[kappa_min]) * mpf(point.rng.random())
    point[n] = unit_vector(point[D], point)


def _meets_kappa(point) -> bool:
    values = eigenvalues(point[K])
    ends = abs(values[0] - point[kappa_min]) + abs(values[-1] - point[kappa_max]) + abs(norm(point[n]) - 1)
    return ends < mpf("1e-20") and values[0] > 0 and point[kappa_min] <= point[_kappa] <= point[kappa_max]


COMPONENT = satisfying(
    r"$\boldsymbol{e}$ is an eigenvector of $\boldsymbol{B}$ too, of eigenvalue $b = s n_{d}$", {B * e: b * e}, _draw_component
)
SPECTRUM = Condition(
    r"$\kappa_{\min}$ and $\kappa_{\max}$ are the least and the largest of the positive $\kappa_d$; $\boldsymbol{n}$ has unit length",
    _meets_kappa,
    _draw_kappa,
)
FLOW = {layer: w_2 * g.T, w_2: layer * g}  # (13) under the force g
OF_K = c_vec - s * K * n


@register("V7-flow", "Merged attention in $D + 1$ unknowns")
@states("force", lambda: lambda_**2 - lambda_ * a * b)
@states("size", lambda: 2 * s * n.T * (c_vec - s * K * n))
@states("direction", lambda: s * (Identity(D) - n * n.T) * (c_vec - s * K * n))
@given(SETTING, ALONG, COMPONENT)
@note(LETTERS)
def reduced_flow() -> Lines:
    """The flow (13) on W_1 = w_2 n', with the force along the eigendirections."""
    size, map_ = (substitute(rate, {g: OF_K}) for rate in balanced_flow(n, g))
    yield SECOND_MOMENT
    yield from loss_and_force()
    yield Line(G * e, "=", force_along(b) * e, r"It has the eigenvectors of $\boldsymbol{\Lambda}$, and keeps those of $\boldsymbol{B}$")
    yield Line(e.T * G * e, "=", force_along(b), "Along one it is", part="force")
    yield Line(layer, ":=", w_2 * n.T, r"Balanced weights $\boldsymbol{W}_1=\boldsymbol{w}_2\boldsymbol{n}^\top$, on diagonal maps")
    yield Line(s, ":=", w_2.T * w_2, "with the size")
    yield Line(g, ":=", OF_K, r"In the eigenbasis of $\boldsymbol{\Lambda}$ the force on the map $s\boldsymbol{n}$ is")
    yield Line(Rate(w_2.T * w_2, FLOW), "=", size, "By the flow (13) the size moves as", part="size")
    yield Line(Rate(layer.T * w_2, FLOW), "=", map_, r"and $s\boldsymbol{n} = \boldsymbol{W}_{1}^{\top} \boldsymbol{w}_{2}$ as")
    yield Line(Rate(layer.T * w_2, FLOW) - n * Rate(w_2.T * w_2, FLOW), "=", map_ - size * TracePolynomial(n),
               r"So $s\,d\boldsymbol{n}$ is what is left of it", part="direction")  # fmt: skip


@register("V7-share", r"How much of the learning the ray of $\boldsymbol{\Lambda}^2$ holds")
@states("size", lambda: gamma / k)
@states("fall", lambda: gamma**2 / k)
@states("share", lambda: 1 / (k * _inverse_mean))
@states("bound", lambda: 4 * kappa_min * kappa_max / (kappa_min + kappa_max) ** 2)
@states("gap", lambda: (_kappa - kappa_min) * (kappa_max - _kappa) / _kappa)
@states("on", lambda: 2 * gamma * (k_2 / k**2 - 1) * gamma**2 / k)
@given(SETTING, SPECTRUM)
@note(LETTERS)
def share_of_one_drop() -> Lines:
    """The loss along the ray of c against the global minimum; the least share for a given range of kappa; the fall that goes on."""
    fallen = 2 * Trace(c_vec.T * omega) - Trace(omega.T * K * omega)
    on_ray = 2 * s * gamma - s**2 * k
    (best,) = solve(diff(on_ray, s), s)
    fall, whole = on_ray.subs(s, best), gamma**2 * _inverse_mean
    gap = kappa_min + kappa_max - _kappa - kappa_min * kappa_max / _kappa
    averaged = kappa_min + kappa_max - k - kappa_min * kappa_max * _inverse_mean
    bound = 4 * kappa_min * kappa_max / (kappa_min + kappa_max) ** 2
    falling = 2 * TracePolynomial(g.T) * balanced_flow(n, g).map  # dL = -2 g'd(s n)
    means = {c_vec.T * c_vec: gamma**2, c_vec.T * K * c_vec: gamma**2 * k, c_vec.T * K**2 * c_vec: gamma**2 * k_2}
    on = rewrite(substitute(substitute(falling, {g: OF_K}), {n: c_vec / gamma, s: best}), means)
    yield Line(gamma, ":=", sqrt(Trace(c_vec.T * c_vec)), r"The norm of $\boldsymbol{c}$")
    for mean, power, reason in (
        (k, K, r"The mean of $\kappa_d$"),
        (_inverse_mean, K.I, r"that of $1/\kappa_d$"),
        (k_2, K**2, r"and that of $\kappa_d^2$"),
    ):
        yield Line(mean, ":=", Trace(c_vec.T * power * c_vec) / gamma**2, reason)
    yield Line(gap, "=", factor(gap), r"For each $\kappa$ from $\kappa_{\min}$ to $\kappa_{\max}$", part="gap")
    yield Line(factor(gap), ">=", 0, "this is not negative")
    yield Line(averaged, ">=", 0, "nor is its mean")
    yield Line(cancel(fall / whole), ">=", bound, r"As $x+y\ge2\sqrt{xy}$, the share of the ray, below, is at least", part="bound")
    yield Line(omega, ":=", s * c_vec / gamma, r"On the ray of $\boldsymbol{c}$ the map is")
    yield Line(fallen, "=", on_ray, "There the loss has fallen by")
    yield Line(fall - on_ray, "=", factor(fall - on_ray), r"It falls by no more than $\gamma^2/k$, from which it is a square away")
    yield Line(s, ":=", best, "The square is zero at the size")
    yield Line(s, "=", best, "of the map", part="size")
    yield Line(fallen, "=", fall, "There the fall is", part="fall")
    yield Line(n, ":=", c_vec / gamma, "The direction there")
    yield Line(g, ":=", OF_K, "and the force")
    yield Line(falling, "=", on, "By (V7-flow) the loss falls on at the rate", part="on")
    yield Line(omega, ":=", K.I * c_vec, "At the global minimum the map is")
    yield Line(fallen, "=", whole, "So the whole fall of the loss is")
    yield Line(fall / fallen, "=", cancel(fall / whole), "and the share of the ray in it", part="share")
    yield Line(k, ":=", (kappa_min + kappa_max) / 2, r"Two values of $\kappa$ of equal weight have this mean")
    yield Line(_inverse_mean, ":=", (1 / kappa_min + 1 / kappa_max) / 2, "and this of the inverses")
    yield Line(cancel(fall / whole), "=", bound, "They meet the bound, Kantorovich's")


@register("V7-tail", "What is left after the drop decays exponentially")
@states("rate", lambda: -s * (Identity(D) + n * n.T) * K * _delta)
@states("ratio", lambda: 2 * kappa_max / kappa_min)
@given(SETTING, SPECTRUM)
@note(LETTERS)
def tail() -> Lines:
    """Linearise the flow at the global minimum, where the force vanishes."""
    rate = substitute(balanced_flow(n, g).map, {g: -K * _delta})  # only the force varies where it is zero
    moving = size * (Identity(D) + omega * omega.T / size**2) * (c_vec - K * omega)
    stretched = s * Trace(_delta.T * K * (Identity(D) + n * n.T) * K * _delta)
    square = Trace(_delta.T * K * _delta)
    least = gamma / kappa_max  # |K^-1 c| >= |c| / kappa_max
    yield Line(c_vec, ":=", s * K * n, r"At the minimum $s\boldsymbol{n}$ the force vanishes")
    yield Line(omega, ":=", s * n + epsilon * _delta, "Near it the map is")
    yield Line(size, ":=", sqrt(Trace(omega.T * omega)), "of the size")
    yield Line(moving / epsilon, "->", rate,
               "The flow (V7-flow) of the map is, to first order", (), "rate", parameter=(epsilon, 0), order=1)  # fmt: skip
    yield Line(stretched, ">=", s * kappa_min * square, r"The rates are at least $s\kappa_{\min}$")
    yield Line(stretched, "<=", 2 * s * kappa_max * square, r"and at most $2s\kappa_{\max}$")
    yield Line(gamma, ":=", sqrt(Trace(c_vec.T * c_vec)), r"The norm of $\boldsymbol{c}$")
    yield Line(s, ">=", least, "bounds the size from below")
    yield Line(2 * gamma / (s * kappa_min), "<=", cancel(2 * gamma / (least * kappa_min)),
               r"So the drop's rate, $2\gamma$, is larger than the tail's by at most the factor", part="ratio")  # fmt: skip
