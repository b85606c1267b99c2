"""Claims about the unreduced model where a portion of the task vectors is fixed (V6): moments, blocks that move, whole curves."""

from dataclasses import replace
from functools import cache, partial

import numpy as np
import torch

from ..numerics.blocks import FullMergedWeights
from ..numerics.compile import compile_expression
from ..numerics.flow import gradient_flow
from ..numerics.inweight import MixedTask
from ..numerics.losses import QuadraticLoss
from ..numerics.moments import SampleMoments, sequences
from ..numerics.tasks import RegressionTask
from ..numerics.weights import MergedWeights
from ..theory.attention import U_i
from ..theory.equations import equation
from ..theory.five_weights import LENGTH
from ..theory.notation import B, D, Lambda, N, lambda_, v_i, w
from ..theory.unreduced import portion
from .claims import claim
from .in_weight import InWeightSetting
from .models import MergedAttention
from .tolerances import (
    LEAK_AT_END,
    LEAK_EARLY,
    ROUNDOFF,
    SAMPLING,
    SOLVER,
)

VECTORS = np.array([[1.0, -0.5], [0.5, 2.0]])
SMALL = RegressionTask(covariance=[[0.5, 0.2], [0.2, 0.4]], context_length=3)
LONGER = RegressionTask(covariance=SMALL.covariance, context_length=4)


def problem(task: RegressionTask = SMALL, p: float = 0.4, vectors: np.ndarray = VECTORS) -> MixedTask:
    return MixedTask(task, p, vectors)


# The moments


@cache
def _sampled(kind: str) -> np.ndarray:
    """The averages of y phi and phi phi' over each of 25 sets of 4,000 sequences."""
    rng = np.random.default_rng(61)
    sets = problem().sequences(100_000, rng, kind=kind)  # type: ignore[arg-type]
    losses = (SampleMoments.from_arrays(*batch, context="mean").loss() for batch in sets)
    return np.array([np.concatenate([loss.A.ravel(), loss.C.matrix.ravel()]) for loss in losses])  # type: ignore[attr-defined]


def deviation(kind: str, loss: QuadraticLoss) -> float:
    """The largest difference of a moment from its average over the sets, in standard errors."""
    sampled, exact = _sampled(kind), np.concatenate([loss.A.ravel(), loss.C.matrix.ravel()])  # type: ignore[attr-defined]
    error = sampled.std(axis=0, ddof=1) / np.sqrt(len(sampled))
    return float((np.abs(sampled.mean(axis=0) - exact) / np.where(error > 0, error, np.inf)).max())


@claim(
    "V6",
    "moments of the unreduced model where 60 % of the task vectors are fixed, against sampled sequences",
    method="Monte Carlo",
    tolerance=SAMPLING,
    theory=lambda: problem().training_loss,
    wrong={
        "N + 1 for N": lambda: problem(LONGER).training_loss,
        "the portions exchanged": lambda: problem(p=0.6).training_loss,
        "all task vectors random": lambda: problem().in_context_loss,
    },
)
def mixture_moments(loss) -> float:
    return deviation("training", loss())


@claim(
    "V6-memory",
    "moments of the unreduced model where the context's labels are noise, against sampled sequences",
    method="Monte Carlo",
    tolerance=SAMPLING,
    theory=lambda: problem().memory_loss,
    wrong={
        "N + 1 for N": lambda: problem(LONGER).memory_loss,
        "the fixed vectors in the context as well": lambda: problem().in_weight_loss,
    },
)
def memory_moments(loss) -> float:
    return deviation("memory", loss())


@claim(
    "V6-task",
    "mean squared error of PyTorch attention with random blocks, on 100,000 prompts with fixed task vectors",
    method="forward pass",
    tolerance=SAMPLING,
    theory=lambda: problem().in_weight_loss,
    wrong={
        "N + 1 for N": lambda: problem(LONGER).in_weight_loss,
        "the task vectors negated": lambda: problem(vectors=-VECTORS).in_weight_loss,
        "noise in the context": lambda: problem().memory_loss,
    },
)
def forward_pass_with_fixed_tasks(loss) -> float:
    rng = np.random.default_rng(62)
    value, key_query = rng.normal(size=(2, 3, 3, 3))
    network = MergedAttention(value, key_query)
    errors = []
    with torch.no_grad():
        for tokens, target in problem().sequences(100_000, rng, kind="in weight"):
            errors.append((network(torch.tensor(tokens).mT).numpy() - target) ** 2)
    error = np.concatenate(errors)
    B_full = FullMergedWeights.combine(value[:, -1], key_query[:, :, :-1])
    return abs(error.mean() - loss().value(B_full)) / (error.std() / np.sqrt(len(error)))


@claim(
    "V6",
    "the unreduced loss at p = 1 with zero blocks equals the closed loss of the effective map",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=lambda: problem().in_context_loss,
    wrong={
        "N + 1 for N": lambda: problem(LONGER).in_context_loss,
        "a portion of fixed tasks left in": lambda: problem(p=0.9).training_loss,
    },
)
def main_sector(loss) -> float:
    B = np.random.default_rng(63).normal(size=(2, 2))
    full = np.zeros((3, 3, 2))
    full[2, :2] = B
    return abs(loss().value(full) / QuadraticLoss.population(SMALL).value(B) - 1)


