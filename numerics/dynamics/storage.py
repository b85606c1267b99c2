"""Results of runs as xarray datasets, with dimensions time, seed, head, rank, component, saved without pickle.

A dataset holds ``loss`` (seed, time) and the weights of each run by their names, such as ``v`` (seed, time, head) and
``k`` (seed, time, head, rank, component). Files are netCDF 3, which SciPy reads and writes; they are written whole or not
at all.
"""

import json
import os
import stat
import uuid
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from .trajectory import Trajectory


def to_dataset(
    trajectories: Trajectory | Sequence[Trajectory],
    *,
    seeds: Sequence[int] | None = None,
    times: object = None,
    attributes: Mapping[str, object] | None = None,
) -> xr.Dataset:
    """The loss and the weights of runs that differ in their seed, at common ``times``.

    ``times`` defaults to the recorded times if they are the same for all runs, as for descent; several runs of gradient
    flow need ``times``, since the solver chooses its own. ``seeds`` labels the runs, by default 0, 1, 2, ...
    ``attributes`` (numbers, text, lists of them) are kept with the dataset.

    Raises ``ValueError`` for runs of different parametrizations or sizes, for recorded times that differ, for ``seeds``
    that are not one different number for each run, and for attributes that JSON cannot hold.
    """
    runs = [trajectories] if isinstance(trajectories, Trajectory) else list(trajectories)
    if not runs or not all(isinstance(run, Trajectory) for run in runs):
        raise TypeError(f"trajectories must be one Trajectory or several, got {trajectories!r}")
    first = runs[0]
    shapes = [array.shape for array in first.initial.arrays]
    for run in runs[1:]:
        if type(run.initial) is not type(first.initial) or [array.shape for array in run.initial.arrays] != shapes:
            raise ValueError("trajectories must share one parametrization and its sizes")
    labels = list(range(len(runs))) if seeds is None else list(seeds)
    if len(labels) != len(runs) or len(set(labels)) != len(labels):
        raise ValueError(f"seeds must be {len(runs)} different numbers, one for each run, got {seeds!r}")
    if times is None:
        if any(not np.array_equal(run.times, first.times) for run in runs):
            raise ValueError("times must be given: the runs recorded different ones")
        t = first.times
    else:
        t = np.asarray(times, dtype=np.float64)
        if t.ndim != 1 or not len(t) or not (np.diff(t) > 0).all():
            raise ValueError(f"times must be a list of increasing numbers, got {times!r}")

    variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
        "loss": (("seed", "time"), np.stack([np.asarray(run.loss_at(t)) for run in runs]))
    }
    states = np.stack([run.states_at(t) for run in runs])
    for name, array in zip(first.initial.shape_letters, first.initial.split(states), strict=True):
        variables[name] = ("seed", "time", *first.axes_of(name)), array
    dataset = xr.Dataset(variables, coords={"seed": labels, "time": t})
    kept = {"parametrization": type(first.initial).__name__, "tau": float(first.tau), **dict(attributes or {})}
    for name, value in kept.items():
        dataset.attrs[name] = _plain(name, value)
    return dataset


def save_results(dataset: xr.Dataset, path: str | PathLike[str]) -> None:
    """Write ``dataset`` to ``path`` as netCDF: to a temporary file beside it, which then takes its name.

    A write that fails or is interrupted leaves an older file as it was, and no other. Integers of 64 bits, which
    the format has not, are written as 32 bits or as text, and read back as they were. Raises ``ValueError`` for a variable of Python
    objects (they would need pickle), and the errors of the file system.
    """
    if not isinstance(dataset, xr.Dataset):
        raise TypeError(f"dataset must be an xarray.Dataset, got {dataset!r}")
    for name, variable in dataset.variables.items():
        if variable.dtype == object:
            raise ValueError(f"dataset must hold numbers and text only: {name!r} holds Python objects")
        if variable.dtype == np.int64:
            fits = not variable.size or np.abs(variable.values).max() < 2**31
            narrow = variable.values.astype(np.int32 if fits else str)
            dataset = _with(dataset, name, (variable.dims, narrow, {**variable.attrs, "dtype": "int64"}))
    target = Path(path).resolve()  # a link goes on pointing to its file
    if not target.parent.is_dir():
        raise FileNotFoundError(f"path must lie in a folder that exists, got {str(target)!r}")
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        dataset.to_netcdf(temporary, engine="scipy", format="NETCDF3_64BIT")
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def load_results(path: str | PathLike[str]) -> xr.Dataset:
    """The dataset that ``save_results`` wrote, in memory.

    Raises ``FileNotFoundError`` for a missing file and ``ValueError``, naming the file, for one that is not a dataset.
    """
    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        with xr.open_dataset(path, engine="scipy") as dataset:
            for name, variable in dataset.load().variables.items():
                if kind := variable.attrs.get("dtype"):
                    attributes = {key: value for key, value in variable.attrs.items() if key != "dtype"}
                    dataset = _with(dataset, name, (variable.dims, variable.values.astype(kind), attributes))
            return dataset
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ValueError(f"{path}: cannot be read as a netCDF dataset ({error})") from error


def _with(dataset: xr.Dataset, name: Any, variable: tuple) -> xr.Dataset:
    return dataset.assign_coords({name: variable}) if name in dataset.coords else dataset.assign({name: variable})


def _plain(name: str, value: object) -> object:
    if isinstance(value, int | float | str | np.integer | np.floating) and not isinstance(value, bool):
        return value
    try:
        return json.dumps(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"attributes must hold numbers, text and lists of them: {name} is {value!r}") from error
