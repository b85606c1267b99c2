"""Prompts of a varied task written out entry by entry, over exact rationals; every law differs from the paper's."""

from collections.abc import Callable
from fractions import Fraction

import sympy
from entries import Entries, isserlis
from iclflow.theory import explicit, substitute
from iclflow.theory.notation import B, Lambda, Lambda_q, sigma
from iclflow.theory.results.task.population import Sigma_w

COVARIANCES = {Lambda: [[2, 1], [1, 3]], Sigma_w: [[1, -1], [-1, 2]], Lambda_q: [[2, -1], [-1, 1]]}
MAP = [[1, -2], [3, 1]]
NOISE = 2  # sigma


def prompt(samples: int) -> tuple[Entries, Entries, Entries, Callable]:
    """beta, x_q and y_q of a context written out, and their moments; tokens are scaled by N^(-1/2)."""
    tokens = Entries.variables([[("y", n, i) for n in range(samples)] for i in range(2)])
    noise = Entries.variables([[("e", n, 0)] for n in range(samples)])
    task, query = (Entries.variables([[(name, 0, i)] for i in range(2)]) for name in "wx")
    target = task.T * query + Entries.variables([[("f", 0, 0)]])
    correlation = tokens * (tokens.T * task + noise)

    def covariance(first, second):
        (kind, n, i), (kind2, n2, j) = first, second
        if (kind, n) != (kind2, n2):
            return 0
        return {
            "y": Fraction(COVARIANCES[Lambda][i][j], samples),
            "e": Fraction(NOISE**2, samples),
            "f": Fraction(NOISE**2),
            "w": Fraction(COVARIANCES[Sigma_w][i][j]),
            "x": Fraction(COVARIANCES[Lambda_q][i][j]),
        }[kind]

    return correlation, query, target, isserlis(covariance)


def values(formula, samples: int) -> list[list[Fraction]]:
    """A formula of the theory at the same covariances, map and noise."""
    known = {symbol: sympy.Matrix(rows) for symbol, rows in {**COVARIANCES, B: MAP}.items()}
    value = explicit(substitute(formula, {sigma: NOISE}), values=known, D=2, N=samples)
    rows = value.tolist() if isinstance(value, sympy.MatrixBase) else [[value]]
    return [[Fraction(int(x.p), int(x.q)) for x in row] for row in rows]
