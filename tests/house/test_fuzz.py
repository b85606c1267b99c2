"""The fuzzer runs, finds nothing among a few inputs, and finds what is planted."""

import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).parents[2] / "benchmarks" / "fuzz.py"


@pytest.mark.slow  # imports everything
def test_a_few_inputs_of_each_kind():
    done = subprocess.run([sys.executable, str(FUZZ), "--inputs", "150"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "0 tracebacks, 0 hangs, 0 wrong answers" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("exact = fuzz.expect; fuzz.expect = lambda polynomial, *_: 2 * exact(polynomial)", "wrong answer"),
        ("fuzz.read_sweep = lambda path: {}[path]", "traceback"),
        ("fuzz.SECONDS = 0.1; fuzz.read_sweep = lambda path: time.sleep(60)", "hang"),
    ],
)
def test_a_planted_fault_is_found(planted, found):
    kind = "grammar" if found == "wrong answer" else "toml"
    arguments = ["fuzz", "--kinds", kind, "--inputs", "12", "--seed", "2"]
    script = f"import sys, time\nimport fuzz\n{planted}\nsys.argv = {arguments!r}\nsys.exit(fuzz.main())"
    done = subprocess.run([sys.executable, "-c", script], cwd=FUZZ.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert f": {found}\n" in done.stdout
