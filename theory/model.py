r"""Your own model: one expression for the prediction gives its loss and its gradient flow; the other layers add numbers and a check.

>>> from iclflow.theory.notation import D, Lambda_hat, beta, matrix, x_q
>>> U = matrix("U", D)
>>> model = Model(prediction=beta.T * U * x_q, weights=(U,))
>>> model.flow()[U]                                                       # the force (53), with M = E(Lambda_hat^2) written out
Lambda^2 - (1 + 1/N) Lambda^2 U Lambda - 1/N tr(Lambda) Lambda U Lambda

The loss is L = E(y_q - prediction)^2 over the laws of the data, the flow tau dW/dt = -1/2 dL/dW, equations (9) and (10).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from sympy import Symbol
from sympy.matrices.expressions import MatrixSymbol

from . import words
from .calculus import gradient
from .laws import PAPER_LAWS, Law, SampleCovariance
from .moments import expect
from .notation import D, Lambda, N, y_q
from .trace_algebra import TracePolynomial

__all__ = ["KNOWN", "Model"]

# What every task gives a value to.
KNOWN = frozenset((Lambda, N, D))


@dataclass(frozen=True)
class Model:
    """A model of in-context regression, by its prediction for one sequence.

    ``prediction``: a scalar expression, polynomial in the data, in ``beta``, ``Lambda_hat``, ``x_q``, the weights and any symbols of
    ``laws`` or ``constants``. ``weights``: the matrix symbols (or scalar symbols) that are learned, of any shape. ``laws``: laws of
    further random symbols, or other laws than the paper's (2)-(4), (28), (30). ``constants``: fixed symbols, given a value when numbers
    are computed. ``target``: what is predicted, y_q = w' x_q unless told otherwise.

    Raises ValueError for a prediction that is not a polynomial or not a scalar, for a weight that is not in the prediction, and for a
    symbol that is none of the above.
    """

    prediction: Any
    weights: tuple
    laws: tuple = ()
    constants: tuple = ()
    target: Any = y_q

    def __post_init__(self):
        for name in ("prediction", "target"):
            object.__setattr__(self, name, _scalar(name, getattr(self, name)))
        for name in ("weights", "laws", "constants"):
            given = getattr(self, name)
            object.__setattr__(self, name, tuple(given) if isinstance(given, (tuple, list)) else (given,))
        for law in self.laws:
            if not isinstance(law, Law):
                raise TypeError(f"laws must hold laws (Gaussian, SampleCovariance, Fixed, Mixture), got {law!r}")
        self._check_weights()
        self._check_letters()

    def _check_weights(self) -> None:
        if not self.weights:
            raise ValueError("weights must name at least one symbol to learn, got none")
        names = [str(weight) for weight in self.weights]
        if len(set(names)) < len(names):
            raise ValueError(f"weights must have names of their own, got {names}")
        for weight in self.weights:
            if not isinstance(weight, (Symbol, MatrixSymbol)):
                raise TypeError(f"weights must be symbols, e.g. matrix('U', D) of theory.notation, got {weight!r}")
            if weight in self.random or weight in KNOWN or weight in self.constants:
                raise ValueError(f"weights must not hold {weight}, which the task, a law or constants already fix")
            if weight not in self.prediction.free_symbols:
                raise ValueError(
                    f"weights holds {weight}, on which the prediction {self.prediction} does not depend: "
                    "use it there (the same symbol, of the same shape), or take it out of weights"
                )

    def _check_letters(self) -> None:
        used = set(self.prediction.free_symbols | self.target.free_symbols)
        for _ in self.random:  # each pass reaches laws one level further in
            used |= set().union(*(self.random[s].parents for s in used & self.random.keys()))
        unknown = used - set(self.weights) - self.random.keys() - KNOWN - set(self.constants)
        if unknown:
            one = min(unknown, key=str)
            law = (
                f"SampleCovariance({one}, Lambda, N)"
                if getattr(one, "is_symmetric_letter", False)
                else f"Gaussian({one})"
            )
            raise ValueError(
                f"{one} has no law, is no weight and no constant, but the loss depends on it: give its law, e.g. laws=({law},), "
                f"or add it to weights (to learn it) or to constants (to give its value later)"
            )

    @cached_property
    def random(self) -> Mapping[Any, Any]:
        """The law of each random symbol: the paper's, with those of ``laws`` in their place."""
        return MappingProxyType({law.symbol: law for law in (*PAPER_LAWS, *self.laws)})

    @cached_property
    def _loss(self) -> TracePolynomial:
        return expect((self.target - self.prediction) ** 2, self.laws)

    @cached_property
    def _flow(self) -> Mapping[Any, TracePolynomial]:
        return MappingProxyType({weight: -gradient(self._loss, weight) / 2 for weight in self.weights})

    def loss(self) -> TracePolynomial:
        """L = E(target - prediction)^2, equation (9), exact in the weights, Lambda and N."""
        return self._loss

    @cached_property
    def conditions(self) -> frozenset:
        """The inequalities under which the loss exists: those of its inverse moments, and N >= D where Lambda_hat is inverted at all."""
        inverted = {
            words.symbol_of(code)
            for formula in (self.prediction, self.target)
            for _, traces, _ in formula.terms
            for word in traces
            for code in word
            if words.is_inverse(code)
        }
        laws = [self.random[symbol] for symbol in inverted & self.random.keys()]
        full_rank = {law.samples.to_sympy() >= law.symbol.shape[0] for law in laws if isinstance(law, SampleCovariance)}
        return self._loss.conditions | full_rank

    def flow(self) -> Mapping[Any, TracePolynomial]:
        """{weight: tau dW/dt} = {weight: -1/2 dL/dW}, equation (10)."""
        return self._flow


def _scalar(name: str, expression) -> TracePolynomial:
    try:
        polynomial = TracePolynomial(expression)
    except ValueError as error:
        raise ValueError(f"{name} must be a polynomial in the data and the weights: {error}") from None
    if polynomial.shape is not None:
        raise ValueError(
            f"{name} must be one number for each sequence, such as beta.T * U * x_q, "
            f"got the matrix {polynomial} of shape {polynomial.shape}"
        )
    return polynomial
