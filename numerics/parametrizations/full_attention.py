r"""Linear attention with all its blocks, equation (7): those that (M) and (S) hold at zero are trained too.

The effective map is a tensor on the feature :math:`\mathcal G \otimes x_q`, where :math:`\mathcal G` is the (D+1) x (D+1) Gram
matrix (29) of the sequence, query included: :math:`\hat y_q = \sum_{abc} B_{abc}\, \mathcal G_{ab}\, x_{q,c}`. The slice
B[D, :D, :] is the effective map of the reduced models, since the last row of the Gram matrix is beta.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from jaxtyping import Float

from .._checks import generator, instance, nonnegative_number
from ..tasks.regression import RegressionTask
from .attention import MergedWeights, SeparateWeights
from .multilinear import Bilinear, Trilinear


@dataclass(frozen=True, eq=False)
class FullMergedWeights(Bilinear):
    r"""Merged attention, unreduced: :math:`B_{abc} = \sum_i \nu_{i,a} W_{i,bc}`, with the rows :math:`\nu_i = (\mathbf v_i, v_i)`
    of the value and the columns :math:`W_i = (U_i; u_i^\top)` of the merged key and query that reach the output."""

    value: Float[np.ndarray, "H n"]
    key_query: Float[np.ndarray, "H n D"]

    shape_letters: ClassVar = {"value": ("H", "D+1"), "key_query": ("H", "D+1", "D")}
    balance = "nu nu' - W W'"

    @classmethod
    def initialize(cls, task: RegressionTask, *, heads: int, scale: float, rng: np.random.Generator, block_scale: float = 0.0) -> Self:
        r"""Gaussian :math:`v_i, U_i` by equation (34), the other blocks by the same laws with ``block_scale`` for w_init."""
        reduced = MergedWeights.initialize(task, heads=heads, scale=scale, rng=rng)
        (H, D), w_block = reduced.U.shape[:2], nonnegative_number("block_scale", block_scale)
        value = generator("rng", rng).normal(size=(H, D + 1)) * (w_block / np.sqrt(H))
        key_query = rng.normal(size=(H, D + 1, D)) * (w_block / np.sqrt(H * D**2))
        value[:, D], key_query[:, :D] = reduced.v, reduced.U
        return cls(value, key_query)

    @classmethod
    def embed(cls, reduced: MergedWeights) -> Self:
        """The weights ``reduced``, with zeros in the other blocks."""
        value = np.pad(instance("reduced", reduced, MergedWeights, "MergedWeights").v[:, None], ((0, 0), (reduced.U.shape[1], 0)))
        return cls(value, np.pad(reduced.U, ((0, 0), (0, 1), (0, 0))))

    def check_sizes(self, sizes: dict[str, int]) -> None:
        _check_extended("key_query", self.key_query.shape, sizes)


@dataclass(frozen=True, eq=False)
class FullSeparateWeights(Trilinear):
    r"""Separate attention, unreduced: :math:`B_{abc} = \sum_i \nu_{i,a} \sum_r \kappa_{i,r,b} q_{i,r,c}`, with
    :math:`\nu_i = (\mathbf v_i, v_i)` and the whole key vectors :math:`\kappa_{i,r} = (k_{i,r}, k_{i,r,D+1})`."""

    value: Float[np.ndarray, "H n"]
    key: Float[np.ndarray, "H R n"]
    query: Float[np.ndarray, "H R D"]

    shape_letters: ClassVar = {"value": ("H", "D+1"), "key": ("H", "R", "D+1"), "query": ("H", "R", "D")}
    balances = ("K'K - Q'Q", "tr K'K - nu^2")

    @classmethod
    def initialize(
        cls,
        task: RegressionTask,
        *,
        heads: int,
        scale: float,
        rng: np.random.Generator,
        rank: int = 1,
        block_scale: float = 0.0,
        allow_deficient: bool = False,
    ) -> Self:
        r"""Gaussian :math:`v_i, k_{i,r}, q_{i,r}` by equation (36), the other blocks by the same laws with ``block_scale`` for w_init."""
        reduced = SeparateWeights.initialize(task, heads=heads, rank=rank, scale=scale, rng=rng, allow_deficient=allow_deficient)
        (H, R, D), w_block = reduced.k.shape, nonnegative_number("block_scale", block_scale)
        value = rng.normal(size=(H, D + 1)) * (w_block / np.sqrt(H))
        key = rng.normal(size=(H, R, D + 1)) * (w_block / np.sqrt(H * R * D))
        value[:, D], key[:, :, :D] = reduced.v, reduced.k
        return cls(value, key, reduced.q)

    @classmethod
    def embed(cls, reduced: SeparateWeights) -> Self:
        """The weights ``reduced``, with zeros in the other blocks."""
        value = np.pad(instance("reduced", reduced, SeparateWeights, "SeparateWeights").v[:, None], ((0, 0), (reduced.k.shape[2], 0)))
        return cls(value, np.pad(reduced.k, ((0, 0), (0, 0), (0, 1))), reduced.q)

    def check_sizes(self, sizes: dict[str, int]) -> None:
        _check_extended("key", self.key.shape, sizes)
        if sizes["R"] > sizes["D"]:
            raise ValueError(f"query must have rank R at most the dimension D, got shape {self.query.shape}")


def _check_extended(name: str, shape: tuple[int, ...], sizes: dict[str, int]) -> None:
    if sizes["D+1"] != sizes["D"] + 1:
        raise ValueError(f"{name} must have D + 1 = {sizes['D'] + 1} components, those of a token and its label, got shape {shape}")
