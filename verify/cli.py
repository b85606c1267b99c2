"""The command ``iclflow``. Each sub-command imports what it needs, so that the symbolic ones start as fast as SymPy."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from .parser import build

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ..numerics.replay import ReplayResult
    from ..theory import TracePolynomial
    from ..theory.equations import Equation
    from .check import Evidence, Subject
    from .experiments import Setting
    from .official import Retrained

INTERRUPTED = 130
UNREAD = 141  # as a shell calls a command whose output nobody reads


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; bad input is answered in one line."""
    try:
        options = build().parse_args(arguments)
        code = COMMANDS[options.command](options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # who read the output has read enough, as in iclflow derive 24 | head -1
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what Python still has to flush
        return UNREAD
    except (ValueError, OSError) as problem:
        print(f"iclflow: error: {_one_line(problem)}", file=sys.stderr)
        return 2
    except ArithmeticError as problem:
        print(f"iclflow: {_one_line(problem)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("iclflow: interrupted", file=sys.stderr)
        return INTERRUPTED


def _one_line(problem: Exception) -> str:
    if isinstance(problem, OSError) and problem.filename:
        return f"{problem.filename}: {problem.strerror}"
    return " ".join(str(problem).split())


def check(options: argparse.Namespace) -> int:
    from .check import plan
    from .files import require_directory, require_writable

    if options.json:
        require_writable(Path(options.json))
    if options.report:
        require_directory(Path(options.report))
    evidence, interrupted = _evidence(plan(options.equation, full=options.full))
    from .table import show

    show(evidence, details=options.equation is not None)
    if options.json:
        from .files import write_atomically

        write_atomically(Path(options.json), json.dumps(evidence.to_json(), indent=1, allow_nan=False) + "\n")
    if options.report:
        from .report import write_report

        print(f"report: {write_report(evidence, Path(options.report))}")
    if interrupted:
        return INTERRUPTED
    return 1 if evidence.summary["fails"] else 0


def _evidence(subjects: "Sequence[Subject]") -> "tuple[Evidence, bool]":
    """Run the checks behind a progress bar; an interrupt keeps what has been done."""
    from tqdm import tqdm

    from .check import Evidence, run

    evidence = Evidence(planned=len(subjects))
    costs = [subject.expected_seconds for subject in subjects]
    layout = "{desc}: {percentage:3.0f} % |{bar}| {elapsed} passed, {remaining} left {postfix}"
    bar = tqdm(
        total=sum(costs), desc="checking", bar_format=layout, smoothing=0, disable=not sys.stderr.isatty(), leave=False
    )
    try:
        with bar:
            for evidence, cost in zip(run(subjects), costs, strict=True):
                bar.set_postfix_str(f"({evidence.entries[-1].equation})")
                bar.update(cost)
    except KeyboardInterrupt:
        return evidence, True
    return evidence, False


def _equation(number: str) -> "Equation":
    from ..theory.equations import equation

    try:
        return equation(number)
    except KeyError as problem:
        raise ValueError(problem.args[0]) from None


def derive(options: argparse.Namespace) -> int:
    from ..theory.export import render

    print(render(_equation(options.equation), options.format))
    return 0


def export(options: argparse.Namespace) -> int:
    from ..theory.equations import equations
    from ..theory.export import export as document
    from .files import require_writable, write_atomically

    path = Path(options.output)
    formats = {".tex": "tex", ".md": "markdown", ".json": "json"}
    if path.suffix not in formats:
        raise ValueError(f"{path}: the file must end in .tex, .md or .json, got {path.suffix or 'no ending'!r}")
    require_writable(path)
    entries = [_equation(number) for number in options.equation] if options.equation else equations()
    write_atomically(path, document(entries, formats[path.suffix]))
    return 0


def _print_formula(formula: "TracePolynomial", format: str) -> int:
    from ..theory.latex import formula_latex

    latex = format == "latex"
    where = rf",\quad {formula.stated_conditions(latex=True)}" if formula.conditions else ""
    print(formula_latex(formula) + where if latex else repr(formula))
    return 0


def expect(options: argparse.Namespace) -> int:
    from ..theory import expect as expectation
    from ..theory.grammar import parse

    return _print_formula(expectation(parse(options.expression)), options.format)


def gradient(options: argparse.Namespace) -> int:
    from ..theory import gradient as derivative
    from ..theory.grammar import parse, symbol

    return _print_formula(derivative(parse(options.expression), symbol(options.variable)), options.format)


def _setting(options: argparse.Namespace) -> "Setting":
    """The default setting with what the options replace in it."""
    from dataclasses import fields, replace

    from .experiments import DEFAULT
    from .files import require_writable

    if options.output:
        if not options.output.endswith(".npz"):
            raise ValueError(f"{options.output}: the file must end in .npz")
        require_writable(Path(options.output))
    given = {f.name: getattr(options, f.name, None) for f in fields(DEFAULT)}
    return replace(DEFAULT, **{name: value for name, value in given.items() if value is not None})


def _save_arrays(path: str | None, **arrays: object) -> None:
    from io import BytesIO

    import numpy as np

    from .files import write_atomically

    if path:
        buffer = BytesIO()
        np.savez_compressed(buffer, **arrays)  # pyright: ignore[reportArgumentType]
        write_atomically(Path(path), buffer.getvalue())


def flow(options: argparse.Namespace) -> int:
    from .experiments import flow as integrate
    from .experiments import plateaus
    from .runs import describe

    setting = _setting(options)
    run = integrate(setting)
    print(describe(setting, {"flow": plateaus(run)}))
    print(f"{run.statistics.steps} steps of {run.statistics.method} in {run.statistics.seconds:.2f} s")
    _save_arrays(options.output, times=run.times, loss=run.loss, **run.arrays)
    return 0


def train(options: argparse.Namespace) -> int:
    import numpy as np

    from .diagnosis import diagnose
    from .experiments import SGD_NOISE, plateaus, trained_loss, trained_plateaus, training
    from .experiments import flow as integrate
    from .runs import describe

    setting = _setting(options)
    run = training(setting, options.device)
    print(describe(setting, {"flow": plateaus(integrate(setting)), "SGD": trained_plateaus(setting, options.device)}))
    print(f"{round(setting.duration / 2 / setting.learning_rate)} steps of SGD in {run.seconds:.1f} s")
    loss = trained_loss(setting, options.device)
    expected = integrate(setting).loss_at(
        np.minimum(run.times, integrate(setting).times[-1])
    )  # the last step may lead beyond
    distance = float(np.sqrt(np.mean((loss - expected) ** 2)) / loss[0])
    print(f"the two losses differ by {distance:.1e} of the initial loss, root mean square over time")
    if not distance < SGD_NOISE:
        print(diagnose(run.times, loss, setting, noise=SGD_NOISE))
    _save_arrays(options.output, times=run.times, loss=loss, batch_loss=run.batch_loss, **run.states)
    return 0


def _replayed(options: argparse.Namespace) -> "ReplayResult | Retrained":
    from .official import retrain, settings

    path = Path(options.file)
    if options.training or settings(path).get("softmax"):
        return retrain(path)
    from ..numerics.replay import replay as rerun

    return rerun(path)


def replay(options: argparse.Namespace) -> int:
    from .files import require_writable, write_atomically

    if options.json:
        require_writable(Path(options.json))
    result = _replayed(options)
    print(result.summary())
    if options.json:
        write_atomically(Path(options.json), json.dumps(result.report(), indent=1, allow_nan=False) + "\n")
    return 0 if result.agrees else 1


def figure(options: argparse.Namespace) -> int:
    from .figures import check_path, find, save
    from .files import require_writable

    path = Path(options.output)
    find(options.name)
    check_path(path)
    require_writable(path)
    print(save(options.name, path))
    return 0


def sweep(options: argparse.Namespace) -> int:
    from ..numerics.results import save_results
    from .files import require_directory
    from .sweep import gather, run_sweep
    from .sweep_figure import save_drop_times
    from .sweep_file import read_sweep

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
    """Where the runs of a sweep are made."""
    import os

    from .sweep import cluster, processes, single_threaded

    if options.scheduler:
        if options.workers:
            raise ValueError("--workers must be left out with --scheduler: the cluster has its own")
        with cluster(options.scheduler) as executor:
            yield executor
        return
    count = (os.cpu_count() or 1) if options.workers is None else options.workers
    if count < 1:
        raise ValueError(f"--workers must be at least 1, got {count}")
    with single_threaded():
        yield lambda: processes(count)


def explore(options: argparse.Namespace) -> int:
    from .explorer import serve

    return serve(options.port, browser=not options.no_browser)


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "check": check,
    "derive": derive,
    "export": export,
    "expect": expect,
    "gradient": gradient,
    "flow": flow,
    "train": train,
    "replay": replay,
    "figure": figure,
    "sweep": sweep,
    "explore": explore,
}
