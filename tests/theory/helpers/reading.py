"""Text as a trace polynomial."""

from iclflow.theory.algebra.polynomial import TracePolynomial
from iclflow.theory.derivations import carried_out
from iclflow.theory.proofs.meaning import read_text


def parse(text: str) -> TracePolynomial:
    return TracePolynomial(carried_out(read_text(text)[0]))
