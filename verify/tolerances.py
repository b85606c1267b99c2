"""How far two routes to one number may differ, named by the source of the difference."""

import math
from dataclasses import dataclass
from typing import Literal

Source = Literal["exact", "roundoff", "solver", "discretisation", "sampling", "asymptotic"]


@dataclass(frozen=True)
class Tolerance:
    """A bound on a residual, the source of the error that it allows for, and why it is that large."""

    value: float
    source: Source
    reason: str

    def __post_init__(self) -> None:
        if not 0 <= self.value < math.inf:
            raise ValueError(f"value must be a finite number of at least 0, got {self.value!r}")
        if not self.reason:
            raise ValueError("reason must say why the tolerance is that large, got an empty string")


EXACT = Tolerance(0.0, "exact", "rational arithmetic does not round")
ROUNDOFF = Tolerance(1e-11, "roundoff", "float64 carries 16 digits, and sums of some thousand terms lose up to five")
HIGH_PRECISION = Tolerance(1e-40, "roundoff", "50 digits, of which a few sums and roots lose less than ten")

SOLVER = Tolerance(1e-6, "solver", "the flow is integrated to a relative tolerance of 1e-8 a step, some hundred steps")
SOLVER_TIGHT = Tolerance(1e-7, "solver", "integrated to a relative tolerance of 1e-10 a step, some hundred steps")

PLATEAU = Tolerance(1e-2, "asymptotic", "a plateau is its saddle's loss only as the initial weights go to zero")

SAMPLING = Tolerance(
    4.5, "sampling", "in standard errors: among 16 averages chance exceeds 4.5 once in ten thousand seeds"
)
