"""The order of learning under task covariances: heads that turn, in two and three directions, and where nothing commutes."""

import numpy as np
from matplotlib.axes import Axes

from ...numerics.landscape.learning_order import order_of_learning
from ..experiments.varied_tasks import (
    RETURNING,
    RUNS,
    TURNING,
    flow,
    plateaus,
    trained_loss,
    trained_plateaus,
    training,
    turning_levels,
)
from .gallery import Drawing, canvas, figure, listed, theory_levels
from .style import LOSS, SERIES, TIME, Theme

ANGLES = {"turning": "0, commutes", "nearly": "0.02", "inclined": "0.5"}


def _set(directions: tuple[int, ...]) -> str:
    inside = ", ".join(str(d + 1) for d in directions)
    return rf"$\{{{inside}\}}$" if directions else r"$\varnothing$"


def _losses(axes: Axes, name: str, theme: Theme) -> None:
    """The trained loss, thick and pale, the flow's over it, and the sets of theory."""
    times, run = np.linspace(1.0, RUNS[name].duration, 2500), RUNS[name]
    theory_levels(axes, turning_levels(run.task), theme, names=False)
    for visit in order_of_learning(run.task):
        axes.annotate(
            _set(visit.directions), (1.0, visit.loss), xytext=(5, 0), xycoords=("axes fraction", "data"),
            textcoords="offset points", va="center", color=theme.theory,
        )  # fmt: skip
    axes.plot(training(name).times, trained_loss(name), color=theme.trained, lw=4, alpha=0.6, label="trained")
    axes.plot(times, flow(name).loss_at(times), color=theme.ink, lw=1.3, label="gradient flow")
    axes.set(xlabel=TIME, ylabel=LOSS, xlim=(0, run.duration), ylim=(0, 1.28 * run.task.loss_moments.c))
    axes.legend(loc="upper right", ncols=2)


def _components(axes: Axes, name: str) -> None:
    """B_dd over its final value, trained and of the flow."""
    task, times = RUNS[name].task, np.linspace(1.0, RUNS[name].duration, 2500)
    maps = training(name).effective_maps()
    along = np.array([np.diag(flow(name).effective_map_at(t)) for t in times]) / task.modes.levels
    for d, color in enumerate(SERIES[: task.dimension]):
        axes.plot(training(name).times, maps[:, d, d] / task.modes.levels[d], color=color, lw=4, alpha=0.35)
        axes.plot(times, along[:, d], color=color, label=rf"$B_{{{d + 1}{d + 1}}}$")
    axes.set(xlabel=TIME, ylabel="over the final value", xlim=(0, RUNS[name].duration), ylim=(-0.05, 1.4))
    axes.legend(loc="upper left", ncols=3)


def _angles(axes: Axes, theme: Theme) -> None:
    """The losses of tasks that commute up to an angle, after the first drop, and the level at which the one that commutes rests."""
    for (name, angle), color in zip(ANGLES.items(), SERIES, strict=False):
        start = plateaus(name).drops[0]
        times = np.linspace(start - 100, start + 160, 2500)
        trained, c = training(name), RUNS[name].task.loss_moments.c
        begun = trained_plateaus(name).drops[0]
        axes.plot(trained.times - begun, trained_loss(name) / c, color=color, lw=4, alpha=0.35)
        axes.plot(times - start, flow(name).loss_at(times) / c, color=color, label=angle)
        one = turning_levels(RUNS[name].task)[-2]
        axes.plot([60, 160], [one / c] * 2, color=color, lw=1.0, ls=(0, (4, 3)), zorder=1)
    axes.axhline(
        turning_levels(TURNING)[1] / TURNING.loss_moments.c, color=theme.theory, lw=1.0, ls=(0, (4, 3)), zorder=1
    )
    axes.set(xlabel=r"$t/\tau$ after the first drop", ylabel=r"$\mathcal{L}/c$", xlim=(-60, 160), ylim=(0.3, 1.05))
    axes.legend(loc="upper right", title="angle between the covariances")


@figure("task-covariance")
def task_covariance(theme: Theme) -> Drawing:
    """Where growth and drops disagree, heads learn one direction and turn to another; where nothing commutes, they turn while they drop."""
    picture, panels = canvas(theme, 9.6, 6.4, nrows=2, ncols=2)
    _losses(panels[0, 0], "turning", theme)
    _losses(panels[0, 1], "returning", theme)
    _components(panels[1, 1], "returning")
    _angles(panels[1, 0], theme)
    growth = [np.diag(task.loss_moments.A) for task in (TURNING, RETURNING)]
    caption = (
        "Task vectors with a covariance (V2), N = 20, initial scale 0.03. Above left: tokens of covariance diag(1, 0.5), task vectors of "
        f"diag(0.3, 0.8), H = 3. Growth by lambda^2 omega ({listed(growth[0], '.2f')}) begins with direction 1, the larger drop "
        f"({listed(TURNING.modes.drops)}) is that of 2: the first head learns 1 and turns to 2, a second head learns 1. Right: "
        f"diag(1.2, 0.6, 0.3) and diag(0.4, 1.1, 2.1), H = 4, growth {listed(growth[1], '.2f')}, drops {listed(RETURNING.modes.drops)}: "
        "the second head learns 1 and turns to 3, so that 1 is learned three times; dashed: the sets visited (V2-sequence). Below left: "
        "the task covariance of the first panel turned, so that it does not commute with that of the tokens (V2-oblique), time from each "
        "first drop: a head rests in the smaller drop for a time that grows as the logarithm of the angle, none at 0.5; dashed: {1} of "
        "the first panel, and where one head comes to rest for good.\n"
        + "\n".join(_compared(name) for name in ("returning", *ANGLES))
    )
    return Drawing(picture, caption)


def _compared(name: str) -> str:
    found, trained = plateaus(name), trained_plateaus(name)
    return (
        f"{name}: theory {listed(turning_levels(RUNS[name].task))}; flow {listed(found.levels)}; trained {listed(trained.levels)}; drops "
        f"at t/tau = {listed(found.drops, '.0f')} (flow), {listed(trained.drops, '.0f')} (trained)."
    )
