"""What the README quotes: ``python docs/figures.py [PROGRAM ...]`` runs the programs that print it and writes it anew.

Outputs of commands stand after markers ``<!-- output: COMMAND -->``. Measured figures stand in tables after ``<!-- figures: TABLE -->``:
they are read off what each program prints and kept in docs/figures.json, with the day, the machine and the program's fingerprint. Without
names all programs run, for about half an hour on two cores that do nothing else; ``--record`` runs none and writes the tables from the
record. Programs that compare with other packages need a Python that has these: ``--peers PYTHON``, ``--tensorgrad PYTHON``.
"""

import argparse
import contextlib
import hashlib
import io
import json
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from iclflow.verify.cli.main import main as cli
from iclflow.verify.files import write_atomically

ROOT = Path(__file__).parents[1]
README, RECORD = ROOT / "README.md", ROOT / "docs" / "figures.json"
NUMBER = r"([\d.]+(?:e-?\d+)?)"


class Program(NamedTuple):
    """What is run, the file that does the work, and the figures in what it prints: {name: a regular expression with one group}."""

    command: str
    source: str
    figures: Mapping[str, str]

    def fingerprint(self) -> str:
        """Of the file: figures of a program that has changed since are stale."""
        return hashlib.sha256((ROOT / self.source).read_bytes()).hexdigest()[:16]


def _column(row: str, column: int) -> str:
    """A column of the row of a printed table that begins with ``row``, counted from 1 after it."""
    return rf"(?m)^{re.escape(row)}(?: +\S+){{{column - 1}}} +{NUMBER}"


PROGRAMS = {
    "moments": Program(
        "python benchmarks/moments.py --tensorgrad {tensorgrad}",
        "benchmarks/moments.py",
        {
            "third": _column("E[S^3]", 3),
            "third_tensorgrad": _column("E[S^3]", 6),
            "seventh": _column("E[S^7]", 3),
            "seventh_pairings": _column("E[S^7]", 4),
        },
    ),
    "official": Program(
        "iclflow official --model attnS --head 5 --lr 0.02 --epoch 10001",
        "numerics/replay/replay.py",
        {"steps": rf"{NUMBER} steps replayed", "seconds": rf"from moments in {NUMBER} s"},
    ),
    "seeds": Program("python benchmarks/seeds_together.py", "benchmarks/seeds_together.py", {"ratio": rf"s: {NUMBER} times faster"}),
    "peers": Program(
        "python benchmarks/peers.py",
        "benchmarks/peers.py",
        {
            "iclflow": _column("iclflow compiled", 3),
            "diffrax": _column("diffrax Dopri8", 3),
            "heyoka": _column("heyoka", 3),
            "torchdiffeq": _column("torchdiffeq dopri8", 3),
        },
    ),
    "runs": Program("python benchmarks/figures_4_9.py", "benchmarks/figures_4_9.py", {"seconds": rf"wall time {NUMBER} s"}),
    "engine": Program(
        "python benchmarks/mutations.py", "benchmarks/mutations.py", {"caught": rf"caught {NUMBER}", "planted": rf"caught \S+ of {NUMBER}"}
    ),
    "sides": Program(
        "python benchmarks/statement_mutations.py",
        "benchmarks/statement_mutations.py",
        {"planted": rf"(?m)^{NUMBER} mutants", "refused": rf"{NUMBER} refused, \S+ equal to", "equal": rf"{NUMBER} equal to the original"},
    ),
    "lines": Program(
        "python benchmarks/line_mutations.py",
        "benchmarks/line_mutations.py",
        {"planted": _column("all", 1), "caught": _column("all", 2), "equal": _column("all", 3)},
    ),
    "claims": Program(
        "python benchmarks/planted_mistakes.py --full",
        "benchmarks/planted_mistakes.py",
        {"caught": rf"{NUMBER} of \S+ planted", "planted": rf"of {NUMBER} planted mistakes"},
    ),
}


def two_digits(value: float) -> str:
    """Two significant digits, in full."""
    digits = f"{value:.2g}"
    return f"{float(digits):,.0f}" if value >= 10 else digits


def seconds(value: float) -> str:
    return f"{two_digits(1e3 * value)} ms" if value < 0.1 else f"{two_digits(value)} s"


def count(value: float) -> str:
    return f"{value:,.0f}"


class Row(NamedTuple):
    """A row of a table: its cells but the last, the command, made from the figures of one program."""

    program: str
    cells: Callable[[Mapping[str, float]], tuple[str, ...]]


