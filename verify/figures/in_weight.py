"""Figures of learning in weight beside learning in context: 5 and 10, the curves from theory, and zero blocks moved by finite sets."""

from functools import cache

import numpy as np
import torch

from ...numerics.compilation.equations import compiled
from ...numerics.dynamics.flow import gradient_flow
from ...numerics.parametrizations.full_attention import FullMergedWeights
from ...numerics.tasks.mixed_task import MixedTask
from ...numerics.tasks.regression import RegressionTask
from ...theory.results.in_weight.idle_heads import COLUMN_SIZE, MAP
from ..claims.in_weight.five_weights import five_weights
from ..claims.in_weight.idle_heads import ended, on_set, sizes
from ..claims.in_weight.ordinary_start import grown, white
from ..claims.in_weight.zero_blocks import LEAK_SIZES, leaked
from ..experiments.draws import generator
from ..experiments.in_weight import InWeightSetting, descended, flowing
from ..training.descent import fresh_batches, train
from ..training.modules import MergedAttention
from .gallery import Drawing, canvas, figure, listed
from .style import SERIES, TIME, Theme

TASK = RegressionTask(eigenvalues=[0.25] * 4, context_length=31)
FIXED = torch.tensor([[1.0, -0.8, 0.5, -0.6]], dtype=torch.float64)  # the task vector that can be learned in weight
FIXED_PORTIONS = (0.0, 0.2, 0.4, 0.6, 0.8)
HEADS, SCALE, DURATION, STEP = 8, 1e-3, 160.0, 0.1
KINDS = ("training", "in weight", "in context")


