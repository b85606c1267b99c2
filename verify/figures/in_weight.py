"""Figures of learning in weight beside learning in context: the paper's figures 5 and 10."""

from functools import cache

import numpy as np
import torch

from ...numerics.dynamics.flow import gradient_flow
from ...numerics.parametrizations.full_attention import FullMergedWeights
from ...numerics.tasks.mixed_task import MixedTask
from ...numerics.tasks.regression import RegressionTask
from ..experiments.in_weight import values
from ..training.descent import fresh_batches, train
from ..training.modules import MergedAttention
from .gallery import Drawing, canvas, figure, listed
from .style import SERIES, TIME, Theme

TASK = RegressionTask(eigenvalues=[0.25] * 4, context_length=31)
FIXED = torch.tensor([[1.0, -0.8, 0.5, -0.6]], dtype=torch.float64)  # the task vector that can be learned in weight
PORTIONS = (0.0, 0.2, 0.4, 0.6, 0.8)
HEADS, SCALE, DURATION, STEP = 8, 1e-3, 160.0, 0.1
KINDS = ("training", "in weight", "in context")


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _problem(portion: float) -> MixedTask:
    return MixedTask(TASK, 1 - portion, FIXED.numpy())


@cache
def curves(portion: float) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Losses of each kind: SGD on fresh sequences, as ``kind``, and the flow on the theory's loss, as ``kind, flow``.

    In-weight tests have the fixed task at the query and noise for labels in the context, as in the paper's official code.
    """
    start = FullMergedWeights.initialize(
        TASK, heads=HEADS, scale=SCALE, block_scale=SCALE, rng=np.random.default_rng(0)
    )
    D = TASK.dimension
    value, key_query = np.zeros((2, HEADS, D + 1, D + 1))
    value[:, -1], key_query[:, :, :-1] = start.value, start.key_query
    network = MergedAttention(value, key_query)
    source = fresh_batches(TASK, 512, _generator(1), fixed_tasks=FIXED, fixed_fraction=portion)
    run = train(network, source, steps=round(DURATION / (2 * STEP)), learning_rate=STEP, record_every=8)

    losses = _problem(portion).losses
    flow = gradient_flow(losses["training"], start, t_end=DURATION)
    times = np.linspace(0, DURATION, 400)
    maps = flow.effective_map_at(times)
    trained = np.einsum("tha,thbc->tabc", run.states["value"][:, :, -1], run.states["key_query"][..., :-1])
    found = {}
    for kind, name in zip(KINDS, ("training", "memory", "in context"), strict=True):
        found[kind] = (run.times, values(losses[name], trained))
        found[f"{kind}, flow"] = (times, values(losses[name], maps))
    return found


def least_in_context() -> float:
    """``lambda D (1 + D)/(N + 1 + D)``, the loss (48) of white tokens at the end."""
    D, N = TASK.dimension, TASK.context_length
    return TASK.eigenvalues[0] * D * (1 + D) / (N + 1 + D)


def _caption(portions: tuple[float, ...]) -> str:
    ends = [f"{portion:.0%}: {listed((curves(portion)[kind][1][-1] for kind in KINDS), '.3f')}" for portion in portions]
    apart = max(
        np.abs(np.interp(curves(p)["training"][0], *curves(p)["training, flow"]) - curves(p)["training"][1]).max()
        for p in portions
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
        left.plot(
            *curves(0.6)[kind], color=color, lw=2.6, alpha=0.8, label=kind if kind == "training" else f"{kind}, test"
        )
        left.plot(*curves(0.6)[f"{kind}, flow"], color=theme.ink, lw=0.8)
    for portion, color in zip(PORTIONS, SERIES, strict=False):
        right.plot(*curves(portion)["training"], color=color, lw=2.6, alpha=0.8, label=f"{portion:.0%}")
        right.plot(*curves(portion)["training, flow"], color=theme.ink, lw=0.8)
    left.set(ylabel="loss", title="60 % of task vectors fixed")
    right.set(title="training loss by portion fixed")
    for axes in (left, right):
        _dashed(axes, theme)
        axes.set(xlabel=TIME, xlim=(0, DURATION), ylim=(0, 1.25))
        axes.legend(loc="upper right")
    return Drawing(picture, _caption(PORTIONS))


@figure("10")
def test_losses_by_portion(theme: Theme) -> Drawing:
    """Training and both test losses, a panel for each portion."""
    picture, panels = canvas(theme, 8.6, 2.7, ncols=len(PORTIONS), sharey=True)
    for portion, axes in zip(PORTIONS, panels, strict=True):
        for kind, color in zip(KINDS, SERIES, strict=False):
            axes.plot(*curves(portion)[kind], color=color, lw=2.2, alpha=0.8, label=kind)
            axes.plot(*curves(portion)[f"{kind}, flow"], color=theme.ink, lw=0.7)
        _dashed(axes, theme)
        axes.set(title=f"{portion:.0%} fixed", xlabel=r"$t/\tau$", xlim=(0, DURATION), ylim=(0, 1.25))
    panels[0].set_ylabel("loss")
    panels[0].legend(loc="upper right", fontsize=7.5)
    return Drawing(picture, _caption(PORTIONS))
