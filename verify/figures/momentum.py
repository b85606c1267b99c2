"""The figure of momentum (V8): heavy ball against the flow with mass, in losses, orders of convergence and drop times."""

import numpy as np

from ...numerics.compilation.equations import compiled
from ...numerics.dynamics.flow import gradient_flow
from ...numerics.dynamics.momentum import flow_with_mass, heavy_ball, heavy_ball_flow, modified_flow
from ...numerics.parametrizations.attention import SeparateWeights
from ...numerics.tasks.losses import QuadraticLoss
from ...numerics.tasks.regression import RegressionTask
from ...theory.notation import lambda_, v_0
from ...theory.results.discretisation.momentum import m
from ..claims.discretisation.finite_steps import LOSS, random_start
from ..claims.discretisation.momentum import of_mass
from .gallery import Drawing, canvas, figure
from .style import BLUE, GREEN, ORANGE, PURPLE, TIME, Theme
from .style import LOSS as LOSS_LABEL

MASSES = (0.5, 10.0, 100.0)
HEAVY = (1e2, 1e4, 1e6)
ONE = RegressionTask(eigenvalues=[0.8], context_length=20)


@figure("momentum")
def momentum(theme: Theme) -> Drawing:
    """Losses over time at three masses, distances over the step, times of a drop over the initial weights."""
    picture, (left, middle, right) = canvas(theme, 10.0, 3.4, ncols=3)
    largest = _losses(left, theme)
    slopes = _orders(middle)
    worst = _drops(right, theme)
    caption = (
        "Left: loss of five heads from random weights (D = 4), by heavy ball at three masses m = eta (1 + mu)/(1 - mu)^2 (dots), by the "
        f"flow with mass (lines; at most {largest:.2%} of the initial loss apart) and by gradient flow (dashed). Middle: the distance of "
        "heavy ball with mu = 0.8 from gradient flow, from the first-order modified flow and from the flow with mass at t = 120: fitted "
        f"orders {slopes[0]:.2f}, {slopes[1]:.2f}, {slopes[2]:.2f}. Right: the time in which one head grows from v_0 to v = 0.5, by heavy "
        "ball (dots) and by the flow with mass (lines): inverse in v_0 without mass, inverse in its square root by the derived law of a "
        f"large mass (dotted, for the largest; {worst:.1%} apart at the smallest v_0)."
    )
    return Drawing(picture, caption)


def _losses(axes, theme: Theme) -> float:
    start, largest = random_start(), 0.0
    plain = gradient_flow(LOSS, start, t_end=200.0)
    axes.plot(plain.times, plain.loss, color=theme.ink, lw=1.0, ls="--", label="$m = 0$")
    for mass, color in zip(MASSES, (BLUE, ORANGE, GREEN), strict=True):
        step, mu = of_mass(mass, 0.25)
        run = heavy_ball(LOSS, start, steps=800, learning_rate=step, momentum=mu)
        flow = heavy_ball_flow(LOSS, start, learning_rate=step, momentum=mu, t_end=run.times[-1])
        curve = flow.loss_at(run.times)
        axes.plot(run.times, curve, color=color, lw=1.2)
        axes.plot(run.times[::20], run.loss[::20], "o", color=color, ms=3, label=f"$m = {mass:g}$")
        largest = max(largest, float(np.abs(run.loss - curve).max() / run.loss[0]))
    axes.set(xlabel=TIME, ylabel=LOSS_LABEL, ylim=(0.3, None))
    axes.legend(handletextpad=0.4)
    return largest


def _orders(axes) -> list[float]:
    etas, mu, start = np.array([0.04, 0.02, 0.01, 0.005]), 0.8, random_start()
    rows = {"gradient flow": [], "modified flow": [], "flow with mass": []}
    for eta in etas:
        count = round(120 * (1 - mu) / (2 * eta))
        end = heavy_ball(LOSS, start, steps=count, learning_rate=float(eta), momentum=mu, record_every=count)
        t_end, given = float(end.times[-1]), {"learning_rate": float(eta), "momentum": mu}
        flows = (
            gradient_flow(LOSS, start, t_end=t_end, rtol=1e-10),
            modified_flow(LOSS, start, t_end=t_end, **given),
            heavy_ball_flow(LOSS, start, t_end=t_end, rtol=1e-10, **given),
        )
        for row, flow in zip(rows.values(), flows, strict=True):
            row.append(np.linalg.norm(end.states[-1] - flow.states[-1]))
    for (name, row), color in zip(rows.items(), (BLUE, PURPLE, ORANGE), strict=True):
        axes.loglog(etas, row, "o-", color=color, ms=4, label=f"from {name}")
    axes.set(xlabel=r"step $\eta$ on $\mathcal{L}$, $\mu = 0.8$", ylabel="distance of the weights")
    axes.set_xticks(etas, [f"{eta:g}" for eta in etas])
    axes.minorticks_off()
    axes.legend()
    return [float(np.polyfit(np.log(etas), np.log(row), 1)[0]) for row in rows.values()]


def _drops(axes, theme: Theme) -> float:
    loss, starts = QuadraticLoss.population(ONE), np.geomspace(1e-4, 1e-1, 10)
    law = compiled("V8-mass", (lambda_, m, v_0), part="drop")

    def grown(run) -> float:
        return float(run.times[np.argmax(run.states[:, 0] > 0.5)])

    def head(start: float) -> SeparateWeights:
        return SeparateWeights(np.array([start]), *np.full((2, 1, 1, 1), start))

    def longest(start: float, mass: float) -> float:
        return 1.1 / (0.64 * start) + float(law(0.8, mass, start)) + 10.0

    plain = [grown(gradient_flow(loss, head(start), t_end=longest(start, 0.0), rtol=1e-10)) for start in starts]
    axes.loglog(starts, plain, color=theme.ink, lw=1.0, ls="--", label="$m = 0$")
    for mass, color in zip(HEAVY, (BLUE, ORANGE, GREEN), strict=True):
        times = [grown(flow_with_mass(loss, head(start), mass=mass, t_end=longest(start, mass), rtol=1e-10)) for start in starts]
        balls = []
        for start, time in zip(starts[::3], times[::3], strict=True):
            advance = min(time / 2000, (0.1 * mass) ** 0.5)  # a step of 0.05 on L, which is stable beyond the minimum
            step, mu = of_mass(mass, advance)
            balls.append(grown(heavy_ball(loss, head(start), steps=round(1.05 * time / advance), learning_rate=step, momentum=mu)))
        axes.loglog(starts, times, color=color, lw=1.2)
        axes.loglog(starts[::3], balls, "o", color=color, ms=4, label=f"$m = 10^{round(np.log10(mass))}$")
    derived = [float(law(0.8, HEAVY[-1], start)) for start in starts]
    axes.loglog(starts, derived, color=theme.theory, lw=1.0, ls=":", label="law of a large mass")
    axes.set(xlabel="initial weight $v_0$", ylabel=r"time of growth $t/\tau$")
    axes.legend()
    return abs(times[0] / derived[0] - 1)
