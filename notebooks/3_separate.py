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
# # 3. Separate attention descends a staircase
#
# **Claim.** With separate keys and queries of rank one, gradient flow (19) passes from one saddle to the next: the loss waits at
# the levels (24), each head learns one eigenvector along the scalar flow (26), and the initial weights alone tell when.

# %%
# %matplotlib inline
# %config InlineBackend.figure_formats = ["retina"]
import numpy as np
from iclflow.numerics import (
    QuadraticLoss,
    RegressionTask,
    ScalarReduction,
    SeparateWeights,
    find_plateaus,
    gradient_flow,
    predict_curve,
    separate_fixed_point,
)
from iclflow.theory.equations import equation
from iclflow.verify.figures.gallery import canvas, theory_levels
from iclflow.verify.figures.style import LOSS, SERIES, TIME, themed

# %% [markdown]
# ## The flow of one head

# %%
equation("54").derive()

# %% [markdown]
# ## The levels of the plateaus

# %%
equation("24").derive()

# %% [markdown]
# ## The staircase
# Gradient flow from small Gaussian weights (36). Dashed: the losses at the saddles. Orange: the whole curve predicted from the
# initial weights, without integrating the system.

# %%
task = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)
weights = SeparateWeights.initialize(
    task, heads=5, rank=1, scale=1e-2, rng=np.random.default_rng(0)
)
run = gradient_flow(QuadraticLoss.population(task), weights, t_end=40_000)
prediction = predict_curve(task, weights)
levels = [separate_fixed_point(task, range(m), heads=5).loss for m in range(5)]
times = np.linspace(0, 30_000, 3000)
with themed() as theme:
    picture, axes = canvas(theme, 6.8, 3.6)
    theory_levels(axes, levels, theme)
    axes.plot(
        times, run.loss_at(times), color=theme.ink, lw=2.4, label="gradient flow"
    )
    axes.plot(
        times,
        prediction.loss(times),
        color=SERIES[1],
        lw=1.2,
        label="predicted from the initial weights",
    )
    axes.set(xlabel=TIME, ylabel=LOSS, xlim=(0, 30_000), ylim=(0, 1.06))
    axes.legend()
picture

# %%
found = find_plateaus(run)
print(
    "loss on the plateaus:",
    found.levels.round(4),
    " equation (24):",
    np.round(levels, 4),
)
print(
    "drops at t/tau:      ",
    found.drops.round(0),
    " predicted:",
    prediction.drops.round(0),
)

# %% [markdown]
# ## Inside a drop
# While a head grows, its key and query stay along one eigenvector; what is left is a scalar flow.

# %%
equation("26").derive()

# %% [markdown]
# Its solution has a closed form. Each value weight is drawn over it, from where it is half grown.

# %%
v = np.abs(run.initial.split(run.states_at(times))[0])
order = np.argsort(
    [
        np.argmax(v[:, head] > v[-1, head] / 2) if v[-1, head] > 0.1 else len(times)
        for head in range(5)
    ]
)
with themed() as theme:
    picture, axes = canvas(theme, 6.8, 3.2)
    for d, color in zip(range(4), SERIES, strict=False):
        reduction = ScalarReduction.of(task, d)
        half, start = reduction.fixed_point / 2, reduction.fixed_point / 100
        began = np.interp(half, v[:, order[d]], times) - float(
            reduction.time(half, start)
        )
        inside = times[times > began]
        axes.plot(
            times,
            v[:, order[d]],
            color=color,
            lw=3,
            alpha=0.7,
            label=rf"head of $\mathbf{{e}}_{d + 1}$",
        )
        axes.plot(
            inside,
            reduction.value(inside - began, start),
            color=theme.ink,
            lw=1,
            ls="--",
            label=None if d else "equation (26)",
        )
    axes.set(
        xlabel=TIME, ylabel=r"value weight $|v_i|$", xlim=(0, 30_000), ylim=(0, None)
    )
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
picture

# %%
assert np.allclose(found.levels, levels, rtol=2e-3)
assert np.allclose(found.drops, prediction.drops, rtol=0.02)
assert all(equation(number).holds() for number in ("54", "24", "26"))
