"""The figure of optimality (V9): trained linear attention against least squares and the Bayes predictor, over N/D."""

import numpy as np

from ...numerics.tasks.regression import RegressionTask
from ...numerics.tasks.risks import (
    bayes_bounds,
    crossover_length,
    least_squares_risk,
    linear_attention_risk,
    risk_limits,
    sampled_risks,
)
from .gallery import Drawing, canvas, figure
from .style import BLUE, GREEN, ORANGE, Theme

DIMENSION, COUNT = 8, 10_000
LENGTHS = (1, 2, 3, 4, 6, 8, 10, 13, 16, 20, 26, 32, 40, 48)
NOISE = (0.1, 1.0)  # in units of the variance of a noiseless label
NAMES = {"linear": "linear attention", "least squares": "least squares", "Bayes": "Bayes (ridge)"}
COLORS = {"linear": BLUE, "least squares": ORANGE, "Bayes": GREEN}


def setting(length: int, noise: float) -> RegressionTask:
    return RegressionTask(eigenvalues=np.full(DIMENSION, 1 / DIMENSION), context_length=length, noise_variance=noise)


@figure("optimality")
def optimality(theme: Theme) -> Drawing:
    """Exact risks as lines, sampled ones as dots, and for Bayes its limit in high dimension between its bounds."""
    picture, panels = canvas(theme, 8.2, 3.8, ncols=2, sharey=True)
    rng = np.random.default_rng(0)
    worst = dict.fromkeys(COLORS, 0.0)
    for noise, axes in zip(NOISE, panels, strict=True):
        lengths = np.arange(1, 49)
        tasks = [setting(int(length), noise) for length in lengths]
        ratios = np.linspace(1 / DIMENSION, 6, 400)
        axes.plot(lengths / DIMENSION, [linear_attention_risk(task) for task in tasks], color=BLUE)
        axes.plot(lengths / DIMENSION, [least_squares_risk(task) for task in tasks], color=ORANGE)
        axes.plot(ratios, risk_limits(ratios, noise)["Bayes"], color=GREEN, label="Bayes, limit of high dimension")
        lower, upper = np.array([bayes_bounds(task) for task in tasks]).T
        axes.fill_between(lengths / DIMENSION, lower, upper, color=GREEN, alpha=0.15, lw=0, label="bounds for Bayes")
        for length in LENGTHS:
            task = setting(length, noise)
            sampled = sampled_risks(task, count=COUNT, rng=rng)
            for name, color in COLORS.items():
                if name == "least squares" and abs(length - DIMENSION) <= 4:
                    continue  # squared errors without a finite variance: an average would say nothing
                risk = sampled[name]
                label = f"{NAMES[name]}, sampled" if length == LENGTHS[0] else None
                axes.errorbar(length / DIMENSION, risk.mean, 2 * risk.error, fmt="o", ms=3.5, color=color, label=label)
                worst[name] = max(worst[name], _deviation(name, task, risk))
        crossing = crossover_length(DIMENSION, noise) / DIMENSION
        axes.axvline(crossing, color=theme.faint, lw=1, ls=(0, (2, 2)), zorder=0)
        axes.annotate("$N_*$", (crossing, 2.0), xytext=(4, 0), textcoords="offset points", color=theme.ink)
        axes.set(
            xlabel="$N/D$",
            yscale="log",
            ylim=(0.01, 3),
            xlim=(0, 6.1),
            title=rf"label noise $\sigma^2 = {noise:g}\,$tr$\,\Lambda$",
        )
    panels[0].set(ylabel=r"risk / tr$\,\Lambda$")
    panels[1].legend(loc="lower left", fontsize=8)
    caption = (
        f"Error in the noiseless target (white tokens, D = {DIMENSION}), in units of tr(Lambda). Lines: exact, but for Bayes, whose "
        f"line is the limit N = c D of high dimension. Dots: {COUNT:,} sampled sequences, bars of two standard errors; least squares "
        "has a finite mean only for N < D - 1 and N > D + 1, and squared errors of finite variance only further off. Dashed: "
        "N_* = (D + 1 + s)^2/(D + 1) with s = sigma^2/lambda, below which linear attention beats least squares.\n"
        f"Largest deviation of a dot in standard errors: linear attention {worst['linear']:.1f}, least squares "
        f"{worst['least squares']:.1f}. Bayes at D = {DIMENSION} is up to {worst['Bayes']:.1%} from its limit."
    )
    return Drawing(picture, caption)


def _deviation(name: str, task: RegressionTask, risk) -> float:
    """In standard errors from the exact risk; for Bayes relative to its limit."""
    if name == "Bayes":
        limit = risk_limits(task.context_length / task.dimension, task.noise_variance)["Bayes"]
        return abs(risk.mean / float(limit) - 1)
    exact = linear_attention_risk(task) if name == "linear" else least_squares_risk(task)
    return abs(risk.mean - exact) / risk.error
