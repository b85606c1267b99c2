r"""The two multilinear forms behind every parametrization, with their first and second derivatives as matrices.

Every effective map here is one of

.. math:: B_{an} = \sum_h V_{ha} W_{hn}, \qquad B_{abc} = \sum_{hr} V_{ha} K_{hrb} Q_{hrc}.

In the reduced models a takes one value, and V has no axis for it; rank one may leave out the axis of r. ``*_jacobian`` is dB/dW with a row
for each weight, ``*_curvature`` the matrix of second derivatives of <G, B>; the Hessian of a quadratic loss consists of these. Weights are
flat, array by array.
"""

from typing import ClassVar

import numpy as np
from jaxtyping import Float

from ..tasks.losses import QuadraticLoss
from .base import Arrays, Field, Parametrization


def _by_head(array: np.ndarray) -> np.ndarray:
    """A row for each head."""
    return array.reshape(len(array), -1)


def _by_slot(array: np.ndarray) -> np.ndarray:
    """The vector of each head and slot r."""
    return array.reshape(len(array), -1, array.shape[-1])


class Bilinear(Parametrization):
    """B = sum_h V_h (x) W_h; a subclass is a dataclass of the arrays V and W, with the name of what the flow conserves."""

    balance: ClassVar[str] = "w_2 w_2' - W_1 W_1'"

    @classmethod
    def combine_many(cls, V: np.ndarray, W: np.ndarray) -> np.ndarray:
        rows = V.reshape(*V.shape[:2], -1).swapaxes(1, 2)
        return (rows @ W.reshape(*W.shape[:2], -1)).reshape(len(V), *V.shape[2:], *W.shape[2:])

    @classmethod
    def combine(cls, V: np.ndarray, W: np.ndarray) -> np.ndarray:
        H = len(V)
        return (V.reshape(H, -1).T @ W.reshape(H, -1)).reshape(V.shape[1:] + W.shape[1:])

    @classmethod
    def spread(cls, G: np.ndarray, V: np.ndarray, W: np.ndarray) -> Arrays:
        H, rows = len(V), V.reshape(len(V), -1)
        flat = G.reshape(rows.shape[1], -1)
        return (W.reshape(H, -1) @ flat.T).reshape(V.shape), (rows @ flat).reshape(W.shape)

    def field(self, loss: QuadraticLoss) -> Field:
        """That of the base class in half its time, in arrays that are used again."""
        (V, W), A, C, state, out = map(_by_head, self.arrays), loss.A, loss.C, np.empty(self.size), np.empty(self.size)
        (V, W), (dV, dW) = ((flat[: V.size].reshape(V.shape), flat[V.size :].reshape(W.shape)) for flat in (state, out))
        B, force = np.empty(A.shape), np.empty(A.shape)
        rows, flat, G = V.T, B.reshape(len(V.T), -1), force.reshape(len(V.T), -1)
        copy, subtract, dot, turned = np.copyto, np.subtract, np.dot, G.T

        def field(_t: float, vector: np.ndarray) -> np.ndarray:
            copy(state, vector)
            dot(rows, W, flat)
            subtract(A, C(B), force)
            dot(W, turned, dV)
            dot(V, G, dW)
            return out.copy()

        return field

    @classmethod
    def jacobian(cls, V: np.ndarray, W: np.ndarray) -> np.ndarray:
        return bilinear_jacobian(_by_head(V), _by_head(W))

    @classmethod
    def curvature(cls, G: np.ndarray, V: np.ndarray, W: np.ndarray) -> np.ndarray:
        return bilinear_curvature(G.reshape(_by_head(V).shape[1], -1), len(V))

    def conserved(self) -> dict[str, np.ndarray]:
        """Equation (17): V V' - W W', whose rows are those of the heads."""
        V, W = map(_by_head, self.arrays)
        return {self.balance: V @ V.T - W @ W.T}


