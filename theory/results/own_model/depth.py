r"""Depth (V13): L layers of linear attention, steps of descent in context with preconditioners of their own or a shared one.

.. math::
    \mathcal L = \mathbb E\operatorname{tr}\bigl(P\Lambda P^\top\bigr), \quad P = \prod_l(I - \hat\Lambda U_l), \qquad
    \lim\frac{\min\mathcal L}{\operatorname{tr}\Lambda} = \frac1{1 + c + \ldots + c^L}, \qquad
    z_l = \frac{c}{1 + c + 2\sqrt c\cos\frac{\pi l}{L + 1}}

For white tokens the layers are numbers z_l, the reciprocal roots of a polynomial R, and the loss is the mean of R^2 over the spectrum.
Equal layers repel each other: each fixed point is a saddle or the best polynomial. As N = c D grows its roots are those of Chebyshev's U_L.
"""

from functools import reduce
from itertools import combinations
from math import comb, prod
from operator import mul

from sympy import Add, Determinant, Expr, Identity, Matrix, Poly, Rational, Symbol, Trace, expand, factor, oo, pi, symbols
from sympy.functions import catalan, cos, sqrt

from ...algebra.polynomial import TracePolynomial
from ...derivations import E, Gradient, Line, Lines, Rate, given, note, register, states
from ...expectation import SampleCovariance, expect
from ...model import Model
from ...notation import D, Lambda, Lambda_hat, N, beta, lambda_, matrix, s, vector, w, x_q, y_q
from ..estimators.optimality import c
from ..task.population import PAPER
from .two_steps import U, through, z

DEPTHS = (1, 2, 3, 4)
LAYERS = tuple(matrix(f"U_{k}", D) for k in DEPTHS)
Z = symbols("z_1:5", real=True)  # a layer on white tokens: U_l = z_l I/lambda
MOMENTS = symbols("m_1:9", positive=True)  # of the spectrum of Lambda_hat, on white tokens
SYMMETRIC = symbols("r_1:5", real=True)  # the coefficients of R
STEPS = tuple(Identity(D) - Lambda_hat * one for one in LAYERS)
LOOP = 1 - z * s
FACTORS = tuple(Identity(D) - one * Lambda_hat for one in Z)  # on white tokens
reached = vector("u", D)  # the task vector before a layer
WHITE = SampleCovariance(Lambda_hat, Identity(D), N)
size = Symbol("x", real=True)


def layers(depth: int, *, shared: bool = False) -> Model:
    """The model of so many layers, with matrices U_1, U_2, ..., or one that all share.

    Raises ValueError for a depth that is not an integer from 1 to 4.
    """
    if isinstance(depth, bool) or not isinstance(depth, int) or depth not in DEPTHS:
        raise ValueError(f"depth must be an integer from 1 to {DEPTHS[-1]}, got {depth!r}")
    maps = (U,) * depth if shared else LAYERS[:depth]
    return Model(through(maps), tuple(dict.fromkeys(maps)))


def scalar_layers(depth: int, *, shared: bool = False) -> Model:
    """The same on white tokens of variance 1, with numbers z_1, z_2, ..., or z for all."""
    weights = (z,) if layers(depth, shared=shared).weights == (U,) else Z[:depth]
    return Model(through(tuple(one * Identity(D) for one in (weights * depth)[:depth])), weights)


def average(*factors):
    """The mean of a polynomial over the spectrum of contexts of white tokens."""
    return E(Trace(product(factors)), WHITE) / D


def moment(k: int) -> Expr:
    """E tr(Lambda_hat^k)/D for white tokens of variance 1, exact in D and N."""
    return expand(expect(Trace(Lambda_hat**k), WHITE).to_sympy() / D)


def moment_sum(polynomial) -> Expr:
    """The mean of a polynomial in s over the spectrum, by the moments."""
    return Add(*(number * (1, *MOMENTS)[k] for (k,), number in Poly(polynomial, s).terms()))


def product(factors):
    return reduce(mul, factors)


