r"""The linear networks on the feature :math:`z = \mathrm{vec}(\beta x_q^\top)` that linear attention is equivalent to.

vec stacks columns, as in the paper: :math:`z = x_q \otimes \beta`. The effective map is the D x D matrix B of the attention models,
so their losses apply.
"""

from dataclasses import dataclass
from math import isqrt
from typing import ClassVar, Self

import numpy as np
from jaxtyping import Float

from .._checks import finite_array, instance
from ..tasks.regression import RegressionTask
from .attention import MergedWeights, SeparateWeights
from .base import Arrays, Parametrization
from .multilinear import Bilinear, Trilinear


@dataclass(frozen=True, eq=False)
class TwoLayerNetwork(Bilinear):
    r"""The fully connected network equivalent to merged attention: :math:`\hat y_q = w_2^\top W_1 z`, equations (11), (12)."""

    w_2: Float[np.ndarray, " H"]
    W_1: Float[np.ndarray, "H DD"]

    shape_letters: ClassVar = {"w_2": ("H",), "W_1": ("H", "D*D")}

    @classmethod
    def initialize(cls, task: RegressionTask, *, heads: int, scale: float, rng: np.random.Generator) -> Self:
        """The weights of merged attention drawn by equation (34), regrouped by equation (12)."""
        return cls.from_attention(MergedWeights.initialize(task, heads=heads, scale=scale, rng=rng))

    @classmethod
    def from_attention(cls, weights: MergedWeights) -> Self:
        """Equation (12): w_2 = v, and the rows of W_1 are vec(U_i)."""
        return cls(instance("weights", weights, MergedWeights, "MergedWeights").v, weights.U.transpose(0, 2, 1).reshape(len(weights.v), -1))

    def check_sizes(self, sizes: dict[str, int]) -> None:
        if isqrt(sizes["D*D"]) ** 2 != sizes["D*D"]:
            raise ValueError(f"W_1 must have a square number D*D of columns, got shape {self.W_1.shape}")

    def output(self, z: Float[np.ndarray, "P DD"]) -> Float[np.ndarray, " P"]:
        """The network's output on features z, one in each row."""
        return finite_array("z", z, ("P", self.W_1.shape[1])) @ (self.w_2 @ self.W_1)

    field = Parametrization.field

    @classmethod
    def combine(cls, w_2: np.ndarray, W_1: np.ndarray) -> np.ndarray:
        return cls.combine_many(w_2[None], W_1[None])[0]

    @classmethod
    def combine_many(cls, w_2: np.ndarray, W_1: np.ndarray) -> np.ndarray:
        D = isqrt(W_1.shape[2])
        return super().combine_many(w_2, W_1).reshape(-1, D, D).swapaxes(1, 2)

    @classmethod
    def spread(cls, G: np.ndarray, w_2: np.ndarray, W_1: np.ndarray) -> Arrays:
        return super().spread(G.T, w_2, W_1)

    @classmethod
    def jacobian(cls, w_2: np.ndarray, W_1: np.ndarray) -> np.ndarray:
        rows, D = super().jacobian(w_2, W_1), isqrt(W_1.shape[1])
        return rows.reshape(-1, D, D).swapaxes(1, 2).reshape(rows.shape)

    @classmethod
    def curvature(cls, G: np.ndarray, w_2: np.ndarray, W_1: np.ndarray) -> np.ndarray:
        return super().curvature(G.T, w_2, W_1)


@dataclass(frozen=True, eq=False)
class ConvolutionalNetwork(Trilinear):
    r"""The three-layer convolutional network equivalent to separate attention of rank one (section 4.1):
    :math:`\hat y_q = \sum_i v_i q_i^\top K_i z` with :math:`K_i = I_D \otimes k_i^\top`, a convolution of kernel k_i and stride D."""

    v: Float[np.ndarray, " H"]
    k: Float[np.ndarray, "H D"]
    q: Float[np.ndarray, "H D"]

    shape_letters: ClassVar = {"v": ("H",), "k": ("H", "D"), "q": ("H", "D")}
    balances = ("k'k - q'q", "k'k - v^2")

    @classmethod
    def initialize(cls, task: RegressionTask, *, heads: int, scale: float, rng: np.random.Generator, allow_deficient: bool = False) -> Self:
        """The weights of rank-one separate attention drawn by equation (36)."""
        attention = SeparateWeights.initialize(task, heads=heads, scale=scale, rng=rng, rank=1, allow_deficient=allow_deficient)
        return cls.from_attention(attention)

    @classmethod
    def from_attention(cls, weights: SeparateWeights) -> Self:
        if instance("weights", weights, SeparateWeights, "SeparateWeights").k.shape[1] != 1:
            raise ValueError(f"weights must be of rank 1, got rank {weights.k.shape[1]}")
        return cls(weights.v, weights.k[:, 0], weights.q[:, 0])

    def output(self, z: Float[np.ndarray, "P DD"]) -> Float[np.ndarray, " P"]:
        """The network's output on features z, one in each row: convolved with each kernel, weighted by q, then by v."""
        D = self.k.shape[1]
        patches = finite_array("z", z, ("P", D * D)).reshape(-1, D, D)
        return np.einsum("h,hc,hb,pcb->p", self.v, self.q, self.k, patches, optimize=True)
