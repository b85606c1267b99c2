"""Figures of merged attention: 1 and 6, the initial scale, softmax of both kinds, and the drop for any covariance (V7)."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch

from ...numerics import MergedDrop, MergedWeights, QuadraticLoss, RegressionTask, Trajectory, balanced_curve, gradient_flow
from ..claims import formulas
from ..claims.merged.drop import START, ray
from ..experiments.staircase import DEFAULT, flow, plateaus, softmax_training
from ..training.descent import TrainingRun, fresh_batches, train
from ..training.modules import ReducedMerged, TwoLayerNetwork
from .gallery import Drawing, beside_axes, canvas, figure, listed, theory_levels
from .style import BLUE, GREEN, LOSS, ORANGE, SERIES, TIME, Theme, diverging


@dataclass(frozen=True)
class MergedSetting:
    """Merged attention on the tokens of the staircase."""

    heads: int = 8
    scale: float = 0.01
    seed: int = 0
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
        beside_axes(axes, rf"$\mathcal{{L}}(\mathcal{{M}}_{name})$", level, theme)
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
    picture, axes = canvas(theme, 8.6, 4.6, nrows=3, ncols=3, height_ratios=[2, 2, 1.1])
    cosines = []
    for row, (index, direction, name) in enumerate(
        ((early, square, r"$w_2\,\mathbb{E}(y_q z^\top)$"), (late, best, r"$w_2\,\mathbb{E}(y_q z^\top)\mathbb{E}(zz^\top)^{-1}$"))
    ):
        U, w2 = attention.states["U"][index], attention.states["v"][index]
        rows = U.swapaxes(1, 2).reshape(len(U), -1)
        theory = np.outer(w2, direction.flatten(order="F"))
        theory *= np.linalg.norm(rows) / np.linalg.norm(theory)
        cosines.append(float(np.sum(rows * theory) / np.linalg.norm(rows) ** 2))
        limit = np.abs(rows).max()
        for panel, image in zip(axes[row], (rows, network.states["W1"][index], theory), strict=True):
            panel.imshow(image, cmap=diverging(theme), vmin=-limit, vmax=limit, aspect="auto")
        picture.colorbar(axes[row, 0].images[0], ax=list(axes[row]), pad=0.01, label="weight")
        axes[row, 2].set_title(name, color=theme.theory)
        axes[row, 0].set_ylabel("plateau" if row == 0 else "converged")
    axes[0, 0].set_title(r"attention: $\mathrm{vec}(U_i)^\top$")
    axes[0, 1].set_title(r"network: $W_1$")
    B, B_network = attention.effective_maps()[-1], network_maps(network)[-1]
    limit = np.abs(best).max()
    for panel, image in zip(axes[2], (B, B_network, best), strict=True):
        panel.imshow(image, cmap=diverging(theme), vmin=-limit, vmax=limit)
    picture.colorbar(axes[2, 0].images[0], ax=list(axes[2]), pad=0.01, label="entry")
    axes[2, 0].set_ylabel(r"map $B$")
    axes[2, 2].set_xlabel(r"$(\Lambda + (\Lambda + \mathrm{tr}(\Lambda) I)/N)^{-1}$", color=theme.theory)
    for panel in axes.flat:
        panel.set(xticks=[], yticks=[])
        panel.spines[:].set(visible=True, color=theme.faint, linewidth=0.6)
    caption = (
        "Weights of trained merged attention (a, d), of the two-layer network (b, e) and theory (c, f): on the plateau the rows align "
        "with E(y_q z), at convergence with the regression on z, which is least squares in context. (g, h, i) Their maps.\n"
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
        steps, losses = softmax_training(kind, 1500 if theme.quick else 4000)
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


SHOWN = {"white": [0.5, 0.5, 0.5], "3 : 2 : 1": [0.6, 0.4, 0.2], "10 : 1": [1.0, 0.1]}


@figure("merged-drop")
def merged_drop(theme: Theme) -> Drawing:
    """The fall of the loss for three spectra, the time of half the drop between its bounds, and the share of the ray."""
    picture, (left, middle, right) = canvas(theme, 10.0, 3.4, ncols=3)
    lines = _falls(left, theme)
    count, widest = _times(middle, theme)
    least = _shares(right, theme)
    caption = (
        "Merged attention, N = 31, balanced flow from s_0 = 0.001 gamma/(2k) on the ray of Lambda^2. (a) The fall of the loss as a share "
        "of the whole, against the time since the middle of the sigmoid with the mean kappa; dotted: what each direction learns to leading "
        "order (V7-turn); dashed: phi, what the ray holds (V7-share), where the drop rests if the spectrum is wide. "
        f"{' '.join(lines)} (b) The time to half of the drop for {count} random spectra of two to six directions (dots), and its "
        f"bounds (V7-half), at most {widest:.3f} tau/gamma apart, both minus the upper bound. (c) This share of 2,000 random spectra over "
        "the ratio of the largest kappa_d = lambda_d a_d to the smallest, and Kantorovich's bound, to which the nearest comes within "
        f"{least - 1:.1%}."
    )
    return Drawing(picture, caption)


def _curve(task: RegressionTask, until: float):
    """The flow, and the fall of the loss at times counted from the middle of the sigmoid, in 1/gamma."""
    drop, loss = MergedDrop.of(task), QuadraticLoss.population(task)
    middle = drop.time_bounds(START * drop.middle)[1]
    curve = balanced_curve(task, START * drop.middle * ray(task), t_end=middle + until / drop.gamma)
    whole = loss.c - loss.value(np.linalg.solve(task.second_moment, task.covariance))
    return lambda x: (loss.c - curve.loss(np.maximum(middle + x / drop.gamma, 0.0))) / whole


def _falls(axes, theme: Theme) -> list[str]:
    lines, times = [], np.linspace(-3, 12, 300)
    for (name, eigenvalues), color in zip(SHOWN.items(), (BLUE, ORANGE, GREEN), strict=True):
        task = RegressionTask(eigenvalues=eigenvalues, context_length=31)
        drop, fall = MergedDrop.of(task), _curve(task, 12.0)
        axes.plot(times, fall(times), color=color, label=name)
        axes.plot(times, drop.learned(times), color=theme.ink, lw=1.2, ls=(0, (1, 1.5)))
        axes.axhline(drop.share, color=color, lw=1, ls=(0, (4, 3)), zorder=0)
        lines.append(
            f"{name}: phi = {drop.share:.3f}, learned by 3/gamma {float(drop.learned(3.0)):.3f}, measured {float(fall(np.array(3.0))):.3f}."
        )
    axes.set(xlabel=r"$\gamma\,(t - t_m)/\tau$", ylabel="fall of the loss, of the whole", ylim=(0, 1.04))
    axes.legend(loc="lower right", title="eigenvalues")
    return lines


def _spectra(count: int, seed: int) -> list[RegressionTask]:
    rng = np.random.default_rng(seed)
    sizes, ranges = rng.integers(2, 7, count), rng.uniform(0, np.log(30), count)
    return [
        RegressionTask(eigenvalues=np.exp(-rng.uniform(0, 1, size) * width), context_length=31)
        for size, width in zip(sizes, ranges, strict=True)
    ]


def _times(axes, theme: Theme) -> tuple[int, float]:
    tasks, widest = _spectra(40, 0), 0.0
    for position, task in enumerate(sorted(tasks, key=lambda task: MergedDrop.of(task).spread)):
        drop, fall = MergedDrop.of(task), _curve(task, 1.0)
        start = START * drop.middle
        earliest, latest = drop.half_bounds(start)
        middle = drop.time_bounds(start)[1]
        times = np.linspace(-1.5, 0.0, 4001)  # half is over before s is in the middle
        half = float(np.interp(drop.share / 2, fall(times), times))
        since = (middle - latest) * drop.gamma
        label = ("bounds", "flow") if position == 0 else (None, None)
        axes.vlines(drop.spread, (earliest - latest) * drop.gamma, 0.0, color=theme.theory, lw=1, label=label[0])
        axes.plot(drop.spread, half + since, "o", color=SERIES[0], ms=3, label=label[1])
        widest = max(widest, (latest - earliest) * drop.gamma)
    axes.set(xlabel=r"$\kappa_{\max}/\kappa_{\min}$", xscale="log", ylim=(-0.04, 0.005))
    axes.set_ylabel(r"half of the drop, $\gamma\,(t_{1/2} - t_{\rm latest})/\tau$")
    axes.legend(loc="lower left", ncols=2)
    return len(tasks), widest


def _shares(axes, theme: Theme) -> float:
    drops = [MergedDrop.of(task) for task in _spectra(2000, 1)]
    spreads, shares = np.array([drop.spread for drop in drops]), np.array([drop.share for drop in drops])
    bounds = np.array([drop.least_share for drop in drops])
    order = np.argsort(spreads)
    axes.plot(spreads, shares, ".", color=BLUE, ms=2, alpha=0.5, label="random spectra")
    axes.plot(spreads[order], bounds[order], color=theme.theory, lw=1.4, label="bound")
    axes.set(xlabel=r"$\kappa_{\max}/\kappa_{\min}$", ylabel=r"share $\phi$ of the ray", xscale="log", ylim=(0, 1.04))
    axes.legend(loc=(0.42, 0.1))
    return float((shares / bounds)[spreads > 1.5].min())
