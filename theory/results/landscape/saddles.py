r"""T2, continued: strict and degenerate saddles, the time to leave them, and the global minimum."""

from sympy import Expr, Identity, Symbol, Trace, integrate, ln, series

from ...calculus.rewriting import rewrite
from ...calculus.spectral import along
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...notation import B, B_rest, D, G, Lambda, M, P, a, gamma, lambda_, matrix, tau, v, v_i, vector, w_init
from ...notation import K_i as K
from ...notation import Q_i as Q
from ...notation import k_i as k
from ...notation import q_i as q
from ..attention.blocks import U_i
from ..separate.aligned import aligned_flow
from ..separate.flow import effective_map, flow_in_force, rank_one_head, rank_R_head
from ..task.regression import closed_loss
from .fixed_points import Gamma
from .stability import half_loss

__all__ = ["escape_time"]

epsilon = Symbol("epsilon", positive=True)
end = Symbol("delta", positive=True)
u = Symbol("u", positive=True)


@register(
    "T2h",
    "Stability: the origin: a degenerate saddle for separate attention, a strict one for merged",
    kind="exact",
    section="beside (14a), (21)",
    left={"separate": r"F(\varepsilon W)", "plateau": "F", "merged": r"F(\varepsilon W)"},
    typed=lambda: {
        "separate": Trace(Lambda) / 2
        - epsilon**3 * Trace(Lambda * effective_map(rank_R_head()) * Lambda)
        + epsilon**6 / 2 * Trace(effective_map(rank_R_head()).T * M * effective_map(rank_R_head()) * Lambda),
        "plateau": Trace(Lambda) / 2
        - Trace(Lambda * Gamma * Lambda)
        + Trace(Gamma * Lambda * P * Lambda) / 2
        - epsilon**3 * v_i * Trace(K.T * Lambda * (Identity(D) - P) * Lambda * Q)
        + epsilon**6 / 2 * v_i**2 * Trace(Q * K.T * M * K * Q.T * Lambda),
        "merged": Trace(Lambda) / 2
        - epsilon**2 * Trace(Lambda * effective_map(v_i * U_i) * Lambda)
        + epsilon**4 / 2 * Trace(effective_map(v_i * U_i).T * M * effective_map(v_i * U_i) * Lambda),
    },
    conditions=(
        r"all weights of all heads are scaled by $\epsilon$",
        "plateau: those of one waiting head, the others making the map of a fixed point; its cubic term has both signs unless "
        "all is learned",
    ),
)
def origin() -> Derivation:
    """All weights times epsilon: without a term in epsilon^2 the Hessian at the origin is identically zero."""
    cubic = {v_i: epsilon * v_i, K: epsilon * K, Q: epsilon * Q, B_rest: epsilon**3 * B_rest}
    bilinear = {v_i: epsilon * v_i, U_i: epsilon * U_i, B_rest: epsilon**2 * B_rest}
    scaled = [
        substitute(substitute(half_loss(), {B: effective_map(head)}), scaling)
        for head, scaling in ((rank_R_head(), cubic), (v_i * U_i, bilinear))
    ]
    waiting = substitute(substitute(half_loss(), {B: effective_map(rank_R_head())}), cubic | {B_rest: Gamma})
    return Derivation.by(
        Step("Half the loss", half_loss(), "F"),
        Step("Three weights in a product: the Hessian at the origin is identically zero", scaled[0], "", "separate"),
        Step(
            "The same for a head that still waits at a later plateau",
            rewrite(waiting, {M * Gamma: Lambda * P}),
            "",
            "plateau",
        ),
        Step("Two weights in a product: the Hessian is not zero, with both signs", scaled[1], "", "merged"),
    )


def escape_time(rate: Expr) -> Expr:
    """The time to grow from w_init to delta, for tau du/dt = rate(u)."""
    return integrate(tau / rate, (u, w_init, end))


