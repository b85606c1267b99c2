"""Many runs in files: on the processes of one machine, or on a Dask cluster, through one ``Executor``.

A run's file is named by a hash of its parameters and is written whole or not at all, as soon as the run is done. A
sweep that was killed therefore goes on where it stopped: it repeats the runs in flight, but none that is in a file. Flows that differ
in their seed alone go side by side, ``CHUNK`` of them as one task with one file. Runs depend neither on each other nor on their order
or place, side by side only to within the flow's tolerance.
"""

import hashlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from tqdm import tqdm

from ...numerics.dynamics.flow import MANY, gradient_flow
from ...numerics.dynamics.plateaus import find_plateaus
from ...numerics.dynamics.storage import load_results, save_results
from ...numerics.reductions.curve import predict_curve
from ...numerics.tasks.losses import QuadraticLoss
from ..experiments.setting import Setting
from ..experiments.staircase import descend, descended, plateaus
from ..files import require_directory
from .description import Run, Sweep

CHUNK, CHUNK_FILE = 250, "chunk-"  # flows that go side by side: they bound the memory of a process
KEPT = {"loss": "point", "drop_time": "drop", "predicted_drop_time": "predicted", "plateau_loss": "plateau"}  # with the axis of each
ATTEMPTS = 3  # how often a pool may lose a process without finishing a run


def make(run: Run) -> xr.Dataset:
    """The loss at equally spaced times of one run, its plateaus and drops, and the drops that theory predicts.

    Predicted drops are NaN if the initial weights are too large for a prediction.
    """
    setting, loss = run.setting, QuadraticLoss.population(run.setting.task)
    times = np.linspace(0.0, setting.duration, run.points)
    if run.method == "flow":
        flow = gradient_flow(loss, setting.weights, t_end=setting.duration, weight_decay=setting.weight_decay)
        curve, found = np.asarray(flow.loss_at(times)), plateaus(flow)
    else:
        at, values = _descended(run.method, setting, loss)
        curve, found = np.interp(times, at, values), find_plateaus(at, values)
    parts = (curve, found.drops, *_predicted(setting, [setting.weights]), found.levels)
    return xr.Dataset({name: (axis, part) for (name, axis), part in zip(KEPT.items(), parts, strict=True)}, {"time": ("point", times)})


def make_chunk(runs: tuple[Run, ...]) -> tuple[xr.Dataset | None, dict[str, str]]:
    """The results of runs that differ in their seed, along an axis ``run`` with their names; and the causes of failures by name."""
    try:
        return (make(runs[0]) if len(runs) == 1 else _side_by_side(runs)), {}
    except Exception as problem:  # any error of a run: the others go on
        if len(runs) == 1:
            return None, {runs[0].name: f"{type(problem).__name__}: {problem}"}
    made = {run: make_chunk((run,)) for run in runs}
    done = {run.name: dataset for run, (dataset, _) in made.items() if dataset is not None}
    rows = [[dataset[name].values for name in KEPT] for dataset in done.values()]
    return _joined(list(done), rows, runs[0]) if done else None, {n: cause for _, causes in made.values() for n, cause in causes.items()}


def _side_by_side(runs: tuple[Run, ...]) -> xr.Dataset:
    first, starts = runs[0], [run.setting.weights for run in runs]
    population, decay = QuadraticLoss.population(first.setting.task), first.setting.weight_decay
    flows = gradient_flow(population, starts, t_end=first.setting.duration, weight_decay=decay)
    curves, found = flows.loss_at(np.linspace(0.0, first.setting.duration, first.points)), find_plateaus(flows)
    predicted = _predicted(first.setting, starts)
    rows = [[curve, one.drops, drops, one.levels] for curve, one, drops in zip(curves, found, predicted, strict=True)]
    return _joined([run.name for run in runs], rows, first)


def _joined(names: list[str], rows: list[list[np.ndarray]], run: Run) -> xr.Dataset:
    columns = (_padded({(i,): part for i, part in enumerate(column)}, (len(names),)) for column in zip(*rows, strict=True))
    variables = {name: (("run", axis), column) for (name, axis), column in zip(KEPT.items(), columns, strict=True)}
    return xr.Dataset(variables, {"run": names, "time": ("point", np.linspace(0.0, run.setting.duration, run.points))})


