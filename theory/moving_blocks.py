r"""What moves the zero blocks (V6): laws of the task, finite training sets, and how fast they leave the origin.

With the zero blocks at zero their velocity is, given the task vector, linear in w and in (w' Lambda w) w: two moments of the task's law
decide. On P sequences those averages are only P^(-1/2) small. Where a portion of the task vectors is fixed, the blocks grow from the origin
together with the others, at a rate that has a closed form for white tokens.
"""

from sympy import Identity, Symbol, Trace, ZeroMatrix, sqrt

from .attention import U_i, merged_expansion, u_i, value_row
from .calculus import substitute
from .derivation import Derivation, Step
from .equations import register
from .moments import expect
from .notation import B, D, Lambda, N, lambda_, v_i, vector, w, y_q
from .rewriting import rewrite
from .trace_algebra import TracePolynomial
from .transverse import fourth_moment
from .unreduced import average, mixed_tasks, portion, w_0
from .zero_blocks import JOINT, pull_at_zero

__all__ = ["growth_form", "turning_form"]


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
        "v": (
            Lambda * U_i * Lambda - _pair_in(U_i * Lambda * B.T) + fourth_moment(U_i) * (Identity(D) - B.T * Lambda) / N
        )
        * w,
        "u": v_i * Trace(w * w.T * Lambda) * Lambda * (Identity(D) - (1 + 2 / N) * B.T * Lambda) * w,
        "v at the origin": ((1 + 2 / N) * Lambda**2 + Trace(Lambda) * Lambda / N) * w,
        "u at the origin": v_i * Trace(w * w.T * Lambda) * Lambda * w,
    },
    conditions=(
        JOINT,
        "The first is a matrix times w and the second one times (w' Lambda w) w; where B = 0 both matrices are invertible",
        "So the zero blocks stay zero from every start if and only if E(w) = 0 and E((w' Lambda w) w) = 0, whatever else the law is",
        "One repeated vector breaks it at every p < 1, a pair of opposite vectors does not",
    ),
    erratum="The paper says that (39) and (40) break where task vectors are fixed; two moments of w decide.",
)
def moving_laws() -> Derivation:
    """The gradients at zero blocks, averaged over query and context only."""
    steps = []
    for part, weight in (("v", value_row), ("u", u_i)):
        moved = average(pull_at_zero(merged_expansion(), weight))
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
        "v": r"P\,\mathbb{E}|\tau\dot{\boldsymbol{v}}_i|^2",
        "u": r"P\,\mathbb{E}|\tau\dot{\boldsymbol{u}}_i|^2",
    },
    typed=lambda: _leaks(*(Trace(Lambda**k) for k in range(1, 5))),
    conditions=(
        "P independent sequences with w ~ N(0, I); the blocks are zero in every head, and B = 0, as on the first plateau",
        r"For $\boldsymbol{v}_i$: U_i = I, its direction where the tokens are white",
        "The mean over the set is P^(-1/2) times a variable of fixed variance, so every block moves at this rate",
    ),
)
def finite_set() -> Derivation:
    """The gradients of different sequences are independent and have mean zero, so the square of their mean is 1/P of that of one."""
    steps = []
    for part, weight in (("v", value_row), ("u", u_i)):
        replacements = {B: ZeroMatrix(D, D), **({U_i: Identity(D)} if part == "v" else {})}
        one = substitute(pull_at_zero(merged_expansion(), weight), replacements)
        steps += [
            Step("Minus half the gradient of one squared error", one),
            Step("Its mean vanishes", expect(one)),
            Step("The mean of its square", expect((one.T * one).trace()), part=part),
        ]
    return Derivation.by(*steps)


def _leaks(T, T2, T3, T4):
    """From E(x'x)^4, E[(x'x)^2 x' Lambda x] and E[x'x x' M x], and E(w' Lambda w)^3, for statements."""
    squares = T**4 + 12 * T**2 * T2 + 32 * T * T3 + 12 * T2**2 + 48 * T4
    with_context = T**2 * T2 + 2 * T2**2 + 4 * T * T3 + 8 * T4
    second = T * ((1 + 1 / N) * T3 + T * T2 / N) + 2 * ((1 + 1 / N) * T4 + T * T3 / N)
    tasks = T * (T**3 + 6 * T * T2 + 8 * T3) + 2 * (T**2 * T2 + 2 * T2**2 + 4 * T * T3 + 8 * T4)
    return {"v": second + 2 * with_context / N + squares / N**2, "u": v_i**2 * (1 + 2 / N) * tasks}


