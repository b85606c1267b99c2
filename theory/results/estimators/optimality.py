r"""Trained linear attention beside the predictors that no single map can equal: least squares, ridge and Bayes (V9).

The risk is the error E(w'x_q - y_hat)^2 in the noiseless target, for w ~ N(0, I), Gaussian tokens and label noise of variance sigma^2
in the context. With the letter C = Lambda_hat + rho I, ridge predicts beta' C^-1 x_q; the posterior mean is ridge with rho = sigma^2/N. Its
risk, sigma^2/N E tr(Lambda C^-1), has no elementary closed form for finite N and D > 1: there are two bounds, and the limit of
:mod:`~iclflow.theory.results.estimators.high_dimension`.
"""

from functools import cache

from sympy import Identity, S, Symbol, Trace, cancel, factor, limit, oo, solve, sqrt

from ...calculus import gradient, hessian_form, over_directions, rewrite, substitute
from ...derivations import Condition, E, Gradient, Line, Lines, SecondVariation, given, note, register, states
from ...derivations.draws import EIGENVECTOR, definite
from ...expectation import Fixed, Gaussian, SampleCovariance, expect
from ...notation import B, D, Lambda, Lambda_hat, M, N, T, a, beta, e, lambda_, sigma, symmetric_matrix, vector, w, x_q
from ..task.population import zeta
from ..task.regression import X_c, y
from ..variations.labels import NOISY as NOISY_LABELS, ALONG_e

C = symmetric_matrix("C", D)  # Lambda_hat + rho I
rho = Symbol("rho", positive=True)  # penalty of ridge
nu = Symbol("nu", positive=True)  # variance of the noise in units of tr(Lambda), that of a noiseless label
c = Symbol("c", positive=True)  # N / D
K_hat = symmetric_matrix("K_hat", N)  # (1/D) X_c' X_c, the Gram matrix of the context
dC = symmetric_matrix("dC", D, latex=r"\delta\boldsymbol{C}")
u = vector("u", D)
crossing = Symbol("N_*", positive=True)

NOISY = (Fixed(beta, Lambda_hat * w + zeta), Gaussian(zeta, covariance=sigma**2 / N * Lambda_hat))
TASK = r"$\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{I})$, Gaussian tokens, label noise of variance $\sigma^{2}$ in the context"
WHITE = r"White tokens, $\boldsymbol{\Lambda} = \lambda \boldsymbol{I}$, and $\sigma^2=\nu\operatorname{tr}(\boldsymbol{\Lambda})$"


def _more_dimensions(point) -> None:
    point[D] = point[N] + point.rng.choice([2, 3])


def _at_the_pole(point) -> None:
    point[N] = point[D] + 1


LONG = Condition("$N > D + 1$", lambda point: point[N] > point[D] + 1, outside=_at_the_pole)
SHORT = Condition("$N < D - 1$", lambda point: point[N] < point[D] - 1, _more_dimensions)


@register("V9-posterior", "The Bayes predictor is ridge")
@states(lambda: beta - (Lambda_hat + sigma**2 / N * Identity(D)) * u)
@given(TASK)
def posterior_mean() -> Lines:
    """Differentiate the logarithm of the Gaussian posterior, which is quadratic, and name what the context enters through."""
    residual = y - X_c.T * u
    density = residual.T * residual / sigma**2 + u.T * u
    slope = -gradient(density, u) * sigma**2 / (2 * N)
    named = rewrite(slope, {X_c * X_c.T: N * Lambda_hat, X_c * y: N * beta})
    head = -(sigma**2) / (2 * N) * Gradient(density, u)
    yield Line(C, ":=", Lambda_hat + sigma**2 / N * Identity(D), r"The matrix of ridge with the penalty $\sigma^2/N$")
    yield Line(substitute(named, {u: C.I * beta}), "=", 0 * u, "At the solution of ridge, the posterior mean, the slope below vanishes")
    yield Line(head, "=", slope, r"The slope of the logarithm of the posterior density at a task vector $\boldsymbol{u}$")
    yield Line(head, "=", named, "In the letters of the context", ("8", "28"))


