"""Figures of momentum (V8), heavy ball against the flow with mass, and of other optimizers than SGD."""

import numpy as np

from ...numerics import QuadraticLoss, RegressionTask, SeparateWeights, Trajectory, adam, compiled, gradient_flow, sign_descent
from ...numerics.dynamics.momentum import flow_with_mass, heavy_ball, heavy_ball_flow, modified_flow
from ...theory.notation import H, a, lambda_, v_0, w_init
from ...theory.results.discretisation.momentum import m
from ..claims import formulas
from ..claims.discretisation.finite_steps import LOSS, TASK, random_start
from ..claims.discretisation.momentum import of_mass
from ..claims.discretisation.sign_descent import ALIKE, aligned
from .gallery import Drawing, canvas, figure, theory_levels
from .style import BLUE, GREEN, LOSS as LOSS_LABEL, ORANGE, PURPLE, TIME, Theme

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
        "(a) Loss of five heads from random weights (D = 4), by heavy ball at three masses m = eta (1 + mu)/(1 - mu)^2 (dots), by the "
        f"flow with mass (lines; at most {largest:.2%} of the initial loss apart) and by gradient flow (dashed). (b) The distance of "
        "heavy ball with mu = 0.8 from gradient flow, from the first-order modified flow and from the flow with mass at t = 120: fitted "
        f"orders {slopes[0]:.2f}, {slopes[1]:.2f}, {slopes[2]:.2f}. (c) The time in which one head grows from v_0 to v = 0.5, by heavy "
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


SGD_STEP, STEP = 0.4, 1e-3  # of gradient descent, of Adam and sign descent
RULES = {"SGD": BLUE, "Adam": ORANGE, "sign descent": GREEN}


def _by_each_rule(loss: QuadraticLoss, start: SeparateWeights, *, steps: int, longest: float) -> dict[str, Trajectory]:
    """Runs of so many steps; for SGD, whose steps are small, gradient flow to the time ``longest``."""
    runs = {"SGD": gradient_flow(loss, start, t_end=longest)}
    for name, rule in (("Adam", adam), ("sign descent", sign_descent)):
        runs[name] = rule(loss, start, steps=steps, learning_rate=STEP)
    return runs


def _steps(name: str, run: Trajectory) -> np.ndarray:
    return run.times / (2 * SGD_STEP if name == "SGD" else STEP)


@figure("optimizers")
def optimizers(theme: Theme) -> Drawing:
    """The same start by SGD, Adam and sign descent: losses, the time of growth over the initial scale, and what they conserve."""
    picture, (left, middle, right) = canvas(theme, 10.0, 3.4, ncols=3)
    theory_levels(left, formulas.plateau_losses(TASK), theme)
    start = SeparateWeights.initialize(TASK, heads=5, rank=1, scale=0.01, rng=np.random.default_rng(0))
    for name, run in _by_each_rule(LOSS, start, steps=3000, longest=40_000.0).items():
        left.semilogx(_steps(name, run)[1:], run.loss[1:], color=RULES[name], lw=1.3)
    left.set(xlabel="steps", ylabel=LOSS_LABEL, xlim=(20, None))
    powers = _growth(middle, theme)
    drifts = _drifts(right, theme)
    caption = (
        f"(a) Loss of five heads from the same weights of 0.01 (D = 4), by SGD with steps of {SGD_STEP} (gradient flow), and by Adam and "
        f"sign descent with steps of {STEP}: one drop instead of the staircase (24). (b) Steps until one head has learned a tenth of "
        "one direction; lines: the derived times, in the limit of many steps for Adam, where it is sqrt(5) times as fast as sign descent. "
        f"Fitted powers of w: {powers[0]:.2f}, {powers[1]:.2f}, {powers[2]:.2f}. (c) Of heads whose signs agree, the "
        "change of |v| - |k_d| (solid) and of v^2 - k'k (dashed) as the weights grow; dotted: derived for sign descent. At |v| = 0.3 the "
        f"first has changed by {', '.join(f'{drift:.1g} under {name}' for name, drift in drifts.items())}."
    )
    return Drawing(picture, caption)


def _growth(axes, theme: Theme) -> list[float]:
    loss, moment = QuadraticLoss.population(ONE), 10 * ONE.second_moment_eigenvalues[0]  # a tenth of lambda/a
    scales, found = np.logspace(-1.5, -4, 6), {name: [] for name in RULES}
    for scale in scales:
        head = SeparateWeights(np.array([scale]), *np.full((2, 1, 1, 1), scale))
        for name, run in _by_each_rule(loss, head, steps=1200, longest=2 / scale).items():
            found[name].append(_steps(name, run)[np.argmax(np.prod(run.states, axis=1) > 0.8 / moment)])
    flow = compiled("V8-sign-origin", (lambda_, w_init), part="flow")
    time = compiled("V8-sign-origin", (lambda_, a, H, w_init), part="time")
    speed = float(compiled("V8-adam", (), part="growing")())
    grown = np.array([time(0.8, moment, 1, scale) for scale in scales]) / STEP
    for line in (flow(0.8, scales) / (2 * SGD_STEP), grown / speed, grown):
        axes.loglog(scales, line, color=theme.theory, lw=1.0)
    for name, times in found.items():
        axes.loglog(scales, times, "o", color=RULES[name], ms=4, label=name)
    axes.set(xlabel="initial scale $w$", ylabel="steps until a tenth is learned")
    axes.legend()
    return [float(np.polyfit(np.log(scales), np.log(times), 1)[0]) for times in found.values()]


def _drifts(axes, theme: Theme) -> dict[str, float]:
    start, drifts = aligned(ALIKE, np.random.default_rng(0), 0.02, least=0.5), {}
    for name, run in _by_each_rule(QuadraticLoss.population(ALIKE), start, steps=350, longest=600.0).items():
        v, k = np.abs(run.arrays["v"]), np.abs(run.arrays["k"][:, :, 0])
        linear, square = v[..., None] - k, v**2 - (k**2).sum(axis=-1)
        size = v.mean(axis=1)
        shown = (size > 0.021) & (size < 0.4)
        changes = [np.abs(law - law[0]).reshape(len(size), -1).max(axis=1) for law in (linear, square)]
        for change, style in zip(changes, ("-", "--"), strict=True):
            axes.semilogy(size[shown], np.maximum(change, 1e-17)[shown], color=RULES[name], lw=1.3, ls=style)
        drifts[name] = float(changes[0][np.argmax(size > 0.3)])
        if name == "sign descent":
            rate, clock = 2 * (v[0] - k[0].sum(axis=-1)), run.times[:, None]
            derived = np.abs(rate * clock + (1 - ALIKE.dimension) * clock**2).max(axis=1)
            axes.semilogy(size[shown], derived[shown], color=theme.theory, lw=1.0, ls=":")
    axes.set(xlabel="mean $|v|$", ylabel="change")
    return drifts
