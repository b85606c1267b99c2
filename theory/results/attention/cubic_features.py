r"""Moments of the cubic feature z = x_q (x) beta and the linear regression on it: (41)-(43), (16).

With Lambda_N = Lambda + (Lambda + tr(Lambda) I) / N, so that E(Lambda_hat^2) = Lambda Lambda_N, regression of y_q on z for all sequences is
regression in the context of each: E(y_q z') E(z z')^-1 z = beta' Lambda_N^-1 x_q. The covariance Lambda_q of the query drops out.
"""

from sympy import Identity, Trace, ZeroMatrix

from ...algebra.polynomial import TracePolynomial
from ...calculus.derivatives import gradient
from ...calculus.rewriting import rewrite
from ...calculus.substitution import substitute
from ...derivations.derivation import Derivation, Step
from ...derivations.registry import register
from ...expectation.laws import Gaussian
from ...expectation.moments import expect
from ...notation import B, D, Lambda, Lambda_hat, Lambda_q, M, N, beta, symmetric_matrix, v_i, w, x_q, y_q
from ..task.regression import average_context, closed_loss, force
from .blocks import U_i
from .equivalent_networks import AT, OTHER, feature
from .kronecker import index, kron_entry, kron_product, kron_times_vec, vec_entry, vec_times_vec
from .zero_block_loss import B_other

__all__ = ["Lambda_N", "cross_moment", "feature_covariance", "ridge_like", "shrunk_covariance"]

Lambda_N = symmetric_matrix("Lambda_N", D, latex=r"\boldsymbol{\Lambda}_N")
QUERY_LAW = Gaussian(x_q, covariance=Lambda_q)
QUERY = r"The query has any covariance $\boldsymbol{\Lambda}_{q}$, which need not be $\boldsymbol{\Lambda}$"
_MIDDLE = index("3", D, D)


def shrunk_covariance() -> TracePolynomial:
    """Lambda_N = Lambda^-1 E(Lambda_hat^2). It commutes with Lambda, so that M = Lambda Lambda_N = Lambda_N Lambda."""
    value = TracePolynomial(Lambda.I) * expect(Lambda_hat**2)
    if value * Lambda != Lambda * value:
        raise ArithmeticError(f"{value} does not commute with Lambda")
    return value


def cross_moment(at) -> TracePolynomial:
    """The entry of E(y_q z)."""
    return expect(y_q * feature(at), QUERY_LAW)


def feature_covariance(at, other) -> TracePolynomial:
    """The entry of E(z z')."""
    return expect(feature(at) * feature(other), QUERY_LAW)


def _covariance_in_M(at, other) -> TracePolynomial:
    """The entry of E(z z'), with M for E(Lambda_hat^2)."""
    return average_context(expect(feature(at) * feature(other), QUERY_LAW, given=Lambda_hat))


def _inverse(at, other) -> TracePolynomial:
    """The entry of E(z z')^-1 = Lambda_q^-1 (x) M^-1."""
    return kron_entry(Lambda_q.I, M.I)(at, other)


@register(
    "41",
    "Correlation of the target with the cubic feature",
    kind="exact",
    section="Appendix C.4",
    left=r"\mathbb{E}(y_q\boldsymbol{z})_1 = \operatorname{vec}(\boldsymbol{\Lambda}\boldsymbol{\Lambda}_q)_1",
    typed=lambda: AT[1].T * Lambda * Lambda_q * AT[0],
    conditions=(r"The entry at the index 1 $=(\boldsymbol{c}_1, \boldsymbol{e}_1)$ of the stacked columns", QUERY),
)
def correlation_of_features() -> Derivation:
    """One entry, averaged over the task, the query and the context."""
    return Derivation.by(
        Step(
            (
                r"One entry of $y_{q} \boldsymbol{z}$, with $\boldsymbol{z} = \operatorname{vec}(\boldsymbol{\beta} "
                r"\boldsymbol{x}_{q}^{\top})$"
            ),
            y_q * feature(AT),
        ),
        Step("With the targets (4) and the correlation (30)", substitute(y_q * feature(AT), {y_q: w.T * x_q, beta: Lambda_hat * w})),
        Step("Averaged", cross_moment(AT)),
    )