SPEED = (
    ("job", "against", "ratio", "iclflow", "command"),
    Row(
        "moments",
        lambda f: (
            "E(Lambda_hat^3), exact, call against call",
            "tensorgrad",
            two_digits(f["third_tensorgrad"] / f["third"]),
            seconds(f["third"]),
        ),
    ),
    Row(
        "moments",
        lambda f: (
            "E(Lambda_hat^7), exact",
            "plain enumeration of pairings",
            two_digits(f["seventh_pairings"] / f["seventh"]),
            seconds(f["seventh"]),
        ),
    ),
    Row("seeds", lambda f: ("64 trainings on shared batches", "one by one", two_digits(f["ratio"]), "")),
    Row(
        "peers",
        lambda f: (
            "gradient flow, compiled, error of B below 1e-6",
            "diffrax, compiled",
            two_digits(f["diffrax"] / f["iclflow"]),
            seconds(f["iclflow"]),
        ),
    ),
    Row("peers", lambda f: ("", "heyoka, compiled", two_digits(f["heyoka"] / f["iclflow"]), "")),
    Row("peers", lambda f: ("", "torchdiffeq", two_digits(f["torchdiffeq"] / f["iclflow"]), "")),
    Row("official", lambda f: (f"{count(f['steps'])} steps of the official code, step for step", "", "", seconds(f["seconds"]))),
    Row("runs", lambda f: ("Figures 4 and 9 in full: 48 runs of 20,001 steps", "", "", seconds(f["seconds"]))),
)
PLANTED = (
    ("planted", "caught", "command"),
    Row(
        "engine",
        lambda f: (
            "faults in the symbolic engine (a sign, a factor, a dropped winding, ...)",
            f"{count(f['caught'])} of {count(f['planted'])}",
        ),
    ),
    Row(
        "sides",
        lambda f: (
            "mutants of the paper's typed sides (N + 1 for N, a transpose, ...)",
            f"{count(f['refused'])} of {count(f['planted'] - f['equal'])}; {count(f['equal'])} more are proven equal",
        ),
    ),
    Row(
        "lines",
        lambda f: (
            "faults in the lines of derivations (a side, a relation, an order, a use, a condition, a definition)",
            f"{count(f['caught'])} of {count(f['planted'] - f['equal'])}; {count(f['equal'])} more are proven equal",
        ),
    ),
    Row("claims", lambda f: ("wrong formulas handed to the claims", f"{count(f['caught'])} of {count(f['planted'])}")),
)
TABLES = {"speed": SPEED, "planted": PLANTED}


def table(rows: tuple, record: Mapping[str, Any]) -> str:
    """The rows in Markdown; what the record lacks is left out."""
    head, *body = rows
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in body:
        if row.program in record:
            shown = PROGRAMS[row.program].command.format(tensorgrad="PYTHON")
            lines.append("| " + " | ".join((*row.cells(record[row.program]["figures"]), f"`{shown}`")) + " |")
    return "\n".join(lines)


def output(command: str) -> str:
    """What an iclflow command prints, as a block of code."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        cli(shlex.split(command)[1:])
    return f"```text\n{printed.getvalue().rstrip()}\n```"


def written(page: str, record: Mapping[str, Any]) -> str:
    """The page with what stands between ``<!-- figures: TABLE -->`` or ``<!-- output: COMMAND -->`` and ``<!-- end -->`` made anew."""

    def anew(marker: re.Match) -> str:
        kind, what = marker[2], marker[3]
        return f"{marker[1]}\n{table(TABLES[what], record) if kind == 'figures' else output(what)}\n<!-- end -->"

    return re.sub(r"(?s)(<!-- (figures|output): ([^\n]*) -->)\n.*?<!-- end -->", anew, page)


def read(text: str, program: Program) -> dict[str, float]:
    """The figures of a program in what it printed. Raises ``ValueError`` for one that is not there."""
    found = {}
    for name, pattern in program.figures.items():
        match = re.search(pattern, text)
        if match is None:
            raise ValueError(f"{program.command} printed no figure {name!r} ({pattern}):\n{text}")
        found[name] = float(match[1])
    return found


def run(name: str, pythons: Mapping[str, str]) -> dict[str, Any]:
    """Run one program: its figures, with the day and the machine."""
    program = PROGRAMS[name]
    first, *rest = program.command.format(**pythons).split()
    python = Path(pythons.get(name, sys.executable))
    command = [str(python if first == "python" else python.parent / first), *rest]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    return {
        "figures": read(printed.stdout, program),
        "day": date.today().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "fingerprint": program.fingerprint(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(PROGRAMS))
    parser.add_argument("--record", action="store_true", help="write the tables from the figures on record")
    parser.add_argument("--peers", default=sys.executable, metavar="PYTHON", help="one that has diffrax, heyoka and torchdiffeq")
    parser.add_argument("--tensorgrad", default=sys.executable, metavar="PYTHON", help="one that has tensorgrad")
    options = parser.parse_args()
    if unknown := set(options.programs) - set(PROGRAMS):
        parser.error(f"PROGRAM must be among {', '.join(PROGRAMS)}, got {', '.join(sorted(unknown))}")
    record = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    for name in () if options.record else options.programs or PROGRAMS:
        record[name] = run(name, {"peers": options.peers, "tensorgrad": options.tensorgrad})
        write_atomically(RECORD, json.dumps(record, indent=1, sort_keys=True) + "\n")
        print(name, record[name]["figures"], flush=True)
    write_atomically(README, written(README.read_text("utf-8"), record))


if __name__ == "__main__":
    main()
