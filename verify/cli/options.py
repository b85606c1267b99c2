"""The options of one run, as the shell writes them, and the setting that they describe; an error names the option to blame."""

import argparse
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..experiments.setting import Setting


class TokenLaws(tuple):
    """The names that completion offers; any degrees of freedom may follow student."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or bool(re.fullmatch(r"student:\d+", str(name)))


CONTEXT_GAINS = ("present", "longest", "official")
TOKEN_LAWS = TokenLaws(("gaussian", "sphere", "rademacher", "student:8"))


def numbers(text: str) -> tuple[float, ...]:
    """A list of numbers, separated by commas."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"needs numbers separated by commas, got {text!r}") from None


def rows(text: str) -> tuple[tuple[float, ...], ...]:
    """The rows of a matrix, separated by semicolons."""
    return tuple(numbers(row) for row in text.split(";"))


def lengths(text: str) -> tuple[tuple[int, float], ...]:
    """Context lengths, each as likely as it is often listed (8,16 or 1-31) or with its probability (8:0.25,16:0.75)."""
    from ..experiments.setting import equally_likely  # which loads NumPy

    parts = [re.fullmatch(r"(\d+)(?:-(\d+)|:([0-9.eE+-]+))?", part.strip()) for part in text.split(",")]
    named = [part for part in parts if part]
    weighed = [part for part in named if part[3]]
    if len(named) < len(parts) or len(weighed) not in (0, len(parts)):
        raise argparse.ArgumentTypeError(f"needs lengths such as 8,16 or 1-31 or 8:0.25,16:0.75, got {text!r}")
    if weighed:
        return tuple((int(part[1]), numbers(part[3])[0]) for part in weighed)
    listed = [n for part in named for n in range(int(part[1]), int(part[2] or part[1]) + 1)]
    if not listed:
        raise argparse.ArgumentTypeError(f"needs ranges that rise, such as 1-31, got {text!r}")
    return equally_likely(listed)


def add_setting(parser: argparse.ArgumentParser, *, training: bool) -> None:
    """The options of one run. Their defaults are the settings' own: None stands for them here."""
    group = parser.add_argument_group("the setting (defaults: the README's staircase)")
    group.add_argument("--eigenvalues", type=numbers, metavar="L1,L2,...", help="eigenvalues of the token covariance")
    length = group.add_mutually_exclusive_group()
    length.add_argument("--context-length", type=int, metavar="N", help="labelled tokens in the context")
    length.add_argument(
        "--context-lengths", type=lengths, metavar="N1,N2,...", help="a random length: 8,16 or 1-31 or 8:0.25,16:0.75"
    )
    group.add_argument("--heads", type=int, metavar="H", help="attention heads")
    group.add_argument("--rank", type=int, metavar="R", help="rank of each head's key and query")
    group.add_argument("--scale", type=float, metavar="W", help="initial scale w_init, equation (36)")
    group.add_argument("--seed", type=int, help="of the initial weights" + (" and the sequences" if training else ""))
    group.add_argument("--duration", type=float, metavar="T", help="training time t/tau")
    if training:
        group.add_argument("--learning-rate", type=float, metavar="ETA", help="a step advances t/tau by 2 ETA")
        group.add_argument(
            "--momentum",
            type=float,
            metavar="MU",
            help="of heavy ball, 0 (default) to below 1: a step advances t/tau by 2 ETA/(1 - MU)",
        )
        group.add_argument("--batch-size", type=int, metavar="P", help="fresh sequences a step")
        group.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    varied = parser.add_argument_group("variations of the task (defaults: the paper's)")
    varied.add_argument("--noise-variance", type=float, metavar="S2", help="of the noise on labels, the query's too")
    for name, what in (("task", "the task vectors"), ("query", "the query token")):
        either = varied.add_mutually_exclusive_group()
        dest = f"{name}_covariance"
        either.add_argument(
            f"--{name}-eigenvalues",
            dest=dest,
            type=numbers,
            metavar="S1,S2,...",
            help=f"of the covariance of {what}, one beside each of --eigenvalues",
        )
        either.add_argument(
            f"--{name}-covariance", dest=dest, type=rows, metavar="'A,B;B,C'", help="the whole matrix, row by row"
        )
    varied.add_argument(
        "--context-gain",
        choices=CONTEXT_GAINS,
        help="sums over a context divided by its tokens (present), by the longest, or by n + 1 as in the official code (official)",
    )
    varied.add_argument(
        "--token-law",
        choices=TOKEN_LAWS,
        help="the law of the tokens: gaussian, sphere, rademacher or student:NU, NU above 4",
    )
    parser.add_argument("--output", metavar="FILE.npz", help="times, loss, weights, and the setting as JSON")


def setting_of(options: argparse.Namespace) -> "Setting":
    """The default setting with what the options replace in it.

    Raises ``ValueError`` that begins with the option to blame, for what the task or the initial weights refuse.
    """
    from dataclasses import fields, replace

    from ..experiments.setting import DEFAULT

    given = {f.name: getattr(options, f.name, None) for f in fields(DEFAULT)}
    chosen = {name: value for name, value in given.items() if value is not None}
    try:
        setting = replace(DEFAULT, **chosen)
        _ = setting.weights  # which makes the task too
    except ValueError as problem:
        raise ValueError(_with_option(str(problem), chosen)) from None
    return setting


def as_options(chosen: Mapping[str, Any]) -> str:
    """Parameters of a setting as the options that give them."""
    return " ".join(f"{option_of(name, value)} {_written(value)}" for name, value in chosen.items())


def option_of(name: str, value: object) -> str:
    """The option that gives a parameter its value: eigenvalues and matrices have options of their own."""
    if name.endswith("_covariance") and isinstance(value, tuple) and not isinstance(value[0], tuple):
        name = name.replace("_covariance", "_eigenvalues")
    return f"--{name.replace('_', '-')}"


def _written(value: Any) -> str:
    """A value as the shell takes it."""
    if not isinstance(value, tuple):
        return str(value)
    if not isinstance(value[0], tuple):
        return ",".join(f"{number!r}" for number in value)
    if not isinstance(value[0][0], int):  # the rows of a matrix
        return f"'{';'.join(_written(row) for row in value)}'"
    listed, chances = [n for n, _ in value], {chance for _, chance in value}
    if len(chances) > 1:
        return ",".join(f"{n}:{chance!r}" for n, chance in value)
    rising = listed == list(range(listed[0], listed[-1] + 1))
    return f"{listed[0]}-{listed[-1]}" if rising else ",".join(map(str, listed))


def _with_option(problem: str, chosen: Mapping[str, Any]) -> str:
    """The problem with the option for the argument that it begins with."""
    name = problem.split(" ")[0]
    return option_of(name, chosen[name]) + problem[len(name) :] if name in chosen else problem
