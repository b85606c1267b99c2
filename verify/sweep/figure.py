"""The figure of a sweep: the time of each drop against the varied parameter."""

from io import BytesIO
from pathlib import Path

import numpy as np
import xarray as xr

from ..figures.gallery import canvas
from ..figures.style import LIGHT, SERIES, Theme, themed
from ..files import write_atomically

FEW_SEEDS = 50  # that have a place each on the axis, if nothing else varies


def save_drop_times(results: xr.Dataset, path: Path, theme: Theme = LIGHT) -> str:
    """Draw the drop times of a sweep to a file; returns the caption, which is written beside it too."""
    with themed(theme):
        picture, caption = drop_times(results, theme)
        buffer = BytesIO()
        picture.savefig(buffer, format=path.suffix[1:])
    write_atomically(path, buffer.getvalue())
    write_atomically(path.with_suffix(".txt"), caption + "\n")
    return caption


def parameter(results: xr.Dataset) -> str:
    """The axis to draw against: the first that is not the seed, or few seeds; none for many seeds, which are one cloud."""
    axes = [str(name) for name in results.drop_time.dims if name != "drop"]
    return next((name for name in axes if name != "seed" or (results.sizes[name] <= FEW_SEEDS and len(axes) == 1)), "")


def drop_times(results: xr.Dataset, theme: Theme):
    """A point for each run, the median over runs as a line, the median of theory's predictions as dashes."""
    axis = parameter(results)
    labels = results[axis].values if axis else np.array(["all runs"])
    numeric = bool(axis) and np.issubdtype(labels.dtype, np.number) and axis not in ("seed", "tilt_seed")
    x = labels.astype(float) if numeric else np.arange(len(labels), dtype=float)
    order = np.argsort(x)
    measured, predicted = (_by_parameter(results[name], axis) for name in ("drop_time", "predicted_drop_time"))
    picture, axes = canvas(theme)
    lines = []
    for drop in range(measured.shape[-1]):
        color = SERIES[drop % len(SERIES)]
        runs, theory = measured[..., drop], predicted[..., drop]
        spread = np.repeat(x, runs.shape[1])
        axes.plot(spread, runs.ravel(), "o", ms=3, alpha=0.35, color=color, mew=0)
        axes.plot(x[order], _median(runs)[order], color=color, label=f"drop {drop + 1}")
        last = drop == measured.shape[-1] - 1
        axes.plot(x[order], _median(theory)[order], color=theme.theory, ls=(0, (4, 3)), lw=1.0, label="predicted" if last else None)
        lines.append(f"Drop {drop + 1}: median {', '.join(f'{t:.4g}' for t in _median(runs)[order])}.")
    if numeric and x.min() > 0 and x.max() >= 4 * x.min():
        axes.set(xscale="log")
    else:
        axes.set_xticks(x, [f"{label:g}" if numeric else str(label) for label in labels])
    axes.set(xlabel=axis.replace("_", " "), ylabel=r"drop time $t/\tau$", yscale="log")
    if measured.shape[-1]:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    runs = int(np.prod(measured.shape[:2]))
    shown = ", ".join(f"{label:g}" if numeric else str(label) for label in labels[order])
    title = f"Drop times of {runs} runs against {axis or 'nothing'}: {shown}."
    return picture, "\n".join([title, *lines])


def _by_parameter(values: xr.DataArray, axis: str) -> np.ndarray:
    """As (values of the parameter, runs there, drops)."""
    ordered = values.transpose(axis, ..., "drop") if axis else values.expand_dims("all")
    return ordered.values.reshape(ordered.shape[0], int(np.prod(ordered.shape[1:-1])), ordered.shape[-1])


def _median(values: np.ndarray) -> np.ndarray:
    """The median over runs; NaN if fewer than half have the drop, since it would be the median of the early ones."""
    return np.median(np.where(np.isnan(values), np.inf, values), axis=1, keepdims=False) * np.where(
        np.isnan(values).sum(axis=1) * 2 < values.shape[1], 1.0, np.nan
    )
