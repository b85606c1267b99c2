"""The in-weight then in-context curves from theory over trained ones, averaged over seeds, and how finite sets move the zero blocks."""

import numpy as np

from ..claims.in_weight.five_weights import five_weights
from ..claims.in_weight.zero_blocks import LEAK_SIZES, leaked
from ..experiments.in_weight import InWeightSetting, descended, flowing
from .gallery import Drawing, canvas, figure
from .style import SERIES, TIME, Theme

PORTIONS = (0.2, 0.6, 1.0)
LABELS = {
    "training": "training",
    "in context": "in-context test",
    "in weight": "in-weight test",
    "memory": "in-weight, noise in context",
}


@figure("in-weight")
def in_weight_theory(theme: Theme) -> Drawing:
    """Four losses for three portions of random tasks: the population flow over descent on training sets."""
    picture, panels = canvas(theme, 9.2, 3.3, ncols=len(PORTIONS), sharey=True)
    differences, reduced = [], []
    for portion, axes in zip(PORTIONS, panels, strict=True):
        setting = InWeightSetting(portion)
        runs, expected, five = descended(setting), flowing(setting), five_weights(setting)
        for (kind, label), color in zip(LABELS.items(), SERIES, strict=False):
            found, theory = runs[kind].mean(axis=0), expected[kind].mean(axis=0)
            axes.plot(setting.times, found, color=color, lw=4.0, alpha=0.55, label=label)
            axes.plot(
                setting.times, theory, color=theme.ink, lw=0.9, label="theory: flow" if kind == "memory" else None
            )
            differences.append((portion, label, float(np.abs(found / theory - 1).max())))
            reduced.append(float(np.abs(found / five[kind].mean(axis=0) - 1).max()))
            axes.plot(
                setting.times,
                five[kind].mean(axis=0),
                color=theme.theory,
                lw=1.6,
                ls=(0, (1, 3)),
                label="theory: five equations" if kind == "memory" else None,
            )
        axes.set(xlabel=TIME, xlim=(0, setting.duration), ylim=(0, 1.25), title=f"{1 - portion:.0%} of tasks fixed")
    panels[0].set_ylabel("loss")
    picture.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=8)
    setting = InWeightSetting(PORTIONS[0])
    lines = [
        f"{1 - p:.0%} fixed: "
        + ", ".join(f"{label} {difference:.2%}" for q, label, difference in differences if q == p)
        for p in PORTIONS
    ]
    caption = (
        f"Merged attention with all its blocks; D = {setting.dimension}, N = {setting.context_length}, H = {setting.heads}, "
        f"Lambda = I/{setting.dimension}, all weights initially by (34) with scale {setting.scale}. Coloured: full-batch "
        f"descent on {setting.sequences:,} sequences, mean of {setting.seeds} seeds, each with its own set, weights and fixed "
        "task vector. Black: gradient flow on the population loss that the theory derives, from the same weights; nothing is "
        "fitted.\nLargest relative difference of the means at any time: " + "; ".join(lines) + ".\n"
        f"Dotted: five ordinary differential equations (V6-five) for all {setting.heads} heads, at most {max(reduced):.2%} from training."
    )
    return Drawing(picture, caption)


@figure("zero-blocks")
def zero_blocks(theme: Theme) -> Drawing:
    """The norm of the zero blocks on P sequences, after the drop and at the end, with the predicted exponents."""
    picture, axes = canvas(theme, 5.2, 3.6)
    sizes, slopes = np.array(LEAK_SIZES, dtype=float), []
    for column, (label, exponent) in enumerate((("after the drop", -1 / 2), ("at the end", -1 / 4))):
        norms, color = leaked()[:, :, column], SERIES[column]
        means = np.exp(np.log(norms).mean(axis=0))
        axes.loglog(np.tile(sizes, len(norms)), norms.ravel(), ".", color=color, alpha=0.35, ms=4)
        axes.loglog(sizes, means, "o", color=color, ms=6, label=label)
        middle = np.exp(np.log(means).mean() + exponent * (np.log(sizes) - np.log(sizes).mean()))
        axes.loglog(sizes, middle, color=theme.ink, lw=1.0, label="theory: slopes $-1/2$, $-1/4$" if column else None)
        slopes.append(np.polyfit(np.log(sizes), np.log(means), 1)[0])
    axes.set(xlabel="sequences $P$ in the training set", ylabel="norm of the zero blocks")
    axes.legend(loc="lower left")
    caption = (
        "The vector blocks of merged attention with four heads, zero at the start, on finite sets of random tasks (12 sets of each "
        "size).\n"
        f"Slope after the drop {slopes[0]:.3f}, predicted -1/2 (linear response to an error of P^(-1/2)); at the end "
        f"{slopes[1]:.3f}, predicted -1/4 (idle heads share a map of order P^(-1/2) between their two weights, V6-idle; with one head, or "
        "one-dimensional tokens, nothing would grow after the drop)."
    )
    return Drawing(picture, caption)
