"""The command-line arguments of the paper's official code, with its names and defaults."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self, get_args

from .._checks import nonnegative_number, one_of, positive_number

Model = Literal["attnM", "attnS", "mlp"]
NEEDED = ("model", "in_dim", "head_num", "seq_len", "lr")  # a recording that lacks one of these is of something else
LARGEST = 2**29  # numbers in a data set, 4 GB in double precision
LEAST = {"epoch": 1, "seed": 0, "trainset_size": 1, "testset_size": 0, "seq_len": 2, "in_dim": 2, "out_dim": 1, "rank": 1, "head_num": 1}


@dataclass(frozen=True)
class Arguments:
    """One run; ``iclflow official --help`` says what each means. ``lr`` is the step on the mean squared error, which has no 1/2 in front.

    Raises ``ValueError`` naming the argument, what it got and what it needs.
    """

    epoch: int = 6001
    lr: float = 0.001
    seed: int = 10
    icl: float = 1
    trainset_size: int = 5000
    testset_size: int = 0
    white_cov: bool = False
    vary_len: bool = False
    seq_len: int = 32
    in_dim: int = 4
    out_dim: int = 1
    cubic_feat: bool = False
    model: Model = "attnM"
    softmax: bool = False
    rank: int = 1
    head_num: int = 1
    init: float = 0.01
    show: bool = False
    track_value: bool = False

    def __post_init__(self):
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(one.default, bool) and not isinstance(value, bool):
                raise ValueError(f"{one.name} must be True or False, got {value!r}")
            if one.name in LEAST and (isinstance(value, bool) or not isinstance(value, int) or value < LEAST[one.name]):
                raise ValueError(f"{one.name} must be an integer of at least {LEAST[one.name]}, got {value!r}")
        positive_number("lr", self.lr), nonnegative_number("init", self.init), nonnegative_number("icl", self.icl)
        one_of("model", self.model, get_args(Model))
        for name, fits, needs in (
            ("icl", self.icl <= 1, "a share between 0 and 1"),
            ("seed", self.seed < 2**32, "an integer below 2^32"),
            ("out_dim", self.out_dim == 1, "1: labels of the theory are numbers"),
            ("cubic_feat", self.cubic_feat == (self.model == "mlp"), "given with the mlp, and only with it"),
            ("vary_len", not (self.vary_len and self.model == "mlp"), "left out with the mlp, as in the official code"),
            ("trainset_size", self._numbers(self.trainset_size) <= LARGEST, self._at_most()),
            ("trainset_size", self.icl != 1 or self.trainset_size > self.in_dim, "above in_dim, so that task vectors can be whitened"),
            ("testset_size", not self.testset_size or self.testset_size > self.in_dim, "0, or above in_dim"),
            ("testset_size", self._numbers(self.testset_size) <= LARGEST, self._at_most()),
            ("epoch", self.epoch <= 10**8, "at most 10^8 steps"),
        ):
            if not fits:
                raise ValueError(f"{name} must be {needs}, got {getattr(self, name)!r}")

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> Self:
        """The arguments of a recording: other keys are left alone, those that decide what is trained must be there."""
        for name in NEEDED:
            if name not in settings:
                raise ValueError(f"lacks {name}")
        return cls(**{one.name: settings[one.name] for one in fields(cls) if one.name in settings})

    @property
    def replayable(self) -> bool:
        """Whether moments of the data are all that training needs."""
        return self.model == "mlp" or not self.softmax

    @property
    def file_name(self) -> str:
        """The name of the text file of losses that the official code writes."""
        name = f"{self.model}_head{self.head_num}_D{self.in_dim}_R{self.rank}_P{self.trainset_size}_N{self.seq_len}_seed{self.seed}"
        return f"{name}_icl{self.icl}.txt" if self.testset_size else f"{name}.txt"

    def to_text(self) -> str:
        """The settings as the text of a dict, as recordings keep them."""
        return str(asdict(self))

    def _numbers(self, sequences: int) -> int:
        return sequences * self.seq_len * (self.in_dim + self.out_dim) + sequences * (self.in_dim + 1) ** 2 * self.in_dim

    def _at_most(self) -> str:
        return f"at most {LARGEST // self._numbers(1)} with sequences this long"
