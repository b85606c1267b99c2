r"""Labels of another law: with noise, y = w' x + eps with E(eps^2) = sigma^2 (V1), or for task vectors of covariance Sigma_w (V2).

Noise enters everything as an addition to the trace of Lambda. That trace, T, is the variance of a noiseless label: so the sampling error of
a context acts like label noise of variance T.

.. math::
    a_d = \lambda_d^2\Bigl(1 + \frac{1 + (T + \sigma^2)/\lambda_d}{N}\Bigr), \qquad
    \mathcal L(S) = \sigma^2 + T - \sum_{d\in S}\frac{\lambda_d}{1 + (1 + (T + \sigma^2)/\lambda_d)/N}

In a common eigenbasis with eigenvalues lambda_d of Lambda and s_d of Sigma_w, the growth from small weights goes by lambda^2 s, the drop of
the loss by p = lambda s: the orders may differ, see (V2-rotation). Without a common eigenbasis p_d are the eigenvalues of
Lambda^(1/2) Sigma_w Lambda^(1/2), see (V2-congruence).
"""

from dataclasses import replace

from mpmath import diag, norm
from sympy import Derivative, Identity, Symbol, Trace, ZeroMatrix, cancel, diff

from ...algebra.polynomial import TracePolynomial
from ...calculus import over_directions, substitute
from ...derivations import Condition, E, Gradient, Line, Lines, given, register, states
from ...derivations.draws import EIGENVECTOR, along_one_eigenvector, definite, satisfying, square_root
from ...expectation import Fixed, Gaussian
from ...notation import B, D, G, Lambda, Lambda_hat, M, N, T, beta, e, lambda_, learned, matrix, sigma, symmetric_matrix, v_star

# isort: split
from ...notation import vector, w, x_q, y, y_q
from ..landscape.completeness import off_diagonal
from ..landscape.fixed_points import Gamma, direction, map_at_fixed_point, ridge, written_map_along
from ..landscape.levels import at_fixed_map, fixed_loss, learned_alone
from ..separate.aligned import fixed_value, growing
from ..task.population import P_w, Sigma_w, Task, general_loss, omega, zeta
from ..task.regression import X_c, correlation_with_error, force
from ..task.second_moments import EIGENVECTOR as ALONG_EIGENVECTOR, eigenvalue, second_moment

# Noise

NOISY = Task(noise=sigma**2)
noise = vector("epsilon", N, latex=r"\boldsymbol{\epsilon}")
NOISY_LAWS = (
    r"$\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{I})$, Gaussian tokens, independent label noise of variance $\sigma^2$, on the "
    r"query too"
)
ALONG_e = NOISY.E((e.T * beta) ** 2)


@register("V1-beta", "The correlation of a context with noisy labels")
@states("mean", lambda: Lambda_hat * w + zeta)
@states("covariance", lambda: sigma**2 / N * Lambda_hat)
@states("second", lambda: (1 + 1 / N) * Lambda**2 + (Trace(Lambda) + sigma**2) / N * Lambda)
@states("a", lambda: lambda_**2 * (1 + (1 + (Trace(Lambda) + sigma**2) / lambda_) / N))
@given(NOISY_LAWS, ALONG_EIGENVECTOR)
def noisy_correlation() -> Lines:
    """The noise in (8); then averages over the noise, the task and the context."""
    of_context = (Fixed(zeta, X_c * noise / N), Gaussian(noise, covariance=sigma**2 * Identity(N)))
    yield Line(Lambda_hat, ":=", X_c * X_c.T / N, "The sample covariance")
    yield Line(zeta, ":=", X_c * noise / N, r"What the noise adds to $\boldsymbol{\beta}$")
    yield Line(beta, ":=", X_c * (X_c.T * w + noise) / N, "The labels $y_n = \\boldsymbol{w}^\\top\\boldsymbol{x}_n + \\epsilon_n$ in (8)")
    yield Line(beta, "=", Lambda_hat * w + zeta, "The sample covariance and the noise", part="mean")
    yield Line(E(zeta * zeta.T, of_context, given=X_c), "=", sigma**2 / N * Lambda_hat, "Given the tokens, averaged", part="covariance")
    yield from second_moment(NOISY).within({"second": "second"})
    yield from eigenvalue(NOISY).within({"product": "a"})


