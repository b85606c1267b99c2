r"""Attention as PyTorch modules that read the sequence matrix X of equation (1), and the networks they equal.

.. math::
    \mathrm{ATTN}(X) = X + \sum_{i=1}^H W_i^V X\,A\!\Bigl(\frac{X^\top W_i^{KQ} X}{\rho}\Bigr), \qquad
    \hat y_q = \mathrm{ATTN}(X)_{D+1, N+1}

Equations (5) and (6). ``A`` is the softmax of each column, or the identity in linear attention, where ``rho = N``.
``W^{KQ}`` is one matrix a head (merged), or ``W_i^{K\top} W_i^Q`` with R rows each (separate). No module is given
beta, Lambda or any other statistic: the scores of every token are computed, head by head, as attention computes them.
"""

from typing import Self

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ...numerics._checks import finite_array, instance, positive_number
from ...numerics.parametrizations.attention import MergedWeights, SeparateWeights


def _parameter(name: str, array: object) -> nn.Parameter:
    """A copy of an array as a parameter, float64 unless it already is a tensor of another precision."""
    if isinstance(array, Tensor):
        return nn.Parameter(array.detach().clone())
    return nn.Parameter(torch.tensor(finite_array(name, array)))


class Attention(nn.Module):
    """Multi-head attention; a subclass builds the value and key-query matrices from its parameters.

    With ``softmax`` this is equation (5), otherwise linear attention. ``rho`` divides the scores; None means N for
    linear attention (the paper's average over the context) and 1 for softmax.
    """

    def __init__(self, *, softmax: bool = False, rho: float | None = None):
        super().__init__()
        self.softmax = softmax
        self.rho = None if rho is None else positive_number("rho", rho)

    def values(self) -> Float[Tensor, "H D+1 D+1"]:
        """The matrices W^V."""
        raise NotImplementedError(f"{type(self).__name__} must build its value matrices")

    def key_queries(self) -> Float[Tensor, "H D+1 D+1"]:
        """The matrices W^{KQ}."""
        raise NotImplementedError(f"{type(self).__name__} must build its key-query matrices")

    def _weigh(self, scores: Tensor, context_length: int, dim: int) -> Tensor:
        if self.softmax:
            return torch.softmax(scores / (self.rho or 1.0), dim=dim)
        return scores / (self.rho or context_length)

    def attend(self, X: Float[Tensor, "P D+1 N+1"]) -> Float[Tensor, "P D+1 N+1"]:
        """The whole output sequence, equation (5) to the letter."""
        Y = X[:, None]
        scores = Y.mT @ self.key_queries() @ Y
        return X + (self.values() @ Y @ self._weigh(scores, X.shape[-1] - 1, dim=-2)).sum(dim=1)

    def forward(self, X: Float[Tensor, "P D+1 N+1"]) -> Float[Tensor, " P"]:
        """The prediction (6): the last entry of :meth:`attend`, without computing the others."""
        query = torch.einsum("hij,pj->phi", self.key_queries(), X[:, :, -1])
        attention = self._weigh(query @ X, X.shape[-1] - 1, dim=-1)
        return torch.einsum("phi,hi->p", attention @ X.mT, self.values()[:, -1])

    @property
    def linear(self) -> bool:
        """True without a softmax: the prediction is ``features(X) @ coefficients()``."""
        return not self.softmax

    def features(self, X: Float[Tensor, "P D+1 N+1"]) -> Float[Tensor, "P F"]:
        """The features of linear attention: all products of an entry of the Gram matrix X X'/rho and one of the query."""
        gram = X @ X.mT / (self.rho or X.shape[-1] - 1)
        return torch.einsum("pji,pk->pjik", gram, X[:, :, -1]).flatten(start_dim=1)

    def coefficients(self) -> Float[Tensor, "*networks F"]:
        """The weight of each feature; parameters may be stacked over networks, here and in ``effective_map``."""
        return torch.einsum("...hj,...hik->...jik", self.values()[..., -1, :], self.key_queries()).flatten(start_dim=-3)


class Reduced(Attention):
    """Linear attention that is ``beta' B x_q``: its features are z = vec(beta x_q')."""

    def effective_map(self) -> Float[Tensor, "*networks D D"]:
        """B of ``yhat = beta' B x_q``."""
        raise NotImplementedError(f"{type(self).__name__} must build its effective map")

    def features(self, X: Float[Tensor, "P D+1 N+1"]) -> Float[Tensor, "P D*D"]:
        """z, divided by rho instead of N."""
        N = X.shape[-1] - 1
        return cubic_features(X) * (N / (self.rho or N))

    def coefficients(self) -> Float[Tensor, "*networks D*D"]:
        """vec(B), columns stacked as in z."""
        return self.effective_map().mT.flatten(start_dim=-2)


class MergedAttention(Attention):
    """Linear or softmax attention with every block of (7): W^V and W^{KQ}, each (H, D+1, D+1)."""

    def __init__(self, value, key_query, **options):
        super().__init__(**options)
        self.value, self.key_query = _parameter("value", value), _parameter("key_query", key_query)

    def values(self) -> Tensor:
        return self.value

    def key_queries(self) -> Tensor:
        return self.key_query


