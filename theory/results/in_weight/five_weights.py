r"""Learning in weight, then in context, as five numbers (V6-escape, V6-five): one head symmetric about the fixed task vector, white tokens.

With w_0 = r e and |e| = 1 the symmetric head is

    v = a e,   v_i,   U = U_1 e e' + U_2 (I - e e'),   u = m e.

Nothing grows faster from the origin, and the flow keeps it symmetric. Where the task is w_0 it predicts

    (a + r v_i) (e' Lambda_hat U x_q + m r (e' Lambda_hat e) e'x_q) + (a/N) (e'x_q) (x_q' U x_q),

so from small initial weights all heads together follow five ordinary differential equations, until the next rank grows.
"""

from functools import cache

from sympy import Expr, Identity, Symbol, sqrt

from ...algebra.polynomial import TracePolynomial, zero
from ...calculus.derivatives import derivative
from ...calculus.rewriting import rewrite
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...expectation.moments import expect
from ...notation import D, Lambda, Lambda_hat, N, beta, lambda_, v_i, vector, w, x_q, y_q
from ..attention.blocks import U_i, expansion, merged_expansion, u_i, value_row
from .population_loss import average, mixed_tasks, noise_average, portion, w_0

__all__ = [
    "ACROSS", "ALONG", "COLUMN", "FIVE", "LENGTH", "ROW", "five_weight_flow", "five_weight_loss", "growth_form",
    "growth_products", "slope_across",
]  # fmt: skip

axis, across = vector("e", D), vector("f", D)  # the direction of w_0, and one across it
_other = vector("g", D)  # a second one
LENGTH = Symbol("r", positive=True)  # of w_0
ROW, COLUMN = Symbol("a", real=True), Symbol("m", real=True)
ALONG, ACROSS = Symbol("U_1", real=True), Symbol("U_2", real=True)
FIVE = (ROW, v_i, ALONG, ACROSS, COLUMN)
_epsilon = Symbol("epsilon", real=True)

_KEY = ALONG * axis * axis.T + ACROSS * (Identity(D) - axis * axis.T)
SYMMETRIC = {value_row: ROW * axis, u_i: COLUMN * axis, U_i: _KEY}
_TURNING = {
    value_row: ROW * across, u_i: COLUMN * across, v_i: 0,
    U_i: ALONG * across * axis.T + ACROSS * axis * across.T,
}  # fmt: skip


def _in_white(polynomial: TracePolynomial) -> TracePolynomial:
    """The polynomial for white tokens and w_0 = r e, with e, f and g orthonormal."""
    white = substitute(polynomial, {w: LENGTH * axis, w_0: LENGTH * axis, Lambda: lambda_ * Identity(D)})
    units = {one.T * one: 1 for one in (axis, across, _other)}
    return rewrite(white, units | {axis.T * across: 0, axis.T * _other: 0, across.T * _other: 0})


@cache
def growth_form(*, symmetric: bool) -> TracePolynomial:
    """E(y_q y_hat) of a symmetric head, or of one that turns with f."""
    mean = expect(y_q * merged_expansion(), mixed_tasks)
    return _in_white(substitute(mean, SYMMETRIC if symmetric else _TURNING))


_LAWS = {"random": (merged_expansion, expect), "fixed": (merged_expansion, average), "noise": (expansion, noise_average)}


@cache
def _squared_prediction(law: str) -> TracePolynomial:
    expand, mean = _LAWS[law]
    return _in_white(substitute(mean(expand() ** 2), SYMMETRIC))


@cache
def five_weight_loss(law: str) -> Expr:
    """The loss of the symmetric head, a polynomial in ``FIVE``, r, lambda, D and N; ``law`` as in ``cross_moments``."""
    expand, mean = _LAWS[law]
    target = _in_white(substitute(mean(y_q * expand()), SYMMETRIC))
    return (_in_white(mean(y_q**2)) - 2 * target + _squared_prediction(law)).to_sympy()


@cache
def five_weight_flow() -> tuple[Expr, ...]:
    """tau d/dt of ``FIVE`` in the training loss, p times that of random tasks and 1 - p times that of the fixed one.

    |U|^2 = U_1^2 + (D - 1) U_2^2, so the slope in U_2 is shared by D - 1 weights.
    """
    loss = portion * five_weight_loss("random") + (1 - portion) * five_weight_loss("fixed")
    return tuple(-loss.diff(weight) / (2 * (D - 1 if weight == ACROSS else 1)) for weight in FIVE)


