"""The page docs/settings.md, from the table of parameters. Run it as ``python docs/settings_table.py`` to write the page anew."""

from pathlib import Path

from iclflow.verify.experiments.parameters import PARAMETERS, Parameter

PAGE = Path(__file__).parent / "settings.md"

HEAD = """# The parameters of a run

Each has one name, as a field of `iclflow.verify.experiments.setting.Setting` and as a key of a [sweep's file](sweep.toml), below
`[setting]` and `[vary]`. `iclflow flow` and `iclflow train` take it as an option, `iclflow explore` has a slider for some. Defaults are
those of the README's staircase. A value that is refused is answered in one line, with the name, the value and what it must be.

Limits on sizes are far above sensible values, and stop a slip of the keyboard before memory is allocated. Some values are wrong only
together: the rank is at most the number of eigenvalues, heads times rank at least that; a run has at most {weights:,} weights, training
at most {steps:,} steps and {batch:,} random numbers in a batch. This page is written by `python docs/settings_table.py`.

| parameter | | default | must be | options |
| --- | --- | --- | --- | --- |
"""
EXPLORER = """

## In the explorer

A request of the explorer's page gives every one of these, with `model` (merged or separate), `moment` (from 0 to 1 of the run), `dark` and
`narrow` (0 or 1). Its runs are drawn at once, so that some limits are narrower.

| parameter | in a request | starts at | must be |
| --- | --- | --- | --- |
"""


def page() -> str:
    """The page as the table of parameters has it."""
    from iclflow.verify.experiments.setting import LARGEST_BATCH, MOST_STEPS, MOST_WEIGHTS

    head = HEAD.format(weights=MOST_WEIGHTS, steps=MOST_STEPS, batch=LARGEST_BATCH)
    sliders = [[f"`{p.name}`", f"`{p.slider.key}`", _start(p), p.slider.kind.needs] for p in PARAMETERS if p.slider]
    return head + "\n".join(map(_row, map(_cells, PARAMETERS))) + EXPLORER + "\n".join(map(_row, sliders)) + "\n"


def _cells(parameter: Parameter) -> list[str]:
    name = f"`{parameter.name}`" + (f" ({parameter.symbol})" if parameter.symbol else "")
    default = "" if parameter.default is None else f"{parameter.kind.write(parameter.default)} {parameter.unit}".strip()
    instead = f"; takes the place of `{parameter.replaces}`" if parameter.replaces else ""
    options = [" ".join(filter(None, (option.name, option.metavar))) for option in parameter.written_as]
    return [name, parameter.help + instead, default, parameter.kind.needs, "<br>".join(f"`{one}`" for one in options)]


def _start(parameter: Parameter) -> str:
    return "" if parameter.slider is None else parameter.kind.write(parameter.slider.start)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
