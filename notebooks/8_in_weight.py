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
# # 8. In weight against in context
#
# **Claim.** When some task vectors repeat, the blocks that (39) and (40) keep at zero move, and the model first learns the repeated
# vectors in its weights. Two moments of the law of the task vector decide whether that happens, (V6-zero).

# %%
# %matplotlib inline
# %config InlineBackend.figure_formats = ["retina"]
import numpy as np
from iclflow.numerics import (
    FullMergedWeights,
    MixedTask,
    RegressionTask,
    gradient_flow,
)
from iclflow.theory.equations import equation
from iclflow.verify.figures.gallery import canvas
from iclflow.verify.figures.style import SERIES, TIME, themed

# %% [markdown]
# ## What moves the zero blocks

# %%
equation("V6-zero").derive()

# %% [markdown]
# ## Four portions of random task vectors
# Merged attention with all its blocks. The losses are expectations from the theory: no sequence is drawn.

# %%
task = RegressionTask(eigenvalues=[0.25] * 4, context_length=31)
vector = np.array([1.0, -0.8, 0.5, -0.6])
fixed = 2 * vector[None] / np.linalg.norm(vector)
start = FullMergedWeights.initialize(
    task, heads=8, scale=1e-2, block_scale=1e-2, rng=np.random.default_rng(0)
)
times = np.linspace(0, 160, 300)
portions = (0.1, 0.4, 0.7, 1.0)
ends = {}
with themed() as theme:
    picture, panels = canvas(theme, 8.6, 2.8, ncols=4, sharey=True)
    for portion, axes in zip(portions, panels, strict=True):
        mixed = MixedTask(task, portion, fixed)
        run = gradient_flow(mixed.training_loss, start, t_end=160, rtol=1e-6)
        maps = run.effective_map_at(times)
        for (kind, loss), color in zip(mixed.losses.items(), SERIES, strict=False):
            values = np.array([loss.value(B) for B in maps])
            ends[portion, kind] = values[-1]
            axes.plot(times, values, color=color, label=kind)
        axes.set(
            title=f"{portion:.0%} random", xlabel=TIME, ylim=(0, 2), xlim=(0, 160)
        )
    panels[0].set_ylabel("loss")
    panels[-1].legend()
picture

# %% [markdown]
# *Training* is what the flow lowers. *In context* draws a new task vector each time; *in weight* repeats the fixed one; *memory*
# asks for the fixed one when the labels in the context are noise: nothing but the weights can answer.

# %% [markdown]
# ## An opposite pair leaves them alone
# With the vectors $\boldsymbol{w}_0$ and $-\boldsymbol{w}_0$ both moments vanish. The blocks then stay at zero at any portion.

# %%
zero_blocks = FullMergedWeights.initialize(
    task, heads=8, scale=1e-2, rng=np.random.default_rng(0)
)
largest = {}
for name, vectors in (
    ("one vector", fixed),
    ("an opposite pair", np.vstack([fixed, -fixed])),
):
    run = gradient_flow(
        MixedTask(task, 0.4, vectors).training_loss, zero_blocks, t_end=100, rtol=1e-6
    )
    largest[name] = max(
        np.abs(run.arrays["value"][:, :, :-1]).max(),
        np.abs(run.arrays["key_query"][:, :, -1]).max(),
    )
    print(f"{name:18} largest weight in the zero blocks: {largest[name]:.1e}")

# %%
assert largest["an opposite pair"] < 1e-9 < 0.1 < largest["one vector"]
assert ends[0.1, "memory"] < ends[1.0, "memory"]
assert equation("V6-zero").holds()
