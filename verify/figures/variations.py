"""Figures of variations of the task: label noise, laws of tokens."""

import numpy as np
from matplotlib.axes import Axes

from ...numerics.compilation.equations import compiled
from ...numerics.tasks.regression import RegressionTask
from ...theory.notation import N, T, lambda_
from ...theory.results.variations.token_laws import kappa
from ..experiments.varied_tasks import (
    LENGTH,
    NOISY,
    PLAIN,
    RUNS,
    SPECTRUM,
    STUDENT,
    flow,
    levels,
    plateaus,
    trained_loss,
    trained_plateaus,
    training,
)
from .gallery import Drawing, canvas, figure, listed
from .style import LOSS, SERIES, TIME, Theme


def _curve(axes: Axes, name: str, color: str, label: str, theme: Theme, less: float = 0.0) -> None:
    """The trained loss, thick and pale, the flow's over it, and the levels of theory."""
    times = np.linspace(1.0, RUNS[name].duration, 1500)
    axes.plot(training(name).times, trained_loss(name) - less, color=color, lw=4.0, alpha=0.35)
    axes.plot(times, flow(name).loss_at(times) - less, color=color, lw=1.3, label=label)
    for level in levels(RUNS[name].task):
        axes.axhline(level - less, color=color, lw=0.9, ls=(0, (4, 3)), zorder=1)
    axes.set(xlabel=TIME, ylabel=LOSS, xlim=(0, RUNS[name].duration))


def _compared(*names: str) -> str:
    return "\n".join(
        f"{name}: theory {listed(levels(RUNS[name].task))}; trained {listed(trained_plateaus(name).levels)}; drops at t/tau = "
        f"{listed(plateaus(name).drops, '.0f')} (flow), {listed(trained_plateaus(name).drops, '.0f')} (trained)."
        for name in names
    )


ROOM = (0, 1.55)  # above the first plateau, for the legend
SETTING = (
    f"Separate attention, D = 3, N = {LENGTH}, H = 4, eigenvalues {listed(SPECTRUM, 'g')}, initial scale 0.1. Thin: gradient flow; "
    "thick, pale: PyTorch on fresh sequences, its population loss; dashed: theory."
)


@figure("noise")
def noise(theme: Theme) -> Drawing:
    """Label noise: plateaus move up, drops stay where they are; the end as a function of the noise."""
    picture, (left, right) = canvas(theme, 8.4, 3.4, ncols=2)
    _curve(left, "plain", SERIES[0], r"$\sigma^2 = 0$", theme)
    _curve(left, "noise", SERIES[1], r"$\sigma^2 = 1$", theme, less=NOISY.noise_variance)
    left.set(ylabel=r"loss $\mathcal{L} - \sigma^2$", ylim=ROOM)
    left.legend(loc="upper right", ncols=2)
    variances = np.linspace(0, 4, 81)
    for length, color in zip((5, 10, 40, 160), SERIES[2:], strict=False):
        tasks = [
            RegressionTask(eigenvalues=SPECTRUM, context_length=length, noise_variance=float(one)) for one in variances
        ]
        right.plot(
            variances, [levels(task)[-1] - task.noise_variance for task in tasks], color=color, label=f"N = {length}"
        )
    right.axhline(sum(SPECTRUM), color=theme.faint, lw=1, ls=(0, (4, 3)))
    right.annotate(
        "nothing learned", (4, sum(SPECTRUM)), xytext=(0, -4), textcoords="offset points", va="top", ha="right",
        color=theme.ink, fontsize=9,
    )  # fmt: skip
    ends = {0.0: "plain", NOISY.noise_variance: "noise"}
    marks = [trained_plateaus(name).levels[-1] - variance for variance, name in ends.items()]
    right.plot(list(ends), marks, "o", color=SERIES[3], mec=theme.ink, ms=6, label="trained, N = 10")
    right.set(xlabel=r"label noise $\sigma^2$", ylabel=r"final loss $-\,\sigma^2$", xlim=(-0.05, 4.05), ylim=ROOM)
    right.legend(loc="upper right", ncols=3, columnspacing=1.0, handlelength=1.4)
    caption = (
        f"Label noise (V1). {SETTING} The loss less the variance of the target's own noise. Noise adds to tr(Lambda) in a_d: it moves "
        f"the plateaus, not the first drops.\n{_compared('plain', 'noise')}"
    )
    return Drawing(picture, caption)


@figure("tokens")
def tokens(theme: Theme) -> Drawing:
    """Tokens of other laws: the same steps at other levels."""
    picture, axes = canvas(theme, 6.8, 3.8)
    laws = {
        "Student": "Student, 8 degrees of freedom",
        "plain": "Gaussian",
        "sphere": "on an ellipsoid",
        "signs": "signs",
    }
    for (name, label), color in zip(laws.items(), SERIES, strict=False):
        _curve(axes, name, color, label, theme)
    axes.set(ylim=ROOM)
    axes.legend(loc="upper right", ncols=4, columnspacing=1.2)
    alike = compiled("V5-elliptical", (lambda_, T, kappa, N), part="length")
    lengths = alike(PLAIN.eigenvalues, sum(SPECTRUM), STUDENT.token_law.kappa(3), LENGTH)  # pyright: ignore[reportAttributeAccessIssue]
    caption = (
        f"Tokens of other laws with the same covariance (V5). {SETTING} Heavy tails act like a shorter context, of another length for each "
        f"direction: with kappa = 1.5, Student's {LENGTH} tokens are worth {listed(lengths, '.2f')} Gaussian ones; "
        f"the drops come at the same times. The spikes of trained curves are steps on rare, large sequences.\n{_compared(*laws)}"
    )
    return Drawing(picture, caption)
