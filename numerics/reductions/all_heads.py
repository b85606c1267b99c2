r"""All heads together, (19), with the interactions that the theory of waiting heads leaves out: bounds on its drop times.

The bounds hold the theory's time and that of the flow of all heads, and are moved outwards by as much as the flow's drops until then move
with a tolerance ten times coarser, and by that tolerance at least. A tie between two heads, which small errors decide, moves them much.
With equal eigenvalues and weights of 1e-16 and below rounding turns what is learned until the next head comes; its drop has no bound.
"""

from collections.abc import Callable
from contextlib import suppress

import numpy as np
from jaxtyping import Float
from scipy.optimize import brentq

from ..dynamics.flow import above_rounding, velocity
from ..dynamics.solver import FlowError, Work, steps
from ..parametrizations.attention import SeparateWeights
from ..parametrizations.base import field_jacobian
from ..tasks.losses import QuadraticLoss
from ..tasks.regression import RegressionTask

RTOLS = (1e-5, 1e-4)
LONGEST = 1e3  # times the last drop in theory, until which all heads are followed
STEPS = 5_000  # from one drop to the next: with more, the flow would follow rounding


def bounds_of_drops(task: RegressionTask, weights: SeparateWeights, drops: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n 2"]:
    """The earliest and latest t/tau of each drop: of ``drops``, and of the loss halfway between the two levels of (24) beside it.

    The latest time is infinite if the flow takes more than ``STEPS`` to it from the last. A level above the initial loss is passed at 0.
    """
    if not len(drops):
        return np.empty((0, 2))
    levels = task.loss_moments.c - np.cumsum([0.0, *np.sort(task.modes.drops)[::-1][: len(drops)]])
    fine, coarse = (
        _crossings(QuadraticLoss.population(task), weights, levels, LONGEST * float(np.abs(drops).max()), rtol) for rtol in RTOLS
    )
    reached, times = np.isfinite(fine + coarse), np.array([drops, fine, coarse])
    error = np.subtract(fine, coarse, out=np.full(len(drops), np.inf), where=reached)
    error = np.maximum.accumulate(np.maximum(np.abs(error), RTOLS[1] * drops))
    return np.maximum(np.stack([times.min(axis=0) - error, times.max(axis=0) + error], axis=1), 0.0)


def _crossings(loss: QuadraticLoss, weights: SeparateWeights, levels: np.ndarray, end: float, rtol: float) -> np.ndarray:
    """When the loss of the flow last falls below the mean of each two levels: 0 if it starts there, infinite if it does not by ``end``."""
    means, state = (levels[1:] + levels[:-1]) / 2, weights.flatten()

    def heights(states: list[np.ndarray]) -> np.ndarray:
        return loss.values(weights.combine_many(*weights.split(np.array(states))))

    tolerance = above_rounding(rtol * float(np.sqrt(np.mean(state**2))), weights)
    field, jacobian = velocity(loss, weights, end, rtol), field_jacobian(loss, weights)
    flow = steps(field, state, end, Work(), method="LSODA", rtol=rtol, atol=tolerance, jacobian=jacobian)
    (before,), taken = heights([state]), 0
    times = np.where(means < before, np.inf, 0.0)
    with suppress(FlowError):  # what it does not come to stays infinite
        for made in flow:
            taken += len(made)
            for step, now in zip(made, heights([step.state for step in made]), strict=True):
                for m in np.flatnonzero((now <= means) & (means < before)):
                    times[m] = step.clock + _root(lambda t, m=m, one=step: heights([one.segment(t)])[0] - means[m], step.start, step.end)
                    taken = 0
                before = now
                if now < means[-1] or taken > STEPS:
                    return times
    return times


def _root(excess: Callable[[float], float], start: float, end: float) -> float:
    """Where ``excess`` falls to 0 within a step: at one of its ends if only the interpolant's error says otherwise."""
    if excess(start) <= 0:
        return start
    return end if excess(end) > 0 else float(brentq(excess, start, end))  # type: ignore[arg-type]
