"""Claims about the order of learning (V2-sequence, V2-oblique): which sets of directions are visited, and how long a head rests."""

from collections.abc import Mapping
from itertools import islice, pairwise

import numpy as np

from ....numerics import QuadraticLoss, RegressionTask, SeparateWeights, compiled, find_plateaus, gradient_flow, order_of_learning
from ....theory.notation import tau
from ....theory.results.landscape.any_quadratic_loss import s_i, s_j
from ....theory.results.landscape.learning_order import A_d, A_j, M_d, M_j, Q_d, Q_j, lag_j, rho_j, v, w_init
from ...experiments.draws import remembered
from ...experiments.random_tasks import Sets, commuting_tasks, oblique_tasks, visited
from ...experiments.varied_tasks import RETURNING, TURNING, against, inclined, levels, small_levels, trained_levels, turning_levels
from ..book import claim, wrong
from ..formulas import formula, times
from ..tolerances import COUNT, LEADING_ORDER, OTHER_RESTS, TRAINED_VARIATION, TURNING_LEVEL


def sequence(task: RegressionTask) -> Sets:
    return [visit.directions for visit in order_of_learning(task)]


def one_by_one(values: np.ndarray) -> Sets:
    """Directions by the size of their values, each kept."""
    order = np.argsort(-values).tolist()
    return [tuple(sorted(order[:m])) for m in range(len(order) + 1)]


def only_the_first_turns(task: RegressionTask) -> Sets:
    """A mistake: the first head turns until it reaches the largest drop, the others keep what they learn first."""
    visits = order_of_learning(task)
    best, growth = int(np.argmax(task.modes.drops)), np.diag(task.loss_moments.A)
    first = [visit.directions for visit in visits if len(visit.directions) <= 1]
    rest = [int(d) for d in np.argsort(-growth) if d != best]
    return first + [tuple(sorted([best, *rest[: m + 1]])) for m in range(len(rest))]


@remembered
def _commuting() -> list[RegressionTask]:
    return list(islice(commuting_tasks(11), 24))


@claim("V2-sequence", method="flow", tolerance=COUNT, theory=sequence, slow=True)
@wrong("no head turns", lambda task: one_by_one(np.diag(task.loss_moments.A)))
@wrong("the largest drop first", lambda task: one_by_one(task.modes.drops))
@wrong("only the first head turns", only_the_first_turns)
def sequences_of_the_flow(expected) -> float:
    """The sets of directions visited by the flow from weights of 1e-4, in order: 24 random commuting tasks of 2 to 4 directions in which
    heads turn, growths and drops well apart.

    The number of tasks whose flow visits other sets.
    """
    return float(sum(visited(task, seed) != expected(task) for seed, task in enumerate(_commuting())))


@claim("V2-sequence", method="flow", tolerance=TURNING_LEVEL, theory=turning_levels)
@wrong("no head turns", levels)
@wrong("the largest drop first", lambda task: task.loss_moments.c - np.append(0, np.cumsum(np.sort(task.modes.drops)[::-1])))
@wrong("the second head stays", lambda task: np.delete(turning_levels(task), 4))
def two_heads_turn(expected) -> float:
    """The plateaus of three directions with two heads that turn (flow from random weights of 1e-4)."""
    return against(small_levels("returning"), expected(RETURNING))


@claim("V2-sequence", method="training", tolerance=TRAINED_VARIATION, theory=lambda: turning_levels(RETURNING), slow=True)
@wrong("no head turns", lambda: levels(RETURNING))
@wrong("the second head stays", lambda: np.delete(turning_levels(RETURNING), 4))
@wrong("turns between the wrong sets", lambda: turning_levels(RETURNING)[[0, 1, 2, 4, 3, 5]])
def trained_plateaus_returning(expected) -> float:
    """The losses on the plateaus of training on three directions with two heads that turn."""
    return against(trained_levels("returning"), expected())


# How long a head rests


def _rest_numbers(task: RegressionTask, d: int, j: int) -> tuple[float, ...]:
    A, M, Q = (np.diag(one) for one in task.loss_moments[:3])
    return (float(np.cbrt(task.modes.levels[d])), A[d], A[j], M[d], M[j], Q[d], Q[j])


rate = formula("V2-sequence", v, A_d, A_j, M_d, M_j, Q_d, Q_j, part="growing", given=_rest_numbers)  # rho_j at the rest along d


@claim("V2-sequence", method="linear algebra", theory=rate)
@wrong("Q of the other", {Q_j: Q_d})
@wrong("twice v", {v: 2 * v})
@wrong("d and j exchanged", {A_d: A_j, A_j: A_d})
def rates_of_turning(rate) -> float:
    """The rates at which heads turn, in 12 random tasks of 2 to 4 directions, against Hessians that include what other heads hold."""
    worst = 0.0
    for task in islice(commuting_tasks(5), 12):
        visits = order_of_learning(task)
        for before, after in pairwise(visits):
            if after.turned:
                (d,), (j,) = (set(a.directions) - set(b.directions) for a, b in ((before, after), (after, before)))
                worst = max(worst, abs(before.rate / rate(task, d, j) - 1))
    return worst


