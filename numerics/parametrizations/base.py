"""The base class of parametrizations: frozen arrays, one flat vector, first and second derivatives by multilinearity."""

from collections.abc import Callable, Iterable
from functools import cached_property
from math import prod
from typing import ClassVar, Self

import numpy as np
from jaxtyping import Float

from .._checks import finite_array, instance
from ..tasks.losses import QuadraticLoss

Arrays = tuple[np.ndarray, ...]
Field = Callable[[float, np.ndarray], np.ndarray]


class Parametrization:
    """Weights W with an effective map B(W) that is linear in each array of weights.

    A subclass is a frozen dataclass of arrays with four class methods on them, in the order of its fields: ``combine_many(*arrays)``
    is B for weights along the first axis of every array, ``spread(G, *arrays)`` the arrays of (dB/dW)' G. On flat weights,
    ``jacobian(*arrays)`` is the matrix dB/dW, a row for each weight, and ``curvature(G, *arrays)`` the matrix of second derivatives of
    <G, B>.
    """

    shape_letters: ClassVar[dict[str, tuple[str, ...]]]
    combine_many: ClassVar[Callable[..., np.ndarray]]
    spread: ClassVar[Callable[..., Arrays]]
    jacobian: ClassVar[Callable[..., np.ndarray]]
    curvature: ClassVar[Callable[..., np.ndarray]]

    @classmethod
    def combine(cls, *arrays: np.ndarray) -> np.ndarray:
        """The effective map B of the weights in these arrays."""
        return cls.combine_many(*(array[None] for array in arrays))[0]

    def __post_init__(self) -> None:
        sizes: dict[str, int] = {}
        for name, letters in self.shape_letters.items():
            array = finite_array(name, getattr(self, name), [sizes.get(letter, letter) for letter in letters])
            sizes.update(zip(letters, array.shape, strict=True))
            object.__setattr__(self, name, array)
        self.check_sizes(sizes)

    def check_sizes(self, sizes: dict[str, int]) -> None:
        """Raise ``ValueError`` for sizes that do not fit together. A subclass may override it; equal letters agree already."""

    @property
    def arrays(self) -> Arrays:
        return tuple(getattr(self, name) for name in self.shape_letters)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: getattr(self, name).shape for name in self.shape_letters}

    @property
    def size(self) -> int:
        """P, the number of weights."""
        return sum(array.size for array in self.arrays)

    def flatten(self) -> Float[np.ndarray, " P"]:
        return np.concatenate([array.ravel() for array in self.arrays])

    def split(self, vector: Float[np.ndarray, "*batch P"]) -> Arrays:
        """Views of the arrays inside flat weights; leading axes are kept."""
        if np.shape(vector)[-1:] != (self.size,):
            raise ValueError(f"vector must have {self.size} weights along its last axis, got shape {np.shape(vector)}")
        return views(vector, self._shapes)

    @cached_property
    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(array.shape for array in self.arrays)

    def unflatten(self, vector: Float[np.ndarray, " P"]) -> Self:
        """The same parametrization with the weights of ``vector``, as ``flatten`` orders them."""
        return type(self)(*self.split(finite_array("vector", vector, (self.size,))))

    def effective_map(self) -> np.ndarray:
        return type(self).combine(*self.arrays)

    def pull_back(self, G: np.ndarray) -> Self:
        """(dB/dW)' G, shaped like the weights: for G = -1/2 dL/dB it is -1/2 dL/dW, the velocity tau dW/dt of (10)."""
        return type(self)(*type(self).spread(finite_array("G", G, self.effective_map().shape), *self.arrays))

    def field(self, loss: QuadraticLoss) -> Field:
        """``vector_field`` in any precision; a subclass may have a faster one for float64."""
        combine, spread, force = type(self).combine, type(self).spread, loss.force

        def field(_t: float, vector: np.ndarray) -> np.ndarray:
            arrays = self.split(vector)
            return np.concatenate([part.ravel() for part in spread(force(combine(*arrays)), *arrays)])

        return field

    def hessian(self, loss: QuadraticLoss) -> Float[np.ndarray, "P P"]:
        """The Hessian of L/2 in the flat weights: (dB/dW)' C (dB/dW) less the curvature of <G, B>."""
        check_pair(loss, self)
        return -field_jacobian(loss, self)(0.0, self.flatten())

    def conserved(self) -> dict[str, np.ndarray]:
        """Quantities that the gradient flow of any loss conserves, by name."""
        return {}


def views(vector: Float[np.ndarray, "*batch P"], shapes: Iterable[tuple[int, ...]]) -> Arrays:
    """Arrays of these shapes inside flat vectors, one after the other; leading axes are kept."""
    parts, start = [], 0
    for shape in shapes:
        stop = start + prod(shape)
        parts.append(vector[..., start:stop].reshape((*vector.shape[:-1], *shape)))
        start = stop
    return tuple(parts)


def vector_field(loss: QuadraticLoss, weights: Parametrization) -> Field:
    """The velocity tau dW/dt = -1/2 dL/dW of equation (10) on flat weights, for an integrator: no checks, no copies."""
    return weights.field(loss)


def field_jacobian(loss: QuadraticLoss, weights: Parametrization) -> Field:
    """The Jacobian of ``vector_field`` on flat weights: minus the Hessian of L/2."""
    kind, first = type(weights), weights.arrays[0].size

    def field(_t: float, vector: np.ndarray) -> np.ndarray:
        arrays = weights.split(vector)
        rows = kind.jacobian(*arrays)
        B = vector[:first] @ rows[:first]  # it is linear in the first array
        return kind.curvature(loss.force(B.reshape(loss.A.shape)), *arrays) - rows @ loss.matrix @ rows.T

    return field


def check_pair(loss: QuadraticLoss, weights: Parametrization) -> None:
    """Raise ``TypeError`` or ``ValueError`` unless ``loss`` is defined and finite at the effective map of ``weights``."""
    instance("loss", loss, QuadraticLoss)
    instance("weights", weights, Parametrization, "a parametrization such as SeparateWeights")
    with np.errstate(over="ignore", invalid="ignore"):
        B = weights.effective_map()
        if B.shape != loss.A.shape:
            raise ValueError(f"weights must make an effective map of the loss's shape {loss.A.shape}, got {B.shape}")
        value = loss.value(B) if np.isfinite(B).all() else np.inf
    if not np.isfinite(value):
        raise ValueError(f"weights must be small enough for a finite loss, got the loss {value}")
