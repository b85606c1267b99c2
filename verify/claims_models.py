"""Claims about what attention computes and how it learns, on PyTorch modules that read X: forward passes and gradients.

Every block of every weight matrix is random here unless the statement says that it is zero.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
import torch
from torch import Tensor

from ..numerics.losses import QuadraticLoss
from ..numerics.tasks import RegressionTask
from ..numerics.weights import MergedWeights, SeparateWeights
from .claims import claim
from .claims_moments import largest_score
from .data import draw_sequences
from .models import (
    ConvolutionalNetwork,
    MergedAttention,
    ReducedMerged,
    ReducedSeparate,
    SeparateAttention,
    TwoLayerNetwork,
)
from .tolerances import ROUNDOFF, SAMPLING

TASK = RegressionTask(covariance=[[0.9, 0.3, -0.1], [0.3, 0.6, 0.2], [-0.1, 0.2, 0.4]], context_length=5)
D, N, H, R = 3, 5, 4, 2


@cache
def _prompts(count: int = 64, seed: int = 7) -> tuple[Tensor, Tensor]:
    return draw_sequences(TASK, count, torch.Generator().manual_seed(seed))


def _random(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _merged() -> MergedAttention:
    return MergedAttention(_random(H, D + 1, D + 1, seed=1), _random(H, D + 1, D + 1, seed=2))


def _separate() -> SeparateAttention:
    return SeparateAttention(
        _random(H, D + 1, D + 1, seed=3), _random(H, R, D + 1, seed=4), _random(H, R, D + 1, seed=5)
    )


def merged_weights(seed: int = 8) -> MergedWeights:
    rng = np.random.default_rng(seed)
    return MergedWeights(rng.standard_normal(H), rng.standard_normal((H, D, D)))


def separate_weights(seed: int = 9) -> SeparateWeights:
    rng = np.random.default_rng(seed)
    return SeparateWeights(rng.standard_normal(H), *rng.standard_normal((2, H, R, D)))


def _largest(difference: Tensor, scale: Tensor) -> float:
    """The largest difference relative to the largest value."""
    return float((difference.abs().max() / scale.abs().max()).detach())


# What attention computes


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


def _without_query(X: Tensor, attention: MergedAttention | SeparateAttention) -> Tensor:
    return block_formula(X, attention, query_token=0.0)


@claim(
    "7",
    "the last entry of ATTN_M(X), with all blocks random, against the block formula",
    method="forward pass",
    tolerance=ROUNDOFF,
    theory=block_formula,
    wrong={"query token left out": _without_query},
)
def merged_blocks(formula) -> float:
    X, _ = _prompts()
    whole = _merged().attend(X)[:, -1, -1]
    return _largest(whole - formula(X, _merged()), whole)


@claim(
    "87",
    "the last entry of ATTN_S(X) of rank two, with all blocks random, against its four terms",
    method="forward pass",
    tolerance=ROUNDOFF,
    theory=block_formula,
    wrong={"query token left out": _without_query},
)
def separate_blocks(formula) -> float:
    X, _ = _prompts()
    whole = _separate().attend(X)[:, -1, -1]
    return _largest(whole - formula(X, _separate()), whole)


@claim(
    "6",
    "the prediction as the corner of the output sequence, softmax included",
    method="forward pass",
    tolerance=ROUNDOFF,
    theory=lambda output: output[:, -1, -1],
    wrong={"the last context token": lambda output: output[:, -1, -2]},
)
def prediction_is_the_corner(corner) -> float:
    X, _ = _prompts()
    softmax = MergedAttention(_random(H, D + 1, D + 1, seed=1), _random(H, D + 1, D + 1, seed=2), softmax=True)
    return max(_largest(corner(a.attend(X)) - a(X), a(X)) for a in (softmax, _merged(), _separate()))


@claim(
    "30",
    "beta read off X against Lhat w",
    method="forward pass",
    tolerance=ROUNDOFF,
    theory=lambda S, w: torch.einsum("pij,pj->pi", S, w),
    wrong={"sum for mean": lambda S, w: N * torch.einsum("pij,pj->pi", S, w)},
)
def beta_is_sample_covariance_times_task(formula) -> float:
    X, _ = _prompts()
    beta, S, _, _ = statistics(X)
    # The task vector that made the labels, recovered exactly because N > D.
    w = torch.linalg.lstsq(X[:, :-1, :-1].mT, X[:, -1, :-1, None]).solution[..., 0]
    return _largest(beta - formula(S, w), beta)


def gram_blocks(X: Tensor, *, query_token: float = 1.0) -> Tensor:
    """Equation (29), assembled from its blocks."""
    beta, S, y2, x_q = statistics(X)
    top = torch.cat([S + query_token * torch.einsum("pi,pj->pij", x_q, x_q) / N, beta[:, :, None]], dim=2)
    return torch.cat([top, torch.cat([beta, y2[:, None]], dim=1)[:, None]], dim=1)


@claim(
    "29",
    "X X'/N against its blocks",
    method="forward pass",
    tolerance=ROUNDOFF,
    theory=gram_blocks,
    wrong={"query token left out": lambda X: gram_blocks(X, query_token=0.0)},
)
def gram_matrix(formula) -> float:
    X, _ = _prompts()
    return _largest(X @ X.mT / N - formula(X), X)


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


def swapped(X: Tensor, weights: SeparateWeights) -> Tensor:
    """The mistake of exchanging key and query."""
    return separate_formula(X, SeparateWeights(weights.v, weights.q, weights.k))


def _transposed(X: Tensor, weights: MergedWeights) -> Tensor:
    return merged_formula(X, MergedWeights(weights.v, weights.U.transpose(0, 2, 1)))


@claim(
    "M",
    "ATTN_M(X) with zero blocks, scores of every token computed, against sum v beta' U x_q",
    method="forward pass",
    tolerance=ROUNDOFF,
    theory=merged_formula,
    wrong={"U for its transpose": _transposed},
)
def reduced_merged_attention(formula) -> float:
    X, _ = _prompts()
    whole = ReducedMerged(merged_weights()).attend(X)[:, -1, -1]
    return _largest(whole - formula(X, merged_weights()), whole)


@claim(
    "S",
    "ATTN_S(X) of rank two with zero blocks against sum v beta' k q' x_q",
    method="forward pass",
    tolerance=ROUNDOFF,
    theory=separate_formula,
    wrong={"key and query exchanged": swapped},
)
def reduced_separate_attention(formula) -> float:
    X, _ = _prompts()
    whole = ReducedSeparate(separate_weights()).attend(X)[:, -1, -1]
    return _largest(whole - formula(X, separate_weights()), whole)


def _tied_heads(weights: SeparateWeights) -> SeparateWeights:
    """R H heads of rank one, the value weights tied in groups of R."""
    return SeparateWeights(np.repeat(weights.v, R), weights.k.reshape(H * R, 1, D), weights.q.reshape(H * R, 1, D))


def _untied_heads(weights: SeparateWeights) -> SeparateWeights:
    """The mistake of tiling the value weights instead of repeating them."""
    tied = _tied_heads(weights)
    return SeparateWeights(np.tile(weights.v, R), tied.k, tied.q)


@claim(
    "18",
    "H heads of rank R against R H heads of rank one with tied value weights",
    method="forward pass",
    tolerance=ROUNDOFF,
    theory=_tied_heads,
    wrong={"value weights tiled, not grouped": _untied_heads},
)
def rank_is_tied_heads(split) -> float:
    X, _ = _prompts()
    whole = ReducedSeparate(separate_weights())(X)
    return _largest(whole - ReducedSeparate(split(separate_weights()))(X), whole)


@claim(
    "11",
    "ATTN_M(X) against the two-layer network on the cubic feature z",
    method="forward pass",
    tolerance=ROUNDOFF,
    theory=TwoLayerNetwork.equivalent_to,
    wrong={"rows of U stacked, not columns": lambda w: TwoLayerNetwork(w.v, w.U.reshape(H, -1))},
)
def two_layer_network(equivalent) -> float:
    X, _ = _prompts()
    whole = ReducedMerged(merged_weights())(X)
    return _largest(whole - equivalent(merged_weights())(X), whole)


@claim(
    "18",
    "ATTN_S(X) against the three-layer convolutional network on z, stride D",
    method="forward pass",
    tolerance=ROUNDOFF,
    theory=ConvolutionalNetwork,
    wrong={
        "kernel and readout exchanged": lambda w: ConvolutionalNetwork(SeparateWeights(w.v, w.q, w.k)),
    },
)
def convolutional_network(equivalent) -> float:
    X, _ = _prompts()
    whole = ReducedSeparate(separate_weights())(X)
    return _largest(whole - equivalent(separate_weights())(X), whole)


# How it learns: gradients by automatic differentiation


def population_loss(network: ReducedMerged | ReducedSeparate) -> Tensor:
    """The loss of B, ``tr L - 2 tr(L B L) + tr(B' M B L)`` with L = Lambda, differentiable in the network's weights."""
    B = network.effective_map()
    L, M = torch.tensor(TASK.covariance), torch.tensor(TASK.second_moment)
    return torch.trace(L) - 2 * torch.trace(L @ B @ L) + torch.trace(B.mT @ M @ B @ L)


def separate_field(task: RegressionTask, weights: SeparateWeights, *, transpose: bool = True) -> SeparateWeights:
    """The right-hand sides of (19) and (80); ``transpose`` False is (19c) as the scan reads, with k q' for q k'."""
    v, k, q = weights.arrays
    L, M = task.covariance, task.second_moment
    B = np.einsum("h,hri,hrj->ij", v, k, q)
    G = L @ L - M @ B @ L
    other = L @ L - L @ (B.T if transpose else B) @ M
    return SeparateWeights(
        np.einsum("hri,ij,hrj->h", k, G, q), v[:, None, None] * (q @ G.T), v[:, None, None] * (k @ other.T)
    )


def merged_field(task: RegressionTask, weights: MergedWeights, *, factor: float = 1.0) -> MergedWeights:
    """The right-hand side of (13), in U for W_1."""
    L, M = task.covariance, task.second_moment
    G = factor * (L @ L - M @ np.einsum("h,hij->ij", weights.v, weights.U) @ L)
    return MergedWeights(np.einsum("hij,ij->h", weights.U, G), np.multiply.outer(weights.v, G))


def _half_gradient(loss: Tensor, network: torch.nn.Module) -> list[Tensor]:
    return [-0.5 * g for g in torch.autograd.grad(loss, list(network.parameters()))]


def _field_error(field, weights, network) -> float:
    gradients = _half_gradient(population_loss(network), network)
    pairs = zip(gradients, field(TASK, weights).arrays, strict=True)
    return max(_largest(g - torch.tensor(f), g) for g, f in pairs)


@claim(
    "19",
    "the flow's velocity at random weights of rank two against minus half the gradient of the loss",
    method="autograd",
    tolerance=ROUNDOFF,
    theory=separate_field,
    wrong={"k q' for q k' in (19c)": lambda task, w: separate_field(task, w, transpose=False)},
)
def separate_field_autograd(field) -> float:
    return _field_error(field, separate_weights(), ReducedSeparate(separate_weights()))


@claim(
    "80",
    "the velocity that the integrator uses, at random weights of rank two",
    method="autograd",
    tolerance=ROUNDOFF,
    theory=lambda task, w: w.pull_back(QuadraticLoss.population(task).force(w.effective_map())),
    wrong={"twice as fast": lambda task, w: w.pull_back(-QuadraticLoss.population(task).gradient(w.effective_map()))},
)
def integrator_field_autograd(field) -> float:
    return _field_error(field, separate_weights(), ReducedSeparate(separate_weights()))


@claim(
    "13",
    "the merged flow's velocity at random weights against minus half the gradient of the loss",
    method="autograd",
    tolerance=ROUNDOFF,
    theory=merged_field,
    wrong={"the whole gradient": lambda task, w: merged_field(task, w, factor=2.0)},
)
def merged_field_autograd(field) -> float:
    return _field_error(field, merged_weights(), ReducedMerged(merged_weights()))


def _sampled_gradients(network: torch.nn.Module, chunks: int = 200, size: int = 500, seed: int = 10) -> np.ndarray:
    """Minus half the gradient of the mean squared error through attention on X, chunk by chunk of fresh sequences."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(chunks):
        X, y = draw_sequences(TASK, size, generator)
        rows.append(torch.cat([g.flatten() for g in _half_gradient((network(X) - y).square().mean(), network)]))
    return torch.stack(rows).numpy()


@claim(
    "10",
    "the velocity against gradients through attention on 100,000 sequences",
    method="Monte Carlo",
    tolerance=SAMPLING,
    theory=separate_field,
    wrong={"k q' for q k' in (19c)": lambda task, w: separate_field(task, w, transpose=False)},
)
def separate_field_sampled(field) -> float:
    w = separate_weights()
    small = w.unflatten(0.5 * w.flatten())
    return largest_score(_sampled_gradients(ReducedSeparate(small)), field(TASK, small).flatten())


def _blocks(v_bold: float, u: float) -> MergedAttention:
    """Merged attention whose zero blocks are multiplied by the two numbers: 0 puts them at zero."""
    value, key_query = 0.5 * _random(H, D + 1, D + 1, seed=1), 0.5 * _random(H, D + 1, D + 1, seed=2)
    value[:, -1, :-1] *= v_bold
    key_query[:, -1, :-1] *= u
    return MergedAttention(value, key_query)


@cache
def _block_gradients(v_bold: float, u: float) -> tuple[np.ndarray, np.ndarray]:
    """Sampled velocities of the bold v_i and of the u_i."""
    network = _blocks(v_bold, u)
    rows = _sampled_gradients(network, chunks=100, size=500, seed=39).reshape(100, 2, H, D + 1, D + 1)
    return rows[:, 0, :, -1, :-1].reshape(100, -1), rows[:, 1, :, -1, :-1].reshape(100, -1)


@claim(
    "39",
    "the bold v_i have no velocity where all of them and all u_i are zero",
    method="Monte Carlo",
    tolerance=SAMPLING,
    theory=(0.0, 0.0),
    wrong={"only the bold v_i zero": (0.0, 1.0)},
)
def vector_blocks_stay_zero(blocks) -> float:
    return largest_score(_block_gradients(*blocks)[0], np.zeros(H * D))


@claim(
    "40",
    "the u_i have no velocity where all of them and all bold v_i are zero",
    method="Monte Carlo",
    tolerance=SAMPLING,
    theory=(0.0, 0.0),
    wrong={"only the u_i zero": (1.0, 0.0)},
)
def key_blocks_stay_zero(blocks) -> float:
    return largest_score(_block_gradients(*blocks)[1], np.zeros(H * D))


# Conservation laws: any loss


def _drift(network: ReducedMerged | ReducedSeparate, conserved: Callable[..., Tensor]) -> float:
    """The rate of change of a quantity along the flow of a loss that is no mean square, |error|^3 + error^4."""
    X, y = _prompts()
    error = network(X) - y
    velocity = _half_gradient((error.abs() ** 3 + error**4).mean(), network)
    start = tuple(p.detach() for p in network.parameters())
    rate = torch.autograd.functional.jvp(conserved, start, tuple(velocity))[1]
    size = torch.stack([g.square().sum() for g in velocity]).sum().sqrt()
    return float(torch.as_tensor(rate).abs().max() / size)


@claim(
    "17",
    "w_2 w_2' - W_1 W_1' under the flow of a loss that is no mean square",
    method="autograd",
    tolerance=ROUNDOFF,
    theory=lambda v, U: torch.outer(v, v) - U.flatten(1) @ U.flatten(1).T,
    wrong={"plus for minus": lambda v, U: torch.outer(v, v) + U.flatten(1) @ U.flatten(1).T},
)
def merged_conservation(conserved) -> float:
    return _drift(ReducedMerged(merged_weights()), conserved)


@claim(
    "79",
    "k'k - q'q and k'k - v^2 of rank-one heads under the flow of a loss that is no mean square",
    method="autograd",
    tolerance=ROUNDOFF,
    theory=lambda v, k, q: torch.cat([k.square().sum((1, 2)) - q.square().sum((1, 2)), k.square().sum((1, 2)) - v**2]),
    wrong={"2 v^2 for v^2": lambda v, k, q: k.square().sum((1, 2)) - 2 * v**2},
)
def rank_one_conservation(conserved) -> float:
    w = separate_weights()
    return _drift(ReducedSeparate(SeparateWeights(w.v, w.k[:, :1], w.q[:, :1])), conserved)


def rank_two_conserved(v: Tensor, k: Tensor, q: Tensor) -> Tensor:
    matrices, traces = k @ k.mT - q @ q.mT, k.square().sum((1, 2)) - v**2
    return torch.cat([matrices.flatten(1), traces[:, None]], dim=1)


@claim(
    "85",
    "all of K K' - Q Q' and tr K K' - v^2 of rank-two heads under the flow of a loss that is no mean square",
    method="autograd",
    tolerance=ROUNDOFF,
    theory=rank_two_conserved,
    wrong={"k_r'k_r - v^2 for one r": lambda v, k, q: k[:, 0].square().sum(1) - v**2},
)
def rank_two_conservation(conserved) -> float:
    return _drift(ReducedSeparate(separate_weights()), conserved)
