"""The command line's grammar: sub-commands with examples, and suggestions for misspelt words."""

import argparse
import re
import sys
from collections.abc import Callable
from difflib import get_close_matches
from itertools import takewhile
from typing import NoReturn

from ..experiments.kinds import SEED, whole
from ..figures.names import FIGURE_NAMES, listed_names
from .official import add_arguments
from .options import Offered, add_setting, reader

PROOF_CODES = """a line of proof.txt: E[S^2] = (1 + 1/N) Lambda^2 + 1/N tr(Lambda) Lambda, in the letters of iclflow expect --help
verdicts: exact, numeric, sampled, assumed (a :=), fails (with a counterexample), unread (with the reason)
exit 1 where a line fails, 2 where no line could be read, and with --strict where one could not

"""
LETTERS = """letters:
  S, Lambda_hat  the sample covariance of N tokens     Lambda  their covariance        M  E[S^2]
  w, x_q         the task vector, the query token      beta    S w                     y_q  w' x_q
  N, D, H, R     tokens, dimension, heads, their rank  sigma, tau, lambda  numbers     I  the identity
  any other: a constant, a D x D matrix if it starts with a capital, else a vector; --let says what else it is:
  "K: D x R", "u: vector", "A: symmetric", "Sigma: covariance", "c: scalar", "c: positive", "d: dimension", "n: samples",
  "g: Gaussian(0, Lambda)", "W: sample covariance of n with Sigma"
functions: tr(A), inv(A), E[A], d/dA tr(A B), norm(u); A' is the transpose, A^2 a power, side by side a product

"""
SWEEP_FILE = """s.toml:
  method = "flow"                    # or "descent", "training"
  [setting]                          # what all runs share: the options of iclflow train, with _ for -; the rest has their defaults
  duration = 2000
  [vary]                             # every combination of these
  scale = [0.1, 0.2]
  seed = { first = 0, count = 10 }

"""
EXIT_CODES = "exit codes: 0 all is well, 1 a check or a run failed, or nothing was found, 2 bad input, 130 interrupted"


class Parser(argparse.ArgumentParser):
    """An argument parser that takes no abbreviations, answers errors in one line and suggests the nearest word."""

    def __init__(self, *args, **kwargs):
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        kwargs.setdefault("allow_abbrev", False)
        super().__init__(*args, **kwargs)
        self._negative_number_matcher = re.compile(r"-(\.?\d|inf|nan)")  # -1,2 is a value too
        self.later: Callable[[Parser], None] | None = None  # adds options when they are needed: it loads what other commands do without

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[override]
        self.complete()
        return super().parse_known_args(args, namespace)

    def complete(self) -> None:
        """Add the options left for later."""
        later, self.later = self.later, None
        if later is not None:
            later(self)

    def error(self, message: str) -> NoReturn:
        choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if choice:
            options = [option.strip().strip("'") for option in choice[2].split(",")]
            near = get_close_matches(choice[1], options, n=1)
            message = f"there is no {choice[1]!r}" + (f"; did you mean {near[0]}?" if near else f" among {', '.join(options)}")
        message = re.sub(r"^argument (--\S+): must ", r"\1 must ", message)
        self.exit(2, f"{self.prog}: error: {message}\n")

    def parse_args(self, args=None, namespace=None):  # type: ignore[override]
        """As usual, but an unknown option is compared with those of the chosen sub-command."""
        args = list(sys.argv[1:] if args is None else args)
        if args[:1] in (["expect"], ["gradient"]):  # argparse would take -S^2 for an option; a leading blank prevents it
            args = [f" {one}" if re.match(r"-(?!-|h$)", one) else one for one in args]
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            parser = self.chosen(parsed)
            options = [option for action in parser._actions for option in action.option_strings]
            name = unknown[0].split("=")[0]
            near = get_close_matches(name, options, n=1)
            if near:
                parser.error(f"there is no option {name}; did you mean {near[0]}?")
            if name.startswith("-"):
                parser.error(f"there is no option {name}")
            more = " ".join(takewhile(lambda one: not one.startswith("-"), unknown))
            hint = f"; did you mean --equation {more}?" if "--equation" in options else ""
            parser.error(f"nothing more was expected, got {name!r}{hint}")
        return parsed

    def chosen(self, parsed: argparse.Namespace) -> "Parser":
        """The parser of the sub-command that was given."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction) and getattr(parsed, action.dest, None):
                return action.choices[getattr(parsed, action.dest)]
        return self


class Completion(argparse.Action):
    """Print the completion script of a shell; only this loads shtab, which doubles the time to start."""

    def __call__(self, parser, namespace, values, option_string=None):
        import shtab

        if values not in shtab.SUPPORTED_SHELLS:
            names = ", ".join(map(repr, shtab.SUPPORTED_SHELLS))
            parser.error(f"argument {option_string}: invalid choice: {values!r} (choose from {names})")
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for one in action.choices.values():
                    one.complete()
                    complete_numbers(one)
        print(shtab.complete(parser, str(values)))
        parser.exit(0)


class Version(argparse.Action):
    """Print the version, which only this looks up."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, nargs=0, **kwargs)

    def __call__(self, parser, namespace, values, option_string=None):
        from importlib.metadata import version

        print(f"iclflow {version('iclflow')}")
        parser.exit(0)


