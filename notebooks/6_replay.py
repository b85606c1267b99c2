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
# # 6. Replaying the official code
#
# **Claim.** Linear attention needs its training set only through the moments of one feature, (7) and (87). So a recorded run of the
# paper's official code is repeated step for step without its data, and agrees to the rounding of its float32.
#
# The recordings are runs of the public repository yedizhang/linattn-icl (commit 9a481d5), cut down to their moments, initial
# weights and every 25th loss.

# %%
# %matplotlib inline
# %config InlineBackend.figure_formats = ["retina"]
from pathlib import Path

import numpy as np
from iclflow.numerics import SampleMoments
from iclflow.numerics.replay.ensemble import Ensemble
from iclflow.numerics.tasks.sample_moments import gram_index
from iclflow.theory.equations import equation
from iclflow.verify.figures.gallery import canvas
from iclflow.verify.figures.style import LOSS, themed

# %% [markdown]
# ## Which feature

# %%
equation("87-features").derive()

# %% [markdown]
# ## Three runs

# %%
folder = next(
    path for path in (Path("../tests/data"), Path("tests/data")) if path.is_dir()
)
upper = np.triu_indices(60)  # the distinct features of D = 4
runs = {}
for name in ("merged_D4", "separate_rank1_D4", "separate_rank2_D4"):
    file = dict(np.load(folder / f"{name}.npz"))
    quadratic = np.zeros((60, 60))
    quadratic[upper] = quadratic.T[upper] = file["quadratic"]
    moments = SampleMoments(
        quadratic,
        file["linear"],
        float(file["constant"]),
        int(file["count"]),
        gram_index(4),
    )
    parts = ("value", "key_query") if "merged" in name else ("value", "key", "query")
    weights = tuple(file[f"init.{part}"][None, None] for part in parts)

    ensemble, steps = Ensemble([moments]), int(file["steps"])
    blocks = ensemble.descend(weights, float(file["learning_rate"]), steps)
    loss = ensemble.losses(np.concatenate([maps for maps, _ in blocks]))[:, 0, 0]

    recorded = np.arange(0, steps, -(-steps // len(file["loss"])))
    difference = np.abs(loss[recorded] / file["loss"] - 1).max()
    print(f"{name:18} {steps:6} steps, largest relative difference {difference:.1e}")
    runs[name] = (loss, recorded, file["loss"])
    assert difference < 5e-5

# %%
with themed() as theme:
    picture, panels = canvas(theme, 8.4, 2.9, ncols=3, sharey=True)
    for axes, (name, (loss, recorded, official)) in zip(
        panels, runs.items(), strict=True
    ):
        axes.plot(
            recorded,
            official,
            color=theme.trained,
            lw=5,
            label="official code, float32",
        )
        axes.plot(loss, color=theme.ink, lw=1.2, label="replayed from moments")
        axes.set(
            xlabel="step", title=name.removesuffix("_D4").replace("_rank", ", rank ")
        )
    panels[0].set(ylabel=LOSS, ylim=(0, None))
    panels[1].legend(loc="upper right")
picture

# %%
assert equation("87-features").holds()
