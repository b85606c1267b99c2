r"""The loss as a quadratic function of the effective map, :math:`L(B) = c - 2\langle A, B\rangle + \langle B, C[B]\rangle`.

Everything that a task, or a finite training set, means to the dynamics is in A, C and c. B has any shape: a D x D matrix for
the reduced models, a (D+1) x (D+1) x D tensor for the unreduced blocks.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from jaxtyping import Float

from ._checks import finite_array
from .tasks import RegressionTask


class LinearOperator(Protocol):
    """A symmetric positive semidefinite linear map on effective maps."""

    def __call__(self, B: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True, eq=False)
class TwoSided:
    """C[B] = M B Q: the second moment of beta x_q' where beta and x_q are independent, equation (42)."""

    M: Float[np.ndarray, "D D"]
    Q: Float[np.ndarray, "D D"]

    def __call__(self, B: np.ndarray) -> np.ndarray:
        return self.M @ B @ self.Q


@dataclass(frozen=True, eq=False)
class Dense:
    """C[B] = the symmetric ``matrix`` on B flattened row by row."""

    matrix: Float[np.ndarray, "n n"]

    def __call__(self, B: np.ndarray) -> np.ndarray:
        return (self.matrix @ B.ravel()).reshape(B.shape)


@dataclass(frozen=True, eq=False)
class QuadraticLoss:
    r"""A mean squared error of :math:`\hat y = \langle B, \phi\rangle` with features :math:`\phi` shaped like B.

    ``A`` is E(y phi), ``C`` the operator B -> E(phi <phi, B>), ``c`` is E(y^2): the loss is E(y - <B, phi>)^2.
    """

    A: Float[np.ndarray, "*shape"]
    C: LinearOperator
    c: float

    @classmethod
    def population(cls, task: RegressionTask) -> "QuadraticLoss":
        r"""The population loss, equation (9): :math:`A = \Lambda^2`, :math:`C[B] = E(\hat\Lambda^2) B \Lambda`,
        :math:`c = \mathrm{tr}\Lambda`."""
        if not isinstance(task, RegressionTask):
            raise TypeError(f"task must be a RegressionTask, got {task!r}")
        moments = task.loss_moments()
        return cls(A=moments.A, C=TwoSided(moments.M, moments.Q), c=moments.c)

    @classmethod
    def from_moments(cls, second: np.ndarray, cross: np.ndarray, square: float) -> "QuadraticLoss":
        """The loss with E(phi y) = ``cross`` (the shape of B), E(vec phi vec phi') = ``second`` and E(y^2) = ``square``."""
        cross = np.asarray(cross)
        A = finite_array("cross", cross, cross.shape)
        matrix = finite_array("second", second, (A.size, A.size))
        return cls(A=A, C=Dense(matrix), c=float(finite_array("square", square, ())))

    @classmethod
    def empirical(cls, batches: Iterable[tuple[np.ndarray, np.ndarray]]) -> "QuadraticLoss":
        """The loss on a finite training set, from batches ``(phi, y)`` of shapes (P, \\*shape) and (P,), in one pass.

        Memory holds one batch and the moments, however many batches there are. Raises ``ValueError`` for no batch, and for
        a batch whose shapes don't agree with the first.
        """
        count, second, cross, square, shape = 0, None, None, 0.0, None
        for phi, y in batches:
            phi, y = np.asarray(phi, dtype=np.float64), np.asarray(y, dtype=np.float64)
            shape = phi.shape[1:] if shape is None else shape
            if phi.ndim < 2 or phi.shape[1:] != shape or y.shape != phi.shape[:1]:
                raise ValueError(f"batches must hold phi (P, {shape}) and y (P,), got {phi.shape} and {y.shape}")
            rows = phi.reshape(len(y), -1)
            second = rows.T @ rows + (0.0 if second is None else second)
            cross = rows.T @ y + (0.0 if cross is None else cross)
            square, count = square + float(y @ y), count + len(y)
        if second is None or cross is None or shape is None or count == 0:
            raise ValueError("batches must hold at least one sequence, got none")
        return cls.from_moments(second / count, (cross / count).reshape(shape), square / count)

    def apply(self, B: np.ndarray) -> np.ndarray:
        """C[B]."""
        return self.C(B)

    def value(self, B: np.ndarray) -> float:
        return float(self.c - 2.0 * np.vdot(self.A, B) + np.vdot(B, self.C(B)))

    def gradient(self, B: np.ndarray) -> np.ndarray:
        """dL/dB = 2 (C[B] - A)."""
        return 2.0 * (self.C(B) - self.A)

    def force(self, B: np.ndarray) -> np.ndarray:
        r"""G = A - C[B] = -1/2 dL/dB, which drives the flow (10): :math:`G = \Lambda^2 - M B \Lambda` for the population."""
        return self.A - self.C(B)
