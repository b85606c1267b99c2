"""Zhang, Frei and Bartlett (2024): where gradient flow takes linear attention, and what it does on other prompts than it was trained on."""

from itertools import product

import numpy as np
from iclflow.numerics import MergedWeights, QuadraticLoss, RegressionTask, compile_expression, gradient_flow
from iclflow.theory import E, Gaussian, Model, SampleCovariance, derive, expect, substitute
from iclflow.theory.notation import D, Lambda, Lambda_hat, N, beta, matrix, symmetric_matrix, vector, x_q
from iclflow.verify.figures.gallery import canvas
from iclflow.verify.figures.style import SERIES, themed
from page import Page
from sympy import Identity, Symbol, Trace

page = Page(
    __file__,
    title="Zhang, Frei, Bartlett (2024): the limit of gradient flow, and shifts of the prompt",
    paper="Ruiqi Zhang, Spencer Frei, Peter L. Bartlett: *Trained transformers learn linear models in-context*, JMLR 25(49), 2024",
    link="https://arxiv.org/abs/2306.09927",
    result=r"Gradient flow from small balanced weights ends at $\Gamma^{-1}$; the risk on a test prompt of any joint law of $(x, y)$.",
    verdict="Holds as published. The bound on the initial scale is not sharp: flows from 2, 10 and 50 times that scale end there too.",
)
M = Symbol("M", integer=True, positive=True)  # length of a test prompt; N is that of training
U, u, Gamma = matrix("U_11", D, latex="U_{11}"), Symbol("u", real=True), symmetric_matrix("Gamma", D, latex=r"\Gamma")
a, Sigma, xy = vector("a", D, latex="a"), symmetric_matrix("Sigma", D, latex=r"\Sigma"), vector("b", D, latex="b")
c, kappa = Symbol("c", positive=True), Symbol("kappa", positive=True)
third, second = symmetric_matrix("G", D, latex="G"), symmetric_matrix("L", D, latex="L")  # E Gamma_tau Lambda_tau^2 and E Lambda_tau^2

page.text(r"""
One head of linear attention, $\hat y = u\,\boldsymbol\beta^\top U_{11}\boldsymbol x_q$ with $u$ the last entry of $W^{PV}$ and $U_{11}$
the first block of $W^{KQ}$: merged attention with one head. The numbers are those of arXiv 2306.09927. $\boldsymbol\Lambda$ is the
covariance of the tokens, $N$ the length of the prompts in training, $M$ that of a test prompt.
""")
Gamma_is = page.published("Theorem 4.1", Gamma, (1 + 1 / N) * Lambda + Trace(Lambda) / N * Identity(D))
flow_U = page.published("Lemma 5.2", r"\frac{dU_{11}}{dt}", -(u**2) * Gamma * Lambda * U * Lambda + u * Lambda**2)
flow_u = page.published("Lemma 5.2", r"\frac{du}{dt}", -Trace(u * Gamma * Lambda * U * Lambda * U.T - Lambda**2 * U.T))
limit_u4 = page.published("Theorem 4.1", r"\lim_{t\to\infty} u^4 = c^4", Trace(Gamma**-2))
limit_U = page.published("Theorem 4.1", r"\lim_{t\to\infty} U_{11}", Gamma.I / c)


def form(matrix):
    """The squared norm of a in a metric."""
    return Trace(a.T * matrix * a)


