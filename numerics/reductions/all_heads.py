r"""All heads together, (19), with the interactions that the theory of waiting heads leaves out: bounds on its drop times.

The bounds hold the theory's time and that of the flow of all heads, and are moved outwards by as much as the flow's drops until then move
with a tolerance ten times coarser, and by that tolerance at least. A tie between two heads, which small errors decide, moves them much.
"""

import warnings

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from ..parametrizations.attention import SeparateWeights
from ..parametrizations.base import field_jacobian, vector_field
from ..tasks.losses import QuadraticLoss
from ..tasks.regression import RegressionTask

__all__ = ["bounds_of_drops"]

RTOLS = (1e-5, 1e-4)
LONGEST = 1e3  # times the last drop in theory, until which all heads are followed


def bounds_of_drops(task: RegressionTask, weights: SeparateWeights, drops: Float[np.ndarray, " n"]) -> Float[np.ndarray, "n 2"]:
    """The earliest and latest t/tau of each drop: of ``drops``, and of the loss halfway between the two levels of (24) beside it.

    The latest time is infinite if the flow does not come that far. A level above the initial loss is passed at 0.
    """
    if not len(drops):
        return np.empty((0, 2))
    levels = task.loss_moments.c - np.cumsum([0.0, *np.sort(task.modes.drops)[::-1][: len(drops)]])
    fine, coarse = (_crossings(QuadraticLoss.population(task), weights, levels, LONGEST * float(drops.max()), rtol) for rtol in RTOLS)
    reached, times = np.isfinite(fine + coarse), np.array([drops, fine, coarse])
    error = np.subtract(fine, coarse, out=np.full(len(drops), np.inf), where=reached)
    error = np.maximum.accumulate(np.maximum(np.abs(error), RTOLS[1] * drops))
    return np.maximum(np.stack([times.min(axis=0) - error, times.max(axis=0) + error], axis=1), 0.0)


def _crossings(loss: QuadraticLoss, weights: SeparateWeights, levels: np.ndarray, end: float, rtol: float) -> np.ndarray:
    """When the loss of the flow falls below the mean of each two levels: 0 if it starts there, infinite if it does not by ``end``."""
    start, means = weights.flatten(), (levels[1:] + levels[:-1]) / 2

    def height(_t: float, state: np.ndarray, level: float = levels[-1] + 0.4 * (levels[-2] - levels[-1])) -> float:
        return loss.value(weights.combine(*weights.split(state))) - level

    height.terminal = True  # type: ignore[attr-defined]
    with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):  # of a solver that gives up: times stay infinite then
        run = solve_ivp(
            vector_field(loss, weights), (0, end), start, method="LSODA", jac=field_jacobian(loss, weights), rtol=rtol,
            atol=rtol * float(np.sqrt(np.mean(start**2))), dense_output=True, events=height,
        )  # fmt: skip
    below = np.array([height(0.0, state, 0.0) for state in run.y.T])[:, None] <= means
    after = np.where(below.any(axis=0), below.argmax(axis=0), -1)
    times = np.where(after < 0, np.inf, 0.0)
    for m in np.flatnonzero(after > 0):
        bracket = run.t[after[m] - 1 : after[m] + 1]
        times[m] = brentq(lambda t, m=m: height(t, run.sol(t), means[m]), *bracket)  # type: ignore[call-overload]
    return times