class Trilinear(Parametrization):
    """B = sum_hr V_h (x) K_hr (x) Q_hr; a subclass is a dataclass of the arrays V, K and Q, with the names of what the flow conserves."""

    balances: ClassVar[tuple[str, str]] = ("K'K - Q'Q", "tr K'K - v^2")

    @classmethod
    def combine_many(cls, V: np.ndarray, K: np.ndarray, Q: np.ndarray) -> np.ndarray:
        T, H, b, c = *V.shape[:2], K.shape[-1], Q.shape[-1]
        weighted = V.reshape(T, H, 1, -1, 1) * K.reshape(T, H, -1, 1, b)
        sums = weighted.reshape(T, -1, weighted.shape[3] * b).swapaxes(1, 2) @ Q.reshape(T, -1, c)
        return sums.reshape(T, *V.shape[2:], b, c)

    @classmethod
    def spread(cls, G: np.ndarray, V: np.ndarray, K: np.ndarray, Q: np.ndarray) -> Arrays:
        H, (b, c), rows = len(V), (K.shape[-1], Q.shape[-1]), V.reshape(len(V), -1)
        keys, queries, flat = K.reshape(H, -1, b), Q.reshape(H, -1, c), G.reshape(rows.shape[1], b * c)
        force = (rows @ flat).reshape(H, b, c)
        products = (keys.transpose(0, 2, 1) @ queries).reshape(H, b * c)
        return (products @ flat.T).reshape(V.shape), (queries @ force.transpose(0, 2, 1)).reshape(K.shape), (keys @ force).reshape(Q.shape)

    @classmethod
    def jacobian(cls, V: np.ndarray, K: np.ndarray, Q: np.ndarray) -> np.ndarray:
        return trilinear_jacobian(_by_head(V), _by_slot(K), _by_slot(Q))

    @classmethod
    def curvature(cls, G: np.ndarray, V: np.ndarray, K: np.ndarray, Q: np.ndarray) -> np.ndarray:
        return trilinear_curvature(G.reshape(-1, K.shape[-1], Q.shape[-1]), _by_head(V), _by_slot(K), _by_slot(Q))

    def conserved(self) -> dict[str, np.ndarray]:
        """Equations (79), (85), and the whole R x R matrix K_i' K_i - Q_i' Q_i of each head (its diagonal is in (85))."""
        V, K, Q = self.arrays
        gram, squares = (one @ one.swapaxes(1, 2) for one in (_by_slot(K), _by_slot(Q)))
        balance = np.trace(gram, axis1=1, axis2=2) - np.sum(_by_head(V) ** 2, axis=1)
        return dict(zip(self.balances, ((gram - squares).reshape(*K.shape[:-1], *K.shape[1:-1]), balance), strict=True))


def bilinear_jacobian(V: Float[np.ndarray, "H a"], W: Float[np.ndarray, "H n"]) -> Float[np.ndarray, "P an"]:
    (H, a), n = V.shape, W.shape[1]
    rows = np.zeros((H * (a + n), a, n))
    np.einsum("haan->han", rows[: H * a].reshape(H, a, a, n))[...] = W[:, None, :]
    np.einsum("hnan->hna", rows[H * a :].reshape(H, n, a, n))[...] = V[:, None, :]
    return rows.reshape(len(rows), a * n)


def bilinear_curvature(G: Float[np.ndarray, "a n"], H: int) -> Float[np.ndarray, "P P"]:
    a, n = G.shape
    matrix = np.zeros((H * (a + n), H * (a + n)))
    np.einsum("hahn->han", matrix[: H * a, H * a :].reshape(H, a, H, n))[...] = G
    matrix[H * a :, : H * a] = matrix[: H * a, H * a :].T
    return matrix


def trilinear_jacobian(
    V: Float[np.ndarray, "H a"], K: Float[np.ndarray, "H R b"], Q: Float[np.ndarray, "H R c"]
) -> Float[np.ndarray, "P abc"]:
    (H, a), (_, R, b), c = V.shape, K.shape, Q.shape[2]
    rows = np.zeros((H * (a + R * (b + c)), a, b, c))
    first, second = H * a, H * (a + R * b)
    np.einsum("haabc->habc", rows[:first].reshape(H, a, a, b, c))[...] = (K.transpose(0, 2, 1) @ Q)[:, None]
    np.einsum("hrbabc->hrbac", rows[first:second].reshape(H, R, b, a, b, c))[...] = (V[:, None, :, None] * Q[:, :, None, :])[:, :, None]
    np.einsum("hrcabc->hrcab", rows[second:].reshape(H, R, c, a, b, c))[...] = (V[:, None, :, None] * K[:, :, None, :])[:, :, None]
    return rows.reshape(len(rows), a * b * c)


def trilinear_curvature(
    G: Float[np.ndarray, "a b c"], V: Float[np.ndarray, "H a"], K: Float[np.ndarray, "H R b"], Q: Float[np.ndarray, "H R c"]
) -> Float[np.ndarray, "P P"]:
    (H, a), (_, R, b), c = V.shape, K.shape, Q.shape[2]
    first, second, size = H * a, H * (a + R * b), H * (a + R * (b + c))
    matrix = np.zeros((size, size))
    by_VK, by_VQ = matrix[:first, first:second].reshape(H, a, H, R, b), matrix[:first, second:].reshape(H, a, H, R, c)
    np.einsum("hahrb->hrab", by_VK)[...] = (Q.reshape(-1, c) @ G.reshape(-1, c).T).reshape(H, R, a, b)
    np.einsum("hahrc->hrac", by_VQ)[...] = (K.reshape(-1, b) @ G.transpose(1, 0, 2).reshape(b, -1)).reshape(H, R, a, c)
    by_KQ = matrix[first:second, second:].reshape(H, R, b, H, R, c)
    np.einsum("hrbhrc->rhbc", by_KQ)[...] = (V @ G.reshape(a, -1)).reshape(H, b, c)
    return matrix + matrix.T
