"""The reduced models: merged attention (M) and separate attention (S) of any rank."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from jaxtyping import Float

from .._checks import generator, positive_integer, positive_number, require_room
from ..tasks.regression import RegressionTask, any_task
from .multilinear import Bilinear, Trilinear


@dataclass(frozen=True, eq=False)
class MergedWeights(Bilinear):
    r"""Attention with merged key and query, (M): :math:`B = \sum_i v_i U_i`."""

    v: Float[np.ndarray, " H"]
    U: Float[np.ndarray, "H D D"]

    shape_letters: ClassVar = {"v": ("H",), "U": ("H", "D", "D")}

    @classmethod
    def initialize(cls, task: RegressionTask, *, heads: int, scale: float, rng: np.random.Generator) -> Self:
        """Gaussian weights by equation (34): v_i of variance scale^2/H, entries of U_i of variance scale^2/(H D^2)."""
        D, H = any_task(task).dimension, positive_integer("heads", heads)
        require_room("heads", H, H * (1 + D * D))
        w_init, rng = positive_number("scale", scale), generator("rng", rng)
        v = rng.normal(size=H) * (w_init / np.sqrt(H))
        return cls(v, rng.normal(size=(H, D, D)) * (w_init / np.sqrt(H * D**2)))


@dataclass(frozen=True, eq=False)
class SeparateWeights(Trilinear):
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
        D, H, R = any_task(task).dimension, positive_integer("heads", heads), positive_integer("rank", rank)
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
