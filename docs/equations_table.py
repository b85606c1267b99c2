"""The table of docs/equations.md: each equation, where it is derived, which tests and which claims check it.

Run it as ``python docs/equations_table.py`` to write the table anew. Tests are found by what they name: ``equation("31")``,
"31-limit", (31) in a sentence, or a call of the function that derives it. Every derived equation is checked by the tests of all
statements too, which are named above the table.
"""

import re
from collections import defaultdict
from pathlib import Path

from iclflow.theory.derivations.registry import Equation
from iclflow.theory.equations import equations
from iclflow.verify.claims import book
from iclflow.verify.evidence.check import SENSES

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "equations.md"
GENERAL = "test_statement_mutations.py"  # it goes through all of them

HEAD = f"""# Every equation, where it is derived, and what checks it

{{derived}} of {{count}} entries are derived, the others are definitions. The statement of each is typed once, and compared exactly with
what the derivation computes; it is mutated by [{GENERAL}](../tests/theory/{GENERAL}), which also derives
everything with garbage for statements, and [test_documents.py](../tests/theory/derivations/test_documents.py) compiles every printed
string. The kind says in which sense an entry holds: {{senses}}.
The last two columns name what checks an equation beyond that. This page is written by `python docs/equations_table.py`.

| | title | kind | derived in | tests | claims |
| --- | --- | --- | --- | --- | --- |
"""


def table() -> str:
    """The page, from the registry, the tests and the book of claims as they are."""
    tests = _tests()
    by_equation = defaultdict(list)
    for name, check in sorted(book.load().checks.items()):  # whichever module was loaded first
        by_equation[check.equation].append(name)
    entries = equations()
    rows = []
    for entry in entries:
        module = _module(entry)
        found = [name for name, source in tests.items() if _names(source, entry)]
        cells = [
            f"({entry.number})",
            f'<a id="eq-{entry.number}"></a>{entry.title}',
            entry.kind,
            f"[{module}](../theory/{module}.py): `{entry.derivation.__name__}`" if entry.derivation else "",
            ", ".join(f"[{_subject(test)}](../{test})" for test in found),
            ", ".join(f"`{name}`" for name in by_equation[entry.number]),
        ]
        rows.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    derived = sum(entry.derivation is not None for entry in entries)
    senses = "; ".join(f"{kind}, {sense}" for kind, sense in SENSES.items())
    return HEAD.format(derived=derived, count=len(entries), senses=senses) + "\n".join(rows) + "\n"


def _module(entry: Equation) -> str:
    """The path of the module of the derivation, or of the definition, below theory/."""
    return (entry.derivation or entry.typed).__module__.removeprefix("iclflow.theory.").replace(".", "/")


def _subject(test: str) -> str:
    """What a test file is about: its path without tests/ and test_, which is the path of the module that it tests."""
    return test.removeprefix("tests/").replace("test_", "").removesuffix(".py")


def _tests() -> dict[str, str]:
    """{path: source} of the tests, without those that go through everything."""
    paths = (path for package in ("numerics", "theory", "verify") for path in sorted((ROOT / "tests" / package).rglob("test_*.py")))
    general = {GENERAL, "test_documents.py"}
    return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in paths if path.name not in general}


def _names(source: str, entry: Equation) -> bool:
    number = re.escape(entry.number)
    plain = entry.number.isdigit() or entry.number.isalpha()  # "8" or "M" alone may be anything
    typed = rf"""equation\(["']{number}["']""" if plain else rf"""["']{number}["']"""
    if re.search(rf"{typed}|(?<![\w\])])\({number}[a-e]?\)", source):
        return True
    derived = entry.derivation
    return derived is not None and f"{derived.__name__}(" in source and _imports(source, derived.__module__)


def _imports(source: str, module: str) -> bool:
    package, _, name = module.rpartition(".")
    return bool(re.search(rf"from {re.escape(module)} import|from {re.escape(package)} import .*\b{name}\b", source))


if __name__ == "__main__":
    PAGE.write_text(table(), encoding="utf-8")
