r"""What moves the zero blocks (V6): laws of the task, and finite training sets.

With the zero blocks at zero their velocity is, given the task vector, linear in w and in (w' Lambda w) w: two moments of the task's law
decide. On P sequences those averages are only P^(-1/2) small.
"""

from sympy import Identity, Symbol, Trace, ZeroMatrix

from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...expectation.moments import expect
from ...notation import B, D, Lambda, N, lambda_, v_i, w
from ..attention.blocks import U_i, merged_expansion, u_i, value_row
from ..attention.zero_block_loss import fourth_moment
from ..attention.zero_blocks import JOINT, pull_at_zero

__all__ = ["b"]

b = Symbol("b", real=True)  # the map of white tokens is b I


def _pair_in(inner):
    return Lambda * inner * Lambda + (Lambda * inner.T * Lambda + Trace(inner * Lambda) * Lambda) / N


@register(
    "V6-zero",
    "Which laws of the task move the zero blocks",
    kind="exact",
    section="beyond the paper",
    left={
        "v": r"\mathbb{E}[\tau\dot{\boldsymbol{v}}_i\mid\boldsymbol{w}]",
        "u": r"\mathbb{E}[\tau\dot{\boldsymbol{u}}_i\mid\boldsymbol{w}]",
        "v at the origin": r"\mathbb{E}[\tau\dot{\boldsymbol{v}}_i\mid\boldsymbol{w}]_{\boldsymbol{U}_i=\boldsymbol{I},\,\boldsymbol{B}=0}",
        "u at the origin": r"\mathbb{E}[\tau\dot{\boldsymbol{u}}_i\mid\boldsymbol{w}]_{\boldsymbol{B}=0}",
    },
    typed=lambda: {
        "v": (Lambda * U_i * Lambda - _pair_in(U_i * Lambda * B.T) + fourth_moment(U_i) * (Identity(D) - B.T * Lambda) / N) * w,
        "u": v_i * Trace(w * w.T * Lambda) * Lambda * (Identity(D) - (1 + 2 / N) * B.T * Lambda) * w,
        "v at the origin": ((1 + 2 / N) * Lambda**2 + Trace(Lambda) * Lambda / N) * w,
        "u at the origin": v_i * Trace(w * w.T * Lambda) * Lambda * w,
    },
    conditions=(
        JOINT,
        (
            r"The first is a matrix times $\boldsymbol{w}$ and the second one times $(\boldsymbol{w}^{\top} "
            r"\boldsymbol{\Lambda} \boldsymbol{w}) \boldsymbol{w}$; where $\boldsymbol{B} = 0$ both matrices are "
            "invertible"
        ),
        (
            r"So the zero blocks stay zero from every start if and only if $\mathbb{E}(\boldsymbol{w}) = 0$ and "
            r"$\mathbb{E}((\boldsymbol{w}^{\top} \boldsymbol{\Lambda} \boldsymbol{w}) \boldsymbol{w}) = 0$, whatever "
            "else the law is"
        ),
        "One repeated vector breaks it at every $p < 1$, a pair of opposite vectors does not",
    ),
    erratum=(
        "The paper says that (39) and (40) break where task vectors are fixed; two moments of "
        r"$\boldsymbol{w}$ decide."
    ),
)
def moving_laws() -> Derivation:
    """The gradients at zero blocks, averaged over query and context only."""
    steps = []
    for part, weight in (("v", value_row), ("u", u_i)):
        moved = expect(pull_at_zero(merged_expansion(), weight), given=(w,))
        origin = substitute(moved, {B: ZeroMatrix(D, D), **({U_i: Identity(D)} if part == "v" else {})})
        steps += [
            Step("Minus half the gradient of one squared error", pull_at_zero(merged_expansion(), weight)),
            Step("Averaged over query and context", moved, part=part),
            Step("At the origin", origin, part=f"{part} at the origin"),
        ]
    return Derivation.by(*steps)