@register("V13-loss", "Each layer multiplies the error of the task")
@states("error", lambda: Trace(product(STEPS[:2]) * Lambda * product(STEPS[:2]).T))
@states("one", lambda: Trace(Lambda) - 2 * Trace(Lambda**2 * U) + Trace(PAPER.moments.M.to_sympy() * U * Lambda * U.T))
@states("start", lambda: Lambda**2)
@states("apart", lambda: size / N * (Trace(Lambda**3) * Lambda**2 - Trace(Lambda**4) * Lambda))
def loss_of_layers() -> Lines:
    """Average the squared error over task and query; for one and two layers over the context, and take the flow."""
    two, left = layers(2), w.T * product(STEPS[:2]) * x_q
    flow, loss = two.flow(), E(left**2)
    yield Line(w - (reached + LAYERS[0].T * (beta - Lambda_hat * reached)), "=", STEPS[0].T * (w - reached),
               "What a layer does to the error of any task vector", "30")  # fmt: skip
    yield Line(w.T * x_q - through(LAYERS[:2]), "=", left, "so two of them to the error of the prediction", "30")
    yield Line(E(left**2, given=Lambda_hat), "=", expect(left**2, given=Lambda_hat), "Average over task and query", part="error")
    yield Line(E((y_q - through((U,))) ** 2), "=", layers(1, shared=True).loss(), "The loss of one layer", part="one")
    for one in two.weights:
        yield Line(Rate(one, flow), "=", -Gradient(loss, one) / 2, "The flow (10) of two layers")
    for one in two.weights:
        yield Line(one, ":=", size * Lambda**2, "Equal layers, early in training")
    for one in two.weights:
        yield Line(Rate(one, flow), "~", Lambda**2, "Each begins so", (), "start" * (one == LAYERS[0]), parameter=(size, 0), order=1)
    yield Line(Rate(LAYERS[0] - LAYERS[1], flow), "~",
               TracePolynomial(Trace(Lambda**3) * Lambda**2 - Trace(Lambda**4) * Lambda) * (size / N),
               "and they part", (), "apart", parameter=(size, 0), order=2)  # fmt: skip


def hankel(depth: int, moments, det=lambda matrix: matrix.det(method="domain-ge")) -> Expr:
    """The best loss: of the moments of the measures of weight 1 and s^2, the ratio of their determinants."""
    of = (1, *moments)
    above, below = (det(Matrix(n, n, lambda i, j, k=k: of[i + j + k])) for n, k in ((depth + 1, 0), (depth, 2)))
    return above / below


@register("V13-white", "The loss of four layers for white tokens")
@states("m_2", lambda: 1 + (D + 1) / N)
@states("m_3", lambda: 1 + 3 * (D + 1) / N + (D**2 + 3 * D + 4) / N**2)
@states("m_4", lambda: 1 + 6 * (D + 1) / N + (6 * D**2 + 17 * D + 21) / N**2 + (D**3 + 6 * D**2 + 21 * D + 20) / N**3)
@states("loss", lambda: (
    sum((-1) ** (j + k) * (1, *SYMMETRIC)[j] * (1, *SYMMETRIC)[k] * (1, *MOMENTS)[j + k] for j in range(5) for k in range(5))
))  # fmt: skip
@states("loops", lambda: sum(comb(8, k) * (-z) ** k * (1, *MOMENTS)[k] for k in range(9)))
@states("one at best", lambda: (D + 1) / (N + D + 1))
@states("two at best", lambda: (
    (D**3 * (N + 1) + 2 * D**2 * (2 * N + 5) + D * (7 * N + 17) + 4 * (N + 1))
    / (D**3 * (N + 1) + D**2 * (N**2 + 5 * N + 10) + D * (N**3 + 5 * N**2 + 17 * N + 17) + N**3 + 10 * N**2 + 17 * N + 4)
))  # fmt: skip
@note("$z_l = 0$ is no layer, so this holds for fewer, too")
def white_loss() -> Lines:
    """The moments of the spectrum; the loss is linear in them and quadratic in the elementary symmetric polynomials of the z_l."""
    exact = {m: moment(k) for k, m in enumerate(MOMENTS, 1)}
    separate = moment_sum((1 + sum((-s) ** k * one for k, one in enumerate(SYMMETRIC, 1))) ** 2)
    one, *others = (Identity(D) - number * Lambda_hat * Lambda.I for number in (z, *Z))
    error, looped = ((w.T * left * x_q) ** 2 for left in (product(others), one**4))
    for k, m in enumerate(MOMENTS, 1):
        yield Line(m, ":=", average(Lambda_hat**k), "A moment of the spectrum")
    for m, value in exact.items():
        yield Line(m, "=", value, "It is", part=str(m) if m in MOMENTS[1:4] else "")
    for k, r in enumerate(SYMMETRIC, 1):
        yield Line(r, ":=", sum(map(prod, combinations(Z, k))), "A coefficient of the polynomial")
    yield Line(E(error) / Trace(Lambda), "=", separate, "The loss holds nothing else", part="loss")
    yield Line(E(looped) / Trace(Lambda), "=", moment_sum((1 - z * s) ** 8), "With one number for all", part="loops")
    for k, name in ((1, "one"), (2, "two")):
        yield Line(hankel(k, MOMENTS, Determinant), "=", factor(hankel(k, [*exact.values()])),
                   "The least mean of $R^2$, by Gram's determinants", part=f"{name} at best")  # fmt: skip


