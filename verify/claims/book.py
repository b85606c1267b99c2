"""Claims: statements of the paper checked outside the algebra, each with its evidence.

A claim compares a number from theory with the same number reached by an independent route. It measures a function of
*theory's side*, so that it can also be run with a wrong formula; each claim names wrong formulas that must make it fail:

>>> from fractions import Fraction
>>> from iclflow.verify.claims.tolerances import EXACT
>>> book = ClaimBook()
>>> @book.claim("0", "halves add up", method="rational", tolerance=EXACT, theory=Fraction(1, 2),
...             wrong={"a third": Fraction(1, 3)})
... def halves(half):
...     return abs(half + half - 1)
>>> book.checks["halves"].run().status, book.checks["halves"].run("a third").status
('holds', 'fails')
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
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
    measure: Callable[[Any], float]
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
            error = self._explanation()
        return Claim(
            name=self.statement,
            equation=self.equation,
            method=self.method,
            residual=residual if residual is None or abs(residual) < float("inf") else None,
            tolerance=self.tolerance.value,
            tolerance_reason=self.tolerance.reason,
            status="holds" if holds else "fails",
            seconds=time.perf_counter() - start,
            error=error if error or residual is None or abs(residual) < float("inf") else f"residual is {residual}",
        )

    def _explanation(self) -> str | None:
        """Why the claim fails, if ``explain`` is given."""
        if self.explain is None:
            return None
        try:
            return str(self.explain())
        except Exception as problem:
            return f"no explanation: {type(problem).__name__}: {problem}"


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
        statement: str,
        *,
        method: Method,
        theory: Any,
        wrong: Mapping[str, Any],
        tolerance: Tolerance | None = None,
        slow: bool = False,
        explain: Callable[[], object] | None = None,
    ) -> Callable[[Callable[[Any], float]], Callable[[Any], float]]:
        """Register the decorated function, which gives the residual of ``theory``, under its own name.

        ``tolerance`` is that of ``USUAL`` by default. ``explain`` is called if the claim fails, and its answer becomes the claim's error.

        Raises ``ValueError`` for an unknown method, a claim without a planted mistake or without a tolerance, or a name already taken.
        """
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
        allowed = tolerance or USUAL.get(method)
        if allowed is None:
            raise ValueError(f"tolerance must be given for a claim by {method}, got none for {statement!r}")
        if not wrong:
            raise ValueError(f"wrong must name at least one mistake that the claim {statement!r} catches, got none")

        def register(measure: Callable[[Any], float]) -> Callable[[Any], float]:
            name = measure.__name__
            if name in self._checks:
                raise ValueError(f"a claim's name must be new, got {name!r} again")
            self._checks[name] = Check(
                name, statement, equation, method, allowed, theory, MappingProxyType(dict(wrong)), measure, slow, explain
            )
            return measure

        return register

    def select(self, equations: Iterable[str] | None = None, *, full: bool = False) -> list[Check]:
        """The checks of some equations (all of them if None), without the slow ones unless ``full``."""
        wanted = None if equations is None else set(equations)
        return [check for check in self._checks.values() if (wanted is None or check.equation in wanted) and (full or not check.slow)]


BOOK = ClaimBook()
claim = BOOK.claim


def load() -> ClaimBook:
    """The book with every claim of this package in it."""
    for folder in claims.FOLDERS:
        for module in import_module(f".{folder}", claims.__name__).MODULES:
            import_module(f".{folder}.{module}", claims.__name__)
    return BOOK
