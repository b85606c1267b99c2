r"""The ansatz that reduces attention to one scalar: equations (25)-(26), (64)-(66), (71)-(72) for separate attention, and the balanced
flow (44) of merged attention.

Everything starts from the loss (9), whose expectation and gradient are computed. On the span of a few eigenvectors of Lambda, which the
flow leaves invariant, Lambda is diagonal and tr(Lambda) is the symbol T: three representatives, e_d learned, e_{m+1} growing and
e_l not yet learned, stand for all D of them.
"""

from functools import cache
from typing import Any

from sympy import (
    Expr,
    Identity,
    Matrix,
    Rational,
    Symbol,
    Trace,
    cancel,
    diag,
    diff,
    eye,
    factor,
    solve,
    sqrt,
    symbols,
    zeros,
)

from ...algebra.polynomial import TracePolynomial
from ...calculus.derivatives import gradient
from ...calculus.entrywise import explicit
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation
from ...expectation.moments import expect
from ...notation import (
    B,
    D,
    H,
    Lambda,
    Lambda_hat,
    T,
    a,
    alpha,
    beta,
    gamma,
    lambda_,
    matrix,
    p,
    s,
    v,
    vector,
    x_q,
    y_q,
)
from ..task.regression import population_loss

__all__ = [
    "aligned_flow", "alignment_flow", "balanced_flow", "cross_moment_norm", "drop_loss", "fixed_value", "on_eigenvectors",
    "relaxation_rate", "second_moment_eigenvalue", "separate_force", "white_moments",
]  # fmt: skip


@cache
def second_moment_eigenvalue() -> Derivation:
    r"""Equation (32): :math:`a_d = \lambda_d^2\bigl(1 + \frac{1 + T/\lambda_d}{N}\bigr)`, :math:`T = \mathrm{tr}\,\Lambda`."""
    M = expect(Lambda_hat**2)
    return Derivation.by(
        ("integrate over the tokens of the context, equation (31)", M),
        ("act on an eigenvector of Lambda with eigenvalue lambda", on_eigenvectors(M, lambda_)[0, 0]),
    )


def on_eigenvectors(polynomial: TracePolynomial, *eigenvalues: Expr, map_: Any = None) -> Any:
    """The matrix on the span of eigenvectors of Lambda with these eigenvalues, for a polynomial in Lambda, tr(Lambda) and B."""
    traceless = TracePolynomial(polynomial.to_sympy().subs(Trace(Lambda), T))
    given = {Lambda: diag(*eigenvalues)} | ({} if map_ is None else {B: map_})
    return explicit(traceless, given, D=len(eigenvalues))


@cache
def separate_force() -> Derivation:
    r"""Equation (53): :math:`G = -\tfrac12\,d\mathcal L/dB = \Lambda^2 - \mathbb E(\hat\Lambda^2)\, B\, \Lambda`, which drives (19)."""
    loss = population_loss()
    return Derivation.by(
        ("the mean squared error, equation (9)", loss),
        ("minus half its gradient with respect to the effective map B", -gradient(loss, B) / 2),
    )


