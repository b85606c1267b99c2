"""Figures of separate attention of rank one: the staircase, figures 3a to 3c, whole curves predicted, and the moving weights."""

from dataclasses import replace
from string import ascii_lowercase

import numpy as np
from matplotlib.axes import Axes
from scipy.optimize import brentq

from ...numerics import QuadraticLoss, RegressionTask, ScalarReduction, SeparateWeights, Trajectory, find_plateaus, gradient_flow
from ...numerics.reductions.curve import CurvePrediction, predict_curve
from ..claims import formulas
from ..experiments.staircase import DEFAULT, SMALL, flow, plateaus, trained_loss, trained_plateaus, trained_together, training
from .gallery import Drawing, canvas, figure, listed, theory_levels
from .style import BLUES, LOSS, SERIES, TIME, Theme, diverging


@figure("staircase")
def staircase(theme: Theme) -> Drawing:
    """Separate attention: the loss levels of theory over gradient flow over SGD."""
    run, levels = training(), formulas.plateau_losses(DEFAULT.task)
    expected, found = plateaus(flow()), trained_plateaus()
    picture, axes = canvas(theme, 6.8, 3.7)
    times = np.linspace(0, DEFAULT.duration, 3000)
    theory_levels(axes, levels, theme, label="theory: loss at the saddles")
    axes.plot(run.times, trained_loss(), color=theme.trained, lw=4.5, zorder=2, label="PyTorch, SGD on fresh sequences")
    axes.plot(times, flow().loss_at(times), color=theme.ink, lw=1.3, zorder=3, label="gradient flow, same initial weights")
    axes.set(xlabel=TIME, ylabel=LOSS, xlim=(0, DEFAULT.duration), ylim=(0, 1.06))
    handles, labels = axes.get_legend_handles_labels()
    order = [0, 2, 1]  # theory, flow, training
    axes.legend([handles[i] for i in order], [labels[i] for i in order], loc="upper right", bbox_to_anchor=(0.99, 0.93))
    drops = np.abs(found.drops / expected.drops - 1)
    heights = np.abs(found.levels / levels - 1)
    caption = (
        f"Linear attention with separate keys and queries (D = 4, N = {DEFAULT.context_length}, H = {DEFAULT.heads}, "
        f"R = {DEFAULT.rank}, eigenvalues {listed(DEFAULT.eigenvalues, 'g')}, initial scale {DEFAULT.scale}).\n"
        f"Theory, equation (24): {listed(levels)}.\n"
        f"SGD (steps of {DEFAULT.learning_rate} on {DEFAULT.batch_size} fresh sequences each), plateau losses: "
        f"{listed(found.levels)}; at most {heights.max():.2%} from theory.\n"
        f"Drop times t/tau of SGD: {listed(found.drops, '.0f')}; of the flow: "
        f"{listed(expected.drops, '.0f')}; apart by {listed(drops, '.1%')}."
    )
    return Drawing(picture, caption)


@figure("3a")
def six_starts(theme: Theme) -> Drawing:
    """Six initial weights: trained networks, their flows, and the levels of theory."""
    setting, seeds = replace(DEFAULT, scale=0.3, duration=2000.0), tuple(range(6))
    run = trained_together(setting, seeds)
    losses, levels = run.population_loss(flow().objective), formulas.plateau_losses(setting.task)
    picture, axes = canvas(theme, 6.8, 3.7)
    theory_levels(axes, levels, theme, label="theory: loss at the saddles")
    times = np.linspace(0, setting.duration, 4000)
    ends, found = [], []
    for seed, color in zip(seeds, SERIES, strict=False):
        run_flow = flow(replace(setting, seed=seed))
        axes.plot(run.times, losses[:, seed], color=color, lw=3.2, alpha=0.75, label="PyTorch, SGD" if seed == 0 else None)
        label = "gradient flow, same start" if seed == 0 else None
        axes.plot(times, run_flow.loss_at(times), color=theme.ink, lw=0.9, label=label)
        ends.append(losses[-10:, seed].mean() / run_flow.loss[-1] - 1)
        found.append(len(find_plateaus(run.times, losses[:, seed]).drops))
    axes.set(xlabel=TIME, ylabel=LOSS, xlim=(0, setting.duration), ylim=(0, 1.06))
    axes.legend(loc="upper right", bbox_to_anchor=(0.99, 0.95))
    caption = (
        f"Separate attention of rank one from six initial weights (seeds 0 to 5, initial scale {setting.scale}), trained "
        f"together on shared mini-batches of {setting.batch_size} sequences; D = 4, N = 31, H = 5.\n"
        f"Theory, equation (24): {listed(levels)}.\n"
        f"Drops by start: {listed(found, 'd')}. Loss at the end, SGD against flow: {listed(ends, '.2%')}."
    )
    return Drawing(picture, caption)


