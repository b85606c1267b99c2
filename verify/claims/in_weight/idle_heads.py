"""Claims about idle heads on finite training sets (V6-idle): their final weights, and settings in which nothing grows after the drop."""

import numpy as np

from ....numerics.compilation.equations import compiled
from ....numerics.dynamics.flow import gradient_flow
from ....numerics.parametrizations.full_attention import FullMergedWeights
from ....numerics.tasks.losses import QuadraticLoss
from ....numerics.tasks.mixed_task import MixedTask
from ....numerics.tasks.regression import RegressionTask
from ....numerics.tasks.sample_moments import SampleMoments
from ....theory.results.in_weight.idle_heads import CURVATURE, FORCE, SEQUENCES
from ...experiments import draws
from ...experiments.draws import remembered
from ..book import claim, wrong
from ..tolerances import IDLE_POWERS, IDLE_SIZE, LEAK_AT_END, NOTHING_GROWS
from .zero_blocks import LEAK_TASK, leak_exponent

SET = 16_000  # sequences
SEEDS = 3


@remembered
def near_population(seed: int, part: float) -> QuadraticLoss:
    """The population loss plus ``part`` of a set's deviation from it, which makes it that of a set of 16,000/part^2 sequences."""
    exact = MixedTask(LEAK_TASK, 1.0, np.ones((1, LEAK_TASK.dimension))).in_context_loss
    found = SampleMoments.sampled(LEAK_TASK, SET, draws.generator(seed, SET)).loss()
    return QuadraticLoss.from_moments(
        second=(1 - part) * exact.C.matrix + part * found.C.matrix,  # type: ignore[attr-defined]
        cross=(1 - part) * exact.A + part * found.A,
        square=(1 - part) * exact.c + part * found.c,
    )


@remembered
def ended(seed: int, part: float, heads: int) -> FullMergedWeights:
    """The end of a flow from small weights, the heads rotated: the first is active, the others have no v_j."""
    rng = draws.generator(seed, 1)
    start = FullMergedWeights.initialize(LEAK_TASK, heads=heads, scale=1e-3, rng=rng)
    end = 2e5 / part
    states = gradient_flow(near_population(seed, part), start, t_end=end).states_at([end])
    value, key_query = (array[0] for array in start.split(states))
    turn = np.linalg.svd(value[:, -1:])[0].T
    return FullMergedWeights(turn @ value, np.tensordot(turn, key_query, 1))


def size(force: float, left: np.ndarray, pair: np.ndarray, C: np.ndarray) -> float:
    """alpha, the size at which an idle head rests (V6-idle); ``left`` is the part of the map of ``pair`` not undone by the active head."""
    alpha = compiled("V6-idle", (FORCE, CURVATURE, SEQUENCES), part="size")
    return float(alpha(force, left @ C @ left, 1.0))


@claim("V6-idle", method="flow", tolerance=IDLE_SIZE, theory=size)
@wrong("twice the force", lambda force, *rest: size(2 * force, *rest))
@wrong("an active head that does not give way", lambda force, left, pair, C: size(force, pair, pair, C))
@wrong("the size of its map", lambda *all_of_it: size(*all_of_it) ** 2)
def idle_head_at_rest(expected) -> float:
    """Weights of an idle head at the end, from the force that the active head leaves and its own curvature, at the deviation of sets of 160
    million sequences."""
    part, worst = 1e-2, 0.0
    for seed in range(SEEDS):
        loss, alone, both = near_population(seed, part), ended(seed, part, 1), ended(seed, part, 2)
        row, key_query, C = both.value[1], both.key_query[1], loss.C.matrix  # type: ignore[attr-defined]
        pair = np.multiply.outer(row / np.linalg.norm(row), key_query / np.linalg.norm(key_query)).ravel()
        tangent = FullMergedWeights.jacobian(*alone.arrays)
        follows = np.linalg.lstsq(tangent @ C @ tangent.T, tangent @ C @ pair, rcond=1e-10)[0]
        left = pair - follows @ tangent
        alpha = expected(pair @ loss.force(alone.effective_map()).ravel(), left, pair, C)
        worst = max(worst, *(abs(np.linalg.norm(part_of) / alpha - 1) for part_of in (row, key_query)))
    return worst


def powers() -> tuple[float, float]:
    """The powers of P of the rows of idle heads, and of the force, which the columns follow (V6-idle)."""
    both = compiled("V6-idle", (FORCE, CURVATURE, SEQUENCES), part=("size", "rate"))
    row, column = np.log(both(1.0, 1.0, np.e))
    return float(row), float(column)


@claim("V6-idle", method="flow", tolerance=IDLE_POWERS, theory=powers)
@wrong("P^(-1/2) in rows as well", lambda: (powers()[1],) * 2)
@wrong("P^(-1/4) in columns as well", lambda: (powers()[0],) * 2)
def powers_at_the_end(expected) -> float:
    """Powers of P with which the rows and the columns of the zero blocks fall at the end, at the deviation of sets of 160 million and 16
    billion sequences, two and four heads."""
    measured = []
    for heads in (2, 4):
        norms = np.empty((2, SEEDS, 2))
        for i, part in enumerate((1e-2, 1e-3)):
            for seed in range(SEEDS):
                end = ended(seed, part, heads)
                norms[i, seed] = np.linalg.norm(end.value[1:, :-1]), np.linalg.norm(end.key_query[:, -1])
        rates = np.log(norms).mean(axis=1)
        measured.append((rates[1] - rates[0]) / np.log(100))  # P grows by 100
    return float(np.abs(np.array(measured) - expected()).max())


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
