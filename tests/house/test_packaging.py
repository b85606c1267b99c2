"""What is installed: one version everywhere, every module, the command, and metadata that are complete."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email import message_from_bytes
from importlib.metadata import entry_points, metadata, version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PACKAGES = ("theory", "numerics", "verify")
BESIDE = ("tests", "benchmarks", "docs", "notebooks", ".ci")
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE")


def shipped(*folders: str) -> set[str]:
    """The files of these folders, without what is made: bytecode, and the pages and notebooks that the site copies."""
    made = ("docs/api/", "docs/notebooks/")
    found = (path for name in folders for path in (ROOT / name).rglob("*") if path.is_file())
    names = {path.relative_to(ROOT).as_posix() for path in found if "__pycache__" not in path.parts}
    return {name for name in names if not name.startswith(made)}


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


def test_nothing_of_others_is_shipped():
    """No fonts, no scripts, no pictures: Python, pages and style sheets that were written here and load nothing."""
    files = [ROOT / name for name in shipped(*PACKAGES)]
    assert {path.suffix for path in files} == {".py", ".pyi", ".typed", ".css", ".html"}
    for path in files:
        if path.suffix in (".css", ".html"):
            assert not re.search(r"https?://|@import|@font-face|url\(|<script [^>]*src", path.read_text("utf-8")), path


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    """The source distribution of a copy of this tree, and the wheel built from what it holds; neither needs a network."""
    folder = tmp_path_factory.mktemp("distributions")
    copy, unpacked = folder / "source", folder / "unpacked"
    for name in (*PACKAGES, *BESIDE):
        made = {"api", "notebooks"} if name == "docs" else set()
        shutil.copytree(ROOT / name, copy / name, ignore=lambda _, found, made=made: {"__pycache__", *made} & {*found})
    for name in FILES:
        shutil.copy(ROOT / name, copy)
    sdist = _build("build_sdist", copy, folder)
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    return sdist, _build("build_wheel", next(unpacked.iterdir()), folder)


def _build(hook: str, source: Path, folder: Path) -> Path:
    script = f"from setuptools.build_meta import {hook}; print({hook}({str(folder)!r}))"
    run = subprocess.run([sys.executable, "-c", script], cwd=source, check=True, capture_output=True, text=True)
    return folder / run.stdout.split()[-1]


@pytest.mark.slow
def test_the_wheel_holds_every_file_of_the_packages_and_nothing_else(built):
    names = set(zipfile.ZipFile(built[1]).namelist())
    assert {name for name in names if ".dist-info/" not in name} == {f"iclflow/{name}" for name in shipped(*PACKAGES)}
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.slow
def test_the_source_distribution_holds_what_tests_and_documentation_need(built):
    with tarfile.open(built[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert shipped(*PACKAGES, *BESIDE) | set(FILES) <= names


@pytest.mark.slow
def test_the_long_description_links_to_no_file_beside_it(built):
    """An index shows it without the repository."""
    with zipfile.ZipFile(built[1]) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        found = message_from_bytes(wheel.read(name))
    assert found["Description-Content-Type"] == "text/markdown"
    text = found.get_payload()
    assert text.startswith("# iclflow\n")
    assert "[arXiv 2501.16265](https://arxiv.org/abs/2501.16265)" in text
    assert "a proof of yours" in text
    assert not re.search(r"\]\((?!https://)|<!--|staircase\.(png|txt)", text)


@pytest.mark.slow
def test_the_wheel_runs_in_an_environment_of_its_own(built, tmp_path):
    """Only the dependencies are seen from outside; the command runs in an empty folder, and finds its data files."""
    environment, empty = tmp_path / "environment", tmp_path / "empty"
    empty.mkdir()
    venv.create(environment, symlinks=True)
    binaries = environment / ("Scripts" if sys.platform == "win32" else "bin")
    python = str(binaries / "python")
    (site,) = (path for path in environment.rglob("site-packages") if path.is_dir())
    # Folders named in a .pth file are not searched for further ones, so that an editable install beside them stays unseen.
    dependencies = [path for path in sys.path if Path(path).name == "site-packages"]
    (site / "dependencies.pth").write_text("\n".join(dependencies), encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, str(built[1])], check=True)

    def run(*command: str) -> str:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        done = subprocess.run(command, cwd=empty, env=clean, check=True, capture_output=True, text=True)
        assert done.stderr == ""
        return done.stdout

    places = "import iclflow.theory as t, iclflow.verify.explorer.server as s; print(t.__file__, s.PAGE, len(s.page() + s.desk_page()) > 9)"
    theory, page, there = run(python, "-c", places).split()
    assert Path(theory).is_relative_to(site)
    assert Path(page).is_relative_to(site)
    assert there == "True"
    iclflow = str(binaries / "iclflow")
    assert run(iclflow, "expect", "S S") == "(1 + 1/N) Lambda^2 + 1/N tr(Lambda) Lambda\n"
    assert run(iclflow, "derive", "24").startswith("(24) The loss levels of the plateaus [exact; Section 4.3]\n")
    assert list(empty.iterdir()) == []