@cache
def aligned_flow() -> Derivation:
    r"""Equations (26), (66), (72): :math:`\tau\dot v = \lambda^2 v^2 - \lambda a v^5`.

    Assumes (25), (64): one head :math:`k = q = v e`, :math:`\Lambda e = \lambda e`; the learned heads at their fixed values, the others
    zero. The derivation puts it into (19) and checks that no other weight moves: the set (25) is invariant.
    """
    l_d, l_m, l_l = symbols("lambda_d lambda_{m+1} lambda_l", positive=True)
    v_d = Symbol("v_d", positive=True)
    values, directions = (v_d, v, 0), eye(3)
    heads = [(value, value * directions[:, i], value * directions[:, i]) for i, value in enumerate(values)]
    B_ansatz = sum((value * k * q.T for value, k, q in heads), zeros(3))
    G = on_eigenvectors(separate_force().result, l_d, l_m, l_l, map_=B_ansatz)
    learned, growing, silent = ((k.T * G * q, value * G * q, value * G.T * k) for value, k, q in heads)
    moments = {symbol: second_moment_eigenvalue().result.subs(lambda_, symbol) for symbol in (l_d, l_m)}
    a_m = Symbol("a_{m+1}", positive=True)
    rest = {v_d: (l_d / moments[l_d]) ** Rational(1, 3)}
    dv = growing[0][0, 0]
    for velocity, expected in (
        (growing, dv * eye(3)[:, 1]),  # k and q stay v e_{m+1}
        (tuple(part.subs(rest) for part in learned), zeros(3, 1)),  # the learned heads rest at (25)
        (silent, zeros(3, 1)),
    ):
        along_k, along_q = (cancel(part - expected) for part in velocity[1:])
        if along_k != zeros(3, 1) or along_q != zeros(3, 1):
            raise ArithmeticError(f"the set (25) is not invariant: {velocity}")
    named = cancel(dv.expand().coeff(v, 2)) * v**2 + cancel(dv.expand().coeff(v, 5) / moments[l_m]) * a_m * v**5
    result = named.subs({l_m: lambda_, a_m: a})
    return Derivation.by(
        ("minus half the gradient in the effective map, equation (53)", separate_force().result),
        ("the same on (25), equation (71), on the span of a learned, the growing and an idle direction", G),
        ("its component along the growing head, equation (19a)", factor(dv)),
        ("name the eigenvalue a of E(Lambda_hat^2), equation (32)", result),
    )


@cache
def fixed_value() -> Derivation:
    r"""Equation (25): :math:`v_* = (\lambda/a)^{1/3}`, the positive fixed point of (26)."""
    flow = aligned_flow().result
    cube = Symbol("y", positive=True)  # v^3
    (solution,) = solve((flow / v**2).expand().subs(v**3, cube), cube)
    return Derivation.by(
        ("the flow, equation (26)", flow), ("where it vanishes, v^3 =", solution), ("v* =", solution ** Rational(1, 3))
    )


def relaxation_rate() -> Derivation:
    r""":math:`3\lambda^2 v_*/\tau`, at which (26) approaches :math:`v_*` (times tau here)."""
    flow, fixed = aligned_flow().result, Symbol("v_*", positive=True)
    slope = -diff(flow, v).subs(v, fixed)
    a_of_fixed = lambda_ / fixed**3
    return Derivation.by(
        ("minus the slope of (26) at its fixed point", slope),
        ("where a = lambda/v*^3", cancel(slope.subs(a, a_of_fixed))),
    )


@cache
def drop_loss() -> Derivation:
    r"""The loss along a drop: :math:`\mathcal L = \mathcal L(\mathcal M_m) - \frac{\lambda^3}{a}(2u^3 - u^6)` with
    :math:`u = v/v_*`; from (9) on (25). At u = 1 it is the step of equation (24), :math:`\lambda^3/a`."""
    loss = population_loss()
    b, u = Symbol("b", real=True), Symbol("u", positive=True)
    on_span = explicit(
        TracePolynomial(loss.to_sympy().subs(Trace(Lambda), T)), {Lambda: diag(lambda_), B: diag(b)}, D=1
    )
    part = on_span - on_span.subs(b, 0)
    named = part.coeff(b, 1) * b + cancel(part.coeff(b, 2) / second_moment_eigenvalue().result) * a * b**2
    change = factor(named.subs(b, u**3 * fixed_value().result ** 3))
    return Derivation.by(
        ("the mean squared error, equation (9)", loss),
        ("what the component b of B along an eigenvector adds to it", named),
        ("where b = v^3 = u^3 lambda/a", change),
    )


