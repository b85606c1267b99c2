"""The tests that need no PyTorch, with the lowest version of every dependency on Python 3.11 and with the newest on each Python here."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.versions  # half an hour each, and it downloads: before a release

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
FOLDERS = ("tests/theory", "tests/numerics")
WITH_TORCH = [
    path.relative_to(ROOT)
    for name in FOLDERS
    for path in (ROOT / name).rglob("*.py")
    if re.search(r"^(import torch|from torch|from iclflow\.verify)", path.read_text("utf-8"), re.MULTILINE)
]
TESTING = ("pytest", "pytest-xdist", "hypothesis")  # what these tests need of the extra
MINORS = range(11, 20)


def requirements(lowest: bool) -> list[str]:
    """The dependencies without PyTorch, and what the tests need, as pip takes them."""
    declared = [*PROJECT["dependencies"], *(one for one in PROJECT["optional-dependencies"]["test"] if name_of(one) in TESTING)]
    wanted = [one for one in declared if name_of(one) != "torch"]
    return [re.sub(r">=([\d.]+).*", r"==\1", one) for one in wanted] if lowest else wanted


def name_of(requirement: str) -> str:
    return re.split(r"[<>=]", requirement)[0]


def interpreters() -> dict[str, str]:
    """{"3.11": its command} for the Pythons of this machine that start."""
    found = {}
    for version in (f"3.{minor}" for minor in MINORS):
        managed = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
        for command in (*map(str, managed), shutil.which(f"python{version}")):
            if command and subprocess.run([command, "-c", ""], capture_output=True, check=False).returncode == 0:
                found[version] = command
    return found


def test_every_dependency_has_a_lowest_version():
    assert all(re.search(r">=[\d.]+", one) for one in PROJECT["dependencies"])


@pytest.mark.parametrize("lowest", [True, False], ids=["lowest", "newest"])
@pytest.mark.parametrize("version", interpreters())
def test_the_tests_hold_with(version, lowest, tmp_path):
    if lowest and version != PROJECT["requires-python"].removeprefix(">="):
        pytest.skip("the lowest versions are those of the lowest Python")
    subprocess.run([interpreters()[version], "-m", "venv", str(tmp_path)], check=True)
    python = str(tmp_path / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *requirements(lowest)], check=True)
    subprocess.run([*pip, "--no-deps", "--editable", str(ROOT)], check=True)
    subprocess.run([python, "-c", "import iclflow.theory, iclflow.numerics"], check=True)
    ignored = [f"--ignore={path}" for path in WITH_TORCH]
    others = ["-W", "ignore::DeprecationWarning"]  # which an old library gives about a newer one below it
    done = subprocess.run([python, "-m", "pytest", "-q", *others, *ignored, *FOLDERS], cwd=ROOT, check=False)
    assert done.returncode == 0
