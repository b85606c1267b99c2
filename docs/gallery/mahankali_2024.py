"""Mahankali, Hashimoto and Ma (2024): the best layer of linear attention takes one step of gradient descent, also with label noise."""

import numpy as np
from iclflow.numerics import (
    MergedWeights,
    QuadraticLoss,
    RegressionTask,
    compile_expression,
    gradient_flow,
    integrate,
    linear_attention_risk,
)
from iclflow.numerics.own_model.fixed_points import ModelFixedPoint
from iclflow.theory import E, Fixed, Gaussian, Model, TracePolynomial, derive, expect, substitute
from iclflow.theory.notation import D, Lambda, N, X_c, matrix, sigma, vector, w, x_q, y
from iclflow.verify.figures.gallery import canvas
from iclflow.verify.figures.style import SERIES, themed
from page import Page
from sympy import Identity, Symbol, ZeroMatrix, symbols

page = Page(
    __file__,
    title="Mahankali, Hashimoto, Ma (2024): one step of gradient descent is the best that one layer can do",
    paper="Arvind Mahankali, Tatsunori Hashimoto, Tengyu Ma: *One step of gradient descent is provably the optimal in-context learner with "
    "one layer of linear self-attention*, ICLR 2024",
    link="https://arxiv.org/abs/2307.03576",
    result="On noisy labels the best layer takes one step of gradient descent, preconditioned if the tokens are; nonlinear targets change "
    "the rate alone.",
    verdict=r"Holds, and the rate has a closed form, $\eta=1/(n+d+1+\sigma^2)$. The text could not be had: the theorems are from memory.",
)
page.text(r"""
The paper's $n$ and $d$ are $N$ and $D$ here, and $X$, whose rows are tokens, is $\boldsymbol X_c^\top$. Labels are
$y_i=w^\top x_i+\epsilon_i$ with noise of variance $\sigma^2$. The paper's rates hold $\hat w_{\mathcal D}=\mathbb{E}[w|\mathcal D]$, ridge
regression, in place of $w$, which changes no mean; ridge regression itself is sampled below. The text of the paper could not be had: its
theorems are stated from memory, and their numbers may differ.
""")
U, noise = matrix("U", D, latex="U"), vector("epsilon", N)
labels = (Fixed(y, X_c.T * w + noise), Gaussian(noise, covariance=sigma**2 * Identity(N)))
spread = (*labels, Gaussian(w, covariance=Lambda.I))
ridge_form = r"\eta = \frac{\mathbb{E}[\hat w_{\mathcal D}^\top X^\top y]}{\mathbb{E}[y^\top X%sX^\top y]}"
rate = page.published(
    r"Theorem 1, $x\sim N(0,I)$, $w\sim N(0,I)$", ridge_form % "", E(w.T * X_c * y, labels) / E(y.T * X_c.T * X_c * y, labels)
)
rate_2 = page.published(
    r"Theorem 2, $x\sim N(0,\boldsymbol\Lambda)$, $w\sim N(0,\boldsymbol\Lambda^{-1})$, a step preconditioned by $\boldsymbol\Lambda^{-1}$",
    ridge_form % r"\boldsymbol\Lambda^{-1}",
    E(w.T * X_c * y, spread) / E(y.T * X_c.T * Lambda.I * X_c * y, spread),
)
b_2, m_2 = symbols("b_2 m_2", positive=True)
rate_3 = page.published(
    r"Theorem 3, labels $f(x)+\epsilon$ of a rotation-invariant $f$, with $u_{\mathcal D}=\mathbb{E}[b|\mathcal D]$, "
    r"$b=\mathbb{E}_x[xf(x)]$; by tokens, with $b_2=\mathbb{E}\|b\|^2$ and $m_2=\mathbb{E}\|xf(x)\|^2$",
    r"\eta = \frac{\mathbb{E}[u_{\mathcal D}^\top X^\top y]}{\mathbb{E}[y^\top XX^\top y]}",
    N * b_2 / (N * (m_2 + sigma**2 * D) + N * (N - 1) * b_2),
)

