"""One run, or several from the same start, as a table of plateaus beside theory."""

from collections.abc import Mapping

from ..numerics.plateaus import Plateaus
from .experiments import Setting
from .predictions import plateau_losses


def describe(setting: Setting, runs: Mapping[str, Plateaus]) -> str:
    """A row for each plateau: theory's loss (24), then each run's loss there and when the drop after it is half done.

    Plateaus are matched to theory by their loss, since a run may skip some (rank above one) or not have finished.
    """
    levels = plateau_losses(setting.task)
    header = f"{'m':>2}  {'theory':>9}" + "".join(f"  {name + ' loss':>10}  {name + ' drop':>10}" for name in runs)
    lines = [header]
    for m, level in enumerate(levels):
        row = f"{m:>2}  {level:>9.6f}"
        for found in runs.values():
            nearest = [i for i, x in enumerate(found.levels) if abs(levels - x).argmin() == m]
            loss = f"{found.levels[nearest[-1]]:.6f}" if nearest else "-"
            drop = f"{found.drops[nearest[-1]]:.2f}" if nearest and nearest[-1] < len(found.drops) else "-"
            row += f"  {loss:>10}  {drop:>10}"
        lines.append(row)
    return "\n".join(lines)
