"""Figures of discretisation (V8): delays by steps and momentum, the largest stable steps, and drop times spread by mini-batches."""

import numpy as np

from ...numerics import FlowError, gradient_descent, gradient_flow, heavy_ball, largest_stable_step, modified_flow
from ...numerics.landscape.fixed_points import merged_fixed_points, separate_fixed_point, separate_fixed_points
from ...numerics.reductions.drop_delays import later_separate_drop
from ..claims.discretisation.finite_steps import LOSS, TASK, half_time, head, measured_stable_step, random_start
from ..claims.discretisation.minibatch import RUNS, SMALL, derived_spreads, derived_times, exact_time, measured_spreads, times_to_level
from .gallery import Drawing, canvas, figure
from .style import BLUE, GREEN, LOSS as LOSS_LABEL, ORANGE, PURPLE, Theme


@figure("discrete")
def discrete(theme: Theme) -> Drawing:
    """Delay over the step, and distance from the flow over the step."""
    picture, (left, right) = canvas(theme, 7.6, 3.2, ncols=2)
    largest = _delays(left, theme)
    slopes = _orders(right)
    caption = (
        "(a) By how much t/tau the first drop of one head (eigenvalue 0.4, v_0 = 0.1) comes later than in gradient flow, from "
        f"descent and heavy ball (dots) and from h/2 log(f/f_0) (lines): at most {largest:.1%} apart. (b) The distance of descent "
        "from gradient flow and from the flow of L + eta/4 |dL/dW|^2 at t = 120 (five heads, D = 4): fitted orders "
        f"{slopes[0]:.2f} and {slopes[1]:.2f}."
    )
    return Drawing(picture, caption)


def _delays(axes, theme: Theme) -> float:
    scalars = TASK.eigenvalues[0], TASK.second_moment_eigenvalues[0], 0.1
    exact = half_time(gradient_flow(LOSS, head(0.1), t_end=150.0, rtol=1e-11))
    largest = 0.0
    for momentum, color in zip((0.0, 0.5, 0.9), (BLUE, ORANGE, GREEN), strict=True):
        effective = np.array([0.1, 0.2, 0.4, 0.8]) * (1 - momentum) / (1 + momentum)  # h, so that the delays are alike
        etas = effective * (1 - momentum) / 2
        derived = [later_separate_drop(*scalars, learning_rate=float(eta), momentum=momentum) for eta in etas]
        measured = []
        for eta, size in zip(etas, effective, strict=True):
            run = heavy_ball(LOSS, head(0.1), steps=round(80 / size), learning_rate=float(eta), momentum=momentum)
            measured.append(half_time(run) - exact)
        axes.plot(effective, derived, color=theme.theory, lw=1.2, label="derived" if momentum == 0 else None)
        axes.plot(effective, measured, "o", color=color, ms=4, label=rf"$\mu = {momentum:g}$")
        largest = max(largest, float(np.abs(np.array(measured) / derived - 1).max()))
    axes.set(xlabel="time of a step $h$", ylabel=r"drop later by $t/\tau$", xscale="log", yscale="log", xlim=(3e-3, 8))
    axes.set_yticks([0.2, 0.5, 1.0, 2.0], ["0.2", "0.5", "1", "2"])
    axes.minorticks_off()
    axes.legend(loc="lower right", handletextpad=0.3)
    return largest


def _orders(axes) -> tuple[float, float]:
    etas, plain, modified = np.array([0.4, 0.2, 0.1, 0.05]), [], []
    flow = gradient_flow(LOSS, random_start(), t_end=120.0, rtol=1e-10).states[-1]
    for eta in etas:
        steps = round(60 / eta)
        end = gradient_descent(LOSS, random_start(), steps=steps, learning_rate=float(eta), record_every=steps).states[-1]
        plain.append(np.linalg.norm(end - flow))
        followed = modified_flow(LOSS, random_start(), learning_rate=float(eta), t_end=120.0).states[-1]
        modified.append(np.linalg.norm(end - followed))
    axes.loglog(etas, plain, "o-", color=BLUE, ms=4, label="from gradient flow")
    axes.loglog(etas, modified, "o-", color=ORANGE, ms=4, label="from the modified flow")
    axes.set(xlabel=r"step $\eta$ on $\mathcal{L}$", ylabel="distance of the weights")
    axes.set_xticks(etas, [f"{eta:g}" for eta in etas])
    axes.minorticks_off()
    axes.legend()
    first, second = (np.polyfit(np.log(etas), np.log(errors), 1)[0] for errors in (plain, modified))
    return float(first), float(second)