@figure("3b")
def value_weights(theme: Theme) -> Drawing:
    """The value weights of a trained network over the scalar equation (26), shifted to agree where it is half grown."""
    run, task = training(), DEFAULT.task
    v = np.abs(run.states["v"])
    learned = np.argsort(-v[-1])[:4]
    order = sorted(learned, key=lambda head: int(np.argmax(v[:, head] > v[-1, head] / 2)))
    picture, axes = canvas(theme, 6.8, 3.4)
    waiting = [head for head in range(v.shape[1]) if head not in learned]
    for head in waiting:
        axes.plot(run.times, v[:, head], color=theme.faint, lw=1.5, label="waiting head, SGD")
    errors = []
    for d, (head, color) in enumerate(zip(order, BLUES, strict=False)):
        reduction = ScalarReduction.of(task, d)
        half = reduction.fixed_point / 2
        start = 1e-2 * reduction.fixed_point
        middle = float(np.interp(half, np.maximum.accumulate(v[:, head]), run.times))
        shift = middle - float(reduction.time(half, start))
        times = np.linspace(max(shift, 0), DEFAULT.duration, 2000)
        curve = np.array([reduction.value(t - shift, start) for t in times])
        axes.plot(run.times, v[:, head], color=color, lw=3.6, alpha=0.8, label=rf"$v_{{{d + 1}}}$, SGD")
        axes.plot(times, curve, color=theme.theory, lw=1.3, ls=(0, (4, 2)), label="equation (26)" if d == 0 else None)
        errors.append(abs(v[-1, head] / reduction.fixed_point - 1))
    axes.set(xlabel=TIME, ylabel=r"value weight $|v_i|$", xlim=(0, DEFAULT.duration), ylim=(0, None))
    handles, labels = axes.get_legend_handles_labels()
    last = labels.index("equation (26)")
    order = [*(i for i in range(1, len(labels)) if i != last), 0, last]
    axes.legend([handles[i] for i in order], [labels[i] for i in order], loc="center left", bbox_to_anchor=(1.0, 0.5))
    caption = (
        "Value weights of the network of the staircase, and the solution of the scalar equation (26) for each component, "
        "shifted in time to agree where the head is half grown.\n"
        f"Learned weights against (lambda_d/a_d)^(1/3), relative difference: {listed(errors, '.2%')}."
    )
    return Drawing(picture, caption)


@figure("3c")
def key_weights(theme: Theme) -> Drawing:
    """The keys on each plateau of a network trained on tilted tokens, beside the eigenvectors of their covariance."""
    setting = replace(DEFAULT, tilt_seed=0)
    run, found, task = training(setting), trained_plateaus(setting), setting.task
    E = task.eigenvectors.T
    k, v = run.states["k"][:, :, 0], run.states["v"]
    final = [int(np.argmax(np.abs(k[-1] * v[-1][:, None] @ e))) for e in E]
    order = [*final, *(head for head in range(setting.heads) if head not in final)]
    signs = np.array([np.sign(k[-1, head] @ E[d]) if d < 4 else 1.0 for d, head in enumerate(order)])
    picture, axes = canvas(theme, 7.6, 2.5, ncols=len(found.levels) + 1, width_ratios=[1] * len(found.levels) + [1])
    limit = np.abs(k[-1]).max()
    cosines = []
    for m in range(len(found.levels)):
        index = int(np.searchsorted(run.times, (found.starts[m] + found.ends[m]) / 2))
        keys = k[index, order] * signs[:, None]
        axes[m].imshow(keys, cmap=diverging(theme), vmin=-limit, vmax=limit)
        axes[m].set_title(rf"on $\mathcal{{M}}_{m}$")
        if m:
            cosines.append(abs(keys[m - 1] @ E[m - 1]) / np.linalg.norm(keys[m - 1]))
    axes[-1].imshow(np.vstack([E, np.full((1, 4), np.nan)]), cmap=diverging(theme), vmin=-1, vmax=1)
    axes[-1].set_xlabel("eigenvectors", color=theme.theory)
    for m, panel in enumerate(axes):
        panel.set_xticks([])
        labels = [rf"$e_{d + 1}^\top$" for d in range(4)] if panel is axes[-1] else [rf"$k_{i + 1}^\top$" for i in range(5)]
        panel.set_yticks(range(len(labels)), labels if m == 0 or panel is axes[-1] else [""] * len(labels))
        panel.tick_params(length=0)
        panel.spines[:].set(visible=panel is not axes[-1], color=theme.faint, linewidth=0.6)
    picture.colorbar(axes[0].images[0], ax=list(axes), shrink=0.75, pad=0.02, label="weight")
    caption = (
        "Key weights of trained separate attention, one row a head, in the middle of each plateau; tokens with tilted covariance, whose "
        f"eigenvectors are the rows of ({ascii_lowercase[len(found.levels)]}). Heads are ordered, and signs chosen, by what they learn.\n"
        f"Cosine of the newly aligned key with its eigenvector, plateau by plateau: {listed(cosines)}."
    )
    return Drawing(picture, caption)