excess = page.published(
    r"Theorem 4.2, the risk above that of the best linear predictor $a=\boldsymbol\Lambda^{-1}\mathbb{E}[xy]$, with $\Sigma$ the "
    "covariance of $xy$",
    r"\mathbb{E}(\hat y-y)^2-\min_w\mathbb{E}(w^\top x-y)^2",
    Trace(Sigma * Gamma**-2 * Lambda) / M
    + (form(Gamma**-2 * Lambda**3) + 2 * Trace(Lambda) * form(Gamma**-2 * Lambda**2) + Trace(Lambda) ** 2 * form(Gamma**-2 * Lambda))
    / N**2,
)
noiseless = page.published(r"after Theorem 4.2, for $y=a^\top x$", Sigma, form(Lambda) * Lambda + Lambda * a * a.T * Lambda)
bound = page.published(
    r"Corollary 4.3, the risk on linear prompts is at most, with $\kappa$ the condition number of $\boldsymbol\Lambda$",
    r"\varepsilon+\eta",
    (D + 1) * Trace(Lambda) / M + (1 + 2 * D + D**2 * kappa) * Trace(Lambda) / N**2,
    wrong=(D + 1) * Trace(Lambda) / M + (1 + 2 * D) * Trace(Lambda) / N**2,
)
limit_random = page.published(
    r"Theorem 4.5, for a random diagonal covariance $\boldsymbol\Lambda_\tau$, with "
    r"$G=\mathbb{E}\,\Gamma_\tau\boldsymbol\Lambda_\tau^2$ and $L=\mathbb{E}\,\boldsymbol\Lambda_\tau^2$",
    r"\lim_{t\to\infty} u\,U_{11}",
    third.I * second,
)

# Derive
model = Model(u * beta.T * U * x_q, (U, u))
balance = derive(u**2 - Trace(U * U.T)).derivative({U: model.flow()[U].to_sympy(), u: model.flow()[u].to_sympy()})
mean_xy = (Gaussian(xy, mean=Lambda * a, covariance=Sigma / M), Gaussian(x_q, covariance=Lambda))  # of M tokens: two moments are enough
risk = derive(E((xy.T * Gamma.I * x_q - a.T * x_q) ** 2, mean_xy)).expect()
test = expect((a.T * Lambda_hat * Gamma.I * x_q - a.T * x_q) ** 2, (SampleCovariance(Lambda_hat, Lambda, M),))
token = expect(Lambda_hat * a * a.T * Lambda_hat, (SampleCovariance(Lambda_hat, Lambda, 1),)) - expect(Lambda * a * a.T * Lambda)
scaled = (SampleCovariance(Lambda_hat, c**2 * Lambda, M), Gaussian(x_q, covariance=c**2 * Lambda))  # covariate shift
shifted = expect((a.T * Lambda_hat * Gamma.I * x_q - a.T * x_q) ** 2, scaled)
mean_risk = expect(test, (Gaussian(a),))

# Compare
known = {Gamma: Gamma_is}
page.derived(
    balance,
    "$u^2-\\|U_{11}\\|_F^2$ stays 0, so that the minimum $uU_{11}=\\Gamma^{-1}$ is reached where $u^4=\\operatorname{tr}\\Gamma^{-2}$",
)
page.exact("the second moment of the sample covariance is Lambda Gamma", expect(Lambda_hat**2), substitute(Lambda * Gamma, known))
page.exact("the flow of the first block", model.flow()[U], flow_U, where=known)
page.exact("the flow of the last entry", model.flow()[u], flow_u, where=known)
at_limit = {U: limit_U, u: c}
page.exact("the flow of the first block stops at the limit", substitute(model.flow()[U], at_limit), 0 * Lambda, where=known)
page.exact("the limit is balanced", c**2 * substitute(u**2 - Trace(U * U.T), at_limit), c**4 - limit_u4)
page.derived(risk, r"the prediction is $b^\top\Gamma^{-1}x_q$ with $b$ the mean of $xy$ over $M$ tokens")
page.exact("the risk on a prompt of any joint law", risk.right, excess, where=known)
page.exact("the covariance of xy without noise", token, noiseless)
page.exact("the risk on linear prompts, by Wishart moments", test, substitute(excess, {Sigma: noiseless}), where=known)
rng, settings = np.random.default_rng(0), []
risk_at, bound_at = compile_expression(mean_risk, (Lambda, Gamma, M)), compile_expression(bound, (Lambda, N, M, kappa, D))
Gamma_at = compile_expression(Gamma_is, (Lambda, N))
for _ in range(1_000):
    eigenvalues, (n, m) = np.exp(rng.normal(0, 2, rng.integers(1, 6))), np.exp(rng.uniform(0, 9, 2)).astype(int)
    covariance = np.diag(eigenvalues)
    ratio = eigenvalues.max() / eigenvalues.min()
    settings.append((risk_at(covariance, Gamma_at(covariance, n), m), bound_at(covariance, n, m, ratio, len(eigenvalues))))
