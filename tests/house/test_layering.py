"""The architecture: which folder may import which, how full and how deep folders are, and where heavy packages stay.

Each rule is a function of {path: source} that yields what violates it, so that it is tried on small trees with planted violations too.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path, PurePosixPath

import pytest
from sympy.utilities.iterables import strongly_connected_components

ROOT = Path(__file__).resolve().parents[2]

# The floors of each folder, lowest first: a module imports from its own floor and from lower ones.
FLOORS = {
    "": ["theory", "numerics", "verify"],
    "theory": [
        "notation",
        "algebra",
        "calculus",
        "expectation",
        "model",
        "typesetting",
        "derivations",
        "proofs",
        "results",
        "equations",
        "__init__",
    ],
    "theory/results": [
        "__init__",
        "task",
        "attention",
        "merged",
        "separate",
        "landscape",
        "in_weight",
        "variations",
        "discretisation",
        "estimators",
        "own_model",
    ],
    "numerics": [
        "_checks",
        "compilation",
        "tasks",
        "parametrizations",
        "dynamics",
        "landscape",
        "reductions",
        "replay",
        "own_model",
        "__init__",
    ],
    "verify": ["__init__", "files", "training", "experiments", "own_model", "claims", "figures", "evidence", "explorer", "sweep", "cli"],
    "verify/claims": [
        "__init__",
        "tolerances",
        "book",
        "formulas",
        "attention",
        "merged",
        "landscape",
        "separate",
        "in_weight",
        "variations",
        "discretisation",
        "estimators",
    ],
}
MOST = 12  # modules and folders in a folder, __init__ apart
DEEPEST = 2  # folders below a package
CLAIMED_ELSEWHERE = {"task": "attention", "own_model": "estimators"}  # the folder that has the claims about these results
# What registers, and the folder of the modules that do.
VERBS = {
    "iclflow.theory.derivations.register": "theory/results",
    "iclflow.theory.derivations.define": "theory/results",
    "iclflow.theory.derivations.registry.register": "theory/results",
    "iclflow.theory.derivations.registry.define": "theory/results",
    "iclflow.verify.claims.book.claim": "verify/claims",
    "iclflow.verify.figures.gallery.figure": "verify/figures",
}


@cache
def sources() -> Mapping[str, str]:
    """{path: source} of every module of the three packages and of their tests."""
    folders = [ROOT / name for name in (*FLOORS[""], "tests")]
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for folder in folders for path in sorted(folder.rglob("*.py"))
    }


def modules(files: Mapping[str, str]) -> list[str]:
    return [path for path in files if path.split("/")[0] in FLOORS[""]]


@cache
def imported(path: str, source: str, *, types: bool = True) -> set[str]:
    """The dotted names that a module imports, wherever the statement stands; relative ones as iclflow.<package>....

    Without ``types``, those under ``if TYPE_CHECKING`` are left out: they are never imported.
    """
    package = ["iclflow", *PurePosixPath(path).parts[:-1]]
    tree, names = ast.parse(source), set()
    never = {
        id(node)
        for test in ast.walk(tree)
        if isinstance(test, ast.If) and ast.unparse(test.test).removeprefix("typing.") == "TYPE_CHECKING"
        for statement in test.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if id(node) in never and not types:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            names |= {f"{stem}.{alias.name}" for alias in node.names}
    return names


def imports(files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(importing module, imported module), both of this project, as paths."""
    for path in modules(files):
        for name in sorted(imported(path, files[path], types=False)):
            parts = name.split(".")
            stems = ["/".join(parts[1:end]) for end in range(len(parts), 1, -1)] if parts[0] == "iclflow" else []
            candidates = (file for stem in stems for file in (f"{stem}.py", f"{stem}/__init__.py"))
            found = next((file for file in candidates if file in files), None)
            if found not in (None, path):
                yield path, found


def below(path: str, folder: str) -> str | None:
    """The module or folder in ``folder`` that a path leads to, without .py; None if it leads elsewhere."""
    prefix = f"{folder}/" if folder else ""
    return path.removeprefix(prefix).split("/")[0].removesuffix(".py") if path.startswith(prefix) else None


