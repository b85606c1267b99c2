r"""The order in which separate attention of rank one learns the directions of any task, from weights that vanish (V2-sequence).

One head after the other escapes, each along the unlearned direction with the largest growth. It rests at a saddle as long as another
unlearned direction pays more: components along that one are left over from the wait, :math:`w^{1 - g_j/g_d}` for initial weights of
size w and growths g, and grow at the rate :math:`\rho` of the saddle's unstable mode (V2-rotation), so that the head turns after

.. math:: \frac{1 - g_j/g_d}{\rho}\,\tau\ln\frac1w,

before the next head escapes, which takes a time of order 1/w. So every head ends in the largest drop that is left, whatever it began with.

In the modes of the task the loss is a sum over directions; what couples them is the metric alone, where :math:`\hat k_d` or
:math:`\hat q_d` are not orthogonal. Directions coupled in this way form a block. A head has components of order one along all of its block,
and of these only the largest drop is a stable rest: inside a block it turns while it drops, between blocks it rests first. Where
covariances commute each block is one direction; where they do not, the task in general is one block.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy.sparse.csgraph import connected_components

from ...theory.results.landscape.any_quadratic_loss import A_d, A_j
from ...theory.results.variations.learning_order import lag_i, lag_j, rho_i, rho_j
from .._checks import positive_integer
from ..compilation.equations import compiled
from ..parametrizations.attention import SeparateWeights
from ..tasks.losses import QuadraticLoss, TwoSided
from ..tasks.regression import RegressionTask

__all__ = ["Visit", "order_of_learning"]

COUPLED = 1e-9  # cosine of the angle between directions; below they count as orthogonal
EQUAL = 1e-9  # rates and growths that agree to this fraction count as equal


@dataclass(frozen=True)
class Visit:
    """A set of learned directions at which the loss rests, as indices into ``task.modes``, and its loss.

    ``turned`` tells whether it was reached by a head that turned. Where a head will turn away, ``rate`` (in units of 1/tau) is that of
    the growing component, and ``lag`` its exponent on arrival: it is of the order w^lag for initial weights of size w. Where none
    will, the rate is 0 and the lag infinite: the next head is waited for, or nothing is left.
    """

    directions: tuple[int, ...]
    loss: float
    turned: bool
    lag: float = np.inf
    rate: float = 0.0

    @property
    def rest(self) -> float:
        """The time until the head turns, over tau ln(1/w); infinite where it does not."""
        return self.lag / self.rate if self.rate else np.inf


def order_of_learning(task: RegressionTask, *, heads: int | None = None) -> tuple[Visit, ...]:
    """The sets of directions that are visited one after the other, by ``heads`` heads of rank one, by default one for each direction.

    This is the limit of small initial weights. At a finite scale a rest is short, or missed, where its ``lag`` times ln(1/w) is not well
    above 1, as for growths that are close; initial weights may also choose among these. Covariances that nearly
    commute are one block, in which a head rests nevertheless, for a time that grows as the logarithm of the commutator.

    Raises ``ValueError`` for a number of heads below 1, ``TypeError`` for what is not a ``RegressionTask``.

    >>> task = RegressionTask(eigenvalues=[1.0, 0.5], task_covariance=np.diag([0.3, 0.8]), context_length=20)
    >>> [(visit.directions, visit.turned) for visit in order_of_learning(task)]  # learn the first, turn, and learn it again
    [((), False), ((0,), False), ((1,), True), ((0, 1), False)]
    """
    if not isinstance(task, RegressionTask):
        raise TypeError(f"task must be a RegressionTask, got {task!r}")
    count = task.dimension if heads is None else min(positive_integer("heads", heads), task.dimension)
    blocks, learned, visits = _Blocks(task), (), [Visit((), task.loss_moments.c, False)]
    for _ in range(count):
        made, learned = _one_head(blocks, learned)
        visits += made
    return tuple(visits)


def _one_head(blocks: "_Blocks", learned: tuple[int, ...]) -> tuple[list[Visit], tuple[int, ...]]:
    """The rests of the head that escapes next, and what is learned when it rests for good."""
    growth = blocks.growth(learned)
    first = max(growth, key=growth.__getitem__)
    # The exponent with which a component arrives at a rest, and that which it has when another has ended the rest
    arrival = compiled("V2-sequence", (A_j, A_d), part="lag")
    later = compiled("V2-sequence", (lag_i, lag_j, rho_i, rho_j), part="next")
    lag = {b: max(0.0, float(arrival(rate, growth[first]))) for b, rate in growth.items()}
    at, turned, visits = blocks.best(first, learned), False, []
    while True:
        rates = blocks.turning_rates(at, learned)
        times = {b: lag[b] / rate for b, rate in rates.items() if rate > 0}
        onward = min(times, key=times.__getitem__, default=None)
        if onward is None:
            return [*visits, blocks.visit((*learned, at), turned)], (*learned, at)
        if lag[onward] > EQUAL:
            visits.append(blocks.visit((*learned, at), turned, lag[onward], rates[onward]))
        lag = {b: max(0.0, float(later(lag[b], lag[onward], rates.get(b, 0.0), rates[onward]))) for b in lag}
        at, turned = blocks.best(onward, learned), bool(visits)


@dataclass(frozen=True, eq=False)
class _Blocks:
    """The directions of a task in blocks, each with an orthonormal basis of its keys and of its queries."""

    task: RegressionTask

    @cached_property
    def of(self) -> Float[np.ndarray, " D"]:
        """The block of each direction."""
        modes = self.task.modes
        coupled = np.maximum(*(np.abs(one.T @ one) for one in (modes.keys, modes.queries))) > COUPLED
        return connected_components(coupled, directed=False)[1]

    @cached_property
    def bases(self) -> list[tuple[np.ndarray, np.ndarray]]:
        modes = self.task.modes
        inside = [self.of == b for b in range(self.of.max() + 1)]
        return [(np.linalg.qr(modes.keys[:, i])[0], np.linalg.qr(modes.queries[:, i])[0]) for i in inside]

    def left(self, learned: tuple[int, ...]) -> dict[int, list[int]]:
        """The unlearned directions of each block that has any."""
        rest = [d for d in range(self.task.dimension) if d not in learned]
        return {int(b): [d for d in rest if self.of[d] == b] for b in sorted({self.of[d] for d in rest})}

    def best(self, block: int, learned: tuple[int, ...]) -> int:
        return max(self.left(learned)[block], key=lambda d: self.task.modes.drops[d])

    def visit(self, learned: tuple[int, ...], turned: bool, lag: float = np.inf, rate: float = 0.0) -> Visit:
        drops = self.task.modes.drops[list(learned)]
        return Visit(tuple(sorted(learned)), float(self.task.loss_moments.c - drops.sum()), turned, lag, rate)

    def force(self, learned: tuple[int, ...]) -> QuadraticLoss:
        """The loss of one head where others hold what is learned: A less M B_S Q for A."""
        A, M, Q, c = self.task.loss_moments
        return QuadraticLoss(A - M @ self.task.modes.effective_map(learned) @ Q, TwoSided(M, Q), c)

    def growth(self, learned: tuple[int, ...]) -> dict[int, float]:
        """The rate tau dv/dt = g v^2 of waiting heads along each block."""
        G = self.force(learned).A
        return {b: float(np.linalg.norm(self.bases[b][0].T @ G @ self.bases[b][1], 2)) for b in self.left(learned)}

    def turning_rates(self, at: int, learned: tuple[int, ...]) -> dict[int, float]:
        """The rate at which a head that rests at one direction turns to each other block: minus the lowest curvature there."""
        modes, D = self.task.modes, self.task.dimension
        v = np.cbrt(modes.levels[at])
        head = SeparateWeights(np.array([v]), v * modes.keys[None, None, :, at], v * modes.queries[None, None, :, at])
        curvature = head.hessian(self.force(learned))
        scale, rates = np.abs(curvature).max(), {}
        for b in self.left(learned):
            if b != self.of[at]:
                U, V = self.bases[b]
                turned = np.zeros((1 + 2 * D, 2 * U.shape[1]))
                turned[1 : 1 + D, : U.shape[1]], turned[1 + D :, U.shape[1] :] = U, V
                rate = -float(np.linalg.eigvalsh(turned.T @ curvature @ turned)[0])
                rates[b] = rate if rate > EQUAL * scale else 0.0
        return rates