def growth_products():
    """The entries 11, 22 and 12 of Gamma Gamma' over lambda^4, for statements."""
    share, s = 1 - portion, portion + (1 - portion) * LENGTH**2
    rows = share**2 * LENGTH**2 * ((1 + 3 / N) ** 2 + (D - 1) / N**2) + s**2
    corner = s**2 + portion**2 * (D - 1) + share**2 * LENGTH**6
    both = share * LENGTH * ((1 + 3 / N) * s + portion * (D - 1) / N + LENGTH**2 * s)
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
            portion * (v_i * (ALONG + (D - 1) * ACROSS) + ROW * COLUMN)
            + (1 - portion)
            * (
                LENGTH * ROW * ((1 + 3 / N) * ALONG + (D - 1) * ACROSS / N)
                + LENGTH**2 * (v_i * ALONG + ROW * COLUMN)
                + LENGTH**3 * v_i * COLUMN
            )
        ),
        "across": lambda_**2 * ROW * (portion * COLUMN + (1 - portion) * LENGTH * ((1 + 1 / N) * ALONG + ACROSS / N)),
        **{part: lambda_**4 * square for part, square in zip(("11", "22", "12"), growth_products(), strict=True)},
    },
    conditions=(
        (
            r"White tokens, $\boldsymbol{\Lambda}=\lambda\boldsymbol{I}$; a portion $p$ of the task vectors is "
            r"random, the others are $r\boldsymbol{e}$ with $|\boldsymbol{e}|=1$"
        ),
        (
            r"Head $i$ has $\boldsymbol{v}_i=a\boldsymbol{e}$, $\boldsymbol{u}_i=m\boldsymbol{e}$, "
            r"$\boldsymbol{U}_i=U_1\boldsymbol{ee}^\top+U_2(\boldsymbol{I}-\boldsymbol{ee}^\top)$; nothing grows "
            "faster"
        ),
        r"$\boldsymbol{\Gamma}$ is the form as a matrix, rows $(a,v_i)$, columns $(U_1,\sqrt{D-1}\,U_2,m)$",
        r"Near the origin the weights grow as $e^{\gamma t/\tau}$ with the largest singular value $\gamma$ of $\boldsymbol{\Gamma}$",
        (
            r"Head $j$ turns with $\boldsymbol{f}$ across $\boldsymbol{e}$: $\boldsymbol{v}_j=a\boldsymbol{f}$, "
            r"$\boldsymbol{u}_j=m\boldsymbol{f}$, $v_j=0$, "
            r"$\boldsymbol{U}_j=U_1\boldsymbol{fe}^\top+U_2\boldsymbol{ef}^\top$; its coefficients are a shorter row "
            r"than $(\boldsymbol{\Gamma\Gamma}^\top)_{11}$"
        ),
    ),
)
def escape() -> Derivation:
    """Near the origin tau dW/dt is the gradient of the form, so the rates of growth are its singular values."""
    form = growth_form(symmetric=True).to_sympy()
    columns = ((ALONG, 1), (ACROSS, 1 / sqrt(D - 1)), (COLUMN, 1))  # |U_i|^2 = U_1^2 + (D - 1) U_2^2
    row, corner = ([form.diff(weight).diff(column) * scale for column, scale in columns] for weight in (ROW, v_i))
    squares = {"11": (row, row), "22": (corner, corner), "12": (row, corner)}
    return Derivation.by(
        Step("The correlation of the target with one symmetric head", growth_form(symmetric=True), part="form"),
        Step("The same for a head that turns with $f$", growth_form(symmetric=False), part="across"),
        *(
            Step("The product of two rows of its coefficients", sum(x * y for x, y in zip(*pair, strict=True)), part=part)
            for part, pair in squares.items()
        ),
    )


def _square(gain, along, across_):
    """E of (g (s U_1 x_1 + U_2 t'x) + (a/N) x_1 x'Ux)^2, with s = e' Lambda_hat e and t the rest of Lambda_hat e, for statements."""
    second = 15 * ALONG**2 + 6 * (D - 1) * ALONG * ACROSS + (D - 1) * (D + 1) * ACROSS**2
    context = (1 + 2 / N) * along**2 + (D - 1) * across_**2 / N
    return lambda_**3 * (gain**2 * context + 2 * gain * ROW * along * _fourth() / N + ROW**2 * second / N**2)


def _fourth():
    """E[x_1^2 x'Ux] over lambda^2, for statements."""
    return 3 * ALONG + (D - 1) * ACROSS


