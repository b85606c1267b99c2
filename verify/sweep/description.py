"""The file that describes a sweep, in TOML, and the runs that it asks for.

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

``method`` may be varied too. Whatever is wrong with the file is told with its name and the key.
"""

import hashlib
import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from importlib.metadata import version
from itertools import product
from math import isfinite, prod
from pathlib import Path
from typing import Any

import numpy as np

from ...numerics.tasks.regression import GAINS
from ..experiments.setting import DEFAULT, Covariance, Setting, equally_likely, token_law

METHODS = ("flow", "descent", "training")


@dataclass(frozen=True)
class Run:
    """One run of a sweep: what is integrated or trained, and at how many times its loss is kept."""

    method: str
    setting: Setting
    points: int

    @property
    def name(self) -> str:
        """A hash of all that the result depends on: a run that has this name need not be made again."""
        parameters = {**asdict(self), "version": version("iclflow")}
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
                name: value
                for axis, i in zip(self.axes, place, strict=True)
                for name, value in zip(axis.names, axis.rows[i], strict=True)
            }
            method = changed.pop("method", self.base.method)
            yield place, replace(self.base, method=method, setting=replace(self.base.setting, **changed))


def read_sweep(path: Path) -> Sweep:
    """The sweep that a TOML file describes.

    Raises ``ValueError`` in one line, naming the file and the key, for a file that is no TOML, an unknown key, and a
    value of the wrong type or size.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise ValueError(f"{path}: is not TOML: {problem}") from None
    try:
        return _sweep(document)
    except ValueError as problem:
        raise ValueError(f"{path}: {problem}") from None


def _sweep(document: Mapping[str, Any]) -> Sweep:
    _known("", document, ("method", "points", "setting", "vary"))
    method = _checked("method", document.get("method", "flow"), _method)
    points = _checked("points", document.get("points", 200), _whole(2))
    given = _table("setting", document.get("setting", {}))
    _known("setting.", given, tuple(SETTING))
    checked = {name: _checked(f"setting.{name}", value, SETTING[name]) for name, value in given.items()}
    axes = tuple(_axis(key, value) for key, value in _table("vary", document.get("vary", {})).items())
    names = [name for axis in axes for name in axis.names]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"vary: {name} must be varied once, got {names.count(name)} times")
    if {"context_length", "context_lengths"} <= {*checked, *names}:
        raise ValueError("setting or vary: context_length or context_lengths must be given, and not both")
    try:
        setting = replace(DEFAULT, **checked)
    except ValueError as problem:
        raise ValueError(f"setting: {problem}") from None
    sweep = Sweep(Run(method, setting, points), axes)
    for _, run in sweep.runs():  # what no single value can show, such as a rank above the dimension
        try:
            initial = run.setting.weights
        except ValueError as problem:
            raise ValueError(f"setting or vary: {problem}") from None
        if not np.isfinite(initial.flatten()).all():
            raise ValueError(f"setting or vary: scale is too large or small for float64, got {run.setting.scale!r}")
    return sweep


def _axis(key: str, value: Any) -> Axis:
    names = tuple(name.strip() for name in key.split(","))
    path, checks = f"vary.{key}", {"method": _method, **SETTING}
    _known("vary.", dict.fromkeys(names), tuple(checks))
    if isinstance(value, dict):
        _known(f"{path}.", value, ("first", "count"))
        if names != ("seed",) or len(value) != 2:
            raise ValueError(f"{path}: must be a list, or for seed alone {{ first = ..., count = ... }}, got {value}")
        first = _checked(f"{path}.first", value["first"], _whole(0))
        count = _checked(f"{path}.count", value["count"], _whole(1))
        return Axis(names, tuple((seed,) for seed in range(first, first + count)))
    if not isinstance(value, list) or not value:
        raise ValueError(f"{path}: must be a list of at least one value, got {value!r}")
    rows = [row if len(names) > 1 else [row] for row in value]
    for row in rows:
        if not isinstance(row, list) or len(row) != len(names):
            raise ValueError(f"{path}: must list a value for each of {', '.join(names)}, got {row!r}")
    checked: list[tuple[Any, ...]] = [
        tuple(_checked(path, item, checks[name]) for name, item in zip(names, row, strict=True)) for row in rows
    ]
    if len({row[0] for row in checked}) < len(checked):
        raise ValueError(f"{path}: must have different values, got {value!r}")
    return Axis(names, tuple(checked))


def _known(prefix: str, table: Mapping[str, Any], names: Sequence[str]) -> None:
    for key in table:
        if key not in names:
            near = get_close_matches(key, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(names)}"
            raise ValueError(f"{prefix}{key}: there is no such key{hint}")


def _table(key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{key}: must be a table, got {value!r}")
    return value


def _checked(key: str, value: Any, check: Callable[[Any], Any]) -> Any:
    try:
        return check(value)
    except ValueError as problem:
        raise ValueError(f"{key}: {problem}, got {value!r}") from None


def _method(value: Any) -> str:
    if value not in METHODS:
        raise ValueError(f"must be one of {', '.join(METHODS)}")
    return value


def _whole(least: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"must be a whole number of at least {least}")
        return value

    return check


def _positive(value: Any) -> float:
    if not _is_number(value) or value <= 0:
        raise ValueError("must be a positive number")
    return float(value)


def _eigenvalues(value: Any) -> tuple[float, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError("must be a list of positive numbers")
    return tuple(_positive(number) for number in value)


def _covariance(value: Any) -> Covariance:
    """Eigenvalues along those of the tokens, or the rows of a matrix."""
    if not isinstance(value, list) or not value or not isinstance(value[0], list):
        return _eigenvalues(value)
    for row in value:
        if not isinstance(row, list) or not all(_is_number(entry) for entry in row):
            raise ValueError("must be a list of positive numbers, or the rows of a matrix")
    return tuple(tuple(float(entry) for entry in row) for row in value)


def _lengths(value: Any) -> tuple[tuple[int, float], ...]:
    """Lengths that are equally likely, or a table of their probabilities."""
    if isinstance(value, dict) and value and all(key.isdigit() for key in value):
        return tuple((_whole(1)(int(key)), _nonnegative(chance)) for key, chance in value.items())
    if not isinstance(value, list) or not value:
        raise ValueError("must be a list of lengths, or a table { 8 = 0.25, 16 = 0.75 } of their probabilities")
    return equally_likely([_whole(1)(length) for length in value])


def _nonnegative(value: Any) -> float:
    if not _is_number(value) or value < 0:
        raise ValueError("must be a number of at least 0")
    return float(value)


def _momentum(value: Any) -> float:
    if not _is_number(value) or not 0 <= value < 1:
        raise ValueError("must be a number of at least 0 and below 1")
    return float(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _context_gain(value: Any) -> str:
    if value not in tuple(GAINS):
        raise ValueError(f"must be one of {', '.join(GAINS)}")
    return value


def _token_law(value: Any) -> str:
    try:
        token_law(str(value))
    except ValueError as problem:
        raise ValueError(str(problem).removeprefix("token_law ").partition(", got")[0]) from None
    return value


SETTING: dict[str, Callable[[Any], Any]] = {
    "eigenvalues": _eigenvalues,
    "context_length": _whole(1),
    "heads": _whole(1),
    "rank": _whole(1),
    "scale": _positive,
    "seed": _whole(0),
    "duration": _positive,
    "learning_rate": _positive,
    "momentum": _momentum,
    "batch_size": _whole(1),
    "tilt_seed": _whole(0),
    "noise_variance": _nonnegative,
    "task_covariance": _covariance,
    "query_covariance": _covariance,
    "context_lengths": _lengths,
    "context_gain": _context_gain,
    "token_law": _token_law,
}
if SETTING.keys() != {field.name for field in fields(Setting)}:
    raise TypeError("SETTING must check every field of Setting")
