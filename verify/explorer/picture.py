"""The explorer's picture: loss, value weights, what is learned, and the effective map at one moment."""

import re
from typing import Any

from matplotlib.figure import Figure

from ...numerics.dynamics.solver import FlowError
from ..figures.gallery import theory_levels
from ..figures.style import LIGHT, LOSS, SERIES, TIME, Theme, diverging, themed
from .run import SLIDERS, Exploration, Run, explored

# Where a legend hides no curve.
ABOVE = {"loc": "lower left", "bbox_to_anchor": (-0.02, 1.0), "handlelength": 1.2, "columnspacing": 1.2, "borderaxespad": 0.2}


def panels(run: Run, moment: float = 1.0, theme: Theme = LIGHT, *, narrow: bool = False) -> Figure:
    """The picture of ``run``, with the effective map at the fraction ``moment`` of its time; ``narrow``: in one column."""
    if not 0 <= moment <= 1:
        raise ValueError(f"moment must lie between 0 and 1, got {moment!r}")
    with themed(theme):
        picture = Figure(figsize=(4.8, 10.5) if narrow else (9.0, 6.0), layout="constrained", facecolor=theme.paper)
        if narrow:
            loss, values, shares, maps = picture.subplots(4, 1)
        else:
            (loss, maps), (values, shares) = picture.subplots(2, 2, width_ratios=[1.6, 1])
        _loss(loss, run, moment * run.end, theme)
        _values(values, run, moment * run.end, theme)
        _shares(shares, run, moment * run.end, theme)
        _map(maps, run, moment * run.end, theme)
    return picture


def panels_of(*, moment: float, merged: bool = False, **values: Any) -> Figure | str:
    """The picture for values of the sliders, by their names in requests (l1, l2, ... are eigenvalues), or the error message."""
    values["eigenvalues"] = tuple(values.pop(name) for name in sorted(values) if re.fullmatch("l[0-9]", name))
    names = {slider.key: name for name, slider in SLIDERS.items()}
    try:
        setting = Exploration(merged=merged, **{names.get(key, key): value for key, value in values.items()})
        return panels(explored(setting), moment)
    except (ValueError, FlowError) as problem:
        return str(problem)


def _loss(axes, run: Run, now: float, theme: Theme) -> None:
    names = len(run.levels) <= 5 and not run.setting.merged
    theory_levels(axes, run.levels, theme, names=names, label="levels of theory")
    axes.plot(run.times, run.trajectory.loss_at(run.times), color=theme.ink, lw=2.2, label="gradient flow")
    if run.prediction is not None:
        axes.plot(run.times, run.prediction.loss(run.times), color=SERIES[1], lw=1.1, label="from initial weights")
        for earliest, latest in run.prediction.drop_bounds:
            axes.axvspan(earliest, min(latest, run.end), color=SERIES[1], alpha=0.12, lw=0, zorder=0)
    for level, start, end in zip(run.plateaus.levels, run.plateaus.starts, run.plateaus.ends, strict=True):
        axes.plot([start, end], [level, level], color=theme.trained, lw=7, alpha=0.35, solid_capstyle="butt", zorder=0)
    axes.axvline(now, color=theme.faint, lw=1)
    axes.set(ylabel=LOSS, xlim=(0, run.end), ylim=(0, 1.08 * max(run.levels)))
    axes.legend(**ABOVE, ncols=3)


def _values(axes, run: Run, now: float, theme: Theme) -> None:
    for head in range(run.values.shape[1]):
        axes.plot(run.times, run.values[:, head], color=SERIES[head % len(SERIES)], lw=1.8)
    axes.axvline(now, color=theme.faint, lw=1)
    axes.set(xlabel=TIME, ylabel="value weights $|v_i|$", xlim=(0, run.end), ylim=(0, None))


def _shares(axes, run: Run, now: float, theme: Theme) -> None:
    share = run.shares(run.times)
    for d in range(share.shape[1]):
        dashes = "--" if d >= len(SERIES) else "-"
        axes.plot(run.times, share[:, d, d], dashes, color=SERIES[d % len(SERIES)], lw=1.8, label=rf"$\mathbf{{e}}_{d + 1}$")
    axes.axvline(now, color=theme.faint, lw=1)
    axes.set(xlabel=TIME, ylabel="share learned", xlim=(0, run.end), ylim=(-0.05, 1.12))
    axes.locator_params(axis="x", nbins=5)
    axes.legend(**ABOVE, ncols=4)


def _map(axes, run: Run, now: float, theme: Theme) -> None:
    image = axes.imshow(run.shares(now), cmap=diverging(theme), vmin=-1, vmax=1)
    axes.set_title(rf"effective map at $t/\tau = {now:.0f}$", color=theme.ink)
    names = [rf"$\mathbf{{e}}_{d + 1}$" for d in range(run.task.dimension)]
    axes.set_xticks(range(len(names)), names)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(length=0)
    axes.spines[:].set(visible=True, color=theme.faint)
    axes.figure.colorbar(image, ax=axes, shrink=0.85, label="over its final value")
