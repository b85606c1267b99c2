"""Symbols and derivations: the paper's formulas, computed from its definitions."""

from typing import TYPE_CHECKING, Any

from .algebra.letters import letters
from .algebra.polynomial import TracePolynomial
from .calculus.derivatives import derivative, gradient, hessian_form
from .calculus.entrywise import explicit
from .calculus.substitution import collect, substitute
from .derivations.heads import E
from .derivations.registry import Equation
from .equations import equation, search
from .expectation.laws import Fixed, Gaussian, Mixture, SampleCovariance
from .expectation.moments import covariance, expect, expect_kronecker, variance
from .model import Model

if TYPE_CHECKING:
    from .proofs.building import derive

__all__ = [
    "TracePolynomial", "expect", "variance", "covariance", "expect_kronecker", "Gaussian", "SampleCovariance",
    "Mixture", "Fixed", "gradient", "derivative", "hessian_form", "substitute", "collect", "explicit", "letters",
    "Model", "E", "derive", "Equation", "equation", "search",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """``derive`` and ``__version__``, loaded when they are asked for."""
    if name == "derive":
        from .proofs.building import derive

        return derive
    if name == "__version__":
        from importlib.metadata import version

        return version("iclflow")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