# Derive
slope = derive(E((w.T * x_q - y.T * X_c.T * U * x_q) ** 2, labels)).expect().gradient(U)  # any map U of the sum of y_i x_i
white = slope.substitute({Lambda: Identity(D)}).solve_for(U)
slope_2 = derive(E((w.T * x_q - y.T * X_c.T * U * x_q) ** 2, spread)).expect().gradient(U).solve_for(U)
p, p_1, A, q = vector("p", D), Symbol("p_1", real=True), matrix("A", D, latex="A"), vector("q", D)  # all that a prediction depends on
blocks = p.T * X_c * X_c.T * A + p.T * X_c * y * q.T + p_1 * y.T * X_c.T * A + p_1 * y.T * y * q.T
layer = Model(blocks * x_q, (p, p_1, A, q), laws=(*labels, Gaussian(X_c, covariance=Lambda)), constants=(sigma,))
x, other = vector("x", D), vector("x_1", D)  # two tokens, with the target f(x) = (w' x)^3
target, again = (TracePolynomial(expect(w.T * one, given=(w, one))) ** 3 for one in (x, other))
direction = expect(target * TracePolynomial(x), Gaussian(x), given=w)
square = expect(target**2 * TracePolynomial(x.T * x), Gaussian(x), given=w)
pair = expect(target * again * TracePolynomial(x.T * other), (Gaussian(x), Gaussian(other)), given=w)  # of two tokens' x f(x)
mean_square = N * (square + sigma**2 * D) + N * (N - 1) * pair  # of the sum of y_i x_i
cubic = dict(zip((b_2, m_2), map(round, compile_expression((direction.T * direction, square), (w,))(np.eye(3)[:, :1])), strict=True))

# Compare
page.derived(white, "white tokens: the best map is a multiple of the identity, which is a step of gradient descent from zero")
closed = 1 / (N + D + 1 + sigma**2)
page.exact("the best map of white tokens, in closed form", white.right, closed * Identity(D))
page.exact("Theorem 1's rate is that", rate, closed, where={Lambda: Identity(D)})
page.derived(slope_2, r"tokens of covariance $\boldsymbol\Lambda$ with $w\sim N(0,\boldsymbol\Lambda^{-1})$: the same rate, preconditioned")
page.exact("the best map of other tokens", slope_2.right, closed * Lambda.I)
page.exact("Theorem 2's rate is that", rate_2, closed)
page.exact(
    "Theorem 3's rate for cubic targets, token by token",
    rate_3 * mean_square.to_sympy(),
    N * pair.to_sympy(),
    where={b_2: (direction.T * direction).to_sympy(), m_2: square.to_sympy()},
)
rest = {p: ZeroMatrix(D, 1), q: ZeroMatrix(D, 1), p_1: 1, A: closed * Identity(D)}
for name, flow in layer.flow().items():
    page.exact(f"with all blocks, {name} is at rest there", substitute(substitute(flow, rest), {Lambda: Identity(D)}), 0 * name)

page.text(r"""
These are global minima. Gradient flow of all blocks of $P$ and $Q$ finds them if the blocks in the theorem lead. If the others lead, it
ends at a local minimum that mostly predicts by $p\,q^\top$, of rank one: for $n=4$, $d=2$ and $\sigma=0.7$, at a loss of 1.44 where the
global one has 0.93.
""")

# Train all blocks of a layer
rng, task = np.random.default_rng(0), RegressionTask(eigenvalues=np.ones(2), context_length=4)
at = compile_expression(closed, (N, D, sigma))
least = linear_attention_risk(RegressionTask(eigenvalues=np.ones(2), context_length=4, noise_variance=0.49))
ends = []
for lead in (0.1, 0.001):
    start = {p_1: lead, A: lead * rng.standard_normal((2, 2)), p: 1e-4 / lead * np.eye(2)[:, :1], q: 1e-4 / lead * np.eye(2)[:, :1]}
    run = integrate(layer, task, initial=start, t_end=500.0, constants={sigma: 0.7})
    ends.append(ModelFixedPoint(run.objective, run.states[-1]))
best, other = ends
page.close("all blocks, trained: the global minimum", best.loss, least, 1e-9)
page.close("its map", best.weights[p_1] * best.weights[A], at(4, 2, 0.7) * np.eye(2), 1e-6)
page.below("all blocks, trained from the others: the loss at the end is larger by 0.5 and more", least + 0.5, other.loss)
page.below("and it is a local minimum: the Hessian's eigenvalues but for two zeros", 0.01, other.spectrum[2:])