TASK = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)
HEADS, SCALE, SEEDS = 5, 1e-2, (0, 1, 2)
MEASURED = 20  # seeds behind the errors in the caption


def predicted_and_flow(rank: int, scale: float, seed: int) -> tuple[CurvePrediction, Trajectory]:
    """The prediction from one random start, and the flow from the same weights."""
    weights = SeparateWeights.initialize(TASK, heads=HEADS, rank=rank, scale=scale, rng=np.random.default_rng(seed))
    prediction = predict_curve(TASK, weights)
    until = float(prediction.drops.max()) * 1.15 + 300
    return prediction, gradient_flow(QuadraticLoss.population(TASK), weights, t_end=until)


def drop_times(flow: Trajectory) -> np.ndarray:
    """The time at which each component B_dd reaches half of its final value."""
    components = np.diagonal(flow.effective_maps, axis1=1, axis2=2)
    times = []
    for d, half in enumerate(TASK.eigenvalues / TASK.second_moment_eigenvalues / 2):
        after = int(np.argmax(components[:, d] > half))
        left, right = flow.times[after - 1 : after + 1]
        times.append(brentq(lambda t, d=d, half=half: flow.effective_map_at(t)[d, d] - half, left, right))
    return np.array(times)


def median_errors(rank: int, scale: float, seeds: int) -> np.ndarray:
    """The median over seeds of each drop time's relative error."""
    errors = []
    for seed in range(seeds):
        prediction, flow = predicted_and_flow(rank, scale, seed)
        order = np.argsort([drop.component for drop in prediction.steps])
        errors.append(np.abs(prediction.drops[order] / drop_times(flow) - 1))
    return np.median(errors, axis=0)


@figure("prediction")
def prediction(theme: Theme) -> Drawing:
    """Predicted loss curves over gradient flow, for heads of rank one and of rank two."""
    picture, panels = canvas(theme, 7.6, 3.7, ncols=2, sharey=True)
    for rank, axes in zip((1, 2), panels, strict=True):
        for seed, color in zip(SEEDS, SERIES, strict=False):
            predicted, flow = predicted_and_flow(rank, SCALE, seed)
            times = np.geomspace(300, flow.times[-1], 6000)
            label = "gradient flow, three random starts" if seed == 0 else None
            axes.plot(times, flow.loss_at(times), color=color, lw=4.0, alpha=0.45, label=label)
            label = "predicted from the initial weights" if seed == 0 else None
            axes.plot(times, predicted.loss(times), color=theme.ink, lw=1.0, label=label)
        axes.set(xlabel=TIME, xscale="log", ylim=(0, 1.06), title=f"heads of rank {rank}")
    panels[0].set(ylabel=LOSS)
    picture.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    lines = [
        f"Separate attention (D = 4, N = 31, H = {HEADS}, eigenvalues {listed(TASK.eigenvalues, 'g')}), initial weights by (36) at "
        f"scale {SCALE:g}. Predicted by the quadrature of the waiting heads and the scalar flow (26), for rank two by the "
        "aligned flow of the head that escaped; the full system is not integrated."
    ]
    for rank in (1, 2):
        for scale in (1e-2, 1e-3):
            errors = listed(median_errors(rank, scale, MEASURED), ".4%")
            lines.append(f"Rank {rank}, scale {scale:g}, {MEASURED} seeds: median relative error of the four drop times {errors}.")
    return Drawing(picture, "\n".join(lines))


FRAMES = 64


def frame_times(run: Trajectory, count: int) -> np.ndarray:
    """Times of the frames: half of them spread over time, half over the fall of the loss, so that drops are seen."""
    time, loss = run.times / run.times[-1], run.loss
    progress = (time + (loss[0] - loss) / (loss[0] - loss[-1])) / 2
    return np.interp(np.linspace(0, 1, count), progress, run.times)


@figure("weights")
def weights(theme: Theme) -> Drawing:
    """The loss with the current time marked; value, key and query weights of each head; the effective map."""
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
    scales = {"keys": largest, "queries": largest, "map": np.abs(run.effective_maps[-1]).max()}
    for axes, (name, scale) in zip(panels[1:], scales.items(), strict=True):
        size = (4, 4) if name == "map" else (setting.heads, 4)
        shown[name] = axes.imshow(np.zeros(size), cmap=diverging(theme), vmin=-scale, vmax=scale)
        axes.set(xticks=range(4), xticklabels=range(1, 5), yticks=range(size[0]), yticklabels=range(1, size[0] + 1))
        axes.tick_params(length=0)
    panels[1].set(title=r"keys $k_i$", ylabel="head", xlabel="eigenvector")
    panels[2].set(title=r"queries $q_i$", xlabel="eigenvector")
    panels[3].set(title=r"$B=\sum_i v_ik_iq_i^\top$", xlabel="eigenvector")
    at = frame_times(run, FRAMES)

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
