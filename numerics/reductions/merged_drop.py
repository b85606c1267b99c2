r"""The drop of merged attention for any covariance (V7): bounds on its time, how much it learns, and how slow the rest is.

The balanced flow starts from B = s_0 c/gamma with c = Lambda^2, to which small initial weights lead (``effective_start`` of
:mod:`~iclflow.numerics.reductions.merged_curve`); s is the size of B = s n. Half of the drop is half of the loss's fall along the ray
of c, from the start to the least loss on it. ``balanced_curve`` integrates the flow; here are the formulas.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from ...theory.notation import gamma as gamma_, s as s_, s_0, tau as tau_
from ...theory.results.merged.drop import k, k_2, kappa_max, kappa_min
from ...theory.results.merged.drop_bounds import k_S, psi
from ...theory.results.merged.turning import c_d, kappa as kappa_d, r, x
from .._checks import finite_array, positive_number
from ..compilation.equations import compiled
from ..tasks.regression import SPECTRAL, RegressionTask, paper_task


@dataclass(frozen=True, eq=False)
class MergedDrop:
    r"""The drop as the spectrum determines it: ``gamma`` is the norm of :math:`\Lambda^2`, ``kappa`` holds :math:`\lambda_da_d`.

    >>> drop = MergedDrop.of(RegressionTask(eigenvalues=[1.0, 0.1], context_length=31))
    >>> round(drop.share, 3), drop.rates.round(2).tolist()  # nine tenths in one drop, the rest 400 times more slowly
    (0.929, [0.02, 7.89])
    """

    gamma: float
    kappa: Float[np.ndarray, " D"]
    weights: Float[np.ndarray, " D"]  # c_d^2 / gamma^2

    @classmethod
    def of(cls, task: RegressionTask) -> "MergedDrop":
        """The drop of a task. Raises ``ValueError`` for variations beyond noise, context lengths and token laws, and for a token law
        whose fourth moment does not commute with Lambda."""
        paper_task(task, allow=SPECTRAL)
        squares = task.eigenvalues**4
        return cls(
            gamma=float(np.sqrt(squares.sum())), kappa=task.eigenvalues * task.second_moment_eigenvalues, weights=squares / squares.sum()
        )

    @property
    def spread(self) -> float:
        """The largest kappa over the smallest: 1 for white tokens, in long contexts about the cube of the ratio of eigenvalues."""
        return float(self.kappa.max() / self.kappa.min())

    @property
    def mean(self) -> float:
        """k, the mean of kappa along the ray."""
        return float(self.weights @ self.kappa)

    @property
    def middle(self) -> float:
        """gamma/(2k), half the size at which the loss on the ray is least; the bounds of ``time_bounds`` hold up to it."""
        return self.gamma / (2 * self.mean)

    def time_bounds(self, start: float, size: float | None = None, *, tau: float = 1.0) -> tuple[float, float]:
        """The earliest and the latest time at which s reaches ``size``, by default ``middle``, from ``start`` on the ray (V7-time).

        They are 0.35 tau/gamma apart at most. Raises ``ValueError`` unless start < size <= middle.
        """
        start, tau = positive_number("start", start), positive_number("tau", tau)
        size = self.middle if size is None else positive_number("size", size)
        if not start < size <= self.middle:
            raise ValueError(f"size must be above start = {start!r} and at most {self.middle:.6g}, got {size!r}")
        values = {s_: size, s_0: start, gamma_: self.gamma, k: self.mean, tau_: tau}
        values[k_S] = self._smallest_mean(_number("V7-time", "S", values))
        return _number("V7-time", "earliest", values), _number("V7-time", "latest", values)

    def half_bounds(self, start: float, *, tau: float = 1.0) -> tuple[float, float]:
        """The earliest and the latest time to half of the drop from s_0 = ``start`` on the ray (V7-half), 0.25 tau/gamma apart at most.

        Raises ``ValueError`` for a start of half the middle or more, at which half of the fall may be over.
        """
        start, tau = positive_number("start", start), positive_number("tau", tau)
        if start >= self.middle / 2:
            raise ValueError(f"start must be below {self.middle / 2:.6g}, half the middle of the drop, got {start!r}")
        values = {s_0: start, gamma_: self.gamma, k: self.mean, tau_: tau}
        smallest = self._smallest_mean(_number("V7-half", "S", values))
        values[psi] = np.sqrt(1 - smallest / (2 * self.mean))
        return _number("V7-half", "earliest", values), _number("V7-half", "latest", values)

    def _smallest_mean(self, travelled: float) -> float:
        """k_S, with the weights c_d^2 exp(-2 kappa_d S)."""
        tilted = self.weights * np.exp(-2 * travelled * (self.kappa - self.kappa.min()))
        return float(tilted @ self.kappa / tilted.sum())

    def learned(self, times: Float[np.ndarray, "*T"] | float) -> Float[np.ndarray, "*T"]:
        """The share of the loss's whole fall that is learned by ``times``, from the middle of the drop in tau/gamma (V7-turn).

        To leading order the size follows the sigmoid of the ray while the direction turns. For a wide spectrum the curve rests at
        ``share``, for a narrow one it goes on to 1 within the drop.
        """
        moments = finite_array("times", times)
        fall = [self._learned(float(expit(2 * moment))) for moment in moments.ravel()]
        return np.reshape(fall, moments.shape) * self.share

    def _learned(self, part: float) -> float:
        """The fall of the loss, over that of the whole ray, when the sigmoid is at ``part`` of its height."""
        ratio = compiled("V7-turn", (kappa_d, k, x), part="r", backend="mpmath")
        fall = compiled("V7-turn", (c_d, kappa_d, k, x, r), part="fall")
        at = (self.kappa, self.mean, part)
        ratios = np.array([float(ratio(value, self.mean, part)) for value in self.kappa])
        return float(fall(np.sqrt(self.weights), *at, ratios).sum()) * self.mean

    @property
    def share(self) -> float:
        """The fall of the loss along the ray of c over its whole fall (V7-share): the drop of a wide spectrum comes to rest there."""
        return 1.0 / float(self.mean * (self.weights @ (1 / self.kappa)))

    @property
    def further(self) -> float:
        """The rate at which the loss still falls at the end of the ray, over its fall along the ray, in units of gamma/tau (V7-share).

        If it is small, as for eigenvalues 10 : 1 (0.0002), the drop comes to rest at ``share``; for 3 : 2 : 1 (0.2) it does not.
        """
        values = {gamma_: 1.0, k: self.mean, k_2: float(self.weights @ self.kappa**2)}
        return _number("V7-share", "on", values) / _number("V7-share", "fall", values)

    @property
    def least_share(self) -> float:
        """The least ``share`` of any spectrum with this ``spread`` (V7-share)."""
        ratio = compiled("V7-share", (kappa_min, kappa_max), part="bound")
        return float(ratio(self.kappa.min(), self.kappa.max()))

    @property
    def rates(self) -> Float[np.ndarray, " D"]:
        """The rates, ascending, at which the rest decays near the global minimum (V7-tail), in units of 1/tau."""
        omega = self.gamma * np.sqrt(self.weights) / self.kappa
        size = np.linalg.norm(omega)
        direction, root = omega / size, np.sqrt(self.kappa)
        shape = root[:, None] * (np.eye(len(root)) + np.outer(direction, direction)) * root
        return size * np.linalg.eigvalsh(shape)


def _number(number: str, part: str, values: dict[Any, float]) -> float:
    return float(compiled(number, tuple(values), part=part)(*values.values()))