def contents(files: Mapping[str, str]) -> dict[str, set[str]]:
    """{folder: the modules and folders in it} of the packages."""
    found: dict[str, set[str]] = {}
    for path in modules(files):
        for folder in PurePosixPath(path).parents:
            name = "" if folder == PurePosixPath() else folder.as_posix()
            found.setdefault(name, set()).add(below(path, name) or "")
    return found


def named_tuple(source: str, name: str) -> tuple[str, ...]:
    """The value of a constant, without an import."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [name]:
            return ast.literal_eval(node.value)
    return ()


def without_floor(files: Mapping[str, str]) -> Iterator[str]:
    """Every module and folder of a folder with floors stands on one, and every floor is there."""
    found = contents(files)
    for folder, floors in FLOORS.items():
        for name in sorted(found.get(folder, set()) ^ set(floors)):
            yield f"{folder}/{name} is not both a floor and there"


def climbs(files: Mapping[str, str]) -> Iterator[str]:
    """No import runs up a floor."""
    for importer, target in imports(files):
        for folder, floors in FLOORS.items():
            lower, upper = below(importer, folder), below(target, folder)
            if {lower, upper} <= set(floors) and floors.index(lower) < floors.index(upper):
                yield f"{importer} imports {target} from a higher floor"


def circles(files: Mapping[str, str]) -> Iterator[str]:
    """What stands in one folder, modules and folders, does not import in a circle; so no modules anywhere do."""
    edges = list(imports(files))
    for folder, inside in contents(files).items():
        pairs = {(below(importer, folder), below(target, folder)) for importer, target in edges}
        graph = sorted(inside), [pair for pair in sorted(pairs, key=str) if None not in pair and pair[0] != pair[1]]
        for circle in strongly_connected_components(graph):
            if len(circle) > 1:
                yield f"{folder}: {', '.join(sorted(circle))} import in a circle"


def too_full(files: Mapping[str, str]) -> Iterator[str]:
    """A reader can hold a folder in mind; of the tests, whose folders are those of the packages, its modules."""
    held = {folder: inside - {"__init__"} for folder, inside in contents(files).items()}
    for path in files:
        if path.startswith("tests/"):
            held.setdefault(PurePosixPath(path).parent.as_posix(), set()).add(path)
    for folder, inside in held.items():
        if len(inside) > MOST:
            yield f"{folder} holds {len(inside)} modules and folders, at most {MOST}"


def too_deep(files: Mapping[str, str]) -> Iterator[str]:
    for folder in contents(files):
        if folder.count("/") > DEEPEST:
            yield f"{folder} lies more than {DEEPEST} folders below its package"


def misnamed(files: Mapping[str, str]) -> Iterator[str]:
    """Results, their claims and their tests have folders of the same names; tests lie in folders of the packages' names."""
    found = contents(files)

    def folders(parent: str) -> set[str]:
        inside = [path.removeprefix(f"{parent}/") for path in files if path.startswith(f"{parent}/")]
        return {rest.split("/")[0] for rest in inside if "/" in rest}

    results = folders("theory/results")
    for counterpart, missing in {"verify/claims": CLAIMED_ELSEWHERE.keys(), "tests/theory/results": set()}.items():
        for folder in sorted(folders(counterpart) ^ (results - missing)):
            yield f"{counterpart}/{folder} and theory/results/{folder}: one is there, the other is not"
    for path in files:
        folder = PurePosixPath(path).parent.as_posix().removeprefix("tests/")
        if path.startswith("tests/") and PurePosixPath(path).name.startswith("test_") and folder not in {"house", *found}:
            yield f"{path} lies in a folder that no package has"


def misregistered(files: Mapping[str, str]) -> Iterator[str]:
    """Each MODULES lists the modules of its folder that register something, each FOLDERS the folders, in the order of the floors."""
    for parent in sorted(set(VERBS.values())):
        floors = [name for name in FLOORS.get(parent, ()) if f"{parent}/{name}/__init__.py" in files]
        if floors != list(listed := named_tuple(files.get(f"{parent}/__init__.py", ""), "FOLDERS")):
            yield f"{parent}/__init__.py: FOLDERS is {listed}, its folders are {floors}"
        for folder in [f"{parent}/{name}" for name in floors] or [parent]:
            verbs = {verb for verb, place in VERBS.items() if place == parent}
            registering = {
                PurePosixPath(path).stem
                for path in modules(files)
                if PurePosixPath(path).parent.as_posix() == folder and verbs & imported(path, files[path])
            }
            listed = named_tuple(files.get(f"{folder}/__init__.py", ""), "MODULES")
            if sorted(registering) != sorted(listed):
                yield f"{folder}/__init__.py: MODULES and what registers differ by {sorted(registering ^ set(listed))}"


