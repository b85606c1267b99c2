"""Figures of merged attention: the paper's figures 1 and 6, the initial scale, and softmax attention of both kinds."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch

from ...numerics.dynamics.flow import gradient_flow
from ...numerics.dynamics.trajectory import Trajectory
from ...numerics.parametrizations.attention import MergedWeights
from ...numerics.tasks.losses import QuadraticLoss
from ..claims import formulas
from ..experiments.staircase import DEFAULT, flow, plateaus, softmax_training
from ..training.descent import TrainingRun, fresh_batches, train
from ..training.modules import ReducedMerged, TwoLayerNetwork
from .gallery import Drawing, canvas, figure, listed, theory_levels
from .style import LOSS, SERIES, TIME, Theme, diverging


@dataclass(frozen=True)
class MergedSetting:
    """Merged attention on the tokens of the staircase."""

    heads: int = 8
    scale: float = 0.01
    seed: int = 1
    duration: float = 120.0
    learning_rate: float = 0.1
    batch_size: int = 1024

    @property
    def weights(self) -> MergedWeights:
        rng = np.random.default_rng(self.seed)
        return MergedWeights.initialize(DEFAULT.task, heads=self.heads, scale=self.scale, rng=rng)


MERGED = MergedSetting()


@cache
def merged_flow(setting: MergedSetting = MERGED) -> Trajectory:
    return gradient_flow(QuadraticLoss.population(DEFAULT.task), setting.weights, t_end=setting.duration)


@cache
def merged_training(network: str, setting: MergedSetting = MERGED) -> TrainingRun:
    """Attention (M), or the two-layer network on z, on the same mini-batches from the same weights."""
    start = {"attention": ReducedMerged, "network": TwoLayerNetwork.equivalent_to}[network](setting.weights)
    source = fresh_batches(DEFAULT.task, setting.batch_size, torch.Generator().manual_seed(setting.seed))
    steps = round(setting.duration / (2 * setting.learning_rate))
    return train(start, source, steps=steps, learning_rate=setting.learning_rate)


def network_maps(run: TrainingRun) -> np.ndarray:
    """B of the network ``w_2' W_1 z``, whose z stacks columns."""
    D = DEFAULT.task.dimension
    return np.einsum("th,thn->tn", run.states["w2"], run.states["W1"]).reshape(-1, D, D).swapaxes(1, 2)


@figure("1")
def one_drop(theme: Theme) -> Drawing:
    """Merged attention, the two-layer network and the flow: one curve, with one drop."""
    loss, levels = QuadraticLoss.population(DEFAULT.task), formulas.plateau_losses(DEFAULT.task)
    attention, network = merged_training("attention"), merged_training("network")
    above = attention.population_loss(loss)
    below = np.array([loss.value(B) for B in network_maps(network)])
    picture, axes = canvas(theme, 6.4, 3.4)
    theory_levels(axes, [levels[0], levels[-1]], theme, names=False, label="theory: the two fixed points")
    for level, name in ((levels[0], "0"), (levels[-1], "*")):
        text = rf"$\mathcal{{L}}(\mathcal{{M}}_{name})$"
        axes.annotate(
            text, (1, level), (5, 0), ("axes fraction", "data"), "offset points", va="center", color=theme.theory
        )
    times = np.linspace(0, MERGED.duration, 2000)
    axes.plot(attention.times, above, color=theme.trained, lw=6, label="attention on $X$, SGD")
    axes.plot(network.times, below, color=SERIES[1], lw=2.8, label="two-layer network on $z$, SGD")
    axes.plot(times, merged_flow().loss_at(times), color=theme.ink, lw=1.1, label="gradient flow")
    axes.set(xlabel=TIME, ylabel=LOSS, xlim=(0, MERGED.duration), ylim=(0, 1.06))
    axes.legend(loc="upper right", bbox_to_anchor=(0.99, 0.94))
    apart = np.abs(above / below - 1).max()
    caption = (
        "Merged attention and the fully connected linear network on the cubic feature z, trained on the same sequences from "
        f"the same weights. D = 4, N = 31, H = {MERGED.heads}, eigenvalues 0.4, 0.3, 0.2, 0.1, initial scale {MERGED.scale}.\n"
        f"Largest relative difference of the two losses: {apart:.1e}. Loss at the end of the run: {above[-1]:.4f}; of the "
        f"flow: {merged_flow().loss[-1]:.4f}; least possible: {levels[-1]:.4f}."
    )
    return Drawing(picture, caption)