@cache
def curves(portion: float) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Losses of each kind: SGD on fresh sequences, as ``kind``, and the flow on the theory's loss, as ``kind, flow``.

    In-weight tests have the fixed task at the query and noise for labels in the context, as in the paper's official code.
    """
    start = FullMergedWeights.initialize(TASK, heads=HEADS, scale=SCALE, block_scale=SCALE, rng=np.random.default_rng(0))
    D = TASK.dimension
    value, key_query = np.zeros((2, HEADS, D + 1, D + 1))
    value[:, -1], key_query[:, :, :-1] = start.value, start.key_query
    network = MergedAttention(value, key_query)
    source = fresh_batches(TASK, 512, torch.Generator().manual_seed(0), fixed_tasks=FIXED, fixed_fraction=portion)
    run = train(network, source, steps=round(DURATION / (2 * STEP)), learning_rate=STEP, record_every=8)

    losses = MixedTask(TASK, 1 - portion, FIXED.numpy()).losses
    flow = gradient_flow(losses["training"], start, t_end=DURATION)
    times = np.linspace(0, DURATION, 400)
    maps = flow.effective_map_at(times)
    trained = np.einsum("tha,thbc->tabc", run.states["value"][:, :, -1], run.states["key_query"][..., :-1])
    found = {}
    for kind, name in zip(KINDS, ("training", "memory", "in context"), strict=True):
        found[kind] = (run.times, losses[name].values(trained))
        found[f"{kind}, flow"] = (times, losses[name].values(maps))
    return found


def least_in_context() -> float:
    """``lambda D (1 + D)/(N + 1 + D)``, the loss (48) of white tokens at the end."""
    D, N = TASK.dimension, TASK.context_length
    return TASK.eigenvalues[0] * D * (1 + D) / (N + 1 + D)


def _caption(portions: tuple[float, ...]) -> str:
    ends = [f"{portion:.0%}: {listed((curves(portion)[kind][1][-1] for kind in KINDS), '.3f')}" for portion in portions]
    apart = max(
        np.abs(np.interp(curves(p)["training"][0], *curves(p)["training, flow"]) - curves(p)["training"][1]).max() for p in portions
    )
    return (
        f"Merged attention with all its blocks, a portion of the task vectors fixed; D = 4, N = 31, H = {HEADS}, "
        "Lambda = I/4. Solid: PyTorch, SGD on fresh sequences; thin: gradient flow on the population loss that the theory "
        "derives (V6), from the same initial weights. "
        f"Dashed: the least loss in context without fixed tasks, {least_in_context():.4f}.\n"
        f"Loss at the end (training, in weight, in context): {'; '.join(ends)}. "
        f"Largest difference of training loss between SGD and flow: {apart:.3f}."
    )


def _dashed(axes, theme: Theme) -> None:
    axes.axhline(least_in_context(), color=theme.theory, lw=1, ls=(0, (4, 3)), zorder=1)


@figure("5")
def in_weight_then_in_context(theme: Theme) -> Drawing:
    """60 % fixed task vectors: learning in weight comes first; and the training loss for other portions."""
    picture, (left, right) = canvas(theme, 8.0, 3.2, ncols=2, sharey=True)
    for kind, color in zip(KINDS, SERIES, strict=False):
        left.plot(*curves(0.6)[kind], color=color, lw=2.6, alpha=0.8, label=kind if kind == "training" else f"{kind}, test")
        left.plot(*curves(0.6)[f"{kind}, flow"], color=theme.ink, lw=0.8)
    for portion, color in zip(FIXED_PORTIONS, SERIES, strict=False):
        right.plot(*curves(portion)["training"], color=color, lw=2.6, alpha=0.8, label=f"{portion:.0%}")
        right.plot(*curves(portion)["training, flow"], color=theme.ink, lw=0.8)
    left.set(ylabel="loss", title="60 % of task vectors fixed")
    right.set(title="training loss by portion fixed")
    for axes in (left, right):
        _dashed(axes, theme)
        axes.set(xlabel=TIME, xlim=(0, DURATION), ylim=(0, 1.25))
        axes.legend(loc="upper right")
    return Drawing(picture, _caption(FIXED_PORTIONS))


@figure("10")
def test_losses_by_portion(theme: Theme) -> Drawing:
    """Training and both test losses, a panel for each portion."""
    picture, panels = canvas(theme, 8.6, 2.7, ncols=len(FIXED_PORTIONS), sharey=True)
    for portion, axes in zip(FIXED_PORTIONS, panels, strict=True):
        for kind, color in zip(KINDS, SERIES, strict=False):
            axes.plot(*curves(portion)[kind], color=color, lw=2.2, alpha=0.8, label=kind)
            axes.plot(*curves(portion)[f"{kind}, flow"], color=theme.ink, lw=0.7)
        _dashed(axes, theme)
        axes.set(title=f"{portion:.0%} fixed", xlabel=r"$t/\tau$", xlim=(0, DURATION), ylim=(0, 1.25))
    panels[0].set_ylabel("loss")
    panels[0].legend(loc="upper right", fontsize=7.5)
    return Drawing(picture, _caption(FIXED_PORTIONS))


RANDOM_PORTIONS = (0.2, 0.6, 1.0)
LABELS = {"training": "training", "in context": "in-context test", "in weight": "in-weight test", "memory": "in-weight, noise in context"}


@figure("in-weight")
def in_weight(theme: Theme) -> Drawing:
    """Four losses for three portions of random tasks: the population flow over descent on training sets."""
    picture, panels = canvas(theme, 9.2, 3.3, ncols=len(RANDOM_PORTIONS), sharey=True)
    differences, reduced, fewer = [], [], {"seeds": 2, "sequences": 25_000} if theme.quick else {}
    for portion, axes in zip(RANDOM_PORTIONS, panels, strict=True):
        setting = InWeightSetting(portion, **fewer)
        runs, expected, five = descended(setting), flowing(setting), five_weights(setting)
        for (kind, label), color in zip(LABELS.items(), SERIES, strict=False):
            found, theory = runs[kind].mean(axis=0), expected[kind].mean(axis=0)
            axes.plot(setting.times, found, color=color, lw=4.0, alpha=0.55, label=label)
            axes.plot(setting.times, theory, color=theme.ink, lw=0.9, label="theory: flow" if kind == "memory" else None)
            differences.append((portion, label, float(np.abs(found / theory - 1).max())))
            reduced.append(float(np.abs(found / five[kind].mean(axis=0) - 1).max()))
            label = "theory: five equations" if kind == "memory" else None
            axes.plot(setting.times, five[kind].mean(axis=0), color=theme.theory, lw=1.6, ls=(0, (1, 3)), label=label)
        axes.set(xlabel=TIME, xlim=(0, setting.duration), ylim=(0, 1.25), title=f"{1 - portion:.0%} of tasks fixed")
    panels[0].set_ylabel("loss")
    picture.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=8)
    setting = InWeightSetting(RANDOM_PORTIONS[0], **fewer)
    lines = [
        f"{1 - p:.0%} fixed: " + ", ".join(f"{label} {difference:.2%}" for q, label, difference in differences if q == p)
        for p in RANDOM_PORTIONS
    ]
    caption = (
        f"Merged attention with all its blocks; D = {setting.dimension}, N = {setting.context_length}, H = {setting.heads}, "
        f"Lambda = I/{setting.dimension}, all weights initially by (34) with scale {setting.scale}. Coloured: full-batch "
        f"descent on {setting.sequences:,} sequences, mean of {setting.seeds} seeds, each with its own set, weights and fixed "
        "task vector. Black: gradient flow on the population loss that the theory derives, from the same weights; nothing is "
        "fitted.\nLargest relative difference of the means at any time: " + "; ".join(lines) + ".\n"
        f"Dotted: five ordinary differential equations (V6-five) for all {setting.heads} heads, at most {max(reduced):.2%} from training."
    )
    return Drawing(picture, caption)


WHITE = white(2)
ORDINARY = {"heads": 2, "scale": 0.03, "blocks": 0.03, "end": 2e5}
SETS = 10.0 ** np.arange(3, 9)


def reached(seed: int, P: float) -> float:
    """m_P of (V6-idle) along the row that the population leaves, from what moves a matrix beside it and the active head."""
    weights, exact, found = ended(WHITE, seed, np.inf, **ORDINARY), on_set(WHITE, seed, np.inf), on_set(WHITE, seed, P)
    active, D = FullMergedWeights(weights.value[:1], weights.key_query[:1]), WHITE.dimension
    row = np.append(weights.value[1, :-1], 0) / np.linalg.norm(weights.value[1, :-1])
    matrices = np.eye((D + 1) * D)[: D * D].reshape(-1, D + 1, D)
    moves = np.vstack([[np.multiply.outer(row, one).ravel() for one in matrices], FullMergedWeights.jacobian(*active.arrays)])
    C, force = exact.matrix, found.force(weights.effective_map()) - exact.force(weights.effective_map())
    return float(np.linalg.norm(np.linalg.lstsq(moves @ C @ moves.T, moves @ force.ravel(), rcond=1e-8)[0][: D * D]))


@figure("zero-blocks")
def zero_blocks(theme: Theme) -> Drawing:
    """Zero blocks on P sequences: from zero, after the drop and at the end; and at the end from the scale of the main weights."""
    picture, (left, right) = canvas(theme, 8.6, 3.6, ncols=2)
    sizes_, slopes = np.array(LEAK_SIZES, dtype=float), []
    for column, (label, exponent) in enumerate((("after the drop", -1 / 2), ("at the end", -1 / 4))):
        norms, color = leaked()[:, :, column], SERIES[column]
        means = np.exp(np.log(norms).mean(axis=0))
        left.loglog(np.tile(sizes_, len(norms)), norms.ravel(), ".", color=color, alpha=0.35, ms=4)
        left.loglog(sizes_, means, "o", color=color, ms=6, label=label)
        middle = np.exp(np.log(means).mean() + exponent * (np.log(sizes_) - np.log(sizes_).mean()))
        left.loglog(sizes_, middle, color=theme.ink, lw=1.0, label="theory: slopes $-1/2$, $-1/4$" if column else None)
        slopes.append(np.polyfit(np.log(sizes_), np.log(means), 1)[0])
    seeds = range(3 if theme.quick else 9)
    found = np.array([[sizes(ended(WHITE, seed, P, **ORDINARY)) for P in SETS] for seed in seeds])
    starts = [FullMergedWeights.initialize(WHITE, heads=2, scale=0.03, block_scale=0.03, rng=generator(seed, 1)) for seed in seeds]
    columns = np.array([grown(WHITE, start) for start in starts])[:, None]
    maps = np.array([[reached(seed, P) for P in SETS] for seed in seeds])
    row, matrix = compiled("V6-idle", (COLUMN_SIZE, MAP), part=("row at rest", "matrix at rest"))(columns, maps)
    blocks = {r"rows $\boldsymbol{v}_j$": row, r"columns $\boldsymbol{u}_j$": columns + 0 * maps, r"matrices $\boldsymbol{U}_j$": matrix}
    for i, (label, theory) in enumerate(blocks.items()):
        right.loglog(np.tile(SETS, len(found)), found[:, :, i].ravel(), ".", color=SERIES[i], alpha=0.35, ms=4)
        right.loglog(SETS, np.median(found[:, :, i], axis=0), "o", color=SERIES[i], ms=6 if i else 10, label=label)
        right.loglog(SETS, np.median(theory, axis=0), color=theme.ink, lw=1.0, label="theory: no fit" if i == 2 else None)
    left.set(ylabel="norm of the zero blocks", title="from zero")
    right.set(ylabel="norm in the idle head, at the end", title=r"from $w_{\rm init}=0.03$, as all weights")
    for axes in (left, right):
        axes.set(xlabel="sequences $P$ in the training set")
        axes.legend(loc="lower left", fontsize=8)
    caption = (
        "(a) The vector blocks of merged attention with four heads, zero at the start, on finite sets of random tasks (12 sets of each "
        f"size). Slope after the drop {slopes[0]:.3f}, predicted -1/2 (linear response to an error of P^(-1/2)); at the end "
        f"{slopes[1]:.3f}, predicted -1/4 (idle heads share a map of order P^(-1/2) between their two weights, V6-idle; with one head, or "
        "one-dimensional tokens, nothing would grow after the drop).\n"
        f"(b) The idle one of two heads, all weights initially at 0.03, white tokens with D = 2, N = 6; {len(found)} sets of each size, "
        "from 16,000 sequences on a set resized; large dots: medians. Lines: the column that the start makes (V6-ordinary), and row and "
        "matrix from it and the force on each set (V6-idle), medians; the row points as in the population, while smaller sets turn it."
    )
    return Drawing(picture, caption)
