"""The parameters of a run, each described once: settings, the command line, sweep files, the explorer and the docs read this table.

It loads no NumPy, so that the command line starts fast.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..training import OPTIMIZERS
from . import kinds
from .kinds import Kind, choice, number, numbers, whole


class Option(NamedTuple):
    """An option of the command line."""

    name: str
    kind: Kind
    metavar: str
    help: str


class Slider(NamedTuple):
    """A slider of the explorer, whose runs are short: its name in a request, the values that a request may have, and its range."""

    key: str
    label: str
    kind: Kind
    least: float
    most: float
    step: float
    start: Any
    power: bool = False  # the range is of the exponent of ten


class Parameter(NamedTuple):
    """One parameter: a field of ``Setting`` and a key of a sweep's file by its name, with its options and its slider."""

    name: str
    default: Any
    kind: Kind
    help: str
    metavar: str = ""
    symbol: str = ""
    unit: str = ""
    group: str = "setting"  # or training, or variations of the task
    replaces: str = ""  # the parameter whose place it takes
    options: tuple[Option, ...] | None = None  # if not --name alone
    slider: Slider | None = None

    def check(self, value: object) -> Any:
        """The value as a setting holds it; ``ValueError`` begins with the name."""
        if value is None and self.default is None:
            return None
        try:
            return self.kind.value(value)
        except ValueError as problem:
            raise ValueError(f"{self.name} {problem}") from None

    @property
    def written_as(self) -> tuple[Option, ...]:
        """The options of the command line that set it."""
        default = "" if self.default is None else f" (default {self.kind.write(self.default)})"
        own = Option(f"--{self.name.replace('_', '-')}", self.kind, self.metavar, self.help + default)
        return (own,) if self.options is None else self.options


def _covariance(which: str, of: str, symbol: str) -> Parameter:
    eigenvalues = Option(
        f"--{which}-eigenvalues", kinds.EIGENVALUES, "S1,S2,...", f"of the covariance of {of}, one for each of --eigenvalues"
    )
    matrix = Option(f"--{which}-covariance", kinds.ROWS, "'A,B;B,C'", "the whole matrix, row by row")
    return Parameter(
        f"{which}_covariance",
        None,
        kinds.COVARIANCE,
        f"covariance of {of}: eigenvalues along the tokens' eigenvectors, or a matrix in their coordinates",
        symbol=symbol,
        group="variations",
        options=(eigenvalues, matrix),
    )


SPECTRUM = (0.4, 0.3, 0.2, 0.1)
PARAMETERS = (
    Parameter(
        "eigenvalues", SPECTRUM, kinds.EIGENVALUES, "eigenvalues of the token covariance", "L1,L2,...", "λ",
        slider=Slider("eigenvalues", "eigenvalue λ", numbers(8), 0.01, 1, 0.01, SPECTRUM),
    ),
    Parameter(
        "context_length", 31, kinds.LENGTH, "labelled tokens in the context", "N", "N",
        slider=Slider("N", "context length N", whole(1, 10_000), 1, 128, 1, 31),
    ),
    Parameter(
        "heads", 5, whole(1, 10_000), "attention heads", "H", "H",
        slider=Slider("H", "heads H", whole(1, 16), 1, 8, 1, 5),
    ),
    Parameter(
        "rank", 1, whole(1, kinds.MOST_EIGENVALUES), "rank of each head's key and query", "R", "R",
        slider=Slider("R", "rank R", whole(1, 8), 1, 4, 1, 1),
    ),
    Parameter(
        "scale", 0.2, kinds.POSITIVE, "initial scale w_init, equation (36)", "W", "w",
        slider=Slider(
            "scale", "initial scale", number("a number from 1e-6 to 0.5", lambda x: 1e-6 <= x <= 0.5),
            -4, -0.4, 0.05, 0.02, power=True,
        ),
    ),
    Parameter(
        "seed", 12, kinds.SEED, "seed of the initial weights, and of the sequences in training", "SEED",
        slider=Slider("seed", "seed", whole(0, 10**6), 0, 50, 1, 12),
    ),
    Parameter("duration", 1300.0, kinds.POSITIVE, "training time t/tau", "T", "t", "τ"),
    Parameter("weight_decay", 0.0, kinds.NONNEGATIVE, "strength of the penalty GAMMA |W|^2 on the weights", "GAMMA", "γ"),
    Parameter("learning_rate", 0.4, kinds.POSITIVE, "step size: a step advances t/tau by 2 ETA", "ETA", "η", group="training"),
    Parameter(
        "momentum", 0.0, kinds.MOMENTUM, "momentum of heavy ball: a step advances t/tau by 2 ETA/(1 - MU)", "MU", "μ",
        group="training",
    ),
    Parameter(
        "optimizer", "sgd", choice(*OPTIMIZERS), "rule of the steps; with adam and sign a step advances the time by ETA",
        group="training",
    ),
    Parameter("batch_size", 1024, whole(1, 10**7), "fresh sequences a step", "P", "P", group="training"),
    Parameter("tilt_seed", None, kinds.SEED, "seed of the tokens' eigenvectors, which are the coordinate axes without it", options=()),
    Parameter(
        "noise_variance", 0.0, kinds.NONNEGATIVE, "variance of the noise on labels, the query's too", "S2", "σ²", group="variations",
        slider=Slider("noise", "label noise σ²", kinds.NONNEGATIVE, 0, 2, 0.05, 0.0),
    ),
    _covariance("task", "the task vectors", "Σ"),
    Parameter(
        "number_of_tasks", None, whole(1, 10**6), "task vectors drawn once, which all sequences share",
        symbol="K", group="variations", options=(Option("--tasks", whole(1, 10**6), "K", "task vectors drawn once and shared"),),
    ),
    Parameter("task_seed", 0, kinds.SEED, "seed of the shared task vectors", "SEED", group="variations"),
    _covariance("query", "the query token", "Λ_q"),
    Parameter(
        "context_lengths", None, kinds.LENGTHS, "a random length: 8,16 or 1-31 or 8:0.25,16:0.75", "N1,N2,...", "n",
        group="variations", replaces="context_length",
    ),
    Parameter(
        "context_gain", "present", choice(*kinds.CONTEXT_GAINS),
        "sums over a context divided by its tokens (present), by the longest, or by n + 1 as in the official code (official)",
        symbol="g", group="variations",
    ),
    Parameter(
        "token_law", "gaussian", kinds.TOKEN_LAW, "law of the tokens; student:NU for any whole NU above 4",
        group="variations",
    ),
)  # fmt: skip
TABLE: Mapping[str, Parameter] = {parameter.name: parameter for parameter in PARAMETERS}
