r"""Moments of the cubic feature z = x_q (x) beta and the linear regression on it: (41)-(43), (16).

With Lambda_N = Lambda + (Lambda + tr(Lambda) I) / N, so that E(Lambda_hat^2) = Lambda Lambda_N, regression of y_q on z for all sequences is
regression in the context of each: E(y_q z') E(z z')^-1 z = beta' Lambda_N^-1 x_q. The covariance Lambda_q of the query drops out.
"""

from functools import partial

from sympy import Identity, Trace, ZeroMatrix
from sympy.matrices.expressions.kronecker import KroneckerProduct

from ...algebra.polynomial import TracePolynomial
from ...calculus import gradient, rewrite, substitute
from ...derivations import Condition, E, Gradient, Line, Lines, SumOver, as_sympy, carried_out, given, note, register, states
from ...derivations.draws import definite, singular
from ...derivations.matrix_forms import Vec
from ...expectation import Gaussian, expect
from ...notation import B, B_rest, D, G, Lambda, Lambda_hat, Lambda_q, M, N, beta, symmetric_matrix, v_i, x_q, y_q
from ...typesetting.latex import formula_latex
from ..task.population import PAPER, Task
from ..task.regression import SECOND_MOMENT, closed_loss, force, population_error
from .blocks import U_i
from .equivalent_networks import AT, COVARIANCE, CROSS, OTHER, feature, z
from .kronecker import index, kron_entry, kron_product, kron_times_vec, unit, vec_entry, vec_times_vec

Lambda_N = symmetric_matrix("Lambda_N", D, latex=r"\boldsymbol{\Lambda}_N")
ANY_QUERY = Task(query_covariance=Lambda_q)
QUERY_LAW = Gaussian(x_q, covariance=Lambda_q)
QUERY = r"The query has any covariance $\boldsymbol{\Lambda}_{q}$"
POSITIVE = Condition(
    r"$\boldsymbol{\Lambda}$ and $\boldsymbol{\Lambda}_{q}$ are positive definite", definite(Lambda, Lambda_q), outside=singular
)
MIDDLE = index("3", D, D)


def shrunk_covariance() -> TracePolynomial:
    """Lambda_N = Lambda^-1 E(Lambda_hat^2)."""
    return TracePolynomial(Lambda.I) * expect(Lambda_hat**2)


def _definitions(task: Task) -> tuple[Line, ...]:
    """The letter M: for the paper's context the second moment of the sample covariance."""
    return (SECOND_MOMENT,) if task in (PAPER, ANY_QUERY) else task.definitions()


def _square(at, other):
    """The entry of z z'."""
    return feature(at) * feature(other)


def _covariance(at, other, task: Task = ANY_QUERY) -> TracePolynomial:
    """The entry of E(z z'), with the letter M for the second moment of beta."""
    return (at[0].T * task.moments.Q * other[0]) * (at[1].T * M * other[1])


@register("41", "Correlation of the target with the cubic feature", section="Appendix C.4")
@states(lambda: AT[1].T * Lambda * Lambda_q * AT[0])
@given(QUERY)
def correlation_of_features(task: Task = ANY_QUERY) -> Lines:
    """One entry, averaged over the task, the query and the context."""
    target, A = y_q * feature(AT), task.moments.A
    averaged = TracePolynomial(AT[1].T) * A * AT[0]
    yield from task.gains()
    yield Line(CROSS, ":=", Vec(A.to_sympy()), "What the last line finds, entry by entry")
    yield Line(y_q * unit(AT).T * z, "=", target, r"One entry of $y_q\boldsymbol{z}$", "12")
    yield Line(unit(AT).T * CROSS, "=", averaged, rf"The same entry of $\operatorname{{vec}}({formula_latex(A.to_sympy())})$")
    yield Line(task.E(target), "=", averaged, "It is the average over the task vector, the query and the context")


@register("42", "Covariance of the cubic feature", section="Appendix C.4")
@states(lambda: (AT[0].T * Lambda_q * OTHER[0]) * (AT[1].T * (Lambda**2 + (Lambda + Trace(Lambda) * Identity(D)) * Lambda / N) * OTHER[1]))
@given(QUERY)
def covariance_of_features(task: Task = ANY_QUERY) -> Lines:
    """One entry, averaged over task and query, then over the context."""
    square, entry = _square(AT, OTHER), _covariance(AT, OTHER, task)
    given_context, averaged = task.E(square, given=(Lambda_hat,)), substitute(entry, {M: task.moments.M})
    yield from _definitions(task)
    yield Line(COVARIANCE, ":=", KroneckerProduct(as_sympy(task.query_covariance), M), "What the average is below, entry by entry")
    yield Line((unit(AT).T * z) * (z.T * unit(OTHER)), "=", square, r"One entry of $\boldsymbol{zz}^\top$", "12")
    yield Line(unit(AT).T * COVARIANCE * unit(OTHER), "=", entry, "The same entry of the Kronecker product")
    yield Line(given_context, "=", carried_out(given_context), "Average over the task vector and the query")
    yield Line(task.E(square), "=", entry, "Then over the context: it is that entry")
    yield Line(task.E(square), "=", averaged, "With the second moment (31)")


