"""Raventos, Paul, Chen and Ganguli (2023): task diversity, as far as one layer of linear attention shows a threshold."""

import json
from pathlib import Path

import numpy as np
import torch
from iclflow.numerics import RegressionTask, compile_expression
from iclflow.theory import E, Fixed, Gaussian, Mixture, Model, SampleCovariance, TracePolynomial, derive, substitute
from iclflow.theory.notation import B, D, Lambda_hat, N, X_c, beta, noise_q, sigma, symmetric_matrix, vector, w, x_q, y_q, zeta
from iclflow.verify.figures.gallery import canvas
from iclflow.verify.figures.style import SERIES, themed
from iclflow.verify.own_model.prompts import ModelNetwork
from iclflow.verify.training.descent import fresh_batches, train
from page import Page
from sympy import Identity, Rational, Symbol, Trace, ZeroMatrix, exp, expand_log, log

page = Page(
    __file__,
    title="Raventós, Paul, Chen, Ganguli (2023): task diversity in linear attention",
    paper="Allan Raventós, Mansheej Paul, Feng Chen, Surya Ganguli: *Pretraining task diversity and the emergence of non-Bayesian "
    "in-context learning for regression*, NeurIPS 2023",
    link="https://arxiv.org/abs/2306.15063",
    result="A transformer trained on few tasks is the Bayes estimator of these tasks; beyond a threshold it solves new ones like ridge.",
    verdict="Linear attention has a threshold too, of another kind: it sees the tasks only through their second moment, so its threshold "
    "is at $M=D$, smooth at a finite length and sharp for long contexts. It is neither dMMSE below nor ridge above, and beyond $D$ more "
    "tasks change it by $O(1/M)$.",
)
R, tasks = symmetric_matrix("R", D, latex="R"), [vector(f"w_{i}", D, latex=f"w^{{({i})}}") for i in (1, 2, 3)]
u, y, rest = vector("u", D), vector("y", N), Symbol("S_i", positive=True)
CONTEXT = (
    SampleCovariance(Lambda_hat, Identity(D), N),
    Gaussian(x_q),
    Gaussian(zeta, covariance=sigma**2 / N * Lambda_hat),  # what label noise adds to X y/N, given the context
    Gaussian(noise_q, covariance=sigma**2),
    Fixed(beta, Lambda_hat * w + zeta),
    Fixed(y_q, w.T * x_q + noise_q),
)

page.text(r"""
Tokens are $\mathcal{N}(0,I_D)$ and labels have noise $\sigma^2$. In pretraining the task is one of $w^{(1)},\dots,w^{(M)}$, drawn
once from $\mathcal{N}(0,I_D)$, $\mathcal{T}_{\rm Pretrain}$; a new task is drawn from $\mathcal{T}_{\rm True}=\mathcal{N}(0,I_D)$. The
paper trains an eight-layer transformer with $D=8$, 16 points and $\sigma^2=1/4$ and sees it turn, beyond a number of tasks, from the
Bayes estimator of $\mathcal{T}_{\rm Pretrain}$ (dMMSE) to that of $\mathcal{T}_{\rm True}$ (ridge). It has no theorem. The estimators and
the settings are taken from the authors' code, [icl-task-diversity](https://github.com/mansheej/icl-task-diversity).
""")
ridge = (X_c * X_c.T + sigma**2 * Identity(D)).I * X_c * y
ridge = page.published(r"the Bayes estimator of $\mathcal{T}_{\rm True}$, with the tokens as columns of $X$", r"\hat w", ridge)
weight = page.published(
    r"the Bayes estimator of $\mathcal{T}_{\rm Pretrain}$, $\hat w=\sum_ip_iw^{(i)}/\sum_ip_i$, with the squared error $S_i$ of task $i$ "
    "on the context",
    "p_i",
    exp(-rest / (2 * sigma**2)),
    wrong=exp(-rest / sigma**2),
)

