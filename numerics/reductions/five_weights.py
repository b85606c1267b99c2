r"""In-weight and in-context learning as five ordinary differential equations (V6-five), for white tokens and one fixed task vector.

With :math:`w_0 = r e` a head :math:`\mathbf v = a e`, :math:`U = U_1 e e^\top + U_2 (I - e e^\top)`, :math:`u = m e` stays of
this form, and from small initial weights all heads follow one: near the origin the weights grow along the leading singular
pair of :math:`A = E(y_q \phi)`, so the projections of the initial weights on that pair alone set the time.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp

from ...theory.notation import D, N, lambda_
from ...theory.results.in_weight.five_weights import FIVE, LENGTH
from ...theory.results.in_weight.population_loss import portion
from .._checks import finite_array, instance, tolerance
from ..compilation.equations import compiled
from ..parametrizations.full_attention import FullMergedWeights
from ..tasks.losses import QuadraticLoss
from ..tasks.mixed_task import MixedTask

LETTERS = (*FIVE, LENGTH, lambda_, D, N, portion)
# If the second singular value is above this fraction of the first, two directions leave the origin together and one head is not enough.
CLOSE = 0.99


def leading_head(loss: QuadraticLoss, weights: FullMergedWeights) -> FullMergedWeights:
    r"""The one head that grows from the origin as all of ``weights`` do: their part along the leading singular pair of A.

    With the pair :math:`(l, R)` of A as a (D+1) x (D+1)D matrix, head i has the amplitude :math:`s_i = (\nu_i^\top l +
    \langle W_i, R\rangle)/2` in the growing mode; the one head is :math:`\nu = s\,l, W = s R` with :math:`s^2 = \sum_i s_i^2`.

    Raises ``ValueError`` if the second singular value is nearly as large as the first.
    """
    A, weights = loss.A, instance("weights", weights, FullMergedWeights, "FullMergedWeights")
    if weights.effective_map().shape != A.shape:
        raise ValueError(f"weights must make an effective map of shape {A.shape}, got {weights.effective_map().shape}")
    left, singular, right = np.linalg.svd(A.reshape(len(A), -1), full_matrices=False)
    if singular[1] > CLOSE * singular[0]:
        raise ValueError(f"loss must have one leading direction, got the singular values {singular[:2]}")
    pair = left[:, 0], right[0].reshape(A.shape[1:])
    amplitudes = (weights.value @ pair[0] + np.tensordot(weights.key_query, pair[1])) / 2
    size = np.linalg.norm(amplitudes)
    return FullMergedWeights(size * pair[0][None], size * pair[1][None])


@dataclass(frozen=True, eq=False)
class FiveWeights:
    """The reduction of one problem; states are rows (a, v, U_1, U_2, m).

    Raises ``ValueError`` unless the tokens are white, D is at least 2, and there is one fixed task vector.
    """

    problem: MixedTask

    def __post_init__(self) -> None:
        covariance, fixed = instance("problem", self.problem, MixedTask).task.covariance, self.problem.fixed_tasks
        if len(covariance) < 2 or not np.array_equal(covariance, covariance[0, 0] * np.eye(len(covariance))):
            raise ValueError(f"problem must have white tokens in at least two dimensions, got the covariance {covariance}")
        if len(fixed) != 1 or not fixed.any():
            raise ValueError(f"problem must have one fixed task vector other than zero, got {fixed}")

    @property
    def _constants(self) -> tuple[float, ...]:
        task = self.problem.task
        length = float(np.linalg.norm(self.problem.fixed_tasks))
        return length, float(task.eigenvalues[0]), task.dimension, task.context_length, self.problem.random_portion

    def start(self, weights: FullMergedWeights) -> Float[np.ndarray, "5"]:
        """The five weights of the one head that replaces ``weights``, if all their blocks are small."""
        head = leading_head(self.problem.training_loss, weights)
        e = self.problem.fixed_tasks[0] / np.linalg.norm(self.problem.fixed_tasks)
        row, key_query = head.value[0], head.key_query[0]
        U, u = key_query[:-1], key_query[-1]
        along = e @ U @ e
        return np.array([e @ row[:-1], row[-1], along, (np.trace(U) - along) / (len(e) - 1), e @ u])

    def states(self, times: Float[np.ndarray, " T"], start: Float[np.ndarray, "5"], *, rtol: float = 1e-9) -> Float[np.ndarray, "T 5"]:
        """The five weights at increasing times t/tau, from ``start`` at 0.

        Raises ``ArithmeticError`` if the solver fails.
        """
        times, start = finite_array("times", times, ("T",)), finite_array("start", start, (5,))
        rtol, flow = tolerance("rtol", rtol), compiled("V6-five", LETTERS, part=[weight.name for weight in FIVE])
        if times[0] < 0 or times[-1] == 0 or (np.diff(times) <= 0).any():
            raise ValueError(f"times must increase, from 0 or later to a positive last one, got {times}")
        constants, scale = self._constants, float(np.abs(start).max()) or 1.0
        run = solve_ivp(
            lambda _t, state: np.array(flow(*state, *constants), dtype=float),
            (0.0, float(times[-1])),
            start,
            method="LSODA",
            t_eval=times,
            rtol=rtol,
            atol=rtol * scale,
        )
        if not run.success:
            raise ArithmeticError(f"the five weights could not be integrated: {run.message}")
        return run.y.T

    def effective_maps(self, states: Float[np.ndarray, "T 5"]) -> Float[np.ndarray, "T n n D"]:
        """The effective tensor, (D+1, D+1, D), of the one head at each state."""
        row, corner, along, across, column = finite_array("states", states, ("T", 5)).T
        e = self.problem.fixed_tasks[0] / np.linalg.norm(self.problem.fixed_tasks)
        value = np.column_stack([np.outer(row, e), corner])
        U = across[:, None, None] * np.eye(len(e)) + (along - across)[:, None, None] * np.outer(e, e)
        return np.einsum("ta,tbc->tabc", value, np.concatenate([U, np.outer(column, e)[:, None]], axis=1))

    def losses(self, states: Float[np.ndarray, "T 5"]) -> dict[str, Float[np.ndarray, " T"]]:
        """The four losses of ``MixedTask``, by name, along the states."""
        columns, p = tuple(finite_array("states", states, ("T", 5)).T), self.problem.random_portion
        random, fixed, noise = compiled("V6-five", LETTERS, part=("random", "fixed", "noise"))(*columns, *self._constants)
        return {"training": p * random + (1 - p) * fixed, "in context": random, "in weight": fixed, "memory": noise}