def size(text: str) -> tuple[float, float]:
    """A width and a height in inches, such as 3.3,2.5."""
    found = re.fullmatch(r"(\d*\.?\d+),(\d*\.?\d+)", text)
    if found is None or not all(0.5 <= float(one) <= 50 for one in found.groups()):
        raise argparse.ArgumentTypeError(f"must be a width and a height of 0.5 to 50 inches, such as 3.3,2.5, got {text!r}")
    return float(found[1]), float(found[2])


def dpi(text: str) -> float:
    """Dots an inch."""
    if re.fullmatch(r"\d+", text) is None or not 10 <= int(text) <= 2400:
        raise argparse.ArgumentTypeError(f"must be a whole number from 10 to 2400, got {text!r}")
    return float(text)


def complete_numbers(parser: Parser) -> None:
    """Offer the numbers of the equations for completion."""
    from ...theory.equations import equations

    for action in parser._actions:
        if action.dest == "equation":
            action.choices = Offered(entry.number for entry in equations())


def build() -> Parser:
    """The whole command line."""
    parser = Parser(
        prog="iclflow",
        description="Derive, integrate and verify how in-context learning arises while linear attention is trained.",
        epilog=EXIT_CODES,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)

    def command(name: str, summary: str, example: str, more: str = "", **kwargs) -> Parser:
        epilog = f"example:\n  {example}\n\n{more}{EXIT_CODES}"
        return commands.add_parser(name, help=summary, description=summary, epilog=epilog, **kwargs)

    check = command("check", "prove every equation and measure every claim", "iclflow check --equation 24 31 --json check.json")
    check.add_argument("--full", action="store_true", help="the slow claims too (minutes instead of a minute)")
    check.add_argument("--equation", nargs="+", metavar="N", help="only these equations, each claim in detail")
    check.add_argument("--seed", type=reader(SEED), default=0, metavar="N", help="of the random numbers (default 0)")
    check.add_argument("--json", metavar="FILE", help="write the evidence as JSON")
    check.add_argument("--report", metavar="DIR", help="write one self-contained page, DIR/index.html")

    derive = command("derive", "the derivation of equations, step by step", "iclflow derive 31 --format latex")
    derive.add_argument("equation", metavar="N", nargs="*", help="an equation's number, in the paper or beside it, such as 24 or T5")
    derive.add_argument("--list", action="store_true", help="the numbers and titles of all equations")
    derive.add_argument("--format", choices=["text", "latex", "markdown"], default="text", help="default text")
    varied = "noise[=VARIANCE], task_covariance, query_covariance, commuting, elliptical, random_length"
    derive.add_argument("--task", nargs="+", metavar="WHAT", help=f"at the moments of another task, which varies: {varied}")
    derive.add_argument("--judge", action="store_true", help="judge each line, and print the verdict beside its reason")
    derive.add_argument("--full", action="store_true", help="with the derivations of all that it rests on before it")

    export = command("export", "equations and their derivations as a document", "iclflow export --output equations.tex")
    export.add_argument("--output", metavar="FILE", required=True, help="ends in .tex, .md or .json")
    export.add_argument("--equation", nargs="+", metavar="N", help="only these equations")
    export.add_argument(
        "--sections", nargs="+", metavar="S", help="only the sections 2 to 5 and B to F of the paper, and beside, what goes beyond it"
    )
    export.add_argument("--title", metavar="WORDS", help="of the document; mathematics between dollars")

    search = command("search", "the equations in whose title, section, conditions or remark all words occur", "iclflow search loss plateau")
    search.add_argument("words", nargs="+", metavar="WORD")

    map_ = command("map", "draw which equation uses which", "iclflow map --equation 24 --output map.svg")
    map_.add_argument("--output", metavar="FILE", required=True, help="ends in .svg or .json")
    map_.add_argument("--equation", metavar="N", help="only this one and all that it rests on")
    map_.add_argument("--json", metavar="FILE", help="verdicts that iclflow check --json wrote; without them nothing is judged")

    summary = "the exact Gaussian expectation of an expression in S = Lambda_hat, w, x_q, ..."
    expect = command("expect", summary, 'iclflow expect "S A S + tr(S) S"', LETTERS)

    gradient = command(
        "gradient", "the gradient of a scalar expression with respect to a matrix or vector", 'iclflow gradient "tr(A W S W\')" W', LETTERS
    )
    for formula in (expect, gradient):
        formula.add_argument("expression", type=str.strip, help="in the letters and functions below")
        formula.add_argument("--let", action="append", default=[], metavar="LETTER", help='what letters are: "K: D x R; A: symmetric"')
        formula.add_argument("--steps", action="store_true", help="the derivation, line by line")
        formula.add_argument("--format", choices=["text", "latex"], default="text", help="default text")
    gradient.add_argument("variable", help="a letter of it")

    prove = command("prove", "judge every line of a proof of your own", "iclflow prove proof.tex --json verdicts.json", PROOF_CODES)
    prove.add_argument("file", metavar="FILE", help="ends in .txt, .md or .tex")
    prove.add_argument("--json", metavar="OUT", help="write the verdicts as JSON")
    prove.add_argument("--strict", action="store_true", help="an unread line is an error too")

    flow = command("flow", "integrate gradient flow of separate attention", "iclflow flow --scale 0.01 --duration 40000")
    add_setting(flow, training=False)
    train = command("train", "train separate attention by SGD, beside the flow", "iclflow train --batch-size 512 --output run.npz")
    add_setting(train, training=True)

    replay = command("replay", "replay a run of the paper's official code from its moments", "iclflow replay official.npz --json r.json")
    replay.add_argument("file", metavar="FILE.npz", help="what iclflow official --output wrote, or a recording of the official code")
    replay.add_argument("--training", action="store_true", help="train again by PyTorch instead (softmax attention always is)")
    replay.add_argument("--json", metavar="FILE", help="write the comparison as JSON")

    example = "iclflow official --model attnS --head 5 --epoch 10001 --lr 0.02 --seed 0 --trainset 1000 --output official.npz"
    official = command("official", "a run of the paper's official code, from its own options, in seconds", example, allow_abbrev=True)
    official.later = add_arguments

    figure = command(
        "figure", "draw a figure, theory over simulation", "iclflow figure staircase --output s.png", more=f"figures:\n{listed_names()}\n\n"
    )
    names = [name for group in FIGURE_NAMES.values() for name in group]
    figure.add_argument("name", metavar="NAME", choices=names, help="one of those below")
    figure.add_argument(
        "--output", metavar="FILE", required=True, help="ends in .png, .pdf, .svg, or .gif for weights; a caption goes beside it"
    )

    figure.add_argument("--size", type=size, metavar="W,H", help="width and height in inches")
    figure.add_argument("--dpi", type=dpi, metavar="N", help="dots an inch of a .png (default 150)")
    figure.add_argument("--style", metavar="SHEET", help="a matplotlib style sheet, by its name or file")
    figure.add_argument("--data", metavar="FILE.nc", help="write what is drawn as a netCDF file")
    figure.add_argument("--quick", action="store_true", help="figures that train or take long: fewer sequences, fewer or shorter runs")

    sweep = command("sweep", "many runs, resumable, on one machine or a cluster", "iclflow sweep s.toml --output runs", SWEEP_FILE)
    sweep.add_argument("file", metavar="FILE.toml", help="method, setting, and what is varied")
    sweep.add_argument("--output", metavar="DIR", required=True, help="files of the runs, results.nc and drops.png")
    sweep.add_argument("--scheduler", metavar="ADDRESS", help="of a Dask scheduler, such as tcp://host:8786")
    sweep.add_argument("--workers", type=reader(whole(1, 10_000)), metavar="N", help="processes on this machine (default: one a core)")

    explore = command("explore", "a local page with sliders: loss, plateaus, weights and algorithm", "iclflow explore --port 8000")
    explore.add_argument("--port", type=reader(whole(0, 65535)), default=0, metavar="N", help="of this machine; a free one by default")
    explore.add_argument("--no-browser", action="store_true", help="print the address only")
    parser.add_argument("--version", action=Version, help="print the version")
    parser.add_argument(
        "--completion",
        action=Completion,
        metavar="SHELL",
        help="print the script by which SHELL (bash, zsh, fish, ...) completes the command",
    )
    return parser