@register("V9-ridge", "The risk of ridge given the context")
@states("any", lambda: rho**2 * Trace(Lambda * C.I**2) + sigma**2 / N * (Trace(Lambda * C.I) - rho * Trace(Lambda * C.I**2)))
@states("slope", lambda: S.Zero)
@states("Bayes", lambda: sigma**2 / N * Trace(Lambda * C.I))
@given(TASK)
def risk_of_ridge() -> Lines:
    """Average over the task, the noise and the query; then rho = sigma^2 / N."""
    square, at_bayes, r = (w.T * x_q - beta.T * C.I * x_q) ** 2, {rho: sigma**2 / N}, Symbol("r", positive=True)
    averaged = expect(square, NOISY, given=(Lambda_hat, C))
    risk, slope = (substitute(one, {Lambda_hat: C - rho * Identity(D)}) for one in (averaged, gradient(averaged, C).trace()))
    of_context = Trace(Gradient(r, C))
    yield Line(Lambda_hat, ":=", C - rho * Identity(D), r"By the definition of $\boldsymbol{C}$")
    yield Line(r, ":=", E(square, NOISY, given=(Lambda_hat, C)), "The risk, averaged over task, noise and query")
    yield Line(r, "=", risk, "Carried out", (), "any")
    yield Line(of_context, "=", slope, r"Its slope in $\rho$, through $\boldsymbol{C}$")
    yield Line(rho, ":=", sigma**2 / N, "The penalty of the posterior mean")
    yield Line(of_context, "=", substitute(slope, at_bayes), "There the slope vanishes", (), "slope")
    yield Line(r, "=", substitute(risk, at_bayes), "and the risk is", (), "Bayes")


@register("V9-ols", "The risk of least squares in context")
@states("long", lambda: sigma**2 * D / (N - D - 1))
@states("short", lambda: lambda_ * (D - N) + sigma**2 * N / (D - N - 1))
@given(TASK, "Short contexts: white tokens")
@note("Short contexts: the solution of least norm", "Argued, not derived: with noise the risk is infinite for $N = D - 1$, $D$ and $D + 1$")
def risk_of_least_squares() -> Lines:
    """An inverse Wishart moment: of Lambda_hat if the context is long, of its Gram matrix if it is short."""
    error = w.T * x_q - beta.T * Lambda_hat.I * x_q
    given = expect(error**2, NOISY, given=Lambda_hat)
    # y_hat = y' (X_c' X_c)^-1 X_c' x_q with X_c' X_c = D K_hat
    weights = X_c * K_hat.I / D
    missed = Identity(D) - weights * X_c.T
    lost, spread = (rewrite(one, {X_c.T * X_c: D * K_hat}) for one in (Trace(missed * missed.T), Trace(weights.T * weights)))
    law = SampleCovariance(K_hat, lambda_ * Identity(N), D)
    of_context = lambda_ * (lost + sigma**2 * spread).to_sympy()
    long, short = (factor(expect(*one).to_sympy()) for one in ((given,), (of_context, law)))
    yield Line(E(error**2, NOISY, given=Lambda_hat), "=", given, "Long contexts: averaged over task, noise and query")
    yield Line(E(error**2, NOISY), "=", long, "and over the context", (), "long", (LONG,))
    yield Line(K_hat, ":=", X_c.T * X_c / D, "Short ones: the Gram matrix")
    yield Line(Trace(missed * missed.T), "=", lost, "What is lost of the task outside the span of the tokens", conditions=(SHORT,))
    yield Line(Trace(weights.T * weights), "=", spread, "The noise inside it", conditions=(SHORT,))
    yield Line(E(of_context, law), "=", short, "Averaged: it is a sample covariance of $D$ tokens in $N$ dimensions", (), "short", (SHORT,))


@cache
def linear_risk():
    """The risk of trained linear attention along one eigendirection: (V1-levels) with all of them learned, less the noise of the query."""
    return factor(cancel(lambda_ - lambda_**3 / NOISY_LABELS.eigenvalue))


IN_UNITS = {T: D * lambda_, sigma: sqrt(nu * D * lambda_)}


@cache
def white_risk() -> dict:
    """The risks for white tokens in units of tr(Lambda), with sigma^2 = nu tr(Lambda)."""
    risks = {"linear": D * linear_risk(), "least squares": risk_of_least_squares().parts["long"]}
    return {name: factor(cancel(risk.subs(IN_UNITS) / (lambda_ * D))) for name, risk in risks.items()}


