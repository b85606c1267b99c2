"""A matrix-valued term l' P r, closed by a constant vector at each end, is a scalar term: what is done to closed words serves open ones."""

from functools import cache

from sympy.matrices.expressions import MatrixSymbol

from . import words
from .polynomial import TracePolynomial
from .terms import Terms, accumulate, trace

__all__ = ["close_ports", "open_ports"]


class _Port(MatrixSymbol):
    """A constant vector that no user's symbol can be equal to, whatever its name."""


@cache
def _ports(rows, columns) -> tuple[words.Word, words.Word]:
    """The letters l' and r that close an open word; none where the dimension is 1 already."""
    left = () if rows == 1 else words.transpose((words.letter(_Port("<left>", rows, 1)),))
    right = () if columns == 1 else (words.letter(_Port("<right>", columns, 1)),)
    return left, right


def close_ports(polynomial: TracePolynomial) -> Terms:
    """The terms of l' P r for a matrix-valued P (its shape says how to open them again); of P itself for a scalar."""
    if polynomial.shape is None:
        return polynomial.terms
    left, right = _ports(*polynomial.shape)
    terms: Terms = {
        (scalars, traces, left + word + right): n for (scalars, traces, word), n in polynomial.terms.items()
    }
    return trace(terms, 1)  # l' P r is 1 x 1


def open_ports(terms: Terms, shape: tuple | None, conditions: frozenset = frozenset()) -> TracePolynomial:
    """The polynomial P of the given shape whose closed form l' P r has these terms."""
    if shape is None:
        return TracePolynomial.from_terms(terms, None, conditions)
    left, right = _ports(*shape)
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