page.below("the bound on the mean risk over tasks", *np.transpose(settings))
page.text(r"""
*Shifts* (Section 4.2). Task: the risk above holds for labels of any law. Query: the mean prediction
$a^\top\boldsymbol\Lambda\Gamma^{-1}x$ is right for every query $x$ as $N\to\infty$, where $\Gamma\to\boldsymbol\Lambda$. Covariates: scaled
by $c$, they make the prediction $c^2$ times too large.
""")
query = vector("x", D, latex="x")  # a fixed query
mean = expect(a.T * Lambda_hat * Gamma.I * query, scaled, given=query)
page.exact("the mean prediction under a covariate shift", mean, c**2 * a.T * Lambda * Gamma.I * query)
page.exact("it is off by c^2 from long prompts in training", substitute(mean, {Gamma: Lambda}), c**2 * a.T * query)
spread = expect((a.T * Lambda_hat * Gamma.I * query) ** 2, scaled, given=query) - mean**2
page.exact("its variance vanishes as 1/M", spread, substitute(spread, {M: 1}) / M)

# Train: from the published start, on random tasks; and from 2 to 50 times the largest scale that the theorem admits
u4_at, U_at = compile_expression(limit_u4, (Gamma,)), compile_expression(limit_U, (Gamma, c))
reached, published = [], []
for scale in (0.1, 0.3, 0.9, 2, 10, 50):
    d, n, start = 3, int(rng.integers(2, 30)), rng.standard_normal((3, 3))
    task, start = RegressionTask(eigenvalues=rng.uniform(0.2, 1.5, d), context_length=n), start @ start.T / np.linalg.norm(start @ start.T)
    gamma = Gamma_at(task.covariance, n)
    sigma = scale * np.sqrt(2 / (np.sqrt(d) * np.linalg.norm(gamma, 2)))
    run = gradient_flow(QuadraticLoss.population(task), MergedWeights(np.array([sigma]), sigma * start[None]), t_end=3_000)
    entry = u4_at(gamma) ** 0.25
    reached.append([run.at(3_000).v[0], *run.at(3_000).U.ravel()])
    published.append([entry, *U_at(gamma, entry).ravel()])
page.close("trained from inside the theorem's condition", reached[:3], published[:3], 1e-5)
page.close("trained from 2, 10 and 50 times its largest scale", reached[3:], published[3:], 1e-5)

# Train on prompts whose covariance has independent random entries: one of two values in each of two directions
values, shares = rng.uniform(0.3, 2, (2, 2)), ((0.3, 0.7), (0.6, 0.4))
draws = [(np.diag([values[0, i], values[1, j]]), shares[0][i] * shares[1][j]) for i, j in product(range(2), repeat=2)]
losses = [(QuadraticLoss.population(RegressionTask(covariance=one, context_length=5)), share) for one, share in draws]
mixed = QuadraticLoss.from_moments(
    second=sum(share * np.kron(loss.C.M, loss.C.Q) for loss, share in losses),
    cross=sum(share * loss.A for loss, share in losses),
    square=sum(share * loss.c for loss, share in losses),
)
end = gradient_flow(mixed, MergedWeights(np.array([0.1]), 0.1 * np.eye(2)[None] / np.sqrt(2)), t_end=3_000).at(3_000)
moments = sum(share * Gamma_at(one, 5) @ one @ one for one, share in draws), sum(share * one @ one for one, share in draws)
page.close("trained on random covariances", end.v[0] * end.U[0], compile_expression(limit_random, (third, second))(*moments), 1e-5)

