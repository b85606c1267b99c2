"""All entries by number, loaded when the first of them is asked for."""

from functools import cache
from importlib import import_module
from typing import Any

entries: dict[str, Any] = {}  # filled by the modules of theory/results as they are imported
RESULTS = __name__.rsplit(".", 2)[0] + ".results"


@cache
def load() -> dict[str, Any]:
    """Every entry: imports all modules that register one."""
    for folder in import_module(RESULTS).FOLDERS:
        for module in import_module(f".{folder}", RESULTS).MODULES:
            import_module(f".{folder}.{module}", RESULTS)
    return entries


def lookup(number: str) -> Any:
    """The entry with exactly this number; KeyError if there is none."""
    if number not in entries:
        load()
    if number not in entries:
        raise KeyError(f"there is no equation ({number})")
    return entries[number]
