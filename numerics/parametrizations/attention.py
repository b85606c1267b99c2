"""The reduced models: merged attention (M) and separate attention (S) of any rank."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from jaxtyping import Float

from .._checks import generator, positive_integer, positive_number, require_room
from ..tasks.regression import RegressionTask
from .base import Arrays, Parametrization
from .multilinear import bilinear_curvature, bilinear_jacobian, trilinear_curvature, trilinear_jacobian


@dataclass(frozen=True, eq=False)
class MergedWeights(Parametrization):
    r"""Attention with merged key and query, (M): :math:`B = \sum_i v_i U_i`."""

    v: Float[np.ndarray, " H"]
    U: Float[np.ndarray, "H D D"]

    shape_letters: ClassVar = {"v": ("H",), "U": ("H", "D", "D")}

    @classmethod
    def initialize(cls, task: RegressionTask, *, heads: int, scale: float, rng: np.random.Generator) -> Self:
        """Gaussian weights by equation (34): v_i of variance scale^2/H, entries of U_i of variance scale^2/(H D^2)."""
        D, H = _dimension(task), positive_integer("heads", heads)
        require_room("heads", H, H * (1 + D * D))
        w_init, rng = positive_number("scale", scale), generator("rng", rng)
        v = rng.normal(size=H) * (w_init / np.sqrt(H))
        return cls(v, rng.normal(size=(H, D, D)) * (w_init / np.sqrt(H * D**2)))

    @staticmethod
    def combine(v: np.ndarray, U: np.ndarray) -> np.ndarray:
        return (v @ U.reshape(len(v), -1)).reshape(U.shape[1:])

    @classmethod
    def combine_many(cls, v: np.ndarray, U: np.ndarray) -> np.ndarray:
        return (v[:, None] @ U.reshape(*v.shape, -1)).reshape(len(v), *U.shape[2:])

    @staticmethod
    def spread(G: np.ndarray, v: np.ndarray, U: np.ndarray) -> Arrays:
        return U.reshape(len(v), -1) @ G.ravel(), np.multiply.outer(v, G)

    @staticmethod
    def jacobian(v: np.ndarray, U: np.ndarray) -> np.ndarray:
        return bilinear_jacobian(v[:, None], U.reshape(len(v), -1))

    @staticmethod
    def curvature(G: np.ndarray, v: np.ndarray, U: np.ndarray) -> np.ndarray:
        return bilinear_curvature(G.reshape(1, -1), len(v))

    def conserved(self) -> dict[str, np.ndarray]:
        """Equation (17): w_2 w_2' - W_1 W_1', where the rows of W_1 are vec(U_i)."""
        W_1 = self.U.reshape(len(self.v), -1)
        return {"w_2 w_2' - W_1 W_1'": np.outer(self.v, self.v) - W_1 @ W_1.T}


@dataclass(frozen=True, eq=False)
class SeparateWeights(Parametrization):
    r"""Attention with separate keys and queries of rank R, (S): :math:`B = \sum_i v_i \sum_r k_{i,r} q_{i,r}^\top`.

    Raises ``ValueError`` for a rank R above D.
    """

    v: Float[np.ndarray, " H"]
    k: Float[np.ndarray, "H R D"]
    q: Float[np.ndarray, "H R D"]

    shape_letters: ClassVar = {"v": ("H",), "k": ("H", "R", "D"), "q": ("H", "R", "D")}

    @classmethod
    def initialize(
        cls, task: RegressionTask, *, heads: int, scale: float, rng: np.random.Generator, rank: int = 1, allow_deficient: bool = False
    ) -> Self:
        """Gaussian weights by equation (36): v_i of variance scale^2/H, entries of k, q of variance scale^2/(H R D).

        Raises ``ValueError`` for heads * rank < D (or the directions that task vectors span, if those are fewer), with which the model
        can't learn the whole map, unless ``allow_deficient``.
        """
        D, H, R = _dimension(task), positive_integer("heads", heads), positive_integer("rank", rank)
        require_room("heads", H, H * (1 + 2 * R * D))
        if D < R:
            raise ValueError(f"rank must be at most the dimension {D}, got {R}")
        if task.rank > H * R and not allow_deficient:
            raise ValueError(
                f"heads * rank must be at least the dimension {task.rank}, got heads={H}, rank={R}; "
                "pass allow_deficient=True to study a model that can't learn the whole map"
            )
        w_init, rng = positive_number("scale", scale), generator("rng", rng)
        v = rng.normal(size=H) * (w_init / np.sqrt(H))
        k, q = rng.normal(size=(2, H, R, D)) * (w_init / np.sqrt(H * R * D))
        return cls(v, k, q)

    def check_sizes(self, sizes: dict[str, int]) -> None:
        if sizes["R"] > sizes["D"]:
            raise ValueError(f"k must have rank R at most the dimension D, got shape {self.k.shape}")

    @staticmethod
    def combine(v: np.ndarray, k: np.ndarray, q: np.ndarray) -> np.ndarray:
        H, R, D = k.shape
        weighted = k.reshape(H, R * D) * v[:, None]
        return weighted.reshape(H * R, D).T @ q.reshape(H * R, D)

    @classmethod
    def combine_many(cls, v: np.ndarray, k: np.ndarray, q: np.ndarray) -> np.ndarray:
        weighted, D = k * v[:, :, None, None], k.shape[-1]
        return weighted.reshape(len(v), -1, D).transpose(0, 2, 1) @ q.reshape(len(v), -1, D)

    @staticmethod
    def spread(G: np.ndarray, v: np.ndarray, k: np.ndarray, q: np.ndarray) -> Arrays:
        H, R, D = k.shape
        Gq = (q.reshape(H * R, D) @ G.T).reshape(H, R * D)
        Gk = (k.reshape(H * R, D) @ G).reshape(H, R * D)
        column = v[:, None]
        dv = np.einsum("ij,ij->i", k.reshape(H, R * D), Gq)
        return dv, (column * Gq).reshape(k.shape), (column * Gk).reshape(k.shape)

    @staticmethod
    def jacobian(v: np.ndarray, k: np.ndarray, q: np.ndarray) -> np.ndarray:
        return trilinear_jacobian(v[:, None], k, q)

    @staticmethod
    def curvature(G: np.ndarray, v: np.ndarray, k: np.ndarray, q: np.ndarray) -> np.ndarray:
        return trilinear_curvature(G[None], v[:, None], k, q)

    def conserved(self) -> dict[str, np.ndarray]:
        """Equations (79), (85), and the whole R x R matrix K_i' K_i - Q_i' Q_i of each head (its diagonal is in (85))."""
        return {
            "K'K - Q'Q": self.k @ self.k.transpose(0, 2, 1) - self.q @ self.q.transpose(0, 2, 1),
            "tr K'K - v^2": np.einsum("hrd,hrd->h", self.k, self.k) - self.v**2,
        }


def _dimension(task: RegressionTask) -> int:
    if not isinstance(task, RegressionTask):
        raise TypeError(f"task must be a RegressionTask, got {task!r}")
    return task.dimension
