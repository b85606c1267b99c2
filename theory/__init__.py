"""Symbols and derivations: the paper's formulas, computed from its definitions."""

from .calculus import collect, substitute
from .derivatives import derivative, gradient, hessian_form
from .entrywise import explicit
from .equations import equation, search
from .laws import Fixed, Gaussian, Mixture, SampleCovariance
from .model import Model
from .moments import expect
from .registry import Equation
from .trace_algebra import TracePolynomial

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
    "Model",
    "Equation",
    "equation",
    "search",
]
