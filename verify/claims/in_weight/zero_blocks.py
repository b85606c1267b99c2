"""Claims that fixed task vectors (V6-zero) and finite training sets (V6-leak) move the zero blocks."""

from functools import cache, partial

import numpy as np

from ....numerics import FullMergedWeights, MergedWeights, MixedTask, RegressionTask, SampleMoments, compiled, gradient_flow, sequences
from ....numerics.tasks.losses import QuadraticLoss
from ....theory.calculus.spectral import eigenvalue
from ....theory.notation import B, D, Lambda, N, gamma, lambda_, v_i, w, w_init
from ....theory.results.attention.blocks import U_i
from ....theory.results.in_weight.moving_blocks import b
from ...experiments import draws
from ..attention.moments import largest_score
from ..book import claim, wrong
from ..formulas import power_law
from ..tolerances import LEAK_AT_END, LEAK_EARLY, ROUNDOFF
from .loss import SMALL, VECTORS, problem

# Fixed task vectors


def block_velocity(weights: MergedWeights, vectors: np.ndarray, N_: int = SMALL.context_length) -> np.ndarray:
    """The velocities (V6-zero) of all zero blocks, averaged over the task vectors; rows: v_1, ..., u_1, ..."""
    row = compiled("V6-zero", (U_i, B, Lambda, N, w), part="v")
    column = compiled("V6-zero", (v_i, B, Lambda, N, w), part="u")
    given = np.einsum("h,hij->ij", weights.v, weights.U), SMALL.covariance, N_, vectors[:, None, :, None]
    return np.concatenate([part.mean(axis=0)[..., 0] for part in (row(weights.U, *given), column(weights.v, *given))])


@claim("V6-zero", method="linear algebra", theory=block_velocity)
@wrong("N + 1 for N", partial(block_velocity, N_=SMALL.context_length + 1))
@wrong("zero, as for random task vectors", lambda weights, vectors: 0 * block_velocity(weights, vectors))
@wrong("an opposite pair of vectors", lambda weights, vectors: block_velocity(weights, np.concatenate([vectors, -vectors])))
def zero_blocks_move(velocity) -> float:
    """Velocities of the zero blocks from two moments of the task's law, against the gradient of the unreduced loss."""
    rng = draws.generator(64)
    weights = MergedWeights(rng.normal(size=2), rng.normal(size=(2, 2, 2)))
    full = FullMergedWeights.embed(weights)
    pulled = full.pull_back(problem().in_weight_loss.force(full.effective_map()))
    found = np.concatenate([pulled.value[:, :2], pulled.key_query[:, 2]])
    return float(np.abs(velocity(weights, VECTORS) - found).max())


def largest_entry(p: float, vectors: np.ndarray) -> float:
    """The largest entry of the zero blocks along the flow from zero blocks."""
    weights = MergedWeights.initialize(SMALL, heads=3, scale=1.0, rng=draws.generator(65))
    run = gradient_flow(problem(p=p, vectors=vectors).training_loss, FullMergedWeights.embed(weights), t_end=50.0)
    return max(np.abs(part).max() for part in (run.arrays["value"][:, :, :2], run.arrays["key_query"][:, :, 2]))


@claim("V6-zero", method="flow", tolerance=ROUNDOFF, theory=lambda p: largest_entry(p, np.array([VECTORS[0], -VECTORS[0]])))
@wrong("one fixed vector", lambda p: largest_entry(p, VECTORS[:1]))
def opposite_vectors_keep_the_blocks(largest) -> float:
    """The zero blocks stay zero along the flow if the fixed task vectors are an opposite pair, at p = 0.3."""
    return largest(0.3)


@cache
def population(task: RegressionTask) -> QuadraticLoss:
    """The loss of all blocks on infinitely many sequences."""
    return MixedTask(task, 1.0, np.ones((1, task.dimension))).in_context_loss


LEFT = compiled("T4-leak", (w_init, lambda_, gamma), change={eigenvalue[1]: lambda_})
UNEQUAL = RegressionTask(eigenvalues=[0.6, 0.5], context_length=8)


@claim(
    "T4-leak",
    method="flow",
    tolerance=LEAK_AT_END,
    theory=lambda task: -np.log(LEFT(np.exp(-1), task.eigenvalues[0], np.linalg.norm(task.eigenvalues**2))),
)
@wrong("they keep their size", lambda task: 1.0)
@wrong("they grow as the main weights do", lambda task: 0.0)
def leak_on_the_plateau(power) -> float:
    """The power of the scale with which zero blocks of the same initial scale stay below the main weights, from 1e-4 to 1e-8."""
    loss = population(UNEQUAL)

    def largest(scale: float) -> float:
        start = FullMergedWeights.initialize(UNEQUAL, heads=4, scale=scale, block_scale=scale, rng=draws.generator(68))
        run = gradient_flow(loss, start, t_end=(np.log(1 / scale) + 6) / np.linalg.norm(UNEQUAL.eigenvalues**2))
        value, key_query = run.arrays["value"][:, :, :2], run.arrays["key_query"][:, :, 2]
        return float(np.hypot(np.linalg.norm(value, axis=(1, 2)), np.linalg.norm(key_query, axis=(1, 2))).max())

    return abs(power_law([1e-4, 1e-6, 1e-8], largest) - power(UNEQUAL))


