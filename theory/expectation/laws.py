"""Laws of random symbols (Gaussian vectors, sample covariances, definitions, mixtures) and the order in which they are integrated."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sympy import Identity, ZeroMatrix
from sympy.matrices.expressions import MatrixSymbol

from .. import notation
from ..algebra.polynomial import TracePolynomial, zero


@dataclass(frozen=True)
class Gaussian:
    """``symbol ~ N(mean, covariance)``, a column vector or a matrix; mean and covariance may contain other random symbols.

    Of a matrix X, ``covariance`` is that between rows and ``columns`` that between columns: Cov(X_ij, X_kl) = covariance_ik columns_jl.
    The mean defaults to zero, covariances to the identity. Label noise, for example, is
    ``Gaussian(zeta, covariance=sigma**2 / N * Lambda_hat)``: given the context, (1/N) sum_n eps_n x_n is Gaussian with that covariance.
    """

    symbol: MatrixSymbol
    mean: Any = None
    covariance: Any = None
    columns: Any = None

    def __post_init__(self):
        if not isinstance(self.symbol, MatrixSymbol) or getattr(self.symbol, "is_symmetric_letter", False):
            raise ValueError(f"Gaussian: the symbol must be a vector or a matrix that is not symmetric, got {self.symbol!r}")
        rows, columns = shape = self.symbol.shape
        _store(self, "mean", ZeroMatrix(*shape), shape)
        for name, size in (("covariance", rows), ("columns", columns)):
            value = _store(self, name, Identity(size), (size, size))
            if value != value.T:
                raise ValueError(f"Gaussian: {name} must be symmetric, got {value}")

    @property
    def parents(self) -> set:
        return self.mean.free_symbols | self.covariance.free_symbols | self.columns.free_symbols


@dataclass(frozen=True)
class Fixed:
    """``symbol = value``: a definition, such as beta = Lambda_hat w. ``Fixed(x, x)`` declares that x is not random."""

    symbol: MatrixSymbol
    value: Any

    def __post_init__(self):
        if not isinstance(self.symbol, MatrixSymbol):
            raise ValueError(f"Fixed: the symbol must be a matrix or a vector symbol, got {self.symbol!r}")
        _store(self, "value", None, self.symbol.shape)

    @property
    def parents(self) -> set:
        return set() if self.value == self.symbol else self.value.free_symbols


@dataclass(frozen=True)
class Mixture:
    """``symbol`` follows one of several laws, with the given probabilities: ``Mixture(((p, law), (1 - p, law)))``.

    All laws are for the same symbol, and the probabilities, rational in scalar symbols, add up to exactly 1.
    """

    parts: tuple

    def __post_init__(self):
        if not isinstance(self.parts, tuple | list):
            raise TypeError(f"Mixture: parts must be several pairs (probability, law), got {self.parts!r}")
        for part in self.parts:
            if not (isinstance(part, tuple | list) and len(part) == 2 and isinstance(part[1], Law)):
                raise TypeError(f"Mixture: each part must be a pair (probability, law), got {part!r}")
        parts = tuple((TracePolynomial(weight), law) for weight, law in self.parts)
        for weight, _ in parts:
            if weight.shape is not None or any(traces for _, traces, _ in weight.terms):
                raise ValueError(f"Mixture: a probability must be rational in scalar symbols, got {weight}")
            if weight.to_sympy().is_negative:
                raise ValueError(f"Mixture: a probability must not be negative, got {weight}")
        if len({law.symbol for _, law in parts}) != 1:
            raise ValueError(f"Mixture: the laws must be for one symbol, got {[law.symbol for _, law in parts]}")
        total = sum((weight for weight, _ in parts), start=zero(None))
        if total != 1:
            raise ValueError(f"Mixture: the probabilities must add up to 1, got {total}")
        object.__setattr__(self, "parts", parts)

    @property
    def symbol(self):
        return self.parts[0][1].symbol

    @property
    def parents(self) -> set:
        return set().union(*(law.parents for _, law in self.parts))


@dataclass(frozen=True)
class SampleCovariance:
    """``symbol = (1/N) sum_n x_n x_n'`` of N independent tokens with the given covariance and mean, Gaussian of mean zero by default.

    ``fourth_moment``: for tokens of another law, the linear map A -> E[x x' A x x'], a function of a TracePolynomial; only expectations up
    to second order in the symbol are then known. For Gaussian tokens the map is A -> C A C + C A' C + tr(A C) C.
    """

    symbol: MatrixSymbol
    covariance: Any
    samples: Any
    fourth_moment: Callable | None = None
    mean: Any = None

    def __post_init__(self):
        if not getattr(self.symbol, "is_symmetric_letter", False):
            raise ValueError(f"SampleCovariance: {self.symbol} must be a symmetric_matrix symbol")
        size = self.symbol.shape[0]
        _store(self, "covariance", None, (size, size))
        _store(self, "samples", None, None)
        _store(self, "mean", ZeroMatrix(size, 1), (size, 1))
        number = self.samples.to_sympy()
        if number.is_number and not (number.is_Integer and number > 0):
            raise ValueError(f"SampleCovariance: samples must be a positive integer or a symbol, got {number}")
        if self.covariance != self.covariance.T:
            raise ValueError(f"SampleCovariance: covariance must be symmetric, got {self.covariance}")
        if self.fourth_moment is not None and not callable(self.fourth_moment):
            raise TypeError(f"SampleCovariance: fourth_moment must be a function, got {self.fourth_moment!r}")
        if self.fourth_moment is not None and self.mean.terms:
            raise ValueError(f"SampleCovariance: fourth_moment is that of tokens with mean 0, got the mean {self.mean} as well")

    @property
    def parents(self) -> set:
        return self.covariance.free_symbols | self.mean.free_symbols

    def around_the_average(self) -> tuple["Law", ...]:
        """The same by the average u of the tokens, and the sample covariance C of N - 1 independent others: (N - 1)/N C + u u'."""
        size, N = self.symbol.shape[0], self.samples
        u, C = notation.vector(f"<average of {self.symbol}>", size), notation.symmetric_matrix(f"<rest of {self.symbol}>", size)
        average, others = Gaussian(u, self.mean, self.covariance / N), N - 1
        if not others.terms:
            return Fixed(self.symbol, u * u.T), average
        return Fixed(self.symbol, C * (others / N) + u * u.T), average, SampleCovariance(C, self.covariance, others)


