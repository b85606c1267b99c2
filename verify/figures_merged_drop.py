"""The figure of merged attention's drop for any covariance (V7): when it comes, and how much of the learning it is."""

import numpy as np

from ..numerics.balanced import balanced_curve
from ..numerics.losses import QuadraticLoss
from ..numerics.merged_drop import MergedDrop
from ..numerics.tasks import RegressionTask
from .claims_merged_drop import START, ray
from .figures import Drawing, canvas, figure
from .style import BLUE, GREEN, ORANGE, SERIES, Theme

SHOWN = {"white": [0.5, 0.5, 0.5], "3 : 2 : 1": [0.6, 0.4, 0.2], "10 : 1": [1.0, 0.1]}


@figure("merged-drop")
def merged_drop(theme: Theme) -> Drawing:
    """The fall of the loss for three spectra, the time of the drop between its bounds, and the share of one drop."""
    picture, (left, middle, right) = canvas(theme, 10.0, 3.4, ncols=3)
    lines = _falls(left, theme)
    inside, widest = _times(middle, theme)
    least = _shares(right, theme)
    caption = (
        "Merged attention, N = 31, balanced flow from s_0 = 0.001 s_1 on the ray of Lambda^2. Left: the fall of the loss as a share of "
        "the whole, against the time since the latest begin of the drop (V7-time) in units of 1/gamma; dashed: the share phi of one "
        "drop, where the flow rests if the spectrum is wide; from a narrow one it turns away sooner. "
        f"{' '.join(lines)} Middle: when the drop begins, for {inside} random spectra of two to six directions, between its "
        f"bounds, which are at most {widest:.3f} tau/gamma apart. Right: phi of 2,000 random spectra over the ratio of the largest "
        f"kappa_d = lambda_d a_d to the smallest, and Kantorovich's bound; nearest to it by the factor {least:.2f}."
    )
    return Drawing(picture, caption)


def _curve(task: RegressionTask, until: float):
    """The time at which the drop begins at the latest, and the fall of the loss at times counted from there in 1/gamma."""
    drop, loss = MergedDrop.of(task), QuadraticLoss.population(task)
    latest = drop.time_bounds(START * drop.begun)[1]
    curve = balanced_curve(task, START * drop.begun * ray(task), t_end=latest + until / drop.gamma)
    whole = loss.c - loss.value(np.linalg.solve(task.second_moment, task.covariance))
    return curve, lambda x: (loss.c - curve.loss(np.maximum(latest + x / drop.gamma, 0.0))) / whole


def _falls(axes, theme: Theme) -> list[str]:
    lines, times = [], np.linspace(-3, 12, 600)
    for (name, eigenvalues), color in zip(SHOWN.items(), (BLUE, ORANGE, GREEN), strict=True):
        task = RegressionTask(eigenvalues=eigenvalues, context_length=31)
        drop, (_, fall) = MergedDrop.of(task), _curve(task, 12.0)
        axes.plot(times, fall(times), color=color, label=name)
        axes.axhline(drop.share, color=color, lw=1, ls=(0, (4, 3)), zorder=0)
        lines.append(f"{name}: phi = {drop.share:.3f}, measured after 3/gamma {float(fall(np.array(3.0))):.3f}.")
    axes.set(xlabel=r"$\gamma\,(t - t_{\rm latest})/\tau$", ylabel="fall of the loss, of the whole", ylim=(0, 1.04))
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
        drop, (curve, _) = MergedDrop.of(task), _curve(task, 1.0)
        earliest, latest = drop.time_bounds(START * drop.begun)
        times = np.linspace(0.9 * earliest, latest, 20_001)
        sizes = np.linalg.norm(curve.effective_map(times), axis=(1, 2))
        begun = float(np.interp(drop.begun, sizes, times))
        unit = "bounds" if position == 0 else None
        axes.vlines(drop.spread, earliest * drop.gamma, latest * drop.gamma, color=theme.theory, lw=1, label=unit)
        axes.plot(drop.spread, begun * drop.gamma, "o", color=SERIES[0], ms=3, label="flow" if position == 0 else None)
        widest = max(widest, (latest - earliest) * drop.gamma)
    axes.set(
        xlabel=r"$\kappa_{\max}/\kappa_{\min}$",
        ylabel=r"begin of the drop, $\gamma t/\tau$",
        xscale="log",
        ylim=(3.38, 3.62),
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
    axes.set(xlabel=r"$\kappa_{\max}/\kappa_{\min}$", ylabel=r"share $\phi$ of one drop", xscale="log", ylim=(0, 1.04))
    axes.legend(loc=(0.42, 0.1))
    return float((shares / bounds)[spreads > 1.5].min())
