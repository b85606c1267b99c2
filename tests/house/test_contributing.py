"""The examples of CONTRIBUTING.md run as they stand, in a process of their own, and what they register can be found and checked."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
THEN = """
from dataclasses import replace
from iclflow.theory.equations import equation
from iclflow.verify.claims.book import BOOK
from iclflow.verify.figures.gallery import FIGURES
from iclflow.verify.figures.style import LIGHT
entry, check = equation("example"), BOOK.checks["mean_trace_sampled"]
assert entry.holds() and [line.verify().status for line in entry.lines] == ["exact"]
assert replace(entry.lines[0], right=2 * entry.lines[0].right).verify().status == "fails"
assert check.run().status == "holds" and check.run("twice").status == "fails"
assert FIGURES["example"](LIGHT).caption
"""


def test_the_examples_run():
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    assert max(len([line for line in block.splitlines() if line and "import" not in line]) for block in blocks) <= 10
    run = subprocess.run([sys.executable, "-c", "\n".join([*blocks, THEN])], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert 0.1 < float(run.stdout) < 0.2