_e, _f = vector("e", D), vector("f", D)  # the direction of w_0, and one across it
_r, _a, _m = Symbol("r", positive=True), Symbol("a", real=True), Symbol("m", real=True)
_along, _across = Symbol("U_1", real=True), Symbol("U_2", real=True)


def _white_target(head: dict) -> TracePolynomial:
    """E(y_q y_hat) of one head for white tokens and w_0 = r e."""
    target = substitute(expect(y_q * merged_expansion(), mixed_tasks), head)
    white = substitute(target, {w_0: _r * _e, Lambda: lambda_ * Identity(D)})
    return rewrite(white, {_e.T * _e: 1, _f.T * _f: 1, _e.T * _f: 0})


def growth_form() -> TracePolynomial:
    """The same of a head that is symmetric under the rotations that keep e."""
    across = Identity(D) - _e * _e.T
    return _white_target({value_row: _a * _e, u_i: _m * _e, U_i: _along * _e * _e.T + _across * across})


def turning_form() -> TracePolynomial:
    """The same of a head that turns with a direction f across e."""
    turning = _along * _f * _e.T + _across * _e * _f.T
    return _white_target({value_row: _a * _f, u_i: _m * _f, U_i: turning, v_i: 0})


def _squares():
    """The entries of Gamma Gamma', for statements."""
    share, s = 1 - portion, portion + (1 - portion) * _r**2
    rows = share**2 * _r**2 * ((1 + 3 / N) ** 2 + (D - 1) / N**2) + s**2
    corner = s**2 + portion**2 * (D - 1) + share**2 * _r**6
    both = share * _r * ((1 + 3 / N) * s + portion * (D - 1) / N + _r**2 * s)
    return rows, corner, both


@register(
    "V6-escape",
    "How fast the unreduced model leaves the origin",
    kind="exact",
    section="beyond the paper",
    left={
        "form": r"\mathbb{E}[y_q\hat y_q^{(i)}]",
        "across": r"\mathbb{E}[y_q\hat y_q^{(j)}]",
        **{part: rf"(\boldsymbol{{\Gamma\Gamma}}^\top)_{{{part}}}" for part in ("11", "22", "12")},
    },
    typed=lambda: {
        "form": lambda_**2
        * (
            portion * (v_i * (_along + (D - 1) * _across) + _a * _m)
            + (1 - portion)
            * (
                _r * _a * ((1 + 3 / N) * _along + (D - 1) * _across / N)
                + _r**2 * (v_i * _along + _a * _m)
                + _r**3 * v_i * _m
            )
        ),
        "across": lambda_**2 * _a * (portion * _m + (1 - portion) * _r * ((1 + 1 / N) * _along + _across / N)),
        **{part: lambda_**4 * square for part, square in zip(("11", "22", "12"), _squares(), strict=True)},
    },
    conditions=(
        "White tokens, Lambda = lambda I; a portion p of the task vectors is random and the others are r e with |e| = 1",
        r"The head has $\boldsymbol{v}_i$ = a e, u_i = m e and U_i = U_1 e e' + U_2 (I - e e'), where the growth is fastest",
        r"$\boldsymbol{\Gamma}$ is the form as a matrix, rows (a, v_i), columns (U_1, $\sqrt{D-1}\,U_2$, m)",
        r"Near the origin the weights grow as $e^{\gamma t/\tau}$ with the largest singular value $\gamma$ of $\boldsymbol{\Gamma}$",
        r"Head j has $\boldsymbol{v}_j$ = a f, u_j = m f, U_j = U_1 f e' + U_2 e f' and v_j = 0, with f across e: its row is shorter",
    ),
)
def escape() -> Derivation:
    """Near the origin tau dW/dt is the gradient of the form, so the rates of growth are its singular values."""
    form = growth_form().to_sympy()
    columns = ((_along, 1), (_across, 1 / sqrt(D - 1)), (_m, 1))  # |U_i|^2 = U_1^2 + (D - 1) U_2^2
    row, corner = ([form.diff(weight).diff(column) * scale for column, scale in columns] for weight in (_a, v_i))
    squares = {"11": (row, row), "22": (corner, corner), "12": (row, corner)}
    return Derivation.by(
        Step("The correlation of the target with one symmetric head", growth_form(), part="form"),
        Step("The same for a head that turns with f", turning_form(), part="across"),
        *(
            Step(
                "The product of two rows of its coefficients", sum(x * y for x, y in zip(*pair, strict=True)), part=part
            )
            for part, pair in squares.items()
        ),
    )
