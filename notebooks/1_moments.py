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
# # 1. Moments: a finite context is not its limit
#
# **Claim.** The sample covariance of $N$ Gaussian tokens has a second moment that exceeds $\boldsymbol{\Lambda}^2$ by terms of order
# $1/N$, equations (31) and (32). Through it, and through nothing else, the context length enters the loss (9) of linear attention.
#
# Every formula below is computed in its cell, for all dimensions and context lengths at once.

# %%
# %matplotlib inline
# %config InlineBackend.figure_formats = ["retina"]
import numpy as np
from iclflow.numerics import RegressionTask, compile_expression
from iclflow.theory import expect, gradient
from iclflow.theory.equations import equation
from iclflow.theory.notation import (
    B,
    D,
    Lambda,
    Lambda_hat,
    N,
    beta,
    matrix,
    x_q,
    y_q,
)
from iclflow.verify.figures.gallery import canvas
from iclflow.verify.figures.style import themed

# %% [markdown]
# ## Expectations of words
# `expect` takes any polynomial in the data. It strikes one sample covariance after another by Stein's lemma, so that the answer
# is exact.

# %%
expect(Lambda_hat**2)

# %%
A = matrix("A", D)
expect(Lambda_hat * A * Lambda_hat)

# %%
expect(Lambda_hat**3)

# %% [markdown]
# ## The paper's equation, by two routes

# %%
equation("31").derive()

# %% [markdown]
# ## What it does to the loss
# The model predicts $\hat y_q = \boldsymbol{\beta}^\top\boldsymbol{B}\,\boldsymbol{x}_q$ with an effective map $\boldsymbol{B}$.
# This is its loss, and then the force on the map:

# %%
loss = expect((y_q - beta.T * B * x_q) ** 2)
loss

# %%
-gradient(loss, B) / 2

# %% [markdown]
# ## Drawn contexts against the formula
# For each eigendirection, by how much the second moment exceeds $\lambda_d^2$: the line is the expectation above, compiled to
# NumPy; the dots are means over drawn contexts, with two standard errors.

# %%
second_moment = compile_expression(expect(Lambda_hat**2), (Lambda, N))
task = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)
rng, lengths, draws = np.random.default_rng(0), (4, 8, 16, 32, 64, 128), 4000

found, errors = [], []
for length in lengths:
    tokens = rng.standard_normal((draws, length, 4)) * np.sqrt(task.eigenvalues)
    sample = np.einsum("pni,pnj->pij", tokens, tokens) / length
    squares = np.einsum("pij,pji->pi", sample, sample) / task.eigenvalues**2 - 1
    found.append(squares.mean(axis=0))
    errors.append(2 * squares.std(axis=0) / np.sqrt(draws))

fine = np.geomspace(4, 128, 60)
exact = (
    np.array([np.diag(second_moment(task.covariance, n)) for n in fine])
    / task.eigenvalues**2
    - 1
)
with themed() as theme:
    picture, axes = canvas(theme, 6.4, 3.5)
    for d, value in enumerate(task.eigenvalues):
        (line,) = axes.plot(
            fine, exact[:, d], label=rf"$\lambda_{d + 1} = {value:g}$"
        )
        axes.errorbar(
            lengths,
            np.array(found)[:, d],
            np.array(errors)[:, d],
            fmt="o",
            ms=5,
            color=line.get_color(),
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="context length $N$",
        ylabel=r"$a_d/\lambda_d^2 - 1$",
    )
    axes.set_xticks(lengths, lengths)
    axes.minorticks_off()
    axes.legend()
picture

# %% [markdown]
# The weakest direction pays most: of its eigenvalue the largest share is left on the last plateau of the
# [third notebook](3_separate.ipynb).

# %%
at_lengths = (
    np.array([np.diag(second_moment(task.covariance, n)) for n in lengths])
    / task.eigenvalues**2
    - 1
)
assert equation("31").holds()
assert (np.abs(at_lengths - found) < 2.5 * np.array(errors)).all()
assert (np.diff(1 - task.modes.drops / task.eigenvalues) > 0).all()
