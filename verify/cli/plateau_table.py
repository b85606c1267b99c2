"""One run, or several from the same start, as a table of plateaus beside theory."""

from collections.abc import Iterable, Mapping

import numpy as np

from ...numerics.dynamics.plateaus import Plateaus
from ...numerics.landscape.fixed_points import losses_of_sets
from ...numerics.landscape.learning_order import order_of_learning
from ...numerics.reductions.curve import predict_curve
from ..claims.formulas import plateau_losses
from ..experiments.setting import Setting
from .options import as_options

NEAR = 0.02  # a plateau this close to a level, relative to all that can be learned, lies on it; SGD raises the last by 1.4 %
MOST = 10  # directions whose sets are still listed


def describe(setting: Setting, runs: Mapping[str, Plateaus]) -> str:
    """A row for each plateau: theory's loss (24), then each run's loss there and the time at which the drop after it is half done.

    On a varied task, described in the first line, theory's rows are the sets of directions that heads of rank one visit in the limit
    of small weights, including heads that turn (V2-sequence). Each row ends with its set, numbered from 1 as in ``task.modes``.
    A run may rest at other sets if its weights are not small, its rank is above one or its covariances nearly commute: a star marks
    their rows. Plateaus are matched to theory by their loss, since a run may skip some (rank above one) or not have finished.
    """
    names = [""] * (len(setting.eigenvalues) + 1)
    if setting.variations:
        levels, names = _visited(setting, [level for run in runs.values() for level in run.levels])
    else:
        levels = plateau_losses(setting.task)
    header = f"{'m':>2}  {'theory':>9}" + "".join(f"  {name + ' loss':>10}  {name + ' drop':>10}" for name in runs)
    lines = [header]
    if setting.variations:
        lines = [f"task: {as_options(setting.variations)}; theory: directions in the order in which heads visit them"]
        lines.append(f"{header}  learned")
    for m, (level, name) in enumerate(zip(levels, names, strict=True)):
        row = f"{m:>2}  {level:>9.6f}"
        for found in runs.values():
            nearest = [i for i, x in enumerate(found.levels) if abs(levels - x).argmin() == m]
            loss = f"{found.levels[nearest[-1]]:.6f}" if nearest else "-"
            drop = f"{found.drops[nearest[-1]]:.2f}" if nearest and nearest[-1] < len(found.drops) else "-"
            row += f"  {loss:>10}  {drop:>10}"
        lines.append(f"{row}  {name}" if name else row)
    if any(name.endswith("*") for name in names):
        lines.append("* a plateau from these weights, not in the limit of small ones")
    return "\n".join(lines)


def _visited(setting: Setting, found: Iterable[float]) -> tuple[np.ndarray, list[str]]:
    """The losses of the sets visited and of other sets on which ``found`` lies, largest first, and the names of the sets."""
    task = setting.task
    rows = {visit.directions: (visit.loss, "") for visit in order_of_learning(task)}
    others = losses_of_sets(task) if task.dimension <= MOST else {}
    for level in found:
        if min(abs(loss - level) for loss, _ in rows.values()) > NEAR * task.modes.drops.sum() and others:
            nearest = min(others, key=lambda S: abs(others[S] - level))
            rows.setdefault(nearest, (others[nearest], "*"))
    ordered = sorted(rows.items(), key=lambda row: -row[1][0])
    names = ["{" + ",".join(str(d + 1) for d in S) + "}" + star for S, (_, star) in ordered]
    return np.array([loss for _, (loss, _) in ordered]), names


def predicted(setting: Setting) -> str:
    """The drop times that theory predicts from the initial weights with their bounds, then what is in doubt; or why there are none."""
    try:
        found = predict_curve(setting.task, setting.weights)
    except ValueError as problem:
        return f"no prediction from the initial weights: {' '.join(str(problem).split())}"
    bounds = [f"{time:.2f} ({early:.2f} to {late:.2f})" for time, (early, late) in zip(found.drops, found.drop_bounds, strict=True)]
    return "\n".join([f"predicted from the initial weights, with bounds: {', '.join(bounds) or 'no drop'}", *found.doubts])
