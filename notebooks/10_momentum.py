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
# # 10. Steps and momentum
#
# **Claim.** What is trained takes steps, often with momentum. A step is stable up to a bound that is known at every fixed point,
# (V8-stable); descent follows a modified flow, (V8-modified); and momentum gives the weights a mass, (V8-ball), under which a
# drop from small weights takes the inverse root of their size instead of the inverse, (V8-mass).
# Mini-batches scatter the drops, (V8-spread).

# %%
# %matplotlib inline
# %config InlineBackend.figure_formats = ["png"]
import numpy as np
from iclflow.numerics import (
    QuadraticLoss,
    RegressionTask,
    SeparateWeights,
    gradient_descent,
    gradient_flow,
    heavy_ball,
    heavy_ball_flow,
    largest_stable_step,
    modified_flow,
    separate_fixed_point,
    spread_of_drops,
)
from iclflow.numerics.dynamics.momentum import heavy_ball_mass
from iclflow.theory.equations import equation
from iclflow.verify.figures.gallery import canvas, draw
from iclflow.verify.figures.style import LOSS, SERIES, TIME, themed

# %% [markdown]
# ## How large may a step be?
# As large as the steepest direction allows. At each fixed point the Hessian falls into pieces of at most two directions:

# %%
equation("V8-stable")

# %%
task = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)
loss = QuadraticLoss.population(task)
for learned in ((0,), (0, 1), (0, 1, 2), (0, 1, 2, 3)):
    point = separate_fixed_point(task, learned, heads=4)
    print(f"{len(learned)} learned: eta < {largest_stable_step(point):.4f}", end="")
    print(
        f", with momentum 0.9: eta < {largest_stable_step(point, momentum=0.9):.4f}"
    )

# %% [markdown]
# The first direction that is learned sets the bound for the rest of the training.
#
# ## What do steps of some size follow?
# Not gradient flow but, one order better, gradient flow of $\mathcal{L}+\frac\eta4|\nabla\mathcal{L}|^2$:

# %%
equation("V8-modified")

# %%
start = SeparateWeights.initialize(
    task, heads=5, rank=1, scale=0.4, rng=np.random.default_rng(0)
)
flow = gradient_flow(loss, start, t_end=120, rtol=1e-10)
print("eta    from gradient flow   from the modified flow")
for eta in (0.2, 0.1, 0.05):
    steps = round(60 / eta)
    end = gradient_descent(
        loss, start, steps=steps, learning_rate=eta, record_every=steps
    ).states[-1]
    modified = modified_flow(loss, start, learning_rate=eta, t_end=120).states[-1]
    far, near = np.linalg.norm(end - flow.states[-1]), np.linalg.norm(end - modified)
    print(f"{eta:<6} {far:.2e}             {near:.2e}")

# %% [markdown]
# ## What does momentum do?
# Heavy ball is a sum of central differences, so what it follows has a second derivative: a mass. Nothing is fitted, and the order
# is two for every momentum.

# %%
equation("V8-ball").derive()

# %%
with themed() as theme:
    picture, axes = canvas(theme, 6.4, 3.0)
    axes.plot(
        flow.times, flow.loss, "--", color=theme.ink, lw=1, label="gradient flow"
    )
    apart = {}
    for (eta, momentum), color in zip(
        ((0.1, 0.6), (0.02, 0.95), (0.05, 0.95)), SERIES, strict=False
    ):
        mass = heavy_ball_mass(eta, momentum)
        steps = round(120 * (1 - momentum) / (2 * eta))
        ball = heavy_ball(
            loss, start, steps=steps, learning_rate=eta, momentum=momentum
        )
        rolls = heavy_ball_flow(
            loss, start, learning_rate=eta, momentum=momentum, t_end=ball.times[-1]
        )
        curve = rolls.loss_at(ball.times)
        apart[mass] = np.abs(ball.loss - curve).max() / ball.loss[0]
        every = max(len(ball.times) // 25, 1)
        axes.plot(ball.times, curve, color=color)
        axes.plot(
            ball.times[::every],
            ball.loss[::every],
            "o",
            color=color,
            ms=4,
            label=rf"$\eta={eta}$, $\mu={momentum}$: $m={mass:.1f}$",
        )
    axes.set(xlabel=TIME, ylabel=LOSS)
    axes.legend()
picture

# %% [markdown]
# Dots are heavy ball, lines the flow with mass. A heavy one comes late, and swings about its plateau before it rests.
#
# ## Late by how much?
# Mass slows the way out of a saddle, and without friction a drop is a fall from rest:

# %%
equation("V8-mass")

# %%
drawing = draw("momentum")
drawing.figure

# %% [markdown]
# ## And mini-batches?
# They scatter the times of the drops. The noise of the force is known at every map, (V8-force); carried back along the flow it gives
# the spread of each drop, from any weights:

# %%
equation("V8-spread")

# %%
for drop in spread_of_drops(
    task, start, batch_size=64, learning_rate=0.01, t_end=1000
):
    print(f"direction {drop.direction}: t = {drop.time:.1f} +- {drop.spread:.1f}")

# %% [markdown]
# ## And what gradient flow conserves?
# Drifts, and the force has no part in it:

# %%
equation("V8-energy")

# %%
rolls.conservation_drift

# %%
assert max(apart.values()) < 2e-3
assert (np.diff(rolls.energy) < 1e-9).all()
assert all(
    equation(number).holds()
    for number in ("V8-stable", "V8-modified", "V8-ball", "V8-mass", "V8-energy")
)
