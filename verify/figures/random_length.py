"""Figure of contexts of random length: three normalisations, derived and trained, and what each makes of long contexts."""

import numpy as np

from ...numerics.tasks.regression import RegressionTask
from ..experiments.prefixes import prefix_loss, prefix_plateaus, prefix_training
from ..experiments.varied_tasks import (
    LENGTH,
    LONGEST,
    OFFICIAL,
    RUNS,
    SHORT,
    SPECTRUM,
    flow,
    levels,
    trained_loss,
    trained_plateaus,
    training,
)
from .gallery import Drawing, canvas, figure, listed
from .style import LOSS, SERIES, TIME, Theme

# The name of the run, its task, and what the sum over n tokens is divided by.
NORMALISATIONS = {
    "random length": (SHORT, "by $n$"),
    "longest": (LONGEST, "by $N$"),
    "official": (OFFICIAL, "by $n + 1$ (official)"),
}


def _trained(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, loss and plateaus of the trained network; all prefixes of plain sequences for the official code's."""
    if name == "official":
        return prefix_training().times, prefix_loss(), prefix_plateaus().levels
    return training(name).times, trained_loss(name), trained_plateaus(name).levels


@figure("random-length")
def random_length(theme: Theme) -> Drawing:
    """Contexts of random length, averaged in three ways: levels and times, and the loss left by long contexts."""
    picture, (left, right) = canvas(theme, 9.2, 3.8, ncols=2)
    longest = max(RUNS[name].duration for name in NORMALISATIONS)
    lengths = np.unique(np.geomspace(1, 1000, 40).round().astype(int))
    lines = []
    for (name, (task, label)), color in zip(NORMALISATIONS.items(), SERIES, strict=False):
        times, losses, plateaus = _trained(name)
        left.plot(times, losses, color=color, lw=4.0, alpha=0.35)
        fine = np.linspace(0.0, RUNS[name].duration, 1500)
        left.plot(fine, flow(name).loss_at(fine), color=color, lw=1.3, label=f"sum divided {label}")
        for level in levels(task):
            left.axhline(level, color=color, lw=0.9, ls=(0, (4, 3)), zorder=1)
        gain = {"random length": "present"}.get(name, name)
        ends = [
            levels(RegressionTask(eigenvalues=SPECTRUM, context_lengths=range(1, int(n) + 1), context_gain=gain))[-1]
            for n in lengths
        ]
        right.plot(lengths, ends, color=color, label=f"divided {label}")
        right.plot([LENGTH], plateaus[-1:], "o", color=color, mec=theme.ink, ms=6)
        lines.append(
            f"{name}: theory {listed(levels(task))}; trained {listed(plateaus)}; N_e = {task.effective_context_length:.3f}."
        )
    left.set(xscale="log", xlabel=TIME, ylabel=LOSS, xlim=(20, longest), ylim=(0.5, 1.62))
    left.legend(loc="upper right")
    fixed = [levels(RegressionTask(eigenvalues=SPECTRUM, context_length=int(n)))[-1] for n in lengths]
    right.plot(lengths, fixed, color=theme.ink, lw=1.0, ls=(0, (4, 3)), label="all contexts of $N$")
    right.axhline(sum(SPECTRUM) / 4, color=theme.faint, lw=1, ls=(0, (1, 2)))
    right.annotate(
        r"$\mathrm{tr}\,\Lambda/4$", (1, sum(SPECTRUM) / 4), xytext=(4, -3), textcoords="offset points", va="top",
        color=theme.ink, fontsize=9,
    )  # fmt: skip
    right.set(xscale="log", xlabel="longest context $N$", ylabel="final loss", xlim=(1, 1000), ylim=(0, sum(SPECTRUM)))
    right.legend(loc="upper right")
    caption = (
        f"Contexts of n tokens, n uniform on 1 to N (V4), with sums over a context divided in three ways. Left: separate attention, D = 3, "
        f"N = {LENGTH}, H = 4, eigenvalues {listed(SPECTRUM, 'g')}, initial scale 0.1; thin: gradient flow; thick, pale: PyTorch, its "
        "population loss, for the official code's way on all prefixes of plain sequences, each divided by all its tokens; dashed: theory. "
        "Drops are later by 1/E(g); the spikes of training are steps on rare, large sequences. "
        "Right: the final loss by the longest context; points: trained; divided by N, a quarter stays.\n"
        + "\n".join(lines)
    )
    return Drawing(picture, caption)
