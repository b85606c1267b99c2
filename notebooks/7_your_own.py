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
# # 7. Your own variation
#
# **Claim.** One expression for the prediction is enough: its loss, its gradient flow and its numbers follow. As examples, a
# model that takes two steps of gradient descent in context, (V10-steps), and the paper's model on labels with noise,
# (V1-levels), where noise lowers every stair but moves hardly any drop, (V1-order).

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
    predict_curve,
    sequences,
)
from iclflow.numerics.own_model.flow import integrate
from iclflow.theory.equations import equation
from iclflow.theory.model import Model
from iclflow.theory.notation import D, Lambda_hat, beta, matrix, x_q
from iclflow.verify.figures.gallery import canvas
from iclflow.verify.figures.style import BLUES, LOSS, SERIES, TIME, themed

# %% [markdown]
# ## A model from its prediction
# Linear attention takes one step of gradient descent on the context. Write down two steps, with one learned
# matrix, instead:

# %%
U = matrix("U", D)
one_step = Model(prediction=beta.T * U * x_q, weights=(U,))
two_steps = Model(
    prediction=beta.T * (2 * U - U * Lambda_hat * U) * x_q, weights=(U,)
)

# %% [markdown]
# Its loss is of degree four in the weights, and exact:

# %%
one_step.loss()

# %%
two_steps.loss()

# %% [markdown]
# The flow of the weights; for one step first.

# %%
one_step.flow()[U]

# %%
two_steps.flow()[U]

# %% [markdown]
# Where the expression comes from, and what it does at the start:

# %%
equation("V10-steps").derive()

# %%
equation("V10-start").derive()

# %% [markdown]
# ## Its numbers, beside drawn sequences
# Lines: the flow, compiled from the expressions above. Dots: the same predictions on 8,000 drawn sequences, at weights
# along the way.

# %%
task = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)
tokens, target = next(
    sequences(task, 8000, np.random.default_rng(0), batch_size=8000)
)
X, y, query = tokens[:, :-1, :4], tokens[:, :-1, 4], tokens[:, -1, :4]
correlation = np.einsum("pn,pni->pi", y, X) / 31
sample = np.einsum("pni,pnj->pij", X, X) / 31

times, probes, worst = np.linspace(0, 120, 300), np.linspace(5, 115, 9), 0.0
with themed() as theme:
    picture, axes = canvas(theme, 6.4, 3.4)
    for model, steps, color in ((one_step, 1, SERIES[0]), (two_steps, 2, SERIES[1])):
        run = integrate(
            model, task, initial={U: np.zeros((4, 4))}, t_end=120, rtol=1e-6
        )
        measured = []
        for t in probes:
            W = run.at(t)[U]
            ahead = np.einsum("pi,ij->pj", correlation, W)
            if steps == 2:
                ahead = 2 * ahead - np.einsum(
                    "pi,ij,pjk,kl->pl", correlation, W, sample, W
                )
            squares = (np.einsum("pi,pi->p", ahead, query) - target) ** 2
            measured.append(squares.mean())
            error = squares.std() / np.sqrt(len(squares))
            worst = max(worst, abs(measured[-1] - run.loss_at(t)) / error)
        label = f"{steps} step{'s' * (steps > 1)}"
        axes.plot(times, run.loss_at(times), color=color, label=f"{label}, flow")
        axes.plot(probes, measured, "o", ms=4, color=color, label=f"{label}, drawn")
    axes.set(xlabel=TIME, ylabel=LOSS, xlim=(0, 120), ylim=(0, None))
    axes.legend()
picture

# %% [markdown]
# ## The same expression on a varied task
# A task states its own laws: noise on the labels, a covariance of the task vectors that does not commute with that of the tokens,
# contexts of random length. Nothing is written anew.

# %%
varied = RegressionTask(
    eigenvalues=[0.4, 0.3, 0.2, 0.1],
    task_covariance=np.eye(4) + 0.5 * np.eye(4, k=1) + 0.5 * np.eye(4, k=-1),
    noise_variance=0.2,
    context_lengths=range(8, 32),
)
run = integrate(two_steps, varied, initial={U: np.zeros((4, 4))}, t_end=120)
W = run.at(120.0)[U]
tokens, target = next(
    sequences(varied, 8000, np.random.default_rng(1), batch_size=8000)
)
X, y, query = tokens[:, :-1, :4], tokens[:, :-1, 4], tokens[:, -1, :4]
ahead = np.einsum("pn,pni->pi", y, X) / 31 @ W
again = np.einsum("pi,pni,pnj->pj", ahead, X, X, optimize=True) / 31 @ W
squares = (np.einsum("pi,pi->p", 2 * ahead - again, query) - target) ** 2
distance = (squares.mean() - run.loss[-1]) / (squares.std() / np.sqrt(len(squares)))
print(f"{run.loss[-1]:.4f} derived, {squares.mean():.4f} on 8,000 sequences")
assert abs(distance) < 4

# %% [markdown]
# ## A variation of the task: labels with noise

# %%
equation("V1-levels").derive()

# %%
equation("V1-order").derive()

# %%
start = SeparateWeights.initialize(
    task, heads=5, rank=1, scale=1e-2, rng=np.random.default_rng(0)
)
times = np.linspace(0, 30_000, 2000)
drops, levels, predicted = {}, {}, {}
with themed() as theme:
    picture, axes = canvas(theme, 6.8, 3.4)
    for variance, color in zip((0.0, 0.3, 1.0), BLUES, strict=False):
        noisy = RegressionTask(
            eigenvalues=task.eigenvalues, context_length=31, noise_variance=variance
        )
        run = gradient_flow(QuadraticLoss.population(noisy), start, t_end=40_000)
        found = find_plateaus(run)
        drops[variance], levels[variance] = found.drops, found.levels
        shown = np.asarray(run.loss_at(times)) - variance
        axes.plot(
            times, shown, color=color, lw=2, label=rf"$\sigma^2 = {variance:g}$"
        )
    axes.set(
        xlabel=TIME, ylabel=r"loss less $\sigma^2$", xlim=(0, 30_000), ylim=(0, 1.06)
    )
    axes.legend()
picture

# %%
for variance in drops:
    print(
        f"variance {variance:3}: drops at {drops[variance].round(0)}, "
        f"sizes {-np.diff(levels[variance]).round(3)}"
    )

# %%
assert worst < 4
assert np.allclose(drops[0.0], predict_curve(task, start).drops, rtol=0.02)
assert np.allclose(drops[1.0], drops[0.0], rtol=0.05)
assert (np.diff(levels[1.0]) > np.diff(levels[0.0])).all()
names = ("V10-steps", "V10-start", "V1-levels", "V1-order")
assert all(equation(number).holds() for number in names)
