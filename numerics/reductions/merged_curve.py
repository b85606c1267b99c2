r"""Merged attention with any covariance: the exact reduction of its balanced flow, and the whole curve from the initial weights.

On balanced weights :math:`W_1 = w_2 n^\top` the flow closes in :math:`\omega = \mathrm{vec}\,B = s\,n`,
:math:`\tau\dot\omega = \|\omega\|(g + (n^\top g)n)` with g minus half the gradient in B: D^2 unknowns, or D if B, Lambda and
E(Lambda_hat^2) share eigenvectors. It is integrated in ln s and n, so that a start of 1e-28 is as easy as one of 1e-2:
:math:`\tau\frac d{dt}\ln s = 2\,n^\top g`, :math:`\tau\dot n = g - (n^\top g)n`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp

from .._checks import duration, finite_array, instance, positive_number, tolerance
from ..parametrizations.attention import MergedWeights
from ..tasks.losses import QuadraticLoss
from ..tasks.regression import SPECTRAL, RegressionTask, paper_task


@dataclass(frozen=True, eq=False)
class BalancedCurve:
    """A solution of the balanced flow on [0, ``t_end``]: the effective map and the loss at any times."""

    objective: QuadraticLoss
    t_end: float
    tau: float
    solution: Any
    basis: Float[np.ndarray, "n D D"]  # B = sum_i omega_i basis[i]

    def effective_map(self, times: Float[np.ndarray, "*T"]) -> Float[np.ndarray, "*T D D"]:
        """B at ``times``. Raises ``ValueError`` for times outside the run."""
        times = finite_array("times", times)
        if times.size and not (times.min() >= 0 and times.max() <= self.t_end):
            raise ValueError(f"times must lie between 0 and {self.t_end:.6g}, got {times.min():.6g} to {times.max():.6g}")
        state = self.solution(times.ravel() / self.tau) if times.size else np.ones((1 + len(self.basis), 0))
        omega = np.exp(state[0]) * state[1:] / np.linalg.norm(state[1:], axis=0)
        return np.einsum("nt,nij->tij", omega, self.basis).reshape(*times.shape, *self.basis.shape[1:])

    def loss(self, times: Float[np.ndarray, "*T"]) -> Float[np.ndarray, "*T"]:
        maps = self.effective_map(times)
        values = [self.objective.value(B) for B in maps.reshape(-1, *maps.shape[-2:])]
        return np.reshape(values, np.shape(times))


def balanced_curve(
    task: RegressionTask, start: Float[np.ndarray, "D D"], *, t_end: float, tau: float = 1.0, rtol: float = 1e-9
) -> BalancedCurve:
    """Integrate the balanced flow from the effective map ``start``, which must not be zero.

    If ``start``, the covariance and E(Lambda_hat^2) share eigenvectors, integrates D eigenvalues, otherwise D^2 entries.
    Raises ``ArithmeticError`` if the solver fails.
    """
    D = paper_task(task, allow=SPECTRAL).dimension
    B = finite_array("start", start, (D, D))
    tau, rtol = positive_number("tau", tau), tolerance("rtol", rtol)
    t_end = duration("t_end", t_end, tau)
    with np.errstate(over="ignore"):
        size = float(np.linalg.norm(B))
    if not 0 < size < np.inf:
        raise ValueError(f"start must {'not be zero, a rest point of the flow' if size == 0 else f'have a norm within float64, got {B!r}'}")
    loss, E, growth = QuadraticLoss.population(task), task.modes.keys, task.modes.growth
    inside = E.T @ B @ E
    if growth is not None and np.abs(inside - np.diag(np.diag(inside))).max() <= 1e-14 * size:
        basis = np.einsum("in,jn->nij", E, E)
        unknowns = np.diag(inside)
        levels = task.modes.levels

        def force(omega: np.ndarray) -> np.ndarray:
            return growth * (1 - omega / levels)
    else:
        basis = np.eye(D * D).reshape(D * D, D, D)
        unknowns = B.ravel()

        def force(omega: np.ndarray) -> np.ndarray:
            return loss.force(omega.reshape(D, D)).ravel()

    def field(_t: float, state: np.ndarray) -> np.ndarray:
        n = state[1:] / np.linalg.norm(state[1:])
        g = force(np.exp(state[0]) * n)
        along = n @ g
        return np.concatenate([[2 * along], g - along * n])

    first = np.concatenate([[np.log(size)], unknowns / size])
    run = solve_ivp(field, (0, t_end / tau), first, method="LSODA", rtol=rtol, atol=rtol * 1e-2, dense_output=True)
    if not run.success:
        raise ArithmeticError(f"the balanced flow failed at {run.t[-1] * tau:.6g} of {t_end:.6g}: {run.message}")
    return BalancedCurve(loss, t_end, tau, run.sol, basis)


def effective_start(task: RegressionTask, weights: MergedWeights) -> Float[np.ndarray, "D D"]:
    r"""The balanced map that Gaussian weights lead to: :math:`s_{\rm eff}\,\Lambda^2/\|\Lambda^2\|_F`.

    :math:`s_{\rm eff} = \frac14\|w_2(0) + W_1(0)\hat c\|^2` with :math:`\hat c = \mathrm{vec}\,\Lambda^2/\|\Lambda^2\|_F` is the
    size of the growing mode of the linear flow (see (15)). It leaves out terms of the order of the initial scale, for white tokens
    of its square.
    """
    paper_task(task, allow=SPECTRAL)
    if instance("weights", weights, MergedWeights, "MergedWeights").U.shape[1] != task.dimension:
        raise ValueError(f"weights must have the task's dimension {task.dimension}, got {weights.U.shape[1]}")
    square = task.covariance @ task.covariance
    direction = square / np.linalg.norm(square)
    mode = weights.v + np.einsum("hij,ij->h", weights.U, direction)
    with np.errstate(over="ignore"):
        size = float(mode @ mode) / 4
    if np.isinf(size):
        raise ValueError(f"weights must be small enough for a finite map, got weights up to {np.abs(weights.flatten()).max():.3g}")
    return size * direction


def predict_merged_curve(
    task: RegressionTask, weights: MergedWeights, *, t_end: float, tau: float = 1.0, rtol: float = 1e-9
) -> BalancedCurve:
    """The loss curve of merged attention from its initial weights, by D equations instead of H (D^2 + 1)."""
    return balanced_curve(task, effective_start(task, weights), t_end=t_end, tau=tau, rtol=rtol)
