"""The figure of mini-batches (V8-noise, V8-spread): how the batch moves and spreads the time of a drop, derived and measured."""

import numpy as np

from ..claims.discretisation.minibatch import (
    RUNS,
    derived_spreads,
    derived_times,
    exact_time,
    measured_spreads,
    times_to_level,
)
from .gallery import Drawing, canvas, figure
from .style import BLUE, GREEN, ORANGE, Theme

ALIGNED = (8, 16, 32, 64)
BATCHES, TWO_RUNS = (8, 16, 32), 200


@figure("mini-batches")
def mini_batches(theme: Theme) -> Drawing:
    """Times over the batch, of one aligned head and of two heads from random weights."""
    picture, (left, right) = canvas(theme, 7.6, 3.2, ncols=2)
    worst = _aligned(left, theme)
    ratios = _from_random_weights(right, theme)
    caption = (
        f"Left: SGD in one dimension with h = 0.05, {RUNS:,} runs for each batch size: mean delay and standard deviation of the time in "
        f"which v grows from 0.1 to 0.3, bars of two standard errors; the derived standard deviation is within {worst:.1%}, while the "
        "mean delay leaves its first-order law at a batch of 8. Right: two heads from random weights in two directions, "
        f"{TWO_RUNS} runs for each batch size: half the width of the middle 68 % of both drops' times, and the spread derived "
        "from the noise of the force along the adjoint of the flow (lines); measured over derived between "
        f"{ratios.min():.2f} and {ratios.max():.2f}."
    )
    return Drawing(picture, caption)


def _aligned(axes, theme: Theme) -> float:
    time, noise = exact_time(), derived_times()
    sizes = np.geomspace(ALIGNED[0], ALIGNED[-1], 50)
    derived = np.array([[float(part) for part in noise(size, time)] for size in sizes])
    axes.loglog(sizes, derived[:, 1], color=theme.theory, lw=1.2, label="derived")
    axes.loglog(sizes, derived[:, 0], color=theme.theory, lw=1.2)
    spreads = np.array([times_to_level(batch).std() for batch in ALIGNED])
    delays = np.array([times_to_level(batch).mean() - time for batch in ALIGNED])
    axes.loglog(ALIGNED, spreads, "o", color=BLUE, ms=4, label="standard deviation")
    axes.errorbar(ALIGNED, delays, 2 * spreads / RUNS**0.5, fmt="o", color=ORANGE, ms=4, label="mean delay")
    axes.set(xlabel="sequences in a batch $P$", ylabel=r"time $t/\tau$")
    axes.set_xticks(ALIGNED, [str(batch) for batch in ALIGNED])
    axes.set_yticks([0.05, 0.1, 0.2, 0.5], ["0.05", "0.1", "0.2", "0.5"])
    axes.minorticks_off()
    axes.legend(loc=(0.4, 0.4))
    exact = np.array([float(noise(batch, time)[1]) for batch in ALIGNED])
    return float(np.abs(spreads / exact - 1).max())


def _from_random_weights(axes, theme: Theme) -> np.ndarray:
    derived = np.array([derived_spreads(batch) for batch in BATCHES])
    measured = np.array([measured_spreads(batch, TWO_RUNS) for batch in BATCHES])
    for drop, (name, color) in enumerate((("first drop", BLUE), ("second drop", GREEN))):
        axes.loglog(BATCHES, derived[:, drop], color=theme.theory, lw=1.2, label="derived" if drop == 0 else None)
        axes.loglog(BATCHES, measured[:, drop], "o", color=color, ms=4, label=name)
    axes.set(xlabel="sequences in a batch $P$", ylabel=r"spread of the time $t/\tau$")
    axes.set_xticks(BATCHES, [str(batch) for batch in BATCHES])
    axes.set_yticks([0.5, 1, 2, 4], ["0.5", "1", "2", "4"])
    axes.minorticks_off()
    axes.legend()
    return measured / derived