Law = Gaussian | Fixed | Mixture | SampleCovariance


def _store(law, name: str, default, shape) -> TracePolynomial:
    given = getattr(law, name)
    if given is None and default is None:
        raise ValueError(f"{type(law).__name__}: {name} of {law.symbol} must be given")
    value, shape = TracePolynomial(default if given is None else given), None if shape == (1, 1) else shape
    if value.shape != shape and value.terms:
        raise ValueError(f"{type(law).__name__}: {name} of {law.symbol} must have shape {shape or 'scalar'}, got {value} of {value.shape}")
    object.__setattr__(law, name, value if value.terms else zero(shape))
    return getattr(law, name)


PAPER_LAWS: tuple = (
    Fixed(notation.y_q, notation.w.T * notation.x_q),  # (4)
    Fixed(notation.beta, notation.Lambda_hat * notation.w),  # (30)
    Gaussian(notation.x_q, covariance=notation.Lambda),  # (2)
    Gaussian(notation.w),  # (3)
    SampleCovariance(notation.Lambda_hat, notation.Lambda, notation.N),  # (2), (28)
)


# One token, all tokens, their targets, label noise
DATA_LAWS: tuple = (
    Fixed(notation.y_n, notation.w.T * notation.x_n),  # (4)
    Fixed(notation.y, notation.X_c.T * notation.w),  # (4)
    Gaussian(notation.x_n, covariance=notation.Lambda),  # (2)
    Gaussian(notation.X_c, covariance=notation.Lambda),  # (2)
    Gaussian(notation.noise_q, covariance=notation.sigma**2),
    Gaussian(notation.zeta, covariance=notation.sigma**2 / notation.N * notation.Lambda_hat),
)
_others_hat = notation.symmetric_matrix("others_hat", notation.D)  # the sample covariance of the tokens but one
_DATA = re.compile(r"([xXy]|y_?hat|eps|epsilon|noise)(_.*)?|.*_hat(?![a-z]).*")