RULES = (without_floor, climbs, circles, too_full, too_deep, misnamed, misregistered)


def test_the_architecture_stands():
    found = {violation for rule in RULES for violation in rule(sources())}
    assert found == set()


# A small house in order, and for each rule what breaks it.
HOUSE = {
    "theory/__init__.py": "from .notation import D",
    "theory/notation.py": "",
    "theory/algebra/__init__.py": "",
    "theory/algebra/words.py": "from ..notation import D",
    "theory/derivations/__init__.py": "",
    "theory/derivations/registry.py": "from ..algebra import words",
    "theory/results/__init__.py": "FOLDERS = ('task', 'attention')",
    "theory/results/task/__init__.py": "MODULES = ('population',)",
    "theory/results/task/population.py": "from ...derivations import register\nfrom . import symbols",
    "theory/results/task/symbols.py": "",
    "theory/results/attention/__init__.py": "MODULES = ('blocks',)",
    "theory/results/attention/blocks.py": "from ...derivations.registry import define\nfrom ..task.population import moments",
    "verify/claims/__init__.py": "FOLDERS = ('attention',)",
    "verify/claims/book.py": "",
    "verify/claims/attention/__init__.py": "MODULES = ('moments',)",
    "verify/claims/attention/moments.py": "from ..book import claim\nimport iclflow.theory.results.attention.blocks",
    "tests/theory/algebra/test_words.py": "",
    "tests/theory/results/task/test_population.py": "",
    "tests/theory/results/attention/test_blocks.py": "",
}
PLANTED = [
    (climbs, {"theory/notation.py": "from .algebra.words import word"}, "theory/notation.py imports theory/algebra/words.py"),
    (climbs, {"theory/algebra/words.py": "def late():\n    from ..derivations import registry"}, "theory/derivations/registry.py"),
    (climbs, {"theory/algebra/words.py": "import iclflow.verify.claims.book as b"}, "imports verify/claims/book.py from"),
    (climbs, {"theory/results/task/symbols.py": "from .. import attention"}, "imports theory/results/attention/__init__.py"),
    (climbs, {"verify/claims/book.py": "from .attention.moments import m"}, "verify/claims/attention/moments.py from a higher"),
    (circles, {"theory/results/task/symbols.py": "from .population import p"}, "theory/results/task: population, symbols import"),
    (circles, {"theory/results/task/symbols.py": "from ..attention.blocks import b"}, "theory/results: attention, task import"),
    (circles, {"theory/notation.py": "def late():\n    from .algebra.words import w"}, "theory: algebra, notation import in a circle"),
    (too_full, {f"theory/algebra/m{number}.py": "" for number in range(12)}, "theory/algebra holds 13 modules and folders"),
    (too_full, {f"tests/theory/algebra/test_m{number}.py": "" for number in range(12)}, "tests/theory/algebra holds 13 modules"),
    (too_deep, {"theory/results/task/moments/gaussian.py": ""}, "theory/results/task/moments lies more than 2 folders"),
    (without_floor, {"theory/tools.py": ""}, "theory/tools is not both a floor and there"),
    (without_floor, {"theory/results/softmax/blocks.py": ""}, "theory/results/softmax is not both"),
    (misnamed, {"verify/claims/softmax/moments.py": ""}, "verify/claims/softmax and theory/results/softmax: one"),
    (misnamed, {"theory/results/softmax/blocks.py": ""}, "verify/claims/softmax and theory/results/softmax: one"),
    (misnamed, {"tests/theory/results/softmax/test_blocks.py": ""}, "tests/theory/results/softmax and theory/results/softmax"),
    (misnamed, {"tests/theory/words/test_words.py": ""}, "tests/theory/words/test_words.py lies in a folder that no package has"),
    (misregistered, {"theory/results/__init__.py": "FOLDERS = ('task',)"}, "theory/results/__init__.py: FOLDERS is ('task',)"),
    (misregistered, {"theory/results/__init__.py": "FOLDERS = ('attention', 'task')"}, "its folders are ['task', 'attention']"),
    (misregistered, {"theory/results/task/__init__.py": ""}, "MODULES and what registers differ by ['population']"),
    (misregistered, {"theory/results/task/__init__.py": "MODULES = ('population', 'symbols')"}, "differ by ['symbols']"),
    (misregistered, {"verify/claims/attention/features.py": "from ..book import claim"}, "differ by ['features']"),
]  # fmt: skip


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule is not without_floor])
def test_a_house_in_order_breaks_no_rule(rule):
    assert list(rule(HOUSE)) == []


