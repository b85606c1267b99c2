"""The README's commands are the ones that CI runs."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_ci_runs_the_two_commands_of_the_readme():
    readme = (ROOT / "README.md").read_text()
    script = (ROOT / ".ci" / "run").read_text()
    commands = re.findall(r"^python3 -m venv .*$", readme, flags=re.MULTILINE)
    assert len(commands) == 2
    assert [line for line in script.splitlines() if line.startswith("python3 -m venv")] == commands
    assert commands[0].endswith("iclflow check")
    assert commands[1].endswith("pytest")
