"""The commands that make runs: ``flow``, ``train`` and ``sweep``. Each imports what it needs when it is called."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ..experiments.setting import Setting


def _checked_setting(options: argparse.Namespace) -> "Setting":
    """The setting that the options describe, after a check that the output file can be written."""
    from ..files import require_writable
    from .options import setting_of

    if options.output:
        if not options.output.endswith(".npz"):
            raise ValueError(f"{options.output}: the file must end in .npz")
        require_writable(Path(options.output))
    return setting_of(options)


def _save_arrays(path: str | None, setting: "Setting", **arrays: object) -> None:
    """Save the arrays, and the setting as JSON text."""
    from io import BytesIO

    import numpy as np

    from ..files import write_atomically

    if path:
        buffer = BytesIO()
        np.savez_compressed(buffer, setting=json.dumps(setting.to_json()), **arrays)  # pyright: ignore[reportArgumentType]
        write_atomically(Path(path), buffer.getvalue())


def flow(options: argparse.Namespace) -> int:
    from ..experiments.staircase import flow as integrate, plateaus
    from .plateau_table import describe, predicted

    setting = _checked_setting(options)
    run = integrate(setting)
    print(describe(setting, {"flow": plateaus(run)}, options.digits))
    print(predicted(setting))
    print(f"{run.statistics.steps} steps of {run.statistics.method} in {run.statistics.seconds:.2f} s")
    _save_arrays(options.output, setting, times=run.times, loss=run.loss, **run.arrays)
    return 0


def train(options: argparse.Namespace) -> int:
    import numpy as np

    from ..experiments.diagnosis import diagnose
    from ..experiments.staircase import plateaus, sgd_noise, theory, trained_loss, trained_plateaus, training
    from .plateau_table import describe

    setting = _checked_setting(options)
    _check_device(options.device)
    try:
        run = training(setting, options.device)
    except FloatingPointError as problem:
        found = str(problem).partition(":")[0]
        raise ValueError(f"--learning-rate must be smaller, got {setting.learning_rate!r}: {found}") from None
    flow, sgd, name = theory(setting), setting.optimizer == "sgd", {"sgd": "SGD", "adam": "Adam", "sign": "signs"}[setting.optimizer]
    found = {"flow" if sgd else "exact loss": plateaus(flow), name: trained_plateaus(setting, options.device)}
    print(describe(setting, found, options.digits))
    print(f"{setting.steps} steps of {name}{_momentum(setting)} in {run.seconds:.1f} s")
    loss = trained_loss(setting, options.device)
    expected = flow.loss_at(np.minimum(run.times, flow.times[-1]))  # the last step may end after the flow
    distance = float(np.sqrt(np.mean((loss - expected) ** 2)) / loss[0])
    print(f"the two losses differ by {distance:.1e} of the initial loss, root mean square over time")
    if sgd and not distance < sgd_noise(setting):
        print(diagnose(run.times, loss, setting, noise=sgd_noise(setting)))
    _save_arrays(options.output, setting, times=run.times, loss=loss, batch_loss=run.batch_loss, **run.states)
    return 0


def _check_device(name: str) -> None:
    import torch

    try:
        torch.Generator(name)
    except RuntimeError:
        raise ValueError(f"--device must be cpu, or cuda if PyTorch finds a GPU, got {name!r}") from None


def _momentum(setting: "Setting") -> str:
    from ...numerics.dynamics.momentum import heavy_ball_mass

    if not setting.momentum:
        return ""
    mass = heavy_ball_mass(setting.learning_rate, setting.momentum)
    return f" with momentum {setting.momentum:g}, beside the flow with mass {mass:.3g} tau, (V8-ball),"


def sweep(options: argparse.Namespace) -> int:
    from ...numerics.dynamics.storage import save_results
    from ..files import require_directory
    from ..sweep.description import read_sweep
    from ..sweep.execution import gather, run_sweep
    from ..sweep.figure import save_drop_times

    directory = Path(options.output)
    plan = read_sweep(Path(options.file))
    require_directory(directory)
    with _executor(options) as executor:
        outcome = run_sweep(plan, directory, executor)
    for name, problem in outcome.failures.items():
        print(f"run {name} failed: {problem}", file=sys.stderr)
    results = gather(plan, directory)
    save_results(results, directory / "results.nc")
    caption = save_drop_times(results, directory / "drops.png")
    print(f"{outcome.made} runs made, {outcome.found} found made before, {len(outcome.failures)} failed")
    print(f"{caption}\n{directory / 'results.nc'}")
    return 1 if outcome.failures else 0


@contextmanager
def _executor(options: argparse.Namespace) -> "Iterator[Callable[[], Executor]]":
    """The executor that makes the runs of a sweep."""
    import os

    from ..experiments.processes import single_threaded
    from ..sweep.execution import cluster, processes

    if options.scheduler:
        if options.workers:
            raise ValueError("--workers must be left out with --scheduler: the cluster has its own")
        with cluster(options.scheduler) as executor:
            yield executor
        return
    with single_threaded():
        yield lambda: processes(options.workers or os.cpu_count() or 1)