@register(
    "T2i",
    (
        r"Stability: the time to leave the origin: $\ln(1/w_{\rm init})$ for merged attention, $1/w_{\rm init}$ for "
        "separate"
    ),
    kind="approximation",
    section="beside (51), (68)",
    left={
        "merged": r"t",
        "separate": r"t",
        "separate, next order": r"t-\frac{\tau}{\lambda^2}\Bigl(\frac1{w_{\rm init}}-\frac1\delta\Bigr)",
    },
    typed=lambda: {
        "merged": tau / gamma * ln(end / w_init),
        "separate": tau / lambda_**2 * (1 / w_init - 1 / end),
        "separate, next order": tau * a / (2 * lambda_**3) * (end**2 - w_init**2),
    },
    conditions=(
        (
            r"from $w_{\rm init}$ to a small $\delta$, along the direction that grows first: "
            r"$\boldsymbol{U}_i=u\boldsymbol{\Lambda}^2/\gamma$, $v_i = u$, $\gamma = \|\boldsymbol{\Lambda}^2\|$; "
            r"and $\boldsymbol{k}_i=\boldsymbol{q}_i=u\boldsymbol{e}$, $v_i = u$"
        ),
    ),
)
def escape() -> Derivation:
    """The flow with the force at B = 0, and the first term that this leaves out on the aligned set (26)."""
    merged = flow_in_force(v_i * U_i, (v_i, U_i))[v_i]
    merged = rewrite(
        substitute(substitute(merged, {G: Lambda**2}), {U_i: u / gamma * Lambda**2}), {Trace(Lambda**4): gamma**2}
    )
    e = vector("e", D)
    separate = substitute(flow_in_force(rank_one_head(), (v_i, k, q))[v_i], {G: Lambda**2})
    separate = rewrite(substitute(separate, {k: u * e, q: u * e}), {Lambda * e: lambda_ * e, e.T * e: 1})
    merged_rate, separate_rate = merged.to_sympy(), separate.to_sympy()
    exact = aligned_flow().result["short"].subs(v, u)
    correction = series(1 / (exact / separate_rate).expand(), u, 0, 4).removeO() - 1
    return Derivation.by(
        Step("Merged: the rate of the growing direction", merged_rate, r"\tau\dot u"),
        Step(r"Integrate from $w_{\rm init}$ to $\delta$", escape_time(merged_rate).expand(force=True), "", "merged"),
        Step("Separate: the rate on the aligned set", separate_rate, r"\tau\dot u"),
        Step(r"Integrate from $w_{\rm init}$ to $\delta$", escape_time(separate_rate), "", "separate"),
        Step("The whole rate there, equation (26)", exact, r"\tau\dot u"),
        Step(
            "The first term left out",
            integrate(tau * correction / separate_rate, (u, w_init, end)),
            "",
            "separate, next order",
        ),
    )


@register(
    "T2j",
    ("Stability: the loss is a square around its minimum: the best map of rank $r$ learns the first $r$ eigenvectors"),
    kind="exact",
    section="beside (24)",
    left={
        "square": r"\mathcal{L}(\boldsymbol{M}^{-1}\boldsymbol{\Lambda}+\boldsymbol{E})",
        "singular value": r"\sigma_d^2",
    },
    typed=lambda: {
        "square": Trace(Lambda) - Trace(Lambda**3 * M.I) + Trace(E.T * M * E * Lambda),
        "singular value": lambda_**3 / a,
    },
    conditions=(
        (
            r"$\sigma_{d}$ are the singular values of "
            r"$\boldsymbol{M}^{1/2}(\boldsymbol{M}^{-1}\boldsymbol{\Lambda})\boldsymbol{\Lambda}^{1/2}$; by Eckart "
            "and Young the best map of rank $r$ keeps the $r$ largest"
        ),
        (
            r"$\lambda^{3} /$ a rises with $\lambda$ (T1c): so the least loss of $R H$ slots is that of (24) at $m = "
            r"\min(D, R H)$"
        ),
    ),
)
def global_minimum() -> Derivation:
    """Complete the square."""
    shifted = substitute(closed_loss().result, {B: M.I * Lambda + E})
    target = along(M * (M.I * Lambda) * (M.I * Lambda) * Lambda, {M: a, Lambda: lambda_})
    return Derivation.by(
        Step("The loss", closed_loss().result, r"\mathcal{L}"),
        Step("Around the unrestricted minimum", shifted, "", "square"),
        Step("The squared singular values that a map of low rank has to keep", target, "", "singular value"),
    )


E = matrix("E", D)
