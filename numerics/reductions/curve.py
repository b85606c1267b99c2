r"""The whole loss curve from the initial weights alone, and how far it can be off.

From small weights separate attention (S) learns in stages. Waiting heads move independently under the force of the directions not yet
learned (69). The first to escape learns the leading direction by the scalar flow (26), started by its escape time; after this drop the
others no longer feel that direction. Leading errors are of the order of the initial scale; two heads near a tie, or two rates, learn
together, and the theory may be far off. Each drop time therefore has bounds, for which all heads are followed together.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np
from jaxtyping import Float

from .._checks import finite_array, instance, one_of, positive_number
from ..dynamics.results import Result, Variable, time_variable
from ..parametrizations.attention import SeparateWeights
from ..tasks.regression import SPECTRAL, RegressionTask, paper_task
from .all_heads import bounds_of_drops
from .head_drops import Drop, filled_by, out_of_turn
from .scalar import ScalarReduction
from .waiting_head import WaitingHead

Route = Literal["quadrature", "flow"]
HALF = 0.5  # of the final value: a component of the map that starts beyond it has no drop
EQUAL = 1e-9  # rates of growth that agree to this fraction count as equal
TOGETHER = 250  # starts whose heads wait side by side, which bounds memory
DOUBT = 0.05  # a drop is in doubt if its latest time is later than its earliest by more than this fraction


@dataclass(frozen=True, eq=False, repr=False)
class CurvePrediction(Result):
    """The drops of a run, in the order in which heads make them, its loss curve, and bounds on the drop times.

    ``steps`` counts time in units of ``tau``. ``neglected`` holds the largest share of the map that the theory leaves out, with words for
    it: at the start, then at each drop. Without drops, as from weights of zero, the loss never leaves its initial value.
    """

    steps: tuple[Drop, ...]
    neglected: tuple[tuple[float, str], ...]
    task: RegressionTask
    weights: SeparateWeights
    tau: float
    shown = ("drops", "heads", "initial_loss", "task")

    def variables(self) -> dict[str, Variable]:
        times = np.linspace(0, 1.3 * max(self.drops, default=1.0), 1000)
        return {
            "time": time_variable(times, self.tau),
            "loss": Variable(("time",), self.loss(times), "predicted loss L", "loss"),
            "effective_map": Variable(("time", "map_1", "map_2"), self.effective_map(times), "predicted effective map B", "map"),
            "drops": Variable(("drop",), self.drops, "time at which the drop is half done", units="tau"),
            "drop_bounds": Variable(("drop", "bound"), self.drop_bounds, "earliest and latest time of the drop", units="tau"),
            "heads": Variable(("drop",), self.heads, "head that learns"),
            "directions": Variable(("component", "drop"), self.directions, "unit vector learned"),
        }

    def attributes(self) -> dict[str, object]:
        return {"tau": self.tau}

    def levels_shown(self) -> Iterable[float]:
        return self.initial_loss + np.cumsum([0.0, *(float(drop.reduction.loss_drop(1.0)) for drop in self.steps)])

    @property
    def initial_loss(self) -> float:
        return self.task.loss_moments.c

    @property
    def drops(self) -> Float[np.ndarray, " n"]:
        """The time of each drop, at which the component of B along its direction is half of its final value."""
        return self.tau * np.array([drop.time for drop in self.steps])

    @cached_property
    def drop_bounds(self) -> Float[np.ndarray, "n 2"]:
        """The earliest and the latest time of each drop, infinite without a finite bound; see :mod:`.all_heads`.

        They hold for ``drops`` and for the time at which the flow's loss passes the mean of the two levels of (24) beside the drop.
        """
        return self.tau * bounds_of_drops(self.task, self.weights, self.drops / self.tau)

    @cached_property
    def doubts(self) -> tuple[str, ...]:
        """In words, a line for each drop with bounds more than 5 % apart: the bounds, and the most that the theory leaves out until then.

        Drops, heads and directions are counted from 1.
        """
        doubts = [] if self.steps else ["no head ever leaves: the loss stays at its initial value"]
        for m, (earliest, latest) in enumerate(self.drop_bounds):
            if latest > (1 + DOUBT) * earliest:
                doubts.append(f"drop {m + 1} lies between {earliest:.4g} and {latest:.4g}: {max(self.neglected[: m + 2])[1]}")
        return tuple(doubts)

    @property
    def directions(self) -> Float[np.ndarray, "D n"]:
        """The unit vectors learned, as columns."""
        return np.array([drop.direction for drop in self.steps]).reshape(-1, self.task.dimension).T

    @property
    def heads(self) -> tuple[int, ...]:
        """The head that learns each direction."""
        return tuple(drop.head for drop in self.steps)

    def fractions(self, times: Float[np.ndarray, " T"]) -> Float[np.ndarray, "T n"]:
        """The component of B along each direction, over its final value."""
        times = finite_array("times", times) / self.tau
        return np.moveaxis(np.array([drop.fraction(times) for drop in self.steps]).reshape(len(self.steps), *times.shape), 0, -1)

    def loss(self, times: Float[np.ndarray, " T"]) -> Float[np.ndarray, " T"]:
        """The predicted loss."""
        fractions = self.fractions(times)
        loss = np.full(fractions.shape[:-1], self.initial_loss)
        for drop, fraction in zip(self.steps, np.moveaxis(fractions, -1, 0), strict=True):
            loss += drop.reduction.loss_drop(np.cbrt(fraction))
        return loss

    def effective_map(self, times: Float[np.ndarray, " T"]) -> Float[np.ndarray, "T D D"]:
        """The predicted B."""
        levels = np.array([drop.reduction.fixed_point**3 for drop in self.steps])
        return np.einsum("dn,...n,en->...de", self.directions, self.fractions(times) * levels, self.directions)


@overload
def predict_curve(task: RegressionTask, weights: SeparateWeights, *, tau: float = ..., route: Route = ...) -> CurvePrediction: ...
@overload
def predict_curve(
    task: RegressionTask, weights: Sequence[SeparateWeights], *, tau: float = ..., route: Route = ...
) -> tuple[CurvePrediction, ...]: ...


def predict_curve(task: RegressionTask, weights: Any, *, tau: float = 1.0, route: Route = "quadrature") -> Any:
    r"""Predict every drop of a run of separate attention from its initial weights, or of one from each, with bounds on its time.

    ``route`` is how waiting heads move from one stage to the next: ``"quadrature"`` inverts the exact time integral (T5), ``"flow"``
    integrates each head's cubic flow. With fewer slots than directions there are as many drops as slots. For ranks above 1 a head is
    taken to fill its slots before the next one escapes; this holds for small weights, whose plateaus inside a head last as the
    logarithm of the inverse scale, the others as the inverse scale.

    ``drop_bounds`` of the result says how far each time may be off, and ``doubts`` why; both follow all heads together when first asked
    for, which takes about as long as ``gradient_flow``.

    Raises ``ValueError`` for weights whose effective map starts beyond half of its final value, which no drop then passes; for weights of
    rank above 1 so large that a head leaves before another has filled its slots; and for a varied task in which no direction flows alone,
    or whose growths and drops are not in one order (ties included): heads then turn (V2-rotation), see
    :func:`~iclflow.numerics.landscape.learning_order.order_of_learning`.

    Eigenvalues that agree to 1e-9 count as equal: the head then learns the direction of its own weights in their eigenspace. Close
    eigenvalues are told apart if :math:`(\lambda_i^2 - \lambda_j^2)/\lambda_i^2 \cdot \ln(1/w_{\rm init})` is large.
    """
    _in_order(paper_task(task, allow=SPECTRAL | {"task_covariance", "task_vectors", "query_covariance", "context_gain"}))
    tau = positive_number("tau", tau)
    route = one_of("route", route, ("quadrature", "flow"))
    several = isinstance(weights, Sequence) and not isinstance(weights, str | bytes)
    alike: dict[Any, list[int]] = {}
    starts: list[Any] = list(weights) if several else [weights]
    for i, start in enumerate(starts):
        if task.dimension != (D := instance("weights", start, SeparateWeights, "SeparateWeights, or a list of them").k.shape[-1]):
            raise ValueError(f"weights must have the task's dimension {task.dimension}, got {D}")
        alike.setdefault(start.k.shape, []).append(i)
    found: dict[int, CurvePrediction] = {}
    for numbers in (same[i : i + TOGETHER] for same in alike.values() for i in range(0, len(same), TOGETHER)):
        runs = zip(*_together(task, [starts[i] for i in numbers], route), strict=True)
        found |= {i: CurvePrediction(*run, task, starts[i], tau) for i, run in zip(numbers, runs, strict=True)}
    return tuple(found[i] for i in range(len(starts))) if several else found[0]


def _together(
    task: RegressionTask, starts: Sequence[SeparateWeights], route: Route
) -> tuple[list[tuple[Drop, ...]], list[tuple[tuple[float, str], ...]]]:
    """The drops of each start, and what they neglect; the heads of all starts wait side by side."""
    reductions = {d: ScalarReduction.of(task, d) for d in task.modes.learnable}
    v, k, q = (np.stack(parts) for parts in zip(*(start.arrays for start in starts), strict=True))
    with np.errstate(over="ignore", invalid="ignore"):
        maps = SeparateWeights.combine_many(v, k, q)
    begun = np.abs(task.modes.coordinates(maps)).max(axis=(-2, -1)) if np.isfinite(maps).all() else np.array([np.inf])
    if (begun > HALF).any():
        raise ValueError(f"weights must be small: their effective map must be below {HALF} of its final value, got {begun.max():.3g}")
    move: Callable[[WaitingHead, np.ndarray], WaitingHead] = WaitingHead.after if route == "quadrature" else WaitingHead.flow
    bases, now = np.repeat(task.modes.keys[None], len(starts), axis=0), np.zeros(len(starts))
    rates = np.array([reductions[d].eigenvalue if d in reductions else 0.0 for d in range(task.dimension)])
    tied = (np.abs(rates[:, None] - rates) <= EQUAL * rates).sum() > len(rates)
    frequencies = np.broadcast_to(rates, (*v.shape, len(rates))).copy()  # 0 for directions that are learned, and for heads that have left
    heads = WaitingHead(v, k @ bases[0], q @ bases[0], frequencies)
    steps: list[list[Drop]] = [[] for _ in starts]
    neglected = [[(float(share), f"the initial map is {share:.1%} of its final value")] for share in begun]
    while (going := np.isfinite(waits := heads.escape_time()).any(axis=1)).any():
        winners, growing, made = waits.argmin(axis=1), heads.growing, {}
        rotations = np.broadcast_to(np.eye(len(rates)), bases.shape).copy()
        for i in map(int, np.flatnonzero(going)):
            place = i, int(winners[i])
            if tied:
                rotations[i] = _principal_axes(growing[place], frequencies[place])
                bases[i] = bases[i] @ rotations[i]
            head = WaitingHead(heads.v[place], heads.k[place] @ rotations[i], heads.q[place] @ rotations[i], frequencies[place])
            made[i] = filled_by(head, now[i], now[i] + waits[place], place[1], bases[i], reductions)
            steps[i] += made[i]
            neglected[i] += [_neglected(growing[place] @ rotations[i], frequencies[place], place[1], made[i][0], waits[i])] * len(made[i])
        leaving = going[:, None] & (np.arange(v.shape[1]) == winners[:, None])
        for j in range(max(map(len, made.values()))):
            switches = np.array([max(made[i][j].switch, now[i]) if j < len(made.get(i, ())) else now[i] for i in range(len(starts))])
            left = heads.escape_time() if j else waits
            if (early := going[:, None] & ~leaving & ((switches - now)[:, None] >= left)).any():
                raise out_of_turn(int(early.any(axis=0).argmax()))
            heads, now = move(heads, np.where(leaving, 0.0, (switches - now)[:, None])), switches
            if j == 0:
                heads = replace(heads, k=heads.k @ rotations[:, None], q=heads.q @ rotations[:, None])
            for i, drops in made.items():
                frequencies[i, :, drops[j].component if j < len(drops) else []] = 0
            frequencies[leaving] = 0
            heads = replace(heads, frequencies=frequencies)
    return [tuple(one) for one in steps], [tuple(one) for one in neglected]


def _neglected(growing: np.ndarray, frequencies: np.ndarray, winner: int, drop: Drop, waits: Float[np.ndarray, " H"]) -> tuple[float, str]:
    """What else grows during a drop, over what is learned, with words: the next head, or another direction of the same one.

    A head that would escape at t* has v = 1/(lambda^2 (t* - t)); components grow by (63) until that along the drop has its final size.
    """
    unit, end, c = drop.reduction.time_unit, drop.reduction.fixed_point, drop.component
    others = unit / (unit + (waits - waits[winner]))
    others[winner] = 0
    found = [(float(others.max()), f"head {others.argmax() + 1} has grown to {{:.0%}} of head {winner + 1}, which learns")]
    sizes = np.abs(growing[0])
    if len(growing) == 1 and sizes[c] > 0:
        powers = (frequencies / frequencies[c]) ** 2
        grown = np.where((powers > 0) & (np.arange(len(sizes)) != c), sizes * (end / sizes[c]) ** powers / end, 0.0)
        other = int(grown.argmax())
        found.append((min(float(grown[other]), 1.0), f"head {winner + 1} has {{:.0%}} of its size along e{other + 1} as it learns"))
    share, words = max(found)
    return share, f"{words.format(share)} e{c + 1}" if share else ""


def _in_order(task: RegressionTask) -> None:
    """Raise ``ValueError`` unless larger growth comes with a larger drop, and equal growth with equal drops."""
    growth, drops = task.modes.growth, task.modes.drops
    if growth is None:
        raise ValueError(f"task must have covariances that commute, and a token law whose fourth moment commutes with them, got {task!r}")
    rates = np.sqrt(growth)
    apart = rates[:, None] - rates
    alike = np.abs(apart) <= EQUAL * rates
    more = drops[:, None] - drops
    if np.any(np.where(alike, np.abs(more) > 10 * EQUAL * drops, (apart > 0) & (more <= 0))):
        raise ValueError(f"task must have growth rates and drops in one order, got {growth} and {drops}")


def _principal_axes(growing: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """A rotation within each set of equal frequencies that makes the direction learned by the head the first of the set."""
    rotation = np.eye(len(frequencies))
    left = {int(d) for d in np.flatnonzero(frequencies)}
    while left:
        first = min(left)
        alike = sorted(d for d in left if abs(frequencies[d] - frequencies[first]) <= EQUAL * frequencies[first])
        left -= set(alike)
        if len(alike) > 1:
            rotation[np.ix_(alike, alike)] = np.linalg.svd(growing[:, alike])[2].T
    return rotation
