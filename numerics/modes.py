r"""What separate attention can learn of a task: the whitened singular directions (V2-fixed), in the basis of the weights.

.. math::
    M^{-1/2}AQ^{-1/2} = \sum_d s_du_dv_d^\top, \qquad B_S = \sum_{d\in S} b_d\hat k_d\hat q_d^\top, \qquad
    \mathcal L(B_S) = c - \sum_{d\in S}s_d^2

with unit vectors :math:`\hat k_d \propto M^{-1/2}u_d` and :math:`\hat q_d \propto Q^{-1/2}v_d`. For the paper's task both are the
eigenvector e_d, :math:`b_d = \lambda_d/a_d` and :math:`s_d^2 = \lambda_d^3/a_d`.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

__all__ = ["Modes"]

# Off-diagonal entries below this fraction of the largest entry are rounding, and the matrices count as commuting.
COMMUTING = 1e-12


@dataclass(frozen=True, eq=False)
class Modes:
    """The directions that can be learned: in the order of the eigenvalues of Lambda where A, M and Q are diagonal in its eigenbasis,
    largest drop first where they are not.

    ``growth`` is the rate of each at small weights, tau dv/dt = growth v^2, and None where nothing commutes: heads then grow along the
    singular vectors of A, which are not the directions they end in.
    """

    keys: Float[np.ndarray, "D D"]
    queries: Float[np.ndarray, "D D"]
    levels: Float[np.ndarray, " D"]
    drops: Float[np.ndarray, " D"]
    growth: Float[np.ndarray, " D"] | None

    @classmethod
    def of(cls, A: np.ndarray, M: np.ndarray, Q: np.ndarray, basis: np.ndarray) -> "Modes":
        """The modes of the loss c - 2<A, B> + <B, M B Q>; ``basis`` holds the eigenvectors of Lambda."""
        turned = [basis.T @ one @ basis for one in (A, M, Q)]
        if all(np.abs(one - np.diag(np.diag(one))).max() <= COMMUTING * np.abs(one).max() for one in turned):
            growth, m, q = (np.diag(one).copy() for one in turned)
            return cls(basis, basis, growth / (m * q), growth**2 / (m * q), growth)
        left, right = _inverse_root(M), _inverse_root(Q)
        u, s, vt = np.linalg.svd(left @ A @ right)
        keys, queries = left @ u, right @ vt.T
        lengths = [np.linalg.norm(one, axis=0) for one in (keys, queries)]
        return cls(keys / lengths[0], queries / lengths[1], s * lengths[0] * lengths[1], s**2, None)

    def effective_map(self, directions: object = slice(None)) -> Float[np.ndarray, "D D"]:
        """B_S for the indices S, all of them by default: the global minimum."""
        chosen = directions if isinstance(directions, slice) else list(directions)  # type: ignore[call-overload]
        return (self.keys[:, chosen] * self.levels[chosen]) @ self.queries[:, chosen].T

    def coordinates(self, B: Float[np.ndarray, "D D"]) -> Float[np.ndarray, "D D"]:
        """B in units of what is learned: diag(1 on S) for B_S."""
        return np.linalg.solve(self.keys, B) @ np.linalg.inv(self.queries).T / self.levels


def _inverse_root(matrix: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors / np.sqrt(values)) @ vectors.T