@register("V9-linear", "The risk of trained linear attention")
@states("each", lambda: lambda_ * (1 - 1 / (1 + (1 + (T + sigma**2) / lambda_) / N)))
@states("white", lambda: (1 + D + nu * D) / (N + 1 + D + nu * D))
@given(TASK, EIGENVECTOR)
def risk_of_linear_attention() -> Lines:
    """What is left of the loss once all directions are learned."""
    left = Lambda - Lambda * M.I * Lambda**2
    risk = E((w.T * x_q - beta.T * B * x_q) ** 2, NOISY)
    yield from NOISY_LABELS.definitions()
    yield Line(a, ":=", ALONG_e, r"Its eigenvalue along an eigenvector of $\boldsymbol{\Lambda}$")
    yield Line(a, "=", NOISY_LABELS.eigenvalue, "The noisy moment (V1-beta)")
    yield Line(B, ":=", M.I * Lambda, "The global minimum")
    yield Line(risk, "=", Trace(left), "The risk there")
    yield Line(e.T * left * e, "=", lambda_ - lambda_**3 / a, "Its share of one direction")
    yield Line(e.T * left * e, "=", linear_risk(), "With the moment", (2,), "each")
    yield Line(risk, "=", over_directions(linear_risk()), "Summed over all of them")
    for letter, value in IN_UNITS.items():
        yield Line(letter, ":=", value, "White tokens")
    yield Line(linear_risk() / lambda_, "=", white_risk()["linear"], r"In units of $\operatorname{tr}(\boldsymbol{\Lambda})$", (), "white")


@register("V9-crossover", "From $D + 2$ tokens up to this context length linear attention beats least squares")
@states("N", lambda: (D + 1 + nu * D) ** 2 / (D + 1))
@states("limit", lambda: (1 + nu) ** 2)
@given(TASK, WHITE, LONG)
def crossover() -> Lines:
    """Set the two risks equal; the equation is linear in N."""
    linear, squares = white_risk().values()
    (length,) = solve(cancel((linear - squares).as_numer_denom()[0]), N)
    apart = factor(linear - squares)
    yield Line(linear - squares, "=", apart, "Linear attention less least squares")
    yield Line(crossing, ":=", factor(length), "It vanishes at", (), "N")
    yield Line(apart.subs(N, crossing), "=", 0 * nu, "for there")
    yield Line(Line(N, "<", crossing), "=>", Line(linear, "<", squares), "Below, linear attention is better")
    yield Line(crossing / D, "->", limit(length / D, D, oo), "In high dimension", (), "limit", parameter=D, order=1)


def _positive(point) -> None:
    point[C] = point[C] * point[C] + point[Lambda_hat]


@register("V9-bounds", "Bounds for the risk of Bayes")
@states("curvature", lambda: 2 * Trace(Lambda * C.I * dC * C.I * dC * C.I))
@states("lower", lambda: sigma**2 / N * lambda_ / (lambda_ + sigma**2 / N))
@states("long", lambda: sigma**2)
@given(TASK, EIGENVECTOR, Condition(r"$\boldsymbol{C}$ is positive definite", definite(C), _positive))
def bounds() -> Lines:
    """Jensen's inequality for the risk given the context."""
    trace, penalty = Trace(Lambda * C.I), sigma**2 / N
    bend = hessian_form(trace, {C: dC})
    lower = cancel(penalty * lambda_ / (lambda_ + penalty))
    law, squares = Fixed(C, Lambda_hat + penalty * Identity(D)), risk_of_least_squares().parts["long"] / D
    yield Line(SecondVariation(trace, {C: dC}), "=", bend, r"How the risk given the context bends with $\boldsymbol{C}$", (), "curvature")
    yield Line(bend, ">=", 0 * nu, "It is convex")
    yield Line(E(C, law) * e, "=", (lambda_ + penalty) * e, r"The mean of $\boldsymbol{C}$ on an eigenvector")
    yield Line(E(penalty * e.T * Lambda * C.I * e, law), ">=", lower, "So this share is at least its value at the mean", (), "lower")
    yield Line(N * lower, "->", limit(N * lower, N, oo), "In a long context", (), "long", parameter=N, order=1)
    yield Line(N * squares, "->", sigma**2, "A share of the risk of least squares tends to the same", parameter=N, order=1)
    yield Line(N * linear_risk(), "->", lambda_ + T + sigma**2, "but not that of linear attention", parameter=N, order=1)
