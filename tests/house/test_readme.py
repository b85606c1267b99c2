"""The README's commands are the ones that CI runs, its outputs and figures are what programs print."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def load_script(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_ci_runs_the_two_commands_of_the_readme():
    readme = (ROOT / "README.md").read_text()
    script = (ROOT / ".ci" / "run").read_text()
    commands = re.findall(r"^python3 -m venv .*$", readme, flags=re.MULTILINE)
    assert len(commands) == 2
    assert [line for line in script.splitlines() if line.startswith("python3 -m venv")] == commands
    assert commands[0].endswith("iclflow check")
    assert commands[1].endswith("pytest")


def test_the_readme_shows_what_the_commands_print_and_the_programs_measured():
    """Outputs are compared whole. Figures are those on record, of programs that have not changed since they were run."""
    figures = load_script(ROOT / "docs" / "figures.py")
    record = json.loads((ROOT / "docs" / "figures.json").read_text("utf-8"))
    readme = (ROOT / "README.md").read_text("utf-8")
    assert figures.written(readme, record) == readme, "run: python docs/figures.py --record"
    assert record.keys() <= figures.PROGRAMS.keys()
    stale = [name for name, one in record.items() if one["fingerprint"] != figures.PROGRAMS[name].fingerprint()]
    assert not stale, f"run: python docs/figures.py {' '.join(stale)}"


def test_figures_are_read_by_name_or_missed():
    figures = load_script(ROOT / "docs" / "figures.py")
    program = figures.PROGRAMS["peers"]
    rows = [f"{name:<24} {1e-9:8.0e} {1e-7:10.1e} {number:10.3f} s" for number, name in
            enumerate(("iclflow compiled", "diffrax Dopri8", "heyoka", "torchdiffeq dopri8"), 1)]  # fmt: skip
    assert figures.read("\n".join(rows), program) == {"iclflow": 1, "diffrax": 2, "heyoka": 3, "torchdiffeq": 4}
    with pytest.raises(ValueError, match="heyoka"):
        figures.read("\n".join(rows[:2] + rows[3:]), program)
    assert [figures.seconds(x) for x in (0.00083, 0.0996, 0.31, 14.2)] == ["0.83 ms", "100 ms", "0.31 s", "14 s"]
    assert figures.two_digits(12345.0) == "12,000"
