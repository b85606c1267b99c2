"""The figure of merged attention's drop for any covariance (V7): when it comes, and what it learns beyond the ray of Lambda^2."""

import numpy as np

from ...numerics.reductions.merged_curve import balanced_curve
from ...numerics.reductions.merged_drop import MergedDrop
from ...numerics.tasks.losses import QuadraticLoss
from ...numerics.tasks.regression import RegressionTask
from ..claims.merged.drop import START, ray
from .gallery import Drawing, canvas, figure
from .style import BLUE, GREEN, ORANGE, SERIES, Theme

SHOWN = {"white": [0.5, 0.5, 0.5], "3 : 2 : 1": [0.6, 0.4, 0.2], "10 : 1": [1.0, 0.1]}


@figure("merged-drop")
def merged_drop(theme: Theme) -> Drawing:
    """The fall of the loss for three spectra, the time of half the drop between its bounds, and the share of the ray."""
    picture, (left, middle, right) = canvas(theme, 10.0, 3.4, ncols=3)
    lines = _falls(left, theme)
    inside, widest = _times(middle, theme)
    least = _shares(right, theme)
    caption = (
        "Merged attention, N = 31, balanced flow from s_0 = 0.001 gamma/(2k) on the ray of Lambda^2. Left: the fall of the loss as a share "
        "of the whole, against the time since the middle of the sigmoid with the mean kappa; dotted: what each direction learns to leading "
        "order (V7-turn); dashed: phi, what the ray holds (V7-share), where the drop rests if the spectrum is wide. "
        f"{' '.join(lines)} Middle: the time to half of the drop, for {inside} random spectra of two to six directions, between its "
        f"bounds (V7-half), which are at most {widest:.3f} tau/gamma apart, against the time at the latest. Right: phi of 2,000 random "
        "spectra over the ratio of the largest kappa_d = lambda_d a_d to the smallest, and Kantorovich's bound; nearest to it by the "
        f"factor {least:.2f}."
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
            f"{name}: phi = {drop.share:.3f}, learned by 3/gamma {float(drop.learned(3.0)):.3f}, "
            f"measured {float(fall(np.array(3.0))):.3f}."
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
    tasks, widest = _spectra(40, 71), 0.0
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
    axes.set(
        xlabel=r"$\kappa_{\max}/\kappa_{\min}$",
        ylabel=r"half of the drop, $\gamma\,(t_{1/2} - t_{\rm latest})/\tau$",
        xscale="log",
        ylim=(-0.04, 0.005),
    )
    axes.legend(loc="lower left", ncols=2)
    return len(tasks), widest


def _shares(axes, theme: Theme) -> float:
    drops = [MergedDrop.of(task) for task in _spectra(2000, 72)]
    spreads, shares = np.array([drop.spread for drop in drops]), np.array([drop.share for drop in drops])
    bounds = np.array([drop.least_share for drop in drops])
    order = np.argsort(spreads)
    axes.plot(spreads, shares, ".", color=BLUE, ms=2, alpha=0.5, label="random spectra")
    axes.plot(spreads[order], bounds[order], color=theme.theory, lw=1.4, label="bound")
    axes.set(xlabel=r"$\kappa_{\max}/\kappa_{\min}$", ylabel=r"share $\phi$ of the ray", xscale="log", ylim=(0, 1.04))
    axes.legend(loc=(0.42, 0.1))
    return float((shares / bounds)[spreads > 1.5].min())
