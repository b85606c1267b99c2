r"""Laws of the tokens other than Gaussian (V5): the fourth moment that the loss needs, and how to draw them.

A token is :math:`x = Rz` with :math:`RR^\top = \Lambda` and z of covariance I. A law draws z from standard normal numbers and gives
:math:`F = E(xx^\top Sxx^\top)`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from ...theory.notation import D, Lambda
from ...theory.results.task.population import Sigma_w
from ...theory.results.variations.token_laws import kappa, nu
from .._checks import positive_integer
from ..compilation.equations import compiled

Normal = Callable[[tuple[int, ...]], Any]  # standard normal numbers of a shape, as a NumPy or a PyTorch array


@runtime_checkable
class TokenLaw(Protocol):
    """The law of z."""

    def white(self, normal: Normal, shape: tuple[int, ...]) -> Any:
        """Vectors z of covariance I along the last axis, made from standard normal numbers."""
        ...

    def fourth_moment(self, root: Float[np.ndarray, "D D"], S: Float[np.ndarray, "D D"]) -> Float[np.ndarray, "D D"]:
        """E(x x' S x x') for x = root z."""
        ...


def _elliptical() -> Callable[..., np.ndarray]:
    return compiled("V5-elliptical", (Lambda, Sigma_w, kappa), part="fourth")


class EllipticalTokens:
    """Laws of uniform direction: the fourth moment is kappa times the Gaussian one (V5-elliptical)."""

    def kappa(self, dimension: int) -> float:
        raise NotImplementedError

    def fourth_moment(self, root: np.ndarray, S: np.ndarray) -> np.ndarray:
        return _elliptical()(root @ root.T, S, self.kappa(len(S)))


@dataclass(frozen=True)
class GaussianTokens(EllipticalTokens):
    """The paper's law."""

    def kappa(self, dimension: int) -> float:
        return 1.0

    def white(self, normal: Normal, shape: tuple[int, ...]) -> Any:
        return normal(shape)


@dataclass(frozen=True)
class SphereTokens(EllipticalTokens):
    """z uniform on the sphere of radius sqrt(D): kappa = D/(D + 2)."""

    def kappa(self, dimension: int) -> float:
        return float(compiled("V5-elliptical", (D,), part="sphere")(positive_integer("dimension", dimension)))

    def white(self, normal: Normal, shape: tuple[int, ...]) -> Any:
        g = normal(shape)
        return g * (shape[-1] / (g * g).sum(-1)[..., None]) ** 0.5


@dataclass(frozen=True)
class StudentTokens(EllipticalTokens):
    """A multivariate Student law, scaled to covariance I: kappa = (nu - 2)/(nu - 4).

    Raises ``ValueError`` unless ``degrees_of_freedom`` is an integer above 4: otherwise there is no fourth moment.
    """

    degrees_of_freedom: int

    def __post_init__(self) -> None:
        if positive_integer("degrees_of_freedom", self.degrees_of_freedom) <= 4:
            raise ValueError(f"degrees_of_freedom must be above 4, for a fourth moment to exist, got {self.degrees_of_freedom}")

    def kappa(self, dimension: int) -> float:
        return float(compiled("V5-elliptical", (nu,), part="student")(self.degrees_of_freedom))

    def white(self, normal: Normal, shape: tuple[int, ...]) -> Any:
        nu, g, chi = self.degrees_of_freedom, normal(shape), normal((*shape[:-1], self.degrees_of_freedom))
        return g * ((nu - 2) / (chi * chi).sum(-1)[..., None]) ** 0.5


@dataclass(frozen=True)
class RademacherTokens:
    """Independent signs along the eigenvectors of Lambda: kurtosis 1."""

    def white(self, normal: Normal, shape: tuple[int, ...]) -> Any:
        return 2.0 * (normal(shape) > 0) - 1.0

    def fourth_moment(self, root: np.ndarray, S: np.ndarray) -> np.ndarray:
        # (V5-independent) with kurtosis 1: it adds -2 root diag(root' S root) root' to the Gaussian moment
        return _elliptical()(root @ root.T, S, 1.0) - 2 * (root * np.diag(root.T @ S @ root)) @ root.T


def cumulants(law: TokenLaw, root: Float[np.ndarray, "D D"]) -> list[tuple[float, Float[np.ndarray, "D D"]]]:
    """The pairs (c_m, V_m) with E(x x' A x x') = its Gaussian value + sum_m c_m tr(V_m A) V_m for x = root z, under any law.

    They are the nonzero eigenvalues, and the eigenvectors, of a symmetric form on symmetric matrices.
    """
    units = np.eye(len(root))
    pairs = [(units[i][:, None] * units[j], 0.5 if i == j else 2**-0.5) for i in range(len(root)) for j in range(i + 1)]
    basis = np.array([size * (one + one.T) for one, size in pairs])  # orthonormal, of the symmetric matrices
    form = np.empty((len(basis), len(basis)))
    size = 0.0
    for column, S in enumerate(basis):
        F, gaussian = law.fourth_moment(root, S), GaussianTokens().fourth_moment(root, S)
        form[:, column] = np.einsum("mij,ij->m", basis, F - gaussian)
        size = max(size, float(np.abs(gaussian).max()))
    values, vectors = np.linalg.eigh((form + form.T) / 2)
    matrices = np.einsum("km,kij->mij", vectors, basis)
    return [(float(c), V) for c, V in zip(values, matrices, strict=True) if abs(c) > 1e-13 * size]
