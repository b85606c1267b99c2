r"""The algorithms in context: what the converged model computes, its loss, principal components (27), and the limits of long contexts.

At the global minimum the effective map is Lambda_N^-1 with Lambda_N = Lambda + (Lambda + tr(Lambda) I) / N, equation (16); a context of N
tokens costs (1 + D) tr(Lambda) / N of loss, to first order, where least squares in context would cost nothing.
"""

from functools import cache

from mpmath import diag, mpf, norm
from sympy import Expr, Identity, Trace, cancel, limit, oo

from ...algebra.polynomial import TracePolynomial
from ...calculus import collect, over_directions, rewrite, substitute
from ...derivations import Condition, E, Gradient, Line, Lines, erratum, given, note, register, states
from ...derivations.draws import ALONG, eigenvalues
from ...expectation import Gaussian, expect
from ...notation import B, D, Lambda, Lambda_hat, Lambda_q, M, N, T, a, beta, e, e_d, lambda_, matrix, w, x_q, y_q
from ..attention.cubic_features import POSITIVE, QUERY, QUERY_LAW, Lambda_N, shrunk_covariance
from ..landscape.fixed_points import fixed_map_along
from ..task.population import PAPER, Sigma_w
from ..task.regression import NOISELESS, closed_loss, force
from ..task.second_moments import EIGENVECTOR

A_w = matrix("A_w", D)
excess = matrix("E", D)  # Lambda^-1 Lambda_N = I + E / N
ERROR = (y_q - beta.T * B * x_q) ** 2
DEFINITION = Line(Lambda_N, ":=", Lambda + (Lambda + Trace(Lambda) * Identity(D)) / N, "The inverse of the map (16)")
LEAST = Trace(Lambda) - Trace(Lambda * Lambda_N.I * Lambda)


TASKS = Condition(
    r"$\boldsymbol{w}$ has a covariance $\boldsymbol{\Sigma}_w \ne 0$",
    lambda point: eigenvalues(point[Sigma_w])[0] >= 0 and norm(point[Sigma_w]) > 0,
    lambda point: point.__setitem__(Sigma_w, point[Sigma_w] ** 2),
    lambda point: point.__setitem__(Sigma_w, 0 * point[Sigma_w]),
)


@register("16-tasks", "Regression in context when the task vectors are not isotropic", section="Beside (16)")
@states("factor", lambda: (1 + 1 / N) * Sigma_w * Lambda + Trace(Sigma_w * Lambda) / N * Identity(D))
@states("map", lambda: A_w.I * Sigma_w)
@states("isotropic", lambda: Lambda + (Lambda + Trace(Lambda) * Identity(D)) / N)
@given(TASKS, POSITIVE, QUERY)
def other_tasks() -> Lines:
    """The normal equations for the effective map."""
    laws = [Gaussian(w, covariance=Sigma_w), QUERY_LAW]
    second, cross = (expect(one, laws) for one in (beta * beta.T, beta * y_q * x_q.T))
    factor_ = Lambda.I * second
    yield Line(A_w, ":=", Lambda.I * E(beta * beta.T, laws), r"The second moment of $\boldsymbol{\beta}$ without its first factor")
    yield Line(A_w, "=", factor_, "Averaged", (), "factor")
    yield Line(E(beta * y_q * x_q.T, laws), "=", cross, r"The correlation of $\boldsymbol{\beta}$ with the target and the query")
    yield Line(-Gradient(E(ERROR, laws), B) / 2, "=", cross - second * B * Lambda_q, "The force on the effective map")
    yield Line(B, ":=", TracePolynomial(Lambda * A_w).reciprocal() * cross * Lambda_q.I, "The minimum of the loss", (), "map")
    yield Line(Lambda * A_w * B * Lambda_q, "=", cross, "for the two parts of the force cancel there")
    yield Line(Sigma_w, ":=", Identity(D), "For isotropic tasks")
    yield Line(A_w, "=", substitute(factor_, {Sigma_w: Identity(D)}), r"this is $\boldsymbol{\Lambda}_{N}$, equation (16)", (), "isotropic")


@register("16-loss", "Least loss of linear attention", section="Beside (16)")
@states("map", lambda: Trace(Lambda) - Trace(Lambda * Lambda_N.I * Lambda))
@states("each", lambda: lambda_ * (1 - 1 / (1 + (1 + T / lambda_) / N)))
@given(ALONG)
def least_loss() -> Lines:
    """The loss (9-closed) at the map (16), then on an eigenvector of Lambda."""
    at_map = rewrite(substitute(closed_loss().result, {B: Lambda_N.I}), {M * Lambda_N.I: Lambda})
    each = lambda_ - lambda_**2 / cancel(PAPER.eigenvalue / lambda_)
    share = Lambda - Lambda * Lambda_N.I * Lambda
    yield DEFINITION
    yield Line(E(ERROR), ">=", at_map, "A bound for the loss of every map")
    yield Line(B, ":=", Lambda_N.I, "The map (16)")
    yield Line(E(ERROR), "=", at_map, "reaches it", (), "map")
    yield Line(at_map, "=", over_directions(each), "Its sum over the eigendirections")
    yield Line(e.T * share * e, "=", each, "The term of one of them", (), "each")


