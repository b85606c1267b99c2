# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 5. What the network computes
#
# **Claim.** On the $m$-th plateau the model does regression in context restricted to the first $m$ principal components, (27); at
# the end, on all of them, (16). It is close to least squares only for long contexts: the difference costs a loss of order
# $1/N$, where least squares in context would cost none.

# %%
# %matplotlib inline
# %config InlineBackend.figure_formats = ["retina"]
import numpy as np
from iclflow.numerics import (
    QuadraticLoss,
    RegressionTask,
    SeparateWeights,
    find_plateaus,
    gradient_flow,
    separate_fixed_point,
    sequences,
)
from iclflow.theory.equations import equation
from iclflow.verify.figures.gallery import canvas
from iclflow.verify.figures.style import SERIES, TIME, themed

# %% [markdown]
# ## At the end: regression with a fixed matrix

# %%
equation("16").derive()

# %% [markdown]
# The matrix that is inverted is the population's, enlarged by $1/N$ terms: the weights have learned it, the context
# brings only $\boldsymbol{\beta}$. Its loss:

# %%
equation("16-loss").derive()

# %%
equation("16-limit").derive()

# %% [markdown]
# ## On a plateau: principal component regression

# %%
equation("27").derive()

# %% [markdown]
# The effective map along a run, in the eigenbasis of the tokens, each entry divided by its final value: a 1 for each
# component learned, and zero off the diagonal.

# %%
rng = np.random.default_rng(0)
basis = np.linalg.qr(rng.standard_normal((4, 4)))[0]
covariance = basis * np.array([0.4, 0.3, 0.2, 0.1]) @ basis.T
task = RegressionTask(covariance=(covariance + covariance.T) / 2, context_length=31)
weights = SeparateWeights.initialize(task, heads=5, rank=1, scale=1e-2, rng=rng)

end = separate_fixed_point(task, range(4), heads=5)
loss = QuadraticLoss.population(task)
run = gradient_flow(loss, weights, t_end=200_000, stop_loss=1.001 * end.loss)

E = task.eigenvectors
final = np.diag(E.T @ end.weights.effective_map() @ E)
times = np.linspace(0, run.times[-1], 1500)
share = E.T @ run.effective_map_at(times) @ E / final[:, None]
with themed() as theme:
    picture, axes = canvas(theme, 6.8, 3.2)
    axes.plot(times, share[:, ~np.eye(4, dtype=bool)], color=theme.faint, lw=1)
    for d, color in zip(range(4), SERIES, strict=False):
        axes.plot(
            times,
            share[:, d, d],
            color=color,
            lw=2.2,
            label=rf"$\mathbf{{e}}_{d + 1}$",
        )
    axes.set(
        xlabel=TIME, ylabel=r"$\mathbf{e}_i^\top B\,\mathbf{e}_j\; a_i/\lambda_i$"
    )
    axes.set(xlim=(0, times[-1]))
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
picture

# %% [markdown]
# ## Against least squares on the same contexts
# The trained map of each context length, beside ordinary least squares
# in the context itself: mean squared error over 20,000 drawn sequences. The line is the exact loss.

# %%
lengths, measured, exact = (6, 10, 16, 31, 64, 128), [], []
for length in lengths:
    longer = RegressionTask(covariance=task.covariance, context_length=length)
    point = separate_fixed_point(longer, range(4), heads=5)
    B = point.weights.effective_map()
    tokens, target = next(
        sequences(longer, 20_000, np.random.default_rng(length), batch_size=20_000)
    )
    X, y, query = tokens[:, :-1, :4], tokens[:, :-1, 4], tokens[:, -1, :4]
    beta, sample = (
        np.einsum("pn,pni->pi", y, X) / length,
        np.einsum("pni,pnj->pij", X, X) / length,
    )
    attention = np.einsum("pi,ij,pj->p", beta, B, query)
    squares = np.einsum(
        "pi,pi->p", np.linalg.solve(sample, beta[:, :, None])[:, :, 0], query
    )
    measured.append(
        (np.mean((attention - target) ** 2), np.mean((squares - target) ** 2))
    )
    exact.append(point.loss)
measured = np.array(measured)
with themed() as theme:
    picture, axes = canvas(theme, 6.4, 3.2)
    axes.plot(
        lengths,
        exact,
        color=theme.theory,
        ls="--",
        label="exact loss of the converged model",
    )
    axes.plot(
        lengths,
        measured[:, 0],
        "o",
        color=SERIES[0],
        label="converged model, drawn sequences",
    )
    axes.plot(
        lengths,
        measured[:, 1],
        "s",
        color=SERIES[2],
        label="least squares in context",
    )
    axes.set(
        xscale="log",
        xlabel="context length $N$",
        ylabel="mean squared error",
        ylim=(-0.02, None),
    )
    axes.set_xticks(lengths, lengths)
    axes.minorticks_off()
    axes.legend()
picture

# %%
found = find_plateaus(run)
assert len(found.drops) == 4
assert np.allclose(measured[:, 0], exact, rtol=0.05)
assert (measured[:, 1] < 1e-12).all()
assert all(
    equation(number).holds()
    for number in ("16", "16-loss", "16-limit", "16-ols", "27")
)
