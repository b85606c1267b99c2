"""The table of equations in the docs is what the registry, the tests and the claims say."""

import importlib.util
from pathlib import Path

from iclflow.theory.equations import equations

DOCS = Path(__file__).parents[2] / "docs"


def load_script():
    spec = importlib.util.spec_from_file_location("equations_table", DOCS / "equations_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_table_is_current():
    written = (DOCS / "equations.md").read_text(encoding="utf-8")
    assert written == load_script().table(), "run: python docs/equations_table.py"


def test_every_number_of_the_paper_is_there():
    numbers = {entry.number for entry in equations()}
    missing = [n for n in range(1, 88) if str(n) not in numbers and not {f"{n}a", f"{n}b"} <= numbers]
    assert missing == []
    written = (DOCS / "equations.md").read_text(encoding="utf-8")
    assert all(f"| ({number}) |" in written for number in numbers)
