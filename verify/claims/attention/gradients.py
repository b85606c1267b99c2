"""Claims about how attention learns: flows against gradients by automatic differentiation, and what any loss conserves."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ....numerics import MergedWeights, QuadraticLoss, RegressionTask, SeparateWeights
from ...experiments import draws
from ...training.modules import MergedAttention, ReducedMerged, ReducedSeparate
from ...training.sequences import draw_sequences
from ..book import claim, wrong
from .models import TASK, D, H, largest, merged_weights, prompts, random, separate_weights
from .moments import largest_score


def population_loss(network: ReducedMerged | ReducedSeparate) -> Tensor:
    """The loss of B, ``tr L - 2 tr(L B L) + tr(B' M B L)`` with L = Lambda, differentiable in the network's weights."""
    B = network.effective_map()
    L, M = torch.tensor(TASK.covariance), torch.tensor(TASK.second_moment)
    return torch.trace(L) - 2 * torch.trace(L @ B @ L) + torch.trace(B.mT @ M @ B @ L)


def separate_field(task: RegressionTask, weights: SeparateWeights, *, transpose: bool = True) -> SeparateWeights:
    """The right-hand sides of (19) and (80); with ``transpose`` False, (19c) has k q' for q k'."""
    v, k, q = weights.arrays
    L, M = task.covariance, task.second_moment
    B = np.einsum("h,hri,hrj->ij", v, k, q)
    G = L @ L - M @ B @ L
    other = L @ L - L @ (B.T if transpose else B) @ M
    return SeparateWeights(np.einsum("hri,ij,hrj->h", k, G, q), v[:, None, None] * (q @ G.T), v[:, None, None] * (k @ other.T))


def merged_field(task: RegressionTask, weights: MergedWeights, *, factor: float = 1.0) -> MergedWeights:
    """The right-hand side of (13), in U for W_1."""
    L, M = task.covariance, task.second_moment
    G = factor * (L @ L - M @ np.einsum("h,hij->ij", weights.v, weights.U) @ L)
    return MergedWeights(np.einsum("hij,ij->h", weights.U, G), np.multiply.outer(weights.v, G))


def _half_gradient(loss: Tensor, network: torch.nn.Module) -> list[Tensor]:
    return [-0.5 * g for g in torch.autograd.grad(loss, list(network.parameters()))]


def _field_error(field, weights, network) -> float:
    pairs = zip(_half_gradient(population_loss(network), network), field(TASK, weights).arrays, strict=True)
    return max(largest(g - torch.tensor(f), g) for g, f in pairs)


@claim("19", method="autograd", theory=separate_field)
@wrong("k q' for q k' in (19c)", lambda task, w: separate_field(task, w, transpose=False))
def separate_field_autograd(field) -> float:
    """The flow's velocity at random weights of rank two against minus half the gradient of the loss."""
    return _field_error(field, separate_weights(), ReducedSeparate(separate_weights()))


@claim("80", method="autograd", theory=lambda task, w: w.pull_back(QuadraticLoss.population(task).force(w.effective_map())))
@wrong("twice as fast", lambda task, w: w.pull_back(-QuadraticLoss.population(task).gradient(w.effective_map())))
def integrator_field_autograd(field) -> float:
    """The velocity that the integrator uses, at random weights of rank two."""
    return _field_error(field, separate_weights(), ReducedSeparate(separate_weights()))


@claim("13", method="autograd", theory=merged_field)
@wrong("the whole gradient", lambda task, w: merged_field(task, w, factor=2.0))
def merged_field_autograd(field) -> float:
    """The merged flow's velocity at random weights against minus half the gradient of the loss."""
    return _field_error(field, merged_weights(), ReducedMerged(merged_weights()))


def _sampled_gradients(network: torch.nn.Module, chunks: int = 200, size: int = 500, seed: int = 10) -> np.ndarray:
    """Minus half the gradient of the mean squared error through attention on X, chunk by chunk of fresh sequences."""
    generator = draws.torch_generator(seed)
    rows = []
    for _ in range(chunks):
        X, y = draw_sequences(TASK, size, generator)
        rows.append(torch.cat([g.flatten() for g in _half_gradient((network(X) - y).square().mean(), network)]))
    return torch.stack(rows).numpy()


@claim("10", method="Monte Carlo", theory=separate_field)
@wrong("k q' for q k' in (19c)", lambda task, w: separate_field(task, w, transpose=False))
def separate_field_sampled(field) -> float:
    """The velocity against gradients through attention on 100,000 sequences."""
    w = separate_weights()
    small = w.unflatten(0.5 * w.flatten())
    return largest_score(_sampled_gradients(ReducedSeparate(small)), field(TASK, small).flatten())


def _blocks(v_bold: float, u: float) -> MergedAttention:
    """Merged attention with its zero blocks multiplied by the two numbers: 0 for zero blocks."""
    value, key_query = 0.5 * random(H, D + 1, D + 1, seed=1), 0.5 * random(H, D + 1, D + 1, seed=2)
    value[:, -1, :-1] *= v_bold
    key_query[:, -1, :-1] *= u
    return MergedAttention(value, key_query)


@draws.remembered
def _block_gradients(v_bold: float, u: float) -> tuple[np.ndarray, np.ndarray]:
    """Sampled velocities of the bold v_i and of the u_i."""
    network = _blocks(v_bold, u)
    rows = _sampled_gradients(network, chunks=100, size=200, seed=39).reshape(100, 2, H, D + 1, D + 1)
    return rows[:, 0, :, -1, :-1].reshape(100, -1), rows[:, 1, :, -1, :-1].reshape(100, -1)


@claim("39", method="Monte Carlo", theory=(0.0, 0.0))
@wrong("only the bold v_i zero", (0.0, 1.0))
def vector_blocks_stay_zero(blocks) -> float:
    """The bold v_i have no velocity if all of them and all u_i are zero."""
    return largest_score(_block_gradients(*blocks)[0], np.zeros(H * D))


@claim("40", method="Monte Carlo", theory=(0.0, 0.0))
@wrong("only the u_i zero", (1.0, 0.0))
def key_blocks_stay_zero(blocks) -> float:
    """The u_i have no velocity if all of them and all bold v_i are zero."""
    return largest_score(_block_gradients(*blocks)[1], np.zeros(H * D))


def _drift(network: ReducedMerged | ReducedSeparate, conserved: Callable[..., Tensor]) -> float:
    """The rate of change of a quantity along the flow of a loss other than the mean square, |error|^3 + error^4."""
    X, y = prompts()
    error = network(X) - y
    velocity = _half_gradient((error.abs() ** 3 + error**4).mean(), network)
    start = tuple(p.detach() for p in network.parameters())
    rate = torch.autograd.functional.jvp(conserved, start, tuple(velocity))[1]
    size = torch.stack([g.square().sum() for g in velocity]).sum().sqrt()
    return float(torch.as_tensor(rate).abs().max() / size)


@claim("17", method="autograd", theory=lambda v, U: torch.outer(v, v) - U.flatten(1) @ U.flatten(1).T)
@wrong("plus for minus", lambda v, U: torch.outer(v, v) + U.flatten(1) @ U.flatten(1).T)
def merged_conservation(conserved) -> float:
    """w_2 w_2' - W_1 W_1' under the flow of a loss other than the mean square."""
    return _drift(ReducedMerged(merged_weights()), conserved)


def _squares(weights: Tensor) -> Tensor:
    return weights.square().sum((1, 2))


@claim("79", method="autograd", theory=lambda v, k, q: torch.cat([_squares(k) - _squares(q), _squares(k) - v**2]))
@wrong("2 v^2 for v^2", lambda v, k, q: _squares(k) - 2 * v**2)
def rank_one_conservation(conserved) -> float:
    """k'k - q'q and k'k - v^2 of rank-one heads under the flow of a loss other than the mean square."""
    w = separate_weights()
    return _drift(ReducedSeparate(SeparateWeights(w.v, w.k[:, :1], w.q[:, :1])), conserved)


def rank_two_conserved(v: Tensor, k: Tensor, q: Tensor) -> Tensor:
    return torch.cat([(k @ k.mT - q @ q.mT).flatten(1), (_squares(k) - v**2)[:, None]], dim=1)


@claim("85", method="autograd", theory=rank_two_conserved)
@wrong("k_r'k_r - v^2 for one r", lambda v, k, q: k[:, 0].square().sum(1) - v**2)
def rank_two_conservation(conserved) -> float:
    """All of K K' - Q Q' and tr K K' - v^2 of rank-two heads under the flow of a loss other than the mean square."""
    return _drift(ReducedSeparate(separate_weights()), conserved)
