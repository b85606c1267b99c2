r"""The regression task: definitions (1)-(4), (8)-(10), (28), (30), the moments (31)-(33), and the loss as a function of the effective map.

Everything below is computed from the laws of the data; only the paper's sides are typed.
"""

from functools import cache

from sympy import Trace

from .calculus import gradient, substitute
from .derivation import Derivation, Step
from .equations import register
from .moments import expect
from .notation import B, Lambda, Lambda_hat, M, N, beta, x_q, y_q
from .trace_algebra import TracePolynomial

__all__ = ["closed_loss", "force", "population_loss", "second_moment"]


@register(
    "31",
    "Second moment of the sample covariance",
    kind="exact",
    section="Appendix B.2",
    left=r"\mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)",
    typed=lambda: (N - 1) / N * Lambda**2 + (2 * Lambda**2 + Trace(Lambda) * Lambda) / N,
    conditions=("x_n ~ N(0, Lambda), independent",),
)
def second_moment() -> Derivation:
    """Stein's lemma on the first of the two sample covariances; D and N stay symbols."""
    A = TracePolynomial(Lambda_hat)
    struck = TracePolynomial(Lambda) * expect(A)
    return Derivation.by(
        Step("Strike one sample covariance: independent of the other, it becomes its mean", struck, r"\mathbb{E}_1"),
        Step(
            "Add the windings in which it shares a token with the other, with weight 1/N each",
            expect(A**2),
            r"\mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)",
        ),
    )


@register(
    "20",
    "Second moment of the sample covariance, as in the main text",
    kind="exact",
    section="Section 4.2",
    left=r"\mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)",
    typed=lambda: Lambda**2 + (Lambda**2 + Trace(Lambda) * Lambda) / N,
)
def second_moment_main_text() -> Derivation:
    """Equation (31) again."""
    return second_moment()


@cache
def population_loss() -> TracePolynomial:
    r"""L(B) = E(y_q - beta' B x_q)^2, equation (9) on the effective map, with E(Lambda_hat^2) written out. Derived by ``expect``."""
    return expect((y_q - beta.T * B * x_q) ** 2)


@register(
    "9-closed",
    "The population loss as a function of the effective map",
    kind="exact",
    section="beside (9)",
    left=r"\mathcal{L}(\boldsymbol{B})",
    typed=lambda: Trace(Lambda) - 2 * Trace(Lambda * B * Lambda) + Trace(B.T * M * B * Lambda),
    conditions=("M is E(Lambda_hat^2), equation (31)",),
)
def closed_loss() -> Derivation:
    """Average over the task and the query, then over the context, where Lambda_hat stands at most twice."""
    error = TracePolynomial(y_q - beta.T * B * x_q) ** 2
    return Derivation.by(
        Step("The squared error of the prediction beta' B x_q", error, r"(y_q-\hat y_q)^2"),
        Step("Average over the task vector and the query", expect(error, given=Lambda_hat), r"\mathbb{E}_{w,x_q}"),
        Step("Average over the context", population_loss(), r"\mathcal{L}"),
        Step(
            "Write M for the second moment (31)",
            _in_second_moment(population_loss(), Trace(B.T * M * B * Lambda)),
            r"\mathcal{L}",
        ),
    )


def _in_second_moment(polynomial: TracePolynomial, part) -> TracePolynomial:
    """Write ``part``, in which M stands for E(Lambda_hat^2), for what it expands to: add the part, take away its expansion."""
    return polynomial - substitute(part, {M: expect(Lambda_hat**2)}) + part


@cache
def force() -> TracePolynomial:
    """G = -1/2 dL/dB, with E(Lambda_hat^2) written as M."""
    return -gradient(closed_loss().result, B) / 2


@register(
    "53",
    "The force on the effective map",
    kind="exact",
    section="Appendix D.2",
    left=r"\mathbb{E}\left(\boldsymbol{\beta}(y_q-\hat y_q)\boldsymbol{x}_q^\top\right)",
    typed=lambda: Lambda**2 - M * B * Lambda,
    conditions=("M is E(Lambda_hat^2), equation (31)", "B is the effective map, sum_i v_i k_i q_i' for rank one"),
)
def correlation_with_error() -> Derivation:
    """The correlation of the error with beta and x_q, averaged; it is minus half the gradient of the loss in B."""
    correlation = TracePolynomial(beta * (y_q - x_q.T * B.T * beta) * x_q.T)
    averaged = expect(correlation)
    return Derivation.by(
        Step("Average over the task vector and the query", expect(correlation, given=Lambda_hat)),
        Step("Average over the context", averaged),
        Step("Write M for the second moment (31)", _in_second_moment(averaged, -M * B * Lambda)),
    )
