r"""The landscape of the loss: every fixed point, its Hessian, and a search for others.

For distinct eigenvalues the fixed points of separate attention are, as functions, the sets S of learned eigendirections with at most
R H members, :math:`B = \sum_{d\in S}\frac{\lambda_d}{a_d}e_de_d^\top` (23), (83): 2^D of them when R H >= D. Merged attention has two (14).
Hessians are those of L/2, so that the flow (10) is :math:`\tau\dot W = -\nabla(L/2)`.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from scipy.optimize import leastsq

from .._checks import generator, positive_integer
from ..parametrizations.attention import MergedWeights, SeparateWeights
from ..parametrizations.base import Parametrization, field_jacobian, vector_field
from ..tasks.losses import QuadraticLoss
from ..tasks.regression import RegressionTask, any_task

# Eigenvalues of a Hessian below this fraction of the largest count as zero: they are differences of terms of its size.
ZERO = 1e-10


class AtRest:
    """Weights at rest, with the ``spectrum`` of the Hessian of L/2, whose eigenvalues below a fraction of the largest count as zero."""

    zero: ClassVar[float] = ZERO
    spectrum: Float[np.ndarray, " P"]

    @property
    def index(self) -> int:
        """How many eigenvalues are negative."""
        return int(np.sum(self.spectrum < -self._rounding))

    @property
    def nullity(self) -> int:
        """How many are zero: at least the dimension of the connected set of fixed points around this one."""
        return int(np.sum(np.abs(self.spectrum) <= self._rounding))

    @property
    def _rounding(self) -> float:
        return self.zero * max(float(np.abs(self.spectrum).max()), self.zero)


@dataclass(frozen=True, eq=False)
class FixedPoint(AtRest):
    """Weights at rest, with the set S of learned directions (indices into ``task.modes``), or None for merged attention."""

    task: RegressionTask
    weights: Parametrization
    directions: tuple[int, ...] | None

    @cached_property
    def population(self) -> QuadraticLoss:
        return QuadraticLoss.population(self.task)

    @cached_property
    def loss(self) -> float:
        """The loss at the weights."""
        return self.population.value(self.weights.effective_map())

    @cached_property
    def residual(self) -> float:
        """The largest velocity tau dW/dt there: zero up to rounding."""
        return float(np.abs(vector_field(self.population, self.weights)(0.0, self.weights.flatten())).max())

    @cached_property
    def spectrum(self) -> Float[np.ndarray, " P"]:
        """The eigenvalues of the Hessian of L/2, ascending."""
        return np.linalg.eigvalsh(self.weights.hessian(self.population))


def has_equal_eigenvalues(task: RegressionTask) -> bool:
    """Whether two drops agree to rounding, as for equal eigenvalues. The fixed points then form continua, and the lists here hold one
    member of each."""
    ordered = np.sort(task.modes.drops[task.modes.learnable])
    return bool(np.any(np.diff(ordered) <= 1e-12 * ordered[-1]))


def fixed_point_sets(task: RegressionTask, *, heads: int, rank: int = 1) -> Iterator[tuple[int, ...]]:
    """The sets S of at most heads * rank directions in order of loss, from that of zero weights down to the least.

    One after the other, as they are asked for: n of them take the time and the memory of n sets, whatever the dimension.
    """
    drops = any_task(task).modes.drops
    order = np.argsort(drops, kind="stable")[-len(task.modes.learnable) :]
    most = min(len(order), positive_integer("heads", heads) * positive_integer("rank", rank))
    yield ()
    left: list[tuple[float, tuple[int, ...]]] = [(float(drops[order[0]]), (0,))]
    while left:
        fallen, places = heappop(left)  # each set comes from one other of higher loss: less its last place, or with the place before that
        yield tuple(sorted(int(d) for d in order[list(places)]))
        last = places[-1]
        if last + 1 < len(order):
            further = float(drops[order[last + 1]])
            heappush(left, (fallen - float(drops[order[last]]) + further, (*places[:-1], last + 1)))
            if len(places) < most:
                heappush(left, (fallen + further, (*places, last + 1)))


def losses_of_sets(task: RegressionTask) -> dict[tuple[int, ...], float]:
    """The loss at every fixed function of separate attention with enough heads (V2-fixed): c less the drops of the set S."""
    c, drops = any_task(task).loss_moments.c, task.modes.drops
    return {S: float(c - drops[list(S)].sum()) for S in fixed_point_sets(task, heads=task.dimension)}


def separate_fixed_point(task: RegressionTask, directions: Sequence[int], *, heads: int, rank: int = 1) -> FixedPoint:
    r"""The fixed point with learned directions S, in weights of minimal norm (D.7).

    The directions, sorted by :math:`b_d = \lambda_d/a_d`, fill the slots of one head after the other, and a head with the set J has
    :math:`v = (\sum_{d\in J}b_d)^{1/3}` and :math:`k_d = q_d = \sqrt{b_d/v}\,e_d`. For a varied task the directions and levels are
    those of ``task.modes``.

    Raises ``ValueError`` unless ``directions`` are at most heads * rank different members of ``task.modes.learnable``.
    """
    modes, H, R = any_task(task).modes, positive_integer("heads", heads), positive_integer("rank", rank)
    learned = tuple(sorted(modes.indices(directions)))
    if not set(learned) <= set(modes.learnable) or len(learned) > H * R:
        raise ValueError(f"directions must be at most {H * R} different integers of {modes.learnable}, got {directions!r}")
    levels = {d: float(modes.levels[d]) for d in learned}
    v, k, q = np.zeros(H), *np.zeros((2, H, R, task.dimension))
    filling = sorted(learned, key=lambda d: -levels[d])
    for head, start in enumerate(range(0, len(filling), R)):
        group = filling[start : start + R]
        v[head] = sum(levels[d] for d in group) ** (1 / 3)
        for slot, d in enumerate(group):
            k[head, slot] = np.sqrt(levels[d] / v[head]) * modes.keys[:, d]
            q[head, slot] = np.sqrt(levels[d] / v[head]) * modes.queries[:, d]
    return FixedPoint(task, SeparateWeights(v, k, q), learned)


def separate_fixed_points(task: RegressionTask, *, heads: int, rank: int = 1) -> Iterator[FixedPoint]:
    """Every fixed function of separate attention in the order of ``fixed_point_sets``, at weights of minimal norm."""
    for directions in fixed_point_sets(task, heads=heads, rank=rank):
        yield separate_fixed_point(task, directions, heads=heads, rank=rank)


def index_at_minimal_norm(task: RegressionTask, directions: Sequence[int], *, rank: int = 1) -> int:
    r"""The number of negative Hessian eigenvalues that T2 predicts at minimal norm: :math:`(n - m)(D - m)` plus the pairs
    :math:`j \in S, d \notin S` with :math:`\lambda_d > \lambda_j` (in a varied task, with the larger drop); n slots belong to heads
    with v != 0.

    Raises ``ValueError`` for equal eigenvalues, in a varied task equal drops, which the theorem excludes.
    """
    if has_equal_eigenvalues(any_task(task)):
        what = f"drops, got {task.modes.drops}" if task.variations else f"eigenvalues, got {task.eigenvalues}"
        raise ValueError(f"task must have distinct {what}")
    R, m = positive_integer("rank", rank), len(directions)
    slots = R * -(-m // R)
    values, others = task.modes.drops, [d for d in task.modes.learnable if d not in set(directions)]
    inverted = sum(int(values[d] > values[j]) for j in directions for d in others)
    return (slots - m) * len(others) + inverted


def merged_fixed_points(task: RegressionTask, *, heads: int) -> tuple[FixedPoint, FixedPoint]:
    r"""The two fixed functions of merged attention (14): zero, at zero weights, and the global minimum (16), in one balanced head."""
    D, H = any_task(task).dimension, positive_integer("heads", heads)
    zero = MergedWeights(np.zeros(H), np.zeros((H, D, D)))
    B = task.modes.effective_map()
    v, U = np.zeros(H), np.zeros((H, D, D))
    v[0] = np.sqrt(np.linalg.norm(B))
    U[0] = B / v[0]
    return FixedPoint(task, zero, None), FixedPoint(task, MergedWeights(v, U), None)


@dataclass(frozen=True)
class Search:
    """The result of a search: how many starts converged, how many to each set S, and the largest distance of a root from the list.

    The distance is that of :math:`(a_d/\\lambda_d)B` (``task.modes.coordinates``) from the nearest diagonal matrix of zeros and ones,
    entry by entry.
    """

    starts: int
    converged: int
    found: dict[tuple[int, ...], int]
    distance: float


def search_fixed_points(task: RegressionTask, *, heads: int, rank: int = 1, starts: int, rng: np.random.Generator) -> Search:
    """Solve for zero velocity from Gaussian weights of scale 2 (36) and compare every root with the list.

    A start counts as converged when the largest velocity is below 1e-12.
    """
    loss, rng, starts = QuadraticLoss.population(any_task(task)), generator("rng", rng), positive_integer("starts", starts)
    found: Counter[tuple[int, ...]] = Counter()
    distance = 0.0
    for _ in range(starts):
        start = SeparateWeights.initialize(task, heads=heads, rank=rank, scale=2.0, rng=rng, allow_deficient=True)
        root = _root(loss, start)
        if np.abs(vector_field(loss, start)(0.0, root)).max() > 1e-12:
            continue
        B = start.unflatten(root).effective_map()
        scaled = task.modes.coordinates(B)
        learned = np.diag(scaled) > 0.5
        found[tuple(int(d) for d in np.flatnonzero(learned))] += 1
        distance = max(distance, float(np.abs(scaled - np.diag(learned)).max()))
    return Search(starts, sum(found.values()), dict(sorted(found.items())), distance)


def _root(loss: QuadraticLoss, start: Parametrization) -> np.ndarray:
    field, slopes = vector_field(loss, start), field_jacobian(loss, start)
    tolerances: Any = dict.fromkeys(("xtol", "ftol", "gtol"), 1e-15)
    return leastsq(lambda x: field(0.0, x), start.flatten(), Dfun=lambda x: slopes(0.0, x), full_output=True, maxfev=300, **tolerances)[0]
