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
# # 4. Rank: which stairs are long
#
# **Claim.** A head of rank $R$ has $R$ slots. Waiting for a new head takes a time as the inverse of the initial scale, filling
# the next slot of a head that is already active only its logarithm: so long plateaus are at the levels $m$ that
# $R$ divides, (T3). The paper says it the other way round in Section 5, and right in its own list.

# %%
# %matplotlib inline
# %config InlineBackend.figure_formats = ["retina"]
import numpy as np
from iclflow.numerics import (
    QuadraticLoss,
    RegressionTask,
    SeparateWeights,
    gradient_flow,
    predict_curve,
    separate_fixed_point,
)
from iclflow.theory.equations import equation
from iclflow.verify.figures.gallery import canvas, theory_levels
from iclflow.verify.figures.style import LOSS, SERIES, TIME, themed

# %% [markdown]
# ## Why
# The number of negative directions of the Hessian at a saddle, and the rate at which an empty slot fills:

# %%
equation("T3").derive()

# %% [markdown]
# Before the end the index vanishes only where no slot is empty. All other saddles are left exponentially fast.

# %%
equation("80").derive()

# %% [markdown]
# ## Ranks 1, 2 and 3 on six directions

# %%
task = RegressionTask(
    eigenvalues=[0.3, 0.24, 0.18, 0.14, 0.09, 0.05], context_length=31
)
levels = [separate_fixed_point(task, range(m), heads=6).loss for m in range(7)]
times = np.geomspace(30, 2e5, 1200)
with themed() as theme:
    picture, panels = canvas(theme, 8.4, 3.0, ncols=3, sharey=True)
    for rank, axes in zip((1, 2, 3), panels, strict=True):
        theory_levels(axes, levels, theme, names=rank == 3)
        for seed, color in zip(range(3), SERIES, strict=False):
            weights = SeparateWeights.initialize(
                task, heads=6, rank=rank, scale=0.02, rng=np.random.default_rng(seed)
            )
            run = gradient_flow(
                QuadraticLoss.population(task), weights, t_end=times[-1], rtol=1e-6
            )
            axes.plot(times, run.loss_at(times), color=color, lw=1.4)
        axes.set(
            xscale="log",
            xlabel=TIME,
            title=f"$R = {rank}$",
            xlim=(30, 2e5),
            ylim=(0.15, 1.04),
        )
    panels[0].set_ylabel(LOSS)
picture

# %% [markdown]
# ## The two laws of waiting
# Two directions, one head of rank 2 after another: the wait for a head grows ten times when the scale falls ten times; the wait inside a
# head by a constant.

# %%
pair = RegressionTask(eigenvalues=[0.5, 0.3], context_length=31)
scales, waits = (1e-2, 1e-3, 1e-4, 1e-5), []
for scale in scales:
    weights = SeparateWeights.initialize(
        pair, heads=3, rank=2, scale=scale, rng=np.random.default_rng(0)
    )
    first, second = predict_curve(pair, weights).drops
    waits.append((first, second - first))
    print(
        f"scale {scale:<6g} first drop at {first:12.1f}   second drop {second - first:6.1f} later"
    )

# %%
first, inside = np.array(waits).T
assert np.allclose(first[1:] / first[:-1], 10, rtol=0.02)
assert np.allclose(np.diff(inside), np.diff(inside)[-1], rtol=0.02)
assert all(equation(number).holds() for number in ("T3", "80"))