@register("V1-levels", "The loss at the fixed points with label noise")
@states("loss", lambda: sigma**2 + over_directions(lambda_ - learned * lambda_ * ridge(lambda_, T + sigma**2)))
@states("limit", lambda: sigma**2 + over_directions((1 - learned) * lambda_))
@states("map", lambda: learned / lambda_ * ridge(lambda_, T + sigma**2))
@given(NOISY_LAWS, direction(NOISY), at_fixed_map(NOISY))
def noisy_levels() -> Lines:
    """The fixed points of (23) and (59) with the noisy moment."""
    yield from fixed_loss(NOISY).within({"loss": "loss", "limit": "limit"})
    yield from map_at_fixed_point(NOISY).within("map")
    yield Line(NOISY.E((w.T * x_q - beta.T * Gamma * x_q) ** 2), "=", NOISY.E((y_q - beta.T * Gamma * x_q) ** 2) - sigma**2,
               r"A noiseless query costs $\sigma^2$ less")  # fmt: skip


@register("V1-order", "Label noise changes no rate near the origin, only how far a direction is learned")
@states("growth", lambda: Lambda**2)
@states("fixed", lambda: lambda_ * (1 + (1 + (T + sigma**2) / lambda_) / N))
@states("slope", lambda: N * lambda_ * ((N + 1) * lambda_ + 2 * (T + sigma**2)) / ((N + 1) * lambda_ + T + sigma**2) ** 2)
@given(NOISY_LAWS, growing(NOISY))
def noisy_order() -> Lines:
    """The force at B = 0 holds no noise; what a head rests at, (25), and how drops rise, (T1c), at the noisy moment."""
    yield Line(NOISY.E(beta * y_q * x_q.T), "=", NOISY.moments.A, "The force at zero weights: the noise adds nothing to it", part="growth")
    yield from fixed_value(NOISY).within()
    yield Line(v_star**-3, "=", cancel(1 / written_map_along(NOISY)), "One over its cube", part="fixed")
    yield from off_diagonal(NOISY).within({"slope": "slope"})[-2:]


@register("V1-ridge", "The algorithm learned under label noise is a shrunken ridge regression with the tokens' covariance known")
@states("map", lambda: (1 + 1 / N) * Lambda**2 + (Trace(Lambda) + sigma**2) / N * Lambda)
@states("excess", lambda: Lambda + (Trace(Lambda) + sigma**2) * Identity(D))
@given(NOISY_LAWS)
def noisy_ridge_regression() -> Lines:
    """The gradient vanishes at M B = Lambda; so Lambda B^-1 = M, and the penalty is the rest of it beside Lambda."""
    M_noisy = NOISY.moments.M
    yield from correlation_with_error(NOISY).within()
    yield Line(B, ":=", M.I * Lambda, "The global minimum")
    yield Line(G, "=", ZeroMatrix(D, D), "The force vanishes there")
    yield Line(Lambda * B.I, "=", M_noisy, r"The inverse map is $\boldsymbol{\Lambda}^{-1}\boldsymbol{M}$", part="map")
    yield Line(N * (B.I - Lambda), "=", N * (TracePolynomial(Lambda.I) * M_noisy - Lambda),
               r"The inverse less $\boldsymbol{\Lambda}$, times $N$", part="excess")  # fmt: skip
    cost = sigma**2 * Trace(w.T * w) / 2 + Trace((y - X_c.T * w).T * (y - X_c.T * w)) / 2
    yield Line(Gradient(cost, w) / N, "=", (X_c * X_c.T / N + sigma**2 / N * Identity(D)) * w - X_c * y / N,
               r"Zero at the posterior mean of the task, a ridge regression that inverts $\hat{\boldsymbol{\Lambda}}$")  # fmt: skip


# A covariance of the task vectors

p = Symbol("p", positive=True)  # lambda omega, the share of one direction in it
root = symmetric_matrix("L", D, latex=r"\boldsymbol{\Lambda}^{1/2}")
S_w = symmetric_matrix("S", D)  # Lambda^(1/2) Sigma_w Lambda^(1/2)
C = matrix("C", D)
TASK = Task(task_covariance=Sigma_w)
SHARED = replace(TASK, commuting=True)
TASK_LAWS = r"$\boldsymbol{w} \sim \mathcal{N}(0, \boldsymbol{\Sigma}_{w})$, Gaussian tokens, no noise"
CORRELATION = TASK.E(beta * y_q * x_q.T)
COMMON = satisfying(
    r"$\boldsymbol{\Lambda}$ and $\boldsymbol{\Sigma}_w$ commute; $\boldsymbol{e}$ is a common unit eigenvector, of eigenvalues $\lambda$ "
    r"and $\omega$; $P = \operatorname{tr}(\boldsymbol{\Sigma}_w\boldsymbol{\Lambda})$ is the variance of a label",
    {Sigma_w * e: omega * e, Trace(Sigma_w * Lambda): P_w},
    SHARED.condition(EIGENVECTOR, along_one_eigenvector).draw,
)


