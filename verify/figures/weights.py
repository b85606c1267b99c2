"""The weights of every head while they learn, as in the paper's video: a picture of the end, or an animation."""

import numpy as np
from matplotlib.axes import Axes

from ...numerics.dynamics.trajectory import Trajectory
from ..claims import formulas
from ..experiments.staircase import DEFAULT, SMALL, flow
from .gallery import Drawing, canvas, figure, listed, theory_levels
from .style import LOSS, TIME, Theme, diverging

FRAMES = 64


def moments(run: Trajectory, count: int) -> np.ndarray:
    """Times of the frames: half of them spread over time, half over the fall of the loss, so that drops are seen."""
    time, loss = run.times / run.times[-1], run.loss
    progress = (time + (loss[0] - loss) / (loss[0] - loss[-1])) / 2
    return np.interp(np.linspace(0, 1, count), progress, run.times)


@figure("weights")
def weights(theme: Theme) -> Drawing:
    """The loss with the present moment on it; value, key and query weights of each head; the effective map."""
    setting, run = SMALL, flow(SMALL)
    picture, panels = canvas(theme, 7.6, 3.0, ncols=4, width_ratios=[2.6, 2.0, 2.0, 1.4])
    curve: Axes = panels[0]
    times = np.linspace(0, run.times[-1], 3000)
    theory_levels(curve, formulas.plateau_losses(setting.task), theme, names=False)
    curve.plot(times / 1000, run.loss_at(times), color=theme.ink, lw=1.3)
    (dot,) = curve.plot([], [], "o", color=theme.trained, ms=8, zorder=4, clip_on=False)
    curve.set(xlabel=TIME + " in thousands", ylabel=LOSS, xlim=(0, times[-1] / 1000), ylim=(0, 1.06))
    v = run.arrays["v"]
    largest = float(np.abs(run.arrays["k"]).max())
    learned = np.abs(v) > 0.5 * np.abs(v[-1]).max()
    order = np.argsort(np.where(learned.any(axis=0), learned.argmax(axis=0), len(v)))
    shown = {}
    axes: Axes
    for axes, name, scale in zip(
        panels[1:], ("keys", "queries", "map"), (largest, largest, np.abs(run.effective_maps[-1]).max()), strict=True
    ):
        size = (4, 4) if name == "map" else (setting.heads, 4)
        shown[name] = axes.imshow(np.zeros(size), cmap=diverging(theme), vmin=-scale, vmax=scale)
        axes.set(xticks=range(4), xticklabels=range(1, 5), yticks=range(size[0]), yticklabels=range(1, size[0] + 1))
        axes.tick_params(length=0)
    panels[1].set(title=r"keys $k_i$", ylabel="head", xlabel="eigenvector")
    panels[2].set(title=r"queries $q_i$", xlabel="eigenvector")
    panels[3].set(title=r"$B=\sum_i v_ik_iq_i^\top$", xlabel="eigenvector")
    at = moments(run, FRAMES)

    def show(frame: int) -> None:
        arrays = dict(zip(run.initial.shape_letters, run.initial.split(run.states_at(at[frame])), strict=True))
        dot.set_data([at[frame] / 1000], [float(run.loss_at(at[frame]))])
        signs = np.sign(arrays["v"])[order, None]  # v_i k_i q_i' is what counts: keys carry the sign of v_i
        shown["keys"].set_data(signs * arrays["k"][order, 0])
        shown["queries"].set_data(arrays["q"][order, 0])
        shown["map"].set_data(run.effective_map_at(at[frame]))

    show(FRAMES - 1)
    caption = (
        f"Gradient flow of separate attention of rank one from Gaussian weights of scale {setting.scale:g} (D = 4, N = "
        f"{setting.context_length}, H = {setting.heads}, eigenvalues {listed(DEFAULT.eigenvalues, 'g')}): keys, with the sign of "
        "their value weight, and queries of each head, heads in the order in which they learn; dashed, the losses of (24). "
        "Each drop is one head aligning with one eigenvector, and one entry of the effective map.\n"
        f"Value weights at the end: {listed(np.abs(v[-1])[order])}; by (25): "
        f"{listed(formulas.learned_value_weights(setting.task))}."
    )
    return Drawing(picture, caption, FRAMES, show)
