"""The paper's figures, theory drawn over simulation: ``draw("staircase")``, ``save("staircase", "staircase.png")``.

A drawing carries its caption, with the numbers of the comparison that it shows; ``save`` writes it beside the picture.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from io import BytesIO
from pathlib import Path
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from .. import figures
from ..files import write_atomically
from .style import LIGHT, Theme, letters_on, panels_of, themed

if TYPE_CHECKING:
    import xarray as xr

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


def draw(name: str, theme: Theme = LIGHT, *, style: str | None = None, size: tuple[float, float] | None = None) -> Drawing:
    """Draw one figure, in a matplotlib ``style`` and of a ``size`` in inches if they are given."""
    find(name)
    with themed(theme, style):
        drawing = FIGURES[name](theme)
        letters_on(drawing.figure)
        if size is not None:
            if min(size) <= 0:
                raise ValueError(f"size must be a positive width and height in inches, got {size!r}")
            drawing.figure.set_size_inches(*size)
    return drawing


def rendered(name: str, extension: str, theme: Theme = LIGHT) -> tuple[bytes, str]:
    """The bytes of a picture in one of ``FORMATS``, and its caption."""
    drawing = draw(name, theme)
    return _file(drawing, extension, theme), drawing.caption


def _file(drawing: Drawing, extension: str, theme: Theme, style: str | None = None, dpi: float | None = None) -> bytes:
    with themed(theme, style):
        if extension == ".gif":
            return drawing.animation()
        buffer = BytesIO()
        # Without a date, the same numbers give the same file.
        metadata = {"Date": None} if extension == ".svg" else {"CreationDate": None} if extension == ".pdf" else None
        drawing.figure.savefig(buffer, format=extension[1:], metadata=metadata, dpi=dpi or "figure")
    return buffer.getvalue()


def data_of(figure: Figure) -> "xr.Dataset":
    """What is drawn, panel by panel: lines as x and y, other points and ends of segments in pairs, images as matrices; with labels."""
    import xarray as xr

    found = {}
    for letter, axes in zip(ascii_lowercase, panels_of(figure), strict=False):
        titles = {"panel": axes.get_title(), "xlabel": axes.get_xlabel(), "ylabel": axes.get_ylabel()}
        arrays: list[tuple[Artist, dict[str, Any]]] = [(line, {"x": line.get_xdata(), "y": line.get_ydata()}) for line in axes.lines]
        arrays += [(image, {"image": image.get_array()}) for image in axes.images]
        for one in axes.collections:
            shapes: list[Any] = one.get_segments() if isinstance(one, LineCollection) else [path.vertices for path in one.get_paths()]
            offsets = np.asarray(one.get_offsets())
            pieces = offsets if len(offsets) > 1 else np.concatenate([*map(np.asarray, shapes)] or [()])
            arrays.append((one, {"points": pieces}))
        for i, (artist, parts) in enumerate(arrays, 1):
            label = str(artist.get_label()) * (not str(artist.get_label()).startswith("_"))
            for part, values in parts.items():
                name, values = f"{letter}_{i}_{part}", np.ma.filled(np.ma.asarray(values, dtype=float), np.nan)
                dims = (f"{letter}_{i}", *(f"{name}_{axis}" for axis in range(1, values.ndim)))
                found[name] = (dims, values, {key: text for key, text in (titles | {"label": label}).items() if text})
    return xr.Dataset(found)


def check_path(path: Path) -> None:
    """Raise ``ValueError`` for a file name that does not end in the name of a picture format."""
    if path.suffix not in FORMATS:
        raise ValueError(f"{path}: the file must end in one of {', '.join(FORMATS)}, got {path.suffix or 'no ending'!r}")


def save(
    name: str, path: Path, theme: Theme = LIGHT, *, style: str | None = None, size: tuple[float, float] | None = None,
    dpi: float | None = None, data: Path | None = None,
) -> str:  # fmt: skip
    """Draw a figure to a file, its caption to a text file beside it, what it shows to a netCDF file ``data``; returns the caption."""
    check_path(path)
    drawing = draw(name, theme, style=style, size=size)
    write_atomically(path, _file(drawing, path.suffix, theme, style, dpi))
    write_atomically(path.with_suffix(".txt"), drawing.caption + "\n")
    if data is not None:
        from ...numerics.dynamics.storage import save_results

        save_results(data_of(drawing.figure).assign_attrs(figure=name, caption=drawing.caption), data)
    return drawing.caption


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
            beside_axes(axes, rf"$\mathcal{{L}}(\mathcal{{M}}_{m})$", level, theme, -4 if crowded else 0)


def beside_axes(axes: Axes, text: str, level: float, theme: Theme, shift: int = 0) -> None:
    """A name of theory's in the right margin, at a level or so many points above it."""
    axes.annotate(text, (1, level), (5, shift), ("axes fraction", "data"), "offset points", va="center", color=theme.theory)


def listed(numbers: Iterable[float], form: str = ".4f") -> str:
    """Numbers for a caption."""
    return ", ".join(f"{number:{form}}" for number in numbers)