def rest(size: float, change: Mapping | None = None) -> float:
    """The duration of a rest of ``TURNING`` as a function of the size of the weights."""
    lag = float(compiled("V2-sequence", (A_d, A_j), part="lag", change=change)(*np.diag(TURNING.loss_moments.A)))
    return float(compiled("V2-sequence", (lag_j, rho_j, w_init, tau), part="rest")(lag, rate(TURNING, 0, 1, change=change), size, 1.0))


@remembered
def _measured_rest(size: float) -> float:
    weights = SeparateWeights(np.full(1, size), np.full((1, 1, 2), size), np.full((1, 1, 2), size))
    run = gradient_flow(QuadraticLoss.population(TURNING), weights, t_end=8 / size, rtol=1e-10)
    return float(np.diff(find_plateaus(run).drops)[0])


@claim("V2-sequence", method="flow", tolerance=LEADING_ORDER, theory=rest)
@wrong("no lag", times(1 / (1 - 2 / 3)))
@wrong("the rate of a waiting head", {M_d: 1e9, Q_d: 1e9})
@wrong("a power of the size", lambda size: 1 / size)
def rests_of_two_sizes(time) -> float:
    """How much longer a head rests from weights of 1e-6 than from weights of 1e-3 (flow)."""
    return abs((_measured_rest(1e-6) - _measured_rest(1e-3)) / (time(1e-6) - time(1e-3)) - 1)


# Covariances that do not commute


@remembered
def oblique_rest(angle: float) -> float:
    """The time between the two drops of one head that starts along the leading singular vectors of A, at a scale of 1e-3."""
    task = inclined(angle)
    left, growth, right = np.linalg.svd(task.loss_moments.A)
    weights = SeparateWeights(np.array([1e-3]), 1e-3 * left[None, None, :, 0], 1e-3 * right[None, None, 0])
    run = gradient_flow(QuadraticLoss.population(task), weights, t_end=1e3 / growth[0] + 500, rtol=1e-10)
    c, (large, small) = task.loss_moments.c, task.modes.drops
    times = np.linspace(0, run.times[-1], 20_001)
    losses = run.loss_at(times)
    first, second = (times[np.argmax(losses < level)] for level in (c - small / 2, c - (small + large) / 2))
    return float(second - first)


@claim("V2-oblique", method="flow", tolerance=LEADING_ORDER, theory=lambda: np.log(10) / rate(TURNING, 0, 1))
@wrong("angles squared", lambda: np.log(100) / rate(TURNING, 0, 1))
@wrong("the rate of a waiting head", lambda: np.log(10) / (np.cbrt(TURNING.modes.levels[0]) * TURNING.loss_moments.A[1, 1]))
def rests_of_small_angles(longer) -> float:
    """How much longer a head rests when the angle between token and task covariance shrinks tenfold (flow), from 0.001 and from 0.0001."""
    rests = [oblique_rest(angle) for angle in (1e-3, 1e-4, 1e-5)]
    return float(np.abs(np.diff(rests) / longer() - 1).max())


@claim("V2-oblique", method="flow", tolerance=COUNT, theory=formula("V2-oblique", s_i, s_j, part="second"))
@wrong("the smallest drop is stable", {s_i: s_j, s_j: s_i})
@wrong("all are", {s_j: 0})
def rests_of_one_head(stable) -> float:
    """The direction at which one head alone comes to rest, in 16 random tasks of 2 or 3 directions, nothing commuting, drops well apart.

    The number of tasks in which the head does not end at the one direction that is stable against all others.
    """
    failed = 0
    for task in islice(oblique_tasks(3), 16):
        s = np.sqrt(task.modes.drops)
        left = [d for d in range(len(s)) if all(stable(s[d], one) > 0 for j, one in enumerate(s) if j != d)]
        ends = int(np.argmax(np.diag(task.modes.coordinates(_end_of_one_head(task)))))
        failed += left != [ends]
    return float(failed)


def _end_of_one_head(task: RegressionTask) -> np.ndarray:
    left, growth, right = np.linalg.svd(task.loss_moments.A)
    weights = SeparateWeights(np.array([0.01]), 0.01 * left[None, None, :, 0], 0.01 * right[None, None, 0])
    run = gradient_flow(QuadraticLoss.population(task), weights, t_end=2e3 / growth[0] / task.modes.drops.min(), rtol=1e-6)
    return run.effective_map_at(run.times[-1])


@claim("V2-oblique", method="flow", tolerance=OTHER_RESTS, theory=sequence, slow=True)
@wrong("the smallest drop first", lambda task: one_by_one(-task.modes.drops))  # the order of the levels differs too seldom to be told
def sequences_of_oblique_flows(expected) -> float:
    """The share of 24 random tasks of 2 or 3 directions, nothing commuting, growths and drops well apart, in which heads rest at other
    sets, or elsewhere too, from 1e-4 (flow)."""
    return float(np.mean([visited(task, seed) != expected(task) for seed, task in enumerate(islice(oblique_tasks(3), 24))]))
