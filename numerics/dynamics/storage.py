"""Files of xarray datasets: netCDF 3, which SciPy reads and writes, without pickle; they are written whole or not at all."""

import os
import stat
import uuid
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr


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