ROOT = Condition(
    r"$\boldsymbol{\Lambda}$ is positive definite, and $\boldsymbol{\Lambda}^{1/2}$ its positive root",
    lambda point: definite(root)(point) and norm(point[root] ** 2 - point[Lambda]) < 1e-20,
    lambda point: point.__setitem__(root, square_root(point)),
    lambda point: point.__setitem__(root, diag(list(range(point[D])))),
)


@register("V2-moments", "The moments of a task with a covariance")
@states("A", lambda: Lambda * Sigma_w * Lambda)
@states("M", lambda: (1 + 1 / N) * Lambda * Sigma_w * Lambda + Trace(Sigma_w * Lambda) / N * Lambda)
@states("white", lambda: Lambda**2 + (Lambda**2 + Trace(Lambda) * Lambda) / N)
@states("c", lambda: Trace(Sigma_w * Lambda))
@given(TASK_LAWS)
def moments() -> Lines:
    """The general moments (V0) without noise, for a query with the tokens' covariance."""
    white = substitute(TASK.moments.M, {Sigma_w: Identity(D)})
    yield from general_loss(TASK).within({part: part for part in "AMc"})
    yield Line(E(Lambda_hat**2), "=", white, r"With $\boldsymbol{\Sigma}_w = \boldsymbol{I}$ it is (31)", part="white")


@register("V2-order", r"Task and token spectra that disagree: growth by $\lambda^{2} \omega$, drops by $\lambda \omega$")
@states("rate", lambda: lambda_**2 * omega)
@states("map", lambda: omega / ((1 + 1 / N) * lambda_ * omega + P_w / N))
@states("drop", lambda: p**2 / ((1 + 1 / N) * p + P_w / N))
@states("slope", lambda: p * ((1 + 1 / N) * p + 2 * P_w / N) / ((1 + 1 / N) * p + P_w / N) ** 2)
@given(TASK_LAWS, COMMON)
def order() -> Lines:
    """A, A/(M Q) and A^2/(M Q) along a common eigenvector."""
    alone = learned_alone(SHARED, SHARED.eigenvalue)
    drop = cancel(alone.parts["drop"].subs(omega, p / lambda_))
    slope = cancel(diff(drop, p))
    yield Line(Derivative(drop, p), "=", slope, "How the drop of the loss, computed below, changes with $p$ at given $P$", part="slope")
    yield Line(slope, ">", 0, "It rises")
    yield from alone.within({"rate": "rate", "map": "map"})
    yield Line(p, ":=", lambda_ * omega, "The share of the direction in it")
    yield Line(alone.lines[-1].left, "=", drop, "In terms of this, what it takes from the loss", part="drop")


@register("V2-congruence", "When nothing commutes: the levels are those of commuting covariances, the directions are not orthogonal")
@states("A", lambda: root * S_w * root)
@states("M", lambda: root * ((1 + 1 / N) * S_w + Trace(S_w) / N * Identity(D)) * root)
@states("force", lambda: S_w - ((1 + 1 / N) * S_w + Trace(S_w) / N * Identity(D)) * C)
@states("minimum", lambda: M.I * Lambda * Sigma_w)
@given(TASK_LAWS, ROOT)
def congruence() -> Lines:
    """Put the root of Lambda and the whitened task covariance into the moments and the force."""
    in_roots = {Lambda: root**2, Sigma_w: root.I * S_w * root.I}  # with root = Lambda^(1/2) and S = root Sigma_w root
    A, M_, *_ = TASK.moments
    inside = TracePolynomial(root.I) * substitute(substitute(force(TASK), {M: M_, B: root.I * C * root.I}), in_roots) * root.I
    yield from correlation_with_error(TASK).within()
    yield Line(Lambda, ":=", root**2, r"The root of $\boldsymbol{\Lambda}$")
    yield Line(S_w, ":=", root * Sigma_w * root, "The task covariance in whitened tokens")
    yield Line(C, ":=", root * B * root, "The effective map in whitened tokens")
    yield Line(CORRELATION, "=", substitute(A, in_roots), "The correlation of target and feature", part="A")
    yield Line(TASK.square(), "=", substitute(M_, in_roots), r"The second moment of $\boldsymbol{\beta}$", part="M")
    yield Line(root.I * G * root.I, "=", inside, "The force in whitened tokens", part="force")
    yield Line(M.I * CORRELATION * E(x_q * x_q.T).I, "=", TracePolynomial(M.I) * A * Lambda.I,
               r"The global minimum, with the letter $\boldsymbol{M}$ for the second moment", part="minimum")  # fmt: skip
    yield Line(CORRELATION, "=", M * (M.I * Lambda * Sigma_w) * Lambda, "The force vanishes there")
