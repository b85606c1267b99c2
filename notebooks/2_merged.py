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
# # 2. Merged attention drops once
#
# **Claim.** With merged keys and queries there are two fixed functions only, (14). From small weights the loss stays at
# the first for a time that grows as the logarithm of the initial scale, (49) and (51), and then falls to the second at once; on
# white tokens along a sigmoid, (15) and (48).

# %%
# %matplotlib inline
# %config InlineBackend.figure_formats = ["retina"]
import numpy as np
from iclflow.numerics import (
    MergedWeights,
    QuadraticLoss,
    RegressionTask,
    WhiteReduction,
    find_plateaus,
    gradient_flow,
    merged_fixed_points,
)
from iclflow.theory.equations import equation
from iclflow.verify.figures.gallery import canvas
from iclflow.verify.figures.style import LOSS, SERIES, TIME, themed

# %% [markdown]
# ## The flow, and where it rests

# %%
equation("13-heads").derive()

# %%
equation("14b").derive()

# %% [markdown]
# ## One drop
# Eight heads on tokens with four different eigenvalues. The dashed lines are the losses at the two fixed points.

# %%
task = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)
weights = MergedWeights.initialize(
    task, heads=8, scale=1e-2, rng=np.random.default_rng(0)
)
run = gradient_flow(QuadraticLoss.population(task), weights, t_end=1500)
levels = [point.loss for point in merged_fixed_points(task, heads=8)]
with themed() as theme:
    picture, axes = canvas(theme, 6.4, 3.2)
    times = np.linspace(0, 120, 800)
    axes.plot(times, run.loss_at(times), color=theme.ink, label="gradient flow")
    for m, level in enumerate(levels):
        axes.axhline(
            level,
            color=theme.theory,
            ls="--",
            lw=1,
            label=None if m else "the two fixed points",
        )
    axes.set(xlabel=TIME, ylabel=LOSS, ylim=(0, 1.06), xlim=(0, 120))
    axes.legend(loc="center right")
picture

# %% [markdown]
# ## White tokens: a sigmoid in closed form

# %%
equation("15").derive()

# %% [markdown]
# The sigmoid needs one number from the initial weights. For Gaussian weights it isn't their squared norm but the effective start
# below, the part of the weights that grows.

# %%
equation("15-start").derive()

# %%
white, reduction = (
    RegressionTask(eigenvalues=[1.0] * 4, context_length=31),
    WhiteReduction(4, 31),
)
aligned = np.eye(4) / np.sqrt(4)
scales, drops, expected, nominal = (1e-1, 1e-2, 1e-3, 1e-4), [], [], []
with themed() as theme:
    picture, axes = canvas(theme, 6.4, 3.4)
    for scale, color in zip(scales, SERIES, strict=False):
        start = MergedWeights.initialize(
            white, heads=8, scale=scale, rng=np.random.default_rng(0)
        )
        run_white = gradient_flow(QuadraticLoss.population(white), start, t_end=9)
        s_eff = np.sum((start.v + np.einsum("hij,ij->h", start.U, aligned)) ** 2) / 4
        times = np.linspace(0, 9, 600)
        axes.plot(
            times,
            run_white.loss_at(times),
            color=color,
            lw=3,
            alpha=0.7,
            label=rf"$w_{{\rm init}} = {scale:g}$",
        )
        axes.plot(
            times,
            reduction.loss(times, s_eff),
            color=theme.ink,
            lw=1,
            ls="--",
            label="equation (48)" if scale == scales[-1] else None,
        )
        drops.append(find_plateaus(run_white).drops[0])
        expected.append(find_plateaus(times, reduction.loss(times, s_eff)).drops[0])
        nominal.append(find_plateaus(times, reduction.loss(times, scale**2)).drops[0])
    axes.set(xlabel=TIME, ylabel=LOSS, xlim=(0, 9), ylim=(0, None))
    axes.legend()
picture

# %% [markdown]
# Each factor of ten in the scale delays the drop by the same time: the plateau lasts as the logarithm of the scale, derived
# here.

# %%
equation("49").derive()

# %%
for row in zip(scales, drops, expected, nominal, strict=True):
    print(
        "scale {:<7g} drop at {:.3f}; (48) with the effective start: {:.3f}, with the nominal scale: {:.3f}".format(
            *row
        )
    )

# %%
assert len(find_plateaus(run).drops) == 1
assert abs(run.loss[-1] - levels[1]) < 1e-3 * levels[1]
assert np.allclose(drops, expected, atol=0.01)
assert all(equation(number).holds() for number in ("13-heads", "14b", "15", "49"))
