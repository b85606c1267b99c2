"""Imports run one way: theory <- numerics <- verify; heavy packages stay where they are used."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = sorted(path for package in ("theory", "numerics", "verify") for path in (ROOT / package).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """The dotted names that a module imports, wherever the statement stands; relative ones as iclflow.<package>...."""
    package = ["iclflow", *path.relative_to(ROOT).parts[:-1]]
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            names |= {f"{stem}.{alias.name}" for alias in node.names}
    return names


def starts(name: str, *prefixes: str) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def forbidden(path: Path) -> tuple[str, ...]:
    package = path.relative_to(ROOT).parts[0]
    if path.relative_to(ROOT).as_posix() == "theory/derivations/sampling.py":  # loaded when a line has to be sampled
        return ("scipy", "torch", "matplotlib", "iclflow.numerics", "iclflow.verify")
    if package == "theory":
        return ("numpy", "scipy", "torch", "matplotlib", "iclflow.numerics", "iclflow.verify")
    if package == "numerics":
        sympy = () if path.parts[-2] == "compilation" else ("sympy",)  # the one crossing from symbols to numbers
        return ("torch", "matplotlib", "iclflow.verify", *sympy)
    return ("sympy",) if {"figures", "explorer"} & set(path.parts) else ("sympy", "matplotlib")


def test_there_are_modules():
    assert {path.relative_to(ROOT).parts[0] for path in MODULES} == {"theory", "numerics", "verify"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_one_way(path):
    wrong = {name for name in imported(path) if starts(name, *forbidden(path))}
    assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"


def test_the_check_sees_violations(tmp_path):
    """Every form of import statement is recognised."""
    module = ROOT / "theory" / "imagined.py"
    source = (
        "import numpy.linalg as la\nfrom scipy import optimize\nfrom ..numerics.dynamics.flow import gradient_flow\nfrom .. import verify\n"
        "def late():\n    import torch\n"
    )

    class Imagined(type(module)):
        def read_text(self, encoding=None, errors=None):
            return source

    names = imported(Imagined(module))
    expected = {
        "numpy.linalg",
        "scipy.optimize",
        "iclflow.numerics.dynamics.flow.gradient_flow",
        "iclflow.verify",
        "torch",
    }
    assert names == expected
    assert all(starts(name, *forbidden(module)) for name in names)


@pytest.mark.parametrize(
    ("package", "absent"),
    [
        ("iclflow.theory", ("numpy", "scipy", "torch", "matplotlib")),
        ("iclflow.numerics", ("torch", "matplotlib")),
        ("iclflow.verify", ("matplotlib.pyplot",)),
    ],
)
def test_importing_loads_nothing_heavy(package, absent):
    script = f"import sys, {package}\nprint(*(name for name in {absent!r} if name in sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


@pytest.mark.parametrize("name", ["theory", "numerics", "verify"])
def test_no_exported_name_hides_a_module(name):
    """``import iclflow.theory.equations as registry`` would give a function of that name, and so would the reference in the docs."""
    package = import_module(f"iclflow.{name}")
    modules = {path.stem for path in (ROOT / name).glob("*.py")}
    assert modules & set(getattr(package, "__all__", ())) == set()
