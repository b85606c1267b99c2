"""The options of one run, made from the table of parameters, and the setting that they describe; errors name the option."""

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..experiments.parameters import PARAMETERS, TABLE, Kind

if TYPE_CHECKING:
    from ..experiments.setting import Setting


class Offered(tuple):
    """Names for completion only: the kind refuses wrong values before argparse looks here."""

    def __contains__(self, name: object) -> bool:
        return True


def add_setting(parser: argparse.ArgumentParser, *, training: bool) -> None:
    """The options of one run; None stands for the setting's default."""
    setting = parser.add_argument_group("the setting (defaults: the README's staircase)")
    groups = {"setting": setting, "variations": parser.add_argument_group("variations of the task (defaults: the paper's)")}
    if training:
        groups["training"] = setting
    for first in PARAMETERS:
        if first.replaces or first.group not in groups or not first.written_as:
            continue
        either = groups[first.group].add_mutually_exclusive_group()
        for parameter in (first, *(other for other in PARAMETERS if other.replaces == first.name)):
            for option in parameter.written_as:
                either.add_argument(
                    option.name,
                    dest=parameter.name,
                    type=reader(option.kind),
                    metavar=option.metavar or None,
                    choices=Offered(option.kind.names) if option.kind.names else None,
                    help=option.help,
                )
    if training:
        setting.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    add_digits(parser)
    parser.add_argument("--output", metavar="FILE.npz", help="times, loss, weights, and the setting as JSON")


def add_digits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--digits", type=int, choices=range(1, 16), default=6, metavar="N", help="decimals of the losses shown (default 6)")


def reader(kind: Kind) -> Callable[[str], Any]:
    """What argparse calls to read a value of this kind."""

    def read(text: str) -> Any:
        try:
            return kind.parse(text)
        except ValueError as problem:
            raise argparse.ArgumentTypeError(str(problem)) from None

    return read


def setting_of(options: argparse.Namespace) -> "Setting":
    """The default setting, changed by the options.

    Raises a ``ValueError`` that begins with the option to blame for values that are wrong together.
    """
    from ..experiments.setting import Setting

    given = {name: getattr(options, name, None) for name in TABLE}
    chosen = {name: value for name, value in given.items() if value is not None}
    try:
        setting = Setting(**chosen)
        setting.check("training" if options.command == "train" else "flow")
    except ValueError as problem:
        raise ValueError(_with_option(str(problem), chosen)) from None
    return setting


def as_options(chosen: Mapping[str, Any]) -> str:
    """Parameters of a setting as command-line options."""
    written = []
    for name, value in chosen.items():
        option = next(option for option in TABLE[name].written_as if option.kind.takes(value))
        written.append(f"{option.name} {option.kind.write(value)}")
    return " ".join(written)


def _with_option(problem: str, chosen: Mapping[str, Any]) -> str:
    """The message, with the option instead of the parameter at its beginning."""
    name = problem.split(" ")[0]
    if name not in TABLE:
        return problem
    options = [option.name for option in TABLE[name].written_as if name not in chosen or option.kind.takes(chosen[name])]
    return options[0] + problem[len(name) :]
