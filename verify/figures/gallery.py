"""The paper's figures, theory drawn over simulation: ``draw("staircase")``, ``save("staircase", "staircase.png")``.

A drawing carries its caption, with the numbers of the comparison that it shows; ``save`` writes it beside the picture.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import figures
from ..files import write_atomically
from .style import LIGHT, Theme, themed

FORMATS = (".png", ".pdf", ".svg", ".gif")


@dataclass(frozen=True)
class Drawing:
    """A figure and its caption. A moving figure has frames; ``show`` draws one of them."""

    figure: Figure
    caption: str
    frames: int = 1
    show: Callable[[int], None] | None = None

    def animation(self) -> bytes:
        """All frames as a GIF that repeats, the last one held."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from PIL import Image

        if self.show is None:
            raise ValueError("the file must end in .png, .pdf or .svg: this figure does not move")
        canvas, images = FigureCanvasAgg(self.figure), []
        self.figure.set_dpi(100)
        for frame in range(self.frames):
            self.show(frame)
            canvas.draw()
            self.figure.set_layout_engine("none")  # laid out once: the frames must not shift, and layout is most of the time
            images.append(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB").quantize(64))
        buffer = BytesIO()
        durations = [80] * (self.frames - 1) + [2000]
        images[0].save(buffer, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0)
        return buffer.getvalue()


FIGURES: dict[str, Callable[[Theme], Drawing]] = {}


def figure(name: str) -> Callable[[Callable[[Theme], Drawing]], Callable[[Theme], Drawing]]:
    """Register the function that draws a figure."""

    def register(function: Callable[[Theme], Drawing]) -> Callable[[Theme], Drawing]:
        FIGURES[name] = function
        return function

    return register


def load() -> dict[str, Callable[[Theme], Drawing]]:
    """All figures by name."""
    for module in figures.MODULES:
        import_module(f".{module}", figures.__name__)
    return FIGURES


def find(name: str) -> str:
    """Return the name of a figure; ``ValueError`` suggests the nearest name for an unknown one."""
    if name not in load():
        near = get_close_matches(name, FIGURES, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"there is no figure {name!r}{hint} (there are {', '.join(FIGURES)})")
    return name


def draw(name: str, theme: Theme = LIGHT) -> Drawing:
    """Draw one figure."""
    find(name)
    with themed(theme):
        return FIGURES[name](theme)


def rendered(name: str, extension: str, theme: Theme = LIGHT) -> tuple[bytes, str]:
    """The bytes of a picture in one of ``FORMATS``, and its caption."""
    find(name)
    with themed(theme):
        drawing = FIGURES[name](theme)
        if extension == ".gif":
            return drawing.animation(), drawing.caption
        buffer = BytesIO()
        # Without a date, the same numbers give the same file.
        metadata = {"Date": None} if extension == ".svg" else {"CreationDate": None} if extension == ".pdf" else None
        drawing.figure.savefig(buffer, format=extension[1:], metadata=metadata)
    return buffer.getvalue(), drawing.caption


def check_path(path: Path) -> None:
    """Raise ``ValueError`` for a file name that does not end in the name of a picture format."""
    if path.suffix not in FORMATS:
        raise ValueError(f"{path}: the file must end in one of {', '.join(FORMATS)}, got {path.suffix or 'no ending'!r}")


def save(name: str, path: Path, theme: Theme = LIGHT) -> str:
    """Draw a figure to a file, its caption to a text file beside it; returns the caption."""
    check_path(path)
    find(name)
    content, caption = rendered(name, path.suffix, theme)
    write_atomically(path, content)
    write_atomically(path.with_suffix(".txt"), caption + "\n")
    return caption


def canvas(theme: Theme, width: float = 6.4, height: float = 3.6, **grid) -> tuple[Figure, Any]:
    """Paper of the theme's colour with one pair of axes, or a grid of them."""
    picture = Figure(figsize=(width, height), layout="constrained", facecolor=theme.paper)
    return picture, picture.subplots(**grid)


def theory_levels(axes: Axes, levels: Iterable[float], theme: Theme, *, names: bool = True, label: str | None = None) -> None:
    """A dashed line at each loss of theory, named L(M_m) in the right margin if there is room for the name."""
    heights = list(levels)
    room, last, above = 0.055 * heights[0], heights[-1], float("inf")
    for m, level in enumerate(heights):
        crowded = m > 0 and heights[m - 1] - level < 0.1 * heights[0]
        axes.axhline(level, color=theme.theory, lw=1.0, ls=(0, (4, 3)), zorder=1, label=label if m == 0 else None)
        if names and above - level > room and (level == last or level - last > room):
            above = level
            axes.annotate(
                rf"$\mathcal{{L}}(\mathcal{{M}}_{m})$",
                (1.0, level),
                xytext=(5, -4 if crowded else 0),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                va="center",
                color=theme.theory,
            )


def listed(numbers: Iterable[float], form: str = ".4f") -> str:
    """Numbers for a caption."""
    return ", ".join(f"{number:{form}}" for number in numbers)