class SeparateAttention(Attention):
    """Attention with every block of its value (H, D+1, D+1), key and query (H, R, D+1) matrices."""

    def __init__(self, value, key, query, **options):
        super().__init__(**options)
        self.value, self.key, self.query = _parameter("value", value), _parameter("key", key), _parameter("query", query)

    def values(self) -> Tensor:
        return self.value

    def key_queries(self) -> Tensor:
        return self.key.mT @ self.query


def _value_blocks(v: Float[Tensor, " H"], D: int) -> Float[Tensor, "H D+1 D+1"]:
    """W^V, zero except for v_i in its corner."""
    return nn.functional.pad(v[:, None, None], (D, 0, D, 0))


class ReducedMerged(Reduced):
    r"""Attention (M): the blocks other than v_i and U_i held at zero, so that ``yhat = sum_i v_i beta' U_i x_q``."""

    def __init__(self, weights: MergedWeights, **options):
        super().__init__(**options)
        self.v, self.U = map(_parameter, ("v", "U"), instance("weights", weights, MergedWeights, "MergedWeights").arrays)

    def values(self) -> Tensor:
        return _value_blocks(self.v, self.U.shape[-1])

    def key_queries(self) -> Tensor:
        return nn.functional.pad(self.U, (0, 1, 0, 1))

    def effective_map(self) -> Float[Tensor, "*networks D D"]:
        """B of ``yhat = beta' B x_q``."""
        return torch.einsum("...h,...hij->...ij", self.v, self.U)

    def weights(self) -> MergedWeights:
        """The weights as the numerical layer holds them."""
        return MergedWeights(self.v.detach().cpu().numpy().copy(), self.U.detach().cpu().numpy().copy())


class ReducedSeparate(Reduced):
    r"""Attention (S): only v_i, k_{i,r}, q_{i,r} differ from zero, ``yhat = sum v_i beta' k_{i,r} q_{i,r}' x_q``."""

    def __init__(self, weights: SeparateWeights, **options):
        super().__init__(**options)
        self.v, self.k, self.q = map(_parameter, "vkq", instance("weights", weights, SeparateWeights, "SeparateWeights").arrays)

    def values(self) -> Tensor:
        return _value_blocks(self.v, self.k.shape[-1])

    def key_queries(self) -> Tensor:
        return nn.functional.pad(self.k.mT @ self.q, (0, 1, 0, 1))

    def effective_map(self) -> Float[Tensor, "*networks D D"]:
        """B of ``yhat = beta' B x_q``."""
        return (self.v[..., None, None] * self.k).flatten(-3, -2).mT @ self.q.flatten(-3, -2)

    def weights(self) -> SeparateWeights:
        """The weights as the numerical layer holds them."""
        return SeparateWeights(*(w.detach().cpu().numpy().copy() for w in (self.v, self.k, self.q)))


def cubic_features(X: Float[Tensor, "P D+1 N+1"]) -> Float[Tensor, "P D*D"]:
    """``z = vec(beta x_q')`` of (12), columns stacked as in the paper: entry ``j D + i`` is ``beta_i x_{q,j}``."""
    N = X.shape[-1] - 1
    beta = X[:, :-1, :-1] @ X[:, -1, :-1, None] / N
    return (X[:, :-1, -1, None] * beta.mT).flatten(start_dim=1)


class TwoLayerNetwork(nn.Module):
    """The fully connected linear network ``w_2' W_1 z`` of (11), equal to attention (M)."""

    def __init__(self, w2, W1):
        super().__init__()
        self.w2, self.W1 = _parameter("w2", w2), _parameter("W1", W1)

    @classmethod
    def equivalent_to(cls, weights: MergedWeights) -> Self:
        """The network whose rows of W_1 are vec(U_i)', equation (12)."""
        U = torch.tensor(weights.U, dtype=torch.float64)
        return cls(weights.v, U.mT.flatten(start_dim=1))

    def forward(self, X: Float[Tensor, "P D+1 N+1"]) -> Float[Tensor, " P"]:
        return (cubic_features(X) @ self.W1.mT) @ self.w2


class ConvolutionalNetwork(nn.Module):
    """The sum of three-layer convolutional linear networks ``sum_i v_i sum_r q_{i,r}' K_{i,r} z``, equal to (S).

    ``K = I_D (x) k'`` is a convolution of z with kernel k and stride D; q weighs its D outputs, v the heads.
    """

    def __init__(self, weights: SeparateWeights):
        super().__init__()
        self.v, self.k, self.q = map(_parameter, "vkq", instance("weights", weights, SeparateWeights, "SeparateWeights").arrays)

    def forward(self, X: Float[Tensor, "P D+1 N+1"]) -> Float[Tensor, " P"]:
        H, R, D = self.k.shape
        convolved = nn.functional.conv1d(cubic_features(X)[:, None], self.k.reshape(H * R, 1, D), stride=D)
        return torch.einsum("h,hrj,phrj->p", self.v, self.q, convolved.unflatten(1, (H, R)))
