r"""What separate attention can learn of a task: the whitened singular directions (V2-fixed), in the basis of the weights.

.. math::
    M^{-1/2}AQ^{-1/2} = \sum_d s_du_dv_d^\top, \qquad B_S = \sum_{d\in S} b_d\hat k_d\hat q_d^\top, \qquad
    \mathcal L(B_S) = c - \sum_{d\in S}s_d^2

with unit vectors :math:`\hat k_d \propto M^{-1/2}u_d` and :math:`\hat q_d \propto Q^{-1/2}v_d`. For the paper's task both are the
eigenvector e_d, :math:`b_d = \lambda_d/a_d` and :math:`s_d^2 = \lambda_d^3/a_d`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.sparse.csgraph import connected_components

from .._checks import finite_array

__all__ = ["Modes"]

# Off-diagonal entries below this fraction of the largest entry are rounding, and the matrices count as commuting.
COMMUTING = 1e-12
TURNED = 10  # as many times more is rounding after a turn to a common eigenbasis


@dataclass(frozen=True, eq=False)
class Modes:
    """The directions that can be learned: in the order of the eigenvalues of Lambda where A, M and Q are diagonal in an eigenbasis of
    it (largest growth first among equal eigenvalues that they tell apart), largest drop first where they are not.

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
        """The modes of the loss c - 2<A, B> + <B, M B Q>; ``basis`` holds the eigenvectors of Lambda.

        Where equal eigenvalues leave these a choice, that in which A, M and Q are diagonal is found.
        """
        common = _common_basis((A, M, Q), basis)
        if common is not None:
            growth, m, q = (np.diag(common.T @ one @ common).copy() for one in (A, M, Q))
            return cls(common, common, growth / (m * q), growth**2 / (m * q), growth)
        left, right = _inverse_root(M), _inverse_root(Q)
        u, s, vt = np.linalg.svd(left @ A @ right)
        keys, queries = left @ u, right @ vt.T
        lengths = [np.linalg.norm(one, axis=0) for one in (keys, queries)]
        return cls(keys / lengths[0], queries / lengths[1], s * lengths[0] * lengths[1], s**2, None)

    def effective_map(self, directions: object = slice(None)) -> Float[np.ndarray, "D D"]:
        """B_S for the indices S, all of them by default: the global minimum.

        Raises ``ValueError`` for directions that are not different integers from 0 to D - 1.
        """
        chosen = directions if isinstance(directions, slice) else self._indices(directions)
        return (self.keys[:, chosen] * self.levels[chosen]) @ self.queries[:, chosen].T

    def _indices(self, directions: object) -> list[int]:
        D = len(self.levels)
        listed = list(directions) if isinstance(directions, Iterable) and not isinstance(directions, str) else None
        whole = listed is not None and all(
            isinstance(d, int | np.integer) and not isinstance(d, bool) and 0 <= d < D for d in listed
        )
        if listed is None or not whole or len(set(listed)) < len(listed):
            raise ValueError(f"directions must be different integers from 0 to {D - 1}, got {directions!r}")
        return [int(d) for d in listed]

    def coordinates(self, B: Float[np.ndarray, "D D"]) -> Float[np.ndarray, "D D"]:
        """B in units of what is learned: diag(1 on S) for B_S. Raises ``ValueError`` for a B that is not D x D."""
        B = finite_array("B", B, self.keys.shape)
        return np.linalg.solve(self.keys, B) @ np.linalg.inv(self.queries).T / self.levels


def _common_basis(matrices: tuple[np.ndarray, ...], basis: np.ndarray) -> np.ndarray | None:
    """``basis``, turned inside sets of columns that the matrices couple, so that all of them are diagonal; None where nothing does that."""
    scales = [np.abs(one).max() for one in matrices]
    turned = [basis.T @ one @ basis / scale for one, scale in zip(matrices, scales, strict=True)]
    coupled = np.max([np.maximum(np.abs(one), np.abs(one.T)) for one in turned], axis=0) > COMMUTING
    groups = connected_components(coupled, directed=False)[1]
    if len(set(groups)) == len(groups):
        return basis
    common = basis.copy()
    for group in (np.flatnonzero(groups == g) for g in sorted(set(groups))):
        if len(group) > 1:
            parts = [one[np.ix_(group, group)] for one in turned]
            common[:, group] = basis[:, group] @ min(
                (_mixed(parts, i) for i in range(1, 6)), key=lambda V: _left(parts, V)
            )
    return common if _left(turned, basis.T @ common) <= TURNED * COMMUTING else None


def _mixed(parts: list[np.ndarray], number: int) -> np.ndarray:
    """The eigenvectors of one combination of matrices, those of the largest first matrix first: common ones unless eigenvalues meet."""
    mixture = sum(np.cos(number * (i + 1)) * (part + part.T) for i, part in enumerate(parts))
    vectors = np.linalg.eigh(mixture)[1]
    return vectors[:, np.argsort(-np.einsum("ia,ij,ja->a", vectors, parts[0], vectors), kind="stable")]


def _left(parts: list[np.ndarray], V: np.ndarray) -> float:
    """The largest entry off the diagonal in the basis V, in units of the matrices."""
    inside = [V.T @ part @ V for part in parts]
    return float(max(np.abs(one - np.diag(np.diag(one))).max() for one in inside))


def _inverse_root(matrix: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors / np.sqrt(values)) @ vectors.T
