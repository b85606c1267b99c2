r"""Merged attention on white tokens: the sigmoid (15), its loss (48), and the exact solution from any balanced start.

While solving, time is :math:`\theta = \gamma t/\tau` and the norm is :math:`x = \alpha s/\gamma`. Every solution is put back into its
equation, and returned only if the residual is exactly zero.
"""

from functools import cache

from sympy import (
    Expr,
    Identity,
    Matrix,
    Symbol,
    Trace,
    atanh,
    cancel,
    cosh,
    diff,
    exp,
    expand,
    expand_log,
    factor,
    integrate,
    log,
    solve,
    sqrt,
    symbols,
    tanh,
)  # fmt: skip

from ...algebra.polynomial import TracePolynomial
from ...calculus.equality import require_zero
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation
from ...expectation.laws import Gaussian
from ...expectation.moments import expect
from ...notation import B, D, H, Lambda, alpha, gamma, lambda_, p, p_0, rho, s, s_0, sigma_level, t, tau, vector, w_init
from ..separate.reduction import alignment_flow, cross_moment_norm, white_moments
from ..task.regression import population_loss

__all__ = [
    "balanced_solution", "effective_start", "plateau_time", "sigmoid", "sigmoid_loss",
    "sigmoid_solution", "time_to_norm", "truncated_plateau_time",
]  # fmt: skip


def _aligned_flow() -> Expr:
    """Equation (45), the balanced flow on the set p = 1, which it does not leave."""
    s_rate, p_rate = alignment_flow().result.subs(p, 1)
    require_zero(p_rate)
    return s_rate


@cache
def time_to_norm() -> Derivation:
    r"""The integral of (45): :math:`\frac1\gamma\ln\frac{s(\gamma - \alpha s_0)}{s_0(\gamma - \alpha s)} = \frac{2t}\tau`, solved for t.

    Valid while s and :math:`s_0` lie on the same side of :math:`\gamma/\alpha`.
    """
    x, x_0 = symbols("x x_0", positive=True)
    rate = factor(_aligned_flow().subs(s, gamma * x / alpha) * alpha / gamma**2)
    theta = log(x / (1 - x)) / 2
    require_zero(diff(theta, x) * rate - 1)
    odds = (x * (1 - x_0) / (x_0 * (1 - x))).subs({x: alpha * s / gamma, x_0: alpha * s_0 / gamma})
    return Derivation.by(
        ("the flow (45)", _aligned_flow()),
        ("with x = alpha s/gamma and theta = gamma t/tau: dx/dtheta =", rate),
        ("theta, the integral of its reciprocal (differentiated back)", theta),
        ("t between s_0 and s", tau / (2 * gamma) * log(odds)),
    )


@cache
def sigmoid_solution() -> Derivation:
    r"""Equation (45), solved: :math:`s(t) = \dfrac{\gamma e^{2\gamma t/\tau}}{\alpha(e^{2\gamma t/\tau} - 1) + \gamma/s_0}`.

    Exact on the aligned set (44). Written in :math:`e^{-2\gamma t/\tau}`, which does not overflow.
    """
    inverse, decay = symbols("r E", positive=True)  # 1/s and exp(-2 gamma t/tau)
    odds = exp(2 * gamma * time_to_norm().result / tau)
    (solution,) = solve(odds.subs(s, 1 / inverse) * decay - 1, inverse)
    solved = gamma / expand(gamma * solution).collect(alpha).subs(decay, exp(-2 * gamma * t / tau))
    require_zero(tau * diff(solved, t) - _aligned_flow().subs(s, solved), solved.subs(t, 0) - s_0)
    return Derivation.by(
        *time_to_norm().steps, ("solved for s(t); residual and initial value are exactly zero", solved)
    )


@cache
def sigmoid() -> Derivation:
    r"""Equation (15) for :math:`\Lambda = \lambda I`: :math:`\sigma(t) = s(t)/\sqrt D` in :math:`\hat y_q = \sigma(t)\,\beta^\top x_q`.

    Exact for balanced, aligned weights. At lambda = 1 and :math:`s_0 = w_{\rm init}^2` it is the paper's

    .. math:: e^{2\sqrt D t/\tau} \big/ \bigl[(1 + \tfrac{1+D}N)(e^{2\sqrt D t/\tau} - 1) + \sqrt D/w_{\rm init}^2\bigr] .
    """
    white = dict(zip((gamma, alpha), white_moments().result, strict=True))
    norm_of_identity = sqrt(Trace(Identity(D)).doit())
    return Derivation.by(
        ("s(t), equation (45)", sigmoid_solution().result),
        ("(gamma, alpha) for a white covariance, equation (47)", white_moments().result),
        ("vec(B) = s vec(I)/|vec(I)|, equation (46)", sigmoid_solution().result.subs(white) / norm_of_identity),
    )


@cache
def sigmoid_loss() -> Derivation:
    r"""Equation (48) for :math:`\Lambda = \lambda I`:
    :math:`\mathcal L = D\lambda\bigl(1 - 2\lambda\sigma + \lambda^2(1 + \frac{1+D}N)\sigma^2\bigr)`; at lambda = 1 the paper's."""
    loss = population_loss()
    white = substitute(loss, {B: sigma_level * Identity(D), Lambda: lambda_ * Identity(D)})
    return Derivation.by(
        ("the mean squared error, equation (9)", loss), ("at B = sigma I, Lambda = lambda I", factor(white.to_sympy()))
    )


