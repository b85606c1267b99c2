"""Input checks shared by the public functions: each raises an error naming the argument, what it got and what it needs."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import signature
from numbers import Integral
from typing import Any, ParamSpec, TypeVar

import numpy as np
from jaxtyping import Float

LARGEST = 2**53
SHORTEST, LONGEST = 1e-100, 1e100  # durations in units of tau: beyond, solvers meet the limits of float64
SMALLEST_RTOL = 100 * float(np.finfo(float).eps)
Choice = TypeVar("Choice", bound=str)
Given = ParamSpec("Given")
Result = TypeVar("Result")
ROOM = 10**9  # numbers that a result may hold: 8 GB


def positive_integer(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {_shown(value)}")
    if int(value) > LARGEST:
        raise ValueError(f"{name} must be at most {LARGEST}, up to which float64 holds every integer, got {_shown(value)}")
    return int(value)


def positive_number(name: str, value: object) -> float:
    number = _real(value)
    if number is None or number <= 0:
        raise ValueError(f"{name} must be a positive finite number, got {_shown(value)}")
    return number


def nonnegative_number(name: str, value: object) -> float:
    number = _real(value)
    if number is None or number < 0:
        raise ValueError(f"{name} must be a finite number of at least 0, got {_shown(value)}")
    return number


def index(name: str, value: object, size: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or not 0 <= int(value) < size:
        raise ValueError(f"{name} must be an integer from 0 to {size - 1}, got {_shown(value)}")
    return int(value)


def between(name: str, value: object, low: float, high: float) -> float:
    number = _real(value)
    if number is None or not low < number < high:
        raise ValueError(f"{name} must lie between {low:g} and {high:g}, got {_shown(value)}")
    return number


def tolerance(name: str, value: object) -> float:
    number = positive_number(name, value)
    if not SMALLEST_RTOL <= number < 1:
        raise ValueError(f"{name} must be at least {SMALLEST_RTOL:.2g}, a hundred times the rounding unit, and below 1, got {number!r}")
    return number


def duration(name: str, value: object, tau: float = 1.0) -> float:
    number = positive_number(name, value)
    if not SHORTEST <= number / tau <= LONGEST:
        raise ValueError(f"{name} must be between {SHORTEST:g} and {LONGEST:g} times tau, got {number!r} with tau = {tau!r}")
    return number


class BeyondFloat64Error(ValueError):
    """Raised for numbers that leave the range of float64."""


def within_float64(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """The function, with an error that names its numbers, not those inside, if what it makes of them leaves the range of float64."""

    @wraps(function)
    def guarded(*given: Given.args, **named: Given.kwargs) -> Result:
        try:
            with np.errstate(over="raise", divide="raise", invalid="raise"):
                result = function(*given, **named)
            if isinstance(result, float | np.ndarray) and not np.isfinite(result).all():
                raise OverflowError(f"{function.__name__} is {result!r}")
            return result
        except (FloatingPointError, OverflowError, ZeroDivisionError, BeyondFloat64Error) as error:
            values = signature(function).bind(*given, **named).arguments
            owner = values.pop("self", None)
            values = {one.name: getattr(owner, one.name) for one in fields(owner)} | values if is_dataclass(owner) else values
            numbers = {name: value for name, value in values.items() if np.asarray(value).dtype.kind in "iuf"}
            shown = ", ".join(f"{name} = {_shown(value)}" for name, value in numbers.items())
            raise BeyondFloat64Error(
                f"{', '.join(numbers)} must be of sizes that keep {function.__name__} within float64, got {shown}"
            ) from error

    return guarded


def require_room(name: str, value: int, numbers: int) -> None:
    """Raise ``ValueError`` if a result with this argument would hold more numbers than fit in memory."""
    if numbers > ROOM:
        raise ValueError(f"{name} must be smaller: {name} = {value:,} makes {numbers:,} numbers, and at most {ROOM:,} (8 GB) are kept")


def _shown(value: object) -> str:
    """``value`` as a Python number, 10.0 rather than np.float64(10.0), and a long integer by its length."""
    if isinstance(value, int) and value.bit_length() > 100:
        return f"an integer of {value.bit_length()} bits"
    return repr(value.item() if isinstance(value, np.generic) else value)


def _real(value: object) -> float | None:
    """``value`` as a float, None unless it is a finite real number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer beyond 1e308
        return None
    return number if np.isfinite(number) else None


def finite_array(name: str, value: object, shape: Sequence[int | str] | None = None) -> np.ndarray:
    """A read-only float64 copy of ``value``. A letter in ``shape`` is any size from 1, the same wherever it recurs; None is any shape."""
    try:
        given = np.asarray(value)
        if given.dtype.kind in "bcSUmM":  # NumPy would take True, the real part, "0.4" and dates for numbers
            raise ValueError(f"entries of type {given.dtype}")
        array = np.array(given, dtype=np.float64)
    except OverflowError as error:
        raise ValueError(f"{name} must hold numbers below 1.8e308 in size, got a larger integer") from error
    except RuntimeError as error:  # PyTorch's, which says what to do
        raise ValueError(f"{name} must be an array of real numbers, got a tensor: {error}") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of real numbers, got {value!r}") from error
    sizes: dict[int | str, int] = {}
    pairs = zip(shape or (), array.shape, strict=False)
    fits = all(have == (want if isinstance(want, int) else sizes.setdefault(want, have)) for want, have in pairs)
    if shape is not None and not (fits and array.ndim == len(shape) and array.size):
        wanted = "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"
        raise ValueError(f"{name} must have shape {wanted}, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {value!r}")
    array.flags.writeable = False
    return array


def symmetric_array(name: str, value: object, size: int | str) -> Float[np.ndarray, "n n"]:
    """``value`` as a symmetric matrix. Asymmetry up to 1e-12 of the largest entry is accepted and kept."""
    matrix = finite_array(name, value, (size, size))
    asymmetry = np.abs(matrix - matrix.T).max()
    if asymmetry > 1e-12 * np.abs(matrix).max():
        raise ValueError(f"{name} must be symmetric, got {value!r}, whose asymmetry is {asymmetry:.3g}")
    return matrix


def symmetric_positive_definite(name: str, value: object, size: int | str = "D", *, singular: bool = False) -> Float[np.ndarray, "D D"]:
    """``value`` as a covariance matrix, which with ``singular`` may have eigenvalues of zero, not all of them."""
    matrix = symmetric_array(name, value, size)
    lowest, highest = np.linalg.eigvalsh(matrix)[[0, -1]]
    rounding = len(matrix) * np.finfo(float).eps * highest
    if not (highest > 0 and lowest >= -rounding if singular else lowest > rounding):
        kind = "nonzero and positive semidefinite" if singular else "positive definite"
        raise ValueError(f"{name} must be {kind}, got {value!r}, whose lowest eigenvalue is {lowest:.3g}")
    return matrix


def symmetric_root(covariance: Float[np.ndarray, "D D"]) -> Float[np.ndarray, "D D"]:
    """The symmetric square root; eigenvalues that rounding has made negative count as zero."""
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def generator(name: str, value: object) -> np.random.Generator:
    return instance(name, value, np.random.Generator, "a numpy.random.Generator")


def instance(name: str, value: object, kind: Any, title: str = "") -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {title or f'a {kind.__name__}'}, got {value!r}")
    return value


def one_of(name: str, value: object, choices: Collection[Choice]) -> Choice:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
    return value  # type: ignore[return-value]
