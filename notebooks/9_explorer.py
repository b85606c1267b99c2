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
# # 9. Explorer: move a slider, watch the stairs
#
# **Claim.** Eigenvalues, context length and noise set the levels of the stairs, (24) and (V1-levels); heads, rank and the initial
# weights set when they are taken, (68) and (T3).
#
# The sliders below run in a live notebook; the command `iclflow explore` shows the same in a page of its own. A run takes about
# a tenth of a second, its picture half of one.

# %%
# %matplotlib inline
import numpy as np
from iclflow.theory.equations import equation
from iclflow.verify.explorer.picture import panels, panels_of
from iclflow.verify.explorer.run import Exploration, explored
from ipywidgets import Checkbox, FloatLogSlider, FloatSlider, IntSlider, interact

# %% [markdown]
# ## One picture
# Above, the loss with its plateaus, over the levels of theory and the curve that is predicted from the initial weights; and the
# effective map at one moment, over its final value. Below, the value weights, and how much of each direction is learned.

# %%
run = explored(Exploration())
panels(run, moment=0.5)

# %%
print(run.summary(0.5 * run.end))

# %% [markdown]
# ## With sliders
# Focus a slider and use the arrow keys, or drag it. (They need a live notebook, so the site leaves them out.)

# %% tags=["remove-output"]
values = (0.4, 0.3, 0.2, 0.1)
sliders = {
    f"l{d}": FloatSlider(
        value,
        min=0.01,
        max=1,
        step=0.01,
        description=f"λ{d}",
        continuous_update=False,
    )
    for d, value in enumerate(values, 1)
}
sliders |= {
    "N": IntSlider(31, 1, 128, description="context N", continuous_update=False),
    "H": IntSlider(5, 1, 8, description="heads H", continuous_update=False),
    "R": IntSlider(1, 1, 4, description="rank R", continuous_update=False),
    "scale": FloatLogSlider(
        0.02,
        min=-4,
        max=-0.4,
        step=0.05,
        description="scale",
        continuous_update=False,
    ),
    "seed": IntSlider(12, 0, 50, description="seed", continuous_update=False),
    "noise": FloatSlider(
        0, min=0, max=2, step=0.05, description="noise σ²", continuous_update=False
    ),
    "merged": Checkbox(False, description="merged keys and queries"),
    "moment": FloatSlider(
        0.5, min=0, max=1, step=0.005, description="moment", continuous_update=False
    ),
}
_ = interact(panels_of, **sliders)

# %% [markdown]
# ## The claim, on four settings

# %%
plain, longer = explored(Exploration()), explored(Exploration(context_length=64))
other, larger = explored(Exploration(seed=3)), explored(Exploration(scale=0.04))
assert np.allclose(plain.plateaus.levels, other.plateaus.levels, rtol=0.005)
assert not np.allclose(plain.plateaus.drops, other.plateaus.drops, rtol=0.1)
assert longer.plateaus.levels[-1] < 0.8 * plain.plateaus.levels[-1]
assert np.allclose(plain.plateaus.drops / larger.plateaus.drops, 2, rtol=0.1)
assert all(equation(number).holds() for number in ("24", "V1-levels", "68", "T3"))
