r"""The directions of a task that separate attention can learn (V2-fixed).

.. math::
    M^{-1/2}AQ^{-1/2} = \sum_d s_du_dv_d^\top, \qquad B_S = \sum_{d\in S} b_d\hat k_d\hat q_d^\top, \qquad
    \mathcal L(B_S) = c - \sum_{d\in S}s_d^2

with unit vectors :math:`\hat k_d \propto M^{-1/2}u_d` and :math:`\hat q_d \propto Q^{-1/2}v_d`. For the paper's task both are the
eigenvector e_d, :math:`b_d = \lambda_d/a_d` and :math:`s_d^2 = \lambda_d^3/a_d`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.sparse.csgraph import connected_components

from .._checks import finite_array, symmetric_positive_definite

# Matrices count as commuting if their off-diagonal entries are below this fraction of the largest entry ...
COMMUTING = 1e-12
TURN_ROUNDING = 10  # ... or below this many times more after a turn to a common eigenbasis


@dataclass(frozen=True, eq=False)
class Modes:
    """The unit vectors k_d (columns of ``keys``) and q_d (of ``queries``), the levels b_d and the drops s_d^2 of the loss.

    They are in the order of the eigenvalues of Lambda if A, M and Q are diagonal in one of its eigenbases, with the largest growth
    first where A, M and Q split a degenerate eigenvalue; otherwise the largest drop comes first.

    ``growth`` holds the rates at small weights, tau dv/dt = growth v^2. It is None without a common eigenbasis: heads then grow
    along the singular vectors of A, which are not the directions they end in.
    """

    keys: Float[np.ndarray, "D D"]
    queries: Float[np.ndarray, "D D"]
    levels: Float[np.ndarray, " D"]
    drops: Float[np.ndarray, " D"]
    growth: Float[np.ndarray, " D"] | None

    @property
    def learnable(self) -> list[int]:
        """The directions that can be learned: all, unless task vectors span fewer."""
        return [int(d) for d in np.flatnonzero(self.levels)]

    @classmethod
    def of(cls, A: np.ndarray, M: np.ndarray, Q: np.ndarray, basis: np.ndarray, rank: int | None = None) -> "Modes":
        """The modes of the loss c - 2<A, B> + <B, M B Q>; ``basis`` holds eigenvectors of Lambda, ``rank`` is that of A, D by default.

        For equal eigenvalues it chooses those in which A, M and Q are diagonal, if there are any. Only M and Q are inverted: directions
        beyond the rank have level, drop and growth 0, and are never learned.

        Raises ``ValueError`` if M is singular, as for sign tokens in a context of one.
        """
        if rank is not None and rank < len(A):  # beyond it M holds only what N tokens of the context add
            symmetric_positive_definite("M", M)
        common = _common_basis((A, M, Q), basis)
        if common is not None:
            growth, m, q = (np.diag(common.T @ one @ common).copy() for one in (A, M, Q))
            growth[_beyond(growth**2 / (m * q), rank)] = 0.0
            return cls(common, common, growth / (m * q), growth**2 / (m * q), growth)
        left, right = _inverse_root(M), _inverse_root(Q)
        u, s, vt = np.linalg.svd(left @ A @ right)
        s[_beyond(s, rank)] = 0.0
        keys, queries = left @ u, right @ vt.T
        lengths = [np.linalg.norm(one, axis=0) for one in (keys, queries)]
        return cls(keys / lengths[0], queries / lengths[1], s * lengths[0] * lengths[1], s**2, None)

    def effective_map(self, directions: object = slice(None)) -> Float[np.ndarray, "D D"]:
        """B_S for the indices S; for all of them, the default, the global minimum.

        Raises ``ValueError`` unless ``directions`` are different integers from 0 to D - 1.
        """
        chosen = directions if isinstance(directions, slice) else self.indices(directions)
        return (self.keys[:, chosen] * self.levels[chosen]) @ self.queries[:, chosen].T

    def indices(self, directions: object) -> list[int]:
        """``directions`` as different integers from 0 to D - 1, or ``ValueError``."""
        D = len(self.levels)
        listed: list[Any] = list(directions) if isinstance(directions, Iterable) and not isinstance(directions, str) else [None]
        if not all(isinstance(d, Integral) and not isinstance(d, bool) and 0 <= int(d) < D for d in listed) or len({*listed}) < len(listed):
            raise ValueError(f"directions must be different integers from 0 to {D - 1}, got {directions!r}")
        return list(map(int, listed))

    def coordinates(self, B: Float[np.ndarray, "*n D D"]) -> Float[np.ndarray, "*n D D"]:
        """B in the modes, in units of their levels (of the largest, if a level is 0): for B_S the diagonal matrix with 1 on S.

        Raises ``ValueError`` unless B is D x D.
        """
        B = finite_array("B", B)
        if B.shape[-2:] != self.keys.shape:
            raise ValueError(f"B must have shape {self.keys.shape}, got shape {B.shape}")
        units = np.where(self.levels > 0, self.levels, self.levels.max())
        return np.linalg.solve(self.keys, B) @ np.linalg.inv(self.queries).T / units


def _beyond(values: np.ndarray, rank: int | None) -> np.ndarray:
    """The indices of all but the ``rank`` largest values."""
    return np.argsort(-values, kind="stable")[len(values) if rank is None else rank :]


def _common_basis(matrices: tuple[np.ndarray, ...], basis: np.ndarray) -> np.ndarray | None:
    """``basis``, turned within sets of columns that the matrices couple, so that all are diagonal; None if no turn does that."""
    scales = [np.abs(one).max() for one in matrices]
    turned = [basis.T @ one @ basis / scale for one, scale in zip(matrices, scales, strict=True)]
    coupled = np.max([np.maximum(np.abs(one), np.abs(one.T)) for one in turned], axis=0) > COMMUTING
    if not np.triu(coupled, 1).any():
        return basis
    groups, common = connected_components(coupled, directed=False)[1], basis.copy()
    for group in (np.flatnonzero(groups == g) for g in sorted(set(groups))):
        if len(group) > 1:
            parts = [one[np.ix_(group, group)] for one in turned]
            common[:, group] = basis[:, group] @ min((_eigenvectors(parts, i) for i in range(1, 6)), key=lambda V: _off_diagonal(parts, V))
    return common if _off_diagonal(turned, basis.T @ common) <= TURN_ROUNDING * COMMUTING else None


def _eigenvectors(parts: list[np.ndarray], number: int) -> np.ndarray:
    """The eigenvectors of a linear combination of matrices, in descending order of the first matrix.

    Matrices that commute share them, unless eigenvalues of the combination coincide: hence several tries, by ``number``.
    """
    mixture = sum(np.cos(number * (i + 1)) * (part + part.T) for i, part in enumerate(parts))
    vectors = np.linalg.eigh(mixture)[1]
    return vectors[:, np.argsort(-np.einsum("ia,ij,ja->a", vectors, parts[0], vectors), kind="stable")]


def _off_diagonal(parts: list[np.ndarray], V: np.ndarray) -> float:
    """The largest off-diagonal entry of the matrices in the basis V."""
    inside = [V.T @ part @ V for part in parts]
    return float(max(np.abs(one - np.diag(np.diag(one))).max() for one in inside))


def _inverse_root(matrix: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors / np.sqrt(values)) @ vectors.T
