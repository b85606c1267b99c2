"""Figure of tests unlike training (V3): other lengths, scaled contexts, and variance moved to the direction that training showed least."""

from collections.abc import Iterable

import numpy as np
from matplotlib.axes import Axes

from ...numerics.tasks.losses import QuadraticLoss
from ...numerics.tasks.regression import RegressionTask
from ..experiments.plateau_maps import measured, settled_network
from ..experiments.varied_tasks import LENGTH, NOISY, PLAIN, SPECTRUM, levels
from .gallery import Drawing, canvas, figure, listed
from .style import SERIES, Theme

TOTAL = sum(SPECTRUM)
LENGTHS = (3, LENGTH, 100)  # of training
DOTTED = (0, (4, 3))


def _of_length(length: int) -> RegressionTask:
    return RegressionTask(eigenvalues=SPECTRUM, context_length=length)


def _scaled(g: float, trained: RegressionTask) -> RegressionTask:
    return RegressionTask(
        eigenvalues=g * trained.eigenvalues, query_covariance=trained.covariance,
        context_length=trained.context_length, noise_variance=trained.noise_variance,
    )  # fmt: skip


def _moved(share: float, length: int) -> RegressionTask:
    """This share of the variance in the last direction, the rest in proportion."""
    rest = np.array(SPECTRUM[:2]) * (1 - share) * TOTAL / sum(SPECTRUM[:2])
    return RegressionTask(eigenvalues=[*rest, share * TOTAL], context_length=length)


def _loss(trained: RegressionTask, test: RegressionTask) -> float:
    return QuadraticLoss.population(test).value(trained.modes.effective_map())


def _points(
    axes: Axes, name: str, tests: dict[float, RegressionTask], unit: float, color: str, theme: Theme, label: str
) -> None:
    """Errors of a trained network on prompts of these tests, with two standard errors."""
    found = [measured(settled_network(name), test, count=50_000, seed=seed) for seed, test in enumerate(tests.values())]
    axes.errorbar(
        list(tests), [one.mean / unit for one in found], yerr=[2 * one.error / unit for one in found], fmt="o", color=color,
        mec=theme.ink, ms=5, ecolor=theme.ink, elinewidth=1, label=label, zorder=4,
    )  # fmt: skip


@figure("shift")
def shift(theme: Theme) -> Drawing:
    """The test loss of trained networks at other lengths, at other scales of the context and on a rare direction."""
    picture, (left, middle, right) = canvas(theme, 11.4, 3.6, ncols=3)
    lengths, scales = np.unique(np.geomspace(1, 1000, 60).round().astype(int)), np.linspace(0.01, 3, 120)
    shares = np.linspace(SPECTRUM[2] / TOTAL, 1 - 1e-9, 80)
    for length, color in zip(LENGTHS, SERIES, strict=False):
        trained = _of_length(length)
        left.plot(lengths, [_loss(trained, _of_length(int(n))) for n in lengths], color=color, label=f"N = {length}")
        middle.plot(scales, [_loss(trained, _scaled(g, trained)) / TOTAL for g in scales], color=color)
        right.plot(shares, [_loss(trained, _moved(f, length)) / TOTAL for f in shares], color=color)
    left.plot(
        lengths, [levels(_of_length(int(n)))[-1] for n in lengths], color=theme.ink, lw=1, ls=DOTTED, label="best map"
    )
    c = NOISY.loss_moments.c
    middle.plot(
        scales, [_loss(NOISY, _scaled(g, NOISY)) / c for g in scales], color=SERIES[3], label=r"N = 10, $\sigma^2 = 1$"
    )
    label = "PyTorch, N = 10"
    _points(left, "plain", {n: _of_length(n) for n in (1, 3, 10, 40, 200)}, 1.0, SERIES[1], theme, label)
    _points(middle, "plain", {g: _scaled(g, PLAIN) for g in (0.5, 1, 1.5, 2, 2.5)}, TOTAL, SERIES[1], theme, label)
    _points(middle, "noise", {g: _scaled(g, NOISY) for g in (1, 1.75, 2.5)}, c, SERIES[3], theme, "PyTorch, with noise")
    _points(
        right, "plain", {f: _moved(f, LENGTH) for f in (0.2, 0.4, 0.6, 0.8, 1 - 1e-9)}, TOTAL, SERIES[1], theme, label
    )
    for axes in (middle, right):
        axes.axhline(1, color=theme.faint, lw=1, ls=DOTTED)
    middle.annotate("no answer", (0.03, 1), va="bottom", color=theme.ink, fontsize=9)
    left.set(xscale="log", xlabel="test length $N'$", ylabel="test loss", ylim=(0, 3.0), xlim=(0.9, 1000))
    middle.set(
        xlabel="scale $g$ of the context's covariance",
        ylabel="test loss over that of no answer",
        xlim=(0, 3),
        ylim=(0, 3.2),
    )
    right.set(xlabel="share of the variance in the rarest direction", xlim=(0.18, 1.02), yscale="log")
    left.legend(loc="upper right")
    middle.legend(loc="upper left", bbox_to_anchor=(0.0, 1.0))
    return Drawing(picture, _caption())


def _caption() -> str:
    def over(tests: Iterable[RegressionTask]) -> str:
        return listed((_loss(PLAIN, test) for test in tests), ".3f")

    few = (1, 10, 1000)
    return (
        f"Shift at test (V3). Trained on eigenvalues {listed(SPECTRUM, 'g')}, w ~ N(0, I). Left: contexts of N' tokens. Middle: "
        "contexts of covariance g Lambda with queries of covariance Lambda: worse than no answer beyond g = 2 without noise, later with "
        "it. Right: the same variance, moved to the rarest direction of training (V3-unseen), up to N^2 + 1 times that of no answer had "
        "training hardly shown it. Lines: closed forms; points: errors of PyTorch networks on 50,000 prompts, two standard errors.\n"
        f"Trained at 10, tested at 1, 10, 1000: {over(_of_length(n) for n in few)}; "
        f"best: {listed((levels(_of_length(n))[-1] for n in few), '.3f')}. "
        f"All the variance in the rarest direction: {over([_moved(1 - 1e-9, LENGTH)])}, no answer {TOTAL:g}."
    )
