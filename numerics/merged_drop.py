r"""The drop of merged attention for any covariance (V7): bounds for its time, how much it learns, and how slow the rest is.

The balanced flow starts from B = s_0 c/gamma with c = Lambda^2, as small initial weights lead to it: see ``effective_start`` of
:mod:`~iclflow.numerics.balanced`. Its curve is ``balanced_curve``; here are the formulas.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float

from ..theory.equations import equation
from ..theory.merged_drop import kappa_max, kappa_min
from ..theory.notation import tau as tau_
from ..theory.reduction import gamma as gamma_
from ..theory.reduction import s as s_
from ..theory.sigmoid import s_0
from ._checks import positive_number
from .compile import compile_expression
from .tasks import SPECTRAL, RegressionTask, paper_task

__all__ = ["MergedDrop"]


@dataclass(frozen=True, eq=False)
class MergedDrop:
    r"""What the spectrum says of the drop: ``gamma`` is the norm of :math:`\Lambda^2`, ``kappa`` holds :math:`\lambda_da_d`.

    >>> drop = MergedDrop.of(RegressionTask(eigenvalues=[1.0, 0.1], context_length=31))
    >>> round(drop.share, 3), drop.rates.round(2).tolist()  # nine tenths in one drop, the rest 400 times more slowly
    (0.929, [0.02, 7.89])
    """

    gamma: float
    kappa: Float[np.ndarray, " D"]
    weights: Float[np.ndarray, " D"]  # c_d^2 / gamma^2

    @classmethod
    def of(cls, task: RegressionTask) -> "MergedDrop":
        """Raises ``ValueError`` for a task whose covariances do not all commute with Lambda."""
        paper_task(task, allow=SPECTRAL)
        squares = task.eigenvalues**4
        return cls(
            gamma=float(np.sqrt(squares.sum())),
            kappa=task.eigenvalues * task.second_moment_eigenvalues,
            weights=squares / squares.sum(),
        )

    @property
    def spread(self) -> float:
        """The largest kappa over the smallest: 1 for white tokens, about the cube of the spectrum's own ratio else."""
        return float(self.kappa.max() / self.kappa.min())

    @property
    def begun(self) -> float:
        """s_1 = gamma/(4 kappa_max), up to which the bounds for the time hold: the drop has begun."""
        return self.gamma / (4 * float(self.kappa.max()))

    def time_bounds(self, start: float, *, tau: float = 1.0) -> tuple[float, float]:
        """The earliest and the latest time at which s reaches ``begun`` from s_0 = ``start`` (V7-time), 0.15 tau/gamma apart at most.

        Raises ``ValueError`` for a start that is not below ``begun``.
        """
        start, tau = positive_number("start", start), positive_number("tau", tau)
        if start >= self.begun:
            raise ValueError(f"start must be below {self.begun:.6g}, where the drop has begun, got {start!r}")
        at = (self.begun, start, self.gamma, self.kappa.min(), self.kappa.max(), tau)
        return float(_bound("earliest")(*at)), float(_bound("latest")(*at))

    @property
    def share(self) -> float:
        """The share of the loss's whole fall that the ray of c, one drop, reaches at best (V7-share)."""
        return 1.0 / float((self.weights @ self.kappa) * (self.weights @ (1 / self.kappa)))

    @property
    def least_share(self) -> float:
        """The least share that any spectrum of this spread can have (V7-share)."""
        ratio = compile_expression(equation("V7-share").statement["bound"], (kappa_min, kappa_max))
        return float(ratio(self.kappa.min(), self.kappa.max()))

    @property
    def rates(self) -> Float[np.ndarray, " D"]:
        """The rates, ascending, at which the rest decays near the global minimum (V7-tail), in units of 1/tau."""
        omega = self.gamma * np.sqrt(self.weights) / self.kappa
        size = np.linalg.norm(omega)
        direction, root = omega / size, np.sqrt(self.kappa)
        shape = root[:, None] * (np.eye(len(root)) + np.outer(direction, direction)) * root
        return size * np.linalg.eigvalsh(shape)


@cache
def _bound(part: str) -> Any:
    return compile_expression(equation("V7-time").statement[part], (s_, s_0, gamma_, kappa_min, kappa_max, tau_))