# The zero blocks


def block_velocity(weights: MergedWeights, vectors: np.ndarray, N_: int = SMALL.context_length) -> np.ndarray:
    """The velocities (V6-zero) of all zero blocks, averaged over the task vectors; rows: v_1, ..., u_1, ..."""
    parts = equation("V6-zero").derive().parts
    row = compile_expression(parts["v"], (U_i, B, Lambda, N, w))
    column = compile_expression(parts["u"], (v_i, B, Lambda, N, w))
    effective = np.einsum("h,hij->ij", weights.v, weights.U)
    given = [(effective, SMALL.covariance, N_, vector[:, None]) for vector in vectors]
    rows = [np.mean([row(U, *one) for one in given], axis=0) for U in weights.U]
    return np.hstack([*rows, *(np.mean([column(v, *one) for one in given], axis=0) for v in weights.v)]).T


@claim(
    "V6-zero",
    "velocities of the zero blocks from two moments of the task's law, against the gradient of the unreduced loss",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=block_velocity,
    wrong={
        "N + 1 for N": partial(block_velocity, N_=SMALL.context_length + 1),
        "zero, as where all task vectors are random": lambda weights, vectors: 0 * block_velocity(weights, vectors),
        "an opposite pair of vectors": lambda weights, vectors: block_velocity(
            weights, np.concatenate([vectors, -vectors])
        ),
    },
)
def zero_blocks_move(velocity) -> float:
    rng = np.random.default_rng(64)
    weights = MergedWeights(rng.normal(size=2), rng.normal(size=(2, 2, 2)))
    full = FullMergedWeights.embed(weights)
    pulled = full.pull_back(problem().in_weight_loss.force(full.effective_map()))
    found = np.concatenate([pulled.value[:, :2], pulled.key_query[:, 2]])
    return float(np.abs(velocity(weights, VECTORS) - found).max())


def opposite_pair(p: float) -> float:
    """The fastest velocity of a zero block where the fixed vectors are w_0 and -w_0."""
    weights = MergedWeights.initialize(SMALL, heads=3, scale=1.0, rng=np.random.default_rng(65))
    run = gradient_flow(
        problem(p=p, vectors=np.array([VECTORS[0], -VECTORS[0]])).training_loss,
        FullMergedWeights.embed(weights),
        t_end=50.0,
    )
    return max(np.abs(part).max() for part in (run.arrays["value"][:, :, :2], run.arrays["key_query"][:, :, 2]))


def one_vector(p: float) -> float:
    """The same where all fixed vectors are w_0."""
    weights = MergedWeights.initialize(SMALL, heads=3, scale=1.0, rng=np.random.default_rng(65))
    run = gradient_flow(problem(p=p, vectors=VECTORS[:1]).training_loss, FullMergedWeights.embed(weights), t_end=50.0)
    return max(np.abs(part).max() for part in (run.arrays["value"][:, :, :2], run.arrays["key_query"][:, :, 2]))


@claim(
    "V6-zero",
    "the zero blocks stay zero along the flow where the fixed task vectors are an opposite pair, at p = 0.3",
    method="flow",
    tolerance=ROUNDOFF,
    theory=opposite_pair,
    wrong={"one fixed vector": one_vector},
)
def opposite_vectors_keep_the_blocks(largest) -> float:
    return largest(0.3)


# The escape from the origin


def growth_rates(setting: InWeightSetting, dimension: int | None = None) -> tuple[float, float]:
    """The singular values of Gamma, from the products of its rows (V6-escape)."""
    parts = equation("V6-escape").statement
    entries = compile_expression(tuple(parts[part] for part in ("11", "22", "12")), (lambda_, portion, LENGTH, N, D))
    size = setting.dimension
    row, corner, both = entries(1 / size, setting.portion, np.sqrt(size), setting.context_length, dimension or size)
    smaller, larger = np.sqrt(np.linalg.eigvalsh([[row, both], [both, corner]]))
    return float(larger), float(smaller)


def growth_rate(setting: InWeightSetting, dimension: int | None = None) -> float:
    """The larger one, at which the weights grow."""
    return growth_rates(setting, dimension)[0]


@claim(
    "V6-escape",
    "rate of growth at the origin for portions 0.2, 0.6 and 1, against the singular values of E(y phi)",
    method="linear algebra",
    tolerance=ROUNDOFF,
    theory=growth_rate,
    wrong={
        "the rate of the reduced model": lambda setting: growth_rate(replace(setting, portion=1.0)),
        "N + 1 for N": lambda setting: growth_rate(replace(setting, context_length=setting.context_length + 1)),
        "D + 1 for D": lambda setting: growth_rate(setting, setting.dimension + 1),
    },
)
def rate_of_growth(rate) -> float:
    worst = 0.0
    for p in (0.2, 0.6, 1.0):
        setting = InWeightSetting(p)
        A = setting.problem(0).training_loss.A
        worst = max(worst, abs(rate(setting) / np.linalg.norm(A.reshape(len(A), -1), 2) - 1))
    return worst