def slope(k: int, depth: int) -> tuple:
    """The factors of s R R_k, with R_k the product without layer k."""
    return (Lambda_hat, FACTORS[k - 1], *(one**2 for j, one in enumerate(FACTORS[:depth], 1) if j != k))


@register("V13-flow", "Equal layers repel each other: every fixed point is a saddle or the best polynomial")
@states(
    "velocity", lambda: MOMENTS[0] - (Z[0] + 2 * Z[1]) * MOMENTS[1] + Z[1] * (2 * Z[0] + Z[1]) * MOMENTS[2] - Z[0] * Z[1] ** 2 * MOMENTS[3]
)
@states("apart", lambda: (Z[0] - Z[1]) * (MOMENTS[1] - (Z[0] + Z[1]) * MOMENTS[2] + Z[0] * Z[1] * MOMENTS[3]))
@states("basis", lambda: prod(one - other for one, other in combinations(Z, 2)))
@states("loops", lambda: 4 * sum(comb(7, k) * (-z) ** k * MOMENTS[k] for k in range(8)))
@given("White tokens")
@note(
    r"$\hat{\boldsymbol{\Lambda}}$ in units of $\lambda$, the loss of $\lambda D$, time of $\tau/\lambda^3$",
    r"Argued, not derived: the product of unequal layers at rest is orthogonal to $\hat{\boldsymbol{\Lambda}}$ times every polynomial of a "
    r"lower degree, so it is the best and $1/z_l$, the zeros of an orthogonal polynomial, are real, positive and distinct; flows reach it "
    "from almost every start",
)
def flow_of_layers() -> Lines:
    """The gradient in the numbers, differences of it, and the determinant of the polynomials in it."""
    flow, repelled = layers(2).flow(), (Lambda_hat**2, *FACTORS[:2], FACTORS[2] ** 2)
    others = [Poly(prod(1 - one * s for one in Z if one != left), s) for left in Z]
    basis = Matrix(4, 4, lambda i, k: others[i].coeff_monomial(s**k))
    R, other, loop = FACTORS[0] * FACTORS[1], z * Identity(D) + SYMMETRIC[0] * Lambda_hat, Identity(D) - z * Lambda_hat
    loss, equal = average(*(one**2 for one in FACTORS[:3])), [one.xreplace({Z[1]: Z[0]}) for one in repelled]
    first, second = (1 - one * s for one in Z[:2])
    apart = factor(moment_sum(s**2 * first * second))
    for k in (1, 2):
        yield Line(-Gradient(loss, Z[k - 1]) / 2, "=", average(*slope(k, 3)), "Three layers: half the slope of the loss")
    yield Line(average(*slope(1, 3)) - average(*slope(2, 3)), "=", (Z[0] - Z[1]) * average(*repelled), "The difference")
    yield Line(average(*equal), ">", 0, "Of equal layers: the mean of a square")
    yield Line(Determinant(basis), "=", prod(one - two for one, two in combinations(Z, 2)),
               "The products without one layer, by their coefficients", part="basis")  # fmt: skip
    yield Line(average((R + Lambda_hat * other) ** 2) - 2 * average(Lambda_hat, R, other), ">", average(R**2),
               "Two layers: if the second average is zero, any other polynomial has a larger loss")  # fmt: skip
    yield Line(average(*slope(1, 2)), "=", moment_sum(s * first * second**2), "Two layers", "V13-white", "velocity")
    yield Line(average(*slope(1, 2)) - average(*slope(2, 2)), "=", (Z[0] - Z[1]) * apart, "The difference", "V13-white", "apart")
    yield Line(-Gradient(average(loop**8), z) / 2, "=", 4 * moment_sum(s * (1 - z * s) ** 7), "Four loops", "V13-white", "loops")
    yield Line(Gradient(average(Lambda_hat * loop**7), z), "<", 0, "This falls, and so has one zero")
    yield Line(Lambda, ":=", lambda_ * Identity(D), "White tokens")
    for one, number in zip(LAYERS[:2], Z, strict=False):
        yield Line(one, ":=", number / lambda_ * Identity(D), "A number for each layer")
    for k, one in enumerate(LAYERS[:2], 1):
        yield Line(Rate(one, flow), "=", lambda_**2 * average(*slope(k, 2)) * Identity(D), "The flow (10) of two layers keeps this form")


