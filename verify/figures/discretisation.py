"""The figure of finite steps (V8): how much later a drop comes with steps and momentum, and which flow descent follows."""

import numpy as np

from ...numerics.dynamics.descent import gradient_descent
from ...numerics.dynamics.flow import gradient_flow
from ...numerics.dynamics.modified_flow import modified_flow
from ...numerics.dynamics.momentum import heavy_ball
from ...numerics.reductions.drop_delays import later_separate_drop
from ..claims.discretisation.finite_steps import LOSS, TASK, half_time, head, random_start
from .gallery import Drawing, canvas, figure
from .style import BLUE, GREEN, ORANGE, Theme

MOMENTA = (0.0, 0.5, 0.9)


@figure("discrete")
def discrete(theme: Theme) -> Drawing:
    """Delay over the step, and distance from the flow over the step."""
    picture, (left, right) = canvas(theme, 7.6, 3.2, ncols=2)
    largest = _delays(left, theme)
    slopes = _orders(right)
    caption = (
        "Left: by how much t/tau the first drop of one head (eigenvalue 0.4, v_0 = 0.1) comes later than in gradient flow, from "
        f"descent and heavy ball (dots) and from h/2 log(f/f_0) (lines): at most {largest:.1%} apart. Right: the distance of descent "
        "from gradient flow and from the flow of L + eta/4 |dL/dW|^2 at t = 120 (five heads, D = 4): fitted orders "
        f"{slopes[0]:.2f} and {slopes[1]:.2f}."
    )
    return Drawing(picture, caption)


def _delays(axes, theme: Theme) -> float:
    scalars = TASK.eigenvalues[0], TASK.second_moment_eigenvalues[0], 0.1
    exact = half_time(gradient_flow(LOSS, head(0.1), t_end=150.0, rtol=1e-11))
    largest = 0.0
    for momentum, color in zip(MOMENTA, (BLUE, ORANGE, GREEN), strict=True):
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
        end = gradient_descent(LOSS, random_start(), steps=steps, learning_rate=float(eta), record_every=steps).states[
            -1
        ]
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
