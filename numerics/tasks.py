r"""The regression task of in-context learning: equations (2)-(4), with the moments that the loss needs.

Tokens :math:`x \sim N(0, \Lambda)`, a task vector :math:`w \sim N(0, I)` per sequence, labels :math:`y = w^\top x` and
:math:`N` labelled tokens in the context.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..theory import expect
from ..theory.notation import Lambda, N, beta, x_q, y_q
from ._checks import finite_array, positive_integer, symmetric_positive_definite
from .compile import compile_expression


class LossMoments(NamedTuple):
    """The moments that make the loss of a task: L(B) = c - 2<A, B> + <B, M B Q>."""

    A: Float[np.ndarray, "D D"]  # E(y_q beta x_q')
    M: Float[np.ndarray, "D D"]  # E(beta beta')
    Q: Float[np.ndarray, "D D"]  # E(x_q x_q')
    c: float  # E(y_q^2)


@dataclass(frozen=True, eq=False)
class RegressionTask:
    r"""In-context linear regression with token covariance :math:`\Lambda` and context length :math:`N`.

    Give exactly one of ``eigenvalues`` (the covariance is then their diagonal matrix, in the order given) and
    ``covariance`` (symmetric positive definite; its eigenvalues are listed in descending order).

    Raises ``ValueError`` for a covariance that isn't symmetric positive definite, for eigenvalues that aren't positive
    and finite, and for a context length that isn't an integer of at least 1.

    >>> task = RegressionTask(eigenvalues=[0.4, 0.3, 0.2, 0.1], context_length=31)
    >>> task.second_moment_eigenvalues.round(6).tolist()  # a_d, equation (32)
    [0.178065, 0.102581, 0.047742, 0.013548]
    """

    covariance: Float[np.ndarray, "D D"]
    context_length: int
    eigenvalues: Float[np.ndarray, " D"] = field(repr=False)
    eigenvectors: Float[np.ndarray, "D D"] = field(repr=False)

    def __init__(self, *, context_length: int, eigenvalues: object = None, covariance: object = None) -> None:
        if (eigenvalues is None) == (covariance is None):
            both = "neither" if eigenvalues is None else "both"
            raise ValueError(f"eigenvalues or covariance must be given, and not both: got {both}")
        if covariance is not None:
            matrix = symmetric_positive_definite("covariance", covariance)
            ascending, columns = np.linalg.eigh(matrix)
            values, vectors = ascending[::-1].copy(), columns[:, ::-1].copy()
        else:
            values = finite_array("eigenvalues", eigenvalues, ("D",))
            if not (values > 0).all():
                raise ValueError(f"eigenvalues must be positive, got {eigenvalues!r}")
            matrix, vectors = np.diag(values), np.eye(len(values))
        for name, array in (("covariance", matrix), ("eigenvalues", values), ("eigenvectors", vectors)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "context_length", positive_integer("context_length", context_length))

    @property
    def dimension(self) -> int:
        return len(self.eigenvalues)

    @cached_property
    def loss_moments(self) -> LossMoments:
        r"""A, M, Q, c of the population loss (9): here :math:`\Lambda^2, E(\hat\Lambda^2), \Lambda, \mathrm{tr}\Lambda`."""
        A, M, Q, c = _moments()(self.covariance, self.context_length)
        return LossMoments(A, M, Q, float(c))

    @property
    def second_moment(self) -> Float[np.ndarray, "D D"]:
        r""":math:`M = E(\hat\Lambda^2)`, equation (31)."""
        return self.loss_moments.M

    @cached_property
    def second_moment_eigenvalues(self) -> Float[np.ndarray, " D"]:
        r""":math:`a_d`, equation (32), in the order of ``eigenvalues``: M shares the eigenvectors of :math:`\Lambda`."""
        return np.einsum("id,ij,jd->d", self.eigenvectors, self.second_moment, self.eigenvectors)


@cache
def _moments() -> Callable[..., tuple]:
    """The moments of ``LossMoments`` as functions of Lambda and N, derived from the laws of the data."""
    return compile_expression(
        (expect(beta * y_q * x_q.T), expect(beta * beta.T), expect(x_q * x_q.T), expect(y_q**2)), (Lambda, N)
    )
