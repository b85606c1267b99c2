"""In CI the examples are the same each time, and a missing tool fails the tests that need it; elsewhere they are skipped."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings
from iclflow.verify.experiments.processes import SINGLE_THREADED

os.environ |= SINGLE_THREADED  # before a test loads NumPy: each process has a core

IN_CI = bool(os.environ.get("CI"))
KATEX = Path(__file__).parents[1] / "node_modules" / "katex"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
TOOLS = {
    "Chromium": lambda: any(map(shutil.which, BROWSERS)),
    "KaTeX (npm install --no-save katex)": lambda: shutil.which("node") and KATEX.is_dir(),
    "pdflatex": lambda: shutil.which("pdflatex"),
}

settings.register_profile("ci", derandomize=True, database=None, deadline=None)
if IN_CI:
    settings.load_profile("ci")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        (tool,) = (name for name in TOOLS if name.startswith(marker.args[0]))
        if not TOOLS[tool]():
            (pytest.fail if IN_CI else pytest.skip)(f"{tool} is not installed")


@pytest.fixture
def chromium() -> str:
    """The command of the browser."""
    return next(filter(shutil.which, BROWSERS))