def looks_random(symbol) -> bool:
    """Does a matrix symbol have the name of a token, a target, an output, noise, or of an estimate, with a hat?"""
    return isinstance(symbol, MatrixSymbol) and bool(_DATA.fullmatch(symbol.name))


def laws_by_symbol(law, present: Iterable = ()) -> dict:
    """{symbol: law}: the laws of the ``law`` argument of ``expect``, and the paper's for all other symbols.

    If the tokens X_c or one of them, x_n, are ``present``, Lambda_hat is X_c X_c' / N, or x_n x_n' / N and what the other tokens add.
    """
    if law is None:
        given = ()
    elif isinstance(law, Law):
        given = (law,)
    elif isinstance(law, Mapping):
        given = tuple(law.values())
        if any(symbol != getattr(one, "symbol", None) for symbol, one in law.items()):
            raise ValueError(f"expect: each key of law must be the symbol of its law, got {law}")
    elif isinstance(law, Iterable):
        given = tuple(law)
    else:
        given = (law,)
    for one in given:
        if not isinstance(one, Law):
            raise TypeError(f"expect: law must be a law or several of them (Gaussian, SampleCovariance, Fixed, Mixture), got {one!r}")
    laws = {one.symbol: one for one in (*PAPER_LAWS, *DATA_LAWS)}
    seen = set()
    for one in given:
        if one.symbol in seen:
            raise ValueError(f"expect: {one.symbol} has two laws; combine them in a Mixture")
        seen.add(one.symbol)
        laws[one.symbol] = one
    return laws | _tied(laws, set(present).union(*(ancestors(symbol, laws) for symbol in present)), seen)


def _tied(laws: dict, present: set, given: set) -> dict:
    """The law of Lambda_hat beside its own tokens, those without a given law."""
    Lambda_hat, X_c, x_n = notation.Lambda_hat, notation.X_c, notation.x_n
    tokens = present & {X_c, x_n} - given
    if not tokens or Lambda_hat not in present:
        if len(tokens) > 1:
            raise ValueError("expect: x_n is a column of X_c; write one of them, or give a law")
        return {}
    law = laws[Lambda_hat]
    if len(tokens) > 1 or law not in PAPER_LAWS:
        raise ValueError(f"expect: {min(tokens, key=str)} stands beside a Lambda_hat of another law, or beside other tokens; give a law")
    if X_c in tokens:
        return {Lambda_hat: Fixed(Lambda_hat, X_c * X_c.T / law.samples)}
    others = law.samples - 1
    mean = (others * _others_hat + x_n * x_n.T) / law.samples
    return {Lambda_hat: Fixed(Lambda_hat, mean), _others_hat: SampleCovariance(_others_hat, law.covariance, others)}


def ancestors(symbol, laws: dict) -> set:
    """The symbols that a law depends on, directly or through other laws."""
    found, new = set(), {symbol}
    while new:
        new = set().union(*(laws[one].parents for one in new & laws.keys())) - found
        found |= new
    return found


def outermost_first(laws: dict) -> list:
    """Each law before those it depends on: beta before w and Lambda_hat, noise before the tokens that it multiplies."""
    order: list = []
    visiting: set = set()

    def visit(symbol):
        if symbol in visiting:
            raise ValueError(f"expect: the law of {symbol} depends on itself")
        if symbol in laws and all(symbol != one.symbol for one in order):
            visiting.add(symbol)
            for parent in sorted(laws[symbol].parents, key=str):
                visit(parent)
            visiting.discard(symbol)
            order.append(laws[symbol])

    for symbol in laws:
        visit(symbol)
    return order[::-1]