def _odd():
    return (v_i * ALONG + ROW * COLUMN) ** 2 + (D - 1) * v_i**2 * ACROSS**2


@register(
    "V6-five",
    "The unreduced model as five weights",
    kind="exact",
    section="beyond the paper",
    left={
        "prediction": r"\hat y_q\mid\boldsymbol{w}=r\boldsymbol{e}",
        "fixed": r"\mathbb{E}[\hat y_q^2\mid\boldsymbol{w}=r\boldsymbol{e}]",
        "random": r"\mathbb{E}_{\boldsymbol{w}\sim\mathcal{N}(0,\boldsymbol{I})}[\hat y_q^2]",
        "noise": r"\mathbb{E}_{\rm noise}[\hat y_q^2]",
        "leaving": r"\tfrac12\tfrac{d}{ds}\mathcal{L}",
    },
    typed=lambda: {
        "prediction": (ROW + LENGTH * v_i) * (axis.T * Lambda_hat * (_KEY + COLUMN * LENGTH * axis * axis.T) * x_q)
        + ROW * axis.T * x_q * x_q.T * _KEY * x_q / N,
        "fixed": _square(ROW + LENGTH * v_i, ALONG + COLUMN * LENGTH, ACROSS),
        "random": _square(ROW, ALONG, ACROSS)
        + lambda_**3
        * (
            (1 + (1 + D) / N) * _odd()
            + (v_i * COLUMN) ** 2 * (1 + 2 / N) * D * (D + 2)
            + 2 * ROW * v_i * COLUMN * (ALONG * (D + 2 / N) + D * _fourth() / N)
        ),
        "noise": _square(ROW, ALONG, ACROSS)
        + lambda_**2 * _odd() / N
        + lambda_ * (v_i * COLUMN) ** 2 * (1 + 2 / N)
        + 2 * lambda_**2 * ROW * v_i * COLUMN * (ALONG + _fourth() / N),
        "leaving": 0,
    },
    conditions=(
        r"White tokens; the fixed task vector is $r\boldsymbol{e}$ with $|\boldsymbol{e}|=1$; $\boldsymbol{f}$ and $\boldsymbol{g}$ "
        r"are unit vectors across $\boldsymbol{e}$ and each other",
        r"One head with $\boldsymbol{v}=a\boldsymbol{e}$, $\boldsymbol{u}=m\boldsymbol{e}$, "
        r"$\boldsymbol{U}=U_1\boldsymbol{ee}^\top+U_2(\boldsymbol{I}-\boldsymbol{ee}^\top)$; its correlation with $y_q$ is in (V6-escape)",
        (
            r"$s$ moves the blocks along $\boldsymbol{f}$, $\boldsymbol{fe}^\top$, $\boldsymbol{ef}^\top$, "
            r"$\boldsymbol{fg}^\top$ and $\boldsymbol{ff}^\top-\boldsymbol{gg}^\top$ by any amounts: no slope, so the "
            "flow stays symmetric"
        ),
        ("From small initial weights $H$ heads follow one such head until the next rank grows, up to the error of (V6-error)"),
    ),
)
def five_weights() -> Derivation:
    """Put the symmetric head into the moments of the unreduced model."""
    fixed = _in_white(substitute(merged_expansion(), {beta: Lambda_hat * w, **SYMMETRIC}))
    names = (("fixed", "the fixed task"), ("random", "random tasks"), ("noise", "noise for labels"))
    return Derivation.by(
        Step("One symmetric head where the task is fixed", fixed, part="prediction"),
        *(Step(f"Squared and averaged with {name}", _squared_prediction(law), part=law) for law, name in names),
        Step(
            r"The slope of half the loss out of the symmetric form, with powers of $\epsilon$ for the amounts",
            slope_across(),
            part="leaving",
        ),
    )


@cache
def slope_across() -> TracePolynomial:
    """The slope of half the training loss of a symmetric head out of its form, with a power of epsilon for each block that moves."""
    loss = expect(y_q**2 - 2 * y_q * merged_expansion() + merged_expansion() ** 2, mixed_tasks)
    turned = (across * axis.T, axis * across.T, across * _other.T, across * across.T - _other * _other.T)
    away = {
        value_row: across,
        u_i: _epsilon * across,
        U_i: sum((_epsilon ** (2 + i) * one for i, one in enumerate(turned)), start=zero((D, D))),
    }
    return _in_white(substitute(derivative(loss, away), SYMMETRIC)) / 2
