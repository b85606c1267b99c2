"""Symbols and derivations: the paper's formulas, computed from its definitions."""

from .algebra.letters import letters
from .algebra.polynomial import TracePolynomial
from .calculus.derivatives import derivative, gradient, hessian_form
from .calculus.entrywise import explicit
from .calculus.substitution import collect, substitute
from .derivations.registry import Equation
from .equations import equation, search
from .expectation.laws import Fixed, Gaussian, Mixture, SampleCovariance
from .expectation.moments import expect
from .model import Model

__all__ = [
    "TracePolynomial",
    "expect",
    "Gaussian",
    "SampleCovariance",
    "Mixture",
    "Fixed",
    "gradient",
    "derivative",
    "hessian_form",
    "substitute",
    "collect",
    "explicit",
    "letters",
    "Model",
    "Equation",
    "equation",
    "search",
]
