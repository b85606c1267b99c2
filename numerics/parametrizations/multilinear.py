r"""First and second derivatives of the two multilinear forms behind every parametrization, as matrices.

Every effective map here is one of

.. math:: B_{an} = \sum_h V_{ha} W_{hn}, \qquad B_{abc} = \sum_{hr} V_{ha} K_{hrb} Q_{hrc},

and a takes one value for the reduced models. ``*_jacobian`` is dB/dW with a row for each weight, ``*_curvature`` the
matrix of second derivatives of <G, B>; the Hessian of a quadratic loss consists of these. Weights are flat, array by array.
"""

import numpy as np
from jaxtyping import Float


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