@register(
    "42",
    "Covariance of the cubic feature",
    kind="exact",
    section="Appendix C.4",
    left=r"\mathbb{E}(\boldsymbol{z}\boldsymbol{z}^\top)_{12}"
    r" = \left(\boldsymbol{\Lambda}_q\otimes\mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)\right)_{12}",
    typed=lambda: (
        (AT[0].T * Lambda_q * OTHER[0]) * (AT[1].T * (Lambda**2 + (Lambda + Trace(Lambda) * Identity(D)) * Lambda / N) * OTHER[1])
    ),
    conditions=(
        r"Entries between the indices 1 $=(\boldsymbol{c}_1, \boldsymbol{e}_1)$ and 2 $=(\boldsymbol{c}_2, \boldsymbol{e}_2)$",
        QUERY,
    ),
)
def covariance_of_features() -> Derivation:
    """One entry, averaged over task and query, then over the context."""
    square = feature(AT) * feature(OTHER)
    return Derivation.by(
        Step(r"One entry of $\boldsymbol{z} \boldsymbol{z}^{\top}$", square),
        Step("Averaged over the task vector and the query", expect(square, QUERY_LAW, given=Lambda_hat)),
        Step("Averaged over the context, equation (31)", feature_covariance(AT, OTHER)),
    )


@register(
    "13-heads",
    "Gradient flow of merged attention, head by head",
    kind="exact",
    section="Beside (13)",
    left={
        "U": r"\tau\dot{\boldsymbol{U}}_i",
        "v": r"\tau\dot v_i",
        "row": r"\left(\mathbb{E}(y_q\boldsymbol{z})-\mathbb{E}(\boldsymbol{z}\boldsymbol{z}^\top)"
        r"\boldsymbol{W}_1^\top\boldsymbol{w}_2\right)_1",
    },
    typed=lambda: {
        "U": v_i * (Lambda**2 - M * B * Lambda),
        "v": Trace(U_i.T * (Lambda**2 - M * B * Lambda)),
        "row": AT[1].T * (Lambda * Lambda_q - M * B * Lambda_q) * AT[0],
    },
    conditions=(
        (
            r"$\boldsymbol{B}$ is the sum of $v_{j} \boldsymbol{U}_{j}$ over all heads, any number of them; "
            r"$\boldsymbol{M}$ is $\mathbb{E}(\hat{\boldsymbol{\Lambda}}^{2})$"
        ),
        (
            r"The last is the same from the network (13), with $\operatorname{vec}(\boldsymbol{B})$ for "
            r"$\boldsymbol{W}_{1}^{\top} \boldsymbol{w}_{2}$ and any query covariance; entry 1 $=(\boldsymbol{c}_1, "
            r"\boldsymbol{e}_1)$"
        ),
    ),
)
def flow_of_heads() -> Derivation:
    """The loss (9-closed) with one head beside the map of the others; and the bracket of (13) entry by entry."""
    others = {B: B_other + v_i * U_i}
    loss = substitute(closed_loss().result, others)
    back = {B_other: TracePolynomial(B) - v_i * U_i}
    by_U, by_v = (substitute(-gradient(loss, weight) / 2, back) for weight in (U_i, v_i))
    fitted = kron_times_vec(_covariance_in_M, vec_entry(B), OTHER)(AT)
    return Derivation.by(
        Step("The loss of one head beside the map of the others", loss, r"\mathcal{L}"),
        Step(r"Minus half its gradient by $\boldsymbol{U}_{i}$, in terms of the map of all heads", by_U, part="U"),
        Step("Minus half its derivative by $v_{i}$", by_v, part="v"),
        Step(
            (
                r"An entry of $\mathbb{E}(\boldsymbol{z} \boldsymbol{z}^{\top}) \operatorname{vec}(\boldsymbol{B})$, "
                r"summed over the index of $\operatorname{vec}(\boldsymbol{B})$"
            ),
            fitted,
        ),
        Step(r"An entry of $\mathbb{E}(y_{q} \boldsymbol{z})$ less that", cross_moment(AT) - fitted, part="row"),
    )


