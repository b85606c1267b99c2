r"""The moments of the feature phi = Gram (x) x_q entry by entry (V6): what numbers need of the unreduced loss.

A head of unit weights, with vectors a, b, c in place of the three indices, predicts the feature itself, so its moments are polynomials
linear in each vector, for every dimension at once.
"""

from sympy import ZeroMatrix

from ...algebra.polynomial import TracePolynomial
from ...calculus import substitute
from ...notation import D, v_i, vector, y_q
from ..attention.blocks import U_i, u_i, value_row
from .population_loss import LAWS

SLOTS = tuple(vector(name, D) for name in ("a", "b", "c"))
_OTHER_SLOTS = tuple(vector(f"{name}_j", D) for name in ("a", "b", "c"))
_KINDS = ("tokens", "cross", "label")  # the entries of the Gram matrix: two tokens, a token and the label, the label twice


def _basis_head(kind: str, expand, slots) -> TracePolynomial:
    """The feature (Gram_ab) (c' x_q), as the prediction of a head with unit weights: a, b and c stand for indices."""
    a, b, c = slots
    none, square = ZeroMatrix(D, 1), ZeroMatrix(D, D)
    row, v, U, u = {"tokens": (a, 0, b * c.T, none), "cross": (none, 1, b * c.T, none), "label": (none, 1, square, c)}[kind]
    return substitute(expand(), {value_row: row, v_i: v, U_i: U, u_i: u})


def target_square(law: str) -> TracePolynomial:
    """E(y_q^2) under one law of the task; see ``cross_moments``."""
    return LAWS[law][1](y_q**2)


def cross_moments(law: str) -> dict[str, tuple[TracePolynomial, tuple]]:
    """E(y_q phi) for each kind of entry of the Gram matrix, and the letters that stand for its indices.

    ``law`` of the task: "random" (N(0, I)), "fixed" (the letter w), or "noise" (the labels are noise and the task is w_0).
    """
    expand, mean = LAWS[law]
    return {kind: (mean(y_q * _basis_head(kind, expand, SLOTS)), _used(kind, SLOTS)) for kind in _KINDS}


def feature_moments(law: str) -> dict[tuple[str, str], tuple[TracePolynomial, tuple]]:
    """E(phi phi') for each pair of kinds, with the letters that stand for the indices of both."""
    expand, mean = LAWS[law]
    return {
        (one, other): (
            mean(_basis_head(one, expand, SLOTS) * _basis_head(other, expand, _OTHER_SLOTS)),
            _used(one, SLOTS) + _used(other, _OTHER_SLOTS),
        )
        for one in _KINDS
        for other in _KINDS
    }


def _used(kind: str, slots: tuple) -> tuple:
    return slots[("tokens", "cross", "label").index(kind) :]