@register("13-heads", "Gradient flow of merged attention, head by head", section="Beside (13)")
@states("U", lambda: v_i * (Lambda**2 - M * B * Lambda))
@states("v", lambda: Trace(U_i.T * (Lambda**2 - M * B * Lambda)))
@states("row", lambda: AT[1].T * (Lambda * Lambda_q - M * B * Lambda_q) * AT[0])
@note(
    r"The last is an entry of the bracket in (13), with $\operatorname{vec}(\boldsymbol{B})$ for $\boldsymbol{W}_{1}^{\top} "
    r"\boldsymbol{w}_{2}$ and any query covariance"
)
def flow_of_heads(task: Task = PAPER) -> Lines:
    """The loss (9-closed) with one head beside the map of the others; and the bracket of (13) entry by entry."""
    whole, queried = B_rest + v_i * U_i, ANY_QUERY if task == PAPER else task
    loss, error = substitute(closed_loss(task).result, {B: whole}), population_error(whole, task)
    by_U, by_v = (substitute(-gradient(loss, weight) / 2, {B_rest: TracePolynomial(B) - v_i * U_i}) for weight in (U_i, v_i))
    fitted = kron_times_vec(partial(_covariance, task=queried), vec_entry(B), OTHER)(AT)
    covariance, correlation = queried.E(_square(AT, OTHER)), queried.E(y_q * feature(AT))
    row = SumOver(covariance * (OTHER[1].T * B * OTHER[0]), *OTHER)
    yield from _definitions(task)
    yield Line(B, ":=", whole, "The map of all heads")
    yield Line(-Gradient(error, U_i) / 2, "=", by_U, r"Minus half the gradient of the loss by $\boldsymbol{U}_{i}$", part="U")
    yield Line(-Gradient(error, v_i) / 2, "=", by_v, "Minus half its derivative by $v_{i}$", part="v")
    yield Line(row, "=", fitted, r"An entry of $\mathbb{E}(\boldsymbol{zz}^\top)\operatorname{vec}(\boldsymbol{B})$")
    yield Line(correlation - row, "=", TracePolynomial(AT[1].T) * queried.moments.A * AT[0] - fitted,
               r"An entry of $\mathbb{E}(y_{q} \boldsymbol{z})$ less that", part="row")  # fmt: skip


@register("43", "Inverse covariance of the cubic feature", section="Appendix C.4")
@states("factor", lambda: Lambda + (Lambda + Trace(Lambda) * Identity(D)) / N)
@states("inverse", lambda: (AT[0].T * Lambda_q.I * OTHER[0]) * (AT[1].T * Lambda_N.I * Lambda.I * OTHER[1]))
@states("product", lambda: (AT[0].T * OTHER[0]) * (AT[1].T * OTHER[1]))
@given(POSITIVE, QUERY)
def inverse_covariance() -> Lines:
    """Factor the second moment; invert the Kronecker product factor by factor; multiply back."""
    inverse = kron_entry(Lambda_q.I, TracePolynomial(Lambda * Lambda_N).reciprocal())
    product = kron_product(_covariance, inverse, MIDDLE)(AT, OTHER)
    multiplied = SumOver(E(_square(AT, MIDDLE), QUERY_LAW) * inverse(MIDDLE, OTHER).to_sympy(), *MIDDLE)
    yield Line(Lambda_N, ":=", Lambda.I * E(Lambda_hat**2), r"The second moment (31) without one factor $\boldsymbol{\Lambda}$")
    yield Line(Lambda_N, "=", shrunk_covariance(), "Written out", part="factor")
    yield Line(M, "=", Lambda * Lambda_N, "The two factors commute", ("42",))
    yield Line(unit(AT).T * COVARIANCE.I * unit(OTHER), "=", inverse(AT, OTHER),
               "The inverse of the Kronecker product (42) is that of its factors (38c)", ("42",), "inverse")  # fmt: skip
    yield Line(multiplied, "=", product, r"The product with $\mathbb{E}(\boldsymbol{zz}^\top)$, summed over the index between", ("42",))
    yield Line(multiplied, "=", rewrite(product, {M * Lambda_N.I: Lambda}), "It is the identity", part="product")


@register("16", "Least squares on the cubic feature is regression in context", section="Section 3.4")
@states("factor", lambda: Lambda + (Lambda + Trace(Lambda) * Identity(D)) / N)
@states("output", lambda: beta.T * Lambda_N.I * x_q)
@states("force", lambda: ZeroMatrix(D, D))
@given(POSITIVE, QUERY)
def ridge_like() -> Lines:
    """Sum over both indices of the feature; and the same from the force on the effective map."""
    inverse = kron_entry(Lambda_q.I, M.I)
    output = vec_times_vec(lambda at: expect(y_q * feature(at), QUERY_LAW), kron_times_vec(inverse, feature, OTHER), AT)
    entries = E(y_q * feature(AT), QUERY_LAW) * (inverse(AT, OTHER) * feature(OTHER)).to_sympy()
    predicted, at_minimum = CROSS.T * COVARIANCE.I * z, substitute(force(), {B: Lambda_N.I})
    yield Line(Lambda_N, "=", shrunk_covariance(),
               r"The second moment (31) without one factor $\boldsymbol{\Lambda}$", ("42", "43"), "factor")  # fmt: skip
    yield Line(SumOver(entries, *AT, *OTHER), "=", output, r"The moments (41), (43) and $\boldsymbol{z}$ summed over both indices")
    yield Line(predicted, "=", output, "It is the prediction of least squares", ("12", "41", "42"))
    yield Line(predicted, "=", rewrite(output, {M.I * Lambda: Lambda_N.I}),
               r"$\boldsymbol{M} = \boldsymbol{\Lambda} \boldsymbol{\Lambda}_{N}$, and the two commute",
               ("12", "41", "42", "43"), "output")  # fmt: skip
    yield Line(B, ":=", Lambda_N.I, "The same map of the model", ("43",))
    yield Line(G, "=", at_minimum, "The force (53) there", ("42", "53"))
    yield Line(G, "=", rewrite(at_minimum, {M * Lambda_N.I: Lambda}), "It vanishes", ("43", "42", "53"), "force")
