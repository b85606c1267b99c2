"""Runs that differ in their seed as one xarray dataset, with dimensions time, seed, head, rank, component.

It holds ``loss`` (seed, time) and the weights of each run by their names, such as ``v`` (seed, time, head) and ``k`` (seed, time, head,
rank, component).
"""

import json
from collections.abc import Mapping, Sequence

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


def _plain(name: str, value: object) -> object:
    if isinstance(value, int | float | str | np.integer | np.floating) and not isinstance(value, bool):
        return value
    try:
        return json.dumps(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"attributes must hold numbers, text and lists of them: {name} is {value!r}") from error
