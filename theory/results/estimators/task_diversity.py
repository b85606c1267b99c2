r"""The risks of (V11) in high dimension, for K = kappa D tasks and N = (1 + nu) D/theta tokens: the transition at K = D.

.. math::
    u^2 + (\kappa - 1 + \kappa\theta)u = \kappa\theta, \qquad \mathcal R_{\rm seen} = \theta(1 - u), \qquad
    \mathcal R_{\rm new} = 2u - 1 + (1 + \theta)\Bigl(1 - u - \theta\frac{du}{d\theta}\Bigr)
"""

from sympy import Derivative, Rational, Symbol, factor, limit, numer, oo, sqrt, together

from ...derivations import Condition, Line, Lines, given, note, register, states
from ...derivations.draws import at
from ...notation import D, N, T, lambda_, sigma
from ..landscape.fixed_points import b
from ..task.population import P_w, omega
from ..variations.finite_tasks import DRAWN, GIVEN, risks
from ..variations.labels import p
from .high_dimension import UNITS, continued, generating, high_dimension
from .optimality import WHITE, c, nu

kappa = Symbol("kappa", positive=True)  # K/D
theta = Symbol("theta", positive=True)  # (1 + nu) D/N, with noise of nu tr(Lambda)
u = Symbol("u", positive=True)  # the mean of theta/(omega + theta) over the directions
R_seen, R_new = (Symbol(rf"R_{name}", real=True) for name in ("seen", "new"))


FEWER = Condition(r"$\kappa < 1$", lambda point: point[kappa] < 1, lambda point: at(kappa, point[kappa] / (1 + point[kappa]))(point))
AS_MANY = Condition(r"$\kappa = 1$", lambda point: point[kappa] == 1, at(kappa, 1))
MORE = Condition(r"$\kappa > 1$", lambda point: point[kappa] > 1, lambda point: at(kappa, 1 + point[kappa])(point))


@register("V11-limit", "The risks in high dimension: the transition in the number of tasks", kind="limit")
@states("u", lambda: (1 - kappa - kappa * theta + sqrt((1 - kappa - kappa * theta) ** 2 + 4 * kappa * theta)) / 2)
@states("seen", lambda: theta * (1 - u))
@states("new", lambda: 2 * u - 1 + (1 + theta) * (1 - u) * (2 * u + kappa - 1) / (2 * u + kappa - 1 + kappa * theta))
@states("few", lambda: 1 - kappa)
@states("as many", lambda: Rational(1, 2))
@states("many", lambda: 1)
@given(GIVEN, DRAWN, WHITE, r"$K = \kappa D$")
@note(
    UNITS,
    r"$u$ is the mean of $\theta/(\omega + \theta)$ over the eigenvalues $\omega$ of $\boldsymbol{\Sigma}_w$",
    r"Argued, not derived: they have the law of Marchenko and Pastur, (V9-limit), and the mean 1",
)
def transition() -> Lines:
    """The share of a direction in either risk, as D grows; then the average over the directions, by that of (V9-limit)."""
    shares, per_unit = risks().parts, {P_w: D * lambda_, T: D * lambda_, p: lambda_ * omega}
    g = theta / (omega + theta)
    kept = {"seen": p - shares["seen"], "new": lambda_ - shares["new"].subs(b, shares["map"])}
    seen, new = (factor((one / lambda_).subs(per_unit)).subs(sigma, sqrt(nu * D * lambda_)) for one in kept.values())
    limits = [factor(limit(one.subs(N, (1 + nu) * D / theta), D, oo)) for one in (seen, new)]
    root = high_dimension().parts["Bayes"].subs({c: kappa, nu: kappa * theta}, simultaneous=True)
    obeyed = continued(u).subs({generating: -1 / theta, c: kappa})
    zero = numer(together(u - obeyed))
    slope = -zero.diff(theta) / zero.diff(u)
    average = 2 * u - 1 + (1 + theta) * (1 - u - theta * slope)
    yield Line(N, ":=", (1 + nu) * D / theta, "A context in proportion to the dimension")
    yield Line(seen, "->", limits[0],
               "The share of a direction (V11-risk) in the risk on tasks seen, over $\\lambda$", parameter=D, order=1)  # fmt: skip
    yield Line(limits[0], "=", theta * (1 - g), "It is linear in $\\theta/(\\omega + \\theta)$")
    yield Line(new, "->", limits[1], "and in the risk on new tasks", parameter=D, order=1)
    yield Line(limits[1], "=", 2 * g - 1 + (1 + theta) * (1 - g) ** 2, "It is quadratic in it")
    yield Line((1 - g) ** 2, "=", 1 - g - theta * Derivative(g, theta), "Linear in it and its derivative: one average is enough")
    yield Line(u, ":=", root, r"Its average: as in (V9-limit), $\kappa$ for $c$ and $\kappa\theta$ for $\nu$", ("V9-limit",), "u")
    yield Line(u, "=", obeyed, r"It is the generating function of the moments at $-1/\theta$")
    yield Line(Derivative(root, theta), "=", slope, "From that equation")
    yield Line(R_seen, ":=", theta * (1 - u), "The average over the directions", part="seen")
    yield Line(R_seen, "=", u * (1 - 1 / kappa + u / kappa), "The same, without $\\theta$")
    yield Line(R_new, ":=", average, "The average over the directions", part="new")
    yield Line(R_new, "->", 1 - kappa, "In long contexts, fewer tasks than dimensions", (), "few", (FEWER,), (theta, 0), 1)
    yield Line(R_new / sqrt(theta), "->", Rational(1, 2), "As many", (), "as many", (AS_MANY,), (theta, 0), Rational(1, 2))
    yield Line(R_new / theta, "->", 1 + 0 * theta, "More", (), "many", (MORE,), (theta, 0), 1)
