"""The reduced models: merged attention (M) and separate attention (S) of any rank."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from jaxtyping import Float

from .._checks import generator, positive_integer, positive_number, require_room
from ..tasks.losses import QuadraticLoss
from ..tasks.regression import RegressionTask, any_task
from .base import Field
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

    def field(self, loss: QuadraticLoss) -> Field:
        """That of the base class in a third of its time: keys and queries lie beside each other, and arrays are used again."""
        (H, R, D), A, C, size = self.k.shape, loss.A, loss.C, self.size
        multiply, subtract, dot, vecdot = np.multiply, np.subtract, np.dot, np.vecdot
        # The weights, then v_i once more for each entry of keys and queries: products without broadcasting cost half.
        entries = np.concatenate([np.arange(size), np.tile(np.repeat(np.arange(H), R * D), 2)])
        state, out, weighted, force, products = map(np.empty, (len(entries), size, (H * R, D), (D, D), size - H))
        k, q, by_head, _ = state[H:].reshape(4, H * R, D)
        by_query, by_key = products.reshape(2, H * R, D)
        keys, moved = k.reshape(H, R * D), by_query.reshape(H, R * D)
        values, growths, velocities, flat, turned = state[size:], out[:H], out[H:], weighted.T, force.T

        def field(_t: float, vector: np.ndarray) -> np.ndarray:
            vector.take(entries, 0, state, "clip")
            multiply(k, by_head, weighted)
            subtract(A, C(dot(flat, q)), force)
            dot(q, turned, by_query)
            dot(k, force, by_key)
            vecdot(keys, moved, growths)
            multiply(products, values, velocities)
            return out.copy()

        return field

    def check_sizes(self, sizes: dict[str, int]) -> None:
        if sizes["R"] > sizes["D"]:
            raise ValueError(f"k must have rank R at most the dimension D, got shape {self.k.shape}")
