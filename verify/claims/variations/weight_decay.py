"""Claims about weight decay (V12): balance, thresholds, plateaus that stretch, heads that compete, by flows and trained networks."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import torch

from ....numerics import MergedWeights, RegressionTask, SeparateWeights, find_plateaus, gradient_flow
from ....numerics.parametrizations.base import vector_field
from ....numerics.tasks.losses import QuadraticLoss, TwoSided
from ....theory.notation import W_1, G, Lambda, a, alpha, gamma, k_i, lambda_, q_i, tau, v, v_i, w_2
from ....theory.results.landscape.fixed_points import v_positive as size
from ....theory.results.landscape.minimal_norm import n as count
from ....theory.results.variations.weight_decay import decay, key, query, root_k, root_q, wait
from ...experiments import draws
from ...training.descent import TrainingRun, fresh_batches, train
from ...training.modules import ReducedMerged, ReducedSeparate
from ..book import claim, wrong
from ..formulas import formula, parts_of
from ..tolerances import LEADING_ORDER, ROUNDOFF, SOLVER, STABLE, TRAINED_EARLY_DROPS, TRAINED_REST, TRAINED_VALUES
from .task_covariance import power

TASK = RegressionTask(eigenvalues=[0.6, 0.3], context_length=10)
LOSS, AT = QuadraticLoss.population(TASK), tuple(zip(TASK.eigenvalues, TASK.second_moment_eigenvalues, strict=True))


def head(value: float, direction: int = 0) -> SeparateWeights:
    """One head k = q = v e."""
    e = value * np.eye(2)[direction]
    return SeparateWeights(np.array([value]), e[None, None], e[None, None])


def several(heads: list[SeparateWeights]) -> SeparateWeights:
    return SeparateWeights(*(np.concatenate(parts) for parts in zip(*(one.arrays for one in heads), strict=True)))


def ended(loss: QuadraticLoss, weights: Any, *, t_end: float, **options: Any) -> Any:
    """The weights at the end of a flow."""
    return gradient_flow(loss, weights, t_end=t_end, **options).at(t_end)


def start(seed: int, scale: float, heads: int = 3, rank: int = 1) -> SeparateWeights:
    return SeparateWeights.initialize(TASK, heads=heads, rank=rank, scale=scale, rng=draws.generator(seed), allow_deficient=True)


DRIFTS = parts_of("V12-balance", {"query": (k_i, q_i, decay), "value": (k_i, v_i, decay)})


@claim("V12-balance", method="autograd", tolerance=ROUNDOFF, theory=DRIFTS)
@wrong("half the rate", {decay: decay / 2})
@wrong("no decay", {decay: 0})
@wrong("exchanged", {k_i: q_i, q_i: k_i})
def balance_decays(formulas) -> float:
    """The rates of what is conserved without decay, of random heads under the gradient of the penalised loss by PyTorch."""
    strength, errors = 0.3, []
    for seed in draws.generator(121).integers(1000, size=5):
        weights = start(int(seed), 1.0, heads=1)
        (v_, k, q), (dv, dk, dq) = ((one.v[0], one.k[0].T, one.q[0].T) for one in (weights, penalised_velocity(weights, strength)))
        errors.append(2 * (np.vdot(k, dk) - np.vdot(q, dq)) - formulas["query"](k, q, strength))
        errors.append(2 * (np.vdot(k, dk) - v_ * dv) - formulas["value"](k, v_, strength))
    return float(np.abs(errors).max())


def penalised_velocity(weights: SeparateWeights, strength: float, forms: Any = ([[1.0, 0.0], [0.0, 1.0]],) * 2) -> SeparateWeights:
    """Minus half the gradient by PyTorch of the loss with the penalty v^2 + k'F_k k + q'F_q q of a strength."""
    A, M, Q, *forms = (torch.tensor(np.array(one)) for one in (*TASK.loss_moments[:3], *forms))
    v_, k_, q_ = (torch.tensor(np.array(one), requires_grad=True) for one in weights.arrays)
    B = torch.einsum("h,hri,hrj->ij", v_, k_, q_)
    penalty = v_.square().sum() + sum((x @ form * x).sum() for x, form in zip((k_, q_), forms, strict=True))
    (-(-2 * (A * B).sum() + (B * (M @ B @ Q)).sum() + strength * penalty) / 2).backward()
    return SeparateWeights(*(one.grad.numpy() for one in (v_, k_, q_)))  # pyright: ignore[reportOptionalMemberAccess]


@claim("V12-flow", method="autograd", tolerance=ROUNDOFF, theory=formula("V12-flow", v, lambda_, a, decay))
@wrong("twice the decay", {decay: 2 * decay})
@wrong("no decay", {decay: 0})
@wrong("another moment", {a: 2 * a})
def velocity_along_a_direction(velocity) -> float:
    """The velocity of heads along an eigenvector under the gradient of the penalised loss by PyTorch."""
    errors = []
    for value, (d, known) in product((0.05, 0.6, 1.3), enumerate(AT)):
        moved = penalised_velocity(head(value, d), 0.2)
        errors += [moved.v[0] - velocity(value, *known, 0.2), moved.k[0, 0, d] - velocity(value, *known, 0.2)]
    return float(np.abs(errors).max())


# Any quadratic penalty


COORDINATES = parts_of("V12-penalty", {"penalty": (v_i, key, query, decay), "force": (v_i, key, query, G, root_k, root_q)})


@claim("V12-penalty", method="autograd", tolerance=SOLVER, theory=COORDINATES)
@wrong("the roots squared", {root_k: root_k**2, root_q: root_q**2})
@wrong("one penalty", {root_q: root_k})
def rests_of_any_penalty(formulas) -> float:
    """Rests under a penalty of two matrices, from rests of weight decay in the other coordinates, under the gradient by PyTorch.

    Flow to rest in the other coordinates, whose force is read off the formula entry by entry; go back, and differentiate.
    """
    rng, strength, units = draws.generator(122), 0.01, np.eye(2)
    forms = [np.eye(2) + 0.5 * np.outer(one, one) for one in rng.standard_normal((2, 2))]
    roots, inverse = ([power(one, exponent) for one in forms] for exponent in (0.5, -0.5))
    A, M, Q, c = TASK.loss_moments

    def turned(matrix: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return np.array([[float(formulas["force"](1.0, i[:, None], j[:, None], matrix, left, right)) for j in units] for i in units])

    other = QuadraticLoss(turned(A, *roots), TwoSided(turned(M, roots[0], roots[0]), turned(Q, roots[1], roots[1])), c)
    rest = ended(other, start(123, 1.0, heads=2), t_end=1e6, weight_decay=strength, rtol=1e-11)
    back = SeparateWeights(rest.v, rest.k @ inverse[0], rest.q @ inverse[1])
    cost = sum(float(formulas["penalty"](1.0, k.T, q.T, 1.0)) - 1 for k, q in zip(rest.k, rest.q, strict=True))
    written = sum(np.trace(k @ form @ k.T) for half, form in zip((back.k, back.q), forms, strict=True) for k in half)
    still = np.abs(penalised_velocity(back, strength, forms).flatten()).max()
    return float(max(still, abs(cost - written)) + (0 if np.abs(rest.v).max() > 0.3 else np.inf))


# Thresholds


_OF_REST = {
    "rest": (size, lambda_, a), "most": (lambda_, a), "worth": (lambda_, a), "left": (size, lambda_, decay), "least": (lambda_,),
    "slope": (size, lambda_, a), "excess": (size, lambda_, a),
}  # fmt: skip
RESTS = parts_of("V12-rest", _OF_REST)


def bisected(below: Callable[[float], bool], low: float, high: float, steps: int = 10) -> float:
    """Where ``below`` turns from true to false, on a scale of logarithms."""
    for _ in range(steps):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if below(middle) else (low, middle)
    return (low * high) ** 0.5


def survives(start_: SeparateWeights, strength: float, t_end: float = 5e3) -> bool:
    return bool(abs(ended(LOSS, start_, t_end=t_end, weight_decay=strength, rtol=1e-6).v).max() > 0.1)


@claim("V12-rest", method="flow", tolerance=STABLE, theory=RESTS)
@wrong("lambda for a", {a: lambda_})
@wrong("another power", {lambda_: lambda_**2})
@wrong("twice the moment", {a: 2 * a})
@wrong("the loss decides", {"most": RESTS["worth"]})
def thresholds_of_flows(formulas) -> float:
    """The strength of decay at which a learned head is lost, and the size that a head must exceed, found by halving intervals of flows."""
    errors = []
    for d, (value, moment) in enumerate(AT):
        learned = head(float(np.cbrt(value / moment)), d)
        lost = bisected(lambda strength, learned=learned: survives(learned, strength), 0.3 * value**2, 2 * value**2)
        errors.append(lost / formulas["most"](value, moment) - 1)
        weak = 1e-3 * value**2
        least = bisected(lambda size_, d=d, weak=weak: not survives(head(size_, d), weak, 6e5), 0.5e-3, 2e-3)
        errors.append(weak / least / formulas["least"](value) - 1)
    return float(np.abs(errors).max())


@claim("V12-rest", method="flow", tolerance=SOLVER, theory=RESTS)
@wrong("lambda for a", {a: lambda_})
@wrong("another power", {lambda_: lambda_**2})
@wrong("twice the moment", {a: 2 * a})
def rests_of_flows(formulas) -> float:
    """Rests of flows with decay: the strength, the share that is not learned, the stability and the loss with its penalty."""
    errors = []
    for d, (value, moment) in enumerate(AT):
        for part in (0.2, 0.9):
            strength = part * float(RESTS["most"](value, moment))
            end = ended(LOSS, head(float(np.cbrt(value / moment)), d), t_end=2e4, weight_decay=strength, rtol=1e-11)
            rest, e = float(end.v[0]), np.eye(2)[d]
            errors.append(formulas["rest"](rest, value, moment) - strength)
            errors.append(formulas["left"](rest, value, strength) - (1 - end.effective_map()[d, d] * moment / value))
            gained = LOSS.value(end.effective_map()) - LOSS.c + strength * float(end.flatten() @ end.flatten())
            errors.append(formulas["excess"](rest, value, moment) - gained)
            along = np.concatenate([[1.0], e, e]) / 3**0.5
            slope = -along @ (end.hessian(LOSS) + strength * np.eye(5)) @ along
            errors.append(formulas["slope"](rest, value, moment) - slope)
        even = np.cbrt(value / (2 * moment))
        both = LOSS.value(even**3 * np.outer(np.eye(2)[d], np.eye(2)[d])) - LOSS.c + 3 * formulas["worth"](value, moment) * even**2
        errors.append(both)
    return float(np.abs(errors).max())


STRENGTH = 0.01


@draws.remembered
def _trained(strength: float, scale: float, steps: int, rate: float = 0.1, seed: int = 124) -> TrainingRun:
    batches = fresh_batches(TASK, 2048, draws.torch_generator(seed))
    network = ReducedSeparate(start(seed, scale))
    return train(network, batches, steps=steps, learning_rate=rate, weight_decay=strength, record_every=10, progress=False)


@claim("V12-rest", method="training", tolerance=TRAINED_REST, theory=RESTS, slow=True)
@wrong("no decay", {"left": lambda *_: 0.0})
@wrong("twice the decay", {decay: 2 * decay})
@wrong("another power", {lambda_: lambda_**2})
def trained_shares(formulas) -> float:
    """The shares of two directions that a network trained with weight decay leaves unlearned."""
    maps = _trained(STRENGTH, 1.0, 6000).effective_maps()[-200:].mean(axis=0)
    errors = []
    for d, (value, moment) in enumerate(AT):
        errors.append(1 - maps[d, d] * moment / value - formulas["left"](float(np.cbrt(maps[d, d])), value, STRENGTH))
    return float(np.abs(errors).max())


# Plateaus


stretched = formula("V12-plateau", wait, decay, tau, part="wait", given=lambda time, strength: (time, strength, 1.0))


@draws.remembered
def _first_drop(strength: float, rank: int, start: int) -> float:
    weights = SeparateWeights.initialize(TASK, heads=2, rank=rank, scale=1e-3, rng=draws.generator(126, rank, start))
    run = gradient_flow(LOSS, weights, t_end=3e5, weight_decay=strength, rtol=1e-6)
    return float(find_plateaus(run).drops[0])


@claim("V12-plateau", method="flow", tolerance=LEADING_ORDER, theory=stretched)
@wrong("no stretch", lambda time, _: time)
@wrong("half the decay", {decay: decay / 2})
@wrong("to first order", lambda time, strength: time * (1 + strength * time / 2))
def plateaus_of_flows(formula) -> float:
    """The first drop of flows with decay from random weights of 1e-3, of rank one and two, against the drop without decay."""
    errors = []
    for rank, start in ((1, 0), (1, 1), (2, 0)):
        free = _first_drop(0.0, rank, start)
        errors += [_first_drop(part / free, rank, start) / formula(free, part / free) - 1 for part in (0.3, 0.9)]
    return float(np.abs(errors).max())


@claim("V12-plateau", method="training", tolerance=TRAINED_EARLY_DROPS, theory=stretched, slow=True)
@wrong("no stretch", lambda time, _: time)
@wrong("half the decay", {decay: decay / 2})
def plateau_of_training(formula) -> float:
    """The first drop of training with decay from weights of 0.05, against that of training without."""

    def drop(strength: float) -> float:
        run = _trained(strength, 0.05, 3000, 0.1, 125)
        return float(find_plateaus(run.times, run.population_loss(LOSS)).drops[0])

    free = drop(0.0)
    return abs(drop(0.5 / free) / formula(free, 0.5 / free) - 1)


# Heads that share a direction


COMPETING = parts_of("V12-shared", {"rest": (size, lambda_, a, count), "rate": (decay,)})


@claim("V12-shared", method="flow", tolerance=LEADING_ORDER, theory=COMPETING)
@wrong("half the rate", {"rate": lambda strength: strength / 2})
@wrong("the heads' sum as one head", {"rest": lambda x, value, moment, _: x * value**2 - value * moment * x**4})
def heads_compete(formulas) -> float:
    """Two and three heads of one direction with decay: at rest if they are equal, then apart at the rate of the decay, in flows."""
    value, moment = AT[0]
    errors = []
    for number in (2, 3):
        rest = 0.85 * float(np.cbrt(value / (number * moment)))
        strength = float(formulas["rest"](rest, value, moment, number))
        apart = [rest + 1e-5, rest - 1e-5, *[rest] * (number - 2)]
        time = 2 / 0.06
        end = ended(LOSS, several([head(one) for one in apart]), t_end=time, weight_decay=strength, rtol=1e-12).v
        errors.append(np.log((end[0] - end[1]) / 2e-5) / time / float(formulas["rate"](strength)) - 1)
        errors.append(end.mean() / rest - 1)
    return float(np.abs(errors).max())


# Merged attention


MERGED = parts_of("V12-merged", {"size": (gamma, alpha, decay), "balance": (Lambda, w_2, W_1, decay), "w": (w_2, gamma, alpha, decay)})
WHITE = RegressionTask(eigenvalues=[0.5, 0.5], context_length=10)


@draws.remembered
def _merged(strength: float) -> np.ndarray:
    """The map of merged attention trained on white tokens with decay, averaged over the end."""
    network = ReducedMerged(MergedWeights.initialize(WHITE, heads=3, scale=0.5, rng=draws.generator(126)))
    batches = fresh_batches(WHITE, 1024, draws.torch_generator(126))
    run = train(network, batches, steps=2500, learning_rate=0.1, weight_decay=strength, record_every=5, progress=False)
    return run.effective_maps()[-200:].mean(axis=0)


@claim("V12-merged", method="training", tolerance=TRAINED_VALUES, theory=MERGED, slow=True)
@wrong("no decay", {decay: 0})
@wrong("twice the decay", {decay: 2 * decay})
def trained_merged_size(formulas) -> float:
    """The norm of the map of merged attention trained on white tokens with decay, below and above the threshold."""
    A, M, Q, _ = WHITE.loss_moments
    cross, second = float(np.linalg.norm(A)), float(M[0, 0] * Q[0, 0])
    errors = []
    for strength in (0.1 * cross, 0.5 * cross, 1.3 * cross):
        expected = max(0.0, float(formulas["size"](cross, second, strength)))
        errors.append(np.linalg.norm(_merged(strength)) - expected)
    return float(np.abs(errors).max() / (cross / second))


@claim("V12-merged", method="linear algebra", tolerance=ROUNDOFF, theory=MERGED)
@wrong("half the decay", {decay: decay / 2})
@wrong("another moment", {alpha: 2 * alpha, decay: 3 * decay})
def merged_rates(formulas) -> float:
    """The velocity of merged attention on the set (44) and the rate of what it conserves, with decay."""
    loss, (A, M, Q, _), strength = QuadraticLoss.population(WHITE), WHITE.loss_moments, 0.05
    values = np.array([0.3, -0.2, 0.5])
    on_set = MergedWeights(values, np.multiply.outer(values, A / np.linalg.norm(A)))
    step = (vector_field(loss, on_set)(0.0, on_set.flatten()) - strength * on_set.flatten())[:3]
    found = formulas["w"](values[:, None], float(np.linalg.norm(A)), float(M[0, 0] * Q[0, 0]), strength)
    rng = draws.generator(127)
    other = MergedWeights(rng.standard_normal(3), rng.standard_normal((3, 2, 2)))
    velocity = vector_field(loss, other)(0.0, other.flatten()) - strength * other.flatten()
    moved, layer, layer_rate = velocity[:3], other.U.reshape(3, -1), velocity[3:].reshape(3, -1)
    drift = np.outer(moved, other.v) + np.outer(other.v, moved) - layer_rate @ layer.T - layer @ layer_rate.T
    expected = formulas["balance"](WHITE.covariance, other.v[:, None], layer, strength)
    return float(max(np.abs(step - np.ravel(found)).max(), np.abs(drift - expected).max()))
