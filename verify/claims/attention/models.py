"""Claims about what attention computes, on PyTorch modules that read X.

Every block of every weight matrix is random unless the statement says that it is zero.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ....numerics import MergedWeights, SeparateWeights
from ...experiments import draws
from ...training.modules import ConvolutionalNetwork, MergedAttention, ReducedMerged, ReducedSeparate, SeparateAttention, TwoLayerNetwork
from ...training.sequences import draw_sequences
from ..book import claim, wrong
from .moments import TILTED as TASK

D, N, H, R = 3, 5, 4, 2


@draws.remembered
def prompts(count: int = 64, seed: int = 7) -> tuple[Tensor, Tensor]:
    return draw_sequences(TASK, count, draws.torch_generator(seed))


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=draws.torch_generator(seed), dtype=torch.float64)


def _merged() -> MergedAttention:
    return MergedAttention(random(H, D + 1, D + 1, seed=1), random(H, D + 1, D + 1, seed=2))


def _separate() -> SeparateAttention:
    return SeparateAttention(random(H, D + 1, D + 1, seed=3), random(H, R, D + 1, seed=4), random(H, R, D + 1, seed=5))


def merged_weights(seed: int = 8) -> MergedWeights:
    rng = draws.generator(seed)
    return MergedWeights(rng.standard_normal(H), rng.standard_normal((H, D, D)))


def separate_weights(seed: int = 9) -> SeparateWeights:
    rng = draws.generator(seed)
    return SeparateWeights(rng.standard_normal(H), *rng.standard_normal((2, H, R, D)))


def largest(difference: Tensor, scale: Tensor) -> float:
    """The largest difference relative to the largest value."""
    return float((difference.abs().max() / scale.abs().max()).detach())


def _apart(network: Callable[[Tensor], Tensor], other: Callable[[Tensor], Tensor]) -> float:
    """The largest difference of the outputs for the prompts, relative to the largest output of the first."""
    whole = network(prompts()[0])
    return largest(whole - other(prompts()[0]), whole)


def statistics(X: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """beta, Lhat, the mean square of the labels, and the query token, read off the prompt."""
    x, y, query = X[:, :-1, :-1], X[:, -1, :-1], X[:, :-1, -1]
    return torch.einsum("pdn,pn->pd", x, y) / N, x @ x.mT / N, y.square().mean(dim=1), query


def block_formula(X: Tensor, attention: MergedAttention | SeparateAttention, *, query_token: float = 1.0) -> Tensor:
    """Equation (7), block by block; ``query_token`` is the weight of ``x_q x_q'/N``."""
    beta, S, y2, x_q = statistics(X)
    row, columns = attention.values()[:, -1], attention.key_queries()
    v_bold, v, U, u = row[:, :D], row[:, D], columns[:, :D, :D], columns[:, D, :D]
    top = S + query_token * torch.einsum("pi,pj->pij", x_q, x_q) / N
    corner = torch.einsum("hi,pij,hjk,pk->p", v_bold, top, U, x_q)
    reduced = torch.einsum("h,pi,hij,pj->p", v, beta, U, x_q)
    mirror = torch.einsum("hi,pi,hj,pj->p", v_bold, beta, u, x_q)
    return corner + reduced + mirror + torch.einsum("h,p,hj,pj->p", v, y2, u, x_q)


WITHOUT_QUERY = wrong("query token left out", partial(block_formula, query_token=0.0))


@claim("7", method="forward pass", theory=block_formula)
@WITHOUT_QUERY
def merged_blocks(formula) -> float:
    """The last entry of ATTN_M(X), with all blocks random, against the block formula."""
    return _apart(lambda X: _merged().attend(X)[:, -1, -1], partial(formula, attention=_merged()))


@claim("87", method="forward pass", theory=block_formula)
@WITHOUT_QUERY
def separate_blocks(formula) -> float:
    """The last entry of ATTN_S(X) of rank two, with all blocks random, against its four terms."""
    return _apart(lambda X: _separate().attend(X)[:, -1, -1], partial(formula, attention=_separate()))


