"""The paper's figures, theory drawn over simulation: ``draw("staircase")``, ``save("staircase", "staircase.png")``.

A drawing carries its caption, with the numbers of the comparison that it shows; ``save`` writes it beside the picture.
"""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from . import predictions
from .experiments import DEFAULT, flow, plateaus, trained_loss, trained_plateaus, training
from .files import write_atomically
from .style import LIGHT, Theme, themed

FORMATS = (".png", ".pdf", ".svg")


@dataclass(frozen=True)
class Drawing:
    """A figure and what it shows, in words and numbers."""

    figure: Figure
    caption: str


FIGURES: dict[str, Callable[[Theme], Drawing]] = {}


def figure(name: str) -> Callable[[Callable[[Theme], Drawing]], Callable[[Theme], Drawing]]:
    """Register the function that draws a figure."""

    def register(function: Callable[[Theme], Drawing]) -> Callable[[Theme], Drawing]:
        FIGURES[name] = function
        return function

    return register


def find(name: str) -> str:
    """The name if there is such a figure; ``ValueError`` with the nearest if not."""
    if name not in FIGURES:
        near = get_close_matches(name, FIGURES, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"there is no figure {name!r}{hint} (there are {', '.join(FIGURES)})")
    return name


def draw(name: str, theme: Theme = LIGHT) -> Drawing:
    """Draw one figure."""
    with themed(theme):
        return FIGURES[find(name)](theme)


def rendered(name: str, extension: str, theme: Theme = LIGHT) -> tuple[bytes, str]:
    """The bytes of a picture in one of ``FORMATS``, and its caption."""
    with themed(theme):
        drawing = FIGURES[find(name)](theme)
        buffer = BytesIO()
        # Without a date, the same numbers give the same file.
        metadata = {"Date": None} if extension == ".svg" else {"CreationDate": None} if extension == ".pdf" else None
        drawing.figure.savefig(buffer, format=extension[1:], metadata=metadata)
    return buffer.getvalue(), drawing.caption


def check_path(path: Path) -> None:
    """``ValueError`` for a file name whose ending is no format of a picture."""
    if path.suffix not in FORMATS:
        raise ValueError(
            f"{path}: the file must end in one of {', '.join(FORMATS)}, got {path.suffix or 'no ending'!r}"
        )


def save(name: str, path: Path, theme: Theme = LIGHT) -> str:
    """Draw a figure to a file, its caption to a text file beside it; returns the caption."""
    check_path(path)
    find(name)
    content, caption = rendered(name, path.suffix, theme)
    write_atomically(path, content)
    write_atomically(path.with_suffix(".txt"), caption + "\n")
    return caption


def canvas(theme: Theme, width: float = 6.4, height: float = 3.6):
    """One pair of axes on paper of the theme's colour."""
    picture = Figure(figsize=(width, height), layout="constrained", facecolor=theme.paper)
    return picture, picture.subplots()


@figure("staircase")
def staircase(theme: Theme) -> Drawing:
    """Separate attention: the loss levels of theory over gradient flow over SGD."""
    run, levels = training(), predictions.plateau_losses(DEFAULT.task)
    expected, found = plateaus(flow()), trained_plateaus()
    picture, axes = canvas(theme, 6.8, 3.7)
    times = np.linspace(0, DEFAULT.duration, 3000)
    for m, level in enumerate(levels):
        label = "theory: loss at the saddles" if m == 0 else None
        axes.axhline(level, color=theme.theory, lw=1.0, ls=(0, (4, 3)), zorder=1, label=label)
        axes.annotate(
            rf"$\mathcal{{L}}(\mathcal{{M}}_{m})$",
            (1.0, level),
            xytext=(5, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            color=theme.theory,
        )
    axes.plot(run.times, trained_loss(), color=theme.trained, lw=4.5, zorder=2, label="PyTorch, SGD on fresh sequences")
    axes.plot(
        times, flow().loss_at(times), color=theme.ink, lw=1.3, zorder=3, label="gradient flow, same initial weights"
    )
    axes.set(xlabel=r"training time $t/\tau$", ylabel=r"loss $\mathcal{L}$", xlim=(0, DEFAULT.duration), ylim=(0, 1.06))
    handles, labels = axes.get_legend_handles_labels()
    order = [0, 2, 1]  # theory, flow, training
    axes.legend([handles[i] for i in order], [labels[i] for i in order], loc="upper right", bbox_to_anchor=(0.99, 0.93))
    drops = np.abs(found.drops / expected.drops - 1)
    heights = np.abs(found.levels / levels - 1)
    caption = (
        f"Linear attention with separate keys and queries (D = 4, N = {DEFAULT.context_length}, H = {DEFAULT.heads}, "
        f"R = {DEFAULT.rank}, eigenvalues {', '.join(map(str, DEFAULT.eigenvalues))}, initial scale {DEFAULT.scale}).\n"
        f"Theory, equation (24): {', '.join(f'{level:.4f}' for level in levels)}.\n"
        f"SGD (steps of {DEFAULT.learning_rate} on {DEFAULT.batch_size} fresh sequences each), plateau losses: "
        f"{', '.join(f'{level:.4f}' for level in found.levels)}; at most {heights.max():.2%} from theory.\n"
        f"Drop times t/tau of SGD: {', '.join(f'{t:.0f}' for t in found.drops)}; of the flow: "
        f"{', '.join(f'{t:.0f}' for t in expected.drops)}; apart by {', '.join(f'{d:.1%}' for d in drops)}."
    )
    return Drawing(picture, caption)