# Finite training sets


def leak(N_: int) -> tuple[float, float]:
    """P E|velocity|^2 of the zero blocks v_1 and u_1 of the head v = 1, U = I on the first plateau (V6-leak)."""
    row, column = compiled("V6-leak", (Lambda, N, v_i), part=("v", "u"))(SMALL.covariance, N_, 1.0)
    return float(row), float(column)


@claim("V6-leak", method="Monte Carlo", theory=leak)
@wrong("N + 1 for N", lambda N_: leak(N_ + 1))
@wrong("the velocity itself for its square", lambda N_: tuple(np.sqrt(leak(N_))))
def velocity_on_finite_sets(expected) -> float:
    """Squared velocity of the zero blocks on sets of 20 random sequences, at the origin, averaged over 8,000 sets."""
    return standard_errors(SMALL, 0.0, expected(SMALL.context_length))


P = 20  # sequences in each of 8,000 sets


@draws.remembered
def velocities(task: RegressionTask) -> np.ndarray:
    """The velocities of both zero blocks of the head v = 1, U = I on sets of sequences: under the targets, and under the map I."""
    found = []
    for tokens, target in sequences(task, 8000 * P, draws.generator(66), batch_size=100 * P):
        x, labels, x_q = tokens[:, :-1, :-1], tokens[:, :-1, -1], tokens[:, -1, :-1]
        scores = np.einsum("pni,pi->pn", x, x_q)
        row = (np.einsum("pni,pn->pi", x, scores) + x_q * (x_q**2).sum(axis=1, keepdims=True)) / x.shape[1]
        both = np.stack([row, x_q * (labels**2).mean(axis=1, keepdims=True)])
        pulls = np.stack([both * part[:, None] for part in (target, (scores * labels).mean(axis=1))])
        found.append(pulls.reshape(2, 2, -1, P, task.dimension).mean(axis=3))
    return np.concatenate(found, axis=2)


def standard_errors(task: RegressionTask, map_: float, expected: tuple) -> float:
    """Of the mean of P |velocity|^2 if all heads together make map_ I."""
    toward, back = velocities(task)
    return largest_score(P * ((toward - map_ * back) ** 2).sum(axis=2).T, np.array(expected))


WHITE = RegressionTask(eigenvalues=[0.5] * 3, context_length=6)


def white_leak(map_: float, N_: int = WHITE.context_length) -> tuple[float, float]:
    """P E|velocity|^2 for white tokens and the map b I (V6-leak)."""
    both = compiled("V6-leak", (D, N, lambda_, v_i, b), part=("v white", "u white"))
    row, column = both(WHITE.dimension, N_, float(WHITE.eigenvalues[0]), 1.0, map_)
    return float(row), float(column)


@claim("V6-leak", method="Monte Carlo", theory=white_leak)
@wrong("N + 1 for N", lambda map_: white_leak(map_, WHITE.context_length + 1))
@wrong("that of the plateau", lambda map_: white_leak(0.0))
def velocity_on_finite_sets_along_the_way(expected) -> float:
    """Squared velocity of the zero blocks on sets of 20 random sequences, white tokens, on the plateau, in mid-drop and at the end."""
    end = float(WHITE.eigenvalues[0] / WHITE.second_moment_eigenvalues[0])
    return max(standard_errors(WHITE, map_, expected(map_)) for map_ in (0.0, end / 2, end))


LEAK_TASK = RegressionTask(eigenvalues=[0.6, 0.4], context_length=8)
LEAK_SIZES = (1_000, 4_000, 16_000, 64_000)


@draws.remembered
def leaked(seeds: int = 12, early: float = 60.0, end: float = 1e5) -> np.ndarray:
    """The norm of all zero blocks of four heads after the drop and at the end: seeds, sizes of the set, and the two times."""
    norms = np.empty((seeds, len(LEAK_SIZES), 2))
    for seed in range(seeds):
        start = FullMergedWeights.initialize(LEAK_TASK, heads=4, scale=3e-2, rng=draws.generator(seed, 1))
        for i, P in enumerate(LEAK_SIZES):
            loss = SampleMoments.sampled(LEAK_TASK, P, draws.generator(seed, P)).loss()
            run = gradient_flow(loss, start, t_end=end, rtol=1e-6)
            for j, t in enumerate((early, end)):
                value, key_query = (array[0] for array in start.split(run.states_at([t])))
                norms[seed, i, j] = np.hypot(np.linalg.norm(value[:, :2]), np.linalg.norm(key_query[:, 2]))
    return norms


def leak_exponent(column: int) -> float:
    """The slope of the logarithm of the norm, averaged over seeds, against that of P."""
    return float(np.polyfit(np.log(LEAK_SIZES), np.log(leaked()[:, :, column]).mean(axis=0), 1)[0])


@claim("V6-leak", method="flow", tolerance=LEAK_EARLY, theory=-1 / 2, slow=True)
@wrong("P^(-1/4)", -1 / 4)
@wrong("P^(-1)", -1.0)
def leak_after_the_drop(exponent) -> float:
    """Zero blocks on P sequences soon after the drop: their size falls as P^(-1/2), as their velocity does."""
    return abs(leak_exponent(0) - exponent)