STEPS = 40  # after more, momentum carries weights out of saddles


@figure("stable-steps")
def stable_steps(theme: Theme) -> Drawing:
    """The step over the number of learned directions, and losses just below and above the last of them."""
    picture, (left, right) = canvas(theme, 7.6, 3.2, ncols=2)
    largest = _steps(left, theme)
    bound = _beyond(right, theme)
    caption = (
        "(a) The step on L above which descent leaves each fixed point of separate attention (D = 4; the 15 that have learned something) "
        "and the minimum of merged attention (square), over its loss: derived (bars) and by bisecting heavy ball (dots), at most "
        f"{largest:.1%} apart. (b) The loss above the global minimum for steps a little below "
        f"and above the bound of {bound:.3f}, from a kick of 1e-3 along the steepest direction: it dies away, or the weights keep swinging."
    )
    return Drawing(picture, caption)


def _steps(axes, theme: Theme) -> float:
    points = list(separate_fixed_points(TASK, heads=4))[1:]
    points.append(merged_fixed_points(TASK, heads=1)[-1])
    losses, worst = np.array([point.loss for point in points]), 0.0
    for momentum, color in zip((0.0, 0.5), (BLUE, ORANGE), strict=True):
        derived = np.array([largest_stable_step(point, momentum=momentum) for point in points])
        measured = np.array([measured_stable_step(point, momentum, steps=STEPS) for point in points])
        axes.plot(losses, derived, "_", color=theme.theory, ms=11, mew=1.4, label="derived" if momentum == 0 else None)
        axes.plot(losses[:-1], measured[:-1], "o", color=color, ms=4, label=rf"$\mu = {momentum:g}$")
        axes.plot(losses[-1:], measured[-1:], "s", color=color, ms=5)
        worst = max(worst, float(np.abs(measured / derived - 1).max()))
    axes.set(xlabel=f"{LOSS_LABEL} of the fixed point", ylabel=r"largest stable step $\eta$", ylim=(0, 4.2))
    axes.legend(loc="lower right", handletextpad=0.3)
    return worst


def _beyond(axes, theme: Theme) -> float:
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
    return bound


ALIGNED = (8, 16, 32, 64)
BATCHES, TWO_RUNS = (8, 16, 32), 200


@figure("mini-batches")
def mini_batches(theme: Theme) -> Drawing:
    """Times over the batch, of one aligned head and of two heads from random weights."""
    picture, (left, right) = canvas(theme, 7.6, 3.2, ncols=2)
    worst = _aligned(left, theme)
    ratios = _from_random_weights(right, theme)
    caption = (
        f"(a) SGD in one dimension with h = 0.05, {RUNS:,} runs for each batch size: mean delay and standard deviation of the time in "
        f"which v grows from 0.1 to 0.3, bars of two standard errors; the derived standard deviation is within {worst:.1%}, while the "
        "mean delay leaves its first-order law at a batch of 8. (b) Two heads in two directions, from the first random weights drawn with "
        f"seed 0 whose drops spread, as derived for a batch of 16, by less than {SMALL:.0%} of their times, {TWO_RUNS} runs for each "
        "batch size: half the width of the middle 68 % of both drops' times, and the spread derived "
        "from the noise of the force along the adjoint of the flow (lines); measured over derived between "
        f"{ratios.min():.2f} and {ratios.max():.2f}."
    )
    return Drawing(picture, caption)


def _aligned(axes, theme: Theme) -> float:
    time, noise = exact_time(), derived_times
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