@claim(
    "V6-escape",
    "rate of growth measured on the flow from initial weights of 1e-40, at p = 0.6",
    method="flow",
    tolerance=SOLVER,
    theory=growth_rate,
    wrong={"the rate of the reduced model": lambda setting: growth_rate(replace(setting, portion=1.0))},
)
def measured_rate_of_growth(rate) -> float:
    setting = InWeightSetting(0.6, scale=1e-40)
    times = np.array([120.0, 150.0])
    run = gradient_flow(setting.problem(0).training_loss, setting.start(0), t_end=times[-1], rtol=1e-10)
    sizes = np.linalg.norm(run.effective_map_at(times).reshape(2, -1), axis=1)  # grow at twice the rate
    return abs(np.log(sizes[1] / sizes[0]) / (2 * (times[1] - times[0])) / rate(setting) - 1)


# Finite training sets


def leak(N_: int) -> tuple[float, float]:
    """P E|velocity|^2 of the zero blocks v_1 and u_1 of the head v = 1, U = I on the first plateau (V6-leak)."""
    parts = equation("V6-leak").statement
    both = compile_expression((parts["v"], parts["u"]), (Lambda, N, v_i))(SMALL.covariance, N_, 1.0)
    return float(both[0]), float(both[1])


@claim(
    "V6-leak",
    "squared velocity of the zero blocks on sets of 20 random sequences, at the origin, averaged over 8,000 sets",
    method="Monte Carlo",
    tolerance=SAMPLING,
    theory=leak,
    wrong={
        "N + 1 for N": lambda N_: leak(N_ + 1),
        "the velocity itself for its square": lambda N_: tuple(np.sqrt(leak(N_))),
    },
)
def velocity_on_finite_sets(expected) -> float:
    P, sets, rng = 20, 8000, np.random.default_rng(66)
    found = []
    for tokens, target in sequences(SMALL, P * sets, rng, batch_size=P * 100):
        x, x_q = tokens[:, :-1, :2], tokens[:, -1, :2]
        gram = np.einsum("pni,pnj->pij", x, x) / x.shape[1] + np.einsum("pi,pj->pij", x_q, x_q) / x.shape[1]
        row = np.einsum("pij,pj,p->pi", gram, x_q, target)
        column = x_q * (target * (tokens[:, :-1, 2] ** 2).mean(axis=1))[:, None]
        means = [part.reshape(-1, P, 2).mean(axis=1) for part in (row, column)]
        found.append(np.stack([P * (mean**2).sum(axis=1) for mean in means], axis=1))
    squares = np.concatenate(found)
    error = squares.std(axis=0) / np.sqrt(len(squares))
    return float((np.abs(squares.mean(axis=0) - expected(SMALL.context_length)) / error).max())


LEAK_TASK = RegressionTask(eigenvalues=[0.6, 0.4], context_length=8)
LEAK_SIZES = (1_000, 4_000, 16_000, 64_000)


@cache
def leaked(seeds: int = 12, early: float = 60.0, end: float = 1e5) -> np.ndarray:
    """The norm of all zero blocks after the drop and at the end: seeds, sizes of the set, and the two times."""
    norms = np.empty((seeds, len(LEAK_SIZES), 2))
    for seed in range(seeds):
        start = FullMergedWeights.initialize(LEAK_TASK, heads=4, scale=3e-2, rng=np.random.default_rng([seed, 1]))
        for i, P in enumerate(LEAK_SIZES):
            loss = SampleMoments.sampled(LEAK_TASK, P, np.random.default_rng([seed, P])).loss()
            run = gradient_flow(loss, start, t_end=end, rtol=1e-6)
            for j, t in enumerate((early, end)):
                value, key_query = (array[0] for array in start.split(run.states_at([t])))
                norms[seed, i, j] = np.hypot(np.linalg.norm(value[:, :2]), np.linalg.norm(key_query[:, 2]))
    return norms


def _exponent(column: int) -> float:
    """The slope of the logarithm of the norm, averaged over seeds, against that of P."""
    return float(np.polyfit(np.log(LEAK_SIZES), np.log(leaked()[:, :, column]).mean(axis=0), 1)[0])


@claim(
    "V6-leak",
    "zero blocks on P sequences soon after the drop: their size falls as P^(-1/2), the linear response to sampling",
    method="flow",
    tolerance=LEAK_EARLY,
    theory=-1 / 2,
    wrong={"P^(-1/4)": -1 / 4, "P^(-1)": -1.0},
    slow=True,
)
def leak_after_the_drop(exponent) -> float:
    return abs(_exponent(0) - exponent)


@claim(
    "V6-leak",
    "zero blocks on P sequences at the end: P^(-1/4), since idle heads share a map of order P^(-1/2) between two weights",
    method="flow",
    tolerance=LEAK_AT_END,
    theory=-1 / 4,
    wrong={"P^(-1/2)": -1 / 2, "0: no dependence": 0.0},
    slow=True,
)
def leak_at_the_end(exponent) -> float:
    return abs(_exponent(1) - exponent)
