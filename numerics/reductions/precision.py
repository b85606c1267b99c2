r"""The formulas to 50 digits, and in balls that enclose the exact value, whose printed digits are proven.

>>> task = ExactTask(["0.4", "0.3", "0.2", "0.1"], 31)
>>> proven_digits(plateau_loss(task, [0, 1, 2, 3]))
'0.1359950715980248383857899854618476439641'
>>> print(mpmath.nstr(plateau_loss(task, [0, 1, 2, 3], backend="mpmath"), 50))
0.13599507159802483838578998546184764396413288948154

Both evaluate equations of the registry, the first by mpmath, the second by Arb (python-flint).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from typing import Any, Literal

import mpmath
from flint import arb, ctx, fmpq, fmpz

from ...theory import TracePolynomial, notation
from ...theory.calculus import spectral
from ...theory.equations import equation
from ...theory.notation import D, Lambda, N, T, lambda_, t, tau
from ...theory.results.separate import durations
from .._checks import positive_integer
from ..compilation.equations import compiled
from ..compilation.expressions import compile_expression

Backend = Literal["arb", "mpmath"]
Exact = Fraction | int | float | str

# Decimal digits carried: a value of mpmath is good to 50; a ball is a little wider than its precision, so it holds that value.
DIGITS = {"mpmath": 50, "arb": 40}


@dataclass(frozen=True)
class ExactTask:
    """A task with exact numbers: eigenvalues as fractions, integers or decimal strings (a float counts as its exact binary value)."""

    eigenvalues: tuple[Fraction, ...]
    context_length: int

    def __init__(self, eigenvalues: Sequence[Exact], context_length: int) -> None:
        values = tuple(_exact("eigenvalues", value) for value in eigenvalues)
        if not values:
            raise ValueError("eigenvalues must hold at least one number, got none")
        object.__setattr__(self, "eigenvalues", values)
        object.__setattr__(self, "context_length", positive_integer("context_length", context_length))

    def of(self, component: int) -> tuple[Fraction, Fraction, int]:
        """lambda_d, tr(Lambda), N."""
        if isinstance(component, bool) or not isinstance(component, int) or not 0 <= component < len(self.eigenvalues):
            raise ValueError(f"component must be an integer from 0 to {len(self.eigenvalues) - 1}, got {component!r}")
        return self.eigenvalues[component], sum(self.eigenvalues, Fraction(0)), self.context_length


def second_moment(task: ExactTask, component: int, *, backend: Backend = "arb") -> Any:
    """a_d, equation (32), as (V1-beta) gives it without noise."""
    trace = {TracePolynomial(Lambda).trace().to_sympy(): T}
    formula = partial(compiled, "V1-beta", (lambda_, T, N, notation.sigma), part="a", change=trace)
    return _evaluate(formula, (*task.of(component), 0), backend)


def fixed_value(task: ExactTask, component: int, *, backend: Backend = "arb") -> Any:
    """v*, equation (25)."""
    return _evaluate(partial(compiled, "25", (lambda_, T, N), part="written out"), task.of(component), backend)


def plateau_loss(task: ExactTask, directions: Sequence[int], *, backend: Backend = "arb") -> Any:
    """The loss at the fixed points with these directions learned, equations (24), (59)."""
    if len(set(directions)) < len(directions):
        raise ValueError(f"directions must differ from each other, got {directions!r}")
    for component in directions:
        task.of(component)
    learned = [int(component in directions) for component in range(len(task.eigenvalues))]
    formula = partial(compiled, "59", (*spectral.directions(len(learned)), T, N), part="loss", size=len(learned))
    return _evaluate(formula, (*task.eigenvalues, *learned, *task.of(0)[1:]), backend)


def time_between(task: ExactTask, component: int, v_0: Exact, v: Exact, *, backend: Backend = "arb") -> Any:
    """The time from v_0 to v, equation (67), in units of tau; both below v*, or both above.

    Raises ``ValueError`` if they are on different sides, or so near v* that the side is not proven.
    """
    start, end = _exact("v_0", v_0), _exact("v", v)
    level = fixed_value(task, component)
    with ctx.workprec(200):
        balls = [arb(value.numerator) / value.denominator for value in (start, end)]
    if not (all(bool(ball < level) for ball in balls) or all(bool(ball > level) for ball in balls)):
        raise ValueError(f"v_0 and v must lie, provably, on the same side of v* = {level}, got {v_0!r} and {v!r}")
    return _evaluate(_time, (*task.of(component), start, end), backend)


def sigma(task: ExactTask, time: Exact, s_0: Exact, *, backend: Backend = "arb") -> Any:
    """Equation (15) at a time in units of tau, for a task of equal eigenvalues."""
    if len(set(task.eigenvalues)) > 1:
        raise ValueError(f"task must have equal eigenvalues, got {task.eigenvalues}")
    values = (_exact("time", time, positive=False), _exact("s_0", s_0), task.eigenvalues[0], len(task.eigenvalues), task.context_length)
    return _evaluate(partial(compiled, "15", (t, notation.s_0, lambda_, D, N, tau), part="scaled"), (*values, 1), backend)


def proven_digits(ball: arb, most: int = 60) -> str:
    """The leading digits that all numbers in the ball share, not rounded; with an exponent below 1e-4 and above 1e15.

    Raises ``ValueError`` for a ball without a certain digit.
    """
    with ctx.workprec(4000):  # the ends are rounded to the working precision
        low, high = _rational(ball.lower()), _rational(ball.upper())
    if low * high <= 0:
        raise ValueError(f"ball must not contain zero, or no digit is certain, got {ball}")
    sign, low, high = ("-", -high, -low) if low < 0 else ("", low, high)
    exponent = 0  # of the leading digit
    while high >= fmpq(10) ** (exponent + 1):
        exponent += 1
    while high < fmpq(10) ** exponent:
        exponent -= 1
    for digits in range(most, 0, -1):
        scale = fmpq(10) ** (digits - 1 - exponent)
        if (low * scale).floor() == (high * scale).floor():
            return sign + _positional(str((low * scale).floor()), exponent)
    raise ValueError(f"ball must be narrow enough to have a certain digit, got {ball}")


def contains(ball: arb, value: Any) -> bool:
    """Whether the ball contains the mpmath number ``value``, compared exactly."""
    mantissa, exponent = value.man_exp  # as it is: mpf(value) would round to the working precision
    signed = -int(mantissa) if value < 0 else int(mantissa)
    return bool(ball.contains(arb((fmpz(signed), fmpz(int(exponent))))))


Formula = Callable[..., Any]


@cache
def _time(backend: str) -> Formula:
    """(67) without cancellation."""
    u, u_0, delta, gap = durations.u, durations.u_0, durations.delta, durations.gap
    v, v_0, level = notation.v, notation.v_0, equation("25").part("written out")
    scaled = durations.time_between().subs(gap, 1 - u)
    duration = equation("68").part().subs(v_0, level) * scaled.subs({u: v / level, u_0: v_0 / level, delta: (v - v_0) / level})
    return compile_expression(duration.subs(tau, 1), (lambda_, T, N, v_0, v), backend)


def _evaluate(formula: Callable[..., Formula], values: tuple, backend: str) -> Any:
    if backend not in DIGITS:
        raise ValueError(f"backend must be 'arb' or 'mpmath', got {backend!r}")
    function, digits = formula(backend=backend), DIGITS[backend]
    if backend == "arb":
        with ctx.workprec(int((digits + 2) * 3.33)):
            return function(*values)
    with mpmath.workdps(digits + 20):  # cancellation in the formulas is far below twenty digits
        value = function(*values)
    with mpmath.workdps(digits):
        return +value


def _exact(name: str, value: Any, *, positive: bool = True) -> Fraction:
    try:
        number = Fraction(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be made of fractions, whole numbers or decimal strings, got {value!r}") from error
    if positive and number <= 0:
        raise ValueError(f"{name} must be positive, got {value!r}")
    return number


def _rational(point: arb) -> fmpq:
    mantissa, exponent = point.man_exp()
    return fmpq(mantissa) * fmpq(2) ** int(exponent)


def _positional(digits: str, exponent: int) -> str:
    if not -5 < exponent < 16:
        return f"{digits[0]}.{digits[1:]}e{exponent}" if len(digits) > 1 else f"{digits}e{exponent}"
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    if len(digits) <= exponent + 1:
        return digits if len(digits) == exponent + 1 else f"{digits[0]}.{digits[1:]}e{exponent}"
    return f"{digits[: exponent + 1]}.{digits[exponent + 1 :]}"
