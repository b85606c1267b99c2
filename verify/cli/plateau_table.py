"""One run, or several from the same start, as a table of plateaus beside theory."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ...numerics import Plateaus, order_of_learning, predict_curve
from ...numerics.landscape.fixed_points import losses_of_sets
from ..claims.formulas import plateau_losses
from ..experiments.setting import Setting
from .options import as_options

NEAR = 0.02  # a plateau this close to a level, relative to all that can be learned, lies on it; SGD raises the last by 1.4 %
MOST = 10  # directions whose sets are still listed


def describe(setting: Setting, runs: Mapping[str, Plateaus], digits: int) -> str:
    """The table of a setting's runs, with theory's loss (24).

    On a varied task, described in the first line, theory's rows are the sets of directions that heads of rank one visit in the limit
    of small weights, including heads that turn (V2-sequence). Each row ends with its set, numbered from 1 as in ``task.modes``.
    With weight decay, which moves the plateaus, theory's column is empty.
    A run may rest at other sets if its weights are not small, its rank is above one or its covariances nearly commute: a star marks
    their rows.
    """
    if setting.weight_decay:
        return f"weight decay {setting.weight_decay:g}; the losses are without the penalty\n" + table((), runs, digits)
    if not setting.variations:
        return table(plateau_losses(setting.task), runs, digits)
    levels, names = _visited(setting, [level for run in runs.values() for level in run.levels])
    heading = f"task: {as_options(setting.variations)}; theory: directions in the order in which heads visit them\n"
    starred = "\n* a plateau from these weights, not in the limit of small ones" * any(name.endswith("*") for name in names)
    return heading + table(levels, runs, digits, ["learned", *names]) + starred


def table(
    levels: Sequence[float] | np.ndarray,
    runs: Mapping[str, Plateaus],
    digits: int,
    names: Sequence[str] = (),
    *,
    drop: str = "drop",
    time: str = ".2f",
) -> str:
    """A row for each plateau: theory's loss, then each run's loss there and the time at which the drop after it is half done.

    Plateaus are matched to theory by their loss, since a run may skip some (rank above one) or not have finished; without ``levels``
    each has a row.
    """
    count = len(levels) or max(map(len, runs.values()))
    columns = [["m", *map(str, range(count))], ["theory", *(f"{level:.{digits}f}" for level in levels), *["-"] * (count - len(levels))]]
    for name, found in runs.items():
        row = [int(np.abs(np.subtract(levels, level)).argmin()) if len(levels) else i for i, level in enumerate(found.levels)]
        last = {m: i for i, m in enumerate(row)}  # of several plateaus near a level the last
        losses = [f"{found.levels[last[m]]:.{digits}f}" if m in last else "-" for m in range(count)]
        drops = [f"{found.drops[last[m]]:{time}}" if m in last and last[m] < len(found.drops) else "-" for m in range(count)]
        columns += [[f"{name} loss", *losses], [f"{name} {drop}", *drops]]
    widths = [max(minimum, *map(len, column)) for minimum, column in zip((2, 9, *[10] * len(columns)), columns, strict=False)]
    rows = ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in zip(*columns, strict=True)]
    return "\n".join(f"{row}  {name}" for row, name in zip(rows, names, strict=True)) if names else "\n".join(rows)


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
    if setting.weight_decay:
        return "no prediction from the initial weights: weight decay stretches the plateaus (V12)"
    try:
        found = predict_curve(setting.task, setting.weights)
    except ValueError as problem:
        return f"no prediction from the initial weights: {' '.join(str(problem).split())}"
    bounds = [f"{time:.2f} ({early:.2f} to {late:.2f})" for time, (early, late) in zip(found.drops, found.drop_bounds, strict=True)]
    return "\n".join([f"predicted from the initial weights, with bounds: {', '.join(bounds) or 'no drop'}", *found.doubts])
