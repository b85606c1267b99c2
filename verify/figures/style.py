"""The style of all figures: one palette that colour-blind readers can tell apart, for light and for dark pages."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib import style as styles
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure

# Okabe and Ito's palette (https://jfly.uni-koeln.de/color/), without its yellow, which vanishes on white.
ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE = "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"
# Vermilion is theory's colour, and no series has it.
SERIES = (BLUE, ORANGE, GREEN, PURPLE, SKY, "#6B6B6B")

BLUES = ("#08306B", "#2171B5", "#4FA3D9", "#9CCBE8")
TIME, LOSS = r"training time $t/\tau$", r"loss $\mathcal{L}$"


@dataclass(frozen=True)
class Theme:
    """The colours that change with the page; ``quick`` asks figures that take minutes for fewer or shorter runs."""

    ink: str
    paper: str
    faint: str
    trained: str
    theory: str
    quick: bool = False

    @property
    def share(self) -> int:
        """Networks are trained on one in so many sequences."""
        return 4 if self.quick else 1


LIGHT = Theme(ink="#1A1A1A", paper="#FFFFFF", faint="#B8BEC6", trained=SKY, theory=VERMILION)
DARK = Theme(ink="#E8EAED", paper="#16181D", faint="#5A616B", trained="#3E8FC4", theory="#F0803C")


def diverging(theme: Theme) -> Colormap:
    """Blue through the paper's colour to orange, which no common colour blindness confuses."""
    scale = LinearSegmentedColormap.from_list("diverging", [BLUE, theme.paper, VERMILION])
    return scale.with_extremes(bad=theme.paper)


@contextmanager
def themed(theme: Theme = LIGHT, style: str | None = None) -> Iterator[Theme]:
    """Settings for figures drawn inside the ``with`` block; a matplotlib ``style``, a name or a file, has the last word.

    ValueError for a style that matplotlib does not know.
    """
    settings: dict[Any, Any] = {
        "figure.facecolor": theme.paper,
        "axes.facecolor": theme.paper,
        "savefig.facecolor": theme.paper,
        "text.color": theme.ink,
        "axes.labelcolor": theme.ink,
        "axes.edgecolor": theme.ink,
        "xtick.color": theme.ink,
        "ytick.color": theme.ink,
        "axes.prop_cycle": cycler(color=SERIES),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.8,
        "font.size": 9.5,
        "font.family": "DejaVu Sans",
        "mathtext.fontset": "cm",
        "axes.labelsize": 10.5,
        "axes.titlesize": 10.5,
        "legend.frameon": False,
        "legend.fontsize": 9,
        "lines.linewidth": 1.4,
        "lines.solid_capstyle": "round",
        "svg.fonttype": "path",
        "svg.hashsalt": "iclflow",
        "savefig.dpi": 150,
    }
    with mpl.rc_context(settings):
        try:
            styles.use(style or {})
        except OSError as problem:
            raise ValueError(f"style must be the name or the file of a matplotlib style, got {style!r} ({problem})") from None
        yield theme


def letters_on(figure: Figure) -> None:
    """A letter, (a), (b), ..., at the upper left of each of several panels; colour bars have none."""
    panels = panels_of(figure)
    for letter, axes in zip(ascii_lowercase, panels if len(panels) > 1 else (), strict=False):
        axes.annotate(f"({letter})", (0, 1), (-4, 4), "axes fraction", "offset points", ha="right", va="bottom", fontweight="bold")


def panels_of(figure: Figure) -> list[Axes]:
    """The axes of a figure, without those of colour bars."""
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
