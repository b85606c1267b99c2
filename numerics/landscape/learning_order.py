r"""The order in which rank-one separate attention learns the directions of any task, for vanishing initial weights (V2-sequence).

Heads escape one after the other, each along the unlearned direction of largest growth. If another unlearned direction has a larger
drop, the head rests at a saddle: its component along that one, :math:`w^{1 - g_j/g_d}` after the wait for initial weights of size w
and growths g, grows at the rate :math:`\rho` of the saddle's unstable mode (V2-rotation), and the head turns after

.. math:: \frac{1 - g_j/g_d}{\rho}\,\tau\ln\frac1w,

before the next head escapes, which takes a time of order 1/w. So every head ends in the largest drop that is left.

In the modes of the task the loss is a sum over directions, which are coupled only if :math:`\hat k_d` or :math:`\hat q_d` are not
orthogonal. Coupled directions form a block. A head has components of order one along all of its block, and only the largest drop of a
block is a stable rest: within a block the head turns while it drops, between blocks it rests first. If covariances commute, each block
is one direction; otherwise the task is in general one block.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy.sparse.csgraph import connected_components

from ...theory.results.landscape.learning_order import A_d, A_j, lag_i, lag_j, rho_i, rho_j
from .._checks import positive_integer
from ..compilation.equations import compiled
from ..parametrizations.attention import SeparateWeights
from ..tasks.losses import QuadraticLoss, TwoSided
from ..tasks.regression import RegressionTask, any_task

COUPLED = 1e-9  # directions with a smaller cosine of their angle count as orthogonal
EQUAL = 1e-9  # rates and growths that agree to this fraction count as equal


@dataclass(frozen=True)
class Visit:
    """A set of learned directions at which the loss rests, as indices into ``task.modes``, and its loss.

    ``turned`` tells whether a turning head led to it. If a head will turn away, ``rate`` (in units of 1/tau) is that of its growing
    component, which on arrival is of order w^``lag`` for initial weights of size w. Otherwise the rate is 0 and the lag infinite: the
    next head is still waiting, or nothing is left.
    """

    directions: tuple[int, ...]
    loss: float
    turned: bool
    lag: float = np.inf
    rate: float = 0.0

    @property
    def rest(self) -> float:
        """The time until the head turns, in units of tau ln(1/w); infinite if it does not."""
        return self.lag / self.rate if self.rate else np.inf


def order_of_learning(task: RegressionTask, *, heads: int | None = None) -> tuple[Visit, ...]:
    """The sets of directions visited one after the other by ``heads`` heads of rank one, by default one for each direction.

    This is the limit of small initial weights. At a finite scale a rest is short, or missed, if its ``lag`` times ln(1/w) is not well
    above 1, as for growths that are close; the initial weights may then also change the order. Covariances that nearly commute are one
    block, in which a head still rests, for a time that grows as the logarithm of the inverse commutator.

    Raises ``ValueError`` for a number of heads below 1, ``TypeError`` unless ``task`` is a ``RegressionTask``.

    >>> task = RegressionTask(eigenvalues=[1.0, 0.5], task_covariance=np.diag([0.3, 0.8]), context_length=20)
    >>> [(visit.directions, visit.turned) for visit in order_of_learning(task)]  # learn the first, turn, and learn it again
    [((), False), ((0,), False), ((1,), True), ((0, 1), False)]
    """
    most = len(any_task(task).modes.learnable)
    count = most if heads is None else min(positive_integer("heads", heads), most)
    blocks, learned, visits = _Blocks(task), (), [Visit((), task.loss_moments.c, False)]
    for _ in range(count):
        made, learned = _one_head(blocks, learned)
        visits += made
    return tuple(visits)


def _one_head(blocks: "_Blocks", learned: tuple[int, ...]) -> tuple[list[Visit], tuple[int, ...]]:
    """The rests of the head that escapes next, and the directions learned at its last one."""
    growth = blocks.growth(learned)
    first = max(growth, key=growth.__getitem__)
    # The exponent of a component on arrival at a rest, and its exponent when another component has ended the rest
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
        """The unlearned directions of each block, without empty blocks."""
        rest = [d for d in self.task.modes.learnable if d not in learned]
        return {int(b): [d for d in rest if self.of[d] == b] for b in sorted({self.of[d] for d in rest})}

    def best(self, block: int, learned: tuple[int, ...]) -> int:
        return max(self.left(learned)[block], key=lambda d: self.task.modes.drops[d])

    def visit(self, learned: tuple[int, ...], turned: bool, lag: float = np.inf, rate: float = 0.0) -> Visit:
        drops = self.task.modes.drops[list(learned)]
        return Visit(tuple(sorted(learned)), float(self.task.loss_moments.c - drops.sum()), turned, lag, rate)

    def force(self, learned: tuple[int, ...]) -> QuadraticLoss:
        """The loss of one head beside others that hold the learned B_S: A - M B_S Q takes the place of A."""
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