@register(
    "V6-leak",
    "How fast a finite training set moves the zero blocks",
    kind="exact",
    section="beyond the paper",
    left={
        **{part: rf"P\,\mathbb{{E}}|\tau\dot{{\boldsymbol{{{part}}}}}_i|^2_{{\boldsymbol{{B}}=0}}" for part in "vu"},
        **{
            f"{part} white": rf"P\,\mathbb{{E}}|\tau\dot{{\boldsymbol{{{part}}}}}_i|^2_{{\boldsymbol{{B}}=b\boldsymbol{{I}}}}"
            for part in "vu"
        },
    },
    typed=lambda: _leaks(*(Trace(Lambda**k) for k in range(1, 5))) | _white_leaks(),
    conditions=(
        (
            r"$P$ independent sequences with $\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{I})$; the blocks are "
            "zero in every head"
        ),
        r"For $\boldsymbol{v}_i$: $\boldsymbol{U}_i=\boldsymbol{I}$, its direction where the tokens are white",
        (
            r"$\boldsymbol{B} = 0$, as on the first plateau; or $\boldsymbol{B} = b \boldsymbol{I}$ for white tokens, "
            r"$\boldsymbol{\Lambda}=\lambda\boldsymbol{I}$, at any time from there to the end"
        ),
        (
            "The mean over the set is $P^{-1/2}$ times a variable of fixed variance, so while the blocks are near "
            "zero every one moves at this rate; what becomes of them in idle heads at the end is (V6-idle)"
        ),
    ),
)
def finite_set() -> Derivation:
    """The gradients of different sequences are independent and have mean zero, so the square of their mean is 1/P of that of one."""
    steps = []
    for part, weight in (("v", value_row), ("u", u_i)):
        head = {U_i: Identity(D)} if part == "v" else {}
        slope = pull_at_zero(merged_expansion(), weight)
        for name, B_here in ((part, ZeroMatrix(D, D)), (f"{part} white", b * Identity(D))):
            one = substitute(slope, {B: B_here, **head})
            steps += [Step("Minus half the gradient of one squared error", one), Step("Its mean vanishes", expect(one))]
            square = expect((one.T * one).trace())
            if name != part:
                square = substitute(square, {Lambda: lambda_ * Identity(D)})
            steps.append(Step("The mean of its square", square, part=name))
    return Derivation.by(*steps)


def _white_leaks():
    """The same for white tokens and the map b I, polynomials in b, for statements."""
    row = D**2 + 3 * D * N + 10 * D + N**2 + 9 * N + 24
    across = row + 6 * D + 4 * N + 22
    square = (D + N) ** 3 + (17 * D + 18 * N) * (D + N) + D * N * (D + N + 5) + 78 * D + 95 * N + 102
    corner = 1 - 2 * b * lambda_ * (1 + 4 / N) + b**2 * lambda_**2 * (1 + 4 / N) * (1 + (D + 5) / N)
    return {
        "v white": D * (D + 2) * lambda_**4 / N**2 * (row - 2 * b * lambda_ * across + b**2 * lambda_**2 * square / N),
        "u white": v_i**2 * D * (D + 2) ** 2 * (D + 4) * (1 + 2 / N) * lambda_**4 * corner,
    }


def _leaks(T, T2, T3, T4):
    """From E(x'x)^4, E[(x'x)^2 x' Lambda x] and E[x'x x' M x], and E(w' Lambda w)^3, for statements."""
    squares = T**4 + 12 * T**2 * T2 + 32 * T * T3 + 12 * T2**2 + 48 * T4
    with_context = T**2 * T2 + 2 * T2**2 + 4 * T * T3 + 8 * T4
    second = T * ((1 + 1 / N) * T3 + T * T2 / N) + 2 * ((1 + 1 / N) * T4 + T * T3 / N)
    tasks = T * (T**3 + 6 * T * T2 + 8 * T3) + 2 * (T**2 * T2 + 2 * T2**2 + 4 * T * T3 + 8 * T4)
    return {"v": second + 2 * with_context / N + squares / N**2, "u": v_i**2 * (1 + 2 / N) * tasks}
