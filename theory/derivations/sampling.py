"""An expectation that the engine cannot integrate, by sampling: the one module of the theory that uses NumPy, loaded when it is needed.

The statistic is the largest deviation over all entries, in standard errors. Draws come in pairs, x and -x, so that what is odd in
the Gaussian vectors has no noise.
"""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import sympy
from sympy import Basic
from sympy.matrices.expressions import Identity, MatrixSymbol, ZeroMatrix

from ..expectation.laws import Fixed, Gaussian, Mixture, SampleCovariance, ancestors, laws_by_symbol
from .heads import Head, as_sympy, can_be_carried_out, heads_in
from .points import Point, value_at

Values = dict[Any, np.ndarray]
FUNCTIONS = {sympy.log: np.log, sympy.exp: np.exp, sympy.Abs: np.abs, sympy.tanh: np.tanh, sympy.sign: np.sign}


def standard_errors(line: Any, point: Point, seed: int, count: int) -> float:
    """How many standard errors the mean of left - right over ``count`` draws lies from 0, or on its wrong side, in the worst entry.

    Expectations in the sides are sampled with common random numbers. ValueError where a side is not linear in them.
    """
    sides = _Sides(point, seed, count)
    left, right = sides.of(as_sympy(line.left)), sides.of(as_sympy(line.right))
    difference = left - right
    if np.shape(difference)[:1] != (count,):  # nothing in the two sides is drawn
        difference = np.stack([difference, difference, difference, difference])
    half = len(difference) // 2
    pairs = (difference[:half] + difference[half:]) / 2
    error = pairs.std(axis=0, ddof=1) / len(pairs) ** 0.5
    off = pairs.mean(axis=0)
    deviation = {"=": np.abs(off), ">=": -off, "<=": off}[line.relation]
    return float(np.max(deviation / np.maximum(error, 1e-12 * (1 + np.abs(right).max()))))  # without noise they agree to rounding


