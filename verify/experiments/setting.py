"""One experiment on separate attention as a few numbers: what the command line, a sweep's file and the figures describe alike."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from ...numerics.dynamics.momentum import check_momentum
from ...numerics.parametrizations.attention import SeparateWeights
from ...numerics.tasks.regression import GAINS, RegressionTask
from ...numerics.tasks.token_laws import GaussianTokens, RademacherTokens, SphereTokens, StudentTokens, TokenLaw

# Eigenvalues along the tokens' eigenvectors, or the rows of a matrix in their coordinates.
Covariance = tuple[float, ...] | tuple[tuple[float, ...], ...]

TOKEN_LAWS: Mapping[str, Callable[[], TokenLaw]] = {
    "gaussian": GaussianTokens,
    "sphere": SphereTokens,
    "rademacher": RademacherTokens,
}


@dataclass(frozen=True)
class Setting:
    """Task, initial weights, time, and how it is trained.

    ``duration`` is in t/tau; a step of training advances time by ``2 learning_rate/(1 - momentum)``. ``noise_variance`` and what follows
    vary the task, as the arguments of ``RegressionTask`` that are called alike; covariances are given in the coordinates of the tokens'
    eigenvectors.
    ``context_lengths`` holds lengths with their probabilities and takes the place of ``context_length``, which is then the longest of
    those that occur; ``context_gain`` is present, longest or official.

    Raises ``ValueError`` for a token law or a gain that is unknown and a momentum outside [0, 1).
    """

    eigenvalues: tuple[float, ...] = (0.4, 0.3, 0.2, 0.1)
    context_length: int = 31
    heads: int = 5
    rank: int = 1
    scale: float = 0.2
    seed: int = 12
    duration: float = 1300.0
    learning_rate: float = 0.4
    momentum: float = 0.0
    batch_size: int = 1024
    tilt_seed: int | None = None  # None: the eigenvectors are the coordinate axes
    noise_variance: float = 0.0
    task_covariance: Covariance | None = None
    query_covariance: Covariance | None = None
    context_lengths: tuple[tuple[int, float], ...] | None = None
    context_gain: str = "present"
    token_law: str = "gaussian"

    def __post_init__(self) -> None:
        _ = self.tokens, check_momentum(self.momentum), context_gain(self.context_gain)
        if self.context_lengths is not None:
            occur = [n for n, chance in self.context_lengths if chance > 0]
            object.__setattr__(self, "context_length", max(occur, default=1))  # none: the task refuses them

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
        if flat and not all(number > 0 for number in value):
            raise ValueError(f"{name} must have positive eigenvalues, got {value}")
        matrix = np.diag(value) if flat else np.array(value)
        return matrix if self.tilt_seed is None else _symmetric(self._basis @ matrix @ self._basis.T)

    @property
    def tokens(self) -> TokenLaw:
        return token_law(self.token_law)

    @property
    def task(self) -> RegressionTask:
        E = self._basis
        where: dict[str, Any] = (
            {"eigenvalues": list(self.eigenvalues)}
            if self.tilt_seed is None
            else {"covariance": _symmetric(E * np.array(self.eigenvalues) @ E.T)}
        )
        length: dict[str, Any] = (
            {"context_length": self.context_length}
            if self.context_lengths is None
            else {"context_lengths": probabilities(self.context_lengths)}
        )
        return RegressionTask(
            **where,
            **length,
            noise_variance=self.noise_variance,
            task_covariance=self._in_basis("task_covariance"),
            query_covariance=self._in_basis("query_covariance"),
            context_gain=self.context_gain,
            token_law=self.tokens,
        )

    @property
    def weights(self) -> SeparateWeights:
        """The initial weights, equation (36), the same for the flow and for training.

        They are drawn in the eigenvectors' coordinates, so that a tilt of the tokens changes no loss.
        """
        rng, task = np.random.default_rng(self.seed), self.task
        w = SeparateWeights.initialize(task, heads=self.heads, rank=self.rank, scale=self.scale, rng=rng)
        return SeparateWeights(w.v, w.k @ task.eigenvectors.T, w.q @ task.eigenvectors.T)

    @property
    def steps(self) -> int:
        """Of training until ``duration``."""
        return round(self.duration * (1 - self.momentum) / (2 * self.learning_rate))

    @property
    def variations(self) -> dict[str, Any]:
        """What varies the task, by name."""
        first = [field.name for field in fields(self)].index("noise_variance")
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)[first:]
            if getattr(self, field.name) != field.default
        }

    def to_json(self) -> dict[str, Any]:
        """Every parameter, as JSON takes it."""
        return asdict(self)


def token_law(name: str) -> TokenLaw:
    """The law of a name: gaussian, sphere, rademacher, or student:NU with NU degrees of freedom; ``ValueError`` for another."""
    student = re.fullmatch(r"student:(\d+)", name)
    if name not in TOKEN_LAWS and not (student and int(student[1]) > 4):
        raise ValueError(f"token_law must be {', '.join(TOKEN_LAWS)} or student:NU with NU above 4, got {name!r}")
    return StudentTokens(int(student[1])) if student else TOKEN_LAWS[name]()


def context_gain(name: str) -> str:
    """The name of a normalisation, if there is one; ``ValueError`` for another."""
    if name not in GAINS:
        raise ValueError(f"context_gain must be {', '.join(GAINS)}, got {name!r}")
    return name


def probabilities(lengths: tuple[tuple[int, float], ...]) -> dict[int, float]:
    """{length: probability}; ``ValueError`` for a length that is named twice."""
    if len(dict(lengths)) < len(lengths):
        raise ValueError(f"context_lengths must be different lengths, got {[n for n, _ in lengths]}")
    return dict(lengths)


def _symmetric(matrix: np.ndarray) -> np.ndarray:
    return (matrix + matrix.T) / 2  # of rounding only


# Four plateaus of clearly different lengths, short enough to train in some seconds.
DEFAULT = Setting()


def equally_likely(lengths: list[int] | range) -> tuple[tuple[int, float], ...]:
    """Each length with the same probability, as often as it is listed."""
    return tuple((n, times / len(lengths)) for n, times in Counter(lengths).items())