def narayana(k: int):
    """The moment of the law of Marchenko and Pastur, of D/N = 1/c: a sum over non-crossing partitions."""
    return sum(Rational(comb(k, j) * comb(k - 1, j), j + 1) / c**j for j in range(k))


@register("V13-limit", "Layers in high dimension: the best polynomials are Chebyshev's", kind="limit")
@states(
    lambda: {
        **{f"m_{k}": narayana(k) for k in range(1, 9)},
        **{f"{depth} best": 1 / sum(c**k for k in range(depth + 1)) for depth in DEPTHS},
        **{f"{depth} loops": 1 - sum(catalan(k) * c ** (k + 1) / (1 + c) ** (2 * k + 1) for k in range(depth)) for depth in DEPTHS},
        **{f"{depth} part": catalan(depth - 1) * c ** (depth - 2) / (1 + c) ** (2 * depth - 3) for depth in DEPTHS[1:]},
    }
)
@given("White tokens")
@note(
    r"Losses in units of $\operatorname{tr}(\boldsymbol{\Lambda})$, rates of $\lambda^3/\tau$; part: how fast equal layers part",
    r"Argued, not derived: for more layers the same, as $s$ times the density of Marchenko and Pastur is a semicircle, whose orthogonal "
    "polynomials are Chebyshev's $U_L$",
)
def high_dimension() -> Lines:
    """Limits of the exact moments; with them the best loss, and the zeros of the velocities."""
    exact = [moment(k) for k in range(1, 9)]
    limits = {m: one.subs(N, c * D).expand().subs(D, oo) for m, one in zip(MOMENTS, exact, strict=True)}
    yield Line(N, ":=", c * D, "A context in proportion to the dimension")
    for m, one in limits.items():
        yield Line(m, ":=", one, "A moment", part=str(m))
    for k, m in enumerate(MOMENTS[1:], 2):
        yield Line(average(Lambda_hat**k), "->", m, "The limit", parameter=D, order=1)
    for depth in DEPTHS:
        least = factor(hankel(depth, [*limits.values()]))
        if depth <= 2:
            yield Line(hankel(depth, exact), "->", least, "The best loss", parameter=D, order=1)
        yield Line(hankel(depth, MOMENTS, Determinant), "=", least, "The best loss, by its limits", part=f"{depth} best")
        R = Poly(prod(1 - c * s / (1 + c + 2 * sqrt(c) * cos(pi * k / (depth + 1))) for k in range(1, depth + 1)), s)
        for k in range(depth):
            yield Line(moment_sum(s ** (k + 1) * R), "=", 0, r"Best at $z_l=c/(1+c+2\sqrt c\cos(\pi l/(L+1)))$")
    yield Line(z, ":=", c / (1 + c), "Loops")
    for depth in DEPTHS:
        rest, loss, rate = (moment_sum(one) for one in (s * LOOP ** (2 * depth - 1), LOOP ** (2 * depth), s**2 * LOOP ** (2 * depth - 2)))
        loss_there, rate_there = (factor(one.subs(limits).subs(z, c / (1 + c))) for one in (loss, rate))
        yield Line(rest, "=", 0, "They are at rest")
        yield Line(loss, "=", loss_there, "with this loss", part=f"{depth} loops")
        if depth > 1:
            yield Line(rate, "=", rate_there, "How fast equal layers part", part=f"{depth} part")