@claim("30", method="forward pass", theory=lambda S, w: torch.einsum("pij,pj->pi", S, w))
@wrong("sum for mean", lambda S, w: N * torch.einsum("pij,pj->pi", S, w))
def beta_is_sample_covariance_times_task(formula) -> float:
    """beta read off X against Lhat w."""
    X, _ = prompts()
    beta, S, _, _ = statistics(X)
    # The task vector that made the labels, recovered exactly because N > D.
    w = torch.linalg.lstsq(X[:, :-1, :-1].mT, X[:, -1, :-1, None]).solution[..., 0]
    return largest(beta - formula(S, w), beta)


def gram_blocks(X: Tensor, *, query_token: float = 1.0) -> Tensor:
    """Equation (29), assembled from its blocks."""
    beta, S, y2, x_q = statistics(X)
    top = torch.cat([S + query_token * torch.einsum("pi,pj->pij", x_q, x_q) / N, beta[:, :, None]], dim=2)
    return torch.cat([top, torch.cat([beta, y2[:, None]], dim=1)[:, None]], dim=1)


@claim("29", method="forward pass", theory=gram_blocks)
@wrong("query token left out", lambda X: gram_blocks(X, query_token=0.0))
def gram_matrix(formula) -> float:
    """X X'/N against its blocks."""
    return _apart(lambda X: X @ X.mT / N, formula)


def merged_formula(X: Tensor, weights: MergedWeights) -> Tensor:
    """``sum_i v_i beta' U_i x_q``."""
    beta, _, _, x_q = statistics(X)
    v, U = torch.tensor(weights.v), torch.tensor(weights.U)
    return torch.einsum("h,pi,hij,pj->p", v, beta, U, x_q)


def separate_formula(X: Tensor, weights: SeparateWeights) -> Tensor:
    """``sum_i v_i sum_r beta' k_ir q_ir' x_q``."""
    beta, _, _, x_q = statistics(X)
    v, k, q = (torch.tensor(w) for w in weights.arrays)
    return torch.einsum("h,pi,hri,hrj,pj->p", v, beta, k, q, x_q)


@claim("M", method="forward pass", theory=merged_formula)
@wrong("U for its transpose", lambda X, weights: merged_formula(X, MergedWeights(weights.v, weights.U.transpose(0, 2, 1))))
def reduced_merged_attention(formula) -> float:
    """ATTN_M(X) with zero blocks, scores of every token computed, against sum v beta' U x_q."""
    return _apart(lambda X: ReducedMerged(merged_weights()).attend(X)[:, -1, -1], partial(formula, weights=merged_weights()))


@claim("S", method="forward pass", theory=separate_formula)
@wrong("key and query exchanged", lambda X, weights: separate_formula(X, SeparateWeights(weights.v, weights.q, weights.k)))
def reduced_separate_attention(formula) -> float:
    """ATTN_S(X) of rank two with zero blocks against sum v beta' k q' x_q."""
    return _apart(lambda X: ReducedSeparate(separate_weights()).attend(X)[:, -1, -1], partial(formula, weights=separate_weights()))


def _tied_heads(weights: SeparateWeights) -> SeparateWeights:
    """R H heads of rank one, the value weights tied in groups of R."""
    return SeparateWeights(np.repeat(weights.v, R), weights.k.reshape(H * R, 1, D), weights.q.reshape(H * R, 1, D))


@claim("18", method="forward pass", theory=_tied_heads)
@wrong("value weights tiled, not grouped", lambda weights: SeparateWeights(np.tile(weights.v, R), *_tied_heads(weights).arrays[1:]))
def rank_is_tied_heads(split) -> float:
    """H heads of rank R against R H heads of rank one with tied value weights."""
    return _apart(ReducedSeparate(separate_weights()), ReducedSeparate(split(separate_weights())))


@claim("11", method="forward pass", theory=TwoLayerNetwork.equivalent_to)
@wrong("rows of U stacked, not columns", lambda w: TwoLayerNetwork(w.v, w.U.reshape(H, -1)))
def two_layer_network(equivalent) -> float:
    """ATTN_M(X) against the two-layer network on the cubic feature z."""
    return _apart(ReducedMerged(merged_weights()), equivalent(merged_weights()))


@claim("18", method="forward pass", theory=ConvolutionalNetwork)
@wrong("kernel and readout exchanged", lambda w: ConvolutionalNetwork(SeparateWeights(w.v, w.q, w.k)))
def convolutional_network(equivalent) -> float:
    """ATTN_S(X) against the three-layer convolutional network on z, stride D."""
    return _apart(ReducedSeparate(separate_weights()), equivalent(separate_weights()))
