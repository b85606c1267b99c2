"""What is installed: one version everywhere, every module, the command, and metadata that are complete."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import entry_points, metadata, version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PACKAGES = {"theory", "numerics", "verify"}


def shipped() -> set[str]:
    kinds = ("*.py", "*.html", "py.typed")
    return {
        f"iclflow/{path.relative_to(ROOT).as_posix()}"
        for name in PACKAGES
        for kind in kinds
        for path in (ROOT / name).rglob(kind)
    }


def test_the_version_is_the_same_everywhere():
    declared = PROJECT["project"]["version"]
    assert version("iclflow") == declared
    assert f"version: {declared}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    newest = re.search(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == declared
    assert f"date-released: {newest[2]}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_every_folder_with_modules_is_a_declared_package():
    folders = {path.parent.relative_to(ROOT).as_posix() for name in PACKAGES for path in (ROOT / name).rglob("*.py")}
    setuptools = PROJECT["tool"]["setuptools"]
    assert set(setuptools["packages"]) == {"iclflow." + folder.replace("/", ".") for folder in folders}
    assert set(setuptools["package-dir"]) == {f"iclflow.{name}" for name in PACKAGES}


def test_the_metadata_are_complete():
    found = metadata("iclflow")
    for field in ("Summary", "License-Expression", "Requires-Python", "Description-Content-Type", "Keywords", "Author"):
        assert found[field], field
    (command,) = (entry for entry in entry_points(group="console_scripts") if entry.name == "iclflow")
    assert command.load().__module__ == "iclflow.verify.cli.main"


@pytest.mark.slow  # builds in an environment of its own, which takes some ten seconds and needs a package index
def test_the_wheel_holds_every_module_and_nothing_else(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, source)
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    build = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(source)]
    subprocess.run(build, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    files = {name for name in names if ".dist-info/" not in name}
    assert files == shipped()
    assert any(name.endswith("licenses/LICENSE") for name in names)
