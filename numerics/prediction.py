r"""The whole loss curve from the initial weights alone, without integrating the full system.

Separate attention (S) trained from small weights is, stage by stage: idle heads moving independently under the force of the directions
not yet learned (69); the first of them to escape learns the leading direction by the scalar flow (26), started by its escape time; the
others see that direction switched off when the drop is over. Leading errors are of the order of the initial scale.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from jaxtyping import Float

from ._checks import positive_number
from .reduced import ScalarReduction, escaping_ratio, formula
from .silent import SilentHead
from .tasks import RegressionTask
from .weights import SeparateWeights

__all__ = ["CurvePrediction", "predict_curve"]

HALF = 0.5 ** (1 / 3)  # v/v* where B_dd, which goes as v^3, is at half of its final value


@dataclass(frozen=True, eq=False)
class CurvePrediction:
    """The drops of a run, in the order in which they happen, and the loss curve they make.

    ``directions`` holds the learned unit vectors as columns, ``heads`` the head that learns each, ``escapes`` the time at which each head's
    truncated flow reaches infinity, and ``drops`` when the component of B along the direction is at half of its final value.
    """

    reductions: tuple[ScalarReduction, ...]
    directions: Float[np.ndarray, "D n"]
    heads: tuple[int, ...]
    escapes: Float[np.ndarray, " n"]
    initial_loss: float

    @property
    def drops(self) -> Float[np.ndarray, " n"]:
        units = np.array([reduction.time_unit for reduction in self.reductions])
        return self.escapes - units * half_point()

    def ratios(self, times: Float[np.ndarray, " T"]) -> Float[np.ndarray, "T n"]:
        """v/v* of each drop at the times given; its cube is the component of B over its final value."""
        times = np.asarray(times, dtype=float)
        columns = [
            escaping_ratio((escape - times) / reduction.time_unit)[0]
            for escape, reduction in zip(self.escapes, self.reductions, strict=True)
        ]
        return np.stack(columns, axis=-1)

    def loss(self, times: Float[np.ndarray, " T"]) -> Float[np.ndarray, " T"]:
        """The predicted loss."""
        ratios = self.ratios(times)
        loss = np.full(ratios.shape[:-1], self.initial_loss)
        for i, reduction in enumerate(self.reductions):
            loss += reduction.loss_drop(ratios[..., i])
        return loss

    def effective_map(self, times: Float[np.ndarray, " T"]) -> Float[np.ndarray, "T D D"]:
        """The predicted B."""
        levels = np.array([reduction.fixed_point**3 for reduction in self.reductions])
        return np.einsum("dn,tn,en->tde", self.directions, self.ratios(times) ** 3 * levels, self.directions)


def half_point() -> float:
    """The time between half of the drop and the escape, in the unit of the reduction: C_rho of (68) at rho^3 = 1/2."""
    return float(formula("plateau_constant")(HALF))


def predict_curve(
    task: RegressionTask,
    weights: SeparateWeights,
    *,
    tau: float = 1.0,
    route: Literal["quadrature", "flow"] = "quadrature",
) -> CurvePrediction:
    """Predict every drop of a run of rank-one separate attention from its initial weights.

    ``route`` moves the idle heads from one stage to the next: by inverting the exact quadrature, or by integrating each head's own cubic
    flow. Fewer heads than directions give as many drops as heads. Raises ``ValueError`` for a rank above 1.
    """
    if not isinstance(task, RegressionTask):
        raise TypeError(f"task must be a RegressionTask, got {task!r}")
    if not isinstance(weights, SeparateWeights):
        raise TypeError(f"weights must be SeparateWeights, got {weights!r}")
    tau = positive_number("tau", tau)
    if route not in ("quadrature", "flow"):
        raise ValueError(f"route must be 'quadrature' or 'flow', got {route!r}")
    H, R, D = weights.k.shape
    if R != 1 or task.dimension != D:
        raise ValueError(
            f"weights must have rank 1 and the task's dimension {task.dimension}, got rank {R} and dimension {D}"
        )
    basis = task.eigenvectors.copy()
    frequencies = task.eigenvalues.copy()
    idle = {i: SilentHead(weights.v[i], weights.k[i] @ basis, weights.q[i] @ basis, frequencies) for i in range(H)}
    now, reductions, columns, heads, escapes = 0.0, [], [], [], []
    while idle and frequencies.any():
        waits = {i: head.escape_time() for i, head in idle.items()}
        winner = min(waits, key=waits.__getitem__)
        if not np.isfinite(waits[winner]):
            break
        head = idle.pop(winner)
        component = _leading(head)
        reduction = ScalarReduction(
            float(task.eigenvalues[component]), float(task.second_moment_eigenvalues[component])
        )
        escape = now + waits[winner]
        reductions.append(replace(reduction, tau=tau))
        columns.append(basis[:, component].copy())
        heads.append(winner)
        escapes.append(escape)
        switch = max(escape - reduction.time_unit, now)
        frequencies = np.where(np.arange(D) == component, 0.0, frequencies)
        move: Callable[[SilentHead, float], SilentHead] = SilentHead.after if route == "quadrature" else SilentHead.flow
        idle = {i: replace(move(other, switch - now), frequencies=frequencies) for i, other in idle.items()}
        now = switch
    return CurvePrediction(
        tuple(reductions),
        np.stack(columns, axis=1) if columns else np.empty((D, 0)),
        tuple(heads),
        tau * np.array(escapes),
        float(np.sum(task.eigenvalues)),
    )


def _leading(head: SilentHead) -> int:
    """The fastest growing direction that the head has a component of: the one that it will learn."""
    return int(np.argmax(np.where(head.amplitudes()[0] + head.amplitudes()[1] > 0, head.frequencies, 0.0)))
