"""The figure of stable steps (V8-stable): the largest step on each plateau, derived and found by descent, and what happens beyond it."""

import numpy as np

from ...numerics.dynamics.momentum import heavy_ball
from ...numerics.dynamics.solver import FlowError
from ...numerics.landscape.fixed_points import merged_fixed_points, separate_fixed_point, separate_fixed_points
from ...numerics.landscape.stable_steps import largest_stable_step
from ..claims.discretisation.finite_steps import LOSS, TASK, measured_stable_step
from .gallery import Drawing, canvas, figure
from .style import BLUE, GREEN, ORANGE, PURPLE, Theme
from .style import LOSS as LOSS_LABEL

MOMENTA = (0.0, 0.5)
STEPS = 40  # beyond which momentum carries weights out of saddles


@figure("stable-steps")
def stable_steps(theme: Theme) -> Drawing:
    """The step over the number of learned directions, and losses just below and above the last of them."""
    picture, (left, right) = canvas(theme, 7.6, 3.2, ncols=2)
    largest = _steps(left, theme)
    _beyond(right, theme)
    caption = (
        "Left: the step on L above which descent leaves each fixed point of separate attention (D = 4; the 15 that have learned something) "
        "and the minimum of merged attention (square), over its loss: derived (bars) and by bisecting heavy ball (dots), at most "
        f"{largest:.1%} apart. Right: the loss above the global minimum for steps a little below "
        "and above the bound, from a kick of 1e-3 along the steepest direction: it dies away, or the weights keep swinging."
    )
    return Drawing(picture, caption)


def _steps(axes, theme: Theme) -> float:
    points = list(separate_fixed_points(TASK, heads=4))[1:]
    points.append(merged_fixed_points(TASK, heads=1)[-1])
    losses, worst = np.array([point.loss for point in points]), 0.0
    for momentum, color in zip(MOMENTA, (BLUE, ORANGE), strict=True):
        derived = np.array([largest_stable_step(point, momentum=momentum) for point in points])
        measured = np.array([measured_stable_step(point, momentum, steps=STEPS) for point in points])
        axes.plot(losses, derived, "_", color=theme.theory, ms=11, mew=1.4, label="derived" if momentum == 0 else None)
        axes.plot(losses[:-1], measured[:-1], "o", color=color, ms=4, label=rf"$\mu = {momentum:g}$")
        axes.plot(losses[-1:], measured[-1:], "s", color=color, ms=5)
        worst = max(worst, float(np.abs(measured / derived - 1).max()))
    axes.set(xlabel=f"{LOSS_LABEL} of the fixed point", ylabel=r"largest stable step $\eta$", ylim=(0, 4.2))
    axes.legend(loc="lower right", handletextpad=0.3)
    return worst


def _beyond(axes, theme: Theme) -> None:
    point = separate_fixed_point(TASK, range(4), heads=4)
    bound = largest_stable_step(point)
    kick = 1e-3 * np.linalg.eigh(point.weights.hessian(LOSS))[1][:, -1]
    start = point.weights.unflatten(point.weights.flatten() + kick)
    for share, color in zip((0.9, 0.98, 1.02, 1.1), (BLUE, GREEN, ORANGE, PURPLE), strict=True):
        try:
            run = heavy_ball(LOSS, start, steps=200, learning_rate=share * bound, momentum=0.0)
        except FlowError:
            continue
        axes.semilogy(np.arange(201), run.loss - point.loss, color=color, lw=1.2, label=rf"{share:g} $\eta_{{\max}}$")
    axes.set(xlabel="step of descent", ylabel=rf"{LOSS_LABEL} above its minimum", ylim=(1e-12, None))
    axes.legend()
