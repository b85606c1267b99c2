"""The TOML file that describes a sweep, and its runs.

.. code-block:: toml

    method = "flow"                  # or "descent", "training"
    points = 200                     # of each loss curve

    [setting]                        # what all runs share; what is left out is as in the README's staircase
    eigenvalues = [0.4, 0.3, 0.2, 0.1]
    heads = 5

    [vary]                           # every combination of these
    seed = { first = 0, count = 50 }
    rank = [1, 2]
    "scale, duration" = [[0.2, 1300], [0.1, 2600]]   # these two change together

``method`` may be varied too. Errors name the file and the key.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, cached_property
from importlib.metadata import version
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from ..experiments.kinds import SEED, Kind, choice, whole
from ..experiments.parameters import PARAMETERS
from ..experiments.setting import Setting

METHOD, POINTS, COUNT = choice("flow", "descent", "training"), whole(2, 100_000), whole(1, 1_000_000)
SETTING = {parameter.name: parameter.kind for parameter in PARAMETERS}
installed = cache(version)


@dataclass(frozen=True)
class Run:
    """One run of a sweep; its loss is kept at ``points`` times."""

    method: str
    setting: Setting
    points: int

    @cached_property
    def name(self) -> str:
        """A hash of everything that the result depends on: a finished run of this name is not made again."""
        parameters = {"method": self.method, "setting": vars(self.setting), "points": self.points, "version": installed("iclflow")}
        return hashlib.sha256(json.dumps(parameters, sort_keys=True).encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Axis:
    """Parameters that change together, and the values they take: one row for each value of the first."""

    names: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Sweep:
    """A grid of runs: every combination of the axes' rows."""

    base: Run
    axes: tuple[Axis, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis.rows) for axis in self.axes)

    def __len__(self) -> int:
        return prod(self.shape)

    def runs(self) -> Iterator[tuple[tuple[int, ...], Run]]:
        """Each run with its place in the grid."""
        for place in product(*(range(n) for n in self.shape)):
            changed = {
                name: value for axis, i in zip(self.axes, place, strict=True) for name, value in zip(axis.names, axis.rows[i], strict=True)
            }
            method = changed.pop("method", self.base.method)
            yield place, replace(self.base, method=method, setting=replace(self.base.setting, **changed))


def read_sweep(path: Path) -> Sweep:
    """The sweep that a TOML file describes.

    Raises ``ValueError`` in one line, naming the file and the key, for a file that is not TOML, an unknown key, and a
    value of the wrong type or size.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as problem:  # not TOML, not UTF-8, thousands of brackets or digits
        raise ValueError(f"{path}: is not TOML: {problem}") from None
    try:
        return _sweep(document)
    except ValueError as problem:
        raise ValueError(f"{path}: {problem}") from None


def _sweep(document: Mapping[str, Any]) -> Sweep:
    _refuse_unknown("", document, ("method", "points", "setting", "vary"))
    method = _checked("method", document.get("method", "flow"), METHOD)
    points = _checked("points", document.get("points", 200), POINTS)
    given = _table("setting", document.get("setting", {}))
    _refuse_unknown("setting.", given, tuple(SETTING))
    checked = {name: _checked(f"setting.{name}", value, SETTING[name]) for name, value in given.items()}
    axes = tuple(_axis(key, value) for key, value in _table("vary", document.get("vary", {})).items())
    names = [name for axis in axes for name in axis.names]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"vary: {name} must be varied once, got {names.count(name)} times")
    for parameter in PARAMETERS:
        if {parameter.name, parameter.replaces} <= {*checked, *names}:
            raise ValueError(f"setting or vary: {parameter.replaces} or {parameter.name} must be given, and not both")
    sweep = Sweep(Run(method, Setting(**checked), points), axes)
    _checked("vary: the number of runs", len(sweep), COUNT)
    unlike = tuple(replace(axis, rows=axis.rows[:1]) if axis.names == ("seed",) else axis for axis in axes)  # every seed fits
    for _, run in replace(sweep, axes=unlike).runs():  # finds values that are wrong together, such as a rank above the dimension
        try:
            run.setting.check(run.method)
        except ValueError as problem:
            raise ValueError(f"setting or vary: {problem}") from None
    return sweep


def _axis(key: str, value: Any) -> Axis:
    names = tuple(name.strip() for name in key.split(","))
    path, kinds = f"vary.{key}", {"method": METHOD, **SETTING}
    _refuse_unknown("vary.", dict.fromkeys(names), tuple(kinds))
    if isinstance(value, dict):
        _refuse_unknown(f"{path}.", value, ("first", "count"))
        if names != ("seed",) or len(value) != 2:
            raise ValueError(f"{path}: must be a list, or for seed alone {{ first = ..., count = ... }}, got {value}")
        first = _checked(f"{path}.first", value["first"], SEED)
        count = _checked(f"{path}.count", value["count"], COUNT)
        return Axis(names, tuple((seed,) for seed in range(first, first + count)))
    if not isinstance(value, list) or not value:
        raise ValueError(f"{path}: must be a list of at least one value, got {value!r}")
    rows = [row if len(names) > 1 else [row] for row in value]
    for row in rows:
        if not isinstance(row, list) or len(row) != len(names):
            raise ValueError(f"{path}: must list a value for each of {', '.join(names)}, got {row!r}")
    checked: list[tuple[Any, ...]] = [
        tuple(_checked(path, item, kinds[name]) for name, item in zip(names, row, strict=True)) for row in rows
    ]
    if len({row[0] for row in checked}) < len(checked):
        raise ValueError(f"{path}: must have different values, got {value!r}")
    return Axis(names, tuple(checked))


def _refuse_unknown(prefix: str, table: Mapping[str, Any], names: Sequence[str]) -> None:
    for key in table:
        if key not in names:
            near = get_close_matches(key, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(names)}"
            raise ValueError(f"{prefix}{key}: there is no such key{hint}")


def _table(key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{key}: must be a table, got {value!r}")
    return value


def _checked(key: str, value: Any, kind: Kind) -> Any:
    try:
        return kind.value(value)
    except ValueError as problem:
        raise ValueError(f"{key}: {problem}") from None