def _descended(method: str, setting: Setting, loss: QuadraticLoss) -> tuple[np.ndarray, np.ndarray]:
    if method == "training":
        run = descend(setting, progress=False)
        return run.times, run.population_loss(loss)
    descent = descended(loss, setting.weights, setting, steps=setting.steps)
    return descent.times, descent.loss


def _predicted(setting: Setting, starts: list[Any]) -> list[np.ndarray]:
    """The predicted drops of each start, none with weight decay or for a start that is too large; together, or else one by one."""
    if setting.weight_decay:
        return [np.empty(0)] * len(starts)
    try:
        return [prediction.drops for prediction in predict_curve(setting.task, starts)]
    except ValueError:
        return [np.empty(0)] if len(starts) == 1 else [drops for start in starts for drops in _predicted(setting, [start])]


@dataclass(frozen=True)
class Outcome:
    """The result of a sweep: the numbers of runs found and made, and the causes of the failures."""

    found: int
    made: int
    failures: Mapping[str, str]


def run_sweep(sweep: Sweep, directory: Path, executor: Callable[[], Executor], *, progress: bool | None = None) -> Outcome:
    """Make the runs that ``directory`` doesn't hold yet, and write each to ``directory/runs`` when it is done.

    ``executor`` opens a pool; another is opened if it loses a process. A run that raises is listed in the outcome and
    leaves no file. Raises ``BrokenExecutor`` if pools break again and again without finishing a run.
    """
    require_directory(directory / "runs")
    wanted = {run.name: run for _, run in sweep.runs()}
    kept = _kept(directory)
    missing = {name: run for name, run in wanted.items() if name not in kept}
    found, failures, attempts = len(wanted) - len(missing), {}, 0
    visible = sys.stderr.isatty() if progress is None else progress
    with tqdm(total=len(wanted), initial=found, desc="sweep", unit="run", disable=not visible, leave=False) as bar:
        while missing:
            left = len(missing)
            try:
                for names, (result, causes) in _results(missing, executor):
                    if result is not None:
                        whole = f"{CHUNK_FILE}{hashlib.sha256(''.join(names).encode()).hexdigest()[:24]}"
                        save_results(result, directory / "runs" / f"{names[0] if len(names) == 1 else whole}.nc")
                    failures |= causes
                    for name in names:
                        del missing[name]
                    bar.update(len(names))
            except BrokenExecutor:
                attempts = attempts + 1 if len(missing) == left else 0
                if attempts == ATTEMPTS:
                    raise
    return Outcome(found, len(wanted) - found - len(failures), failures)


