"""A matrix-valued term P as the scalar l' P r, with a constant vector at each end: what works on closed words works on open ones too."""

from functools import cache

from sympy.matrices.expressions import MatrixSymbol

from . import words
from .polynomial import TracePolynomial
from .terms import Terms, accumulate, trace_terms


class _End(MatrixSymbol):
    """A constant vector that differs from every symbol of a user, whatever its name."""


@cache
def _ends(rows, columns, of: str) -> tuple[words.Word, words.Word]:
    """The letters l' and r that close an open word; none at an end whose dimension is already 1."""
    left = () if rows == 1 else words.transpose((words.letter(_End(f"<left{of}>", rows, 1)),))
    right = () if columns == 1 else (words.letter(_End(f"<right{of}>", columns, 1)),)
    return left, right


def close_ends(polynomial: TracePolynomial, of: str = "") -> Terms:
    """The terms of l' P r for a matrix P, or of P itself for a scalar.

    ``of``: whose ends these are, if P can be closed again before they are opened, as by a map that is given to an average.
    """
    if polynomial.shape is None:
        return polynomial.terms
    left, right = _ends(*polynomial.shape, of)
    terms: Terms = {(scalars, traces, left + word + right): n for (scalars, traces, word), n in polynomial.terms.items()}
    return trace_terms(terms, 1)  # l' P r is 1 x 1


def open_ends(terms: Terms, shape: tuple | None, conditions: frozenset = frozenset(), of: str = "") -> TracePolynomial:
    """The inverse: the polynomial P of the given shape whose closed form l' P r has these terms."""
    if shape is None:
        return TracePolynomial.from_terms(terms, None, conditions)
    left, right = _ends(*shape, of)
    opened: Terms = {}
    for (scalars, traces, _), number in terms.items():
        head, tail, others = (), (), []
        for closed in traces:
            cut = words.cut_position(closed)
            turned = closed if cut is None else closed[cut:] + closed[:cut]
            if (right and right[0] ^ 1 == turned[0]) or (left and left[0] ^ 1 == turned[-1]):
                turned = words.transpose(turned)
            if left and turned[0] == left[0]:
                head = turned[1:]
            elif right and turned[-1] == right[0]:
                tail = turned[:-1]
            else:
                others.append(closed)
        if right and head[-1:] == right:
            head = head[:-1]
        accumulate(opened, (scalars, tuple(others), head + tail), number)
    return TracePolynomial.from_terms(opened, shape, conditions)
