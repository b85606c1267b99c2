r"""The loss as a quadratic function of the effective map, :math:`L(B) = c - 2\langle A, B\rangle + \langle B, C[B]\rangle`.

The dynamics depend on a task, or a finite training set, through A, C and c alone. B has any shape: a D x D matrix for the
reduced models, a (D+1) x (D+1) x D tensor for the unreduced ones.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

from .._checks import finite_array, symmetric_array
from .regression import RegressionTask, any_task


class LinearOperator(Protocol):
    """A symmetric positive semidefinite linear map on effective maps."""

    def __call__(self, B: np.ndarray) -> np.ndarray: ...
    def many(self, maps: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True, eq=False)
class TwoSided:
    """C[B] = M B Q: the second moment of beta x_q' if beta and x_q are independent, equation (42)."""

    M: Float[np.ndarray, "D D"]
    Q: Float[np.ndarray, "D D"]

    @cached_property
    def entries(self) -> Float[np.ndarray, "D D"] | None:
        """The factors of the entries of B if M and Q are diagonal, otherwise None."""
        diagonal = all(np.array_equal(part, np.diag(np.diag(part))) for part in (self.M, self.Q))
        return np.outer(np.diag(self.M), np.diag(self.Q)) if diagonal else None

    def __call__(self, B: np.ndarray) -> np.ndarray:
        return self.M @ B @ self.Q if self.entries is None else self.entries * B

    def many(self, maps: np.ndarray) -> np.ndarray:
        """C of each of ``maps``, along their first axes."""
        return self(maps)


@dataclass(frozen=True, eq=False)
class Dense:
    """C[B] = ``matrix`` b, a symmetric matrix times B flattened row by row."""

    matrix: Float[np.ndarray, "n n"]

    def __call__(self, B: np.ndarray) -> np.ndarray:
        return self.matrix.dot(B.ravel()).reshape(B.shape)  # faster than @ on few entries

    def many(self, maps: np.ndarray) -> np.ndarray:
        return (maps.reshape(-1, len(self.matrix)) @ self.matrix).reshape(maps.shape)


@dataclass(frozen=True, eq=False)
class QuadraticLoss:
    r"""The mean squared error :math:`L(B) = E(y - \langle B, \phi\rangle)^2`, with features :math:`\phi` shaped like B.

    ``A`` is E(y phi), ``C`` the operator B -> E(phi <phi, B>), ``c`` is E(y^2).
    """

    A: Float[np.ndarray, "*shape"]
    C: LinearOperator
    c: float

    def __post_init__(self) -> None:
        if not callable(self.C):
            raise TypeError(f"C must be an operator, B -> C[B]: Dense(matrix) makes one of a matrix; got {self.C!r}")
        object.__setattr__(self, "A", finite_array("A", self.A))
        object.__setattr__(self, "c", float(finite_array("c", self.c, ())))

    @classmethod
    def population(cls, task: RegressionTask) -> "QuadraticLoss":
        r"""The population loss, equation (9): :math:`A = \Lambda^2`, :math:`C[B] = E(\hat\Lambda^2) B \Lambda`,
        :math:`c = \mathrm{tr}\Lambda`; (V0) for variations of the task. At a map trained on another task it is the test loss (V3)."""
        moments = any_task(task).loss_moments
        return cls(A=moments.A, C=TwoSided(moments.M, moments.Q), c=moments.c)

    @classmethod
    def from_moments(cls, second: np.ndarray, cross: np.ndarray, square: float) -> "QuadraticLoss":
        """The loss with E(phi y) = ``cross`` (the shape of B), E(vec phi vec phi') = ``second`` and E(y^2) = ``square``."""
        A = finite_array("cross", cross)
        return cls(A=A, C=Dense(symmetric_array("second", second, A.size)), c=float(finite_array("square", square, ())))

    @cached_property
    def matrix(self) -> Float[np.ndarray, "n n"]:
        """C as a symmetric matrix on B flattened row by row."""
        return self.C.many(np.eye(self.A.size).reshape(-1, *self.A.shape)).reshape(self.A.size, -1)

    def apply(self, B: np.ndarray) -> np.ndarray:
        """C[B]. Raises ``ValueError``, as the methods below do, unless B has the shape of ``A``."""
        return self.C(self._fitting(B))

    def value(self, B: np.ndarray) -> float:
        """L(B). Raises ``ValueError`` for a B with nan, which comparisons would let pass."""
        B = self._fitting(B)
        value = float(self.c - 2.0 * np.vdot(self.A, B) + np.vdot(B, self.C(B)))
        if np.isnan(value) and np.isnan(B).any():
            raise ValueError(f"B must not hold nan, got {B!r}")
        return value

    def values(self, maps: Float[np.ndarray, "*n_shape"]) -> Float[np.ndarray, " *n"]:
        """The losses at maps along the first axes, as ``value`` gives them one by one."""
        maps, axes = self._fitting(maps, "maps", lead=True), tuple(range(-self.A.ndim, 0))
        values = self.c + np.sum(maps * (self.C.many(maps) - 2.0 * self.A), axis=axes)
        if np.isnan(values).any():
            return np.reshape([self.value(B) for B in maps.reshape(-1, *self.A.shape)], np.shape(values))
        return values

    def gradient(self, B: np.ndarray) -> np.ndarray:
        """dL/dB = 2 (C[B] - A)."""
        return 2.0 * (self.C(self._fitting(B)) - self.A)

    def force(self, B: np.ndarray) -> np.ndarray:
        r"""G = A - C[B] = -1/2 dL/dB, which drives the flow (10): :math:`G = \Lambda^2 - M B \Lambda` for the population."""
        return self.A - self.C(self._fitting(B))

    def _fitting(self, B: Any, name: str = "B", *, lead: bool = False) -> np.ndarray:
        array = B if isinstance(B, np.ndarray) and B.dtype.kind == "f" else finite_array(name, B)
        if array.shape[array.ndim - self.A.ndim if lead else 0 :] != self.A.shape:
            raise ValueError(f"{name} must have shape {self.A.shape}{' along the last axes' * lead}, got shape {array.shape}")
        return array