@figure("6")
def merged_weights(theme: Theme) -> Drawing:
    """vec(U_i) and W_1 on the plateau and at the end, beside the directions that theory predicts."""
    setting = replace(MERGED, duration=400.0)
    attention, network = merged_training("attention", setting), merged_training("network", setting)
    task, drop = DEFAULT.task, plateaus(merged_flow(setting)).drops[0]
    early, late = int(np.searchsorted(attention.times, 0.6 * drop)), len(attention.times) - 1
    square = task.covariance @ task.covariance
    best = formulas.least_squares_map(task)
    picture, axes = canvas(theme, 8.0, 4.6, nrows=3, ncols=3, height_ratios=[2, 2, 1.1])
    cosines = []
    for row, (index, direction, name) in enumerate(
        (
            (early, square, r"$w_2\,\mathbb{E}(y_q z^\top)$"),
            (late, best, r"$w_2\,\mathbb{E}(y_q z^\top)\mathbb{E}(zz^\top)^{-1}$"),
        )
    ):
        U, w2 = attention.states["U"][index], attention.states["v"][index]
        rows = U.swapaxes(1, 2).reshape(len(U), -1)
        theory = np.outer(w2, direction.flatten(order="F"))
        theory *= np.linalg.norm(rows) / np.linalg.norm(theory)
        cosines.append(float(np.sum(rows * theory) / np.linalg.norm(rows) ** 2))
        limit = np.abs(rows).max()
        for panel, image in zip(axes[row], (rows, network.states["W1"][index], theory), strict=True):
            panel.imshow(image, cmap=diverging(theme), vmin=-limit, vmax=limit, aspect="auto")
        axes[row, 2].set_title(name, color=theme.theory)
        axes[row, 0].set_ylabel("plateau" if row == 0 else "converged")
    axes[0, 0].set_title(r"attention: $\mathrm{vec}(U_i)^\top$")
    axes[0, 1].set_title(r"network: $W_1$")
    B, B_network = attention.effective_maps()[-1], network_maps(network)[-1]
    limit = np.abs(best).max()
    for panel, image in zip(axes[2], (B, B_network, best), strict=True):
        panel.imshow(image, cmap=diverging(theme), vmin=-limit, vmax=limit)
    axes[2, 0].set_ylabel(r"map $B$")
    axes[2, 2].set_title(r"$(\Lambda + (\Lambda + \mathrm{tr}(\Lambda) I)/N)^{-1}$", color=theme.theory)
    for panel in axes.flat:
        panel.set(xticks=[], yticks=[])
        panel.spines[:].set(visible=True, color=theme.faint, linewidth=0.6)
    caption = (
        "Weights of trained merged attention (left), of the two-layer network (middle) and theory (right): on the plateau "
        "the rows align with E(y_q z), at convergence with the regression on z, which is least squares in context.\n"
        f"Cosine with theory on the plateau {cosines[0]:.4f}, at the end {cosines[1]:.4f}. Effective map against (16): "
        f"largest difference {np.abs(B - best).max():.2f} of {best.max():.2f}, the last component being the slowest."
    )
    return Drawing(picture, caption)


@figure("scale")
def initial_scale(theme: Theme) -> Drawing:
    """From small to large initial weights: plateaus shorten, and the largest start decays exponentially."""
    picture, panels = canvas(theme, 8.0, 3.2, ncols=2, sharey=True)
    scales = (0.01, 0.1, 0.5, 2.0, 5.0)
    levels = formulas.plateau_losses(DEFAULT.task)
    for scale, color in zip(scales, SERIES, strict=False):
        merged = merged_flow(replace(MERGED, scale=scale, duration=1000.0))
        separate = flow(replace(DEFAULT, scale=scale, duration=4e4))
        for axes, run in ((panels[0], merged), (panels[1], separate)):
            times = np.geomspace(0.01, run.times[-1], 1500)
            axes.plot(times, run.loss_at(times), color=color, label=rf"$w_{{\rm init}} = {scale:g}$")
    for axes, title in zip(panels, ("merged key and query", "separate key and query, $R = 1$"), strict=True):
        axes.set(xscale="log", xlabel=TIME, title=title, ylim=(0, 1.4))
    panels[0].set_ylabel(LOSS)
    theory_levels(panels[0], [levels[0], levels[-1]], theme, names=False)
    theory_levels(panels[1], levels, theme)
    panels[0].legend(loc="lower left", bbox_to_anchor=(0.0, 0.12))
    starts = [float(flow(replace(DEFAULT, scale=s, duration=4e4)).loss[0]) for s in scales]
    caption = (
        "Loss along gradient flow from initial weights of different scale; dashed: the fixed points of theory.\n"
        f"Initial loss of separate attention: {listed(starts, '.3g')} for scales {listed(scales, 'g')}."
    )
    return Drawing(picture, caption)


@figure("softmax")
def softmax(theme: Theme) -> Drawing:
    """Softmax attention: one drop with merged, several with separate keys and queries."""
    picture, panels = canvas(theme, 8.0, 3.0, ncols=2, sharey=True)
    ends = []
    for axes, kind in zip(panels, ("merged", "separate"), strict=True):
        steps, losses = softmax_training(kind)
        axes.plot(steps, losses, color=theme.trained, lw=2.5)
        axes.set(xlabel="steps of SGD", title=f"softmax attention, {kind}", xlim=(0, steps[-1]), ylim=(0, 1.08))
        ends.append(losses[-1])
    panels[0].set_ylabel(LOSS)
    caption = (
        "Softmax attention, equation (5), with all its blocks, trained by SGD on fresh sequences; D = 4, N = 31. The theory "
        "is about linear attention; what carries over is one drop (merged) against several (separate).\n"
        f"Loss on 4,000 fresh sequences at the end: merged {ends[0]:.4f}, separate {ends[1]:.4f}."
    )
    return Drawing(picture, caption)