# Derive: what one layer of linear attention, beta' B x_q, makes of M given tasks
three = Mixture(tuple((Rational(1, 3), Fixed(w, one)) for one in tasks))
given = derive(E((y_q - beta.T * B * x_q) ** 2, (*CONTEXT, three))).expect()
loss = derive(E((y_q - beta.T * B * x_q) ** 2, (*CONTEXT, Gaussian(w, covariance=R)))).expect()
force = loss.gradient(B)
best = R * ((1 + 1 / N) * R + (Trace(R) + sigma**2) / N * Identity(D)).I
posterior = derive(-(u.T * u) / 2 - (y - X_c.T * u).T * (y - X_c.T * u) / (2 * sigma**2)).gradient(u)

# Compare
page.exact(
    "Ridge is where the posterior of a Gaussian task peaks", TracePolynomial(posterior.right).to_sympy().subs(u, ridge), ZeroMatrix(D, 1)
)
second = Rational(1, 3) * (tasks[0] * tasks[0].T + tasks[1] * tasks[1].T + tasks[2] * tasks[2].T)
page.exact("Three given tasks enter the loss by their second moment R alone", given.right, substitute(loss.right, {R: second}))
page.derived(loss, "the error for tasks of second moment $R=\\frac1M\\sum_iw^{(i)}w^{(i)\\top}$; on new tasks $R=I$")
page.exact(
    "The loss is stationary at B = R ((1 + 1/N) R + (tr R + sigma^2)/N I)^-1",
    TracePolynomial(force.right).to_sympy().subs(B, best),
    ZeroMatrix(D, D),
)
page.text(r"""
So with long contexts $B$ is the projector onto the span of the tasks, and the error on new tasks is $\sigma^2+\max(D-M,0)$: the
threshold of linear attention is at $M=D$, the same for every draw. At a finite length it is smooth, and nothing happens at larger $M$.
""")

# The settings of the paper: D = 8, 16 points, sigma = 1/2
DIM, NOISE, LENGTH = 8, 0.5, 15
rng, log_weight = np.random.default_rng(2306), compile_expression(expand_log(log(weight), force=True), (rest, sigma))
map_of, error_of = compile_expression(best, (R, N, sigma)), compile_expression(loss.right, (B, R, N, sigma))
shapes = (1, 3, 5, 7, 8, 9, 20)
seconds = [draw.T @ draw / len(draw) for draw in (np.random.default_rng(0).standard_normal((one, DIM)) for one in shapes)]
ends = [error_of(map_of(one, 10**9, NOISE), np.eye(DIM), 10**9, NOISE) for one in seconds]
page.close(
    "Contexts of 10^9 tokens, M = 1 to 20 tasks: the error on new ones", ends, [NOISE**2 + max(DIM - one, 0) for one in shapes], 1e-6
)


