"""Claims about idle heads on finite training sets (V6-idle): their final weights, and settings in which nothing grows after the drop."""

import numpy as np

from ....numerics.compilation.equations import compiled
from ....numerics.dynamics.flow import gradient_flow
from ....numerics.parametrizations.full_attention import FullMergedWeights
from ....numerics.tasks.losses import QuadraticLoss
from ....numerics.tasks.regression import RegressionTask
from ....numerics.tasks.sample_moments import SampleMoments
from ....theory.results.in_weight.idle_heads import COLUMN_SIZE, CURVATURE, FORCE, MAP, SEQUENCES
from ...experiments import draws
from ..book import claim, wrong
from ..tolerances import IDLE_POWERS, IDLE_SIZE, LEAK_AT_END, NOTHING_GROWS, ORDINARY_POWERS, TIME_POWERS
from .zero_blocks import LEAK_TASK, leak_exponent, population

SET = 16_000  # sequences
SEEDS, END = 3, 2e7


@draws.remembered
def sampled(task: RegressionTask, seed: int, count: int) -> SampleMoments:
    return SampleMoments.sampled(task, count, draws.generator(seed, count))


@draws.remembered
def on_set(task: RegressionTask, seed: int, P: float) -> QuadraticLoss:
    """The loss of all blocks on ``P`` sequences: sampled up to 16,000, beyond that a resized set; the population's for infinitely many."""
    return population(task) if np.isinf(P) else sampled(task, seed, int(min(P, SET))).resized(population(task), P)


@draws.remembered
def ended(task: RegressionTask, seed: int, P: float, heads: int, scale: float, blocks: float, end: float) -> FullMergedWeights:
    """The end of a flow, zero blocks from the scale ``blocks``, the heads rotated: the first is active, the others have no v_j."""
    start = FullMergedWeights.initialize(task, heads=heads, scale=scale, block_scale=blocks, rng=draws.generator(seed, 1))
    run = gradient_flow(on_set(task, seed, P), start, t_end=end, rtol=1e-6)
    value, key_query = start.split(run.states[-1])
    turn = np.linalg.svd(value[:, -1:])[0].T
    return FullMergedWeights(turn @ value, np.tensordot(turn, key_query, 1))


def sizes(weights: FullMergedWeights) -> np.ndarray:
    """The norms of the rows, of the columns and of the matrices of idle heads."""
    value, key_query = weights.value[1:], weights.key_query[1:]
    return np.array([np.linalg.norm(part) for part in (value[:, :-1], key_query[:, -1], key_query[:, :-1])])


def at_rest(force: float, left: np.ndarray, pair: np.ndarray, C: np.ndarray, column: float) -> np.ndarray:
    """The row and the matrix of an idle head at rest (V6-idle); ``left``: the part of the map of ``pair`` not undone by the active head."""
    reached, parts = compiled("V6-idle", (FORCE, CURVATURE, SEQUENCES), part="map"), ("row at rest", "matrix at rest")
    return np.array(compiled("V6-idle", (COLUMN_SIZE, MAP), part=parts)(column, reached(force, left @ C @ left, 1.0)))


@claim("V6-idle", method="flow", tolerance=IDLE_SIZE, theory=at_rest)
@wrong("twice the force", lambda force, *rest: at_rest(2 * force, *rest))
@wrong("an active head that does not give way", lambda force, left, pair, *rest: at_rest(force, pair, pair, *rest))
@wrong("the size of its map", lambda *all_of_it: at_rest(*all_of_it) ** 2)
@wrong("no column", lambda force, left, pair, C, column: at_rest(force, left, pair, C, 1e-9))
def idle_head_at_rest(expected) -> float:
    """Row and matrix of an idle head at the end, from its column, the force that the active head leaves and its own curvature, on 160
    million sequences, zero blocks of three sizes."""
    worst, P = 0.0, 1.6e8
    for seed in range(SEEDS):
        loss, alone = on_set(LEAK_TASK, seed, P), ended(LEAK_TASK, seed, P, 1, 1e-3, 0.0, END)
        C, tangent = loss.matrix, FullMergedWeights.jacobian(*alone.arrays)
        for blocks in (0.0, 1e-5, 4e-5):
            both = ended(LEAK_TASK, seed, P, 2, 1e-3, blocks, END)
            row, matrix = np.append(both.value[1, :-1], 0), both.key_query[1] * (np.arange(3) < 2)[:, None]
            pair = np.multiply.outer(row / np.linalg.norm(row), matrix / np.linalg.norm(matrix)).ravel()
            left = pair - np.linalg.lstsq(tangent @ C @ tangent.T, tangent @ C @ pair, rcond=1e-10)[0] @ tangent
            found, column = sizes(both)[[0, 2]], sizes(both)[1]
            worst = max(worst, np.abs(found / expected(pair @ loss.force(alone.effective_map()).ravel(), left, pair, C, column) - 1).max())
    return worst


def powers() -> tuple[float, float]:
    """The powers of P of the rows of idle heads beside small columns, and of the map of a row and a matrix (V6-idle)."""
    row, column = np.log(compiled("V6-idle", (FORCE, CURVATURE, SEQUENCES), part=("small column", "map"))(1.0, 1.0, np.e))
    return float(row), float(column)


def measured_powers(heads: int, blocks: float, sets: tuple, seeds: int = SEEDS, **setting: float) -> np.ndarray:
    """The powers of P with which rows, columns and matrices of idle heads change between two sizes of the set: medians over seeds."""
    logs = [[np.log(sizes(ended(LEAK_TASK, seed, P, heads, blocks=blocks, **setting))) for P in sets] for seed in range(seeds)]
    return np.median(np.diff(logs, axis=1), axis=(0, 1)) / np.log(sets[1] / sets[0])