def prompts(n: int, count: int, sigma: float, power: int) -> tuple[np.ndarray, ...]:
    """Prompts in three dimensions with labels (w'x)^power + noise, of unit w for power 3: w, X, y, the query, its target."""
    w, X = rng.standard_normal((count, 3)), rng.standard_normal((count, n + 1, 3))
    w = w / np.linalg.norm(w, axis=1, keepdims=True) if power == 3 else w
    clean = np.einsum("pi,pni->pn", w, X) ** power
    return w, X[:, :n], clean[:, :n] + sigma * rng.standard_normal((count, n)), X[:, n], clean[:, n]


def fit(n: int, sigma: float, power: int) -> tuple[np.ndarray, np.ndarray]:
    """The best map on 40,000 prompts, by least squares, and its standard errors."""
    _, X, y, query, target = prompts(n, 40_000, sigma, power)
    features = np.einsum("pn,pni,pj->pij", y, X, query, optimize=True).reshape(-1, 9)
    second = features.T @ features
    best = np.linalg.solve(second, features.T @ target)
    scores = features * (target - features @ best)[:, None]
    errors = np.sqrt(np.diag(np.linalg.solve(second, np.linalg.solve(second, scores.T @ scores).T)))
    return best.reshape(3, 3), errors.reshape(3, 3)


w_s, X_s, y_s, *_ = prompts(6, 40_000, 0.8, 1)
gram = np.einsum("pni,pnj->pij", X_s, X_s) + 0.64 * np.eye(3)
ridge = np.linalg.solve(gram, np.einsum("pni,pn->pi", X_s, y_s)[..., None])[..., 0]
overlaps = np.einsum("pi,pni,pn->p", ridge, X_s, y_s, optimize=True)
page.sampled("ridge regression in the numerator, 40,000 prompts", overlaps.mean(), overlaps.std() / 200, 6 * 3)
cubic_at = compile_expression(rate_3.subs(cubic), (N, D, sigma))
best, errors = fit(6, 0.8, 3)
page.sampled("cubic targets, all entries of the best map of 40,000 prompts", best, errors, cubic_at(6, 3, 0.8) * np.eye(3))

lengths = np.array([2, 4, 8, 16, 32, 64])
with themed() as theme:
    picture, axes = canvas(theme, 6.4, 3.4)
    for color, level in zip(SERIES, (0.0, 1.0, 3.0), strict=False):
        trained = []
        for n in lengths:
            noisy = RegressionTask(eigenvalues=np.ones(3), context_length=int(n), noise_variance=level**2)
            start = MergedWeights(np.array([0.1]), 0.1 * np.eye(3)[None] / np.sqrt(3))
            end = gradient_flow(QuadraticLoss.population(noisy), start, t_end=2_000).at(2_000)
            trained.append(end.v[0] * np.trace(end.U[0]) / 3 / n)
        page.close(f"reduced attention, trained with noise {level:g}", trained, at(lengths, 3, level), 1e-6)
        axes.plot(lengths, at(lengths, 3, level), "--", color=theme.theory, lw=1)
        axes.plot(lengths, trained, "o", ms=4, color=color, label=rf"$\sigma={level:g}$, trained")
    axes.plot(lengths, cubic_at(lengths, 3, 0.0), "--", color=theme.theory, lw=1)
    fits = [fit(int(n), 0.0, 3) for n in lengths]
    measured = [np.trace(best) / 3 for best, _ in fits]
    errors = np.array([np.sqrt(np.trace(errors**2)) / 3 for _, errors in fits])
    page.sampled("cubic targets, the rate at each n", measured, errors, cubic_at(lengths, 3, 0.0))
    axes.errorbar(lengths, measured, 2 * errors, fmt="s", ms=4, color=SERIES[3], label="cubic targets")
    axes.set(xscale="log", yscale="log", xlabel="context length $n$", ylabel=r"rate $\eta$")
    axes.set_xticks(lengths, map(str, lengths))
    axes.set_yticks([0.02, 0.05, 0.1], ["0.02", "0.05", "0.1"])
    axes.minorticks_off()
    axes.legend()
page.figure(
    picture,
    "The rate of the one step, D = 3. Dashed: theory. Dots: trained attention; squares: the best map of 40,000 prompts, with two errors.",
)
page.write()