@register("16-limit", "Least loss in a long context", section="Beside (16)")
@states("first", lambda: (1 + D) * Trace(Lambda) / N)
@states("second", lambda: -((1 + 2 * D) * Trace(Lambda) + Trace(Lambda) ** 2 * Trace(Lambda.I)) / N**2)
@states("remainder", lambda: (Identity(D) + Trace(Lambda) * Lambda.I) ** 3 / N**3)
def long_context() -> Lines:
    """The inverse of Lambda^-1 Lambda_N = I + E/N to second order in 1/N, with its exact remainder."""
    value = (TracePolynomial(Lambda.I) * shrunk_covariance() - Identity(D)) * N
    inverse = Identity(D) - excess / N + excess**2 / N**2
    truncated = Lambda.I * Lambda_N * inverse
    loss = collect(substitute(Trace(Lambda) - Trace(inverse * Lambda), {excess: value}), N)
    first, second = loss[-1] / N, loss[-2] / N**2
    yield DEFINITION
    yield Line(excess, ":=", value, r"What a finite context adds to $\boldsymbol{\Lambda}$")
    yield Line(Lambda.I * Lambda_N, "=", Identity(D) + excess / N, "So that")
    yield Line(truncated - Identity(D), "=", (value / N) ** 3, "The inverse of this to second order leaves", (), "remainder")
    yield Line(LEAST, "~", first, "The loss (16-loss) to first order", (), "first", parameter=N, order=2)
    yield Line(LEAST - first, "~", second, "Its term of second order", (), "second", parameter=N, order=3)


@register("16-large", "Regression in a long context", kind="limit", section="Section 3.4")
@states("limit", lambda: beta.T * Lambda.I * x_q)
@states("next", lambda: -beta.T * (Lambda.I + Trace(Lambda) * Lambda.I**2) * x_q)
def regression_in_long_context() -> Lines:
    """The first two orders of Lambda_N^-1."""
    first = 2 * Lambda.I - TracePolynomial(Lambda.I) * shrunk_covariance() * Lambda.I
    orders = collect(TracePolynomial(beta).T * first * x_q, N)
    output = beta.T * Lambda_N.I * x_q
    yield DEFINITION
    yield Line(output, "->", orders[0], "The output tends to", (), "limit", parameter=N, order=1)
    yield Line(N * (output - orders[0]), "->", orders[-1], "$N$ times what is left", (), "next", parameter=N, order=1)


@register("16-ols", "Least squares in context has no loss", section="Beside (16)")
@states(lambda: w.T * x_q)
@given(
    NOISELESS,
    Condition(
        r"$N \ge D$",
        lambda point: point[N] >= point[D],
        outside=lambda point: point.__setitem__(Lambda_hat, diag([mpf(d < point[N]) for d in range(point[D])])),
    ),
)
@erratum("The paper calls (16) approximately least squares: its loss is of order $1/N$ (16-limit), that of least squares is zero.")
def least_squares() -> Lines:
    """Put in beta = Lambda_hat w."""
    output = beta.T * Lambda_hat.I * x_q
    yield Line(y_q - output, "=", 0 * w.T * x_q, "Least squares in the context misses nothing of the target", ("4", "30"))
    yield Line(output, "=", substitute(output, {beta: Lambda_hat * w}), "With the correlation (30) it is", "30")


@cache
def level() -> Expr:
    """The eigenvalue of B in a learned eigendirection, lambda_d / a_d, in lambda_d, N and T = tr(Lambda)."""
    return fixed_map_along().subs(a, PAPER.eigenvalue).cancel()


@register("27", "Principal component regression at a fixed point", kind="limit", section="Section 4.3")
@states("finite", lambda: 1 / (lambda_ * (1 + (1 + T / lambda_) / N)) * (beta.T * e_d) * (e_d.T * x_q))
@states("limit", lambda: (w.T * e_d) * (e_d.T * x_q))
@states("next", lambda: -(1 + T / lambda_) / lambda_)
@given(EIGENVECTOR)
@note("The prediction is the sum of this over the learned directions $d$")
@erratum("The components are those of the population covariance; they are those of the context only as $N$ grows.")
def principal_component() -> Lines:
    """The level at which the force vanishes on an eigenvector; then its limit."""
    direction = e_d.T * x_q
    finite, distance = level() * (beta.T * e_d) * direction, level() - 1 / lambda_
    missed = beta - Lambda * w
    yield Line(M, ":=", E(Lambda_hat**2), "The second moment (31)")
    yield Line(B, ":=", level() * e_d * e_d.T, "The effective map of a learned direction")
    yield Line(force() * e_d, "=", 0 * e_d, "The force (53) vanishes on it")
    yield Line(beta.T * B * x_q, "=", finite, "Its prediction", (), "finite")
    yield Line(E(missed.T * missed), "->", 0 * N, "In a long context", parameter=N, order=1)
    yield Line(beta, ":=", Lambda * w, "So there")
    yield Line(finite, "->", (w.T * e_d) * direction, "the prediction tends to", (), "limit", parameter=N, order=1)
    yield Line(N * distance, "->", limit(N * distance, N, oo), "$N$ times the next order of the level", (), "next", parameter=N, order=1)