# Simulate: the trained attention on prompts of four kinds
task, lengths = RegressionTask(eigenvalues=[1.2, 0.6, 0.3], context_length=20), np.array([5, 10, 20, 40, 80, 160, 320])
end = gradient_flow(QuadraticLoss.population(task), MergedWeights(np.array([0.1]), np.eye(3)[None] / 20), t_end=3_000).at(3_000)
x, k = vector("x", D), vector("k", D)
label, law = expect(a.T * x, given=x) + expect(k.T * x, given=x) ** 3, Gaussian(x, covariance=Lambda)  # a cubic label
best = Lambda.I * expect(label * expect(x, given=x), law).to_sympy()
spread_xy = expect(label**2 * expect(x * x.T, given=x), law).to_sympy() - Lambda * best * best.T * Lambda
arguments = (Lambda, N, M, a, Sigma, Gamma)
excess_at, noise_at = compile_expression(excess, arguments), compile_expression(noiseless, (Lambda, a))
cubic_at, shifted_at = compile_expression((best, spread_xy), (Lambda, a, k)), compile_expression(shifted, (Lambda, M, a, Gamma, c))
L, n, g, w, cube = task.covariance, 20, Gamma_at(task.covariance, 20), np.array([[1.0], [-0.5], [0.8]]), np.array([[0.4], [0.4], [-0.4]])


def simulate(m: int, stretch: float = 1.0, noise: float = 0.0, cubic: float = 0.0) -> tuple[float, float]:
    """The mean squared distance of the trained attention from the best linear predictor on 4,000 prompts, and its standard error."""
    X = stretch * rng.standard_normal((4_000, m + 1, 3)) @ np.sqrt(L)
    y = X @ w[:, 0] + cubic * (X @ cube[:, 0]) ** 3 + noise * rng.standard_normal((4_000, m + 1))
    prediction = np.einsum("pn,pni,ij,pj->p", y[:, :m], X[:, :m], end.v[0] * end.U[0], X[:, m], optimize=True) / m
    target = X[:, m] @ (cubic_at(L, w, cube)[0][:, 0] if cubic else w[:, 0])
    squares = (prediction - target) ** 2
    return squares.mean(), squares.std() / np.sqrt(len(squares))


linear, (cubic_best, cubic_spread) = noise_at(L, w), cubic_at(L, w, cube)
kinds = {
    "linear labels": ({}, [excess_at(L, n, m, w, linear, g) for m in lengths]),
    "with noise": ({"noise": 1.0}, [excess_at(L, n, m, w, linear + L, g) for m in lengths]),
    "cubic labels": ({"cubic": 1.0}, [excess_at(L, n, m, cubic_best, cubic_spread, g) for m in lengths]),
    "tokens 1.5 times as long": ({"stretch": 1.5}, [shifted_at(L, m, w, g, 1.5) for m in lengths]),
}
with themed() as theme:
    picture, axes = canvas(theme, 6.4, 3.6)
    for color, (name, (options, theory)) in zip(SERIES, kinds.items(), strict=False):
        measured, errors = np.transpose([simulate(m, **options) for m in lengths])
        page.sampled(f"simulated risk: {name}", measured, errors, theory)
        axes.plot(lengths, theory, "--", color=theme.theory, lw=1)
        axes.errorbar(lengths, measured, 2 * errors, fmt="o", ms=4, color=color, label=name)
    axes.set(xscale="log", yscale="log", xlabel="length $M$ of the test prompt", ylabel="risk above the best linear")
    axes.legend()
page.figure(
    picture,
    "Attention trained at N = 20, on prompts that it was not trained on. Dashed: the published risk, and for longer tokens the one derived "
    "here. Dots: the trained weights on 4,000 prompts, two standard errors.",
)
page.write()