@cache
def balanced_flow() -> Derivation:
    r"""The exact reduction of merged attention on balanced weights :math:`W_1 = w_2 m^\top`, :math:`\|m\| = 1`: with
    :math:`\omega = \mathrm{vec}\,B = W_1^\top w_2`, :math:`\|\omega\| = w_2^\top w_2` and :math:`n = m`,

    .. math:: \tau\dot\omega = \|\omega\|\,\bigl(g + (n^\top g)\,n\bigr), \qquad g = -\tfrac12\, d\mathcal L/d\omega .

    From (13), :math:`\tau\dot w_2 = W_1 g`, :math:`\tau\dot W_1 = w_2 g^\top`; any loss.
    """
    size = Symbol("n", integer=True, positive=True)
    w_2, W_1, g, m = (
        TracePolynomial(x) for x in (vector("w_2", H), matrix("W_1", H, size), vector("g", size), vector("m", size))
    )
    rate = (w_2 * g.T).T * w_2 + W_1.T * W_1 * g
    on_balanced = (w_2 * g.T).T * w_2 + (w_2 * m.T).T * (w_2 * m.T) * g
    return Derivation.by(
        ("the product rule with the flow (13)", rate),
        ("balanced weights W_1 = w_2 m', where w_2' w_2 is the norm of W_1' w_2", on_balanced),
    )


@cache
def alignment_flow() -> Derivation:
    r"""The white case of the balanced flow: with :math:`c = \mathbb E(y_q z)`, :math:`\gamma = \|c\|`,
    :math:`\mathbb E(zz^\top) = \alpha I`, :math:`s = w_2^\top w_2` and :math:`p = m^\top c/\gamma`,

    .. math:: \tau\dot s = 2s(\gamma p - \alpha s), \qquad \tau\dot p = \gamma(1 - p^2) .

    At p = 1, the aligned set (44), the first is equation (45).
    """
    c, m = Matrix([1, 0]), Matrix([0, 1])  # coordinates in the basis (c/gamma, m), whose Gram matrix is
    gram = Matrix([[1, p], [p, 1]])
    g = gamma * c - alpha * s * m
    omega_rate = s * (g + (m.T * gram * g)[0] * m)
    s_rate = (m.T * gram * omega_rate)[0]  # s = |omega|
    m_rate = (omega_rate - s_rate * m) / s
    p_rate = (c.T * gram * m_rate)[0]
    pair = Matrix([factor(s_rate.expand()), factor(p_rate.expand())])
    return Derivation.by(
        ("the force g = c - alpha s m, in the basis of c/gamma and m", g), ("(s, p) along the balanced flow", pair)
    )


@cache
def cross_moment_norm() -> Derivation:
    r"""Equation (50): the square of :math:`\gamma = \|\mathbb E(y_q z)\| = \|\Lambda^2\|_F`, :math:`z = \mathrm{vec}(\beta x_q^\top)`."""
    moment = expect(y_q * beta * x_q.T)
    return Derivation.by(
        ("E(y_q z) as a matrix, equation (41)", moment), ("its squared Frobenius norm", (moment.T * moment).trace())
    )


@cache
def white_moments() -> Derivation:
    r"""Equation (47) for :math:`\Lambda = \lambda I`: :math:`\gamma = \lambda^2\sqrt D` and
    :math:`\alpha = \lambda^3\bigl(1 + \frac{1+D}N\bigr)`, where :math:`\mathbb E(zz^\top) = \alpha I`."""
    white = {Lambda: lambda_ * Identity(D)}
    gamma = sqrt(substitute(cross_moment_norm().result, white).to_sympy())
    factors = [substitute(expect(moment), white).trace() / D for moment in (beta * beta.T, x_q * x_q.T)]
    alpha = factor((factors[0] * factors[1]).to_sympy())
    return Derivation.by(
        ("gamma, from the norm of (41)", gamma),
        ("(gamma, alpha), with alpha from (42), a multiple of the identity here", Matrix([gamma, alpha])),
    )
