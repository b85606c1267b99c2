"""The command ``iclflow``. Each sub-command imports what it needs, so that the symbolic ones start as fast as SymPy."""

import argparse
import atexit
import gc
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .official import official
from .parser import build
from .progress import bar, clock
from .runs import flow, sweep, train

if TYPE_CHECKING:
    from ...numerics.replay.replay import ReplayResult
    from ...theory import TracePolynomial
    from ...theory.derivations.registry import Equation
    from ...theory.proofs.building import BuiltDerivation
    from ..evidence.check import Evidence, Subject
    from ..evidence.run import Second
    from ..training.official import Retrained

INTERRUPTED = 130
UNREAD = 141  # a shell's exit code for a command whose output is not read


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; bad input is answered in one line. Without arguments, the process is the command's."""
    if arguments is None:
        gc.set_threshold(200_000, 20, 20)  # nearly all that is imported and computed stays to the end ...
        atexit.register(gc.freeze)  # ... and need not be collected there
    try:
        options = build().parse_args(arguments)
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: print(f"iclflow: warning: {message}", file=sys.stderr)
            code = COMMANDS[options.command](options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader has stopped, as in iclflow derive 24 | head -1
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # takes what Python still has to flush
        return UNREAD
    except (ValueError, OSError) as problem:
        print(f"iclflow: error: {_one_line(problem)}", file=sys.stderr)
        return 2
    except ArithmeticError as problem:
        print(f"iclflow: {_one_line(problem)}", file=sys.stderr)
        return 1
    except RuntimeError as problem:
        solver = sys.modules.get("iclflow.numerics.dynamics.solver")  # SciPy is not loaded for the question
        if solver is None or not isinstance(problem, solver.FlowError):
            raise
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
    from ..experiments.processes import single_threaded
    from ..files import beside, require_directory, require_writable, write_atomically

    if options.json:
        require_writable(Path(options.json))
    if options.report:
        require_directory(Path(options.report))
    with single_threaded():  # two processes share the work; threads must be set before NumPy is loaded
        from ..evidence.check import plan
        from ..evidence.run import second_process

        with second_process(options.seed) if options.equation is None else nullcontext() as second:
            evidence, interrupted = _evidence(plan(options.equation, full=options.full), options.seed, second)
    from ..evidence.table import show

    show(evidence, details=options.equation is not None)
    if options.json:
        path = beside(Path(options.json), evidence.complete)
        write_atomically(path, json.dumps(evidence.to_json(), indent=1, allow_nan=False) + "\n")
        if interrupted:
            print(f"partial evidence: {path}")
    if options.report:
        from ..evidence.page import write_report

        print(f"report: {write_report(evidence, Path(options.report))}")
    if interrupted:
        return INTERRUPTED
    return 1 if evidence.summary["fails"] else 0


def _evidence(subjects: "Sequence[Subject]", seed: int, second: "Second | None") -> "tuple[Evidence, bool]":
    """Run the checks behind a progress bar; an interrupt keeps what has been done."""
    from ..evidence.check import Evidence
    from ..evidence.run import run

    evidence = Evidence(planned=len(subjects), seed=seed)
    costs = {subject.number: subject.expected_seconds for subject in subjects}
    try:
        with bar("checking", total=sum(costs.values())) as passed:
            for evidence in run(subjects, seed=seed, second=second):
                passed.update(sum(costs[entry.equation] for entry in evidence.entries) - passed.n)
    except KeyboardInterrupt:
        return evidence, True
    return evidence, False


def _equation(number: str) -> "Equation":
    from ...theory.equations import equation

    try:
        return equation(number)
    except KeyError as problem:
        raise ValueError(problem.args[0]) from None


def derive(options: argparse.Namespace) -> int:
    from ...theory.derivations.documents import render
    from ...theory.equations import equations
    from ...theory.typesetting.sentences import sentence_text

    if options.list:
        return _listed(equations())
    if not options.equation:
        raise ValueError("required: N, the number of an equation; --list shows them")
    task = _task(options.task) if options.task else None
    for i, entry in enumerate([_equation(number) for number in options.equation]):
        print("\n" * (i > 0), end="")
        if task is None:
            print(render(entry, options.format, full=options.full, judged=options.judge))
            continue
        derivation = entry.derive(task=task)
        derivation = derivation.judged() if options.judge else derivation
        if options.format == "text":
            print(f"({entry.number}) {sentence_text(entry.title)}, for {' '.join(options.task)}")
        print({"text": str, "latex": type(derivation).latex, "markdown": type(derivation).markdown}[options.format](derivation))
    return 0


def _listed(entries: "Iterable[Equation]") -> int:
    """A row for each equation: its number, title, kind and section."""
    from ...theory.typesetting.sentences import sentence_text

    for entry in entries:
        print(f"{entry.number:14} {sentence_text(entry.title)} [{entry.kind}; {entry.section}]")
    return 0


def search(options: argparse.Namespace) -> int:
    from ...theory.equations import search as find

    words = " ".join(options.words)
    if not (found := find(words)):
        raise ArithmeticError(f"no equation has all of the words {words!r} in its number, title, section, conditions or remark")
    return _listed(found)


def _task(words: list[str]) -> Any:
    """A task in symbols from noise, noise=1/2, task_covariance, query_covariance, elliptical, random_length, commuting."""
    from ...theory.notation import Lambda_q, sigma
    from ...theory.results.task.population import Sigma_w, Task
    from ...theory.results.variations.token_laws import elliptical_of

    varied: dict[str, Any] = {"noise": sigma**2, "task_covariance": Sigma_w, "query_covariance": Lambda_q, "elliptical": elliptical_of}
    varied |= {"random_length": True, "commuting": True}
    chosen = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name not in varied or (equals and name != "noise"):
            raise ValueError(f"--task must name {', '.join(varied)} or noise=VARIANCE, got {word!r}")
        try:
            chosen["token_law" if name == "elliptical" else name] = Fraction(value) if equals else varied[name]
        except ValueError:
            raise ValueError(f"--task noise must be a number such as 1/2, got {value!r}") from None
    return Task(**chosen)


def export(options: argparse.Namespace) -> int:
    from ...theory.derivations.documents import export as document
    from ...theory.equations import equations
    from ..files import require_writable, write_atomically

    path = Path(options.output)
    formats = {".tex": "tex", ".md": "markdown", ".json": "json"}
    if path.suffix not in formats:
        raise ValueError(f"{path}: the file must end in .tex, .md or .json, got {path.suffix or 'no ending'!r}")
    require_writable(path)
    entries = [_equation(number) for number in options.equation] if options.equation else equations()
    chosen = {"title": options.title} if options.title else {}
    content = document(entries, formats[path.suffix], sections=options.sections or (), progress=partial(bar, "exporting"), **chosen)
    write_atomically(path, content)
    return 0


def map_of_uses(options: argparse.Namespace) -> int:
    from ..evidence.map import graph, statuses, svg
    from ..files import require_writable, write_atomically

    path = Path(options.output)
    if path.suffix not in (".svg", ".json"):
        raise ValueError(f"{path}: the file must end in .svg or .json, got {path.suffix or 'no ending'!r}")
    require_writable(path)
    try:
        judged = statuses(json.loads(Path(options.json).read_text("utf-8"))) if options.json else None
    except ValueError as error:
        raise ValueError(f"{options.json}: {error}") from None
    drawn = graph(judged, [_equation(options.equation).number] if options.equation else None)
    shown = svg(drawn, levels=bool(options.equation)) if path.suffix == ".svg" else json.dumps(drawn, indent=1) + "\n"
    write_atomically(path, shown)
    return 0


def _shown(formula: "TracePolynomial", format: str) -> str:
    from ...theory.typesetting.latex import formula_latex

    latex = format == "latex"
    conditions = rf",\quad {formula.stated_conditions(latex=True)}" if formula.conditions else ""
    return formula_latex(formula) + conditions if latex else repr(formula)


def _steps(derivation: "BuiltDerivation", format: str) -> str:
    return derivation.latex() if format == "latex" else str(derivation)


def expect(options: argparse.Namespace) -> int:
    from ...theory import derive, expect
    from ...theory.derivations.heads import carried_out
    from ...theory.proofs.meaning import read_text

    formula, meaning = read_text(options.expression, options.let)
    laws = list(meaning.laws.values())
    with clock("iclflow expect"):
        steps = derive(formula).expect(laws, one_by_one=True) if options.steps else None
        shown = _steps(steps, options.format) if steps and steps.lines else _shown(expect(carried_out(formula), laws), options.format)
    print(shown)
    return 0


def gradient(options: argparse.Namespace) -> int:
    from ...theory import TracePolynomial, derive, gradient as derivative
    from ...theory.derivations.heads import carried_out
    from ...theory.proofs.meaning import read_text

    formula, meaning = read_text(options.expression, options.let)
    expression, variable = TracePolynomial(carried_out(formula)), meaning.letters.named(options.variable)
    result = derivative(expression, variable)
    if variable not in expression.free_symbols:  # its derivative is 0: surely a mistake
        held = ", ".join(sorted(map(str, expression.free_symbols))) or "no symbol"
        raise ValueError(f"{options.variable} does not occur in {expression}, which holds {held}")
    print(_steps(derive(formula).gradient(variable), options.format) if options.steps else _shown(result, options.format))
    return 0


def prove(options: argparse.Namespace) -> int:
    from ...theory.proofs.judging import judged, report
    from ..files import require_writable, write_atomically

    if options.json:
        require_writable(Path(options.json))
    lines = judged(Path(options.file))
    for line in lines:
        print(f"{line.number:4}  {line.status:7}  {' '.join(line.text.split())}")
        if line.status in ("fails", "unread"):
            print(f"{'':15}{line.reason}")
    found = report(lines)
    counts = {status: count for status, count in found["summary"].items() if count}
    print(", ".join(f"{count} {status}" for status, count in counts.items()) or "no line was found")
    if options.json:
        write_atomically(Path(options.json), json.dumps(found, indent=1, allow_nan=False) + "\n")
    if "fails" in counts:
        return 1
    return 2 if counts.keys() <= {"unread"} or (options.strict and "unread" in counts) else 0


def _replayed(options: argparse.Namespace) -> "ReplayResult | Retrained":
    from ...numerics.replay.recording import Recording
    from ...numerics.replay.replay import replay as rerun

    file = Recording(Path(options.file))
    if options.training or not file.arguments.replayable:
        from ..training.official import retrain

        return retrain(file)
    return rerun(file)


def replay(options: argparse.Namespace) -> int:
    from ..files import require_writable, write_atomically

    if options.json:
        require_writable(Path(options.json))
    result = _replayed(options)
    print(result.summary())
    if options.json:
        write_atomically(Path(options.json), json.dumps(result.report(), indent=1, allow_nan=False) + "\n")
    return 0 if result.agrees else 1


def figure(options: argparse.Namespace) -> int:
    from dataclasses import replace

    from ..figures.gallery import check_path, find, save
    from ..figures.style import LIGHT
    from ..files import require_writable

    path, data = Path(options.output), Path(options.data) if options.data else None
    find(options.name)
    check_path(path)
    if data is not None and data.suffix != ".nc":
        raise ValueError(f"{data}: the file must end in .nc")
    for one in filter(None, (path, data)):
        require_writable(one)
    theme = replace(LIGHT, quick=options.quick)
    with clock(f"drawing {options.name}"):
        caption = save(options.name, path, theme, style=options.style, size=options.size, dpi=options.dpi, data=data)
    print(caption)
    return 0


def explore(options: argparse.Namespace) -> int:
    from ..explorer.server import serve

    return serve(options.port, browser=not options.no_browser)


_NAMED = (check, derive, export, search, expect, gradient, prove, flow, train, replay, official, figure, sweep, explore)
COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {one.__name__: one for one in _NAMED} | {"map": map_of_uses}