class _Draws:
    """Values of symbols, each drawn by its law when it is first asked for; arrays have the draws on the first axis."""

    def __init__(self, laws: Mapping, given: set, point: Point, rng: np.random.Generator, count: int):
        self.laws, self.given, self.point, self.rng, self.count = laws, given, point, rng, count
        self.values: Values = {}

    def symbol(self, symbol: Any) -> np.ndarray:
        if symbol not in self.values:
            law = self.laws.get(symbol)
            free = law is None or symbol in self.given
            if law is not None and not free and ancestors(symbol, self.laws) & self.given - law.parents:
                raise ValueError(f"{symbol} depends on what is given")
            self.values[symbol] = _array(self.point[symbol]) if free else self.drawn(law)
        return self.values[symbol]

    def drawn(self, law: Any) -> np.ndarray:
        if isinstance(law, Fixed):
            return self.matrix(law.value)
        if isinstance(law, Mixture):
            shares = [float(np.mean(self.of(as_sympy(share)))) for share, _ in law.parts]
            chosen = self.rng.choice(len(shares), size=self.count, p=shares)
            parts = np.stack([np.broadcast_to(self.drawn(part), (self.count, *np.shape(self.drawn(part))[-2:])) for _, part in law.parts])
            return parts[chosen, np.arange(self.count)]
        if isinstance(law, Gaussian):
            rows, columns = self.matrix(law.covariance), self.matrix(law.columns)
            return self.matrix(law.mean) + _root(rows) @ self.normal(rows.shape[-1], columns.shape[-1]) @ _root(columns)
        if isinstance(law, SampleCovariance) and law.fourth_moment is None:
            samples = round(float(np.mean(self.of(as_sympy(law.samples)))))
            normal = self.normal(int(law.symbol.shape[0].subs(self.point.sizes)), samples)
            columns = self.matrix(law.mean) + _root(self.matrix(law.covariance)) @ normal
            return columns @ np.swapaxes(columns, -1, -2) / samples
        raise ValueError(f"no samples of {law} can be drawn")

    def normal(self, rows: int, columns: int) -> np.ndarray:
        half = self.rng.standard_normal((self.count // 2, rows, columns))
        return np.concatenate([half, -half])

    def matrix(self, polynomial: Any) -> np.ndarray:
        value = self.of(as_sympy(polynomial))
        return value if np.ndim(value) >= 2 and np.shape(value)[-1:] else np.asarray(value)[..., None, None]

    def of(self, node: Basic) -> np.ndarray:
        """The values of a SymPy expression: a number for each draw, or a matrix."""
        if isinstance(node, MatrixSymbol | sympy.Symbol):
            value = self.symbol(node)
            return value[..., 0, 0] if isinstance(node, MatrixSymbol) and tuple(node.shape) == (1, 1) else value
        if isinstance(node, Identity):
            return np.eye(self.point.size(node.shape[0]))
        if isinstance(node, ZeroMatrix):
            return np.zeros(tuple(self.point.size(dimension) for dimension in node.shape))
        if node.is_number:
            return np.asarray(float(node))
        if isinstance(node, sympy.MatAdd | sympy.Add):
            return np.asarray(sum(self.of(part) for part in node.args))
        if isinstance(node, sympy.MatMul | sympy.Mul):
            return self._product(node)
        if isinstance(node, sympy.Transpose):
            return np.swapaxes(self.of(node.arg), -1, -2)
        if isinstance(node, sympy.Inverse):
            return np.linalg.inv(self.of(node.arg))
        if isinstance(node, sympy.Trace):
            value = self.of(node.arg)
            return value if self._is_scalar(node.arg) else np.trace(value, axis1=-2, axis2=-1)
        if isinstance(node, sympy.MatPow | sympy.Pow):
            base = self.of(node.base)
            return base ** float(node.exp) if self._is_scalar(node.base) else np.linalg.matrix_power(base, int(node.exp))
        if type(node) in FUNCTIONS:
            return FUNCTIONS[type(node)](self.of(node.args[0]))
        raise ValueError(f"{node} ({type(node).__name__}) cannot be sampled")

    def _product(self, node: Basic) -> np.ndarray:
        scalars = [self.of(part) for part in node.args if getattr(part, "shape", None) is None]
        factors = [part for part in node.args if getattr(part, "shape", None) is not None]
        scalar = np.asarray(prod(scalars)) if scalars else np.asarray(1.0)
        if not factors:
            return scalar
        result = self.of(factors[0]) if not self._is_scalar(factors[0]) else self.of(factors[0])[..., None, None]
        for factor in factors[1:]:
            value = self.of(factor)
            result = result * value[..., None, None] if self._is_scalar(factor) else result @ value
        if self._is_scalar(node):
            return scalar * result[..., 0, 0]
        return scalar[..., None, None] * result

    @staticmethod
    def _is_scalar(node: Basic) -> bool:
        return getattr(node, "shape", None) in (None, (1, 1))


class _Sides(_Draws):
    """The same for the sides of a line: each expectation in them has a value for each draw, what stands outside only one."""

    def __init__(self, point: Point, seed: int, count: int):
        super().__init__({}, set(), point, np.random.default_rng(seed), count)
        self.seed = seed
        self.draws: dict[Any, _Draws] = {}

    def of(self, node: Basic) -> np.ndarray:
        if all(map(can_be_carried_out, heads_in(node))):
            return _array(value_at(node, self.point))
        if isinstance(node, Head) and hasattr(node, "given"):
            body, laws, given = node.args[:3]
            if (laws, given) not in self.draws:
                rng = np.random.default_rng(self.seed)
                self.draws[laws, given] = _Draws(
                    laws_by_symbol(laws.value or None, body.free_symbols), set(given), self.point, rng, self.count
                )
            return self.draws[laws, given].of(body)
        sampled = [part for part in node.args if not all(map(can_be_carried_out, heads_in(part)))]
        if isinstance(node, sympy.Add | sympy.MatAdd | sympy.Transpose | sympy.Trace):
            return super().of(node)
        if isinstance(node, sympy.Mul | sympy.MatMul) and len(sampled) == 1:
            return super().of(node)
        raise ValueError(f"{node} is not linear in what is sampled")


def _array(value: Any) -> np.ndarray:
    if hasattr(value, "rows"):
        return np.array(value.tolist(), dtype=float)
    return np.asarray(float(value))


def _root(covariance: np.ndarray) -> np.ndarray:
    eigenvalues, vectors = np.linalg.eigh(covariance)  # it may be singular
    return vectors * np.sqrt(np.maximum(eigenvalues, 0))[..., None, :]
