"""One experiment on separate attention: the command line, sweep files and figures all describe it as a :class:`Setting`."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...numerics import RegressionTask, SeparateWeights
from ...numerics.tasks.token_laws import GaussianTokens, RademacherTokens, SphereTokens, StudentTokens, TokenLaw
from .parameters import PARAMETERS, TABLE

# Eigenvalues along the tokens' eigenvectors, or the rows of a matrix in their coordinates.
Covariance = tuple[float, ...] | tuple[tuple[float, ...], ...]

TOKEN_LAWS: Mapping[str, Callable[..., TokenLaw]] = {
    "gaussian": GaussianTokens,
    "sphere": SphereTokens,
    "rademacher": RademacherTokens,
    "student": StudentTokens,
}
LEAST_STEPS = {"descent": 2, "training": 6}  # plateaus are found on three losses; training keeps that of every fifth step, and the last
MOST_WEIGHTS, MOST_STEPS, LARGEST_BATCH = 10**7, 10**8, 10**9  # the last in numbers


@dataclass(frozen=True)
class Setting:
    """Task, initial weights, time and training; :mod:`.parameters` describes each field and its limits.

    ``duration`` is in t/tau; a training step advances time by ``2 learning_rate/(1 - momentum)``, by ``learning_rate`` with another
    optimizer than SGD. The fields from ``noise_variance`` on
    vary the task, as the arguments of ``RegressionTask`` of the same name. ``context_lengths``, lengths with their probabilities,
    replaces ``context_length``, which becomes the longest of them.

    Raises a ``ValueError`` that begins with the name for a value outside its limits; :meth:`check` tests the fields together.
    """

    eigenvalues: tuple[float, ...] = TABLE["eigenvalues"].default
    context_length: int = TABLE["context_length"].default
    heads: int = TABLE["heads"].default
    rank: int = TABLE["rank"].default
    scale: float = TABLE["scale"].default
    seed: int = TABLE["seed"].default
    duration: float = TABLE["duration"].default
    weight_decay: float = TABLE["weight_decay"].default
    learning_rate: float = TABLE["learning_rate"].default
    momentum: float = TABLE["momentum"].default
    optimizer: str = TABLE["optimizer"].default
    batch_size: int = TABLE["batch_size"].default
    tilt_seed: int | None = TABLE["tilt_seed"].default
    noise_variance: float = TABLE["noise_variance"].default
    task_covariance: Covariance | None = TABLE["task_covariance"].default
    number_of_tasks: int | None = TABLE["number_of_tasks"].default
    task_seed: int = TABLE["task_seed"].default
    query_covariance: Covariance | None = TABLE["query_covariance"].default
    context_lengths: tuple[tuple[int, float], ...] | None = TABLE["context_lengths"].default
    context_gain: str = TABLE["context_gain"].default
    token_law: str = TABLE["token_law"].default

    def __post_init__(self) -> None:
        for parameter in PARAMETERS:
            object.__setattr__(self, parameter.name, parameter.check(getattr(self, parameter.name)))
        if self.context_lengths is not None:
            longest = max(n for n, chance in self.context_lengths if chance > 0)
            object.__setattr__(self, "context_length", longest)

    def check(self, method: str = "flow") -> None:
        """Raise a ``ValueError`` that begins with a name, for values that a run by ``method`` cannot have together."""
        _ = self.weights  # makes the task too
        if method == "flow" and self.optimizer != "sgd":
            raise ValueError(f"optimizer must be sgd with the method flow, got {self.optimizer}")
        if self.weight_decay and self.momentum:
            raise ValueError(f"weight_decay must be 0 with momentum, got {self.weight_decay:g}")
        for name in ("momentum", "weight_decay"):
            if getattr(self, name) and self.optimizer != "sgd":
                raise ValueError(f"{name} must be 0 with the optimizer {self.optimizer}, got {getattr(self, name):g}")
        whole, least = self._whole, LEAST_STEPS.get(method, 0)
        if least and not least - 0.5 < whole / self.learning_rate <= MOST_STEPS:
            limits = f"{whole / MOST_STEPS:.3g} to below {whole / (least - 0.5):.3g}, for {least} to {MOST_STEPS:,} steps until duration"
            raise ValueError(f"learning_rate must be from {limits} {self.duration:g}, got {self.learning_rate:g}")
        width = max(len(self.eigenvalues), getattr(self.tokens, "degrees_of_freedom", 0))
        if method == "training" and self.batch_size * (self.context_length + 1) * width > LARGEST_BATCH:
            got = f"{self.batch_size} sequences of {self.context_length + 1} tokens, drawn from {width} numbers each"
            raise ValueError(f"batch_size must be small enough for {LARGEST_BATCH:,} numbers, got {got}")

    @property
    def _basis(self) -> np.ndarray:
        D = len(self.eigenvalues)
        if self.tilt_seed is None:
            return np.eye(D)
        return np.linalg.qr(np.random.default_rng(self.tilt_seed).standard_normal((D, D)))[0]

    def _in_basis(self, name: str) -> np.ndarray | None:
        """A covariance of the setting in the coordinates of the tokens."""
        value, D = getattr(self, name), len(self.eigenvalues)
        if value is None:
            return None
        flat = not isinstance(value[0], tuple)
        if len(value) != D or not (flat or all(len(row) == D for row in value)):
            what = "one eigenvalue" if flat else f"a row of {D} numbers"
            raise ValueError(f"{name} must have {what} for each of the tokens' {D} eigenvalues, got {value}")
        matrix = np.diag(value) if flat else np.array(value)
        return matrix if self.tilt_seed is None else _symmetric(self._basis @ matrix @ self._basis.T)

    @property
    def tokens(self) -> TokenLaw:
        name, _, degrees_of_freedom = self.token_law.partition(":")
        return TOKEN_LAWS[name](*map(int, degrees_of_freedom.split()))

    @cached_property
    def task(self) -> RegressionTask:
        E = self._basis
        spectrum: dict[str, Any] = (
            {"eigenvalues": list(self.eigenvalues)}
            if self.tilt_seed is None
            else {"covariance": _symmetric(E * np.array(self.eigenvalues) @ E.T)}
        )
        length: dict[str, Any] = (
            {"context_length": self.context_length} if self.context_lengths is None else {"context_lengths": dict(self.context_lengths)}
        )
        return RegressionTask(
            **spectrum,
            **length,
            noise_variance=self.noise_variance,
            task_covariance=self._in_basis("task_covariance"),
            number_of_tasks=self.number_of_tasks,
            task_seed=self.task_seed,
            query_covariance=self._in_basis("query_covariance"),
            context_gain=self.context_gain,
            token_law=self.tokens,
        )

    @property
    def weights(self) -> SeparateWeights:
        """The initial weights, equation (36), the same for the flow and for training.

        They are drawn in the eigenvectors' coordinates, so that a tilt of the tokens changes no loss.
        """
        R, D = self.rank, len(self.eigenvalues)
        if self.heads * (1 + 2 * R * D) > MOST_WEIGHTS:
            raise ValueError(f"heads must be few enough for {MOST_WEIGHTS:,} weights, got {self.heads} of rank {R} in dimension {D}")
        if R <= D and self.heads * R < D and self.heads * R < (least := self.task.rank):
            raise ValueError(f"heads must be at least {-(-least // R)} of rank {R} to learn {least} directions, got {self.heads}")
        rng, task = np.random.default_rng(self.seed), self.task
        w = SeparateWeights.initialize(task, heads=self.heads, rank=self.rank, scale=self.scale, rng=rng)
        return SeparateWeights(w.v, w.k @ task.eigenvectors.T, w.q @ task.eigenvectors.T)

    @property
    def steps(self) -> int:
        """The number of training steps until ``duration``."""
        return round(self._whole / self.learning_rate)

    @property
    def _whole(self) -> float:
        """The learning rate of a single step."""
        return self.duration * (1 - self.momentum) / 2 if self.optimizer == "sgd" else self.duration

    @property
    def variations(self) -> dict[str, Any]:
        """The fields that vary the task, by name."""
        values = {p.name: getattr(self, p.name) for p in PARAMETERS if p.group == "variations"}
        return {name: value for name, value in values.items() if value != TABLE[name].default}

    def to_json(self) -> dict[str, Any]:
        """Every parameter, ready for JSON."""
        return asdict(self)


def _symmetric(matrix: np.ndarray) -> np.ndarray:
    return (matrix + matrix.T) / 2  # removes rounding


# Four plateaus of clearly different lengths, short enough to train in some seconds.
DEFAULT = Setting()
