r"""The risks of (V9) in high dimension, N = c D: Bayes in closed form, beside linear attention and least squares.

.. math::
    \lim\mathcal R_{\mathrm{Bayes}}/\operatorname{tr}\Lambda = \tfrac12\bigl(1 - c - \nu + \sqrt{(1 - c - \nu)^2 + 4\nu}\bigr), \qquad
    \lim\mathcal R_{\mathrm{lin}}/\operatorname{tr}\Lambda = \frac{1 + \nu}{1 + \nu + c}
"""

from sympy import Identity, Poly, Rational, Trace, binomial, expand, limit, oo, solve, sqrt, symbols

from ...calculus import substitute
from ...derivations import Condition, E, Line, Lines, given, note, register, states
from ...derivations.draws import at
from ...expectation import SampleCovariance, expect
from ...notation import D, Lambda, Lambda_hat, N, sigma
from .optimality import TASK, WHITE, c, nu, white_risk

MOMENTS = range(1, 7)  # the moments of the spectrum that are derived
generating, _series, _risk = symbols("x m R_Bayes", real=True)
UNITS = r"The risks are in units of $\operatorname{tr}(\boldsymbol{\Lambda})$"
LONG = Condition("$c > 1$", lambda point: point[c] > 1, lambda point: point.__setitem__(c, 1 + point[c]), at(c, 1))


def _moment(k: int):
    """lim E tr(Lambda_hat^k) / D for Lambda = I, as N and D grow with N = c D."""
    trace = substitute(expect(Trace(Lambda_hat**k)), {Lambda: Identity(D)}).to_sympy()
    return expand(Poly(expand(trace * D ** (k - 1)).subs(N, c * D), D).LC())  # times D^k: the limit is the highest coefficient


def continued(series):
    """What the generating function of the moments is equal to."""
    return 1 + generating * series * (1 - 1 / c + series / c)


@register("V9-limit", "The risk of Bayes in high dimension", kind="limit")
@states("moments", lambda: 1 + sum(generating**k * _narayana(k) for k in MOMENTS))
@states("Bayes", lambda: (1 - c - nu + sqrt((1 - c - nu) ** 2 + 4 * nu)) / 2)
@states("linear", lambda: (1 + nu) / (1 + nu + c))
@states("least squares", lambda: nu / (c - 1))
@given(TASK, WHITE)
@note(UNITS, "Argued, not derived: all moments obey the equation that is derived to the sixth (Marchenko and Pastur)")
def high_dimension() -> Lines:
    """Moments by the engine, the equation that they obey, and its root at rho = sigma^2/N."""
    moments = 1 + sum(generating**k * _moment(k) for k in MOMENTS)
    averages = 1 + sum(generating**k * E(Trace(Lambda_hat**k), SampleCovariance(Lambda_hat, Identity(D), N)) for k in MOMENTS) / D
    # the other root goes to minus infinity with nu
    root = max(solve((continued(_risk) - _risk).subs(generating, -c / nu), _risk), key=lambda value: value.subs({nu: 1, c: 1}))
    rho, white = sigma**2 / N, white_risk()
    linear, squares = (limit(risk.subs(N, c * D), D, oo) for risk in white.values())
    yield Line(N, ":=", c * D, "A context in proportion to the dimension")
    yield Line(white["linear"], "->", linear, "The risk (V9-linear)", (), "linear", parameter=D, order=1)
    yield Line(white["least squares"], "->", squares, "The risk (V9-ols)", (), "least squares", (LONG,), D, 1)
    yield Line(averages, "->", moments, "The first six moments of the spectrum of white tokens", (), "moments", parameter=D, order=1)
    yield Line(_series, ":=", moments, "Their generating function")
    yield Line(_series, "~", continued(_series), "obeys one equation", parameter=(generating, 0), order=len(MOMENTS) + 1)
    yield Line(sigma, ":=", sqrt(nu * D), "The noise")
    yield Line(generating, ":=", -N / sigma**2, "At this value it is the risk of Bayes, up to its last power")
    yield Line(Lambda_hat + rho * Identity(D), "=", rho * (Identity(D) - generating * Lambda_hat), "for the risk holds the inverse of this")
    yield Line(_risk, ":=", root, "So this is its limit", (), "Bayes")
    yield Line(_risk, "=", continued(_risk), "It solves the equation")
    yield Line(_risk, "->", 1 + 0 * nu, "and is that root which noise brings to 1", parameter=nu, order=1)


def _narayana(k: int):
    """The moment m_k of the law of Marchenko and Pastur of ratio 1/c, by the numbers of Narayana."""
    return sum(binomial(k, j) * binomial(k - 1, j) / (Rational(j + 1) * c**j) for j in range(k))
