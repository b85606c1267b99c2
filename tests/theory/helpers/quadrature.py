"""Expectations without the engine: Gauss-Hermite quadrature over the task, the query and every token, exact for polynomials.

Each coordinate takes ``nodes`` points, which integrate degree 2 * nodes - 1 in that coordinate exactly; what comes out differs from the
expectation by roundoff only. ``numbers`` evaluates a trace polynomial at matrices, again without ``expect``.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np
from iclflow.theory.algebra.coefficients import coefficient_of, scalar_of
from iclflow.theory.algebra.polynomial import TracePolynomial
from iclflow.theory.algebra.words import cut_position, is_inverse, is_transposed, symbol_of
from iclflow.theory.notation import D, Lambda, N


@dataclass(frozen=True)
class Sequences:
    """All nodes at once: arrays whose first axis runs over them, and the weights that average them."""

    w: np.ndarray  # (nodes, D)
    x_q: np.ndarray  # (nodes, D)
    tokens: np.ndarray  # (nodes, N, D)
    weights: np.ndarray  # (nodes,)

    @classmethod
    def of(cls, covariance: np.ndarray, context: int, nodes: int) -> "Sequences":
        size = len(covariance)
        points, weights = np.polynomial.hermite_e.hermegauss(nodes)
        count = size * (context + 2)
        grid = np.array(list(product(points, repeat=count)))
        weight = np.prod(np.array(list(product(weights / weights.sum(), repeat=count))), axis=1)
        parts = grid.reshape(-1, context + 2, size)
        root = np.linalg.cholesky(covariance)
        return cls(parts[:, 0], parts[:, 1] @ root.T, parts[:, 2:] @ root.T, weight)

    @property
    def Lambda_hat(self) -> np.ndarray:
        return np.einsum("pni,pnj->pij", self.tokens, self.tokens) / self.tokens.shape[1]

    @property
    def beta(self) -> np.ndarray:
        return np.einsum("pij,pj->pi", self.Lambda_hat, self.w)

    @property
    def y_q(self) -> np.ndarray:
        return np.einsum("pi,pi->p", self.w, self.x_q)

    def mean(self, values: np.ndarray) -> np.ndarray:
        return np.tensordot(self.weights, values, axes=1)


def head(sequences: Sequences, row, v, U, u) -> np.ndarray:
    """The output of one head with all its blocks, equation (7), from the Gram matrix of each sequence."""
    context = sequences.tokens.shape[1]
    query = np.einsum("pi,pj->pij", sequences.x_q, sequences.x_q) / context
    square = np.einsum("pi,pi->p", sequences.w, sequences.beta)
    return (
        np.einsum("i,pij,jk,pk->p", row, sequences.Lambda_hat + query, U, sequences.x_q)
        + v * np.einsum("pi,ij,pj->p", sequences.beta, U, sequences.x_q)
        + (sequences.beta @ row) * (sequences.x_q @ u)
        + v * square * (sequences.x_q @ u)
    )


def numbers(expression, values: dict, covariance: np.ndarray, context: int):
    """A trace polynomial at given matrices and scalars {symbol: value}, Lambda = covariance and N = context."""
    polynomial = TracePolynomial(expression)
    known = {Lambda: covariance, D: len(covariance), N: context, **values}

    def multiplied(word):
        result = np.eye(1) if not word else None
        for code in word:
            array = np.asarray(known[symbol_of(code)], dtype=float)
            array = array[:, None] if array.ndim == 1 else array
            array = array.T if is_transposed(code) else array
            array = np.linalg.inv(array) if is_inverse(code) else array
            result = array if result is None else result @ array
        return result

    total = 0.0
    for coefficient, traces, word in polynomial.groups():
        scalars = {scalar_of(generator) for powers in coefficient for generator, _ in powers}
        term = float(coefficient_of(coefficient).subs({scalar: known[scalar] for scalar in scalars}))
        for closed in traces:
            cut = cut_position(closed) or 0
            term *= np.trace(multiplied(closed[cut:] + closed[:cut]))
        if word is not None:
            term = term * (multiplied(word) if word else np.eye(len(covariance)))
        total = total + term
    return total
