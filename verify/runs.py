"""One run, or several from the same start, as a table of plateaus beside theory."""

from collections.abc import Mapping

from ..numerics.plateaus import Plateaus
from .predictions import plateau_losses
from .setting import Setting
from .setting_options import as_options
from .variations import levels as varied_levels


def describe(setting: Setting, runs: Mapping[str, Plateaus]) -> str:
    """A row for each plateau: theory's loss (24), then each run's loss there and when the drop after it is half done.

    On a varied task, which the first line then describes, theory's losses are those of the directions in the order of their growth
    from small weights, (V2-fixed); where the rates are close, initial weights may choose another.
    Plateaus are matched to theory by their loss, since a run may skip some (rank above one) or not have finished.
    """
    levels = varied_levels(setting.task) if setting.variations else plateau_losses(setting.task)
    header = f"{'m':>2}  {'theory':>9}" + "".join(f"  {name + ' loss':>10}  {name + ' drop':>10}" for name in runs)
    lines = [header]
    if setting.variations:
        lines.insert(0, f"task: {as_options(setting.variations)}; theory: directions in the order of their growth")
    for m, level in enumerate(levels):
        row = f"{m:>2}  {level:>9.6f}"
        for found in runs.values():
            nearest = [i for i, x in enumerate(found.levels) if abs(levels - x).argmin() == m]
            loss = f"{found.levels[nearest[-1]]:.6f}" if nearest else "-"
            drop = f"{found.drops[nearest[-1]]:.2f}" if nearest and nearest[-1] < len(found.drops) else "-"
            row += f"  {loss:>10}  {drop:>10}"
        lines.append(row)
    return "\n".join(lines)