@register(
    "43",
    "Inverse covariance of the cubic feature",
    kind="exact",
    section="Appendix C.4",
    left={
        "factor": r"\boldsymbol{\Lambda}_N = \boldsymbol{\Lambda}^{-1}\mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)",
        "inverse": r"\left(\mathbb{E}(\boldsymbol{z}\boldsymbol{z}^\top)^{-1}\right)_{12}",
        "product": r"\left(\mathbb{E}(\boldsymbol{z}\boldsymbol{z}^\top)\,\mathbb{E}(\boldsymbol{z}\boldsymbol{z}^\top)^{-1}\right)_{12}",
    },
    typed=lambda: {
        "factor": Lambda + (Lambda + Trace(Lambda) * Identity(D)) / N,
        "inverse": (AT[0].T * Lambda_q.I * OTHER[0]) * (AT[1].T * Lambda_N.I * Lambda.I * OTHER[1]),
        "product": (AT[0].T * OTHER[0]) * (AT[1].T * OTHER[1]),
    },
    conditions=(r"$\boldsymbol{\Lambda}$ and $\boldsymbol{\Lambda}_{q}$ positive definite", QUERY),
)
def inverse_covariance() -> Derivation:
    """Factor the second moment; invert the Kronecker product factor by factor; multiply back."""
    inverse = kron_entry(Lambda_q.I, TracePolynomial(Lambda * Lambda_N).reciprocal())
    product = kron_product(_covariance_in_M, inverse, _MIDDLE)(AT, OTHER)
    identity = rewrite(product, {M * Lambda_N.I: Lambda})
    return Derivation.by(
        Step(r"The second moment (31) without one factor $\boldsymbol{\Lambda}$", shrunk_covariance(), part="factor"),
        Step(
            (
                r"An entry of $\mathbb{E}(\boldsymbol{z} \boldsymbol{z}^{\top})$, equation (42), with "
                r"$\boldsymbol{M}$ for the second moment"
            ),
            _covariance_in_M(AT, OTHER),
        ),
        Step(
            (
                r"The inverse of the Kronecker product (38c), with $\boldsymbol{M} = \boldsymbol{\Lambda} "
                r"\boldsymbol{\Lambda}_{N}$"
            ),
            inverse(AT, OTHER),
            part="inverse",
        ),
        Step("The product of the two, summed over the index between", product),
        Step(r"With $\boldsymbol{M} = \boldsymbol{\Lambda}_{N} \boldsymbol{\Lambda}$, the identity", identity, part="product"),
    )


@register(
    "16",
    "Least squares on the cubic feature is regression in context",
    kind="exact",
    section="Section 3.4",
    left={
        "factor": r"\boldsymbol{\Lambda}_N = \boldsymbol{\Lambda}^{-1}\mathbb{E}(\hat{\boldsymbol{\Lambda}}^2)",
        "output": r"\mathbb{E}(y_q\boldsymbol{z}^\top)\,\mathbb{E}(\boldsymbol{z}\boldsymbol{z}^\top)^{-1}\boldsymbol{z}",
        "force": r"\boldsymbol{G}\big|_{\boldsymbol{B}=\boldsymbol{\Lambda}_N^{-1}}",
    },
    typed=lambda: {
        "factor": Lambda + (Lambda + Trace(Lambda) * Identity(D)) / N,
        "output": beta.T * Lambda_N.I * x_q,
        "force": ZeroMatrix(D, D),
    },
    conditions=(
        r"$\boldsymbol{\Lambda}$ and $\boldsymbol{\Lambda}_{q}$ positive definite; any $N$ and $D$",
        QUERY,
        r"$\boldsymbol{\Lambda}_N = \boldsymbol{\Lambda} + "
        r"\frac1N(\boldsymbol{\Lambda}+\operatorname{tr}(\boldsymbol{\Lambda})\boldsymbol{I})$",
    ),
)
def ridge_like() -> Derivation:
    """Sum over both indices of the feature; and the same from the force on the effective map."""
    row = kron_times_vec(_inverse, feature, OTHER)
    output = vec_times_vec(cross_moment, row, AT)
    at_minimum = substitute(force(), {B: Lambda_N.I})
    return Derivation.by(
        Step(r"The second moment (31) without one factor $\boldsymbol{\Lambda}$", shrunk_covariance(), part="factor"),
        Step(r"An entry of $\mathbb{E}(y_{q} \boldsymbol{z})$, equation (41)", cross_moment(AT), r"\mathbb{E}(y_q\boldsymbol{z})_1"),
        Step(
            (
                r"An entry of $\mathbb{E}(\boldsymbol{z} \boldsymbol{z}^{\top})^{-1} \boldsymbol{z}$, summed over "
                "the index 2"
            ),
            row(AT),
        ),
        Step("Summed over the index 1", output),
        Step(
            r"$\boldsymbol{M} = \boldsymbol{\Lambda} \boldsymbol{\Lambda}_{N}$, and the two commute",
            rewrite(output, {M.I * Lambda: Lambda_N.I}),
            part="output",
        ),
        Step("The force (53) at this map", at_minimum),
        Step("It vanishes, for the same reason", rewrite(at_minimum, {M * Lambda_N.I: Lambda}), part="force"),
    )
