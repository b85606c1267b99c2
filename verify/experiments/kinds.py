"""The kinds of values that parameters of a run take: how each is checked, and read from and written as text.

Limits on sizes are far above sensible values: they stop a typing error before memory is allocated. Imports are light, so that the
command line starts fast: NumPy, or even ``dataclasses``, would slow it down.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise
from math import fsum
from operator import index
from typing import Any, NamedTuple

Lengths = tuple[tuple[int, float], ...]

MOST_EIGENVALUES, MOST_LENGTHS, LONGEST = 1000, 10_000, 10**9
CONTEXT_GAINS = ("present", "longest", "official")
TOKEN_LAWS = ("gaussian", "sphere", "rademacher")
STUDENT = range(5, 1001)  # degrees of freedom; with four or fewer the fourth moment is infinite


class RefusedError(ValueError):
    """States the requirement that a value breaks, if the description of its kind does not."""


class Kind(NamedTuple):
    """The values that a parameter takes.

    ``check`` returns a value as settings hold it, and raises an error for a value that is not of this kind; ``read`` and ``write`` turn
    text into a value and back.
    """

    needs: str  # "must be ..."
    check: Callable[[Any], Any]
    read: Callable[[str], Any] = str
    write: Callable[[Any], str] = str
    text_needs: str = ""  # if text is written differently from values
    names: tuple[str, ...] = ()  # suggested for a misspelt one

    def value(self, given: object) -> Any:
        """A value as settings hold it. The message of ``ValueError`` continues the name: "must be ..., got ..."."""
        return self._checked(self.check, given, self.needs)

    def parse(self, text: str) -> Any:
        """The value that a text describes, checked in the same way."""
        return self._checked(lambda given: self.check(self.read(given)), text, self.text_needs or self.needs)

    def _checked(self, check: Callable[[Any], Any], given: Any, needs: str) -> Any:
        try:
            return check(given)
        except (TypeError, ValueError, OverflowError) as problem:
            needs = str(problem) if isinstance(problem, RefusedError) else needs
            misspelt = ":" not in str(given)  # student:4 is not
            near = get_close_matches(str(given), self.names, n=1) if misspelt else []
            hint = f"; did you mean {near[0]}?" if near else ""
            shown = repr(given) if len(repr(given)) <= 120 else f"{repr(given)[:117]}..."
            raise ValueError(f"must be {needs}, got {shown}{hint}") from None

    def takes(self, value: object) -> bool:
        try:
            self.value(value)
        except ValueError:
            return False
        return True


def whole(least: int, most: int) -> Kind:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not least <= index(value) <= most:
            raise ValueError
        return index(value)

    return Kind(f"a whole number from {least} to {most:,}", check, int)


def number(needs: str, inside: Callable[[float], bool]) -> Kind:
    def check(value: Any) -> float:
        if isinstance(value, bool) or not hasattr(value, "__float__") or not inside(float(value)):
            raise ValueError
        return float(value)

    return Kind(needs, check, float)


def choice(*names: str) -> Kind:
    def check(value: Any) -> str:
        if value not in names:
            raise ValueError
        return value

    return Kind(f"one of {', '.join(names)}", check, names=names)


def numbers(most: int) -> Kind:
    """A list of at most ``most`` eigenvalues."""
    each = number("", lambda x: 1e-100 <= x <= 1e100)
    return Kind(
        f"1 to {most:,} positive numbers, each from 1e-100 to 1e+100",
        lambda value: tuple(each.check(item) for item in _items(value, most)),
        lambda text: [float(part) for part in text.split(",")],
        lambda value: ",".join(map(repr, value)),
        f"1 to {most:,} positive numbers separated by commas, each from 1e-100 to 1e+100",
    )


def _items(value: Any, most: int) -> tuple[Any, ...]:
    if isinstance(value, str | Mapping) or not 1 <= len(value) <= most:
        raise ValueError
    return tuple(value)


def _rows(value: Any) -> tuple[tuple[float, ...], ...]:
    entry = number("", lambda x: -1e100 <= x <= 1e100)
    rows = _items(value, MOST_EIGENVALUES)
    return tuple(tuple(entry.check(item) for item in _items(row, MOST_EIGENVALUES)) for row in rows)


def equally_likely(lengths: Sequence[int]) -> Lengths:
    """Each length with the same probability; one that is listed twice is twice as likely."""
    return tuple((n, times / len(lengths)) for n, times in Counter(lengths).items())


def _lengths(value: Any) -> Lengths:
    """Lengths that are equally likely, {length: probability}, or (length, probability) pairs."""
    if isinstance(value, Mapping):  # in TOML keys are strings
        value = [(int(n) if isinstance(n, str) else n, chance) for n, chance in value.items()]
    items = _items(value, MOST_LENGTHS)
    pairs = items if isinstance(items[0], Sequence) else equally_likely(items)
    checked = tuple((LENGTH.check(n), NONNEGATIVE.check(chance)) for n, chance in pairs)
    if len(dict(checked)) < len(checked):
        raise RefusedError("different lengths")
    if abs(fsum(chance for _, chance in checked) - 1) > 1e-12:
        raise RefusedError("lengths with probabilities that add up to 1")
    return checked


def _read_lengths(text: str) -> Any:
    """Context lengths such as 8,16 or 1-31 (a length listed twice is twice as likely) or 8:0.25,16:0.75."""
    parts = [re.fullmatch(r"([0-9]+)(?:-([0-9]+)|:([^:]+))?", part.strip()) for part in text.split(",")]
    named = [part for part in parts if part]
    chances = [part[3] for part in named if part[3]]
    if len(named) < len(parts) or len(chances) not in (0, len(parts)):
        raise ValueError
    if chances:
        return [(int(part[1]), float(part[3])) for part in named]
    ranges = [range(int(part[1]), int(part[2] or part[1]) + 1) for part in named]
    if not all(ranges):
        raise RefusedError("lengths in ranges that rise, such as 1-31")
    if sum(map(len, ranges)) > MOST_LENGTHS:
        raise RefusedError(f"at most {MOST_LENGTHS:,} lengths")
    return [n for lengths in ranges for n in lengths]


def _write_lengths(value: Lengths) -> str:
    listed = [n for n, _ in value]
    if len({chance for _, chance in value}) > 1:
        return ",".join(f"{n}:{chance!r}" for n, chance in value)
    rising = all(after == n + 1 for n, after in pairwise(listed))
    return f"{listed[0]}-{listed[-1]}" if rising else ",".join(map(str, listed))


def _token_law(value: Any) -> str:
    student = re.fullmatch("student:([0-9]{1,4})", value)
    if value not in TOKEN_LAWS and not (student and int(student[1]) in STUDENT):
        raise ValueError
    return f"student:{int(student[1])}" if student else value


LENGTH = whole(1, LONGEST)
SEED = whole(0, 2**63 - 1)
POSITIVE = number("a positive number of at most 1e+20", lambda x: 0 < x <= 1e20)
NONNEGATIVE = number("a number from 0 to 1e+100", lambda x: 0 <= x <= 1e100)
MOMENTUM = number("a number of at least 0 and below 1", lambda x: 0 <= x < 1)
EIGENVALUES = numbers(MOST_EIGENVALUES)
ROWS = Kind(
    "the rows of a matrix, of numbers up to 1e+100",
    _rows,
    lambda text: [[float(part) for part in row.split(",")] for row in text.split(";")],
    lambda rows: f"'{';'.join(','.join(map(repr, row)) for row in rows)}'",
    "the rows of a matrix, numbers up to 1e+100 separated by commas and rows by semicolons",
)
COVARIANCE = Kind(
    f"{EIGENVALUES.needs}, or {ROWS.needs}",
    lambda value: (EIGENVALUES if EIGENVALUES.takes(value) else ROWS).check(value),
    write=lambda value: (EIGENVALUES if EIGENVALUES.takes(value) else ROWS).write(value),
)
LENGTHS = Kind(
    f"a list of lengths, or a table {{ 8 = 0.25, 16 = 0.75 }} of their probabilities: at most {MOST_LENGTHS:,}, up to {LONGEST:,}",
    _lengths,
    _read_lengths,
    _write_lengths,
    f"lengths such as 8,16 or 1-31 or 8:0.25,16:0.75, at most {MOST_LENGTHS:,}, from 1 to {LONGEST:,}",
)
TOKEN_LAW = Kind(
    f"{', '.join(TOKEN_LAWS)} or student:NU with a whole NU above 4, up to {STUDENT[-1]:,}", _token_law, names=(*TOKEN_LAWS, "student:8")
)