@pytest.mark.parametrize(("rule", "change", "message"), PLANTED)
def test_a_planted_violation_is_seen(rule, change, message):
    before, after = list(rule(HOUSE)), list(rule(HOUSE | change))
    assert any(message in violation for violation in after)
    assert not any(message in violation for violation in before)


def test_what_only_a_type_checker_reads_is_no_import():
    late = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .algebra.words import Word\n"
    assert list(climbs(HOUSE | {"theory/notation.py": late})) == []
    either = late + "else:\n    from .algebra.words import Word\n"
    assert len(list(climbs(HOUSE | {"theory/notation.py": either}))) == 1


# Heavy packages stay where they are used.


def starts(name: str, *prefixes: str) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def forbidden(path: str) -> tuple[str, ...]:
    package, *folders = PurePosixPath(path).parts
    if path == "theory/derivations/sampling.py":  # loaded when a line has to be sampled
        return ("scipy", "torch", "matplotlib", "iclflow.numerics", "iclflow.verify")
    if package == "theory":
        return ("numpy", "scipy", "torch", "matplotlib", "iclflow.numerics", "iclflow.verify")
    if package == "numerics":
        sympy = () if folders[0] == "compilation" else ("sympy",)  # the one crossing from symbols to numbers
        pictures = () if path == "numerics/dynamics/results.py" else ("matplotlib",)  # loaded when a result draws itself
        return ("torch", *pictures, "iclflow.verify", *sympy)
    return ("sympy",) if {"figures", "explorer"} & set(folders) else ("sympy", "matplotlib")


@pytest.mark.parametrize("path", modules(sources()))
def test_heavy_packages_are_imported_where_they_are_used(path):
    wrong = {name for name in imported(path, sources()[path]) if starts(name, *forbidden(path))}
    assert not wrong, f"{path} imports {sorted(wrong)}"


def test_every_form_of_import_is_seen():
    source = (
        "import numpy.linalg as la\nfrom scipy import optimize\nfrom ..numerics.dynamics.flow import gradient_flow\nfrom .. import verify\n"
        "def late():\n    import torch\n"
    )
    names = imported("theory/imagined.py", source)
    assert names == {"numpy.linalg", "scipy.optimize", "iclflow.numerics.dynamics.flow.gradient_flow", "iclflow.verify", "torch"}
    assert all(starts(name, *forbidden("theory/imagined.py")) for name in names)


@pytest.mark.parametrize(
    ("wanted", "absent"),
    [
        ("from iclflow.theory import *", ("numpy", "scipy", "torch", "matplotlib")),
        ("import iclflow.numerics", ("numpy", "scipy", "sympy")),
        ("from iclflow.numerics import *", ("torch", "matplotlib", "numba")),
        ("import iclflow.verify", ("matplotlib.pyplot",)),
    ],
)
def test_importing_loads_nothing_heavy(wanted, absent):
    script = f"import sys\n{wanted}\nprint(*(name for name in {absent!r} if name in sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_every_exported_name_of_numerics_is_found_when_it_is_asked_for():
    """A star import above loads them all; the stub exports what it imports, and no other name is made up."""
    stub = (ROOT / "numerics/__init__.pyi").read_text(encoding="utf-8")
    script = f"import iclflow.numerics as n\nassert {sorted(named_tuple(stub, '__all__'))} == sorted(n.__all__)\nn.gradient_flows"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "AttributeError: No iclflow.numerics attribute gradient_flows" in run.stderr


@pytest.mark.parametrize("name", FLOORS[""])
def test_no_exported_name_hides_a_module(name):
    """``import iclflow.theory.equations as registry`` would give a function of that name, and so would the reference in the docs."""
    package = import_module(f"iclflow.{name}")
    modules = {path.stem for path in (ROOT / name).glob("*.py")}
    assert modules & set(getattr(package, "__all__", ())) == set()
