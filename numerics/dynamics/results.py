"""What every result can do: draw itself, become an xarray dataset, be saved, and print in a few lines."""

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from .._checks import instance

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes


class Variable(NamedTuple):
    """An array of a result with its axes, its name in words, its unit, and the picture that shows it, if one does."""

    dims: tuple[str, ...]
    values: Any
    words: str
    picture: str = ""
    units: str = "1"


def time_variable(times: np.ndarray, tau: float = 1.0) -> Variable:
    return Variable(("time",), times, "training time t", units="tau" if tau == 1 else f"units of time, tau = {tau:g}")


class Result:
    """The base of results. A subclass gives its ``variables``, the ``levels`` of its loss, and which properties are ``shown`` in print."""

    shown: ClassVar[tuple[str, ...]] = ()

    def variables(self) -> dict[str, Variable]:
        """{name: variable}; the coordinate of an axis bears its name."""
        raise NotImplementedError

    def attributes(self) -> dict[str, object]:
        """Numbers and texts that are kept with the dataset."""
        return {}

    def levels_shown(self) -> Iterable[float]:
        """The losses at which a picture of the loss has dashed lines."""
        return ()

    def to_xarray(self) -> "xr.Dataset":
        """A dataset with the names and units of everything in it."""
        import xarray as xr

        found = {
            name: (one.dims, np.asarray(one.values), {"long_name": one.words, "units": one.units}) for name, one in self.variables().items()
        }
        return xr.Dataset(found, attrs={"result": type(self).__name__, **self.attributes()})

    def save(self, path: str | PathLike[str]) -> None:
        """Write the dataset to a netCDF file, which :func:`load` reads."""
        from .storage import save_results

        save_results(self.to_xarray(), path)

    def plot(self, what: str = "loss", *, axes: "Axes | None" = None) -> "Axes":
        """Draw ``what`` over time, on new axes or ``axes``: the loss with its levels, or such as ``"weights"`` or ``"map"``.

        ValueError names what can be drawn.
        """
        variables = self.variables()
        known = dict.fromkeys(one.picture for one in variables.values() if one.picture)
        if not isinstance(what, str) or what not in known:
            raise ValueError(f"what must be one of {', '.join(map(repr, known)) or 'nothing: there is no picture'}, got {what!r}")
        drawn, axes = {name: one for name, one in variables.items() if one.picture == what}, new_axes() if axes is None else axes
        for level in self.levels_shown() if what == "loss" else ():
            axes.axhline(level, color="0.6", lw=1, ls="--", zorder=1)
        time = variables[next(iter(drawn.values())).dims[0]]
        for i, (name, one) in enumerate(drawn.items()):
            lines = axes.plot(time.values, np.reshape(one.values, (len(time.values), -1)), color=f"C{i}", lw=1.4)
            lines[0].set_label(name)
        axes.set(xlabel=time.words + f" [{time.units}]" * (time.units != "1"), ylabel=one.words if len(drawn) == 1 else what)
        if len(drawn) > 1:
            axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
        return axes

    def __repr__(self) -> str:
        return "\n  ".join([type(self).__name__, *(f"{name}: {brief(getattr(self, name))}" for name in self.shown)])


def load(path: str | PathLike[str]) -> "xr.Dataset":
    """The dataset that ``save`` wrote. FileNotFoundError or ValueError name a file that is missing or holds something else."""
    from .storage import load_results

    return load_results(instance("path", path, str | PathLike, "the name of a file"))


def new_axes() -> "Axes":
    """Axes of a new figure; only a picture loads matplotlib."""
    from matplotlib import pyplot

    return pyplot.figure(layout="constrained").add_subplot()


def brief(value: Any) -> str:
    """A value in at most a line: few numbers as they are, many by their shape and range."""
    if isinstance(value, np.ndarray) and value.size > 8 and value.dtype.kind in "fiu":
        return f"{' x '.join(map(str, value.shape))} numbers from {value.min():.6g} to {value.max():.6g}"
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=6, separator=", ").replace("\n", "")
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {'x'.join(map(str, np.shape(one)))}" for name, one in value.items())
    if isinstance(value, tuple) and value and not isinstance(value[0], int | float | str):
        return f"{len(value)} of {type(value[0]).__name__}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
