r"""Runs from large initial weights: they may end before anything is learned, or need more digits than float64 has.

Along the flow (10) the loss falls at the rate :math:`2\tau|\dot W|^2`. So within a time t the weights move by at most

.. math::
    \int|\dot W|\,dt \le \sqrt{\frac t{\tau}\int\tau|\dot W|^2\,dt} = \sqrt{\frac t{2\tau}\,\bigl(L_\text{before} - L_\text{after}\bigr)}.

From weights of size S the loss first falls below c, the loss of zero weights, while the weights keep their size (up to terms of order 1).
They cannot turn before t/tau is of order S^2/c: until then small changes of the weights are fitted by least squares, and the loss is not at
a minimum. B, of order 1, is then a product of numbers of order S and 1/S^2, whose rates lie powers of S apart: beyond S of about 10^5 a
solver may lose B, and the loss rises, which it cannot do along the flow.
"""

import warnings

import numpy as np

from .solver import FlowError
from .trajectory import Trajectory

LARGE = 1e3  # weights are large if their initial loss exceeds this, in units of c
TURNED = 0.5  # weights may have turned if they could move by this fraction of their size
AT_REST = 1e-6  # largest force G at rest, in units of A
RISE = 1e-2  # tolerated rise of the loss, in units of c


class LargeWeightsWarning(UserWarning):
    """A run from large weights ended before they could turn, or is inexact."""


def check_large_weights(run: Trajectory) -> None:
    """Raise ``FlowError`` if a run from large weights ends with a loss that has risen; warn if it is inexact or ended too early."""
    loss = run.objective
    if not loss.value(run.initial.effective_map()) > LARGE * loss.c:
        return
    size, values = float(np.linalg.norm(run.initial.flatten())), run.loss
    fallen = np.flatnonzero(values < loss.c)
    if not fallen.size:
        return
    rise = (values - np.minimum.accumulate(values))[fallen[0] :]
    if rise[-1] > RISE * loss.c:
        raise FlowError(
            f"the loss rises by {rise[-1]:.2g}, which it cannot along the flow: initial weights of norm {size:.2g} are too large for "
            "float64; take smaller ones",
            float(run.times[values.argmin()]),
        )
    problems = []
    if rise.max() > RISE * loss.c:
        problems.append(f"on the way the loss is known only to {rise.max():.1g}")
    if (problem := _frozen(run)) is not None:
        problems.append(problem)
    if problems:
        warnings.warn(
            f"initial weights of norm {size:.2g} are large: {'; '.join(problems)}. Take smaller ones", LargeWeightsWarning, stacklevel=3
        )


def _frozen(run: Trajectory) -> str | None:
    """The warning for a run that ends below c before the weights could turn, and not at rest; None for another run."""
    loss, value = run.objective, float(run.loss[-1])
    size, elapsed = float(np.linalg.norm(run.states[-1])), float(run.times[-1] / run.tau)
    share = float(np.sqrt(elapsed * loss.c / 2)) / size
    force = np.abs(loss.gradient(run.effective_maps[-1])).max() / 2
    at_rest = force <= AT_REST * np.abs(loss.A).max()
    if run.statistics.stopped != "t_end" or share > TURNED or value > loss.c or at_rest:
        return None
    return (
        f"until t/tau = {elapsed:.3g} the flow moves them by less than {share:.1g} of their norm, so the loss, {value:.6g}, "
        f"is not yet a minimum; learning takes t/tau of about {2 * size**2 / loss.c:.0e}"
    )
