"""Figures of separate attention of higher rank: the paper's figures 4, 8 and 9."""

from dataclasses import replace

import numpy as np

from ...numerics import QuadraticLoss, find_plateaus, gradient_flow
from ..claims import formulas
from ..experiments.staircase import DEFAULT, Setting, flow
from .gallery import Drawing, canvas, figure, listed, theory_levels
from .style import BLUES, LOSS, SERIES, TIME, Theme

HARMONIC = tuple(1 / d / sum(1 / j for j in range(1, 9)) for d in range(1, 9))
EIGHT = Setting(eigenvalues=HARMONIC, heads=9, scale=0.05, seed=0, duration=2e5)


def _loss(setting: Setting, times: np.ndarray) -> np.ndarray:
    """The loss at ``times``. The flow stops within 0.1 % of its minimum; later values are constant.

    The flow is not kept: at rank 8 its dense output fills hundreds of megabytes.
    """
    least = 1.001 * formulas.plateau_losses(setting.task)[-1]
    loss = QuadraticLoss.population(setting.task)
    run = gradient_flow(loss, setting.weights, t_end=setting.duration, rtol=1e-6, stop_loss=least)
    return np.asarray(run.loss_at(np.minimum(times, run.times[-1])))


def _ranks(theme: Theme, ranks: tuple[int, ...]) -> Drawing:
    """Six flows, or in a hurry one, for each rank over the nine levels of theory, on a logarithmic axis that shows every drop."""
    levels = formulas.plateau_losses(EIGHT.task)
    picture, panels = canvas(theme, 8.4, 2.9, ncols=len(ranks), sharey=True)
    visited, seeds = [], 2 if theme.quick else 6
    for rank, axes in zip(ranks, panels, strict=True):
        theory_levels(axes, levels, theme, names=rank == ranks[-1])
        counts = np.zeros(9, dtype=int)
        for seed, color in zip(range(seeds), SERIES, strict=False):
            times = np.geomspace(30, EIGHT.duration, 1500)
            losses = _loss(replace(EIGHT, rank=rank, seed=seed), times)
            axes.plot(times, losses, color=color, lw=1.3)
            found = find_plateaus(times, losses)
            for level, duration, start in zip(found.levels, found.durations, found.starts, strict=True):
                counts[np.abs(levels - level).argmin()] += duration > start  # longer than all that came before it
        visited.append([m for m in range(8) if counts[m] >= 1])
        axes.set(xscale="log", xlabel=TIME, title=rf"$R = {rank}$", xlim=(30, EIGHT.duration), ylim=(0.15, 1.04))
    panels[0].set_ylabel(LOSS)
    lines = [f"R = {rank}: {', '.join(map(str, levels_seen)) or 'none'}" for rank, levels_seen in zip(ranks, visited, strict=True)]
    caption = (
        f"Loss of separate attention of rank R along gradient flow from {seeds} initial weights; dashed: equation (24) for "
        "m = 0 to 8. D = 8, N = 31, H = 9, trace 1, eigenvalues proportional to 1/d, initial scale 0.05.\n"
        f"Theory: {listed(levels)}.\n"
        f"Levels m at which some run stays longer than it took to get there: {'; '.join(lines)}. R divides m at long plateaus."
    )
    return Drawing(picture, caption)


@figure("4")
def ranks_1_2_4_8(theme: Theme) -> Drawing:
    """Ranks 1, 2, 4 and 8."""
    return _ranks(theme, (1, 2, 4, 8))


@figure("9")
def ranks_3_5_6_7(theme: Theme) -> Drawing:
    """Ranks 3, 5, 6 and 7."""
    return _ranks(theme, (3, 5, 6, 7))


@figure("8")
def values_by_rank(theme: Theme) -> Drawing:
    """Loss and value weights for ranks 2, 3 and 4: a new value weight grows when R divides m."""
    picture, panels = canvas(theme, 8.0, 4.4, nrows=2, ncols=3, sharex="col", sharey="row")
    levels, heads = formulas.plateau_losses(DEFAULT.task), []
    for column, rank in enumerate((2, 3, 4)):
        setting = replace(DEFAULT, rank=rank, scale=0.05, seed=0, duration=3e4)
        run = flow(setting)
        times = np.geomspace(30, setting.duration, 2000)
        above, below = panels[0, column], panels[1, column]
        theory_levels(above, levels, theme, names=column == 2)
        above.plot(times, run.loss_at(times), color=theme.ink)
        v = np.abs(np.stack([run.initial.split(state)[0] for state in run.states_at(times)]))
        for head, color in zip(np.argsort(-v[-1]), (*BLUES, theme.faint), strict=True):
            below.plot(times, v[:, head], color=color, lw=2)
        expected = _final_values(setting, rank)
        for value in expected:
            below.axhline(value, color=theme.theory, lw=1.0, ls=(0, (4, 3)), zorder=1)
        heads.append((rank, np.sort(v[-1])[::-1][: len(expected)], expected))
        above.set(title=rf"$R = {rank}$", xscale="log", xlim=(30, setting.duration), ylim=(0, 1.06))
        below.set(xlabel=TIME, ylim=(0, 2.75))
    panels[0, 0].set_ylabel(LOSS)
    panels[1, 0].set_ylabel(r"value weight $|v_i|$")
    lines = [f"R = {rank}: {listed(found, '.3f')} (theory {listed(expected, '.3f')})" for rank, found, expected in heads]
    caption = (
        "Loss (a, b, c) and value weights (d, e, f) of separate attention of rank R along gradient flow, D = 4, N = 31, H = 5. "
        "Dashed: equation (24); the value weight (sum of lambda_d/a_d over the components of a head)^(1/3).\n"
        f"Value weights at the end, largest first: {'; '.join(lines)}."
    )
    return Drawing(picture, caption)


def _final_values(setting: Setting, rank: int) -> np.ndarray:
    """``(sum lambda_d/a_d)^(1/3)`` over R consecutive components a head, as heads fill in order."""
    shares = formulas.learned_value_weights(setting.task) ** 3
    return np.sort(np.cbrt([shares[start : start + rank].sum() for start in range(0, len(shares), rank)]))[::-1]
