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
    by_V = rows[: H * a].reshape(H, a, a, n)
    by_V[:, range(a), range(a)] = W[:, None, :]
    by_W = rows[H * a :].reshape(H, n, a, n)
    by_W[:, range(n), :, range(n)] = V
    return rows.reshape(len(rows), a * n)


def bilinear_curvature(G: Float[np.ndarray, "a n"], H: int) -> Float[np.ndarray, "P P"]:
    a, n = G.shape
    matrix = np.zeros((H * (a + n), H * (a + n)))
    block = matrix[: H * a, H * a :].reshape(H, a, H, n)
    block[range(H), :, range(H)] = G
    matrix[H * a :, : H * a] = matrix[: H * a, H * a :].T
    return matrix


def trilinear_jacobian(
    V: Float[np.ndarray, "H a"], K: Float[np.ndarray, "H R b"], Q: Float[np.ndarray, "H R c"]
) -> Float[np.ndarray, "P abc"]:
    (H, a), (_, R, b), c = V.shape, K.shape, Q.shape[2]
    rows = np.zeros((H * (a + R * (b + c)), a, b, c))
    first, second = H * a, H * (a + R * b)
    by_V = rows[:first].reshape(H, a, a, b, c)
    by_V[:, range(a), range(a)] = (K.transpose(0, 2, 1) @ Q)[:, None]
    by_K = rows[first:second].reshape(H, R, b, a, b, c)
    by_K[:, :, range(b), :, range(b)] = V[:, None, :, None] * Q[:, :, None, :]
    by_Q = rows[second:].reshape(H, R, c, a, b, c)
    by_Q[:, :, range(c), :, :, range(c)] = V[:, None, :, None] * K[:, :, None, :]
    return rows.reshape(len(rows), a * b * c)


def trilinear_curvature(
    G: Float[np.ndarray, "a b c"], V: Float[np.ndarray, "H a"], K: Float[np.ndarray, "H R b"], Q: Float[np.ndarray, "H R c"]
) -> Float[np.ndarray, "P P"]:
    (H, a), (_, R, b), c = V.shape, K.shape, Q.shape[2]
    first, second, size = H * a, H * (a + R * b), H * (a + R * (b + c))
    matrix = np.zeros((size, size))
    heads = range(H)
    by_VK = matrix[:first, first:second].reshape(H, a, H, R, b)
    by_VK[heads, :, heads] = np.tensordot(Q, G, (2, 2)).transpose(0, 2, 1, 3)
    by_VQ = matrix[:first, second:].reshape(H, a, H, R, c)
    by_VQ[heads, :, heads] = np.tensordot(K, G, (2, 1)).transpose(0, 2, 1, 3)
    by_KQ = matrix[first:second, second:].reshape(H, R, b, H, R, c)
    force = np.tensordot(V, G, 1)
    for r in range(R):
        by_KQ[heads, r, :, heads, r] = force
    return matrix + matrix.T
