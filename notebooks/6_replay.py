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
# paper's official code is repeated step for step, and agrees to the rounding of its float32. The data and initial weights
# follow from its arguments, so that nothing else is needed; `iclflow official` does the same from the command line.
#
# The recordings are every 25th loss of runs of the public repository yedizhang/linattn-icl (commit 9a481d5).

# %%
# %matplotlib inline
# %config InlineBackend.figure_formats = ["retina"]
from pathlib import Path

import numpy as np
from iclflow.numerics.replay.arguments import Arguments
from iclflow.theory.equations import equation
from iclflow.verify.figures.gallery import canvas
from iclflow.verify.figures.style import LOSS, themed
from iclflow.verify.training.official import official_run

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
separate = {"model": "attnS", "head_num": 5, "lr": 0.02, "trainset_size": 1000}
merged = {"model": "attnM", "head_num": 8, "lr": 0.001, "trainset_size": 1000}
runs = {
    "merged_D4": Arguments(**merged, epoch=4001, seed=2, init=1e-6),
    "separate_rank1_D4": Arguments(**separate, epoch=10001, seed=0),
    "separate_rank2_D4": Arguments(**separate, epoch=6001, seed=1, rank=2),
}
curves = {}
for name, arguments in runs.items():
    recorded = np.load(folder / f"{name}.npz")["loss"]
    loss = official_run(arguments)[0]["loss"]
    difference = np.abs(loss[::25] / recorded - 1).max()
    print(
        f"{name:18} {len(loss):6} steps, largest relative difference {difference:.1e}"
    )
    curves[name] = (loss, np.arange(0, len(loss), 25), recorded)
    assert difference < 5e-5

# %%
with themed() as theme:
    picture, panels = canvas(theme, 8.4, 2.9, ncols=3, sharey=True)
    for axes, (name, (loss, recorded, official)) in zip(
        panels, curves.items(), strict=True
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