def _results(missing: Mapping[str, Run], executor: Callable[[], Executor]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The names and the results of each task, as it is done."""
    pool = executor()
    futures: dict[Future, tuple[str, ...]] = {}
    try:
        futures |= {pool.submit(make_chunk, tuple(missing[name] for name in names)): names for names in _tasks(missing)}
        for future in as_completed(futures):
            result = future.result()
            yield futures.pop(future), result
    finally:
        for future in futures:
            future.cancel()
        pool.shutdown(wait=False)


def _tasks(missing: Mapping[str, Run]) -> list[tuple[str, ...]]:
    """The names of the runs of each task: flows that differ in their seed alone in chunks, if there are enough, other runs one by one."""
    alike: dict[Any, list[str]] = {}
    for name, run in missing.items():
        alike.setdefault(replace(run, setting=replace(run.setting, seed=0)) if run.method == "flow" else name, []).append(name)
    sizes = {key: CHUNK if len(names) >= MANY else 1 for key, names in alike.items()}
    return [tuple(names[i : i + sizes[key]]) for key, names in alike.items() for i in range(0, len(names), sizes[key])]


def _kept(directory: Path) -> dict[str, tuple[Path, int | None]]:
    """By the name of a run, its file and its place in it: None in a file of its own."""
    kept: dict[str, tuple[Path, int | None]] = {}
    for path in (directory / "runs").glob("[!.]*.nc"):
        if path.stem.startswith(CHUNK_FILE):
            kept |= {str(name): (path, i) for i, name in enumerate(load_results(path).run.values)}
        else:
            kept[path.stem] = path, None
    return kept


def processes(count: int) -> Executor:
    """A pool of this many processes, each with one thread; for one run at a time this process itself is enough."""
    if count == 1:
        return ThreadPoolExecutor(1)
    from multiprocessing import get_context

    return ProcessPoolExecutor(count, mp_context=get_context("spawn"), initializer=_end_with_parent)


def _end_with_parent() -> None:
    """End a process of the pool when the sweep is killed, or it would wait for work forever; leave Ctrl-C to the sweep."""
    from multiprocessing import parent_process
    from threading import Thread

    def watch() -> None:
        parent = parent_process()
        if parent is not None:
            parent.join()
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=watch, daemon=True).start()


@contextmanager
def cluster(address: str) -> Iterator[Callable[[], Executor]]:
    """The executor of a running Dask scheduler. Its workers need iclflow, and one thread each.

    Raises ``ValueError`` if the package ``distributed`` is missing or no scheduler answers.
    """
    try:
        from distributed import Client
    except ImportError:
        raise ValueError("a scheduler needs the package distributed: pip install 'iclflow[distributed]'") from None
    try:
        client = Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError) as problem:
        raise ValueError(f"--scheduler {address}: no Dask scheduler answers: {problem}") from None
    with client:
        yield lambda: client.get_executor(pure=False)


def gather(sweep: Sweep, directory: Path) -> xr.Dataset:
    """All runs as one dataset, with an axis for each varied parameter; runs that failed are NaN.

    ``loss`` lies on these axes and ``point``, at the times of the coordinate ``time``; ``drop_time``,
    ``predicted_drop_time`` and ``plateau_loss`` have as many places as the run with the most, the rest NaN. The attribute ``setting``
    holds what all runs share, as JSON.
    """
    kept, parts = _kept(directory), {}
    load = cache(lambda path: {name: part.values for name, part in load_results(path).items()})
    for place, run in sweep.runs():
        if run.name in kept:
            path, i = kept[run.name]
            parts[place] = {name: load(path)[name][slice(None) if i is None else i] for name in KEPT}
    grid = tuple(axis.names[0] for axis in sweep.axes)
    variables: dict[str, Any] = {}
    drops = max((len(part[name]) for part in parts.values() for name in ("drop_time", "predicted_drop_time")), default=0)
    for name, axis in (KEPT | {"predicted_drop_time": "drop"}).items():
        values = {place: part[name] for place, part in parts.items()}
        variables[name] = ((*grid, axis), _padded(values, sweep.shape, drops if axis == "drop" else 0))
    varied = [axis for axis in sweep.axes if "duration" in axis.names]
    if varied:
        at = varied[0].names.index("duration")
        times = np.stack([np.linspace(0, row[at], sweep.base.points) for row in varied[0].rows])
        coordinates: dict[str, Any] = {"time": ((varied[0].names[0], "point"), times)}
    else:
        coordinates = {"time": ("point", np.linspace(0, sweep.base.setting.duration, sweep.base.points))}
    for axis in sweep.axes:
        for column, name in enumerate(axis.names):
            coordinates[name] = (axis.names[0], [_label(row[column]) for row in axis.rows])
    shared = json.dumps(sweep.base.setting.to_json())
    return xr.Dataset(variables, coords=coordinates, attrs={"method": sweep.base.method, "setting": shared})


def _padded(values: Mapping[tuple[int, ...], np.ndarray], shape: tuple[int, ...], least: int = 0) -> np.ndarray:
    whole = np.full((*shape, max([least, *map(len, values.values())])), np.nan)
    for place, row in values.items():
        whole[(*place, slice(len(row)))] = row
    return whole


def _label(value: Any) -> Any:
    """A value as a coordinate: a list of numbers is named by its text."""
    if not isinstance(value, tuple):
        return "" if value is None else value
    if value and isinstance(value[0], tuple):
        return "; ".join(_label(row) for row in value)
    return ", ".join(f"{number:g}" for number in value)