@cache
def balanced_solution() -> Derivation:
    r"""The white flow from any balanced start :math:`W_1 = w_2 m^\top`, beyond (44): with
    :math:`\theta = \gamma t/\tau + \mathrm{artanh}\,p_0` and :math:`f(\theta) = \frac\theta2 + \frac{\sinh 2\theta}4`,

    .. math:: p = \tanh\theta, \qquad
        s = \cosh^2\theta \Big/ \Bigl[\frac{\cosh^2\theta_0}{s_0} + \frac{2\alpha}\gamma\bigl(f(\theta) - f(\theta_0)\bigr)\Bigr].

    Returns (s, p) as a column. Exact for :math:`-1 < p_0 < 1`; at :math:`p_0 = 1` it is (45), and at :math:`p_0 = -1` s decays to zero.
    """
    s_rate, p_rate = alignment_flow().result
    angle, start, inverse = symbols("theta theta_0 r", real=True)
    cosine = tanh(angle)
    require_zero(diff(cosine, angle) - p_rate.subs(p, cosine) / gamma)
    linear = (-s_rate / s**2 / gamma).subs(p, cosine).expand().subs(s, 1 / inverse)  # dr/dtheta for r = 1/s
    integrating = cosh(angle) ** 2
    require_zero(diff(integrating, angle) + linear.coeff(inverse, 1) * integrating)
    f = integrate(integrating.rewrite(exp).expand(), angle)
    bracket = cosh(start) ** 2 / s_0 + linear.coeff(inverse, 0) * (f - f.subs(angle, start))
    decay = Symbol("E", positive=True)  # exp(-2 theta)
    top, bottom = (
        (exp(-2 * angle) * part.rewrite(exp)).expand().subs(exp(-2 * angle), decay) for part in (integrating, bracket)
    )
    norm, level = factor(top) / bottom.collect(decay), (1 - decay) / (1 + decay)
    along = diff(norm, angle) - 2 * decay * diff(norm, decay)  # E falls at the rate 2
    require_zero(
        (cosine - level.subs(decay, exp(-2 * angle))).rewrite(exp),
        cancel(along - (s_rate / gamma).subs({s: norm, p: level})),
    )
    norm = norm.subs(decay, exp(-2 * angle))
    require_zero(norm.subs(angle, start) - s_0)
    in_time = {angle: gamma * t / tau + atanh(p_0), start: atanh(p_0)}
    return Derivation.by(
        ("the flow of (s, p)", alignment_flow().result),
        ("p is a tanh of theta = gamma t/tau + artanh(p_0)", cosine),
        ("1/s obeys a linear equation, with the integrating factor", integrating),
        ("whose integral is", f),
        (
            "(s, p); the residual and the initial value are exactly zero",
            Matrix([norm, cosine]).subs(in_time, simultaneous=True),
        ),
    )


@cache
def effective_start() -> Derivation:
    r"""The start of the sigmoid for Gaussian weights (34): :math:`s_{\rm eff} = \frac14\|w_2(0) + W_1(0)\hat c\|^2`,
    :math:`\hat c = E(y_qz)/\gamma`, with mean :math:`\frac14(1 + D^{-2})w_{\rm init}^2`.

    While weights are small, (13) is :math:`\tau\dot w_2 = \gamma W_1\hat c`, :math:`\tau\frac d{dt}(W_1\hat c) = \gamma w_2`, whose growing
    mode is their mean; with this start (15) is right up to :math:`O(w_{\rm init}^2)`, with the nominal one it is early by a constant time.
    """
    w_2, u = vector("w_2", H), vector("u", H)
    mean = TracePolynomial(w_2 + u) / 2
    amplitude = mean.T * mean
    expected = expect(
        amplitude,
        (
            Gaussian(w_2, covariance=w_init**2 / H * Identity(H)),
            Gaussian(u, covariance=w_init**2 / (H * D**2) * Identity(H)),
        ),
    )
    return Derivation.by(
        ("the norm of the growing mode of (w_2, u = W_1 c/|c|)", amplitude),
        ("its mean under (34)", factor(expected.to_sympy())),
    )


@cache
def plateau_time() -> Derivation:
    r"""The exact time to the fraction :math:`\rho` of the final value, of which (49) is the leading logarithm:

    .. math:: t_\rho = \frac\tau{2\gamma}\Bigl[\ln\frac1{s_0} + \ln\frac\gamma\alpha + \ln\frac\rho{1-\rho}
        + \ln\Bigl(1 - \frac{\alpha s_0}\gamma\Bigr)\Bigr].
    """
    exact = time_to_norm().result.subs(s, rho * gamma / alpha)
    inside = exp(2 * gamma * exact / tau)  # positive for 0 < rho < 1
    return Derivation.by(
        ("t between s_0 and s, equation (45)", time_to_norm().result),
        ("at s = rho gamma/alpha", tau / (2 * gamma) * log(inside)),
    )


@cache
def truncated_plateau_time() -> Derivation:
    r"""Equations (49), (51): :math:`\frac\tau{2\gamma}\ln\frac1{s(0)} = \frac\tau{\|\Lambda^2\|}\ln\frac1{w_{\rm init}}`, what is left
    of the exact time when :math:`s_0 \to 0`: the other logarithms do not grow, nor vanish."""
    exact = plateau_time().result
    inside = exp(2 * gamma * exact / tau)
    constant = (inside * s_0).subs(
        s_0, 0
    )  # finite and positive: the exact time is that of constant / s_0, up to O(s_0)
    leading = tau / (2 * gamma) * log(1 / s_0)
    norm = sqrt(cross_moment_norm().result.to_sympy())
    return Derivation.by(
        ("the exact time to the fraction rho", exact),
        ("what is left for s_0 -> 0 beside the growing part", tau / (2 * gamma) * log(constant)),
        ("the growing part, equation (49)", leading),
        (
            "with gamma = |Lambda^2| and s(0) = w_init^2, equation (51)",
            expand_log(leading.subs({gamma: norm, s_0: w_init**2})),
        ),
    )
