"""Claims: statements of the paper checked outside the algebra, each with its evidence.

A claim compares a number from theory with the same number reached by an independent route. It measures a function of
*theory's side*, so that it can also be run with a wrong formula; each claim names wrong formulas that must make it fail:

>>> from fractions import Fraction
>>> book = ClaimBook()
>>> @book.claim("0", method="rational", theory=Fraction(1, 2))
... @wrong("a third", Fraction(1, 3))
... def halves(half):
...     "Halves add up."
...     return abs(half + half - 1)
>>> book.checks["halves"].run().status, book.checks["halves"].run("a third").status
('holds', 'fails')
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from inspect import getdoc
from math import isfinite
from types import MappingProxyType
from typing import Any, Literal, get_args

from .. import claims
from .tolerances import EXACT, ROUNDOFF, SAMPLING, SOLVER, Tolerance

Method = Literal["rational", "50 digits", "linear algebra", "flow", "Monte Carlo", "forward pass", "autograd", "descent", "training"]
METHODS: tuple[str, ...] = get_args(Method)
# What a measurement errs by, unless a claim names a tolerance of its own.
USUAL: Mapping[Method, Tolerance] = {
    "rational": EXACT, "linear algebra": ROUNDOFF, "forward pass": ROUNDOFF, "autograd": ROUNDOFF, "flow": SOLVER, "Monte Carlo": SAMPLING,
}  # fmt: skip
Status = Literal["holds", "fails"]
Measure = Callable[[Any], float]  # the residual, of theory's side


@dataclass(frozen=True)
class Claim:
    """One statement and its evidence: it holds if ``residual <= tolerance``.

    ``residual`` is None if the measurement itself failed; ``error`` then says how.
    """

    name: str
    equation: str
    method: str
    residual: float | None
    tolerance: float
    tolerance_reason: str
    status: Status
    seconds: float
    error: str | None = None


@dataclass(frozen=True)
class Check:
    """How a claim is measured: ``measure(theory)`` is its residual.

    ``wrong`` maps the description of a mistake to theory's side with that mistake. A ``slow`` check runs only in the
    full set. ``explain`` says why a failing claim fails.
    """

    name: str
    statement: str
    equation: str
    method: Method
    tolerance: Tolerance
    theory: Any
    wrong: Mapping[str, Any]
    measure: Measure
    slow: bool = False
    explain: Callable[[], object] | None = None

    def run(self, mistake: str | None = None) -> Claim:
        """Measure the claim, or the claim with one of its mistakes planted.

        An exception makes the claim fail; only an interrupt passes through.
        """
        theory = self.theory if mistake is None else self.wrong[mistake]
        start = time.perf_counter()
        residual, error = None, None
        try:
            residual = float(self.measure(theory))
        except Exception as problem:
            error = f"{type(problem).__name__}: {problem}"
        holds = residual is not None and residual <= self.tolerance.value  # False for nan
        if not holds and mistake is None and error is None and self.explain is not None:
            try:
                error = str(self.explain())
            except Exception as problem:
                error = f"no explanation: {type(problem).__name__}: {problem}"
        if residual is not None and not isfinite(residual):
            residual, error = None, error or f"residual is {residual}"
        return Claim(
            name=self.statement,
            equation=self.equation,
            method=self.method,
            residual=residual,
            tolerance=self.tolerance.value,
            tolerance_reason=self.tolerance.reason,
            status="holds" if holds else "fails",
            seconds=time.perf_counter() - start,
            error=error,
        )


@dataclass(frozen=True)
class Mistake:
    """What makes a mistake in theory's side, whatever that is."""

    make: Callable[[Any], Any]

    def __call__(self, theory: Any) -> Any:
        return self.make(theory)


def planted(mistake: Any, theory: Any) -> Any:
    """Theory's side with a mistake: a wrong side, or a :class:`Mistake`, or part of one.

    For a side of several parts, a tuple or a mapping {part: its mistake}. Other mappings are changes {letter: expression}, which each
    function of theory's side takes as its argument ``change``.
    """
    if isinstance(mistake, Mistake):
        return mistake(theory)
    if isinstance(mistake, tuple) and isinstance(theory, tuple) and len(mistake) == len(theory):
        return tuple(map(planted, mistake, theory))
    if not isinstance(mistake, Mapping):
        return mistake
    if isinstance(theory, Mapping) and mistake.keys() <= theory.keys():
        return {**theory, **{part: planted(one, theory[part]) for part, one in mistake.items()}}
    if isinstance(theory, Mapping):
        return {part: planted(mistake, one) for part, one in theory.items()}
    return tuple(planted(mistake, one) for one in theory) if isinstance(theory, tuple) else partial(theory, change=mistake)


def wrong(description: str, mistake: Any) -> Callable[[Measure], Measure]:
    """A decorator below ``claim``: one of the mistakes that the claim catches."""

    def plant(measure: Measure) -> Measure:
        vars(measure)["wrong"] = {description: mistake, **getattr(measure, "wrong", {})}
        return measure

    return plant


class ClaimBook:
    """The checks by name, in the order in which they were written."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}

    @property
    def checks(self) -> Mapping[str, Check]:
        return MappingProxyType(self._checks)

    def claim(
        self,
        equation: str,
        statement: str | None = None,
        *,
        method: Method,
        theory: Any,
        wrong: Mapping[str, Any] = MappingProxyType({}),
        tolerance: Tolerance | None = None,
        slow: bool = False,
        explain: Callable[[], object] | None = None,
    ) -> Callable[[Measure], Measure]:
        """Register the decorated function, which gives the residual of ``theory``, under its own name.

        ``statement`` is the first paragraph of the function's docstring by default, ``tolerance`` that of ``USUAL``. ``explain`` is called
        if the claim fails, and its answer becomes the claim's error.

        ``wrong`` and the decorators :func:`wrong` below name the mistakes that the claim catches, as :func:`planted` reads them.

        Raises ``ValueError`` for an unknown method, a claim without a statement, a planted mistake or a tolerance, or a name already taken.
        """
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
        allowed = tolerance or USUAL.get(method)
        if allowed is None:
            raise ValueError(f"tolerance must be given for a claim by {method}, got none for equation {equation}")

        def register(measure: Measure) -> Measure:
            name = measure.__name__
            if name in self._checks:
                raise ValueError(f"a claim's name must be new, got {name!r} again")
            told = statement or " ".join((getdoc(measure) or "").partition("\n\n")[0].split()).removesuffix(".")
            if not told:
                raise ValueError(f"statement must be given, or a docstring of {name}, got neither")
            mistakes = {mistake: planted(one, theory) for mistake, one in {**wrong, **getattr(measure, "wrong", {})}.items()}
            if not mistakes:
                raise ValueError(f"wrong must name at least one mistake that the claim {told!r} catches, got none")
            self._checks[name] = Check(name, told, equation, method, allowed, theory, MappingProxyType(mistakes), measure, slow, explain)
            return measure

        return register

    def select(self, equations: Iterable[str] | None = None, *, full: bool = False) -> list[Check]:
        """The checks of some equations (all of them if None), without the slow ones unless ``full``."""
        wanted = None if equations is None else set(equations)
        return [check for check in self._checks.values() if (wanted is None or check.equation in wanted) and (full or not check.slow)]


BOOK = ClaimBook()
claim = BOOK.claim


@cache
def load() -> ClaimBook:
    """The book with every claim of this package in it."""
    for folder in claims.FOLDERS:
        for module in import_module(f".{folder}", claims.__name__).MODULES:
            import_module(f".{folder}.{module}", claims.__name__)
    return BOOK