def predict(pool: np.ndarray | None, tokens: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """The predictions of dMMSE for a pool of tasks, and of ridge for None."""
    if pool is None:
        square = np.swapaxes(tokens, 1, 2) @ tokens + NOISE**2 * np.eye(DIM)
        return np.einsum("bd,bde,bke,bk->b", queries, np.linalg.inv(square), tokens, labels, optimize=True)
    squares = np.square(labels[:, :, None] - tokens @ pool.T).sum(1)
    logs = log_weight(squares, NOISE)
    weights = np.exp(logs - logs.max(1, keepdims=True))
    return np.einsum("bd,md,bm->b", queries, pool, weights / weights.sum(1, keepdims=True), optimize=True)


authors = json.loads((Path(__file__).resolve().parents[2] / "tests/data/gallery/raventos_2023.json").read_text("utf-8"))
pool, tokens = rng.standard_normal((6, DIM)), rng.standard_normal((12, 16, DIM))
drawn = np.concatenate([pool[rng.integers(6, size=6)], rng.standard_normal((6, DIM))])
labels = np.einsum("bkd,bd->bk", tokens, drawn) + NOISE * rng.standard_normal((12, 16))
for name, prior in (("ridge", None), ("dmmse", pool)):
    ours = [predict(prior, tokens[:, :k], labels[:, :k], tokens[:, k]) for k in range(1, 16)]
    page.close(f"The authors' code, {name}: all its predictions on twelve prompts", np.array(ours).T, np.array(authors[name])[:, 1:], 1e-5)


def risks(pool: np.ndarray) -> tuple[float, float]:
    """The error of the best linear attention for these tasks, on them and on new ones."""
    second = pool.T @ pool / len(pool)
    learned = map_of(second, LENGTH, NOISE)
    return error_of(learned, second, LENGTH, NOISE), error_of(learned, np.eye(DIM), LENGTH, NOISE)


def sampled(pool: np.ndarray, prior: np.ndarray | None, new: bool, count: int = 1000) -> float:
    """The error of dMMSE or ridge on prompts with the tasks of the pool or with new ones."""
    tokens = rng.standard_normal((count, LENGTH + 1, DIM))
    task = rng.standard_normal((count, DIM)) if new else pool[rng.integers(len(pool), size=count)]
    labels = np.einsum("bkd,bd->bk", tokens, task) + NOISE * rng.standard_normal((count, LENGTH + 1))
    return np.square(predict(prior, tokens[:, :-1], labels[:, :-1], tokens[:, -1]) - labels[:, -1]).mean()


counts = 2 ** np.arange(11)
pools = [[rng.standard_normal((int(one), DIM)) for _ in range(max(8, 200 // one))] for one in counts]
attention = np.array([np.mean([risks(one) for one in draws], axis=0) for draws in pools])
bayes = np.array([[np.mean([sampled(one, one, new) for one in draws[:8]]) for new in (False, True)] for draws in pools])
gauss = np.mean([sampled(pools[0][0], None, True) for _ in range(20)])
never = risks(np.sqrt(DIM) * np.eye(DIM))[1]  # R = I: the error for infinitely many tasks
page.below("On its own tasks dMMSE is better than linear attention, M = 1 to 1,024", bayes[:, 0], attention[:, 0])
page.below("On new tasks ridge is better", np.full(len(counts), gauss), attention[:, 1])
page.below("On new tasks linear attention is better than dMMSE, up to M = 64", attention[:7, 1], bayes[:7, 1])
page.rate("The excess on new tasks beyond the threshold, M = 64 to 1,024, in M", counts[6:], attention[6:, 1] - never, -1, 0.2)

# Simulate
task = RegressionTask(eigenvalues=np.ones(DIM), context_length=LENGTH, noise_variance=NOISE**2)
trained, exact = [], []
for k in (0, 2, 4, 6, 8, 10):
    pool = pools[k][0]
    source = {"fixed_tasks": torch.tensor(pool), "fixed_fraction": 1.0}
    network = ModelNetwork(Model(beta.T * B * x_q, B), task, {B: np.zeros((DIM, DIM))})
    run = train(network, fresh_batches(task, 300, torch.Generator().manual_seed(k), **source), steps=600, learning_rate=0.01)
    learned, second = run.states["B"][-100:].mean(0), pool.T @ pool / len(pool)
    trained.append([error_of(learned, second, LENGTH, NOISE), error_of(learned, np.eye(DIM), LENGTH, NOISE)])
    exact.append(risks(pool))
page.close("SGD on the given tasks: the errors on them and on new ones", trained, exact, 0.03)

with themed() as theme:
    picture, axes = canvas(theme, 6.4, 3.4)
    for new, color, name in ((0, SERIES[0], "tasks of pretraining"), (1, SERIES[1], "new tasks")):
        axes.plot(counts, attention[:, new], color=theme.theory, ls="--", lw=1)
        axes.plot(counts[::2], np.array(trained)[:, new], "o", ms=4, color=color, label=f"linear attention, {name}")
        axes.plot(counts, bayes[:, new], color=color, lw=0.8, label=f"dMMSE, {name}")
    axes.axhline(gauss, color=theme.ink, lw=0.8, ls=":", label="ridge, new tasks")
    axes.axvline(DIM, color=theme.ink, lw=0.5, alpha=0.5)
    axes.set(xlabel="number of pretraining tasks $M$", ylabel="error", xscale="log", ylim=(0, 15))
    axes.legend()
page.figure(
    picture,
    "Dashed: the exact error of the best linear attention, mean over draws of the tasks; D = 8, 16 points, noise 1/2. Dots: trained by "
    "SGD on one draw. Lines: the two Bayes estimators. The vertical line is at M = D.",
)
page.write()