@claim("V6-idle", method="flow", tolerance=IDLE_POWERS, theory=powers)
@wrong("P^(-1/2) in rows as well", lambda: (powers()[1],) * 2)
@wrong("P^(-1/4) in columns as well", lambda: (powers()[0],) * 2)
def powers_at_the_end(expected) -> float:
    """Powers of P with which rows and columns of idle heads fall at the end, from zero blocks, at the deviation of sets of 160 million and
    16 billion sequences, two and four heads."""
    found = [measured_powers(heads, 0.0, (1.6e8, 1.6e10), scale=1e-3, end=10 * END) for heads in (2, 4)]
    return float(np.abs(np.array(found)[:, :2] - expected()).max())


ORDINARY = {"scale": 0.03, "blocks": 0.03, "end": 2e5, "seeds": 7}


def powers_on_many_sequences() -> np.ndarray:
    """The powers of P of rows, columns and matrices of idle heads above the crossing (V6-idle)."""
    row, matrix = compiled("V6-idle", (COLUMN_SIZE,), part=("many sequences", "matrix, many sequences"))(ORDINARY["blocks"])
    return np.array([np.log(row / ORDINARY["blocks"]), 0.0, powers()[1] + np.log(matrix * ORDINARY["blocks"])])


@claim("V6-idle", method="flow", tolerance=ORDINARY_POWERS, theory=powers_on_many_sequences)
@wrong("those beside small columns", lambda: np.array([*powers(), powers()[0]]))
@wrong("matrices that stay", lambda: np.zeros(3))
def powers_from_the_ordinary_scale(expected) -> float:
    """Powers of P of rows, columns and matrices of the idle one of two heads, all weights initially at the scale of 0.03, from a million to
    a hundred million sequences: 0, 0 and -1/2."""
    return float(np.abs(measured_powers(2, sets=(1e6, 1e8), **ORDINARY) - expected()).max())


def time_power(scale: float, blocks: float, end: float) -> float:
    """The power of P of the time at which the loss on the set is 0.05/P above its end, 10^8 and 10^10 sequences, four heads."""
    times, sets = np.geomspace(10, end, 400), (1e8, 1e10)
    logs = []
    for seed in range(ORDINARY["seeds"]):
        start = FullMergedWeights.initialize(LEAK_TASK, heads=4, scale=scale, block_scale=blocks, rng=draws.generator(seed, 1))
        for P in sets:
            loss = on_set(LEAK_TASK, seed, P)
            above = loss.values(gradient_flow(loss, start, t_end=end, rtol=1e-7).effective_map_at(times))
            logs.append(np.log(times[np.flatnonzero(P * (above - above[-1]) > 0.05)[-1]]))
    return float(np.median(np.diff(np.reshape(logs, (-1, 2)))) / np.log(sets[1] / sets[0]))


def time_powers() -> tuple[float, float]:
    """Those powers for a small column and for many sequences: minus those of the pace of rest (V6-idle)."""
    pace = compiled("V6-idle", (CURVATURE, COLUMN_SIZE, MAP), part="pace at rest")
    small, many = (np.log(pace(1.0, column, np.exp(powers()[1])) / pace(1.0, column, 1.0)) for column in (1e-9, 1e9))
    return -float(small), -float(many)


@claim("V6-idle", method="flow", tolerance=TIME_POWERS, theory=time_powers)
@wrong("none", lambda: (0.0, 0.0))
@wrong("1/2 in both", lambda: (0.5, 0.5))
def time_to_the_end(expected) -> float:
    """Power of P with which the time to the end grows, up to a logarithm, 10^8 and 10^10 sequences, four heads: 1/2 from zero blocks, 0
    from blocks at the scale of 0.03."""
    return float(np.abs(np.array([time_power(1e-3, 0.0, END), time_power(0.03, 0.03, 2e5)]) - expected()).max())


@claim("V6-idle", method="flow", tolerance=LEAK_AT_END, theory=lambda: powers()[0], slow=True)
@wrong("P^(-1/2), as the force", lambda: powers()[1])
@wrong("0: no dependence", lambda: 0.0)
def leak_at_the_end(power) -> float:
    """Power of P with which the zero blocks of four heads fall at the end, on sets of 1,000 to 64,000 sequences."""
    return abs(leak_exponent(1) - power())


ONE_DIRECTION = RegressionTask(eigenvalues=[1.0], context_length=8)


@claim("V6-idle", method="flow", tolerance=NOTHING_GROWS, theory=((LEAK_TASK, 1), (ONE_DIRECTION, 4)))
@wrong("two heads", ((LEAK_TASK, 2),))
@wrong("four heads and D = 2", ((LEAK_TASK, 4),))
def nothing_grows_without_idle_heads_or_directions(settings) -> float:
    """Zero blocks on 4,000 sequences do not grow between the drop and the end with one head, nor with four heads and D = 1."""
    worst = 0.0
    for task, heads in settings:
        for seed in range(SEEDS):
            start = FullMergedWeights.initialize(task, heads=heads, scale=3e-2, rng=draws.generator(seed, 1))
            loss = SampleMoments.sampled(task, 4_000, draws.generator(seed, 2)).loss()
            states = gradient_flow(loss, start, t_end=1e5).states_at([1000.0, 1e5])
            value, key_query = start.split(states)
            D = task.dimension
            norms = [np.hypot(np.linalg.norm(v[:, :D]), np.linalg.norm(W[:, D])) for v, W in zip(value, key_query, strict=True)]
            worst = max(worst, abs(norms[1] / norms[0] - 1))
    return worst
